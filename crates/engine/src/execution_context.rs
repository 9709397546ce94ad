//! What the engine needs from outside: time, randomness, the process around it.

use std::sync::atomic::{AtomicUsize, Ordering};

use base::UnixMs;
use base::prng::Prng;
use command::Host;

use crate::clock::Clock;
use crate::command_stats::CommandStats;
use crate::monitor_feed::MonitorFeed;
use crate::pause_switch::PauseSwitch;
use crate::timing_settings::TimingSettings;

/// One worker's view of the world during a call of the engine.
pub struct ExecutionContext<'h> {
    /// The wall clock, read before each call, with no other call in between. A call ends early once
    /// its commands have taken a millisecond.
    pub now: UnixMs,
    /// Random numbers, for eviction and commands that pick at random.
    pub random: Prng,
    /// The server around the engine.
    pub host: &'h dyn Host,
    /// The clocks of the instance. The engine reads the steady one alone: what commands take is
    /// counted by it, and it tells when `now` is to be read anew; nothing else depends on it.
    pub clock: &'h dyn Clock,
    /// Where what runs is counted.
    pub command_stats: &'h CommandStats,
    /// What is to be noticed about times.
    pub timing: &'h TimingSettings,
    /// Which requests have to wait.
    pub pause: &'h PauseSwitch,
    /// Who is shown what runs.
    pub monitor_feed: MonitorFeed<'h>,
    /// Which request runs.
    pub position: &'h Position,
    /// The longest string that APPEND and its like may make, in bytes: `proto-max-bulk-len`.
    pub value_bytes_max: u64,
    /// Where a batch pauses: no further request begins once this much output waits.
    pub output_bytes_max: usize,
    /// As above, once it refers to so many values that lie elsewhere.
    pub references_max: usize,
}

impl ExecutionContext<'_> {
    /// Returns whether keys that have expired are removed where they are met: not during a pause,
    /// which keeps the data as it is.
    #[inline]
    pub fn removes_expired(&self) -> bool {
        self.pause.get().is_none()
    }
}

/// The index of the request in its batch that a worker runs, on a cache line of its own. The worker
/// writes it before each request; who finds out why the worker has stopped reads it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Position(AtomicUsize);

impl Position {
    /// Returns the index.
    pub fn index(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, index: usize) {
        self.0.store(index, Ordering::Relaxed);
    }
}
