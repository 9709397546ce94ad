//! What follows from the options' typed values, and what they mean to the parts of the server.

use collections::{Limits, ListLimit};
use keyspace::{CacheObjective, EvictionPolicy, ExportVersion};
use runtime::{SweepOptions, Tuning};

use super::kind::{Named, Share};
use super::options::{Collections, Instance, Memory, Process, Settings};

impl Settings {
    /// Returns what the instance of the data follows.
    pub fn tuning(&self) -> Tuning {
        let Memory {
            max_bytes,
            policy,
            objective,
            samples,
            tenacity,
            lfu_log_factor,
            lfu_decay_minutes,
        } = self.memory;
        Tuning {
            // Beyond all memory, so that sums with it hold.
            maxmemory: max_bytes.min(i64::MAX as u64),
            policy,
            objective,
            samples,
            tenacity,
            lfu_log_factor,
            lfu_decay_minutes,
            collections: self.collections.limits(),
            export_version: ExportVersion::new(self.exports.version)
                .expect("the option takes versions only"),
        }
    }

    /// Returns how the instance of the data sweeps.
    pub fn sweep(&self) -> SweepOptions {
        let Process { frequency, expire_effort, .. } = self.process;
        SweepOptions { frequency, expire_effort, ..SweepOptions::default() }
    }
}

impl Collections {
    fn limits(&self) -> Limits {
        Limits {
            list: ListLimit(self.list_listpack_size),
            hash_entries: self.hash_entries,
            hash_value_bytes: self.hash_value_bytes,
            set_integers: self.set_integers,
            set_entries: self.set_entries,
            set_value_bytes: self.set_value_bytes,
            sorted_set_entries: self.sorted_set_entries,
            sorted_set_value_bytes: self.sorted_set_value_bytes,
            stream_node_bytes: self.stream_node_bytes,
            stream_node_entries: self.stream_node_entries,
            sparse_bytes: self.sparse_bytes,
        }
    }
}

/// What follows from several options, worked out once for each snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Derived {
    /// Bytes that all clients may take together, where there is a limit.
    pub clients_bytes_max: Option<u64>,
    /// Bytes of a segment of the memory that an instance starts with under these settings. One that
    /// runs keeps its own: see [`sys::memfd_segments::OwnedSegments::segment_bytes`].
    pub segment_bytes: u64,
    /// The score by which the kernel chooses a process to kill.
    pub oom_score: OomScore,
}

impl Derived {
    /// Returns what follows from `settings`, whose own such part is not looked at.
    pub fn of(settings: &Settings) -> Derived {
        let Settings { memory, clients, instance, process, .. } = settings;
        Derived {
            clients_bytes_max: clients_bytes_max(clients.share, memory.max_bytes),
            segment_bytes: segment_bytes(instance, memory.max_bytes),
            oom_score: OomScore::of(process),
        }
    }
}

/// Returns the limit of all clients with a memory limit of `maxmemory` bytes, if any. It leaves
/// room to talk to the server and raise it.
fn clients_bytes_max(share: Share, maxmemory: u64) -> Option<u64> {
    const BYTES_MIN: u64 = 128 << 10;
    let bytes = share.of(maxmemory);
    (bytes > 0).then(|| bytes.max(BYTES_MIN))
}

/// Returns the size of a segment, where the option leaves it open that for a memory limit, 0 being
/// none. A segment that changes from small values to large ones is emptied first, so that it should
/// be a small part of the whole.
fn segment_bytes(instance: &Instance, maxmemory: u64) -> u64 {
    const SEGMENTS_WANTED: u64 = 256;
    const BYTES_MIN: u64 = 1 << 20;
    const BYTES_MAX: u64 = 64 << 20;
    match (instance.segment_bytes, maxmemory) {
        (bytes @ 1.., _) => bytes,
        (0, 0) => BYTES_MAX,
        (0, limit) => (limit / SEGMENTS_WANTED).next_power_of_two().clamp(BYTES_MIN, BYTES_MAX),
    }
}

/// How the score by which the kernel chooses a process to kill is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OomScore {
    /// As it was at start.
    #[default]
    Unchanged,
    /// This much above what it was at start.
    Relative(i32),
    /// Just this.
    Absolute(i32),
}

impl OomScore {
    fn of(process: &Process) -> OomScore {
        // The first score is that of a primary, which this server always is.
        let [score, ..] = process.oom_scores;
        match process.oom_score_mode {
            "no" => OomScore::Unchanged,
            "absolute" => OomScore::Absolute(score),
            _ => OomScore::Relative(score),
        }
    }
}

/// Who may do what is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Nobody.
    Nobody,
    /// Everybody.
    Everybody,
    /// Clients on this host.
    Local,
}

impl Named for Allowed {
    const ALL: &'static [Allowed] = &[Allowed::Nobody, Allowed::Everybody, Allowed::Local];

    fn name(self) -> &'static str {
        match self {
            Allowed::Nobody => "no",
            Allowed::Everybody => "yes",
            Allowed::Local => "local",
        }
    }
}

impl Named for CacheObjective {
    const ALL: &'static [CacheObjective] = CacheObjective::ALL;

    fn name(self) -> &'static str {
        CacheObjective::name(self)
    }
}

impl Named for EvictionPolicy {
    const ALL: &'static [EvictionPolicy] = EvictionPolicy::ALL;
    const TOLD: &'static [EvictionPolicy] = EvictionPolicy::OF_REDIS;

    fn name(self) -> &'static str {
        EvictionPolicy::name(self)
    }
}
