//! The hit rate of caches with equal process memory, over the wire: the published workloads against
//! Forebay's adaptive policy, redis-server's LRU and LFU, and memcached.
//!
//! A request is a lookup, and a write where that found nothing. Each server gets the memory limit
//! at which the most memory that its process ever had (VmHWM) is just below a bound that is the
//! same for all, so that every byte counts: index, ghosts, buffers, what an allocator wastes.
//! Values are random bytes. The second half of the requests is counted.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use base::prng::{Prng, mix};
use policy::simulation::workloads::Workload;
use policy::simulation::{Cache, Policy, Request, Setup, Trace, replay};
use serde_json::json;

use crate::accounting;
use crate::cache::memcached_wire::MemcachedWire;
use crate::compare::progress;
use crate::key_distribution::{KeyChooser, KeyDistribution};
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;
use resp::Value;

pub(crate) mod memcached_wire;

/// Requests that travel together where values are small.
const BATCH: usize = 64;
/// Values of this mean size and above travel one by one.
const LARGE_BYTES: u64 = 64 << 10;
/// Random bytes that values are parts of.
const POOL_BYTES: usize = 8 << 20;
/// How far below the bound the memory of a process may stay, in thousandths.
const BELOW_MAX: u64 = 2;
/// How far below it a limit aims, in thousandths: one run has a little more memory than another.
const AIMED_BELOW_THOUSANDTHS: u64 = 1;
/// Looks for the length of each value that travel together.
const LENGTHS_BATCH: usize = 1024;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Caches {
    /// Forebay.
    pub subject: ServerSpec,
    /// redis-server, or one like it.
    pub other: ServerSpec,
    pub memcached: ServerSpec,
    /// Which workloads run.
    pub workloads: Vec<String>,
    /// Which contenders run.
    pub contenders: Vec<String>,
    /// The part of each trace that is run, in percent; memory stays as it is.
    pub requests_percent: usize,
    /// How many limits are tried for each contender.
    pub trials: u32,
    /// The choices of keys and sizes.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// The names of the workloads.
pub const WORKLOADS: [&str; 4] = ["seed", "seed-512k", "seed-1k", "zipf-keys"];
/// The names of the contenders.
pub const CONTENDERS: [&str; 4] = ["adaptive", "allkeys-lru", "allkeys-lfu", "memcached"];

/// A trace, and the memory that a process may have for it.
struct Load {
    trace: Trace,
    memory: u64,
    /// Keys have 16 to 47 bytes, not the fewest that tell them apart.
    has_long_keys: bool,
}

impl Load {
    fn of(name: &str, seed: u64) -> anyhow::Result<Load> {
        if name == "zipf-keys" {
            return Ok(Load { trace: zipf_keys(seed), memory: 100 << 20, has_long_keys: true });
        }
        let workload = Workload::of(name).with_context(|| format!("no workload '{name}'"))?;
        let made = workload.make(seed);
        Ok(Load { trace: made.trace, memory: made.capacity_bytes, has_long_keys: false })
    }

    fn key(&self, number: u32) -> String {
        let mut key = number.to_string();
        if self.has_long_keys {
            let length = 16 + mix(u64::from(number)) as usize % 32;
            key.insert_str(0, &"k".repeat(length - key.len()));
        }
        key
    }

    fn batch(&self) -> usize {
        let requests = &self.trace.requests;
        let bytes: u64 = requests.iter().map(|one| u64::from(one.bytes)).sum();
        if bytes / requests.len() as u64 >= LARGE_BYTES { 1 } else { BATCH }
    }
}

/// Returns requests by a Zipf distribution over a million keys, with values of up to 1 KiB.
fn zipf_keys(seed: u64) -> Trace {
    const KEYS: u32 = 1_000_000;
    const REQUESTS: u32 = 4_000_000;
    let distribution = KeyDistribution::Zipf { exponent: 1.0 };
    let mut chooser = KeyChooser::new(distribution, u64::from(KEYS), 0, seed);
    let request = |_| {
        let key = chooser.next_index() as u32;
        Request { key, bytes: (mix(u64::from(key) ^ seed) % 1025) as u32, second: 0 }
    };
    Trace { requests: (0..REQUESTS).map(request).collect(), key_count: KEYS }
}

/// What one run came to.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    limit: u64,
    hits: u64,
    asked: u64,
    refused: u64,
    peak_bytes: u64,
    value_bytes: u64,
    cpu_us: f64,
}

impl Seen {
    fn hit_percent(self) -> f64 {
        self.hits as f64 / self.asked.max(1) as f64 * 100.0
    }
}

/// A connection that speaks what the server speaks.
enum Speaker {
    Resp(Wire),
    Memcached(MemcachedWire),
}

impl Speaker {
    /// Returns which of the keys have a value.
    fn look_up(&mut self, keys: &[String]) -> anyhow::Result<Vec<bool>> {
        let wire = match self {
            Speaker::Memcached(wire) => return wire.get(keys),
            Speaker::Resp(wire) => wire,
        };
        keys.iter().for_each(|key| wire.queue(&[b"GET", key.as_bytes()]));
        wire.send()?;
        let found = keys.iter().map(|_| match wire.receive()? {
            Value::Bulk(_) => Ok(true),
            Value::Null => Ok(false),
            other => bail!("GET answered {other:?}"),
        });
        found.collect()
    }

    /// Writes the values, and returns how many were refused.
    fn write(&mut self, values: &[(&str, &[u8])]) -> anyhow::Result<u64> {
        let wire = match self {
            Speaker::Memcached(wire) => return wire.set(values),
            Speaker::Resp(wire) => wire,
        };
        values.iter().for_each(|(key, value)| wire.queue(&[b"SET", key.as_bytes(), value]));
        wire.send()?;
        let mut refused = 0;
        for _ in values {
            match wire.receive()? {
                Value::Simple(_) => {}
                Value::Error(_) => refused += 1,
                other => bail!("SET answered {other:?}"),
            }
        }
        Ok(refused)
    }

    /// Returns the bytes of the values of `keys` that are there.
    fn value_bytes(&mut self, keys: &[String]) -> anyhow::Result<u64> {
        let wire = match self {
            Speaker::Memcached(wire) => return wire.value_bytes(keys),
            Speaker::Resp(wire) => wire,
        };
        keys.iter().for_each(|key| wire.queue(&[b"STRLEN", key.as_bytes()]));
        wire.send()?;
        let lengths = keys.iter().map(|_| match wire.receive()? {
            Value::Integer(length) => Ok(length as u64),
            other => bail!("STRLEN answered {other:?}"),
        });
        lengths.sum()
    }
}

impl Caches {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!((1..=100).contains(&self.requests_percent), "a part of the requests is needed");
        println!(
            "{:<10} {:<12} {:>8} {:>9} {:>9} {:>10} {:>10} {:>8}",
            "workload",
            "contender",
            "hits",
            "payload",
            "peak MiB",
            "limit MiB",
            "us/request",
            "refused"
        );
        let mut rows = Vec::new();
        for name in &self.workloads {
            let mut load = Load::of(name, self.seed)?;
            let count = load.trace.requests.len() * self.requests_percent / 100;
            load.trace.requests.truncate(count);
            let simulated = simulate(&load);
            println!("{name:<10} {:<12} {simulated:>7.2}%", "simulated");
            rows.push(json!({
                "workload": name, "contender": "simulated", "hit_percent": simulated,
                "memory_bytes": load.memory,
            }));
            for contender in &self.contenders {
                let seen = self.fit(contender, &load)?;
                progress("");
                println!(
                    "{name:<10} {contender:<12} {:>7.2}% {:>8.2}% {:>9.1} {:>10.1} {:>10.2} {:>8}",
                    seen.hit_percent(),
                    seen.value_bytes as f64 / load.memory as f64 * 100.0,
                    seen.peak_bytes as f64 / f64::from(1 << 20),
                    seen.limit as f64 / f64::from(1 << 20),
                    seen.cpu_us,
                    seen.refused,
                );
                rows.push(json!({
                    "workload": name,
                    "contender": contender,
                    "hit_percent": seen.hit_percent(),
                    "memory_bytes": load.memory,
                    "peak_bytes": seen.peak_bytes,
                    "limit_bytes": seen.limit,
                    "value_bytes": seen.value_bytes,
                    "server_cpu_us_per_request": seen.cpu_us,
                    "requests": load.trace.requests.len(),
                    "counted": seen.asked,
                    "refused": seen.refused,
                }));
            }
        }
        let record = json!({
            "subject": self.subject.record(),
            "other": self.other.record(),
            "memcached": self.memcached.record(),
            "requests_percent": self.requests_percent,
            "seed": self.seed,
            "rows": rows,
        });
        record::keep(self.results.as_deref(), "cache", record)
    }

    /// Runs with the limit at which the process has about as much memory as it may, and never more.
    fn fit(&self, contender: &str, load: &Load) -> anyhow::Result<Seen> {
        let (mut limit, mut best) = (load.memory / 100 * 97, None::<Seen>);
        for _ in 0..self.trials {
            let seen = self.measure(contender, load, limit)?;
            let spare = load.memory as i64 - seen.peak_bytes as i64;
            progress(&format!("{contender}: limit {limit}, {spare} bytes to spare"));
            if spare >= 0 && best.is_none_or(|best| best.limit < limit) {
                best = Some(seen);
            }
            if spare >= 0 && spare as u64 <= load.memory * BELOW_MAX / 1000 {
                break;
            }
            let aim = spare - (load.memory * AIMED_BELOW_THOUSANDTHS / 1000) as i64;
            let scaled = aim as f64 * limit as f64 / seen.peak_bytes as f64;
            limit = limit.saturating_add_signed(scaled as i64);
        }
        best.with_context(|| format!("{contender}: no limit kept within the memory"))
    }

    fn measure(&self, contender: &str, load: &Load, limit: u64) -> anyhow::Result<Seen> {
        let server = ServerProcess::start(&self.spec(contender, limit)?)?;
        let mut speaker = match contender {
            "memcached" => Speaker::Memcached(MemcachedWire::connect(&server.tcp())?),
            _ => Speaker::Resp(Wire::connect(&server.tcp())?),
        };
        let mut pool = vec![0; POOL_BYTES];
        Prng::new(self.seed).fill(&mut pool);
        let requests = &load.trace.requests;
        let mut seen = Seen { limit, ..Seen::default() };
        let (mut position, mut cpu_before) = (0, None);
        for batch in requests.chunks(load.batch()) {
            if position >= requests.len() / 2 && cpu_before.is_none() {
                cpu_before = Some(accounting::cpu_time(server.id())?);
            }
            let hits = ask(&mut speaker, load, batch, &pool, &mut seen.refused)?;
            if cpu_before.is_some() {
                seen.asked += batch.len() as u64;
                seen.hits += hits;
            }
            position += batch.len();
            if position % 4096 < batch.len() {
                progress(&format!("{contender}: {position} of {} requests", requests.len()));
            }
        }
        let cpu = accounting::cpu_time(server.id())? - cpu_before.unwrap_or_default();
        seen.cpu_us = cpu.as_secs_f64() * 1e6 / seen.asked.max(1) as f64;
        seen.peak_bytes = accounting::peak_resident(server.id())?;
        let keys: Vec<u32> = (0..load.trace.key_count).collect();
        for some in keys.chunks(LENGTHS_BATCH) {
            let names: Vec<String> = some.iter().map(|key| load.key(*key)).collect();
            seen.value_bytes += speaker.value_bytes(&names)?;
        }
        Ok(seen)
    }

    fn spec(&self, contender: &str, limit: u64) -> anyhow::Result<ServerSpec> {
        let (mut spec, options) = match contender {
            "memcached" => {
                let mib = (limit >> 20).to_string();
                // Without -u it refuses to run as root; others are not asked.
                let options = ["-m", &mib, "-I", "2m", "-u", "root"].map(str::to_owned);
                (self.memcached.clone(), options.to_vec())
            }
            "adaptive" | "allkeys-lru" | "allkeys-lfu" => {
                let spec = match contender {
                    "adaptive" => self.subject.clone(),
                    _ => self.other.clone(),
                };
                let limit = limit.to_string();
                let policy = contender.to_owned();
                let options =
                    vec!["--maxmemory".into(), limit, "--maxmemory-policy".into(), policy];
                (spec, options)
            }
            _ => bail!("'{contender}' is none of {}", CONTENDERS.join(", ")),
        };
        spec.options.extend(options);
        Ok(spec)
    }
}

/// Asks for the keys of `batch` and writes those that are not there; returns how many were.
fn ask(
    speaker: &mut Speaker,
    load: &Load,
    batch: &[Request],
    pool: &[u8],
    refused: &mut u64,
) -> anyhow::Result<u64> {
    let keys: Vec<String> = batch.iter().map(|request| load.key(request.key)).collect();
    let found = speaker.look_up(&keys)?;
    let missing = batch.iter().zip(&keys).zip(&found).filter(|(_, found)| !**found);
    let values: Vec<(&str, &[u8])> = missing
        .map(|((request, key), _)| {
            let bytes = request.bytes as usize;
            let start = mix(u64::from(request.key)) as usize % (POOL_BYTES - bytes);
            (key.as_str(), &pool[start..start + bytes])
        })
        .collect();
    if !values.is_empty() {
        *refused += speaker.write(&values)?;
    }
    Ok((batch.len() - values.len()) as u64)
}

/// Returns the hit rate of the policy's simulation in percent, where keys take nothing but values.
fn simulate(load: &Load) -> f64 {
    let setup = Setup {
        capacity_bytes: load.memory,
        key_count: load.trace.key_count,
        key_bytes: 1,
        seed: 47,
    };
    let policy = Policy::of("adaptive-64").expect("it is one of the policies");
    let mut cache: Box<dyn Cache> = policy.cache(&setup);
    replay(&load.trace, &mut *cache, load.trace.requests.len() / 2).hit_rate() * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_lengths_that_they_are_to_have_and_differ() {
        let trace = Trace { requests: Vec::new(), key_count: 1000 };
        let load = Load { trace, memory: 1, has_long_keys: true };
        let keys: Vec<String> = (0..1000).map(|number| load.key(number)).collect();
        assert!(keys.iter().all(|key| (16..=47).contains(&key.len())));
        assert!(keys.iter().any(|key| key.len() == 16) && keys.iter().any(|key| key.len() == 47));
        let distinct: std::collections::HashSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn every_workload_can_be_made() {
        for name in WORKLOADS.iter().filter(|name| **name != "zipf-keys") {
            assert!(Workload::of(name).is_some(), "{name}");
        }
        assert!(Load::of("nonsense", 1).is_err());
    }
}
