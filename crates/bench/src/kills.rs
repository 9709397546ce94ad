//! What clients that are killed cost others: how long other sessions' requests take meanwhile, and
//! how soon nothing of the dead is left.
//!
//! The victims are processes of `forebay-peer`, which hold views and lanes in every state, each
//! with a child that keeps its socket open. Of each batch as many clients of another server are
//! killed, in turn before or after, which costs the machine as much: what else it does falls on
//! both windows, and the ratio of the two is what the server's own work for the dead costs.
//!
//! *Not here*: that nothing stays and nobody notices, which is a test (`tests/hostile/kills.rs`).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use base::prng::Prng;
use resp::Value;
use serde_json::json;

use crate::accounting;
use crate::compare::progress;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;

/// Victims that live at once.
const BATCH: usize = 12;
/// The most steps that a victim takes before it is killed.
const STEPS_MAX: u64 = 24;
/// Looks at the server after each kill, a millisecond apart: so there are some 20 kills a second.
const LOOKS: u32 = 50;
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// How long something of a dead client may be there before the measurement is given up.
const GONE_WAIT_MAX: Duration = Duration::from_secs(10);
/// What is published holds these: how soon nothing of a victim is left, and how much later others
/// are answered than while another server's clients are killed.
const GONE_MAX: Duration = Duration::from_millis(100);
const SLOWER_MAX: f64 = 1.1;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Kills {
    /// The server.
    pub server: ServerSpec,
    /// The program `forebay-peer`.
    pub peer: PathBuf,
    /// How many clients are killed.
    pub count: usize,
    /// How many steps each takes before.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// Of each batch, the windows in which the others' requests are timed: while clients of another
/// server are killed, and while those of theirs are.
const ELSEWHERE: usize = 0;
const HERE: usize = 1;
/// No window.
const BETWEEN: usize = usize::MAX;

/// What the others' requests took, in nanoseconds, by batch and window.
type Times = Vec<[Vec<u64>; 2]>;

impl Kills {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server or the peer fails, or something of a dead client stays.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.count > 0, "a number of clients is needed");
        let mut spec = self.server.clone();
        spec.options.extend(["--segment-size".to_owned(), "1mb".to_owned()]);
        let servers = [ServerProcess::start(&spec)?, ServerProcess::start(&spec)?];
        for server in &servers {
            self.prepare(server)?;
        }
        let mut random = Prng::new(self.seed);
        let steps: Vec<u64> = (0..self.count as u64)
            .map(|index| if index <= STEPS_MAX { index } else { random.below(STEPS_MAX + 1) })
            .collect();
        let (gone, others) = self.measure(&servers, &steps)?;
        progress("");
        let rows: Vec<serde_json::Value> =
            std::iter::once(gone_row(gone)).chain(other_rows(others)).collect();
        record::keep(self.results.as_deref(), "kills", self.record(&rows))
    }

    /// Has the keys set that victims use.
    fn prepare(&self, server: &ServerProcess) -> anyhow::Result<()> {
        let status = self.peer(server, &["prepare"]).stdout(Stdio::null()).status();
        let status = status.with_context(|| self.peer.display().to_string())?;
        ensure!(status.success(), "{} prepared nothing: {status}", self.peer.display());
        Ok(())
    }

    /// Returns the peer's command line: `words`, its socket behind the first.
    fn peer(&self, server: &ServerProcess, words: &[&str]) -> Command {
        let mut program = Command::new(&self.peer);
        program.arg(words[0]).arg(server.socket()).args(&words[1..]);
        program
    }

    /// Kills the clients of all batches while another session asks without a pause. Returns how
    /// soon nothing of each was left, and how long the session's requests took.
    fn measure(
        &self,
        servers: &[ServerProcess; 2],
        steps: &[u64],
    ) -> anyhow::Result<(Vec<Duration>, Times)> {
        let (window, is_over) = (AtomicUsize::new(BETWEEN), AtomicBool::new(false));
        let batches = steps.len().div_ceil(BATCH);
        let mut ways =
            [Wire::connect(&servers[HERE].unix())?, Wire::connect(&servers[HERE].shm())?];
        let mut watcher = Wire::connect(&servers[HERE].unix())?;
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask_on(&mut ways, batches, &window, &is_over));
            let mut kill = || {
                let mut gone = Vec::new();
                for (index, steps) in steps.chunks(BATCH).enumerate() {
                    gone.extend(self.run_batch(servers, &mut watcher, &window, (index, steps))?);
                    progress(&format!("{} of {} clients killed", gone.len(), self.count));
                }
                anyhow::Ok(gone)
            };
            let gone = kill();
            is_over.store(true, Ordering::Relaxed);
            let others = asking.join().expect("asking does not panic");
            Ok((gone?, others?))
        })
    }

    /// Kills the victims of batch `index` one by one, and as many of the other server's.
    fn run_batch(
        &self,
        servers: &[ServerProcess; 2],
        watcher: &mut Wire,
        window: &AtomicUsize,
        (index, steps): (usize, &[u64]),
    ) -> anyhow::Result<Vec<Duration>> {
        let start = |server: &ServerProcess| -> anyhow::Result<Vec<Victim>> {
            steps.iter().map(|steps| self.victim(server, *steps)).collect()
        };
        let mut victims = [start(&servers[ELSEWHERE])?, start(&servers[HERE])?];
        let (mut held, mut times) = (held_now(watcher)?, Vec::new());
        let order = if index.is_multiple_of(2) { [ELSEWHERE, HERE] } else { [HERE, ELSEWHERE] };
        for which in order {
            window.store(2 * index + which, Ordering::Relaxed);
            for victim in &mut victims[which] {
                if which == HERE {
                    held = std::array::from_fn(|index| held[index] - victim.held[index]);
                }
                let since = Instant::now();
                victim.process.kill()?;
                let took = watch(watcher, since, held)?;
                if which == HERE {
                    times.push(took);
                }
            }
        }
        window.store(BETWEEN, Ordering::Relaxed);
        Ok(times)
    }

    fn victim(&self, server: &ServerProcess, steps: u64) -> anyhow::Result<Victim> {
        Victim::start(self.peer(server, &["victim", &steps.to_string()]), &self.peer)
    }

    fn record(&self, rows: &[serde_json::Value]) -> serde_json::Value {
        json!({
            "server": self.server.record(),
            "clients": self.count,
            "clients_at_once": BATCH,
            "seed": self.seed,
            "rows": rows,
        })
    }
}

/// A client that waits to be killed. Its child keeps the socket until this is dropped: that closes
/// their standard input, with which both end.
struct Victim {
    process: Child,
    held: Held,
}

impl Victim {
    fn start(mut program: Command, name: &Path) -> anyhow::Result<Victim> {
        let started = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.with_context(|| name.display().to_string())?;
        let output = process.stdout.take().expect("its output is a pipe");
        let mut victim = Victim { process, held: [0; 3] };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let words: Vec<u64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let Ok(held) = words.try_into() else { bail!("{}: '{line}'", name.display()) };
        victim.held = held;
        Ok(victim)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It has ended, or does now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What sessions of shared memory hold together: sessions, pins and lanes.
type Held = [u64; 3];

fn held_now(watcher: &mut Wire) -> anyhow::Result<Held> {
    accounting::info(watcher, "shm", ["shm_sessions", "shm_pins", "shm_lanes"])
}

/// Asks without a pause in two ways, and notes what each request took by the `window` in which it
/// began: twice the number of the batch, and that of the window.
fn ask_on(
    ways: &mut [Wire; 2],
    batches: usize,
    window: &AtomicUsize,
    is_over: &AtomicBool,
) -> anyhow::Result<Times> {
    let (mut times, mut round) = (vec![[Vec::new(), Vec::new()]; batches], 0_u64);
    while !is_over.load(Ordering::Relaxed) {
        for way in &mut *ways {
            round += 1;
            let value = round.to_string();
            way.queue(&[b"SET", b"others", value.as_bytes()]);
            way.queue(&[b"GET", b"others"]);
            let (began_in, began) = (window.load(Ordering::Relaxed), Instant::now());
            way.send()?;
            let (_, read) = (way.receive()?, way.receive()?);
            let took = began.elapsed().as_nanos() as u64;
            ensure!(read == Value::Bulk(value.into_bytes()), "GET answered {read:?}");
            if began_in != BETWEEN {
                times[began_in / 2][began_in % 2].push(took);
            }
        }
    }
    Ok(times)
}

/// Looks at the server for a while, as often whatever it sees; and on, until it sees `expected`.
/// Returns how long after `since` it did first.
fn watch(watcher: &mut Wire, since: Instant, expected: Held) -> anyhow::Result<Duration> {
    let (mut found, mut looks) = (None, 0);
    while looks < LOOKS || found.is_none() {
        looks += 1;
        let seen = held_now(watcher)?;
        if found.is_none() && seen == expected {
            found = Some(since.elapsed());
        }
        let is_late = found.is_none() && since.elapsed() > GONE_WAIT_MAX;
        ensure!(!is_late, "of a dead client something stays: {seen:?}, not {expected:?}");
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(found.expect("it was seen"))
}

/// Prints how soon nothing of the dead was left, and returns its row.
fn gone_row(mut gone: Vec<Duration>) -> serde_json::Value {
    gone.sort_unstable();
    let ms = |share| quantile(&gone, share).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    let [median, p99, most] = [0.5, 0.99, 1.0].map(ms);
    println!(
        "{} clients killed; nothing of one left after {median:.1} ms (median), {p99:.1} ms (p99), \
         {most:.1} ms at most; bound {} ms: {}",
        gone.len(),
        GONE_MAX.as_millis(),
        verdict(most <= GONE_MAX.as_secs_f64() * 1e3),
    );
    json!({
        "name": "nothing left of a killed client",
        "clients": gone.len(),
        "median_ms": median,
        "p99_ms": p99,
        "most_ms": most,
        "bound_ms": GONE_MAX.as_millis() as u64,
    })
}

/// Prints how much later others were answered while clients of their server were killed, batch by
/// batch, and returns a row for the median and one for the p99.
fn other_rows(mut others: Times) -> Vec<serde_json::Value> {
    others.iter_mut().flatten().for_each(|times| times.sort_unstable());
    let row = |(name, share): (&str, f64)| {
        let us = |times: &[u64]| quantile(times, share).map_or(f64::NAN, |time| time as f64 / 1e3);
        let middle = |number: &dyn Fn(&[Vec<u64>; 2]) -> f64| {
            let mut numbers: Vec<f64> = others.iter().map(number).collect();
            numbers.sort_by(f64::total_cmp);
            (numbers[numbers.len() / 2], numbers[0], numbers[numbers.len() - 1])
        };
        let [elsewhere, here] = [ELSEWHERE, HERE].map(|which| middle(&|it| us(&it[which])).0);
        let (ratio, least, most) = middle(&|it| us(&it[HERE]) / us(&it[ELSEWHERE]));
        println!(
            "other sessions, SET and GET in one, {name}: {elsewhere:.1} us while clients of \
             another server are killed, {here:.1} us while this one's are; ratio {ratio:.3}, the \
             median of {} pairs from {least:.3} to {most:.3}; bound {SLOWER_MAX}: {}",
            others.len(),
            verdict(ratio <= SLOWER_MAX),
        );
        json!({
            "name": format!("other sessions, {name}"),
            "elsewhere_us": elsewhere,
            "here_us": here,
            "ratio": ratio,
            "ratio_least": least,
            "ratio_most": most,
            "bound": SLOWER_MAX,
            "pairs": others.len(),
        })
    };
    [("median", 0.5), ("p99", 0.99)].into_iter().map(row).collect()
}

/// Returns the time below which `share` of the `sorted` ones are; none where there are none.
fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share) as usize])
}

/// Says whether a bound is met: no failure, as a machine that does other work misses some.
fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT MET" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_ratio_of_the_batches_and_not_of_the_columns() {
        let others = vec![
            [vec![1000, 1000], vec![2000, 2000]],
            [vec![100_000], vec![100_000]],
            [vec![10_000], vec![20_000]],
        ];
        let rows = other_rows(others);
        assert_eq!((rows[0]["ratio"].as_f64(), rows[0]["pairs"].as_u64()), (Some(2.0), Some(3)));
        assert_eq!(rows[0]["here_us"].as_f64(), Some(20.0));
    }

    #[test]
    fn row_of_the_dead_has_the_longest_time() {
        let row = gone_row(vec![Duration::from_millis(7), Duration::from_millis(3)]);
        assert_eq!((row["most_ms"].as_f64(), row["median_ms"].as_f64()), (Some(7.0), Some(3.0)));
    }
}
