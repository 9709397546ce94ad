//! A lane: any command, sent through memory that the server maps too.
//!
//! docs/internals/shm-lanes.md describes how it is made and what is in the memory.

mod nonblocking;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::spin_policy::SpinPolicy;
use resp::{Value as Reply, encode_command};
use ring::UploadBuffer;
use ring::lane::{LaneEnd, LaneError, LaneShape, NEWS, ROOM, SharedLane, Side};
use sys::fork::Generation;
use sys::futex::{self, Waited};
use sys::poll::Waker;
use sys::socket::Stream;

use crate::control_connection::{ControlConnection, SharedControl, field};
use crate::error::{AttachError, accepted, check_process, closed, unexpected};
use crate::late_tasks::{DELAY, LateBell, LateTasks};
use crate::replies::Replies;
use crate::session_uploads::{Mode, Uploads};

/// The descriptors that come with a lane: its memory, the server's doorbell, and the client's, a
/// socket.
const LANE_DESCRIPTORS: usize = 3;
/// How long a wait takes before it checks whether the server is still there. One that ends in order
/// wakes its clients; one that was killed does not.
pub(crate) const SERVER_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How long the reply to what was posted is polled for: as long as it takes to wake a server on
/// another processor that sleeps, some 45 us in a virtual machine, and to be woken by it, as both
/// would sleep.
const POST_SPIN: Duration = Duration::from_micros(100);
/// Checks of the ring between two readings of the clock.
const SPINS_PER_CLOCK: u32 = 32;
/// Of a longer value the server is told in pieces of this size. To copy one takes about 20 us, a
/// part of the time for which a server spins.
const FILLED_BYTES_MIN: usize = 1 << 20;
/// So many pieces at most, so that what is said of them finds room in any ring.
const FILLED_PIECES_MAX: usize = 16;
/// Asks for nothing, and is not answered.
const EMPTY_LINE: &[u8] = b"\r\n";
/// Requests that nobody waits for and bytes of them for which a server that sleeps is woken before
/// their bell rings: it works on them while more are sent, and the ring, of 64 KiB, is never full.
const LAZY_POSTS_MAX: usize = 192;
const LAZY_BYTES_MAX: usize = 16 * 1024;
/// What is taken out of the ring at once.
const TAKEN_BYTES_MAX: usize = 1 << 20;

/// A connection through shared memory, for one thread at a time.
pub struct Lane {
    end: LaneEnd<SharedLane>,
    server_doorbell: Waker,
    replies: Replies,
    /// Replies to come whose callers have given up.
    unread: usize,
    /// Replies to come to what was posted, and those that have come; they precede the unread ones.
    posted: usize,
    posted_replies: VecDeque<Reply>,
    /// The bytes of requests, kept to be used again.
    encoded: Vec<u8>,
    id: u64,
    /// Whether it pays to spin for replies before this side sleeps.
    spin_policy: SpinPolicy,
    /// The same for what the server was woken for a moment ago.
    post_spin_policy: SpinPolicy,
    /// The longest silence of the server that is waited for.
    timeout: Option<Duration>,
    /// Set where nobody waits for replies any more; checked in the same intervals as the server.
    is_closed: Option<Arc<AtomicBool>>,
    /// A call has failed before its reply was there whole: what comes next would be taken for the
    /// reply of another.
    is_broken: bool,
    /// The connection that the lane lives with.
    control: Arc<SharedControl>,
    /// The same connection, to check whether the server is there.
    control_socket: UnixStream,
    /// Rings for what the server is not woken for at once, where the lane is of a session that has
    /// the thread for it; and when the latest of that was sent.
    late_bell: Option<Arc<LateBell>>,
    latest_lazy: Duration,
    /// Bytes of such requests since the server was woken last.
    lazy_bytes: usize,
    /// The server rings it when this side waits by socket.
    client_doorbell: Stream,
    generation: Generation,
}

impl Lane {
    /// Connects to the server behind the unix socket at `path` and makes a lane. `password` is sent
    /// where the server asks for one.
    ///
    /// # Errors
    /// When the server does not answer or allows no lane.
    pub fn connect(
        path: &Path,
        password: Option<&[u8]>,
        shape: LaneShape,
    ) -> Result<Lane, AttachError> {
        let control = ControlConnection::connect(path, password)?;
        Lane::open(&SharedControl::new(control), shape)
    }

    /// Makes a lane that lives with the connection `control`.
    pub(crate) fn open(
        control: &Arc<SharedControl>,
        shape: LaneShape,
    ) -> Result<Lane, AttachError> {
        let mut connection = control.lock();
        let sizes = [shape.request_bytes(), shape.reply_bytes()].map(|bytes| bytes.to_string());
        let [requests, replies] = sizes.each_ref().map(|text| text.as_bytes());
        let reply = connection.ask(&[b"SHM", b"LANE", requests, replies])?;
        let Some(Reply::Integer(id)) = field(&reply, "lane") else {
            return Err(unexpected(&reply));
        };
        let id = *id as u64;
        let taken_up = take_up(&mut connection, id, &reply, shape);
        // What nobody goes on with would count as a lane of this connection.
        let (memory, server_doorbell, client_doorbell) =
            taken_up.inspect_err(|_| control.close(id))?;
        Ok(Lane {
            end: LaneEnd::new(memory, Side::Client),
            server_doorbell,
            replies: Replies::default(),
            unread: 0,
            posted: 0,
            posted_replies: VecDeque::new(),
            encoded: Vec::new(),
            id,
            spin_policy: SpinPolicy::default(),
            post_spin_policy: SpinPolicy::default(),
            timeout: None,
            is_closed: None,
            is_broken: false,
            control: Arc::clone(control),
            control_socket: connection.socket()?,
            late_bell: None,
            latest_lazy: Duration::ZERO,
            lazy_bytes: 0,
            client_doorbell,
            generation: Generation::current(),
        })
    }

    /// Returns memory of at least `bytes` to write values to before they are committed, by this
    /// lane or by any other of its session.
    ///
    /// # Errors
    /// When the server does not answer, or allows no (further) upload memory.
    pub fn uploads(&self, bytes: u64) -> Result<Uploads, AttachError> {
        Uploads::open(&self.control, bytes)
    }

    /// Returns false in a forked child: it is the parent's.
    pub(crate) fn is_own(&self) -> bool {
        self.generation.is_current()
    }

    /// Returns the number of the lane's session, as CLIENT ID says.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Gives up once the server has been silent for `timeout`; without one it waits for ever, as a
    /// blocking command may have to.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Has waits fail soon after `is_closed` is set; without one they go on.
    pub(crate) fn end_waits_when(&mut self, is_closed: Option<Arc<AtomicBool>>) {
        self.is_closed = is_closed;
    }

    /// Sends one request and returns its reply, which may be an error.
    ///
    /// # Errors
    /// When the lane has ended: the server, or SHM CLOSE, has ended it; or when the time is over.
    /// Every further call fails then.
    pub fn call(&mut self, request: &[&[u8]]) -> Result<Reply, AttachError> {
        self.exchange(|lane| {
            lane.send_requests(&[request])?;
            lane.next_answer()
        })
    }

    /// Sends all of `requests` at once and returns their replies in order.
    ///
    /// # Errors
    /// As [`Lane::call`].
    pub fn pipeline(&mut self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, AttachError> {
        self.exchange(|lane| {
            lane.send_requests(requests)?;
            requests.iter().map(|_| lane.next_answer()).collect()
        })
    }

    /// Sends all of `requests` and awaits no reply: [`Lane::posted_reply`] returns them, in order.
    ///
    /// # Errors
    /// As [`Lane::call`].
    pub(crate) fn post(&mut self, requests: &[&[&[u8]]]) -> Result<(), AttachError> {
        self.exchange(|lane| {
            lane.send_requests(requests)?;
            lane.posted += requests.len();
            Ok(())
        })
    }

    /// As [`Lane::post`], for requests that nobody waits for: where such ones come one after the
    /// other, the server is not woken for each. It executes them with what comes next, once they
    /// are many, or after about [`DELAY`].
    ///
    /// # Errors
    /// As [`Lane::call`].
    pub(crate) fn post_lazily(&mut self, requests: &[&[&[u8]]]) -> Result<(), AttachError> {
        let now = sys::clock::monotonic();
        let is_one_of_many = now.saturating_sub(self.latest_lazy) < DELAY;
        self.latest_lazy = now;
        let Some(bell) = self.late_bell.as_ref().filter(|_| is_one_of_many).map(Arc::clone) else {
            return self.post(requests);
        };
        self.exchange(|lane| {
            let mut encoded = std::mem::take(&mut lane.encoded);
            encoded.clear();
            requests.iter().for_each(|request| encode_command(request, &mut encoded));
            let count = lane.end.write(&[&encoded]).map_err(broken)?;
            lane.posted += requests.len();
            lane.lazy_bytes += count;
            let is_much = lane.posted >= LAZY_POSTS_MAX || lane.lazy_bytes >= LAZY_BYTES_MAX;
            match count == encoded.len() && !is_much {
                true if lane.end.peer_sleeps_for(NEWS) => bell.ring_later(),
                true => lane.lazy_bytes = 0,
                false => lane.send_rest(count, &encoded)?,
            }
            lane.encoded = encoded;
            Ok(())
        })
    }

    /// Has what is sent by [`Lane::post_lazily`] rung for by the thread of `late_tasks`.
    pub(crate) fn set_late_bell(&mut self, late_tasks: &Arc<LateTasks>) {
        self.late_bell = Some(late_tasks.bell(self.server_doorbell.clone()));
    }

    /// Returns the next reply to what was posted; `None` where it has not come, unless it is waited
    /// for, and where there is nothing to come.
    ///
    /// # Errors
    /// As [`Lane::call`].
    pub(crate) fn posted_reply(&mut self, is_awaited: bool) -> Result<Option<Reply>, AttachError> {
        if let Some(reply) = self.posted_replies.pop_front() {
            return Ok(Some(reply));
        }
        self.exchange(|lane| {
            while lane.posted > 0 {
                match lane.replies.next_message()? {
                    Some(Reply::Push(_)) => {}
                    Some(reply) => {
                        lane.posted -= 1;
                        return Ok(Some(reply));
                    }
                    None if lane.take()? > 0 => {}
                    None if !is_awaited => break,
                    None => {
                        // It may wait for its late bell.
                        lane.ring_for(lane.posted, NEWS);
                        if !lane.spin_for_posted().map_err(broken)? && lane.take_or_wait()? == 0 {
                            return Err(AttachError::Io(ErrorKind::UnexpectedEof.into()));
                        }
                    }
                }
            }
            Ok(None)
        })
    }

    fn exchange<T>(
        &mut self,
        run: impl FnOnce(&mut Lane) -> Result<T, AttachError>,
    ) -> Result<T, AttachError> {
        check_process(self.generation)?;
        if self.is_broken {
            let text = "the lane has failed before";
            return Err(AttachError::Io(io::Error::new(ErrorKind::NotConnected, text)));
        }
        self.is_broken = true;
        let found = run(self)?;
        self.is_broken = false;
        Ok(found)
    }

    /// Waits for the next reply: a push, or what a request sent by [`Lane::send`] is answered.
    ///
    /// # Errors
    /// As [`Lane::call`].
    pub fn next_reply(&mut self) -> Result<Reply, AttachError> {
        loop {
            match self.replies.next_message()? {
                Some(Reply::Push(push)) => return Ok(Reply::Push(push)),
                Some(reply) if self.posted > 0 => {
                    self.posted -= 1;
                    self.posted_replies.push_back(reply);
                    continue;
                }
                // Of pieces copied ahead: where that failed the commit copies all.
                Some(_) if self.unread > 0 => {
                    self.unread -= 1;
                    continue;
                }
                Some(reply) => return Ok(reply),
                None => {}
            }
            if self.take_or_wait()? == 0 {
                return Err(AttachError::Io(ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// As [`Lane::next_reply`], without pushes: they answer no request.
    fn next_answer(&mut self) -> Result<Reply, AttachError> {
        loop {
            match self.next_reply()? {
                Reply::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Sends bytes as they are: requests, or parts of them.
    ///
    /// Where the ring is full it waits, and takes replies meanwhile, so that neither side waits for
    /// the other for ever.
    ///
    /// # Errors
    /// When the lane has ended.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let count = self.end.write(&[bytes]).map_err(broken)?;
        self.send_rest(count, bytes)
    }

    /// Sends what follows the first `count` of `bytes`, which have been written, and rings.
    fn send_rest(&mut self, mut count: usize, bytes: &[u8]) -> io::Result<()> {
        let (mut rest, mut silence) = (bytes, Duration::ZERO);
        loop {
            rest = &rest[count..];
            self.ring_for(count, NEWS);
            if rest.is_empty() {
                return Ok(());
            }
            if count > 0 || self.take()? > 0 {
                silence = Duration::ZERO;
            } else if !self.wait(NEWS | ROOM, &mut silence)? {
                return Err(ErrorKind::BrokenPipe.into());
            }
            count = self.end.write(&[rest]).map_err(broken)?;
        }
    }

    /// Copies `value` to the start of `buffer`, to be committed next over this lane under `key`,
    /// and returns the mode to commit it by. Where `mode` has it copied, the server copies what is
    /// there while the rest comes. A server that spins for this client's requests goes on spinning
    /// meanwhile, and need not be woken for the commit. Replies to what was sent before by
    /// [`Lane::send`] have been taken, and the next call is one that awaits its replies, such as
    /// [`Lane::pipeline`]: what the server says of the copies is skipped then.
    ///
    /// # Errors
    /// As [`Lane::call`].
    ///
    /// # Panics
    /// When the value is longer than the buffer.
    pub fn fill(
        &mut self,
        buffer: &mut UploadBuffer,
        value: &[u8],
        mode: Mode,
        key: &[u8],
    ) -> Result<Mode, AttachError> {
        let piece_bytes = FILLED_BYTES_MIN.max(value.len() / FILLED_PIECES_MAX);
        if value.len() <= piece_bytes {
            buffer[..value.len()].copy_from_slice(value);
            return Ok(mode);
        }
        self.exchange(|lane| {
            let (offset, length) = (buffer.offset().to_string(), value.len().to_string());
            for (index, piece) in value.chunks(piece_bytes).enumerate() {
                let from = index * piece_bytes;
                let to = from + piece.len();
                buffer[from..to].copy_from_slice(piece);
                if to == value.len() {
                    break;
                }
                if mode != Mode::Adopt {
                    let [from, to] = [from, to].map(|number| number.to_string());
                    let words = [&offset, &length, &from, &to].map(|word| word.as_bytes());
                    let [offset, length, from, to] = words;
                    lane.send_requests(&[&[b"SHM", b"COPY", offset, length, from, to, key]])?;
                    lane.unread += 1;
                } else if !lane.end.spin_limit().is_zero() {
                    lane.send(EMPTY_LINE)?;
                }
            }
            Ok(if mode == Mode::Copy { Mode::Copied } else { mode })
        })
    }

    /// Waits for bytes of replies and appends them to `buffer`; returns how many, 0 when the lane
    /// has ended.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self.replies.move_to(buffer) {
            0 => {
                self.take_or_wait()?;
                Ok(self.replies.move_to(buffer))
            }
            count => Ok(count),
        }
    }

    /// As [`Lane::call`], where an error reply is an error.
    pub(crate) fn ask(&mut self, request: &[&[u8]]) -> Result<Reply, AttachError> {
        accepted(self.call(request)?)
    }

    fn send_requests(&mut self, requests: &[&[&[u8]]]) -> io::Result<()> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        for request in requests {
            encode_command(request, &mut encoded);
        }
        let sent = self.send(&encoded);
        self.encoded = encoded;
        sent
    }

    /// Takes what is there, or waits until something is; returns how many bytes came, 0 when the
    /// lane has ended.
    fn take_or_wait(&mut self) -> io::Result<usize> {
        let mut silence = Duration::ZERO;
        loop {
            match self.take()? {
                0 => {}
                count => return Ok(count),
            }
            if !self.wait(NEWS, &mut silence)? {
                return self.take();
            }
        }
    }

    /// Takes what is there; returns how many bytes that is.
    fn take(&mut self) -> io::Result<usize> {
        let taken = self.end.read_appending(self.replies.buffer(), TAKEN_BYTES_MAX);
        let count = taken.map_err(broken)?;
        self.ring_for(count, ROOM);
        Ok(count)
    }

    /// Rings if the server sleeps for `reason`, where `count` bytes were put or taken.
    fn ring_for(&mut self, count: usize, reason: u64) {
        if count > 0 && self.end.claim(reason).is_some() {
            self.end.set_client_processor(sys::process::processor());
            self.server_doorbell.wake();
            self.lazy_bytes = 0;
            if let Some(bell) = &self.late_bell {
                bell.forget();
            }
        }
    }

    /// Spins until one of `reasons` to go on is there, as long as the server spins for this client
    /// in turn: its answer comes sooner than a sleeper wakes up. Returns whether there is one.
    fn spin(&mut self, reasons: u64) -> Result<bool, LaneError> {
        let limit = self.end.spin_limit();
        if limit.is_zero() || !self.spin_policy.is_due() {
            return Ok(false);
        }
        let begin = sys::clock::monotonic();
        loop {
            for _ in 0..SPINS_PER_CLOCK {
                if self.end.is_ready(reasons)? {
                    self.spin_policy.learn(true);
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            let is_over = sys::clock::monotonic().saturating_sub(begin) >= limit;
            if is_over || self.end.spin_limit().is_zero() || self.end.is_closed() {
                self.spin_policy.learn(false);
                return Ok(false);
            }
        }
    }

    /// Spins a while for the reply to what was posted, as long as that pays: a server that has been
    /// woken for it is about to write it. Returns whether it is there.
    fn spin_for_posted(&mut self) -> Result<bool, LaneError> {
        if !self.end.spin_limit().is_zero() || !self.post_spin_policy.is_due() {
            return Ok(false);
        }
        let end = sys::clock::monotonic() + POST_SPIN;
        let mut is_there = self.end.is_ready(NEWS)?;
        while !is_there && sys::clock::monotonic() < end {
            for _ in 0..SPINS_PER_CLOCK {
                std::hint::spin_loop();
            }
            is_there = self.end.is_ready(NEWS)?;
        }
        self.post_spin_policy.learn(is_there);
        Ok(is_there)
    }

    /// Sleeps until the server wakes this side for one of `reasons`, or a while has passed, which
    /// is added to `silence`. Returns false when the lane has ended.
    fn wait(&mut self, reasons: u64, silence: &mut Duration) -> io::Result<bool> {
        if self.spin(reasons).map_err(broken)? || self.end.arm(reasons).map_err(broken)? {
            return Ok(true);
        }
        if self.end.is_closed() {
            self.end.disarm();
            return Ok(false);
        }
        let left = self.timeout.unwrap_or(Duration::MAX).saturating_sub(*silence);
        let (interval, begin) = (SERVER_CHECK_INTERVAL.min(left), sys::clock::monotonic());
        let waited = futex::wait(self.end.client_state(), reasons as u32, interval)?;
        let is_armed = self.end.is_armed();
        self.end.disarm();
        if waited == Waited::Woken && !is_armed {
            return Ok(true);
        }
        // Signals end a wait early, and a process may get some all the time: what counts is how
        // long it was, and each such wait checks.
        *silence += match waited {
            Waited::Woken => sys::clock::monotonic().saturating_sub(begin),
            Waited::TimedOut => interval,
        };
        if sys::descriptors::peer_has_closed(&self.control_socket)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if self.is_closed.as_ref().is_some_and(|it| it.load(Ordering::Relaxed)) {
            return Err(closed());
        }
        match self.timeout.is_some_and(|timeout| *silence >= timeout) {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(true),
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        // Its connection may live on. Where it does not, the lane has ended with it.
        self.control.close(self.id);
    }
}

/// Maps what has come with `reply`, the offer of lane `id`, and has the server serve it.
fn take_up(
    connection: &mut ControlConnection,
    id: u64,
    reply: &Reply,
    shape: LaneShape,
) -> Result<(SharedLane, Waker, Stream), AttachError> {
    let descriptors = std::mem::take(&mut connection.descriptors);
    let descriptors: Result<[OwnedFd; LANE_DESCRIPTORS], _> = descriptors.try_into();
    let [memory, server_doorbell, client_doorbell] = descriptors.map_err(|_| unexpected(reply))?;
    let memory = SharedLane::open(memory, shape)?;
    connection.ask(&[b"SHM", b"SEAL", id.to_string().as_bytes()])?;
    Ok((memory, Waker::from(server_doorbell), Stream::from(client_doorbell)))
}

fn broken(error: LaneError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread;

    use super::*;

    #[test]
    fn lane_that_cannot_be_mapped_is_given_back() {
        let (client, mut server) = UnixStream::pair().unwrap();
        let control = SharedControl::new(ControlConnection::over(client, None).unwrap());
        let server = thread::spawn(move || {
            let mut bytes = [0; 128];
            let count = server.read(&mut bytes).unwrap();
            assert!(bytes[..count].starts_with(b"*4\r\n$3\r\nSHM\r\n$4\r\nLANE\r\n"));
            server.write_all(b"*2\r\n$4\r\nlane\r\n:7\r\n").unwrap();
            let count = server.read(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"*3\r\n$3\r\nSHM\r\n$5\r\nCLOSE\r\n$1\r\n7\r\n");
        });
        let made = Lane::open(&control, LaneShape::new(4096, 4096).unwrap());
        assert!(matches!(made, Err(AttachError::Unexpected(_))), "{made:?}");
        server.join().unwrap();
    }
}
