//! The promise of SCAN: an element that exists from the start of a full iteration to its end is
//! returned, whatever happens to the others.

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
