//! The latest effects, kept in memory: what a follower would read to catch up.
//!
//! Two halves instead of a ring: a record is encoded once, in one piece, behind the one before;
//! when the newer half is full the older one is forgotten. So between half and all of the
//! configured bytes are kept, and a record that makes a half larger than its share is kept in
//! full. Of a record larger than the whole, nothing is: a follower that needs it needs a copy of
//! everything anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use base::Lsn;
use keyspace::{EffectSink, Keyspace, Record};

/// Room behind a half for the record that fills it, so that a usual one does not move the half.
const RECORD_BYTES_USUAL: usize = 64 * 1024;

/// Keeps the bytes of the latest records. An LSN is the number of bytes up to a record's end.
pub struct Backlog {
    halves: Mutex<Halves>,
    half_bytes: usize,
    /// What the keyspace was told of the memory.
    charged_bytes: Mutex<u64>,
    /// The memory may have changed since.
    is_uncharged: AtomicBool,
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
        let [newer, older] = [new_half(half_bytes), new_half(half_bytes)];
        Backlog {
            halves: Mutex::new(Halves { newer, older, end: 0 }),
            half_bytes,
            charged_bytes: Mutex::new(0),
            is_uncharged: AtomicBool::new(true),
        }
    }

    /// Returns what the backlog holds.
    pub fn extent(&self) -> BacklogExtent {
        let halves = self.lock();
        let kept = (halves.newer.len() + halves.older.len()) as u64;
        BacklogExtent { start: Lsn(halves.end - kept), end: Lsn(halves.end) }
    }

    /// Tells `keyspace`, always the same, how the memory has changed since the last call. Costs
    /// one load where it has not.
    pub fn charge(&self, keyspace: &Keyspace) {
        if !self.is_uncharged.load(Ordering::Relaxed) {
            return;
        }
        // Held until the keyspace knows: what one thread charges, another may discharge next.
        let mut charged = self.charged_bytes.lock().expect("charging memory does not panic");
        // Before the look: a change from here on is told of again.
        self.is_uncharged.store(false, Ordering::Relaxed);
        let bytes = self.lock().memory_bytes();
        keyspace.charge(bytes.saturating_sub(*charged));
        keyspace.discharge(charged.saturating_sub(bytes));
        *charged = bytes;
    }

    fn lock(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().expect("encoding a record does not panic")
    }
}

impl Halves {
    /// Makes the newer half the older one.
    fn swap(&mut self, half_bytes: usize) {
        let kept = half_bytes + RECORD_BYTES_USUAL;
        std::mem::swap(&mut self.newer, &mut self.older);
        self.newer.clear();
        // A record larger than a half has grown them; that memory is not kept.
        self.newer.shrink_to(kept);
        self.older.shrink_to(kept);
    }

    /// Forgets all records; the end stays where it is.
    fn forget(&mut self, half_bytes: usize) {
        self.newer = new_half(half_bytes);
        self.older.clear();
        self.older.shrink_to(half_bytes + RECORD_BYTES_USUAL);
    }

    fn memory_bytes(&self) -> u64 {
        (self.newer.capacity() + self.older.capacity()) as u64
    }
}

/// Returns an empty half, touched now: a shortage shows at the start, and no write waits for a page
/// later.
fn new_half(half_bytes: usize) -> Vec<u8> {
    // Not `vec![0; ..]`: zero pages of the system would only be promised.
    let mut bytes = vec![1; half_bytes + RECORD_BYTES_USUAL];
    bytes.clear();
    bytes
}

impl EffectSink for Backlog {
    fn append(&self, record: &Record<'_>) -> Lsn {
        let mut halves = self.lock();
        let memory_bytes = halves.memory_bytes();
        if halves.newer.len() >= self.half_bytes {
            halves.swap(self.half_bytes);
        }
        let before = halves.newer.len();
        record.encode(&mut halves.newer);
        let record_bytes = halves.newer.len() - before;
        halves.end += record_bytes as u64;
        if record_bytes > 2 * self.half_bytes {
            halves.forget(self.half_bytes);
        }
        if halves.memory_bytes() != memory_bytes {
            self.is_uncharged.store(true, Ordering::Relaxed);
        }
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
    fn record_larger_than_the_backlog_counts_and_is_not_kept() {
        let backlog = Backlog::new(8);
        append(&backlog, "ab");
        assert_eq!(append(&backlog, "0123456789"), Lsn(12));
        assert_eq!(backlog.extent(), BacklogExtent { start: Lsn(12), end: Lsn(12) });
        append(&backlog, "abcd");
        append(&backlog, "e");
        assert_eq!(backlog.extent(), BacklogExtent { start: Lsn(12), end: Lsn(17) });
    }

    #[test]
    fn large_record_takes_its_memory_with_it() {
        const BYTES: usize = 1 << 20;
        let backlog = Backlog::new(BYTES as u64);
        let empty = backlog.lock().memory_bytes();
        append(&backlog, &"x".repeat(BYTES + 1));
        assert_eq!(backlog.lock().memory_bytes(), empty, "dropped at once");
        append(&backlog, &"x".repeat(BYTES));
        append(&backlog, &"x".repeat(BYTES / 2));
        assert!(backlog.lock().memory_bytes() <= (BYTES + empty as usize) as u64, "no spare room");
        append(&backlog, "a");
        append(&backlog, &"x".repeat(BYTES / 2));
        append(&backlog, "a");
        assert_eq!(backlog.lock().memory_bytes(), empty);
    }
}
