//! COMMAND INFO says what redis-server 7.0.15 says.
//!
//! All rows of redis-server are in the file beside this one, one a line and by name, as
//! `redis-cli --json COMMAND` printed them: a new command finds its own there.

use std::collections::BTreeMap;

use resp::Value;
use serde_json::Value as Json;

use crate::support::World;

const PINNED: &str = include_str!("redis-7.0.15-command-info.json");

/// Rows that differ on purpose: (name, what differs, why).
const EXCEPTIONS: [(&str, &str, &str); 74] = [
    ("await", "absent there", "Forebay's own"),
    ("backup", "absent there", "Forebay's own"),
    ("backup|help", "absent there", "Forebay's own"),
    ("backup|status", "absent there", "Forebay's own"),
    ("backup|to", "absent there", "Forebay's own"),
    ("blmove", "flags", "Redis 7.2 lets scripts run it"),
    ("blpop", "flags", "Redis 7.2 lets scripts run it"),
    ("brpop", "flags", "Redis 7.2 lets scripts run it"),
    ("brpoplpush", "flags", "Redis 7.2 lets scripts run it"),
    ("bzpopmax", "flags", "Redis 7.2 lets scripts run it"),
    ("bzpopmin", "flags", "Redis 7.2 lets scripts run it"),
    ("client|no-touch", "absent there", "Redis 7.2 has it first"),
    ("client|setinfo", "absent there", "Redis 7.2 has it first"),
    ("delex", "absent there", "Redis 8.4 has it first"),
    ("delifeq", "absent there", "Valkey 9.0 has it"),
    ("digest", "absent there", "Redis 8.4 has it first"),
    ("feed", "absent there", "Forebay's own"),
    ("feed|ack", "absent there", "Forebay's own"),
    ("feed|create", "absent there", "Forebay's own"),
    ("feed|drop", "absent there", "Forebay's own"),
    ("feed|groups", "absent there", "Forebay's own"),
    ("feed|help", "absent there", "Forebay's own"),
    ("feed|info", "absent there", "Forebay's own"),
    ("feed|logs", "absent there", "Forebay's own"),
    ("feed|read", "absent there", "Forebay's own"),
    ("hexpire", "absent there", "Redis 7.4 has it first"),
    ("hexpireat", "absent there", "Redis 7.4 has it first"),
    ("hexpiretime", "absent there", "Redis 7.4 has it first"),
    ("hgetdel", "absent there", "Redis 8 has it first"),
    ("hgetex", "absent there", "Redis 8 has it first"),
    ("hpersist", "absent there", "Redis 7.4 has it first"),
    ("hpexpire", "absent there", "Redis 7.4 has it first"),
    ("hpexpireat", "absent there", "Redis 7.4 has it first"),
    ("hpexpiretime", "absent there", "Redis 7.4 has it first"),
    ("hpttl", "absent there", "Redis 7.4 has it first"),
    ("hsetex", "absent there", "Redis 8 has it first"),
    ("httl", "absent there", "Redis 7.4 has it first"),
    ("increx", "absent there", "Redis 8.8 has it first"),
    ("itemset", "absent there", "Forebay's own"),
    ("ldel", "absent there", "Forebay's own"),
    ("lextend", "absent there", "Forebay's own"),
    ("lfill", "absent there", "Forebay's own"),
    ("lfree", "absent there", "Forebay's own"),
    ("lget", "absent there", "Forebay's own"),
    ("mlget", "absent there", "Forebay's own"),
    ("msetex", "absent there", "Redis 8.4 has it first"),
    ("object|cost", "absent there", "Forebay's own"),
    ("purgelogsto", "absent there", "Pika has it"),
    ("cache", "absent there", "Forebay's own"),
    ("cache|advise", "absent there", "Forebay's own"),
    ("cache|help", "absent there", "Forebay's own"),
    ("shm", "absent there", "Forebay's own"),
    ("shm|alloc", "absent there", "Forebay's own"),
    ("shm|attach", "absent there", "Forebay's own"),
    ("shm|close", "absent there", "Forebay's own"),
    ("shm|commit", "absent there", "Forebay's own"),
    ("shm|copy", "absent there", "Forebay's own"),
    ("shm|free", "absent there", "Forebay's own"),
    ("shm|open", "absent there", "Forebay's own"),
    ("shm|upload", "absent there", "Forebay's own"),
    ("shm|lane", "absent there", "Forebay's own"),
    ("shm|seal", "absent there", "Forebay's own"),
    ("shm|help", "absent there", "Forebay's own"),
    ("shm|segments", "absent there", "Forebay's own"),
    ("shm|take", "absent there", "Forebay's own"),
    ("wait", "flags", "Redis 7.2 calls it blocking, and lets scripts run it"),
    ("waitaof", "absent there", "Redis 7.2 has it first"),
    ("xackdel", "absent there", "Redis 8.2 has it first"),
    ("xcfgset", "absent there", "Redis 8.6 has it first"),
    ("xdelex", "absent there", "Redis 8.2 has it first"),
    ("xidmprecord", "absent there", "Redis 8.8 has it first"),
    ("xnack", "absent there", "Redis 8.8 has it first"),
    ("zrank", "its arity", "Redis 7.2 added WITHSCORE"),
    ("zrevrank", "its arity", "Redis 7.2 added WITHSCORE"),
];

#[test]
fn rows_are_those_of_redis() {
    let pinned = by_name(&serde_json::from_str(PINNED).unwrap());
    let ours = by_name(&ours());
    assert_eq!(ours.len(), command::rows().count(), "each row is compared");
    for (name, row) in &ours {
        if EXCEPTIONS.iter().any(|(excepted, ..)| excepted == name) {
            assert_ne!(pinned.get(name), Some(row), "{name} is no exception");
            continue;
        }
        let expected = pinned.get(name).unwrap_or_else(|| panic!("{name} is not in Redis"));
        assert_eq!(row, expected, "{name}");
    }
}

/// Returns the reply of COMMAND in the protocol's third version, as redis-cli would print it.
fn ours() -> Json {
    let mut world = World::new();
    world.run(&[b"HELLO", b"3"]);
    json(&world.run(&[b"COMMAND"]))
}

fn json(value: &Value) -> Json {
    let text = |bytes: &[u8]| Json::String(String::from_utf8(bytes.to_vec()).unwrap());
    match value {
        Value::Simple(bytes) | Value::Bulk(bytes) => text(bytes),
        Value::Integer(number) => Json::from(*number),
        Value::Array(items) | Value::Set(items) => items.iter().map(json).collect(),
        Value::Map(pairs) => {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| (json(key).as_str().unwrap().to_owned(), json(value)))
                .collect()
        }
        other => panic!("COMMAND replies with no {other:?}"),
    }
}

/// Returns all rows, those of subcommands too, each without its subcommands.
fn by_name(rows: &Json) -> BTreeMap<String, Json> {
    let mut all = BTreeMap::new();
    for row in rows.as_array().unwrap() {
        let mut row = row.clone();
        all.append(&mut by_name(&row[9].take()));
        all.insert(row[0].as_str().unwrap().to_owned(), row);
    }
    all
}
