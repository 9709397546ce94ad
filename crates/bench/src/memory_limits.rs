//! How far memory strays above its limit, under every eviction policy and for every size of value.
//!
//! Each row writes many times the limit to a server of its own, while a second connection samples
//! used_memory, to which the limit applies, and the resident memory of the process above that of
//! the empty server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure};
use base::prng::Prng;
use resp::Value;
use serde_json::json;

use crate::accounting;
use crate::compare::progress;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;

/// Every policy.
pub const POLICIES: &str = "noeviction,allkeys-lru,allkeys-lfu,allkeys-random,volatile-lru,\
    volatile-lfu,volatile-random,volatile-ttl";
/// Which share of the limit may be exceeded, in percent, and at least how many bytes.
const EXCESS_PERCENT_MAX: u64 = 5;
const EXCESS_BYTES_MIN: u64 = 16 << 20;

const SMALL_BYTES_MAX: u64 = 1_000;
const LARGE_BYTES_MIN: u64 = 4 << 10;
const LARGE_BYTES_MAX: u64 = 1 << 20;
/// Bytes and writes that travel together, at most.
const BATCH_BYTES_MAX: usize = 1 << 20;
const BATCH_WRITES_MAX: usize = 64;
/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// Times to live are up to so many seconds: none ends while it is measured.
const SECONDS: (u64, u64) = (10_000, 1_000_000);

/// Returns by how many bytes a limit may be exceeded.
pub fn excess_allowed(limit: u64) -> u64 {
    (limit * EXCESS_PERCENT_MAX / 100).max(EXCESS_BYTES_MIN)
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Limits {
    pub server: ServerSpec,
    /// Values of maxmemory, in bytes.
    pub limits: Vec<u64>,
    /// How many times the limit is written.
    pub rounds: u64,
    pub policies: Vec<String>,
    /// The sizes of values.
    pub sizes: Vec<Sizes>,
    /// The choices of keys, sizes and times.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// How long the values of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sizes {
    /// 0 to 1,000 bytes.
    Small,
    /// 4 KiB to 1 MiB.
    Large,
    /// The limit's worth of small ones, then of large ones, then of both with half the bytes each,
    /// and again: memory has to change sides.
    Mixed,
}

/// What a row saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    writes: u64,
    refused: u64,
    written_bytes: u64,
    keys: u64,
    looks: u64,
    used_max: u64,
    resident_base: u64,
    resident_max: u64,
}

/// How far above the limit a row got: used_memory, and resident memory without its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Excess {
    used: i64,
    resident: i64,
}

impl Seen {
    fn excess(&self, limit: u64) -> Excess {
        let above = |bytes: u64| bytes as i64 - limit as i64;
        Excess {
            used: above(self.used_max),
            resident: above(self.resident_max.saturating_sub(self.resident_base)),
        }
    }
}

impl Sizes {
    fn name(self) -> &'static str {
        match self {
            Sizes::Small => "small",
            Sizes::Large => "large",
            Sizes::Mixed => "mixed",
        }
    }

    /// Returns the length of the next value, in the round `round`.
    fn draw(self, round: u64, random: &mut Prng) -> u64 {
        let one_in = LARGE_BYTES_MAX.div_ceil(SMALL_BYTES_MAX);
        let is_large = match (self, round % 3) {
            (Sizes::Small, _) | (Sizes::Mixed, 0) => false,
            (Sizes::Large, _) | (Sizes::Mixed, 1) => true,
            (Sizes::Mixed, _) => random.one_in(one_in),
        };
        match is_large {
            true => LARGE_BYTES_MIN + random.below(LARGE_BYTES_MAX - LARGE_BYTES_MIN + 1),
            false => random.below(SMALL_BYTES_MAX + 1),
        }
    }

    /// Returns how many keys are written: about twice as many as fit.
    fn key_count(self, limit: u64) -> u64 {
        let mean = if self == Sizes::Large { LARGE_BYTES_MAX / 2 } else { SMALL_BYTES_MAX / 2 };
        (2 * limit / mean).max(64)
    }
}

impl Limits {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails, or holds more memory than it may.
    pub fn run(&self) -> anyhow::Result<()> {
        let are_given = !self.limits.is_empty() && !self.limits.contains(&0);
        ensure!(are_given && self.rounds > 0, "limits and a number of rounds are needed");
        println!(
            "{:>9} {:<16} {:<6} {:>10} {:>9} {:>9} {:>9} {:>13} {:>13}",
            "limit", "policy", "sizes", "writes", "refused", "keys", "looks", "used", "resident"
        );
        let (mut rows, mut over) = (Vec::new(), 0);
        for &limit in &self.limits {
            for policy in &self.policies {
                for &sizes in &self.sizes {
                    let seen = self.measure(limit, policy, sizes)?;
                    let excess = seen.excess(limit);
                    let is_over = excess.used.max(excess.resident) > excess_allowed(limit) as i64;
                    over += u32::from(is_over);
                    progress("");
                    print_row(limit, policy, sizes, &seen, excess, is_over);
                    rows.push(row(limit, policy, sizes, &seen, excess));
                }
            }
        }
        let share = EXCESS_PERCENT_MAX;
        println!("\nbytes; {share} % or {EXCESS_BYTES_MIN} above the limit are allowed");
        record::keep(self.results.as_deref(), "limits", self.record(&rows))?;
        ensure!(over == 0, "{over} of {} rows are above the bound", rows.len());
        Ok(())
    }

    fn measure(&self, limit: u64, policy: &str, sizes: Sizes) -> anyhow::Result<Seen> {
        let mut spec = self.server.clone();
        for (option, value) in
            [("--maxmemory", &*limit.to_string()), ("--maxmemory-policy", policy)]
        {
            spec.options.extend([option.to_owned(), value.to_owned()]);
        }
        let server = ServerProcess::start(&spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        let mut watcher = Wire::connect(&server.unix())?;
        let resident_base = accounting::resident(server.id())?.total;
        let mut seen = Seen { resident_base, ..Seen::default() };
        let is_done = AtomicBool::new(false);
        let looked = std::thread::scope(|scope| {
            let looking = scope.spawn(|| look_until(&is_done, server.id(), &mut watcher));
            let written = self.write((limit, policy, sizes), &mut wire, &mut seen);
            is_done.store(true, Ordering::Relaxed);
            let looked = looking.join().expect("looking does not panic");
            written.and(looked)
        })?;
        let Value::Integer(keys) = wire.call(&[b"DBSIZE"])? else { bail!("DBSIZE: no integer") };
        Ok(Seen {
            keys: keys as u64,
            looks: looked.looks,
            used_max: looked.used_max,
            resident_max: looked.resident_max,
            ..seen
        })
    }

    fn write(
        &self,
        (limit, policy, sizes): (u64, &str, Sizes),
        wire: &mut Wire,
        seen: &mut Seen,
    ) -> anyhow::Result<()> {
        let mut random = Prng::new(self.seed);
        let mut value = vec![0; LARGE_BYTES_MAX as usize];
        random.fill(&mut value);
        let key_count = sizes.key_count(limit);
        let has_times = policy.starts_with("volatile");
        let goal = limit * self.rounds;
        while seen.written_bytes < goal {
            let round = seen.written_bytes / limit;
            let mut count = 0;
            while count < BATCH_WRITES_MAX && wire.queued_bytes() < BATCH_BYTES_MAX {
                let key = format!("limit:{:010}", random.below(key_count));
                let length = sizes.draw(round, &mut random);
                let value = &value[..length as usize];
                let seconds = (SECONDS.0 + random.below(SECONDS.1)).to_string();
                match has_times {
                    true => wire.queue(&[b"SETEX", key.as_bytes(), seconds.as_bytes(), value]),
                    false => wire.queue(&[b"SET", key.as_bytes(), value]),
                }
                count += 1;
                seen.written_bytes += key.len() as u64 + length;
            }
            wire.send()?;
            for _ in 0..count {
                match wire.receive()? {
                    Value::Simple(_) => {}
                    Value::Error(text) if text.starts_with(b"OOM ") => seen.refused += 1,
                    other => bail!("SET answered {other:?}"),
                }
            }
            seen.writes += count as u64;
            let written = seen.written_bytes >> 20;
            progress(&format!("{policy} {}: {written} of {} MiB", sizes.name(), goal >> 20));
        }
        // Without eviction most are refused, and with it none.
        let is_right = policy == "noeviction" || seen.refused == 0;
        ensure!(is_right, "{policy} refused {} of {} writes", seen.refused, seen.writes);
        Ok(())
    }

    fn record(&self, rows: &[serde_json::Value]) -> serde_json::Value {
        json!({
            "server": self.server.record(),
            "limits": self.limits,
            "rounds": self.rounds,
            "seed": self.seed,
            "rows": rows,
        })
    }
}

/// Looks at the server's memory until `is_done`.
fn look_until(is_done: &AtomicBool, id: u32, wire: &mut Wire) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    loop {
        // What comes after the last write is seen too.
        let is_last = is_done.load(Ordering::Relaxed);
        seen.used_max = seen.used_max.max(accounting::used_memory(wire)?);
        seen.resident_max = seen.resident_max.max(accounting::resident(id)?.total);
        seen.looks += 1;
        if is_last {
            return Ok(seen);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

fn print_row(limit: u64, policy: &str, sizes: Sizes, seen: &Seen, excess: Excess, is_over: bool) {
    println!(
        "{limit:>9} {policy:<16} {:<6} {:>10} {:>9} {:>9} {:>9} {:>+13} {:>+13}{}",
        sizes.name(),
        seen.writes,
        seen.refused,
        seen.keys,
        seen.looks,
        excess.used,
        excess.resident,
        if is_over { "  above the bound" } else { "" },
    );
}

fn row(limit: u64, policy: &str, sizes: Sizes, seen: &Seen, excess: Excess) -> serde_json::Value {
    json!({
        "limit_bytes": limit,
        "excess_bytes_allowed": excess_allowed(limit),
        "policy": policy,
        "sizes": sizes.name(),
        "writes": seen.writes,
        "refused": seen.refused,
        "written_bytes": seen.written_bytes,
        "keys": seen.keys,
        "looks": seen.looks,
        "used_memory_max": seen.used_max,
        "resident_base": seen.resident_base,
        "resident_max": seen.resident_max,
        "used_memory_excess": excess.used,
        "resident_excess": excess.resident,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_they_are_called() {
        let mut random = Prng::new(3);
        for round in 0..6 {
            for _ in 0..1000 {
                assert!(Sizes::Small.draw(round, &mut random) <= SMALL_BYTES_MAX);
                let large = Sizes::Large.draw(round, &mut random);
                assert!((LARGE_BYTES_MIN..=LARGE_BYTES_MAX).contains(&large));
            }
        }
        let mut drawn = |round: u64| -> (u64, u64) {
            let lengths = (0..20_000).map(|_| Sizes::Mixed.draw(round, &mut random));
            lengths.fold((0, 0), |(small, large), length| match length {
                ..LARGE_BYTES_MIN => (small + length, large),
                _ => (small, large + length),
            })
        };
        assert_eq!((drawn(0).1, drawn(1).0), (0, 0));
        let (small, large) = drawn(2);
        assert!(small < 4 * large && large < 4 * small, "{small} and {large} bytes");
    }

    #[test]
    fn the_bound_is_a_share_or_a_minimum() {
        assert_eq!(excess_allowed(1 << 20), 16 << 20);
        assert_eq!(excess_allowed(1 << 30), (1 << 30) / 20);
    }
}
