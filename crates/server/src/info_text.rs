//! The text of INFO: sections of `name:value` lines, in Redis's names and order.
//!
//! Fields of things that do not exist here (forks, replicas, scripts) are shown where tools look
//! for them, with the value that says so.

use std::time::Duration;

use command::{
    ClientInfo, InfoKind, InfoSection, InfoSections, InfoText, MemoryReport, Observer, ratio,
};
use engine::CommandCounts;
use sys::process::UsageOf;

use crate::config::options::Network;
use crate::durability::LogReport;
use crate::loading::LoadingReport;
use crate::server_state::ServerState;
use crate::statistics::{Counted, Rate};

/// One section.
type Section = InfoSection<ServerState>;

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
    Section { name: "Latencystats", kind: InfoKind::All, fields: latencies },
    Section { name: "Cluster", kind: InfoKind::Default, fields: cluster },
    Section { name: "Shm", kind: InfoKind::Everything, fields: shared_memory },
    Section { name: "Cache", kind: InfoKind::Everything, fields: cache },
    Section { name: "Keyspace", kind: InfoKind::Default, fields: keys },
];

/// How many sections there are.
pub const SECTION_COUNT: usize = SECTIONS.len();

/// Returns the text of one section.
///
/// # Panics
/// When `index` is not below [`SECTION_COUNT`].
pub fn section_text(shared: &ServerState, index: usize) -> String {
    let mut fields = InfoText::default();
    SECTIONS[index].write(shared, &mut fields);
    fields.into_string()
}

/// Adds fields whose value is always 0: what they count does not exist here.
fn add_zeroes(fields: &mut InfoText, names: &[&str]) {
    names.iter().for_each(|name| fields.add(name, 0));
}

/// Adds a number of bytes, and the same as people read it.
fn add_bytes(fields: &mut InfoText, name: &str, bytes: u64) {
    fields.add(name, bytes);
    fields.add(&format!("{name}_human"), human_bytes(bytes));
}

/// Returns the sections that are asked for.
pub fn text(shared: &ServerState, sections: &InfoSections) -> String {
    InfoText::of(shared, SECTIONS, sections)
}

fn server(shared: &ServerState, fields: &mut InfoText) {
    let (settings, identity) = (shared.settings(), &shared.identity);
    let now = sys::clock::realtime();
    let uptime = (sys::clock::monotonic() - identity.started_monotonic).as_secs();
    fields.add("redis_version", &settings.process.compatible_version);
    fields.add("forebay_version", env!("CARGO_PKG_VERSION"));
    fields.add("redis_git_sha1", "00000000");
    fields.add("redis_git_dirty", 0);
    fields.add("redis_build_id", "0");
    fields.add("redis_mode", "standalone");
    fields.add("os", sys::process::system_name());
    fields.add("arch_bits", usize::BITS);
    fields.add("monotonic_clock", "POSIX clock_gettime");
    fields.add("multiplexing_api", "epoll");
    fields.add("atomicvar_api", "rust-core");
    fields.add("process_id", std::process::id());
    fields.add("process_supervised", identity.supervisor);
    fields.add("run_id", &identity.run_id);
    fields.add("tcp_port", settings.network.port);
    fields.add("server_time_usec", sys::clock::realtime_us());
    fields.add("uptime_in_seconds", uptime);
    fields.add("uptime_in_days", uptime / 86_400);
    fields.add("hz", settings.process.frequency);
    fields.add("configured_hz", settings.process.frequency);
    fields.add("lru_clock", (now.0 / 1000) & 0x00ff_ffff);
    fields.add("executable", &identity.executable);
    fields.add("config_file", &identity.config_file);
    fields.add("io_threads_active", 0);
    listeners(&settings.network, fields);
    fields.add("workers", identity.worker_count);
}

/// Adds a line for each listener, as Redis 7.2 numbers them.
fn listeners(network: &Network, fields: &mut InfoText) {
    let mut texts = Vec::new();
    if network.port > 0 {
        let addresses = network.bind.iter().map(|address| format!(",bind={address}"));
        texts.push(format!("name=tcp{},port={}", addresses.collect::<String>(), network.port));
    }
    if let Some(path) = &network.unix_socket {
        texts.push(format!("name=unix,bind={}", path.display()));
    }
    for (index, text) in texts.iter().enumerate() {
        fields.add(&format!("listener{index}"), text);
    }
}

fn clients(shared: &ServerState, fields: &mut InfoText) {
    let clients = shared.clients.all(sys::clock::realtime());
    let most = |bytes: fn(&ClientInfo) -> usize| clients.iter().map(bytes).max().unwrap_or(0);
    fields.add("connected_clients", shared.clients.len());
    fields.add("cluster_connections", 0);
    fields.add("maxclients", shared.settings().network.max_clients);
    let input = most(|client| client.query_bytes + client.query_bytes_free);
    fields.add("client_recent_max_input_buffer", input);
    fields.add("client_recent_max_output_buffer", most(|client| client.reply_buffer_bytes));
    let waits = &shared.clients.waits;
    fields.add("blocked_clients", waits.all());
    fields.add("tracking_clients", 0);
    fields.add("clients_in_timeout_table", waits.timed());
    fields.add("total_blocking_keys", 0);
    fields.add("total_blocking_keys_on_nokey", 0);
}

fn memory(shared: &ServerState, fields: &mut InfoText) {
    let report = shared.memory_report();
    let percent = |part: u64, whole: u64| format!("{:.2}%", ratio(part, whole) * 100.0);
    let in_use = report.used.saturating_sub(report.startup);
    add_bytes(fields, "used_memory", report.used);
    add_bytes(fields, "used_memory_rss", report.resident);
    add_bytes(fields, "used_memory_peak", report.used_max);
    fields.add("used_memory_peak_perc", percent(report.used, report.used_max));
    fields.add("used_memory_overhead", report.overhead());
    fields.add("used_memory_startup", report.startup);
    fields.add("used_memory_dataset", report.dataset);
    fields.add("used_memory_dataset_perc", percent(report.dataset.min(in_use), in_use));
    allocators(&report, fields);
    add_bytes(fields, "total_system_memory", system_memory_bytes());
    scripts(fields);
    add_bytes(fields, "maxmemory", shared.settings().memory.max_bytes);
    fields.add("maxmemory_policy", shared.settings().memory.policy.name());
    fragmentation(&report, fields);
    add_zeroes(
        fields,
        &[
            "mem_not_counted_for_evict",
            "mem_replication_backlog",
            "mem_total_replication_buffers",
            "mem_clients_slaves",
        ],
    );
    fields.add("mem_clients_normal", report.clients);
    add_zeroes(fields, &["mem_cluster_links", "mem_aof_buffer"]);
    fields.add("mem_allocator", "arena");
    add_zeroes(fields, &["active_defrag_running", "lazyfree_pending_objects", "lazyfreed_objects"]);
    arena(shared, fields);
}

/// Adds what Forebay alone has to tell: its parts of the arena.
fn arena(shared: &ServerState, fields: &mut InfoText) {
    let keyspace = shared.keyspace();
    let usage = keyspace.arena().usage();
    fields.add("used_memory_index", usage.index_bytes);
    fields.add("used_memory_slabs", usage.slab_bytes);
    fields.add("used_memory_extents", usage.extent_bytes);
    fields.add("used_memory_extents_reserved", keyspace.arena().reserved_bytes());
    fields.add("used_memory_private", keyspace.private_bytes());
    fields.add("arena_touched", usage.touched_bytes);
    fields.add("arena_huge_pages", shared.huge_pages.availability());
    fields.add("arena_huge_bytes", shared.segments.huge_bytes());
    fields.add("arena_huge_refusals", shared.huge_pages.refused_count());
}

fn allocators(report: &MemoryReport, fields: &mut InfoText) {
    fields.add("allocator_allocated", report.allocated);
    fields.add("allocator_active", report.active);
    fields.add("allocator_resident", report.resident);
}

/// Adds the memory of scripts and functions, of which there are none.
fn scripts(fields: &mut InfoText) {
    fields.add("used_memory_lua", 0);
    fields.add("used_memory_vm_eval", 0);
    fields.add("used_memory_lua_human", human_bytes(0));
    add_zeroes(
        fields,
        &[
            "used_memory_scripts_eval",
            "number_of_cached_scripts",
            "number_of_functions",
            "number_of_libraries",
            "used_memory_vm_functions",
        ],
    );
    add_bytes(fields, "used_memory_vm_total", 0);
    fields.add("used_memory_functions", 0);
    add_bytes(fields, "used_memory_scripts", 0);
}

fn fragmentation(report: &MemoryReport, fields: &mut InfoText) {
    let mut pair = |name: [&str; 2], part: u64, whole: u64| {
        fields.add(name[0], format!("{:.2}", ratio(part, whole)));
        fields.add(name[1], part as i64 - whole as i64);
    };
    pair(["allocator_frag_ratio", "allocator_frag_bytes"], report.active, report.allocated);
    pair(["allocator_rss_ratio", "allocator_rss_bytes"], report.resident, report.active);
    // Everything resident is the allocators': there is nothing else to be told apart.
    pair(["rss_overhead_ratio", "rss_overhead_bytes"], report.resident, report.resident);
    pair(["mem_fragmentation_ratio", "mem_fragmentation_bytes"], report.resident, report.used);
}

fn persistence(shared: &ServerState, fields: &mut InfoText) {
    let loading = shared.loading.report();
    fields.add("loading", u8::from(loading.is_some()));
    add_zeroes(fields, &["async_loading"]);
    add_zeroes(fields, &["current_cow_peak", "current_cow_size", "current_cow_size_age"]);
    fields.add("current_fork_perc", "0.00");
    let report = shared.persistence_report();
    let seconds = |seconds: Option<u64>| seconds.map_or("-1".to_owned(), |it| it.to_string());
    add_zeroes(fields, &["current_save_keys_processed"]);
    fields.add("current_save_keys_total", report.keys);
    fields.add("rdb_changes_since_last_save", report.changes);
    fields.add("rdb_bgsave_in_progress", u8::from(report.is_running));
    fields.add("rdb_last_save_time", shared.saved_at_s());
    fields.add("rdb_last_bgsave_status", if report.has_failed { "err" } else { "ok" });
    fields.add("rdb_last_bgsave_time_sec", seconds(report.took_s));
    fields.add("rdb_current_bgsave_time_sec", seconds(report.running_s));
    fields.add("rdb_saves", report.saves);
    add_zeroes(fields, &["rdb_last_cow_size"]);
    fields.add("rdb_last_load_keys_expired", report.loaded.expired);
    fields.add("rdb_last_load_keys_loaded", report.loaded.keys);
    let log = shared.durability.report();
    fields.add("aof_enabled", u8::from(log.is_on));
    let rewrite = &report.rewrite;
    fields.add("aof_rewrite_in_progress", u8::from(rewrite.running_s.is_some()));
    fields.add("aof_rewrite_scheduled", u8::from(rewrite.is_scheduled));
    fields.add("aof_last_rewrite_time_sec", seconds(rewrite.took_s));
    fields.add("aof_current_rewrite_time_sec", seconds(rewrite.running_s));
    fields.add("aof_last_bgrewrite_status", if rewrite.failures > 0 { "err" } else { "ok" });
    fields.add("aof_rewrites", rewrite.count);
    fields.add("aof_rewrites_consecutive_failures", rewrite.failures);
    fields.add("aof_last_write_status", if log.is_well { "ok" } else { "err" });
    add_zeroes(fields, &["aof_last_cow_size"]);
    add_zeroes(fields, &["module_fork_in_progress", "module_fork_last_cow_size"]);
    if log.is_on {
        add_log(shared, &log, fields);
    }
    if let Some(loading) = loading {
        let LoadingReport { read_bytes, total_bytes, .. } = loading;
        let percent = 100.0 * read_bytes as f64 / total_bytes.max(1) as f64;
        fields.add("loading_start_time", loading.began_s);
        fields.add("loading_total_bytes", total_bytes);
        fields.add("loading_rdb_used_mem", loading.memory_bytes);
        fields.add("loading_loaded_bytes", read_bytes);
        fields.add("loading_loaded_perc", format_args!("{percent:.2}"));
        fields.add("loading_eta_seconds", loading.left_s);
    }
    if let Some(backlog) = shared.runtime.kept_backlog() {
        let extent = backlog.extent();
        fields.add("effect_backlog_start", extent.start.0);
        fields.add("effect_backlog_end", extent.end.0);
    }
}

/// Adds what there is to say of a log that is kept, Redis's fields first.
fn add_log(shared: &ServerState, log: &LogReport, fields: &mut InfoText) {
    let latest = shared.runtime.kept_backlog().map_or(0, |backlog| backlog.extent().end.0);
    fields.add("aof_current_size", log.snapshot_bytes + log.bytes_behind_snapshot);
    fields.add("aof_base_size", log.snapshot_bytes);
    fields.add("aof_pending_rewrite", 0);
    fields.add("aof_buffer_length", latest.saturating_sub(log.written));
    fields.add("aof_pending_bio_fsync", u8::from(log.durable < log.written));
    fields.add("aof_delayed_fsync", log.delayed_syncs);
    fields.add("log_durable_lsn", log.durable);
    fields.add("log_fsyncs", log.syncs);
    fields.add("log_frames", log.frames);
    fields.add("log_written_bytes", log.file_bytes);
}

fn statistics(shared: &ServerState, fields: &mut InfoText) {
    let (counted, rate) = (shared.counted(), shared.rates.rate());
    let totals = counted.totals;
    let counters = shared.keyspace().counters();
    fields.add("total_connections_received", totals.connections);
    fields.add("total_commands_processed", totals.commands);
    fields.add("instantaneous_ops_per_sec", rate.commands);
    fields.add("total_net_input_bytes", totals.input_bytes);
    fields.add("total_net_output_bytes", totals.output_bytes);
    add_zeroes(fields, &["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    fields.add("instantaneous_input_kbps", format!("{:.2}", rate.input_kib));
    fields.add("instantaneous_output_kbps", format!("{:.2}", rate.output_kib));
    fields.add("instantaneous_input_repl_kbps", "0.00");
    fields.add("instantaneous_output_repl_kbps", "0.00");
    fields.add("rejected_connections", totals.rejected);
    add_zeroes(fields, &["sync_full", "sync_partial_ok", "sync_partial_err"]);
    fields.add("expired_keys", counters.expired_keys);
    fields.add("expired_subkeys", counters.expired_fields);
    fields.add("leases", shared.keyspace().lease_count());
    fields.add("lease_grants", counters.lease_grants);
    fields.add("lease_fills", counters.lease_fills);
    fields.add("lease_voids", counters.lease_voids);
    fields.add("lease_expiries", counters.lease_expiries);
    let sweep = shared.runtime.sweep_counts();
    fields.add("expired_stale_perc", format!("{:.2}", sweep.stale_percent));
    fields.add("expired_time_cap_reached_count", sweep.time_cap_reached);
    fields.add("expire_cycle_cpu_milliseconds", sweep.milliseconds);
    fields.add("evicted_keys", counters.evicted_keys);
    fields.add("evicted_clients", totals.evicted);
    let over_limit = shared.runtime.over_limit_durations();
    fields.add("total_eviction_exceeded_time", over_limit.total.as_millis());
    fields.add("current_eviction_exceeded_time", over_limit.current.as_millis());
    fields.add("keyspace_hits", counters.keyspace_hits);
    fields.add("keyspace_misses", counters.keyspace_misses);
    add_zeroes(fields, &["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"]);
    add_zeroes(fields, &["latest_fork_usec", "total_forks"]);
    fields.add("migrate_cached_sockets", shared.transfers.idle_count());
    add_zeroes(fields, &["slave_expires_tracked_keys", "active_defrag_hits"]);
    add_zeroes(fields, &["active_defrag_misses", "active_defrag_key_hits"]);
    add_zeroes(fields, &["active_defrag_key_misses", "total_active_defrag_time"]);
    add_zeroes(fields, &["current_active_defrag_time", "tracking_total_keys"]);
    add_zeroes(fields, &["tracking_total_items", "tracking_total_prefixes"]);
    replies(&counted, rate, fields);
}

/// Adds the last fields of Stats: errors, reads and writes, disconnections, rounds, refusals.
fn replies(counted: &Counted, rate: Rate, fields: &mut InfoText) {
    let totals = counted.totals;
    fields.add("unexpected_error_replies", 0);
    fields.add("total_error_replies", counted.errors.values().sum::<u64>());
    fields.add("dump_payload_sanitizations", 0);
    fields.add("total_reads_processed", totals.reads);
    fields.add("total_writes_processed", totals.writes);
    add_zeroes(fields, &["io_threaded_reads_processed", "io_threaded_writes_processed"]);
    fields.add("client_query_buffer_limit_disconnections", totals.query_limit_closes);
    fields.add("client_output_buffer_limit_disconnections", totals.output_limit_closes);
    add_zeroes(fields, &["reply_buffer_shrinks", "reply_buffer_expands"]);
    fields.add("eventloop_cycles", totals.rounds);
    fields.add("eventloop_duration_sum", totals.round_nanoseconds / 1000);
    fields.add("eventloop_duration_cmd_sum", counted.command_nanoseconds() / 1000);
    fields.add("instantaneous_eventloop_cycles_per_sec", rate.rounds);
    fields.add("instantaneous_eventloop_duration_usec", rate.round_microseconds);
    let wrong = counted.errors.get("WRONGPASS").copied().unwrap_or(0);
    fields.add("acl_access_denied_auth", wrong);
    add_zeroes(fields, &["acl_access_denied_cmd", "acl_access_denied_key"]);
    fields.add("acl_access_denied_channel", 0);
    fields.add("values_received_in_place", totals.direct_values);
    fields.add("busy_polls", totals.busy_polls);
    fields.add("busy_poll_hits", totals.busy_poll_hits);
}

fn replication(shared: &ServerState, fields: &mut InfoText) {
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

fn processor(_shared: &ServerState, fields: &mut InfoText) {
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

fn commands(shared: &ServerState, fields: &mut InfoText) {
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

fn latencies(shared: &ServerState, fields: &mut InfoText) {
    let settings = shared.settings();
    if !settings.latency.is_tracked {
        return;
    }
    for (name, times) in shared.counted().times {
        let percentile = |percent: &f64| {
            let microseconds = times.percentile(*percent) as f64 / 1000.0;
            format!("p{percent}={microseconds:.3}")
        };
        let texts: Vec<String> = settings.latency.percentiles.iter().map(percentile).collect();
        fields.add(&format!("latency_percentiles_usec_{name}"), texts.join(","));
    }
}

fn errors(shared: &ServerState, fields: &mut InfoText) {
    for (code, count) in shared.counted().errors {
        fields.add(&format!("errorstat_{code}"), format!("count={count}"));
    }
}

fn cluster(_shared: &ServerState, fields: &mut InfoText) {
    fields.add("cluster_enabled", 0);
}

fn cache(shared: &ServerState, fields: &mut InfoText) {
    let report = shared.keyspace().cache_report();
    fields.add("cache_policy", report.policy.name());
    fields.add("cache_objective", report.objective.name());
    let Some(adaptive) = report.adaptive else { return };
    fields.add("cache_key_bytes", adaptive.key_bytes);
    fields.add("cache_policy_bytes", adaptive.policy_bytes);
    fields.add("cache_recent_percent", adaptive.recent_percent);
    fields.add("cache_ghost_hits", adaptive.ghost_hits);
    fields.add("cache_advice", u8::from(adaptive.advice.is_some()));
    let Some(advice) = adaptive.advice else { return };
    for (name, rate) in [
        ("cache_hit_rate", advice.now),
        ("cache_hit_rate_half_memory", advice.half_memory),
        ("cache_hit_rate_double_memory", advice.double_memory),
        ("cache_lru_hit_rate", advice.lru),
        ("cache_lru_hit_rate_half_memory", advice.lru_half_memory),
        ("cache_lru_hit_rate_double_memory", advice.lru_double_memory),
    ] {
        fields.add(name, format!("{rate:.4}"));
    }
}

fn shared_memory(shared: &ServerState, fields: &mut InfoText) {
    let mut pinned = 0;
    shared.keyspace().arena().pins().for_each(|_| pinned += 1);
    let (lane_count, lane_bytes) = shared.lanes.usage();
    let totals = shared.counted().totals;
    fields.add("shm_sessions", shared.attachments.count());
    fields.add("shm_pins", pinned);
    fields.add("shm_retired_bytes", shared.keyspace().arena().retired_bytes());
    fields.add("shm_view_share", shared.keyspace().arena().view_share());
    fields.add("shm_touches", shared.keyspace().access_report_count());
    fields.add("shm_lanes", lane_count);
    fields.add("shm_lane_bytes", lane_bytes);
    fields.add("shm_lane_wakeups_sent", totals.lane_wakes);
    fields.add("shm_lane_wakeups_received", totals.lane_rings);
    fields.add("shm_lane_errors", totals.lane_errors);
    let uploads = shared.keyspace().arena().uploads().usage();
    fields.add("shm_upload_runs", uploads.run_count);
    fields.add("shm_upload_bytes", uploads.bytes);
    fields.add("shm_uploads_open", uploads.open_count);
    fields.add("shm_adopted_values", uploads.adopted_count);
    fields.add("shm_adopted_bytes", uploads.adopted_bytes);
    fields.add("shm_commits_copied", uploads.copies);
    fields.add("shm_commits_adopted", uploads.adoptions);
    fields.add("shm_adopted_owned", uploads.owned);
    fields.add("shm_segment_epoch", shared.keyspace().arena().segment_epoch());
    fields.add("shm_segment_bytes", shared.segments.segment_bytes());
}

fn keys(shared: &ServerState, fields: &mut InfoText) {
    for (name, value) in shared.runtime.database_fields() {
        fields.add(&name, value);
    }
}

/// Returns what the allocators tell of themselves, as lines for people.
pub fn allocator_text(shared: &ServerState) -> String {
    let usage = shared.keyspace().arena().usage();
    let mut fields = InfoText::default();
    fields.add("arena_segment_bytes", shared.segments.segment_bytes());
    fields.add("arena_segment_epoch", shared.keyspace().arena().segment_epoch());
    fields.add("arena_index_bytes", usage.index_bytes);
    fields.add("arena_slab_bytes", usage.slab_bytes);
    fields.add("arena_slab_free_bytes", shared.keyspace().arena().slab_free_bytes());
    fields.add("arena_extent_bytes", usage.extent_bytes);
    fields.add("arena_allocator_bytes", usage.private_bytes);
    fields.add("arena_touched_bytes", usage.touched_bytes);
    fields.add("arena_huge_bytes", shared.segments.huge_bytes());
    fields.add("client_bytes", shared.runtime.client_bytes());
    fields.add("process_resident_bytes", resident_bytes());
    fields.into_string()
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
