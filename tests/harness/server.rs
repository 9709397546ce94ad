//! Real servers: `forebay` and `redis-server`, each in a folder and on a port of its own.

use std::fs;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use client::Lane;

use crate::connection::{Connection, Raw, bare_lane};
use crate::folder::TempFolder;
use crate::poll::{let_pass, poll};
use crate::process::{Program, command};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server under test.
    Forebay,
    /// The `redis-server` that is installed: the oracle.
    Redis,
}

/// Another process may take a port between its choice and its use; then the next one is tried.
const STARTS_MAX: u32 = 5;

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Launch {
    kind: Kind,
    options: Vec<(String, String)>,
    wrapper: Vec<String>,
    port: Option<u16>,
    socket: Option<PathBuf>,
    /// Whether it has started once it answers, though it still loads its data.
    may_load: bool,
}

impl Launch {
    /// Returns the launch of a server that keeps nothing on disk and allows DEBUG.
    pub fn new(kind: Kind) -> Launch {
        let defaults =
            [("save", ""), ("appendonly", "no"), ("enable-debug-command", "yes"), ("bind", LOCAL)];
        let options = defaults.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Launch {
            kind,
            options: options.into(),
            wrapper: Vec::new(),
            port: None,
            socket: None,
            may_load: false,
        }
    }

    /// Sets a configuration option.
    pub fn option(mut self, name: &str, value: &str) -> Launch {
        self.options.retain(|(known, _)| known != name);
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs the server by the program and arguments `words`, which are followed by its own.
    pub fn by(mut self, words: &[&str]) -> Launch {
        self.wrapper = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Listens on `port` whether it is free or not.
    pub fn port(self, port: u16) -> Launch {
        Launch { port: Some(port), ..self }
    }

    /// Listens on the socket file `path` whether it exists or not.
    pub fn socket(self, path: &Path) -> Launch {
        Launch { socket: Some(path.to_owned()), ..self }
    }

    /// Does not wait for the data to be loaded.
    pub fn while_it_loads(self) -> Launch {
        Launch { may_load: true, ..self }
    }

    /// Starts the server and waits until it answers and has loaded its data.
    ///
    /// # Panics
    /// When it does not start; its log is in the message.
    pub fn start(self) -> Server {
        for _ in 1..STARTS_MAX {
            if let Ok(server) = self.try_start() {
                return server;
            }
        }
        self.try_start().unwrap_or_else(|log| panic!("{:?} does not start:\n{log}", self.kind))
    }

    /// Starts the server once.
    ///
    /// # Errors
    /// The log of a server that ended before it answered.
    pub fn try_start(&self) -> Result<Server, String> {
        let folder = TempFolder::new();
        let port = self.port.unwrap_or_else(free_port);
        let socket = self.socket.clone().unwrap_or_else(|| folder.join("socket"));
        let log = folder.join("log");
        let program = self.program(&folder, port, &socket, &log);
        let program = Program::start(program).map_err(|error| error.to_string())?;
        let mut server = Server { kind: self.kind, program, folder, port, socket, log };
        let is_ready = poll("a server to start", || server.is_ready(self.may_load));
        if is_ready { Ok(server) } else { Err(server.log()) }
    }

    fn program(&self, folder: &TempFolder, port: u16, socket: &Path, log: &Path) -> Command {
        let mut words = self.wrapper.clone();
        match self.kind {
            Kind::Forebay => words.extend([forebay().display().to_string(), "serve".to_owned()]),
            Kind::Redis => words.push("redis-server".to_owned()),
        }
        let mut program = command(&words[0]);
        program.args(&words[1..]).current_dir(folder.path());
        program.args(["--port", &port.to_string(), "--dir"]).arg(folder.path());
        program.arg("--unixsocket").arg(socket);
        for (name, value) in &self.options {
            program.arg(format!("--{name}")).arg(value);
        }
        let log = File::create(log).expect("a new folder takes a file");
        program.stdin(std::process::Stdio::null());
        program.stdout(log.try_clone().expect("a file can be shared")).stderr(log);
        program
    }
}

const LOCAL: &str = "127.0.0.1";

/// A running server; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    program: Program,
    folder: TempFolder,
    port: u16,
    socket: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts a server with nothing special about it.
    pub fn start(kind: Kind) -> Server {
        Launch::new(kind).start()
    }

    /// Returns what the server says to a client that sends `pieces` one by one and nothing after.
    ///
    /// # Panics
    /// When the server does not close.
    pub fn exchange(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let mut connection = self.tcp();
        for piece in pieces {
            if connection.send(piece).is_err() {
                break; // The server closed, as it does after an error.
            }
        }
        connection.end_requests();
        connection.read_to_end().expect("the server closes")
    }

    /// Returns which server it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns its TCP address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the path of its unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the folder it runs in.
    pub fn folder(&self) -> &TempFolder {
        &self.folder
    }

    /// Returns its process id.
    pub fn process_id(&self) -> u32 {
        self.program.id()
    }

    /// Returns a new connection over TCP.
    ///
    /// # Panics
    /// When it does not take one.
    pub fn tcp(&self) -> Connection {
        Connection::tcp(self.address()).expect("the server takes a connection over TCP")
    }

    /// Returns a new connection over the unix socket.
    ///
    /// # Panics
    /// When it does not take one.
    pub fn unix(&self) -> Connection {
        Connection::unix(&self.socket).expect("the server takes a connection over its socket")
    }

    /// Returns a new connection through shared memory, with rings of `ring_bytes`.
    ///
    /// # Panics
    /// When it does not take one.
    pub fn lane(&self, ring_bytes: u64) -> Connection {
        Connection::lane(&self.socket, ring_bytes).expect("the server makes a lane")
    }

    /// Returns the client's half of such a connection, which makes upload memory too.
    ///
    /// # Panics
    /// When it does not take one.
    pub fn bare_lane(&self, ring_bytes: u64) -> Lane {
        bare_lane(&self.socket, ring_bytes).expect("the server makes a lane")
    }

    /// Returns the field `name` of its INFO, a number.
    ///
    /// # Panics
    /// When there is none.
    pub fn info(&self, name: &str) -> u64 {
        self.unix().info(name)
    }

    /// Returns what it has logged.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into()).unwrap_or_default()
    }

    /// Returns how it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.program.status()
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait(&mut self) -> ExitStatus {
        self.program.wait()
    }

    /// Sends it the signal called `name`, such as `TERM`.
    pub fn signal(&self, name: &str) {
        self.program.signal(name);
    }

    /// Returns true once it answers on both sockets, and has its data unless it `may_load` them
    /// still; false once it has ended.
    fn is_ready(&mut self, may_load: bool) -> Option<bool> {
        if self.status().is_some() {
            return Some(false);
        }
        // Before any of the doors answers, another program's may: the process has to live after.
        let answers = answers(Connection::unix(&self.socket), may_load)
            && answers(Connection::tcp(self.address()), may_load);
        (answers && self.status().is_none()).then_some(true)
    }
}

/// Returns whether the server at the other end answers a request in any way.
fn answers(connection: io::Result<Connection>, may_load: bool) -> bool {
    let Ok(mut connection) = connection else { return false };
    let reply = connection.send(b"PING\r\n").and_then(|()| connection.read());
    let is_loading = |reply: &Raw| reply.error().is_some_and(|text| text.starts_with(b"LOADING"));
    reply.is_ok_and(|reply| may_load || !is_loading(&reply))
}

/// Returns a port that nobody listens on, below those from which the system serves outgoing
/// connections.
pub fn free_port() -> u16 {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run at the same time begin at different places.
    let start = (std::process::id().wrapping_mul(97) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start + offset) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Returns the path of the `forebay` program: `FOREBAY_BIN`, or the one of the profile that these
/// tests were built with, which is built first if it is not up to date.
pub fn forebay() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("FOREBAY_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its path");
    let profile_folder = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    let target = profile_folder.parent().expect("tests lie in target/<profile>/deps");
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = command(cargo);
    build.args(["build", "--quiet", "--package", "forebay-server", "--bin", "forebay"]);
    build.args(["--profile", profile, "--target-dir"]).arg(target);
    if cfg!(feature = "protocol-mutations") {
        build.args(["--features", "protocol-mutations"]);
    }
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    let mut program = Program::start(build).expect("cargo starts");
    // A build takes as long as it takes; cargo ends by itself.
    let status = loop {
        match program.status() {
            Some(status) => break status,
            None => let_pass(Duration::from_millis(100)),
        }
    };
    assert!(status.success(), "cargo builds forebay");
    profile_folder.join("forebay")
}
