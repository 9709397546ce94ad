//! What signals do.

use harness::{Kind, Launch, poll_until};

/// A reply that no kernel buffer takes whole.
const REPLY_BYTES: usize = 64 << 20;

#[test]
fn a_second_signal_ends_a_shutdown_that_waits() {
    for signal in ["INT", "TERM"] {
        let mut server = Launch::new(Kind::Forebay).option("shutdown-timeout", "1000").start();
        let mut client = server.tcp();
        client.call(&format!("SETRANGE k {} x", REPLY_BYTES - 1));
        client.send(b"GET k\r\n").expect("the server takes a request");
        // The reply is underway once the rest of the pipeline is answered no more.
        poll_until("a reply that waits", || {
            let list = format!("{:?}", server.tcp().ask(&harness::words("CLIENT LIST")));
            list.contains("cmd=get")
        });
        server.signal(signal);
        poll_until("the shutdown to begin", || server.log().contains("scheduling shutdown"));
        harness::let_pass(std::time::Duration::from_millis(300)); // It waits.
        assert_eq!(server.status(), None, "it waits for its client:\n{}", server.log());
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(1), "{}", server.log());
        assert!(server.log().contains("You insist... exiting now."), "{}", server.log());
    }
}

#[test]
fn a_signal_shuts_down_as_its_option_says() {
    let launch = Launch::new(Kind::Forebay).option("shutdown-on-sigterm", "save");
    let mut server = launch.start();
    let obstacle = server.folder().join(&format!("temp-{}.rdb", server.process_id()));
    std::fs::create_dir(obstacle).expect("nobody has the name");
    server.signal("TERM");
    poll_until("the refusal", || server.log().contains("Error trying to save the DB, can't exit"));
    server.tcp().call("CONFIG SET shutdown-on-sigterm nosave");
    server.signal("TERM");
    assert!(server.wait().success(), "{}", server.log());
}

#[test]
fn a_hangup_and_a_broken_pipe_do_nothing() {
    let server = Launch::new(Kind::Forebay).start();
    for signal in ["HUP", "PIPE"] {
        server.signal(signal);
    }
    server.tcp().call("PING");
}
