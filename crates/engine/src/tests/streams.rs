//! Streams: who is served by an entry, what ends waits otherwise, and that no entry is lost
//! whichever consumers come and go.

use std::collections::BTreeSet;

use command::Wake;
use keyspace::{EvictionPolicy, WaitState};

use super::awaits::{block, numbered, take_served, try_wake, wake};
use super::blocked_sessions::blocked;
use super::*;

const ENTRY: &str = "*1 *2 $1 k *1 *2 $3 1-1 *2 $1 f $1 v";

#[test]
fn an_entry_serves_every_reader() {
    for read in ["XREAD BLOCK 0 STREAMS none k 0 0", "XREAD BLOCK 0 STREAMS k $"] {
        for add in [
            &["XADD k 1-1 f v"][..],
            &["MULTI", "XADD k 1-1 f v", "EXEC"],
            &["XADD a 1-1 f v", "RENAME a k"],
            &["XADD a 1-1 f v", "COPY a k"],
            &["SELECT 1", "XADD k 1-1 f v", "SWAPDB 0 1"],
        ] {
            let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
            let mut readers = blocked(&engine, &host, 2, read);
            let mut other = numbered(&engine, &host, 9);
            other.run_all(add);
            assert_eq!(take_served(&host), [1, 2], "{add:?}");
            for reader in &mut readers {
                assert_eq!(wake(reader, Wake::Served), ENTRY, "{read} {add:?}");
            }
        }
    }
}

#[test]
fn readers_wait_for_what_comes_behind_the_entries_that_were_there() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let (mut reader, mut other) = (numbered(&engine, &host, 7), numbered(&engine, &host, 8));
    other.run_all(&["XADD k 1-0 f old", "SADD s a"]);
    block(&mut reader, "XREAD BLOCK 0 STREAMS none k $ $");
    other.run_all(&["XDEL k 1-0", "XGROUP CREATE k g 0", "XTRIM k MAXLEN 0", "SET none v"]);
    assert_eq!(take_served(&host), []);
    other.run_all(&["XADD k 1-1 f v"]);
    assert_eq!(take_served(&host), [7]);
    assert_eq!(wake(&mut reader, Wake::Served), ENTRY);
    reader.check(
        "XREAD BLOCK 5 STREAMS s 0",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    reader.check("MULTI", "+OK");
    reader.check("XREAD BLOCK 0 STREAMS k $", "+QUEUED");
    reader.check("EXEC", "*1 *-1");
    block(&mut reader, "XREAD BLOCK 5 STREAMS k $");
    assert_eq!(wake(&mut reader, Wake::TimedOut), "*-1");
}

#[test]
fn an_entry_serves_the_consumers_of_a_group_in_turn() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut other = numbered(&engine, &host, 9);
    other.run_all(&["XGROUP CREATE k g 0 MKSTREAM"]);
    let mut readers: Vec<Client<'_>> = (1..=3).map(|id| numbered(&engine, &host, id)).collect();
    for (index, reader) in readers.iter_mut().enumerate() {
        block(reader, &format!("XREADGROUP GROUP g c{index} BLOCK 0 STREAMS k >"));
    }
    // They are there, though they have got nothing.
    other.check("XGROUP CREATECONSUMER k g c2", ":0");
    other.run_all(&["XADD k 1-1 f v"]);
    assert_eq!(take_served(&host), [1]);
    assert_eq!(wake(&mut readers[0], Wake::Served), ENTRY);
    other.run_all(&["MULTI", "XADD k 1-2 f v", "XADD k 1-3 f v", "EXEC"]);
    assert_eq!(take_served(&host), [2]);
    assert_eq!(try_wake(&mut readers[1], Wake::Served).map(|reply| reply.len() > 30), Some(true));
    other.run_all(&["XADD k 1-4 f v"]);
    assert_eq!(take_served(&host), [3]);
    wake(&mut readers[2], Wake::Served);
    other.check("XPENDING k g", "*4 :4 $3 1-1 $3 1-4 *3 *2 $2 c0 $1 1 *2 $2 c1 $1 2 *2 $2 c2 $1 1");
}

#[test]
fn the_end_of_a_group_or_its_stream_refuses_who_waits() {
    const GONE: &str =
        "-NOGROUP No such key 'k' or consumer group 'g' in XREADGROUP with GROUP option";
    for (requests, expected) in [
        (&["DEL k"][..], GONE),
        (&["XGROUP DESTROY k g"], GONE),
        (&["FLUSHALL"], GONE),
        (&["FLUSHDB"], GONE),
        (&["SWAPDB 0 1"], GONE),
        (&["RENAME k other"], GONE),
        (&["MOVE k 1"], GONE),
        (&["PEXPIREAT k 1"], GONE),
        (
            &["SADD a b", "RENAME a k"],
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (&["SET k v"], "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        (
            &["MULTI", "DEL k", "SADD k a", "EXEC"],
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ] {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let (mut reader, mut other) = (numbered(&engine, &host, 7), numbered(&engine, &host, 8));
        other.run_all(&["XGROUP CREATE k g $ MKSTREAM", "XGROUP CREATE l g $ MKSTREAM"]);
        block(&mut reader, "XREADGROUP GROUP g c BLOCK 0 STREAMS l k > >");
        other.run_all(&["XGROUP CREATE k h $", "XTRIM k MAXLEN 0"]);
        assert_eq!(take_served(&host), [], "{requests:?}");
        other.run_all(requests);
        assert_eq!(take_served(&host), [7], "{requests:?}");
        let reply = wake(&mut reader, Wake::Served).replace("'l'", "'k'");
        assert_eq!(reply, expected, "{requests:?}");
    }
}

#[test]
fn a_stream_that_a_sweep_removes_refuses_who_waits() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let (mut reader, mut other) = (numbered(&engine, &host, 7), numbered(&engine, &host, 8));
    other.run_all(&["XGROUP CREATE k g $ MKSTREAM", "PEXPIRE k 10"]);
    block(&mut reader, "XREADGROUP GROUP g c BLOCK 0 STREAMS k >");
    let keyspace = engine.keyspace();
    for shard in keyspace.shard_indexes() {
        keyspace.expire_step(shard, UnixMs(NOW.0 + 11), 10);
    }
    assert!(keyspace.has_unserved());
    other.check("PING", "+PONG");
    assert_eq!(take_served(&host), [7]);
    assert!(wake(&mut reader, Wake::Served).starts_with("-NOGROUP "));
}

#[test]
fn a_stream_that_lasts_ends_no_wait_of_readers() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let (mut reader, mut other) = (numbered(&engine, &host, 7), numbered(&engine, &host, 8));
    other.run_all(&["XADD k 1-0 f v"]);
    block(&mut reader, "XREAD BLOCK 0 STREAMS k $");
    other.run_all(&["DEL k", "SET k v", "DEL k", "FLUSHALL"]);
    assert_eq!(take_served(&host), []);
    other.run_all(&["XADD k 1-1 f v"]);
    assert_eq!(take_served(&host), [7]);
    assert_eq!(wake(&mut reader, Wake::Served), ENTRY);
}

/// Consumers read and acknowledge, are closed at any step, and are replaced by others that claim
/// what was left: every entry is processed, and none is twice acknowledged.
#[test]
fn consumers_that_end_at_any_step_lose_no_entry() {
    for seed in 0..if cfg!(debug_assertions) { 20 } else { 200 } {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let mut random = Prng::new(seed);
        let mut other = numbered(&engine, &host, 100);
        other.run_all(&["XGROUP CREATE k g 0 MKSTREAM"]);
        let mut readers: Vec<Client<'_>> = (1..=3).map(|id| numbered(&engine, &host, id)).collect();
        let (mut waits, mut processed) = ([false; 3], BTreeSet::new());
        let mut added = 0;
        for _ in 0..300 {
            let index = random.below(3) as usize;
            let reader = &mut readers[index];
            match random.below(6) {
                0 | 1 => {
                    added += 1;
                    other.check(&format!("XADD k {added}-0 n {added}"), &shown_id(added));
                }
                2 if waits[index] => {
                    let mut closed =
                        std::mem::replace(reader, numbered(&engine, &host, 1 + index as u64));
                    engine.close(&mut closed.session, &mut closed.execution);
                    waits[index] = false;
                }
                3 if waits[index] => {
                    if let Some(reply) = try_wake(reader, Wake::TimedOut) {
                        processed.extend(ids_in(&reply));
                        waits[index] = false;
                    }
                }
                4 if !waits[index] => {
                    let request = format!("XAUTOCLAIM k g c{index} 0 - COUNT 5 JUSTID");
                    let (reply, _) = reader.batch(&[&request]);
                    for id in ids_in(&reply.replacen("0-0", "", 1)) {
                        reader.check(&format!("XACK k g {id}-0"), ":1");
                        processed.insert(id);
                    }
                }
                _ if !waits[index] => {
                    let request =
                        format!("XREADGROUP GROUP g c{index} COUNT 2 BLOCK 0 STREAMS k >");
                    let (_, outcome) = reader.batch(&[&request]);
                    waits[index] = outcome.status == SessionStatus::Blocked;
                }
                _ => {}
            }
        }
        // Whatever was delivered and not acknowledged is pending still.
        let (reply, _) = other.batch(&["XREADGROUP GROUP g last STREAMS k >"]);
        processed.extend(ids_in(&reply));
        let (reply, _) = other.batch(&["XAUTOCLAIM k g last 0 - COUNT 1000 JUSTID"]);
        processed.extend(ids_in(&reply.replacen("0-0", "", 1)));
        assert_eq!(processed, (1..=added).collect(), "seed {seed}");
    }
}

fn shown_id(ms: u64) -> String {
    let id = format!("{ms}-0");
    format!("${} {id}", id.len())
}

/// Returns the times of the identities in `reply`.
fn ids_in(reply: &str) -> Vec<u64> {
    let ids = reply.split(' ').filter_map(|word| word.strip_suffix("-0"));
    ids.filter_map(|ms| ms.parse().ok()).filter(|ms| *ms > 0).collect()
}

#[test]
fn a_hundred_thousand_pending_entries_are_claimed_exactly_once_a_round() {
    let count = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 7);
    client.run_all(&["XGROUP CREATE k g 0 MKSTREAM"]);
    for ms in 1..=count {
        client.check(&format!("XADD k {ms}-0 f v"), &shown_id(ms));
    }
    client.run_all(&["XREADGROUP GROUP g first STREAMS k >"]);
    client.check("XDEL k 5-0 77-0 1000-0", ":3");
    for round in 1..=3 {
        let (mut claimed, mut start) = (BTreeSet::new(), "0-0".to_owned());
        loop {
            let request = format!("XAUTOCLAIM k g c{round} 0 {start} COUNT 777 JUSTID");
            let (reply, _) = client.batch(&[&request]);
            let mut words = reply.split(' ').skip(2);
            start = words.next().unwrap().to_owned();
            let rest = reply.split_once(&start).unwrap().1;
            for id in ids_in(rest) {
                assert!(claimed.insert(id), "{id} twice in round {round}");
            }
            if start == "0-0" {
                break;
            }
        }
        let gone = if round == 1 { 0 } else { 3 };
        assert_eq!(claimed.len() as u64, count - gone);
        client.check(&format!("XGROUP DELCONSUMER k g c{}", round - 1), ":0");
    }
    client.check("XGROUP DELCONSUMER k g c3", &format!(":{}", count - 3));
    client.check("XPENDING k g", "*4 :0 $-1 $-1 *-1");
}

/// Adds `count` entries of one field of `bytes` bytes to the stream `key`.
fn add_entries(client: &mut Client<'_>, key: &str, count: u64, bytes: usize) {
    let value = "v".repeat(bytes);
    (1..=count).for_each(|number| drop(client.run(&format!("XADD {key} 1-{number} f {value}"))));
}

fn is_told(client: &Client<'_>) -> bool {
    matches!(*client.session.waits.current().unwrap().state(), WaitState::Told { .. })
}

#[test]
fn readers_of_much_run_their_requests_themselves() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut readers = blocked(&engine, &host, 3, "XREAD BLOCK 0 STREAMS k 0");
    let mut few = numbered(&engine, &host, 4);
    block(&mut few, "XREAD COUNT 2 BLOCK 0 STREAMS k 0");
    let mut other = numbered(&engine, &host, 9);
    add_entries(&mut other, "s", 200, 1000);
    other.check("RENAME s k", "+OK");
    assert_eq!(take_served(&host), [1, 2, 3, 4]);
    assert!(readers.iter().all(is_told) && !is_told(&few));
    // What was replied counts until it is taken.
    let used = engine.keyspace().used_memory();
    assert!(wake(&mut few, Wake::Served).contains(" 1-2 "));
    assert!(engine.keyspace().used_memory() + 2 * 1000 < used);
    assert!(wake(&mut readers[0], Wake::Served).len() > 200_000);
    // Those that have not run yet are in nobody's way, nor is anyone in theirs.
    block(&mut few, "XREAD BLOCK 0 STREAMS k $");
    other.run_all(&["XADD k 2-1 f v"]);
    assert_eq!(take_served(&host), [4]);
    other.run_all(&["DEL k"]);
    assert_eq!(try_wake(&mut readers[1], Wake::Served), None);
    other.run_all(&["XADD k 1-1 f v"]);
    assert_eq!(take_served(&host), [2]);
    assert_eq!(wake(&mut readers[1], Wake::Served), ENTRY);
    assert_eq!(wake(&mut readers[2], Wake::Served), ENTRY);
}

#[test]
fn those_who_are_served_at_once_get_no_more_than_a_bound_together() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let readers = blocked(&engine, &host, 100, "XREAD BLOCK 0 STREAMS k 0");
    let mut other = numbered(&engine, &host, 9);
    other.check(&format!("XADD k 1-1 f {}", "v".repeat(10_000)), "$3 1-1");
    assert_eq!(take_served(&host).len(), 100);
    assert_eq!(readers.iter().filter(|reader| !is_told(reader)).count(), 6);
}

#[test]
fn groups_of_much_are_read_by_their_consumers_themselves() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut other = numbered(&engine, &host, 9);
    add_entries(&mut other, "s", 200, 1000);
    for group in 1..=3 {
        other.run_all(&[&format!("XGROUP CREATE s g{group} 0")]);
        other.run_all(&[&format!("XGROUP CREATE k g{group} 0 MKSTREAM")]);
    }
    let mut readers: Vec<Client<'_>> = (1..=3).map(|id| numbered(&engine, &host, id)).collect();
    for (number, reader) in (1..).zip(&mut readers) {
        block(reader, &format!("XREADGROUP GROUP g{number} c BLOCK 0 STREAMS k >"));
    }
    other.check("RENAME s k", "+OK");
    for (number, reader) in (1..).zip(&mut readers) {
        assert_eq!(take_served(&host), [number]);
        assert!(is_told(reader));
        // Nothing has changed yet.
        other.check(&format!("XPENDING k g{number}"), "*4 :0 $-1 $-1 *-1");
        assert!(wake(reader, Wake::Served).len() > 200_000);
        let expected = "*4 :200 $3 1-1 $5 1-200 *1 *2 $1 c $3 200";
        other.check(&format!("XPENDING k g{number}"), expected);
    }
}

#[test]
fn what_a_reader_changes_and_waits_on_is_in_the_record_that_its_reply_waits_for() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let (mut reader, mut other) = (numbered(&engine, &host, 7), numbered(&engine, &host, 8));
    let sink = recording_of(engine.keyspace());
    other.run_all(&["XGROUP CREATE k g $ MKSTREAM"]);
    block(&mut reader, "XREADGROUP GROUP g c BLOCK 5 STREAMS k >");
    other.run_all(&["MULTI", "XGROUP DELCONSUMER k g c", "XADD k 1-1 f v", "XDEL k 1-1", "EXEC"]);
    assert_eq!(take_served(&host), []);
    assert_eq!(sink.commands().last().unwrap(), "XGROUP CREATECONSUMER k g c");
    let end = sink.end();
    other.run_all(&["SET x v"]);
    let mut out = Output::default();
    let Client { session, execution, .. } = &mut reader;
    let release = engine.wake(session, Wake::TimedOut, &mut out, execution);
    assert_eq!(release.expect("it waits no longer").lsn, end);
}

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

/// Returns an engine with streams `a` to `f` of so many entries, which no group has read.
fn engine_of_streams(count: u64) -> Engine {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 9);
    for key in KEYS {
        add_entries(&mut client, key, count, 1);
        client.run(&format!("XGROUP CREATE {key} g 0"));
    }
    drop(client);
    engine
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const READ_ALL: &str = "XREADGROUP GROUP g c STREAMS a b c d e f > > > > > >";

fn pending_counts(client: &mut Client<'_>) -> Vec<String> {
    let count =
        |key| client.run(&format!("XPENDING {key} g")).split(' ').nth(1).unwrap().to_owned();
    KEYS.into_iter().map(count).collect()
}

#[test]
fn reading_several_streams_asks_for_what_becomes_pending() {
    let (engine, host) = (engine_of_streams(2000), TestHost::default());
    let mut client = numbered(&engine, &host, 9);
    let keyspace = engine.keyspace();
    keyspace.set_maxmemory(keyspace.used_memory() + 650_000);
    client.check(READ_ALL, OOM);
    assert_eq!(pending_counts(&mut client), [":0"; 6]);
    assert!(client.run("XREADGROUP GROUP g c STREAMS a b > >").len() > 10_000);
    assert!(keyspace.used_memory() <= keyspace.maxmemory());
    // Others go for it where they may.
    keyspace.set_maxmemory(0);
    add_entries(&mut client, "g", 1000, 1000);
    keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_RANDOM);
    keyspace.set_maxmemory(keyspace.used_memory() + 200_000);
    assert!(client.run("XREADGROUP GROUP g c STREAMS c d > >").len() > 10_000);
    assert!(client.run("DBSIZE").as_str() < ":7");
    assert!(keyspace.used_memory() <= keyspace.maxmemory());
}

#[test]
fn reading_several_streams_within_exec_changes_all_or_none() {
    let (engine, host) = (engine_of_streams(500), TestHost::default());
    let mut client = numbered(&engine, &host, 9);
    let keyspace = engine.keyspace();
    let mut refused = 0;
    for lacking in (0..900_000).step_by(60_000) {
        keyspace.set_maxmemory(0);
        client.run_all(&["DEL z"]);
        for key in KEYS {
            client.run_all(&[&format!("XGROUP DESTROY {key} g")]);
            client.run_all(&[&format!("XGROUP CREATE {key} g 0")]);
        }
        keyspace.set_maxmemory(keyspace.used_memory() + 100_000);
        let offset = 100_000 + keyspace.transaction_overshoot_bytes_max() - lacking;
        client.run_all(&["MULTI", &format!("SETRANGE z {offset} x"), READ_ALL]);
        let reply = client.run("EXEC");
        let is_refused = reply.ends_with(OOM);
        refused += usize::from(is_refused);
        let expected = if is_refused { ":0" } else { ":500" };
        assert_eq!(pending_counts(&mut client), [expected; 6], "{lacking} bytes");
    }
    assert!((1..15).contains(&refused), "{refused}");
}

#[test]
fn what_does_not_grow_is_not_refused() {
    let (engine, host) = (engine_of_streams(200), TestHost::default());
    let mut client = numbered(&engine, &host, 9);
    client.run_all(&["XREADGROUP GROUP g c STREAMS a >", "XGROUP CREATECONSUMER a g d"]);
    client.run_all(&["XREADGROUP GROUP g c COUNT 1 STREAMS b >"]);
    let keyspace = engine.keyspace();
    keyspace.set_maxmemory(keyspace.used_memory() + 16);
    client.check("XREADGROUP GROUP g c STREAMS a >", "*-1");
    client.check("XREADGROUP GROUP g c STREAMS a a > >", "*-1");
    client.check("XGROUP CREATECONSUMER a g d", ":0");
    client.check("XAUTOCLAIM a g d 0 2-0", "*3 $3 0-0 *0 *0");
    client.check("XAUTOCLAIM a g d 3600000 -", "*3 $3 0-0 *0 *0");
    keyspace.set_maxmemory(keyspace.used_memory() + 5_000);
    assert!(client.run("XREADGROUP GROUP g c COUNT 1 STREAMS b >").contains("1-2"));
    client.check("XCLAIM a g d 0 1-1 1-2 JUSTID", "*2 $3 1-1 $3 1-2");
    client.check("XAUTOCLAIM a g d 0 - COUNT 1 JUSTID", "*3 $3 1-2 *1 $3 1-1 *0");
}

#[test]
fn an_effect_names_a_bounded_number_of_entries() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 9);
    add_entries(&mut client, "k", 2500, 1);
    client.run_all(&["XGROUP CREATE k g 0", "XGROUP CREATE k h 0"]);
    let copied = client.run("XRANGE k 2-0 +");
    assert_eq!(copied, "*0");
    let sink = recording_of(engine.keyspace());
    client.run_all(&["XREADGROUP GROUP g c STREAMS k >"]);
    let claims = |sink: &Recording| -> Vec<usize> {
        let commands = sink.take_commands();
        let claims = commands.iter().filter(|command| command.starts_with("XCLAIM "));
        claims
            .map(|command| command.split(' ').filter(|word| word.starts_with("1-")).count() - 1)
            .collect()
    };
    assert_eq!(claims(&sink), [1024, 1024, 452]);
    client.run_all(&["XAUTOCLAIM k g d 0 - COUNT 2500"]);
    assert_eq!(claims(&sink), [1024, 1024, 452]);
    client.run_all(&["XTRIM k MAXLEN 0", "XAUTOCLAIM k g c 0 - COUNT 2500"]);
    let ends = sink.take_commands();
    assert_eq!(ends.iter().filter(|command| command.starts_with("XACK ")).count(), 3);
    assert_eq!(client.run("XPENDING k g").split(' ').nth(1), Some(":0"));
}

#[test]
fn claims_end_where_the_reply_is_cut() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = numbered(&engine, &host, 9);
    add_entries(&mut client, "k", 100, 1000);
    client.run_all(&["XGROUP CREATE k g 0", "XREADGROUP GROUP g c STREAMS k >"]);
    let ids: Vec<String> = (1..=100).map(|number| format!("1-{number}")).collect();
    let claim = format!("XCLAIM k g d 0 {}", ids.join(" "));
    let words: Vec<&[u8]> = claim.split(' ').map(str::as_bytes).collect();
    let mut bytes = Vec::new();
    encode_command(&words, &mut bytes);
    let mut batch = Batch::new();
    let _ = Decoder::new().decode(&mut bytes, &mut batch, usize::MAX, &Limits::default());
    let mut out = Output::default();
    out.limit(10_000, 10_000);
    let Client { session, execution, .. } = &mut client;
    let _ = engine.execute(session, batch.view(&bytes), 0, &mut out, execution);
    assert!(out.is_over_limit());
    client.check("XPENDING k g - + 1 d", "*1 *4 $3 1-1 $1 d :0 :2");
    client.check("XPENDING k g 1-12 + 1 d", "*0");
}
