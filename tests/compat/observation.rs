//! SLOWLOG, LATENCY, MEMORY and other commands that report times and memory, compared with
//! redis-server.

use harness::{Connection, Kind, Launch, Server, poll, request, words};
use resp::Value;
use sys::memfd_segments::huge_pages::SystemSetting;

/// Returns what `observe` finds on both servers: (forebay, redis).
fn both<T>(observe: impl Fn(&mut Connection) -> T) -> [T; 2] {
    [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Launch::new(kind).option("enable-debug-command", "yes").start();
        observe(&mut server.tcp())
    })
}

fn check_same(lines: &[&str]) {
    let [ours, oracle] = both(|connection| {
        lines.iter().map(|line| connection.ask(&words(line)).value).collect::<Vec<_>>()
    });
    for ((line, ours), oracle) in lines.iter().zip(ours).zip(oracle) {
        assert_eq!(ours, oracle, "{line}: (forebay, redis)");
    }
}

fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        other => panic!("{other:?} is no array"),
    }
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        other => panic!("{other:?} is no integer"),
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("it is a text")).into_owned()
}

/// Returns the arguments and the name of each entry of the slow log, and whether id, time, duration
/// and address are what they should be.
fn entries(connection: &mut Connection) -> Vec<(Vec<String>, String, bool)> {
    let entries = elements(connection.call("SLOWLOG GET -1"));
    let first = entries.first().map_or(0, |entry| integer(&elements(entry.clone())[0]));
    let entry = |(offset, entry): (usize, Value)| {
        let parts = elements(entry);
        let is_sound = parts.len() == 6
            && integer(&parts[0]) == first - offset as i64
            && integer(&parts[1]) > 1_700_000_000
            && integer(&parts[2]) >= 0
            && text(&parts[4]).starts_with("127.0.0.1:");
        (elements(parts[3].clone()).iter().map(text).collect(), text(&parts[5]), is_sound)
    };
    entries.into_iter().enumerate().map(entry).collect()
}

#[test]
fn slow_log_has_the_entries_of_redis() {
    let long = format!("SET k {}", "x".repeat(300));
    let many = format!("DEL{}", " k".repeat(40));
    let lines = [
        "CONFIG SET slowlog-log-slower-than 0",
        "SLOWLOG RESET",
        "CLIENT SETNAME somebody",
        "PING",
        "SET k v",
        &long,
        &many,
        "AUTH x",
        "AUTH default x",
        "HELLO 2 AUTH default x SETNAME other",
        "CONFIG SET requirepass x masterauth y maxmemory 0",
        "CONFIG SET requirepass \"\"",
        "NOSUCH x",
        "GET",
        "INCR k",
        "MULTI",
        "SET k w",
        "GET k",
        "EXEC",
        "GET k",
        "SLOWLOG LEN",
    ];
    let [ours, oracle] = both(|connection| {
        for line in &lines {
            connection.ask(&words(&line.replace("\"\"", "")));
        }
        entries(connection)
    });
    assert!(ours.len() > 10, "{ours:?}");
    assert_eq!(ours, oracle, "(forebay, redis)");
    assert!(ours.iter().all(|(_, _, is_sound)| *is_sound), "{ours:?}");
}

#[test]
fn slow_log_is_as_long_as_it_may_be_and_counts_on() {
    let [ours, oracle] = both(|connection| {
        let mut found = Vec::new();
        for line in [
            "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3",
            "PING",
            "PING",
            "PING",
            "SLOWLOG LEN",
            "CONFIG SET slowlog-max-len 1",
            "SLOWLOG LEN",
            "CONFIG SET slowlog-log-slower-than -1",
            "SLOWLOG LEN",
            "PING",
            "SLOWLOG LEN",
            "SLOWLOG RESET",
            "SLOWLOG LEN",
        ] {
            found.push(connection.call(line));
        }
        found
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

#[test]
fn slow_log_keeps_what_was_slow_alone() {
    for pipelined in [false, true] {
        let [ours, oracle] = both(|connection| {
            let lines = ["CONFIG SET slowlog-log-slower-than 20000", "SET k v", "DEBUG SLEEP 0.05"];
            let requests = [lines[0], lines[1], lines[1], lines[2], lines[1]].map(words);
            if pipelined {
                connection.pipeline(&requests);
            } else {
                requests.iter().for_each(|request| drop(connection.ask(request)));
            }
            let entry = elements(elements(connection.call("SLOWLOG GET")).remove(0));
            assert!(integer(&entry[2]) >= 50_000, "{entry:?}");
            entries(connection).into_iter().map(|(arguments, ..)| arguments).collect::<Vec<_>>()
        });
        assert_eq!(ours, oracle, "(forebay, redis)");
        assert_eq!(ours, [["DEBUG", "SLEEP", "0.05"]]);
    }
}

#[test]
fn slow_log_and_latency_refuse_what_redis_refuses() {
    check_same(&[
        "SLOWLOG GET -2",
        "SLOWLOG GET x",
        "SLOWLOG GET 1 2",
        "SLOWLOG NOSUCH",
        "SLOWLOG",
        "SLOWLOG LEN x",
        "LATENCY NOSUCH",
        "LATENCY HISTORY",
        "LATENCY HISTORY nothing",
        "LATENCY GRAPH nothing",
        "LATENCY LATEST",
        "LATENCY RESET nothing command",
        "LATENCY HISTOGRAM nothing",
        "MEMORY NOSUCH",
        "MEMORY USAGE",
        "MEMORY USAGE k SAMPLES",
        "MEMORY USAGE k SAMPLES -1",
        "MEMORY USAGE k OTHER 1",
        "MEMORY PURGE",
        "MEMORY DOCTOR x",
        "COMMAND COUNT x",
        "COMMAND LIST FILTERBY",
        "COMMAND LIST FILTERBY nothing x",
        "COMMAND LIST FILTERBY MODULE nothing",
        "COMMAND LIST FILTERBY PATTERN geti?x*",
        "COMMAND LIST FILTERBY ACLCAT nothing",
        "COMMAND INFO nothing get",
        "COMMAND DOCS nothing",
        "COMMAND GETKEYS GET a",
        "COMMAND GETKEYS GET",
        "COMMAND GETKEYS MSET a 1 b 2",
        "COMMAND GETKEYS NOSUCH a",
        "COMMAND GETKEYS PING x",
        "COMMAND GETKEYSANDFLAGS SET a b",
        "COMMAND GETKEYSANDFLAGS BITOP AND a b c",
        "CONFIG SET slowlog-log-slower-than -2",
        "CONFIG SET slowlog-max-len -1",
        "CONFIG SET latency-monitor-threshold -1",
        "CONFIG SET latency-tracking perhaps",
        "CONFIG SET latency-tracking-info-percentiles 101",
        "CONFIG SET latency-tracking-info-percentiles 50.0 99.99",
        "CONFIG GET latency-tracking-info-percentiles",
        "ROLE",
        "TIME x",
        "LASTSAVE x",
        "LOLWUT VERSION x",
        "BGSAVE x",
        "SAVE x",
    ]);
}

#[test]
fn spikes_are_kept_as_in_redis() {
    let [ours, oracle] = both(|connection| {
        for line in [
            "CONFIG SET latency-monitor-threshold 30",
            "SET k v",
            "DEBUG SLEEP 0.04",
            "MULTI",
            "DEBUG SLEEP 0.05",
            "EXEC",
        ] {
            connection.call(line);
        }
        let latest = elements(elements(connection.call("LATENCY LATEST")).remove(0));
        let history = elements(connection.call("LATENCY HISTORY command"));
        let last = elements(history.last().expect("there was a spike").clone());
        assert_eq!(last, latest[1..3], "the latest is the last of the history");
        let graph = text(&connection.call("LATENCY GRAPH command"));
        let head: Vec<&str> = graph.lines().map(|line| line.trim()).take(2).collect();
        assert!(head[0].starts_with("command - high ") && head[1].len() == 80, "{graph}");
        let doctor = text(&connection.call("LATENCY DOCTOR"));
        assert!(doctor.contains("1. command: ") && doctor.contains("latency spikes"), "{doctor}");
        let is_long = integer(&latest[2]) >= 50 && integer(&latest[3]) >= 50;
        let kept = (latest[0].clone(), is_long, latest.len());
        (kept, connection.call("LATENCY RESET"), connection.call("LATENCY LATEST"))
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
    assert!(ours.0.1);
}

#[test]
fn distributions_have_the_form_of_redis() {
    let [ours, oracle] = both(|connection| {
        connection.pipeline(&["SET k v"; 100].map(words));
        connection.call("GET k");
        connection.call("DEBUG SLEEP 0.01");
        connection.call("CONFIG GET maxmemory");
        connection.call("HELLO 3");
        let reply = connection.call("LATENCY HISTOGRAM set debug CONFIG nothing");
        let Value::Map(commands) = reply else { panic!("{reply:?} is no map") };
        let forms = commands.into_iter().map(|(name, fields)| {
            let Value::Map(fields) = fields else { panic!("{fields:?} is no map") };
            let names: Vec<String> = fields.iter().map(|(name, _)| text(name)).collect();
            let calls = integer(&fields[0].1);
            let Value::Map(steps) = &fields[1].1 else { panic!("the steps are a map") };
            let steps: Vec<(i64, i64)> =
                steps.iter().map(|(bound, calls)| (integer(bound), integer(calls))).collect();
            assert!(steps.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{steps:?}");
            assert_eq!(steps.last().map(|step| step.1), Some(calls));
            let bounds: Vec<i64> = (0..21).map(|power| (1032 << power) / 1000).collect();
            assert!(steps.iter().all(|(bound, _)| bounds.contains(bound)), "{steps:?}");
            (text(&name), names, calls)
        });
        forms.collect::<Vec<_>>()
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

/// The parts of the line of PING in INFO latencystats, where there is one.
type Parts = Option<Vec<String>>;

#[test]
fn percentiles_are_those_that_are_asked_for() {
    let [ours, oracle]: [(Parts, Parts); 2] = both(|connection| {
        connection.call("PING");
        connection.ask(&request(&[
            "CONFIG",
            "SET",
            "latency-tracking-info-percentiles",
            "0 50.5 100",
        ]));
        let info = text(&connection.call("INFO latencystats"));
        connection.call("CONFIG SET latency-tracking no");
        connection.call("PING");
        let names = |text: String| {
            let is_ping = |line: &&str| line.starts_with("latency_percentiles_usec_ping:");
            let line = text.lines().find(is_ping).map(str::to_owned);
            line.map(|line| {
                let parts = line.split([':', ',']);
                parts.map(|part| part.split('=').next().unwrap_or(part).to_owned()).collect()
            })
        };
        let off = text(&connection.call("INFO latencystats"));
        (names(info), names(off))
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

#[test]
fn memory_stats_has_the_fields_of_redis() {
    let [ours, oracle] = both(|connection| {
        connection.call("SET k v");
        connection.call("SELECT 3");
        connection.call("SET k v EX 1000");
        connection.call("HELLO 3");
        let Value::Map(fields) = connection.call("MEMORY STATS") else { panic!("it is a map") };
        let kinds = fields.iter().map(|(name, value)| {
            let kind = match value {
                Value::Map(inner) => {
                    inner.iter().map(|(name, _)| text(name)).collect::<Vec<_>>().join(",")
                }
                Value::Integer(_) => "integer".to_owned(),
                Value::Double(_) => "double".to_owned(),
                other => panic!("{other:?}"),
            };
            (text(name), kind)
        });
        kinds.collect::<Vec<_>>()
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

#[test]
fn texts_for_people_are_verbatim_and_say_something() {
    for line in [
        "INFO server",
        "LATENCY DOCTOR",
        "MEMORY DOCTOR",
        "MEMORY MALLOC-STATS",
        "LOLWUT",
        "LOLWUT VERSION 5 20 4",
    ] {
        let [ours, oracle] = both(|connection| {
            connection.call("HELLO 3");
            match connection.ask(&words(line)).value {
                Value::Verbatim { format, text } => (format, text.ends_with(b"\n")),
                other => panic!("{line}: {other:?} is not verbatim"),
            }
        });
        assert_eq!(ours, oracle, "{line}");
    }
    let server = Server::start(Kind::Forebay);
    let art = text(&server.tcp().call("LOLWUT"));
    assert!(art.trim_end().ends_with("Redis ver. 7.2.4"), "{art}");
}

#[test]
fn time_is_in_microseconds() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.tcp();
    let mut times = Vec::new();
    for _ in 0..50 {
        let parts = elements(connection.call("TIME"));
        let number = |value: &Value| text(value).parse::<i64>().expect("it is a number");
        assert!((0..1_000_000).contains(&number(&parts[1])));
        times.push(number(&parts[0]) * 1_000_000 + number(&parts[1]));
    }
    assert!(times.iter().any(|time| time % 1000 != 0), "{times:?}");
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn what_cannot_be_saved_says_so() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.tcp();
    let reply = connection.call("BGREWRITEAOF");
    assert!(matches!(&reply, Value::Error(text) if text.ends_with(b"appendonly is no")));
    let info = text(&connection.ask(&request(&["INFO", "persistence"])).value);
    let Value::Integer(saved) = connection.call("LASTSAVE") else { panic!("it is a number") };
    assert!(info.contains(&format!("rdb_last_save_time:{saved}\r\n")), "{info}");
}

#[test]
fn purge_gives_back_what_nothing_uses() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let mut connection = server.tcp();
    let value = "x".repeat(200_000);
    for index in 0..50 {
        connection.call(&format!("SET k{index} {value}"));
    }
    connection.call("FLUSHALL");
    let touched = |connection: &mut Connection| -> u64 {
        let info = text(&connection.call("INFO memory"));
        let line = info.lines().find_map(|line| line.strip_prefix("arena_touched:"));
        line.expect("INFO has it").parse().expect("it is a number")
    };
    let before = touched(&mut connection);
    connection.call("MEMORY PURGE");
    let after = touched(&mut connection);
    assert!(before > 5_000_000 && after < 3_000_000, "{before}, {after}");
}

#[test]
fn full_memory_moves_to_huge_pages_and_leaves_them_with_its_segment() {
    let setting = SystemSetting::read();
    let has_some = matches!(setting, SystemSetting::Never | SystemSetting::Allowed);
    let server = Launch::new(Kind::Forebay)
        .option("segment-size", "2mb")
        .option("huge-pages", if has_some { "yes" } else { "auto" })
        .start();
    let mut connection = server.tcp();
    let value = "x".repeat(200_000);
    for index in 0..50 {
        connection.call(&format!("SET k{index} {value}"));
    }
    let field = |connection: &mut Connection, name: &str| -> String {
        let info = text(&connection.call("INFO memory"));
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("INFO has it").to_owned()
    };
    let bytes = |connection: &mut Connection, name: &str| -> u64 {
        field(connection, name).parse().expect("it is a number")
    };
    let availability = field(&mut connection, "arena_huge_pages");
    assert_eq!(availability == "yes", has_some, "{availability}");
    if !has_some {
        assert_eq!(bytes(&mut connection, "arena_huge_bytes"), 0);
        return;
    }
    let before = bytes(&mut connection, "arena_touched");
    poll("huge pages, or their refusal", || {
        let names = ["arena_huge_bytes", "arena_huge_refusals"];
        names.into_iter().find(|name| bytes(&mut connection, name) > 0)
    });
    assert!(bytes(&mut connection, "arena_huge_bytes") <= before);
    assert_eq!(bytes(&mut connection, "arena_touched"), before, "no memory is taken for them");
    for index in 0..50 {
        let kept = connection.call(&format!("GET k{index}"));
        assert_eq!(kept, Value::Bulk(value.clone().into_bytes()));
    }
    connection.call("FLUSHALL");
    connection.call("MEMORY PURGE");
    assert!(bytes(&mut connection, "arena_huge_bytes") <= bytes(&mut connection, "arena_touched"));
}

#[test]
fn average_time_to_live_is_shown_once_a_round_has_met_the_keys() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.tcp();
    for index in 0..100 {
        connection.call(&format!("SET k{index} v EX 1000"));
    }
    let mean = poll("avg_ttl", || {
        let info = text(&connection.call("INFO keyspace"));
        let (_, mean) = info.trim_end().rsplit_once("avg_ttl=")?;
        let (mean, _) = mean.split_once(',')?;
        mean.parse::<u64>().ok().filter(|mean| *mean > 0)
    });
    assert!((900_000..=1_000_000).contains(&mean), "{mean}");
}

/// The slow log and the distributions of times are part of used_memory, as they are in Redis.
#[test]
fn what_is_observed_takes_memory_that_is_counted() {
    const CALLS: i64 = 64;
    /// What the times of a command take at least.
    const TIMES: i64 = 24 * 16 + 1024;
    let server = Launch::new(Kind::Forebay).option("workers", "1").start();
    let mut connection = server.tcp();
    let mut private = || -> i64 {
        let info = connection.call("INFO memory");
        let text = String::from_utf8_lossy(info.as_bytes().expect("it is a text")).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix("used_memory_private:"));
        value.expect("it is there").parse().expect("it is a number")
    };
    private();
    let before = private();
    let mut other = server.tcp();
    other.call("CONFIG SET slowlog-log-slower-than 0");
    for _ in 0..CALLS {
        other.call(&format!("ECHO {}", "x".repeat(100)));
    }
    let logged = private();
    assert!(logged - before > CALLS * 100 + 2 * TIMES, "from {before} to {logged}");
    other.call("CONFIG SET slowlog-log-slower-than -1");
    other.call("SLOWLOG LEN");
    let full = private();
    other.call("SLOWLOG RESET");
    let after = private();
    assert!(full - after + 3 * TIMES > CALLS * 100, "from {full} to {after}");
}
