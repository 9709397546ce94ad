//! Unix sockets: the kernel tells who is at the other end, and passes descriptors there.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use keyspace::ReservedBlock;
use resp::Output;
use sys::descriptors::SharedDescriptor;
use sys::error_text::base_text;
use sys::socket::{Closer, Listener, Stream};

use super::{Endpoint, OpenContext, Pending, Sent, Transport, TransportEnd, socket};
use crate::config::Settings;
use crate::listen::{Accepted, Listens};
use crate::registry::ClientOrigin;
use crate::statistics::WorkerCounters;

/// A connection by a unix socket.
pub struct Unix {
    /// Shared, as it may have to outlast the connection: see `descriptors_in_flight.rs`.
    stream: Arc<Stream>,
}

impl Transport for Unix {
    type Pending = Accepted;

    /// Its options are set at start only.
    const LISTENS: Option<Listens> =
        Some(Listens { name: "unix", change: |_, _| None, open, pending: Pending::Unix });
    const RECEIVES_HEAD_FIRST: bool = true;

    fn open(pending: Accepted, context: &OpenContext<'_>) -> Option<(Unix, Endpoint)> {
        let Accepted { stream, listener, .. } = pending;
        let address = format!("{listener}:0");
        let endpoint = Endpoint {
            id: context.shared.clients.next_id(),
            parent: None,
            // A peer that the kernel does not tell about has no right that follows from who it is.
            origin: stream.peer().map_or(ClientOrigin::Local, ClientOrigin::Process),
            is_unix: true,
            local_address: address.clone(),
            address,
        };
        Some((Unix { stream: Arc::new(stream) }, endpoint))
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
        socket::send(&self.stream, output, descriptors)
    }

    fn descriptor_stream(&self) -> Option<&Arc<Stream>> {
        Some(&self.stream)
    }
}

impl AsFd for Unix {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The mode of the socket's file where the option names none.
const MODE: u32 = 0o600;

/// Opens the listener of `unixsocket`, if there is one. What it accepts is closed by `closer` where
/// a close may take long.
fn open(settings: &Settings, closer: &Arc<dyn Closer>) -> Result<Vec<(Listener, String)>, String> {
    open_path(settings.network.unix_socket.as_ref(), settings, closer)
}

/// Opens the listener at `path`, if there is one.
pub(super) fn open_path(
    path: Option<&PathBuf>,
    settings: &Settings,
    closer: &Arc<dyn Closer>,
) -> Result<Vec<(Listener, String)>, String> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let name = path.display().to_string();
    let mode = match settings.network.unix_socket_mode {
        0 => MODE,
        mode => mode,
    };
    let listener = Listener::unix(path, mode, settings.network.tcp_backlog);
    let listener = listener.map_err(|error| {
        format!("Failed opening Unix socket: bind: {name}: {}", base_text(&error))
    });
    Ok(vec![(listener?.with_closer(Arc::clone(closer)), name)])
}
