//! What commands learn about the surroundings of an embedded instance: it has options, memory and
//! statistics, but no clients of a network, no process of its own, and no process maps its memory.
//! A command that needs one of those is refused with the reason.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::UnixMs;
use command::{ConfigError, Host, InfoKind, InfoSections, MemoryReport, Observer, SessionState};
use keyspace::SessionWakeup;

use crate::embedded::{Embedded, locked};

/// An option that CONFIG GET shows: its name and its value.
type Shown = (&'static str, fn(&Embedded) -> String);

/// What CONFIG GET shows, by Redis's names in their order. The embedding program sets it, CONFIG
/// SET does not.
const SHOWN: [Shown; 8] = [
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
        let mut text = String::new();
        for (name, fields) in SECTIONS {
            if !sections.include(&name.to_ascii_lowercase(), InfoKind::Default) {
                continue;
            }
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            write!(text, "# {name}\r\n").expect("a String takes any text");
            fields(self, &mut text);
        }
        text
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
    pub(crate) fn count_commands(&self, count: u64) {
        self.commands.fetch_add(count, Ordering::Relaxed);
    }
}

/// A section of INFO: its name, and what writes its fields.
type Section = (&'static str, fn(&Embedded, &mut String));

/// The sections of INFO, in Redis's order and names.
const SECTIONS: [Section; 4] =
    [("Server", server), ("Memory", memory), ("Stats", statistics), ("Keyspace", keys)];

fn server(embedded: &Embedded, text: &mut String) {
    let clock = embedded.runtime.clock();
    let uptime = Duration::from_nanos(clock.steady_ns().saturating_sub(embedded.started_ns));
    add(text, "redis_version", command::REDIS_VERSION);
    add(text, "redis_mode", "standalone");
    add(text, "server_time_usec", clock.wall_us());
    add(text, "uptime_in_seconds", uptime.as_secs());
}

fn memory(embedded: &Embedded, text: &mut String) {
    let report = embedded.memory_report();
    let tuning = locked(&embedded.tuning);
    add(text, "used_memory", report.used);
    add(text, "used_memory_peak", report.used_max);
    add(text, "used_memory_overhead", report.overhead());
    add(text, "used_memory_startup", report.startup);
    add(text, "used_memory_dataset", report.dataset);
    add(text, "allocator_allocated", report.allocated);
    add(text, "allocator_active", report.active);
    add(text, "maxmemory", tuning.maxmemory);
    add(text, "maxmemory_policy", tuning.policy.name());
}

fn statistics(embedded: &Embedded, text: &mut String) {
    let counters = embedded.runtime.keyspace().counters();
    let errors: u64 = embedded.command_stats.errors().iter().map(|(_, count)| count).sum();
    add(text, "total_commands_processed", embedded.commands.load(Ordering::Relaxed));
    add(text, "expired_keys", counters.expired_keys);
    add(text, "evicted_keys", counters.evicted_keys);
    add(text, "keyspace_hits", counters.keyspace_hits);
    add(text, "keyspace_misses", counters.keyspace_misses);
    add(text, "total_error_replies", errors);
}

fn keys(embedded: &Embedded, text: &mut String) {
    for (name, value) in embedded.runtime.database_fields() {
        add(text, &name, value);
    }
}

fn add(text: &mut String, name: &str, value: impl Display) {
    write!(text, "{name}:{value}\r\n").expect("a String takes any text");
}

fn yes_or_no(is_on: bool) -> String {
    if is_on { "yes" } else { "no" }.to_owned()
}
