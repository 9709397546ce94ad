//! Reads the accesses that readers in other processes report, from time to time and before keys are
//! evicted, so that keys which are read without the server do not seem unused.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arena::access_reports::{AccessReport, REPORT_PERIOD, REPORT_WORDS};
use arena::pins::PinMemory;
use base::{DATABASE_COUNT_MAX, ShardIndex, UnixMs};

use crate::eviction::policy::KeyEvent;
use crate::keyspace::Keyspace;
use crate::shard::Shard;

/// Reports that are taken in at once: those of so many sessions that report as fast as they can.
/// The others have their turns when reports are taken in again. A write that has to evict waits
/// for it, so that they are few.
const REPORTS_MAX: usize = 2 * REPORT_WORDS;
/// Reports that are taken in during one hold of a shard.
const REPORTS_PER_HOLD_MAX: usize = 64;
/// Evictions that follow each other so closely do not look for reports anew.
const RECENT_MS: u64 = 10;

const _: () = assert!(DATABASE_COUNT_MAX == 16, "a report names no database that cannot be");

/// What has come from readers, and how far they have been asked.
#[derive(Default)]
pub(crate) struct AccessReportInbox {
    /// Held by the one who takes reports in; before any shard.
    turn: Mutex<Turn>,
    /// When reports were taken in last.
    taken_at: AtomicI64,
    /// How many ever were.
    count: AtomicU64,
}

#[derive(Default)]
struct Turn {
    /// The session that is asked first.
    session: usize,
}

impl Keyspace {
    /// Marks as used at `now` what readers in other processes have used, as far as they have
    /// reported it. Bounded; does nothing while another thread does it. The caller holds no guard.
    pub fn take_access_reports(&self, now: UnixMs) {
        if !self.wants_access_reports() {
            return;
        }
        let Ok(mut turn) = self.access_reports.turn.try_lock() else { return };
        self.access_reports.taken_at.store(now.0, Ordering::Relaxed);
        let mut reports = Vec::new();
        turn.session =
            self.arena().pins().take_access_reports(turn.session, REPORTS_MAX, &mut reports);
        self.mark_all_accessed(reports, now);
    }

    /// Ends the session with the pin table `pins`, and marks as used at `now` what it has reported
    /// last. What other sessions have reported waits, so that the cost is that of this one. The
    /// caller holds no guard.
    pub fn end_session(&self, pins: &Arc<dyn PinMemory>, now: UnixMs) {
        let reports = self.arena().pins().remove(pins);
        if self.wants_access_reports() {
            self.mark_all_accessed(reports, now);
        }
    }

    /// As [`Keyspace::take_access_reports`], unless that was done just now.
    pub(crate) fn take_recent_access_reports(&self, now: UnixMs) {
        if self.access_reports.taken_at.load(Ordering::Relaxed).abs_diff(now.0) >= RECENT_MS {
            self.take_access_reports(now);
        }
    }

    /// Returns how many reports were taken in since the keyspace was made.
    pub fn access_report_count(&self) -> u64 {
        self.access_reports.count.load(Ordering::Relaxed)
    }

    /// Calls `act` while this thread has the turn to take reports in.
    #[cfg(test)]
    pub(crate) fn hold_access_report_turn(&self, act: impl FnOnce()) {
        let _turn = self.access_reports.turn.lock().expect("no holder panics");
        act();
    }

    /// Tells readers whether to report what they use.
    pub(crate) fn want_access_reports(&self) {
        self.arena().want_access_reports(self.wants_access_reports());
    }

    fn wants_access_reports(&self) -> bool {
        self.maxmemory() != 0 && self.eviction_policy().minds_uses()
    }

    fn mark_all_accessed(&self, mut reports: Vec<AccessReport>, now: UnixMs) {
        // One hold for all reports of a shard, or few.
        reports.sort_unstable();
        for same_shard in reports.chunk_by(|one, next| one.shard() == next.shard()) {
            let shard = same_shard[0].shard();
            if shard.position() < self.shard_count() {
                self.mark_accessed(shard, same_shard, now);
            }
        }
    }

    fn mark_accessed(&self, index: ShardIndex, reports: &[AccessReport], now: UnixMs) {
        for some in reports.chunks(REPORTS_PER_HOLD_MAX) {
            let mut guard = self.lock(index);
            let shard = guard.shard_mut(index);
            some.iter().for_each(|report| shard.mark_accessed(*report, now));
        }
        self.access_reports.count.fetch_add(reports.len() as u64, Ordering::Relaxed);
    }
}

impl Shard {
    /// Marks as used what `report` may mean: entries of the same bucket and tag.
    fn mark_accessed(&self, report: AccessReport, now: UnixMs) {
        if let Some(part) = self.database(report.database()) {
            part.table.touch_alike(report.hash(), |entry| {
                let hash = if self.policy.observes { self.key(entry.key()).hash } else { 0 };
                self.used(report.database(), hash, *entry, now, KeyEvent::Used(REPORT_PERIOD))
            });
        }
    }
}
