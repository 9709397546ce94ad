//! The part of a host that keeps the dataset in files.

use base::Lsn;

use crate::handler::session::SessionState;

/// The files of the dataset, where the instance has any. Methods lock shards: a caller holds none,
/// but for [`Persistence::save_later`].
pub trait Persistence {
    /// Writes the dataset to its file, and returns once it is durable there.
    ///
    /// # Errors
    /// When it is not; what was there before is.
    fn save(&self) -> Result<(), SaveRefusal>;

    /// Has the dataset written to its file by another thread, soon. Locks no shard.
    ///
    /// # Errors
    /// [`SaveRefusal::Runs`].
    fn save_later(&self) -> Result<(), SaveRefusal>;

    /// Has the log begin anew behind a snapshot of the dataset, which another thread writes, soon
    /// or once the file that is being written is. Locks no shard.
    ///
    /// # Errors
    /// [`SaveRefusal::NoLog`], or [`SaveRefusal::Runs`] where one is being written for the log.
    fn rewrite_log(&self) -> Result<RewriteStart, SaveRefusal>;

    /// Has the dataset of a moment written into the folder `directory`, for `session`, by another
    /// thread, soon. Locks no shard.
    ///
    /// # Errors
    /// [`BackupRefusal`].
    fn back_up(&self, session: &SessionState, directory: &[u8]) -> Result<(), BackupRefusal>;

    /// Returns what there is to say of the last such copy.
    fn backup_report(&self) -> BackupReport;

    /// Writes the dataset to its file, unless it `saves` not, removes all keys and reads the file
    /// again, while nobody else reads or writes. Within the file, expired keys are left out.
    ///
    /// # Errors
    /// When the file is not written, and nothing has changed, or cannot be read.
    fn reload(&self, saves: bool) -> Result<(), SaveRefusal>;
}

/// Why no backup is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupRefusal {
    /// A file of the dataset is being written.
    Runs,
    /// The folder cannot be used: a sentence that says why.
    Folder(String),
}

/// What there is to say of the last backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Its folder; empty where there was none since the start.
    pub directory: String,
    /// How it has ended, if it has.
    pub outcome: Option<BackupOutcome>,
}

/// How a backup has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupOutcome {
    /// It is durable, and has been read back.
    Written {
        /// The LSN that it stands for.
        lsn: Lsn,
        /// Its bytes.
        bytes: u64,
    },
    /// There is none: a sentence that says why.
    Failed(String),
}

/// Why the dataset is not in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveRefusal {
    /// Another thread writes it at this moment.
    Runs,
    /// It failed, which the log explains.
    Failed,
    /// No log is kept.
    NoLog,
}

/// When a snapshot for the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteStart {
    /// At once.
    Started,
    /// Behind the file that is being written.
    Scheduled,
}
