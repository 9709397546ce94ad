//! A cache without values that is attached to the policy as an engine is: shards of keys with their
//! marks, one limit for all of them, and a shard by chance that a victim is looked for in.

use std::sync;

use base::prng::{Prng, mix};

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
    /// How many candidates a shard remembers from one choice to the next.
    pub remembered_max: usize,
}

impl Default for Attachment {
    /// Returns one shard, and as many samples as are worth it.
    fn default() -> Attachment {
        Attachment {
            objective: Objective::Hits,
            shard_count: 1,
            samples: SAMPLES,
            remembered_max: 0,
        }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    bytes: u32,
    mark: Mark,
    /// Where it is in its shard; `ABSENT` if it is not there.
    position: u32,
}

const ABSENT: u32 = u32::MAX;

struct Shard {
    policy: ShardPolicy,
    present: Vec<u32>,
    remembered: Vec<(Value, u32)>,
}

/// A cache under the adaptive policy.
pub struct AdaptiveCache {
    attachment: Attachment,
    capacity: u64,
    used: u64,
    policy_bytes: u64,
    shared: sync::Arc<Shared>,
    shards: Vec<Shard>,
    entries: Vec<Entry>,
    random: Prng,
    requests: u64,
    evictions: u64,
}

impl AdaptiveCache {
    /// Returns an empty cache.
    pub fn new(setup: &Setup, attachment: Attachment) -> AdaptiveCache {
        let mut random = Prng::new(setup.seed);
        let Attachment { objective, shard_count, .. } = attachment;
        let shared = Shared::new(objective, setup.capacity_bytes, shard_count, random.next());
        let shared = sync::Arc::new(shared);
        let shards = (0..shard_count).map(|_| Shard {
            policy: ShardPolicy::new(shared.clone(), random.next()),
            present: Vec::new(),
            remembered: Vec::new(),
        });
        let absent = Entry { bytes: 0, mark: Mark::from_word(0), position: ABSENT };
        AdaptiveCache {
            attachment,
            capacity: setup.capacity_bytes,
            used: 0,
            policy_bytes: 0,
            shards: shards.collect(),
            shared,
            entries: vec![absent; setup.key_count as usize],
            random,
            requests: 0,
            evictions: 0,
        }
    }

    /// Returns what the policy estimates for other policies and memory.
    pub fn advice(&self) -> Option<Advice> {
        self.shared.advice()
    }

    /// Returns the weight of the fast counter that is in force, in percent.
    pub fn blend_percent(&self) -> u8 {
        self.shared.blend().percent()
    }

    /// Returns how many keys are there.
    pub fn key_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.present.len()).sum()
    }

    /// Returns the bytes of the keys that are there.
    pub fn bytes_used(&self) -> u64 {
        self.used
    }

    /// Deletes `key`, if it is there.
    pub fn delete(&mut self, key: u32) {
        let Entry { bytes, mark, position } = self.entries[key as usize];
        if position != ABSENT {
            let shard = self.shard_of(key);
            self.take_out(key);
            self.shards[shard].policy.remove(u64::from(key), u64::from(bytes), mark);
        }
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        for shard in &mut self.shards {
            shard.present.clear();
            shard.remembered.clear();
            shard.policy.clear();
        }
        self.entries.iter_mut().for_each(|entry| entry.position = ABSENT);
        self.used = 0;
    }

    fn shard_of(&self, key: u32) -> usize {
        mix(u64::from(key)) as usize % self.shards.len()
    }

    fn count_policy_bytes(&mut self) {
        let shards = self.shards.iter().map(|shard| shard.policy.memory_bytes());
        self.policy_bytes = shards.sum::<u64>() + self.shared.memory_bytes();
        self.shared.set_capacity(self.room());
    }

    /// Returns the bytes that keys may take.
    fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.policy_bytes)
    }

    fn evict(&mut self) {
        self.evictions += 1;
        let mut best: Option<(Value, u32)> = None;
        for _ in 0..SHARD_TRIES_MAX {
            let shard = self.random_shard();
            let Some((value, key)) = self.least(shard) else { continue };
            if best.is_none_or(|(least, _)| value < least) {
                best = Some((value, key));
            }
            if !self.shards[shard].policy.should_ask_another(value) {
                break;
            }
        }
        // All that was looked at is new: any key will do.
        let key = best.map(|(_, key)| key).unwrap_or_else(|| {
            let shard = self.random_shard();
            self.random.pick(&self.shards[shard].present)
        });
        let shard = self.shard_of(key);
        let candidate = self.candidate(key);
        self.take_out(key);
        self.shards[shard].policy.evict(u64::from(key), candidate);
    }

    /// Returns a shard, each key as likely to be in it as any other.
    fn random_shard(&mut self) -> usize {
        let mut position = self.random.below(self.key_count() as u64) as usize;
        let holds = |shard: &Shard| {
            let is_here = position < shard.present.len();
            position = position.wrapping_sub(shard.present.len());
            is_here
        };
        self.shards.iter().position(holds).expect("the position is below the sum")
    }

    /// Returns the key of the least value of some keys of the shard, and of those that leave its
    /// window.
    fn least(&mut self, index: usize) -> Option<(Value, u32)> {
        let mut candidates = Vec::new();
        for _ in 0..self.attachment.samples {
            let key = self.random.pick(&self.shards[index].present);
            if !self.shards[index].policy.is_new(u64::from(key)) {
                candidates.push(key);
            }
        }
        let leaving = std::iter::from_fn(|| self.shards[index].policy.leave_window());
        candidates.extend(leaving.take(LEAVING_MAX).map(|hash| hash as u32));
        candidates.extend(self.shards[index].remembered.drain(..).map(|(_, key)| key));
        candidates.retain(|key| self.entries[*key as usize].position != ABSENT);
        candidates.sort_unstable();
        candidates.dedup();
        let shard = &self.shards[index];
        let value = |key: u32| (shard.policy.value(self.candidate(key)), key);
        let mut ranked: Vec<(Value, u32)> = candidates.into_iter().map(value).collect();
        ranked.sort_unstable();
        let least = ranked.first().copied();
        ranked.truncate(self.attachment.remembered_max);
        self.shards[index].remembered = ranked;
        least
    }

    fn candidate(&self, key: u32) -> Candidate {
        let Entry { bytes, mark, .. } = self.entries[key as usize];
        Candidate { mark, bytes: u64::from(bytes), cost: Cost::ONE }
    }

    fn take_out(&mut self, key: u32) {
        let shard = self.shard_of(key);
        let Entry { bytes, position, .. } = self.entries[key as usize];
        let present = &mut self.shards[shard].present;
        present.swap_remove(position as usize);
        if let Some(moved) = present.get(position as usize) {
            self.entries[*moved as usize].position = position;
        }
        self.entries[key as usize].position = ABSENT;
        self.used -= u64::from(bytes);
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
        let entry = &mut self.entries[key as usize];
        if entry.position != ABSENT {
            let policy = &mut self.shards[shard].policy;
            entry.mark = policy.hit(u64::from(key), u64::from(entry.bytes), entry.mark);
            return true;
        }
        self.shards[shard].policy.miss(u64::from(key));
        if u64::from(bytes) > self.room() {
            return false;
        }
        while self.used + u64::from(bytes) > self.room() && self.used > 0 {
            self.evict();
        }
        let shard = &mut self.shards[shard];
        let mark = shard.policy.insert(u64::from(key), u64::from(bytes));
        let position = shard.present.len() as u32;
        shard.present.push(key);
        self.entries[key as usize] = Entry { bytes, mark, position };
        self.used += u64::from(bytes);
        false
    }

    fn policy_bytes(&self) -> u64 {
        self.policy_bytes
    }
}
