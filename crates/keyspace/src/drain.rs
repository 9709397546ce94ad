//! A segment changes sides: from slab pages to extents, or the other way round.
//!
//! Memory leaves a region in whole segments, because a sealed segment cannot be punched. *Draining*
//! empties a segment of slab pages, one by one, each under the lock of its owner's shard. Their
//! entries move to other pages of the same table; where these are full, the shard evicts as many
//! of its least recently used keys first. *Clearing the top* takes the last blocks of the extent
//! region to holes further down, and evicts the least recently used blocks until there are such
//! holes.

use arena::{DrainStep, Drained, Slid, TopStep};
use base::{ShardIndex, UnixMs};

use crate::evict::Victims;
use crate::keyspace::Keyspace;
use crate::room::SweepContext;

/// How many pages one call empties.
const PAGES_PER_CALL_MAX: u32 = 512;
/// How often a shard evicts for the entries of one page; each time a bounded number of keys.
const EVICTIONS_PER_PAGE_MAX: u32 = 16;
/// How many blocks one call takes from the top.
const TOP_STEPS_MAX: u32 = 4096;
/// What those evictions free at a time: a page.
const PAGE_BYTES: u64 = arena::layout::PAGE_BYTES;

impl Keyspace {
    /// Empties pages of one segment, a bounded number, and gives it back once it is empty; returns
    /// how many bytes that was, or, while pages are left, how many were emptied.
    pub(crate) fn drain(&self, context: &mut SweepContext<'_>) -> u64 {
        let mut emptied = 0;
        for _ in 0..PAGES_PER_CALL_MAX {
            let Some(step) = self.arena().plan_drain() else {
                let given_back = self.arena().give_back(self.arena().segment_bytes());
                self.arena().end_drain();
                return given_back;
            };
            self.empty(&step, context);
            emptied += PAGE_BYTES;
        }
        emptied
    }

    /// Takes blocks from the end of the extent region until a segment there is free, a bounded
    /// number, and gives it back; returns how many bytes that was, or those of the evicted blocks
    /// where that is more.
    pub(crate) fn clear_top(&self, context: &mut SweepContext<'_>) -> u64 {
        let segment_bytes = self.arena().segment_bytes();
        let mut segment = None;
        let mut left = 0;
        for _ in 0..TOP_STEPS_MAX {
            let step = self.arena().plan_top();
            let Some(offset) = step.offset() else { break };
            if *segment.get_or_insert(offset / segment_bytes) != offset / segment_bytes {
                break;
            }
            left += match step {
                TopStep::Move(step) => {
                    let index = ShardIndex(step.owner.shard);
                    if self.lock(index).shard_mut(index).slide(&step) == Slid::Pinned {
                        break;
                    }
                    0
                }
                TopStep::Stuck { bytes, .. } if self.evict_blocks(bytes, context).freed > 0 => 0,
                TopStep::Stuck { offset, .. } if self.arena().pins().is_pinned(offset) => break,
                TopStep::Stuck { offset, owner, .. } => {
                    self.evict_block(offset, owner, context.now)
                }
                TopStep::Nothing => break,
            };
        }
        left.max(self.arena().give_back(segment_bytes))
    }

    /// Empties the page of `step`, whatever it takes.
    fn empty(&self, step: &DrainStep, context: &mut SweepContext<'_>) {
        let index = ShardIndex(step.owner.shard);
        for _ in 0..EVICTIONS_PER_PAGE_MAX {
            if self.lock(index).shard_mut(index).drain(step) != Drained::NoRoom {
                return;
            }
            if self.evict_from(index, PAGE_BYTES, Victims::Small, context).small == 0 {
                break;
            }
        }
        self.evict_page(step, context.now);
    }

    /// Evicts the entries that are left on the page of `step`.
    fn evict_page(&self, step: &DrainStep, now: UnixMs) {
        let index = ShardIndex(step.owner.shard);
        let mut guard = self.lock(index);
        let shard = guard.shard_mut(index);
        // Each removal may move other entries, so that the page is looked at anew.
        while let Some((database, part)) = shard.part_of(step.owner.table)
            && let Some(&id) = part.table.entries_to_drain(step).first()
        {
            let name = part.table.entry(id).key().to_vec();
            shard.evict_key(database, &name, now);
        }
    }
}
