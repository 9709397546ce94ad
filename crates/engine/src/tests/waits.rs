//! Sessions that wait, replies that are switched off, and monitors.

use command::{Pause, Wake};

use super::*;

/// Runs requests as one batch up to where it stops; returns the replies, the number of requests
/// that ran, and how the session stands.
fn stop(client: &mut Client<'_>, requests: &[&str]) -> (String, usize, SessionStatus) {
    let (reply, outcome) = client.batch(requests);
    (reply, outcome.executed, outcome.status)
}

fn wake(client: &mut Client<'_>, wake: Wake) -> String {
    let mut out = Output::default();
    assert!(
        client.engine.wake(&mut client.session, wake, &mut out, &mut client.execution).is_some()
    );
    String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end().to_owned()
}

#[test]
fn a_blocked_session_runs_nothing_until_it_is_woken() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let pipeline = ["SET k v", "WAIT 1 50", "GET k"];
    assert_eq!(stop(&mut client, &pipeline), ("+OK".into(), 2, SessionStatus::Blocked));
    let blocked = client.session.state.blocked.expect("it waits");
    assert_eq!(blocked.timeout, Some(Duration::from_millis(50)));
    assert_eq!(wake(&mut client, Wake::TimedOut), ":0");
    assert!(client.session.state.blocked.is_none());
    client.check("GET k", "$1 v");
}

#[test]
fn a_session_that_is_refused_its_wait_gets_an_error_that_is_counted() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    assert_eq!(stop(&mut client, &["WAITAOF 0 1 0"]), (String::new(), 1, SessionStatus::Blocked));
    assert!(client.session.state.blocked.is_some_and(|blocked| blocked.timeout.is_none()));
    let refusal = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";
    assert_eq!(wake(&mut client, Wake::Refused), refusal);
    assert_eq!(host.command_stats.errors(), [("UNBLOCKED".to_owned(), 1)]);
}

#[test]
fn nothing_blocks_inside_a_transaction() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let reply = client.run_all(&["MULTI", "WAIT 1 0", "WAITAOF 0 1 0", "EXEC"]);
    assert_eq!(reply, "+OK +QUEUED +QUEUED *2 :0 *2 :0 :0");
}

#[test]
fn a_pause_of_writes_stops_what_may_write_and_nothing_before_it() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&["MULTI", "SET k v"]);
    host.pause.set(Some(Pause::Writes));
    assert_eq!(stop(&mut client, &["EXEC", "PING"]), (String::new(), 0, SessionStatus::Paused));
    let mut other = Client::new(&engine, &host);
    let pipeline = ["GET k", "MULTI", "GET k", "EXEC", "SET k", "FLUSHALL", "GET k"];
    let refusal = "-ERR wrong number of arguments for 'set' command";
    let replies = format!("$-1 +OK +QUEUED *1 $-1 {refusal}");
    assert_eq!(stop(&mut other, &pipeline), (replies, 5, SessionStatus::Paused));
    host.pause.set(None);
    client.check("EXEC", "*1 +OK");
    other.check("GET k", "$1 v");
}

#[test]
fn a_pause_of_all_stops_everything_but_refusals() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    host.pause.set(Some(Pause::All));
    let mut client = Client::new(&engine, &host);
    for request in ["PING", "CLIENT UNPAUSE", "GET k", "MULTI"] {
        assert_eq!(
            stop(&mut client, &[request]),
            (String::new(), 0, SessionStatus::Paused),
            "{request}"
        );
    }
    client.check("GET", "-ERR wrong number of arguments for 'get' command");
}

#[test]
fn unwanted_replies_are_not_there() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    for (requests, expected) in [
        (&["CLIENT REPLY SKIP", "PING", "PING"][..], "+PONG"),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING", "ECHO b"], "$1 b"),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY ON", "ECHO a"], "+OK $1 a"),
        (&["CLIENT REPLY SKIP", "NOPE", "ECHO a"], "$1 a"),
        (&["CLIENT REPLY SKIP", "MULTI", "PING", "EXEC"], "+QUEUED *1 +PONG"),
        (&["CLIENT REPLY OFF", "PING", "CLIENT REPLY SKIP", "GET", "CLIENT REPLY ON"], "+OK"),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY OFF", "PING", "CLIENT REPLY ON"], "+OK"),
        (&["CLIENT REPLY OFF", "PING", "RESET"], "+RESET"),
        (&["CLIENT REPLY SKIP", "RESET", "ECHO a"], "$1 a"),
        // Within EXEC as well as outside, it counts what is chosen when a command has run; the
        // next request behind it is the one behind EXEC.
        (&["MULTI", "CLIENT REPLY SKIP", "EXEC", "PING", "ECHO a"], "+OK +QUEUED *1 $1 a"),
        (
            &["MULTI", "ECHO a", "CLIENT REPLY OFF", "PING", "EXEC", "PING", "CLIENT REPLY ON"],
            "+OK +QUEUED +QUEUED +QUEUED *3 $1 a +OK",
        ),
        (&["CLIENT REPLY OFF", "MULTI", "PING", "CLIENT REPLY ON", "ECHO a", "EXEC"], "+OK $1 a"),
        (&["CLIENT REPLY OFF", "MULTI", "PING", "EXEC", "CLIENT REPLY ON"], "+OK"),
    ] {
        assert_eq!(client.run_all(requests), expected, "{requests:?}");
    }
    client.run_all(&["CLIENT REPLY SKIP", "WAIT 1 0"]);
    assert_eq!(wake(&mut client, Wake::TimedOut), "");
    client.check("PING", "+PONG");
}

#[test]
fn monitors_are_shown_what_runs_and_only_look() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let (mut monitor, mut client) = (Client::new(&engine, &host), Client::new(&engine, &host));
    client.run("SET k unseen");
    // The rest of its own batch is shown, too.
    assert_eq!(monitor.run_all(&["MONITOR", "PING", "MONITOR"]), "+OK +PONG");
    client.run_all(&["SELECT 1", "SET k v", "GET", "CONFIG GET x", "MULTI", "GET k", "EXEC"]);
    let expected = ["0 PING", "1 SELECT 1", "1 SET k v", "1 MULTI", "1 GET k", "1 EXEC"];
    assert_eq!(*host.shown.lock().unwrap(), expected);
    let refusal = "-ERR Replica can't interact with the keyspace";
    for request in ["GET k", "SET k w", "FLUSHALL"] {
        monitor.check(request, refusal);
    }
    host.pause.set(Some(Pause::All));
    monitor.check("ECHO a", "$1 a");
    host.pause.set(None);
    monitor.check("RESET", "+RESET");
    client.run("PING");
    assert_eq!(host.watcher_count.load(Ordering::Relaxed), 0);
    assert_eq!(*host.shown.lock().unwrap().last().unwrap(), "0 ECHO a");
}

#[test]
fn nobody_begins_to_look_on_inside_a_transaction() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let reply = client.run_all(&["MULTI", "MONITOR", "EXEC"]);
    assert!(reply.ends_with("*1 -ERR MONITOR isn't allowed for DENY BLOCKING client"), "{reply}");
    assert_eq!(host.watcher_count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_session_that_leaves_no_touch_ages_what_it_reads() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&["SET k v", "CLIENT NO-TOUCH ON"]);
    client.execution.now = UnixMs(NOW.0 + 600_000);
    client.run("GET k");
    client.check("OBJECT IDLETIME k", ":600");
    client.run("TOUCH k");
    client.check("OBJECT IDLETIME k", ":0");
    client.execution.now = UnixMs(NOW.0 + 1_200_000);
    client.run_all(&["CLIENT NO-TOUCH OFF", "GET k"]);
    client.check("OBJECT IDLETIME k", ":0");
}

#[test]
fn a_session_that_leaves_no_touch_ages_what_it_changes_where_it_is() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run_all(&["SET k v", "RPUSH list a", "CLIENT NO-TOUCH ON"]);
    client.execution.now = UnixMs(NOW.0 + 600_000);
    for change in ["GETEX k EX 900", "PERSIST k", "APPEND k x", "SETRANGE k 0 y", "EXPIRE k 900"] {
        client.run(change);
        client.check("OBJECT IDLETIME k", ":600");
    }
    client.run_all(&["RPUSH list b", "MULTI", "RENAME k m", "COPY m c", "EXEC"]);
    for key in ["list", "m"] {
        client.check(&format!("OBJECT IDLETIME {key}"), ":600");
    }
    client.check("OBJECT IDLETIME c", ":0");
    // What is stored is as new as it is.
    client.run("SET m w");
    client.check("OBJECT IDLETIME m", ":0");
}

#[test]
fn a_session_that_leaves_no_touch_does_not_count_as_using_what_it_overwrites() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    engine.keyspace().set_eviction_policy(EvictionPolicy::ALLKEYS_LFU);
    // Each use counts.
    engine.keyspace().set_counter_rates(0, 0);
    let mut client = Client::new(&engine, &host);
    client.run_all(&["SET k v", "CLIENT NO-TOUCH ON", "SET k w", "APPEND k x"]);
    client.check("OBJECT FREQ k", ":5");
    client.run_all(&["CLIENT NO-TOUCH OFF", "SET k w"]);
    client.check("OBJECT FREQ k", ":6");
}
