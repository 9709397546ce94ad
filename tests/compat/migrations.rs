//! MIGRATE from Forebay to redis-server and back, beside MIGRATE of redis-server; and what others
//! may do meanwhile, which nobody can while redis-server migrates.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use harness::{Connection, Kind, Launch, Server, free_port, let_pass, poll_until, request};
use resp::Value;

use super::dumped_values::values;
use super::sessions::{is_closed, read};

/// Milliseconds that pass for nothing but a server that is not there.
const LONG: &str = "60000";
const EXPIRES_AT: i64 = 4_000_000_000_000;
/// Milliseconds that are to pass.
const SHORT: &str = "50";

fn start(kind: Kind) -> Server {
    let launch = Launch::new(kind);
    match kind {
        // What redis-server 7.0 can read.
        Kind::Forebay => launch.option("rdb-export-version", "10").start(),
        Kind::Redis => launch.start(),
    }
}

fn port(server: &Server) -> u16 {
    server.address().port()
}

/// Returns the text of a reply of one line.
fn line(connection: &mut Connection, text: &str) -> String {
    // Two quotes stand for an empty word.
    let words: Vec<&str> =
        text.split(' ').map(|word| if word == "\"\"" { "" } else { word }).collect();
    let raw = connection.ask(&request(&words));
    String::from_utf8_lossy(&raw.bytes).trim_end().to_owned()
}

#[test]
fn values_of_every_type_and_form_arrive() {
    let servers = [Kind::Forebay, Kind::Redis, Kind::Forebay].map(start);
    for (source, target) in [(0, 1), (1, 0), (0, 2)] {
        let port = port(&servers[target]);
        let mut sides = [servers[source].tcp(), servers[target].tcp()];
        for (made, _) in values() {
            let shown = &made[..made.len().min(60)];
            let [from, to] = &mut sides;
            from.call(&made);
            from.call(&format!("PEXPIREAT k {EXPIRES_AT}"));
            // A time to live arrives as one, and less exactly than a point in time would.
            let what = ["DEBUG DIGEST-VALUE k", "TYPE k"];
            let before = what.map(|what| line(from, what));
            let migrate = format!("MIGRATE 127.0.0.1 {port} k 0 {LONG} REPLACE");
            assert_eq!(line(from, &migrate), "+OK", "{shown}");
            assert_eq!(what.map(|what| line(to, what)), before, "{shown}");
            let Value::Integer(at) = to.call("PEXPIRETIME k") else { panic!("{shown}") };
            assert!(at.abs_diff(EXPIRES_AT) < 60_000, "{shown} expires at {at}");
            assert_eq!(line(from, "EXISTS k"), ":0", "{shown}");
        }
    }
}

#[test]
fn every_version_that_can_be_chosen_is_read_by_servers_that_know_it() {
    let [source, target] = [Kind::Forebay, Kind::Redis].map(start);
    let (port, mut from, mut to) = (port(&target), source.tcp(), target.tcp());
    for (made, _) in values() {
        let shown = &made[..made.len().min(60)];
        from.call(&made);
        let digest = line(&mut from, "DEBUG DIGEST-VALUE k");
        for version in ["9", "10"] {
            assert_eq!(line(&mut from, &format!("CONFIG SET rdb-export-version {version}")), "+OK");
            let Value::Bulk(payload) = from.call("DUMP k") else { panic!("{shown}") };
            let restore = request(&[b"RESTORE".as_slice(), b"k", b"0", &payload, b"REPLACE"]);
            assert_eq!(to.ask(&restore).value, Value::Simple(b"OK".to_vec()), "{shown}");
            assert_eq!(line(&mut to, "DEBUG DIGEST-VALUE k"), digest, "{shown} in {version}");
        }
        from.call("DEL k");
    }
    from.call("SADD k a b");
    from.call("CONFIG SET rdb-export-version 11");
    let refused = "-ERR Target instance replied with error: ERR DUMP payload version or checksum \
                   are wrong";
    assert_eq!(line(&mut from, &format!("MIGRATE 127.0.0.1 {port} k 5 {LONG}")), refused);
    assert_eq!(line(&mut from, "SCARD k"), ":2");
    let bounds = "-ERR CONFIG SET failed (possibly related to argument 'rdb-export-version') - \
                  argument must be between 9 and 11 inclusive";
    assert_eq!(line(&mut from, "CONFIG SET rdb-export-version 8"), bounds);
}

/// Requests to the source, or behind a `>` to the target; `PORT` stands for that of the target.
const DIALOGUE: &[&str] = &[
    "MIGRATE 127.0.0.1 PORT k 0 1000",
    "MSET k v l w m x",
    "MIGRATE 127.0.0.1 PORT k 0 1000",
    "EXISTS k",
    "> GET k",
    "SET k again",
    "MIGRATE 127.0.0.1 PORT k 0 1000",
    "GET k",
    "MIGRATE 127.0.0.1 PORT k 0 1000 COPY REPLACE",
    "GET k",
    "> GET k",
    "MIGRATE 127.0.0.1 PORT \"\" 0 1000 KEYS k l none m",
    "EXISTS k l m",
    "> MGET k l m",
    "MIGRATE 127.0.0.1 PORT \"\" 0 1000 copy replace keys k l none m",
    "EXISTS k l m",
    "MSET k 1 l 2 m 3",
    "MIGRATE 127.0.0.1 PORT \"\" 3 0 REPLACE KEYS k l k m",
    "EXISTS k l m",
    "> DBSIZE",
    "SET {empty} 1",
    "MIGRATE 127.0.0.1 PORT \"\" 0 1000",
    "MIGRATE 127.0.0.1 PORT \"\" 0 1000 KEYS",
    "MIGRATE 127.0.0.1 PORT \"\" 0 1000 KEYS none",
    "SET k v",
    "MIGRATE 127.0.0.1 PORT k 0 1000 KEYS l",
    "MIGRATE 127.0.0.1 PORT k 0 1000 NONSENSE",
    "MIGRATE 127.0.0.1 PORT k 0 1000 AUTH",
    "MIGRATE 127.0.0.1 PORT k 0 1000 AUTH2 a",
    "MIGRATE 127.0.0.1 PORT k 0 x",
    "MIGRATE 127.0.0.1 PORT k x 1000",
    "MIGRATE 127.0.0.1 PORT k x y COPY COPY NONSENSE",
    "MIGRATE 127.0.0.1 PORT k 99 1000",
    "MIGRATE 127.0.0.1 PORT k -2 1000",
    "MIGRATE 127.0.0.1 PORT k 0 1000 AUTH wrong",
    "MIGRATE 127.0.0.1 PORT k 0 1000 AUTH2 nobody wrong",
    "EXISTS k",
    "> CONFIG SET requirepass secret",
    "MIGRATE 127.0.0.1 PORT k 2 1000 AUTH wrong",
    "MIGRATE 127.0.0.1 PORT k 2 1000 AUTH2 nobody secret",
    "MIGRATE 127.0.0.1 PORT k 2 1000 REPLACE AUTH2 default secret",
    "EXISTS k",
    "SET k v",
    "MIGRATE 127.0.0.1 PORT k 2 1000 REPLACE AUTH secret",
    "EXISTS k",
    "> SELECT 2",
    "> GET k",
    "SELECT 4",
    "SET k v",
    "MIGRATE 127.0.0.1 PORT k 4 1000 AUTH secret",
    "EXISTS k",
    "COMMAND GETKEYS MIGRATE h p \"\" 0 10 KEYS a b",
    "COMMAND GETKEYS MIGRATE h p k 0 10 KEYS a b",
    "COMMAND GETKEYS MIGRATE h p k 0 10",
    "COMMAND GETKEYS MIGRATE h p \"\" 0 10 AUTH keys KEYS x",
    "COMMAND GETKEYS MIGRATE h p \"\" 0 10 bogus KEYS x",
    "COMMAND GETKEYS MIGRATE h p \"\" 0 10 KEYS",
    "COMMAND GETKEYSANDFLAGS MIGRATE h p \"\" 0 10 KEYS a",
    "COMMAND GETKEYS MIGRATE h p \"\" 0 10 AUTH2 keys keys keys c",
];

#[test]
fn replies_are_those_of_redis() {
    let found = [Kind::Forebay, Kind::Redis].map(|kind| {
        let (source, target) = (start(kind), start(Kind::Redis));
        let port = port(&target).to_string();
        let (mut from, mut to) = (source.tcp(), target.tcp());
        let ask = |step: &&str| match step.strip_prefix("> ") {
            Some(request) => line(&mut to, request),
            None => line(&mut from, &step.replace("PORT", &port)),
        };
        DIALOGUE.iter().map(ask).collect::<Vec<_>>()
    });
    for (index, step) in DIALOGUE.iter().enumerate() {
        assert_eq!(found[0][index], found[1][index], "{step}");
    }
}

#[test]
fn dead_and_silent_servers_are_told_apart_as_in_redis() {
    // Connections wait to be accepted, for ever.
    let silent = listener();
    let silent_port = silent.local_addr().unwrap().port();
    let found = [Kind::Forebay, Kind::Redis].map(|kind| {
        let source = start(kind);
        let mut from = source.tcp();
        from.call("SET k v");
        let dead_port = free_port();
        let requests = [
            format!("MIGRATE 127.0.0.1 {dead_port} k 0 {SHORT}"),
            format!("MIGRATE 127.0.0.1 {silent_port} k 0 {SHORT}"),
            format!("MIGRATE no.such.host.invalid {silent_port} k 0 {SHORT}"),
            format!("MIGRATE 127.0.0.1 {silent_port} none 0 {SHORT}"),
            "GET k".to_owned(),
        ];
        requests.map(|request| line(&mut from, &request))
    });
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0][1], "-IOERR error or timeout reading to target instance");
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free")
}

/// A server that a test plays.
struct Played {
    listener: TcpListener,
}

impl Played {
    fn new() -> Played {
        Played { listener: listener() }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    /// Returns the request that migrates `keys` there.
    fn request(&self, keys: &str, options: &str) -> String {
        let port = self.address().port();
        format!("MIGRATE 127.0.0.1 {port} \"\" 0 {LONG} {options} KEYS {keys}").replace("  ", " ")
    }

    /// Takes a connection and lets it choose its database.
    fn accept(&self) -> TcpStream {
        self.accept_after(|| {})
    }

    /// As `accept`, and has `pass` be done before it replies.
    fn accept_after(&self, pass: impl FnOnce()) -> TcpStream {
        let (mut stream, _) = self.listener.accept().expect("it connects");
        receive_until(&mut stream, "SELECT\r\n$1\r\n0\r\n");
        pass();
        stream.write_all(b"+OK\r\n").expect("it receives");
        stream
    }
}

/// Receives until `text` has come, which ends what is sent at once, and returns it all.
fn receive_until(stream: &mut TcpStream, text: &str) -> String {
    let mut received = Vec::new();
    while !received.ends_with(text.as_bytes()) {
        let mut room = [0; 4096];
        let count = stream.read(&mut room).expect("it sends");
        assert!(count > 0, "it ended with {}", received.escape_ascii());
        received.extend_from_slice(&room[..count]);
    }
    String::from_utf8_lossy(&received).into_owned()
}

/// Sends the words of `text` as a request.
fn send(connection: &mut Connection, text: &str) {
    let words: Vec<&str> =
        text.split(' ').map(|word| if word == "\"\"" { "" } else { word }).collect();
    connection.send(&harness::encode(&[request(&words)])).expect("it takes requests");
}

const CHANGED: &str = "-ERR a key was changed while it was sent: the target has what it was \
                       before, and what it is now stays here\r\n";

#[test]
fn a_key_that_changes_while_it_is_sent_stays() {
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    // What another does meanwhile, what becomes of the keys, and the reply.
    for (change, left, reply) in [
        ("SET k new", "k", CHANGED),
        ("APPEND k more", "k", CHANGED),
        ("PEXPIRE k 10000000", "k", CHANGED),
        ("DEL k", "", CHANGED),
        ("RENAME k n", "n", CHANGED),
        ("SWAPDB 0 1", "", CHANGED),
        ("FLUSHALL", "", CHANGED),
        ("GET k", "", "+OK\r\n"),
        ("SET n new", "n", "+OK\r\n"),
        ("OBJECT ENCODING k", "", "+OK\r\n"),
        ("DEBUG SLEEP 0", "", "+OK\r\n"),
    ] {
        other.call("FLUSHALL");
        other.call("MSET k old l stable");
        send(&mut one, &played.request("k l", "REPLACE"));
        let mut stream = played.accept();
        receive_until(&mut stream, "REPLACE\r\n");
        // While the other server is silent, this one serves.
        other.call(change);
        stream.write_all(b"+OK\r\n+OK\r\n").unwrap();
        assert_eq!(read(&mut one), reply, "{change}");
        let keys: Vec<&str> = ["k", "l", "n"]
            .into_iter()
            .filter(|key| other.call(&format!("EXISTS {key}")) == Value::Integer(1))
            .collect();
        assert_eq!(keys.concat(), left, "{change}");
    }
}

#[test]
fn a_copy_needs_no_key_to_stay_as_it_is() {
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    other.call("SET k old");
    send(&mut one, &played.request("k", "COPY REPLACE"));
    let mut stream = played.accept();
    receive_until(&mut stream, "REPLACE\r\n");
    other.call("SET k new");
    stream.write_all(b"+OK\r\n").unwrap();
    assert_eq!(read(&mut one), "+OK\r\n");
    assert_eq!(other.call("GET k"), Value::Bulk(b"new".to_vec()));
}

#[test]
fn a_key_that_expires_while_it_is_sent_is_no_loss() {
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    other.call("SET k old PX 300");
    send(&mut one, &played.request("k", "REPLACE"));
    let mut stream = played.accept();
    receive_until(&mut stream, "REPLACE\r\n");
    poll_until("the key to expire", || other.call("EXISTS k") == Value::Integer(0));
    stream.write_all(b"+OK\r\n").unwrap();
    assert_eq!(read(&mut one), "+OK\r\n");
}

#[test]
fn times_to_live_are_what_is_left_when_a_value_is_sent() {
    /// Milliseconds that pass between the request and the other server's reply to SELECT.
    const LATER_MS: u64 = 300;
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    other.call("SET k short PX 2000");
    other.call("SET l long PX 60000");
    other.call("SET m stable");
    send(&mut one, &played.request("k l m", "REPLACE"));
    let mut stream = played.accept_after(|| {
        poll_until("the key to expire", || other.call("EXISTS k") == Value::Integer(0));
        let_pass(Duration::from_millis(LATER_MS));
    });
    let sent = receive_until(&mut stream, "REPLACE\r\n");
    let words: Vec<&str> = sent.split("\r\n").collect();
    assert!(!words.contains(&"k"), "it would come to life: {sent}");
    let name = words.iter().position(|word| *word == "l").expect("it has not expired");
    let ttl: u64 = words[name + 2].parse().expect("a time is a number");
    assert!(ttl <= 60_000 - LATER_MS, "{ttl} ms is more than is left");
    stream.write_all(b"+OK\r\n+OK\r\n").unwrap();
    assert_eq!(read(&mut one), "+OK\r\n");
    assert_eq!(other.call("EXISTS l m"), Value::Integer(0));
}

#[test]
fn what_has_no_reply_stays_and_what_has_one_goes() {
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    let reading = "-IOERR error or timeout reading to target instance\r\n";
    let target = "-ERR Target instance replied with error: BUSYKEY busy\r\n";
    for (replies, reply, left) in [
        ("+OK\r\n", reading, 2),
        ("+OK\r\n+OK\r\n", reading, 1),
        ("-BUSYKEY busy\r\n+OK\r\n", target, 2),
        ("-BUSYKEY busy\r\n+OK\r\n+OK\r\n", target, 1),
        ("+OK\r\n-BUSYKEY busy\r\n-OTHER other\r\n", target, 2),
        ("+OK\r\nnonsense\r\n+OK\r\n", reading, 2),
        (&format!("+OK\r\n+{}", "o".repeat(2000)), reading, 2),
    ] {
        other.call("MSET k 1 l 2 m 3");
        send(&mut one, &played.request("k l m", "REPLACE"));
        let mut stream = played.accept();
        receive_until(&mut stream, "REPLACE\r\n");
        stream.write_all(replies.as_bytes()).unwrap();
        drop(stream);
        assert_eq!(read(&mut one), reply, "{replies}");
        assert_eq!(other.call("EXISTS k l m"), Value::Integer(left), "{replies}");
    }
}

#[test]
fn a_connection_that_was_kept_and_is_closed_is_made_anew() {
    let source = start(Kind::Forebay);
    let mut one = source.tcp();
    let played = Played::new();
    for round in 0..2 {
        one.call("SET k v");
        send(&mut one, &played.request("k", "REPLACE"));
        let mut stream = played.accept();
        receive_until(&mut stream, "REPLACE\r\n");
        stream.write_all(b"+OK\r\n").unwrap();
        assert_eq!(read(&mut one), "+OK\r\n", "{round}");
        poll_until("the connection to be kept", || source.info("migrate_cached_sockets") == 1);
    }
    // Nobody uses it any more.
    poll_until("the connection to be closed", || source.info("migrate_cached_sockets") == 0);
}

#[test]
fn a_connection_that_is_kept_serves_whoever_shows_the_same_password() {
    let target = Launch::new(Kind::Forebay).option("requirepass", "secret").start();
    let source = start(Kind::Forebay);
    let mut one = source.tcp();
    let migrate = |one: &mut Connection, options: &str| {
        one.call("SET k v");
        line(one, &format!("MIGRATE 127.0.0.1 {} k 0 {LONG} REPLACE{options}", port(&target)))
    };
    let mut before = target.tcp();
    before.call("AUTH secret");
    assert_eq!(migrate(&mut one, " AUTH secret"), "+OK");
    let connections = before.info("total_connections_received");
    assert_eq!(migrate(&mut one, " AUTH secret"), "+OK");
    assert_eq!(before.info("total_connections_received"), connections);
    let refused = "-ERR Target instance replied with error: NOAUTH Authentication required.";
    assert_eq!(migrate(&mut one, ""), refused);
    let wrong = "-ERR Target instance replied with error: WRONGPASS invalid username-password \
                 pair or user is disabled.";
    assert_eq!(migrate(&mut one, " AUTH other"), wrong);
}

#[test]
fn a_client_that_leaves_gives_the_migration_up() {
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    other.call("SET k v");
    send(&mut one, &played.request("k", "REPLACE"));
    let mut stream = played.accept();
    receive_until(&mut stream, "REPLACE\r\n");
    drop(one);
    // The connection to the other server goes with the session.
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    assert_eq!(other.call("GET k"), Value::Bulk(b"v".to_vec()));
}

#[test]
fn a_killed_client_gives_the_migration_up() {
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    other.call("SET k v");
    let Value::Integer(id) = one.call("CLIENT ID") else { panic!("an id is a number") };
    send(&mut one, &played.request("k", "REPLACE"));
    let mut stream = played.accept();
    receive_until(&mut stream, "REPLACE\r\n");
    assert_eq!(other.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(0));
    assert_eq!(other.call(&format!("CLIENT KILL ID {id}")), Value::Integer(1));
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    assert!(is_closed(&mut one));
    assert_eq!(other.call("GET k"), Value::Bulk(b"v".to_vec()));
}

#[test]
fn nothing_is_removed_during_a_pause() {
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    other.call("SET k v");
    send(&mut one, &played.request("k", "REPLACE"));
    let mut stream = played.accept();
    receive_until(&mut stream, "REPLACE\r\n");
    other.call("CLIENT PAUSE 600000 WRITE");
    stream.write_all(b"+OK\r\n").unwrap();
    let_pass(Duration::from_millis(300));
    assert_eq!(other.call("EXISTS k"), Value::Integer(1));
    other.call("CLIENT UNPAUSE");
    assert_eq!(read(&mut one), "+OK\r\n");
    assert_eq!(other.call("EXISTS k"), Value::Integer(0));
}

#[test]
fn requests_behind_a_migration_have_their_turn_behind_it() {
    let [source, target] = [Kind::Forebay, Kind::Redis].map(start);
    let mut one = source.tcp();
    let migrate = format!("MIGRATE 127.0.0.1 {} k 0 {LONG}", port(&target));
    let texts = ["SET k v", &migrate, "EXISTS k", "SET k w", "GET k"];
    let requests = texts.map(|text| request(&text.split(' ').collect::<Vec<_>>()));
    let replies: Vec<Vec<u8>> =
        one.pipeline(&requests).into_iter().map(|reply| reply.bytes).collect();
    let expected: [&[u8]; 5] = [b"+OK\r\n", b"+OK\r\n", b":0\r\n", b"+OK\r\n", b"$1\r\nw\r\n"];
    assert_eq!(replies, expected);
}

#[test]
fn a_transaction_has_an_error_in_its_place() {
    let source = start(Kind::Forebay);
    let mut one = source.tcp();
    one.call("SET k v");
    one.call("MULTI");
    one.call(&format!("MIGRATE 127.0.0.1 {} k 0 {LONG}", free_port()));
    one.call("GET k");
    let error = "ERR MIGRATE waits for another server and cannot run inside a transaction";
    assert_eq!(
        one.call("EXEC"),
        Value::Array(vec![Value::Error(error.into()), Value::Bulk(b"v".to_vec())])
    );
}

#[test]
fn many_keys_go_in_several_parcels() {
    const COUNT: usize = 5_000;
    let [source, target] = [Kind::Forebay, Kind::Redis].map(start);
    let (mut one, mut to) = (source.tcp(), target.tcp());
    let names: Vec<String> = (0..COUNT).map(|index| format!("key:{index}")).collect();
    let long = "long".repeat(500_000);
    for (index, name) in names.iter().enumerate() {
        one.ask(&request(&["SET", name, if index % 1000 == 7 { &long } else { "v" }]));
    }
    let digest = one.call("DEBUG DIGEST");
    let port = port(&target).to_string();
    let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", LONG, "KEYS"];
    words.extend(names.iter().map(String::as_str));
    assert_eq!(one.ask(&request(&words)).value, Value::Simple(b"OK".to_vec()));
    assert_eq!(one.call("DBSIZE"), Value::Integer(0));
    assert_eq!(to.call("DEBUG DIGEST"), digest);
}

#[test]
fn servers_that_are_silent_hold_their_sessions_alone() {
    const TRANSFERS_MAX: usize = 64;
    let source = start(Kind::Forebay);
    let silent = listener();
    let port = silent.local_addr().unwrap().port();
    let mut other = source.tcp();
    other.call("SET k v");
    let text = format!("MIGRATE 127.0.0.1 {port} k 0 {LONG}");
    let mut waiting: Vec<Connection> = (0..TRANSFERS_MAX).map(|_| source.tcp()).collect();
    let mut streams = Vec::new();
    for connection in &mut waiting {
        send(connection, &text);
        streams.push(silent.accept().unwrap());
    }
    let refused = "-ERR too many MIGRATE commands are waiting for other servers";
    assert_eq!(line(&mut other, &text), refused);
    assert_eq!(other.call("APPEND k w"), Value::Integer(2));
    // A session that goes makes room for another.
    waiting.pop();
    poll_until("room for another", || {
        let short = format!("MIGRATE 127.0.0.1 {port} k 0 {SHORT}");
        line(&mut other, &short).starts_with("-IOERR")
    });
}

/// Returns bytes of which a payload is as long.
fn incompressible(length: usize) -> Vec<u8> {
    (0..length as u32).map(|it| (it.wrapping_mul(it) >> 7) as u8).collect()
}

#[test]
fn what_is_sent_is_part_of_what_a_client_takes() {
    const BYTES: u64 = 4 << 20;
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    other.ask(&request(&[b"SET".as_slice(), b"k", &incompressible(BYTES as usize)]));
    let Value::Integer(id) = one.call("CLIENT ID") else { panic!("an id is a number") };
    let mut client_bytes = || {
        let list = line(&mut other, &format!("CLIENT LIST ID {id}"));
        let field = list.split(' ').find_map(|field| field.strip_prefix("tot-mem="));
        field.expect("it is in the list").parse::<u64>().expect("it is a number")
    };
    let before = (client_bytes(), source.info("used_memory"));
    send(&mut one, &played.request("k", "COPY REPLACE"));
    let mut stream = played.accept();
    poll_until("the value to count", || client_bytes() >= before.0 + BYTES);
    assert!(source.info("used_memory") >= before.1 + BYTES);
    receive_until(&mut stream, "REPLACE\r\n");
    stream.write_all(b"+OK\r\n").unwrap();
    assert_eq!(read(&mut one), "+OK\r\n");
    poll_until("the value to go", || client_bytes() < before.0 + BYTES);
    assert!(source.info("used_memory") < before.1 + BYTES);
}

#[test]
fn room_for_the_next_parcel_is_not_made_by_the_keys_of_the_request() {
    const MIB: usize = 1 << 20;
    let source = start(Kind::Forebay);
    let (mut one, mut other) = (source.tcp(), source.tcp());
    let played = Played::new();
    for (key, bytes) in [("k", 2 * MIB), ("next", 6 * MIB)] {
        other.ask(&request(&[b"SET".as_slice(), key.as_bytes(), &incompressible(bytes)]));
    }
    // Nothing could go but what is sent next.
    other.call("CONFIG SET maxmemory-policy volatile-ttl");
    other.call("EXPIRE next 1000");
    send(&mut one, &played.request("k next", "COPY REPLACE"));
    let mut stream = played.accept();
    receive_until(&mut stream, "REPLACE\r\n");
    let limit = source.info("used_memory") + MIB as u64;
    assert_eq!(line(&mut other, &format!("CONFIG SET maxmemory {limit}")), "+OK");
    stream.write_all(b"+OK\r\n").unwrap();
    let reply = read(&mut one);
    assert!(reply.starts_with("-OOM"), "{reply}");
    assert_eq!(other.call("EXISTS k next"), Value::Integer(2));
}

#[test]
fn a_connection_on_which_more_was_said_than_asked_is_not_kept() {
    let source = start(Kind::Forebay);
    let mut one = source.tcp();
    let played = Played::new();
    one.call("SET k v");
    send(&mut one, &played.request("k", "REPLACE"));
    let mut stream = played.accept();
    receive_until(&mut stream, "REPLACE\r\n");
    stream.write_all(b"+OK\r\n+OK\r\n").unwrap();
    assert_eq!(read(&mut one), "+OK\r\n");
    // The next request would take the second reply for its own.
    assert_eq!(source.info("migrate_cached_sockets"), 0);
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
}
