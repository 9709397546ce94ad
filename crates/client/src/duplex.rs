//! The transport of a connection of the asynchronous client, woken by tokio.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::{TcpStream, UnixStream};

use crate::connection::KEEP_ALIVE;
use crate::lane_connection::Lane;
use crate::multiplex::{Duplex, Moved};
use crate::shm_session::ShmSession;

/// What one read takes from a socket.
const READ_BYTES: usize = 64 * 1024;
/// Rings that are taken from a doorbell at once: a sleep is ended by one.
const RINGS_MAX: usize = 64;

/// A socket or a lane.
pub enum Wire {
    Unix(UnixStream, Box<[u8]>),
    Tcp(TcpStream, Box<[u8]>),
    Lane(Box<LaneWire>),
}

/// A lane, and what it is woken by.
pub struct LaneWire {
    lane: Lane,
    /// The client's doorbell, as the runtime waits for it.
    doorbell: UnixStream,
    buffer: Box<[u8]>,
    /// The server has gone without a word.
    is_gone: bool,
    /// What the lane lives with.
    session: Arc<ShmSession>,
}

impl Wire {
    /// Returns a unix socket.
    pub fn unix(stream: UnixStream) -> Wire {
        Wire::Unix(stream, vec![0; READ_BYTES].into())
    }

    /// Returns a TCP connection.
    ///
    /// # Errors
    /// When it has ended.
    pub fn tcp(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        sys::socket::set_keep_alive(&stream, KEEP_ALIVE)?;
        Ok(Wire::Tcp(stream, vec![0; READ_BYTES].into()))
    }

    /// Returns `lane`, which lives with `session`.
    ///
    /// # Errors
    /// When the runtime cannot wait for its socket.
    pub fn lane(lane: Lane, session: Arc<ShmSession>) -> io::Result<Wire> {
        let doorbell = std::os::unix::net::UnixStream::from(lane.as_fd().try_clone_to_owned()?);
        doorbell.set_nonblocking(true)?;
        let doorbell = UnixStream::from_std(doorbell)?;
        let buffer = vec![0; READ_BYTES].into();
        let lane = LaneWire { lane, doorbell, buffer, is_gone: false, session };
        Ok(Wire::Lane(Box::new(lane)))
    }

    /// Returns the session that the lane lives with, if it is one.
    pub fn session(&self) -> Option<&Arc<ShmSession>> {
        match self {
            Wire::Lane(lane) => Some(&lane.session),
            Wire::Unix(..) | Wire::Tcp(..) => None,
        }
    }
}

impl Duplex for Wire {
    fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        out: &[u8],
        received: &mut Vec<u8>,
    ) -> Poll<io::Result<Moved>> {
        match self {
            Wire::Lane(lane) => lane.poll_exchange(context, out, received),
            Wire::Unix(stream, buffer) => poll_socket(stream, buffer, context, out, received),
            Wire::Tcp(stream, buffer) => poll_socket(stream, buffer, context, out, received),
        }
    }
}

/// What both kinds of socket do.
trait Socket {
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize>;
    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn poll_sendable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn poll_receivable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// What tokio says of both in the same words, and not by a trait.
macro_rules! socket {
    ($stream:ty) => {
        impl Socket for $stream {
            fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
                self.try_write(bytes)
            }

            fn try_receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.try_read(buffer)
            }

            fn poll_sendable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_write_ready(context)
            }

            fn poll_receivable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_read_ready(context)
            }
        }
    };
}

socket!(UnixStream);
socket!(TcpStream);

fn poll_socket(
    socket: &impl Socket,
    buffer: &mut [u8],
    context: &mut Context<'_>,
    out: &[u8],
    received: &mut Vec<u8>,
) -> Poll<io::Result<Moved>> {
    loop {
        let sent = match out {
            [] => 0,
            out => now(socket.try_send(out))?.unwrap_or(0),
        };
        let count = now(socket.try_receive(buffer))?;
        if count == Some(0) {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        let moved = Moved { sent, received: count.unwrap_or(0) };
        if moved != Moved::default() {
            received.extend_from_slice(&buffer[..moved.received]);
            return Poll::Ready(Ok(moved));
        }
        let can_send = !out.is_empty() && socket.poll_sendable(context)?.is_ready();
        if socket.poll_receivable(context)?.is_pending() && !can_send {
            return Poll::Pending;
        }
    }
}

/// Returns what could be done now; `None` where it would have to be waited for.
fn now(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl LaneWire {
    fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        out: &[u8],
        received: &mut Vec<u8>,
    ) -> Poll<io::Result<Moved>> {
        loop {
            let moved = self.exchange(out, received)?;
            if moved != Moved::default() {
                return Poll::Ready(Ok(moved));
            }
            if self.is_gone {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
            if self.lane.arm_doorbell(!out.is_empty())? {
                ready!(self.poll_doorbell(context))?;
            }
        }
    }

    fn exchange(&mut self, out: &[u8], received: &mut Vec<u8>) -> io::Result<Moved> {
        let count = self.lane.try_receive(&mut self.buffer)?;
        received.extend_from_slice(&self.buffer[..count]);
        match out {
            // What has come is told before that the lane has ended.
            [] => Ok(Moved { sent: 0, received: count }),
            _ if count > 0 => {
                Ok(Moved { sent: self.lane.try_send(out).unwrap_or(0), received: count })
            }
            out => Ok(Moved { sent: self.lane.try_send(out)?, received: 0 }),
        }
    }

    /// Takes the rings from the doorbell, where it has rung.
    fn poll_doorbell(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.doorbell.poll_read_ready(context))?;
        let mut rings = [0; RINGS_MAX];
        loop {
            match now(self.doorbell.try_read(&mut rings))? {
                Some(0) => {
                    self.is_gone = true;
                    return Poll::Ready(Ok(()));
                }
                Some(_) => {}
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}
