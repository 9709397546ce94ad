//! The options of Redis 7.2 that have no meaning here, as rows.
//!
//! They are accepted, shown by CONFIG GET and noted once in the log, so that a redis.conf can stay
//! as it is. Those that ask for a promise (persistence, replicas, encryption, access control) are
//! accepted only with the value that asks for nothing, at the end of all that sets them.

use super::row::{Kind, Row, When};

const COUNT: Kind = Kind::Integer { min: 0, max: i32::MAX as i64 };
const BIG_COUNT: Kind = Kind::Integer { min: 0, max: i64::MAX };
const PORT: Kind = Kind::Integer { min: 0, max: 65_535 };
const SIGNED: Kind = Kind::Integer { min: i32::MIN as i64, max: i32::MAX as i64 };
const BYTES: Kind = Kind::Memory { min: 0, max: i64::MAX as u64 };
const PROTECTED: Kind = Kind::Choice(&["no", "yes", "local"]);

const NO_LOG: Kind =
    Kind::Only("Forebay does not write an append-only file: only 'no' is possible");
const NO_CLUSTER: Kind = Kind::Only("Forebay does not run as a cluster: only 'no' is possible");
const NO_TLS: Kind = Kind::Only("Forebay does not speak TLS: only 0 is possible");
const NO_REPLICA: Kind = Kind::Only("Forebay does not replicate: only no replicas are possible");
const NO_PRIMARY: Kind = Kind::NoPrimary("Forebay does not replicate: only 'no one' is possible");
const NO_USERS: Kind = Kind::Only("Forebay has no access control lists: only '' is possible");

const fn row(name: &'static str, kind: Kind, default: &'static str) -> Row {
    Row { name, kind, default, ..Row::ACCEPTED }
}

const fn fixed(name: &'static str, kind: Kind, default: &'static str) -> Row {
    Row { name, kind, default, when: When::Start, ..Row::ACCEPTED }
}

const fn hidden(name: &'static str, kind: Kind, default: &'static str) -> Row {
    Row { name, kind, default, is_hidden: true, ..Row::ACCEPTED }
}

const fn renamed(
    name: &'static str,
    alias: &'static str,
    kind: Kind,
    default: &'static str,
) -> Row {
    Row { name, alias: Some(alias), kind, default, ..Row::ACCEPTED }
}

/// All rows of this file.
pub static ROWS: &[Row] = &[
    // Persistence.
    row("appendonly", NO_LOG, "no"),
    row("appendfsync", Kind::Choice(&["everysec", "always", "no"]), "everysec"),
    fixed("appendfilename", Kind::Text, "appendonly.aof"),
    fixed("appenddirname", Kind::Text, "appendonlydir"),
    Row { name: "dbfilename", default: "dump.rdb", when: When::Protected, ..Row::ACCEPTED },
    row("rdbcompression", Kind::Flag, "yes"),
    fixed("rdbchecksum", Kind::Flag, "yes"),
    row("rdb-del-sync-files", Kind::Flag, "no"),
    row("rdb-save-incremental-fsync", Kind::Flag, "yes"),
    row("stop-writes-on-bgsave-error", Kind::Flag, "yes"),
    row("no-appendfsync-on-rewrite", Kind::Flag, "no"),
    row("auto-aof-rewrite-percentage", COUNT, "100"),
    row("auto-aof-rewrite-min-size", BYTES, "67108864"),
    row("aof-load-truncated", Kind::Flag, "yes"),
    row("aof-use-rdb-preamble", Kind::Flag, "yes"),
    row("aof-timestamp-enabled", Kind::Flag, "no"),
    row("aof-rewrite-incremental-fsync", Kind::Flag, "yes"),
    row("aof-disable-auto-gc", Kind::Flag, "no"),
    row("sanitize-dump-payload", Kind::Choice(&["no", "yes", "clients"]), "no"),
    hidden("rdb-key-save-delay", SIGNED, "0"),
    hidden("key-load-delay", SIGNED, "0"),
    hidden("loading-process-events-interval-bytes", BYTES, "2097152"),
    // Replication.
    Row {
        name: "replicaof",
        alias: Some("slaveof"),
        kind: NO_PRIMARY,
        when: When::Start,
        ..Row::ACCEPTED
    },
    row("masteruser", Kind::Text, ""),
    row("masterauth", Kind::Text, ""),
    renamed("replica-serve-stale-data", "slave-serve-stale-data", Kind::Flag, "yes"),
    renamed("replica-read-only", "slave-read-only", Kind::Flag, "yes"),
    renamed("replica-ignore-maxmemory", "slave-ignore-maxmemory", Kind::Flag, "yes"),
    renamed("replica-lazy-flush", "slave-lazy-flush", Kind::Flag, "no"),
    renamed("replica-priority", "slave-priority", COUNT, "100"),
    renamed("replica-announce-ip", "slave-announce-ip", Kind::Text, ""),
    renamed("replica-announce-port", "slave-announce-port", PORT, "0"),
    row("replica-announced", Kind::Flag, "yes"),
    row("replica-ignore-disk-write-errors", Kind::Flag, "no"),
    row(
        "propagation-error-behavior",
        Kind::Choice(&["ignore", "panic", "panic-on-replicas"]),
        "ignore",
    ),
    row("repl-diskless-sync", Kind::Flag, "yes"),
    row("repl-diskless-sync-delay", COUNT, "5"),
    row("repl-diskless-sync-max-replicas", COUNT, "0"),
    row("repl-diskless-load", Kind::Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled"),
    renamed("repl-ping-replica-period", "repl-ping-slave-period", COUNT, "10"),
    row("repl-timeout", COUNT, "60"),
    row("repl-disable-tcp-nodelay", Kind::Flag, "no"),
    row("repl-backlog-size", Kind::Memory { min: 1, max: i64::MAX as u64 }, "1048576"),
    row("repl-backlog-ttl", BIG_COUNT, "3600"),
    renamed("min-replicas-to-write", "min-slaves-to-write", NO_REPLICA, "0"),
    renamed("min-replicas-max-lag", "min-slaves-max-lag", COUNT, "10"),
    // Cluster.
    fixed("cluster-enabled", NO_CLUSTER, "no"),
    fixed("cluster-config-file", Kind::Text, "nodes.conf"),
    row("cluster-node-timeout", BIG_COUNT, "15000"),
    fixed("cluster-port", PORT, "0"),
    row("cluster-announce-ip", Kind::Text, ""),
    row("cluster-announce-hostname", Kind::Text, ""),
    row("cluster-announce-human-nodename", Kind::Text, ""),
    row("cluster-announce-port", PORT, "0"),
    row("cluster-announce-tls-port", PORT, "0"),
    row("cluster-announce-bus-port", PORT, "0"),
    row(
        "cluster-preferred-endpoint-type",
        Kind::Choice(&["ip", "hostname", "unknown-endpoint"]),
        "ip",
    ),
    row("cluster-require-full-coverage", Kind::Flag, "yes"),
    renamed("cluster-replica-validity-factor", "cluster-slave-validity-factor", COUNT, "10"),
    renamed("cluster-replica-no-failover", "cluster-slave-no-failover", Kind::Flag, "no"),
    row("cluster-allow-replica-migration", Kind::Flag, "yes"),
    row("cluster-migration-barrier", COUNT, "1"),
    row("cluster-allow-reads-when-down", Kind::Flag, "no"),
    row("cluster-allow-pubsubshard-when-down", Kind::Flag, "yes"),
    row("cluster-link-sendbuf-limit", BYTES, "0"),
    // Encryption and access.
    row("tls-port", NO_TLS, "0"),
    row("tls-cluster", Kind::Flag, "no"),
    row("tls-replication", Kind::Flag, "no"),
    row("tls-auth-clients", Kind::Choice(&["yes", "no", "optional"]), "yes"),
    row("tls-prefer-server-ciphers", Kind::Flag, "no"),
    row("tls-session-caching", Kind::Flag, "yes"),
    row("tls-session-cache-size", COUNT, "20480"),
    row("tls-session-cache-timeout", COUNT, "300"),
    row("tls-cert-file", Kind::Text, ""),
    row("tls-key-file", Kind::Text, ""),
    row("tls-key-file-pass", Kind::Text, ""),
    row("tls-client-cert-file", Kind::Text, ""),
    row("tls-client-key-file", Kind::Text, ""),
    row("tls-client-key-file-pass", Kind::Text, ""),
    row("tls-dh-params-file", Kind::Text, ""),
    row("tls-ca-cert-file", Kind::Text, ""),
    row("tls-ca-cert-dir", Kind::Text, ""),
    row("tls-protocols", Kind::Text, ""),
    row("tls-ciphers", Kind::Text, ""),
    row("tls-ciphersuites", Kind::Text, ""),
    fixed("aclfile", NO_USERS, ""),
    row("acllog-max-len", BIG_COUNT, "128"),
    row("acl-pubsub-default", Kind::Choice(&["allchannels", "resetchannels"]), "resetchannels"),
    fixed("enable-module-command", PROTECTED, "no"),
    // Clients and transports.
    row("bind-source-addr", Kind::Text, ""),
    fixed("socket-mark-id", Kind::Integer { min: 0, max: u32::MAX as i64 }, "0"),
    row("tracking-table-max-keys", BIG_COUNT, "1000000"),
    Row {
        name: "notify-keyspace-events",
        kind: Kind::EventClasses,
        doc: "Classes of keyspace events, remembered: none is published.",
        ..Row::ACCEPTED
    },
    fixed("io-threads", Kind::Integer { min: 1, max: 128 }, "1"),
    fixed("io-threads-do-reads", Kind::Flag, "no"),
    // Memory.
    row("lazyfree-lazy-eviction", Kind::Flag, "no"),
    row("lazyfree-lazy-expire", Kind::Flag, "no"),
    row("lazyfree-lazy-server-del", Kind::Flag, "no"),
    row("lazyfree-lazy-user-del", Kind::Flag, "no"),
    row("lazyfree-lazy-user-flush", Kind::Flag, "no"),
    row("activerehashing", Kind::Flag, "yes"),
    row("activedefrag", Kind::Flag, "no"),
    row("active-defrag-ignore-bytes", BYTES, "104857600"),
    row("active-defrag-threshold-lower", Kind::Integer { min: 0, max: 1000 }, "10"),
    row("active-defrag-threshold-upper", Kind::Integer { min: 0, max: 1000 }, "100"),
    row("active-defrag-cycle-min", Kind::Integer { min: 1, max: 99 }, "1"),
    row("active-defrag-cycle-max", Kind::Integer { min: 1, max: 99 }, "25"),
    row("active-defrag-max-scan-fields", BIG_COUNT, "1000"),
    row("jemalloc-bg-thread", Kind::Flag, "yes"),
    fixed("disable-thp", Kind::Flag, "yes"),
    // Encodings of collections.
    row("list-compress-depth", COUNT, "0"),
    row("hll-sparse-max-bytes", BYTES, "3000"),
    row("stream-node-max-bytes", BYTES, "4096"),
    row("stream-node-max-entries", BIG_COUNT, "100"),
    // Scripts.
    renamed("busy-reply-threshold", "lua-time-limit", BIG_COUNT, "5000"),
    Row {
        name: "lua-enable-deprecated-api",
        kind: Kind::Flag,
        default: "no",
        when: When::Start,
        is_hidden: true,
        ..Row::ACCEPTED
    },
    // The process.
    fixed("set-proc-title", Kind::Flag, "yes"),
    row("proc-title-template", Kind::Text, "{title} {listen-addr} {server-mode}"),
    row("locale-collate", Kind::Text, ""),
    row("dynamic-hz", Kind::Flag, "yes"),
    row("crash-memcheck-enabled", Kind::Flag, "yes"),
    hidden("use-exit-on-panic", Kind::Flag, "no"),
    hidden("watchdog-period", COUNT, "0"),
    row("ignore-warnings", Kind::Text, ""),
    fixed("server_cpulist", Kind::Text, ""),
    fixed("bio_cpulist", Kind::Text, ""),
    fixed("aof_rewrite_cpulist", Kind::Text, ""),
    fixed("bgsave_cpulist", Kind::Text, ""),
];

/// Options of earlier versions of Redis that it still takes and ignores, as does this server.
pub static IGNORED: &[&str] =
    &["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// Directives of a redis.conf that are no options, each with the reason why it is refused.
pub static REFUSED: &[(&str, &str)] = &[
    ("user", "Forebay has no access control lists"),
    ("loadmodule", "Forebay does not load modules"),
    ("rename-command", "Forebay does not rename commands"),
    ("sentinel", "Forebay does not run as a sentinel"),
];
