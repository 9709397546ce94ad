//! The Rust client: reads values of a server on the same host where they lie, and sends it any
//! command through shared memory.
//!
//! *Layout*: `attached.rs` is the session that reads and its operations, `lane.rs` a connection
//! through shared memory; `link.rs` is the unix connection that both live with, `replies.rs`
//! decodes, `error.rs` says what fails.
//! *Invariants*: what the one-sided reader cannot answer is asked of the server, so that every
//! operation has an answer; nothing in the arena is ever written but this session's pin slots.
//! *Not here*: TCP, asynchronous calls, one handle for many threads.
#![forbid(unsafe_code)]

mod attached;
mod error;
mod lane;
mod link;
mod replies;

pub use arena::reader::View;
pub use attached::{Attached, Value};
pub use base::{DatabaseIndex, UnixMs};
pub use error::AttachError;
pub use lane::Lane;
pub use resp::Value as Reply;
pub use ring::lane::LaneShape;
