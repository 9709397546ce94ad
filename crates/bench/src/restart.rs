//! How long a server takes from its start until its data are there, for two servers in one run:
//! from a file of the dataset, and from what a server keeps that writes a log.
//!
//! Each server makes its own files once, of the same keys, of which a part was written again behind
//! the log's snapshot. Then all starts of one round are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, bail, ensure};
use base::prng::Prng;
use resp::Value;
use serde_json::json;

use crate::accounting;
use crate::compare::{Spread, progress};
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;

/// Requests that travel together.
const BATCH: u64 = 512;
/// How long the writing of a file may take.
const FILE_WAIT_MAX: Duration = Duration::from_secs(300);
/// The most that Forebay may take, as a share of the other's time.
const SHARE_MAX: f64 = 0.7;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Restart {
    /// The server of interest.
    pub subject: ServerSpec,
    /// The one that it is compared with.
    pub other: ServerSpec,
    /// How many keys there are.
    pub keys: u64,
    /// The length of their values.
    pub value_bytes: usize,
    /// How many of them are written again behind the snapshot of the log.
    pub records: u64,
    /// How often each start is measured.
    pub rounds: usize,
    /// The bytes of values.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// A server with files to start from.
struct Start {
    title: String,
    spec: ServerSpec,
    seconds: Vec<f64>,
    cpu_seconds: Vec<f64>,
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Restart {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails, or does not have its keys again.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.rounds > 0 && self.records <= self.keys, "nothing can be measured so");
        let folder = Folder::new()?;
        let mut starts = Vec::new();
        for (spec, name) in [(&self.subject, "subject"), (&self.other, "other")] {
            let path = folder.0.join(name);
            progress(&format!("{}: writing {} keys", spec.name, self.keys));
            self.prepare(spec, &path)?;
            starts.push(Start::of(spec, &path, "log", "yes"));
            starts.push(Start::of(spec, &path, "RDB", "no"));
        }
        for round in 0..self.rounds {
            for start in &mut starts {
                progress(&format!("round {}: {}", round + 1, start.title));
                self.measure(start)?;
            }
        }
        progress("");
        print(&starts);
        let rows: Vec<serde_json::Value> = starts.iter().map(Start::record).collect();
        let record = json!({
            "servers": [self.subject.record(), self.other.record()],
            "keys": self.keys,
            "value_bytes": self.value_bytes,
            "records": self.records,
            "rounds": self.rounds,
            "seed": self.seed,
            "starts": rows,
        });
        record::keep(self.results.as_deref(), "restart", record)
    }

    /// Has `spec` make its files in `folder`.
    fn prepare(&self, spec: &ServerSpec, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        let spec = in_folder(spec, folder, "yes");
        let server = ServerProcess::start(&spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        let mut random = Prng::new(self.seed);
        write_keys(&mut wire, self.keys, self.value_bytes, &mut random)?;
        expect_status(wire.call(&[b"BGREWRITEAOF"])?)?;
        let until = Instant::now() + FILE_WAIT_MAX;
        loop {
            let names = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
            let [runs, waits] = accounting::info(&mut wire, "persistence", names)?;
            if runs == 0 && waits == 0 {
                break;
            }
            ensure!(Instant::now() < until, "{} writes its snapshot for too long", spec.name);
            thread::sleep(Duration::from_millis(50));
        }
        write_keys(&mut wire, self.records, self.value_bytes, &mut random)?;
        expect_status(wire.call(&[b"SAVE"])?)?;
        wire.queue(&[b"SHUTDOWN", b"NOSAVE"]);
        wire.send()?;
        // It ends the connection once its files are whole.
        ensure!(wire.receive().is_err(), "{} does not end", spec.name);
        server.stop();
        Ok(())
    }

    /// Starts the server once and waits until it has its keys.
    fn measure(&self, start: &mut Start) -> anyhow::Result<()> {
        let began = Instant::now();
        let server = ServerProcess::start(&start.spec)?;
        start.seconds.push(began.elapsed().as_secs_f64());
        start.cpu_seconds.push(processor_seconds(server.id())?);
        let mut wire = Wire::connect(&server.unix())?;
        let Value::Integer(keys) = wire.call(&[b"DBSIZE"])? else { bail!("DBSIZE: no integer") };
        ensure!(keys as u64 == self.keys, "{} has {keys} keys", start.title);
        server.stop();
        Ok(())
    }
}

impl Start {
    fn of(spec: &ServerSpec, folder: &Path, from: &str, keeps_log: &str) -> Start {
        let title = format!("{}, {from}", spec.name);
        let spec = in_folder(spec, folder, keeps_log);
        Start { title, spec, seconds: Vec::new(), cpu_seconds: Vec::new() }
    }

    fn record(&self) -> serde_json::Value {
        json!({ "start": self.title, "seconds": self.seconds, "cpu_seconds": self.cpu_seconds })
    }
}

impl Folder {
    fn new() -> anyhow::Result<Folder> {
        let path = env::temp_dir().join(format!("forebay-restart-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is in the folder of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns `spec` with its files in `folder`, and with a log where `keeps_log` says `yes`.
fn in_folder(spec: &ServerSpec, folder: &Path, keeps_log: &str) -> ServerSpec {
    let mut spec = spec.clone();
    let folder = folder.display().to_string();
    // It writes no snapshot by itself while it is measured.
    let options =
        ["--dir", &folder, "--appendonly", keeps_log, "--auto-aof-rewrite-percentage", "0"];
    spec.options.extend(options.map(str::to_owned));
    spec
}

/// Sets the first `count` keys of 16 bytes to values of `value_bytes` that do not compress.
///
/// # Errors
/// When the server at `wire` refuses one.
pub(crate) fn write_keys(
    wire: &mut Wire,
    count: u64,
    value_bytes: usize,
    random: &mut Prng,
) -> anyhow::Result<()> {
    let mut value = vec![0; value_bytes];
    for first in (0..count).step_by(BATCH as usize) {
        let last = count.min(first + BATCH);
        for number in first..last {
            random.fill(&mut value);
            wire.queue(&[b"SET", format!("key:{number:012}").as_bytes(), &value]);
        }
        wire.send()?;
        for _ in first..last {
            expect_status(wire.receive()?)?;
        }
    }
    Ok(())
}

/// Checks that a reply is a status.
///
/// # Errors
/// What it is else.
pub(crate) fn expect_status(reply: Value) -> anyhow::Result<()> {
    match reply {
        Value::Simple(_) => Ok(()),
        other => bail!("no status: {other:?}"),
    }
}

/// Returns what process `id` has computed since its start, the threads that have ended included.
fn processor_seconds(id: u32) -> anyhow::Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let (_, rest) = stat.rsplit_once(") ").context("no state of the process")?;
    // The state is the third field; time as a user and in the system are the 14th and the next.
    let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS_PER_SECOND)
}

/// Prints each start, and what the subject's from its log takes of the other's.
fn print(starts: &[Start]) {
    println!("seconds from the start until the data are there\n");
    println!("{:>24} {:>8} {:>8} {:>8} {:>8}", "", "median", "min", "max", "CPU");
    for start in starts {
        let Spread { min, median, max } = Spread::new(start.seconds.iter().copied());
        let cpu = Spread::new(start.cpu_seconds.iter().copied()).median;
        println!("{:>24} {median:>8.2} {min:>8.2} {max:>8.2} {cpu:>8.2}", start.title);
    }
    println!();
    let [subject, others @ ..] = starts else { return };
    for other in others.iter().filter(|other| other.spec.name != subject.spec.name) {
        let pairs = subject.seconds.iter().zip(&other.seconds);
        let ratio = Spread::new(pairs.map(|(subject, other)| subject / other));
        let verdict = if ratio.median <= SHARE_MAX { "" } else { "  NOT MET" };
        println!(
            "{} in {:.2} of the time of {} ({:.2} to {:.2}; at most {SHARE_MAX}){verdict}",
            subject.title, ratio.median, other.title, ratio.min, ratio.max
        );
    }
}
