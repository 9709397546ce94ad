//! CONFIG SET of what CONFIG GET shows, and of values at the bounds of what options take: every row
//! of the table, compared with redis-server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use harness::{Connection, Kind, Launch, Server, request};
use resp::Value;

use super::sessions::text;

/// Returns all options with their values.
fn shown(client: &mut Connection) -> BTreeMap<String, Vec<u8>> {
    let Value::Array(pairs) = client.call("CONFIG GET *") else { panic!("it is a list of pairs") };
    let bytes = |value: &Value| value.as_bytes().expect("it is a text").to_vec();
    pairs.chunks(2).map(|pair| (text(&pair[0]), bytes(&pair[1]))).collect()
}

/// Sets each option to what is shown of it. Returns the refusals by name, in short.
fn refusals(client: &mut Connection) -> BTreeMap<String, String> {
    let mut refused = BTreeMap::new();
    for (name, value) in shown(client) {
        let words: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), &value];
        let reply = client.ask(&request(&words));
        if let Some(error) = reply.error() {
            let error = String::from_utf8_lossy(error).into_owned();
            let reason = error.rsplit("') - ").next().unwrap_or_default().to_owned();
            refused.insert(name, reason);
        }
    }
    refused
}

/// Starts with options that are shown as several words, or otherwise than they are written.
const OPTIONS: &[(&str, &str)] = &[
    ("bind", "127.0.0.1 -::1"),
    ("client-output-buffer-limit", "normal 1mb 2kb 3 replica 0 0 0"),
    ("latency-tracking-info-percentiles", "50 99.95"),
    ("maxmemory", "100mb"),
    ("maxmemory-clients", "5%"),
    ("oom-score-adj-values", "-5 0 7"),
    ("save", "3600 1 300 100"),
    ("shutdown-on-sigterm", "nosave force"),
    ("slowlog-log-slower-than", "-1"),
    ("unixsocketperm", "700"),
];

#[test]
fn every_value_that_is_shown_can_be_set_or_is_refused_as_by_redis() {
    check(&[]);
    check(OPTIONS);
}

fn check(options: &[(&str, &str)]) {
    let [(ours, all), (oracle, known)] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let launch = Launch::new(kind);
        let options = options.iter();
        let server = options.fold(launch, |launch, (name, value)| launch.option(name, value));
        let server = server.start();
        let mut client = server.tcp();
        let before = shown(&mut client);
        let refused = refusals(&mut client);
        assert_eq!(shown(&mut client), before, "{kind:?}: setting what is there changes nothing");
        (refused, before)
    });
    let shared = all.keys().filter(|name| known.contains_key(*name));
    let differs = |name: &&String| ours.get(*name) != oracle.get(*name);
    let different = shared.filter(differs).map(|name| (name, ours.get(name), oracle.get(name)));
    assert_eq!(different.collect::<Vec<_>>(), [], "(option, forebay, redis)");
    // Forebay's own, or Redis 7.2's.
    for (name, reason) in ours.iter().filter(|(name, _)| !known.contains_key(*name)) {
        assert_eq!(reason, "can't set immutable config", "{name}");
    }
}

/// Values that options are asked to take, whatever these are.
const VALUES: &[&str] = &[
    "",
    "text",
    "with blanks",
    "yes",
    "no",
    "-1",
    "-0",
    "0",
    "1",
    "2",
    "01",
    "+1",
    "1.5",
    "1kb",
    "5%",
    "101%",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "-2147483648",
    "-2147483649",
    "-9223372036854775808",
    "-9223372036854775809",
];

/// Values for one option each, which that is asked to take too.
const OWN_VALUES: &[(&str, &[&str])] = &[
    (
        "client-output-buffer-limit",
        &[
            "normal 0 0 2147483647",
            "normal 0 0 2147483648",
            "normal 0 0 -1",
            "normal 0 0 +1",
            "normal 0 0 x",
            "normal 1 2",
            "normal 1kb 2kb 3 pubsub 1 1 1",
            "normal -1 0 0",
            "master 0 0 0",
        ],
    ),
    (
        "oom-score-adj-values",
        &["0 0 0", "-2000 0 2000", "-2001 0 0", "0 0 2001", "+1 02 -0", "1 2", "1 2 3 4", "1 2 x"],
    ),
    ("save", &["1 0", "0 1", "1 -1", "+1 01", "1 1 1", "1 x"]),
    ("latency-tracking-info-percentiles", &["0 100", "-1", "100.1", "50 x", "1e1"]),
    (
        "proc-title-template",
        &[
            "plain",
            " ",
            "{title}",
            "{server-mode}",
            "{port}",
            "{title} {listen-addr} {server-mode} {port} {tls-port} {config-file}",
            "{title",
            "{unknown}",
            "{{title}",
            "end {",
            "end }",
        ],
    ),
    ("cluster-announce-hostname", &["a.b-c.D9", "a_b", "a b", "gr\u{fc}n"]),
    ("notify-keyspace-events", &["KEA", "Q"]),
    ("dbfilename", &["a.rdb", "a/b.rdb", "a\\b.rdb"]),
];

/// Options that are not asked: what they say depends on ports and on the system.
const NOT_ASKED: &[&str] = &["bind", "port", "tls-port", "maxclients"];

/// What was asked of one option, and what became of it: the value that is shown, or the error.
#[derive(Clone, Copy)]
struct Answers<'a> {
    value: &'a str,
    here: Result<&'a str, &'a str>,
    there: Result<&'a str, &'a str>,
}

/// The answers that are meant to differ: those of an option, or of all, and why they do.
struct Difference {
    option: &'static str,
    is_meant: fn(Answers<'_>) -> bool,
}

const DIFFERENCES: &[Difference] = &[
    // What does not exist here is refused, with the reason: persistence, replicas, TLS.
    Difference {
        option: "",
        is_meant: |it| it.here.is_err_and(|error| error.contains(" - Forebay does not ")),
    },
    // Memory is always compacted here. Some builds of Redis cannot do it, and refuse.
    Difference {
        option: "activedefrag",
        is_meant: |it| it.value == "yes" && it.here == Ok("yes") && it.there.is_err(),
    },
    // Positions in a buffer have 32 bits here, see docs/drop-in.md.
    Difference {
        option: "client-query-buffer-limit",
        is_meant: |it| it.here.is_err_and(|error| error.contains("1048576 and 3221225472 ")),
    },
    Difference {
        option: "proto-max-bulk-len",
        is_meant: |it| it.here.is_err_and(|error| error.contains("1048576 and 2147483648 ")),
    },
    // Redis takes what is above its greatest number for a negative one, and that for a percentage.
    Difference {
        option: "maxmemory-clients",
        is_meant: |it| it.here.is_err_and(|error| error.contains("0 and 9223372036854775807 ")),
    },
    // No more are looked at here, and CONFIG GET says so.
    Difference { option: "maxmemory-samples", is_meant: |it| it.here == Ok("64") },
    // Redis allocates 16 KiB at least; there is no such backlog here.
    Difference { option: "repl-backlog-size", is_meant: |it| it.there == Ok("16384") },
    // Redis 7.2 has a fifth level.
    Difference {
        option: "loglevel",
        is_meant: |it| it.here.is_err_and(|error| error.ends_with(", nothing")),
    },
];

/// Returns the difference that explains the answers of option `name`.
fn explanation(name: &str, answers: Answers<'_>) -> Option<usize> {
    let is_of = |difference: &Difference| difference.option == name || difference.option.is_empty();
    DIFFERENCES.iter().position(|difference| is_of(difference) && (difference.is_meant)(answers))
}

/// Sets option `name` to `value`. Returns what is shown of it then, or why it was refused.
fn set(client: &mut Connection, name: &str, value: &str) -> Result<String, String> {
    let reply = client.ask(&request(&["CONFIG", "SET", name, value]));
    if let Some(error) = reply.error() {
        return Err(String::from_utf8_lossy(error).into_owned());
    }
    let Value::Array(pair) = client.call(&format!("CONFIG GET {name}")) else { panic!("a pair") };
    Ok(text(&pair[1]))
}

/// Returns the numbers around each bound that `refusal` names.
fn around_bounds(refusal: &str) -> Vec<String> {
    let Some((_, bounds)) = refusal.split_once("must be between ") else { return Vec::new() };
    let numbers = bounds.split(' ').filter_map(|word| word.parse::<i128>().ok());
    numbers.flat_map(|bound| [bound - 1, bound, bound + 1]).map(|it| it.to_string()).collect()
}

/// Asks both servers to set option `name` to each value, and returns their answers.
fn answers(
    clients: &mut [Connection; 2],
    name: &str,
) -> Vec<(String, [Result<String, String>; 2])> {
    let own = OWN_VALUES.iter().find(|(option, _)| *option == name).map(|(_, values)| *values);
    let given = VALUES.iter().chain(own.unwrap_or_default());
    let mut values: Vec<String> = given.map(|&value| value.to_owned()).collect();
    values.extend([255, 256].map(|length| "a".repeat(length)));
    let mut answers = Vec::new();
    while let Some(value) = values.get(answers.len()).cloned() {
        let said = clients.each_mut().map(|client| set(client, name, &value));
        for refusal in said.iter().filter_map(|said| said.as_ref().err()) {
            let new = around_bounds(refusal).into_iter().filter(|bound| !values.contains(bound));
            values.extend(new.collect::<Vec<_>>());
        }
        answers.push((value, said));
    }
    answers
}

#[test]
fn every_option_accepts_and_refuses_what_redis_does() {
    let servers = [Kind::Forebay, Kind::Redis].map(|kind| {
        let launch = Launch::new(kind).option("enable-protected-configs", "yes");
        // Its default is another here.
        launch.option("client-output-buffer-limit", "normal 0 0 0").start()
    });
    let mut clients = servers.each_ref().map(Server::unix);
    let [ours, known] = clients.each_mut().map(shown);
    let mut explained = BTreeSet::new();
    let mut unexplained = Vec::new();
    let is_asked = |name: &str| known.contains_key(name) && !NOT_ASKED.contains(&name);
    for (name, before) in ours.iter().filter(|(name, _)| is_asked(name)) {
        for (value, [here, there]) in answers(&mut clients, name) {
            let answers = Answers {
                value: &value,
                here: here.as_deref().map_err(String::as_str),
                there: there.as_deref().map_err(String::as_str),
            };
            match explanation(name, answers) {
                _ if here == there => {}
                Some(index) => drop(explained.insert(index)),
                None => unexplained.push((name, value, here, there)),
            }
        }
        let before = String::from_utf8_lossy(before);
        let _ = clients.each_mut().map(|client| drop(set(client, name, &before)));
    }
    assert!(unexplained.is_empty(), "(option, value, forebay, redis): {unexplained:#?}");
    let all = (0..DIFFERENCES.len()).filter(|index| DIFFERENCES[*index].option != "activedefrag");
    let unseen: Vec<&str> =
        all.filter(|it| !explained.contains(it)).map(|it| DIFFERENCES[it].option).collect();
    assert!(unseen.is_empty(), "these do not differ any more: {unseen:?}");
}

#[test]
fn relative_scores_start_with_the_present_one() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let server = Launch::new(kind).start();
        let path = format!("/proc/{}/oom_score_adj", server.process_id());
        let score = || fs::read_to_string(&path).map(|text| text.trim().to_owned());
        let mut client = server.tcp();
        let mut set = |pairs: &[&str]| {
            let words = [&["CONFIG", "SET"], pairs].concat();
            assert_eq!(client.ask(&request(&words)).bytes, b"+OK\r\n", "{kind:?} {pairs:?}");
        };
        let values = ["oom-score-adj-values", "9 18 27"];
        // The server runs as who runs this test, whose scores may be raised.
        for (base, expected) in [("222", "231"), ("333", "342")] {
            fs::write(&path, base).expect("a score may be raised");
            set(&[values[0], values[1], "oom-score-adj", "relative"]);
            assert_eq!(score().ok().as_deref(), Some(expected), "{kind:?}");
            set(&["oom-score-adj", "no"]);
            assert_eq!(score().ok().as_deref(), Some(base), "{kind:?}");
        }
        set(&["oom-score-adj", "absolute", values[0], "400 400 400"]);
        assert_eq!(score().ok().as_deref(), Some("400"), "{kind:?}");
        set(&["oom-score-adj", "yes"]);
        assert_eq!(score().ok().as_deref(), Some("733"), "{kind:?}");
    }
}
