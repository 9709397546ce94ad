//! One client's connection: its transport, its buffers and its session.
//!
//! An idle connection owns no buffer. Requests are decoded where the worker received them; only
//! what is left of an unfinished request is kept here, and replies that the kernel did not take.
//! How a connection waits for something else than its peer stands in `connection/waiting.rs`, how
//! a long value comes straight into its place in `connection/incoming.rs`.

mod incoming;
mod waiting;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use arena::pins::PIN_SLOTS;
use base::{DatabaseIndex, UnixMs};
use command::{InputUse, Transaction};
use engine::{Ending, Session, Tick};
use keyspace::WatchMark;
use resp::{
    Batch, Decoded, Decoder, Limits, Next, Output, Protocol, ProtocolError, REQUESTS_PER_BATCH_MAX,
};
use ring::lane::LaneError;
use sys::descriptors::SharedDescriptor;
use sys::process::ProcessHandle;
use sys::socket::{Received, Sent};

use crate::buffers::BufferPool;
use crate::config::Settings;
use crate::config::effective::QUERY_BYTES_MAX;
use crate::crash::Running;
use crate::registry::ClientRecord;
use crate::shared::Shared;
use crate::stall::Stall;
use crate::statistics::WorkerCounters;
use crate::transport::{LaneTransport, Transport};

use incoming::{HEAD_BYTES, Incoming};

/// Input before authentication, in bytes.
const UNAUTHENTICATED_INPUT_BYTES_MAX: usize = 1 << 20;
/// Unsent output before authentication, in bytes.
const UNAUTHENTICATED_OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Batches that one connection has executed before the next connection has its turn.
const BATCHES_PER_TURN_MAX: usize = 8;
/// Replies of one call of the engine, above which what the kernel takes is sent in between.
const OUTPUT_BYTES_PER_CALL_MAX: usize = 1 << 20;
/// Replies of one call of the engine that end the session where its output has no hard limit.
const UNLIMITED_OUTPUT_BYTES_PER_CALL_MAX: usize = 4 << 30;
/// Values that the replies of one call of the engine refer to, above which it pauses.
const REFERENCES_PER_CALL_MAX: usize = 16;
/// Values that the unsent replies of one connection may refer to.
const REFERENCES_KEPT_MAX: usize = 64;
/// How many values the process may hold before unsent replies may refer to none: what is left is
/// for the requests that are executed.
const HELD_VALUES_SHARED: usize = PIN_SLOTS / 2;
/// A client that takes this part of `maxmemory-clients`, and as much as the second says, has all
/// clients added up whenever it takes more.
const CHECKED_SHARE: u64 = 64;
const CHECKED_BYTES_MIN: u64 = 64 * 1024;
/// Pieces of one send: values that are sent from where they lie, and what stands between them.
const PIECES_PER_SEND_MAX: usize = 32;
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
pub struct Kit<'w, 'h> {
    /// Where requests are received.
    pub receive: &'w mut [u8],
    /// The requests of one batch.
    pub batch: &'w mut Batch,
    /// Buffers for replies.
    pub buffers: &'w mut BufferPool,
    /// The time, chance and host of the engine.
    pub tick: &'w mut Tick<'h>,
    /// What all workers share.
    pub shared: &'h Shared,
    /// The configuration of this round.
    pub settings: &'w Settings,
    /// What this worker counts.
    pub counters: &'h WorkerCounters,
}

/// How a connection stands after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It waits for its peer.
    Waits,
    /// It has more input than one turn may take.
    HasMore,
    /// It has begun to wait for something else than its peer.
    Stalled(Stall),
    /// It is over.
    Ended(End),
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer closed it, or it was closed after its last reply.
    Orderly,
    /// The network broke it.
    Broken,
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
    /// A lane has been ended by the connection that it was made on, or with it; or a connection
    /// because a lane of it could not be sealed.
    LaneEnded,
    /// The client wrote into its lane what no client writes.
    BadLane(LaneError),
}

/// How far the replies of a connection have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// All of them are with the kernel.
    All,
    /// The kernel has no room for the rest now, and tells when it has.
    Partly,
    /// The kernel took all that one send offered, and may have room for the rest.
    Further,
    /// The connection is over.
    Ended(End),
}

/// One client.
pub struct Connection {
    transport: Transport,
    session: Session,
    decoder: Decoder,
    /// Received bytes that no request has consumed; those before `input_start` are done with.
    input: Vec<u8>,
    input_start: usize,
    /// A value that is not part of the input: it is received where it stays.
    incoming: Incoming,
    /// What is known of the bytes that are still to come.
    expects: Expects,
    /// Replies that are not sent yet.
    output: Output,
    /// When the unsent output went above the soft limit.
    over_soft_since: Option<UnixMs>,
    /// To be closed once the output is sent; nothing more is read.
    is_closing: bool,
    /// What it waits for; nothing is received or executed until then.
    stall: Option<Stall>,
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
    outbound: Vec<SharedDescriptor>,
    /// Descriptors have been sent that the peer may not have received yet.
    has_unreceived: bool,
    /// The process behind the connection, known once it maps the arena.
    process: Option<ProcessHandle>,
    /// The worker's poller tells when the process ends.
    is_process_watched: bool,
    record: Arc<ClientRecord>,
    shown: Shown,
}

/// What a connection's input holds and what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expects {
    /// The input kept may hold complete requests: the last turn ended before them.
    has_requests: bool,
    /// The last receive filled its room: the kernel may hold more, and does not tell again.
    may_receive: bool,
    /// The peer has closed, so the kernel holds the end at least.
    end: bool,
    /// How many bytes more the unfinished request needs, at least.
    wanted_bytes: usize,
}

const NOTHING_EXPECTED: Expects =
    Expects { has_requests: false, may_receive: false, end: false, wanted_bytes: 1 };

/// What the record showed last, to see cheaply whether it changed.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    command: Option<*const command::Command>,
    /// How often the names have changed.
    name_changes: u64,
    database: DatabaseIndex,
    protocol: Protocol,
    /// Requests and bytes of the queue of a MULTI.
    queued: Option<(usize, usize)>,
    watches: WatchMark,
    /// Monitor, no eviction, no touch.
    modes: [bool; 3],
    input_bytes: usize,
    /// Arguments of the request that waits for a key.
    argument_bytes: usize,
    is_closing: bool,
}

impl Connection {
    /// Returns a connection that has received nothing yet.
    pub fn new(
        transport: Transport,
        mut session: Session,
        record: Arc<ClientRecord>,
    ) -> Connection {
        session.attendance = Some(record.clone());
        let shown = Shown::of(&session, 0, false);
        Connection {
            transport,
            session,
            decoder: Decoder::new(),
            input: Vec::new(),
            input_start: 0,
            incoming: Incoming::default(),
            expects: NOTHING_EXPECTED,
            output: Output::default(),
            over_soft_since: None,
            is_closing: false,
            stall: None,
            held: Vec::new(),
            lent_bytes: 0,
            failure: None,
            counted_bytes: 0,
            outbound: Vec::new(),
            has_unreceived: false,
            process: None,
            is_process_watched: false,
            record,
            shown,
        }
    }

    /// Notes that the kernel holds input: the turn that is due receives it.
    pub fn expect_input(&mut self) {
        self.expects.may_receive = true;
    }

    /// Notes that the peer has closed: a receive will tell, after the bytes before it.
    pub fn expect_end(&mut self) {
        self.expects.may_receive = true;
        self.expects.end = true;
    }

    /// Executes what is there or receives once, as far as one turn goes.
    pub fn serve(&mut self, kit: &mut Kit<'_, '_>) -> Turn {
        if self.is_closing {
            return Turn::Waits;
        }
        if self.record.is_ended() {
            return Turn::Ended(End::Killed);
        }
        if self.stall.is_some() {
            self.expect_input();
            return self.stalled(Turn::Waits);
        }
        if self.has_unreceived {
            // Whoever keeps to the protocol has received them before he sends anything more, and
            // has perhaps a reply to receive when he asks for further ones.
            self.has_unreceived = kit.shared.outbound.has_any(self.id());
        }
        let served = if self.expects.has_requests {
            self.execute_input(kit)
        } else if self.incoming.is_partial() {
            self.receive_value(kit)
        } else if self.input.is_empty() {
            self.receive_in_place(kit)
        } else {
            self.receive_behind(kit)
        };
        self.record.set_active(kit.tick.now);
        self.show();
        if let (Ok(()), Some(stall)) = (&served, self.stall) {
            return self.stalled(Turn::Stalled(stall));
        }
        match served {
            Err(end) => Turn::Ended(end),
            Ok(()) if self.is_closing => Turn::Waits,
            Ok(()) if self.expects.has_requests || self.expects.may_receive => Turn::HasMore,
            Ok(()) => Turn::Waits,
        }
    }

    /// Receives into the worker's buffer and executes there; keeps only what is unfinished.
    fn receive_in_place(&mut self, kit: &mut Kit<'_, '_>) -> Result<(), End> {
        let most = match &self.transport {
            Transport::Socket(_) if self.incoming.is_likely() => HEAD_BYTES,
            _ => kit.receive.len(),
        };
        let room = &mut kit.receive[..most];
        let count = match &mut self.transport {
            Transport::Socket(stream) => received(stream.receive(room), kit)?,
            Transport::Lane(lane) => taken(lane.receive(room, kit.counters), kit)?,
        };
        let is_full = count == most;
        self.expects.may_receive = self.expects.end || is_full;
        if count == 0 {
            return Ok(());
        }
        // Taken out of the kit for the call, so that the kit can be lent along.
        let receive = std::mem::take(&mut kit.receive);
        self.session.state.input = InputUse { bytes: count, free_bytes: receive.len() - count };
        let executed = self.execute(&mut receive[..count], kit);
        if let Ok(consumed) = executed
            && consumed < count
            && !self.is_closing
        {
            let rest = &receive[consumed..count];
            let kept = self.divert(rest, kit);
            self.input = kit.buffers.take();
            self.input.extend_from_slice(&rest[..kept]);
        }
        kit.receive = receive;
        executed?;
        self.incoming.note_first(is_full);
        self.check_input(kit)
    }

    /// Receives behind an unfinished request and executes what is complete.
    fn receive_behind(&mut self, kit: &mut Kit<'_, '_>) -> Result<(), End> {
        self.input.drain(..self.input_start);
        self.input_start = 0;
        // Room grows with what has come, so that a peer has to send the bytes that it announced
        // before memory is set aside for them.
        let most = self.input.len().clamp(ROOM_BYTES_MAX, ROOM_BYTES_GROWN_MAX);
        let room = self.expects.wanted_bytes.clamp(ROOM_BYTES_MIN, most);
        if self.input.capacity() - self.input.len() < room {
            self.input.reserve_exact(room);
        }
        let input = &mut self.input;
        let count = match &mut self.transport {
            Transport::Socket(stream) => received(stream.receive_appending(input), kit)?,
            Transport::Lane(lane) => taken(lane.receive_appending(input, kit.counters), kit)?,
        };
        let is_full = self.input.len() == self.input.capacity();
        self.expects.may_receive = self.expects.end || is_full;
        if count == 0 { Ok(()) } else { self.execute_input(kit) }
    }

    /// Executes the complete requests of the input kept.
    fn execute_input(&mut self, kit: &mut Kit<'_, '_>) -> Result<(), End> {
        let mut input = std::mem::take(&mut self.input);
        let mut start = std::mem::take(&mut self.input_start);
        self.lent_bytes = input.capacity();
        let (bytes, free_bytes) = (input.len() - start, input.capacity() - input.len());
        self.session.state.input = InputUse { bytes, free_bytes };
        let executed = self.execute(&mut input[start..], kit);
        self.lent_bytes = 0;
        start += executed?;
        if start == input.len() {
            kit.buffers.give(input);
            return self.check_input(kit);
        }
        let length = start + self.divert(&input[start..], kit);
        if length < input.len() {
            input.truncate(length);
            // What has gone to its own place does not come back here.
            input.shrink_to(ROOM_BYTES_MIN);
        }
        (self.input, self.input_start) = (input, start);
        self.check_input(kit)
    }

    /// Executes requests of `buffer`, up to the end of the turn, and returns the bytes consumed.
    fn execute(&mut self, buffer: &mut [u8], kit: &mut Kit<'_, '_>) -> Result<usize, End> {
        self.provide_output(kit);
        let mut consumed = 0;
        for _ in 0..BATCHES_PER_TURN_MAX {
            let rest = &mut buffer[consumed..];
            let Decoded { consumed: count, next } = self.decode(rest, kit);
            consumed += count;
            if count > 0 {
                self.incoming.note_consumed();
            }
            self.execute_batch(rest, kit)?;
            if self.is_closing {
                break;
            }
            match next {
                Next::Full if consumed < buffer.len() => self.expects.has_requests = true,
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
            if self.stall.is_some() {
                break;
            }
        }
        if self.stall.is_none()
            && let Some(error) = self.failure.take()
        {
            self.refuse(error, kit);
        }
        Ok(consumed)
    }

    /// Tells the peer that it broke the protocol, as the last reply.
    #[cold]
    fn refuse(&mut self, error: ProtocolError, kit: &mut Kit<'_, '_>) {
        let text = error.text();
        kit.tick.tally.count_error(&text);
        if !self.session.state.replies.are_silent() {
            self.output.reply(self.session.state.protocol).error(text);
        }
        self.is_closing = true;
        self.incoming = Incoming::default();
    }

    /// Makes sure that there is a buffer for replies.
    #[inline]
    fn provide_output(&mut self, kit: &mut Kit<'_, '_>) {
        if !self.output.has_buffer() {
            self.output = Output::with_buffer(kit.buffers.take());
            self.record.set_output(0, self.output.memory_bytes());
        }
    }

    /// Executes the requests of the kit's batch, which were decoded from `buffer`.
    fn execute_batch(&mut self, buffer: &[u8], kit: &mut Kit<'_, '_>) -> Result<(), End> {
        self.check_share(kit)?;
        match self.incoming.is_there() && kit.batch.has_aside() {
            true => self.execute_received(buffer, kit),
            false => self.execute_requests(buffer, &[], kit),
        }
    }

    /// Executes the requests of the kit's batch, which were decoded from `buffer` but for the
    /// argument `aside`.
    fn execute_requests(
        &mut self,
        buffer: &[u8],
        aside: &[u8],
        kit: &mut Kit<'_, '_>,
    ) -> Result<(), End> {
        let count = kit.batch.len();
        let (client, descriptor) = (self.id(), self.as_fd().as_raw_fd());
        let mut executed = 0;
        while executed < count && !self.is_closing && self.stall.is_none() {
            let requests = kit.batch.view_with(buffer, aside);
            // From what is there on, so that each call executes one request at least.
            kit.tick.output_bytes_max = self.output.len() + OUTPUT_BYTES_PER_CALL_MAX;
            kit.tick.references_max = self.output.reference_count() + REFERENCES_PER_CALL_MAX;
            self.output.limit(self.output_bytes_max(kit), self.own_output_bytes_max(kit));
            // Others had their turns before this one, and the call before may have been long.
            kit.tick.now = kit.tick.clock.wall();
            let (session, output) = (&mut self.session, &mut self.output);
            let running = Running { requests, position: kit.tick.position, client, descriptor };
            let outcome = sys::crash::describe_while(&running, || {
                kit.shared.runtime.engine().execute(session, requests, executed, output, kit.tick)
            });
            kit.counters.commands.add(outcome.commands);
            executed = outcome.executed;
            if kit.tick.audience.is_there() {
                // Before the replies leave: who gets one has been shown to the monitors.
                kit.tick.audience.stage.deliver();
            }
            if self.output.is_over_limit() {
                return Err(End::OutputLimit);
            }
            match outcome.ending {
                Ending::Open => {}
                Ending::Blocked => self.stall_at(Stall::Blocked, requests, executed),
                Ending::Paused => self.stall_at(Stall::Paused, requests, executed),
                Ending::AfterReplies => self.is_closing = true,
                Ending::AtOnce => return Err(End::CrossProtocol),
            }
            if kit.shared.outbound.has_waiting() {
                self.take_descriptors(kit);
            }
            let is_much = self.output.len() >= kit.tick.output_bytes_max
                || self.output.reference_count() >= kit.tick.references_max;
            if is_much && executed < count && !self.is_closing {
                // Much output has gathered: what the kernel takes now need not be kept.
                self.send(kit)?;
            }
            if self.output.reference_count() > 0 {
                self.share_references(kit)?;
            }
            self.check_output(kit)?;
            self.check_share(kit)?;
        }
        Ok(())
    }

    /// Takes the descriptors that a command has left for this session.
    #[cold]
    fn take_descriptors(&mut self, kit: &Kit<'_, '_>) {
        self.outbound.extend(kit.shared.outbound.take(self.id()));
        if !self.outbound.is_empty()
            && self.process.is_none()
            && let Transport::Socket(stream) = &self.transport
        {
            // Without it the session ends with its connection alone.
            self.process = ProcessHandle::of_peer(stream).ok();
        }
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
        self.expects.has_requests = false;
        self.expects.wanted_bytes = bytes;
    }

    fn decode(&mut self, buffer: &mut [u8], kit: &mut Kit<'_, '_>) -> Decoded {
        let authenticated = self.session.state.authenticated;
        let limits =
            Limits { bulk_bytes_max: kit.settings.bulk_bytes_max, authenticated, ..Limits::REDIS };
        // AUTH changes the limits of what follows it.
        let requests_max = if authenticated { REQUESTS_PER_BATCH_MAX } else { 1 };
        self.decoder.decode(buffer, kit.batch, requests_max, &limits)
    }

    /// Sends what has not been sent, once.
    pub fn flush(&mut self, kit: &mut Kit<'_, '_>) -> Flushed {
        let unsent = match self.send(kit) {
            Ok(true) => Flushed::Further,
            Ok(false) => Flushed::Partly,
            Err(end) => return Flushed::Ended(end),
        };
        if self.has_output() {
            self.record.set_output(self.unsent_bytes(), self.output.memory_bytes());
            return self.check_output(kit).map_or_else(Flushed::Ended, |()| unsent);
        }
        self.over_soft_since = None;
        self.record.set_output(0, 0);
        kit.buffers.give(self.output.take_buffer());
        if self.is_closing { Flushed::Ended(End::Orderly) } else { Flushed::All }
    }

    /// Sends once; returns whether the kernel took all that was offered.
    fn send(&mut self, kit: &mut Kit<'_, '_>) -> Result<bool, End> {
        if !self.has_output() {
            return Ok(true);
        }
        kit.counters.writes.add(1);
        self.record.note_send(self.unsent_bytes());
        if let Transport::Lane(lane) = &mut self.transport {
            let count = lane.send(&mut self.output, kit.counters).map_err(End::BadLane)?;
            kit.counters.output_bytes.add(count as u64);
            return Ok(!self.has_output());
        }
        match self.send_once() {
            Ok((Sent::Bytes(count), offered)) => {
                kit.counters.output_bytes.add(count as u64);
                self.output.consume(count);
                self.forget_descriptors(kit);
                Ok(count == offered)
            }
            Ok((Sent::Blocked, _)) => Ok(false),
            Err(_) => Err(End::Broken),
        }
    }

    /// Sends once; returns what became of it and how many bytes were offered.
    #[inline]
    fn send_once(&mut self) -> io::Result<(Sent, usize)> {
        let Transport::Socket(stream) = &self.transport else {
            unreachable!("a lane sends by itself")
        };
        if self.outbound.is_empty()
            && let Some(bytes) = self.output.plain()
        {
            return Ok((stream.send(bytes)?, bytes.len()));
        }
        let mut pieces = [IoSlice::new(&[]); PIECES_PER_SEND_MAX];
        let count = self.output.pieces(&mut pieces);
        let pieces = &pieces[..count];
        let descriptors: Vec<BorrowedFd<'_>> = self.outbound.iter().map(|fd| fd.as_fd()).collect();
        let offered = pieces.iter().map(|piece| piece.len()).sum();
        Ok((stream.send_pieces(pieces, &descriptors)?, offered))
    }

    /// Notes that the descriptors, where there are some, have left with the first byte.
    #[inline]
    fn forget_descriptors(&mut self, kit: &Kit<'_, '_>) {
        if !self.outbound.is_empty() {
            self.outbound.clear();
            self.has_unreceived = true;
            if let Transport::Socket(stream) = &self.transport {
                kit.shared.outbound.note_sent(self.id(), stream);
            }
        }
    }

    /// Closes the connection once its replies are sent.
    pub fn close_after_replies(&mut self) {
        self.is_closing = true;
        self.expects.has_requests = false;
    }

    /// Returns why the connection should be closed at `now`, if it should.
    pub fn overdue(&self, settings: &Settings, shared: &Shared, now: UnixMs) -> Option<End> {
        let since = |then: UnixMs| u64::try_from(now.0 - then.0).unwrap_or(0);
        let soft_ms = settings.output_limit.soft_seconds * 1000;
        if self.over_soft_since.is_some_and(|then| since(then) >= soft_ms) {
            return Some(End::OutputLimit);
        }
        // A monitor sends nothing, and whoever waits may not be expected to.
        if self.is_monitor() || self.stall.is_some() {
            return None;
        }
        let timeout_ms = settings.timeout?.as_millis() as u64;
        if since(self.record.active_at()) < timeout_ms {
            return None;
        }
        // A process that reads the memory itself sends nothing, and closing would end its pins; one
        // that has lanes sends by them, and each is closed when it is idle.
        let id = self.id();
        let is_used = shared.attachments.is_reading(id) || shared.lanes.has_any(id);
        (!is_used).then_some(End::Idle)
    }

    /// Returns whether descriptors of its keep its replies waiting: the kernel has no room for them
    /// now, and does not tell when it has.
    pub fn awaits_descriptors(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// Returns by how much the connection's private memory has grown since the last call.
    #[inline]
    pub fn count_memory(&mut self) -> isize {
        let bytes = self.memory_bytes();
        let growth = bytes as isize - self.counted_bytes as isize;
        self.counted_bytes = bytes;
        // What its replies refer to lies in the keyspace and counts there. So does the place of a
        // value that it sends, or has copied ahead, what it watches and what it waits for.
        self.record.set_memory(bytes, self.elsewhere_bytes());
        growth
    }

    /// Returns the bytes that count in the keyspace, and that nobody but this client is in the way
    /// of the end of.
    fn elsewhere_bytes(&self) -> usize {
        let coming = self.incoming.value_bytes() + self.session.ahead_bytes();
        let registered = self.session.watch_bytes() + self.session.wait_bytes();
        self.output.referenced_bytes() + coming + registered
    }

    /// Ends the session, or others that take more, where clients take more than
    /// `maxmemory-clients`: before a request is executed, as after it, since a request is what may
    /// take much at once.
    #[inline]
    fn check_share(&self, kit: &Kit<'_, '_>) -> Result<(), End> {
        match kit.settings.max_memory_clients {
            None => Ok(()),
            Some(limit) => self.check_share_of(limit, kit),
        }
    }

    #[cold]
    fn check_share_of(&self, limit: u64, kit: &Kit<'_, '_>) -> Result<(), End> {
        let (bytes, elsewhere) = (self.memory_bytes(), self.elsewhere_bytes());
        self.record.set_memory(bytes, elsewhere);
        // The service thread adds up those that take little.
        if ((bytes + elsewhere) as u64) < (limit / CHECKED_SHARE).max(CHECKED_BYTES_MIN) {
            return Ok(());
        }
        let mut surplus = kit.shared.clients.surplus(limit);
        let count = surplus.len();
        surplus.retain(|&id| id != self.id());
        let is_own = surplus.len() < count;
        kit.shared.end_clients(&surplus, End::Evicted);
        if is_own { Err(End::Evicted) } else { Ok(()) }
    }

    /// Returns how much private memory was counted for the connection.
    pub fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Returns the lane that carries the connection, if one does.
    #[inline]
    pub fn lane(&mut self) -> Option<&mut LaneTransport> {
        self.transport.lane()
    }

    /// Returns whether its next turn would receive something.
    #[inline]
    pub fn wants_input(&self) -> bool {
        !self.is_closing && self.stall.is_none()
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
        self.input.len() - self.input_start + self.incoming.filled_bytes()
    }

    fn memory_bytes(&self) -> usize {
        let buffers = self.input.capacity() + self.output.memory_bytes();
        size_of::<Connection>()
            + buffers
            + self.lent_bytes
            + self.held.capacity()
            + self.decoder.memory_bytes()
            + self.session.memory_bytes()
            + self.transport.memory_bytes()
    }

    fn check_input(&mut self, kit: &Kit<'_, '_>) -> Result<(), End> {
        self.check_share(kit)?;
        if self.stall.is_some() {
            // It grows no further: nothing is received.
            self.put_back();
            return Ok(());
        }
        let most = match self.session.state.authenticated {
            true => kit.settings.query_bytes_max,
            false => UNAUTHENTICATED_INPUT_BYTES_MAX.min(kit.settings.query_bytes_max),
        };
        if self.kept_bytes() > most { Err(End::QueryLimit) } else { Ok(()) }
    }

    /// Returns the hard limit of unsent output in bytes; 0 is none.
    fn hard_output_bytes(&self, kit: &Kit<'_, '_>) -> u64 {
        match self.session.state.authenticated {
            true => kit.settings.output_limit.hard_bytes,
            false => UNAUTHENTICATED_OUTPUT_BYTES_MAX as u64,
        }
    }

    /// Returns how much output may be unsent after one call of the engine: one request can ask for
    /// one value a million times.
    fn output_bytes_max(&self, kit: &Kit<'_, '_>) -> usize {
        match self.hard_output_bytes(kit) {
            0 => self.output.len() + UNLIMITED_OUTPUT_BYTES_PER_CALL_MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    /// Returns how much of it may be copies in private memory: under a memory limit what that
    /// leaves, and what it may be passed by.
    fn own_output_bytes_max(&self, kit: &Kit<'_, '_>) -> usize {
        // Of what is unsent this much is known to the keyspace: not yet the replies of this round.
        let unsent = self.output.len() - self.output.referenced_bytes();
        let counted = unsent.min(self.counted_bytes);
        let most = kit.shared.keyspace().reply_bytes_max(counted as u64);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Lets go of values that lie elsewhere where replies refer to more of them than the session's
    /// share: a peer that does not read would hold all that the process can hold. Its replies get
    /// copies, which are made while no shard is held.
    #[cold]
    fn share_references(&mut self, kit: &mut Kit<'_, '_>) -> Result<(), End> {
        let is_short = kit.shared.keyspace().arena().held_count() > HELD_VALUES_SHARED;
        let kept = if is_short { 0 } else { REFERENCES_KEPT_MAX };
        if self.output.reference_count() <= kept {
            return Ok(());
        }
        // What the kernel takes now need not be copied.
        self.send(kit)?;
        self.output.limit(self.output_bytes_max(kit), self.own_output_bytes_max(kit));
        if self.output.own_references(kept) { Ok(()) } else { Err(End::OutputLimit) }
    }

    fn check_output(&mut self, kit: &Kit<'_, '_>) -> Result<(), End> {
        let unsent = self.unsent_bytes() as u64;
        let limit = kit.settings.output_limit;
        let hard = self.hard_output_bytes(kit);
        if hard != 0 && unsent > hard {
            return Err(End::OutputLimit);
        }
        self.over_soft_since = (limit.soft_bytes != 0 && unsent > limit.soft_bytes)
            .then(|| self.over_soft_since.unwrap_or(kit.tick.now));
        Ok(())
    }

    /// Brings the record up to date where what it shows has changed.
    fn show(&mut self) {
        let kept = self.kept_bytes();
        let shown = Shown::of(&self.session, kept, self.is_closing);
        if shown == self.shown {
            return;
        }
        let shown_argument_bytes = shown.argument_bytes;
        self.shown = shown;
        self.record.update(&self.session, |info| {
            info.query_bytes = kept;
            info.query_bytes_free =
                self.input.capacity() - self.input.len() + self.incoming.missing_bytes();
            info.is_closing = self.is_closing;
            info.argument_bytes = self.decoder.memory_bytes() + shown_argument_bytes;
            info.total_bytes = self.memory_bytes() - self.output.memory_bytes();
        });
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

impl Shown {
    fn of(session: &Session, input_bytes: usize, is_closing: bool) -> Shown {
        let state = &session.state;
        Shown {
            command: state.last_command.map(std::ptr::from_ref),
            name_changes: state.names.changes(),
            database: state.database,
            protocol: state.protocol,
            queued: state.transaction.as_ref().map(Transaction::size),
            watches: session.watch_mark(),
            modes: [state.is_monitor, state.is_kept, state.leaves_no_touch],
            input_bytes,
            argument_bytes: session.waiting_argument_bytes(),
            is_closing,
        }
    }
}

/// Returns the bytes that a receive brought, 0 when nothing was there.
#[inline]
fn received(result: io::Result<Received>, kit: &Kit<'_, '_>) -> Result<usize, End> {
    match result {
        Ok(Received::Bytes(count)) => {
            kit.counters.reads.add(1);
            kit.counters.input_bytes.add(count as u64);
            Ok(count)
        }
        Ok(Received::Blocked) => Ok(0),
        Ok(Received::End) => Err(End::Orderly),
        Err(_) => Err(End::Broken),
    }
}

/// Returns the bytes that were taken out of a lane, 0 when nothing was there.
#[inline]
fn taken(result: Result<usize, LaneError>, kit: &Kit<'_, '_>) -> Result<usize, End> {
    let count = result.map_err(End::BadLane)?;
    kit.counters.reads.add(u64::from(count > 0));
    kit.counters.input_bytes.add(count as u64);
    Ok(count)
}
