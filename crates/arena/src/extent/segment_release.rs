//! Releases whole free segments to the system, so that another region can use the memory.

use super::tiles::TileId;
use super::{ExtentSpace, Kind, Tiles};

/// How many of the largest holes one call looks at.
const HOLES_TRIED_MAX: usize = 1024;
/// A hole is looked at when it is at least this part of a segment: smaller ones bring too little.
const SEGMENT_PART: u64 = 16;
/// How many free tiles in a row are followed to either side of a hole.
const RUN_TILES_MAX: usize = 64;

/// Free tiles in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    start: u64,
    end: u64,
    first: u32,
}

impl ExtentSpace {
    /// Gives whole free segments back to the system, the highest first, until `bytes` of touched
    /// memory are gone or no segment is left; returns how much it was.
    pub fn retire_segments(&mut self, bytes: u64) -> u64 {
        let mut runs = self.free_runs();
        runs.sort_unstable();
        runs.dedup();
        let mut returned = 0;
        for run in runs.into_iter().rev() {
            if returned >= bytes {
                break;
            }
            returned += self.retire_run(run, bytes - returned);
        }
        returned
    }

    /// Returns the free tiles around the largest holes and at the end of the region, where they
    /// hold a whole segment.
    fn free_runs(&self) -> Vec<Run> {
        let segment_bytes = self.memory.segment_bytes();
        let holes = self.tiles.holes_down_to(segment_bytes / SEGMENT_PART).take(HOLES_TRIED_MAX);
        holes
            .map(|(id, _)| id)
            .chain(Some(self.tiles.last()).filter(|&last| self.tiles.get(last).is_free()))
            .map(|id| run_around(&self.tiles, id))
            .filter(|run| run.start.next_multiple_of(segment_bytes) + segment_bytes <= run.end)
            .collect()
    }

    /// Gives back segments of `run` from its upper end down, until it was `bytes`.
    fn retire_run(&mut self, run: Run, bytes: u64) -> u64 {
        let segment_bytes = self.memory.segment_bytes();
        let first = ((run.start - self.base).div_ceil(segment_bytes)) as usize;
        let last = (((run.end - self.base) / segment_bytes) as usize).min(self.committed.len());
        let mut returned = 0;
        for index in (first..last).rev() {
            if returned >= bytes {
                break;
            }
            let start = self.base + index as u64 * segment_bytes;
            if self.committed[index] {
                let touched = self.chill(TileId(run.first), start, start + segment_bytes);
                self.memory.retire(start, touched);
                self.committed[index] = false;
                returned += touched;
            }
        }
        returned
    }

    /// Turns the holes in `start..end`, which lies behind the start of the tile `first` and is
    /// free, into a gap; returns how many bytes that was.
    fn chill(&mut self, first: TileId, start: u64, end: u64) -> u64 {
        let touched_before = self.touched_bytes();
        let mut next = Some(first);
        for _ in 0..3 * RUN_TILES_MAX {
            let Some(mut id) = next else { break };
            let tile = self.tiles.get(id);
            if tile.offset >= end {
                break;
            }
            let (from, to) = (tile.offset.max(start), tile.end().min(end));
            if tile.kind == Kind::Hole && from < to {
                if tile.offset < from {
                    id = self.tiles.split(id, from - tile.offset);
                }
                id = self.tiles.turn(id, to - from, Kind::Gap);
            }
            next = self.tiles.next(id);
        }
        touched_before - self.touched_bytes()
    }
}

/// Returns the free tiles around the free tile `id`.
fn run_around(tiles: &Tiles, id: TileId) -> Run {
    let is_free = |id: &TileId| tiles.get(*id).is_free();
    let (mut first, mut last) = (id, id);
    for _ in 0..RUN_TILES_MAX {
        let Some(previous) = tiles.previous(first).filter(is_free) else { break };
        first = previous;
    }
    for _ in 0..RUN_TILES_MAX {
        let Some(next) = tiles.next(last).filter(is_free) else { break };
        last = next;
    }
    Run { start: tiles.get(first).offset, end: tiles.get(last).end(), first: first.0 }
}
