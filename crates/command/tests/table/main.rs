//! What the command table promises, row by row and as a whole.
#![allow(clippy::unwrap_used, reason = "tests may")]

mod digests;
mod effects;
mod examples;
mod generated;
mod pinned;
mod rows;
mod sessions;
mod support;
