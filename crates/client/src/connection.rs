//! One connection of a client, for one thread at a time: a lane, or a socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resp::{Value as Reply, encode_command};

use crate::address::Address;
use crate::error::{AttachError, ClientError};
use crate::lane::Lane;
use crate::replies::Replies;
use crate::session::Session;

/// Requests that are sent before their replies are read. So much passes into a socket whose peer
/// does not read, and neither side waits for the other for ever.
const SENT_BYTES_MAX: usize = 64 * 1024;
/// What one read takes.
const READ_BYTES: usize = 64 * 1024;

/// A connection that has authenticated and selected its database.
pub struct Connection {
    wire: Wire,
    /// What its lane lives with.
    session: Option<Arc<Session>>,
    /// A call has failed before its reply was there whole: what comes next would be taken for the
    /// reply of another.
    is_broken: bool,
}

enum Wire {
    Lane(Box<Lane>),
    Socket(Box<Socket>),
}

impl Connection {
    /// Connects through shared memory.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the server makes no lane or has no such database.
    pub fn lane(
        session: &Arc<Session>,
        address: &Address,
        timeout: Option<Duration>,
    ) -> Result<Connection, ClientError> {
        let mut lane = Box::new(session.new_lane()?);
        lane.set_timeout(timeout);
        let session = Some(Arc::clone(session));
        let mut opened = Connection { wire: Wire::Lane(lane), session, is_broken: false };
        opened.select(address)?;
        Ok(opened)
    }

    /// Connects to the unix socket at `path`.
    ///
    /// # Errors
    /// When the server does not answer, or refuses password or database.
    pub fn unix(
        path: &Path,
        address: &Address,
        timeout: Option<Duration>,
    ) -> Result<Connection, ClientError> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        Connection::over(Stream::Unix(stream), address)
    }

    /// Connects to `host` and `port`.
    ///
    /// # Errors
    /// As [`Connection::unix`].
    pub fn tcp(
        host: &str,
        port: u16,
        address: &Address,
        timeout: Option<Duration>,
    ) -> Result<Connection, ClientError> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        Connection::over(Stream::Tcp(stream), address)
    }

    fn over(stream: Stream, address: &Address) -> Result<Connection, ClientError> {
        let replies = Replies::default();
        let socket = Box::new(Socket { stream, replies, encoded: Vec::new() });
        let wire = Wire::Socket(socket);
        let mut opened = Connection { wire, session: None, is_broken: false };
        if let Some(words) = greeting(address) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            accepted(opened.call(&words)?)?;
        }
        opened.select(address)?;
        Ok(opened)
    }

    fn select(&mut self, address: &Address) -> Result<(), ClientError> {
        if address.database.0 > 0 {
            let number = address.database.0.to_string();
            accepted(self.call(&[b"SELECT", number.as_bytes()])?)?;
        }
        Ok(())
    }

    /// Returns whether its bytes pass through shared memory.
    pub fn is_lane(&self) -> bool {
        matches!(self.wire, Wire::Lane(_))
    }

    /// Returns whether it is known to have ended.
    pub fn is_over(&self) -> bool {
        self.is_broken || self.session.as_ref().is_some_and(|session| session.is_over())
    }

    /// Sends one request and returns its reply, which may be an error.
    pub fn call(&mut self, request: &[&[u8]]) -> Result<Reply, ClientError> {
        self.exchange(|wire| match wire {
            Wire::Lane(lane) => Ok(lane.call(request)?),
            Wire::Socket(socket) => {
                socket.send(&[request])?;
                socket.next_reply()
            }
        })
    }

    /// Sends `requests` and returns their replies in order.
    pub fn pipeline(&mut self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        self.exchange(|wire| match wire {
            Wire::Lane(lane) => Ok(lane.pipeline(requests)?),
            Wire::Socket(socket) => socket.pipeline(requests),
        })
    }

    fn exchange<T>(
        &mut self,
        run: impl FnOnce(&mut Wire) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.is_broken = true;
        let found = run(&mut self.wire)?;
        self.is_broken = false;
        Ok(found)
    }
}

/// Returns the request that says who asks, if anybody does.
pub fn greeting(address: &Address) -> Option<Vec<Vec<u8>>> {
    let password = address.password.clone()?;
    let mut words = vec![b"AUTH".to_vec()];
    words.extend(address.user.clone());
    words.push(password);
    Some(words)
}

/// Returns `reply`, or the error that it is.
pub fn accepted(reply: Reply) -> Result<Reply, ClientError> {
    match reply {
        Reply::Error(text) => Err(ClientError::Refused(String::from_utf8_lossy(&text).into())),
        reply => Ok(reply),
    }
}

struct Socket {
    stream: Stream,
    replies: Replies,
    /// The bytes of requests, kept to be used again.
    encoded: Vec<u8>,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn pipeline(&mut self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, ClientError> {
        let mut replies = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while !rest.is_empty() {
            let (sent, later) = rest.split_at(count_sent(rest));
            self.send(sent)?;
            for _ in sent {
                replies.push(self.next_reply()?);
            }
            rest = later;
        }
        Ok(replies)
    }

    fn send(&mut self, requests: &[&[&[u8]]]) -> io::Result<()> {
        self.encoded.clear();
        for request in requests {
            encode_command(request, &mut self.encoded);
        }
        match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(&self.encoded),
            Stream::Tcp(stream) => stream.write_all(&self.encoded),
        }
    }

    fn next_reply(&mut self) -> Result<Reply, ClientError> {
        loop {
            if let Some(reply) = self.replies.next()? {
                return Ok(reply);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let buffer = self.replies.buffer();
        let start = buffer.len();
        buffer.resize(start + READ_BYTES, 0);
        let received = loop {
            let room = &mut buffer[start..];
            let received = match &mut self.stream {
                Stream::Unix(stream) => stream.read(room),
                Stream::Tcp(stream) => stream.read(room),
            };
            match received {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received,
            }
        };
        buffer.truncate(start + *received.as_ref().unwrap_or(&0));
        match received? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Returns how many of `requests` are sent at once: at least one, and if more, few bytes.
fn count_sent(requests: &[&[&[u8]]]) -> usize {
    /// What the lengths of a request, and of each of its words, take at most.
    const FRAME_BYTES: usize = 24;
    let mut bytes = 0;
    let fits = requests.iter().take_while(|request| {
        bytes += FRAME_BYTES + request.iter().map(|word| word.len() + FRAME_BYTES).sum::<usize>();
        bytes <= SENT_BYTES_MAX
    });
    fits.count().max(1)
}

impl From<AttachError> for ClientError {
    fn from(error: AttachError) -> ClientError {
        match error {
            AttachError::Io(error) => error.into(),
            AttachError::Refused(text) => ClientError::Refused(text),
            AttachError::Unexpected(text) => ClientError::Unexpected(text),
            AttachError::Arena(error) => ClientError::Unexpected(error.to_string()),
            AttachError::WrongType => ClientError::wrong_type(),
        }
    }
}
