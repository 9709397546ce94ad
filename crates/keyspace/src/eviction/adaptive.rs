//! The adaptive policy of the crate `policy`, attached to a shard: keys are worth how often they
//! are used over what they take (`docs/internals/cache-policy.md`).
//!
//! Marks of entries are the policy's own. One that only tells a time, made before the policy was
//! chosen, counts as that of a key that was used once, now, though not as that of a new key. A mark
//! of the `lfu` policies has the form of the policy's own: until the key is used again it means
//! little. All shards share a clock, which goes on where the policy is chosen again, so that its
//! marks of earlier stay true.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use arena::AccessMark;
use base::DatabaseIndex;
use base::prng::Prng;
use effects::Cause;
use policy::{Cost, Mark, Objective, ShardPolicy, Shared};

use crate::cache_report::AdaptiveReport;
use crate::eviction::SAMPLES_DEFAULT;
use crate::eviction::policy::{
    Candidate, EvictionPolicy, KeyEvent, Leaving, Marks, Ranking, RankingKind, Room, Row, Scope,
    Setup, Told,
};
use crate::keyspace::Keyspace;
use crate::memory_limit::MemoryAccount;
use crate::object::Object;

pub(crate) const ALLKEYS: Row = Row {
    name: "adaptive",
    scope: Scope::All,
    marks: Marks::Own,
    is_random: false,
    observes: true,
    // As many as the other policies look at unless told: a shard remembers the best of earlier
    // samples, so that with six it has no more hits.
    samples_min: SAMPLES_DEFAULT,
    // The best of earlier choices are remembered, so that twice as many gain nothing.
    block_samples_min: 3 * policy::SAMPLES / 2,
    // Here nothing is remembered, and with sixteen the workload seed had 0.9 points less
    // (`bench/results/2026-11-26-010303-cache.json`, `010529`).
    samples_anywhere_min: 3 * policy::SAMPLES,
    ranking: |setup| RankingKind::Adaptive(Box::new(Adaptive::new(setup))),
};

pub(crate) const VOLATILE: Row =
    Row { name: "volatile-adaptive", scope: Scope::Volatile, ..ALLKEYS };

/// Where the number of a key's database changes its hash, so that a policy tells keys of the same
/// name apart. The policy scatters hashes, so that any bits do.
const DATABASE_SHIFT: u32 = 56;

/// What the adaptive policy maximises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheObjective {
    /// The share of lookups that find their key.
    #[default]
    Hits,
    /// The share of bytes that are found.
    Bytes,
}

impl CacheObjective {
    /// All of them.
    pub const ALL: &[CacheObjective] = &[CacheObjective::Hits, CacheObjective::Bytes];

    /// Returns the name that cache-objective has.
    pub const fn name(self) -> &'static str {
        match self {
            CacheObjective::Hits => "hits",
            CacheObjective::Bytes => "bytes",
        }
    }
}

/// The part of the policy that all shards share, and what is charged of its memory.
pub(crate) struct SharedPart {
    policy: Arc<Shared>,
    charged_bytes: AtomicU64,
}

impl SharedPart {
    fn recharge(&self, bytes: u64, account: &MemoryAccount) {
        // The shadows seldom grow by what they are handed: an exchange would take the line from the
        // other workers for nothing.
        if self.charged_bytes.load(Ordering::Relaxed) == bytes {
            return;
        }
        let before = self.charged_bytes.swap(bytes, Ordering::Relaxed);
        // Another worker may have charged the same meanwhile.
        if before != bytes {
            account.recharge(before, bytes);
        }
    }
}

/// What a keyspace has of the policy while it is in force, and keeps while it is not.
#[derive(Default)]
pub(crate) struct AdaptiveState {
    /// The clock of the policy when it was in force last.
    clock: u64,
    objective: CacheObjective,
    shared: Option<Arc<SharedPart>>,
}

/// The policy of one shard.
pub(crate) struct Adaptive {
    shared: Arc<SharedPart>,
    policy: ShardPolicy,
}

impl Adaptive {
    fn new(setup: &Setup<'_>) -> Adaptive {
        let shared = setup.adaptive.expect("the policy that is chosen has its shared part").clone();
        let policy = ShardPolicy::new(shared.policy.clone(), setup.seed);
        Adaptive { shared, policy }
    }

    /// As [`Ranking::see`] of a key that was read once, or `IS_WRITTEN` over; `None` where more is
    /// to be done than to change the mark, of which nothing is done then.
    #[inline(always)]
    pub fn see_plain<const IS_WRITTEN: bool>(
        &mut self,
        database: DatabaseIndex,
        hash: u64,
        mark: AccessMark,
    ) -> Option<AccessMark> {
        if !mark.counts {
            return None;
        }
        let (hash, mark) = (salted(database, hash), Mark::from_word(mark.word));
        let mark = match IS_WRITTEN {
            true => self.policy.plain_overwrite(hash, mark)?,
            false => self.policy.plain_hit(hash, mark)?,
        };
        Some(AccessMark { word: mark.word(), counts: true })
    }

    /// Returns how soon what `object` is should go, and whether it came so lately that it does not
    /// go yet; as [`Ranking::rank`] and [`Ranking::is_new`], where each candidate that is drawn
    /// passes.
    #[inline(always)]
    pub fn rank_and_newness(&self, object: &Object<'_>) -> (u64, bool) {
        let Some((word, bytes)) = object.plain_and_counted() else {
            return self.rank_and_newness_of_any(object);
        };
        let mark = Mark::from_word(word);
        let candidate = policy::Candidate { mark, bytes, cost: Cost::ONE };
        let found = (self.policy.value(candidate).rank(), self.policy.is_new(mark));
        debug_assert_eq!(found, self.rank_and_newness_of_any(object));
        found
    }

    /// As [`Adaptive::rank_and_newness`], of an entry of any kind.
    #[inline(always)]
    fn rank_and_newness_of_any(&self, object: &Object<'_>) -> (u64, bool) {
        let cost = match object.cost() {
            arena::Cost::ONE => Cost::ONE,
            cost => Cost::of(cost.number()),
        };
        let (mark, bytes) = (self.mark_of(object.mark()), object.memory_bytes());
        let value = self.policy.value(policy::Candidate { mark, bytes, cost });
        (value.rank(), self.is_new(object.mark()))
    }

    #[inline]
    fn mark_of(&self, mark: AccessMark) -> Mark {
        match mark.counts {
            true => Mark::from_word(mark.word),
            false => Mark::first(self.policy.now()),
        }
    }

    #[inline]
    fn removed(&mut self, told: &Told<'_>, bytes: u64, cause: Cause) {
        let (hash, mark) = (salted(told.database, told.hash), self.mark_of(told.mark));
        match cause {
            Cause::Evicted => self.policy.evict(hash, bytes, mark),
            _ => self.policy.remove(hash, bytes, mark),
        }
    }
}

impl Ranking for Adaptive {
    fn rank(&self, candidate: &Candidate<'_>, _random: &mut Prng) -> u64 {
        self.rank_and_newness(&candidate.object).0
    }

    #[inline(always)]
    fn see(&mut self, told: &Told<'_>, event: KeyEvent) -> Option<AccessMark> {
        let hash = salted(told.database, told.hash);
        let mark = match event {
            KeyEvent::Used(times) => {
                let mark = self.mark_of(told.mark);
                self.policy.hits(hash, times, told.bytes, mark)
            }
            KeyEvent::Written => {
                let mark = self.mark_of(told.mark);
                self.policy.overwrite(hash, told.bytes, mark)
            }
            KeyEvent::Inserted(bytes) => self.policy.insert(hash, bytes),
            KeyEvent::Missed => {
                self.policy.miss(hash);
                return None;
            }
            KeyEvent::Resized(before, bytes) => {
                self.policy.resize(before, bytes);
                return None;
            }
            KeyEvent::Removed(bytes, cause) => {
                self.removed(told, bytes, cause);
                return None;
            }
            KeyEvent::Flushed { keys, bytes } => {
                self.policy.forget_some(keys, bytes);
                return None;
            }
            KeyEvent::Swapped(_) => return None,
        };
        Some(AccessMark { word: mark.word(), counts: true })
    }

    fn adopt(&mut self, keys: u64, bytes: u64) {
        self.policy.adopt(keys, bytes);
    }

    fn begin_choice(&mut self) {
        self.policy.refresh();
    }

    fn note_room(&self, room: Room) {
        self.shared.policy.set_capacity(room.capacity(self.shared.policy.bytes()));
    }

    #[inline]
    fn is_new(&self, mark: AccessMark) -> bool {
        // One that only tells a time would be of this moment for as long as the key is not used.
        mark.counts && self.policy.is_new(Mark::from_word(mark.word))
    }

    fn prefetch(&self, database: DatabaseIndex, hash: u64) {
        if let Some(place) = self.policy.ghost_place(salted(database, hash)) {
            arena::prefetch_line(place);
        }
        if let Some(newest) = self.policy.newest() {
            let next = std::ptr::from_ref(newest).wrapping_add(1);
            arena::prefetch_to_write(next.cast(), size_of_val(newest));
        }
    }

    #[inline]
    fn leave_window(&mut self) -> Option<Leaving> {
        let (salted, candidate) = self.policy.leave_window()?;
        if let Some(later) = self.policy.leaves_later() {
            arena::prefetch_line(later);
        }
        Some(Leaving { salted, rank: self.policy.value(candidate).rank() })
    }

    fn frequency(&self, mark: AccessMark) -> Option<u8> {
        Some(self.mark_of(mark).frequency(self.policy.now()))
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        (size_of::<Adaptive>() - size_of::<ShardPolicy>()) as u64 + self.policy.memory_bytes()
    }

    #[inline]
    fn recharge_shared(&mut self, account: &MemoryAccount) {
        // It changes only by what shards hand over: a shard that has done so charges it with its
        // next key that comes. Where another's charge came in between it may be of before; the next
        // one puts it right.
        if self.policy.take_handed_over() {
            self.shared.recharge(self.shared.policy.memory_bytes(), account);
        }
    }
}

/// Returns the hash by which the policy knows the key of `hash` in `database`. Salting what it
/// returns once more gives `hash` again.
#[inline]
pub(crate) fn salted(database: DatabaseIndex, hash: u64) -> u64 {
    hash ^ u64::from(database.0) << DATABASE_SHIFT
}

impl Keyspace {
    /// Sets what the adaptive policy maximises: cache-objective. Where that is another objective
    /// than before and the policy is in force, it begins anew, without ghosts; the marks of keys
    /// stay. The caller holds no guard.
    pub fn set_cache_objective(&self, objective: CacheObjective) {
        let before = std::mem::replace(&mut self.adaptive_state().objective, objective);
        if before != objective && self.eviction_policy().is_adaptive() {
            self.replace_rankings(self.eviction_policy());
        }
    }

    /// Returns what the policy of each shard begins with: for `policy` the part that all share is
    /// made anew where it needs one. Discharges, once the shards have theirs, the one before.
    pub(crate) fn begin_adaptive(
        &self,
        policy: EvictionPolicy,
    ) -> (Option<Arc<SharedPart>>, Option<Arc<SharedPart>>) {
        let mut state = self.adaptive_state();
        let before = state.shared.take();
        if let Some(before) = &before {
            state.clock = before.policy.clock();
        }
        if policy.is_adaptive() {
            let objective = match state.objective {
                CacheObjective::Hits => Objective::Hits,
                CacheObjective::Bytes => Objective::Bytes,
            };
            let seed = self.secret_hasher().hash(b"adaptive policy");
            let shards = self.shard_count() as u32;
            let policy = Shared::new(objective, self.maxmemory(), shards, seed);
            let policy = Arc::new(policy.continuing(state.clock));
            let shared = SharedPart { policy, charged_bytes: AtomicU64::new(0) };
            shared.recharge(shared.policy.memory_bytes(), &self.account);
            state.shared = Some(Arc::new(shared));
        }
        (before, state.shared.clone())
    }

    /// Discharges what `before` took, which no shard has any more.
    pub(crate) fn end_adaptive(&self, before: &SharedPart) {
        before.recharge(0, &self.account);
    }

    /// Returns the objective, and what the policy knows where it is in force.
    pub(crate) fn adaptive_report(&self) -> (CacheObjective, Option<AdaptiveReport>) {
        let state = self.adaptive_state();
        let (objective, shared) = (state.objective, state.shared.clone());
        drop(state);
        let policy_bytes = || {
            let of_shard = |index| self.lock(index).shard_mut(index).policy.charged_bytes();
            self.shard_indexes().map(of_shard).sum::<u64>()
        };
        let report = shared.map(|shared| AdaptiveReport {
            advice: if self.maxmemory() == 0 { None } else { shared.policy.advice() },
            epochs: shared.policy.epochs(),
            has_limit: self.maxmemory() > 0,
            recent_percent: shared.policy.blend().fast_percent(),
            ghost_hits: shared.policy.ghost_hits(),
            key_bytes: shared.policy.bytes(),
            policy_bytes: policy_bytes() + shared.policy.memory_bytes(),
        });
        (objective, report)
    }

    fn adaptive_state(&self) -> MutexGuard<'_, AdaptiveState> {
        self.adaptive.lock().expect("no holder of the policy's state panics")
    }
}
