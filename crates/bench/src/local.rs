//! The table `local`: what a process on the server's host pays for a read or a write, in every way
//! there is, compared with what the machine itself takes for a round trip or a copy.
//!
//! Everything is measured in one run, in slices of a few milliseconds: each round gives every row
//! and every floor a slice, so that other load of the machine affects all of them.

mod bounds;
pub mod floors;
mod ways;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use resp::Value;
use serde_json::{Value as Json, json};

use crate::accounting;
use crate::compare::{Spread, progress};
use crate::one_sided_reads;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;
use bounds::{Bound, Counts};
use floors::{Copies, Partner, PingPong};
use ways::{Act, ClientThreads, Row, Targets, Way, size_name};

/// Requests that the pipelined rows send together.
const PIPELINE: usize = 64;

/// A measurement.
#[derive(Clone, Debug)]
pub struct Local {
    /// The server.
    pub subject: ServerSpec,
    /// The peer, over its unix socket.
    pub other: ServerSpec,
    /// Sizes of values, the smallest first.
    pub sizes: Vec<usize>,
    /// Clients of the rows with several.
    pub clients: usize,
    /// Rounds, beside one that is not counted.
    pub rounds: usize,
    /// How long a row is performed in each round.
    pub slice: Duration,
    /// Only the rows whose name contains this; the floors always.
    pub filter: Option<String>,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry {
    PingPong(PingPong),
    /// A copy of so many bytes between two buffers that are in use.
    Copy(usize),
    Row(Row),
}

/// What all slices of an entry came to.
#[derive(Debug, Default)]
struct Figure {
    /// Nanoseconds, sorted at the end.
    samples: Vec<f64>,
    /// Operations per second of each round.
    speeds: Vec<f64>,
    /// Nanoseconds of server time per operation in each round.
    cpu: Vec<f64>,
    operations: u64,
    allocations: u64,
}

/// The figures of all entries.
#[derive(Debug, Default)]
struct Figures(HashMap<Entry, Figure>);

impl Figures {
    fn p50(&self, entry: &Entry) -> Option<f64> {
        self.at(entry, 0.5)
    }

    fn at(&self, entry: &Entry, share: f64) -> Option<f64> {
        let samples = &self.0.get(entry)?.samples;
        samples.get((samples.len().checked_sub(1)? as f64 * share) as usize).copied()
    }

    /// Returns the server's nanoseconds per operation, the median of the rounds.
    fn cpu(&self, entry: &Entry) -> Option<f64> {
        let cpu = &self.0.get(entry)?.cpu;
        (!cpu.is_empty()).then(|| Spread::new(cpu.iter().copied()).median)
    }

    /// Returns by how much `row` exceeds what the machine takes for what it does at least.
    fn of_floor(&self, row: &Row) -> Option<f64> {
        let floor = match row.way {
            Way::Lane => Entry::PingPong(PingPong::Futex),
            Way::Unix | Way::Tcp | Way::Other => Entry::PingPong(PingPong::Socket),
            _ => Entry::Copy(row.bytes),
        };
        Some(self.p50(&Entry::Row(*row))? / self.p50(&floor)?)
    }
}

impl Local {
    /// Measures, prints a table and whether its bounds are met, and writes its file.
    ///
    /// # Errors
    /// When a server fails, or a read returns something else than was stored.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.rounds > 0 && self.clients > 0, "at least one round and one client");
        ensure!(self.sizes.iter().all(|bytes| *bytes > 0), "a value has at least one byte");
        let rows = ways::rows(&self.sizes, self.clients, PIPELINE);
        let is_wanted =
            |row: &Row| self.filter.as_ref().is_none_or(|text| row.name().contains(text));
        let mut entries: Vec<Entry> = PingPong::ALL.map(Entry::PingPong).into();
        entries.extend(self.sizes.iter().map(|bytes| Entry::Copy(*bytes)));
        entries.extend(rows.into_iter().filter(is_wanted).map(Entry::Row));
        progress("starting the servers");
        let servers = [ServerProcess::start(&self.subject)?, ServerProcess::start(&self.other)?];
        let figures = self.measure(&entries, &servers)?;
        progress("counting system calls");
        one_sided_reads::prepare(&servers[0].unix())?;
        let calls = one_sided_reads::count_calls(&servers[0].socket())?;
        servers.into_iter().for_each(ServerProcess::stop);
        progress("");
        self.print(&entries, &figures);
        println!("\n{}\n", one_sided_reads::describe(&calls));
        let counts = Counts {
            calls: one_sided_reads::calls_of_reads(&calls),
            allocations: allocations(&figures),
        };
        let bounds = bounds::all(&figures, counts, &self.sizes, PIPELINE);
        bounds.iter().for_each(|bound| println!("{}", bound.line()));
        let result = self.record(&entries, &figures, &calls, &bounds);
        record::keep(self.results.as_deref(), "local", result)
    }

    fn measure(&self, entries: &[Entry], servers: &[ServerProcess; 2]) -> anyhow::Result<Figures> {
        let [subject, other] = servers;
        let targets = Targets {
            url: format!("shm://{}", subject.socket().display()),
            shm: subject.shm(),
            unix: subject.unix(),
            tcp: subject.tcp(),
            other: other.unix(),
        };
        ways::preload(&targets.unix, &self.sizes)?;
        ways::preload(&targets.other, &self.sizes)?;
        let threads = ClientThreads::start(self.clients, &targets);
        let mut partner = Partner::start()?;
        let mut copies = Copies::new(*self.sizes.iter().max().unwrap_or(&1));
        let mut figures = Figures::default();
        let mut is_asleep = false;
        let configured = busy_poll(subject)?;
        for round in 0..=self.rounds {
            progress(&format!("round {round} of {}, {} rows", self.rounds, entries.len()));
            let mut order = entries.to_vec();
            if round % 2 == 1 {
                // What comes after what is not the same in all rounds.
                order.reverse();
            }
            for entry in order {
                let figure = figures.0.entry(entry).or_default();
                match entry {
                    Entry::PingPong(kind) => {
                        figure.samples.extend(partner.play(kind, self.slice)?);
                    }
                    Entry::Copy(bytes) => figure.samples.extend(copies.play(bytes, self.slice)),
                    Entry::Row(row) => {
                        if row.is_asleep != is_asleep {
                            is_asleep = row.is_asleep;
                            set_busy_poll(subject, if is_asleep { b"no" } else { &configured })?;
                        }
                        let server = if row.way == Way::Other { other } else { subject };
                        self.measure_row(&row, &threads, server, figure)?;
                    }
                }
                if round == 0 {
                    // Memory that is touched for the first time is slow once.
                    *figure = Figure::default();
                }
            }
        }
        figures.0.values_mut().for_each(|figure| figure.samples.sort_by(f64::total_cmp));
        Ok(figures)
    }

    fn measure_row(
        &self,
        row: &Row,
        threads: &ClientThreads,
        server: &ServerProcess,
        figure: &mut Figure,
    ) -> anyhow::Result<()> {
        let before = accounting::cpu_time(server.id())?;
        let slices = threads.run(row, self.slice)?;
        let cpu = accounting::cpu_time(server.id())?.saturating_sub(before);
        let (mut operations, mut speed) = (0, 0.0);
        for slice in slices {
            operations += slice.operations;
            speed += slice.operations as f64 / slice.elapsed.as_secs_f64().max(1e-9);
            figure.allocations += slice.allocations;
            figure.samples.extend(slice.samples);
        }
        figure.operations += operations;
        figure.speeds.push(speed);
        figure.cpu.push(cpu.as_nanos() as f64 / operations as f64);
        Ok(())
    }

    fn print(&self, entries: &[Entry], figures: &Figures) {
        println!("subject: {}", self.subject.version());
        println!("other: {}", self.other.version());
        println!(
            "{} rounds, {} ms of each row in each; values of one byte, keys of 13 to 16 B; lanes \
             and sockets\nby one blocking client, p50 and p99 of an operation (of {PIPELINE} for \
             P{PIPELINE}, of groups where brief).\ncpu = server, user and system, per operation, \
             median of the rounds; allocs = of the client, per operation;\nfloor = p50 by that of \
             the futex ping-pong (lanes), of the unix socket ping-pong (sockets), of a memcpy of \
             as much\n(one-sided, put); asleep = with busy-poll no\n",
            self.rounds,
            self.slice.as_millis(),
        );
        println!(
            "{:42} {:>11} {:>11} {:>11} {:>10} {:>7} {:>8}",
            "", "p50 ns", "p99 ns", "ops/s", "cpu ns", "allocs", "floor"
        );
        for entry in entries {
            let times = [0.5, 0.99].map(|share| figures.at(entry, share).unwrap_or(f64::NAN));
            print!("{:42} {:>11.0} {:>11.0}", entry.name(), times[0], times[1]);
            if let (Entry::Row(row), Some(figure)) = (entry, figures.0.get(entry)) {
                print!(
                    " {:>11.0} {:>10.0} {:>7.2} {:>8.2}",
                    Spread::new(figure.speeds.iter().copied()).median,
                    figures.cpu(entry).unwrap_or(f64::NAN),
                    figure.allocations as f64 / figure.operations as f64,
                    figures.of_floor(row).unwrap_or(f64::NAN),
                );
            }
            println!();
        }
    }

    fn record(&self, entries: &[Entry], figures: &Figures, calls: &Json, bounds: &[Bound]) -> Json {
        let row = |entry: &Entry| {
            let mut line = json!({
                "row": entry.name(),
                "p50_ns": figures.at(entry, 0.5),
                "p99_ns": figures.at(entry, 0.99),
                "samples": figures.0.get(entry).map(|figure| figure.samples.len()),
            });
            if let (Entry::Row(row), Some(figure)) = (entry, figures.0.get(entry)) {
                let spread = |numbers: &[f64]| Spread::new(numbers.iter().copied()).record();
                line["operation"] = row.act.name().into();
                line["way"] = row.way.name().into();
                line["value_bytes"] = row.bytes.into();
                line["pipeline"] = row.pipeline.into();
                line["clients"] = row.clients.into();
                line["asleep"] = row.is_asleep.into();
                line["operations"] = figure.operations.into();
                line["operations_per_second"] = spread(&figure.speeds);
                line["server_cpu_ns_per_operation"] = spread(&figure.cpu);
                line["allocations"] = figure.allocations.into();
                line["of_floor"] = figures.of_floor(row).into();
            }
            line
        };
        json!({
            "subject": self.subject.record(),
            "other": self.other.record(),
            "rounds": self.rounds,
            "slice_ms": self.slice.as_millis() as u64,
            "clients": self.clients,
            "rows": entries.iter().map(row).collect::<Vec<_>>(),
            "system_calls": calls,
            "bounds": bounds.iter().map(Bound::record).collect::<Vec<_>>(),
        })
    }
}

impl Entry {
    fn name(&self) -> String {
        match self {
            Entry::PingPong(kind) => format!("floor: {}", kind.name()),
            Entry::Copy(bytes) => format!("floor: memcpy {}", size_name(*bytes)),
            Entry::Row(row) => row.name(),
        }
    }
}

/// Returns when the workers of `server` look for requests before they sleep.
fn busy_poll(server: &ServerProcess) -> anyhow::Result<Vec<u8>> {
    let reply = Wire::connect(&server.unix())?.call(&[b"CONFIG", b"GET", b"busy-poll"])?;
    let mode =
        if let Value::Array(pair) = &reply { pair.get(1).and_then(Value::as_bytes) } else { None };
    Ok(mode.with_context(|| format!("CONFIG GET busy-poll: {reply:?}"))?.to_vec())
}

fn set_busy_poll(server: &ServerProcess, mode: &[u8]) -> anyhow::Result<()> {
    let reply = Wire::connect(&server.unix())?.call(&[b"CONFIG", b"SET", b"busy-poll", mode])?;
    ensure!(reply == Value::Simple(b"OK".to_vec()), "CONFIG SET busy-poll: {reply:?}");
    Ok(())
}

/// Returns how often all one-sided reads of single values have allocated, if there were any: those
/// that copy to a buffer, and those by views where values lie. A view of a value that is copied
/// owns its copy.
fn allocations(figures: &Figures) -> Option<u64> {
    let is_read = |row: &Row| {
        let is_pinned = row.way == Way::View && row.bytes > ways::COPIED_BYTES_MAX;
        row.act == Act::Get && (row.way == Way::Copied || is_pinned)
    };
    let counts = figures.0.iter().filter_map(|(entry, figure)| match entry {
        Entry::Row(row) if is_read(row) => Some(figure.allocations),
        _ => None,
    });
    counts.reduce(|sum, count| sum + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let rows = ways::rows(&[64, 1024, 4 << 20], 4, PIPELINE);
        let mut names: Vec<String> = rows.iter().map(Row::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.contains(&"SET 4 MiB unix socket P1 C4".to_owned()), "{names:?}");
    }
}
