//! The published comparisons, as rows.

use crate::key_distribution::KeyDistribution;
use crate::recipes;
use crate::workload::{Operation, Workload};

/// What a row goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The unix socket.
    Unix,
    /// TCP over the loopback.
    Tcp,
    /// A lane for the subject; the other server, which may have none, by its unix socket.
    Lane,
}

impl Transport {
    /// Returns the word for it in tables.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
            Transport::Lane => "lane",
        }
    }
}

/// One row of a table: a load for both servers.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What each request does.
    pub operation: Operation,
    /// Which socket it takes.
    pub transport: Transport,
    /// Requests sent at once.
    pub pipeline: usize,
    /// Connections.
    pub connections: usize,
    /// Connections beside, which SET one key after the other and do not count.
    pub writers: usize,
    /// Requests that the row reports as one batch; 1 where a row is about single requests.
    pub batch: usize,
    /// What both servers' `appendfsync` is for it, where the table says so.
    pub sync_policy: Option<&'static str>,
    /// What its ratio has to reach, where the table says so.
    pub bound: Option<&'static Bound>,
}

/// What the CPU ratios of the rows that share it have to reach.
#[derive(Debug, PartialEq, Eq)]
pub struct Bound {
    /// What its rows have in common.
    pub name: &'static str,
    /// Percent of the other's speed that each row reaches.
    pub least_percent: u32,
    /// Percent that the geometric mean of the rows reaches.
    pub mean_percent: u32,
}

impl Bound {
    /// Returns the least ratio of a row.
    pub fn least(&self) -> f64 {
        f64::from(self.least_percent) / 100.0
    }

    /// Returns the least geometric mean.
    pub fn mean(&self) -> f64 {
        f64::from(self.mean_percent) / 100.0
    }
}

/// Every command by itself: most of what it costs is the system calls of its request.
pub static ALONE: Bound = Bound { name: "pipeline 1", least_percent: 105, mean_percent: 105 };
/// Every command in batches of 16: what it costs is the command.
pub static PIPELINED: Bound = Bound { name: "pipeline 16", least_percent: 130, mean_percent: 180 };
/// Commands on collections in batches of 16.
pub static COLLECTIONS_PIPELINED: Bound =
    Bound { name: "collections, pipeline 16", least_percent: 130, mean_percent: 220 };
/// Commands that add to streams, and those of the consumers of a group, in batches of 16.
pub static STREAMS_PIPELINED: Bound =
    Bound { name: "streams, pipeline 16", least_percent: 150, mean_percent: 150 };
/// Commands that read many entries of a stream, in batches of 16.
pub static STREAM_READS_PIPELINED: Bound =
    Bound { name: "reads of streams, pipeline 16", least_percent: 130, mean_percent: 130 };
/// Commands on one HyperLogLog in batches of 16.
pub static HYPERLOGLOGS: Bound =
    Bound { name: "HyperLogLogs, pipeline 16", least_percent: 130, mean_percent: 130 };
/// PFCOUNT of several dense HyperLogLogs.
pub static UNION_COUNTS: Bound =
    Bound { name: "PFCOUNT of several", least_percent: 300, mean_percent: 300 };
/// PFMERGE of dense HyperLogLogs.
pub static UNIONS: Bound = Bound { name: "PFMERGE", least_percent: 500, mean_percent: 500 };
/// Commands whose time is that of their loop over a large value.
pub static LARGE: Bound = Bound { name: "large values", least_percent: 100, mean_percent: 100 };
/// Commands whose time is that of their loop over a collection.
pub static LARGE_COLLECTIONS: Bound =
    Bound { name: "large collections", least_percent: 130, mean_percent: 130 };

impl Row {
    /// Returns the row's name, unique in its table.
    pub fn name(&self) -> String {
        let (operation, transport) = (self.operation, self.transport.name());
        match (self.batch, self.pipeline) {
            (1, pipeline) => match self.sync_policy {
                Some(policy) if self.writers > 0 => {
                    format!("{operation} {transport} P{pipeline} by SET {policy}")
                }
                Some(policy) => format!("{operation} {transport} P{pipeline} {policy}"),
                None => format!("{operation} {transport} P{pipeline}"),
            },
            (batch, 1) => format!("{operation} {transport} {batch} one by one"),
            (batch, _) => format!("{operation} {transport} {batch} pipelined"),
        }
    }

    /// Returns what the row asks for, over `data`.
    pub fn workload(&self, data: &DataSet) -> Workload {
        Workload {
            operation: self.operation,
            key_count: data.key_count,
            key_bytes: data.key_bytes,
            value_bytes: data.value_bytes,
            distribution: data.distribution,
        }
    }
}

/// The keys that a comparison preloads and then asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSet {
    /// Number of keys.
    pub key_count: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How the rows choose keys.
    pub distribution: KeyDistribution,
}

/// A comparison by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Table {
    /// The rows that a change to the server is judged by.
    Core,
    /// Each command that is worth measuring, by itself and pipelined, and those that loop over a
    /// value, on large values.
    Commands,
    /// Batches of SET and GET, pipelined against one by one.
    Pipeline,
    /// SET with an in-memory effect sink against SET without.
    Sink,
    /// Lanes through shared memory against the other server's unix socket.
    Lanes,
    /// SET with a log on disk on both servers.
    Durable,
    /// SET with a log that is made durable each second against SET without a log, and GET beside
    /// writers who wait for the disk against GET beside writers who do not.
    Log,
}

impl Table {
    /// Returns its name on the command line and in file names.
    pub fn name(self) -> &'static str {
        match self {
            Table::Core => "core",
            Table::Commands => "commands",
            Table::Pipeline => "pipeline",
            Table::Sink => "sink",
            Table::Lanes => "lanes",
            Table::Durable => "durable",
            Table::Log => "log",
        }
    }

    /// Returns its rows; `transports` applies where a table leaves the choice.
    pub fn rows(self, transports: &[Transport], connections: usize) -> Vec<Row> {
        let row = |operation, transport, pipeline| Row {
            operation,
            transport,
            pipeline,
            connections,
            writers: 0,
            batch: 1,
            sync_policy: None,
            bound: None,
        };
        match self {
            Table::Core => {
                let mut rows = Vec::new();
                for operation in [Operation::Get, Operation::Set] {
                    rows.extend(
                        [1, 16, 64].map(|pipeline| row(operation, Transport::Unix, pipeline)),
                    );
                    rows.push(row(operation, Transport::Tcp, 1));
                }
                rows.push(row(Operation::Mget(100), Transport::Unix, 1));
                rows
            }
            Table::Commands => command_rows(connections),
            Table::Pipeline => {
                let mut rows = Vec::new();
                for &transport in transports {
                    for operation in [Operation::Set, Operation::Get] {
                        for batch in [10, 100, 1000] {
                            rows.extend([batch, 1].map(|pipeline| Row {
                                connections: 1,
                                batch,
                                ..row(operation, transport, pipeline)
                            }));
                        }
                    }
                }
                rows
            }
            Table::Durable => {
                let rows = [("always", 1), ("always", 16), ("everysec", 16)];
                rows.map(|(policy, pipeline)| Row {
                    sync_policy: Some(policy),
                    ..row(Operation::Set, Transport::Unix, pipeline)
                })
                .to_vec()
            }
            Table::Log => log_rows(row(Operation::Set, Transport::Unix, 1)),
            Table::Sink => {
                [1, 16, 64].map(|pipeline| row(Operation::Set, Transport::Unix, pipeline)).to_vec()
            }
            Table::Lanes => {
                let rows = |operation| {
                    [1, 16, 64].map(|pipeline| row(operation, Transport::Lane, pipeline))
                };
                [Operation::Get, Operation::Set, Operation::Mget(10)].map(rows).concat()
            }
        }
    }
}

/// Returns the rows of the table `log`, which are like `row`.
fn log_rows(row: Row) -> Vec<Row> {
    let set = |pipeline| Row { pipeline, sync_policy: Some("everysec"), ..row };
    let half = (row.connections / 2).max(1);
    let (operation, sync_policy) = (Operation::Get, Some("always"));
    let beside = Row { operation, connections: half, writers: half, sync_policy, ..row };
    [set(1), set(16), set(64), beside].to_vec()
}

/// Returns the rows of the table `commands`.
fn command_rows(connections: usize) -> Vec<Row> {
    let row = |operation, pipeline, bound, connections| Row {
        operation,
        transport: Transport::Unix,
        pipeline,
        connections,
        writers: 0,
        batch: 1,
        sync_policy: None,
        bound: Some(bound),
    };
    let recipes = |list: &'static [_]| list.iter().map(Operation::Recipe);
    let small = COMMANDS.into_iter().chain(recipes(recipes::SMALL));
    let small = small.map(|operation| (operation, &PIPELINED));
    let others = [
        (recipes::COLLECTIONS, &COLLECTIONS_PIPELINED),
        (recipes::STREAMS, &STREAMS_PIPELINED),
        (recipes::STREAM_READS, &STREAM_READS_PIPELINED),
        (recipes::HYPERLOGLOGS, &HYPERLOGLOGS),
        (recipes::UNION_COUNTS, &UNION_COUNTS),
        (recipes::UNIONS, &UNIONS),
    ];
    let others = others
        .into_iter()
        .flat_map(|(list, bound)| recipes(list).map(move |operation| (operation, bound)));
    let mut rows: Vec<Row> = small
        .chain(others)
        .flat_map(|(operation, pipelined)| {
            [(1, &ALONE), (16, pipelined)]
                .map(|(pipeline, bound)| row(operation, pipeline, bound, connections))
        })
        .collect();
    let few = LARGE_CONNECTIONS.min(connections);
    for (list, bound) in
        [(recipes::LARGE, &LARGE), (recipes::LARGE_COLLECTIONS, &LARGE_COLLECTIONS)]
    {
        rows.extend(recipes(list).map(|operation| row(operation, 1, bound, few)));
    }
    rows
}

/// Connections that ask for large values: few, so that a reply does not wait for many others.
const LARGE_CONNECTIONS: usize = 4;

const COMMANDS: [Operation; 8] = [
    Operation::PingInline,
    Operation::Ping,
    Operation::Set,
    Operation::Get,
    Operation::Incr,
    Operation::Mset(10),
    Operation::Mget(10),
    Operation::Mget(100),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let both = [Transport::Unix, Transport::Tcp];
        let lists = [
            recipes::SMALL,
            recipes::COLLECTIONS,
            recipes::STREAMS,
            recipes::STREAM_READS,
            recipes::HYPERLOGLOGS,
            recipes::UNION_COUNTS,
            recipes::UNIONS,
        ];
        let small = COMMANDS.len() + lists.iter().map(|list| list.len()).sum::<usize>();
        let commands = 2 * small + recipes::LARGE.len() + recipes::LARGE_COLLECTIONS.len();
        for (table, count) in [
            (Table::Core, 9),
            (Table::Commands, commands),
            (Table::Pipeline, 24),
            (Table::Sink, 3),
            (Table::Lanes, 9),
            (Table::Durable, 3),
            (Table::Log, 4),
        ] {
            let mut names: Vec<String> = table.rows(&both, 50).iter().map(Row::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", table.name());
        }
    }
}
