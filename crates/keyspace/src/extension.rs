//! Room behind a large value, so that it grows where it lies.
//!
//! A value that is given another place is there twice until its bytes are copied: one of half the
//! memory limit could not grow by a byte, and a smaller one would cost as much of others. What lies
//! behind it is moved to other places instead, for which the keys go that the policy would have go
//! first.

use arena::{NeedRoom, Obstacle, Region};
use base::{DatabaseIndex, Key};

use crate::clearing::{Removal, StuckBlock};
use crate::fit::bytes_in_place;
use crate::keyspace::Keyspace;
use crate::memory_limit::SweepContext;
use crate::segment_rebalance::ReclaimBy;

/// A smaller value finds another place soon.
const EXTENDED_BYTES_MIN: u64 = 1 << 20;
/// How many blocks one call takes away.
const STEPS_MAX: u32 = 4096;

impl Keyspace {
    /// Makes room behind the value of the one key that is spared, where `need` is that of a value
    /// which has grown out of it; returns whether it is worth trying again. If the value
    /// `has_no_other_place` it gets no room to spare, and where it has nothing behind it but memory
    /// that the limit keeps from being touched, other segments are given back for it. The caller
    /// holds no guard.
    pub(crate) fn extend(
        &self,
        need: NeedRoom,
        has_no_other_place: bool,
        context: &mut SweepContext<'_>,
    ) -> bool {
        let (database, &[key]) = context.spared.keys() else { return false };
        if need.region != Region::Extent {
            return false;
        }
        let Some((offset, bytes)) = self.block_of(database, &key) else { return false };
        let wanted = if has_no_other_place { bytes_in_place(need) } else { need.bytes };
        if bytes < EXTENDED_BYTES_MIN || bytes >= wanted {
            return false;
        }
        let reclaim_by = match self.candidate_count() {
            0 => ReclaimBy::Moves,
            _ => ReclaimBy::Evictions,
        };
        let (mut has_cleared, mut stuck) = (false, StuckBlock::default());
        for _ in 0..STEPS_MAX {
            let step = match self.arena().plan_extension(offset, wanted) {
                Obstacle::None { .. } if !has_no_other_place => return has_cleared,
                Obstacle::None { untouched_bytes } => {
                    match self.touched_excess_with(untouched_bytes) {
                        0 => return true,
                        excess if self.untouch(excess, reclaim_by, context) == 0 => return false,
                        _ => continue,
                    }
                }
                Obstacle::Block(step) => step,
            };
            match self.take_away(step, &mut stuck, reclaim_by, context) {
                Removal::Done => has_cleared = true,
                Removal::Again => {}
                Removal::Stays => return false,
            }
        }
        false
    }

    /// Gives back free segments of `bytes`, or one that blocks or slab pages lie in; returns how
    /// many bytes it was.
    fn untouch(&self, bytes: u64, reclaim_by: ReclaimBy, context: &mut SweepContext<'_>) -> u64 {
        let free = self.arena().give_back(bytes);
        if free > 0 {
            return free;
        }
        match self.shrink_extents(reclaim_by, context) {
            0 => self.drain(reclaim_by, context),
            cleared => cleared,
        }
    }

    /// Returns where the block of the value at `key` lies, if it has one, and its size.
    fn block_of(&self, database: DatabaseIndex, key: &Key<'_>) -> Option<(u64, u64)> {
        let mut guard = self.lock(key.shard);
        let table = &guard.shard_mut(key.shard).database(database)?.table;
        table.block_of(table.find(key.hash, key.bytes)?)
    }
}
