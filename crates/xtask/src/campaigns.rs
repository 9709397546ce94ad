//! The table of campaigns: tests that repeat one promise many times under random histories.
//!
//! A row has two commands. The short one runs in every `cargo xtask test` and takes a minute at
//! most; the long one is for `cargo xtask torture` and takes as long as the promise deserves. Both
//! print the seed that repeats a failure.

use std::process::Command;

use crate::process::{Tally, run_counted};
use crate::workspace::Workspace;

/// A long-running test in two sizes.
pub struct Campaign {
    /// The name on the command line.
    pub name: &'static str,
    /// What holds if it passes.
    pub promise: &'static str,
    /// The command for every test run; empty where the workspace's tests already have the short
    /// form in them. Leading `NAME=value` words are environment; `{target}` is Cargo's target
    /// folder.
    pub short: &'static str,
    /// The command for the full campaign, in the same form. Its first variable says how much there
    /// is to do, where it has one.
    pub long: &'static str,
}

/// Every campaign.
pub const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "reader",
        promise: "a reader in another process sees whole values in order, whatever the writer does",
        short: "",
        long: "FOREBAY_TORTURE_READS=100000000 cargo test --profile torture \
            --package forebay-arena --test torture -- --nocapture",
    },
    Campaign {
        name: "sabotage",
        promise: "that reader notices each rule of the protocol when the writer breaks it",
        short: "cargo test --profile torture --package forebay-arena --features sabotage \
            --test torture -- --nocapture every_broken_rule",
        long: "FOREBAY_TORTURE_READS=100000000 cargo test --profile torture \
            --package forebay-arena --features sabotage --test torture -- --nocapture \
            every_broken_rule",
    },
    Campaign {
        name: "allocator",
        promise: "any history leaves the extents' tiles sound, their accounting exact",
        short: "",
        long: "FOREBAY_EXTENT_HISTORIES=500 FOREBAY_EXTENT_OPERATIONS=10000 \
            cargo test --profile torture --package forebay-arena --lib -- --nocapture \
            the_tiles_sound",
    },
    Campaign {
        name: "table",
        promise: "any history leaves a table with the content of a model",
        short: "",
        long: "FOREBAY_TABLE_HISTORIES=50 cargo test --profile torture \
            --package forebay-arena --lib -- --nocapture table::tests::table_agrees_with_a_model",
    },
    Campaign {
        name: "extents",
        promise: "values of any size fill 97.5 % of a gibibyte under churn",
        short: "",
        long: "FOREBAY_EXTENT_CAMPAIGN_MIB=1024 FOREBAY_EXTENT_CAMPAIGN_WRITES=60000 \
            cargo test --profile torture --package forebay-arena --lib -- --nocapture \
            extent::campaign",
    },
    Campaign {
        name: "growth",
        promise: "no operation moves more than 1,024 index entries up to 8 million keys",
        short: "",
        long: "FOREBAY_GROWTH_KEYS=8000000 cargo test --profile torture \
            --package forebay-keyspace --test growth -- --nocapture",
    },
    Campaign {
        name: "effects",
        promise: "the effects of any history, of one thread and of four, give the same dataset",
        short: "",
        long: "FOREBAY_EFFECTS_HISTORIES=300 cargo test --profile torture \
            --package forebay-engine --lib -- --nocapture same_dataset",
    },
    Campaign {
        name: "eviction",
        promise: "no policy evicts a key that may stay or lets memory pass its limit",
        short: "",
        long: "FOREBAY_EVICTION_HISTORIES=50 cargo test --profile torture \
            --package forebay-keyspace --lib -- --nocapture tests::policies",
    },
    Campaign {
        name: "differential",
        promise: "a million random requests have the replies and leave the data of redis-server",
        short: "",
        long: "FOREBAY_DIFF_COMMANDS=1000000 cargo test --profile torture \
            --package forebay-tests --test tests -- --nocapture replies_and_data_equal",
    },
    Campaign {
        name: "streams",
        promise: "random bytes have the replies of redis-server and close the connection as there",
        short: "",
        long: "FOREBAY_STREAMS=200000 cargo test --profile torture \
            --package forebay-tests --test tests -- --nocapture random_streams",
    },
    Campaign {
        name: "lanes",
        promise: "ten million words that no client writes end the lanes that they are in alone",
        short: "",
        long: "FOREBAY_HOSTILE_LANES=55000 cargo test --profile torture \
            --package forebay-tests --test tests -- --nocapture random_words_ends",
    },
    Campaign {
        name: "tables",
        promise: "ten million words over pin slots and touches harm no other session",
        short: "",
        long: "FOREBAY_HOSTILE_PINS=10000000 cargo test --profile torture \
            --package forebay-tests --test tests -- --nocapture over_its_table",
    },
    Campaign {
        name: "kills",
        promise: "a thousand clients killed at any step leave nothing, and others notice nothing",
        short: "",
        long: "FOREBAY_KILLS=1000 cargo test --profile torture \
            --package forebay-tests --test tests -- --nocapture killed_clients_leave",
    },
    Campaign {
        name: "lane-kills",
        promise: "clients killed at any step of making and using a lane leave no lane",
        short: "",
        long: "FOREBAY_LANE_KILLS=1000 cargo test --profile torture \
            --package forebay-tests --test tests -- --nocapture killed_client_leaves_no_lane",
    },
    Campaign {
        name: "upload-kills",
        promise: "a thousand clients killed at any step of an upload leave what they committed",
        short: "",
        long: "FOREBAY_UPLOAD_KILLS=1000 cargo test --profile torture \
            --package forebay-tests --test tests -- --nocapture killed_client_leaves_the_values",
    },
];

/// Runs the long campaigns, or the short ones with `--short`; all, or those named. `name=count`
/// runs the campaign with another amount of work.
///
/// # Errors
/// When a name is unknown, or has no amount to set, a program cannot be started, or a campaign
/// fails.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (short, names) = split_short(arguments);
    names.iter().try_for_each(|name| check_name(name, short))?;
    let tally = run_named(&Workspace::load()?, short, &names)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed == 0 { Ok(()) } else { Err("a campaign failed".to_owned()) }
}

/// Runs the campaigns in `names`, all if there is none, and returns what their tests reported.
///
/// # Errors
/// When a program cannot be started.
pub fn run_named(workspace: &Workspace, short: bool, names: &[&str]) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for row in CAMPAIGNS {
        let asked = names.iter().map(|name| split_count(name)).find(|(name, _)| *name == row.name);
        let line = if short { row.short } else { row.long };
        if line.is_empty() || asked.is_none() && !names.is_empty() {
            continue;
        }
        let line = &with_count(line, asked.and_then(|(_, count)| count));
        println!("-- {}: {}", row.name, row.promise);
        let target = workspace.target.to_string_lossy();
        let mut reported = run_counted(command(line, &target).current_dir(&workspace.root))?;
        if reported == Tally::default() {
            // A filter that matches nothing must not look like success.
            println!("campaign {} ran no test", row.name);
            reported.failed = 1;
        }
        tally.add(reported);
    }
    Ok(tally)
}

fn check_name(word: &str, short: bool) -> Result<(), String> {
    let (name, count) = split_count(word);
    let Some(row) = CAMPAIGNS.iter().find(|row| row.name == name) else {
        let known: Vec<&str> = CAMPAIGNS.iter().map(|row| row.name).collect();
        return Err(format!("no campaign is called '{name}'; there are: {}", known.join(", ")));
    };
    let line = if short { row.short } else { row.long };
    match count {
        Some(count) if count.parse::<u64>().is_err() => Err(format!("'{word}': no number")),
        Some(_) if !has_count(line) => Err(format!("'{name}' has no amount to set")),
        _ => Ok(()),
    }
}

/// Splits the count from `name=count`.
fn split_count(word: &str) -> (&str, Option<&str>) {
    word.split_once('=').map_or((word, None), |(name, count)| (name, Some(count)))
}

fn has_count(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Returns `line` with `count` as the value of its first variable.
fn with_count(line: &str, count: Option<&str>) -> String {
    match (count, line.split_once('='), line.split_once(' ')) {
        (Some(count), Some((variable, _)), Some((_, rest))) => format!("{variable}={count} {rest}"),
        _ => line.to_owned(),
    }
}

/// Splits `--short` from the names that stand beside it.
pub fn split_short(arguments: &[String]) -> (bool, Vec<&str>) {
    let is_short = |word: &&String| *word == "--short";
    let names = arguments.iter().filter(|word| !is_short(word)).map(String::as_str).collect();
    (arguments.iter().any(|word| is_short(&word)), names)
}

fn command(line: &str, target: &str) -> Command {
    let words: Vec<String> =
        line.split_whitespace().map(|word| word.replace("{target}", target)).collect();
    let is_variable = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let variable_count = words.iter().take_while(is_variable).count();
    let (variables, call) = words.split_at(variable_count);
    let (program, arguments) = call.split_first().expect("a row of CAMPAIGNS names a program");
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().filter_map(|word| word.split_once('=')));
    command
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_named_once() {
        for (index, row) in CAMPAIGNS.iter().enumerate() {
            assert!(CAMPAIGNS[..index].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.promise.is_empty() && !row.long.is_empty(), "{}", row.name);
            for line in [row.short, row.long].into_iter().filter(|line| !line.is_empty()) {
                let program = command(line, "t").get_program().to_string_lossy().into_owned();
                assert!(!program.is_empty(), "{}", row.name);
            }
        }
    }

    #[test]
    fn a_line_becomes_environment_program_and_arguments() {
        let command = command("ROUNDS=3 cargo test --features=x {target}/a", "/t");
        assert_eq!(command.get_program(), "cargo");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["test", "--features=x", "/t/a"]);
        assert_eq!(command.get_envs().count(), 1);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert!(run(&["no-such-campaign".to_owned()]).is_err());
    }

    #[test]
    fn a_count_takes_the_place_of_that_of_the_row() {
        assert_eq!(
            with_count("ROUNDS=3 SEED=1 cargo test", Some("9")),
            "ROUNDS=9 SEED=1 cargo test"
        );
        assert_eq!(with_count("ROUNDS=3 cargo test", None), "ROUNDS=3 cargo test");
        assert!(check_name("differential=10000000", false).is_ok());
        for word in ["differential=many", "differential=", "sabotage=9"] {
            assert!(check_name(word, word.starts_with("sabotage")).is_err(), "{word}");
        }
    }
}
