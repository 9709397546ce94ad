//! Random streams of bytes, valid, torn and malformed, to Forebay and to redis-server: the same
//! replies, and the connection closed at the same request.
//!
//! `FOREBAY_STREAMS` sets how many streams there are, `FOREBAY_STREAMS_SEED` repeats one.
//!
//! One input differs and is not generated: a line of 64 KiB to 160 KiB. Redis looks for the end of
//! a line in what it has read so far, as much as its buffer takes, and accepts a line over 64 KiB
//! if its end comes in the read that passes them. Here the limit does not depend on how bytes
//! arrive: a line of up to 160 KiB is accepted, as it is by Redis when it is there as a whole.

use base::prng::Prng;
use harness::{Kind, Server, encode, number, words};

const STREAMS_DEFAULT: u64 = 2_000;
/// Lines below 64 KiB, also with a torn request before them, and lines above the limit however they
/// arrive.
const LONG_LINES: [usize; 2] = [60_000, 300_000];

#[test]
fn line_over_64_kib_is_executed_where_it_comes_as_a_whole() {
    for server in [Kind::Forebay, Kind::Redis].map(Server::start) {
        for (bytes, is_executed) in [(66_000, true), (140_000, true), (200_000, false)] {
            // Who sleeps first finds the whole line there.
            let word = "a".repeat(bytes);
            let found =
                server.exchange(&[format!("DEBUG SLEEP 0.05\r\nECHO {word}\r\n").as_bytes()]);
            let expected = match is_executed {
                true => format!("+OK\r\n${bytes}\r\n{word}\r\n"),
                false => "+OK\r\n-ERR Protocol error: too big inline request\r\n".to_owned(),
            };
            assert!(found == expected.as_bytes(), "{:?}: {bytes}", server.kind());
        }
    }
}

#[test]
fn random_streams_are_answered_and_closed_as_by_redis() {
    let servers = [Kind::Forebay, Kind::Redis].map(Server::start);
    let first = number("FOREBAY_STREAMS_SEED");
    let count = first.map_or(number("FOREBAY_STREAMS").unwrap_or(STREAMS_DEFAULT), |_| 1);
    let first = first.unwrap_or_else(|| u64::from(std::process::id()) << 32);
    let (mut closed, mut refused) = (0, 0);
    for seed in first..first + count {
        let expected = check(&servers, seed);
        closed += u64::from(!expected.ends_with(LAST_REPLY));
        refused += u64::from(contains(&expected, b"-ERR Protocol error"));
    }
    println!("{count} streams, {refused} with a protocol error, {closed} closed before the end");
    assert!(count < STREAMS_DEFAULT || (refused > 0 && closed > refused && closed < count));
}

/// Sent after each stream: who answers it has not closed.
const LAST: &[u8] = b"\r\n*2\r\n$4\r\nECHO\r\n$8\r\nthe last\r\n";
const LAST_REPLY: &[u8] = b"$8\r\nthe last\r\n";

/// Sends the stream of `seed` to both and returns what both said.
fn check(servers: &[Server; 2], seed: u64) -> Vec<u8> {
    let mut random = Prng::new(seed);
    let stream = stream(&mut random);
    let piece_bytes = match random.below(3) {
        0 => stream.len().max(1),
        1 => 1 + random.below(40) as usize,
        _ => 1 + random.below(5000) as usize,
    };
    let mut pieces: Vec<&[u8]> = stream.chunks(piece_bytes.max(stream.len() / 2000)).collect();
    pieces.push(LAST);
    // What one stream stored must not meet the next: a failure is repeated by its seed alone.
    let [found, expected] = [0, 1].map(|index| {
        servers[index].tcp().call("FLUSHALL");
        servers[index].exchange(&pieces)
    });
    assert_eq!(
        found.escape_ascii().to_string(),
        expected.escape_ascii().to_string(),
        "(forebay, redis) for \"{}\" in pieces of {piece_bytes}, FOREBAY_STREAMS_SEED={seed}",
        stream[..stream.len().min(2000)].escape_ascii()
    );
    expected
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn stream(random: &mut Prng) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..=random.below(5) {
        append_part(&mut stream, random);
    }
    // A line end within a long line would make two of the lengths that are not drawn.
    let mutations = if stream.len() < LONG_LINES[0] { random.below(4) } else { 0 };
    (0..mutations).for_each(|_| mutate(&mut stream, random));
    stream
}

/// None becomes the name of a command that only Redis has when its bytes change; DEL becomes XDEL.
const REQUESTS: [&str; 10] = [
    "PING",
    "SET k value",
    "GET k",
    "INCR n",
    "APPEND k 12",
    "UNLINK k n",
    "MSET a 1 b 2 c 3",
    "MGET a b c k",
    "ECHO word",
    "GETRANGE k 0 -1",
];

fn append_part(stream: &mut Vec<u8>, random: &mut Prng) {
    let line = random.pick(&REQUESTS);
    match random.below(20) {
        0..7 => stream.extend_from_slice(&encode(&[words(line)])),
        7..10 => stream.extend_from_slice(format!("{line}\r\n").as_bytes()),
        10..13 => append_quoted(stream, random),
        13..15 => append_header(stream, random),
        15 => append_binary(stream, random),
        16 => stream.extend_from_slice(random.pick(&[b"\r\n", b"\n\n", b" \n", b"\0\n"])),
        17 => stream.extend_from_slice(b"QUIT\r\n"),
        18 if random.one_in(5) => {
            stream.resize(stream.len() + random.pick(&LONG_LINES), b'a');
            stream.extend_from_slice(b"\r\n");
        }
        _ => {
            let whole = encode(&[words(line)]);
            let length = random.below(whole.len() as u64) as usize;
            stream.extend_from_slice(&whole[..length]);
        }
    }
}

/// An inline request with quotes, closed and not.
fn append_quoted(stream: &mut Vec<u8>, random: &mut Prng) {
    const PIECES: [&str; 16] = [
        "\"", "'", "\\", "\\x41", "\\xg1", "\\n", "\\\"", "\\'", " ", "a", "\"a b\"", "'a b'",
        "\"\"", "''", "\t", "key",
    ];
    stream.extend_from_slice(random.pick(&["ECHO ", "SET k ", " GET ", "\"PING\" "]).as_bytes());
    for _ in 0..=random.below(5) {
        stream.extend_from_slice(random.pick(&PIECES).as_bytes());
    }
    stream.extend_from_slice(random.pick(&[b"\r\n".as_slice(), b"\n"]));
}

/// Headers of counts and lengths, few of which are right.
fn append_header(stream: &mut Vec<u8>, random: &mut Prng) {
    const NUMBERS: [&str; 16] = [
        "0",
        "1",
        "2",
        "-1",
        "-2",
        "+1",
        "01",
        " 1",
        "1 ",
        "",
        "x",
        "1x",
        "1048576",
        "2147483648",
        "9223372036854775808",
        "536870913",
    ];
    let marks = ["*", "*1\r\n$", "*2\r\n$4\r\nECHO\r\n$", "$", "*1\r\n:", "*1\r\n"];
    let ends = ["\r\n", "\r\n", "\n", "\r", "\r\nPING\r\n"];
    let (mark, number, end) = (random.pick(&marks), random.pick(&NUMBERS), random.pick(&ends));
    stream.extend_from_slice(format!("{mark}{number}{end}").as_bytes());
}

fn append_binary(stream: &mut Vec<u8>, random: &mut Prng) {
    let mut bytes = vec![0; random.below(3000) as usize];
    random.fill(&mut bytes);
    stream.extend_from_slice(&encode(&[vec![b"ECHO".to_vec(), bytes]]));
}

fn mutate(stream: &mut Vec<u8>, random: &mut Prng) {
    const BYTES: &[u8] = b"\r\n*$0123456789-+\"'\\x \x00\xffaZ";
    if stream.is_empty() {
        return;
    }
    let index = random.below(stream.len() as u64) as usize;
    let byte = random.pick(BYTES);
    match random.below(5) {
        0 => stream.truncate(index),
        1 => drop(stream.remove(index)),
        2 => stream.insert(index, byte),
        _ => stream[index] = byte,
    }
}
