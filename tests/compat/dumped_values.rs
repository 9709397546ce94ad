//! DUMP of the one server, RESTORE of the other: the same values, byte for byte where nothing is
//! compressed and nothing has an order of its own.
//!
//! redis-server 7.0 writes version 10 of the format and reads no newer one, and knows no sets as
//! listpacks and no times of fields: payloads for it get a footer of that version.

use collections::{Collection, ListpackView};
use harness::{Connection, Kind, Launch, Request, request};
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

/// Returns the blocks of the value of `payload` as the server keeps them, behind its kind, none of
/// them compressed; `None` where its parts have no order, so that the bytes may differ.
pub fn blocks(payload: &[u8]) -> Option<Vec<Vec<u8>>> {
    const SORTED_SET_LISTPACK: u8 = 17;
    const LIST_LISTPACKS: u8 = 18;
    const SORTED_SET: u8 = 5;
    let mut rest = rdb::open(payload).ok()?;
    let kind = take(&mut rest, 1)?[0];
    let mut blocks = vec![vec![kind]];
    match kind {
        0 | 11 | 16 => blocks.push(block(&mut rest)?),
        SORTED_SET_LISTPACK => {
            // 7.2 writes scores with the fewest digits (d2string in util.c).
            let pack = block(&mut rest)?;
            for element in ListpackView::at_start_of(&pack).iter() {
                let text = element.to_vec();
                let number = str::from_utf8(&text).ok().and_then(|it| it.parse::<f64>().ok());
                // The two zeroes are one score.
                blocks.push(number.map_or(text, |number| format!("{:e}", number + 0.0).into()));
            }
        }
        LIST_LISTPACKS => {
            // How elements are divided among nodes depends on how they came.
            if length(&mut rest)? > 1 {
                return None;
            }
            blocks.push(take(&mut rest, 1)?.to_vec());
            blocks.push(block(&mut rest)?);
        }
        SORTED_SET => {
            for _ in 0..length(&mut rest)? {
                blocks.push(block(&mut rest)?);
                blocks.push(take(&mut rest, 8)?.to_vec());
            }
        }
        _ => return None,
    }
    rest.is_empty().then_some(blocks)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    rest.split_off(..count)
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let first = take(rest, 1)?[0];
    Some(match (first >> 6, first) {
        (0, _) => usize::from(first),
        (1, _) => usize::from(first & 0x3F) << 8 | usize::from(take(rest, 1)?[0]),
        (_, 0x80) => big_endian(take(rest, 4)?),
        (_, 0x81) => big_endian(take(rest, 8)?),
        _ => return None,
    })
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Takes a string of the format: a number as it is written, all others as they are.
fn block(rest: &mut &[u8]) -> Option<Vec<u8>> {
    const COMPRESSED: u8 = 0xC3;
    match rest.first()? {
        number @ 0xC0..COMPRESSED => Some(take(rest, 1 + (1 << (number & 3)))?.to_vec()),
        &COMPRESSED => {
            take(rest, 1)?;
            let (compressed, whole) = (length(rest)?, length(rest)?);
            expand(take(rest, compressed)?, whole)
        }
        _ => {
            let count = length(rest)?;
            Some(take(rest, count)?.to_vec())
        }
    }
}

/// Returns the `whole` bytes that are compressed in `rest` by LZF.
fn expand(mut rest: &[u8], whole: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some((&control, behind)) = rest.split_first() {
        rest = behind;
        if control < 32 {
            bytes.extend_from_slice(take(&mut rest, usize::from(control) + 1)?);
            continue;
        }
        let mut count = usize::from(control >> 5) + 2;
        if count == 9 {
            count += usize::from(take(&mut rest, 1)?[0]);
        }
        let back = (usize::from(control & 31) << 8 | usize::from(take(&mut rest, 1)?[0])) + 1;
        for _ in 0..count {
            bytes.push(*bytes.get(bytes.len().checked_sub(back)?)?);
        }
    }
    (bytes.len() == whole).then_some(bytes)
}

/// Returns whether two payloads are of the same value, in the same bytes where both servers keep it
/// in the same way; how they compress it, and in which order what has none, is their own.
pub fn are_same(ours: &[u8], oracle: &[u8]) -> bool {
    let by_us = parts(ours);
    let (blocks_by_us, blocks_by_redis) = (blocks(ours), blocks(oracle));
    let is_same_kind = |ours: &[Vec<u8>], oracle: &[Vec<u8>]| ours[0] == oracle[0];
    let are_blocks_same = match (&blocks_by_us, &blocks_by_redis) {
        (Some(ours), Some(oracle)) if is_same_kind(ours, oracle) => ours == oracle,
        _ => true,
    };
    by_us.is_some() && by_us == parts(oracle) && are_blocks_same
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
pub fn dump(connection: &mut Connection) -> Vec<u8> {
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

/// A value, made by `made`, and how each server keeps it.
pub struct Encoded {
    pub made: Vec<Request>,
    pub ours: &'static str,
    pub oracle: &'static str,
}

/// Every encoding of strings, lists, sets, hashes and sorted sets that 7.0 reads, too, with what is
/// at its limits. Streams and hashes whose fields expire, which it knows in part or not, are not
/// here.
pub fn encodings() -> Vec<Encoded> {
    let mut rows = Vec::new();
    let mut row = |command: &str, ours, oracle, words: Vec<Vec<u8>>| {
        let mut made = request(&[command, "k"]);
        made.extend(words);
        rows.push(Encoded { made: vec![made], ours, oracle });
    };
    let text = |length: usize| vec![b'x'; length];
    let noise = |length: usize| harness::bytes(7, length);
    for number in [0, 127, 128, -128, -129, 32_767, 32_768, -32_769, i64::from(i32::MAX), i64::MIN]
    {
        row("SET", "int", "int", vec![number.to_string().into()]);
    }
    for bytes in [vec![], text(21), text(44), noise(44), b"-0".to_vec(), b"007".to_vec()] {
        row("SET", "embstr", "embstr", vec![bytes]);
    }
    // What is longer than 20 bytes is compressed, unless that would make it longer.
    for bytes in [text(45), noise(63), noise(64), text(16_383), text(16_384), noise(70_000)] {
        row("SET", "raw", "raw", vec![bytes]);
    }
    // Elements at the limits of each form in a listpack.
    let integers =
        [0, 127, 128, -1, 4095, 4096, -4096, -4097, 32_767, 32_768, 8_388_607, 8_388_608];
    let wide = [i64::from(i32::MAX), i64::from(i32::MAX) + 1, i64::MIN, i64::MAX];
    let integers = integers.iter().chain(&wide).map(|number| number.to_string().into_bytes());
    let strings = [0, 1, 62, 63, 64, 4095, 4096].map(text);
    let elements: Vec<Vec<u8>> = integers.clone().chain(strings).collect();
    row("RPUSH", "quicklist", "quicklist", elements.clone());
    row("RPUSH", "listpack", "quicklist", elements[..20].to_vec());
    // Each in a node of its own, one of them longer than a node may be.
    row("RPUSH", "quicklist", "quicklist", vec![noise(9000), text(100_000), noise(8000)]);
    row(
        "RPUSH",
        "quicklist",
        "quicklist",
        (0..3000).map(|it| vec![b'a' + it as u8 % 26; 90]).collect(),
    );
    for (shift, count) in [(0, 9), (14, 9), (30, 9), (55, 9), (0, 512), (40, 512)] {
        let numbers = (0..count).map(|number: i64| ((number - 4) << shift).to_string().into());
        row("SADD", "intset", "intset", numbers.collect());
    }
    row("SADD", "hashtable", "hashtable", (0..513).map(|it| it.to_string().into()).collect());
    row("SADD", "listpack", "hashtable", vec![vec![], text(64), noise(64), b"12".to_vec()]);
    row("SADD", "hashtable", "hashtable", vec![text(65)]);
    row("SADD", "hashtable", "hashtable", (0..300).map(|it| format!("m{it}").into()).collect());
    let pairs = |count: usize, value: &dyn Fn(usize) -> Vec<u8>| -> Vec<Vec<u8>> {
        (0..count).flat_map(|it| [format!("f{it}").into_bytes(), value(it)]).collect()
    };
    let small: Vec<Vec<u8>> = integers.flat_map(|number| [number.clone(), number]).collect();
    row("HSET", "listpack", "listpack", small);
    row("HSET", "listpack", "listpack", pairs(100, &|it| vec![b'v'; it % 65]));
    row("HSET", "hashtable", "hashtable", pairs(1, &|_| text(65)));
    row("HSET", "hashtable", "hashtable", pairs(1, &|_| noise(200_000)));
    row("HSET", "hashtable", "hashtable", pairs(600, &|it| it.to_string().into()));
    row("ZADD", "listpack", "listpack", scored(10, 0));
    row("ZADD", "listpack", "listpack", scored(128, 0));
    row("ZADD", "skiplist", "skiplist", scored(129, 0));
    row("ZADD", "skiplist", "skiplist", scored(3, 65));
    row("ZADD", "skiplist", "skiplist", scored(2000, 30));
    rows
}

/// Returns `count` members with their scores, each of at least `length` bytes.
fn scored(count: usize, length: usize) -> Vec<Vec<u8>> {
    const SCORES: [&str; 10] =
        ["0", "0.25", "1", "-1.5", "1e300", "-1e-300", "inf", "-inf", "17179869184.5", "0.1"];
    let pair = |it: usize| {
        let mut name = format!("m{it}").into_bytes();
        name.resize(name.len().max(length), b'-');
        [SCORES[it % SCORES.len()].into(), name]
    };
    (0..count).flat_map(pair).collect()
}

fn encoding(connection: &mut Connection) -> String {
    let reply = connection.call("OBJECT ENCODING k");
    String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned()
}

/// Returns what the value of `k` is, as commands read it.
fn content(connection: &mut Connection) -> Reply {
    let line = match connection.call("TYPE k").as_bytes() {
        Some(b"list") => "LRANGE k 0 -1",
        Some(b"set") => "SORT k ALPHA",
        Some(b"hash") => "HGETALL k",
        Some(b"zset") => "ZRANGE k 0 -1 WITHSCORES",
        _ => "GET k",
    };
    match connection.call(line) {
        Reply::Array(parts) if line.starts_with('H') => {
            let mut pairs: Vec<_> = parts.chunks(2).map(|pair| format!("{pair:?}")).collect();
            pairs.sort();
            Reply::Array(pairs.into_iter().map(|pair| Reply::Bulk(pair.into())).collect())
        }
        other => other,
    }
}

#[test]
fn each_encoding_is_restored_by_the_other_server_and_comes_back() {
    for compression in ["yes", "no"] {
        let servers = [Kind::Forebay, Kind::Redis].map(|kind| {
            let launch = Launch::new(kind).option("rdbcompression", compression);
            match kind {
                Kind::Forebay => launch.option("rdb-export-version", "10").start(),
                Kind::Redis => launch.start(),
            }
        });
        // From this length on an element is a node by itself in redis-server.
        let threshold = servers[1].unix().call("DEBUG QUICKLIST-PACKED-THRESHOLD 8192b");
        assert_eq!(threshold, Reply::Simple(b"OK".to_vec()));
        for row in encodings() {
            let [mut ours, mut oracle] = [servers[0].unix(), servers[1].unix()];
            let shown = format!("{:?}", &row.made[0].iter().take(4).collect::<Vec<_>>());
            let shown = &shown[..shown.len().min(90)];
            let mut payloads = Vec::new();
            for connection in [&mut ours, &mut oracle] {
                connection.call("DEL k");
                connection.pipeline(&row.made);
                payloads.push(dump(connection));
            }
            let found = [encoding(&mut ours), encoding(&mut oracle)];
            assert_eq!(found, [row.ours, row.oracle], "{shown}");
            let contents = [content(&mut ours), content(&mut oracle)];
            let shown_both = || payloads.iter().map(|it| it.escape_ascii().to_string());
            let is_same = are_same(&payloads[0], &payloads[1]);
            assert!(is_same, "{shown}: {:?}", shown_both().collect::<Vec<_>>());
            for payload in &payloads {
                let footer = &payload[payload.len() - 10..];
                assert_eq!(footer[..2], 10_u16.to_le_bytes(), "{shown}");
            }
            // Theirs here and ours there; and each is dumped again as it was made.
            for (connection, index) in [(&mut ours, 0), (&mut oracle, 1)] {
                restore(connection, &payloads[1 - index]);
                assert_eq!(encoding(connection), found[index], "{shown}");
                assert_eq!(content(connection), contents[index], "{shown}");
                let again = dump(connection);
                assert!(are_same(&again, &payloads[index]), "{shown}");
            }
        }
    }
}
