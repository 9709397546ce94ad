//! The latest effects, kept in memory: what a follower would read to catch up.
//!
//! Two halves instead of a ring: a record is encoded once, in one piece, behind the one before;
//! when the newer half is full the older one is forgotten. So between half and all of the
//! configured bytes are kept.

use std::sync::{Mutex, MutexGuard};

use base::Lsn;
use keyspace::{EffectSink, Record};

/// Room behind a half for the record that fills it, so that a usual one does not move the half.
const RECORD_BYTES_USUAL: usize = 64 * 1024;

/// Keeps the bytes of the latest records. An LSN is the number of bytes up to a record's end.
pub struct Backlog {
    halves: Mutex<Halves>,
    half_bytes: usize,
}

struct Halves {
    newer: Vec<u8>,
    older: Vec<u8>,
    end: u64,
}

/// What the backlog holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogExtent {
    /// The LSN before the oldest byte kept.
    pub start: Lsn,
    /// The LSN of the latest record.
    pub end: Lsn,
}

impl Backlog {
    /// Returns an empty backlog of `bytes`.
    ///
    /// # Panics
    /// When `bytes` is below 2.
    pub fn new(bytes: u64) -> Backlog {
        let half_bytes = usize::try_from(bytes / 2).expect("an address has 64 bits");
        assert!(half_bytes > 0, "a backlog of {bytes} bytes keeps nothing");
        // Touched now: a shortage shows at the start, and no write waits for a page later.
        let half = || {
            // Not `vec![0; ..]`: zero pages of the system would only be promised.
            let mut bytes = vec![1; half_bytes + RECORD_BYTES_USUAL];
            bytes.clear();
            bytes
        };
        let halves = Halves { newer: half(), older: half(), end: 0 };
        Backlog { halves: Mutex::new(halves), half_bytes }
    }

    /// Returns what the backlog holds.
    pub fn extent(&self) -> BacklogExtent {
        let halves = self.lock();
        let kept = (halves.newer.len() + halves.older.len()) as u64;
        BacklogExtent { start: Lsn(halves.end - kept), end: Lsn(halves.end) }
    }

    fn lock(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().expect("encoding a record does not panic")
    }
}

impl EffectSink for Backlog {
    fn append(&self, record: &Record<'_>) -> Lsn {
        let mut halves = self.lock();
        if halves.newer.len() >= self.half_bytes {
            let halves = &mut *halves;
            std::mem::swap(&mut halves.newer, &mut halves.older);
            halves.newer.clear();
            // A record larger than a half has grown it; that memory is not kept.
            halves.newer.shrink_to(self.half_bytes + RECORD_BYTES_USUAL);
        }
        let before = halves.newer.len();
        record.encode(&mut halves.newer);
        halves.end += (halves.newer.len() - before) as u64;
        Lsn(halves.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes from `from` on, or none when they are not all kept.
    fn since(backlog: &Backlog, from: u64) -> Option<Vec<u8>> {
        let halves = backlog.lock();
        let wanted = halves.end.checked_sub(from)? as usize;
        let older = wanted.saturating_sub(halves.newer.len());
        let older_start = halves.older.len().checked_sub(older)?;
        let newer_start = halves.newer.len().saturating_sub(wanted);
        Some([&halves.older[older_start..], &halves.newer[newer_start..]].concat())
    }

    fn append(backlog: &Backlog, text: &str) -> Lsn {
        backlog.append(&Record::encoded(text.as_bytes()))
    }

    #[test]
    fn records_follow_each_other_and_old_ones_are_forgotten_by_halves() {
        let backlog = Backlog::new(8);
        assert_eq!(append(&backlog, "abc"), Lsn(3));
        assert_eq!(append(&backlog, "de"), Lsn(5));
        assert_eq!(since(&backlog, 0).unwrap(), b"abcde");
        assert_eq!(append(&backlog, "fgh"), Lsn(8));
        assert_eq!(since(&backlog, 2).unwrap(), b"cdefgh");
        append(&backlog, "i");
        append(&backlog, "jkl");
        assert_eq!(backlog.extent(), BacklogExtent { start: Lsn(5), end: Lsn(12) });
        assert_eq!(since(&backlog, 5).unwrap(), b"fghijkl");
        assert_eq!(since(&backlog, 12).unwrap(), b"");
        assert!(since(&backlog, 4).is_none());
        assert!(since(&backlog, 13).is_none());
    }

    #[test]
    fn record_larger_than_the_backlog_is_kept_until_the_next_half() {
        let backlog = Backlog::new(8);
        append(&backlog, "0123456789");
        assert_eq!(since(&backlog, 0).unwrap(), b"0123456789");
        append(&backlog, "abcd");
        append(&backlog, "e");
        assert_eq!(backlog.extent(), BacklogExtent { start: Lsn(10), end: Lsn(15) });
    }
}
