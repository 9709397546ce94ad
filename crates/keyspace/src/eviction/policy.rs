//! The eviction policies: which keys may be evicted, and which of them first.
//!
//! A policy is a file of this folder with its rows and its [`Ranking`], its `mod` line in
//! `eviction.rs`, and a line for each row in [`EvictionPolicy::ALL`]. A ranking that observes is
//! told what happens, not when. `spared.rs` is no policy: it keeps a command's keys from going.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arena::{AccessMark, Entry};
use base::prng::Prng;
use base::{DatabaseIndex, UnixMs};
use effects::Cause;

use crate::access_mark::Tracking;
use crate::eviction::adaptive::{self, Adaptive, SharedPart};
#[cfg(test)]
use crate::eviction::recorded;
use crate::eviction::{lfu, lru, random, ttl};
use crate::keyspace::Keyspace;
use crate::memory_limit::MemoryAccount;
use crate::object::Object;
use crate::published::DatabaseCounts;
use crate::shard::is_expired;

/// One policy.
pub(crate) struct Row {
    /// Redis's name where it is one of Redis's.
    pub name: &'static str,
    /// Which keys may go.
    pub scope: Scope,
    /// What the entries' marks have to tell.
    pub marks: Marks,
    /// Chance alone decides: a choice looks at one key, and remembers none.
    pub is_random: bool,
    /// The ranking has memory of its own, and is told what happens to keys.
    pub observes: bool,
    /// A choice looks at so many keys at least, whatever maxmemory-samples says.
    pub samples_min: u32,
    /// As above, where large entries are wanted.
    pub block_samples_min: u32,
    /// As above, where memory of either kind is wanted: nothing is remembered of these choices.
    pub samples_anywhere_min: u32,
    /// Returns the ranking of one shard.
    pub ranking: fn(&Setup<'_>) -> RankingKind,
}

/// The ranking of a shard. That of the adaptive policy is called by its type: it is told of each
/// use of a key, and a call through a table would take about as long as what it does then.
pub(crate) enum RankingKind {
    Adaptive(Box<Adaptive>),
    Other(Box<dyn Ranking>),
}

impl RankingKind {
    fn get(&self) -> &dyn Ranking {
        match self {
            RankingKind::Adaptive(ranking) => &**ranking,
            RankingKind::Other(ranking) => &**ranking,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Ranking {
        match self {
            RankingKind::Adaptive(ranking) => &mut **ranking,
            RankingKind::Other(ranking) => &mut **ranking,
        }
    }
}

/// What the ranking of a shard is made of.
pub(crate) struct Setup<'s> {
    /// What the adaptive policy's rankings share, where it is in force.
    pub adaptive: Option<&'s Arc<SharedPart>>,
    /// A number that nobody outside knows.
    pub seed: u64,
}

/// What memory there is for keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The memory limit; 0 is none.
    pub maxmemory: u64,
    /// The bytes in use.
    pub used: u64,
}

impl Room {
    /// Returns how many bytes of keys there are once memory is full, where there are `keys_bytes`
    /// now; 0 without a limit. What the index and the allocators take grows with the keys, once
    /// these take most of the memory.
    pub fn capacity(self, keys_bytes: u64) -> u64 {
        let Room { maxmemory, used } = self;
        if used > maxmemory / 2 {
            let scaled = u128::from(maxmemory) * u128::from(keys_bytes) / u128::from(used.max(1));
            return u64::try_from(scaled).unwrap_or(u64::MAX);
        }
        maxmemory - (used - keys_bytes.min(used))
    }
}

/// Which keys a policy may evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    None,
    All,
    /// Those with a time to live.
    Volatile,
}

/// What the marks of entries have to tell a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Nothing: uses do not matter.
    Ignored,
    /// When the entry was used last.
    Dated,
    /// How often as well.
    Counted,
    /// What the ranking itself keeps there: [`Ranking::see`] returns it.
    Own,
}

/// Says which keys of one shard are evicted first. The holder of the shard calls it.
pub(crate) trait Ranking: Send {
    /// Returns how soon `candidate`, which has not expired, should go: of two the one with the
    /// higher rank, below `u64::MAX`. As long as an entry is not used its rank does not fall.
    fn rank(&self, candidate: &Candidate<'_>, random: &mut Prng) -> u64;

    /// Learns what happened to a key; only where the row says that the ranking observes. Returns
    /// the mark that the entry keeps, where marks are the ranking's own and the key is there.
    fn see(&mut self, _told: &Told<'_>, _event: KeyEvent) -> Option<AccessMark> {
        None
    }

    /// Learns of so many keys and their bytes that were there when the policy was chosen: it has
    /// not seen them come.
    fn adopt(&mut self, _keys: u64, _bytes: u64) {}

    /// Prepares for ranks that are compared with those of other shards.
    fn begin_choice(&mut self) {}

    /// Learns what memory there is for the keys of all shards; once for each choice.
    fn note_room(&self, _room: Room) {}

    /// Returns whether the key of an entry with this mark came so lately that it does not go yet.
    fn is_new(&self, _mark: AccessMark) -> bool {
        false
    }

    /// Asks the cache for what it looks at when the key of this hash comes or goes.
    fn prefetch(&self, _database: DatabaseIndex, _hash: u64) {}

    /// Returns a key that is not new any more: if it is still there it is a candidate of the next
    /// choice.
    fn leave_window(&mut self) -> Option<Leaving> {
        None
    }

    /// Returns how often the entry with `mark` is used, as a logarithm, where the ranking knows.
    fn frequency(&self, _mark: AccessMark) -> Option<u8> {
        None
    }

    /// Returns the memory of its own, in bytes; it is counted in the memory limit.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Charges the memory that the rankings of all shards share, where it may have changed by this
    /// one.
    fn recharge_shared(&mut self, _account: &MemoryAccount) {}
}

/// A key that is not new any more.
#[derive(Clone, Copy)]
pub(crate) struct Leaving {
    /// Its hash, with the database in it.
    pub salted: u64,
    /// Its rank, unless it was used since it came or has a cost: then the rank is lower.
    pub rank: u64,
}

/// The key to which something happened.
pub(crate) struct Told<'t> {
    pub database: DatabaseIndex,
    pub hash: u64,
    /// What its entry remembers, or remembered.
    pub mark: AccessMark,
    /// Returns the bytes that it takes, where it was used or written over.
    pub bytes: &'t dyn Fn() -> u64,
}

impl Told<'_> {
    /// Returns a key to which nothing happens of which [`Told::bytes`] is asked.
    #[inline]
    pub fn of(database: DatabaseIndex, hash: u64, mark: AccessMark) -> Told<'static> {
        Told { database, hash, mark, bytes: &|| 0 }
    }
}

/// What happens to keys, for the policies that have memory of their own. The bytes of a key are
/// those of its entry and its collection together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyEvent {
    /// The key was read, so many times: readers in other processes report but a sample of their
    /// reads.
    Used(u32),
    /// The key was written over or changed.
    Written,
    /// A lookup did not find the key, or found that it has expired.
    Missed,
    /// The key is there now, and takes so many bytes.
    Inserted(u64),
    /// Of the bytes of the key a part of so many has become one of so many.
    Resized(u64, u64),
    /// The key has gone, with so many bytes: those that it took when its size was told last. A
    /// flush is not told key by key.
    Removed(u64, Cause),
    /// All keys of the database have gone at once, so many; the hash means nothing.
    Flushed { keys: u64, bytes: u64 },
    /// All keys of the database are those of this other one now, and the other way round; the hash
    /// means nothing.
    Swapped(DatabaseIndex),
}

/// An entry that may be evicted.
pub(crate) struct Candidate<'c> {
    pub object: Object<'c>,
    pub tracking: &'c Tracking,
    pub now: UnixMs,
}

/// Which keys may be evicted and which of them first.
#[derive(Clone, Copy)]
pub struct EvictionPolicy(&'static Row);

impl EvictionPolicy {
    /// None: a write that lacks room is refused.
    pub const NO_EVICTION: EvictionPolicy = EvictionPolicy(&random::NO_EVICTION);
    /// Any key, the least recently used first.
    pub const ALLKEYS_LRU: EvictionPolicy = EvictionPolicy(&lru::ALLKEYS);
    /// Any key, the least frequently used first.
    pub const ALLKEYS_LFU: EvictionPolicy = EvictionPolicy(&lfu::ALLKEYS);
    /// Any key, at random.
    pub const ALLKEYS_RANDOM: EvictionPolicy = EvictionPolicy(&random::ALLKEYS);
    /// Keys with a time to live, the least recently used first.
    pub const VOLATILE_LRU: EvictionPolicy = EvictionPolicy(&lru::VOLATILE);
    /// Keys with a time to live, the least frequently used first.
    pub const VOLATILE_LFU: EvictionPolicy = EvictionPolicy(&lfu::VOLATILE);
    /// Keys with a time to live, at random.
    pub const VOLATILE_RANDOM: EvictionPolicy = EvictionPolicy(&random::VOLATILE);
    /// Keys with a time to live, the one that ends first.
    pub const VOLATILE_TTL: EvictionPolicy = EvictionPolicy(&ttl::VOLATILE);

    /// Any key, the one that is worth least for what it takes.
    pub const ADAPTIVE: EvictionPolicy = EvictionPolicy(&adaptive::ALLKEYS);
    /// Keys with a time to live, the one that is worth least for what it takes.
    pub const VOLATILE_ADAPTIVE: EvictionPolicy = EvictionPolicy(&adaptive::VOLATILE);

    /// All policies, Redis's in the order in which it names them.
    pub const ALL: &[EvictionPolicy] = &[
        EvictionPolicy::VOLATILE_LRU,
        EvictionPolicy::VOLATILE_LFU,
        EvictionPolicy::VOLATILE_RANDOM,
        EvictionPolicy::VOLATILE_TTL,
        EvictionPolicy::ALLKEYS_LRU,
        EvictionPolicy::ALLKEYS_LFU,
        EvictionPolicy::ALLKEYS_RANDOM,
        EvictionPolicy::NO_EVICTION,
        EvictionPolicy::ADAPTIVE,
        EvictionPolicy::VOLATILE_ADAPTIVE,
        #[cfg(test)]
        EvictionPolicy(&recorded::ALLKEYS),
    ];

    /// The policies of Redis.
    pub const OF_REDIS: &[EvictionPolicy] = EvictionPolicy::ALL.split_at(8).0;

    /// Returns the name, Redis's where it is one of Redis's.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns where it stands in [`EvictionPolicy::ALL`].
    pub(crate) fn position(self) -> u8 {
        let position = EvictionPolicy::ALL.iter().position(|one| *one == self);
        position.expect("all policies are in the list") as u8
    }

    /// Returns whether accesses are counted, not only dated.
    pub(crate) fn counts_accesses(self) -> bool {
        self.0.marks == Marks::Counted
    }

    /// Returns whether it matters when or how often a key was used.
    pub(crate) fn minds_uses(self) -> bool {
        self.0.marks != Marks::Ignored || self.0.observes
    }

    /// Returns whether the marks of entries tell when they were used last.
    pub(crate) fn dates_uses(self) -> bool {
        self.0.marks == Marks::Dated
    }

    /// Returns whether it has memory of its own.
    pub(crate) fn observes(self) -> bool {
        self.0.observes
    }

    /// Returns whether it is the adaptive policy, of whatever keys.
    pub(crate) fn is_adaptive(self) -> bool {
        self == EvictionPolicy::ADAPTIVE || self == EvictionPolicy::VOLATILE_ADAPTIVE
    }

    /// Returns how many keys a choice looks at where `configured` is maxmemory-samples.
    pub(crate) fn samples(self, configured: u32) -> u32 {
        if self.is_random() { 1 } else { configured.max(self.0.samples_min) }
    }

    /// Returns how many large entries a choice looks at.
    pub(crate) fn block_samples(self, configured: u32) -> u32 {
        if self.is_random() { 1 } else { configured.max(self.0.block_samples_min) }
    }

    /// Returns how many entries a choice among those of all shards looks at.
    pub(crate) fn samples_anywhere(self, configured: u32) -> u32 {
        if self.is_random() { 1 } else { configured.max(self.0.samples_anywhere_min) }
    }

    /// Returns whether only keys with a time to live may go.
    pub fn is_volatile(self) -> bool {
        self.0.scope == Scope::Volatile
    }

    /// Returns whether chance alone decides.
    pub(crate) fn is_random(self) -> bool {
        self.0.is_random
    }

    /// Returns how many of so many keys may be evicted.
    pub(crate) fn candidates(self, counts: DatabaseCounts) -> u64 {
        match self.0.scope {
            Scope::None => 0,
            Scope::All => counts.keys,
            Scope::Volatile => counts.volatile,
        }
    }

    /// Returns whether `entry` may be evicted.
    #[inline]
    pub(crate) fn allows(self, entry: &Entry<'_>) -> bool {
        match self.0.scope {
            Scope::None => false,
            Scope::All => true,
            Scope::Volatile => entry.header().has_ttl(),
        }
    }
}

impl Default for EvictionPolicy {
    /// Returns Redis's: nothing is evicted unasked.
    fn default() -> EvictionPolicy {
        EvictionPolicy::NO_EVICTION
    }
}

impl PartialEq for EvictionPolicy {
    fn eq(&self, other: &EvictionPolicy) -> bool {
        self.name() == other.name()
    }
}

impl Eq for EvictionPolicy {}

impl std::fmt::Debug for EvictionPolicy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The policy of one shard, with what it remembers.
pub(crate) struct ShardPolicy {
    /// Whether the ranking is told what happens to keys; asked at every lookup.
    pub observes: bool,
    /// Whether marks of entries are the ranking's own.
    pub owns_marks: bool,
    ranking: RefCell<RankingKind>,
    /// What is charged of the ranking's memory.
    charged_bytes: Cell<u64>,
}

impl ShardPolicy {
    /// Returns `policy`, which has seen nothing.
    pub fn new(policy: EvictionPolicy, setup: &Setup<'_>) -> ShardPolicy {
        let ranking = RefCell::new((policy.0.ranking)(setup));
        let (observes, owns_marks) = (policy.0.observes, policy.0.marks == Marks::Own);
        ShardPolicy { observes, owns_marks, ranking, charged_bytes: Cell::new(0) }
    }

    /// Returns how soon the candidate should go. What has expired goes first.
    #[inline]
    pub fn rank(&self, candidate: &Candidate<'_>, random: &mut Prng) -> u64 {
        if is_expired(&candidate.object, candidate.now) {
            return u64::MAX;
        }
        match &*self.ranking.borrow() {
            RankingKind::Adaptive(ranking) => ranking.rank_and_newness(&candidate.object).0,
            RankingKind::Other(ranking) => ranking.rank(candidate, random),
        }
    }

    /// As [`ShardPolicy::rank`] of a candidate that was drawn: one that came so lately that it does
    /// not go yet is behind all that did not, as their ranks are near each other.
    #[inline(always)]
    pub fn rank_drawn(&self, candidate: &Candidate<'_>, random: &mut Prng) -> u64 {
        if is_expired(&candidate.object, candidate.now) {
            return u64::MAX;
        }
        let (rank, is_new) = match &*self.ranking.borrow() {
            RankingKind::Adaptive(ranking) => ranking.rank_and_newness(&candidate.object),
            RankingKind::Other(ranking) => {
                let is_new = self.observes && ranking.is_new(candidate.object.mark());
                (ranking.rank(candidate, random), is_new)
            }
        };
        if is_new { rank / 2 } else { rank }
    }

    /// Tells the ranking what happened to a key, and charges what it remembers. Returns the mark
    /// that the entry keeps, where marks are the ranking's own.
    #[inline(never)]
    pub fn tell(
        &self,
        told: &Told<'_>,
        event: KeyEvent,
        account: &MemoryAccount,
    ) -> Option<AccessMark> {
        self.tell_here(told, event, account)
    }

    /// As [`ShardPolicy::tell`], compiled into the caller: where the event is known there, only
    /// what is done of it remains. Keys come and go so often that it pays.
    #[inline(always)]
    pub fn tell_here(
        &self,
        told: &Told<'_>,
        event: KeyEvent,
        account: &MemoryAccount,
    ) -> Option<AccessMark> {
        match &mut *self.ranking.borrow_mut() {
            RankingKind::Adaptive(ranking) => {
                self.tell_ranking(&mut **ranking, told, event, account)
            }
            RankingKind::Other(ranking) => self.tell_ranking(&mut **ranking, told, event, account),
        }
    }

    #[inline(always)]
    fn tell_ranking(
        &self,
        ranking: &mut (impl Ranking + ?Sized),
        told: &Told<'_>,
        event: KeyEvent,
        account: &MemoryAccount,
    ) -> Option<AccessMark> {
        let mark = ranking.see(told, event);
        // Its memory grows as keys come. The few samples that it keeps of others are charged then.
        if matches!(event, KeyEvent::Inserted(_) | KeyEvent::Flushed { .. }) {
            self.charge(ranking.memory_bytes(), account);
            ranking.recharge_shared(account);
        }
        mark
    }

    /// As [`ShardPolicy::tell`], of a key that was read once, or `IS_WRITTEN` over, which is what
    /// happens most often; `None` where more is to be done than to change the mark, of which
    /// nothing is done then.
    #[inline(always)]
    pub fn tell_plain<const IS_WRITTEN: bool>(
        &self,
        database: DatabaseIndex,
        hash: u64,
        mark: AccessMark,
    ) -> Option<AccessMark> {
        // Nobody else has borrowed it: to panic where somebody has would cost each use a frame.
        match &mut *self.ranking.try_borrow_mut().ok()? {
            RankingKind::Adaptive(ranking) => ranking.see_plain::<IS_WRITTEN>(database, hash, mark),
            RankingKind::Other(_) => None,
        }
    }

    /// Tells the ranking that ranks are about to be compared.
    pub fn begin_choice(&self) {
        self.ranking.borrow_mut().get_mut().begin_choice();
    }

    /// Tells the ranking what memory there is for the keys of all shards.
    pub fn note_room(&self, room: Room) {
        self.ranking.borrow().get().note_room(room);
    }

    /// Returns whether the key of an entry with `mark` came so lately that it does not go yet.
    #[inline]
    pub fn is_new(&self, mark: AccessMark) -> bool {
        self.observes && self.ranking.borrow().get().is_new(mark)
    }

    /// Has the ranking, where it observes, prepare for the key of `hash` to come or go.
    #[inline]
    pub fn prefetch(&self, database: DatabaseIndex, hash: u64) {
        if self.observes {
            match &*self.ranking.borrow() {
                RankingKind::Adaptive(ranking) => ranking.prefetch(database, hash),
                RankingKind::Other(ranking) => ranking.prefetch(database, hash),
            }
        }
    }

    /// Returns a key that is not new any more.
    pub fn leave_window(&self) -> Option<Leaving> {
        match &mut *self.ranking.borrow_mut() {
            RankingKind::Adaptive(ranking) => ranking.leave_window(),
            RankingKind::Other(ranking) => ranking.leave_window(),
        }
    }

    /// Returns how often the entry with `mark` is used, as a logarithm, where the ranking knows.
    pub fn frequency(&self, mark: AccessMark) -> Option<u8> {
        if self.owns_marks { self.ranking.borrow().get().frequency(mark) } else { None }
    }

    /// Tells the ranking of so many keys that it has not seen come.
    pub fn adopt(&self, keys: u64, bytes: u64, account: &MemoryAccount) {
        let mut ranking = self.ranking.borrow_mut();
        let ranking = ranking.get_mut();
        ranking.adopt(keys, bytes);
        self.charge(ranking.memory_bytes(), account);
    }

    /// Returns what is charged of the ranking's memory.
    pub fn charged_bytes(&self) -> u64 {
        self.charged_bytes.get()
    }

    /// Forgets everything, to be replaced by another policy.
    fn end(&self, account: &MemoryAccount) {
        self.charge(0, account);
    }

    fn charge(&self, bytes: u64, account: &MemoryAccount) {
        let before = self.charged_bytes.replace(bytes);
        if before != bytes {
            account.recharge(before, bytes);
        }
    }
}

impl Keyspace {
    /// Returns the policy.
    pub fn eviction_policy(&self) -> EvictionPolicy {
        EvictionPolicy::ALL[usize::from(self.eviction_policy.load(Ordering::Relaxed))]
    }

    /// Sets the policy. Accesses are tracked as it needs it from here on, and it begins without any
    /// memory of its own. The caller holds no guard.
    pub fn set_eviction_policy(&self, policy: EvictionPolicy) {
        let position = policy.position();
        let before = self.eviction_policy.swap(position, Ordering::Relaxed);
        for index in self.shard_indexes() {
            self.published(index).tracking.set_counts(policy.counts_accesses());
        }
        if before != position {
            self.replace_rankings(policy);
        }
        self.want_access_reports();
    }

    /// Gives each shard a ranking of `policy` that has seen nothing. The caller holds no guard.
    pub(crate) fn replace_rankings(&self, policy: EvictionPolicy) {
        let (before, adaptive) = self.begin_adaptive(policy);
        for index in self.shard_indexes() {
            let seed = self.secret_hasher().hash(&index.0.to_le_bytes());
            let setup = Setup { adaptive: adaptive.as_ref(), seed };
            let mut guard = self.lock(index);
            let shard = guard.shard_mut(index);
            shard.policy.end(shard.account());
            shard.policy = ShardPolicy::new(policy, &setup);
            shard.adopt_keys();
        }
        if let Some(before) = before {
            self.end_adaptive(&before);
        }
    }

    /// Sets how seldom the counters of accesses grow (lfu-log-factor) and after how many minutes
    /// without an access they fall by one (lfu-decay-time; 0 is never).
    pub fn set_counter_rates(&self, log_factor: u32, decay_minutes: u32) {
        for shard in self.shard_indexes() {
            self.published(shard).tracking.set_rates(log_factor, decay_minutes);
        }
    }

    /// Sets how many keys each choice looks at: maxmemory-samples.
    ///
    /// # Panics
    /// When `samples` is 0.
    pub fn set_eviction_samples(&self, samples: u32) {
        assert!(samples > 0, "a choice looks at one key at least");
        self.eviction_samples.store(samples, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_policies_are_those_before_the_adaptive_ones() {
        assert_eq!(EvictionPolicy::OF_REDIS.last(), Some(&EvictionPolicy::NO_EVICTION));
    }

    #[test]
    fn names_tell_what_policies_do() {
        for policy in EvictionPolicy::ALL.iter().copied() {
            let name = policy.name();
            assert_eq!(policy.is_volatile(), name.starts_with("volatile"));
            assert_eq!(policy.is_random(), name.ends_with("random"));
            assert_eq!(policy.counts_accesses(), name.ends_with("lfu"));
            let minds_uses = name.ends_with("lru") || name.ends_with("lfu") || policy.0.observes;
            assert_eq!(policy.minds_uses(), minds_uses);
        }
    }
}
