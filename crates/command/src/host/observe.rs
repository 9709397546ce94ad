//! What the server around the engine keeps about times and memory: the slow log, spikes of latency,
//! distributions, and where memory goes.

use base::UnixMs;
use keyspace::{CacheReport, SizeClass};
use resp::RequestView;

use crate::handler::session::SessionState;
use crate::table::row::Command;

/// What commands and the engine tell of times and memory, and ask. No method locks a shard.
///
/// Every method does nothing where it is not written, for hosts that observe nothing.
pub trait Observer {
    /// Notes a command that took long enough to be reported.
    fn note_slow(&self, slow: &SlowCommand<'_>) {
        let _ = slow;
    }

    /// Notes that `event` took so long.
    fn note_event(&self, event: LatencyEvent, nanoseconds: u64) {
        let _ = (event, nanoseconds);
    }

    /// Returns the newest entries of the slow log, at most `count`, the newest first.
    fn slow_log(&self, count: usize) -> Vec<SlowLogEntry> {
        let _ = count;
        Vec::new()
    }

    /// Returns how many entries the slow log has.
    fn slow_log_len(&self) -> usize {
        0
    }

    /// Empties the slow log.
    fn reset_slow_log(&self) {}

    /// Returns the events that had spikes, in the order of [`LatencyEvent::ALL`].
    fn latency_series(&self) -> Vec<LatencySeries> {
        Vec::new()
    }

    /// Forgets the spikes of `events` and returns of how many there were some.
    fn reset_latency(&self, events: &[LatencyEvent]) -> usize {
        let _ = events;
        0
    }

    /// Returns from how many milliseconds on an event is a spike; 0 for never.
    fn latency_threshold_ms(&self) -> u64 {
        0
    }

    /// Returns the calls of each command that has any by how long they took, in the order of names.
    fn command_times(&self) -> Vec<CommandTimes> {
        Vec::new()
    }

    /// Returns where memory goes.
    fn memory_report(&self) -> MemoryReport {
        MemoryReport::default()
    }

    /// Returns what is known of the cache; none where the host does not tell.
    fn cache_overview(&self) -> Option<CacheOverview> {
        None
    }

    /// Gives memory that nothing uses back to the system, as far as possible.
    fn purge_memory(&self) {}

    /// Returns what the allocators tell of themselves, as lines for people.
    fn allocator_text(&self) -> String {
        String::new()
    }

    /// Returns the wall clock in microseconds since the Unix epoch, as of this moment.
    fn time_us(&self, batch: UnixMs) -> i64 {
        batch.0 * 1000
    }

    /// Returns when the dataset was saved last, or the server's start, in Unix seconds.
    fn saved_at_s(&self) -> i64 {
        0
    }
}

/// A command that took long.
#[derive(Clone, Copy, Debug)]
pub struct SlowCommand<'a> {
    /// Its row.
    pub command: &'static Command,
    /// What was sent.
    pub request: RequestView<'a>,
    /// Who sent it, as the session is after the command.
    pub session: &'a SessionState,
    /// How long it ran.
    pub nanoseconds: u64,
    /// The time of the batch.
    pub now: UnixMs,
}

/// One entry of the slow log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowLogEntry {
    /// Ascending, unique in the life of the server.
    pub id: u64,
    /// When it was logged, in Unix seconds.
    pub time_s: i64,
    /// How long the command ran.
    pub microseconds: u64,
    /// What was sent, shortened.
    pub arguments: Vec<Box<[u8]>>,
    /// The peer's address.
    pub address: String,
    /// The session's name; empty is none.
    pub name: Box<[u8]>,
}

/// What can take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyEvent {
    /// A command that is not expected to be fast.
    Command,
    /// A command that is.
    FastCommand,
    /// One round of looking for expired keys.
    ExpireCycle,
    /// Making room for a command.
    EvictionCycle,
}

impl LatencyEvent {
    /// All events.
    pub const ALL: [LatencyEvent; 4] = [
        LatencyEvent::Command,
        LatencyEvent::FastCommand,
        LatencyEvent::ExpireCycle,
        LatencyEvent::EvictionCycle,
    ];

    /// Returns the name, as Redis has it.
    pub const fn name(self) -> &'static str {
        match self {
            LatencyEvent::Command => "command",
            LatencyEvent::FastCommand => "fast-command",
            LatencyEvent::ExpireCycle => "expire-cycle",
            LatencyEvent::EvictionCycle => "eviction-cycle",
        }
    }

    /// Returns the event called `name`, in this case.
    pub fn named(name: &[u8]) -> Option<LatencyEvent> {
        LatencyEvent::ALL.into_iter().find(|event| event.name().as_bytes() == name)
    }
}

/// The spikes of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencySeries {
    /// The event.
    pub event: LatencyEvent,
    /// Unix seconds and milliseconds of the spikes, the oldest first; not empty. Those of one
    /// second are one, the longest.
    pub samples: Vec<(i64, u64)>,
    /// The longest ever.
    pub milliseconds_max: u64,
}

/// How long the calls of one command took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTimes {
    /// The command.
    pub command: &'static str,
    /// How many there were.
    pub calls: u64,
    /// How many took at most so many microseconds: (microseconds, calls), ascending.
    pub steps: Vec<(u64, u64)>,
}

/// What is known of the cache.
#[derive(Clone, Debug)]
pub struct CacheOverview {
    pub report: CacheReport,
    /// Where the memory of the keys is, by their sizes.
    pub sizes: Vec<SizeClass>,
}

/// Where memory goes, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// In use.
    pub used: u64,
    /// The most that was in use.
    pub used_max: u64,
    /// In use before the first client.
    pub startup: u64,
    /// What entries take, of `used`.
    pub dataset: u64,
    /// What the buffers and records of clients take, of `used`.
    pub clients: u64,
    /// What the index takes, of `used`.
    pub index: u64,
    /// What of the arena is in use.
    pub allocated: u64,
    /// Arena memory that was ever touched and not given back.
    pub active: u64,
    /// Memory of the process that is in RAM.
    pub resident: u64,
    /// Keys of all databases.
    pub key_count: u64,
    /// Keys, and those with a time to live, of each database that has any: (database, keys,
    /// volatile).
    pub databases: Vec<(usize, u64, u64)>,
    /// Connected clients.
    pub client_count: u64,
}

impl MemoryReport {
    /// Returns the bytes in use that are not entries.
    pub fn overhead(&self) -> u64 {
        self.used.saturating_sub(self.dataset)
    }
}

/// Returns `part / whole`; 0 where there is no whole.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
