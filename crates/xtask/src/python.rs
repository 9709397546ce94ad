//! The Python package: builds its wheel, installs it and runs its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{printed, run, run_counted};
use crate::setup;
use crate::steps::Report;
use crate::workspace::Workspace;

const PACKAGE: &str = "clients/python";
/// What of the package's folder is installed as programs; git ignores it.
const SCRIPTS: &str = "clients/python/forebay._native.data/scripts";

/// Does what the step of a full test run does.
///
/// # Errors
/// When a test fails, or the environment is not installed.
pub fn run_alone(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("python takes no argument".to_owned());
    }
    match test(&Workspace::load()?)? {
        Report::Ran(counts) if counts.failed == 0 => Ok(()),
        Report::Ran(counts) => Err(format!("{} tests failed", counts.failed)),
        Report::CannotRun(reason) => Err(reason),
    }
}

/// Builds the wheel with the program in it, installs it into the environment of the tests, and runs
/// them.
pub fn test(workspace: &Workspace) -> Result<Report, String> {
    let Some(python) = setup::package_python(workspace) else {
        let reason = "its environment is not installed: cargo xtask setup";
        return Ok(Report::CannotRun(reason.to_owned()));
    };
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--package", "forebay-server", "--bins"]).current_dir(&workspace.root);
    run(&mut cargo)?;
    let wheel = wheel(workspace, &python)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
    run(Command::new(&python).args(pip).arg("--force-reinstall").arg(&wheel))?;
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    tests.current_dir(workspace.root.join(PACKAGE)).env("FOREBAY_WHEEL", &wheel);
    Ok(Report::Ran(run_counted(&mut tests)?))
}

/// Builds the wheel without optimisation, and returns its path.
fn wheel(workspace: &Workspace, python: &Path) -> Result<PathBuf, String> {
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let scripts = workspace.root.join(SCRIPTS);
    fs::create_dir_all(&scripts).map_err(|error| fail(&scripts, error))?;
    let program = scripts.join("forebay");
    // Its debugging aids are most of it, and would take longer to pack than all tests.
    let built = workspace.target.join("debug/forebay");
    run(Command::new("strip").arg("-o").arg(&program).arg(&built))?;
    let folder = workspace.target.join("wheels");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| fail(&folder, error))?;
    }
    let mut maturin = Command::new(python);
    maturin.args(["-m", "maturin", "build", "--quiet", "--strip", "--interpreter"]).arg(python);
    maturin.arg("--out").arg(&folder).env("CARGO_TARGET_DIR", &workspace.target);
    let built = printed(maturin.current_dir(workspace.root.join(PACKAGE)));
    fs::remove_file(&program).map_err(|error| fail(&program, error))?;
    built?;
    let mut wheels = fs::read_dir(&folder).map_err(|error| fail(&folder, error))?;
    let wheel = wheels.next().ok_or_else(|| format!("{} is empty", folder.display()))?;
    wheel.map(|wheel| wheel.path()).map_err(|error| fail(&folder, error))
}
