//! The deterministic core: sessions, the checks before a command, its run under the right locks,
//! transactions, and the replay of effects.
//!
//! *Layout*: `engine.rs` runs a batch in three passes, `window.rs` is what the first two leave for
//! the third, `dispatch.rs` the one ordered list of checks, `run.rs` one command under its locks,
//! `retry.rs` what it needs and its further attempts, `blocked.rs` sessions that wait for keys and
//! those who serve them, `transaction.rs` EXEC; `session.rs` what lasts between batches, `tick.rs`
//! what comes from outside, `tally.rs` what is counted, `audience.rs` who is shown what runs,
//! `pause.rs` which requests have to wait; `receive.rs` finds the place of a value that is still to
//! come, `release.rs` says when replies may leave, `apply.rs` replays effects.
//! *Invariants*: replies come in the order of requests; a command that was refused has changed
//! nothing; the engine is a function of its state, the time, the random numbers and the bytes that
//! it is given.
//! *Not here*: sockets, buffers of connections, what a command does (command), data (keyspace).
#![forbid(unsafe_code)]

mod apply;
mod audience;
mod blocked;
mod dispatch;
mod engine;
mod histogram;
mod keys;
mod pause;
mod receive;
mod release;
mod retry;
mod run;
mod session;
mod stretch;
mod tally;
mod tick;
mod transaction;
mod watch;
mod window;

#[cfg(test)]
mod tests;

pub use apply::{Applier, ApplyError};
pub use audience::{Audience, Stage};
pub use engine::{BatchEnd, Ending, Engine};
pub use histogram::Distribution;
pub use pause::PauseSwitch;
pub use release::Release;
pub use session::Session;
pub use tally::{CommandCounts, Tally};
pub use tick::{Position, Tick};
pub use watch::Watch;
