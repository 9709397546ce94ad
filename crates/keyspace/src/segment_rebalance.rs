//! Moves a segment between regions: from slab pages to extents, or the other way round.
//!
//! Memory leaves a region in whole segments, because a sealed segment cannot be punched. *Draining*
//! empties the slab pages of a segment, one by one, each under the lock of its owner's shard. Their
//! entries move to other pages of the same table; where those pages are full, the shard first
//! evicts as many keys, or another shard evicts, and its pages are reused. *Shrinking the extents*
//! moves the last blocks of the extent region to holes further down, and evicts blocks until there
//! are such holes. The policy says which keys are evicted: an entry that may not be evicted is
//! moved, or stays where it is, and its segment with it.
//!
//! One thread at a time does either; others that need memory wait for it.

use std::ops::Range;
use std::sync::PoisonError;

use arena::layout::PAGE_BYTES;
use arena::pins::PinState;
use arena::{DrainStep, Drained, Slid, TopStep};
use base::ShardIndex;

use crate::eviction::Victims;
use crate::keyspace::Keyspace;
use crate::memory_limit::SweepContext;

/// How often a shard evicts for the entries of one page; each time a bounded number of keys.
const EVICTIONS_PER_PAGE_MAX: u32 = 32;
/// How many blocks one call takes from the top.
const TOP_STEPS_MAX: u32 = 4096;

/// Whether entries may go for want of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReclaimBy {
    /// They are moved, or nothing is done.
    Moves,
    /// They are moved where that is possible, and evicted where not.
    Evictions,
}

impl Keyspace {
    /// Empties a segment of slab pages and gives it back; returns how many bytes that was.
    pub(crate) fn drain(&self, reclaim_by: ReclaimBy, context: &mut SweepContext<'_>) -> u64 {
        let _lock = self.rebalance_lock.lock().unwrap_or_else(PoisonError::into_inner);
        match self.arena().begin_drain() {
            Some(has_room) if has_room || reclaim_by == ReclaimBy::Evictions => {}
            _ => {
                self.arena().end_drain();
                return 0;
            }
        }
        while let Some(step) = self.arena().plan_drain() {
            if !self.empty(&step, reclaim_by, context) {
                break;
            }
        }
        let given_back = self.arena().give_back(self.arena().segment_bytes());
        self.arena().end_drain();
        given_back
    }

    /// Empties the page of `step`, whatever it takes within `reclaim_by`; returns whether it did.
    fn empty(
        &self,
        step: &DrainStep,
        reclaim_by: ReclaimBy,
        context: &mut SweepContext<'_>,
    ) -> bool {
        let index = ShardIndex(step.owner.shard);
        for _ in 0..EVICTIONS_PER_PAGE_MAX {
            if self.lock(index).shard_mut(index).drain(step) != Drained::NoRoom {
                return true;
            }
            if reclaim_by == ReclaimBy::Moves {
                return false;
            }
            let freed = self.evict_from(index, PAGE_BYTES, Victims::Small, context).bytes();
            if freed == 0 {
                let other = self.random_shard(self.candidate_count(), context.random);
                self.evict_from(other, PAGE_BYTES, Victims::Small, context);
            }
        }
        self.evict_page(step, context);
        self.lock(index).shard_mut(index).drain(step) != Drained::NoRoom
    }

    /// Evicts the entries that are left on the page of `step` and may go.
    fn evict_page(&self, step: &DrainStep, context: &SweepContext<'_>) {
        let choice = self.choice(Victims::Small, context.spared);
        let index = ShardIndex(step.owner.shard);
        let mut guard = self.lock(index);
        let shard = guard.shard_mut(index);
        // Each removal may move other entries, so that the page is looked at anew.
        while let Some((database, part)) = shard.part_of(step.owner.table)
            && let Some(id) =
                part.table.entry_to_drain(step, |entry| choice.allows(database, entry))
        {
            let name = part.table.entry(id).key().to_vec();
            shard.evict_key(database, &name, context.now);
        }
    }

    /// Takes the blocks away that reach into the last segment of the extent region, a bounded
    /// number, and gives it back; returns how many bytes that was. A segment is passed over where a
    /// reader holds a block, or one neither finds another place nor may go.
    pub(crate) fn shrink_extents(
        &self,
        reclaim_by: ReclaimBy,
        context: &mut SweepContext<'_>,
    ) -> u64 {
        let _lock = self.rebalance_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let segment_bytes = self.arena().segment_bytes();
        // Where the segment starts, and before what it ends.
        let (mut start, mut below, mut stuck_at) = (None, u64::MAX, None);
        for _ in 0..TOP_STEPS_MAX {
            let step = self.arena().plan_top(below);
            let Some(Range { start: offset, end }) = step.place() else { break };
            let last = (end.min(below) - 1) / segment_bytes * segment_bytes;
            if end <= *start.get_or_insert(last) {
                break;
            }
            let mut pass_over = || (start, below) = (None, offset / segment_bytes * segment_bytes);
            if self.arena().pins().state_of(offset) == PinState::Pinned {
                pass_over();
                continue;
            }
            match step {
                TopStep::Move(step) => {
                    let index = ShardIndex(step.owner.shard);
                    let slid = self.lock(index).shard_mut(index).slide(&step);
                    if slid == Slid::Pinned {
                        pass_over();
                    }
                }
                TopStep::Nothing => break,
                // The oldest blocks go first, once; then the block itself, if that was not enough.
                // Where nothing may go, free memory further down may be scattered.
                TopStep::Stuck { bytes, is_movable: true, .. } if stuck_at != Some(offset) => {
                    stuck_at = Some(offset);
                    match reclaim_by {
                        ReclaimBy::Moves => drop(self.clear(bytes, ReclaimBy::Moves, context)),
                        ReclaimBy::Evictions => drop(self.evict_blocks(bytes, context)),
                    }
                }
                TopStep::Stuck { .. } if reclaim_by == ReclaimBy::Moves => break,
                TopStep::Stuck { owner, .. } => {
                    let freed = self.evict_block(offset, owner, context);
                    if freed <= self.arena().reclaim_deferred() {
                        pass_over();
                    }
                }
            }
        }
        self.arena().give_back(segment_bytes)
    }
}
