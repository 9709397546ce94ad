//! The checks before a command, their texts and their order.

use super::*;
use crate::SessionStatus;

#[test]
fn unknown_names_and_wrong_counts_are_refused_in_redis_words() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.check("FOO a b", "-ERR unknown command 'FOO', with args beginning with: 'a' 'b'");
    client.check("GET", "-ERR wrong number of arguments for 'get' command");
    client.check("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP.");
    client.check("PING", "+PONG");
}

#[test]
fn password_comes_after_existence_and_before_anything_else() {
    let (engine, host) =
        (Engine::new(keyspace(8)), TestHost { password: Some(b"secret"), ..TestHost::default() });
    let mut client = Client::new(&engine, &host);
    client.check("FOO", "-ERR unknown command 'FOO', with args beginning with:");
    client.check("GET", "-ERR wrong number of arguments for 'get' command");
    client.check("GET k", "-NOAUTH Authentication required.");
    client.check("MULTI", "-NOAUTH Authentication required.");
    client.check("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.");
    client.check("AUTH secret", "+OK");
    client.check("GET k", "$-1");
}

#[test]
fn debug_needs_leave() {
    let engine = Engine::new(keyspace(8));
    let hosts = [false, true].map(|allows_debug| TestHost { allows_debug, ..TestHost::default() });
    let refused = Client::new(&engine, &hosts[0]).run("DEBUG SLEEP 0");
    assert!(refused.starts_with("-ERR DEBUG command not allowed. If the"), "{refused}");
    Client::new(&engine, &hosts[1]).check("DEBUG SLEEP 0", "+OK");
}

#[test]
fn http_is_hung_up_on_without_a_word() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    for request in ["POST / HTTP/1.1", "host: example.com"] {
        let mut client = Client::new(&engine, &host);
        let (reply, outcome) = client.batch(&[request, "SET k v"]);
        assert_eq!((reply.as_str(), outcome.status), ("", SessionStatus::CloseNow));
        assert_eq!(outcome.executed, 1);
    }
    assert_eq!(Client::new(&engine, &host).run("EXISTS k"), ":0");
}

#[test]
fn nothing_runs_after_quit() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let (reply, outcome) = client.batch(&["SET k v", "QUIT", "SET k w"]);
    assert_eq!(reply, "+OK +OK");
    assert_eq!((outcome.status, outcome.executed), (SessionStatus::CloseAfterReplies, 2));
    client.check("GET k", "$1 v");
}

#[test]
fn batch_pauses_where_too_much_output_waits_and_goes_on() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run(&format!("SET k {}", "x".repeat(1000)));
    client.execution.output_bytes_max = 2500;
    let mut bytes = Vec::new();
    (0..40).for_each(|_| encode_command(&[b"GET", b"k"], &mut bytes));
    let (mut from, mut calls, mut total) = (0, 0, 0);
    while from < 40 {
        let (out, outcome) = client.run_bytes(&mut bytes, from);
        assert!(out.len() < 2500 + 1100, "one reply above at most");
        (from, calls, total) = (outcome.executed, calls + 1, total + out.len());
    }
    assert_eq!((calls, total), (14, 40 * 1009));
}

#[test]
fn outcome_counts_what_ran_and_names_the_record_to_wait_for() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let mut client = Client::new(&engine, &host);
    let (_, outcome) = client.batch(&["GET k", "NOPE", "SET k v", "SET l w", "GET k"]);
    assert_eq!((outcome.commands, outcome.executed, outcome.release.lsn), (4, 5, sink.end()));
    assert_eq!(sink.commands(), ["SET k v", "SET l w"]);
    let (_, outcome) = client.batch(&["GET k"]);
    assert_eq!(outcome.release.lsn, Lsn(0));
    let (_, outcome) = client.batch(&["MULTI", "INCR n", "INCR n", "EXEC"]);
    assert_eq!((outcome.commands, outcome.release.lsn), (4, sink.end()));
    assert_eq!(sink.commands().len(), 3);
}

#[test]
fn replies_of_a_long_batch_come_in_order() {
    let (engine, host) = (Engine::new(keyspace(64)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let requests: Vec<String> =
        (0..100).flat_map(|n| [format!("SET k{n} {n}"), format!("GET k{n}")]).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let expected: Vec<String> =
        (0..100).map(|n| format!("+OK ${} {n}", n.to_string().len())).collect();
    assert_eq!(client.run_all(&requests), expected.join(" "));
}

#[test]
fn databases_and_protocols_belong_to_the_session() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let [mut one, mut other] = [Client::new(&engine, &host), Client::new(&engine, &host)];
    let reply = one.run_all(&["SET k v", "SELECT 5", "GET k", "SET k w", "GET k"]);
    assert_eq!(reply, "+OK +OK $-1 +OK $1 w");
    other.check("GET k", "$1 v");
    one.check("SELECT 16", "-ERR DB index is out of range");
    one.check("GET none", "$-1");
    assert!(one.run("HELLO 3").starts_with("%7"));
    one.check("GET none", "_");
    other.check("GET none", "$-1");
    one.check("RESET", "+RESET");
    one.check("GET none", "$-1");
    one.check("GET k", "$1 v");
}
