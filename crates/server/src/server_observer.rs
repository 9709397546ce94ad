//! What the server observes of times and memory, as commands ask for it.

use std::time::Duration;

use base::UnixMs;
use base::prng::Prng;
use command::{
    CacheOverview, CommandTimes, Flags, LatencyEvent, LatencySeries, MemoryReport, Observer,
    SlowCommand, SlowLogEntry,
};

use crate::info_text;
use crate::server_state::ServerState;

#[deny(clippy::missing_trait_methods)]
impl Observer for ServerState {
    fn note_slow(&self, slow: &SlowCommand<'_>) {
        let settings = self.settings();
        let took = Duration::from_nanos(slow.nanoseconds);
        let is_logged = settings.latency.slow_log_from.is_some_and(|from| took >= from);
        if is_logged && !slow.command.is(Flags::SKIP_SLOWLOG) {
            let address = self.clients.address(slow.session.id).unwrap_or_default();
            let recharge = |before, after| self.runtime.recharge(before, after);
            self.slow_log.push(slow, address, settings.latency.slow_log_len_max, recharge);
        }
        let event = match slow.command.is(Flags::FAST) {
            true => LatencyEvent::FastCommand,
            false => LatencyEvent::Command,
        };
        self.note_event(event, slow.nanoseconds);
    }

    fn note_event(&self, event: LatencyEvent, nanoseconds: u64) {
        if nanoseconds < self.timing.report_threshold_ns() {
            // Not above the threshold either, and without a look at the settings.
            return;
        }
        let threshold_ms = self.latency_threshold_ms();
        let milliseconds = nanoseconds / 1_000_000;
        if threshold_ms > 0 && milliseconds >= threshold_ms {
            self.latency.note(event, self.runtime.clock().wall().0 / 1000, milliseconds);
        }
    }

    fn slow_log(&self, count: usize) -> Vec<SlowLogEntry> {
        self.slow_log.newest(count)
    }

    fn slow_log_len(&self) -> usize {
        self.slow_log.len()
    }

    fn reset_slow_log(&self) {
        self.slow_log.clear(|before, after| self.runtime.recharge(before, after));
    }

    fn latency_series(&self) -> Vec<LatencySeries> {
        self.latency.series()
    }

    fn reset_latency(&self, events: &[LatencyEvent]) -> usize {
        self.latency.reset(events)
    }

    fn latency_threshold_ms(&self) -> u64 {
        self.settings().latency.threshold_ms
    }

    fn command_times(&self) -> Vec<CommandTimes> {
        let times = self.counted().times.into_iter();
        times
            .map(|(command, distribution)| CommandTimes {
                command,
                calls: distribution.total(),
                steps: distribution
                    .doublings()
                    .into_iter()
                    .map(|(nanoseconds, calls)| (nanoseconds / 1000, calls))
                    .collect(),
            })
            .collect()
    }

    fn memory_report(&self) -> MemoryReport {
        MemoryReport {
            resident: info_text::resident_bytes(),
            client_count: self.clients.len() as u64,
            ..self.runtime.memory_report()
        }
    }

    fn cache_overview(&self) -> Option<CacheOverview> {
        let keyspace = self.keyspace();
        let mut random = Prng::new(self.runtime.clock().steady_ns());
        Some(CacheOverview {
            report: keyspace.cache_report(),
            sizes: keyspace.size_classes(&mut random),
        })
    }

    fn purge_memory(&self) {
        self.runtime.purge_memory();
        sys::process::trim_heap();
    }

    fn allocator_text(&self) -> String {
        info_text::allocator_text(self)
    }

    fn time_us(&self, _: UnixMs) -> i64 {
        self.runtime.clock().wall_us()
    }

    fn saved_at_s(&self) -> i64 {
        self.persistence.saved_at_s().unwrap_or(self.identity.started.0 / 1000)
    }
}
