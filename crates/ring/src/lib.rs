//! What two processes share: segments and pin tables, mapped by `sys`, as `arena` takes them.
//!
//! *Layout*: `segments.rs` is both sides of the arena's memory, `pins.rs` both sides of a pin
//! table.
//! *Invariants*: the other process may be hostile. What it can write is a pin table's words, which
//! are copied once and compared; seals keep what is mapped from shrinking.
//! *Not here*: how descriptors travel (`server`, `client`), what the words mean (`arena`).

mod pins;
mod segments;

pub use pins::SharedPins;
pub use segments::{Mapped, SharedSegments};
