//! Descriptors that clients pass, or do not take.
//!
//! What a test here says of an older kernel is what the server does where SO_PASSRIGHTS is not
//! known (before Linux 6.16), which a filter on system calls has this kernel say.

use harness::{Kind, Launch, Server, poll_until, signal};
use resp::Value;

use super::assert_healthy;
use super::script::Script;

const OLDER_KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hostile/older_kernel.py");

/// Returns a server with one worker, which everybody has to wait for.
fn server(is_older_kernel: bool) -> Server {
    let launch = Launch::new(Kind::Forebay).option("workers", "1");
    match is_older_kernel {
        true => launch.by(&["python3", "-B", OLDER_KERNEL]).start(),
        false => launch.start(),
    }
}

/// Has a client pass a descriptor whose close does not end; others are served all the same.
/// Returns whether the kernel took it.
fn pass(server: &Server, place: &str) -> bool {
    let mut friend = server.unix();
    friend.call("PING");
    let mut client = Script::start(server, "descriptor_client.py", &[place]);
    assert_eq!(client.step(), "ready");
    if place == "waiting" {
        poll_until("the client to wait", || server.info("blocked_clients") == 1);
    }
    signal(server.process_id(), "STOP");
    client.tell("pass");
    let said = client.step();
    signal(server.process_id(), "CONT");
    if place == "waiting" {
        friend.call("CLIENT KILL TYPE normal SKIPME yes");
    }
    // Each turn of the worker comes after what the client has had it do.
    for _ in 0..3 {
        assert_eq!(friend.call("PING"), Value::Simple(b"PONG".to_vec()));
        assert_healthy(server);
    }
    client.tell("read");
    client.kill("it to be gone", || server.info("connected_clients") <= 2);
    said == "passed"
}

#[test]
fn descriptor_passed_with_a_request_holds_no_worker_up() {
    pass(&server(false), "request");
}

#[test]
fn descriptor_passed_into_the_bell_of_a_lane_holds_no_worker_up() {
    for is_older_kernel in [false, true] {
        assert!(!pass(&server(is_older_kernel), "bell"), "nothing is read from a bell");
    }
}

#[test]
fn descriptor_that_nobody_has_received_holds_no_worker_up() {
    pass(&server(false), "waiting");
}

#[test]
fn descriptor_passed_on_an_older_kernel_holds_no_worker_up() {
    for place in ["request", "waiting"] {
        assert!(pass(&server(true), place), "the kernel takes it");
    }
}
