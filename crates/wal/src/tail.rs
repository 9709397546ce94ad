//! What stands where no frame does: the end of the log, a torn end, or damage.
//!
//! A power cut leaves of what was written since the last sync any sectors, and none of others.
//! Those that are missing are zeroes, as segments are zeroed ahead. So damage, which is never cut,
//! is known by one of two things: a frame further on that was written when the bytes before it were
//! durable already; or that each sector of the bad frame has something written in it, so that none
//! of them is missing. A frame is taken for torn where one of its sectors is all zeroes, though a
//! client may have written them: damage elsewhere in a frame that no later one calls durable is
//! then not told from that.

use std::io;

use crate::frame::{ALIGNMENT, FrameHeader, HEADER_BYTES, HeaderError};
use crate::storage::{LogFile, read_full};

/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: u64 = 512;
/// The log is looked through in pieces of this.
const PIECE_BYTES: usize = 1 << 20;

/// What is behind the last frame that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    End,
    /// What no frame calls durable: so many bytes up to the last one that is no zero.
    Torn {
        /// How many.
        bytes: u64,
    },
    /// What a sync had made durable, for this reason.
    Corrupt(&'static str),
}

/// Reads the frame at `offset` of a file of `length` bytes into `frame`, header and padding
/// included. Bytes behind the file's end are zeroes.
///
/// # Errors
/// When the disk fails; within, where no frame is there.
pub fn frame_at(
    file: &dyn LogFile,
    length: u64,
    offset: u64,
    frame: &mut Vec<u8>,
) -> io::Result<Result<FrameHeader, HeaderError>> {
    let mut bytes = [0; HEADER_BYTES];
    read_full(file, offset, &mut bytes)?;
    let header = match FrameHeader::read(&bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    let end = header.frame_bytes().and_then(|bytes| bytes.checked_add(offset));
    let Some(end) = end.filter(|end| *end <= length) else {
        return Ok(Err(HeaderError::Malformed));
    };
    frame.clear();
    frame.resize((end - offset) as usize, 0);
    frame[..HEADER_BYTES].copy_from_slice(&bytes);
    let rest = read_full(file, offset + HEADER_BYTES as u64, &mut frame[HEADER_BYTES..])?;
    let is_whole = rest == frame.len() - HEADER_BYTES;
    let (head, rest) = frame.split_at(HEADER_BYTES);
    Ok(if is_whole && header.is_of(head, rest) { Ok(header) } else { Err(HeaderError::Malformed) })
}

/// Says what is at `offset`, where the log has come to `lsn` and no frame follows.
///
/// # Errors
/// When the disk fails.
pub fn judge(
    file: &dyn LogFile,
    length: u64,
    offset: u64,
    lsn: u64,
    salt: u32,
) -> io::Result<Verdict> {
    let found = look_through(file, length, offset, lsn, salt)?;
    if found.written_end <= offset {
        return Ok(Verdict::End);
    }
    if found.is_durable {
        let reason = "a later frame was written when the bytes here were durable";
        return Ok(Verdict::Corrupt(reason));
    }
    if is_whole(file, length, offset)? {
        return Ok(Verdict::Corrupt("the last frame was written in full, and its bytes changed"));
    }
    Ok(Verdict::Torn { bytes: found.written_end - offset })
}

/// What is behind an offset.
struct Found {
    /// Behind the last byte that is no zero.
    written_end: u64,
    /// A frame says that what is at the offset was durable.
    is_durable: bool,
}

fn look_through(
    file: &dyn LogFile,
    length: u64,
    offset: u64,
    lsn: u64,
    salt: u32,
) -> io::Result<Found> {
    let mut found = Found { written_end: 0, is_durable: false };
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = offset;
    while at < length {
        let count = read_full(file, at, &mut piece)?;
        if count == 0 {
            break;
        }
        if let Some(last) = piece[..count].iter().rposition(|&byte| byte != 0) {
            found.written_end = at + last as u64 + 1;
            found.is_durable |= has_later_frame(&piece[..count], lsn, salt);
        }
        if count < PIECE_BYTES {
            break;
        }
        // The next piece begins before this one ends, so that no header is in two.
        at += (PIECE_BYTES - HEADER_BYTES) as u64;
    }
    Ok(found)
}

/// Returns whether `bytes` have the header of a frame that was made when `lsn` was not all that was
/// durable. The header's own checksum and the salt, which no client knows, are enough.
fn has_later_frame(bytes: &[u8], lsn: u64, salt: u32) -> bool {
    let starts = (0..bytes.len()).step_by(ALIGNMENT as usize);
    let mut headers = starts.filter_map(|start| bytes[start..].first_chunk::<HEADER_BYTES>());
    headers.any(|header| {
        // The first byte of each, before a checksum is worked out.
        header[0] == b'F'
            && FrameHeader::read(header)
                .is_ok_and(|header| header.salt == salt && header.durable > lsn)
    })
}

/// Returns whether each sector of the bad frame at `offset` has been written: then no sector is
/// missing, and the frame is bad for another reason.
fn is_whole(file: &dyn LogFile, length: u64, offset: u64) -> io::Result<bool> {
    let mut bytes = [0; HEADER_BYTES];
    read_full(file, offset, &mut bytes)?;
    let header = FrameHeader::read(&bytes);
    let frame_bytes = header.map_or(Some(HEADER_BYTES as u64), |header| header.frame_bytes());
    let end = frame_bytes.and_then(|bytes| bytes.checked_add(offset));
    let Some(end) = end.filter(|end| *end <= length) else { return Ok(false) };
    let mut at = offset;
    while at < end {
        let sector_end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
        let mut sector = [0; SECTOR_BYTES as usize];
        let portion = &mut sector[..(sector_end - at) as usize];
        read_full(file, at, portion)?;
        if portion.iter().all(|&byte| byte == 0) {
            return Ok(false);
        }
        at = sector_end;
    }
    Ok(true)
}
