//! A value where it lies, which may change while it is looked at.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use base::ChangingBytes;

use crate::atomic_copy::load_bytes;

use super::Target;

/// The bytes of a value of the arena, without a copy. Another process may change them at any
/// moment: what is read of them means something once the read that they are part of has succeeded.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    /// The words that the bytes are in, and one more.
    words: &'a [AtomicU64],
    /// Where in the first word they begin: their first position.
    first: usize,
    length: usize,
}

impl<'a> SharedBytes<'a> {
    /// `length` bytes, which begin at byte `first` of `words` and end before the last of these.
    #[inline(always)]
    pub(super) fn new(words: &'a [AtomicU64], first: usize, length: usize) -> SharedBytes<'a> {
        debug_assert!(
            first < 8 && first + length <= 8 * (words.len() - 1),
            "a word is behind them"
        );
        SharedBytes { words, first, length }
    }

    /// Copies all of them to `target`, replacing what is in it.
    #[inline]
    pub fn copy_to(self, target: &mut Vec<u8>) {
        // SAFETY: the bytes begin `first` bytes behind the start of the words, and end before the
        // last, by the contract of `new`: the pointer stays in the slice, and the range, widened to
        // whole words, is a part of the slice, which is mapped memory.
        unsafe {
            let start = self.words.as_ptr().cast::<u8>().add(self.first);
            load_bytes(start, &mut target.room(self.length)[..self.length]);
        }
    }
}

impl ChangingBytes for SharedBytes<'_> {
    #[inline(always)]
    fn positions(self) -> Range<usize> {
        self.first..self.first + self.length
    }

    #[inline(always)]
    fn byte(self, at: usize) -> Option<u8> {
        let word = self.words.get(at / 8)?.load(Ordering::Relaxed);
        Some((word >> (at % 8 * 8)) as u8)
    }

    #[inline(always)]
    fn word(self, at: usize) -> Option<u64> {
        let [low, high] = self.words.get(at / 8..at / 8 + 2)? else { return None };
        let shift = at % 8 * 8;
        // Twice, as a shift by all 64 bits is none.
        let high = high.load(Ordering::Relaxed) << 1 << (63 - shift);
        Some(low.load(Ordering::Relaxed) >> shift | high)
    }
}
