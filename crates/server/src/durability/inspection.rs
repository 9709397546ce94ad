//! `forebay check DIR`: reads a log and its snapshots, or a backup, and says what is there and what
//! is wrong with it.

use std::convert::Infallible;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use base::{Lsn, SecretHasher};
use collections::{Limits, Rules};
use effects::RecordView;
use rdb::DecodeOptions;
use rdb::file::{FileReader, Item};
use runtime::Environment;
use wal::{Directory, LogError, Reader, Storage, Writer, WriterOptions};

use super::SNAPSHOT_NAME;
use super::feed::groups::{FILE_NAME, Groups};
use super::history::{earlier_snapshots, snapshot_name};
use super::restore::snapshot_lsn;

/// What is read of a snapshot at once.
const READ_BYTES: usize = 256 << 10;

/// What was found.
pub struct Inspection {
    /// What to tell, in lines.
    pub text: String,
    /// Whether a server would start with it.
    pub is_sound: bool,
}

/// Reads the log in the folder at `path` to its end, and its snapshots. With `cuts` the log ends
/// there from now on, whatever is behind: what a torn end has, and what damage keeps from being
/// read.
///
/// # Errors
/// A sentence that says why nothing was read, or nothing was cut.
pub fn inspect(path: &Path, cuts: bool) -> Result<Inspection, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let directory = Directory::open_existing(path).map_err(failed)?;
    // What is written meanwhile would look like a torn end.
    let _lock = match directory.lock() {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            return Err(format!("{}: a server uses it", path.display()));
        }
        Err(error) if cuts => return Err(failed(error)),
        // A folder that may only be read is read.
        lock => lock.ok(),
    };
    let storage: Arc<dyn Storage> = Arc::new(directory);
    let mut reader = Reader::open(Arc::clone(&storage)).map_err(|error| error.to_string())?;
    let read = read_all(&mut reader);
    let end = reader.end();
    let (mut text, mut is_sound) = check_snapshots(path, &*storage, &reader)?;
    match Groups::load(&*storage) {
        Ok(groups) if groups.lsns.is_empty() => {}
        Ok(groups) => text += &format!("{FILE_NAME}: {} groups of FEED\n", groups.lsns.len()),
        Err(reason) => {
            text += &format!("{reason}\n");
            is_sound = false;
        }
    }
    let are_snapshots_sound = is_sound;
    text += &describe(&reader);
    match &read {
        Ok(_) if end.segment.is_none() => text += "There is no log.\n",
        Ok(records) if end.torn_bytes == 0 => {
            text += &format!("{records} records. The log is sound and ends at LSN {}.\n", end.lsn);
        }
        Ok(records) => {
            text += &format!(
                "{records} records. The log ends at LSN {}; {} bytes behind it were never durable \
                 and are cut when a server starts.\n",
                end.lsn, end.torn_bytes
            );
        }
        Err(error) => {
            is_sound = false;
            text += &format!("{error}\nWhat comes before reads, up to LSN {}.\n", end.lsn);
        }
    }
    let is_cuttable =
        matches!(read, Err(Damage::Log(LogError::Corrupt { .. } | LogError::Gap { .. })));
    if cuts && (is_cuttable || end.torn_bytes > 0) && end.offset > 0 {
        let cut = Writer::cut(storage, &end, WriterOptions::default());
        cut.map_err(|error| format!("the log cannot be cut: {error}"))?;
        text += &format!("Cut: the log ends at LSN {} now.\n", end.lsn);
        is_sound = are_snapshots_sound;
    }
    Ok(Inspection { text, is_sound })
}

/// Reads the snapshots in the folder at `path`, beside the log that `reader` has read, and returns
/// what there is to say of them, and whether a server would start with them.
fn check_snapshots(
    path: &Path,
    storage: &dyn Storage,
    reader: &Reader,
) -> Result<(String, bool), String> {
    let earlier = earlier_snapshots(storage).map_err(|error| error.to_string())?;
    let (mut text, mut is_sound) = (String::new(), true);
    let mut base = None;
    for name in earlier.into_iter().map(snapshot_name).chain([SNAPSHOT_NAME.to_owned()]) {
        match check_snapshot(&path.join(&name)) {
            Ok(None) => {}
            Ok(Some(found)) => {
                text += &format!(
                    "{name}: the data of LSN {}, {} keys, a sound file of {} bytes\n",
                    found.lsn.0, found.keys, found.bytes
                );
                base = Some(found.lsn.0);
            }
            Err(reason) => {
                text += &format!("{name}: {reason}\n");
                is_sound = false;
            }
        }
    }
    if let Some(first) = reader.segments().first().filter(|first| !first.begins) {
        match base {
            Some(base) if first.lsn > base => {
                text += &format!(
                    "The log begins at LSN {}, behind the last snapshot: what happened between is \
                     missing.\n",
                    first.lsn
                );
                is_sound = false;
            }
            None if is_sound => {
                text += "The snapshot that the log goes on from is not there.\n";
                is_sound = false;
            }
            _ => {}
        }
    }
    Ok((text, is_sound))
}

/// What a snapshot has.
pub struct FoundSnapshot {
    /// The LSN that it stands for.
    pub lsn: Lsn,
    /// Its keys.
    pub keys: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Reads the file at `path`, each value of it too; returns none where it is not there.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn check_snapshot(path: &Path) -> Result<Option<FoundSnapshot>, String> {
    let Some(lsn) = snapshot_lsn(path)? else { return Ok(None) };
    let mut seed = [0; 16];
    let filled = Environment::system().randomness.fill(&mut seed);
    filled.map_err(|error| format!("no randomness: {error}"))?;
    let [first, second] = [0, 8]
        .map(|at| u64::from_le_bytes(seed[at..at + 8].try_into().expect("it has eight bytes")));
    let rules = Rules { limits: Limits::default(), hasher: SecretHasher::new([first, second]) };
    let options =
        DecodeOptions { rules: &rules, encoding: None, string_bytes_max: u64::from(u32::MAX) };
    let file = File::open(path).map_err(|error| error.to_string())?;
    let file = BufReader::with_capacity(READ_BYTES, file);
    let mut reader = FileReader::open(file).map_err(|error| error.to_string())?;
    let mut keys = 0;
    while let Some(item) = reader.next_item().map_err(|error| error.to_string())? {
        let Item::Entry(entry) = item else { continue };
        // It is read one by one, so that each has the memory that it needs.
        let value = rdb::decode(entry.value, &options, &mut |_| Ok::<(), Infallible>(()));
        if value.is_err() {
            let key = entry.key.escape_ascii();
            return Err(format!("at byte {}: the value of '{key}' is none", entry.offset));
        }
        keys += 1;
    }
    Ok(Some(FoundSnapshot { lsn, keys, bytes: reader.offset() }))
}

/// Why a log was not read to its end.
enum Damage {
    Log(LogError),
    Record { lsn: u64, reason: String },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Damage::Log(error) => error.fmt(formatter),
            Damage::Record { lsn, reason } => write!(formatter, "behind LSN {lsn}: {reason}"),
        }
    }
}

/// Reads all records and returns how many there are.
fn read_all(reader: &mut Reader) -> Result<u64, Damage> {
    let (mut count, mut payload) = (0, Vec::new());
    while let Some(frame) = reader.next(&mut payload).map_err(Damage::Log)? {
        let mut rest = payload.as_slice();
        while !rest.is_empty() {
            let record = RecordView::read(rest).map_err(|error| {
                let lsn = frame.end_lsn - rest.len() as u64;
                Damage::Record { lsn, reason: error.to_string() }
            })?;
            count += 1;
            rest = &rest[record.header().length as usize..];
        }
    }
    Ok(count)
}

/// Lists the segments, one in a line.
fn describe(reader: &Reader) -> String {
    let line = |segment: &wal::SegmentSummary| {
        let end = segment.lsn + segment.payload_bytes;
        let begins = if segment.begins { ", begins from nothing" } else { "" };
        format!(
            "{}: LSN {} to {end}, {} frames, {} bytes of records, a file of {} bytes{begins}\n",
            segment.name, segment.lsn, segment.frames, segment.payload_bytes, segment.file_bytes
        )
    };
    reader.segments().iter().map(line).collect()
}
