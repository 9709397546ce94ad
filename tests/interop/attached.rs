//! The Rust client in another process than the server's: values where they lie.

use client::{AttachError, Attached, DatabaseIndex, UnixMs, Value};
use harness::{Kind, Launch, Request, Server, bytes, poll_until, request, words};
use resp::Value as Reply;

/// A server whose segments are small, so that a few megabytes need new ones.
fn server() -> Server {
    Launch::new(Kind::Forebay).option("segment-size", "1mb").start()
}

fn attach(server: &Server) -> Attached {
    Attached::connect(server.socket(), None).expect("the same user may attach")
}

fn set(key: &str, value: &[u8]) -> Request {
    request(&[b"SET", key.as_bytes(), value])
}

#[test]
fn values_are_read_as_they_were_set() {
    let server = server();
    let (attached, mut writer) = (attach(&server), server.unix());
    let mut value = Vec::new();
    for (seed, length) in
        [0, 1, 12, 64, 256, 1023, 1024, 4000, 4100, 70_000, 3 << 20].iter().enumerate()
    {
        let (key, expected) = (format!("key:{seed}"), bytes(seed, *length));
        assert_eq!(writer.ask(&set(&key, &expected)).value, Reply::Simple(b"OK".to_vec()));
        let key = key.as_bytes();
        assert!(attached.get(key, &mut value).unwrap());
        assert_eq!(value, expected, "{length} bytes");
        assert_eq!(attached.strlen(key).unwrap(), *length as u64);
        assert!(attached.exists(key).unwrap());
        assert_eq!(attached.expiry(key).unwrap(), Some(None));
        attached.getrange(key, (-10, -1), &mut value).unwrap();
        assert_eq!(value, expected[length.saturating_sub(10)..]);
        let view = attached.view(key, &mut value).unwrap().expect("it is there");
        assert_eq!(*view, expected[..]);
        assert_eq!(matches!(view, Value::Pinned(_)), *length > 4096, "{length} bytes");
    }
    value = b"of an earlier read".to_vec();
    assert!(!attached.get(b"absent", &mut value).unwrap());
    assert_eq!(value, b"");
    assert_eq!(attached.expiry(b"absent").unwrap(), None);
}

#[test]
fn time_to_live_and_counters_are_those_of_the_server() {
    let server = server();
    let (attached, mut writer) = (attach(&server), server.unix());
    let mut value = Vec::new();
    writer.call("SET short 1 PXAT 4102444800000");
    assert_eq!(attached.expiry(b"short").unwrap(), Some(Some(UnixMs(4_102_444_800_000))));
    writer.call("INCRBY short 41");
    assert!(attached.get(b"short", &mut value).unwrap());
    assert_eq!(value, b"42");
    writer.call("PEXPIRE short 1");
    poll_until("the key to expire", || !attached.exists(b"short").unwrap());
    assert_eq!(writer.call("EXISTS short"), Reply::Integer(0));
}

/// The parts of a collection lie where no other process sees them; that there is one, it sees.
#[test]
fn collections_are_there_and_are_no_strings() {
    let server = server();
    let (attached, mut writer) = (attach(&server), server.unix());
    let mut value = Vec::new();
    for (key, command) in
        [("l", "RPUSH l a"), ("h", "HSET h f v"), ("s", "SADD s a"), ("z", "ZADD z 1 a")]
    {
        let key = key.as_bytes();
        assert_eq!(writer.call(command), Reply::Integer(1));
        assert!(matches!(attached.get(key, &mut value), Err(AttachError::WrongType)));
        assert!(matches!(attached.strlen(key), Err(AttachError::WrongType)));
        assert!(matches!(attached.view(key, &mut value), Err(AttachError::WrongType)));
        let part = attached.getrange(key, (0, 7), &mut value);
        assert!(matches!(part, Err(AttachError::WrongType)));
        assert!(attached.exists(key).unwrap());
        assert_eq!(attached.expiry(key).unwrap(), Some(None));
    }
    // Expired is absent, whatever it was.
    writer.call("DEBUG SET-ACTIVE-EXPIRE 0");
    writer.call("PEXPIRE l 1");
    poll_until("the list to expire", || !attached.exists(b"l").unwrap());
    assert!(!attached.get(b"l", &mut value).unwrap());
    assert_eq!(attached.strlen(b"l").unwrap(), 0);
    // A string in its place, and the other way round.
    writer.call("SET h text");
    assert!(attached.get(b"h", &mut value).unwrap());
    assert_eq!(value, b"text");
    writer.ask(&set("large", &bytes(1, 100_000)));
    writer.call("RENAME z large");
    assert!(matches!(attached.get(b"large", &mut value), Err(AttachError::WrongType)));
}

#[test]
fn pinned_value_stays_as_it_was() {
    let server = server();
    let (attached, mut writer) = (attach(&server), server.unix());
    let old = bytes(1, 100_000);
    writer.ask(&set("key", &old));
    let mut buffer = Vec::new();
    let view = attached.view(b"key", &mut buffer).unwrap().expect("it is there");
    for change in ["APPEND key tail", "SETRANGE key 10 middle", "SET key small", "DEL key"] {
        writer.call(change);
        assert_eq!(*view, old[..], "{change}");
    }
    writer.call("FLUSHALL");
    for index in 0..40 {
        writer.ask(&set(&format!("other:{index}"), &bytes(index, 100_000)));
    }
    assert_eq!(*view, old[..]);
}

#[test]
fn new_segments_are_mapped_when_values_lie_there() {
    let server = server();
    let (attached, mut writer) = (attach(&server), server.unix());
    let mut value = Vec::new();
    for round in 0..3 {
        let names: Vec<String> = (0..200).map(|index| format!("key:{round}:{index}")).collect();
        let content = |index: usize| bytes(index + round, 1000 + index * 700);
        let requests: Vec<Request> =
            names.iter().enumerate().map(|(index, name)| set(name, &content(index))).collect();
        writer.pipeline(&requests);
        for (index, name) in names.iter().enumerate() {
            assert!(attached.get(name.as_bytes(), &mut value).unwrap(), "{name}");
            assert_eq!(value, content(index), "{name}");
        }
        writer.call("FLUSHALL");
        assert!(!attached.exists(names[0].as_bytes()).unwrap());
    }
}

#[test]
fn databases_are_told_apart_and_swapped() {
    let server = server();
    let (mut attached, mut writer) = (attach(&server), server.unix());
    let mut value = Vec::new();
    writer.call("SET key zero");
    writer.call("SELECT 5");
    writer.call("SET key five");
    assert!(attached.get(b"key", &mut value).unwrap());
    assert_eq!(value, b"zero");
    writer.call("SWAPDB 0 5");
    assert!(attached.get(b"key", &mut value).unwrap());
    assert_eq!(value, b"five");
    attached.select(DatabaseIndex(5)).unwrap();
    assert!(attached.get(b"key", &mut value).unwrap());
    assert_eq!(value, b"zero");
    assert!(matches!(attached.select(DatabaseIndex(99)), Err(AttachError::Refused(_))));
}

#[test]
fn who_may_not_is_refused_and_a_session_ends_with_its_connection() {
    let server = server();
    let attached = attach(&server);
    assert_eq!(server.info("shm_sessions"), 1);
    drop(attached);
    poll_until("the session to end", || server.info("shm_sessions") == 0);
    assert!(server.tcp().ask(&words("SHM ATTACH")).error().is_some());
    let closed = Launch::new(Kind::Forebay).option("shm-reads", "no").start();
    let refusal = Attached::connect(closed.socket(), None).err().expect("nobody may");
    assert!(matches!(refusal, AttachError::Refused(_)), "{refusal}");
    let locked = Launch::new(Kind::Forebay).option("requirepass", "secret").start();
    assert!(Attached::connect(locked.socket(), None).is_err());
    assert!(Attached::connect(locked.socket(), Some(b"secret")).is_ok());
}

#[test]
fn server_that_is_gone_is_no_server_without_keys() {
    for signal in ["TERM", "KILL"] {
        let mut server = server();
        let (attached, mut writer) = (attach(&server), server.unix());
        writer.ask(&set("key", b"value"));
        assert!(attached.exists(b"key").unwrap());
        attached.check().unwrap();
        server.signal(signal);
        server.wait();
        // After an orderly end a read says so too; a killed server leaves the memory as it was.
        if signal == "TERM" {
            assert!(matches!(attached.exists(b"key"), Err(AttachError::Io(_))));
        }
        poll_until("the end to be seen", || attached.check().is_err());
        assert!(attached.check().is_err());
    }
}
