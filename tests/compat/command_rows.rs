//! COMMAND INFO and COMMAND DOCS of every command that both servers have.

use std::collections::{BTreeMap, BTreeSet};

use harness::{Connection, Kind, Server, request};
use resp::Value;

/// Fields in which Redis 7.2, which Forebay follows, or Forebay itself differs from 7.0. The source
/// of what 7.2 says is its folder `src/commands`, one JSON file for each command.
struct Difference {
    command: &'static str,
    field: &'static str,
    source: &'static str,
}

const DIFFERENCES: &[Difference] = &[
    row("client|list", "arguments", "7.2 names the types; of the two filters only one is taken"),
    row("command|getkeys", "arguments", "7.2 documents them"),
    row("command|getkeysandflags", "arguments", "7.2 documents them"),
    row("config|get", "arguments", "a block of one argument is that argument"),
    row("config|set", "arguments", "7.2 calls the block 'data'"),
    row("debug", "arguments", "7.0 documents none; they are those of the rows"),
    row("flushall", "arguments", "7.2 calls it 'flush-type'"),
    row("flushdb", "arguments", "7.2 calls it 'flush-type'"),
    row("hello", "arguments", "7.2 calls the block 'auth'"),
    row("mset", "arguments", "7.2 calls the block 'data'"),
    row("msetnx", "arguments", "7.2 calls the block 'data'"),
    row("shutdown", "arguments", "7.2 names the selector; ABORT stands alone"),
];

const fn row(command: &'static str, field: &'static str, source: &'static str) -> Difference {
    Difference { command, field, source }
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

fn is_known(command: &str, field: &str) -> bool {
    let known = DIFFERENCES.iter().find(|row| row.command == command && row.field == field);
    known.is_some_and(|row| !row.source.is_empty())
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
            if sorted(found) != sorted(expected) && !is_known(name, FIELDS[index]) {
                let field = FIELDS[index];
                let (found, expected) = (spell(found), spell(expected));
                differences.push(format!("{name}: {field}: {found}\n  redis: {expected}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
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
        for field in DOCUMENTED.iter().filter(|field| !is_known(name, field)) {
            let of = |fields: &[(Value, Value)]| {
                let found = fields.iter().find(|(name, _)| text(name) == *field);
                found.map(|(_, value)| essence(value))
            };
            let (found, expected) = (of(fields), of(expected));
            if found != expected {
                let [found, expected] = [found, expected].map(|side| side.as_ref().map(spell));
                differences.push(format!("{name}: {field}: {found:?}\n  redis: {expected:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_listed_difference_has_its_source() {
    for row in DIFFERENCES {
        assert!(!row.source.is_empty(), "{} {}", row.command, row.field);
    }
}
