//! What DEBUG reports and switches, as in redis-server.

use harness::{Connection, Kind, Launch, Server, poll_until};
use resp::Value;

use super::sessions::text;

fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}

/// Runs `check` on Forebay and on redis-server.
fn on_both(check: fn(&mut Connection)) {
    for kind in [Kind::Forebay, Kind::Redis] {
        check(&mut Server::start(kind).tcp());
    }
}

#[test]
fn lengths_of_a_key_and_its_string_are_told() {
    on_both(|client| {
        client.call("SET lake deep");
        let shown = text(&client.call("DEBUG SDSLEN lake"));
        for part in ["key_sds_len:4, key_sds_avail:0, key_zmalloc: ", ", val_sds_len:4, "] {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(shown.contains("val_sds_avail:0, val_zmalloc: "), "{shown}");
        client.call("SET depth 12");
        client.call("RPUSH list a");
        for key in ["depth", "list"] {
            let expected = error("ERR Not an sds encoded string.");
            assert_eq!(client.call(&format!("DEBUG SDSLEN {key}")), expected);
        }
    });
}

#[test]
fn tables_and_listpacks_are_told_by_their_key() {
    on_both(|client| {
        let long = "x".repeat(100);
        client.call("SET lake deep");
        client.call("HSET small f v");
        client.call("SADD set a b");
        client.call(&format!("SADD set {long}"));
        client.call(&format!("HSET hash f {long}"));
        client.call(&format!("ZADD sorted 1 {long}"));
        for (key, count) in [("set", 3), ("hash", 1), ("sorted", 1)] {
            for full in ["", " full"] {
                // Redis 7.0 has no FULL yet.
                let has_full = !matches!(client.call("DEBUG HTSTATS 0 full"), Value::Error(_));
                let full = if has_full { full } else { "" };
                let shown = text(&client.call(&format!("DEBUG HTSTATS-KEY {key}{full}")));
                assert!(shown.starts_with("Hash table 0 stats (main hash table):\n"), "{shown}");
                assert!(shown.contains(&format!(" number of elements: {count}\n")), "{shown}");
            }
            let expected = error("ERR Not a listpack encoded object.");
            assert_eq!(client.call(&format!("DEBUG LISTPACK {key}")), expected);
        }
        let expected = "ERR The value stored at the specified key is not represented using an \
                        hash table";
        for key in ["lake", "small"] {
            assert_eq!(client.call(&format!("DEBUG HTSTATS-KEY {key}")), error(expected));
        }
        let printed = Value::Simple(b"Listpack structure printed on stdout".to_vec());
        assert_eq!(client.call("DEBUG LISTPACK small"), printed);
        for name in ["SDSLEN", "LISTPACK", "HTSTATS-KEY"] {
            let missing = client.call(&format!("DEBUG {name} nope"));
            assert_eq!(missing, error("ERR no such key"), "{name}");
            let expected = format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP."
            );
            assert_eq!(client.call(&format!("DEBUG {name}")), error(&expected));
        }
    });
}

#[test]
fn listpack_is_printed_on_standard_output() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let server = Server::start(kind);
        let mut client = server.tcp();
        client.call("HSET lake river deep");
        client.call("DEBUG LISTPACK lake");
        let shows = || server.log().contains("[str]deep\n");
        if kind == Kind::Redis {
            // It buffers what it prints until it ends.
            client.call("DEBUG LISTPACK lake");
            continue;
        }
        poll_until("what is printed", shows);
        assert!(server.log().contains("{num entries 2}\n"), "{}", server.log());
    }
}

#[test]
fn clients_that_may_be_evicted_are_told_by_their_size() {
    on_both(|client| {
        let disabled = error("ERR maxmemory-clients is disabled.");
        assert_eq!(client.call("DEBUG CLIENT-EVICTION"), disabled);
        client.call("CONFIG SET maxmemory-clients 100mb");
        let shown = text(&client.call("DEBUG CLIENT-EVICTION"));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 19, "{shown}");
        let titles = lines.iter().map(|line| line.split(" tot-mem: ").next().unwrap_or_default());
        let titles: Vec<&str> = titles.collect();
        assert_eq!(titles[0], "bucket          0 -      32767:");
        assert_eq!(titles[17], "bucket 2147483648 - 4294967295:");
        assert_eq!(titles[18], "bucket 4294967296+            :");
        assert!(lines.iter().all(|line| line.contains(", clients: ")), "{shown}");
    });
}

#[test]
fn what_has_no_meaning_here_is_refused_with_its_reason() {
    let server = Server::start(Kind::Forebay);
    let mut client = server.tcp();
    for (request, reason) in [
        ("STRUCTSIZE", "there are no such structures"),
        ("DROP-CLUSTER-PACKET-FILTER 1", "there is no cluster"),
        ("CHANGE-REPL-ID", "there is no replication"),
        ("LOADAOF", "a log is read when the server starts, and then alone"),
        ("RESTART", "the server does not start itself again"),
    ] {
        let name = request.split(' ').next().unwrap_or_default();
        let expected = format!("ERR DEBUG {name} is not supported: {reason}");
        assert_eq!(client.call(&format!("DEBUG {request}")), error(&expected));
    }
}

#[test]
fn an_object_tells_its_last_use_where_the_policy_keeps_it() {
    let server = Server::start(Kind::Forebay);
    let mut client = server.tcp();
    for (policy, is_told) in [("allkeys-lru", true), ("allkeys-lfu", true), ("adaptive", false)] {
        client.call(&format!("CONFIG SET maxmemory-policy {policy}"));
        client.call("SET lake deep");
        let shown = text(&client.call("DEBUG OBJECT lake"));
        assert!(shown.contains(" serializedlength:5"), "{shown}");
        let (used, idle) = (shown.contains(" lru:"), shown.contains(" lru_seconds_idle:"));
        assert_eq!((used, idle), (is_told, is_told), "{policy}: {shown}");
    }
}

/// A signal that comes while the server does nothing by itself waits, and can be taken back.
#[test]
fn shutdown_by_a_signal_can_be_aborted_while_the_cron_pauses() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let mut server = Launch::new(kind).start();
        let mut client = server.tcp();
        let none = error("ERR No shutdown in progress.");
        for signal in ["TERM", "INT"] {
            client.call("DEBUG PAUSE-CRON 1");
            assert_eq!(client.call("SHUTDOWN ABORT"), none, "{kind:?}");
            server.signal(signal);
            poll_until("the signal", || server.log().contains(&format!("Received SIG{signal}")));
            // Both log the signal before they remember it.
            poll_until("the shutdown to be taken back", || {
                client.call("SHUTDOWN ABORT") == Value::Simple(b"OK".to_vec())
            });
            poll_until("the log", || server.log().contains("Shutdown manually aborted"));
            assert_eq!(client.call("SHUTDOWN ABORT"), none);
            client.call("DEBUG PAUSE-CRON 0");
            assert_eq!(client.call("PING"), Value::Simple(b"PONG".to_vec()));
        }
        client.call("DEBUG PAUSE-CRON 1");
        server.signal("TERM");
        poll_until("the signal", || server.log().matches("Received SIGTERM").count() == 2);
        assert_eq!(server.status(), None);
        client.call("DEBUG PAUSE-CRON 0");
        assert!(server.wait().success(), "{}", server.log());
    }
}
