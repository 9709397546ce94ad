//! Sessions that read by themselves, and write anything into the one memory that they may write:
//! the pin table, with its slots and its ring of reports.
//!
//! `FOREBAY_HOSTILE_PINS` sets how many words are written.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use base::prng::Prng;
use client::Attached;
use harness::{Connection, Kind, Launch, Server, bytes, number, poll_until, request};
use resp::Value;
use sys::memfd_segments::{SharedBlock, close_for_writers};

use super::hostile_lanes::ask_for_descriptors;
use super::script::Script;
use super::{AtEnd, assert_healthy};

const WORDS_DEFAULT: u64 = 200_000;
/// Words that are written between two requests of the session that writes them.
const WORDS_PER_ROUND: u64 = 1_000;
/// Rounds of one session before another takes its place.
const ROUNDS_PER_SESSION: u64 = 20;

/// Rounds of an honest client beside them, at least.
const HONEST_ROUNDS_MIN: u64 = 300;

/// What kinds of words are written, and how many of each were.
const KINDS: [&str; 6] =
    ["random", "offsets in the arena", "of the top", "single bits", "zeros", "in the first line"];

/// A session whose table is written over.
struct RawTable {
    control: UnixStream,
    block: SharedBlock,
    span_bytes: u64,
}

impl RawTable {
    /// Attaches, and maps the table.
    fn offered(server: &Server) -> RawTable {
        let mut control = UnixStream::connect(server.socket()).expect("the server is there");
        let (reply, mut descriptors) = ask_for_descriptors(&mut control, "SHM ATTACH");
        let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
        let field = |name: &str| {
            let is_named = |pair: &&[Value]| pair[0] == Value::Bulk(name.as_bytes().to_vec());
            match fields.chunks_exact(2).find(is_named) {
                Some([_, Value::Integer(number)]) => *number as u64,
                _ => panic!("{name}: {reply:?}"),
            }
        };
        let (bytes, span_bytes) = (field("pin-bytes"), field("span-bytes"));
        let descriptor = descriptors.pop().expect("the table's");
        let block = SharedBlock::open(descriptor, bytes).expect("it is sealed memory");
        RawTable { control, block, span_bytes }
    }

    /// Attaches, and has the table sealed: the server looks at it from then on.
    fn attached(server: &Server) -> RawTable {
        let mut table = RawTable::offered(server);
        poll_until("the table to be sealed", || table.segment_count() > 0);
        table
    }

    /// Asks for the segments; returns how many there are.
    fn segment_count(&mut self) -> usize {
        let reply = ask_for_descriptors(&mut self.control, "SHM SEGMENTS 0").0;
        let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
        let Value::Array(segments) = &fields[3] else { panic!("a list: {reply:?}") };
        segments.len() / 2
    }

    /// Says that the first slot holds a block.
    fn pin(&self) {
        let words = self.block.words();
        words[0].store(1, Ordering::Relaxed);
        words[8].store(640, Ordering::Relaxed);
    }

    /// Writes words of all kinds all over the table, and has the server do something.
    fn vandalise(&mut self, random: &mut Prng, thrown: &mut [u64; KINDS.len()]) {
        let words = self.block.words();
        for _ in 0..WORDS_PER_ROUND {
            let kind = random.below(KINDS.len() as u64) as usize;
            let (mut index, value) = (
                random.below(words.len() as u64),
                match kind {
                    0 | 5 => random.next(),
                    1 => random.below(self.span_bytes) & !15,
                    2 => u64::MAX - random.below(64),
                    3 => 1 << random.below(64),
                    _ => 0,
                },
            );
            if kind == 5 {
                index = random.below(8);
            }
            words[index as usize].store(value, Ordering::Relaxed);
            thrown[kind] += 1;
        }
        ask_for_descriptors(&mut self.control, "PING");
    }
}

/// Reads and writes as honest clients do until it `is_over`; counts how often.
fn work_on(server: &Server, is_over: &AtomicBool, rounds: &AtomicU64) {
    const KEYS: usize = 40;
    let attached = Attached::connect(server.socket(), None).expect("this user may attach");
    let (mut writer, mut buffer) = (server.unix(), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        let (seed, length) = (round as usize, 3000 + (round as usize * 797) % 60_000);
        let key = format!("key:{}", seed % KEYS);
        let value = bytes(seed, length);
        writer.ask(&request(&[b"SET", key.as_bytes(), &value]));
        check(&attached, &key, &value, &mut buffer);
        if round.is_multiple_of(7) {
            writer.ask(&request(&[b"APPEND", key.as_bytes(), b"tail"]));
            check(&attached, &key, &[value.as_slice(), b"tail"].concat(), &mut buffer);
        }
    }
}

/// Looks whether `key` holds `value`, unless it was evicted, and APPEND has made it anew.
fn check(attached: &Attached, key: &str, value: &[u8], buffer: &mut Vec<u8>) {
    let view = attached.view(key.as_bytes(), buffer).expect("it is a string");
    if let Some(view) = view {
        assert!(*view == *value || *view == *b"tail", "{key} has {} bytes", view.len());
    }
}

#[test]
fn table_is_looked_at_from_its_sealing_on() {
    let server = Server::start(Kind::Forebay);
    let mut table = RawTable::offered(&server);
    table.pin();
    assert_eq!((server.info("shm_sessions"), server.info("shm_pins")), (1, 0));
    poll_until("the table to be sealed", || table.segment_count() > 0);
    assert_eq!((server.info("shm_sessions"), server.info("shm_pins")), (1, 1));
    drop(table);
    poll_until("the session to end", || server.info("shm_sessions") == 0);
    assert_eq!(server.info("shm_pins"), 0);
    assert_healthy(&server);
}

/// What its client could take out of the table, the system would have to bring anew when the server
/// looks.
#[test]
fn sealed_table_is_closed_for_writers_and_seals() {
    let server = Server::start(Kind::Forebay);
    let table = RawTable::attached(&server);
    let descriptor = table.block.as_fd().try_clone_to_owned().expect("there are some left");
    assert!(SharedBlock::open(descriptor, table.block.bytes()).is_err(), "no further writer");
    assert!(close_for_writers(&table.block).is_err(), "no further seal");
    table.pin();
    assert_eq!(server.info("shm_pins"), 1, "it is written all the same");
}

#[test]
fn table_that_its_client_has_not_closed_for_writers_gets_no_segments() {
    let server = Server::start(Kind::Forebay);
    let mut control = UnixStream::connect(server.socket()).expect("the server is there");
    let (_, descriptors) = ask_for_descriptors(&mut control, "SHM ATTACH");
    let mut answer = || ask_for_descriptors(&mut control, "SHM SEGMENTS 0").0;
    let refusal = b"ERR the memory lacks the seals F_SEAL_FUTURE_WRITE and F_SEAL_SEAL";
    assert_eq!(answer(), Value::Error(refusal.to_vec()));
    assert_eq!(answer(), Value::Error(refusal.to_vec()));
    close_for_writers(&descriptors[0]).expect("nobody has done so");
    poll_until(
        "the server to see",
        || matches!(answer(), Value::Array(fields) if fields[3] != Value::Array(Vec::new())),
    );
    let again = ask_for_descriptors(&mut control, "SHM ATTACH").0;
    assert_eq!(again, Value::Error(b"ERR this connection is attached already".to_vec()));
    assert_healthy(&server);
}

#[test]
fn client_that_holds_up_the_seal_of_its_table_holds_up_nobody_else() {
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let held_up = Script::hold_up_seals(&server, &["table", "closed"], 1);
    let Some((mut client, answers)) = held_up else { return };
    assert_eq!(answers, ["sealing"]);
    assert_healthy(&server);
    server.tcp().call("SET key value");
    let (attached, mut value) = (Attached::connect(server.socket(), None), Vec::new());
    let attached = attached.expect("this user may attach");
    assert!(attached.get(b"key", &mut value).expect("it is a string"));
    assert_eq!(server.info("shm_sessions"), 2);
    client.kill("its session to end", || server.info("shm_sessions") == 1);
    assert!(attached.get(b"key", &mut value).expect("it is a string"));
    assert_healthy(&server);
}

#[test]
fn session_that_writes_random_words_over_its_table_harms_nobody() {
    let count = number("FOREBAY_HOSTILE_PINS").unwrap_or(WORDS_DEFAULT);
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("maxmemory", "64mb")
        .option("maxmemory-policy", "allkeys-lru")
        .start();
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut thrown, mut sessions) = ([0; KINDS.len()], 0);
    thread::scope(|scope| {
        let honest = scope.spawn(|| work_on(&server, &is_over, &rounds));
        let end = AtEnd(&is_over);
        let mut random = Prng::new(1);
        let is_honest_short =
            || rounds.load(Ordering::Relaxed) < HONEST_ROUNDS_MIN && !honest.is_finished();
        while thrown.iter().sum::<u64>() < count || is_honest_short() {
            sessions += 1;
            let mut table = RawTable::attached(&server);
            for _ in 0..ROUNDS_PER_SESSION {
                table.vandalise(&mut random, &mut thrown);
            }
        }
        drop(end);
        honest.join().expect("others notice nothing");
    });
    let rounds = rounds.into_inner();
    poll_until("all sessions to end", || server.info("shm_sessions") == 0);
    assert_eq!(server.info("shm_pins"), 0);
    let mut after: Connection = server.unix();
    after.call("FLUSHALL");
    poll_until("what was pinned to be free", || server.info("used_memory") < 32 << 20);
    assert_healthy(&server);
    let kinds = KINDS.iter().zip(thrown).map(|(kind, count)| format!("{count} {kind}"));
    println!(
        "{} words over the pin tables of {sessions} sessions ({}); {rounds} honest rounds beside",
        thrown.iter().sum::<u64>(),
        kinds.collect::<Vec<_>>().join(", "),
    );
}
