//! How the reader's process learns of segments: a socket, and descriptors with each answer.
//!
//! All numbers are little-endian words. Greeting: span, segment size, with the pin table. Request:
//! the highest serial number known. Answer: epoch, count, then (index, serial) for each segment.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use arena::Arena;
use ring::{Mapped, SharedPins};
use sys::descriptors::{self, SharedDescriptor};
use sys::memfd_segments::{LiveSegment, OwnedSegments};
use sys::socket::{Sent, Stream};

/// The most descriptors in one answer.
const DESCRIPTORS_MAX: usize = 200;

/// The reader's end: a socket that brings segments.
pub struct Link(UnixStream);

/// Serves one reader until it closes its end.
pub fn serve(
    arena: &Arena,
    segments: &OwnedSegments,
    pins: &SharedPins,
    socket: Stream,
) -> io::Result<u64> {
    let greeting = [segments.span_bytes(), segments.segment_bytes()];
    send(&socket, &greeting, &[pins.descriptor()])?;
    let mut requests = 0;
    loop {
        let mut request = [0; 8];
        if descriptors::receive(&socket, &mut request, &mut Vec::new())? == 0 {
            return Ok(requests);
        }
        requests += 1;
        let epoch = arena.segment_epoch();
        let (live, descriptors) = segments.live_since(u64::from_le_bytes(request), DESCRIPTORS_MAX);
        let mut answer = vec![epoch, live.len() as u64];
        answer.extend(live.iter().flat_map(|it| [u64::from(it.index), it.serial]));
        send(&socket, &answer, &descriptors)?;
    }
}

fn send(socket: &Stream, words: &[u64], descriptors: &[SharedDescriptor]) -> io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut sent = 0;
    while sent < bytes.len() {
        let attached = if sent == 0 { &descriptors[..] } else { &[] };
        match socket.send_pieces(&[IoSlice::new(&bytes[sent..])], attached)? {
            Sent::Bytes(count) => sent += count,
            Sent::Blocked => std::thread::yield_now(),
        }
    }
    Ok(())
}

/// Connects the reader to the writer at the other end of `socket`.
pub fn connect(socket: UnixStream) -> io::Result<(Link, Mapped, SharedPins)> {
    let mut descriptors = Vec::new();
    let greeting = receive(&socket, |words| 2.max(words.len()), &mut descriptors)?;
    let (span_bytes, segment_bytes) = (greeting[0], greeting[1]);
    let table = descriptors.pop().expect("the pin table comes with the greeting");
    let pins = SharedPins::open(table, arena::pins::PIN_TABLE_BYTES)?;
    let count = u32::try_from(span_bytes / segment_bytes).expect("a span of segments");
    let mapped = Mapped::reserve(segment_bytes, count)?;
    let link = Link(socket);
    link.refresh(&mapped)?;
    Ok((link, mapped, pins))
}

impl Link {
    /// Maps the segments that there are now.
    pub fn refresh(&self, mapped: &Mapped) -> io::Result<()> {
        loop {
            (&self.0).write_all(&mapped.known().to_le_bytes())?;
            let mut descriptors = Vec::new();
            let size = |words: &[u64]| words.get(1).map_or(2, |count| 2 + 2 * *count as usize);
            let answer = receive(&self.0, size, &mut descriptors)?;
            let pairs = answer[2..].chunks_exact(2);
            let live: Vec<LiveSegment> =
                pairs.map(|pair| LiveSegment { index: pair[0] as u32, serial: pair[1] }).collect();
            if mapped.update(answer[0], &live, &descriptors)? {
                return Ok(());
            }
        }
    }
}

/// Receives words until there are as many as `size` says of those that have come.
fn receive(
    socket: &UnixStream,
    size: impl Fn(&[u64]) -> usize,
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<Vec<u64>> {
    let mut bytes = Vec::new();
    let mut words: Vec<u64> = Vec::new();
    while bytes.len() < 8 * size(&words) {
        let mut part = vec![0; 8 * size(&words) - bytes.len()];
        let count = descriptors::receive(socket, &mut part, descriptors)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..count]);
        let whole = bytes.chunks_exact(8);
        words = whole.map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect();
    }
    Ok(words)
}
