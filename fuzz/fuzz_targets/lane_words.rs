//! A lane whose client writes any word anywhere, between honest operations of both sides: the
//! server's end never panics, never takes or puts more than it was told to, and as long as the
//! client was honest the bytes that arrive are those that were sent.
//!
//! The input is text, so that seeds can be read. Each line is a step, by its first byte:
//!
//! ```text
//! w 16 fff8    the client writes the word (hexadecimal) at an index
//! p 100        the client puts so many bytes of requests
//! t 100        the client takes so many bytes of replies
//! r 100        the server receives into a buffer of so many bytes
//! x 100        the server appends what came to a buffer with so much room
//! s 100        the server sends so many bytes, in two pieces
//! a            the server arms, for requests and for room
//! c            the server looks whether the client sleeps
//! ```
#![no_main]

#[path = "../step.rs"]
mod step;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use libfuzzer_sys::fuzz_target;
use ring::lane::{HeapLane, LaneEnd, LaneError, LaneShape, NEWS, RING_BYTES_MIN, ROOM, Side};

use step::Step;

/// The most bytes of one step.
const STEP_BYTES_MAX: u64 = 3 * RING_BYTES_MIN;

type End = LaneEnd<Arc<HeapLane>>;

/// A lane, and what has passed it.
struct World {
    memory: Arc<HeapLane>,
    server: End,
    client: End,
    /// Bytes put, and of them taken, in requests and in replies.
    requests: [usize; 2],
    replies: [usize; 2],
    is_honest: bool,
}

/// The byte of either stream at `position`.
fn byte_at(position: usize) -> u8 {
    (position % 251) as u8
}

fn put(end: &mut End, passed: &mut [usize; 2], count: usize) -> Result<(), LaneError> {
    let bytes: Vec<u8> = (passed[0]..passed[0] + count).map(byte_at).collect();
    let (first, second) = bytes.split_at(count / 3);
    let written = end.write(&[first, second])?;
    assert!(written <= count && written <= RING_BYTES_MIN as usize, "more than there was");
    passed[0] += written;
    Ok(())
}

fn check(bytes: &[u8], passed: &mut [usize; 2], is_honest: bool) {
    if is_honest {
        let expected = (passed[1]..).map(byte_at);
        assert!(bytes.iter().copied().eq(expected.take(bytes.len())), "other bytes arrived");
        assert!(passed[1] + bytes.len() <= passed[0], "bytes arrived that nobody sent");
    }
    passed[1] += bytes.len();
}

fn take(
    end: &mut End,
    passed: &mut [usize; 2],
    count: usize,
    is_honest: bool,
) -> Result<(), LaneError> {
    let mut target = vec![0; count.max(8)];
    let taken = end.read(&mut target)?;
    check(&target[..taken], passed, is_honest);
    Ok(())
}

impl World {
    fn step(&mut self, line: &str) -> Result<(), LaneError> {
        let mut words = line.split(' ');
        let step = words.next().unwrap_or_default();
        let first = words.next().unwrap_or_default();
        let count = (first.parse::<u64>().unwrap_or(0) % STEP_BYTES_MAX) as usize;
        match step {
            "w" => {
                let index = first.parse::<usize>().unwrap_or(0) % self.memory.words().len();
                let value = u64::from_str_radix(words.next().unwrap_or_default(), 16);
                self.memory.words()[index].store(value.unwrap_or(0), Ordering::Relaxed);
                self.is_honest = false;
            }
            // Only an honest client goes on with its own end: the server broke no word of it.
            "p" if self.is_honest => put(&mut self.client, &mut self.requests, count)?,
            "t" if self.is_honest => take(&mut self.client, &mut self.replies, count, true)?,
            "r" => take(&mut self.server, &mut self.requests, count, self.is_honest)?,
            "x" => {
                let mut buffer = Vec::new();
                self.server.read_appending(&mut buffer, count.max(8))?;
                assert!(buffer.len() <= count.max(8), "more than there is room for");
                check(&buffer, &mut self.requests, self.is_honest);
            }
            "s" => put(&mut self.server, &mut self.replies, count)?,
            "a" => {
                self.server.arm(NEWS | ROOM)?;
            }
            "c" => {
                self.server.claim(NEWS | ROOM);
            }
            _ => {}
        }
        Ok(())
    }
}

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let shape = LaneShape::new(RING_BYTES_MIN, RING_BYTES_MIN).expect("the smallest rings");
    let memory = Arc::new(HeapLane::new(shape));
    let [server, client] =
        [Side::Server, Side::Client].map(|side| LaneEnd::new(memory.clone(), side));
    let mut world =
        World { memory, server, client, requests: [0; 2], replies: [0; 2], is_honest: true };
    for line in String::from_utf8_lossy(input).lines() {
        if let Err(error) = world.step(line) {
            assert!(!world.is_honest, "an honest client broke the lane: {error}");
            return;
        }
    }
});
