//! The commands: one row each; all else is derived from the rows.
//!
//! *Layout*: `table` is the command table: what a row says, how one is found, and what is made of
//! the rows. `handler` is what a handler works with: its request, its context, the session, errors.
//! `host` is what commands ask of the engine's surroundings. `parse` reads arguments that several
//! families have. One folder for each family: `connection`, `string`, `bitmap`, `hyperloglog`,
//! `generic`, `hash`, `list`, `set`, `sorted_set`, `geo`, `stream`, `transactions`, `server`; in it
//! a file for each command, or for a few that are nearly the same, and what they share. Subcommands
//! have a folder there.
//! *Invariants*: a declared command is implemented; a Read handler cannot write; a handler either
//! succeeds or changes nothing; no handler reads a clock, a socket or randomness of its own.
//! *Not here*: the order of checks before a handler, queueing and locking (engine), option values
//! (server), how values are laid out in memory (keyspace, arena).
#![forbid(unsafe_code)]

mod handler;
mod host;
mod parse;
mod prelude;
mod table;

mod bitmap;
mod connection;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod list;
mod memcached;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
mod transactions;

pub use crate::memcached::{memcached_row, memcached_rows};
pub use generic::migrate::Migration;
pub use handler::client_name::ClientNames;
pub use handler::context::{
    ControlContext, MemoryPolicy, Next, ReadContext, SessionContext, WriteContext,
};
pub use handler::error::CommandError;
pub use handler::outcome::{Need, PartialUploadCopy, Unfinished, Wait, Wake};
pub use handler::request::Args;
pub use handler::session::{
    InputUse, Queued, Replies, SessionState, TRANSACTION_BYTES_MAX, Transaction,
};
pub use host::client_info::ClientInfo;
pub use host::info_sections::{InfoKind, InfoSection, InfoSections, InfoText};
pub use host::observe::{
    CacheOverview, CommandTimes, LatencyEvent, LatencySeries, MemoryReport, Observer, SlowCommand,
    SlowLogEntry, ratio,
};
pub use host::{
    Answer, Attendance, BackupOutcome, BackupRefusal, BackupReport, Clients, ConfigError, Crash,
    Delivery, Feed, FeedQuestion, FeedRead, FeedStart, Host, LaneOffer, MemoryGeometry,
    MemoryRefusal, MemorySegments, OtherServers, Parcel, Pause, Persistence, Process, RewriteError,
    RewriteStart, SaveRefusal, SentValue, SharedMemory, ShutdownError, ShutdownRequest, Target,
    Transfer, TransferFailure, Unavailable, UploadOffer,
};
pub use table::argument::{Arg, ArgKind};
pub use table::arity::Arity;
pub use table::categories::Categories;
pub use table::flags::Flags;
pub use table::generate;
pub use table::key_spec::{Extent, KeyFlags, KeyList, KeySpec, KeyUse};
pub use table::lookup::{find_for, lookup, resolve, resolve_quietly};
pub use table::row::{Command, Group, Handler};
pub use table::{rows, table, vocabulary};

/// The version of Redis whose behaviour the commands follow, as HELLO and INFO tell it.
pub const REDIS_VERSION: &str = "7.2.4";
