//! Runs the Go program `bench/peers/go-pipeline` on Forebay, on another server and on miniredis in
//! one run: batches of SET and GET as a program with redigo sends them, pipelined and one by one.
//!
//! The runs of one round are compared. The program measures and prints; this file starts its
//! servers and computes ratios of its numbers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::compare::Spread;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::target::{Address, Target};

/// Where the program's source is, from the root of the repository.
pub const SOURCE: &str = "bench/peers/go-pipeline";
/// What the program calls the server within its own process.
const IN_PROCESS: &str = "miniredis";
const TRANSPORTS: [&str; 2] = ["unix", "tcp"];

/// The measurement.
#[derive(Clone, Debug)]
pub struct Pipelines {
    /// The server of interest: a ratio above 1 speaks for it.
    pub subject: ServerSpec,
    /// The server that it is compared with, beside miniredis.
    pub other: ServerSpec,
    /// The folder of the program's source.
    pub source: PathBuf,
    /// Times that each row is measured on each server.
    pub rounds: usize,
    /// How long one measurement takes, as Go writes times, or its batches, as in `100x`.
    pub bench_time: String,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// One measurement of the program.
#[derive(Clone, Copy, Debug)]
struct Sample {
    ns_per_batch: f64,
    bytes: f64,
    allocations: f64,
}

/// What is done: SET or GET, how many in a batch, and how it is sent.
type Row = (String, u64, String);
/// The samples of each row and target, in the order of their rounds.
type Samples = BTreeMap<Row, BTreeMap<String, Vec<Sample>>>;

impl Pipelines {
    /// Builds the program, starts the servers, runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When Go is not there, a server fails, or any reply was wrong.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.rounds > 0, "a measurement has at least one round");
        let folder = Scratch::new()?;
        let program = self.build(&folder.0)?;
        let sides = [self.start(&self.subject)?, self.start(&self.other)?];
        let numbers = folder.0.join("numbers.json");
        let mut command = Command::new(&program);
        command.args(["-rounds", &self.rounds.to_string(), "-benchtime", &self.bench_time]);
        for (spec, server) in [&self.subject, &self.other].into_iter().zip(&sides) {
            for (transport, target) in TRANSPORTS.iter().zip([server.unix(), server.tcp()]) {
                let address = go_address(&target);
                command.args(["-target", &format!("{}-{transport}={address}", spec.name)]);
            }
        }
        let status = command.arg("-json").arg(&numbers).status().context("go-pipeline")?;
        ensure!(status.success(), "go-pipeline failed: {status}");
        let text = std::fs::read_to_string(&numbers).context("the numbers of go-pipeline")?;
        let samples = parse(&serde_json::from_str(&text)?)?;
        self.print(&samples)?;
        record::keep(self.results.as_deref(), "go-pipeline", self.record(&samples)?)
    }

    fn build(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let source = std::path::absolute(&self.source)?;
        if !source.join("go.mod").is_file() {
            bail!(
                "{} is not the source of go-pipeline; run this in the repository, or name its \
                 folder with --source",
                source.display()
            );
        }
        let program = folder.join("go-pipeline");
        let mut build = Command::new("go");
        let status = build.arg("build").arg("-o").arg(&program).current_dir(&source).status();
        let status = status.context("go is not installed")?;
        ensure!(status.success(), "go build in {} failed", source.display());
        Ok(program)
    }

    fn start(&self, spec: &ServerSpec) -> anyhow::Result<ServerProcess> {
        ServerProcess::start(spec).with_context(|| spec.name.clone())
    }

    fn print(&self, samples: &Samples) -> anyhow::Result<()> {
        let (subject, other) = (&self.subject.name, &self.other.name);
        println!("\n{subject}: {}\n{other}: {}", self.subject.version(), self.other.version());
        println!("{} rounds of {} for each row and server", self.rounds, self.bench_time);
        println!("ns, bytes and allocations per batch, medians; those of {IN_PROCESS} are client");
        println!("and server, which are one process. ratio = others / {subject}, min/median/max");
        println!("of the rounds: above 1 speaks for {subject}\n");
        println!(
            "{:26} {:22} {:>12} {:>9} {:>8}   {:>16} {:>16}",
            "row", "target", "ns/batch", "B/batch", "allocs", other, IN_PROCESS
        );
        for (row, targets) in samples {
            let (operation, batch, mode) = row;
            let mut name = format!("{operation} {batch} {mode}");
            for (target, list) in targets {
                let middle = |number: fn(&Sample) -> f64| Spread::new(list.iter().map(number));
                print!(
                    "{name:26} {target:22} {:>12.0} {:>9.0} {:>8.0}",
                    middle(|sample| sample.ns_per_batch).median,
                    middle(|sample| sample.bytes).median,
                    middle(|sample| sample.allocations).median,
                );
                for ratio in self.ratios(target, targets)?.iter().flatten() {
                    let text = format!("{:.2}/{:.2}/{:.2}", ratio.min, ratio.median, ratio.max);
                    print!("   {text:>16}");
                }
                println!();
                name.clear();
            }
        }
        Ok(())
    }

    /// Returns by how much the subject is faster through the same socket than the other server,
    /// and than miniredis; none for a target that is not the subject's.
    fn ratios(
        &self,
        target: &str,
        targets: &BTreeMap<String, Vec<Sample>>,
    ) -> anyhow::Result<Option<[Spread; 2]>> {
        let Some(transport) = target.strip_prefix(&self.subject.name) else { return Ok(None) };
        let own = &targets[target];
        let ratio = |name: &str| {
            let list = targets.get(name).with_context(|| format!("no numbers of {name}"))?;
            ensure!(list.len() == own.len(), "{name} has other rounds than {target}");
            Ok(Spread::new(list.iter().zip(own).map(|(a, b)| a.ns_per_batch / b.ns_per_batch)))
        };
        Ok(Some([ratio(&format!("{}{transport}", self.other.name))?, ratio(IN_PROCESS)?]))
    }

    fn record(&self, samples: &Samples) -> anyhow::Result<Value> {
        let mut rows = Vec::new();
        for ((operation, batch, mode), targets) in samples {
            for (target, list) in targets {
                let spread =
                    |number: fn(&Sample) -> f64| Spread::new(list.iter().map(number)).record();
                let mut row = json!({
                    "operation": operation,
                    "batch": batch,
                    "mode": mode,
                    "target": target,
                    "ns_per_batch": spread(|sample| sample.ns_per_batch),
                    "bytes_per_batch": spread(|sample| sample.bytes),
                    "allocations_per_batch": spread(|sample| sample.allocations),
                });
                if let Some([other, in_process]) = self.ratios(target, targets)? {
                    row["ratio_to_other"] = other.record();
                    row["ratio_to_miniredis"] = in_process.record();
                }
                rows.push(row);
            }
        }
        Ok(json!({
            "subject": self.subject.record(),
            "other": self.other.record(),
            "go": go_versions(&self.source),
            "rounds": self.rounds,
            "bench_time": self.bench_time,
            "rows": rows,
        }))
    }
}

/// Returns `target` as the program's command line has it: Go's name of the network, a colon, and
/// where it is there.
fn go_address(target: &Target) -> String {
    match &target.address {
        Address::Tcp(address) => format!("tcp:{address}"),
        Address::Unix(path) | Address::Shm(path) => format!("unix:{}", path.display()),
    }
}

/// Returns the version of Go, and the modules that the program is made of.
fn go_versions(source: &Path) -> Value {
    let go = |arguments: &[&str]| {
        let output = Command::new("go").args(arguments).current_dir(source).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let modules = go(&["list", "-m", "all"]);
    json!({ "version": go(&["version"]), "modules": modules.lines().collect::<Vec<_>>() })
}

fn parse(numbers: &Value) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for value in numbers.as_array().context("the numbers are no list")? {
        let text = |name: &str| value[name].as_str().with_context(|| format!("{name}: {value}"));
        let number = |name: &str| value[name].as_f64().with_context(|| format!("{name}: {value}"));
        let row =
            (text("operation")?.to_owned(), number("batch")? as u64, text("mode")?.to_owned());
        let sample = Sample {
            ns_per_batch: number("ns_per_batch")?,
            bytes: number("bytes_per_batch")?,
            allocations: number("allocations_per_batch")?,
        };
        let targets = samples.entry(row).or_default();
        targets.entry(text("target")?.to_owned()).or_default().push(sample);
    }
    ensure!(!samples.is_empty(), "go-pipeline measured nothing");
    Ok(samples)
}

/// A folder of this process that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Scratch> {
        let name = format!("forebay-go-pipeline-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed lies in the system's place for such.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipelines() -> Pipelines {
        Pipelines {
            subject: ServerSpec::new("forebay"),
            other: ServerSpec::new("redis-server"),
            source: PathBuf::from(SOURCE),
            rounds: 2,
            bench_time: "1x".to_owned(),
            results: None,
        }
    }

    fn number(target: &str, ns: f64) -> Value {
        json!({
            "operation": "SET", "batch": 10, "mode": "pipelined", "target": target,
            "ns_per_batch": ns, "bytes_per_batch": 1, "allocations_per_batch": 2,
        })
    }

    #[test]
    fn ratios_are_those_of_the_rounds_through_one_socket() {
        let numbers = json!([
            number("forebay-unix", 10.0),
            number("forebay-unix", 20.0),
            number("redis-server-unix", 30.0),
            number("redis-server-unix", 20.0),
            number("miniredis", 5.0),
            number("miniredis", 80.0),
        ]);
        let samples = parse(&numbers).unwrap();
        let targets = &samples[&("SET".to_owned(), 10, "pipelined".to_owned())];
        let [other, in_process] = pipelines().ratios("forebay-unix", targets).unwrap().unwrap();
        assert_eq!(other, Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(in_process, Spread { min: 0.5, median: 2.25, max: 4.0 });
        assert!(pipelines().ratios("miniredis", targets).unwrap().is_none());
        let record = pipelines().record(&samples).unwrap();
        assert_eq!(record["rows"][0]["ratio_to_other"]["median"], 2.0);
    }

    #[test]
    fn numbers_that_lack_something_are_refused() {
        assert!(parse(&json!([])).is_err());
        assert!(parse(&json!({})).is_err());
        let mut incomplete = number("forebay-unix", 1.0);
        incomplete["mode"] = Value::Null;
        assert!(parse(&json!([incomplete])).is_err());
        let lonely = parse(&json!([number("forebay-unix", 1.0)])).unwrap();
        assert!(pipelines().record(&lonely).is_err(), "there is nothing to compare with");
    }
}
