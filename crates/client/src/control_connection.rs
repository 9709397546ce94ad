//! The connection on which a session depends: requests one at a time, descriptors together with
//! replies.

use std::io::{self, ErrorKind, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use resp::{Value as Reply, encode_command};
use ring::Mapped;
use sys::memfd_segments::LiveSegment;

use crate::error::{AttachError, accepted, unexpected};
use crate::replies::Replies;
use crate::session_uploads::Runs;

/// How many lists of segments one refresh asks for: 250 new segments come with each.
const LISTS_MAX: u32 = 1024;
/// How long the client waits between two questions whether its pin table is sealed.
const SEAL_INTERVAL: Duration = Duration::from_millis(1);
/// For how long the client asks that where it has no timeout.
const SEAL_TIMEOUT: Duration = Duration::from_secs(10);
/// What one receive takes from the socket.
const RECEIVE_BYTES: usize = 16 * 1024;

/// The connection: requests one at a time, and the descriptors that came with replies.
pub struct ControlConnection {
    stream: UnixStream,
    replies: Replies,
    /// Those that came with the latest reply.
    pub descriptors: Vec<OwnedFd>,
    /// Replies without a caller that come before the next one that a caller waits for.
    owed_count: usize,
    /// Lanes of this connection that nobody holds any more.
    dropped: Arc<Mutex<Vec<u64>>>,
    /// Set once it has ended, or a request has failed before its reply was there whole: what comes
    /// next would be taken for the reply of another. Also for those who look without asking.
    pub has_failed: Arc<AtomicBool>,
}

/// A connection that several hold, one at a time.
pub struct SharedControl {
    connection: Mutex<ControlConnection>,
    /// As [`ControlConnection::dropped`], for those who cannot wait for the connection.
    dropped: Arc<Mutex<Vec<u64>>>,
    /// The upload memory of the session, for all that write to it.
    runs: Mutex<Runs>,
}

/// The connection, for as long as this is held.
pub struct ControlGuard<'a> {
    shared: &'a SharedControl,
    /// Absent only while this is dropped.
    connection: Option<MutexGuard<'a, ControlConnection>>,
}

impl SharedControl {
    /// Returns `connection`, to be shared.
    pub fn new(connection: ControlConnection) -> Arc<SharedControl> {
        let dropped = Arc::clone(&connection.dropped);
        Arc::new(SharedControl {
            connection: Mutex::new(connection),
            dropped,
            runs: Mutex::default(),
        })
    }

    /// Returns the upload memory of the session.
    pub fn runs(&self) -> MutexGuard<'_, Runs> {
        lock(&self.runs)
    }

    /// Waits until nobody else has the connection.
    pub fn lock(&self) -> ControlGuard<'_> {
        let connection = self.connection.lock().expect("no holder of the connection panics");
        ControlGuard { shared: self, connection: Some(connection) }
    }

    /// Ends the lane `id`. Waits neither for the server nor for who holds the connection, and
    /// closes it then.
    pub fn close(&self, id: u64) {
        lock(&self.dropped).push(id);
        self.close_dropped();
    }

    fn close_dropped(&self) {
        // Who finds the connection held leaves it to its holder, who looks after having let it go:
        // so again each time, until there is nothing left.
        while !lock(&self.dropped).is_empty() {
            let Ok(mut connection) = self.connection.try_lock() else { return };
            if !connection.close_dropped() {
                return;
            }
        }
    }
}

impl Deref for ControlGuard<'_> {
    type Target = ControlConnection;

    fn deref(&self) -> &ControlConnection {
        self.connection.as_ref().expect("it is held until the drop")
    }
}

impl DerefMut for ControlGuard<'_> {
    fn deref_mut(&mut self) -> &mut ControlConnection {
        self.connection.as_mut().expect("it is held until the drop")
    }
}

impl Drop for ControlGuard<'_> {
    fn drop(&mut self) {
        self.connection = None;
        self.shared.close_dropped();
    }
}

impl ControlConnection {
    /// Connects to the socket at `path`, and authenticates with `password`, where there is one.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub fn connect(path: &Path, password: Option<&[u8]>) -> Result<ControlConnection, AttachError> {
        ControlConnection::over(UnixStream::connect(path)?, password)
    }

    /// Returns the connection over `stream`, after it has authenticated with `password`, where
    /// there is one.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub fn over(
        stream: UnixStream,
        password: Option<&[u8]>,
    ) -> Result<ControlConnection, AttachError> {
        let mut connection = ControlConnection::new(stream);
        if let Some(password) = password {
            connection.ask(&[b"AUTH", password])?;
        }
        Ok(connection)
    }

    fn new(stream: UnixStream) -> ControlConnection {
        ControlConnection {
            stream,
            replies: Replies::default(),
            descriptors: Vec::new(),
            owed_count: 0,
            dropped: Arc::default(),
            has_failed: Arc::default(),
        }
    }

    /// Ends the lanes that have been dropped, as far as the socket takes requests at once. Waits
    /// neither for room nor for replies. Returns false where some are left: they are closed with
    /// the next request, or have ended with the connection.
    fn close_dropped(&mut self) -> bool {
        while !self.has_failed() {
            let Some(id) = lock(&self.dropped).pop() else { return true };
            let mut request = Vec::new();
            encode_command(&[b"SHM", b"CLOSE", id.to_string().as_bytes()], &mut request);
            match sys::descriptors::send_at_once(&self.stream, &request) {
                Ok(count) if count == request.len() => self.owed_count += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    lock(&self.dropped).push(id);
                    return false;
                }
                // What follows half a request would be taken for the rest of it.
                _ => self.fail(),
            }
        }
        false
    }

    /// Gives up once the server has been silent for `timeout`.
    ///
    /// # Errors
    /// When it is zero.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)?;
        self.stream.set_write_timeout(timeout)
    }

    /// Returns another handle of the socket.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn socket(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }

    /// Returns whether the connection has ended.
    ///
    /// # Errors
    /// Those of a broken connection.
    pub fn is_over(&self) -> io::Result<bool> {
        if !self.has_failed() && sys::descriptors::peer_has_closed(&self.stream)? {
            self.fail();
        }
        Ok(self.has_failed())
    }

    /// Sends one request and returns its reply; descriptors are kept in `descriptors`. After an
    /// error that is not the server's refusal, every further call fails.
    pub fn ask(&mut self, request: &[&[u8]]) -> Result<Reply, AttachError> {
        if self.has_failed() {
            let text = "the connection to the server has failed before";
            return Err(AttachError::Io(io::Error::new(ErrorKind::NotConnected, text)));
        }
        self.close_dropped();
        let exchanged = self.exchange(request);
        accepted(exchanged.inspect_err(|_| self.fail())?)
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    fn exchange(&mut self, request: &[&[u8]]) -> Result<Reply, AttachError> {
        let mut out = Vec::new();
        encode_command(request, &mut out);
        self.stream.write_all(&out)?;
        self.descriptors.clear();
        loop {
            match self.replies.next()? {
                Some(_) if self.owed_count > 0 => self.owed_count -= 1,
                Some(reply) => return Ok(reply),
                None => self.receive()?,
            }
        }
    }

    fn receive(&mut self) -> Result<(), AttachError> {
        let mut bytes = [0; RECEIVE_BYTES];
        let count = sys::descriptors::receive(&self.stream, &mut bytes, &mut self.descriptors)?;
        if count == 0 {
            return Err(AttachError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.replies.buffer().extend_from_slice(&bytes[..count]);
        Ok(())
    }

    /// Brings the mapping up to date with the server's segments. The first time that has the server
    /// seal the pin table, which it is waited for.
    pub fn refresh(&mut self, mapped: &Mapped) -> Result<(), AttachError> {
        for _ in 0..LISTS_MAX {
            let reply = self.ask_for_segments(mapped.known())?;
            let (Some(Reply::Integer(epoch)), Some(Reply::Array(items))) =
                (field(&reply, "epoch"), field(&reply, "segments"))
            else {
                return Err(unexpected(&reply));
            };
            let live: Option<Vec<LiveSegment>> = items.chunks_exact(2).map(live_segment).collect();
            let live = live.ok_or_else(|| unexpected(&reply))?;
            let descriptors = std::mem::take(&mut self.descriptors);
            let count = Reply::Integer(descriptors.len() as i64);
            if field(&reply, "descriptors") != Some(&count) {
                return Err(unexpected(&reply));
            }
            if mapped.update(*epoch as u64, &live, &descriptors)? {
                return Ok(());
            }
        }
        Err(AttachError::Unexpected("segments without end".to_owned()))
    }

    /// Returns descriptors of the segments with these serial numbers.
    ///
    /// # Errors
    /// When the server does not answer, or has one of them no more.
    pub fn descriptors_of(&mut self, serials: &[u64]) -> Result<Vec<OwnedFd>, AttachError> {
        let mut found = Vec::with_capacity(serials.len());
        for serial in serials {
            // The first above the one before it is it, if it is there.
            let reply = self.ask_for_segments(serial.saturating_sub(1))?;
            let descriptors = std::mem::take(&mut self.descriptors);
            let Some(Reply::Array(items)) = field(&reply, "segments") else {
                return Err(unexpected(&reply));
            };
            let mut live = items.chunks_exact(2).filter_map(live_segment);
            let first = live.find(|segment| segment.serial >= *serial);
            let is_it = first.is_some_and(|segment| segment.serial == *serial);
            let descriptor = descriptors.into_iter().next().filter(|_| is_it);
            found.push(descriptor.ok_or_else(|| unexpected(&reply))?);
        }
        Ok(found)
    }

    /// Returns the reply that has segments: before the pin table is sealed it has none.
    fn ask_for_segments(&mut self, known: u64) -> Result<Reply, AttachError> {
        let timeout = self.stream.read_timeout()?.unwrap_or(SEAL_TIMEOUT);
        let (begin, known) = (Instant::now(), known.to_string());
        loop {
            let reply = self.ask(&[b"SHM", b"SEGMENTS", known.as_bytes()])?;
            if !matches!(field(&reply, "segments"), Some(Reply::Array(items)) if items.is_empty()) {
                return Ok(reply);
            }
            if begin.elapsed() >= timeout {
                let text = "a pin table that is never sealed".to_owned();
                return Err(AttachError::Unexpected(text));
            }
            thread::sleep(SEAL_INTERVAL);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the segment that a pair of index and serial number tells of.
fn live_segment(pair: &[Reply]) -> Option<LiveSegment> {
    let [Reply::Integer(index), Reply::Integer(serial)] = pair else { return None };
    Some(LiveSegment { index: u32::try_from(*index).ok()?, serial: u64::try_from(*serial).ok()? })
}

/// Returns the value of `name` in a reply that is a map, in either protocol's form.
pub fn field<'a>(reply: &'a Reply, name: &str) -> Option<&'a Reply> {
    let is_named = |key: &Reply| matches!(key, Reply::Bulk(bytes) if bytes == name.as_bytes());
    match reply {
        Reply::Map(pairs) => Some(&pairs.iter().find(|pair| is_named(&pair.0))?.1),
        Reply::Array(items) => {
            let pair = items.chunks_exact(2).find(|pair| is_named(&pair[0]))?;
            Some(&pair[1])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_that_comes_late_is_not_that_of_the_next_request() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut connection = ControlConnection::new(ours);
        theirs.write_all(b"$1\r\n").unwrap();
        assert!(matches!(connection.ask(&[b"GET", b"one"]), Err(AttachError::Io(_))));
        theirs.write_all(b"1\r\n").unwrap();
        for _ in 0..2 {
            match connection.ask(&[b"GET", b"two"]) {
                Err(AttachError::Io(error)) => assert_eq!(error.kind(), ErrorKind::NotConnected),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn lane_that_is_dropped_is_closed_without_a_wait_and_its_reply_is_nobody_elses() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let connection = SharedControl::new(ControlConnection::new(ours));
        for id in [7, 8] {
            connection.close(id);
        }
        let mut request = [0; 64];
        let count = io::Read::read(&mut theirs, &mut request).unwrap();
        let close = |id| format!("*3\r\n$3\r\nSHM\r\n$5\r\nCLOSE\r\n$1\r\n{id}\r\n");
        assert_eq!(String::from_utf8_lossy(&request[..count]), close(7) + &close(8));
        theirs.write_all(b"+OK\r\n-ERR this connection has no such lane\r\n:7\r\n").unwrap();
        assert_eq!(connection.lock().ask(&[b"X"]).unwrap(), Reply::Integer(7));
    }

    #[test]
    fn lane_that_is_dropped_while_somebody_asks_is_closed_when_he_has_done() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let shared = SharedControl::new(ControlConnection::new(ours));
        let connection = shared.lock();
        shared.close(7);
        let mut request = [0; 64];
        assert!(io::Read::read(&mut theirs, &mut request).is_err(), "it is held");
        drop(connection);
        let count = io::Read::read(&mut theirs, &mut request).unwrap();
        let close = "*3\r\n$3\r\nSHM\r\n$5\r\nCLOSE\r\n$1\r\n7\r\n";
        assert_eq!(String::from_utf8_lossy(&request[..count]), close);
        // One that has failed closes nothing, and nobody looks for ever.
        drop(theirs);
        for id in [8, 9] {
            shared.close(id);
        }
        assert!(shared.lock().ask(&[b"X"]).is_err());
    }

    #[test]
    fn no_lane_is_left_open_by_threads_that_hold_the_connection_in_turn() {
        const LANES: u64 = 40;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let shared = SharedControl::new(ControlConnection::new(ours));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let shared = &shared;
                scope.spawn(move || {
                    for index in 0..LANES {
                        drop(shared.lock());
                        shared.close(1000 + thread * LANES + index);
                    }
                });
            }
        });
        let close = "*3\r\n$3\r\nSHM\r\n$5\r\nCLOSE\r\n$4\r\n1000\r\n".len();
        let mut requests = vec![0; 4 * LANES as usize * close];
        theirs.set_nonblocking(true).unwrap();
        io::Read::read_exact(&mut theirs, &mut requests).expect("each was closed by somebody");
    }

    #[test]
    fn refusal_leaves_the_connection_whole() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut connection = ControlConnection::new(ours);
        theirs.write_all(b"-ERR no\r\n-WRONGTYPE x\r\n:7\r\n").unwrap();
        assert!(matches!(connection.ask(&[b"X"]), Err(AttachError::Refused(_))));
        assert!(matches!(connection.ask(&[b"X"]), Err(AttachError::WrongType)));
        assert_eq!(connection.ask(&[b"X"]).unwrap(), Reply::Integer(7));
    }
}
