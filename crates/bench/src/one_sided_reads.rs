//! Compares reads through shared memory with the same reads over the unix socket, and counts the
//! system calls that they make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use base::prng::Prng;
use client::{Attached, Client};
use resp::Value;
use serde_json::{Value as Json, json};

use crate::collection_reads;
use crate::compare::progress;
use crate::read_cost::attach;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::target::Target;
use crate::wire::Wire;

/// The hidden subcommand that reads in a process of its own, so that its calls can be counted.
pub const READS_COMMAND: &str = "reads-for-count";

/// SETs that travel together.
const LOAD_BATCH: u64 = 1000;
/// Keys that fit in the first caches of a processor, entries and index too.
const CACHED_KEYS: u64 = 64;
const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 1 << 20;
const LARGE_KEY: &[u8] = b"reader:large";
/// Keys of one MGET.
const MGET_KEYS: usize = 16;
/// Longer than a server lets pass before it looks for full memory again.
const SETTLE_PAUSE: Duration = Duration::from_secs(3);
/// Reads whose calls are counted.
const COUNTED_READS: u64 = 100_000;

/// A measurement of reads.
#[derive(Clone, Debug)]
pub struct Reads {
    pub server: ServerSpec,
    /// Keys of 64 B values; the row over all of them misses the caches.
    pub key_count: u64,
    /// Samples of each row.
    pub samples: usize,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// One way to read, and how often: what is timed is `reads_per_sample` reads in a row.
struct Row {
    name: &'static str,
    way: Way,
    key_count: u64,
    is_large: bool,
    reads_per_sample: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// GET through shared memory, copied.
    Copied,
    /// A view through shared memory, pinned.
    Pinned,
    /// MGET through shared memory, [`MGET_KEYS`] at a time.
    Mget,
    /// GET over the unix socket.
    Socket,
}

/// What reads.
struct Readers {
    attached: Attached,
    client: Client,
    wire: Wire,
    buffer: Vec<u8>,
}

/// Nanoseconds of one read, over samples.
struct Times {
    median: f64,
    p99: f64,
}

impl Reads {
    /// Measures, prints a table and writes its file.
    ///
    /// # Errors
    /// When the server fails or a read returns something else than what was stored.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.key_count >= CACHED_KEYS && self.samples > 0, "{CACHED_KEYS} keys or more");
        let server = ServerProcess::start(&self.server)?;
        load(&server.unix(), self.key_count)?;
        settle(&server.unix())?;
        let mut readers = Readers {
            attached: attach(&server.socket())?,
            client: Client::connect(&format!("shm://{}", server.socket().display()))?,
            wire: Wire::connect(&server.unix())?,
            buffer: Vec::with_capacity(LARGE_BYTES),
        };
        let mut rows = Vec::new();
        println!("{:<46} {:>12} {:>12}", "", "p50", "p99");
        for row in &self.rows() {
            progress(row.name);
            let times = self.measure(row, &mut readers)?;
            progress("");
            println!("{:<46} {:>9.0} ns {:>9.0} ns", row.name, times.median, times.p99);
            rows.push(json!({
                "row": row.name,
                "p50_ns": times.median,
                "p99_ns": times.p99,
                "reads_per_sample": row.reads_per_sample,
                "samples": self.samples,
            }));
        }
        rows.extend(collection_reads::measure(&server.socket(), self.samples)?);
        let calls = count_calls(&server.socket())?;
        println!("\n{}", describe(&calls));
        server.stop();
        let result = json!({
            "server": self.server.record(),
            "keys": self.key_count,
            "rows": rows,
            "system_calls": calls,
        });
        record::keep(self.results.as_deref(), "reader", result)
    }

    fn rows(&self) -> [Row; 9] {
        let row = |name, way, key_count, is_large, reads_per_sample| Row {
            name,
            way,
            key_count,
            is_large,
            reads_per_sample,
        };
        [
            row("64 B copied, keys in cache", Way::Copied, CACHED_KEYS, false, 64),
            row("64 B copied, all keys", Way::Copied, self.key_count, false, 64),
            row("64 B by MGET of 16, keys in cache", Way::Mget, CACHED_KEYS, false, 64),
            row("64 B by MGET of 16, all keys", Way::Mget, self.key_count, false, 64),
            row("64 B over the unix socket", Way::Socket, CACHED_KEYS, false, 1),
            row("64 B over the unix socket, all keys", Way::Socket, self.key_count, false, 1),
            row("1 MiB pinned", Way::Pinned, 1, true, 64),
            row("1 MiB copied", Way::Copied, 1, true, 1),
            row("1 MiB over the unix socket", Way::Socket, 1, true, 1),
        ]
    }

    fn measure(&self, row: &Row, readers: &mut Readers) -> anyhow::Result<Times> {
        let mut random = Prng::new(1);
        let expected = if row.is_large { LARGE_BYTES } else { SMALL_BYTES };
        let mut samples = Vec::with_capacity(self.samples);
        for _ in 0..self.samples {
            let keys: Vec<Vec<u8>> = match row.is_large {
                true => vec![LARGE_KEY.to_vec(); row.reads_per_sample as usize],
                false => {
                    let reads = 0..row.reads_per_sample;
                    reads.map(|_| key(random.below(row.key_count)).to_vec()).collect()
                }
            };
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let started = Instant::now();
            for keys in keys.chunks(row.way.keys_at_once()) {
                let length = readers.read(row.way, keys)?;
                ensure!(length == expected * keys.len(), "{}: {length} bytes", row.name);
            }
            let time = started.elapsed().as_nanos() as f64;
            samples.push(time / f64::from(row.reads_per_sample));
        }
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize];
        Ok(Times { median: at(0.5), p99: at(0.99) })
    }
}

/// Stores at `target` what [`count_calls`] reads.
///
/// # Errors
/// When the server does not take it.
pub fn prepare(target: &Target) -> anyhow::Result<()> {
    load(target, CACHED_KEYS)
}

fn load(target: &Target, key_count: u64) -> anyhow::Result<()> {
    let mut wire = Wire::connect(target)?;
    for first in (0..key_count).step_by(LOAD_BATCH as usize) {
        let count = LOAD_BATCH.min(key_count - first);
        (first..first + count).for_each(|index| {
            wire.queue(&[b"SET", &key(index), &[b's'; SMALL_BYTES]]);
        });
        wire.send()?;
        for _ in 0..count {
            let reply = wire.receive()?;
            ensure!(reply == Value::Simple(b"OK".to_vec()), "SET replied {reply:?}");
        }
    }
    wire.call(&[b"SET", LARGE_KEY, &vec![b'l'; LARGE_BYTES]])?;
    Ok(())
}

impl Way {
    /// Returns how many keys one read is for.
    fn keys_at_once(self) -> usize {
        match self {
            Way::Mget => MGET_KEYS,
            Way::Copied | Way::Pinned | Way::Socket => 1,
        }
    }
}

impl Readers {
    /// Reads `keys` once and returns the length of all values.
    fn read(&mut self, way: Way, keys: &[&[u8]]) -> anyhow::Result<usize> {
        let (key, buffer) = (keys[0], &mut self.buffer);
        match way {
            Way::Copied => {
                ensure!(self.attached.get(key, buffer)?, "the key is gone");
                Ok(buffer.len())
            }
            Way::Pinned => {
                let view = self.attached.view(key, buffer)?.context("the key is gone")?;
                ensure!(matches!(view, client::Value::Pinned(_)), "a large value was copied");
                Ok(std::hint::black_box(&*view).len())
            }
            Way::Mget => {
                let views = std::hint::black_box(self.client.mget(keys)?);
                let lengths = views.iter().map(|view| view.as_ref().map(|it| it.len()));
                lengths.sum::<Option<usize>>().context("a key is gone")
            }
            Way::Socket => match self.wire.call(&[b"GET", key])? {
                Value::Bulk(bytes) => Ok(bytes.len()),
                other => anyhow::bail!("GET replied {other:?}"),
            },
        }
    }
}

/// Returns the key at `index`: 16 bytes.
fn key(index: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    crate::key_distribution::write_digits(index, &mut key[4..]);
    key
}

/// Waits until a server that puts its data on huge pages has done so with what was loaded.
fn settle(target: &Target) -> anyhow::Result<()> {
    let mut wire = Wire::connect(target)?;
    let mut last = None;
    loop {
        let reply = wire.call(&[b"INFO", b"memory"])?;
        let Value::Bulk(text) = &reply else { anyhow::bail!("INFO replied {reply:?}") };
        let text = String::from_utf8_lossy(text);
        let line = text.lines().find(|line| line.starts_with("arena_huge_bytes:"));
        let huge = line.unwrap_or_default().to_owned();
        if !text.contains("arena_huge_pages:yes") || last.as_ref() == Some(&huge) {
            return Ok(());
        }
        last = Some(huge);
        std::thread::sleep(SETTLE_PAUSE);
    }
}

/// Reads `reads` times through the server behind the unix socket at `path`: small values copied,
/// and the large one pinned each tenth time.
///
/// # Errors
/// When a read fails.
pub fn read_for_count(path: &Path, reads: u64) -> anyhow::Result<()> {
    let attached = attach(path)?;
    let mut buffer = Vec::with_capacity(SMALL_BYTES);
    for index in 0..reads {
        if index % 10 == 0 {
            let view = attached.view(LARGE_KEY, &mut buffer)?.context("the large value is gone")?;
            ensure!(view.len() == LARGE_BYTES, "{} bytes", view.len());
        } else {
            ensure!(attached.get(&key(index % CACHED_KEYS), &mut buffer)?, "a key is gone");
        }
    }
    Ok(())
}

/// Counts the system calls of a process that reads and of one that only attaches; null where this
/// machine has no strace.
///
/// # Errors
/// When the reads fail.
pub fn count_calls(socket: &Path) -> anyhow::Result<Json> {
    let folder = socket.parent().context("a socket lies in a folder")?;
    let traced = |reads: u64| -> anyhow::Result<Option<u64>> {
        let trace = folder.join("calls");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&trace);
        command.arg(std::env::current_exe()?).arg(READS_COMMAND).arg(socket).arg(reads.to_string());
        match command.stdin(Stdio::null()).status() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            status => ensure!(status?.success(), "reading under strace failed"),
        }
        let lines = fs::read_to_string(&trace)?.lines().count();
        fs::remove_file(&trace)?;
        Ok(Some(lines as u64))
    };
    match (traced(0)?, traced(COUNTED_READS)?) {
        (Some(without), Some(with)) => {
            Ok(json!({ "reads": COUNTED_READS, "calls": with, "calls_without_reads": without }))
        }
        _ => Ok(Json::Null),
    }
}

/// Returns how many of the calls that [`count_calls`] has counted are those of reads.
pub fn calls_of_reads(calls: &Json) -> Option<u64> {
    let without = calls["calls_without_reads"].as_u64()?;
    Some(calls["calls"].as_u64()?.saturating_sub(without))
}

/// Returns what to say of what [`count_calls`] has counted.
pub fn describe(calls: &Json) -> String {
    match (calls["calls"].as_u64(), calls["calls_without_reads"].as_u64()) {
        (Some(with), Some(without)) => format!(
            "{COUNTED_READS} reads made {} system calls ({with} in all, {without} without reads).",
            with.saturating_sub(without)
        ),
        _ => "System calls were not counted: there is no strace.".to_owned(),
    }
}
