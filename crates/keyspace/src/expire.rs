//! The sweep that removes expired keys, a bounded step at a time.

use base::{DatabaseIndex, ShardIndex, UnixMs};

use crate::keyspace::Keyspace;
use crate::recorder::Recorder;
use crate::shard::{Shard, is_expired};
use crate::write::{Place, Removal};

/// What one step of the sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepOutcome {
    /// Entries with a time to live that were looked at.
    pub examined: u64,
    /// Those of them that had expired, and are gone.
    pub expired: u64,
    /// Entries with a time to live that the shard has now.
    pub volatile_left: u64,
}

impl Keyspace {
    /// Looks at up to `budget` entries of `shard` that have a time to live, from where the last
    /// step ended, and removes those that have expired at `now`. All databases have their turn,
    /// however many entries live in one. The caller holds no guard; the time that the shard is
    /// held grows with `budget`, removals costing the most.
    pub fn expire_step(&self, shard: ShardIndex, now: UnixMs, budget: u64) -> SweepOutcome {
        let mut outcome = SweepOutcome::default();
        if self.shard_volatile(shard) == 0 {
            return outcome;
        }
        let mut guard = self.lock(shard);
        let shard = guard.shard_mut(shard);
        let (first, count) = (shard.expiry_database.0, self.database_count() as u8);
        for database in (0..count).map(|offset| DatabaseIndex((first + offset) % count)) {
            let left = budget - outcome.examined;
            let mut sweep = Sweep { shard, database, now, outcome: SweepOutcome::default() };
            sweep.run(left);
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
        let mut cursor = part.expiry_cursor;
        // Each entry at most once a step, however large the budget.
        for _ in 0..budget.min(self.volatile_len()) {
            if cursor >= self.volatile_len() {
                cursor = 0;
            }
            self.outcome.examined += 1;
            if self.remove_if_expired(cursor) {
                // The last entry has taken this position, which is looked at next.
                self.outcome.expired += 1;
            } else {
                cursor += 1;
            }
        }
        let part = self.shard.database_mut(self.database).expect("it was there before");
        part.expiry_cursor = cursor;
    }

    fn remove_if_expired(&mut self, position: u64) -> bool {
        let table = &self.shard.database(self.database).expect("it was there before").table;
        if !is_expired(&table.volatile_entry(position), self.now) {
            return false;
        }
        let id = table.volatile_at(position);
        let bytes = table.entry(id).key().to_vec();
        let key = self.shard.key(&bytes);
        let (database, now) = (self.database, self.now);
        let mut recorder = Recorder::default();
        let mut place = Place { shard: self.shard, recorder: &mut recorder, database, now };
        place.remove(&key, id, Removal::Expired);
        true
    }

    fn volatile_len(&self) -> u64 {
        self.shard.database(self.database).map_or(0, |part| part.table.volatile_len())
    }
}
