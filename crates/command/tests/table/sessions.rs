//! What commands do to the session, and what they ask of the host.

use std::time::Duration;

use command::{REDIS_VERSION, ShutdownRequest};
use resp::Protocol;

use crate::support::World;

#[test]
fn hello_changes_the_protocol_of_its_own_reply() {
    let mut world = World::new();
    let reply = world.raw(&[b"HELLO", b"3"]);
    assert!(reply.starts_with(b"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"));
    assert_eq!(world.session.protocol, Protocol::Resp3);
    let reply = world.raw(&[b"HELLO", b"2", b"SETNAME", b"lake"]);
    let head =
        format!("*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n{REDIS_VERSION}");
    assert!(reply.starts_with(head.as_bytes()));
    assert_eq!(world.session.names.session(), b"lake");
}

#[test]
fn hello_that_fails_changes_nothing() {
    let mut world = World::new();
    world.host.password = Some(b"secret");
    world.session.authenticated = false;
    for request in [
        "HELLO 3",
        "HELLO 3 SETNAME lake",
        "HELLO 3 AUTH default wrong SETNAME lake",
        "HELLO 4 AUTH default secret",
        "HELLO 3 AUTH default secret SETNAME a b",
    ] {
        assert!(world.ask(request).starts_with("(error)"), "{request}");
        assert_eq!(world.session.protocol, Protocol::Resp2, "{request}");
        assert!(
            world.session.names.session().is_empty() && !world.session.authenticated,
            "{request}"
        );
    }
    world.ask("HELLO 3 AUTH default secret");
    assert!(world.session.authenticated);
}

#[test]
fn auth_compares_with_the_host() {
    let mut world = World::new();
    world.host.password = Some(b"secret");
    world.session.authenticated = false;
    assert_eq!(
        world.ask("AUTH wrong"),
        "(error) WRONGPASS invalid username-password pair or user is disabled."
    );
    assert!(!world.session.authenticated);
    assert_eq!(world.ask("AUTH secret"), "OK");
    assert!(world.session.authenticated);
    assert_eq!(world.ask("AUTH default secret"), "OK");
}

#[test]
fn reset_makes_the_session_new() {
    let mut world = World::new();
    world.ask("HELLO 3");
    world.ask("SELECT 3");
    world.ask("CLIENT SETNAME lake");
    world.ask("CLIENT SETINFO LIB-NAME hill");
    world.ask("MULTI");
    assert_eq!(world.ask("RESET"), "RESET");
    assert_eq!(world.session.database.0, 0);
    assert_eq!(world.session.protocol, Protocol::Resp2);
    assert!(world.session.names.session().is_empty() && world.session.transaction.is_none());
    assert_eq!(world.session.names.library(), b"hill");
}

#[test]
fn client_list_tells_the_asking_session_as_it_is_now() {
    let mut world = World::new();
    world.ask("CLIENT SETNAME lake");
    world.ask("SELECT 3");
    let text = world.ask("CLIENT LIST");
    let lines: Vec<&str> = text.trim_matches('"').split("\\n").collect();
    let expected = "id=7 addr=1.2.3.4:5 laddr= fd=0 name=lake age=0 idle=0 flags=N db=3 sub=0 \
                    psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=10 multi-mem=0 rbs=0 rbp=0 \
                    obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|list user=default redir=-1 \
                    resp=2 lib-name= lib-ver=";
    assert_eq!(lines[0], expected);
    assert!(lines[1].starts_with("id=8 ") && lines[1].contains(" idle=9 "));
    assert_eq!(world.ask("CLIENT LIST ID 8 99 8").matches("id=8 ").count(), 2);
    assert_eq!(world.ask("CLIENT LIST TYPE pubsub"), "\"\"");
}

#[test]
fn transaction_queues_and_watches() {
    let mut world = World::new();
    world.ask("MULTI");
    assert_eq!(
        world.ask("NOTHING"),
        "(error) ERR unknown command 'NOTHING', with args beginning with: "
    );
    assert_eq!(
        world.ask("EXEC"),
        "(error) EXECABORT Transaction discarded because of previous errors."
    );
    world.ask("MULTI");
    assert_eq!(world.ask("MULTI"), "(error) ERR MULTI calls can not be nested");
    assert_eq!(world.ask("WATCH k"), "(error) ERR WATCH inside MULTI is not allowed");
    assert_eq!(world.ask("SET k v"), "QUEUED");
    assert_eq!(world.ask("INCR k"), "QUEUED");
    assert_eq!(world.ask("EXEC"), "1) OK\n2) (error) ERR value is not an integer or out of range");
}

#[test]
fn shutdown_passes_its_options_on_and_says_nothing() {
    let mut world = World::new();
    assert!(world.raw(&[b"SHUTDOWN", b"nosave", b"FORCE"]).is_empty());
    let expected = ShutdownRequest { save: Some(false), force: true };
    assert_eq!(world.host.shutdown.get(), Some(expected));
    assert_eq!(world.ask("SHUTDOWN ABORT"), "OK");
    for request in ["SHUTDOWN SAVE NOSAVE", "SHUTDOWN NOW ABORT", "SHUTDOWN soon"] {
        assert_eq!(world.ask(request), "(error) ERR syntax error", "{request}");
    }
    assert_eq!(world.host.shutdown.get(), None);
}

#[test]
fn debug_sleep_takes_what_strtod_would() {
    let mut world = World::new();
    for (text, expected) in [("0.25", 250), ("-1", 0), ("nan", 0), ("soon", 0)] {
        assert_eq!(world.ask(&format!("DEBUG SLEEP {text}")), "OK");
        assert_eq!(world.host.slept.get(), Duration::from_millis(expected), "{text}");
    }
}

#[test]
fn scan_from_any_cursor_ends() {
    let mut world = World::new();
    world.ask("DEBUG POPULATE 1000");
    let mut found = 0;
    let mut cursor = "0".to_owned();
    loop {
        let text = world.ask(&format!("SCAN {cursor} COUNT 7"));
        found += text.matches("key:").count();
        cursor = text.split('"').nth(1).expect("the cursor comes first").to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, 1000);
    for cursor in ["18446744073709551615", "-1", "123456789", "9223372036854775808"] {
        assert!(world.ask(&format!("SCAN {cursor}")).starts_with("1) \""), "{cursor}");
    }
}
