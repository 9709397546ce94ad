//! `forebay check DIR`: reads a log and its snapshots, or a backup, and says what is there and what
//! is wrong with it.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use base::{Lsn, SecretHasher};
use collections::{Limits, Rules};
use rdb::DecodeOptions;
use rdb::file::{FileReader, Item, LSN_FIELD};
use runtime::{Environment, GROUPS_NAME, Groups, SNAPSHOT_NAME};
use wal::{Directory, LogError, Reader, Storage, Writer, WriterOptions};

use super::restore::{NO_LSN, lsn_of_field};
use runtime::{earlier_snapshots, snapshot_name};

/// What is read of a snapshot at once.
const READ_BYTES: usize = 256 << 10;

/// What was found.
pub struct Inspection {
    /// What to tell, in lines.
    pub text: String,
    /// Whether nothing of it is damaged or missing. A server starts where that is so of what is not
    /// history.
    pub is_sound: bool,
}

/// Reads the log in the folder at `path` to its end, and its snapshots. With `cuts` the log ends
/// there from now on, whatever is behind: what a torn end has, and what damage keeps from being
/// read. Nothing is cut because of damaged history, which a start does not read.
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
    let mut text = String::new();
    let (mut is_sound, base) = check_snapshots(path, &*storage, &mut text)?;
    is_sound &= check_groups(&*storage, &mut text);
    let log = Log::read(&storage, &base)?;
    is_sound &= check_history(&storage, &log.reader, &mut text)?;
    is_sound &= log.check_begin(&base, &mut text);
    let is_all_else_sound = is_sound;
    text += &describe(&log.reader);
    is_sound &= log.tell(&base, &mut text);
    if cuts && log.is_cuttable() {
        match log.reason_not_to_cut(&base) {
            Some(reason) => text += &format!("Not cut: {reason}.\n"),
            None => {
                let end = log.reader.end();
                let cut = Writer::cut(storage, &end, WriterOptions::default());
                cut.map_err(|error| format!("the log cannot be cut: {error}"))?;
                text += &format!("Cut: the log ends at LSN {} now.\n", end.lsn);
                is_sound = is_all_else_sound;
            }
        }
    }
    Ok(Inspection { text, is_sound })
}

/// The snapshot that a start goes on from.
enum Base {
    /// There is none.
    None,
    /// It is damaged.
    Damaged,
    /// It stands for this LSN.
    At(u64),
}

impl Base {
    fn lsn(&self) -> u64 {
        match self {
            Base::At(lsn) => *lsn,
            Base::None | Base::Damaged => 0,
        }
    }
}

/// Reads the snapshots in the folder at `path`, and adds to `text` what there is to say of them.
/// Returns whether all are sound, and what a start has of them.
fn check_snapshots(
    path: &Path,
    storage: &dyn Storage,
    text: &mut String,
) -> Result<(bool, Base), String> {
    let earlier = earlier_snapshots(storage).map_err(|error| error.to_string())?;
    let (mut is_sound, mut base) = (true, Base::None);
    // The last one is that which a start goes on from.
    for name in earlier.into_iter().map(snapshot_name).chain([SNAPSHOT_NAME.to_owned()]) {
        base = match check_snapshot(&path.join(&name), || true) {
            Ok(None) => Base::None,
            Ok(Some(found)) => {
                *text += &format!(
                    "{name}: the data of LSN {}, {} keys, a sound file of {} bytes\n",
                    found.lsn.0, found.keys, found.bytes
                );
                Base::At(found.lsn.0)
            }
            Err(reason) => {
                *text += &format!("{name}: {reason}\n");
                is_sound = false;
                Base::Damaged
            }
        };
    }
    Ok((is_sound, base))
}

fn check_groups(storage: &dyn Storage, text: &mut String) -> bool {
    match Groups::load(storage) {
        Ok(groups) if groups.lsns.is_empty() => true,
        Ok(groups) => {
            *text += &format!("{GROUPS_NAME}: {} groups of FEED\n", groups.lsns.len());
            true
        }
        Err(reason) => {
            *text += &format!("{reason}\n");
            false
        }
    }
}

/// Reads the segments before those that `log` has read, which a start does not read.
fn check_history(
    storage: &Arc<dyn Storage>,
    log: &Reader,
    text: &mut String,
) -> Result<bool, String> {
    let mut reader = Reader::open(Arc::clone(storage)).map_err(|error| error.to_string())?;
    let end = log.begins_at().unwrap_or(0);
    if reader.begins_at().is_none_or(|begin| begin >= end) {
        return Ok(true);
    }
    let read = read_to(&mut reader, end);
    *text += &describe(&reader);
    match &read {
        Ok(records) => *text += &format!("{records} records of history, which is sound.\n"),
        Err(error) => {
            *text += &format!(
                "{error}\nThat is history, up to LSN {end}: a server starts without it, and \
                 'forebay restore' reads what comes before and what is behind the next snapshot.\n"
            );
        }
    }
    Ok(read.is_ok())
}

/// The part of the log that a start reads: from the snapshot on.
struct Log {
    reader: Reader,
    /// How many records it has.
    read: Result<u64, Damage>,
}

impl Log {
    fn read(storage: &Arc<dyn Storage>, base: &Base) -> Result<Log, String> {
        let reader = Reader::open_from(Arc::clone(storage), base.lsn());
        let mut reader = reader.map_err(|error| error.to_string())?;
        let read = read_to(&mut reader, u64::MAX);
        Ok(Log { reader, read })
    }

    /// Returns whether a start has all of what is before the log.
    fn check_begin(&self, base: &Base, text: &mut String) -> bool {
        let Some(first) = self.reader.segments().first() else { return true };
        match base {
            Base::At(base) if first.lsn > *base => {
                *text += &format!(
                    "The log begins at LSN {}, behind the last snapshot: what happened between is \
                     missing.\n",
                    first.lsn
                );
                false
            }
            Base::None if !first.begins => {
                *text += "The snapshot that the log goes on from is not there.\n";
                false
            }
            _ => true,
        }
    }

    /// Says where the log ends; returns whether that is no damage.
    fn tell(&self, base: &Base, text: &mut String) -> bool {
        let end = self.reader.end();
        match &self.read {
            Ok(_) if end.segment.is_none() => {
                *text += "There is no log.\n";
                if matches!(base, Base::None) {
                    *text += "There is no snapshot either: a server keeps both in the folder \
                              appendonlydir of its dir.\n";
                    return false;
                }
            }
            Ok(records) if end.torn_bytes == 0 => {
                *text +=
                    &format!("{records} records. The log is sound and ends at LSN {}.\n", end.lsn);
            }
            Ok(records) => {
                *text += &format!(
                    "{records} records. The log ends at LSN {}; {} bytes behind it, which it does \
                     not call durable, are cut when a server starts.\n",
                    end.lsn, end.torn_bytes
                );
            }
            Err(error) => {
                *text += &format!("{error}\nWhat comes before reads, up to LSN {}.\n", end.lsn);
                return false;
            }
        }
        if end.segment.is_some() && end.lsn < base.lsn() {
            *text +=
                "That is before the LSN of the snapshot: a server begins the log anew there.\n";
        }
        true
    }

    /// Returns whether there is anything that a cut would remove.
    fn is_cuttable(&self) -> bool {
        match &self.read {
            Ok(_) => self.reader.end().torn_bytes > 0,
            Err(Damage::Log(error)) => {
                matches!(error, LogError::Corrupt { .. } | LogError::Gap { .. })
            }
            Err(Damage::Record { .. }) => false,
        }
    }

    fn reason_not_to_cut(&self, base: &Base) -> Option<String> {
        let end = self.reader.end();
        match base {
            _ if end.offset == 0 => Some("no part of the segment there reads".to_owned()),
            Base::Damaged => {
                Some("the snapshot does not say which part of the log a start needs".to_owned())
            }
            Base::At(base) if end.lsn < *base => Some(format!(
                "the log would end before LSN {base}, that of the snapshot, and none of it would \
                 be used; a server starts from the snapshot alone where the files of the log are \
                 moved elsewhere"
            )),
            Base::None | Base::At(_) => None,
        }
    }
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

/// Reads the file at `path`, each value of it too; returns none where it is not there. It is asked
/// before each value whether reading `goes_on`.
///
/// # Errors
/// A sentence that says what is wrong with it, or that reading was ended.
pub fn check_snapshot(
    path: &Path,
    goes_on: impl Fn() -> bool,
) -> Result<Option<FoundSnapshot>, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| error.to_string())?,
    };
    let mut seed = [0; 16];
    let filled = Environment::system().randomness.fill(&mut seed);
    filled.map_err(|error| format!("no randomness: {error}"))?;
    let [first, second] = [0, 8]
        .map(|at| u64::from_le_bytes(seed[at..at + 8].try_into().expect("it has eight bytes")));
    let rules = Rules { limits: Limits::default(), hasher: SecretHasher::new([first, second]) };
    let options =
        DecodeOptions { rules: &rules, encoding: None, string_bytes_max: u64::from(u32::MAX) };
    let file = BufReader::with_capacity(READ_BYTES, file);
    let mut reader = FileReader::open(file).map_err(|error| error.to_string())?;
    let (mut lsn, mut keys) = (None, 0);
    while let Some(item) = reader.next_item().map_err(|error| error.to_string())? {
        let entry = match item {
            Item::Field { name, value } if name == LSN_FIELD => {
                lsn = Some(lsn_of_field(value)?);
                continue;
            }
            Item::Entry(entry) => entry,
            _ => continue,
        };
        if !goes_on() {
            return Err("reading it was ended".to_owned());
        }
        // It is read one by one, so that each has the memory that it needs.
        let value = rdb::decode(entry.value, &options, &mut |_| Ok::<(), Infallible>(()));
        if value.is_err() {
            let key = entry.key.escape_ascii();
            return Err(format!("at byte {}: the value of '{key}' is none", entry.offset));
        }
        keys += 1;
    }
    let lsn = lsn.ok_or(NO_LSN)?;
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

/// Reads all records up to the LSN `end`, at which a frame ends, and returns how many there are.
fn read_to(reader: &mut Reader, end: u64) -> Result<u64, Damage> {
    let (mut count, mut payload) = (0, Vec::new());
    while reader.end().lsn < end
        && let Some(frame) = reader.next(&mut payload).map_err(Damage::Log)?
    {
        let mut lsn = frame.lsn;
        for record in effects::records(&payload) {
            let record = record.and_then(|record| record.read());
            let record =
                record.map_err(|error| Damage::Record { lsn, reason: error.to_string() })?;
            lsn = record.header().lsn.0;
            count += 1;
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use runtime::SaveProgress;

    use super::*;
    use crate::config::Config;
    use crate::durability::tests::instance;
    use crate::persistence::save_options;

    #[test]
    fn reading_of_a_snapshot_ends_where_that_is_wanted() {
        let embedded = instance();
        let mut session = embedded.session();
        for key in ["a", "b", "c"] {
            session.run(&["SET", key, "1"]);
        }
        let path = std::env::temp_dir().join(format!("forebay-read-{}", std::process::id()));
        let options = save_options(&Config::default().settings());
        embedded.runtime().save(&path, &options, &SaveProgress::default()).unwrap();
        let left = Cell::new(2);
        let ended = check_snapshot(&path, || left.replace(left.get() - 1) > 0);
        assert!(ended.is_err_and(|reason| reason.contains("was ended")));
        assert_eq!(left.get(), -1, "no value is read once it is to end");
        assert_eq!(check_snapshot(&path, || true).unwrap().unwrap().keys, 3);
        std::fs::remove_file(&path).unwrap();
    }
}
