//! The checks of unsafe and of lock-free code: loom on its protocols, miri on its memory accesses.

use std::process::Command;

use crate::process::{Tally, run, run_counted, succeeds};
use crate::steps::Report;
use crate::workspace::Workspace;

/// The crates whose protocols loom and miri run.
const MODELLED_CRATES: [&str; 2] = ["arena", "ring"];

/// Runs the loom tests: every interleaving of the sequence and pin protocols, and of a lane's.
///
/// # Errors
/// When cargo cannot be started.
pub fn loom(workspace: &Workspace) -> Result<Report, String> {
    let is_absent = |name: &&&str| !workspace.has(&format!("crates/{name}/tests/loom.rs"));
    if let Some(name) = MODELLED_CRATES.iter().find(is_absent) {
        return Ok(Report::CannotRun(format!("crates/{name}/tests/loom.rs does not exist")));
    }
    run_each("loom", |package| {
        let mut command = Command::new("cargo");
        command.args(["test", "--package", package, "--release", "--test", "loom"]);
        // A folder of its own: the flag would otherwise rebuild everything on each change of side.
        let target = workspace.target.join("loom");
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target);
        command.current_dir(&workspace.root);
        command
    })
}

/// Runs the tests whose names begin with `miri_`, over memory on the heap, under miri.
///
/// # Errors
/// When cargo cannot be started.
pub fn miri(workspace: &Workspace) -> Result<Report, String> {
    if !has_miri() {
        return Ok(Report::CannotRun("no nightly toolchain with miri and rust-src".to_owned()));
    }
    run_each("miri", |package| {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "miri", "test", "--package", package, "--lib", "--", "miri_"]);
        command.current_dir(&workspace.root);
        command
    })
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

/// Runs what `command` makes for each package. A filter or a cfg that matches nothing must not look
/// like success.
fn run_each(name: &str, command: impl Fn(&str) -> Command) -> Result<Report, String> {
    let mut sum = Tally::default();
    for package in MODELLED_CRATES.map(|name| format!("forebay-{name}")) {
        let tally = run_counted(&mut command(&package))?;
        if tally == Tally::default() {
            return Err(format!("{name} ran no test of {package}"));
        }
        sum.add(tally);
    }
    Ok(Report::Ran(sum))
}
