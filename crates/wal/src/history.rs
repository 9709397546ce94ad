//! What the files of a log say without being read: where each begins, and its first bytes.

use std::io;

use crate::frame::{BEGINS, FrameHeader, HEADER_BYTES};
use crate::segment::{name_of, segment_lsns};
use crate::storage::{LogFile, Storage, read_full};

/// Frames without a payload at the start of a segment that are passed over: its head, and marks of
/// a log that was ended in order and gone on with.
const EMPTY_FRAMES_MAX: usize = 1024;

/// The start of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentStart {
    /// The file's name.
    pub name: String,
    /// The position at which it begins.
    pub lsn: u64,
    /// Whether nothing comes before it.
    pub begins: bool,
    /// The file's length.
    pub file_bytes: u64,
    /// The first bytes of its first payload; empty where it has none.
    pub first: Vec<u8>,
}

/// Returns how the segments of `storage` start, in their order, each with at most `first_bytes` of
/// its payload. Only headers are checked. Those that are removed meanwhile are left out.
///
/// # Errors
/// When a file cannot be read.
pub fn segment_starts(storage: &dyn Storage, first_bytes: usize) -> io::Result<Vec<SegmentStart>> {
    let mut starts = Vec::new();
    for lsn in segment_lsns(storage)? {
        match segment_start(storage, lsn, first_bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            start => starts.push(start?),
        }
    }
    Ok(starts)
}

/// Returns how the segment of `storage` starts that begins at `lsn`, as [`segment_starts`].
///
/// # Errors
/// When the file cannot be read.
pub fn segment_start(
    storage: &dyn Storage,
    lsn: u64,
    first_bytes: usize,
) -> io::Result<SegmentStart> {
    let name = name_of(lsn);
    let file = storage.open_read(&name)?;
    let file_bytes = file.length()?;
    let begins = header_at(&*file, 0)?.is_some_and(|head| head.flags & BEGINS != 0);
    let first = first_payload(&*file, first_bytes)?;
    Ok(SegmentStart { name, lsn, begins, file_bytes, first })
}

fn first_payload(file: &dyn LogFile, first_bytes: usize) -> io::Result<Vec<u8>> {
    let mut offset = 0;
    for _ in 0..EMPTY_FRAMES_MAX {
        let Some(header) = header_at(file, offset)? else { break };
        if header.payload_bytes == 0 {
            offset += HEADER_BYTES as u64;
            continue;
        }
        let mut bytes = vec![0; first_bytes.min(header.payload_bytes as usize)];
        let read = read_full(file, offset + header.payload_at() as u64, &mut bytes)?;
        bytes.truncate(read);
        return Ok(bytes);
    }
    Ok(Vec::new())
}

fn header_at(file: &dyn LogFile, offset: u64) -> io::Result<Option<FrameHeader>> {
    let mut bytes = [0; HEADER_BYTES];
    read_full(file, offset, &mut bytes)?;
    Ok(FrameHeader::read(&bytes).ok())
}
