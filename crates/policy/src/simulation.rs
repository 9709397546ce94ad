//! Simulation: traces of requests, and caches without values that they are replayed to.
//!
//! A request is a lookup, and an insertion where it found nothing. `adaptive.rs` is a cache that is
//! attached to this crate's policy as an engine is; the other policies are here to compare with.

mod adaptive;
mod arc;
mod gdsf;
mod lists;
mod lru;
mod present;
mod redis;
mod s3_fifo;
mod sieve;
mod slru;
mod tiny_lfu;
pub mod trace_files;
pub mod workloads;
mod zipf;

pub use adaptive::{AdaptiveCache, Attachment};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The key: a number below the trace's number of keys.
    pub key: u32,
    pub bytes: u32,
    /// Seconds since the trace began.
    pub second: u32,
}

/// A sequence of requests.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub requests: Vec<Request>,
    /// One more than the highest key.
    pub key_count: u32,
}

impl Trace {
    /// Returns the bytes of all keys together, each at the size of its first request.
    pub fn footprint_bytes(&self) -> u64 {
        self.first_requests().map(|one| u64::from(one.bytes)).sum()
    }

    /// Returns the number of keys that are asked for.
    pub fn keys_used(&self) -> u32 {
        self.first_requests().count() as u32
    }

    /// Returns the first request of each key.
    fn first_requests(&self) -> impl Iterator<Item = &Request> {
        let mut seen = vec![false; self.key_count as usize];
        let is_first = move |one: &&Request| !std::mem::replace(&mut seen[one.key as usize], true);
        self.requests.iter().filter(is_first)
    }
}

/// A cache that keeps sizes and no values.
pub trait Cache {
    /// Asks for the key, inserts it if it is not there, and returns whether it was.
    fn request(&mut self, request: Request) -> bool;

    /// Returns the memory that the policy takes out of the capacity, in bytes.
    fn policy_bytes(&self) -> u64 {
        0
    }
}

/// What a replay came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub requests: u64,
    pub hits: u64,
    pub bytes: u64,
    pub hit_bytes: u64,
}

impl Outcome {
    /// Returns the share of requests that found their key, from 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    /// Returns the share of bytes that were found, from 0 to 1.
    pub fn byte_hit_rate(&self) -> f64 {
        self.hit_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// Replays `trace` to `cache`, and counts the requests from position `warm_up` on.
pub fn replay(trace: &Trace, cache: &mut dyn Cache, warm_up: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for (position, request) in trace.requests.iter().enumerate() {
        let is_hit = cache.request(*request);
        if position < warm_up {
            continue;
        }
        outcome.requests += 1;
        outcome.bytes += u64::from(request.bytes);
        outcome.hits += u64::from(is_hit);
        outcome.hit_bytes += if is_hit { u64::from(request.bytes) } else { 0 };
    }
    outcome
}

/// A policy that can be simulated.
#[derive(Debug)]
pub struct Policy {
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    make: fn(&Setup) -> Box<dyn Cache>,
}

/// What a cache is made for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub capacity_bytes: u64,
    /// The number of keys of the trace.
    pub key_count: u32,
    /// The mean size of a key, in bytes.
    pub key_bytes: u64,
    pub seed: u64,
}

/// The policies.
pub const POLICIES: &[Policy] = &[
    Policy {
        name: "lru",
        about: "least recently used",
        make: |setup| Box::new(lru::Lru::new(setup)),
    },
    Policy {
        name: "redis-lru",
        about: "Redis's: the least recently used of 5 samples and 16 remembered",
        make: |setup| Box::new(redis::Sampled::new(setup, redis::Ranking::LastUse)),
    },
    Policy {
        name: "redis-lfu",
        about: "Redis's: logarithmic counters that fall each minute",
        make: |setup| Box::new(redis::Sampled::new(setup, redis::Ranking::Counter)),
    },
    Policy {
        name: "slru",
        about: "segmented LRU: a fifth on probation",
        make: |setup| Box::new(slru::Slru::new(setup)),
    },
    Policy {
        name: "arc",
        about: "adaptive replacement cache",
        make: |setup| Box::new(arc::Arc::new(setup)),
    },
    Policy {
        name: "s3-fifo",
        about: "small, main and ghost queues",
        make: |setup| Box::new(s3_fifo::S3Fifo::new(setup)),
    },
    Policy {
        name: "sieve",
        about: "one queue and a hand",
        make: |setup| Box::new(sieve::Sieve::new(setup)),
    },
    Policy {
        name: "gdsf",
        about: "greedy dual: frequency over size, and a clock",
        make: |setup| Box::new(gdsf::Gdsf::new(setup)),
    },
    Policy {
        name: "w-tinylfu",
        about: "a window of 1 %, then admission by frequency to a segmented LRU",
        make: |setup| Box::new(tiny_lfu::WTinyLfu::new(setup)),
    },
    Policy {
        name: "adaptive",
        about: "Forebay's, in one shard",
        make: |setup| Box::new(AdaptiveCache::new(setup, Attachment::default())),
    },
    Policy {
        name: "adaptive-64",
        about: "Forebay's, in 64 shards",
        make: |setup| {
            let attachment = Attachment { shard_count: 64, ..Attachment::default() };
            Box::new(AdaptiveCache::new(setup, attachment))
        },
    },
];

impl Policy {
    /// Returns the policy of this name.
    pub fn of(name: &str) -> Option<&'static Policy> {
        POLICIES.iter().find(|policy| policy.name == name)
    }

    /// Returns an empty cache under the policy.
    pub fn cache(&self, setup: &Setup) -> Box<dyn Cache> {
        (self.make)(setup)
    }
}
