//! The Rust client: reads values of a server on the same host where they lie, and sends it any
//! command through shared memory, or over a socket.
//!
//! *Layout*: `client.rs` is what most programs need: one type for every way to a server. Under it
//! `address.rs` reads URLs, `seats.rs` gives each thread a connection, which `connection.rs` is;
//! `session.rs` is the shared memory that threads share, `view.rs` a value. `attached.rs` is a
//! session that reads by itself, `lane.rs` a connection through shared memory; `link.rs` is the
//! unix connection that both live with, `replies.rs` decodes, `error.rs` says what fails.
//! *Invariants*: what the one-sided reader cannot answer is asked of the server, so that every
//! operation has an answer; nothing in the arena is ever written but a session's pin slots; a
//! request is sent once.
//! *Not here*: asynchronous calls, subscriptions, waiting for a key.
#![forbid(unsafe_code)]

mod address;
mod attached;
mod client;
mod connection;
mod error;
mod lane;
mod link;
mod replies;
mod seats;
mod session;
mod view;

pub use arena::reader::View as PinnedView;
pub use attached::{Attached, Value};
pub use base::{DatabaseIndex, UnixMs};
pub use client::{Client, TimeToLive, Transport};
pub use error::{AttachError, ClientError};
pub use lane::Lane;
pub use resp::Value as Reply;
pub use ring::lane::LaneShape;
pub use view::View;
