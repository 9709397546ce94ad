//! Long values of which a part never comes, or comes late: their blocks are freed, and no values
//! are evicted for bytes that are only announced.

use harness::{Connection, Kind, Launch, Server, encode, poll_until, request, words};
use resp::Value;

use super::assert_healthy;
use super::script::Script;

const TRANSPORTS: [fn(&Server) -> Connection; 3] =
    [Server::tcp, Server::unix, |server| server.lane(1 << 16)];
const MEBIBYTE: usize = 1024 * 1024;

fn start(options: &[(&str, &str)]) -> Server {
    let launch = Launch::new(Kind::Forebay);
    options.iter().fold(launch, |launch, (name, value)| launch.option(name, value)).start()
}

/// Returns a SET of `key` up to its value, which is to have `length` bytes.
fn head(key: &str, length: usize) -> Vec<u8> {
    format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${length}\r\n", key.len()).into_bytes()
}

fn reserved(server: &Server) -> u64 {
    server.info("used_memory_extents_reserved")
}

fn extents(server: &Server) -> u64 {
    server.info("used_memory_extents")
}

/// Sends half of a value of `length` bytes and waits until the server has a place for it.
fn send_half(server: &Server, connection: &mut Connection, length: usize) {
    let before = reserved(server);
    connection.send(&head("key", length)).expect("the server takes it");
    connection.send(&vec![b'x'; length / 2]).expect("the server takes it");
    poll_until("a place for the value", || reserved(server) >= before + length as u64);
}

#[test]
fn half_a_value_leaves_nothing_however_its_client_ends() {
    let server = start(&[]);
    let mut control = server.unix();
    control.ask(&request(&[b"SET".as_slice(), b"key", &[b'o'; 300_000]]));
    let before = extents(&server);
    let ends: [fn(&Server, Connection, i64); 4] = [
        |_, connection, _| drop(connection),
        |_, mut connection, _| {
            connection.end_requests();
            assert_eq!(connection.read_to_end().unwrap(), b"");
        },
        |server, mut connection, id| {
            assert_eq!(server.tcp().call(&format!("CLIENT KILL ID {id}")), Value::Integer(1));
            assert_eq!(connection.read_to_end().unwrap(), b"");
        },
        |server, mut connection, _| {
            server.tcp().call("CONFIG SET client-query-buffer-limit 1mb");
            // The server may close before it has all.
            let _ = connection.send(&vec![b'x'; 2 * MEBIBYTE]);
            connection.read_to_end().unwrap();
            server.tcp().call("CONFIG SET client-query-buffer-limit 1gb");
        },
    ];
    for length in [200_000, 5 * MEBIBYTE] {
        for (number, end) in ends.iter().enumerate() {
            for connect in TRANSPORTS {
                let mut connection = connect(&server);
                let Value::Integer(id) = connection.call("CLIENT ID") else { panic!("an id") };
                if number == 1 && format!("{connection:?}").contains("Lane") {
                    continue; // A lane has no end of requests.
                }
                if number == 3 && length < 2 * MEBIBYTE {
                    continue;
                }
                send_half(&server, &mut connection, length);
                assert!(extents(&server) >= before + length as u64);
                end(&server, connection, id);
                poll_until("the place to be given back", || reserved(&server) == 0);
                assert_eq!(extents(&server), before, "end {number} of {length} bytes");
            }
        }
    }
    assert_eq!(control.call("STRLEN key"), Value::Integer(300_000));
    assert_healthy(&server);
}

#[test]
fn killed_client_of_a_lane_leaves_no_half_value() {
    let server = start(&[]);
    let before = extents(&server);
    let request = String::from_utf8(head("key", 1_000_000)).unwrap() + &"x".repeat(1000);
    for _ in 0..3 {
        let mut client = Script::start(&server, "lane_client.py", &[&request]);
        (0..5).for_each(|_| drop(client.step()));
        poll_until("a place for the value", || reserved(&server) >= 1_000_000);
        client.kill("the place to be given back", || reserved(&server) == 0);
        assert_eq!(extents(&server), before);
    }
}

#[test]
fn value_that_fails_at_its_end_leaves_nothing() {
    let server = start(&[]);
    let mut control = server.unix();
    control.call("LPUSH list x");
    control.call("SET key old");
    let before = extents(&server);
    let value = vec![b'x'; 500_000];
    let set = |words: &[&[u8]]| encode(&[request(words)]);
    for (stream, reply) in [
        (set(&[b"SET", b"key", &value, b"NX"]), "$-1\r\n"),
        (set(&[b"SET", b"absent", &value, b"XX"]), "$-1\r\n"),
        (set(&[b"SET", b"list", &value, b"GET"]), WRONG_TYPE),
        (
            set(&[b"SET", b"key", &value, b"EX", b"0"]),
            "-ERR invalid expire time in 'set' command\r\n",
        ),
        (set(&[b"SET", b"key", &value, b"nonsense"]), "-ERR syntax error\r\n"),
        (set(&[b"SETNX", b"key", &value]), ":0\r\n"),
        (set(&[b"GETSET", b"list", &value]), WRONG_TYPE),
    ] {
        for connect in TRANSPORTS {
            let mut connection = connect(&server);
            connection.send(&stream).unwrap();
            assert_eq!(
                connection.read().unwrap().bytes.escape_ascii().to_string(),
                reply.escape_default().to_string()
            );
            assert_eq!((reserved(&server), extents(&server)), (0, before), "{reply}");
        }
    }
    assert!(server.info("values_received_in_place") >= 20);
    assert_eq!(control.call("GET key"), Value::Bulk(b"old".to_vec()));
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn announced_values_evict_no_more_than_their_share() {
    const LIMIT: u64 = 64 << 20;
    let server = start(&[("maxmemory", "64mb"), ("maxmemory-policy", "allkeys-lru")]);
    let mut control = server.unix();
    for number in 0..50 {
        let value = vec![b'v'; MEBIBYTE];
        control.ask(&request(&[b"SET".as_slice(), format!("key:{number}").as_bytes(), &value]));
    }
    assert_eq!(control.call("DBSIZE"), Value::Integer(50));
    let mut announce = |length: usize, count: usize| -> Vec<Connection> {
        let connect = |number: usize| {
            let mut connection = server.unix();
            connection.send(&head(&format!("new:{number}"), length)).unwrap();
            connection
        };
        let connections = (0..count).map(connect).collect();
        poll_until("all to have arrived", || {
            let Value::Bulk(list) = control.call("CLIENT LIST") else { panic!("a text") };
            let text = String::from_utf8(list).unwrap();
            let is_sender = |line: &&str| line.contains(" cmd=NULL") && !line.contains(" qbuf=0 ");
            text.lines().filter(is_sender).count() == count
        });
        connections
    };
    let idle = announce(512 * MEBIBYTE, 20);
    assert_eq!((reserved(&server), server.info("evicted_keys")), (0, 0));
    drop(idle);
    let mut clients = announce(MEBIBYTE, 60);
    assert!((LIMIT / 8..=LIMIT / 4).contains(&reserved(&server)), "{}", reserved(&server));
    assert!(server.info("evicted_keys") <= 16);
    // Those that have no place are served as well.
    for client in &mut clients {
        client.send(&vec![b'n'; MEBIBYTE]).unwrap();
        client.send(b"\r\n").unwrap();
        assert_eq!(client.read().unwrap().bytes, b"+OK\r\n");
    }
    assert_eq!(reserved(&server), 0);
    assert!(server.info("used_memory") <= LIMIT + LIMIT / 16);
}

#[test]
fn value_without_room_is_taken_and_refused() {
    let server = start(&[("maxmemory", "32mb"), ("maxmemory-policy", "noeviction")]);
    let mut control = server.unix();
    let fill = vec![b'v'; 26 * MEBIBYTE];
    assert_eq!(control.ask(&request(&[b"SET".as_slice(), b"fill", &fill])).bytes, b"+OK\r\n");
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    for connect in TRANSPORTS {
        let mut connection = connect(&server);
        for length in [900_000, 7 * MEBIBYTE, MEBIBYTE] {
            let value = vec![b'x'; length];
            let found = connection.ask(&request(&[b"SET".as_slice(), b"key", &value])).bytes;
            let expected = if length > 2 * MEBIBYTE { oom } else { "+OK\r\n" };
            assert_eq!(String::from_utf8_lossy(&found), expected, "{length} bytes");
            assert_eq!(reserved(&server), 0);
        }
    }
    assert_eq!(control.call("STRLEN key"), Value::Integer(MEBIBYTE as i64));
}

#[test]
fn pause_holds_a_value_that_came_meanwhile() {
    let server = start(&[]);
    let mut control = server.unix();
    for connect in TRANSPORTS {
        let mut connection = connect(&server);
        send_half(&server, &mut connection, 600_000);
        control.call("CLIENT PAUSE 1000000 WRITE");
        connection.send(&vec![b'y'; 300_000]).unwrap();
        connection.send(b"\r\n*1\r\n$4\r\nPING\r\n").unwrap();
        poll_until("the request to wait", || server.info("blocked_clients") == 1);
        assert_eq!(reserved(&server), 0);
        control.call("CLIENT UNPAUSE");
        assert_eq!(connection.read().unwrap().bytes, b"+OK\r\n");
        assert_eq!(connection.read().unwrap().bytes, b"+PONG\r\n");
        let stored = [vec![b'x'; 300_000], vec![b'y'; 300_000]].concat();
        assert!(control.call("GETDEL key") == Value::Bulk(stored));
    }
}

#[test]
fn what_has_come_of_a_value_is_the_clients_query_buffer() {
    let server = start(&[]);
    let mut control = server.unix();
    let mut connection = server.unix();
    connection.call("CLIENT SETNAME sender");
    send_half(&server, &mut connection, 800_000);
    poll_until("half of the value to be shown", || {
        let [held, free, total] = sender_bytes(&mut control);
        (400_000..402_000).contains(&held) && (400_000..450_000).contains(&free) && total > 800_000
    });
}

/// Returns what CLIENT LIST shows of the client `sender`: qbuf, qbuf-free, tot-mem.
fn sender_bytes(control: &mut Connection) -> [usize; 3] {
    let Value::Bulk(list) = control.call("CLIENT LIST") else { panic!("a text") };
    let text = String::from_utf8(list).expect("CLIENT LIST is a text");
    let line = text.lines().find(|line| line.contains(" name=sender ")).expect("it is there");
    [" qbuf=", " qbuf-free=", " tot-mem="].map(|name| {
        let (_, rest) = line.split_once(name).expect("a field");
        rest.split(' ').next().and_then(|text| text.parse().ok()).expect("a number")
    })
}

#[test]
fn input_that_has_gone_to_its_place_is_given_back() {
    let server = start(&[]);
    let mut control = server.unix();
    for connect in TRANSPORTS {
        let mut connection = connect(&server);
        connection.call("CLIENT SETNAME sender");
        send_half(&server, &mut connection, 64 * MEBIBYTE);
        poll_until("half of the value to be shown", || {
            let [held, free, _] = sender_bytes(&mut control);
            held >= 32 * MEBIBYTE && held + free < 64 * MEBIBYTE + 200_000
        });
        connection.end_requests();
        drop(connection);
        poll_until("its place to be given back", || reserved(&server) == 0);
        poll_until("it to be gone", || server.info("connected_clients") <= 2);
    }
}

#[test]
fn value_is_stored_although_all_pins_are_taken() {
    let server = start(&[]);
    let mut reader = server.unix();
    reader.ask(&request(&[b"SET".as_slice(), b"small", &[b's'; 20_000]]));
    // More than the server can hold where they lie, and than the socket takes.
    let gets = vec![words("GET small"); 600];
    reader.send(&encode(&gets)).unwrap();
    poll_until("the replies to wait", || {
        let Value::Bulk(list) = server.tcp().call("CLIENT LIST") else { panic!("a text") };
        String::from_utf8(list).unwrap().contains("cmd=get")
    });
    let mut writer = server.unix();
    let value = vec![b'x'; 700_000];
    for words in [&[b"SET".as_slice(), b"key", &value][..], &[b"SET", b"key", &value, b"XX"]] {
        assert_eq!(writer.ask(&request(words)).bytes, b"+OK\r\n");
        assert!(writer.call("GET key") == Value::Bulk(value.clone()));
        assert_eq!(reserved(&server), 0);
    }
    gets.iter().for_each(|_| drop(reader.read().unwrap()));
}
