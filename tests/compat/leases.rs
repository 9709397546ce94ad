//! Leases, Forebay's own, over every transport: many miss one key, those who fill it die, and a
//! restart remembers stale values and no lease.

use std::time::Instant;

use harness::{Connection, Kind, Launch, Server, TempFolder, poll_until, request};
use resp::Value;

use super::sessions::{id, info, poll_blocked, read, send, start};

const RING_BYTES: u64 = 4096;
const TRANSPORTS: [fn(&Server) -> Connection; 3] =
    [Server::tcp, Server::unix, |server| server.lane(RING_BYTES)];
const OTHERS: usize = 999;

/// Returns the state and the token, if there is one, of a reply of LGET.
fn state(value: &Value) -> (String, Option<i64>) {
    let Value::Array(parts) = value else { panic!("LGET replies {value:?}") };
    let [Value::Simple(state), _, token, Value::Integer(_)] = &parts[..] else {
        panic!("LGET replies {parts:?}")
    };
    let token = match token {
        Value::Integer(token) => Some(*token),
        _ => None,
    };
    (String::from_utf8_lossy(state).into_owned(), token)
}

fn win(connection: &mut Connection, line: &str) -> i64 {
    let (state, token) = state(&connection.call(line));
    assert_eq!(state, "WIN");
    token.expect("who wins has a token")
}

fn next_win(connection: &mut Connection) -> i64 {
    let (state, token) = state(&connection.read().expect("it is told").value);
    assert_eq!(state, "WIN");
    token.expect("who wins has a token")
}

#[test]
fn a_thousand_connections_miss_one_key_and_one_fills_it() {
    let server = start(Kind::Forebay, &[]);
    let mut other = server.tcp();
    let mut filler = server.tcp();
    let token = win(&mut filler, "LGET k WAIT 100000 TTL 100000");
    let mut others: Vec<Connection> = (0..OTHERS).map(|it| TRANSPORTS[it % 2](&server)).collect();
    for (number, waiter) in others.iter_mut().enumerate() {
        send(waiter, &["LGET k WAIT 100000 TTL 100000"]);
        if number == 0 {
            // It is the first.
            poll_blocked(&mut other, 1);
        }
    }
    poll_blocked(&mut other, OTHERS);
    // The filler dies, and one alone of the others is told.
    drop(filler);
    let second = next_win(&mut others[0]);
    poll_blocked(&mut other, OTHERS - 1);
    let late = format!("LFILL k late {token}");
    assert_eq!(other.call(&late), Value::Integer(0));
    let value = "v".repeat(5_000);
    let fill = request(&["LFILL", "k", &value, &second.to_string(), "PX", "100000"]);
    assert_eq!(others[0].ask(&fill).value, Value::Integer(1));
    for waiter in &mut others[1..] {
        let Value::Array(parts) = waiter.read().expect("it is told").value else { panic!() };
        assert_eq!(parts[..2], [Value::Simple(b"HIT".into()), Value::Bulk(value.clone().into())]);
    }
    assert_eq!(info(&mut other, "lease_grants"), "2");
    assert_eq!(info(&mut other, "leases"), "0");
}

#[test]
fn a_filler_that_dies_at_any_step_passes_the_lease_on() {
    let server = start(Kind::Forebay, &[]);
    let mut other = server.tcp();
    for connect in TRANSPORTS {
        for step in ["gone", "killed", "in the middle of filling", "slow"] {
            other.call("FLUSHALL");
            let mut filler = connect(&server);
            let ttl = if step == "slow" { 150 } else { 100_000 };
            let token = win(&mut filler, &format!("LGET k TTL {ttl}"));
            let mut next = connect(&server);
            send(&mut next, &["LGET k WAIT 100000"]);
            poll_blocked(&mut other, 1);
            let began = Instant::now();
            match step {
                "gone" => drop(filler),
                "killed" => {
                    let kill = format!("CLIENT KILL ID {}", id(&mut filler));
                    assert_eq!(other.call(&kill), Value::Integer(1));
                }
                "slow" => {}
                _ => {
                    let part = "*4\r\n$5\r\nLFILL\r\n$1\r\nk\r\n$6\r\nlat";
                    filler.send(part.as_bytes()).expect("it takes a part");
                    drop(filler);
                }
            }
            let second = next_win(&mut next);
            println!("{step}: told after {:?}", began.elapsed());
            let late = format!("LFILL k late {token}");
            assert_eq!(other.call(&late), Value::Integer(0));
            let fill = format!("LFILL k v {second}");
            assert_eq!(other.call(&fill), Value::Integer(1), "whoever has the token fills");
        }
    }
}

#[test]
fn replies_are_alike_in_both_protocols_and_inside_multi() {
    let server = start(Kind::Forebay, &[]);
    let mut client = server.tcp();
    win(&mut client, "LGET k TTL 100000 STALE");
    for (hello, nothing) in [("HELLO 2", "$-1\r\n"), ("HELLO 3", "_\r\n")] {
        client.call(hello);
        send(&mut client, &["LGET k WAIT 30"]);
        assert_eq!(read(&mut client), format!("*4\r\n+BUSY\r\n{nothing}{nothing}:0\r\n"));
        send(&mut client, &["MULTI", "LGET k WAIT 100000", "EXEC"]);
        assert_eq!(
            (read(&mut client), read(&mut client)),
            ("+OK\r\n".into(), "+QUEUED\r\n".into())
        );
        assert_eq!(read(&mut client), format!("*1\r\n*4\r\n+BUSY\r\n{nothing}{nothing}:0\r\n"));
    }
}

/// By a snapshot, and by the log: a stale value is there after a restart, with the rest of its
/// time, and no lease is.
#[test]
fn a_restart_remembers_stale_values_and_no_lease() {
    for keeps_log in [false, true] {
        let folder = TempFolder::new();
        let launch = || {
            let dir = folder.path().display().to_string();
            let log = if keeps_log { "yes" } else { "no" };
            let launch = Launch::new(Kind::Forebay).option("dir", &dir).option("appendonly", log);
            launch.option("appendfsync", "always").start()
        };
        let mut server = launch();
        let mut client = server.tcp();
        for (key, value) in [("small", "deep".to_owned()), ("large", "x".repeat(100_000))] {
            let token = win(&mut client, &format!("LGET {key}"));
            let words = ["LFILL", key, &value, &token.to_string(), "PX", "1", "STALE", "100000000"];
            assert_eq!(client.ask(&request(&words)).value, Value::Integer(1));
        }
        assert_eq!(client.call("SET marked v"), Value::Simple(b"OK".into()));
        assert_eq!(client.call("LDEL marked STALE 100000000"), Value::Integer(1));
        let old = win(&mut client, "LGET leased TTL 100000");
        poll_until("the values to expire", || {
            client.call("EXISTS small large") == Value::Integer(0)
        });
        if !keeps_log {
            assert_eq!(client.call("SAVE"), Value::Simple(b"OK".into()));
        }
        drop(client);
        server.signal("KILL");
        server.wait();
        let server = launch();
        let mut client = server.tcp();
        let late = format!("LFILL leased late {old}");
        assert_eq!(client.call(&late), Value::Integer(0));
        win(&mut client, "LGET leased");
        for (key, length) in [("small", 4), ("large", 100_000), ("marked", 1)] {
            assert_eq!(client.call(&format!("GET {key}")), Value::Null);
            let Value::Array(parts) = client.call(&format!("LGET {key} STALE")) else { panic!() };
            assert_eq!(parts[0], Value::Simple(b"STALE-WIN".into()), "{key}");
            assert!(matches!(&parts[1], Value::Bulk(value) if value.len() == length), "{key}");
        }
    }
}

/// Redis passes over the field of its files that says so.
#[test]
fn redis_loads_a_file_with_stale_values() {
    let folder = TempFolder::new();
    let dir = folder.path().display().to_string();
    let options = |kind| Launch::new(kind).option("dir", &dir);
    let mut server = options(Kind::Forebay).option("rdb-export-version", "10").start();
    let mut client = server.tcp();
    let token = win(&mut client, "LGET k");
    let fill = format!("LFILL k deep {token} PX 100000000 STALE 100000000");
    assert_eq!(client.call(&fill), Value::Integer(1));
    client.call("SET marked v");
    client.call("LDEL marked STALE 100000000");
    client.call("SET l w");
    assert_eq!(client.call("SAVE"), Value::Simple(b"OK".into()));
    drop(client);
    server.signal("KILL");
    server.wait();
    let redis = options(Kind::Redis).start();
    let mut client = redis.tcp();
    assert_eq!(client.call("GET k"), Value::Bulk(b"deep".into()));
    assert!(matches!(client.call("PTTL k"), Value::Integer(left) if left > 90_000_000));
    assert_eq!(client.call("PTTL l"), Value::Integer(-1));
    assert_eq!(client.call("EXISTS marked"), Value::Integer(0));
}
