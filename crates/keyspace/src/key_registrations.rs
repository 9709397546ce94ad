//! What sessions have registered for keys of a shard: watches and waits.
//!
//! A tree, ordered by the database and the secret hash of the key, for each key by the group that
//! the session chose, and within that by arrival. Registering returns the position, so that
//! finding, adding and removing cost O(log n), whatever the keys are and however many sessions
//! share one.

use std::collections::BTreeMap;
use std::ops::Bound;

use base::DatabaseIndex;
use base::step_counters::{self, CountedStep};

/// Where something is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Registration {
    pub database: DatabaseIndex,
    /// The secret hash of the key.
    pub secret: u64,
    /// Which of those who want the same key it is one of.
    pub group: u8,
    /// How many came to the shard before.
    pub arrival: u64,
}

/// What is registered for the keys of one shard. Keys with one secret hash stand together, so that
/// the caller compares their bytes.
#[derive(Debug)]
pub(crate) struct Registered<T> {
    all: BTreeMap<Registration, T>,
    /// How many there have ever been.
    arrivals: u64,
}

impl<T> Default for Registered<T> {
    fn default() -> Registered<T> {
        Registered { all: BTreeMap::new(), arrivals: 0 }
    }
}

impl<T> Registered<T> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn add(
        &mut self,
        database: DatabaseIndex,
        secret: u64,
        group: u8,
        what: T,
    ) -> Registration {
        let registration = Registration { database, secret, group, arrival: self.arrivals };
        self.arrivals += 1;
        self.all.insert(registration, what);
        registration
    }

    pub fn get(&self, registration: Registration) -> Option<&T> {
        self.all.get(&registration)
    }

    pub fn remove(&mut self, registration: Registration) -> Option<T> {
        self.all.remove(&registration)
    }

    /// Returns what is registered for keys of `database` with the hash `secret`, in each group the
    /// oldest first.
    pub fn of(
        &mut self,
        database: DatabaseIndex,
        secret: u64,
    ) -> impl Iterator<Item = (Registration, &mut T)> {
        let first = Registration { database, secret, group: 0, arrival: 0 };
        let last = Registration { group: u8::MAX, arrival: u64::MAX, ..first };
        self.all
            .range_mut(first..=last)
            .inspect(|_| step_counters::count_step(CountedStep::Registration))
            .map(|(registration, what)| (*registration, what))
    }

    /// Returns what is registered in `group` for keys of `database` with the hash `secret` behind
    /// `arrival`, or at all, the oldest first.
    pub fn behind(
        &self,
        database: DatabaseIndex,
        secret: u64,
        group: u8,
        arrival: Option<u64>,
    ) -> impl Iterator<Item = (Registration, &T)> {
        let at = |arrival| Registration { database, secret, group, arrival };
        let start = match arrival {
            Some(arrival) => Bound::Excluded(at(arrival)),
            None => Bound::Included(at(0)),
        };
        let range = self.all.range((start, Bound::Included(at(u64::MAX))));
        range
            .inspect(|_| step_counters::count_step(CountedStep::Registration))
            .map(|(registration, what)| (*registration, what))
    }

    /// Returns whether all there are are registered for keys of `database`.
    pub fn are_all_of(&self, database: DatabaseIndex) -> bool {
        let ends = [self.all.first_key_value(), self.all.last_key_value()];
        ends.into_iter().flatten().all(|(registration, _)| registration.database == database)
    }

    /// Returns what is registered for keys of `database`, those of one hash together.
    pub fn of_database(
        &mut self,
        database: DatabaseIndex,
    ) -> impl Iterator<Item = (Registration, &mut T)> {
        let first = Registration { database, secret: 0, group: 0, arrival: 0 };
        let last = Registration { secret: u64::MAX, group: u8::MAX, arrival: u64::MAX, ..first };
        self.all.range_mut(first..=last).map(|(registration, what)| (*registration, what))
    }
}
