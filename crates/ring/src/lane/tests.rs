//! Lanes on the heap: streams against a model, and what a hostile side writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use base::prng::Prng;

use super::lane_layout::{REPLY_HEAD_AT, REQUEST_TAIL_AT};
use super::*;

fn shape() -> LaneShape {
    LaneShape::new(RING_BYTES_MIN, RING_BYTES_MIN).unwrap()
}

fn pair(memory: &Arc<HeapLane>) -> [LaneEnd<Arc<HeapLane>>; 2] {
    [Side::Server, Side::Client].map(|side| LaneEnd::new(memory.clone(), side))
}

/// The byte of the model stream at `position`.
fn byte_at(position: usize) -> u8 {
    ((position * 31) >> 3) as u8
}

/// Writes up to `most` of the model stream from `sent` on, in up to three pieces.
fn write_some(
    end: &mut LaneEnd<Arc<HeapLane>>,
    sent: usize,
    most: usize,
    random: &mut Prng,
) -> usize {
    let bytes: Vec<u8> = (sent..sent + most).map(byte_at).collect();
    let (first, rest) = bytes.split_at(random.below(most as u64 + 1) as usize);
    let (second, third) = rest.split_at(random.below(rest.len() as u64 + 1) as usize);
    end.write(&[first, second, third]).unwrap()
}

/// Reads up to `most` bytes and holds them against the model stream.
fn read_some(end: &mut LaneEnd<Arc<HeapLane>>, taken: usize, most: usize) -> usize {
    let mut target = vec![0xEE; most];
    let count = end.read(&mut target).unwrap();
    for (index, byte) in target[..count].iter().enumerate() {
        assert_eq!(*byte, byte_at(taken + index), "byte {} of the stream", taken + index);
    }
    count
}

#[test]
fn miri_stream_arrives_as_it_was_sent_however_it_is_cut() {
    let seeds = if cfg!(miri) { 2 } else { 40 };
    for seed in 1..=seeds {
        let mut random = Prng::new(seed);
        let memory = Arc::new(HeapLane::new(shape()));
        let [mut server, mut client] = pair(&memory);
        let (mut sent, mut taken) = (0, 0);
        for _ in 0..if cfg!(miri) { 40 } else { 2_000 } {
            let bound = random.pick(&[20, 900, 6_000]);
            let most = 1 + random.below(bound) as usize;
            if random.one_in(2) {
                sent += write_some(&mut client, sent, most, &mut random);
            } else {
                taken += read_some(&mut server, taken, most.max(8));
            }
            assert!(sent - taken <= RING_BYTES_MIN as usize, "seed {seed}");
        }
        loop {
            match read_some(&mut server, taken, 64) {
                0 => break,
                count => taken += count,
            }
        }
        assert_eq!(taken, sent, "seed {seed}");
    }
}

#[test]
fn miri_indices_pass_the_end_of_the_numbers() {
    let memory = HeapLane::new(shape());
    let start = 0_u64.wrapping_sub(64);
    let header = memory.header();
    for at in [REQUEST_TAIL_AT, REQUEST_HEAD_AT] {
        header[at].store(start, Ordering::Relaxed);
    }
    let ring = requests(&memory);
    let (mut writer, mut reader) = (Writer::starting_at(start), Reader::starting_at(start));
    for round in 0..20_u8 {
        assert_eq!(writer.write(&ring, &[[round; 13]]).unwrap(), 13);
        let mut target = [0; 16];
        assert_eq!(reader.read(&ring, &mut target).unwrap(), 13);
        assert_eq!(target[..13], [round; 13]);
    }
}

/// Sends `total` bytes from one thread to another; both sleep where they have nothing to do.
fn stream_between_threads(total: usize, seed: u64) {
    let memory = Arc::new(HeapLane::new(shape()));
    let [mut server, mut client] = pair(&memory);
    let (sleeper, reader) = (thread::current(), std::sync::mpsc::channel::<thread::Thread>());
    let taker = thread::spawn(move || {
        reader.0.send(thread::current()).unwrap();
        let (mut random, mut taken) = (Prng::new(seed), 0);
        while taken < total {
            let most = 8 + random.below(3_000) as usize;
            taken += match read_some(&mut server, taken, most) {
                0 => {
                    if !server.arm(NEWS).unwrap() {
                        while server.is_armed() {
                            thread::park();
                        }
                    }
                    0
                }
                count => count,
            };
            if server.claim(ROOM).is_some() {
                sleeper.unpark();
            }
        }
    });
    let taking = reader.1.recv().unwrap();
    let (mut random, mut sent) = (Prng::new(seed + 1), 0);
    while sent < total {
        let most = (1 + random.below(6_000) as usize).min(total - sent);
        let count = write_some(&mut client, sent, most, &mut random);
        sent += count;
        if client.claim(NEWS).is_some() {
            taking.unpark();
        }
        if count == 0 && !client.arm(ROOM).unwrap() {
            while client.is_armed() {
                thread::park();
            }
        }
    }
    taker.join().unwrap();
}

#[test]
fn miri_two_threads_pass_a_stream_and_neither_sleeps_for_ever() {
    for seed in 1..=if cfg!(miri) { 1 } else { 6 } {
        stream_between_threads(if cfg!(miri) { 12_000 } else { 500_000 }, seed);
    }
}

#[test]
fn side_that_sleeps_is_woken_once_for_what_it_wants() {
    let memory = Arc::new(HeapLane::new(shape()));
    let [mut server, mut client] = pair(&memory);
    client.write(&["first"]).unwrap();
    assert_eq!(client.claim(NEWS), Some(NEWS), "a lane that nobody has served yet is asleep");
    assert!(server.arm(NEWS).unwrap(), "something is there");
    assert_eq!(read_all(&mut server), b"first");
    assert!(!server.arm(NEWS).unwrap());
    assert_eq!(client.claim(ROOM), None, "it does not sleep for room");
    assert_eq!(client.claim(NEWS), Some(NEWS));
    assert_eq!(client.claim(NEWS), None, "once");
    assert!(!client.arm(NEWS | BY_SOCKET).unwrap());
    server.write(&["reply"]).unwrap();
    assert_eq!(server.claim(NEWS), Some(NEWS | BY_SOCKET));
    assert!(!client.is_closed());
    assert!(client.arm(ROOM | NEWS).unwrap(), "there is room, and a reply");
    assert_eq!(server.close(), None);
    assert!(client.is_closed());
    assert_eq!(read_all(&mut client), b"reply", "what was written before the end is there");
}

#[test]
fn client_says_on_which_processor_it_is() {
    let memory = Arc::new(HeapLane::new(shape()));
    let [server, client] = pair(&memory);
    assert_eq!(server.client_processor(), None);
    for processor in [0, 7] {
        client.set_client_processor(processor);
        assert_eq!(server.client_processor(), Some(processor));
    }
}

#[test]
fn full_ring_takes_nothing_until_something_was_taken() {
    let memory = Arc::new(HeapLane::new(shape()));
    let [mut server, mut client] = pair(&memory);
    let large = vec![7; 3 * RING_BYTES_MIN as usize];
    let count = client.write(&[&large]).unwrap();
    assert_eq!(count as u64, RING_BYTES_MIN - 8);
    assert!(!client.has_room().unwrap());
    assert_eq!(client.write(&[&large]).unwrap(), 0);
    assert!(!client.arm(ROOM).unwrap());
    let mut target = [0; 31];
    assert_eq!(server.read(&mut target).unwrap(), 24, "whole words of a frame that goes on");
    assert_eq!(server.claim(ROOM), Some(ROOM));
    assert_eq!(client.write(&[&large]).unwrap(), 24);
    assert_eq!(read_all(&mut server).len(), count);
}

/// What becomes of the server's end when word `at` of the memory is `value` after one request.
fn read_hostile(at: usize, value: u64) -> Result<Vec<u8>, LaneError> {
    let memory = Arc::new(HeapLane::new(shape()));
    let [mut server, mut client] = pair(&memory);
    client.write(&["request"]).unwrap();
    memory.words()[at].store(value, Ordering::Relaxed);
    let mut target = vec![0; 2 * RING_BYTES_MIN as usize];
    let count = server.read(&mut target)?;
    target.truncate(count);
    Ok(target)
}

#[test]
fn miri_word_that_no_client_writes_ends_the_lane() {
    for tail in [1, 17, RING_BYTES_MIN + 8, u64::MAX, u64::MAX - 7, 1 << 63] {
        let error = LaneError::Tail { found: tail, head: 0 };
        assert_eq!(read_hostile(REQUEST_TAIL_AT, tail), Err(error));
    }
    let frame = HEADER_BYTES as usize / 8;
    for header in [0, 9, 16, 1 << 32 | 7, 1 << 63, u64::MAX, u32::MAX.into()] {
        let error = LaneError::Frame { found: header, there: 8 };
        assert_eq!(read_hostile(frame, header), Err(error));
    }
    assert_eq!(read_hostile(REQUEST_TAIL_AT, 8), Err(LaneError::Frame { found: 7, there: 0 }));
    assert_eq!(read_hostile(frame + 1, 0), Ok(vec![0; 7]), "any payload is one");
    assert_eq!(read_hostile(REQUEST_HEAD_AT, u64::MAX), Ok(b"request".to_vec()), "never read");
}

#[test]
fn miri_tail_that_goes_back_behind_a_frame_underway_ends_the_lane() {
    let memory = Arc::new(HeapLane::new(shape()));
    let [mut server, mut client] = pair(&memory);
    client.write(&[[1; 100]]).unwrap();
    assert_eq!(server.read(&mut [0; 40]).unwrap(), 40);
    memory.header()[REQUEST_TAIL_AT].store(64, Ordering::Relaxed);
    assert_eq!(server.read(&mut [0; 40]), Err(LaneError::Tail { found: 64, head: 48 }));
    assert!(server.arm(NEWS).is_err());
}

#[test]
fn miri_head_that_no_client_writes_ends_the_lane() {
    for head in [24, 1, RING_BYTES_MIN, 1 << 63, 0_u64.wrapping_sub(RING_BYTES_MIN + 8)] {
        let memory = Arc::new(HeapLane::new(shape()));
        let mut server = LaneEnd::new(memory.clone(), Side::Server);
        memory.header()[REPLY_HEAD_AT].store(head, Ordering::Relaxed);
        assert_eq!(server.write(&["PONG"]), Ok(4), "the head is not looked at without need");
        let written = server.write(&[vec![0; RING_BYTES_MIN as usize]]);
        assert_eq!(written, Err(LaneError::Head { found: head, tail: 16 }));
    }
}

#[test]
fn head_beyond_what_was_published_ends_the_lane() {
    let memory = Arc::new(HeapLane::new(shape()));
    let mut server = LaneEnd::new(memory.clone(), Side::Server);
    memory.header()[REPLY_HEAD_AT].store(128, Ordering::Relaxed);
    let pieces = [vec![0; 1_000], vec![0; RING_BYTES_MIN as usize]];
    assert_eq!(server.write(&pieces), Err(LaneError::Head { found: 128, tail: 0 }));
}

#[test]
fn miri_head_that_goes_back_ends_the_lane() {
    let memory = Arc::new(HeapLane::new(shape()));
    let [mut server, mut client] = pair(&memory);
    let full = vec![1; RING_BYTES_MIN as usize];
    assert_eq!(server.write(&[&full]).unwrap() as u64, RING_BYTES_MIN - 8);
    assert_eq!(client.read(&mut [0; 64]).unwrap(), 64);
    assert!(server.has_room().unwrap(), "it has been told of 72 bytes");
    memory.header()[REPLY_HEAD_AT].store(8, Ordering::Relaxed);
    let written = server.write(&[&full]);
    assert_eq!(written, Err(LaneError::Head { found: 8, tail: RING_BYTES_MIN }));
}

fn read_all(end: &mut LaneEnd<Arc<HeapLane>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while end.read_appending(&mut bytes, 1 << 20).unwrap() > 0 {}
    bytes
}
