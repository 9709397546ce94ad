//! BACKUP: the dataset of a moment in a folder of its own, in the form of the folder of a log.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;

use command::{BackupOutcome, BackupRefusal, BackupReport, SessionState};
use runtime::{SNAPSHOT_NAME, SaveError, SaveOptions, SaveProgress, Saved};
use wal::Directory;

use super::{State, Target, Writer, save_options};
use crate::durability::inspection::check_snapshot;
use crate::server_state::ServerState;

/// The folder below `dir` that has the backups whose place no client says.
const BACKUPS_NAME: &str = "backups";
/// How many may be there: a client who may make them fills no disk without end.
const BACKUPS_MAX: usize = 64;
/// The most bytes of a name, as the system takes a path.
const NAME_BYTES_MAX: usize = 4096;

impl ServerState {
    /// Has a copy written into the folder `directory` by a thread of its own, which makes it.
    pub(super) fn begin_backup(
        &self,
        session: &SessionState,
        directory: &[u8],
    ) -> Result<(), BackupRefusal> {
        let path = self.backup_path(session, directory).map_err(BackupRefusal::Folder)?;
        let mut state = self.persistence.state();
        state.begin(Target::Backup, Writer::Background).map_err(|_| BackupRefusal::Runs)?;
        state.backup = BackupReport { directory: path.display().to_string(), outcome: None };
        state.backup_path = path;
        drop(state);
        self.service_waker.wake();
        Ok(())
    }

    /// Returns the folder that `session` calls `directory`. Does not touch the disk.
    fn backup_path(&self, session: &SessionState, directory: &[u8]) -> Result<PathBuf, String> {
        if directory.len() > NAME_BYTES_MAX {
            return Err("the name of the folder is too long".to_owned());
        }
        let settings = self.settings();
        let name = str::from_utf8(directory).ok().filter(|name| !name.contains('\0'));
        let name = Path::new(name.ok_or("the name of the folder is no text")?);
        let mut parts = name.components();
        let path = match (parts.next(), parts.next()) {
            (None, _) => return Err("the folder has no name".to_owned()),
            (Some(Component::Normal(name)), None) => {
                settings.daemon.directory.join(BACKUPS_NAME).join(name)
            }
            _ if self.allows(settings.process.protected_configs, session) => {
                settings.daemon.directory.join(name)
            }
            _ => {
                return Err(format!(
                    "a folder anywhere but in '{BACKUPS_NAME}' takes enable-protected-configs: a \
                     name without '/' is in there"
                ));
            }
        };
        std::path::absolute(path).map_err(|error| error.to_string())
    }

    /// Makes the folder at `path`, unless it is there and empty.
    fn make_folder(&self, path: &Path) -> Result<(), String> {
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let settings = self.settings();
        let directory = &settings.daemon.directory;
        let backups = std::path::absolute(directory.join(BACKUPS_NAME))
            .map_err(|error| failed(directory, error))?;
        let is_usual = path.parent() == Some(&backups);
        if is_usual {
            Directory::open(&backups).map_err(|error| failed(&backups, error))?;
        }
        let place = real_path(path).map_err(|error| failed(path, error))?;
        // What is in the folder of a log is taken for a part of it.
        let log = directory.join(&settings.persistence.log_directory);
        let running = self.durability.snapshot_path();
        let running = running.as_deref().and_then(Path::parent).map(Path::to_owned);
        for kept in [log, self.dataset_path()].into_iter().chain(running) {
            // Where its folder is not there, nothing is in it.
            if real_path(&kept).is_ok_and(|kept| place.starts_with(kept)) {
                let (path, kept) = (path.display(), kept.display());
                return Err(format!("{path} is where the server has its own files: {kept}"));
            }
        }
        if is_usual {
            let others = fs::read_dir(&backups).map_err(|error| failed(&backups, error))?;
            let name = path.file_name();
            let is_other = |entry: &io::Result<DirEntry>| {
                entry.as_ref().ok().map(|it| it.file_name()) != name.map(OsStr::to_owned)
            };
            if others.filter(is_other).take(BACKUPS_MAX).count() == BACKUPS_MAX {
                let backups = backups.display();
                return Err(format!("{backups} has {BACKUPS_MAX} backups: remove some of them"));
            }
        }
        Directory::open(path).map_err(|error| failed(path, error))?;
        match fs::read_dir(path).map_err(|error| failed(path, error))?.next() {
            None => Ok(()),
            Some(_) => Err(format!("{} is not empty: nothing is replaced", path.display())),
        }
    }

    pub(super) fn back_up_in_background(&self, progress: &SaveProgress) {
        let directory = self.persistence.state().backup_path.clone();
        tracing::info!(directory = %directory.display(), "Backup started");
        let made = self.make_folder(&directory);
        let saved = match &made {
            Ok(()) => self.write_backup(&directory, progress),
            Err(reason) => {
                let (step, error) = ("no folder for it", io::Error::other(reason.clone()));
                Err(SaveError::System { step, error })
            }
        };
        match &saved {
            Ok(saved) => {
                tracing::info!(lsn = saved.lsn.0, bytes = saved.bytes, "Backup finished");
            }
            Err(error) => {
                tracing::warn!("Backup error: {error}");
                if made.is_ok() {
                    // What is left of it would be in the way of the next one.
                    let _ = fs::remove_file(directory.join(SNAPSHOT_NAME));
                    let _ = fs::remove_dir(&directory);
                }
            }
        }
        self.end_save(&saved);
    }

    /// Writes the copy into `directory`, and reads it back.
    fn write_backup(&self, directory: &Path, progress: &SaveProgress) -> Result<Saved, SaveError> {
        let file = directory.join(SNAPSHOT_NAME);
        // Whatever `rdbchecksum` says: it is kept for long, and read by nobody until it is needed.
        let options =
            SaveOptions { has_checksum: true, pauses: true, ..save_options(&self.settings()) };
        let saved = self.runtime.save(&file, &options, progress)?;
        let is_cancelled = || progress.is_cancelled.load(Ordering::Relaxed);
        let read = check_snapshot(&file, || !is_cancelled());
        match read.map(|found| found.map(|found| found.lsn)) {
            Ok(Some(lsn)) if lsn == saved.lsn => Ok(saved),
            _ if is_cancelled() => Err(SaveError::Cancelled),
            read => {
                let step = "reading it back";
                let reason = read.err().unwrap_or_else(|| "it is another file".to_owned());
                Err(SaveError::System { step, error: io::Error::other(reason) })
            }
        }
    }
}

/// Returns `path` without links, though its last part may not be there.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = std::path::absolute(path)?;
            let (parent, name) = path.parent().zip(path.file_name()).ok_or(error)?;
            Ok(parent.canonicalize()?.join(name))
        }
        found => found,
    }
}

impl State {
    /// Notes how a backup has ended.
    pub(super) fn note_backup(&mut self, saved: &Result<Saved, SaveError>) {
        self.backup.outcome = Some(match saved {
            Ok(saved) => BackupOutcome::Written { lsn: saved.lsn, bytes: saved.bytes },
            Err(error) => BackupOutcome::Failed(error.to_string()),
        });
    }
}
