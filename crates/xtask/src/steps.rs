//! The steps of a full test run, and the table that it prints at the end.

use std::process::Command;
use std::time::Instant;

use crate::process::{TestCounts, processor_seconds, run, run_counted};
use crate::workspace::Workspace;
use crate::{docs, fuzz, loom_and_miri, python, setup, stress_tests, tidy};

/// What became of a step that did not fail to start.
pub enum Report {
    /// It ran; the counts are zero for a step that has no tests in it.
    Ran(TestCounts),
    /// This machine or this tree lacks something that the step needs.
    CannotRun(String),
}

struct Step {
    name: &'static str,
    run: fn(&Workspace) -> Result<Report, String>,
}

const CHECK: &[Step] = &[
    Step { name: "format", run: format },
    Step { name: "tidy", run: |_| tidy::run(&[]).map(|()| Report::Ran(TestCounts::default())) },
    Step { name: "lints", run: lints },
    Step { name: "links", run: links },
];

const TEST: &[Step] = &[
    Step { name: "tests", run: tests },
    Step { name: "docs", run: docs::check },
    Step { name: "python", run: python::test },
    Step { name: "loom", run: loom_and_miri::loom },
    Step { name: "miri", run: loom_and_miri::miri },
    Step { name: "stress tests", run: short_stress_tests },
    Step { name: "fuzz", run: short_fuzz },
];

/// Runs the checks that need no test: format, house rules, lints, links in documentation.
///
/// # Errors
/// When one of them fails.
pub fn check(_: &[String]) -> Result<(), String> {
    run_steps(&[CHECK], false)
}

/// Runs everything; says which steps this machine cannot run.
///
/// # Errors
/// When a step fails.
pub fn test(_: &[String]) -> Result<(), String> {
    run_steps(&[CHECK, TEST], false)
}

/// Runs everything; a step that cannot run has failed.
///
/// # Errors
/// When a step fails or cannot run.
pub fn ci(_: &[String]) -> Result<(), String> {
    run_steps(&[CHECK, TEST], true)
}

/// The comparisons that `bench` runs when it is not told which.
const BENCH_TABLES: [&str; 4] = ["core", "commands", "pipeline", "sink"];

/// The commands of `forebay bench` that record what they measured.
const RECORDING: [&str; 15] = [
    "compare",
    "memory",
    "small",
    "churn",
    "limits",
    "hit-rate",
    "cache",
    "cache-sim",
    "reader",
    "kills",
    "restart",
    "local",
    "memcached",
    "pipeline",
    "instructions",
];
/// The table that is a command of its own.
const LOCAL_TABLE: [&str; 2] = ["--table", "local"];
/// Where they record it, from the root of the repository.
const RESULTS: &str = "bench/results";

/// Builds for release and runs `forebay bench` with `arguments`, recording in the repository's
/// folder of results; without any, compares by every table in turn.
///
/// # Errors
/// When the build or a measurement fails.
pub fn bench(arguments: &[String]) -> Result<(), String> {
    let workspace = Workspace::load()?;
    let mut packages = vec!["--package", "forebay-server", "--package", "forebay-bench"];
    if arguments.first().is_some_and(|first| first == "kills") {
        // The client that it kills is that of the tests.
        packages.extend(["--package", "forebay-tests"]);
    }
    run(cargo(&workspace).args(["build", "--release", "--bins"]).args(packages))?;
    bench_calls(arguments).iter().try_for_each(|call| {
        let mut command = Command::new(workspace.target.join("release/forebay-bench"));
        run(command.args(call).current_dir(&workspace.root))
    })
}

/// Returns the calls of the benchmark that `arguments` ask for: options alone are those of its
/// comparison.
fn bench_calls(arguments: &[String]) -> Vec<Vec<&str>> {
    let mut calls: Vec<Vec<&str>> = match arguments.first() {
        None => BENCH_TABLES.iter().map(|table| vec!["compare", "--table", table]).collect(),
        Some(_) if arguments.len() >= 2 && arguments[..2] == LOCAL_TABLE => {
            vec![["local"].into_iter().chain(arguments[2..].iter().map(String::as_str)).collect()]
        }
        Some(first) => {
            let is_option = first.starts_with('-');
            let command = is_option.then_some("compare").into_iter();
            vec![command.chain(arguments.iter().map(String::as_str)).collect()]
        }
    };
    for call in &mut calls {
        let is_named = call.iter().any(|word| word.starts_with("--results"));
        if RECORDING.contains(&call[0]) && !is_named {
            call.extend(["--results", RESULTS]);
        }
    }
    calls
}

/// Runs all steps, even after one failed, and ends with a table of them and one line that counts
/// tests.
fn run_steps(groups: &[&[Step]], strict: bool) -> Result<(), String> {
    let mut workspace = Workspace::load()?;
    workspace.is_strict = strict;
    let mut counts = TestCounts::default();
    let mut account = Vec::new();
    for step in groups.iter().flat_map(|group| group.iter()) {
        println!("\n== {}", step.name);
        let (start, processor_start) = (Instant::now(), processor_seconds()?);
        let (reported, result) = judge((step.run)(&workspace), strict);
        counts.add(reported);
        let seconds = start.elapsed().as_secs();
        let of_processors = processor_seconds()? - processor_start;
        account.push(format!("{:<10} {seconds:>5} s {of_processors:>5} s  {result}", step.name));
    }
    println!("\nstep        passed  worked\n{}", account.join("\n"));
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if counts.failed == 0 { Ok(()) } else { Err("not everything passed".to_owned()) }
}

/// Returns what a step adds to the count, and its line in the closing table. A step without tests
/// adds nothing when it holds and one failure when it does not.
fn judge(outcome: Result<Report, String>, strict: bool) -> (TestCounts, String) {
    let failure = TestCounts { passed: 0, failed: 1 };
    match outcome {
        Ok(Report::Ran(counts)) if counts == TestCounts::default() => (counts, "holds".to_owned()),
        Ok(Report::Ran(counts)) => {
            (counts, format!("{} passed, {} failed", counts.passed, counts.failed))
        }
        Ok(Report::CannotRun(reason)) if strict => (failure, format!("DID NOT RUN: {reason}")),
        Ok(Report::CannotRun(reason)) => (TestCounts::default(), format!("DID NOT RUN: {reason}")),
        Err(message) => (failure, format!("FAILED: {message}")),
    }
}

fn cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root);
    command
}

fn format(workspace: &Workspace) -> Result<Report, String> {
    run(cargo(workspace).args(["fmt", "--all", "--check"]))?;
    // `cargo fmt` does not find these.
    let files = tidy::files_declared_by_macros(workspace)?;
    if !files.is_empty() {
        let options = ["--check", "--edition", "2024"];
        run(Command::new("rustfmt").current_dir(&workspace.root).args(options).args(files))?;
    }
    if workspace.has("fuzz/Cargo.toml") {
        run(cargo(workspace).args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    }
    Ok(Report::Ran(TestCounts::default()))
}

fn lints(workspace: &Workspace) -> Result<Report, String> {
    let scope = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(workspace).args(scope).args(["--", "--deny", "warnings"]))?;
    if workspace.has("fuzz/Cargo.toml") {
        // The targets are a workspace of their own: without this a change of what they call would
        // be noticed by the last step only.
        let mut targets = cargo(workspace);
        targets.args(["clippy", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
        run(targets.arg(&workspace.target).args(["--", "--deny", "warnings"]))?;
    }
    Ok(Report::Ran(TestCounts::default()))
}

/// Builds the documentation of the source: a link in it that leads nowhere is an error.
fn links(workspace: &Workspace) -> Result<Report, String> {
    let scope = ["doc", "--quiet", "--workspace", "--all-features", "--no-deps"];
    run(cargo(workspace).args(scope).env("RUSTDOCFLAGS", "--deny warnings"))?;
    Ok(Report::Ran(TestCounts::default()))
}

/// Builds the programs that the integration tests start, then runs every test of the workspace.
fn tests(workspace: &Workspace) -> Result<Report, String> {
    run(cargo(workspace).args(["build", "--workspace", "--bins"]))?;
    let mut command = cargo(workspace);
    command.args(["test", "--workspace", "--no-fail-fast", "--features", "forebay-tests/tokio"]);
    command.env("FOREBAY_PYTHON", setup::python(workspace));
    if workspace.is_strict {
        command.env("FOREBAY_STRICT", "1");
    }
    Ok(Report::Ran(run_counted(&mut command)?))
}

fn short_stress_tests(workspace: &Workspace) -> Result<Report, String> {
    Ok(Report::Ran(stress_tests::run_named(workspace, true, &[])?))
}

fn short_fuzz(workspace: &Workspace) -> Result<Report, String> {
    if !workspace.has("fuzz/fuzz_targets") {
        return Ok(Report::CannotRun("fuzz/fuzz_targets does not exist".to_owned()));
    }
    Ok(Report::Ran(fuzz::run_targets(workspace, &fuzz::targets(workspace)?, true)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_or_cannot_run_is_never_counted_as_passed() {
        let failed = judge(Err("broken".to_owned()), false);
        assert_eq!(failed, (TestCounts { passed: 0, failed: 1 }, "FAILED: broken".to_owned()));
        let absent = || Ok(Report::CannotRun("no miri".to_owned()));
        assert_eq!(
            judge(absent(), false),
            (TestCounts::default(), "DID NOT RUN: no miri".to_owned())
        );
        assert_eq!(judge(absent(), true).0.failed, 1);
        assert_eq!(judge(Ok(Report::Ran(TestCounts { passed: 2, failed: 1 })), false).0.failed, 1);
    }

    #[test]
    fn options_alone_are_those_of_the_comparison() {
        let calls = |line: &str| -> Vec<String> {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            bench_calls(&words).iter().map(|call| call.join(" ")).collect()
        };
        assert_eq!(calls("--pairs 2"), ["compare --pairs 2 --results bench/results"]);
        assert_eq!(calls("--table local --rounds 2"), ["local --rounds 2 --results bench/results"]);
        assert_eq!(calls("memory --alone"), ["memory --alone --results bench/results"]);
        assert_eq!(calls("memory --results=x"), ["memory --results=x"]);
        assert_eq!(calls("run --url x"), ["run --url x"]);
        assert_eq!(calls("").len(), BENCH_TABLES.len());
        assert_eq!(calls("")[0], "compare --table core --results bench/results");
    }
}
