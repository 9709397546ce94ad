//! Leases: who fills a key, what takes the right away, who gets it next, and stale values.

use base::step_counters::{self, CountedStep};
use command::Wake;
use effects::keyspace_events;
use keyspace::SweepContext;

use super::awaits::{block, numbered, take_served, wake};
use super::*;

/// Returns the token in a reply of LGET.
fn token_of(reply: &str) -> String {
    let words: Vec<&str> = reply.split(' ').collect();
    assert!(reply.starts_with("*4 +WIN") || reply.starts_with("*4 +STALE-WIN"), "{reply}");
    words[words.len() - 2].strip_prefix(':').expect("a token is a number").to_owned()
}

fn win(client: &mut Client<'_>, request: &str) -> String {
    let reply = client.run(request);
    token_of(&reply)
}

fn later(clients: &mut [&mut Client<'_>], ms: i64) {
    clients.iter_mut().for_each(|client| client.execution.now.0 += ms);
}

#[test]
fn one_client_fills_a_key_and_the_others_see_what_it_stores() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let [mut one, mut two] = [1, 2].map(|id| numbered(&engine, &host, id));
    let token = win(&mut one, "LGET k");
    two.check("LGET k", "*4 +BUSY $-1 $-1 :3000");
    one.check("LGET k", "*4 +BUSY $-1 $-1 :3000");
    two.check("GET k", "$-1");
    two.check(&format!("LFILL k v {}", token.parse::<i64>().unwrap() ^ 1), ":0");
    two.check(&format!("LFILL other v {token}"), ":0");
    two.check("GET k", "$-1");
    // Whoever has the token may use it.
    two.check(&format!("LFILL k v {token} PX 500"), ":1");
    two.check("LGET k", "*4 +HIT $1 v $-1 :500");
    one.check("GET k", "$1 v");
    one.check(&format!("LFILL k w {token}"), ":0");
    assert_eq!(engine.keyspace().lease_count(), 0);
    one.check("SET k w", "+OK");
    one.check("LGET k", "*4 +HIT $1 w $-1 :-1");
    let counters = engine.keyspace().counters();
    assert_eq!((counters.lease_grants, counters.lease_fills, counters.lease_voids), (1, 1, 0));
}

#[test]
fn requests_that_ask_for_too_much_are_refused() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    let range = |min| format!("-ERR value is out of range, value must between {min} and 3600000");
    for (request, refusal) in [
        ("LGET k TTL 0", range(1)),
        ("LGET k WAIT 3600001", range(0)),
        ("LGET k WAIT -1", range(0)),
        ("LGET k REFRESH x", "-ERR value is not an integer or out of range".to_owned()),
        ("LGET k TTL", "-ERR syntax error".to_owned()),
        ("LGET k NOW", "-ERR syntax error".to_owned()),
        ("LFILL k v x", "-ERR value is not an integer or out of range".to_owned()),
        ("LFILL k v 7 STALE 10", "-ERR STALE asks for a time to live: EX, PX, EXAT or PXAT".into()),
        ("LFILL k v 7 EX 0", "-ERR invalid expire time in 'lfill' command".to_owned()),
        ("LFILL k v 7 EX", "-ERR syntax error".to_owned()),
        ("LFILL k v 7 KEEPTTL", "-ERR syntax error".to_owned()),
        ("LDEL k STALE", "-ERR syntax error".to_owned()),
        ("LDEL k OLD 7", "-ERR syntax error".to_owned()),
        ("LEXTEND k 7 0", range(1)),
    ] {
        client.check(request, &refusal);
    }
    client.run("RPUSH list a");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    client.check("LGET list", wrong_type);
    client.check("LDEL list STALE 10", wrong_type);
    client.check("LDEL list", ":1");
    assert_eq!(engine.keyspace().lease_count(), 0);
}

#[test]
fn what_says_that_a_key_is_another_voids_its_lease() {
    for requests in [
        &["DEL k"][..],
        &["UNLINK k"],
        &["GETDEL k"],
        &["LDEL k"],
        &["LDEL k STALE 1000"],
        &["SET k new"],
        &["SETNX k new"],
        &["MSET a 1 k new"],
        &["APPEND k new"],
        &["INCR k"],
        &["SETRANGE k 0 new"],
        &["SETBIT k 1 1"],
        &["RPUSH k new"],
        &["SADD k new"],
        &["SET a new", "RENAME a k"],
        &["SET a new", "COPY a k"],
        &["SELECT 1", "SET k new", "MOVE k 0"],
        &["SELECT 1", "COPY a k DB 0", "SET a new", "COPY a k DB 0"],
        &["SUNIONSTORE k none"],
        &["ZUNIONSTORE k 1 none"],
        &["SORT none STORE k"],
        &["BITOP NOT k none"],
        &["FLUSHDB"],
        &["FLUSHALL"],
        &["SELECT 1", "FLUSHALL"],
        &["SELECT 3", "SET k v", "SWAPDB 0 3"],
        &["SWAPDB 5 0"],
        &["MULTI", "SET k new", "DEL k", "EXEC"],
        &["MULTI", "DEL k", "EXEC"],
    ] {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let [mut filler, mut waiter, mut other] = [1, 2, 3].map(|id| numbered(&engine, &host, id));
        let token = win(&mut filler, "LGET k");
        block(&mut waiter, "LGET k WAIT 1000");
        other.run_all(requests);
        let reply = filler.run(&format!("LFILL k outdated {token}"));
        assert_eq!(reply, ":0", "{requests:?}");
        assert!(!filler.run("GET k").contains("outdated"), "{requests:?}");
        // Who waits is told, with the new value or with the right to load it.
        assert_eq!(take_served(&host), [2], "{requests:?}");
        assert!(!wake(&mut waiter, Wake::Served).contains("BUSY"), "{requests:?}");
    }
}

#[test]
fn what_says_nothing_of_a_key_leaves_its_lease() {
    for requests in [
        &["GET k", "TTL k", "EXISTS k", "TYPE k", "LGET k", "OBJECT ENCODING k"][..],
        &["DEL a", "SET a v", "RENAMENX k a", "EXPIRE k 10", "PERSIST k", "GETEX k"],
        &["SELECT 1", "DEL k", "SET k v", "FLUSHDB", "SWAPDB 1 2"],
        &["MULTI", "LGET k WAIT 10", "EXEC"],
    ] {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let [mut filler, mut other] = [1, 3].map(|id| numbered(&engine, &host, id));
        let token = win(&mut filler, "LGET k");
        other.run_all(requests);
        filler.check(&format!("LFILL k v {token}"), ":1");
    }
}

#[test]
fn a_value_that_expires_or_is_evicted_leaves_the_lease_of_its_key() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    for evicts in [false, true] {
        client.run("SET k v PX 100");
        let token = win(&mut client, "LGET k REFRESH 1000");
        if evicts {
            let keyspace = engine.keyspace();
            keyspace.set_eviction_policy(policy_of(0));
            keyspace.set_maxmemory(1);
            let mut random = Prng::new(1);
            let _ = keyspace.repay(&mut SweepContext::new(NOW, &mut random));
            assert!(keyspace.counters().evicted_keys > 0);
            keyspace.set_maxmemory(0);
        } else {
            later(&mut [&mut client], 101);
        }
        client.check("GET k", "$-1");
        client.check(&format!("LFILL k w {token}"), ":1");
        client.check("GET k", "$1 w");
    }
}

#[test]
fn a_lease_passes_on_in_the_order_in_which_they_wait() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut clients: Vec<Client<'_>> = (0..5).map(|id| numbered(&engine, &host, id)).collect();
    let mut holder = 0;
    let mut token = win(&mut clients[0], "LGET k TTL 1000");
    (1..5).for_each(|id| block(&mut clients[id], "LGET k TTL 1000 WAIT 100000"));
    assert_eq!(take_served(&host), []);
    for (next, end) in ["close", "free", "time"].into_iter().enumerate() {
        match end {
            "close" => clients[holder].close(),
            "free" => clients[holder].check(&format!("LFREE k {token}"), ":1"),
            _ => {
                clients.iter_mut().for_each(|client| client.execution.now.0 += 999);
                engine.keyspace().end_leases_over(clients[0].execution.now);
                engine.serve_left(&mut clients[0].execution);
                assert_eq!(take_served(&host), []);
                clients.iter_mut().for_each(|client| client.execution.now.0 += 1);
                engine.keyspace().end_leases_over(clients[0].execution.now);
                engine.serve_left(&mut clients[0].execution);
            }
        }
        holder = next + 1;
        assert_eq!(take_served(&host), [holder as u64], "{end}");
        let before =
            std::mem::replace(&mut token, token_of(&wake(&mut clients[holder], Wake::Served)));
        clients[holder].check(&format!("LFILL k old {before}"), ":0");
    }
    clients[3].check(&format!("LEXTEND k {token} 5000"), ":1");
    clients.iter_mut().for_each(|client| client.execution.now.0 += 4_999);
    clients[3].check("LGET k", "*4 +BUSY $-1 $-1 :1");
    // One whose wait has ended is passed over, and the last gets the value.
    clients[3].check(&format!("LFILL k v {token}"), ":1");
    assert_eq!(take_served(&host), [4]);
    assert_eq!(wake(&mut clients[4], Wake::Served), "*4 +HIT $1 v $-1 :-1");
}

#[test]
fn who_waits_in_vain_is_told_and_leaves_nothing() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let before = engine.keyspace().private_bytes();
    {
        let [mut one, mut two] = [1, 2].map(|id| numbered(&engine, &host, id));
        let token = win(&mut one, "LGET k");
        block(&mut two, "LGET k WAIT 10");
        assert_eq!(two.session.state.blocked.unwrap().timeout, Some(Duration::from_millis(10)));
        assert!(engine.keyspace().private_bytes() > before + 400);
        assert_eq!(wake(&mut two, Wake::TimedOut), "*4 +BUSY $-1 $-1 :0");
        two.check("LGET k WAIT 0", "*4 +BUSY $-1 $-1 :3000");
        two.check("LFREE k 7", ":0");
        one.check(&format!("LEXTEND k {token} 10"), ":1");
        assert_eq!(take_served(&host), []);
        let in_multi = two.run_all(&["MULTI", "LGET k WAIT 10", "EXEC"]);
        assert_eq!(
            in_multi,
            "+OK +QUEUED +QUEUED *1 *4 +BUSY $-1 $-1 :0".replacen("+QUEUED ", "", 1)
        );
    }
    assert_eq!(engine.keyspace().lease_count(), 0);
    assert_eq!(engine.keyspace().private_bytes(), before);
}

#[test]
fn a_thousand_clients_miss_one_key_and_one_of_them_fills_it() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut clients: Vec<Client<'_>> = (0..1_000).map(|id| numbered(&engine, &host, id)).collect();
    let token = win(&mut clients[0], "LGET k");
    clients[1..].iter_mut().for_each(|client| block(client, "LGET k WAIT 10000"));
    // To pass the right on costs the same however many wait.
    let free = format!("LFREE k {token}");
    let steps =
        step_counters::steps_of(CountedStep::Registration, || clients[0].check(&free, ":1"));
    assert!(steps < 100, "{steps} steps");
    assert_eq!(take_served(&host), [1]);
    let token = token_of(&wake(&mut clients[1], Wake::Served));
    let value = "x".repeat(1_000);
    clients[1].check(&format!("LFILL k {value} {token}"), ":1");
    let mut served = take_served(&host);
    assert_eq!(served, (2..1_000).collect::<Vec<u64>>());
    // What is kept for those who wait is bounded: the others run their requests themselves.
    while let Some(first) = served.first().copied() {
        served.remove(0);
        let reply = wake(&mut clients[first as usize], Wake::Served);
        assert_eq!(reply, format!("*4 +HIT $1000 {value} $-1 :-1"));
        served.extend(take_served(&host));
    }
    assert_eq!(engine.keyspace().counters().lease_grants, 2);
}

#[test]
fn stale_values_are_read_by_lget_alone() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let [mut one, mut two] = [1, 2].map(|id| numbered(&engine, &host, id));
    let token = win(&mut one, "LGET k");
    one.check(&format!("LFILL k v {token} PX 1000 STALE 500"), ":1");
    one.check("LGET k STALE", "*4 +HIT $1 v $-1 :1000");
    later(&mut [&mut one, &mut two], 1_001);
    let sweep = |now| {
        for shard in engine.keyspace().shard_indexes() {
            engine.keyspace().expire_step(shard, now, 100);
        }
    };
    sweep(one.execution.now);
    let absent = ["GET k", "EXISTS k", "TYPE k", "TTL k", "STRLEN k", "OBJECT ENCODING k"];
    let replies = ["$-1", ":0", "+none", ":-2", ":0", "$-1"];
    for (request, reply) in absent.into_iter().zip(replies) {
        one.check(request, reply);
    }
    one.check("KEYS *", "*0");
    one.check("SCAN 0", "*2 $1 0 *0");
    one.check("MGET k a", "*2 $-1 $-1");
    one.check("RANDOMKEY", "$-1");
    let stale_win = one.run("LGET k STALE");
    assert!(stale_win.starts_with("*4 +STALE-WIN $1 v :"), "{stale_win}");
    two.check("LGET k STALE WAIT 100", "*4 +STALE $1 v $-1 :3000");
    two.check("LGET k", "*4 +BUSY $-1 $-1 :3000");
    // Its time is over while it is loaded anew: it is gone, and the lease goes on.
    later(&mut [&mut one, &mut two], 500);
    two.check("LGET k STALE", "*4 +BUSY $-1 $-1 :2500");
    sweep(one.execution.now);
    two.check("DBSIZE", ":0");
    one.check(&format!("LFILL k w {} PX 1000 STALE 500", token_of(&stale_win)), ":1");
    two.check("GET k", "$1 w");
    // What is no longer true is kept as a stale value, and never becomes valid again.
    two.check("LDEL k STALE 700", ":1");
    two.check("LDEL k STALE 700", ":0");
    two.check("GET k", "$-1");
    later(&mut [&mut two], -60_000);
    two.check("GET k", "$-1");
    later(&mut [&mut two], 60_700);
    assert!(two.run("LGET k STALE").starts_with("*4 +STALE-WIN $1 w :"));
    later(&mut [&mut two], 5);
    two.check("LGET k STALE", "*4 +BUSY $-1 $-1 :2995");
    // Plain commands leave no value behind its time.
    for request in ["PEXPIRE k 1000", "APPEND k y", "SETRANGE k 0 z", "SETBIT k 1 1", "INCR k"] {
        later(&mut [&mut one], 10_000);
        one.run("DEL k");
        let token = win(&mut one, "LGET k");
        one.check(&format!("LFILL k 1 {token} PX 900 STALE 5000"), ":1");
        one.run(request);
        later(&mut [&mut one], 1_001);
        assert!(one.run("LGET k STALE").starts_with("*4 +WIN"), "{request}");
    }
}

#[test]
fn a_value_about_to_expire_is_loaded_anew_by_one() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let [mut one, mut two] = [1, 2].map(|id| numbered(&engine, &host, id));
    one.run("SET k v PX 1000");
    one.check("LGET k REFRESH 1000", "*4 +HIT $1 v $-1 :1000");
    let reply = one.run("LGET k REFRESH 1001");
    assert!(reply.starts_with("*4 +STALE-WIN $1 v :"), "{reply}");
    two.check("LGET k REFRESH 2000", "*4 +HIT $1 v $-1 :1000");
    two.check("LGET k", "*4 +HIT $1 v $-1 :1000");
    one.check(&format!("LFILL k w {} PX 1000", token_of(&reply)), ":1");
    one.run("SET k v");
    one.check("LGET k REFRESH 2000", "*4 +HIT $1 v $-1 :-1");
}

#[test]
fn several_keys_are_asked_for_at_once() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    client.run_all(&["SET a v", "RPUSH l v"]);
    let reply = client.run("MLGET a b l b");
    assert!(reply.starts_with("*4 *4 +HIT $1 v $-1 :-1 *4 +WIN $-1 :"), "{reply}");
    assert!(reply.ends_with(" :3000 *4 +BUSY $-1 $-1 :-1 *4 +BUSY $-1 $-1 :3000"), "{reply}");
    client.close();
    assert_eq!(engine.keyspace().lease_count(), 0);
}

#[test]
fn leases_are_bounded_and_count_as_memory() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let before = engine.keyspace().private_bytes();
    let mut clients: Vec<Client<'_>> = (0..5).map(|id| numbered(&engine, &host, id)).collect();
    for (name, client) in clients[..4].iter_mut().enumerate() {
        for number in 0..4_096 {
            let reply = client.run(&format!("LGET {name}:{number}"));
            assert!(reply.starts_with("*4 +WIN"), "{reply}");
        }
        client.check("LGET more", "-ERR too many leases are held");
    }
    clients[4].check("LGET more", "-ERR too many leases are held");
    assert!(engine.keyspace().private_bytes() > before + 4 * 4_096 * 384);
    clients.iter_mut().for_each(Client::close);
    assert_eq!(engine.keyspace().private_bytes(), before);
    // Where there is no memory for one, there is none.
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + 100);
    clients[0].check("LGET k", "-OOM command not allowed when used memory > 'maxmemory'.");
}

/// Returns an engine, all of whose memory is in use, with 2,000 keys of one size.
fn full_engine() -> Engine {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut client = numbered(&engine, &host, 9);
    (0..2_000).for_each(|number| client.check(&format!("SET key:{number} {number:050}"), "+OK"));
    drop(client);
    engine.keyspace().set_maxmemory(1);
    engine
}

#[test]
fn what_is_untrue_goes_where_there_is_no_memory_for_its_time() {
    let (engine, host) = (full_engine(), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    for number in 0..2_000 {
        client.check(&format!("LDEL key:{number} STALE 1000"), ":1");
        client.check(&format!("GET key:{number}"), "$-1");
    }
}

#[test]
fn where_there_is_no_memory_a_lease_passes_on_to_one_after_the_other() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut clients: Vec<Client<'_>> = (0..5).map(|id| numbered(&engine, &host, id)).collect();
    let token = win(&mut clients[0], "LGET k");
    clients[1..].iter_mut().for_each(|client| block(client, "LGET k WAIT 10000"));
    engine.keyspace().set_maxmemory(1);
    clients[0].check(&format!("LFREE k {token}"), ":1");
    for id in 1..4 {
        assert_eq!(take_served(&host), [id]);
        let reply = wake(&mut clients[id as usize], Wake::Served);
        assert!(reply.starts_with("-OOM"), "{reply}");
    }
    engine.keyspace().set_maxmemory(0);
    assert_eq!(take_served(&host), [4]);
    assert!(wake(&mut clients[4], Wake::Served).starts_with("*4 +WIN"));
}

/// Has `client` ask for keys with and without values, and for a stale one; where there is no value
/// it is refused by `refusal`.
fn check_values_without_leases(client: &mut Client<'_>, refusal: &str) {
    for _ in 0..2 {
        client.check("LGET warm REFRESH 5000", "*4 +HIT $1 v $-1 :1000");
        client.check("LGET old STALE", "*4 +STALE $1 v $-1 :0");
        client.check("LGET old STALE WAIT 1000", "*4 +STALE $1 v $-1 :0");
        client.check("LGET none", refusal);
        let parts = "*2 *4 +HIT $1 v $-1 :1000 *4 +BUSY $-1 $-1 :0";
        client.check("MLGET warm none", parts);
    }
}

#[test]
fn a_value_is_returned_where_there_can_be_no_lease() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    client.run_all(&["SET warm v PX 1000", "SET old v", "LDEL old STALE 100000"]);
    engine.keyspace().set_maxmemory(1);
    let refusal = "-OOM command not allowed when used memory > 'maxmemory'.";
    check_values_without_leases(&mut client, refusal);
    engine.keyspace().set_maxmemory(0);
    for number in 0..4_096 {
        win(&mut client, &format!("LGET {number}"));
    }
    check_values_without_leases(&mut client, "-ERR too many leases are held");
    let replies = client.run_all(&["MULTI", "LGET warm REFRESH 5000", "MLGET none", "EXEC"]);
    let parts = "*2 *4 +HIT $1 v $-1 :1000 *1 *4 +BUSY $-1 $-1 :0";
    assert!(replies.ends_with(parts), "{replies}");
    assert_eq!(engine.keyspace().lease_count(), 4_096);
}

#[test]
fn room_is_made_for_the_lease_of_a_key_that_has_a_value() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    (0..2_000).for_each(|number| client.check(&format!("SET key:{number} {number:050}"), "+OK"));
    client.run("SET warm v PX 1000");
    engine.keyspace().set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory());
    let reply = client.run("LGET warm REFRESH 5000");
    assert!(reply.starts_with("*4 +STALE-WIN $1 v :"), "{reply}");
    let reply = client.run("MLGET warm a b c d");
    assert_eq!(reply.matches("+WIN").count(), 4, "{reply}");
}

#[test]
fn several_leases_are_given_as_far_as_there_is_room() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut one = numbered(&engine, &host, 1);
    let mut most = 0;
    for spare in (0..4_000).step_by(50) {
        engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + spare);
        let reply = one.run("MLGET a b c d");
        let (wins, others) = (reply.matches("+WIN").count(), reply.matches("+BUSY $-1 $-1 :0"));
        assert_eq!(wins + others.count(), 4, "{spare}: {reply}");
        assert_eq!(engine.keyspace().lease_count(), wins as u64);
        assert!(wins >= most, "{spare}: {reply}");
        most = wins;
        engine.keyspace().set_maxmemory(0);
        one.run_all(&["DEL a", "DEL b", "DEL c", "DEL d"]);
    }
    assert_eq!(most, 4);
}

#[test]
fn no_room_is_made_for_leases_that_are_not_given() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let [mut one, mut two] = [1, 2].map(|id| numbered(&engine, &host, id));
    (0..2_000).for_each(|number| one.check(&format!("SET key:{number} {number:050}"), "+OK"));
    let names = |kind: &str| (0..1_000).map(|it| format!(" {kind}:{it}")).collect::<String>();
    two.run(&format!("MLGET{}", names("held")));
    for number in 1_000..4_096 {
        win(&mut two, &format!("LGET {number}"));
    }
    engine.keyspace().set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + 1_000);
    // Those of somebody else, one key many times, and more than the session may have.
    for (session, keys) in [(1, names("held")), (1, " same".repeat(1_000)), (2, names("new"))] {
        let client = if session == 1 { &mut one } else { &mut two };
        client.run(&format!("MLGET{keys}"));
        assert_eq!(engine.keyspace().counters().evicted_keys, 0, "{keys}");
    }
}

#[test]
fn many_leases_are_ended_a_few_in_one_hold_and_freed_while_nothing_is_held() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let [mut one, mut two] = [1, 2].map(|id| numbered(&engine, &host, id));
    let before = engine.keyspace().private_bytes();
    for flush in ["FLUSHALL", "MULTI FLUSHALL EXEC"] {
        (0..4_096).for_each(|number| drop(win(&mut one, &format!("LGET {number}"))));
        let held = engine.keyspace().private_bytes();
        two.run_all(&flush.split(' ').collect::<Vec<_>>());
        assert_eq!((engine.keyspace().lease_count(), engine.keyspace().private_bytes()), (0, held));
        engine.keyspace().drop_retired();
        assert_eq!(engine.keyspace().private_bytes(), before);
    }
    assert_eq!(engine.keyspace().counters().lease_voids, 2 * 4_096);
    // One of another database stays.
    (0..100).for_each(|number| drop(win(&mut one, &format!("LGET {number}"))));
    two.run("SELECT 1");
    win(&mut two, "LGET 1");
    one.run("FLUSHDB");
    assert_eq!(engine.keyspace().lease_count(), 1);
    (0..4_096).for_each(|number| drop(win(&mut one, &format!("LGET {number}"))));
    let locks = step_counters::steps_of(CountedStep::Lock, || one.close());
    assert!(locks >= 4, "{locks} locks");
    assert_eq!(engine.keyspace().lease_count(), 1);
}

#[test]
fn who_has_too_many_leases_leaves_one_that_is_over_to_those_who_wait() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let [mut holder, mut waiter, mut full] = [1, 2, 3].map(|id| numbered(&engine, &host, id));
    win(&mut holder, "LGET k TTL 10");
    block(&mut waiter, "LGET k WAIT 10000");
    for number in 0..4_096 {
        win(&mut full, &format!("LGET {number} TTL 100000"));
    }
    later(&mut [&mut holder, &mut waiter, &mut full], 10);
    full.check("LGET k", "-ERR too many leases are held");
    engine.keyspace().end_leases_over(full.execution.now);
    engine.serve_left(&mut full.execution);
    assert_eq!(take_served(&host), [2]);
    assert!(wake(&mut waiter, Wake::Served).starts_with("*4 +WIN"));
    // In place of one of its own it may have one.
    later(&mut [&mut full], 100_000);
    assert!(full.run("LGET 7").starts_with("*4 +WIN"));
}

#[test]
fn a_random_key_is_looked_for_a_bounded_number_of_times_among_stale_ones() {
    let (engine, host) = (Engine::new(keyspace(1)), TestHost::default());
    let mut client = numbered(&engine, &host, 1);
    for number in 0..2_000 {
        client.run_all(&[&format!("SET {number} v"), &format!("LDEL {number} STALE 1000")]);
    }
    let locks = step_counters::steps_of(CountedStep::Lock, || client.check("RANDOMKEY", "$-1"));
    assert!(locks < 200, "{locks} locks");
    client.check("DBSIZE", ":2000");
}

#[test]
fn a_value_that_is_made_stale_is_a_removal_to_listeners_and_tokens_are_exact_in_floats() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let recording = recording_of(engine.keyspace());
    let mut client = numbered(&engine, &host, 1);
    client.run("SET k v");
    client.check("LDEL k STALE 1000", ":1");
    later(&mut [&mut client], -20 * 86_400_000);
    client.check("GET k", "$-1");
    let token: i64 = win(&mut client, "LGET k").parse().unwrap();
    assert!((0..1 << 53).contains(&token), "{token}");
    let mut names = Vec::new();
    recording.for_each(|record| {
        let all = record.changes().flat_map(|change| keyspace_events(&change));
        names.extend(all.map(|event| event.name));
    });
    assert_eq!(names, ["new", "set", "del"]);
}

/// What a key is to the model.
#[derive(Default)]
struct ModelKey {
    value: Option<ModelValue>,
    lease: Option<ModelLease>,
    /// The clients that wait, with whether they take stale values, the oldest first.
    waiting: Vec<(usize, bool)>,
    /// What is loaded of it now, and the oldest that is true since it was invalidated.
    truth: u64,
    floor: u64,
}

#[derive(Clone, Copy)]
struct ModelValue {
    version: u64,
    expires: Option<i64>,
    grace: i64,
}

#[derive(Clone, Copy)]
struct ModelLease {
    holder: usize,
    ends: i64,
}

const MODEL_KEYS: [&str; 3] = ["a", "{a}b", "c"];
const MODEL_TTL: i64 = 1_000;

impl ModelKey {
    fn live(&self, now: i64) -> Option<ModelValue> {
        self.value.filter(|value| value.expires.is_none_or(|at| now <= at))
    }

    fn stale(&self, now: i64) -> Option<ModelValue> {
        let is_stale = |value: &ModelValue| {
            value.expires.is_some_and(|at| now > at && now <= at + value.grace)
        };
        self.value.filter(is_stale)
    }

    /// Returns what LGET of `client` replies, but for the token, and gives it the lease.
    fn ask(&mut self, client: usize, stale: bool, now: i64) -> (&'static str, Option<u64>, i64) {
        if let Some(value) = self.live(now) {
            assert!(value.version >= self.floor, "an old value is never a hit");
            return ("HIT", Some(value.version), value.expires.map_or(-1, |at| at - now));
        }
        let stale = self.stale(now).filter(|_| stale).map(|value| value.version);
        match self.lease.filter(|lease| lease.ends > now) {
            Some(lease) => {
                (if stale.is_some() { "STALE" } else { "BUSY" }, stale, lease.ends - now)
            }
            None => {
                self.lease = Some(ModelLease { holder: client, ends: now + MODEL_TTL });
                (if stale.is_some() { "STALE-WIN" } else { "WIN" }, stale, MODEL_TTL)
            }
        }
    }
}

/// One random history, in simulated time, of clients that load, fill, die, wait and invalidate.
struct History<'e> {
    engine: &'e Engine,
    host: &'e TestHost,
    random: Prng,
    now: i64,
    clients: Vec<Client<'e>>,
    /// Which key each client waits for.
    waits: Vec<Option<usize>>,
    keys: [ModelKey; 3],
    /// Tokens that were given: the key, the token, what was loaded, and whether it is the last one.
    tokens: Vec<(usize, String, u64)>,
    /// For each key the token that is valid, as far as its lease goes on.
    valid: [Option<String>; 3],
    filled: u64,
}

impl<'e> History<'e> {
    fn new(engine: &'e Engine, host: &'e TestHost, seed: u64) -> History<'e> {
        let clients: Vec<Client<'e>> = (0..5).map(|id| numbered(engine, host, id)).collect();
        History {
            engine,
            host,
            random: Prng::new(seed),
            now: NOW.0,
            waits: vec![None; clients.len()],
            clients,
            keys: Default::default(),
            tokens: Vec::new(),
            valid: Default::default(),
            filled: 0,
        }
    }

    fn run(&mut self, client: usize, request: &str) -> String {
        self.clients[client].run(request)
    }

    /// Takes note of the reply of LGET to `client`, which must be the one that the model expects.
    fn expect(
        &mut self,
        client: usize,
        key: usize,
        reply: &str,
        (state, version, ms): (&str, Option<u64>, i64),
    ) {
        let value = version.map_or("$-1".to_owned(), |version| {
            let text = version.to_string();
            format!("${} {text}", text.len())
        });
        if state.ends_with("WIN") {
            let token = token_of(reply);
            assert_eq!(reply, format!("*4 +{state} {value} :{token} :{ms}"));
            assert!(self.tokens.iter().all(|(_, other, _)| *other != token), "never twice");
            let loaded = self.keys[key].truth;
            self.valid[key] = Some(token.clone());
            self.tokens.push((key, token, loaded));
            assert_eq!(self.keys[key].lease.map(|lease| lease.holder), Some(client));
        } else {
            assert_eq!(reply, format!("*4 +{state} {value} $-1 :{ms}"));
        }
    }

    /// Serves those who wait for `key` as the model has it, and compares with who was served.
    fn settle(&mut self, ready: &[usize]) {
        let mut served = take_served(self.host);
        let mut expected = Vec::new();
        for &key in ready {
            let mut answers = Vec::new();
            for (client, stale) in std::mem::take(&mut self.keys[key].waiting) {
                let is_blocked = answers.last().is_some_and(|(_, answer): &(_, (_, _, _))| {
                    let (state, _, _): (&str, Option<u64>, i64) = *answer;
                    state.ends_with("WIN")
                });
                if is_blocked || answers.is_empty() && self.is_held(key) {
                    self.keys[key].waiting.push((client, stale));
                    continue;
                }
                let answer = self.keys[key].ask(client, stale, self.now);
                answers.push((client, answer));
            }
            for (client, answer) in answers {
                expected.push(client as u64);
                self.waits[client] = None;
                let reply = wake(&mut self.clients[client], Wake::Served);
                self.expect(client, key, &reply, answer);
            }
        }
        served.sort_unstable();
        expected.sort_unstable();
        assert_eq!(served, expected);
    }

    fn is_held(&self, key: usize) -> bool {
        let key = &self.keys[key];
        key.live(self.now).is_none() && key.lease.is_some_and(|lease| lease.ends > self.now)
    }

    /// The key is no longer what it was.
    fn invalidate(&mut self, key: usize, value: Option<ModelValue>) {
        let model = &mut self.keys[key];
        (model.value, model.lease, model.floor) = (value, None, model.truth);
        self.valid[key] = None;
    }

    fn step(&mut self) {
        let free: Vec<usize> =
            (0..self.clients.len()).filter(|&client| self.waits[client].is_none()).collect();
        let key = self.random.below(3) as usize;
        let name = MODEL_KEYS[key];
        if free.is_empty() || self.random.one_in(12) {
            return self.step_without_request();
        }
        let client = self.random.pick(&free);
        match self.random.below(20) {
            0..7 => self.ask(client, key),
            7..11 => self.fill(client),
            11..13 => {
                // Somebody changes what is loaded, and then says so.
                self.keys[key].truth += 1;
                let requests = ["DEL", "UNLINK", "LDEL", "GETDEL"];
                let request = format!("{} {name}", self.random.pick(&requests));
                self.run(client, &request);
                self.invalidate(key, None);
                self.settle(&[key]);
            }
            13 => {
                self.keys[key].truth += 1;
                self.run(client, &format!("LDEL {name} STALE 2000"));
                let live = self.keys[key].live(self.now).map(|value| ModelValue {
                    expires: Some(self.now - 1),
                    grace: 2_001,
                    ..value
                });
                let kept = live.or(self.keys[key].stale(self.now));
                self.invalidate(key, kept);
                self.settle(&[key]);
            }
            14 => {
                self.keys[key].truth += 1;
                let version = self.keys[key].truth;
                let expires = self.random.one_in(2).then_some(self.now + 1_500);
                let option = if expires.is_some() { " PX 1500" } else { "" };
                self.run(client, &format!("SET {name} {version}{option}"));
                self.invalidate(key, Some(ModelValue { version, expires, grace: 0 }));
                self.settle(&[key]);
            }
            15 => self.rename(client),
            16 if self.random.one_in(4) => {
                self.keys.iter_mut().for_each(|key| key.truth += 1);
                self.run(client, self.random.clone().pick(&["FLUSHALL", "FLUSHDB"]));
                (0..3).for_each(|key| self.invalidate(key, None));
                self.settle(&[0, 1, 2]);
            }
            17 => self.end_lease(client, key),
            _ => {
                let reply = match self.keys[key].live(self.now) {
                    Some(value) => {
                        format!("${} {1}", value.version.to_string().len(), value.version)
                    }
                    None => "$-1".to_owned(),
                };
                self.clients[client].check(&format!("GET {name}"), &reply);
            }
        }
    }

    fn ask(&mut self, client: usize, key: usize) {
        let (stale, waits) = (self.random.one_in(2), self.random.one_in(2));
        let wait = if waits { " WAIT 100000" } else { "" };
        let stale_word = if stale { " STALE" } else { "" };
        let request = format!("LGET {} TTL {MODEL_TTL}{wait}{stale_word}", MODEL_KEYS[key]);
        let answer = self.keys[key].ask(client, stale, self.now);
        if waits && answer.0 == "BUSY" {
            block(&mut self.clients[client], &request);
            self.keys[key].waiting.push((client, stale));
            self.waits[client] = Some(key);
            return;
        }
        let reply = self.run(client, &request);
        self.expect(client, key, &reply, answer);
    }

    fn fill(&mut self, client: usize) {
        if self.tokens.is_empty() {
            return;
        }
        let recent = (self.tokens.len() as u64).min(6);
        let index = self.tokens.len() - 1 - self.random.below(recent) as usize;
        let (key, token, loaded) = self.tokens[index].clone();
        let lease = self.keys[key].lease.filter(|lease| lease.ends > self.now);
        let is_valid = lease.is_some() && self.valid[key].as_ref() == Some(&token);
        let name = MODEL_KEYS[key];
        let reply = self.run(client, &format!("LFILL {name} {loaded} {token} PX 800 STALE 700"));
        assert_eq!(reply, format!(":{}", u8::from(is_valid)));
        if is_valid {
            self.filled += 1;
            let expires = Some(self.now + 800);
            let model = &mut self.keys[key];
            model.value = Some(ModelValue { version: loaded, expires, grace: 700 });
            model.lease = None;
            assert!(loaded >= model.floor, "what was loaded before it changed is not stored");
            self.settle(&[key]);
        }
    }

    fn rename(&mut self, client: usize) {
        let [source, target] = [0, 1];
        self.keys[target].truth += 1;
        self.keys[source].truth += 1;
        let reply = self.run(client, &format!("RENAME {} {}", MODEL_KEYS[0], MODEL_KEYS[1]));
        match self.keys[source].live(self.now) {
            Some(value) => {
                assert_eq!(reply, "+OK");
                self.invalidate(source, None);
                // What it is now is true, whatever its number.
                self.invalidate(target, Some(ModelValue { grace: 0, ..value }));
                self.keys[target].floor = 0;
                self.settle(&[source, target]);
            }
            None => {
                assert_eq!(reply, "-ERR no such key");
                self.keys[source].value = None;
            }
        }
    }

    fn end_lease(&mut self, client: usize, key: usize) {
        let Some(token) = self.valid[key].clone() else { return };
        let goes_on = self.keys[key].lease.is_some_and(|lease| lease.ends > self.now);
        let name = MODEL_KEYS[key];
        if self.random.one_in(2) {
            let reply = self.run(client, &format!("LEXTEND {name} {token} 1500"));
            assert_eq!(reply, format!(":{}", u8::from(goes_on)));
            if goes_on {
                self.keys[key].lease.as_mut().expect("it goes on").ends = self.now + 1_500;
            }
            return;
        }
        let reply = self.run(client, &format!("LFREE {name} {token}"));
        assert_eq!(reply, format!(":{}", u8::from(goes_on)));
        if goes_on {
            self.keys[key].lease = None;
            self.settle(&[key]);
        }
    }

    /// Time passes, a sweep runs, somebody dies or has waited for long enough.
    fn step_without_request(&mut self) {
        let client = self.random.below(self.clients.len() as u64) as usize;
        match self.random.below(4) {
            0 => {
                self.now += self.random.below(900) as i64;
                self.clients.iter_mut().for_each(|it| it.execution.now = UnixMs(self.now));
            }
            1 => {
                let now = UnixMs(self.now);
                let keyspace = self.engine.keyspace();
                for shard in keyspace.shard_indexes() {
                    keyspace.expire_step(shard, now, 100);
                }
                keyspace.end_leases_over(now);
                self.engine.serve_left(&mut self.clients[0].execution);
                let is_over =
                    |key: &usize| self.keys[*key].lease.is_some_and(|it| it.ends <= self.now);
                let over: Vec<usize> = (0..3).filter(is_over).collect();
                over.iter().for_each(|&key| self.keys[key].lease = None);
                self.settle(&over);
            }
            2 => {
                self.clients[client].close();
                if let Some(key) = self.waits[client].take() {
                    self.keys[key].waiting.retain(|(waiting, _)| *waiting != client);
                }
                let is_held =
                    |key: &usize| self.keys[*key].lease.is_some_and(|it| it.holder == client);
                let held: Vec<usize> = (0..3).filter(is_held).collect();
                held.iter().for_each(|&key| self.keys[key].lease = None);
                self.settle(&held);
            }
            _ => {
                let Some(key) = self.waits[client].take() else { return };
                self.keys[key].waiting.retain(|(waiting, _)| *waiting != client);
                let reply = wake(&mut self.clients[client], Wake::TimedOut);
                assert_eq!(reply, "*4 +BUSY $-1 $-1 :0");
            }
        }
    }
}

#[test]
fn leases_agree_with_a_model_and_their_effects_give_the_same_dataset() {
    let filled = check_histories(2_000, |seed| {
        let (engine, host) = (Engine::new(keyspace(2)), TestHost::default());
        let recording = seed.is_multiple_of(8).then(|| recording_of(engine.keyspace()));
        let mut history = History::new(&engine, &host, seed);
        (0..60).for_each(|_| history.step());
        let filled = history.filled;
        drop(history);
        assert_eq!(engine.keyspace().lease_count(), 0);
        if let Some(recording) = recording {
            assert_same_data(&replayed(&recording), engine.keyspace());
        }
        filled
    });
    assert!(filled > 1, "something was filled");
}
