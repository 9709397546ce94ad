//! The first two passes over a batch: rows and keys are looked up, and the memory that the third
//! pass will access is prefetched, so that cache misses of different requests overlap.

use base::{DatabaseIndex, Key};
use command::Command;
use keyspace::Keyspace;
use resp::{RequestView, Requests};

/// How many requests are prepared together: as many misses as a core can have under way, while
/// what the first one fetched is still in the cache when the last one runs.
const WINDOW_MAX: usize = 16;
/// The requests of a batch that share a window with those of other sessions.
const FEW_MAX: usize = 4;

/// What is known of one request before it runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Prepared<'a> {
    /// Its row, where the request is well formed.
    pub command: Option<&'static Command>,
    /// Its key, where it has exactly one.
    pub key: Option<Key<'a>>,
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
        self.prepare(keyspace, requests, first);
        // A single request would only wait for itself.
        if self.count > 1 {
            self.prefetch(keyspace, database);
        }
    }

    #[inline]
    fn prepare(&mut self, keyspace: &Keyspace, requests: Requests<'a>, first: usize) {
        self.count = (requests.len() - first).min(WINDOW_MAX);
        if requests.are_foreign() {
            self.fill_foreign(keyspace, requests, first);
        } else {
            for (offset, prepared) in self.prepared[..self.count].iter_mut().enumerate() {
                *prepared = prepare(keyspace, requests, first + offset);
            }
        }
    }

    /// Prepares requests that another decoder has understood. Apart, so that those of RESP do not
    /// ask each whether it is one.
    #[inline(never)]
    fn fill_foreign(&mut self, keyspace: &Keyspace, requests: Requests<'a>, first: usize) {
        for (index, prepared) in (first..).zip(&mut self.prepared[..self.count]) {
            let (request, foreign) = (requests.at(index), requests.foreign(index));
            let command = foreign.map(|foreign| command::memcached_row(foreign.verb));
            let position = command.and_then(|command| command.only_key());
            let key = position.map(|position| keyspace.hasher().key(request.at(position)));
            *prepared = Prepared { command, key };
        }
    }

    /// Returns what was prepared.
    pub fn prepared(&self) -> &[Prepared<'a>] {
        &self.prepared[..self.count]
    }

    fn prefetch(&self, keyspace: &Keyspace, database: DatabaseIndex) {
        let keys = || self.prepared().iter().filter_map(|prepared| prepared.key.as_ref());
        keys().for_each(|key| keyspace.prefetch_bucket(key, database));
        keys().for_each(|key| keyspace.prefetch_entry(key, database));
    }
}

/// Asks the cache for what the requests of `batches` of different sessions will access, each in its
/// database, as far as they have few requests and fit into one window: those of one window hide
/// each other's misses. A batch of more hides its misses itself when it runs.
pub(crate) fn prefetch_batches<'a>(
    keyspace: &Keyspace,
    batches: impl Iterator<Item = (Requests<'a>, DatabaseIndex)>,
) {
    let mut keys = [None; WINDOW_MAX];
    let mut count = 0;
    let mut window = Window::new();
    for (requests, database) in batches {
        if requests.is_empty() || requests.len() > (WINDOW_MAX - count).min(FEW_MAX) {
            continue;
        }
        window.prepare(keyspace, requests, 0);
        for key in window.prepared().iter().filter_map(|prepared| prepared.key) {
            keys[count] = Some((key, database));
            count += 1;
        }
    }
    let keys = || keys[..count].iter().flatten();
    keys().for_each(|(key, database)| keyspace.prefetch_bucket(key, *database));
    keys().for_each(|(key, database)| keyspace.prefetch_entry(key, *database));
}

#[inline]
fn prepare<'a>(keyspace: &Keyspace, requests: Requests<'a>, index: usize) -> Prepared<'a> {
    let request = requests.at(index);
    // A request that is refused is looked at again when its turn comes, to say why.
    let Some(command) = command::resolve_quietly(request) else { return Prepared::default() };
    let position = command.only_key().or_else(|| sole_key(command, request));
    let key = position.map(|position| keyspace.hasher().key(request.at(position)));
    Prepared { command: Some(command), key }
}

/// Returns the position of the key in a request that has one where others may have more.
fn sole_key(command: &Command, request: RequestView<'_>) -> Option<usize> {
    // Where several rules find its keys it nearly always has several.
    if command.keys.len() > 1 {
        return None;
    }
    let mut positions = command.key_positions(request);
    let position = positions.next()?;
    positions.next().is_none().then_some(position)
}
