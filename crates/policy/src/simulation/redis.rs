//! The sampling policies of Redis: `maxmemory-samples` 5, and a pool of 16 candidates.

use base::prng::Prng;

use crate::simulation::present::Present;
use crate::simulation::{Cache, Request, Setup};

const SAMPLES: u32 = 5;
const POOL_MAX: usize = 16;
/// The counter of a new key, lfu-log-factor, and the seconds of lfu-decay-time.
const COUNTER_FIRST: u8 = 5;
const LOG_FACTOR: u64 = 10;
const DECAY_SECONDS: u32 = 60;

/// By what candidates are ranked.
#[derive(Clone, Copy)]
pub(crate) enum Ranking {
    LastUse,
    Counter,
}

#[derive(Clone, Copy)]
struct Key {
    bytes: u32,
    /// The number of requests before the last use, or the second of it.
    last_use: u32,
    counter: u8,
}

pub(crate) struct Sampled {
    ranking: Ranking,
    capacity: u64,
    used: u64,
    keys: Vec<Key>,
    present: Present,
    pool: Vec<(u32, u32)>,
    requests: u32,
    random: Prng,
}

impl Sampled {
    pub fn new(setup: &Setup, ranking: Ranking) -> Sampled {
        let key = Key { bytes: 0, last_use: 0, counter: 0 };
        Sampled {
            ranking,
            capacity: setup.capacity_bytes,
            used: 0,
            keys: vec![key; setup.key_count as usize],
            present: Present::new(1, setup.key_count),
            pool: Vec::new(),
            requests: 0,
            random: Prng::new(setup.seed),
        }
    }

    fn now(&self, request: Request) -> u32 {
        match self.ranking {
            Ranking::LastUse => self.requests,
            Ranking::Counter => request.second,
        }
    }

    /// Returns the counter of `key`, less what it lost since the last use.
    fn counter(&self, key: Key, now: u32) -> u8 {
        key.counter.saturating_sub(((now - key.last_use) / DECAY_SECONDS).min(255) as u8)
    }

    /// Returns how soon `key` should go.
    fn rank(&self, key: u32, now: u32) -> u32 {
        let key = self.keys[key as usize];
        match self.ranking {
            Ranking::LastUse => now - key.last_use,
            Ranking::Counter => u32::from(u8::MAX - self.counter(key, now)),
        }
    }

    fn use_key(&mut self, key: u32, now: u32) {
        let counter = self.counter(self.keys[key as usize], now);
        let above = u64::from(counter.saturating_sub(COUNTER_FIRST));
        let grows = counter < u8::MAX && self.random.one_in(above * LOG_FACTOR + 1);
        let key = &mut self.keys[key as usize];
        (key.counter, key.last_use) = (counter + u8::from(grows), now);
    }

    fn evict(&mut self, now: u32) {
        for _ in 0..SAMPLES {
            let key = self.random.pick(&self.present.groups()[0]);
            let rank = self.rank(key, now);
            if self.pool.iter().any(|(one, _)| *one == key) {
                continue;
            }
            self.pool.push((key, rank));
            if self.pool.len() > POOL_MAX {
                let lowest = (0..self.pool.len()).min_by_key(|index| self.pool[*index].1);
                self.pool.swap_remove(lowest.expect("it has candidates"));
            }
        }
        while let Some(best) = (0..self.pool.len()).max_by_key(|index| self.pool[*index].1) {
            let (key, _) = self.pool.swap_remove(best);
            if self.present.has(key) {
                self.present.remove(0, key);
                self.used -= u64::from(self.keys[key as usize].bytes);
                return;
            }
        }
    }
}

impl Cache for Sampled {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        self.requests += 1;
        let now = self.now(request);
        if self.present.has(key) {
            self.use_key(key, now);
            return true;
        }
        if u64::from(bytes) > self.capacity {
            return false;
        }
        while self.used + u64::from(bytes) > self.capacity {
            self.evict(now);
        }
        self.present.add(0, key);
        self.used += u64::from(bytes);
        self.keys[key as usize] = Key { bytes, last_use: now, counter: COUNTER_FIRST };
        false
    }
}
