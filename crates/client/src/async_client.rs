//! The client for programs on tokio's runtime: the same operations, shared by any number of tasks.

use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use arena::reader::{Outcome, Reader};
use resp::Value as Reply;
use ring::Mapped;
use tokio::net::{TcpStream, UnixStream};

use crate::address::Place;
use crate::answers::{
    Gathered, TimeToLive, accepted, bulk, fill_one, integer, is_set, length, unexpected, view,
};
use crate::attached::{Answer, REFRESHES_MAX};
use crate::client::{TAKES_MAX, Transport};
use crate::collection_reads::Query;
use crate::connection::{check_scope, greeting};
use crate::creation::Creation;
use crate::duplex::Wire;
use crate::error::ClientError;
use crate::key_wait::{KeyWait, await_request, limit};
use crate::multiplex::Multiplexer;
use crate::options::{SetOptions, set_request};
use crate::server_memory::{Lookup, ServerMemory};
use crate::session_uploads::Mode;
use crate::shm_session::ShmSession;
use crate::upload_buffers::Upload;
use crate::value_view::View;

/// Connections of waits that are kept for the next ones.
const IDLE_MAX: usize = 16;

/// A client of one server, over `shm://`, `unix://` or `redis://`, on tokio's runtime.
///
/// Tasks share it as clones, which are cheap and the same client: all send over one connection,
/// each as it comes, and what is asked at one time is sent together. What one task sends is
/// executed in its order; a transaction of several calls, and a command that blocks, needs a
/// connection of its own: [`AsyncClient::connection`].
///
/// Over `shm://` reads look in the server's memory first, at once and without a wait, as
/// [`crate::Client`] does; everything else passes through a lane, or the unix socket where the
/// server makes none.
///
/// A future may be dropped at any time: its request is then executed or not, and the others get
/// their replies; but a connection of its own ends. A call whose connection breaks fails; the next
/// one connects anew. Nothing is sent twice. The connection is driven by a task of the runtime on
/// which it was made, and ends with it.
#[derive(Clone)]
pub struct AsyncClient {
    inner: Arc<Inner>,
}

struct Inner {
    memory: Arc<ServerMemory>,
    shared: Mutex<Option<AsyncConnection>>,
    /// Held while a connection is made, so that tasks make one together.
    connecting: tokio::sync::Mutex<()>,
    /// Connections of waits that are over.
    idle: Mutex<Vec<AsyncConnection>>,
}

/// A connection of an asynchronous client. Its clones are the same connection, which ends with the
/// last one, when a call has timed out, and when the future of one is dropped before it is done:
/// what it waited for in the server ends then. Every further call fails.
#[derive(Clone, Debug)]
pub struct AsyncConnection {
    multiplexer: Multiplexer,
    timeout: Option<Duration>,
    /// Tasks that know nothing of each other send over it.
    is_shared: bool,
    /// Whose lane it is, if it is one. What is sent keeps it.
    session: Option<Weak<ShmSession>>,
}

/// A call over a connection of its own. Dropped, it ends the connection: the server would go on
/// with what nobody waits for, and take elements for nobody.
struct Unanswered<'a>(&'a Multiplexer);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let text = "a call over the connection was given up";
        self.0.end(&ClientError::Broken(io::Error::new(ErrorKind::NotConnected, text)));
    }
}

impl AsyncClient {
    /// Connects to the server at `url`, which is as that of [`crate::Client::connect`]. Calls wait
    /// for as long as the server takes; making a connection is given up after 10 seconds.
    ///
    /// # Errors
    /// When the URL is none, the server does not answer, or refuses password or database.
    ///
    /// # Panics
    /// Outside of a runtime of tokio that has its drivers enabled, as every other operation.
    pub async fn connect(url: &str) -> Result<AsyncClient, ClientError> {
        AsyncClient::connect_with(url, None).await
    }

    /// As [`AsyncClient::connect`], for calls that give up after `timeout`. The connection that
    /// tasks share is then replaced, if nothing has come over it meanwhile.
    ///
    /// # Errors
    /// As [`AsyncClient::connect`].
    pub async fn connect_within(url: &str, timeout: Duration) -> Result<AsyncClient, ClientError> {
        AsyncClient::connect_with(url, Some(timeout)).await
    }

    async fn connect_with(
        url: &str,
        timeout: Option<Duration>,
    ) -> Result<AsyncClient, ClientError> {
        let inner = Inner {
            memory: Arc::new(ServerMemory::new(url, timeout)?),
            shared: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            idle: Mutex::new(Vec::new()),
        };
        let client = AsyncClient { inner: Arc::new(inner) };
        client.transport().await?;
        Ok(client)
    }

    /// Returns how the client reaches the server; it connects where it is not connected.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn transport(&self) -> Result<Transport, ClientError> {
        let is_lane = self.shared().await?.session.is_some();
        self.blocking(move |memory| memory.transport(is_lane)).await
    }

    /// Returns a connection of its own: for transactions of several calls, and for commands that
    /// block, which would hold up the other tasks.
    ///
    /// # Errors
    /// As [`AsyncClient::connect`].
    pub async fn connection(&self) -> Result<AsyncConnection, ClientError> {
        within(self.connect_limit(), self.open()).await
    }

    /// Sends one request and returns its reply, as [`crate::Client::call`]. What would reach into
    /// the requests of other tasks is refused: WATCH, and MULTI without its EXEC in one pipeline.
    ///
    /// # Errors
    /// As [`crate::Client::call`].
    pub async fn call(&self, request: &[&[u8]]) -> Result<Reply, ClientError> {
        self.shared_for(&[request]).await?.call(request).await
    }

    /// Sends `requests` together, with nothing of other tasks between them, and returns their
    /// replies in order, errors among them.
    ///
    /// # Errors
    /// When a reply does not come.
    pub async fn pipeline(&self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        self.shared_for(requests).await?.pipeline(requests).await
    }

    /// Sets `key` to `value`, without a time to live.
    ///
    /// # Errors
    /// As [`AsyncClient::call`].
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), ClientError> {
        self.put_with(key, value, &SetOptions::new()).await.map(|_| ())
    }

    /// Sets `key` to `value` as `options` say; returns whether their condition held.
    ///
    /// # Errors
    /// As [`AsyncClient::call`].
    pub async fn put_with(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
    ) -> Result<bool, ClientError> {
        if let Some(mut upload) = self.upload(value.len(), Mode::Copy).await? {
            upload.copy_from_slice(value);
            return self.commit(key, upload, Mode::Copy, options).await;
        }
        self.set(key, value, options).await
    }

    /// Makes `upload` the value of `key`; returns whether the condition of `options` held.
    pub(crate) async fn commit(
        &self,
        key: &[u8],
        upload: Upload,
        mode: Mode,
        options: &SetOptions,
    ) -> Result<bool, ClientError> {
        let connection = self.shared().await?;
        if !connection.session().is_some_and(|session| upload.is_of(&session)) {
            return self.set(key, &upload, options).await;
        }
        let (key, words, asking) = (key.to_vec(), options.words(), connection.clone());
        let commit = async move {
            let mut storing = upload.store(mode);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let requests = storing.requests(&key, &words);
            let requests: Vec<&[&[u8]]> = requests.iter().map(Vec::as_slice).collect();
            let replies = asking.exchange(&requests).await?;
            Ok(storing.finish(replies)?)
        };
        // A task of its own, which notes what has come when this future was dropped.
        let commit = tokio::spawn(commit);
        let committed = async { commit.await.map_err(io::Error::other)? };
        is_set(&connection.within(connection.timeout, committed).await?)
    }

    /// Returns room to write a value to; `None` where it is to be sent.
    async fn upload(&self, length: usize, mode: Mode) -> Result<Option<Upload>, ClientError> {
        if length < mode.upload_bytes_min() {
            return Ok(None);
        }
        let Some(session) = self.shared().await?.session() else { return Ok(None) };
        if let Some(upload) = Upload::spare(&session, length, mode) {
            return Ok(Some(upload));
        }
        self.blocking(move |_| {
            Ok(Upload::allocate(&session, length, 1, mode, |requests| session.ask(requests))?)
        })
        .await
    }

    /// Puts by SET.
    async fn set(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
    ) -> Result<bool, ClientError> {
        let words = options.words();
        is_set(&self.call(&set_request(key, value, &words)).await?)
    }

    /// Returns `length` bytes to write a value into, as [`crate::Client::create`].
    ///
    /// # Errors
    /// As [`crate::Client::create`].
    pub async fn create(
        &self,
        key: &[u8],
        length: usize,
    ) -> Result<Creation<AsyncClient>, ClientError> {
        let upload = self.upload(length, Mode::Adopt).await?;
        Creation::new(self.clone(), key, length, upload)
    }

    /// Returns the value of `key`, as [`crate::Client::get`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        match self.read(self.inner.memory.view_of(key)).await? {
            Answer::Found(view) => Ok(Some(view)),
            Answer::Absent => Ok(None),
            Answer::Unclear => view(self.call(&[b"GET", key]).await?),
        }
    }

    /// Copies the value of `key` to `value`, as [`crate::Client::get_into`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, ClientError> {
        let (database, clock) = self.inner.memory.scope();
        match self.read(|_, reader| reader.get(database, key, clock, value)).await? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => {
                value.clear();
                Ok(false)
            }
            Answer::Unclear => fill_one(value, self.call(&[b"GET", key]).await?),
        }
    }

    /// Waits until `key` exists, as [`crate::Client::get_blocking`]; other tasks go on.
    ///
    /// # Errors
    /// As [`crate::Client::get_blocking`].
    pub async fn get_blocking(
        &self,
        key: &[u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<View>, ClientError> {
        let mut wait = KeyWait::new(timeout.into(), Instant::now());
        loop {
            let (read_limit, current) = (self.connect_limit(), lock(&self.inner.shared).clone());
            let found = match current {
                Some(shared) => shared.within(read_limit, self.get(key)).await?,
                None => within(read_limit, self.get(key)).await?,
            };
            if found.is_some() {
                return Ok(found);
            }
            let Some(slice) = wait.next_slice(Instant::now()) else { return Ok(None) };
            let step = Some(limit(self.inner.memory.timeout, slice));
            match within(step, self.await_key(key, slice)).await {
                Ok(()) => {}
                Err(error) => match wait.pause_instead(&error) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(error),
                },
            }
        }
    }

    /// Waits for `slice` until `key` exists, over a connection on which nobody else waits. When
    /// this is dropped, the connection ends and with it the wait.
    async fn await_key(&self, key: &[u8], slice: Duration) -> Result<(), ClientError> {
        let idle = lock(&self.inner.idle).pop().filter(|idle| !idle.is_over());
        let connection = match idle {
            Some(connection) => connection,
            None => self.connection().await?,
        };
        let seconds = await_request(slice);
        let requests: [&[&[u8]]; 1] = [&[b"AWAIT", key, seconds.as_bytes()]];
        let replies = connection.exchange(&requests).await?;
        let mut idle = lock(&self.inner.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        drop(idle);
        one(replies).and_then(accepted).and_then(bulk).map(drop)
    }

    /// Returns the values of `keys`, as [`crate::Client::mget`].
    ///
    /// # Errors
    /// As [`crate::Client::mget`].
    pub async fn mget(&self, keys: &[&[u8]]) -> Result<Vec<Option<View>>, ClientError> {
        let memory = &self.inner.memory;
        let mut found = Gathered::for_keys(keys.len());
        let answered = memory.gather(keys, &mut found);
        for key in &keys[answered..] {
            found.add(self.read(memory.view_of(key)).await)?;
        }
        let reply = match found.request(keys) {
            Some(request) => Some(self.call(&request).await?),
            None => None,
        };
        found.completed(reply)
    }

    /// Deletes `key` and returns the value that it had, as [`crate::Client::take`]. When this is
    /// dropped before it is done, the value may be lost.
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn take(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        for _ in 0..TAKES_MAX {
            let view = match self.read(self.inner.memory.view_of(key)).await? {
                Answer::Found(view) => view,
                Answer::Absent => return Ok(None),
                Answer::Unclear => break,
            };
            let (Some(offset), Some(session)) = (view.offset(), view.session()) else { break };
            let connection = self.shared().await?;
            if !connection.is_lane_of(session) {
                break;
            }
            let offset = offset.to_string();
            match connection.call(&[b"SHM", b"TAKE", key, offset.as_bytes()]).await? {
                Reply::Integer(1) => return Ok(Some(view)),
                Reply::Integer(0) => {}
                other => return Err(unexpected(&other)),
            }
        }
        view(self.call(&[b"GETDEL", key]).await?)
    }

    /// Returns whether `key` exists, of any type.
    ///
    /// # Errors
    /// As [`crate::Client::exists`].
    pub async fn exists(&self, key: &[u8]) -> Result<bool, ClientError> {
        let (database, clock) = self.inner.memory.scope();
        match self.read(|_, reader| reader.exists(database, key, clock)).await? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => Ok(false),
            Answer::Unclear => Ok(integer(&self.call(&[b"EXISTS", key]).await?)? != 0),
        }
    }

    /// Returns the length of the string at `key` in bytes; 0 where there is none.
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn strlen(&self, key: &[u8]) -> Result<u64, ClientError> {
        let (database, clock) = self.inner.memory.scope();
        match self.read(|_, reader| reader.strlen(database, key, clock)).await? {
            Answer::Found(length) => Ok(length),
            Answer::Absent => Ok(0),
            Answer::Unclear => length(&self.call(&[b"STRLEN", key]).await?),
        }
    }

    /// Returns a copy of a part of the string at `key`, as [`crate::Client::getrange`].
    ///
    /// # Errors
    /// As [`crate::Client::get`].
    pub async fn getrange(&self, key: &[u8], start: i64, end: i64) -> Result<Vec<u8>, ClientError> {
        let (database, clock) = self.inner.memory.scope();
        let mut value = Vec::new();
        let read_range = |_: &Arc<ShmSession>, reader: &Arc<Reader<Mapped>>| {
            reader.getrange(database, key, clock, (start, end), &mut value)
        };
        match self.read(read_range).await? {
            Answer::Found(()) => Ok(value),
            Answer::Absent => Ok(Vec::new()),
            Answer::Unclear => {
                let (start, end) = (start.to_string(), end.to_string());
                let request: [&[u8]; 4] = [b"GETRANGE", key, start.as_bytes(), end.as_bytes()];
                Ok(bulk(self.call(&request).await?)?.unwrap_or_default())
            }
        }
    }

    /// Returns how long `key` lives, in whole milliseconds.
    ///
    /// # Errors
    /// As [`crate::Client::ttl`].
    pub async fn ttl(&self, key: &[u8]) -> Result<TimeToLive, ClientError> {
        let (database, clock) = self.inner.memory.scope();
        let answer = self.read(|_, reader| reader.expiry(database, key, clock)).await?;
        match TimeToLive::of_expiry(&answer) {
            Some(found) => Ok(found),
            None => {
                let reply = self.call(&[b"PTTL", key]).await?;
                Ok(TimeToLive::of_milliseconds(integer(&reply)?))
            }
        }
    }

    /// Returns the answer of the collection at `key`.
    pub(crate) async fn query<Q: Query>(
        &self,
        key: &[u8],
        mut query: Q,
    ) -> Result<Q::Answer, ClientError> {
        let memory = &self.inner.memory;
        match self.read(|_, reader| memory.look_for(reader, key, &mut query)).await? {
            Answer::Found(Some(answer)) => Ok(answer),
            Answer::Absent => Ok(query.absent()),
            Answer::Found(None) | Answer::Unclear => {
                let words = query.request(key);
                let words: Vec<&[u8]> = words.iter().map(Deref::deref).collect();
                let reply = self.call(&words).await?;
                query.replied(reply)
            }
        }
    }

    /// Looks in the memory until there is an answer. It waits only where a session has to be made
    /// or segments to be mapped.
    async fn read<T>(
        &self,
        mut attempt: impl FnMut(&Arc<ShmSession>, &Arc<Reader<Mapped>>) -> Outcome<T>,
    ) -> Result<Answer<T>, ClientError> {
        for _ in 0..REFRESHES_MAX {
            match self.inner.memory.lookup(&mut attempt) {
                Lookup::Answer(answer) => return Ok(answer),
                Lookup::WrongType => return Err(ClientError::wrong_type()),
                Lookup::Unmapped => {
                    if !self.blocking(|memory| Ok(memory.refresh())).await? {
                        break;
                    }
                }
                Lookup::Ended => self.blocking(|memory| memory.session().map(drop)).await?,
            }
        }
        Ok(Answer::Unclear)
    }

    /// Runs what waits for the server on a thread that may.
    async fn blocking<T: Send + 'static>(
        &self,
        run: impl FnOnce(&ServerMemory) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, ClientError> {
        let memory = Arc::clone(&self.inner.memory);
        tokio::task::spawn_blocking(move || run(&memory)).await.map_err(io::Error::other)?
    }

    /// Returns the connection that tasks share, where `requests` may be sent over it.
    async fn shared_for(&self, requests: &[&[&[u8]]]) -> Result<AsyncConnection, ClientError> {
        requests.iter().try_for_each(|request| check_scope(request))?;
        check_whole(requests)?;
        self.shared().await
    }

    /// Returns the connection that tasks share, a new one where the old one has ended.
    async fn shared(&self) -> Result<AsyncConnection, ClientError> {
        self.inner.memory.check_process()?;
        let current = || lock(&self.inner.shared).clone().filter(|current| !current.is_over());
        if let Some(connection) = current() {
            return Ok(connection);
        }
        let connect = async {
            let _one_at_a_time = self.inner.connecting.lock().await;
            if let Some(connection) = current() {
                return Ok(connection);
            }
            let connection = AsyncConnection { is_shared: true, ..self.open().await? };
            *lock(&self.inner.shared) = Some(connection.clone());
            Ok(connection)
        };
        within(self.connect_limit(), connect).await
    }

    /// Returns how long it may take to make a connection, or to ask what takes no time.
    fn connect_limit(&self) -> Option<Duration> {
        Some(limit(self.inner.memory.timeout, Duration::ZERO))
    }

    async fn open(&self) -> Result<AsyncConnection, ClientError> {
        let (wire, memory) = (self.wire().await?, &self.inner.memory);
        let (session, timeout) = (wire.session().map(Arc::downgrade), memory.timeout);
        let is_lane = session.is_some();
        let (multiplexer, driver) = Multiplexer::new(wire);
        tokio::spawn(driver);
        let connection = AsyncConnection { multiplexer, timeout, is_shared: false, session };
        let number = memory.address.database.0.to_string();
        // A lane has authenticated with its session.
        let greeting = greeting(&memory.address).filter(|_| !is_lane).unwrap_or_default();
        let greeting: Vec<&[u8]> = greeting.iter().map(Vec::as_slice).collect();
        let select: [&[u8]; 2] = [b"SELECT", number.as_bytes()];
        let mut requests: Vec<&[&[u8]]> = Vec::new();
        requests.extend((!greeting.is_empty()).then_some(&greeting[..]));
        requests.extend((memory.address.database.0 > 0).then_some(&select[..]));
        for reply in connection.exchange(&requests).await? {
            accepted(reply)?;
        }
        Ok(connection)
    }

    async fn wire(&self) -> Result<Wire, ClientError> {
        match &self.inner.memory.address.place {
            Place::Unix(path) => Ok(Wire::unix(UnixStream::connect(path).await?)),
            Place::Tcp(host, port) => {
                Ok(Wire::tcp(TcpStream::connect((host.as_str(), *port)).await?)?)
            }
            Place::SharedMemory(path) => match self.blocking(ServerMemory::new_lane).await? {
                Some((lane, session)) => Ok(Wire::lane(lane, session)?),
                None => Ok(Wire::unix(UnixStream::connect(path).await?)),
            },
        }
    }
}

impl AsyncConnection {
    /// As [`AsyncClient::call`].
    ///
    /// # Errors
    /// As [`AsyncClient::call`].
    pub async fn call(&self, request: &[&[u8]]) -> Result<Reply, ClientError> {
        one(self.pipeline(&[request]).await?).and_then(accepted)
    }

    /// As [`AsyncClient::pipeline`].
    ///
    /// # Errors
    /// As [`AsyncClient::pipeline`].
    pub async fn pipeline(&self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        let unanswered = (!self.is_shared).then(|| Unanswered(&self.multiplexer));
        let replies = self.within(self.timeout, self.exchange(requests)).await;
        std::mem::forget(unanswered);
        replies
    }

    /// Waits for `future`, which asks over this connection, for no longer than `timeout`. The
    /// connection then ends, so that what waits in the server ends too; but one that others share
    /// only if nothing has come over it meanwhile.
    async fn within<T>(
        &self,
        timeout: Option<Duration>,
        future: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let before = self.multiplexer.received_count();
        let found = within(timeout, future).await;
        let is_spared = self.is_shared && self.multiplexer.received_count() != before;
        if matches!(found, Err(ClientError::TimedOut)) && !is_spared {
            self.multiplexer.end(&ClientError::TimedOut);
        }
        found
    }

    /// Returns the session whose lane it is, if it is one.
    fn session(&self) -> Option<Arc<ShmSession>> {
        self.session.as_ref()?.upgrade()
    }

    /// Returns whether it is a lane of `session`.
    fn is_lane_of(&self, session: &Arc<ShmSession>) -> bool {
        self.session.as_ref().is_some_and(|own| own.as_ptr() == Arc::as_ptr(session))
    }

    /// Returns whether it has ended.
    pub fn is_over(&self) -> bool {
        // Over a session that has ended no memory is had for large values.
        self.multiplexer.is_over() || self.session().is_some_and(|session| session.is_over())
    }

    async fn exchange(&self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        self.multiplexer.wait_for_space().await;
        self.multiplexer.send(requests)?.await
    }
}

impl fmt::Debug for AsyncClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.inner.memory.address.place;
        f.debug_struct("AsyncClient").field("place", place).finish_non_exhaustive()
    }
}

/// Refuses requests that would change what those of other tasks mean.
///
/// # Errors
/// [`ClientError::Unsupported`], and nothing is sent.
fn check_whole(requests: &[&[&[u8]]]) -> Result<(), ClientError> {
    let mut is_open = false;
    for request in requests {
        let name = request.first().copied().unwrap_or_default();
        let is_one =
            |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        if is_one(&["WATCH", "UNWATCH"]) || is_one(&["EXEC", "DISCARD"]) && !is_open {
            is_open = true;
            break;
        }
        is_open = is_one(&["MULTI"]) || is_open && !is_one(&["EXEC", "DISCARD"]);
    }
    match is_open {
        false => Ok(()),
        true => {
            let text = "a part of a transaction, which needs a connection of its own";
            Err(ClientError::Unsupported(text.to_owned()))
        }
    }
}

/// Returns the reply to one request.
fn one(replies: Vec<Reply>) -> Result<Reply, ClientError> {
    replies.into_iter().next().ok_or(ClientError::Broken(ErrorKind::UnexpectedEof.into()))
}

/// Waits for `future`, for no longer than `timeout`.
async fn within<T>(
    timeout: Option<Duration>,
    future: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match timeout {
        None => future.await,
        Some(timeout) => {
            tokio::time::timeout(timeout, future).await.unwrap_or(Err(ClientError::TimedOut))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}
