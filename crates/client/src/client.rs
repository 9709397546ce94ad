//! The client: one type for all ways to a server, shared by any number of threads.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use arena::reader::{KeptView, Outcome, Reader};
use resp::Value as Reply;
use ring::Mapped;

use crate::address::{Address, Place};
use crate::attached::Answer;
use crate::connection::{Connection, accepted};
use crate::error::{AttachError, ClientError};
use crate::seats::Seats;
use crate::session::Session;
use crate::view::View;

/// A client of one server, over `shm://`, `unix://` or `redis://`.
///
/// Threads share it by reference. Each has a connection of its own, a lane or a socket, made when
/// it first needs one and closed when the thread ends or the client is dropped; so a transaction of
/// several calls is one thread's. Commands that change what is a request's reply have no place
/// here: MONITOR, SUBSCRIBE, CLIENT REPLY, HELLO 3.
///
/// Over `shm://` the operations that read ([`Client::get`], [`Client::get_into`],
/// [`Client::mget`], [`Client::exists`], [`Client::strlen`], [`Client::ttl`]) look in the server's
/// memory first, and ask it only where that cannot answer. They are then no part of a transaction,
/// and always see the database of the URL. Everything else passes through lanes. What the server
/// does not let this process do is done over the unix socket instead: see [`Client::transport`].
///
/// A call whose connection breaks fails, as nobody knows whether it was executed; the next one
/// connects anew. Nothing is sent twice.
pub struct Client {
    address: Address,
    timeout: Option<Duration>,
    session: ArcSwapOption<Session>,
    /// Held while a session is made, so that threads make one together.
    renewing: Mutex<()>,
    seats: Arc<Seats>,
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

/// How long a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// There is no such key.
    Absent,
    /// Until it is deleted.
    Endless,
    /// So long from now.
    Left(Duration),
}

thread_local! {
    /// Where values are copied before they are views.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Client {
    /// Connects to the server at `url`: `shm:///path/to/socket`, `unix:///path/to/socket` or
    /// `redis://host:port/database`. A password stands before the host or path
    /// (`redis://:secret@host`), or after it (`shm:///path?password=secret&db=3`).
    ///
    /// Calls wait for as long as the server takes.
    ///
    /// # Errors
    /// When the URL is none of those, the server does not answer, or refuses password or database.
    pub fn connect(url: &str) -> Result<Client, ClientError> {
        Client::connect_with(url, None)
    }

    /// As [`Client::connect`], for calls that give up once the server has been silent for
    /// `timeout`.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(url: &str, timeout: Duration) -> Result<Client, ClientError> {
        Client::connect_with(url, Some(timeout))
    }

    fn connect_with(url: &str, timeout: Option<Duration>) -> Result<Client, ClientError> {
        let client = Client {
            address: Address::parse(url)?,
            timeout,
            session: ArcSwapOption::empty(),
            renewing: Mutex::new(()),
            seats: Seats::new(),
        };
        client.transport()?;
        Ok(client)
    }

    /// Returns how this thread reaches the server; it connects where it has not yet.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn transport(&self) -> Result<Transport, ClientError> {
        let is_lane = self.with_connection(|connection| Ok(connection.is_lane()))?;
        let reads = self.session()?.as_ref().is_some_and(|it| it.attached().is_some());
        Ok(match &self.address.place {
            Place::SharedMemory(_) if reads => Transport::SharedMemory,
            Place::SharedMemory(_) if is_lane => Transport::Lane,
            Place::SharedMemory(_) | Place::Unix(_) => Transport::Unix,
            Place::Tcp(..) => Transport::Tcp,
        })
    }

    /// Sends one request and returns its reply.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for an error reply; the others when there is no reply.
    pub fn call(&self, request: &[&[u8]]) -> Result<Reply, ClientError> {
        accepted(self.with_connection(|connection| connection.call(request))?)
    }

    /// Sends `requests` together and returns their replies in order, errors among them.
    ///
    /// # Errors
    /// When a reply does not come.
    pub fn pipeline(&self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        self.with_connection(|connection| connection.pipeline(requests))
    }

    /// Sets `key` to `value`, without a time to live.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), ClientError> {
        match self.call(&[b"SET", key, value])? {
            Reply::Simple(text) if text == b"OK" => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the value of `key`: over shared memory a value above 4 KiB where it lies, else a
    /// copy.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the key holds another type; the others when the server had to
    /// be asked and does not answer.
    pub fn get(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        match self.look(key)? {
            Answer::Found(view) => Ok(Some(view)),
            Answer::Absent => Ok(None),
            Answer::Unclear => Ok(bulk(self.call(&[b"GET", key])?)?.map(View::owned)),
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
        let (database, clock) = (self.address.database, sys::clock::realtime);
        match self.read(|reader| reader.get(database, key, clock, value))? {
            Answer::Found(()) => return Ok(true),
            Answer::Absent => value.clear(),
            Answer::Unclear => {
                value.clear();
                if let Some(bytes) = bulk(self.call(&[b"GET", key])?)? {
                    *value = bytes;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the values of `keys`, `None` where there is no string.
    ///
    /// Over shared memory each key is read for itself: what another client changes meanwhile may be
    /// seen in one and not in the other. `call` with MGET sees all at one moment.
    ///
    /// # Errors
    /// When the server had to be asked and does not answer.
    pub fn mget(&self, keys: &[&[u8]]) -> Result<Vec<Option<View>>, ClientError> {
        let mut values = Vec::with_capacity(keys.len());
        let mut unclear = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            values.push(match self.look(key) {
                Ok(Answer::Found(view)) => Some(view),
                Ok(Answer::Absent) | Err(ClientError::Refused(_)) => None,
                Ok(Answer::Unclear) => {
                    unclear.push(index);
                    None
                }
                Err(error) => return Err(error),
            });
        }
        if unclear.is_empty() {
            return Ok(values);
        }
        let mut request: Vec<&[u8]> = vec![b"MGET"];
        request.extend(unclear.iter().map(|&index| keys[index]));
        match self.call(&request)? {
            Reply::Array(replies) if replies.len() == unclear.len() => {
                for (index, reply) in unclear.into_iter().zip(replies) {
                    values[index] = bulk(reply)?.map(View::owned);
                }
                Ok(values)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes `key` and returns the value that it had, a copy. Of several that take one key at a
    /// time, one gets the value.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn take(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        Ok(bulk(self.call(&[b"GETDEL", key])?)?.map(View::owned))
    }

    /// Returns whether `key` exists, of any type.
    ///
    /// # Errors
    /// When the server had to be asked and does not answer.
    pub fn exists(&self, key: &[u8]) -> Result<bool, ClientError> {
        let (database, clock) = (self.address.database, sys::clock::realtime);
        match self.read(|reader| reader.exists(database, key, clock))? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => Ok(false),
            Answer::Unclear => Ok(self.integer(&[b"EXISTS", key])? != 0),
        }
    }

    /// Returns the length of the string at `key` in bytes; 0 where there is none.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn strlen(&self, key: &[u8]) -> Result<u64, ClientError> {
        let (database, clock) = (self.address.database, sys::clock::realtime);
        match self.read(|reader| reader.strlen(database, key, clock))? {
            Answer::Found(length) => Ok(length),
            Answer::Absent => Ok(0),
            Answer::Unclear => Ok(self.integer(&[b"STRLEN", key])? as u64),
        }
    }

    /// Returns how long `key` lives, in whole milliseconds.
    ///
    /// # Errors
    /// When the server had to be asked and does not answer.
    pub fn ttl(&self, key: &[u8]) -> Result<TimeToLive, ClientError> {
        let (database, clock) = (self.address.database, sys::clock::realtime);
        let milliseconds = match self.read(|reader| reader.expiry(database, key, clock))? {
            Answer::Found(None) => return Ok(TimeToLive::Endless),
            Answer::Found(Some(at)) => at.0.saturating_sub(clock().0).max(0),
            Answer::Absent => return Ok(TimeToLive::Absent),
            Answer::Unclear => self.integer(&[b"PTTL", key])?,
        };
        Ok(match u64::try_from(milliseconds) {
            Ok(left) => TimeToLive::Left(Duration::from_millis(left)),
            Err(_) if milliseconds == -1 => TimeToLive::Endless,
            Err(_) => TimeToLive::Absent,
        })
    }

    fn integer(&self, request: &[&[u8]]) -> Result<i64, ClientError> {
        match self.call(request)? {
            Reply::Integer(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    /// Looks in the memory for the value of `key`.
    fn look(&self, key: &[u8]) -> Result<Answer<View>, ClientError> {
        let guard = self.session()?;
        let Some(session) = guard.as_ref() else { return Ok(Answer::Unclear) };
        let (database, clock) = (self.address.database, sys::clock::realtime);
        SCRATCH.with_borrow_mut(|scratch| {
            let keep = |reader: &Arc<Reader<Mapped>>| reader.keep(database, key, clock, scratch);
            let view = |kept: Option<KeptView<Mapped>>, scratch: &mut Vec<u8>| match kept {
                Some(view) => View::pinned(view, Arc::clone(session)),
                None => View::copied(scratch),
            };
            Ok(match read_in(session, keep)? {
                Answer::Found(kept) => Answer::Found(view(kept, scratch)),
                Answer::Absent => Answer::Absent,
                Answer::Unclear => Answer::Unclear,
            })
        })
    }

    /// Looks in the memory, where this client may.
    #[inline]
    fn read<T>(
        &self,
        attempt: impl FnMut(&Arc<Reader<Mapped>>) -> Outcome<T>,
    ) -> Result<Answer<T>, ClientError> {
        match self.session()?.as_ref() {
            Some(session) => read_in(session, attempt),
            None => Ok(Answer::Unclear),
        }
    }

    /// Returns the session, a new one where the old one has ended; `None` where the URL asks for
    /// none.
    #[inline]
    fn session(&self) -> Result<Guard<Option<Arc<Session>>>, ClientError> {
        let session = self.session.load();
        match (&*session, &self.address.place) {
            (Some(current), _) if !current.is_over() => Ok(session),
            (_, Place::SharedMemory(path)) => self.renew(path),
            _ => Ok(session),
        }
    }

    #[cold]
    fn renew(&self, path: &Path) -> Result<Guard<Option<Arc<Session>>>, ClientError> {
        let _one_at_a_time = self.renewing.lock().expect("no holder panics");
        let session = self.session.load();
        if session.as_ref().is_some_and(|session| !session.is_over()) {
            return Ok(session);
        }
        self.session.store(None);
        self.session.store(Some(Arc::new(Session::open(path, &self.address, self.timeout)?)));
        Ok(self.session.load())
    }

    fn with_connection<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.seats.with(|| self.open(), run)
    }

    /// Opens a connection for one thread.
    fn open(&self) -> Result<Connection, ClientError> {
        let (address, timeout) = (&self.address, self.timeout);
        match &address.place {
            Place::Unix(path) => Connection::unix(path, address, timeout),
            Place::Tcp(host, port) => Connection::tcp(host, *port, address, timeout),
            Place::SharedMemory(path) => match self.session()?.as_ref() {
                Some(session) => match Connection::lane(session, address, timeout) {
                    // No lanes here, or none left. A database that there is not is refused again.
                    Err(ClientError::Refused(_)) => Connection::unix(path, address, timeout),
                    opened => opened,
                },
                None => Connection::unix(path, address, timeout),
            },
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("place", &self.address.place).finish_non_exhaustive()
    }
}

/// Looks in the memory of `session`, where it may.
#[inline]
fn read_in<T>(
    session: &Session,
    attempt: impl FnMut(&Arc<Reader<Mapped>>) -> Outcome<T>,
) -> Result<Answer<T>, ClientError> {
    let Some(attached) = session.attached() else { return Ok(Answer::Unclear) };
    match attached.read(attempt) {
        Ok(answer) => Ok(answer),
        Err(AttachError::WrongType) => Err(ClientError::wrong_type()),
        // New segments cannot be mapped: a connection knows what has become of the server.
        Err(_) => Ok(Answer::Unclear),
    }
}

/// Returns the bytes of a reply that is a value, or none.
fn bulk(reply: Reply) -> Result<Option<Vec<u8>>, ClientError> {
    match reply {
        Reply::Bulk(bytes) => Ok(Some(bytes)),
        Reply::Null => Ok(None),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> ClientError {
    ClientError::Unexpected(format!("{reply:?}"))
}
