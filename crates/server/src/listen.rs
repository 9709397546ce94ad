//! Opens the listeners that the configuration asks for.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use sys::socket::{Closer, Listener};

use crate::config::{Settings, base_text};

/// The mode of the unix socket's file where the option names none.
const UNIX_SOCKET_MODE: u32 = 0o600;

/// Opens all listeners of `settings`; a failure closes those already open. What the unix listener
/// accepts is closed by `closer` where a close may take long.
///
/// # Errors
/// A sentence for the log that says which address failed and why.
pub fn open(settings: &Settings, closer: &Arc<dyn Closer>) -> Result<Vec<Arc<Listener>>, String> {
    let mut listeners = open_tcp(settings)?;
    if let Some(path) = &settings.network.unix_socket {
        let mode = match settings.network.unix_socket_mode {
            0 => UNIX_SOCKET_MODE,
            mode => mode,
        };
        let listener = Listener::unix(path, mode, settings.network.tcp_backlog);
        let listener = listener.map_err(|error| {
            format!("Failed opening Unix socket: bind: {}: {}", path.display(), base_text(&error))
        });
        listeners.push(Arc::new(listener?.with_closer(Arc::clone(closer))));
    }
    if listeners.is_empty() {
        return Err("Configured to not listen anywhere, exiting.".to_owned());
    }
    Ok(listeners)
}

/// Opens the TCP listeners of `settings`, none if their port is 0.
///
/// # Errors
/// A sentence for the log; those already open are closed.
pub fn open_tcp(settings: &Settings) -> Result<Vec<Arc<Listener>>, String> {
    let addresses = if settings.network.port == 0 { &[][..] } else { &settings.network.bind };
    let opened = addresses.iter().map(|text| open_address(text, settings));
    // An address that may be absent, and is, is left out.
    opened.filter_map(Result::transpose).map(|opened| opened.map(Arc::new)).collect()
}

/// Returns which kinds of listeners there are, for the log.
pub fn kinds(listeners: &[Arc<Listener>]) -> Vec<&'static str> {
    let is_unix = |listener: &Arc<Listener>| listener.path().is_some();
    let has_tcp = listeners.iter().any(|listener| !is_unix(listener));
    let has_unix = listeners.iter().any(is_unix);
    [has_tcp.then_some("tcp"), has_unix.then_some("unix")].into_iter().flatten().collect()
}

/// Opens one address of `bind`; none when it may be absent and is.
fn open_address(text: &str, settings: &Settings) -> Result<Option<Listener>, String> {
    let (name, may_be_absent) = match text.strip_prefix('-') {
        Some(name) => (name, true),
        None => (text, false),
    };
    let opened = address(name, settings.network.port)
        .and_then(|address| Listener::tcp(address, settings.network.tcp_backlog));
    match opened {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if may_be_absent && is_absent(&error) => Ok(None),
        Err(error) => {
            let (port, reason) = (settings.network.port, base_text(&error));
            // Redis's words, as tools look for them.
            tracing::warn!(
                "Warning: Could not create server TCP listening socket {name}:{port}: bind: \
                 {reason}"
            );
            Err(format!("Failed listening on port {port} (tcp), aborting."))
        }
    }
}

fn address(name: &str, port: u16) -> io::Result<SocketAddr> {
    let host = match name {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name,
    };
    (host, port).to_socket_addrs()?.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// The host has no such address or does not speak its protocol (EAFNOSUPPORT and its kin).
fn is_absent(error: &io::Error) -> bool {
    const PROTOCOL_ERRORS: [i32; 4] = [92, 93, 94, 97];
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error().is_some_and(|code| PROTOCOL_ERRORS.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closings::Closings;
    use crate::config::{Config, read_text};

    fn settings(text: &str) -> Settings {
        let mut config = Config::default();
        config.load(read_text(text.as_bytes(), None, 1)).unwrap();
        config.settings()
    }

    #[test]
    fn an_absent_address_is_fatal_unless_marked() {
        // 192.0.2.0/24 is set aside for documentation: no host has it.
        let marked = settings("port 0\nbind -192.0.2.1");
        assert!(open_address("-192.0.2.1", &marked).unwrap().is_none());
        assert!(
            open_address("192.0.2.1", &marked).unwrap_err().contains("Failed listening on port")
        );
    }

    #[test]
    fn nothing_to_listen_on_is_refused() {
        let closer: Arc<dyn Closer> = Arc::new(Closings::default());
        assert!(open(&settings("port 0"), &closer).unwrap_err().contains("not listen anywhere"));
    }
}
