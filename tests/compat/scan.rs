//! The promise of SCAN, SSCAN, HSCAN and ZSCAN: an element that exists from the start of a full
//! iteration to its end is returned, whatever happens to the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{Connection, Kind, Request, Server, request};
use resp::Value;

const STABLE: usize = 1_000;
/// A full iteration over a growing table ends; this bounds a wait for one that would not.
const CALLS_MAX: usize = 1_000_000;

/// Returns how often each key came in one full iteration.
fn scan(connection: &mut Connection, options: &[&str]) -> BTreeMap<Vec<u8>, usize> {
    let mut found = BTreeMap::new();
    let mut cursor = b"0".to_vec();
    for _ in 0..CALLS_MAX {
        let mut call = request(&[b"SCAN".as_slice(), &cursor]);
        call.extend(options.iter().map(|word| word.as_bytes().to_vec()));
        let Value::Array(parts) = connection.ask(&call).value else { panic!("SCAN: no array") };
        let [Value::Bulk(next), Value::Array(keys)] = parts.as_slice() else {
            panic!("SCAN: {parts:?}");
        };
        for key in keys {
            *found.entry(key.as_bytes().expect("a key is a bulk").to_vec()).or_default() += 1;
        }
        cursor.clone_from(next);
        if cursor == b"0" {
            return found;
        }
    }
    panic!("the iteration does not end");
}

fn stable(index: usize) -> Vec<u8> {
    format!("stable:{index}").into_bytes()
}

fn fill(connection: &mut Connection) {
    let sets: Vec<Request> =
        (0..STABLE).map(|index| request(&[b"SET".to_vec(), stable(index), vec![b'v']])).collect();
    connection.pipeline(&sets);
}

/// Makes the keyspace grow and shrink until told to stop; returns how many keys it added.
fn churn(mut connection: Connection, stop: &AtomicBool) -> usize {
    let mut added = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = |index| format!("passing:{index}").into_bytes();
        let begin = added;
        for _ in 0..40 {
            let names = (added..added + 500).map(name);
            let mut mset = vec![b"MSET".to_vec()];
            mset.extend(names.flat_map(|name| [name, vec![b'x'; 20]]));
            connection.ask(&mset);
            added += 500;
        }
        let mut del = vec![b"DEL".to_vec()];
        del.extend((begin..added).map(name));
        connection.ask(&del);
    }
    added
}

fn check_growth(kind: Kind, rounds: usize) {
    let server = Server::start(kind);
    let mut connection = server.tcp();
    fill(&mut connection);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let churner = scope.spawn(|| churn(server.unix(), &stop));
        for round in 0..rounds {
            let count = if round % 2 == 0 { "10" } else { "100" };
            let found = scan(&mut connection, &["COUNT", count]);
            let missing = (0..STABLE).map(stable).filter(|key| !found.contains_key(key)).count();
            assert_eq!(missing, 0, "stable keys that round {round} did not return");
        }
        stop.store(true, Ordering::Relaxed);
        let added = churner.join().expect("the churn does not panic");
        assert!(added >= 5_000, "the keyspace grew by {added} keys meanwhile");
    });
}

#[test]
fn keys_that_stay_are_returned_while_others_come_and_go() {
    check_growth(Kind::Forebay, 4);
}

#[test]
fn redis_server_keeps_the_same_promise() {
    check_growth(Kind::Redis, 1);
}

#[test]
fn at_rest_every_key_comes_once() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.tcp();
    fill(&mut connection);
    for count in ["1", "7", "1000", "1000000"] {
        let found = scan(&mut connection, &["COUNT", count]);
        assert_eq!(found.len(), STABLE);
        assert!(found.values().all(|times| *times == 1), "COUNT {count}");
    }
    let found = scan(&mut connection, &["MATCH", "stable:1?", "COUNT", "50"]);
    assert_eq!(found.len(), 10);
    assert!(scan(&mut connection, &["TYPE", "list"]).is_empty());
}

#[test]
fn keys_of_a_type_come_alone() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.tcp();
    fill(&mut connection);
    for (name, request) in [
        ("list", "RPUSH a:list x"),
        ("set", "SADD a:set x"),
        ("zset", "ZADD a:zset 1 x"),
        ("hash", "HSET a:hash f x"),
    ] {
        connection.call(request);
        let found = scan(&mut connection, &["TYPE", name, "COUNT", "7"]);
        assert!(found.keys().eq([format!("a:{name}").as_bytes()]), "{name}: {found:?}");
    }
    let strings = scan(&mut connection, &["TYPE", "STRING"]);
    assert!(strings.keys().eq((0..STABLE).map(stable).collect::<BTreeSet<_>>().iter()));
}

/// A type whose elements are scanned: the command, how many parts an element has in its reply, and
/// a request that adds an element or removes it.
struct Scanned {
    command: &'static str,
    parts: usize,
    add: &'static [&'static str],
    remove: &'static str,
}

const SCANNED: [Scanned; 3] = [
    Scanned { command: "SSCAN", parts: 1, add: &["SADD", "k"], remove: "SREM" },
    Scanned { command: "HSCAN", parts: 2, add: &["HSETNX", "k"], remove: "HDEL" },
    Scanned { command: "ZSCAN", parts: 2, add: &["ZADD", "k", "1"], remove: "ZREM" },
];

impl Scanned {
    fn add(&self, element: &[u8]) -> Request {
        let mut request = request(self.add);
        request.push(element.to_vec());
        if self.command == "HSCAN" {
            request.push(b"v".to_vec());
        }
        request
    }

    /// Returns what one call from `cursor` on finds, and the next cursor.
    fn call(&self, connection: &mut Connection, cursor: &[u8]) -> (BTreeSet<Vec<u8>>, Vec<u8>) {
        let call = request(&[self.command.as_bytes(), b"k", cursor, b"COUNT", b"5"]);
        let Value::Array(parts) = connection.ask(&call).value else { panic!("no array") };
        let [Value::Bulk(next), Value::Array(found)] = parts.as_slice() else {
            panic!("{}: {parts:?}", self.command);
        };
        let names = found.iter().step_by(self.parts);
        (names.map(|name| name.as_bytes().expect("a bulk").to_vec()).collect(), next.clone())
    }
}

fn passing(number: usize) -> Vec<u8> {
    format!("passing:{number}").into_bytes()
}

/// Scans a collection that has `start` passing elements beside stable ones; `step` changes it
/// between the calls.
fn check_elements(
    kind: Kind,
    scanned: &Scanned,
    start: usize,
    mut step: impl FnMut(&mut Connection, usize),
) {
    const STABLE_ELEMENTS: usize = 100;
    let server = Server::start(kind);
    let mut connection = server.tcp();
    let stable: BTreeSet<Vec<u8>> = (0..STABLE_ELEMENTS).map(stable).collect();
    let all = stable.iter().cloned().chain((0..start).map(passing));
    connection.pipeline(&all.map(|element| scanned.add(&element)).collect::<Vec<_>>());
    let (mut found, mut cursor) = (BTreeSet::new(), b"0".to_vec());
    for calls in 0..CALLS_MAX {
        let (more, next) = scanned.call(&mut connection, &cursor);
        found.extend(more);
        cursor = next;
        if cursor == b"0" {
            assert!(calls > 0, "{} is not scanned at once", scanned.command);
            let missing: Vec<_> = stable.difference(&found).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", scanned.command);
            return;
        }
        step(&mut connection, calls);
    }
    panic!("the iteration does not end");
}

#[test]
fn elements_that_stay_are_returned_while_a_collection_grows() {
    for scanned in &SCANNED {
        check_elements(Kind::Forebay, scanned, 500, |connection, call| {
            // Twice as large as it was, and then no more, or the scan would have no end.
            let more = (500 + 50 * call)..(500 + 50 * (call + 1));
            let adds: Vec<_> = more.map(|number| scanned.add(&passing(number))).collect();
            if call < 40 {
                connection.pipeline(&adds);
            }
        });
    }
}

#[test]
fn elements_that_stay_are_returned_while_a_collection_shrinks() {
    for scanned in &SCANNED {
        check_elements(Kind::Forebay, scanned, 2_000, |connection, call| {
            let mut request = request(&[scanned.remove, "k"]);
            request.extend((100 * call..100 * (call + 1)).map(passing));
            connection.ask(&request);
        });
    }
}

#[test]
fn members_that_stay_are_returned_when_a_result_takes_the_place_of_a_set() {
    for kind in [Kind::Forebay, Kind::Redis] {
        check_elements(kind, &SCANNED[0], 2_000, |connection, call| {
            if call == 0 {
                let mut add = request(&["SADD", "others"]);
                add.extend((5_000..9_000).map(passing));
                connection.ask(&add);
            }
            // Larger, as before, and in the end compact.
            match call {
                3 => connection.call("SUNIONSTORE k k others"),
                9 => connection.call("SDIFFSTORE k k others"),
                15 => {
                    let mut add = request(&["SADD", "stable"]);
                    add.extend((0..100).map(stable));
                    connection.ask(&add);
                    connection.call("SINTERSTORE k k stable")
                }
                _ => return,
            };
        });
    }
}

#[test]
fn expired_keys_never_come() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.tcp();
    fill(&mut connection);
    let expired: Vec<Request> = (0..STABLE)
        .map(|index| {
            request(&[
                b"SET".to_vec(),
                format!("gone:{index}").into(),
                vec![b'v'],
                b"PXAT".to_vec(),
                vec![b'1'],
            ])
        })
        .collect();
    connection.pipeline(&expired);
    let found: BTreeSet<Vec<u8>> = scan(&mut connection, &["COUNT", "20"]).into_keys().collect();
    assert_eq!(found, (0..STABLE).map(stable).collect());
    let Value::Array(keys) = connection.call("KEYS *") else { panic!("KEYS: no array") };
    assert_eq!(keys.len(), STABLE);
}
