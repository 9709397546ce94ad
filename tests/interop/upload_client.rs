//! Values that a client writes in place.

use client::{Attached, Lane, LaneShape, Mode, UploadBuffer, Uploads};
use harness::{Kind, Launch, Server, bytes, encode, poll_until, words};
use resp::Value as Reply;

const SEGMENT_BYTES: u64 = 1 << 20;

fn server() -> Server {
    Launch::new(Kind::Forebay).option("segment-size", "1mb").start()
}

/// Writes `value` and commits it under `key` by `lane`.
fn put(
    uploads: &Uploads,
    lane: &mut Lane,
    mode: Mode,
    key: &str,
    value: &[u8],
    options: &[&[u8]],
) -> Reply {
    let length = value.len() as u64;
    let mut room: UploadBuffer =
        uploads.allocate(length.max(1), |requests| lane.pipeline(requests)).expect("there is room");
    room[..value.len()].copy_from_slice(value);
    let target = (key.as_bytes(), options);
    let sent = |requests: &[&[&[u8]]]| lane.pipeline(requests);
    uploads.commit((room, length), mode, target, 0, sent).expect("the upload is open").0
}

#[test]
fn upload_that_is_committed_serves_who_awaits_its_key() {
    let server = server();
    let (mut lane, mut waiter) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(1 << 20).unwrap();
    for (mode, length) in [(Mode::Copy, 100), (Mode::Copy, 70_000), (Mode::Adopt, 70_000)] {
        waiter.send(&encode(&[words("DEL key"), words("AWAIT key 0")])).unwrap();
        assert!(waiter.read().is_ok());
        poll_until("the wait to begin", || server.info("blocked_clients") == 1);
        put(&uploads, &mut lane, mode, "key", &bytes(1, length), &[]);
        assert_eq!(waiter.read().unwrap().value, Reply::Bulk(b"key".to_vec()), "{mode:?} {length}");
    }
}

#[test]
fn upload_is_set_by_either_mode_at_every_size() {
    let server = server();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(4 << 20).unwrap();
    assert_eq!(uploads.bytes(), 4 << 20);
    assert!(uploads.may_adopt());
    let attached = Attached::connect(server.socket(), None).unwrap();
    let mut buffer = Vec::new();
    for (seed, length) in [0, 1, 44, 45, 4000, 4095, 4096, 70_001, 3 << 20].into_iter().enumerate()
    {
        for mode in [Mode::Copy, Mode::Adopt] {
            let (key, value) = (format!("{mode:?}:{length}"), bytes(seed, length));
            let stored = put(&uploads, &mut lane, mode, &key, &value, &[]);
            assert_eq!(stored, Reply::Simple(b"OK".to_vec()));
            let view = attached.view(key.as_bytes(), &mut buffer).unwrap().expect("it is there");
            assert_eq!(*view, value[..], "{key}");
            drop(view);
            assert_eq!(socket.call(&format!("STRLEN {key}")), Reply::Integer(length as i64));
            let is_adopted = mode == Mode::Adopt && length >= 4096;
            assert_eq!(socket.info("shm_adopted_values"), u64::from(is_adopted), "{key}");
            assert_eq!(socket.call(&format!("GET {key}")), Reply::Bulk(value.clone()), "{key}");
            assert_eq!(socket.info("shm_adopted_values"), 0, "its bytes were needed");
            assert_eq!(attached.strlen(key.as_bytes()).unwrap(), length as u64);
            socket.call(&format!("DEL {key}"));
        }
    }
    assert_eq!(socket.info("shm_uploads_open"), 0);
    assert_eq!(socket.info("shm_adopted_owned"), 3);
}

#[test]
fn what_needs_no_bytes_leaves_an_adopted_value_where_it_lies() {
    let server = server();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(1).unwrap();
    put(&uploads, &mut lane, Mode::Adopt, "key", &bytes(1, 5000), &[]);
    for line in [
        "EXISTS key",
        "STRLEN key",
        "TYPE key",
        "TTL key",
        "OBJECT ENCODING key",
        "EXPIRE key 100",
        "PERSIST key",
        "TOUCH key",
        "MEMORY USAGE key",
        "SCAN 0",
        "KEYS *",
        "DEBUG DIGEST",
        "RANDOMKEY",
    ] {
        socket.call(line);
        assert_eq!(socket.info("shm_adopted_values"), 1, "{line}");
    }
    put(&uploads, &mut lane, Mode::Adopt, "key", &bytes(2, 5000), &[]);
    assert_eq!(socket.info("shm_adopted_values"), 1, "the other one is gone");
    socket.call("SET key small");
    assert_eq!(socket.info("shm_adopted_values"), 0);
    assert_eq!(socket.info("shm_adopted_owned"), 0);
}

#[test]
fn commit_has_the_options_and_replies_of_set() {
    let server = server();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(1).unwrap();
    let (old, new) = (bytes(1, 5000), bytes(2, 6000));
    for mode in [Mode::Copy, Mode::Adopt] {
        let mut put =
            |value: &[u8], options: &[&[u8]]| put(&uploads, &mut lane, mode, "key", value, options);
        assert_eq!(put(&old, &[b"XX"]), Reply::Null);
        assert_eq!(put(&old, &[b"NX", b"PX", b"100000"]), Reply::Simple(b"OK".to_vec()));
        assert_eq!(put(&new, &[b"NX"]), Reply::Null);
        assert_eq!(put(&new, &[b"IFEQ", &new]), Reply::Null);
        assert_eq!(put(&new, &[b"GET", b"KEEPTTL"]), Reply::Bulk(old.clone()));
        assert_eq!(put(&old, &[b"IFEQ", &new, b"KEEPTTL"]), Reply::Simple(b"OK".to_vec()));
        let Reply::Integer(rest) = socket.call("PTTL key") else { panic!("a time to live") };
        assert!((1..=100_000).contains(&rest));
        assert_eq!(socket.call("GET key"), Reply::Bulk(old.clone()));
        assert_eq!(socket.info("shm_uploads_open"), 0, "each commit ends its upload");
        socket.call("DEL key");
    }
}

#[test]
fn one_round_trip_commits_and_allocates_on_the_same_memory() {
    let server = server();
    let mut lane = server.bare_lane(65_536);
    let uploads = lane.uploads(SEGMENT_BYTES).unwrap();
    let length = 300_000;
    let mut room = uploads.allocate(length, |requests| lane.pipeline(requests)).unwrap();
    let first = room.offset();
    for seed in 0..20 {
        room.copy_from_slice(&bytes(seed, length as usize));
        let target: (&[u8], &[&[u8]]) = (b"key", &[]);
        let sent = |requests: &[&[&[u8]]]| lane.pipeline(requests);
        let (stored, next) =
            uploads.commit((room, length), Mode::Copy, target, length, sent).unwrap();
        assert_eq!(stored, Reply::Simple(b"OK".to_vec()));
        room = next.expect("it was asked for");
        assert_eq!(room.offset(), first, "warm memory comes first");
        let stored = lane.call(&[b"GET", b"key"]).unwrap();
        assert_eq!(stored, Reply::Bulk(bytes(seed, length as usize)));
    }
}

/// A client may give a value up half written, and use the room for another.
#[test]
fn parts_that_are_copied_ahead_make_up_the_value_they_are_of() {
    let server = server();
    let attached = Attached::connect(server.socket(), None).unwrap();
    let shape = LaneShape::new(65_536, 65_536).unwrap();
    let mut lanes = [(); 2].map(|()| attached.new_lane(shape).unwrap());
    let uploads = lanes[0].uploads(16 << 20).unwrap();
    let (mut socket, length) = (server.unix(), 5 << 20);
    let mut room = uploads.allocate(length, |requests| lanes[0].pipeline(requests)).unwrap();
    for seed in 0..12 {
        let value = bytes(seed, length as usize - seed);
        for fill in 0..seed % 3 {
            let given_up = bytes(100 + fill, value.len());
            lanes[0].fill(&mut room, &given_up, Mode::Copy, b"key").unwrap();
        }
        let mut mode = if seed % 4 == 3 { Mode::Adopt } else { Mode::Copy };
        if seed % 7 == 2 {
            // What was copied ahead before is of no value that is committed so.
            room[..value.len()].copy_from_slice(&value);
        } else {
            mode = lanes[0].fill(&mut room, &value, mode, b"key").unwrap();
            assert_eq!(mode, if seed % 4 == 3 { Mode::Adopt } else { Mode::Copied });
        }
        // The parts are of another connection, or another key, at times.
        let lane = &mut lanes[usize::from(seed % 5 == 4)];
        let key = if seed % 6 == 5 { "longer" } else { "key" };
        let target: (&[u8], &[&[u8]]) = (key.as_bytes(), &[]);
        let sent = |requests: &[&[&[u8]]]| lane.pipeline(requests);
        let (stored, next) =
            uploads.commit((room, value.len() as u64), mode, target, length, sent).unwrap();
        assert_eq!(stored, Reply::Simple(b"OK".to_vec()), "{seed}");
        room = next.expect("it was asked for");
        assert!(socket.call(&format!("GET {key}")) == Reply::Bulk(value), "{seed}");
        assert_eq!(socket.call("DEL key longer"), Reply::Integer(1));
    }
}

#[test]
fn what_is_copied_ahead_is_kept_for_the_next_request_only() {
    let server = server();
    let mut lane = server.bare_lane(65_536);
    let uploads = lane.uploads(16 << 20).unwrap();
    let room = uploads.allocate(3_000_000, |requests| lane.pipeline(requests)).unwrap();
    let (mut socket, offset) = (server.unix(), room.offset());
    let mut ask = |line: String| lane.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    for (part, expected) in [
        ("0 1000", Reply::Integer(1000)),
        ("1000 70000", Reply::Integer(70_000)),
        ("1000 80000", Reply::Integer(0)),
        ("70000 80000", Reply::Integer(0)),
        ("0 100000", Reply::Integer(100_000)),
        ("5 4", Reply::Error(b"ERR the part is not within the length".to_vec())),
        ("0 3000001", Reply::Error(b"ERR the part is not within the length".to_vec())),
    ] {
        let reply = ask(format!("SHM COPY {offset} 3000000 {part} key")).unwrap();
        assert_eq!(reply, expected, "{part}");
    }
    let begin = || format!("SHM COPY {offset} 3000000 0 100000 key");
    let reserved = || server.info("used_memory_extents_reserved");
    // The client may have written the upload anew where its last request was none of these.
    for between in [
        "PING".to_owned(),
        "MSET a 1 b 2".to_owned(),
        "NONSENSE".to_owned(),
        format!("SHM COMMIT {offset} 3000000 COPIED key EX 0"),
        format!("SHM COMMIT {offset}"),
        format!("SHM COPY {} 3000000 0 9 key", offset + 4096),
        "MULTI".to_owned(),
        "DISCARD".to_owned(),
    ] {
        if between != "DISCARD" {
            assert_eq!(ask(begin()).unwrap(), Reply::Integer(100_000), "before {between}");
            assert!(reserved() >= 3_000_000, "before {between}");
        }
        ask(between.clone()).unwrap();
        assert_eq!(reserved(), 0, "behind {between}");
    }
    // It takes its room once, and leaves an adopted value of its key where that lies.
    let small = ask("SHM ALLOC 5000".to_owned()).unwrap();
    let Reply::Integer(small) = small else { panic!("{small:?}") };
    assert_eq!(
        ask(format!("SHM COMMIT {small} 5000 ADOPT key")).unwrap(),
        Reply::Simple(b"OK".into())
    );
    let owned = server.info("shm_adopted_owned");
    let before = socket.info("used_memory");
    assert_eq!(ask(begin()).unwrap(), Reply::Integer(100_000));
    let growth = socket.info("used_memory") - before;
    assert!((3_000_000..5_000_000).contains(&growth), "{growth}");
    assert_eq!(server.info("shm_adopted_owned"), owned);
    drop((lane, uploads));
    poll_until("what was copied ahead to go with its connection", || reserved() == 0);
}

/// The server gives room in any run of the session, whoever has had that made.
#[test]
fn memory_of_a_session_is_known_to_all_that_write_to_it() {
    let server = server();
    let mut lane = server.bare_lane(65_536);
    let [one, other] = [(); 2].map(|()| lane.uploads(SEGMENT_BYTES).unwrap());
    for uploads in [&one, &other] {
        assert_eq!(uploads.bytes(), 2 * SEGMENT_BYTES);
        let rooms = [(); 2].map(|()| {
            let room = uploads.allocate(700_000, |requests| lane.pipeline(requests));
            room.expect("one is in each of the runs")
        });
        for offset in rooms.map(|room| room.offset()) {
            uploads.give_back(offset, |requests| lane.pipeline(requests)).unwrap();
        }
    }
}

/// The values that a client has left in its memory outlive it, and the memory goes with the last.
#[test]
fn adopted_values_outlive_their_client_and_what_it_did_not_commit_does_not() {
    let server = server();
    let mut socket = server.unix();
    let attached = Attached::connect(server.socket(), None).unwrap();
    let before = socket.info("shm_upload_bytes");
    let mut writer = server.bare_lane(65_536);
    let uploads = writer.uploads(2 * SEGMENT_BYTES).unwrap();
    let value = bytes(3, 1_500_000);
    put(&uploads, &mut writer, Mode::Adopt, "kept", &value, &[]);
    let room = uploads.allocate(4096, |requests| writer.pipeline(requests)).unwrap();
    assert_eq!(socket.info("shm_uploads_open"), 1);
    drop((room, uploads, writer));
    poll_until("the client to be gone", || socket.info("shm_uploads_open") == 0);
    assert_eq!(socket.info("shm_upload_runs"), 1);
    let mut buffer = Vec::new();
    let view = attached.view(b"kept", &mut buffer).unwrap().expect("it is there");
    assert_eq!(*view, value[..]);
    socket.call("DEL kept");
    assert_eq!(socket.info("shm_upload_runs"), 1, "a view holds it");
    assert_eq!(*view, value[..]);
    drop(view);
    // The block is freed when memory is wanted again.
    poll_until("the memory to be given back", || {
        socket.call("MEMORY PURGE");
        socket.info("shm_upload_runs") == 0
    });
    assert_eq!(socket.info("shm_upload_bytes"), before);
}

#[test]
fn adopted_values_are_in_a_snapshot_and_survive_it() {
    let server = server();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(1 << 20).unwrap();
    let value = bytes(4, 70_000);
    put(&uploads, &mut lane, Mode::Adopt, "key", &value, &[]);
    assert_eq!(socket.call("SAVE"), Reply::Simple(b"OK".to_vec()));
    assert_eq!(socket.info("shm_upload_runs"), 1, "it lies where it lay");
    assert_eq!(socket.call("DEBUG RELOAD"), Reply::Simple(b"OK".to_vec()));
    assert_eq!(socket.call("GET key"), Reply::Bulk(value));
}

/// Adopted values are evicted as others are; their memory goes back to their session.
#[test]
fn full_server_evicts_adopted_values_and_counts_upload_memory() {
    const MAX_BYTES: u64 = 64 << 20;
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("maxmemory", "64mb")
        .option("maxmemory-policy", "allkeys-random")
        .start();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(12 << 20).unwrap();
    assert!(lane.uploads(8 << 20).is_err(), "a quarter of maxmemory is for uploads");
    let value = bytes(1, 100_000);
    let mut evicted = 0;
    for index in 0..3000 {
        let key = format!("key:{index}");
        if index % 3 == 0 && socket.info("shm_adopted_bytes") < 11 << 20 {
            let stored = put(&uploads, &mut lane, Mode::Adopt, &key, &value, &[]);
            assert_eq!(stored, Reply::Simple(b"OK".to_vec()));
        } else {
            let set = vec![b"SET".to_vec(), key.into_bytes(), value.clone()];
            assert_eq!(socket.ask(&set).value, Reply::Simple(b"OK".to_vec()));
        }
        if index % 100 == 99 {
            let used = socket.info("used_memory");
            assert!(used <= MAX_BYTES, "{used} bytes at {index}");
            evicted = socket.info("evicted_keys");
        }
    }
    assert!(evicted > 1000, "{evicted} keys");
    let adopted = socket.info("shm_commits_adopted");
    let left = socket.info("shm_adopted_values");
    assert!(adopted > left + 50, "{left} of {adopted} adopted values are left");
    let used = socket.info("used_memory");
    socket.call("FLUSHALL");
    assert_eq!(socket.info("shm_adopted_values"), 0);
    drop((uploads, lane));
    poll_until("the memory to be uncharged", || used - socket.info("used_memory") > 12 << 20);
}

/// What an adopted value took is no room for others: where only small entries have any, they make
/// it, and do not wait until all adopted values are gone for nothing.
#[test]
fn large_value_gets_its_room_from_small_keys_beside_adopted_values() {
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("maxmemory", "48mb")
        .option("maxmemory-policy", "allkeys-lru")
        .start();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(11 << 20).unwrap();
    for index in 0..100 {
        let stored =
            put(&uploads, &mut lane, Mode::Adopt, &format!("adopted:{index}"), &[7; 100_000], &[]);
        assert_eq!(stored, Reply::Simple(b"OK".to_vec()));
    }
    for batch in 0..60 {
        let set = |index: usize| {
            let key = format!("small:{batch}:{index}").into_bytes();
            vec![b"SET".to_vec(), key, vec![7; 800]]
        };
        let sets: Vec<Vec<Vec<u8>>> = (0..1000).map(set).collect();
        socket.send(&encode(&sets)).unwrap();
        sets.iter().for_each(|_| assert!(socket.read().is_ok()));
        // Used last: the policy has no reason to take them.
        for index in 0..100 {
            socket.call(&format!("TOUCH adopted:{index}"));
        }
    }
    let before = socket.info("shm_adopted_values");
    for index in 0..4 {
        let set = vec![b"SET".to_vec(), format!("large:{index}").into_bytes(), vec![8; 1 << 20]];
        assert_eq!(socket.ask(&set).value, Reply::Simple(b"OK".to_vec()), "{index}");
    }
    let left = socket.info("shm_adopted_values");
    assert!(left + 48 >= before, "{left} of {before} adopted values are left");
}

/// Stores `count` adopted values of 1 MB, and fills the server until it refuses writes.
fn full_of_adopted_values(count: usize) -> (Server, Lane, Uploads) {
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("maxmemory", "64mb")
        .option("shm-upload-total-max", "40mb")
        .start();
    let mut lane = server.bare_lane(65_536);
    let uploads = lane.uploads(36 << 20).expect("there is room");
    for index in 0..count {
        let value = bytes(index, 1_000_000);
        put(&uploads, &mut lane, Mode::Adopt, &format!("adopted:{index}"), &value, &[]);
    }
    let mut socket = server.unix();
    for index in 0.. {
        let set = vec![b"SET".to_vec(), format!("filler:{index}").into_bytes(), vec![8; 300_000]];
        if matches!(socket.ask(&set).value, Reply::Error(_)) {
            break;
        }
    }
    (server, lane, uploads)
}

#[test]
fn reads_of_adopted_values_are_answered_where_there_is_no_room() {
    let (server, _lane, _uploads) = full_of_adopted_values(30);
    let mut socket = server.unix();
    assert_eq!(socket.call("GET adopted:3"), Reply::Bulk(bytes(3, 1_000_000)));
    assert_eq!(socket.call("GETRANGE adopted:3 5 9"), Reply::Bulk(bytes(3, 10)[5..].to_vec()));
    assert!(matches!(socket.call("BITCOUNT adopted:4"), Reply::Integer(1..)));
    // Copies for one connection's replies take at most half of what the limit may be passed by.
    let keys: Vec<String> = (0..6).map(|index| format!("adopted:{index}")).collect();
    let all = (0..6).map(|index| Reply::Bulk(bytes(index, 1_000_000))).collect();
    let line = format!("MGET {}", keys.join(" "));
    assert_eq!(socket.call(&line), Reply::Array(all));
    socket.call("MULTI");
    socket.call("GET adopted:3");
    let both = Reply::Array(vec![Reply::Bulk(bytes(3, 1_000_000))]);
    assert_eq!(socket.call("EXEC"), both);
    assert_eq!(socket.info("shm_adopted_values"), 30, "there was no room for a copy");
    socket.call("CONFIG SET maxmemory-policy allkeys-lru");
    let Reply::Array(some) = socket.call(&line) else { panic!("reads are answered") };
    assert_eq!(some.len(), 6);
}

/// What is copied because a transaction or a write of several keys needs its bytes is held against
/// the limit before.
#[test]
fn adopted_values_are_not_owned_far_beyond_the_limit() {
    let (server, _lane, _uploads) = full_of_adopted_values(30);
    let mut socket = server.unix();
    let refused = b"OOM command not allowed when used memory > 'maxmemory'.".to_vec();
    let keys: Vec<String> = (0..30).map(|index| format!("adopted:{index}")).collect();
    let command = format!("BITOP OR all {}", keys.join(" "));
    assert_eq!(socket.call(&command), Reply::Error(refused.clone()));
    assert_eq!(socket.info("shm_adopted_values"), 30);
    socket.call("DEL filler:0");
    socket.call("MULTI");
    for key in &keys {
        socket.call(&format!("SETRANGE {key} 0 x"));
    }
    let Reply::Array(replies) = socket.call("EXEC") else { panic!("it has run") };
    let refusals = replies.iter().filter(|reply| matches!(reply, Reply::Error(_))).count();
    assert!((10..25).contains(&refusals), "{refusals} of 30 refused");
    let used = socket.info("used_memory");
    assert!(used < (64 + 18) << 20, "{used} bytes");
}

#[test]
fn transaction_commits_when_it_runs_and_leaves_what_it_discards() {
    let server = server();
    let mut lane = server.bare_lane(65_536);
    let uploads = lane.uploads(1).unwrap();
    let mut room = uploads.allocate(5000, |requests| lane.pipeline(requests)).unwrap();
    room.copy_from_slice(&bytes(1, 5000));
    let offset = room.offset().to_string();
    let commit: [&[u8]; 6] = [b"SHM", b"COMMIT", offset.as_bytes(), b"5000", b"ADOPT", b"key"];
    for end in [&b"DISCARD"[..], b"EXEC"] {
        lane.call(&[b"MULTI"]).unwrap();
        assert_eq!(lane.call(&commit).unwrap(), Reply::Simple(b"QUEUED".to_vec()));
        let reply = lane.call(&[b"SHM", b"ALLOC", b"64"]);
        assert!(reply.is_err() || matches!(reply, Ok(Reply::Error(_))), "not within MULTI");
        lane.call(&[b"DISCARD"]).unwrap();
        lane.call(&[b"MULTI"]).unwrap();
        lane.call(&commit).unwrap();
        lane.call(&[end]).unwrap();
        let length = if end == b"EXEC" { 5000 } else { 0 };
        assert_eq!(lane.call(&[b"STRLEN", b"key"]).unwrap(), Reply::Integer(length));
    }
    assert_eq!(lane.call(&[b"GET", b"key"]).unwrap(), Reply::Bulk(bytes(1, 5000)));
}

#[test]
fn values_are_not_adopted_while_shared_reads_are_off() {
    let server = server();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(1).expect("there is room");
    let mut room = uploads.allocate(5000, |requests| lane.pipeline(requests)).expect("as above");
    room.fill(1);
    let commit = |mode: &str| format!("SHM COMMIT {} 5000 {mode} key", room.offset());
    let mut call = |line: &str| {
        let words = words(line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        lane.call(&words).map_err(|error| error.to_string())
    };
    assert_eq!(socket.call("CONFIG SET shm-reads no"), Reply::Simple(b"OK".to_vec()));
    let refused = Reply::Error(b"NOPERM values of this user are not adopted".to_vec());
    assert_eq!(call(&commit("ADOPT")), Ok(refused));
    assert_eq!(socket.call("CONFIG SET shm-reads yes"), Reply::Simple(b"OK".to_vec()));
    assert_eq!(call(&commit("ADOPT")), Ok(Reply::Simple(b"OK".to_vec())));
    assert_eq!(socket.info("shm_adopted_values"), 1);
}

/// What is recorded has to be what is stored, so nothing is left where a client can write it.
#[test]
fn adopted_values_are_copied_while_effects_are_recorded() {
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "1mb")
        .option("effect-backlog-size", "1mb")
        .start();
    let (mut lane, mut socket) = (server.bare_lane(65_536), server.unix());
    let uploads = lane.uploads(1).unwrap();
    put(&uploads, &mut lane, Mode::Adopt, "key", &bytes(1, 5000), &[]);
    put(&uploads, &mut lane, Mode::Copy, "other", &bytes(2, 5000), &[]);
    assert_eq!(socket.info("shm_adopted_values"), 0);
    assert_eq!(socket.info("shm_commits_copied"), 2);
    assert_eq!(socket.call("GET key"), Reply::Bulk(bytes(1, 5000)));
}
