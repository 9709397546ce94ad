//! Counters of the transports: each written by one thread, read by any.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::{CommandCounts, Distribution, Tally};

/// A number that one thread counts and any may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. For the one thread that owns the counter.
    #[inline]
    pub fn add(&self, count: u64) {
        // One writer: a load and a store, where an atomic addition would lock the cache line.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Returns the number.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one worker counts, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Requests that were executed or refused.
    pub commands: Counter,
    /// Bytes received.
    pub input_bytes: Counter,
    /// Bytes sent.
    pub output_bytes: Counter,
    /// Receives that brought something.
    pub reads: Counter,
    /// Sends that were tried.
    pub writes: Counter,
    /// Connections accepted and served.
    pub connections: Counter,
    /// Connections refused because there were too many.
    pub rejected: Counter,
    /// Connections closed for too much unread output.
    pub output_limit_closes: Counter,
    /// Connections closed for too much input.
    pub query_limit_closes: Counter,
    /// Connections closed because clients took too much memory.
    pub evicted: Counter,
    /// Times that a client of a lane was woken.
    pub lane_wakes: Counter,
    /// Times that a client of a lane rang.
    pub lane_rings: Counter,
    /// Lanes ended for what their client wrote.
    pub lane_errors: Counter,
}

/// The same numbers summed over workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub commands: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub connections: u64,
    pub rejected: u64,
    pub output_limit_closes: u64,
    pub query_limit_closes: u64,
    pub evicted: u64,
    pub lane_wakes: u64,
    pub lane_rings: u64,
    pub lane_errors: u64,
}

impl Totals {
    /// Adds up `workers`.
    pub fn of<'a>(workers: impl Iterator<Item = &'a WorkerCounters>) -> Totals {
        workers.fold(Totals::default(), |sum, worker| Totals {
            commands: sum.commands + worker.commands.value(),
            input_bytes: sum.input_bytes + worker.input_bytes.value(),
            output_bytes: sum.output_bytes + worker.output_bytes.value(),
            reads: sum.reads + worker.reads.value(),
            writes: sum.writes + worker.writes.value(),
            connections: sum.connections + worker.connections.value(),
            rejected: sum.rejected + worker.rejected.value(),
            output_limit_closes: sum.output_limit_closes + worker.output_limit_closes.value(),
            query_limit_closes: sum.query_limit_closes + worker.query_limit_closes.value(),
            evicted: sum.evicted + worker.evicted.value(),
            lane_wakes: sum.lane_wakes + worker.lane_wakes.value(),
            lane_rings: sum.lane_rings + worker.lane_rings.value(),
            lane_errors: sum.lane_errors + worker.lane_errors.value(),
        })
    }

    /// Returns what was counted after `earlier`.
    pub fn since(self, earlier: Totals) -> Totals {
        Totals {
            commands: self.commands - earlier.commands,
            input_bytes: self.input_bytes - earlier.input_bytes,
            output_bytes: self.output_bytes - earlier.output_bytes,
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            connections: self.connections - earlier.connections,
            rejected: self.rejected - earlier.rejected,
            output_limit_closes: self.output_limit_closes - earlier.output_limit_closes,
            query_limit_closes: self.query_limit_closes - earlier.query_limit_closes,
            evicted: self.evicted - earlier.evicted,
            lane_wakes: self.lane_wakes - earlier.lane_wakes,
            lane_rings: self.lane_rings - earlier.lane_rings,
            lane_errors: self.lane_errors - earlier.lane_errors,
        }
    }
}

/// All that is counted, of all workers together.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// The transports' numbers.
    pub totals: Totals,
    /// Each command's, by its name.
    pub commands: BTreeMap<&'static str, CommandCounts>,
    /// How long each command's calls took, by its name.
    pub times: BTreeMap<&'static str, Distribution>,
    /// Error replies by their code.
    pub errors: BTreeMap<String, u64>,
}

impl Counted {
    /// Adds what one worker's engine has counted.
    pub fn add(&mut self, tally: &Tally) {
        for (name, counts) in tally.commands() {
            let sum = self.commands.entry(name).or_default();
            *sum = sum.plus(counts);
        }
        tally.add_times(&mut self.times);
        for (code, count) in tally.errors() {
            *self.errors.entry(code).or_default() += count;
        }
    }

    /// Returns what was counted after `earlier`, without what was not.
    pub fn since(mut self, earlier: &Counted) -> Counted {
        self.totals = self.totals.since(earlier.totals);
        for (name, counts) in &mut self.commands {
            *counts = counts.since(earlier.commands.get(name).copied().unwrap_or_default());
        }
        for (name, distribution) in &mut self.times {
            if let Some(before) = earlier.times.get(name) {
                distribution.subtract(before);
            }
        }
        for (code, count) in &mut self.errors {
            *count -= earlier.errors.get(code).copied().unwrap_or_default();
        }
        self.commands.retain(|_, counts| *counts != CommandCounts::default());
        self.times.retain(|_, distribution| distribution.total() > 0);
        self.errors.retain(|_, count| *count > 0);
        self
    }
}

/// Samples of running totals, from which the rates of the last seconds follow.
#[derive(Debug, Default)]
pub struct Rates {
    samples: Mutex<Vec<(Duration, Totals)>>,
}

/// Samples that are kept: 1.6 seconds at the default of ten rounds a second, as in Redis.
const SAMPLES_MAX: usize = 16;

/// What happened per second lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests.
    pub commands: u64,
    /// Received bytes / 1024.
    pub input_kib: f64,
    /// Sent bytes / 1024.
    pub output_kib: f64,
}

impl Rates {
    /// Remembers that the totals were `totals` at `now`.
    pub fn sample(&self, now: Duration, totals: Totals) {
        let mut samples = self.lock();
        if samples.len() == SAMPLES_MAX {
            samples.remove(0);
        }
        samples.push((now, totals));
    }

    /// Forgets all samples: nothing has happened for a while.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Returns the rates over the samples, 0 where there are fewer than two.
    pub fn rate(&self) -> Rate {
        let samples = self.lock();
        let (Some((start, from)), Some((end, to))) = (samples.first(), samples.last()) else {
            return Rate::default();
        };
        let seconds = (*end - *start).as_secs_f64();
        if seconds <= 0.0 {
            return Rate::default();
        }
        let delta = to.since(*from);
        Rate {
            commands: (delta.commands as f64 / seconds) as u64,
            input_kib: delta.input_bytes as f64 / seconds / 1024.0,
            output_kib: delta.output_bytes as f64 / seconds / 1024.0,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Duration, Totals)>> {
        self.samples.lock().expect("no holder of the samples panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_the_oldest_and_the_latest_sample() {
        let rates = Rates::default();
        assert_eq!(rates.rate(), Rate::default());
        for round in 0..20_u64 {
            let totals = Totals { commands: round * 50, ..Totals::default() };
            rates.sample(Duration::from_millis(round * 100), totals);
        }
        assert_eq!(rates.rate().commands, 500);
        rates.clear();
        assert_eq!(rates.rate(), Rate::default());
    }

    #[test]
    fn counts_of_commands_and_errors_start_anew() {
        let tally = Tally::new();
        let (get, set) = (command::lookup(b"get").unwrap(), command::lookup(b"set").unwrap());
        tally.count_call(get);
        tally.count_call(set);
        tally.count_error(b"ERR x");
        let mut before = Counted::default();
        before.add(&tally);
        tally.count_call(get);
        tally.count_error(b"OOM x");
        let mut after = Counted::default();
        after.add(&tally);
        let since = after.since(&before);
        let calls: Vec<(&str, u64)> =
            since.commands.iter().map(|(name, counts)| (*name, counts.calls)).collect();
        assert_eq!(calls, [("get", 1)]);
        assert_eq!(since.errors.into_iter().collect::<Vec<_>>(), [("OOM".to_owned(), 1)]);
    }

    #[test]
    fn totals_add_up_over_workers() {
        let workers = [WorkerCounters::default(), WorkerCounters::default()];
        workers[0].commands.add(3);
        workers[1].commands.add(4);
        workers[1].input_bytes.add(9);
        let totals = Totals::of(workers.iter());
        assert_eq!((totals.commands, totals.input_bytes), (7, 9));
        assert_eq!(totals.since(totals).commands, 0);
    }
}
