//! Our own client over lanes: any command through shared memory, with an end like any connection's.

use std::thread;
use std::time::Duration;

use client::{Attached, Lane, LaneShape, Reply};
use harness::{Kind, Launch, SILENCE_MAX, Server, poll_until, words};

fn shape(ring_bytes: u64) -> LaneShape {
    LaneShape::new(ring_bytes, ring_bytes).expect("a power of two within bounds")
}

fn call(lane: &mut Lane, line: &str) -> Reply {
    let words = words(line);
    let request: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    lane.call(&request).expect("the lane works")
}

fn simple(text: &str) -> Reply {
    Reply::Simple(text.as_bytes().to_vec())
}

#[test]
fn requests_of_a_long_pipeline_are_answered_in_order() {
    const COUNT: i64 = 10_000;
    let server = Server::start(Kind::Forebay);
    for ring_bytes in [4096, 1 << 20] {
        let mut lane = server.bare_lane(ring_bytes);
        let request: [&[u8]; 2] = [b"INCR", b"counter"];
        let requests = vec![&request[..]; COUNT as usize];
        let replies = lane.pipeline(&requests).expect("the lane works");
        let expected: Vec<Reply> = (1..=COUNT).map(Reply::Integer).collect();
        assert!(replies == expected, "rings of {ring_bytes}");
        call(&mut lane, "DEL counter");
    }
}

#[test]
fn values_larger_than_the_rings_pass_both_ways() {
    let server = Server::start(Kind::Forebay);
    let value: Vec<u8> = (0..5_000_003_u32).map(|index| ((index * 7) >> 3) as u8).collect();
    let mut lane = server.bare_lane(4096);
    assert_eq!(lane.call(&[b"SET", b"key", &value]).unwrap(), simple("OK"));
    let get: [&[u8]; 2] = [b"GET", b"key"];
    let replies = lane.pipeline(&[&get, &get, &[b"STRLEN", b"key"]]).unwrap();
    assert!(replies[..2].iter().all(|reply| *reply == Reply::Bulk(value.clone())));
    assert_eq!(replies[2], Reply::Integer(value.len() as i64));
}

#[test]
fn lane_is_a_client_of_its_own_and_others_see_it() {
    let server = Server::start(Kind::Forebay);
    let [mut one, mut two] = [server.bare_lane(4096), server.bare_lane(65_536)];
    call(&mut one, "SELECT 3");
    call(&mut one, "CLIENT SETNAME one");
    call(&mut one, "SET key three");
    assert_eq!(call(&mut two, "GET key"), Reply::Null);
    assert_eq!(call(&mut two, "CLIENT ID"), Reply::Integer(two.id() as i64));
    let Reply::Bulk(list) = call(&mut two, "CLIENT LIST") else { panic!("a list is text") };
    let list = String::from_utf8(list).expect("a list is text");
    let prefix = format!("id={} ", one.id());
    let line = list.lines().find(|line| line.starts_with(&prefix)).expect("it is listed");
    let address = format!("addr={}:0", server.socket().display());
    for part in [&*address, "name=one", "flags=U", "db=3", "cmd=set"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert_eq!(list.lines().count(), 4, "two lanes and their connections: {list}");
    assert_eq!(server.info("shm_lanes"), 2);
    assert_eq!(server.info("shm_lane_bytes"), 2 * 4096 + 2 * 4096 + 2 * 65_536);
}

#[test]
fn lane_ends_by_quit_by_kill_and_by_its_drop_and_its_memory_returns() {
    let server = Server::start(Kind::Forebay);
    let used = server.info("used_memory");
    let attached = Attached::connect(server.socket(), None).expect("this user may attach");
    let mut lanes: Vec<Lane> =
        (0..4).map(|_| attached.new_lane(shape(1 << 20)).expect("there may be four")).collect();
    poll_until("their memory to count", || server.info("used_memory") > used + 8 * (1 << 20));
    assert_eq!(call(&mut lanes[0], "QUIT"), simple("OK"));
    assert!(lanes[0].call(&[b"PING"]).is_err(), "the lane is over");
    let kill = format!("CLIENT KILL ID {}", lanes[1].id());
    assert_eq!(server.tcp().call(&kill), Reply::Integer(1));
    assert!(lanes[1].call(&[b"PING"]).is_err(), "the lane is over");
    drop(lanes.pop());
    poll_until("one lane to be left", || server.info("shm_lanes") == 1);
    assert_eq!(call(&mut lanes[2], "PING"), simple("PONG"), "others go on");
    drop((lanes, attached));
    poll_until("the lanes to end", || server.info("shm_lanes") == 0);
    poll_until("the memory to return", || server.info("used_memory") < used + (1 << 20));
    assert_eq!(server.info("shm_lane_bytes"), 0);
    assert_eq!(server.info("shm_lane_errors"), 0);
}

#[test]
fn client_that_waits_is_woken_when_the_server_ends_and_when_it_is_killed() {
    for signal in ["TERM", "KILL"] {
        let mut server = Server::start(Kind::Forebay);
        let mut lane = server.bare_lane(4096);
        assert_eq!(call(&mut lane, "PING"), simple("PONG"));
        let waiting = thread::spawn(move || lane.next_reply());
        server.signal(signal);
        server.wait();
        assert!(waiting.join().expect("it does not panic").is_err(), "{signal}");
    }
}

#[test]
fn lane_is_dropped_without_a_wait_for_a_server_that_does_not_run() {
    let server = Server::start(Kind::Forebay);
    let attached = Attached::connect(server.socket(), None).expect("this user may attach");
    let mut lanes = [(); 2].map(|()| attached.new_lane(shape(4096)).expect("there may be two"));
    assert_eq!(call(&mut lanes[0], "PING"), simple("PONG"));
    server.signal("STOP");
    drop(lanes);
    server.signal("CONT");
    poll_until("the lanes to end", || server.info("shm_lanes") == 0);
    let lane = attached.new_lane(shape(4096));
    assert_eq!(call(&mut lane.expect("there may be one"), "PING"), simple("PONG"));
}

#[test]
fn attached_session_asks_over_its_lane_what_the_memory_cannot_answer() {
    let server = Server::start(Kind::Forebay);
    let attached = Attached::connect(server.socket(), None).expect("this user may attach");
    let mut attached = attached.with_lane(shape(4096)).expect("and make a lane");
    let before = server.info("shm_lane_wakeups_received");
    server.tcp().call("SET key value");
    let mut value = Vec::new();
    assert!(attached.get(b"key", &mut value).expect("the memory answers"));
    assert_eq!(value, b"value");
    attached.select(client::DatabaseIndex(2)).expect("the lane answers");
    assert!(!attached.get(b"key", &mut value).expect("the memory answers"));
    assert!(server.info("shm_lane_wakeups_received") > before);
}

#[test]
fn blocked_client_gets_its_reply_when_its_time_is_over_or_another_wakes_it() {
    let server = Server::start(Kind::Forebay);
    let mut lane = server.bare_lane(4096);
    // No replicas: it waits for the whole time. What comes behind it has to wait too.
    let replies = lane.pipeline(&[&[b"WAIT", b"1", b"50"], &[b"PING"]]).expect("the lane works");
    assert_eq!(replies, [Reply::Integer(0), simple("PONG")]);
    let unblock = format!("CLIENT UNBLOCK {}", lane.id());
    let waiting = thread::spawn(move || {
        let replies = lane.pipeline(&[&[b"WAIT", b"1", b"0"], &[b"PING"]]);
        (replies.expect("the lane works"), lane)
    });
    let mut other = server.tcp();
    poll_until("the wait to begin", || other.call(&unblock) == Reply::Integer(1));
    let (replies, _lane) = waiting.join().expect("it does not panic");
    assert_eq!(replies, [Reply::Integer(0), simple("PONG")]);
}

#[test]
fn password_is_asked_of_the_connection_and_holds_for_its_lanes() {
    let server = Launch::new(Kind::Forebay).option("requirepass", "secret").start();
    assert!(Lane::connect(server.socket(), None, shape(4096)).is_err());
    let lane = Lane::connect(server.socket(), Some(b"secret"), shape(4096));
    assert_eq!(call(&mut lane.expect("it has the password"), "PING"), simple("PONG"));
}

#[test]
fn call_that_timed_out_is_the_last_one() {
    let server = Server::start(Kind::Forebay);
    let mut lane = server.bare_lane(4096);
    lane.set_timeout(Some(Duration::from_millis(1)));
    assert!(lane.call(&[b"WAIT", b"1", b"0"]).is_err(), "nobody ends the wait");
    lane.set_timeout(Some(SILENCE_MAX));
    assert!(lane.call(&[b"PING"]).is_err(), "its reply could be that of the other");
}

#[test]
fn every_thread_has_its_lane() {
    const THREADS: usize = 8;
    const REQUESTS: usize = 500;
    let server = Launch::new(Kind::Forebay).option("workers", "3").start();
    let attached = Attached::connect(server.socket(), None).expect("this user may attach");
    thread::scope(|scope| {
        for number in 0..THREADS {
            let mut lane = attached.new_lane(shape(4096)).expect("there may be as many");
            scope.spawn(move || {
                for round in 0..REQUESTS {
                    let value = format!("{number}-{round}").repeat(1 + round);
                    let key = format!("key{number}");
                    let set: [&[u8]; 3] = [b"SET", key.as_bytes(), value.as_bytes()];
                    let replies =
                        lane.pipeline(&[&set, &[b"GET", key.as_bytes()], &[b"INCR", b"n"]]);
                    let replies = replies.expect("the lane works");
                    assert_eq!(replies[1], Reply::Bulk(value.into_bytes()));
                }
            });
        }
    });
    let count = (THREADS * REQUESTS).to_string().into_bytes();
    assert_eq!(server.tcp().call("GET n"), Reply::Bulk(count));
}
