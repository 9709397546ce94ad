//! Decodes replies from a stream of bytes.

use resp::{Value as Reply, ValueDecoder};

use crate::error::AttachError;

/// Decoded bytes that are kept before the rest is moved over them.
const DECODED_BYTES_MAX: usize = 64 * 1024;

/// What has come and is not decoded yet.
#[derive(Default)]
pub struct Replies {
    decoder: ValueDecoder,
    bytes: Vec<u8>,
    /// Those before it are decoded.
    start: usize,
}

impl Replies {
    /// Returns the next reply, `None` where it is not there whole. Pushed messages, which answer
    /// no request, are dropped.
    ///
    /// # Errors
    /// When the bytes are no reply.
    pub fn next(&mut self) -> Result<Option<Reply>, AttachError> {
        loop {
            match self.next_message()? {
                Some(Reply::Push(_)) => {}
                reply => return Ok(reply),
            }
        }
    }

    /// As [`Replies::next`], pushed messages among them.
    pub fn next_message(&mut self) -> Result<Option<Reply>, AttachError> {
        let decoded = self.decoder.decode(&self.bytes[self.start..]);
        let (consumed, reply) =
            decoded.map_err(|error| AttachError::Unexpected(format!("{error:?}")))?;
        self.start += consumed;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > DECODED_BYTES_MAX {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        Ok(reply)
    }

    /// Returns the buffer to append to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Moves what is not decoded to the end of `target`.
    pub fn move_to(&mut self, target: &mut Vec<u8>) -> usize {
        let count = self.bytes.len() - self.start;
        target.extend_from_slice(&self.bytes[self.start..]);
        self.bytes.clear();
        self.start = 0;
        count
    }

    /// Moves what is not decoded to `target`, as much as it has room for.
    pub fn move_into(&mut self, target: &mut [u8]) -> usize {
        let rest = &self.bytes[self.start..];
        let count = rest.len().min(target.len());
        target[..count].copy_from_slice(&rest[..count]);
        self.start += count;
        count
    }
}
