//! `cache-sim`: replays a trace of requests to caches under several policies and of several sizes,
//! and compares their hit rates in a table and a picture.
//!
//! The caches keep no values; they, the policies and the traces are those of `policy::simulation`.
//! Here are the files, the table and the curves (`picture.rs`).

mod picture;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use policy::simulation::trace_files::{self, FORMATS, Format};
use policy::simulation::workloads::{WORKLOADS, Workload};
use policy::simulation::{
    AdaptiveCache, Attachment, Cache, Outcome, POLICIES, Policy, Setup, Trace, replay,
};
use serde_json::{Value, json};

use crate::record;

/// What a trace of a file is replayed to where no size is named: shares of its keys.
const SHARES_USUAL: [f64; 7] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8];
/// The most shards of the adaptive policy.
const SHARDS_MAX: u32 = 4096;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// A file, or the name of a workload.
    pub trace: String,
    pub format: Option<Format>,
    /// Empty: all.
    pub policies: Vec<Contender>,
    /// Empty: the size of the workload, or the usual shares of a file.
    pub sizes: Vec<CacheSize>,
    /// What each key takes beside its size.
    pub overhead_bytes: u32,
    /// The share of the requests that only fill the caches, in percent.
    pub warm_up_percent: u8,
    pub requests_max: usize,
    pub seed: u64,
    /// Where the curves are drawn; without it nowhere.
    pub picture: Option<PathBuf>,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// A policy, and how it is used.
#[derive(Clone, Debug)]
pub struct Contender {
    name: String,
    policy: &'static Policy,
    /// Where it is the adaptive one and told how.
    attachment: Option<Attachment>,
}

impl FromStr for Contender {
    type Err = anyhow::Error;

    /// Takes the name of a policy, or `adaptive:<shards>[:<samples>]`.
    fn from_str(text: &str) -> anyhow::Result<Contender> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(policy) = Policy::of(name) else {
            let names: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
            bail!("'{text}' is none of {}", names.join(", "));
        };
        let attachment = match rest {
            "" => None,
            _ if name != "adaptive" => bail!("'{name}' takes no numbers"),
            numbers => Some(attachment(numbers)?),
        };
        Ok(Contender { name: text.to_owned(), policy, attachment })
    }
}

impl From<&'static Policy> for Contender {
    fn from(policy: &'static Policy) -> Contender {
        Contender { name: policy.name.to_owned(), policy, attachment: None }
    }
}

/// Returns the names that a command line may have, each with what it means.
pub fn names_help() -> String {
    let section = |title: &str, rows: &mut dyn Iterator<Item = (&str, &str)>| {
        let lines = rows.map(|(name, about)| format!("\n  {name:<15}{about}"));
        format!("{title}:{}", lines.collect::<String>())
    };
    let told = ("adaptive:S[:N]", "the same in S shards, of which a choice looks at N keys");
    [
        section("Workloads", &mut WORKLOADS.iter().map(|one| (one.name, one.about))),
        section("Formats", &mut FORMATS.iter().map(|(name, _, about)| (*name, *about))),
        section("Policies", &mut POLICIES.iter().map(|one| (one.name, one.about)).chain([told])),
    ]
    .join("\n\n")
}

fn attachment(numbers: &str) -> anyhow::Result<Attachment> {
    let (shards, samples) = numbers.split_once(':').unwrap_or((numbers, ""));
    let shard_count = shards.parse().with_context(|| format!("shards: '{shards}'"))?;
    let mut attachment = Attachment { shard_count, ..Attachment::default() };
    if !samples.is_empty() {
        attachment.samples = samples.parse().with_context(|| format!("samples: '{samples}'"))?;
    }
    ensure!((1..=SHARDS_MAX).contains(&attachment.shard_count), "1 to {SHARDS_MAX} shards");
    ensure!((1..=1024).contains(&attachment.samples), "1 to 1024 samples");
    Ok(attachment)
}

/// The memory of a cache: bytes, or a share of the trace's keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    Bytes(u64),
    Share(f64),
}

impl FromStr for CacheSize {
    type Err = anyhow::Error;

    /// Takes bytes with a unit (`64mb`, `2gb`; 1024 for each step) or percent (`5%`).
    fn from_str(text: &str) -> anyhow::Result<CacheSize> {
        let refuse = || format!("'{text}' is neither bytes (as 64mb) nor a share (as 5%)");
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().with_context(refuse)?;
            ensure!(percent > 0.0 && percent <= 1000.0, refuse());
            return Ok(CacheSize::Share(percent / 100.0));
        }
        let lower = text.to_ascii_lowercase();
        let digits = lower.trim_end_matches(|byte: char| byte.is_ascii_alphabetic());
        let shift = match &lower[digits.len()..] {
            "" | "b" => 0,
            "kb" | "k" => 10,
            "mb" | "m" => 20,
            "gb" | "g" => 30,
            _ => bail!(refuse()),
        };
        let bytes = digits.parse::<u64>().with_context(refuse)?.checked_mul(1 << shift);
        let bytes = bytes.filter(|bytes| *bytes > 0).with_context(refuse)?;
        Ok(CacheSize::Bytes(bytes))
    }
}

/// One cache that was replayed to.
#[derive(Clone, Debug)]
struct Run {
    policy: String,
    capacity_bytes: u64,
    outcome: Outcome,
    policy_bytes: u64,
    advice: Option<Value>,
}

impl Simulation {
    /// Runs it, prints its table, draws its picture and writes its file.
    ///
    /// # Errors
    /// When the trace cannot be read, or a file cannot be written.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.warm_up_percent < 100, "nothing is left to be counted");
        let (mut trace, usual) = self.load()?;
        for request in &mut trace.requests {
            request.bytes = request.bytes.saturating_add(self.overhead_bytes);
        }
        let footprint = trace.footprint_bytes();
        let mut sizes: Vec<u64> = match self.sizes.is_empty() {
            true => usual,
            false => self.sizes.iter().map(|size| bytes_of(*size, footprint)).collect(),
        };
        sizes.sort_unstable();
        let keys = trace.keys_used();
        println!(
            "{}: {} requests of {keys} keys, {} MiB; {} % of the requests are counted\n",
            self.trace,
            trace.requests.len(),
            footprint >> 20,
            100 - self.warm_up_percent,
        );
        let mut runs = Vec::new();
        for capacity_bytes in sizes {
            let key_bytes = (footprint / u64::from(keys.max(1))).max(1);
            let (key_count, seed) = (trace.key_count, self.seed);
            let setup = Setup { capacity_bytes, key_count, key_bytes, seed };
            let of_size = self.run_size(&trace, &setup);
            print_table(&of_size);
            runs.extend(of_size);
        }
        if let Some(path) = &self.picture {
            picture::draw(path, &self.trace, &curves(&runs))?;
            println!("{}", path.display());
        }
        record::keep(self.results.as_deref(), "cache-sim", self.result(&trace, &runs))
    }

    /// Returns the trace, and the sizes that it is replayed to where none is named.
    fn load(&self) -> anyhow::Result<(Trace, Vec<u64>)> {
        if let Some(workload) = Workload::of(&self.trace) {
            let mut made = workload.make(self.seed);
            made.trace.requests.truncate(self.requests_max);
            return Ok((made.trace, vec![made.capacity_bytes]));
        }
        let path = Path::new(&self.trace);
        let unknown = || {
            let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
            format!("'{}' is no file, and none of {}", self.trace, names.join(", "))
        };
        let mut file = BufReader::new(File::open(path).with_context(unknown)?);
        let format = match self.format {
            Some(format) => format,
            None => Format::guess(&self.trace, file.fill_buf().with_context(unknown)?),
        };
        let trace = trace_files::read(&mut file, format, self.requests_max);
        let trace = trace.with_context(|| format!("{} as {format:?}", path.display()))?;
        let footprint = trace.footprint_bytes();
        let usual = SHARES_USUAL.map(|share| bytes_of(CacheSize::Share(share), footprint));
        Ok((trace, usual.to_vec()))
    }

    fn run_size(&self, trace: &Trace, setup: &Setup) -> Vec<Run> {
        let warm_up = trace.requests.len() * usize::from(self.warm_up_percent) / 100;
        let contenders = match self.policies.is_empty() {
            true => POLICIES.iter().map(Contender::from).collect(),
            false => self.policies.clone(),
        };
        let runs = contenders.into_iter().map(|contender| {
            let mut run = Run {
                policy: contender.name,
                capacity_bytes: setup.capacity_bytes,
                outcome: Outcome::default(),
                policy_bytes: 0,
                advice: None,
            };
            if let Some(attachment) = contender.attachment {
                let mut cache = AdaptiveCache::new(setup, attachment);
                run.outcome = replay(trace, &mut cache, warm_up);
                run.policy_bytes = cache.policy_bytes();
                run.advice = cache.advice().map(advice);
            } else {
                let mut cache = contender.policy.cache(setup);
                run.outcome = replay(trace, &mut *cache, warm_up);
                run.policy_bytes = cache.policy_bytes();
            }
            run
        });
        runs.collect()
    }

    fn result(&self, trace: &Trace, runs: &[Run]) -> Value {
        let rows = runs.iter().map(|run| {
            json!({
                "policy": run.policy,
                "capacity_bytes": run.capacity_bytes,
                "hit_rate": run.outcome.hit_rate(),
                "byte_hit_rate": run.outcome.byte_hit_rate(),
                "policy_bytes": run.policy_bytes,
                "advice": run.advice,
            })
        });
        json!({
            "trace": self.trace,
            "requests": trace.requests.len(),
            "keys": trace.keys_used(),
            "overhead_bytes": self.overhead_bytes,
            "warm_up_percent": self.warm_up_percent,
            "seed": self.seed,
            "rows": rows.collect::<Vec<Value>>(),
        })
    }
}

fn advice(advice: policy::Advice) -> Value {
    json!({
        "now": advice.now,
        "half_memory": advice.half_memory,
        "double_memory": advice.double_memory,
        "lru": advice.lru,
        "lru_half_memory": advice.lru_half_memory,
        "lru_double_memory": advice.lru_double_memory,
    })
}

fn bytes_of(size: CacheSize, footprint: u64) -> u64 {
    match size {
        CacheSize::Bytes(bytes) => bytes,
        CacheSize::Share(share) => ((footprint as f64 * share) as u64).max(1),
    }
}

fn print_table(runs: &[Run]) {
    let Some(first) = runs.first() else { return };
    println!("cache of {}", size_text(first.capacity_bytes));
    println!("{:<14} {:>9} {:>10} {:>14}", "policy", "hit rate", "byte rate", "policy memory");
    for run in runs {
        let memory = match run.policy_bytes {
            0 => "-".to_owned(),
            bytes => size_text(bytes),
        };
        let (hits, bytes) = (run.outcome.hit_rate(), run.outcome.byte_hit_rate());
        let (hits, bytes) = (hits * 100.0, bytes * 100.0);
        println!("{:<14} {hits:>8.2}% {bytes:>9.2}% {memory:>14}", run.policy);
    }
    println!();
}

fn size_text(bytes: u64) -> String {
    match bytes {
        0..0x2800 => format!("{bytes} B"),
        0x2800..0xA0_0000 => format!("{} KiB", bytes >> 10),
        0xA0_0000..0x2_8000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// Returns a curve for each policy: cache sizes in MiB, and miss ratios in percent.
fn curves(runs: &[Run]) -> Vec<picture::Curve> {
    let mut curves: Vec<picture::Curve> = Vec::new();
    for run in runs {
        let point = (
            run.capacity_bytes as f64 / f64::from(1 << 20),
            100.0 - run.outcome.hit_rate() * 100.0,
        );
        match curves.iter_mut().find(|curve| curve.name == run.policy) {
            Some(curve) => curve.points.push(point),
            None => {
                curves.push(picture::Curve { name: run.policy.clone(), points: vec![point] });
            }
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_with_units_or_shares() {
        let size = |text: &str| text.parse::<CacheSize>();
        assert_eq!(size("64mb").expect("bytes"), CacheSize::Bytes(64 << 20));
        assert_eq!(size("100").expect("bytes"), CacheSize::Bytes(100));
        assert_eq!(size("2.5%").expect("a share"), CacheSize::Share(0.025));
        for text in ["", "0", "-1", "5 %", "1tb", "x%", "0%", "99999999999gb"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn policies_are_known_by_name_and_the_adaptive_one_takes_shards_and_samples() {
        let contender = |text: &str| text.parse::<Contender>();
        assert!(POLICIES.iter().all(|policy| contender(policy.name).is_ok()));
        let told = contender("adaptive:16:8").expect("shards and samples").attachment;
        let told = told.expect("it is told how");
        assert_eq!((told.shard_count, told.samples), (16, 8));
        for text in ["mru", "lru:3", "adaptive:0", "adaptive:x", "adaptive:4:0"] {
            assert!(contender(text).is_err(), "{text}");
        }
    }

    #[test]
    fn curve_of_a_policy_has_its_points_in_the_order_of_sizes() {
        let run = |policy: &str, mib: u64, hits| Run {
            policy: policy.to_owned(),
            capacity_bytes: mib << 20,
            outcome: Outcome { requests: 100, hits, bytes: 0, hit_bytes: 0 },
            policy_bytes: 0,
            advice: None,
        };
        let found = curves(&[run("lru", 1, 10), run("arc", 1, 20), run("lru", 2, 30)]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].points, [(1.0, 90.0), (2.0, 70.0)]);
    }
}
