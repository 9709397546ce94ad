//! A policy for tests alone: it remembers all notifications, and evicts first the key that was used
//! or inserted longest ago by its own account. It checks that the notifications fit together.

use std::cell::RefCell;
use std::collections::HashMap;

use arena::AccessMark;
use base::DatabaseIndex;
use base::prng::Prng;

use crate::eviction::policy::{Candidate, KeyEvent, Marks, Ranking, RankingKind, Row, Scope, Told};

pub(crate) const ALLKEYS: Row = Row {
    name: "allkeys-recorded",
    scope: Scope::All,
    marks: Marks::Own,
    is_random: false,
    observes: true,
    samples_min: 1,
    block_samples_min: 1,
    samples_anywhere_min: 1,
    ranking: |_| RankingKind::Other(Box::new(Recorded::default())),
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

/// The bytes of the keys, by database and hash. A mark is the number of events before the key was
/// used last.
#[derive(Default)]
struct Recorded {
    keys: HashMap<(DatabaseIndex, u64), u64>,
    event_count: u32,
}

impl Ranking for Recorded {
    fn rank(&self, candidate: &Candidate<'_>, _random: &mut Prng) -> u64 {
        u64::MAX - 1 - u64::from(candidate.object.mark().word)
    }

    fn see(&mut self, told: &Told<'_>, event: KeyEvent) -> Option<AccessMark> {
        let Told { database, hash, .. } = *told;
        EVENTS.with_borrow_mut(|events| events.push((database, hash, event)));
        self.event_count += 1;
        let key = (database, hash);
        match event {
            KeyEvent::Used(_) | KeyEvent::Written => {
                assert!(self.keys.contains_key(&key), "it is inserted before");
            }
            KeyEvent::Resized(before, bytes) => {
                let known = self.keys.get_mut(&key).expect("it is inserted before");
                *known = (*known + bytes).checked_sub(before).expect("it had that part");
            }
            KeyEvent::Inserted(bytes) => {
                let known = self.keys.insert(key, bytes);
                assert!(known.is_none(), "a key goes before it is inserted again");
            }
            KeyEvent::Missed => assert!(!self.keys.contains_key(&key), "it is there"),
            KeyEvent::Removed(bytes, _) => {
                let known = self.keys.remove(&key).expect("what is not there does not go");
                assert_eq!(known, bytes, "it goes with what it had");
            }
            KeyEvent::Flushed { keys, bytes } => {
                let gone = self.keys.extract_if(|(of, _), _| *of == database);
                let gone: Vec<u64> = gone.map(|(_, bytes)| bytes).collect();
                assert_eq!((gone.len() as u64, gone.iter().sum::<u64>()), (keys, bytes));
            }
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
        Some(AccessMark { word: self.event_count, counts: true })
    }

    fn memory_bytes(&self) -> u64 {
        self.keys.len() as u64 * BYTES_PER_KEY
    }
}
