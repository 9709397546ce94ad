//! The deterministic core: sessions, the checks before a command, its run under the right locks,
//! transactions, and the replay of effects.
//!
//! *Layout*: `engine.rs` runs a batch in three passes, `window.rs` is what the first two leave for
//! the third, `dispatch.rs` the ordered list of checks, `run.rs` one command under its locks,
//! `keys.rs` the keys of a request that has several, `retry.rs` provides what a command needs and
//! runs it again, `blocked.rs` serves sessions that wait for keys, `transaction.rs` runs EXEC;
//! `session.rs` is what lasts between batches, `tick.rs` what comes from outside, `clock.rs` the
//! time, `tally.rs` what is counted, `stretch.rs` and `watch.rs` say when a command is timed,
//! `histogram.rs` keeps the times, `audience.rs` is the interface to MONITOR, `pause.rs` says which
//! requests have to wait; `receive.rs` finds the block for a value that is still to come,
//! `release.rs` says when replies may be sent, `apply.rs` applies effects.
//! *Invariants*: replies come in the order of requests; a command that was refused has changed
//! nothing; the engine is a function of its state, the time, the random numbers and the bytes that
//! it is given.
//! *Not here*: sockets, buffers of connections, what a command does (command), data (keyspace).
#![forbid(unsafe_code)]

mod apply;
mod audience;
mod blocked;
mod clock;
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
pub use clock::Clock;
pub use engine::{BatchEnd, Ending, Engine};
pub use histogram::Distribution;
pub use pause::PauseSwitch;
pub use release::{Release, ReleaseGate};
pub use session::Session;
pub use tally::{CommandCounts, Tally};
pub use tick::{Position, Tick};
pub use watch::Watch;
