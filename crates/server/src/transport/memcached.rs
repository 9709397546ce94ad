//! Clients of memcached, by TCP or a unix socket: a stream like any other, whose peers speak
//! another protocol. No descriptors pass there, and no lane begins there.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use keyspace::ReservedBlock;
use resp::Output;
use sys::descriptors::SharedDescriptor;
use sys::socket::{Closer, Listener, Stream};

use super::{Endpoint, OpenContext, Pending, Sent, Transport, TransportEnd, socket, tcp, unix};
use crate::accept::is_loopback;
use crate::config::Settings;
use crate::config::options;
use crate::listen::{Accepted, Listens, OptionRefusal};
use crate::registry::ClientOrigin;
use crate::statistics::WorkerCounters;

/// A connection of a client of memcached.
pub struct Memcached {
    stream: Stream,
}

impl Transport for Memcached {
    type Pending = Accepted;

    const LISTENS: Option<Listens> =
        Some(Listens { name: "memcached", change, open, pending: Pending::Memcached });
    const SPEAKS_MEMCACHED: bool = true;

    fn open(pending: Accepted, context: &OpenContext<'_>) -> Option<(Memcached, Endpoint)> {
        let Accepted { stream, from, listener } = pending;
        let id = context.shared.clients.next_id();
        let Some(from) = from else {
            let address = format!("{listener}:0");
            let endpoint = Endpoint {
                id,
                parent: None,
                origin: stream.peer().map_or(ClientOrigin::Local, ClientOrigin::Process),
                is_unix: true,
                local_address: address.clone(),
                address,
            };
            return Some((Memcached { stream }, endpoint));
        };
        if let Err(error) = tcp::tune(&stream, context.settings) {
            tracing::debug!(id, %error, "Connection ended as it began");
            context.shared.clients.leave();
            return None;
        }
        let is_near = is_loopback(from.ip());
        let endpoint = Endpoint {
            id,
            parent: None,
            origin: if is_near { ClientOrigin::Local } else { ClientOrigin::Remote },
            is_unix: false,
            address: from.to_string(),
            local_address: listener.to_string(),
        };
        Some((Memcached { stream }, endpoint))
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
        debug_assert!(descriptors.is_empty(), "no descriptors pass here");
        socket::send(&self.stream, output, descriptors)
    }
}

impl AsFd for Memcached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Says what has changed of `memcached-port` and `bind`.
fn change(before: &Settings, after: &Settings) -> Option<OptionRefusal> {
    let (port, bind) = (after.memcached.port, &after.network.bind);
    if port != 0 && *bind != before.network.bind {
        return Some((options::Network::bind(), "Failed to bind to specified addresses."));
    }
    let refusal = (options::Memcached::port(), "Unable to listen on this port. Check server logs.");
    (port != before.memcached.port).then_some(refusal)
}

/// Opens the listeners of `memcached-port` and `memcached-socket`.
fn open(settings: &Settings, closer: &Arc<dyn Closer>) -> Result<Vec<(Listener, String)>, String> {
    let (database, count) = (settings.memcached.database, settings.access.database_count);
    let is_used = settings.memcached.port != 0 || settings.memcached.socket.is_some();
    if is_used && database >= count {
        return Err(format!("memcached-database is {database}, and there are {count} databases."));
    }
    let mut listeners = tcp::open_port(settings.memcached.port, settings)?;
    listeners.extend(unix::open_path(settings.memcached.socket.as_ref(), settings, closer)?);
    Ok(listeners)
}
