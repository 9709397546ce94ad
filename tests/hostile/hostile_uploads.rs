//! Upload memory with hostile and dying clients.
//!
//! `FOREBAY_UPLOAD_KILLS` is how many clients are killed at a random step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::prng::Prng;
use client::{Lane, Mode, Uploads};
use harness::{Kind, Launch, Server, number, poll_until};
use resp::Value;
use ring::UploadMemory;

use super::assert_healthy;
use super::hostile_lanes::ask_for_descriptors;
use super::script::{Script, report};

const SEGMENT_BYTES: u64 = 1 << 20;

fn server() -> Server {
    Launch::new(Kind::Forebay).option("segment-size", "1mb").start()
}

fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}

#[test]
fn upload_memory_is_refused_to_those_who_may_not_have_it() {
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("shm-upload-bytes-max", "2mb")
        .option("shm-upload-total-max", "3mb")
        .start();
    let not_unix = "ERR shared memory needs a connection by the unix socket";
    assert_eq!(server.tcp().call("SHM UPLOAD 1"), error(not_unix));
    assert_eq!(server.lane(4096).call("SHM UPLOAD 1"), error(not_unix));
    let full = "ERR this connection, or all together, have as much upload memory as they may";
    let mut first = server.unix();
    for bytes in ["2097153", "9223372036854775807"] {
        assert_eq!(first.call(&format!("SHM UPLOAD {bytes}")), error(full));
    }
    let below = error("ERR value is out of range, must be positive");
    assert_eq!(first.call("SHM UPLOAD -1"), below);
    assert!(matches!(first.call("SHM UPLOAD 2097152"), Value::Array(_)));
    assert_eq!(first.call("SHM UPLOAD 1"), error(full), "of this connection");
    let mut second = server.unix();
    assert!(matches!(second.call("SHM UPLOAD 1"), Value::Array(_)));
    assert_eq!(second.call("SHM UPLOAD 1"), error(full), "of all together");
    assert_eq!(server.info("shm_upload_bytes"), 3 * SEGMENT_BYTES);
    drop((first, second));
    poll_until("the memory to be gone", || server.info("shm_upload_bytes") == 0);
    assert_healthy(&server);
}

/// Upload memory is made room for as a write is, so that no write is refused for it.
#[test]
fn upload_memory_is_refused_where_it_would_stop_writes_and_else_evicted_for() {
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("maxmemory", "64mb")
        .start();
    let mut socket = server.unix();
    let set = |index: usize| {
        let key = format!("filler:{index}").into_bytes();
        vec![b"SET".to_vec(), key, vec![b'f'; 200_000]]
    };
    let ok = Value::Simple(b"OK".to_vec());
    for index in 0..275 {
        assert_eq!(socket.ask(&set(index)).value, ok, "{index}");
    }
    let refused = error("OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(server.unix().call("SHM UPLOAD 14000000"), refused);
    assert_eq!(socket.ask(&set(0)).value, ok, "there is room as before");
    socket.call("CONFIG SET maxmemory-policy allkeys-lru");
    let mut owner = server.unix();
    assert!(matches!(owner.call("SHM UPLOAD 14000000"), Value::Array(_)));
    assert!(server.info("used_memory") <= 64 << 20);
    // 15 segments are 79 values of this size. Not many more may go than there is no room for, and
    // what is written next finds room in the same way.
    let evicted = server.info("evicted_keys");
    assert!((1..79).contains(&evicted), "{evicted} keys were evicted");
    for index in 275..285 {
        assert_eq!(socket.ask(&set(index)).value, ok, "{index}");
    }
    assert!(server.info("used_memory") <= 64 << 20);
}

#[test]
fn what_is_not_an_own_open_upload_is_refused_and_nothing_is_lost() {
    let server = server();
    let (mut own, mut other) = (server.bare_lane(65_536), server.bare_lane(65_536));
    let uploads = own.uploads(1).expect("there is room");
    let theirs = other.uploads(1).expect("there is room");
    let mut room = uploads.allocate(8192, |it| own.pipeline(it)).expect("there is room");
    room.fill(b'v');
    let foreign = theirs.allocate(8192, |it| other.pipeline(it)).expect("there is room");
    let none = "ERR no uncommitted upload at this offset";
    let offset = room.offset();
    let mut call = |line: String| {
        let words = harness::words(&line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match own.call(&words) {
            Ok(Value::Error(text)) => String::from_utf8_lossy(&text).into_owned(),
            Ok(other) => format!("{other:?}"),
            Err(client::AttachError::Refused(text)) => text,
            Err(other) => panic!("{line}: {other}"),
        }
    };
    for wrong in [foreign.offset(), offset + 64, offset + 1, offset - 64, 0, i64::MAX as u64] {
        for mode in ["COPY", "ADOPT"] {
            assert_eq!(call(format!("SHM COMMIT {wrong} 8 {mode} key")), none, "{wrong}");
        }
        assert_eq!(call(format!("SHM FREE {wrong}")), none, "{wrong}");
    }
    assert_eq!(
        call(format!("SHM COMMIT {offset} 8193 ADOPT key")),
        "ERR the upload has 8192 bytes"
    );
    let long = call(format!("SHM COMMIT {offset} 9223372036854775807 COPY key"));
    assert!(long.starts_with("ERR string exceeds maximum"), "{long}");
    let negative = "ERR value is out of range, must be positive";
    assert_eq!(call(format!("SHM COMMIT {offset} -1 COPY key")), negative);
    assert_eq!(call(format!("SHM COMMIT -{offset} 8 COPY key")), negative);
    assert_eq!(call(format!("SHM COMMIT {offset} 8 STEAL key")), "ERR syntax error");
    assert_eq!(call(format!("SHM COMMIT {offset} 8 COPY key EX 0")).split(' ').next(), Some("ERR"));
    assert_eq!(call(format!("SHM COMMIT {offset} 8 COPY key NX XX")), "ERR syntax error");
    assert_eq!(call("SHM ALLOC 1048577".into()), "ERR no room in the upload memory");
    assert_eq!(call("SHM ALLOC 9223372036854775807".into()), "ERR no room in the upload memory");
    assert_eq!(server.info("shm_uploads_open"), 2, "both are as they were");
    let twice = format!("SHM COMMIT {offset} 8192 ADOPT key");
    assert!(call(twice.clone()).contains("Simple"));
    assert_eq!(call(twice), none, "it has been committed");
    assert_eq!(call(format!("SHM FREE {offset}")), none, "it has been committed");
    assert_eq!(call("STRLEN key".into()), "Integer(8192)");
    assert_eq!(server.info("shm_adopted_values"), 1);
    assert_eq!(server.unix().call("GET key"), Value::Bulk(vec![b'v'; 8192]));
    for _ in 0..2000 {
        if call("SHM ALLOC 1".into()).starts_with("ERR too many uncommitted uploads") {
            return assert_healthy(&server);
        }
    }
    panic!("uncommitted uploads without end");
}

#[test]
fn memory_is_not_used_before_it_is_sealed_nor_mapped_for_writing_afterwards() {
    let server = server();
    let mut control =
        std::os::unix::net::UnixStream::connect(server.socket()).expect("it is there");
    let (reply, descriptors) = ask_for_descriptors(&mut control, "SHM UPLOAD 1");
    let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
    let Value::Integer(offset) = fields[1] else { panic!("a number: {reply:?}") };
    let mut ask = |line: &str| ask_for_descriptors(&mut control, line).0;
    assert_eq!(ask("SHM ALLOC 64"), error("ERR no such upload memory"));
    let memory = UploadMemory::map(offset as u64, SEGMENT_BYTES, &descriptors);
    let memory = Arc::new(memory.expect("it is writable so far"));
    let opening = format!("SHM OPEN {offset}");
    poll_until("it to be sealed", || ask(&opening) == Value::Integer(1));
    assert_eq!(ask("SHM OPEN 0"), error("ERR no such upload memory"));
    let late = UploadMemory::map(offset as u64, SEGMENT_BYTES, &descriptors);
    assert_eq!(late.err().map(|error| error.kind()), Some(std::io::ErrorKind::PermissionDenied));
    assert_eq!(ask("SHM ALLOC 64"), Value::Integer(offset));
    memory.buffer(offset as u64, 64).expect("nobody has it").fill(b'x');
    assert_eq!(ask(&format!("SHM COMMIT {offset} 3 COPY key")), Value::Simple(b"OK".to_vec()));
    assert_eq!(ask("GET key"), Value::Bulk(b"xxx".to_vec()));
}

/// A client that goes on writing all of its memory, what it has committed too, while others use the
/// values: they have the right length, and everything else is as it should be.
#[test]
fn client_that_writes_on_spoils_its_own_values_only() {
    const ROUNDS: u64 = 300;
    let server = server();
    let mut own = server.bare_lane(65_536);
    let uploads = own.uploads(SEGMENT_BYTES).expect("there is room");
    // One room over all of the memory that is never committed, and cut into others by the server.
    let is_over = AtomicBool::new(false);
    let mut control =
        std::os::unix::net::UnixStream::connect(server.socket()).expect("it is there");
    let (reply, descriptors) = ask_for_descriptors(&mut control, "SHM UPLOAD 1");
    let Value::Array(fields) = &reply else { panic!("a map: {reply:?}") };
    let Value::Integer(offset) = fields[1] else { panic!("a number: {reply:?}") };
    let memory = UploadMemory::map(offset as u64, SEGMENT_BYTES, &descriptors);
    let memory = Arc::new(memory.expect("it is writable so far"));
    let opening = format!("SHM OPEN {offset}");
    poll_until("it to be sealed", || {
        ask_for_descriptors(&mut control, &opening).0 == Value::Integer(1)
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut all = memory.buffer(offset as u64, SEGMENT_BYTES).expect("nobody has it");
            let mut random = Prng::new(1);
            while !is_over.load(Ordering::Relaxed) {
                let at = random.below(SEGMENT_BYTES - 4096) as usize;
                all[at..at + 4096].fill(random.next() as u8);
            }
        });
        let mut socket = server.unix();
        for round in 0..ROUNDS {
            let mut ask = |line: &str| ask_for_descriptors(&mut control, line).0;
            let Value::Integer(at) = ask("SHM ALLOC 50000") else { panic!("there is room") };
            let mode = if round % 2 == 0 { "ADOPT" } else { "COPY" };
            let stored = ask(&format!("SHM COMMIT {at} 50000 {mode} spoilt:{}", round % 5));
            assert_eq!(stored, Value::Simple(b"OK".to_vec()));
            let key = format!("spoilt:{}", round % 5);
            assert_eq!(socket.call(&format!("STRLEN {key}")), Value::Integer(50_000));
            if round % 4 > 0 {
                let part = socket.call(&format!("GETRANGE {key} 100 40000"));
                assert_eq!(part.as_bytes().map(<[u8]>::len), Some(39_901));
            }
            if round % 4 > 1 {
                let count = socket.call(&format!("BITCOUNT {key}"));
                assert!(matches!(count, Value::Integer(0..=400_000)), "{count:?}");
            }
            if round % 4 > 2 {
                assert_eq!(socket.call(&format!("APPEND {key} tail")), Value::Integer(50_004));
                assert_eq!(socket.call(&format!("STRLEN {key}")), Value::Integer(50_004));
            }
            honest_round(&uploads, &mut own, round);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_healthy(&server);
    assert_eq!(server.info("shm_uploads_open"), 0);
}

/// Puts a value by another session, and reads it back.
fn honest_round(uploads: &Uploads, lane: &mut Lane, round: u64) {
    let mut room = uploads.allocate(20_000, |it| lane.pipeline(it)).expect("there is room");
    room.fill(round as u8);
    let target: (&[u8], &[&[u8]]) = (b"honest", &[]);
    let mode = if round.is_multiple_of(3) { Mode::Copy } else { Mode::Adopt };
    let stored = uploads.commit((room, 20_000), mode, target, 0, |it| lane.pipeline(it));
    stored.expect("it is open");
    let read = lane.call(&[b"GET", b"honest"]).expect("the server answers");
    assert_eq!(read, Value::Bulk(vec![round as u8; 20_000]));
}

#[test]
fn client_that_holds_up_the_seal_of_its_uploads_holds_up_nobody_else() {
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let held_up = Script::hold_up_seals(&server, &["upload", "closed"], 1);
    let Some((mut client, answers)) = held_up else { return };
    assert_eq!(answers, ["sealing"]);
    assert_healthy(&server);
    let mut lane = server.bare_lane(65_536);
    let uploads = lane.uploads(1).expect("there is room");
    honest_round(&uploads, &mut lane, 1);
    assert_eq!(server.info("shm_upload_runs"), 2);
    client.kill("its memory to be gone", || server.info("shm_upload_runs") == 1);
    honest_round(&uploads, &mut lane, 2);
}

/// The steps that `upload_client.py` tells of: four, and five for each of 25 values.
const STEPS: u64 = 129;
/// The length of each value.
const VICTIM_BYTES: usize = 40_000;

#[test]
fn killed_client_leaves_the_values_that_it_committed_and_nothing_else() {
    let server = server();
    let (mut random, mut times) = (Prng::new(2), Vec::new());
    let drawn = (0..number("FOREBAY_UPLOAD_KILLS").unwrap_or(0)).map(|_| 1 + random.below(STEPS));
    for step_count in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 30, STEPS].into_iter().chain(drawn) {
        let mut client = Script::start(&server, "upload_client.py", &[]);
        let steps: Vec<String> = (0..step_count).map(|_| client.step()).collect();
        times.push(client.kill("its uploads to end", || server.info("shm_uploads_open") == 0));
        drop(client);
        poll_until("its connection to end", || server.info("connected_clients") == 1);
        assert_eq!(server.info("used_memory_extents_reserved"), 0, "what was copied ahead");
        let mut socket = server.unix();
        for (index, key) in steps.iter().filter_map(|line| line.strip_prefix("stored ")).enumerate()
        {
            let value = vec![65 + index as u8; VICTIM_BYTES];
            let length = Value::Integer(VICTIM_BYTES as i64);
            assert_eq!(socket.call(&format!("STRLEN {key}")), length);
            assert_eq!(socket.call(&format!("GET {key}")), Value::Bulk(value), "{key}");
        }
        socket.call("FLUSHALL");
        poll_until("its memory to be gone", || server.info("shm_upload_bytes") == 0);
        assert_eq!(server.info("shm_adopted_values"), 0, "after {step_count} steps");
    }
    report("their open uploads", times);
}
