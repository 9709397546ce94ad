//! Long values from upload memory are copied while no shard is locked.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use keyspace::Uploader;

use super::*;

const SESSION: u64 = 1;
const LENGTH: u64 = 8 << 20;
/// How often a copy is made until another session is met beside it.
const ROUNDS_MAX: u32 = 500;
/// How long a copy may take that waits for nobody; one that waits takes for ever.
const COPY_LIMIT: Duration = Duration::from_secs(20);

fn engine() -> Engine {
    let source = Box::new(HeapSource::new(1 << 20, 96).with_uploads(16));
    let config =
        ArenaConfig { shard_count: 8, database_count: 16, hash_keys: base::HashKeys::fixed(8) };
    let keyspace = Keyspace::new(Arena::new(source, config).unwrap());
    let uploads = keyspace.arena().uploads();
    let run = uploads.make(SESSION, 2 * LENGTH, true).unwrap();
    uploads.begin_seal(SESSION, run.offset).unwrap();
    assert!(uploads.end_seal(run.offset, true));
    Engine::new(keyspace)
}

impl Client<'_> {
    /// Commits a new upload of `length` bytes, all zero, as `options` say.
    fn commit(&mut self, length: u64, options: &str) -> String {
        self.commit_copied(length, options, &[])
    }

    /// As [`Client::commit`], with these parts copied before for a key; returns the reply to the
    /// commit.
    fn commit_copied(
        &mut self,
        length: u64,
        options: &str,
        parts: &[(&str, Range<u64>)],
    ) -> String {
        let uploads = Uploader::new(self.engine.keyspace().arena().uploads(), SESSION);
        let offset = uploads.allocate(length).unwrap();
        let mut copied = 0;
        for (key, Range { start, end }) in parts {
            let reply = self.run(&format!("SHM COPY {offset} {length} {start} {end} {key}"));
            let goes_on = start < end && (*start == 0 || *start == copied);
            copied = if goes_on { *end } else { 0 };
            assert_eq!(reply, format!(":{copied}"), "{parts:?}");
            let is_copying = self.engine.keyspace().arena().reserved_bytes() > 0;
            assert_eq!(is_copying, copied > 0, "{parts:?}");
        }
        let reply = self.run(&format!("SHM COMMIT {offset} {length} {options}"));
        assert_eq!(self.engine.keyspace().arena().reserved_bytes(), 0, "{parts:?} {options}");
        let _ = uploads.give_back(offset);
        reply
    }
}

/// Runs `round`, which copies a value of `key`, until another session has had the shard of the key
/// while the copy was made, and kept it until the copy `is_there`.
fn check_shard_is_free(
    engine: &Engine,
    is_there: impl Fn() -> bool + Sync,
    round: impl Fn(&mut Client<'_>),
) {
    let (is_met, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let keyspace = engine.keyspace();
    let shard = keyspace.hasher().key(b"key").shard;
    let has_begun = || keyspace.arena().reserved_bytes() > 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if !has_begun() {
                    std::thread::yield_now();
                    continue;
                }
                let guard = keyspace.lock(shard);
                if has_begun() && !is_there() {
                    let began = Instant::now();
                    while !is_there() && began.elapsed() < COPY_LIMIT {
                        std::thread::yield_now();
                    }
                    assert!(is_there(), "the copy waits for the shard");
                    is_met.store(true, Ordering::Relaxed);
                }
                drop(guard);
            }
        });
        let host = TestHost::default();
        let mut client = Client::new(engine, &host);
        let rounds = (0..ROUNDS_MAX).take_while(|_| !is_met.load(Ordering::Relaxed));
        rounds.for_each(|_| round(&mut client));
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(is_met.into_inner(), "another session had the shard during a copy");
    assert_eq!(keyspace.arena().reserved_bytes(), 0);
}

#[test]
fn long_upload_is_copied_while_its_shard_is_free() {
    let engine = engine();
    let uploads = Uploader::new(engine.keyspace().arena().uploads(), SESSION);
    let offset = uploads.allocate(LENGTH).unwrap();
    uploads.give_back(offset).unwrap();
    // The claim ends with the copy. The shard that the caller holds keeps the next one away.
    let is_there = || uploads.claim(offset, LENGTH).is_ok();
    check_shard_is_free(&engine, is_there, |client| {
        assert_eq!(client.commit(LENGTH, "COPY key"), "+OK");
        client.check("STRLEN key", &format!(":{LENGTH}"));
        client.check("DEL key", ":1");
    });
}

#[test]
fn long_adopted_value_is_copied_while_its_shard_is_free() {
    for request in ["GETRANGE key 0 1", "SETRANGE key 0 x", "SET key x IFEQ y", "MGET key absent"] {
        let engine = engine();
        let usage = || engine.keyspace().arena().uploads().usage();
        let round = AtomicU64::new(0);
        let is_there = || usage().owned == round.load(Ordering::Relaxed);
        check_shard_is_free(&engine, is_there, |client| {
            round.fetch_add(1, Ordering::Relaxed);
            assert_eq!(client.commit(LENGTH, "ADOPT key"), "+OK");
            let _ = client.run(request);
            assert_eq!(usage().adopted_count, 0, "{request}");
            client.check("DEL key", ":1");
        });
    }
}

#[test]
fn leases_need_no_room_to_own_what_lies_in_upload_memory() {
    let value = "\0".repeat(50_000);
    let hit = format!("*4 +HIT $50000 {value} $-1 :1000");
    let hits = format!("*3 {hit} *4 +BUSY $-1 $-1 :0 {hit}");
    let stale = format!("*4 +STALE $50000 {value} $-1 :0");
    for (requests, reply) in [
        (&["LGET key"][..], &*hit),
        (&["LGET key REFRESH 5000"], &hit),
        (&["MLGET key none key"], &hits),
        (&["LDEL key STALE 1000", "LGET key STALE"], &stale),
        (&["LFREE key 7"], ":0"),
        (&["LEXTEND key 7 10"], ":0"),
    ] {
        let (engine, host) = (engine(), TestHost::default());
        let mut client = Client::new(&engine, &host);
        assert_eq!(client.commit(50_000, "ADOPT key PX 1000"), "+OK");
        engine.keyspace().set_maxmemory(1);
        let (last, before) = requests.split_last().expect("there is one");
        client.run_all(before);
        client.check(last, reply);
        assert_eq!(engine.keyspace().arena().uploads().usage().adopted_count, 1, "{last}");
    }
}

#[test]
fn upload_that_keeps_the_time_to_live_keeps_the_cost_and_others_drop_it() {
    for (mode, length) in [("COPY", 9), ("COPY", 5_000), ("COPY", 50_000), ("ADOPT", 5_000)] {
        for is_heard in [false, true] {
            let (engine, host) = (engine(), TestHost::default());
            let sink = is_heard.then(|| recording_of(engine.keyspace()));
            let mut client = Client::new(&engine, &host);
            client.check("SET key x PX 100000 COST 8", "+OK");
            assert_eq!(client.commit(length, &format!("{mode} key KEEPTTL")), "+OK");
            client.check("OBJECT COST key", ":8");
            client.check("SETRANGE key 0 x", &format!(":{length}"));
            client.check("OBJECT COST key", ":8");
            if let Some(sink) = sink {
                let copy = Engine::new(replayed(&sink));
                Client::new(&copy, &host).check("OBJECT COST key", ":8");
            }
            assert_eq!(client.commit(length, &format!("{mode} key")), "+OK");
            client.check("OBJECT COST key", ":1");
        }
    }
}

#[test]
fn upload_takes_no_cost() {
    let (engine, host) = (engine(), TestHost::default());
    let mut client = Client::new(&engine, &host);
    for options in ["COPY key COST 8", "ADOPT key PX 1000 COST 8"] {
        assert_eq!(client.commit(5_000, options), "-ERR syntax error");
        client.check("EXISTS key", ":0");
    }
}

#[test]
fn long_copies_have_the_replies_and_effects_of_set() {
    const SHORT: u64 = 50_000;
    check_histories(20, |seed| {
        let (host, engines) = (TestHost::default(), [engine(), engine()]);
        let sinks = engines.each_ref().map(|engine| recording_of(engine.keyspace()));
        let [mut plain, mut copying] = engines.each_ref().map(|engine| Client::new(engine, &host));
        let (mut random, value) = (Prng::new(seed), "\0".repeat(SHORT as usize));
        for _ in 0..40 {
            let options = ["", " NX", " XX GET", " KEEPTTL", " PX 100000", " PXAT 1", " XX IFEQ x"];
            let options = random.pick(&options);
            let key = ["a", "b"][random.below(2) as usize];
            let mode = ["COPY", "COPIED", "ADOPT"][random.below(3) as usize];
            let expected = plain.run(&format!("SET {key} {value}{options}"));
            let mut ends = [(); 3].map(|()| random.below(4) * SHORT / 3);
            ends.sort_unstable();
            let [one, two, three] = ends;
            let parts = [(key, 0..one), (key, one..two), (key, two..three)];
            let parts = &parts[..random.below(4) as usize];
            let request = format!("{mode} {key}{options}");
            assert_eq!(copying.commit_copied(SHORT, &request, parts), expected, "{seed} {parts:?}");
            let others = [
                "DEL a",
                "LPUSH b x",
                "APPEND a x",
                "RENAME b a",
                "EXPIRE a 100",
                "SET b x",
                "SET a x COST 9",
            ];
            let other = random.pick(&others);
            assert_eq!(plain.run(other), copying.run(other), "{seed}");
            assert_eq!(copying.engine.keyspace().arena().reserved_bytes(), 0, "{seed}");
        }
        assert_eq!(sinks[0].commands(), sinks[1].commands(), "seed {seed}");
        let [plain, copied] = engines.each_ref().map(|engine| digest(engine.keyspace()));
        assert_eq!(plain, copied, "seed {seed}");
        40
    });
}
