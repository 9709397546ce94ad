//! What MEMORY USAGE tells of keys of every type, compared with the growth of used_memory that they
//! caused.

use harness::{Connection, Kind, Request, Server, poll, poll_until, request, words};
use resp::Value;

/// How far the sum may be off, in percent.
const ERROR_PERCENT_MAX: u64 = 5;
/// Requests that travel together.
const BATCH: usize = 500;

/// Elements of one request.
const REQUEST_ELEMENTS: u64 = 500;

/// Returns the requests that add `elements` to `key` by `command`, each of as many words as
/// `element` appends.
fn adding(
    command: &str,
    key: &str,
    elements: u64,
    element: impl Fn(u64, &mut Vec<String>),
) -> Vec<Request> {
    let request = |start: u64| {
        let mut words = vec![command.to_owned(), key.to_owned()];
        let end = elements.min(start + REQUEST_ELEMENTS);
        (start..end).for_each(|number| element(number, &mut words));
        words.into_iter().map(String::into_bytes).collect()
    };
    (0..elements).step_by(REQUEST_ELEMENTS as usize).map(request).collect()
}

/// Fills `count` keys by the requests that `fill` makes for each, and compares.
fn check(kind: &str, count: u64, fill: impl Fn(&str) -> Vec<Request>) {
    let server = Server::start(Kind::Forebay);
    let mut client = server.unix();
    // Commands that a busy machine makes slow are kept with their words, which are no key's either.
    assert!(!matches!(client.call("CONFIG SET slowlog-log-slower-than -1"), Value::Error(_)));
    // Their tag has them in one shard, so that what its tables have begun is spread over many.
    let keys: Vec<String> = (0..count).map(|number| format!("{{one}}:{number:010}")).collect();
    // What a connection, a batch and a command's first use take is no key's.
    let first: Vec<String> =
        keys.iter().take(BATCH).map(|key| key.replace("{one}", "{one}:first")).collect();
    ask_all(&mut client, &first.iter().flat_map(|key| fill(key)).collect::<Vec<_>>());
    usage(&mut client, &first);
    // What is given back after a reply may be counted after the reply has come.
    let before = poll("used_memory to stay what it is", || {
        let [one, other] = [(); 2].map(|()| server.info("used_memory"));
        (one == other).then_some(one)
    });
    for batch in keys.chunks(BATCH) {
        let requests: Vec<Request> = batch.iter().flat_map(|key| fill(key)).collect();
        ask_all(&mut client, &requests);
    }
    let told: u64 = keys.chunks(BATCH).map(|batch| usage(&mut client, batch)).sum();
    poll_until(&format!("{kind}: keys to take the {told} bytes that they are told to"), || {
        let grown = server.info("used_memory").saturating_sub(before);
        told.abs_diff(grown) * 100 <= grown * ERROR_PERCENT_MAX
    });
}

fn ask_all(client: &mut Connection, requests: &[Request]) {
    for (request, reply) in requests.iter().zip(client.pipeline(requests)) {
        let is_error = matches!(reply.value, Value::Error(_));
        assert!(!is_error, "{:?}: {:?}", String::from_utf8_lossy(&request[0]), reply.value);
    }
}

/// Returns what MEMORY USAGE tells of `keys` together.
fn usage(client: &mut Connection, keys: &[String]) -> u64 {
    let requests: Vec<Request> =
        keys.iter().map(|key| words(&format!("MEMORY USAGE {key} SAMPLES 0"))).collect();
    let bytes = |value: &Value| match value {
        Value::Integer(bytes) => *bytes as u64,
        other => panic!("MEMORY USAGE: {other:?}"),
    };
    client.pipeline(&requests).iter().map(|reply| bytes(&reply.value)).sum()
}

#[test]
fn strings_take_what_memory_usage_tells() {
    for (length, count) in
        [(16, 30_000), (100, 20_000), (3000, 3_000), (5000, 2_000), (100_000, 200)]
    {
        let value = vec![b'v'; length];
        let set = |key: &str| vec![request(&[&b"SET"[..], key.as_bytes(), &value])];
        check(&format!("string of {length}"), count, set);
        let set_until =
            |key: &str| vec![request(&[&b"SETEX"[..], key.as_bytes(), b"1000", &value])];
        check(&format!("string of {length} that expires"), count, set_until);
    }
}

#[test]
fn hashes_take_what_memory_usage_tells() {
    for (fields, value_bytes, count) in
        [(5, 11, 20_000), (400, 11, 300), (1, 100, 5_000), (600, 11, 100), (100_000, 16, 1)]
    {
        let set = |key: &str| {
            adding("HSET", key, fields, |number, words| {
                words.extend([format!("field{number:09}"), "v".repeat(value_bytes)]);
            })
        };
        let kind = format!("hash of {fields} times {value_bytes}");
        check(&kind, count, set);
        let with_times = |key: &str| {
            let expire = format!("HEXPIRE {key} 1000 FIELDS 1 field000000000");
            [set(key), vec![words(&expire)]].concat()
        };
        check(&format!("{kind}, one of which expires"), count, with_times);
    }
}

#[test]
fn lists_sets_and_sorted_sets_take_what_memory_usage_tells() {
    for (elements, count) in [(5, 30_000), (90, 8_000), (300, 3_000), (2_000, 200), (100_000, 1)] {
        let check = |command: &str, element: fn(u64, &mut Vec<String>)| {
            let add = |key: &str| adding(command, key, elements, element);
            check(&format!("{command} of {elements}"), count, add);
        };
        check("RPUSH", |number, words| words.push(format!("element{number:09}")));
        check("SADD", |number, words| words.push(format!("member:{number:09}")));
        check("SADD", |number, words| words.push((number * 7).to_string()));
        check("ZADD", |number, words| {
            words.extend([(number * 7919 % 1000).to_string(), format!("member:{number:09}")]);
        });
    }
}
