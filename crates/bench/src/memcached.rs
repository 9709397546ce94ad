//! Clients of memcached: the processor time that a server takes for an operation, Forebay's and
//! memcached's in turn.
//!
//! Each server runs with one worker and serves 50 connections, which send the same bytes again and
//! again and read whole replies: the load is fixed in operations, not in time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::accounting::cpu_time;
use crate::bare_server::BARE_COMMAND;
use crate::compare::{Spread, progress};
use crate::record;

/// Connections that send at once.
const CONNECTIONS: usize = 50;
/// Keys, each with a value of 64 bytes.
const KEYS: usize = 10_000;
pub const VALUE_BYTES: usize = 64;
/// Operations of one sample.
const OPERATIONS: usize = 300_000;
const START_WAIT_MAX: Duration = Duration::from_secs(20);

/// The measurement.
#[derive(Clone, Debug)]
pub struct Memcached {
    /// The program `forebay`.
    pub forebay: PathBuf,
    /// The program `memcached`.
    pub other: PathBuf,
    /// Times that each row is measured on each server.
    pub rounds: usize,
    /// Whether a server without a store takes part, in the rows of single requests.
    pub adds_bare: bool,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// What is sent, how many operations that is, how long the reply is, and the least ratio.
struct Row {
    name: &'static str,
    operations: usize,
    request: fn(usize) -> Vec<u8>,
    reply_bytes: usize,
    bound: f64,
}

fn key(index: usize) -> String {
    format!("key:{:06}", index.wrapping_mul(7919) % KEYS)
}

fn value() -> String {
    "v".repeat(VALUE_BYTES)
}

fn pipelined(first: usize, count: usize, line: fn(usize) -> String) -> Vec<u8> {
    (first..first + count).map(line).collect::<String>().into_bytes()
}

/// `VALUE key:000000 0 64`, the value and both line ends; `END`.
const HIT_BYTES: usize = 23 + VALUE_BYTES + 2;
const META_BYTES: usize = 7 + VALUE_BYTES + 2;

const ROWS: [Row; 6] = [
    Row {
        name: "get",
        operations: 1,
        request: |at| pipelined(at, 1, |at| format!("get {}\r\n", key(at))),
        reply_bytes: HIT_BYTES + 5,
        bound: 1.15,
    },
    Row {
        name: "set",
        operations: 1,
        request: |at| pipelined(at, 1, |at| format!("set {} 0 0 64\r\n{}\r\n", key(at), value())),
        reply_bytes: 8,
        bound: 1.15,
    },
    Row {
        name: "get, pipeline 16",
        operations: 16,
        request: |at| pipelined(at, 16, |at| format!("get {}\r\n", key(at))),
        reply_bytes: 16 * (HIT_BYTES + 5),
        bound: 1.5,
    },
    Row {
        name: "mg, pipeline 16",
        operations: 16,
        request: |at| pipelined(at, 16, |at| format!("mg {} v\r\n", key(at))),
        reply_bytes: 16 * META_BYTES,
        bound: 1.5,
    },
    Row {
        name: "set, pipeline 16",
        operations: 16,
        request: |at| pipelined(at, 16, |at| format!("set {} 0 0 64\r\n{}\r\n", key(at), value())),
        reply_bytes: 16 * 8,
        bound: 1.0,
    },
    Row {
        name: "get of 100 keys",
        operations: 100,
        request: |at| {
            let keys: String = (at..at + 100).map(|at| format!(" {}", key(at))).collect();
            format!("get{keys}\r\n").into_bytes()
        },
        reply_bytes: 100 * HIT_BYTES + 5,
        bound: 1.5,
    },
];

/// A server that ends when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(program: &mut Command, port: u16) -> anyhow::Result<Server> {
        let name = format!("{program:?}");
        let child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context(name)?;
        let server = Server { child, port };
        let began = Instant::now();
        while server.connect().is_err() {
            ensure!(began.elapsed() < START_WAIT_MAX, "{program:?} does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    fn connect(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Stores all keys.
    fn fill(&self) -> anyhow::Result<()> {
        let mut stream = self.connect()?;
        for index in 0..KEYS {
            let line = format!("set key:{index:06} 0 0 64 noreply\r\n{}\r\n", value());
            stream.write_all(line.as_bytes())?;
        }
        stream.write_all(b"mn\r\n")?;
        stream.read_exact(&mut [0; 4])?;
        Ok(())
    }

    /// Returns the nanoseconds that the server takes for an operation of `row`.
    fn measure(&self, row: &Row) -> anyhow::Result<f64> {
        let mut streams =
            (0..CONNECTIONS).map(|_| self.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        let requests: Vec<_> = (0..CONNECTIONS).map(|at| (row.request)(at * 997)).collect();
        let mut reply = vec![0; row.reply_bytes];
        let rounds = OPERATIONS / CONNECTIONS / row.operations;
        let mut before = Duration::ZERO;
        for round in 0..=rounds {
            if round == 1 {
                // The first made everything ready.
                before = cpu_time(self.child.id())?;
            }
            for (stream, request) in streams.iter_mut().zip(&requests) {
                stream.write_all(request)?;
            }
            for stream in &mut streams {
                stream.read_exact(&mut reply)?;
            }
        }
        ensure!(reply.ends_with(b"\r\n"), "{}: the reply is as long as expected", row.name);
        let spent = cpu_time(self.child.id())? - before;
        Ok(spent.as_nanos() as f64 / (rounds * CONNECTIONS * row.operations) as f64)
    }
}

impl Memcached {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server does not start, or replies otherwise than expected.
    pub fn run(&self) -> anyhow::Result<()> {
        let (ours, theirs) = (free_port()?, free_port()?);
        let mut forebay = Command::new(&self.forebay);
        forebay.args(["memcached", "-l", "127.0.0.1", "-m", "256", "-t", "1", "-p"]);
        let subject = Server::start(forebay.arg(ours.to_string()), ours)?;
        let mut memcached = Command::new(&self.other);
        memcached.args(["-l", "127.0.0.1", "-m", "256", "-t", "1", "-U", "0", "-u", "root", "-p"]);
        let other = Server::start(memcached.arg(theirs.to_string()), theirs)?;
        subject.fill()?;
        other.fill()?;
        let mut rows = Vec::new();
        println!("{:20} {:>10} {:>10} {:>7}", "", "forebay ns", "memcached", "ratio");
        for row in &ROWS {
            rows.push(self.measure(row, "forebay", &subject, &other)?);
        }
        if self.adds_bare {
            let port = free_port()?;
            let mut bare = Command::new(std::env::current_exe()?);
            let bare = Server::start(bare.args([BARE_COMMAND, &port.to_string()]), port)?;
            for row in ROWS.iter().filter(|row| row.operations == 1) {
                rows.push(self.measure(row, "bare", &bare, &other)?);
            }
        }
        let servers = [version(&self.forebay), version(&self.other)];
        let result = json!({ "servers": servers, "connections": CONNECTIONS, "rows": rows });
        record::keep(self.results.as_deref(), "memcached", result)
    }

    fn measure(
        &self,
        row: &Row,
        name: &str,
        subject: &Server,
        other: &Server,
    ) -> anyhow::Result<Value> {
        let mut samples = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            progress(&format!("{} {round}", row.name));
            // In turn first, so that what else the machine does falls on both.
            let mut order = [(0, subject), (1, other)];
            order.rotate_left(round % 2);
            for (index, server) in order {
                samples[index].push(server.measure(row)?);
            }
        }
        progress("");
        let ratios = samples[1].iter().zip(&samples[0]).map(|(theirs, ours)| theirs / ours);
        let ratio = Spread::new(ratios);
        let [ours, theirs] = samples.map(|samples| Spread::new(samples.into_iter()));
        let is_bounded = name == "forebay";
        let mark = if is_bounded && ratio.median < row.bound { "  NOT MET" } else { "" };
        let label = if is_bounded { row.name.to_owned() } else { format!("{} ({name})", row.name) };
        println!(
            "{label:20} {:10.0} {:10.0} {:7.2}{mark}",
            ours.median, theirs.median, ratio.median
        );
        Ok(json!({
            "row": label,
            "bound": is_bounded.then_some(row.bound),
            (format!("{name}_ns")): ours.record(),
            "memcached_ns": theirs.record(),
            "ratio": ratio.record(),
        }))
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn version(program: &PathBuf) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").to_owned()
}
