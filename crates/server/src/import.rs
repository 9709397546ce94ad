//! The command `forebay import`: what files of Redis or Valkey hold, sent to a running server.
//!
//! A file of the dataset becomes a RESTORE for each key; an append-only file is sent as it stands,
//! one whole transaction at a time. A folder is that of a redis-server: its append-only files where
//! it has any, else its dump.rdb.

pub mod append_only;
mod connection;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rdb::file::{FileReader, Item};

use self::append_only::{AppendOnlyReader, Entry};
use self::connection::Connection;
pub use self::connection::refuse_errors;

/// What is told of it on the command line.
pub const USAGE: &str = "\
forebay import: send what files of Redis or Valkey hold to a running server

Usage:
  forebay import PATH [--to ADDRESS] [--replace]

  PATH          a dump.rdb, an append-only file, a manifest of several, or the folder of a
                redis-server
  --to ADDRESS  host:port, or the path of a unix socket; 127.0.0.1:6379 without it
  --replace     replace keys that are there; without it the first of them ends the import

The password of the server is taken from REDISCLI_AUTH. Keys that have expired are left out. An
append-only file that ends in the middle of a request is read to the last whole one.
";

/// How often it is told how far it is.
const REPORT_TIME: Duration = Duration::from_secs(2);
/// How the first bytes of files of the dataset look.
pub const MAGICS: [&[u8]; 2] = [b"REDIS", b"VALKE"];

/// What a command line asks for.
pub struct Wish {
    path: PathBuf,
    address: String,
    replaces: bool,
}

/// Imports as `wish` says, and returns what there is to say at the end.
///
/// # Errors
/// A line for the user: what was sent before is there.
pub fn run(wish: &Wish, password: Option<&str>) -> Result<String, String> {
    let files = files_of(&wish.path)?;
    let connection = Connection::open(&wish.address, password)?;
    let mut import = Import {
        connection,
        replaces: wish.replaces,
        keys: 0,
        expired: 0,
        requests: 0,
        bytes: 0,
        told: Instant::now(),
        warnings: Vec::new(),
    };
    for path in &files {
        import.file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    import.connection.settle()?;
    let Import { keys, expired, requests, warnings, .. } = import;
    let lines: String = warnings.iter().map(|line| format!("{line}\n")).collect();
    Ok(format!("{lines}{keys} keys and {requests} requests imported, {expired} keys had expired\n"))
}

impl Wish {
    /// Reads a command line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(arguments: &[String]) -> Result<Wish, String> {
        let (mut path, mut address, mut replaces) = (None, "127.0.0.1:6379".to_owned(), false);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--replace" => replaces = true,
                "--to" => address = words.next().ok_or("--to needs an address")?.clone(),
                option if option.starts_with("--") => {
                    return Err(format!("there is no option '{option}'"));
                }
                other if path.is_none() => path = Some(PathBuf::from(other)),
                other => return Err(format!("'{other}' is one too many")),
            }
        }
        Ok(Wish { path: path.ok_or("which file or folder?")?, address, replaces })
    }
}

/// Returns the files that `path` means, in the order in which they hold the dataset.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    let said = |error: io::Error| format!("{}: {error}", path.display());
    if !path.is_dir() {
        return match path.extension().is_some_and(|extension| extension == "manifest") {
            true => append_only::files_of_manifest(path).map_err(said),
            false => Ok(vec![path.to_owned()]),
        };
    }
    for folder in [path.join(runtime::LOG_FOLDER), path.to_owned()] {
        if let Some(manifest) = runtime::manifest_in(&folder).map_err(said)? {
            return append_only::files_of_manifest(&manifest).map_err(said);
        }
    }
    let files = ["appendonly.aof", "dump.rdb"].map(|name| path.join(name));
    let found = files.into_iter().find(|file| file.exists());
    found.map(|file| vec![file]).ok_or_else(|| {
        format!("{}: it has neither append-only files nor a dump.rdb", path.display())
    })
}

struct Import {
    connection: Connection,
    replaces: bool,
    keys: u64,
    expired: u64,
    requests: u64,
    bytes: u64,
    told: Instant,
    warnings: Vec<String>,
}

impl Import {
    fn file(&mut self, path: &Path) -> Result<(), String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mut input = BufReader::with_capacity(256 << 10, file);
        let mut start = Vec::new();
        let taken = input.by_ref().take(5).read_to_end(&mut start);
        taken.map_err(|error| error.to_string())?;
        let whole = io::Cursor::new(start.clone()).chain(input);
        if !MAGICS.contains(&start.as_slice()) {
            return self.append_only(whole);
        }
        let mut reader = FileReader::open(whole).map_err(|error| error.to_string())?;
        self.dataset(&mut reader)?;
        // Behind it an append-only file may go on.
        let (rest, input) = reader.into_rest();
        self.append_only(io::Cursor::new(rest).chain(input))
    }

    /// Sends the keys of a file of the dataset.
    fn dataset<R: Read>(&mut self, reader: &mut FileReader<R>) -> Result<(), String> {
        let now = sys::clock::realtime().0;
        let mut payload = Vec::new();
        loop {
            self.bytes = reader.offset();
            let Some(item) = reader.next_item().map_err(|error| error.to_string())? else { break };
            match item {
                Item::Field { .. } | Item::Sizes { .. } => continue,
                Item::Database(number) => {
                    let number = number.to_string();
                    self.connection.send(&[b"SELECT", number.as_bytes()])?;
                    continue;
                }
                Item::Entry(entry) if entry.expires_at.is_some_and(|at| now > at.0) => {
                    self.expired += 1;
                }
                Item::Entry(entry) => {
                    payload.clear();
                    payload.extend_from_slice(entry.value);
                    rdb::seal_newest(&mut payload);
                    let until = entry.expires_at.map_or(0, |at| at.0.max(1)).to_string();
                    let idle = entry.idle_seconds.map(|seconds| seconds.to_string());
                    let counter = entry.counter.map(|counter| counter.to_string());
                    let mut words: Vec<&[u8]> =
                        vec![b"RESTORE", entry.key, until.as_bytes(), &payload, b"ABSTTL"];
                    if self.replaces {
                        words.push(b"REPLACE");
                    }
                    match (&idle, &counter) {
                        (Some(idle), _) => words.extend([&b"IDLETIME"[..], idle.as_bytes()]),
                        (None, Some(count)) => words.extend([&b"FREQ"[..], count.as_bytes()]),
                        (None, None) => {}
                    }
                    self.connection.send(&words)?;
                    self.keys += 1;
                }
            }
            self.tell();
        }
        self.bytes = reader.offset();
        Ok(())
    }

    /// Sends the requests of an append-only file.
    fn append_only(&mut self, input: impl Read) -> Result<(), String> {
        let mut reader = AppendOnlyReader::new(input);
        loop {
            match reader.next_entry()? {
                Entry::Requests(requests) => {
                    for request in &requests {
                        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
                        self.connection.send(&words)?;
                        self.requests += 1;
                    }
                }
                Entry::End => return Ok(()),
                Entry::Cut { offset } => {
                    self.warnings.push(format!(
                        "the append-only file ends in the middle: what is behind byte {offset} was \
                         left out"
                    ));
                    return Ok(());
                }
            }
            self.tell();
        }
    }

    fn tell(&mut self) {
        if self.told.elapsed() >= REPORT_TIME {
            self.told = Instant::now();
            let (keys, requests, mebibytes) = (self.keys, self.requests, self.bytes >> 20);
            eprintln!("{keys} keys, {requests} requests, {mebibytes} MiB");
        }
    }
}
