//! Starts servers that end with this process, however it ends.
//!
//! Between this process and the server is a keeper: this same program, which starts the server and
//! then waits for the end of its standard input. That end comes when this process drops its
//! [`ServerProcess`], returns, panics or is killed; the keeper then kills the server by its own id
//! and removes its folder. The two have a process group of their own, so that a Ctrl-C at the
//! terminal reaches only this process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use resp::Value;

use crate::bare_log::BARE_LOG_COMMAND;
use crate::cache::memcached_wire::MemcachedWire;
use crate::target::Target;
use crate::wire::Wire;

/// A server under valgrind on a machine that does other work takes half of this.
const START_WAIT_MAX: Duration = Duration::from_secs(60);
const LOG_BYTES_SHOWN: usize = 2000;
/// The keeper's name on the command line; not for users.
pub const KEEPER_COMMAND: &str = "keep-server";

/// Which server to start.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// What the tables call it.
    pub name: String,
    pub program: PathBuf,
    /// Options beyond the common ones, each with its value (`["--io-threads", "2"]`).
    pub options: Vec<String>,
    /// The program that runs the server in its own process, with that program's options; empty
    /// where the server runs by itself.
    pub under: Vec<String>,
    /// The program is this one, as a server with a log and no store.
    is_bare: bool,
}

impl ServerSpec {
    /// Returns the spec of the server `program`, named after its file.
    pub fn new(program: impl Into<PathBuf>) -> ServerSpec {
        let program: PathBuf = program.into();
        // A bare name is looked up in PATH; a path must hold in the server's own folder too.
        let is_path = program.components().count() > 1;
        let program =
            if is_path { std::path::absolute(&program).unwrap_or(program) } else { program };
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ServerSpec { name, program, options: Vec::new(), under: Vec::new(), is_bare: false }
    }

    /// Returns the program that stands beside this one.
    ///
    /// # Errors
    /// When there is none.
    pub fn sibling(name: &str) -> anyhow::Result<ServerSpec> {
        let program = std::env::current_exe()?.with_file_name(name);
        if !program.is_file() {
            bail!("{} is not there; build it, or name one with --forebay", program.display());
        }
        Ok(ServerSpec::new(program))
    }

    /// Returns this program as a server with a log and no store.
    ///
    /// # Errors
    /// When its path is not known.
    pub fn bare() -> anyhow::Result<ServerSpec> {
        let name = "bare".to_owned();
        Ok(ServerSpec { name, is_bare: true, ..ServerSpec::new(std::env::current_exe()?) })
    }

    /// Returns the first line that the program prints about its version.
    pub fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").to_owned()
    }

    /// Returns what a result file says of it.
    pub fn record(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name,
            "version": self.version(),
            "options": self.options,
        })
    }

    fn is_memcached(&self) -> bool {
        self.program.file_name().is_some_and(|name| name == "memcached")
    }

    /// The same for every server: one port, one socket, no persistence. memcached listens on the
    /// port alone.
    fn arguments(&self, folder: &Path, port: u16) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if self.is_memcached() {
            let port = port.to_string();
            arguments.extend(["-p", &port, "-l", "127.0.0.1", "-U", "0"].map(OsString::from));
            arguments.extend(self.options.iter().map(OsString::from));
            return arguments;
        }
        if self.is_bare {
            arguments.extend([BARE_LOG_COMMAND.into(), port.to_string().into()]);
            arguments.extend([socket_path(folder).into_os_string(), folder.into()]);
            return arguments;
        }
        if self.program.file_name().is_some_and(|name| name == "forebay") {
            arguments.push("serve".into());
        }
        for (option, value) in [
            ("--port", port.to_string().into()),
            ("--bind", "127.0.0.1".into()),
            ("--unixsocket", socket_path(folder).into_os_string()),
            ("--dir", folder.as_os_str().to_owned()),
            ("--save", OsString::new()),
            ("--appendonly", "no".into()),
        ] {
            arguments.extend([option.into(), value]);
        }
        arguments.extend(self.options.iter().map(OsString::from));
        arguments
    }
}

/// A running server with an empty keyspace, in a folder of its own.
#[derive(Debug)]
pub struct ServerProcess {
    keeper: Child,
    id: u32,
    port: u16,
    folder: PathBuf,
}

impl ServerProcess {
    /// Starts `spec` and waits until it answers on its port and its socket.
    ///
    /// # Errors
    /// When it does not, with the end of what it printed.
    pub fn start(spec: &ServerSpec) -> anyhow::Result<ServerProcess> {
        let program = std::env::current_exe()?;
        ServerProcess::start_with_keeper(&program, spec)
    }

    /// Does what [`ServerProcess::start`] does, with the `forebay-bench` at `keeper_program`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn start_with_keeper(
        keeper_program: &Path,
        spec: &ServerSpec,
    ) -> anyhow::Result<ServerProcess> {
        let folder = new_folder()?;
        let port = free_port()?;
        let mut keeper = Command::new(keeper_program)
            .arg(KEEPER_COMMAND)
            .arg(&folder)
            .args(&spec.under)
            .arg(&spec.program)
            .args(spec.arguments(&folder, port))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", keeper_program.display()))?;
        let mut line = String::new();
        let output = keeper.stdout.take().expect("the keeper's output is a pipe");
        BufReader::new(output).read_line(&mut line)?;
        let id = line.trim().parse();
        let id = id.with_context(|| format!("{}: not started", spec.program.display()))?;
        let server = ServerProcess { keeper, id, port, folder };
        server.wait_until_ready(spec).with_context(|| server.log_end(&spec.name))?;
        Ok(server)
    }

    /// Returns the server's process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns its folder, which goes when it stops.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns its address over TCP.
    pub fn tcp(&self) -> Target {
        Target::local_port(self.port)
    }

    /// Returns its address over its unix socket.
    pub fn unix(&self) -> Target {
        Target::unix(socket_path(&self.folder))
    }

    /// Returns the address of lanes that its unix socket makes.
    pub fn shm(&self) -> Target {
        Target::shm(socket_path(&self.folder))
    }

    /// Returns the path of its unix socket.
    pub fn socket(&self) -> PathBuf {
        socket_path(&self.folder)
    }

    /// Stops the server, removes its folder and waits until both are gone.
    pub fn stop(self) {
        drop(self);
    }

    fn wait_until_ready(&self, spec: &ServerSpec) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_WAIT_MAX;
        let is_memcached = spec.is_memcached();
        let targets = if is_memcached { vec![self.tcp()] } else { vec![self.tcp(), self.unix()] };
        for target in targets {
            loop {
                let answer = match is_memcached {
                    true => MemcachedWire::connect(&target).and_then(|mut wire| wire.version()),
                    false => ping(&target),
                };
                match answer {
                    Ok(_) => break,
                    Err(_) if Instant::now() < deadline && self.is_running() => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    Err(error) => return Err(error.context(format!("no answer at {target}"))),
                }
            }
        }
        Ok(())
    }

    fn is_running(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap_or_default();
        // The state follows the name in parentheses; Z is a process that has ended.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    fn log_end(&self, name: &str) -> String {
        let log = fs::read(log_path(&self.folder)).unwrap_or_default();
        let shown = &log[log.len().saturating_sub(LOG_BYTES_SHOWN)..];
        format!("{name} did not start; it printed:\n{}", String::from_utf8_lossy(shown))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The keeper's own failure leaves nothing to be done here.
        let _ = self.keeper.wait();
    }
}

/// The keeper: starts `program` in `folder`, prints its id, and ends it when standard input ends.
///
/// # Errors
/// When the program cannot be started.
pub fn keep(folder: &Path, program: &OsString, arguments: &[OsString]) -> anyhow::Result<()> {
    let log = File::create(log_path(folder))?;
    let started = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn();
    let outcome = match started {
        Ok(mut child) => {
            // When nobody reads this any more, standard input has ended as well.
            let _ = writeln!(io::stdout(), "{}", child.id());
            let _ = io::stdin().read_to_end(&mut Vec::new());
            child.kill().and_then(|()| child.wait()).map(drop)
        }
        Err(error) => Err(error),
    };
    fs::remove_dir_all(folder)?;
    outcome.with_context(|| program.to_string_lossy().into_owned())
}

/// Has the server at `target` answer, once it has loaded what it keeps.
fn ping(target: &Target) -> anyhow::Result<String> {
    match Wire::connect(target)?.call(&[b"PING"])? {
        Value::Error(text) if text.starts_with(b"LOADING") => bail!("it still loads"),
        answer => Ok(format!("{answer:?}")),
    }
}

fn new_folder() -> anyhow::Result<PathBuf> {
    let parent = std::env::temp_dir();
    for attempt in 0..1000 {
        let folder = parent.join(format!("forebay-bench-{}-{attempt}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| folder.display().to_string()),
        }
    }
    bail!("{} is full of folders of this program", parent.display())
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn socket_path(folder: &Path) -> PathBuf {
    folder.join("socket")
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("log")
}
