//! Payloads of RESTORE with a few bytes changed under a right checksum, of every encoding there is
//! and of those of older servers: each is refused, or is a value that the server and a reader of
//! its memory read alike, and that comes back as itself.
//!
//! `FOREBAY_CORRUPT_PAYLOADS` sets how many.

use base::prng::Prng;
use client::{Client, Elements, SortedSetRange};
use harness::{Connection, Kind, Launch, number, request, words};
use rdb::samples::ziplist;
use resp::Value;

use super::assert_healthy;
use crate::compat::dumped_values::{dump, encodings};

const PAYLOADS_DEFAULT: u64 = 3000;
/// Longer ones teach nothing more.
const PAYLOAD_BYTES_MAX: usize = 3000;
/// Bytes of a payload behind its value: two of the version, and the checksum.
const FOOTER_BYTES: usize = 10;
/// The version of values of Redis 5 to 6.2.
const VERSION_BEFORE_7_0: u16 = 9;

/// A value as it is before the footer, and the version in that.
#[derive(Clone)]
struct Unsealed {
    version: u16,
    value: Vec<u8>,
}

impl Unsealed {
    /// Returns what `k` is dumped as.
    fn of(connection: &mut Connection) -> Unsealed {
        let payload = dump(connection);
        let value = rdb::open(&payload).expect("it was just made").to_vec();
        let footer = &payload[payload.len() - FOOTER_BYTES..];
        Unsealed { version: u16::from_le_bytes([footer[0], footer[1]]), value }
    }
}

/// Returns values of every encoding.
fn values(connection: &mut Connection) -> Vec<Unsealed> {
    let mut values = Vec::new();
    for row in encodings() {
        connection.call("DEL k");
        connection.pipeline(&row.made);
        values.push(Unsealed::of(connection));
    }
    values.retain(|one| one.value.len() <= PAYLOAD_BYTES_MAX);
    values.extend(streams(connection));
    values.extend(hashes_with_times(connection));
    let older = |value| Unsealed { version: VERSION_BEFORE_7_0, value };
    values.extend(older_values().into_iter().map(older));
    values
}

/// Returns a stream with a group and an entry that is pending, in each version that has its own
/// form of streams.
fn streams(connection: &mut Connection) -> Vec<Unsealed> {
    let lines = [
        "DEL k",
        "XADD k 5-1 field value other 12345",
        "XADD k 5-2 field value other 7",
        "XADD k 6-1 alone 1",
        "XGROUP CREATE k group 0",
        "XREADGROUP GROUP group consumer COUNT 2 STREAMS k >",
        "XACK k group 5-1",
        "XDEL k 6-1",
    ];
    connection.pipeline(&lines.map(words));
    let versions = ["9", "10", "11"].map(|version| {
        connection.call(&format!("CONFIG SET rdb-export-version {version}"));
        Unsealed::of(connection)
    });
    versions.into()
}

/// Returns hashes some of whose fields expire, a compact one and a large one. They do so far from
/// now, so that few changes of a byte have them expire while they are compared.
fn hashes_with_times(connection: &mut Connection) -> [Unsealed; 2] {
    ["short", &"long".repeat(100)].map(|value| {
        let lines = [
            "DEL k",
            &format!("HSET k a {value} b 2 c three"),
            "HPEXPIREAT k 4102444800000 FIELDS 1 a",
            "HPEXPIREAT k 4102444800777 FIELDS 1 c",
        ];
        connection.pipeline(&lines.map(words));
        Unsealed::of(connection)
    })
}

/// Returns values as servers before Redis 7.0 wrote them: ziplists and a zipmap.
fn older_values() -> Vec<Vec<u8>> {
    const LIST_ZIPLIST: u8 = 10;
    const SORTED_SET_ZIPLIST: u8 = 12;
    const HASH_ZIPLIST: u8 = 13;
    const HASH_ZIPMAP: u8 = 9;
    let entries: [&[u8]; 6] =
        [b"\x01a", b"\xFE\x05", b"\x02bb", b"\xC0\x39\x30", b"\xF3", b"\xFE\x80"];
    let block = |kind: u8, block: &[u8]| [&[kind, block.len() as u8], block].concat();
    let mut values: Vec<Vec<u8>> = [LIST_ZIPLIST, SORTED_SET_ZIPLIST, HASH_ZIPLIST]
        .iter()
        .map(|kind| block(*kind, &ziplist(&entries)))
        .collect();
    values.push(block(HASH_ZIPMAP, b"\x02\x01f\x01\x00v\x01g\x02\x01ww-\xFF"));
    values
}

/// Changes a few bytes of `value`, or how many there are.
fn corrupt(value: &mut Vec<u8>, random: &mut Prng) {
    for _ in 0..=random.below(3) {
        // What says lengths and counts is at the beginning, most times.
        let bound = if random.one_in(2) { value.len().min(24) } else { value.len() };
        let index = random.below(bound.max(1) as u64) as usize;
        let byte = random.pick(&[0, 1, 2, 0x3F, 0x40, 0x7F, 0x80, 0xC3, 0xF0, 0xFE, 0xFF]);
        match (random.below(8), value.get_mut(index)) {
            (_, None) => value.push(byte),
            (0, _) => value.truncate(index),
            (1, _) => value.insert(index, byte),
            (2, _) => drop(value.remove(index)),
            (3, Some(place)) => *place ^= 1 << (byte & 7),
            (4, Some(place)) => *place = place.wrapping_add(1),
            (_, Some(place)) => *place = byte,
        }
    }
}

/// Returns what `client` reads of the collection `k`, as text: of sets and hashes in any order.
fn read(client: &Client, kind: &[u8]) -> String {
    if kind == b"stream" {
        let entries = client.call(&[b"XRANGE", b"k", b"-", b"+"]);
        return format!("{entries:?} {:?}", client.call(&[b"XINFO", b"STREAM", b"k", b"FULL"]));
    }
    let (mut elements, mut scores) = (Elements::new(), Vec::new());
    let whole = SortedSetRange::ranks(0, -1);
    let (count, found) = match kind {
        b"list" => (client.llen(b"k"), client.lrange(b"k", 0, -1, &mut elements)),
        b"set" => (client.scard(b"k"), client.smembers(b"k", &mut elements)),
        b"hash" => (client.hlen(b"k"), client.hgetall(b"k", &mut elements)),
        _ => {
            let found = client.zrange_with_scores(b"k", &whole, &mut elements, &mut scores);
            (client.zcard(b"k"), found)
        }
    };
    let mut parts: Vec<String> = match kind {
        b"hash" => elements.pairs().map(|pair| format!("{pair:?}")).collect(),
        _ => elements.iter().map(|part| format!("{part:?}")).collect(),
    };
    if matches!(kind, b"hash" | b"set") {
        parts.sort();
    }
    format!("{count:?} {found:?} {parts:?} {scores:?}")
}

#[test]
fn corrupt_payloads_are_refused_or_are_values_that_all_read_alike() {
    let count = number("FOREBAY_CORRUPT_PAYLOADS").unwrap_or(PAYLOADS_DEFAULT);
    let seed = number("FOREBAY_CORRUPT_SEED").unwrap_or(1);
    let server = Launch::new(Kind::Forebay).start();
    let mut connection = server.unix();
    let path = server.socket().display();
    let clients = ["shm", "unix"].map(|way| Client::connect(&format!("{way}://{path}")));
    let clients = clients.map(|client| client.expect("the server is there"));
    let values = values(&mut connection);
    let (mut random, mut accepted) = (Prng::new(seed), 0_u64);
    for round in 0..count {
        let Unsealed { version, mut value } =
            values[random.below(values.len() as u64) as usize].clone();
        corrupt(&mut value, &mut random);
        let shown = value.escape_ascii().to_string();
        rdb::seal_as(version, &mut value);
        let restore = request(&[b"RESTORE".as_slice(), b"k", b"0", &value, b"REPLACE"]);
        let replies = connection.pipeline(&[restore, words("TYPE k")]);
        if replies[0].error().is_some() {
            continue;
        }
        accepted += 1;
        let context = format!("seed {seed}, round {round}: {shown}");
        let digests = |connection: &mut Connection| connection.call("DEBUG DIGEST-VALUE k");
        let digest = digests(&mut connection);
        let Value::Simple(kind) = &replies[1].value else { panic!("{context}: {replies:?}") };
        if kind != b"string" {
            let [here, there] = clients.each_ref().map(|client| read(client, kind));
            assert_eq!(here, there, "{context}");
        }
        let again = dump(&mut connection);
        let restore = request(&[b"RESTORE".as_slice(), b"k", b"0", &again, b"REPLACE"]);
        assert_eq!(connection.ask(&restore).value, Value::Simple(b"OK".into()), "{context}");
        assert_eq!(digests(&mut connection), digest, "{context}");
    }
    println!("{count} payloads, {accepted} of them accepted");
    assert!(accepted > count / 100 && accepted < count, "{accepted} of {count}");
    assert_healthy(&server);
}
