//! A blocking RESP client that keeps every byte of a reply together with its meaning.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use client::{Lane, LaneShape};
use resp::{Value, ValueDecoder, encode_command};

/// Silence after which a server counts as hung. It bounds a hang and is no statement about speed.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);
/// What one read takes: little for a line, much for a large value.
const READ_BYTES_MIN: usize = 16 * 1024;
const READ_BYTES_MAX: usize = 1024 * 1024;

/// A command with its arguments.
pub type Request = Vec<Vec<u8>>;

/// Returns a request of `words`.
pub fn request<W: AsRef<[u8]>>(words: &[W]) -> Request {
    words.iter().map(|word| word.as_ref().to_vec()).collect()
}

/// Returns the request that `line` spells, its words divided by spaces.
pub fn words(line: &str) -> Request {
    line.split_ascii_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

/// A reply as it came. Equal bytes are equal replies in every respect, also where two encodings
/// mean the same, as `$-1` and `_` do.
#[derive(Clone, PartialEq)]
pub struct Raw {
    pub bytes: Vec<u8>,
    /// What they mean.
    pub value: Value,
}

impl Raw {
    /// Returns the text of an error reply.
    pub fn error(&self) -> Option<&[u8]> {
        if let Value::Error(text) = &self.value { Some(text) } else { None }
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_BYTES_MAX: usize = 600;
        let shown = &self.bytes[..self.bytes.len().min(SHOWN_BYTES_MAX)];
        write!(f, "{}", shown.escape_ascii())?;
        if shown.len() < self.bytes.len() {
            write!(f, " ... ({} bytes)", self.bytes.len())?;
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Lane(Box<Lane>),
}

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    decoder: ValueDecoder,
    input: Vec<u8>,
    /// Bytes of `input` that are decoded.
    decoded: usize,
    /// Bytes of the current reply that are decoded.
    reply: Vec<u8>,
}

impl Connection {
    /// Connects over TCP.
    ///
    /// # Errors
    /// When the server does not take the connection.
    pub fn tcp(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Connection::over(Stream::Tcp(stream)))
    }

    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// When the server does not take the connection.
    pub fn unix(path: &Path) -> io::Result<Connection> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Connection::over(Stream::Unix(stream)))
    }

    /// Makes a lane on a connection to the socket at `path`, with rings of `ring_bytes`.
    ///
    /// # Errors
    /// When the server does not take the connection or refuses the lane.
    pub fn lane(path: &Path, ring_bytes: u64) -> io::Result<Connection> {
        Ok(Connection::over(Stream::Lane(Box::new(bare_lane(path, ring_bytes)?))))
    }

    fn over(stream: Stream) -> Connection {
        let decoder = ValueDecoder::default();
        Connection { stream, decoder, input: Vec::new(), decoded: 0, reply: Vec::new() }
    }

    /// Sends the words of `line` as one request and returns what the reply means.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn call(&mut self, line: &str) -> Value {
        self.ask(&words(line)).value
    }

    /// Sends one request and returns its reply.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn ask(&mut self, request: &Request) -> Raw {
        self.pipeline(std::slice::from_ref(request)).pop().expect("one request has one reply")
    }

    /// Sends `requests` in one write and returns their replies in order.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn pipeline(&mut self, requests: &[Request]) -> Vec<Raw> {
        self.send(&encode(requests)).expect("the server takes requests");
        requests.iter().map(|_| self.read().expect("the server answers")).collect()
    }

    /// Returns what INFO says of `sections`.
    ///
    /// # Panics
    /// When the connection breaks.
    pub fn info_text(&mut self, sections: &str) -> String {
        let reply = self.call(&format!("INFO {sections}"));
        String::from_utf8_lossy(reply.as_bytes().expect("INFO is a text")).into_owned()
    }

    /// Returns the field `name` of INFO, a number.
    ///
    /// # Panics
    /// When there is none.
    pub fn info(&mut self, name: &str) -> u64 {
        info_field(&self.info_text("everything"), name)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Lane(lane) => lane.send(bytes),
        }
    }

    /// Says that nothing more will be sent.
    pub fn end_requests(&self) {
        // It fails when the server has closed already, which ends the requests as well.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            // A lane has no end of requests, only an end.
            Stream::Lane(_) => Ok(()),
        };
    }

    /// Returns the next reply.
    ///
    /// # Errors
    /// `UnexpectedEof` when the server closed, `InvalidData` when it sent what is not RESP.
    pub fn read(&mut self) -> io::Result<Raw> {
        loop {
            let decoded = self.decoder.decode(&self.input[self.decoded..]);
            let (consumed, value) =
                decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let consumed_end = self.decoded + consumed;
            self.reply.extend_from_slice(&self.input[self.decoded..consumed_end]);
            self.decoded = consumed_end;
            if let Some(value) = value {
                return Ok(Raw { bytes: std::mem::take(&mut self.reply), value });
            }
            self.input.drain(..self.decoded);
            self.decoded = 0;
            if self.receive()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Returns the next reply, or nothing where none comes within `time`. A lane waits for longer.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn read_within(&mut self, time: Duration) -> io::Result<Option<Raw>> {
        self.set_read_timeout(time)?;
        let read = self.read();
        self.set_read_timeout(SILENCE_MAX)?;
        match read {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(time)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(time)),
            Stream::Lane(_) => Ok(()),
        }
    }

    /// Returns all bytes that come until the server closes.
    ///
    /// # Errors
    /// When the connection breaks otherwise than by a close.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.receive() {
                Ok(0) => break,
                Ok(_) => {}
                // A server that closes with requests unread resets the connection.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.input.split_off(self.decoded))
    }

    fn receive(&mut self) -> io::Result<usize> {
        if let Stream::Lane(lane) = &mut self.stream {
            return lane.receive(&mut self.input);
        }
        let before = self.input.len();
        let wanted = self.decoder.wanted().saturating_sub(before - self.decoded);
        self.input.resize(before + wanted.clamp(READ_BYTES_MIN, READ_BYTES_MAX), 0);
        let room = &mut self.input[before..];
        let mut receive = || match &mut self.stream {
            Stream::Tcp(stream) => stream.read(room),
            Stream::Unix(stream) => stream.read(room),
            Stream::Lane(_) => unreachable!("a lane has received above"),
        };
        // A process that is stopped and goes on is told so where it reads with a limit.
        let received = loop {
            match receive() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => break received,
            }
        };
        self.input.truncate(before + *received.as_ref().unwrap_or(&0));
        received
    }
}

/// Makes a lane on a connection to the socket at `path`, with rings of `ring_bytes`.
///
/// # Errors
/// As [`Connection::lane`].
pub fn bare_lane(path: &Path, ring_bytes: u64) -> io::Result<Lane> {
    let shape = LaneShape::new(ring_bytes, ring_bytes).ok_or(io::ErrorKind::InvalidInput)?;
    let lane = Lane::connect(path, None, shape);
    let mut lane = lane.map_err(|error| io::Error::other(error.to_string()))?;
    lane.set_timeout(Some(SILENCE_MAX));
    Ok(lane)
}

/// Returns the field `name` of a `text` of INFO, a number.
///
/// # Panics
/// When there is none.
pub fn info_field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.unwrap_or_else(|| panic!("INFO has no {name}:\n{text}"));
    value.parse().expect("the field is a number")
}

/// Returns the bytes of `requests`.
pub fn encode(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        encode_command(&arguments, &mut bytes);
    }
    bytes
}
