//! Expired keys that commands find: they are deleted after the command, as in Redis.

use command::Pause;

use super::*;

/// A client, to whom `k` has just expired beside `other`, and what the engine has emitted.
fn with_expired(test: impl Fn(&mut Client<'_>, &TestHost, &Recording)) {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let sink = recording_of(engine.keyspace());
    client.run_all(&["SET k v PX 10", "SET other v"]);
    client.execution.now.0 += 11;
    test(&mut client, &host, &sink);
    assert_eq!(digest(&replayed(&sink)), digest(engine.keyspace()));
}

/// Returns the effects of what came behind the expiry.
fn effects(sink: &Recording) -> Vec<String> {
    sink.commands().split_off(2)
}

/// Checks that `request` removes `count` expired keys, with their effects.
fn check(request: &str, count: u64) {
    with_expired(|client, _, sink| {
        let reply = client.run(request);
        let expired = client.engine.keyspace().counters().expired_keys;
        let found = (client.run("DBSIZE"), expired, effects(sink));
        let deletions = vec!["DEL k".to_owned(); count as usize];
        assert_eq!(found, (format!(":{}", 2 - count), count, deletions), "{request}: {reply}");
        assert_eq!(client.engine.keyspace().changes_since_start(), 2, "{request}: as in Redis");
    });
}

#[test]
fn expired_key_is_gone_behind_the_command_that_met_it() {
    for request in [
        "GET k",
        "MGET other k k",
        "STRLEN k",
        "GETRANGE k 0 -1",
        "EXISTS k",
        "EXISTS other k",
        "TTL k",
        "PEXPIRETIME k",
        "TYPE k",
        "TOUCH k",
        "OBJECT ENCODING k",
        "LLEN k",
        "HGET k f",
        "LPUSHX k v",
        "SETRANGE k 0 ",
        "LCS k other",
        "COPY k new",
        "SMOVE k other m",
        "ZUNION 2 none k",
        "ZINTERCARD 1 k",
        "ZDIFFSTORE none 1 k",
        "ZRANGESTORE none k 0 -1",
        "ZMPOP 2 none k MIN",
        "SCAN 0 COUNT 1000",
        "SCAN 0 TYPE list COUNT 1000",
        "SCAN 0 MATCH k* COUNT 1000",
    ] {
        check(request, 1);
    }
}

#[test]
fn random_key_removes_what_it_meets_on_its_way() {
    with_expired(|client, _, sink| {
        for _ in 0..100 {
            client.check("RANDOMKEY", "$5 other");
        }
        client.check("DBSIZE", ":1");
        assert_eq!(effects(sink), ["DEL k"]);
        client.run_all(&["DEL other", "SET k v PX 10", "SET l v PX 10"]);
        client.execution.now.0 += 11;
        client.check("RANDOMKEY", "$-1");
        client.check("DBSIZE", ":0");
    });
}

#[test]
fn random_key_gives_up_after_a_hundred_expired_keys_within_exec() {
    with_expired(|client, _, _| {
        client.run("DEL other");
        for number in 0..299 {
            client.run(&format!("SET {number} v PX 10"));
        }
        client.execution.now.0 += 11;
        assert_eq!(client.run_all(&["MULTI", "RANDOMKEY", "EXEC"]), "+OK +QUEUED *1 $-1");
        client.check("DBSIZE", ":200");
        client.check("RANDOMKEY", "$-1");
        client.check("DBSIZE", ":0");
    });
}

#[test]
fn of_two_expired_keys_go_those_at_which_redis_looks() {
    for (request, gone) in [
        ("COPY k l", &["DEL k"][..]),
        ("COPY k l REPLACE", &["DEL k"]),
        ("COPY absent k", &[]),
        ("RENAME k l", &["DEL k"]),
        ("RENAMENX k l", &["DEL k"]),
        ("RENAME absent k", &[]),
        ("SMOVE k l m", &["DEL k DEL l"]),
        ("SMOVE absent k m", &["DEL k"]),
    ] {
        with_expired(|client, _, sink| {
            client.run("SET l v PX 1");
            client.execution.now.0 += 2;
            client.run(request);
            let expired = client.engine.keyspace().counters().expired_keys;
            assert_eq!(effects(sink)[1..], *gone, "{request}");
            let deletions: usize = gone.iter().map(|text| text.matches("DEL").count()).sum();
            assert_eq!(expired, deletions as u64, "{request}");
        });
    }
}

#[test]
fn what_looks_past_keys_leaves_an_expired_one() {
    for request in ["KEYS *", "DBSIZE", "SCAN 0 MATCH o* COUNT 1000", "WATCH k", "GET other"] {
        check(request, 0);
    }
}

#[test]
fn expired_key_is_gone_within_exec_too() {
    with_expired(|client, _, sink| {
        let reply = client.run_all(&["MULTI", "GET k", "DBSIZE", "SET a 1", "EXEC"]);
        assert_eq!(reply, format!("+OK {}*3 $-1 :1 +OK", "+QUEUED ".repeat(3)));
        assert_eq!(effects(sink), ["DEL k SET a 1"]);
    });
    with_expired(|client, _, sink| {
        client.run_all(&["MULTI", "SCAN 0 COUNT 1000", "EXEC"]);
        assert_eq!(effects(sink), ["DEL k"]);
    });
}

#[test]
fn expired_key_is_absent_and_stays_while_clients_are_paused() {
    with_expired(|client, host, sink| {
        host.pause.set(Some(Pause::Writes));
        for (request, reply) in [
            ("GET k", "$-1"),
            ("EXISTS k other", ":1"),
            ("TTL k", ":-2"),
            ("TYPE k", "+none"),
            ("SCAN 0 COUNT 1000", "*2 $1 0 *1 $5 other"),
            ("RANDOMKEY", "$5 other"),
            ("DBSIZE", ":2"),
        ] {
            client.check(request, reply);
        }
        assert!(effects(sink).is_empty());
        host.pause.set(None);
        client.check("GET k", "$-1");
        client.check("DBSIZE", ":1");
        assert_eq!(effects(sink), ["DEL k"]);
    });
}

#[test]
fn lookups_of_an_expired_key_are_misses() {
    for (request, hits, misses) in [
        ("GET k", 0, 1),
        ("MGET k k other", 1, 2),
        ("TTL k", 0, 1),
        ("EXISTS k", 0, 1),
        ("SCAN 0 COUNT 1000", 0, 0),
        ("SCAN 0 TYPE string COUNT 1000", 1, 1),
        ("SCAN 0 TYPE list MATCH o* COUNT 1000", 1, 0),
        ("KEYS *", 0, 0),
        ("RANDOMKEY", 0, 0),
    ] {
        with_expired(|client, _, _| {
            client.run(request);
            let counters = client.engine.keyspace().counters();
            let found = (counters.keyspace_hits, counters.keyspace_misses);
            assert_eq!(found, (hits, misses), "{request}");
        });
    }
}
