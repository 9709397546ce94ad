//! The memory limit, as clients see it.

use std::io;

use effects::WriteRefusal;
use keyspace::EvictionPolicy;

use super::*;

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// Asserts that memory is within the limit, but for the 32nd that index and slab pages may pass it
/// by.
pub(super) fn assert_within_limit(engine: &Engine) {
    let (used, limit) = (engine.keyspace().used_memory(), engine.keyspace().maxmemory());
    assert!(used <= limit + limit / 32 + (32 << 10), "{used} of {limit} bytes are used");
}

pub(super) fn limited(spare: u64, policy: EvictionPolicy) -> Engine {
    limited_of(keyspace(8), spare, policy)
}

fn limited_of(keyspace: Keyspace, spare: u64, policy: EvictionPolicy) -> Engine {
    let engine = Engine::new(keyspace);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    // Every shard has its tables.
    (0..200).for_each(|number| drop(client.run(&format!("SET key:{number} v"))));
    drop(client);
    engine.keyspace().set_eviction_policy(policy);
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + spare);
    engine
}

#[test]
fn reply_of_one_request_stays_within_the_limit_of_the_output() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run(&format!("SET k {}", "x".repeat(10_000)));
    let keys = vec![b"k".as_slice(); 5_000];
    let mget = [&[b"MGET".as_slice()], &keys[..]].concat();
    let gets: Vec<Vec<&[u8]>> = vec![vec![b"GET", b"k"]; 1_000];
    let exec = [vec![vec![b"MULTI".as_slice()]], gets, vec![vec![b"EXEC".as_slice()]]].concat();
    for requests in [vec![mget], exec] {
        let mut bytes = Vec::new();
        requests.iter().for_each(|words| encode_command(words, &mut bytes));
        let mut batch = Batch::new();
        let _ = Decoder::new().decode(&mut bytes, &mut batch, usize::MAX, &Limits::default());
        let mut out = Output::default();
        out.limit(100_000, usize::MAX);
        let view = batch.view(&bytes);
        let outcome = engine.execute(&mut client.session, view, 0, &mut out, &mut client.execution);
        assert_eq!(outcome.executed, requests.len());
        assert!(out.is_over_limit());
        assert!(out.memory_bytes() < 400_000, "{} bytes", out.memory_bytes());
    }
}

#[test]
fn lacking_room_is_made_and_the_write_tried_again() {
    let engine = limited(300_000, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    let sink = recording_of(engine.keyspace());
    let value = "x".repeat(50_000);
    for number in 0..40 {
        client.check(&format!("SET big:{number} {value}"), "+OK");
        assert_within_limit(&engine);
    }
    client.check("STRLEN big:39", ":50000");
    assert!(engine.keyspace().counters().evicted_keys > 30);
    assert!(sink.commands().iter().any(|record| record.starts_with("DEL big:")));
}

#[test]
fn write_without_room_is_refused_and_changes_nothing() {
    // A write that fails may leave a table with room for descriptors.
    let engine = limited(32 << 10, EvictionPolicy::NO_EVICTION);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    let sink = recording_of(engine.keyspace());
    let before = digest(engine.keyspace());
    let value = "x".repeat(70_000);
    client.check(&format!("SET key:1 {value}"), OOM);
    client.check(&format!("SET new {value} GET"), OOM);
    client.check(&format!("APPEND key:1 {value}"), OOM);
    client.check("SETRANGE key:1 70000 x", OOM);
    client.check(&format!("MSET a 1 b {value}"), OOM);
    assert_eq!(digest(engine.keyspace()), before);
    assert!(sink.commands().is_empty());
    client.check("GET key:1", "$1 v");
    client.check("SET key:1 w", "+OK");
}

/// Returns a request of `name` with so many keys that its names alone are more than is stored
/// without room being made first.
fn many_keys(name: &str, prefix: &str) -> String {
    let names = (0..8_000).map(|number| format!(" {prefix}:{number:012}"));
    std::iter::once(name.to_owned()).chain(names).collect()
}

#[test]
fn requests_of_many_keys_that_store_nothing_need_no_room() {
    let engine = limited(4 << 20, EvictionPolicy::NO_EVICTION);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    (0..8_000).for_each(|number| drop(client.run(&format!("SET own:{number:012} v"))));
    // As much as the names of the keys is no longer there.
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + (32 << 10));
    client.check(&many_keys("UNLINK", "absent"), ":0");
    client.check(&many_keys("TOUCH", "own"), ":8000");
    client.check("MULTI", "+OK");
    client.check(&many_keys("UNLINK", "absent"), "+QUEUED");
    client.check("EXEC", "*1 :0");
    client.check(&format!("{} 0.01", many_keys("BLPOP", "own")), WRONG_TYPE);
    client.check(&many_keys("DEL", "own"), ":8000");
}

#[test]
fn requests_of_many_keys_that_store_nothing_evict_nothing() {
    let engine = limited(4 << 20, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    (0..8_000).for_each(|number| drop(client.run(&format!("SET own:{number:012} v"))));
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + (32 << 10));
    client.check(&many_keys("DEL", "absent"), ":0");
    client.run_all(&["MULTI", &many_keys("DEL", "absent"), "EXEC"]);
    assert_eq!(engine.keyspace().counters().evicted_keys, 0);
    // Of the names that are only read nothing is stored either.
    client.check(&many_keys("BITOP OR target", "absent"), ":0");
    assert_eq!(engine.keyspace().counters().evicted_keys, 0);
    client.run(&many_keys("MSET k v", "stored"));
    assert!(engine.keyspace().counters().evicted_keys > 100, "an MSET has to have its room");
}

/// An engine with `spare` bytes more than it needs without data, and values of 64 KiB that fill
/// them, as far as `left` of them.
fn filled(spare: u64, left: u64, policy: EvictionPolicy) -> Engine {
    let engine = limited(spare, policy);
    fill(&engine, left);
    engine
}

/// Sets values of 64 KiB until no more than `left` bytes are left of the limit.
fn fill(engine: &Engine, left: u64) {
    let host = TestHost::default();
    let mut client = Client::new(engine, &host);
    let value = "v".repeat(64 << 10);
    let limit = engine.keyspace().maxmemory();
    for number in 0.. {
        if engine.keyspace().used_memory() + left + (80 << 10) > limit {
            break;
        }
        client.check(&format!("SET filler:{number} {value}"), "+OK");
    }
}

#[test]
fn what_never_fits_evicts_nothing() {
    const SPARE: u64 = 16 << 20;
    let engine = filled(SPARE, 0, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    client.check("SETRANGE grown 6000000 x", ":6000001");
    client.check("SET other v", "+OK");
    let (before, evicted) = (digest(engine.keyspace()), engine.keyspace().counters().evicted_keys);
    let never = [
        "SETRANGE k 25000000 x",
        "SETBIT k 200000000 1",
        "BITFIELD k SET u8 200000000 1",
        "SETRANGE grown 18000000 x",
    ];
    for request in never {
        client.check(request, OOM);
    }
    assert_eq!(engine.keyspace().counters().evicted_keys, evicted);
    assert_eq!(digest(engine.keyspace()), before);
    // What others than keys take is no room.
    let taken = SPARE / 2;
    engine.keyspace().charge(taken);
    (0..50).for_each(|_| drop(client.run("PING")));
    let evicted = engine.keyspace().counters().evicted_keys;
    client.check("SETRANGE k 10000000 x", OOM);
    client.check(&format!("LPUSH list {}", "x".repeat(9_000_000)), OOM);
    assert_eq!(engine.keyspace().counters().evicted_keys, evicted);
    engine.keyspace().discharge(taken);
    client.check("SETRANGE k 10000000 x", ":10000001");
}

#[test]
fn a_large_value_costs_others_about_its_own_size() {
    for request in
        ["SETRANGE big 2999999 x".to_owned(), format!("SET big {}", "x".repeat(3_000_000))]
    {
        let engine = filled(16 << 20, 0, EvictionPolicy::ALLKEYS_LRU);
        let host = TestHost::default();
        let mut client = Client::new(&engine, &host);
        let evicted = engine.keyspace().counters().evicted_keys;
        assert_ne!(client.run(&request), OOM);
        client.check("STRLEN big", ":3000000");
        let evicted = engine.keyspace().counters().evicted_keys - evicted;
        // 46 have as many bytes; some of those that were in the way found no other place.
        assert!((30..70).contains(&evicted), "{evicted} values of 64 KiB went for 3 MB");
    }
}

#[test]
fn a_long_value_that_never_fits_as_it_is_to_grow_evicts_nothing() {
    for is_behind in [false, true] {
        // The region has room for what the limit never allows.
        let engine = limited_of(keyspace_in(8, 16, 1 << 14), 16 << 20, EvictionPolicy::ALLKEYS_LRU);
        let host = TestHost::default();
        let mut client = Client::new(&engine, &host);
        if is_behind {
            fill(&engine, 3 << 20);
        }
        client.check("SETRANGE grown 2000000 x", ":2000001");
        fill(&engine, 0);
        let before = digest(engine.keyspace());
        let evicted = engine.keyspace().counters().evicted_keys;
        for never in ["SETRANGE grown 18000000 x", "SETBIT grown 400000000 1"] {
            client.check(never, OOM);
        }
        assert_eq!(engine.keyspace().counters().evicted_keys, evicted, "behind: {is_behind}");
        assert_eq!(digest(engine.keyspace()), before);
        // Beside itself it has no room for this, but it has where it lies.
        client.check("SETRANGE grown 15000000 x", ":15000001");
    }
}

#[test]
fn memory_that_a_transaction_has_touched_is_given_back_without_emptying_the_store() {
    let engine = filled(24 << 20, 0, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    client.run_all(&["MULTI", "SETRANGE big 5999999 x", "EXEC"]);
    (0..500).for_each(|_| drop(client.run("GET absent")));
    let (used, limit) = (engine.keyspace().used_memory(), engine.keyspace().maxmemory());
    assert!(used <= limit && used > limit - (2 << 20), "{used} of {limit} bytes are used");
    client.check("STRLEN big", ":6000000");
}

#[test]
fn a_lower_limit_leaves_what_it_has_room_for() {
    let engine = filled(24 << 20, 0, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    let limit = engine.keyspace().maxmemory() / 2;
    engine.keyspace().set_maxmemory(limit);
    (0..500).for_each(|_| drop(client.run("GET absent")));
    let used = engine.keyspace().used_memory();
    assert!(used <= limit && used > limit - (2 << 20), "{used} of {limit} bytes are used");
}

#[test]
fn a_key_that_a_command_names_twice_takes_its_room_once() {
    let engine = filled(16 << 20, 7 << 20, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    client.check("SETRANGE k 5999999 x", ":6000000");
    fill(&engine, 0);
    client.check("BITOP OR target k k", ":6000000");
    client.check("STRLEN k", ":6000000");
}

#[test]
fn keys_of_a_command_stay_while_room_is_made_for_it() {
    for policy in EvictionPolicy::ALL.iter().filter(|policy| !policy.is_volatile()) {
        if *policy == EvictionPolicy::NO_EVICTION {
            continue;
        }
        let engine = filled(16 << 20, 9 << 20, *policy);
        let host = TestHost::default();
        let mut client = Client::new(&engine, &host);
        let (mut length, mut list_length) = (1_000_000, 0);
        client.check("SETRANGE a 999999 x", ":1000000");
        let (part, element) = ("y".repeat(90_000), "e".repeat(500));
        let push = format!("RPUSH list{}", format!(" {element}").repeat(100));
        // Each is half of the memory in the end.
        for _ in 0..60 {
            length += part.len();
            client.check(&format!("APPEND a {part}"), &format!(":{length}"));
            length += 10_000;
            client.check(&format!("SETRANGE a {} z", length - 1), &format!(":{length}"));
            // It may have gone for the value.
            if client.run("EXISTS list") == ":0" {
                list_length = 0;
            }
            list_length += 100;
            client.check(&push, &format!(":{list_length}"));
            if client.run("EXISTS a") == ":0" {
                client.check("SETRANGE a 999999 x", ":1000000");
                length = 1_000_000;
            }
        }
        client.check("GETRANGE a 999999 1000001", "$3 xyy");
        let evicted = engine.keyspace().counters().evicted_keys;
        assert!(evicted > 0, "{policy:?}: others had to go");
        assert_within_limit(&engine);
    }
}

#[test]
fn a_value_grows_where_it_lies_beside_others() {
    for policy in [EvictionPolicy::NO_EVICTION, EvictionPolicy::ALLKEYS_LRU] {
        let engine = limited(16 << 20, policy);
        let host = TestHost::default();
        let mut client = Client::new(&engine, &host);
        let value = "v".repeat(200_000);
        client.check("SETRANGE a 8999999 x", ":9000000");
        (0..10).for_each(|number| client.check(&format!("SET beside:{number} {value}"), "+OK"));
        let keys = client.run("DBSIZE");
        // Twice the value would not fit.
        for number in 1..=30 {
            let length = 9_000_000 + 100_000 * number;
            client.check(&format!("SETRANGE a {} y", length - 1), &format!(":{length}"));
        }
        client.check("DBSIZE", &keys);
        client.check("GETRANGE a 8999999 9000000", "$2 x\0");
        client.check("GET beside:9", &format!("$200000 {value}"));
        assert_within_limit(&engine);
    }
}

#[test]
fn small_elements_need_no_more_room_than_they_take() {
    let engine = limited(2 << 20, EvictionPolicy::NO_EVICTION);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    let numbers = |count: usize| (0..count).map(|number| format!(" {number}")).collect::<String>();
    client.check(&format!("RPUSH list{}", numbers(100_000)), ":100000");
    client.check(&format!("LPUSH list{}", numbers(100_000)), ":200000");
    client.check("DEL list", ":1");
    engine.keyspace().drop_retired();
    client.check(&format!("SADD set{}", numbers(20_000)), ":20000");
    client.check("DEL set", ":1");
    engine.keyspace().drop_retired();
    client.check(&format!("HSET hash{}", numbers(40_000)), ":20000");
}

#[test]
fn over_the_limit_only_what_needs_memory_is_refused() {
    let engine = limited(0, EvictionPolicy::NO_EVICTION);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    client.run_all(&["MULTI", "SET key:1 queued"]);
    engine.keyspace().set_maxmemory(1000);
    for refused in ["SET key:2 w", "GET key:2", "MULTI", "WATCH key:2", "UNWATCH"] {
        client.check(refused, OOM);
    }
    let aborted = format!("-EXECABORT Transaction discarded because of: {}", &OOM[1..]);
    client.check("EXEC", &aborted);
    client.check("SET key:2 w", OOM);
    client.check("GET key:2", "$1 v");
    client.check("MULTI", "+OK");
    client.check("EXEC", "*0");
    client.check("MULTI", "+OK");
    client.check("DISCARD", "+OK");
    client.check("MULTI", "+OK");
    client.check("RESET", "+RESET");
    client.check("DEL key:2", ":1");
    client.check("PING", "+PONG");
    engine.keyspace().set_maxmemory(0);
    client.check("SET key:2 w", "+OK");
}

#[test]
fn lower_limit_is_reached_by_evicting() {
    let engine = limited(0, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    engine.keyspace().set_maxmemory(0);
    (0..3000)
        .for_each(|number| drop(client.run(&format!("SET more:{number} {}", "x".repeat(1000)))));
    let limit = engine.keyspace().used_memory() - (2 << 20);
    engine.keyspace().set_maxmemory(limit);
    for _ in 0..50 {
        client.run("PING");
    }
    assert_within_limit(&engine);
    client.check("SET last 1", "+OK");
}

#[test]
fn transaction_passes_the_limit_and_the_next_command_repays() {
    let engine = limited(200_000, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    client.run("MULTI");
    (0..20).for_each(|number| client.check(&format!("SETRANGE grow:{number} 30000 x"), "+QUEUED"));
    let reply = client.run("EXEC");
    assert_eq!(reply, format!("*20{}", " :30001".repeat(20)), "nothing is evicted inside");
    assert!(engine.keyspace().used_memory() > engine.keyspace().maxmemory());
    client.check("PING", "+PONG");
    assert_within_limit(&engine);
}

#[test]
fn copies_inside_exec_pass_the_limit_by_so_much_which_is_repaid() {
    let engine = limited(2 << 20, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    client.run(&format!("SET k {}", "x".repeat(1 << 20)));
    engine.keyspace().set_maxmemory(engine.keyspace().used_memory());
    client.run("MULTI");
    (0..20).for_each(|number| drop(client.run(&format!("COPY k copy:{number}"))));
    let reply = client.run("EXEC");
    let copied = reply.matches(":1").count();
    assert!((13..=14).contains(&copied), "{copied} copies of 1 MiB within 7/8 of 16 MiB");
    assert_eq!(reply.matches(OOM).count(), 20 - copied);
    client.run("SET other v");
    assert_within_limit(&engine);
}

#[test]
fn collections_after_many_small_keys_go_one_by_one() {
    let engine = limited(8 << 20, EvictionPolicy::ALLKEYS_LRU);
    let host = TestHost::default();
    let mut client = Client::new(&engine, &host);
    let (small, large) = ("x".repeat(200), "x".repeat(20_000));
    (0..30_000).for_each(|number| drop(client.run(&format!("SET small:{number} {small}"))));
    // Their entries are small as well, and soon alone in the pages that the small keys have left.
    for number in 0..1_500 {
        let reply = client.run(&format!("HSET large:{number} f {large}"));
        assert_eq!(reply, ":1", "at {number}");
        let (used, limit) = (engine.keyspace().used_memory(), engine.keyspace().maxmemory());
        assert!(used > limit * 3 / 4, "{used} of {limit} bytes are left at {number}");
        assert_within_limit(&engine);
    }
}

#[test]
fn nothing_changes_while_no_write_is_admitted() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&[
        "SET k v",
        "SET gone v PX 10",
        "SET later v PX 10",
        "HSET h f v",
        "PFADD c a",
    ]);
    client.execution.now.0 += 100;
    let sink = recording_of(engine.keyspace());
    let before = digest(engine.keyspace());
    let admission = engine.keyspace().admission();
    admission.refuse(WriteRefusal::Fenced);
    let read_only = "-READONLY You can't write against a read only replica.";
    for write in ["SET k w", "DEL k", "FLUSHALL", "HSET h f w", "MSET a 1 b 2", "RENAME k l"] {
        client.check(write, read_only);
    }
    client.check("GET k", "$1 v");
    // A count is worked out, and not kept.
    client.check("PFCOUNT c", ":1");
    client.check("PFCOUNT c c", ":1");
    // A key whose time is over is absent and stays.
    client.check("GET gone", "$-1");
    client.check("SCAN 0 COUNT 1000", "*2 $1 0 *3 $1 c $1 k $1 h");
    client.check("MULTI", "+OK");
    client.check("GET k", "+QUEUED");
    client.check("SET k w", read_only);
    client.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    for shard in engine.keyspace().shard_indexes() {
        engine.keyspace().expire_step(shard, client.execution.now, 100);
    }
    // What was queued before the refusal is refused as a whole.
    admission.allow(WriteRefusal::Fenced);
    client.run_all(&["MULTI", "SET k w"]);
    admission.refuse(WriteRefusal::LogFull);
    let text = "MISCONF Errors writing to the AOF file: it is too far behind what was written";
    client.check("EXEC", &format!("-EXECABORT Transaction discarded because of: {text}"));
    engine.keyspace().set_eviction_policy(EvictionPolicy::ALLKEYS_RANDOM);
    engine.keyspace().set_maxmemory(1);
    client.check("GET k", "$1 v");
    assert_eq!(digest(engine.keyspace()), before);
    assert_eq!(sink.commands(), Vec::<String>::new());
    admission.allow(WriteRefusal::LogFull);
    engine.keyspace().set_maxmemory(0);
    client.check("SET k w", "+OK");
    client.check("GET gone", "$-1");
    assert_eq!(sink.commands(), ["SET k w", "DEL gone"]);
}

#[test]
fn writes_are_refused_with_the_words_of_the_system_for_what_the_disk_did_not_take() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let admission = engine.keyspace().admission();
    let rows = [
        (io::Error::from_raw_os_error(28), "No space left on device"),
        (io::Error::from_raw_os_error(122), "Disk quota exceeded"),
        (io::Error::from_raw_os_error(24), "Too many open files"),
        // Of an error that is not the system's the kind alone is known.
        (io::ErrorKind::StorageFull.into(), "No space left on device"),
    ];
    for (error, words) in rows {
        admission.refuse_for(WriteRefusal::DiskFull, &error);
        client.check("SET k v", &format!("-MISCONF Errors writing to the AOF file: {words}"));
    }
    for (error, words) in [
        (io::Error::from_raw_os_error(30), "Read-only file system"),
        (io::Error::other("the sync failed"), "Input/output error"),
    ] {
        admission.refuse_for(WriteRefusal::LogFailed, &error);
        client.check("SET k v", &format!("-MISCONF Errors writing to the AOF file: {words}"));
    }
    admission.allow(WriteRefusal::LogFailed);
    admission.allow(WriteRefusal::DiskFull);
    client.check("SET k v", "+OK");
}

#[test]
fn what_is_worked_out_finds_room_before_it_is_made_or_is_refused() {
    let members: Vec<String> = (0..2_000).map(|number| format!("{number} m{number}")).collect();
    let fill = format!("ZADD source {}", members.join(" "));
    for policy in [EvictionPolicy::NO_EVICTION, EvictionPolicy::ALLKEYS_LRU] {
        let engine = limited(600_000, policy);
        let host = TestHost::default();
        let mut client = Client::new(&engine, &host);
        client.check(&fill, ":2000");
        let filler = format!("SET filler {}", "x".repeat(350_000));
        client.check(&filler, "+OK");
        client.run("TOUCH source");
        let is_evicting = policy != EvictionPolicy::NO_EVICTION;
        for request in
            ["ZUNIONSTORE k 1 source", "ZINTERSTORE k 2 source source", "ZRANGESTORE k source 0 -1"]
        {
            let expected = if is_evicting { ":2000" } else { OOM };
            client.check(request, expected);
            client.check("EXISTS k", if is_evicting { ":1" } else { ":0" });
            assert_within_limit(&engine);
        }
        client.check("ZCARD source", ":2000");
        // What is small does not need the room of all.
        client.check("ZRANGESTORE k source 0 9", ":10");
        client.check("ZINTERCARD 2 source source", ":2000");
    }
}
