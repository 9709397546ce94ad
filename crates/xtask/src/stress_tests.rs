//! The table of stress tests: each checks one promise many times under random histories.
//!
//! The short form runs in every `cargo xtask test` and takes a minute at most; the full one is for
//! `cargo xtask torture` and takes as long as the promise deserves. Both print the seed that
//! repeats a failure.

use std::process::Command;

use crate::process::{TestCounts, run_counted};
use crate::workspace::Workspace;

/// A test of the workspace that has more to do here than in every test run.
pub struct StressTest {
    /// The name on the command line.
    pub name: &'static str,
    /// What holds if it passes.
    pub promise: &'static str,
    /// Whether the short form runs by itself; of the others the workspace's tests have it in them.
    pub has_short: bool,
    /// How much there is to do in the full stress test, by variables of the environment.
    pub amounts: &'static [(&'static str, u64)],
    /// The package without its prefix, and what to run of it, as cargo's arguments say.
    pub target: (&'static str, &'static str),
    /// What the names of the tests contain.
    pub filter: &'static str,
}

const ARENA: (&str, &str) = ("arena", "--lib");
const TORTURE: (&str, &str) = ("arena", "--test torture");
const PROTOCOL_MUTATIONS: (&str, &str) = ("arena", "--features protocol-mutations --test torture");
const COLLECTIONS: (&str, &str) = ("collections", "--lib");
const KEYSPACE: (&str, &str) = ("keyspace", "--lib");
const GROWTH: (&str, &str) = ("keyspace", "--test growth");
const ENGINE: (&str, &str) = ("engine", "--lib");
const WAL: (&str, &str) = ("wal", "--lib");
const RDB: (&str, &str) = ("rdb", "--lib");
const SERVER: (&str, &str) = ("server", "--lib");
const SIM: (&str, &str) = ("runtime", "--test sim");
const TESTS: (&str, &str) = ("tests", "--test tests");
const CHURN: (&str, &str) = ("tests", "--test churn");
const CHURN_MUTATIONS: (&str, &str) = ("tests", "--features protocol-mutations --test churn");

/// Every stress test.
pub const STRESS_TESTS: &[StressTest] = &[
    StressTest {
        name: "reader",
        promise: "a reader in another process sees whole values in order, whatever the writer does",
        has_short: false,
        amounts: &[("FOREBAY_TORTURE_READS", 100_000_000)],
        target: TORTURE,
        filter: "",
    },
    StressTest {
        name: "mutations",
        promise: "that reader notices each rule of the protocol when the writer breaks it",
        has_short: true,
        amounts: &[("FOREBAY_TORTURE_READS", 1_000_000_000)],
        target: PROTOCOL_MUTATIONS,
        filter: "every_broken_rule",
    },
    StressTest {
        name: "allocator",
        promise: "any history leaves the extents' tiles sound, their accounting exact",
        has_short: false,
        amounts: &[("FOREBAY_EXTENT_HISTORIES", 500), ("FOREBAY_EXTENT_OPERATIONS", 10_000)],
        target: ARENA,
        filter: "the_tiles_sound",
    },
    StressTest {
        name: "table",
        promise: "any history leaves a table with the content of a model",
        has_short: false,
        amounts: &[("FOREBAY_TABLE_HISTORIES", 50)],
        target: ARENA,
        filter: "table::tests::table_agrees_with_a_model",
    },
    StressTest {
        name: "extents",
        promise: "values of any size fill 97.5 % of a gibibyte under churn",
        has_short: false,
        amounts: &[
            ("FOREBAY_EXTENT_CAMPAIGN_MIB", 1_024),
            ("FOREBAY_EXTENT_CAMPAIGN_WRITES", 60_000),
        ],
        target: ARENA,
        filter: "extent::stress",
    },
    StressTest {
        name: "growth",
        promise: "no operation moves more than 1,024 index entries up to 8 million keys",
        has_short: false,
        amounts: &[("FOREBAY_GROWTH_KEYS", 8_000_000)],
        target: GROWTH,
        filter: "",
    },
    StressTest {
        name: "effects",
        promise: "the effects of any history, of one thread and of four, give the same dataset",
        has_short: false,
        amounts: &[("FOREBAY_EFFECTS_HISTORIES", 300)],
        target: ENGINE,
        filter: "same_dataset",
    },
    StressTest {
        name: "leases",
        promise: "who fills a key, who is told and what is stored agree with a model",
        has_short: false,
        amounts: &[("FOREBAY_EFFECTS_HISTORIES", 100_000)],
        target: ENGINE,
        filter: "leases_agree",
    },
    StressTest {
        name: "sim",
        promise: "a million commands on four instances with own clocks follow from one seed",
        has_short: false,
        amounts: &[("FOREBAY_SIM_COMMANDS", 1_000_000)],
        target: SIM,
        filter: "",
    },
    StressTest {
        name: "eviction",
        promise: "no policy evicts a key that may stay or lets memory pass its limit",
        has_short: false,
        amounts: &[("FOREBAY_EVICTION_HISTORIES", 50)],
        target: KEYSPACE,
        filter: "tests::policies",
    },
    StressTest {
        name: "counts",
        promise: "PFCOUNT is within the bound of its format up to ten million elements",
        has_short: false,
        amounts: &[("FOREBAY_COUNTED_ELEMENTS", 10_000_000)],
        target: COLLECTIONS,
        filter: "counts_are_within_the_bound",
    },
    StressTest {
        name: "differential",
        promise: "ten million random requests have the replies and leave the data of redis-server",
        has_short: false,
        amounts: &[("FOREBAY_DIFF_COMMANDS", 10_000_000)],
        target: TESTS,
        filter: "replies_and_data_equal",
    },
    StressTest {
        name: "memcached",
        promise: "two million random requests of memcached have the replies of memcached 1.6.18",
        has_short: false,
        amounts: &[("FOREBAY_MEMCACHED_COMMANDS", 2_000_000)],
        target: TESTS,
        filter: "replies_equal_those_of_memcached",
    },
    StressTest {
        name: "stream-differential",
        promise: "five million requests of streams, with readers that wait, are as redis-server's",
        has_short: false,
        amounts: &[("FOREBAY_DIFF_GROUP_COMMANDS", 5_000_000)],
        target: TESTS,
        filter: "replies_and_data_of_some_groups",
    },
    StressTest {
        name: "consumers",
        promise: "consumers that are killed at any step lose none of their group's entries",
        has_short: false,
        amounts: &[("FOREBAY_CONSUMED_ENTRIES", 200_000)],
        target: TESTS,
        filter: "consumers_killed_at_any_step",
    },
    StressTest {
        name: "collections",
        promise: "parts of a collection that change together are read together, whatever happens",
        has_short: false,
        amounts: &[("FOREBAY_COLLECTION_READS", 100_000_000)],
        target: CHURN,
        filter: "change_together_are_read_together",
    },
    StressTest {
        name: "collection-mutations",
        promise: "those readers notice each rule that collections need when it is broken",
        has_short: true,
        amounts: &[("FOREBAY_COLLECTION_READS", 1_000_000_000)],
        target: CHURN_MUTATIONS,
        filter: "noticed_by_readers_of_collections",
    },
    StressTest {
        name: "payloads",
        promise: "corrupt payloads are refused, or are values that all who read them read alike",
        has_short: false,
        amounts: &[("FOREBAY_CORRUPT_PAYLOADS", 1_000_000)],
        target: TESTS,
        filter: "corrupt_payloads_are_refused",
    },
    StressTest {
        name: "blocked-pairs",
        promise: "of two that wait for one element exactly one gets it, whoever is killed then",
        has_short: false,
        amounts: &[("FOREBAY_BLOCKED_ROUNDS", 100_000)],
        target: TESTS,
        filter: "exactly_one_of_two_that_wait",
    },
    StressTest {
        name: "streams",
        promise: "random bytes have the replies of redis-server and close the connection as there",
        has_short: false,
        amounts: &[("FOREBAY_STREAMS", 200_000)],
        target: TESTS,
        filter: "random_streams",
    },
    StressTest {
        name: "lanes",
        promise: "ten million words that no client writes end the lanes that they are in alone",
        has_short: false,
        amounts: &[("FOREBAY_HOSTILE_LANES", 55_000)],
        target: TESTS,
        filter: "random_words_ends",
    },
    StressTest {
        name: "tables",
        promise: "ten million words over pin slots and touches harm no other session",
        has_short: false,
        amounts: &[("FOREBAY_HOSTILE_PINS", 10_000_000)],
        target: TESTS,
        filter: "over_its_table",
    },
    StressTest {
        name: "floods",
        promise: "a million keys or members chosen to collide cost at most 5 x what others do",
        has_short: false,
        amounts: &[("FOREBAY_FLOOD_KEYS", 1_000_000)],
        target: TESTS,
        filter: "floods_of",
    },
    StressTest {
        name: "peaks",
        promise: "no request of any command takes memory beyond the limit and what may pass it",
        has_short: false,
        amounts: &[("FOREBAY_PEAKS_REQUESTS", 20)],
        target: TESTS,
        filter: "no_row_passes_the_limit",
    },
    StressTest {
        name: "descriptors",
        promise: "descriptors that linger when closed hold up nobody; the longest wait is printed",
        has_short: false,
        amounts: &[("FOREBAY_LINGERING", 100)],
        target: TESTS,
        filter: "lingering_descriptors",
    },
    StressTest {
        name: "power-cuts",
        promise: "no power cut loses of a log what was durable, or has it read as anything else",
        has_short: false,
        amounts: &[("FOREBAY_POWER_CUTS", 3_000_000)],
        target: WAL,
        filter: "no_power_cut",
    },
    StressTest {
        name: "flipped-log",
        promise: "a flipped bit of a log of ten thousand frames is noticed or does no harm",
        has_short: false,
        amounts: &[("FOREBAY_FLIPPED_BITS", 1_000_000)],
        target: WAL,
        filter: "flipped_bit_of_a_long_log",
    },
    StressTest {
        name: "flipped-snapshot",
        promise: "a flipped bit of a snapshot with collections of all types is noticed",
        has_short: false,
        amounts: &[("FOREBAY_FLIPPED_BITS", 1_000_000)],
        target: RDB,
        filter: "flipped_bit_of_a_long_file",
    },
    StressTest {
        name: "recovery",
        promise: "the data after a power cut are those of the LSN that the log ends at",
        has_short: false,
        amounts: &[("FOREBAY_CUT_HISTORIES", 20_000)],
        target: SERVER,
        filter: "data_after_a_power_cut",
    },
    StressTest {
        name: "server-kills",
        promise: "a server killed at any time under load has every write that it acknowledged",
        has_short: false,
        amounts: &[("FOREBAY_SERVER_KILLS", 2_000)],
        target: TESTS,
        filter: "killed_server_has_every_write",
    },
    StressTest {
        name: "kills",
        promise: "a thousand clients killed at any step leave nothing, and others notice nothing",
        has_short: false,
        amounts: &[("FOREBAY_KILLS", 1_000)],
        target: TESTS,
        filter: "killed_clients_leave",
    },
    StressTest {
        name: "lane-kills",
        promise: "clients killed at any step of making and using a lane leave no lane",
        has_short: false,
        amounts: &[("FOREBAY_LANE_KILLS", 1_000)],
        target: TESTS,
        filter: "killed_client_leaves_no_lane",
    },
    StressTest {
        name: "upload-kills",
        promise: "a thousand clients killed at any step of an upload leave what they committed",
        has_short: false,
        amounts: &[("FOREBAY_UPLOAD_KILLS", 1_000)],
        target: TESTS,
        filter: "killed_client_leaves_the_values",
    },
];

impl StressTest {
    /// Returns the command of the short form, or of the full stress test, where `count` takes the
    /// place of the first amount.
    fn command(&self, short: bool, count: Option<u64>) -> Command {
        let (package, target) = self.target;
        let mut command = Command::new("cargo");
        command.args(["test", "--profile", "torture", "--package", &format!("forebay-{package}")]);
        command.args(target.split(' ')).args(["--", "--nocapture"]);
        if !self.filter.is_empty() {
            command.arg(self.filter);
        }
        if !short {
            command.envs(self.amounts.iter().map(|(name, amount)| (name, amount.to_string())));
            if let (Some((name, _)), Some(count)) = (self.amounts.first(), count) {
                command.env(name, count.to_string());
            }
        }
        command
    }
}

/// Runs the long stress tests, or the short ones with `--short`; all, or those named. `name=count`
/// runs the stress test with another amount of work.
///
/// # Errors
/// When a name is unknown, or has no amount to set, a program cannot be started, or a stress test
/// fails.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (short, names) = split_short(arguments);
    let counts = run_named(&Workspace::load()?, short, &names)?;
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if counts.failed == 0 { Ok(()) } else { Err("a stress test failed".to_owned()) }
}

/// Runs the stress tests in `names`, all if there is none, and returns what their tests reported.
///
/// # Errors
/// When a name is unknown, or a program cannot be started.
pub fn run_named(workspace: &Workspace, short: bool, names: &[&str]) -> Result<TestCounts, String> {
    let asked: Vec<(&StressTest, Option<u64>)> = match names {
        [] => STRESS_TESTS.iter().map(|row| (row, None)).collect(),
        _ => names.iter().map(|word| parse(word, short)).collect::<Result<_, _>>()?,
    };
    let mut counts = TestCounts::default();
    for (row, count) in asked {
        if short && !row.has_short {
            continue;
        }
        println!("-- {}: {}", row.name, row.promise);
        let mut command = row.command(short, count);
        let mut reported = run_counted(command.current_dir(&workspace.root))?;
        if reported == TestCounts::default() {
            // A filter that matches nothing must not look like success.
            println!("stress test {} ran no test", row.name);
            reported.failed = 1;
        }
        counts.add(reported);
    }
    Ok(counts)
}

/// Returns the stress test that `word` names, and the amount behind its `=`.
fn parse(word: &str, short: bool) -> Result<(&'static StressTest, Option<u64>), String> {
    let (name, count) = word.split_once('=').map_or((word, None), |(a, b)| (a, Some(b)));
    let Some(row) = STRESS_TESTS.iter().find(|row| row.name == name) else {
        let known: Vec<&str> = STRESS_TESTS.iter().map(|row| row.name).collect();
        return Err(format!("no stress test is called '{name}'; there are: {}", known.join(", ")));
    };
    if short && count.is_some() {
        return Err(format!("'{name}' has no amount to set in its short form"));
    }
    let count = count.map(str::parse).transpose().map_err(|_| format!("'{word}': no number"))?;
    Ok((row, count))
}

/// Splits `--short` from the names that stand beside it.
pub fn split_short(arguments: &[String]) -> (bool, Vec<&str>) {
    let is_short = |word: &&String| *word == "--short";
    let names = arguments.iter().filter(|word| !is_short(word)).map(String::as_str).collect();
    (arguments.iter().any(|word| is_short(&word)), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_named_once() {
        for (index, row) in STRESS_TESTS.iter().enumerate() {
            assert!(
                STRESS_TESTS[..index].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
            assert!(!row.promise.is_empty() && !row.amounts.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn a_row_becomes_environment_and_arguments() {
        let row = &StressTest {
            name: "a",
            promise: "it holds",
            has_short: true,
            amounts: &[("ROUNDS", 3), ("STEPS", 5)],
            target: ("x", "--features y --lib"),
            filter: "z",
        };
        let line = |short, count| {
            let command = row.command(short, count);
            let variables = command.get_envs();
            let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
            let variables =
                variables.map(|(name, value)| format!("{}={}", text(name), text(value.unwrap())));
            let words: Vec<String> = variables.chain(command.get_args().map(text)).collect();
            words.join(" ")
        };
        let call = "test --profile torture --package forebay-x --features y --lib -- --nocapture z";
        assert_eq!(line(false, None), format!("ROUNDS=3 STEPS=5 {call}"));
        assert_eq!(line(false, Some(9)), format!("ROUNDS=9 STEPS=5 {call}"));
        assert_eq!(line(true, None), call);
    }

    #[test]
    fn an_unknown_name_and_what_is_no_amount_are_refused() {
        let found = parse("differential=10000000", false).unwrap();
        assert_eq!((found.0.name, found.1), ("differential", Some(10_000_000)));
        for (word, short) in [
            ("no-such-test", false),
            ("differential=many", false),
            ("differential=", false),
            ("mutations=9", true),
        ] {
            assert!(parse(word, short).is_err(), "{word}");
        }
    }
}
