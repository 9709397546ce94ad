//! The two words of a block that belong to the extent allocator: the tag and the owner.
//!
//! ```text
//! tag    0 32 lines of 64 bytes | 32 32 record of the tile
//! owner  0 4 database | 4 16 shard | 20 44 descriptor offset in units of 16 bytes
//! ```
//! The size is here and in the record: a value written past its block's end destroys the next
//! block's tag first, and the allocator stops there instead of spreading the damage.

use super::tiles::TileId;
use crate::layout::LINE_BYTES;

/// Who refers to a block, and so which shard's lock a move of it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOwner {
    /// The offset of the descriptor that holds the block's location: a multiple of 16.
    pub descriptor: u64,
    /// The shard whose lock guards the descriptor.
    pub shard: u16,
    /// The database of the entry, `0..16`.
    pub database: u8,
}

impl BlockOwner {
    const DESCRIPTOR_UNIT: u64 = 16;

    pub(super) fn to_word(self) -> u64 {
        assert_eq!(self.descriptor % BlockOwner::DESCRIPTOR_UNIT, 0, "descriptors are two words");
        assert!(self.descriptor < 1 << 48 && self.database < 16, "{self:?} has no packed form");
        (self.descriptor / BlockOwner::DESCRIPTOR_UNIT) << 20
            | u64::from(self.shard) << 4
            | u64::from(self.database)
    }

    pub(super) fn from_word(word: u64) -> BlockOwner {
        BlockOwner {
            descriptor: (word >> 20) * BlockOwner::DESCRIPTOR_UNIT,
            shard: (word >> 4) as u16,
            database: (word & 0xF) as u8,
        }
    }
}

/// A block's size and the record of its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The size of the block in bytes, header included: a multiple of 64.
    pub bytes: u64,
    /// The record of the block's tile, which says the same offset and size.
    pub tile: TileId,
}

impl Tag {
    /// The largest block: its lines fill 32 bits.
    pub const BYTES_MAX: u64 = (u32::MAX as u64) * LINE_BYTES;

    pub fn to_word(self) -> u64 {
        debug_assert!(self.bytes.is_multiple_of(LINE_BYTES) && self.bytes <= Tag::BYTES_MAX);
        (self.bytes / LINE_BYTES) | (u64::from(self.tile.0) << 32)
    }

    pub fn from_word(word: u64) -> Tag {
        Tag { bytes: (word & u64::from(u32::MAX)) * LINE_BYTES, tile: TileId((word >> 32) as u32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_back_what_was_packed() {
        for (descriptor, shard, database) in [(0, 0, 0), (1 << 47, u16::MAX, 15), (16, 1, 2)] {
            let owner = BlockOwner { descriptor, shard, database };
            assert_eq!(BlockOwner::from_word(owner.to_word()), owner);
        }
        for (bytes, tile) in [(64, 0), (Tag::BYTES_MAX, u32::MAX - 1)] {
            let tag = Tag { bytes, tile: TileId(tile) };
            assert_eq!(Tag::from_word(tag.to_word()), tag);
        }
    }
}
