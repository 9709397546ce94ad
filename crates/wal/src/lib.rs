//! The log: a stream of bytes on disk, in frames that are checked and chained, in segments.
//!
//! *Layout*: `frame.rs` is the bytes of one frame, `segment.rs` the files that have them;
//! `writer.rs` appends and makes durable, `reader.rs` reads a log from its start and finds its end;
//! `tail.rs` decides whether what does not read is the torn end of the log or damage within it,
//! `history.rs` says how segments start, `follower.rs` reads a log that is being written.
//! `storage.rs` is what the log asks of a disk, `directory.rs` a folder that does it,
//! `simulated.rs` a disk in memory whose power can be cut.
//! *Invariants*: the log never looks into its payload; nothing that may have been acknowledged is
//! cut, as far as the bytes can tell; after a failed sync nothing is written to it again.
//! *Not here*: what the payload means (effects), when to sync and who waits for that (server).
#![forbid(unsafe_code)]

mod block_buffer;
mod directory;
mod follower;
mod frame;
mod history;
mod reader;
mod segment;
pub mod simulated;
mod storage;
mod tail;
mod writer;

#[cfg(test)]
mod power_cuts;
#[cfg(test)]
mod tests;

pub use block_buffer::BUFFERED_PAYLOAD_BYTES_MAX;
pub use directory::Directory;
pub use follower::Follower;
pub use frame::Piece;
pub use history::{SegmentStart, segment_start, segment_starts};
pub use reader::{LogEnd, LogError, ReadFrame, Reader, SegmentSummary};
pub use segment::{
    Preparation, SEGMENT_BYTES, SPARE_NAME, Spare, ZEROED_PIECE_BYTES, first_lsn, forget_before,
    lsn_of, name_of, prepare_spare, remove_log, segment_lsns,
};
pub use storage::{BLOCK_BYTES, Lock, LogFile, Storage, checksum, read_file, replace_file};
pub use writer::{Begin, WriteError, Writer, WriterOptions};
