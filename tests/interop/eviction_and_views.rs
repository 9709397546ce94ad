//! Eviction, and keys that are read in the server's memory alone.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use client::{Attached, Client, DatabaseIndex, View};
use harness::{Connection, Kind, Launch, Request, Server, bytes, poll_until, request};
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

/// What is pinned is not evicted. Clients pin no more than their shares of a quarter of the memory,
/// so that whoever holds many views keeps nobody from writing.
#[test]
fn views_hold_their_share_of_the_memory_and_writers_find_room() {
    const LENGTH: usize = 256 << 10;
    let launch = Launch::new(Kind::Forebay).option("maxmemory", "16mb");
    let server = launch.option("maxmemory-policy", "allkeys-lru").start();
    let url = format!("shm://{}", server.socket().display());
    let first = Client::connect(&url).expect("it serves");
    assert_eq!((server.info("shm_sessions"), server.info("shm_view_share")), (1, 4 << 20));
    let mut writer = server.unix();
    let hold = |client: &Client, writer: &mut Connection, kind: &str| -> Vec<(usize, View)> {
        let view = |index: usize| {
            let key = format!("{kind}:{index}");
            let set = request(&[b"SET", key.as_bytes(), &bytes(index, LENGTH)]);
            assert_eq!(writer.ask(&set).value, Reply::Simple("OK".into()), "{key}");
            (index, client.get(key.as_bytes()).expect("it serves").expect("it was just stored"))
        };
        (0..63).map(view).collect()
    };
    let pinned = |views: &[(usize, View)]| views.iter().filter(|(_, it)| it.is_pinned()).count();
    let mut views = hold(&first, &mut writer, "first");
    assert_eq!(pinned(&views), 16);
    // A second session takes half, of which the first gives back what is beyond as it lets go.
    let second = Client::connect(&url).expect("it serves");
    let others = hold(&second, &mut writer, "second");
    assert_eq!((pinned(&others), server.info("shm_view_share")), (8, 2 << 20));
    for index in 0..600 {
        let key = format!("key:{index}");
        let reply = writer.ask(&request(&[b"SET", key.as_bytes(), &bytes(index, 50_000)]));
        assert_eq!(reply.value, Reply::Simple("OK".into()), "{index}");
    }
    assert_eq!(server.info("shm_retired_bytes") >> 18, 0, "they are not evicted");
    writer.call("FLUSHALL");
    assert_eq!(server.info("shm_retired_bytes") >> 18, 24, "each is still a view's");
    assert!(views.iter().chain(&others).all(|(index, view)| **view == bytes(*index, LENGTH)));
    views.clear();
    assert_eq!(pinned(&hold(&first, &mut writer, "again")), 8);
    drop((second, others));
    poll_until("its session to end", || server.info("shm_view_share") == 4 << 20);
    assert_eq!(pinned(&hold(&first, &mut writer, "alone")), 16);
    writer.call("CONFIG SET maxmemory 0");
    assert_eq!(pinned(&hold(&first, &mut writer, "endless")), 63);
    writer.call("CONFIG SET shm-view-total-max 1mb");
    assert_eq!(pinned(&hold(&first, &mut writer, "option")), 4);
}
