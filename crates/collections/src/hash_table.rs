//! The hash table of large collections.
//!
//! Entries are close together, so that one of them can be picked by number; buckets refer to them
//! by position and chain them. How they are stored is a type's own: an array here, `pairs.rs` for
//! hashes. Linear hashing: buckets split and merge one at a time, so that no change moves more than
//! a chain, at any size.

use std::sync::Arc;

use base::BucketWalk;
use base::step_counters::{self, CountedStep};

use crate::chunked::Chunked;
use crate::heap_bytes;
use crate::walk::{Freed, Keeper, WalkPlace, Walked, put_part, put_time};

/// No entry.
const NONE: u32 = u32::MAX;
/// How many buckets a walk has loaded together.
const AHEAD: usize = 16;
/// The most entries of a table.
pub(crate) const ENTRY_COUNT_MAX: usize = NONE as usize;

/// The entries of a table, each at a position.
pub(crate) trait Entries: Default {
    /// Returns the number of entries.
    fn len(&self) -> usize;

    /// Returns the bytes of memory that they take beside themselves.
    fn memory_bytes(&self) -> u64;

    /// Returns the low half of the hash of the name of the entry at `position`, and the position of
    /// the next entry in the bucket.
    fn link(&self, position: usize) -> (u32, u32);

    /// Makes the entry at `next` the next of that at `position`.
    fn set_next(&mut self, position: usize, next: u32);

    /// Returns whether the entry at `position` is that of `name`, whose hash is `hash`, and the
    /// position of the next entry in the bucket.
    fn compare(&self, position: usize, hash: u32, name: &[u8]) -> (bool, u32);

    /// Returns the position of the entry that takes the place of that at `position` once it goes.
    fn last_beside(&self, position: usize) -> usize;

    /// Appends the parts of the entry at `position` to `out`, as a walk gives them.
    fn put_parts(&self, position: usize, out: &mut Vec<u8>);
}

/// Entries by name and by position.
#[derive(Clone)]
pub(crate) struct Table<E> {
    pub(crate) entries: E,
    /// The first entry of each bucket.
    heads: Chunked<u32>,
    walk: WalkPlace<TableWalk>,
}

/// How far a walk is.
struct TableWalk {
    buckets: BucketWalk,
    keeper: Arc<Keeper>,
}

impl<E: Entries> Default for Table<E> {
    fn default() -> Table<E> {
        let mut heads = Chunked::default();
        heads.push(NONE);
        Table { entries: E::default(), heads, walk: WalkPlace::default() }
    }
}

impl<E: Entries> Table<E> {
    /// Returns an empty table with buckets for `count` entries, so that none has to be split until
    /// they are more.
    pub fn with_buckets(count: usize) -> Table<E> {
        let mut table = Table::default();
        (1..count.min(ENTRY_COUNT_MAX)).for_each(|_| table.heads.push(NONE));
        table
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.entries.memory_bytes() + self.heads.memory_bytes()
    }

    /// Returns the position of `name`, whose hash is `hash`.
    #[inline]
    pub fn find(&self, hash: u64, name: &[u8]) -> Option<usize> {
        let hash = hash as u32;
        let mut position = *self.heads.get(self.bucket_of(hash));
        while position != NONE {
            step_counters::count_step(CountedStep::Member);
            let (is_found, next) = self.entries.compare(position as usize, hash, name);
            if is_found {
                return Some(position as usize);
            }
            position = next;
        }
        None
    }

    /// Adds the entry that `push` makes, whose name has this `hash` and is not there, and which the
    /// position that `push` gets follows; returns the entry's position.
    #[inline]
    pub fn add(&mut self, hash: u32, push: impl FnOnce(&mut E, u32) -> usize) -> usize {
        assert!(self.entries.len() < ENTRY_COUNT_MAX, "a table's entries are bounded");
        self.before_change(hash);
        if self.entries.len() >= self.heads.len() {
            self.split();
        }
        let head = self.heads.get_mut(bucket_of(hash, self.heads.len()));
        let position = push(&mut self.entries, *head);
        *head = position as u32;
        position
    }

    /// Takes the entry at `position` out of its bucket, and refers to the entry that will take its
    /// place by that position.
    pub fn unlink(&mut self, position: usize) {
        let (hash, next) = self.entries.link(position);
        self.before_change(hash);
        self.relink(hash, position, next);
        let last = self.entries.last_beside(position);
        if position != last {
            let (hash, _) = self.entries.link(last);
            self.relink(hash, last, position as u32);
        }
    }

    /// Merges buckets after an entry went.
    pub fn shrink(&mut self) {
        // Fewer buckets than half full; two go for each entry until it fits.
        for _ in 0..2 {
            if self.heads.len() > 1 && self.entries.len() * 2 < self.heads.len() {
                self.merge();
            }
        }
    }

    /// Visits the positions in some buckets and returns the cursor to go on with; starts and ends
    /// at 0. An entry that is there from the first call to the last is visited at least once.
    ///
    /// The cursor counts buckets with the bits reversed, as Redis's does: what was visited stays
    /// visited when buckets split or merge.
    pub fn scan_positions(&self, cursor: u64, mut visit: impl FnMut(usize)) -> u64 {
        let count = self.heads.len() as u64;
        let mask = count.next_power_of_two() - 1;
        let bucket = cursor & mask;
        let bucket = if bucket < count { bucket } else { bucket & (mask >> 1) };
        let mut position = *self.heads.get(bucket as usize);
        while position != NONE {
            visit(position as usize);
            (_, position) = self.entries.link(position as usize);
        }
        // A bucket that has not split yet stands for two.
        let is_split = bucket | ((mask >> 1) + 1);
        let mask = if bucket <= mask >> 1 && is_split >= count { mask >> 1 } else { mask };
        let next = (bucket | !mask).reverse_bits().wrapping_add(1);
        next.reverse_bits()
    }

    /// Gives the walk that goes on what is in the bucket of `hash`, which is about to change, where
    /// it does not have it.
    #[inline]
    fn before_change(&mut self, hash: u32) {
        if self.walk.0.is_some() {
            self.keep_bucket_of(hash);
        }
    }

    /// As [`Table::before_change`], of the entry at `position`.
    #[inline]
    pub fn before_change_at(&mut self, position: usize) {
        if self.walk.0.is_some() {
            self.keep_bucket_of(self.entries.link(position).0);
        }
    }

    #[cold]
    fn keep_bucket_of(&mut self, hash: u32) {
        let has_times = self.keeper().is_some_and(|keeper| keeper.has_times);
        self.keep_bucket_with(hash, put_entry(has_times));
    }

    /// Gives the walk that goes on the bucket of `hash`, where it does not have it; `put` appends
    /// the parts of an entry.
    pub fn keep_bucket_with(&mut self, hash: u32, put: impl Fn(&E, usize, &mut Vec<u8>)) {
        let mut walk = self.walk.0.take().expect("the caller has looked");
        let count = walk.buckets.bucket_count() as usize;
        let bucket = bucket_of(hash, count);
        if walk.buckets.take(bucket as u64) {
            walk.keeper.keep_parts(|out| self.put_bucket((bucket, count), out, &put));
        }
        self.walk.0 = Some(walk);
    }

    /// As [`Walked::step`]; `put` appends the parts of an entry.
    pub fn step_with(
        &mut self,
        is_due: &mut dyn FnMut() -> bool,
        out: &mut Vec<u8>,
        put: impl Fn(&E, usize, &mut Vec<u8>),
    ) -> bool {
        let Some(mut walk) = self.walk.0.take() else { return true };
        let count = walk.buckets.bucket_count() as usize;
        while let Some(bucket) = walk.buckets.advance() {
            if bucket.is_multiple_of(AHEAD as u64) {
                self.load_ahead(bucket as usize);
            }
            if walk.buckets.take(bucket) {
                self.put_bucket((bucket as usize, count), out, &put);
            }
            if is_due() {
                self.walk.0 = Some(walk);
                return false;
            }
        }
        true
    }

    /// Appends the parts of the entries that would be in `bucket` if there were `count` of them, as
    /// `put` does for one.
    fn put_bucket(
        &self,
        (bucket, count): (usize, usize),
        out: &mut Vec<u8>,
        put: &impl Fn(&E, usize, &mut Vec<u8>),
    ) {
        // What the hashes of these entries have in common: their lowest bits.
        let half = 1 << count.ilog2();
        let step = if bucket >= half || bucket + half < count { 2 * half } else { half };
        let mut current = bucket_of(bucket as u32, self.heads.len());
        while current < self.heads.len() {
            let mut position = *self.heads.get(current);
            while position != NONE {
                let (hash, next) = self.entries.link(position as usize);
                if hash as usize & (step - 1) == bucket {
                    put(&self.entries, position as usize, out);
                }
                position = next;
            }
            // Where there are fewer buckets now, this is behind them.
            current += step;
        }
    }

    /// Has the processor load the entries of the buckets from `first` on, which are anywhere in
    /// memory, side by side: one after the other a walk would wait for memory most of its time.
    fn load_ahead(&self, first: usize) {
        let buckets = first as u32..(first + AHEAD) as u32;
        let mut positions: [u32; AHEAD] = [NONE; AHEAD];
        for (position, bucket) in positions.iter_mut().zip(buckets) {
            *position = *self.heads.get(self.bucket_of(bucket));
        }
        // Few chains are longer.
        for _ in 0..3 {
            for position in positions.iter_mut().filter(|position| **position != NONE) {
                (_, *position) = self.entries.link(*position as usize);
            }
        }
        std::hint::black_box(positions);
    }

    #[inline]
    fn bucket_of(&self, hash: u32) -> usize {
        bucket_of(hash, self.heads.len())
    }

    /// Makes what refers to the entry at `position` refer to `target`.
    fn relink(&mut self, hash: u32, position: usize, target: u32) {
        let head = self.heads.get_mut(bucket_of(hash, self.heads.len()));
        let mut current = *head;
        if current as usize == position {
            *head = target;
            return;
        }
        loop {
            let (_, next) = self.entries.link(current as usize);
            assert_ne!(next, NONE, "an entry is in the chain of its bucket");
            if next as usize == position {
                return self.entries.set_next(current as usize, target);
            }
            current = next;
        }
    }

    /// Makes one bucket more and moves what belongs there from the bucket that it splits.
    fn split(&mut self) {
        let new = self.heads.len();
        self.heads.push(NONE);
        let old = new & mask_below(new);
        let mut position = std::mem::replace(self.heads.get_mut(old), NONE);
        while position != NONE {
            let (hash, next) = self.entries.link(position as usize);
            let head = self.heads.get_mut(bucket_of(hash, new + 1));
            self.entries.set_next(position as usize, std::mem::replace(head, position));
            position = next;
        }
    }

    /// Takes the last bucket away and puts its chain before that of the bucket it came from.
    fn merge(&mut self) {
        let last = self.heads.len() - 1;
        let mut position = self.heads.pop().expect("there is a bucket");
        let target = last & mask_below(last);
        while position != NONE {
            let (_, next) = self.entries.link(position as usize);
            let head = std::mem::replace(self.heads.get_mut(target), position);
            self.entries.set_next(position as usize, head);
            position = next;
        }
    }
}

impl<E: Entries> Walked for Table<E> {
    fn begin(&mut self, keeper: Arc<Keeper>) -> u64 {
        let buckets = BucketWalk::new(self.heads.len() as u64);
        let bytes = heap_bytes(buckets.taken_bytes()) + heap_bytes(size_of::<TableWalk>());
        self.walk.0 = Some(Box::new(TableWalk { buckets, keeper }));
        bytes
    }

    fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.walk.0.as_ref().map(|walk| &walk.keeper)
    }

    fn step(&mut self, is_due: &mut dyn FnMut() -> bool, out: &mut Vec<u8>) -> bool {
        let has_times = self.keeper().is_some_and(|keeper| keeper.has_times);
        self.step_with(is_due, out, put_entry(has_times))
    }

    fn end(&mut self) -> Option<Freed> {
        self.walk.0 = None;
        None
    }
}

/// Returns what appends the parts of an entry; where the walk `has_times`, those of one without a
/// time.
fn put_entry<E: Entries>(has_times: bool) -> impl Fn(&E, usize, &mut Vec<u8>) {
    move |entries, position, out| {
        if has_times {
            put_time(None, out);
        }
        entries.put_parts(position, out);
    }
}

/// What an entry of an array holds.
pub(crate) trait Payload {
    /// Returns what the entry is found by.
    fn name(&self) -> &[u8];

    /// Returns the bytes of memory beyond the entry.
    fn heap_bytes(&self) -> u64;

    /// Appends the parts to `out`, as a walk gives them.
    fn put_parts(&self, out: &mut Vec<u8>) {
        put_part(self.name(), out);
    }
}

/// Entries of one size, side by side in the order of their positions, which have no gaps: the last
/// takes the place of one that goes.
#[derive(Clone)]
pub(crate) struct Array<P> {
    entries: Chunked<Entry<P>>,
    /// The bytes of memory beyond the entries.
    heap_bytes: u64,
}

#[derive(Clone)]
struct Entry<P> {
    /// The low half of the name's hash.
    hash: u32,
    /// The position of the next entry in the bucket.
    next: u32,
    payload: P,
}

/// A table of an array.
pub(crate) type HashTable<P> = Table<Array<P>>;

impl<P> Default for Array<P> {
    fn default() -> Array<P> {
        Array { entries: Chunked::default(), heap_bytes: 0 }
    }
}

impl<P: Payload> Entries for Array<P> {
    #[inline]
    fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        self.entries.memory_bytes() + self.heap_bytes
    }

    #[inline]
    fn link(&self, position: usize) -> (u32, u32) {
        let entry = self.entries.get(position);
        (entry.hash, entry.next)
    }

    #[inline]
    fn set_next(&mut self, position: usize, next: u32) {
        self.entries.get_mut(position).next = next;
    }

    #[inline]
    fn compare(&self, position: usize, hash: u32, name: &[u8]) -> (bool, u32) {
        let entry = self.entries.get(position);
        (entry.hash == hash && entry.payload.name() == name, entry.next)
    }

    #[inline]
    fn last_beside(&self, _: usize) -> usize {
        self.entries.len() - 1
    }

    fn put_parts(&self, position: usize, out: &mut Vec<u8>) {
        self.entries.get(position).payload.put_parts(out);
    }
}

impl<P: Payload> HashTable<P> {
    /// Returns the bytes of memory beyond the entries.
    pub fn payload_heap_bytes(&self) -> u64 {
        self.entries.heap_bytes
    }

    /// Returns the entry at `position`.
    #[inline]
    pub fn get(&self, position: usize) -> &P {
        &self.entries.entries.get(position).payload
    }

    /// Changes the entry at `position`, not its name.
    #[inline]
    pub fn change<R>(&mut self, position: usize, change: impl FnOnce(&mut P) -> R) -> R {
        self.before_change_at(position);
        let payload = &mut self.entries.entries.get_mut(position).payload;
        let before = payload.heap_bytes();
        let result = change(payload);
        self.entries.heap_bytes = self.entries.heap_bytes + payload.heap_bytes() - before;
        result
    }

    /// Returns the entries in the order of their positions.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.entries.entries.iter().map(|entry| &entry.payload)
    }

    /// As [`HashTable::iter`], each with the low half of its name's hash: all that
    /// [`Table::find`] looks at.
    pub fn iter_hashed(&self) -> impl Iterator<Item = (u32, &P)> {
        self.entries.entries.iter().map(|entry| (entry.hash, &entry.payload))
    }

    /// Returns the low half of the hash of the name of the entry at `position`.
    #[inline]
    pub fn hash_at(&self, position: usize) -> u32 {
        self.entries.link(position).0
    }

    /// Adds an entry, whose name is not there, and returns its position: the last.
    pub fn insert(&mut self, hash: u64, payload: P) -> usize {
        let hash = hash as u32;
        self.add(hash, |array, next| {
            array.heap_bytes += payload.heap_bytes();
            array.entries.push(Entry { hash, next, payload });
            array.entries.len() - 1
        })
    }

    /// Takes out the entry at `position`, whose place the last entry takes.
    pub fn remove(&mut self, position: usize) -> P {
        self.unlink(position);
        let array = &mut self.entries;
        let mut entry = array.entries.pop().expect("it has the entry at the position");
        if position < array.entries.len() {
            std::mem::swap(array.entries.get_mut(position), &mut entry);
        }
        array.heap_bytes -= entry.payload.heap_bytes();
        self.shrink();
        entry.payload
    }

    /// Visits the entries of some buckets; see [`Table::scan_positions`].
    pub fn scan(&self, cursor: u64, visit: &mut dyn FnMut(&P)) -> u64 {
        self.scan_positions(cursor, |position| visit(self.get(position)))
    }
}

/// Returns the bits below the highest one of `number`.
fn mask_below(number: usize) -> usize {
    (1 << number.ilog2()) - 1
}

/// Returns the bucket of `hash` among `count`: those past the split point use one bit less.
#[inline]
fn bucket_of(hash: u32, count: usize) -> usize {
    let mask = usize::MAX >> count.leading_zeros();
    let bucket = hash as usize & mask;
    if bucket < count { bucket } else { bucket & (mask >> 1) }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use base::SecretHasher;
    use base::prng::Prng;

    use super::*;
    use crate::blob::Blob;

    #[test]
    fn chosen_members_cost_as_many_steps_as_others() {
        let hasher = SecretHasher::new(base::HashKeys::fixed(1).secret);
        // They collide under the public secrets of the hash that was used before.
        let chosen =
            |number: u64| [0x8bb8_4b93_962e_acc9_u64.to_le_bytes(), number.to_le_bytes()].concat();
        let index = base::KeyHasher::new(base::HashKeys::fixed(1).index, 1);
        let same = base::collisions::Collisions::new(&index, [b'e'; 16]);
        let families: [&dyn Fn(u64) -> Vec<u8>; 2] = [&chosen, &|number| same.key(number).to_vec()];
        for name in families {
            let mut table = HashTable::default();
            let looks = step_counters::steps_of(CountedStep::Member, || {
                for number in 0..20_000 {
                    let name = name(number);
                    assert_eq!(table.find(hasher.hash(&name), &name), None);
                    table.insert(hasher.hash(&name), Blob::of(&[&name]));
                    assert!(table.find(hasher.hash(&name), &name).is_some());
                }
            });
            assert!(looks < 4 * 20_000, "{looks} looks");
        }
    }

    impl Payload for Blob {
        fn name(&self) -> &[u8] {
            self.bytes()
        }

        fn heap_bytes(&self) -> u64 {
            Blob::heap_bytes(self)
        }
    }

    fn name(number: u64) -> Vec<u8> {
        let long = if number.is_multiple_of(5) { " and a name that is not short" } else { "" };
        format!("name {number}{long}").into_bytes()
    }

    #[test]
    fn any_history_leaves_what_a_map_would_have() {
        let hasher = SecretHasher::new([7, 1]);
        let mut random = Prng::new(1);
        for bound in [3, 40, 2000] {
            let (mut table, mut model) = (HashTable::default(), HashSet::new());
            for step in 0..20_000 {
                let name = name(random.below(bound));
                let found = table.find(hasher.hash(&name), &name);
                assert_eq!(found.is_some(), model.contains(&name));
                // Grows first, shrinks later.
                match (found, random.one_in(if step < 10_000 { 3 } else { 2 })) {
                    (Some(position), true) => {
                        let blob: Blob = table.remove(position);
                        assert!(blob.bytes() == name && model.remove(&name));
                    }
                    (None, false) => {
                        table.insert(hasher.hash(&name), Blob::of(&[&name]));
                        model.insert(name);
                    }
                    _ => {}
                }
                assert_eq!(table.len(), model.len());
            }
            let heap: u64 = table.iter().map(Blob::heap_bytes).sum();
            assert_eq!(table.entries.heap_bytes, heap);
            for name in &model {
                assert!(table.find(hasher.hash(name), name).is_some());
            }
            while table.len() > 0 {
                table.remove(random.below(table.len() as u64) as usize);
            }
            assert!(table.heads.len() <= 2 && table.memory_bytes() < 1000);
        }
    }

    #[test]
    fn buckets_made_in_advance_hold_what_comes() {
        let hasher = SecretHasher::new([7, 1]);
        for count in [0, 1, 5, 300, 2000] {
            let mut table = HashTable::with_buckets(count);
            for number in 0..300 {
                table.insert(hasher.hash(&name(number)), Blob::of(&[&name(number)]));
            }
            assert_eq!(table.heads.len(), count.max(300));
            let mut visited = HashSet::new();
            let mut cursor = 0;
            loop {
                cursor = table.scan(cursor, &mut |blob| {
                    visited.insert(blob.bytes().to_vec());
                });
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(visited, (0..300).map(name).collect());
            for (position, (hash, blob)) in table.iter_hashed().enumerate() {
                assert_eq!(hash, table.hash_at(position));
                assert_eq!(table.find(hash.into(), blob.bytes()), Some(position));
            }
        }
    }

    #[test]
    fn scan_meets_whatever_stays_while_the_table_grows_and_shrinks() {
        let hasher = SecretHasher::new([3, 1]);
        let mut random = Prng::new(2);
        for round in 0..60 {
            let mut table = HashTable::default();
            let start = 1 + random.below(300);
            (0..start).for_each(|number| {
                table.insert(hasher.hash(&name(number)), Blob::of(&[&name(number)]));
            });
            let stays: HashSet<Vec<u8>> = (0..start).filter(|n| n % 3 == 0).map(name).collect();
            let (mut cursor, mut seen, mut next) = (0, HashMap::new(), start);
            loop {
                cursor = table.scan(cursor, &mut |blob| {
                    *seen.entry(blob.bytes().to_vec()).or_insert(0) += 1;
                });
                if cursor == 0 {
                    break;
                }
                for _ in 0..random.below(6) {
                    if round % 2 == 0 {
                        table.insert(hasher.hash(&name(next)), Blob::of(&[&name(next)]));
                        next += 1;
                    } else {
                        let position = random.below(table.len() as u64) as usize;
                        if !stays.contains(table.get(position).bytes()) {
                            table.remove(position);
                        }
                    }
                }
            }
            assert!(stays.iter().all(|name| seen.contains_key(name)), "round {round}");
        }
    }
}
