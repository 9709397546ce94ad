//! The deterministic core: sessions, the checks before a command, its run under the right locks,
//! transactions, and the replay of effects.
//!
//! *Layout*: `engine.rs` runs a batch in three passes, `window.rs` is what the first two leave for
//! the third, `dispatch.rs` the ordered list of checks, `run.rs` one command under its locks,
//! `request_keys.rs` the keys of a request that has several, `retry.rs` provides what a command
//! needs and runs it again, `blocked_sessions.rs` serves sessions that wait for keys,
//! `transaction.rs` runs EXEC; `session.rs` is what lasts between batches, `execution_context.rs`
//! what comes from outside, `clock.rs` the time, `command_stats.rs` what is counted,
//! `command_timer.rs` and `timing_settings.rs` say when a command is timed, `histogram.rs` keeps
//! the times, `monitor_feed.rs` is the interface to MONITOR, `pause_switch.rs` says which requests
//! have to wait; `reserve_value.rs` finds the block for a value that is still to come, `release.rs`
//! says when replies may be sent, `apply.rs` applies effects.
//! *Invariants*: replies come in the order of requests; a command that was refused has changed
//! nothing; the engine is a function of its state, the time, the random numbers and the bytes that
//! it is given.
//! *Not here*: sockets, buffers of connections, what a command does (command), data (keyspace).
#![forbid(unsafe_code)]

mod apply;
mod blocked_sessions;
mod clock;
mod command_stats;
mod command_timer;
mod dispatch;
mod engine;
mod execution_context;
mod histogram;
mod monitor_feed;
mod pause_switch;
mod release;
mod request_keys;
mod reserve_value;
mod retry;
mod run;
mod session;
mod timing_settings;
mod transaction;
mod window;

#[cfg(test)]
mod tests;

pub use apply::{Applier, ApplyError};
pub use clock::Clock;
pub use command_stats::{CommandCounts, CommandStats};
pub use engine::{BatchEnd, Engine, SessionStatus};
pub use execution_context::{ExecutionContext, Position};
pub use histogram::Distribution;
pub use monitor_feed::{MonitorFeed, MonitorSink};
pub use pause_switch::PauseSwitch;
pub use release::{Release, ReleaseGate};
pub use session::Session;
pub use timing_settings::TimingSettings;
