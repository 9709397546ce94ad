//! Bounds of what large collections grow by, asked before they do.
//!
//! They are those of tables, as few members take less in a compact form; what the change of the
//! form takes is not in them, nor the rest of the piece by which a table grows.
//! [`List`](crate::List) has its own.

use crate::chunked::CHUNK_ITEMS;
use crate::heap_bytes;
use crate::pairs::{BEGUN_BYTES_MAX, pair_bytes_max};
use crate::score_tree::Item;

/// An entry's part of the buckets.
const HEAD_BYTES: u64 = 4;
/// The slot of an entry, with that.
const SLOT_BYTES: u64 = 32 + HEAD_BYTES;
/// The same of a sorted set, with two places in its order: leaves are half full at least.
const SCORED_BYTES: u64 = 40 + HEAD_BYTES + 32;
/// As many bytes lie in their slot.
const INLINE_BYTES_MAX: usize = 22;

/// Returns a bound of what `members` take in a set.
pub fn set_growth_bound<'e>(members: impl Iterator<Item = &'e [u8]>) -> u64 {
    bound(SLOT_BYTES, members.map(<[u8]>::len))
}

/// Returns a bound of what `parts`, a field, its value, a field, its value, take in a hash.
pub fn hash_growth_bound<'e>(mut parts: impl Iterator<Item = &'e [u8]>) -> u64 {
    let mut bytes = 0;
    while let Some(field) = parts.next() {
        let value = parts.next().map_or(0, <[u8]>::len);
        bytes += pair_bytes_max(field.len(), value) + 2 * HEAD_BYTES;
    }
    // The first piece of each length doubles, and others are begun.
    bytes + bytes.min(BEGUN_BYTES_MAX)
}

/// Returns a bound of what `members` take in a sorted set.
pub fn sorted_set_growth_bound<'e>(members: impl Iterator<Item = &'e [u8]>) -> u64 {
    bound(SCORED_BYTES, members.map(<[u8]>::len))
}

/// Returns a bound of what `count` members take in a sorted set that is worked out, which are in an
/// order of their own meanwhile; those that lie beyond their slots have blocks of `heap_bytes`
/// together.
pub(crate) fn ranked_growth_bound(count: usize, heap_bytes: u64) -> u64 {
    let slots = SCORED_BYTES * (count + count.min(CHUNK_ITEMS)) as u64;
    slots + (size_of::<Item>() * count) as u64 + heap_bytes
}

/// Returns a bound of the block of one member of `length` bytes, where it lies beyond its slot.
#[inline]
pub(crate) fn block_bytes(length: usize) -> u64 {
    if length <= INLINE_BYTES_MAX { 0 } else { heap_bytes(length) }
}

/// Returns a bound of what entries of these `lengths` take, each of which has a slot of
/// `slot_bytes`.
fn bound(slot_bytes: u64, lengths: impl Iterator<Item = usize>) -> u64 {
    let (mut bytes, mut count) = (0, 0);
    for length in lengths {
        bytes += slot_bytes + block_bytes(length);
        count += 1;
    }
    // The first piece doubles.
    bytes + slot_bytes * count.min(CHUNK_ITEMS as u64)
}

#[cfg(test)]
mod tests {
    use base::SecretHasher;
    use base::prng::Prng;

    use super::*;
    use crate::{End, Hash, Limits, List, ListLimit, Rules, Set, SortedSet};

    /// Asserts that what was grown by is within the bound, and the bound not far from it.
    fn check(what: &str, count: usize, bound: u64, grown: u64) {
        // The piece begun last, and the list of pieces.
        let piece = 512 * 100 + 4096;
        assert!(grown <= bound + piece, "{count} of {what}: {grown} of {bound} bytes");
        assert!(bound <= grown * 5 / 2 + 4096, "{count} of {what}: a bound of {bound} for {grown}");
    }

    fn parts(random: &mut Prng, count: usize) -> Vec<Vec<u8>> {
        let longest = [4, 20, 60, 500][random.below(4) as usize];
        let part = |number: usize, random: &mut Prng| {
            let mut part = number.to_string().into_bytes();
            part.resize(part.len().max(random.below(longest) as usize), b'x');
            part
        };
        (0..count).map(|number| part(number, random)).collect()
    }

    #[test]
    fn tables_grow_by_no_more_than_was_asked_for() {
        let mut random = Prng::new(1);
        let limits = Limits {
            hash_entries: 0,
            set_entries: 0,
            set_integers: 0,
            sorted_set_entries: 0,
            ..Limits::default()
        };
        let rules = Rules { limits, hasher: SecretHasher::new([1, 2]) };
        for count in [1, 10, 100, 1_000, 30_000] {
            for _ in 0..4 {
                let parts = parts(&mut random, 2 * count);
                let slices = || parts.iter().map(Vec::as_slice);
                let mut set = Set::for_members(slices().next().unwrap(), 1 << 20, &rules);
                let before = set.memory_bytes();
                assert!(slices().all(|member| set.insert(member, &rules)));
                check("set", count, set_growth_bound(slices()), set.memory_bytes() - before);
                let mut sorted = SortedSet::for_members(1 << 20, 1, &rules);
                let before = sorted.memory_bytes();
                for (score, member) in slices().enumerate() {
                    sorted.insert(member, score as f64, &rules);
                }
                let grown = sorted.memory_bytes() - before;
                check("sorted set", count, sorted_set_growth_bound(slices()), grown);
                let mut hash = Hash::default();
                hash.set(b"f", b"v", &rules);
                let before = hash.memory_bytes();
                for pair in parts.chunks(2) {
                    hash.set(&pair[0], &pair[1], &rules);
                }
                check("hash", count, hash_growth_bound(slices()), hash.memory_bytes() - before);
            }
        }
    }

    #[test]
    fn lists_grow_by_no_more_than_was_asked_for() {
        let mut random = Prng::new(2);
        for limit in [-2, -1, -5, 1, 128] {
            let limit = ListLimit(limit);
            let mut list = List::default();
            for round in 0..60 {
                let count = [1, 3, 40, 1_000, 20_000][random.below(5) as usize];
                let parts = parts(&mut random, count);
                let slices = || parts.iter().map(Vec::as_slice);
                let end = if random.one_in(2) { End::Head } else { End::Tail };
                let before = list.memory_bytes();
                let bound = list.growth_bound(end, slices(), limit);
                list.prepare(slices(), limit);
                slices().for_each(|part| list.push(end, part, limit));
                let grown = list.memory_bytes().saturating_sub(before);
                let what = format!("{limit:?} {round}: {count} parts, {grown} of {bound} bytes");
                assert!(grown <= bound, "{what}");
                let row = 100 * list.len() as u64 / 50 + 100 * count as u64;
                let slack = if limit.0 > 0 { 2 * row } else { row / 20 };
                assert!(bound <= grown * 3 / 2 + slack + 10_000, "{what}");
            }
        }
    }
}
