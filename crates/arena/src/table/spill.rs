//! Entries that do not fit into their chains.
//!
//! A process that may read the arena knows the key of the index hash, and can make any number of
//! keys that belong in one chain. So a chain has at most [`CHAIN_BUCKETS_MAX`] buckets, and of each
//! tag at most [`ALIKE_MAX`] entries. A further entry is an entry like any other, but the reference
//! to it is here, in private memory: in a tree, which treats all keys alike. The end of the chain
//! is marked, and a reader in another process that does not find a key in such a chain asks the
//! server. Entries come back when the chain has a free slot.
//!
//! The tree is in the order of *places*, in which SCAN goes over all entries of a table:
//! ```text
//! 63..28 the 36 lowest bits of the index hash, the lowest first | 27..12 16 bits of a secret hash
//! 11..0  zero
//! ```
//! An item of the tree is one number: the place, with 36 more bits of the secret hash in its zeroes
//! and after it, and the reference. Numbers of 16 bytes are compared at once, and a tree of them is
//! small enough that a million entries of one place cost few cache misses each.
//!
//! The entries of a bucket are neighbours in this order, however many buckets there are: those
//! whose hash ends with the bucket's number. Hence nothing has to move here when buckets split or
//! merge, and a cursor can point between two entries of one bucket, even of keys whose hashes are
//! equal.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use base::step_counters::{self, CountedStep};
use base::{KeyHasher, SecretHasher};

use crate::bucket::Next;
use crate::layout::{CHAIN_BUCKETS_MAX, CHAIN_ENTRIES_MAX, home_bucket, tag_of};
use crate::protocol_rules::Rule;

use super::chain::ALIKE_MAX;
use super::{EntryId, Table};

/// How many entries of the tree one step of SCAN visits before it ends, unless more of them share a
/// place.
const VISITED_MAX: usize = 64;
/// How many entries of the tree are tried for a slot that an entry leaves.
const TRIES_MAX: usize = 8;
/// The bits of the hash in a place.
const HASH_BITS: u32 = 36;
/// The zeroes of a place, behind 16 bits of the secret hash.
const PLACE_ZEROES: u32 = 12;
/// Where the secret hash ends, from the lowest bit of what is in the tree.
const SECRET_END: u32 = u128::BITS - HASH_BITS;
/// The most buckets of a table: more could not be told apart by places. Their index would take
/// 4 TiB.
pub(super) const BUCKET_COUNT_MAX: u64 = 1 << HASH_BITS;
/// The bits of a reference, which is in units of 8 bytes.
const REFERENCE_BITS: u32 = 40;
/// Bytes of the tree for each entry, at most: a node of 208 has five entries or more, and there is
/// one of 304 above each six.
const TREE_BYTES: u64 = 56;

/// The bucket of a spilled entry: none.
pub(super) const NOWHERE: u64 = 0;

/// Where an entry stands in the order of SCAN.
pub(super) type ScanPlace = u64;

/// What is in the tree, in its order:
/// ```text
/// 127..92 as in the place | 91..40 52 bits of the secret hash | 39..0 the reference, by 8
/// ```
/// So much of the secret hash makes finding a key a matter of one comparison, whatever the keys
/// are: SCAN shows 16 bits of it, and of keys that have these in common 36 tell the one from the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spilled(u128);

impl Spilled {
    fn new(hash: u64, secret: u64, reference: u64) -> Spilled {
        let first = u128::from(hash.reverse_bits()) << u64::BITS >> SECRET_END << SECRET_END;
        let second = u128::from(secret) << u64::BITS >> HASH_BITS >> REFERENCE_BITS;
        Spilled(first | second << REFERENCE_BITS).at(reference)
    }

    /// Returns the same with another reference.
    fn at(self, reference: u64) -> Spilled {
        debug_assert!(reference.is_multiple_of(8) && reference >> 3 >> REFERENCE_BITS == 0);
        Spilled(self.0 >> REFERENCE_BITS << REFERENCE_BITS | u128::from(reference / 8))
    }

    fn place(self) -> ScanPlace {
        (self.0 >> u64::BITS) as u64 >> PLACE_ZEROES << PLACE_ZEROES
    }

    fn reference(self) -> u64 {
        (self.0 as u64 & ((1 << REFERENCE_BITS) - 1)) * 8
    }

    /// Returns the range in which those with these hashes are.
    fn alike(self) -> RangeInclusive<Spilled> {
        let rest = (1 << REFERENCE_BITS) - 1;
        Spilled(self.0 & !rest)..=Spilled(self.0 | rest)
    }
}

/// The entries of a table that stand in no chain.
#[derive(Debug, Default)]
pub struct Spill {
    all: BTreeSet<Spilled>,
    /// One of them, which was found last to tell that its bucket has any: as long as it stays,
    /// nobody has to look again.
    witness: Option<Spilled>,
}

/// The entries that one step of SCAN visits: those whose places are in a range.
pub(super) struct ScanStep {
    pub places: RangeInclusive<ScanPlace>,
    /// Where the next step begins; `None` where the next buckets follow.
    pub next: Option<ScanPlace>,
}

impl Spill {
    /// Returns the bytes of memory that it takes beside itself.
    pub fn private_bytes(&self) -> u64 {
        self.len() * TREE_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// Returns one of the references whose places are in `places`, chosen by `random`: evenly where
    /// the places are spread evenly between the first and the last of them.
    fn sample(&self, places: RangeInclusive<ScanPlace>, random: u64) -> Option<u64> {
        let mut found = self.range(places);
        let first = found.next()?.place();
        let last = found.next_back().map_or(first, Spilled::place);
        let offset = (u128::from(random) * (u128::from(last - first) + 1)) >> u64::BITS;
        self.range(first + offset as u64..=last).next().map(Spilled::reference)
    }

    /// Returns the references whose places are in `places`, in their order.
    pub(super) fn references(
        &self,
        places: RangeInclusive<ScanPlace>,
    ) -> impl Iterator<Item = u64> {
        self.range(places).map(Spilled::reference)
    }

    /// Returns what to visit of the entries from `start` on, within `places`.
    pub(super) fn step(&self, start: ScanPlace, places: &RangeInclusive<ScanPlace>) -> ScanStep {
        let (start, end) = (start.max(*places.start()), *places.end());
        let mut rest = self.range(start..=end).skip(VISITED_MAX - 1).map(Spilled::place);
        let last = rest.next();
        let next = last.and_then(|last| rest.find(|place| *place > last));
        ScanStep { places: start..=next.map_or(end, |next| next - 1), next }
    }

    fn range(&self, places: RangeInclusive<ScanPlace>) -> impl DoubleEndedIterator<Item = Spilled> {
        step_counters::count_step(CountedStep::Descent);
        let [first, last] = [places.start(), places.end()].map(|at| u128::from(*at) << u64::BITS);
        let rest = (1 << u64::BITS << PLACE_ZEROES) - 1;
        self.all.range(Spilled(first)..=Spilled(last | rest)).copied()
    }

    /// Returns the references of the entries that may be those of a key with these hashes.
    fn alike(&self, hash: u64, secret: u64) -> impl Iterator<Item = u64> {
        step_counters::count_step(CountedStep::Descent);
        let range = Spilled::new(hash, secret, 0).alike();
        self.all.range(range).map(|spilled| spilled.reference())
    }

    /// Returns whether any place is in `places`.
    fn has_any(&mut self, places: &RangeInclusive<ScanPlace>) -> bool {
        if self.witness.is_some_and(|witness| places.contains(&witness.place())) {
            return true;
        }
        let found = self.range(places.clone()).next();
        self.witness = found.or(self.witness);
        found.is_some()
    }

    fn insert(&mut self, spilled: Spilled) {
        step_counters::count_step(CountedStep::Descent);
        let is_new = self.all.insert(spilled);
        assert!(is_new, "an entry is spilled once");
    }

    fn remove(&mut self, spilled: Spilled) {
        step_counters::count_step(CountedStep::Descent);
        let was_there = self.all.remove(&spilled);
        self.witness = self.witness.filter(|witness| *witness != spilled);
        assert!(was_there, "the entry is spilled");
    }
}

/// Returns the places of the entries whose hashes end with `bits` bits of `bucket`.
pub(super) fn places_of(bucket: u64, bits: u32) -> RangeInclusive<ScanPlace> {
    let first = bucket.reverse_bits();
    first..=first | u64::MAX.checked_shr(bits).unwrap_or(0)
}

impl Table {
    /// Returns whether any entry is spilled: [`Table::find_hash`] finds none of these.
    pub fn spills(&self) -> bool {
        !self.spill.is_empty()
    }

    /// As [`Table::find`], among the spilled entries.
    #[cold]
    pub(super) fn find_spilled(&self, hash: u64, key: &[u8]) -> Option<EntryId> {
        let secret = self.arena.secret_hasher().hash(key);
        let mut alike = self.spill.alike(hash, secret);
        let reference = alike.find(|reference| {
            step_counters::count_step(CountedStep::Entry);
            self.entry_at(*reference).key() == key
        })?;
        Some(self.spilled_at(hash, reference))
    }

    /// Returns where the spilled entry of `hash` at `reference` is.
    pub(super) fn spilled_at(&self, hash: u64, reference: u64) -> EntryId {
        EntryId { home: self.home(hash), bucket: NOWHERE, slot: 0, reference }
    }

    /// Returns the place in the order of SCAN of the entry at `reference`.
    pub(super) fn scan_place(&self, reference: u64) -> ScanPlace {
        self.spilled(reference).place()
    }

    /// Returns what stands, or is to stand, in the tree for the entry at `reference`.
    pub(super) fn spilled(&self, reference: u64) -> Spilled {
        let (hasher, secret_hasher): (&KeyHasher, &SecretHasher) =
            (self.arena.hasher(), self.arena.secret_hasher());
        let key = self.entry_at(reference).key();
        Spilled::new(hasher.hash(key), secret_hasher.hash(key), reference)
    }

    /// Adds the entry at `id`, whose chain is full.
    #[cold]
    pub(super) fn spill_entry(&mut self, id: EntryId) {
        self.spill.insert(self.spilled(id.reference));
        self.note_spilled(id.home, true);
    }

    /// Adds `entries`, which leave their chain.
    pub(super) fn spill_all(&mut self, entries: &[(u8, u64)]) {
        for &(_, reference) in entries {
            self.spill.insert(self.spilled(reference));
        }
    }

    /// Lets the spilled entry at `id` be that at `reference`, which has the same key.
    #[cold]
    pub(super) fn move_spilled(&mut self, id: EntryId, reference: u64) {
        self.respill(self.spilled(id.reference), reference);
    }

    /// Lets `spilled` be at `reference`.
    pub(super) fn respill(&mut self, spilled: Spilled, reference: u64) {
        self.spill.remove(spilled);
        self.spill.insert(spilled.at(reference));
    }

    /// Takes the spilled entry at `id` out.
    #[cold]
    pub(super) fn forget_spilled(&mut self, id: EntryId) {
        let spilled = self.spilled(id.reference);
        self.spill.remove(spilled);
        // The hash bits of a place are all that a bucket's number has.
        let index = home_bucket(spilled.place().reverse_bits(), self.bucket_count);
        let places = self.places_at(index);
        if !self.spill.has_any(&places) {
            self.note_spilled(id.home, false);
        }
    }

    /// Returns one of the spilled entries, chosen by `random`: a home bucket of those that have
    /// any, and an entry of it. There is one.
    pub(super) fn sample_spilled(&self, random: u64) -> Option<EntryId> {
        let any = self.spill.sample(0..=ScanPlace::MAX, random)?;
        let index = home_bucket(self.scan_place(any).reverse_bits(), self.bucket_count);
        let reference = self.spill.sample(self.places_at(index), random.rotate_left(32))?;
        let hash = self.arena.hasher().hash(self.entry_at(reference).key());
        Some(self.spilled_at(hash, reference))
    }

    /// Returns the first spilled entry of the home bucket at `index`.
    fn first_spilled(&self, index: u64) -> Option<Spilled> {
        self.spill.range(self.places_at(index)).next()
    }

    /// Returns whether entries of the home bucket at `index` are spilled.
    pub(super) fn has_spilled(&self, index: u64) -> bool {
        !self.spill.is_empty() && self.first_spilled(index).is_some()
    }

    /// Returns the places of the entries of the home bucket at `index`.
    pub(super) fn places_at(&self, index: u64) -> RangeInclusive<ScanPlace> {
        let half_log2 = self.bucket_count.ilog2();
        let half = 1 << half_log2;
        let is_split = index >= half || index + half < self.bucket_count;
        places_of(index, half_log2 + u32::from(is_split))
    }

    /// Returns the index of the home bucket of `id`.
    fn home_index(&self, id: EntryId) -> u64 {
        let hash = self.arena.hasher().hash(self.entry_at(id.reference).key());
        home_bucket(hash, self.bucket_count)
    }

    /// Lets the end of the chain at `home` say whether entries of it are spilled.
    fn note_spilled(&mut self, home: u64, any: bool) {
        let (tail, _) = self.tail(home);
        let end = if any { Next::Spill } else { Next::End };
        if self.bucket(tail).next() != end {
            let head = self.bucket(home);
            head.begin(Rule::OddWhileRelinking);
            self.bucket(tail).set_next(end);
            head.end(Rule::OddWhileRelinking);
        }
    }

    /// Returns the last bucket of the chain at `home`, and how many there are.
    pub(super) fn tail(&self, home: u64) -> (u64, usize) {
        let (mut tail, mut count) = (home, 1);
        while let Next::Bucket(next) = self.bucket(tail).next() {
            (tail, count) = (next, count + 1);
        }
        debug_assert!(count <= CHAIN_BUCKETS_MAX, "a chain of {count} buckets");
        (tail, count)
    }

    /// Puts a spilled entry of the chain that the entry at `id` leaves into its slot, if one of the
    /// first may come back.
    #[cold]
    pub(super) fn replace_by_spilled(&mut self, id: EntryId) -> bool {
        let (index, left) = (self.home_index(id), self.bucket(id.bucket).tag(id.slot.into()));
        let may_come = |spilled: &Spilled| {
            let tag = self.tag_at(spilled.reference());
            tag == left || self.alike_count(id.home, tag) < ALIKE_MAX
        };
        let found = self.spill.range(self.places_at(index)).take(TRIES_MAX).find(may_come);
        let Some(spilled) = found else { return false };
        self.take_back(EntryId { reference: spilled.reference(), ..id }, spilled);
        self.note_spilled(id.home, self.has_spilled(index));
        true
    }

    /// Moves spilled entries of the home bucket at `index` to its chain, as far as there is room.
    #[cold]
    pub(super) fn refill(&mut self, index: u64) -> usize {
        let (home, mut moved) = (self.home_at(index), 0);
        let first: Vec<Spilled> =
            self.spill.range(self.places_at(index)).take(CHAIN_ENTRIES_MAX).collect();
        for spilled in first {
            let tag = self.tag_at(spilled.reference());
            // Without memory for a bucket the entry is as well where it is.
            let Ok((bucket, slot)) = self.free_slot(home, tag) else { break };
            if bucket != NOWHERE {
                let id = EntryId { home, bucket, slot, reference: spilled.reference() };
                self.take_back(id, spilled);
                moved += 1;
            }
        }
        self.note_spilled(home, self.has_spilled(index));
        moved
    }

    /// Lets the slot of `id` refer to `spilled`, which is spilled no more.
    fn take_back(&mut self, id: EntryId, spilled: Spilled) {
        let tag = self.tag_at(spilled.reference());
        self.spill.remove(spilled);
        self.link_slot(id, tag);
    }

    fn tag_at(&self, reference: u64) -> u8 {
        tag_of(self.arena.hasher().hash(self.entry_at(reference).key()))
    }
}
