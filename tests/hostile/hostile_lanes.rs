//! Lanes with hostile, greedy and dying clients.
//!
//! `FOREBAY_HOSTILE_LANES` sets how many lanes are written over, each with some 200 words, and
//! `FOREBAY_LANE_KILLS` how many clients are killed at a random step.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use base::prng::Prng;
use harness::{Kind, Launch, SILENCE_MAX, Server, number, poll_until, words};
use resp::{Value, ValueDecoder, encode_command};
use ring::lane::{LaneEnd, LaneMemory, LaneShape, ROOM, SharedLane, Side};
use sys::memfd_segments::close_for_writers;
use sys::poll::Waker;

use super::script::{Script, report};
use super::{AtEnd, assert_healthy};

const RING_BYTES: u64 = 4096;
const HOSTILE_LANES_DEFAULT: u64 = 150;

/// A lane whose client writes what it likes.
struct RawLane {
    control: UnixStream,
    memory: SharedLane,
    doorbell: Waker,
    id: i64,
    _bell: OwnedFd,
}

/// Sends the words of `line`; returns the reply and the descriptors that came with it.
pub(super) fn ask_for_descriptors(control: &mut UnixStream, line: &str) -> (Value, Vec<OwnedFd>) {
    let words = words(line);
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let (mut request, mut received) = (Vec::new(), Vec::new());
    encode_command(&words, &mut request);
    control.set_read_timeout(Some(SILENCE_MAX)).expect("it is not zero");
    control.write_all(&request).expect("the server takes requests");
    let (mut decoder, mut descriptors) = (ValueDecoder::default(), Vec::new());
    loop {
        let mut bytes = [0; 4096];
        let count = sys::descriptors::receive(&*control, &mut bytes, &mut descriptors);
        let count = count.expect("the server answers");
        assert!(count > 0, "the server closed before it answered {line}");
        received.extend_from_slice(&bytes[..count]);
        let (consumed, value) = decoder.decode(&received).expect("it is RESP");
        received.drain(..consumed);
        if let Some(value) = value {
            return (value, descriptors);
        }
    }
}

impl RawLane {
    /// Makes a lane that is not sealed yet.
    fn offered(server: &Server) -> RawLane {
        let mut control = UnixStream::connect(server.socket()).expect("the server is there");
        let (reply, descriptors) =
            ask_for_descriptors(&mut control, &format!("SHM LANE {RING_BYTES} {RING_BYTES}"));
        let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
        let Value::Integer(id) = fields[1] else { panic!("a number: {reply:?}") };
        let [memory, doorbell, bell]: [OwnedFd; 3] = descriptors.try_into().expect("three came");
        let shape = LaneShape::new(RING_BYTES, RING_BYTES).expect("within bounds");
        let memory = SharedLane::open(memory, shape).expect("it is a lane");
        RawLane { control, memory, doorbell: Waker::from(doorbell), id, _bell: bell }
    }

    fn sealed(server: &Server) -> RawLane {
        let mut lane = RawLane::offered(server);
        lane.seal();
        lane
    }

    fn seal(&mut self) {
        let line = format!("SHM SEAL {}", self.id);
        assert_eq!(ask_for_descriptors(&mut self.control, &line).0, Value::Simple(b"OK".to_vec()));
    }

    /// Returns word `index` of the memory.
    fn word(&self, index: usize) -> &AtomicU64 {
        let (header, requests) = (self.memory.header(), self.memory.requests());
        match index.checked_sub(header.len()) {
            None => &header[index],
            Some(index) if index < requests.len() => &requests[index],
            Some(index) => &self.memory.replies()[index - requests.len()],
        }
    }

    fn word_count(&self) -> usize {
        self.memory.header().len() + self.memory.requests().len() + self.memory.replies().len()
    }

    /// Puts `bytes` into the empty request ring and rings.
    fn put_first(&self, bytes: &[u8]) {
        let ring = self.memory.requests();
        ring[0].store(bytes.len() as u64, Ordering::Relaxed);
        for (cell, chunk) in ring[1..].iter().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            cell.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        let tail = 8 + bytes.len().next_multiple_of(8) as u64;
        self.memory.header()[REQUEST_TAIL_AT].store(tail, Ordering::Release);
        self.doorbell.wake();
    }

    fn reply_tail(&self) -> u64 {
        self.memory.header()[REPLY_TAIL_AT].load(Ordering::Acquire)
    }
}

/// Words of the header, as docs/internals/shm-lanes.md has them drawn.
const REQUEST_TAIL_AT: usize = 16;
const REPLY_TAIL_AT: usize = 64;

/// What kinds of words are written over lanes.
const KINDS: [&str; 6] = [
    "random",
    "small multiples of 8",
    "of the top",
    "single bits",
    "what was there and 8",
    "requests",
];

/// Writes random and adversarial words over all of a lane and rings; counts them by their kinds.
fn vandalise(lane: &mut RawLane, random: &mut Prng, thrown: &mut [u64; KINDS.len()]) {
    for _ in 0..10 {
        for _ in 0..random.below(40) {
            // The words that mean something more often than those of the rings.
            let index = match random.below(3) {
                0 => 16 * random.below(8) as usize,
                1 => 512 + random.below(64) as usize,
                _ => random.below(lane.word_count() as u64) as usize,
            };
            let kind = random.below(KINDS.len() as u64);
            thrown[kind as usize] += 1;
            let value = match kind {
                0 => random.next(),
                1 => random.below(64) * 8,
                2 => u64::MAX - random.below(64),
                3 => 1 << random.below(64),
                4 => lane.word(index).load(Ordering::Relaxed).wrapping_add(8),
                _ => u64::from_le_bytes(*b"*1\r\n$4\r\n"),
            };
            lane.word(index).store(value, Ordering::Relaxed);
        }
        lane.doorbell.wake();
        // The one worker has looked at the lane when it answers.
        ask_for_descriptors(&mut lane.control, "PING");
    }
}

#[test]
fn client_that_writes_random_words_ends_its_own_lane_only() {
    let count = number("FOREBAY_HOSTILE_LANES").unwrap_or(HOSTILE_LANES_DEFAULT);
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let (is_over, mut thrown) = (AtomicBool::new(false), [0; KINDS.len()]);
    thread::scope(|scope| {
        let good = scope.spawn(|| {
            let (mut lane, mut rounds) = (server.lane(RING_BYTES), 0);
            while !is_over.load(Ordering::Relaxed) {
                rounds += 1;
                let value = format!("value {rounds}");
                let requests = [
                    vec![b"SET".to_vec(), b"good".to_vec(), value.clone().into()],
                    words("GET good"),
                ];
                let replies = lane.pipeline(&requests);
                assert_eq!(replies[1].value, Value::Bulk(value.into()));
            }
            rounds
        });
        let end = AtEnd(&is_over);
        for seed in 1..=count {
            let mut lane = RawLane::sealed(&server);
            vandalise(&mut lane, &mut Prng::new(seed), &mut thrown);
        }
        drop(end);
        assert!(good.join().expect("others notice nothing") > 0);
    });
    let errors = server.info("shm_lane_errors");
    assert!(errors > count / 2, "{}", server.log());
    let kinds = KINDS.iter().zip(thrown).map(|(kind, count)| format!("{count} {kind}"));
    println!(
        "{} words over {count} lanes ({}), {} rings of their doorbells; {errors} lanes ended",
        thrown.iter().sum::<u64>(),
        kinds.collect::<Vec<_>>().join(", "),
        10 * count,
    );
    poll_until("all lanes to end", || server.info("shm_lanes") == 0);
    assert_eq!(server.info("shm_lane_bytes"), 0);
    assert_healthy(&server);
}

#[test]
fn bad_word_ends_the_lane_and_leaves_its_parent_and_the_other_lanes() {
    let server = Server::start(Kind::Forebay);
    let mut lane = RawLane::sealed(&server);
    lane.put_first(b"PING\r\n");
    poll_until("a reply", || lane.reply_tail() > 0);
    lane.memory.header()[REQUEST_TAIL_AT].store(3, Ordering::Relaxed);
    lane.doorbell.wake();
    poll_until("the lane to end", || server.info("shm_lanes") == 0);
    assert!(server.log().contains("Closing client that broke its lane"), "{}", server.log());
    assert_eq!(ask_for_descriptors(&mut lane.control, "PING").0, Value::Simple(b"PONG".to_vec()));
}

#[test]
fn lane_is_not_served_before_it_is_sealed() {
    let server = Server::start(Kind::Forebay);
    let mut lane = RawLane::offered(&server);
    lane.put_first(b"PING\r\n");
    assert_healthy(&server);
    assert_eq!(lane.reply_tail(), 0);
    lane.seal();
    poll_until("a reply", || lane.reply_tail() > 0);
    let again = ask_for_descriptors(&mut lane.control, &format!("SHM SEAL {}", lane.id)).0;
    assert_eq!(again, Value::Error(b"ERR the lane is sealed already".to_vec()));
}

#[test]
fn client_that_does_not_read_is_closed_at_its_limit() {
    let limit = "normal 1000000 0 0";
    let server = Launch::new(Kind::Forebay).option("client-output-buffer-limit", limit).start();
    server.tcp().ask(&vec![b"SET".to_vec(), b"key".to_vec(), vec![b'x'; 100_000]]);
    let lane = RawLane::sealed(&server);
    lane.put_first("GET key\r\n".repeat(5).as_bytes());
    poll_until("replies to wait", || lane.reply_tail() > 0);
    assert_healthy(&server);
    assert_eq!(server.info("shm_lanes"), 1);
    drop(lane);
    let lane = RawLane::sealed(&server);
    lane.put_first("GET key\r\n".repeat(15).as_bytes());
    poll_until("the lane to end", || server.info("shm_lanes") == 0);
    assert_eq!(server.info("client_output_buffer_limit_disconnections"), 1);
    assert_healthy(&server);
}

#[test]
fn lanes_are_refused_where_there_may_be_none() {
    let server = Launch::new(Kind::Forebay).option("shm-lanes-max", "4").start();
    let refusal = |line: &str, text: &str| {
        let mut control = UnixStream::connect(server.socket()).expect("the server is there");
        let expected = Value::Error(text.as_bytes().to_vec());
        assert_eq!(ask_for_descriptors(&mut control, line).0, expected, "{line}");
    };
    let sizes = "ERR a ring has a power of two of bytes from 4096 to 16777216";
    for line in ["0 4096", "4096 5000", "2048 4096", "-4096 4096", "4096 33554432"] {
        refusal(&format!("SHM LANE {line}"), sizes);
    }
    refusal("SHM LANE 4096 a", "ERR value is not an integer or out of range");
    let no_lane = "ERR this connection has no such lane";
    let mut other = RawLane::offered(&server);
    refusal(&format!("SHM SEAL {}", other.id), no_lane);
    refusal(&format!("SHM CLOSE {}", other.id), no_lane);
    refusal("SHM CLOSE 99999", no_lane);
    let not_unix = "ERR shared memory needs a connection by the unix socket";
    for line in ["SHM LANE 4096 4096", "SHM ATTACH"] {
        let expected = Value::Error(not_unix.as_bytes().to_vec());
        assert_eq!(server.tcp().call(line), expected, "{line} over TCP");
        assert_eq!(server.lane(4096).call(line), expected, "{line} over a lane");
        poll_until("the lane to end", || server.info("shm_lanes") == 1);
    }
    let second = RawLane::sealed(&server);
    refusal("SHM LANE 4096 4096", "ERR too many lanes");
    assert_eq!(
        ask_for_descriptors(&mut other.control, &format!("SHM CLOSE {}", other.id)).0.as_bytes(),
        Some(&b"OK"[..])
    );
    assert_eq!(server.info("shm_lanes"), 1);
    drop(second);
    poll_until("the lane to end", || server.info("shm_lanes") == 0);
    assert_eq!(server.info("connected_clients"), 2, "this one and `other`");
}

#[test]
fn client_that_holds_up_its_seal_holds_up_nobody_else() {
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    for (when, answer) in [("open", "refused"), ("closed", "sealing")] {
        let held_up = Script::hold_up_seals(&server, &["lane", when], 3);
        let Some((mut client, answers)) = held_up else { return };
        assert_eq!(answers, [answer; 3]);
        assert_healthy(&server);
        assert_eq!(server.lane(RING_BYTES).call("PING"), Value::Simple(b"PONG".to_vec()));
        poll_until("the other lane to end", || server.info("shm_lanes") == 3);
        client.tell("close");
        assert_eq!(client.step(), "closed");
        // Though the writes go on.
        poll_until("the lanes to end", || server.info("shm_lanes") == 0);
        assert_eq!(server.info("shm_lane_bytes"), 0);
        poll_until("it to be counted out", || server.info("connected_clients") == 1);
    }
}

/// As many as the server has threads for, and as one user may have at once.
#[test]
fn seals_that_many_users_hold_up_hold_up_nobody_else() {
    if sys::process::user_id() != 0 {
        return eprintln!("DID NOT RUN: only root can be several users");
    }
    let server = Launch::new(Kind::Forebay).option("unixsocketperm", "777").start();
    for when in ["open", "closed"] {
        let arguments = ["lane", when, "34", "20010"];
        let Some(_clients) = Script::hold_up_seals(&server, &arguments, 3 * 34) else { return };
        let attached = client::Attached::connect(server.socket(), None);
        attached.expect("this user may attach").exists(b"key").expect("it can read");
        assert_eq!(server.lane(RING_BYTES).call("PING"), Value::Simple(b"PONG".to_vec()));
    }
}

/// To zero them is not for a worker, which others wait for.
#[test]
fn pages_of_the_rings_are_not_there_before_somebody_maps_or_seals_them() {
    let server = Server::start(Kind::Forebay);
    let mut control = UnixStream::connect(server.socket()).expect("the server is there");
    let (reply, mut descriptors) = ask_for_descriptors(&mut control, "SHM LANE 1048576 1048576");
    let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
    let Value::Integer(id) = fields[1] else { panic!("a number: {reply:?}") };
    let memory = File::from(descriptors.swap_remove(0));
    let bytes_there = || memory.metadata().expect("it is open").blocks() * 512;
    assert_eq!(bytes_there(), 4096);
    close_for_writers(&memory).expect("nobody has done so");
    assert_eq!(bytes_there(), 4096);
    ask_for_descriptors(&mut control, &format!("SHM SEAL {id}"));
    poll_until("all to be there", || bytes_there() == 4096 + (2 << 20));
}

/// Two of a session are sealed at once; the others wait, and are refused no more than these.
#[test]
fn lanes_sealed_in_one_batch_are_all_served() {
    const COUNT: u64 = 40;
    let server = Server::start(Kind::Forebay);
    let mut control = UnixStream::connect(server.socket()).expect("the server is there");
    let (mut requests, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..COUNT {
        let (reply, descriptors) = ask_for_descriptors(&mut control, "SHM LANE 4096 4096");
        let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
        let Value::Integer(id) = fields[1] else { panic!("a number: {reply:?}") };
        encode_command(&[b"SHM", b"SEAL", id.to_string().as_bytes()], &mut requests);
        close_for_writers(&descriptors[0]).expect("nobody has done so");
        kept.extend(descriptors);
    }
    control.write_all(&requests).expect("the server takes requests");
    let mut replies = vec![0; "+OK\r\n".len() * COUNT as usize];
    control.read_exact(&mut replies).expect("the server answers");
    assert_eq!(replies, b"+OK\r\n".repeat(COUNT as usize));
    poll_until("all to be served, beside the parent and the one that asks", || {
        let listed = server.tcp().call("CLIENT LIST");
        let lines = listed.as_bytes().expect("a text").split(|byte| *byte == b'\n');
        lines.filter(|line| !line.is_empty()).count() as u64 == COUNT + 2
    });
}

#[test]
fn doorbells_that_clients_keep_are_not_waited_for() {
    const COUNT: usize = 8;
    let server = Server::start(Kind::Forebay);
    let mut control = UnixStream::connect(server.socket()).expect("the server is there");
    let mut make = || {
        let (reply, descriptors) = ask_for_descriptors(&mut control, "SHM LANE 4096 4096");
        let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
        let Value::Integer(id) = fields[1] else { panic!("a number: {reply:?}") };
        close_for_writers(&descriptors[0]).expect("nobody has done so");
        assert_eq!(
            ask_for_descriptors(&mut control, &format!("SHM SEAL {id}")).0.as_bytes(),
            Some(&b"OK"[..])
        );
        poll_until("it to be served", || server.info("shm_lanes") == 1);
        ask_for_descriptors(&mut control, &format!("SHM CLOSE {id}"));
        poll_until("it to end", || server.info("shm_lanes") == 0);
        descriptors
    };
    let mut kept = make();
    let before = harness::kernel::watched_count(server.process_id());
    kept.extend((0..COUNT).flat_map(|_| make()));
    poll_until("the doorbells to be let go", || {
        harness::kernel::watched_count(server.process_id()) < before + COUNT / 2
    });
    assert_eq!(kept.len(), 3 * (COUNT + 1));
}

#[test]
fn replies_beyond_the_ring_are_all_there_before_a_shutdown() {
    const VALUE_BYTES: usize = 100_000;
    let server = Server::start(Kind::Forebay);
    server.tcp().ask(&vec![b"SET".to_vec(), b"key".to_vec(), vec![b'x'; VALUE_BYTES]]);
    let lane = RawLane::sealed(&server);
    lane.put_first(b"GET key\r\n");
    poll_until("the reply to begin", || lane.reply_tail() > 0);
    server.signal("TERM");
    let RawLane { control: _control, memory, doorbell, .. } = lane;
    let (mut client, mut replies) = (LaneEnd::new(memory, Side::Client), Vec::new());
    poll_until("the lane to end", || {
        let is_over = client.is_closed();
        let count = client.read_appending(&mut replies, 1 << 20).expect("the server is honest");
        if count > 0 && client.claim(ROOM).is_some() {
            doorbell.wake();
        }
        is_over && count == 0
    });
    assert_eq!(replies.len(), "$100000\r\n".len() + VALUE_BYTES + "\r\n".len());
}

#[test]
fn clients_that_take_too_much_memory_are_closed_for_the_memory_of_their_lanes() {
    let server = Launch::new(Kind::Forebay).option("maxmemory-clients", "1mb").start();
    let mut control = UnixStream::connect(server.socket()).expect("the server is there");
    let (reply, descriptors) = ask_for_descriptors(&mut control, "SHM LANE 1048576 4096");
    let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
    let Value::Integer(id) = fields[1] else { panic!("a number: {reply:?}") };
    let unsealed = ask_for_descriptors(&mut control, &format!("SHM SEAL {id}")).0;
    let refusal = b"ERR the memory lacks the seals F_SEAL_FUTURE_WRITE and F_SEAL_SEAL";
    assert_eq!(unsealed, Value::Error(refusal.to_vec()));
    close_for_writers(&descriptors[0]).expect("nobody has done so");
    ask_for_descriptors(&mut control, &format!("SHM SEAL {id}"));
    poll_until("it to be evicted", || server.info("evicted_clients") == 1);
    poll_until("it to end", || server.info("shm_lanes") == 0);
    assert_eq!(ask_for_descriptors(&mut control, "PING").0, Value::Simple(b"PONG".to_vec()));
}

/// The steps that `lane_client.py` tells of.
const STEPS: u64 = 104;

#[test]
fn killed_client_leaves_no_lane_although_its_child_keeps_the_socket() {
    let server = Server::start(Kind::Forebay);
    let (mut random, mut times) = (Prng::new(1), Vec::new());
    let drawn = (0..number("FOREBAY_LANE_KILLS").unwrap_or(0)).map(|_| 1 + random.below(STEPS));
    for step_count in [1, 2, 3, 4, 5, 7, 20, STEPS].into_iter().chain(drawn) {
        let mut client = Script::start(&server, "lane_client.py", &[]);
        (0..step_count).for_each(|_| drop(client.step()));
        times.push(client.kill("its lanes to end", || server.info("shm_lanes") == 0));
        assert_eq!(server.info("shm_lane_bytes"), 0, "after {step_count} steps");
        assert_eq!(server.info("shm_lane_errors"), 0, "after {step_count} steps");
        drop(client);
        poll_until("its connection to end", || server.info("connected_clients") == 1);
    }
    report("their lanes", times);
}
