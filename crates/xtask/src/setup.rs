//! Installs what the tests need and the machine lacks: Debian packages, and redis-py in a virtual
//! environment under the target folder. Says nothing when everything is there.

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
    Tool { probe: &["python3", "-c", "import ensurepip, venv"], package: "python3-venv" },
];

const REQUIREMENTS: &str = "tests/requirements.txt";

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
    install_python_packages(&workspace)
}

/// Returns the Python interpreter that has redis-py.
pub fn python(workspace: &Workspace) -> PathBuf {
    workspace.target.join("venv/bin/python")
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

/// Makes the virtual environment anew when the requirements changed since it was made.
fn install_python_packages(workspace: &Workspace) -> Result<(), String> {
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let requirements = workspace.root.join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements).map_err(|error| fail(&requirements, error))?;
    let folder = workspace.target.join("venv");
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted)
        && succeeds(&python(workspace).to_string_lossy(), &["-c", "import redis"])
    {
        return Ok(());
    }
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    process::run(Command::new(python(workspace)).args(pip).arg(&requirements))?;
    fs::write(&stamp, wanted).map_err(|error| fail(&stamp, error))
}
