//! What a snapshot in the background costs whoever writes meanwhile: latency, time and memory of
//! BGSAVE under a load of writes, for two servers in one run.
//!
//! The load is an open loop, so that a request which a stall keeps from being sent counts with the
//! time that it waited. It is run in slices, as long as the snapshot is written, and as long again
//! without one.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use base::prng::Prng;
use hdrhistogram::Histogram;
use serde_json::json;

use crate::accounting;
use crate::compare::{Spread, progress};
use crate::key_distribution::KeyDistribution;
use crate::load::Load;
use crate::record;
use crate::restart::{expect_status, write_keys};
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;
use crate::workload::{Operation, Workload};

/// How long a slice of the load is.
const SLICE: Duration = Duration::from_millis(250);
/// How often the server is asked whether it still writes.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How long the writing of a file may take.
const FILE_WAIT_MAX: Duration = Duration::from_secs(300);
/// Connections of the load.
const CONNECTIONS: usize = 10;
/// Requests that travel together.
const PIPELINE: usize = 16;
/// By how much p99.9 may be higher while a snapshot is written, in milliseconds.
const STALL_MS_MAX: f64 = 2.0;
/// The most time that Forebay may take, as a share of the other's.
const SHARE_MAX: f64 = 1.3;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The server of interest.
    pub subject: ServerSpec,
    /// The one that it is compared with.
    pub other: ServerSpec,
    /// How many keys there are.
    pub keys: u64,
    /// The length of their values.
    pub value_bytes: usize,
    /// Writes per second.
    pub rate: f64,
    /// How many snapshots each server writes.
    pub rounds: usize,
    /// The bytes of values, and which keys are written.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// A server and what was measured of it, a number a round.
struct Run {
    name: String,
    server: ServerProcess,
    /// Seconds from BGSAVE until the file is there.
    seconds: Vec<f64>,
    /// Milliseconds that 99.9 % of the requests do not exceed, without and with a snapshot.
    quiet_ms: Vec<f64>,
    saving_ms: Vec<f64>,
    /// The most resident memory before the first snapshot, and the most in all, with what a forked
    /// process had copied.
    bytes_before: u64,
    bytes_max: u64,
}

impl Snapshot {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails, or answers a write with an error.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.rounds > 0, "nothing can be measured so");
        let mut runs = Vec::new();
        for spec in [&self.subject, &self.other] {
            progress(&format!("{}: writing {} keys", spec.name, self.keys));
            runs.push(self.start(spec)?);
        }
        for round in 0..self.rounds {
            for run in &mut runs {
                progress(&format!("round {}: {}", round + 1, run.name));
                self.measure(run, round as u64)?;
            }
        }
        progress("");
        print(&runs);
        let rows: Vec<serde_json::Value> = runs.iter().map(Run::record).collect();
        let record = json!({
            "servers": [self.subject.record(), self.other.record()],
            "keys": self.keys,
            "value_bytes": self.value_bytes,
            "rate": self.rate,
            "rounds": self.rounds,
            "seed": self.seed,
            "runs": rows,
        });
        runs.into_iter().for_each(|run| run.server.stop());
        record::keep(self.results.as_deref(), "snapshot", record)
    }

    fn start(&self, spec: &ServerSpec) -> anyhow::Result<Run> {
        let server = ServerProcess::start(spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        write_keys(&mut wire, self.keys, self.value_bytes, &mut Prng::new(self.seed))?;
        let bytes = accounting::peak_resident(server.id())?;
        Ok(Run {
            name: spec.name.clone(),
            server,
            seconds: Vec::new(),
            quiet_ms: Vec::new(),
            saving_ms: Vec::new(),
            bytes_before: bytes,
            bytes_max: bytes,
        })
    }

    fn measure(&self, run: &mut Run, round: u64) -> anyhow::Result<()> {
        let mut wire = Wire::connect(&run.server.unix())?;
        expect_status(wire.call(&[b"BGSAVE"])?)?;
        let began = Instant::now();
        let (saving, seconds) = thread::scope(|scope| {
            let saved = scope.spawn(|| wait_for_file(&mut wire, began));
            let latencies = self.load(run, round, || saved.is_finished())?;
            let seconds = saved.join().expect("who waits does not panic")?;
            anyhow::Ok((latencies, seconds))
        })?;
        let [copied] = accounting::info(&mut wire, "persistence", ["rdb_last_cow_size"])?;
        run.bytes_max = run.bytes_max.max(accounting::peak_resident(run.server.id())? + copied);
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let quiet = self.load(run, !round, || Instant::now() >= until)?;
        run.seconds.push(seconds);
        run.saving_ms.push(ms_of(&saving));
        run.quiet_ms.push(ms_of(&quiet));
        Ok(())
    }

    /// Writes to the server in slices, one at least, until `is_over`; returns the latencies.
    fn load(
        &self,
        run: &Run,
        seed: u64,
        is_over: impl Fn() -> bool,
    ) -> anyhow::Result<Histogram<u64>> {
        let mut latencies: Option<Histogram<u64>> = None;
        let mut slice = 0;
        while slice == 0 || !is_over() {
            let load = Load {
                target: run.server.unix(),
                password: None,
                workload: Workload {
                    operation: Operation::Set,
                    key_count: self.keys,
                    key_bytes: 16,
                    value_bytes: self.value_bytes,
                    distribution: KeyDistribution::Uniform,
                },
                connections: CONNECTIONS,
                pipeline: PIPELINE,
                threads: 1,
                requests_max: None,
                duration_max: Some(SLICE),
                rate: Some(self.rate),
                seed: self.seed ^ seed.rotate_left(32) ^ slice,
            };
            let report = load.connect()?.run()?;
            ensure!(report.wrong == 0, "{}: {:?}", run.name, report.first_error);
            match &mut latencies {
                Some(sum) => sum.add(&report.latencies)?,
                None => latencies = Some(report.latencies),
            }
            slice += 1;
        }
        Ok(latencies.expect("there was a slice"))
    }
}

impl Run {
    fn record(&self) -> serde_json::Value {
        json!({
            "server": self.name,
            "seconds": self.seconds,
            "p99.9_ms_without": self.quiet_ms,
            "p99.9_ms_with": self.saving_ms,
            "resident_bytes_before": self.bytes_before,
            "resident_bytes_max": self.bytes_max,
        })
    }
}

/// Waits until the server at `wire` has written its file; returns the seconds since `began`.
fn wait_for_file(wire: &mut Wire, began: Instant) -> anyhow::Result<f64> {
    loop {
        let [is_writing] = accounting::info(wire, "persistence", ["rdb_bgsave_in_progress"])?;
        if is_writing == 0 {
            return Ok(began.elapsed().as_secs_f64());
        }
        ensure!(began.elapsed() < FILE_WAIT_MAX, "a snapshot is written for too long");
        thread::sleep(LOOK_INTERVAL);
    }
}

fn ms_of(latencies: &Histogram<u64>) -> f64 {
    latencies.value_at_quantile(0.999) as f64 / 1e6
}

/// Prints each server's row, and what is wanted of the first beside the other.
fn print(runs: &[Run]) {
    let median = |numbers: &[f64]| Spread::new(numbers.iter().copied()).median;
    println!("BGSAVE under writes; medians of the rounds\n");
    println!(
        "{:>16} {:>9} {:>16} {:>16} {:>14} {:>12}",
        "", "seconds", "p99.9 without ms", "p99.9 with ms", "MiB before", "MiB at most"
    );
    for run in runs {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{:>16} {:>9.2} {:>16.2} {:>16.2} {:>14.0} {:>12.0}",
            run.name,
            median(&run.seconds),
            median(&run.quiet_ms),
            median(&run.saving_ms),
            mib(run.bytes_before),
            mib(run.bytes_max),
        );
    }
    println!();
    let [subject, other] = runs else { return };
    let verdict = |is_met: bool| if is_met { "" } else { "  NOT MET" };
    let stalls =
        subject.saving_ms.iter().zip(&subject.quiet_ms).map(|(with, without)| with - without);
    let stall = Spread::new(stalls).median;
    println!(
        "{}: p99.9 is {stall:.2} ms higher with a snapshot (at most {STALL_MS_MAX}){}",
        subject.name,
        verdict(stall <= STALL_MS_MAX)
    );
    let shares = subject.seconds.iter().zip(&other.seconds).map(|(ours, theirs)| ours / theirs);
    let share = Spread::new(shares).median;
    println!(
        "{} in {share:.2} of the time of {} (at most {SHARE_MAX}){}",
        subject.name,
        other.name,
        verdict(share <= SHARE_MAX)
    );
}
