//! AWAIT, a command of Forebay's own, over every transport: sessions of two workers wait for keys.

use base::prng::Prng;
use harness::{Connection, Kind, Server, poll_until, request};
use resp::Value;

use super::sessions::{flags, id, info, is_closed, poll_blocked, read, send, start};

const RING_BYTES: u64 = 4096;
/// Ways to connect.
const TRANSPORTS: [fn(&Server) -> Connection; 3] =
    [Server::tcp, Server::unix, |server| server.lane(RING_BYTES)];

#[test]
fn who_awaits_a_key_goes_on_once_it_is_there() {
    let server = start(Kind::Forebay, &[]);
    let mut other = server.tcp();
    for connect in TRANSPORTS {
        other.call("FLUSHALL");
        // Sessions of both workers.
        let mut waiters = [connect(&server), connect(&server)];
        for waiter in &mut waiters {
            let id = id(waiter);
            send(waiter, &["SET seen yes", "AWAIT none k 0", "APPEND k w"]);
            assert_eq!(read(waiter), "+OK\r\n");
            // In the order in which they came.
            poll_until("it to wait", || is_waiting(&mut other, id));
        }
        assert_eq!(info(&mut other, "blocked_clients"), "2");
        assert_eq!(info(&mut other, "clients_in_timeout_table"), "0");
        assert_eq!(other.call("SET k v"), Value::Simple(b"OK".into()));
        for waiter in &mut waiters {
            assert_eq!(read(waiter), "$1\r\nk\r\n");
            assert!([":2\r\n", ":3\r\n"].contains(&read(waiter).as_str()));
            let id = id(waiter);
            assert!(!is_waiting(&mut other, id));
        }
        assert_eq!(info(&mut other, "blocked_clients"), "0");
    }
}

fn is_waiting(connection: &mut Connection, id: i64) -> bool {
    flags(connection, id).is_some_and(|flags| flags.contains('b'))
}

#[test]
fn a_wait_for_a_key_ends_as_others_do() {
    let server = start(Kind::Forebay, &[]);
    let mut other = server.tcp();
    for connect in TRANSPORTS {
        for (hello, nothing) in [("HELLO 2", "$-1\r\n"), ("HELLO 3", "_\r\n")] {
            let mut waiter = connect(&server);
            waiter.call(hello);
            let id = id(&mut waiter);
            send(&mut waiter, &["AWAIT k 0.03"]);
            assert_eq!(read(&mut waiter), nothing);
            for (reason, reply) in [
                ("TIMEOUT", nothing),
                ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
            ] {
                send(&mut waiter, &["AWAIT k 0"]);
                poll_blocked(&mut other, 1);
                let unblock = format!("CLIENT UNBLOCK {id} {reason}");
                assert_eq!(other.call(&unblock), Value::Integer(1));
                assert_eq!(read(&mut waiter), reply);
            }
            send(&mut waiter, &["MULTI", "AWAIT k 0", "EXEC"]);
            assert_eq!((read(&mut waiter), read(&mut waiter)), queued());
            assert_eq!(read(&mut waiter), format!("*1\r\n{nothing}"));
            send(&mut waiter, &["AWAIT k 0", "SET k v"]);
            poll_blocked(&mut other, 1);
            assert_eq!(other.call(&format!("CLIENT KILL ID {id}")), Value::Integer(1));
            assert!(is_closed(&mut waiter));
            assert_eq!(other.call("EXISTS k"), Value::Integer(0));
        }
    }
    let mut gone = server.tcp();
    send(&mut gone, &["AWAIT k 100000"]);
    poll_blocked(&mut other, 1);
    assert_eq!(info(&mut other, "clients_in_timeout_table"), "1");
    drop(gone);
    poll_blocked(&mut other, 0);
    assert_eq!(other.call("SET k v"), Value::Simple(b"OK".into()));
}

fn queued() -> (String, String) {
    ("+OK\r\n".into(), "+QUEUED\r\n".into())
}

/// Each of many sessions is served, whatever transport and worker it has and whoever writes.
#[test]
fn many_sessions_that_wait_are_all_served() {
    let server = start(Kind::Forebay, &[]);
    let mut writers = TRANSPORTS.map(|connect| connect(&server));
    let mut random = Prng::new(3);
    for round in 0..5 {
        let mut waiters: Vec<Connection> =
            (0..30).map(|number| TRANSPORTS[number % 3](&server)).collect();
        let key = |number: usize| format!("{round}:{}", number / 2);
        for (number, waiter) in waiters.iter_mut().enumerate() {
            send(waiter, &[&format!("AWAIT none {} 0", key(number))]);
        }
        // Some keys are there before their session has begun to wait.
        let mut order: Vec<usize> = (0..waiters.len()).collect();
        (1..order.len()).rev().for_each(|last| {
            order.swap(last, random.below(last as u64 + 1) as usize);
        });
        for number in order {
            writers[number % 3].call(&format!("SET {} v", key(number)));
        }
        for (number, waiter) in waiters.iter_mut().enumerate() {
            let key = key(number);
            assert_eq!(read(waiter), format!("${}\r\n{key}\r\n", key.len()));
        }
    }
    assert_eq!(info(&mut writers[0], "blocked_clients"), "0");
}

/// A long value is received where it is to lie, not by way of a buffer.
#[test]
fn a_long_value_serves_who_awaits_its_key() {
    let server = start(Kind::Forebay, &[]);
    let mut other = server.tcp();
    for connect in TRANSPORTS {
        other.call("FLUSHALL");
        let (mut waiter, mut writer) = (connect(&server), connect(&server));
        send(&mut waiter, &["AWAIT k 0", "STRLEN k"]);
        poll_blocked(&mut other, 1);
        let value = vec![b'v'; 2 << 20];
        writer.ask(&request(&[b"SET".as_slice(), b"k", &value]));
        assert_eq!(read(&mut waiter), "$1\r\nk\r\n");
        assert_eq!(read(&mut waiter), format!(":{}\r\n", value.len()));
    }
}
