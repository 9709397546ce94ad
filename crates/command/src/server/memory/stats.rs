//! MEMORY STATS: where memory goes, as figures.

use crate::host::observe::{MemoryReport, ratio};
use crate::prelude::*;

pub(super) static STATS: Command = Command {
    name: "memory|stats",
    summary: "Returns where memory goes, as figures.",
    since: "4.0.0",
    complexity: "O(N), N being the number of databases",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::UNGUARDED,
    note: "`overhead.hashtable.main` is the share of the index that falls to the keys of \
           the database; `overhead.hashtable.expires` is 0, as a time to live stands in its \
           entry. What does not exist here (replicas, scripts, functions, a cluster, an \
           append-only file) is 0.",
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    example: "> MEMORY STATS\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let report = cx.host.memory_report();
    let header = reply.deferred();
    let mut count = 0;
    for (name, figure) in figures(&report) {
        count += 1;
        reply.bulk(name);
        match figure {
            Figure::Whole(number) => reply.integer(number),
            Figure::Part(number) => reply.double(number),
            Figure::Map(pairs) => {
                reply.map(pairs.len());
                for (name, number) in pairs {
                    reply.bulk(name);
                    reply.integer(number);
                }
            }
        }
    }
    reply.finish(header, |reply| reply.map(count));
    Ok(Next::Done)
}

enum Figure {
    Whole(i64),
    Part(f64),
    Map(Vec<(&'static str, i64)>),
}

/// Returns the figures in Redis's order.
fn figures(report: &MemoryReport) -> Vec<(String, Figure)> {
    let whole = |bytes: u64| Figure::Whole(bytes as i64);
    let mut figures: Vec<(String, Figure)> = Vec::new();
    let mut add = |name: &str, figure: Figure| figures.push((name.to_owned(), figure));
    add("peak.allocated", whole(report.used_max));
    add("total.allocated", whole(report.used));
    add("startup.allocated", whole(report.startup));
    add("replication.backlog", whole(0));
    add("clients.slaves", whole(0));
    add("clients.normal", whole(report.clients));
    for name in ["cluster.links", "aof.buffer", "lua.caches", "functions.caches"] {
        add(name, whole(0));
    }
    for &(index, keys, _) in &report.databases {
        let share = report.index as f64 * ratio(keys, report.key_count);
        let pairs = vec![
            ("overhead.hashtable.main", share as i64),
            ("overhead.hashtable.expires", 0),
            ("overhead.hashtable.slot-to-keys", 0),
        ];
        add(&format!("db.{index}"), Figure::Map(pairs));
    }
    let in_use = report.used.saturating_sub(report.startup);
    add("overhead.total", whole(report.overhead()));
    add("keys.count", whole(report.key_count));
    add("keys.bytes-per-key", whole(in_use.checked_div(report.key_count).unwrap_or(0)));
    add("dataset.bytes", whole(report.dataset));
    add("dataset.percentage", Figure::Part(ratio(report.dataset.min(in_use), in_use) * 100.0));
    add("peak.percentage", Figure::Part(ratio(report.used, report.used_max) * 100.0));
    add("allocator.allocated", whole(report.allocated));
    add("allocator.active", whole(report.active));
    add("allocator.resident", whole(report.resident));
    let mut compare = |ratio_name: &str, bytes_name: &str, part: u64, whole: u64| {
        add(ratio_name, Figure::Part(ratio(part, whole)));
        add(bytes_name, Figure::Whole(part as i64 - whole as i64));
    };
    let MemoryReport { used, allocated, active, resident, .. } = *report;
    compare("allocator-fragmentation.ratio", "allocator-fragmentation.bytes", active, allocated);
    compare("allocator-rss.ratio", "allocator-rss.bytes", resident, active);
    compare("rss-overhead.ratio", "rss-overhead.bytes", resident, resident);
    compare("fragmentation", "fragmentation.bytes", resident, used);
    figures
}
