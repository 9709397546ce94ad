//! The free memory of the extent region: holes, which are touched memory, and gaps, which are not.
//!
//! Both sets live in private memory, because a gap has no memory to keep a word in, and because a
//! search by size or by address should not wait for cold lines of the arena. No two holes are
//! adjacent, and no two gaps; a hole and a gap may be.

use std::collections::{BTreeMap, BTreeSet};

/// A piece of free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub offset: u64,
    pub bytes: u64,
}

impl Piece {
    pub fn end(self) -> u64 {
        self.offset + self.bytes
    }
}

/// Holes, found by size for best fit and by address for merging and sliding.
#[derive(Default)]
pub(super) struct HoleSet {
    by_size: BTreeSet<(u64, u64)>,
    by_offset: RunMap,
}

impl HoleSet {
    /// Adds `piece` and merges it with the holes that touch it.
    pub fn add(&mut self, piece: Piece) {
        let merged = self.by_offset.add(piece);
        if merged.offset < piece.offset {
            self.by_size.remove(&(piece.offset - merged.offset, merged.offset));
        }
        if merged.end() > piece.end() {
            self.by_size.remove(&(merged.end() - piece.end(), piece.end()));
        }
        self.by_size.insert((merged.bytes, merged.offset));
    }

    /// Removes `piece`, which lies inside one hole; what is left on either side stays.
    pub fn carve(&mut self, piece: Piece) {
        let whole = self.by_offset.carve(piece);
        self.by_size.remove(&(whole.bytes, whole.offset));
        if whole.offset < piece.offset {
            self.by_size.insert((piece.offset - whole.offset, whole.offset));
        }
        if whole.end() > piece.end() {
            self.by_size.insert((whole.end() - piece.end(), piece.end()));
        }
    }

    /// Returns the smallest hole of at least `bytes`, the lowest of equal ones.
    pub fn best_fit(&self, bytes: u64) -> Option<Piece> {
        let &(bytes, offset) = self.by_size.range((bytes, 0)..).next()?;
        Some(Piece { offset, bytes })
    }

    /// Returns the size of the largest hole; 0 without any.
    pub fn largest_bytes(&self) -> u64 {
        self.by_size.last().map_or(0, |&(bytes, _)| bytes)
    }

    /// Returns the holes in the order of their addresses.
    pub fn runs(&self) -> &RunMap {
        &self.by_offset
    }
}

/// Pieces by address, merged where they touch, with their total size.
#[derive(Default)]
pub(super) struct RunMap {
    pieces: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RunMap {
    /// Adds `piece` and returns the piece that it is part of now.
    pub fn add(&mut self, piece: Piece) -> Piece {
        debug_assert!(!self.overlaps(piece), "{piece:x?} is free already");
        self.bytes += piece.bytes;
        let mut merged = piece;
        if let Some(next) = self.starting_at(piece.end()) {
            self.pieces.remove(&next.offset);
            merged.bytes += next.bytes;
        }
        if let Some(previous) = self.ending_at(piece.offset) {
            merged.offset = previous.offset;
            merged.bytes += previous.bytes;
        }
        self.pieces.insert(merged.offset, merged.bytes);
        merged
    }

    /// Removes `piece`, which lies inside one piece of the map, and returns that whole piece.
    pub fn carve(&mut self, piece: Piece) -> Piece {
        let whole = self.holding(piece.offset).expect("what is carved is free");
        assert!(whole.end() >= piece.end(), "{piece:x?} is not inside {whole:x?}");
        self.bytes -= piece.bytes;
        if whole.offset == piece.offset {
            self.pieces.remove(&whole.offset);
        } else {
            self.pieces.insert(whole.offset, piece.offset - whole.offset);
        }
        if whole.end() > piece.end() {
            self.pieces.insert(piece.end(), whole.end() - piece.end());
        }
        whole
    }

    /// Returns the size of all pieces together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the piece that starts at `offset`.
    pub fn starting_at(&self, offset: u64) -> Option<Piece> {
        self.pieces.get(&offset).map(|&bytes| Piece { offset, bytes })
    }

    /// Returns the piece that ends at `end`.
    pub fn ending_at(&self, end: u64) -> Option<Piece> {
        let (&offset, &bytes) = self.pieces.range(..end).next_back()?;
        (offset + bytes == end).then_some(Piece { offset, bytes })
    }

    /// Returns the piece that holds the byte at `offset`.
    pub fn holding(&self, offset: u64) -> Option<Piece> {
        let (&start, &bytes) = self.pieces.range(..=offset).next_back()?;
        (start + bytes > offset).then_some(Piece { offset: start, bytes })
    }

    /// Returns the pieces that start at `offset` or behind it, ascending.
    pub fn from(&self, offset: u64) -> impl Iterator<Item = Piece> + Clone {
        self.pieces.range(offset..).map(|(&offset, &bytes)| Piece { offset, bytes })
    }

    fn overlaps(&self, piece: Piece) -> bool {
        self.pieces
            .range(..piece.end())
            .next_back()
            .is_some_and(|(&offset, &bytes)| offset + bytes > piece.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(map: &RunMap) -> Vec<(u64, u64)> {
        map.from(0).map(|piece| (piece.offset, piece.bytes)).collect()
    }

    #[test]
    fn pieces_merge_where_they_touch_and_split_where_they_are_carved() {
        let mut holes = HoleSet::default();
        for (offset, bytes) in [(0, 64), (128, 64), (256, 64), (64, 64), (192, 64)] {
            holes.add(Piece { offset, bytes });
        }
        assert_eq!(pieces(holes.runs()), [(0, 320)]);
        holes.carve(Piece { offset: 64, bytes: 64 });
        holes.carve(Piece { offset: 256, bytes: 64 });
        assert_eq!(pieces(holes.runs()), [(0, 64), (128, 128)]);
        assert_eq!(holes.best_fit(65), Some(Piece { offset: 128, bytes: 128 }));
        assert_eq!((holes.runs().bytes(), holes.largest_bytes()), (192, 128));
        assert_eq!(holes.best_fit(129), None);
    }
}
