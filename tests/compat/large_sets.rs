//! Long values on their way into the store, cut anywhere: the same replies as from redis-server,
//! and the same values, whether they were received in place or not.
//!
//! `FOREBAY_LARGE_SETS` sets how many streams there are, `FOREBAY_LARGE_SETS_SEED` repeats one.

use base::prng::Prng;
use harness::{Connection, Kind, Launch, Request, Server, encode, number, request, words};
use resp::Value;

const STREAMS_DEFAULT: u64 = 120;
/// What a socket has room for before anybody reads.
const REPLIES_BYTES_MAX: usize = 30_000;
const LAST: &str = "ECHO last";
const LAST_REPLY: &[u8] = b"$4\r\nlast\r\n";

/// Returns `length` bytes that follow from `seed`.
fn value(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

#[test]
fn random_large_writes_are_answered_as_by_redis() {
    let servers = [Kind::Forebay, Kind::Redis].map(Server::start);
    let first = number("FOREBAY_LARGE_SETS_SEED");
    let count = first.map_or(number("FOREBAY_LARGE_SETS").unwrap_or(STREAMS_DEFAULT), |_| 1);
    let first = first.unwrap_or_else(|| u64::from(std::process::id()) << 32);
    for seed in first..first + count {
        check(&servers, seed);
    }
    let direct = servers[0].info("values_received_in_place");
    println!("{count} streams, {direct} values received in place");
    assert!(count < STREAMS_DEFAULT || direct > count);
    assert_eq!(servers[0].info("used_memory_extents_reserved"), 0);
}

/// Sends the stream of `seed` to both, to ours over each transport.
fn check(servers: &[Server; 2], seed: u64) {
    let mut random = Prng::new(seed);
    let requests: Vec<Request> = (0..=random.below(12)).map(|_| draw(&mut random)).collect();
    let mut stream = encode(&requests);
    let is_broken = random.one_in(8);
    if is_broken {
        mutate_tail(&mut stream, &mut random);
    }
    stream.extend_from_slice(&encode(&[words(LAST)]));
    let mut cuts: Vec<usize> =
        (0..random.below(9)).map(|_| random.below(stream.len() as u64) as usize).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();

    let expected = servers[1].exchange(&pieces);
    servers[1].tcp().call("FLUSHALL");
    let connect: [fn(&Server) -> Connection; 4] =
        [Server::tcp, Server::unix, |server| server.lane(1 << 16), |server| server.lane(1 << 20)];
    // A lane has no end of requests, and a socket may have no room for all replies when they end:
    // who ends its requests has its connection closed.
    let count = if expected.ends_with(LAST_REPLY) { 4 } else { 1 };
    if count == 1 && expected.len() > REPLIES_BYTES_MAX {
        return;
    }
    for (transport, connect) in connect[..count].iter().enumerate() {
        let found = match count {
            1 => servers[0].exchange(&pieces),
            _ => exchange(connect(&servers[0]), &pieces),
        };
        servers[0].tcp().call("FLUSHALL");
        if found != expected {
            let shown = |bytes: &[u8]| bytes[..bytes.len().min(3000)].escape_ascii().to_string();
            let heads: Vec<String> = requests.iter().map(head).collect();
            panic!(
                "FOREBAY_LARGE_SETS_SEED={seed}, transport {transport}: {heads:#?}\n{}\n{}",
                shown(&found),
                shown(&expected)
            );
        }
    }
}

/// Returns what is answered to `pieces`, up to the last reply.
fn exchange(mut connection: Connection, pieces: &[&[u8]]) -> Vec<u8> {
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        connection.send(piece).expect("the server takes requests");
    }
    let mut replies = Vec::new();
    while let Ok(reply) = connection.read() {
        replies.extend_from_slice(&reply.bytes);
        if reply.bytes == LAST_REPLY {
            break;
        }
    }
    replies
}

fn head(request: &Request) -> String {
    let words = request.iter().map(|word| match word.len() {
        0..40 => word.escape_ascii().to_string(),
        length => format!("<{length}>"),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn draw_value(random: &mut Prng) -> Vec<u8> {
    let length = match random.below(12) {
        0 => random.below(10),
        1 => random.below(30_000),
        2..8 => 60_000 + random.below(70_000),
        8..11 => 100_000 + random.below(600_000),
        _ => 1_000_000 + random.below(2_000_000),
    };
    value(random.next(), length as usize)
}

fn draw_key(random: &mut Prng) -> Vec<u8> {
    let mut key = random.pick(&["a", "b", "c", "list"]).as_bytes().to_vec();
    if random.one_in(10) {
        key.resize(5_000, b'k');
    }
    key
}

fn draw(random: &mut Prng) -> Request {
    const OTHERS: [&str; 21] = [
        "GET a",
        "GET b",
        "STRLEN a",
        "STRLEN b",
        "GETRANGE a 10 50",
        "DEL a",
        "DEL b",
        "PERSIST a",
        "PERSIST b",
        "EXISTS a b c",
        "OBJECT ENCODING a",
        "LPUSH list x",
        "APPEND a more",
        "SETRANGE b 10 more",
        "MULTI",
        "EXEC",
        "EXEC",
        "DISCARD",
        "SELECT 1",
        "SELECT 0",
        "RENAME a c",
    ];
    let key = draw_key(random);
    let value = draw_value(random);
    let time = random.pick(&["100", "5000000", "0", "-1", "x", "99999999999999999999"]);
    let (key, value, time) = (&key[..], &value[..], time.as_bytes());
    match random.below(20) {
        0..8 => words(random.pick(&OTHERS)),
        8..14 => {
            let mut request = request(&[&b"SeT"[..], key, value]);
            draw_options(&mut request, random);
            request
        }
        14 => request(&[b"SETEX", key, time, value]),
        15 => request(&[b"PSETEX", key, time, value]),
        16 => request(&[b"SETNX", key, value]),
        17 => request(&[b"GETSET", key, value]),
        18 => request(&[b"APPEND", key, value]),
        _ => random
            .pick(&[
                &[b"SETNX", key, value, b"x"] as &[&[u8]],
                &[b"SETEX", key, value],
                &[b"NOSUCH", key, value],
                &[b"SET", b"a", key, value],
                &[b"MSET", b"a", value, b"b", value],
                &[b"GETSET", key, value, value],
            ])
            .iter()
            .map(|word| word.to_vec())
            .collect(),
    }
}

fn draw_options(request: &mut Request, random: &mut Prng) {
    const OPTIONS: [&str; 13] = [
        "NX",
        "XX",
        "GET",
        "get",
        "KEEPTTL",
        "EX 100",
        "px 5000000",
        "PXAT 99999999999999",
        "EXAT 1",
        "EX 0",
        "EX",
        "nonsense",
        "NX GET",
    ];
    for _ in 0..random.pick(&[0, 0, 1, 1, 1, 2, 3]) {
        request.extend(words(random.pick(&OPTIONS)));
    }
    if random.one_in(20) {
        request.push(draw_value(random));
    }
}

/// Breaks the stream at or near its end.
fn mutate_tail(stream: &mut Vec<u8>, random: &mut Prng) {
    let tail = random.below(stream.len().min(40) as u64) as usize;
    let at = stream.len() - 1 - tail;
    match random.below(3) {
        0 => stream[at] = random.pick(b"*$:0\r\n"),
        1 => stream.truncate(at),
        _ => stream.extend_from_slice(b"*2\r\n$3\r\nSET\r\nx"),
    }
}

/// Returns once the worker has served what was sent before: the first request may be served in the
/// same round, before it.
fn settle(control: &mut Connection) {
    (0..2).for_each(|_| drop(control.call("PING")));
}

#[test]
fn a_value_cut_anywhere_is_stored_as_it_was_sent() {
    const LENGTH: usize = 100_003;
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let mut control = server.unix();
    let mut stored = 0;
    for (tail, reply) in [
        (&[][..], "+OK\r\n"),
        (&["PX", "5000000"], "+OK\r\n"),
        (&["NX", "GET"], "$3\r\nold\r\n"),
        (&["NX", "XX"], "-ERR syntax error\r\n"),
    ] {
        let sent = value(stored, LENGTH);
        let mut words = request(&[b"SET".as_slice(), b"key", &sent]);
        words.extend(request(tail));
        let mut stream = encode(&[words]);
        let head = stream.len() - encode(&[request(tail)]).len() + 4 - LENGTH - 2;
        stream.extend_from_slice(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
        let around = |at: usize| at.saturating_sub(9)..at + 9;
        let mut cuts: Vec<usize> = (1..head + 9).collect();
        cuts.extend([16_384, 65_536, LENGTH - 16_384, LENGTH].into_iter().flat_map(around));
        cuts.extend(head + LENGTH - 3..stream.len());
        for cut in cuts {
            for second in [cut, cut + 1, (cut + 20_000).min(stream.len() - 1)] {
                control.call("SET key old");
                let mut connection = server.unix();
                let cuts = [0, cut, second.min(stream.len()), stream.len()];
                for cut in cuts.windows(2) {
                    connection.send(&stream[cut[0]..cut[1]]).unwrap();
                    settle(&mut control);
                }
                let replies = [0, 1, 2].map(|_| connection.read().unwrap());
                assert_eq!(
                    replies[0].bytes.escape_ascii().to_string(),
                    reply.escape_default().to_string(),
                    "cut at {cut}, {second}"
                );
                assert_eq!(replies[1].bytes, b"+PONG\r\n");
                let expected = if reply == "+OK\r\n" { &sent[..] } else { b"old" };
                assert!(replies[2].value.as_bytes() == Some(expected), "cut at {cut}, {second}");
                stored += 1;
            }
        }
    }
    assert!(server.info("values_received_in_place") > stored / 2);
    assert_eq!(server.info("used_memory_extents_reserved"), 0);
}

/// Returns how often the server receives for `stream` and its `replies`.
fn receives(server: &Server, connection: &mut Connection, stream: &[u8], replies: usize) -> u64 {
    let before = server.info("total_reads_processed");
    connection.send(stream).expect("the server takes it");
    (0..replies).for_each(|_| drop(connection.read().expect("a reply comes")));
    server.info("total_reads_processed") - before
}

#[test]
fn little_is_received_with_the_head_of_a_value_that_is_likely() {
    const PINGS: usize = 600;
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let mut connection = server.unix();
    let pings = encode(&vec![words("PING"); PINGS]);
    assert!((5000..16_384).contains(&pings.len()), "more than a head, less than a receive");
    let set = |length| request(&[b"SET".as_slice(), b"key", &value(1, length)]);
    let mut receives = |stream: &[u8], replies| receives(&server, &mut connection, stream, replies);

    let at_once = receives(&pings, PINGS);
    for (requests, is_likely) in [
        (vec![set(65_536)], true),
        // The small receive for the pings was one too many.
        (vec![words("PING")], false),
        (vec![set(300_000)], true),
        (vec![set(30_000)], false),
        (vec![set(65_536), set(65_536)], false),
    ] {
        receives(&encode(&requests), requests.len());
        let expected = at_once + u64::from(is_likely);
        let heads: Vec<String> = requests.iter().map(head).collect();
        assert_eq!(receives(&pings, PINGS), expected, "after {heads:?}");
    }
    // What a small receive brings in full has cost nothing.
    receives(&encode(&[set(65_536)]), 1);
    assert_eq!(receives(&encode(&[words("GET nothing")]), 1), at_once);
    assert_eq!(receives(&pings, PINGS), at_once + 1);
}

#[test]
fn values_of_a_pipeline_are_received_in_place_where_they_come_in_parts() {
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let mut connection = server.unix();
    for (length, count, at_least, at_most) in
        [(65_536, 1, 1, 1), (65_536, 20, 20, 20), (40_000, 20, 1, 20), (32_000, 20, 0, 0)]
    {
        let before = server.info("values_received_in_place");
        let set = request(&[b"SET".as_slice(), b"key", &value(2, length)]);
        connection.send(&encode(&vec![set; count])).unwrap();
        (0..count).for_each(|_| assert_eq!(connection.read().unwrap().bytes, b"+OK\r\n"));
        let found = server.info("values_received_in_place") - before;
        assert!((at_least..=at_most).contains(&found), "{found} of {count} of {length} bytes");
        let Value::Bulk(stored) = connection.call("GET key") else { panic!("a value") };
        assert!(stored == value(2, length));
    }
}
