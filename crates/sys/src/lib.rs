//! Every system call that Forebay makes beyond what std offers, behind safe functions.
//!
//! *Layout*: one file per family: `memfd_segments.rs` (memfds, seals, the reserved range),
//! `memfd_segments/huge_pages.rs`, `poll.rs` (epoll, eventfd), `futex.rs`, `socket.rs` (listeners
//! and streams), `descriptors.rs` (passing descriptors), `file.rs` (files where others may have put
//! links), `error_text.rs`, `signal.rs`, `process.rs`, `program_pages.rs` (the memory of the
//! program itself), `fork.rs` (who is a forked child), `crash.rs` (the report of a fatal signal),
//! `clock.rs`, `tsc_clock.rs`, `random.rs`, `syslog.rs`; two allocators: that of `allocations.rs`
//! counts, for a program that measures itself, that of `large_blocks.rs` maps large blocks;
//! `wide_buffer.rs`, memory for a disk, and `wide_bytes.rs`, parts of it that grow;
//! `background_read.rs`, a read while its caller goes on; and `memory_copy.rs` and
//! `return_stack.rs`, which need the processor, not the system.
//! *Invariants*: descriptors are close-on-exec, sockets never block, no call raises SIGPIPE.
//! *Not here*: any policy: the callers decide who may connect, when to map and what to do about an
//! error.

pub mod allocations;
pub mod background_read;
pub mod clock;
pub mod crash;
pub mod descriptors;
pub mod error_text;
pub mod file;
pub mod fork;
pub mod futex;
pub mod large_blocks;
pub mod memfd_segments;
pub mod memory_copy;
pub mod poll;
pub mod process;
pub mod program_pages;
pub mod random;
pub mod return_stack;
pub mod signal;
pub mod socket;
pub mod syslog;
pub mod tsc_clock;
pub mod wide_buffer;
pub mod wide_bytes;
