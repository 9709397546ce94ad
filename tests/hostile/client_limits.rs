//! Limits on what one client may take.

use std::time::Duration;

use harness::{Connection, Kind, Launch, Server, encode, kernel, poll_until, request, words};
use resp::Value;

use super::assert_healthy;

const MEBIBYTE: usize = 1024 * 1024;

fn start(options: &[(&str, &str)]) -> Server {
    let launch = Launch::new(Kind::Forebay);
    options.iter().fold(launch, |launch, (name, value)| launch.option(name, value)).start()
}

/// Takes a connection that a server has no room for, and returns all that it says.
fn refusal(server: &Server) -> Vec<u8> {
    let mut connection = server.tcp();
    connection.end_requests();
    connection.read_to_end().expect("the server closes")
}

#[test]
fn a_client_too_many_is_told_so_and_there_is_room_again_after() {
    let server = start(&[("maxclients", "10")]);
    let mut clients: Vec<Connection> = Vec::new();
    // The clients that waited for the server's start may still be there.
    poll_until("ten clients to be connected", || {
        let mut client = server.tcp();
        let is_in = client.send(b"PING\r\n").is_ok()
            && client.read().is_ok_and(|raw| raw.bytes == b"+PONG\r\n");
        if is_in {
            clients.push(client);
        }
        clients.len() == 10
    });
    for _ in 0..3 {
        let text = String::from_utf8_lossy(&refusal(&server)).into_owned();
        assert_eq!(text, "-ERR max number of clients reached\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.call("PING"), Value::Simple(b"PONG".to_vec()));
    }
    clients.truncate(5);
    poll_until("room for a client", || {
        let mut client = server.tcp();
        client.send(b"PING\r\n").is_ok() && client.read().is_ok_and(|raw| raw.error().is_none())
    });
    assert!(server.info("rejected_connections") >= 3);
}

#[test]
fn reads_are_answered_far_above_a_lower_limit() {
    let server = start(&[]);
    let mut client = server.tcp();
    for number in 0..64 {
        let value = vec![b'v'; MEBIBYTE];
        client
            .send(&encode(&[vec![b"SET".to_vec(), format!("k:{number}").into_bytes(), value]]))
            .unwrap();
        assert!(client.read().unwrap().error().is_none());
    }
    client.send(b"SET small v\r\nCONFIG SET maxmemory 8mb\r\nGET small\r\n").unwrap();
    for expected in [&b"+OK\r\n"[..], b"+OK\r\n", b"$1\r\nv\r\n"] {
        assert_eq!(client.read().unwrap().bytes, expected);
    }
    let Value::Bulk(value) = client.call("GET k:1") else { panic!("a value") };
    assert_eq!(value.len(), MEBIBYTE);
    assert!(matches!(client.call("INFO"), Value::Bulk(_) | Value::Verbatim { .. }));
}

#[test]
fn what_never_fits_costs_nobody_his_keys() {
    let options = [("maxmemory", "64mb"), ("maxmemory-policy", "allkeys-lru")];
    let server = start(&options);
    let mut client = server.tcp();
    let value = vec![b'v'; 12 * MEBIBYTE];
    client.send(&encode(&[vec![b"SET".to_vec(), b"long".to_vec(), value]])).unwrap();
    assert!(client.read().unwrap().error().is_none());
    client.call("SET one x");
    client.call("SETRANGE grown 2000000 x");
    client.call("SETRANGE behind 2000000 x");
    for hopeless in [
        "LCS long one",
        "BITFIELD bf OVERFLOW FAIL SET u8 0 300 SET u8 4294967288 300",
        "SETRANGE grown 500000000 x",
    ] {
        client.send(format!("{hopeless}\r\n").as_bytes()).unwrap();
        let reply = client.read().unwrap();
        assert!(reply.error().is_some_and(|text| text.starts_with(b"OOM")), "{hopeless}");
    }
    assert_eq!(client.call("DBSIZE"), Value::Integer(4));
}

#[test]
fn large_values_on_their_way_are_not_copied_and_stay_as_they_were() {
    const VALUE_BYTES: usize = 3 * MEBIBYTE;
    let server = start(&[]);
    let value = |seed: usize| -> Vec<u8> {
        (0..VALUE_BYTES).map(|at| (at * (2 * seed + 1) / 7) as u8).collect()
    };
    let [first, second, third] = [1, 2, 3].map(value);
    let mut writer = server.unix();
    writer.ask(&request(&[b"SET".as_slice(), b"big", &first]));
    let before = kernel::resident_bytes(server.process_id());
    let mut reader = server.unix();
    let mut expected: Vec<Vec<u8>> = Vec::new();
    for _ in 0..30 {
        reader.send(&encode(&[words("GET big")])).unwrap();
        expected.push(first.clone());
    }
    reader.send(&encode(&[words("GETRANGE big 1000 -1001")])).unwrap();
    expected.push(first[1000..VALUE_BYTES - 1000].to_vec());
    // From here on every command changes what was pinned by those before it.
    let set = |value: &[u8], more: &[&[u8]]| -> Vec<u8> {
        encode(&[request(&[&[b"SET".as_slice(), b"big", value], more].concat())])
    };
    reader.send(&encode(&[words("SETRANGE big 5 changed"), words("GET big")])).unwrap();
    reader.send(&set(&second, &[b"GET"])).unwrap();
    reader.send(&encode(&[words("MGET big none big")])).unwrap();
    reader.send(&set(&third, &[])).unwrap();
    reader.send(&encode(&[words("GETDEL big"), words("GET big")])).unwrap();
    let mut changed = first.clone();
    changed[5..12].copy_from_slice(b"changed");
    poll_until("all of it to be executed", || writer.call("EXISTS big") == Value::Integer(0));
    let grown = kernel::resident_bytes(server.process_id()).saturating_sub(before);
    assert!(grown < 6 * VALUE_BYTES as u64, "{grown} bytes for more than 36 replies");

    for (index, expected) in expected.iter().enumerate() {
        let raw = reader.read().unwrap();
        assert!(raw.value.as_bytes() == Some(expected), "reply {index}");
    }
    assert_eq!(reader.read().unwrap().value, Value::Integer(VALUE_BYTES as i64));
    for expected in [&changed, &changed] {
        assert!(reader.read().unwrap().value.as_bytes() == Some(expected));
    }
    let Value::Array(values) = reader.read().unwrap().value else { panic!("MGET's reply") };
    assert!(values[0].as_bytes() == Some(&second) && values[2].as_bytes() == Some(&second));
    assert_eq!(values[1], Value::Null);
    assert_eq!(reader.read().unwrap().bytes, b"+OK\r\n");
    assert!(reader.read().unwrap().value.as_bytes() == Some(&third));
    assert_eq!(reader.read().unwrap().value, Value::Null);
    poll_until("the values' memory to be free", || {
        // A write makes the server look for what is no longer held.
        writer.call("SET small value");
        server.info("used_memory") < VALUE_BYTES as u64
    });
    assert_healthy(&server);
}

#[test]
fn slow_readers_leave_most_values_that_can_be_held_to_others() {
    const ROUNDS: usize = 30;
    const READERS: usize = 12;
    /// What one connection may keep, and what the process can hold.
    const SHARE: u64 = 64;
    const HELD_MAX: u64 = 504;
    let server = start(&[]);
    let mut writer = server.unix();
    let names: Vec<String> = (0..20).map(|number| format!("value:{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        writer.ask(&request(&[b"SET", name.as_bytes(), &vec![number as u8; 17_000 + number]]));
    }
    let gets: Vec<_> =
        (0..ROUNDS).flat_map(|_| names.iter().map(|name| words(&format!("GET {name}")))).collect();
    let mut readers = Vec::new();
    for reader in 0..READERS {
        let mut client = server.unix();
        let last = words(&format!("SET done:{reader} x"));
        client.send(&encode(&gets)).unwrap();
        client.send(&encode(&[last])).unwrap();
        let executed = format!("EXISTS done:{reader}");
        poll_until("its requests to be executed", || writer.call(&executed) == Value::Integer(1));
        let held = server.info("shm_pins");
        let most = (SHARE * (reader as u64 + 1)).min(HELD_MAX / 2 + SHARE);
        assert!(held <= most, "{held} values are held for {} slow readers", reader + 1);
        readers.push(client);
    }
    // Whoever asks now is not in their way: EXEC holds its values until the kernel has them.
    let mut exec = vec![words("MULTI")];
    exec.extend(gets[..60].to_vec());
    exec.push(words("EXEC"));
    let replies = writer.pipeline(&exec);
    let Value::Array(values) = &replies.last().unwrap().value else { panic!("EXEC's reply") };
    assert!(values.iter().zip(0..).all(|(value, index)| {
        value.as_bytes() == Some(&vec![(index % 20) as u8; 17_000 + index % 20])
    }));
    for client in &mut readers {
        for index in 0..gets.len() {
            let raw = client.read().unwrap();
            let expected = vec![(index % 20) as u8; 17_000 + index % 20];
            assert!(raw.value.as_bytes() == Some(&expected), "reply {index}");
        }
        assert_eq!(client.read().unwrap().bytes, b"+OK\r\n");
    }
    poll_until("nothing to be held", || server.info("shm_pins") == 0);
    assert_healthy(&server);
}

#[test]
fn many_large_values_in_one_reply_all_arrive() {
    let server = start(&[]);
    // Sockets of both kinds: only TCP forgets to tell of room that it always had.
    for mut client in [server.tcp(), server.unix()] {
        let names: Vec<String> = (0..300).map(|number| format!("value:{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            let value = vec![number as u8; 16 * 1024 + number];
            client.ask(&request(&[b"SET", name.as_bytes(), &value]));
        }
        let words: Vec<&[u8]> = [b"MGET".as_slice()]
            .into_iter()
            .chain(names.iter().map(|name| name.as_bytes()))
            .collect();
        let Value::Array(values) = client.ask(&request(&words)).value else { panic!("an array") };
        for (number, value) in values.iter().enumerate() {
            assert!(value.as_bytes() == Some(&vec![number as u8; 16 * 1024 + number]), "{number}");
        }
    }
    assert_healthy(&server);
}

#[test]
fn zeroes_that_have_no_room_are_not_made() {
    let server = start(&[("maxmemory", "64mb")]);
    let mut client = server.tcp();
    client.call("SET here x");
    let before = kernel::resident_bytes_max(server.process_id());
    for line in ["SETRANGE absent 500000000 x", "SETRANGE here 500000000 x"] {
        let refusal = b"OOM command not allowed when used memory > 'maxmemory'.".to_vec();
        assert_eq!(client.call(line), Value::Error(refusal), "{line}");
    }
    let grown = kernel::resident_bytes_max(server.process_id()) - before;
    assert!(grown < 16 * MEBIBYTE as u64, "{grown} bytes for nothing");
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = start(&[("client-output-buffer-limit", "normal 4mb 0 0")]);
    let mut writer = server.tcp();
    writer.ask(&request(&[b"SET".as_slice(), b"big", &vec![b'x'; MEBIBYTE]]));
    let before = kernel::resident_bytes(server.process_id());
    let mut peak = before;
    let mut greedy = server.tcp();
    let id = greedy.call("CLIENT ID");
    let Value::Integer(id) = id else { panic!("CLIENT ID: {id:?}") };
    let gets = encode(&vec![words("GET big"); 100]);
    poll_until("the client that does not read to be closed", || {
        // The send fails once the server has closed.
        let is_cut = greedy.send(&gets).is_err();
        peak = peak.max(kernel::resident_bytes(server.process_id()));
        let list = writer.call("CLIENT LIST");
        let list = list.as_bytes().expect("CLIENT LIST is a text");
        let mut lines = list.split(|byte| *byte == b'\n');
        let mark = format!("id={id} ").into_bytes();
        is_cut || !lines.any(|line| line.starts_with(&mark))
    });
    // It asked for hundreds of mebibytes.
    assert!(peak - before < 64 * MEBIBYTE as u64, "the server took {} bytes", peak - before);
    assert_healthy(&server);
    assert_eq!(server.info("connected_clients"), 2, "the writer and this one");
}

#[test]
fn a_client_that_reads_late_gets_every_byte() {
    let server = start(&[]);
    let mut client = server.unix();
    let value: Vec<u8> = (0..3 * MEBIBYTE).map(|index| (index % 251) as u8).collect();
    client.ask(&request(&[b"SET".as_slice(), b"big", &value]));
    client.send(&encode(&vec![words("GET big"); 10])).expect("ten small requests fit");
    // The server has all requests, and far more to say than the socket holds.
    poll_until("other clients to be served meanwhile", || {
        server.unix().call("PING") == Value::Simple(b"PONG".to_vec())
    });
    for _ in 0..10 {
        let reply = client.read().expect("the server answers");
        assert!(reply.value == Value::Bulk(value.clone()), "the value comes back whole");
    }
}

#[test]
fn a_request_beyond_the_query_buffer_limit_closes_its_client() {
    let server = start(&[("client-query-buffer-limit", "1mb")]);
    let before = kernel::resident_bytes(server.process_id());
    let mut greedy = server.tcp();
    let request = encode(&[request(&[b"SET".as_slice(), b"k", &vec![b'x'; 64 * MEBIBYTE]])]);
    let _ = greedy.send(&request); // It fails when the server closes midway.
    let said = greedy.read_to_end().unwrap_or_default();
    assert!(said.is_empty() || said.starts_with(b"-"), "{}", said.escape_ascii());
    assert_eq!(server.tcp().call("EXISTS k"), Value::Integer(0));
    let after = kernel::resident_bytes(server.process_id());
    assert!(after < before + 16 * MEBIBYTE as u64, "{before} bytes became {after}");
    assert_healthy(&server);
}

#[test]
fn an_idle_client_is_closed_after_its_timeout_and_a_busy_one_is_not() {
    let server = start(&[("timeout", "1")]);
    let mut busy = server.tcp();
    let mut idle = server.tcp();
    idle.call("PING");
    let closed = std::thread::spawn(move || idle.read_to_end().expect("the server closes"));
    poll_until("the idle client to be closed", || {
        assert_eq!(busy.call("PING"), Value::Simple(b"PONG".to_vec()));
        closed.is_finished()
    });
    assert!(closed.join().expect("reading does not panic").is_empty());
    assert_eq!(busy.call("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn clients_that_dribble_before_they_authenticate_hold_nobody_up() {
    const STRANGERS: usize = 300;
    let server = start(&[("requirepass", "secret")]);
    let mut friend = server.tcp();
    assert_eq!(friend.call("AUTH secret"), Value::Simple(b"OK".to_vec()));
    let before = kernel::resident_bytes(server.process_id());
    let mut strangers: Vec<Connection> = (0..STRANGERS).map(|_| server.tcp()).collect();
    let request = b"*2\r\n$4\r\nECHO\r\n$16384\r\n";
    for byte in request.iter().chain([b'x'; 20].iter()) {
        for stranger in &mut strangers {
            stranger.send(&[*byte]).expect("a byte is taken");
        }
        assert_eq!(friend.call("PING"), Value::Simple(b"PONG".to_vec()));
    }
    let taken = kernel::resident_bytes(server.process_id()).saturating_sub(before);
    assert!(taken < (STRANGERS * 96 * 1024) as u64, "{taken} bytes for {STRANGERS} strangers");
    drop(strangers);
    poll_until("the strangers to be gone", || {
        let list = friend.call("CLIENT LIST");
        let list = list.as_bytes().expect("CLIENT LIST is a text").to_vec();
        list.iter().filter(|byte| **byte == b'\n').count() == 1
    });
}

#[test]
fn strangers_that_never_read_cost_little() {
    let server = start(&[("requirepass", "secret")]);
    let before = kernel::resident_bytes(server.process_id());
    let mut stranger = server.tcp();
    let pings = encode(&vec![words("PING"); 10_000]);
    // Each refusal is longer than its request. The server stops reading, or closes.
    let sender = std::thread::spawn(move || {
        for _ in 0..1_000 {
            if stranger.send(&pings).is_err() {
                return;
            }
        }
    });
    for _ in 0..50 {
        harness::let_pass(Duration::from_millis(10));
        let taken = kernel::resident_bytes(server.process_id()).saturating_sub(before);
        assert!(taken < 32 * MEBIBYTE as u64, "{taken} bytes for a stranger");
    }
    let mut friend = server.tcp();
    assert_eq!(friend.call("AUTH secret"), Value::Simple(b"OK".to_vec()));
    assert_eq!(friend.call("PING"), Value::Simple(b"PONG".to_vec()));
    drop(server); // Which ends the stranger's send.
    sender.join().expect("sending does not panic");
}

#[test]
fn lower_maxmemory_takes_effect_without_a_write() {
    let server = start(&[("maxmemory-policy", "allkeys-lru"), ("segment-size", "1mb")]);
    let mut client = server.unix();
    let value = vec![b'x'; 500];
    for first in (0..100_000).step_by(1000) {
        let sets: Vec<_> = (first..first + 1000)
            .map(|number| request(&[b"SET", format!("key:{number}").as_bytes(), &value]))
            .collect();
        client.pipeline(&sets);
    }
    let before = kernel::resident_bytes(server.process_id());
    client.call("CONFIG SET maxmemory 20mb");
    // Told by the kernel: any command, INFO too, would make room by itself.
    poll_until("memory to follow", || {
        kernel::resident_bytes(server.process_id()) + 24 * (MEBIBYTE as u64) < before
    });
    poll_until("the rest", || server.info("used_memory") <= 20 << 20);
    assert_healthy(&server);
}

#[test]
fn buffers_of_large_values_leave_the_process_with_them() {
    let server = start(&[("maxmemory", "64mb"), ("maxmemory-policy", "allkeys-lru")]);
    let before = kernel::resident_bytes(server.process_id());
    let value = vec![b'x'; 3 * MEBIBYTE];
    let mut clients: Vec<Connection> = (0..12).map(|_| server.tcp()).collect();
    // What these leave in the heap lies between and behind the buffers.
    let mut witnesses: Vec<Connection> = Vec::new();
    for round in 0..4 {
        let bytes = encode(&[request(&[b"SET".as_slice(), format!("{round}").as_bytes(), &value])]);
        // A piece of each in turn, so that all requests are under way at once.
        for piece in bytes.chunks(64 * 1024) {
            for client in &mut clients {
                client.send(piece).unwrap();
            }
            let mut witness = server.tcp();
            witness.call("CLIENT SETNAME witness");
            witnesses.push(witness);
        }
        for client in &mut clients {
            client.read().unwrap();
        }
    }
    drop(clients);
    poll_until("the buffers to be gone", || {
        kernel::resident_bytes(server.process_id()) - before < 80 * MEBIBYTE as u64
    });
    assert_healthy(&server);
}
