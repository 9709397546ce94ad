//! The stream of an instance's changes, kept from the moment on when it is first requested.

use std::sync::{Arc, OnceLock};

use effects::Backlog;

use crate::runtime::Runtime;

/// The latest changes, once anybody has asked for them: until then a write costs one branch more.
#[derive(Default)]
pub(crate) struct Stream {
    backlog: OnceLock<Arc<Backlog>>,
}

impl Runtime {
    /// Returns the latest changes, which are kept from the first call on, with as many bytes as the
    /// options say: they count as memory in use. Consumers begin there, each with a position of
    /// its own. The caller holds no guard.
    pub fn backlog(&self) -> &Arc<Backlog> {
        let backlog = self.stream.backlog.get_or_init(|| {
            let admission = Arc::clone(self.keyspace().admission());
            let backlog = Arc::new(Backlog::new(self.backlog_bytes, admission));
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

    /// Counts the memory that the backlog has taken or given back since the last call: one load
    /// where that is none.
    pub fn count_backlog(&self) {
        if let Some(backlog) = self.kept_backlog() {
            backlog.report_memory(|grown, shrunk| self.recharge(shrunk, grown));
        }
    }
}
