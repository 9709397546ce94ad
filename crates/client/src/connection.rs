//! One connection of a client, for one thread at a time: a lane, or a socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use resp::{Value as Reply, encode_command};

use crate::address::{Address, Place};
use crate::answers::accepted;
use crate::error::{AttachError, ClientError, closed};
use crate::held_posts::{HELD_BYTES_MAX, HeldPosts, SENT_AT_ONCE_MAX};
use crate::key_wait::limit;
use crate::lane_connection::{Lane, SERVER_CHECK_INTERVAL};
use crate::late_tasks::LateTasks;
use crate::options::SetOptions;
use crate::own_takes::OwnTakes;
use crate::posts::{Content, Posts, Put, PutValue};
use crate::replies::Replies;
use crate::server_memory::ServerMemory;
use crate::session_uploads::Mode;
use crate::shm_session::ShmSession;
use crate::upload_buffers::Upload;
use crate::value_view::View;

/// Requests that are sent before their replies are read. So much passes into a socket whose peer
/// does not read, and neither side waits for the other for ever.
const SENT_BYTES_MAX: usize = 64 * 1024;
/// Posts whose replies have not been read. One more is not sent before some are there; what was
/// held back comes on top.
const POSTS_MAX: usize = 256;
/// How long a connection that is closed waits for the replies to its posts.
const LAST_POSTS_LIMIT: Duration = Duration::from_secs(10);
/// What one read takes.
const READ_BYTES: usize = 64 * 1024;
/// After so long without a word of a TCP peer the system asks whether it is there, and breaks the
/// connection where it does not answer for as long again.
pub const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The least time that one address of a host is tried for.
const CONNECT_MIN: Duration = Duration::from_millis(1);

/// A connection that has authenticated and selected its database.
pub struct Connection {
    wire: Wire,
    /// What its lane lives with.
    session: Option<Arc<ShmSession>>,
    /// MULTI was sent, and not what ends it.
    is_queueing: bool,
    timeout: Option<Duration>,
    /// What was sent over a lane without waiting for the replies.
    posts: Posts,
    /// Whether it takes by itself what it posts.
    own_takes: OwnTakes,
    /// Posts that are not sent yet, over a lane.
    held: HeldPosts,
}

enum Wire {
    Lane(Box<Lane>),
    Socket(Box<Socket>),
    /// Closed, so that the server forgets what it was asked: one that would go on serving a request
    /// whose caller has given up would take elements for nobody.
    Ended,
}

impl Connection {
    /// Connects to the server of `memory`, as its URL says: through shared memory where the server
    /// makes a lane, else over the unix socket.
    ///
    /// # Errors
    /// When the server does not answer, or refuses password or database.
    pub fn open(memory: &ServerMemory) -> Result<Connection, ClientError> {
        match &memory.address.place {
            Place::Unix(path) => Connection::unix(path, memory),
            Place::Tcp(host, port) => Connection::tcp(host, *port, memory),
            Place::SharedMemory(path) => match memory.new_lane()? {
                Some((mut lane, session)) => {
                    lane.set_timeout(memory.timeout);
                    lane.end_waits_when(Some(Arc::clone(&memory.is_closed)));
                    let wire = Wire::Lane(Box::new(lane));
                    let mut opened = Connection::new(wire, Some(session), memory);
                    opened.select(&memory.address)?;
                    Ok(opened)
                }
                None => Connection::unix(path, memory),
            },
        }
    }

    /// Connects to the unix socket at `path`.
    ///
    /// # Errors
    /// When the server does not answer, or refuses password or database.
    fn unix(path: &Path, memory: &ServerMemory) -> Result<Connection, ClientError> {
        let stream = UnixStream::connect(path)?;
        stream.set_write_timeout(memory.timeout)?;
        Connection::over(Stream::Unix(stream), memory)
    }

    /// Connects to `host` and `port`.
    ///
    /// # Errors
    /// As [`Connection::unix`].
    fn tcp(host: &str, port: u16, memory: &ServerMemory) -> Result<Connection, ClientError> {
        let stream = connect(host, port, limit(memory.timeout, Duration::ZERO))?;
        stream.set_nodelay(true)?;
        sys::socket::set_keep_alive(&stream, KEEP_ALIVE)?;
        stream.set_write_timeout(memory.timeout)?;
        Connection::over(Stream::Tcp(stream), memory)
    }

    fn over(stream: Stream, memory: &ServerMemory) -> Result<Connection, ClientError> {
        let mut socket = Socket {
            stream,
            replies: Replies::default(),
            encoded: Vec::new(),
            timeout: None,
            is_closed: Arc::clone(&memory.is_closed),
        };
        socket.set_timeout(memory.timeout)?;
        let mut opened = Connection::new(Wire::Socket(Box::new(socket)), None, memory);
        if let Some(words) = greeting(&memory.address) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            accepted(opened.call_for(&words, Duration::ZERO)?)?;
        }
        opened.select(&memory.address)?;
        Ok(opened)
    }

    fn new(wire: Wire, session: Option<Arc<ShmSession>>, memory: &ServerMemory) -> Connection {
        Connection {
            wire,
            session,
            is_queueing: false,
            timeout: memory.timeout,
            posts: Posts::new(&memory.post_count),
            own_takes: OwnTakes::new(),
            held: HeldPosts::new(&memory.post_count),
        }
    }

    fn select(&mut self, address: &Address) -> Result<(), ClientError> {
        if address.database.0 > 0 {
            let number = address.database.0.to_string();
            let select: [&[u8]; 2] = [b"SELECT", number.as_bytes()];
            accepted(self.call_for(&select, Duration::ZERO)?)?;
        }
        Ok(())
    }

    /// Returns whether its bytes pass through shared memory.
    pub fn is_lane(&self) -> bool {
        matches!(self.wire, Wire::Lane(_))
    }

    /// Returns whether it is a lane of `session`: what that has pinned is pinned for it, too.
    pub fn is_lane_of(&self, session: &Arc<ShmSession>) -> bool {
        self.session.as_ref().is_some_and(|own| Arc::ptr_eq(own, session))
    }

    /// Returns what its session does later, if it is a lane of one.
    pub fn late_tasks(&self) -> Option<&LateTasks> {
        self.session.as_ref().map(|session| &**session.late_tasks())
    }

    /// Returns what tells whether it holds posts back.
    pub fn holds(&self) -> &Arc<AtomicBool> {
        self.held.are_there()
    }

    /// Returns whether requests are queued: MULTI was sent, and not what ends it.
    pub fn is_queueing(&self) -> bool {
        self.is_queueing
    }

    /// Refuses what is of no use where its reply comes with EXEC only.
    ///
    /// # Errors
    /// [`ClientError::Unsupported`] between MULTI and EXEC.
    pub fn check_outside_transaction(&self, operation: &str) -> Result<(), ClientError> {
        match self.is_queueing {
            false => Ok(()),
            true => Err(ClientError::Unsupported(format!("{operation} inside of MULTI"))),
        }
    }

    /// Returns whether it is known to have ended.
    pub fn is_over(&self) -> bool {
        matches!(self.wire, Wire::Ended)
            || self.session.as_ref().is_some_and(|session| session.is_over())
    }

    /// As [`Connection::call`], for a request whose reply may come `slice` later than others, and
    /// always with a limit: a server that is gone without a word is noticed.
    ///
    /// # Errors
    /// As [`Connection::call`], and [`ClientError::Unsupported`] inside MULTI.
    pub fn call_for(&mut self, request: &[&[u8]], slice: Duration) -> Result<Reply, ClientError> {
        self.check_outside_transaction("to wait for a key")?;
        self.set_timeout(Some(limit(self.timeout, slice)))?;
        let reply = self.call(request)?;
        self.set_timeout(self.timeout)?;
        Ok(reply)
    }

    /// Returns room to write a value of `length` bytes to; `None` where it is to be sent.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn upload(&mut self, length: usize, mode: Mode) -> Result<Option<Upload>, ClientError> {
        let Some(session) = self.session.clone().filter(|_| !self.is_queueing) else {
            return Ok(None);
        };
        // What was posted brings the next buffer with its reply.
        loop {
            if let Some(upload) = Upload::spare(&session, length, mode) {
                return Ok(Some(upload));
            }
            let bytes = mode.buffer_bytes(length);
            if !self.posts.may_bring_buffer(bytes) || !self.settle_one(true)? {
                break;
            }
        }
        // One that holds its values back sends nothing that could ask for the next along with it.
        let count = self.own_takes.depth().min(HELD_BYTES_MAX / length.max(1)).max(1);
        self.exchange(|wire| match wire {
            Wire::Lane(lane) => {
                let send = |requests: &[&[&[u8]]]| lane.pipeline(requests);
                Ok(Upload::allocate(&session, length, count, mode, send)?)
            }
            Wire::Socket(_) | Wire::Ended => Ok(None),
        })
    }

    /// Copies `value` to `upload`, which is committed next under `key`; returns the mode for that.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn fill(
        &mut self,
        upload: &mut Upload,
        value: &[u8],
        key: &[u8],
    ) -> Result<Mode, ClientError> {
        // Nothing comes between the pieces that are copied ahead and the commit.
        self.release_held()?;
        let is_own = self.session.as_ref().is_some_and(|session| upload.is_of(session));
        self.exchange(|wire| match wire {
            Wire::Lane(lane) if is_own => Ok(upload.fill(lane, value, key)?),
            Wire::Lane(_) | Wire::Socket(_) | Wire::Ended => {
                upload.copy_from_slice(value);
                Ok(Mode::Copy)
            }
        })
    }

    /// Makes `upload` the value of `key`, with SET's options `words`, and returns what SET would
    /// reply; or the upload, where it is to be sent.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses.
    pub fn commit(
        &mut self,
        upload: Upload,
        mode: Mode,
        (key, words): (&[u8], &[&[u8]]),
    ) -> Result<Result<Reply, Upload>, ClientError> {
        let is_own = self.session.as_ref().is_some_and(|session| upload.is_of(session));
        // A transaction takes no ALLOC, which goes along.
        if self.is_queueing || !is_own {
            return Ok(Err(upload));
        }
        let mut storing = upload.store(mode);
        let requests = storing.requests(key, words);
        let requests: Vec<&[&[u8]]> = requests.iter().map(Vec::as_slice).collect();
        let replies = self.pipeline(&requests)?;
        Ok(Ok(storing.finish(replies)?))
    }

    /// Posts SET of `key` and `value` with `options`, or holds it back; returns the value, with
    /// nothing done, where that is not to be.
    ///
    /// # Errors
    /// When the connection fails, or the server has refused what was posted before.
    pub fn post_value(
        &mut self,
        key: &[u8],
        value: PutValue,
        options: &SetOptions,
    ) -> Result<Result<(), PutValue>, ClientError> {
        let is_own = match (&value, &self.session) {
            (PutValue::Upload(upload), Some(session)) => upload.is_of(session),
            (PutValue::Upload(_), None) => false,
            (PutValue::Bytes(_), _) => true,
        };
        if !is_own || !self.may_post()? {
            return Ok(Err(value));
        }
        let mut put = Put { key: key.to_vec(), value, words: options.words() };
        if self.own_takes.note_post(key) {
            match self.hold(put, options) {
                Ok(()) => return Ok(Ok(())),
                Err(back) => put = back,
            }
        }
        self.release_held()?;
        self.send_put(put)?;
        Ok(Ok(()))
    }

    /// Posts the deletion of `key`; returns false, with nothing sent, where that is not to
    /// be.
    ///
    /// # Errors
    /// As [`Connection::post_value`].
    pub fn post_deletion(&mut self, key: &[u8]) -> Result<bool, ClientError> {
        if !self.may_post()? {
            return Ok(false);
        }
        self.own_takes.note_take(key);
        self.send_deletion(key)?;
        Ok(true)
    }

    /// Takes what this connection has posted for `key` and holds back: its value, or `None` where
    /// that has run out. Where nothing is held, the server's memory says what the connection has
    /// done to `key` once this returns. `is_absent` says whether the memory has nothing for `key`.
    ///
    /// # Errors
    /// As [`Connection::post_value`].
    pub fn take_held(
        &mut self,
        key: &[u8],
        is_absent: impl FnOnce() -> bool,
    ) -> Result<Option<Option<View>>, ClientError> {
        while self.settle_one(false)? {}
        self.posts.check()?;
        if let Some(taken) = self.held.take(key) {
            self.own_takes.note_take(key);
            // The server has not been told to put this in the place of what it has.
            let is_absent = match self.posts.change(key) {
                Some(change) => matches!(change, Content::Deletion { .. }),
                None => is_absent(),
            };
            if !is_absent {
                // Whatever was refused before is told by the next call: the value is taken.
                self.send_deletion(key)?;
            }
            return Ok(Some(taken));
        }
        while self.posts.change(key).is_some() {
            self.settle_one(true)?;
        }
        self.posts.check()?;
        Ok(None)
    }

    /// Sends what is held back once it is due; returns whether there was something, or still is.
    /// For the thread of the session, which looks now and then, and waits for no server: who would
    /// be told that it was in vain?
    pub fn send_due(&mut self) -> bool {
        let Some(is_due) = self.held.look() else { return false };
        if is_due {
            if self.own_takes.depth() > 0 {
                self.own_takes.note_other();
            }
            // Where it fails the connection has ended, as it may with all that was posted.
            let _ = self.send_what_fits();
        }
        true
    }

    /// Sends the first of what is held back, once the server has read all that was sent before: the
    /// lane is empty then, and has room for so much.
    fn send_what_fits(&mut self) -> Result<(), ClientError> {
        while self.settle_one(false)? {}
        if self.posts.len() > 0 {
            return Ok(());
        }
        self.send_first_held(SENT_AT_ONCE_MAX)
    }

    /// Waits for the replies to everything that was posted.
    ///
    /// # Errors
    /// As [`Connection::post_value`].
    pub fn settle(&mut self) -> Result<(), ClientError> {
        self.release_held()?;
        while self.settle_one(true)? {}
        self.posts.check()
    }

    /// Returns whether something may be posted now: outside of a transaction, over a lane.
    fn may_post(&mut self) -> Result<bool, ClientError> {
        while self.settle_one(self.posts.len() >= POSTS_MAX)? {}
        self.posts.check()?;
        Ok(self.is_lane() && !self.is_queueing)
    }

    /// Holds `put` back; returns it where that is not to be.
    fn hold(&mut self, put: Put, options: &SetOptions) -> Result<(), Put> {
        let Some(session) = &self.session else { return Err(put) };
        self.held.hold(put, options.lifetime())?;
        session.late_tasks().watch();
        Ok(())
    }

    /// Sends what is held back.
    #[inline]
    fn release_held(&mut self) -> Result<(), ClientError> {
        if self.held.is_empty() { Ok(()) } else { self.send_first_held(usize::MAX) }
    }

    /// Sends the first of what is held back, with requests of so many bytes at most.
    #[cold]
    fn send_first_held(&mut self, request_bytes_max: usize) -> Result<(), ClientError> {
        let mut puts = self.held.release(request_bytes_max);
        let count = puts.len();
        let sent = puts.try_for_each(|put| self.send_put(put));
        self.held.forget(count);
        sent
    }

    /// Posts `put`, whatever is held back.
    fn send_put(&mut self, put: Put) -> Result<(), ClientError> {
        let (content, reply_count) = put.send(|requests| {
            self.exchange(|wire| match wire {
                Wire::Lane(lane) => Ok(lane.post(requests)?),
                Wire::Socket(_) | Wire::Ended => Err(ended()),
            })?;
            Ok(requests.len())
        })?;
        self.posts.add(content, reply_count);
        Ok(())
    }

    /// Posts the deletion of `key`, after what is held back; the server may be woken for it later.
    fn send_deletion(&mut self, key: &[u8]) -> Result<(), ClientError> {
        self.release_held()?;
        self.exchange(|wire| match wire {
            Wire::Lane(lane) => Ok(lane.post_lazily(&[&[b"DEL", key]])?),
            Wire::Socket(_) | Wire::Ended => Err(ended()),
        })?;
        self.posts.add(Content::Deletion { key: key.to_vec() }, 1);
        Ok(())
    }

    /// Takes one reply to what was posted, if it has come or `is_awaited`; returns whether there
    /// was one.
    fn settle_one(&mut self, is_awaited: bool) -> Result<bool, ClientError> {
        if self.posts.len() == 0 {
            return Ok(false);
        }
        let reply = self.exchange(|wire| match wire {
            Wire::Lane(lane) => Ok(lane.posted_reply(is_awaited)?),
            Wire::Socket(_) | Wire::Ended => Err(ended()),
        })?;
        let is_there = reply.is_some();
        reply.into_iter().for_each(|reply| self.posts.answer(reply));
        Ok(is_there)
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match &mut self.wire {
            Wire::Lane(lane) => lane.set_timeout(timeout),
            Wire::Socket(socket) => socket.set_timeout(timeout)?,
            Wire::Ended => {}
        }
        Ok(())
    }

    /// Sends one request and returns its reply, which may be an error.
    pub fn call(&mut self, request: &[&[u8]]) -> Result<Reply, ClientError> {
        check(request)?;
        self.release_held()?;
        let reply = self.exchange(|wire| match wire {
            Wire::Lane(lane) => Ok(lane.call(request)?),
            Wire::Socket(socket) => {
                socket.send(&[request])?;
                socket.next_reply()
            }
            Wire::Ended => Err(ended()),
        })?;
        self.note_transaction(request, &reply);
        Ok(reply)
    }

    /// Sends `requests` and returns their replies in order.
    pub fn pipeline(&mut self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        requests.iter().try_for_each(|request| check(request))?;
        self.release_held()?;
        let replies = self.exchange(|wire| match wire {
            Wire::Lane(lane) => Ok(lane.pipeline(requests)?),
            Wire::Socket(socket) => socket.pipeline(requests),
            Wire::Ended => Err(ended()),
        })?;
        for (request, reply) in requests.iter().zip(&replies) {
            self.note_transaction(request, reply);
        }
        Ok(replies)
    }

    /// Notes whether `request`, which got `reply`, began a transaction or ended one.
    #[inline]
    fn note_transaction(&mut self, request: &[&[u8]], reply: &Reply) {
        // One of another length is an error, and changes nothing.
        let &[name] = request else { return };
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        if is(b"MULTI") && matches!(reply, Reply::Simple(_)) {
            self.is_queueing = true;
        } else if is(b"EXEC") || is(b"DISCARD") {
            self.is_queueing = false;
        }
    }

    /// Waits until the server has executed what was posted: a lane that is closed takes with it
    /// what the server has not read.
    pub fn end(&mut self) {
        let has_posts = !self.held.is_empty() || self.posts.len() > 0;
        // A forked child leaves them to its parent.
        let lane = match &mut self.wire {
            Wire::Lane(lane) if has_posts && lane.is_own() => lane,
            Wire::Lane(_) | Wire::Socket(_) | Wire::Ended => return,
        };
        // Others read what was posted.
        lane.end_waits_when(None);
        if self.set_timeout(Some(LAST_POSTS_LIMIT)).is_ok() {
            // Nobody is left to be told of a refusal; `Client::settle` tells.
            let _ = self.settle();
        }
    }

    fn exchange<T>(
        &mut self,
        run: impl FnOnce(&mut Wire) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        // After a failure what comes next would be taken for the reply of another.
        let mut wire = std::mem::replace(&mut self.wire, Wire::Ended);
        let found = run(&mut wire)?;
        self.wire = wire;
        Ok(found)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

/// Connects to one of the addresses of `host` within `limit`; each of those that are left is tried
/// for its share of the time. How long it takes to look them up is the system's matter.
fn connect(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let begin = Instant::now();
    let mut addresses = (host, port).to_socket_addrs()?;
    let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
    while let Some(address) = addresses.next() {
        let share = limit.saturating_sub(begin.elapsed()) / (1 + addresses.len() as u32);
        match TcpStream::connect_timeout(&address, share.max(CONNECT_MIN)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn ended() -> ClientError {
    ClientError::Broken(ErrorKind::NotConnected.into())
}

/// Returns the request that says who asks, if anybody does.
pub fn greeting(address: &Address) -> Option<Vec<Vec<u8>>> {
    let password = address.password.clone()?;
    let mut words = vec![b"AUTH".to_vec()];
    words.extend(address.user.clone());
    words.push(password);
    Some(words)
}

/// Refuses what cannot be sent over a connection whose every request has one reply.
///
/// # Errors
/// [`ClientError::Unsupported`], and nothing is sent.
pub fn check(request: &[&[u8]]) -> Result<(), ClientError> {
    /// Commands whose replies go on, or that have none.
    const UNANSWERED: [&[u8]; 8] = [
        b"MONITOR",
        b"SUBSCRIBE",
        b"PSUBSCRIBE",
        b"SSUBSCRIBE",
        b"UNSUBSCRIBE",
        b"PUNSUBSCRIBE",
        b"SUNSUBSCRIBE",
        b"SYNC",
    ];
    let Some((name, arguments)) = request.split_first() else {
        return Err(ClientError::Unsupported("a request without a name".to_owned()));
    };
    let is_reply = |word: &&&[u8]| word.eq_ignore_ascii_case(b"REPLY");
    let is_unanswered = UNANSWERED.iter().any(|other| name.eq_ignore_ascii_case(other))
        || name.eq_ignore_ascii_case(b"PSYNC")
        || name.eq_ignore_ascii_case(b"CLIENT") && arguments.first().filter(is_reply).is_some();
    match is_unanswered {
        false => Ok(()),
        true => Err(ClientError::Unsupported(String::from_utf8_lossy(name).into_owned())),
    }
}

/// Refuses what would take a connection to another database, or to nobody's, which those who share
/// it, and those who read in the memory, do not see.
///
/// # Errors
/// [`ClientError::Unsupported`], and nothing is sent.
pub fn check_scope(request: &[&[u8]]) -> Result<(), ClientError> {
    const RESCOPING: [&[u8]; 2] = [b"SELECT", b"RESET"];
    let name = request.first().copied().unwrap_or_default();
    match RESCOPING.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        false => Ok(()),
        true => Err(ClientError::Unsupported(String::from_utf8_lossy(name).into_owned())),
    }
}

struct Socket {
    stream: Stream,
    replies: Replies,
    /// The bytes of requests, kept to be used again.
    encoded: Vec<u8>,
    /// The longest silence of the server that is waited for.
    timeout: Option<Duration>,
    /// Whether the client was closed.
    is_closed: Arc<AtomicBool>,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Socket {
    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeout = timeout;
        // Each wait checks whether the client was closed.
        let interval = timeout.map_or(SERVER_CHECK_INTERVAL, |timeout| {
            let count = timeout.as_nanos().div_ceil(SERVER_CHECK_INTERVAL.as_nanos()).max(1);
            timeout / u32::try_from(count).unwrap_or(u32::MAX)
        });
        self.stream.set_read_timeout(Some(interval.min(SERVER_CHECK_INTERVAL)))
    }

    fn pipeline(&mut self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        let mut replies = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while !rest.is_empty() {
            let (sent, later) = rest.split_at(count_sent(rest));
            self.send(sent)?;
            for _ in sent {
                replies.push(self.next_reply()?);
            }
            rest = later;
        }
        Ok(replies)
    }

    fn send(&mut self, requests: &[&[&[u8]]]) -> io::Result<()> {
        self.encoded.clear();
        for request in requests {
            encode_command(request, &mut self.encoded);
        }
        match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(&self.encoded),
            Stream::Tcp(stream) => stream.write_all(&self.encoded),
        }
    }

    fn next_reply(&mut self) -> Result<Reply, ClientError> {
        loop {
            if let Some(reply) = self.replies.next()? {
                return Ok(reply);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let buffer = self.replies.buffer();
        let start = buffer.len();
        buffer.resize(start + READ_BYTES, 0);
        let begin = Instant::now();
        let received = loop {
            let room = &mut buffer[start..];
            let received = match &mut self.stream {
                Stream::Unix(stream) => stream.read(room),
                Stream::Tcp(stream) => stream.read(room),
            };
            match received {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.is_closed.load(Ordering::Relaxed) {
                        break Err(closed());
                    }
                    if self.timeout.is_some_and(|timeout| begin.elapsed() >= timeout) {
                        break Err(error);
                    }
                }
                received => break received,
            }
        };
        buffer.truncate(start + *received.as_ref().unwrap_or(&0));
        match received? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Returns how many of `requests` are sent at once: at least one, and if more, few bytes.
fn count_sent(requests: &[&[&[u8]]]) -> usize {
    /// What the lengths of a request, and of each of its words, take at most.
    const FRAME_BYTES: usize = 24;
    let mut bytes = 0;
    let fits = requests.iter().take_while(|request| {
        bytes += FRAME_BYTES + request.iter().map(|word| word.len() + FRAME_BYTES).sum::<usize>();
        bytes <= SENT_BYTES_MAX
    });
    fits.count().max(1)
}

impl From<AttachError> for ClientError {
    fn from(error: AttachError) -> ClientError {
        match error {
            AttachError::Io(error) => error.into(),
            AttachError::Refused(text) => ClientError::Refused(text),
            AttachError::Unexpected(text) => ClientError::Unexpected(text),
            AttachError::Arena(error) => ClientError::Unexpected(error.to_string()),
            AttachError::WrongType => ClientError::wrong_type(),
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::socket::Listener;

    use super::*;

    #[test]
    fn host_that_answers_nothing_is_given_up() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listener.local_address().unwrap().unwrap();
        // Once those wait that the listener has room for, the kernel answers no more.
        let mut waiting = Vec::new();
        let error = loop {
            match connect("127.0.0.1", address.port(), Duration::from_millis(100)) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
            assert!(waiting.len() < 64, "the backlog is short");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.raw_os_error(), None, "it is not the kernel that has given up");
    }
}
