//! BLPOP and BRPOP on Forebay, over every transport and with two workers, and on redis-server:
//! which session is served, in which order, and that nothing is lost.

use harness::{Connection, Kind, Server, poll_until};
use resp::Value;

use super::sessions::{flags, id, info, is_closed, poll_blocked, read, send, start};

const RING_BYTES: u64 = 4096;

/// Runs `check` on redis-server, and on Forebay over each transport.
fn on_all(check: fn(&Server, fn(&Server) -> Connection)) {
    check(&start(Kind::Redis, &[]), Server::tcp);
    let lane: fn(&Server) -> Connection = |server| server.lane(RING_BYTES);
    for connect in [Server::tcp, Server::unix, lane] {
        check(&start(Kind::Forebay, &[]), connect);
    }
}

/// Returns sessions that wait by `request`, in their order.
fn waiting(
    server: &Server,
    connect: fn(&Server) -> Connection,
    count: usize,
    request: &str,
) -> Vec<Connection> {
    let mut other = server.tcp();
    let sessions = (0..count).map(|_| {
        let mut session = connect(server);
        let id = id(&mut session);
        send(&mut session, &[request]);
        poll_until("it to wait", || flags(&mut other, id).is_some_and(|flags| flags.contains('b')));
        session
    });
    sessions.collect()
}

fn element(key: &str, element: &str) -> String {
    format!("*2\r\n${}\r\n{key}\r\n${}\r\n{element}\r\n", key.len(), element.len())
}

#[test]
fn a_push_serves_many_in_the_order_in_which_they_came() {
    on_all(|server, connect| {
        let mut other = server.tcp();
        let mut waiters = waiting(server, connect, 4, "BLPOP none k 0");
        assert_eq!(info(&mut other, "blocked_clients"), "4");
        assert_eq!(other.call("RPUSH k a b c"), Value::Integer(3));
        for (waiter, expected) in waiters.iter_mut().zip(["a", "b", "c"]) {
            assert_eq!(read(waiter), element("k", expected));
        }
        poll_blocked(&mut other, 1);
        assert_eq!(other.call("EXISTS k"), Value::Integer(0));
        // Two pushes of one transaction are one: what it leaves is served.
        send(&mut other, &["MULTI", "LPUSH k d", "LPUSH k e", "EXEC", "LLEN k"]);
        for expected in ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n:1\r\n:2\r\n", ":1\r\n"] {
            assert_eq!(read(&mut other), expected);
        }
        assert_eq!(read(&mut waiters[3]), element("k", "e"));
        assert_eq!(info(&mut other, "blocked_clients"), "0");
    });
}

#[test]
fn a_key_of_another_type_serves_nobody() {
    on_all(|server, connect| {
        let mut other = server.tcp();
        let mut waiters = waiting(server, connect, 1, "BRPOP k 0");
        other.call("SET k v");
        other.call("DEL k");
        send(&mut other, &["MULTI", "RPUSH k x", "DEL k", "EXEC"]);
        (0..4).for_each(|_| drop(read(&mut other)));
        assert_eq!(info(&mut other, "blocked_clients"), "1");
        assert_eq!(other.call("RPUSH k a b"), Value::Integer(2));
        assert_eq!(read(&mut waiters[0]), element("k", "b"));
    });
}

#[test]
fn a_wait_ends_by_its_time_by_others_and_with_its_session() {
    on_all(|server, connect| {
        let mut other = server.tcp();
        let mut waiter = connect(server);
        send(&mut waiter, &["BLPOP k 0.03"]);
        assert_eq!(read(&mut waiter), "*-1\r\n");
        let waiter_id = id(&mut waiter);
        for (reason, reply) in [
            ("TIMEOUT", "*-1\r\n"),
            ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
        ] {
            send(&mut waiter, &["BLPOP k 0"]);
            poll_blocked(&mut other, 1);
            let unblock = format!("CLIENT UNBLOCK {waiter_id} {reason}");
            assert_eq!(other.call(&unblock), Value::Integer(1));
            // What comes now is not for him.
            assert_eq!(other.call("RPUSH k a"), Value::Integer(1));
            assert_eq!(read(&mut waiter), reply);
            assert_eq!(other.call("DEL k"), Value::Integer(1));
        }
        send(&mut waiter, &["BLPOP k 0"]);
        poll_blocked(&mut other, 1);
        assert_eq!(other.call(&format!("CLIENT KILL ID {waiter_id}")), Value::Integer(1));
        assert_eq!(other.call("RPUSH k a"), Value::Integer(1));
        assert!(is_closed(&mut waiter));
        assert_eq!(other.call("LLEN k"), Value::Integer(1));
    });
}

/// Sessions of both workers push and take at once: nothing is taken twice, and nothing is lost.
#[test]
fn each_element_goes_to_one_session() {
    on_all(|server, connect| {
        const COUNT: usize = 300;
        let mut pushers = [connect(server), connect(server)];
        let mut takers: Vec<Connection> = (0..6).map(|_| connect(server)).collect();
        for taker in &mut takers {
            let requests = vec!["BLPOP a b c 0"; 2 * COUNT / 6];
            send(taker, &requests);
        }
        for (number, pusher) in pushers.iter_mut().enumerate() {
            let requests: Vec<String> = (0..COUNT)
                .map(|it| format!("RPUSH {} {number}:{it}", ["a", "b", "c"][it % 3]))
                .collect();
            send(pusher, &requests.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let mut taken = Vec::new();
        for taker in &mut takers {
            for _ in 0..2 * COUNT / 6 {
                let reply = read(taker);
                taken.push(reply.trim_end().rsplit("\r\n").next().unwrap().to_owned());
            }
        }
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 2 * COUNT);
        assert_eq!(server.tcp().call("EXISTS a b c"), Value::Integer(0));
    });
}
