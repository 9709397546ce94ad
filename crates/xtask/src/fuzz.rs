//! Builds and runs the fuzz targets in `fuzz/`, with libFuzzer.
//!
//! The folder has the layout that cargo-fuzz expects, but neither that tool nor a nightly compiler
//! is needed: coverage comes from an LLVM pass that the stable compiler has. The targets run safe
//! code, so there is no address sanitizer here; miri is the judge of unsafe code.
//!
//! A target starts from the seeds in `fuzz/corpus/<name>/`, small texts that are kept in git, and
//! knows the words of the command table from a dictionary that is written anew each time.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::dictionary;
use crate::process::{self, TestCounts, output_of, side_by_side};
use crate::stress_tests::split_short;
use crate::workspace::Workspace;

/// Executions of each target in the short form, and the seconds after which it ends anyway.
const SHORT_RUNS: u64 = 1_000_000;
const SHORT_SECONDS: u64 = 25;
/// Executions of each target in the long form.
const LONG_RUNS: u64 = 20_000_000;

/// What cargo-fuzz passes for coverage, without the flags that only a nightly compiler takes.
const COVERAGE_FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// Runs the fuzz targets, all or those named; `--short` bounds each to 25 seconds.
///
/// # Errors
/// When there is no such target, the build fails, or a target finds an input that breaks it.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (short, names) = split_short(arguments);
    let workspace = Workspace::load()?;
    let known = targets(&workspace)?;
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|target| target == *name)) {
        return Err(format!("no fuzz target is called '{unknown}'; there are: {known:?}"));
    }
    let chosen: Vec<String> =
        known.into_iter().filter(|name| names.is_empty() || names.contains(&&**name)).collect();
    let counts = run_targets(&workspace, &chosen, short)?;
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if counts.failed == 0 { Ok(()) } else { Err("a fuzz target found a failure".to_owned()) }
}

/// Returns the names of the fuzz targets.
///
/// # Errors
/// When the folder cannot be read.
pub fn targets(workspace: &Workspace) -> Result<Vec<String>, String> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("fuzz/fuzz_targets: {error}"))?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds the targets and runs each in `names`, as many at a time as there are processors; one that
/// survives counts as passed.
///
/// # Errors
/// When the build fails.
pub fn run_targets(
    workspace: &Workspace,
    names: &[String],
    short: bool,
) -> Result<TestCounts, String> {
    let host = host_triple()?;
    let target_folder = workspace.target.join("fuzz");
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    build.current_dir(&workspace.root).env("CARGO_TARGET_DIR", &target_folder);
    process::run(build.env("RUSTFLAGS", COVERAGE_FLAGS))?;
    let dictionary = dictionary::write(workspace)?;
    let programs = target_folder.join(host).join("release");
    let survived = side_by_side(names, |name| {
        let outcome = run_target(workspace, &programs.join(name), &dictionary, short);
        if let Err(message) = &outcome {
            println!("fuzz target {name}: {message}");
        }
        outcome.is_ok()
    });
    let passed = survived.iter().filter(|survived| **survived).count() as u64;
    Ok(TestCounts { passed, failed: survived.len() as u64 - passed })
}

/// Runs one target: new inputs go to a corpus in the target folder, the checked-in ones seed it,
/// and an input that breaks the target is left in `fuzz/artifacts/<name>/`.
fn run_target(
    workspace: &Workspace,
    program: &Path,
    dictionary: &Path,
    short: bool,
) -> Result<(), String> {
    let name = program.file_name().expect("a target is a file").to_string_lossy();
    let name = name.as_ref();
    let grown = workspace.target.join("fuzz/corpus").join(name);
    let seeds = workspace.root.join("fuzz/corpus").join(name);
    let artifacts = workspace.root.join("fuzz/artifacts").join(name);
    for folder in [&grown, &artifacts] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    if !has_files(&seeds) {
        return Err(format!("{} holds no seed", seeds.display()));
    }
    let mut command = Command::new(program);
    command.arg(&grown).arg(&seeds);
    command.arg(format!("-dict={}", dictionary.display()));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(["-print_final_stats=1", "-timeout=10"]);
    command.arg(format!("-runs={}", if short { SHORT_RUNS } else { LONG_RUNS }));
    if short {
        command.arg(format!("-max_total_time={SHORT_SECONDS}"));
    }
    let output = command.current_dir(&workspace.root).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    // libFuzzer reports on standard error, thousands of lines of it; the end tells what matters.
    let report = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!("fuzz target {name}: {} executions", executions(&report).unwrap_or("?"));
        print_slow(&report);
        return Ok(());
    }
    let lines: Vec<&str> = report.lines().collect();
    let end = lines[lines.len().saturating_sub(REPORT_LINES_SHOWN)..].join("\n");
    Err(format!("{end}\nended with {}", output.status))
}

/// Tells which inputs took longer than a step may (`fuzz/step.rs`), the slowest first. None fails
/// the target: on a machine that does other work any may.
fn print_slow(report: &str) {
    const SHOWN_MAX: usize = 5;
    let mut slow = slow_units(report);
    slow.sort_by_key(|(time_ms, _)| std::cmp::Reverse(*time_ms));
    if !slow.is_empty() {
        println!("  {} slow units", slow.len());
    }
    for (time_ms, input) in slow.iter().take(SHOWN_MAX) {
        println!("  {time_ms} ms: {input}");
    }
}

/// Returns the milliseconds and the beginning of each input that was slow.
fn slow_units(report: &str) -> Vec<(u64, &str)> {
    let lines = report.lines().filter_map(|line| line.strip_prefix("slow unit: "));
    let parts = lines.filter_map(|line| line.split_once(" ms: "));
    parts.filter_map(|(time, input)| Some((time.parse().ok()?, input))).collect()
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// How much of a failed target's report is shown.
const REPORT_LINES_SHOWN: usize = 40;

fn executions(report: &str) -> Option<&str> {
    let mut lines = report.lines();
    lines.find_map(|line| line.strip_prefix("stat::number_of_executed_units:")).map(str::trim)
}

fn host_triple() -> Result<String, String> {
    let version = output_of("rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_units_are_found_in_a_report() {
        let report = "#1 NEW\nslow unit: 150 ms: a\\n ms: b\nslow unit: x ms: c\n#2 pulse";
        assert_eq!(slow_units(report), [(150, "a\\n ms: b")]);
    }
}
