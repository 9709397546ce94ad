//! How long commands take, by a clock that advances by one step each time it is read.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use base::ShardIndex;
use command::LatencyEvent;
use resp::encode_command;

use super::{Client, TestHost, keyspace};
use crate::{Clock, Engine};

/// A step of the clock, in nanoseconds.
const STEP: u64 = 100_000;

thread_local! {
    static READINGS: Cell<u64> = const { Cell::new(0) };
    /// At which reading to tell whom.
    static BELL: RefCell<Option<(u64, Sender<()>)>> = const { RefCell::new(None) };
}

/// A steady clock of each thread. The wall clock is the execution context's alone.
pub struct SteppingClock;

impl Clock for SteppingClock {
    fn wall_us(&self) -> i64 {
        panic!("the engine reads the steady clock alone")
    }

    fn steady_ns(&self) -> u64 {
        READINGS.set(READINGS.get() + 1);
        if BELL.with_borrow(|bell| bell.as_ref().is_some_and(|(at, _)| *at == READINGS.get())) {
            let (_, waiter) = BELL.take().expect("it is there");
            waiter.send(()).expect("somebody waits for the bell");
        }
        READINGS.get() * STEP
    }

    fn sleep(&self, _: Duration) {}
}

/// Checks what `requests`, sent as one batch, are said to have taken: calls, and steps of the clock
/// in all; and how often the clock was read.
fn check(host: &TestHost, requests: &[&str], expected: &[(&str, u64, u64)], readings: u64) {
    let engine = Engine::new(keyspace(1));
    let before = READINGS.get();
    Client::new(&engine, host).run_all(requests);
    let found: BTreeMap<&str, (u64, u64)> = host
        .command_stats
        .commands()
        .map(|(name, counts)| (name, (counts.calls, counts.nanoseconds / STEP)))
        .collect();
    let expected: BTreeMap<&str, (u64, u64)> =
        expected.iter().map(|&(name, calls, steps)| (name, (calls, steps))).collect();
    assert_eq!(found, expected, "{requests:?}");
    assert_eq!(READINGS.get() - before, readings, "{requests:?}");
    let mut distributions = BTreeMap::new();
    host.command_stats.add_times(&mut distributions);
    for (name, (calls, _)) in found {
        assert_eq!(distributions[name].total(), calls, "{requests:?}");
    }
}

#[test]
fn a_request_on_its_own_has_its_own_time() {
    check(&TestHost::default(), &["GET k"], &[("get", 1, 1)], 2);
    check(&TestHost::default(), &["DEL a b"], &[("del", 1, 1)], 2);
}

#[test]
fn brief_neighbours_share_their_time_evenly() {
    check(&TestHost::default(), &["GET k"; 4], &[("get", 4, 1)], 2);
    let mixed = ["SET k v", "GET k", "GET k", "GET k"];
    let host = TestHost::default();
    check(&host, &mixed, &[("set", 1, 0), ("get", 3, 0)], 2);
    let nanoseconds: Vec<u64> =
        host.command_stats.commands().map(|(_, it)| it.nanoseconds).collect();
    assert_eq!(nanoseconds.iter().sum::<u64>(), STEP);
    assert!(nanoseconds.contains(&(STEP / 4)));
}

#[test]
fn a_command_that_may_take_long_shares_with_nobody() {
    let requests = ["SET k v", "MSET a 1 b 2", "GET k", "GET k"];
    // At the start, behind SET, behind MSET, at the end.
    check(&TestHost::default(), &requests, &[("set", 1, 1), ("mset", 1, 1), ("get", 2, 1)], 4);
    // With one field HSET takes as little as GET, with two it may take longer.
    let requests = ["HSET h f v", "HSET h f v", "HSET h f v g v", "HSET h f v"];
    check(&TestHost::default(), &requests, &[("hset", 4, 3)], 4);
    let large = format!("SET k {}", "x".repeat(70_000));
    check(&TestHost::default(), &["GET k", &large, "GET k"], &[("set", 1, 1), ("get", 2, 2)], 4);
}

#[test]
fn a_value_that_moves_shares_its_time_while_it_is_not_long() {
    let short = ["SET a v", "RENAME a b", "RENAMENX b c", "MOVE c 1"];
    let host = TestHost::default();
    let expected = [("set", 1, 0), ("rename", 1, 0), ("renamenx", 1, 0), ("move", 1, 0)];
    check(&host, &short, &expected, 2);
    let long = format!("SET a {}", "x".repeat(5_000));
    for (name, request) in
        [("rename", "RENAME a b"), ("renamenx", "RENAMENX a b"), ("move", "MOVE a 1")]
    {
        let expected = [("set", 1, 0), ("ping", 2, 1), (name, 1, 1)];
        check(&TestHost::default(), &[&long, "PING", request, "PING"], &expected, 4);
    }
    // Nobody is asked for time within EXEC, where each command has its own.
    let expected = [("multi", 1, 1), ("set", 1, 1), ("rename", 1, 1), ("exec", 1, 3)];
    check(&TestHost::default(), &["MULTI", &long, "RENAME a b", "EXEC"], &expected, 5);
}

#[test]
fn exec_takes_what_its_commands_take_and_more() {
    let requests = ["MULTI", "SET k v", "SET k v", "MGET k l", "EXEC"];
    let expected = [("multi", 1, 1), ("set", 2, 2), ("mget", 1, 1), ("exec", 1, 4)];
    check(&TestHost::default(), &requests, &expected, 6);
}

#[test]
fn what_waits_for_a_shard_is_timed_by_itself() {
    check_wait("get", "GET k");
    check_wait("rename", "RENAME k l");
}

/// A thread that holds the shard lets go when the clock is read for the second time: before the
/// wait for it, or never.
fn check_wait(name: &str, request: &str) {
    let host = TestHost::default();
    let engine = Engine::new(keyspace(1));
    let ((holds, held), (waits, waiting)) = (channel(), channel());
    std::thread::scope(|scope| {
        let keyspace = engine.keyspace();
        let holder = scope.spawn(move || {
            let guard = keyspace.lock(ShardIndex(0));
            holds.send(()).unwrap();
            let told = waiting.recv_timeout(Duration::from_secs(20));
            drop(guard);
            told
        });
        held.recv().unwrap();
        BELL.set(Some((READINGS.get() + 2, waits)));
        Client::new(&engine, &host).run_all(&["PING", "PING", request, request]);
        holder.join().unwrap().expect("the clock is read before the wait");
    });
    let taken: BTreeMap<&str, u64> =
        host.command_stats.commands().map(|(name, counts)| (name, counts.nanoseconds)).collect();
    assert_eq!(taken, BTreeMap::from([("ping", STEP), (name, 2 * STEP)]));
}

#[test]
fn a_close_watch_times_every_command() {
    let host = TestHost::default();
    host.timing.set(0, false);
    let engine = Engine::new(keyspace(1));
    Client::new(&engine, &host).run_all(&["SET k v", "GET k", "PING"]);
    let slow = [("set", STEP), ("get", STEP), ("ping", STEP)];
    assert_eq!(*host.slow.lock().unwrap(), slow);
    let mut distributions = BTreeMap::new();
    host.command_stats.add_times(&mut distributions);
    assert!(distributions.is_empty(), "they are not tracked");
}

#[test]
fn what_takes_as_long_as_the_limit_is_reported() {
    for (limit, is_reported) in [(STEP, true), (STEP + 1, false)] {
        let host = TestHost::default();
        host.timing.set(limit, true);
        let engine = Engine::new(keyspace(1));
        Client::new(&engine, &host).run_all(&["MGET a b"]);
        assert_eq!(!host.slow.lock().unwrap().is_empty(), is_reported, "{limit}");
    }
}

/// The clock is read at the start, before the first request and behind each.
#[test]
fn a_batch_pauses_once_it_has_taken_a_millisecond() {
    let host = TestHost::default();
    let engine = Engine::new(keyspace(1));
    let mut bytes = Vec::new();
    (0..15).for_each(|_| encode_command(&[b"DEL", b"a", b"b"], &mut bytes));
    let mut client = Client::new(&engine, &host);
    let executed = |from| client.run_bytes(&mut bytes, from).1.executed;
    assert_eq!([0, 9].map(executed), [9, 15]);
}

#[test]
fn making_room_is_an_event_of_its_own() {
    let host = TestHost::default();
    let engine = Engine::new(keyspace(1));
    engine.keyspace().set_maxmemory(1);
    let reply = Client::new(&engine, &host).run_all(&["SET k v"]);
    assert!(reply.contains("OOM"), "{reply}");
    assert_eq!(*host.events.lock().unwrap(), [LatencyEvent::EvictionCycle]);
}
