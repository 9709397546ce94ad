//! COMMAND INFO and COMMAND DOCS of every command that both servers have.

use std::collections::{BTreeMap, BTreeSet};

use harness::{Connection, Kind, Server, request};
use resp::Value;

/// A field in which Redis 7.2, which Forebay follows, differs from 7.0.
struct VersionDifference {
    command: &'static str,
    field: &'static str,
    /// The file of Redis's repository, at 7.2, that says so.
    source: &'static str,
    what: &'static str,
}

const VERSION_DIFFERENCES: &[VersionDifference] = &[
    VersionDifference {
        command: "blmove",
        field: "flags",
        source: "src/commands/blmove.json",
        what: "scripts may use it",
    },
    VersionDifference {
        command: "blpop",
        field: "flags",
        source: "src/commands/blpop.json",
        what: "scripts may use it",
    },
    VersionDifference {
        command: "brpop",
        field: "flags",
        source: "src/commands/brpop.json",
        what: "scripts may use it",
    },
    VersionDifference {
        command: "brpoplpush",
        field: "flags",
        source: "src/commands/brpoplpush.json",
        what: "scripts may use it",
    },
    at_7_2("bitcount", "src/commands/bitcount.json", "the block is called 'range'"),
    at_7_2("bitfield", "src/commands/bitfield.json", "blocks are called after their words"),
    at_7_2("bitfield_ro", "src/commands/bitfield_ro.json", "the block is called 'get-block'"),
    at_7_2("bitop", "src/commands/bitop.json", "the operation is one of four words"),
    at_7_2("bitpos", "src/commands/bitpos.json", "the block is called 'range'"),
    VersionDifference {
        command: "bzpopmax",
        field: "flags",
        source: "src/commands/bzpopmax.json",
        what: "scripts may use it",
    },
    VersionDifference {
        command: "bzpopmin",
        field: "flags",
        source: "src/commands/bzpopmin.json",
        what: "scripts may use it",
    },
    at_7_2("client|reply", "src/commands/client-reply.json", "the choice is called 'action'"),
    at_7_2("client|unblock", "src/commands/client-unblock.json", "it is called 'unblock-type'"),
    at_7_2("config|get", "src/commands/config-get.json", "the block of one argument is gone"),
    at_7_2("config|set", "src/commands/config-set.json", "the block is called 'data'"),
    at_7_2("flushall", "src/commands/flushall.json", "the choice is called 'flush-type'"),
    at_7_2("flushdb", "src/commands/flushdb.json", "the choice is called 'flush-type'"),
    at_7_2("geoadd", "src/commands/geoadd.json", "the block is called 'data'"),
    at_7_2("geohash", "src/commands/geohash.json", "members may be absent"),
    at_7_2("geopos", "src/commands/geopos.json", "members may be absent"),
    at_7_2("georadius", "src/commands/georadius.json", "one key at most; other names"),
    at_7_2("georadius_ro", "src/commands/georadius_ro.json", "the block is called 'count-block'"),
    at_7_2("georadiusbymember", "src/commands/georadiusbymember.json", "as those of georadius"),
    at_7_2(
        "georadiusbymember_ro",
        "src/commands/georadiusbymember_ro.json",
        "the block is called 'count-block'",
    ),
    at_7_2("hello", "src/commands/hello.json", "the inner block is called 'auth'"),
    at_7_2("hmset", "src/commands/hmset.json", "the block is called 'data'"),
    at_7_2("hset", "src/commands/hset.json", "the block is called 'data'"),
    at_7_2("lcs", "src/commands/lcs.json", "the number is called 'min-match-len'"),
    at_7_2("migrate", "src/commands/migrate.json", "its choices and options have other names"),
    at_7_2("mset", "src/commands/mset.json", "the block is called 'data'"),
    at_7_2("msetnx", "src/commands/msetnx.json", "the block is called 'data'"),
    at_7_2("pfmerge", "src/commands/pfmerge.json", "there may be no sources"),
    at_7_2("sort", "src/commands/sort.json", "patterns and the block have names of their own"),
    at_7_2("sort_ro", "src/commands/sort_ro.json", "as those of sort"),
    VersionDifference {
        command: "wait",
        field: "flags",
        source: "src/commands/wait.json",
        what: "it is called blocking, and scripts may use it",
    },
    VersionDifference {
        command: "wait",
        field: "acl categories",
        source: "src/commands/wait.json",
        what: "as its flags say",
    },
    at_7_2("xclaim", "src/commands/xclaim.json", "the last identity is called 'lastid'"),
    at_7_2("xgroup|create", "src/commands/xgroup-create.json", "other names"),
    at_7_2("xgroup|createconsumer", "src/commands/xgroup-createconsumer.json", "other names"),
    at_7_2("xgroup|delconsumer", "src/commands/xgroup-delconsumer.json", "other names"),
    at_7_2("xgroup|destroy", "src/commands/xgroup-destroy.json", "the group is called 'group'"),
    at_7_2("xgroup|setid", "src/commands/xgroup-setid.json", "other names"),
    at_7_2("xinfo|consumers", "src/commands/xinfo-consumers.json", "the group is called 'group'"),
    at_7_2("xinfo|stream", "src/commands/xinfo-stream.json", "FULL is a word of the block"),
    at_7_2("xreadgroup", "src/commands/xreadgroup.json", "the block is called 'group-block'"),
    at_7_2("xsetid", "src/commands/xsetid.json", "names have dashes"),
    at_7_2("zadd", "src/commands/zadd.json", "the block is called 'data'"),
    at_7_2("zrange", "src/commands/zrange.json", "the block is called 'limit'"),
    at_7_2("zrangebylex", "src/commands/zrangebylex.json", "the block is called 'limit'"),
    at_7_2("zrangebyscore", "src/commands/zrangebyscore.json", "the block is called 'limit'"),
    at_7_2("zrangestore", "src/commands/zrangestore.json", "the block is called 'limit'"),
    at_7_2("zrank", "src/commands/zrank.json", "WITHSCORE is new"),
    at_7_2("zrevrangebylex", "src/commands/zrevrangebylex.json", "the block is called 'limit'"),
    at_7_2("zrevrangebyscore", "src/commands/zrevrangebyscore.json", "the block is called 'limit'"),
    at_7_2("zrevrank", "src/commands/zrevrank.json", "WITHSCORE is new"),
    VersionDifference {
        command: "zrank",
        field: "arity",
        source: "src/commands/zrank.json",
        what: "WITHSCORE is new",
    },
    VersionDifference {
        command: "zrevrank",
        field: "arity",
        source: "src/commands/zrevrank.json",
        what: "WITHSCORE is new",
    },
];

const fn at_7_2(
    command: &'static str,
    source: &'static str,
    what: &'static str,
) -> VersionDifference {
    VersionDifference { command, field: "arguments", source, what }
}

/// A field in which Forebay differs from Redis on purpose, whatever the version.
struct Departure {
    command: &'static str,
    field: &'static str,
    reason: &'static str,
}

const DEPARTURES: &[Departure] = &[
    departure("client|kill", "Redis calls each filter optional, but takes one at least"),
    departure("client|list", "Redis lists TYPE and ID side by side, but takes one of them only"),
    departure("command|getkeys", "7.0 has none, 7.2 lets 'arg' be absent; the arity does not"),
    departure("command|getkeysandflags", "as those of command|getkeys"),
    departure("debug", "Redis documents none; requests are drawn from those of the row"),
    departure("geosearch", "BYPOLYGON is Valkey's"),
    departure("geosearchstore", "BYPOLYGON is Valkey's"),
    departure("hscan", "NOVALUES is of Redis 7.4"),
    departure("set", "IFEQ is Valkey's and Redis 8.4's, as are its like"),
    departure("shutdown", "Redis lists ABORT beside the others, but takes it alone only"),
    departure("xadd", "DELREF is of Redis 8.2, as are its like, IDMP of 8.6; names are of 7.2"),
    departure("xtrim", "DELREF is of Redis 8.2, as are its like"),
];

const fn departure(command: &'static str, reason: &'static str) -> Departure {
    Departure { command, field: "arguments", reason }
}

/// The elements of a COMMAND INFO entry.
const FIELDS: [&str; 10] = [
    "name",
    "arity",
    "flags",
    "first key",
    "last key",
    "step",
    "acl categories",
    "tips",
    "key specifications",
    "subcommands",
];

/// The fields of COMMAND DOCS that are compared. Summaries and complexities are the author's own
/// words.
const DOCUMENTED: [&str; 3] = ["since", "group", "arguments"];

struct Servers {
    ours: Connection,
    oracle: Connection,
    _running: [Server; 2],
}

fn servers() -> Servers {
    let running = [Kind::Forebay, Kind::Redis].map(Server::start);
    let (mut ours, mut oracle) = (running[0].tcp(), running[1].tcp());
    ours.call("HELLO 3");
    oracle.call("HELLO 3");
    Servers { ours, oracle, _running: running }
}

/// Returns the names that our table has, subcommands included.
fn names() -> BTreeSet<String> {
    command::rows().map(|row| row.name.to_owned()).collect()
}

/// Returns the command and field of every listed difference.
fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
    let versions = VERSION_DIFFERENCES.iter().map(|row| (row.command, row.field));
    versions.chain(DEPARTURES.iter().map(|row| (row.command, row.field)))
}

/// A field that is not what Redis says, and a text of both.
struct Found {
    command: String,
    field: &'static str,
    text: String,
}

/// Fails when one of `found` is not listed, or a listed one of `fields` is not found.
fn check_listed(found: &[Found], fields: &[&str]) {
    let is_listed = |found: &Found| listed().any(|row| row == (&*found.command, found.field));
    let unlisted = found.iter().filter(|found| !is_listed(found));
    let mut wrong: Vec<String> = unlisted
        .map(|found| format!("{}: {}: {}", found.command, found.field, found.text))
        .collect();
    for (command, field) in listed().filter(|(_, field)| fields.contains(field)) {
        if !found.iter().any(|found| (&*found.command, found.field) == (command, field)) {
            wrong.push(format!("{command}: {field}: listed, but equal"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn text(value: &Value) -> String {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

/// Returns an entry of COMMAND INFO with its subcommands' entries taken out and listed by name.
fn entries(value: &Value, entries_by_name: &mut BTreeMap<String, Vec<Value>>) {
    let Value::Array(fields) = value else { return };
    let mut fields = fields.clone();
    if let Some(Value::Array(subcommands) | Value::Set(subcommands)) = fields.get_mut(9) {
        for subcommand in subcommands.drain(..) {
            entries(&subcommand, entries_by_name);
        }
    }
    entries_by_name.insert(text(&fields[0]), fields);
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Set(values) => {
            let mut values = values.clone();
            values.sort_by_cached_key(|value| format!("{value:?}"));
            Value::Set(values)
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| (name.clone(), sorted(value)));
            Value::Map(pairs.collect())
        }
        other => other.clone(),
    }
}

#[test]
fn command_info_equals_that_of_redis() {
    let mut servers = servers();
    let mut all = [BTreeMap::new(), BTreeMap::new()];
    let containers: BTreeSet<String> =
        names().iter().filter_map(|name| Some(name.split('|').next()?.to_owned())).collect();
    for name in &containers {
        let call = request(&["COMMAND", "INFO", name]);
        for (connection, all) in [&mut servers.ours, &mut servers.oracle].into_iter().zip(&mut all)
        {
            let Value::Array(found) = connection.ask(&call).value else { panic!("{name}") };
            entries(&found[0], all);
        }
    }
    let [ours, oracle] = all;
    assert!(ours.len() > 60, "there is something to compare");
    let mut differences = Vec::new();
    for (name, fields) in &ours {
        let Some(expected) = oracle.get(name) else { continue };
        for (index, (found, expected)) in fields.iter().zip(expected).enumerate() {
            if sorted(found) != sorted(expected) {
                let text = format!("{}\n  redis: {}", spell(found), spell(expected));
                differences.push(Found { command: name.clone(), field: FIELDS[index], text });
            }
        }
    }
    check_listed(&differences, &FIELDS);
}

/// Returns a value as a line that people can read.
fn spell(value: &Value) -> String {
    let all = |values: &[Value]| values.iter().map(spell).collect::<Vec<_>>().join(" ");
    match value {
        Value::Array(values) => format!("[{}]", all(values)),
        Value::Set(values) => format!("~[{}]", all(values)),
        Value::Map(pairs) => {
            let pairs =
                pairs.iter().map(|(name, value)| format!("{}={}", text(name), spell(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
        }
        Value::Integer(number) => number.to_string(),
        other => text(other),
    }
}

/// Returns COMMAND DOCS by the names of commands and subcommands.
fn docs(value: &Value, by_name: &mut BTreeMap<String, Vec<(Value, Value)>>) {
    let Value::Map(commands) = value else { return };
    for (name, fields) in commands {
        let Value::Map(fields) = fields else { continue };
        for (field, value) in fields {
            if text(field) == "subcommands" {
                docs(value, by_name);
            }
        }
        by_name.insert(text(name), fields.clone());
    }
}

/// Returns an argument without what a later Redis says better or more: how it is displayed, and
/// the key specification of a key.
fn essence(value: &Value) -> Value {
    let is_essential = |(name, _): &&(Value, Value)| {
        !["display_text", "summary", "deprecated_since"].contains(&text(name).as_str())
    };
    match value {
        Value::Array(values) => Value::Array(values.iter().map(essence).collect()),
        Value::Map(pairs) => {
            let pairs = pairs.iter().filter(is_essential);
            Value::Map(pairs.map(|(name, value)| (name.clone(), essence(value))).collect())
        }
        other => sorted(other),
    }
}

#[test]
fn command_docs_equal_those_of_redis() {
    let mut servers = servers();
    let mut all = [BTreeMap::new(), BTreeMap::new()];
    for name in names().iter().filter(|name| !name.contains('|')) {
        let call = request(&["COMMAND", "DOCS", name]);
        for (connection, all) in [&mut servers.ours, &mut servers.oracle].into_iter().zip(&mut all)
        {
            docs(&connection.ask(&call).value, all);
        }
    }
    let [ours, oracle] = all;
    assert!(ours.len() > 60, "there is something to compare");
    let mut differences = Vec::new();
    for (name, fields) in &ours {
        let Some(expected) = oracle.get(name) else { continue };
        for field in DOCUMENTED {
            let of = |fields: &[(Value, Value)]| {
                let found = fields.iter().find(|(name, _)| text(name) == field);
                found.map(|(_, value)| essence(value))
            };
            let (found, expected) = (of(fields), of(expected));
            if found != expected {
                let [found, expected] = [found, expected].map(|side| side.as_ref().map(spell));
                let text = format!("{found:?}\n  redis: {expected:?}");
                differences.push(Found { command: name.clone(), field, text });
            }
        }
    }
    check_listed(&differences, &DOCUMENTED);
}

#[test]
fn every_listed_difference_is_of_a_row_and_has_its_source_or_reason() {
    for (command, field) in listed() {
        assert!(names().contains(command), "{command} is no row");
        assert_eq!(listed().filter(|row| *row == (command, field)).count(), 1, "{command} {field}");
    }
    for row in VERSION_DIFFERENCES {
        let source = format!("src/commands/{}.json", row.command.replace('|', "-"));
        assert_eq!(row.source, source, "{}", row.command);
        assert!(!row.what.is_empty(), "{}", row.command);
    }
    assert!(DEPARTURES.iter().all(|row| !row.reason.is_empty()));
}
