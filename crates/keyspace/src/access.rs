//! Operations on the whole keyspace: walks over all keys, flushes, swaps.
//!
//! Outside a transaction a walk locks one shard at a time and yields between them; inside EXEC all
//! shards are locked already.

use arena::{AccessMark, Entry, NeedRoom};
use base::prng::Prng;
use base::{DatabaseIndex, Key, ShardIndex, UnixMs};
use effects::{Effect, EventClass};
use rdb::file::EntryEncoder;

use crate::digest::DatasetDigest;
use crate::eviction::policy::KeyEvent;
use crate::guard::{Shards, ShardsMut};
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::recorder::Recorder;
use crate::shard::{Shard, SlotCount, is_expired, is_over};
use crate::snapshot::FiledUses;
use crate::view::count_lookup;
use crate::write::{KeyWriter, WriteView};

/// How many expired keys RANDOMKEY meets before it says that there is none.
const RANDOM_KEY_TRIES_MAX: u32 = 100;
/// How many shards RANDOMKEY picks blindly before it looks at all of them.
const RANDOM_SHARD_TRIES_MAX: u32 = 16;
/// How many chains of the index SCAN visits before it lets others have the shard.
const SCAN_CHAINS_PER_HOLD: u64 = 256;
/// SCAN visits at most this many chains for each key it is asked for, as Redis does.
const SCAN_CHAINS_PER_KEY: u64 = 10;

/// Access to all databases and shards.
pub struct Access<'g> {
    keyspace: &'g Keyspace,
    held: Option<Held<'g>>,
    /// Whether a walk removes the expired keys that it meets.
    removes_expired: bool,
}

/// What a call of SCAN looks for.
pub struct ScanQuery<'q> {
    /// About how many keys are visited.
    pub count: u64,
    /// Returns whether a key of this name is wanted. One that is not is neither visited nor, where
    /// it has expired, removed.
    pub wants: &'q dyn Fn(&[u8]) -> bool,
    /// Whether each wanted key counts as a hit or, where it has expired, as a miss: Redis looks at
    /// its type so.
    pub counts_lookups: bool,
}

struct Held<'g> {
    shards: &'g mut dyn Shards,
    recorder: &'g mut Recorder,
}

impl<'g> Access<'g> {
    /// Returns access that locks shards as it needs them. The caller holds no guard.
    pub fn free(keyspace: &'g Keyspace) -> Access<'g> {
        Access { keyspace, held: None, removes_expired: true }
    }

    pub(crate) fn held(
        keyspace: &'g Keyspace,
        shards: &'g mut dyn Shards,
        recorder: &'g mut Recorder,
    ) -> Access<'g> {
        Access { keyspace, held: Some(Held { shards, recorder }), removes_expired: true }
    }

    /// Returns the same access, which removes the expired keys that SCAN and RANDOMKEY meet, as it
    /// does anyway, or leaves them.
    pub fn removing_expired(self, removes_expired: bool) -> Access<'g> {
        Access { removes_expired, ..self }
    }

    /// Returns whether expired keys that are met are removed.
    pub fn removes_expired(&self) -> bool {
        self.removes_expired
    }

    /// Returns the keyspace, for what takes no lock: counts, limits. Inside EXEC its locks are
    /// taken already.
    pub fn keyspace(&self) -> &'g Keyspace {
        self.keyspace
    }

    /// Returns the number of keys in `database`, expired ones that no sweep has met included.
    pub fn key_count(&self, database: DatabaseIndex) -> u64 {
        self.keyspace.key_count(database)
    }

    /// Visits each entry of `database`, expired or not, in no order. Each shard is a moment of its
    /// own unless all are held.
    pub fn for_each_entry(&self, database: DatabaseIndex, visit: &mut dyn FnMut(Object<'_>)) {
        for index in self.keyspace.shard_indexes() {
            if self.keyspace.shard_counts(index, database).keys == 0 {
                continue;
            }
            self.with_shard(index, |shard| for_each_in_shard(shard, database, visit));
        }
    }

    /// As [`Access::for_each_entry`], of each entry as it stands in a file of the moment `now`.
    pub fn for_each_encoded(
        &self,
        database: DatabaseIndex,
        encoder: &mut EntryEncoder,
        now: UnixMs,
        visit: &mut dyn FnMut(&[u8]),
    ) {
        let uses = FiledUses::new(self.keyspace.eviction_policy(), now);
        let mut bytes = Vec::new();
        for index in self.keyspace.shard_indexes() {
            self.with_shard(index, |shard| {
                for_each_in_shard(shard, database, &mut |object| {
                    bytes.clear();
                    uses.put_head(encoder, &object, &shard.published.tracking, &mut bytes);
                    let content = object.content();
                    encoder.put(object.key(), object.expiry(), content.stored(), &mut bytes);
                    visit(&bytes);
                });
            });
        }
    }

    /// Visits some entries of `database` that `query` wants and that have not expired at `now`, and
    /// returns the cursor to go on with; starts and ends at 0. An entry that is there from the
    /// first call to the last is visited at least once. Those that it meets expired are removed
    /// behind each hold of a shard.
    ///
    /// The cursor holds the shard in its low bits and the cursor of the shard's table above.
    pub fn scan(
        &mut self,
        database: DatabaseIndex,
        cursor: u64,
        query: &ScanQuery<'_>,
        now: UnixMs,
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> u64 {
        let count = query.count;
        let shard_bits = self.keyspace.shard_count().trailing_zeros();
        let mut shard = cursor & (self.keyspace.shard_count() as u64 - 1);
        let mut position = cursor >> shard_bits;
        let mut chains_left = count.saturating_mul(SCAN_CHAINS_PER_KEY);
        let mut found = 0;
        while shard < self.keyspace.shard_count() as u64 {
            let index = ShardIndex(shard as u16);
            if self.keyspace.shard_counts(index, database).keys == 0 {
                (position, shard) = (0, shard + 1);
                continue;
            }
            if found >= count || chains_left == 0 {
                return position << shard_bits | shard;
            }
            let chains = chains_left.min(SCAN_CHAINS_PER_HOLD);
            let expired = Vec::new();
            let mut step = ScanStep { database, position, chains, found, query, now, expired };
            let removes_expired = self.removes_expired;
            self.with_shard_mut(index, |shard, recorder| {
                step.run(shard, visit);
                if removes_expired {
                    remove_expired(shard, recorder, database, now, &step.expired);
                }
            });
            chains_left -= chains - step.chains;
            (position, found) = (step.position, step.found);
            shard += u64::from(position == 0);
        }
        0
    }

    /// Hands `visit` a key of `database` that has not expired at `now`, chosen nearly uniformly,
    /// and returns what it returns. Expired keys that it meets are removed, which does not count as
    /// a try; 100 tries may meet one that stays: a stale value, or any where all shards are held.
    /// `None` behind those, so that there may be keys all the same.
    pub fn random_key<R>(
        &mut self,
        database: DatabaseIndex,
        now: UnixMs,
        random: &mut Prng,
        mut visit: impl FnMut(&[u8]) -> R,
    ) -> Option<R> {
        let removes_expired = self.removes_expired;
        // Removing an expired key does not count as a try: there are no more of them than keys.
        let mut removals_left = match removes_expired && self.held.is_none() {
            true => self.key_count(database),
            false => 0,
        };
        let mut tries = 0;
        while tries < RANDOM_KEY_TRIES_MAX {
            let mut is_removed = false;
            let index = self.random_shard(database, random)?;
            let word = random.next();
            let visited = self.with_shard_mut(index, |shard, recorder| {
                let table = &shard.database(database)?.table;
                let entry = table.entry(table.sample(word)?);
                if !is_expired(&entry, now) {
                    return Some(visit(entry.key()));
                }
                if removes_expired && is_over(&entry, now) {
                    let name = entry.key().into();
                    remove_expired(shard, recorder, database, now, &[name]);
                    is_removed = true;
                }
                None
            });
            if visited.is_some() {
                return visited;
            }
            match is_removed && removals_left > 0 {
                true => removals_left -= 1,
                false => tries += 1,
            }
        }
        None
    }

    /// Runs `change` on the view of `database` at `now` that holds `key`'s shard.
    pub fn write<R>(
        &mut self,
        key: &Key<'_>,
        database: DatabaseIndex,
        now: UnixMs,
        change: impl FnOnce(&mut WriteView<'_>) -> R,
    ) -> R {
        match &mut self.held {
            None => {
                let mut guard = self.keyspace.lock(key.shard);
                let result = change(&mut guard.write(database, now));
                guard.finish();
                result
            }
            Some(held) => {
                let shards = ShardsMut::Many(&mut *held.shards);
                change(&mut WriteView::new(shards, held.recorder, database, now))
            }
        }
    }

    /// Removes all keys of `database`.
    pub fn flush_database(&mut self, database: DatabaseIndex, now: UnixMs) {
        self.with_all(|shards, recorder, keyspace| {
            for index in keyspace.shard_indexes() {
                flush(shards.shard_mut(index), recorder, database, now);
            }
            emit(shards, recorder, database, now, Effect::FlushDatabase);
        });
    }

    /// Removes all keys of all databases.
    pub fn flush_all(&mut self, now: UnixMs) {
        self.with_all(|shards, recorder, keyspace| {
            for index in keyspace.shard_indexes() {
                for database in keyspace.databases() {
                    flush(shards.shard_mut(index), recorder, database, now);
                }
            }
            emit(shards, recorder, DatabaseIndex(0), now, Effect::FlushAll);
        });
    }

    /// Exchanges the contents of two databases.
    ///
    /// # Errors
    /// NeedRoom before any change, where the tables of a database that was never used do not fit.
    pub fn swap_databases(
        &mut self,
        a: DatabaseIndex,
        b: DatabaseIndex,
        now: UnixMs,
    ) -> Result<(), NeedRoom> {
        if a == b {
            return Ok(());
        }
        self.with_all(|shards, recorder, keyspace| {
            for index in keyspace.shard_indexes() {
                prepare_swap(shards.shard_mut(index), recorder, a, b)?;
            }
            for index in keyspace.shard_indexes() {
                swap(shards.shard_mut(index), recorder, a, b, now);
            }
            emit(shards, recorder, DatabaseIndex(0), now, Effect::SwapDatabases { a, b });
            Ok(())
        })
    }

    /// Returns the digest of all databases, expired keys that no sweep has met included.
    pub fn digest(&self) -> DatasetDigest {
        let mut digest = DatasetDigest::default();
        for database in self.keyspace.databases() {
            self.for_each_entry(database, &mut |entry| digest.add(database, &entry));
        }
        digest
    }

    /// Returns a shard at random, as likely as `database` has keys there; `None` without keys.
    ///
    /// A shard that is picked blindly and taken as often as it is full needs no look at the others.
    fn random_shard(&self, database: DatabaseIndex, random: &mut Prng) -> Option<ShardIndex> {
        let position = database.position();
        let bound = self.keyspace.keys_per_shard_bound(database);
        for _ in 0..RANDOM_SHARD_TRIES_MAX {
            let shard = ShardIndex(random.below(self.keyspace.shard_count() as u64) as u16);
            let keys = self.keyspace.published(shard).keys_at(position);
            if keys > bound {
                break;
            }
            if keys > 0 && random.below(bound) < keys {
                return Some(shard);
            }
        }
        self.random_shard_of_all(database, random)
    }

    /// As [`Access::random_shard`], by the counts of all shards: where they are few keys in many
    /// shards, or more than before.
    #[cold]
    fn random_shard_of_all(
        &self,
        database: DatabaseIndex,
        random: &mut Prng,
    ) -> Option<ShardIndex> {
        self.keyspace.renew_keys_per_shard_bound(database);
        let total = self.key_count(database);
        if total == 0 {
            return None;
        }
        let mut rest = random.below(total);
        let mut last = None;
        for index in self.keyspace.shard_indexes() {
            let keys = self.keyspace.shard_counts(index, database).keys;
            if keys > rest {
                return Some(index);
            }
            rest -= keys;
            last = if keys > 0 { Some(index) } else { last };
        }
        // Others removed keys since the total was taken.
        last
    }

    fn with_shard<R>(&self, index: ShardIndex, read: impl FnOnce(&Shard) -> R) -> R {
        match &self.held {
            Some(held) => read(held.shards.shard(index)),
            None => read(self.keyspace.lock(index).shards().shard(index)),
        }
    }

    /// Runs `change` with shard `index` held.
    fn with_shard_mut<R>(
        &mut self,
        index: ShardIndex,
        change: impl FnOnce(&mut Shard, &mut Recorder) -> R,
    ) -> R {
        match &mut self.held {
            Some(held) => change(held.shards.shard_mut(index), held.recorder),
            None => {
                let mut guard = self.keyspace.lock(index);
                let (shard, recorder) = guard.only();
                change(shard, recorder)
            }
        }
    }

    /// Runs `change` with all shards held, as one record.
    fn with_all<R>(
        &mut self,
        change: impl FnOnce(&mut dyn Shards, &mut Recorder, &Keyspace) -> R,
    ) -> R {
        match &mut self.held {
            Some(held) => change(held.shards, held.recorder, self.keyspace),
            None => {
                let mut guard = self.keyspace.lock_all();
                guard.begin_atomic();
                let result = guard.access().with_all(change);
                guard.finish();
                result
            }
        }
    }
}

/// One hold of a shard during SCAN.
struct ScanStep<'q> {
    database: DatabaseIndex,
    position: u64,
    chains: u64,
    found: u64,
    query: &'q ScanQuery<'q>,
    now: UnixMs,
    /// The names of the keys that it has met expired: those of so many chains at most.
    expired: Vec<Box<[u8]>>,
}

impl ScanStep<'_> {
    fn run(&mut self, shard: &Shard, visit: &mut dyn FnMut(Entry<'_>)) {
        let Some(part) = shard.database(self.database) else { return self.position = 0 };
        while self.chains > 0 && self.found < self.query.count {
            self.chains -= 1;
            self.position = part.table.scan(self.position, &mut |entry| {
                self.meet(shard, entry, visit);
            });
            if self.position == 0 {
                return;
            }
        }
    }

    fn meet(&mut self, shard: &Shard, entry: Entry<'_>, visit: &mut dyn FnMut(Entry<'_>)) {
        let is_live = !is_expired(&entry, self.now);
        self.found += u64::from(is_live);
        if !(self.query.wants)(entry.key()) {
            return;
        }
        if self.query.counts_lookups {
            count_lookup(shard, self.database, &shard.key(entry.key()), is_live);
        }
        match is_live {
            true => visit(entry),
            false if is_over(&entry, self.now) => self.expired.push(entry.key().into()),
            false => {}
        }
    }
}

/// Removes the keys of these `names`, which have expired at `now`.
fn remove_expired(
    shard: &mut Shard,
    recorder: &mut Recorder,
    database: DatabaseIndex,
    now: UnixMs,
    names: &[Box<[u8]>],
) {
    if names.is_empty() {
        return;
    }
    shard.freeze_if_atomic(database, recorder);
    for name in names {
        let (key, counts_access) = (shard.key(name), false);
        shard.before_change(database, key.hash);
        KeyWriter { shard, recorder, database, now, counts_access, event: "" }.live(&key);
    }
}

pub(crate) fn for_each_in_shard(
    shard: &Shard,
    database: DatabaseIndex,
    visit: &mut dyn FnMut(Object<'_>),
) {
    let Some(part) = shard.database(database) else { return };
    let mut cursor = 0;
    loop {
        cursor = part.table.scan(cursor, &mut |entry| visit(part.object_of(entry)));
        if cursor == 0 {
            return;
        }
    }
}

fn flush(shard: &mut Shard, recorder: &mut Recorder, database: DatabaseIndex, now: UnixMs) {
    if !shard.watches.is_empty() {
        shard.touch_all(database, None, now);
    }
    shard.void_leases_of(database);
    shard.freeze_if_atomic(database, recorder);
    shard.before_flush(database);
    if let Some(part) = shard.database_mut(database) {
        let SlotCount { keys, bytes } = part.slots.total();
        let cleared = part.clear();
        shard.publish_counts(database);
        let event = KeyEvent::Flushed { keys, bytes };
        shard.tell_policy(database, 0, AccessMark::default(), event);
        shard.retire_all(cleared);
    }
    note_all_ready(shard, recorder, database, now);
}

fn prepare_swap(
    shard: &mut Shard,
    recorder: &mut Recorder,
    a: DatabaseIndex,
    b: DatabaseIndex,
) -> Result<(), NeedRoom> {
    if shard.database(a).is_none() && shard.database(b).is_none() {
        return Ok(());
    }
    shard.ensure_database(a, recorder)?;
    shard.ensure_database(b, recorder)?;
    shard.freeze_if_atomic(a, recorder);
    shard.freeze_if_atomic(b, recorder);
    Ok(())
}

fn swap(
    shard: &mut Shard,
    recorder: &mut Recorder,
    a: DatabaseIndex,
    b: DatabaseIndex,
    now: UnixMs,
) {
    shard.void_leases_of(a);
    shard.void_leases_of(b);
    if shard.database(a).is_none() {
        [a, b].into_iter().for_each(|it| note_all_ready(shard, recorder, it, now));
        return;
    }
    if !shard.watches.is_empty() {
        shard.touch_all(a, Some(b), now);
        shard.touch_all(b, Some(a), now);
    }
    shard.swap(a, b);
    shard.tell_policy(a, 0, AccessMark::default(), KeyEvent::Swapped(b));
    for database in [a, b] {
        shard.publish_counts(database);
        note_all_ready(shard, recorder, database, now);
    }
}

/// Tells those who await a key of `database`, which has got other contents, where it is there, or
/// where they wait for its end or for a lease.
fn note_all_ready(
    shard: &mut Shard,
    recorder: &mut Recorder,
    database: DatabaseIndex,
    now: UnixMs,
) {
    if !shard.waits.is_empty() {
        shard.all_ready(database, now).into_iter().for_each(|key| recorder.note_ready(key));
    }
}

fn emit(
    shards: &mut dyn Shards,
    recorder: &mut Recorder,
    database: DatabaseIndex,
    now: UnixMs,
    effect: Effect<'_>,
) {
    let shard = shards.shard_mut(ShardIndex(0));
    let mut writer = KeyWriter { shard, recorder, database, now, counts_access: false, event: "" };
    writer.emit(EventClass::Generic, effect);
}
