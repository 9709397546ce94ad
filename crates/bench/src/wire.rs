//! A blocking connection that sends requests and awaits whole replies, for everything that is not
//! timed.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use resp::{Value, ValueDecoder, encode_command};

use crate::target::{Stream, Target};

/// A reply that stays away longer ends the call with an error.
const REPLY_WAIT_MAX: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 64 * 1024;

/// A connection.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    out: Vec<u8>,
    /// Room for what arrives; only its bytes `decoded..filled` mean anything.
    received: Vec<u8>,
    decoded: usize,
    filled: usize,
    decoder: ValueDecoder,
}

impl Wire {
    /// Connects to `target`; its database is not selected.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(target: &Target) -> anyhow::Result<Wire> {
        Wire::connect_as(target, None)
    }

    /// Connects to `target` and authenticates, if there is a `password`.
    ///
    /// # Errors
    /// When nobody listens there, or the password is refused.
    pub fn connect_as(target: &Target, password: Option<&str>) -> anyhow::Result<Wire> {
        let stream = target.connect(password);
        let mut stream = stream.with_context(|| format!("connecting to {target}"))?;
        stream.set_read_timeout(Some(REPLY_WAIT_MAX))?;
        let mut wire = Wire::over(stream);
        if let Some(password) = password {
            wire.call(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(wire)
    }

    fn over(stream: Stream) -> Wire {
        Wire {
            stream,
            out: Vec::new(),
            received: Vec::new(),
            decoded: 0,
            filled: 0,
            decoder: ValueDecoder::default(),
        }
    }

    /// Sends one request and returns its reply.
    ///
    /// # Errors
    /// When the connection breaks or the reply is an error.
    pub fn call(&mut self, arguments: &[&[u8]]) -> anyhow::Result<Value> {
        self.queue(arguments);
        self.send()?;
        match self.receive()? {
            Value::Error(text) => {
                let name = String::from_utf8_lossy(arguments[0]);
                bail!("{name}: {}", String::from_utf8_lossy(&text))
            }
            value => Ok(value),
        }
    }

    /// Adds a request to those that the next [`Wire::send`] sends.
    pub fn queue(&mut self, arguments: &[&[u8]]) {
        encode_command(arguments, &mut self.out);
    }

    /// Adds the request that `write` appends to those that the next [`Wire::send`] sends.
    pub fn queue_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out);
    }

    /// Returns the bytes that wait for [`Wire::send`].
    pub fn queued_bytes(&self) -> usize {
        self.out.len()
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn send(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.out).context("sending")?;
        self.out.clear();
        Ok(())
    }

    /// Awaits the next reply, an error reply included.
    ///
    /// # Errors
    /// When the connection breaks or brings what is not RESP.
    pub fn receive(&mut self) -> anyhow::Result<Value> {
        loop {
            let pending = &self.received[self.decoded..self.filled];
            let (consumed, value) = self.decoder.decode(pending)?;
            self.decoded += consumed;
            if let Some(value) = value {
                return Ok(value);
            }
            self.received.copy_within(self.decoded..self.filled, 0);
            self.filled -= self.decoded;
            self.decoded = 0;
            // Room for all that is known to come, so that a large bulk arrives in few reads.
            let room = (self.filled + READ_BYTES).max(self.decoder.wanted());
            if self.received.len() < room {
                self.received.resize(room, 0);
            }
            let room = &mut self.received[self.filled..];
            // A process that was stopped and goes on is told so where it reads with a limit.
            let read = loop {
                match self.stream.read(room) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    read => break read.context("receiving")?,
                }
            };
            self.filled += read;
            if read == 0 {
                bail!("the server closed the connection");
            }
        }
    }

    /// Gives the connection away.
    pub fn into_stream(self) -> Stream {
        self.stream
    }
}
