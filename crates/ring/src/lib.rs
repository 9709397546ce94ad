//! What two processes share: segments, pin tables and lanes, mapped by `sys`.
//!
//! *Layout*: `segments.rs` is both sides of the arena's memory, `shared_pins.rs` both sides of a
//! pin table, `upload_mapping.rs` is upload memory in the process that writes it. A lane is a
//! connection through memory: `lane.rs` is one end of it, `lane/lane_layout.rs` shows its memory,
//! `lane/stream.rs` is how bytes pass through one ring, `lane/doorbell.rs` how a side that sleeps
//! is woken, `lane/lane_memory.rs` what the protocols are written over and `lane/shared_lane.rs`
//! the memory that two processes map.
//! *Invariants*: the other process may be hostile. What it can write is copied once, checked, and
//! the copy is used; seals keep what is mapped from shrinking.
//! *Not here*: how descriptors travel (`server`, `client`), what pins mean (`arena`), what the
//! bytes in a lane mean (`resp`).

pub mod lane;
mod segments;
mod shared_pins;
mod upload_mapping;

pub use segments::{Mapped, SharedSegments};
pub use shared_pins::SharedPins;
pub use upload_mapping::{UploadBuffer, UploadMemory};
