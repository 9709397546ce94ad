//! Instructions that a server takes for an operation, counted by valgrind's callgrind: a figure
//! that other load of the machine does not change, so that a small difference between two builds
//! shows.
//!
//! One worker serves one connection, which sends batches of the same requests in every run and
//! awaits each: so the server reads the same bytes at the same steps. What the kernel does for it
//! is not counted, nor the time that an instruction waits for memory; `compare` measures time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::compare::{fill, needs_fills, preload, progress};
use crate::key_distribution::KeyDistribution;
use crate::load::Load;
use crate::recipes;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::tables::DataSet;
use crate::workload::{Operation, Workload};

/// Rows: an operation as `run --operation` takes it, and how many requests travel together.
/// Commands on collections follow. No batch is longer than what one read takes, as how a longer one
/// arrives is a matter of time.
const FIRST_ROWS: [(&str, usize); 8] = [
    ("get", 16),
    ("get", 1),
    ("set", 16),
    ("set", 1),
    ("incr", 16),
    ("append", 16),
    ("mset4", 16),
    ("mget4", 16),
];
/// Those that take keys away, or give them a time to live, stand last.
const LAST_ROWS: [(&str, usize); 2] = [("expire", 16), ("del", 16)];
/// How many requests on collections travel together.
const COLLECTIONS_PIPELINE: usize = 16;

/// The name of callgrind's files in the server's folder; a dot and a number are added.
const DUMP_NAME: &str = "instructions";
/// How the pipes are called by which vgdb reaches the server; they lie in its folder, too.
const PIPE_PREFIX: &str = "vgdb";
/// Requests that are sent before anything is counted take keys of their own choice.
const SEED_BEFORE: u64 = 0x5eed;

/// A count of instructions.
#[derive(Clone, Debug)]
pub struct Instructions {
    /// The builds of Forebay: the one that is judged, and before it, if there is one, the one that
    /// it is compared with.
    pub servers: Vec<ServerSpec>,
    /// Only the rows whose name contains this.
    pub filter: Option<String>,
    /// Operations of each row.
    pub operations: u64,
    /// The keys that all rows choose from.
    pub key_count: u64,
    /// Seed of the keys.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// What all servers do, by name.
struct Row {
    name: String,
    operation: Operation,
    pipeline: usize,
}

impl Instructions {
    /// Counts, prints a table and writes its file.
    ///
    /// # Errors
    /// When valgrind is absent, a server fails or gives an error reply, or no row has the name.
    pub fn run(&self) -> anyhow::Result<()> {
        let rows = self.rows()?;
        let counts: Vec<Vec<f64>> = self
            .servers
            .iter()
            .map(|server| self.count(server, &rows))
            .collect::<Result<_, _>>()?;
        progress("");
        for (name, server) in ["now", "before"].iter().zip(self.servers.iter().rev()) {
            println!("{name:<7} {}", server.program.display());
        }
        let has_other = self.servers.len() > 1;
        let header = if has_other { "     before    ratio" } else { "" };
        println!("\n{:<30} {:>10}{header}", "instructions", "now");
        let mut records = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let of_row: Vec<f64> = counts.iter().map(|of_server| of_server[index]).collect();
            let now = of_row[of_row.len() - 1];
            let mut record = json!({ "row": row.name, "instructions_per_operation": now });
            print!("{:<30} {now:>10.1}", row.name);
            if has_other {
                let before = of_row[0];
                print!(" {before:>10.1} {:>8.4}", now / before);
                record["before"] = before.into();
                record["ratio"] = (now / before).into();
            }
            println!();
            records.push(record);
        }
        let result = json!({
            "servers": self.servers.iter().map(ServerSpec::record).collect::<Vec<_>>(),
            "operations": self.operations,
            "keys": self.key_count,
            "seed": self.seed,
            "rows": records,
        });
        record::keep(self.results.as_deref(), "instructions", result)
    }

    fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let parsed = |(text, pipeline): (&str, usize)| Ok((text.parse::<Operation>()?, pipeline));
        let [first, last] = [&FIRST_ROWS[..], &LAST_ROWS]
            .map(|rows| rows.iter().copied().map(parsed).collect::<anyhow::Result<Vec<_>>>());
        let collections = recipes::COLLECTIONS
            .iter()
            .chain(recipes::STREAMS)
            .map(|recipe| (Operation::Recipe(recipe), COLLECTIONS_PIPELINE));
        let all = first?.into_iter().chain(collections).chain(last?);
        let mut rows: Vec<Row> = all
            .map(|(operation, pipeline)| Row {
                name: format!("{operation} P{pipeline}"),
                operation,
                pipeline,
            })
            .collect();
        if let Some(part) = &self.filter {
            let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
            rows.retain(|row| row.name.contains(part.as_str()));
            let names = names.join(", ");
            ensure!(!rows.is_empty(), "no row has '{part}' in its name; there are: {names}");
        }
        Ok(rows)
    }

    /// Returns the instructions of an operation of each of `rows`.
    fn count(&self, server: &ServerSpec, rows: &[Row]) -> anyhow::Result<Vec<f64>> {
        let counted = Counted::start(server)?;
        let data = DataSet {
            key_count: self.key_count,
            key_bytes: 16,
            value_bytes: 64,
            distribution: KeyDistribution::Uniform,
        };
        progress(&format!("{}: filling", server.program.display()));
        preload(&counted.process.unix(), &data, 0, data.key_count)?;
        if rows.iter().any(|row| needs_fills(row.operation)) {
            fill(&counted.process.unix(), &data)?;
        }
        // Every row finds what it finds after itself: collections that have grown, memory in use.
        for row in rows {
            self.send(&counted, row, &data, SEED_BEFORE, || Ok(()))?;
        }
        counted.ask(&["instrumentation", "on"])?;
        let count_row = |row: &Row| -> anyhow::Result<f64> {
            progress(&format!("{}: {}", server.program.display(), row.name));
            self.send(&counted, row, &data, self.seed, || counted.ask(&["zero"]))?;
            Ok(counted.dump()? as f64 / self.operations as f64)
        };
        let counts = rows.iter().map(count_row).collect();
        counted.process.stop();
        counts
    }

    /// Sends the requests of `row`, after `begin`, over a connection that stands before.
    fn send(
        &self,
        counted: &Counted,
        row: &Row,
        data: &DataSet,
        seed: u64,
        begin: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let load = Load {
            target: counted.process.unix(),
            password: None,
            workload: Workload {
                operation: row.operation,
                key_count: data.key_count,
                key_bytes: data.key_bytes,
                value_bytes: data.value_bytes,
                distribution: data.distribution,
            },
            connections: 1,
            pipeline: row.pipeline,
            threads: 1,
            requests_max: Some(self.operations),
            duration_max: None,
            rate: None,
            seed,
        };
        let connected = load.connect()?;
        begin()?;
        let report = connected.run()?;
        let first_error = report.first_error.unwrap_or_default();
        ensure!(
            report.wrong == 0,
            "{}: {} replies were wrong: {first_error}",
            row.name,
            report.wrong
        );
        ensure!(
            report.operations == self.operations,
            "{}: {} operations are no whole number of batches of {}",
            row.name,
            self.operations,
            row.pipeline
        );
        Ok(())
    }
}

/// A server under callgrind.
struct Counted {
    process: ServerProcess,
}

impl Counted {
    /// Starts `server` with one worker that never looks for what has not been announced, as how
    /// long it looks is a matter of time.
    fn start(server: &ServerSpec) -> anyhow::Result<Counted> {
        let found = Command::new("valgrind").arg("--version").output();
        found.context("valgrind, which counts, cannot be run: install it")?;
        let mut server = server.clone();
        server.under = [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            // The server starts and is filled several times faster so.
            "--instr-atstart=no",
            &format!("--callgrind-out-file={DUMP_NAME}"),
            &format!("--vgdb-prefix={PIPE_PREFIX}"),
        ]
        .map(str::to_owned)
        .to_vec();
        server.options.extend(["--workers", "1", "--busy-poll", "no"].map(str::to_owned));
        Ok(Counted { process: ServerProcess::start(&server)? })
    }

    /// Has callgrind do what `words` say and waits until it has.
    fn ask(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new("vgdb");
        command.arg(format!("--pid={}", self.process.id()));
        command.arg(format!("--vgdb-prefix={PIPE_PREFIX}")).args(words);
        let output = command.current_dir(self.process.folder()).output().context("running vgdb")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "vgdb {}: {errors}", words.join(" "));
        Ok(())
    }

    /// Returns how many instructions were counted since the count was zero, which it is again.
    fn dump(&self) -> anyhow::Result<u64> {
        self.ask(&["dump"])?;
        let folder = self.process.folder();
        let mut total = None;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| is_dump(&name.to_string_lossy())) {
                total = Some(total_of(&path)?);
                fs::remove_file(&path)?;
            }
        }
        total.with_context(|| format!("callgrind left no count in {}", folder.display()))
    }
}

fn is_dump(name: &str) -> bool {
    name.strip_prefix(DUMP_NAME).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns what the file of a dump says in its last line, `totals: <instructions>`.
fn total_of(path: &Path) -> anyhow::Result<u64> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    total_in(&text).with_context(|| format!("{} has no total", path.display()))
}

fn total_in(dump: &str) -> Option<u64> {
    let line = dump.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(filter: Option<&str>) -> Instructions {
        let filter = filter.map(str::to_owned);
        let (servers, results) = (Vec::new(), None);
        Instructions { servers, filter, operations: 16, key_count: 10, seed: 1, results }
    }

    #[test]
    fn rows_have_names_of_their_own_and_are_chosen_by_them() {
        let rows = count(None).rows().expect("each row is an operation");
        for (index, row) in rows.iter().enumerate() {
            assert!(rows[..index].iter().all(|other| other.name != row.name), "{}", row.name);
        }
        let chosen = count(Some("GET P")).rows().expect("there are some");
        let names: Vec<&str> = chosen.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["GET P16", "GET P1", "HGET P16", "HMGET P16"]);
        assert!(count(Some("NONE")).rows().is_err());
    }

    #[test]
    fn the_total_of_a_dump_is_its_last_line() {
        assert_eq!(total_in("events: Ir\nfn=(1)\n1 7\n\ntotals: 1234567\n"), Some(1_234_567));
        assert_eq!(total_in("events: Ir\nsummary: 7\n"), None);
        assert!(is_dump("instructions.12") && !is_dump("instructions") && !is_dump("vgdb.1"));
    }
}
