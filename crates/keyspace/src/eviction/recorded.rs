//! A policy for tests alone: it remembers all notifications, and evicts first the key that was used
//! or inserted longest ago by its own account.

use std::cell::RefCell;
use std::collections::HashMap;

use base::prng::Prng;

use crate::eviction::policy::{Candidate, KeyEvent, Marks, Ranking, Row, Scope};

pub(crate) const ALLKEYS: Row = Row {
    name: "allkeys-recorded",
    scope: Scope::All,
    marks: Marks::Ignored,
    is_random: false,
    observes: true,
    ranking: || Box::new(Recorded::default()),
};

thread_local! {
    static EVENTS: RefCell<Vec<(u64, KeyEvent)>> = const { RefCell::new(Vec::new()) };
}

/// Returns what the policies of this thread have been told since the last call.
pub(crate) fn take_events() -> Vec<(u64, KeyEvent)> {
    EVENTS.take()
}

/// The memory that each key takes that is remembered.
pub(crate) const BYTES_PER_KEY: u64 = 24;

/// When each key was used last, by hash: the number of events before.
#[derive(Default)]
struct Recorded {
    last_uses: HashMap<u64, u64>,
    event_count: u64,
}

impl Ranking for Recorded {
    fn rank(&self, candidate: &Candidate<'_>, _random: &mut Prng) -> u64 {
        u64::MAX - 1 - self.last_uses[&candidate.hash()]
    }

    fn see(&mut self, hash: u64, event: KeyEvent) {
        EVENTS.with_borrow_mut(|events| events.push((hash, event)));
        self.event_count += 1;
        match event {
            KeyEvent::Used(_) => {
                let known = self.last_uses.insert(hash, self.event_count);
                assert!(known.is_some(), "a key is inserted before it is used");
            }
            KeyEvent::Inserted(_) => {
                let known = self.last_uses.insert(hash, self.event_count);
                assert_eq!(known, None, "a key goes before it is inserted again");
            }
            KeyEvent::Missed => assert_eq!(self.last_uses.get(&hash), None, "it is there"),
            KeyEvent::Removed(..) => {
                assert!(self.last_uses.remove(&hash).is_some(), "what is not there does not go");
            }
            KeyEvent::Flushed => self.last_uses.clear(),
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.last_uses.len() as u64 * BYTES_PER_KEY
    }
}
