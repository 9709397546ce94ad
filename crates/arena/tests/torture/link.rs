//! How the reader's process learns of segments: a socket, and descriptors with each answer.
//!
//! All numbers are little-endian words. Greeting: span, segment size, with the pin table. Request:
//! the highest serial number known. Answer: epoch, count, then (index, serial) for each segment.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use arena::pins::PinMemory;
use arena::reader::SegmentView;
use arena::{Arena, SegmentError, SegmentSource};
use sys::descriptors;
use sys::memory::{ForeignSegments, OwnedSegments, SharedBlock};
use sys::socket::{Sent, Stream};

/// The most descriptors in one answer.
const DESCRIPTORS_MAX: usize = 200;

/// The writer's segments, as the arena asks for them.
#[derive(Clone)]
pub struct Memfds(pub std::sync::Arc<OwnedSegments>);

// SAFETY: `OwnedSegments` keeps one base, maps what is committed read-write and zeroed inside its
// own range, and gives no reference to it.
unsafe impl SegmentSource for Memfds {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }

    fn span_bytes(&self) -> u64 {
        self.0.span_bytes()
    }

    fn segment_bytes(&self) -> u64 {
        self.0.segment_bytes()
    }

    fn commit(&self, index: u32) -> Result<(), SegmentError> {
        self.0.commit(index).map_err(|error| SegmentError(error.to_string()))
    }

    fn retire(&self, index: u32) {
        self.0.retire(index);
    }
}

/// A pin table in memory that both processes map.
pub struct SharedPins(pub SharedBlock);

// SAFETY: the block's words are the same for as long as it lives, and its seals keep its size.
unsafe impl PinMemory for SharedPins {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// The reader's mapping, and the socket that brings segments.
pub struct Foreign {
    segments: Mutex<ForeignSegments>,
    base: NonNull<u8>,
    span_bytes: u64,
    epoch: AtomicU64,
    socket: UnixStream,
    known: AtomicU64,
    serials: Mutex<Vec<u64>>,
}

// SAFETY: the base is an address that the mapping keeps valid; the rest is thread-safe by itself.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

// SAFETY: `ForeignSegments` keeps one range that can be read throughout, and `refresh` stores an
// epoch only once every segment of its list is mapped.
unsafe impl SegmentView for Foreign {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
}

/// Serves one reader until it closes its end.
pub fn serve(
    arena: &Arena,
    segments: &OwnedSegments,
    pins: &SharedBlock,
    socket: Stream,
) -> io::Result<u64> {
    let greeting = [segments.span_bytes(), segments.segment_bytes()];
    send(&socket, &greeting, &[pins.as_fd().try_clone_to_owned()?])?;
    let mut requests = 0;
    loop {
        let mut request = [0; 8];
        if descriptors::receive(&socket, &mut request, &mut Vec::new())? == 0 {
            return Ok(requests);
        }
        requests += 1;
        let epoch = arena.segment_epoch();
        let (live, descriptors) =
            segments.live_since(u64::from_le_bytes(request), DESCRIPTORS_MAX)?;
        let mut answer = vec![epoch, live.len() as u64];
        answer.extend(live.iter().flat_map(|it| [u64::from(it.index), it.serial]));
        send(&socket, &answer, &descriptors)?;
    }
}

fn send(socket: &Stream, words: &[u64], descriptors: &[OwnedFd]) -> io::Result<()> {
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
pub fn connect(socket: UnixStream) -> io::Result<(Foreign, SharedPins)> {
    let mut descriptors = Vec::new();
    let greeting = receive(&socket, |words| 2.max(words.len()), &mut descriptors)?;
    let (span_bytes, segment_bytes) = (greeting[0], greeting[1]);
    let table = descriptors.pop().expect("the pin table comes with the greeting");
    let pins = SharedPins(SharedBlock::open(table, arena::pins::PIN_TABLE_BYTES)?);
    let count = u32::try_from(span_bytes / segment_bytes).expect("a span of segments");
    let segments = ForeignSegments::reserve(segment_bytes, count)?;
    let foreign = Foreign {
        base: segments.base(),
        segments: Mutex::new(segments),
        span_bytes,
        epoch: AtomicU64::new(0),
        socket,
        known: AtomicU64::new(0),
        serials: Mutex::new(vec![0; count as usize]),
    };
    foreign.refresh()?;
    Ok((foreign, pins))
}

impl Foreign {
    /// Maps the segments that there are now.
    pub fn refresh(&self) -> io::Result<()> {
        loop {
            let known = self.known.load(Ordering::Relaxed);
            (&self.socket).write_all(&known.to_le_bytes())?;
            let mut descriptors = Vec::new();
            let size = |words: &[u64]| words.get(1).map_or(2, |count| 2 + 2 * *count as usize);
            let answer = receive(&self.socket, size, &mut descriptors)?;
            if self.map(&answer[2..], descriptors)? {
                self.epoch.store(answer[0], Ordering::Release);
                return Ok(());
            }
        }
    }

    /// Maps what came and unmaps what went; returns whether that is all there is.
    fn map(&self, list: &[u64], descriptors: Vec<OwnedFd>) -> io::Result<bool> {
        let mut segments = self.segments.lock().expect("nobody panics with it");
        let mut serials = self.serials.lock().expect("nobody panics with it");
        let mut live = vec![0; serials.len()];
        for pair in list.chunks_exact(2) {
            live[pair[0] as usize] = pair[1];
        }
        for (index, serial) in (0_u32..).zip(&mut *serials) {
            if *serial != live[index as usize] {
                segments.unmap(index)?;
                *serial = 0;
            }
        }
        let known = self.known.load(Ordering::Relaxed);
        let new = list.chunks_exact(2).filter(|pair| pair[1] > known);
        for (pair, descriptor) in new.clone().zip(&descriptors) {
            segments.map(pair[0] as u32, descriptor)?;
            serials[pair[0] as usize] = pair[1];
            self.known.store(pair[1], Ordering::Relaxed);
        }
        Ok(new.count() == descriptors.len())
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
