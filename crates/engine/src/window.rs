//! The first two passes over a batch: rows and keys are looked up, and the memory that the third
//! pass will access is prefetched, so that cache misses of different requests overlap.

use base::{DatabaseIndex, Key};
use command::Command;
use keyspace::Keyspace;
use resp::{RequestView, Requests};

/// How many requests are prepared together: as many misses as a core can have under way, while
/// what the first one fetched is still in the cache when the last one runs.
const WINDOW_MAX: usize = 16;

/// What is known of one request before it runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Prepared<'a> {
    /// Its row, where the request is well formed.
    pub command: Option<&'static Command>,
    /// Its key, where it has one or two.
    pub key: Option<Key<'a>>,
    /// Its other key, where it has two.
    pub other_key: Option<Key<'a>>,
    /// It gets no reply.
    pub is_silent: bool,
}

impl<'a> Prepared<'a> {
    /// Returns its key, where it has one. What two keys mean is asked for once their shards are
    /// locked: to lock each twice before would cost more than the misses of most.
    #[inline]
    fn only_key(&self) -> Option<&Key<'a>> {
        self.key.as_ref().filter(|_| self.other_key.is_none())
    }
}

/// The next requests of a batch.
pub(crate) struct Window<'a> {
    prepared: [Prepared<'a>; WINDOW_MAX],
    count: usize,
}

impl<'a> Window<'a> {
    /// Returns an empty window.
    pub fn new() -> Window<'a> {
        Window { prepared: [Prepared::default(); WINDOW_MAX], count: 0 }
    }

    /// Prepares the requests from `first` on, as many as fit.
    pub fn fill(
        &mut self,
        keyspace: &Keyspace,
        requests: Requests<'a>,
        first: usize,
        database: DatabaseIndex,
    ) {
        self.count = (requests.len() - first).min(WINDOW_MAX);
        for (offset, prepared) in self.prepared[..self.count].iter_mut().enumerate() {
            *prepared = prepare(keyspace, requests, first + offset);
        }
        // A single request would only wait for itself.
        if self.count > 1 {
            self.prefetch(keyspace, database);
        }
    }

    /// Returns what was prepared.
    pub fn prepared(&self) -> &[Prepared<'a>] {
        &self.prepared[..self.count]
    }

    fn prefetch(&self, keyspace: &Keyspace, database: DatabaseIndex) {
        let keys = || self.prepared().iter().filter_map(Prepared::only_key);
        keys().for_each(|key| keyspace.prefetch_bucket(key, database));
        keys().for_each(|key| keyspace.prefetch_entry(key, database));
    }
}

#[inline]
fn prepare<'a>(keyspace: &Keyspace, requests: Requests<'a>, index: usize) -> Prepared<'a> {
    let request = requests.at(index);
    if let Some(foreign) = requests.foreign(index) {
        let command = command::memcached_row(foreign.verb);
        let position = command.only_key();
        let key = position.map(|position| keyspace.hasher().key(request.at(position)));
        let is_silent = foreign.is_silent;
        return Prepared { command: Some(command), key, is_silent, other_key: None };
    }
    // A request that is refused is looked at again when its turn comes, to say why.
    let Some(command) = command::resolve_quietly(request) else { return Prepared::default() };
    let key = |position| keyspace.hasher().key(request.at(position));
    match command.only_key() {
        Some(position) => {
            let key = Some(key(position));
            Prepared { command: Some(command), key, ..Prepared::default() }
        }
        None => {
            let [first, second] = few_keys(command, request).map(|position| position.map(key));
            Prepared { command: Some(command), key: first, other_key: second, is_silent: false }
        }
    }
}

/// Returns the positions of the keys in a request that has one or two where others may have more.
fn few_keys(command: &Command, request: RequestView<'_>) -> [Option<usize>; 2] {
    let mut positions = command.key_positions(request);
    let few = [positions.next(), positions.next()];
    if positions.next().is_none() { few } else { [None; 2] }
}
