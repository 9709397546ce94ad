//! What one lock protects: a shard's tables, counts, watches and place in the order of writes.

use std::sync::Arc;

use arena::{
    AccessMark, DrainStep, Drained, Entry, EntryId, LimitPolicy, NeedRoom, Region, Slid, SlideStep,
    Spill, Table,
};
use base::{DATABASE_COUNT_MAX, DatabaseIndex, Key, Lsn, SLOT_COUNT, ShardIndex, Slot, UnixMs};

use collections::{Limits, Rules};
use effects::EffectSink;

use crate::eviction::PooledKey;
use crate::eviction::policy::{EvictionPolicy, KeyEvent, Setup, ShardPolicy, Told};
use crate::eviction::pool::EvictionPool;
use crate::key_waits::{UnservedKeys, WaitTable};
use crate::key_watches::WatchTable;
use crate::leases::LeaseTable;
use crate::memory_limit::MemoryAccount;
use crate::object::Object;
use crate::published::{DatabaseCounts, Published};
use crate::recorder::Recorder;
use crate::snapshot::{ShardSnapshot, SnapshotWalk};
use crate::store::Store;

const _: () = assert!(DATABASE_COUNT_MAX <= u16::BITS as usize, "a bit for each database");

/// Returns whether `entry` has expired: the moment itself still counts as alive, as in Redis.
#[inline]
pub fn is_expired(entry: &Entry<'_>, now: UnixMs) -> bool {
    entry.expiry().is_some_and(|at| now > at)
}

/// Returns whether `entry` is to go: it has expired, and so has the time for which its value may be
/// read as a stale one.
#[inline]
pub(crate) fn is_over(entry: &Entry<'_>, now: UnixMs) -> bool {
    is_expired(entry, now) && stale_ms_left(entry, now).is_none()
}

/// Returns for how many milliseconds more the value of `entry`, which has expired, may be read as a
/// stale one; none where it may not.
pub(crate) fn stale_ms_left(entry: &Entry<'_>, now: UnixMs) -> Option<u64> {
    let grace = i64::try_from(entry.grace().ms()).expect("a grace is below 2^36");
    let end = entry.expiry()?.0.saturating_add(grace);
    u64::try_from(end.saturating_sub(now.0)).ok()
}

/// Keys and bytes of one cluster slot in one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCount {
    /// Keys, expired ones that no sweep has met included.
    pub keys: u64,
    /// Bytes of their entries.
    pub bytes: u64,
}

/// One shard, reachable only through a guard.
pub(crate) struct Shard {
    index: ShardIndex,
    /// Who listens to effects; the same in all shards, here so that a write asks no other line.
    pub sink: Option<Arc<dyn EffectSink>>,
    pub watches: WatchTable,
    pub waits: WaitTable,
    pub leases: LeaseTable,
    pub eviction_pool: EvictionPool<PooledKey>,
    pub policy: ShardPolicy,
    /// The database that the next expiry step looks at first.
    pub expiry_database: DatabaseIndex,
    pub published: Arc<Published>,
    /// The record that wrote to this shard last.
    pub last_write_lsn: Lsn,
    /// How collections are stored; the same in all shards, soon after a change.
    pub rules: Rules,
    rules_version: u64,
    /// The last unique number that an item was given.
    pub last_unique: u64,
    /// Where small collections are changed.
    pub copy_memory: Vec<u8>,
    /// How much of it is charged.
    copy_memory_charged: u64,
    /// The databases whose tables are frozen for readers in other processes until the atomic record
    /// is complete: a bit each.
    frozen: u16,
    /// What a snapshot is to take from here, while one runs.
    pub snapshot: Option<Box<ShardSnapshot>>,
    databases: [Option<Box<DatabaseShard>>; DATABASE_COUNT_MAX],
    /// The databases that were ever written to are before this position.
    pub database_end: usize,
    account: Arc<MemoryAccount>,
    /// Where keys are left that are ready while no guard records that.
    unserved: Arc<UnservedKeys>,
}

/// The part of one database that lies in one shard.
pub(crate) struct DatabaseShard {
    pub table: Table,
    /// What the table's entries of other types than strings refer to.
    pub store: Store,
    pub slots: SlotCounts,
    /// Where in the table's array of volatile entries the next expiry step starts.
    pub expiry_cursor: u64,
    /// The time to live of the keys that the sweep has met lately, on average; 0 before the first.
    pub ttl_mean_ms: u64,
    /// What of the table the snapshot that runs has; none where it has all, or wants nothing.
    pub snapshot_walk: Option<Box<SnapshotWalk>>,
    frozen: bool,
    /// What was charged of [`DatabaseShard::private_bytes`].
    charged_bytes: u64,
    /// How many hashes with fields that expire were published.
    timed_published: usize,
}

impl Shard {
    /// Returns the empty shard `index`.
    pub fn new(
        index: ShardIndex,
        account: Arc<MemoryAccount>,
        published: Arc<Published>,
        unserved: Arc<UnservedKeys>,
    ) -> Shard {
        let rules = Rules { limits: Limits::default(), hasher: *account.arena().secret_hasher() };
        Shard {
            index,
            sink: None,
            watches: WatchTable::default(),
            waits: WaitTable::default(),
            leases: LeaseTable::default(),
            eviction_pool: EvictionPool::default(),
            policy: ShardPolicy::new(EvictionPolicy::default(), &Setup { adaptive: None, seed: 0 }),
            expiry_database: DatabaseIndex(0),
            published,
            last_write_lsn: Lsn(0),
            rules,
            rules_version: 0,
            last_unique: 0,
            copy_memory: Vec::new(),
            copy_memory_charged: 0,
            frozen: 0,
            snapshot: None,
            databases: Default::default(),
            database_end: 0,
            account,
            unserved,
        }
    }

    /// Leaves the keys unserved that a sweep or an eviction has made ready: no guard records for
    /// these.
    #[inline]
    pub fn leave_unserved(&self, recorder: &mut Recorder) {
        if recorder.has_ready() {
            self.unserved.add(recorder.take_ready());
        }
    }

    /// Returns the shard's index.
    pub fn index(&self) -> ShardIndex {
        self.index
    }

    /// Returns the key of `bytes`.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.account.arena().hasher().key(bytes)
    }

    /// Returns the shard's part of `database`, where it was ever written to.
    #[inline]
    pub fn database(&self, database: DatabaseIndex) -> Option<&DatabaseShard> {
        self.databases[database.position()].as_deref()
    }

    /// As [`Shard::database`], to change it.
    #[inline]
    pub fn database_mut(&mut self, database: DatabaseIndex) -> Option<&mut DatabaseShard> {
        self.databases[database.position()].as_deref_mut()
    }

    /// As [`Shard::database_mut`], with how collections are stored.
    #[inline]
    pub fn part_and_rules(&mut self, database: DatabaseIndex) -> (&mut DatabaseShard, &Rules) {
        let part = self.databases[database.position()].as_deref_mut();
        (part.expect("a table with an entry exists"), &self.rules)
    }

    /// Tells the eviction policy, where it has memory of its own, what happened to the key of
    /// `hash` in `database`, whose entry has or had `mark`; returns the mark that it keeps, where
    /// that is the policy's own.
    #[inline]
    pub fn tell_policy(
        &self,
        database: DatabaseIndex,
        hash: u64,
        mark: AccessMark,
        event: KeyEvent,
    ) -> Option<AccessMark> {
        if !self.policy.observes {
            return None;
        }
        self.policy.tell(&Told::of(database, hash, mark), event, &self.account)
    }

    /// Returns the mark of `entry`, which is that of `hash` in `database`, once it is used at
    /// `now` as `event` says.
    #[inline(always)]
    pub fn used(
        &self,
        database: DatabaseIndex,
        hash: u64,
        entry: Entry<'_>,
        now: UnixMs,
        event: KeyEvent,
    ) -> AccessMark {
        if self.policy.observes {
            let own = match event {
                KeyEvent::Used(1) => self.tell_plain::<false>(database, hash, &entry),
                KeyEvent::Written => self.tell_plain::<true>(database, hash, &entry),
                _ => self.tell_used(database, hash, entry, event),
            };
            if let Some(own) = own {
                return own;
            }
        }
        match event {
            KeyEvent::Used(times) if times > 1 => {
                self.published.tracking.next_of(entry.mark(), now, times)
            }
            _ => self.published.tracking.next(entry.mark(), now),
        }
    }

    /// Returns `mark` where it tells when its entry was used last: those that are the policy's own
    /// tell a time of the policy, which goes on with requests.
    pub fn dated(&self, mark: AccessMark) -> Option<AccessMark> {
        if self.policy.owns_marks { None } else { Some(mark) }
    }

    /// As [`Shard::tell_used`], of a key that was read once, or `IS_WRITTEN` over: every hit passes
    /// here where a policy observes.
    #[inline(always)]
    fn tell_plain<const IS_WRITTEN: bool>(
        &self,
        database: DatabaseIndex,
        hash: u64,
        entry: &Entry<'_>,
    ) -> Option<AccessMark> {
        let mark = self.policy.tell_plain::<IS_WRITTEN>(database, hash, entry.mark());
        if mark.is_some() { mark } else { self.tell_whole::<IS_WRITTEN>(database, hash, entry) }
    }

    /// As [`Shard::tell_plain`] where more changes than the mark. Apart, as it needs a stack frame.
    #[cold]
    #[inline(never)]
    fn tell_whole<const IS_WRITTEN: bool>(
        &self,
        database: DatabaseIndex,
        hash: u64,
        entry: &Entry<'_>,
    ) -> Option<AccessMark> {
        let event = if IS_WRITTEN { KeyEvent::Written } else { KeyEvent::Used(1) };
        self.tell_used(database, hash, *entry, event)
    }

    /// As [`Shard::tell_policy`], of an `entry` that is there. Apart, as every access that no
    /// policy observes passes [`Shard::used`].
    #[inline(never)]
    fn tell_used(
        &self,
        database: DatabaseIndex,
        hash: u64,
        entry: Entry<'_>,
        event: KeyEvent,
    ) -> Option<AccessMark> {
        let part = self.database(database).expect("it has the entry");
        let bytes = || part.object_of(entry).memory_bytes();
        let told = Told { database, hash, mark: entry.mark(), bytes: &bytes };
        self.policy.tell(&told, event, &self.account)
    }

    /// Tells the eviction policy, where it has memory of its own and has just been chosen, what
    /// keys there are.
    pub fn adopt_keys(&self) {
        if self.policy.observes {
            for (_, part) in self.databases() {
                let SlotCount { keys, bytes } = part.slots.total();
                self.policy.adopt(keys, bytes, &self.account);
            }
        }
    }

    /// Keeps `memory` for the next change of a small collection, and charges it.
    #[inline]
    pub fn keep_copy_memory(&mut self, memory: Vec<u8>) {
        let (before, after) = (self.copy_memory_charged, memory.capacity() as u64);
        self.copy_memory = memory;
        if before != after {
            self.copy_memory_charged = after;
            self.account.recharge(before, after);
        }
    }

    /// Learns of a change of the options of collections.
    #[inline]
    pub fn refresh_rules(&mut self) {
        if let Some((limits, version)) = self.account.newer_collection_limits(self.rules_version) {
            self.rules.limits = limits;
            self.rules_version = version;
        }
    }

    /// Returns the memory account.
    pub fn account(&self) -> &Arc<MemoryAccount> {
        &self.account
    }

    /// Refuses `bytes` more of collections in `database` where they would pass the memory limit.
    ///
    /// # Errors
    /// NeedRoom of private memory.
    #[inline]
    pub fn admit(&self, database: DatabaseIndex, bytes: u64) -> Result<(), NeedRoom> {
        let spare = self.database(database).map_or(0, |part| part.store.spare_bytes());
        if bytes <= spare { Ok(()) } else { self.account.admit(bytes) }
    }

    /// Refuses `bytes` more of private memory where they would pass the memory limit by more than
    /// `overshoot` bytes.
    ///
    /// # Errors
    /// NeedRoom of private memory.
    pub fn admit_beyond(&self, bytes: u64, overshoot: u64) -> Result<(), NeedRoom> {
        match self.lacks_room(bytes, overshoot) {
            true => Err(NeedRoom { bytes, region: Region::Private }),
            false => Ok(()),
        }
    }

    /// Returns the databases that were ever written to in this shard.
    pub fn databases(&self) -> impl Iterator<Item = (DatabaseIndex, &DatabaseShard)> {
        let all = self.databases[..self.database_end].iter().enumerate();
        all.filter_map(|(index, part)| Some((DatabaseIndex(index as u8), part.as_deref()?)))
    }

    /// Asks the cache for the part of the index where the key of `hash` would be. Always inlined,
    /// as the next one is: each request of a pipeline passes here, and a call costs it a percent.
    #[inline(always)]
    pub fn prefetch_bucket(&self, database: DatabaseIndex, hash: u64) {
        if let Some(part) = self.database(database) {
            part.table.prefetch_bucket(hash);
        }
    }

    /// Asks the cache for the entry of the key of `hash`, once the index is there, or where there
    /// is none for what the eviction policy remembers of the key.
    #[inline(always)]
    pub fn prefetch_entry(&self, database: DatabaseIndex, hash: u64) {
        if let Some(part) = self.database(database)
            && !part.table.prefetch_entry(hash)
        {
            self.policy.prefetch(database, hash);
        }
    }

    /// Makes the shard's part of `database` where there is none.
    ///
    /// # Errors
    /// NeedRoom where its table does not fit; nothing has changed then.
    pub fn ensure_database(
        &mut self,
        database: DatabaseIndex,
        recorder: &mut Recorder,
    ) -> Result<(), NeedRoom> {
        if self.databases[database.position()].is_some() {
            return Ok(());
        }
        // What belongs to an atomic record passes the limit, because nothing is evicted meanwhile.
        let room = if recorder.is_atomic() { LimitPolicy::Overshoot } else { LimitPolicy::Limited };
        let identity = self.free_identity();
        let table = Table::new(self.account.arena().clone(), self.index, database, room)?
            .with_identity(identity);
        let slots = SlotCounts::new(self.account.slots_per_shard());
        let part = DatabaseShard {
            table,
            store: Store::default(),
            slots,
            expiry_cursor: 0,
            ttl_mean_ms: 0,
            snapshot_walk: None,
            frozen: false,
            charged_bytes: 0,
            timed_published: 0,
        };
        self.databases[database.position()] = Some(Box::new(part));
        self.database_end = self.database_end.max(database.position() + 1);
        self.charge_growth(database);
        self.freeze_if_atomic(database, recorder);
        Ok(())
    }

    /// Returns an identity that none of the shard's tables has.
    fn free_identity(&self) -> u8 {
        let is_taken =
            |identity: u8| self.databases().any(|(_, part)| part.table.identity() == identity);
        (0..).find(|&identity| !is_taken(identity)).expect("there are fewer tables than identities")
    }

    /// Within an atomic record: hides the table from readers in other processes until the record
    /// is complete, and lets it pass the memory limit, because nothing is evicted meanwhile.
    #[inline]
    pub fn freeze_if_atomic(&mut self, database: DatabaseIndex, recorder: &mut Recorder) {
        if !recorder.is_atomic() {
            return;
        }
        let Some(part) = self.database_mut(database) else { return };
        if !part.frozen {
            part.table.freeze();
            part.table.set_overshoot(true);
            part.frozen = true;
            self.frozen |= 1 << database.position();
        }
    }

    /// Ends this shard's part of an atomic record, which has got `lsn` where it has effects.
    pub fn complete(&mut self, lsn: Option<Lsn>) {
        if self.frozen != 0 {
            self.last_write_lsn = lsn.unwrap_or(self.last_write_lsn);
        }
        while self.frozen != 0 {
            let database = DatabaseIndex(self.frozen.trailing_zeros() as u8);
            self.frozen &= self.frozen - 1;
            self.thaw(database);
            self.release_if_empty(database);
        }
    }

    /// Returns whether `bytes` more would bring memory above the limit and `overshoot` bytes.
    pub fn lacks_room(&self, bytes: u64, overshoot: u64) -> bool {
        self.account.excess_with(bytes) > overshoot
    }

    /// Hides the table of `database` from readers in other processes and lets it pass the memory
    /// limit, where it is there, until [`Shard::show`]: for a change in several steps that never
    /// waits for room.
    pub fn hide(&mut self, database: DatabaseIndex) {
        let Some(part) = self.database_mut(database) else { return };
        part.table.freeze();
        part.table.set_overshoot(true);
    }

    /// Brings the counts of `database` up to date after a value has left its table.
    pub fn settle(&mut self, database: DatabaseIndex) {
        if let Some(part) = self.database_mut(database) {
            part.table.settle();
        }
        self.publish_counts(database);
    }

    /// Undoes [`Shard::hide`].
    pub fn show(&mut self, database: DatabaseIndex) {
        let Some(part) = self.database_mut(database) else { return };
        part.table.set_overshoot(part.frozen);
        part.table.thaw();
        self.account.suspect_overshoot();
    }

    fn thaw(&mut self, database: DatabaseIndex) {
        let part = self.database_mut(database).expect("a frozen table exists");
        assert!(part.frozen, "only frozen tables are thawed");
        part.table.set_overshoot(false);
        part.table.thaw();
        part.frozen = false;
    }

    /// Gives the memory of `database` back where it holds no key: a table costs some 20 KB.
    pub fn release_if_empty(&mut self, database: DatabaseIndex) {
        let part = &mut self.databases[database.position()];
        if part.as_ref().is_some_and(|part| part.table.is_empty() && !part.frozen) {
            let part = part.take().expect("just looked at");
            self.account.recharge_keys(part.charged_bytes, 0);
        }
    }

    /// Exchanges two databases. Both exist.
    pub fn swap(&mut self, a: DatabaseIndex, b: DatabaseIndex) {
        self.note_swap(a, b);
        let positions = [a.position(), b.position()];
        let [a, b] = self.databases.get_disjoint_mut(positions).expect("two distinct databases");
        let [Some(a), Some(b)] = [a, b] else { panic!("both databases were made before") };
        Table::swap(&mut a.table, &mut b.table);
        std::mem::swap(&mut a.store, &mut b.store);
        std::mem::swap(&mut a.slots, &mut b.slots);
        std::mem::swap(&mut a.expiry_cursor, &mut b.expiry_cursor);
        std::mem::swap(&mut a.ttl_mean_ms, &mut b.ttl_mean_ms);
        std::mem::swap(&mut a.snapshot_walk, &mut b.snapshot_walk);
        std::mem::swap(&mut a.charged_bytes, &mut b.charged_bytes);
    }

    /// Moves a block of extent memory as the arena planned it.
    pub fn slide(&mut self, step: &SlideStep) -> Slid {
        match self.part_of(step.owner.database) {
            Some((_, part)) => part.table.slide(step),
            None => Slid::Gone,
        }
    }

    /// Moves the entries of a slab page away as the arena planned it.
    pub fn drain(&mut self, step: &DrainStep) -> Drained {
        match self.part_of(step.owner.table) {
            Some((_, part)) => part.table.drain_page(step),
            None => Drained::Gone,
        }
    }

    /// Returns the table of `identity` with the database that it is now.
    pub fn part_of(&mut self, identity: u8) -> Option<(DatabaseIndex, &mut DatabaseShard)> {
        let parts = self.databases.iter_mut().enumerate();
        let mut parts = parts
            .filter_map(|(index, part)| Some((DatabaseIndex(index as u8), &mut **part.as_mut()?)));
        parts.find(|(_, part)| part.table.identity() == identity)
    }

    /// Publishes how many keys `database` has, and charges the memory that its lists have grown by.
    #[inline]
    pub fn publish_counts(&mut self, database: DatabaseIndex) {
        let counts = self.database(database).map(DatabaseShard::counts).unwrap_or_default();
        self.published.set_counts(database, counts);
        self.charge_growth(database);
    }

    /// Charges the private memory that `database` has grown by, or discharges, and publishes how
    /// many hashes have fields that expire, where that is another number.
    #[inline]
    pub fn charge_growth(&mut self, database: DatabaseIndex) {
        let Some(part) = self.databases[database.position()].as_deref_mut() else { return };
        let (before, after) = (part.charged_bytes, part.private_bytes());
        if before != after {
            part.charged_bytes = after;
            self.account.recharge_keys(before, after);
        }
        if part.timed_published != part.store.timed_len() {
            part.timed_published = part.store.timed_len();
            self.published.set_timed(database, part.timed_published as u64);
        }
    }
}

impl DatabaseShard {
    /// Returns how many keys there are.
    pub fn counts(&self) -> DatabaseCounts {
        DatabaseCounts {
            keys: self.table.len(),
            volatile: self.table.volatile_len(),
            timed: self.store.timed_len() as u64,
        }
    }

    /// Returns the bytes of private memory.
    #[inline]
    pub fn private_bytes(&self) -> u64 {
        let lists = self.table.private_bytes() + self.slots.memory_bytes();
        size_of::<DatabaseShard>() as u64 + lists + self.store.private_bytes()
    }

    /// Removes all keys; returns what they referred to.
    pub fn clear(&mut self) -> (Store, Spill) {
        let spill = self.table.clear();
        self.slots.clear();
        self.expiry_cursor = 0;
        self.ttl_mean_ms = 0;
        (std::mem::take(&mut self.store), spill)
    }

    /// Returns the entry at `id` with its value.
    #[inline]
    pub fn object(&self, id: EntryId) -> Object<'_> {
        self.object_of(self.table.entry(id))
    }

    /// Returns `entry`, which is of this table, with its value.
    #[inline]
    pub fn object_of<'a>(&'a self, entry: Entry<'a>) -> Object<'a> {
        Object::new(entry, &self.store)
    }
}

/// Keys and bytes of each slot that a shard owns, in one database. A shard with few keys has but
/// few slots in use: all of its counts would take more memory than the keys.
pub(crate) struct SlotCounts {
    slot_count: usize,
    /// The slots in use by their positions in the shard, in order; empty once `all` is not.
    few: Vec<(u16, SlotCount)>,
    /// The counts by position; empty while few slots are in use.
    all: Box<[SlotCount]>,
}

/// With more slots in use than this the list would take about as much as all counts of 256 slots.
const FEW_SLOTS_MAX: usize = 128;
/// The list grows by so many: doubled, it would be half empty on average.
const FEW_SLOTS_STEP: usize = 8;

impl SlotCounts {
    fn new(slot_count: usize) -> SlotCounts {
        assert!(slot_count.is_power_of_two() && slot_count <= SLOT_COUNT);
        SlotCounts { slot_count, few: Vec::new(), all: Box::default() }
    }

    /// Returns the counts of `slot`.
    pub fn of(&self, slot: Slot) -> SlotCount {
        let position = self.position(slot);
        match self.all.get(usize::from(position)) {
            Some(count) => *count,
            None => match self.find(position) {
                Ok(index) => self.few[index].1,
                Err(_) => SlotCount::default(),
            },
        }
    }

    /// Asks the cache for the counts of `slot`.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        if let Some(count) = self.all.get(usize::from(self.position(slot))) {
            arena::prefetch_line(count);
        }
    }

    /// Returns the counts of all slots together.
    pub fn total(&self) -> SlotCount {
        let counts = self.few.iter().map(|(_, count)| count).chain(&self.all);
        counts.fold(SlotCount::default(), |sum, count| SlotCount {
            keys: sum.keys + count.keys,
            bytes: sum.bytes + count.bytes,
        })
    }

    /// Counts a new entry of `bytes`.
    #[inline]
    pub fn add(&mut self, slot: Slot, bytes: u64) {
        self.change(slot, |count| {
            count.keys += 1;
            count.bytes += bytes;
        });
    }

    /// Counts an entry of `bytes` that is gone.
    #[inline]
    pub fn remove(&mut self, slot: Slot, bytes: u64) {
        self.change(slot, |count| {
            count.keys = count.keys.checked_sub(1).expect("a removed key was counted");
            count.bytes = count.bytes.checked_sub(bytes).expect("a removed entry was counted");
        });
    }

    /// Counts an entry that changed its size.
    #[inline]
    pub fn resize(&mut self, slot: Slot, before: u64, after: u64) {
        if before != after {
            self.change(slot, |count| {
                let rest = count.bytes.checked_sub(before).expect("a changed entry was counted");
                count.bytes = rest + after;
            });
        }
    }

    /// Returns the position of `slot`: shards own contiguous, aligned ranges of slots.
    #[inline]
    fn position(&self, slot: Slot) -> u16 {
        slot.0 & (self.slot_count - 1) as u16
    }

    #[inline]
    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut SlotCount)) {
        let position = self.position(slot);
        match self.all.get_mut(usize::from(position)) {
            Some(count) => change(count),
            None => self.change_few(position, change),
        }
    }

    fn find(&self, position: u16) -> Result<usize, usize> {
        self.few.binary_search_by_key(&position, |(at, _)| *at)
    }

    fn change_few(&mut self, position: u16, change: impl FnOnce(&mut SlotCount)) {
        let index = match self.find(position) {
            Ok(index) => index,
            Err(_) if self.few.len() == FEW_SLOTS_MAX => {
                self.all = vec![SlotCount::default(); self.slot_count].into();
                for (position, count) in std::mem::take(&mut self.few) {
                    self.all[usize::from(position)] = count;
                }
                return change(&mut self.all[usize::from(position)]);
            }
            Err(index) => {
                if self.few.len() == self.few.capacity() {
                    self.few.reserve_exact(FEW_SLOTS_STEP);
                }
                self.few.insert(index, (position, SlotCount::default()));
                index
            }
        };
        change(&mut self.few[index].1);
        if self.few[index].1.keys == 0 {
            self.few.remove(index);
        }
    }

    fn clear(&mut self) {
        *self = SlotCounts::new(self.slot_count);
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        let few = self.few.capacity() * size_of::<(u16, SlotCount)>();
        (size_of_val(&*self.all) + few) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn slot_counts_agree_with_a_plain_array() {
        for (slot_count, keys_max) in [(1, 4), (256, 12), (256, 900)] {
            let mut random = Prng::new(slot_count as u64 + keys_max);
            let mut counts = SlotCounts::new(slot_count);
            let mut plain = vec![SlotCount::default(); slot_count];
            let mut entries: Vec<(u16, u64)> = Vec::new();
            for _ in 0..20_000 {
                let slot = random.below(slot_count as u64) as u16;
                if (entries.len() as u64) < keys_max && random.one_in(2) {
                    let bytes = 1 + random.below(100);
                    counts.add(Slot(slot + 256), bytes);
                    entries.push((slot, bytes));
                } else if !entries.is_empty() {
                    let index = random.below(entries.len() as u64) as usize;
                    let (slot, bytes) = entries[index];
                    if random.one_in(2) {
                        counts.resize(Slot(slot + 256), bytes, bytes + 7);
                        entries[index].1 += 7;
                    } else {
                        counts.remove(Slot(slot + 256), bytes);
                        entries.swap_remove(index);
                    }
                }
                plain.fill(SlotCount::default());
                for &(slot, bytes) in &entries {
                    plain[usize::from(slot)].keys += 1;
                    plain[usize::from(slot)].bytes += bytes;
                }
                assert_eq!(counts.of(Slot(slot + 256)), plain[usize::from(slot)]);
            }
            counts.clear();
            assert_eq!(counts.of(Slot(0)), SlotCount::default());
            assert_eq!(counts.memory_bytes(), 0);
        }
    }
}
