//! The commands that wait for an element to take, on Forebay, over every transport and with two
//! workers, and on redis-server: which session is served, in which order, and that nothing is lost.

use std::time::Duration;

use harness::{Connection, Kind, Launch, Server, let_pass, poll_until, request};
use resp::Value;

use super::sessions::{flags, id, info, is_closed, poll_blocked, read, send, start, text};

const RING_BYTES: u64 = 4096;

/// Makes a connection over one transport.
type Connect = fn(&Server) -> Connection;

/// A command that waits, and how keys of its type are filled. Elements of a sorted set have scores
/// in the order of their first letters.
struct Family {
    /// Returns the request that waits for `keys` so many seconds.
    wait: fn(keys: &[&str], seconds: &str) -> String,
    /// Whether it takes the last element.
    takes_last: bool,
    is_of_lists: bool,
    /// Returns the reply to whoever gets `element` of `key`.
    reply: fn(key: &str, element: &str) -> String,
}

const FAMILIES: [Family; 5] = [
    Family {
        wait: |keys, seconds| format!("BLPOP {} {seconds}", keys.join(" ")),
        takes_last: false,
        is_of_lists: true,
        reply: |key, element| format!("*2\r\n{}{}", bulk(key), bulk(element)),
    },
    Family {
        wait: |keys, seconds| format!("BRPOP {} {seconds}", keys.join(" ")),
        takes_last: true,
        is_of_lists: true,
        reply: |key, element| format!("*2\r\n{}{}", bulk(key), bulk(element)),
    },
    Family {
        wait: |keys, seconds| format!("BZPOPMIN {} {seconds}", keys.join(" ")),
        takes_last: false,
        is_of_lists: false,
        reply: |key, element| {
            format!("*3\r\n{}{}{}", bulk(key), bulk(element), bulk(&score(element)))
        },
    },
    Family {
        wait: |keys, seconds| format!("BZPOPMAX {} {seconds}", keys.join(" ")),
        takes_last: true,
        is_of_lists: false,
        reply: |key, element| {
            format!("*3\r\n{}{}{}", bulk(key), bulk(element), bulk(&score(element)))
        },
    },
    Family {
        wait: |keys, seconds| format!("BZMPOP {seconds} {} {} MIN", keys.len(), keys.join(" ")),
        takes_last: false,
        is_of_lists: false,
        reply: |key, element| {
            let pair = format!("*2\r\n{}{}", bulk(element), bulk(&score(element)));
            format!("*2\r\n{}*1\r\n{pair}", bulk(key))
        },
    },
];

impl Family {
    /// Returns the request that adds `elements`, which are in order, to `key`.
    fn fill(&self, key: &str, elements: &[&str]) -> String {
        if self.is_of_lists {
            return format!("RPUSH {key} {}", elements.join(" "));
        }
        let pairs = elements.iter().map(|element| format!("{} {element}", score(element)));
        format!("ZADD {key} {}", pairs.collect::<Vec<_>>().join(" "))
    }

    /// Returns the request for the number of elements of `key`.
    fn count(&self, key: &str) -> String {
        format!("{} {key}", if self.is_of_lists { "LLEN" } else { "ZCARD" })
    }

    /// Returns the order in which `elements` are taken.
    fn in_turn<'e>(&self, elements: &[&'e str]) -> Vec<&'e str> {
        let mut elements = elements.to_vec();
        if self.takes_last {
            elements.reverse();
        }
        elements
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn score(element: &str) -> String {
    element.as_bytes()[0].to_string()
}

/// Runs `check` on redis-server, and on Forebay over each transport.
pub(super) fn on_each_transport(mut check: impl FnMut(&Server, Connect)) {
    let lane: Connect = |server| server.lane(RING_BYTES);
    check(&start(Kind::Redis, &[]), Server::tcp);
    for connect in [Server::tcp, Server::unix, lane] {
        check(&start(Kind::Forebay, &[]), connect);
    }
}

/// Runs `check` for each family on redis-server, and on Forebay over each transport.
fn on_all(check: fn(&Server, Connect, &Family)) {
    on_each_transport(|server, connect| {
        for family in &FAMILIES {
            check(server, connect, family);
            server.tcp().call("FLUSHALL");
        }
    });
}

/// Returns sessions that wait by `request`, in their order.
pub(super) fn waiting(
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

#[test]
fn what_comes_serves_many_in_the_order_in_which_they_came() {
    on_all(|server, connect, family| {
        let mut other = server.tcp();
        let mut waiters = waiting(server, connect, 4, &(family.wait)(&["none", "k"], "0"));
        assert_eq!(info(&mut other, "blocked_clients"), "4");
        assert_eq!(other.call(&family.fill("k", &["a", "b", "c"])), Value::Integer(3));
        for (waiter, expected) in waiters.iter_mut().zip(family.in_turn(&["a", "b", "c"])) {
            assert_eq!(read(waiter), (family.reply)("k", expected));
        }
        poll_blocked(&mut other, 1);
        assert_eq!(other.call("EXISTS k"), Value::Integer(0));
        // Two changes of one transaction are one: what it leaves is served.
        let (fills, count) = (["d", "e"].map(|it| family.fill("k", &[it])), family.count("k"));
        send(&mut other, &["MULTI", &fills[0], &fills[1], "EXEC", &count]);
        let second = if family.is_of_lists { 2 } else { 1 };
        for expected in ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"] {
            assert_eq!(read(&mut other), expected);
        }
        assert_eq!(read(&mut other), format!("*2\r\n:1\r\n:{second}\r\n"));
        assert_eq!(read(&mut other), ":1\r\n");
        let first = family.in_turn(&["d", "e"])[0];
        assert_eq!(read(&mut waiters[3]), (family.reply)("k", first));
        assert_eq!(info(&mut other, "blocked_clients"), "0");
    });
}

/// A key that is restored serves as one that is filled, also where another key was in its place.
#[test]
fn key_that_is_restored_serves_who_waits() {
    on_all(|server, connect, family| {
        let mut other = server.tcp();
        other.call(&family.fill("model", &["a", "b"]));
        let Value::Bulk(payload) = other.call("DUMP model") else { panic!("DUMP's reply") };
        let mut waiters = waiting(server, connect, 2, &(family.wait)(&["k"], "0"));
        let restore = |other: &mut Connection, ttl: &[u8], more: &[u8]| {
            let words = [b"RESTORE".as_slice(), b"k", ttl, &payload, more];
            assert_eq!(other.ask(&request(&words)).bytes, b"+OK\r\n");
        };
        restore(&mut other, b"0", b"REPLACE");
        for (waiter, expected) in waiters.iter_mut().zip(family.in_turn(&["a", "b"])) {
            assert_eq!(read(waiter), (family.reply)("k", expected));
        }
        // What was served is gone, and who waits on gets of the next.
        let mut waiters = waiting(server, connect, 1, &(family.wait)(&["k"], "0"));
        other.call("SET k text");
        restore(&mut other, b"0", b"REPLACE");
        assert_eq!(read(&mut waiters[0]), (family.reply)("k", family.in_turn(&["a", "b"])[0]));
        assert_eq!(other.call(&family.count("k")), Value::Integer(1));
        other.call("DEL k");
        // One that has expired already is not there for anybody.
        let mut waiters = waiting(server, connect, 1, &(family.wait)(&["k"], "0"));
        restore(&mut other, b"1", b"ABSTTL");
        assert_eq!(info(&mut other, "blocked_clients"), "1");
        other.call(&family.fill("k", &["c"]));
        assert_eq!(read(&mut waiters[0]), (family.reply)("k", "c"));
    });
}

#[test]
fn a_key_of_another_type_serves_nobody() {
    on_all(|server, connect, family| {
        let mut other = server.tcp();
        let mut waiters = waiting(server, connect, 1, &(family.wait)(&["k"], "0"));
        for request in ["SET k v", "DEL k", "SADD k v", "DEL k"] {
            other.call(request);
        }
        send(&mut other, &["MULTI", &family.fill("k", &["x"]), "DEL k", "EXEC"]);
        (0..4).for_each(|_| drop(read(&mut other)));
        assert_eq!(info(&mut other, "blocked_clients"), "1");
        assert_eq!(other.call(&family.fill("k", &["a", "b"])), Value::Integer(2));
        let first = family.in_turn(&["a", "b"])[0];
        assert_eq!(read(&mut waiters[0]), (family.reply)("k", first));
    });
}

#[test]
fn a_wait_ends_by_its_time_by_others_and_with_its_session() {
    on_all(|server, connect, family| {
        let (fill, wait) = (family.fill("k", &["a"]), (family.wait)(&["k"], "0"));
        let mut other = server.tcp();
        let mut waiter = connect(server);
        send(&mut waiter, &[&(family.wait)(&["k"], "0.03")]);
        assert_eq!(read(&mut waiter), "*-1\r\n");
        let waiter_id = id(&mut waiter);
        for (reason, reply) in [
            ("TIMEOUT", "*-1\r\n"),
            ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
        ] {
            send(&mut waiter, &[&wait]);
            poll_blocked(&mut other, 1);
            let unblock = format!("CLIENT UNBLOCK {waiter_id} {reason}");
            assert_eq!(other.call(&unblock), Value::Integer(1));
            // What comes now is not for him.
            assert_eq!(other.call(&fill), Value::Integer(1));
            assert_eq!(read(&mut waiter), reply);
            assert_eq!(other.call("DEL k"), Value::Integer(1));
        }
        send(&mut waiter, &[&wait]);
        poll_blocked(&mut other, 1);
        assert_eq!(other.call(&format!("CLIENT KILL ID {waiter_id}")), Value::Integer(1));
        assert_eq!(other.call(&fill), Value::Integer(1));
        assert!(is_closed(&mut waiter));
        assert_eq!(other.call(&family.count("k")), Value::Integer(1));
    });
}

#[test]
fn who_is_served_waits_no_longer_for_whoever_asks_next() {
    on_all(|server, connect, family| {
        let mut other = server.tcp();
        let mut waiters = waiting(server, connect, 1, &(family.wait)(&["k"], "0"));
        let list = text(&other.call("CLIENT LIST"));
        let line = list.lines().find(|line| line.contains("flags=b")).expect("it waits");
        let waiter_id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next());
        let waiter_id = waiter_id.expect("a line begins with the id");
        let unblock = format!("CLIENT UNBLOCK {waiter_id}");
        send(&mut other, &[&family.fill("k", &["a"]), &unblock, "INFO clients", "EXISTS k"]);
        assert_eq!(read(&mut other), ":1\r\n");
        assert_eq!(read(&mut other), ":0\r\n", "{unblock}");
        assert!(read(&mut other).contains("blocked_clients:0\r\n"));
        assert_eq!(read(&mut other), ":0\r\n");
        assert_eq!(read(&mut waiters[0]), (family.reply)("k", "a"));
    });
}

/// Sessions of both workers fill keys and take at once: nothing is taken twice, and nothing is
/// lost.
#[test]
fn each_element_goes_to_one_session() {
    on_all(|server, connect, family| {
        const COUNT: usize = 300;
        let mut fillers = [connect(server), connect(server)];
        let mut takers: Vec<Connection> = (0..6).map(|_| connect(server)).collect();
        let wait = (family.wait)(&["a", "b", "c"], "0");
        for taker in &mut takers {
            let requests = vec![wait.as_str(); 2 * COUNT / 6];
            send(taker, &requests);
        }
        for (number, filler) in fillers.iter_mut().enumerate() {
            let requests: Vec<String> = (0..COUNT)
                .map(|it| family.fill(["a", "b", "c"][it % 3], &[&format!("{number}:{it}")]))
                .collect();
            send(filler, &requests.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let mut taken = Vec::new();
        for taker in &mut takers {
            for _ in 0..2 * COUNT / 6 {
                let reply = read(taker);
                let element = reply.split("\r\n").find(|part| part.contains(':'));
                taken.push(element.expect("one was taken").to_owned());
            }
        }
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 2 * COUNT);
        assert_eq!(server.tcp().call("EXISTS a b c"), Value::Integer(0));
    });
}

/// What was taken for a session is told to it, though it says at that moment that it sends nothing
/// more; once it has said so, nothing is taken for it.
#[test]
fn who_is_served_gets_the_reply_though_his_requests_have_ended() {
    let launch = Launch::new(Kind::Forebay).option("workers", "1");
    let server = launch.option("enable-debug-command", "yes").start();
    let (mut sleeper, mut filler) = (server.tcp(), server.tcp());
    for round in 0..6 {
        let mut waiter = server.tcp();
        send(&mut waiter, &["BLPOP k 0"]);
        poll_blocked(&mut filler, 1);
        // Meanwhile the worker does nothing else, and then finds both at once.
        send(&mut sleeper, &["DEBUG SLEEP 0.1"]);
        let_pass(Duration::from_millis(30));
        let ends_first = round % 2 == 1;
        if ends_first {
            waiter.end_requests();
            let_pass(Duration::from_millis(10));
        }
        send(&mut filler, &["RPUSH k a"]);
        let_pass(Duration::from_millis(10));
        waiter.end_requests();
        assert_eq!(read(&mut filler), ":1\r\n");
        assert_eq!(read(&mut sleeper), "+OK\r\n");
        if ends_first {
            assert_eq!(filler.call("LPOP k"), Value::Bulk(b"a".to_vec()), "nobody took it");
        } else {
            assert_eq!(read(&mut waiter), "*2\r\n$1\r\nk\r\n$1\r\na\r\n");
        }
        assert!(is_closed(&mut waiter));
    }
}
