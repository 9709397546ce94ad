//! What clients of memcached and of Redis see of each other's data, and what becomes of items when
//! the server starts again.

use std::fs;

use harness::{Connection, Kind, Server, poll_until, request};

use super::{Wire, forebay, memcached};

/// Returns the reply to a request of RESP as it is sent.
fn ask(connection: &mut Connection, words: &[&str]) -> String {
    String::from_utf8_lossy(&connection.ask(&request(words)).bytes).into_owned()
}

#[test]
fn both_protocols_see_the_same_strings() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    assert_eq!(wire.ask(b"set lake 7 0 4\r\ndeep\r\n"), b"STORED\r\n");
    assert_eq!(ask(&mut redis, &["GET", "lake"]), "$4\r\ndeep\r\n");
    assert_eq!(ask(&mut redis, &["STRLEN", "lake"]), ":4\r\n");
    assert_eq!(ask(&mut redis, &["OBJECT", "ENCODING", "lake"]), "$6\r\nembstr\r\n");
    assert_eq!(ask(&mut redis, &["TYPE", "lake"]), "+string\r\n");
    // What changes it makes a plain string of it, whose flags are 0.
    assert_eq!(ask(&mut redis, &["APPEND", "lake", "er"]), ":6\r\n");
    assert_eq!(wire.ask(b"get lake\r\n"), b"VALUE lake 0 6\r\ndeeper\r\nEND\r\n");
    assert_eq!(ask(&mut redis, &["SET", "number", "41"]), "+OK\r\n");
    assert_eq!(wire.ask(b"incr number 1\r\n"), b"42\r\n");
    assert_eq!(ask(&mut redis, &["GET", "number"]), "$2\r\n42\r\n");
    assert_eq!(ask(&mut redis, &["RPUSH", "list", "a"]), ":1\r\n");
    assert_eq!(wire.ask(b"get list\r\nadd list 0 0 1\r\nx\r\n"), b"END\r\nNOT_STORED\r\n");
    for setting in ["SETRANGE", "SETBIT"] {
        assert_eq!(wire.ask(b"set lake 7 0 4\r\ndeep\r\n"), b"STORED\r\n");
        ask(&mut redis, &[setting, "lake", "1", "1"]);
        assert_eq!(ask(&mut redis, &["STRLEN", "lake"]), ":4\r\n", "{setting}");
    }
    assert_eq!(ask(&mut redis, &["COPY", "lake", "other"]), ":1\r\n");
    assert_eq!(ask(&mut redis, &["STRLEN", "other"]), ":4\r\n");
}

#[test]
fn stats_tell_how_many_threads_serve() {
    let (_server, port) = forebay(&[("workers", "2")]);
    let mut wire = Wire::connect(port);
    for (request, line) in [("stats", "threads 2"), ("stats settings", "num_threads 2")] {
        let reply = wire.ask(format!("{request}\r\n").as_bytes());
        let text = String::from_utf8(reply).unwrap();
        assert!(text.contains(&format!("STAT {line}\r\n")), "{text}");
    }
}

#[test]
fn unique_numbers_change_with_each_protocol() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    wire.ask(b"set lake 7 0 4\r\ndeep\r\n");
    for change in [["SET", "lake", "deep"], ["APPEND", "lake", "x"], ["SET", "lake", "wide"]] {
        let reply = wire.ask(b"gets lake\r\n");
        let head = String::from_utf8(reply).unwrap();
        let unique = head.lines().next().unwrap().split(' ').nth(4).unwrap().to_owned();
        ask(&mut redis, &change);
        let request = format!("cas lake 0 0 1 {unique}\r\ny\r\n");
        assert_eq!(wire.ask(request.as_bytes()), b"EXISTS\r\n", "{change:?}");
    }
}

/// Runs `before` and starts the server again on what it has left, with a file of the dataset and
/// with a log by turns; then runs `after` with what `before` has returned.
fn over_a_restart<R>(before: impl Fn(&mut Wire) -> R, after: impl Fn(&Server, &mut Wire, R)) {
    for keeps_log in [false, true] {
        let folder = harness::TempFolder::new();
        let path = folder.path().display().to_string();
        let log = if keeps_log { "yes" } else { "no" };
        let options = [("dir", &*path), ("appendonly", log), ("appendfsync", "always")];
        let (server, port) = forebay(&options);
        let result = before(&mut Wire::connect(port));
        if !keeps_log {
            assert_eq!(ask(&mut server.tcp(), &["SAVE"]), "+OK\r\n");
        }
        drop(server);
        let (server, port) = forebay(&options);
        after(&server, &mut Wire::connect(port), result);
    }
}

#[test]
fn items_survive_snapshots_and_logs() {
    let requests = b"gets lake kept large old\r\nmg old k c f\r\n";
    let before = |wire: &mut Wire| {
        let value = "v".repeat(9_000);
        wire.ask(b"set lake 7 0 4\r\ndeep\r\nset kept 9 100000 2\r\nok\r\n");
        wire.ask(format!("set large 5 0 {}\r\n{value}\r\n", value.len()).as_bytes());
        wire.ask(b"ms old 2 F3\r\nab\r\nmd old I\r\n");
        wire.ask(requests)
    };
    over_a_restart(before, |_, wire, before| {
        // Who was told to make one anew is forgotten, so that another is told.
        let after = wire.ask(requests);
        assert!(before.ends_with(b"X W\r\n"), "{}", before.escape_ascii());
        assert!(after == before, "{}", after.escape_ascii());
    });
}

#[test]
fn a_snapshot_with_items_is_one_for_redis_too() {
    let (server, port) = forebay(&[("rdb-export-version", "10")]);
    let mut wire = Wire::connect(port);
    wire.ask(b"set lake 7 0 4\r\ndeep\r\n");
    assert_eq!(ask(&mut server.tcp(), &["SAVE"]), "+OK\r\n");
    let file = fs::read(server.folder().join("dump.rdb")).expect("it was saved");
    let redis = harness::Launch::new(Kind::Redis);
    let folder = harness::TempFolder::new();
    fs::write(folder.join("dump.rdb"), file).unwrap();
    let redis = redis.option("dir", &folder.path().display().to_string()).start();
    assert_eq!(ask(&mut redis.tcp(), &["GET", "lake"]), "$4\r\ndeep\r\n");
}

const POLICIES: [&str; 10] = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "adaptive",
    "volatile-adaptive",
];

#[test]
fn an_item_tells_whether_it_was_fetched_under_each_policy() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    for policy in POLICIES {
        ask(&mut redis, &["CONFIG", "SET", "maxmemory-policy", policy]);
        for store in [&b"set lake 0 60 4\r\ndeep\r\n"[..], b"ms lake 4 T60\r\ndeep\r\n"] {
            wire.ask(store);
            assert_eq!(ask(&mut redis, &["GET", "lake"]), "$4\r\ndeep\r\n");
            let replies = wire.ask(b"mg lake h\r\nmg lake h\r\ntouch lake 60\r\nmg lake h\r\n");
            assert_eq!(replies, b"HD h0\r\nHD h1\r\nTOUCHED\r\nHD h1\r\n", "{policy}");
        }
    }
}

/// Returns the number behind `name` in a line of words; none where no word has that name.
fn number_in(line: &[u8], name: &str) -> Option<u64> {
    let line = String::from_utf8_lossy(line);
    let mut numbers = line.split_ascii_whitespace().filter_map(|word| word.strip_prefix(name));
    numbers.next().map(|number| number.parse().expect("it is a number"))
}

#[test]
fn an_item_tells_its_last_use_where_the_policy_keeps_it() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    // Of those that keep it in the same way, one.
    for policy in ["noeviction", "allkeys-lru", "allkeys-lfu", "adaptive", "volatile-adaptive"] {
        ask(&mut redis, &["CONFIG", "SET", "maxmemory-policy", policy]);
        wire.ask(b"flush_all\r\nset lake 0 60 4\r\ndeep\r\n");
        if policy.ends_with("adaptive") {
            assert_eq!(number_in(&wire.ask(b"me lake\r\n"), "la="), None);
            assert_eq!(wire.ask(b"mg lake s l f\r\n"), b"HD s4 f0\r\n");
            assert_eq!(wire.ask(b"mg other N60 l s\r\n"), b"HD s0 W\r\n");
            continue;
        }
        assert_eq!(wire.ask(b"mg other N60 l s\r\n"), b"HD l0 s0 W\r\n");
        // Looking by `me` is no use.
        poll_until("a second without use", || {
            number_in(&wire.ask(b"me lake\r\n"), "la=").expect("it is told") > 0
        });
        let idle = number_in(&wire.ask(b"mg lake l\r\n"), "l").expect("it is told");
        assert!((1..86_400).contains(&idle), "{policy}: {idle}");
        poll_until("a use just now", || wire.ask(b"mg lake l\r\n") == b"HD l0\r\n");
    }
}

#[test]
fn a_database_of_its_own_keeps_them_apart() {
    let (server, port) = forebay(&[("memcached-database", "3")]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    wire.ask(b"set lake 0 0 4\r\ndeep\r\n");
    assert_eq!(ask(&mut redis, &["EXISTS", "lake"]), ":0\r\n");
    assert_eq!(ask(&mut redis, &["SET", "other", "1"]), "+OK\r\n");
    assert_eq!(wire.ask(b"flush_all\r\nget lake\r\n"), b"OK\r\nEND\r\n");
    assert_eq!(ask(&mut redis, &["EXISTS", "other"]), ":1\r\n");
}

#[test]
fn who_has_not_authenticated_does_nothing() {
    let folder = harness::TempFolder::new();
    let users = folder.join("users");
    fs::write(&users, "ann:secret\n").unwrap();
    let path = users.display().to_string();
    let (_server, port) = forebay(&[("memcached-auth-file", &path)]);
    let (_peer, their_port) = memcached(&["-Y", &path]);
    for port in [port, their_port] {
        let mut wire = Wire::connect(port);
        for (request, reply) in [
            ("get lake\r\n", "CLIENT_ERROR unauthenticated\r\n"),
            ("set x 0 0 9\r\nann wrong\r\n", "CLIENT_ERROR authentication failure\r\n"),
            ("set x 0 0 10\r\nann secret\r\n", "STORED\r\n"),
            ("set lake 0 0 1\r\nd\r\n", "STORED\r\n"),
            ("get lake\r\n", "VALUE lake 0 1\r\nd\r\nEND\r\n"),
        ] {
            wire.send(request.as_bytes());
            assert_eq!(wire.until(reply.as_bytes()), b"", "{request:?}");
        }
    }
    let (_server, port) = forebay(&[("requirepass", "deep")]);
    let mut wire = Wire::connect(port);
    wire.send(b"get lake\r\nset x 0 0 12\r\ndefault deep\r\nget lake\r\nmn\r\n");
    let expected = b"CLIENT_ERROR unauthenticated\r\nSTORED\r\nEND\r\n";
    assert_eq!(wire.until(b"MN\r\n"), expected);
}

#[test]
fn long_lines_and_other_protocols_end_the_session() {
    let (_server, port) = forebay(&[]);
    for (input, expected) in [
        (&b"\x80\x00\x00\x03foo"[..], &b"SERVER_ERROR the binary protocol"[..]),
        (&[b'x'; 3000], b""),
        (b"GET / HTTP/1.1\r\n", b""),
        (b"quit\r\nget a\r\n", b""),
    ] {
        let mut wire = Wire::connect(port);
        wire.send(input);
        let rest = wire.rest();
        assert!(rest.starts_with(expected), "{}", rest.escape_ascii());
        assert!(!expected.is_empty() || rest.is_empty(), "{}", rest.escape_ascii());
    }
    // A retrieval may be long.
    let mut wire = Wire::connect(port);
    let line = format!("get{}\r\n", " key".repeat(20_000));
    assert_eq!(wire.ask(line.as_bytes()), b"END\r\n");
}

#[test]
fn too_large_values_are_refused_and_take_the_old_ones_along() {
    let (_server, our_port) = forebay(&[]);
    let (_peer, their_port) = memcached(&[]);
    for port in [our_port, their_port] {
        let mut wire = Wire::connect(port);
        for length in [1_048_516_usize, 1_048_517, 1_048_518, 1_048_576] {
            let value = "v".repeat(length);
            wire.ask(b"set k 0 0 1\r\nx\r\n");
            let reply = wire.ask(format!("set k 0 0 {length}\r\n{value}\r\n").as_bytes());
            let is_stored = length < 1_048_517;
            let expected: &[u8] = match is_stored {
                true => b"STORED\r\n",
                false => b"SERVER_ERROR object too large for cache\r\n",
            };
            assert_eq!(reply, expected, "{length} at {port}, Forebay is {our_port}");
            assert_eq!(wire.ask(b"get k\r\n").len() > 5, is_stored, "{length}");
        }
    }
}

#[test]
fn a_pause_leaves_requests_as_they_were() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    wire.ask(b"set a 0 0 1\r\n1\r\nset c 0 0 1\r\n3\r\n");
    assert_eq!(ask(&mut redis, &["CLIENT", "PAUSE", "100000", "WRITE"]), "+OK\r\n");
    wire.send(b"gat 0 a c\r\nmg YQ== b v k\r\nset d 0 0 2 noreply\r\nxy\r\nget a b c\r\nmn\r\n");
    let blocked = || ask(&mut server.tcp(), &["CLIENT", "LIST"]).contains("cmd=memcached|gat");
    harness::poll("the session to wait", || blocked().then_some(()));
    assert_eq!(ask(&mut redis, &["CLIENT", "UNPAUSE"]), "+OK\r\n");
    let values = "VALUE a 0 1\r\n1\r\nVALUE c 0 1\r\n3\r\nEND\r\n";
    let expected = format!("{values}VA 1 kYQ== b\r\n1\r\n{values}");
    assert_eq!(String::from_utf8(wire.until(b"MN\r\n")).unwrap(), expected);
    assert_eq!(wire.ask(b"get d\r\n"), b"VALUE d 0 2\r\nxy\r\nEND\r\n");
}

#[test]
fn commands_of_redis_see_the_value_alone_however_large_it_is() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    for length in [10, 20_000] {
        let value = "v".repeat(length);
        wire.ask(format!("set k 7 0 {length}\r\n{value}\r\n").as_bytes());
        let expected = format!(":{length}\r\n");
        for operation in ["OR", "NOT"] {
            assert_eq!(ask(&mut redis, &["BITOP", operation, "to", "k"]), expected, "{operation}");
        }
    }
}

#[test]
fn what_is_longer_than_a_chunk_is_no_number() {
    let (_server, our_port) = forebay(&[]);
    let (_peer, their_port) = memcached(&[]);
    let value = format!("1{}", " ".repeat(599_999));
    for port in [our_port, their_port] {
        let mut wire = Wire::connect(port);
        wire.ask(format!("set n 0 0 {}\r\n{value}\r\n", value.len()).as_bytes());
        let reply = wire.ask(b"incr n 1\r\n");
        let expected = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        assert_eq!(String::from_utf8(reply).unwrap(), expected);
    }
}

#[test]
fn one_sided_readers_see_the_value_alone() {
    let (server, port) = forebay(&[]);
    let mut wire = Wire::connect(port);
    let large = "v".repeat(100_000);
    wire.ask(b"set lake 7 0 4\r\ndeep\r\n");
    wire.ask(format!("set large 5 0 {}\r\n{large}\r\n", large.len()).as_bytes());
    let attached = client::Attached::connect(server.socket(), None).expect("it is attached");
    for (key, expected) in [("lake", "deep"), ("large", &large)] {
        let mut value = Vec::new();
        assert!(attached.get(key.as_bytes(), &mut value).expect("it is read"));
        assert_eq!(value, expected.as_bytes(), "{key}");
    }
}

#[test]
fn nothing_is_appended_beyond_the_largest_item() {
    let (server, our_port) = forebay(&[]);
    let (_peer, their_port) = memcached(&[]);
    let value = "v".repeat(600_000);
    for port in [our_port, their_port] {
        let mut wire = Wire::connect(port);
        wire.ask(format!("set k 0 0 {}\r\n{value}\r\n", value.len()).as_bytes());
        for (head, expected) in [
            (format!("append k 0 0 {}", value.len()), "NOT_STORED\r\n"),
            (format!("ms k {} MP", value.len()), "NS\r\n"),
        ] {
            let reply = wire.ask(format!("{head}\r\n{value}\r\n").as_bytes());
            assert_eq!(String::from_utf8(reply).unwrap(), expected, "{head}");
        }
        assert_eq!(wire.ask(b"append k 0 0 1\r\nx\r\nmg k s\r\n"), b"STORED\r\nHD s600001\r\n");
    }
    // Commands of Redis have the limit of Redis all the same.
    assert_eq!(ask(&mut server.tcp(), &["APPEND", "k", &value]), ":1200001\r\n");
}

#[test]
fn arithmetic_sets_the_time_to_live_however_long_the_number_becomes() {
    let (_server, port) = forebay(&[]);
    let mut wire = Wire::connect(port);
    let reply = wire.ask(b"ms n 2\r\n98\r\nma n T1000 t\r\nmg n t v\r\nma n T2000\r\nmg n t v\r\n");
    let expected = "HD\r\nHD t1000\r\nVA 2 t1000\r\n99\r\nHD\r\nVA 3 t2000\r\n100\r\n";
    assert_eq!(String::from_utf8(reply).unwrap(), expected);
}

#[test]
fn a_long_line_of_who_has_not_authenticated_ends_the_session() {
    let (_server, port) = forebay(&[("requirepass", "deep")]);
    let mut wire = Wire::connect(port);
    wire.send(format!("get{}", " key".repeat(1_000)).as_bytes());
    assert_eq!(wire.rest(), b"");
}

#[test]
fn a_server_whose_file_of_users_is_missing_or_malformed_does_not_start() {
    let folder = harness::TempFolder::new();
    let malformed = folder.join("malformed");
    std::fs::write(&malformed, "ann:deep\nbob\n").expect("it can be written");
    for (path, reason) in [(folder.join("none"), "is not read"), (malformed, "line 2")] {
        let path = path.display().to_string();
        let mut program = harness::command(harness::forebay());
        let arguments = ["serve", "--port", "0", "--memcached-auth-file", &path];
        let output = program.args(arguments).output().expect("it is run");
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success());
        assert!(told.contains("memcached-auth-file") && told.contains(reason), "{told}");
    }
}

/// Returns the token in the reply of LGET to who has won.
fn token_of(reply: &str) -> &str {
    assert!(reply.starts_with("*4\r\n+WIN\r\n$-1\r\n:"), "{reply}");
    reply.lines().nth(3).and_then(|line| line.strip_prefix(':')).expect("a token is a number")
}

fn poll_blocked(redis: &mut Connection) {
    let mut is_blocked = || ask(redis, &["INFO", "clients"]).contains("blocked_clients:1\r\n");
    harness::poll("the session to wait", || is_blocked().then_some(()));
}

#[test]
fn who_waits_by_lget_gets_what_a_client_of_memcached_has_won() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut other) = (Wire::connect(port), Wire::connect(port));
    let (mut redis, mut waiter) = (server.tcp(), server.tcp());
    assert_eq!(wire.ask(b"mg lake N30 v\r\n"), b"VA 0 W\r\n\r\n");
    assert_eq!(other.ask(b"mg lake N30 v\r\n"), b"VA 0 Z\r\n\r\n");
    let busy = ask(&mut redis, &["LGET", "lake"]);
    assert!(busy.starts_with("*4\r\n+BUSY\r\n$-1\r\n$-1\r\n:"), "{busy}");
    waiter.send(b"LGET lake WAIT 100000\r\n").expect("it is sent");
    poll_blocked(&mut redis);
    // Whoever of them stores it, as memcached's clients have many connections.
    assert_eq!(other.ask(b"ms lake 4\r\ndeep\r\n"), b"HD\r\n");
    let hit = waiter.read().expect("it is told").bytes;
    assert_eq!(hit, b"*4\r\n+HIT\r\n$4\r\ndeep\r\n$-1\r\n:-1\r\n");
    // The winner dies, and the next is told.
    assert_eq!(wire.ask(b"mg hill N30\r\n"), b"HD W\r\n");
    waiter.send(b"LGET hill WAIT 100000\r\n").expect("it is sent");
    poll_blocked(&mut redis);
    drop(wire);
    let won = String::from_utf8(waiter.read().expect("it is told").bytes.to_vec()).unwrap();
    assert_eq!(other.ask(b"mg hill N30 v\r\n"), b"VA 0 Z\r\n\r\n");
    assert_eq!(ask(&mut redis, &["LFILL", "hill", "high", token_of(&won)]), ":1\r\n");
    assert_eq!(other.ask(b"mg hill v\r\n"), b"VA 4\r\nhigh\r\n");
}

#[test]
fn a_client_of_memcached_does_not_win_what_lget_has_given_and_takes_it_by_deleting() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    for (request, reply) in [
        (&b"md k\r\n"[..], &b"NF\r\n"[..]),
        (b"md k I\r\n", b"NF\r\n"),
        (b"md k q\r\nmg other\r\n", b"NF\r\nEN\r\n"),
        (b"delete k\r\n", b"NOT_FOUND\r\n"),
        (b"set k 0 0 3\r\nnew\r\n", b"STORED\r\n"),
        (b"ms k 3\r\nnew\r\n", b"HD\r\n"),
        (b"incr k 1\r\nma k N0 J7\r\n", b"NOT_FOUND\r\nHD\r\n"),
        (b"flush_all\r\n", b"OK\r\n"),
    ] {
        ask(&mut redis, &["DEL", "k"]);
        let won = ask(&mut redis, &["LGET", "k"]);
        assert_eq!(wire.ask(b"mg k N30 v k\r\n"), b"VA 0 kk Z\r\n\r\n");
        assert_eq!(ask(&mut redis, &["EXISTS", "k"]), ":0\r\n");
        assert_eq!(wire.ask(request), reply, "{}", request.escape_ascii());
        let filled = ask(&mut redis, &["LFILL", "k", "old", token_of(&won)]);
        assert_eq!(filled, ":0\r\n", "{}", request.escape_ascii());
    }
}

#[test]
fn a_reader_of_the_memory_takes_an_item_in_the_making_for_no_value() {
    let (server, port) = forebay(&[]);
    let mut wire = Wire::connect(port);
    assert_eq!(wire.ask(b"mg lake N30\r\n"), b"HD W\r\n");
    let url = format!("shm://{}", server.socket().display());
    let client = client::Client::connect(&url).expect("it connects");
    let options = client::LoadOptions::new().waits_for(std::time::Duration::ZERO);
    let load = || Ok(b"deep".to_vec());
    let loaded = client.get_or_load::<client::ClientError>(b"lake", &options, load);
    assert_eq!(*loaded.expect("it is loaded"), *b"deep");
    assert_eq!(ask(&mut server.tcp(), &["GET", "lake"]), "$0\r\n\r\n");
}

#[test]
fn the_empty_item_of_a_winner_is_no_value_whatever_becomes_of_it() {
    let (server, port) = forebay(&[]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    let names: [(&str, &[&str]); 4] = [
        ("renamed", &["RENAME", "lake", "renamed"]),
        ("copied", &["COPY", "lake", "copied"]),
        ("lake", &["LDEL", "lake", "STALE", "100000"]),
        ("lake", &["PERSIST", "lake"]),
    ];
    for (name, change) in names {
        redis.call("FLUSHALL");
        assert_eq!(wire.ask(b"mg lake N30\r\n"), b"HD W\r\n");
        ask(&mut redis, change);
        token_of(&ask(&mut redis, &["LGET", name, "STALE"]));
    }
    redis.call("FLUSHALL");
    assert_eq!(wire.ask(b"mg lake N30\r\nmd lake I\r\n"), b"HD W\r\nHD\r\n");
    token_of(&ask(&mut redis, &["LGET", "lake"]));
    assert_eq!(wire.ask(b"mg lake v\r\nmg lake v\r\n"), b"VA 0 X W\r\n\r\nVA 0 Z X\r\n\r\n");
    // What is appended to is a value, and what is set empty is one, too.
    assert_eq!(wire.ask(b"append lake 0 0 0\r\n\r\nset e 0 20 0\r\n\r\n"), b"STORED\r\nSTORED\r\n");
    assert_eq!(wire.ask(b"mg e R30\r\n"), b"HD W\r\n");
    for key in ["lake", "e"] {
        let hit = ask(&mut redis, &["LGET", key]);
        assert!(hit.starts_with("*4\r\n+HIT\r\n$0\r\n\r\n"), "{key}: {hit}");
    }
}

#[test]
fn the_empty_item_of_a_winner_is_no_value_after_a_restart() {
    let before = |wire: &mut Wire| {
        let won = wire.ask(b"mg lake N300\r\nmg hill N300\r\n");
        assert_eq!(won, b"HD W\r\nHD W\r\n");
    };
    over_a_restart(before, |server, wire, ()| {
        token_of(&ask(&mut server.tcp(), &["LGET", "lake"]));
        // Who was told is forgotten: the next is.
        assert_eq!(wire.ask(b"mg hill v\r\nmg hill v\r\n"), b"VA 0 W\r\n\r\nVA 0 Z\r\n\r\n");
    });
}

#[test]
fn who_wins_an_item_of_a_full_cache_holds_the_lease() {
    let (server, port) = forebay(&[("maxmemory", "8mb"), ("maxmemory-policy", "allkeys-lru")]);
    let (mut wire, mut redis) = (Wire::connect(port), server.tcp());
    for first in (0..10_000).step_by(500) {
        let set = |at| format!("set fill{at} 0 0 1000 noreply\r\n{:1000}\r\n", "");
        assert_eq!(wire.ask((first..first + 500).map(set).collect::<String>().as_bytes()), b"");
    }
    for at in 0..1_000 {
        assert_eq!(wire.ask(format!("mg lake{at} N30\r\n").as_bytes()), b"HD W\r\n");
        let busy = ask(&mut redis, &["LGET", &format!("lake{at}")]);
        assert!(busy.starts_with("*4\r\n+BUSY\r\n"), "lake{at}: {busy}");
    }
}
