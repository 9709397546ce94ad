//! `forebay restore`: makes the data of an earlier moment from a snapshot and the log behind it,
//! into a folder of its own, from which a server goes on.
//!
//! The source is only read, also while a server writes to it. Damage behind the moment that is
//! wanted is not met.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, UnixMs};
use effects::{RecordHeader, RecordView};
use engine::Applier;
use rdb::file::{FileReader, Item, LSN_FIELD};
use runtime::{Environment, ExpiredKeys, Runtime, SNAPSHOT_NAME, SaveProgress};
use wal::{Directory, Reader, SegmentStart, Storage};

use super::history::{first_time, segment_starts};
use super::moment;
use crate::config::Config;
use crate::config::options::Settings;
use crate::loading::Loading;
use crate::persistence::{load_file, save_options};
use crate::server_state::instance_options;
use runtime::{earlier_snapshots, snapshot_name};

/// What is told of it on the command line.
pub const USAGE: &str = "\
forebay restore: make the data of an earlier moment from a snapshot and the log behind it

Usage:
  forebay restore DIR [--to-lsn LSN | --to-time TIME] --into DIR2

  DIR             an append-only directory, of a server that runs or not, or a backup
  --to-lsn LSN    what had happened up to this position in the log
  --to-time TIME  what had happened before the first record that is later: in UTC, as in
                  2026-11-25T19:47:11Z, or in seconds since the Unix epoch
  --into DIR2     an append-only directory to be made, or one that is empty

Without a moment all that there is is restored. A server goes on from DIR2 with 'appendonly yes',
'dir' the folder that it is in, and 'appenddirname' its name. Earlier moments than the last snapshot
can be restored where log-retention-seconds or log-retention-size keep what that needs.
";

/// The moment that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Behind the last record up to this position.
    Position(Lsn),
    /// Before the first record that is later.
    Time(UnixMs),
    /// Behind the last record there is.
    Latest,
}

/// What was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The LSN that the snapshot stands for; none where it began from nothing.
    pub snapshot: Option<Lsn>,
    /// The LSN that the data stand for.
    pub lsn: Lsn,
    /// The records that were applied.
    pub records: u64,
    /// When the last of them happened.
    pub time: Option<UnixMs>,
    /// What comes next and was left out.
    pub next: Option<(Lsn, UnixMs)>,
}

/// Restores as `wish` says, and returns what there is to say at the end.
///
/// # Errors
/// A line for the user. What was made of the target is removed.
pub fn run(wish: &Wish) -> Result<String, String> {
    require_empty(&wish.target)?;
    let failed = |path: &Path, error: &dyn Display| format!("{}: {error}", path.display());
    let source = Directory::open_existing(&wish.source);
    let source: Arc<dyn Storage> = Arc::new(source.map_err(|error| failed(&wish.source, &error))?);
    let settings = restoring_settings();
    let runtime = Runtime::open(&instance_options(&settings, 1), Environment::system());
    let runtime = runtime.map_err(|error| error.to_string())?;
    let is_new = !wish.target.exists();
    let target = Directory::open(&wish.target).map_err(|error| failed(&wish.target, &error))?;
    let lock = target.lock().map_err(|error| failed(&wish.target, &error))?;
    let restored = restore(&source, &wish.source, wish.moment, &runtime).and_then(|restored| {
        save(&wish.target, restored.lsn, &settings, &runtime).map(|()| restored)
    });
    if restored.is_err() {
        // What stays is told to be there the next time. The lock is held, so that it is no other's.
        let _ = target.remove_lock();
        if is_new {
            let _ = fs::remove_dir(&wish.target);
        }
    }
    drop(lock);
    restored.map(|restored| describe(&restored, &wish.target, &runtime))
}

/// What a command line asks for.
pub struct Wish {
    source: PathBuf,
    target: PathBuf,
    moment: Moment,
}

impl Wish {
    /// Reads a command line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(arguments: &[String]) -> Result<Wish, String> {
        let (mut source, mut target, mut moment) = (None, None, None);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            let is_new = match word.as_str() {
                "--into" => target.replace(PathBuf::from(value()?)).is_none(),
                "--to-lsn" => {
                    let text = value()?;
                    let lsn = text.parse().map_err(|_| format!("'{text}' is no LSN"))?;
                    moment.replace(Moment::Position(Lsn(lsn))).is_none()
                }
                "--to-time" => {
                    let text = value()?;
                    let time = moment::parse(text).ok_or_else(|| {
                        format!("'{text}' is no time: 2026-11-25T19:47:11Z is one, 1795636031 too")
                    })?;
                    moment.replace(Moment::Time(time)).is_none()
                }
                other if other.starts_with('-') => return Err(format!("no option '{other}'")),
                other => source.replace(PathBuf::from(other)).is_none(),
            };
            if !is_new {
                return Err(format!("'{word}' is one too many"));
            }
        }
        let source = source.ok_or("which directory?")?;
        let target = target.ok_or("--into says where the data go")?;
        Ok(Wish { source, target, moment: moment.unwrap_or(Moment::Latest) })
    }
}

/// Refuses a folder that has anything: nothing is replaced.
fn require_empty(folder: &Path) -> Result<(), String> {
    let names = match fs::read_dir(folder) {
        Ok(names) => names.count(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    };
    match names {
        0 => Ok(()),
        _ => Err(format!("{} is not empty: nothing is replaced", folder.display())),
    }
}

/// Returns the settings of an instance that takes any data.
fn restoring_settings() -> Settings {
    Config::default().settings()
}

/// Makes the data of `moment` in `runtime`, which has none, from the log in `storage`, whose folder
/// is at `path`.
///
/// # Errors
/// A line for the user: it cannot be made of what is there, or that is damaged.
pub fn restore(
    storage: &Arc<dyn Storage>,
    path: &Path,
    moment: Moment,
    runtime: &Runtime,
) -> Result<Restored, String> {
    let source = Source::open(storage, path)?;
    let limit = match moment {
        Moment::Position(lsn) => lsn,
        Moment::Time(time) => source.position_at(time)?,
        Moment::Latest => Lsn(u64::MAX),
    };
    let snapshot = source.snapshot_before(limit)?;
    if let Some((lsn, file)) = &snapshot {
        let loading = Loading::new(None, runtime.clock().wall());
        let loaded = load_file(runtime, file, ExpiredKeys::Made, &loading)?;
        if loaded.is_none_or(|loaded| loaded.lsn != Some(*lsn)) {
            return Err(format!("'{}' has changed meanwhile", file.display()));
        }
    }
    let from = snapshot.map(|(lsn, _)| lsn);
    let restored = source.replay(from, limit, runtime)?;
    let is_reached = restored.next.is_some() || restored.lsn == limit;
    if let Moment::Position(wanted) = moment
        && !is_reached
    {
        let end = restored.lsn.0;
        return Err(format!("the log ends at LSN {end}: nothing is known of LSN {}", wanted.0));
    }
    Ok(restored)
}

/// Writes the data of `runtime`, which stand for `lsn`, into the empty folder at `path`.
fn save(path: &Path, lsn: Lsn, settings: &Settings, runtime: &Runtime) -> Result<(), String> {
    runtime.begin_stream_at(lsn);
    runtime.backlog();
    let file = path.join(SNAPSHOT_NAME);
    let saved = runtime.save(&file, &save_options(settings), &SaveProgress::default());
    let saved = saved.map_err(|error| format!("can't write '{}': {error}", file.display()))?;
    assert_eq!(saved.lsn, lsn, "nothing has happened since");
    Ok(())
}

fn describe(restored: &Restored, target: &Path, runtime: &Runtime) -> String {
    let from = match restored.snapshot {
        Some(lsn) => format!("the snapshot of LSN {}", lsn.0),
        None => "nothing".to_owned(),
    };
    let time = restored.time.map(|time| format!(", of {}", moment::format(time)));
    let databases = runtime.keyspace().databases();
    let keys: u64 = databases.map(|database| runtime.keyspace().counts(database).keys).sum();
    let mut text = format!(
        "From {from} and {} records behind it: {keys} keys, as they were at LSN {}{}.\n",
        restored.records,
        restored.lsn.0,
        time.unwrap_or_default()
    );
    if let Some((lsn, time)) = restored.next {
        let time = moment::format(time);
        text += &format!("Left out is what follows, from LSN {} of {time} on.\n", lsn.0);
    }
    text += &format!("A server can go on from {}.\n", target.display());
    text
}

/// A folder that is restored from.
struct Source<'a> {
    storage: &'a Arc<dyn Storage>,
    path: &'a Path,
    starts: Vec<SegmentStart>,
    /// The snapshots that there are, by LSN.
    snapshots: Vec<(Lsn, PathBuf)>,
}

impl<'a> Source<'a> {
    fn open(storage: &'a Arc<dyn Storage>, path: &'a Path) -> Result<Source<'a>, String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let earlier = earlier_snapshots(&**storage).map_err(failed)?.into_iter();
        let mut snapshots: Vec<(Lsn, PathBuf)> =
            earlier.map(|lsn| (Lsn(lsn), path.join(snapshot_name(lsn)))).collect();
        let latest = path.join(SNAPSHOT_NAME);
        if let Some(lsn) = snapshot_lsn(&latest)? {
            snapshots.push((lsn, latest));
        }
        let starts = segment_starts(&**storage).map_err(failed)?;
        if snapshots.is_empty() && starts.is_empty() {
            return Err(format!("{} has neither a snapshot nor a log", path.display()));
        }
        Ok(Source { storage, path, starts, snapshots })
    }

    /// Returns the LSN behind the last record before the first one that is later than `time`.
    fn position_at(&self, time: UnixMs) -> Result<Lsn, String> {
        let is_before = |start: &SegmentStart| first_time(start).is_some_and(|first| first <= time);
        let Some(start) = self.starts.iter().rfind(|start| is_before(start)) else {
            return match self.starts.first() {
                Some(first) if first.begins => Ok(Lsn(first.lsn)),
                _ => Err(format!(
                    "the log in {} begins later than {}",
                    self.path.display(),
                    moment::format(time)
                )),
            };
        };
        let mut position = Lsn(start.lsn);
        self.for_each_record(position, |record| {
            let header = record.header();
            if header.time > time {
                return Ok(false);
            }
            position = header.lsn;
            Ok(true)
        })?;
        Ok(position)
    }

    /// Returns the last snapshot that stands for `limit` or less and that the log goes on from;
    /// none where that is an empty dataset.
    fn snapshot_before(&self, limit: Lsn) -> Result<Option<(Lsn, PathBuf)>, String> {
        let begin = self.starts.first();
        let reaches = |lsn: Lsn| lsn == limit || begin.is_none_or(|begin| begin.lsn <= lsn.0);
        let fitting =
            self.snapshots.iter().rfind(|(lsn, _)| *lsn <= limit && reaches(*lsn)).cloned();
        if fitting.is_some() || begin.is_some_and(|begin| begin.begins && begin.lsn <= limit.0) {
            return Ok(fitting);
        }
        let first = self.snapshots.iter().find(|(lsn, _)| reaches(*lsn));
        Err(match first {
            Some((first, _)) => format!(
                "LSN {} is before the first moment that can be restored, LSN {}: that is the \
                 first snapshot behind which the log is there",
                limit.0, first.0
            ),
            None => {
                format!("there is no snapshot that the log in {} goes on from", self.path.display())
            }
        })
    }

    /// Applies the records behind `from`, or all, up to `limit`.
    fn replay(&self, from: Option<Lsn>, limit: Lsn, runtime: &Runtime) -> Result<Restored, String> {
        let begin = from.unwrap_or(Lsn(self.starts.first().map_or(0, |first| first.lsn)));
        let mut restored = Restored { snapshot: from, lsn: begin, ..Restored::default() };
        let mut applier = Applier::new();
        let read = self.for_each_record(begin, |record| {
            let RecordHeader { lsn, time, .. } = *record.header();
            if lsn <= begin {
                return Ok(true);
            }
            if lsn > limit {
                restored.next = Some((lsn, time));
                return Ok(false);
            }
            let applied = runtime.engine().replay(&mut applier, record);
            applied.map_err(|error| format!("LSN {}: {error}", lsn.0))?;
            restored.lsn = lsn;
            restored.time = Some(time);
            restored.records += 1;
            Ok(true)
        });
        if restored.lsn != limit {
            // Else all is there, and what comes next was only to be told.
            read?;
        }
        Ok(restored)
    }

    /// Calls `visit` with the records from the segment on that `from` is in, until it says that it
    /// has enough. A torn end of the log is its end.
    fn for_each_record(
        &self,
        from: Lsn,
        mut visit: impl FnMut(&RecordView<'_>) -> Result<bool, String>,
    ) -> Result<(), String> {
        let failed = |error: &dyn Display| format!("the log in {}: {error}", self.path.display());
        let reader = Reader::open_from(Arc::clone(self.storage), from.0);
        let mut reader = reader.map_err(|error| failed(&error))?;
        if let Some(begin) = reader.begins_at().filter(|begin| *begin > from.0) {
            // A server that writes it has removed what its next snapshot has.
            let from = from.0;
            return Err(failed(&format!(
                "it begins at LSN {begin} now, and what is behind LSN {from} was removed meanwhile"
            )));
        }
        let mut payload = Vec::new();
        while reader.next(&mut payload).map_err(|error| failed(&error))?.is_some() {
            for record in effects::records(&payload) {
                let record = record.and_then(|record| record.read());
                if !visit(&record.map_err(|error| failed(&error))?).map_err(|it| failed(&it))? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns the LSN that the snapshot at `path` stands for; none where there is none.
///
/// # Errors
/// A line for the user, where the file cannot be read or does not say.
fn snapshot_lsn(path: &Path) -> Result<Option<Lsn>, String> {
    let failed = |error: &dyn Display| format!("'{}': {error}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| failed(&error))?,
    };
    let mut reader = FileReader::open(file).map_err(|error| failed(&error))?;
    // What is said of the whole file stands before its keys.
    while let Some(Item::Field { name, value }) =
        reader.next_item().map_err(|error| failed(&error))?
    {
        if name == LSN_FIELD {
            return lsn_of_field(value).map(Some).map_err(|error| failed(&error));
        }
    }
    Err(failed(&NO_LSN))
}

/// What is wrong with a snapshot without its LSN.
pub const NO_LSN: &str = "it does not say which LSN it stands for";

/// Returns the LSN that the field of a snapshot says.
///
/// # Errors
/// A sentence that says why it says none.
pub fn lsn_of_field(value: &[u8]) -> Result<Lsn, String> {
    let lsn = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    lsn.map(Lsn).ok_or_else(|| "its LSN is no number".to_owned())
}

#[cfg(test)]
mod tests {
    use wal::simulated::SimulatedDisk;

    use super::*;
    use crate::durability::tests::{instance, log_of_seconds};

    #[test]
    fn what_is_removed_meanwhile_is_missed() {
        let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new());
        let lsns = log_of_seconds(&storage, 0..10, 100);
        let source = Source::open(&storage, Path::new("/there/is/none")).unwrap();
        wal::forget_before(&*storage, lsns[5]).unwrap();
        let replayed = source.replay(None, Lsn(u64::MAX), instance().runtime());
        let reason = replayed.unwrap_err();
        assert!(reason.contains("was removed meanwhile"), "{reason}");
    }
}
