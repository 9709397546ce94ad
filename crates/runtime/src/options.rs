//! The options of an instance, and which of them may change while it runs.

use std::{fmt, io};

use arena::ArenaError;
use collections::Limits;
use keyspace::{CacheObjective, EvictionPolicy, ExportVersion};

/// What an instance is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where its memory comes from.
    pub memory: Memory,
    /// How many threads run requests at the same time, 1 or more: the number of shards follows.
    pub worker_count: usize,
    /// The number of databases, `1..=16`.
    pub database_count: u8,
    /// How many bytes of the latest changes are kept where anybody follows them, 2 or more.
    pub backlog_bytes: u64,
    /// What may change while it runs.
    pub tuning: Tuning,
}

/// Where the memory of an instance comes from.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// The heap of the process: one zeroed allocation, of which the system gives what is touched.
    Heap {
        /// The size of one segment: a power of two, at least 16 KiB.
        segment_bytes: u64,
        /// How many there are: no more memory than all of them is ever used for data.
        segment_count: u32,
    },
    /// Sealed memory that other processes may map: addresses are reserved, memory follows.
    Shared {
        /// The size of one segment: a power of two, at least 1 MiB.
        segment_bytes: u64,
        /// Whether the pages of a segment are taken from the system when it is made, so that a
        /// shortage is an error; else they are taken when they are touched.
        takes_pages_up_front: bool,
    },
}

impl Default for Memory {
    /// A gibibyte of the heap in segments of a mebibyte.
    fn default() -> Memory {
        Memory::Heap { segment_bytes: 1 << 20, segment_count: 1024 }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: Memory::default(),
            worker_count: 1,
            database_count: 16,
            backlog_bytes: 1 << 20,
            tuning: Tuning::default(),
        }
    }
}

/// What of an instance may change while it runs, with the defaults of Redis.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The most memory in use, in bytes, before keys are evicted; 0 for no limit.
    pub maxmemory: u64,
    /// Which keys are evicted.
    pub policy: EvictionPolicy,
    /// What the adaptive policies maximise.
    pub objective: CacheObjective,
    /// How many keys are compared for each one that is evicted, 1 or more.
    pub samples: u32,
    /// How much of its time a write may spend on making room, `0..=100`.
    pub tenacity: u32,
    /// How seldom the counter of a key's uses grows.
    pub lfu_log_factor: u32,
    /// After how many minutes without use it shrinks by one.
    pub lfu_decay_minutes: u32,
    /// How long collections stay in their compact forms.
    pub collections: Limits,
    /// The version of the format of DUMP and MIGRATE.
    pub export_version: ExportVersion,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            maxmemory: 0,
            policy: EvictionPolicy::NO_EVICTION,
            objective: CacheObjective::Hits,
            samples: 5,
            tenacity: 10,
            lfu_log_factor: 10,
            lfu_decay_minutes: 1,
            collections: Limits::default(),
            export_version: ExportVersion::NEWEST,
        }
    }
}

/// How an instance sweeps.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Rounds in a second, 1 or more. What a round may take follows from it.
    pub frequency: u32,
    /// How much of its time a round spends on expired keys: `1..=10`.
    pub expire_effort: u32,
    /// Whether expired keys are looked for.
    pub expires: bool,
    /// Whether room is made where memory is above its limit.
    pub evicts: bool,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions { frequency: 10, expire_effort: 1, expires: true, evicts: true }
    }
}

/// Why an instance cannot be made.
#[derive(Debug)]
pub enum OpenError {
    /// The address space of the process is too small.
    Addresses(io::Error),
    /// There is no randomness.
    Randomness(io::Error),
    /// There is no memory, or too little for its parts.
    Memory(ArenaError),
    /// The data cannot be read from the disk, or their folder is another's; a sentence.
    Log(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Addresses(error) => {
                write!(formatter, "no address space for the data: {error}")
            }
            OpenError::Randomness(error) => write!(formatter, "no randomness: {error}"),
            OpenError::Memory(error) => write!(formatter, "no memory for the data: {error}"),
            OpenError::Log(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for OpenError {}
