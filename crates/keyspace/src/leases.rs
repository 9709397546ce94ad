//! Leases: who loads the value of a key that is not there, so that not everybody does.
//!
//! A lease is the right to fill one key, known by its token, for a limited time. It is no data: it
//! is in no record and no snapshot, and ends with the process. It is kept in a table of the key's
//! shard while the key is filled, and costs an entry nothing before and after. Whatever says that
//! the key is no longer what the holder of the lease has read elsewhere voids it: a change of the
//! key, its removal, asked for even if it is not there, and a flush or swap of its database. That a
//! value expires or is evicted says nothing of the kind. A lease ends too when its time has passed,
//! when it is given up, and when its session ends. Whoever waits for the key is told of each end.
//!
//! LGET and MLGET ask for leases by [`WriteView::lease`], LFILL stores under a token by
//! [`WriteView::fill`], LDEL marks a value as stale by [`WriteView::make_stale`], LFREE and LEXTEND
//! are [`WriteView::free_lease`] and [`WriteView::extend_lease`]. A client of memcached that is the
//! first to ask for an item that is missing gets a lease beside it, and no token. The engine ends
//! what a session leaves, and the server's service thread what is over. The decision is
//! docs/decisions/0023-leases.md.
//!
//! *Not here*: the sessions that wait (`key_waits.rs`), and clocks: times come in.

use std::collections::{BTreeMap, BTreeSet};

use arena::{Entry, Grace, NeedRoom, Region, ValueType};
use base::{DatabaseIndex, Key, ShardIndex, UnixMs};
use effects::{Effect, EventClass, Expiry};

use crate::encoding::encoding_of;
use crate::item::tail_of;
use crate::key_registrations::{Registered, Registration};
use crate::key_waits::KEYS_PER_HOLD_MAX;
use crate::keyspace::Keyspace;
use crate::shard::{Shard, is_expired, stale_ms_left};
use crate::shard_set::ShardSet;
use crate::view::{ReadView, WrongType, string_length_of};
use crate::write::{KeyWriter, WriteView};

/// Bytes that a lease costs in addition to the name of its key, at most: its part of the nodes of
/// four trees, and what the allocator adds to the name.
const LEASE_BYTES: usize = tree_bytes::<(Registration, Lease)>()
    + tree_bytes::<(UnixMs, Registration)>()
    + tree_bytes::<(u64, Registration)>()
    + tree_bytes::<(u64, u32)>()
    + 32;
/// The most leases of one shard.
const SHARD_LEASES_MAX: usize = 16_384;
/// The most leases of one session in one shard.
const HOLDER_LEASES_MAX: usize = 4_096;
/// By how much the time of one session may be ahead of that of another, with much to spare. A lease
/// that began later than that from now on was granted before the clock was set back.
const CLOCK_LEAD_MS_MAX: i64 = 1_000;
/// How long ago the time of a value that is made stale has passed, 30 days: a clock that is set
/// back by less does not make it valid again. A grace of a year more is one that there is.
const STALE_SINCE_MS: u64 = 30 * 86_400_000;
/// How many bits a token has: it is a number in languages whose numbers are of 64-bit floats, too.
const TOKEN_BITS: u32 = 53;

/// What a lease is known by, a number below 2^53. It tells nothing, and no other lease of its key
/// has it, of this process or another one: one in 2^53 keeps chance out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseToken(u64);

impl LeaseToken {
    /// Returns the token that is written as `number`; one that was never given where it is
    /// negative.
    pub fn of(number: i64) -> LeaseToken {
        LeaseToken(number as u64)
    }

    /// Returns the token as a number, which is not negative.
    pub fn number(self) -> i64 {
        self.0 as i64
    }
}

/// What came of asking for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The caller is to fill the key.
    Won(LeaseToken),
    /// Somebody else has the right for so many milliseconds more.
    Taken {
        /// How many.
        ms_left: u64,
    },
    /// There are as many leases as there may be.
    TooMany,
    /// There is no memory for a lease.
    NoRoom(NeedRoom),
}

/// A string, and when it expires.
#[derive(Clone, Copy, Debug)]
pub struct TimedString<'a> {
    /// The string.
    pub value: &'a [u8],
    /// When it expires, if it does.
    pub expiry: Option<UnixMs>,
    /// It is no value yet: a client of memcached has had this empty item made, and is to fill the
    /// key.
    pub is_in_the_making: bool,
}

/// The leases of one shard.
#[derive(Debug, Default)]
pub(crate) struct LeaseTable {
    leases: Registered<Lease>,
    ends: BTreeSet<(UnixMs, Registration)>,
    /// The leases of each session.
    holders: BTreeSet<(u64, Registration)>,
    /// How many leases each session has that has any.
    counts: BTreeMap<u64, u32>,
    /// How many there have ever been.
    issued: u64,
    /// The bytes that they are charged with.
    bytes: u64,
}

#[derive(Debug)]
struct Lease {
    name: Box<[u8]>,
    token: LeaseToken,
    /// The session.
    holder: u64,
    began: UnixMs,
    ends: UnixMs,
}

impl Lease {
    fn ms_left(&self, now: UnixMs) -> Option<u64> {
        let is_from_later = self.began.0 > now.0.saturating_add(CLOCK_LEAD_MS_MAX);
        let left = self.ends.0.saturating_sub(now.0);
        (left > 0 && !is_from_later).then_some(left as u64)
    }

    fn charged_bytes(&self) -> u64 {
        charged_bytes(&self.name)
    }
}

/// Returns the bytes that one of many entries `T` of a tree takes at most. A node of std's trees
/// has room for 11 and holds 5 at least; one that others hang from has room for 12 pointers too.
const fn tree_bytes<T>() -> usize {
    const LEAF_ENTRIES_MIN: usize = 5;
    let leaf = 11 * size_of::<T>() + 32;
    let inner = leaf + 12 * size_of::<usize>();
    leaf.div_ceil(LEAF_ENTRIES_MIN) + inner.div_ceil(LEAF_ENTRIES_MIN * LEAF_ENTRIES_MIN)
}

fn charged_bytes(name: &[u8]) -> u64 {
    (name.len() + LEASE_BYTES) as u64
}

impl LeaseTable {
    /// Returns the bytes that they are charged with.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether there is none: what a change pays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    fn find(
        &mut self,
        database: DatabaseIndex,
        secret: u64,
        name: &[u8],
    ) -> Option<(Registration, &mut Lease)> {
        self.leases.of(database, secret).find(|(_, lease)| *lease.name == *name)
    }

    /// Returns how many leases more the session `holder` may have.
    fn room_for(&self, holder: u64) -> usize {
        (SHARD_LEASES_MAX - self.leases.len()).min(HOLDER_LEASES_MAX - self.count_of(holder))
    }

    /// Returns whether the session `holder` may have a lease in place of one of the session `over`.
    fn has_room_after(&self, holder: u64, over: u64) -> bool {
        over == holder || self.count_of(holder) < HOLDER_LEASES_MAX
    }

    fn count_of(&self, holder: u64) -> usize {
        self.counts.get(&holder).map_or(0, |count| *count as usize)
    }

    fn add(&mut self, database: DatabaseIndex, secret: u64, lease: Lease) {
        let (holder, ends) = (lease.holder, lease.ends);
        self.bytes += lease.charged_bytes();
        let registration = self.leases.add(database, secret, 0, lease);
        self.ends.insert((ends, registration));
        self.holders.insert((holder, registration));
        *self.counts.entry(holder).or_default() += 1;
    }

    /// Returns all, and leaves none.
    fn take(&mut self) -> LeaseTable {
        let empty = LeaseTable { issued: self.issued, ..LeaseTable::default() };
        std::mem::replace(self, empty)
    }

    fn remove(&mut self, registration: Registration) -> Lease {
        let lease = self.leases.remove(registration).expect("it was found just now");
        self.bytes -= lease.charged_bytes();
        self.ends.remove(&(lease.ends, registration));
        self.holders.remove(&(lease.holder, registration));
        let count = self.counts.get_mut(&lease.holder).expect("a lease has a holder");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&lease.holder);
        }
        lease
    }

    /// Makes the lease at `registration` end at `ends`.
    fn move_end(&mut self, registration: Registration, ends: UnixMs) {
        let Registration { database, secret, .. } = registration;
        let mut alike = self.leases.of(database, secret);
        let (_, lease) = alike.find(|(at, _)| *at == registration).expect("it was found just now");
        let before = std::mem::replace(&mut lease.ends, ends);
        drop(alike);
        self.ends.remove(&(before, registration));
        self.ends.insert((ends, registration));
    }

    /// Returns a lease whose time has passed at `now`.
    fn first_over(&self, now: UnixMs) -> Option<Registration> {
        self.ends.first().filter(|(ends, _)| *ends <= now).map(|(_, registration)| *registration)
    }

    /// Returns a lease of the session `holder`.
    fn first_of(&self, holder: u64) -> Option<Registration> {
        let first = Registration { database: DatabaseIndex(0), secret: 0, group: 0, arrival: 0 };
        let (of, registration) = *self.holders.range((holder, first)..).next()?;
        (of == holder).then_some(registration)
    }
}

impl ReadView<'_> {
    /// Returns the string at `key` and when it expires, marked as used; counts a hit or a miss.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn string_and_expiry(&self, key: &Key<'_>) -> Result<Option<TimedString<'_>>, WrongType> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        let (expiry, is_in_the_making) = (entry.expiry(), is_in_the_making(&entry));
        let value = self.string_in(key, entry)?;
        Ok(Some(TimedString { value, expiry, is_in_the_making }))
    }

    /// Returns the length of the string at `key` that has expired and may be read as a stale one;
    /// neither marks nor counts.
    pub fn stale_string_length(&self, key: &Key<'_>) -> Option<u64> {
        let part = self.part(key)?;
        let entry = part.table.entry(part.table.find(key.hash, key.bytes)?);
        let is_stale = is_expired(&entry, self.now()) && !is_in_the_making(&entry);
        stale_ms_left(&entry, self.now()).filter(|_| is_stale)?;
        string_length_of(entry).ok()
    }
}

impl<'g> ReadView<'g> {
    /// Returns the string at `key`, whether it has expired or not; neither marks nor counts.
    pub fn string_or_stale(&self, key: &Key<'_>) -> Option<&'g [u8]> {
        let part = self.part(key)?;
        let entry = part.table.entry(part.table.find(key.hash, key.bytes)?);
        self.string_in(key, entry).ok()
    }
}

impl WriteView<'_> {
    /// Checks that there is memory for all leases that the session `holder` gets where it asks for
    /// `keys` one after the other, beyond the limit up to `overshoot` bytes.
    ///
    /// # Errors
    /// NeedRoom of private memory for those.
    pub fn admit_leases(
        &mut self,
        keys: &[Key<'_>],
        holder: u64,
        overshoot: u64,
    ) -> Result<(), NeedRoom> {
        let most = keys.iter().map(|key| charged_bytes(key.bytes)).sum();
        if !self.lacks_room(&keys[0], most, overshoot) {
            return Ok(());
        }
        let bytes = self.given_bytes(keys, holder);
        match bytes > 0 && self.lacks_room(&keys[0], bytes, overshoot) {
            true => Err(NeedRoom { bytes, region: Region::Private }),
            false => Ok(()),
        }
    }

    /// Returns the bytes of the leases that `holder` would get for `keys`: each once, none of those
    /// that hold a value or have a lease, and no more of a shard than it may have.
    fn given_bytes(&mut self, keys: &[Key<'_>], holder: u64) -> u64 {
        let (database, now) = (self.database(), self.now());
        let (mut bytes, mut seen, mut given) = (0, BTreeSet::new(), BTreeMap::new());
        for key in keys {
            let is_there = self.as_read().inspect(key).is_some_and(|it| !is_expired(&it, now));
            let shard = self.shards.shard(key.shard);
            let given = given.entry(key.shard).or_insert(0);
            let is_given = *given < shard.leases.room_for(holder)
                && !is_there
                && seen.insert(key.bytes)
                && shard.leases.find(database, shard.secret_of(key.bytes), key.bytes).is_none();
            if is_given {
                *given += 1;
                bytes += charged_bytes(key.bytes);
            }
        }
        bytes
    }

    /// Gives the session `holder` the right to fill `key` for `ms`, unless somebody has it; its
    /// memory may pass the limit by `overshoot` bytes. The caller has the session ended by
    /// [`Keyspace::end_leases_of`] with this shard among those that it names.
    pub fn lease(&mut self, key: &Key<'_>, holder: u64, ms: u64, overshoot: u64) -> LeaseAnswer {
        let (database, now) = (self.database(), self.now());
        let shard = self.shards.shard(key.shard);
        let secret = shard.secret_of(key.bytes);
        let mut over = None;
        if let Some((registration, lease)) = shard.leases.find(database, secret, key.bytes) {
            if let Some(ms_left) = lease.ms_left(now) {
                return LeaseAnswer::Taken { ms_left };
            }
            over = Some((registration, lease.holder));
        }
        // One that is over stays until this is known: whoever ends it tells those who wait.
        match over {
            Some((_, over)) if !shard.leases.has_room_after(holder, over) => {
                return LeaseAnswer::TooMany;
            }
            Some((registration, _)) => {
                shard.published.lease_expiries.add(1);
                shard.drop_lease(registration);
            }
            None if shard.leases.room_for(holder) == 0 => return LeaseAnswer::TooMany,
            None => {
                let bytes = charged_bytes(key.bytes);
                if shard.lacks_room(bytes, overshoot) {
                    return LeaseAnswer::NoRoom(NeedRoom { bytes, region: Region::Private });
                }
            }
        }
        let token = shard.next_token();
        let ends = UnixMs(now.0.saturating_add_unsigned(ms));
        let lease = Lease { name: key.bytes.into(), token, holder, began: now, ends };
        shard.account().charge(lease.charged_bytes());
        shard.leases.add(database, secret, lease);
        shard.published.lease_grants.add(1);
        shard.publish_leases();
        LeaseAnswer::Won(token)
    }

    /// Returns for how many milliseconds more somebody has the right to fill `key`.
    pub fn lease_ms_left(&mut self, key: &Key<'_>) -> Option<u64> {
        let (database, now) = (self.database(), self.now());
        let shard = self.shards.shard(key.shard);
        if shard.leases.is_empty() {
            return None;
        }
        let secret = shard.secret_of(key.bytes);
        shard.leases.find(database, secret, key.bytes)?.1.ms_left(now)
    }

    /// Makes `key` hold the string `value`, and readable as a stale one for `grace_ms` once it has
    /// expired, if `token` is that of the lease of the key, which ends so. Returns whether it is.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn fill(
        &mut self,
        key: &Key<'_>,
        token: LeaseToken,
        value: &[u8],
        expiry: Expiry,
        grace_ms: u64,
    ) -> Result<bool, NeedRoom> {
        let Some(registration) = self.find_lease(key, token) else { return Ok(false) };
        let mut writer = self.writer(key);
        let lease = writer.shard.leases.remove(registration);
        if let Err(need) = writer.store(key, value, encoding_of(value), expiry) {
            // For the next attempt, once there is room.
            let Registration { database, secret, .. } = registration;
            writer.shard.leases.add(database, secret, lease);
            return Err(need);
        }
        if let Expiry::At(at) = expiry
            && grace_ms > 0
        {
            writer.add_grace(key, at, grace_of(grace_ms));
        }
        writer.shard.account().discharge(lease.charged_bytes());
        writer.shard.published.lease_fills.add(1);
        writer.shard.publish_leases();
        Ok(true)
    }

    /// Ends the lease of `key` that `token` is of, and tells who waits. Returns whether it went on.
    pub fn free_lease(&mut self, key: &Key<'_>, token: LeaseToken) -> bool {
        let Some(registration) = self.find_lease(key, token) else { return false };
        let mut writer = self.writer(key);
        writer.shard.drop_lease(registration);
        writer.appear(key);
        true
    }

    /// Makes the lease of `key` that `token` is of end in `ms`. Returns whether it went on.
    pub fn extend_lease(&mut self, key: &Key<'_>, token: LeaseToken, ms: u64) -> bool {
        let Some(registration) = self.find_lease(key, token) else { return false };
        let ends = UnixMs(self.now().0.saturating_add_unsigned(ms));
        self.shards.shard(key.shard).leases.move_end(registration, ends);
        true
    }

    /// Makes the string at `key` one that has expired, and may be read as a stale one for
    /// `grace_ms`; removes it where there is no memory for its time. To listeners either is a
    /// removal. Whoever fills the key loses the right to. Returns whether the key was there.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn make_stale(&mut self, key: &Key<'_>, grace_ms: u64) -> Result<bool, WrongType> {
        let now = self.now();
        let shard = self.shards.as_ref().shard(key.shard);
        let found = shard.database(self.database()).and_then(|part| {
            let entry = part.table.entry(part.table.find(key.hash, key.bytes)?);
            Some((entry.value_type(), is_expired(&entry, now)))
        });
        match found {
            Some((_, true)) | None => {
                // A stale value stays the one that it is.
                self.writer(key).void_lease(key);
                Ok(false)
            }
            Some((ValueType::String, false)) => {
                // So long ago that the grace, which is rounded up, ends when it is to.
                let grace = grace_of(grace_ms.saturating_add(STALE_SINCE_MS)).ms();
                let since = now.0.saturating_sub_unsigned(grace.saturating_sub(grace_ms));
                self.name_event("del");
                let made = self.set_stale_expiry(key, UnixMs(since), grace);
                self.name_event("");
                // It is no longer true: it goes, whatever there is no room for.
                Ok(made.unwrap_or_else(|_| self.remove(key)))
            }
            Some(_) => Err(WrongType),
        }
    }

    /// Makes `key` expire at `at`, which may have passed, and its value readable as a stale one for
    /// `grace_ms` behind that, or the longest that there is. Returns whether the key is there.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn set_stale_expiry(
        &mut self,
        key: &Key<'_>,
        at: UnixMs,
        grace_ms: u64,
    ) -> Result<bool, NeedRoom> {
        let (mut writer, grace) = (self.writer(key), grace_of(grace_ms));
        if !writer.set_time(key, Some(at), grace)? {
            return Ok(false);
        }
        let effect = Effect::ExpireStaleAt { key: key.bytes, at, grace_ms: grace.ms() };
        writer.changed(key, EventClass::Generic, effect);
        Ok(true)
    }

    /// Returns the lease of `key` that `token` is of, if it goes on.
    fn find_lease(&mut self, key: &Key<'_>, token: LeaseToken) -> Option<Registration> {
        let (database, now) = (self.database(), self.now());
        let shard = self.shards.shard(key.shard);
        let secret = shard.secret_of(key.bytes);
        let (registration, lease) = shard.leases.find(database, secret, key.bytes)?;
        (lease.token == token && lease.ms_left(now).is_some()).then_some(registration)
    }
}

/// Returns the grace of `ms`, or the longest that there is.
pub(crate) fn grace_of(ms: u64) -> Grace {
    Grace::at_least(ms.min(Grace::MS_MAX))
}

impl KeyWriter<'_> {
    /// Takes the right to fill `key` from whoever has it, and tells who waits.
    #[inline]
    pub(crate) fn void_lease(&mut self, key: &Key<'_>) {
        if !self.shard.leases.is_empty() {
            self.void_lease_there(key);
        }
    }

    #[cold]
    fn void_lease_there(&mut self, key: &Key<'_>) {
        self.void_lease_of(key.bytes, self.shard.secret_of(key.bytes));
    }

    /// As [`KeyWriter::void_lease`], of the key `name` with the secret hash `secret`.
    pub(crate) fn void_lease_of(&mut self, name: &[u8], secret: u64) {
        let Some((registration, _)) = self.shard.leases.find(self.database, secret, name) else {
            return;
        };
        self.shard.drop_lease(registration);
        self.shard.published.lease_voids.add(1);
        self.notify_waiters_of(name, secret);
    }

    /// Makes the value that was just stored at `key`, to expire at `at`, readable as a stale one
    /// for `grace` behind that.
    pub(crate) fn add_grace(&mut self, key: &Key<'_>, at: UnixMs, grace: Grace) {
        let part = self.part();
        let id = part.table.find(key.hash, key.bytes).expect("it was stored just now");
        part.table.set_grace(id, grace);
        let effect = Effect::ExpireStaleAt { key: key.bytes, at, grace_ms: grace.ms() };
        self.record_encoding(EventClass::Generic, effect);
    }
}

impl Shard {
    /// Voids all leases of keys of `database`, which gets other contents.
    pub fn void_leases_of(&mut self, database: DatabaseIndex) {
        if self.leases.is_empty() {
            return;
        }
        if self.leases.leases.are_all_of(database) {
            self.published.lease_voids.add(self.leases.leases.len() as u64);
            let ended = self.leases.take();
            self.account().discharge(ended.bytes);
            self.retire_leases(ended);
            return self.publish_leases();
        }
        let all = self.leases.leases.of_database(database);
        let all: Vec<Registration> = all.map(|(registration, _)| registration).collect();
        self.published.lease_voids.add(all.len() as u64);
        all.into_iter().for_each(|registration| drop(self.drop_lease(registration)));
    }

    fn drop_lease(&mut self, registration: Registration) -> Lease {
        let lease = self.leases.remove(registration);
        self.account().discharge(lease.charged_bytes());
        self.publish_leases();
        lease
    }

    fn publish_leases(&self) {
        self.published.leases.set(self.leases.leases.len() as u64);
    }

    pub(crate) fn secret_of(&self, name: &[u8]) -> u64 {
        self.account().arena().secret_hasher().hash(name)
    }

    fn next_token(&mut self) -> LeaseToken {
        self.leases.issued += 1;
        let mut number = [0; 16];
        number[..8].copy_from_slice(&self.leases.issued.to_le_bytes());
        number[8..10].copy_from_slice(&self.index().0.to_le_bytes());
        number[10..].copy_from_slice(b"leases");
        LeaseToken(self.secret_of(&number) >> (u64::BITS - TOKEN_BITS))
    }
}

impl Keyspace {
    /// Returns how many leases there are; takes no lock.
    pub fn lease_count(&self) -> u64 {
        self.shard_indexes().map(|index| self.published(index).leases.value()).sum()
    }

    /// Ends the leases of the session `holder` in `shards`, and leaves the keys for those who wait.
    /// The caller holds no guard, and serves what [`Keyspace::take_unserved`] returns.
    pub fn end_leases_of(&self, holder: u64, shards: &ShardSet) {
        for shard in shards.iter() {
            while self.end_leases_where(shard, |shard| shard.leases.first_of(holder)) {}
        }
    }

    /// Ends the leases whose time has passed at `now`, and leaves the keys for those who wait, as
    /// [`Keyspace::end_leases_of`] does.
    pub fn end_leases_over(&self, now: UnixMs) {
        for shard in self.shard_indexes() {
            if self.published(shard).leases.value() > 0 {
                let _has_more = self.end_leases_where(shard, |shard| {
                    let first = shard.leases.first_over(now);
                    shard.published.lease_expiries.add(u64::from(first.is_some()));
                    first
                });
            }
        }
    }

    /// Ends leases of `shard`, one after the other as `next` names them, as many as may be ended in
    /// one hold. Returns whether there may be more.
    fn end_leases_where(
        &self,
        shard: ShardIndex,
        next: impl Fn(&Shard) -> Option<Registration>,
    ) -> bool {
        let mut guard = self.lock(shard);
        let (shard, recorder) = guard.only();
        for _ in 0..KEYS_PER_HOLD_MAX {
            let Some(registration) = next(shard) else { return false };
            let lease = shard.drop_lease(registration);
            let Registration { database, secret, .. } = registration;
            let index = shard.index();
            if let Some(ready) = shard.waits.ready(database, index, secret, &lease.name) {
                recorder.note_ready(ready);
            }
        }
        true
    }
}

/// Returns whether `entry` is an item whose value is none: a client of memcached is to make it.
fn is_in_the_making(entry: &Entry<'_>) -> bool {
    tail_of(entry).is_some_and(|tail| tail.is_in_the_making)
}
