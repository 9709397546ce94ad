//! The sequence protocol: one writer changes words that readers copy without a lock.
//!
//! A word counts the changes and is odd while one runs. A reader enters when it is even, copies
//! what it guards as relaxed words, settles, and believes the copy if the word is unchanged.
//!
//! ```text
//! writer                                reader
//! word = odd          (relaxed)         seen = word        (acquire; odd: go away)
//! fence               (release)         copy               (relaxed)
//! change              (relaxed)         settle: fence      (acquire)
//! word = next even    (release)         word == seen ?     (relaxed)
//! ```
//! If a reader copied a word of the change, its fence synchronises with the writer's, and so it
//! finds the odd word or a later one; a reader that entered after the change has all of it.
//!
//! Three words of the arena follow it, told apart by a mask. A table header's sequence is the
//! whole word ([`WHOLE`]). A bucket's is the low half of its first word ([`LOW_HALF`]), which the
//! one writer stores whole: the other half keeps the snapshot epoch and three tags. A descriptor's
//! location is a whole word whose bit 0 says "changing" and whose version counts; its writer ends
//! with the new location ([`end_with`]).
//!
//! *Not here*: what the words guard, retries, pins.

use std::sync::atomic::Ordering;

use crate::atomic_word::AtomicWord;

/// The mask of a sequence that has its word to itself.
pub const WHOLE: u64 = u64::MAX;
/// The mask of a sequence in the low 32 bits of a word.
pub const LOW_HALF: u64 = 0xFFFF_FFFF;

/// Marks what `cell` guards as changing. Only its one writer calls this.
#[inline(always)]
pub fn begin<W: AtomicWord>(cell: &W) {
    let image = cell.load(Ordering::Relaxed);
    debug_assert_eq!(image & 1, 0, "changes under one sequence do not nest");
    cell.store(image | 1, Ordering::Relaxed);
    // SYNC POINT: odd before the change. Pairs with the fence in `settle`.
    W::fence(Ordering::Release);
}

/// Ends what [`begin`] began: the part of the word in `mask` becomes the next even number.
#[inline(always)]
pub fn end<W: AtomicWord>(cell: &W, mask: u64) {
    let image = cell.load(Ordering::Relaxed);
    let next = (image & mask).wrapping_add(1) & mask;
    end_with(cell, image & !mask | next);
}

/// Ends what [`begin`] began with `image`, an even word that this cell has not held lately.
#[inline(always)]
pub fn end_with<W: AtomicWord>(cell: &W, image: u64) {
    debug_assert_eq!(cell.load(Ordering::Relaxed) & 1, 1, "a change ends that began");
    debug_assert_eq!(image & 1, 0, "the word is even between changes");
    // SYNC POINT: the change before even. Pairs with the load in `enter`.
    cell.store(image, Ordering::Release);
}

/// Makes the changes that this thread knows of visible before any store that follows. A writer
/// calls it before it fills memory that another entry had, which a late reader may still look at.
/// Another thread may have unlinked that entry, so that the call stands behind the allocation: the
/// allocator's lock is what tells this thread of it.
#[inline(always)]
pub fn before_reuse<W: AtomicWord>() {
    // SYNC POINT: unlinked before reused. Pairs with the fence in `settle`.
    W::fence(Ordering::Release);
}

/// Returns the word of `cell`, or `None` while what it guards changes.
#[inline(always)]
pub fn enter<W: AtomicWord>(cell: &W) -> Option<u64> {
    // SYNC POINT: the change before even. Pairs with the store in `end_with`.
    let seen = cell.load(Ordering::Acquire);
    (seen & 1 == 0).then_some(seen)
}

/// Completes the reader's loads so far, before the checks that [`still`] makes.
#[inline(always)]
pub fn settle<W: AtomicWord>() {
    // SYNC POINT: odd before the change. Pairs with the fence in `begin`.
    W::fence(Ordering::Acquire);
}

/// Returns whether nothing under `cell` has changed since [`enter`] returned `seen`. The caller
/// has called [`settle`] after its last load of guarded words.
#[inline(always)]
pub fn still<W: AtomicWord>(cell: &W, seen: u64, mask: u64) -> bool {
    (cell.load(Ordering::Relaxed) ^ seen) & mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn miri_reader_goes_away_while_odd_and_sees_that_it_changed() {
        let cell = AtomicU64::new(6);
        let seen = enter(&cell).unwrap();
        begin(&cell);
        assert_eq!(enter(&cell), None);
        end(&cell, WHOLE);
        settle::<AtomicU64>();
        assert!(!still(&cell, seen, WHOLE));
        assert_eq!(enter(&cell), Some(8));
    }

    #[test]
    fn low_half_wraps_and_leaves_the_high_half_alone() {
        let cell = AtomicU64::new(0xABCD_0123_FFFF_FFFE);
        let seen = enter(&cell).unwrap();
        begin(&cell);
        end(&cell, LOW_HALF);
        assert_eq!(enter(&cell), Some(0xABCD_0123_0000_0000));
        assert!(!still(&cell, seen, LOW_HALF));
        cell.store(0x1111_1111_0000_0000, Ordering::Relaxed);
        assert!(still(&cell, 0xABCD_0123_0000_0000, LOW_HALF), "only the sequence counts");
    }
}
