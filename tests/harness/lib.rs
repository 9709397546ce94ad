//! What the integration tests share: real servers in folders of their own, and a client that sees
//! every byte.
//!
//! *Layout*: `server.rs` starts `forebay` or `redis-server` and waits until it answers,
//! `connection.rs` speaks RESP to it, `process.rs` runs programs that never outlive the test,
//! `dialogue.rs` talks to those that answer line by line, `kernel.rs` reads what the kernel knows
//! about a process, `peer.rs` is what the program `forebay-peer` and its tests agree on, `poll.rs`
//! waits, `environment.rs` reads how much work to do, `folder.rs` makes temporary folders.
//! *Invariants*: a process that a test starts ends with the test or with the test's process,
//! whichever is first; every wait has a bound.

mod connection;
mod dialogue;
mod environment;
mod folder;
pub mod kernel;
mod peer;
mod poll;
mod process;
mod server;

pub use connection::{Connection, Raw, Request, SILENCE_MAX, encode, info_field, request, words};
pub use dialogue::Dialogue;
pub use environment::number;
pub use folder::TempFolder;
pub use peer::{bytes, digest};
pub use poll::{let_pass, poll, poll_until};
pub use process::{Finished, Program, command, run, signal};
pub use server::{Kind, Launch, Server, forebay, free_port};
