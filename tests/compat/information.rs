//! INFO, CLIENT LIST and CLIENT INFO: the fields that tools read, and counters that count what
//! Redis's count.

use std::collections::BTreeMap;

use harness::{Connection, Kind, Launch, Server, words};
use resp::Value;

/// The fields of INFO that clients, exporters and dashboards read.
const FIELDS: &[(&str, &str)] = &[
    ("server", "redis_version redis_mode os arch_bits process_id run_id tcp_port"),
    ("server", "uptime_in_seconds uptime_in_days hz executable config_file"),
    ("clients", "connected_clients maxclients blocked_clients"),
    ("memory", "used_memory used_memory_human used_memory_rss used_memory_peak maxmemory"),
    ("memory", "maxmemory_human maxmemory_policy mem_fragmentation_ratio total_system_memory"),
    ("persistence", "loading rdb_bgsave_in_progress rdb_changes_since_last_save aof_enabled"),
    ("stats", "total_connections_received total_commands_processed instantaneous_ops_per_sec"),
    ("stats", "total_net_input_bytes total_net_output_bytes rejected_connections expired_keys"),
    ("stats", "evicted_keys keyspace_hits keyspace_misses total_error_replies"),
    ("replication", "role connected_slaves master_repl_offset"),
    ("cpu", "used_cpu_sys used_cpu_user"),
    ("cluster", "cluster_enabled"),
];

fn text(connection: &mut Connection, line: &str) -> String {
    let value = connection.call(line);
    String::from_utf8(value.as_bytes().expect("the reply is a text").to_vec()).expect("it is UTF-8")
}

/// Returns the fields of an INFO.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn every_field_that_tools_read_is_there() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let server = Server::start(kind);
        let mut connection = server.tcp();
        for (section, names) in FIELDS {
            let fields = fields(&text(&mut connection, &format!("INFO {section}")));
            for name in names.split(' ') {
                assert!(fields.contains_key(name), "{kind:?}: INFO {section} lacks {name}");
            }
        }
    }
}

/// Fields of Redis that INFO leaves out.
const ABSENT: &[(&str, &str)] = &[("gcc_version", "it was not compiled by gcc")];

/// Fields that Redis 7.2 has and 7.0 has not. Source: Redis 7.2, INFO in the documentation.
const ADDED_BY_72: &[&str] = &[
    "listener0",
    "listener1",
    "listener2",
    "total_blocking_keys",
    "total_blocking_keys_on_nokey",
    "client_query_buffer_limit_disconnections",
    "client_output_buffer_limit_disconnections",
    "eventloop_cycles",
    "eventloop_duration_sum",
    "eventloop_duration_cmd_sum",
    "instantaneous_eventloop_cycles_per_sec",
    "instantaneous_eventloop_duration_usec",
    "acl_access_denied_auth",
    "acl_access_denied_cmd",
    "acl_access_denied_key",
    "acl_access_denied_channel",
];

/// Fields that Redis 7.4 added, for fields of hashes that expire.
const ADDED_BY_74: &[&str] = &["expired_subkeys"];

/// Fields, and a section, that Forebay alone has; those of the section begin with its name.
const OWN: &[&str] = &[
    "forebay_version",
    "workers",
    "used_memory_index",
    "used_memory_slabs",
    "used_memory_extents",
    "used_memory_private",
    "arena_touched",
    "arena_huge_pages",
    "arena_huge_bytes",
    "arena_huge_refusals",
    "busy_polls",
    "busy_poll_hits",
    "used_memory_extents_reserved",
    "values_received_in_place",
    "leases",
    "lease_grants",
    "lease_fills",
    "lease_voids",
    "lease_expiries",
    "# Shm",
    "# Cache",
];

#[test]
fn sections_and_fields_are_those_of_redis_in_its_order() {
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Server::start(kind);
        let mut connection = server.tcp();
        connection.call("SET k v");
        connection.call("NOSUCH");
        let text = text(&mut connection, "INFO everything");
        // Redis has its commands in the order of a hash table.
        let is_command =
            |line: &str| ["cmdstat_", "latency_"].iter().any(|it| line.starts_with(it));
        let lines = text.lines().filter(|line| !line.is_empty() && !is_command(line));
        lines.map(|line| line.split(':').next().unwrap_or(line).to_owned()).collect::<Vec<_>>()
    });
    let is_listed = |name: &String, list: &[&str]| list.contains(&name.as_str());
    let ours_alone = |name: &&String| {
        let own = [OWN, ADDED_BY_72, ADDED_BY_74];
        own.iter().any(|list| is_listed(name, list))
            || name.starts_with("shm_")
            || name.starts_with("cache_")
    };
    let shared: Vec<&String> = ours.iter().filter(|name| !ours_alone(name)).collect();
    let expected: Vec<&String> =
        oracle.iter().filter(|name| !ABSENT.iter().any(|(absent, _)| name == absent)).collect();
    for name in &expected {
        assert!(shared.contains(name), "INFO lacks {name}");
    }
    assert_eq!(shared, expected, "(forebay, redis)");
    for name in OWN.iter().chain(ADDED_BY_72).chain(ADDED_BY_74) {
        let is_there = ours.iter().any(|own| own == name) || name.starts_with("listener");
        assert!(is_there && !oracle.iter().any(|other| other == name), "{name} is listed");
    }
    for (name, reason) in ABSENT {
        assert!(oracle.iter().any(|other| other == name) && !reason.is_empty(), "{name}");
    }
}

/// Rounds hold the commands that run in them, and an EXEC holds those of its queue, whose time is
/// not counted twice.
#[test]
fn the_time_of_rounds_holds_that_of_commands_once() {
    const CALLS: u64 = 50;
    let server = Launch::new(Kind::Forebay).option("enable-debug-command", "yes").start();
    let mut connection = server.tcp();
    for _ in 0..CALLS {
        connection.call("PING");
    }
    for line in ["MULTI", "DEBUG SLEEP 0.05", "EXEC"] {
        connection.call(line);
    }
    let stats = fields(&text(&mut connection, "INFO stats"));
    let number = |name: &str| stats[name].parse::<u64>().expect("it is a number");
    let commands = fields(&text(&mut connection, "INFO commandstats"));
    let times = commands.values().flat_map(|value| value.split(','));
    let times = times.filter_map(|part| part.strip_prefix("usec=")?.parse::<u64>().ok());
    let sum: u64 = times.sum();
    assert!(number("eventloop_cycles") >= CALLS, "{stats:?}");
    let (rounds, once) = (number("eventloop_duration_sum"), number("eventloop_duration_cmd_sum"));
    assert!(50_000 <= once && once <= rounds, "{once} of {rounds}");
    assert!(once + 45_000 < sum, "{once} of {sum}: the sleep is in both EXEC and DEBUG");
}

#[test]
fn refused_passwords_are_counted() {
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Launch::new(kind).option("requirepass", "right").start();
        let mut connection = server.tcp();
        for line in ["AUTH wrong", "AUTH nobody wrong", "HELLO 2 AUTH default wrong", "AUTH right"]
        {
            connection.call(line);
        }
        let errors = fields(&text(&mut connection, "INFO errorstats"));
        let stats = fields(&text(&mut connection, "INFO stats"));
        (errors, stats.get("acl_access_denied_auth").cloned())
    });
    assert_eq!(ours.0, oracle.0, "(forebay, redis)");
    assert_eq!(ours.1.as_deref(), Some("3"), "Redis 7.2 counts them here, too");
}

#[test]
fn every_listener_has_its_line() {
    let server = Server::start(Kind::Forebay);
    let fields = fields(&text(&mut server.tcp(), "INFO server"));
    let port = server.address().port();
    assert_eq!(fields["listener0"], format!("name=tcp,bind=127.0.0.1,port={port}"));
    assert_eq!(fields["listener1"], format!("name=unix,bind={}", server.socket().display()));
    assert!(!fields.contains_key("listener2"));
}

#[test]
fn resetstat_forgets_what_redis_forgets_and_keeps_the_rest() {
    const KEPT: &[&str] = &["connected_clients", "rdb_changes_since_last_save", "role"];
    const FORGOTTEN: &[&str] = &[
        "total_connections_received",
        "total_commands_processed",
        "keyspace_hits",
        "keyspace_misses",
        "expired_keys",
        "total_error_replies",
        "rejected_connections",
        "instantaneous_ops_per_sec",
        "total_eviction_exceeded_time",
        "expired_time_cap_reached_count",
    ];
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Server::start(kind);
        let mut connection = server.tcp();
        for line in ["SET k v", "SET l w", "GET k", "GET x", "NOSUCH", "CONFIG RESETSTAT"] {
            connection.call(line);
        }
        let text = text(&mut connection, "INFO everything");
        let fields = fields(&text);
        let stats = text.lines().filter(|line| line.starts_with("cmdstat_"));
        let errors = text.lines().filter(|line| line.starts_with("errorstat_"));
        let times = text.lines().filter(|line| line.starts_with("latency_percentiles"));
        let named = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("{name}={}", fields[*name])).collect()
        };
        let counts = [stats.count(), errors.count(), times.count()];
        (named(KEPT), named(FORGOTTEN), counts)
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

#[test]
fn sections_are_laid_out_as_in_redis() {
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Server::start(kind);
        let mut connection = server.tcp();
        connection.call("SET k v");
        connection.call("NOSUCH");
        let headings = |text: String| -> Vec<String> {
            let lines: Vec<&str> = text.split("\r\n").collect();
            assert!(!text.replace("\r\n", "").contains('\n'), "every line ends with CRLF");
            for pair in lines.windows(2).filter(|pair| pair[1].starts_with("# ")) {
                assert_eq!(pair[0], "", "{kind:?}: an empty line before {}", pair[1]);
            }
            let headings = lines.iter().filter(|line| line.starts_with("# "));
            headings.map(|line| (*line).to_owned()).collect()
        };
        [
            headings(text(&mut connection, "INFO")),
            headings(text(&mut connection, "INFO all")),
            headings(text(&mut connection, "INFO server Clients MEMORY")),
            headings(text(&mut connection, "INFO keyspace")),
            headings(text(&mut connection, "INFO commandstats errorstats")),
        ]
    });
    assert_eq!(ours, oracle);
}

/// Requests after which the counters are those of Redis.
const COUNTED: &[&str] = &[
    "SET k v",
    "GET k",
    "GET k",
    "GET absent",
    "MGET k absent k",
    "EXISTS k absent",
    "TTL k",
    "STRLEN absent",
    "NOSUCH",
    "INCR k",
    "GET",
    "SET k v EX 0",
    "APPEND k w",
    "DEL k absent",
    "SET k v PXAT 1",
    "GET k",
    "MULTI",
    "SET a 1",
    "GET a",
    "NOSUCH x",
    "EXEC",
    "MULTI",
    "INCR a",
    "EXEC",
    "GETRANGE a 0 1",
    "TYPE a",
    "RPUSH l a b c d",
    "LSET l 0 x",
    "LTRIM l 0 2",
    "LPOP l 0",
    "LSET absent 0 a",
    "LRANGE l 0 -1",
    "HSET h f 1",
    "HINCRBY h f 1",
    "HINCRBYFLOAT h f 1",
    "HSETNX h f 1",
    "HGET h none",
    "SADD s a b c",
    "SMOVE s t a",
    "SPOP s 0",
    "SPOP absent",
    "ZADD z 1 a 2 b",
    "ZINCRBY z inf a",
    "ZREMRANGEBYRANK z 5 6",
    "ZPOPMIN z 0",
    "ZSCORE z a",
    "COPY l m",
    "COPY absent m",
    "CONFIG GET x",
    "CONFIG NOSUCH",
    "AUTH x",
];

#[test]
fn counters_count_what_redis_counts() {
    const COMPARED: &[&str] = &["keyspace_hits", "keyspace_misses", "total_error_replies"];
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Server::start(kind);
        let mut connection = server.tcp();
        connection.call("CONFIG RESETSTAT");
        for line in COUNTED {
            connection.ask(&words(line));
        }
        let stats = fields(&text(&mut connection, "INFO stats"));
        let errors = fields(&text(&mut connection, "INFO errorstats"));
        let calls = fields(&text(&mut connection, "INFO commandstats"));
        let compared = COMPARED.iter().map(|name| format!("{name}:{}", stats[*name]));
        let errors = errors.iter().map(|(name, value)| format!("{name}:{value}"));
        let calls = calls.iter().map(|(name, value)| format!("{name}:{}", without_times(value)));
        compared.chain(errors).chain(calls).collect::<Vec<_>>()
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

/// Returns the parts of a line of commandstats that do not depend on speed.
fn without_times(value: &str) -> String {
    let is_time = |part: &&str| !part.starts_with("usec");
    value.split(',').filter(is_time).collect::<Vec<_>>().join(",")
}

#[test]
fn keyspace_shows_each_database_that_holds_something() {
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Server::start(kind);
        let mut connection = server.tcp();
        for line in ["SET a 1", "SET b 2 EX 100000", "SELECT 7", "SET c 3 EX 100000"] {
            connection.call(line);
        }
        let fields = fields(&text(&mut connection, "INFO keyspace"));
        let counts = |value: &String| value.split(",avg_ttl=").next().map(str::to_owned);
        fields.iter().map(|(name, value)| (name.clone(), counts(value))).collect::<Vec<_>>()
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

/// The fields of CLIENT LIST that Redis 7.2 has and 7.0 has not.
/// Source: Redis 7.2.0 release notes, "CLIENT SETINFO".
const FIELDS_SINCE_72: [&str; 2] = ["lib-name", "lib-ver"];

#[test]
fn a_line_of_client_list_has_the_fields_of_redis() {
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Server::start(kind);
        let mut connection = server.tcp();
        connection.call("CLIENT SETNAME somebody");
        connection.call("SELECT 3");
        let list = text(&mut connection, "CLIENT LIST");
        let info = text(&mut connection, "CLIENT INFO");
        let names = |line: &str| -> Vec<String> {
            let pairs = line.trim_end().split(' ');
            pairs.map(|pair| pair.split('=').next().unwrap_or_default().to_owned()).collect()
        };
        let line = list.lines().find(|line| line.contains("name=somebody")).expect("it is listed");
        assert!(line.contains(" db=3 ") && line.contains(" cmd=client|list "), "{line}");
        assert!(line.contains("addr=127.0.0.1:"), "{line}");
        assert_eq!(names(line), names(&info));
        assert!(list.ends_with('\n') && info.ends_with('\n'));
        names(line)
    });
    let ours: Vec<String> =
        ours.into_iter().filter(|name| !FIELDS_SINCE_72.contains(&name.as_str())).collect();
    assert_eq!(ours, oracle, "(forebay, redis)");
}

/// What CLIENT INFO tells of a transaction, wherever it is asked.
#[test]
fn a_line_of_client_list_tells_of_transactions_and_watches() {
    let [ours, oracle] = [Kind::Forebay, Kind::Redis].map(|kind| {
        let server = Server::start(kind);
        let (mut watcher, mut other) = (server.tcp(), server.tcp());
        let Value::Integer(id) = watcher.call("CLIENT ID") else { panic!("an id is a number") };
        let own = |client: &mut Connection| told(&text(client, "CLIENT INFO"));
        let seen = |client: &mut Connection| told(&text(client, &format!("CLIENT LIST ID {id}")));
        let mut told = vec![own(&mut watcher), seen(&mut other)];
        watcher.call("WATCH k");
        told.push(seen(&mut other));
        other.call("SET k v");
        told.extend([own(&mut watcher), seen(&mut other)]);
        watcher.call("UNWATCH");
        told.extend([own(&mut watcher), seen(&mut other)]);
        watcher.pipeline(&[words("WATCH k"), words("SET k w")]);
        told.push(own(&mut watcher));
        watcher.call("MULTI");
        watcher.call("PING");
        told.push(seen(&mut other));
        watcher.call("DISCARD");
        watcher.pipeline(&["MULTI", "PING", "CLIENT INFO"].map(words));
        let Value::Array(values) = watcher.call("EXEC") else { panic!("the transaction ran") };
        let line = values[1].as_bytes().expect("the second reply is a text");
        told.push(self::told(&String::from_utf8_lossy(line)));
        told.extend([own(&mut watcher), seen(&mut other)]);
        told
    });
    assert_eq!(ours, oracle, "(forebay, redis)");
}

/// Returns the fields of a line of CLIENT LIST that tell how its client stands.
fn told(line: &str) -> Vec<String> {
    let is_told =
        |field: &&str| ["flags=", "multi=", "events="].iter().any(|n| field.starts_with(n));
    line.split(' ').filter(is_told).map(str::to_owned).collect()
}

#[test]
fn a_client_over_the_socket_is_told_by_the_socket() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.unix();
    let info = text(&mut connection, "CLIENT INFO");
    assert!(info.contains(&format!("addr={}:0 ", server.socket().display())), "{info}");
}

#[test]
fn client_list_selects_by_id() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let server = Server::start(kind);
        let (mut first, mut second) = (server.tcp(), server.unix());
        let Value::Integer(id) = second.call("CLIENT ID") else { panic!("an id is a number") };
        let list = text(&mut first, &format!("CLIENT LIST ID {id} 999999"));
        assert_eq!(list.lines().count(), 1, "{kind:?}: {list}");
        assert!(list.starts_with(&format!("id={id} ")), "{kind:?}: {list}");
        let normal = text(&mut first, "CLIENT LIST TYPE NORMAL");
        assert!(normal.lines().count() >= 2, "{kind:?}: {normal}");
    }
}

#[test]
fn config_get_dir_is_absolute_whatever_was_set() {
    for kind in [Kind::Forebay, Kind::Redis] {
        let server = Launch::new(kind).option("dir", ".").start();
        let found = server.tcp().call("CONFIG GET dir");
        let folder = server.folder().path().canonicalize().expect("a server's folder is there");
        let folder = folder.to_str().expect("its path is UTF-8").as_bytes().to_vec();
        let expected = [b"dir".to_vec(), folder].map(Value::Bulk);
        assert_eq!(found, Value::Array(expected.into()), "{kind:?}");
    }
}
