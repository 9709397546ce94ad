//! Sessions that wait for keys: what serves them, what does not, and that none is left waiting.

use std::sync::atomic::{AtomicUsize, Ordering};

use command::Wake;

use super::*;

/// Returns a session of this number, which tells those that wait apart.
pub(super) fn numbered<'e>(engine: &'e Engine, host: &'e TestHost, id: u64) -> Client<'e> {
    let mut client = Client::new(engine, host);
    client.session.state.id = id;
    client
}

pub(super) fn block(client: &mut Client<'_>, request: &str) {
    let (reply, outcome) = client.batch(&[request]);
    assert_eq!((reply.as_str(), outcome.status), ("", SessionStatus::Blocked), "{request}");
}

/// Wakes a session and returns its reply.
pub(super) fn wake(client: &mut Client<'_>, wake: Wake) -> String {
    try_wake(client, wake).expect("it waits no longer")
}

/// As [`wake`]; none where it waits on.
pub(super) fn try_wake(client: &mut Client<'_>, wake: Wake) -> Option<String> {
    let mut out = Output::default();
    let _release =
        client.engine.wake(&mut client.session, wake, &mut out, &mut client.execution)?;
    Some(String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end().to_owned())
}

pub(super) fn take_served(host: &TestHost) -> Vec<u64> {
    let served = std::mem::take(&mut *host.served.lock().unwrap());
    served.into_iter().map(|served| served.session).collect()
}

#[test]
fn whatever_makes_the_key_exist_serves_who_awaits_it() {
    for requests in [
        &["SET k v"][..],
        &["SET k v PX 100000"],
        &["MSET a 1 k 2"],
        &["MSETNX a 1 k 2"],
        &["APPEND k v"],
        &["INCR k"],
        &["INCRBYFLOAT k 1.5"],
        &["SETRANGE k 3 v"],
        &["SETBIT k 7 1"],
        &["BITFIELD k SET u8 0 1"],
        &["SET a v", "BITOP NOT k a"],
        &["SET a v", "RENAME a k"],
        &["SET a v", "RENAMENX a k"],
        &["SET a v", "COPY a k"],
        &["RPUSH a v", "RENAME a k"],
        &["SELECT 1", "SET k v", "MOVE k 0"],
        &["SELECT 1", "SET a v", "COPY a k DB 0"],
        &["SELECT 1", "SET k v", "SWAPDB 0 1"],
        &["SELECT 1", "SADD k v", "SWAPDB 1 0"],
        &["RPUSH k v"],
        &["HSET k f v"],
        &["HINCRBY k f 1"],
        &["SADD k v"],
        &["SADD a v", "SMOVE a k v"],
        &["ZADD k 1 v"],
        &["ZINCRBY k 1 v"],
        &["ZADD a 1 v", "ZUNIONSTORE k 1 a"],
        &["ZADD a 1 v", "ZRANGESTORE k a 0 -1"],
        &["MULTI", "SET k v", "EXEC"],
        &["MULTI", "SELECT 1", "SET k v", "SWAPDB 0 1", "EXEC"],
        // It was there, be it for a moment.
        &["SET k v", "DEL k"],
    ] {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let (mut waiter, mut other) = (numbered(&engine, &host, 7), numbered(&engine, &host, 8));
        block(&mut waiter, "AWAIT none k 0");
        assert_eq!(take_served(&host), []);
        other.run_all(requests);
        assert_eq!(take_served(&host), [7], "{requests:?}");
        assert_eq!(wake(&mut waiter, Wake::Served), "$1 k");
        waiter.check("PING", "+PONG");
    }
}

#[test]
fn what_leaves_no_key_serves_nobody() {
    for requests in [
        &["SET other v", "DEL k", "EXPIRE k 10", "LREM k 0 a", "SELECT 1", "SET k v"][..],
        &["MULTI", "SET k v", "DEL k", "EXEC"],
        &["SET k v PXAT 1"],
        &["SET a v PXAT 1", "RENAME a k"],
        &["ZUNIONSTORE k 1 none", "ZRANGESTORE k none 0 -1"],
        &["SETRANGE k 3 ", "SADD k", "SWAPDB 0 1", "SWAPDB 2 3", "FLUSHALL"],
    ] {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let (mut waiter, mut other) = (numbered(&engine, &host, 7), numbered(&engine, &host, 8));
        block(&mut waiter, "AWAIT k 0");
        other.run_all(requests);
        assert_eq!(take_served(&host), [], "{requests:?}");
        // It still waits.
        other.run_all(&["SELECT 0", "SET k v"]);
        assert_eq!(take_served(&host), [7], "{requests:?}");
    }
}

#[test]
fn a_key_that_is_there_needs_no_wait() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 7);
    client.run_all(&["SET b v", "RPUSH c v"]);
    client.check("AWAIT a c b 0", "$1 c");
    client.check("AWAIT b 0.001", "$1 b");
    let refusal = "-ERR timeout is not a float or out of range";
    client.check("AWAIT a x", refusal);
    client.check("AWAIT a -1", "-ERR timeout is negative");
    client.check("AWAIT a -inf", "-ERR timeout is negative");
    for beyond in ["1e300", "1e3000", "inf", "9223372036854775807", "9223372036854775"] {
        client.check(&format!("AWAIT a {beyond}"), "-ERR timeout is out of range");
    }
    client.check("AWAIT a", "-ERR wrong number of arguments for 'await' command");
    let reply = client.run_all(&["MULTI", "AWAIT a 0", "AWAIT b 0", "EXEC"]);
    assert_eq!(reply, "+OK +QUEUED +QUEUED *2 $-1 $1 b");
    block(&mut client, "AWAIT a 1.0005");
    let blocked = client.session.state.blocked.expect("it waits");
    assert_eq!(blocked.timeout, Some(Duration::from_millis(1001)));
    assert_eq!(wake(&mut client, Wake::TimedOut), "$-1");
    // Whatever is not zero is not for ever.
    block(&mut client, "AWAIT a 1e-400");
    let blocked = client.session.state.blocked.expect("it waits");
    assert_eq!(blocked.timeout, Some(Duration::from_millis(1)));
    assert_eq!(wake(&mut client, Wake::TimedOut), "$-1");
    block(&mut client, "AWAIT a 0");
    assert!(client.session.state.blocked.is_some_and(|blocked| blocked.timeout.is_none()));
    assert_eq!(wake(&mut client, Wake::Refused), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    assert!(take_served(&host).is_empty());
}

#[test]
fn all_who_wait_are_served_in_the_order_in_which_they_came() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut waiters: Vec<Client<'_>> =
        [5, 3, 9, 1].map(|id| numbered(&engine, &host, id)).into_iter().collect();
    let mut other = numbered(&engine, &host, 8);
    waiters.iter_mut().for_each(|waiter| block(waiter, "AWAIT k k l 0"));
    // One that has gone is not served, and one that the key has ended before gets it all the same.
    waiters[1].close();
    other.run_all(&["SET l v", "SET k v"]);
    assert_eq!(take_served(&host), [5, 9, 1]);
    assert_eq!(wake(&mut waiters[0], Wake::Served), "$1 l");
    assert_eq!(wake(&mut waiters[2], Wake::TimedOut), "$1 l");
    assert_eq!(wake(&mut waiters[3], Wake::Refused), "$1 l");
    // Word of an earlier wait is none of the next.
    other.run("DEL k l");
    assert!(!waiters[0].session.is_in_wait(1));
    block(&mut waiters[0], "AWAIT k 0");
    assert!(!waiters[0].session.is_in_wait(1) && waiters[0].session.is_in_wait(2));
}

#[test]
fn waits_leave_no_memory_behind() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 7);
    let before = engine.keyspace().private_bytes();
    let keys: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
    let request = format!("AWAIT {} 0", keys.join(" "));
    for ending in [Some(Wake::TimedOut), Some(Wake::Refused), None] {
        block(&mut client, &request);
        assert!(engine.keyspace().private_bytes() > before + 100_000);
        match ending {
            Some(ending) => drop(wake(&mut client, ending)),
            None => client.close(),
        }
        assert_eq!(engine.keyspace().private_bytes(), before);
    }
}

const KEYS: [&str; 6] = ["a", "b", "c", "{a}d", "{a}e", "f"];

fn change(random: &mut Prng, client: &mut Client<'_>) {
    let mut key = || KEYS[random.below(KEYS.len() as u64) as usize];
    let (one, two, three) = (key(), key(), key());
    match random.below(12) {
        0..3 => client.run(&format!("SET {one} v")),
        3..6 => client.run(&format!("DEL {one} {two}")),
        6 => client.run(&format!("RENAME {one} {two}")),
        7 => client.run(&format!("MSET {one} 1 {two} 2")),
        8 => client.run_all(&["MULTI", &format!("SET {one} v"), &format!("DEL {two}"), "EXEC"]),
        9 => client.run("SWAPDB 0 1"),
        10 => client.run_all(&[&format!("RPUSH {three} v"), &format!("LPOP {three}")]),
        _ => client.run("FLUSHDB"),
    };
}

/// Waits for keys until `writers` are gone; returns the keys that it still waits for.
fn keep_waiting(
    client: &mut Client<'_>,
    host: &TestHost,
    random: &mut Prng,
    writers: &AtomicUsize,
) -> Option<[&'static str; 2]> {
    let id = client.session.state.id;
    while writers.load(Ordering::SeqCst) > 0 {
        let keys = [0; 2].map(|_| KEYS[random.below(KEYS.len() as u64) as usize]);
        let (_, outcome) = client.batch(&[&format!("AWAIT {} {} 0", keys[0], keys[1])]);
        if outcome.status == SessionStatus::Open {
            continue;
        }
        loop {
            let is_over = writers.load(Ordering::SeqCst) == 0;
            let mut served = host.served.lock().unwrap();
            let mine = served.iter().position(|one| one.session == id);
            if let Some(mine) = mine {
                assert!(client.session.is_in_wait(served.remove(mine).wait));
                break;
            }
            drop(served);
            if is_over {
                return Some(keys);
            }
            std::thread::yield_now();
        }
        let reply = wake(client, Wake::Served);
        assert!(keys.iter().any(|key| reply.ends_with(key)), "{reply} of {keys:?}");
    }
    None
}

/// Nobody sleeps while a key that he awaits is there, once all is quiet: many short histories, as
/// it is at their ends that it shows.
#[test]
fn no_wait_outlasts_the_coming_of_its_key() {
    for seed in 0..if cfg!(debug_assertions) { 80 } else { 800 } {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let writers = AtomicUsize::new(3);
        let left: Vec<(u64, [&str; 2])> = std::thread::scope(|scope| {
            let (engine, host, writers) = (&engine, &host, &writers);
            for number in 0..3 {
                scope.spawn(move || {
                    let mut client = numbered(engine, host, 100 + number);
                    let mut random = Prng::new(seed * 100 + number);
                    (0..60).for_each(|_| change(&mut random, &mut client));
                    client.run("SET a v");
                    writers.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let waiters: Vec<_> = (1..=6)
                .map(|id| {
                    scope.spawn(move || {
                        let mut client = numbered(engine, host, id);
                        let mut random = Prng::new(seed * 100 + 50 + id);
                        let keys = keep_waiting(&mut client, host, &mut random, writers);
                        std::mem::forget(client);
                        keys.map(|keys| (id, keys))
                    })
                })
                .collect();
            waiters.into_iter().filter_map(|waiter| waiter.join().unwrap()).collect()
        });
        let told = take_served(&host);
        let mut client = numbered(&engine, &host, 99);
        for (id, keys) in left.into_iter().filter(|(id, _)| !told.contains(id)) {
            let there = client.run(&format!("EXISTS {} {}", keys[0], keys[1]));
            assert_eq!(there, ":0", "seed {seed}: {id} still waits for {keys:?}");
        }
    }
}
