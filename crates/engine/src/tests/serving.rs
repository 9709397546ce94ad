//! Sessions that wait, and those who serve them: what it costs, what it takes, and what has changed
//! since the wait began.

use base::step_counters::{self, CountedStep};
use command::{Pause, Wake};
use effects::WriteRefusal;

use super::awaits::{block, numbered, take_served, try_wake, wake};
use super::blocked_sessions::{MOVE, blocked, run};
use super::memory_limit::{assert_within_limit, limited};
use super::*;

/// Returns the names of `count` keys.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("name:{number}")).collect()
}

#[test]
fn keys_that_become_ready_together_cost_each_what_one_costs() {
    const COUNT: usize = 1_000;
    let names = names(COUNT);
    let each = |text: &dyn Fn(&str) -> String| -> Vec<String> {
        names.iter().map(|name| text(name)).collect()
    };
    let mset = format!("MSET {}", each(&|name| format!("{name} v")).join(" "));
    let pushes = each(&|name| format!("RPUSH {name} v"));
    let exec = [&["MULTI".to_owned()], &pushes[..], &["EXEC".to_owned()]].concat();
    let elsewhere = ["SELECT 1", &mset, "SELECT 0"].map(str::to_owned).to_vec();
    for (waits_for, ahead, requests) in [
        ("AWAIT", vec![], vec![mset.clone()]),
        ("AWAIT", vec![], exec.clone()),
        ("BLPOP", vec![], exec),
        ("AWAIT", elsewhere, vec!["SWAPDB 0 1".to_owned()]),
    ] {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        // The last of the keys comes first, so that the search ends late.
        let reversed: Vec<&str> = names.iter().rev().map(String::as_str).collect();
        let mut all = blocked(&engine, &host, 3, &format!("{waits_for} {} 0", reversed.join(" ")));
        let mut one = numbered(&engine, &host, 5);
        block(&mut one, &format!("{waits_for} {} 0", names[7]));
        let mut other = numbered(&engine, &host, 9);
        let ahead: Vec<&str> = ahead.iter().map(String::as_str).collect();
        other.run_all(&ahead);
        let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
        let looks =
            step_counters::steps_of(CountedStep::Registration, || drop(other.run_all(&requests)));
        assert!(looks <= 16 * COUNT as u64, "{looks} looks for {waits_for}, {:.40}", requests[0]);
        let mut served = take_served(&host);
        served.sort();
        assert_eq!(served, [1, 2, 3, 5]);
        // The first of the request's keys that can serve it.
        assert!(wake(&mut all[0], Wake::Served).contains("name:999"));
    }
}

#[test]
fn one_key_of_many_serves_without_a_look_at_the_others() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut waiters = blocked(&engine, &host, 3, &format!("AWAIT {} 0", names(2_000).join(" ")));
    let mut other = numbered(&engine, &host, 9);
    let looks =
        step_counters::steps_of(CountedStep::Registration, || drop(other.run("SET name:77 v")));
    assert!(looks < 30, "{looks} looks");
    assert_eq!(take_served(&host), [1, 2, 3]);
    assert_eq!(wake(&mut waiters[2], Wake::Served), "$7 name:77");
}

#[test]
fn many_who_wait_for_one_key_each_cost_each_what_one_costs() {
    const COUNT: usize = 300;
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let names = names(COUNT);
    let mut waiters: Vec<Client<'_>> =
        (1..=COUNT as u64).map(|id| numbered(&engine, &host, id)).collect();
    for (waiter, name) in waiters.iter_mut().zip(&names) {
        block(waiter, &format!("AWAIT {name} 0"));
    }
    let mut other = numbered(&engine, &host, 999);
    let mset = format!("MSET {} v", names.join(" v "));
    let looks = step_counters::steps_of(CountedStep::Registration, || drop(other.run(&mset)));
    assert!(looks <= 8 * COUNT as u64, "{looks} looks");
    assert_eq!(take_served(&host).len(), COUNT);
}

#[test]
fn who_was_served_by_one_key_is_passed_over_once_at_each_other() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut waiters = blocked(&engine, &host, 500, "AWAIT k l 0");
    let mut other = numbered(&engine, &host, 999);
    other.run("SET k v");
    assert_eq!(take_served(&host).len(), 500);
    other.run("SET l v");
    other.run("DEL l");
    let looks = step_counters::steps_of(CountedStep::Registration, || drop(other.run("SET l v")));
    assert!(looks < 10, "{looks} looks");
    assert_eq!(wake(&mut waiters[0], Wake::Served), "$1 k");
}

#[test]
fn a_wait_that_memory_has_no_room_for_is_refused() {
    const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";
    let long = format!("BLPOP {} 0", names(5_000).join(" "));
    let (engine, host) = (limited(300_000, EvictionPolicy::NO_EVICTION), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    let before = engine.keyspace().private_bytes();
    assert_eq!(client.run(&long), OOM);
    assert_eq!(client.run(&format!("AWAIT {} 0", "none ".repeat(100_000).trim_end())), OOM);
    assert_eq!(engine.keyspace().private_bytes(), before);
    // What frees memory may wait for it, in a few bytes.
    block(&mut client, "BLPOP none 0");
    assert_eq!(wake(&mut client, Wake::TimedOut), "*-1");
    let reply = client.run_all(&["MULTI", &long, "EXEC"]);
    assert!(reply.ends_with("*1 *-1"), "{reply}");

    let engine = limited(100_000, EvictionPolicy::ALLKEYS_LRU);
    let mut client = numbered(&engine, &host, 1);
    let value = "x".repeat(20_000);
    (0..200).for_each(|number| drop(client.run(&format!("SET big:{number} {value}"))));
    let before = engine.keyspace().counters().evicted_keys;
    assert!(before > 0);
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + 2_000_000);
    (0..200).for_each(|number| drop(client.run(&format!("SET big:{number} {value}"))));
    block(&mut client, &long);
    assert!(client.session.wait_bytes() > 1_000_000);
    assert_within_limit(&engine);
    assert!(engine.keyspace().counters().evicted_keys > before + 20);
    assert_eq!(wake(&mut client, Wake::TimedOut), "*-1");
    assert_eq!(client.session.wait_bytes(), 0);
}

#[test]
fn a_wait_that_is_refused_is_a_call_that_failed() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    block(&mut client, "BLPOP k 0");
    assert_eq!(client.session.waiting_argument_bytes(), 7);
    assert!(wake(&mut client, Wake::Refused).starts_with("-UNBLOCKED"));
    let (_, counts) = host.command_stats.commands().find(|(name, _)| *name == "blpop").unwrap();
    assert_eq!((counts.calls, counts.failed), (1, 1));
    assert_eq!(host.command_stats.errors(), [("UNBLOCKED".to_owned(), 1)]);
}

#[test]
fn a_request_that_runs_again_is_counted_and_shown_once() {
    let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
    host.command_stats.add_row(&MOVE);
    host.watcher_count.store(1, Ordering::Relaxed);
    let mut first = numbered(&engine, &host, 1);
    assert_eq!(run(&mut first, &MOVE, "test-move k far").1.status, SessionStatus::Blocked);
    let mut other = numbered(&engine, &host, 9);
    other.check("RPUSH k a", ":1");
    assert_eq!(wake(&mut first, Wake::Served), "$1 a");
    assert_eq!(*host.shown.lock().unwrap(), ["0 test-move k far", "0 RPUSH k a"]);
    let (_, counts) = host.command_stats.commands().find(|(name, _)| *name == MOVE.name).unwrap();
    assert_eq!((counts.calls, counts.failed), (1, 0));
}

#[test]
fn a_request_that_runs_again_waits_for_the_end_of_a_pause() {
    let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
    host.command_stats.add_row(&MOVE);
    let mut first = numbered(&engine, &host, 1);
    assert_eq!(run(&mut first, &MOVE, "test-move k far").1.status, SessionStatus::Blocked);
    let mut second = numbered(&engine, &host, 2);
    block(&mut second, "BLPOP k 0");
    let mut other = numbered(&engine, &host, 9);
    other.check("RPUSH k a", ":1");
    assert_eq!(take_served(&host), [1]);
    let sink = recording_of(engine.keyspace());
    host.pause.set(Some(Pause::Writes));
    assert_eq!(try_wake(&mut first, Wake::Served), None);
    other.check("LLEN k", ":1");
    assert_eq!((take_served(&host), sink.commands()), (vec![], vec![]));
    host.pause.set(None);
    engine.serve_left(&mut other.execution);
    assert_eq!(take_served(&host), [1], "it has kept its place");
    assert_eq!(wake(&mut first, Wake::Served), "$1 a");
    assert_eq!(wake(&mut second, Wake::TimedOut), "*-1");
}

#[test]
fn very_many_keys_that_are_left_are_served_one_shard_after_the_other() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let names = names(2_000);
    let reversed: Vec<&str> = names.iter().rev().map(String::as_str).collect();
    let mut one = numbered(&engine, &host, 4);
    block(&mut one, &format!("BLPOP {} 0", names[7]));
    let request = format!("BLPOP {} 0", reversed.join(" "));
    let mut all = blocked(&engine, &host, 3, &request);
    let mut other = numbered(&engine, &host, 9);
    other.run("SELECT 1");
    names.iter().for_each(|name| drop(other.run(&format!("RPUSH {name} e"))));
    other.check("SWAPDB 0 1", "+OK");
    // Who waits for keys of several shards takes the first of its request, under all of their
    // locks, and those behind it have their turns when it is done.
    assert_eq!(wake(&mut one, Wake::Served), "*2 $6 name:7 $1 e");
    let mut served = take_served(&host);
    served.sort();
    assert_eq!(served, [1, 4]);
    for (index, name) in ["name:1999", "name:1998", "name:1997"].into_iter().enumerate() {
        assert_eq!(wake(&mut all[index], Wake::Served), format!("*2 $9 {name} $1 e"));
        let next: Vec<u64> = (index as u64 + 2..=3).take(1).collect();
        assert_eq!(take_served(&host), next);
    }
}

const READONLY: &str = "-READONLY You can't write against a read only replica.";

#[test]
fn a_request_that_runs_again_is_refused_where_writes_are() {
    let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
    host.command_stats.add_row(&MOVE);
    let mut first = numbered(&engine, &host, 1);
    assert_eq!(run(&mut first, &MOVE, "test-move k far").1.status, SessionStatus::Blocked);
    let mut second = numbered(&engine, &host, 2);
    block(&mut second, "BLPOP k 0");
    let mut other = numbered(&engine, &host, 9);
    other.check("RPUSH k a", ":1");
    engine.keyspace().admission().refuse(WriteRefusal::Fenced);
    assert_eq!(wake(&mut first, Wake::Served), READONLY);
    assert_eq!(take_served(&host), [1, 2]);
    assert_eq!(wake(&mut second, Wake::Served), READONLY);
    other.check("LLEN k", ":1");
    let rejected = |(name, counts): (&'static str, crate::CommandCounts)| (name, counts.rejected);
    let counts: BTreeMap<&str, u64> = host.command_stats.commands().map(rejected).collect();
    assert_eq!((counts[MOVE.name], counts["blpop"]), (1, 1));
}

#[test]
fn records_from_elsewhere_serve_who_waits_as_soon_as_they_are_applied() {
    let (origin, engine, host) =
        (Engine::new(keyspace(4)), Engine::new(keyspace(8)), TestHost::default());
    let sink = recording_of(origin.keyspace());
    let mut pops = blocked(&engine, &host, 2, "BLPOP k 0");
    let mut looks = numbered(&engine, &host, 3);
    block(&mut looks, "AWAIT k 0");
    numbered(&origin, &host, 9).run("RPUSH k a b");
    let mut applier = Applier::new();
    let apply_all = |client: &mut Client<'_>, applier: &mut Applier| {
        sink.take(|record| engine.apply(applier, record, &mut client.execution).unwrap());
    };
    let mut other = numbered(&engine, &host, 9);
    apply_all(&mut other, &mut applier);
    assert_eq!(take_served(&host), [1, 2]);
    assert_eq!(wake(&mut pops[0], Wake::Served), "*2 $1 k $1 a");
    assert_eq!(wake(&mut pops[1], Wake::Served), "*2 $1 k $1 b");
    // Where nobody may write, nothing is taken.
    block(&mut pops[0], "BLPOP l 0");
    numbered(&origin, &host, 9).run_all(&["RPUSH l a", "SET k v"]);
    engine.keyspace().admission().refuse(WriteRefusal::Fenced);
    apply_all(&mut other, &mut applier);
    assert_eq!(take_served(&host), [1, 3]);
    assert_eq!(wake(&mut pops[0], Wake::Served), READONLY);
    assert_eq!(wake(&mut looks, Wake::Served), "$1 k");
    other.check("LLEN l", ":1");
}
