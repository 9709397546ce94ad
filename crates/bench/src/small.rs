//! How many keys small limits hold and how much memory small datasets take, for two servers in one
//! run.
//!
//! Values are of 1 to 1,024 random bytes. Under a limit, `allkeys-lru` decides which keys stay: the
//! more of them, the less memory is unused. Without one, used_memory above that of the empty server
//! is compared with the bytes of keys and values.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use base::prng::Prng;
use resp::Value;
use serde_json::json;

use crate::accounting;
use crate::compare::progress;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;

const VALUE_BYTES_MAX: u64 = 1024;
/// Writes that travel together.
const BATCH_WRITES: u64 = 64;
/// How often the limit is written: in units of its bytes by the mean bytes of an entry.
const LIMIT_ROUNDS: u64 = 3;
const MEAN_BYTES: u64 = VALUE_BYTES_MAX / 2;
const MIB: u64 = 1 << 20;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Small {
    /// The servers, one after the other in each row.
    pub servers: Vec<ServerSpec>,
    /// Values of maxmemory, in MiB.
    pub limits_mib: Vec<u64>,
    /// Numbers of keys without a limit.
    pub keys: Vec<u64>,
    /// The sizes and bytes of values.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// What one server held or took.
struct Row {
    /// What the row is about: a limit or a number of keys.
    title: String,
    figures: Vec<f64>,
}

impl Small {
    /// Runs it, prints its tables and writes its file.
    ///
    /// # Errors
    /// When a server fails.
    pub fn run(&self) -> anyhow::Result<()> {
        let limited =
            self.rows(&self.limits_mib, |limit| format!("{limit}mb"), Small::keys_held)?;
        let free = self.rows(&self.keys, |keys| format!("{keys} keys"), Small::ratio)?;
        let first = self.rows(&[1], |_| "first key".into(), Small::first_key)?;
        progress("");
        self.print("keys that stay under a limit", &limited, 0);
        self.print("used_memory above the empty server's, divided by the data", &free, 2);
        self.print("bytes that the first key adds", &first, 0);
        let rows = |rows: &[Row]| -> Vec<_> {
            rows.iter().map(|row| json!({ "row": row.title, "figures": row.figures })).collect()
        };
        let record = json!({
            "servers": self.servers.iter().map(ServerSpec::record).collect::<Vec<_>>(),
            "seed": self.seed,
            "value_bytes_max": VALUE_BYTES_MAX,
            "keys_held": rows(&limited),
            "memory_ratio": rows(&free),
            "first_key_bytes": rows(&first),
        });
        record::keep(self.results.as_deref(), "small", record)
    }

    fn rows(
        &self,
        amounts: &[u64],
        title: impl Fn(u64) -> String,
        measure: fn(&Small, &ServerSpec, u64) -> anyhow::Result<f64>,
    ) -> anyhow::Result<Vec<Row>> {
        let row = |&amount: &u64| {
            let title = title(amount);
            progress(&title);
            let figures = self.servers.iter().map(|spec| measure(self, spec, amount));
            Ok(Row { title, figures: figures.collect::<anyhow::Result<_>>()? })
        };
        amounts.iter().map(row).collect()
    }

    fn print(&self, title: &str, rows: &[Row], decimals: usize) {
        println!("{title}\n");
        print!("{:>14}", "");
        self.servers.iter().for_each(|spec| print!(" {:>14}", spec.name));
        println!();
        for row in rows {
            print!("{:>14}", row.title);
            row.figures.iter().for_each(|figure| print!(" {figure:>14.decimals$}"));
            println!();
        }
        println!();
    }

    /// Returns how many of three times as many keys as fit stay under a limit.
    fn keys_held(&self, spec: &ServerSpec, limit_mib: u64) -> anyhow::Result<f64> {
        let mut spec = spec.clone();
        let limit = (limit_mib * MIB).to_string();
        for option in ["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru"] {
            spec.options.push(option.to_owned());
        }
        let server = ServerProcess::start(&spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        self.write(&mut wire, LIMIT_ROUNDS * limit_mib * MIB / MEAN_BYTES)?;
        let Value::Integer(keys) = wire.call(&[b"DBSIZE"])? else { bail!("DBSIZE: no integer") };
        let used = accounting::used_memory(&mut wire)?;
        let allowed = limit_mib * MIB + crate::memory_limits::excess_allowed(limit_mib * MIB);
        ensure!(used <= allowed, "{} uses {used} bytes under {limit_mib} MiB", spec.name);
        Ok(keys as f64)
    }

    /// Returns used_memory above that of the empty server, divided by the bytes of `keys` keys and
    /// their values.
    fn ratio(&self, spec: &ServerSpec, keys: u64) -> anyhow::Result<f64> {
        let (added, data) = self.added(spec, |small, wire| small.write(wire, keys))?;
        Ok(added as f64 / data as f64)
    }

    /// Returns used_memory above that of the empty server after one small key.
    fn first_key(&self, spec: &ServerSpec, _: u64) -> anyhow::Result<f64> {
        let set = |_: &Small, wire: &mut Wire| wire.call(&[b"SET", b"first", b"value"]).map(|_| 10);
        Ok(self.added(spec, set)?.0 as f64)
    }

    /// Returns by how much `write` has used_memory grow, and what it returns.
    fn added(
        &self,
        spec: &ServerSpec,
        write: impl FnOnce(&Small, &mut Wire) -> anyhow::Result<u64>,
    ) -> anyhow::Result<(u64, u64)> {
        let server = ServerProcess::start(spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        // What the first call of a command makes, such as its histogram of times, is no key's.
        for warm in [&[&b"SET"[..], b"warm", b"value"][..], &[b"DEL", b"warm"]] {
            wire.call(warm)?;
        }
        accounting::used_memory(&mut wire)?;
        let empty = accounting::used_memory(&mut wire)?;
        let data = write(self, &mut wire)?;
        Ok((accounting::used_memory(&mut wire)?.saturating_sub(empty), data))
    }

    /// Writes `count` keys; returns the bytes of keys and values.
    fn write(&self, wire: &mut Wire, count: u64) -> anyhow::Result<u64> {
        let mut random = Prng::new(self.seed);
        let mut value = [0; VALUE_BYTES_MAX as usize];
        let mut data = 0;
        for start in (0..count).step_by(BATCH_WRITES as usize) {
            let batch = start..(start + BATCH_WRITES).min(count);
            for number in batch.clone() {
                let key = format!("key:{number}");
                let value = &mut value[..1 + random.below(VALUE_BYTES_MAX) as usize];
                random.fill(value);
                wire.queue(&[b"SET", key.as_bytes(), value]);
                data += (key.len() + value.len()) as u64;
            }
            wire.send()?;
            for _ in batch {
                match wire.receive()? {
                    Value::Simple(_) => {}
                    other => bail!("SET answered {other:?}"),
                }
            }
        }
        Ok(data)
    }
}
