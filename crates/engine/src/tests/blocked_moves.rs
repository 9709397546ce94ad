//! Sessions that wait to move an element to another list, or to take several: as those that take
//! one (`blocked_sessions.rs`), and what comes of a move besides.

use command::Wake;

use super::awaits::{block, numbered, take_served, wake};
use super::blocked_sessions::blocked;
use super::*;

/// A request that waits, and its reply where it gets an element.
type Waiting = (&'static str, fn(&str) -> String);

/// A request of each kind that waits for a list `k`, and the reply when it gets `element`.
const WAITING: [Waiting; 6] = [
    ("BLPOP none k 0", |element| format!("*2 $1 k $1 {element}")),
    ("BRPOP k 0", |element| format!("*2 $1 k $1 {element}")),
    ("BLMPOP 0 2 none k LEFT", |element| format!("*2 $1 k *1 $1 {element}")),
    ("BLMPOP 0 1 k RIGHT COUNT 3", |element| format!("*2 $1 k *1 $1 {element}")),
    ("BLMOVE k {k}target LEFT RIGHT 0", |element| format!("$1 {element}")),
    ("BRPOPLPUSH k {k}target 0", |element| format!("$1 {element}")),
];

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn each_element_serves_the_session_that_has_waited_longest() {
    for (request, reply) in WAITING {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let sink = recording_of(engine.keyspace());
        let mut waiters = blocked(&engine, &host, 3, request);
        let mut other = numbered(&engine, &host, 9);
        for (index, element) in ["a", "b", "c"].into_iter().enumerate() {
            other.check(&format!("RPUSH k {element}"), ":1");
            assert_eq!(take_served(&host), [index as u64 + 1], "{request}");
            assert_eq!(wake(&mut waiters[index], Wake::Served), reply(element), "{request}");
            other.check("EXISTS k", ":0");
        }
        other.check("RPUSH k d", ":1");
        assert_eq!(take_served(&host), []);
        assert_same_data(&replayed(&sink), engine.keyspace());
    }
}

#[test]
fn whatever_makes_a_list_serves() {
    for making in [
        &["RPUSH k a"][..],
        &["LPUSH k a"],
        &["MULTI", "RPUSH k a", "EXEC"],
        &["RPUSH m a", "RENAME m k"],
        &["RPUSH m a", "COPY m k"],
        &["SET k v", "RPUSH m a", "COPY m k REPLACE"],
        &["RPUSH m a", "LMOVE m k LEFT RIGHT"],
        &["RPUSH m a", "RPOPLPUSH m k"],
        &["RPUSH m a", "SORT m ALPHA STORE k"],
        &["SELECT 1", "RPUSH k a", "MOVE k 0"],
        &["SELECT 1", "RPUSH k a", "SWAPDB 0 1"],
    ] {
        for (request, reply) in WAITING {
            let (engine, host) = (Engine::new(keyspace(64)), TestHost::default());
            let mut waiters = blocked(&engine, &host, 1, request);
            numbered(&engine, &host, 9).run_all(making);
            assert_eq!(take_served(&host), [1], "{request} {making:?}");
            assert_eq!(wake(&mut waiters[0], Wake::Served), reply("a"), "{making:?}");
        }
    }
}

#[test]
fn a_wait_ends_by_its_time_by_others_and_with_its_session() {
    const REFUSED: &str = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";
    for (request, reply) in WAITING {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let mut waiters = blocked(&engine, &host, 4, request);
        assert_eq!(wake(&mut waiters[0], Wake::TimedOut), "*-1");
        assert_eq!(wake(&mut waiters[1], Wake::Refused), REFUSED);
        waiters[2].close();
        let mut other = numbered(&engine, &host, 9);
        other.check("RPUSH k a", ":1");
        assert_eq!(take_served(&host), [4]);
        assert_eq!(wake(&mut waiters[3], Wake::TimedOut), reply("a"));
        other.check("EXISTS k", ":0");
        let mut newer = numbered(&engine, &host, 5);
        newer.run("HELLO 3");
        block(&mut newer, request);
        assert_eq!(wake(&mut newer, Wake::TimedOut), "_");
    }
}

#[test]
fn nothing_waits_within_a_transaction() {
    let (engine, host) = (Engine::new(keyspace(64)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    for (request, reply) in WAITING {
        let nothing = if request.contains("target") { "$-1" } else { "*-1" };
        client.run_all(&["MULTI", request, "RPUSH k a", request, request]);
        client.check("EXEC", &format!("*4 {nothing} :1 {} {nothing}", reply("a")));
    }
}

#[test]
fn several_elements_go_to_one_session() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let mut waiters = blocked(&engine, &host, 2, "BLMPOP 0 2 none k LEFT COUNT 2");
    numbered(&engine, &host, 9).check("RPUSH k a b c", ":3");
    assert_eq!(take_served(&host), [1, 2]);
    assert_eq!(wake(&mut waiters[0], Wake::Served), "*2 $1 k *2 $1 a $1 b");
    assert_eq!(wake(&mut waiters[1], Wake::Served), "*2 $1 k *1 $1 c");
    assert_eq!(sink.commands(), ["RPUSH k a b c", "LPOP k 2", "LPOP k 1"]);
}

#[test]
fn a_move_serves_those_who_wait_for_its_target() {
    let (engine, host) = (Engine::new(keyspace(64)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let requests =
        ["BLPOP {k}c 0", "BRPOPLPUSH {k}b {k}c 0", "BLMOVE k {k}b LEFT RIGHT 0", "BLPOP {k}c 0"];
    let mut waiters: Vec<Client<'_>> =
        (1..).take(4).map(|id| numbered(&engine, &host, id)).collect();
    waiters.iter_mut().zip(requests).for_each(|(waiter, request)| block(waiter, request));
    let mut other = numbered(&engine, &host, 9);
    other.check("RPUSH k a", ":1");
    assert_eq!(take_served(&host), [3, 2, 1]);
    assert_eq!(
        sink.commands(),
        ["RPUSH k a", "RPUSH {k}b a LPOP k 1", "LPUSH {k}c a RPOP {k}b 1", "LPOP {k}c 1"],
    );
    for (waiter, reply) in waiters.iter_mut().zip(["*2 $4 {k}c $1 a", "$1 a", "$1 a"]) {
        assert_eq!(wake(waiter, Wake::Served), reply);
    }
    // A move that nobody waits for serves too.
    other.run("RPUSH m x");
    other.check("LMOVE m {k}c LEFT LEFT", "$1 x");
    assert_eq!(take_served(&host), [4]);
    assert_same_data(&replayed(&sink), engine.keyspace());
}

#[test]
fn a_target_in_another_shard_is_locked_by_the_session_itself() {
    let (engine, host) = (Engine::new(keyspace(64)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let hasher = engine.keyspace().hasher();
    assert_ne!(hasher.key(b"k").shard, hasher.key(b"far").shard);
    let mut first = numbered(&engine, &host, 1);
    block(&mut first, "BLMOVE k far LEFT RIGHT 0");
    let mut second = numbered(&engine, &host, 2);
    block(&mut second, "BLPOP k 0");
    let mut third = numbered(&engine, &host, 3);
    block(&mut third, "BLMPOP 0 1 far LEFT");
    let mut other = numbered(&engine, &host, 9);
    other.check("RPUSH k a b", ":2");
    assert_eq!(take_served(&host), [1], "nobody behind it is served before it had its turn");
    assert_eq!(wake(&mut first, Wake::Served), "$1 a");
    assert_eq!(take_served(&host), [3, 2]);
    assert_eq!(wake(&mut second, Wake::Served), "*2 $1 k $1 b");
    assert_eq!(wake(&mut third, Wake::Served), "*2 $3 far *1 $1 a");
    assert_same_data(&replayed(&sink), engine.keyspace());
}

#[test]
fn a_list_that_is_its_own_target_is_rotated() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let mut waiters = blocked(&engine, &host, 2, "BLMOVE k k LEFT RIGHT 0");
    let mut third = numbered(&engine, &host, 3);
    block(&mut third, "BLPOP k 0");
    let mut other = numbered(&engine, &host, 9);
    other.check("RPUSH k a b", ":2");
    assert_eq!(take_served(&host), [1, 2, 3]);
    for (waiter, reply) in waiters.iter_mut().zip(["$1 a", "$1 b"]) {
        assert_eq!(wake(waiter, Wake::Served), reply);
    }
    assert_eq!(wake(&mut third, Wake::Served), "*2 $1 k $1 a");
    let rotated = "LMOVE k k LEFT RIGHT";
    assert_eq!(sink.commands(), ["RPUSH k a b", rotated, rotated, "LPOP k 1"]);
    other.check("LRANGE k 0 -1", "*1 $1 b");
    assert_same_data(&replayed(&sink), engine.keyspace());
}

#[test]
fn a_target_of_another_type_refuses_whoever_is_served_and_not_who_waits() {
    let (engine, host) = (Engine::new(keyspace(64)), TestHost::default());
    let mut other = numbered(&engine, &host, 9);
    other.run("SET {k}target v");
    let mut waiters = blocked(&engine, &host, 2, "BLMOVE k {k}target LEFT RIGHT 0");
    let mut third = numbered(&engine, &host, 3);
    block(&mut third, "BLPOP k 0");
    other.check("RPUSH k a", ":1");
    assert_eq!(take_served(&host), [1, 2, 3]);
    waiters.iter_mut().for_each(|waiter| assert_eq!(wake(waiter, Wake::Served), WRONG_TYPE));
    assert_eq!(wake(&mut third, Wake::Served), "*2 $1 k $1 a");
}

#[test]
fn a_rotation_is_applied_as_it_was_and_to_one_key_alone() {
    let (engine, host) = (Engine::new(keyspace(64)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let mut client = numbered(&engine, &host, 1);
    client.run("RPUSH one a");
    client.run("EXPIRE one 1000");
    // Several listpacks, then one whose length is at the limit.
    let elements: Vec<String> = (0..200).map(|index| format!("{index:0100}")).collect();
    client.run(&format!("RPUSH large {}", elements.join(" ")));
    client.run(&format!("RPUSH full {}", elements[..70].join(" ")));
    for request in
        ["LMOVE one one LEFT RIGHT", "RPOPLPUSH large large", "LMOVE full full LEFT RIGHT"]
    {
        (0..90).for_each(|_| drop(client.run(request)));
    }
    client.run("LTRIM large 0 38");
    (0..50).for_each(|_| drop(client.run("LMOVE large large LEFT RIGHT")));
    assert_same_data(&replayed(&sink), engine.keyspace());
    client.check("TTL one", ":1000");
}
