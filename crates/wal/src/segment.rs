//! The files of a log: each begins with a frame that is its head, and is named by the LSN there.

use std::io::{self, IoSlice};

use crate::storage::{BLOCK_BYTES, LogFile, Storage, write_all, write_blocks};

/// How long a segment is. One frame that is longer has one of its own.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// The file that is to be the next segment, while it is prepared.
pub const SPARE_NAME: &str = "spare.tmp";

/// Zeroes are written in pieces of this: a write of the log waits behind one of them at most.
pub const ZEROED_PIECE_BYTES: u64 = 128 << 10;

/// A piece of zeroes, which lies as the disk takes it.
#[repr(C, align(4096))]
struct Zeroes([u8; ZEROED_PIECE_BYTES as usize]);

const _: () = assert!(align_of::<Zeroes>() == BLOCK_BYTES);

static ZEROES: Zeroes = Zeroes([0; ZEROED_PIECE_BYTES as usize]);

/// Digits of an LSN in a name: all that 64 bits can have, so that names sort as numbers do.
const DIGITS: usize = 20;
const SUFFIX: &str = ".log";

/// Returns the name of the segment that begins at `lsn`.
pub fn name_of(lsn: u64) -> String {
    format!("{lsn:0DIGITS$}{SUFFIX}")
}

/// Returns the LSN that a segment of this name begins at; none where it is no segment.
pub fn lsn_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns the segments of `storage` in their order, each with the LSN in its name.
///
/// # Errors
/// When the folder cannot be read.
pub fn segments_of(storage: &dyn Storage) -> io::Result<Vec<(u64, String)>> {
    let names = storage.list()?.into_iter();
    let mut segments: Vec<(u64, String)> =
        names.filter_map(|name| Some((lsn_of(&name)?, name))).collect();
    segments.sort_unstable();
    Ok(segments)
}

/// Returns the LSNs at which the segments of `storage` begin, in their order. Opens none of them.
///
/// # Errors
/// When the folder cannot be read.
pub fn segment_lsns(storage: &dyn Storage) -> io::Result<Vec<u64>> {
    Ok(segments_of(storage)?.into_iter().map(|(lsn, _)| lsn).collect())
}

/// Returns the LSN at which the log of `storage` begins; none where there is no log.
///
/// # Errors
/// When the folder cannot be read.
pub fn first_lsn(storage: &dyn Storage) -> io::Result<Option<u64>> {
    Ok(segments_of(storage)?.first().map(|(lsn, _)| *lsn))
}

/// Removes the segments of `storage` that have nothing behind `lsn`, the earliest first, so that
/// what is left after a power cut is the end of the log. The last segment stays in any case.
///
/// # Errors
/// When one cannot be removed; those before it are.
pub fn forget_before(storage: &dyn Storage, lsn: u64) -> io::Result<()> {
    let segments = segments_of(storage)?;
    for pair in segments.windows(2) {
        let [(_, name), (next, _)] = pair else { unreachable!("windows are of two") };
        if *next > lsn {
            break;
        }
        storage.remove(name)?;
        storage.sync_directory()?;
    }
    Ok(())
}

/// Removes the whole log of `storage`, its latest part first, so that a power cut in between leaves
/// one that can be read.
///
/// # Errors
/// When a segment cannot be removed; those behind it are.
pub fn remove_log(storage: &dyn Storage) -> io::Result<()> {
    for (_, name) in segments_of(storage)?.iter().rev() {
        storage.remove(name)?;
        storage.sync_directory()?;
    }
    Ok(())
}

/// How the next segment is prepared; the way that makes syncs quicker is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preparation {
    /// The disk keeps room for it. With each sync the file system notes how much was written.
    Reserved,
    /// It has zeroes, which are on the disk: writing to it changes nothing but its content, so that
    /// a sync does not wait for the file system's journal. The disk writes everything twice.
    Zeroed,
}

/// A file that is to be the next segment.
pub struct Spare {
    pub(crate) file: Box<dyn LogFile>,
    pub(crate) preparation: Preparation,
}

/// Returns a file of `segment_bytes` zeroes to become a segment. Takes as long as the disk does:
/// for a thread that nobody waits for.
///
/// Who writes zeroes takes the disk from the log. So `await_turn` is called before each piece, with
/// where in the file it ends, and returns once it may be written; false to give the spare up. It is
/// not called where no zeroes are written.
///
/// # Errors
/// When the disk is full or fails, or the spare was given up; then there is no such file.
pub fn prepare_spare(
    storage: &dyn Storage,
    segment_bytes: u64,
    preparation: Preparation,
    await_turn: impl FnMut(u64) -> bool,
) -> io::Result<Spare> {
    discard_spare(storage)?;
    let file = storage.create(SPARE_NAME)?;
    let reserved = file.reserve(segment_bytes);
    let written = reserved.and_then(|()| match preparation {
        Preparation::Reserved => file.sync(),
        Preparation::Zeroed => zero_and_sync(&*file, segment_bytes, await_turn),
    });
    if let Err(error) = written {
        // The error says more than a failure to tidy up behind it.
        let _ = storage.remove(SPARE_NAME);
        return Err(error);
    }
    Ok(Spare { file, preparation })
}

/// Writes `length` zeroes and makes them durable.
fn zero_and_sync(
    file: &dyn LogFile,
    length: u64,
    mut await_turn: impl FnMut(u64) -> bool,
) -> io::Result<()> {
    let mut start = 0;
    while start < length {
        let end = length.min(start + ZEROED_PIECE_BYTES);
        if !await_turn(end) {
            return Err(io::Error::other("nobody wants the segment any more"));
        }
        zero_piece(file, start, end)?;
        start = end;
    }
    file.sync()
}

/// Writes zeroes from byte `start` to byte `end`, no more than a piece, past the system's cache:
/// what it keeps of them would be written with a later sync of the log, which waits for that.
fn zero_piece(file: &dyn LogFile, start: u64, end: u64) -> io::Result<()> {
    let zeroes = &ZEROES.0[..(end - start) as usize];
    if zeroes.len().is_multiple_of(BLOCK_BYTES) {
        match write_blocks(file, start, &mut [IoSlice::new(zeroes)]) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            written => return written,
        }
    }
    write_all(file, start, zeroes, &mut 0)?;
    file.sync()
}

/// Removes what an earlier process may have left of a spare.
///
/// # Errors
/// When it is there and cannot be removed.
pub fn discard_spare(storage: &dyn Storage) -> io::Result<()> {
    match storage.remove(SPARE_NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes zeroes from byte `start` to byte `end`.
///
/// # Errors
/// When the disk is full or fails.
pub fn zero(file: &dyn LogFile, start: u64, end: u64) -> io::Result<()> {
    let mut at = start;
    while at < end {
        let piece = &ZEROES.0[..(end - at).min(ZEROED_PIECE_BYTES) as usize];
        write_all(file, at, piece, &mut 0)?;
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_segments_begin_and_sort_so() {
        for lsn in [0, 1, 99, u64::MAX] {
            assert_eq!(lsn_of(&name_of(lsn)), Some(lsn));
        }
        assert!(name_of(9) < name_of(10));
        for other in ["1.log", "spare.tmp", "lock", "+0000000000000000001.log", "x.aof"] {
            assert_eq!(lsn_of(other), None, "{other}");
        }
    }
}
