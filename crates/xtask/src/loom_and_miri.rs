//! The checks of unsafe and of lock-free code: loom on its protocols, miri on its memory accesses.

use std::process::Command;

use crate::process::{
    TestCounts, printed, run, run_counted, run_counted_whole, side_by_side, succeeds,
};
use crate::steps::Report;
use crate::workspace::Workspace;

/// The crates whose protocols loom runs.
const MODELLED_CRATES: [&str; 2] = ["arena", "ring"];
/// The crates whose memory accesses miri runs.
const INTERPRETED_CRATES: [&str; 3] = ["arena", "ring", "sys"];

/// Runs the loom tests: every interleaving of the sequence and pin protocols, and of a lane's.
///
/// # Errors
/// When cargo cannot be started.
pub fn loom(workspace: &Workspace) -> Result<Report, String> {
    let is_absent = |name: &&&str| !workspace.has(&format!("crates/{name}/tests/loom.rs"));
    if let Some(name) = MODELLED_CRATES.iter().find(is_absent) {
        return Ok(Report::CannotRun(format!("crates/{name}/tests/loom.rs does not exist")));
    }
    let mut sum = TestCounts::default();
    for package in MODELLED_CRATES.map(|name| format!("forebay-{name}")) {
        let mut command = Command::new("cargo");
        // Optimised, though not as one piece: the programs are built more slowly than they run.
        command.args(["test", "--package", &package, "--profile", "torture", "--test", "loom"]);
        // A folder of its own: the flag would otherwise rebuild everything on each change of side.
        let target = workspace.target.join("loom");
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target);
        let counts = run_counted(command.current_dir(&workspace.root))?;
        // A cfg that matches nothing must not look like success.
        if counts == TestCounts::default() {
            return Err(format!("loom ran no test of {package}"));
        }
        sum.add(counts);
    }
    Ok(Report::Ran(sum))
}

/// The tests that take longest under miri; they are begun first, in this order, each by itself.
const LONG_UNDER_MIRI: [&str; 7] = [
    "table::tests::miri_table_agrees_with_a_model",
    "table::tests::rewritten::miri_rewritten_values_begin_as_a_model_says",
    "reader::tests::miri_every_kind_of_entry_is_read_back",
    "reader::tests::miri_nonsense_misleads_but_never_faults",
    "reader::tests::miri_reader_beside_a_busy_writer_sees_whole_values_in_order",
    "extent::tests::miri_any_sequence_keeps_the_tiles_sound_and_the_content",
    "lane::tests::miri_two_threads_pass_a_stream_and_neither_sleeps_for_ever",
];
/// How many of the other tests a process runs, as miri reads the whole crate again in each.
const TESTS_A_PROCESS: usize = 4;

/// Tests of one package that one process runs.
struct Part {
    package: String,
    names: Vec<String>,
}

/// Runs the tests whose names begin with `miri_`, over memory on the heap, under miri: in as many
/// processes at a time as there are processors, as miri runs one test after the other.
///
/// # Errors
/// When cargo cannot be started, a crate cannot be built or has no such test, or a process runs
/// other tests than it was told.
pub fn miri(workspace: &Workspace) -> Result<Report, String> {
    if !has_miri() {
        return Ok(Report::CannotRun("no nightly toolchain with miri and rust-src".to_owned()));
    }
    let mut parts = Vec::new();
    for package in INTERPRETED_CRATES.map(|name| format!("forebay-{name}")) {
        // Listing builds, so that the processes below find everything built.
        let list = printed(miri_test(workspace, &package).args(["--list", "miri_"]))?;
        let names: Vec<&str> = test_names(&list).collect();
        if names.is_empty() {
            return Err(format!("no test of {package} is for miri"));
        }
        parts.extend(split(&package, &names));
    }
    let is_there = |long: &&&str| parts.iter().any(|part| part.names[0] == **long);
    if let Some(gone) = LONG_UNDER_MIRI.iter().find(|long| !is_there(long)) {
        return Err(format!("no test for miri is called {gone}"));
    }
    let rank = |part: &Part| LONG_UNDER_MIRI.iter().position(|long| *long == part.names[0]);
    parts.sort_by_key(|part| rank(part).unwrap_or(usize::MAX));
    let tallies = side_by_side(&parts, |part| {
        let mut command = miri_test(workspace, &part.package);
        let counts = run_counted_whole(command.arg("--exact").args(&part.names))?;
        let (ran, asked) = (counts.passed + counts.failed, part.names.len() as u64);
        // A process that fails before its tests counts as one failure.
        let is_whole = ran == asked || counts.failed > 0;
        if is_whole { Ok(counts) } else { Err(format!("miri ran {ran} tests of {asked}")) }
    });
    let mut sum = TestCounts::default();
    for counts in tallies {
        sum.add(counts?);
    }
    Ok(Report::Ran(sum))
}

fn is_long(name: &str) -> bool {
    LONG_UNDER_MIRI.contains(&name)
}

/// Deals the tests called `names` to processes.
fn split(package: &str, names: &[&str]) -> Vec<Part> {
    let (long, short): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| is_long(name));
    let groups = long.chunks(1).chain(short.chunks(TESTS_A_PROCESS));
    let part = |group: &[&str]| Part {
        package: package.to_owned(),
        names: group.iter().map(|name| (*name).to_owned()).collect(),
    };
    groups.map(part).collect()
}

/// Returns the call of miri for the unit tests of `package`, to which the harness's own arguments
/// are to be added.
fn miri_test(workspace: &Workspace, package: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "miri", "test", "--package", package, "--lib", "--"]);
    command.current_dir(&workspace.root);
    command
}

/// Returns the names of the tests in what the harness lists.
fn test_names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// Returns whether miri runs, after trying to add it to a nightly toolchain that lacks it.
fn has_miri() -> bool {
    let miri = ["+nightly", "miri", "--version"];
    if succeeds("cargo", &miri) {
        return true;
    }
    let add = ["component", "add", "--toolchain", "nightly", "miri", "rust-src"];
    // Without rustup or without a network this fails, and the answer below says so.
    let _ = run(Command::new("rustup").args(add));
    succeeds("cargo", &miri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_dealt_to_one_process_and_a_long_one_has_its_own() {
        let names: Vec<String> = (0..9).map(|number| format!("a::miri_{number}")).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.insert(4, LONG_UNDER_MIRI[0]);
        let parts = split("forebay-arena", &names);
        let sizes: Vec<usize> = parts.iter().map(|part| part.names.len()).collect();
        assert_eq!(sizes, [1, 4, 4, 1]);
        assert_eq!(parts[0].names, [LONG_UNDER_MIRI[0]]);
        let mut dealt: Vec<&str> =
            parts.iter().flat_map(|part| part.names.iter().map(String::as_str)).collect();
        dealt.sort_unstable();
        names.sort_unstable();
        assert_eq!(dealt, names);
    }

    #[test]
    fn the_names_of_tests_are_read_from_the_harness() {
        let list = "a::tests::miri_b: test\nc::bench: benchmark\n\n1 test, 1 benchmark\n";
        assert_eq!(test_names(list).collect::<Vec<_>>(), ["a::tests::miri_b"]);
        assert_eq!(test_names("\n0 tests, 0 benchmarks\n").count(), 0);
    }
}
