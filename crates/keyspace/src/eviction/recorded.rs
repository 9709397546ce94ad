//! A policy for tests alone: it remembers all notifications, and evicts first the key that was used
//! or inserted longest ago by its own account. It checks that the notifications fit together.

use std::cell::RefCell;
use std::collections::HashMap;

use arena::AccessMark;
use base::DatabaseIndex;
use base::prng::Prng;

use crate::eviction::policy::{Candidate, KeyEvent, Marks, Ranking, Row, Scope, Told};

pub(crate) const ALLKEYS: Row = Row {
    name: "allkeys-recorded",
    scope: Scope::All,
    marks: Marks::Ignored,
    is_random: false,
    observes: true,
    samples_min: 1,
    block_samples_min: 1,
    ranking: |_| Box::new(Recorded::default()),
};

/// A notification: the database, the hash of the key, and what happened to it.
pub(crate) type Seen = (DatabaseIndex, u64, KeyEvent);

thread_local! {
    static EVENTS: RefCell<Vec<Seen>> = const { RefCell::new(Vec::new()) };
}

/// Returns what the policies of this thread have been told since the last call.
pub(crate) fn take_events() -> Vec<Seen> {
    EVENTS.take()
}

/// The memory that each key takes that is remembered.
pub(crate) const BYTES_PER_KEY: u64 = 24;

/// The keys, by database and hash.
#[derive(Default)]
struct Recorded {
    keys: HashMap<(DatabaseIndex, u64), Known>,
    event_count: u64,
}

/// What is known of a key.
struct Known {
    /// The number of events before it was used last.
    last_use: u64,
    bytes: u64,
}

impl Ranking for Recorded {
    fn rank(&self, candidate: &Candidate<'_>, _random: &mut Prng) -> u64 {
        u64::MAX - 1 - self.keys[&candidate.identity()].last_use
    }

    fn see(&mut self, told: &Told<'_>, event: KeyEvent) -> Option<AccessMark> {
        let Told { database, hash, .. } = *told;
        EVENTS.with_borrow_mut(|events| events.push((database, hash, event)));
        self.event_count += 1;
        let (key, last_use) = ((database, hash), self.event_count);
        match event {
            KeyEvent::Used(_) | KeyEvent::Written => {
                self.keys.get_mut(&key).expect("it is inserted before").last_use = last_use;
            }
            KeyEvent::Resized(before, bytes) => {
                let known = self.keys.get_mut(&key).expect("it is inserted before");
                known.bytes = (known.bytes + bytes).checked_sub(before).expect("it had that part");
            }
            KeyEvent::Inserted(bytes) => {
                let known = self.keys.insert(key, Known { last_use, bytes });
                assert!(known.is_none(), "a key goes before it is inserted again");
            }
            KeyEvent::Missed => assert!(!self.keys.contains_key(&key), "it is there"),
            KeyEvent::Removed(bytes, _) => {
                let known = self.keys.remove(&key).expect("what is not there does not go");
                assert_eq!(known.bytes, bytes, "it goes with what it had");
            }
            KeyEvent::Flushed => self.keys.retain(|(of, _), _| *of != database),
            KeyEvent::Swapped(other) => {
                let other_of = |of| match of {
                    _ if of == database => other,
                    _ if of == other => database,
                    _ => of,
                };
                let all = std::mem::take(&mut self.keys).into_iter();
                self.keys = all.map(|((of, hash), known)| ((other_of(of), hash), known)).collect();
            }
        }
        None
    }

    fn memory_bytes(&self) -> u64 {
        self.keys.len() as u64 * BYTES_PER_KEY
    }
}
