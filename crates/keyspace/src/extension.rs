//! Room behind a large value, so that it grows where it lies.
//!
//! A value that is given another place is there twice until its bytes are copied: one of half the
//! memory limit could not grow by a byte, and a smaller one would cost as much of others. What lies
//! behind it is moved to other places instead, for which the keys go that the policy would have go
//! first.

use arena::{NeedRoom, Obstacle, Region};
use base::{DatabaseIndex, Key};

use crate::clearing::Removal;
use crate::keyspace::Keyspace;
use crate::memory_limit::SweepContext;
use crate::segment_rebalance::ReclaimBy;

/// A smaller value finds another place soon.
const EXTENDED_BYTES_MIN: u64 = 1 << 20;
/// How many blocks one call takes away.
const STEPS_MAX: u32 = 4096;

impl Keyspace {
    /// Makes room behind the value of the one key that is spared, where `need` is that of a value
    /// which has grown out of it; returns whether it is worth trying again. Where the value has
    /// nothing behind it but memory that the limit keeps from being touched, other segments are
    /// given back for it if it `has_no_other_place`. The caller holds no guard.
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
        if bytes < EXTENDED_BYTES_MIN || bytes >= need.bytes {
            return false;
        }
        let reclaim_by = match self.candidate_count() {
            0 => ReclaimBy::Moves,
            _ => ReclaimBy::Evictions,
        };
        let (mut has_cleared, mut stuck_at) = (false, None);
        for _ in 0..STEPS_MAX {
            let step = match self.arena().plan_extension(offset, need.bytes) {
                Obstacle::None if has_cleared => return true,
                Obstacle::None => {
                    return has_no_other_place
                        && self.untouch(need.bytes - bytes, reclaim_by, context);
                }
                Obstacle::Block(step) => step,
            };
            match self.take_away(step, &mut stuck_at, reclaim_by, context) {
                Removal::Done => has_cleared = true,
                Removal::Again => {}
                Removal::Stays => return false,
            }
        }
        false
    }

    /// Gives back segments of about `bytes` that blocks or slab pages lie in; returns whether it
    /// was as much.
    fn untouch(&self, bytes: u64, reclaim_by: ReclaimBy, context: &mut SweepContext<'_>) -> bool {
        let mut given_back = self.arena().give_back(bytes);
        while given_back < bytes {
            let cleared = match self.shrink_extents(reclaim_by, context) {
                0 => self.drain(reclaim_by, context),
                cleared => cleared,
            };
            if cleared == 0 {
                return false;
            }
            given_back += cleared;
        }
        true
    }

    /// Returns where the block of the value at `key` lies, if it has one, and its size.
    fn block_of(&self, database: DatabaseIndex, key: &Key<'_>) -> Option<(u64, u64)> {
        let mut guard = self.lock(key.shard);
        let table = &guard.shard_mut(key.shard).database(database)?.table;
        table.block_of(table.find(key.hash, key.bytes)?)
    }
}
