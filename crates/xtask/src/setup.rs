//! Installs what the tests need and the machine lacks: Debian packages, and Python's in virtual
//! environments under the target folder. Says nothing when everything is there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{self, output_of, succeeds};
use crate::workspace::Workspace;

struct Tool {
    /// A command that succeeds when the tool is there.
    probe: &'static [&'static str],
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { probe: &["redis-server", "--version"], package: "redis-server" },
    Tool { probe: &["redis-cli", "--version"], package: "redis-tools" },
    Tool { probe: &["redis-benchmark", "--version"], package: "redis-tools" },
    Tool { probe: &["memcached", "--version"], package: "memcached" },
    Tool { probe: &["memccapable", "--version"], package: "libmemcached-tools" },
    Tool { probe: &["python3", "-c", "import ensurepip, venv"], package: "python3-venv" },
];

/// Debian's way to say that an installed package must not start its service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs what is absent.
///
/// # Errors
/// When something is absent and cannot be installed.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("setup takes no argument".to_owned());
    }
    let workspace = Workspace::load()?;
    install_packages()?;
    [OF_TESTS, OF_PACKAGE].iter().try_for_each(|environment| environment.install(&workspace))
}

/// Returns the Python interpreter that has redis-py.
pub fn python(workspace: &Workspace) -> PathBuf {
    OF_TESTS.python(workspace)
}

/// Returns the Python interpreter that has what the Python package is built and tested with; `None`
/// before [`run`] has installed it.
pub fn package_python(workspace: &Workspace) -> Option<PathBuf> {
    OF_PACKAGE.is_installed(workspace).then(|| OF_PACKAGE.python(workspace))
}

fn install_packages() -> Result<(), String> {
    let mut packages: Vec<&str> = TOOLS
        .iter()
        .filter(|tool| !succeeds(tool.probe[0], &tool.probe[1..]))
        .map(|tool| tool.package)
        .collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let policy = ServicePolicy::forbid_starts()?;
    let installed = process::run(as_root("apt-get").args(["update", "--quiet", "--quiet"]))
        .and_then(|()| process::run(as_root("apt-get").args(APT_INSTALL).args(&packages)));
    policy.restore()?;
    installed
}

const APT_INSTALL: [&str; 4] = ["install", "--quiet", "--quiet", "--yes"];

/// Keeps packages from starting their services while it lasts; no service outlives the install.
struct ServicePolicy {
    is_ours: bool,
}

impl ServicePolicy {
    fn forbid_starts() -> Result<ServicePolicy, String> {
        if Path::new(POLICY).exists() {
            return Ok(ServicePolicy { is_ours: false });
        }
        let draft = std::env::temp_dir().join(format!("forebay-policy-{}", std::process::id()));
        let fail = |error: std::io::Error| format!("{}: {error}", draft.display());
        fs::write(&draft, "#!/bin/sh\nexit 101\n").map_err(fail)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).map_err(fail)?;
        let copied = process::run(as_root("cp").arg(&draft).arg(POLICY));
        fs::remove_file(&draft).map_err(fail)?;
        copied.map(|()| ServicePolicy { is_ours: true })
    }

    fn restore(self) -> Result<(), String> {
        if self.is_ours { process::run(as_root("rm").arg(POLICY)) } else { Ok(()) }
    }
}

/// Returns `program` as root runs it; anyone else goes through sudo, which must not ask.
fn as_root(program: &str) -> Command {
    let is_root = output_of("id", &["-u"]).is_ok_and(|id| id.trim() == "0");
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    if !is_root {
        command.args(["--non-interactive", "env"]);
    }
    command.args(["DEBIAN_FRONTEND=noninteractive", program]);
    command
}

/// A virtual environment below the target folder.
struct PythonEnvironment {
    folder: &'static str,
    /// What is in it: the path of a list for pip.
    requirements: &'static str,
    /// What can be imported once it is whole.
    probe: &'static str,
}

/// That of the integration tests.
const OF_TESTS: PythonEnvironment = PythonEnvironment {
    folder: "venv",
    requirements: "tests/requirements.txt",
    probe: "import redis, pymemcache, pylibmc, django",
};
/// That in which the Python package is built, installed and tested.
const OF_PACKAGE: PythonEnvironment = PythonEnvironment {
    folder: "venv-python",
    requirements: "clients/python/tests/requirements.txt",
    probe: "import maturin, pytest, numpy, pyarrow, pandas, redis, mosec, joblib, fsspec, django",
};

impl PythonEnvironment {
    fn python(&self, workspace: &Workspace) -> PathBuf {
        workspace.target.join(self.folder).join("bin/python")
    }

    /// Returns what the list asks for, if that is what is there.
    fn is_installed(&self, workspace: &Workspace) -> bool {
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        let wanted = read(workspace.root.join(self.requirements));
        wanted.is_some()
            && wanted == read(self.stamp(workspace))
            && succeeds(&self.python(workspace).to_string_lossy(), &["-c", self.probe])
    }

    /// Where it is noted what is there.
    fn stamp(&self, workspace: &Workspace) -> PathBuf {
        workspace.target.join(self.folder).join("installed.txt")
    }

    /// Makes the environment anew when the list has changed since it was made.
    fn install(&self, workspace: &Workspace) -> Result<(), String> {
        if self.is_installed(workspace) {
            return Ok(());
        }
        let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        let requirements = workspace.root.join(self.requirements);
        let wanted =
            fs::read_to_string(&requirements).map_err(|error| fail(&requirements, error))?;
        let folder = workspace.target.join(self.folder);
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
        process::run(Command::new(self.python(workspace)).args(pip).arg(&requirements))?;
        let stamp = self.stamp(workspace);
        fs::write(&stamp, wanted).map_err(|error| fail(&stamp, error))
    }
}
