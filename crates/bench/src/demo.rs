//! The demonstration: real files in, read back in every way there is, compared byte by byte.

use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use client::Attached;
use resp::Value;

use crate::accounting;
use crate::key_distribution::KeyDistribution;
use crate::kill_and_restart;
use crate::load::{Load, Report};
use crate::read_cost;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::target::Target;
use crate::wire::Wire;
use crate::workload::{Operation, Workload};

/// Requests, and bytes of requests or expected replies, that are in flight at once.
const WINDOW_REQUESTS: usize = 64;
const WINDOW_BYTES: usize = 1024 * 1024;
/// Where distributions keep documentation.
const DOCUMENTATION: &str = "/usr/share/doc";
/// Folders of the Python library that hold other people's packages or compiled copies.
const SKIPPED_FOLDERS: [&str; 3] = ["site-packages", "dist-packages", "__pycache__"];
/// How often progress is written where there is no terminal to rewrite it on.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// A demonstration.
#[derive(Clone, Debug)]
pub struct Demonstration {
    /// The server to start.
    pub server: ServerSpec,
    /// Files are no longer taken beyond this many bytes together.
    pub bytes_max: u64,
    /// How long each run of the short benchmark takes.
    pub run_time: Duration,
}

/// A file: its path is the key, its content the value.
struct Document {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Demonstration {
    /// Shows it and leaves nothing behind.
    ///
    /// # Errors
    /// When the server fails or a byte differs.
    pub fn run(&self) -> anyhow::Result<()> {
        println!("Reading every file under {DOCUMENTATION} and of the Python standard library.");
        let documents = self.collect()?;
        let bytes: u64 = documents.iter().map(|document| document.value.len() as u64).sum();
        println!("{} files, {}", documents.len(), mebibytes(bytes));

        let server = ServerProcess::start(&self.server)?;
        let folder = server.folder().to_owned();
        let id = server.id();
        println!("\nStarted {} (process {id}) in {}.", self.server.name, folder.display());
        let empty = accounting::resident(id)?;
        let mut wire = Wire::connect(&server.unix())?;
        let started = Instant::now();
        load(&mut wire, &documents)?;
        say("loaded over the unix socket", documents.len(), bytes, started.elapsed());
        let count = wire.call(&[b"DBSIZE"])?;
        ensure!(count == Value::Integer(documents.len() as i64), "DBSIZE says {count:?}");

        println!("\nReading all of it back and comparing every byte:");
        for (name, target) in [
            ("over TCP", server.tcp()),
            ("over the unix socket", server.unix()),
            ("over a lane through shared memory", server.shm()),
        ] {
            let started = Instant::now();
            let mut reader = SocketReader { wire: Wire::connect(&target)? };
            verify(name, &mut reader, &documents)?;
            say(name, documents.len(), bytes, started.elapsed());
        }
        let attached = read_cost::attach(&server.socket())?;
        let started = Instant::now();
        let name = "in the server's memory, where it lies";
        verify(name, &mut SharedMemoryReader { attached: &attached }, &documents)?;
        say(name, documents.len(), bytes, started.elapsed());
        self.report_memory(&documents, bytes, id, empty.total)?;
        show_transports(&mut wire, &attached, &server)?;
        self.short_benchmark(&server)?;

        server.stop();
        ensure!(!folder.exists(), "{} is still there", folder.display());
        ensure!(!Path::new(&format!("/proc/{id}")).exists(), "process {id} still runs");
        println!("\nStopped the server and removed its folder.");
        kill_and_restart::show(&self.server)
    }

    fn collect(&self) -> anyhow::Result<Vec<Document>> {
        let mut files = Vec::new();
        for folder in [Some(PathBuf::from(DOCUMENTATION)), python_library()].into_iter().flatten() {
            list_files(&folder, &mut files);
        }
        let mut progress = Progress::new("reading", files.len());
        let (mut documents, mut bytes) = (Vec::new(), 0);
        for path in files {
            // A file that cannot be read is none of ours to show.
            let Ok(value) = fs::read(&path) else { continue };
            bytes += value.len() as u64;
            if bytes > self.bytes_max {
                println!("Stopping at {}; --bytes-max takes more.", mebibytes(self.bytes_max));
                break;
            }
            documents.push(Document { key: path.as_os_str().as_bytes().to_vec(), value });
            progress.step(1);
        }
        ensure!(!documents.is_empty(), "found no file to load");
        Ok(documents)
    }

    fn report_memory(
        &self,
        documents: &[Document],
        bytes: u64,
        id: u32,
        empty_bytes: u64,
    ) -> anyhow::Result<()> {
        let keys: u64 = documents.iter().map(|document| document.key.len() as u64).sum();
        let used = accounting::resident(id)?.total.saturating_sub(empty_bytes);
        let per_key = |bytes: u64| bytes as f64 / documents.len() as f64;
        println!("\nMemory above the empty server: {}", mebibytes(used));
        println!(
            "  {:.0} bytes per key, of which {:.0} are the value, {:.0} the key, {:.0} all else",
            per_key(used),
            per_key(bytes),
            per_key(keys),
            per_key(used) - per_key(bytes) - per_key(keys),
        );
        Ok(())
    }

    fn short_benchmark(&self, server: &ServerProcess) -> anyhow::Result<()> {
        println!("\nA short benchmark, 100,000 keys of 16 B, values of 64 B, 50 connections:");
        for operation in [Operation::Set, Operation::Get] {
            for (name, target, pipeline) in [
                ("TCP", server.tcp(), 1),
                ("unix socket", server.unix(), 1),
                ("lane", server.shm(), 1),
                ("unix socket", server.unix(), 16),
                ("lane", server.shm(), 16),
            ] {
                let before = accounting::cpu_time(server.id())?;
                let report = self.run_load(operation, target, pipeline)?;
                let cpu = accounting::cpu_time(server.id())? - before;
                println!(
                    "  {:4} {name:12} pipeline {pipeline:2}: {:>9.0} ops/s, p50 {:>6.0} us, \
                     p99 {:>6.0} us, {:>5.2} us of server CPU each",
                    operation.to_string(),
                    report.operations_per_second(),
                    report.latency_us(50.0),
                    report.latency_us(99.0),
                    cpu.as_secs_f64() * 1e6 / report.operations.max(1) as f64,
                );
            }
        }
        Ok(())
    }

    fn run_load(
        &self,
        operation: Operation,
        target: Target,
        pipeline: usize,
    ) -> anyhow::Result<Report> {
        let workload = Workload {
            operation,
            key_count: 100_000,
            key_bytes: 16,
            value_bytes: 64,
            distribution: KeyDistribution::Uniform,
        };
        let load = Load {
            target,
            password: None,
            workload,
            connections: 50,
            pipeline,
            threads: 1,
            requests_max: None,
            duration_max: Some(self.run_time),
            rate: None,
            seed: 1,
        };
        let report = load.connect()?.run()?;
        ensure!(report.wrong == 0, "{} replies were wrong", report.wrong);
        Ok(report)
    }
}

/// Prints what one reader pays for one value by each of the four ways, side by side.
fn show_transports(
    wire: &mut Wire,
    attached: &Attached,
    server: &ServerProcess,
) -> anyhow::Result<()> {
    println!("\nOne client that reads one value at a time, the median:");
    println!("  {:36} {:>24} {:>24}", "", "64 B", "1 MiB");
    let times = read_cost::measure(wire, attached, &[server.shm(), server.unix(), server.tcp()])?;
    let names =
        ["one-sided shared memory (copy, view)", "lane (shared memory)", "unix socket", "TCP"];
    for (name, [small, large]) in names.into_iter().zip(times) {
        let column = |ns: f64| format!("{ns:.0} ns, {:.0}/s", 1e9 / ns);
        println!("  {name:36} {:>24} {:>24}", column(small), column(large));
    }
    Ok(())
}

/// A way to read values.
trait DocumentReader {
    /// Reads the values of all of `documents`' keys in order and hands each to `check`.
    fn read(
        &mut self,
        documents: &[Document],
        check: &mut dyn FnMut(&Document, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()>;
}

/// Reads with GET, pipelined.
struct SocketReader {
    wire: Wire,
}

impl DocumentReader for SocketReader {
    fn read(
        &mut self,
        documents: &[Document],
        check: &mut dyn FnMut(&Document, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut rest = documents;
        while !rest.is_empty() {
            let (window, later) = rest.split_at(window_count(rest));
            window.iter().for_each(|document| self.wire.queue(&[b"GET", &document.key]));
            self.wire.send()?;
            for document in window {
                match self.wire.receive()? {
                    Value::Bulk(value) => check(document, &value)?,
                    other => bail!("GET replied {other:?}"),
                }
            }
            rest = later;
        }
        Ok(())
    }
}

/// Reads where the values lie, from this process.
struct SharedMemoryReader<'a> {
    attached: &'a Attached,
}

impl DocumentReader for SharedMemoryReader<'_> {
    fn read(
        &mut self,
        documents: &[Document],
        check: &mut dyn FnMut(&Document, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut buffer = Vec::new();
        for document in documents {
            let value = self.attached.view(&document.key, &mut buffer)?;
            check(document, &value.context("a value is missing")?)?;
        }
        Ok(())
    }
}

fn verify(
    name: &str,
    reader: &mut dyn DocumentReader,
    documents: &[Document],
) -> anyhow::Result<()> {
    let mut progress = Progress::new(name, documents.len());
    let mut compared = 0;
    reader.read(documents, &mut |document, value| {
        let key = || String::from_utf8_lossy(&document.key).into_owned();
        ensure!(value == document.value, "{}: what came back differs", key());
        compared += 1;
        progress.step(1);
        Ok(())
    })?;
    ensure!(compared == documents.len(), "only {compared} values came back");
    Ok(())
}

fn load(wire: &mut Wire, documents: &[Document]) -> anyhow::Result<()> {
    let mut progress = Progress::new("loading", documents.len());
    let mut rest = documents;
    while !rest.is_empty() {
        let (window, later) = rest.split_at(window_count(rest));
        window.iter().for_each(|document| wire.queue(&[b"SET", &document.key, &document.value]));
        wire.send()?;
        for document in window {
            let reply = wire.receive()?;
            let key = || String::from_utf8_lossy(&document.key).into_owned();
            ensure!(reply == Value::Simple(b"OK".into()), "SET {}: {reply:?}", key());
        }
        progress.step(window.len());
        rest = later;
    }
    Ok(())
}

/// Returns how many of the first documents may be in flight together: at least one.
fn window_count(documents: &[Document]) -> usize {
    let mut bytes = 0;
    let fits = |document: &&Document| {
        bytes += document.key.len() + document.value.len();
        bytes <= WINDOW_BYTES
    };
    documents.iter().take(WINDOW_REQUESTS).take_while(fits).count().max(1)
}

/// Returns the folder of the Python standard library, if there is one.
fn python_library() -> Option<PathBuf> {
    const QUESTION: &str = "import sysconfig; print(sysconfig.get_paths()['stdlib'])";
    let answer = Command::new("python3").args(["-c", QUESTION]).output();
    if let Ok(output) = answer
        && output.status.success()
    {
        let path = output.stdout.trim_ascii_end().to_vec();
        let path = PathBuf::from(OsString::from_vec(path));
        if path.is_dir() {
            return Some(path);
        }
    }
    let mut folders: Vec<PathBuf> = fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"python3."))
        })
        .collect();
    folders.sort();
    folders.pop()
}

/// Appends the regular files under `folder` in the order of their names; links are not followed.
fn list_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                Ok(kind) if kind.is_dir() && !is_skipped(&entry) => folders.push(entry.path()),
                _ => {}
            }
        }
    }
}

fn is_skipped(entry: &fs::DirEntry) -> bool {
    SKIPPED_FOLDERS.iter().any(|name| entry.file_name() == *name)
}

fn say(what: &str, count: usize, bytes: u64, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    println!(
        "  {what}: {count} values in {seconds:.2} s, {:.0} ops/s, {}/s",
        count as f64 / seconds,
        mebibytes((bytes as f64 / seconds) as u64),
    );
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

/// Shows how far something is: rewritten in place on a terminal, a line now and then elsewhere.
struct Progress<'a> {
    what: &'a str,
    done: usize,
    total: usize,
    shown: Instant,
}

impl<'a> Progress<'a> {
    fn new(what: &'a str, total: usize) -> Progress<'a> {
        Progress { what, done: 0, total, shown: Instant::now() }
    }

    fn step(&mut self, count: usize) {
        const REFRESH: Duration = Duration::from_millis(100);
        self.done += count;
        let mut output = std::io::stderr();
        let is_terminal = output.is_terminal();
        if self.shown.elapsed() < if is_terminal { REFRESH } else { PROGRESS_INTERVAL } {
            return;
        }
        self.shown = Instant::now();
        let (what, done, total) = (self.what, self.done, self.total);
        let (before, after) = if is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // Progress that cannot be shown is not worth failing for.
        let _ = write!(output, "{before}  {what}: {done} of {total}{after}");
        let _ = output.flush();
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        let mut output = std::io::stderr();
        if output.is_terminal() {
            let _ = write!(output, "\r\x1b[K");
        }
    }
}

/// Returns the server that a demonstration shows: the one named, or the one beside this program.
///
/// # Errors
/// When there is none.
pub fn server(named: Option<&Path>) -> anyhow::Result<ServerSpec> {
    match named {
        Some(path) => Ok(ServerSpec::new(path)),
        None => ServerSpec::sibling("forebay").context("looking for the server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out the documents' own values, but for what `change` does to them.
    struct Altered<F: FnMut(usize, &mut Vec<u8>) -> bool> {
        change: F,
    }

    impl<F: FnMut(usize, &mut Vec<u8>) -> bool> DocumentReader for Altered<F> {
        fn read(
            &mut self,
            documents: &[Document],
            check: &mut dyn FnMut(&Document, &[u8]) -> anyhow::Result<()>,
        ) -> anyhow::Result<()> {
            for (index, document) in documents.iter().enumerate() {
                let mut value = document.value.clone();
                if (self.change)(index, &mut value) {
                    check(document, &value)?;
                }
            }
            Ok(())
        }
    }

    fn documents(sizes: &[usize]) -> Vec<Document> {
        let document = |&size: &usize| Document { key: vec![b'k'; 10], value: vec![b'v'; size] };
        sizes.iter().map(document).collect()
    }

    #[test]
    fn verification_accepts_the_same_bytes_only() {
        let documents = documents(&[100; 5]);
        let verify = |change: fn(usize, &mut Vec<u8>) -> bool| {
            verify("a test", &mut Altered { change }, &documents).is_ok()
        };
        assert!(verify(|_, _| true));
        assert!(!verify(|index, _| index != 3), "a value that did not come");
        assert!(!verify(|index, value| {
            value[99] ^= u8::from(index == 4);
            true
        }));
        assert!(!verify(|index, value| {
            value.truncate(if index == 2 { 99 } else { 100 });
            true
        }));
    }

    #[test]
    fn windows_are_bounded_and_never_empty() {
        assert_eq!(window_count(&documents(&[1; 1000])), WINDOW_REQUESTS);
        assert_eq!(window_count(&documents(&[WINDOW_BYTES / 2; 3])), 1);
        assert_eq!(window_count(&documents(&[WINDOW_BYTES * 2; 3])), 1);
        assert_eq!(window_count(&documents(&[5])), 1);
    }

    #[test]
    fn files_are_listed_without_links_and_skipped_folders() {
        let folder = std::env::temp_dir().join(format!("demo-test-{}", std::process::id()));
        let skipped = folder.join("__pycache__");
        fs::create_dir_all(&skipped).unwrap();
        fs::create_dir_all(folder.join("inner")).unwrap();
        for path in ["b", "a", "inner/c", "__pycache__/d"] {
            fs::write(folder.join(path), "text").unwrap();
        }
        std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
        let mut files = Vec::new();
        list_files(&folder, &mut files);
        fs::remove_dir_all(&folder).unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|path| path.strip_prefix(&folder).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b", "inner/c"]);
    }
}
