//! The hit rate of a full cache: the same trace of requests to Forebay and to another server, under
//! the same eviction policy.
//!
//! A request is a GET, and a SET where that found nothing. Both servers get the same maxmemory; as
//! Forebay keeps more keys in it, it also runs with a limit at which it holds about as many keys as
//! the other, so that the choice of victims alone is compared.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use base::prng::Prng;
use resp::Value;
use serde_json::json;

use crate::accounting::used_memory;
use crate::compare::progress;
use crate::key_distribution::{KeyChooser, KeyDistribution};
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::wire::Wire;

/// Requests that travel together.
const BATCH: u64 = 64;
/// How many limits are tried until as many keys are held.
const TRIALS_MAX: u32 = 4;
/// By which share of the other's keys Forebay may have more or fewer then, in percent.
const KEYS_PERCENT_MAX: u64 = 1;

/// What is measured.
#[derive(Clone, Debug)]
pub struct HitRates {
    /// Forebay.
    pub subject: ServerSpec,
    /// The server to compare with.
    pub other: ServerSpec,
    /// maxmemory, in bytes.
    pub limit: u64,
    /// Keys that requests choose from.
    pub key_count: u64,
    /// The length of each value.
    pub value_bytes: usize,
    /// Requests of each trace; the second half is counted.
    pub requests: u64,
    pub policies: Vec<String>,
    /// Keys that each choice of a victim looks at.
    pub samples: Vec<u32>,
    /// The traces, by name.
    pub traces: Vec<Trace>,
    /// The choices of keys.
    pub seed: u64,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trace {
    /// By their rank, as in a Zipf distribution of this exponent.
    Zipf(f64),
    /// As above, and a fifth of the requests goes once through keys that never come again.
    Scan(f64),
    /// As in the first, but the ranks move on to other keys: all of them in the time of the trace.
    Drift(f64),
}

impl std::str::FromStr for Trace {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Trace> {
        let (name, exponent) = text.split_once(':').unwrap_or((text, "0.9"));
        let exponent = exponent.parse()?;
        match name {
            "zipf" => Ok(Trace::Zipf(exponent)),
            "scan" => Ok(Trace::Scan(exponent)),
            "drift" => Ok(Trace::Drift(exponent)),
            _ => bail!("'{text}' is none of zipf:<exponent>, scan:<exponent>, drift:<exponent>"),
        }
    }
}

impl Trace {
    fn name(self) -> String {
        match self {
            Trace::Zipf(exponent) => format!("zipf:{exponent}"),
            Trace::Scan(exponent) => format!("scan:{exponent}"),
            Trace::Drift(exponent) => format!("drift:{exponent}"),
        }
    }

    fn exponent(self) -> f64 {
        match self {
            Trace::Zipf(exponent) | Trace::Scan(exponent) | Trace::Drift(exponent) => exponent,
        }
    }
}

/// The keys of one trace, in order.
struct Keys {
    trace: Trace,
    chooser: KeyChooser,
    random: Prng,
    key_count: u64,
    requests: u64,
    position: u64,
}

impl Keys {
    fn next(&mut self) -> u64 {
        self.position += 1;
        let rank = self.chooser.next_index();
        match self.trace {
            Trace::Scan(_) if self.random.one_in(5) => self.key_count + self.position,
            Trace::Drift(_) => {
                let shift = u128::from(self.key_count) * u128::from(self.position);
                (rank + (shift / u128::from(self.requests)) as u64) % self.key_count
            }
            _ => rank,
        }
    }
}

/// What one run came to.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    hits: u64,
    asked: u64,
    keys: u64,
    used_memory: u64,
}

impl Seen {
    fn percent(self) -> f64 {
        self.hits as f64 / self.asked.max(1) as f64 * 100.0
    }
}

impl HitRates {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails or refuses a request.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.requests >= 2 * BATCH && self.limit > 0, "requests and a limit are needed");
        println!(
            "{:<10} {:<12} {:>7} {:>10} {:>10} {:>12} {:>9} {:>9}",
            "trace", "policy", "samples", "other", "same bytes", "same keys", "keys", "of other"
        );
        let (mut rows, mut lost) = (Vec::new(), 0);
        for &trace in &self.traces {
            for policy in &self.policies {
                for &samples in &self.samples {
                    let other = self.measure(&self.other, trace, policy, samples, self.limit)?;
                    let subject =
                        self.measure(&self.subject, trace, policy, samples, self.limit)?;
                    let (limit, equal) =
                        self.with_keys(other.keys, subject, trace, policy, samples)?;
                    progress("");
                    println!(
                        "{:<10} {policy:<12} {samples:>7} {:>9.2}% {:>9.2}% {:>11.2}% {:>9} {:>9}",
                        trace.name(),
                        other.percent(),
                        subject.percent(),
                        equal.percent(),
                        subject.keys,
                        other.keys,
                    );
                    lost += u32::from(equal.percent().min(subject.percent()) < other.percent());
                    rows.push(json!({
                        "trace": trace.name(),
                        "policy": policy,
                        "samples": samples,
                        "other": row(other, self.limit),
                        "same_bytes": row(subject, self.limit),
                        "same_keys": row(equal, limit),
                    }));
                }
            }
        }
        println!("\nforebay has fewer hits in {lost} of {} rows", rows.len());
        record::keep(self.results.as_deref(), "hit-rate", self.record(rows))
    }

    /// Measures with the limit at which about `keys` keys are held, beginning with what was `seen`
    /// at the usual limit; returns the limit too.
    fn with_keys(
        &self,
        keys: u64,
        seen: Seen,
        trace: Trace,
        policy: &str,
        samples: u32,
    ) -> anyhow::Result<(u64, Seen)> {
        let (mut limit, mut equal) = (self.limit, seen);
        for _ in 0..TRIALS_MAX {
            let allowed = keys * KEYS_PERCENT_MAX / 100;
            if equal.keys.abs_diff(keys) <= allowed {
                break;
            }
            let each = self.limit.saturating_sub(self.base(policy)?) / seen.keys.max(1);
            limit = limit.saturating_add_signed((keys as i64 - equal.keys as i64) * each as i64);
            equal = self.measure(&self.subject, trace, policy, samples, limit)?;
        }
        Ok((limit, equal))
    }

    /// Returns the bytes that Forebay uses without a key.
    fn base(&self, policy: &str) -> anyhow::Result<u64> {
        let server = ServerProcess::start(&with_policy(&self.subject, policy, 5, self.limit))?;
        used_memory(&mut Wire::connect(&server.unix())?)
    }

    fn measure(
        &self,
        spec: &ServerSpec,
        trace: Trace,
        policy: &str,
        samples: u32,
        limit: u64,
    ) -> anyhow::Result<Seen> {
        let spec = with_policy(spec, policy, samples, limit);
        progress(&format!("{}: {policy} {} samples {samples}", spec.name, trace.name()));
        let server = ServerProcess::start(&spec)?;
        let mut wire = Wire::connect(&server.unix())?;
        let distribution = KeyDistribution::Zipf { exponent: trace.exponent() };
        let mut keys = Keys {
            trace,
            chooser: KeyChooser::new(distribution, self.key_count, 0, self.seed),
            random: Prng::new(self.seed),
            key_count: self.key_count,
            requests: self.requests,
            position: 0,
        };
        let value = vec![b'v'; self.value_bytes];
        let mut seen = Seen::default();
        for batch in 0..self.requests / BATCH {
            let names: Vec<String> = (0..BATCH).map(|_| key(keys.next())).collect();
            let hits = ask(&mut wire, &names, &value)?;
            if batch >= self.requests / BATCH / 2 {
                seen.hits += hits;
                seen.asked += BATCH;
            }
        }
        let Value::Integer(keys) = wire.call(&[b"DBSIZE"])? else { bail!("DBSIZE: no integer") };
        seen.keys = keys as u64;
        seen.used_memory = used_memory(&mut wire)?;
        Ok(seen)
    }

    fn record(&self, rows: Vec<serde_json::Value>) -> serde_json::Value {
        json!({
            "subject": self.subject.record(),
            "other": self.other.record(),
            "limit_bytes": self.limit,
            "key_count": self.key_count,
            "value_bytes": self.value_bytes,
            "requests": self.requests,
            "seed": self.seed,
            "rows": rows,
        })
    }
}

fn row(seen: Seen, limit: u64) -> serde_json::Value {
    json!({
        "hit_percent": seen.percent(),
        "keys": seen.keys,
        "used_memory": seen.used_memory,
        "limit_bytes": limit,
    })
}

fn with_policy(spec: &ServerSpec, policy: &str, samples: u32, limit: u64) -> ServerSpec {
    let mut spec = spec.clone();
    for (option, value) in [
        ("--maxmemory", limit.to_string()),
        ("--maxmemory-policy", policy.to_owned()),
        ("--maxmemory-samples", samples.to_string()),
    ] {
        spec.options.extend([option.to_owned(), value]);
    }
    spec
}

/// Asks for `names` and sets those that are not there; returns how many were.
fn ask(wire: &mut Wire, names: &[String], value: &[u8]) -> anyhow::Result<u64> {
    names.iter().for_each(|name| wire.queue(&[b"GET", name.as_bytes()]));
    wire.send()?;
    let mut missing = Vec::new();
    for name in names {
        match wire.receive()? {
            Value::Bulk(_) => {}
            Value::Null => missing.push(name),
            other => bail!("GET answered {other:?}"),
        }
    }
    missing.iter().for_each(|name| wire.queue(&[b"SET", name.as_bytes(), value]));
    wire.send()?;
    for _ in &missing {
        match wire.receive()? {
            Value::Simple(_) => {}
            other => bail!("SET answered {other:?}"),
        }
    }
    Ok((names.len() - missing.len()) as u64)
}

fn key(number: u64) -> String {
    format!("hit:{number:012}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(trace: Trace) -> Vec<u64> {
        let distribution = KeyDistribution::Zipf { exponent: trace.exponent() };
        let mut keys = Keys {
            trace,
            chooser: KeyChooser::new(distribution, 1000, 0, 7),
            random: Prng::new(7),
            key_count: 1000,
            requests: 10_000,
            position: 0,
        };
        (0..10_000).map(|_| keys.next()).collect()
    }

    #[test]
    fn traces_are_what_their_names_say() {
        let parse = |text: &str| text.parse::<Trace>().unwrap();
        let first = |keys: &[u64]| keys.iter().filter(|&&key| key == 0).count();
        let zipf = keys(parse("zipf:1.1"));
        assert!(zipf.iter().all(|&key| key < 1000) && first(&zipf) > 1000);
        let scan = keys(parse("scan"));
        let once = scan.iter().filter(|&&key| key >= 1000).count();
        assert!((1800..2200).contains(&once), "{once} of 10,000 come once");
        let drift = keys(parse("drift:1.1"));
        assert!(first(&drift[..100]) > 0 && first(&drift[5_000..6_000]) < 20);
        assert!("fifo".parse::<Trace>().is_err());
    }
}
