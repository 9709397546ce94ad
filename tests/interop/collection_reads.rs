//! Reads of collections by our own client: what the memory answers is what the server says.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::prng::Prng;
use client::{Client, ClientError, Elements, Reply, SortedSetRange};
use harness::{Kind, Launch, Server, poll_until, words};
use sys::allocations;

use super::urls;

fn connect(url: &str) -> Client {
    Client::connect(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Parts that collections are made of: texts, integers of each width, and what nearly is one.
const PARTS: [&str; 16] = [
    "a",
    "b",
    "field",
    "0",
    "1",
    "-1",
    "007",
    "127",
    "-4095",
    "70000",
    "2147483648",
    "1.5",
    "-9223372036854775808",
    "9223372036854775808",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "absent",
];

fn part(random: &mut Prng) -> &'static str {
    random.pick(&PARTS)
}

type Table = [(&'static str, fn(&Client, &[u8], &mut Prng) -> String); 20];

/// Every read, with arguments that are drawn; what comes is compared as text.
const READS: Table = [
    ("hget", |it, key, random| shown(it.hget(key, part(random).as_bytes()))),
    ("hget_into", |it, key, random| {
        let mut value = b"of an earlier read".to_vec();
        let found = it.hget_into(key, part(random).as_bytes(), &mut value);
        let value = found.is_ok().then_some(value);
        format!("{} {value:?}", shown(found))
    }),
    ("hmget", |it, key, random| {
        let fields = drawn(random);
        let fields: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
        elements(|values| it.hmget(key, &fields, values))
    }),
    ("hgetall", |it, key, _| elements(|pairs| it.hgetall(key, pairs))),
    ("hkeys", |it, key, _| elements(|fields| it.hkeys(key, fields))),
    ("hvals", |it, key, _| elements(|values| it.hvals(key, values))),
    ("hexists", |it, key, random| shown(it.hexists(key, part(random).as_bytes()))),
    ("hstrlen", |it, key, random| shown(it.hstrlen(key, part(random).as_bytes()))),
    ("hlen", |it, key, _| shown(it.hlen(key))),
    ("sismember", |it, key, random| shown(it.sismember(key, part(random).as_bytes()))),
    ("smismember", |it, key, random| {
        let (members, mut answers) = (drawn(random), vec![true]);
        let members: Vec<&[u8]> = members.iter().map(|member| member.as_bytes()).collect();
        shown(it.smismember(key, &members, &mut answers).map(|()| answers))
    }),
    ("smembers", |it, key, _| elements(|members| it.smembers(key, members))),
    ("scard", |it, key, _| shown(it.scard(key))),
    ("zscore, zcard", |it, key, random| {
        format!("{} {}", shown(it.zscore(key, part(random).as_bytes())), shown(it.zcard(key)))
    }),
    ("zmscore", |it, key, random| {
        let (members, mut scores) = (drawn(random), vec![None]);
        let members: Vec<&[u8]> = members.iter().map(|member| member.as_bytes()).collect();
        shown(it.zmscore(key, &members, &mut scores).map(|()| scores))
    }),
    ("zrank, zrevrank", |it, key, random| {
        let member = part(random).as_bytes();
        format!("{} {}", shown(it.zrank(key, member)), shown(it.zrevrank(key, member)))
    }),
    ("zrange", |it, key, random| {
        let (range, mut scores) = (range(random), vec![0.5]);
        let plain = elements(|members| it.zrange(key, &range, members));
        let scored = elements(|members| it.zrange_with_scores(key, &range, members, &mut scores));
        format!("{range:?} {plain} {scored} {scores:?}")
    }),
    ("lindex", |it, key, random| shown(it.lindex(key, random.below(12) as i64 - 6))),
    ("lrange", |it, key, random| {
        let (start, stop) = (rank(random), rank(random));
        elements(|parts| it.lrange(key, start, stop, parts))
    }),
    ("llen", |it, key, _| shown(it.llen(key))),
];

fn shown<T: std::fmt::Debug>(found: Result<T, ClientError>) -> String {
    format!("{found:?}")
}

fn elements(read: impl FnOnce(&mut Elements) -> Result<(), ClientError>) -> String {
    let mut elements = Elements::new();
    let found = read(&mut elements);
    let parts: Vec<_> = elements.iter().map(|part| part.map(<[u8]>::escape_ascii)).collect();
    let parts: Vec<_> = parts.into_iter().map(|part| part.map(|it| it.to_string())).collect();
    if found.is_ok() { format!("{parts:?}") } else { shown(found) }
}

fn drawn(random: &mut Prng) -> Vec<&'static str> {
    // Of nothing the server refuses to say anything.
    (0..random.below(7)).map(|_| part(random)).collect()
}

fn rank(random: &mut Prng) -> i64 {
    match random.below(8) {
        0 => i64::MIN,
        1 => i64::MAX,
        other => other as i64 * 3 - 12,
    }
}

fn range(random: &mut Prng) -> SortedSetRange {
    let bound = |random: &mut Prng| {
        let value = [-1.0, 0.0, 1.0, 1.5, 7.0, f64::INFINITY, f64::NAN][random.below(7) as usize];
        match random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(value),
            _ => Bound::Excluded(value),
        }
    };
    let range = match random.one_in(2) {
        true => SortedSetRange::ranks(rank(random), rank(random)),
        false => SortedSetRange::scores(bound(random), bound(random)),
    };
    let range = if random.one_in(2) { range.reversed() } else { range };
    if random.one_in(2) { range.limited(random.below(4), random.below(9)) } else { range }
}

/// Returns a request that changes one of `keys`, most often to what is still compact.
fn change(random: &mut Prng, keys: &[&str]) -> String {
    let (key, other) = (random.pick(keys), random.pick(keys));
    let kind = random.below(12);
    let mut with_parts = |command: &str, per_part: fn(&mut Prng) -> String| {
        let parts: Vec<String> = (0..1 + random.below(8)).map(|_| per_part(random)).collect();
        format!("{command} {key} {}", parts.join(" "))
    };
    let pair = |random: &mut Prng| format!("{} {}", part(random), part(random));
    let one = |random: &mut Prng| part(random).to_owned();
    let number = |random: &mut Prng| (random.below(100_000) as i64 - 50_000).to_string();
    let scored = |random: &mut Prng| {
        let score = ["0", "1", "1.5", "-2", "7", "inf", "3e-5"][random.below(7) as usize];
        format!("{score} {}", part(random))
    };
    match kind {
        0 | 1 => with_parts("HSET", pair),
        2 => with_parts("RPUSH", one),
        3 => with_parts("SADD", one),
        4 => with_parts("SADD", number),
        5 | 6 => with_parts("ZADD", scored),
        7 => with_parts("HDEL", one),
        8 => with_parts("SREM", one),
        9 => with_parts("ZREM", one),
        10 => format!("LPOP {key} 2"),
        _ => seldom(random, key, other),
    }
}

fn seldom(random: &mut Prng, key: &str, other: &str) -> String {
    let many = |random: &mut Prng| {
        (0..200).map(|_| random.below(1000).to_string()).collect::<Vec<_>>().join(" ")
    };
    match random.below(14) {
        0..=3 => format!("DEL {key}"),
        4 => format!("SET {key} text"),
        5 => format!("RENAME {key} {other}"),
        6 => format!("COPY {key} {other} REPLACE"),
        7 => format!("PEXPIRE {key} 1"),
        8 => format!("PEXPIREAT {key} 4102444800000"),
        9 => format!("HSET {key} {}", many(random)),
        10 => format!("SADD {key} {} x", many(random)),
        11 => format!("RPUSH {key} {0} {0}", many(random)),
        12 => "MULTI".to_owned(),
        _ => "EXEC".to_owned(),
    }
}

#[test]
fn reads_of_collections_answer_as_the_server_does_whatever_is_done_to_them() {
    const STEPS: u64 = 3000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let [shm, unix, tcp] = urls(&server, "").map(|url| connect(&url));
    unix.call(&[b"HELLO", b"3"]).unwrap();
    let mut writer = server.unix();
    writer.call("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut random = Prng::new(5);
    let keys = ["a", "b", "c", "{d}1", "{d}2"];
    let mut found_count = 0;
    for step in 0..STEPS {
        let line = change(&mut random, &keys);
        writer.ask(&words(&line));
        if step % 4 != 0 {
            continue;
        }
        poll_until("what expires to have expired", || {
            let left = |key: &&str| tcp.call(&[b"PTTL", key.as_bytes()]).unwrap();
            keys.iter().all(|key| !matches!(left(key), Reply::Integer(0..1000)))
        });
        let key = random.pick(&keys).as_bytes();
        for (name, read) in READS {
            let seed = random.next();
            let expected = read(&tcp, key, &mut Prng::new(seed));
            for client in [&shm, &unix] {
                let found = read(client, key, &mut Prng::new(seed));
                assert!(
                    found == expected,
                    "step {step}, {line}: {name} {} over {client:?}: {found}, not {expected}",
                    key.escape_ascii()
                );
            }
            found_count += u64::from(!expected.starts_with("Err"));
        }
    }
    assert!(found_count > STEPS, "{found_count}");
}

/// Returns how many requests the server has executed beside those that ask for it.
fn requests(server: &Server) -> u64 {
    server.info("total_commands_processed")
}

#[test]
fn small_collections_and_all_lengths_are_read_without_the_server_and_without_memory() {
    let server = Server::start(Kind::Forebay);
    let client = connect(&urls(&server, "")[0]);
    let mut writer = server.unix();
    for line in [
        "HSET hash one 1 two text three 3.5",
        "SADD set a b c",
        "SADD numbers 1 2 3",
        "ZADD sorted 1 a 2.5 b 3 c",
        "RPUSH list a b c",
    ] {
        writer.call(line);
    }
    for index in 0..1000 {
        writer.call(&format!("HSET large:hash {index} {index}"));
        writer.call(&format!("SADD large:set m{index}"));
        writer.call(&format!("ZADD large:sorted {index} {index}"));
        writer.call(&format!("RPUSH large:list {}", "x".repeat(30)));
    }
    let (mut value, mut elements) = (Vec::new(), Elements::new());
    let (mut scores, mut found, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    let range = SortedSetRange::scores(Bound::Excluded(1.0), Bound::Unbounded);
    let mut read = || {
        assert!(client.hget_into(b"hash", b"one", &mut value).unwrap() && value == b"1");
        client.hmget(b"hash", &[b"two", b"none", b"three"], &mut elements).unwrap();
        let all = [elements.get(0), elements.get(1), elements.get(2)];
        assert_eq!(all, [Some(b"text".as_slice()), None, Some(b"3.5")]);
        client.hgetall(b"hash", &mut elements).unwrap();
        assert_eq!(elements.pairs().count(), 3);
        assert!(client.sismember(b"set", b"b").unwrap());
        client.smismember(b"numbers", &[b"2", b"4"], &mut answers).unwrap();
        assert_eq!(answers, [true, false]);
        client.smembers(b"numbers", &mut elements).unwrap();
        assert_eq!(elements.get(2), Some(b"3".as_slice()));
        assert_eq!(client.zscore(b"sorted", b"b").unwrap(), Some(2.5));
        assert_eq!(client.zrevrank(b"sorted", b"c").unwrap(), Some(0));
        client.zrange_with_scores(b"sorted", &range, &mut elements, &mut scores).unwrap();
        assert_eq!((elements.len(), scores.as_slice()), (2, [2.5, 3.0].as_slice()));
        client.zmscore(b"sorted", &[b"a", b"x"], &mut found).unwrap();
        assert_eq!(found, [Some(1.0), None]);
        assert!(client.lindex_into(b"list", -1, &mut value).unwrap() && value == b"c");
        client.lrange(b"list", 0, -1, &mut elements).unwrap();
        assert_eq!(elements.len(), 3);
        assert_eq!(client.hlen(b"large:hash").unwrap(), 1000);
        assert_eq!(client.scard(b"large:set").unwrap(), 1000);
        assert_eq!(client.zcard(b"large:sorted").unwrap(), 1000);
        assert_eq!(client.llen(b"large:list").unwrap(), 1000);
        assert_eq!(client.llen(b"absent").unwrap(), 0);
    };
    read();
    let (asked, allocated) = (requests(&server), allocations::of_this_thread());
    (0..100).for_each(|_| read());
    assert_eq!(allocations::of_this_thread() - allocated, 0);
    // INFO itself is one.
    assert!(requests(&server) - asked <= 2, "{asked}");
    assert_eq!(client.hget(b"large:hash", b"7").unwrap(), Some(b"7".to_vec()));
    assert!(requests(&server) - asked >= 2);
}

/// Each change sets all fields to one number, so that whoever sees two numbers in one answer has
/// seen half of a change. The hash grows and shrinks meanwhile, moves, and becomes a table.
#[test]
fn fields_that_are_set_together_never_disagree_within_one_answer() {
    const CHANGES: u64 = 20_000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let (reader, ended) = (connect(&urls(&server, "")[0]), AtomicBool::new(false));
    let mut writer = server.unix();
    writer.call("HSET hash a 0 b 0 c 0");
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut elements, mut reads) = (Elements::new(), 0_u64);
            while !ended.load(Ordering::Relaxed) {
                reader.hmget(b"hash", &[b"c", b"a", b"b"], &mut elements).unwrap();
                let values: Vec<_> = elements.iter().collect();
                assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
                reader.hvals(b"hash", &mut elements).unwrap();
                let mut numbers = elements.iter().flatten().filter(|it| it.len() < 20);
                let first = numbers.next();
                assert!(numbers.all(|number| Some(number) == first));
                reads += 2;
            }
            reads
        });
        for number in 1..=CHANGES {
            let padding = "x".repeat(20 + (number * 7 % 60) as usize);
            writer.call(&format!(
                "HSET hash a {number} p{} {padding} b {number} c {number}",
                number % 9
            ));
            if number % 5 == 0 {
                writer.call(&format!("HDEL hash p{} p{}", number % 9, number * 3 % 9));
            }
        }
        ended.store(true, Ordering::Relaxed);
        let reads = reading.join().expect("no answer disagrees with itself");
        assert!(reads > 1000, "{reads}");
    });
}
