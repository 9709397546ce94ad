//! One bucket of 64 bytes: nine tags, nine references, a link; see `layout.rs`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::atomic_copy::{store_bytes, word};
use crate::layout::{LINE_BYTES, LINK_SPILLED, SLOTS_PER_BUCKET};
use crate::protocol_rules::{Rule, holds, linger};
use crate::sequence;

const TAGS_AT: usize = 5;
const LINK_AT: usize = 14;
const REFERENCES_AT: usize = 19;
const SLOT_MASK: u32 = (1 << SLOTS_PER_BUCKET) - 1;
/// The bits of a reference or a link.
const MASK_40: u64 = (1 << 40) - 1;

/// What comes behind a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    End,
    /// Nothing here; entries that the table keeps elsewhere.
    Spill,
    /// The bucket at this offset.
    Bucket(u64),
}

/// The writer's view of a bucket: plain loads (nobody else writes), atomic stores.
#[derive(Clone, Copy)]
pub(crate) struct Bucket {
    pointer: *mut u8,
}

impl Bucket {
    /// Returns the bucket at `pointer`.
    ///
    /// # Safety
    /// `pointer` is aligned to 64 and leads to 64 bytes of committed index memory that hold a
    /// bucket; only the caller writes it for as long as the result lives.
    #[inline(always)]
    pub unsafe fn at(pointer: *mut u8) -> Bucket {
        debug_assert_eq!(pointer as usize % 64, 0, "a bucket is a line");
        Bucket { pointer }
    }

    /// Returns the slots whose tag is `tag`, as a bit mask.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub fn matches(self, tag: u8) -> u32 {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        };
        // SAFETY: the load reads bytes 5..21, of any alignment, all inside the 64 bytes that are
        // the bucket's by the contract of `at`, which nobody else writes; SSE2 is part of x86_64.
        let mask = unsafe {
            let tags = _mm_loadu_si128(self.pointer.add(TAGS_AT).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)))
        };
        mask as u32 & SLOT_MASK
    }

    /// Returns the slots whose tag is `tag`, as a bit mask.
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    pub fn matches(self, tag: u8) -> u32 {
        (0..SLOTS_PER_BUCKET)
            .filter(|&slot| self.tag(slot) == tag)
            .fold(0, |mask, slot| mask | 1 << slot)
    }

    /// Returns the slots in use, as a bit mask.
    #[inline(always)]
    pub fn occupied(self) -> u32 {
        !self.matches(0) & SLOT_MASK
    }

    /// Returns the tag of `slot`; 0 where it is empty.
    #[inline(always)]
    pub fn tag(self, slot: usize) -> u8 {
        debug_assert!(slot < SLOTS_PER_BUCKET);
        // SAFETY: a slot is a bit of a mask of nine, or was one in the id of an entry, so that the
        // byte is one of the 64 that are the bucket's by the contract of `at`: committed,
        // initialised as all memory of a source is, and written by no other thread. A byte has no
        // alignment.
        unsafe { *self.pointer.add(TAGS_AT + slot) }
    }

    /// Returns the offset that `slot` refers to.
    #[inline(always)]
    pub fn reference(self, slot: usize) -> u64 {
        debug_assert!(slot < SLOTS_PER_BUCKET);
        (self.unaligned(REFERENCES_AT - 3 + 5 * slot) >> 24) * 8
    }

    /// Returns the offset of the next bucket of the chain; 0 for none.
    #[inline(always)]
    pub fn link(self) -> u64 {
        match self.next() {
            Next::Bucket(offset) => offset,
            Next::End | Next::Spill => 0,
        }
    }

    /// Returns what comes behind the bucket.
    #[inline(always)]
    pub fn next(self) -> Next {
        match self.unaligned(LINK_AT - 3) >> 24 {
            0 => Next::End,
            LINK_SPILLED => Next::Spill,
            line => Next::Bucket(line * LINE_BYTES),
        }
    }

    /// Sets `slot` to `tag` and `reference`.
    pub fn set(self, slot: usize, tag: u8, reference: u64) {
        debug_assert!(slot < SLOTS_PER_BUCKET && reference.is_multiple_of(8));
        debug_assert!(reference / 8 <= MASK_40, "a reference has 40 bits");
        self.merge(REFERENCES_AT + 5 * slot, MASK_40, reference / 8);
        self.merge(TAGS_AT + slot, 0xFF, tag.into());
    }

    /// Empties `slot`.
    pub fn clear(self, slot: usize) {
        debug_assert!(slot < SLOTS_PER_BUCKET);
        self.merge(TAGS_AT + slot, 0xFF, 0);
    }

    /// Makes `next` what comes behind the bucket.
    pub fn set_next(self, next: Next) {
        let line = match next {
            Next::End => 0,
            Next::Spill => LINK_SPILLED,
            Next::Bucket(offset) => offset / LINE_BYTES,
        };
        debug_assert!(line <= LINK_SPILLED, "a link has 40 bits");
        self.merge(LINK_AT, MASK_40, line);
    }

    /// Empties all slots and the link; the sequence stays.
    pub fn reset(self) {
        const BYTES: [u8; 64 - TAGS_AT] = [0; 64 - TAGS_AT];
        // SAFETY: all from the tags on is inside the bucket, and widened to whole words still is,
        // as it is aligned to 64. It is committed memory that no other thread writes, by the
        // contract of `at`. A constant is no memory of the index.
        unsafe { store_bytes(self.pointer.add(TAGS_AT), &BYTES) };
    }

    /// Makes the sequence odd, as `rule` asks: readers of this chain wait or go away.
    #[inline(always)]
    pub fn begin(self, rule: Rule) {
        if holds(rule) {
            sequence::begin(self.first_word());
        }
        linger(rule);
    }

    /// Makes the sequence even again: the next one.
    #[inline(always)]
    pub fn end(self, rule: Rule) {
        linger(rule);
        if holds(rule) {
            sequence::end(self.first_word(), sequence::LOW_HALF);
        }
    }

    #[inline(always)]
    fn first_word(&self) -> &AtomicU64 {
        // SAFETY: the pointer is aligned to 64, and so to 8; that it leads to committed memory for
        // as long as the result is used is the contract of `at`: a table's index memory, which the
        // caller holds.
        unsafe { word(self.pointer) }
    }

    /// Replaces the bits of `mask` from byte `at` on by those of `value`: one word, or two. By
    /// shifts: a word that is put together from bytes in memory is waited for.
    #[inline(always)]
    fn merge(self, at: usize, mask: u64, value: u64) {
        let (index, shift) = (at / 8, at % 8 * 8);
        self.merge_word(index, mask << shift, value << shift);
        let beyond = |bits: u64| bits >> 1 >> (63 - shift);
        if beyond(mask) != 0 {
            self.merge_word(index + 1, beyond(mask), beyond(value));
        }
    }

    #[inline(always)]
    fn merge_word(self, index: usize, mask: u64, value: u64) {
        debug_assert!(index < 8, "a bucket has eight words");
        // SAFETY: the pointer is aligned to 64, so that the word is aligned to 8; it is one of the
        // bucket's eight, committed memory by the contract of `at`.
        let cell = unsafe { word(self.pointer.add(8 * index)) };
        cell.store(cell.load(Ordering::Relaxed) & !mask | value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn unaligned(self, at: usize) -> u64 {
        debug_assert!(at + 8 <= 64);
        // SAFETY: the callers read up to the end of the link or of one of nine references, and
        // begin three bytes before it, behind the tags' first: 8 bytes of the bucket, by the
        // contract of `at` committed, initialised, and written by no other thread. Any alignment
        // will do.
        u64::from_le(unsafe { self.pointer.add(at).cast::<u64>().read_unaligned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Line([u8; 64]);

    #[test]
    fn miri_slots_link_and_sequence_do_not_disturb_each_other() {
        let mut line = Line([0; 64]);
        // SAFETY: one aligned line that outlives the bucket.
        let bucket = unsafe { Bucket::at(line.0.as_mut_ptr()) };
        bucket.begin(Rule::OddWhileRelinking);
        bucket.set_next(Next::Bucket((LINK_SPILLED - 1) * 64));
        for slot in 0..SLOTS_PER_BUCKET {
            bucket.set(slot, 200 + slot as u8, (0xFF_0000_0000 + slot as u64) * 8);
        }
        bucket.clear(4);
        bucket.end(Rule::OddWhileRelinking);
        assert_eq!(bucket.occupied(), 0b1_1110_1111);
        assert_eq!(bucket.matches(208), 1 << 8);
        assert_eq!(bucket.link(), (LINK_SPILLED - 1) * 64);
        bucket.set_next(Next::Spill);
        assert_eq!((bucket.link(), bucket.next()), (0, Next::Spill));
        for slot in [0, 1, 2, 3, 5, 6, 7, 8] {
            assert_eq!(bucket.tag(slot), 200 + slot as u8);
            assert_eq!(bucket.reference(slot), (0xFF_0000_0000 + slot as u64) * 8);
        }
        bucket.begin(Rule::OddWhileRelinking);
        bucket.reset();
        bucket.end(Rule::OddWhileRelinking);
        assert_eq!((bucket.occupied(), bucket.link()), (0, 0));
        assert_eq!(line.0[0], 4, "two changes, four steps");
    }
}
