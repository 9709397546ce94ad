//! What a session remembers between requests, as far as commands see it.

use base::{DatabaseIndex, UnixMs};
use resp::{OwnedRequest, Protocol, RequestView};

use crate::blocked::Blocked;
use crate::client_info::ClientInfo;
use crate::client_name::ClientNames;
use crate::error::CommandError;
use crate::flags::Flags;
use crate::row::Command;

/// The most memory that the queue of a MULTI may take.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// The state of one session. Watched keys and buffers are the engine's and the server's.
#[derive(Debug)]
pub struct SessionState {
    /// The number of the session, unique in the life of the server and ascending.
    pub id: u64,
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
    /// Requests and bytes of the queue that EXEC runs now.
    pub executing: Option<(usize, usize)>,
    /// The last command that the session sent; the engine sets it before the handler runs.
    pub last_command: Option<&'static Command>,
    /// When the session began.
    pub created: UnixMs,
    /// Where the session comes from, as MONITOR shows it: `ip:port`, or `unix:path`.
    pub source: Box<str>,
    /// Which replies are sent.
    pub replies: Replies,
    /// What the session waits for. Its later requests wait as well.
    pub blocked: Option<Blocked>,
    /// Whether the session is shown each command that runs.
    pub is_monitor: bool,
    /// Whether the session is kept when clients take too much memory.
    pub is_kept: bool,
    /// Whether what the session looks up does not count as used.
    pub leaves_no_touch: bool,
}

/// Which replies a session gets: CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Neither that of the request that runs nor that of the next one.
    SkipNext,
    /// Not that of the request that runs.
    Skip,
}

impl Replies {
    /// Returns whether the request that runs gets no reply.
    #[inline]
    pub fn are_silent(self) -> bool {
        self != Replies::On
    }

    /// Returns what holds for the next request.
    pub fn next(self) -> Replies {
        match self {
            Replies::SkipNext => Replies::Skip,
            Replies::On | Replies::Skip => Replies::On,
            Replies::Off => Replies::Off,
        }
    }
}

/// The requests between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Vec<Queued>,
    argument_bytes: usize,
    /// Set once a request could not be queued: EXEC refuses.
    pub is_broken: bool,
    /// The properties of all queued commands together.
    pub flags: Flags,
}

/// One queued request.
#[derive(Debug)]
pub struct Queued {
    /// Its row.
    pub command: &'static Command,
    /// Its arguments.
    pub request: OwnedRequest,
}

impl SessionState {
    /// Returns a session as it begins: `authenticated` where no password is required.
    pub fn new(id: u64, created: UnixMs, authenticated: bool) -> SessionState {
        SessionState {
            id,
            database: DatabaseIndex(0),
            protocol: Protocol::Resp2,
            authenticated,
            names: ClientNames::default(),
            transaction: None,
            executing: None,
            last_command: None,
            created,
            source: Box::default(),
            replies: Replies::On,
            blocked: None,
            is_monitor: false,
            is_kept: false,
            leaves_no_touch: false,
        }
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
        info.is_kept = self.is_kept;
        info.leaves_no_touch = self.leaves_no_touch;
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
        let request = request.to_owned_request();
        let bytes = self.argument_bytes + request.memory_bytes();
        if bytes > TRANSACTION_BYTES_MAX {
            self.is_broken = true;
            return Err(CommandError::TransactionTooLarge);
        }
        self.argument_bytes = bytes;
        self.flags = self.flags.with(command.effective_flags());
        self.queue.push(Queued { command, request });
        Ok(())
    }

    /// Returns the queued requests in order.
    pub fn queue(&self) -> &[Queued] {
        &self.queue
    }

    /// Returns the number of queued requests and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        (self.queue.len(), self.argument_bytes)
    }

    /// Returns the bytes that the queued requests take.
    pub fn argument_bytes(&self) -> usize {
        self.argument_bytes
    }
}
