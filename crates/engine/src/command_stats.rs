//! What one worker counts: calls, times, failures and refusals of each command, and error replies.
//!
//! Every number has one writer, the worker, and any number of readers; so counting is a load and
//! a store, and nothing is shared between workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use command::{Command, CommandError, Flags, Handler};

use crate::histogram::{Distribution, Histogram};

/// Error codes that are counted by name; codes come from a fixed set, so this is never reached.
const CODES_MAX: usize = 128;

/// The counts of one worker.
pub struct CommandStats {
    /// A hash table by the row's address, never full.
    rows: Box<[StatsRow]>,
    /// How long the commands within an EXEC took, whose own time holds theirs.
    nested_nanoseconds: AtomicU64,
    /// What the histograms take.
    histogram_bytes: AtomicU64,
    errors: Mutex<BTreeMap<Box<str>, u64>>,
}

/// Where a command is counted: its row in [`CommandStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatsIndex(u32);

#[derive(Default)]
struct StatsRow {
    command: Option<&'static Command>,
    /// With so many arguments at most it takes about as long as the reading of a clock.
    brief_arguments_max: usize,
    calls: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    nanoseconds: AtomicU64,
    /// Made when the first time is recorded.
    times: OnceLock<Box<Histogram>>,
}

/// The counts of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// How often it ran.
    pub calls: u64,
    /// How often it ran and replied with an error.
    pub failed: u64,
    /// How often it was refused before it ran.
    pub rejected: u64,
    /// How long it ran in all.
    pub nanoseconds: u64,
}

impl CommandStats {
    /// Returns statistics that have counted nothing.
    pub fn new() -> CommandStats {
        let rows = || command::rows().chain(command::memcached_rows().iter().copied());
        let row_count = (rows().count() * 2).next_power_of_two();
        let mut command_stats = CommandStats {
            rows: (0..row_count).map(|_| StatsRow::default()).collect(),
            nested_nanoseconds: AtomicU64::new(0),
            histogram_bytes: AtomicU64::new(0),
            errors: Mutex::default(),
        };
        rows().for_each(|command| command_stats.add_row(command));
        command_stats
    }

    /// Adds a row for `command`. The commands of the table have theirs; tests have commands of
    /// their own.
    pub(crate) fn add_row(&mut self, command: &'static Command) {
        let index = self.row_index(command);
        self.rows[index].command = Some(command);
        self.rows[index].brief_arguments_max = brief_arguments_max(command);
    }

    /// Counts a command that ran and failed with `error`.
    #[cold]
    pub fn count_failure(&self, command: &'static Command, error: &CommandError) {
        add(&self.row(command).failed, 1);
        self.count_error(&error.text());
    }

    /// Counts a command that was refused with `error` before it ran.
    #[cold]
    pub fn count_rejection(&self, command: &'static Command, error: &CommandError) {
        add(&self.row(command).rejected, 1);
        self.count_error(&error.text());
    }

    /// Counts an error reply with `text`, which begins with its code.
    #[cold]
    pub fn count_error(&self, text: &[u8]) {
        let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
        let code = String::from_utf8_lossy(&text[..end]);
        let mut errors = self.errors.lock().expect("no holder of the errors panics");
        if errors.len() < CODES_MAX || errors.contains_key(&*code) {
            *errors.entry(code.into()).or_default() += 1;
        }
    }

    /// Counts `calls` of the command of `index` that took `nanoseconds` each, in its distribution
    /// too where that `is_tracked`.
    #[inline]
    pub(crate) fn count_calls(
        &self,
        index: StatsIndex,
        calls: u64,
        nanoseconds: u64,
        is_tracked: bool,
    ) {
        let row = self.at(index);
        add(&row.calls, calls);
        add(&row.nanoseconds, nanoseconds.wrapping_mul(calls));
        if is_tracked {
            let times = row.times.get_or_init(|| {
                add(&self.histogram_bytes, Histogram::EMPTY_BYTES);
                Box::default()
            });
            if times.record(nanoseconds, calls) {
                add(&self.histogram_bytes, Histogram::PART_BYTES);
            }
        }
    }

    /// Adds `nanoseconds` that a command took whose call is counted already.
    pub(crate) fn count_time(&self, command: &'static Command, nanoseconds: u64) {
        add(&self.row(command).nanoseconds, nanoseconds);
    }

    /// Counts that a command within an EXEC took `nanoseconds`.
    pub(crate) fn count_nested(&self, nanoseconds: u64) {
        add(&self.nested_nanoseconds, nanoseconds);
    }

    /// Returns how long the commands within EXECs took, nanoseconds that are counted for the EXECs
    /// too.
    pub fn nested_nanoseconds(&self) -> u64 {
        self.nested_nanoseconds.load(Ordering::Relaxed)
    }

    /// Returns the bytes that the distributions of times take; grows when a command takes a time of
    /// a doubling for the first time.
    #[inline]
    pub fn histogram_bytes(&self) -> u64 {
        self.histogram_bytes.load(Ordering::Relaxed)
    }

    /// Returns where `command` is counted.
    #[inline]
    pub(crate) fn index(&self, command: &'static Command) -> StatsIndex {
        StatsIndex(self.row_index(command) as u32)
    }

    /// Returns with how many arguments at most, its name included, the command of `index` takes
    /// about as long as the reading of a clock, unless it has to wait or has a large argument.
    #[inline]
    pub(crate) fn brief_arguments_max(&self, index: StatsIndex) -> usize {
        self.at(index).brief_arguments_max
    }

    /// Adds how long the calls of each command took to `distributions`, by its name.
    pub fn add_times(&self, distributions: &mut BTreeMap<&'static str, Distribution>) {
        for row in &self.rows {
            if let (Some(command), Some(times)) = (row.command, row.times.get()) {
                distributions.entry(command.name).or_default().add(times);
            }
        }
    }

    /// Returns the counts of each command that has any, by its name.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, CommandCounts)> + '_ {
        let counts = |row: &StatsRow| CommandCounts {
            calls: row.calls.load(Ordering::Relaxed),
            failed: row.failed.load(Ordering::Relaxed),
            rejected: row.rejected.load(Ordering::Relaxed),
            nanoseconds: row.nanoseconds.load(Ordering::Relaxed),
        };
        let named = move |row: &StatsRow| Some((row.command?.name, counts(row)));
        self.rows.iter().filter_map(named).filter(|(_, it)| *it != CommandCounts::default())
    }

    /// Returns the number of error replies of each code.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock().expect("no holder of the errors panics");
        errors.iter().map(|(code, count)| (code.to_string(), *count)).collect()
    }

    #[inline]
    fn at(&self, index: StatsIndex) -> &StatsRow {
        &self.rows[index.0 as usize]
    }

    #[inline]
    fn row(&self, command: &'static Command) -> &StatsRow {
        let row = &self.rows[self.row_index(command)];
        debug_assert!(row.command.is_some(), "{} is a row of the table", command.name);
        row
    }

    /// Returns the index of the row of `command`, or the free one where it would be.
    #[inline]
    fn row_index(&self, command: &'static Command) -> usize {
        let address = std::ptr::from_ref(command).addr();
        let mask = self.rows.len() - 1;
        let mut index = (address >> 4).wrapping_mul(0x9E37_79B9) >> 8 & mask;
        loop {
            match self.rows[index].command {
                Some(other) if !std::ptr::eq(other, command) => index = (index + 1) & mask,
                _ => return index,
            }
        }
    }
}

impl Default for CommandStats {
    fn default() -> CommandStats {
        CommandStats::new()
    }
}

impl CommandCounts {
    /// Returns these counts plus `other`.
    pub fn plus(self, other: CommandCounts) -> CommandCounts {
        self.combine(other, u64::wrapping_add)
    }

    /// Returns what was counted after `earlier`.
    pub fn since(self, earlier: CommandCounts) -> CommandCounts {
        self.combine(earlier, u64::wrapping_sub)
    }

    fn combine(self, other: CommandCounts, operation: fn(u64, u64) -> u64) -> CommandCounts {
        CommandCounts {
            calls: operation(self.calls, other.calls),
            failed: operation(self.failed, other.failed),
            rejected: operation(self.rejected, other.rejected),
            nanoseconds: operation(self.nanoseconds, other.nanoseconds),
        }
    }
}

/// Returns with how many arguments at most `command` is brief: with any where it looks at one key
/// or at the session in constant time, with the fewest where its time grows with them and no faster
/// than the logarithm of what the key holds; where it grows faster, the row says so. One that asks
/// for time of its own where it takes long is brief otherwise.
fn brief_arguments_max(command: &Command) -> usize {
    if command.asks_for_time {
        return usize::MAX;
    }
    let is_small = match command.handler {
        Handler::Read(_) | Handler::Write(_) => command.only_key().is_some(),
        Handler::Session(_) => command.is(Flags::FAST),
        Handler::Control(_) | Handler::Container => false,
    };
    match is_small && !command.is_timed_alone {
        true if command.complexity == "O(1)" => usize::MAX,
        true if command.is(Flags::FAST) => command.arity.count_min(),
        _ => 0,
    }
}

#[inline]
fn add(number: &AtomicU64, count: u64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_counted_in_its_own_place() {
        let command_stats = CommandStats::new();
        for (index, command) in command::rows().enumerate() {
            for _ in 0..=index {
                command_stats.count_calls(command_stats.index(command), 1, 0, false);
            }
        }
        let counted: BTreeMap<&str, u64> =
            command_stats.commands().map(|(name, counts)| (name, counts.calls)).collect();
        let expected: BTreeMap<&str, u64> =
            (1..).zip(command::rows()).map(|(count, command)| (command.name, count)).collect();
        assert_eq!(counted, expected);
    }

    #[test]
    fn times_are_kept_for_each_command() {
        let command_stats = CommandStats::new();
        let (get, set) = (command::lookup(b"get").unwrap(), command::lookup(b"set").unwrap());
        command_stats.count_calls(command_stats.index(get), 3, 100, true);
        command_stats.count_calls(command_stats.index(set), 1, 7, false);
        let times: BTreeMap<&str, u64> =
            command_stats.commands().map(|(name, counts)| (name, counts.nanoseconds)).collect();
        assert_eq!(times, BTreeMap::from([("get", 300), ("set", 7)]));
        let mut distributions = BTreeMap::new();
        command_stats.add_times(&mut distributions);
        assert_eq!(distributions.keys().collect::<Vec<_>>(), [&"get"]);
        assert_eq!((distributions["get"].total(), distributions["get"].percentile(50.0)), (3, 100));
        let bytes = Histogram::EMPTY_BYTES + Histogram::PART_BYTES;
        assert_eq!(command_stats.histogram_bytes(), bytes);
        command_stats.count_calls(command_stats.index(get), 1, 101, true);
        assert_eq!(command_stats.histogram_bytes(), bytes);
        command_stats.count_calls(command_stats.index(get), 1, 100_000, true);
        assert_eq!(command_stats.histogram_bytes(), bytes + Histogram::PART_BYTES);
    }

    #[test]
    fn brief_commands_are_those_of_one_key_that_do_little() {
        let command_stats = CommandStats::new();
        let of_any = ["get", "set", "incr", "ping", "rename", "renamenx", "move"]
            .map(|name| (name, usize::MAX));
        let of_few = [("hset", 4), ("sadd", 3), ("zadd", 4), ("lpop", 2)];
        let of_none = [
            "exists",
            "keys",
            "exec",
            "debug",
            "mset",
            "hgetall",
            "sort",
            "xautoclaim",
            "xsetid",
            "digest",
            "copy",
        ];
        for (name, most) in of_any.into_iter().chain(of_few).chain(of_none.map(|name| (name, 0))) {
            let command = command::lookup(name.as_bytes()).unwrap();
            let found = command_stats.brief_arguments_max(command_stats.index(command));
            assert_eq!(found, most, "{name}");
        }
    }

    #[test]
    fn errors_are_counted_by_their_code() {
        let command_stats = CommandStats::new();
        let get = command::lookup(b"get").unwrap();
        command_stats.count_failure(get, &CommandError::WrongType);
        command_stats.count_rejection(get, &CommandError::WrongArity(get));
        command_stats.count_error(b"ERR Protocol error: invalid bulk length");
        command_stats.count_error(b"BARE");
        let errors = [("BARE", 1), ("ERR", 2), ("WRONGTYPE", 1)];
        assert_eq!(command_stats.errors(), errors.map(|(code, count)| (code.to_owned(), count)));
        let (_, counts) = command_stats.commands().next().unwrap();
        assert_eq!((counts.calls, counts.failed, counts.rejected), (0, 1, 1));
    }
}
