//! The options of Redis 7.2 that have no meaning here, as rows.
//!
//! They are accepted, shown by CONFIG GET and noted once in the log, so that a redis.conf can stay
//! as it is. Those that ask for a promise (persistence, replicas, encryption, access control) are
//! accepted only with the value that asks for nothing, at the end of all that sets them.

use super::kind::{
    Bytes, Checked, EventClasses, Flag, Integer, Kind, NoPrimary, OneOf, Only, Text,
};
use super::row::{Row, When};

const COUNT: &dyn Kind = &Integer { min: 0, max: i32::MAX as i64 };
const SECONDS: &dyn Kind = &Integer { min: 1, max: i32::MAX as i64 };
const BIG_COUNT: &dyn Kind = &Integer { min: 0, max: i64::MAX };
const PORT: &dyn Kind = &Integer { min: 0, max: 65_535 };
const SIGNED: &dyn Kind = &Integer { min: i32::MIN as i64, max: i32::MAX as i64 };
const PROTECTED: &dyn Kind = &OneOf(&["no", "yes", "local"]);

const NO_CLUSTER: &dyn Kind = &Only("Forebay does not run as a cluster: only 'no' is possible");
const NO_TLS_PORT: &dyn Kind = &Only("Forebay does not speak TLS: only 0 is possible");
const NO_TLS: &dyn Kind = &Only("Forebay does not speak TLS: only 'no' is possible");
const NO_REPLICA: &dyn Kind = &Only("Forebay does not replicate: only no replicas are possible");
const NO_PRIMARY: &dyn Kind = &NoPrimary("Forebay does not replicate: only 'no one' is possible");
const NO_USERS: &dyn Kind = &Only("Forebay has no access control lists: only '' is possible");

const fn row(name: &'static str, kind: &'static dyn Kind, default: &'static str) -> Row {
    Row { name, kind, default, ..Row::ACCEPTED }
}

const fn fixed(name: &'static str, kind: &'static dyn Kind, default: &'static str) -> Row {
    Row { name, kind, default, when: When::Start, ..Row::ACCEPTED }
}

const fn hidden(name: &'static str, kind: &'static dyn Kind, default: &'static str) -> Row {
    Row { name, kind, default, is_hidden: true, ..Row::ACCEPTED }
}

const fn renamed(
    name: &'static str,
    alias: &'static str,
    kind: &'static dyn Kind,
    default: &'static str,
) -> Row {
    Row { name, alias: Some(alias), kind, default, ..Row::ACCEPTED }
}

/// All rows of this file.
pub static ROWS: &[Row] = &[
    // Persistence.
    fixed("appendfilename", &Text, "appendonly.aof"),
    row("rdb-del-sync-files", &Flag, "no"),
    row("rdb-save-incremental-fsync", &Flag, "yes"),
    row("no-appendfsync-on-rewrite", &Flag, "no"),
    row("aof-load-truncated", &Flag, "yes"),
    row("aof-use-rdb-preamble", &Flag, "yes"),
    row("aof-timestamp-enabled", &Flag, "no"),
    row("aof-rewrite-incremental-fsync", &Flag, "yes"),
    row("aof-disable-auto-gc", &Flag, "no"),
    row("sanitize-dump-payload", &OneOf(&["no", "yes", "clients"]), "no"),
    hidden("rdb-key-save-delay", SIGNED, "0"),
    hidden("key-load-delay", SIGNED, "0"),
    hidden(
        "loading-process-events-interval-bytes",
        &Integer { min: 1024, max: i32::MAX as i64 },
        "2097152",
    ),
    // Replication.
    Row {
        name: "replicaof",
        alias: Some("slaveof"),
        kind: NO_PRIMARY,
        when: When::Start,
        ..Row::ACCEPTED
    },
    row("masteruser", &Text, ""),
    row("masterauth", &Text, ""),
    renamed("replica-serve-stale-data", "slave-serve-stale-data", &Flag, "yes"),
    renamed("replica-read-only", "slave-read-only", &Flag, "yes"),
    renamed("replica-ignore-maxmemory", "slave-ignore-maxmemory", &Flag, "yes"),
    renamed("replica-lazy-flush", "slave-lazy-flush", &Flag, "no"),
    renamed("replica-priority", "slave-priority", COUNT, "100"),
    renamed("replica-announce-ip", "slave-announce-ip", &Text, ""),
    renamed("replica-announce-port", "slave-announce-port", PORT, "0"),
    row("replica-announced", &Flag, "yes"),
    row("replica-ignore-disk-write-errors", &Flag, "no"),
    row("propagation-error-behavior", &OneOf(&["ignore", "panic", "panic-on-replicas"]), "ignore"),
    row("repl-diskless-sync", &Flag, "yes"),
    row("repl-diskless-sync-delay", COUNT, "5"),
    row("repl-diskless-sync-max-replicas", COUNT, "0"),
    row("repl-diskless-load", &OneOf(&["disabled", "on-empty-db", "swapdb"]), "disabled"),
    renamed("repl-ping-replica-period", "repl-ping-slave-period", SECONDS, "10"),
    row("repl-timeout", SECONDS, "60"),
    row("repl-disable-tcp-nodelay", &Flag, "no"),
    row("repl-backlog-size", &Bytes { min: 1, max: i64::MAX as u64 }, "1048576"),
    row("repl-backlog-ttl", BIG_COUNT, "3600"),
    renamed("min-replicas-to-write", "min-slaves-to-write", NO_REPLICA, "0"),
    renamed("min-replicas-max-lag", "min-slaves-max-lag", COUNT, "10"),
    // Cluster.
    fixed("cluster-enabled", NO_CLUSTER, "no"),
    fixed("cluster-config-file", &Text, "nodes.conf"),
    row("cluster-node-timeout", BIG_COUNT, "15000"),
    fixed("cluster-port", PORT, "0"),
    row("cluster-announce-ip", &Text, ""),
    row("cluster-announce-hostname", &Checked::HOST_NAME, ""),
    row("cluster-announce-human-nodename", &Checked::NODE_NAME, ""),
    row("cluster-announce-port", PORT, "0"),
    row("cluster-announce-tls-port", PORT, "0"),
    row("cluster-announce-bus-port", PORT, "0"),
    row("cluster-preferred-endpoint-type", &OneOf(&["ip", "hostname", "unknown-endpoint"]), "ip"),
    row("cluster-require-full-coverage", &Flag, "yes"),
    renamed("cluster-replica-validity-factor", "cluster-slave-validity-factor", COUNT, "10"),
    renamed("cluster-replica-no-failover", "cluster-slave-no-failover", &Flag, "no"),
    row("cluster-allow-replica-migration", &Flag, "yes"),
    row("cluster-migration-barrier", COUNT, "1"),
    row("cluster-allow-reads-when-down", &Flag, "no"),
    row("cluster-allow-pubsubshard-when-down", &Flag, "yes"),
    row("cluster-link-sendbuf-limit", &Bytes { min: 0, max: u64::MAX }, "0"),
    // Encryption and access.
    row("tls-port", NO_TLS_PORT, "0"),
    row("tls-cluster", NO_TLS, "no"),
    row("tls-replication", NO_TLS, "no"),
    row("tls-auth-clients", &OneOf(&["no", "yes", "optional"]), "yes"),
    row("tls-prefer-server-ciphers", &Flag, "no"),
    row("tls-session-caching", &Flag, "yes"),
    row("tls-session-cache-size", COUNT, "20480"),
    row("tls-session-cache-timeout", COUNT, "300"),
    row("tls-cert-file", &Text, ""),
    row("tls-key-file", &Text, ""),
    row("tls-key-file-pass", &Text, ""),
    row("tls-client-cert-file", &Text, ""),
    row("tls-client-key-file", &Text, ""),
    row("tls-client-key-file-pass", &Text, ""),
    row("tls-dh-params-file", &Text, ""),
    row("tls-ca-cert-file", &Text, ""),
    row("tls-ca-cert-dir", &Text, ""),
    row("tls-protocols", &Text, ""),
    row("tls-ciphers", &Text, ""),
    row("tls-ciphersuites", &Text, ""),
    fixed("aclfile", NO_USERS, ""),
    row("acllog-max-len", BIG_COUNT, "128"),
    row("acl-pubsub-default", &OneOf(&["allchannels", "resetchannels"]), "resetchannels"),
    fixed("enable-module-command", PROTECTED, "no"),
    // Clients and transports.
    row("bind-source-addr", &Text, ""),
    fixed("socket-mark-id", &Integer { min: 0, max: u32::MAX as i64 }, "0"),
    row("tracking-table-max-keys", BIG_COUNT, "1000000"),
    Row {
        name: "notify-keyspace-events",
        kind: &EventClasses,
        doc: "Classes of keyspace events, remembered: none is published.",
        ..Row::ACCEPTED
    },
    fixed("io-threads", &Integer { min: 1, max: 128 }, "1"),
    fixed("io-threads-do-reads", &Flag, "no"),
    // Memory.
    row("lazyfree-lazy-eviction", &Flag, "no"),
    row("lazyfree-lazy-expire", &Flag, "no"),
    row("lazyfree-lazy-server-del", &Flag, "no"),
    row("lazyfree-lazy-user-del", &Flag, "no"),
    row("lazyfree-lazy-user-flush", &Flag, "no"),
    row("activerehashing", &Flag, "yes"),
    Row {
        name: "activedefrag",
        kind: &Flag,
        default: "no",
        doc: "Known from Redis, without effect here: memory is always compacted.",
        ..Row::ACCEPTED
    },
    row("active-defrag-ignore-bytes", &Bytes { min: 1, max: i64::MAX as u64 }, "104857600"),
    row("active-defrag-threshold-lower", &Integer { min: 0, max: 1000 }, "10"),
    row("active-defrag-threshold-upper", &Integer { min: 0, max: 1000 }, "100"),
    row("active-defrag-cycle-min", &Integer { min: 1, max: 99 }, "1"),
    row("active-defrag-cycle-max", &Integer { min: 1, max: 99 }, "25"),
    row("active-defrag-max-scan-fields", &Integer { min: 1, max: i64::MAX }, "1000"),
    row("jemalloc-bg-thread", &Flag, "yes"),
    fixed("disable-thp", &Flag, "yes"),
    // Encodings of collections.
    row("list-compress-depth", COUNT, "0"),
    // Scripts.
    renamed("busy-reply-threshold", "lua-time-limit", BIG_COUNT, "5000"),
    Row {
        name: "lua-enable-deprecated-api",
        kind: &Flag,
        default: "no",
        when: When::Start,
        is_hidden: true,
        ..Row::ACCEPTED
    },
    // The process.
    fixed("set-proc-title", &Flag, "yes"),
    row("proc-title-template", &Checked::TITLE_TEMPLATE, "{title} {listen-addr} {server-mode}"),
    row("locale-collate", &Text, ""),
    row("dynamic-hz", &Flag, "yes"),
    row("crash-memcheck-enabled", &Flag, "yes"),
    hidden("use-exit-on-panic", &Flag, "no"),
    hidden("watchdog-period", COUNT, "0"),
    row("ignore-warnings", &Text, ""),
    fixed("server_cpulist", &Text, ""),
    fixed("bio_cpulist", &Text, ""),
    fixed("aof_rewrite_cpulist", &Text, ""),
    fixed("bgsave_cpulist", &Text, ""),
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
