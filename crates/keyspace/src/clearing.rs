//! Clears parts of the extent region, so that scattered free memory becomes one hole: the blocks
//! there move to holes elsewhere, and where no hole holds one, keys go in the policy's order.

use std::ops::Range;

use arena::pins::PinState;
use arena::{Obstacle, Slid, TopStep};
use base::ShardIndex;

use crate::keyspace::Keyspace;
use crate::memory_limit::SweepContext;
use crate::segment_rebalance::ReclaimBy;

/// How many parts one call tries: another thread may take what this one has cleared, and a block
/// may stay.
const PARTS_TRIED_MAX: u32 = 4;
/// How often keys go in the policy's order for a block that has no other place, before it goes
/// itself: what goes first may lie scattered, and one that is in the way may be worth most of all.
const ROUNDS_PER_BLOCK_MAX: u32 = 4;
/// How many blocks one call takes away.
const STEPS_MAX: u32 = 4096;

/// What became of a block that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is gone from there.
    Done,
    /// Room was made for it elsewhere: it is worth another look.
    Again,
    /// It stays.
    Stays,
}

/// The block that has no other place, and how often room was made for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StuckBlock {
    offset: u64,
    rounds: u32,
}

impl StuckBlock {
    /// Returns whether room is to be made once more for the block at `offset`.
    pub fn has_round(&mut self, offset: u64) -> bool {
        if self.offset != offset {
            *self = StuckBlock { offset, rounds: 0 };
        }
        self.rounds += 1;
        self.rounds <= ROUNDS_PER_BLOCK_MAX
    }
}

impl Keyspace {
    /// Makes one hole of `bytes` out of free memory that lies scattered; returns whether there is
    /// one now. At most as many bytes are moved for each part that is tried. The caller holds no
    /// guard.
    pub(crate) fn clear(
        &self,
        bytes: u64,
        reclaim_by: ReclaimBy,
        context: &mut SweepContext<'_>,
    ) -> bool {
        let mut kept = Vec::new();
        for _ in 0..PARTS_TRIED_MAX {
            if self.arena().extent_fits(bytes) {
                return true;
            }
            let Some(part) = self.arena().find_part_to_clear(bytes, &kept) else { return false };
            let Err(offset) = self.clear_part(&part, reclaim_by, context) else { continue };
            if kept.is_empty() {
                // Where readers hold one block they may hold many, and each would cost a try.
                kept = self.arena().pinned_offsets();
            }
            if let Err(index) = kept.binary_search(&offset) {
                kept.insert(index, offset);
            }
        }
        self.arena().extent_fits(bytes)
    }

    /// Takes the blocks of `part` away.
    ///
    /// # Errors
    /// The offset of a block that stays.
    fn clear_part(
        &self,
        part: &Range<u64>,
        reclaim_by: ReclaimBy,
        context: &mut SweepContext<'_>,
    ) -> Result<(), u64> {
        let mut stuck = StuckBlock::default();
        for _ in 0..STEPS_MAX {
            let Obstacle::Block(step) = self.arena().plan_clearing(part) else { return Ok(()) };
            let place = step.place();
            if self.take_away(step, &mut stuck, reclaim_by, context) == Removal::Stays {
                return Err(place.map_or(part.start, |place| place.start));
            }
        }
        Err(part.start)
    }

    /// Does `step`. Where the block has no other place, the keys go first that the policy would
    /// have go first, a few times for each block, which `stuck` counts; then its own.
    pub(crate) fn take_away(
        &self,
        step: TopStep,
        stuck: &mut StuckBlock,
        reclaim_by: ReclaimBy,
        context: &mut SweepContext<'_>,
    ) -> Removal {
        match step {
            TopStep::Move(step) => {
                let index = ShardIndex(step.owner.shard);
                match self.lock(index).shard_mut(index).slide(&step) {
                    Slid::Pinned => Removal::Stays,
                    Slid::Moved | Slid::Gone => Removal::Done,
                }
            }
            TopStep::Nothing => Removal::Stays,
            TopStep::Stuck { .. } if reclaim_by == ReclaimBy::Moves => Removal::Stays,
            TopStep::Stuck { offset, .. }
                if self.arena().pins().state_of(offset) == PinState::Pinned =>
            {
                Removal::Stays
            }
            TopStep::Stuck { offset, bytes, is_movable: true, .. } if stuck.has_round(offset) => {
                self.free_extents(bytes, context);
                Removal::Again
            }
            TopStep::Stuck { offset, owner, .. } => {
                let freed = self.evict_block(offset, owner, context);
                match freed > self.arena().reclaim_deferred() {
                    true => Removal::Done,
                    false => Removal::Stays,
                }
            }
        }
    }
}
