//! *Applying the effects of any history to an empty engine gives the same dataset digest, and each
//! value in the same encoding*: first over the keyspace's own operations, which every command is
//! made of.

use std::sync::atomic::{AtomicI64, Ordering};

use base::Key;
use base::prng::Prng;
use collections::Limits;
use command::generate::{Draw, Generator, Profile};
use command::{Flags, rows};
use effects::{Arguments, Change, Effect, EventClass, RecordBuilder, RecordView};
use keyspace::{Cost, Expiry, SweepContext, WriteView};
use resp::OwnedRequest;

use super::*;
use crate::ApplyError;

/// Keys of which threads choose: few, so that they meet.
const KEY_COUNT: u64 = 300;
/// Histories per test: a few in a debug build, where each takes a second. The environment may ask
/// for more.
const HISTORY_COUNT: u64 = if cfg!(debug_assertions) { 3 } else { 30 };

struct Mutator<'k> {
    keyspace: &'k Keyspace,
    random: Prng,
    clock: &'k AtomicI64,
}

impl Mutator<'_> {
    fn now(&self) -> UnixMs {
        UnixMs(self.clock.load(Ordering::Relaxed))
    }

    fn names(&mut self, count: u64) -> Vec<String> {
        (0..count).map(|_| format!("key:{}", self.random.below(KEY_COUNT))).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let lengths = [0, 1, 5, 60, 500, 5000];
        let mut value = vec![0; self.random.pick(&lengths)];
        self.random.fill(&mut value);
        value
    }

    fn step(&mut self) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        match self.random.below(100) {
            0 => Access::free(self.keyspace).flush_database(self.database(), self.now()),
            1 if self.random.one_in(10) => Access::free(self.keyspace).flush_all(self.now()),
            2 => {
                let (a, b) = (self.database(), self.database());
                // Without room for the tables of a new database nothing is swapped.
                Access::free(self.keyspace).swap_databases(a, b, self.now()).ok();
            }
            3..=9 => self.sweep(),
            10..=29 => self.change_atomically(),
            _ => self.change_one(),
        }
    }

    fn database(&mut self) -> DatabaseIndex {
        DatabaseIndex(self.random.below(3) as u8)
    }

    fn sweep(&mut self) {
        let shards: Vec<_> = self.keyspace.shard_indexes().collect();
        let shard = self.random.pick(&shards);
        self.keyspace.expire_step(shard, self.now(), 20);
    }

    /// One key; makes room as the engine does.
    fn change_one(&mut self) {
        let (database, now) = (self.database(), self.now());
        let names = self.names(1);
        let key = self.keyspace.hasher().key(names[0].as_bytes());
        let (kind, value) = (self.random.next(), self.value());
        for attempt in 0..16 {
            let mut guard = self.keyspace.lock(key.shard);
            let result = change(&mut guard.write(database, now), &key, kind, &value);
            drop(guard);
            let Err(need) = result else { return };
            let mut context = SweepContext::new(now, &mut self.random);
            if self.keyspace.reserve(need.after(attempt), key.shard, &mut context).is_err() {
                return;
            }
        }
    }

    /// Several keys of several databases as one record, as MULTI does.
    fn change_atomically(&mut self) {
        let now = self.now();
        let count = 1 + self.random.below(6);
        let names = self.names(count);
        let keys: Vec<Key<'_>> =
            names.iter().map(|name| self.keyspace.hasher().key(name.as_bytes())).collect();
        let plan: Vec<_> =
            keys.iter().map(|_| (self.database(), self.random.next(), self.value())).collect();
        let mut guard = self.keyspace.lock_keys(&keys);
        guard.begin_atomic();
        for (key, (database, kind, value)) in keys.iter().zip(&plan) {
            // Without room for the table of a new database the record ends early.
            if change(&mut guard.write(*database, now), key, *kind, value).is_err() {
                break;
            }
        }
        guard.finish();
        if self.keyspace.is_over_limit() {
            let mut context = SweepContext::new(now, &mut self.random);
            self.keyspace.repay(&mut context).ok();
        }
    }
}

fn change(
    view: &mut WriteView<'_>,
    key: &Key<'_>,
    kind: u64,
    value: &[u8],
) -> Result<(), keyspace::NeedRoom> {
    let at = UnixMs(view.now().0 + (kind >> 32) as i64 % 200 - 20);
    match kind % 13 {
        0 | 1 => view.set(key, value, Expiry::Clear),
        2 => view.set(key, value, Expiry::Keep),
        3 => view.set(key, value, Expiry::At(at)),
        4 => view.append(key, value).map(|_| ()),
        5 => view.set_range(key, (kind >> 40) as usize % 300, value).map(|_| ()),
        6 => view.set_expiry(key, at).map(|_| ()),
        7 => view.persist(key).map(|_| ()),
        // The key of the copy is in the same shard: no other is held.
        10 => view.copy_to(key, key, other(view)).map(|_| ()),
        11 => view.move_to(key, other(view)).map(|_| ()),
        8 => {
            view.remove(key);
            Ok(())
        }
        12 => {
            let cost = Cost::of(1 + (kind >> 40) % Cost::MAX).expect("it is one");
            view.set_costed(key, value, Expiry::Keep, cost)
        }
        _ => view.set_text(key, b"12", Expiry::Keep),
    }
}

/// Returns another database than that of `view`.
fn other(view: &WriteView<'_>) -> DatabaseIndex {
    DatabaseIndex((view.database().0 + 1) % 3)
}

fn run(keyspace: &Keyspace, seed: u64, thread_count: u64, steps: u32) {
    let clock = AtomicI64::new(NOW.0);
    std::thread::scope(|scope| {
        for thread in 0..thread_count {
            let random = Prng::new(seed * 1000 + thread);
            let mut mutator = Mutator { keyspace, random, clock: &clock };
            scope.spawn(move || (0..steps).for_each(|_| mutator.step()));
        }
    });
}

fn check(seed: u64, thread_count: u64, steps: u32, maxmemory_spare: Option<u64>) -> Keyspace {
    let original = keyspace(64);
    let sink = recording_of(&original);
    if let Some(spare) = maxmemory_spare {
        original.set_eviction_policy(policy_of(seed));
        original.set_maxmemory(original.used_memory() + spare);
    }
    run(&original, seed, thread_count, steps);
    let copy = replayed(&sink);
    assert_same_data(&copy, &original);
    assert_same_data(&super::restore::carried_over(&original), &original);
    for database in original.databases() {
        assert_eq!(copy.counts(database), original.counts(database));
    }
    original
}

#[test]
fn effects_of_one_thread_give_the_same_dataset() {
    let of = |seed| check(seed, 1, 2000, None).counters().changes;
    assert!(check_histories(HISTORY_COUNT, of) > 1000);
}

#[test]
fn effects_of_four_threads_give_the_same_dataset() {
    let of = |seed| check(seed, 4, 2000, None).counters().expired_keys;
    assert!(check_histories(HISTORY_COUNT, of) > 100);
}

#[test]
fn effects_of_four_threads_under_eviction_give_the_same_dataset() {
    let of = |seed| check(seed, 4, 2000, Some(512 << 10)).counters().evicted_keys;
    assert!(check_histories(HISTORY_COUNT, of) > 100);
}

/// Runs `requests` and checks that their effects make the same data, stored alike; the last key
/// that they name has `encoding`.
fn check_stored_alike(requests: &[String], encoding: &str) {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let sink = recording_of(engine.keyspace());
    for request in requests {
        let reply = client.run(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
    let found = client.run("OBJECT ENCODING k");
    assert!(found.ends_with(encoding), "{requests:?}: {found}");
    assert_same_data(&super::restore::carried_over(engine.keyspace()), engine.keyspace());
    let copy = replayed(&sink);
    assert_same_data(&copy, engine.keyspace());
    drop(client);
    let copy = Engine::new(copy);
    let mut other = Client::new(&copy, &host);
    for request in ["ZSCORE k a", "GET k", "OBJECT ENCODING k"] {
        let mut client = Client::new(&engine, &host);
        assert_eq!(other.run(request), client.run(request), "{requests:?}: {request}");
    }
}

/// What a command brings may change how a value is stored, even where the value stays as it is.
#[test]
fn effects_store_values_as_the_commands_did() {
    let many = |head: &str, part: &str, count: usize| format!("{head}{}", part.repeat(count));
    let long = "x".repeat(9000);
    let cases: &[(&[String], &str)] = &[
        (&[many("ZADD k", " 1 a", 129)], "skiplist"),
        (&[many("ZADD k", " -0 a", 129)], "skiplist"),
        (&[many("ZADD k", " -0 a", 128)], "listpack"),
        (&[many("ZADD k GT CH", " 3 a 2 a 5 b", 50)], "skiplist"),
        (&[many("ZADD k NX", " 3 a 2 a", 65)], "skiplist"),
        (&[format!("ZADD k 1 {} 2 b", "m".repeat(65)), "ZREM k b".into()], "skiplist"),
        (&["ZADD k 1 a".into(), many("ZADD k", " 1 a 2 b", 129)], "listpack"),
        (&[many("HSET k", " f v", 513)], "listpack"),
        (&["HSET k f v".into(), many("HSET k", " f v", 513)], "listpack"),
        (&["HSET k f v".into(), format!("HSET k f {long} f w")], "hashtable"),
        (&["HINCRBY k f 1".into(), "HSETNX k f 2".into()], "listpack"),
        (&[many("SADD k", " a", 129)], "hashtable"),
        (&[many("SADD k", " 1", 513)], "hashtable"),
        (&["SADD k a".into(), many("SADD k", " a", 129)], "hashtable"),
        (&["SADD k 1".into(), many("SADD k", " 1", 513)], "hashtable"),
        (&["SADD k 1".into(), many("SADD k", " 1", 512)], "intset"),
        (&["RPUSH k a".into(), format!("RPUSH k {long}")], "quicklist"),
        (&["RPUSH k a".into(), format!("LINSERT k BEFORE b {long}")], "quicklist"),
        (&["RPUSH k a".into(), "LINSERT k AFTER b c".into()], "listpack"),
        (&["RPUSH k a".into(), format!("LSET k 0 {long}")], "quicklist"),
        (&["RPUSH k a".into(), format!("LSET k 0 {long}"), "LSET k 0 b".into()], "listpack"),
        (&["SADD a 1 2 x".into(), "SADD b 2 x".into(), "SINTERSTORE k a b".into()], "listpack"),
        (&["SADD a 1 2 x".into(), "SADD b 2 1 7 8".into(), "SINTERSTORE k a b".into()], "intset"),
        (&["SADD a 1 2 x".into(), "SUNIONSTORE k a".into()], "listpack"),
        (&[format!("SADD a 1 2 {long}"), "SREM a 2".into(), "SUNIONSTORE k a".into()], "hashtable"),
        (
            &[format!("SADD a 1 {long}"), format!("SREM a {long}"), "SUNIONSTORE k a".into()],
            "intset",
        ),
        (
            &[
                format!("SADD a 1 2 {long}"),
                format!("SADD b {long}"),
                "SUNIONSTORE c b".into(),
                "SUNIONSTORE d b".into(),
                "SUNIONSTORE e b".into(),
                "SUNIONSTORE f b".into(),
                "SDIFFSTORE k a b c d e f".into(),
            ],
            "hashtable",
        ),
        (&["SET k 12".into(), "SETBIT k 0 0".into()], "raw"),
        (&["SET k 12".into(), "BITFIELD k SET u1 0 0".into()], "raw"),
        (&["SET k 12".into(), "SETRANGE k 0 1".into()], "raw"),
        (&["SET k 12".into(), "APPEND k ".into()], "raw"),
        (&["APPEND k 12".into()], "int"),
        (&["SET s 12".into(), "BITOP AND k s s".into()], "raw"),
        (&["SET s 12".into(), "BITOP AND k s s".into(), "COPY k l".into()], "raw"),
        (&["SET k 10".into(), "INCRBYFLOAT k 2".into()], "embstr"),
        (&["SET k 10".into(), "INCRBYFLOAT k 2.5".into()], "embstr"),
        (&["SET k 10 PX 100000".into(), "INCRBYFLOAT k 2".into()], "embstr"),
        (&["SET k 10".into(), "INCRBYFLOAT k 2".into(), "INCR k".into()], "int"),
    ];
    for (requests, encoding) in cases {
        check_stored_alike(requests, encoding);
    }
}

/// A value that is only stored otherwise has not changed: nobody counts it or is told.
#[test]
fn form_alone_is_no_change() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    let sink = recording_of(engine.keyspace());
    client.run_all(&["SET k 12", "SADD s a", "RPUSH l a", "WATCH k s l"]);
    let changes = engine.keyspace().counters().changes;
    let mut other = Client::new(&engine, &host);
    other.check("SETBIT k 0 0", ":0");
    other.check(&format!("SADD s{}", " a".repeat(129)), ":0");
    other.check(&format!("LINSERT l BEFORE b {}", "x".repeat(9000)), ":-1");
    assert_eq!((sink.commands().len(), engine.keyspace().counters().changes), (6, changes));
    other.check("SETBIT k 0 0", ":0");
    other.check(&format!("SADD s{}", " a".repeat(129)), ":0");
    other.check("LINSERT l BEFORE b c", ":-1");
    assert_eq!(sink.commands().len(), 6, "it is told once");
    let reply = client.run_all(&["MULTI", "PING", "EXEC"]);
    assert_eq!(reply, "+OK +QUEUED *1 +PONG");
}

/// Returns the bytes of a record of `effects` in database 0.
fn record_of(effects: &[Effect<'_>]) -> Vec<u8> {
    let (mut builder, mut bytes) = (RecordBuilder::default(), Vec::new());
    for effect in effects {
        builder.add(NOW, &Change::new(DatabaseIndex(0), EventClass::Generic, *effect));
    }
    builder.finish().unwrap().encode(Lsn(0), &mut bytes);
    bytes
}

#[test]
fn replay_asks_no_clock() {
    let copy = keyspace(8);
    let sink = recording_of(&copy);
    let [k, l, value] = [b"k".as_slice(), b"l", b"v"];
    let record = record_of(&[
        Effect::Set { key: k, value, expiry: Expiry::At(UnixMs(5)) },
        Effect::Append { key: k, suffix: b"w" },
        Effect::Set { key: l, value, expiry: Expiry::At(UnixMs(-7)) },
        Effect::ExpireAt { key: l, at: UnixMs(-9) },
        Effect::ExpireStaleAt { key: l, at: UnixMs(-9), grace_ms: u64::MAX },
    ]);
    Applier::new().apply(&copy, &RecordView::read(&record).unwrap()).unwrap();
    for (name, value, expiry) in [("k", b"vw".as_slice(), 5), ("l", b"v", -9)] {
        let key = copy.hasher().key(name.as_bytes());
        let guard = copy.lock(key.shard);
        let entry = guard.read(DatabaseIndex(0), NOW).inspect(&key).unwrap();
        assert_eq!((entry.value(), entry.expiry()), (value, Some(UnixMs(expiry))));
    }
    let mut times = Vec::new();
    sink.for_each(|passed_on| times.push(passed_on.header().time));
    assert_eq!(times, [NOW], "the time at which it happened");
}

#[test]
fn what_cannot_be_applied_is_refused_before_any_change() {
    let copy = keyspace_of(8, 4);
    let mut applier = Applier::new();
    let key = b"k".as_slice();
    let set = Effect::Set { key, value: b"v", expiry: Expiry::Clear };
    fn command<'a>(name: &'a str, arguments: &'a [&'a [u8]]) -> Effect<'a> {
        Effect::Command { name, key: b"k", arguments: Arguments::Slices(arguments) }
    }
    let (beyond, zero) = (DatabaseIndex(15), [b"0".as_slice()]);
    for unknown in [
        command("GET", &[]),
        command("SPOP", &[]),
        command("NOSUCH", &[]),
        command("LSET", &zero),
        command("RESTORE", &zero),
        // It names a second key, which is not locked.
        command("LMOVE", &[b"other".as_slice(), b"LEFT".as_slice(), b"RIGHT".as_slice()]),
        Effect::Move { key, database: beyond },
        Effect::SwapDatabases { a: DatabaseIndex(0), b: beyond },
    ] {
        let record = record_of(&[set, unknown]);
        let result = applier.apply(&copy, &RecordView::read(&record).unwrap());
        assert_eq!(result, Err(ApplyError::Unknown { position: 1 }), "{unknown:?}");
        assert_eq!(copy.counts(DatabaseIndex(0)).keys, 0);
    }
    let record = record_of(&[set, command("LPUSH", &[b"a".as_slice()])]);
    let misfit = applier.apply(&copy, &RecordView::read(&record).unwrap());
    assert!(matches!(misfit, Err(ApplyError::Misfit { position: 1, .. })), "{misfit:?}");
    let elements = [b"a".as_slice()];
    let list = command("RPUSH", &elements);
    for part in [
        Effect::Append { key, suffix: b"x" },
        Effect::SetRange { key, offset: 0, bytes: b"x" },
        Effect::MakeText { key },
    ] {
        let record = record_of(&[list, part]);
        let misfit = applier.apply(&keyspace_of(8, 4), &RecordView::read(&record).unwrap());
        assert!(matches!(misfit, Err(ApplyError::Misfit { position: 1, .. })), "{misfit:?}");
    }
    // What is changed was there where the record was made.
    let at = UnixMs(NOW.0 + 1);
    for change in [
        Effect::Delete { key: b"none" },
        Effect::ExpireAt { key: b"none", at },
        Effect::Persist { key: b"none" },
        Effect::MakeText { key: b"none" },
        Effect::Rename { source: b"none", target: key },
        Effect::Move { key: b"none", database: DatabaseIndex(1) },
        Effect::Copy { source: b"none", target: key, database: DatabaseIndex(0) },
    ] {
        let record = record_of(&[set, change]);
        let misfit = applier.apply(&keyspace_of(8, 4), &RecordView::read(&record).unwrap());
        assert!(matches!(misfit, Err(ApplyError::Misfit { position: 1, .. })), "{misfit:?}");
    }
    for offset in [u64::MAX, u64::MAX - 1, 1 << 40] {
        let record = record_of(&[set, Effect::SetRange { key, offset, bytes: b"x" }]);
        let misfit = applier.apply(&keyspace_of(8, 4), &RecordView::read(&record).unwrap());
        assert!(matches!(misfit, Err(ApplyError::Misfit { position: 1, .. })), "{offset}");
    }
}

/// Adding a command whose requests are effects is its row: its replay is tested from here on.
#[test]
fn requests_that_are_effects_give_the_same_wherever_they_are_applied() {
    let effects: Vec<_> = rows().filter(|row| row.is(Flags::EFFECT)).collect();
    assert!(effects.len() >= 15, "{}", effects.len());
    let mut draw = Generator::new(Profile::default(), 5);
    let [mut one, mut other] = [(); 2].map(|()| Applier::new());
    let (here, there) = (keyspace(8), keyspace(64));
    let mut applied = 0;
    for round in 0..200 * effects.len() {
        let row = effects[round % effects.len()];
        let mut request = draw.request(row);
        // LMOVE is an effect where it names one key twice.
        let owned = OwnedRequest::new(request.iter().map(Vec::as_slice));
        let mut positions = row.key_positions(owned.view());
        // What is before the key is the name, the word of PFDEBUG too.
        let name_count = positions.next().expect("an effect has a key");
        for position in positions {
            request[position] = request[name_count].clone();
        }
        let names: Vec<_> = request[..name_count].iter().map(|it| str::from_utf8(it)).collect();
        let names = names.into_iter().collect::<Result<Vec<_>, _>>().expect("names are texts");
        let (name, key) = (names.join("|").to_ascii_uppercase(), &request[name_count]);
        let arguments = request[name_count + 1..].iter();
        let arguments: Vec<&[u8]> = arguments.map(Vec::as_slice).collect();
        let arguments = Arguments::Slices(&arguments);
        let record = record_of(&[Effect::Command { name: &name, key, arguments }]);
        let record = RecordView::read(&record).unwrap();
        let results = [one.apply(&here, &record), other.apply(&there, &record)];
        assert_eq!(results[0], results[1], "{request:?}");
        applied += usize::from(results[0].is_ok());
        if results[0].is_err() {
            // Its key is of another type: away with it, lest a few types win all keys. One that is
            // not there is a misfit too.
            let record = record_of(&[Effect::Delete { key }]);
            let record = RecordView::read(&record).unwrap();
            assert_eq!(one.apply(&here, &record), other.apply(&there, &record));
        }
        assert_eq!(digest(&here), digest(&there), "{request:?}");
    }
    assert!(applied > 60 * effects.len(), "{applied} of {}", 200 * effects.len());
}

/// When a HyperLogLog becomes dense follows from an option, which may be another one where its
/// effects are applied.
#[test]
fn hyperloglogs_become_dense_where_they_did_whatever_the_limit_is_now() {
    for (here_bytes, there_bytes) in [(60, 3_000), (3_000, 60), (0, 0)] {
        let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
        let replica = Engine::new(keyspace(64));
        for (engine, sparse_bytes) in [(&engine, here_bytes), (&replica, there_bytes)] {
            let limits = Limits { sparse_bytes, ..Limits::default() };
            engine.keyspace().set_collection_limits(limits);
        }
        let sink = recording_of(engine.keyspace());
        let mut client = Client::new(&engine, &host);
        let mut random = Prng::new(9);
        for _ in 0..300 {
            let key = format!("k{}", random.below(3));
            let elements: Vec<_> =
                (0..random.below(8)).map(|_| random.below(500).to_string()).collect();
            client.run(&match random.below(8) {
                0 => format!("PFCOUNT {key}"),
                1 => format!("PFMERGE {key} k{}", random.below(3)),
                2 if random.one_in(4) => format!("DEL {key}"),
                _ => format!("PFADD {key} {}", elements.join(" ")).trim_end().to_owned(),
            });
        }
        let mut applier = Applier::new();
        sink.take(|record| applier.apply(replica.keyspace(), record).expect("it fits"));
        assert_eq!(digest(replica.keyspace()), digest(engine.keyspace()), "{here_bytes}");
    }
}
