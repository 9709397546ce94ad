//! How much of a full memory holds values, and how far memory strays from its limit: values of
//! uniform size are written until many times the limit has gone through.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base::prng::Prng;
use resp::Value;
use serde_json::json;

use crate::accounting;
use crate::compare::progress;
use crate::memory_limits::excess_allowed;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;

/// How many STRLENs travel together when what lives is summed up.
const STRLEN_BATCH: u64 = 512;
/// Writes between two looks at the server's memory.
const WRITES_PER_LOOK: u64 = 64;

/// A run of writes into a bounded memory.
#[derive(Clone, Debug)]
pub struct Churn {
    pub server: ServerSpec,
    /// maxmemory, in bytes.
    pub limit: u64,
    /// Values are of `0..=value_bytes_max` bytes, each size as likely.
    pub value_bytes_max: u64,
    /// How many times the limit is written.
    pub rounds: u64,
    /// The choices of keys and sizes.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    written_bytes: u64,
    writes: u64,
    resident_max: u64,
    live_keys: u64,
    live_bytes: u64,
    used_memory: u64,
    cpu: Duration,
}

impl Churn {
    /// Runs it, prints what it saw and writes its file.
    ///
    /// # Errors
    /// When the server fails, refuses a write, or holds more memory than it may.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.limit > 0 && self.rounds > 0, "a limit and a number of rounds are needed");
        let mut spec = self.server.clone();
        for (option, value) in
            [("--maxmemory", self.limit.to_string()), ("--maxmemory-policy", "allkeys-lru".into())]
        {
            spec.options.extend([option.to_owned(), value]);
        }
        let server = ServerProcess::start(&spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        let mut seen = Seen::default();
        self.write(&server, &mut wire, &mut seen)?;
        self.sum_up(&mut wire, &mut seen)?;
        progress("");
        let utilisation = seen.live_bytes as f64 / self.limit as f64 * 100.0;
        let excess = seen.resident_max as i64 - self.limit as i64;
        println!(
            "{}: {} keys hold {} bytes of a limit of {}: {utilisation:.2} %\n\
             used_memory {}, resident at most {} ({excess:+} bytes against the limit)\n\
             {} writes of {} bytes in all, {:.1} us of server CPU each",
            spec.name,
            seen.live_keys,
            seen.live_bytes,
            self.limit,
            seen.used_memory,
            seen.resident_max,
            seen.writes,
            seen.written_bytes,
            seen.cpu.as_secs_f64() * 1e6 / seen.writes as f64,
        );
        record::keep(self.results.as_deref(), "churn", self.record(&spec, &seen))?;
        let allowed = excess_allowed(self.limit) as i64;
        ensure!(excess <= allowed, "resident memory is {excess} bytes above the limit");
        Ok(())
    }

    fn write(
        &self,
        server: &ServerProcess,
        wire: &mut Wire,
        seen: &mut Seen,
    ) -> anyhow::Result<()> {
        let mut random = Prng::new(self.seed);
        let mut value = vec![0; self.value_bytes_max as usize];
        random.fill(&mut value);
        let before = accounting::cpu_time(server.id())?;
        let goal = self.limit * self.rounds;
        while seen.written_bytes < goal {
            let length = random.below(self.value_bytes_max + 1) as usize;
            let key = key(random.below(self.key_count()));
            let reply = wire.call(&[b"SET", key.as_bytes(), &value[..length]]);
            let context = || format!("{length} bytes after {} writes", seen.writes);
            match reply.with_context(context)? {
                Value::Simple(_) => {}
                other => bail!("SET answered {other:?}"),
            }
            seen.written_bytes += length as u64;
            seen.writes += 1;
            if seen.writes.is_multiple_of(WRITES_PER_LOOK) {
                let resident = accounting::resident(server.id())?.total;
                seen.resident_max = seen.resident_max.max(resident);
                progress(&format!("{} of {} MiB written", seen.written_bytes >> 20, goal >> 20));
            }
        }
        seen.cpu = accounting::cpu_time(server.id())? - before;
        Ok(())
    }

    /// Asks for the length of every value that lives.
    fn sum_up(&self, wire: &mut Wire, seen: &mut Seen) -> anyhow::Result<()> {
        let mut first = 0;
        while first < self.key_count() {
            let end = (first + STRLEN_BATCH).min(self.key_count());
            (first..end).for_each(|number| wire.queue(&[b"STRLEN", key(number).as_bytes()]));
            wire.send()?;
            for _ in first..end {
                let Value::Integer(length) = wire.receive()? else { bail!("STRLEN: no integer") };
                seen.live_bytes += length as u64;
            }
            first = end;
        }
        let Value::Integer(keys) = wire.call(&[b"DBSIZE"])? else { bail!("DBSIZE: no integer") };
        seen.live_keys = keys as u64;
        seen.used_memory = accounting::used_memory(wire)?;
        Ok(())
    }

    /// Twice as many keys as fit, so that a write meets a present key about as often as not.
    fn key_count(&self) -> u64 {
        (self.limit * 4 / self.value_bytes_max.max(1)).max(64)
    }

    fn record(&self, spec: &ServerSpec, seen: &Seen) -> serde_json::Value {
        json!({
            "server": spec.record(),
            "limit_bytes": self.limit,
            "value_bytes_max": self.value_bytes_max,
            "rounds": self.rounds,
            "seed": self.seed,
            "live_keys": seen.live_keys,
            "live_value_bytes": seen.live_bytes,
            "used_memory": seen.used_memory,
            "resident_max": seen.resident_max,
            "writes": seen.writes,
            "written_bytes": seen.written_bytes,
            "server_cpu_s": seen.cpu.as_secs_f64(),
        })
    }
}

fn key(number: u64) -> String {
    format!("churn:{number:010}")
}
