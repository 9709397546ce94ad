//! The tiling of the extent region: blocks, holes and gaps in the order of their addresses.
//!
//! It lies in private memory: a gap has no memory to keep words in, and a search by size or by
//! address must not wait for cold lines of the arena. Adjacent holes are merged at once, adjacent
//! gaps too, so that a freed block meets at most one hole on either side.

use std::collections::{BTreeMap, BTreeSet};

/// What a tile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Free memory that was written before.
    Hole,
    /// Addresses without memory: never given by the system yet, or given back.
    Gap,
    /// A block that something refers to.
    Block,
    /// A block that only waits for its pins.
    Retired,
}

/// One piece of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub offset: u64,
    pub bytes: u64,
    pub kind: Kind,
}

impl Tile {
    pub fn end(self) -> u64 {
        self.offset + self.bytes
    }

    /// Returns the tile if it is of `kind`.
    pub fn of(self, kind: Kind) -> Option<Tile> {
        (self.kind == kind).then_some(self)
    }
}

/// Size and kind in one word: sizes are multiples of 64.
#[derive(Clone, Copy)]
struct Packed(u64);

impl Packed {
    fn new(bytes: u64, kind: Kind) -> Packed {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(64), "a tile of {bytes} bytes");
        Packed(bytes | kind as u64)
    }

    fn at(self, offset: u64) -> Tile {
        let kind = match self.0 & 3 {
            0 => Kind::Hole,
            1 => Kind::Gap,
            2 => Kind::Block,
            _ => Kind::Retired,
        };
        Tile { offset, bytes: self.0 & !63, kind }
    }
}

/// The tiles by address, the holes also by size.
pub(super) struct Tiles {
    tiles: BTreeMap<u64, Packed>,
    holes: BTreeSet<(u64, u64)>,
    gaps: BTreeSet<u64>,
    hole_bytes: u64,
    gap_bytes: u64,
}

impl Tiles {
    /// Returns `base..end` as one gap.
    pub fn new(base: u64, end: u64) -> Tiles {
        let mut tiles = Tiles {
            tiles: BTreeMap::new(),
            holes: BTreeSet::new(),
            gaps: BTreeSet::new(),
            hole_bytes: 0,
            gap_bytes: 0,
        };
        tiles.put(Tile { offset: base, bytes: end - base, kind: Kind::Gap });
        tiles
    }

    /// Returns the tile that starts at `offset`.
    pub fn at(&self, offset: u64) -> Option<Tile> {
        self.tiles.get(&offset).map(|packed| packed.at(offset))
    }

    /// Returns the tile that ends at `offset`; `None` at the start of the region.
    pub fn before(&self, offset: u64) -> Option<Tile> {
        let (&start, packed) = self.tiles.range(..offset).next_back()?;
        Some(packed.at(start))
    }

    /// Returns the tile that holds the byte at `offset`, which is in the region.
    pub fn holding(&self, offset: u64) -> Tile {
        let last = self.tiles.range(..=offset).next_back();
        let (&start, packed) = last.expect("the region is tiled from its start");
        packed.at(start)
    }

    /// Returns the tiles from the one that starts at `offset` on, ascending.
    pub fn from(&self, offset: u64) -> impl Iterator<Item = Tile> + Clone {
        self.tiles.range(offset..).map(|(&offset, packed)| packed.at(offset))
    }

    /// Returns the gaps, ascending.
    pub fn gaps(&self) -> impl DoubleEndedIterator<Item = Tile> {
        self.gaps.iter().map(|&offset| self.at(offset).expect("a gap is a tile"))
    }

    /// Returns the holes of at least `bytes`, the smallest first, the lower of equal ones first.
    pub fn holes_of(&self, bytes: u64) -> impl Iterator<Item = Tile> {
        let kind = Kind::Hole;
        self.holes.range((bytes, 0)..).map(move |&(bytes, offset)| Tile { offset, bytes, kind })
    }

    /// Returns the smallest hole of at least `bytes`.
    pub fn best_fit(&self, bytes: u64) -> Option<Tile> {
        self.holes_of(bytes).next()
    }

    /// Returns the size of the largest hole; 0 without any.
    pub fn largest_hole(&self) -> u64 {
        self.holes.last().map_or(0, |&(bytes, _)| bytes)
    }

    /// Returns the number of tiles.
    pub fn len(&self) -> usize {
        self.tiles.len()
    }

    /// Returns the number of holes.
    pub fn hole_count(&self) -> usize {
        self.holes.len()
    }

    /// Returns the bytes of all holes.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// Returns the bytes of all gaps.
    pub fn gap_bytes(&self) -> u64 {
        self.gap_bytes
    }

    /// Makes the first `bytes` of the tile at `offset` a tile of `kind`; what is left behind it
    /// keeps its kind. A new hole or gap merges with its neighbours of the same kind.
    pub fn turn(&mut self, offset: u64, bytes: u64, kind: Kind) {
        let old = self.at(offset).expect("a tile starts where one is to be turned");
        assert!(bytes <= old.bytes && old.kind != kind, "{old:x?} becomes {bytes} of {kind:?}");
        self.unlist(old);
        if bytes < old.bytes {
            let rest = Tile { offset: offset + bytes, bytes: old.bytes - bytes, kind: old.kind };
            self.put(rest);
        }
        let mut tile = Tile { offset, bytes, kind };
        if matches!(kind, Kind::Hole | Kind::Gap) {
            tile = self.merged(tile);
        }
        self.put(tile);
    }

    /// Makes the tile that holds `offset` start there: what is before it becomes a tile of its own.
    pub fn split(&mut self, offset: u64) {
        let whole = self.holding(offset);
        if whole.offset < offset {
            self.unlist(whole);
            self.put(Tile { bytes: offset - whole.offset, ..whole });
            self.put(Tile { offset, bytes: whole.end() - offset, ..whole });
        }
    }

    /// Makes the block at `offset` take the first `bytes` of the hole behind it.
    pub fn grow(&mut self, offset: u64, bytes: u64) {
        let block = self.at(offset).expect("a block starts where it is grown");
        let hole = self.at(block.end()).and_then(|tile| tile.of(Kind::Hole));
        let hole = hole.expect("a block grows into the hole behind it");
        assert!(bytes <= hole.bytes, "{bytes} bytes of {hole:x?}");
        self.unlist(hole);
        self.tiles.remove(&hole.offset);
        if bytes < hole.bytes {
            let (offset, bytes) = (hole.offset + bytes, hole.bytes - bytes);
            self.put(Tile { offset, bytes, ..hole });
        }
        self.put(Tile { bytes: block.bytes + bytes, ..block });
    }

    /// Joins `tile`, which is in no list, with its neighbours of the same kind.
    fn merged(&mut self, tile: Tile) -> Tile {
        let mut merged = tile;
        if let Some(next) = self.at(tile.end()).and_then(|next| next.of(tile.kind)) {
            self.unlist(next);
            self.tiles.remove(&next.offset);
            merged.bytes += next.bytes;
        }
        if let Some(previous) = self.before(tile.offset).and_then(|tile| tile.of(merged.kind)) {
            self.unlist(previous);
            self.tiles.remove(&tile.offset);
            merged.offset = previous.offset;
            merged.bytes += previous.bytes;
        }
        merged
    }

    fn put(&mut self, tile: Tile) {
        self.tiles.insert(tile.offset, Packed::new(tile.bytes, tile.kind));
        match tile.kind {
            Kind::Hole => {
                self.holes.insert((tile.bytes, tile.offset));
                self.hole_bytes += tile.bytes;
            }
            Kind::Gap => {
                self.gaps.insert(tile.offset);
                self.gap_bytes += tile.bytes;
            }
            Kind::Block | Kind::Retired => {}
        }
    }

    fn unlist(&mut self, tile: Tile) {
        match tile.kind {
            Kind::Hole => {
                self.holes.remove(&(tile.bytes, tile.offset));
                self.hole_bytes -= tile.bytes;
            }
            Kind::Gap => {
                self.gaps.remove(&tile.offset);
                self.gap_bytes -= tile.bytes;
            }
            Kind::Block | Kind::Retired => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Block, Gap, Hole, Retired};

    fn list(tiles: &Tiles) -> Vec<(u64, u64, Kind)> {
        tiles.from(0).map(|tile| (tile.offset, tile.bytes, tile.kind)).collect()
    }

    #[test]
    fn tiles_split_and_merge_by_kind() {
        let mut tiles = Tiles::new(0, 1024);
        tiles.turn(0, 512, Hole);
        for offset in [0, 64, 128] {
            tiles.turn(offset, 64, Block);
        }
        tiles.turn(64, 64, Hole);
        assert_eq!(tiles.largest_hole(), 320);
        let whole = [(0, 64, Block), (64, 64, Hole), (128, 64, Block), (192, 320, Hole)];
        assert_eq!(list(&tiles)[..4], whole);
        tiles.turn(128, 64, Hole);
        assert_eq!(list(&tiles), [(0, 64, Block), (64, 448, Hole), (512, 512, Gap)]);
        tiles.grow(0, 128);
        tiles.turn(0, 192, Retired);
        tiles.split(256);
        tiles.turn(256, 256, Gap);
        assert_eq!(list(&tiles), [(0, 192, Retired), (192, 64, Hole), (256, 768, Gap)]);
        assert_eq!((tiles.hole_bytes(), tiles.gap_bytes()), (64, 768));
        assert_eq!((tiles.hole_count(), tiles.gaps().count()), (1, 1));
        assert_eq!(tiles.before(192).map(|tile| tile.kind), Some(Retired));
    }
}
