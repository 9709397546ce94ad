//! What each command of the command line does with its arguments.

use std::time::Duration;

use anyhow::{bail, ensure};
use clap::Parser;
use serde_json::json;

use super::*;
use crate::bare_log;
use crate::bare_server;
use crate::cache::Caches;
use crate::cache_sim::Simulation;
use crate::churn::Churn;
use crate::compare::Comparison;
use crate::demo::Demonstration;
use crate::hit_rate::HitRates;
use crate::instructions::Instructions;
use crate::kills::Kills;
use crate::load::{Load, Report};
use crate::local::Local;
use crate::memcached::Memcached;
use crate::memory_limits::Limits;
use crate::memory_of_collections::Collections;
use crate::memory_per_key::Measurement;
use crate::one_sided_reads::Reads;
use crate::pipeline::Pipelines;
use crate::record;
use crate::restart::Restart;
use crate::small::Small;
use crate::snapshot::Snapshot;
use crate::tables::Transport;
use crate::workload::Workload;

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
        Command::BareServer { port } => bare_server::serve(port),
        Command::BareLog { port, socket, folder } => bare_log::serve(port, &socket, &folder),
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
    if arguments.bare && arguments.table != Table::Durable {
        bail!("--bare is of the table 'durable': it has a log and no store");
    }
    let mut subject =
        if arguments.bare { ServerSpec::bare()? } else { arguments.servers.subject()? };
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
        adds_bare: arguments.bare,
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

fn restart(RestartArguments { files, records }: RestartArguments) -> anyhow::Result<()> {
    Restart {
        subject: files.servers.subject()?,
        other: files.servers.other(),
        keys: files.keys,
        value_bytes: files.value_bytes,
        records,
        rounds: files.rounds,
        seed: files.seed,
        results: record::folder(files.results.results),
    }
    .run()
}

fn snapshot(SnapshotArguments { files, rate }: SnapshotArguments) -> anyhow::Result<()> {
    Snapshot {
        subject: files.servers.subject()?,
        other: files.servers.other(),
        keys: files.keys,
        value_bytes: files.value_bytes,
        rate,
        rounds: files.rounds,
        seed: files.seed,
        results: record::folder(files.results.results),
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
