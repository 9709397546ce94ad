//! Starting, resting, stopping.

use std::time::Duration;

use harness::{Kind, Launch, Server, kernel, let_pass, words};
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
    for line in ["SHUTDOWN", "SHUTDOWN NOSAVE", "shutdown nosave now force"] {
        let mut server = Server::start(Kind::Forebay);
        let mut client = server.unix();
        client.send(&harness::encode(&[words(line)])).expect("the server takes a request");
        assert!(server.wait().success(), "{line}:\n{}", server.log());
        assert!(client.read_to_end().expect("the server closes").is_empty(), "no reply to {line}");
        assert!(!server.socket().exists(), "the socket file is gone");
    }
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
