//! The Rust client: reads values of a server on the same host where they lie.
//!
//! *Layout*: `attached.rs` is the session with the server and the operations.
//! *Invariants*: what the one-sided reader cannot answer is asked over the socket, so that every
//! operation has an answer; nothing in the arena is ever written but this session's pin slots.
//! *Not here*: writing values, rings, asynchronous calls.
#![forbid(unsafe_code)]

mod attached;

pub use arena::reader::View;
pub use attached::{AttachError, Attached, Value};
pub use base::{DatabaseIndex, UnixMs};
