//! The commands: one file and one row each; all else is derived from the rows.
//!
//! *Layout*: `row.rs` is what a row says, `table.rs` all rows, `lookup.rs` finds one. `context.rs`
//! is what each kind of handler may touch, `session.rs` and `host.rs` what lies beyond the
//! keyspace. One folder per family: `connection`, `string`, `bitmap`, `generic`, `transactions`,
//! `server`; a container's subcommands have a folder in it. `generate.rs` makes requests from rows.
//! *Invariants*: a declared command is implemented; a Read handler cannot write; a handler either
//! succeeds or changes nothing; no handler reads a clock, a socket or randomness of its own.
//! *Not here*: the order of checks before a handler, queueing and locking (engine), option values
//! (server), how values lie in memory (keyspace, arena).
#![forbid(unsafe_code)]

mod argument;
mod arity;
mod bit_fields;
mod bit_offset;
mod bit_range;
mod categories;
mod chance;
mod client_info;
mod client_name;
mod client_type;
mod context;
mod counter;
mod database_number;
mod describe;
mod digest;
mod element;
mod error;
mod expire_options;
mod flags;
mod flush_mode;
pub mod generate;
mod help;
mod host;
mod index_range;
mod info_sections;
mod keys;
mod list_pop;
mod lookup;
mod names;
mod observe;
mod outcome;
mod prelude;
mod remaining_time;
mod request;
mod request_keys;
mod row;
mod score_options;
mod score_pop;
mod score_range;
mod session;
mod set_options;
mod table;
mod time_to_live;
mod timeout;

mod bitmap;
mod connection;
mod generic;
mod hash;
mod list;
mod server;
mod set;
mod sorted_set;
mod string;
mod transactions;

pub use argument::{Arg, ArgKind};
pub use arity::Arity;
pub use categories::Categories;
pub use client_info::ClientInfo;
pub use client_name::ClientNames;
pub use context::{ControlContext, Next, ReadContext, Room, SessionContext, WriteContext};
pub use error::CommandError;
pub use flags::Flags;
pub use host::{
    Attendance, Clients, ConfigError, Crash, Host, LaneOffer, MemoryGeometry, MemoryRefusal,
    MemorySegments, Pause, Process, RewriteError, SharedMemory, ShutdownError, ShutdownRequest,
    Unavailable, UploadOffer,
};
pub use info_sections::{InfoKind, InfoSections};
pub use keys::{Extent, KeyFlags, KeySpec, KeyUse};
pub use lookup::{find_for, lookup, resolve};
pub use observe::{
    CommandTimes, LatencyEvent, LatencySeries, MemoryReport, Observer, SlowCommand, SlowLogEntry,
    ratio,
};
pub use outcome::{CopyAhead, Need, Unfinished, Wait, Wake};
pub use request::Args;
pub use row::{Command, Group, Handler};
pub use session::{InputUse, Queued, Replies, SessionState, TRANSACTION_BYTES_MAX, Transaction};
pub use table::{rows, table, vocabulary};

/// The version of Redis whose behaviour the commands follow, as HELLO and INFO tell it.
pub const REDIS_VERSION: &str = "7.2.4";
