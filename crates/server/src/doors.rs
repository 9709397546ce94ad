//! The TCP listeners, which CONFIG SET of `port` and `bind` exchanges while the server runs.
//!
//! The old ones stop first, as an address can be bound again only then; where a new one cannot be
//! opened, the old addresses are opened again. Connections that wait to be accepted are lost, as in
//! Redis; those that are accepted are not touched.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::socket::Listener;

use crate::config::Settings;
use crate::listen;

/// The TCP listeners that are open. The acceptor has them, too.
#[derive(Default)]
pub struct Doors {
    open: Mutex<Vec<Arc<Listener>>>,
}

impl Doors {
    /// Takes the listeners of the start.
    pub fn take(&self, listeners: &[Arc<Listener>]) {
        let tcp = listeners.iter().filter(|listener| listener.path().is_none());
        *self.open() = tcp.cloned().collect();
    }

    /// Exchanges the listeners of `before` for those of `after`, and returns the ones that are
    /// open from now on, with whether they are those of `after`. The log tells why they are not.
    pub fn exchange(&self, before: &Settings, after: &Settings) -> (Vec<Arc<Listener>>, bool) {
        let mut open = self.open();
        for listener in open.drain(..) {
            // One that cannot stop keeps its address, which the next step then finds taken.
            let _ = listener.stop();
        }
        let (listeners, is_done) = match listen::open_tcp(after) {
            Ok(listeners) => (listeners, true),
            Err(message) => {
                tracing::warn!("{message}");
                (reopened(before), false)
            }
        };
        open.clone_from(&listeners);
        (listeners, is_done)
    }

    /// Lets go of the listeners.
    pub fn close(&self) {
        self.open().clear();
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Listener>>> {
        // Whoever panicked left a list of open listeners, maybe an empty one.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reopened(before: &Settings) -> Vec<Arc<Listener>> {
    listen::open_tcp(before).unwrap_or_else(|message| {
        tracing::error!(%message, "The former addresses cannot be listened on again");
        Vec::new()
    })
}
