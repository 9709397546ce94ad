//! What sessions have registered for keys of a shard: watches and waits.
//!
//! A tree, ordered by the database and the secret hash of the key, and for each key by arrival.
//! Registering returns the position, so that finding, adding and removing cost O(log n), whatever
//! the keys are and however many sessions share one.

use std::collections::BTreeMap;
use std::ops::Bound;

use base::DatabaseIndex;
use base::probes::{self, Probe};

/// Where something is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Registration {
    pub database: DatabaseIndex,
    /// The secret hash of the key.
    pub secret: u64,
    /// How many came to the shard before.
    arrival: u64,
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

    pub fn add(&mut self, database: DatabaseIndex, secret: u64, what: T) -> Registration {
        let registration = Registration { database, secret, arrival: self.arrivals };
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

    /// Returns what is registered for keys of `database` with the hash `secret`, the oldest first.
    pub fn of(
        &mut self,
        database: DatabaseIndex,
        secret: u64,
    ) -> impl Iterator<Item = (Registration, &mut T)> {
        let at = |arrival| Registration { database, secret, arrival };
        let range = self.all.range_mut(at(0)..=at(u64::MAX));
        range
            .inspect(|_| probes::note(Probe::Registration))
            .map(|(registration, what)| (*registration, what))
    }

    /// Returns what is registered for keys of `database` with the hash `secret` from `start` on,
    /// the oldest first.
    pub fn behind(
        &self,
        database: DatabaseIndex,
        secret: u64,
        start: Bound<Registration>,
    ) -> impl Iterator<Item = (Registration, &T)> {
        let at = |arrival| Registration { database, secret, arrival };
        let start = match start {
            Bound::Unbounded => Bound::Included(at(0)),
            start => start,
        };
        let range = self.all.range((start, Bound::Included(at(u64::MAX))));
        range
            .inspect(|_| probes::note(Probe::Registration))
            .map(|(registration, what)| (*registration, what))
    }

    /// Returns what is registered for keys of `database`.
    pub fn of_database(
        &mut self,
        database: DatabaseIndex,
    ) -> impl Iterator<Item = (Registration, &mut T)> {
        let first = Registration { database, secret: 0, arrival: 0 };
        let last = Registration { secret: u64::MAX, arrival: u64::MAX, ..first };
        self.all.range_mut(first..=last).map(|(registration, what)| (*registration, what))
    }
}
