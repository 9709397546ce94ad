//! An instance without sockets: the data store, its memory, its sweeps, its time and its
//! randomness.
//!
//! *Layout*: `runtime.rs` is one instance, which a server has as well as an embedding program;
//! `options.rs` are its options, `environment.rs` the sources of its time and randomness: the
//! system's (`system.rs`), or what a test injects (`simulated.rs`). `sweeper.rs` is its periodic
//! work, round by round, `sweep_stats.rs` the statistics of that, `report.rs` its account of memory
//! and keys, `address_space.rs` reserves addresses for memory that other processes may map.
//! `embedded.rs` is an instance in a program that is not a server, `embedded_session.rs` a session
//! of it, `embedded_host.rs` what its commands learn about their surroundings, `embedded_log.rs`
//! its log. `stream.rs` keeps the changes, `changes.rs` hands them to a consumer.
//! `snapshot_file.rs` writes files of the whole dataset, `file_loading.rs` reads them;
//! `log_folder.rs` is the folder of a log and makes the data from it, `record_log.rs` the end of
//! one that is written, `feed_groups.rs` who reads it by name.
//! *Invariants*: no socket, and no thread but the caller's and those that help with the reading of
//! a file or a log while it is opened; an instance uses only the clock and the
//! randomness that it was given, so that each of several in one process has its own, and one seed
//! determines everything.
//! *Not here*: transports, configuration files, logs, observation (server); what a request does
//! (engine and below).
#![forbid(unsafe_code)]

mod address_space;
mod changes;
mod embedded;
mod embedded_host;
mod embedded_log;
mod embedded_session;
mod environment;
mod feed_groups;
mod file_loading;
mod log_folder;
mod options;
mod record_log;
mod report;
mod runtime;
mod simulated;
mod snapshot_file;
mod stream;
mod sweep_stats;
mod sweeper;
mod system;

pub use changes::Changes;
pub use embedded::{Embedded, EmbeddedOptions};
pub use embedded_log::{LogOptions, LogReport};
pub use embedded_session::Session;
pub use engine::Clock;
pub use environment::{Environment, Randomness};
pub use feed_groups::{GROUPS_MAX, GROUPS_NAME, Groups};
pub use file_loading::{ExpiredKeys, LoadError, LoadObserver, LoadOptions, Loaded};
pub use log_folder::{
    LOG_FOLDER, LogFolder, OpenLog, ReplayObserver, SNAPSHOT_NAME, SyncPolicy, UNTAKEN_BYTES_MAX,
    earlier_snapshots, has_log_in, manifest_in, redis_log, snapshot_name,
};
pub use options::{Memory, OpenError, Options, SweepOptions, Tuning};
pub use record_log::{RecordLog, SYNC_INTERVAL, WrittenFrame};
pub use runtime::Runtime;
pub use simulated::{ManualClock, SeededRandomness};
pub use snapshot_file::{SaveError, SaveOptions, SaveProgress, Saved, is_temporary};
pub use sweep_stats::{OverLimitDurations, SweepCounts};
pub use sweeper::Sweeper;
pub use system::{SystemClock, SystemRandomness};
