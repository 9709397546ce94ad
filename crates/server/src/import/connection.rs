//! A connection to a server that takes many requests before it has replied to the first.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use resp::{Value, ValueDecoder, ValueLimits, encode_command};

/// Requests that are underway at most, and their bytes.
const REQUESTS_MAX: usize = 512;
const BYTES_MAX: usize = 1 << 20;

/// A connection.
pub struct Connection {
    stream: Stream,
    out: Vec<u8>,
    input: Vec<u8>,
    decoder: ValueDecoder,
    /// The name of each request that has no reply yet.
    awaited: VecDeque<String>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects to `address`, and shows `password`.
    ///
    /// # Errors
    /// A line for the user.
    pub fn open(address: &str, password: Option<&str>) -> Result<Connection, String> {
        let stream = match address.contains('/') {
            true => UnixStream::connect(address).map(Stream::Unix),
            false => TcpStream::connect(address).map(Stream::Tcp),
        };
        let stream = stream.map_err(|error| format!("{address}: {error}"))?;
        let (out, input, awaited) = (Vec::new(), Vec::new(), VecDeque::new());
        let decoder = ValueDecoder::new(ValueLimits::default());
        let mut connection = Connection { stream, out, input, decoder, awaited };
        if let Some(password) = password {
            connection.send(&[b"AUTH", password.as_bytes()])?;
            connection.settle()?;
        }
        Ok(connection)
    }

    /// Sends a request, now or with the next ones.
    ///
    /// # Errors
    /// When the server has refused one of those before, or is gone.
    pub fn send(&mut self, words: &[&[u8]]) -> Result<(), String> {
        encode_command(words, &mut self.out);
        let second = words.get(1).copied().unwrap_or_default();
        let shown = &second[..second.len().min(100)];
        let name = format!("{} {}", words[0].escape_ascii(), shown.escape_ascii());
        self.awaited.push_back(name);
        match self.awaited.len() < REQUESTS_MAX && self.out.len() < BYTES_MAX {
            true => Ok(()),
            false => self.settle(),
        }
    }

    /// Waits for all replies.
    ///
    /// # Errors
    /// As of [`Connection::send`].
    pub fn settle(&mut self) -> Result<(), String> {
        let lost = |error: io::Error| format!("the server is gone: {error}");
        self.stream.write_all(&self.out).map_err(lost)?;
        self.out.clear();
        let mut chunk = [0; 16 << 10];
        while !self.awaited.is_empty() {
            let count = self.stream.read(&mut chunk).map_err(lost)?;
            if count == 0 {
                return Err("the server has closed the connection".to_owned());
            }
            self.input.extend_from_slice(&chunk[..count]);
            self.take_replies()?;
        }
        Ok(())
    }

    fn take_replies(&mut self) -> Result<(), String> {
        let mut taken = 0;
        loop {
            let decoded = self.decoder.decode(&self.input[taken..]);
            let (count, value) = decoded.map_err(|error| format!("no reply: {error}"))?;
            taken += count;
            let Some(value) = value else { break };
            let name = self.awaited.pop_front().ok_or("a reply that nobody awaits")?;
            refuse_errors(&value).map_err(|error| format!("{name}: {error}"))?;
        }
        self.input.drain(..taken);
        Ok(())
    }
}

/// Refuses an error, within the replies of a transaction too.
///
/// # Errors
/// What it says.
pub fn refuse_errors(value: &Value) -> Result<(), String> {
    match value {
        Value::Error(text) => Err(text.escape_ascii().to_string()),
        Value::Array(parts) => parts.iter().try_for_each(refuse_errors),
        _ => Ok(()),
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
        }
    }
}
