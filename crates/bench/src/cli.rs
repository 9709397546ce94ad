//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use policy::simulation::trace_files::Format;
use serde_json::json;

use crate::cache::{self, Caches};
use crate::cache_sim::{self, CacheSize, Contender, Simulation};
use crate::churn::Churn;
use crate::compare::Comparison;
use crate::demo::{self, Demonstration};
use crate::hit_rate::{HitRates, Trace};
use crate::instructions::Instructions;
use crate::key_distribution::KeyDistribution;
use crate::kills::Kills;
use crate::load::{Load, Report};
use crate::local::{Local, floors};
use crate::memcached::Memcached;
use crate::memory_limits::{self, Limits, Sizes};
use crate::memory_of_collections::Collections;
use crate::memory_per_key::Measurement;
use crate::one_sided_reads::{self, Reads};
use crate::pipeline::{self, Pipelines};
use crate::record;
use crate::restart::Restart;
use crate::server_process::{self, ServerSpec};
use crate::small::Small;
use crate::snapshot::Snapshot;
use crate::tables::{DataSet, Table, Transport};
use crate::target::Target;
use crate::workload::{Operation, Workload};

#[derive(Parser)]
#[command(name = "forebay-bench", version, about = "Measures servers that speak RESP")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Puts a load on one server and reports its speed
    Run(RunArguments),
    /// Starts Forebay and another server and compares them
    Compare(CompareArguments),
    /// Starts Forebay and another server and measures their memory per key
    Memory(MemoryArguments),
    /// Writes many times its memory limit to a server, and tells how full and how far above it gets
    Churn(ChurnArguments),
    /// Writes many times its memory limit to a server under every eviction policy, with values of
    /// every size, and tells how far above it gets
    Limits(LimitsArguments),
    /// Starts Forebay and another server and measures what small limits hold and small datasets
    /// take
    Small(SmallArguments),
    /// Starts Forebay and another server again and again and compares how long it takes until their
    /// data are there
    Restart(RestartArguments),
    /// Starts Forebay and another server and compares what a snapshot in the background costs who
    /// writes meanwhile
    Snapshot(SnapshotArguments),
    /// Starts Forebay and another server and compares how often their full caches have a key
    HitRate(HitRateArguments),
    /// Starts Forebay, another server and memcached, each with as much memory as its process may
    /// have, and compares the hit rates of the published workloads
    Cache(CacheArguments),
    /// Replays a trace to simulated caches under several eviction policies and compares their hit
    /// rates; starts no server
    #[command(after_long_help = cache_sim::names_help())]
    CacheSim(CacheSimArguments),
    /// Starts Forebay and measures reads through its shared memory
    Reader(ReaderArguments),
    /// Starts Forebay twice and measures what clients that are killed cost its other clients; needs
    /// forebay-peer, the client that the tests kill
    Kills(KillsArguments),
    /// Compares the processor time of operations of memcached's protocol with memcached's
    Memcached(MemcachedArguments),
    /// Starts Forebay and another server and measures what a process on their host pays for reads
    /// and writes by every way there is, beside what the machine takes at least
    Local(LocalArguments),
    /// Starts Forebay and another server and measures both and miniredis with a Go program (redigo)
    Pipeline(PipelineArguments),
    /// Counts the instructions that Forebay, or two builds of it, take for an operation; needs
    /// valgrind
    Instructions(InstructionsArguments),
    /// Loads the files of this machine, reads them back every way, and checks every byte
    Demo(DemoArguments),
    #[command(name = one_sided_reads::READS_COMMAND, hide = true)]
    ReadForCount { socket: PathBuf, reads: u64 },
    #[command(name = floors::PARTNER_COMMAND, hide = true)]
    FloorPartner { memory: PathBuf },
    #[command(name = server_process::KEEPER_COMMAND, hide = true)]
    Keep {
        folder: PathBuf,
        program: OsString,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Args)]
struct RunArguments {
    /// redis://host:port[/database], unix:///path, or shm:///path for lanes
    #[arg(long, default_value = "redis://127.0.0.1:6379")]
    url: Target,
    /// Password for AUTH
    #[arg(long)]
    password: Option<String>,
    /// ping-inline, ping, set, get, incr, mset<keys>, mget<keys>, mixed:<percent of GET>, or a row
    /// of the table `commands` (setex, bitop-and); several run one after the other
    #[arg(long, default_value = "set,get", value_delimiter = ',')]
    operation: Vec<Operation>,
    #[command(flatten)]
    data: DataArguments,
    /// Sets every key once before the first run
    #[arg(long)]
    preload: bool,
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Requests that a connection sends at once
    #[arg(long, default_value_t = 1)]
    pipeline: usize,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Ends each run after so many requests
    #[arg(long)]
    requests: Option<u64>,
    /// Ends each run after so many seconds; 10 when neither this nor --requests is given
    #[arg(long)]
    seconds: Option<f64>,
    /// Open loop: requests per second of all connections; latencies count from the time at which
    /// a request was due to be sent
    #[arg(long)]
    rate: Option<f64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints one JSON object per run
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct DataArguments {
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    #[arg(long, default_value_t = 16)]
    key_bytes: usize,
    #[arg(long, default_value_t = 64)]
    value_bytes: usize,
    /// uniform, zipf:<exponent> or sequential
    #[arg(long, default_value = "uniform")]
    distribution: KeyDistribution,
}

impl DataArguments {
    fn data(&self) -> DataSet {
        DataSet {
            key_count: self.keys,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            distribution: self.distribution,
        }
    }
}

#[derive(Args)]
struct ResultsArgument {
    /// Folder of the result file, made if absent; not given, bench/results if that exists, and
    /// otherwise nothing is recorded
    #[arg(long)]
    results: Option<PathBuf>,
}

#[derive(Args)]
struct ServerArguments {
    /// The forebay program; the one beside this program if not given
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// The server to compare with
    #[arg(long, default_value = "redis-server")]
    against: PathBuf,
    /// An option for Forebay with its value, as in "workers 2"; may be repeated
    #[arg(long = "forebay-option")]
    forebay_options: Vec<String>,
    /// An option for the other server
    #[arg(long = "against-option")]
    against_options: Vec<String>,
}

impl ServerArguments {
    fn subject(&self) -> anyhow::Result<ServerSpec> {
        let mut spec = demo::server(self.forebay.as_deref())?;
        spec.options = options(&self.forebay_options);
        Ok(spec)
    }

    /// Returns the one server that is measured.
    fn one(&self, is_other: bool) -> anyhow::Result<ServerSpec> {
        if is_other { Ok(self.other()) } else { self.subject() }
    }

    fn other(&self) -> ServerSpec {
        let mut spec = ServerSpec::new(&self.against);
        spec.options = options(&self.against_options);
        spec
    }
}

/// Turns "workers 2" into "--workers", "2".
fn options(lines: &[String]) -> Vec<String> {
    let mut options = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace();
        options.extend(words.next().map(|name| format!("--{}", name.trim_start_matches("--"))));
        options.extend(words.map(str::to_owned));
    }
    options
}

#[derive(Clone, Copy, ValueEnum)]
enum Transports {
    Unix,
    Tcp,
    Both,
}

#[derive(Args)]
struct CompareArguments {
    #[arg(long, value_enum, default_value = "core")]
    table: Table,
    /// Only the rows whose name contains this
    #[arg(long)]
    filter: Option<String>,
    #[command(flatten)]
    servers: ServerArguments,
    /// Compares Forebay with itself: what the method's own error is
    #[arg(long, conflicts_with = "against")]
    aa: bool,
    /// Sockets of the table `pipeline`
    #[arg(long, value_enum, default_value = "both")]
    transport: Transports,
    #[command(flatten)]
    data: DataArguments,
    /// Runs of each row on each server
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Seconds of each run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Bytes of the effect sink's ring in the table `sink`
    #[arg(long, default_value = "64mb")]
    sink_bytes: String,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct MemoryArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// Measures Forebay alone
    #[arg(long)]
    alone: bool,
    #[arg(long, default_value_t = 3_000_000)]
    from: u64,
    #[arg(long, default_value_t = 8_000_000)]
    to: u64,
    #[arg(long, default_value_t = 500_000)]
    step: u64,
    #[arg(long, default_value_t = 16)]
    key_bytes: usize,
    #[arg(long, default_value_t = 16)]
    value_bytes: usize,
    /// Measures collections: many small ones, and a large one of each type
    #[arg(long, conflicts_with_all = ["from", "to", "step", "key_bytes", "value_bytes"])]
    collections: bool,
    /// Number of small collections, and of the elements of a large one
    #[arg(long, default_value_t = 1_000_000, requires = "collections")]
    count: u64,
    /// Only the rows of collections whose name contains this
    #[arg(long, requires = "collections")]
    filter: Option<String>,
    #[arg(long, default_value_t = 1, requires = "collections")]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct ChurnArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// Measures the server of --against, not Forebay
    #[arg(long)]
    other: bool,
    /// maxmemory, in bytes
    #[arg(long, default_value_t = 1 << 30)]
    limit: u64,
    /// Sizes of values are uniform from 0 to this
    #[arg(long, default_value_t = 1 << 20)]
    value_bytes_max: u64,
    /// How many times the limit is written
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct LimitsArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// Measures the server of --against, not Forebay
    #[arg(long)]
    other: bool,
    /// Values of maxmemory, in MiB
    #[arg(long, value_delimiter = ',', default_value = "10,50,256")]
    limits_mib: Vec<u64>,
    /// How many times the limit is written
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    #[arg(long, value_delimiter = ',', default_value = memory_limits::POLICIES)]
    policies: Vec<String>,
    #[arg(long, value_enum, value_delimiter = ',', default_value = "small,large,mixed")]
    sizes: Vec<Sizes>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct KillsArguments {
    /// The forebay program; the one beside this program if not given
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// The forebay-peer program; the one beside this program if not given
    #[arg(long)]
    peer: Option<PathBuf>,
    /// How many clients are killed
    #[arg(long, default_value_t = 1_000)]
    clients: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct MemcachedArguments {
    /// The forebay program; the one beside this program if not given
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// The memcached to compare with
    #[arg(long, default_value = "memcached")]
    against: PathBuf,
    /// Times that each row is measured on each server
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct SmallArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// Measures Forebay alone
    #[arg(long)]
    alone: bool,
    /// Values of maxmemory, in MiB
    #[arg(long, value_delimiter = ',', default_value = "10,20,50,100")]
    limits_mib: Vec<u64>,
    /// Numbers of keys without a limit
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000,1000000")]
    keys: Vec<u64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct RestartArguments {
    #[command(flatten)]
    servers: ServerArguments,
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    #[arg(long, default_value_t = 64)]
    value_bytes: usize,
    /// Writes behind the snapshot of the log, each of a key that is there
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct SnapshotArguments {
    #[command(flatten)]
    servers: ServerArguments,
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    #[arg(long, default_value_t = 64)]
    value_bytes: usize,
    /// Writes per second
    #[arg(long, default_value_t = 50_000.0)]
    rate: f64,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct HitRateArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// maxmemory, in bytes
    #[arg(long, default_value_t = 32 << 20)]
    limit: u64,
    /// Keys that requests choose from
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    #[arg(long, default_value_t = 200)]
    value_bytes: usize,
    /// Requests of each trace; the second half is counted
    #[arg(long, default_value_t = 4_000_000)]
    requests: u64,
    #[arg(long, value_delimiter = ',', default_value = "allkeys-lru,allkeys-lfu")]
    policies: Vec<String>,
    /// Values of maxmemory-samples
    #[arg(long, value_delimiter = ',', default_value = "5,10")]
    samples: Vec<u32>,
    /// zipf:<exponent>, scan:<exponent> (a fifth of the keys comes once), drift:<exponent> (the
    /// ranks move on to other keys)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "zipf:0.7,zipf:0.9,zipf:1.0,zipf:1.1,scan:0.9,drift:0.9"
    )]
    traces: Vec<Trace>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct CacheArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// The memcached program
    #[arg(long, default_value = "memcached")]
    memcached: PathBuf,
    /// Workloads: seed, seed-512k, seed-1k, zipf-keys
    #[arg(long, value_delimiter = ',', default_values = cache::WORKLOADS)]
    workloads: Vec<String>,
    /// Contenders: adaptive (Forebay), allkeys-lru, allkeys-lfu, memcached
    #[arg(long, value_delimiter = ',', default_values = cache::CONTENDERS)]
    contenders: Vec<String>,
    /// The part of each trace that is run, in percent
    #[arg(long, default_value_t = 100)]
    requests_percent: usize,
    /// How many limits are tried for each contender, until its process has as much memory as it may
    #[arg(long, default_value_t = 4)]
    trials: u32,
    #[arg(long, default_value_t = 47)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct CacheSimArguments {
    /// A file, or the name of a workload (--help lists them)
    trace: String,
    /// The format of a file (--help lists them); guessed if not given
    #[arg(long)]
    format: Option<Format>,
    /// Policies (--help lists them); all if not given
    #[arg(long, value_delimiter = ',')]
    policies: Vec<Contender>,
    /// Sizes of the cache, as 64mb, or as 5% of all keys; the workload's own if not given, or seven
    /// shares from 1 % to 80 % of a file's keys
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<CacheSize>,
    /// Bytes that each key takes beside its size
    #[arg(long, default_value_t = 0)]
    overhead: u32,
    /// The first requests fill the caches and are not counted, in percent
    #[arg(long, default_value_t = 50)]
    warm_up: u8,
    /// Reads no more than so many requests
    #[arg(long, default_value_t = 100_000_000)]
    requests_max: usize,
    #[arg(long, default_value_t = 47)]
    seed: u64,
    /// Draws the curves of misses over sizes, as SVG
    #[arg(long)]
    picture: Option<PathBuf>,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct ReaderArguments {
    /// The forebay program; the one beside this program if not given
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// Number of keys of 16 bytes with values of 64
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Samples of each row
    #[arg(long, default_value_t = 10_001)]
    samples: usize,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct LocalArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// Sizes of values in bytes; the bounds need those of the default
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "64,1024,16384,65536,262144,1048576,4194304"
    )]
    sizes: Vec<usize>,
    /// Clients of the rows with several
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Rounds, in each of which every row is measured once
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Milliseconds of each row in each round
    #[arg(long, default_value_t = 20)]
    slice_ms: u64,
    /// Only the rows whose name contains this, as in "SET 64 B"; the floors always
    #[arg(long)]
    filter: Option<String>,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct PipelineArguments {
    #[command(flatten)]
    servers: ServerArguments,
    /// Folder of the Go program's source
    #[arg(long, default_value = pipeline::SOURCE)]
    source: PathBuf,
    /// Times that each row is measured on each server
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long one measurement takes, as Go writes times, or its batches, as in 100x
    #[arg(long, default_value = "200ms")]
    bench_time: String,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct InstructionsArguments {
    /// The forebay program; the one beside this program if not given
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// The forebay program of another build, to compare with
    #[arg(long)]
    against: Option<PathBuf>,
    /// Only the rows whose name contains this, as in "GET P16"
    #[arg(long)]
    filter: Option<String>,
    /// Operations of each row; a multiple of 16
    #[arg(long, default_value_t = 20_000)]
    operations: u64,
    /// Number of keys of 16 bytes with values of 64
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct DemoArguments {
    /// The forebay program; the one beside this program if not given
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// Takes no more files beyond this many bytes
    #[arg(long, default_value_t = 1 << 30)]
    bytes_max: u64,
    /// Seconds of each run of the short benchmark
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
}

/// Does what the command line of this process asks for.
///
/// # Errors
/// When that fails; the error says what and where.
pub fn run() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Run(arguments) => run_loads(&arguments),
        Command::Compare(arguments) => compare(arguments),
        Command::Memory(arguments) => memory(arguments),
        Command::Churn(arguments) => Churn {
            server: arguments.servers.one(arguments.other)?,
            limit: arguments.limit,
            value_bytes_max: arguments.value_bytes_max,
            rounds: arguments.rounds,
            seed: arguments.seed,
            results: record::folder(arguments.results.results),
        }
        .run(),
        Command::Limits(arguments) => limits(arguments),
        Command::Kills(arguments) => kills(arguments),
        Command::Memcached(arguments) => memcached(arguments),
        Command::Small(arguments) => small(arguments),
        Command::Restart(arguments) => restart(arguments),
        Command::Snapshot(arguments) => snapshot(arguments),
        Command::HitRate(arguments) => HitRates {
            subject: arguments.servers.subject()?,
            other: arguments.servers.other(),
            limit: arguments.limit,
            key_count: arguments.keys,
            value_bytes: arguments.value_bytes,
            requests: arguments.requests,
            policies: arguments.policies,
            samples: arguments.samples,
            traces: arguments.traces,
            seed: arguments.seed,
            results: record::folder(arguments.results.results),
        }
        .run(),
        Command::Cache(arguments) => caches(arguments),
        Command::CacheSim(arguments) => cache_sim(arguments),
        Command::Reader(arguments) => Reads {
            server: demo::server(arguments.forebay.as_deref())?,
            key_count: arguments.keys,
            samples: arguments.samples,
            results: record::folder(arguments.results.results),
        }
        .run(),
        Command::ReadForCount { socket, reads } => one_sided_reads::read_for_count(&socket, reads),
        Command::Local(arguments) => local(arguments),
        Command::FloorPartner { memory } => floors::partner(&memory),
        Command::Pipeline(arguments) => Pipelines {
            subject: arguments.servers.subject()?,
            other: arguments.servers.other(),
            source: arguments.source,
            rounds: arguments.rounds,
            bench_time: arguments.bench_time,
            results: record::folder(arguments.results.results),
        }
        .run(),
        Command::Instructions(arguments) => instructions(arguments),
        Command::Demo(arguments) => Demonstration {
            server: demo::server(arguments.forebay.as_deref())?,
            bytes_max: arguments.bytes_max,
            run_time: seconds(arguments.seconds)?,
        }
        .run(),
        Command::Keep { folder, program, arguments } => {
            server_process::keep(&folder, &program, &arguments)
        }
    }
}

fn caches(arguments: CacheArguments) -> anyhow::Result<()> {
    Caches {
        subject: arguments.servers.subject()?,
        other: arguments.servers.other(),
        memcached: ServerSpec::new(arguments.memcached),
        workloads: arguments.workloads,
        contenders: arguments.contenders,
        requests_percent: arguments.requests_percent,
        trials: arguments.trials,
        seed: arguments.seed,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn cache_sim(arguments: CacheSimArguments) -> anyhow::Result<()> {
    Simulation {
        trace: arguments.trace,
        format: arguments.format,
        policies: arguments.policies,
        sizes: arguments.sizes,
        overhead_bytes: arguments.overhead,
        warm_up_percent: arguments.warm_up,
        requests_max: arguments.requests_max,
        seed: arguments.seed,
        picture: arguments.picture,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn seconds(number: f64) -> anyhow::Result<Duration> {
    ensure!(number > 0.0 && number <= 1e6, "{number} is not a number of seconds to run for");
    Ok(Duration::from_secs_f64(number))
}

fn run_loads(arguments: &RunArguments) -> anyhow::Result<()> {
    let data = arguments.data.data();
    if arguments.preload {
        ensure!(arguments.password.is_none(), "--preload cannot authenticate; load with a run");
        crate::compare::preload(&arguments.url, &data, 0, data.key_count)?;
        crate::compare::progress("");
    }
    let duration_max = match (arguments.requests, arguments.seconds) {
        (None, None) => Some(seconds(10.0)?),
        (_, given) => given.map(seconds).transpose()?,
    };
    let mut wrong = 0;
    for &operation in &arguments.operation {
        let load = Load {
            target: arguments.url.clone(),
            password: arguments.password.clone(),
            workload: Workload {
                operation,
                key_count: data.key_count,
                key_bytes: data.key_bytes,
                value_bytes: data.value_bytes,
                distribution: data.distribution,
            },
            connections: arguments.connections,
            pipeline: arguments.pipeline,
            threads: arguments.threads,
            requests_max: arguments.requests,
            duration_max,
            rate: arguments.rate,
            seed: arguments.seed,
        };
        let report = load.connect()?.run()?;
        wrong += report.wrong;
        print_report(operation, &report, arguments.json);
    }
    ensure!(wrong == 0, "{wrong} replies were wrong");
    Ok(())
}

fn print_report(operation: Operation, report: &Report, is_json: bool) {
    if is_json {
        let line = json!({
            "operation": operation.to_string(),
            "operations": report.operations,
            "seconds": report.elapsed.as_secs_f64(),
            "operations_per_second": report.operations_per_second(),
            "p50_us": report.latency_us(50.0),
            "p99_us": report.latency_us(99.0),
            "p999_us": report.latency_us(99.9),
            "max_us": report.latencies.max() as f64 / 1000.0,
            "missing": report.missing,
            "wrong": report.wrong,
            "unsent": report.unsent,
            "generator_cpu_s": report.client_cpu.as_secs_f64(),
        });
        println!("{line}");
        return;
    }
    println!(
        "{:12} {:>10.0} ops/s   p50 {:>8.1} us   p99 {:>8.1} us   p99.9 {:>8.1} us   \
         max {:>8.1} us   {} in {:.2} s",
        operation.to_string(),
        report.operations_per_second(),
        report.latency_us(50.0),
        report.latency_us(99.0),
        report.latency_us(99.9),
        report.latencies.max() as f64 / 1000.0,
        report.operations,
        report.elapsed.as_secs_f64(),
    );
    for (count, what) in [
        (report.missing, "replies were for absent keys"),
        (report.wrong, "replies were errors or not what was due"),
        (report.unsent, "requests found no free connection before the end"),
    ] {
        if count > 0 {
            println!("{:12} {count} {what}", "");
        }
    }
    if let Some(error) = &report.first_error {
        println!("{:12} the first error: {error}", "");
    }
}

fn compare(arguments: CompareArguments) -> anyhow::Result<()> {
    let mut subject = arguments.servers.subject()?;
    let mut other = arguments.servers.other();
    if arguments.table == Table::Sink || arguments.aa {
        other = subject.clone();
    }
    if arguments.table == Table::Sink {
        if arguments.aa {
            bail!("the table 'sink' compares Forebay with itself already");
        }
        for (spec, bytes) in [(&mut subject, "0"), (&mut other, &*arguments.sink_bytes)] {
            spec.options.extend(["--effect-backlog-size".to_owned(), bytes.to_owned()]);
        }
        other.name = "with sink".to_owned();
    }
    let log = |spec: &mut ServerSpec, keeps: &str| {
        // A rewrite takes a time of its own, on Redis in a process of its own.
        let rewrites = ["--auto-aof-rewrite-percentage", "0"];
        let options = ["--appendonly", keeps, "--appendfsync", "everysec"];
        spec.options.extend(options.into_iter().chain(rewrites).map(str::to_owned));
    };
    match arguments.table {
        Table::Durable => {
            log(&mut subject, "yes");
            log(&mut other, "yes");
        }
        Table::Log => {
            other = subject.clone();
            other.name = "without log".to_owned();
            log(&mut subject, "yes");
        }
        _ => {}
    }
    if arguments.aa {
        other.name = format!("{} again", subject.name);
    }
    Comparison {
        table: arguments.table,
        filter: arguments.filter,
        subject,
        other,
        transports: match arguments.transport {
            Transports::Unix => vec![Transport::Unix],
            Transports::Tcp => vec![Transport::Tcp],
            Transports::Both => vec![Transport::Unix, Transport::Tcp],
        },
        data: arguments.data.data(),
        connections: arguments.connections,
        threads: arguments.threads,
        pairs: arguments.pairs,
        run_time: seconds(arguments.seconds)?,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn local(arguments: LocalArguments) -> anyhow::Result<()> {
    Local {
        subject: arguments.servers.subject()?,
        other: arguments.servers.other(),
        sizes: arguments.sizes,
        clients: arguments.clients,
        rounds: arguments.rounds,
        slice: Duration::from_millis(arguments.slice_ms),
        filter: arguments.filter,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn memory(arguments: MemoryArguments) -> anyhow::Result<()> {
    let mut servers = vec![arguments.servers.subject()?];
    if !arguments.alone {
        servers.push(arguments.servers.other());
    }
    let results = record::folder(arguments.results.results);
    if arguments.collections {
        let (count, seed) = (arguments.count, arguments.seed);
        return Collections { servers, count, filter: arguments.filter, seed, results }.run();
    }
    Measurement {
        servers,
        from: arguments.from,
        to: arguments.to,
        step: arguments.step,
        key_bytes: arguments.key_bytes,
        value_bytes: arguments.value_bytes,
        results,
    }
    .run()
}

fn limits(arguments: LimitsArguments) -> anyhow::Result<()> {
    Limits {
        server: arguments.servers.one(arguments.other)?,
        limits: arguments.limits_mib.iter().map(|mib| mib << 20).collect(),
        rounds: arguments.rounds,
        policies: arguments.policies,
        sizes: arguments.sizes,
        seed: arguments.seed,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn kills(arguments: KillsArguments) -> anyhow::Result<()> {
    let peer = match arguments.peer {
        Some(peer) => std::path::absolute(peer)?,
        None => std::env::current_exe()?.with_file_name("forebay-peer"),
    };
    ensure!(peer.is_file(), "{} is not there; build it, or name it with --peer", peer.display());
    Kills {
        server: demo::server(arguments.forebay.as_deref())?,
        peer,
        count: arguments.clients,
        seed: arguments.seed,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn memcached(arguments: MemcachedArguments) -> anyhow::Result<()> {
    Memcached {
        forebay: demo::server(arguments.forebay.as_deref())?.program,
        other: arguments.against,
        rounds: arguments.rounds,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn small(arguments: SmallArguments) -> anyhow::Result<()> {
    let mut servers = vec![arguments.servers.subject()?];
    if !arguments.alone {
        servers.push(arguments.servers.other());
    }
    Small {
        servers,
        limits_mib: arguments.limits_mib,
        keys: arguments.keys,
        seed: arguments.seed,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn restart(arguments: RestartArguments) -> anyhow::Result<()> {
    Restart {
        subject: arguments.servers.subject()?,
        other: arguments.servers.other(),
        keys: arguments.keys,
        value_bytes: arguments.value_bytes,
        records: arguments.records,
        rounds: arguments.rounds,
        seed: arguments.seed,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn snapshot(arguments: SnapshotArguments) -> anyhow::Result<()> {
    Snapshot {
        subject: arguments.servers.subject()?,
        other: arguments.servers.other(),
        keys: arguments.keys,
        value_bytes: arguments.value_bytes,
        rate: arguments.rate,
        rounds: arguments.rounds,
        seed: arguments.seed,
        results: record::folder(arguments.results.results),
    }
    .run()
}

fn instructions(arguments: InstructionsArguments) -> anyhow::Result<()> {
    let subject = demo::server(arguments.forebay.as_deref())?;
    Instructions {
        servers: arguments.against.map(ServerSpec::new).into_iter().chain([subject]).collect(),
        filter: arguments.filter,
        operations: arguments.operations,
        key_count: arguments.keys,
        seed: arguments.seed,
        results: record::folder(arguments.results.results),
    }
    .run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_get_their_dashes() {
        let lines = ["workers 2".to_owned(), "--io-threads 4".to_owned()];
        assert_eq!(options(&lines), ["--workers", "2", "--io-threads", "4"]);
    }
}
