//! The Rust client: reads values of a server on the same host where they lie, and sends it any
//! command through shared memory, or over a socket.
//!
//! *Layout*: `client.rs` is what most programs need: one type for every way to a server, and
//! `async_client.rs` the same for tasks on tokio's runtime (feature `tokio`). Under both,
//! `memory.rs` reads in the server's memory, `answers.rs` interprets replies; `creation.rs`,
//! `options.rs`, `view.rs` and `waiting.rs` are the types of arguments and results. `address.rs`
//! parses URLs. `seats.rs` gives each thread a connection (`connection.rs`); `multiplex.rs` gives
//! many tasks one, over a transport that `duplex.rs` implements on tokio. `session.rs` is the
//! shared memory that they share. `attached.rs` is a session that reads by itself, `lane.rs` a
//! connection through shared memory; `link.rs` is the unix connection that both need, `uploads.rs`
//! memory to write values to and `rooms.rs` what a client keeps of it, `replies.rs` decodes,
//! `error.rs` has the errors.
//! *Invariants*: the client asks the server for what the one-sided reader cannot answer, so that
//! every operation has an answer; nothing in the arena is ever written but a session's pin table
//! and its upload memory; a request is sent once.
//! *Not here*: subscriptions.
#![forbid(unsafe_code)]

mod address;
mod answers;
#[cfg(feature = "tokio")]
mod async_client;
mod attached;
mod client;
mod connection;
mod creation;
#[cfg(feature = "tokio")]
mod duplex;
mod error;
mod lane;
mod link;
mod memory;
pub mod multiplex;
mod options;
mod replies;
mod rooms;
mod seats;
mod session;
mod uploads;
mod view;
mod waiting;

pub use answers::TimeToLive;
pub use arena::reader::View as PinnedView;
#[cfg(feature = "tokio")]
pub use async_client::{AsyncClient, AsyncConnection};
pub use attached::{Attached, Value};
pub use base::{DatabaseIndex, UnixMs};
pub use client::{Client, Transport};
pub use creation::Creation;
pub use error::{AttachError, ClientError};
pub use lane::Lane;
pub use options::SetOptions;
pub use resp::Value as Reply;
pub use ring::Room;
pub use ring::lane::LaneShape;
pub use uploads::{Mode, Uploads};
pub use view::View;
