//! What a session remembers between requests, as far as commands see it.

use base::{DatabaseIndex, Lsn, UnixMs};
use resp::{Protocol, Reply, RequestView};

use crate::generic::migrate::Migration;
use crate::handler::client_name::ClientNames;
use crate::handler::error::CommandError;
use crate::handler::outcome::Wait;
use crate::host::Answer;
use crate::host::client_info::ClientInfo;
use crate::server::debug;
use crate::table::flags::Flags;
use crate::table::row::Command;

/// The most memory that the queue of a MULTI may take.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 30;
/// The most memory of a queue that a session keeps between transactions: that of a few requests.
const SPARE_TRANSACTION_BYTES_MAX: usize = 512;

/// Writes a reply.
pub type WriteReply = fn(&mut Reply<'_>);

/// The state of one session. Watched keys and buffers are the engine's and the server's.
#[derive(Debug)]
pub struct SessionState {
    /// The number of the session, unique in the life of the server and ascending.
    pub id: u64,
    /// The number of the session whose upload memory and pins this one uses: its own, or a lane's
    /// parent's.
    pub uploader: u64,
    /// The database that SELECT chose.
    pub database: DatabaseIndex,
    /// The version that HELLO chose.
    pub protocol: Protocol,
    /// Whether the session may run commands that need authentication.
    pub authenticated: bool,
    /// How the client calls itself.
    pub names: ClientNames,
    /// The queue since MULTI.
    pub transaction: Option<Transaction>,
    /// An empty queue with the memory of one that has run, where that is little.
    spare_transaction: Transaction,
    /// Requests and bytes of the queue that EXEC runs now.
    pub executing: Option<(usize, usize)>,
    /// The last command that the session sent; the engine sets it before the handler runs.
    pub last_command: Option<&'static Command>,
    /// The buffer that the request which runs was received in.
    pub input: InputUse,
    /// When the session began.
    pub created: UnixMs,
    /// Where the session comes from, as MONITOR shows it: `ip:port`, or `unix:path`.
    pub source: Box<str>,
    /// Which replies are sent.
    pub replies: Replies,
    /// What the session waits for. Its later requests wait as well.
    pub blocked: Option<Wait>,
    /// The LSN that it waits for to be durable, and the reply then, while its wait is one for that.
    pub durable_wait: Option<(Lsn, WriteReply)>,
    /// The answer of the host that it waits for, while its wait is one for that.
    pub answer: Option<Box<dyn Answer>>,
    /// The last record that the session wrote, or one behind it.
    pub written: Lsn,
    /// The MIGRATE that the session has underway.
    pub migration: Option<Box<Migration>>,
    /// Whether the session is shown each command that runs.
    pub is_monitor: bool,
    /// Whether the session is kept when clients take too much memory.
    pub no_evict: bool,
    /// Whether what the session looks up does not count as used.
    pub no_touch: bool,
    /// Whether its requests are those that make the data at start: they alone are not refused then.
    pub is_loader: bool,
}

/// The buffer that the requests of one batch were received in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputUse {
    /// What was received, requests that have been executed included.
    pub bytes: usize,
    /// The room behind.
    pub free_bytes: usize,
}

/// Which replies a session gets: CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// All but that of the next request.
    SkipNext,
    /// Not that of the request that runs.
    Skip,
    /// Those that their requests do not decline, for as long as the session lasts: each request of
    /// memcached may.
    AsAsked,
}

impl Replies {
    /// Returns whether the request that runs gets no reply.
    #[inline]
    pub fn are_silent(self) -> bool {
        matches!(self, Replies::Off | Replies::Skip)
    }

    /// Returns what holds for the next request.
    pub fn next(self) -> Replies {
        match self {
            Replies::SkipNext => Replies::Skip,
            Replies::On | Replies::Skip => Replies::On,
            Replies::Off | Replies::AsAsked => self,
        }
    }
}

/// The requests between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Vec<Place>,
    /// The arguments of all requests, back to back.
    buffer: Vec<u8>,
    /// Where each argument is in `buffer`, as `(start, end)`.
    ranges: Vec<(u32, u32)>,
    /// Set once a request could not be queued: EXEC refuses.
    pub is_broken: bool,
    /// The properties of all queued commands together.
    pub flags: Flags,
    /// About how many bytes they store of what they bring.
    stored_bytes: usize,
}

/// One queued request.
#[derive(Clone, Copy, Debug)]
pub struct Queued<'q> {
    /// Its row.
    pub command: &'static Command,
    /// Its arguments.
    pub request: RequestView<'q>,
}

impl Queued<'_> {
    /// Returns whether the command may wait for the system, so that it holds no shard.
    pub fn may_wait(&self) -> bool {
        // The rows of DEBUG are in no table, as Redis knows no subcommands of it.
        let (is_debug, length) = (std::ptr::eq(self.command, &debug::DEBUG), self.request.len());
        self.command.is(Flags::UNGUARDED)
            || is_debug && length > 1 && debug::may_wait(self.request.at(1), length)
    }
}

/// Where the arguments of a queued request are among all ranges.
#[derive(Clone, Copy, Debug)]
struct Place {
    command: &'static Command,
    first: u32,
    count: u32,
}

const _: () = assert!(TRANSACTION_BYTES_MAX <= u32::MAX as usize, "ranges are 32 bits wide");

impl SessionState {
    /// Returns a session as it begins: `authenticated` where no password is required.
    pub fn new(id: u64, created: UnixMs, authenticated: bool) -> SessionState {
        SessionState {
            id,
            uploader: id,
            database: DatabaseIndex(0),
            protocol: Protocol::Resp2,
            authenticated,
            names: ClientNames::default(),
            transaction: None,
            spare_transaction: Transaction::default(),
            executing: None,
            last_command: None,
            input: InputUse::default(),
            created,
            source: Box::default(),
            replies: Replies::On,
            blocked: None,
            durable_wait: None,
            answer: None,
            written: Lsn(0),
            migration: None,
            is_monitor: false,
            no_evict: false,
            no_touch: false,
            is_loader: false,
        }
    }

    /// Begins a transaction.
    pub fn begin_transaction(&mut self) {
        self.transaction = Some(std::mem::take(&mut self.spare_transaction));
    }

    /// Keeps the memory of `transaction`, which has run, for the next one.
    pub fn recycle(&mut self, mut transaction: Transaction) {
        if transaction.memory_bytes() <= SPARE_TRANSACTION_BYTES_MAX {
            transaction.clear();
            self.spare_transaction = transaction;
        }
    }

    /// Returns the bytes of memory that queued requests and the room for them take.
    pub fn transaction_bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, Transaction::memory_bytes);
        queued + self.spare_transaction.memory_bytes()
    }

    /// Returns whether MULTI has been sent and neither EXEC nor DISCARD since.
    #[inline]
    pub fn is_queueing(&self) -> bool {
        self.transaction.is_some()
    }

    /// Writes into `info` what the session knows better than the server's last look at it.
    pub fn describe(&self, info: &mut ClientInfo, now: UnixMs) {
        info.id = self.id;
        info.name = self.names.session().into();
        info.age_s = (now.0 - self.created.0).max(0) / 1000;
        info.idle_s = 0;
        info.database = self.database;
        let queue = self.transaction.as_ref().map(Transaction::size).or(self.executing);
        info.queued = queue.map(|(count, _)| count);
        info.queued_bytes = queue.map_or(0, |(_, bytes)| bytes);
        info.last_command = self.last_command.map_or("NULL", |command| command.name);
        info.protocol = self.protocol;
        info.is_monitor = self.is_monitor;
        info.no_evict = self.no_evict;
        info.no_touch = self.no_touch;
        info.library_name = self.names.library().into();
        info.library_version = self.names.library_version().into();
    }
}

impl Transaction {
    /// Appends `request` to the queue.
    ///
    /// # Errors
    /// When the queue would exceed [`TRANSACTION_BYTES_MAX`]; the transaction is broken then.
    pub fn push(
        &mut self,
        command: &'static Command,
        request: RequestView<'_>,
    ) -> Result<(), CommandError> {
        let bytes: usize = request.iter().map(<[u8]>::len).sum();
        let ranges_bytes = size_of_val(request.ranges);
        if self.argument_bytes() + bytes + ranges_bytes + size_of::<Place>() > TRANSACTION_BYTES_MAX
        {
            self.is_broken = true;
            return Err(CommandError::TransactionTooLarge);
        }
        let first = self.ranges.len() as u32;
        self.buffer.reserve(bytes);
        for argument in request.iter() {
            let start = self.buffer.len() as u32;
            self.buffer.extend_from_slice(argument);
            self.ranges.push((start, self.buffer.len() as u32));
        }
        self.flags = self.flags.with(command.effective_flags());
        let stored_bytes = command.stored_bytes(request);
        if stored_bytes > 0 {
            self.stored_bytes += stored_bytes + ranges_bytes + size_of::<Place>();
        }
        self.queue.push(Place { command, first, count: request.len() as u32 });
        Ok(())
    }

    /// Returns the number of queued requests.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether a queue is empty")]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the queued requests in order.
    pub fn queue(&self) -> impl Iterator<Item = Queued<'_>> {
        self.queue.iter().map(|&Place { command, first, count }| {
            let ranges = &self.ranges[first as usize..][..count as usize];
            let request = RequestView { buffer: &self.buffer, ranges, aside: &[] };
            Queued { command, request }
        })
    }

    /// Returns the number of queued requests and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        (self.len(), self.argument_bytes())
    }

    /// Returns the bytes that the queued requests take.
    pub fn argument_bytes(&self) -> usize {
        self.buffer.len() + size_of_val(&*self.ranges) + size_of_val(&*self.queue)
    }

    /// Returns about how many bytes the queued requests store of what they bring.
    pub fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.buffer.clear();
        self.ranges.clear();
        (self.is_broken, self.flags, self.stored_bytes) = (false, Flags::NONE, 0);
    }

    /// Returns the bytes of memory that the queue has, room to grow included.
    fn memory_bytes(&self) -> usize {
        let ranges_bytes = self.ranges.capacity() * size_of::<(u32, u32)>();
        self.buffer.capacity() + ranges_bytes + self.queue.capacity() * size_of::<Place>()
    }
}
