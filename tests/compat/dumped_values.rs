//! DUMP of the one server, RESTORE of the other: the same values, byte for byte where nothing is
//! compressed and nothing has an order of its own.
//!
//! redis-server 7.0 writes version 10 of the format and reads no newer one, and knows no sets as
//! listpacks and no times of fields: payloads for it get a footer of that version.

use collections::Collection;
use harness::{Connection, Kind, Launch, request};
use rdb::{DecodeOptions, Stored, Value, Version, decode, samples};
use resp::Value as Reply;

const VERSION_OF_REDIS_7_0: u16 = 10;
/// Values that it does not know: sets as listpacks, and hashes with fields that expire.
const UNKNOWN: [u8; 3] = [20, 24, 25];
/// A stream with the times at which consumers were active.
const STREAM_OF_REDIS_7_2: u8 = 21;

/// Returns `payload` with the footer of redis-server 7.0, where that knows the form of the value.
pub fn for_redis_7_0(payload: &[u8]) -> Option<Vec<u8>> {
    let mut value = rdb::open(payload).expect("it was just made").to_vec();
    if value[0] == STREAM_OF_REDIS_7_2 {
        return stream_for_redis_7_0(&value);
    }
    if UNKNOWN.contains(&value[0]) {
        return None;
    }
    rdb::seal_as(VERSION_OF_REDIS_7_0, &mut value);
    Some(value)
}

/// Returns the payload of the stream that `value` is, in the form that redis-server 7.0 knows.
fn stream_for_redis_7_0(value: &[u8]) -> Option<Vec<u8>> {
    let rules = samples::default_rules();
    let options = DecodeOptions { rules: &rules, encoding: None, string_bytes_max: 1 << 30 };
    let value = decode(value, &options, &mut |_| Ok::<(), ()>(())).ok()?;
    let Value::Collection(stream) = value else { panic!("it is a stream") };
    let (version, mut payload) = (Version::new(VERSION_OF_REDIS_7_0)?, Vec::new());
    rdb::encode_as(version, Stored::Collection(stream.view()), &mut payload);
    Some(payload)
}

/// Returns the parts of the value of `payload`, behind a word for its type; sorted where they have
/// no order.
pub fn parts(payload: &[u8]) -> Option<Vec<Vec<u8>>> {
    let rules = samples::default_rules();
    let options = DecodeOptions { rules: &rules, encoding: None, string_bytes_max: 1 << 30 };
    let value = decode(rdb::open(payload).ok()?, &options, &mut |_| Ok::<(), ()>(()));
    let (name, mut parts) = match value.ok()? {
        Value::String(bytes) => ("string", vec![bytes.into_owned()]),
        Value::Collection(collection) => {
            let name = match collection {
                Collection::List(_) => "list",
                Collection::Set(_) => "set",
                Collection::Hash(_) => "hash",
                Collection::SortedSet(_) => "zset",
                Collection::Stream(_) => "stream",
            };
            (name, samples::parts(&collection))
        }
    };
    parts.insert(0, name.into());
    Some(parts)
}

/// Requests that make the key `k`, and whether the bytes of the two servers are the same.
pub fn values() -> Vec<(String, bool)> {
    let many = |head: &str, part: &dyn Fn(usize) -> String, count: usize| {
        (0..count).fold(head.to_owned(), |text, index| text + " " + &part(index))
    };
    let number = |index: usize| (index * index).to_string();
    let word = |index: usize| format!("word:{index}");
    let long = |index: usize| format!("{index}{}", "l".repeat(80));
    let mut values: Vec<(String, bool)> = Vec::new();
    for text in ["deep", "0", "-1", "127", "128", "-32769", "2147483648", "012", "1.5"] {
        values.push((format!("SET k {text}"), true));
    }
    values.push((format!("SET k {}", "abcdefghij".repeat(2)), true));
    values.push((format!("SET k {}", "long".repeat(5_000)), false));
    values.push((many("RPUSH k", &|index| index.to_string(), 5), true));
    values.push((many("RPUSH k", &long, 500), false));
    values.push((many("SADD k", &number, 6), true));
    values.push((many("SADD k", &|index| (index << 40).to_string(), 4), false));
    values.push((many("SADD k", &number, 600), false));
    values.push((many("SADD k", &word, 3), false));
    values.push((many("SADD k", &word, 300), false));
    let pair = |index: usize| format!("{} {}", word(index), number(index));
    values.push(("HSET k a 1 b 22222".to_owned(), true));
    values.push((many("HSET k", &pair, 100), false));
    values.push((many("HSET k", &pair, 600), false));
    let scored = |index: usize| format!("{} {}", index as f64 / 4.0 - 9.0, word(index));
    values.push(("XADD k 5-1 a 1 b two".to_owned(), false));
    values.push(("ZADD k 1 a 2 b -inf c".to_owned(), true));
    values.push((many("ZADD k", &scored, 100), false));
    values.push((many("ZADD k", &scored, 200), false));
    values
}

/// Returns the payload of `k`.
fn dump(connection: &mut Connection) -> Vec<u8> {
    match connection.call("DUMP k") {
        Reply::Bulk(bytes) => bytes,
        other => panic!("DUMP returned {other:?}"),
    }
}

fn restore(connection: &mut Connection, payload: &[u8]) {
    let request = request(&[b"RESTORE".as_slice(), b"k", b"0", payload, b"REPLACE"]);
    assert_eq!(connection.ask(&request).value, Reply::Simple(b"OK".to_vec()));
}

#[test]
fn values_go_from_one_server_to_the_other_and_back() {
    let servers = [Kind::Forebay, Kind::Redis]
        .map(|kind| Launch::new(kind).option("enable-debug-command", "yes").start());
    let [mut ours, mut oracle] = [servers[0].unix(), servers[1].unix()];
    let digest = |connection: &mut Connection| connection.call("DEBUG DIGEST-VALUE k");
    for (made, is_same) in values() {
        let shown = &made[..made.len().min(60)];
        for connection in [&mut ours, &mut oracle] {
            connection.call("DEL k");
            connection.call(&made);
        }
        let expected = digest(&mut oracle);
        assert_eq!(digest(&mut ours), expected, "{shown}");
        let [by_us, by_redis] = [dump(&mut ours), dump(&mut oracle)];
        assert_eq!(parts(&by_us), parts(&by_redis), "{shown}");
        if is_same {
            let [by_us, by_redis] = [&by_us, &by_redis].map(|bytes| &bytes[..bytes.len() - 10]);
            assert_eq!(by_us, by_redis, "{shown}");
        }
        let encoding = ours.call("OBJECT ENCODING k");
        restore(&mut ours, &by_redis);
        assert_eq!(digest(&mut ours), expected, "{shown}");
        assert_eq!(ours.call("OBJECT ENCODING k"), encoding, "{shown}");
        if let Some(payload) = for_redis_7_0(&by_us) {
            restore(&mut oracle, &payload);
            assert_eq!(digest(&mut oracle), expected, "{shown}");
        }
    }
}
