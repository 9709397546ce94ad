//! An instance without sockets: the data store, its memory, its sweeps, its time and its chance.
//!
//! *Layout*: `runtime.rs` is one instance, which a server has as well as an embedding program;
//! `options.rs` says what it is made with, `environment.rs` where it has time and randomness from:
//! the system's (`system.rs`), or what a test injects (`simulated.rs`). `sweeper.rs` is what it
//! does by itself, round by round, `cycles.rs` what is counted of that, `report.rs` what it tells
//! of its memory and keys, `addresses.rs` reserves addresses for memory that other processes may
//! map. `embedded.rs` is an instance in a program that is no server, `session.rs` a session of it,
//! `host.rs` what its commands learn of what is around them. `stream.rs` keeps the changes,
//! `changes.rs` hands them to those who follow them.
//! *Invariants*: no socket, and no thread but the caller's; an instance reads no clock and draws no
//! randomness but those it was given, so that several of one process have their own, and one seed
//! decides all.
//! *Not here*: transports, configuration files, logs, observation (server); what a request does
//! (engine and below).
#![forbid(unsafe_code)]

mod addresses;
mod changes;
mod cycles;
mod embedded;
mod environment;
mod host;
mod options;
mod report;
mod runtime;
mod session;
mod simulated;
mod stream;
mod sweeper;
mod system;

pub use changes::Changes;
pub use cycles::{OverLimitDurations, SweepCounts};
pub use embedded::{Embedded, EmbeddedOptions};
pub use engine::Clock;
pub use environment::{Environment, Randomness};
pub use options::{Memory, OpenError, Options, SweepOptions, Tuning};
pub use runtime::Runtime;
pub use session::Session;
pub use simulated::{ManualClock, SeededRandomness};
pub use sweeper::Sweeper;
pub use system::{SystemClock, SystemRandomness};
