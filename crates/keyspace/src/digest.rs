//! A digest of the dataset that does not depend on order, shards or history.

use std::fmt;

use arena::Cost;
use base::prng::mix;
use base::{DatabaseIndex, SecretHasher};
use collections::{CollectionView, Direction, Element, Log, Stream, StreamId};

use crate::object::{Content, Object};

/// A fixed seed: digests of different processes can be compared.
const SEEDS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];

/// The sum over all entries of a 128-bit hash of database, key, type, value, expiry, grace and
/// cost. Encodings and access times do not count. Resists accidents, not adversaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetDigest(u128);

impl DatasetDigest {
    /// Adds one entry of `database`.
    pub fn add(&mut self, database: DatabaseIndex, object: &Object<'_>) {
        let [low, high] = SEEDS.map(|seed| lane(seed, database, object));
        self.0 = self.0.wrapping_add(u128::from(high) << 64 | u128::from(low));
    }
}

impl fmt::Display for DatasetDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

fn lane(seed: u64, database: DatabaseIndex, object: &Object<'_>) -> u64 {
    let hasher = SecretHasher::new([seed, 1]);
    let expiry = object.expiry();
    let value = match object.content() {
        Content::String(bytes) => hasher.hash(&bytes),
        Content::Collection(collection) => of_collection(&hasher, collection),
    };
    let words = [
        u64::from(database.0),
        hasher.hash(object.key()),
        object.value_type() as u64,
        value,
        u64::from(expiry.is_some()),
        expiry.map_or(0, |at| at.0 as u64),
    ];
    let state = words.into_iter().fold(seed, |state, word| mix(state ^ word));
    let state = match object.grace().ms() {
        0 => state,
        grace_ms => mix(state ^ grace_ms),
    };
    match object.cost() {
        Cost::ONE => state,
        // Another word than a grace of the same number would be.
        cost => mix(state ^ !cost.number()),
    }
}

/// Returns the hash of a collection: parts that have no order are summed.
fn of_collection(hasher: &SecretHasher, collection: CollectionView<'_>) -> u64 {
    let hash = |element: Element<'_>| element.with_bytes(|bytes| hasher.hash(bytes));
    let mut sum = 0_u64;
    match collection {
        CollectionView::List(list) => {
            list.iter().for_each(|element| sum = mix(sum ^ hash(element)).wrapping_add(1));
        }
        CollectionView::Set(set) => {
            set.for_each(|member| sum = sum.wrapping_add(mix(hash(member))));
        }
        CollectionView::Hash(fields) => fields.for_each_timed(|field, value, time| {
            let pair = mix(mix(hash(field)) ^ hash(value));
            sum = sum.wrapping_add(time.map_or(pair, |time| mix(pair ^ mix(time.0 as u64))));
        }),
        CollectionView::SortedSet(set) => {
            set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                // The two zeroes are one score.
                let score = (score + 0.0).to_bits();
                sum = sum.wrapping_add(mix(mix(hash(member)) ^ mix(score)));
            });
        }
        CollectionView::Stream(stream) => sum = of_stream(hasher, stream),
    }
    sum
}

/// Returns the hash of a stream, but for the times at which consumers were seen and active.
fn of_stream(hasher: &SecretHasher, stream: &Stream) -> u64 {
    let mut sum = of_log(hasher, stream.log());
    let mut add = |word: u64| sum = mix(sum ^ word).wrapping_add(1);
    for (name, group) in stream.groups() {
        add(hasher.hash(name));
        let read = group.entries_read();
        for word in words_of(group.last_id()).into_iter().chain([read.unwrap_or(u64::MAX)]) {
            add(word);
        }
        for (_, consumer) in group.consumers() {
            add(hasher.hash(consumer.name()));
            add(consumer.pending_count() as u64);
        }
        for (id, pending) in group.pending(StreamId::MIN) {
            words_of(id).into_iter().for_each(&mut add);
            let owner = pending.consumer.map(|index| hasher.hash(group.consumer(index).name()));
            add(owner.unwrap_or_default());
            add(pending.delivered_at.0 as u64);
            add(pending.delivery_count);
        }
    }
    sum
}

fn of_log(hasher: &SecretHasher, log: &Log) -> u64 {
    let mut sum = log.len();
    let mut add = |word: u64| sum = mix(sum ^ word).wrapping_add(1);
    let counters = log.counters();
    for id in [counters.first_id, counters.last_id, counters.max_deleted_id] {
        words_of(id).into_iter().for_each(&mut add);
    }
    add(counters.entries_added);
    let mut entries = log.entries(StreamId::MIN, StreamId::MAX, Direction::Up);
    while let Some(id) = entries.advance() {
        words_of(id).into_iter().for_each(&mut add);
        while let Some((field, value)) = entries.next_field() {
            add(field.with_bytes(|bytes| hasher.hash(bytes)));
            add(value.with_bytes(|bytes| hasher.hash(bytes)));
        }
    }
    sum
}

fn words_of(id: StreamId) -> [u64; 2] {
    [id.ms, id.sequence]
}
