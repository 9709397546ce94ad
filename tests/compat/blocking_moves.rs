//! BLMOVE, BRPOPLPUSH and BLMPOP on Forebay, over every transport and with two workers, and on
//! redis-server: which session is served, what a move serves in turn, and that nothing is lost.

use harness::{Connection, Server};
use resp::Value;

use super::blocking_pops::{on_each_transport, waiting};
use super::sessions::{id, info, is_closed, poll_blocked, read, send};

/// A request, its reply where it gets an element, and whether it moves that.
type Waiting = (&'static str, fn(&str) -> String, bool);

/// A request of each kind that waits for a list `k`, the reply when it gets `element`, and whether
/// it moves it.
const WAITING: [Waiting; 3] = [
    (
        "BLMPOP 0 2 none k LEFT",
        |element| format!("*2\r\n$1\r\nk\r\n*1\r\n$1\r\n{element}\r\n"),
        false,
    ),
    ("BLMOVE k target LEFT RIGHT 0", |element| format!("$1\r\n{element}\r\n"), true),
    ("BRPOPLPUSH k target 0", |element| format!("$1\r\n{element}\r\n"), true),
];

#[test]
fn each_element_goes_to_who_has_waited_longest() {
    on_each_transport(|server, connect| {
        let mut other = server.tcp();
        for (request, reply, is_move) in WAITING {
            let mut waiters = waiting(server, connect, 3, request);
            for (waiter, element) in waiters.iter_mut().zip(["a", "b", "c"]) {
                assert_eq!(other.call(&format!("RPUSH k {element}")), Value::Integer(1));
                assert_eq!(read(waiter), reply(element), "{request}");
            }
            assert_eq!(info(&mut other, "blocked_clients"), "0");
            assert_eq!(other.call("EXISTS k"), Value::Integer(0));
            let moved = if is_move { 3 } else { 0 };
            assert_eq!(other.call("LLEN target"), Value::Integer(moved));
            other.call("DEL target");
        }
    });
}

#[test]
fn a_wait_ends_by_its_time_by_others_and_with_its_session() {
    on_each_transport(|server, connect| {
        let mut other = server.tcp();
        for (request, ..) in WAITING {
            let mut waiter = connect(server);
            let waiter_id = id(&mut waiter);
            for (reason, reply) in [
                ("TIMEOUT", "*-1\r\n"),
                ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
            ] {
                send(&mut waiter, &[request]);
                poll_blocked(&mut other, 1);
                let unblock = format!("CLIENT UNBLOCK {waiter_id} {reason}");
                assert_eq!(other.call(&unblock), Value::Integer(1));
                // What comes now is not for him.
                assert_eq!(other.call("RPUSH k a"), Value::Integer(1));
                assert_eq!(read(&mut waiter), reply);
                assert_eq!(other.call("DEL k"), Value::Integer(1));
            }
            send(&mut waiter, &["BLMOVE k target LEFT RIGHT 0.02", "BLMPOP 0.02 1 k LEFT"]);
            assert_eq!(read(&mut waiter), "*-1\r\n");
            assert_eq!(read(&mut waiter), "*-1\r\n");
            send(&mut waiter, &[request]);
            poll_blocked(&mut other, 1);
            assert_eq!(other.call(&format!("CLIENT KILL ID {waiter_id}")), Value::Integer(1));
            assert_eq!(other.call("RPUSH k a"), Value::Integer(1));
            assert!(is_closed(&mut waiter));
            assert_eq!(other.call("DEL k"), Value::Integer(1));
        }
    });
}

/// The keys of a chain of moves are wherever they are: nobody sees the element anywhere but at its
/// end.
#[test]
fn moves_serve_each_other_to_the_end() {
    on_each_transport(|server, connect| {
        let mut other = server.tcp();
        let mut last = waiting(server, connect, 1, "BLPOP end 0");
        let mut chain = Vec::new();
        for (source, target) in [("c", "end"), ("b", "c"), ("a", "b")] {
            let request = format!("BLMOVE {source} {target} RIGHT LEFT 0");
            chain.extend(waiting(server, connect, 1, &request));
        }
        assert_eq!(other.call("RPUSH a x"), Value::Integer(1));
        chain.iter_mut().for_each(|waiter| assert_eq!(read(waiter), "$1\r\nx\r\n"));
        assert_eq!(read(&mut last[0]), "*2\r\n$3\r\nend\r\n$1\r\nx\r\n");
        assert_eq!(info(&mut other, "blocked_clients"), "0");
        assert_eq!(other.call("EXISTS a b c end"), Value::Integer(0));
    });
}

#[test]
fn a_list_rotates_for_each_who_waits() {
    on_each_transport(|server, connect| {
        let mut other = server.tcp();
        let mut waiters = waiting(server, connect, 3, "BLMOVE k k LEFT RIGHT 0");
        send(&mut other, &["MULTI", "RPUSH k a b", "EXEC"]);
        waiters
            .iter_mut()
            .zip(["a", "b", "a"])
            .for_each(|(waiter, element)| assert_eq!(read(waiter), format!("$1\r\n{element}\r\n")));
        (0..3).for_each(|_| drop(read(&mut other)));
        let rotated = other.call("LRANGE k 0 -1");
        assert_eq!(rotated, Value::Array(["b", "a"].map(|it| Value::Bulk(it.into())).into()));
    });
}

#[test]
fn a_target_of_another_type_is_refused_and_the_next_is_served() {
    on_each_transport(|server, connect| {
        let mut other = server.tcp();
        other.call("SET target v");
        let mut waiters = waiting(server, connect, 1, "BLMOVE k target LEFT RIGHT 0");
        waiters.extend(waiting(server, connect, 1, "BLMPOP 0 1 k LEFT"));
        assert_eq!(other.call("RPUSH k a"), Value::Integer(1));
        assert!(read(&mut waiters[0]).starts_with("-WRONGTYPE "));
        assert_eq!(read(&mut waiters[1]), "*2\r\n$1\r\nk\r\n*1\r\n$1\r\na\r\n");
    });
}

/// Sessions of both workers move elements around at once, waiting for them and not: all arrive.
#[test]
fn every_element_arrives() {
    // Few enough that a ring takes the requests of one session, which is not read while it waits.
    const COUNT: usize = 80;
    const HOPS: [&str; 4] = ["a", "b", "{a}c", "end"];
    fn check(server: &Server, connect: fn(&Server) -> Connection) {
        let mut movers: Vec<Connection> = (0..6).map(|_| connect(server)).collect();
        for (index, mover) in movers.iter_mut().enumerate() {
            let hop = index % 3;
            let request = format!("BLMOVE {} {} LEFT RIGHT 0", HOPS[hop], HOPS[hop + 1]);
            send(mover, &vec![request.as_str(); COUNT / 2]);
        }
        let mut pusher = connect(server);
        let pushes: Vec<String> = (0..COUNT).map(|index| format!("RPUSH a {index}")).collect();
        send(&mut pusher, &pushes.iter().map(String::as_str).collect::<Vec<_>>());
        for mover in &mut movers {
            (0..COUNT / 2).for_each(|_| assert!(read(mover).starts_with('$')));
        }
        let Value::Array(all) = server.tcp().call("LRANGE end 0 -1") else {
            panic!("it is a list")
        };
        let mut all: Vec<usize> = all
            .iter()
            .map(|it| std::str::from_utf8(it.as_bytes().unwrap()).unwrap().parse().unwrap())
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..COUNT).collect::<Vec<_>>());
        assert_eq!(server.tcp().call("EXISTS a b {a}c"), Value::Integer(0));
    }
    on_each_transport(check);
}
