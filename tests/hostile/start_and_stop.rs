//! Starting, resting, stopping.

use std::time::Duration;

use client::{Client, SetOptions};
use harness::{Kind, Launch, Server, kernel, let_pass, poll_until, words};
use resp::Value;

const REST: Duration = Duration::from_secs(4);

/// Returns the nanoseconds that `server` ran while nobody asked anything of it.
fn rest(server: &Server) -> u64 {
    let before = kernel::processor_ns(server.process_id());
    let_pass(REST);
    kernel::processor_ns(server.process_id()) - before
}

/// A tick of the kernel's accounting: less than this is no use of the processor that `top` shows.
const TICK_NS: u64 = 10_000_000;

#[test]
fn an_idle_server_uses_no_processor() {
    let server = Server::start(Kind::Forebay);
    let mut clients: Vec<_> = (0..20).map(|_| server.tcp()).collect();
    for client in &mut clients {
        client.call("SET k v");
    }
    let_pass(Duration::from_secs(1)); // Work that the requests left behind.
    let ran = rest(&server);
    assert!(ran < TICK_NS, "an idle server ran for {ran} ns");
}

#[test]
fn a_busy_poll_ends_where_no_request_follows() {
    let server = Launch::new(Kind::Forebay)
        .option("busy-poll", "always")
        .option("busy-poll-us", "10000")
        .start();
    let mut client = server.unix();
    // Several times, as another process may have the processor meanwhile.
    poll_until("a worker to look for more behind a request", || {
        let before = kernel::processor_ns(server.process_id());
        client.call("PING");
        let_pass(Duration::from_millis(50));
        kernel::processor_ns(server.process_id()) - before > TICK_NS / 4
    });
    let_pass(Duration::from_secs(1));
    let ran = rest(&server);
    assert!(ran < TICK_NS, "an idle server ran for {ran} ns");
}

#[test]
fn a_client_that_asks_alone_is_looked_for_and_two_are_not() {
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let polls = || server.info("busy_polls");
    let [mut client, mut lane, mut other] = [server.unix(), server.lane(4096), server.tcp()];
    // With fewer processors nobody is looked for.
    if std::thread::available_parallelism().map_or(1, usize::from) >= 2 {
        for lone in [&mut client, &mut lane] {
            let before = polls();
            poll_until("a worker to look for a client that asks in turn", || {
                (0..100).for_each(|_| drop(lone.call("PING")));
                polls() > before
            });
        }
    }
    client.call("CONFIG SET busy-poll no");
    let before = polls();
    (0..100).for_each(|_| drop(client.call("PING")));
    assert_eq!(polls(), before, "looks though it is not to");
    other.call("CONFIG SET busy-poll lone");
    let mut ask_in_turn = || {
        for _ in 0..100 {
            client.call("PING");
            other.call("PING");
        }
    };
    // The client counts as alone until the other has asked a few times.
    ask_in_turn();
    let before = polls();
    ask_in_turn();
    assert_eq!(polls(), before, "looks for one of two");
}

#[test]
fn a_client_that_takes_what_it_posts_is_not_looked_for() {
    // Ten of the last are more than it has ahead of one by one.
    for (bytes, depth, cycle_count) in [(100, 1, 5000), (10_000, 10, 500), (500_000, 10, 100)] {
        let server = Launch::new(Kind::Forebay).option("workers", "1").start();
        let url = format!("shm://{}", server.socket().display());
        let client = Client::connect(&url).expect("the server is there");
        let value = vec![b'v'; bytes];
        let cycle = || {
            for key in 0..depth {
                client.post(&[key], value.clone(), &SetOptions::new()).expect("it is sent");
            }
            let is_there = |key| client.take_once(&[key]).expect("it was sent").is_some();
            assert!((0..depth).all(is_there));
        };
        // Where the machine is busy some values are sent, and the replies to them looked for.
        poll_until(&format!("few looks for who takes {depth} of {bytes} bytes"), || {
            let before = server.info("busy_polls");
            (0..cycle_count).for_each(|_| cycle());
            server.info("busy_polls") - before < cycle_count * u64::from(depth) / 10
        });
        client.settle().expect("the server has it all");
        assert!(!client.exists(&[0]).expect("the server is there"));
    }
}

#[test]
fn a_worker_that_looks_sees_the_room_that_a_client_makes() {
    let server = Launch::new(Kind::Forebay)
        .option("workers", "1")
        .option("busy-poll", "always")
        .option("busy-poll-us", "10000")
        .start();
    let mut lane = server.lane(4096);
    lane.call("SETRANGE large 1000000 x");
    let count_of = |field| server.info(field) as i64;
    let misses = || count_of("busy_polls") - count_of("busy_poll_hits");
    let before = misses();
    // Each fills the ring 250 times. As long as the worker was blind for room, it looked in vain
    // as often.
    (0..4).for_each(|_| drop(lane.call("GET large")));
    let count = misses() - before;
    assert!(count < 250, "{count} looks in vain");
}

#[test]
fn a_client_looks_for_its_reply_while_it_is_alone() {
    // With fewer processors nobody looks.
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let server =
        Launch::new(Kind::Forebay).option("workers", "1").option("busy-poll-us", "10000").start();
    let [mut lane, mut other] = [server.lane(4096), server.lane(4096)];
    lane.call("SETRANGE large 200000 x");
    let wakes = || server.info("shm_lane_wakeups_sent");
    poll_until("a client that asks in turn to be awake for its replies", || {
        (0..100).for_each(|_| drop(lane.call("BITCOUNT large")));
        let before = wakes();
        (0..100).for_each(|_| drop(lane.call("BITCOUNT large")));
        wakes() - before < 50
    });
    let before = wakes();
    // It is alone anew, and then no more.
    (0..100).for_each(|_| drop(lane.call("BITCOUNT large")));
    for _ in 0..100 {
        lane.call("BITCOUNT large");
        other.call("BITCOUNT large");
    }
    let count = wakes() - before;
    assert!(count > 150, "{count} wake-ups for 200 calls of two clients that are to sleep");
}

#[test]
fn a_server_at_rest_with_keys_that_expire_far_away_uses_no_processor() {
    let server = Server::start(Kind::Forebay);
    let mut client = server.tcp();
    client.call("DEBUG POPULATE 10000");
    for index in 0..1000 {
        client.call(&format!("EXPIRE key:{index} 100000"));
    }
    let_pass(Duration::from_secs(1));
    let ran = rest(&server);
    // The sweep may look once in a while; it must not look at everything again and again.
    assert!(ran < 3 * TICK_NS, "an idle server ran for {ran} ns");
}

/// A client releases a pin without a word, so that the server has to look; upload memory that is
/// given back is seen from outside, where a command would wake the server.
#[test]
fn memory_of_the_last_view_is_given_back_by_a_server_at_rest_that_then_rests_on() {
    let server = Launch::new(Kind::Forebay).option("hz", "500").start();
    let url = format!("shm://{}", server.socket().display());
    let [writer, reader] = [(); 2].map(|()| Client::connect(&url).expect("it serves"));
    let mut creation = writer.create(b"key", 1 << 20).expect("there is memory");
    creation.fill(7);
    creation.seal().expect("it is stored");
    let view = reader.take(b"key").expect("it serves").expect("it is there");
    drop(writer);
    poll_until("its session to end", || server.info("shm_sessions") == 1);
    assert!(view.is_pinned() && server.info("shm_upload_runs") == 1);
    let_pass(Duration::from_secs(1)); // Work that the requests left behind.
    let with_view = kernel::descriptor_count(server.process_id());
    assert!(*view == [7; 1 << 20]);
    drop(view);
    poll_until("the memory to be given back", || {
        kernel::descriptor_count(server.process_id()) < with_view
    });
    let ran = rest(&server);
    assert!(ran < TICK_NS, "an idle server ran for {ran} ns");
}

#[test]
fn sigterm_ends_the_server_in_good_order() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(Kind::Forebay);
        let mut client = server.tcp();
        client.call("SET k v");
        server.signal(signal);
        assert!(server.wait().success(), "SIG{signal}:\n{}", server.log());
        assert!(client.read_to_end().expect("the server closes").is_empty());
        assert!(!server.socket().exists(), "the socket file is gone");
    }
}

#[test]
fn shutdown_ends_the_server_in_good_order() {
    let lines = ["SHUTDOWN", "SHUTDOWN NOSAVE", "shutdown nosave now force", "SHUTDOWN SAVE FORCE"];
    for line in lines {
        let mut server = Server::start(Kind::Forebay);
        let mut client = server.unix();
        client.send(&harness::encode(&[words(line)])).expect("the server takes a request");
        assert!(server.wait().success(), "{line}:\n{}", server.log());
        assert!(client.read_to_end().expect("the server closes").is_empty(), "no reply to {line}");
        assert!(!server.socket().exists(), "the socket file is gone");
    }
}

#[test]
fn options_without_effect_are_noted_at_start_and_once_set() {
    let server = Launch::new(Kind::Forebay).option("repl-timeout", "2").start();
    let mut client = server.tcp();
    assert!(server.log().contains("no effect here names=repl-timeout\n"), "{}", server.log());
    client.call("CONFIG SET lazyfree-lazy-expire yes repl-timeout 3 maxmemory 0 appendonly no");
    let noted = "no effect here names=lazyfree-lazy-expire\n";
    assert!(server.log().contains(noted), "{}", server.log());
}

#[test]
fn replies_that_are_due_leave_before_the_server_does() {
    let mut server = Server::start(Kind::Forebay);
    let mut client = server.tcp();
    client.send(b"SET k v\r\nGET k\r\nSHUTDOWN NOSAVE\r\nGET k\r\n").expect("requests are taken");
    let said = client.read_to_end().expect("the server closes");
    assert_eq!(said.escape_ascii().to_string(), b"+OK\r\n$1\r\nv\r\n".escape_ascii().to_string());
    assert!(server.wait().success());
}

#[test]
fn a_port_that_is_taken_ends_the_start() {
    let server = Server::start(Kind::Forebay);
    let launch = Launch::new(Kind::Forebay).port(server.address().port());
    let log = launch.try_start().expect_err("two servers cannot have one port");
    assert!(!log.trim().is_empty(), "the server says why");
    assert_eq!(server.tcp().call("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn an_option_that_does_not_exist_ends_the_start_and_is_named() {
    let launch = Launch::new(Kind::Forebay).option("no-such-option", "yes");
    let log = launch.try_start().expect_err("the option does not exist");
    assert!(log.contains("no-such-option"), "{log}");
}

#[test]
fn a_stale_socket_file_is_no_obstacle() {
    let mut server = Server::start(Kind::Forebay);
    server.signal("KILL");
    server.wait();
    assert!(server.socket().exists(), "a killed server leaves its socket file");
    let again = Launch::new(Kind::Forebay).socket(server.socket()).start();
    assert_eq!(again.unix().call("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn server_whose_workers_lack_descriptors_does_not_start() {
    // Enough for the mailboxes of all workers, not for what each of them opens.
    let launch = Launch::new(Kind::Forebay).option("workers", "40");
    let launch = launch.by(&["sh", "-c", "ulimit -n 70; exec \"$@\"", "sh"]);
    let log = launch.try_start().expect_err("some of its connections would never be served");
    assert!(log.contains("cannot start"), "{log}");
    assert!(!log.contains("Ready to accept"), "{log}");
}
