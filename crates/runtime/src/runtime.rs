//! One instance: the engine on its memory, with its time, its randomness and its accounting.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use arena::{Arena, ArenaConfig, ArenaError, HeapSource, SegmentSource};
use base::HashKeys;
use base::prng::Prng;
use engine::{Clock, Engine};
use keyspace::{Keyspace, shard_count_for_workers};
use ring::SharedSegments;
use sys::memfd_segments::{Backing, OwnedSegments};

use crate::address_space;
use crate::environment::Environment;
use crate::options::{Memory, OpenError, Options, Tuning};
use crate::stream::Stream;
use crate::sweep_stats::{OverLimit, OverLimitDurations, SweepCounts, SweepStats};

/// One instance, shared by the threads that run requests on it and the one that sweeps.
pub struct Runtime {
    engine: Engine,
    /// The memory that other processes may map, where it is such.
    segments: Option<Arc<OwnedSegments>>,
    environment: Environment,
    /// Memory in use before the first session, in bytes.
    startup_bytes: u64,
    /// The most memory that was seen in use, in bytes.
    peak_bytes: AtomicU64,
    /// Buffers and records of clients, in bytes.
    client_bytes: AtomicI64,
    pub(crate) backlog_bytes: u64,
    pub(crate) stream: Stream,
    pub(crate) sweep_stats: SweepStats,
    pub(crate) over_limit: OverLimit,
}

impl Runtime {
    /// Makes an instance without data.
    ///
    /// # Errors
    /// When memory, address space or randomness are short.
    pub fn open(options: &Options, environment: Environment) -> Result<Runtime, OpenError> {
        let (source, segments) = source_of(options.memory)?;
        let mut random = [0; HashKeys::BYTES];
        environment.randomness.fill(&mut random).map_err(OpenError::Randomness)?;
        let config = ArenaConfig {
            shard_count: shard_count_for_workers(options.worker_count) as u32,
            database_count: u32::from(options.database_count),
            hash_keys: HashKeys::from_random(&random),
        };
        let keyspace = Keyspace::new(Arena::new(source, config).map_err(OpenError::Memory)?);
        let runtime = Runtime {
            startup_bytes: keyspace.used_memory(),
            engine: Engine::new(keyspace),
            segments,
            environment,
            peak_bytes: AtomicU64::new(0),
            client_bytes: AtomicI64::new(0),
            backlog_bytes: options.backlog_bytes,
            stream: Stream::default(),
            sweep_stats: SweepStats::default(),
            over_limit: OverLimit::default(),
        };
        runtime.tune(&options.tuning);
        Ok(runtime)
    }

    /// Returns what executes requests.
    #[inline]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the data.
    #[inline]
    pub fn keyspace(&self) -> &Keyspace {
        self.engine.keyspace()
    }

    /// Returns the memory that other processes may map, where it is such.
    pub fn segments(&self) -> Option<&Arc<OwnedSegments>> {
        self.segments.as_ref()
    }

    /// Returns the clocks.
    #[inline]
    pub fn clock(&self) -> &dyn Clock {
        &*self.environment.clock
    }

    /// Fills `bytes` with randomness.
    ///
    /// # Errors
    /// When there is none.
    pub fn fill_randomly(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.environment.randomness.fill(bytes)
    }

    /// Returns a generator with a seed of its own.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn generator(&self) -> io::Result<Prng> {
        let mut seed = [0; 8];
        self.fill_randomly(&mut seed)?;
        Ok(Prng::new(u64::from_le_bytes(seed)))
    }

    /// Makes `tuning` hold from now on.
    pub fn tune(&self, tuning: &Tuning) {
        let keyspace = self.keyspace();
        keyspace.set_maxmemory(tuning.maxmemory);
        keyspace.set_eviction_samples(tuning.samples);
        keyspace.set_eviction_tenacity(tuning.tenacity);
        keyspace.set_counter_rates(tuning.lfu_log_factor, tuning.lfu_decay_minutes);
        keyspace.set_cache_objective(tuning.objective);
        keyspace.set_eviction_policy(tuning.policy);
        keyspace.set_collection_limits(tuning.collections);
        keyspace.set_export_version(tuning.export_version);
    }

    /// Returns the memory in use before the first session, in bytes.
    pub fn startup_bytes(&self) -> u64 {
        self.startup_bytes
    }

    /// Notes that `used` bytes are in use, and returns the most that were so far.
    pub fn note_memory(&self, used: u64) -> u64 {
        self.peak_bytes.fetch_max(used, Ordering::Relaxed).max(used)
    }

    /// Notes that the memory of clients has grown by `bytes`, which counts as in use.
    pub fn note_client_bytes(&self, bytes: isize) {
        self.client_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
        if bytes > 0 {
            self.keyspace().charge(bytes as u64);
        } else {
            self.keyspace().discharge(bytes.unsigned_abs() as u64);
        }
    }

    /// Returns what the buffers and records of clients take, in bytes.
    pub fn client_bytes(&self) -> u64 {
        u64::try_from(self.client_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Counts that `before` bytes of memory beside the data have become `after`.
    pub fn recharge(&self, before: u64, after: u64) {
        match after.checked_sub(before) {
            Some(growth) => self.keyspace().charge(growth),
            None => self.keyspace().discharge(before - after),
        }
    }

    /// Returns whether any key, or any field of a hash, has a time to live.
    pub fn has_volatile(&self) -> bool {
        let keyspace = self.keyspace();
        keyspace.shard_indexes().any(|shard| keyspace.shard_volatile(shard) > 0)
    }

    /// Returns what the looks for expired keys came to.
    pub fn sweep_counts(&self) -> SweepCounts {
        self.sweep_stats.counts()
    }

    /// Returns for how long memory was above its limit, as far as the sweeps saw.
    pub fn over_limit_durations(&self) -> OverLimitDurations {
        self.over_limit.durations(self.steady())
    }

    /// Starts the counters of the data and of the sweeps anew.
    pub fn reset_counters(&self) {
        self.keyspace().reset_counters();
        self.sweep_stats.reset();
        self.over_limit.reset(self.steady());
    }

    /// Returns the steady clock as a span since its start.
    pub(crate) fn steady(&self) -> Duration {
        Duration::from_nanos(self.clock().steady_ns())
    }
}

type Source = (Box<dyn SegmentSource>, Option<Arc<OwnedSegments>>);

fn source_of(memory: Memory) -> Result<Source, OpenError> {
    match memory {
        Memory::Heap { segment_bytes, segment_count } => {
            let source = HeapSource::try_new(segment_bytes, segment_count);
            let source = source.map_err(|error| OpenError::Memory(ArenaError::Segment(error)))?;
            Ok((Box::new(source), None))
        }
        Memory::Shared { segment_bytes, takes_pages_up_front } => {
            let backing = if takes_pages_up_front { Backing::UpFront } else { Backing::OnTouch };
            let segments =
                address_space::reserve(segment_bytes, backing).map_err(OpenError::Addresses)?;
            let segments = Arc::new(segments);
            let source = SharedSegments::new(Arc::clone(&segments));
            let source = source.with_uploads(address_space::upload_segments(&segments));
            Ok((Box::new(source), Some(segments)))
        }
    }
}
