//! A cache without values that is attached to the policy as an engine is: shards of keys with their
//! marks, one limit for all of them, and a shard by chance that a victim is looked for in.

use std::sync;

use base::prng::{Prng, mix};

use crate::simulation::present::Present;
use crate::simulation::{Cache, Request, Setup};
use crate::{Advice, Candidate, Cost, Mark, Objective, SAMPLES, ShardPolicy, Shared, Value};

/// How many shards are asked for a victim at most.
const SHARD_TRIES_MAX: u32 = 3;
/// How many keys of a window become candidates of one choice at most.
const LEAVING_MAX: usize = 4;
/// After how many requests the memory of the policy is counted anew.
const COUNTING_REQUESTS: u64 = 256;

/// How the cache uses the policy.
#[derive(Clone, Copy, Debug)]
pub struct Attachment {
    pub objective: Objective,
    pub shard_count: u32,
    /// How many keys each choice looks at.
    pub samples: u32,
}

impl Default for Attachment {
    /// Returns one shard, and as many samples as are worth it.
    fn default() -> Attachment {
        Attachment { objective: Objective::Hits, shard_count: 1, samples: SAMPLES }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    bytes: u32,
    mark: Mark,
}

/// A cache under the adaptive policy.
pub struct AdaptiveCache {
    attachment: Attachment,
    capacity: u64,
    used: u64,
    policy_bytes: u64,
    shared: sync::Arc<Shared>,
    shards: Vec<ShardPolicy>,
    /// The keys of each shard.
    present: Present,
    entries: Vec<Entry>,
    random: Prng,
    requests: u64,
}

impl AdaptiveCache {
    /// Returns an empty cache.
    pub fn new(setup: &Setup, attachment: Attachment) -> AdaptiveCache {
        let mut random = Prng::new(setup.seed);
        let Attachment { objective, shard_count, .. } = attachment;
        let shared = Shared::new(objective, setup.capacity_bytes, shard_count, random.next());
        let shared = sync::Arc::new(shared);
        let shards = (0..shard_count).map(|_| ShardPolicy::new(shared.clone(), random.next()));
        let absent = Entry { bytes: 0, mark: Mark::from_word(0) };
        AdaptiveCache {
            attachment,
            capacity: setup.capacity_bytes,
            used: 0,
            policy_bytes: 0,
            shards: shards.collect(),
            present: Present::new(shard_count as usize, setup.key_count),
            shared,
            entries: vec![absent; setup.key_count as usize],
            random,
            requests: 0,
        }
    }

    /// Returns what the policy estimates for other policies and memory.
    pub fn advice(&self) -> Option<Advice> {
        self.shared.advice()
    }

    /// Returns how many keys are there.
    pub fn key_count(&self) -> usize {
        self.present.groups().iter().map(Vec::len).sum()
    }

    /// Returns the bytes of the keys that are there.
    pub fn bytes_used(&self) -> u64 {
        self.used
    }

    /// Deletes `key`, if it is there.
    pub fn delete(&mut self, key: u32) {
        if self.present.has(key) {
            let Entry { bytes, mark } = self.entries[key as usize];
            let shard = self.take_out(key);
            self.shards[shard].remove(u64::from(key), u64::from(bytes), mark);
        }
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.shards.iter_mut().for_each(ShardPolicy::clear);
        self.present.clear();
        self.used = 0;
    }

    fn shard_of(&self, key: u32) -> usize {
        mix(u64::from(key)) as usize % self.shards.len()
    }

    fn count_policy_bytes(&mut self) {
        let shards = self.shards.iter().map(ShardPolicy::memory_bytes);
        self.policy_bytes = shards.sum::<u64>() + self.shared.memory_bytes();
        self.shared.set_capacity(self.room());
    }

    /// Returns the bytes that keys may take.
    fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.policy_bytes)
    }

    fn evict(&mut self) {
        let mut best: Option<(Value, u32)> = None;
        for _ in 0..SHARD_TRIES_MAX {
            let shard = self.random_shard();
            let Some((value, key)) = self.least(shard) else { continue };
            if best.is_none_or(|(least, _)| value < least) {
                best = Some((value, key));
            }
            if !self.shards[shard].should_ask_another(value) {
                break;
            }
        }
        // All that was looked at is new: any key will do.
        let key = best.map(|(_, key)| key).unwrap_or_else(|| {
            let shard = self.random_shard();
            self.random.pick(&self.present.groups()[shard])
        });
        let candidate = self.candidate(key);
        let shard = self.take_out(key);
        let policy = &mut self.shards[shard];
        policy.note_victim(policy.value(candidate));
        policy.evict(u64::from(key), candidate.bytes, candidate.mark);
    }

    /// Returns a shard, each key as likely to be in it as any other.
    fn random_shard(&mut self) -> usize {
        let mut position = self.random.below(self.key_count() as u64) as usize;
        let holds = |keys: &Vec<u32>| {
            let is_here = position < keys.len();
            position = position.wrapping_sub(keys.len());
            is_here
        };
        self.present.groups().iter().position(holds).expect("the position is below the sum")
    }

    /// Returns the key of the least value of some keys of the shard, and of those that leave its
    /// window.
    fn least(&mut self, index: usize) -> Option<(Value, u32)> {
        self.shards[index].refresh();
        let mut candidates = Vec::new();
        for _ in 0..self.attachment.samples {
            let key = self.random.pick(&self.present.groups()[index]);
            if !self.shards[index].is_new(self.entries[key as usize].mark) {
                candidates.push(key);
            }
        }
        let leaving = std::iter::from_fn(|| self.shards[index].leave_window());
        candidates.extend(leaving.take(LEAVING_MAX).map(|(hash, _)| hash as u32));
        candidates.retain(|key| self.present.has(*key));
        let policy = &self.shards[index];
        candidates.into_iter().map(|key| (policy.value(self.candidate(key)), key)).min()
    }

    fn candidate(&self, key: u32) -> Candidate {
        let Entry { bytes, mark } = self.entries[key as usize];
        Candidate { mark, bytes: u64::from(bytes), cost: Cost::ONE }
    }

    /// Takes out `key`, which is there, and returns its shard.
    fn take_out(&mut self, key: u32) -> usize {
        let shard = self.shard_of(key);
        self.present.remove(shard, key);
        self.used -= u64::from(self.entries[key as usize].bytes);
        shard
    }
}

impl Cache for AdaptiveCache {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        let shard = self.shard_of(key);
        if self.requests.is_multiple_of(COUNTING_REQUESTS) {
            self.count_policy_bytes();
        }
        self.requests += 1;
        if self.present.has(key) {
            let entry = &mut self.entries[key as usize];
            let policy = &mut self.shards[shard];
            entry.mark = policy.hit(u64::from(key), u64::from(entry.bytes), entry.mark);
            return true;
        }
        self.shards[shard].miss(u64::from(key));
        if u64::from(bytes) > self.room() {
            return false;
        }
        while self.used + u64::from(bytes) > self.room() && self.used > 0 {
            self.evict();
        }
        let mark = self.shards[shard].insert(u64::from(key), u64::from(bytes));
        self.present.add(shard, key);
        self.entries[key as usize] = Entry { bytes, mark };
        self.used += u64::from(bytes);
        false
    }

    fn policy_bytes(&self) -> u64 {
        self.policy_bytes
    }
}
