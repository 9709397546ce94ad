//! A worker: one thread that serves its connections, each request to completion.
//!
//! A round waits for readiness once, gives each ready connection one turn (one receive, all it
//! brought is executed), then sends each connection's replies with one call. A connection that
//! has more input than its turn takes is queued for the next round, behind the ready ones.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::DatabaseIndex;
use command::{ClientInfo, Replies};
use engine::{ExecutionContext, Session};
use resp::{Batch, Protocol};
use sys::poll::{Events, Interest, Poller, Ready};

use crate::accept::Acceptor;
use crate::buffers::BufferPool;
use crate::config::Settings;
use crate::connection::{CloseReason, Connection, Flushed, RECEIVE_BYTES, Turn, WorkerContext};
use crate::listen::Listener;
use crate::mailbox::{Mailbox, Message};
use crate::server_state::ServerState;
use crate::shared_time::SharedTime;
use crate::statistics::WorkerCounters;
use crate::token_table::{Token, TokenTable};
use crate::transport::{Endpoint, OpenContext, Pending, TransportEnd};
use log_turn::LogTurn;
use messages::note_monitor;
use polled::stay_awake;
use polling::{PollMode, Polling};
use receive_ahead::ReceiveAhead;
use waiting_connections::{WaitPlace, Waiting};

/// Events of one wait, and so the connections served in one round beside those queued.
const EVENTS_MAX: usize = 512;
/// Replies of one connection above which they are sent at once, not at the end of the round.
const DEFERRED_BYTES_MAX: usize = 64 * 1024;
/// Growth of private memory that is reported to the keyspace in one piece.
const REPORTED_BYTES_MIN: isize = 16 * 1024;

/// How often a worker that polls for a lone client offers its processor to that client's peer.
const YIELD_INTERVAL: Duration = Duration::from_micros(2);

/// The token of the mailbox.
const MAILBOX_TOKEN: u64 = u64::MAX;

/// One worker.
pub struct Worker<'s> {
    index: usize,
    shared: &'s ServerState,
    mailbox: &'s Mailbox,
    counters: &'s WorkerCounters,
    poller: Poller,
    connections: TokenTable<Member>,
    receive: Box<[u8]>,
    batch: Batch,
    /// What was received for the connections that have their turns next.
    ahead: ReceiveAhead,
    buffers: BufferPool,
    execution: ExecutionContext<'s>,
    /// When the time in `execution` was read.
    time: SharedTime,
    settings: Arc<Settings>,
    settings_version: u64,
    /// Connections with more input than their turn took.
    queued: VecDeque<Token>,
    /// Connections whose replies have not been sent in this round.
    unflushed: Vec<Token>,
    /// Connections whose replies wait for their release, in the order in which they began to, and
    /// some that are gone.
    held: Vec<Token>,
    /// How many of them are there.
    held_count: usize,
    /// Connections whose sessions wait for the log: the bits of their tokens.
    awaiting_log: BTreeSet<u64>,
    /// Who writes the log for them.
    log_turn: LogTurn,
    /// Connections that are polled: they were served since the worker slept last.
    awake: Vec<Token>,
    /// Keys of the waits that this round has ended.
    ended_keys: usize,
    /// Growth of private memory that the keyspace has not been told of.
    unreported_bytes: isize,
    /// What the keyspace knows of the memory that the distributions of times take.
    histogram_bytes: u64,
    /// Whether it polls for more before it sleeps.
    polling: Polling,
    /// For how long; zero for not at all.
    busy_poll_limit: Duration,
    /// The client that it polls for and that has been told so, if its transport can.
    polled_for: Option<Token>,
    /// The connections that wait for something else than their peers.
    waiting: Waiting,
    /// The connections by the numbers of their sessions.
    tokens: HashMap<u64, Token>,
    /// The connections that are shown what all sessions do.
    monitors: Vec<Token>,
    /// Opens connections for all workers; worker 0 only.
    acceptor: Option<Acceptor>,
}

/// A connection and where the worker has noted it.
struct Member {
    connection: Connection,
    /// In `queued`.
    is_queued: bool,
    /// In `unflushed`.
    is_unflushed: bool,
    /// In `awake`.
    is_awake: bool,
    /// How often the worker has polled it since its last turn, while it is in `awake`.
    polls: u32,
    /// The poller, or a poll of it, tells when there is room to write.
    awaits_room: bool,
    /// In `held`.
    is_held: bool,
    /// Its last requests were changes: their replies were held.
    is_writer: bool,
    /// In `monitors`.
    is_monitor: bool,
    /// In `waiting`.
    place: WaitPlace,
}

/// Why replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// Their requests were executed, or there is room for what was left.
    ForTurn,
    /// The log is durable for which they were held.
    ForRelease,
}

impl Member {
    fn new(connection: Connection) -> Member {
        Member {
            connection,
            is_queued: false,
            is_unflushed: false,
            is_awake: false,
            polls: 0,
            awaits_room: false,
            is_held: false,
            is_writer: false,
            is_monitor: false,
            place: WaitPlace::Nowhere,
        }
    }
}

/// Lends the parts of a worker that are not its connections. A macro, because a method would
/// borrow the connections too.
macro_rules! context {
    ($worker:expr) => {
        WorkerContext {
            receive: &mut $worker.receive,
            batch: &mut $worker.batch,
            buffers: &mut $worker.buffers,
            execution: &mut $worker.execution,
            time: &mut $worker.time,
            shared: $worker.shared,
            settings: &$worker.settings,
            counters: $worker.counters,
        }
    };
}

mod log_turn;
mod messages;
mod polled;
pub mod polling;
mod receive_ahead;
mod waiting_connections;

impl<'s> Worker<'s> {
    /// Returns worker `index` of `shared`, with the acceptor if it is to have it.
    ///
    /// # Errors
    /// When no descriptors or no randomness are left.
    pub fn new(
        index: usize,
        shared: &'s ServerState,
        mut acceptor: Option<Acceptor>,
    ) -> io::Result<Worker<'s>> {
        let poller = Poller::new()?;
        let mailbox = &shared.mailboxes[index];
        let settings = shared.settings();
        poller.add(mailbox.waker(), MAILBOX_TOKEN, Interest::ReadableLevel)?;
        if let Some(acceptor) = &mut acceptor {
            acceptor.watch(&poller)?;
        }
        Ok(Worker {
            index,
            shared,
            mailbox,
            counters: &shared.counters[index],
            poller,
            connections: TokenTable::default(),
            receive: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            batch: Batch::new(),
            ahead: ReceiveAhead::default(),
            buffers: BufferPool::default(),
            execution: ExecutionContext {
                now: shared.runtime.clock().wall(),
                random: shared.runtime.generator()?,
                host: shared,
                clock: shared.runtime.clock(),
                command_stats: &shared.command_stats[index],
                timing: &shared.timing,
                pause: &shared.pause.switch,
                position: &shared.positions[index],
                monitor_feed: shared.monitors.monitor_feed(index, &shared.mailboxes),
                // Set in each round.
                value_bytes_max: 0,
                // Set before each call.
                output_bytes_max: 0,
                references_max: 0,
            },
            time: SharedTime::default(),
            busy_poll_limit: busy_poll_limit(&settings, shared),
            settings,
            settings_version: shared.settings_version(),
            queued: VecDeque::new(),
            unflushed: Vec::new(),
            held: Vec::new(),
            held_count: 0,
            awaiting_log: BTreeSet::new(),
            log_turn: LogTurn::default(),
            awake: Vec::new(),
            ended_keys: 0,
            unreported_bytes: 0,
            histogram_bytes: 0,
            polling: Polling::default(),
            polled_for: None,
            waiting: Waiting::default(),
            tokens: HashMap::new(),
            monitors: Vec::new(),
            acceptor,
        })
    }

    /// Serves until the server shuts down.
    ///
    /// # Errors
    /// When waiting fails, which leaves nothing that could be served.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shared.shutdown.has_begun() {
            self.await_events(&mut events)?;
            if sys::crash::has_begun() {
                sys::crash::wait_for_the_end();
            }
            let began = self.execution.clock.steady_ns();
            self.round(&events, began);
            self.counters.rounds.add(1);
            self.counters
                .round_nanoseconds
                .add(self.execution.clock.steady_ns().saturating_sub(began));
        }
        self.acceptor = None;
        self.shared.listeners.close();
        self.drain(&mut events)
    }

    /// Waits until something is ready, or a wait of a session ends; may poll for a while before it
    /// sleeps.
    fn await_events(&mut self, events: &mut Events) -> io::Result<()> {
        if !self.log_turn.is_due() || !self.sees_to_log(events)? {
            self.wait(events)?;
        }
        if !self.busy_poll_limit.is_zero() {
            self.note_wait(events);
        }
        Ok(())
    }

    /// Waits until something is ready; may poll before it sleeps.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let may_poll = self.is_idle() && !self.busy_poll_limit.is_zero();
        if may_poll && self.is_poll_due() && self.busy_poll(events)? {
            return Ok(());
        }
        let patience = self.patience();
        self.poller.wait(events, patience)?;
        if let Some(since) = self.polling.take_vain() {
            self.leave_processor(since);
        }
        Ok(())
    }

    /// Returns whether nothing is left to do from the rounds before.
    #[inline]
    fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.unflushed.is_empty()
    }

    /// Returns whether to poll before the wait that comes now.
    #[inline]
    fn is_poll_due(&mut self) -> bool {
        let mode = self.settings.polling.mode;
        if mode == PollMode::Lone && self.polling.is_alone() {
            let lone = self.polling.lone_client();
            let member = lone.and_then(|token| self.connections.get_mut(token));
            if let Some(member) = member {
                let transport = member.connection.transport();
                // Where it was when it woke this worker last.
                let other = transport.peer_processor();
                if other.is_some_and(|other| other == sys::process::processor()) {
                    return self.leave_to_client();
                }
            }
        }
        self.polling.is_due(mode)
    }

    /// Leaves this processor to a client; returns whether that was possible.
    #[cold]
    fn leave_to_client(&mut self) -> bool {
        self.polling.may_move(sys::clock::monotonic()) && sys::process::leave_processor()
    }

    /// Learns from a wait whether it is worth to poll before the next.
    #[inline]
    fn note_wait(&mut self, events: &Events) {
        let lone_client = self.lone_client(events);
        self.polling.note(lone_client, !events.is_empty() || !self.is_idle());
        if self.polled_for.is_some() && self.polled_for != lone_client && !self.polling.is_alone() {
            self.announce_busy_poll(None);
        }
    }

    /// Polls for events, and those that cause none, without sleeping. Returns whether there is
    /// something to do.
    fn busy_poll(&mut self, events: &mut Events) -> io::Result<bool> {
        if self.settings.polling.mode == PollMode::Lone && !self.arms_others() {
            return Ok(false);
        }
        let begin = sys::clock::monotonic();
        let end = begin + self.busy_poll_limit;
        self.counters.busy_polls.add(1);
        self.announce_busy_poll(self.polling.lone_client());
        let mut yields_at = begin + YIELD_INTERVAL;
        loop {
            self.poller.wait(events, Some(Duration::ZERO))?;
            if !events.is_empty() || self.poll_awake() {
                self.counters.busy_poll_hits.add(1);
                self.polling.learn_paying();
                return Ok(true);
            }
            let now = sys::clock::monotonic();
            let mut is_over = now >= end;
            if now >= yields_at && self.polling.yields(self.settings.polling.mode) {
                // Who keeps the processor for long has work of its own, and is better off without
                // polls.
                std::thread::yield_now();
                let again = sys::clock::monotonic();
                is_over |= again.saturating_sub(now) >= self.busy_poll_limit;
                yields_at = again + YIELD_INTERVAL;
            }
            if is_over {
                self.polling.learn_vain(now);
                self.announce_busy_poll(None);
                return Ok(false);
            }
        }
    }

    /// Goes to another processor, where a client that was polled for in vain until `since` has
    /// waited for this one.
    #[cold]
    fn leave_processor(&mut self, since: Duration) {
        let (mode, now) = (self.settings.polling.mode, sys::clock::monotonic());
        if self.polling.leaves_processor(mode, since, now) {
            sys::process::leave_processor();
        }
    }

    /// Returns the token of the only client that there is something to do for.
    #[inline]
    fn lone_client(&mut self, events: &Events) -> Option<Token> {
        let ready = (0..events.len()).map(|index| events.at(index).token);
        let left = self.queued.iter().chain(&self.unflushed).map(|token| token.to_bits());
        let mut all = ready.chain(left);
        let first = all.next()?;
        let (token, is_process) = Token::from_bits(first);
        let is_alone = !is_process && all.all(|other| other == first);
        (is_alone && self.connections.get_mut(token).is_some()).then_some(token)
    }

    /// Returns how long to wait for readiness at most.
    fn patience(&mut self) -> Option<Duration> {
        if !self.may_sleep() {
            return Some(Duration::ZERO);
        }
        let limit = self.waiting.first_limit()?;
        Some(limit.saturating_sub(sys::clock::monotonic()))
    }

    /// Serves what is ready, at `now_ns` by the steady clock.
    fn round(&mut self, events: &Events, now_ns: u64) {
        self.time.provide_at(now_ns, &mut self.execution);
        if self.shared.settings_version() != self.settings_version {
            self.settings_version = self.shared.settings_version();
            self.settings = self.shared.settings();
            self.busy_poll_limit = busy_poll_limit(&self.settings, self.shared);
            self.announce_busy_poll(None);
        }
        self.execution.value_bytes_max = self.settings.clients.bulk_bytes_max.into();
        self.ended_keys = 0;
        // Those queued before this round, after the connections that have become ready.
        let queued_count = self.queued.len();
        let mut ahead_end = 0;
        for index in 0..events.len() {
            if index == ahead_end {
                ahead_end += self.receive_ahead_of_ready(events, index);
            }
            self.on_ready(events.at(index));
        }
        ahead_end = 0;
        for index in 0..queued_count {
            if index == ahead_end {
                ahead_end += self.receive_ahead_of_queued(queued_count - index);
            }
            let Some(token) = self.queued.pop_front() else { break };
            if let Some(member) = self.connections.get_mut(token) {
                member.is_queued = false;
                self.serve(token);
            }
        }
        if self.waiting.has_limits() {
            self.end_long_waits();
        }
        self.flush_all();
        self.report_memory();
        self.shared.service_waker.note_activity();
        if !self.log_turn.is_due() {
            self.shared.durability.note_round(&self.shared.runtime);
        }
    }

    /// Returns whether the event is one of a listener.
    fn is_acceptor(&self, ready: Ready) -> bool {
        self.acceptor.as_ref().is_some_and(|acceptor| acceptor.is_token(ready.token))
    }

    fn on_ready(&mut self, ready: Ready) {
        if ready.token == MAILBOX_TOKEN {
            return self.read_mailbox();
        }
        if let Some(acceptor) = &mut self.acceptor
            && acceptor.is_token(ready.token)
        {
            let accepted =
                acceptor.on_ready(ready.token, &self.poller, self.shared, &self.settings);
            self.distribute(accepted);
            return;
        }
        let (token, is_process) = Token::from_bits(ready.token);
        let Some(member) = self.connections.get_mut(token) else { return };
        if is_process {
            return self.close(token, CloseReason::ProcessEnded);
        }
        let ready = member.connection.transport().interpret(ready, self.counters);
        if ready.hangup {
            member.connection.expect_end(ready.is_over);
        }
        if ready.urgent {
            member.connection.expect_urgent();
        }
        if ready.writable && member.awaits_room && !member.is_unflushed {
            member.is_unflushed = true;
            self.unflushed.push(token);
        }
        match ready.readable {
            // It has its turn in this round anyway, and has to know what was told only once.
            true if member.is_queued => member.connection.expect_input(),
            true => self.serve(token),
            false => {}
        }
    }

    /// Gives a connection its turn.
    fn serve(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        let mut context = context!(self);
        let ahead = self.ahead.take(token, &mut context);
        let turn = member.connection.serve(ahead, &mut context);
        if member.connection.transport().is_polled() {
            member.polls = 0;
            stay_awake(&mut self.awake, member, token);
        }
        if let Some(process) = member.connection.unwatched_process() {
            // As where the process is not known: the session ends with its connection.
            let _ = self.poller.add(process, token.to_process_bits(), Interest::ReadableLevel);
        }
        if member.connection.is_monitor() != member.is_monitor {
            member.is_monitor = !member.is_monitor;
            note_monitor(&mut self.monitors, token, member.is_monitor);
        }
        let mut awaits_log = false;
        match turn {
            Turn::Waits => {}
            Turn::HasMore => {
                member.is_queued = true;
                self.queued.push_back(token);
            }
            Turn::Waiting(wait_reason) => {
                member.connection.note_wait(wait_reason);
                member.place =
                    self.waiting.begin(wait_reason, token, member.connection.wait_limit());
                awaits_log = member.connection.awaited_lsn().is_some();
            }
            Turn::Ended(end) => return self.close(token, end),
        }
        if awaits_log {
            self.await_durable(token);
        }
        let Some(member) = self.connections.get_mut(token) else { return };
        if !member.connection.wants_flush() || member.awaits_room {
            // No flush follows, which would count: input gathers, or output that nobody reads.
            self.unreported_bytes += member.connection.count_memory();
            return;
        }
        if member.connection.unsent_bytes() > DEFERRED_BYTES_MAX {
            return self.flush(token);
        }
        if !member.is_unflushed {
            member.is_unflushed = true;
            self.unflushed.push(token);
        }
    }

    /// Sends the replies of all connections that have some.
    fn flush_all(&mut self) {
        let unflushed = std::mem::take(&mut self.unflushed);
        for &token in &unflushed {
            if let Some(member) = self.connections.get_mut(token) {
                member.is_unflushed = false;
                self.flush(token);
            }
        }
        // Its memory serves the next round.
        self.unflushed = unflushed;
        self.unflushed.clear();
    }

    /// Sends the replies of a connection, as far as they may leave and there is room.
    fn flush(&mut self, token: Token) {
        self.send(token, Sent::ForTurn);
    }

    fn send(&mut self, token: Token, sent: Sent) {
        let Some(member) = self.connections.get_mut(token) else { return };
        let flushed = member.connection.flush(&mut context!(self));
        self.unreported_bytes += member.connection.count_memory();
        let awaits_room = match flushed {
            Flushed::All => false,
            Flushed::Held => return self.hold(token),
            Flushed::Partly | Flushed::Further => true,
            Flushed::Ended(end) => return self.close(token, end),
        };
        if member.is_writer && sent == Sent::ForTurn {
            member.is_writer = false;
            self.log_turn.remove_writer();
        }
        let is_polled = member.connection.transport().is_polled();
        if is_polled && awaits_room {
            // Its peer takes the worker to be awake, and is to cause one event more.
            stay_awake(&mut self.awake, member, token);
        }
        // Events are edges: the kernel tells of room only after it had none. Asking anew makes it
        // tell of the room that is there.
        if awaits_room == member.awaits_room && flushed != Flushed::Further {
            return;
        }
        let was_awaiting = std::mem::replace(&mut member.awaits_room, awaits_room);
        if !is_polled {
            let interest =
                if awaits_room { Interest::ReadableWritable } else { Interest::Readable };
            let changed = self.poller.modify(&member.connection, token.to_bits(), interest);
            changed.expect("an open connection is in the poller's set");
        }
        match (was_awaiting, awaits_room) {
            (false, true) => self.shared.pending_checks.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.shared.pending_checks.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    fn close(&mut self, token: Token, reason: CloseReason) {
        let Some(mut member) = self.connections.remove(token) else { return };
        let id = member.connection.id();
        match reason {
            CloseReason::Orderly | CloseReason::Transport(TransportEnd::Closed) => {
                tracing::debug!(id, "Client closed connection");
            }
            CloseReason::Transport(TransportEnd::Broken) => {
                tracing::debug!(id, "Connection of client is broken");
            }
            // The transport has said how.
            CloseReason::Transport(TransportEnd::Misused) => {}
            CloseReason::ProcessEnded => tracing::debug!(id, "The process of client has ended"),
            CloseReason::Killed => tracing::debug!(id, "Client was killed by another"),
            CloseReason::Evicted => {
                self.counters.evicted.add(1);
                tracing::info!(id, "Evicting client");
            }
            CloseReason::LaneEnded => tracing::debug!(id, "The lane of client was ended"),
            CloseReason::Idle => tracing::debug!(id, "Closing idle client"),
            CloseReason::QueryLimit => {
                self.counters.query_limit_closes.add(1);
                tracing::warn!(id, "Closing client that reached max query buffer length");
            }
            CloseReason::OutputLimit => {
                self.counters.output_limit_closes.add(1);
                tracing::warn!(id, "Client closed for overcoming of output buffer limits.");
            }
            CloseReason::LogFailed => {
                tracing::warn!(id, "Closing client whose last writes the failed log may lack");
            }
            CloseReason::CrossProtocol => tracing::warn!(
                id,
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or \
                 Host: commands to Redis. This is likely due to an attacker attempting to use \
                 Cross Protocol Scripting to compromise your Redis instance. Connection \
                 aborted."
            ),
        }
        if member.awaits_room {
            self.shared.pending_checks.fetch_sub(1, Ordering::Relaxed);
        }
        self.forget_held(member.is_held);
        if member.is_writer {
            self.log_turn.remove_writer();
        }
        self.awaiting_log.remove(&token.to_bits());
        if member.connection.is_monitor() {
            self.shared.monitors.count(self.mailbox, false);
            note_monitor(&mut self.monitors, token, false);
        }
        member.connection.abandon();
        self.waiting.forget(token, member.place);
        self.tokens.remove(&id);
        self.shared.runtime.engine().close(member.connection.session_mut(), &mut self.execution);
        // Before its lanes, which end by a message each: a SHM TAKE that comes over one meanwhile
        // finds no pin, and takes nothing.
        self.shared.attachments.end(id, self.shared.keyspace());
        self.shared.in_flight.end(id);
        self.shared.end_lanes_of(id);
        self.shared.page_population.end(id);
        if self.shared.keyspace().arena().uploads().end(id) {
            // To give the memory back is not for a worker.
            self.shared.service_waker.wake();
        }
        member.connection.transport().forget(id, &self.poller, self.shared);
        self.shared.clients.remove(id);
        self.unreported_bytes -= member.connection.counted_bytes() as isize;
    }

    fn listen(&mut self, listeners: Vec<Arc<Listener>>) {
        let Some(acceptor) = &mut self.acceptor else { return };
        if let Err(error) = acceptor.exchange(listeners, &self.poller) {
            tracing::error!(%error, "The new addresses cannot be watched");
        }
    }

    fn read_mailbox(&mut self) {
        let (messages, shown) = self.mailbox.take();
        for message in messages {
            match message {
                Message::Serve(pending) => self.add(pending),
                Message::CheckConnections => self.check_connections(),
                // The loop looks at the shutdown after each round.
                Message::CheckShutdown => {}
                Message::Close(id, reason) => self.end(id, reason),
                Message::Wake(id, wake) => self.wake(id, wake),
                Message::Served(served) => self.serve_wait(served),
                Message::Answered(id) => self.answer(id),
                Message::Resume => self.resume(),
                Message::Released => self.send_released(),
                Message::Listen(listeners) => self.listen(listeners),
            }
        }
        if shown.is_cut || !shown.lines.is_empty() {
            self.show_monitors(&shown);
        }
    }

    /// Gives connections to the workers in turn.
    fn distribute(&mut self, accepted: Vec<Pending>) {
        for pending in accepted {
            let target = self.shared.next_worker();
            if target == self.index {
                self.add(pending);
            } else {
                self.shared.mailboxes[target].post(Message::Serve(pending));
            }
        }
    }

    /// Begins to serve a connection that the registry has counted in, unless it is over.
    fn add(&mut self, pending: Pending) {
        let context =
            OpenContext { worker: self.index, settings: &self.settings, shared: self.shared };
        let Some((transport, endpoint)) = pending.open(&context) else { return };
        self.counters.connections.add(1);
        let Endpoint { id, parent, origin, is_unix, address, local_address } = endpoint;
        let info = ClientInfo {
            id,
            parent,
            address,
            local_address,
            descriptor: transport.as_fd().as_raw_fd(),
            is_unix,
            last_command: "NULL",
            ..ClientInfo::default()
        };
        let now = self.execution.now;
        // Whoever makes a connection on another has authenticated there.
        let is_authenticated = parent.is_some() || self.settings.access.password.is_empty();
        let mut session = Session::new(id, now, is_authenticated);
        if transport.speaks_memcached() {
            let settings = &self.settings.memcached;
            session.state.protocol = Protocol::Memcached;
            session.state.replies = Replies::AsAsked;
            session.state.database = DatabaseIndex(settings.database);
            session.state.authenticated &= settings.auth_file.is_none();
        }
        session.state.source = source(&info);
        session.state.uploader = parent.unwrap_or(id);
        let record = self.shared.clients.add(info, origin, self.index, now);
        self.begin(Connection::new(transport, session, record));
    }

    /// Begins to serve `connection`.
    fn begin(&mut self, connection: Connection) {
        let id = connection.id();
        let token = self.connections.insert(Member::new(connection));
        self.tokens.insert(id, token);
        let member = self.connections.get_mut(token).expect("it was inserted just now");
        self.unreported_bytes += member.connection.count_memory();
        let added = self.poller.add(&member.connection, token.to_bits(), Interest::Readable);
        if let Err(error) = added {
            tracing::warn!(%error, "Cannot wait for a connection");
            self.close(token, CloseReason::Transport(TransportEnd::Broken));
        }
    }

    /// Closes connections that were idle or slow for too long, and resumes accepting.
    fn check_connections(&mut self) {
        for token in self.connections.tokens() {
            let Some(member) = self.connections.get_mut(token) else { continue };
            if let Some(end) =
                member.connection.overdue(&self.settings, self.shared, self.execution.now)
            {
                self.close(token, end);
            } else if member.connection.awaits_descriptors() {
                self.flush(token);
            }
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.resume(&self.poller, self.shared);
        }
    }

    /// Tells the keyspace how much private memory the connections, the backlog and the
    /// distributions of times take.
    fn report_memory(&mut self) {
        let histogram_bytes = self.execution.command_stats.histogram_bytes();
        if histogram_bytes != self.histogram_bytes {
            self.shared.runtime.recharge(self.histogram_bytes, histogram_bytes);
            self.histogram_bytes = histogram_bytes;
        }
        self.shared.runtime.count_backlog();
        let bytes = self.unreported_bytes;
        if bytes.abs() < REPORTED_BYTES_MIN {
            return;
        }
        self.unreported_bytes = 0;
        self.shared.runtime.note_client_bytes(bytes);
    }

    /// Sends what replies are left, for as long as a shutdown may take, and closes everything.
    fn drain(&mut self, events: &mut Events) -> io::Result<()> {
        let deadline = sys::clock::monotonic() + self.settings.process.shutdown_timeout;
        self.queued.clear();
        for token in self.connections.tokens() {
            if let Some(member) = self.connections.get_mut(token) {
                member.connection.close_after_replies();
                self.flush(token);
            }
        }
        while !self.connections.tokens().is_empty() {
            let left = deadline.saturating_sub(sys::clock::monotonic());
            if left.is_zero() {
                break;
            }
            let wait = if self.may_sleep() { left } else { Duration::ZERO };
            if self.log_turn.is_due() {
                self.leave_log_turn();
            }
            self.poller.wait(events, Some(wait))?;
            for index in 0..events.len() {
                self.drain_ready(events.at(index));
            }
            self.flush_all();
        }
        for token in self.connections.tokens() {
            self.close(token, CloseReason::Orderly);
        }
        self.report_memory();
        Ok(())
    }

    fn drain_ready(&mut self, ready: Ready) {
        let (token, is_process) = Token::from_bits(ready.token);
        match ready.token {
            MAILBOX_TOKEN => self.drain_mailbox(),
            _ if is_process => self.close(token, CloseReason::ProcessEnded),
            _ if ready.is_over => self.close(token, CloseReason::Transport(TransportEnd::Closed)),
            _ => self.flush(token),
        }
    }

    /// Takes what is in the mailbox, which left as it is would end each wait at once, and sends
    /// replies that have been released. Nobody in it is served any more.
    fn drain_mailbox(&mut self) {
        let (messages, _) = self.mailbox.take();
        if messages.iter().any(|message| matches!(message, Message::Released)) {
            self.flush_held();
        }
    }
}

/// Returns how MONITOR shows where a connection comes from.
fn source(info: &ClientInfo) -> Box<str> {
    match info.address.strip_suffix(":0").filter(|_| info.is_unix) {
        Some(path) => format!("unix:{path}").into(),
        None => info.address.as_str().into(),
    }
}

/// Returns for how long workers poll for more before they sleep; zero for not at all.
fn busy_poll_limit(settings: &Settings, shared: &ServerState) -> Duration {
    let workers = shared.identity.worker_count;
    polling::limit_of(settings.polling.mode, settings.polling.limit, workers)
}
