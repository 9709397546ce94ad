//! The client: one type for all ways to a server, shared by any number of threads.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::spin_policy::SpinPolicy;
use resp::Value as Reply;

use crate::address::Place;
use crate::answers::{
    Gathered, TimeToLive, accepted, bulk, fill_one, integer, is_set, length, unexpected, view,
};
use crate::attached::Answer;
use crate::collection_reads::Query;
use crate::connection::{Connection, check_scope};
use crate::creation::Creation;
use crate::error::ClientError;
use crate::key_wait::{KeyWait, await_request};
use crate::lane_stream::LaneStream;
use crate::options::{SetOptions, set_request};
use crate::posts::PutValue;
use crate::server_memory::{Lookup, ServerMemory};
use crate::session_uploads::Mode;
use crate::thread_connections::ThreadConnections;
use crate::upload_buffers::Upload;
use crate::value_view::View;

/// How often `take` looks at a value that others take and put all the time, before it asks the
/// server for a copy.
pub(crate) const TAKES_MAX: u32 = 8;

/// More is created only once the server has been asked how long a value it takes: by default it is
/// 512 MiB. Next to writing so much the question costs nothing.
const UNASKED_BYTES_MAX: usize = 64 << 20;
/// How long a value that another client has posted is looked for before the server is asked: a
/// server that sleeps on another processor is there after about half of it, and to be woken by it
/// takes as long once more.
const POSTED_SPIN: Duration = Duration::from_micros(100);
/// Looks after which another thread may have this processor. It may be the server's, which is woken
/// where its client runs.
const LOOKS_PER_YIELD: u32 = 16;

thread_local! {
    /// Whether it pays to look for values that others have posted.
    static POSTED_POLICY: RefCell<SpinPolicy> = const { RefCell::new(SpinPolicy::new()) };
}

/// A client of one server, over `shm://`, `unix://` or `redis://`.
///
/// Threads share it, by reference or as clones, which are cheap and the same client. Each thread
/// has a connection of its own, a lane or a socket, made when it first needs one and closed when
/// the thread ends or the last clone is dropped; so a transaction of several calls is one thread's.
///
/// Over `shm://` the operations that read ([`Client::get`], [`Client::get_into`],
/// [`Client::mget`], [`Client::exists`], [`Client::strlen`], [`Client::getrange`],
/// [`Client::ttl`]) look in the server's memory first, and ask it only where that cannot answer.
/// Either way they are no part of a transaction, and see the database of the URL. Everything else
/// passes through lanes. What the server does not let this process do is done over the unix socket
/// instead: see [`Client::transport`].
///
/// A call whose connection breaks fails, as nobody knows whether it was executed; the next one
/// connects anew, at once. Nothing is sent twice.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    memory: ServerMemory,
    thread_connections: Arc<ThreadConnections>,
}

/// How a client reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Reads in the server's memory; requests through lanes.
    SharedMemory,
    /// Requests through lanes; the server does not let this process read by itself.
    Lane,
    /// A unix socket.
    Unix,
    /// TCP.
    Tcp,
}

impl Client {
    /// Connects to the server at `url`: `shm:///path/to/socket`, `unix:///path/to/socket` or
    /// `redis://host:port/database`. A password stands before the host or path
    /// (`redis://:secret@host`), or after it (`shm:///path?password=secret&db=3`).
    ///
    /// Calls wait for as long as the server takes; making a connection is given up after 10
    /// seconds.
    ///
    /// # Errors
    /// When the URL is none of those, the server does not answer, or refuses password or database.
    pub fn connect(url: &str) -> Result<Client, ClientError> {
        Client::connect_with(url, None)
    }

    /// As [`Client::connect`], for calls that give up once the server has been silent for
    /// `timeout`, as does making a connection.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(url: &str, timeout: Duration) -> Result<Client, ClientError> {
        Client::connect_with(url, Some(timeout))
    }

    fn connect_with(url: &str, timeout: Option<Duration>) -> Result<Client, ClientError> {
        let inner = Inner {
            memory: ServerMemory::new(url, timeout)?,
            thread_connections: ThreadConnections::new(),
        };
        let client = Client { inner: Arc::new(inner) };
        client.transport()?;
        Ok(client)
    }

    /// Returns how this thread reaches the server; it connects where it has not yet.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn transport(&self) -> Result<Transport, ClientError> {
        let is_lane = self.with_connection(|connection| Ok(connection.is_lane()))?;
        self.inner.memory.transport(is_lane)
    }

    /// Returns a lane of its own, for a program that writes requests and reads replies by itself,
    /// such as another client's; `None` where the server makes none, or the URL asks for none.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn lane(&self) -> Result<Option<LaneStream>, ClientError> {
        self.inner.memory.check_process()?;
        Ok(self.inner.memory.new_lane()?.map(LaneStream::new))
    }

    /// Ends what threads wait for the server with, as BLPOP or [`Client::get_blocking`]: within a
    /// quarter of a second they get [`ClientError::Closed`]. Connections are closed when their
    /// threads end or the last clone is dropped.
    pub fn end_waits(&self) {
        self.inner.memory.is_closed.store(true, Ordering::Relaxed);
    }

    /// Sends one request and returns its reply.
    ///
    /// Commands after which replies no longer answer requests are not sent: MONITOR, SUBSCRIBE and
    /// its like, CLIENT REPLY, SYNC. Nor are SELECT and RESET, as the URL says which database a
    /// client reads, and who it is. Pushed messages, as RESP3 has them, are dropped.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for an error reply; the others when there is no reply.
    pub fn call(&self, request: &[&[u8]]) -> Result<Reply, ClientError> {
        check_scope(request)?;
        accepted(self.with_connection(|connection| connection.call(request))?)
    }

    /// Sends `requests` together and returns their replies in order, errors among them.
    ///
    /// # Errors
    /// When a reply does not come.
    pub fn pipeline(&self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        requests.iter().try_for_each(|request| check_scope(request))?;
        self.with_connection(|connection| connection.pipeline(requests))
    }

    /// Sets `key` to `value`, without a time to live.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), ClientError> {
        self.put_with(key, value, &SetOptions::new()).map(|_| ())
    }

    /// Sets `key` to `value` as `options` say; returns whether their condition held.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn put_with(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
    ) -> Result<bool, ClientError> {
        if let Some(mut upload) = self.upload(value.len(), Mode::Copy)? {
            let filled = |connection: &mut Connection| connection.fill(&mut upload, value, key);
            let mode = self.with_connection(filled)?;
            return self.commit(key, upload, mode, options);
        }
        self.set(key, value, options)
    }

    /// Makes `upload` the value of `key`; returns whether the condition of `options` held.
    pub(crate) fn commit(
        &self,
        key: &[u8],
        upload: Upload,
        mode: Mode,
        options: &SetOptions,
    ) -> Result<bool, ClientError> {
        let words = options.words();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let committed =
            self.with_connection(|connection| connection.commit(upload, mode, (key, &words)));
        match committed? {
            Ok(reply) => is_set(&reply),
            Err(upload) => self.set(key, &upload, options),
        }
    }

    /// Returns room to write a value to; `None` where it is to be sent.
    fn upload(&self, length: usize, mode: Mode) -> Result<Option<Upload>, ClientError> {
        match self.inner.memory.address.place {
            Place::SharedMemory(_) if length >= mode.upload_bytes_min() => {
                self.with_connection(|connection| connection.upload(length, mode))
            }
            Place::SharedMemory(_) | Place::Unix(_) | Place::Tcp(..) => Ok(None),
        }
    }

    /// Puts by SET.
    fn set(&self, key: &[u8], value: &[u8], options: &SetOptions) -> Result<bool, ClientError> {
        let words = options.words();
        is_set(&self.call(&set_request(key, value, &words))?)
    }

    /// Returns `length` bytes to write a value into, which becomes that of `key` when it is sealed.
    /// What they hold before is not said.
    ///
    /// Over shared memory 32 KiB and more are memory of the server's, and stay where they are: the
    /// value is not copied. So do 8 KiB and more where the client has such memory. Where the server
    /// gives none, they are sent when they are sealed.
    ///
    /// # Errors
    /// When the server does not answer, or takes no value that is so long, and
    /// [`ClientError::NoMemory`] where neither it nor this process has so many bytes.
    pub fn create(&self, key: &[u8], length: usize) -> Result<Creation, ClientError> {
        if length > UNASKED_BYTES_MAX {
            self.check_length(length)?;
        }
        let upload = self.upload(length, Mode::Adopt)?;
        Creation::new(self.clone(), key, length, upload)
    }

    /// Refuses a value that the server would end the connection for. It is not known in a
    /// transaction, nor to a user without a right to CONFIG, who find out by sending it.
    #[inline(never)]
    fn check_length(&self, length: usize) -> Result<(), ClientError> {
        const REQUEST: [&[u8]; 3] = [b"CONFIG", b"GET", b"proto-max-bulk-len"];
        let told = self.with_connection(|connection| {
            (!connection.is_queueing()).then(|| connection.call(&REQUEST)).transpose()
        })?;
        let Some(Reply::Array(words)) = told else { return Ok(()) };
        let Some(Reply::Bulk(digits)) = words.get(1) else { return Ok(()) };
        let limit = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok());
        match limit {
            Some(limit) if length > limit => Err(ClientError::Refused(format!(
                "ERR a value of {length} bytes is longer than the server takes, which are {limit} \
                 (proto-max-bulk-len)"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the value of `key`: over shared memory a value above 4 KiB where it lies, else a
    /// copy.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the key holds another type; the others when the server had to
    /// be asked and does not answer.
    pub fn get(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        match memory.read(memory.view_of(key))? {
            Answer::Found(view) => Ok(Some(view)),
            Answer::Absent => Ok(None),
            Answer::Unclear => view(self.ask(&[b"GET", key])?),
        }
    }

    /// Returns what [`Client::get`] does, where the server's memory answers: for who may not wait
    /// at this moment. `None` where it does not: then `get` asks the server.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the key holds another type.
    #[inline]
    pub fn get_at_once(&self, key: &[u8]) -> Result<Option<Option<View>>, ClientError> {
        if self.inner.memory.post_count.load(Ordering::Relaxed) > 0 {
            return Ok(None);
        }
        let memory = &self.inner.memory;
        match memory.lookup(memory.view_of(key)) {
            Lookup::Answer(Answer::Found(view)) => Ok(Some(Some(view))),
            Lookup::Answer(Answer::Absent) => Ok(Some(None)),
            Lookup::WrongType => Err(ClientError::wrong_type()),
            Lookup::Answer(Answer::Unclear) | Lookup::Unmapped | Lookup::Ended => Ok(None),
        }
    }

    /// Copies the value of `key` to `value`, replacing what is in it; returns whether there is one,
    /// and leaves `value` empty where there is none. After an error it may hold anything.
    ///
    /// Over shared memory nothing is allocated once `value` is large enough, and no system call is
    /// made unless the server has to be asked.
    ///
    /// # Errors
    /// As [`Client::get`].
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        let (database, clock) = memory.scope();
        match memory.read(|_, reader| reader.get(database, key, clock, value))? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => {
                value.clear();
                Ok(false)
            }
            Answer::Unclear => fill_one(value, self.ask(&[b"GET", key])?),
        }
    }

    /// Waits until `key` exists, and returns its value as [`Client::get`] does; `None` once
    /// `timeout` is over, which may be `None`: for ever.
    ///
    /// One thread waits and others use the client meanwhile. Of several that wait for a key, all
    /// get the value, if it stays that long; [`Client::take`] gives it to one.
    ///
    /// A server that has no AWAIT, such as redis-server, is asked again and again, up to 20 times a
    /// second. One that is silent for 10 seconds longer than it was told to wait is given up, also
    /// by a client that has no limit of its own.
    ///
    /// # Errors
    /// As [`Client::get`]: also when the key exists and holds another type, and
    /// [`ClientError::Unsupported`] inside a MULTI of this thread, where nothing can be waited for.
    pub fn get_blocking(
        &self,
        key: &[u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<View>, ClientError> {
        self.settle()?;
        let mut wait = KeyWait::new(timeout.into(), Instant::now());
        loop {
            let memory = &self.inner.memory;
            if memory.is_closed.load(Ordering::Relaxed) {
                return Err(ClientError::Closed);
            }
            match memory.read(memory.view_of(key))? {
                Answer::Found(view) => return Ok(Some(view)),
                Answer::Absent => {}
                Answer::Unclear => {
                    let reply = self.call_for(&[b"GET", key], Duration::ZERO)?;
                    if let Some(view) = view(accepted(reply)?)? {
                        return Ok(Some(view));
                    }
                }
            }
            let Some(slice) = wait.next_slice(Instant::now()) else { return Ok(None) };
            let seconds = await_request(slice);
            let reply = self.call_for(&[b"AWAIT", key, seconds.as_bytes()], slice)?;
            match accepted(reply).and_then(bulk) {
                Ok(_) => {}
                Err(error) => match wait.pause_instead(&error) {
                    Some(pause) => std::thread::sleep(pause),
                    None => return Err(error),
                },
            }
        }
    }

    /// Asks for what takes `slice` where nothing happens, outside of transactions.
    pub(crate) fn call_for(
        &self,
        request: &[&[u8]],
        slice: Duration,
    ) -> Result<Reply, ClientError> {
        self.with_connection(|connection| connection.call_for(request, slice))
    }

    /// Returns the values of `keys`, `None` where there is no string.
    ///
    /// Over shared memory each key is read for itself: what another client changes meanwhile may be
    /// seen in one and not in the other. `call` with MGET sees all at one moment.
    ///
    /// # Errors
    /// When the server had to be asked and does not answer.
    pub fn mget(&self, keys: &[&[u8]]) -> Result<Vec<Option<View>>, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        let mut found = Gathered::for_keys(keys.len());
        let answered = memory.gather(keys, &mut found);
        for key in &keys[answered..] {
            found.add(memory.read(memory.view_of(key)))?;
        }
        let reply = match found.request(keys) {
            Some(request) => Some(self.ask(&request)?),
            None => None,
        };
        found.completed(reply)
    }

    /// Deletes `key` and returns the value that it had, as [`Client::get`] does; of several that
    /// take one key at a time, one gets the value. The memory of a large one is given back with the
    /// view.
    ///
    /// # Errors
    /// As [`Client::get`]; and [`ClientError::Unsupported`], with nothing sent, where there is a
    /// value but this thread has sent MULTI and not EXEC.
    pub fn take(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        for _ in 0..TAKES_MAX {
            let view = match memory.read(memory.view_of(key))? {
                Answer::Found(view) => view,
                Answer::Absent => return Ok(None),
                Answer::Unclear => break,
            };
            // A small one is copied either way.
            let (Some(offset), Some(session)) = (view.offset(), view.session()) else { break };
            // While the view is held nothing else lies there: where the key still refers to it, it
            // is this value that is deleted. Only the session that holds it can say so.
            let offset = offset.to_string();
            let asked = self.with_connection(|connection| {
                connection.check_outside_transaction("take")?;
                let is_own = connection.is_lane_of(session);
                let request: [&[u8]; 4] = [b"SHM", b"TAKE", key, offset.as_bytes()];
                is_own.then(|| connection.call(&request)).transpose()
            });
            match asked?.map(accepted).transpose()? {
                Some(Reply::Integer(1)) => return Ok(Some(view)),
                Some(Reply::Integer(0)) => {}
                Some(other) => return Err(unexpected(&other)),
                None => break,
            }
        }
        view(accepted(self.with_connection(|connection| {
            connection.check_outside_transaction("take")?;
            connection.call(&[b"GETDEL", key])
        })?)?)
    }

    /// Sets `key` to `value` as `options` say, without a condition, and does not wait for the
    /// server where a lane leads to it. The key is for one consumer: [`Client::take_once`].
    ///
    /// This thread sees what it has posted, in every call of this client. Other threads and clients
    /// see it once the server has executed it, which it does in order. A thread that has taken by
    /// itself what it posted, 16 times and more, is expected to go on so: the server is not told of
    /// its next value until the thread sends something else, or some milliseconds have passed. A
    /// value that it takes before has never been there for anybody else.
    ///
    /// Where the server refuses the value, as when it has no memory, the next call of this thread
    /// that posts or settles fails.
    ///
    /// # Errors
    /// As [`Client::call`], also for what was posted before.
    pub fn post(
        &self,
        key: &[u8],
        value: Vec<u8>,
        options: &SetOptions,
    ) -> Result<(), ClientError> {
        let value = match self.upload(value.len(), Mode::Adopt)? {
            Some(mut upload) => {
                sys::memory_copy::copy(&mut upload, &value);
                PutValue::Upload(upload)
            }
            None => PutValue::Bytes(value),
        };
        self.post_value(key, value, options)
    }

    /// Posts `value` at `key`.
    pub(crate) fn post_value(
        &self,
        key: &[u8],
        value: PutValue,
        options: &SetOptions,
    ) -> Result<(), ClientError> {
        let posted = self.with_connection(|connection| connection.post_value(key, value, options));
        match posted? {
            Ok(()) => Ok(()),
            Err(PutValue::Bytes(value)) => self.set(key, &value, options).map(drop),
            Err(PutValue::Upload(upload)) => {
                self.commit(key, upload, Mode::Adopt, options).map(drop)
            }
        }
    }

    /// As [`Client::take`], for a key that nobody else takes or changes, such as one that
    /// [`Client::post`] was told: a value that the memory has is deleted without waiting for the
    /// server, and one that [`Client::post`] holds back is never sent.
    ///
    /// A thread sees what it did to a key that it has posted, and that its time to live has run
    /// out. What another puts in the place of a value, after that was found and before it is
    /// deleted, is deleted unseen, whoever has posted it. This method reads the replies that have
    /// come; every other call of this thread that waits for the server reads those to all that was
    /// posted before.
    ///
    /// # Errors
    /// As [`Client::take`], also for what was posted before.
    pub fn take_once(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        let memory = &self.inner.memory;
        if memory.post_count.load(Ordering::Relaxed) > 0 {
            memory.check_process()?;
            let (database, clock) = memory.scope();
            let found = || memory.read(|_, reader| reader.exists(database, key, clock));
            let is_absent = || matches!(found(), Ok(Answer::Absent));
            let held = |connection: &mut Connection| connection.take_held(key, is_absent);
            let held = self.inner.thread_connections.with_own(held).transpose()?;
            if let Some(taken) = held.flatten() {
                return Ok(taken);
            }
        }
        let view = match memory.read(memory.view_of(key))? {
            Answer::Found(view) => view,
            Answer::Absent => return Ok(None),
            Answer::Unclear => return self.take(key),
        };
        // Where nothing can be posted, the value is had once more with its deletion. SHM TAKE would
        // delete nothing once the view is dropped, which may be before it is executed.
        match self.with_connection(|connection| connection.post_deletion(key))? {
            true => Ok(Some(view)),
            false => self.take(key),
        }
    }

    /// Returns whether `key`, which another client has posted a moment ago, comes to be within the
    /// time that it takes to wake a server. It is looked for in the memory, as long as that pays;
    /// [`Client::get_blocking`] waits longer.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn await_posted(&self, key: &[u8]) -> Result<bool, ClientError> {
        let is_read = matches!(self.inner.memory.address.place, Place::SharedMemory(_));
        if !is_read || !POSTED_POLICY.with_borrow_mut(SpinPolicy::is_due) {
            return Ok(false);
        }
        let end = sys::clock::monotonic() + POSTED_SPIN;
        let (database, clock) = self.inner.memory.scope();
        let mut looks = 0_u32;
        loop {
            let found = self.inner.memory.read(|_, reader| reader.exists(database, key, clock))?;
            let is_there = matches!(found, Answer::Found(()));
            if is_there || sys::clock::monotonic() >= end {
                POSTED_POLICY.with_borrow_mut(|policy| policy.learn(is_there));
                return Ok(is_there);
            }
            looks += 1;
            match looks.is_multiple_of(LOOKS_PER_YIELD) {
                true => std::thread::yield_now(),
                false => std::hint::spin_loop(),
            }
        }
    }

    /// Waits until the server has executed what this thread has posted.
    ///
    /// # Errors
    /// As [`Client::call`], also for what was posted.
    #[inline]
    pub fn settle(&self) -> Result<(), ClientError> {
        match self.inner.memory.post_count.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => self.settle_posts(),
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_posts(&self) -> Result<(), ClientError> {
        self.inner.memory.check_process()?;
        self.inner.thread_connections.with_own(Connection::settle).unwrap_or(Ok(()))
    }

    /// Returns whether `key` exists, of any type.
    ///
    /// # Errors
    /// When the server had to be asked and does not answer.
    pub fn exists(&self, key: &[u8]) -> Result<bool, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        let (database, clock) = memory.scope();
        match memory.read(|_, reader| reader.exists(database, key, clock))? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => Ok(false),
            Answer::Unclear => Ok(integer(&self.ask(&[b"EXISTS", key])?)? != 0),
        }
    }

    /// Returns the length of the string at `key` in bytes; 0 where there is none.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn strlen(&self, key: &[u8]) -> Result<u64, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        let (database, clock) = memory.scope();
        match memory.read(|_, reader| reader.strlen(database, key, clock))? {
            Answer::Found(length) => Ok(length),
            Answer::Absent => Ok(0),
            Answer::Unclear => length(&self.ask(&[b"STRLEN", key])?),
        }
    }

    /// Returns a copy of the bytes `start..=end` of the string at `key`, counted from its end where
    /// negative, as GETRANGE does; nothing where there is none.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn getrange(&self, key: &[u8], start: i64, end: i64) -> Result<Vec<u8>, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        let (database, clock) = memory.scope();
        let mut value = Vec::new();
        let range = (start, end);
        match memory.read(|_, reader| reader.getrange(database, key, clock, range, &mut value))? {
            Answer::Found(()) => Ok(value),
            Answer::Absent => Ok(Vec::new()),
            Answer::Unclear => {
                let (start, end) = (start.to_string(), end.to_string());
                let reply = self.ask(&[b"GETRANGE", key, start.as_bytes(), end.as_bytes()])?;
                Ok(bulk(reply)?.unwrap_or_default())
            }
        }
    }

    /// Returns how long `key` lives, in whole milliseconds.
    ///
    /// # Errors
    /// When the server had to be asked and does not answer.
    pub fn ttl(&self, key: &[u8]) -> Result<TimeToLive, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        let (database, clock) = memory.scope();
        let answer = memory.read(|_, reader| reader.expiry(database, key, clock))?;
        match TimeToLive::of_expiry(&answer) {
            Some(found) => Ok(found),
            None => Ok(TimeToLive::of_milliseconds(integer(&self.ask(&[b"PTTL", key])?)?)),
        }
    }

    /// Returns the answer of the collection at `key`.
    #[inline]
    pub(crate) fn query<Q: Query>(
        &self,
        key: &[u8],
        mut query: Q,
    ) -> Result<Q::Answer, ClientError> {
        self.settle()?;
        let memory = &self.inner.memory;
        match memory.read(|_, reader| memory.look_for(reader, key, &mut query))? {
            Answer::Found(Some(answer)) => Ok(answer),
            Answer::Absent => Ok(query.absent()),
            Answer::Found(None) | Answer::Unclear => {
                let words = query.request(key);
                let words: Vec<&[u8]> = words.iter().map(Deref::deref).collect();
                let reply = self.ask(&words)?;
                query.replied(reply)
            }
        }
    }

    /// Returns the answer of the collection at `key`, if the memory has it.
    #[inline]
    pub(crate) fn query_at_once<Q: Query>(
        &self,
        key: &[u8],
        mut query: Q,
    ) -> Result<Option<Q::Answer>, ClientError> {
        if self.inner.memory.post_count.load(Ordering::Relaxed) > 0 {
            return Ok(None);
        }
        let memory = &self.inner.memory;
        match memory.lookup(|_, reader| memory.look_for(reader, key, &mut query)) {
            Lookup::Answer(Answer::Found(answer)) => Ok(answer),
            Lookup::Answer(Answer::Absent) => Ok(Some(query.absent())),
            Lookup::WrongType => Err(ClientError::wrong_type()),
            Lookup::Answer(Answer::Unclear) | Lookup::Unmapped | Lookup::Ended => Ok(None),
        }
    }

    /// Asks what the memory, where it is looked at first, has no answer to: like what it answers,
    /// that is then no part of a transaction of this thread.
    fn ask(&self, request: &[&[u8]]) -> Result<Reply, ClientError> {
        let looks_first = matches!(self.inner.memory.address.place, Place::SharedMemory(_));
        let asked = self.with_connection(|connection| {
            let is_beside = looks_first && connection.is_queueing();
            (!is_beside).then(|| connection.call(request)).transpose()
        });
        accepted(match asked? {
            Some(reply) => reply,
            None => self.open()?.call(request)?,
        })
    }

    pub(crate) fn with_connection<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let memory = &self.inner.memory;
        memory.check_process()?;
        self.inner.thread_connections.with(|| self.open(), run).map_err(|error| match error {
            // Who closes the client may end the server with it.
            ClientError::Broken(_) if memory.is_closed.load(Ordering::Relaxed) => {
                ClientError::Closed
            }
            error => error,
        })
    }

    /// Opens a connection for one thread.
    fn open(&self) -> Result<Connection, ClientError> {
        Connection::open(&self.inner.memory)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.inner.memory.address.place;
        f.debug_struct("Client").field("place", place).finish_non_exhaustive()
    }
}
