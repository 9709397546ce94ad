//! MULTI, EXEC, WATCH.

use super::*;

struct Pair<'e> {
    one: Client<'e>,
    other: Client<'e>,
}

fn with_pair(test: impl FnOnce(&Engine, &Recording, Pair<'_>)) {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let pair = Pair { one: Client::new(&engine, &host), other: Client::new(&engine, &host) };
    test(&engine, &sink, pair);
}

#[test]
fn queue_runs_at_once_as_one_record() {
    with_pair(|_, sink, mut pair| {
        let requests = ["MULTI", "SET a 1", "INCR a", "SELECT 3", "SET b x", "GET b", "EXEC"];
        let reply = pair.one.run_all(&requests);
        let queued = "+QUEUED ".repeat(5);
        assert_eq!(reply, format!("+OK {queued}*5 +OK :2 +OK +OK $1 x"));
        assert_eq!(sink.commands(), ["SET a 1 SET a 2 KEEPTTL SELECT 3 SET b x"]);
        pair.one.check("GET b", "$1 x");
        pair.other.check("GET a", "$1 2");
    });
}

#[test]
fn exec_of_nothing_is_empty() {
    with_pair(|_, sink, mut pair| {
        assert_eq!(pair.one.run_all(&["MULTI", "EXEC"]), "+OK *0");
        assert_eq!(pair.one.run_all(&["MULTI", "PING", "EXEC"]), "+OK +QUEUED *1 +PONG");
        pair.one.check("EXEC", "-ERR EXEC without MULTI");
        pair.one.check("DISCARD", "-ERR DISCARD without MULTI");
        assert!(sink.commands().is_empty());
    });
}

#[test]
fn request_that_counts_its_keys_wrong_is_refused_when_it_runs() {
    with_pair(|_, sink, mut pair| {
        let (no_count, no_pairs) =
            ("-ERR invalid numkeys value", "-ERR wrong number of key-value pairs");
        pair.one.check("MSETEX x a 1", no_count);
        pair.one.check("MSETEX 2 a 1", no_pairs);
        let reply = pair.one.run_all(&["MULTI", "MSETEX 0 a 1", "EXEC"]);
        assert_eq!(reply, format!("+OK +QUEUED *1 {no_count}"));
        let reply = pair.one.run_all(&["MULTI", "MSETEX 3 a 1", "MSETEX 2 a 1 b 2", "EXEC"]);
        assert_eq!(reply, format!("+OK +QUEUED +QUEUED *2 {no_pairs} :1"));
        assert_eq!(sink.commands(), ["SET a 1 SET b 2"]);
        pair.one.check("MSETEX 2 a 1 b 2 PX 10", ":1");
        assert_eq!(sink.commands().len(), 2, "it is one record");
    });
}

#[test]
fn string_that_only_grows_has_changed() {
    with_pair(|_, sink, mut pair| {
        for before in ["DEL k", "SET k a"] {
            pair.one.run_all(&[before, "WATCH k", "MULTI", "PING"]);
            pair.other.check("BITFIELD k OVERFLOW FAIL INCRBY u2 8 5", "*1 $-1");
            assert_eq!(sink.commands().pop().as_deref(), Some("SETRANGE k 1 \0"));
            pair.one.check("EXEC", "*-1");
            pair.one.check("STRLEN k", ":2");
        }
    });
}

#[test]
fn error_while_queueing_discards_the_whole() {
    with_pair(|_, _, mut pair| {
        let exec = "-EXECABORT Transaction discarded because of previous errors.";
        for wrong in ["NOPE", "GET", "CLIENT NOPE", "SHUTDOWN"] {
            let requests = ["MULTI", "SET a 1", wrong, "SET b 1", "EXEC", "EXISTS a b"];
            let reply = pair.one.run_all(&requests);
            assert!(reply.contains(exec) && reply.ends_with(":0"), "{wrong}: {reply}");
        }
        pair.one.check("MULTI", "+OK");
        pair.one.check("MULTI", "-ERR MULTI calls can not be nested");
        pair.one.check("WATCH a", "-ERR WATCH inside MULTI is not allowed");
        pair.one.check("SET a 1", "+QUEUED");
        pair.one.check("EXEC", "*1 +OK");
    });
}

#[test]
fn wrong_exec_discards_and_says_why() {
    with_pair(|_, _, mut pair| {
        let why = "wrong number of arguments for 'exec' command";
        let reply = pair.one.run_all(&["MULTI", "SET a 1", "EXEC now", "EXEC"]);
        assert_eq!(
            reply,
            format!(
                "+OK +QUEUED -EXECABORT Transaction discarded because of: {why} \
                 -ERR EXEC without MULTI"
            )
        );
    });
}

#[test]
fn error_of_one_command_leaves_the_others() {
    with_pair(|_, sink, mut pair| {
        let reply = pair.one.run_all(&["MULTI", "SET a x", "INCR a", "SET b y", "EXEC"]);
        let error = "-ERR value is not an integer or out of range";
        assert_eq!(reply, format!("+OK +QUEUED +QUEUED +QUEUED *3 +OK {error} +OK"));
        assert_eq!(sink.commands(), ["SET a x SET b y"]);
    });
}

#[test]
fn whole_keyspace_commands_run_inside_exec() {
    with_pair(|engine, sink, mut pair| {
        pair.other.run("SET old 1");
        let requests = [
            "MULTI",
            "FLUSHALL",
            "SET a 1",
            "SWAPDB 0 1",
            "DBSIZE",
            "KEYS *",
            "SCAN 0",
            "RANDOMKEY",
            "SELECT 1",
            "DBSIZE",
            "KEYS *",
            "FLUSHDB",
            "EXEC",
        ];
        let reply = pair.one.run_all(&requests);
        let results = reply.split("*11 ").last().unwrap();
        assert_eq!(results, "+OK +OK +OK :0 *0 *2 $1 0 *0 $-1 +OK :1 *1 $1 a +OK");
        assert_eq!(sink.commands(), ["SET old 1", "FLUSHALL SET a 1 SWAPDB 0 1 SELECT 1 FLUSHDB"]);
        assert_eq!(digest(&replayed(sink)), digest(engine.keyspace()));
    });
}

#[test]
fn changed_watch_refuses_the_queue_once() {
    with_pair(|_, _, mut pair| {
        let requests = ["MULTI", "SET a 1", "EXEC"];
        pair.one.check("WATCH a b", "+OK");
        pair.other.run("SET b 1");
        assert_eq!(pair.one.run_all(&requests), "+OK +QUEUED *-1");
        assert_eq!(pair.one.run_all(&requests), "+OK +QUEUED *1 +OK");
        pair.one.check("WATCH a", "+OK");
        pair.one.run("SET a 2");
        assert_eq!(pair.one.run_all(&requests), "+OK +QUEUED *-1", "its own change counts");
        pair.one.check("WATCH a", "+OK");
        pair.other.run("GET a");
        assert_eq!(pair.one.run_all(&requests), "+OK +QUEUED *1 +OK");
    });
}

#[test]
fn every_way_out_ends_the_watches() {
    with_pair(|engine, _, mut pair| {
        pair.other.run("INCR a");
        let before = engine.keyspace().private_bytes();
        for way_out in [
            &["UNWATCH"][..],
            &["MULTI", "DISCARD"],
            &["MULTI", "NOPE", "EXEC"],
            &["RESET"],
            &["MULTI", "EXEC now"],
        ] {
            pair.one.check("WATCH a", "+OK");
            pair.one.run_all(way_out);
            assert_eq!(pair.one.session.watched_keys(), 0, "{way_out:?}");
            pair.other.run("INCR a");
            let reply = pair.one.run_all(&["MULTI", "PING", "EXEC"]);
            assert_eq!(reply, "+OK +QUEUED *1 +PONG", "{way_out:?}");
        }
        pair.one.check("WATCH a b c", "+OK");
        drop(pair);
        assert_eq!(engine.keyspace().private_bytes(), before);
    });
}

#[test]
fn watched_key_that_expires_before_exec_refuses_the_queue() {
    with_pair(|_, _, mut pair| {
        pair.other.run("SET a 1 PX 100");
        pair.one.check("WATCH a", "+OK");
        pair.one.execution.now = UnixMs(NOW.0 + 101);
        assert_eq!(pair.one.run_all(&["MULTI", "PING", "EXEC"]), "+OK +QUEUED *-1");
        pair.one.check("WATCH a", "+OK");
        assert_eq!(
            pair.one.run_all(&["MULTI", "PING", "EXEC"]),
            "+OK +QUEUED *1 +PONG",
            "it had expired before"
        );
    });
}

#[test]
fn watch_knows_its_database() {
    with_pair(|_, _, mut pair| {
        pair.one.run_all(&["SELECT 2", "WATCH a", "SELECT 0"]);
        pair.other.run("SET a 1");
        assert_eq!(pair.one.run_all(&["MULTI", "PING", "EXEC"]), "+OK +QUEUED *1 +PONG");
        pair.one.run_all(&["SELECT 2", "WATCH a", "SELECT 0"]);
        pair.other.run_all(&["SELECT 2", "SET a 1"]);
        assert_eq!(pair.one.run_all(&["MULTI", "PING", "EXEC"]), "+OK +QUEUED *-1");
    });
}

#[test]
fn several_keys_are_one_record_without_multi() {
    with_pair(|_, sink, mut pair| {
        pair.one.run_all(&["MSET a 1 b 2 c 3", "DEL a b none", "MSETNX c 1 d 1", "MSETNX d 1 e 1"]);
        assert_eq!(sink.commands(), ["SET a 1 SET b 2 SET c 3", "DEL a DEL b", "SET d 1 SET e 1"]);
    });
}

/// What may wait for the system runs before or behind the commands on data, and no shard is held
/// then; its reply is in its place all the same.
#[test]
fn what_may_wait_holds_no_shard_within_exec() {
    let engine = Arc::new(Engine::new(keyspace(8)));
    let host = TestHost { allows_debug: true, ..TestHost::default() };
    assert!(host.free.set(engine.clone()).is_ok());
    let sink = recording_of(engine.keyspace());
    let mut client = Client::new(&engine, &host);
    let large = "v".repeat(20_000);
    let queue = [
        "CONFIG REWRITE",
        "DEBUG CONFIG-REWRITE-FORCE-ALL",
        "SET a 1",
        "CONFIG SET maxmemory 0",
        "INFO",
        &format!("SET large {large}"),
        "GET large",
        "MEMORY PURGE",
        "SELECT 3",
        "INCR a",
        "HELLO 3",
        "INFO",
        "DBSIZE",
        "GET a",
        "CONFIG SET a b c",
    ];
    let requests = [&["MULTI"], &queue[..], &["EXEC"]].concat();
    let expected = [
        "-ERR The server is running without a config file",
        "-ERR CONFIG-REWRITE-FORCE-ALL failed: there is no configuration file",
        "+OK",
        "+OK",
        "$7 figures",
        "+OK",
        &format!("$20000 {large}"),
        "+OK",
        "+OK",
        ":1",
    ];
    let reply = client.run_all(&requests);
    let queued = "+QUEUED ".repeat(queue.len());
    let start = format!("+OK {queued}*{} {} %7", queue.len(), expected.join(" "));
    assert!(reply.starts_with(&start), "{reply}");
    let end = "=11 txt:figures :1 $1 1 -ERR syntax error";
    assert!(reply.ends_with(end), "{reply}");
    assert_eq!(host.waits.load(Ordering::Relaxed), 6);
    let effects = format!("SET a 1 SET large {large} SELECT 3 SET a 1 KEEPTTL");
    assert_eq!(sink.commands(), [effects], "one record");
    client.check("GET a", "$1 1");
    let requests = ["MULTI", "INFO", "SET a 2", "INFO", "EXEC", "CLIENT REPLY SKIP", "PING"];
    let reply = client.run_all(&requests);
    assert!(reply.ends_with("*3 =11 txt:figures +OK =11 txt:figures"), "{reply}");
    let requests = ["WATCH a", "MULTI", "INFO", "SET a 2", "INFO", "INFO", "EXEC"];
    let reply = client.run_all(&requests);
    let info = "=11 txt:figures";
    assert!(reply.ends_with(&format!("*4 {info} +OK {info} {info}")), "{reply}");
    let before = host.waits.load(Ordering::Relaxed);
    client.run_all(&["WATCH a", "SET a 4"]);
    client.check("GET a", "$1 4");
    assert!(client.run_all(&["MULTI", "INFO", "SET a 5", "EXEC"]).ends_with("_"));
    assert_eq!(host.waits.load(Ordering::Relaxed), before, "nothing runs where a key has changed");
    let requests = ["MULTI", "INFO", "CLIENT REPLY OFF", "SET a 3", "INFO", "EXEC", "GET a"];
    let reply = client.run_all(&requests);
    assert!(reply.ends_with("*4 =11 txt:figures"), "{reply}");
}
