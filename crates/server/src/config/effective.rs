//! The options that do something, as rows.

use keyspace::EvictionPolicy;

use super::row::{Kind, Row, When};
use crate::worker::polling::PollMode;

const COUNT_MAX: i64 = i32::MAX as i64;
const BYTES_MAX: u64 = i64::MAX as u64;

/// The TCP port.
pub static PORT: Row = Row {
    name: "port",
    kind: Kind::Integer { min: 0, max: 65_535 },
    default: "6379",
    doc: "TCP port; 0 listens on no TCP port.",
    ..Row::EFFECTIVE
};

/// The addresses of the TCP listeners.
pub static BIND: Row = Row {
    name: "bind",
    kind: Kind::Addresses,
    default: "127.0.0.1 -::1",
    doc: "Addresses to listen on; `*` and `::*` are all, a leading `-` lets an address be absent.",
    ..Row::EFFECTIVE
};

/// The path of the unix listener.
pub static UNIX_SOCKET: Row = Row {
    name: "unixsocket",
    when: When::Start,
    doc: "Path of the unix socket; empty for none.",
    ..Row::EFFECTIVE
};

/// The mode of the unix listener's file.
pub static UNIX_SOCKET_MODE: Row = Row {
    name: "unixsocketperm",
    kind: Kind::Permissions,
    default: "0",
    when: When::Start,
    doc: "Mode of the unix socket's file, octal; 0 means 600.",
    ..Row::EFFECTIVE
};

/// When idle clients are closed.
pub static TIMEOUT: Row = Row {
    name: "timeout",
    kind: Kind::Integer { min: 0, max: COUNT_MAX },
    default: "0",
    doc: "Seconds after which an idle client is closed; 0 for never.",
    ..Row::EFFECTIVE
};

/// When idle TCP connections are probed.
pub static TCP_KEEPALIVE: Row = Row {
    name: "tcp-keepalive",
    kind: Kind::Integer { min: 0, max: COUNT_MAX },
    default: "300",
    doc: "Seconds of silence after which a TCP peer is probed; 0 for never. New connections only.",
    ..Row::EFFECTIVE
};

/// How many connections may wait to be accepted.
pub static TCP_BACKLOG: Row = Row {
    name: "tcp-backlog",
    kind: Kind::Integer { min: 0, max: COUNT_MAX },
    default: "511",
    when: When::Start,
    doc: "Connections that may wait to be accepted, within the system's own limit.",
    ..Row::EFFECTIVE
};

/// How many clients may be connected.
pub static MAX_CLIENTS: Row = Row {
    name: "maxclients",
    kind: Kind::Integer { min: 1, max: u32::MAX as i64 },
    default: "10000",
    doc: "Clients that may be connected at once.",
    ..Row::EFFECTIVE
};

/// How many databases there are.
pub static DATABASES: Row = Row {
    name: "databases",
    kind: Kind::Integer { min: 1, max: base::DATABASE_COUNT_MAX as i64 },
    default: "16",
    when: When::Start,
    doc: "Databases that SELECT can choose from.",
    ..Row::EFFECTIVE
};

/// The password.
pub static PASSWORD: Row = Row {
    name: "requirepass",
    doc: "Password that AUTH asks for; empty for none.",
    ..Row::EFFECTIVE
};

/// Whether strangers are refused while there is no password.
pub static PROTECTED_MODE: Row = Row {
    name: "protected-mode",
    kind: Kind::Flag,
    default: "yes",
    doc: "Refuse clients that are not on this host while there is no password.",
    ..Row::EFFECTIVE
};

/// The bound of all memory.
pub static MAX_MEMORY: Row = Row {
    name: "maxmemory",
    kind: Kind::Memory { min: 0, max: BYTES_MAX },
    default: "0",
    doc: "Bytes that data and buffers may take in all, the buffers of requests underway included; \
          0 for no limit.",
    ..Row::EFFECTIVE
};

/// What happens at the bound.
pub static MAX_MEMORY_POLICY: Row = Row {
    name: "maxmemory-policy",
    kind: Kind::Choice(EvictionPolicy::NAMES),
    default: "noeviction",
    doc: "What happens at maxmemory: writes are refused (`noeviction`), or keys go: any or only \
          those with a time to live (`volatile`), the least recently used first (`lru`), the \
          least frequently used (`lfu`), by chance (`random`), or those that end first (`ttl`). \
          Where no key may go, writes are refused.",
    ..Row::EFFECTIVE
};

/// How well victims are chosen.
pub static MAX_MEMORY_SAMPLES: Row = Row {
    name: "maxmemory-samples",
    kind: Kind::Clamped { accepted: (1, COUNT_MAX), kept: (1, 64) },
    default: "5",
    doc: "Keys among which a victim of eviction is chosen.",
    ..Row::EFFECTIVE
};

/// How long a command makes room.
pub static MAX_MEMORY_TENACITY: Row = Row {
    name: "maxmemory-eviction-tenacity",
    kind: Kind::Integer { min: 0, max: 100 },
    default: "10",
    doc: "How long a command evicts where memory is above maxmemory, before it goes on and others \
          evict the rest: 0 is shortest, 100 until nothing is above.",
    ..Row::EFFECTIVE
};

/// How fast counters of accesses grow.
pub static LFU_LOG_FACTOR: Row = Row {
    name: "lfu-log-factor",
    kind: Kind::Integer { min: 0, max: COUNT_MAX },
    default: "10",
    doc: "How seldom a key's counter of accesses grows under the `lfu` policies: with 10, a \
          million accesses fill it.",
    ..Row::EFFECTIVE
};

/// How fast counters of accesses fall.
pub static LFU_DECAY_TIME: Row = Row {
    name: "lfu-decay-time",
    kind: Kind::Integer { min: 0, max: COUNT_MAX },
    default: "1",
    doc: "Minutes without an access that take one from the counter; 0 for never.",
    ..Row::EFFECTIVE
};

/// The bound of what clients take.
pub static MAX_MEMORY_CLIENTS: Row = Row {
    name: "maxmemory-clients",
    kind: Kind::MemoryOrPercent,
    default: "0",
    doc: "Bytes that all clients may take together, or a share of `maxmemory` in percent, at least \
          131072; above it the largest are closed. 0 for no limit.",
    ..Row::EFFECTIVE
};

/// How much unsent output a client may have.
pub static OUTPUT_LIMITS: Row = Row {
    name: "client-output-buffer-limit",
    kind: Kind::OutputLimits,
    default: "normal 1073741824 268435456 60 slave 268435456 67108864 60 \
              pubsub 33554432 8388608 60",
    doc: "Per class: bytes of unsent output that close a client at once, and bytes that close it \
          after so many seconds; 0 for no limit but 4 GiB for one batch of requests. `normal` has \
          a limit where Redis has none, as a client that asks and never reads would take all \
          memory; there are no clients of the other classes.",
    ..Row::EFFECTIVE
};

/// The most unread input that a client can be allowed. Redis has no such bound; here positions in
/// a buffer have 32 bits, and a buffer passes its limit by one receive before it is looked at.
pub const QUERY_BYTES_MAX: u64 = 3 << 30;

/// How much unread input a client may have.
pub static QUERY_LIMIT: Row = Row {
    name: "client-query-buffer-limit",
    kind: Kind::Memory { min: 1 << 20, max: QUERY_BYTES_MAX },
    default: "1073741824",
    doc: "Bytes of input that a client may have waiting, a request underway included.",
    ..Row::EFFECTIVE
};

/// The largest argument.
pub static BULK_MAX: Row = Row {
    name: "proto-max-bulk-len",
    kind: Kind::Memory { min: 1 << 20, max: 1 << 31 },
    default: "536870912",
    doc: "Bytes of the largest argument, and of the longest string that APPEND and SETRANGE make.",
    ..Row::EFFECTIVE
};

/// How much is logged.
pub static LOG_LEVEL: Row = Row {
    name: "loglevel",
    kind: Kind::Choice(&["debug", "verbose", "notice", "warning", "nothing"]),
    default: "notice",
    doc: "The least level that is logged.",
    ..Row::EFFECTIVE
};

/// Where the log goes.
pub static LOG_FILE: Row = Row {
    name: "logfile",
    when: When::Start,
    doc: "File that the log is appended to, opened for each line, so that it can be moved away; \
          empty for standard output.",
    ..Row::EFFECTIVE
};

/// The working directory.
pub static DIRECTORY: Row = Row {
    name: "dir",
    default: ".",
    when: When::Protected,
    doc: "Working directory.",
    ..Row::EFFECTIVE
};

/// Where the process id is written.
pub static PID_FILE: Row = Row {
    name: "pidfile",
    when: When::Start,
    doc: "File that holds the process id while the server runs; empty for none, or for \
          /var/run/redis.pid under `daemonize yes`.",
    ..Row::EFFECTIVE
};

/// Whether the server leaves the terminal.
pub static DAEMONIZE: Row = Row {
    name: "daemonize",
    kind: Kind::Flag,
    default: "no",
    when: When::Start,
    doc: "Serve from a process in the background; the one that was started ends once it serves, or \
          says why it does not. Without meaning under `supervised`.",
    ..Row::EFFECTIVE
};

/// Who is told that the server serves.
pub static SUPERVISED: Row = Row {
    name: "supervised",
    kind: Kind::Choice(&["upstart", "systemd", "auto", "no"]),
    default: "no",
    when: When::Start,
    doc: "Tell who started the server when it serves and when it ends: systemd by NOTIFY_SOCKET, \
          upstart by SIGSTOP; `auto` asks the environment.",
    ..Row::EFFECTIVE
};

/// Whether the log goes to the system's.
pub static SYSLOG_ENABLED: Row = Row {
    name: "syslog-enabled",
    kind: Kind::Flag,
    default: "no",
    when: When::Start,
    doc: "Send the log to the system's, too.",
    ..Row::EFFECTIVE
};

/// The name in the system's log.
pub static SYSLOG_IDENT: Row = Row {
    name: "syslog-ident",
    default: "redis",
    when: When::Start,
    doc: "Name of this server in the system's log.",
    ..Row::EFFECTIVE
};

/// The part of the system's log.
pub static SYSLOG_FACILITY: Row = Row {
    name: "syslog-facility",
    kind: Kind::Choice(&[
        "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
    ]),
    default: "local0",
    when: When::Start,
    doc: "Facility of the system's log.",
    ..Row::EFFECTIVE
};

/// Whether the log begins with a banner.
pub static ALWAYS_SHOW_LOGO: Row = Row {
    name: "always-show-logo",
    kind: Kind::Flag,
    default: "no",
    when: When::Start,
    doc: "Begin the log with a banner of version, port and process id, which test suites look for.",
    ..Row::EFFECTIVE
};

/// What SIGTERM asks for.
pub static SHUTDOWN_ON_TERMINATE: Row = Row {
    name: "shutdown-on-sigterm",
    kind: Kind::ShutdownModes,
    default: "default",
    doc: "How SIGTERM shuts down, in the words of SHUTDOWN; `save` without `force` does not, as \
          nothing can be saved.",
    ..Row::EFFECTIVE
};

/// What SIGINT asks for.
pub static SHUTDOWN_ON_INTERRUPT: Row = Row {
    name: "shutdown-on-sigint",
    kind: Kind::ShutdownModes,
    default: "default",
    doc: "How SIGINT shuts down, in the same words.",
    ..Row::EFFECTIVE
};

/// Whether the kernel's choice of a process to kill is influenced.
pub static OOM_SCORE: Row = Row {
    name: "oom-score-adj",
    kind: Kind::Choice(&["no", "yes", "relative", "absolute"]),
    default: "no",
    doc: "Adjust the score by which the kernel chooses a process to kill when memory is short: by \
          a value on top of what was found at start (`relative`, `yes`) or as it is.",
    ..Row::EFFECTIVE
};

/// The values for that.
pub static OOM_SCORE_VALUES: Row = Row {
    name: "oom-score-adj-values",
    kind: Kind::OomScores,
    default: "0 200 800",
    doc: "Scores for a primary, a replica and a child that saves; there are primaries only.",
    ..Row::EFFECTIVE
};

/// Who may change the options that lead to files.
pub static PROTECTED_CONFIGS: Row = Row {
    name: "enable-protected-configs",
    kind: Kind::Choice(&["no", "yes", "local"]),
    default: "no",
    when: When::Start,
    doc: "Who may change protected options by CONFIG SET: nobody, everybody, or clients on this \
          host.",
    ..Row::EFFECTIVE
};

/// Which Redis the server says it is.
pub static COMPATIBLE_VERSION: Row = Row {
    name: "compatible-redis-version",
    kind: Kind::Version,
    default: command::REDIS_VERSION,
    when: When::Start,
    doc: "Version of Redis that INFO, HELLO, LOLWUT and the log name, for clients and tests that \
          choose by it; it changes nothing else.",
    ..Row::EFFECTIVE
};

/// Who may call DEBUG.
pub static DEBUG_COMMAND: Row = Row {
    name: "enable-debug-command",
    kind: Kind::Choice(&["no", "yes", "local"]),
    default: "no",
    when: When::Start,
    doc: "Who may call DEBUG: nobody, everybody, or clients on this host.",
    ..Row::EFFECTIVE
};

/// Whether a crash is reported.
pub static CRASH_LOG: Row = Row {
    name: "crash-log-enabled",
    kind: Kind::Flag,
    default: "yes",
    doc: "Report a crash in the log: where, by which command, with INFO and the clients. Without \
          it the log names a failed assertion alone.",
    ..Row::EFFECTIVE
};

/// How often periodic work is looked at.
pub static FREQUENCY: Row = Row {
    name: "hz",
    kind: Kind::Clamped { accepted: (0, COUNT_MAX), kept: (1, 500) },
    default: "10",
    doc: "Rounds of expiry and of closing idle clients per second, while there is any to do.",
    ..Row::EFFECTIVE
};

/// How much of a round goes into expiry.
pub static EXPIRE_EFFORT: Row = Row {
    name: "active-expire-effort",
    kind: Kind::Integer { min: 1, max: 10 },
    default: "1",
    doc: "How much of the time goes into removing expired keys, from 1 to 10.",
    ..Row::EFFECTIVE
};

/// How long a shutdown waits.
pub static SHUTDOWN_TIMEOUT: Row = Row {
    name: "shutdown-timeout",
    kind: Kind::Integer { min: 0, max: COUNT_MAX },
    default: "10",
    doc: "Seconds that a shutdown waits for replies to be taken by their clients.",
    ..Row::EFFECTIVE
};

/// From when on a command is slow.
pub static SLOW_LOG_FROM: Row = Row {
    name: "slowlog-log-slower-than",
    kind: Kind::Integer { min: -1, max: i64::MAX },
    default: "10000",
    doc: "Microseconds from which on a command enters the slow log; 0 for all, -1 for none. Below \
          1000 every command is timed by itself, which costs more.",
    ..Row::EFFECTIVE
};

/// How long the slow log is.
pub static SLOW_LOG_LEN: Row = Row {
    name: "slowlog-max-len",
    kind: Kind::Integer { min: 0, max: i64::MAX },
    default: "128",
    doc: "Entries of the slow log; where there are more, the oldest go when the next one comes.",
    ..Row::EFFECTIVE
};

/// From when on an event is a spike of latency.
pub static LATENCY_THRESHOLD: Row = Row {
    name: "latency-monitor-threshold",
    kind: Kind::Integer { min: 0, max: i64::MAX },
    default: "0",
    doc: "Milliseconds from which on LATENCY keeps an event as a spike; 0 for none.",
    ..Row::EFFECTIVE
};

/// Whether the distribution of times is kept.
pub static LATENCY_TRACKING: Row = Row {
    name: "latency-tracking",
    kind: Kind::Flag,
    default: "yes",
    doc: "Keep how long the calls of each command took, for INFO latencystats and LATENCY \
          HISTOGRAM.",
    ..Row::EFFECTIVE
};

/// Which percentiles INFO shows.
pub static LATENCY_PERCENTILES: Row = Row {
    name: "latency-tracking-info-percentiles",
    kind: Kind::Percentiles,
    default: "50 99 99.9",
    doc: "Percentiles of the times of each command that INFO latencystats shows.",
    ..Row::EFFECTIVE
};

/// How many threads serve clients.
pub static WORKERS: Row = Row {
    name: "workers",
    kind: Kind::Integer { min: 0, max: 256 },
    default: "0",
    when: When::Start,
    doc: "Threads that serve clients; 0 means half of the processors, at least 1.",
    ..Row::EFFECTIVE
};

/// The unit in which memory comes and goes.
pub static SEGMENT_SIZE: Row = Row {
    name: "segment-size",
    kind: Kind::PowerOfTwo { min: 1 << 20, max: 1 << 30 },
    default: "0",
    when: When::Start,
    doc: "Bytes of a segment of shared memory, a power of two: the unit in which memory comes and \
          goes, also from small values to large ones. 0 takes a 256th of the `maxmemory` of the \
          start, from 1 MiB to 64 MiB, and 64 MiB without a limit; it stays so when CONFIG SET \
          changes `maxmemory`.",
    ..Row::EFFECTIVE
};

/// Whether a segment's pages are taken at once.
pub static SEGMENT_UP_FRONT: Row = Row {
    name: "segment-preallocate",
    kind: Kind::Flag,
    default: "no",
    when: When::Start,
    doc: "Take a new segment's pages at once, so that shortage is an error and not a crash.",
    ..Row::EFFECTIVE
};

/// How many bytes of effects are kept.
pub static EFFECT_BACKLOG: Row = Row {
    name: "effect-backlog-size",
    kind: Kind::Memory { min: 0, max: 1 << 40 },
    default: "0",
    when: When::Start,
    doc: "Bytes of the latest effects of writes that are kept in memory; 0 keeps none.",
    ..Row::EFFECTIVE
};

/// Whether processes may read the arena.
pub static SHARED_READS: Row = Row {
    name: "shm-reads",
    kind: Kind::Flag,
    default: "yes",
    doc: "Let processes of this user, and those in shm-read-uids, map the data for reading.",
    ..Row::EFFECTIVE
};

/// Which further users may read the arena.
pub static SHARED_READ_USERS: Row = Row {
    name: "shm-read-uids",
    kind: Kind::Words,
    doc: "Further user ids whose processes may map all of the data for reading.",
    ..Row::EFFECTIVE
};

/// When a worker looks for more before it sleeps.
pub static BUSY_POLL: Row = Row {
    name: "busy-poll",
    kind: Kind::Choice(&PollMode::NAMES),
    default: "lone",
    doc: "Whether a worker looks for more requests before it sleeps, which spares a client that \
          waits for each reply the time of waking the worker, and takes a processor meanwhile. \
          `lone`: where one client asks and no other, as long as it pays, on hosts with at least \
          twice as many processors as workers; `always`: behind all requests; `no`: never.",
    ..Row::EFFECTIVE
};

/// How long a worker looks for more before it sleeps.
pub static BUSY_POLL_LIMIT: Row = Row {
    name: "busy-poll-us",
    kind: Kind::Integer { min: 0, max: 10_000 },
    default: "100",
    doc: "Microseconds for which a worker looks for more requests before it sleeps, where \
          `busy-poll` has it look.",
    ..Row::EFFECTIVE
};

/// How many lanes there may be.
pub static LANES_MAX: Row = Row {
    name: "shm-lanes-max",
    kind: Kind::Integer { min: 0, max: 65_536 },
    default: "1024",
    doc: "Lanes that there may be at once: connections through shared memory, which processes on \
          this host make by the unix socket. Each is a client and takes three descriptors. They \
          are half of maxclients at most, and one user has no more of them than are left for \
          others. 0 allows none.",
    ..Row::EFFECTIVE
};

/// How much memory lanes may have.
pub static LANE_TOTAL_MAX: Row = Row {
    name: "shm-lane-total-max",
    kind: Kind::Memory { min: 0, max: u64::MAX },
    default: "0",
    doc: "Memory that all lanes may have together, of which one user has no more than is left for \
          others. It counts towards maxmemory. 0 is a quarter of maxmemory, or 4 GiB where that \
          has no limit.",
    ..Row::EFFECTIVE
};

/// How many sessions of shared memory a process may have.
pub static SESSIONS_PROCESS_MAX: Row = Row {
    name: "shm-sessions-process-max",
    kind: Kind::Integer { min: 1, max: 1024 },
    default: "64",
    doc: "Sessions of shared memory that one process may have: connections that have attached. \
          Processes whose ids cannot be seen from the server's namespace are bounded by those of \
          their users alone.",
    ..Row::EFFECTIVE
};

/// How many sessions of shared memory a user may have.
pub static SESSIONS_USER_MAX: Row = Row {
    name: "shm-sessions-user-max",
    kind: Kind::Integer { min: 1, max: 1024 },
    default: "128",
    doc: "Sessions of shared memory that processes of one user may have together. All users \
          together have 1024, and one has no more of them than are left for others, which is 512.",
    ..Row::EFFECTIVE
};

/// How much the views of all sessions may hold.
pub static VIEW_TOTAL_MAX: Row = Row {
    name: "shm-view-total-max",
    kind: Kind::Memory { min: 0, max: u64::MAX },
    default: "0",
    doc: "Bytes of values that views of all sessions of shared memory may hold together, in equal \
          shares; what is beyond its share a client copies. 0 is a quarter of maxmemory, or no \
          limit where that has none.",
    ..Row::EFFECTIVE
};

/// How much upload memory a session may have.
pub static UPLOAD_BYTES_MAX: Row = Row {
    name: "shm-upload-bytes-max",
    kind: Kind::Memory { min: 0, max: u64::MAX },
    default: "1073741824",
    doc: "Upload memory that one session may have: what a process on this host writes values to \
          before it commits them. It is made in whole segments, and counts towards maxmemory. 0 \
          allows none.",
    ..Row::EFFECTIVE
};

/// How much upload memory there may be.
pub static UPLOAD_TOTAL_MAX: Row = Row {
    name: "shm-upload-total-max",
    kind: Kind::Memory { min: 0, max: u64::MAX },
    default: "0",
    doc: "Upload memory that all sessions may have together, those included that have ended and \
          left values in theirs. 0 is a quarter of maxmemory, or 4 GiB where that has no limit.",
    ..Row::EFFECTIVE
};

/// The times at which a snapshot would be written.
pub static SAVE: Row = Row {
    name: "save",
    kind: Kind::SaveSchedule,
    doc: "Seconds and changes after which a snapshot is written; kept, warned of, not acted on, \
          by SHUTDOWN neither.",
    ..Row::EFFECTIVE
};

/// Where a list stays one listpack, and how large each of many gets.
pub static LIST_LISTPACK_SIZE: Row = Row {
    name: "list-max-listpack-size",
    alias: Some("list-max-ziplist-size"),
    kind: Kind::Integer { min: i32::MIN as i64, max: i32::MAX as i64 },
    default: "-2",
    doc: "Elements in one listpack of a list; -1 to -5: its size, 4, 8, 16, 32, 64 KiB.",
    ..Row::EFFECTIVE
};

/// How many fields a listpack holds.
pub static HASH_LISTPACK_ENTRIES: Row = Row {
    name: "hash-max-listpack-entries",
    alias: Some("hash-max-ziplist-entries"),
    kind: Kind::Integer { min: 0, max: i64::MAX },
    default: "512",
    doc: "Fields of a hash above which it becomes a hash table.",
    ..Row::EFFECTIVE
};

/// How long a field or value a listpack holds.
pub static HASH_LISTPACK_VALUE: Row = Row {
    name: "hash-max-listpack-value",
    alias: Some("hash-max-ziplist-value"),
    kind: Kind::Memory { min: 0, max: BYTES_MAX },
    default: "64",
    doc: "Bytes of a field or value above which its hash becomes a hash table.",
    ..Row::EFFECTIVE
};

/// How many integers one block holds.
pub static SET_INTSET_ENTRIES: Row = Row {
    name: "set-max-intset-entries",
    kind: Kind::Integer { min: 0, max: i64::MAX },
    default: "512",
    doc: "Integers of a set above which it becomes a hash table.",
    ..Row::EFFECTIVE
};

/// How many members a listpack holds.
pub static SET_LISTPACK_ENTRIES: Row = Row {
    name: "set-max-listpack-entries",
    kind: Kind::Integer { min: 0, max: i64::MAX },
    default: "128",
    doc: "Members of a set, not all integers, above which it becomes a hash table.",
    ..Row::EFFECTIVE
};

/// How long a member a listpack holds.
pub static SET_LISTPACK_VALUE: Row = Row {
    name: "set-max-listpack-value",
    kind: Kind::Memory { min: 0, max: BYTES_MAX },
    default: "64",
    doc: "Bytes of a member above which its set becomes a hash table.",
    ..Row::EFFECTIVE
};

/// How many members with scores a listpack holds.
pub static SORTED_SET_LISTPACK_ENTRIES: Row = Row {
    name: "zset-max-listpack-entries",
    alias: Some("zset-max-ziplist-entries"),
    kind: Kind::Integer { min: 0, max: i64::MAX },
    default: "128",
    doc: "Members of a sorted set above which it becomes a hash table with a tree.",
    ..Row::EFFECTIVE
};

/// How long a member with a score a listpack holds.
pub static SORTED_SET_LISTPACK_VALUE: Row = Row {
    name: "zset-max-listpack-value",
    alias: Some("zset-max-ziplist-value"),
    kind: Kind::Memory { min: 0, max: BYTES_MAX },
    default: "64",
    doc: "Bytes of a member above which its sorted set becomes a hash table with a tree.",
    ..Row::EFFECTIVE
};

/// All rows of this file.
pub static ROWS: &[&Row] = &[
    &PORT,
    &BIND,
    &UNIX_SOCKET,
    &UNIX_SOCKET_MODE,
    &TIMEOUT,
    &TCP_KEEPALIVE,
    &TCP_BACKLOG,
    &MAX_CLIENTS,
    &DATABASES,
    &PASSWORD,
    &PROTECTED_MODE,
    &MAX_MEMORY,
    &MAX_MEMORY_POLICY,
    &MAX_MEMORY_SAMPLES,
    &MAX_MEMORY_TENACITY,
    &LFU_LOG_FACTOR,
    &LFU_DECAY_TIME,
    &LIST_LISTPACK_SIZE,
    &HASH_LISTPACK_ENTRIES,
    &HASH_LISTPACK_VALUE,
    &SET_INTSET_ENTRIES,
    &SET_LISTPACK_ENTRIES,
    &SET_LISTPACK_VALUE,
    &SORTED_SET_LISTPACK_ENTRIES,
    &SORTED_SET_LISTPACK_VALUE,
    &MAX_MEMORY_CLIENTS,
    &OUTPUT_LIMITS,
    &QUERY_LIMIT,
    &BULK_MAX,
    &LOG_LEVEL,
    &LOG_FILE,
    &DIRECTORY,
    &PID_FILE,
    &DAEMONIZE,
    &SUPERVISED,
    &SYSLOG_ENABLED,
    &SYSLOG_IDENT,
    &SYSLOG_FACILITY,
    &ALWAYS_SHOW_LOGO,
    &SHUTDOWN_ON_TERMINATE,
    &SHUTDOWN_ON_INTERRUPT,
    &OOM_SCORE,
    &OOM_SCORE_VALUES,
    &PROTECTED_CONFIGS,
    &COMPATIBLE_VERSION,
    &DEBUG_COMMAND,
    &CRASH_LOG,
    &FREQUENCY,
    &EXPIRE_EFFORT,
    &SHUTDOWN_TIMEOUT,
    &SLOW_LOG_FROM,
    &SLOW_LOG_LEN,
    &LATENCY_THRESHOLD,
    &LATENCY_TRACKING,
    &LATENCY_PERCENTILES,
    &WORKERS,
    &SEGMENT_SIZE,
    &SEGMENT_UP_FRONT,
    &EFFECT_BACKLOG,
    &SHARED_READS,
    &SHARED_READ_USERS,
    &LANES_MAX,
    &LANE_TOTAL_MAX,
    &SESSIONS_PROCESS_MAX,
    &SESSIONS_USER_MAX,
    &UPLOAD_BYTES_MAX,
    &UPLOAD_TOTAL_MAX,
    &VIEW_TOTAL_MAX,
    &BUSY_POLL,
    &BUSY_POLL_LIMIT,
    &SAVE,
];
