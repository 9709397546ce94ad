//! The values of the effective options, typed, as one snapshot that threads share.

use std::path::PathBuf;
use std::time::Duration;

use collections::{Limits, ListLimit};
use command::ShutdownRequest;
use keyspace::EvictionPolicy;
use runtime::{SweepOptions, Tuning};

use super::effective as row;
use super::row::{OutputLimit, OutputLimits, Row};
use crate::worker::polling::PollMode;

/// The configuration at one moment; each field is documented by the row of the same name.
#[derive(Clone, Debug)]
pub struct Settings {
    pub port: u16,
    pub bind: Vec<String>,
    pub unix_socket: Option<PathBuf>,
    pub unix_socket_mode: u32,
    pub timeout: Option<Duration>,
    pub tcp_keepalive: Option<Duration>,
    pub tcp_backlog: u32,
    pub max_clients: u32,
    pub database_count: u8,
    pub password: String,
    pub protected_mode: bool,
    pub max_memory: u64,
    pub max_memory_policy: EvictionPolicy,
    pub max_memory_samples: u32,
    pub max_memory_tenacity: u32,
    pub lfu_log_factor: u32,
    pub lfu_decay_minutes: u32,
    pub collections: Limits,
    pub max_memory_clients: Option<u64>,
    pub output_limit: OutputLimit,
    pub query_bytes_max: usize,
    pub bulk_bytes_max: u32,
    pub log_level: String,
    pub log_file: Option<PathBuf>,
    pub directory: PathBuf,
    pub pid_file: Option<PathBuf>,
    pub daemonize: bool,
    pub supervised: String,
    pub system_log: Option<SystemLog>,
    pub shows_logo: bool,
    pub shutdown_on_terminate: ShutdownRequest,
    pub shutdown_on_interrupt: ShutdownRequest,
    pub oom_score: OomScore,
    pub protected_configs: String,
    pub compatible_version: String,
    pub debug_command: String,
    /// Whether a crash is reported.
    pub crash_log: bool,
    pub frequency: u32,
    pub expire_effort: u32,
    pub shutdown_timeout: Duration,
    /// `None` where no command is slow.
    pub slow_log_from_ns: Option<u64>,
    pub slow_log_len_max: usize,
    pub latency_threshold_ms: u64,
    pub latency_tracking: bool,
    pub latency_percentiles: Vec<f64>,
    pub worker_count: usize,
    pub segment_bytes: u64,
    pub segment_up_front: bool,
    pub effect_backlog_bytes: u64,
    pub shared_reads: bool,
    pub shared_read_users: Vec<u32>,
    /// What views of all sessions may hold; 0 leaves it to `maxmemory`.
    pub view_total_max: u64,
    pub sharing: SharingLimits,
    pub uploads: UploadLimits,
    pub busy_poll: PollMode,
    pub busy_poll_limit: Duration,
    pub save: String,
}

/// How many sessions and lanes there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingLimits {
    /// Lanes of all sessions.
    pub lanes_max: u64,
    /// Their memory in bytes; 0 leaves it to `maxmemory`.
    pub lane_total_max: u64,
    /// Sessions of one process,
    pub sessions_process_max: usize,
    /// and of one user.
    pub sessions_user_max: u64,
}

impl SharingLimits {
    fn read(number: impl Fn(&Row) -> u64) -> SharingLimits {
        SharingLimits {
            lanes_max: number(&row::LANES_MAX),
            lane_total_max: number(&row::LANE_TOTAL_MAX),
            sessions_process_max: number(&row::SESSIONS_PROCESS_MAX) as usize,
            sessions_user_max: number(&row::SESSIONS_USER_MAX),
        }
    }
}

/// How much upload memory there may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadLimits {
    /// For one session.
    pub session_bytes_max: u64,
    /// For all together; 0 leaves it to `maxmemory`.
    pub total_bytes_max: u64,
}

impl UploadLimits {
    fn read(number: impl Fn(&Row) -> u64) -> UploadLimits {
        UploadLimits {
            session_bytes_max: number(&row::UPLOAD_BYTES_MAX),
            total_bytes_max: number(&row::UPLOAD_TOTAL_MAX),
        }
    }
}

impl Settings {
    /// Returns what the instance of the data follows.
    pub fn tuning(&self) -> Tuning {
        Tuning {
            max_memory: self.max_memory,
            policy: self.max_memory_policy,
            samples: self.max_memory_samples,
            tenacity: self.max_memory_tenacity,
            lfu_log_factor: self.lfu_log_factor,
            lfu_decay_minutes: self.lfu_decay_minutes,
            collections: self.collections,
        }
    }

    /// Returns how the instance of the data sweeps.
    pub fn sweep(&self) -> SweepOptions {
        let Settings { frequency, expire_effort, .. } = *self;
        SweepOptions { frequency, expire_effort, ..SweepOptions::default() }
    }

    /// Reads the settings through `text`, which gives the canonical value of a row.
    pub fn read(text: impl Fn(&Row) -> String) -> Settings {
        let number = |row: &Row| -> u64 { whole_number(&text(row), row) };
        let seconds = |row: &Row| Duration::from_secs(number(row));
        let positive = |duration: Duration| (!duration.is_zero()).then_some(duration);
        let flag = |row: &Row| text(row) == "yes";
        let path = |row: &Row| Some(text(row)).filter(|path| !path.is_empty()).map(PathBuf::from);
        let words = |row: &Row| text(row).split_whitespace().map(str::to_owned).collect();
        let max_memory = number(&row::MAX_MEMORY);
        Settings {
            port: number(&row::PORT) as u16,
            bind: words(&row::BIND),
            unix_socket: path(&row::UNIX_SOCKET),
            unix_socket_mode: socket_mode(&text(&row::UNIX_SOCKET_MODE)),
            timeout: positive(seconds(&row::TIMEOUT)),
            tcp_keepalive: positive(seconds(&row::TCP_KEEPALIVE)),
            tcp_backlog: number(&row::TCP_BACKLOG) as u32,
            max_clients: number(&row::MAX_CLIENTS) as u32,
            database_count: number(&row::DATABASES) as u8,
            password: text(&row::PASSWORD),
            protected_mode: flag(&row::PROTECTED_MODE),
            max_memory,
            max_memory_policy: EvictionPolicy::named(&text(&row::MAX_MEMORY_POLICY))
                .expect("the row has the names of all policies"),
            max_memory_samples: number(&row::MAX_MEMORY_SAMPLES) as u32,
            max_memory_tenacity: number(&row::MAX_MEMORY_TENACITY) as u32,
            lfu_log_factor: number(&row::LFU_LOG_FACTOR) as u32,
            lfu_decay_minutes: number(&row::LFU_DECAY_TIME) as u32,
            collections: collection_limits(&text),
            max_memory_clients: clients_limit(&text(&row::MAX_MEMORY_CLIENTS), max_memory),
            output_limit: OutputLimits::parse(&text(&row::OUTPUT_LIMITS)).normal(),
            query_bytes_max: number(&row::QUERY_LIMIT) as usize,
            bulk_bytes_max: number(&row::BULK_MAX) as u32,
            log_level: text(&row::LOG_LEVEL),
            log_file: path(&row::LOG_FILE),
            directory: PathBuf::from(text(&row::DIRECTORY)),
            pid_file: path(&row::PID_FILE),
            daemonize: flag(&row::DAEMONIZE),
            supervised: text(&row::SUPERVISED),
            system_log: flag(&row::SYSLOG_ENABLED).then(|| SystemLog::read(&text)),
            shows_logo: flag(&row::ALWAYS_SHOW_LOGO),
            shutdown_on_terminate: shutdown_request(&text(&row::SHUTDOWN_ON_TERMINATE)),
            shutdown_on_interrupt: shutdown_request(&text(&row::SHUTDOWN_ON_INTERRUPT)),
            oom_score: OomScore::read(&text(&row::OOM_SCORE), &text(&row::OOM_SCORE_VALUES)),
            protected_configs: text(&row::PROTECTED_CONFIGS),
            compatible_version: text(&row::COMPATIBLE_VERSION),
            debug_command: text(&row::DEBUG_COMMAND),
            crash_log: flag(&row::CRASH_LOG),
            frequency: number(&row::FREQUENCY) as u32,
            expire_effort: number(&row::EXPIRE_EFFORT) as u32,
            shutdown_timeout: seconds(&row::SHUTDOWN_TIMEOUT),
            slow_log_from_ns: nanoseconds(&text(&row::SLOW_LOG_FROM)),
            slow_log_len_max: number(&row::SLOW_LOG_LEN) as usize,
            latency_threshold_ms: number(&row::LATENCY_THRESHOLD),
            latency_tracking: flag(&row::LATENCY_TRACKING),
            latency_percentiles: percentiles(&text(&row::LATENCY_PERCENTILES)),
            worker_count: number(&row::WORKERS) as usize,
            segment_bytes: segment_bytes(number(&row::SEGMENT_SIZE), max_memory),
            segment_up_front: flag(&row::SEGMENT_UP_FRONT),
            effect_backlog_bytes: number(&row::EFFECT_BACKLOG),
            shared_reads: flag(&row::SHARED_READS),
            shared_read_users: user_ids(&text(&row::SHARED_READ_USERS)),
            view_total_max: number(&row::VIEW_TOTAL_MAX),
            sharing: SharingLimits::read(number),
            uploads: UploadLimits::read(number),
            busy_poll: PollMode::from_name(&text(&row::BUSY_POLL)).expect("a checked choice"),
            busy_poll_limit: Duration::from_micros(number(&row::BUSY_POLL_LIMIT)),
            save: text(&row::SAVE),
        }
    }
}

/// Returns the mode of the unix socket's file for the option's octal `text`.
fn socket_mode(text: &str) -> u32 {
    match u32::from_str_radix(text, 8).expect("checked octal") {
        0 => 0o600,
        mode => mode,
    }
}

/// Where in the system's log the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLog {
    /// The name of this server in it.
    pub name: String,
    /// The facility, by Redis's name for it.
    pub facility: String,
}

impl SystemLog {
    fn read(text: impl Fn(&Row) -> String) -> SystemLog {
        SystemLog { name: text(&row::SYSLOG_IDENT), facility: text(&row::SYSLOG_FACILITY) }
    }
}

/// How the score by which the kernel chooses a process to kill is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomScore {
    /// As it was at start.
    Unchanged,
    /// This much above what it was at start.
    Relative(i32),
    /// Just this.
    Absolute(i32),
}

impl OomScore {
    fn read(mode: &str, values: &str) -> OomScore {
        // The first value is that of a primary, which this server always is.
        let value = values.split(' ').next().and_then(|value| value.parse().ok());
        let value = value.expect("the values were checked to be numbers");
        match mode {
            "no" => OomScore::Unchanged,
            "absolute" => OomScore::Absolute(value),
            _ => OomScore::Relative(value),
        }
    }
}

fn shutdown_request(modes: &str) -> ShutdownRequest {
    let has = |mode: &str| modes.split(' ').any(|word| word == mode);
    let save = has("save").then_some(true).or(has("nosave").then_some(false));
    // `now` would not wait for replicas, of which there are none.
    ShutdownRequest { save, force: has("force") }
}

/// Returns the size of a segment where the option says `bytes`; where that is 0, for a memory
/// limit, 0 being none. A segment that changes from small values to large ones is emptied first, so
/// that it should be a small part of the whole.
fn segment_bytes(bytes: u64, max_memory: u64) -> u64 {
    const SEGMENTS_WANTED: u64 = 256;
    const BYTES_MIN: u64 = 1 << 20;
    const BYTES_MAX: u64 = 64 << 20;
    match (bytes, max_memory) {
        (1.., _) => bytes,
        (0, 0) => BYTES_MAX,
        (0, limit) => (limit / SEGMENTS_WANTED).next_power_of_two().clamp(BYTES_MIN, BYTES_MAX),
    }
}

/// Returns the limit that `text` means with a memory limit of `max_memory` bytes, if any. It leaves
/// room to talk to the server and raise it.
fn clients_limit(text: &str, max_memory: u64) -> Option<u64> {
    const BYTES_MIN: u64 = 128 << 10;
    let bytes = match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.parse().expect("checked to be a number");
            (u128::from(max_memory) * u128::from(percent) / 100) as u64
        }
        None => text.parse().expect("checked to be a number"),
    };
    (bytes > 0).then(|| bytes.max(BYTES_MIN))
}

/// Reads how long collections stay in their compact forms.
fn collection_limits(text: impl Fn(&Row) -> String) -> Limits {
    let number = |row: &Row| whole_number(&text(row), row);
    Limits {
        list: ListLimit(text(&row::LIST_LISTPACK_SIZE).parse().expect("checked to be a number")),
        hash_entries: number(&row::HASH_LISTPACK_ENTRIES),
        hash_value_bytes: number(&row::HASH_LISTPACK_VALUE),
        set_integers: number(&row::SET_INTSET_ENTRIES),
        set_entries: number(&row::SET_LISTPACK_ENTRIES),
        set_value_bytes: number(&row::SET_LISTPACK_VALUE),
        sorted_set_entries: number(&row::SORTED_SET_LISTPACK_ENTRIES),
        sorted_set_value_bytes: number(&row::SORTED_SET_LISTPACK_VALUE),
    }
}

fn whole_number(text: &str, row: &Row) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{} was checked to be a number", row.name))
}

/// Returns the nanoseconds of so many microseconds; `None` where they are negative.
fn nanoseconds(microseconds: &str) -> Option<u64> {
    Some(microseconds.parse::<u64>().ok()?.saturating_mul(1000))
}

fn percentiles(text: &str) -> Vec<f64> {
    let parse = |word: &str| word.parse().expect("checked to be a number");
    text.split_whitespace().map(parse).collect()
}

/// Words that are no numbers are nobody's id.
fn user_ids(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
