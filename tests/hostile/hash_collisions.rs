//! Keys and members that are chosen to collide, and what requests with them cost compared with
//! requests with others of the same size.
//!
//! `FOREBAY_FLOOD_KEYS` sets how many there are. The tests print the times of both requests, and
//! those of the command alone by the server's own statistics: the least of some rounds, in which
//! the two take turns. The request with chosen keys may take at most five times as long as the
//! other. With the variable set (the stress test) more than five times is a failure, after more
//! rounds, as other processes take time too. Without it only a wrong reply is one; the tests of
//! `arena`, `collections` and `keyspace` bound the cost by counts.

use std::collections::BTreeSet;
use std::time::Instant;

use base::collisions::{Collisions, KEY_BYTES};
use base::prng::Prng;
use client::Attached;
use harness::{Connection, Kind, Launch, Request, Server, encode, number, request, words};
use resp::Value;

use super::assert_healthy;

const COUNT_DEFAULT: u64 = 2_000;
/// How many there are in the smaller of two full campaigns.
const COUNT_SMALL: u64 = 20_000;
const ROUNDS: usize = 3;
/// So many where the bound does not hold before.
const ROUNDS_MAX: usize = 9;
const RATIO_MAX: f64 = 5.0;
/// What takes less than so many microseconds is not compared: other processes take more.
const COMPARED_US_MIN: u64 = 1_000;
const END: [u8; 16] = *b"{t}aaaaaaaaaaaaa";

type Names = Vec<Vec<u8>>;

/// What each command took.
type Times = Vec<(&'static str, Spent)>;

/// Microseconds.
#[derive(Clone, Copy)]
struct Spent {
    /// From the first byte sent to the last of the reply.
    request: u64,
    /// In the command, as the server's statistics have it.
    command: u64,
}

/// Returns `count` names of `length` bytes before `end`, which begin with `start`.
fn names(count: u64, start: &[u8], length: usize, end: &[u8]) -> Names {
    let mut random = Prng::new(count);
    let mut all = BTreeSet::new();
    while (all.len() as u64) < count {
        let mut name = vec![0; length];
        random.fill(&mut name);
        name[..start.len()].copy_from_slice(start);
        if !name.iter().any(|byte| b"{}".contains(byte)) {
            all.insert([&name, end].concat());
        }
    }
    all.into_iter().collect()
}

fn start() -> (Server, Connection) {
    let launch = Launch::new(Kind::Forebay).option("save", "").option("slowlog-max-len", "0");
    let server = launch.start();
    let connection = server.unix();
    (server, connection)
}

/// As [`start`], with keys that collide: servers are started until one has secrets for that.
fn start_with_collisions() -> (Server, Connection, Attached, Collisions) {
    for _ in 0..20 {
        let (server, connection) = start();
        let attached = Attached::connect(server.socket(), None).expect("the same user may attach");
        if let Some(same) = Collisions::find(attached.hasher(), END) {
            return (server, connection, attached, same);
        }
    }
    panic!("no server has secrets without braces");
}

/// Returns what `request` took, and its reply.
fn timed(connection: &mut Connection, request: &Request) -> (Spent, Value) {
    connection.call("CONFIG RESETSTAT");
    let bytes = encode(std::slice::from_ref(request));
    let start = Instant::now();
    connection.send(&bytes).expect("the server takes requests");
    let reply = connection.read().expect("the server answers").value;
    let spent = start.elapsed().as_micros() as u64;
    (Spent { request: spent, command: spent_us(connection, &request[0]) }, reply)
}

/// Returns the microseconds that all calls of `command` took.
fn spent_us(connection: &mut Connection, command: &[u8]) -> u64 {
    let text = connection.info_text("commandstats");
    let name = format!("cmdstat_{}:", String::from_utf8_lossy(command).to_ascii_lowercase());
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).expect("it was called");
    let spent = line.split(',').find_map(|field| field.strip_prefix("usec=")).expect("usec");
    spent.parse().expect("a number")
}

fn of_each<'a>(
    command: &[&[u8]],
    names: &'a Names,
    part: impl Fn(&'a Vec<u8>) -> Vec<Vec<u8>>,
) -> Request {
    let mut request = request(command);
    names.iter().for_each(|name| request.extend(part(name)));
    request
}

/// Adds, finds and removes `members`, of each type that hashes them.
fn use_members(connection: &mut Connection, members: &Names) -> Times {
    let mut times = Vec::new();
    let count = Value::Integer(members.len() as i64);
    let plain = |name: &Vec<u8>| vec![name.clone()];
    let before = |word: &'static str| move |name: &Vec<u8>| vec![word.into(), name.clone()];
    let behind = |name: &Vec<u8>| vec![name.clone(), b"v".to_vec()];
    for (name, request) in [
        ("SADD", of_each(&[b"SADD", b"k"], members, plain)),
        ("SREM", of_each(&[b"SREM", b"k"], members, plain)),
        ("HSET", of_each(&[b"HSET", b"k"], members, behind)),
        ("HDEL", of_each(&[b"HDEL", b"k"], members, plain)),
        ("ZADD", of_each(&[b"ZADD", b"k"], members, before("1"))),
        ("ZREM", of_each(&[b"ZREM", b"k"], members, plain)),
    ] {
        let (spent, reply) = timed(connection, &request);
        assert_eq!(reply, count, "{name}");
        times.push((name, spent));
    }
    times
}

/// Sets, reads, watches, scans and removes `keys`, which have one hash tag.
fn use_keys(connection: &mut Connection, keys: &Names) -> Times {
    let mut times = Vec::new();
    let plain = |name: &Vec<u8>| vec![name.clone()];
    let pair = |name: &Vec<u8>| vec![name.clone(), b"v".to_vec()];
    let (count, done) = (Value::Integer(keys.len() as i64), Value::Simple(b"OK".to_vec()));
    let mut run = |name, request: Request, expected: &Value| {
        let (spent, reply) = timed(connection, &request);
        assert_eq!(reply, *expected, "{name}");
        times.push((name, spent));
    };
    run("MSET", of_each(&[b"MSET"], keys, pair), &done);
    run("EXISTS", of_each(&[b"EXISTS"], keys, plain), &count);
    run("WATCH", of_each(&[b"WATCH"], keys, plain), &done);
    run("UNWATCH", words("UNWATCH"), &done);
    connection.call("CONFIG RESETSTAT");
    let start = Instant::now();
    let (mut cursor, mut seen) = (b"0".to_vec(), BTreeSet::new());
    loop {
        let reply = connection.ask(&request(&[b"SCAN", &cursor[..], b"COUNT", b"100"])).value;
        let Value::Array(parts) = reply else { panic!("SCAN returns two parts") };
        let Value::Array(found) = &parts[1] else { panic!("the second is an array") };
        seen.extend(found.iter().map(|key| key.as_bytes().expect("a key").to_vec()));
        cursor = parts[0].as_bytes().expect("the first is a cursor").to_vec();
        if cursor == b"0" {
            break;
        }
    }
    assert!(keys.iter().all(|key| seen.contains(key)) && seen.len() == keys.len());
    let spent = start.elapsed().as_micros() as u64;
    times.push(("SCAN", Spent { request: spent, command: spent_us(connection, b"SCAN") }));
    let (spent, reply) = timed(connection, &of_each(&[b"DEL"], keys, plain));
    assert_eq!(reply, count);
    times.push(("DEL", spent));
    connection.ask(&of_each(&[b"MSET"], keys, pair));
    let (spent, _) = timed(connection, &words("FLUSHALL SYNC"));
    times.push(("FLUSHALL", spent));
    times
}

/// Lowers `known`, what each command took, to what it took in another round.
fn lower(known: &mut Times, round: Times) {
    if known.is_empty() {
        *known = round;
        return;
    }
    for ((_, known), (_, spent)) in known.iter_mut().zip(round) {
        known.request = known.request.min(spent.request);
        known.command = known.command.min(spent.command);
    }
}

/// Returns how many times as long `hostile` took as `harmless`, from the first byte to the last
/// and in the command.
fn ratios(harmless: &Spent, hostile: &Spent) -> [f64; 2] {
    let pairs = [(harmless.request, hostile.request), (harmless.command, hostile.command)];
    pairs.map(|(harmless, hostile)| hostile as f64 / harmless.max(1) as f64)
}

/// Returns what took more than the bound of what the other names took, as requests.
fn beyond(harmless: &Times, hostile: &Times) -> Vec<String> {
    let pairs = harmless.iter().zip(hostile);
    let compared = pairs.filter(|(_, (_, spent))| spent.request >= COMPARED_US_MIN);
    let beyond =
        compared.filter(|((_, harmless), (_, hostile))| ratios(harmless, hostile)[0] > RATIO_MAX);
    beyond
        .map(|((name, harmless), (_, spent))| format!("{name} {:.1?}", ratios(harmless, spent)))
        .collect()
}

/// Runs `round` with `harmless` and `hostile` names in turns and prints what the commands took.
///
/// # Panics
/// When the hostile ones took more than the bound, in a campaign.
fn compare(what: &str, names: [Names; 2], mut round: impl FnMut(&Names) -> Times) {
    let (count, [mut harmless, mut hostile]) = (names[0].len(), [Times::new(), Times::new()]);
    let is_campaign = number("FOREBAY_FLOOD_KEYS").is_some();
    for round_number in 1..=if is_campaign { ROUNDS_MAX } else { ROUNDS } {
        lower(&mut harmless, round(&names[0]));
        lower(&mut hostile, round(&names[1]));
        if round_number >= ROUNDS && beyond(&harmless, &hostile).is_empty() {
            break;
        }
    }
    for ((name, harmless), (_, hostile)) in harmless.iter().zip(&hostile) {
        let [whole, command] = ratios(harmless, hostile);
        let line = |spent: &Spent| format!("{:8} us, {:8} us", spent.request, spent.command);
        let (left, right) = (line(harmless), line(hostile));
        println!("{what:21} {count:8} {name:8} {left} | {right} | {whole:5.2} {command:5.2}");
    }
    let beyond = beyond(&harmless, &hostile);
    println!("{what:21} {count:8} beyond {RATIO_MAX}: {beyond:?}");
    assert!(!is_campaign || beyond.is_empty(), "{what}: {beyond:?}");
}

fn counts() -> Vec<u64> {
    match number("FOREBAY_FLOOD_KEYS") {
        Some(count) => vec![COUNT_SMALL.min(count), count],
        None => vec![COUNT_DEFAULT],
    }
}

#[test]
fn floods_of_members_cost_what_other_members_cost() {
    let (server, mut connection) = start();
    for count in counts() {
        let harmless = names(count, b"", 16, b"");
        let chosen = names(count, &0x8bb8_4b93_962e_acc9_u64.to_le_bytes(), 16, b"");
        compare("16 B members", [harmless, chosen], |names| use_members(&mut connection, names));
    }
    assert_healthy(&server);
}

#[test]
fn floods_of_keys_cost_what_other_keys_cost() {
    let (server, mut connection) = start();
    for count in counts() {
        let harmless = names(count, b"", 16, &END);
        let chosen = names(count, &0x4b33_a62e_d433_d4a3_u64.to_le_bytes(), 16, &END);
        compare("32 B keys", [harmless, chosen], |names| use_keys(&mut connection, names));
    }
    assert_healthy(&server);
}

#[test]
fn floods_of_keys_whose_index_hashes_are_equal_cost_what_other_keys_cost() {
    let (server, mut connection, _attached, same) = start_with_collisions();
    for count in counts() {
        let harmless = names(count, b"", KEY_BYTES - END.len(), &END);
        let chosen: Names = (0..count).map(|index| same.key(index).to_vec()).collect();
        compare("80 B keys of one hash", [harmless, chosen], |names| {
            use_keys(&mut connection, names)
        });
    }
    assert_healthy(&server);
}

#[test]
fn readers_find_every_key_of_a_flood() {
    let (_server, mut connection, attached, same) = start_with_collisions();
    let key = |index: u64| same.key(index);
    for index in 0..300 {
        connection.ask(&request(&[b"SET".as_slice(), &key(index), &index.to_le_bytes()]));
    }
    let mut value = Vec::new();
    for index in 0..300 {
        assert!(attached.get(&key(index), &mut value).expect("the server is there"));
        assert_eq!(value, index.to_le_bytes());
        assert_eq!(attached.strlen(&key(index)).expect("the server is there"), 8);
    }
    assert!(!attached.get(&key(300), &mut value).expect("the server is there"));
    assert!(!attached.exists(&key(301)).expect("the server is there"));
    // Six entries are read in the memory; the server was asked for the others.
    let asked = connection.info_text("commandstats");
    let get = asked.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    let calls: u64 = get.and_then(|rest| rest.split(',').next()?.parse().ok()).expect("GET came");
    assert_eq!(calls, 300 - 6 + 1);
    for index in 6..300 {
        connection.ask(&request(&[b"DEL".as_slice(), &key(index)]));
    }
    connection.call("CONFIG RESETSTAT");
    for index in 0..300 {
        let is_there = attached.get(&key(index), &mut value).expect("the server is there");
        assert_eq!(is_there, index < 6);
    }
    let asked = connection.info_text("commandstats");
    assert!(!asked.contains("cmdstat_get:"), "nothing is left that only the server can find");
}
