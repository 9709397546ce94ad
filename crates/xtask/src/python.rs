//! The Python package: builds its wheel, installs it and runs its tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::process::{run, run_counted};
use crate::setup;
use crate::steps::Report;
use crate::workspace::Workspace;

const PACKAGE: &str = "clients/python";

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
    let wheel = wheel(workspace, &python)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
    run(Command::new(&python).args(pip).arg("--force-reinstall").arg(&wheel))?;
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    tests.current_dir(workspace.root.join(PACKAGE)).env("FOREBAY_WHEEL", &wheel);
    Ok(Report::Ran(run_counted(&mut tests)?))
}

/// Builds the wheel as pip does, but without optimisation, and returns its path.
fn wheel(workspace: &Workspace, python: &Path) -> Result<PathBuf, String> {
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let folder = workspace.target.join("wheels");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| fail(&folder, error))?;
    }
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--no-build-isolation", "--wheel-dir"]).arg(&folder);
    pip.arg(workspace.root.join(PACKAGE)).env("MATURIN_PEP517_ARGS", "--profile dev");
    pip.env("CARGO_TARGET_DIR", &workspace.target).env("PATH", path_beside(python)?);
    run(&mut pip)?;
    let mut wheels = fs::read_dir(&folder).map_err(|error| fail(&folder, error))?;
    let wheel = wheels.next().ok_or_else(|| format!("{} is empty", folder.display()))?;
    wheel.map(|wheel| wheel.path()).map_err(|error| fail(&folder, error))
}

/// Returns the search path for programs with those first that are installed beside `python`, such
/// as maturin.
fn path_beside(python: &Path) -> Result<OsString, String> {
    let folders = python.parent().map(Path::to_owned).into_iter();
    let inherited = env::var_os("PATH").unwrap_or_default();
    env::join_paths(folders.chain(env::split_paths(&inherited))).map_err(|error| error.to_string())
}
