//! What one session does to another: CLIENT KILL, PAUSE, UNBLOCK, MONITOR, with two workers, so
//! that sessions are with different threads.

use std::time::Duration;

use harness::{Connection, Kind, Launch, Server, encode, let_pass, poll_until, request, words};
use resp::Value;

pub fn start(kind: Kind, options: &[(&str, &str)]) -> Server {
    let mut launch = Launch::new(kind);
    if kind == Kind::Forebay {
        launch = launch.option("workers", "2");
    }
    options.iter().fold(launch, |launch, (name, value)| launch.option(name, value)).start()
}

/// Runs `check` on Forebay with two workers and on redis-server.
fn on_both(check: fn(&Server)) {
    for kind in [Kind::Forebay, Kind::Redis] {
        check(&start(kind, &[]));
    }
}

pub fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

pub fn id(connection: &mut Connection) -> i64 {
    let Value::Integer(id) = connection.call("CLIENT ID") else { panic!("an id is a number") };
    id
}

/// Returns a field of session `id` in CLIENT LIST; none when the session is gone.
fn field(connection: &mut Connection, id: i64, name: &str) -> Option<String> {
    let line = text(&connection.call(&format!("CLIENT LIST ID {id}")));
    let mut fields = line.split(' ').filter_map(|field| field.split_once('='));
    fields.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

pub fn flags(connection: &mut Connection, id: i64) -> Option<String> {
    field(connection, id, "flags")
}

pub fn info(connection: &mut Connection, name: &str) -> String {
    let text = text(&connection.call("INFO everything"));
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("INFO has {name}")).to_owned()
}

/// Sends requests as one pipeline, without waiting for replies.
pub fn send(connection: &mut Connection, requests: &[&str]) {
    let requests: Vec<_> = requests.iter().map(|line| words(line)).collect();
    connection.send(&encode(&requests)).expect("the server listens");
}

pub fn read(connection: &mut Connection) -> String {
    let raw = connection.read().expect("a reply comes");
    String::from_utf8_lossy(&raw.bytes).into_owned()
}

/// Returns whether the server has closed the connection without a word.
pub fn is_closed(connection: &mut Connection) -> bool {
    connection.read().is_err()
}

pub fn poll_blocked(connection: &mut Connection, count: usize) {
    poll_until("sessions to wait", || info(connection, "blocked_clients") == count.to_string());
}

#[test]
fn a_killed_session_is_gone_for_whoever_asks_next() {
    on_both(|server| {
        let mut killer = server.tcp();
        let mut others: Vec<Connection> = (0..8).map(|_| server.tcp()).collect();
        for other in &mut others {
            let id = id(other);
            let killed = killer.call(&format!("CLIENT KILL ID {id}"));
            assert_eq!(killed, Value::Integer(1));
            assert_eq!(flags(&mut killer, id), None);
            assert!(is_closed(other));
        }
        // Those that waited for the server's start may still be there.
        poll_until("all to be gone", || info(&mut killer, "connected_clients") == "1");
    });
}

#[test]
fn sessions_are_killed_by_where_they_come_from() {
    on_both(|server| {
        let mut killer = server.tcp();
        let (mut far, mut near) = (server.tcp(), server.unix());
        let line = text(&far.call("CLIENT INFO"));
        let address = line.split(' ').find_map(|field| field.strip_prefix("addr=")).unwrap();
        assert_eq!(killer.call(&format!("CLIENT KILL {address}")), Value::Simple(b"OK".into()));
        assert!(is_closed(&mut far));
        let path = server.socket().display();
        let by_path = format!("CLIENT KILL TYPE normal LADDR {path}:0 USER default");
        near.call("PING");
        assert_eq!(killer.call(&by_path), Value::Integer(1));
        assert!(is_closed(&mut near));
    });
}

#[test]
fn a_kill_ends_a_wait_and_what_was_to_follow_it() {
    on_both(|server| {
        let mut killer = server.tcp();
        let mut blocked = server.tcp();
        let id = id(&mut blocked);
        send(&mut blocked, &["WAIT 1 0", "SET k v"]);
        poll_blocked(&mut killer, 1);
        assert_eq!(killer.call(&format!("CLIENT KILL ID {id}")), Value::Integer(1));
        assert_eq!(info(&mut killer, "blocked_clients"), "0");
        assert!(is_closed(&mut blocked));
        assert_eq!(killer.call("EXISTS k"), Value::Integer(0));
    });
}

#[test]
fn a_session_that_waits_goes_on_as_it_is_told_and_only_once() {
    on_both(|server| {
        let mut other = server.tcp();
        for (reason, reply) in [
            ("", ":0\r\n"),
            (" TIMEOUT", ":0\r\n"),
            (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
        ] {
            // Sessions of both workers.
            let mut blocked = [server.tcp(), server.tcp()];
            for blocked in &mut blocked {
                let id = id(blocked);
                send(blocked, &["SET k v", "WAIT 3 0", "GET k"]);
                assert_eq!(read(blocked), "+OK\r\n");
                poll_blocked(&mut other, 1);
                assert_eq!(flags(&mut other, id).as_deref(), Some("b"));
                let unblock = format!("CLIENT UNBLOCK {id}{reason}");
                assert_eq!(other.call(&unblock), Value::Integer(1));
                assert_eq!(other.call(&unblock), Value::Integer(0));
                assert_eq!((read(blocked), read(blocked)), (reply.into(), "$1\r\nv\r\n".into()));
                assert_eq!(flags(&mut other, id).as_deref(), Some("N"));
            }
        }
        assert_eq!(info(&mut other, "blocked_clients"), "0");
    });
}

#[test]
fn a_wait_ends_by_itself_and_with_its_peer() {
    on_both(|server| {
        let mut other = server.tcp();
        let mut blocked = server.tcp();
        send(&mut blocked, &["WAIT 1 30", "PING", "WAIT 1 1", "NOPE"]);
        assert_eq!((read(&mut blocked), read(&mut blocked)), (":0\r\n".into(), "+PONG\r\n".into()));
        assert_eq!(read(&mut blocked), ":0\r\n");
        assert!(read(&mut blocked).starts_with("-ERR unknown command 'NOPE'"));
        send(&mut blocked, &["WAIT 1 100000"]);
        poll_blocked(&mut other, 1);
        assert_eq!(info(&mut other, "clients_in_timeout_table"), "1");
        drop(blocked);
        poll_blocked(&mut other, 0);
        assert_eq!(info(&mut other, "clients_in_timeout_table"), "0");
    });
}

#[test]
fn requests_behind_a_wait_come_in_pieces_and_in_order() {
    on_both(|server| {
        // All of one batch, its last one cut, and more than one batch takes.
        [1, 300].into_iter().for_each(|count| check_pieces(server, count));
    });
}

fn check_pieces(server: &Server, count: usize) {
    let mut other = server.tcp();
    other.call("FLUSHALL");
    let mut blocked = server.tcp();
    let id = id(&mut blocked);
    let mut bytes = encode(&[words("WAIT 1 0")]);
    // An inline request with quotes.
    bytes.extend_from_slice(b"SET \"a\\x41\" \"v \\\"\"\r\n");
    let appends: Vec<_> = (0..count).map(|index| words(&format!("APPEND k {index},"))).collect();
    bytes.extend(encode(&appends));
    let cut = bytes.len() - 7;
    blocked.send(&bytes[..cut]).expect("the server listens");
    poll_blocked(&mut other, 1);
    blocked.send(&bytes[cut..]).expect("the server listens");
    assert_eq!(other.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(1));
    assert_eq!((read(&mut blocked), read(&mut blocked)), (":0\r\n".into(), "+OK\r\n".into()));
    (0..count).for_each(|_| assert!(read(&mut blocked).starts_with(':')));
    assert_eq!(text(&other.call("GET aA")), "v \"");
    let expected: String = (0..count).map(|index| format!("{index},")).collect();
    assert_eq!(text(&other.call("GET k")), expected);
}

#[test]
fn a_broken_request_behind_a_wait_is_told_of_after_it() {
    on_both(|server| {
        let mut other = server.tcp();
        for broken in [&b"SET \"a\\x41\" \"b\r\n"[..], b"*x\r\n", b"*1\r\n$x\r\n"] {
            let mut blocked = server.tcp();
            let id = id(&mut blocked);
            let mut bytes = encode(&[words("WAIT 1 0"), words("PING")]);
            bytes.extend_from_slice(broken);
            blocked.send(&bytes).unwrap();
            poll_blocked(&mut other, 1);
            assert_eq!(other.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(1));
            let replies = (read(&mut blocked), read(&mut blocked));
            assert_eq!(replies, (":0\r\n".into(), "+PONG\r\n".into()));
            assert!(read(&mut blocked).starts_with("-ERR Protocol error"));
            assert!(is_closed(&mut blocked));
        }
    });
}

#[test]
fn a_pause_of_writes_holds_what_may_keep_a_count() {
    on_both(|server| {
        let (mut admin, mut reader) = (server.tcp(), server.tcp());
        admin.call("PFADD k a");
        admin.call("CLIENT PAUSE 100000 WRITE");
        send(&mut reader, &["PFCOUNT k"]);
        poll_blocked(&mut admin, 1);
        admin.call("CLIENT UNPAUSE");
        assert_eq!(read(&mut reader), ":1\r\n");
    });
}

#[test]
fn a_pause_of_writes_holds_writes_in_order_and_nothing_else() {
    on_both(|server| {
        let mut admin = server.tcp();
        let mut writers: Vec<Connection> = (0..4).map(|_| server.tcp()).collect();
        admin.call("CLIENT PAUSE 100000 WRITE");
        for writer in &mut writers {
            send(writer, &["GET k", "APPEND k a", "APPEND k b", "GET other"]);
            assert_eq!(read(writer), "$-1\r\n");
        }
        poll_blocked(&mut admin, 4);
        assert_eq!(admin.call("GET k"), Value::Null);
        assert_eq!(admin.call("CLIENT PAUSE 1 WRITE"), Value::Simple(b"OK".into()));
        let id = id(&mut server.tcp());
        assert_eq!(admin.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(0));
        assert_eq!(info(&mut admin, "blocked_clients"), "4");
        assert_eq!(admin.call("CLIENT UNPAUSE"), Value::Simple(b"OK".into()));
        for writer in &mut writers {
            assert!(read(writer).starts_with(':') && read(writer).starts_with(':'));
            assert_eq!(read(writer), "$-1\r\n");
        }
        assert_eq!(text(&admin.call("GET k")).len(), 8);
        assert_eq!(info(&mut admin, "blocked_clients"), "0");
    });
}

#[test]
fn a_pause_of_all_holds_everybody_until_it_is_over() {
    on_both(|server| {
        let mut admin = server.tcp();
        let mut others: Vec<Connection> = (0..4).map(|_| server.tcp()).collect();
        others.iter_mut().for_each(|other| drop(other.call("PING")));
        assert_eq!(admin.call("CLIENT PAUSE 200"), Value::Simple(b"OK".into()));
        for other in &mut others {
            send(other, &["INCR k", "PING"]);
        }
        for other in &mut others {
            assert!(read(other).starts_with(':'));
            assert_eq!(read(other), "+PONG\r\n");
        }
        assert_eq!(text(&admin.call("GET k")), "4");
    });
}

#[test]
fn nothing_expires_during_a_pause() {
    on_both(|server| {
        let mut admin = server.tcp();
        send(&mut admin, &["SET k v PX 300", "CLIENT PAUSE 100000 WRITE"]);
        assert_eq!((read(&mut admin), read(&mut admin)), ("+OK\r\n".into(), "+OK\r\n".into()));
        let_pass(Duration::from_millis(700));
        assert_eq!(admin.call("GET k"), Value::Null);
        assert_eq!(admin.call("DBSIZE"), Value::Integer(1));
        admin.call("CLIENT UNPAUSE");
        poll_until("the key to be swept", || admin.call("DBSIZE") == Value::Integer(0));
    });
}

/// Returns the lines that a monitor is shown up to the one that ends with `last`, without times.
fn shown(monitor: &mut Connection, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = read(monitor);
        let line = line.trim_end();
        let (time, rest) = line.split_once(' ').expect("a time comes first");
        let (seconds, fraction) = time[1..].split_once('.').expect("a time has a fraction");
        assert!(seconds.len() == 10 && fraction.len() == 6, "{line}");
        lines.push(rest.to_owned());
        if rest.ends_with(last) {
            return lines;
        }
    }
}

/// Returns how MONITOR shows where `connection` comes from.
fn source(connection: &mut Connection) -> String {
    let line = text(&connection.call("CLIENT INFO"));
    let address = line
        .split(' ')
        .find_map(|field| field.strip_prefix("addr="))
        .expect("CLIENT INFO has an address");
    match address.strip_suffix(":0") {
        Some(path) => format!("unix:{path}"),
        None => address.to_owned(),
    }
}

#[test]
fn monitors_are_shown_what_redis_shows() {
    on_both(|server| {
        let mut client = server.unix();
        let source = source(&mut client);
        let mut monitors = [server.tcp(), server.tcp()];
        for monitor in &mut monitors {
            assert_eq!(monitor.call("MONITOR"), Value::Simple(b"OK".into()));
        }
        let lines = [
            "SET k a",
            "GET",
            "NOPE",
            "HELLO 2 AUTH default secret SETNAME me",
            "AUTH secret",
            "CONFIG GET maxmemory",
            "MULTI",
            "SET k b",
            "AUTH default x",
            "EXEC",
            "INCR k",
            "WAIT 1 5",
            "SELECT 3",
        ];
        lines.iter().for_each(|line| drop(client.call(line)));
        client.ask(&harness::request(&[&b"ECHO"[..], b"a\"\\\n\r\t\x07\x08\x00\xff "]));
        client.call("PING end");
        let expected = [
            (0, r#""SET" "k" "a""#),
            (0, r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me""#),
            (0, r#""AUTH" "(redacted)""#),
            (0, r#""MULTI""#),
            (0, r#""SET" "k" "b""#),
            (0, r#""AUTH" "(redacted)" "(redacted)""#),
            (0, r#""EXEC""#),
            (0, r#""INCR" "k""#),
            (0, r#""WAIT" "1" "5""#),
            (3, r#""SELECT" "3""#),
            (3, r#""ECHO" "a\"\\\n\r\t\a\b\x00\xff ""#),
            (3, r#""PING" "end""#),
        ]
        .map(|(database, words)| format!("[{database} {source}] {words}"));
        for monitor in &mut monitors {
            assert_eq!(shown(monitor, r#""PING" "end""#), expected);
        }
    });
}

#[test]
fn a_monitor_that_resets_is_a_session_like_others() {
    on_both(|server| {
        let (mut client, mut monitor) = (server.tcp(), server.tcp());
        let id = id(&mut monitor);
        monitor.call("MONITOR");
        assert_eq!(flags(&mut client, id).as_deref(), Some("O"));
        assert_eq!(monitor.call("RESET"), Value::Simple(b"RESET".into()));
        assert_eq!(flags(&mut client, id).as_deref(), Some("N"));
        client.call("PING");
        assert_eq!(monitor.call("GET k"), Value::Null);
        monitor.call("MONITOR");
        send(&mut monitor, &["QUIT"]);
        let rest = monitor.read_to_end().expect("the server closes");
        assert!(rest.ends_with(b"+OK\r\n"));
        assert_eq!(client.call("PING"), Value::Simple(b"PONG".into()));
    });
}

#[test]
fn all_monitors_see_all_commands_and_those_of_a_session_in_order() {
    const SESSIONS: usize = 6;
    const COMMANDS: usize = 400;
    let server = start(Kind::Forebay, &[]);
    let mut monitors: Vec<Connection> = (0..4).map(|_| server.tcp()).collect();
    monitors.iter_mut().for_each(|monitor| drop(monitor.call("MONITOR")));
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.tcp();
                let lines: Vec<String> =
                    (0..COMMANDS).map(|index| format!("ECHO {session}:{index}")).collect();
                for batch in lines.chunks(50) {
                    send(&mut client, &batch.iter().map(String::as_str).collect::<Vec<_>>());
                    batch.iter().for_each(|_| drop(read(&mut client)));
                }
            });
        }
    });
    server.tcp().call("PING end");
    for monitor in &mut monitors {
        let mut next = [0; SESSIONS];
        for line in shown(monitor, r#""PING" "end""#) {
            let Some((_, word)) = line.split_once(r#""ECHO" ""#) else { continue };
            let (session, index) = word.trim_end_matches('"').split_once(':').unwrap();
            let session: usize = session.parse().unwrap();
            assert_eq!(index.parse::<usize>().unwrap(), next[session], "session {session}");
            next[session] += 1;
        }
        assert_eq!(next, [COMMANDS; SESSIONS]);
    }
}

#[test]
fn a_slow_monitor_is_closed_and_holds_nobody_up() {
    let limit = [("client-output-buffer-limit", "normal 1mb 0 0")];
    let server = start(Kind::Forebay, &limit);
    let mut slow = [server.tcp(), server.tcp()];
    slow.iter_mut().for_each(|slow| drop(slow.call("MONITOR")));
    let mut client = server.tcp();
    let value = "v".repeat(10_000);
    poll_until("the slow monitors to be closed", || {
        for _ in 0..100 {
            assert_eq!(client.call(&format!("SET k {value}")), Value::Simple(b"OK".into()));
        }
        info(&mut client, "client_output_buffer_limit_disconnections") == "2"
    });
    assert!(server.log().contains("Client closed for overcoming of output buffer limits"));
    poll_until("nobody else to be there", || info(&mut client, "connected_clients") == "1");
}

#[test]
fn replies_that_wait_are_shown_as_a_list_beyond_the_buffer() {
    const VALUE_BYTES: usize = 100_000;
    on_both(|server| {
        let mut admin = server.tcp();
        admin.ask(&request(&["SET", "k", &"v".repeat(VALUE_BYTES)]));
        let mut slow = server.unix();
        let slow_id = id(&mut slow);
        let mut number = |name: &str| -> usize {
            field(&mut admin, slow_id, name).and_then(|text| text.parse().ok()).expect("a number")
        };
        assert_eq!(["oll", "omem"].map(&mut number), [0, 0]);
        send(&mut slow, &["GET k"; 50]);
        poll_until("replies to wait", || number("oll") > 20);
        let [count, bytes] = ["oll", "omem"].map(&mut number);
        assert!(number("obl") <= 16 * 1024, "the buffer of Redis holds no more");
        // The first of them may be sent in part.
        let each = VALUE_BYTES - VALUE_BYTES / 10..VALUE_BYTES + VALUE_BYTES / 10;
        assert!(each.contains(&(bytes / count)), "{count} pieces of {bytes} bytes");
        (0..50).for_each(|_| drop(read(&mut slow)));
        assert_eq!(["obl", "oll", "omem"].map(&mut number), [0; 3]);
    });
}

#[test]
fn limit_of_output_is_of_what_the_reply_buffer_does_not_hold() {
    on_both(|server| {
        let mut admin = server.tcp();
        for bytes in [1_000, 16_000, 17_000] {
            admin.ask(&request(&["SET", &format!("k:{bytes}"), &"v".repeat(bytes)]));
        }
        let limit = "normal 10 0 0";
        admin.ask(&request(&["CONFIG", "SET", "client-output-buffer-limit", limit]));
        for (name, count, is_sent) in [
            ("k:1000", 1, true),
            ("k:1000", 12, true),
            ("k:1000", 20, false),
            ("k:16000", 1, true),
            ("k:17000", 1, false),
        ] {
            // The buffer of Redis shrinks with time: a new client has all of it.
            let mut client = server.tcp();
            send(&mut client, &vec![format!("GET {name}").as_str(); count]);
            match is_sent {
                true => (0..count).for_each(|_| assert!(read(&mut client).starts_with('$'))),
                false => assert!(is_closed(&mut client), "{:?}: {count} {name}", server.kind()),
            }
        }
    });
}

#[test]
fn replies_that_are_not_wanted_do_not_come() {
    on_both(|server| {
        let mut client = server.tcp();
        for (requests, expected) in [
            (&["CLIENT REPLY SKIP", "PING", "ECHO a"][..], &["$1\r\na\r\n"][..]),
            (&["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING", "PING"], &["+PONG\r\n"]),
            (&["CLIENT REPLY SKIP", "CLIENT REPLY ON"], &["+OK\r\n"]),
            (&["CLIENT REPLY SKIP", "NOPE", "PING"], &["+PONG\r\n"]),
            (
                &["CLIENT REPLY OFF", "GET k", "CLIENT REPLY SKIP", "GET", "CLIENT REPLY ON"],
                &["+OK\r\n"],
            ),
            (&["CLIENT REPLY SKIP", "MULTI", "PING", "EXEC"], &["+QUEUED\r\n", "*1\r\n+PONG\r\n"]),
            (&["CLIENT REPLY SKIP", "WAIT 1 5", "PING"], &["+PONG\r\n"]),
            (&["CLIENT REPLY OFF", "PING", "RESET"], &["+RESET\r\n"]),
            (&["CLIENT REPLY SKIP", "RESET", "ECHO a"], &["$1\r\na\r\n"]),
            (&["CLIENT REPLY SKIP", "", "PING"], &["+PONG\r\n"]),
            (&["CLIENT REPLY SKIP", "PING", "", "PING"], &["+PONG\r\n"]),
            (&["CLIENT REPLY OFF", "", "PING", "CLIENT REPLY ON"], &["+OK\r\n"]),
            // The array lacks the reply of CLIENT REPLY, so that the next one is taken for it.
            (
                &["MULTI", "PING", "CLIENT REPLY SKIP", "EXEC", "PING", "ECHO a"],
                &["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n+PONG\r\n$1\r\na\r\n"],
            ),
        ] {
            send(&mut client, requests);
            for expected in expected {
                assert_eq!(read(&mut client), *expected, "{requests:?}");
            }
        }
        assert_eq!(client.call("ECHO end"), Value::Bulk(b"end".into()));
    });
}

#[test]
fn the_largest_clients_go_where_all_take_too_much() {
    on_both(|server| {
        let mut admin = server.tcp();
        admin.call("CLIENT NO-EVICT ON");
        let mut small = server.tcp();
        small.call("CLIENT SETNAME small");
        let (mut large, mut kept) = (server.tcp(), server.tcp());
        kept.call("CLIENT NO-EVICT ON");
        let kept_id = id(&mut kept);
        // Unfinished requests, kept in the buffers of their connections.
        let piece = [b"*2\r\n$3\r\nGET\r\n$3000000\r\n".to_vec(), vec![b'x'; 2_000_000]].concat();
        large.send(&piece).unwrap();
        kept.send(&piece).unwrap();
        admin.call("CONFIG SET maxmemory-clients 3mb");
        // A byte more each time: Redis looks at what a client takes when that takes more.
        poll_until("the largest to go", || {
            kept.send(b"x").unwrap();
            info(&mut admin, "evicted_clients") != "0"
        });
        assert!(is_closed(&mut large));
        assert_eq!(info(&mut admin, "evicted_clients"), "1");
        assert_eq!(flags(&mut admin, kept_id).as_deref(), Some("e"));
        assert_eq!(text(&small.call("CLIENT GETNAME")), "small");
        admin.call("CONFIG SET maxmemory-clients 0");
    });
}

#[test]
fn a_client_that_leaves_large_values_unread_takes_their_memory() {
    on_both(|server| {
        let mut admin = server.tcp();
        admin.call("CLIENT NO-EVICT ON");
        admin.call(&format!("SET k {}", "v".repeat(500_000)));
        admin.call("CONFIG SET maxmemory-clients 2mb");
        let mut lazy = server.unix();
        send(&mut lazy, &["GET k"; 40]);
        poll_until("the lazy one to go", || info(&mut admin, "evicted_clients") == "1");
        poll_until("nobody else to be there", || info(&mut admin, "connected_clients") == "1");
    });
}

#[test]
fn a_request_that_takes_more_than_clients_may_ends_its_client_before_it_runs() {
    on_both(|server| {
        let mut admin = server.tcp();
        admin.call("CLIENT NO-EVICT ON");
        admin.call("CONFIG SET maxmemory-clients 10mb");
        let mut evicted = 0;
        for mebibytes in [11, 30] {
            let value = vec![b'v'; mebibytes << 20];
            let requests: [&[&[u8]]; 5] = [
                &[b"SET", b"k", &value],
                &[b"APPEND", b"k", &value],
                &[b"MSET", b"k", &value, b"l", b"x"],
                &[b"HSET", b"k", b"field", &value],
                &[b"SETRANGE", b"k", b"0", &value],
            ];
            for words in requests {
                let mut client = server.unix();
                // It may be closed before it has sent all.
                let _ = client.send(&encode(&[request(words)]));
                assert!(is_closed(&mut client), "{}", words[0].escape_ascii());
                evicted += 1;
                let count = || info(&mut admin, "evicted_clients") == evicted.to_string();
                poll_until("the client to be evicted", count);
                assert_eq!(admin.call("EXISTS k l"), Value::Integer(0));
            }
        }
        let mut client = server.unix();
        client.ask(&request(&[b"SET".as_slice(), b"k", &vec![b'v'; 1 << 20]]));
        assert_eq!(client.call("STRLEN k"), Value::Integer(1 << 20));
    });
}

#[test]
fn watched_keys_are_part_of_what_a_client_takes() {
    on_both(|server| {
        let mut admin = server.tcp();
        admin.call("CLIENT NO-EVICT ON");
        admin.call("CONFIG SET maxmemory-clients 200000");
        let mut client = server.tcp();
        let id = id(&mut client);
        let watch = |from: usize, to: usize| {
            let keys = (from..to).flat_map(|number| [" key:".to_owned(), number.to_string()]);
            format!("WATCH{}", keys.collect::<String>())
        };
        let memory = |admin: &mut Connection| -> u64 {
            field(admin, id, "tot-mem").and_then(|bytes| bytes.parse().ok()).expect("it is there")
        };
        let before = memory(&mut admin);
        client.call(&watch(0, 200));
        poll_until("the keys to be counted", || memory(&mut admin) >= before + 200 * 32);
        client.call("UNWATCH");
        poll_until("the memory to be free", || memory(&mut admin) < before + 200 * 32);
        let _ = client.send(&encode(
            &(0..200).map(|part| words(&watch(100 * part, 100 * part + 100))).collect::<Vec<_>>(),
        ));
        poll_until("it to go", || info(&mut admin, "evicted_clients") == "1");
    });
}

#[test]
fn a_wait_is_part_of_what_a_client_takes() {
    on_both(|server| {
        let (mut admin, mut client) = (server.tcp(), server.tcp());
        let id = id(&mut client);
        let number = |admin: &mut Connection, name: &str| -> usize {
            field(admin, id, name).and_then(|bytes| bytes.parse().ok()).expect("it is there")
        };
        let name = "k".repeat(10_000);
        let before = number(&mut admin, "tot-mem");
        send(&mut client, &[&format!("BLPOP {name} 0")]);
        let argument_bytes = name.len() + "BLPOP0".len();
        poll_until("it to wait", || number(&mut admin, "argv-mem") == argument_bytes);
        poll_until("it to be counted", || number(&mut admin, "tot-mem") >= before + name.len());
        admin.call(&format!("CLIENT UNBLOCK {id} ERROR"));
        assert!(read(&mut client).starts_with("-UNBLOCKED"));
        let statistics = admin.info_text("commandstats");
        let line =
            statistics.lines().find(|line| line.starts_with("cmdstat_blpop")).expect("it ran");
        assert!(line.contains("calls=1,") && line.ends_with("failed_calls=1"), "{line}");
        poll_until("it to be over", || number(&mut admin, "argv-mem") == 0);
    });
}

#[test]
fn a_wait_that_takes_more_than_clients_may_ends_its_client() {
    let server = start(Kind::Forebay, &[("maxmemory-clients", "2mb")]);
    let mut admin = server.tcp();
    admin.call("CLIENT NO-EVICT ON");
    let wait_for = |count: usize| {
        let keys = (0..count).map(|number| format!("key:{number}"));
        let mut client = server.tcp();
        send(&mut client, &[&format!("BLPOP {} 0", keys.collect::<Vec<_>>().join(" "))]);
        client
    };
    let mut patient = wait_for(1_000);
    poll_blocked(&mut admin, 1);
    // Its request is a fraction of that.
    let mut greedy = wait_for(20_000);
    assert!(is_closed(&mut greedy));
    poll_until("it to be counted", || info(&mut admin, "evicted_clients") == "1");
    admin.call("RPUSH key:7 v");
    assert!(read(&mut patient).contains("key:7"));
}

#[test]
fn waits_of_many_keys_that_end_together_leave_turns_to_others() {
    const COUNT: usize = 20;
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let mut admin = server.tcp();
    let mut waiters: Vec<Connection> = (0..COUNT).map(|_| server.tcp()).collect();
    let keys: Vec<String> = (0..20_000).map(|number| format!("key:{number}")).collect();
    let request = format!("BLPOP common {} 0", keys.join(" "));
    waiters.iter_mut().for_each(|waiter| send(waiter, &[&request]));
    poll_blocked(&mut admin, COUNT);
    let rounds = |admin: &mut Connection| -> usize {
        info(admin, "eventloop_cycles").parse().expect("a number")
    };
    let before = rounds(&mut admin);
    admin.call(&format!("RPUSH common {}", "v ".repeat(COUNT).trim_end()));
    assert!(waiters.iter_mut().all(|waiter| read(waiter).contains("common")));
    let after = rounds(&mut admin);
    assert!(after - before >= COUNT, "{} rounds", after - before);
}

#[test]
fn client_that_asks_sees_its_own_query_buffer() {
    on_both(|server| {
        let mut client = server.tcp();
        let text = text(&client.call("CLIENT INFO"));
        assert!(text.contains(" qbuf=26 "), "{text}");
        assert!(!text.contains(" qbuf-free=0 "), "{text}");
    });
}

#[test]
fn rounds_without_requests_are_cycles_of_the_event_loop_too() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let server = start(kind, &[("hz", "100")]);
        let mut client = server.tcp();
        let cycles =
            |client: &mut Connection| -> u64 { info(client, "eventloop_cycles").parse().unwrap() };
        // 7.0 does not have the field.
        if client.info_text("stats").contains("eventloop_cycles") {
            let before = cycles(&mut client);
            let_pass(Duration::from_millis(400));
            assert!(cycles(&mut client) >= before + 10);
        }
    }
}

#[test]
fn tests_can_stop_the_search_for_expired_keys() {
    let server = start(Kind::Forebay, &[]);
    let mut client = server.tcp();
    for (off, on) in [
        ("DEBUG SET-ACTIVE-EXPIRE 0", "DEBUG SET-ACTIVE-EXPIRE 1"),
        ("DEBUG PAUSE-CRON 1", "DEBUG PAUSE-CRON 0"),
    ] {
        client.call(off);
        client.call("SET k v PX 1");
        let_pass(Duration::from_millis(400));
        assert_eq!(client.call("DBSIZE"), Value::Integer(1), "{off}");
        client.call(on);
        poll_until("the key to be swept", || client.call("DBSIZE") == Value::Integer(0));
    }
}

#[test]
fn debug_log_writes_to_the_log() {
    let server = start(Kind::Forebay, &[]);
    assert_eq!(server.tcp().call("DEBUG LOG line"), Value::Simple(b"OK".into()));
    poll_until("the line to be logged", || server.log().contains("DEBUG LOG: line"));
}

#[test]
fn the_last_of_several_names_is_the_one_that_others_see() {
    on_both(|server| {
        let (mut other, mut named) = (server.tcp(), server.tcp());
        let id = id(&mut named);
        named.call("CLIENT SETNAME aaa");
        for name in ["bbb", "ccc", "ddd"] {
            // The memory of the first name may serve the last one again.
            let set = format!("CLIENT SETNAME {name}");
            send(&mut named, &["CLIENT SETNAME xxx", &set]);
            assert_eq!(read(&mut named) + &read(&mut named), "+OK\r\n+OK\r\n");
            assert_eq!(field(&mut other, id, "name").as_deref(), Some(name));
        }
    });
}
