//! An instance embedded in a program that is not a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::UnixMs;
use base::prng::Prng;
use engine::{CommandStats, PauseSwitch, Position, TimingSettings};
use keyspace::SessionWakeup;

use crate::embedded_log::{EmbeddedLog, LogOptions};
use crate::embedded_session::Session;
use crate::environment::Environment;
use crate::options::{OpenError, Options, SweepOptions, Tuning};
use crate::runtime::Runtime;
use crate::sweeper::Sweeper;

/// What an embedded instance is made with.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The instance itself.
    pub instance: Options,
    /// How it sweeps.
    pub sweep: SweepOptions,
    /// The longest argument, and the longest string that APPEND and its like may make, in bytes:
    /// `proto-max-bulk-len`.
    pub value_bytes_max: u32,
    /// Whether sessions may use DEBUG: `enable-debug-command`.
    pub allows_debug: bool,
    /// Where the data are kept on the disk; without it they go with the instance.
    pub log: Option<LogOptions>,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        EmbeddedOptions {
            instance: Options::default(),
            sweep: SweepOptions::default(),
            value_bytes_max: 512 << 20,
            allows_debug: false,
            log: None,
        }
    }
}

/// An instance that a program has for itself. It has no thread: a request runs on the thread of who
/// calls [`Session::run`], and [`Embedded::sweep`] is to be called now and then. It keeps its data
/// on the disk where [`EmbeddedOptions::log`] says where.
///
/// Several threads may have sessions; their requests run one at a time.
pub struct Embedded {
    pub(crate) runtime: Runtime,
    pub(crate) value_bytes_max: u32,
    pub(crate) allows_debug: bool,
    pub(crate) tuning: Mutex<Tuning>,
    pub(crate) started: UnixMs,
    pub(crate) started_ns: u64,
    /// Locked while a request runs: what it picks at random, and who may count.
    random: Mutex<Prng>,
    pub(crate) command_stats: CommandStats,
    pub(crate) timing: TimingSettings,
    pub(crate) pause: PauseSwitch,
    pub(crate) position: Position,
    /// Always 0: nobody looks on.
    pub(crate) monitor_count: AtomicUsize,
    /// Commands that ran since the counters were reset.
    pub(crate) commands: AtomicU64,
    /// Sessions whose waits keys have ended and that have not taken note of it, each with the
    /// number of its latest such wait.
    served: Mutex<BTreeMap<u64, u64>>,
    next_session: AtomicU64,
    sweep: SweepOptions,
    pub(crate) leaves_expired: AtomicBool,
    sweeper: Mutex<Sweeper>,
    pub(crate) log: Option<EmbeddedLog>,
}

impl Embedded {
    /// Makes an instance, with the data that its folder has where it keeps a log.
    ///
    /// # Errors
    /// When memory, address space or randomness are short, or the data cannot be read.
    pub fn open(
        options: &EmbeddedOptions,
        environment: Environment,
    ) -> Result<Embedded, OpenError> {
        Embedded::open_with(options, environment, |runtime| {
            options.log.as_ref().map(|log| EmbeddedLog::open(log, runtime)).transpose()
        })
    }

    /// As [`Embedded::open`], with the log that `open_log` makes the data from.
    pub(crate) fn open_with(
        options: &EmbeddedOptions,
        environment: Environment,
        open_log: impl FnOnce(&Runtime) -> Result<Option<EmbeddedLog>, OpenError>,
    ) -> Result<Embedded, OpenError> {
        let runtime = Runtime::open(&options.instance, environment)?;
        let generator = || runtime.generator().map_err(OpenError::Randomness);
        let (random, sweeper) = (generator()?, Sweeper::new(generator()?));
        let log = open_log(&runtime)?;
        let timing = TimingSettings::new();
        // Nobody asks for the distribution of times, whose memory would count.
        timing.set(u64::MAX, false);
        Ok(Embedded {
            value_bytes_max: options.value_bytes_max,
            allows_debug: options.allows_debug,
            tuning: Mutex::new(options.instance.tuning.clone()),
            started: runtime.clock().wall(),
            started_ns: runtime.clock().steady_ns(),
            runtime,
            random: Mutex::new(random),
            command_stats: CommandStats::new(),
            timing,
            pause: PauseSwitch::default(),
            position: Position::default(),
            monitor_count: AtomicUsize::new(0),
            commands: AtomicU64::new(0),
            served: Mutex::default(),
            next_session: AtomicU64::new(1),
            sweep: options.sweep,
            leaves_expired: AtomicBool::new(false),
            sweeper: Mutex::new(sweeper),
            log,
        })
    }

    /// Returns the instance itself.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Begins a session.
    pub fn session(&self) -> Session<'_> {
        Session::new(self, self.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes `tuning` hold from now on.
    pub fn tune(&self, tuning: Tuning) {
        let mut current = locked(&self.tuning);
        self.runtime.tune(&tuning);
        *current = tuning;
    }

    /// Sweeps once: expired keys go, keys are evicted where memory is above its limit, and the log
    /// is written, where one is kept; a long one is replaced by a snapshot, which takes as long as
    /// the data are large. Without sweeps expired keys are absent all the same, but take memory.
    pub fn sweep(&self) {
        let is_on = self.sweep.expires && !self.leaves_expired.load(Ordering::Relaxed);
        let options = SweepOptions { expires: is_on, ..self.sweep };
        // More of what is left to do comes with the next call.
        let _ = locked(&self.sweeper).round(&self.runtime, &options, self);
        if let Some(log) = &self.log {
            log.sweep(&self.runtime);
        }
    }

    /// Ends the instance. Where it keeps a log all that was changed is durable then, as it is where
    /// an instance is dropped, which tells nobody of errors.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn close(self) -> Result<(), String> {
        self.log.as_ref().map_or(Ok(()), |log| log.end(&self.runtime))
    }

    /// Returns the right to run a request, and what it picks by.
    pub(crate) fn turn(&self) -> MutexGuard<'_, Prng> {
        locked(&self.random)
    }

    pub(crate) fn add_served(&self, served: SessionWakeup) {
        let mut all = locked(&self.served);
        // Word of an earlier wait may come late.
        let wait = all.entry(served.session).or_default();
        *wait = served.wait.max(*wait);
    }

    /// Takes the number of the latest wait of session `id` that a key has ended.
    pub(crate) fn take_served(&self, id: u64) -> Option<u64> {
        locked(&self.served).remove(&id)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(log) = &self.log {
            // Who wants to know calls `close`.
            let _ = log.end(&self.runtime);
        }
    }
}

/// Locks `mutex` even if a holder panicked. Its content is always whole: each change is one
/// assignment. If the engine panicked, its shard locks are poisoned and report that themselves.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
