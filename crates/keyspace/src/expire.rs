//! The sweep that removes expired keys and expired fields of hashes, a bounded step at a time.

use base::{DatabaseIndex, ShardIndex, UnixMs};
use effects::Cause;

use crate::keyspace::Keyspace;
use crate::recorder::Recorder;
use crate::shard::{Shard, is_over};
use crate::write::KeyWriter;

/// What one step of the sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepOutcome {
    /// Entries with a time to live that were looked at, and fields that had expired.
    pub examined: u64,
    /// Those of them that had expired, and are gone: keys and fields.
    pub expired: u64,
    /// Entries with a time to live that the shard has now.
    pub volatile_left: u64,
}

impl Keyspace {
    /// Looks at up to `budget` entries of `shard` that have a time to live, from where the last
    /// step ended, and removes those that have expired at `now`. Up to half of the budget goes to
    /// fields of hashes that have expired, those first that did so first. All databases have their
    /// turn, however many entries live in one. The caller holds no guard; the time that the
    /// shard is held grows with `budget`, removals costing the most. While no write is admitted
    /// nothing is removed.
    pub fn expire_step(&self, shard: ShardIndex, now: UnixMs, budget: u64) -> SweepOutcome {
        let mut outcome = SweepOutcome::default();
        if self.shard_volatile(shard) == 0 || !self.may_remove() {
            return outcome;
        }
        let mut guard = self.lock(shard);
        let shard = guard.shard_mut(shard);
        let (first, count) = (shard.expiry_database.0, self.database_count() as u8);
        for database in (0..count).map(|offset| DatabaseIndex((first + offset) % count)) {
            let left = budget - outcome.examined;
            let mut sweep = Sweep { shard, database, now, outcome: SweepOutcome::default() };
            sweep.remove_expired_fields(left.div_ceil(2));
            sweep.run(left - sweep.outcome.examined);
            outcome.examined += sweep.outcome.examined;
            outcome.expired += sweep.outcome.expired;
            outcome.volatile_left += sweep.volatile_len();
            if left > 0 && outcome.examined == budget {
                // The budget ends here. A database that had all of it waits for the others.
                let had_all = u8::from(left == budget);
                shard.expiry_database = DatabaseIndex((database.0 + had_all) % count);
            }
        }
        outcome
    }
}

/// The times to live that one step has met.
#[derive(Default)]
struct Ttls {
    count: u128,
    sum_ms: u128,
}

/// A step weighs as one in so many in the average, as in Redis.
const STEPS_AVERAGED: u128 = 50;

impl Ttls {
    fn add(&mut self, ttl_ms: u64) {
        self.count += 1;
        self.sum_ms += u128::from(ttl_ms);
    }

    /// Returns the average that was `before` this step.
    fn mean_after(&self, before: u64) -> u64 {
        let mean = match (self.sum_ms.checked_div(self.count), u128::from(before)) {
            (None, before) => before,
            (Some(first), 0) => first,
            (Some(next), before) => (before * (STEPS_AVERAGED - 1) + next) / STEPS_AVERAGED,
        };
        u64::try_from(mean).unwrap_or(u64::MAX)
    }
}

/// Once the names of fields and of their keys that one step over one table copied have so many
/// bytes, it takes no other.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// One step over one table.
struct Sweep<'s> {
    shard: &'s mut Shard,
    database: DatabaseIndex,
    now: UnixMs,
    outcome: SweepOutcome,
}

impl Sweep<'_> {
    fn run(&mut self, budget: u64) {
        let Some(part) = self.shard.database(self.database) else { return };
        let (mut cursor, mut ttls) = (part.expiry_cursor, Ttls::default());
        // Each entry at most once a step, however large the budget.
        for _ in 0..budget.min(self.volatile_len()) {
            if cursor >= self.volatile_len() {
                cursor = 0;
            }
            self.outcome.examined += 1;
            match self.remove_if_expired(cursor) {
                // The last entry has taken this position, which is looked at next.
                None => self.outcome.expired += 1,
                Some(ttl_ms) => {
                    // What is left of the others is read as a stale value, beyond its time.
                    if ttl_ms > 0 {
                        ttls.add(ttl_ms);
                    }
                    cursor += 1;
                }
            }
        }
        let part = self.shard.database_mut(self.database).expect("it was there before");
        part.expiry_cursor = cursor;
        part.ttl_mean_ms = ttls.mean_after(part.ttl_mean_ms);
        let mean = part.ttl_mean_ms;
        self.shard.published.set_ttl_mean_ms(self.database, mean);
    }

    /// Removes up to `budget` fields that have expired, and at least one, where their names are so
    /// long that copies of them would hold the shard for long.
    fn remove_expired_fields(&mut self, budget: u64) {
        let (database, now, counts_access) = (self.database, self.now, false);
        let (mut left, mut bytes_left) = (budget, COPIED_BYTES_MAX);
        while left > 0 && bytes_left > 0 {
            let Some(part) = self.shard.database(database) else { return };
            let expired = part.expired_fields(now, left as usize, bytes_left);
            let Some((bytes, names)) = expired else { return };
            let copied = bytes.len() + names.iter().map(Vec::len).sum::<usize>();
            bytes_left = bytes_left.saturating_sub(copied);
            let key = self.shard.key(&bytes);
            self.shard.before_change(database, key.hash);
            let part = self.shard.database(database).expect("it was there before");
            let id = part.table.find(key.hash, key.bytes);
            let id = id.expect("a hash with times knows whose value it is");
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let mut recorder = Recorder::default();
            let (shard, recorder) = (&mut *self.shard, &mut recorder);
            let mut writer = KeyWriter { shard, recorder, database, now, counts_access, event: "" };
            writer.remove_expired_fields(&key, id, &names, Cause::Expired);
            let count = names.len() as u64;
            left -= count;
            self.outcome.examined += count;
            self.outcome.expired += count;
        }
    }

    /// Returns how long the entry at `position` has to live, or removes it where it has expired.
    fn remove_if_expired(&mut self, position: u64) -> Option<u64> {
        let table = &self.shard.database(self.database).expect("it was there before").table;
        let entry = table.volatile_entry(position);
        if !is_over(&entry, self.now) {
            let expiry = entry.expiry().map_or(self.now.0, |expiry| expiry.0);
            return Some(u64::try_from(expiry.saturating_sub(self.now.0)).unwrap_or(0));
        }
        let id = table.volatile_at(position);
        let bytes = table.entry(id).key().to_vec();
        let key = self.shard.key(&bytes);
        self.shard.before_change(self.database, key.hash);
        let (database, now, counts_access) = (self.database, self.now, false);
        let mut recorder = Recorder::default();
        let (shard, recorder) = (&mut *self.shard, &mut recorder);
        let mut writer = KeyWriter { shard, recorder, database, now, counts_access, event: "" };
        writer.remove(&key, id, Cause::Expired);
        self.shard.leave_unserved(recorder);
        None
    }

    fn volatile_len(&self) -> u64 {
        self.shard.database(self.database).map_or(0, |part| part.table.volatile_len())
    }
}
