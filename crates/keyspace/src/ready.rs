//! Which awaited keys are ready, and which of them a wait is for. Names are found by their secret
//! hashes, which are computed once for each wait and each change: what is ready at once, and what
//! one session awaits, may be very many.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::step_counters::{self, CountedStep};
use base::{DatabaseIndex, Key, ShardIndex};

use crate::key_waits::KEYS_PER_HOLD_MAX;
use crate::keyspace::Keyspace;
use crate::shard_set::ShardSet;

/// An awaited key that was seen to be there.
#[derive(Clone, Debug)]
pub struct ReadyKey {
    pub(crate) database: DatabaseIndex,
    pub(crate) shard: ShardIndex,
    pub(crate) hash: u64,
    pub(crate) secret: u64,
    pub(crate) name: Arc<[u8]>,
}

/// The keys that have become ready, in the order in which they did; each once.
#[derive(Debug, Default)]
pub struct ReadyKeys {
    keys: Vec<ReadyKey>,
    /// Where the first key of each database and secret hash is. A second key of one hash, which
    /// chance alone makes, is in the list only.
    order: BTreeMap<(DatabaseIndex, u64), usize>,
    /// Others are ready as well, in shards that are not locked with those of these.
    is_part: bool,
}

impl ReadyKeys {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = &ReadyKey> {
        self.keys.iter()
    }

    /// Returns whether others are ready as well, in shards that are not locked with those of these:
    /// which of its keys is to serve a session that waits for several cannot be told then.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// Returns the keys in parts of which each can be served in one hold, and their shards: all
    /// together up to 1,024, else as many of one shard. Of each shard they are in their order.
    pub fn in_holds(self) -> impl Iterator<Item = (ShardSet, ReadyKeys)> {
        let mut keys = self.keys;
        let is_part = keys.len() > KEYS_PER_HOLD_MAX;
        if is_part {
            keys.sort_by_key(|key| key.shard);
        }
        let mut rest = keys.into_iter().peekable();
        std::iter::from_fn(move || {
            let first = rest.peek()?.shard;
            let (mut shards, mut ready) = (ShardSet::new(), ReadyKeys::default());
            ready.is_part = is_part;
            while ready.keys.len() < KEYS_PER_HOLD_MAX
                && let Some(key) = rest.next_if(|key| !is_part || key.shard == first)
            {
                shards.insert(key.shard);
                ready.add(key);
            }
            Some((shards, ready))
        })
    }

    /// Adds `key`, unless it is there.
    pub(crate) fn add(&mut self, key: ReadyKey) {
        if !self.contains(key.database, key.secret, &key.name) {
            self.order.entry((key.database, key.secret)).or_insert(self.keys.len());
            self.keys.push(key);
        }
    }

    /// Returns whether key `name` of `database`, whose secret hash is `secret`, is among them. Of
    /// two keys with one hash it may not find the second.
    fn contains(&self, database: DatabaseIndex, secret: u64, name: &[u8]) -> bool {
        step_counters::count_step(CountedStep::Registration);
        let found = self.order.get(&(database, secret));
        found.is_some_and(|&index| *self.keys[index].name == *name)
    }
}

impl Extend<ReadyKey> for ReadyKeys {
    fn extend<I: IntoIterator<Item = ReadyKey>>(&mut self, keys: I) {
        keys.into_iter().for_each(|key| self.add(key));
    }
}

impl IntoIterator for ReadyKeys {
    type Item = ReadyKey;
    type IntoIter = std::vec::IntoIter<ReadyKey>;

    fn into_iter(self) -> Self::IntoIter {
        self.keys.into_iter()
    }
}

/// The keys that a request waits for, each once, to be found by their names.
#[derive(Debug)]
pub struct AwaitedNames {
    /// The secret hash of each, and where it is first among the keys of the request.
    order: Box<[(u64, u32)]>,
}

impl AwaitedNames {
    /// Returns the names of `keys`, which are of `keyspace`.
    ///
    /// # Panics
    /// When they are more than a request can have.
    pub fn of(keys: &[Key<'_>], keyspace: &Keyspace) -> AwaitedNames {
        let hasher = keyspace.secret_hasher();
        assert!(u32::try_from(keys.len()).is_ok(), "a request is below 4 GiB");
        let mut order: Vec<(u64, u32)> =
            (0..).zip(keys).map(|(index, key)| (hasher.hash(key.bytes), index)).collect();
        order.sort_unstable();
        let name = |index: u32| keys[index as usize].bytes;
        order.dedup_by(|later, first| later.0 == first.0 && name(later.1) == name(first.1));
        AwaitedNames { order: order.into_boxed_slice() }
    }

    /// Returns the bytes that the list takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.order)
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the secret hash of each key, and where it is among the keys of the request.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.order.iter().map(|&(secret, index)| (secret, index as usize))
    }

    /// Returns which keys of the request, as keys of `database`, are among `ready`, in the order of
    /// the request. `name` tells that of a key. Costs the logarithm of the larger number for each
    /// of the smaller one.
    pub fn among<'a>(
        &self,
        ready: &ReadyKeys,
        database: DatabaseIndex,
        name: impl Fn(usize) -> &'a [u8],
    ) -> Vec<usize> {
        let mut found: Vec<usize> = if self.order.len() <= ready.keys.len() {
            let is_ready =
                |&(secret, index): &(u64, usize)| ready.contains(database, secret, name(index));
            self.iter().filter(is_ready).map(|(_, index)| index).collect()
        } else {
            let ready = ready.iter().filter(|key| key.database == database);
            ready.filter_map(|key| self.find(key, &name)).collect()
        };
        found.sort_unstable();
        found
    }

    /// Returns where `key` is among the keys of the request.
    fn find<'a>(&self, key: &ReadyKey, name: &impl Fn(usize) -> &'a [u8]) -> Option<usize> {
        step_counters::count_step(CountedStep::Registration);
        let first = self.order.partition_point(|&(secret, _)| secret < key.secret);
        let alike = self.order[first..].iter().take_while(|&&(secret, _)| secret == key.secret);
        let mut indexes = alike.map(|&(_, index)| index as usize);
        indexes.find(|&index| *name(index) == *key.name)
    }
}
