//! Ghosts: the marks of keys that have gone, so that a key that comes back is known.
//!
//! A table of buckets of half a cache line, each with eight ghosts of four bytes. A key has one
//! bucket; a ghost that comes to a full one takes the place of the one that is worth least. The
//! table grows and shrinks by a bucket at a time (linear hashing). A bucket that splits gives both
//! halves all of its ghosts, as a ghost does not tell which half is its own; those in the wrong one
//! are never found, and go first or soon.
//!
//! ```text
//! name  0 4 gap | 4 12 bits of the key's hash
//! use   0 8 turnover of the last access | 8 1 missed | 9 1 gap | 10 6 slow counter
//! ```
//! *gap*: by how much the fast counter, as it was when that turnover began, is less than twice what
//! the slow one tells, 5 bits. *missed*: a lookup missed the key after it went. Both counts are in
//! quarters of an octave; of the gap what is between two is left out. With halves there are 0.1
//! points fewer hits where the popular keys change, and with whole ones 0.4.
//!
//! A key is taken for another one in 512 lookups of a full bucket; then it begins with the other's
//! counters.

use crate::mark::{Mark, TICKS_PER_TURNOVER, Tick};

const GHOSTS_PER_BUCKET: usize = 8;
/// A shard of few keys should not pay for many: 1 KiB.
const BUCKETS_PER_CHUNK: usize = 32;
/// What a ghost takes, in bytes.
pub const BYTES_PER_GHOST: u64 = size_of::<GhostBucket>() as u64 / GHOSTS_PER_BUCKET as u64;

/// The time of ghosts: turnovers, modulo 2^8.
type Turnover = u16;
const TURNOVER_BITS: u32 = 8;
const TURNOVER_MASK: Turnover = (1 << TURNOVER_BITS) - 1;
/// Ghosts that seem older than this are about to seem new: they are the first to be replaced.
const AGE_MAX: Turnover = 3 << (TURNOVER_BITS - 2);
/// The bit of a use that says that a lookup has counted already.
const MISSED: u16 = 1 << TURNOVER_BITS;
/// The highest bit of the gap; the others are beside the name.
const GAP_HIGH: u16 = MISSED << 1;
const SLOW_SHIFT: u32 = TURNOVER_BITS + 2;
const SLOW_MAX: u16 = (1 << (16 - SLOW_SHIFT)) - 1;
const GAP_LOW: u16 = (1 << 4) - 1;
const GAP_MAX: u16 = 2 * GAP_LOW + 1;

/// Steps of a mark's counters in an octave.
const OCTAVE_STEPS: u16 = 8;
/// Those in a step of a ghost's slow counter, and of its gap.
const SLOW_STEPS: u16 = 2;
const GAP_STEPS: u16 = 2;
/// In so many ticks the fast counter of a mark loses a step.
const TICKS_PER_FAST_STEP: u16 = TICKS_PER_TURNOVER as u16 / OCTAVE_STEPS;

/// A step of a ghost's slow counter, in the unit of a worth: what it loses in a turnover.
const WORTH_PER_STEP: i16 = 16;
const WORTH_MAX: i16 = SLOW_MAX as i16 * WORTH_PER_STEP;
const WORTH_MIN: i16 = -(TURNOVER_MASK as i16);
/// Room below a worth for the number of a slot, from 1 on.
const NUMBERS: i16 = 2 * GHOSTS_PER_BUCKET as i16;
/// Taken from the worth of a slot that is free, brings it below that of every ghost.
const BELOW_ALL: i16 = 24_576;
const _: () = assert!((WORTH_MAX + 1) * NUMBERS - BELOW_ALL < WORTH_MIN * NUMBERS);
const _: () = assert!(WORTH_MIN * NUMBERS > i16::MIN + BELOW_ALL);
const _: () = assert!(NUMBERS % GHOSTS_PER_BUCKET as i16 == 0);
const _: () = assert!(BELOW_ALL % GHOSTS_PER_BUCKET as i16 == 0);

/// Ghosts that lie in one half of a cache line.
#[derive(Clone, Debug, Default)]
#[repr(C, align(32))]
pub struct GhostBucket {
    /// 0 where there is no ghost.
    names: [u16; GHOSTS_PER_BUCKET],
    uses: [u16; GHOSTS_PER_BUCKET],
}

const _: () = assert!(size_of::<GhostBucket>() == 32);

impl GhostBucket {
    #[inline]
    fn find(&self, name: u16) -> Option<usize> {
        first(|slot| self.names[slot] & !GAP_LOW == name)
    }

    /// Returns the mark of the ghost at `slot`, as of the turnover of its last access.
    fn mark(&self, slot: usize, now: Tick) -> Mark {
        let (name, used) = (self.names[slot], self.uses[slot]);
        let gap = (name & GAP_LOW) | ((used & GAP_HIGH) / GAP_HIGH * (GAP_LOW + 1));
        let turnovers = turnover_of(now).wrapping_sub(used) & TURNOVER_MASK;
        let began = now - now % TICKS_PER_TURNOVER as Tick;
        let stamp = began.wrapping_sub(turnovers * TICKS_PER_TURNOVER as Tick);
        let slow = (used >> SLOW_SHIFT) * SLOW_STEPS;
        let fast = (slow + OCTAVE_STEPS).saturating_sub(gap * GAP_STEPS);
        Mark::new(slow as u8 + 1, fast as u8 + 1, stamp)
    }

    /// Makes the ghost at `slot` that of a key of this `name`, with what a ghost keeps of `mark`.
    fn put(&mut self, slot: usize, name: u16, mark: Mark, random: u64) {
        let (slow, fast) = mark.counters();
        // Half of the steps is rounded up.
        let slow = u16::from(slow).saturating_sub(1) + (random >> 32) as u16 % SLOW_STEPS;
        let slow = (slow / SLOW_STEPS).min(SLOW_MAX);
        let begun = mark.stamp() % TICKS_PER_TURNOVER as Tick / TICKS_PER_FAST_STEP;
        let fast = (u16::from(fast) + begun).saturating_sub(1);
        let gap = (slow * SLOW_STEPS + OCTAVE_STEPS).saturating_sub(fast);
        let gap = (gap / GAP_STEPS).min(GAP_MAX);
        self.names[slot] = name | gap & GAP_LOW;
        let gap_high = gap / (GAP_LOW + 1) * GAP_HIGH;
        self.uses[slot] = slow << SLOW_SHIFT | gap_high | turnover_of(mark.stamp());
    }

    /// Returns a free slot, or the one of the ghost that is worth least, by its slow counter.
    ///
    /// Arithmetic of 16 bits that is the same for each slot, so that the compiler does part of it
    /// for all of them at once.
    fn victim(&self, now: Tick) -> usize {
        let now = turnover_of(now);
        // What each is worth, and below that its number, from 1 on: the least one tells both.
        let least = (0..GHOSTS_PER_BUCKET).fold(i16::MAX, |least, slot| {
            let (name, used) = (self.names[slot], self.uses[slot]);
            let age = (now.wrapping_sub(used) & TURNOVER_MASK) as i16;
            let worth = (used >> SLOW_SHIFT) as i16 * WORTH_PER_STEP - age;
            let numbered = worth * NUMBERS + slot as i16 + 1;
            let is_free = -i16::from(name == 0) | -i16::from(age > AGE_MAX as i16);
            least.min(numbered - (is_free & BELOW_ALL))
        });
        (least - 1) as usize % GHOSTS_PER_BUCKET
    }
}

/// Returns the first slot of which `is_wanted` holds. It is asked for all of them, as which one is
/// the first is a branch that cannot be foreseen.
#[inline(always)]
fn first(is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
    let all = (0..GHOSTS_PER_BUCKET)
        .fold(0_u32, |wanted, slot| wanted | u32::from(is_wanted(slot)) << slot);
    (all != 0).then(|| all.trailing_zeros() as usize)
}

/// Returns the turnover of which `tick` is.
#[inline(always)]
fn turnover_of(tick: Tick) -> Turnover {
    (tick / TICKS_PER_TURNOVER as Tick) & TURNOVER_MASK
}

/// The ghosts of one shard.
#[derive(Debug, Default)]
pub struct Ghosts {
    chunks: Vec<Chunk>,
    bucket_count: usize,
    /// The bits of a hash that choose among the buckets, or as many again.
    mask: usize,
}

type Chunk = Box<[GhostBucket; BUCKETS_PER_CHUNK]>;

impl Ghosts {
    /// Notes that a lookup did not find the key of `hash`, which counts as an access if there is a
    /// ghost of it.
    pub fn miss(&mut self, hash: u64, now: Tick, random: u64) {
        let Some((bucket, slot)) = self.find(hash) else { return };
        let mark = bucket.mark(slot, now).used(now, random);
        bucket.put(slot, name_of(hash), mark, random);
        bucket.uses[slot] |= MISSED;
    }

    /// Takes out the ghost of the key of `hash`, which is there again, and returns its mark; the
    /// access that brought it back has been counted.
    pub fn take(&mut self, hash: u64, now: Tick, random: u64) -> Option<Mark> {
        let (bucket, slot) = self.find(hash)?;
        let (mark, was_missed) = (bucket.mark(slot, now), bucket.uses[slot] & MISSED != 0);
        bucket.names[slot] = 0;
        Some(if was_missed { mark.dated(now, random) } else { mark.used(now, random) })
    }

    /// Remembers the mark of the key of `hash`, which goes. Its ghost was taken out when the key
    /// came, so that one of its name is that of another key, or a copy that a split has left.
    pub fn remember(&mut self, hash: u64, mark: Mark, now: Tick, random: u64) {
        let Some(bucket) = self.bucket(hash) else { return };
        let slot = bucket.victim(now);
        bucket.put(slot, name_of(hash), mark, random);
    }

    /// Grows or shrinks by a few buckets if there is room for fewer or far more than
    /// `ghost_count`. Called with each key that comes, it keeps up with what the shard has.
    pub fn fit(&mut self, ghost_count: u64) {
        const BUCKETS_PER_CALL: usize = 2;
        let wanted = ghost_count.div_ceil(GHOSTS_PER_BUCKET as u64) as usize;
        for _ in 0..BUCKETS_PER_CALL {
            if self.bucket_count < wanted {
                self.split();
            } else if self.bucket_count > wanted + wanted / 8 + 1 {
                self.merge();
            }
        }
    }

    /// Returns the memory in which the ghost of the key of `hash` is, if it has one.
    #[inline]
    pub fn place(&self, hash: u64) -> Option<&GhostBucket> {
        let index = self.home(hash);
        let chunk = self.chunks.get(index / BUCKETS_PER_CHUNK)?;
        Some(&chunk[index % BUCKETS_PER_CHUNK])
    }

    /// Forgets all ghosts.
    pub fn clear(&mut self) {
        *self = Ghosts::default();
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let chunk_bytes = BUCKETS_PER_CHUNK * size_of::<GhostBucket>();
        (self.chunks.len() * chunk_bytes + self.chunks.capacity() * size_of::<Chunk>()) as u64
    }

    fn split(&mut self) {
        let index = self.bucket_count;
        if index == self.chunks.len() * BUCKETS_PER_CHUNK {
            self.chunks.push(Chunk::default());
        }
        self.set_bucket_count(index + 1);
        let copy = match parent(index) {
            Some(parent) => self.at(parent).clone(),
            None => GhostBucket::default(),
        };
        *self.at(index) = copy;
    }

    /// Gives up the last bucket; its ghosts take the place of those in its parent that are worth
    /// nothing.
    fn merge(&mut self) {
        let Some(index) = self.bucket_count.checked_sub(1) else { return };
        let last = self.at(index).clone();
        if let Some(parent) = parent(index) {
            let bucket = self.at(parent);
            for slot in (0..GHOSTS_PER_BUCKET).filter(|slot| last.names[*slot] != 0) {
                let free = first(|slot| bucket.names[slot] == 0);
                let is_new = bucket.find(last.names[slot] & !GAP_LOW).is_none();
                if let Some(free) = free.filter(|_| is_new) {
                    bucket.names[free] = last.names[slot];
                    bucket.uses[free] = last.uses[slot];
                }
            }
        }
        self.set_bucket_count(index);
        self.chunks.truncate(index.div_ceil(BUCKETS_PER_CHUNK));
        self.chunks.shrink_to(index.div_ceil(BUCKETS_PER_CHUNK) * 2);
    }

    fn find(&mut self, hash: u64) -> Option<(&mut GhostBucket, usize)> {
        let bucket = self.bucket(hash)?;
        let slot = bucket.find(name_of(hash))?;
        Some((bucket, slot))
    }

    fn bucket(&mut self, hash: u64) -> Option<&mut GhostBucket> {
        let index = self.home(hash);
        let chunk = self.chunks.get_mut(index / BUCKETS_PER_CHUNK)?;
        Some(&mut chunk[index % BUCKETS_PER_CHUNK])
    }

    /// Returns the bucket of `hash`; 0 where there is none.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let index = hash as usize & self.mask;
        if index < self.bucket_count { index } else { index & (self.mask >> 1) }
    }

    fn set_bucket_count(&mut self, count: usize) {
        self.bucket_count = count;
        self.mask = count.next_power_of_two() - 1;
    }

    fn at(&mut self, index: usize) -> &mut GhostBucket {
        &mut self.chunks[index / BUCKETS_PER_CHUNK][index % BUCKETS_PER_CHUNK]
    }
}

/// Returns the name of a ghost, without its counter; never 0.
fn name_of(hash: u64) -> u16 {
    ((hash >> 48) as u16 & !GAP_LOW).max(GAP_LOW + 1)
}

/// Returns the bucket that `index` is split from.
fn parent(index: usize) -> Option<usize> {
    Some(index ^ 1 << index.checked_ilog2()?)
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;
    use crate::logarithm::Log;

    fn sized(count: u64) -> Ghosts {
        let mut ghosts = Ghosts::default();
        (0..count).for_each(|_| ghosts.fit(count));
        ghosts
    }

    #[test]
    fn a_key_that_comes_back_has_its_counters_and_one_access_more() {
        let ghosts = &mut sized(100);
        ghosts.remember(77, Mark::new(41, 9, 64), 66, 0);
        assert_eq!(ghosts.take(78 << 52, 67, 0), None);
        let mark = ghosts.take(77, 67, u64::MAX).expect("it was remembered");
        assert_eq!(mark, Mark::new(41, 9, 64).used(67, u64::MAX));
        assert_eq!(ghosts.take(77, 67, 0), None, "it is taken once");
    }

    #[test]
    fn a_miss_and_the_insertion_after_it_count_as_one_access() {
        let ghosts = &mut sized(100);
        ghosts.remember(77, Mark::new(33, 33, 64), 66, 0);
        ghosts.miss(77, 68, 0);
        let mark = ghosts.take(77, 69, 0).expect("it was remembered");
        let accesses = |log: Log| (f64::from(log) / 256.0).exp2();
        let (before, after) = (Mark::new(33, 33, 64).logs(69), mark.logs(69));
        assert!(accesses(after.0) < accesses(before.0) + 1.5, "{mark:?}");
        assert_eq!(mark.stamp(), 69);
        ghosts.miss(77, 68, 0);
        assert_eq!(ghosts.take(77, 69, 0), None, "a miss alone leaves no ghost");
    }

    #[test]
    fn what_a_ghost_keeps_of_counters_is_right_on_average() {
        let random = &mut Prng::new(5);
        let accesses = |log: Log| (f64::from(log) / 256.0).exp2();
        for (slow, fast, stamp) in [(1, 1, 64), (2, 2, 100), (30, 12, 127), (90, 55, 65_535)] {
            let (mark, now) = (Mark::new(slow, fast, stamp), 300);
            const RUNS: u32 = 10_000;
            let (mut bucket, mut sums) = (GhostBucket::default(), (0.0, 0.0));
            for _ in 0..RUNS {
                bucket.put(3, name_of(77), mark, random.next());
                let (slow, fast) = bucket.mark(3, now).logs(now);
                sums = (sums.0 + accesses(slow), sums.1 + accesses(fast));
            }
            let (slow, fast) = mark.logs(now);
            for (sum, log, error) in [(sums.0, slow, 0.05), (sums.1, fast, 0.3)] {
                let ratio = sum / f64::from(RUNS) / accesses(log);
                assert!((ratio - 1.0).abs() < error, "{mark:?}: {ratio}");
            }
        }
    }

    #[test]
    fn what_was_used_more_often_is_remembered_longer() {
        let ghosts = &mut sized(1000);
        let random = &mut Prng::new(1);
        let favourites: Vec<u64> = (0..200).map(|_| random.next()).collect();
        favourites.iter().for_each(|hash| ghosts.remember(*hash, Mark::new(33, 33, 0), 0, 0));
        (0..20_000).for_each(|_| ghosts.remember(random.next(), Mark::first(10), 10, 0));
        let known = favourites.iter().filter(|hash| ghosts.take(**hash, 11, 0).is_some()).count();
        assert!(known > 190, "{known}");
    }

    #[test]
    fn a_full_bucket_gives_up_what_is_free_or_worth_least() {
        let random = &mut Prng::new(3);
        for _ in 0..10_000 {
            let (mut bucket, now) = (GhostBucket::default(), random.next() as Tick);
            for slot in 0..GHOSTS_PER_BUCKET {
                let age = random.below(u64::from(AGE_MAX) * 64 * 9 / 8) as Tick;
                let mark = Mark::new(random.next() as u8 / 2, 0, now.wrapping_sub(age));
                let name = if random.one_in(32) { 0 } else { name_of(random.next()) };
                bucket.put(slot, name, mark, 0);
            }
            let worth = |slot: usize| {
                let mark = bucket.mark(slot, now);
                let turnovers = mark.age(now) / TICKS_PER_TURNOVER as Tick;
                let is_ghost = bucket.names[slot] != 0 && turnovers <= AGE_MAX;
                if is_ghost { mark.logs(now - now % 64).0 } else { Log::MIN }
            };
            let least = (0..GHOSTS_PER_BUCKET).map(worth).min();
            assert_eq!(Some(worth(bucket.victim(now))), least, "{bucket:?} at {now}");
        }
    }

    #[test]
    fn growing_keeps_all_and_memory_follows_the_wanted_count() {
        let (ghosts, random) = (&mut sized(500), &mut Prng::new(2));
        let hashes: Vec<u64> = (0..250).map(|_| random.next()).collect();
        hashes.iter().for_each(|hash| ghosts.remember(*hash, Mark::first(0), 0, 0));
        (0..10_000).for_each(|_| ghosts.fit(10_000));
        let known = |ghosts: &mut Ghosts| {
            hashes.iter().filter(|hash| ghosts.find(**hash).is_some()).count()
        };
        assert!(known(ghosts) > 240, "a few shared a bucket with ten others");
        let wanted = 10_000 * size_of::<GhostBucket>() as u64 / GHOSTS_PER_BUCKET as u64;
        assert!((wanted..wanted * 6 / 5).contains(&ghosts.memory_bytes()));
        (0..10_000).for_each(|_| ghosts.fit(500));
        assert!(known(ghosts) > 150, "shrinking keeps what has a place");
        (0..10_000).for_each(|_| ghosts.fit(0));
        assert!(ghosts.memory_bytes() < 2 * (BUCKETS_PER_CHUNK * size_of::<GhostBucket>()) as u64);
    }

    #[test]
    fn without_room_nothing_is_remembered() {
        let ghosts = &mut Ghosts::default();
        ghosts.remember(1, Mark::first(0), 0, 0);
        assert_eq!(ghosts.take(1, 0, 0), None);
        assert_eq!(ghosts.memory_bytes(), 0);
    }
}
