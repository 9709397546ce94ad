//! What commands learn about the surroundings of an embedded instance: it has options, memory and
//! statistics, but no clients of a network, no process of its own, and no process maps its memory.
//! A command that needs one of those is refused with the reason.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::UnixMs;
use command::{
    ConfigError, Host, InfoKind, InfoSection, InfoSections, InfoText, MemoryReport, Observer,
    SessionState,
};
use keyspace::SessionWakeup;

use crate::embedded::{Embedded, locked};
use crate::embedded_log::EmbeddedLog;
use crate::log_folder::SyncPolicy;

/// An option that CONFIG GET shows: its name and its value.
type Shown = (&'static str, fn(&Embedded) -> String);

/// What CONFIG GET shows, by Redis's names in their order. The embedding program sets it, CONFIG
/// SET does not.
const SHOWN: [Shown; 11] = [
    ("appendfsync", |it| it.sync_policy().name().to_owned()),
    ("appendonly", |it| yes_or_no(it.log.is_some())),
    ("cache-objective", |it| locked(&it.tuning).objective.name().to_owned()),
    ("databases", |it| it.database_count().to_string()),
    ("enable-debug-command", |it| yes_or_no(it.allows_debug)),
    ("lfu-decay-time", |it| locked(&it.tuning).lfu_decay_minutes.to_string()),
    ("lfu-log-factor", |it| locked(&it.tuning).lfu_log_factor.to_string()),
    ("maxmemory", |it| locked(&it.tuning).maxmemory.to_string()),
    ("maxmemory-policy", |it| locked(&it.tuning).policy.name().to_owned()),
    ("maxmemory-samples", |it| locked(&it.tuning).samples.to_string()),
    ("proto-max-bulk-len", |it| it.value_bytes_max.to_string()),
];

impl Host for Embedded {
    fn database_count(&self) -> usize {
        self.runtime.keyspace().database_count()
    }

    fn requires_password(&self) -> bool {
        false
    }

    fn authenticate(&self, user: &[u8], _: &[u8]) -> bool {
        user == b"default"
    }

    fn allows_debug(&self, _: &SessionState) -> bool {
        self.allows_debug
    }

    fn config_values(&self, wanted: &dyn Fn(&str, bool) -> bool) -> Vec<(String, String)> {
        let named = SHOWN.iter().filter(|(name, _)| wanted(name, false));
        named.map(|(name, value)| ((*name).to_owned(), value(self))).collect()
    }

    fn config_set(&self, _: &SessionState, pairs: &[(&[u8], &[u8])]) -> Result<(), ConfigError> {
        let Some((name, _)) = pairs.first() else { return Ok(()) };
        let known = SHOWN.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
        let Some((known, _)) = known else {
            return Err(ConfigError::Unknown { name: name.to_vec() });
        };
        let reason = "can't set immutable config".to_owned();
        Err(ConfigError::Refused { name: (*known).to_owned(), reason })
    }

    fn reset_statistics(&self) {
        self.runtime.reset_counters();
        self.commands.store(0, Ordering::Relaxed);
    }

    fn info(&self, sections: &InfoSections) -> String {
        InfoText::of(self, &SECTIONS, sections)
    }

    fn set_active_expire(&self, is_on: bool) {
        self.leaves_expired.store(!is_on, Ordering::Relaxed);
    }

    fn sleep(&self, duration: Duration) {
        self.runtime.clock().sleep(duration);
    }

    fn notify_served(&self, served: SessionWakeup) {
        self.add_served(served);
    }
}

impl Observer for Embedded {
    fn memory_report(&self) -> MemoryReport {
        // What the process has beside the instance is not the instance's to tell.
        self.runtime.memory_report()
    }

    fn purge_memory(&self) {
        self.runtime.purge_memory();
    }

    fn time_us(&self, _: UnixMs) -> i64 {
        self.runtime.clock().wall_us()
    }

    fn saved_at_s(&self) -> i64 {
        self.started.0 / 1000
    }
}

impl Embedded {
    /// Returns when a log is made durable: as Redis does by default where none is kept.
    fn sync_policy(&self) -> SyncPolicy {
        self.log.as_ref().map_or(SyncPolicy::EverySecond, EmbeddedLog::policy)
    }

    pub(crate) fn count_commands(&self, count: u64) {
        self.commands.fetch_add(count, Ordering::Relaxed);
    }
}

/// The sections of INFO, in Redis's order and names.
const SECTIONS: [InfoSection<Embedded>; 5] = [
    InfoSection { name: "Server", kind: InfoKind::Default, fields: server },
    InfoSection { name: "Memory", kind: InfoKind::Default, fields: memory },
    InfoSection { name: "Persistence", kind: InfoKind::Default, fields: persistence },
    InfoSection { name: "Stats", kind: InfoKind::Default, fields: statistics },
    InfoSection { name: "Keyspace", kind: InfoKind::Default, fields: keys },
];

fn server(embedded: &Embedded, text: &mut InfoText) {
    let clock = embedded.runtime.clock();
    let uptime = Duration::from_nanos(clock.steady_ns().saturating_sub(embedded.started_ns));
    text.add("redis_version", command::REDIS_VERSION);
    text.add("redis_mode", "standalone");
    text.add("server_time_usec", clock.wall_us());
    text.add("uptime_in_seconds", uptime.as_secs());
}

fn memory(embedded: &Embedded, text: &mut InfoText) {
    let report = embedded.memory_report();
    let tuning = locked(&embedded.tuning);
    text.add("used_memory", report.used);
    text.add("used_memory_peak", report.used_max);
    text.add("used_memory_overhead", report.overhead());
    text.add("used_memory_startup", report.startup);
    text.add("used_memory_dataset", report.dataset);
    text.add("allocator_allocated", report.allocated);
    text.add("allocator_active", report.active);
    text.add("maxmemory", tuning.maxmemory);
    text.add("maxmemory_policy", tuning.policy.name());
}

fn persistence(embedded: &Embedded, text: &mut InfoText) {
    let report = embedded.log_report();
    text.add("aof_enabled", u8::from(report.is_some()));
    let Some(report) = report else { return };
    let status = |failure: &Option<String>| if failure.is_some() { "err" } else { "ok" };
    text.add("aof_last_bgrewrite_status", status(&report.rewrite_failure));
    text.add("aof_last_write_status", status(&report.failure));
    text.add("aof_current_size", report.snapshot_bytes + report.bytes_behind_snapshot);
    text.add("aof_base_size", report.snapshot_bytes);
    text.add("aof_pending_bio_fsync", u8::from(report.durable < report.written));
}

fn statistics(embedded: &Embedded, text: &mut InfoText) {
    let counters = embedded.runtime.keyspace().counters();
    let errors: u64 = embedded.command_stats.errors().iter().map(|(_, count)| count).sum();
    text.add("total_commands_processed", embedded.commands.load(Ordering::Relaxed));
    text.add("expired_keys", counters.expired_keys);
    text.add("expired_subkeys", counters.expired_fields);
    text.add("leases", embedded.runtime.keyspace().lease_count());
    text.add("lease_grants", counters.lease_grants);
    text.add("lease_fills", counters.lease_fills);
    text.add("lease_voids", counters.lease_voids);
    text.add("lease_expiries", counters.lease_expiries);
    text.add("evicted_keys", counters.evicted_keys);
    text.add("keyspace_hits", counters.keyspace_hits);
    text.add("keyspace_misses", counters.keyspace_misses);
    text.add("total_error_replies", errors);
}

fn keys(embedded: &Embedded, text: &mut InfoText) {
    for (name, value) in embedded.runtime.database_fields() {
        text.add(&name, value);
    }
}

fn yes_or_no(is_on: bool) -> String {
    if is_on { "yes" } else { "no" }.to_owned()
}
