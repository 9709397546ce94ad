//! Clearing: a part of the region loses its blocks to holes elsewhere, so that it becomes one hole.
//!
//! Where eviction has left many small holes, sliding would have to move all that lies between them.
//! A part that is as long as the hole that is wanted has no more bytes of blocks than that, and
//! each of them may find a hole of its own size: what is moved is bounded by what is wanted.

use std::ops::Range;

use super::slide::{MOVED_BYTES_MAX, Obstacle, SCAN_TILES, SCAN_TILES_MAX};
use super::{ExtentSpace, Kind, Tile, TileId, Tiles, block_size};

/// Tiles in a row, while a part of the region is looked for.
#[derive(Clone, Copy, Default)]
struct Row {
    first: Option<TileId>,
    bytes: u64,
    /// What of them is in blocks.
    block_bytes: u64,
}

impl ExtentSpace {
    /// Returns a part of the region of at least `bytes` that can be cleared, of those that a search
    /// from the cursor on meets the one whose blocks take the fewest bytes; `None` where it meets
    /// none. The blocks at `kept` (ascending) are part of none. Costs a walk over at most
    /// [`SCAN_TILES_MAX`] tiles.
    pub fn find_part_to_clear(&self, bytes: u64, kept: &[u64]) -> Option<Range<u64>> {
        let bytes = block_size(bytes);
        let (mut id, mut row, mut best) = (self.tiles.cursor(), Row::default(), None);
        for count in 1..=self.tiles.len().min(SCAN_TILES_MAX) {
            self.extend_row(&mut row, id, bytes, kept);
            let is_better = best.as_ref().is_none_or(|(least, _)| row.block_bytes < *least);
            if row.bytes >= bytes && is_better {
                let first = row.first.expect("it has bytes");
                let part = self.tiles.get(first).offset..self.tiles.get(id).end();
                best = Some((row.block_bytes, part));
            }
            id = self.tiles.next(id).unwrap_or_else(|| {
                row = Row::default();
                Tiles::FIRST
            });
            if count.is_multiple_of(SCAN_TILES) && best.is_some() {
                break;
            }
        }
        best.map(|(_, part)| part)
    }

    /// Returns what is in the way of `part` becoming one hole, which
    /// [`ExtentSpace::find_part_to_clear`] has found.
    pub fn plan_clearing(&mut self, part: &Range<u64>) -> Obstacle {
        let block = self.tiles_from_cursor().find(|&(_, tile)| {
            !tile.is_free() && part.start <= tile.offset && tile.offset < part.end
        });
        match block {
            Some((block, tile)) => Obstacle::Block(self.plan_away(block, tile, part.clone())),
            None => Obstacle::None { untouched_bytes: 0 },
        }
    }

    /// Adds the tile `id` to `row`, and takes from its start what `bytes` can be had without.
    fn extend_row(&self, row: &mut Row, id: TileId, bytes: u64, kept: &[u64]) {
        let tile = self.tiles.get(id);
        let is_clearable = match tile.kind {
            Kind::Hole => true,
            Kind::Block => {
                tile.bytes <= MOVED_BYTES_MAX && kept.binary_search(&tile.offset).is_err()
            }
            Kind::Gap | Kind::Retired | Kind::Reserved => false,
        };
        if !is_clearable {
            *row = Row::default();
            return;
        }
        row.first.get_or_insert(id);
        row.bytes += tile.bytes;
        row.block_bytes += block_bytes(tile);
        while let Some(first) = row.first {
            let tile = self.tiles.get(first);
            if row.bytes - tile.bytes < bytes {
                break;
            }
            row.bytes -= tile.bytes;
            row.block_bytes -= block_bytes(tile);
            row.first = self.tiles.next(first);
        }
    }

    /// Returns as many tiles as one search looks at.
    fn tiles_from_cursor(&self) -> impl Iterator<Item = (TileId, Tile)> {
        let next = |&id: &TileId| Some(self.tiles.next(id).unwrap_or(Tiles::FIRST));
        let ids = std::iter::successors(Some(self.tiles.cursor()), next);
        ids.take(self.tiles.len().min(SCAN_TILES_MAX)).map(|id| (id, self.tiles.get(id)))
    }
}

fn block_bytes(tile: Tile) -> u64 {
    if tile.is_free() { 0 } else { tile.bytes }
}
