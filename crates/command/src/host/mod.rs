//! What commands ask of what is around the engine: an instance, and where it is a server also its
//! clients, other servers, its process and the memory that it shares.

pub(crate) mod client_info;
mod clients;
mod feed;
pub(crate) mod info_sections;
pub(crate) mod observe;
pub(crate) mod other_servers;
mod persistence;
mod process;
mod shared_memory;

use std::fmt::Debug;
use std::time::Duration;

use base::Lsn;
use keyspace::SessionWakeup;

pub use self::clients::{Clients, Pause};
pub use self::feed::{
    Answer, Feed, FeedQuestion, FeedRead, FeedStart, GROUP_NAME_BYTES_MAX, PREFIXES_BYTES_MAX,
    PREFIXES_MAX,
};
pub use self::other_servers::{
    Delivery, OtherServers, Parcel, SentValue, Target, Transfer, TransferFailure,
};
pub use self::persistence::{
    BackupOutcome, BackupRefusal, BackupReport, Persistence, RewriteStart, SaveRefusal,
};
pub use self::process::{Crash, Process, RewriteError, ShutdownError, ShutdownRequest};
pub use self::shared_memory::{
    LaneOffer, MemoryGeometry, MemoryRefusal, MemorySegments, SharedMemory, UploadOffer,
};
use crate::handler::error::CommandError;
use crate::handler::outcome::Unfinished;
use crate::handler::session::SessionState;
use crate::host::info_sections::InfoSections;
use crate::host::observe::Observer;

/// What every instance answers, whatever it is embedded in, and the way to the parts that only a
/// server has. No method locks a shard: a caller may hold them all.
///
/// Here and in the parts, a method that has a body answers for a host without what it asks about: a
/// test, or an instance in a program that is no server. A server writes every one of them; there
/// `clippy::missing_trait_methods` is denied, as a forgotten one would change nothing, silently.
pub trait Host: Observer {
    /// Returns the number of databases that SELECT may choose from, at most
    /// [`base::DATABASE_COUNT_MAX`].
    fn database_count(&self) -> usize;

    /// Returns whether the default user has a password.
    fn requires_password(&self) -> bool;

    /// Returns whether `password` is that of `user`; any password is where none is required.
    /// Takes the same time wherever the first wrong byte is.
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool;

    /// Returns whether `credentials`, a name and a password with a blank between, are those of a
    /// user that sessions of memcached may authenticate as.
    fn authenticate_memcached(&self, _credentials: &[u8]) -> bool {
        // Only servers have such sessions.
        false
    }

    /// Returns whether `session` may use DEBUG: option `enable-debug-command`.
    fn allows_debug(&self, session: &SessionState) -> bool;

    /// Returns name and value of each option that `wanted` accepts, by its name and whether it is
    /// hidden from those who do not ask for just that name, in the table's order. None where it is
    /// not written.
    fn config_values(&self, wanted: &dyn Fn(&str, bool) -> bool) -> Vec<(String, String)> {
        let _ = wanted;
        Vec::new()
    }

    /// Returns the value of the option with this name or alias, in any case, hidden or not.
    fn config_value(&self, name: &str) -> Option<String> {
        let is_meant = |known: &str, _: bool| known.eq_ignore_ascii_case(name);
        self.config_values(&is_meant).pop().map(|(_, value)| value)
    }

    /// Sets all options of `pairs` (name, value) for `session`, or none.
    ///
    /// # Errors
    /// With the first option that cannot be set, or not by this session.
    fn config_set(
        &self,
        session: &SessionState,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<(), ConfigError>;

    /// Returns the version of Redis that the instance says it is.
    fn redis_version(&self) -> String {
        crate::REDIS_VERSION.to_owned()
    }

    /// Sets the counters that CONFIG RESETSTAT names to zero. For who counts nothing, nothing.
    fn reset_statistics(&self) {}

    /// Returns the text of INFO for `sections`; empty where it is not written.
    fn info(&self, sections: &InfoSections) -> String {
        let _ = sections;
        String::new()
    }

    /// Begins or stops to look for keys that have expired. For who never looks, nothing.
    fn set_active_expire(&self, is_on: bool) {
        let _ = is_on;
    }

    /// Lets `duration` pass for the calling thread. For who has no time, nothing.
    fn sleep(&self, duration: Duration) {
        let _ = duration;
    }

    /// Returns the LSN up to which the log is durable; none where no log is kept.
    fn durable_lsn(&self) -> Option<Lsn> {
        None
    }

    /// Tells a session that its wait was served, or that it is to run its request itself. Called
    /// without any guard.
    fn notify_served(&self, served: SessionWakeup);

    /// Returns the clients of the instance's network.
    ///
    /// # Errors
    /// Where the instance has no network.
    fn clients(&self) -> Result<&dyn Clients, Unavailable> {
        Err(Unavailable::Clients)
    }

    /// Returns the way to other servers.
    ///
    /// # Errors
    /// Where the instance has none.
    fn other_servers(&self) -> Result<&dyn OtherServers, Unavailable> {
        Err(Unavailable::OtherServers)
    }

    /// Returns the control of the process.
    ///
    /// # Errors
    /// Where the process is not the instance's own.
    fn process(&self) -> Result<&dyn Process, Unavailable> {
        Err(Unavailable::Process)
    }

    /// Returns the files of the dataset.
    ///
    /// # Errors
    /// Where it has none.
    fn persistence(&self) -> Result<&dyn Persistence, Unavailable> {
        Err(Unavailable::Persistence)
    }

    /// Returns the stream of changes, for clients to read.
    ///
    /// # Errors
    /// Where clients cannot read it.
    fn feed(&self) -> Result<&dyn Feed, Unavailable> {
        Err(Unavailable::Feed)
    }

    /// Returns what shares the instance's memory with other processes.
    ///
    /// # Errors
    /// Where nothing does.
    fn shared_memory(&self) -> Result<&dyn SharedMemory, Unavailable> {
        Err(Unavailable::SharedMemory)
    }
}

/// How a session stands with its host, as those see it who would serve it while it waits for a key.
pub trait Attendance: Debug + Send + Sync {
    /// Returns whether it may be served: nobody has ended it, or taken the right to end its wait.
    /// Asked for each session that waits while shards are locked, so that it is a load or two.
    fn may_serve(&self) -> bool;

    /// Gives the right to end its wait back, which the host took so that it runs its request
    /// itself: it has done so, and waits on. Called before the wait may be served again.
    fn waits_on(&self);

    /// Notes that it has been served: nobody else may end its wait, and it waits no longer for all
    /// who look from outside. Called while shards are locked, and before the session can go on.
    fn was_served(&self);

    /// Returns where the host finds it: [`SessionWakeup::place`] of what it is told.
    fn place(&self) -> usize;
}

/// A part that a host does not have: it embeds the instance in a program that is no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Clients of a network.
    Clients,
    /// The stream of changes.
    Feed,
    /// Connections to other servers.
    OtherServers,
    /// Files of the dataset.
    Persistence,
    /// Control of the process.
    Process,
    /// Memory that other processes map.
    SharedMemory,
}

impl From<Unavailable> for CommandError {
    fn from(part: Unavailable) -> CommandError {
        CommandError::Fixed(match part {
            Unavailable::Clients => {
                "ERR this needs clients of a network, which an embedded instance does not have"
            }
            Unavailable::Feed => {
                "ERR the stream of changes is not available in an embedded instance"
            }
            Unavailable::OtherServers => {
                "ERR connections to other servers are not available in an embedded instance"
            }
            Unavailable::Persistence => {
                "ERR files of the dataset are not available in an embedded instance"
            }
            Unavailable::Process => {
                "ERR control of the process is not available in an embedded instance"
            }
            Unavailable::SharedMemory => {
                "ERR shared memory is not available in an embedded instance"
            }
        })
    }
}

impl From<Unavailable> for Unfinished {
    fn from(part: Unavailable) -> Unfinished {
        Unfinished::Refused(part.into())
    }
}

/// Why CONFIG SET changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// There is no such option.
    Unknown {
        /// The name as the peer wrote it.
        name: Vec<u8>,
    },
    /// The option refused the value, or cannot change at all.
    Refused {
        /// The option's name.
        name: String,
        /// Why, in Redis's words: `argument must be a memory value`.
        reason: String,
    },
}
