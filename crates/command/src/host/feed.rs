//! The part of a host that lets clients read the stream of changes.

use std::fmt::Debug;

use keyspace::ValueType;
use resp::{Protocol, Reply};

use crate::handler::error::CommandError;

/// The most bytes of the name of a group.
pub const GROUP_NAME_BYTES_MAX: usize = 128;
/// The most prefixes of one request.
pub const PREFIXES_MAX: usize = 64;
/// The most bytes of all of them: what waits for changes is not a session's memory.
pub const PREFIXES_BYTES_MAX: usize = 64 * 1024;

/// The stream of changes. No method waits, and a caller may hold no shard.
pub trait Feed {
    /// Begins what session `session` asks for. Once the answer is there the host ends the wait of
    /// the session ([`crate::Wake::Answered`]).
    ///
    /// # Errors
    /// When as many have asked as may wait.
    fn ask(
        &self,
        session: u64,
        protocol: Protocol,
        question: FeedQuestion,
    ) -> Result<Box<dyn Answer>, CommandError>;
}

/// An answer that a session waits for. Dropping it gives up what is underway.
pub trait Answer: Debug + Send {
    /// Returns whether it is there.
    fn is_there(&self) -> bool;

    /// Writes it, once it is there.
    fn write(&mut self, reply: &mut Reply<'_>);
}

/// What a session asks of the stream of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedQuestion {
    /// Changes.
    Read(FeedRead),
    /// Notes that a group has read up to an LSN.
    Acknowledge {
        /// The group.
        name: Box<[u8]>,
        /// The LSN.
        lsn: u64,
    },
    /// Makes a group.
    Create {
        /// Its name.
        name: Box<[u8]>,
        /// Where it begins to read.
        from: FeedStart,
    },
    /// Forgets a group.
    Drop {
        /// Its name.
        name: Box<[u8]>,
    },
    /// The groups.
    Groups,
    /// How far the stream reaches.
    Info,
    /// The files of the log.
    Logs,
    /// Removes the files of the log before this one.
    Purge {
        /// Its name.
        name: Box<[u8]>,
    },
}

/// Which changes are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRead {
    /// Behind which place.
    pub from: FeedStart,
    /// How many at most, but for those that happened at once.
    pub count: usize,
    /// Whether it waits for some where there are none.
    pub waits: bool,
    /// Only of keys that begin with one of these, where there are any.
    pub prefixes: Vec<Box<[u8]>>,
    /// Only of values of this type, as far as the change tells.
    pub kind: Option<ValueType>,
    /// Only of this database.
    pub database: Option<u8>,
}

/// Where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedStart {
    /// Behind this LSN.
    Lsn(u64),
    /// With the first change that there is.
    First,
    /// Behind the last change that there is now.
    Latest,
    /// Behind what the group has acknowledged.
    Group(Box<[u8]>),
}
