//! The two words of a block that belong to the extent allocator: the tag and the owner.
//!
//! ```text
//! tag    0 32 lines of 64 bytes | 32 retired | 33 7 zero | 40 24 check
//! owner  0 4 database | 4 16 shard | 20 44 descriptor offset in units of 16 bytes
//! ```
//! The check depends on the block's offset, so that a stale or overwritten tag is not taken for a
//! tag: a value written past its block's end destroys the next block's tag first, and the
//! allocator stops there instead of spreading the damage.

use crate::layout::LINE_BYTES;

/// Who refers to a block, and so which shard's lock a move of it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The offset of the descriptor that holds the block's location: a multiple of 16.
    pub descriptor: u64,
    /// The shard whose lock guards the descriptor.
    pub shard: u16,
    /// The database of the entry, `0..16`.
    pub database: u8,
}

impl Owner {
    const DESCRIPTOR_UNIT: u64 = 16;

    pub(super) fn to_word(self) -> u64 {
        assert_eq!(self.descriptor % Owner::DESCRIPTOR_UNIT, 0, "descriptors are two words");
        assert!(self.descriptor < 1 << 48 && self.database < 16, "{self:?} has no packed form");
        (self.descriptor / Owner::DESCRIPTOR_UNIT) << 20
            | u64::from(self.shard) << 4
            | u64::from(self.database)
    }

    pub(super) fn from_word(word: u64) -> Owner {
        Owner {
            descriptor: (word >> 20) * Owner::DESCRIPTOR_UNIT,
            shard: (word >> 4) as u16,
            database: (word & 0xF) as u8,
        }
    }
}

/// A block's size and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The size of the block in bytes, header included: a multiple of 64.
    pub bytes: u64,
    /// Whether the block is unlinked and only waits for its pins.
    pub retired: bool,
}

impl Tag {
    /// The largest block: its lines fill 32 bits.
    pub const BYTES_MAX: u64 = (u32::MAX as u64) * LINE_BYTES;
    const RETIRED: u64 = 1 << 32;
    const CHECK_SHIFT: u32 = 40;

    pub fn to_word(self, offset: u64) -> u64 {
        debug_assert!(self.bytes % LINE_BYTES == 0 && self.bytes <= Tag::BYTES_MAX);
        let retired = if self.retired { Tag::RETIRED } else { 0 };
        self.bytes / LINE_BYTES | retired | check_of(offset) << Tag::CHECK_SHIFT
    }

    /// Returns the tag in `word`, or `None` when `word` is not the tag of a block at `offset`.
    pub fn from_word(word: u64, offset: u64) -> Option<Tag> {
        let lines = word & u64::from(u32::MAX);
        let middle = word >> 33 & 0x7F;
        (word >> Tag::CHECK_SHIFT == check_of(offset) && middle == 0 && lines != 0)
            .then_some(Tag { bytes: lines * LINE_BYTES, retired: word & Tag::RETIRED != 0 })
    }
}

/// Returns 24 bits that differ between neighbouring lines and are never zero.
fn check_of(offset: u64) -> u64 {
    (offset / LINE_BYTES).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_back_what_was_packed() {
        for (descriptor, shard, database) in [(0, 0, 0), (1 << 47, u16::MAX, 15), (16, 1, 2)] {
            let owner = Owner { descriptor, shard, database };
            assert_eq!(Owner::from_word(owner.to_word()), owner);
        }
        for (bytes, retired) in [(64, false), (Tag::BYTES_MAX, true)] {
            let tag = Tag { bytes, retired };
            assert_eq!(Tag::from_word(tag.to_word(0x1_0040), 0x1_0040), Some(tag));
            assert_eq!(Tag::from_word(tag.to_word(0x1_0040), 0x1_0080), None, "another offset");
        }
        assert_eq!(Tag::from_word(0, 0), None, "zeroed memory is no block");
    }
}
