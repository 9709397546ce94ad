//! What two processes share: segments, pin tables and lanes, mapped by `sys`.
//!
//! *Layout*: `segments.rs` is both sides of the arena's memory, `pins.rs` both sides of a pin
//! table, `uploads.rs` is upload memory in the process that writes it. A lane is a connection
//! through memory: `lane.rs` is one end of it, `lane/layout.rs` shows its memory, `lane/stream.rs`
//! is how bytes pass through one ring, `lane/doorbell.rs` how a side that sleeps is woken,
//! `lane/memory.rs` what the protocols are written over and `lane/shared.rs` the memory that two
//! processes map.
//! *Invariants*: the other process may be hostile. What it can write is copied once, checked, and
//! the copy is used; seals keep what is mapped from shrinking.
//! *Not here*: how descriptors travel (`server`, `client`), what pins mean (`arena`), what the
//! bytes in a lane mean (`resp`).

pub mod lane;
mod pins;
mod segments;
mod uploads;

pub use pins::SharedPins;
pub use segments::{Mapped, SharedSegments};
pub use uploads::{Room, UploadMemory};
