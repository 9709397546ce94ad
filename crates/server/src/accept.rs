//! Accepts connections: the limit of clients, protected mode, and a process without descriptors.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sys::poll::{Interest, Poller};
use sys::socket::is_exhaustion;

use crate::config::Settings;
use crate::listen::{Accepted, Listener};
use crate::server_state::ServerState;
use crate::transport::Pending;

/// Connections accepted before the worker turns to its clients again.
const ACCEPTS_PER_ROUND_MAX: usize = 256;
/// The token of the first listener; the next ones count down.
const LISTENER_TOKEN: u64 = u64::MAX - 1;
/// Listeners that tokens are set aside for.
const LISTENERS_MAX: usize = 64;

const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";
/// Memcached's own text for the same.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";
const PROTECTED_MEMCACHED: &[u8] = b"SERVER_ERROR protected mode: only clients on this host are \
    admitted while there is no password; see the option protected-mode\r\n";
/// Redis's own text, which tools recognise.
const PROTECTED: &[u8] = b"\
-DENIED Redis is running in protected mode because protected mode is enabled and no password \
is set for the default user. In this mode connections are only accepted from the loopback \
interface. If you want to connect from external computers to Redis you may adopt one of the \
following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-\
mode no' from the loopback interface by connecting to Redis from the same host the server is \
running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use \
CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the \
protected mode by editing the Redis configuration file, and setting the protected mode option \
to 'no', and then restarting the server. 3) If you started the server manually just for \
testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication \
password for the default user. NOTE: You only need to do one of the above things in order for \
the server to start accepting connections from the outside.\r\n";

/// Accepts from all listeners; belongs to one worker.
pub struct Acceptor {
    listeners: Vec<Arc<Listener>>,
    /// A descriptor to give up when none are left, so that a waiting connection can be accepted
    /// and closed instead of waking the worker for ever.
    reserve: Option<File>,
    is_paused: bool,
}

impl Acceptor {
    /// Returns an acceptor of `listeners`.
    ///
    /// # Errors
    /// When no descriptor is left to keep in reserve.
    ///
    /// # Panics
    /// When there are more than 64 listeners.
    pub fn new(listeners: Vec<Arc<Listener>>) -> io::Result<Acceptor> {
        assert!(listeners.len() <= LISTENERS_MAX, "{} listeners", listeners.len());
        Ok(Acceptor { listeners, reserve: Some(reserve()?), is_paused: false })
    }

    /// Has `poller` tell when connections wait.
    ///
    /// # Errors
    /// When the system has no memory for it. Then it tells of none, and this can be tried again.
    pub fn watch(&mut self, poller: &Poller) -> io::Result<()> {
        let mut listeners = self.listeners.iter().enumerate();
        let watched = listeners.try_for_each(|(index, listener)| {
            poller.add(listener, LISTENER_TOKEN - index as u64, Interest::ReadableLevel)
        });
        match watched {
            Ok(()) => self.is_paused = false,
            Err(_) => self.unwatch(poller),
        }
        watched
    }

    /// Takes the listeners `next` instead of those that it has.
    ///
    /// # Errors
    /// When the system has no memory to watch them.
    pub fn exchange(&mut self, next: Vec<Arc<Listener>>, poller: &Poller) -> io::Result<()> {
        self.unwatch(poller);
        self.listeners = next;
        self.listeners.truncate(LISTENERS_MAX);
        // One that pauses watches them when it goes on.
        if self.is_paused { Ok(()) } else { self.watch(poller) }
    }

    fn unwatch(&self, poller: &Poller) {
        for listener in &self.listeners {
            // Where it is in the set, it can be taken out.
            let _ = poller.remove(listener);
        }
    }

    /// Returns whether `token` is that of a listener.
    #[inline]
    pub fn is_token(&self, token: u64) -> bool {
        self.index_of(token).is_some()
    }

    fn index_of(&self, token: u64) -> Option<usize> {
        let index = usize::try_from(LISTENER_TOKEN.checked_sub(token)?).ok()?;
        (index < self.listeners.len()).then_some(index)
    }

    /// Accepts what waits at the listener of `token`. Each connection that is returned has been
    /// counted into the registry.
    pub fn on_ready(
        &mut self,
        token: u64,
        poller: &Poller,
        shared: &ServerState,
        settings: &Settings,
    ) -> Vec<Pending> {
        let mut admitted = Vec::new();
        let Some(index) = self.index_of(token) else { return admitted };
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            let listener = &self.listeners[index];
            match listener.accept() {
                Ok(None) => break,
                Ok(Some(accepted)) => {
                    if admit(&accepted, listener.speaks_memcached(), shared, settings) {
                        admitted.push(listener.pending(accepted));
                    }
                }
                Err(error) if is_exhaustion(&error) => {
                    tracing::warn!(%error, "Accepting client connection failed");
                    self.turn_one_away(index, poller, shared);
                    break;
                }
                // It was stopped, and will be exchanged.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
                // The connection broke while it waited: the next one is none the worse.
                Err(error) => tracing::debug!(%error, "Accepting client connection failed"),
            }
        }
        admitted
    }

    /// Closes one waiting connection with the help of the reserve; without success, pauses.
    fn turn_one_away(&mut self, index: usize, poller: &Poller, shared: &ServerState) {
        self.reserve = None;
        let turned_away = self.listeners[index].accept().is_ok();
        self.reserve = reserve().ok();
        if turned_away && self.reserve.is_some() {
            return;
        }
        self.unwatch(poller);
        self.is_paused = true;
        shared.pending_checks.fetch_add(1, Ordering::Relaxed);
        shared.service_waker.wake();
    }

    /// Goes on after a pause, if there was one.
    pub fn resume(&mut self, poller: &Poller, shared: &ServerState) {
        if !self.is_paused {
            return;
        }
        self.reserve = self.reserve.take().or_else(|| reserve().ok());
        if self.reserve.is_some() && self.watch(poller).is_ok() {
            shared.pending_checks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Lets a connection in, or tells it why not.
fn admit(
    accepted: &Accepted,
    speaks_memcached: bool,
    shared: &ServerState,
    settings: &Settings,
) -> bool {
    let is_stranger = accepted.from.is_some_and(|address| !is_loopback(address.ip()));
    let (access, memcached) = (&settings.access, &settings.memcached);
    let has_password =
        !access.password.is_empty() || speaks_memcached && memcached.auth_file.is_some();
    let refusal = if access.protected_mode && !has_password && is_stranger {
        if speaks_memcached { PROTECTED_MEMCACHED } else { PROTECTED }
    } else if !shared.clients.enter(settings.network.max_clients as usize) {
        if speaks_memcached { TOO_MANY_CONNECTIONS } else { TOO_MANY_CLIENTS }
    } else {
        return true;
    };
    shared.counters[0].rejected.add(1);
    // A peer that cannot take the reason is refused without it.
    let _ = accepted.stream.send(refusal);
    false
}

/// Returns whether `address` is this host's own, IPv4 within IPv6 included.
pub fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            let inner = address.to_ipv4_mapped();
            address.is_loopback() || inner.is_some_and(|inner| inner.is_loopback())
        }
    }
}

fn reserve() -> io::Result<File> {
    File::open("/dev/null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, read_text};
    use crate::descriptor_closer::DescriptorCloser;
    use crate::listen;
    use sys::socket::Closer;

    #[test]
    fn watching_that_failed_halfway_can_be_tried_again() {
        let mut config = Config::default();
        config.load(read_text(b"port 0\nbind 127.0.0.1", None, 1)).unwrap();
        let mut settings = config.settings();
        let folder = std::env::temp_dir();
        let socket = folder.join(format!("forebay-accept-{}", std::process::id()));
        settings.network.unix_socket = Some(socket);
        let closer: Arc<dyn Closer> = Arc::new(DescriptorCloser::default());
        let mut listeners = listen::open(&settings, &closer).unwrap();
        // A set has nothing twice.
        listeners.push(Arc::clone(&listeners[0]));
        let mut acceptor = Acceptor::new(listeners).unwrap();
        let poller = Poller::new().unwrap();
        assert!(acceptor.watch(&poller).is_err());
        acceptor.listeners.truncate(1);
        acceptor.watch(&poller).unwrap();
    }

    #[test]
    fn loopback_is_told_in_every_form() {
        for (text, expected) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_loopback(text.parse().unwrap()), expected, "{text}");
        }
    }
}
