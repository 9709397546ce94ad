//! Connections to other servers: what MIGRATE sends, by threads that serve no client.
//!
//! Each parcel has a thread of its own for as long as it is underway. A thread that waits for a
//! silent server holds the parcel and its place among those that may run at once, and nothing else;
//! it ends with the timeout of the request, or when the session goes. A connection whose transfer
//! has ended stays open for some seconds, for the next one to the same server.
//!
//! *Not here*: what is sent, and what follows from the replies (`command`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use command::{
    CommandError, Delivery, OtherServers, Parcel, SentValue, Target, Transfer, TransferFailure,
    Wake,
};
use resp::encode_command;
use sys::crash::AlternateStack;

use crate::mailbox::{Mailbox, Message};
use crate::server_state::ServerState;
use crate::service::ServiceWaker;

/// Transfers at once; each has a connection and at times a thread.
pub const TRANSFERS_MAX: usize = 64;
/// Connections that are kept for the next transfer, and for how long, as in Redis.
pub const IDLE_CONNECTIONS_MAX: usize = 64;
const IDLE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long one attempt to connect takes: after it whether the session is gone is looked at.
const CONNECT_ATTEMPT_MIN: Duration = Duration::from_secs(1);
const CONNECT_ATTEMPT_MAX: Duration = Duration::from_secs(8);
/// What is to be taken within one timeout, as in Redis.
const SENT_AT_ONCE_MAX: usize = 64 * 1024;
/// Payloads below this length are sent with what stands around them.
const COPIED_BYTES_MAX: usize = 16 * 1024;
/// The longest reply, as in Redis.
const REPLY_BYTES_MAX: usize = 1024;
const RECEIVED_AT_ONCE_MAX: usize = 16 * 1024;

const TOO_MANY: CommandError =
    CommandError::Fixed("ERR too many MIGRATE commands are waiting for other servers");

/// The transfers to other servers, and the connections that are kept for further ones.
pub struct Transfers {
    shared: Arc<Shared>,
}

struct Shared {
    running: AtomicUsize,
    idle: Mutex<Vec<IdleConnection>>,
    /// How many there are in `idle`.
    idle_count: AtomicUsize,
    service_waker: Arc<ServiceWaker>,
}

struct IdleConnection {
    target: Arc<Target>,
    connection: ServerConnection,
    since: Duration,
}

impl Transfers {
    /// Returns no transfers; `service_waker` is woken once a connection is kept.
    pub fn new(service_waker: Arc<ServiceWaker>) -> Transfers {
        let (running, idle_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let idle = Mutex::default();
        Transfers { shared: Arc::new(Shared { running, idle, idle_count, service_waker }) }
    }

    /// Returns how many connections are kept for further transfers.
    pub fn idle_count(&self) -> usize {
        self.shared.idle_count.load(Ordering::Relaxed)
    }

    /// Closes the connections that nobody has used for long at `now`, by the steady clock.
    pub fn close_idle(&self, now: Duration) {
        if self.idle_count() > 0 {
            self.shared.change_idle(|idle| idle.retain(|it| !it.is_old(now)));
        }
    }

    fn begin(
        &self,
        mailbox: Arc<Mailbox>,
        session: u64,
        target: Target,
    ) -> Result<ServerTransfer, CommandError> {
        let more = |count: usize| (count < TRANSFERS_MAX).then_some(count + 1);
        let running = &self.shared.running;
        let begun = running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        begun.map_err(|_| TOO_MANY)?;
        let (shared, target) = (Arc::clone(&self.shared), Arc::new(target));
        let state = Mutex::new(State { may_retry: true, ..State::default() });
        let underway = Underway { shared, target, mailbox, session, state };
        Ok(ServerTransfer { underway: Arc::new(underway) })
    }
}

impl IdleConnection {
    fn is_old(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= IDLE_TIME_MAX
    }
}

impl Shared {
    fn change_idle<R>(&self, change: impl FnOnce(&mut Vec<IdleConnection>) -> R) -> R {
        let mut idle = self.idle.lock().expect("no holder of the idle connections panics");
        let result = change(&mut idle);
        self.idle_count.store(idle.len(), Ordering::Relaxed);
        result
    }

    fn take_idle(&self, target: &Target) -> Option<ServerConnection> {
        let now = sys::clock::monotonic();
        self.change_idle(|idle| {
            idle.retain(|it| !it.is_old(now));
            // What has another database is chosen anew.
            let is_same = |it: &IdleConnection| {
                (&it.target.host, &it.target.port, &it.target.credentials)
                    == (&target.host, &target.port, &target.credentials)
            };
            let index = idle.iter().rposition(is_same)?;
            Some(idle.remove(index).connection)
        })
    }

    fn keep(&self, target: Arc<Target>, connection: ServerConnection) {
        let since = sys::clock::monotonic();
        self.change_idle(|idle| {
            if idle.len() == IDLE_CONNECTIONS_MAX {
                idle.remove(0);
            }
            idle.push(IdleConnection { target, connection, since });
        });
        self.service_waker.wake();
    }
}

impl OtherServers for ServerState {
    fn begin_transfer(
        &self,
        session: u64,
        target: Target,
    ) -> Result<Box<dyn Transfer>, CommandError> {
        // A session that another has ended has no worker, and its reply no reader.
        let worker = self.clients.worker(session).unwrap_or(0);
        let mailbox = Arc::clone(&self.mailboxes[worker]);
        Ok(Box::new(self.transfers.begin(mailbox, session, target)?))
    }
}

/// The session's end of a transfer.
#[derive(Debug)]
struct ServerTransfer {
    underway: Arc<Underway>,
}

/// What the session and the thread of its parcel share.
struct Underway {
    shared: Arc<Shared>,
    target: Arc<Target>,
    mailbox: Arc<Mailbox>,
    session: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    delivery: Option<Delivery>,
    /// What is to be sent, until there is a connection: who gives the transfer up releases it.
    parcel: Option<Parcel>,
    /// The connection between two parcels.
    connection: Option<ServerConnection>,
    /// That of the parcel underway, for who gives the transfer up.
    stream: Option<Arc<TcpStream>>,
    /// The session is gone.
    is_given_up: bool,
    /// A connection that breaks before the first reply may be made anew, once.
    may_retry: bool,
}

impl std::fmt::Debug for Underway {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "transfer of session {} to {:?}", self.session, self.target)
    }
}

impl Transfer for ServerTransfer {
    fn send(&mut self, parcel: Parcel) {
        self.underway.state().parcel = Some(parcel);
        let underway = Arc::clone(&self.underway);
        let run = move || {
            // Without a stack for its signals an overflow would not be reported.
            let _stack = AlternateStack::for_this_thread();
            let delivery = underway.deliver();
            underway.end(delivery);
        };
        if let Err(error) = thread::Builder::new().name("migrate".to_owned()).spawn(run) {
            tracing::warn!(%error, "No thread for a MIGRATE");
            self.underway.end(Delivery::failed(TransferFailure::Connecting));
        }
    }

    fn take_delivery(&mut self) -> Option<Delivery> {
        self.underway.state().delivery.take()
    }
}

impl Drop for ServerTransfer {
    fn drop(&mut self) {
        let mut state = self.underway.state();
        state.is_given_up = true;
        if let Some(stream) = &state.stream {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let (connection, parcel) = (state.connection.take(), state.parcel.take());
        drop(state);
        drop(parcel);
        if let Some(connection) = connection {
            self.underway.shared.keep(Arc::clone(&self.underway.target), connection);
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How an exchange with another server ends early.
struct Broken {
    failure: TransferFailure,
    /// Nothing has come in time, so that to begin anew would take as long.
    is_timeout: bool,
    /// What was replied to before.
    delivery: Delivery,
}

impl Underway {
    /// Sends the parcel and waits for the replies.
    fn deliver(&self) -> Delivery {
        let mut taken = None;
        loop {
            let mut connection = match self.connection() {
                Ok(connection) => connection,
                Err(failure) => return Delivery::failed(failure),
            };
            let Some(parcel) = taken.take().or_else(|| self.state().parcel.take()) else {
                return Delivery::failed(TransferFailure::Connecting);
            };
            match connection.exchange(&self.target, &parcel) {
                Ok(delivery) => {
                    let is_complete = delivery.are_done.len() == parcel.values.len();
                    // The next request would take what has come beyond the replies for its own.
                    if is_complete && connection.received.is_empty() {
                        self.state().connection = Some(connection);
                    }
                    return delivery;
                }
                Err(Broken { failure, is_timeout, delivery }) => {
                    let mut state = self.state();
                    let is_untouched =
                        !delivery.are_done.contains(&true) && delivery.refusal.is_none();
                    if is_timeout || !is_untouched || !state.may_retry || state.is_given_up {
                        return Delivery { failure: Some(failure), ..delivery };
                    }
                    // One that was kept may have been closed on the other side since.
                    state.may_retry = false;
                    taken = Some(parcel);
                }
            }
        }
    }

    /// Tells the session what became of its parcel.
    fn end(&self, delivery: Delivery) {
        let mut state = self.state();
        (state.stream, state.parcel) = (None, None);
        if state.is_given_up {
            state.connection = None;
            return;
        }
        state.delivery = Some(delivery);
        drop(state);
        self.mailbox.post(Message::Wake(self.session, Wake::Continued));
    }

    /// Returns the connection of the parcel before, one that was kept, or a new one.
    fn connection(&self) -> Result<ServerConnection, TransferFailure> {
        let left = self.state().connection.take();
        let may_be_kept = self.state().may_retry;
        let kept = || may_be_kept.then(|| self.shared.take_idle(&self.target)).flatten();
        let connection = match left.or_else(kept) {
            Some(connection) => connection,
            None => ServerConnection::open(&self.target, &|| self.state().is_given_up)?,
        };
        let mut state = self.state();
        if state.is_given_up {
            return Err(TransferFailure::Connecting);
        }
        state.stream = Some(Arc::clone(&connection.stream));
        Ok(connection)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the state of a transfer panics")
    }
}

/// A connection to another server.
struct ServerConnection {
    stream: Arc<TcpStream>,
    is_authenticated: bool,
    /// The database that is chosen there, where that is known.
    database: Option<i64>,
    /// What has been received and is no whole line yet.
    received: Vec<u8>,
}

impl ServerConnection {
    fn open(
        target: &Target,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<ServerConnection, TransferFailure> {
        let stream = connect(target, is_given_up).map_err(|error| match error.kind() {
            // Redis learns of these when it writes.
            ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable => TransferFailure::Writing,
            _ => TransferFailure::Connecting,
        })?;
        // Without it replies come later, but they come.
        let _ = stream.set_nodelay(true);
        let stream = Arc::new(stream);
        Ok(ServerConnection {
            stream,
            is_authenticated: false,
            database: None,
            received: Vec::new(),
        })
    }

    /// Has the other server do the requests of `parcel`, in the target's database.
    fn exchange(&mut self, target: &Target, parcel: &Parcel) -> Result<Delivery, Broken> {
        let mut delivery = Delivery::default();
        match self.try_exchange(target, parcel, &mut delivery) {
            Ok(()) => Ok(delivery),
            Err((failure, error)) => {
                let is_timeout = error.kind() == ErrorKind::TimedOut;
                Err(Broken { failure, is_timeout, delivery })
            }
        }
    }

    fn try_exchange(
        &mut self,
        target: &Target,
        parcel: &Parcel,
        delivery: &mut Delivery,
    ) -> Result<(), (TransferFailure, io::Error)> {
        let writing = |error| (TransferFailure::Writing, error);
        let reading = |error| (TransferFailure::Reading, error);
        let timeout = target.timeout;
        // These have their replies first: what is sent behind them would be stored elsewhere.
        let (prelude, count) = self.prelude(target);
        self.write(&prelude, timeout).map_err(writing)?;
        for _ in 0..count {
            let refusal = self.reply(timeout).map_err(reading)?.err();
            delivery.refusal = delivery.refusal.take().or(refusal);
        }
        if delivery.refusal.is_some() {
            return Ok(());
        }
        (self.is_authenticated, self.database) = (true, Some(target.database));
        let are_sent = self.write_values(parcel, timeout).map_err(writing)?;
        for is_sent in are_sent {
            if !is_sent {
                delivery.are_done.push(false);
                continue;
            }
            let reply = self.reply(timeout).map_err(reading)?;
            delivery.are_done.push(reply.is_ok());
            if let Err(refusal) = reply {
                // What it has done is not known for sure.
                self.database = None;
                delivery.refusal.get_or_insert(refusal);
            }
        }
        Ok(())
    }

    /// Returns the requests that go before those of a parcel, and their number.
    fn prelude(&self, target: &Target) -> (Vec<u8>, usize) {
        let (mut requests, mut count) = (Vec::new(), 0);
        if !target.credentials.is_empty() && !self.is_authenticated {
            let words: Vec<&[u8]> = target.credentials.iter().map(|word| &**word).collect();
            encode_command(&[&[b"AUTH".as_slice()], &words[..]].concat(), &mut requests);
            count += 1;
        }
        if self.database != Some(target.database) {
            let database = target.database.to_string();
            encode_command(&[b"SELECT", database.as_bytes()], &mut requests);
            count += 1;
        }
        (requests, count)
    }

    /// Sends the requests of `parcel`, and returns which of them: not those whose values have
    /// expired by now, which would come to life there.
    fn write_values(&self, parcel: &Parcel, timeout: Duration) -> io::Result<Vec<bool>> {
        let mut are_sent = Vec::with_capacity(parcel.values.len());
        let mut requests = Vec::new();
        for value in &parcel.values {
            let now = sys::clock::realtime();
            are_sent.push(!value.has_expired(now));
            if value.has_expired(now) {
                continue;
            }
            value.begin_request(parcel.replaces, now, &mut requests);
            if value.payload.len() < COPIED_BYTES_MAX {
                requests.extend_from_slice(&value.payload);
            } else {
                self.write(&requests, timeout)?;
                requests.clear();
                self.write(&value.payload, timeout)?;
            }
            requests.extend_from_slice(SentValue::request_end(parcel.replaces));
            if requests.len() >= SENT_AT_ONCE_MAX {
                self.write(&requests, timeout)?;
                requests.clear();
            }
        }
        self.write(&requests, timeout)?;
        Ok(are_sent)
    }

    fn write(&self, bytes: &[u8], timeout: Duration) -> io::Result<()> {
        for mut chunk in bytes.chunks(SENT_AT_ONCE_MAX) {
            let end = sys::clock::monotonic() + timeout;
            while !chunk.is_empty() {
                self.stream.set_write_timeout(Some(left_until(end)?))?;
                match (&*self.stream).write(chunk) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(count) => chunk = &chunk[count..],
                    Err(error) => passed(error)?,
                }
            }
        }
        Ok(())
    }

    /// Returns the next reply: a status, or the text of an error.
    fn reply(&mut self, timeout: Duration) -> io::Result<Result<(), Box<[u8]>>> {
        let end = sys::clock::monotonic() + timeout;
        let line = self.line(end)?;
        match line.split_first() {
            Some((b'+', _)) => Ok(Ok(())),
            Some((b'-', text)) => Ok(Err(text.into())),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    fn line(&mut self, end: Duration) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = self.received.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.received.drain(..=length).collect();
                line.truncate(length);
                line.retain(|byte| *byte != b'\r');
                return Ok(line);
            }
            if self.received.len() > REPLY_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            self.stream.set_read_timeout(Some(left_until(end)?))?;
            let mut room = [0; RECEIVED_AT_ONCE_MAX];
            match (&*self.stream).read(&mut room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&room[..count]),
                Err(error) => passed(error)?,
            }
        }
    }
}

/// Connects to `target` within its timeout, by the first of its addresses that lets it. One that is
/// given up ends soon, but for the lookup of a name, which takes as long as the resolver does.
fn connect(target: &Target, is_given_up: &dyn Fn() -> bool) -> io::Result<TcpStream> {
    let end = sys::clock::monotonic() + target.timeout;
    let host = str::from_utf8(&target.host).map_err(|_| ErrorKind::InvalidInput)?;
    let port = u16::try_from(leading_number(&target.port)).map_err(|_| ErrorKind::InvalidInput)?;
    let mut last = io::Error::from(ErrorKind::InvalidInput);
    for address in (host, port).to_socket_addrs()? {
        let mut attempt = CONNECT_ATTEMPT_MIN;
        loop {
            if is_given_up() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            match TcpStream::connect_timeout(&address, attempt.min(left_until(end)?)) {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(error) => {
                    last = error;
                    break;
                }
            }
            // The way to a far server may take longer than the first attempt.
            attempt = (attempt * 2).min(CONNECT_ATTEMPT_MAX);
        }
    }
    Err(last)
}

/// Returns the number at the beginning of `text`, as C's `atoi` does; 0 where there is none.
fn leading_number(text: &[u8]) -> u64 {
    let digits = text.trim_ascii_start().iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u64, |number, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    })
}

fn left_until(end: Duration) -> io::Result<Duration> {
    let left = end.saturating_sub(sys::clock::monotonic());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Passes over an interruption, and over the end of a wait, whose deadline is looked at next.
fn passed(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        _ => Err(error),
    }
}
