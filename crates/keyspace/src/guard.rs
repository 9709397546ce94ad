//! Guards: the only way to a shard's data.

use std::cmp::Ordering;
use std::sync::MutexGuard;

use arena::{NeedRoom, ReservedBlock};
use base::{DatabaseIndex, Key, Lsn, ShardIndex, UnixMs};

use crate::access::Access;
use crate::keyspace::Keyspace;
use crate::recorder::Recorder;
use crate::shard::Shard;
use crate::shard_set::ShardSet;
use crate::view::ReadView;
use crate::write::WriteView;

/// How many keys are asked for ahead: the lines of more would push each other out of the cache.
const PREFETCH_KEYS_MAX: usize = 512;
/// How many keys a read asks for together that asks for more as it comes to them: their misses
/// overlap, and their lines and those of the next stay in the first level of the cache meanwhile.
pub const KEYS_AHEAD: usize = 16;
/// How many shards a guard holds without memory for their list: those of most requests on several
/// keys.
const FEW_MAX: usize = 4;

/// The right to read and change the data of one shard, or of several.
///
/// A thread holds at most one guard at a time; several shards belong to one guard, which
/// [`Keyspace`] locks in ascending order. Dropping it ends the record that
/// [`Guard::begin_atomic`] began, as [`Guard::finish`] does.
///
/// # Panics
/// A panic while a guard is held leaves its shards poisoned and their tables frozen, and drops the
/// unfinished record: memory may hold half of a change, so whoever locks these shards next panics
/// too. Corrupt is worse than down.
pub struct Guard<'k> {
    keyspace: &'k Keyspace,
    held: Held<'k>,
    pub(crate) recorder: Recorder,
    #[cfg(debug_assertions)]
    _only: only_guard::Token,
}

enum Held<'k> {
    One(MutexGuard<'k, Shard>),
    Few(Few<'k>),
    Many(Box<Many<'k>>),
}

/// A few locked shards, in ascending order and from the front on.
struct Few<'k> {
    guards: [Option<MutexGuard<'k, Shard>>; FEW_MAX],
}

impl Shards for Few<'_> {
    fn shard(&self, index: ShardIndex) -> &Shard {
        let mut guards = self.guards.iter().flatten();
        guards.find(|guard| guard.index() == index).expect("only held shards are asked for")
    }

    fn shard_mut(&mut self, index: ShardIndex) -> &mut Shard {
        let mut guards = self.guards.iter_mut().flatten();
        guards.find(|guard| guard.index() == index).expect("only held shards are asked for")
    }

    fn holds(&self, index: ShardIndex) -> bool {
        self.guards.iter().flatten().any(|guard| guard.index() == index)
    }
}

/// Many locked shards.
struct Many<'k> {
    guards: Vec<MutexGuard<'k, Shard>>,
    /// For each shard of the keyspace its position in `guards` plus 1, or 0.
    positions: Vec<u16>,
}

/// Shards that are found by index; hides the lifetime of the locks from the views.
pub(crate) trait Shards {
    fn shard(&self, index: ShardIndex) -> &Shard;
    fn shard_mut(&mut self, index: ShardIndex) -> &mut Shard;
    fn holds(&self, index: ShardIndex) -> bool;

    /// Asks the cache for the entries of `keys`. Here, so that each kind of guard finds its shards
    /// by calls that are inlined: that costs as much as to ask for their lines.
    fn prefetch(&self, keys: &[Key<'_>], database: DatabaseIndex) {
        prefetch_in(keys, database, |index| self.shard(index));
    }
}

impl Shards for Many<'_> {
    #[inline]
    fn shard(&self, index: ShardIndex) -> &Shard {
        &self.guards[self.position(index)]
    }

    fn shard_mut(&mut self, index: ShardIndex) -> &mut Shard {
        let position = self.position(index);
        &mut self.guards[position]
    }

    fn holds(&self, index: ShardIndex) -> bool {
        self.positions[index.position()] > 0
    }
}

impl Many<'_> {
    #[inline]
    fn position(&self, index: ShardIndex) -> usize {
        let position = self.positions[index.position()];
        usize::from(position.checked_sub(1).expect("only held shards are asked for"))
    }
}

/// The shards of a guard, to read.
#[derive(Clone, Copy)]
pub(crate) enum ShardsRef<'g> {
    One(&'g Shard),
    Many(&'g dyn Shards),
}

impl<'g> ShardsRef<'g> {
    /// Returns shard `index`.
    ///
    /// # Panics
    /// When the guard does not hold it.
    #[inline]
    pub fn shard(self, index: ShardIndex) -> &'g Shard {
        match self {
            ShardsRef::One(shard) => {
                assert_eq!(shard.index(), index, "only the held shard is asked for");
                shard
            }
            ShardsRef::Many(shards) => shards.shard(index),
        }
    }

    /// Asks the cache for the entries of `keys`: their misses overlap.
    #[inline]
    pub fn prefetch(self, keys: &[Key<'_>], database: DatabaseIndex) {
        match self {
            ShardsRef::One(shard) => prefetch_in(keys, database, |_| shard),
            ShardsRef::Many(shards) => shards.prefetch(keys, database),
        }
    }

    /// Returns whether shard `index` is held.
    pub fn holds(self, index: ShardIndex) -> bool {
        match self {
            ShardsRef::One(shard) => shard.index() == index,
            ShardsRef::Many(shards) => shards.holds(index),
        }
    }
}

/// The shards of a guard, to change.
pub(crate) enum ShardsMut<'g> {
    One(&'g mut Shard),
    Many(&'g mut dyn Shards),
}

impl ShardsMut<'_> {
    /// Returns shard `index`.
    ///
    /// # Panics
    /// When the guard does not hold it.
    #[inline]
    pub fn shard(&mut self, index: ShardIndex) -> &mut Shard {
        match self {
            ShardsMut::One(shard) => {
                assert_eq!(shard.index(), index, "only the held shard is asked for");
                shard
            }
            ShardsMut::Many(shards) => shards.shard_mut(index),
        }
    }

    /// Returns the same shards, to read.
    #[inline]
    pub fn as_ref(&self) -> ShardsRef<'_> {
        match self {
            ShardsMut::One(shard) => ShardsRef::One(shard),
            ShardsMut::Many(shards) => ShardsRef::Many(*shards),
        }
    }
}

impl<'k> Guard<'k> {
    /// Wraps one locked shard.
    #[inline]
    pub(crate) fn one(keyspace: &'k Keyspace, shard: MutexGuard<'k, Shard>) -> Guard<'k> {
        Guard {
            keyspace,
            held: Held::One(shard),
            recorder: Recorder::default(),
            #[cfg(debug_assertions)]
            _only: only_guard::Token::new(),
        }
    }

    /// Locks `shards`, which are few and in ascending order. Here and in [`Guard::many`] several
    /// locks are taken, in the same order: the proof that no two guards wait for each other.
    #[inline]
    pub(crate) fn few(
        keyspace: &'k Keyspace,
        shards: &[ShardIndex],
        mut waits: impl FnMut(),
    ) -> Guard<'k> {
        assert!(shards.len() <= FEW_MAX, "they are few");
        assert!(shards.is_sorted_by(|a, b| a < b), "locks are taken in ascending order");
        #[cfg(debug_assertions)]
        let only = only_guard::Token::new();
        // `array::from_fn` calls it in ascending order of the index, so that the locks are taken in
        // ascending order of the shards.
        let locked = |position| {
            shards.get(position).map(|shard| keyspace.acquire_or_notify(*shard, &mut waits))
        };
        Guard {
            keyspace,
            held: Held::Few(Few { guards: std::array::from_fn(locked) }),
            recorder: Recorder::default(),
            #[cfg(debug_assertions)]
            _only: only,
        }
    }

    /// Locks the shards of `keys`, without memory for their list where they are few, and calls
    /// `waits` before it waits for another thread.
    #[inline]
    pub(crate) fn keys(keyspace: &'k Keyspace, keys: &[Key<'_>], waits: impl FnMut()) -> Guard<'k> {
        if let [one, other] = keys {
            return match one.shard.cmp(&other.shard) {
                Ordering::Less => Guard::few(keyspace, &[one.shard, other.shard], waits),
                Ordering::Equal => keyspace.lock_or_notify(one.shard, waits),
                Ordering::Greater => Guard::few(keyspace, &[other.shard, one.shard], waits),
            };
        }
        let mut few = [ShardIndex(0); FEW_MAX];
        let mut count = 0;
        for key in keys {
            let Err(position) = few[..count].binary_search(&key.shard) else { continue };
            if count == FEW_MAX {
                let mut shards = ShardSet::new();
                keys.iter().for_each(|key| shards.insert(key.shard));
                return Guard::many(keyspace, &shards, waits);
            }
            few.copy_within(position..count, position + 1);
            few[position] = key.shard;
            count += 1;
        }
        match &few[..count] {
            // A request that counts its keys wrong is refused under any guard.
            [] => keyspace.lock_or_notify(ShardIndex(0), waits),
            [only] => keyspace.lock_or_notify(*only, waits),
            few => Guard::few(keyspace, few, waits),
        }
    }

    /// As [`Guard::keys`], for a set of shards.
    pub(crate) fn set(keyspace: &'k Keyspace, shards: &ShardSet) -> Guard<'k> {
        let mut few = [ShardIndex(0); FEW_MAX];
        let mut members = shards.iter();
        let mut count = 0;
        for (few, member) in few.iter_mut().zip(&mut members) {
            *few = member;
            count += 1;
        }
        match &few[..count] {
            [only] => keyspace.lock(*only),
            few if members.next().is_none() => Guard::few(keyspace, few, || {}),
            _ => Guard::many(keyspace, shards, || {}),
        }
    }

    /// Locks `shards` in ascending order, whatever their number, and calls `waits` before it waits
    /// for another thread.
    pub(crate) fn many(
        keyspace: &'k Keyspace,
        shards: &ShardSet,
        mut waits: impl FnMut(),
    ) -> Guard<'k> {
        let mut many = Many {
            guards: Vec::with_capacity(shards.len()),
            positions: vec![0; keyspace.shard_count()],
        };
        #[cfg(debug_assertions)]
        let only = only_guard::Token::new();
        for shard in shards.iter() {
            many.guards.push(keyspace.acquire_or_notify(shard, &mut waits));
            many.positions[shard.position()] = many.guards.len() as u16;
        }
        Guard {
            keyspace,
            held: Held::Many(Box::new(many)),
            recorder: Recorder::default(),
            #[cfg(debug_assertions)]
            _only: only,
        }
    }

    /// Returns whether this guard holds `shard`.
    pub fn holds(&self, shard: ShardIndex) -> bool {
        self.shards().holds(shard)
    }

    /// Returns whether this guard holds `shard` and no other.
    #[inline]
    pub fn is_only(&self, shard: ShardIndex) -> bool {
        matches!(&self.held, Held::One(held) if held.index() == shard)
    }

    /// Returns whether this guard is for two keys in the shards `one` and `other`, and no others.
    #[inline]
    pub fn is_pair(&self, one: ShardIndex, other: ShardIndex) -> bool {
        match &self.held {
            Held::One(held) => held.index() == one && one == other,
            Held::Few(Few { guards: [Some(first), Some(second), None, _] }) => {
                let held = [first.index(), second.index()];
                held == [one, other] || held == [other, one]
            }
            Held::Few(_) | Held::Many(_) => false,
        }
    }

    /// Returns the view that reads `database` at time `now`.
    #[inline]
    pub fn read(&self, database: DatabaseIndex, now: UnixMs) -> ReadView<'_> {
        ReadView::new(self.shards(), &self.recorder, database, now)
    }

    /// Returns the view that changes `database` at time `now`.
    #[inline]
    pub fn write(&mut self, database: DatabaseIndex, now: UnixMs) -> WriteView<'_> {
        let shards = match &mut self.held {
            Held::One(shard) => ShardsMut::One(shard),
            Held::Few(few) => ShardsMut::Many(few),
            Held::Many(many) => ShardsMut::Many(&mut **many),
        };
        WriteView::new(shards, &mut self.recorder, database, now)
    }

    /// Returns access to the whole keyspace.
    ///
    /// # Panics
    /// When the guard does not hold all shards.
    pub fn access(&mut self) -> Access<'_> {
        let Held::Many(many) = &mut self.held else { panic!("a few shards are not the keyspace") };
        assert_eq!(many.guards.len(), self.keyspace.shard_count(), "all shards are held");
        Access::held(self.keyspace, &mut **many, &mut self.recorder)
    }

    /// Asks the cache for the entries of `keys`, the first 512 at once: their misses overlap.
    pub fn prefetch(&self, keys: &[Key<'_>], database: DatabaseIndex) {
        self.shards().prefetch(&keys[..keys.len().min(PREFETCH_KEYS_MAX)], database);
    }

    /// Asks the cache for the counts of the slots of `keys`, the first few: a change of several
    /// keys is likely to change these.
    #[inline]
    pub fn prefetch_counts(&self, keys: &[Key<'_>], database: DatabaseIndex) {
        for key in keys.iter().take(FEW_MAX) {
            if let Some(part) = self.shards().shard(key.shard).database(database) {
                part.slots.prefetch(key.slot);
            }
        }
    }

    /// Asks the cache for where `keys` would be, which are not there as far as is known.
    pub fn prefetch_buckets(&self, keys: &[Key<'_>], database: DatabaseIndex) {
        for key in keys {
            self.shards().shard(key.shard).prefetch_bucket(database, key.hash);
        }
    }

    /// Makes room in the index of `database`, in the shard that is held, for so many keys more.
    ///
    /// # Errors
    /// When there is none: the room that there was is made.
    pub fn reserve(&mut self, database: DatabaseIndex, keys: u64) -> Result<(), NeedRoom> {
        let (shard, recorder) = self.only();
        shard.ensure_database(database, recorder)?;
        shard.freeze_if_atomic(database, recorder);
        let part = shard.database_mut(database).expect("it was made just now");
        part.table.grow_for(keys)
    }

    /// Makes all that changes from here on one record, hidden from readers in other processes
    /// until it is complete and free to pass the memory limit: nothing is evicted meanwhile.
    pub fn begin_atomic(&mut self) {
        self.recorder.begin_atomic();
    }

    /// Gives the records of this guard the time `at`, whatever the time of the views that change: a
    /// replay asks no clock, and its records happened when the original ones did.
    pub fn replay_at(&mut self, at: UnixMs) {
        self.recorder.replayed_at = Some(at);
    }

    /// Returns whether a lookup under this guard has met an expired key since
    /// [`Guard::remove_expired`].
    #[inline]
    pub fn has_met_expired(&self) -> bool {
        self.recorder.saw_expired().get()
    }

    /// Removes those of `keys` that have expired at `now` in `database`, each with its effect;
    /// those whose values may be read as stale ones stay.
    pub fn remove_expired(&mut self, keys: &[Key<'_>], database: DatabaseIndex, now: UnixMs) {
        self.recorder.saw_expired().set(false);
        let mut view = self.write(database, now);
        for key in keys {
            view.remove_over(key);
        }
    }

    /// Forgets that a lookup has met an expired key, which stays.
    pub fn leave_expired(&mut self) {
        self.recorder.saw_expired().set(false);
    }

    /// Lets changes of the atomic record whose bytes no request brings, such as the gap of
    /// SETRANGE, pass the memory limit by `bytes` in all; beyond, they answer that they need room.
    /// Where the record is one of several commands, so do collections, which take more than what
    /// they are given.
    pub fn limit_overshoot(&mut self, bytes: u64, is_of_several: bool) {
        self.recorder.limit_overshoot(bytes, if is_of_several { bytes } else { u64::MAX });
    }

    /// Offers a block with the value of the current request: a change that stores this value makes
    /// the block its entry's. To be followed by a [`Guard::take_back`].
    pub fn offer(&mut self, block: Box<ReservedBlock>) {
        self.recorder.offer = Some(block);
    }

    /// Returns the block on offer, unless it was taken.
    pub fn take_back(&mut self) -> Option<Box<ReservedBlock>> {
        self.recorder.offer.take()
    }

    /// Completes the atomic record, where one began, and returns the LSN of the last record; 0 is
    /// none. The shards stay locked.
    #[inline]
    pub fn end_record(&mut self) -> Lsn {
        if self.recorder.is_atomic() {
            self.complete();
        }
        self.recorder.last_lsn()
    }

    /// Completes the atomic record, where one began, unlocks, and returns the LSN of the last
    /// record; 0 is none.
    pub fn finish(mut self) -> Lsn {
        self.end_record()
    }

    pub(crate) fn keyspace(&self) -> &'k Keyspace {
        self.keyspace
    }

    #[inline]
    pub(crate) fn shards(&self) -> ShardsRef<'_> {
        match &self.held {
            Held::One(shard) => ShardsRef::One(shard),
            Held::Few(few) => ShardsRef::Many(few),
            Held::Many(many) => ShardsRef::Many(&**many),
        }
    }

    /// Returns the only shard, and what records its changes.
    ///
    /// # Panics
    /// When the guard holds several.
    pub(crate) fn only(&mut self) -> (&mut Shard, &mut Recorder) {
        let Held::One(shard) = &mut self.held else { panic!("the guard of one shard") };
        (shard, &mut self.recorder)
    }

    pub(crate) fn shard_mut(&mut self, index: ShardIndex) -> &mut Shard {
        match &mut self.held {
            Held::One(shard) => {
                assert_eq!(shard.index(), index, "only the held shard is asked for");
                shard
            }
            Held::Few(few) => few.shard_mut(index),
            Held::Many(many) => many.shard_mut(index),
        }
    }

    /// Returns the shards in the order in which they were locked.
    #[cfg(test)]
    pub(crate) fn lock_order(&self) -> Vec<ShardIndex> {
        match &self.held {
            Held::One(shard) => vec![shard.index()],
            Held::Few(few) => few.guards.iter().flatten().map(|shard| shard.index()).collect(),
            Held::Many(many) => many.guards.iter().map(|shard| shard.index()).collect(),
        }
    }

    #[cold]
    fn complete(&mut self) {
        self.keyspace.account.suspect_overshoot();
        let lsn = self.recorder.finish_atomic(self.held.first().sink.as_deref());
        // Every lock is still held: a reader that meets one thawed table finds the others frozen
        // or complete, never half of the record.
        self.for_each_shard(|shard| shard.complete(lsn));
    }

    /// Does what the holder of the guard has left to do, unless he panics.
    #[cold]
    fn end_unfinished(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.end_record();
        let ready = self.recorder.take_ready();
        if !ready.is_empty() {
            self.keyspace.unserved.add(ready);
        }
    }

    /// Calls `visit` with each shard that is held.
    pub(crate) fn for_each_shard(&mut self, mut visit: impl FnMut(&mut Shard)) {
        match &mut self.held {
            Held::One(shard) => visit(shard),
            Held::Few(few) => few.guards.iter_mut().flatten().for_each(|shard| visit(shard)),
            Held::Many(many) => many.guards.iter_mut().for_each(|shard| visit(shard)),
        }
    }
}

#[inline]
fn prefetch_in<'s>(
    keys: &[Key<'_>],
    database: DatabaseIndex,
    shard: impl Fn(ShardIndex) -> &'s Shard,
) {
    for key in keys {
        shard(key.shard).prefetch_bucket(database, key.hash);
    }
    for key in keys {
        shard(key.shard).prefetch_entry(database, key.hash);
    }
}

impl Held<'_> {
    fn first(&self) -> &Shard {
        let first = match self {
            Held::One(shard) => Some(shard),
            Held::Few(few) => few.guards[0].as_ref(),
            Held::Many(many) => many.guards.first(),
        };
        first.expect("a guard holds a shard")
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.recorder.is_atomic() || self.recorder.has_ready() {
            self.end_unfinished();
        }
    }
}

/// Catches, in builds with assertions, a thread that would hold two guards at once.
#[cfg(debug_assertions)]
mod only_guard {
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<bool> = const { Cell::new(false) };
    }

    pub struct Token;

    impl Token {
        pub fn new() -> Token {
            assert!(!HELD.replace(true), "a thread holds one guard at a time");
            Token
        }
    }

    impl Drop for Token {
        fn drop(&mut self) {
            HELD.set(false);
        }
    }
}
