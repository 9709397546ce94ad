//! Compares two servers: starts both, loads the same keys, runs each row on one and on the other
//! in turn, and reports the ratios of the pairs.
//!
//! Pairs, because a machine's speed drifts by more than the difference to be measured: the two runs
//! of a pair are seconds apart. The order within a pair alternates, so that neither side always
//! runs on a machine that the other has warmed.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use resp::Value as Reply;
use serde_json::{Value, json};

use crate::accounting;
use crate::key_distribution::KeyDistribution;
use crate::load::{Load, Report};
use crate::recipes::{COLLECTIONS, FILLS, FIXTURES, STREAMS};
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::tables::{Bound, DataSet, Row, Table, Transport};
use crate::target::Target;
use crate::wire::Wire;
use crate::workload::{CyclePosition, Operation, Workload, Writer};

/// Requests in flight while keys are loaded.
const PRELOAD_PIPELINE: usize = 64;
/// How long an idle server is watched.
const IDLE_WATCH: Duration = Duration::from_secs(3);

/// A comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Which rows.
    pub table: Table,
    /// Only rows whose name contains this.
    pub filter: Option<String>,
    /// The server of interest: a ratio above 1 speaks for it.
    pub subject: ServerSpec,
    /// What it is compared with.
    pub other: ServerSpec,
    /// Sockets, where the table leaves the choice.
    pub transports: Vec<Transport>,
    /// The keys.
    pub data: DataSet,
    /// Connections of each row but those of single-connection tables.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Runs of each row on each server.
    pub pairs: usize,
    /// How long one run takes.
    pub run_time: Duration,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// What a server's INFO says of its log.
#[derive(Clone, Copy, Debug)]
struct LogCounts {
    syncs: u64,
    frames: u64,
    bytes: u64,
    changes: u64,
}

impl LogCounts {
    fn of(side: &Side) -> anyhow::Result<LogCounts> {
        let mut wire = Wire::connect(&side.server.unix())?;
        let names =
            ["log_fsyncs", "log_frames", "log_written_bytes", "rdb_changes_since_last_save"];
        let [syncs, frames, bytes, changes] = accounting::info(&mut wire, "persistence", names)?;
        Ok(LogCounts { syncs, frames, bytes, changes })
    }
}

/// What one run of a row came to.
#[derive(Clone, Copy, Debug)]
struct Sample {
    operations_per_second: f64,
    latency_us: [f64; 3],
    cpu_ns_per_operation: f64,
    /// Share of the elapsed time that the generator's threads were busy.
    client_share: f64,
    wrong: u64,
    missing: u64,
    /// What the writers beside did.
    writes_per_second: f64,
}

const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// A running server and its samples' name.
struct Side {
    name: String,
    /// Rows of lanes go through lanes; else over the unix socket.
    has_lanes: bool,
    server: ServerProcess,
}

impl Comparison {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails, or any reply was wrong.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.pairs > 0, "a comparison has at least one pair");
        let mut rows = self.table.rows(&self.transports, self.connections);
        rows.retain(|row| self.filter.as_ref().is_none_or(|text| row.name().contains(text)));
        ensure!(!rows.is_empty(), "no row of '{}' has that name", self.table.name());
        let sides =
            [self.start(&self.subject, true, &rows)?, self.start(&self.other, false, &rows)?];
        let idle_cpu = idle_cpu(&sides)?;
        self.print_head(&sides, idle_cpu, rows.iter().map(|row| row.connections).max());
        let (mut wrong, mut results, mut skipped) = (0, Vec::new(), Vec::new());
        let mut standings: Vec<Standing> = Vec::new();
        for row in &rows {
            if let Some(refusal) = self.refusal(row, &sides)? {
                progress("");
                println!("{:26} not measured: {refusal}", row.name());
                skipped.push(json!({ "row": row.name(), "refusal": refusal }));
                continue;
            }
            let before = self.log_counts(row, &sides[0])?;
            let (subject, other) = self.run_row(row, &sides)?;
            wrong += subject.iter().chain(&other).map(|sample| sample.wrong).sum::<u64>();
            let ratios = Ratios::new(&subject, &other);
            print_row(row, &sides, &subject, &other, &ratios);
            self.print_log(before, &sides[0])?;
            results.push(row_record(row, &subject, &other, &ratios));
            if let Some(bound) = row.bound {
                Standing::of(&mut standings, bound).add(row, &ratios);
            }
        }
        standings.iter().for_each(Standing::print);
        let mut record = self.record(idle_cpu, &results);
        record["standings"] = standings.iter().map(Standing::record).collect();
        record["not_measured"] = skipped.into();
        record::keep(self.results.as_deref(), self.table.name(), record)?;
        ensure!(wrong == 0, "{wrong} replies were wrong");
        Ok(())
    }

    /// Starts a server with the keys of `rows`.
    fn start(&self, spec: &ServerSpec, has_lanes: bool, rows: &[Row]) -> anyhow::Result<Side> {
        progress(&format!("starting {} and loading {} keys", spec.name, self.data.key_count));
        let server = ServerProcess::start(spec)?;
        preload(&server.unix(), &self.data, 0, self.data.key_count)
            .with_context(|| format!("loading {}", spec.name))?;
        if self.table == Table::Commands {
            let mut wire = Wire::connect(&server.unix())?;
            for request in FIXTURES.iter().flat_map(|fixture| fixture.requests()) {
                wire.call(&request.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            }
        }
        if rows.iter().any(|row| needs_fills(row.operation)) {
            fill(&server.unix(), &self.data)
                .with_context(|| format!("filling collections of {}", spec.name))?;
        }
        Ok(Side { name: spec.name.clone(), has_lanes, server })
    }

    /// Returns what a server says that does not have the row's command.
    fn refusal(&self, row: &Row, sides: &[Side; 2]) -> anyhow::Result<Option<String>> {
        let Operation::Recipe(recipe) = row.operation else { return Ok(None) };
        let mut writer = Writer::new(&row.workload(&self.data), 0, 0);
        for side in sides {
            let (mut wire, mut position) =
                (Wire::connect(&side.server.unix())?, CyclePosition::default());
            for _ in recipe.steps {
                wire.queue_with(|out| {
                    writer.append(&mut position, out);
                });
            }
            wire.send()?;
            for _ in recipe.steps {
                if let Reply::Error(text) = wire.receive()? {
                    return Ok(Some(format!("{}: {}", side.name, String::from_utf8_lossy(&text))));
                }
            }
        }
        Ok(None)
    }

    /// Returns what the subject's log came to before a row that is about it.
    fn log_counts(&self, row: &Row, subject: &Side) -> anyhow::Result<Option<LogCounts>> {
        row.sync_policy.map(|_| LogCounts::of(subject)).transpose()
    }

    /// Prints what the row's runs came to in the subject's log, those before the pairs included.
    fn print_log(&self, before: Option<LogCounts>, subject: &Side) -> anyhow::Result<()> {
        let Some(before) = before else { return Ok(()) };
        let after = LogCounts::of(subject)?;
        let seconds = self.run_time.as_secs_f64() * (self.pairs + 1) as f64;
        let changes = (after.changes - before.changes).max(1) as f64;
        println!(
            "{:26} {:14} {:.0} fsyncs/s, {:.1} changes and {:.1} B for each frame, {:.1} B of log \
             for each change",
            "",
            subject.name,
            (after.syncs - before.syncs) as f64 / seconds,
            changes / (after.frames - before.frames).max(1) as f64,
            (after.bytes - before.bytes) as f64 / (after.frames - before.frames).max(1) as f64,
            (after.bytes - before.bytes) as f64 / changes,
        );
        Ok(())
    }

    /// Returns the samples of the subject and of the other.
    fn run_row(&self, row: &Row, sides: &[Side; 2]) -> anyhow::Result<(Vec<Sample>, Vec<Sample>)> {
        progress(&format!("{}: warming up", row.name()));
        for side in sides {
            if let Some(policy) = row.sync_policy {
                let request = [b"CONFIG".as_slice(), b"SET", b"appendfsync", policy.as_bytes()];
                Wire::connect(&side.server.unix())?.call(&request)?;
            }
            // Not counted: memory that a server touches for the first time is slow once.
            self.sample(row, side, u64::MAX)?;
        }
        let mut samples = [Vec::new(), Vec::new()];
        for pair in 0..self.pairs {
            let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                progress(&format!("{}: pair {} of {}", row.name(), pair + 1, self.pairs));
                let sample = self.sample(row, &sides[side], pair as u64);
                let context = || format!("{} on {}", row.name(), sides[side].name);
                samples[side].push(sample.with_context(context)?);
            }
        }
        let [subject, other] = samples;
        Ok((subject, other))
    }

    fn sample(&self, row: &Row, side: &Side, seed: u64) -> anyhow::Result<Sample> {
        let server = &side.server;
        let target = match row.transport {
            Transport::Lane if side.has_lanes => server.shm(),
            Transport::Unix | Transport::Lane => server.unix(),
            Transport::Tcp => server.tcp(),
        };
        let load = Load {
            target,
            password: None,
            workload: row.workload(&self.data),
            connections: row.connections,
            pipeline: row.pipeline,
            threads: self.threads.min(row.connections),
            requests_max: None,
            duration_max: Some(self.run_time),
            rate: None,
            seed,
        };
        let writers = Load {
            workload: Row { operation: Operation::Set, ..*row }.workload(&self.data),
            connections: row.writers,
            threads: 1,
            seed: !seed,
            ..load.clone()
        };
        let writers = (row.writers > 0).then(|| writers.connect()).transpose()?;
        let load = load.connect()?;
        let cpu_before = accounting::cpu_time(server.id())?;
        let (report, beside) = std::thread::scope(|scope| {
            let beside = writers.map(|writers| scope.spawn(|| writers.run()));
            let report = load.run();
            let beside = beside.map(|thread| thread.join().expect("a load does not panic"));
            anyhow::Ok((report?, beside.transpose()?))
        })?;
        let cpu = accounting::cpu_time(server.id())? - cpu_before;
        ensure!(report.operations > 0, "no reply came");
        if let Some(error) = &report.first_error {
            eprintln!("{}: {error}", row.name());
        }
        let mut sample = Sample::new(&report, cpu);
        if let Some(beside) = beside {
            sample.wrong += beside.wrong;
            sample.writes_per_second = beside.operations_per_second();
            let operations = report.operations + beside.operations;
            sample.cpu_ns_per_operation = cpu.as_nanos() as f64 / operations as f64;
        }
        Ok(sample)
    }

    fn print_head(&self, sides: &[Side; 2], idle_cpu: [f64; 2], connections: Option<usize>) {
        progress("");
        let [subject, other] = [&sides[0].name, &sides[1].name];
        println!("{subject}: {}", self.subject.version());
        println!("{other}: {}", self.other.version());
        println!(
            "{} keys of {} B, values of {} B, {} pairs of {:.1} s, {} connections, {} thread(s)",
            self.data.key_count,
            self.data.key_bytes,
            self.data.value_bytes,
            self.pairs,
            self.run_time.as_secs_f64(),
            connections.unwrap_or(0),
            self.threads,
        );
        println!(
            "idle, processor time per second: {subject} {:.3} ms, {other} {:.3} ms",
            idle_cpu[0], idle_cpu[1]
        );
        println!("cpu = server, user and system, per operation; cpu ratio = {other} / {subject},");
        println!("ops ratio = {subject} / {other}: above 1, either speaks for {subject}\n");
        println!(
            "{:26} {:14} {:>10} {:>9} {:>9} {:>9} {:>10}   {:>22} {:>9}",
            "row",
            "server",
            "ops/s",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "cpu ns/op",
            "cpu ratio min/med/max",
            "ops ratio",
        );
    }

    fn record(&self, idle_cpu: [f64; 2], rows: &[Value]) -> Value {
        let server = |spec: &ServerSpec, idle: f64| {
            let mut record = spec.record();
            record["idle_cpu_ms_per_s"] = idle.into();
            record
        };
        json!({
            "subject": server(&self.subject, idle_cpu[0]),
            "other": server(&self.other, idle_cpu[1]),
            "key_count": self.data.key_count,
            "key_bytes": self.data.key_bytes,
            "value_bytes": self.data.value_bytes,
            "distribution": format!("{:?}", self.data.distribution),
            "pairs": self.pairs,
            "run_s": self.run_time.as_secs_f64(),
            "generator_threads": self.threads,
            "rows": rows,
        })
    }
}

/// Sets keys `from..to` of `data` once each.
///
/// # Errors
/// When the server refuses one.
pub fn preload(target: &Target, data: &DataSet, from: u64, to: u64) -> anyhow::Result<()> {
    send_for_each(target, Operation::Set, data, from, to)
}

/// Returns whether the operation is on collections that [`fill`] makes.
pub fn needs_fills(operation: Operation) -> bool {
    let is_among = |recipe| COLLECTIONS.iter().chain(STREAMS).any(|one| std::ptr::eq(one, recipe));
    matches!(operation, Operation::Recipe(recipe) if is_among(recipe))
}

/// Makes the collections that rows find, one of each kind for each key of `data`.
///
/// # Errors
/// When the server refuses one.
pub fn fill(target: &Target, data: &DataSet) -> anyhow::Result<()> {
    let mut fills = FILLS.iter().map(Operation::Recipe);
    fills.try_for_each(|operation| send_for_each(target, operation, data, 0, data.key_count))
}

/// Sends the one request of `operation` for the keys `from..to` of `data`, once each.
fn send_for_each(
    target: &Target,
    operation: Operation,
    data: &DataSet,
    from: u64,
    to: u64,
) -> anyhow::Result<()> {
    const CHUNK: u64 = 250_000;
    let mut first = from;
    while first < to {
        let count = CHUNK.min(to - first);
        let mut wire = Wire::connect(target)?;
        let workload = Workload {
            operation,
            key_count: to,
            key_bytes: data.key_bytes,
            value_bytes: data.value_bytes,
            distribution: KeyDistribution::Sequential,
        };
        workload.check()?;
        let mut writer = Writer::new(&workload, first, 0);
        let mut left = count;
        while left > 0 {
            let batch = left.min(PRELOAD_PIPELINE as u64);
            for _ in 0..batch {
                wire.queue_with(|out| {
                    writer.append(&mut CyclePosition::default(), out);
                });
            }
            wire.send()?;
            for _ in 0..batch {
                let reply = wire.receive()?;
                ensure!(!matches!(reply, Reply::Error(_)), "{operation} replied {reply:?}");
            }
            left -= batch;
        }
        first += count;
        progress(&format!("{operation}: loaded {first} of {to}"));
    }
    Ok(())
}

/// Shows `text` in place of the last progress, on a terminal; an empty text removes it.
pub fn progress(text: &str) {
    let mut output = std::io::stderr();
    if output.is_terminal() {
        // Progress that cannot be shown is not worth failing for.
        let _ = write!(output, "\r\x1b[K{text}");
        let _ = output.flush();
    }
}

/// Returns the milliseconds of processor time that each server uses per second of idleness.
fn idle_cpu(sides: &[Side; 2]) -> anyhow::Result<[f64; 2]> {
    progress("watching the idle servers");
    let cpu = |side: &Side| accounting::cpu_time(side.server.id());
    let before = [cpu(&sides[0])?, cpu(&sides[1])?];
    std::thread::sleep(IDLE_WATCH);
    let used = |index: usize| -> anyhow::Result<f64> {
        let used = cpu(&sides[index])? - before[index];
        Ok(used.as_secs_f64() * 1000.0 / IDLE_WATCH.as_secs_f64())
    };
    Ok([used(0)?, used(1)?])
}

impl Sample {
    fn new(report: &Report, cpu: Duration) -> Sample {
        Sample {
            operations_per_second: report.operations_per_second(),
            latency_us: PERCENTILES.map(|percent| report.latency_us(percent)),
            cpu_ns_per_operation: cpu.as_nanos() as f64 / report.operations as f64,
            client_share: report.client_cpu.as_secs_f64() / report.elapsed.as_secs_f64().max(1e-9),
            wrong: report.wrong,
            missing: report.missing,
            writes_per_second: 0.0,
        }
    }
}

/// Smallest, middle and largest of a set of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of `numbers`.
    ///
    /// # Panics
    /// When there is none.
    pub fn new(numbers: impl Iterator<Item = f64>) -> Spread {
        let mut numbers: Vec<f64> = numbers.collect();
        assert!(!numbers.is_empty(), "a spread is of at least one number");
        numbers.sort_by(f64::total_cmp);
        let middle = numbers.len() / 2;
        let median = if numbers.len() % 2 == 1 {
            numbers[middle]
        } else {
            (numbers[middle - 1] + numbers[middle]) / 2.0
        };
        Spread { min: numbers[0], median, max: numbers[numbers.len() - 1] }
    }

    /// Returns it for a result file.
    pub fn record(&self) -> Value {
        json!({ "min": self.min, "median": self.median, "max": self.max })
    }
}

/// Ratios of the pairs of one row.
struct Ratios {
    /// The other's processor time per operation by the subject's.
    cpu: Spread,
    /// The subject's operations per second by the other's.
    operations: Spread,
}

impl Ratios {
    fn new(subject: &[Sample], other: &[Sample]) -> Ratios {
        let pairs = || subject.iter().zip(other);
        Ratios {
            cpu: Spread::new(pairs().map(|(a, b)| b.cpu_ns_per_operation / a.cpu_ns_per_operation)),
            operations: Spread::new(
                pairs().map(|(a, b)| a.operations_per_second / b.operations_per_second),
            ),
        }
    }
}

/// How the rows of one bound stand to it.
struct Standing {
    bound: &'static Bound,
    /// Name, CPU ratio and ratio of operations of each row, medians.
    rows: Vec<(String, f64, f64)>,
}

impl Standing {
    /// Returns the one of `bound`, new if there is none.
    fn of<'a>(standings: &'a mut Vec<Standing>, bound: &'static Bound) -> &'a mut Standing {
        let known = standings.iter().position(|standing| standing.bound == bound);
        let index = known.unwrap_or(standings.len());
        if known.is_none() {
            standings.push(Standing { bound, rows: Vec::new() });
        }
        &mut standings[index]
    }

    fn add(&mut self, row: &Row, ratios: &Ratios) {
        self.rows.push((row.name(), ratios.cpu.median, ratios.operations.median));
    }

    /// Returns the geometric means of the CPU ratios and of those of operations.
    fn means(&self) -> [f64; 2] {
        let count = self.rows.len() as f64;
        let mean = |logarithms: f64| (logarithms / count).exp();
        [
            mean(self.rows.iter().map(|(_, cpu, _)| cpu.ln()).sum()),
            mean(self.rows.iter().map(|(_, _, operations)| operations.ln()).sum()),
        ]
    }

    fn below(&self) -> impl Iterator<Item = &(String, f64, f64)> {
        self.rows.iter().filter(|(_, cpu, _)| *cpu < self.bound.least())
    }

    fn print(&self) {
        let ([cpu, operations], bound) = (self.means(), self.bound);
        println!(
            "\n{}: {} rows, geometric mean of cpu ratios {cpu:.2} (bound {:.2}), of ops ratios \
             {operations:.2}",
            bound.name,
            self.rows.len(),
            bound.mean(),
        );
        println!("{} rows below {:.2}", self.below().count(), bound.least());
        for (name, cpu, operations) in self.below() {
            println!("  {name:30} cpu {cpu:.2}, ops {operations:.2}");
        }
    }

    fn record(&self) -> Value {
        let [cpu, operations] = self.means();
        json!({
            "bound": self.bound.name,
            "least": self.bound.least(),
            "least_mean": self.bound.mean(),
            "rows": self.rows.len(),
            "cpu_ratio_geometric_mean": cpu,
            "operations_ratio_geometric_mean": operations,
            "below": self.below().map(|(name, _, _)| name).collect::<Vec<_>>(),
        })
    }
}

fn median(samples: &[Sample], number: impl Fn(&Sample) -> f64) -> f64 {
    Spread::new(samples.iter().map(number)).median
}

fn print_row(row: &Row, sides: &[Side; 2], subject: &[Sample], other: &[Sample], ratios: &Ratios) {
    progress("");
    for (index, samples) in [subject, other].into_iter().enumerate() {
        let latency = |index: usize| median(samples, |sample| sample.latency_us[index]);
        print!(
            "{:26} {:14} {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>10.0}",
            if index == 0 { row.name() } else { String::new() },
            sides[index].name,
            median(samples, |sample| sample.operations_per_second),
            latency(0),
            latency(1),
            latency(2),
            median(samples, |sample| sample.cpu_ns_per_operation),
        );
        if index == 1 {
            let cpu = ratios.cpu;
            let text = format!("{:.2}/{:.2}/{:.2}", cpu.min, cpu.median, cpu.max);
            print!("   {text:>22} {:>9.2}", ratios.operations.median);
        }
        println!();
        if row.writers > 0 {
            let writes = median(samples, |sample| sample.writes_per_second);
            println!("{:26} {:14} {writes:>10.0} SETs/s beside", "", "");
        }
        if row.batch > 1 {
            let ns =
                1e9 * row.batch as f64 / median(samples, |sample| sample.operations_per_second);
            println!("{:26} {:14} {ns:>10.0} ns per batch of {}", "", "", row.batch);
        }
    }
}

fn row_record(row: &Row, subject: &[Sample], other: &[Sample], ratios: &Ratios) -> Value {
    let side = |samples: &[Sample]| {
        let spread =
            |number: &dyn Fn(&Sample) -> f64| Spread::new(samples.iter().map(number)).record();
        json!({
            "operations_per_second": spread(&|sample| sample.operations_per_second),
            "p50_us": spread(&|sample| sample.latency_us[0]),
            "p99_us": spread(&|sample| sample.latency_us[1]),
            "p999_us": spread(&|sample| sample.latency_us[2]),
            "cpu_ns_per_operation": spread(&|sample| sample.cpu_ns_per_operation),
            "ns_per_batch":
                spread(&|sample| 1e9 * row.batch as f64 / sample.operations_per_second),
            "generator_busy_share": spread(&|sample| sample.client_share),
            "wrong": samples.iter().map(|sample| sample.wrong).sum::<u64>(),
            "missing": samples.iter().map(|sample| sample.missing).sum::<u64>(),
            "writes_per_second_beside": spread(&|sample| sample.writes_per_second),
        })
    };
    json!({
        "row": row.name(),
        "pipeline": row.pipeline,
        "connections": row.connections,
        "writers": row.writers,
        "transport": row.transport.name(),
        "batch": row.batch,
        "subject": side(subject),
        "other": side(other),
        "cpu_ratio": ratios.cpu.record(),
        "operations_ratio": ratios.operations.record(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_the_middle() {
        let spread = |numbers: &[f64]| Spread::new(numbers.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn standing_tells_the_mean_and_the_rows_below_the_bound() {
        let rows = [("a", 2.0, 1.0), ("b", 0.5, 4.0)]
            .map(|(name, cpu, operations): (&str, _, _)| (name.to_owned(), cpu, operations));
        let standing = Standing { bound: &crate::tables::LARGE, rows: rows.into() };
        assert_eq!(standing.means(), [1.0, 2.0]);
        let below: Vec<&str> = standing.below().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(below, ["b"]);
        assert_eq!(standing.record()["below"], json!(["b"]));
    }

    #[test]
    fn ratios_are_those_of_the_pairs() {
        let sample = |cpu_ns_per_operation, operations_per_second| Sample {
            operations_per_second,
            latency_us: [0.0; 3],
            cpu_ns_per_operation,
            client_share: 0.0,
            wrong: 0,
            missing: 0,
            writes_per_second: 0.0,
        };
        let subject = [sample(1.0, 30.0), sample(2.0, 10.0)];
        let other = [sample(3.0, 10.0), sample(4.0, 10.0)];
        let ratios = Ratios::new(&subject, &other);
        assert_eq!(ratios.cpu, Spread { min: 2.0, median: 2.5, max: 3.0 });
        assert_eq!(ratios.operations, Spread { min: 1.0, median: 2.0, max: 3.0 });
    }
}
