//! What the command table promises, row by row and as a whole.
#![allow(clippy::unwrap_used, reason = "tests may")]

mod counted_keys;
mod digests;
mod effects;
mod examples;
mod generated;
mod newer_streams;
mod newer_strings;
mod pinned;
mod polygons;
mod rows;
mod sessions;
mod support;
