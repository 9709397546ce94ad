//! The checks of unsafe and of lock-free code: loom on its protocols, miri on its memory accesses.

use std::process::Command;

use crate::process::{Tally, run, run_counted, succeeds};
use crate::steps::Report;
use crate::workspace::Workspace;

/// Where the loom tests of `arena` are.
const LOOM_TEST: &str = "crates/arena/tests/loom.rs";

/// Runs the loom tests: every interleaving of the sequence and pin protocols.
///
/// # Errors
/// When cargo cannot be started.
pub fn loom(workspace: &Workspace) -> Result<Report, String> {
    if !workspace.has(LOOM_TEST) {
        return Ok(Report::CannotRun(format!("{LOOM_TEST} does not exist")));
    }
    let mut command = Command::new("cargo");
    command.args(["test", "--package", "forebay-arena", "--release", "--test", "loom"]);
    // A folder of its own: the flag would otherwise rebuild everything on each change of side.
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", workspace.target.join("loom"));
    need_tests(run_counted(command.current_dir(&workspace.root))?, "loom")
}

/// Runs the tests of `arena` whose names begin with `miri_`, over heap segments, under miri.
///
/// # Errors
/// When cargo cannot be started.
pub fn miri(workspace: &Workspace) -> Result<Report, String> {
    if !has_miri() {
        return Ok(Report::CannotRun("no nightly toolchain with miri and rust-src".to_owned()));
    }
    let mut command = Command::new("cargo");
    command.args(["+nightly", "miri", "test", "--package", "forebay-arena", "--", "miri_"]);
    need_tests(run_counted(command.current_dir(&workspace.root))?, "miri")
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

/// A filter or a cfg that matches nothing must not look like success.
fn need_tests(tally: Tally, name: &str) -> Result<Report, String> {
    if tally == Tally::default() {
        return Err(format!("{name} ran no test"));
    }
    Ok(Report::Ran(tally))
}
