//! What goes over many entries, a bounded piece at a time: the array of entries that expire, SCAN,
//! sampling, evacuation of slab pages; and clearing and swapping whole tables.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use base::UnixMs;
use base::prng::mix;

use crate::atomic_copy::move_words;
use crate::bucket::{Bucket, Next};
use crate::extent::BlockOwner;
use crate::layout::{CHAIN_ENTRIES_MAX, Grace, Header, home_bucket, table_header};
use crate::mapped_range::{LimitPolicy, NeedRoom};
use crate::mixed::{MixedPages, Place, Terms};
use crate::page_pool::DrainStep;
use crate::protocol_rules::{Rule, linger};
use crate::sequence;
use crate::size_class::{class_bytes, class_of_entry};
use crate::slab::Slabs;

use super::entry::expiry_word;
use super::spill::{self, ScanPlace, ScanStep, Spill};
use super::{Entry, EntryId, Table, prefetch};

/// Evacuation after a removal starts when a class has a third of its room free.
const FREE_SHARE: u64 = 3;
/// A page with more live entries is neither emptied nor compacted: with those of a split or merge,
/// and one that comes back to its chain, in the same operation the entries moved would be more than
/// 1,024.
const MOVED_ITEMS_MAX: u64 = 1024 - 2 * CHAIN_ENTRIES_MAX as u64 - 1;
/// How many empty chains a sample passes before it gives up.
const SAMPLE_CHAINS_MAX: u64 = 512;

/// What became of a [`Table::drain_page`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The page is free.
    Emptied,
    /// The other pages of the table have no room, and no page is to be had.
    NoRoom,
    /// The page is not this table's any more.
    Gone,
}

impl Table {
    /// Returns the number of entries that have a time to live.
    pub fn volatile_len(&self) -> u64 {
        self.volatile.len() as u64
    }

    /// Returns the entry at `position`, `0..volatile_len()`, of those that have a time to live.
    /// Their order changes when one of them is removed.
    ///
    /// # Panics
    /// When there are not that many.
    pub fn volatile_entry(&self, position: u64) -> Entry<'_> {
        self.entry_at(self.volatile[position as usize])
    }

    /// Returns the block of the entry of [`Table::volatile_entry`] and who owns it; `None` where
    /// the entry is small.
    ///
    /// # Panics
    /// When there are not that many.
    pub fn volatile_block(&self, position: u64) -> Option<(u64, BlockOwner)> {
        self.owned_block(&self.volatile_entry(position))
    }

    /// Returns the block of `entry`, which is of this table, and who owns it; `None` where the
    /// entry is small.
    pub fn owned_block(&self, entry: &Entry<'_>) -> Option<(u64, BlockOwner)> {
        let descriptor = entry.reference();
        let owner = BlockOwner { descriptor, shard: self.shard.0, database: self.identity };
        entry.large_block().map(|block| (block, owner))
    }

    /// Returns where the entry of [`Table::volatile_entry`] is.
    ///
    /// # Panics
    /// When there are not that many.
    pub fn volatile_at(&self, position: u64) -> EntryId {
        let entry = self.volatile_entry(position);
        self.locate(self.arena.hasher().hash(entry.key()), entry.reference())
    }

    /// Visits the entries of one home bucket, or some of them where many are spilled, and returns
    /// the cursor to go on with; starts and ends at 0. Every entry that is there from the first
    /// call to the last is visited at least once, whatever the table does in between; once, where
    /// the table stays as it is.
    ///
    /// The cursor is the place to go on from (`spill.rs`) with its bits reversed.
    pub fn scan(&self, cursor: u64, visit: &mut dyn FnMut(Entry<'_>)) -> u64 {
        let half = 1 << self.bucket_count.ilog2();
        let mask = half - 1;
        let bucket = cursor & mask;
        let is_split = bucket + half < self.bucket_count;
        if !self.spill.is_empty()
            && let Some(next) = self.scan_spilled(cursor, bucket, is_split.then_some(half), visit)
        {
            return next;
        }
        self.visit_chain(bucket, visit);
        if is_split {
            self.visit_chain(bucket + half, visit);
        }
        next_bucket(cursor, mask)
    }

    /// As [`Table::scan`], where the bucket, or its other half, has spilled entries or the cursor
    /// stands within it; `None` where neither is so.
    #[cold]
    fn scan_spilled(
        &self,
        cursor: u64,
        bucket: u64,
        other: Option<u64>,
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> Option<u64> {
        let mask: u64 = (1 << self.bucket_count.ilog2()) - 1;
        let all = spill::places_of(bucket, mask.count_ones());
        let ScanStep { places, next } = self.spill.step(cursor.reverse_bits(), &all);
        if places == all && self.spill.references(all).next().is_none() {
            return None;
        }
        for index in [Some(bucket), other.map(|half| bucket + half)].into_iter().flatten() {
            self.visit_chain(index, &mut |entry| {
                if places.contains(&self.scan_place(entry.reference())) {
                    visit(entry);
                }
            });
        }
        for reference in self.spill.references(places) {
            visit(self.entry_at(reference));
        }
        Some(next.map_or_else(|| next_bucket(cursor, mask), ScanPlace::reverse_bits))
    }

    /// Returns an entry chosen by `random`, nearly uniformly; `None` where the table is empty or
    /// so sparse that a bounded walk met nothing.
    pub fn sample(&self, random: u64) -> Option<EntryId> {
        if self.samples_spilled(random) {
            return self.sample_spilled(random);
        }
        let (home, count) = self.sampled_chain(random)?;
        let nth = random.rotate_left(32) % u64::from(count);
        Some(self.nth_entry(home, nth as u32))
    }

    /// Visits up to `count` entries chosen by `random`, each of the table nearly as likely to be
    /// among them: those in chains longer than `count` are less so, those behind empty chains
    /// more. They are neighbours in a chain, which have nothing in common but bits of their hashes,
    /// and cost one cache miss together. None where the table is empty or so sparse that a bounded
    /// walk met nothing.
    pub fn sample_chain(&self, random: u64, count: usize, mut visit: impl FnMut(EntryId)) {
        if self.samples_spilled(random) {
            // As many as a chain has, or these would be drawn less often than those in chains.
            let chained = (self.entry_count - self.spill.len()) / self.bucket_count;
            let numbers =
                (0..count.min(chained as usize + 1)).map(|step| mix(random ^ step as u64));
            return numbers.filter_map(|number| self.sample_spilled(number)).for_each(visit);
        }
        let Some((home, chained)) = self.sampled_chain(random) else { return };
        // Where an entry stands in the chain, taken as a ring from any of them on: none is left out
        // more often than another.
        let mut position = (random.rotate_left(32) % u64::from(chained)) as usize;
        let mut offset = home;
        while offset != 0 {
            let bucket = self.bucket(offset);
            let mut slots = bucket.occupied();
            while slots != 0 {
                let slot = slots.trailing_zeros();
                if position < count {
                    let reference = bucket.reference(slot as usize);
                    visit(EntryId { home, bucket: offset, slot: slot as u8, reference });
                }
                position = if position + 1 < chained as usize { position + 1 } else { 0 };
                slots &= slots - 1;
            }
            offset = bucket.link();
        }
    }

    /// Asks the cache for the bucket that [`Table::sample_chain`] of `random` most likely looks at.
    #[inline]
    pub fn prefetch_sample(&self, random: u64) {
        prefetch(self.memory.pointer(self.home_at(self.sampled_bucket(random))));
    }

    /// Asks the cache for the first bytes of the entry at `id`.
    #[inline]
    pub fn prefetch_found(&self, id: EntryId) {
        prefetch(self.memory.pointer(id.reference));
    }

    /// Returns whether a sample by `random` is one of the spilled entries, which are drawn as often
    /// as their number is a part of all.
    #[inline]
    fn samples_spilled(&self, random: u64) -> bool {
        !self.spill.is_empty() && random % self.entry_count < self.spill.len()
    }

    /// Returns the home bucket of a chain chosen by `random` that has entries, and their number.
    fn sampled_chain(&self, random: u64) -> Option<(u64, u32)> {
        let first = self.sampled_bucket(random);
        let steps = 0..SAMPLE_CHAINS_MAX.min(self.bucket_count);
        let mut chains = steps.map(|step| {
            let index = first + step;
            let passed = if index < self.bucket_count { 0 } else { self.bucket_count };
            let home = self.home_at(index - passed);
            (home, self.occupied_count(home))
        });
        chains.find(|(_, count)| *count > 0)
    }

    #[inline]
    fn sampled_bucket(&self, random: u64) -> u64 {
        ((u128::from(random) * u128::from(self.bucket_count)) >> 64) as u64
    }

    /// Returns how many entries are in the chain of the bucket at `home`.
    fn occupied_count(&self, home: u64) -> u32 {
        let (mut offset, mut count) = (home, 0);
        while offset != 0 {
            let bucket = self.bucket(offset);
            count += bucket.occupied().count_ones();
            offset = bucket.link();
        }
        count
    }

    /// Returns the entry behind `nth` others in the chain of the bucket at `home`, which has more.
    fn nth_entry(&self, home: u64, nth: u32) -> EntryId {
        let (mut offset, mut nth) = (home, nth);
        loop {
            let bucket = self.bucket(offset);
            let mut slots = bucket.occupied();
            if nth < slots.count_ones() {
                for _ in 0..nth {
                    slots &= slots - 1;
                }
                let slot = slots.trailing_zeros();
                let reference = bucket.reference(slot as usize);
                return EntryId { home, bucket: offset, slot: slot as u8, reference };
            }
            nth -= slots.count_ones();
            offset = bucket.link();
        }
    }

    /// Removes every entry. Returns what referred to spilled ones, which takes long to free where
    /// they were many: the caller may do it later.
    pub fn clear(&mut self) -> Spill {
        self.begin_header(Rule::OddWhileClearing);
        self.memory.word(self.header + table_header::BUCKET_COUNT).store(0, Ordering::Relaxed);
        self.clear_large();
        self.slabs.clear(&self.arena);
        let spill = std::mem::take(&mut self.spill);
        self.reopen_directory();
        self.volatile.clear();
        self.entry_count = 0;
        self.end_header(Rule::OddWhileClearing);
        spill
    }

    /// Exchanges the contents of two tables of one shard: SWAPDB.
    ///
    /// # Panics
    /// When the tables are of different shards.
    pub fn swap(first: &mut Table, second: &mut Table) {
        assert_eq!(first.shard, second.shard, "databases swap within a shard");
        first.begin_header(Rule::OddWhileSwapping);
        second.begin_header(Rule::OddWhileSwapping);
        std::mem::swap(first, second);
        std::mem::swap(&mut first.header, &mut second.header);
        std::mem::swap(&mut first.header_depth, &mut second.header_depth);
        std::mem::swap(&mut first.policy, &mut second.policy);
        first.publish();
        second.publish();
        second.end_header(Rule::OddWhileSwapping);
        first.end_header(Rule::OddWhileSwapping);
    }

    /// Moves the live items of one slab page to others and frees it, where a class has a page's
    /// worth of free room. Returns whether it did. Moves at most one page of entries.
    pub fn evacuate(&mut self) -> bool {
        match self.slabs.page_to_empty(&self.memory, u64::MAX) {
            Some(page) => self.evacuate_page(page, MOVED_ITEMS_MAX),
            None => false,
        }
    }

    /// Evacuates a page of the class of the entry just removed, where much of it is free.
    pub(super) fn evacuate_after_remove(&mut self, class: u8) {
        if self.header_depth > 0 {
            return;
        }
        if let Some(page) = self.slabs.page_to_empty_of(&self.memory, class, FREE_SHARE) {
            self.evacuate_page(page, MOVED_ITEMS_MAX);
        }
    }

    /// Moves the entries of the page of `step` to other pages, if it is still this table's; whoever
    /// makes room for extents empties a segment so. Where the other pages lack room, some of the
    /// page's entries may have moved.
    pub fn drain_page(&mut self, step: &DrainStep) -> Drained {
        if !self.slabs.owns(&self.arena, step.page) {
            return Drained::Gone;
        }
        let policy = std::mem::replace(&mut self.policy, LimitPolicy::Warm);
        let is_emptied = self.evacuate_page(step.page, u64::MAX);
        self.policy = policy;
        if is_emptied { Drained::Emptied } else { Drained::NoRoom }
    }

    /// Returns where the first entry on the page of `step` is that `may_go`, if the page is still
    /// this table's.
    pub fn entry_to_drain(
        &self,
        step: &DrainStep,
        may_go: impl Fn(&Entry<'_>) -> bool,
    ) -> Option<EntryId> {
        if !self.slabs.owns(&self.arena, step.page) {
            return None;
        }
        let items = Slabs::live_items(&self.memory, step.page);
        let item = items.into_iter().find(|&item| may_go(&self.entry_at(item)))?;
        let hash = self.arena.hasher().hash(self.entry_at(item).key());
        Some(self.locate(hash, item))
    }

    /// Returns how an item may be had now. While readers are kept away nothing is compacted: what a
    /// transaction moves would be charged to its time with all of its shards held.
    pub(super) fn terms(&self) -> Terms {
        let moves_max = if self.header_depth == 0 { MOVED_ITEMS_MAX } else { 0 };
        Terms { policy: self.policy, may_grow: true, may_relieve: true, moves_max }
    }

    /// Returns an item of `class` with undefined content. May move other entries of the table,
    /// whose slots stay.
    ///
    /// # Errors
    /// NeedRoom when there is none within `terms`.
    pub(super) fn take_item(&mut self, class: u8, terms: Terms) -> Result<u64, NeedRoom> {
        match self.slabs.allocate(&self.arena, class, terms) {
            Ok(place) => Ok(self.item_at(place, class)),
            Err(need) if terms.may_relieve => self.take_on_relieved(class, terms).ok_or(need),
            Err(need) => Err(need),
        }
    }

    /// Returns the item of `class` at `place`, which the slabs have named.
    #[inline(always)]
    fn item_at(&mut self, place: Place, class: u8) -> u64 {
        match place {
            Place::At(item) => item,
            Place::OnCompacted(run) => {
                let live_end = self.compact(run.clone());
                self.slabs.allocate_in(&self.memory, run, live_end, class)
            }
        }
    }

    /// Returns an item of `class` on the mixed page with the most room, once an item of this page
    /// has moved to another one; `None` where no move would do, and then nothing has moved.
    /// Otherwise what is free would be a little on each page, and for an item larger than that keys
    /// would have to go until there is enough on one.
    fn take_on_relieved(&mut self, class: u8, terms: Terms) -> Option<u64> {
        // A part for the page that the item moves to, and one for the page that it leaves.
        let moves_max = terms.moves_max.saturating_sub(1) / 2;
        let moved_before = self.moved_entries;
        let page = self.slabs.page_to_relieve(&self.memory, class, moves_max)?;
        self.slabs.set_aside(&self.memory, page);
        let is_relieved = self.move_one_off(page, class, moves_max);
        self.slabs.take_back(&self.memory, page);
        if !is_relieved {
            return None;
        }
        let place = self.slabs.place_on(&self.memory, page, class, moves_max);
        let item = self.item_at(place, class);
        self.note_moved(self.moved_entries - moved_before);
        Some(item)
    }

    /// Moves one item of the mixed page `page`, which is set aside, to another, so that an item of
    /// `class` has room on `page`. Returns whether it did.
    fn move_one_off(&mut self, page: u64, class: u8, moves_max: u64) -> bool {
        let Some(item) = self.slabs.item_to_move(&self.memory, page, class) else {
            return false;
        };
        let item_class = class_of_entry(&self.memory, item);
        let terms = Terms { policy: self.policy, may_grow: false, may_relieve: false, moves_max };
        let Ok(target) = self.take_item(item_class, terms) else { return false };
        self.move_item(item, target, item_class);
        self.moved_entries += 1;
        true
    }

    /// Moves the live items of `page` to others, if they are at most `items_max`. A mixed page is
    /// emptied into what the others have free; whoever drains a segment gets new pages too.
    fn evacuate_page(&mut self, page: u64, items_max: u64) -> bool {
        let items = Slabs::live_items(&self.memory, page);
        let count = items.len() as u64;
        if count > items_max {
            return false;
        }
        let is_drained = items_max == u64::MAX;
        let may_grow = is_drained || !Slabs::is_mixed(&self.memory, page);
        let moved_before = self.moved_entries;
        self.moved_entries += count;
        self.slabs.set_aside(&self.memory, page);
        for item in items {
            let moved = self.moved_entries - moved_before;
            let moves_max = items_max.min(MOVED_ITEMS_MAX).saturating_sub(moved);
            let terms = Terms { policy: self.policy, may_grow, may_relieve: false, moves_max };
            let class = class_of_entry(&self.memory, item);
            let Ok(target) = self.take_item(class, terms) else {
                self.slabs.take_back(&self.memory, page);
                return false;
            };
            self.move_item(item, target, class);
        }
        self.note_moved(self.moved_entries - moved_before);
        true
    }

    /// Moves the live ones of `items`, which follow each other on a mixed page, together, and
    /// returns where the last of them ends.
    fn compact(&mut self, mut items: Range<u64>) -> u64 {
        let (mut target, mut count) = (items.start, 0);
        // An item moves over what is behind the walk, never over what is before it.
        while let Some((item, bytes)) = MixedPages::next_live(&self.memory, &mut items) {
            if item != target {
                self.slide_item(item, target, bytes);
                count += 1;
            }
            target += bytes;
        }
        self.moved_entries += count;
        self.compacted_pages += 1;
        self.note_moved(count);
        target
    }

    /// Moves an item of `bytes` towards the start of its page, over free memory and over itself.
    fn slide_item(&mut self, item: u64, target: u64, bytes: u64) {
        let entry = self.entry_at(item);
        let header = entry.header();
        let id = self.locate(self.arena.hasher().hash(entry.key()), item);
        let home = self.bucket(id.home);
        // What finds a spilled entry follows from its key, which is about to be overwritten.
        let spilled = id.is_spilled().then(|| self.spilled(item));
        // Its beginning is also what `sequence::before_reuse` is elsewhere: what was unlinked or
        // moved from the target's place before is known to whoever sees the first word of it.
        home.begin(Rule::OddWhileCompacting);
        let (from, to) = (self.memory.pointer(item), self.memory.pointer(target));
        // SAFETY: both ranges lie on one page of this table, which is committed, and only the
        // holder of `&mut` writes it; items are whole words at multiples of 8.
        unsafe { move_words(to, from, bytes) };
        linger(Rule::OddWhileCompacting);
        match spilled {
            Some(spilled) => self.respill(spilled, target),
            None => {
                let bucket = self.bucket(id.bucket);
                bucket.set(usize::from(id.slot), bucket.tag(usize::from(id.slot)), target);
            }
        }
        home.end(Rule::OddWhileCompacting);
        if header.has_ttl() {
            let position = self.volatile_position(target, header);
            self.volatile[position as usize] = target;
        }
    }

    /// Notes how many entries one operation has moved.
    fn note_moved(&mut self, count: u64) {
        self.moved_entries_max = self.moved_entries_max.max(count);
    }

    fn move_item(&mut self, item: u64, target: u64, class: u8) {
        let entry = self.entry_at(item);
        let header = entry.header();
        let id = self.locate(self.arena.hasher().hash(entry.key()), item);
        let (from, to) = (self.memory.pointer(item), self.memory.pointer(target));
        sequence::before_reuse::<AtomicU64>();
        // SAFETY: both are items of slab pages of this table, committed, of the bytes of their
        // class, which are whole words at multiples of 8. Only the holder of `&mut` writes them.
        unsafe { move_words(to, from, class_bytes(class)) };
        self.relink_slot(id, target);
        if header.has_ttl() {
            let position = self.volatile_position(target, header);
            self.volatile[position as usize] = target;
        }
        self.slabs.free(&self.arena, item);
    }

    /// Returns the volatile position to store for an entry that gets `expiry`: its present one, or
    /// the one it will be pushed at.
    pub(super) fn volatile_position_for(
        &self,
        reference: u64,
        old: Header,
        expiry: Option<UnixMs>,
    ) -> u64 {
        match (old.has_ttl(), expiry) {
            (true, _) => self.volatile_position(reference, old),
            (false, Some(_)) => self.volatile.len() as u64,
            (false, None) => 0,
        }
    }

    /// Brings the array up to date after an entry with header `old` got `expiry` at `reference`.
    pub(super) fn settle_volatile(
        &mut self,
        old: Header,
        expiry: Option<UnixMs>,
        position: u64,
        reference: u64,
    ) {
        match (old.has_ttl(), expiry.is_some()) {
            (true, true) => self.volatile[position as usize] = reference,
            (false, true) => self.volatile.push(reference),
            (true, false) => self.remove_volatile(position),
            (false, false) => {}
        }
    }

    /// Takes an entry out of the array; its own words stay as they are.
    pub(super) fn forget_volatile(&mut self, reference: u64) {
        let header = self.entry_at(reference).header();
        let position = self.volatile_position(reference, header);
        debug_assert_eq!(self.volatile[position as usize], reference, "positions agree");
        self.remove_volatile(position);
    }

    /// Returns where an entry with a time to live keeps the time.
    pub(super) fn expiry_word(&self, reference: u64) -> u64 {
        expiry_word(&self.memory, reference, self.entry_at(reference).header())
    }

    pub(super) fn volatile_position(&self, reference: u64, header: Header) -> u64 {
        let at = expiry_word(&self.memory, reference, header) + 8;
        Grace::position_in(self.memory.word(at).load(Ordering::Relaxed))
    }

    fn remove_volatile(&mut self, position: u64) {
        self.volatile.swap_remove(position as usize);
        if let Some(&moved) = self.volatile.get(position as usize) {
            let word = self.memory.word(self.expiry_word(moved) + 8);
            let grace = Grace::beside(word.load(Ordering::Relaxed));
            word.store(grace.with_position(position), Ordering::Relaxed);
        }
        if self.volatile.len() * 4 < self.volatile.capacity() && self.volatile.capacity() > 64 {
            self.volatile.shrink_to(self.volatile.len() * 2);
        }
    }

    /// Visits each entry whose home bucket in a table of `bucket_count` buckets is `bucket`: what
    /// was in this bucket when the table had so many, and is still there, whatever has split or
    /// merged since. Costs as many chains as the bucket has become.
    pub fn visit_bucket_of(
        &self,
        bucket_count: u64,
        bucket: u64,
        visit: &mut dyn FnMut(Entry<'_>),
    ) {
        debug_assert!(bucket < bucket_count, "the bucket is one of them");
        let index = self.home_of(bucket_count, bucket);
        if self.bucket_count < bucket_count {
            let hasher = self.arena.hasher();
            let is_meant = |key: &[u8]| home_bucket(hasher.hash(key), bucket_count) == bucket;
            return self.visit_home(index, &mut |entry| {
                if is_meant(entry.key()) {
                    visit(entry);
                }
            });
        }
        self.visit_home(index, visit);
        let half = 1 << bucket_count.ilog2();
        let mut index = bucket + half;
        while index < self.bucket_count {
            if index >= bucket_count && home_bucket(index, bucket_count) == bucket {
                self.visit_home(index, visit);
            }
            index += half;
        }
    }

    /// Asks the cache for what [`Table::visit_bucket_of`] looks at first.
    pub fn prefetch_bucket_of(&self, bucket_count: u64, bucket: u64) {
        prefetch(self.memory.pointer(self.home_at(self.home_of(bucket_count, bucket))));
    }

    /// Asks the cache for the entries that [`Table::visit_bucket_of`] visits first, where the
    /// bucket itself is there.
    pub fn prefetch_entries_of(&self, bucket_count: u64, bucket: u64) {
        let home = self.home_at(self.home_of(bucket_count, bucket));
        self.prefetch_entries(self.bucket(home));
    }

    /// Returns the index of the home bucket that `bucket` of `bucket_count` is now, or has become a
    /// part of.
    fn home_of(&self, bucket_count: u64, bucket: u64) -> u64 {
        home_bucket(bucket, bucket_count.min(self.bucket_count))
    }

    /// Visits each entry of the home bucket at `index`, spilled ones too.
    fn visit_home(&self, index: u64, visit: &mut dyn FnMut(Entry<'_>)) {
        self.visit_chain(index, visit);
        if self.has_spilled(index) {
            for reference in self.spill.references(self.places_at(index)) {
                visit(self.entry_at(reference));
            }
        }
    }

    pub(super) fn visit_chain(&self, index: u64, visit: &mut dyn FnMut(Entry<'_>)) {
        debug_assert_eq!(home_bucket(index, self.bucket_count), index, "a home bucket");
        let mut offset = self.home_at(index);
        while offset != 0 {
            let bucket = self.bucket(offset);
            self.prefetch_entries(bucket);
            let mut slots = bucket.occupied();
            while slots != 0 {
                visit(self.entry_at(bucket.reference(slots.trailing_zeros() as usize)));
                slots &= slots - 1;
            }
            offset = bucket.link();
        }
    }

    /// Asks the cache for all entries of `bucket`, so that who visits them waits for one of them
    /// and not for each, and for the bucket behind it.
    fn prefetch_entries(&self, bucket: Bucket) {
        let mut slots = bucket.occupied();
        while slots != 0 {
            self.prefetch_lines(bucket.reference(slots.trailing_zeros() as usize));
            slots &= slots - 1;
        }
        if let Next::Bucket(offset) = bucket.next() {
            prefetch(self.memory.pointer(offset));
        }
    }
}

/// Returns the cursor of the buckets after those of `cursor`, of which `mask` tells two apart.
fn next_bucket(cursor: u64, mask: u64) -> u64 {
    (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
}

impl Drop for Table {
    fn drop(&mut self) {
        self.begin_header(Rule::OddWhileClearing);
        self.clear_large();
        self.slabs.clear(&self.arena);
        self.close_directory();
        self.end_header(Rule::OddWhileClearing);
    }
}
