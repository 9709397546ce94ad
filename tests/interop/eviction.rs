//! Eviction, and keys that are read in the server's memory alone.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use client::{Attached, DatabaseIndex};
use harness::{Connection, Kind, Launch, Request, Server, poll_until, request};
use resp::Value as Reply;

/// Keys that are read in memory, and as many that nobody reads.
const KEYS: usize = 200;
const VALUE: [u8; 300] = [b'v'; 300];
/// What a round writes.
const ROUND_KEYS: usize = 500;
/// For how long a round reads at least: accesses are dated in steps of 59 ms.
const ROUND_TIME: Duration = Duration::from_millis(20);
const ROUNDS_MAX: usize = 400;

fn server(policy: &str) -> Server {
    let launch = Launch::new(Kind::Forebay).option("maxmemory", "8mb");
    launch.option("maxmemory-policy", policy).start()
}

fn set(key: &str) -> Request {
    request(&[b"SET", key.as_bytes(), &VALUE])
}

fn names(kind: &str) -> Vec<String> {
    (0..KEYS).map(|index| format!("{kind}:{index}")).collect()
}

fn count(writer: &mut Connection, names: &[String]) -> usize {
    let requests: Vec<Request> =
        names.iter().map(|name| request(&[b"EXISTS", name.as_bytes()])).collect();
    let replies = writer.pipeline(&requests);
    replies.iter().filter(|reply| reply.value == Reply::Integer(1)).count()
}

/// Reads `names` again and again for a while.
fn read_all(attached: &Attached, names: &[String], value: &mut Vec<u8>) {
    let began = Instant::now();
    while began.elapsed() < ROUND_TIME {
        for name in names {
            attached.get(name.as_bytes(), value).expect("the memory can be read");
        }
    }
}

#[test]
fn keys_that_are_read_in_memory_alone_outlive_those_that_are_not() {
    for policy in ["allkeys-lru", "allkeys-lfu"] {
        let server = server(policy);
        let mut attached = Attached::connect(server.socket(), None).expect("the same user");
        attached.select(DatabaseIndex(3)).expect("there are 16");
        let (mut writer, mut value) = (server.unix(), Vec::new());
        writer.call("SELECT 3");
        let (read, unread) = (names("read"), names("unread"));
        for name in read.iter().chain(&unread) {
            writer.ask(&set(name));
        }
        let mut round = 0;
        while count(&mut writer, &unread) > KEYS / 10 {
            assert!(round < ROUNDS_MAX, "{policy}: nothing is evicted");
            read_all(&attached, &read, &mut value);
            let new = (0..ROUND_KEYS).map(|index| set(&format!("new:{round}:{index}")));
            writer.pipeline(&new.collect::<Vec<_>>());
            round += 1;
        }
        let left = count(&mut writer, &read);
        assert!(left >= KEYS * 9 / 10, "{policy}: {left} of {KEYS} are left");
        assert!(server.info("shm_touches") > 0);
    }
}

#[test]
fn reads_in_memory_leave_no_touch_while_the_connection_says_so() {
    let server = server("allkeys-lfu");
    server.unix().call("SET key value");
    for (mode, reads) in [("ON", 100_000), ("OFF", 1_000)] {
        let mut stream = UnixStream::connect(server.socket()).expect("the server listens");
        write!(stream, "CLIENT NO-TOUCH {mode}\r\n").expect("it reads");
        stream.read_exact(&mut [0; "+OK\r\n".len()]).expect("it answers");
        let attached = Attached::over_stream(stream, None).expect("the same user");
        let mut value = Vec::new();
        (0..reads).for_each(|_| assert!(attached.get(b"key", &mut value).expect("it is there")));
    }
    // One in 64 of the latter; the former would be a thousand.
    poll_until("the reports of a session that ended", || server.info("shm_touches") > 0);
    assert!(server.info("shm_touches") < 100);
}

#[test]
fn look_at_a_small_value_is_one_use() {
    let server = server("allkeys-lfu");
    server.unix().call("SET key value");
    let (attached, mut buffer) = (Attached::connect(server.socket(), None), Vec::new());
    let attached = attached.expect("the same user");
    for _ in 0..40_000 {
        let value = attached.view(b"key", &mut buffer).expect("the memory can be read");
        assert_eq!(*value.expect("it is there"), *b"value");
    }
    drop(attached);
    // One in 64: 625, and 1,250 if each were two.
    poll_until("the reports of a session that ended", || server.info("shm_touches") > 500);
    assert!(server.info("shm_touches") < 800);
}
