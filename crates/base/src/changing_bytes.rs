//! Bytes that another process may change while they are looked at.

use std::ops::Range;

/// Bytes that may change at any moment, so that no slice can be made of them. Each call returns
/// what is there at its moment; whether several calls belong together, the caller finds out
/// afterwards.
///
/// They are at positions that need not begin with 0: what lies in words is found without adding
/// where it begins.
pub trait ChangingBytes: Copy {
    /// Returns the positions of all of them.
    fn positions(self) -> Range<usize>;

    /// Returns the byte at `at`, `None` far behind the end; just behind it, anything.
    fn byte(self, at: usize) -> Option<u8>;

    /// Returns the eight bytes from `at` on as a little-endian word; behind the end they are
    /// anything. `None` where `at` is far behind the end.
    fn word(self, at: usize) -> Option<u64>;

    /// Appends those in `range` to `target`; `None` where there are no such bytes.
    #[inline]
    fn append_to(self, range: Range<usize>, target: &mut Vec<u8>) -> Option<()> {
        let all = self.positions();
        if range.start < all.start || range.start > range.end || range.end > all.end {
            return None;
        }
        let (free, whole) = (target.capacity() - target.len(), range.len().next_multiple_of(16));
        if free < whole {
            if free >= range.len() {
                return self.append_tightly(range, target);
            }
            target.reserve(whole);
        }
        let length = target.len() + range.len();
        // Two words at once, of which the last bytes may be too many: moving a few costs more.
        for at in range.step_by(16) {
            // Far behind the end are none, and none are needed.
            let (low, high) = (self.word(at)?, self.word(at + 8).unwrap_or(0));
            target.extend_from_slice(&(u128::from(high) << 64 | u128::from(low)).to_le_bytes());
        }
        target.truncate(length);
        Some(())
    }

    /// As [`ChangingBytes::append_to`], for a `range` of these bytes and a target that has room for
    /// them and not for two whole words at once: it does not grow.
    #[cold]
    fn append_tightly(self, range: Range<usize>, target: &mut Vec<u8>) -> Option<()> {
        let tail = range.end - range.len() % 8;
        for at in (range.start..tail).step_by(8) {
            target.extend_from_slice(&self.word(at)?.to_le_bytes());
        }
        for at in tail..range.end {
            target.push(self.byte(at)?);
        }
        Some(())
    }
}

impl ChangingBytes for &[u8] {
    #[inline]
    fn positions(self) -> Range<usize> {
        0..self.len()
    }

    #[inline]
    fn byte(self, at: usize) -> Option<u8> {
        self.get(at).copied()
    }

    #[inline]
    fn word(self, at: usize) -> Option<u64> {
        let rest = self.get(at..)?;
        let (mut word, count) = ([0; 8], rest.len().min(8));
        word[..count].copy_from_slice(&rest[..count]);
        Some(u64::from_le_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended_and_a_target_with_room_for_them_does_not_grow() {
        let bytes: Vec<u8> = (0..60).collect();
        for length in 0..40 {
            for spare in 0..20 {
                let mut target = Vec::with_capacity(3 + length + spare);
                target.extend_from_slice(b"old");
                let before = target.as_ptr();
                assert_eq!(bytes.as_slice().append_to(7..7 + length, &mut target), Some(()));
                assert_eq!(target, [b"old", &bytes[7..7 + length]].concat());
                assert!(std::ptr::eq(before, target.as_ptr()), "{length} and {spare}");
            }
            let mut target = Vec::new();
            assert_eq!(bytes.as_slice().append_to(1..1 + length, &mut target), Some(()));
            assert_eq!(target, &bytes[1..1 + length]);
        }
        assert_eq!(bytes.as_slice().append_to(50..61, &mut Vec::new()), None);
    }
}
