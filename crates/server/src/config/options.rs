//! The options that do something, as rows, and the settings that they make.
//!
//! A row says all there is of an option: the field that holds its typed value, its name, which
//! values it takes, what it is while nobody sets it and what it does. What reads it is the rest.

use std::path::PathBuf;
use std::time::Duration;

use command::ShutdownRequest;
use keyspace::{CacheObjective, EvictionPolicy, ExportVersion};
use runtime::SyncPolicy;
use tracing::level_filters::LevelFilter;

use super::kind::{
    Addresses, Bytes, BytesOrPercent, Checked, Choice, Clamped, Flag, Integer, OneOf, OomScores,
    OutputLimit, OutputLimits, Percentiles, Permissions, PowerOfTwo, SaveSchedule, Share,
    ShutdownModes, Text, Time, Typed, Version, Words,
};
use super::row::{Row, When};
use super::settings::{Allowed, Derived};
use crate::huge_pages::HugePageMode;
use crate::worker::polling::PollMode;

/// The most unread input that a client can be allowed. Redis has no such bound; here positions in
/// a buffer have 32 bits, and a buffer passes its limit by one receive before it is looked at.
pub const QUERY_BYTES_MAX: u64 = 3 << 30;

const COUNT_MAX: i64 = i32::MAX as i64;
const COUNT: Integer = Integer { min: 0, max: COUNT_MAX };
const BIG_COUNT: Integer = Integer { min: 0, max: i64::MAX };
const BYTES: Bytes = Bytes { min: 0, max: i64::MAX as u64 };
const ALL_BYTES: Bytes = Bytes { min: 0, max: u64::MAX };
const ALLOWED: Choice<Allowed> = Choice::of_all();
const SECONDS: Time = Time { of: Duration::from_secs, min: 0, max: COUNT_MAX };

const EXPORT_VERSION: Integer = Integer {
    min: ExportVersion::OLDEST.number() as i64,
    max: ExportVersion::NEWEST.number() as i64,
};

const FACILITIES: &[&str] =
    &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"];

/// Makes of each concern a struct of the typed values of its options, whose associated functions
/// are the rows, and of all concerns the settings.
///
/// A row is `/// doc`, then `field: type = "name", kind, "default"`, then parts of [`Row`] that are
/// not as in [`Row::EFFECTIVE`]. CONFIG GET and the documentation keep the order of the rows.
macro_rules! options {
    ($(
        $(#[doc = $concern_doc:literal])*
        $concern:ident: $Concern:ident {$(
            $(#[doc = $doc:literal])*
            $field:ident: $type:ty = $name:literal, $kind:expr, $default:expr
                $(, $part:ident: $value:expr)*;
        )*}
    )*) => {
        /// The configuration at one moment, typed, as one snapshot that threads share.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[doc = $concern_doc])* pub $concern: $Concern,)*
            /// What follows from several of these.
            pub derived: Derived,
        }

        impl Settings {
            /// Reads the settings through `text`, which gives the canonical value of a row.
            pub fn read<'a>(text: impl Fn(&Row) -> &'a str) -> Settings {
                let mut settings = Settings {
                    $($concern: $Concern::read(&text),)*
                    derived: Derived::default(),
                };
                settings.derived = Derived::of(&settings);
                settings
            }
        }

        /// The rows of all concerns.
        pub static ROWS: &[&[&Row]] = &[$($Concern::ROWS),*];

        $(
            $(#[doc = $concern_doc])*
            #[derive(Clone, Debug)]
            pub struct $Concern {
                $($(#[doc = $doc])* pub $field: $type,)*
            }

            impl $Concern {
                /// Its rows.
                pub const ROWS: &'static [&'static Row] = &[$($Concern::$field()),*];

                $(
                    /// Returns the row of the field of this name.
                    pub const fn $field() -> &'static Row {
                        const ROW: Row = Row {
                            name: $name,
                            kind: &$kind,
                            default: $default,
                            doc: concat!($($doc),*).trim_ascii(),
                            $($part: $value,)*
                            ..Row::EFFECTIVE
                        };
                        &ROW
                    }
                )*

                fn read<'a>(text: impl Fn(&Row) -> &'a str) -> $Concern {
                    $Concern {
                        $($field: Typed::<$type>::value(&$kind, text($Concern::$field())),)*
                    }
                }
            }
        )*
    };
}

options! {
    /// Where clients connect, and how long they may stay.
    network: Network {
        /// TCP port; 0 listens on no TCP port.
        port: u16 = "port", Integer { min: 0, max: 65_535 }, "6379";
        /// Addresses to listen on; `*` and `::*` are all, a leading `-` lets an address be absent.
        bind: Vec<String> = "bind", Addresses, "127.0.0.1 -::1";
        /// Path of the unix socket; empty for none.
        unix_socket: Option<PathBuf> = "unixsocket", Text, "", when: When::Start;
        /// Mode of the unix socket's file, octal; 0 means 600.
        unix_socket_mode: u32 = "unixsocketperm", Permissions, "0", when: When::Start;
        /// Seconds after which an idle client is closed; 0 for never.
        timeout: Option<Duration> = "timeout", SECONDS, "0";
        /// Seconds of silence after which a TCP peer is probed; 0 for never. New connections only.
        tcp_keepalive: Option<Duration> = "tcp-keepalive", SECONDS, "300";
        /// Connections that may wait to be accepted, within the system's own limit.
        tcp_backlog: u32 = "tcp-backlog", COUNT, "511", when: When::Start;
        /// Clients that may be connected at once.
        max_clients: u32 = "maxclients", Integer { min: 1, max: u32::MAX as i64 }, "10000";
    }
    /// What clients may reach.
    access: Access {
        /// Databases that SELECT can choose from.
        database_count: u8 = "databases",
            Integer { min: 1, max: base::DATABASE_COUNT_MAX as i64 }, "16", when: When::Start;
        /// Password that AUTH asks for; empty for none.
        password: String = "requirepass", Text, "";
        /// Refuse clients that are not on this host while there is no password.
        protected_mode: bool = "protected-mode", Flag, "yes";
    }
    /// Where clients of memcached connect, by its text protocol.
    memcached: Memcached {
        /// TCP port for clients of memcached, on the addresses of `bind`; 0 for none.
        port: u16 = "memcached-port", Integer { min: 0, max: 65_535 }, "0";
        /// Path of a unix socket for clients of memcached; empty for none. Its mode is that of
        /// `unixsocketperm`.
        socket: Option<PathBuf> = "memcached-socket", Text, "", when: When::Start;
        /// The database that clients of memcached read and write.
        database: u8 = "memcached-database",
            Integer { min: 0, max: base::DATABASE_COUNT_MAX as i64 - 1 }, "0", when: When::Start;
        /// Bytes of the largest item that a client of memcached may store, its key and 57 bytes
        /// included, as memcached counts them.
        item_bytes_max: u64 = "memcached-item-size-max",
            Bytes { min: 1024, max: 1 << 30 }, "1048576";
        /// Path of a file of `user:password` lines; with one, clients of memcached have to
        /// authenticate first. It is read when the server starts.
        auth_file: Option<PathBuf> = "memcached-auth-file", Text, "", when: When::Start;
    }
    /// How much memory there may be, and which keys go where there is more.
    memory: Memory {
        /// Bytes that data and buffers may take in all, the buffers of requests underway included;
        /// 0 for no limit.
        max_bytes: u64 = "maxmemory", ALL_BYTES, "0";
        /// What happens at maxmemory: writes are refused (`noeviction`), or keys go: any or only
        /// those with a time to live (`volatile`), the least recently used first (`lru`), the least
        /// frequently used (`lfu`), by chance (`random`), or those that end first (`ttl`). Where no
        /// key may go, writes are refused. `adaptive` (and `volatile-adaptive`) keeps what is used
        /// most for the memory that it takes.
        policy: EvictionPolicy = "maxmemory-policy",
            Choice::<EvictionPolicy>::of_all(), "noeviction";
        /// What the adaptive policies maximise: the share of lookups that find their key (`hits`),
        /// or of the bytes that are found (`bytes`).
        objective: CacheObjective = "cache-objective",
            Choice::<CacheObjective>::of_all(), "hits";
        /// Keys among which a victim of eviction is chosen, 64 at most: a greater number is taken,
        /// and kept and shown as 64.
        samples: u32 = "maxmemory-samples",
            Clamped { accepted: (1, COUNT_MAX), kept: (1, 64) }, "5";
        /// How long a command evicts where memory is above maxmemory, before it goes on and others
        /// evict the rest: 0 is shortest, 100 until nothing is above.
        tenacity: u32 = "maxmemory-eviction-tenacity", Integer { min: 0, max: 100 }, "10";
        /// How seldom a key's counter of accesses grows under the `lfu` policies: with 10, a
        /// million accesses fill it.
        lfu_log_factor: u32 = "lfu-log-factor", COUNT, "10";
        /// Minutes without an access that take one from the counter; 0 for never.
        lfu_decay_minutes: u32 = "lfu-decay-time", COUNT, "1";
    }
    /// How long collections stay in their compact forms.
    collections: Collections {
        /// Elements in one listpack of a list; -1 to -5: its size, 4, 8, 16, 32, 64 KiB.
        list_listpack_size: i32 = "list-max-listpack-size",
            Integer { min: i32::MIN as i64, max: i32::MAX as i64 }, "-2",
            alias: Some("list-max-ziplist-size");
        /// Fields of a hash above which it becomes a hash table.
        hash_entries: u64 = "hash-max-listpack-entries",
            BIG_COUNT, "512", alias: Some("hash-max-ziplist-entries");
        /// Bytes of a field or value above which its hash becomes a hash table.
        hash_value_bytes: u64 = "hash-max-listpack-value",
            BYTES, "64", alias: Some("hash-max-ziplist-value");
        /// Integers of a set above which it becomes a hash table.
        set_integers: u64 = "set-max-intset-entries", BIG_COUNT, "512";
        /// Members of a set, not all integers, above which it becomes a hash table.
        set_entries: u64 = "set-max-listpack-entries", BIG_COUNT, "128";
        /// Bytes of a member above which its set becomes a hash table.
        set_value_bytes: u64 = "set-max-listpack-value", BYTES, "64";
        /// Members of a sorted set above which it becomes a hash table with a tree.
        sorted_set_entries: u64 = "zset-max-listpack-entries",
            BIG_COUNT, "128", alias: Some("zset-max-ziplist-entries");
        /// Bytes of a member above which its sorted set becomes a hash table with a tree.
        sorted_set_value_bytes: u64 = "zset-max-listpack-value",
            BYTES, "64", alias: Some("zset-max-ziplist-value");
        /// Bytes of one listpack of a stream; 0 for as many as one can have.
        stream_node_bytes: u64 = "stream-node-max-bytes", BYTES, "4096";
        /// Entries of one listpack of a stream, deleted ones included; 0 for any number.
        stream_node_entries: u64 = "stream-node-max-entries", BIG_COUNT, "100";
        /// Bytes of a HyperLogLog above which it takes six bits for each register, 12304 bytes in
        /// all.
        sparse_bytes: u64 = "hll-sparse-max-bytes", BYTES, "3000";
    }
    /// How values leave for other servers.
    exports: Exports {
        /// Version of the RDB format in which files are written (SAVE, BGSAVE, BGREWRITEAOF,
        /// BACKUP, SHUTDOWN) and values leave (DUMP, MIGRATE): a server that knows an older one
        /// alone refuses them. 9 is that of Redis 5 to 6.2, 10 that of 7.0, 11 that of 7.2, which
        /// newer ones read too. Below 11 small sets are written member by member, below 10 all
        /// collections. Hashes with fields that expire are always in version 12, and a file that
        /// has one is, as no older one can tell their times.
        version: u16 = "rdb-export-version", EXPORT_VERSION, "11";
    }
    /// How much clients may take.
    clients: Clients {
        /// Bytes that all clients may take together, or a share of `maxmemory` in percent, at least
        /// 131072; above it the largest are closed. 0 for no limit.
        share: Share = "maxmemory-clients", BytesOrPercent, "0";
        /// Per class: bytes of unsent output beyond the first 16 KiB that close a client at once,
        /// and bytes that close it after so many seconds; 0 for no limit but 4 GiB for one batch of
        /// requests. `normal` has a limit where Redis has none, as a client that asks and never
        /// reads would take all memory; there are no clients of the other classes.
        output_limit: OutputLimit = "client-output-buffer-limit",
            OutputLimits,
            "normal 1073741824 268435456 60 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        /// Bytes of input that a client may have waiting, a request underway included. A request of
        /// more ends its client, however it arrives.
        query_bytes_max: usize = "client-query-buffer-limit",
            Bytes { min: 1 << 20, max: QUERY_BYTES_MAX }, "1073741824";
        /// Bytes of the largest argument, and of the longest string that APPEND and SETRANGE make.
        bulk_bytes_max: u32 = "proto-max-bulk-len",
            Bytes { min: 1 << 20, max: 1 << 31 }, "536870912";
    }
    /// What is logged, and where.
    log: Log {
        /// The least level that is logged.
        level: LevelFilter = "loglevel", Choice::<LevelFilter>::of_all(), "notice";
        /// File that the log is appended to, opened for each line, so that it can be moved away;
        /// empty for standard output.
        file: Option<PathBuf> = "logfile", Text, "", when: When::Start;
    }
    /// Where the process runs, and who knows of it.
    daemon: Daemon {
        /// Working directory.
        directory: PathBuf = "dir", Text, ".", when: When::Protected;
        /// File that holds the process id while the server runs; empty for none, or for
        /// /var/run/redis.pid under `daemonize yes`.
        pid_file: Option<PathBuf> = "pidfile", Text, "", when: When::Start;
        /// Serve from a process in the background; the one that was started ends once it serves, or
        /// says why it does not. Without meaning under `supervised`.
        daemonize: bool = "daemonize", Flag, "no", when: When::Start;
        /// Tell who started the server when it serves and when it ends: systemd by NOTIFY_SOCKET,
        /// upstart by SIGSTOP; `auto` asks the environment.
        supervised: &'static str = "supervised",
            OneOf(&["upstart", "systemd", "auto", "no"]), "no", when: When::Start;
    }
    /// Where in the system's log the lines go.
    system_log: SystemLog {
        /// Send the log to the system's, too.
        is_enabled: bool = "syslog-enabled", Flag, "no", when: When::Start;
        /// Name of this server in the system's log.
        name: String = "syslog-ident", Text, "redis", when: When::Start;
        /// Facility of the system's log.
        facility: &'static str = "syslog-facility",
            OneOf(FACILITIES), "local0", when: When::Start;
    }
    /// How the process presents itself, does its rounds, crashes and ends.
    process: Process {
        /// Begin the log with a banner of version, port and process id, which test suites look for.
        shows_logo: bool = "always-show-logo", Flag, "no", when: When::Start;
        /// How SIGTERM shuts down, in the words of SHUTDOWN.
        shutdown_on_terminate: ShutdownRequest = "shutdown-on-sigterm", ShutdownModes, "default";
        /// How SIGINT shuts down, in the same words.
        shutdown_on_interrupt: ShutdownRequest = "shutdown-on-sigint", ShutdownModes, "default";
        /// Adjust the score by which the kernel chooses a process to kill when memory is short: by
        /// a value on top of what was found at start (`relative`, `yes`) or as it is.
        oom_score_mode: &'static str = "oom-score-adj",
            OneOf(&["no", "yes", "relative", "absolute"]), "no";
        /// Scores for a primary, a replica and a child that saves; there are primaries only.
        oom_scores: [i32; 3] = "oom-score-adj-values", OomScores, "0 200 800";
        /// Who may change protected options by CONFIG SET: nobody, everybody, or clients on this
        /// host.
        protected_configs: Allowed = "enable-protected-configs", ALLOWED, "no", when: When::Start;
        /// Version of Redis that INFO, HELLO, LOLWUT and the log name, for clients and tests that
        /// choose by it; it changes nothing else.
        compatible_version: String = "compatible-redis-version",
            Version, command::REDIS_VERSION, when: When::Start;
        /// Who may call DEBUG: nobody, everybody, or clients on this host.
        debug_command: Allowed = "enable-debug-command", ALLOWED, "no", when: When::Start;
        /// Report a crash in the log: where, by which command, with INFO and the clients. Without
        /// it the log names a failed assertion alone.
        crash_log: bool = "crash-log-enabled", Flag, "yes";
        /// Leave keys and values out of the report of a crash: of a request it shows the name of
        /// the command, and how long each argument is; registers and the top of the stack it does
        /// not show.
        hides_user_data: bool = "hide-user-data-from-log", Flag, "no";
        /// Rounds of expiry and of closing idle clients per second, while there is any to do.
        frequency: u32 = "hz", Clamped { accepted: (0, COUNT_MAX), kept: (1, 500) }, "10";
        /// How much of the time goes into removing expired keys, from 1 to 10.
        expire_effort: u32 = "active-expire-effort", Integer { min: 1, max: 10 }, "1";
        /// Seconds that a shutdown waits for replies to be taken by their clients.
        shutdown_timeout: Duration = "shutdown-timeout", SECONDS, "10";
    }
    /// Which times of commands are kept.
    latency: Latency {
        /// Microseconds from which on a command enters the slow log; 0 for all, -1 for none. Below
        /// 1000 every command is timed by itself, which costs more.
        slow_log_from: Option<Duration> = "slowlog-log-slower-than",
            Time { of: Duration::from_micros, min: -1, max: i64::MAX }, "10000";
        /// Entries of the slow log; where there are more, the oldest go when the next one comes.
        slow_log_len_max: usize = "slowlog-max-len", BIG_COUNT, "128";
        /// Milliseconds from which on LATENCY keeps an event as a spike; 0 for none.
        threshold_ms: u64 = "latency-monitor-threshold", BIG_COUNT, "0";
        /// Keep how long the calls of each command took, for INFO latencystats and LATENCY
        /// HISTOGRAM.
        is_tracked: bool = "latency-tracking", Flag, "yes";
        /// Percentiles of the times of each command that INFO latencystats shows.
        percentiles: Vec<f64> = "latency-tracking-info-percentiles", Percentiles, "50 99 99.9";
    }
    /// What the instance of the data is made of.
    instance: Instance {
        /// Threads that serve clients; 0 means half of the processors, at least 1.
        worker_count: usize = "workers", Integer { min: 0, max: 256 }, "0", when: When::Start;
        /// Bytes of a segment of shared memory, a power of two: the unit in which memory comes and
        /// goes, also from small values to large ones. 0 takes a 256th of the `maxmemory` of the
        /// start, from 1 MiB to 64 MiB, and 64 MiB without a limit; it stays so when CONFIG SET
        /// changes `maxmemory`.
        segment_bytes: u64 = "segment-size",
            PowerOfTwo { min: 1 << 20, max: 1 << 30 }, "0", when: When::Start;
        /// Take a new segment's pages at once, so that shortage is an error and not a crash.
        segment_up_front: bool = "segment-preallocate", Flag, "no", when: When::Start;
        /// Whether the data lies on pages of 2 MiB, each from when it is full on, so that no memory
        /// is taken for it: `auto` where the system's setting `shmem_enabled` is not `never`,
        /// `yes` also under `never`; with `yes` a server that can have none does not start. Takes
        /// Linux 6.1, and segments of 2 MiB or more.
        huge_pages: HugePageMode = "huge-pages",
            Choice::<HugePageMode>::of_all(), "auto", when: When::Start;
        /// Bytes of the latest effects of writes that are kept in memory; 0 keeps none.
        effect_backlog_bytes: u64 = "effect-backlog-size",
            Bytes { min: 0, max: 1 << 40 }, "0", when: When::Start;
    }
    /// What other processes may have of the shared memory.
    sharing: Sharing {
        /// Let processes of this user, and those in shm-read-uids, map the data for reading.
        allows_reads: bool = "shm-reads", Flag, "yes";
        /// Further user ids whose processes may map all of the data for reading.
        readers: Vec<u32> = "shm-read-uids", Words, "";
        /// Lanes that there may be at once: connections through shared memory, which processes on
        /// this host make by the unix socket. Each is a client and takes three descriptors. They
        /// are half of maxclients at most, and one user has no more of them than are left for
        /// others. 0 allows none.
        lanes_max: u64 = "shm-lanes-max", Integer { min: 0, max: 65_536 }, "1024";
        /// Memory that all lanes may have together, of which one user has no more than is left for
        /// others. It counts towards maxmemory. 0 is a quarter of maxmemory, or 4 GiB where that
        /// has no limit.
        lane_total_max: u64 = "shm-lane-total-max", ALL_BYTES, "0";
        /// Sessions of shared memory that one process may have: connections that have attached.
        /// Processes whose ids cannot be seen from the server's namespace are bounded by those of
        /// their users alone.
        sessions_process_max: usize = "shm-sessions-process-max",
            Integer { min: 1, max: 1024 }, "64";
        /// Sessions of shared memory that processes of one user may have together. All users
        /// together have 1024, and one has no more of them than are left for others, which is 512.
        sessions_user_max: u64 = "shm-sessions-user-max", Integer { min: 1, max: 1024 }, "128";
        /// Upload memory that one session may have: what a process on this host writes values to
        /// before it commits them. It is made in whole segments, and counts towards maxmemory. 0
        /// allows none.
        upload_session_max: u64 = "shm-upload-bytes-max",
            ALL_BYTES, "1073741824";
        /// Upload memory that all sessions may have together, those included that have ended and
        /// left values in theirs. 0 is a quarter of maxmemory, or 4 GiB where that has no limit.
        upload_total_max: u64 = "shm-upload-total-max", ALL_BYTES, "0";
        /// Bytes of values that views of all sessions of shared memory may hold together, in equal
        /// shares; what is beyond its share a client copies. 0 is a quarter of maxmemory, or no
        /// limit where that has none.
        view_total_max: u64 = "shm-view-total-max", ALL_BYTES, "0";
    }
    /// Whether workers poll for more requests before they sleep.
    polling: Polling {
        /// Whether a worker polls for more requests before it sleeps, which spares a client that
        /// waits for each reply the time of waking the worker, and takes a processor meanwhile.
        /// `lone`: where one client asks and no other, as long as it pays, on hosts with at least
        /// twice as many processors as workers; `always`: behind all requests; `no`: never.
        mode: PollMode = "busy-poll", Choice::<PollMode>::of_all(), "lone";
        /// Microseconds for which a worker polls for more requests before it sleeps, where
        /// `busy-poll` has it poll.
        limit: Duration = "busy-poll-us",
            Time { of: Duration::from_micros, min: 0, max: 10_000 }, "100";
    }
    /// What is written to disk.
    persistence: Persistence {
        /// Write all changes to an append-only file, from which the data are made again at the next
        /// start. Where it is turned on over data, a snapshot of them is written first.
        keeps_log: bool = "appendonly", Flag, "no";
        /// When the append-only file is made durable: `always` before the reply to a write leaves,
        /// `everysec` each second, `no` when the system sees fit.
        sync_policy: SyncPolicy = "appendfsync", Choice::<SyncPolicy>::of_all(), "everysec";
        /// The folder of the append-only file, in `dir`; one server at a time may use it.
        log_directory: String = "appenddirname", Checked::FOLDER_NAME, "appendonlydir",
            when: When::Start;
        /// Bytes of one file of the append-only file. The next one is zeroed ahead of its use, so
        /// that up to twice as many are taken on disk.
        log_segment_bytes: u64 = "append-segment-size",
            Bytes { min: 64 << 10, max: 1 << 40 }, "67108864", when: When::Start;
        /// Begin the append-only file anew behind a snapshot once it has grown by so many percent
        /// of its last one; 0 never does.
        rewrite_percentage: u64 = "auto-aof-rewrite-percentage",
            Integer { min: 0, max: i32::MAX as i64 }, "100";
        /// The least growth at which that happens.
        rewrite_bytes_min: u64 = "auto-aof-rewrite-min-size",
            Bytes { min: 0, max: i64::MAX as u64 }, "67108864";
        /// For how many seconds history is kept: of the append-only file, what a snapshot has, and
        /// earlier snapshots, from which 'forebay restore' makes the data of any moment since. 0
        /// sets no such limit, and where `log-retention-size` sets none either nothing is kept.
        retention_age: Option<Duration> = "log-retention-seconds", SECONDS, "0";
        /// Bytes of files of history that are kept at most, the latest; 0 sets no such limit.
        retention_bytes: u64 = "log-retention-size", BYTES, "0";
        /// Bytes by which a group of FEED may be behind before the append-only file does not keep
        /// for it any more what it has not read; 0 for no limit.
        feed_lag_max: u64 = "feed-lag-max", BYTES, "4294967296";
        /// Seconds and changes after which the dataset is written to its file: once there were so
        /// many changes since the last time, and so many seconds. Where it says anything, SHUTDOWN
        /// writes it too.
        schedule: String = "save", SaveSchedule, "";
        /// Name of the file of the dataset, in `dir`. It is read at start, where it is there.
        file_name: String = "dbfilename", Checked::FILE_NAME, "dump.rdb", when: When::Protected;
        /// Compress strings in the file.
        compresses: bool = "rdbcompression", Flag, "yes";
        /// End the file with a checksum of it. One that is there is always checked.
        has_checksum: bool = "rdbchecksum", Flag, "yes", when: When::Start;
        /// Take no writes after the dataset could not be written in the background, until it can,
        /// where `save` says anything.
        stops_writes: bool = "stop-writes-on-bgsave-error", Flag, "yes";
    }
}
