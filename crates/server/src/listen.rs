//! The listeners: which the configuration asks for, and their exchange while the server runs.
//!
//! CONFIG SET of what a transport listens by, such as `port` and `bind`, exchanges its listeners.
//! The old ones stop first, as an address can be bound again only then; where a new one cannot be
//! opened, the old addresses are opened again. Connections that wait to be accepted are lost, as in
//! Redis; those that are accepted are not touched, nor are the listeners of other transports.
//!
//! *Not here*: how those of a transport are opened and what they depend on (its file), what is
//! accepted (`accept.rs`).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::socket::{Closer, Stream};

use crate::config::Settings;
use crate::config::row::Row;
use crate::transport::{LISTENS, Pending};

/// How the connections by a transport are listened for.
pub struct Listens {
    /// What the log calls the transport.
    pub name: &'static str,
    /// Returns whether the settings after a change ask for other listeners than those before it: by
    /// the option that is refused where they cannot be opened, and why.
    pub change: fn(&Settings, &Settings) -> Option<OptionRefusal>,
    /// Opens the listeners that the settings ask for, each with the address that it is known by. A
    /// failure is a sentence for the log, and closes those already open. What they accept is closed
    /// by the closer where a close may take long.
    pub open: Open,
    /// Makes a connection of what has been accepted.
    pub pending: fn(Accepted) -> Pending,
}

/// The option that cannot be set, and why, in the words of Redis.
pub type OptionRefusal = (&'static Row, &'static str);

type Open = fn(&Settings, &Arc<dyn Closer>) -> Result<Vec<(sys::socket::Listener, String)>, String>;

/// A connection that was accepted.
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// The peer's address in a network; none on this host, which lets the peer pass protected mode.
    pub from: Option<SocketAddr>,
    /// The address that its listener is known by: `ip:port`, or the path.
    pub listener: Arc<str>,
}

/// An open listener.
pub struct Listener {
    socket: sys::socket::Listener,
    name: Arc<str>,
    listens: &'static Listens,
}

impl Listener {
    /// Accepts a connection, or returns none when no one waits.
    ///
    /// # Errors
    /// Those of [`sys::socket::Listener::accept`].
    pub fn accept(&self) -> io::Result<Option<Accepted>> {
        let accepted = self.socket.accept()?;
        let listener = || Arc::clone(&self.name);
        Ok(accepted.map(|(stream, from)| Accepted { stream, from, listener: listener() }))
    }

    /// Returns whether those whom it accepts speak memcached's protocol.
    pub fn speaks_memcached(&self) -> bool {
        self.listens.name == "memcached"
    }

    /// Makes a connection of what it has `accepted`.
    pub fn pending(&self, accepted: Accepted) -> Pending {
        (self.listens.pending)(accepted)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens all listeners of `settings`; a failure closes those already open.
///
/// # Errors
/// A sentence for the log that says which address failed and why.
pub fn open(settings: &Settings, closer: &Arc<dyn Closer>) -> Result<Vec<Arc<Listener>>, String> {
    let opened = open_those(settings, closer, |_| true);
    let listeners = opened.map_err(|(_, message)| message)?;
    if listeners.is_empty() {
        return Err("Configured to not listen anywhere, exiting.".to_owned());
    }
    Ok(listeners)
}

/// Opens the listeners of those transports that are wanted; or none, and says by which it cannot.
fn open_those(
    settings: &Settings,
    closer: &Arc<dyn Closer>,
    are_wanted: impl Fn(&Listens) -> bool,
) -> Result<Vec<Arc<Listener>>, (&'static Listens, String)> {
    let mut listeners = Vec::new();
    for listens in LISTENS.iter().flatten().filter(|listens| are_wanted(listens)) {
        let opened = (listens.open)(settings, closer).map_err(|message| (listens, message))?;
        for (socket, name) in opened {
            listeners.push(Arc::new(Listener { socket, name: Arc::from(name), listens }));
        }
    }
    Ok(listeners)
}

/// Returns by which transports `listeners` accept, for the log.
pub fn kinds(listeners: &[Arc<Listener>]) -> Vec<&'static str> {
    let mut names: Vec<_> = listeners.iter().map(|listener| listener.listens.name).collect();
    names.dedup();
    names
}

/// What has come of an exchange.
pub struct Exchanged {
    /// All listeners that are open from now on.
    pub listeners: Vec<Arc<Listener>>,
    /// Whether they are those of the settings after the change.
    pub listened: Result<(), OptionRefusal>,
}

/// The open listeners. The acceptor has them, too.
#[derive(Default)]
pub struct Listeners {
    open: Mutex<Vec<Arc<Listener>>>,
}

impl Listeners {
    /// Takes those of the start.
    pub fn take(&self, listeners: &[Arc<Listener>]) {
        *self.open() = listeners.to_vec();
    }

    /// Exchanges listeners of `before` for those of `after`; none where these are the same. The log
    /// tells why it was not possible.
    pub fn exchange(
        &self,
        before: &Settings,
        after: &Settings,
        closer: &Arc<dyn Closer>,
    ) -> Option<Exchanged> {
        let change = |listens: &Listens| (listens.change)(before, after);
        let changes = |listens: &Listens| change(listens).is_some();
        if !LISTENS.iter().flatten().any(changes) {
            return None;
        }
        let mut open = self.open();
        for listener in open.extract_if(.., |listener| changes(listener.listens)) {
            // One that cannot stop keeps its address, which the next step then finds taken.
            let _ = listener.socket.stop();
        }
        let listened = match open_those(after, closer, changes) {
            Ok(opened) => {
                open.extend(opened);
                Ok(())
            }
            Err((listens, message)) => {
                tracing::warn!("{message}");
                open.extend(reopened(before, closer, changes));
                Err(change(listens).expect("only those that change are opened"))
            }
        };
        Some(Exchanged { listeners: open.clone(), listened })
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

fn reopened(
    before: &Settings,
    closer: &Arc<dyn Closer>,
    are_wanted: impl Fn(&Listens) -> bool,
) -> Vec<Arc<Listener>> {
    open_those(before, closer, are_wanted).unwrap_or_else(|(_, message)| {
        tracing::error!(%message, "The former addresses cannot be listened on again");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, read_text};
    use crate::descriptor_closer::DescriptorCloser;

    #[test]
    fn nothing_to_listen_on_is_refused() {
        let mut config = Config::default();
        config.load(read_text(b"port 0", None, 1)).unwrap();
        let closer: Arc<dyn Closer> = Arc::new(DescriptorCloser::default());
        let Err(message) = open(&config.settings(), &closer) else { panic!("it is refused") };
        assert!(message.contains("not listen anywhere"), "{message}");
    }
}
