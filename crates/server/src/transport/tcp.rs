//! TCP.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use keyspace::ReservedBlock;
use resp::Output;
use sys::descriptors::SharedDescriptor;
use sys::error_text::base_text;
use sys::socket::{Closer, Listener, Stream};

use super::{Endpoint, OpenContext, Pending, Sent, Transport, TransportEnd, socket};
use crate::accept::is_loopback;
use crate::config::Settings;
use crate::config::options::Network;
use crate::listen::{Accepted, Listens, OptionRefusal};
use crate::registry::ClientOrigin;
use crate::statistics::WorkerCounters;

/// A TCP connection.
pub struct Tcp {
    stream: Stream,
}

impl Transport for Tcp {
    type Pending = Accepted;

    const LISTENS: Option<Listens> =
        Some(Listens { name: "tcp", change, open, pending: Pending::Tcp });
    const RECEIVES_HEAD_FIRST: bool = true;

    fn open(pending: Accepted, context: &OpenContext<'_>) -> Option<(Tcp, Endpoint)> {
        let Accepted { stream, from, listener } = pending;
        let id = context.shared.clients.next_id();
        if let Err(error) = tune(&stream, context.settings) {
            tracing::debug!(id, %error, "Connection ended as it began");
            context.shared.clients.leave();
            return None;
        }
        let is_near = from.is_some_and(|from| is_loopback(from.ip()));
        let local_address = match stream.local_address() {
            Ok(Some(address)) => address.to_string(),
            _ => listener.to_string(),
        };
        let endpoint = Endpoint {
            id,
            parent: None,
            origin: if is_near { ClientOrigin::Local } else { ClientOrigin::Remote },
            is_unix: false,
            address: from.map_or_else(String::new, |from| from.to_string()),
            local_address,
        };
        Some((Tcp { stream }, endpoint))
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8], _: &WorkerCounters) -> Result<usize, TransportEnd> {
        socket::receive(&self.stream, buffer)
    }

    #[inline]
    fn receive_appending(
        &mut self,
        buffer: &mut Vec<u8>,
        _: &WorkerCounters,
    ) -> Result<usize, TransportEnd> {
        socket::receive_appending(&self.stream, buffer)
    }

    fn receive_value(
        &mut self,
        block: &mut ReservedBlock,
        behind: &mut [u8],
        _: &WorkerCounters,
    ) -> Result<Range<usize>, TransportEnd> {
        socket::receive_value(&self.stream, block, behind)
    }

    #[inline]
    fn send(
        &mut self,
        output: &mut Output,
        descriptors: &[SharedDescriptor],
        _: &WorkerCounters,
    ) -> Result<Sent, TransportEnd> {
        debug_assert!(descriptors.is_empty(), "TCP passes no descriptors");
        socket::send(&self.stream, output, descriptors)
    }
}

impl AsFd for Tcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

pub(super) fn tune(stream: &Stream, settings: &Settings) -> io::Result<()> {
    stream.set_no_delay()?;
    match settings.network.tcp_keepalive {
        Some(idle) => stream.set_keep_alive(idle),
        None => Ok(()),
    }
}

/// Says what has changed of `port` and `bind`.
fn change(before: &Settings, after: &Settings) -> Option<OptionRefusal> {
    let (before, after) = (&before.network, &after.network);
    if after.bind != before.bind {
        return Some((Network::bind(), "Failed to bind to specified addresses."));
    }
    let refusal = (Network::port(), "Unable to listen on this port. Check server logs.");
    (after.port != before.port).then_some(refusal)
}

/// Opens the listeners of `port` and `bind`, none if the port is 0.
fn open(settings: &Settings, _: &Arc<dyn Closer>) -> Result<Vec<(Listener, String)>, String> {
    open_port(settings.network.port, settings)
}

/// Opens the listeners of `port` on the addresses of `bind`, none if the port is 0.
pub(super) fn open_port(port: u16, settings: &Settings) -> Result<Vec<(Listener, String)>, String> {
    let addresses = if port == 0 { &[][..] } else { &settings.network.bind };
    let opened = addresses.iter().map(|text| open_address(text, port, settings));
    // An address that may be absent, and is, is left out.
    opened.filter_map(Result::transpose).map(|opened| opened.and_then(with_name)).collect()
}

fn with_name(listener: Listener) -> Result<(Listener, String), String> {
    let address = listener.local_address().map_err(|error| base_text(&error))?;
    Ok((listener, address.map_or_else(String::new, |address| address.to_string())))
}

/// Opens one address of `bind`; none when it may be absent and is.
fn open_address(text: &str, port: u16, settings: &Settings) -> Result<Option<Listener>, String> {
    let (name, may_be_absent) = match text.strip_prefix('-') {
        Some(name) => (name, true),
        None => (text, false),
    };
    let opened = address(name, port)
        .and_then(|address| Listener::tcp(address, settings.network.tcp_backlog));
    match opened {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if may_be_absent && is_absent(&error) => Ok(None),
        Err(error) => {
            let reason = base_text(&error);
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
    use crate::config::{Config, read_text};

    #[test]
    fn an_absent_address_is_fatal_unless_marked() {
        let mut config = Config::default();
        config.load(read_text(b"port 0\nbind -192.0.2.1", None, 1)).unwrap();
        // 192.0.2.0/24 is set aside for documentation: no host has it.
        let marked = config.settings();
        assert!(open_address("-192.0.2.1", 0, &marked).unwrap().is_none());
        assert!(
            open_address("192.0.2.1", 0, &marked).unwrap_err().contains("Failed listening on port")
        );
    }
}
