//! Our own client over each of its transports: the same answers, one client for all threads, and
//! what happens when the server refuses, is silent, or ends.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use base::prng::Prng;
use client::{Client, ClientError, Reply, SetOptions, TimeToLive, Transport, View};
use harness::{
    Kind, Launch, Server, TempFolder, bytes, command, forebay, free_port, kernel, let_pass, poll,
    poll_until, request, run, words,
};
use sys::allocations;

use super::urls;

/// The database that the clients of the table read.
const DATABASE: &str = "5";

fn connect(url: &str) -> Client {
    Client::connect(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn clients(server: &Server, query: &str) -> [Client; 3] {
    urls(server, query).map(|url| connect(&url))
}

type Table = [(&'static str, fn(&Client, &[u8]) -> String); 11];

/// What is asked of each client for each key; what comes is compared as text.
const OPERATIONS: Table = [
    ("get", |client, key| format!("{:?}", client.get(key).map(digest))),
    ("get_into", |client, key| {
        let mut value = b"of an earlier read".to_vec();
        let found = client.get_into(key, &mut value);
        let is_error = found.is_err();
        format!("{found:?} {:?}", (!is_error).then(|| digest_of(&value)))
    }),
    ("mget", |client, key| {
        let values = client.mget(&[b"absent", key, b"small", key]);
        format!("{:?}", values.map(|values| values.into_iter().map(digest).collect::<Vec<_>>()))
    }),
    ("exists", |client, key| format!("{:?}", client.exists(key))),
    ("strlen", |client, key| format!("{:?}", client.strlen(key))),
    ("ttl", |client, key| {
        // The clock runs on between two clients.
        let whole_days = |left: Duration| Duration::from_secs(left.as_secs() / 86400 * 86400);
        let ttl = client.ttl(key).map(|ttl| match ttl {
            TimeToLive::Left(left) => TimeToLive::Left(whole_days(left)),
            other => other,
        });
        format!("{ttl:?}")
    }),
    ("getrange", |client, key| {
        let parts = [(0, -1), (-9, -2), (3, 4000), (5, 2), (i64::MAX, i64::MIN)];
        let parts =
            parts.map(|(start, end)| client.getrange(key, start, end).map(|part| digest_of(&part)));
        format!("{parts:?}")
    }),
    ("get_blocking", |client, key| {
        format!("{:?}", client.get_blocking(key, Duration::from_millis(1)).map(digest))
    }),
    ("call", |client, key| format!("{:?}", client.call(&[b"GETRANGE", key, b"-9", b"-2"]))),
    ("unknown", |client, key| format!("{:?}", client.call(&[b"NOSUCH", key]))),
    ("pipeline", |client, key| {
        let long = [b"APPEND".as_slice(), b"", &bytes(3, 70_000)];
        let requests: [&[&[u8]]; 5] =
            [&[b"GET", key], &[b"NOSUCH"], &long, &[b"GETDEL", b""], &[b"EXPIRETIME", key]];
        let replies = client.pipeline(&requests);
        format!("{:?}", replies.map(|replies| replies.iter().map(reply_text).collect::<Vec<_>>()))
    }),
];

/// Returns what a value is, however it came: its length and a hash, as it may be long.
fn digest(view: Option<View>) -> Option<(usize, u64)> {
    view.map(|view| digest_of(&view))
}

fn digest_of(value: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    hasher.write(value);
    (value.len(), hasher.finish())
}

fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(value) => format!("{:?}", digest_of(value)),
        other => format!("{other:?}"),
    }
}

#[test]
fn every_transport_gives_the_same_answers() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let mut writer = server.unix();
    writer.call("SET small zero");
    writer.call("SET elsewhere zero");
    writer.call(&format!("SELECT {DATABASE}"));
    let lengths = [0, 1, 63, 64, 65, 4000, 4100, 70_000, 3 << 20];
    let mut keys: Vec<String> = lengths.map(|length| format!("length:{length}")).into();
    for (seed, (key, length)) in keys.iter().zip(lengths).enumerate() {
        writer.ask(&request(&[b"SET", key.as_bytes(), &bytes(seed, length)]));
    }
    for line in [
        "SET small value",
        "SET number 41",
        "INCR number",
        "RPUSH list a b",
        "SET living 1 PXAT 4102444800000",
        "SET expired 1 PX 1",
    ] {
        writer.call(line);
    }
    poll_until("a key to expire", || writer.call("EXISTS expired") == Reply::Integer(0));
    let names = ["small", "number", "list", "living", "expired", "elsewhere", "absent"];
    keys.extend(names.map(str::to_owned));
    let [shm, unix, tcp] = clients(&server, &format!("?db={DATABASE}"));
    assert_eq!(shm.transport().unwrap(), Transport::SharedMemory);
    assert_eq!(unix.transport().unwrap(), Transport::Unix);
    assert_eq!(tcp.transport().unwrap(), Transport::Tcp);
    for key in &keys {
        for (name, operation) in OPERATIONS {
            let expected = operation(&tcp, key.as_bytes());
            for client in [&shm, &unix] {
                let found = operation(client, key.as_bytes());
                assert!(found == expected, "{name} {key} over {client:?}: {found}, not {expected}");
            }
        }
    }
    assert!(shm.get(b"length:4100").unwrap().expect("it is there").is_pinned());
    assert!(!shm.get(b"length:4000").unwrap().expect("it is there").is_pinned());
    assert_eq!(shm.get(b"list").unwrap_err().code(), Some("WRONGTYPE"));
}

#[test]
fn values_are_put_as_their_options_say() {
    let server = Server::start(Kind::Forebay);
    for client in clients(&server, "?db=3") {
        client.call(&[b"FLUSHALL"]).unwrap();
        let put = |value: &str, options: SetOptions| {
            client.put_with(b"key", value.as_bytes(), &options).unwrap()
        };
        assert!(!put("one", SetOptions::new().if_present()));
        assert!(put("one", SetOptions::new().if_absent()));
        assert!(!put("two", SetOptions::new().if_absent()));
        assert!(!put("two", SetOptions::new().if_equal(b"other")));
        assert!(put("two", SetOptions::new().if_equal(b"one")));
        assert_eq!(client.ttl(b"key").unwrap(), TimeToLive::Endless);
        assert!(put("three", SetOptions::new().expires_in(Duration::from_secs(1000))));
        assert!(put("four", SetOptions::new().keeps_time_to_live()));
        assert!(matches!(client.ttl(b"key").unwrap(), TimeToLive::Left(_)));
        assert!(put("five", SetOptions::new()));
        assert_eq!(client.ttl(b"key").unwrap(), TimeToLive::Endless);
        assert_eq!(*client.get(b"key").unwrap().expect("it was put"), *b"five");
        let zero = SetOptions::new().expires_in(Duration::ZERO);
        let refusal = client.put_with(b"key", b"six", &zero).unwrap_err();
        assert_eq!(refusal.to_string(), "ERR invalid expire time in 'set' command");
    }
}

#[test]
fn created_value_is_seen_when_it_is_sealed_and_never_when_it_is_dropped() {
    let server = Server::start(Kind::Forebay);
    let clients = clients(&server, "");
    for (client, length) in clients.iter().flat_map(|it| [0, 5, 5000, 1 << 20].map(|n| (it, n))) {
        let value = bytes(length, length);
        let mut creation = client.create(b"key", length).unwrap();
        creation.copy_from_slice(&value);
        assert!(clients.iter().all(|reader| !reader.exists(b"key").unwrap()));
        drop(creation);
        assert!(!client.exists(b"key").unwrap());
        let mut creation = client.create(b"key", length).unwrap();
        assert_eq!((creation.len(), creation.key()), (length, b"key".as_slice()));
        creation.copy_from_slice(&value);
        creation.seal().unwrap();
        for reader in &clients {
            assert!(*reader.get(b"key").unwrap().expect("it is sealed") == value[..]);
        }
        let other = client.create(b"key", 10).unwrap();
        assert!(!other.seal_with(&SetOptions::new().if_absent()).unwrap());
        let taken = client.take(b"key").unwrap().expect("it is there");
        assert!(*taken == value[..], "{length} bytes over {client:?}");
    }
}

#[test]
fn created_value_stays_where_it_was_written_and_a_put_one_is_copied_once() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [client, _, other] = clients(&server, "?db=3");
    let mut taken = Vec::new();
    for round in 0..60 {
        let value = bytes(round, 100_000 + 30_000 * (round % 7));
        let mut creation = client.create(b"key", value.len()).unwrap();
        creation.copy_from_slice(&value);
        creation.seal().unwrap();
        assert_eq!(server.info("shm_commits_adopted"), round as u64 + 1);
        let view = client.take(b"key").unwrap().expect("it is sealed");
        assert!(view.is_pinned() && *view == value[..]);
        taken.push((view, value));
        if taken.len() > 5 {
            taken.remove(round % 5);
        }
        assert!(taken.iter().all(|(view, value)| **view == value[..]), "they stay as they were");
    }
    taken.clear();
    for round in 0..20 {
        let value = bytes(round, (1 << 20) + (round % 3) * 500_000);
        client.put(b"key", &value).unwrap();
        assert_eq!(server.info("shm_commits_copied"), round as u64 + 1);
        assert!(*other.get(b"key").unwrap().expect("it was put") == value[..]);
    }
    // In a transaction it is sent, as room cannot be asked for there.
    client.call(&[b"MULTI"]).unwrap();
    assert!(matches!(client.put(b"key", &bytes(9, 1 << 20)), Err(ClientError::Unexpected(_))));
    assert!(
        matches!(client.call(&[b"EXEC"]).unwrap(), Reply::Array(replies) if replies.len() == 1)
    );
    assert!(*other.get(b"key").unwrap().expect("it was put") == bytes(9, 1 << 20)[..]);
    client.take(b"key").unwrap();
    poll_until("all adopted memory to be free", || server.info("shm_adopted_values") == 0);
}

/// Returns how often `command` was called.
fn calls(server: &Server, command: &str) -> u64 {
    let Reply::Bulk(text) = server.tcp().call("INFO commandstats") else { panic!("it is text") };
    let text = String::from_utf8(text).expect("it is text");
    let prefix = format!("cmdstat_{command}:calls=");
    let count = text.lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
    count.map_or(0, |count| count.parse().expect("a number"))
}

/// Room for the next value comes with the reply to the last one, whatever their sizes.
#[test]
fn large_values_are_put_in_one_round_trip_each_once_there_is_memory() {
    const THREADS: u64 = 4;
    const PUTS: u64 = 200;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    client.put(b"key", &bytes(1, 40_000)).unwrap();
    assert_eq!(server.info("shm_upload_runs"), 0, "it is too much for one");
    (0..40).for_each(|seed| client.put(b"key", &bytes(seed, 40_000)).unwrap());
    assert_eq!(server.info("shm_upload_runs"), 1);
    let before = ["shm|commit", "shm|alloc", "set"].map(|name| calls(&server, name));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                let (key, mut random) = (thread.to_string(), Prng::new(thread));
                for round in 0..PUTS {
                    let value = bytes(round as usize, 32_768 + random.below(300_000) as usize);
                    client.put(key.as_bytes(), &value).unwrap();
                    let view = client.get(key.as_bytes()).unwrap().expect("it was put");
                    assert!(*view == value[..]);
                }
            });
        }
    });
    let after = ["shm|commit", "shm|alloc", "set"].map(|name| calls(&server, name));
    let [commits, allocations, sets] = [0, 1, 2].map(|index| after[index] - before[index]);
    assert_eq!((commits, sets), (THREADS * PUTS, 0));
    assert!(allocations < commits + 100, "{allocations} for {commits}: most come along");
}

#[test]
fn created_values_of_some_size_stay_where_they_are_once_many_were_sent() {
    const LENGTH: usize = 8 * 1024;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let mut socket = server.unix();
    let client = connect(&urls(&server, "")[0]);
    let create = |key: &str| {
        let mut creation = client.create(key.as_bytes(), LENGTH).unwrap();
        creation.fill(7);
        creation.seal().unwrap();
    };
    create("first");
    assert_eq!(socket.info("shm_upload_runs"), 0, "memory would be too much for one");
    (0..130).for_each(|number| create(&format!("key {number}")));
    assert_eq!(socket.info("shm_upload_runs"), 1, "a mebibyte of them has passed");
    assert_eq!(client.get(b"key 129").unwrap().as_deref(), Some(&[7; LENGTH][..]));
    // A large one has memory made at once.
    let other = connect(&urls(&server, "")[0]);
    other.create(b"large", 100_000).unwrap().seal().unwrap();
    assert_eq!(socket.info("shm_upload_runs"), 2);
}

#[test]
fn creations_that_come_to_nothing_leave_no_memory_taken() {
    const LENGTH: usize = 40_000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    let never = SetOptions::new().expires_in(Duration::ZERO);
    let absent = SetOptions::new().if_present();
    for _ in 0..1500 {
        let [dropped, refused, unmet] = [(); 3].map(|()| client.create(b"key", LENGTH).unwrap());
        drop(dropped);
        assert_eq!(refused.seal_with(&never).unwrap_err().code(), Some("ERR"));
        assert!(!unmet.seal_with(&absent).unwrap());
    }
    assert!(server.info("shm_uploads_open") < 10);
    let many: Vec<_> = (0..300).map(|_| client.create(b"key", LENGTH).unwrap()).collect();
    drop(many);
    assert!(client.create(b"key", LENGTH).unwrap().seal().is_ok());
    // What is kept for the next values.
    let open = server.info("shm_uploads_open");
    assert!(open <= 128, "{open} of 300 are kept");
}

#[test]
fn values_are_sent_where_the_server_gives_no_memory_for_them() {
    let small = Launch::new(Kind::Forebay).option("shm-upload-bytes-max", "0").start();
    let full = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("shm-upload-bytes-max", "16mb")
        .start();
    for server in [&small, &full] {
        let [client, _, other] = clients(server, "");
        for index in 0..12 {
            let (key, value) = (format!("key:{index}"), bytes(index, 2 << 20));
            let mut creation = client.create(key.as_bytes(), value.len()).unwrap();
            creation.copy_from_slice(&value);
            creation.seal().unwrap();
            client.put(b"put", &value).unwrap();
            for key in [key.as_bytes(), b"put"] {
                assert!(*other.get(key).unwrap().expect("it was put") == value[..]);
            }
        }
    }
    assert_eq!(small.info("shm_commits_adopted"), 0);
    assert!(full.info("shm_commits_adopted") > 4);
}

#[test]
fn taken_value_is_not_copied_and_its_memory_is_given_back_with_the_view() {
    const LENGTH: usize = 4 << 20;
    let server = Launch::new(Kind::Forebay).option("maxmemory", "64mb").start();
    let [client, _, other] = clients(&server, "");
    for round in 0..40 {
        let value = bytes(round, LENGTH);
        other.put(b"key", &value).unwrap();
        let view = client.take(b"key").unwrap().expect("it is there");
        assert!(view.is_pinned());
        assert!(!other.exists(b"key").unwrap() && client.take(b"key").unwrap().is_none());
        other.put(b"key", b"small").unwrap();
        assert!(*view == value[..], "it stays as it was");
        let small = client.take(b"key").unwrap().expect("it is there");
        assert!(*small == *b"small" && !small.is_pinned());
    }
    assert_eq!(server.info("evicted_keys"), 0);
    client.call(&[b"RPUSH", b"list", b"a"]).unwrap();
    assert_eq!(client.take(b"list").unwrap_err().code(), Some("WRONGTYPE"));
    assert!(client.exists(b"list").unwrap());
}

/// Also where this thread is known to take its own values, and the server is not told of them.
#[test]
fn what_happened_to_a_posted_key_is_seen_by_who_posted_it() {
    const KEY: &[u8] = b"key";
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [client, other] = [(); 2].map(|()| connect(&urls(&server, "")[0]));
    let ask = |client: &Client, text: &str| {
        let request: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        client.call(&request).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let post = |value: &[u8]| client.post(KEY, value.to_vec(), &SetOptions::new()).unwrap();
    let take = || client.take_once(KEY).unwrap().map(View::into_vec);
    for (length, row) in [(400, 0), (400, 20), (50_000, 0), (50_000, 20)] {
        let value = bytes(7, length);
        let begin = || {
            for _ in 0..row {
                post(&value);
                assert!(take().is_some_and(|taken| taken == value));
            }
            post(&value);
        };
        let gone = ["DEL key", "GETDEL key", "FLUSHALL", "RENAME key other", "PEXPIRE key 0"];
        for text in gone {
            begin();
            ask(&client, text);
            assert_eq!(take(), None, "{text}, {length} bytes after a row of {row}");
            begin();
            // Another's request may be executed before what this one has posted, and what that did
            // is seen once this one has been answered.
            ask(&client, "PING");
            ask(&other, text);
            assert_eq!(take(), None, "{text} by another, {length} bytes after a row of {row}");
        }
        begin();
        ask(&client, "APPEND key more");
        assert!(take().is_some_and(|taken| taken == [&value[..], b"more"].concat()));
        begin();
        client.put(KEY, b"new").unwrap();
        assert!(take().is_some_and(|taken| taken == b"new"));
        assert_eq!(take(), None, "it was taken");
    }
}

#[test]
fn posted_value_is_not_taken_after_its_time_though_nothing_was_answered() {
    let server = Server::start(Kind::Forebay);
    let [client, other, _] = clients(&server, "");
    for length in [100, 100_000] {
        let value = bytes(1, length);
        // Memory is there from here on, so that the next is posted at once.
        client.post(b"key", value.clone(), &SetOptions::new()).unwrap();
        assert!(client.take_once(b"key").unwrap().is_some_and(|view| *view == value[..]));
        client.settle().unwrap();
        // The server executes nothing that writes, and so answers no post, until that is over.
        other.call(&[b"CLIENT", b"PAUSE", b"1000", b"WRITE"]).unwrap();
        let end = SystemTime::now() + Duration::from_millis(20);
        client.post(b"key", value, &SetOptions::new().expires_at(end)).unwrap();
        poll_until("the time is over", || SystemTime::now() > end + Duration::from_millis(1));
        assert!(client.take_once(b"key").unwrap().is_none(), "{length}");
    }
}

#[test]
fn many_values_that_are_looked_at_by_who_posted_them_do_not_have_memory_made_in_vain() {
    const LENGTH: usize = 16_000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    let cycle = |number: usize| {
        client.post(b"key", bytes(number, LENGTH), &SetOptions::new()).unwrap();
        client.take_once(b"key").unwrap().expect("it was posted")
    };
    let views: Vec<View> = (0..2000).map(cycle).collect();
    assert!((0..).zip(&views).all(|(number, view)| **view == bytes(number, LENGTH)));
    // All of them would find room in two.
    let (runs, open) = (server.info("shm_upload_runs"), server.info("shm_uploads_open"));
    assert!(runs <= 2 && open < 1000, "{runs} runs, {open} uploads that are open");
    drop(views);
    poll_until("most values to be held back again, and few buffers to be kept", || {
        let adopted = server.info("shm_commits_adopted");
        (0..300).for_each(|number| drop(cycle(number)));
        client.settle().unwrap();
        let adopted = server.info("shm_commits_adopted") - adopted;
        adopted < 150 && server.info("shm_uploads_open") <= 192
    });
}

/// Returns how many commands the server has executed.
fn commands(server: &Server) -> u64 {
    server.info("total_commands_processed")
}

/// Posts `value` by `client` and takes it as often as it takes to be known for that.
fn take_own(client: &Client, value: &[u8]) {
    for _ in 0..20 {
        client.post(b"own", value.to_vec(), &SetOptions::new()).expect("the server is there");
        let taken = client.take_once(b"own").expect("the server is there");
        assert!(taken.is_some_and(|taken| *taken == *value));
    }
}

#[test]
fn values_that_their_own_thread_takes_are_not_told_to_the_server() {
    const COUNT: u64 = 1000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    for (length, depth) in [(100, 1), (100, 10), (20_000, 1), (20_000, 10)] {
        let client = connect(&urls(&server, "")[0]);
        let value = bytes(3, length);
        let cycle = || {
            for key in 0..depth {
                client.post(&[key], value.clone(), &SetOptions::new()).unwrap();
            }
            assert!((0..depth).all(|key| client.take_once(&[key]).unwrap().is_some()));
        };
        // Some are told where the thread has not run for a while, as on a busy machine.
        let case = format!("most of {length} bytes, {depth} at a time, not to be told");
        poll_until(&case, || {
            let before = commands(&server);
            (0..COUNT / u64::from(depth)).for_each(|_| cycle());
            commands(&server) - before < COUNT / 4
        });
        assert!(!client.exists(&[0]).unwrap());
    }
}

#[test]
fn value_that_was_held_back_is_there_for_others_soon_and_before_what_is_sent_next() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    for url in [&urls(&server, "")[0], &urls(&server, "?db=3")[0]] {
        let [client, other] = [(); 2].map(|()| connect(url));
        for value in [bytes(1, 100), bytes(2, 50_000)] {
            let is_there = |key: &[u8]| other.get(key).unwrap().is_some_and(|it| *it == value[..]);
            let post = |key: &[u8]| client.post(key, value.clone(), &SetOptions::new()).unwrap();
            take_own(&client, &value);
            post(b"soon");
            poll_until("the value to be there", || is_there(b"soon"));
            assert!(client.take_once(b"soon").unwrap().is_some_and(|it| *it == value[..]));
            take_own(&client, &value);
            post(b"first");
            client.call(&[b"PING"]).unwrap();
            assert!(is_there(b"first"));
            // One that ends has the server store what it holds before.
            let post_last = |client: &Client| {
                take_own(client, &value);
                client.post(b"last", value.clone(), &SetOptions::new()).unwrap();
            };
            thread::scope(|scope| scope.spawn(|| post_last(&client)).join()).unwrap();
            assert!(other.take(b"last").unwrap().is_some_and(|it| *it == value[..]));
            let ending = connect(url);
            post_last(&ending);
            drop(ending);
            assert!(is_there(b"last"));
            other.call(&[b"FLUSHALL"]).unwrap();
        }
    }
}

#[test]
fn refusal_of_a_value_that_was_held_back_is_told() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    for value in [bytes(1, 100), bytes(2, 50_000)] {
        let post = || client.post(b"key", value.clone(), &SetOptions::new());
        for is_sent in [true, false] {
            client.call(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).unwrap();
            take_own(&client, &value);
            client.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap();
            let refusals = server.info("total_error_replies");
            post().unwrap();
            if is_sent {
                client.call(&[b"PING"]).unwrap();
            } else {
                poll_until("the refusal", || server.info("total_error_replies") > refusals);
            }
            let told = client.take_once(b"key").expect_err("it was refused");
            assert_eq!(told.code(), Some("OOM"));
            client.settle().expect("it is told of once");
        }
    }
}

/// A long value is copied piece by piece before it is committed, and each piece has its reply.
#[test]
fn long_value_is_put_after_one_that_was_held_back() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    let (long, short) = (bytes(1, 3 << 20), bytes(2, 100));
    for _ in 0..2 {
        take_own(&client, &short);
        client.post(b"short", short.clone(), &SetOptions::new()).unwrap();
        client.put(b"long", &long).unwrap();
        assert!(client.take_once(b"short").unwrap().is_some_and(|view| *view == short[..]));
        assert!(client.take(b"long").unwrap().is_some_and(|view| *view == long[..]));
        client.settle().unwrap();
    }
}

#[test]
fn value_that_was_held_back_is_stored_after_what_was_posted_before() {
    const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [client, other] = [(); 2].map(|()| connect(&urls(&server, "")[0]));
    let post = |key: &[u8], value: &[u8], options: &SetOptions| {
        client.post(key, value.to_vec(), options).expect("the server is there");
    };
    for _ in 0..20 {
        KEYS.iter().for_each(|key| post(key, b"own", &SetOptions::new()));
        assert!(KEYS.iter().all(|key| client.take_once(key).unwrap().is_some()));
    }
    client.settle().unwrap();
    other.call(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]).unwrap();
    // These are sent, and not executed; the others are held back.
    let sent = SetOptions::new().keeps_time_to_live();
    [b"a", b"b"].iter().for_each(|key| post(*key, b"before", &sent));
    [b"a", b"b"].iter().for_each(|key| post(*key, b"after", &SetOptions::new()));
    assert!(client.take_once(b"a").unwrap().is_some_and(|view| *view == *b"after"));
    // Long enough for the thread of the session to have the other sent.
    let_pass(Duration::from_millis(50));
    other.call(&[b"CLIENT", b"UNPAUSE"]).unwrap();
    client.settle().unwrap();
    assert!(!other.exists(b"a").unwrap(), "it was taken");
    assert!(other.get(b"b").unwrap().is_some_and(|view| *view == *b"after"));
}

/// A post that cannot be held back, or the deletion of another's value, is executed behind it.
#[test]
fn value_that_was_held_back_is_stored_before_what_is_posted_next() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let other = connect(&urls(&server, "")[0]);
    let post = |client: &Client, value: &[u8]| {
        client.post(b"held", value.to_vec(), &SetOptions::new()).unwrap();
    };
    for value in [bytes(1, 100), bytes(2, 50_000)] {
        let client = connect(&urls(&server, "")[0]);
        take_own(&client, &value);
        post(&client, &value);
        // Two of a key are not held.
        post(&client, b"later");
        client.settle().unwrap();
        assert!(other.get(b"held").unwrap().is_some_and(|view| *view == *b"later"));
        let client = connect(&urls(&server, "")[0]);
        take_own(&client, &value);
        other.put(b"others", b"value").unwrap();
        post(&client, &value);
        assert!(client.take_once(b"others").unwrap().is_some());
        // Without a pause, in which the thread of the session would have it sent.
        while other.exists(b"others").unwrap() {}
        assert!(other.get(b"held").unwrap().is_some_and(|view| *view == value[..]));
    }
}

#[test]
fn value_that_was_held_back_takes_the_one_before_it_along() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [client, other] = [(); 2].map(|()| connect(&urls(&server, "")[0]));
    for value in [bytes(1, 100), bytes(2, 50_000)] {
        for lifetime in [60_000, 1] {
            take_own(&client, &value);
            other.put(b"key", b"before").unwrap();
            let options = SetOptions::new().expires_in(Duration::from_millis(lifetime));
            client.post(b"key", value.clone(), &options).unwrap();
            let is_there = client.take_once(b"key").unwrap().is_some_and(|view| *view == value[..]);
            assert!(is_there || lifetime == 1, "{} bytes", value.len());
            assert!(client.take_once(b"key").unwrap().is_none(), "{} bytes", value.len());
            client.settle().unwrap();
            assert!(!other.exists(b"key").unwrap(), "{} bytes", value.len());
        }
    }
}

#[test]
fn lifetime_that_only_the_server_knows_is_its_to_tell() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    for value in [bytes(1, 100), bytes(2, 50_000)] {
        take_own(&client, &value);
        let kept = SetOptions::new().keeps_time_to_live();
        client.post(b"key", value.clone(), &kept).unwrap();
        assert!(client.take_once(b"key").unwrap().is_some_and(|view| *view == value[..]));
        take_own(&client, &value);
        let none = SetOptions::new().expires_in(Duration::ZERO);
        client.post(b"key", value.clone(), &none).unwrap();
        assert_eq!(client.take_once(b"key").expect_err("it is refused").code(), Some("ERR"));
    }
}

#[test]
fn refusal_of_a_value_that_was_held_back_is_told_by_the_next_post() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    take_own(&client, b"value");
    client.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap();
    let refusals = server.info("total_error_replies");
    let post = |key: &[u8]| client.post(key, bytes(1, 100), &SetOptions::new());
    post(b"refused").unwrap();
    poll_until("the refusal", || server.info("total_error_replies") > refusals);
    assert_eq!(post(b"next").expect_err("the one before was refused").code(), Some("OOM"));
    client.settle().expect("it is told of once");
    assert!(!client.exists(b"next").unwrap(), "a call that fails posts nothing");
}

#[test]
fn values_that_were_held_back_outlive_a_silence_of_the_server() {
    // More bytes than find room in a lane.
    const COUNT: u8 = 60;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let url = &urls(&server, "")[0];
    let other = connect(url);
    let post = |client: &Client| {
        let post = |key| client.post(&[key], bytes(1, 4000), &SetOptions::new());
        (0..COUNT).all(|key| post(key).is_ok())
    };
    let client = poll("values to be held back", || {
        let client = Client::connect_within(url, Duration::from_millis(500)).unwrap();
        for _ in 0..3 {
            assert!(post(&client));
            assert!((0..COUNT).all(|key| client.take_once(&[key]).unwrap().is_some()));
        }
        // The silence is longer than the client waits, whose thread does nothing meanwhile.
        other.call(&[b"CLIENT", b"PAUSE", b"1500", b"WRITE"]).unwrap();
        let is_held = post(&client);
        other.put(b"behind the pause", b"value").unwrap();
        // Where the machine is too busy, some are sent before, and a post is told of the silence.
        is_held.then_some(client)
    });
    poll_until("all to be there", || (0..COUNT).all(|key| other.exists(&[key]).unwrap()));
    client.settle().unwrap();
}

#[test]
fn more_creations_than_the_server_allows_do_not_have_memory_made_in_vain() {
    const LENGTH: usize = 32 * 1024;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    let create = |_| client.create(b"key", LENGTH).unwrap();
    let mut creations: Vec<_> = (0..1024).map(create).collect();
    let runs = server.info("shm_upload_runs");
    creations.extend((0..200).map(create));
    assert_eq!(server.info("shm_upload_runs"), runs);
    creations.into_iter().for_each(|creation| assert!(creation.seal().is_ok()));
}

#[test]
fn values_of_two_sizes_in_turn_give_no_buffers_back() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let client = connect(&urls(&server, "")[0]);
    let cycles = |count: usize| {
        for number in 0..count {
            let value = bytes(number, [50_000, 100_000][number % 2]);
            client.post(b"key", value.clone(), &SetOptions::new()).unwrap();
            assert!(*client.take_once(b"key").unwrap().expect("it was posted") == value[..]);
        }
        client.settle().unwrap();
    };
    let frees = || {
        let text = server.unix().info_text("commandstats");
        let line = text.lines().find(|line| line.starts_with("cmdstat_shm|free:"));
        line.map(str::to_owned)
    };
    cycles(1000);
    assert_eq!(frees(), None, "one is given back for another");
}

#[test]
fn key_is_waited_for_until_it_is_there_or_the_time_is_over() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect_within(&url, Duration::from_secs(20)).unwrap();
        let absent = client.get_blocking(b"absent", Duration::from_millis(30)).unwrap();
        assert!(absent.is_none());
        for length in [10, 100_000] {
            let value = bytes(1, length);
            thread::scope(|scope| {
                let waiters = [(); 3].map(|()| {
                    let client = client.clone();
                    scope.spawn(move || client.get_blocking(b"key", None))
                });
                client.put(b"other", b"value").unwrap();
                client.put(b"key", &value).unwrap();
                for waiter in waiters {
                    let view = waiter.join().expect("it ends").unwrap().expect("it was put");
                    assert!(*view == value[..]);
                }
            });
            let present = client.get_blocking(b"key", Duration::ZERO).unwrap();
            assert!(present.is_some_and(|view| *view == value[..]));
            client.take(b"key").unwrap();
        }
        client.call(&[b"RPUSH", b"list", b"a"]).unwrap();
        assert_eq!(client.get_blocking(b"list", None).unwrap_err().code(), Some("WRONGTYPE"));
    }
}

#[test]
fn server_without_await_is_asked_until_the_key_is_there() {
    let redis = Server::start(Kind::Redis);
    let client = connect(&urls(&redis, "")[2]);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| client.get_blocking(b"key", Duration::from_secs(60)));
        client.put(b"key", b"value").unwrap();
        let found = waiter.join().expect("it ends").unwrap();
        assert!(found.is_some_and(|view| *view == *b"value"));
    });
    assert!(client.get_blocking(b"absent", Duration::from_millis(5)).unwrap().is_none());
}

#[test]
fn what_would_leave_requests_without_replies_is_not_sent() {
    let server = Server::start(Kind::Forebay);
    for client in clients(&server, "") {
        let refused: [&[&[u8]]; 6] = [
            &[b"MONITOR"],
            &[b"Subscribe", b"x"],
            &[b"CLIENT", b"REPLY", b"SKIP"],
            &[b"select", b"1"],
            &[b"RESET"],
            &[],
        ];
        for request in refused {
            let error = client.call(request).unwrap_err();
            assert!(matches!(error, ClientError::Unsupported(_)), "{error}");
            assert!(client.pipeline(&[&[b"PING"], request]).is_err());
        }
        assert_eq!(client.call(&[b"PING"]).unwrap(), Reply::Simple(b"PONG".to_vec()));
        // The operations understand both protocols.
        assert!(matches!(client.call(&[b"HELLO", b"3"]).unwrap(), Reply::Map(_)));
        assert!(client.get(b"absent").unwrap().is_none());
        assert!(client.take(b"absent").unwrap().is_none());
        assert!(!client.put_with(b"absent", b"", &SetOptions::new().if_present()).unwrap());
        assert!(client.mget(&[b"absent", b"absent"]).unwrap().iter().all(Option::is_none));
        assert_eq!(client.call(&[b"GET", b"absent"]).unwrap(), Reply::Null);
    }
}

#[test]
fn reads_in_the_memory_allocate_nothing() {
    let server = Server::start(Kind::Forebay);
    let client = connect(&urls(&server, "")[0]);
    client.put(b"small", &bytes(1, 64)).unwrap();
    client.put(b"large", &bytes(1, 1 << 20)).unwrap();
    let mut buffer = Vec::new();
    let mut read = || {
        assert!(client.get_into(b"small", &mut buffer).unwrap() && buffer.len() == 64);
        assert_eq!(client.get(b"small").unwrap().expect("it is there").len(), 64);
        let view = client.get(b"large").unwrap().expect("it is there");
        assert!(view.is_pinned() && view.len() == 1 << 20);
        assert!(client.exists(b"small").unwrap() && !client.exists(b"absent").unwrap());
        assert_eq!(client.strlen(b"large").unwrap(), 1 << 20);
        assert_eq!(client.ttl(b"large").unwrap(), TimeToLive::Endless);
    };
    read();
    let before = allocations::of_this_thread();
    (0..100).for_each(|_| read());
    assert_eq!(allocations::of_this_thread() - before, 0);
    let boxed = Box::new(before);
    assert!(allocations::of_this_thread() > *boxed, "they are counted");
}

/// Random changes by somebody else, also in the middle of a transaction; after each the memory, the
/// lane and the socket say the same of each key.
#[test]
fn reads_in_the_memory_answer_as_the_server_does_whatever_is_done_to_the_keys() {
    const STEPS: u64 = 1500;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [shm, _, tcp] = clients(&server, "?db=5");
    let mut writer = server.unix();
    writer.call("SELECT 5");
    // What has expired stays where it was.
    writer.call("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut random = Prng::new(11);
    let keys = ["a", "b", "{c}1", "{c}2"];
    for step in 0..STEPS {
        let line = random_change(&mut random, &keys);
        writer.ask(&words(&line));
        if step % 5 != 0 {
            continue;
        }
        poll_until("what expires to have expired", || {
            let left = |key: &&str| tcp.call(&[b"PTTL", key.as_bytes()]).unwrap();
            keys.iter().all(|key| !matches!(left(key), Reply::Integer(0..1000)))
        });
        for key in keys {
            for (name, operation) in OPERATIONS {
                let (found, expected) =
                    (operation(&shm, key.as_bytes()), operation(&tcp, key.as_bytes()));
                assert!(
                    found == expected,
                    "step {step}, {line}: {name} {key}: {found}, not {expected}"
                );
            }
        }
    }
}

/// Returns a request that changes some of `keys`.
fn random_change(random: &mut Prng, keys: &[&str]) -> String {
    let pick = |random: &mut Prng| random.pick(keys);
    let (key, other) = (pick(random), pick(random));
    let length = [3, 70, 4000, 4100, 9000, 200_000][random.below(6) as usize];
    let value = random.below(10).to_string().repeat(length);
    match random.below(22) {
        0..=3 => format!("SET {key} {value}"),
        4 => format!("SET {key} {value} PXAT 4102444800000"),
        // Long over: the key is absent, though it lies there.
        5 => format!("PEXPIRE {key} 1"),
        6 => format!("PEXPIREAT {key} 4102444800000"),
        7 => format!("PERSIST {key}"),
        8 => format!("APPEND {key} {value}"),
        9 => format!("SETRANGE {key} {} middle", random.below(5000)),
        10 => format!("RENAME {key} {other}"),
        11 => format!("COPY {key} {other} REPLACE"),
        12 => format!("DEL {key}"),
        13 => format!("RPUSH {key} a"),
        14 => format!("INCR {key}"),
        15 => format!("MOVE {key} {}", random.below(2) * 4),
        16 => "SWAPDB 5 4".to_owned(),
        17 if random.one_in(4) => "FLUSHDB".to_owned(),
        18 => "MULTI".to_owned(),
        19 | 20 => "EXEC".to_owned(),
        _ => format!("GETDEL {key}"),
    }
}

/// A session has 256 lanes at most: further threads have a socket.
#[test]
fn threads_beyond_the_lanes_of_a_session_are_served() {
    const COUNT: u64 = 260;
    let server = Server::start(Kind::Forebay);
    let client = connect(&urls(&server, "")[0]);
    let all_asked = Barrier::new(COUNT as usize + 1);
    thread::scope(|scope| {
        let ask = |number: u64| {
            let key = format!("key:{number}");
            let put = client.put(key.as_bytes(), key.as_bytes());
            all_asked.wait();
            // It is still the same connection, which nobody else uses.
            all_asked.wait();
            let echoed = client.call(&[b"ECHO", key.as_bytes()]);
            (put, echoed, Reply::Bulk(key.into_bytes()))
        };
        let threads: Vec<_> = (0..COUNT).map(|number| scope.spawn(move || ask(number))).collect();
        all_asked.wait();
        let counts = (server.info("shm_lanes"), server.info("connected_clients"));
        all_asked.wait();
        for thread in threads {
            let (put, echoed, expected) = thread.join().expect("it does not panic");
            assert_eq!((put.expect("it is served"), echoed.expect("it is served")), ((), expected));
        }
        // This thread's, the parent of the lanes, and the connection that looks.
        assert_eq!(counts, (256, COUNT + 3));
    });
}

/// Asks with its client when it is dropped, and tells what came.
struct AskAtEnd(Client, Sender<String>);

impl Drop for AskAtEnd {
    fn drop(&mut self) {
        let AskAtEnd(client, answers) = self;
        let text = |view: Option<View>| view.map(|view| String::from_utf8_lossy(&view).into());
        let found: [Option<String>; 3] = [
            client.get(b"small").map(text),
            client.mget(&[b"small"]).map(|mut values| values.pop().and_then(text)),
            client.take(b"small").map(text),
        ]
        .map(|answer| answer.expect("the server answers"));
        let set = client.put(b"small", b"value");
        answers.send(format!("{found:?} {set:?}")).expect("the test waits");
    }
}

thread_local! {
    /// Destroyed before what the client keeps of a thread, or after it: one is used before it, one
    /// after.
    static FIRST: RefCell<Option<AskAtEnd>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<AskAtEnd>> = const { RefCell::new(None) };
}

#[test]
fn thread_that_is_ending_is_answered() {
    let server = Server::start(Kind::Forebay);
    for client in clients(&server, "") {
        client.put(b"small", b"value").expect("the server answers");
        let (answers, answered) = channel();
        let run = |client: &Client| {
            let at_end = || Some(AskAtEnd(client.clone(), answers.clone()));
            FIRST.set(at_end());
            client.get(b"small").expect("the server answers");
            LAST.set(at_end());
        };
        thread::scope(|scope| scope.spawn(|| run(&client)).join()).expect("it does not panic");
        drop(answers);
        let value = "Some(\"value\")";
        let expected = format!("[{value}, {value}, {value}] Ok(())");
        assert_eq!(answered.iter().collect::<Vec<_>>(), [expected.clone(), expected]);
    }
}

#[test]
fn forked_child_is_refused_and_takes_nothing_from_its_parent() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let path = server.socket().display().to_string();
    for client in clients(&server, "") {
        let value = bytes(1, 100_000);
        client.put(b"key", &value).unwrap();
        let mut held = client.get(b"key").unwrap();
        let refused = sys::fork::run_in_child(|| {
            let is_forked = |error: Option<ClientError>| matches!(error, Some(ClientError::Forked));
            let refused = is_forked(client.get(b"key").err())
                && is_forked(client.put(b"key", b"value").err())
                && is_forked(client.get_into(b"key", &mut Vec::new()).err())
                && is_forked(client.transport().err());
            // Its own copy of the view, of a pin that both processes map.
            drop(held.take());
            drop(client.clone());
            let own = Client::connect(&format!("unix://{path}"));
            refused && own.is_ok_and(|own| own.call(&[b"INCR", b"children"]).is_ok())
        });
        assert!(refused.unwrap(), "{client:?}");
        // The pin is the parent's still, and so are the lane and the session.
        client.call(&[b"DEL", b"key"]).unwrap();
        for index in 0..40 {
            client.put(format!("other:{index}").as_bytes(), &bytes(index, 100_000)).unwrap();
        }
        assert!(*held.expect("it is the parent's") == value[..]);
        client.call(&[b"FLUSHALL"]).unwrap();
    }
}

#[test]
fn forked_child_waits_for_no_thread_that_sends_what_was_held_back() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let url = &urls(&server, "")[0];
    let other = connect(url);
    for value in [bytes(1, 100), bytes(2, 50_000)] {
        let mut client = Some(connect(url));
        let parent = client.as_ref().expect("it is connected");
        take_own(parent, &value);
        other.call(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]).unwrap();
        parent.post(b"key", value.clone(), &SetOptions::new()).unwrap();
        // The thread of the session has it sent meanwhile, and nobody answers.
        let_pass(Duration::from_millis(50));
        let is_refused = sys::fork::run_in_child(|| {
            let client = client.take().expect("it is the parent's");
            let is_refused = matches!(client.get(b"key"), Err(ClientError::Forked))
                && matches!(client.settle(), Err(ClientError::Forked));
            drop(client);
            is_refused
        });
        other.call(&[b"CLIENT", b"UNPAUSE"]).unwrap();
        assert!(is_refused.unwrap());
        let taken = client.expect("it is the parent's").take_once(b"key").unwrap();
        assert!(taken.is_some_and(|it| *it == value[..]));
    }
}

#[test]
fn killed_session_is_made_anew_and_an_open_creation_fails_or_is_stored_whole() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    for url in urls(&server, "?db=4") {
        let client = connect(&url);
        let value = bytes(1, 100_000);
        client.put(b"key", &value).unwrap();
        let mut creation = client.create(b"created", 100_000).unwrap();
        creation.copy_from_slice(&value);
        let before = client.call(&[b"CLIENT", b"ID"]).ok();
        server.tcp().call("CLIENT KILL TYPE normal SKIPME yes");
        let id = |client: &Client| client.call(&[b"CLIENT", b"ID"]).ok();
        poll_until("another session", || id(&client).is_some_and(|now| Some(now) != before));
        let sealed = creation.seal();
        let created = client.get(b"created").unwrap();
        assert_eq!(created.is_some(), sealed.is_ok(), "{client:?}: {sealed:?}");
        assert!(created.is_none_or(|view| *view == value[..]));
        client.put(b"key", b"value").unwrap();
        assert!(client.take(b"key").unwrap().is_some_and(|view| *view == *b"value"));
        client.call(&[b"FLUSHALL"]).unwrap();
    }
}

#[test]
fn process_that_may_map_little_reads_through_the_server() {
    let server = Server::start(Kind::Forebay);
    // The arena's range is larger than that, the program is not.
    let limited = example_command("client", &urls(&server, "")[0], &["prlimit", "--as=2000000000"]);
    let finished = run(limited, b"");
    let lines = "greeting: hello\npicture: 100000 bytes, not copied: false\nvisits: 4\n";
    assert_eq!(finished.output, lines, "{}", finished.errors);
}

#[test]
fn what_one_transport_writes_every_other_reads_at_once() {
    let server = Server::start(Kind::Forebay);
    let clients = clients(&server, "");
    for length in [3, 100, 5000, 1 << 20] {
        for (seed, writer) in clients.iter().enumerate() {
            let value = bytes(seed, length);
            writer.put(b"key", &value).unwrap();
            for reader in &clients {
                let view = reader.get(b"key").unwrap().expect("it was written");
                assert!(*view == value[..], "{length} bytes from {writer:?} to {reader:?}");
            }
            let taken = writer.take(b"key").unwrap().expect("it is there");
            assert!(*taken == value[..]);
            assert!(clients.iter().all(|reader| reader.get(b"key").unwrap().is_none()));
            assert!(writer.take(b"key").unwrap().is_none());
        }
    }
}

#[test]
fn transaction_is_seen_when_it_is_executed_and_by_one_thread_alone_queued() {
    let server = Server::start(Kind::Forebay);
    let clients = clients(&server, "");
    for owner in &clients {
        owner.put(b"key", b"before").unwrap();
        owner.call(&[b"MULTI"]).unwrap();
        let queued = owner.call(&[b"SET", b"key", b"after"]).unwrap();
        assert_eq!(queued, Reply::Simple(b"QUEUED".to_vec()));
        let others = clients.iter().filter(|other| !std::ptr::eq(*other, owner));
        for other in others.clone() {
            assert_eq!(*other.get(b"key").unwrap().expect("it is there"), *b"before");
        }
        thread::scope(|scope| {
            let other = scope.spawn(|| owner.call(&[b"GET", b"key"]).unwrap());
            let found = other.join().expect("it ends");
            assert_eq!(found, Reply::Bulk(b"before".to_vec()), "a thread has its own");
        });
        owner.call(&[b"EXEC"]).unwrap();
        for client in &clients {
            assert_eq!(*client.get(b"key").unwrap().expect("it is there"), *b"after");
        }
    }
}

#[test]
fn reads_inside_a_transaction_are_no_part_of_it_where_the_server_answers_them() {
    const READS: usize = 7;
    let server = Launch::new(Kind::Forebay).option("shm-reads", "no").start();
    let [owner, other] = [(); 2].map(|()| connect(&urls(&server, "?db=2")[0]));
    owner.put(b"key", b"before").unwrap();
    owner.call(&[b"MULTI"]).unwrap();
    owner.call(&[b"SET", b"key", b"after"]).unwrap();
    for (name, read) in &OPERATIONS[..READS] {
        assert_eq!(read(&owner, b"key"), read(&other, b"key"), "{name}");
    }
    let replies = owner.call(&[b"EXEC"]).unwrap();
    assert_eq!(replies, Reply::Array(vec![Reply::Simple(b"OK".to_vec())]));
    assert_eq!(*owner.get(b"key").unwrap().expect("it is there"), *b"after");
    poll_until("the lanes beside to end", || server.info("shm_lanes") == 2);
}

#[test]
fn readers_beside_running_transactions_never_go_back() {
    const TRANSACTIONS: u64 = 500;
    let server = Server::start(Kind::Forebay);
    let clients = clients(&server, "");
    let is_done = AtomicBool::new(false);
    let number = |view: Option<View>| -> u64 {
        view.map_or(0, |view| {
            let text = str::from_utf8(&view[..8]).expect("digits");
            text.trim_start_matches('0').parse().unwrap_or(0)
        })
    };
    let check = |client: &Client| {
        let (mut rounds, mut newest) = (0, 0);
        while !is_done.load(Ordering::Acquire) || rounds == 0 {
            for key in [b"small".as_slice(), b"large", b"small"] {
                let found = number(client.get(key).unwrap());
                assert!(found >= newest, "{found} after {newest} over {client:?}");
                newest = found;
            }
            rounds += 1;
        }
    };
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| check(client));
        }
        let mut writer = server.unix();
        for round in 1..=TRANSACTIONS {
            let text = format!("{round:08}");
            let large = text.repeat(1000);
            let set = |key: &str, value: &str| request(&["SET", key, value]);
            let requests = [
                request(&["MULTI"]),
                set("small", &text),
                set("large", &large),
                request(&["EXEC"]),
            ];
            writer.pipeline(&requests);
        }
        is_done.store(true, Ordering::Release);
    });
}

#[test]
fn threads_share_a_client_and_leave_nothing_behind() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 50;
    let server = Server::start(Kind::Forebay);
    let before = server.info("connected_clients");
    for (url, lanes) in urls(&server, "").into_iter().zip([THREADS, 0, 0]) {
        let client = connect(&url);
        let (meet, own) = (Barrier::new(THREADS as usize), server.info("connected_clients"));
        thread::scope(|scope| {
            for index in 0..THREADS {
                let (client, meet, server) = (&client, &meet, &server);
                scope.spawn(move || {
                    let key = format!("key:{index}");
                    for round in 1..=ROUNDS {
                        let value = bytes(round as usize, 3000 + 100 * index as usize * 8);
                        client.put(key.as_bytes(), &value).unwrap();
                        let view = client.get(key.as_bytes()).unwrap().expect("it is there");
                        assert!(*view == value[..]);
                        client.call(&[b"INCR", b"counter"]).unwrap();
                    }
                    meet.wait();
                    if index == 0 && lanes > 0 {
                        assert_eq!(server.info("shm_lanes"), lanes + 1, "one for each");
                    }
                    meet.wait();
                });
            }
        });
        assert_eq!(*client.take(b"counter").unwrap().expect("it is there"), *b"400");
        poll_until("threads' connections to end", || server.info("connected_clients") == own);
        drop(client);
        poll_until("all connections to end", || server.info("connected_clients") == before);
        assert_eq!(server.info("shm_sessions"), 0);
    }
}

#[test]
fn one_of_many_takers_gets_each_value() {
    const KEYS: u64 = 300;
    let server = Server::start(Kind::Forebay);
    let clients = clients(&server, "");
    for index in 0..KEYS {
        clients[0].put(format!("key:{index}").as_bytes(), &bytes(1, 6000)).unwrap();
    }
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in clients.iter().chain(&clients) {
            scope.spawn(|| {
                for index in 0..KEYS {
                    let key = format!("key:{index}");
                    if client.take(key.as_bytes()).unwrap().is_some() {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(taken.load(Ordering::Relaxed), KEYS);
}

/// The next value is put as soon as one is taken, so that a taker that was too late finds another
/// in its place.
#[test]
fn each_value_of_one_key_is_taken_once_and_none_is_lost() {
    const VALUES: usize = 400;
    let server = Server::start(Kind::Forebay);
    let clients = clients(&server, "");
    let taken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in clients.iter().chain(&clients) {
            let taken = &taken;
            scope.spawn(move || {
                while taken.lock().expect("nobody panics").len() < VALUES {
                    let wait = Duration::from_millis(20);
                    if client.get_blocking(b"key", wait).unwrap().is_none() {
                        continue;
                    }
                    if let Some(view) = client.take(b"key").unwrap() {
                        let text = str::from_utf8(&view[..8]).expect("digits");
                        let number: usize = text.parse().expect("a number");
                        taken.lock().expect("nobody panics").push(number);
                    }
                }
            });
        }
        let absent = SetOptions::new().if_absent();
        for number in 0..VALUES {
            let value = format!("{number:08}").repeat(1000);
            poll_until("the last value to be taken", || {
                clients[0].put_with(b"key", value.as_bytes(), &absent).unwrap()
            });
        }
    });
    let mut taken = taken.into_inner().expect("nobody panics");
    taken.sort_unstable();
    assert_eq!(taken, (0..VALUES).collect::<Vec<_>>());
}

#[test]
fn value_is_taken_only_by_the_session_that_has_it_pinned() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [client, socket, _] = clients(&server, "");
    let other = connect(&urls(&server, "")[0]);
    let value = bytes(1, 100_000);
    client.put(b"key", &value).unwrap();
    let view = client.get(b"key").unwrap().expect("it is there");
    let offset = view.offset().expect("it is pinned").to_string();
    let take = |client: &Client, offset: &str| {
        client.call(&[b"SHM", b"TAKE", b"key", offset.as_bytes()]).unwrap()
    };
    assert_eq!(take(&socket, &offset), Reply::Integer(0), "it has no session");
    assert_eq!(take(&other, &offset), Reply::Integer(0), "it has another one");
    assert_eq!(take(&client, "64"), Reply::Integer(0), "no value lies there");
    drop(view);
    assert_eq!(take(&client, &offset), Reply::Integer(0), "nothing is pinned any more");
    let views = [&client, &other].map(|client| client.get(b"key").unwrap().expect("it is there"));
    assert_eq!(views[0].offset().map(|offset| offset.to_string()), Some(offset.clone()));
    assert_eq!(take(&client, &offset), Reply::Integer(1));
    assert_eq!(take(&other, &offset), Reply::Integer(0), "it was taken");
    assert!(views.iter().all(|view| **view == value[..]));
    assert!(!client.exists(b"key").unwrap());
}

/// A killed session has no pins: where its client remembers a value lies what others put there.
#[test]
fn killed_session_takes_nothing_by_another_connection() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [client, socket, killer] = clients(&server, "");
    client.put(b"key", &bytes(1, 100_000)).unwrap();
    let view = client.get(b"key").unwrap().expect("it is there");
    let offset = view.offset().expect("it is pinned").to_string();
    killer.call(&[b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes"]).unwrap();
    poll_until("the session to end", || server.info("shm_sessions") == 0);
    poll_until("its lane to end", || server.info("shm_lanes") == 0);
    for client in [&client, &socket] {
        poll_until("the client to be anew", || client.call(&[b"PING"]).is_ok());
    }
    assert!(killer.call(&[b"DEL", b"key"]).is_ok());
    killer.put(b"key", &bytes(2, 100_000)).unwrap();
    let reply = socket.call(&[b"SHM", b"TAKE", b"key", offset.as_bytes()]).unwrap();
    assert_eq!(reply, Reply::Integer(0));
    drop(view);
    assert!(client.take(b"key").unwrap().is_some_and(|view| *view == bytes(2, 100_000)[..]));
}

/// Without lanes, requests go over a socket that has nothing to do with the session of the views.
#[test]
fn client_without_lanes_takes_copies() {
    let server = Launch::new(Kind::Forebay).option("shm-lanes-max", "0").start();
    let client = connect(&urls(&server, "")[0]);
    client.put(b"key", &bytes(1, 100_000)).unwrap();
    assert!(client.get(b"key").unwrap().is_some_and(|view| view.is_pinned()));
    let taken = client.take(b"key").unwrap().expect("it is there");
    assert!(!taken.is_pinned() && *taken == bytes(1, 100_000)[..]);
    let Reply::Bulk(text) = server.tcp().call("INFO commandstats") else { panic!("it is text") };
    assert!(!String::from_utf8_lossy(&text).contains("shm|take"), "the session is not asked");
}

#[test]
fn nothing_is_taken_inside_of_a_transaction() {
    let server = Server::start(Kind::Forebay);
    for client in clients(&server, "") {
        for (key, value) in [(b"large", bytes(1, 100_000)), (b"small", bytes(1, 10))] {
            client.put(key, &value).unwrap();
            client.call(&[b"multi"]).unwrap();
            let error = client.take(key).unwrap_err();
            assert!(matches!(error, ClientError::Unsupported(_)), "{client:?}: {error}");
            assert_eq!(client.call(&[b"EXEC"]).unwrap(), Reply::Array(Vec::new()));
            client.pipeline(&[&[b"MULTI"], &[b"PING"]]).unwrap();
            assert!(client.take(key).is_err());
            client.call(&[b"DISCARD"]).unwrap();
            assert!(client.take(key).unwrap().is_some_and(|view| *view == value[..]));
        }
        client.put(b"large", &bytes(1, 100_000)).unwrap();
        client.call(&[b"MULTI"]).unwrap();
        let refused = client.call(&[b"SHM", b"TAKE", b"large", b"64"]).unwrap_err();
        assert_eq!(refused.code(), Some("ERR"), "{client:?}: {refused}");
        let aborted = client.call(&[b"EXEC"]).unwrap_err();
        assert_eq!(aborted.code(), Some("EXECABORT"), "{client:?}: {aborted}");
    }
}

#[test]
fn view_outlives_its_key_its_client_and_the_server() {
    for signal in ["TERM", "KILL"] {
        let mut server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
        let [client, _, other] = clients(&server, "");
        let old = bytes(1, 100_000);
        client.put(b"key", &old).unwrap();
        let views: [View; 2] = [(); 2].map(|()| client.get(b"key").unwrap().expect("it is there"));
        drop(client);
        other.call(&[b"FLUSHALL"]).unwrap();
        for index in 0..40 {
            other.put(format!("other:{index}").as_bytes(), &bytes(index, 100_000)).unwrap();
        }
        let [first, last] = views;
        assert!(first.is_pinned() && *first == old[..]);
        drop(first);
        assert_eq!(server.info("shm_sessions"), 1, "the session of the last view");
        server.signal(signal);
        server.wait();
        assert!(*last == old[..]);
    }
    let server = Server::start(Kind::Forebay);
    let client = connect(&urls(&server, "")[0]);
    client.put(b"key", &bytes(1, 100_000)).unwrap();
    let view = client.get(b"key").unwrap().expect("it is there");
    drop(client);
    drop(view);
    poll_until("the session to end", || server.info("shm_sessions") == 0);
}

#[test]
fn client_works_again_after_the_server_was_restarted() {
    for signal in ["TERM", "KILL"] {
        let folder = TempFolder::new();
        let (path, port) = (folder.path().join("forebay.sock"), free_port());
        let launch = || Launch::new(Kind::Forebay).socket(&path).port(port).start();
        let mut server = launch();
        let clients = clients(&server, "");
        clients[0].put(b"key", &bytes(1, 5000)).unwrap();
        assert!(clients.iter().all(|client| client.get(b"key").unwrap().is_some()));
        server.signal(signal);
        server.wait();
        for client in &clients {
            poll_until("the end to be seen", || client.get(b"key").is_err());
            let error = client.put(b"key", b"value").unwrap_err();
            assert!(matches!(error, ClientError::Broken(_)), "{client:?}: {error}");
        }
        let _server = launch();
        for client in &clients {
            assert!(client.get(b"key").unwrap().is_none(), "{client:?} sees the new server");
        }
        clients[0].put(b"key", &bytes(2, 5000)).unwrap();
        for client in &clients {
            assert!(*client.get(b"key").unwrap().expect("it is there") == bytes(2, 5000)[..]);
        }
        assert_eq!(clients[0].transport().unwrap(), Transport::SharedMemory);
    }
}

#[test]
fn what_the_server_does_not_allow_is_done_another_way() {
    let redis = Server::start(Kind::Redis);
    let without = |options: &[&str]| {
        let launch = Launch::new(Kind::Forebay);
        options.iter().fold(launch, |launch, name| launch.option(name, "0")).start()
    };
    let reads = Launch::new(Kind::Forebay).option("shm-reads", "no").start();
    let lanes = without(&["shm-lanes-max"]);
    let neither =
        Launch::new(Kind::Forebay).option("shm-reads", "no").option("shm-lanes-max", "0").start();
    for (server, transport) in [
        (&reads, Transport::Lane),
        (&lanes, Transport::SharedMemory),
        (&neither, Transport::Unix),
        (&redis, Transport::Unix),
    ] {
        let client = connect(&urls(server, "?db=2")[0]);
        assert_eq!(client.transport().unwrap(), transport);
        let value = bytes(1, 100_000);
        client.put(b"key", &value).unwrap();
        let view = client.get(b"key").unwrap().expect("it is there");
        assert!(*view == value[..]);
        assert_eq!(view.is_pinned(), transport == Transport::SharedMemory);
        assert_eq!(client.ttl(b"key").unwrap(), TimeToLive::Endless);
        assert_eq!(client.ttl(b"absent").unwrap(), TimeToLive::Absent);
        assert_eq!(client.strlen(b"key").unwrap(), 100_000);
        assert!(client.take(b"key").unwrap().is_some() && !client.exists(b"key").unwrap());
    }
}

#[test]
fn refusals_are_told_in_the_servers_words() {
    let locked = Launch::new(Kind::Forebay).option("requirepass", "sec/ret").start();
    let code = |url: &str| match Client::connect(url) {
        Ok(client) => client.get(b"key").err()?.code().map(str::to_owned),
        Err(error) => error.code().map(str::to_owned),
    };
    for (query, expected) in [
        ("?password=sec%2fret", None),
        ("?password=sec%2Fret&user=default&db=15", None),
        ("?password=wrong", Some("WRONGPASS")),
        ("?password=sec/ret&db=99", Some("ERR")),
        ("", Some("NOAUTH")),
    ] {
        for url in urls(&locked, query) {
            assert_eq!(code(&url).as_deref(), expected, "{url}");
        }
    }
    let error = Client::connect("shm:///nowhere/forebay.sock").expect_err("nobody is there");
    assert!(matches!(error, ClientError::Broken(_)), "{error}");
}

#[test]
fn silent_server_is_given_up_and_answers_later() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect_within(&url, Duration::from_millis(500)).unwrap();
        client.put(b"key", b"one").unwrap();
        server.signal("STOP");
        poll_until("the server to stop", || kernel::is_stopped(server.process_id()));
        let error = client.call(&[b"GET", b"key"]).unwrap_err();
        assert!(matches!(error, ClientError::TimedOut), "{url}: {error}");
        server.signal("CONT");
        poll_until("an answer", || client.call(&[b"PING"]).is_ok());
        let late = client.call(&[b"ECHO", b"two"]).unwrap();
        assert_eq!(late, Reply::Bulk(b"two".to_vec()), "no reply of another request");
    }
}

#[test]
fn calls_that_time_out_leave_no_memory_taken() {
    const LENGTH: usize = 50_000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let url = &urls(&server, "")[0];
    let client = Client::connect_within(url, Duration::from_millis(300)).unwrap();
    let cycle = |client: &Client| {
        client.post(b"key", bytes(1, LENGTH), &SetOptions::new())?;
        // What is not taken at once the server is told of.
        client.post(b"other", bytes(2, LENGTH), &SetOptions::new())?;
        [&b"key"[..], b"other"].into_iter().try_for_each(|key| client.take_once(key).map(drop))?;
        client.call(&[b"PING"]).map(drop)
    };
    for _ in 0..8 {
        poll_until("the client to go on", || (0..60).all(|_| cycle(&client).is_ok()));
        server.signal("STOP");
        poll_until("the server to stop", || kernel::is_stopped(server.process_id()));
        let error = (0..1000).find_map(|_| cycle(&client).err()).expect("nobody answers");
        assert!(matches!(error, ClientError::TimedOut), "{error}");
        server.signal("CONT");
    }
    poll_until("buffers to be back", || {
        let _ = cycle(&client);
        server.info("shm_uploads_open") <= 192
    });
    assert!(server.info("shm_upload_runs") <= 4);
}

#[test]
fn examples_work_over_every_transport() {
    let server = Server::start(Kind::Forebay);
    for (url, pinned) in urls(&server, "").iter().zip([true, false, false]) {
        let check = |name: &str, expected: &str| {
            let finished = run(example_command(name, url, &[]), b"");
            assert_eq!(finished.output, expected, "{name} over {url}: {}", finished.errors);
        };
        let lines =
            format!("greeting: hello\npicture: 100000 bytes, not copied: {pinned}\nvisits: 4\n");
        check("client", &lines);
        check(
            "pipeline",
            "pushed: Integer(3)\ntotal: Integer(3)\nrefused: WRONGTYPE Operation against a key \
             holding the wrong kind of value\nlength: Integer(3)\n",
        );
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut worker = example_command("handover", url, &[]);
                worker.arg("worker");
                run(worker, b"")
            });
            check("handover", "answer: mean 124\n");
            let worker = worker.join().expect("it ends");
            let line = format!("1000000 bytes, not copied: {pinned}\n");
            assert_eq!(worker.output, line, "{}", worker.errors);
        });
        #[cfg(feature = "tokio")]
        check("async", "hits: 100\njob: paint the fence\n");
        connect(url).call(&[b"FLUSHALL"]).unwrap();
    }
}

/// Returns what runs the example `name` on `url`, by the program `by`.
fn example_command(name: &str, url: &str, by: &[&str]) -> Command {
    let profile = forebay().parent().expect("a program lies in a folder");
    let target = profile.parent().expect("it lies in target/<profile>");
    let mut build = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "forebay-client", "--example", name]);
    build.args((name == "async").then_some("--features=tokio"));
    build.arg("--target-dir").arg(target);
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    let built = run(build, b"");
    assert!(built.status.success(), "{}", built.errors);
    let program = target.join("debug/examples").join(name);
    let mut example = match by.split_first() {
        None => command(program),
        Some((by, arguments)) => {
            let mut by = command(by);
            by.args(arguments).arg(program);
            by
        }
    };
    example.arg(url);
    example
}
