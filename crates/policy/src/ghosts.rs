//! Ghosts: the marks of keys that have gone, so that a key that comes back is known.
//!
//! A table of buckets of one cache line, each with ten ghosts of six bytes. A key has one bucket; a
//! ghost that comes to a full one takes the place of the one that is worth least. The table grows
//! and shrinks by a bucket at a time (linear hashing). A bucket that splits gives both halves all
//! of its ghosts, as a ghost does not tell which half is its own; those in the wrong one are never
//! found, and go first or soon.
//!
//! ```text
//! tag  15 bits of the key's hash, 1 bit: a lookup missed the key after it went
//! ```
//!
//! A key is taken for another one in 3,300 lookups of a full bucket; then it begins with the
//! other's counters.

use crate::mark::{Mark, Tick};

const GHOSTS_PER_BUCKET: usize = 10;
/// A shard of few keys should not pay for many: 1 KiB.
const BUCKETS_PER_CHUNK: usize = 16;
/// What a ghost takes, in bytes, with its part of what a bucket leaves empty.
pub const BYTES_PER_GHOST: u64 = size_of::<GhostBucket>() as u64 / GHOSTS_PER_BUCKET as u64;

/// The bit of a tag that says that a lookup has counted already.
const MISSED: u16 = 1 << 15;
/// Ghosts that seem older than this are about to seem new: they go.
const AGE_MAX: Tick = 3 << 14;

/// A step of a slow counter, in the unit of [`worth`].
const WORTH_PER_STEP: i16 = 128;
/// In so many ticks the slow counter loses a unit of [`worth`].
const TICKS_PER_WORTH: Tick = 4;
const _: () = assert!(u8::MAX as i32 * WORTH_PER_STEP as i32 <= i16::MAX as i32);

/// Ghosts that lie in one cache line.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct GhostBucket {
    /// 0 where there is no ghost.
    tags: [u16; GHOSTS_PER_BUCKET],
    stamps: [Tick; GHOSTS_PER_BUCKET],
    slow: [u8; GHOSTS_PER_BUCKET],
    fast: [u8; GHOSTS_PER_BUCKET],
}

const _: () = assert!(size_of::<GhostBucket>() == 64);

impl GhostBucket {
    #[inline]
    fn find(&self, tag: u16) -> Option<usize> {
        first(|slot| self.tags[slot] & !MISSED == tag)
    }

    fn mark(&self, slot: usize) -> Mark {
        Mark::new(self.slow[slot], self.fast[slot], self.stamps[slot])
    }

    fn put(&mut self, slot: usize, tag: u16, mark: Mark) {
        self.tags[slot] = tag;
        self.stamps[slot] = mark.stamp();
        (self.slow[slot], self.fast[slot]) = mark.counters();
    }

    /// Returns a free slot, or the one of the ghost that is worth least, by its slow counter.
    fn victim(&self, now: Tick) -> usize {
        let worths: [i16; GHOSTS_PER_BUCKET] = std::array::from_fn(|slot| {
            let age = now.wrapping_sub(self.stamps[slot]);
            let is_ghost = (self.tags[slot] != 0) & (age <= AGE_MAX);
            let worth = worth(self.slow[slot], age);
            if is_ghost { worth } else { i16::MIN }
        });
        let least = worths.iter().fold(i16::MAX, |least, worth| least.min(*worth));
        first(|slot| worths[slot] == least).expect("a bucket has slots")
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

/// Returns the slow counter of a ghost of this `age` as its logarithm, in 1024ths of an octave.
#[inline(always)]
fn worth(slow: u8, age: Tick) -> i16 {
    i16::from(slow) * WORTH_PER_STEP - (age / TICKS_PER_WORTH) as i16
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
        let mark = bucket.mark(slot).used(now, random);
        bucket.put(slot, tag_of(hash) | MISSED, mark);
    }

    /// Takes out the ghost of the key of `hash`, which is there again, and returns its mark; the
    /// access that brought it back has been counted.
    pub fn take(&mut self, hash: u64, now: Tick, random: u64) -> Option<Mark> {
        let (bucket, slot) = self.find(hash)?;
        let (mark, was_missed) = (bucket.mark(slot), bucket.tags[slot] & MISSED != 0);
        bucket.tags[slot] = 0;
        Some(if was_missed { mark } else { mark.used(now, random) })
    }

    /// Remembers the mark of the key of `hash`, which goes.
    pub fn remember(&mut self, hash: u64, mark: Mark, now: Tick) {
        let tag = tag_of(hash);
        let Some(bucket) = self.bucket(hash) else { return };
        let slot = bucket.find(tag).unwrap_or_else(|| bucket.victim(now));
        bucket.put(slot, tag, mark);
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
            for slot in (0..GHOSTS_PER_BUCKET).filter(|slot| last.tags[*slot] != 0) {
                let free = bucket.tags.iter().position(|tag| *tag == 0);
                let is_new = bucket.find(last.tags[slot] & !MISSED).is_none();
                if let Some(free) = free.filter(|_| is_new) {
                    bucket.put(free, last.tags[slot], last.mark(slot));
                }
            }
        }
        self.set_bucket_count(index);
        self.chunks.truncate(index.div_ceil(BUCKETS_PER_CHUNK));
        self.chunks.shrink_to(index.div_ceil(BUCKETS_PER_CHUNK) * 2);
    }

    fn find(&mut self, hash: u64) -> Option<(&mut GhostBucket, usize)> {
        let bucket = self.bucket(hash)?;
        let slot = bucket.find(tag_of(hash))?;
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

fn tag_of(hash: u64) -> u16 {
    ((hash >> 49) as u16).max(1)
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
        ghosts.remember(77, Mark::new(41, 9, 5), 6);
        assert_eq!(ghosts.take(78 << 49, 7, 0), None);
        let mark = ghosts.take(77, 7, u64::MAX).expect("it was remembered");
        assert_eq!(mark, Mark::new(41, 9, 5).used(7, u64::MAX));
        assert_eq!(ghosts.take(77, 7, 0), None, "it is taken once");
    }

    #[test]
    fn a_miss_and_the_insertion_after_it_count_as_one_access() {
        let ghosts = &mut sized(100);
        ghosts.remember(77, Mark::new(1, 1, 5), 6);
        ghosts.miss(77, 9, u64::MAX);
        assert_eq!(ghosts.take(77, 10, u64::MAX), Some(Mark::new(1, 1, 5).used(9, u64::MAX)));
        ghosts.miss(77, 9, 0);
        assert_eq!(ghosts.take(77, 10, 0), None, "a miss alone leaves no ghost");
    }

    #[test]
    fn what_was_used_more_often_is_remembered_longer() {
        let ghosts = &mut sized(1000);
        let random = &mut Prng::new(1);
        let favourites: Vec<u64> = (0..200).map(|_| random.next()).collect();
        favourites.iter().for_each(|hash| ghosts.remember(*hash, Mark::new(33, 33, 0), 0));
        (0..20_000).for_each(|_| ghosts.remember(random.next(), Mark::first(10), 10));
        let known = favourites.iter().filter(|hash| ghosts.take(**hash, 11, 0).is_some()).count();
        assert!(known > 190, "{known}");
    }

    #[test]
    fn a_full_bucket_gives_up_what_is_free_or_worth_least() {
        let random = &mut Prng::new(3);
        for _ in 0..10_000 {
            let (mut bucket, now) = (GhostBucket::default(), random.next() as Tick);
            for slot in 0..GHOSTS_PER_BUCKET {
                let age = random.below(u64::from(AGE_MAX) * 9 / 8) as Tick;
                let mark = Mark::new(random.next() as u8, 0, now.wrapping_sub(age));
                bucket.put(slot, random.below(64) as u16, mark);
            }
            let worth = |slot: usize| {
                let mark = bucket.mark(slot);
                let is_ghost = bucket.tags[slot] != 0 && mark.age(now) <= AGE_MAX;
                if is_ghost { mark.logs(now).0 } else { Log::MIN }
            };
            let least = (0..GHOSTS_PER_BUCKET).map(worth).min();
            assert_eq!(Some(worth(bucket.victim(now))), least, "{bucket:?} at {now}");
        }
    }

    #[test]
    fn growing_keeps_all_and_memory_follows_the_wanted_count() {
        let (ghosts, random) = (&mut sized(500), &mut Prng::new(2));
        let hashes: Vec<u64> = (0..250).map(|_| random.next()).collect();
        hashes.iter().for_each(|hash| ghosts.remember(*hash, Mark::first(0), 0));
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
        ghosts.remember(1, Mark::first(0), 0);
        assert_eq!(ghosts.take(1, 0, 0), None);
        assert_eq!(ghosts.memory_bytes(), 0);
    }
}
