//! DUMP and RESTORE, and the effect that makes a key what it is.

use effects::{
    Arguments, Change, Effect, EventClass, LastUse, Record, RecordBuilder, RecordView, StoredForm,
    keyspace_events,
};
use keyspace::{Content, Cost, Object};

use super::*;
use crate::ApplyError;

/// Returns an empty keyspace to which every key of `original` was carried as one effect each, and
/// its cost and its grace as one more.
pub(super) fn carried_over(original: &Keyspace) -> Keyspace {
    let (copy, mut applier) = (keyspace(8), Applier::new());
    for database in original.databases() {
        let mut records = Vec::new();
        Access::free(original).for_each_entry(database, &mut |object| {
            let (mut payload, mut bytes) = (Vec::new(), Vec::new());
            let effect = object.restoring_effect(&mut payload);
            let change = Change::new(database, EventClass::Generic, effect);
            Record::one(NOW, &change).encode(Lsn(0), &mut bytes);
            records.push(bytes);
            if object.cost() != Cost::ONE {
                records.push(costed(database, &object));
            }
            if let Some(at) = object.expiry() {
                let (effect, mut bytes) = (stale_expiry(&object, at), Vec::new());
                let change = Change::new(database, EventClass::Generic, effect);
                Record::one(NOW, &change).encode(Lsn(0), &mut bytes);
                records.push(bytes);
            }
        });
        for record in records {
            applier.apply(&copy, &RecordView::read(&record).unwrap()).unwrap();
        }
    }
    copy
}

/// Returns the record that gives `object`, a string, its cost, stored as it is.
fn costed(database: DatabaseIndex, object: &Object<'_>) -> Vec<u8> {
    let (cost, content) = (object.cost().number().to_string(), object.content());
    let Content::String(value) = &content else { panic!("only a string has a cost") };
    let arguments = [&value[..], b"KEEPTTL", b"COST", cost.as_bytes()];
    let (key, arguments) = (object.key(), Arguments::Slices(&arguments));
    let effect = Effect::Command { name: "SET", key, arguments };
    let mut builder = RecordBuilder::default();
    let mut add = |effect| builder.add(NOW, &Change::new(database, EventClass::String, effect));
    add(effect);
    match object.form() {
        StoredForm::Embstr => add(Effect::MakeText { key }),
        StoredForm::Raw => add(Effect::SetRange { key, offset: 0, bytes: &value[..1] }),
        _ => {}
    }
    let mut bytes = Vec::new();
    builder.finish().expect("it has a change").encode(Lsn(0), &mut bytes);
    bytes
}

/// Returns the effect that gives `object`, which expires at `at`, its grace.
fn stale_expiry<'a>(object: &'a Object<'_>, at: UnixMs) -> Effect<'a> {
    Effect::ExpireStaleAt { key: object.key(), at, grace_ms: object.grace().ms() }
}

/// Runs a request of any bytes and returns the reply's.
fn ask(client: &mut Client<'_>, words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(words, &mut bytes);
    client.run_bytes(&mut bytes, 0).0
}

fn text(reply: &[u8]) -> String {
    reply.escape_ascii().to_string().replace("\\r\\n", " ").trim_end().to_owned()
}

fn dump(client: &mut Client<'_>, key: &str) -> Vec<u8> {
    let reply = ask(client, &[b"DUMP", key.as_bytes()]);
    let header = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert_eq!(reply[0], b'$', "{}", text(&reply));
    reply[header..reply.len() - 2].to_vec()
}

fn restore(client: &mut Client<'_>, key: &str, ttl: &str, payload: &[u8], options: &str) -> String {
    let mut words = vec![b"RESTORE".as_slice(), key.as_bytes(), ttl.as_bytes(), payload];
    words.extend(options.split_whitespace().map(str::as_bytes));
    text(&ask(client, &words))
}

const VALUES: [&str; 6] = [
    "SET k deep",
    "SET k -7",
    "RPUSH k a 1 b",
    "SADD k a 1 b",
    "HSET k a 1 b 2",
    "ZADD k 1 a -2.5 b inf c",
];

#[test]
fn what_was_dumped_is_restored() {
    let (engine, host) =
        (Engine::new(keyspace(8)), TestHost { allows_debug: true, ..TestHost::default() });
    let mut client = Client::new(&engine, &host);
    client.check("DUMP none", "$-1");
    for value in VALUES {
        client.run_all(&["FLUSHALL", value]);
        let payload = dump(&mut client, "k");
        assert_eq!(restore(&mut client, "l", "0", &payload, ""), "+OK");
        assert_eq!(dump(&mut client, "l"), payload);
        let of = |client: &mut Client<'_>, key: &str| {
            [format!("DEBUG DIGEST-VALUE {key}"), format!("OBJECT ENCODING {key}")]
                .map(|request| client.run(&request))
        };
        assert_eq!(of(&mut client, "k"), of(&mut client, "l"), "{value}");
        client.check("TTL l", ":-1");
    }
}

#[test]
fn requests_are_refused_in_the_order_and_words_of_redis() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run("SET k deep");
    let payload = dump(&mut client, "k");
    let mut newer = payload.clone();
    newer[payload.len() - 10] = 12;
    let bad = {
        let mut value = b"\x02\x02\x01a\x01a".to_vec();
        rdb::seal(&mut value);
        value
    };
    let busy = "-BUSYKEY Target key name already exists.";
    let wrong = "-ERR DUMP payload version or checksum are wrong";
    for (key, ttl, payload, options, expected) in [
        ("k", "x", &payload[..], "NOSUCH", "-ERR syntax error"),
        ("k", "x", &payload, "", busy),
        ("l", "x", b"", "", "-ERR value is not an integer or out of range"),
        ("l", "-1", b"", "", "-ERR Invalid TTL value, must be >= 0"),
        ("l", "0", b"", "", wrong),
        ("l", "0", &payload[..payload.len() - 1], "", wrong),
        ("l", "0", &newer, "", wrong),
        ("k", "0", &bad, "REPLACE", "-ERR Bad data format"),
        ("l", "0", &payload, "IDLETIME", "-ERR syntax error"),
        ("l", "0", &payload, "IDLETIME 1 FREQ 1", "-ERR syntax error"),
        ("l", "0", &payload, "IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0"),
        ("l", "0", &payload, "FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ("k", "0", &payload, "replace", "+OK"),
    ] {
        assert_eq!(restore(&mut client, key, ttl, payload, options), expected, "{key} {options}");
    }
    client.check("EXISTS k l", ":1");
}

#[test]
fn times_are_relative_or_absolute_and_what_is_over_only_deletes() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run("SET k deep");
    let payload = dump(&mut client, "k");
    let sink = recording_of(engine.keyspace());
    let at = |ms: i64| (NOW.0 + ms).to_string();
    assert_eq!(restore(&mut client, "l", "1500", &payload, ""), "+OK");
    client.check("PEXPIRETIME l", &format!(":{}", at(1500)));
    assert_eq!(restore(&mut client, "l", &at(99), &payload, "ABSTTL REPLACE"), "+OK");
    client.check("PEXPIRETIME l", &format!(":{}", at(99)));
    assert_eq!(restore(&mut client, "l", "0", &payload, "REPLACE ABSTTL"), "+OK");
    client.check("TTL l", ":-1");
    assert_eq!(restore(&mut client, "l", &at(0), &payload, "REPLACE ABSTTL"), "+OK");
    assert_eq!(restore(&mut client, "m", "1", &payload, "ABSTTL"), "+OK");
    client.check("EXISTS l m", ":0");
    let told = sink.commands();
    let payload = String::from_utf8_lossy(&payload).into_owned();
    let one = |ttl: &str| format!("RESTORE l {ttl} {payload} REPLACE ABSTTL");
    assert_eq!(told, [one(&at(1500)), one(&at(99)), one("0"), "DEL l".to_owned()]);
}

#[test]
fn a_value_takes_the_place_of_one_of_any_type_and_is_one_event() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    for before in VALUES {
        for after in VALUES {
            client.run_all(&["FLUSHALL", after, "RENAME k l"]);
            let payload = dump(&mut client, "l");
            let sink = recording_of(engine.keyspace());
            client.run_all(&[before, "PEXPIRE k 5000", "WATCH k"]);
            assert_eq!(restore(&mut client, "k", "0", &payload, "REPLACE"), "+OK");
            assert_eq!(dump(&mut client, "k"), payload, "{before} {after}");
            assert_eq!(client.run_all(&["MULTI", "EXEC"]), "+OK *-1");
            client.check("TTL k", ":-1");
            let mut events: Vec<String> = Vec::new();
            sink.for_each(|record| {
                let all = record.changes().flat_map(|change| keyspace_events(&change));
                events = all.map(|event| event.name).collect();
            });
            assert_eq!(events, ["restore"]);
        }
    }
}

#[test]
fn use_is_restored_as_the_policy_tells_it() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run("SET k deep");
    let payload = dump(&mut client, "k");
    for (seconds, expected) in [("0", ":0"), ("1000", ":1000"), ("9223372036854775807", ":235929")]
    {
        let options = format!("REPLACE IDLETIME {seconds}");
        assert_eq!(restore(&mut client, "l", "0", &payload, &options), "+OK");
        let found = client.run("OBJECT IDLETIME l");
        assert!(found.starts_with(expected), "{seconds}: {found}");
    }
    engine.keyspace().set_eviction_policy(EvictionPolicy::ALLKEYS_LFU);
    assert_eq!(restore(&mut client, "l", "0", &payload, "REPLACE FREQ 77"), "+OK");
    client.check("OBJECT FREQ l", ":77");
    assert_eq!(restore(&mut client, "l", "0", &payload, "REPLACE IDLETIME 77"), "+OK");
    client.check("OBJECT FREQ l", ":5");
}

#[test]
fn use_is_part_of_the_effect_and_counts_from_the_time_of_the_record() {
    for (policy, option, asked, expected) in [
        (EvictionPolicy::ALLKEYS_LRU, "IDLETIME 1000", "OBJECT IDLETIME l", ":1000"),
        (EvictionPolicy::ALLKEYS_LRU, "", "OBJECT IDLETIME l", ":0"),
        (EvictionPolicy::ALLKEYS_LFU, "FREQ 77", "OBJECT FREQ l", ":77"),
    ] {
        let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
        let mut client = Client::new(&engine, &host);
        engine.keyspace().set_eviction_policy(policy);
        client.run("SET k deep");
        let payload = dump(&mut client, "k");
        let sink = recording_of(engine.keyspace());
        assert_eq!(restore(&mut client, "l", "0", &payload, option), "+OK");
        let told = sink.commands();
        assert!(told[0].ends_with(format!("ABSTTL {option}").trim_end()), "{told:?}");
        let copy = keyspace(8);
        copy.set_eviction_policy(policy);
        let mut applier = Applier::new();
        sink.for_each(|record| applier.apply(&copy, record).unwrap());
        let copy = Engine::new(copy);
        Client::new(&copy, &host).check(asked, expected);
    }
}

#[test]
fn a_payload_that_waits_to_be_sent_counts_as_long_as_it_is() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run(&format!("SET k {}", "x".repeat(4_000_000)));
    let keyspace = engine.keyspace();
    let before = keyspace.used_memory();
    let (mut bytes, mut batch) = (Vec::new(), Batch::new());
    encode_command(&[b"DUMP".as_slice(), b"k"], &mut bytes);
    let decoded = Decoder::new().decode(&mut bytes, &mut batch, usize::MAX, &Limits::default());
    assert_eq!(decoded.consumed, bytes.len());
    let mut out = Output::default();
    let requests = batch.view(&bytes);
    let end = engine.execute(&mut client.session, requests, 0, &mut out, &mut client.execution);
    assert_eq!(end.executed, 1);
    let (held, sent) = (keyspace.used_memory() - before, out.to_vec().len() as u64);
    assert!(sent > 40_000 && held.abs_diff(sent) < 1_000, "{held} for {sent}");
    drop(out);
    assert_eq!(keyspace.used_memory(), before);
}

#[test]
fn a_value_that_expands_finds_room_before_it_is_made_or_is_refused() {
    let (engine, host) = (Engine::new(keyspace(8)), TestHost::default());
    let mut client = Client::new(&engine, &host);
    client.run(&format!("SET k {}", "x".repeat(500_000)));
    let payload = dump(&mut client, "k");
    assert!(payload.len() < 10_000);
    client.run("DEL k");
    let keyspace = engine.keyspace();
    keyspace.set_maxmemory(keyspace.used_memory() + 200_000);
    let reply = restore(&mut client, "k", "0", &payload, "");
    assert!(reply.contains("OOM command not allowed"), "{reply}");
    client.check("EXISTS k", ":0");
    keyspace.set_maxmemory(keyspace.used_memory() + 3_000_000);
    assert_eq!(restore(&mut client, "k", "0", &payload, ""), "+OK");
    client.check("STRLEN k", ":500000");
}

#[test]
fn an_effect_that_is_no_value_is_a_misfit() {
    let copy = keyspace(8);
    let mut payload = Vec::new();
    rdb::encode(rdb::Stored::String(b"deep"), &mut payload);
    let apply = |payload: &[u8], form| {
        let last_use = LastUse::Now;
        let effect = Effect::Restore { key: b"k", payload, form, expires_at: None, last_use };
        let change = Change::new(DatabaseIndex(0), EventClass::Generic, effect);
        let mut bytes = Vec::new();
        Record::one(NOW, &change).encode(Lsn(0), &mut bytes);
        Applier::new().apply(&copy, &RecordView::read(&bytes).unwrap())
    };
    for (payload, form) in [
        (&payload[1..], StoredForm::Raw),
        (&payload, StoredForm::Int),
        (&payload, StoredForm::Listpack),
    ] {
        let refused = apply(payload, form);
        assert!(matches!(refused, Err(ApplyError::Misfit { position: 0, .. })), "{refused:?}");
    }
    assert_eq!(copy.counts(DatabaseIndex(0)).keys, 0);
    assert_eq!(apply(&payload, StoredForm::Raw), Ok(()));
    assert_eq!(encodings(&copy).into_values().collect::<Vec<_>>(), ["raw"]);
}

#[test]
fn a_value_of_a_file_has_its_cost_where_effects_are_applied_too() {
    let later = UnixMs(NOW.0 + 1000);
    for (length, expires_at, cost_expected) in [
        (3, None, 8),
        (300, Some(later), 8),
        (50_000, Some(later), 8),
        // An effect has no cost with a time before that of Unix.
        (3, Some(UnixMs(-5)), 1),
    ] {
        let original = keyspace(8);
        let sink = recording_of(&original);
        let (value, mut payload) = ("v".repeat(length), Vec::new());
        rdb::encode(rdb::Stored::String(value.as_bytes()), &mut payload);
        let bytes = rdb::open(&payload).unwrap();
        let key = original.hasher().key(b"k");
        let last_use = LastUse::Ago { seconds: 7 };
        let mut guard = original.lock(key.shard);
        let mut view = guard.write(DatabaseIndex(0), NOW);
        let loaded = view.load(&key, bytes, expires_at, 500, last_use, Cost::of(8).unwrap());
        assert_eq!(loaded, Ok(true));
        drop(guard);
        let copy = replayed(&sink);
        assert_same_data(&copy, &original);
        for keyspace in [original, copy] {
            let guard = keyspace.lock(key.shard);
            let entry = guard.read(DatabaseIndex(0), UnixMs(i64::MIN)).inspect(&key).unwrap();
            assert_eq!(entry.cost().number(), cost_expected, "{length} bytes");
        }
    }
}
