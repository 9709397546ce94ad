//! Access reports: how a reader in another process reports which keys it uses, so that eviction
//! spares them.
//!
//! A read makes no request, so that the server cannot see it. One in so many successful reads,
//! chosen at random, leaves a word in a ring in the session's writable memory; the server reads the
//! ring from time to time, and marks the keys that the words name as used.
//!
//! ```text
//! reader                                      server
//! cursor += 1, was i   (relaxed)              cursor, less what it was when looked at last: the
//! ring[i % 1024] = report (relaxed)           words that are new, the latest 1024 of them
//! ```
//! Each word is complete by itself and tied to no moment, so that no order between words is needed.
//! Where the reader overtakes the server the oldest reports are lost. A word whose reader has not
//! yet stored it is read as what was there before: an old report, or 0, which is none.
//!
//! The words are input from a process that may be hostile: each is copied once. The hash in it is
//! looked up, never followed; nonsense marks an entry as used or finds none.
//!
//! AccessReport, one word (bit 0 is the lowest):
//! ```text
//! 0  40 lowest bits of the key's hash | 40 8 its highest bits | 48 4 database | 52 12 shard
//! ```
//! `pins.rs` shows where the ring is.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use base::prng::Prng;
use base::{DATABASE_COUNT_MAX, DatabaseIndex, Key, ShardIndex};

/// The words of a session's ring.
pub const REPORT_WORDS: usize = 1024;
/// For how many reads one report stands, where the server wants any.
pub const REPORT_PERIOD: u32 = 64;
/// The longest period that a reader follows.
const REPORT_PERIOD_MAX: u64 = 1 << 20;

const _: () = assert!(REPORT_WORDS.is_power_of_two());
const _: () = assert!(DATABASE_COUNT_MAX <= 16, "a report has four bits for the database");

/// A key that was used: enough of its hash to find its bucket and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessReport(u64);

const LOW_BITS: u32 = 40;
const LOW: u64 = (1 << LOW_BITS) - 1;

impl AccessReport {
    /// Returns the report of a use of `key` in `database`.
    pub fn new(database: DatabaseIndex, key: &Key<'_>) -> AccessReport {
        let hash = key.hash & LOW | key.hash >> 56 << LOW_BITS;
        AccessReport(hash | u64::from(database.0) << 48 | u64::from(key.shard.0) << 52)
    }

    /// Returns the shard, which may be none of the keyspace's.
    pub fn shard(self) -> ShardIndex {
        ShardIndex((self.0 >> 52) as u16)
    }

    /// Returns the database, which may be none of the keyspace's.
    pub fn database(self) -> DatabaseIndex {
        DatabaseIndex((self.0 >> 48 & 0xF) as u8)
    }

    /// Returns a hash with the same tag and, in any table, the same home bucket as the key's.
    pub fn hash(self) -> u64 {
        self.0 & LOW | (self.0 >> LOW_BITS & 0xFF) << 56
    }
}

/// Adds `report` to the ring of `words` behind `cursor`. Any number of threads may do so at once.
pub fn add(cursor: &AtomicU64, words: &[AtomicU64], report: AccessReport) {
    let index = cursor.fetch_add(1, Ordering::Relaxed) as usize % words.len();
    words[index].store(report.0, Ordering::Relaxed);
}

/// Calls `visit` with the reports that have come since the cursor was `seen`, the latest that the
/// ring has, and moves `seen` up. At most one call for each word of the ring.
pub fn take(
    cursor: &AtomicU64,
    words: &[AtomicU64],
    seen: &mut u64,
    mut visit: impl FnMut(AccessReport),
) {
    let end = cursor.load(Ordering::Relaxed);
    let count = end.wrapping_sub(*seen).min(words.len() as u64);
    *seen = end;
    for age in (1..=count).rev() {
        let index = end.wrapping_sub(age) as usize % words.len();
        match words[index].load(Ordering::Relaxed) {
            0 => {}
            word => visit(AccessReport(word)),
        }
    }
}

thread_local! {
    /// How many reads this thread makes before the next one that is reported.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// The state of the generator that chooses it.
    static CHANCE: Cell<u64> = const { Cell::new(0x9E37_79B9_7F4A_7C15) };
}

/// Counts a read of this thread; returns whether it is one to report, and [`choose_next`] is to be
/// called. A load, a store and a branch for all others.
#[inline(always)]
pub(crate) fn is_chosen() -> bool {
    let left = LEFT.get();
    if left == 0 {
        return true;
    }
    LEFT.set(left - 1);
    false
}

/// Chooses the next read to report, one in `period` on average (0: as rarely as if it were
/// [`REPORT_PERIOD`]): evenly among all distances up to twice that, so that a pattern of reads is
/// met at all of its places. `salt` is anything that differs from call to call.
#[cold]
pub(crate) fn choose_next(period: u64, salt: u64) {
    let period = if period == 0 { u64::from(REPORT_PERIOD) } else { period.min(REPORT_PERIOD_MAX) };
    let mut random = Prng::new(CHANCE.get().wrapping_add(salt));
    LEFT.set(random.below(2 * period - 1) as u32);
    CHANCE.set(random.rest());
}

#[cfg(test)]
mod tests {
    use base::KeyHasher;
    use base::prng::Prng;

    use super::*;
    use crate::layout::{home_bucket, tag_of};

    fn ring() -> (AtomicU64, Vec<AtomicU64>) {
        (AtomicU64::new(0), (0..REPORT_WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn taken(cursor: &AtomicU64, words: &[AtomicU64], seen: &mut u64) -> Vec<u64> {
        let mut all = Vec::new();
        take(cursor, words, seen, |report| all.push(report.0));
        all
    }

    #[test]
    fn report_leads_to_the_bucket_and_tag_of_its_key() {
        let hasher = KeyHasher::new([3; 4], 4096);
        for number in 0..1_000 {
            let name = format!("key:{number}");
            let key = hasher.key(name.as_bytes());
            let report = AccessReport::new(DatabaseIndex(15), &key);
            assert_eq!((report.shard(), report.database()), (key.shard, DatabaseIndex(15)));
            assert_eq!(tag_of(report.hash()), tag_of(key.hash));
            for bucket_count in [1, 3, 1_000, 1 << 30, (1 << 40) - 5] {
                let home = |hash: u64| home_bucket(hash, bucket_count);
                assert_eq!(home(report.hash()), home(key.hash));
            }
        }
    }

    #[test]
    fn miri_reports_come_once_in_order_and_the_oldest_are_lost() {
        let (cursor, words) = ring();
        let mut seen = 0;
        assert!(taken(&cursor, &words, &mut seen).is_empty());
        (1..=3).for_each(|number| add(&cursor, &words, AccessReport(number)));
        assert_eq!(taken(&cursor, &words, &mut seen), [1, 2, 3]);
        assert!(taken(&cursor, &words, &mut seen).is_empty());
        let count = 2 * REPORT_WORDS as u64 + 5;
        (1..=count).for_each(|number| add(&cursor, &words, AccessReport(number)));
        let all = taken(&cursor, &words, &mut seen);
        assert_eq!(all, (count - REPORT_WORDS as u64 + 1..=count).collect::<Vec<_>>());
    }

    #[test]
    fn miri_threads_share_a_ring() {
        let (cursor, words) = ring();
        let mut seen = 0;
        let report_some = |thread: u64| {
            (1..=100).for_each(|number| add(&cursor, &words, AccessReport(thread * 1000 + number)));
        };
        let mut met = Vec::new();
        std::thread::scope(|scope| {
            let reporters = [1, 2].map(|thread| scope.spawn(move || report_some(thread)));
            (0..20).for_each(|_| met.extend(taken(&cursor, &words, &mut seen)));
            drop(reporters);
        });
        assert!(met.iter().all(|word| (1..=100).contains(&(word % 1000))), "{met:?}");
        let mut all: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        all.retain(|word| *word != 0);
        all.sort_unstable();
        assert!(all.iter().copied().eq((1001..=1100).chain(2001..=2100)), "none is overwritten");
    }

    #[test]
    fn hostile_cursors_cost_one_walk_of_the_ring() {
        let (cursor, words) = ring();
        let (mut seen, mut random) = (0, Prng::new(1));
        for _ in 0..100 {
            cursor.store(random.next(), Ordering::Relaxed);
            words[random.below(REPORT_WORDS as u64) as usize]
                .store(random.next(), Ordering::Relaxed);
            assert!(taken(&cursor, &words, &mut seen).len() <= REPORT_WORDS);
        }
    }

    #[test]
    fn every_place_of_a_pattern_is_chosen_as_often() {
        for pattern in [2, 64, 127, 128] {
            let mut chosen = vec![0_u64; pattern];
            let reads = 40_000 * pattern;
            for read in 0..reads {
                if is_chosen() {
                    chosen[read % pattern] += 1;
                    choose_next(64, (read % pattern) as u64);
                }
            }
            let all: u64 = chosen.iter().sum();
            assert!(all.abs_diff(reads as u64 / 64) < reads as u64 / 640, "{all} of {reads}");
            assert!(chosen.iter().all(|&count| (450..=800).contains(&count)), "{chosen:?}");
        }
    }
}
