//! The command line: its commands, and the arguments of each.
//!
//! *Layout*: `cli/commands.rs` does what they ask for.

mod commands;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use policy::simulation::trace_files::Format;

use crate::cache;
use crate::cache_sim::{self, CacheSize, Contender};
use crate::demo;
use crate::hit_rate::Trace;
use crate::key_distribution::KeyDistribution;
use crate::local::floors;
use crate::memory_limits::{self, Sizes};
use crate::one_sided_reads;
use crate::pipeline;
use crate::server_process::{self, ServerSpec};
use crate::tables::{DataSet, Table};
use crate::target::Target;
use crate::workload::Operation;
use crate::{bare_log, bare_server};

pub use commands::run;

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
    #[command(name = bare_server::BARE_COMMAND, hide = true)]
    BareServer { port: u16 },
    #[command(name = bare_log::BARE_LOG_COMMAND, hide = true)]
    BareLog { port: u16, socket: PathBuf, folder: PathBuf },
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
    /// Measures a server with a log and no store in Forebay's place, in the table `durable`: what a
    /// write that is on the disk before its reply takes at least where a sync is quick
    #[arg(long, conflicts_with_all = ["aa", "forebay", "forebay_options"])]
    bare: bool,
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
    /// Measures get and set of a server without a store too: how far Forebay's could go
    #[arg(long)]
    bare: bool,
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

/// What the commands share that measure files of a dataset.
#[derive(Args)]
struct FileArguments {
    #[command(flatten)]
    servers: ServerArguments,
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    #[arg(long, default_value_t = 64)]
    value_bytes: usize,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    results: ResultsArgument,
}

#[derive(Args)]
struct RestartArguments {
    #[command(flatten)]
    files: FileArguments,
    /// Writes behind the snapshot of the log, each of a key that is there
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
}

#[derive(Args)]
struct SnapshotArguments {
    #[command(flatten)]
    files: FileArguments,
    /// Writes per second
    #[arg(long, default_value_t = 50_000.0)]
    rate: f64,
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
