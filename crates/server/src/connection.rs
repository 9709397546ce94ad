//! One client's connection: its transport, its buffers and its session.
//!
//! An idle connection owns no buffer. Requests are decoded where the worker received them; only
//! what is left of an unfinished request is kept here, and replies that the kernel did not take.
//!
//! *Not here*: how a connection waits for something else than its peer (`connection/waiting.rs`),
//! how a long value comes straight into its place (`connection/direct_receive.rs`), how replies
//! leave (`connection/output.rs`), what memory it takes (`connection/memory.rs`) and what others
//! see of it (`connection/reported_state.rs`).

mod direct_receive;
mod memory;
mod output;
mod reported_state;
mod waiting;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use base::{DatabaseIndex, UnixMs};
use command::InputUse;
use engine::{ExecutionContext, Release, Session, SessionStatus};
use resp::{Batch, Decoded, Decoder, Limits, Next, Output, ProtocolError, REQUESTS_PER_BATCH_MAX};
use sys::descriptors::SharedDescriptor;
use sys::process::ProcessHandle;

use crate::buffers::BufferPool;
use crate::config::options::{QUERY_BYTES_MAX, Settings};
use crate::crash_report::Running;
use crate::registry::ClientRecord;
use crate::server_state::ServerState;
use crate::shared_time::SharedTime;
use crate::statistics::WorkerCounters;
use crate::transport::{AnyTransport, TransportEnd};
use crate::wait_claim::WaitReason;

use direct_receive::{DirectReceive, HEAD_BYTES};
use reported_state::ReportedState;

/// The size of a buffer that a worker receives requests in.
pub const RECEIVE_BYTES: usize = 64 * 1024;
/// Input before authentication, in bytes.
const UNAUTHENTICATED_INPUT_BYTES_MAX: usize = 1 << 20;
/// Batches that one connection has executed before the next connection has its turn.
const BATCHES_PER_TURN_MAX: usize = 8;
/// Replies of one call of the engine, above which what the kernel takes is sent in between.
const OUTPUT_BYTES_PER_CALL_MAX: usize = 1 << 20;
/// Values that the replies of one call of the engine refer to, above which it pauses.
const REFERENCES_PER_CALL_MAX: usize = 16;
/// Room for a receive behind an unfinished request: at least the first, at most what is there
/// already, between the other two.
const ROOM_BYTES_MIN: usize = 16 * 1024;
const ROOM_BYTES_MAX: usize = 1 << 20;
const ROOM_BYTES_GROWN_MAX: usize = 256 << 20;

const _: () = assert!(
    QUERY_BYTES_MAX + ROOM_BYTES_GROWN_MAX as u64 <= u32::MAX as u64,
    "the decoder's positions in a buffer that is one receive above its limit have 32 bits"
);

/// What a worker lends to the connection that it serves.
pub struct WorkerContext<'w, 'h> {
    /// Where requests are received.
    pub receive: &'w mut [u8],
    /// The requests of one batch.
    pub batch: &'w mut Batch,
    /// Buffers for replies.
    pub buffers: &'w mut BufferPool,
    /// The time, chance and host of the engine.
    pub execution: &'w mut ExecutionContext<'h>,
    /// When the time in it was read.
    pub time: &'w mut SharedTime,
    /// What all workers share.
    pub shared: &'h ServerState,
    /// The configuration of this round.
    pub settings: &'w Settings,
    /// What this worker counts.
    pub counters: &'h WorkerCounters,
}

/// What one receive into a buffer of the worker has brought.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    count: usize,
    /// It filled its room: the transport may have more, and does not tell again.
    is_full: bool,
}

impl Received {
    /// Returns how many bytes came.
    pub fn count(self) -> usize {
        self.count
    }
}

/// What was received for a connection ahead of the turn that it has now.
pub struct ReceivedAhead<'w> {
    /// What came, or why nothing will come any more, which a transport may tell only once.
    pub received: Result<Received, CloseReason>,
    /// The bytes that came.
    pub bytes: &'w mut [u8],
    /// What became of them, where they have been decoded: then the context has their requests.
    pub decoded: Option<Decoded>,
}

/// How a connection stands after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It waits for its peer.
    Waits,
    /// It has more input than one turn may take.
    HasMore,
    /// It has begun to wait for something else than its peer.
    Waiting(WaitReason),
    /// It is over.
    Ended(CloseReason),
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It was closed after its last reply.
    Orderly,
    /// Its transport carries nothing more.
    Transport(TransportEnd),
    /// More input than `client-query-buffer-limit`.
    QueryLimit,
    /// More unread output than `client-output-buffer-limit`.
    OutputLimit,
    /// Nothing was sent for `timeout` seconds.
    Idle,
    /// The peer speaks HTTP: something made a browser send its request here.
    CrossProtocol,
    /// The process behind it has ended, though others may hold copies of its socket.
    ProcessEnded,
    /// Another session asked for it: CLIENT KILL.
    Killed,
    /// Clients take more memory than `maxmemory-clients`.
    Evicted,
    /// Its replies wait for a log that has failed: what they tell of may be lost or not.
    LogFailed,
    /// A lane has been ended by the connection that it was made on, or with it; or a connection
    /// because a lane of it could not be sealed.
    LaneEnded,
}

impl From<TransportEnd> for CloseReason {
    fn from(end: TransportEnd) -> CloseReason {
        CloseReason::Transport(end)
    }
}

/// How far the replies of a connection have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// All of them are with the transport.
    All,
    /// They wait for their release, which [`crate::mailbox::Message::Released`] tells of.
    Held,
    /// It has no room for the rest now, and tells when it has.
    Partly,
    /// It took all that one send offered, and may have room for the rest.
    Further,
    /// The connection is over.
    Ended(CloseReason),
}

/// One client.
pub struct Connection {
    transport: AnyTransport,
    session: Session,
    decoder: Decoder,
    /// That of memcached's protocol, where the peer speaks it.
    memcached: Option<Box<memcached::Decoder>>,
    /// Received bytes that no request has consumed; those before `input_start` are done with.
    input: Vec<u8>,
    input_start: usize,
    /// A value that is not part of the input: it is received where it stays.
    direct_receive: DirectReceive,
    /// What is known of the bytes that are still to come.
    input_state: InputState,
    /// Replies that are not sent yet.
    output: Output,
    /// The last record that they wait for.
    release: Release,
    /// They were to leave and may not yet.
    is_held: bool,
    /// When the unsent output went above the soft limit.
    over_soft_since: Option<UnixMs>,
    /// To be closed once the output is sent; nothing more is read.
    is_closing: bool,
    /// What it waits for; nothing is received or executed until then.
    wait_reason: Option<WaitReason>,
    /// Requests that were received before it began to wait, as their sender might write them: they
    /// go before the input kept.
    held: Vec<u8>,
    /// The size of the input that is being executed, while it is.
    lent_bytes: usize,
    /// What follows the requests received breaks the protocol; to be told after their replies.
    failure: Option<ProtocolError>,
    /// Private memory, and that of a lane, that has been counted for this connection.
    counted_bytes: usize,
    /// Descriptors that leave with the next byte.
    outgoing_descriptors: Vec<SharedDescriptor>,
    /// Descriptors have been sent that the peer may not have received yet.
    has_unreceived: bool,
    /// The process behind the connection, known once it maps the arena.
    process: Option<ProcessHandle>,
    /// The worker's poller tells when the process ends.
    is_process_watched: bool,
    record: Arc<ClientRecord>,
    reported: ReportedState,
}

/// What a connection's input holds and what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InputState {
    /// The input kept may hold complete requests: the last turn ended before them.
    has_requests: bool,
    /// The last receive filled its room: the kernel may hold more, and does not tell again.
    may_receive: bool,
    /// The peer has closed, so the kernel holds the end at least.
    end: bool,
    /// The peer receives nothing any more either.
    is_over: bool,
    /// The peer has sent urgent data. A receive ends there, whatever is behind it: only one that
    /// brings nothing tells that nothing is left.
    has_urgent: bool,
    /// How many bytes more the unfinished request needs, at least.
    wanted_bytes: usize,
}

const NO_INPUT: InputState = InputState {
    has_requests: false,
    may_receive: false,
    end: false,
    is_over: false,
    has_urgent: false,
    wanted_bytes: 1,
};

impl Connection {
    /// Returns a connection that has received nothing yet.
    pub fn new(
        transport: AnyTransport,
        mut session: Session,
        record: Arc<ClientRecord>,
    ) -> Connection {
        session.attendance = Some(record.clone());
        let reported = ReportedState::of(&session, 0, false);
        let memcached = transport.speaks_memcached().then(Box::default);
        Connection {
            transport,
            memcached,
            session,
            decoder: Decoder::new(),
            input: Vec::new(),
            input_start: 0,
            direct_receive: DirectReceive::default(),
            input_state: NO_INPUT,
            output: Output::default(),
            release: Release::default(),
            is_held: false,
            over_soft_since: None,
            is_closing: false,
            wait_reason: None,
            held: Vec::new(),
            lent_bytes: 0,
            failure: None,
            counted_bytes: 0,
            outgoing_descriptors: Vec::new(),
            has_unreceived: false,
            process: None,
            is_process_watched: false,
            record,
            reported,
        }
    }

    /// Notes that the kernel holds input: the turn that is due receives it.
    pub fn expect_input(&mut self) {
        self.input_state.may_receive = true;
    }

    /// Notes that the peer has closed: a receive will tell, after the bytes before it. With
    /// `is_over` it receives nothing any more either.
    pub fn expect_end(&mut self, is_over: bool) {
        self.input_state.may_receive = true;
        self.input_state.end = true;
        self.input_state.is_over |= is_over;
    }

    /// Notes that the peer has sent urgent data.
    pub fn expect_urgent(&mut self) {
        self.input_state.has_urgent = true;
    }

    /// Returns whether its next turn begins with a receive into the worker's buffer. Nothing but
    /// its turns, and messages of other threads, changes that.
    #[inline]
    pub fn receives_in_place(&self) -> bool {
        self.wants_input()
            && !self.input_state.has_requests
            && !self.direct_receive.is_partial()
            && self.input.is_empty()
    }

    /// Receives what its next turn would, into `buffer`, which is as long as that of the turn.
    ///
    /// # Errors
    /// When nothing will come any more. Its next turn is to be told, as it is of what has come.
    #[inline]
    pub fn receive_ahead(
        &mut self,
        buffer: &mut [u8],
        counters: &WorkerCounters,
    ) -> Result<Received, CloseReason> {
        debug_assert!(self.receives_in_place(), "the turn would receive in place");
        self.receive(buffer, counters)
    }

    /// Executes what is there or receives once, as far as one turn goes. What was received ahead of
    /// the turn takes the place of that receive.
    pub fn serve(
        &mut self,
        ahead: Option<ReceivedAhead<'_>>,
        context: &mut WorkerContext<'_, '_>,
    ) -> Turn {
        assert!(ahead.is_none() || self.receives_in_place(), "no input is passed over");
        if self.is_held {
            return self.held_turn();
        }
        if self.is_closing {
            return Turn::Waits;
        }
        if let Some(reason) = self.record.end_reason() {
            return Turn::Ended(reason);
        }
        if self.wait_reason.is_some() {
            self.expect_input();
            return self.waiting_turn(Turn::Waits, context);
        }
        if self.has_unreceived {
            // Whoever keeps to the protocol has received them before he sends anything more, and
            // has perhaps a reply to receive when he asks for further ones.
            self.has_unreceived = context.shared.in_flight.has_any(self.id());
        }
        let served = if let Some(ahead) = ahead {
            let ReceivedAhead { received, bytes, decoded } = ahead;
            received.and_then(|received| self.execute_in_place(bytes, received, decoded, context))
        } else if self.input_state.has_requests {
            self.execute_input(context)
        } else if self.direct_receive.is_partial() {
            self.receive_value(context)
        } else if self.input.is_empty() {
            self.receive_in_place(context)
        } else {
            self.receive_behind(context)
        };
        self.record.set_active(context.execution.now);
        self.show();
        if let (Ok(()), Some(wait_reason)) = (&served, self.wait_reason) {
            return self.waiting_turn(Turn::Waiting(wait_reason), context);
        }
        match served {
            Err(end) => Turn::Ended(end),
            Ok(()) if self.is_closing => Turn::Waits,
            Ok(()) if self.has_more() => Turn::HasMore,
            Ok(()) => Turn::Waits,
        }
    }

    /// Receives into the worker's buffer and executes there.
    fn receive_in_place(&mut self, context: &mut WorkerContext<'_, '_>) -> Result<(), CloseReason> {
        let received = self.receive(context.receive, context.counters)?;
        // Taken out of the context for the call, so that the context can be lent along.
        let receive = std::mem::take(&mut context.receive);
        let bytes = &mut receive[..received.count];
        let executed = self.execute_in_place(bytes, received, None, context);
        context.receive = receive;
        executed
    }

    /// Receives into `buffer`, no more than the head where a long value is likely to follow.
    #[inline]
    fn receive(
        &mut self,
        buffer: &mut [u8],
        counters: &WorkerCounters,
    ) -> Result<Received, CloseReason> {
        let most = match self.direct_receive.is_likely() && self.transport.receives_head_first() {
            true => HEAD_BYTES,
            false => buffer.len(),
        };
        let count = self.transport.receive(&mut buffer[..most], counters)?;
        count_received(count, counters);
        Ok(Received { count, is_full: count == most })
    }

    /// Executes `bytes`, which were received into a buffer of the worker and may have been decoded,
    /// where they are; keeps only what is unfinished.
    fn execute_in_place(
        &mut self,
        bytes: &mut [u8],
        received: Received,
        decoded: Option<Decoded>,
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let Received { count, is_full } = received;
        self.note_received(count, is_full);
        if count == 0 {
            return Ok(());
        }
        self.session.state.input = InputUse { bytes: count, free_bytes: RECEIVE_BYTES - count };
        let consumed = self.execute(bytes, decoded, context)?;
        if consumed < count && !self.is_closing {
            let rest = &bytes[consumed..];
            let kept = self.receive_directly(rest, context);
            self.input = context.buffers.take();
            self.input.extend_from_slice(&rest[..kept]);
        }
        self.direct_receive.note_first(is_full);
        self.check_input(context)
    }

    /// Receives behind an unfinished request and executes what is complete.
    fn receive_behind(&mut self, context: &mut WorkerContext<'_, '_>) -> Result<(), CloseReason> {
        self.input.drain(..self.input_start);
        self.input_start = 0;
        // Room grows with what has come, so that a peer has to send the bytes that it announced
        // before memory is set aside for them.
        let most = self.input.len().clamp(ROOM_BYTES_MAX, ROOM_BYTES_GROWN_MAX);
        let room = self.input_state.wanted_bytes.clamp(ROOM_BYTES_MIN, most);
        if self.input.capacity() - self.input.len() < room {
            self.input.reserve_exact(room);
        }
        let count = self.transport.receive_appending(&mut self.input, context.counters)?;
        count_received(count, context.counters);
        self.note_received(count, self.input.len() == self.input.capacity());
        if count == 0 { Ok(()) } else { self.execute_input(context) }
    }

    /// Notes that a receive has brought `count` bytes, and whether those filled its room.
    #[inline]
    fn note_received(&mut self, count: usize, is_full: bool) {
        let state = &mut self.input_state;
        state.has_urgent &= count > 0;
        state.may_receive = state.end || state.has_urgent || is_full;
    }

    /// Executes the complete requests of the input kept.
    fn execute_input(&mut self, context: &mut WorkerContext<'_, '_>) -> Result<(), CloseReason> {
        // No request is decoded beyond the limit: how it arrives does not decide whether it runs.
        // CONFIG SET may have lowered the limit below what is there of a request already.
        let limit = self.query_bytes_max(context);
        let left = limit.checked_sub(self.direct_receive.filled_bytes());
        let most = left.filter(|most| self.decoder.seen_bytes() <= *most);
        let most = most.ok_or(CloseReason::QueryLimit)?;
        let mut input = std::mem::take(&mut self.input);
        let mut start = std::mem::take(&mut self.input_start);
        self.lent_bytes = input.capacity();
        let (bytes, free_bytes) = (input.len() - start, input.capacity() - input.len());
        self.session.state.input = InputUse { bytes, free_bytes };
        let end = start + bytes.min(most);
        let executed = self.execute(&mut input[start..end], None, context);
        self.lent_bytes = 0;
        let consumed = executed?;
        start += consumed;
        self.input_state.has_requests |= consumed > 0 && end < input.len();
        if start == input.len() {
            context.buffers.give(input);
            return self.check_input(context);
        }
        let length = start + self.receive_directly(&input[start..], context);
        if length < input.len() {
            input.truncate(length);
            // What has gone to its own place does not come back here.
            input.shrink_to(ROOM_BYTES_MIN);
        }
        (self.input, self.input_start) = (input, start);
        self.check_input(context)
    }

    /// Executes requests of `buffer`, up to the end of the turn, and returns the bytes consumed.
    /// The first of them may have been `decoded` into the context's batch.
    fn execute(
        &mut self,
        buffer: &mut [u8],
        mut decoded: Option<Decoded>,
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<usize, CloseReason> {
        self.provide_output(context);
        let mut consumed = 0;
        for _ in 0..BATCHES_PER_TURN_MAX {
            let rest = &mut buffer[consumed..];
            let Decoded { consumed: count, next } = match decoded.take() {
                Some(decoded) => decoded,
                None => self.decode(rest, context.batch, context.settings),
            };
            consumed += count;
            if count > 0 {
                self.direct_receive.note_consumed();
            }
            self.execute_batch(rest, context)?;
            if self.is_closing {
                break;
            }
            match next {
                Next::Full if consumed < buffer.len() => self.input_state.has_requests = true,
                Next::Full => {
                    self.expect(1);
                    break;
                }
                Next::Wanted(bytes) => {
                    self.expect(bytes);
                    break;
                }
                Next::Failed(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
            if self.wait_reason.is_some() {
                break;
            }
        }
        if self.wait_reason.is_none()
            && let Some(error) = self.failure.take()
        {
            self.refuse(error, context);
        }
        Ok(consumed)
    }

    /// Tells the peer that it broke the protocol, as the last reply.
    #[cold]
    fn refuse(&mut self, error: ProtocolError, context: &mut WorkerContext<'_, '_>) {
        let text = error.text();
        context.execution.command_stats.count_error(&text);
        if !self.session.state.replies.are_silent() {
            self.output.reply(self.session.state.protocol).error(text);
        }
        self.is_closing = true;
        self.direct_receive = DirectReceive::default();
    }

    /// Executes the requests of the context's batch, which were decoded from `buffer`.
    fn execute_batch(
        &mut self,
        buffer: &[u8],
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        self.check_share(context)?;
        if context.batch.follows_empty_request() {
            // As in Redis, it takes the place of the one whose reply CLIENT REPLY SKIP leaves out.
            let replies = &mut self.session.state.replies;
            *replies = replies.next();
        }
        if self.memcached.is_some() {
            return self.execute_memcached(buffer, context);
        }
        match self.direct_receive.is_there() && context.batch.has_aside() {
            true => self.execute_received(buffer, context),
            false => self.execute_requests(buffer, &[], context),
        }
    }

    /// As [`Connection::execute_requests`], of a client of memcached, whose values are no larger
    /// than an item may be.
    #[inline(never)]
    fn execute_memcached(
        &mut self,
        buffer: &[u8],
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let of_others = context.execution.value_bytes_max;
        context.execution.value_bytes_max = context.settings.memcached.item_bytes_max;
        let executed = self.execute_requests(buffer, &[], context);
        context.execution.value_bytes_max = of_others;
        executed
    }

    /// Executes the requests of the context's batch, which were decoded from `buffer` but for the
    /// argument `aside`.
    fn execute_requests(
        &mut self,
        buffer: &[u8],
        aside: &[u8],
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let count = context.batch.len();
        let (client, descriptor) = (self.id(), self.as_fd().as_raw_fd());
        let mut executed = 0;
        while executed < count && !self.is_closing && self.wait_reason.is_none() {
            let requests = context.batch.view_with(buffer, aside);
            // From what is there on, so that each call executes one request at least.
            context.execution.output_bytes_max = self.output.len() + OUTPUT_BYTES_PER_CALL_MAX;
            context.execution.references_max =
                self.output.reference_count() + REFERENCES_PER_CALL_MAX;
            self.output.limit(self.output_bytes_max(context), self.own_output_bytes_max(context));
            context.time.provide(context.execution);
            let (session, output) = (&mut self.session, &mut self.output);
            let running =
                Running { requests, position: context.execution.position, client, descriptor };
            let outcome = sys::crash::describe_while(&running, || {
                context.shared.runtime.engine().execute(
                    session,
                    requests,
                    executed,
                    output,
                    context.execution,
                )
            });
            context.counters.commands.add(outcome.commands);
            executed = outcome.executed;
            self.release = self.release.max(outcome.release);
            if context.execution.monitor_feed.is_there() {
                // Before the replies leave: who gets one has been shown to the monitors.
                context.execution.monitor_feed.sink.deliver();
            }
            if self.output.is_over_limit() {
                return Err(CloseReason::OutputLimit);
            }
            match outcome.status {
                SessionStatus::Open => {}
                SessionStatus::Blocked => {
                    let is_for_host = self.session.state.blocked.is_some_and(|it| it.is_for_host);
                    let reason = if is_for_host { WaitReason::Server } else { WaitReason::Blocked };
                    self.wait_at(reason, requests, executed);
                }
                SessionStatus::Paused => self.wait_at(WaitReason::Paused, requests, executed),
                SessionStatus::CloseAfterReplies => self.is_closing = true,
                SessionStatus::CloseNow => return Err(CloseReason::CrossProtocol),
            }
            if context.shared.in_flight.has_waiting() {
                self.take_descriptors(context);
            }
            let is_much = self.output.len() >= context.execution.output_bytes_max
                || self.output.reference_count() >= context.execution.references_max;
            if is_much && executed < count && !self.is_closing {
                // Much output has gathered: what the kernel takes now need not be kept.
                self.send(context)?;
            }
            if self.output.reference_count() > 0 {
                self.share_references(context)?;
            }
            self.check_output(context)?;
            self.check_share(context)?;
        }
        Ok(())
    }

    /// Returns the process whose end is to be watched for, once.
    #[inline]
    pub fn unwatched_process(&mut self) -> Option<&ProcessHandle> {
        if self.is_process_watched {
            return None;
        }
        self.is_process_watched = self.process.is_some();
        self.process.as_ref()
    }

    /// No complete request is left, and the next one needs `bytes` more at least.
    fn expect(&mut self, bytes: usize) {
        self.input_state.has_requests = false;
        self.input_state.wanted_bytes = bytes;
    }

    /// Decodes the next requests of `buffer` into `batch`. What decides how is changed by its own
    /// requests and, between rounds, by new settings, so that this may be ahead of its turn.
    #[inline]
    pub fn decode(&mut self, buffer: &mut [u8], batch: &mut Batch, settings: &Settings) -> Decoded {
        let authenticated = self.session.state.authenticated;
        if let Some(decoder) = &mut self.memcached {
            let requests_max = if authenticated { REQUESTS_PER_BATCH_MAX } else { 1 };
            let limits = memcached::Limits {
                item_bytes_max: settings.memcached.item_bytes_max,
                is_authenticated: authenticated,
            };
            return decoder.decode(buffer, batch, requests_max, &limits);
        }
        let limits = Limits {
            bulk_bytes_max: settings.clients.bulk_bytes_max,
            authenticated,
            ..Limits::REDIS
        };
        // AUTH changes the limits of what follows it.
        let requests_max = if authenticated { REQUESTS_PER_BATCH_MAX } else { 1 };
        self.decoder.decode(buffer, batch, requests_max, &limits)
    }

    /// Closes the connection once its replies are sent.
    pub fn close_after_replies(&mut self) {
        self.is_closing = true;
        self.input_state.has_requests = false;
    }

    /// Returns why the connection should be closed at `now`, if it should.
    pub fn overdue(
        &self,
        settings: &Settings,
        shared: &ServerState,
        now: UnixMs,
    ) -> Option<CloseReason> {
        let since = |then: UnixMs| u64::try_from(now.0 - then.0).unwrap_or(0);
        let soft_ms = u64::from(settings.clients.output_limit.soft_seconds) * 1000;
        if self.over_soft_since.is_some_and(|then| since(then) >= soft_ms) {
            return Some(CloseReason::OutputLimit);
        }
        // A monitor sends nothing, and whoever waits, if only for replies that are held, may not be
        // expected to.
        if self.is_monitor() || self.wait_reason.is_some() || self.is_held {
            return None;
        }
        let timeout_ms = settings.network.timeout?.as_millis() as u64;
        if since(self.record.active_at()) < timeout_ms {
            return None;
        }
        // A process that reads the memory itself sends nothing, and closing would end its pins; one
        // that has lanes sends by them, and each is closed when it is idle.
        let id = self.id();
        let is_used = shared.attachments.is_reading(id) || shared.lanes.has_any(id);
        (!is_used).then_some(CloseReason::Idle)
    }

    /// Returns what carries the connection.
    #[inline]
    pub fn transport(&mut self) -> &mut AnyTransport {
        &mut self.transport
    }

    /// Returns whether there is input that no event is going to tell of.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.input_state.has_requests || self.input_state.may_receive
    }

    /// Returns whether its next turn would receive something.
    #[inline]
    pub fn wants_input(&self) -> bool {
        !self.is_closing && self.wait_reason.is_none() && !self.is_held
    }

    /// Returns the database that its next request uses.
    #[inline]
    pub fn database(&self) -> DatabaseIndex {
        self.session.state.database
    }

    /// Returns the number of its session.
    pub fn id(&self) -> u64 {
        self.session.state.id
    }

    /// Returns the session, to end it.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Returns whether replies wait to be sent, or the connection to be closed after them.
    #[inline]
    pub fn wants_flush(&self) -> bool {
        self.has_output() || self.is_closing
    }

    /// Returns the bytes of replies that wait to be sent.
    #[inline]
    pub fn unsent_bytes(&self) -> usize {
        self.output.len()
    }

    fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns the bytes received that no request has consumed.
    #[inline]
    fn kept_bytes(&self) -> usize {
        self.input.len() - self.input_start + self.direct_receive.filled_bytes()
    }

    fn check_input(&mut self, context: &WorkerContext<'_, '_>) -> Result<(), CloseReason> {
        self.check_share(context)?;
        if self.wait_reason.is_some() {
            // It grows no further: nothing is received.
            self.put_back();
            return Ok(());
        }
        match self.kept_bytes() > self.query_bytes_max(context) {
            true => Err(CloseReason::QueryLimit),
            false => Ok(()),
        }
    }

    /// Returns the most bytes that a request may have.
    #[inline]
    fn query_bytes_max(&self, context: &WorkerContext<'_, '_>) -> usize {
        let most = context.settings.clients.query_bytes_max;
        match self.session.state.authenticated {
            true => most,
            false => UNAUTHENTICATED_INPUT_BYTES_MAX.min(most),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

/// Counts a receive that brought `count` bytes.
#[inline]
fn count_received(count: usize, counters: &WorkerCounters) {
    counters.reads.add(u64::from(count > 0));
    counters.input_bytes.add(count as u64);
}
