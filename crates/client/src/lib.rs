//! The Rust client: reads values of a server on the same host where they lie, and sends it any
//! command through shared memory, or over a socket.
//!
//! *Layout*: `client.rs` is what most programs need: one type for every way to a server, and
//! `async_client.rs` the same for tasks on tokio's runtime (feature `tokio`). Under both,
//! `server_memory.rs` reads in the server's memory, `answers.rs` interprets replies,
//! `collection_reads/` does both for collections; `creation.rs`, `options.rs`, `value_view.rs`,
//! `elements.rs` and `key_wait.rs` are the types of arguments and results; `leases.rs` has one
//! client load what many miss, `posts.rs` has requests whose replies nobody waits for.
//! `address.rs` parses URLs. `thread_connections.rs` gives each thread a connection
//! (`connection.rs`); `multiplex.rs` gives many tasks one, over a transport that `duplex.rs`
//! implements on tokio. `shm_session.rs` is the shared memory that they share. `attached.rs` is a
//! session that reads by itself, `lane_connection.rs` a connection through shared memory,
//! `lane_stream.rs` one for a program that has the protocol itself;
//! `control_connection.rs` is the unix connection that both need, `session_uploads.rs` memory to
//! write values to and `upload_buffers.rs` what a client keeps of it, `replies.rs` decodes,
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
mod collection_reads;
mod connection;
mod control_connection;
mod creation;
#[cfg(feature = "tokio")]
mod duplex;
mod elements;
mod error;
mod held_posts;
mod key_wait;
mod lane_connection;
mod lane_stream;
mod late_tasks;
mod leases;
pub mod multiplex;
mod options;
mod own_takes;
mod posts;
mod replies;
mod server_memory;
mod session_uploads;
mod shm_session;
mod thread_connections;
mod upload_buffers;
mod value_view;

pub use answers::TimeToLive;
pub use arena::reader::View as PinnedView;
#[cfg(feature = "tokio")]
pub use async_client::{AsyncClient, AsyncConnection};
pub use attached::{Attached, Value};
pub use base::{DatabaseIndex, UnixMs};
pub use client::{Client, Transport};
pub use collection_reads::{SortedSetRange, SortedSetRangeKind};
pub use creation::Creation;
pub use elements::Elements;
pub use error::{AttachError, ClientError};
pub use lane_connection::Lane;
pub use lane_stream::LaneStream;
pub use leases::{Lease, Leased, LoadOptions};
pub use options::SetOptions;
pub use resp::Value as Reply;
pub use ring::UploadBuffer;
pub use ring::lane::LaneShape;
pub use session_uploads::{Mode, Uploads};
pub use value_view::View;
