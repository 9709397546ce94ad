//! The text of INFO: sections of `name:value` lines, in Redis's names and order.
//!
//! Fields of things that do not exist here (forks, replicas, scripts) are shown where tools look
//! for them, with the value that says so.

use std::fmt::{Display, Write};
use std::time::Duration;

use base::DatabaseIndex;
use command::{InfoKind, InfoSections, REDIS_VERSION};
use engine::CommandCounts;
use keyspace::DatabaseCounts;
use sys::process::UsageOf;

use crate::shared::Shared;

/// One section.
struct Section {
    name: &'static str,
    kind: InfoKind,
    fields: fn(&Shared, &mut Fields),
}

const SECTIONS: &[Section] = &[
    Section { name: "Server", kind: InfoKind::Default, fields: server },
    Section { name: "Clients", kind: InfoKind::Default, fields: clients },
    Section { name: "Memory", kind: InfoKind::Default, fields: memory },
    Section { name: "Persistence", kind: InfoKind::Default, fields: persistence },
    Section { name: "Stats", kind: InfoKind::Default, fields: statistics },
    Section { name: "Replication", kind: InfoKind::Default, fields: replication },
    Section { name: "CPU", kind: InfoKind::Default, fields: processor },
    Section { name: "Modules", kind: InfoKind::Default, fields: |_, _| {} },
    Section { name: "Commandstats", kind: InfoKind::All, fields: commands },
    Section { name: "Errorstats", kind: InfoKind::Default, fields: errors },
    // Empty as with `latency-tracking no`: no percentiles without the time of each call.
    Section { name: "Latencystats", kind: InfoKind::All, fields: |_, _| {} },
    Section { name: "Cluster", kind: InfoKind::Default, fields: cluster },
    Section { name: "Shm", kind: InfoKind::Everything, fields: shared_memory },
    Section { name: "Keyspace", kind: InfoKind::Default, fields: keys },
];

/// Lines underway.
struct Fields {
    text: String,
}

impl Fields {
    fn add(&mut self, name: &str, value: impl Display) {
        write!(self.text, "{name}:{value}\r\n").expect("a String takes any text");
    }

    fn add_bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(&format!("{name}_human"), human_bytes(bytes));
    }
}

/// Returns the sections that are asked for.
pub fn text(shared: &Shared, sections: &InfoSections) -> String {
    let mut fields = Fields { text: String::new() };
    for section in SECTIONS {
        if !sections.include(&section.name.to_ascii_lowercase(), section.kind) {
            continue;
        }
        if !fields.text.is_empty() {
            fields.text.push_str("\r\n");
        }
        write!(fields.text, "# {}\r\n", section.name).expect("a String takes any text");
        (section.fields)(shared, &mut fields);
    }
    fields.text
}

fn server(shared: &Shared, fields: &mut Fields) {
    let (settings, identity) = (shared.settings(), &shared.identity);
    let now = sys::clock::realtime();
    let uptime = (sys::clock::monotonic() - identity.started_monotonic).as_secs();
    fields.add("redis_version", REDIS_VERSION);
    fields.add("forebay_version", env!("CARGO_PKG_VERSION"));
    fields.add("redis_git_sha1", "00000000");
    fields.add("redis_git_dirty", 0);
    fields.add("redis_build_id", "0");
    fields.add("redis_mode", "standalone");
    fields.add("os", sys::process::system_name());
    fields.add("arch_bits", usize::BITS);
    fields.add("monotonic_clock", "POSIX clock_gettime");
    fields.add("multiplexing_api", "epoll");
    fields.add("process_id", std::process::id());
    fields.add("process_supervised", "no");
    fields.add("run_id", &identity.run_id);
    fields.add("tcp_port", settings.port);
    fields.add("server_time_usec", now.0 * 1000);
    fields.add("uptime_in_seconds", uptime);
    fields.add("uptime_in_days", uptime / 86_400);
    fields.add("hz", settings.frequency);
    fields.add("configured_hz", settings.frequency);
    fields.add("lru_clock", (now.0 / 1000) & 0x00ff_ffff);
    fields.add("executable", &identity.executable);
    fields.add("config_file", &identity.config_file);
    fields.add("io_threads_active", 0);
    fields.add("workers", identity.worker_count);
}

fn clients(shared: &Shared, fields: &mut Fields) {
    fields.add("connected_clients", shared.clients.len());
    fields.add("cluster_connections", 0);
    fields.add("maxclients", shared.settings().max_clients);
    for name in [
        "blocked_clients",
        "tracking_clients",
        "clients_in_timeout_table",
        "total_blocking_keys",
        "total_blocking_keys_on_nokey",
    ] {
        fields.add(name, 0);
    }
}

fn memory(shared: &Shared, fields: &mut Fields) {
    let keyspace = shared.keyspace();
    let usage = keyspace.arena().usage();
    let used = keyspace.used_memory();
    let peak = shared.note_memory(used);
    let resident = resident_bytes();
    let dataset = usage.slab_bytes + usage.extent_bytes;
    let total = system_memory_bytes();
    let percent = |part: u64, whole: u64| format!("{:.2}%", ratio(part, whole) * 100.0);
    fields.add_bytes("used_memory", used);
    fields.add_bytes("used_memory_rss", resident);
    fields.add_bytes("used_memory_peak", peak);
    fields.add("used_memory_peak_perc", percent(used, peak));
    fields.add("used_memory_overhead", used - dataset.min(used));
    fields.add("used_memory_startup", shared.identity.startup_bytes);
    fields.add("used_memory_dataset", dataset);
    fields.add("used_memory_dataset_perc", percent(dataset, used));
    fields.add("used_memory_index", usage.index_bytes);
    fields.add("used_memory_slabs", usage.slab_bytes);
    fields.add("used_memory_extents", usage.extent_bytes);
    fields.add("used_memory_private", keyspace.private_bytes());
    fields.add("arena_touched", usage.touched_bytes);
    fields.add("allocator_allocated", used);
    fields.add("allocator_active", usage.touched_bytes);
    fields.add("allocator_resident", resident);
    fields.add_bytes("total_system_memory", total);
    fields.add_bytes("used_memory_lua", 0);
    fields.add_bytes("maxmemory", keyspace.maxmemory());
    fields.add("maxmemory_policy", &shared.settings().max_memory_policy);
    fields.add("mem_fragmentation_ratio", format!("{:.2}", ratio(resident, used)));
    fields.add("mem_fragmentation_bytes", resident as i64 - used as i64);
    fields.add("mem_not_counted_for_evict", 0);
    fields.add("mem_replication_backlog", 0);
    fields.add("mem_clients_slaves", 0);
    fields.add("mem_clients_normal", keyspace.private_bytes());
    fields.add("mem_aof_buffer", 0);
    fields.add("mem_allocator", "arena");
    fields.add("active_defrag_running", 0);
    fields.add("lazyfree_pending_objects", 0);
    fields.add("lazyfreed_objects", 0);
}

fn persistence(shared: &Shared, fields: &mut Fields) {
    fields.add("loading", 0);
    fields.add("async_loading", 0);
    fields.add("rdb_changes_since_last_save", shared.keyspace().counters().changes);
    fields.add("rdb_bgsave_in_progress", 0);
    fields.add("rdb_last_save_time", shared.identity.started.0 / 1000);
    fields.add("rdb_last_bgsave_status", "ok");
    fields.add("rdb_last_bgsave_time_sec", -1);
    fields.add("rdb_current_bgsave_time_sec", -1);
    fields.add("aof_enabled", 0);
    fields.add("aof_rewrite_in_progress", 0);
    fields.add("aof_rewrite_scheduled", 0);
    fields.add("aof_last_bgrewrite_status", "ok");
    fields.add("aof_last_write_status", "ok");
    if let Some(backlog) = &shared.backlog {
        let extent = backlog.extent();
        fields.add("effect_backlog_start", extent.start.0);
        fields.add("effect_backlog_end", extent.end.0);
    }
}

fn statistics(shared: &Shared, fields: &mut Fields) {
    let (counted, rate) = (shared.counted(), shared.rates.rate());
    let totals = counted.totals;
    let counters = shared.keyspace().counters();
    fields.add("total_connections_received", totals.connections);
    fields.add("total_commands_processed", totals.commands);
    fields.add("instantaneous_ops_per_sec", rate.commands);
    fields.add("total_net_input_bytes", totals.input_bytes);
    fields.add("total_net_output_bytes", totals.output_bytes);
    fields.add("total_net_repl_input_bytes", 0);
    fields.add("total_net_repl_output_bytes", 0);
    fields.add("instantaneous_input_kbps", format!("{:.2}", rate.input_kib));
    fields.add("instantaneous_output_kbps", format!("{:.2}", rate.output_kib));
    fields.add("rejected_connections", totals.rejected);
    fields.add("sync_full", 0);
    fields.add("sync_partial_ok", 0);
    fields.add("sync_partial_err", 0);
    fields.add("expired_keys", counters.expired_keys);
    fields.add("evicted_keys", counters.evicted_keys);
    fields.add("evicted_clients", 0);
    fields.add("keyspace_hits", counters.keyspace_hits);
    fields.add("keyspace_misses", counters.keyspace_misses);
    fields.add("pubsub_channels", 0);
    fields.add("pubsub_patterns", 0);
    fields.add("latest_fork_usec", 0);
    fields.add("total_forks", 0);
    fields.add("total_error_replies", counted.errors.values().sum::<u64>());
    fields.add("total_reads_processed", totals.reads);
    fields.add("total_writes_processed", totals.writes);
    fields.add("client_query_buffer_limit_disconnections", totals.query_limit_closes);
    fields.add("client_output_buffer_limit_disconnections", totals.output_limit_closes);
}

fn replication(shared: &Shared, fields: &mut Fields) {
    fields.add("role", "master");
    fields.add("connected_slaves", 0);
    fields.add("master_failover_state", "no-failover");
    fields.add("master_replid", &shared.identity.run_id);
    fields.add("master_replid2", "0".repeat(40));
    fields.add("master_repl_offset", 0);
    fields.add("second_repl_offset", -1);
    fields.add("repl_backlog_active", 0);
    fields.add("repl_backlog_size", 0);
    fields.add("repl_backlog_first_byte_offset", 0);
    fields.add("repl_backlog_histlen", 0);
}

fn processor(_shared: &Shared, fields: &mut Fields) {
    let seconds = |time: Duration| format!("{:.6}", time.as_secs_f64());
    let process = sys::process::resource_usage(UsageOf::Process);
    let children = sys::process::resource_usage(UsageOf::Children);
    let thread = sys::process::resource_usage(UsageOf::Thread);
    fields.add("used_cpu_sys", seconds(process.system));
    fields.add("used_cpu_user", seconds(process.user));
    fields.add("used_cpu_sys_children", seconds(children.system));
    fields.add("used_cpu_user_children", seconds(children.user));
    fields.add("used_cpu_sys_main_thread", seconds(thread.system));
    fields.add("used_cpu_user_main_thread", seconds(thread.user));
}

fn commands(shared: &Shared, fields: &mut Fields) {
    for (name, counts) in shared.counted().commands {
        let CommandCounts { calls, failed, rejected, nanoseconds } = counts;
        let microseconds = nanoseconds / 1000;
        let per_call = microseconds as f64 / calls.max(1) as f64;
        let value = format!(
            "calls={calls},usec={microseconds},usec_per_call={per_call:.2},\
             rejected_calls={rejected},failed_calls={failed}"
        );
        fields.add(&format!("cmdstat_{name}"), value);
    }
}

fn errors(shared: &Shared, fields: &mut Fields) {
    for (code, count) in shared.counted().errors {
        fields.add(&format!("errorstat_{code}"), format!("count={count}"));
    }
}

fn cluster(_shared: &Shared, fields: &mut Fields) {
    fields.add("cluster_enabled", 0);
}

fn shared_memory(shared: &Shared, fields: &mut Fields) {
    fields.add("shm_sessions", shared.attachments.count());
    fields.add("shm_segment_epoch", shared.keyspace().arena().segment_epoch());
    fields.add("shm_segment_bytes", shared.segments.segment_bytes());
}

fn keys(shared: &Shared, fields: &mut Fields) {
    let keyspace = shared.keyspace();
    for index in 0..keyspace.database_count() {
        let counts = keyspace.counts(DatabaseIndex(index as u8));
        let DatabaseCounts { keys, volatile } = counts;
        if keys > 0 {
            let value = format!("keys={keys},expires={volatile},avg_ttl=0");
            fields.add(&format!("db{index}"), value);
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Returns `bytes` as Redis shows them to people: `1.50K`.
fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    let mut value = bytes as f64;
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut unit = "";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.2}{unit}")
}

/// Returns the resident memory of this process, 0 where the system does not tell.
pub fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

/// Returns the memory of this machine, 0 where the system does not tell.
pub fn system_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_redis_shows_them() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (940_880, "918.83K"), (1 << 30, "1.00G")]
        {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn the_system_tells_its_memory() {
        assert!(resident_bytes() > 0);
        assert!(system_memory_bytes() > resident_bytes());
    }
}
