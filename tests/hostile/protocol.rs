//! Bytes that are not requests, to Forebay and to redis-server: both send the same bytes back.
//! Random ones are in `compat/raw_stream.rs`.

use harness::{Kind, Launch, Server, signal};

use super::assert_healthy;
use super::script::Script;

/// Requests in every stage of decay. What follows an error must not be answered.
const STREAMS: &[&[u8]] = &[
    b"",
    b"\r\n",
    b"\n\n\r\n",
    b"PING\r\n",
    b"PING\n",
    b"  PING   x \r\n",
    b"PING \"a b\"\r\n",
    b"PING 'a b'\r\n",
    b"PING \"\\x41\\n\\\"\" \r\n",
    b"PING 'it\\'s'\r\n",
    b"PING \"a\r\nPING\r\n",
    b"PING 'a\r\nPING\r\n",
    b"PING \"a\"b\r\nPING\r\n",
    b"PING \x00\r\n",
    b"\x00\r\n",
    b"PING",
    b"PING\r",
    b"*0\r\nPING\r\n",
    b"*-1\r\nPING\r\n",
    b"*-10\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nping\r\n",
    b"*a\r\nPING\r\n",
    b"*\r\nPING\r\n",
    b"*1x\r\nPING\r\n",
    b"* 1\r\nPING\r\n",
    b"*+1\r\nPING\r\n",
    b"*01\r\n$4\r\nPING\r\n",
    b"*2147483648\r\nPING\r\n",
    b"*9223372036854775808\r\nPING\r\n",
    b"*99999999999999999999999\r\nPING\r\n",
    b"*1\r\n:1\r\nPING\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n\r\nPING\r\n",
    b"*1\r\n*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$-1\r\nPING\r\n",
    b"*1\r\n$a\r\nPING\r\n",
    b"*1\r\n$\r\nPING\r\n",
    b"*1\r\n$ 4\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$536870913\r\nPING\r\n",
    b"*1\r\n$9223372036854775808\r\nPING\r\n",
    b"*1\r\n$4\r\nPINGxxPING\r\n",
    b"*1\r\n$4\r\nPINGPONG\r\nPING\r\n",
    b"*1\r\n$4\r\nPI",
    b"*2\r\n$4\r\nECHO\r\n",
    b"*1\n$4\nPING\n",
    b"*1\r$4\rPING\r",
    b"*1\r\n$0\r\n\r\nPING\r\n",
    b"*2\r\n$0\r\n\r\n$0\r\n\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\nPING\r\n",
    b"$4\r\nPING\r\n",
    b"+OK\r\nPING\r\n",
    b":1\r\n",
    b"-ERR\r\n",
    b"_\r\n",
    b"%1\r\n+a\r\n+b\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nPING\r\n",
    b"HOST: localhost\r\nPING\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",
    b"\xff\xfe\xfd\r\nPING\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"QUIT\r\nPING\r\n",
    b"PING\r\nQUIT now\r\nPING\r\n",
];

fn both(change: impl Fn(Launch) -> Launch) -> [Server; 2] {
    [Kind::Forebay, Kind::Redis].map(|kind| change(Launch::new(kind)).start())
}

fn check([ours, oracle]: &[Server; 2], stream: &[u8]) {
    let expected = oracle.exchange(&[stream]);
    let shown = stream[..stream.len().min(100)].escape_ascii();
    let compare = |pieces: &[&[u8]], how: &str| {
        let found = ours.exchange(pieces);
        assert_eq!(
            found.escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
            "(forebay, redis) for \"{shown}\" {how}"
        );
    };
    compare(&[stream], "in one piece");
    if stream.len() < 100 {
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        compare(&bytes, "byte by byte");
    }
}

#[test]
fn malformed_requests_are_answered_as_redis_does() {
    let servers = both(|launch| launch);
    for stream in STREAMS {
        check(&servers, stream);
    }
    assert_healthy(&servers[0]);
}

#[test]
fn oversized_requests_are_refused_as_redis_does() {
    let servers = both(|launch| launch);
    check(&servers, &[b"*".as_slice(), &[b'1'; 70_000]].concat());
    check(&servers, &[b"*1\r\n$".as_slice(), &[b'1'; 70_000]].concat());
    check(&servers, &[b'a'; 200_000]);
    check(&servers, &[b"PING\r\n".as_slice(), &[b'a'; 200_000]].concat());
    check(&servers, &[b"*1\r\n".as_slice(), &[b'a'; 70_000]].concat());
    let servers = both(|launch| launch.option("proto-max-bulk-len", "1048576"));
    check(&servers, b"*2\r\n$4\r\nECHO\r\n$1048577\r\nPING\r\n");
    let echo =
        [b"*2\r\n$4\r\nECHO\r\n$1048576\r\n".as_slice(), &[b'a'; 1_048_576], b"\r\n"].concat();
    check(&servers, &echo);
    assert_healthy(&servers[0]);
}

#[test]
fn strangers_may_send_little() {
    let servers = both(|launch| launch.option("requirepass", "secret"));
    check(&servers, b"*10\r\n$4\r\nPING\r\n$1\r\n1\r\n$1\r\n2\r\n");
    check(&servers, b"*11\r\n$4\r\nPING\r\n$1\r\n1\r\n");
    check(&servers, b"*2\r\n$4\r\nECHO\r\n$16384\r\nPING\r\n");
    check(&servers, b"*2\r\n$4\r\nECHO\r\n$16385\r\nPING\r\n");
    check(&servers, b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*11\r\n$4\r\nPING\r\n$1\r\n1\r\n");
    check(&servers, b"AUTH secret\r\nPING\r\nAUTH wrong\r\nPING\r\n");
    check(&servers, b"GET k\r\nPING\r\nQUIT\r\n");
}

#[test]
fn request_behind_urgent_data_is_answered_without_another() {
    let server = Launch::new(Kind::Forebay).start();
    let port = server.address().port().to_string();
    let mut client = Script::start(&server, "urgent_client.py", &[&port]);
    assert_eq!(client.step(), "ready");
    signal(server.process_id(), "STOP");
    client.tell("send");
    assert_eq!(client.step(), "sent");
    signal(server.process_id(), "CONT");
    assert_eq!(client.step(), "answered");
}
