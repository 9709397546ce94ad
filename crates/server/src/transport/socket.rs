//! What TCP and unix sockets share: receives and sends that do not wait.
//!
//! What runs for each batch is always inlined: with two callers the compiler would leave it out of
//! line, where `forebay bench instructions` counts more for a GET alone.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use keyspace::ReservedBlock;
use resp::Output;
use sys::descriptors::SharedDescriptor;
use sys::socket::{Received, Stream};

use super::{Sent, TransportEnd};

/// Pieces of one send: values that are sent from where they lie, and what stands between them.
const PIECES_PER_SEND_MAX: usize = 32;

/// Receives once, see [`super::Transport::receive`].
#[inline(always)]
pub fn receive(stream: &Stream, buffer: &mut [u8]) -> Result<usize, TransportEnd> {
    received(stream.receive(buffer))
}

/// Receives once, see [`super::Transport::receive_appending`].
#[inline]
pub fn receive_appending(stream: &Stream, buffer: &mut Vec<u8>) -> Result<usize, TransportEnd> {
    received(stream.receive_appending(buffer))
}

/// Receives once, see [`super::Transport::receive_value`].
pub fn receive_value(
    stream: &Stream,
    block: &mut ReservedBlock,
    behind: &mut [u8],
) -> Result<Range<usize>, TransportEnd> {
    let missing = block.missing_bytes();
    let count = received(stream.receive_pieces(block.room(), behind))?;
    block.advance(count.min(missing));
    Ok(0..count.saturating_sub(missing))
}

/// Sends once, see [`super::Transport::send`].
#[inline(always)]
pub fn send(
    stream: &Stream,
    output: &mut Output,
    descriptors: &[SharedDescriptor],
) -> Result<Sent, TransportEnd> {
    let (sent, offered) = match output.plain() {
        Some(bytes) if descriptors.is_empty() => (stream.send(bytes), bytes.len()),
        _ => send_pieces(stream, output, descriptors),
    };
    match sent {
        Ok(sys::socket::Sent::Bytes(bytes)) => {
            output.consume(bytes);
            Ok(if bytes == offered { Sent::All(bytes) } else { Sent::Partly(bytes) })
        }
        Ok(sys::socket::Sent::Blocked) => Ok(Sent::Partly(0)),
        Err(_) => Err(TransportEnd::Broken),
    }
}

/// Sends replies that lie in pieces, or `descriptors` with them; returns what became of it and how
/// many bytes were offered. Apart, so that the many pieces are no part of a plain send.
#[inline(never)]
fn send_pieces(
    stream: &Stream,
    output: &Output,
    descriptors: &[SharedDescriptor],
) -> (io::Result<sys::socket::Sent>, usize) {
    let mut pieces = [IoSlice::new(&[]); PIECES_PER_SEND_MAX];
    let count = output.pieces(&mut pieces);
    let pieces = &pieces[..count];
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|fd| fd.as_fd()).collect();
    let offered = pieces.iter().map(|piece| piece.len()).sum();
    (stream.send_pieces(pieces, &descriptors), offered)
}

/// Returns the bytes that a receive brought, 0 where nothing was there.
#[inline]
fn received(result: io::Result<Received>) -> Result<usize, TransportEnd> {
    match result {
        Ok(Received::Bytes(count)) => Ok(count),
        Ok(Received::Blocked) => Ok(0),
        Ok(Received::End) => Err(TransportEnd::Closed),
        Err(_) => Err(TransportEnd::Broken),
    }
}
