//! BACKUP: the dataset of a moment in a folder of its own, in the form of the folder of a log.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use command::{BackupOutcome, BackupRefusal, BackupReport, SessionState};
use runtime::{SaveError, SaveOptions, SaveProgress, Saved};
use wal::Directory;

use super::{State, Target, Writer, save_options};
use crate::durability::SNAPSHOT_NAME;
use crate::durability::inspection::check_snapshot;
use crate::server_state::ServerState;

impl ServerState {
    /// Makes the folder `directory`, and has a copy written into it by a thread of its own.
    pub(super) fn begin_backup(
        &self,
        session: &SessionState,
        directory: &[u8],
    ) -> Result<(), BackupRefusal> {
        let path = self.backup_path(session, directory).map_err(BackupRefusal::Folder)?;
        let mut state = self.persistence.state();
        state.begin(Target::Backup, Writer::Background).map_err(|_| BackupRefusal::Runs)?;
        if let Err(reason) = make_folder(&path) {
            state.running = None;
            return Err(BackupRefusal::Folder(reason));
        }
        let directory = path.display().to_string();
        state.backup = BackupReport { directory, outcome: None };
        drop(state);
        self.service_waker.wake();
        Ok(())
    }

    /// Returns the folder that `session` calls `directory`.
    fn backup_path(&self, session: &SessionState, directory: &[u8]) -> Result<PathBuf, String> {
        let settings = self.settings();
        let name = str::from_utf8(directory).ok().filter(|name| !name.contains('\0'));
        let name = Path::new(name.ok_or("the name of the folder is no text")?);
        let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
        if name.as_os_str().is_empty() {
            return Err("the folder has no name".to_owned());
        }
        if !is_below && !self.allows(settings.process.protected_configs, session) {
            return Err(
                "a folder that is not below 'dir' takes enable-protected-configs".to_owned()
            );
        }
        let path = std::path::absolute(settings.daemon.directory.join(name));
        path.map_err(|error| error.to_string())
    }

    pub(super) fn back_up_in_background(&self, progress: &SaveProgress) {
        let directory = PathBuf::from(self.persistence.state().backup.directory.clone());
        tracing::info!(directory = %directory.display(), "Backup started");
        let file = directory.join(SNAPSHOT_NAME);
        // Whatever `rdbchecksum` says: it is kept for long, and read by nobody until it is needed.
        let options = SaveOptions { has_checksum: true, ..save_options(&self.settings()) };
        let saved = self.runtime.save(&file, &options, progress).and_then(|saved| {
            let read = check_snapshot(&file).map(|found| found.map(|found| found.lsn));
            match read {
                Ok(Some(lsn)) if lsn == saved.lsn => Ok(saved),
                read => {
                    let step = "reading it back";
                    let reason = read.err().unwrap_or_else(|| "it is another file".to_owned());
                    Err(SaveError::System { step, error: io::Error::other(reason) })
                }
            }
        });
        match &saved {
            Ok(saved) => {
                tracing::info!(lsn = saved.lsn.0, bytes = saved.bytes, "Backup finished");
            }
            Err(error) => {
                tracing::warn!("Backup error: {error}");
                // What is left of it would be in the way of the next one.
                let _ = fs::remove_file(&file);
                let _ = fs::remove_dir(&directory);
            }
        }
        self.end_save(&saved);
    }
}

/// Makes the folder at `path`, unless it is there and empty.
fn make_folder(path: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    Directory::open(path).map_err(failed)?;
    match fs::read_dir(path).map_err(failed)?.next() {
        None => Ok(()),
        Some(_) => Err(format!("{} is not empty: nothing is replaced", path.display())),
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
