//! One table: the index and the entries of one (shard, database), written by one thread at a time.
//!
//! Linear hashing: buckets split one after the other, so that no operation moves more than one
//! chain and memory per key stays the same at every size. An entry stays in its home bucket or that
//! bucket's chain, or is among those that do not fit into this chain.
//!
//! *Layout*: this file finds, adds, changes and removes entries; `entry.rs` is the view of one,
//! and `content.rs` writes what one has; `chain.rs` keeps slots and overflow buckets; `spill.rs`
//! keeps the entries that do not fit into full chains; `grow.rs` splits, merges and extends the
//! directory; `large.rs` keeps descriptors and blocks; `sourced.rs` stores values whose bytes
//! come from elsewhere, `rewritten.rs` those that tell their own length, `uploaded.rs` keeps
//! those in upload memory; `costed.rs` keeps costs; `transfer.rs` hands a large value on;
//! `maintain.rs` is expiry's array, scan, sampling, evacuation, compaction, sliding.

mod chain;
mod content;
mod costed;
mod entry;
mod grow;
mod held;
mod large;
mod maintain;
mod patched;
mod rewritten;
mod sourced;
mod spill;
#[cfg(test)]
mod tests;
mod transfer;
mod uploaded;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::step_counters::{self, CountedStep};
use base::{DatabaseIndex, ShardIndex, UnixMs};

use crate::arena::Arena;
use crate::atomic_copy::copy_block;
use crate::bucket::{Bucket, Next};
use crate::layout::{
    AccessMark, BUCKETS_PER_BLOCK, Encoding, Grace, Header, LINE_BYTES, ValueType, home_bucket,
    table_header, table_header_offset, tag_of,
};
use crate::mapped_range::{LimitPolicy, MappedRange, NeedRoom};
use crate::page_pool::PageOwner;
use crate::prefetch::prefetch;
use crate::protocol_rules::{Rule, holds, linger};
use crate::sequence;
use crate::slab::{Slabs, page_of};
use crate::upload_region::Uploaded;

pub use content::Fill;
use content::{Content, Filling};
pub use entry::Entry;
pub use held::HeldValue;
pub use large::{APPEND_SPARE_BYTES_MAX, Slid};
pub use maintain::Drained;
pub use sourced::Source;
pub use spill::Spill;
pub use transfer::Detached;
pub use uploaded::{ADOPTED_BYTES_MIN, HeldUpload};

/// Where an entry is; valid until the next call with `&mut` on its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId {
    /// The home bucket.
    home: u64,
    /// The bucket of the chain that holds the slot; 0 for a spilled entry.
    bucket: u64,
    slot: u8,
    /// The small entry or the descriptor.
    reference: u64,
}

impl EntryId {
    fn is_spilled(self) -> bool {
        self.bucket == spill::NOWHERE
    }
}

/// A value to store.
#[derive(Clone, Copy, Debug)]
pub struct NewValue<'a> {
    /// The bytes, up to 512 MiB.
    pub bytes: &'a [u8],
    /// Its type.
    pub value_type: ValueType,
    pub encoding: Encoding,
    /// When it expires.
    pub expiry: Option<UnixMs>,
    /// What the entry remembers of its accesses from here on.
    pub mark: AccessMark,
}

impl NewValue<'_> {
    #[inline(always)]
    fn header(&self) -> Header {
        Header::new(self.value_type, self.encoding, self.mark)
    }
}

/// The index and entries of one (shard, database).
pub struct Table {
    arena: Arc<Arena>,
    memory: Arc<MappedRange>,
    shard: ShardIndex,
    /// Which of the shard's tables this is; it travels with the content when databases swap.
    identity: u8,
    /// The table header: stays with the database when contents swap.
    header: u64,
    /// How many reasons hold the header's sequence odd.
    header_depth: u32,
    policy: LimitPolicy,
    /// The offset of each block of buckets; the shared directory holds the same words.
    directory: Vec<u64>,
    directory_chunk: (u64, u32),
    bucket_count: u64,
    entry_count: u64,
    /// Index chunks with overflow buckets and with descriptors.
    overflow_chunks: Vec<u64>,
    descriptor_chunks: Vec<u64>,
    free_overflow: Vec<u64>,
    free_descriptors: Vec<u64>,
    index_bytes: u64,
    large_bytes: u64,
    large_count: u64,
    slabs: Slabs,
    /// References of the entries that expire; each knows its position.
    volatile: Vec<u64>,
    /// The entries that evacuation and compaction have moved.
    moved_entries: u64,
    compacted_pages: u64,
    moved_entries_max: u64,
    scratch: Vec<u8>,
    gathered: Vec<(u8, u64)>,
    spill: Spill,
}

impl Table {
    /// Makes the table of (`shard`, `database`), empty. There is one at a time for each pair. Its
    /// first buckets may pass the limit as `policy` says, later memory as [`Table::set_overshoot`].
    ///
    /// # Errors
    /// NeedRoom when the first buckets cannot be had.
    pub fn new(
        arena: Arc<Arena>,
        shard: ShardIndex,
        database: DatabaseIndex,
        policy: LimitPolicy,
    ) -> Result<Table, NeedRoom> {
        let config = arena.config();
        assert!(u32::from(shard.0) < config.shard_count, "shard {} exists", shard.0);
        assert!(u32::from(database.0) < config.database_count, "database {} exists", database.0);
        let shards = u64::from(config.shard_count);
        let header = table_header_offset(database.0.into(), shard.0.into(), shards);
        let mut table = Table {
            memory: arena.memory.clone(),
            arena,
            shard,
            identity: database.0,
            header,
            header_depth: 0,
            policy,
            directory: Vec::new(),
            directory_chunk: (0, 0),
            bucket_count: 0,
            entry_count: 0,
            overflow_chunks: Vec::new(),
            descriptor_chunks: Vec::new(),
            free_overflow: Vec::new(),
            free_descriptors: Vec::new(),
            index_bytes: 0,
            large_bytes: 0,
            large_count: 0,
            slabs: Slabs::new(PageOwner { shard: shard.0, table: database.0 }),
            volatile: Vec::new(),
            moved_entries: 0,
            compacted_pages: 0,
            moved_entries_max: 0,
            scratch: Vec::new(),
            gathered: Vec::new(),
            spill: Spill::default(),
        };
        table.open_directory()?;
        table.policy = LimitPolicy::Limited;
        Ok(table)
    }

    /// Returns the empty table under another identity, which has to be the only one of its shard:
    /// after SWAPDB tables live on under the names of other databases.
    ///
    /// # Panics
    /// When the table has entries.
    pub fn with_identity(mut self, identity: u8) -> Table {
        assert!(self.is_empty(), "blocks and pages bear their table's identity");
        self.identity = identity;
        self.slabs = Slabs::new(PageOwner { shard: self.shard.0, table: identity });
        self
    }

    /// Returns the number of entries, expired ones included.
    pub fn len(&self) -> u64 {
        self.entry_count
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Returns the number of home buckets.
    pub fn bucket_count(&self) -> u64 {
        self.bucket_count
    }

    /// Returns the bytes of the arena that this table uses.
    pub fn memory_bytes(&self) -> u64 {
        self.index_bytes + self.slabs.page_bytes() + self.large_bytes
    }

    /// Returns the bytes of private memory that this table takes beside itself. Costs a few loads.
    #[inline]
    pub fn private_bytes(&self) -> u64 {
        let lists = [
            &self.directory,
            &self.overflow_chunks,
            &self.descriptor_chunks,
            &self.free_overflow,
            &self.free_descriptors,
            &self.volatile,
        ];
        let words: usize = lists.iter().map(|list| list.capacity()).sum();
        let gathered = self.gathered.capacity() * size_of::<(u8, u64)>();
        let bytes = words * size_of::<u64>() + gathered + self.scratch.capacity();
        bytes as u64 + self.slabs.private_bytes() + self.spill.private_bytes()
    }

    /// Returns which of the shard's tables this is, as [`crate::extent::BlockOwner`] names it.
    pub fn identity(&self) -> u8 {
        self.identity
    }

    /// Returns the most index entries that one operation has moved.
    pub fn moved_entries_max(&self) -> u64 {
        self.moved_entries_max
    }

    /// Returns how many mixed pages have been compacted.
    pub fn compacted_pages(&self) -> u64 {
        self.compacted_pages
    }

    /// Asks the cache for the home bucket of `hash`.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        prefetch(self.memory.pointer(self.home(hash)));
    }

    /// Asks the cache for the entries that the home bucket of `hash` may mean, of which it returns
    /// whether there are any, or for the bucket behind it. Always inlined: each request of a
    /// pipeline passes here.
    #[inline(always)]
    pub fn prefetch_entry(&self, hash: u64) -> bool {
        let bucket = self.bucket(self.home(hash));
        let are_any = self.visit_matches(bucket, hash, |reference| self.prefetch_lines(reference));
        if !are_any && let Next::Bucket(offset) = bucket.next() {
            prefetch(self.memory.pointer(offset));
        }
        are_any
    }

    /// Asks the cache for the entry of `hash`, wherever in its chain it is, and its page's header.
    #[inline]
    pub fn prefetch_removal(&self, hash: u64) {
        let mut offset = self.home(hash);
        while offset != 0 {
            let bucket = self.bucket(offset);
            let are_any = self.visit_matches(bucket, hash, |entry| {
                self.prefetch_lines(entry);
                prefetch(self.memory.pointer(page_of(entry)));
            });
            offset = if are_any { 0 } else { bucket.link() };
        }
    }

    /// Asks the cache for the first two lines of the entry at `reference`.
    #[inline(always)]
    fn prefetch_lines(&self, reference: u64) {
        let entry = self.memory.pointer(reference);
        prefetch(entry);
        prefetch(entry.wrapping_add(LINE_BYTES as usize));
    }

    /// Visits the references of `bucket` with the tag of `hash`; returns whether there are any.
    #[inline(always)]
    fn visit_matches(&self, bucket: Bucket, hash: u64, visit: impl Fn(u64)) -> bool {
        let mut slots = bucket.matches(tag_of(hash));
        let are_any = slots != 0;
        while slots != 0 {
            visit(bucket.reference(slots.trailing_zeros() as usize));
            slots &= slots - 1;
        }
        are_any
    }

    /// Returns where `key` is. `hash` is the arena hasher's hash of `key`, here and everywhere.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<EntryId> {
        let home = self.home(hash);
        let tag = tag_of(hash);
        let mut bucket_offset = home;
        loop {
            let bucket = self.bucket(bucket_offset);
            let mut slots = bucket.matches(tag);
            while slots != 0 {
                let slot = slots.trailing_zeros();
                let reference = bucket.reference(slot as usize);
                step_counters::count_step(CountedStep::Entry);
                if self.entry_at(reference).key() == key {
                    return Some(EntryId {
                        home,
                        bucket: bucket_offset,
                        slot: slot as u8,
                        reference,
                    });
                }
                slots &= slots - 1;
            }
            match bucket.next() {
                Next::Bucket(next) => bucket_offset = next,
                Next::End => return None,
                Next::Spill => return self.find_spilled(hash, key),
            }
        }
    }

    /// Returns the entry at `id`.
    #[inline]
    pub fn entry(&self, id: EntryId) -> Entry<'_> {
        self.entry_at(id.reference)
    }

    /// As [`Entry::touch`], of the entry at `id`.
    pub fn touch(&self, id: EntryId, mark: AccessMark) {
        self.entry(id).touch(mark);
    }

    /// As [`Table::touch`], of an entry that a client of memcached has fetched.
    #[inline]
    pub fn touch_fetched(&self, id: EntryId, mark: AccessMark) {
        let word = self.memory.word(id.reference);
        let header = Header(word.load(Ordering::Relaxed));
        let fetched = header.with_mark(mark).as_fetched();
        if fetched != header {
            word.store(fetched.0, Ordering::Relaxed);
        }
    }

    /// Notes that a client has been told to make the value of the entry anew; readers in other
    /// processes ignore it. It is forgotten when a whole value is stored.
    pub fn mark_won(&self, id: EntryId) {
        let word = self.memory.word(id.reference);
        let header = Header(word.load(Ordering::Relaxed));
        word.store(header.as_won().0, Ordering::Relaxed);
    }

    /// Replaces the marks of the entries in a chain that may be that of `hash`, of which only the
    /// bits for bucket and tag matter, by what `next` returns for each.
    pub fn touch_alike(&self, hash: u64, next: impl Fn(&Entry<'_>) -> AccessMark) {
        let tag = tag_of(hash);
        let mut bucket_offset = self.home(hash);
        while bucket_offset != 0 {
            let bucket = self.bucket(bucket_offset);
            let mut slots = bucket.matches(tag);
            while slots != 0 {
                let reference = bucket.reference(slots.trailing_zeros() as usize);
                let mark = next(&self.entry_at(reference));
                let word = self.memory.word(reference);
                let header = Header(word.load(Ordering::Relaxed));
                word.store(header.with_mark(mark).0, Ordering::Relaxed);
                slots &= slots - 1;
            }
            bucket_offset = bucket.link();
        }
    }

    /// Returns where the entry is whose key has this `hash`, but for one that is spilled; one of
    /// two with the same.
    pub fn find_hash(&self, hash: u64) -> Option<EntryId> {
        let (tag, home) = (tag_of(hash), self.home(hash));
        let mut bucket_offset = home;
        while bucket_offset != 0 {
            let bucket = self.bucket(bucket_offset);
            let mut slots = bucket.matches(tag);
            while slots != 0 {
                let slot = slots.trailing_zeros();
                let reference = bucket.reference(slot as usize);
                if self.arena.hasher().hash(self.entry_at(reference).key()) == hash {
                    let slot = slot as u8;
                    return Some(EntryId { home, bucket: bucket_offset, slot, reference });
                }
                slots &= slots - 1;
            }
            bucket_offset = bucket.link();
        }
        None
    }

    /// Adds `key`, which must be absent.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        self.insert_behind(hash, key, 0, value)
    }

    /// Adds `key`, which must be absent; `gap` zeroes stand before the value's bytes. They are
    /// written where they stay, once there is room for them.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn insert_behind(
        &mut self,
        hash: u64,
        key: &[u8],
        gap: u64,
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        self.insert_parts(hash, key, (gap, None), value.header(), value, &[])
    }

    fn insert_parts(
        &mut self,
        hash: u64,
        key: &[u8],
        (gap, fill): (u64, Option<Filling<'_>>),
        header: Header,
        value: &NewValue<'_>,
        tail: &[u8],
    ) -> Result<EntryId, NeedRoom> {
        debug_assert!(self.find(hash, key).is_none(), "the key is absent");
        self.grow_for_one()?;
        let home = self.home(hash);
        let (bucket, slot) = self.free_slot(home, tag_of(hash))?;
        let parts = [&[], value.bytes, tail];
        let expiry = value.expiry;
        let content = Content { header, expiry, key, parts, gap, fill, spare: 0 };
        let position = self.volatile.len() as u64;
        let reference = self.store_new(&content, position)?;
        if value.expiry.is_some() {
            self.volatile.push(reference);
        }
        self.link_slot(EntryId { home, bucket, slot, reference }, tag_of(hash));
        self.entry_count += 1;
        Ok(EntryId { home, bucket, slot, reference })
    }

    /// Gives the entry at `id`, whose key is `key`, a new value, type, encoding and expiry.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn replace(
        &mut self,
        id: EntryId,
        key: &[u8],
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        self.replace_parts(id, key, (0, None), value.header(), value, &[])
    }

    fn replace_parts(
        &mut self,
        id: EntryId,
        key: &[u8],
        (gap, fill): (u64, Option<Filling<'_>>),
        header: Header,
        value: &NewValue<'_>,
        tail: &[u8],
    ) -> Result<EntryId, NeedRoom> {
        debug_assert_eq!(self.entry(id).key(), key, "the key stays");
        let parts = [value.bytes, tail, &[]];
        let expiry = value.expiry;
        self.put_other(id, &Content { header, expiry, key, parts, gap, fill, spare: 0 })
    }

    /// Appends `suffix` to the value, in place if the block is large enough and not pinned.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn append(
        &mut self,
        id: EntryId,
        suffix: &[u8],
        encoding: Encoding,
    ) -> Result<EntryId, NeedRoom> {
        let length = self.entry(id).value_length();
        self.overwrite(id, length, suffix, encoding)
    }

    /// Writes `bytes` over the value from `offset` on; a gap behind the old end is filled with
    /// zeroes.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn overwrite(
        &mut self,
        id: EntryId,
        offset: u64,
        bytes: &[u8],
        encoding: Encoding,
    ) -> Result<EntryId, NeedRoom> {
        self.own(id)?;
        if self.overwrite_in_place(id, offset, bytes, encoding) {
            return Ok(id);
        }
        // A small entry may be written over while its bytes are read, or moved by compaction: they
        // come from a copy. A large one gets another block, and keeps its own until it has that.
        let memory = self.memory.clone();
        let entry = Entry::at(&memory, id.reference);
        let (header, expiry) = (entry.header(), entry.expiry());
        let mut scratch = std::mem::take(&mut self.scratch);
        let (key, old) = match header.is_large() {
            true => (entry.key(), entry.value()),
            false => {
                scratch.clear();
                scratch.extend_from_slice(entry.key());
                scratch.extend_from_slice(entry.value());
                scratch.split_at(entry.key().len())
            }
        };
        let kept = old.len().min(offset as usize);
        let gap = offset - kept as u64;
        let tail = old.get(offset as usize + bytes.len()..).unwrap_or(&[]);
        let total = (kept + bytes.len() + tail.len()) as u64 + gap;
        let grows = total > old.len() as u64;
        let parts = [&old[..kept], bytes, tail];
        let spare = if grows { total.min(APPEND_SPARE_BYTES_MAX) } else { 0 };
        let header = header.with_encoding(encoding);
        // It often grows again.
        let header = if grows { header.roomy() } else { header };
        let content = Content { header, expiry, key, parts, gap, fill: None, spare };
        let result = self.put(id, &content);
        self.keep_scratch(scratch);
        result
    }

    /// Sets or removes the time to live.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn set_expiry(&mut self, id: EntryId, expiry: Option<UnixMs>) -> Result<EntryId, NeedRoom> {
        let header = self.entry(id).header();
        if header.has_ttl()
            && let Some(at) = expiry
        {
            let home = self.bucket(id.home);
            home.begin(Rule::OddWhileOverwriting);
            self.memory.word(self.expiry_word(id.reference)).store(at.0 as u64, Ordering::Relaxed);
            home.end(Rule::OddWhileOverwriting);
            self.set_grace(id, Grace::default());
            return Ok(id);
        }
        if header.has_ttl() == expiry.is_some() {
            return Ok(id);
        }
        if header.is_large() {
            self.set_large_expiry(id, expiry);
            return Ok(id);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let entry = self.entry(id);
        let key_length = entry.key().len();
        scratch.extend_from_slice(entry.key());
        scratch.extend_from_slice(entry.value());
        let (key, value) = scratch.split_at(key_length);
        let parts: [&[u8]; 3] = [value, &[], &[]];
        let content = Content { header, expiry, key, parts, gap: 0, fill: None, spare: 0 };
        let result = self.put(id, &content);
        self.keep_scratch(scratch);
        result
    }

    /// Asks the cache for what [`Table::remove`] of the small entry at `id` changes beside the
    /// index.
    #[inline]
    pub fn prefetch_page(&self, id: EntryId) {
        prefetch(self.memory.pointer(page_of(id.reference)));
    }

    /// Sets for how long the value of the entry at `id` may be read as a stale one once its time
    /// has passed, where it has one. No other change of a time or of a whole value leaves a grace.
    pub fn set_grace(&mut self, id: EntryId, grace: Grace) {
        if self.entry(id).header().has_ttl() {
            let word = self.memory.word(self.expiry_word(id.reference) + 8);
            let before = word.load(Ordering::Relaxed);
            if Grace::beside(before) != grace {
                word.store(grace.with_position(Grace::position_in(before)), Ordering::Relaxed);
            }
        }
    }

    /// Removes the entry at `id`. Returns whether its memory is free: a block that a reader holds
    /// is freed with its last pin.
    pub fn remove(&mut self, id: EntryId) -> bool {
        let header = self.entry(id).header();
        if header.has_ttl() {
            self.forget_volatile(id.reference);
        }
        let class = match header.is_large() {
            true => None,
            false => Some(self.entry(id).class()),
        };
        self.unlink_slot(id);
        self.entry_count -= 1;
        let is_free = self.free_content(id.reference, header);
        self.shrink_for_one();
        if let Some(class) = class {
            self.evacuate_after_remove(class);
        }
        is_free
    }

    /// Holds the header's sequence odd: readers in other processes go away until [`Table::thaw`].
    pub fn freeze(&mut self) {
        self.begin_header(Rule::OddWhileFrozen);
    }

    /// Ends a [`Table::freeze`].
    pub fn thaw(&mut self) {
        self.end_header(Rule::OddWhileFrozen);
    }

    /// Lets allocations pass the arena's limit, as inside MULTI, or not.
    pub fn set_overshoot(&mut self, allowed: bool) {
        self.policy = if allowed { LimitPolicy::Overshoot } else { LimitPolicy::Limited };
    }

    /// Lets the table pass the limit as `policy` says, and returns as what it could before.
    pub fn replace_policy(&mut self, policy: LimitPolicy) -> LimitPolicy {
        std::mem::replace(&mut self.policy, policy)
    }

    /// Returns where the entry at `id`, whose key is `key`, is after others may have been moved.
    fn reference_now(&self, id: EntryId, key: &[u8]) -> u64 {
        if !id.is_spilled() {
            return self.bucket(id.bucket).reference(usize::from(id.slot));
        }
        let found = self.find_spilled(self.arena.hasher().hash(key), key);
        found.expect("a spilled entry stays where it is found").reference
    }

    /// Frees the memory of an entry whose slot is gone; returns whether it is free now.
    fn free_content(&mut self, reference: u64, header: Header) -> bool {
        if header.is_large() {
            return self.free_large(reference);
        }
        self.slabs.free(&self.arena, reference);
        true
    }

    fn keep_scratch(&mut self, mut scratch: Vec<u8>) {
        const SCRATCH_BYTES_MAX: usize = 8192;
        scratch.clear();
        // Not given up: its size is charged to somebody, and must not come and go with each value.
        scratch.shrink_to(SCRATCH_BYTES_MAX);
        self.scratch = scratch;
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> u64 {
        self.home_at(home_bucket(hash, self.bucket_count))
    }

    #[inline(always)]
    fn home_at(&self, index: u64) -> u64 {
        self.directory[(index / BUCKETS_PER_BLOCK) as usize]
            + index % BUCKETS_PER_BLOCK * LINE_BYTES
    }

    #[inline(always)]
    fn bucket(&self, offset: u64) -> Bucket {
        // SAFETY: offsets of buckets come from this table's directory, links and free list, all of
        // which name lines of committed index memory that hold buckets, and never become anything
        // else. They are aligned to 64, as the base is. Only who has the table by `&mut` writes
        // them; no caller keeps a bucket for longer than it borrows the table.
        unsafe { Bucket::at(self.memory.pointer(offset)) }
    }

    #[inline(always)]
    fn entry_at(&self, reference: u64) -> Entry<'_> {
        Entry::at(&self.memory, reference)
    }

    /// Makes the header's sequence odd, as `rule` asks, where it is not for an outer reason.
    fn begin_header(&mut self, rule: Rule) {
        if self.header_depth == 0 && holds(rule) {
            sequence::begin(self.memory.word(self.header + table_header::SEQUENCE));
        }
        self.header_depth += 1;
        linger(rule);
    }

    /// Ends what [`Table::begin_header`] began.
    fn end_header(&mut self, rule: Rule) {
        linger(rule);
        self.header_depth = self.header_depth.checked_sub(1).expect("a header change began");
        if self.header_depth == 0 && holds(rule) {
            sequence::end(self.memory.word(self.header + table_header::SEQUENCE), sequence::WHOLE);
        }
    }
}
