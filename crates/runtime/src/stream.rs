//! The stream of an instance's changes, kept from the moment on when it is first requested.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::Lsn;
use effects::Backlog;

use crate::runtime::Runtime;

/// The latest changes, once anybody has asked for them: until then a write costs one branch more.
#[derive(Default)]
pub(crate) struct Stream {
    backlog: OnceLock<Arc<Backlog>>,
    /// The LSN that the data stand for before the first change.
    start: AtomicU64,
}

impl Runtime {
    /// Has the stream begin behind `start`, which the data stand for.
    ///
    /// # Panics
    /// When it has begun.
    pub fn begin_stream_at(&self, start: Lsn) {
        assert!(self.kept_backlog().is_none(), "the stream has not begun");
        self.stream.start.store(start.0, Ordering::Relaxed);
    }

    /// Keeps the changes from now on, or forgets that they are to be kept: then a write costs what
    /// it costs without anybody who follows, and the stream stands still. Nobody may follow it
    /// meanwhile. The caller holds no guard.
    pub fn keep_changes(&self, keeps: bool) {
        let backlog = Arc::clone(self.backlog());
        self.keyspace().set_sink(keeps.then_some(backlog as Arc<_>));
    }

    /// Returns the latest changes, which are kept from the first call on, with as many bytes as the
    /// options say: they count as memory in use. Consumers begin there, each with a position of
    /// its own. The caller holds no guard.
    pub fn backlog(&self) -> &Arc<Backlog> {
        let backlog = self.stream.backlog.get_or_init(|| {
            let admission = Arc::clone(self.keyspace().admission());
            let start = Lsn(self.stream.start.load(Ordering::Relaxed));
            let backlog = Arc::new(Backlog::new(self.backlog_bytes, start, admission));
            self.keyspace().set_sink(Some(Arc::clone(&backlog) as Arc<_>));
            backlog
        });
        self.count_backlog();
        backlog
    }

    /// Returns the latest changes, if they are kept.
    pub fn kept_backlog(&self) -> Option<&Arc<Backlog>> {
        self.stream.backlog.get()
    }

    /// Returns the LSN of the latest change, or of one shortly before; 0 where none are kept.
    #[inline]
    pub fn latest_lsn(&self) -> Lsn {
        self.kept_backlog().map_or(Lsn(0), |backlog| backlog.latest())
    }

    /// Counts the memory that the backlog has taken or given back since the last call: one load
    /// where that is none.
    pub fn count_backlog(&self) {
        if let Some(backlog) = self.kept_backlog() {
            backlog.report_memory(|grown, shrunk| self.recharge(shrunk, grown));
        }
    }
}
