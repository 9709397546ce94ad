//! The tiling of the extent region: blocks, holes and gaps in the order of their addresses.
//!
//! Each tile is a record of 32 bytes in private memory, linked to its neighbours, and each hole to
//! the others of its bin. Private, because a gap has no memory to keep words in, and because a
//! search must not wait for cold lines of the arena. Adjacent holes are merged at once, adjacent
//! gaps too, so that a freed block has at most one hole on either side.

use std::ops::Range;

use base::prng::Prng;

use super::bins::{Bins, NONE, bin_of};

/// How many holes of one bin are compared for the best fit.
const FIT_TRIED_MAX: usize = 32;

/// Names a record; valid until the tile merges with the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileId(pub u32);

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
    /// A block that nothing refers to yet.
    Reserved,
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

    pub fn is_free(self) -> bool {
        matches!(self.kind, Kind::Hole | Kind::Gap)
    }
}

/// A tile with its links. The bin links of a block are unused.
#[derive(Clone, Copy)]
struct Record {
    offset: u64,
    /// Size and kind in one word: sizes are multiples of 64.
    packed: u64,
    previous: u32,
    next: u32,
    bin_previous: u32,
    bin_next: u32,
}

const _: () = assert!(size_of::<Record>() == 32);

impl Record {
    fn tile(&self) -> Tile {
        let kind = match self.packed & 63 {
            0 => Kind::Hole,
            1 => Kind::Gap,
            2 => Kind::Block,
            3 => Kind::Retired,
            _ => Kind::Reserved,
        };
        Tile { offset: self.offset, bytes: self.packed & !63, kind }
    }

    fn set(&mut self, tile: Tile) {
        debug_assert!(tile.bytes > 0 && tile.bytes.is_multiple_of(64), "{tile:x?}");
        self.offset = tile.offset;
        self.packed = tile.bytes | tile.kind as u64;
    }
}

/// How many records a sample looks at.
const RECORDS_TRIED_MAX: u64 = 64;
/// How far it walks over the tiles where there are few among the records.
const TILES_WALKED_MAX: u64 = 256;

/// The tiles by address, the holes also by size.
pub(super) struct Tiles {
    records: Vec<Record>,
    /// The first unused record; they are linked by `next`.
    unused: u32,
    bins: Bins,
    /// The gaps, in no order.
    gaps: Vec<TileId>,
    /// The tile that ends the region.
    last: TileId,
    /// Where the next search of a part of the tiles starts.
    cursor: TileId,
    tile_count: usize,
    hole_count: usize,
    hole_bytes: u64,
    gap_bytes: u64,
}

impl Tiles {
    /// The tile that starts the region: it merges with none before it.
    pub const FIRST: TileId = TileId(0);

    /// Returns `range` as one gap.
    pub fn new(range: Range<u64>) -> Tiles {
        let mut tiles = Tiles {
            records: Vec::new(),
            unused: NONE,
            bins: Bins::new(),
            gaps: Vec::new(),
            last: Tiles::FIRST,
            cursor: Tiles::FIRST,
            tile_count: 0,
            hole_count: 0,
            hole_bytes: 0,
            gap_bytes: 0,
        };
        let bytes = range.end - range.start;
        tiles.add(Tile { offset: range.start, bytes, kind: Kind::Gap }, NONE, NONE);
        tiles
    }

    /// Returns the tile that `id` names.
    #[inline]
    pub fn get(&self, id: TileId) -> Tile {
        self.records[id.0 as usize].tile()
    }

    /// Returns the tile that `id` names if it starts at `offset`, for an `id` from memory that
    /// may be out of date.
    pub fn check(&self, id: TileId, offset: u64) -> Option<Tile> {
        let record = self.records.get(id.0 as usize)?;
        // An unused record has size 0.
        (record.offset == offset && record.packed != 0).then(|| record.tile())
    }

    /// Returns the tile behind that of `id`; `None` at the end of the region.
    #[inline]
    pub fn next(&self, id: TileId) -> Option<TileId> {
        some(self.records[id.0 as usize].next)
    }

    /// Returns the tile before that of `id`; `None` at the start of the region.
    #[inline]
    pub fn previous(&self, id: TileId) -> Option<TileId> {
        some(self.records[id.0 as usize].previous)
    }

    /// Returns the tile behind that of `id` if it is of `kind`.
    pub fn next_of(&self, id: TileId, kind: Kind) -> Option<TileId> {
        self.next(id).filter(|&next| self.get(next).kind == kind)
    }

    /// Returns the tile before that of `id` if it is of `kind`.
    pub fn previous_of(&self, id: TileId, kind: Kind) -> Option<TileId> {
        self.previous(id).filter(|&previous| self.get(previous).kind == kind)
    }

    /// Returns the tile that ends the region.
    pub fn last(&self) -> TileId {
        self.last
    }

    /// Returns the gaps, in no order.
    pub fn gaps(&self) -> &[TileId] {
        &self.gaps
    }

    /// Returns where the next search of a part of the tiles starts: always a tile.
    pub fn cursor(&self) -> TileId {
        self.cursor
    }

    /// Sets where the next search starts.
    pub fn set_cursor(&mut self, id: TileId) {
        self.cursor = id;
    }

    /// Returns a hole of at least `bytes`, the best of the first [`FIT_TRIED_MAX`] in the lowest
    /// bin that has one.
    pub fn best_fit(&self, bytes: u64) -> Option<TileId> {
        let own = bin_of(bytes);
        self.best_in(own, bytes).or_else(|| {
            let above = self.bins.filled_from(own + 1)?;
            self.best_in(above, bytes)
        })
    }

    /// Returns the smallest of the first holes of `bin` that have at least `bytes`.
    fn best_in(&self, bin: usize, bytes: u64) -> Option<TileId> {
        self.in_bin(bin)
            .take(FIT_TRIED_MAX)
            .filter(|&id| self.get(id).bytes >= bytes)
            .min_by_key(|&id| self.get(id).bytes)
    }

    /// Returns the holes that are in the bin of `bytes` or a higher one, from the largest bin down.
    pub fn holes_down_to(&self, bytes: u64) -> impl Iterator<Item = (TileId, Tile)> {
        let floor = bin_of(bytes);
        let bins = (floor..=self.bins.last().unwrap_or(0)).rev();
        bins.flat_map(|bin| self.in_bin(bin)).map(|id| (id, self.get(id)))
    }

    /// Returns the tiles from `id` on, ascending.
    #[cfg(test)]
    pub fn from(&self, id: TileId) -> impl Iterator<Item = (TileId, Tile)> {
        std::iter::successors(Some(id), |&id| self.next(id)).map(|id| (id, self.get(id)))
    }

    /// Returns the size of the largest hole; 0 without any.
    pub fn largest_hole(&self) -> u64 {
        let Some(bin) = self.bins.last() else { return 0 };
        let largest = self.in_bin(bin).map(|id| self.get(id).bytes).max();
        largest.expect("a filled bin has a hole")
    }

    /// Returns the bin of the largest hole; `None` without any.
    pub fn largest_hole_bin(&self) -> Option<usize> {
        self.bins.last()
    }

    /// Returns the holes of at least `low` and at most `high` bytes among the first
    /// [`FIT_TRIED_MAX`] of each of their bins.
    pub fn holes_between(&self, low: u64, high: u64) -> impl Iterator<Item = (TileId, Tile)> {
        (bin_of(low)..=bin_of(high))
            .flat_map(|bin| self.in_bin(bin).take(FIT_TRIED_MAX))
            .map(|id| (id, self.get(id)))
            .filter(move |(_, hole)| (low..=high).contains(&hole.bytes))
    }

    /// Returns whether one of `bins` has a hole.
    pub fn has_hole_in(&self, bins: Range<usize>) -> bool {
        self.bins.filled_from(bins.start).is_some_and(|bin| bin < bins.end)
    }

    fn in_bin(&self, bin: usize) -> impl Iterator<Item = TileId> {
        let next = |id: &TileId| some(self.records[id.0 as usize].bin_next);
        std::iter::successors(some(self.bins.head(bin)), next)
    }

    /// Returns a block chosen by `random`, every block as likely as any other unless most records
    /// are unused.
    pub fn some_block(&self, random: u64) -> Option<Tile> {
        let (mut random, count) = (Prng::new(random), self.records.len() as u64);
        // An unused record has size 0.
        let is_block = |tile: &Tile| tile.kind == Kind::Block && tile.bytes > 0;
        for _ in 0..RECORDS_TRIED_MAX {
            // Another record at each try: to go on to the next one would choose a block the more
            // often the longer the run of other records before it is.
            let tile = self.records[random.below(count) as usize].tile();
            if is_block(&tile) {
                return Some(tile);
            }
        }
        // Most records are unused, so that there are few tiles now; free ones never adjoin in
        // threes.
        let skipped = random.below((self.tile_count as u64).min(TILES_WALKED_MAX));
        let mut tiles = self.around(self.cursor).skip(skipped as usize);
        tiles.by_ref().take(TILES_WALKED_MAX as usize).find(is_block)
    }

    /// Returns the tiles from `id` on to the end of the region, and then once from its start.
    fn around(&self, id: TileId) -> impl Iterator<Item = Tile> {
        let from = |id| std::iter::successors(Some(id), |&id| self.next(id));
        from(id).chain(from(Tiles::FIRST)).map(|id| self.get(id))
    }

    /// Returns the number of tiles.
    pub fn len(&self) -> usize {
        self.tile_count
    }

    /// Returns the number of holes.
    pub fn hole_count(&self) -> usize {
        self.hole_count
    }

    /// Returns the bytes of all holes.
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// Returns the bytes of all gaps.
    pub fn gap_bytes(&self) -> u64 {
        self.gap_bytes
    }

    /// Returns the private memory that the tiles take, in bytes.
    pub fn private_bytes(&self) -> u64 {
        let records = self.records.capacity() * size_of::<Record>();
        let gaps = self.gaps.capacity() * size_of::<TileId>();
        (records + gaps) as u64 + self.bins.private_bytes()
    }

    /// Makes the first `bytes` of the tile `id` a tile of `kind`; what is left behind it keeps its
    /// kind. A new hole or gap merges with its neighbours of the same kind. Returns the tile that
    /// the bytes are part of now.
    pub fn turn(&mut self, id: TileId, bytes: u64, kind: Kind) -> TileId {
        let old = self.get(id);
        assert!(bytes <= old.bytes && old.kind != kind, "{old:x?} becomes {bytes} of {kind:?}");
        self.unlist(id, old);
        if bytes < old.bytes {
            let rest =
                Tile { offset: old.offset + bytes, bytes: old.bytes - bytes, kind: old.kind };
            self.add(rest, id.0, self.records[id.0 as usize].next);
        }
        let mut merged = Tile { offset: old.offset, bytes, kind };
        let mut name = id;
        if matches!(kind, Kind::Hole | Kind::Gap) {
            if let Some(next) = self.next_of(id, kind) {
                merged.bytes += self.drop_tile(next);
            }
            if let Some(previous) = self.previous_of(id, kind) {
                let before = self.get(previous);
                self.unlist(previous, before);
                self.unlink(id);
                merged = Tile { bytes: before.bytes + merged.bytes, ..before };
                name = previous;
            }
        }
        self.records[name.0 as usize].set(merged);
        self.list(name, merged);
        name
    }

    /// Cuts the first `bytes` off the tile `id` and returns the tile of the rest, of the same kind.
    pub fn split(&mut self, id: TileId, bytes: u64) -> TileId {
        let whole = self.get(id);
        assert!(bytes < whole.bytes, "{bytes} bytes are not a part of {whole:x?}");
        self.unlist(id, whole);
        let front = Tile { bytes, ..whole };
        self.records[id.0 as usize].set(front);
        self.list(id, front);
        let rest = Tile { offset: whole.offset + bytes, bytes: whole.bytes - bytes, ..whole };
        self.add(rest, id.0, self.records[id.0 as usize].next)
    }

    /// Makes the block `id` take the first `bytes` of the hole behind it.
    pub fn grow(&mut self, id: TileId, bytes: u64) {
        let hole = self.next_of(id, Kind::Hole).expect("a block grows into the hole behind it");
        let taken = self.turn(hole, bytes, Kind::Block);
        let block = self.get(id);
        let taken_bytes = self.drop_tile(taken);
        self.records[id.0 as usize].set(Tile { bytes: block.bytes + taken_bytes, ..block });
    }

    /// Removes the tile `id`, whose bytes become part of the one before it, and returns how many.
    fn drop_tile(&mut self, id: TileId) -> u64 {
        let tile = self.get(id);
        self.unlist(id, tile);
        self.unlink(id);
        tile.bytes
    }

    fn add(&mut self, tile: Tile, previous: u32, next: u32) -> TileId {
        let id = self.take_record();
        let record = &mut self.records[id.0 as usize];
        record.set(tile);
        (record.previous, record.next) = (previous, next);
        match some(previous) {
            Some(previous) => self.records[previous.0 as usize].next = id.0,
            None => debug_assert_eq!(id, Tiles::FIRST),
        }
        match some(next) {
            Some(next) => self.records[next.0 as usize].previous = id.0,
            None => self.last = id,
        }
        self.tile_count += 1;
        self.list(id, tile);
        id
    }

    fn take_record(&mut self) -> TileId {
        if let Some(id) = some(self.unused) {
            self.unused = self.records[id.0 as usize].next;
            return id;
        }
        let id = TileId(self.records.len() as u32);
        assert!(id.0 != NONE, "as many tiles as a record's links can name");
        let (offset, packed) = (0, 0);
        let [previous, next, bin_previous, bin_next] = [NONE; 4];
        self.records.push(Record { offset, packed, previous, next, bin_previous, bin_next });
        id
    }

    /// Takes the record `id`, which is in no bin, out of the order of addresses and frees it.
    fn unlink(&mut self, id: TileId) {
        let Record { previous, next, .. } = self.records[id.0 as usize];
        let before = some(previous).expect("the first tile merges with none before it");
        self.records[before.0 as usize].next = next;
        match some(next) {
            Some(next) => self.records[next.0 as usize].previous = previous,
            None => self.last = before,
        }
        if self.cursor == id {
            self.cursor = before;
        }
        let record = &mut self.records[id.0 as usize];
        record.packed = 0;
        record.next = self.unused;
        self.unused = id.0;
        self.tile_count -= 1;
    }

    /// Enters a free tile where it is found by size or kind.
    fn list(&mut self, id: TileId, tile: Tile) {
        match tile.kind {
            Kind::Hole => {
                let bin = bin_of(tile.bytes);
                let head = self.bins.head(bin);
                if let Some(head) = some(head) {
                    self.records[head.0 as usize].bin_previous = id.0;
                }
                let record = &mut self.records[id.0 as usize];
                (record.bin_previous, record.bin_next) = (NONE, head);
                self.bins.set_head(bin, id.0);
                self.hole_bytes += tile.bytes;
                self.hole_count += 1;
            }
            Kind::Gap => {
                self.gaps.push(id);
                self.gap_bytes += tile.bytes;
            }
            Kind::Block | Kind::Retired | Kind::Reserved => {}
        }
    }

    fn unlist(&mut self, id: TileId, tile: Tile) {
        match tile.kind {
            Kind::Hole => {
                let Record { bin_previous, bin_next, .. } = self.records[id.0 as usize];
                match some(bin_previous) {
                    Some(previous) => self.records[previous.0 as usize].bin_next = bin_next,
                    None => self.bins.set_head(bin_of(tile.bytes), bin_next),
                }
                if let Some(next) = some(bin_next) {
                    self.records[next.0 as usize].bin_previous = bin_previous;
                }
                self.hole_bytes -= tile.bytes;
                self.hole_count -= 1;
            }
            Kind::Gap => {
                let place = self.gaps.iter().position(|&gap| gap == id).expect("a gap is listed");
                self.gaps.swap_remove(place);
                self.gap_bytes -= tile.bytes;
            }
            Kind::Block | Kind::Retired | Kind::Reserved => {}
        }
    }
}

fn some(record: u32) -> Option<TileId> {
    (record != NONE).then_some(TileId(record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Block, Gap, Hole, Retired};

    fn list(tiles: &Tiles) -> Vec<(u64, u64, Kind)> {
        tiles.from(Tiles::FIRST).map(|(_, tile)| (tile.offset, tile.bytes, tile.kind)).collect()
    }

    #[test]
    fn tiles_split_and_merge_by_kind() {
        let mut tiles = Tiles::new(0..1024);
        let hole = tiles.turn(Tiles::FIRST, 512, Hole);
        let first = tiles.turn(hole, 64, Block);
        let second = tiles.turn(tiles.next(first).unwrap(), 64, Block);
        let third = tiles.turn(tiles.next(second).unwrap(), 64, Block);
        tiles.turn(second, 64, Hole);
        let start = [(0, 64, Block), (64, 64, Hole), (128, 64, Block), (192, 320, Hole)];
        assert_eq!(list(&tiles)[..4], start);
        let merged = tiles.turn(third, 64, Hole);
        assert_eq!(list(&tiles), [(0, 64, Block), (64, 448, Hole), (512, 512, Gap)]);
        assert_eq!(
            (merged, tiles.best_fit(448), tiles.best_fit(449)),
            (second, Some(second), None)
        );
        tiles.grow(first, 128);
        tiles.turn(first, 192, Retired);
        let hole = tiles.next(first).unwrap();
        let rest = tiles.split(hole, 64);
        let gap = tiles.turn(rest, 256, Gap);
        assert_eq!(list(&tiles), [(0, 192, Retired), (192, 64, Hole), (256, 768, Gap)]);
        assert_eq!((tiles.hole_bytes(), tiles.gap_bytes()), (64, 768));
        assert_eq!((tiles.hole_count(), tiles.len(), tiles.gaps()), (1, 3, &[gap][..]));
        assert_eq!((tiles.last(), tiles.previous(gap)), (gap, Some(hole)));
    }

    #[test]
    fn the_best_of_a_bin_is_taken() {
        let mut tiles = Tiles::new(0..1 << 20);
        let mut id = tiles.turn(Tiles::FIRST, 1 << 20, Hole);
        // Holes of 8192 + 64 n bytes share bins of 256 bytes; blocks keep them apart.
        for step in [3, 1, 2, 0] {
            id = tiles.turn(id, 8192 + 64 * step, Block);
            id = tiles.turn(tiles.next(id).unwrap(), 64, Block);
            id = tiles.next(id).unwrap();
        }
        tiles.turn(id, tiles.get(id).bytes, Block);
        let blocks: Vec<_> =
            tiles.from(Tiles::FIRST).filter(|(_, tile)| tile.bytes >= 8192).collect();
        for &(id, tile) in &blocks[..4] {
            tiles.turn(id, tile.bytes, Hole);
        }
        let best = |bytes| tiles.best_fit(bytes).map(|id| tiles.get(id).bytes);
        assert_eq!([best(8192), best(8193), best(8257)], [Some(8192), Some(8256), Some(8320)]);
        assert_eq!([best(8192 + 192), best(8192 + 193)], [Some(8192 + 192), None]);
    }

    /// Blocks whose records stand behind long runs of other records are drawn no more often.
    #[test]
    fn every_block_is_drawn_as_often_as_any_other() {
        const BLOCKS: u64 = 500;
        const DRAWS: u64 = 1_000;
        let mut tiles = Tiles::new(0..BLOCKS * 64);
        let mut id = tiles.turn(Tiles::FIRST, 64, Block);
        let mut blocks = vec![id];
        while let Some(rest) = tiles.next(id) {
            id = tiles.turn(rest, 64, Block);
            blocks.push(id);
        }
        // What is freed in the order of the records leaves runs of them.
        let mut random = Prng::new(7);
        let mut left = Vec::new();
        let mut is_freed = false;
        for id in blocks {
            is_freed ^= random.one_in(8);
            if is_freed {
                tiles.turn(id, 64, Retired);
            } else {
                left.push(tiles.get(id).offset);
            }
        }
        let mut drawn = std::collections::BTreeMap::new();
        for _ in 0..left.len() as u64 * DRAWS {
            let block = tiles.some_block(random.next()).expect("many records are blocks");
            *drawn.entry(block.offset).or_insert(0_u64) += 1;
        }
        // Four deviations of 32 are passed by one in sixteen thousand; six by none.
        for offset in left {
            let count = drawn.get(&offset).copied().unwrap_or(0);
            assert!(count.abs_diff(DRAWS) < 6 * 32, "{offset} was drawn {count} times");
        }
    }
}
