//! CONFIG SET of what CONFIG GET shows: every row of the table, compared with redis-server.

use std::collections::BTreeMap;
use std::fs;

use harness::{Connection, Kind, Launch, request};
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
