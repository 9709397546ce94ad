//! Counters of the transports: each written by one thread, read by any.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::{CommandCounts, CommandStats, Distribution};

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

/// Makes [`WorkerCounters`] and [`Totals`] of one list of names.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What one worker counts, on cache lines of its own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct WorkerCounters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// The same numbers summed over workers.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Totals {
            $(pub $name: u64,)*
        }

        impl Totals {
            /// Adds up `workers`.
            pub fn of<'a>(workers: impl Iterator<Item = &'a WorkerCounters>) -> Totals {
                workers.fold(Totals::default(), |sum, worker| Totals {
                    $($name: sum.$name + worker.$name.value(),)*
                })
            }

            /// Returns what was counted after `earlier`.
            pub fn since(self, earlier: Totals) -> Totals {
                Totals { $($name: self.$name - earlier.$name,)* }
            }
        }
    };
}

counters! {
    /// Requests that were executed or refused.
    commands,
    /// Bytes received.
    input_bytes,
    /// Bytes sent.
    output_bytes,
    /// Receives that brought something.
    reads,
    /// Values that were received straight into their place.
    direct_values,
    /// Sends that were tried.
    writes,
    /// Rounds of the worker's loop.
    rounds,
    /// How long they took, without the waits between them.
    round_nanoseconds,
    /// Connections that a worker has begun to serve.
    connections,
    /// Connections refused because there were too many.
    rejected,
    /// Connections closed for too much unread output.
    output_limit_closes,
    /// Connections closed for too much input.
    query_limit_closes,
    /// Connections closed because clients took too much memory.
    evicted,
    /// Times that a client of a lane was woken.
    lane_wakes,
    /// Times that a client of a lane woke its worker.
    lane_rings,
    /// Times that a worker polled for more before it slept.
    busy_polls,
    /// Those of them that found something.
    busy_poll_hits,
    /// Lanes ended for what their client wrote.
    lane_errors,
}

/// All that is counted, of all workers together.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// The transports' numbers.
    pub totals: Totals,
    /// Each command's, by its name.
    pub commands: BTreeMap<&'static str, CommandCounts>,
    /// How long the commands within EXECs took, which is counted for these too.
    pub nested_nanoseconds: u64,
    /// How long each command's calls took, by its name.
    pub times: BTreeMap<&'static str, Distribution>,
    /// Error replies by their code.
    pub errors: BTreeMap<String, u64>,
}

impl Counted {
    /// Adds what one worker's engine has counted.
    pub fn add(&mut self, command_stats: &CommandStats) {
        for (name, counts) in command_stats.commands() {
            let sum = self.commands.entry(name).or_default();
            *sum = sum.plus(counts);
        }
        self.nested_nanoseconds += command_stats.nested_nanoseconds();
        command_stats.add_times(&mut self.times);
        for (code, count) in command_stats.errors() {
            *self.errors.entry(code).or_default() += count;
        }
    }

    /// Returns how long commands took in all.
    pub fn command_nanoseconds(&self) -> u64 {
        let all: u64 = self.commands.values().map(|counts| counts.nanoseconds).sum();
        // The two are read one after the other while workers count.
        all.saturating_sub(self.nested_nanoseconds)
    }

    /// Returns what was counted since `earlier`, without commands and errors that were not.
    pub fn since(mut self, earlier: &Counted) -> Counted {
        self.totals = self.totals.since(earlier.totals);
        self.nested_nanoseconds -= earlier.nested_nanoseconds;
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
    /// Rounds of the workers and of the service thread.
    pub rounds: u64,
    /// How long one round took on average, in microseconds; not per second.
    pub round_microseconds: u64,
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
            rounds: (delta.rounds as f64 / seconds) as u64,
            round_microseconds: delta.round_nanoseconds / delta.rounds.max(1) / 1000,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Duration, Totals)>> {
        self.samples.lock().expect("no holder of the samples panics")
    }
}

#[cfg(test)]
mod tests {
    use command::CommandError;

    use super::*;

    #[test]
    fn rates_follow_from_the_oldest_and_the_latest_sample() {
        let rates = Rates::default();
        assert_eq!(rates.rate(), Rate::default());
        for round in 0..20_u64 {
            let totals = Totals {
                commands: round * 50,
                rounds: round * 10,
                round_nanoseconds: round * 25_000,
                ..Totals::default()
            };
            rates.sample(Duration::from_millis(round * 100), totals);
        }
        let rate = rates.rate();
        assert_eq!((rate.commands, rate.rounds, rate.round_microseconds), (500, 100, 2));
        rates.clear();
        assert_eq!(rates.rate(), Rate::default());
    }

    #[test]
    fn counts_of_commands_and_errors_start_anew() {
        let command_stats = CommandStats::new();
        let (get, set) = (command::lookup(b"get").unwrap(), command::lookup(b"set").unwrap());
        command_stats.count_rejection(get, &CommandError::OUT_OF_MEMORY);
        command_stats.count_rejection(set, &CommandError::OUT_OF_MEMORY);
        command_stats.count_error(b"ERR x");
        let mut before = Counted::default();
        before.add(&command_stats);
        command_stats.count_rejection(get, &CommandError::OUT_OF_MEMORY);
        command_stats.count_error(b"OOM x");
        let mut after = Counted::default();
        after.add(&command_stats);
        let since = after.since(&before);
        let rejected: Vec<(&str, u64)> =
            since.commands.iter().map(|(name, counts)| (*name, counts.rejected)).collect();
        assert_eq!(rejected, [("get", 1)]);
        assert_eq!(since.errors.into_iter().collect::<Vec<_>>(), [("OOM".to_owned(), 2)]);
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
