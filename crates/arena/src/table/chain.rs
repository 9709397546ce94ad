//! Slots of a chain: find a free one, link, unlink, relink, and the overflow buckets after a home.
//! Where a chain is full, the entry is spilled instead.

use std::sync::atomic::AtomicU64;

use crate::bucket::Next;
use crate::index_pool::IndexPool;
use crate::layout::{CHAIN_BUCKETS_MAX, LINE_BYTES};
use crate::mapped_range::NeedRoom;
use crate::protocol_rules::Rule;
use crate::sequence;

use super::spill::NOWHERE;
use super::{EntryId, Table};

/// Overflow buckets come in chunks of 4 KiB: 64 of them.
const OVERFLOW_CHUNK_LOG2: u32 = 12;

/// The most entries of a chain that have one tag: each is compared with a key of that tag. Keys
/// that nobody has chosen have so many in no chain: of buckets that are about to split, the fullest
/// there are, in one of 10^10.
pub(super) const ALIKE_MAX: usize = 6;

impl Table {
    /// Returns a bucket of the chain of `home` and an empty slot in it for an entry of `tag`,
    /// adding an overflow bucket where all are full; no bucket where the chain may have no more.
    pub(super) fn free_slot(&mut self, home: u64, tag: u8) -> Result<(u64, u8), NeedRoom> {
        let (mut offset, mut count, mut alike, mut found) = (home, 1, 0, None);
        let end = loop {
            let bucket = self.bucket(offset);
            let same = bucket.matches(tag);
            if same != 0 {
                alike += same.count_ones() as usize;
                if alike >= ALIKE_MAX {
                    return Ok((NOWHERE, 0));
                }
            }
            let empty = bucket.matches(0);
            if empty != 0 && found.is_none() {
                found = Some((offset, empty.trailing_zeros() as u8));
            }
            // Nearly always this is the last bucket. There is one behind it where an entry for
            // which it was added found no memory; entries of the tag may be there.
            match bucket.next() {
                Next::Bucket(next) => (offset, count) = (next, count + 1),
                end => break end,
            }
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if count == CHAIN_BUCKETS_MAX {
            return Ok((NOWHERE, 0));
        }
        let added = self.take_overflow()?;
        self.bucket(added).set_next(end);
        let head = self.bucket(home);
        head.begin(Rule::OddWhileRelinking);
        self.bucket(offset).set_next(Next::Bucket(added));
        head.end(Rule::OddWhileRelinking);
        Ok((added, 0))
    }

    /// Returns how many entries of the chain at `home` have `tag`.
    pub(super) fn alike_count(&self, home: u64, tag: u8) -> usize {
        let (mut offset, mut count) = (home, 0);
        while offset != 0 {
            let bucket = self.bucket(offset);
            count += bucket.matches(tag).count_ones() as usize;
            offset = bucket.link();
        }
        count
    }

    /// Lets an empty slot refer to an entry.
    pub(super) fn link_slot(&mut self, id: EntryId, tag: u8) {
        if id.bucket == NOWHERE {
            return self.spill_entry(id);
        }
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileRelinking);
        self.bucket(id.bucket).set(usize::from(id.slot), tag, id.reference);
        home.end(Rule::OddWhileRelinking);
    }

    /// Lets the slot of `id` refer to `reference` instead, where an entry of the same key is.
    pub(super) fn relink_slot(&mut self, id: EntryId, reference: u64) {
        if id.bucket == NOWHERE {
            return self.move_spilled(id, reference);
        }
        let home = self.bucket(id.home);
        let bucket = self.bucket(id.bucket);
        let tag = bucket.tag(usize::from(id.slot));
        home.begin(Rule::OddWhileRelinking);
        bucket.set(usize::from(id.slot), tag, reference);
        home.end(Rule::OddWhileRelinking);
    }

    /// Empties the slot of `id`, whose entry is still there; a spilled entry of the chain fills the
    /// hole, or the last slot of the chain, so that chains stay short, and an overflow bucket that
    /// empties is taken out.
    pub(super) fn unlink_slot(&mut self, id: EntryId) {
        if id.bucket == NOWHERE {
            return self.forget_spilled(id);
        }
        let (mut before, mut tail) = (0, id.home);
        let end = loop {
            match self.bucket(tail).next() {
                Next::Bucket(next) => (before, tail) = (tail, next),
                end => break end,
            }
        };
        if end == Next::Spill && self.replace_by_spilled(id) {
            return;
        }
        let home = self.bucket(id.home);
        let last = self.bucket(tail);
        home.begin(Rule::OddWhileUnlinking);
        if tail == id.home {
            last.clear(usize::from(id.slot));
            home.end(Rule::OddWhileUnlinking);
            return;
        }
        let hole = (id.bucket, usize::from(id.slot));
        let occupied = last.occupied();
        if occupied != 0 {
            let slot = (u32::BITS - 1 - occupied.leading_zeros()) as usize;
            if (tail, slot) != hole {
                self.bucket(hole.0).set(hole.1, last.tag(slot), last.reference(slot));
            }
            last.clear(slot);
        } else {
            self.bucket(hole.0).clear(hole.1);
        }
        let emptied = last.occupied() == 0;
        if emptied {
            self.bucket(before).set_next(end);
        }
        home.end(Rule::OddWhileUnlinking);
        if emptied {
            self.free_overflow.push(tail);
        }
    }

    /// Returns where the slot is that refers to `reference`, in the chain of `hash`.
    pub(super) fn locate(&self, hash: u64, reference: u64) -> EntryId {
        let home = self.home(hash);
        let tag = crate::layout::tag_of(hash);
        let mut offset = home;
        while offset != 0 {
            let bucket = self.bucket(offset);
            let mut slots = bucket.matches(tag);
            while slots != 0 {
                let slot = slots.trailing_zeros() as u8;
                if bucket.reference(usize::from(slot)) == reference {
                    return EntryId { home, bucket: offset, slot, reference };
                }
                slots &= slots - 1;
            }
            offset = bucket.link();
        }
        assert!(!self.spill.is_empty(), "entry {reference:#x} is in no slot of its chain");
        self.spilled_at(hash, reference)
    }

    /// Appends the (tag, reference) of each entry of the chain at `home` to `gathered`, and the
    /// overflow buckets to `spare`.
    pub(super) fn gather(&self, home: u64, gathered: &mut Vec<(u8, u64)>, spare: &mut Vec<u64>) {
        let mut offset = home;
        while offset != 0 {
            let bucket = self.bucket(offset);
            let mut slots = bucket.occupied();
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                gathered.push((bucket.tag(slot), bucket.reference(slot)));
                slots &= slots - 1;
            }
            if offset != home {
                spare.push(offset);
            }
            offset = bucket.link();
        }
    }

    /// Writes `entries` into the chain at `home`, whose sequence is odd, with overflow buckets of
    /// `spare`, and `end` behind them. Old content is gone.
    pub(super) fn fill_chain(
        &self,
        home: u64,
        entries: impl Iterator<Item = (u8, u64)>,
        end: Next,
        spare: &mut Vec<u64>,
    ) {
        let mut bucket = self.bucket(home);
        bucket.reset();
        let mut slot = 0;
        for (tag, reference) in entries {
            if slot == crate::layout::SLOTS_PER_BUCKET {
                let next = spare.pop().expect("a chain never needs more buckets than it had");
                bucket.set_next(Next::Bucket(next));
                bucket = self.bucket(next);
                bucket.reset();
                slot = 0;
            }
            bucket.set(slot, tag, reference);
            slot += 1;
        }
        bucket.set_next(end);
    }

    /// Returns an empty overflow bucket.
    pub(super) fn take_overflow(&mut self) -> Result<u64, NeedRoom> {
        if self.free_overflow.is_empty() {
            self.add_overflow_chunk()?;
        }
        let offset = self.free_overflow.pop().expect("just filled");
        sequence::before_reuse::<AtomicU64>();
        self.bucket(offset).reset();
        Ok(offset)
    }

    /// Adds a chunk's overflow buckets to those that are free.
    pub(super) fn add_overflow_chunk(&mut self) -> Result<(), NeedRoom> {
        let chunk = self.arena.index().allocate(OVERFLOW_CHUNK_LOG2, self.policy)?;
        self.index_bytes += 1 << OVERFLOW_CHUNK_LOG2;
        self.overflow_chunks.push(chunk);
        let count = (1 << OVERFLOW_CHUNK_LOG2) / LINE_BYTES;
        self.free_overflow.extend((0..count).rev().map(|index| chunk + index * LINE_BYTES));
        Ok(())
    }

    /// Gives all chunks of overflow buckets back.
    pub(super) fn free_overflow_chunks(&mut self, pool: &mut IndexPool) {
        for chunk in self.overflow_chunks.drain(..) {
            pool.free(chunk, OVERFLOW_CHUNK_LOG2);
            self.index_bytes -= 1 << OVERFLOW_CHUNK_LOG2;
        }
        self.free_overflow.clear();
    }
}
