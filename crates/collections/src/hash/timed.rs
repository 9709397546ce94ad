//! A hash some of whose fields expire: all fields as in any other hash, and beside them the times
//! of those that have one, in order.
//!
//! Nothing here removes a field because its time has come: a view knows the time, and has the
//! fields that have expired by then absent from what it finds. They count in its length until they
//! are removed, as in Redis.

use std::sync::Arc;

use base::{SecretHasher, UnixMs};

use super::{Body, Hash, HashView};
use crate::compact_limits::{Limits, ListLimit, Rules};
use crate::element::Element;
use crate::growth::sorted_set_growth_bound;
use crate::hash_table::Entries;
use crate::heap_bytes;
use crate::pairs::{PairTable, Pairs};
use crate::sorted_set::{Direction, SortedSet};
use crate::walk::{Freed, Keeper, Walked, put_time};

/// The latest time that a field may have, in milliseconds: what a double tells exactly, and a
/// payload of Redis has room for.
pub const FIELD_TIME_MS_MAX: i64 = (1 << 48) - 2;

/// What whoever keeps timed hashes in the order of their times takes for each, at most: an entry of
/// a tree that is less than half full.
const REGISTRY_BYTES: u64 = 64;

/// More times than this are in a table, so that a look for each of many fields costs little.
const TIMES_IN_PACK_MAX: u64 = 32;

/// The fields and the times of some of them.
#[derive(Clone)]
pub(super) struct TimedHash {
    /// All fields, in a hash that is not timed.
    fields: Hash,
    /// The fields that expire; each score is a time in milliseconds. Never empty.
    times: SortedSet,
    /// The key that the hash is the value of, for who finds it by its time; empty before it is
    /// stored.
    key: Box<[u8]>,
    hasher: SecretHasher,
}

/// A timed hash as it is at one time.
#[derive(Clone, Copy)]
pub(super) struct TimedView<'a> {
    hash: &'a TimedHash,
    now: UnixMs,
}

/// Maps numbers below the number of fields that have not expired to the indexes of these fields.
pub struct LiveIndexes {
    /// For each field that has expired, in the order of the indexes, how many before its index have
    /// not.
    live_before: Vec<u32>,
}

/// Returns a bound of what the times of `fields` take in a hash of a key of `key_bytes` bytes.
pub fn field_times_growth_bound<'e>(
    fields: impl Iterator<Item = &'e [u8]>,
    key_bytes: usize,
) -> u64 {
    sorted_set_growth_bound(fields) + frame_bytes(key_bytes)
}

/// Returns what a timed hash takes beside its fields and their times.
fn frame_bytes(key_bytes: usize) -> u64 {
    heap_bytes(size_of::<TimedHash>()) + heap_bytes(key_bytes) + REGISTRY_BYTES
}

impl TimedHash {
    /// Returns how the times are stored.
    fn rules(&self) -> Rules {
        rules_of_times(self.hasher)
    }

    fn time_of(&self, field: &[u8]) -> Option<UnixMs> {
        time_in(&self.times, field, &self.rules())
    }

    /// Returns what a walk leads through: the fields alone, where it has begun before any of them
    /// had a time.
    pub fn walked(&mut self) -> Option<&mut dyn Walked> {
        let fields = self.fields.walked()?;
        match fields.keeper().is_none_or(|keeper| keeper.has_times) {
            true => Some(self),
            false => self.fields.walked(),
        }
    }

    /// Returns the fields and the times, to change those of `field`: a walk that gives times has
    /// its bucket by then, as the table of the fields alone does not know them.
    fn changing(&mut self, field: &[u8]) -> (&mut Hash, &mut SortedSet) {
        if let Body::Large(table) = &mut self.fields.body
            && table.keeper().is_some_and(|keeper| keeper.has_times)
        {
            let hash = self.hasher.hash(field) as u32;
            table.keep_bucket_with(hash, put_timed(&self.times, self.hasher));
        }
        (&mut self.fields, &mut self.times)
    }

    /// Returns the table of the fields, and the times.
    fn table(&mut self) -> (&mut PairTable, &SortedSet) {
        match &mut self.fields.body {
            Body::Large(table) => (table, &self.times),
            Body::Small(_) | Body::Timed(_) => unreachable!("nobody walks through what is compact"),
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.fields.memory_bytes() + self.times.memory_bytes() + frame_bytes(self.key.len())
    }

    pub fn give_back(&mut self) {
        self.fields.give_back();
        self.times.give_back();
    }

    pub fn view_at(&self, now: UnixMs) -> TimedView<'_> {
        TimedView { hash: self, now }
    }

    fn next_time(&self) -> UnixMs {
        let mut first = None;
        self.times.view().for_each(0, 1, Direction::Up, |_, score| first = Some(score));
        time_of_score(first.expect("a timed hash has times"))
    }

    pub fn prepare<'e>(&mut self, parts: impl Iterator<Item = &'e [u8]>, rules: &Rules) {
        self.fields.prepare(parts, rules);
    }
}

impl Walked for TimedHash {
    fn begin(&mut self, keeper: Arc<Keeper>) -> u64 {
        self.table().0.begin(keeper)
    }

    fn keeper(&self) -> Option<&Arc<Keeper>> {
        match &self.fields.body {
            Body::Large(table) => table.keeper(),
            Body::Small(_) | Body::Timed(_) => None,
        }
    }

    fn step(&mut self, is_due: &mut dyn FnMut() -> bool, out: &mut Vec<u8>) -> bool {
        let hasher = self.hasher;
        let (table, times) = self.table();
        table.step_with(is_due, out, put_timed(times, hasher))
    }

    fn end(&mut self) -> Option<Freed> {
        self.table().0.end()
    }
}

/// Returns what appends the parts of a field that has its time among `times`, if it has one.
fn put_timed(times: &SortedSet, hasher: SecretHasher) -> impl Fn(&Pairs, usize, &mut Vec<u8>) {
    let rules = rules_of_times(hasher);
    move |pairs, position, out| {
        put_time(time_in(times, pairs.field(position), &rules), out);
        pairs.put_parts(position, out);
    }
}

/// Returns how times are stored.
fn rules_of_times(hasher: SecretHasher) -> Rules {
    let limits = Limits {
        list: ListLimit(0),
        hash_entries: 0,
        hash_value_bytes: 0,
        set_integers: 0,
        set_entries: 0,
        set_value_bytes: 0,
        sorted_set_entries: TIMES_IN_PACK_MAX,
        sorted_set_value_bytes: 64,
        ..Limits::default()
    };
    Rules { limits, hasher }
}

fn time_in(times: &SortedSet, field: &[u8], rules: &Rules) -> Option<UnixMs> {
    times.view().score(field, rules).map(time_of_score)
}

/// The fields' times. A hash is timed while any of its fields has one.
impl Hash {
    /// Returns whether any field has a time.
    #[inline]
    pub fn is_timed(&self) -> bool {
        matches!(self.body, Body::Timed(_))
    }

    /// Returns when the first field expires, if any does; it may have expired.
    #[inline]
    pub fn next_expiry(&self) -> Option<UnixMs> {
        match &self.body {
            Body::Timed(timed) => Some(timed.next_time()),
            _ => None,
        }
    }

    /// Makes `field`, which is there, expire at `at`, or at no time; returns the time that it had.
    ///
    /// # Panics
    /// When the time is negative or beyond [`FIELD_TIME_MS_MAX`].
    pub fn set_time(&mut self, field: &[u8], at: Option<UnixMs>, rules: &Rules) -> Option<UnixMs> {
        let Some(UnixMs(at)) = at else { return self.forget_time(field) };
        assert!((0..=FIELD_TIME_MS_MAX).contains(&at), "a time of a field: {at}");
        self.make_timed(rules);
        let Body::Timed(timed) = &mut self.body else { unreachable!("it was made so") };
        let times_rules = timed.rules();
        let (_, times) = timed.changing(field);
        times.insert(field, at as f64, &times_rules).map(time_of_score)
    }

    /// As [`Hash::set`], and the field keeps the time that it has.
    pub fn set_keeping_time(&mut self, field: &[u8], value: &[u8], rules: &Rules) -> bool {
        match &mut self.body {
            Body::Timed(timed) => timed.changing(field).0.set(field, value, rules),
            _ => self.set(field, value, rules),
        }
    }

    /// Returns the names of the fields that have expired by `now`, the first `count_max` to do so,
    /// and no more once the names have `bytes_max`.
    pub fn expired_fields(&self, now: UnixMs, count_max: usize, bytes_max: usize) -> Vec<Vec<u8>> {
        let Body::Timed(timed) = &self.body else { return Vec::new() };
        let count = timed.view_at(now).expired_count().min(count_max);
        let (mut names, mut bytes) = (Vec::with_capacity(count), 0);
        timed.times.view().for_each(0, count, Direction::Up, |field, _| {
            if bytes < bytes_max {
                let name = field.to_vec();
                bytes += name.len();
                names.push(name);
            }
        });
        names
    }

    /// Returns the key that [`Hash::set_key`] told a timed hash.
    pub fn key(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Timed(timed) => Some(&timed.key),
            _ => None,
        }
    }

    /// Tells a hash whose value of which key it is; one that is not timed does not keep it.
    #[inline]
    pub fn set_key(&mut self, key: &[u8]) {
        if let Body::Timed(timed) = &mut self.body
            && *timed.key != *key
        {
            timed.key = key.into();
        }
    }

    /// As [`Hash::set`] of a timed hash: the field loses its time.
    #[cold]
    pub(super) fn set_timed(&mut self, field: &[u8], value: &[u8], rules: &Rules) -> bool {
        let is_new = self.set_keeping_time(field, value, rules);
        if !is_new {
            self.forget_time(field);
        }
        is_new
    }

    /// As [`Hash::remove`] of a timed hash.
    #[cold]
    pub(super) fn remove_timed(&mut self, field: &[u8], rules: &Rules) -> bool {
        let Body::Timed(timed) = &mut self.body else { unreachable!("the caller looked") };
        let was_there = timed.changing(field).0.remove(field, rules);
        if was_there {
            self.forget_time(field);
        }
        was_there
    }

    /// Takes the time of `field` away; with the last of them the hash is timed no more.
    fn forget_time(&mut self, field: &[u8]) -> Option<UnixMs> {
        let Body::Timed(timed) = &mut self.body else { return None };
        let rules = timed.rules();
        let (_, times) = timed.changing(field);
        let old = times.remove(field, &rules).map(time_of_score);
        if timed.times.is_empty() {
            let fields = std::mem::take(&mut timed.fields);
            *self = fields;
        }
        old
    }

    fn make_timed(&mut self, rules: &Rules) {
        if self.is_timed() {
            return;
        }
        let mut fields = std::mem::take(self);
        if let Body::Small(pack) = &mut fields.body {
            // It may be in memory that is lent for a change.
            pack.shrink();
        }
        let timed = TimedHash {
            fields,
            times: SortedSet::for_members(0, 0, rules),
            key: Box::default(),
            hasher: rules.hasher,
        };
        self.body = Body::Timed(Box::new(timed));
    }
}

impl<'a> HashView<'a> {
    /// Returns the number of fields that have not expired.
    #[inline]
    pub fn live_len(self) -> usize {
        self.len() - self.expired_count()
    }

    /// Returns the number of fields that have expired and are still there.
    #[inline]
    pub fn expired_count(self) -> usize {
        match self.timed() {
            Some(timed) => timed.expired_count(),
            None => 0,
        }
    }

    /// Returns whether any field has a time.
    #[inline]
    pub fn is_timed(self) -> bool {
        self.timed().is_some()
    }

    /// Returns the time of `field`, which is there and has not expired, if it has one.
    pub fn time_of(self, field: &[u8]) -> Option<UnixMs> {
        self.timed()?.hash.time_of(field)
    }

    /// Returns when the first field expires, if any does; it may have expired.
    pub fn next_expiry(self) -> Option<UnixMs> {
        self.timed().map(|timed| timed.hash.next_time())
    }

    /// Visits all fields that have not expired, with their values and their times.
    pub fn for_each_timed(self, mut visit: impl FnMut(Element<'_>, Element<'_>, Option<UnixMs>)) {
        match self.timed() {
            None => self.for_each(|field, value| visit(field, value, None)),
            Some(timed) => timed.for_each_timed(&mut visit),
        }
    }

    /// Returns the fields of a listpack, expired or not, with their values: those that have times
    /// first, in the order of the times. Returns none of a table.
    pub fn listpack_by_time(self) -> Vec<(Element<'a>, Element<'a>, Option<UnixMs>)> {
        let time_of = |field: Element<'_>| field.with_bytes(|field| self.time_of(field));
        let pairs = self.listpack_fields().into_iter();
        let mut fields: Vec<_> =
            pairs.map(|(field, value)| (field, value, time_of(field))).collect();
        fields.sort_by_key(|(_, _, time)| time.map_or(i64::MAX, |time| time.0));
        fields
    }

    /// Returns the field at `index` below the length, with its value, unless it has expired.
    pub fn live_at(self, index: usize) -> Option<(Element<'a>, Element<'a>)> {
        let (field, value) = self.at(index)?;
        let Some(timed) = self.timed() else { return Some((field, value)) };
        let is_past = timed.is_past(field.with_bytes(|field| timed.hash.time_of(field)));
        (!is_past).then_some((field, value))
    }

    /// Returns the indexes of the fields that have not expired; [`LiveIndexes::bytes`] bounds what
    /// they take.
    pub fn live_indexes(self) -> LiveIndexes {
        let mut expired = match self.timed() {
            Some(timed) => timed.expired_indexes(),
            None => Vec::new(),
        };
        expired.sort_unstable();
        for (number, index) in expired.iter_mut().enumerate() {
            *index -= number as u32;
        }
        LiveIndexes { live_before: expired }
    }
}

impl LiveIndexes {
    /// Returns a bound of what those of a hash take of which `expired_count` fields have expired.
    pub fn bytes(expired_count: usize) -> u64 {
        (expired_count * size_of::<u32>()) as u64
    }

    /// Returns the index of the field that has `number` fields before it which have not expired.
    pub fn index(&self, number: usize) -> usize {
        number + self.live_before.partition_point(|before| *before as usize <= number)
    }
}

impl<'a> TimedView<'a> {
    /// Returns all fields, expired or not.
    #[inline]
    pub fn fields(self) -> HashView<'a> {
        self.hash.fields.view()
    }

    pub fn memory_bytes(self) -> u64 {
        self.hash.memory_bytes()
    }

    pub fn get(self, field: &[u8], rules: &Rules) -> Option<Element<'a>> {
        let value = self.fields().get(field, rules)?;
        let is_live = !self.has_expired() || !self.is_past(self.hash.time_of(field));
        is_live.then_some(value)
    }

    pub fn for_each_timed(self, visit: &mut dyn FnMut(Element<'_>, Element<'_>, Option<UnixMs>)) {
        self.fields().for_each(|field, value| {
            let time = field.with_bytes(|field| self.hash.time_of(field));
            if !self.is_past(time) {
                visit(field, value, time);
            }
        });
    }

    pub fn for_each(self, visit: &mut dyn FnMut(Element<'_>, Element<'_>)) {
        match self.has_expired() {
            false => self.fields().for_each(visit),
            true => self.for_each_timed(&mut |field, value, _| visit(field, value)),
        }
    }

    pub fn scan(self, cursor: u64, visit: &mut dyn FnMut(Element<'_>, Element<'_>)) -> u64 {
        let has_expired = self.has_expired();
        self.fields().scan(cursor, |field, value| {
            let is_past = || self.is_past(field.with_bytes(|field| self.hash.time_of(field)));
            if !has_expired || !is_past() {
                visit(field, value);
            }
        })
    }

    fn has_expired(self) -> bool {
        self.is_past(Some(self.hash.next_time()))
    }

    fn expired_count(self) -> usize {
        self.hash.times.view().partition_point(|_, score| self.is_past(Some(time_of_score(score))))
    }

    fn expired_indexes(self) -> Vec<u32> {
        let mut indexes = Vec::with_capacity(self.expired_count());
        match &self.hash.fields.body {
            Body::Large(table) => {
                let (times, count) = (self.hash.times.view(), indexes.capacity());
                times.for_each(0, count, Direction::Up, |field, _| {
                    let find = |field: &[u8]| table.find(self.hash.hasher.hash(field), field);
                    let position = field.with_bytes(find).expect("what has a time is a field");
                    indexes.push(table.index_of(position) as u32);
                });
            }
            _ => {
                let mut index = 0;
                self.fields().for_each(|field, _| {
                    if self.is_past(field.with_bytes(|field| self.hash.time_of(field))) {
                        indexes.push(index);
                    }
                    index += 1;
                });
            }
        }
        indexes
    }

    /// Returns whether `time` is over: the moment itself still counts as alive, as for keys.
    fn is_past(self, time: Option<UnixMs>) -> bool {
        time.is_some_and(|time| self.now > time)
    }
}

fn time_of_score(score: f64) -> UnixMs {
    UnixMs(score as i64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base::prng::Prng;

    use super::*;

    type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

    fn rules() -> Rules {
        let limits = Limits { hash_entries: 40, ..Limits::default() };
        Rules { limits, hasher: SecretHasher::new([1, 1]) }
    }

    fn check(hash: &Hash, model: &Model, now: i64) {
        let rules = rules();
        let view = hash.view_at(UnixMs(now));
        let is_live = |time: &Option<i64>| time.is_none_or(|time| now <= time);
        let live = model.iter().filter(|(_, (_, time))| is_live(time));
        let live: Model = live.map(|(field, rest)| (field.clone(), rest.clone())).collect();
        assert_eq!((view.len(), view.live_len()), (model.len(), live.len()));
        let mut found = Model::new();
        view.for_each_timed(|field, value, time| {
            let time = time.map(|time| time.0);
            assert!(found.insert(field.to_vec(), (value.to_vec(), time)).is_none());
        });
        assert_eq!(found, live);
        let pairs = || live.iter().map(|(field, (value, _))| (field.clone(), value.clone()));
        let mut seen = BTreeMap::new();
        view.for_each(|field, value| {
            seen.insert(field.to_vec(), value.to_vec());
        });
        assert!(seen.into_iter().eq(pairs()));
        let (mut seen, mut cursor) = (BTreeMap::new(), 0);
        loop {
            cursor = view.scan(cursor, |field, value| {
                seen.insert(field.to_vec(), value.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert!(seen.into_iter().eq(pairs()));
        let indexes = view.live_indexes();
        let at = |number| view.at(indexes.index(number)).map(|(f, v)| (f.to_vec(), v.to_vec()));
        let by_index: BTreeMap<_, _> = (0..live.len()).map_while(at).collect();
        assert!(by_index.into_iter().eq(pairs()));
        let found = (0..view.len()).filter_map(|index| view.live_at(index));
        let found: BTreeMap<_, _> = found.map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
        assert!(found.into_iter().eq(pairs()));
        for (field, (value, time)) in model {
            let expected = is_live(time).then(|| value.clone());
            assert_eq!(view.get(field, &rules).map(|value| value.to_vec()), expected);
            assert_eq!(view.time_of(field).map(|time| time.0), *time);
        }
        let times = model.values().filter_map(|(_, time)| *time);
        assert_eq!(hash.next_expiry().map(|time| time.0), times.clone().min());
        let in_order = hash.view().listpack_by_time();
        assert_eq!(in_order.len(), if hash.is_small() { model.len() } else { 0 });
        assert!(in_order.iter().map(|(.., time)| time.map_or(i64::MAX, |it| it.0)).is_sorted());
        for (field, value, time) in in_order {
            assert_eq!(model[&field.to_vec()], (value.to_vec(), time.map(|time| time.0)));
        }
        let expired = hash.expired_fields(UnixMs(now), 3, usize::MAX);
        let past = times.filter(|time| now > *time).count();
        assert_eq!(expired.len(), past.min(3));
        assert!(expired.iter().all(|field| !is_live(&model[field].1)));
        assert_eq!(hash.is_timed(), model.values().any(|(_, time)| time.is_some()));
    }

    #[test]
    fn any_history_leaves_what_a_map_with_times_would_have() {
        let (rules, mut random) = (rules(), Prng::new(3));
        for bound in [5, 30, 300] {
            let (mut hash, mut model) = (Hash::default(), Model::new());
            for step in 0..3000 {
                let field = format!("field {}", random.below(bound)).into_bytes();
                let value = vec![b'v'; random.below(40) as usize];
                match random.below(6) {
                    0 => {
                        model.insert(field.clone(), (value.clone(), None));
                        hash.set(&field, &value, &rules);
                    }
                    1 => {
                        let time = model.get(&field).and_then(|(_, time)| *time);
                        let is_new = model.insert(field.clone(), (value.clone(), time)).is_none();
                        assert_eq!(hash.set_keeping_time(&field, &value, &rules), is_new);
                    }
                    2 => {
                        let was_there = model.remove(&field).is_some();
                        assert_eq!(hash.remove(&field, &rules), was_there);
                    }
                    choice => {
                        let Some((_, time)) = model.get_mut(&field) else { continue };
                        let next = (choice > 3).then(|| random.below(1000) as i64);
                        let old = std::mem::replace(time, next);
                        let was = hash.set_time(&field, next.map(UnixMs), &rules);
                        assert_eq!(was.map(|time| time.0), old);
                    }
                }
                if step % 20 == 0 {
                    check(&hash, &model, random.below(1100) as i64);
                }
            }
            check(&hash, &model, 500);
        }
    }

    #[test]
    fn times_are_kept_to_the_millisecond_and_their_memory_is_bounded() {
        let rules = rules();
        let mut hash = Hash::default();
        let names: Vec<Vec<u8>> = (0..5000).map(|number| vec![b'f'; 1 + number % 40]).collect();
        let names: Vec<Vec<u8>> = names
            .into_iter()
            .enumerate()
            .map(|(number, name)| [name, number.to_string().into_bytes()].concat())
            .collect();
        names.iter().for_each(|name| {
            hash.set(name, b"v", &rules);
        });
        let plain_bytes = hash.memory_bytes();
        for (number, name) in names.iter().enumerate() {
            hash.set_time(name, Some(UnixMs(FIELD_TIME_MS_MAX - number as i64)), &rules);
        }
        hash.set_key(b"the key");
        for (number, name) in names.iter().enumerate() {
            let time = hash.view().time_of(name);
            assert_eq!(time, Some(UnixMs(FIELD_TIME_MS_MAX - number as i64)));
        }
        let grown = hash.memory_bytes() - plain_bytes;
        let bound = field_times_growth_bound(names.iter().map(Vec::as_slice), 7);
        assert!(grown <= bound + 512 * 100 + 4096, "{grown} of {bound}");
        assert!(grown > bound / 3, "{grown} of {bound}");
        names.iter().for_each(|name| {
            hash.set_time(name, None, &rules);
        });
        assert!(!hash.is_timed() && hash.key().is_none());
        assert_eq!(hash.memory_bytes(), plain_bytes);
    }
}
