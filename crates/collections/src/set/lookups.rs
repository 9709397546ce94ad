//! Sets that are asked for many members, one after the other: intersections and differences.
//!
//! A table is asked by hash. A block of integers is searched from where the last search ended, as
//! integers often come in order. A listpack that is asked often gets an index of its elements, as
//! long as all indexes together stay small; else it is walked.

use base::SecretHasher;
use base::hash::unkeyed_hash;

use super::{BodyView, Member, SetMember, SetView};
use crate::compact_limits::Rules;
use crate::element::{Element, Needle, integer_of};
use crate::hash_table::HashTable;
use crate::intset::IntsetView;
use crate::listpack_view::{At, ListpackView};

/// Walks of a listpack that cost about as much as its index.
const WALKS_MAX: usize = 3;
/// The most bytes that indexes take together: less than what a command asks for before it takes it.
const INDEX_BYTES_MAX: usize = 48 * 1024;
/// The most slots that an element is behind that of its hash, where the hash has no key. Of
/// elements that nobody has chosen hardly any is so far behind; those that are chosen cost no more.
const STEPS_MAX: usize = 32;

/// Sets, each asked for members.
pub struct Lookups<'s> {
    lookups: Vec<Lookup<'s>>,
    rules: &'s Rules,
    /// The bytes that indexes may still take.
    index_bytes_left: usize,
}

enum Lookup<'s> {
    Integers {
        integers: IntsetView<'s>,
        /// Where the last search ended.
        at: usize,
    },
    Small {
        pack: ListpackView<'s>,
        /// How often it is walked before it gets an index.
        walks_left: usize,
    },
    Indexed(Index<'s>),
    Large(&'s HashTable<Member>),
}

impl<'s> Lookups<'s> {
    /// Returns lookups in `sets`, of which one at least is going to be asked `count` times.
    pub fn new(
        sets: impl Iterator<Item = SetView<'s>>,
        count: usize,
        rules: &'s Rules,
    ) -> Lookups<'s> {
        let walks_left = if count > WALKS_MAX { 0 } else { WALKS_MAX };
        let lookups = sets.map(|set| match set.body {
            BodyView::Integers(integers) => Lookup::Integers { integers, at: 0 },
            BodyView::Small(pack) => Lookup::Small { pack, walks_left },
            BodyView::Large(table) => Lookup::Large(table),
        });
        Lookups { lookups: lookups.collect(), rules, index_bytes_left: INDEX_BYTES_MAX }
    }

    /// Returns whether all of the sets have `member`.
    #[inline]
    pub fn all_have(&mut self, mut member: SetMember<'_>) -> bool {
        (0..self.lookups.len()).all(|index| self.has(index, &mut member))
    }

    /// Returns whether one of the first `count` sets has `member`.
    #[inline]
    pub fn any_of_first_has(&mut self, count: usize, mut member: SetMember<'_>) -> bool {
        (0..count).any(|index| self.has(index, &mut member))
    }

    /// Returns how many sets there are.
    pub fn len(&self) -> usize {
        self.lookups.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lookups.is_empty()
    }

    #[inline]
    fn has(&mut self, index: usize, member: &mut SetMember<'_>) -> bool {
        match &mut self.lookups[index] {
            Lookup::Large(table) => {
                let hash = u64::from(member.hash(self.rules));
                member.element.with_bytes(|bytes| table.find(hash, bytes).is_some())
            }
            Lookup::Integers { integers, at } => match integer_in(member.element) {
                Some(integer) => search(*integers, at, integer),
                None => false,
            },
            Lookup::Indexed(elements) => elements.has(member.element),
            Lookup::Small { pack, walks_left: 0 } => {
                let pack = *pack;
                self.index_pack(index, pack);
                self.has(index, member)
            }
            Lookup::Small { pack, walks_left } => {
                *walks_left -= 1;
                walk(*pack, member.element)
            }
        }
    }

    /// Makes an index of `pack`, which is that at `index`, where there is room for it.
    #[cold]
    fn index_pack(&mut self, index: usize, pack: ListpackView<'s>) {
        let bytes = Index::bytes(pack.count());
        match self.index_bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.index_bytes_left = left;
                self.lookups[index] = Lookup::Indexed(Index::new(pack, self.rules));
            }
            // It is walked for good.
            None => self.lookups[index] = Lookup::Small { pack, walks_left: usize::MAX },
        }
    }
}

/// Returns the integer that `element` is, however it is stored.
#[inline]
fn integer_in(element: Element<'_>) -> Option<i64> {
    match element {
        Element::Integer(integer) => Some(integer),
        Element::Bytes(bytes) => integer_of(bytes),
    }
}

/// Returns `element` as what is looked for.
#[inline]
fn needle(element: Element<'_>) -> Needle<'_> {
    match element {
        Element::Integer(integer) => Needle { bytes: &[], integer: Some(integer) },
        Element::Bytes(bytes) => Needle::new(bytes),
    }
}

#[inline]
fn walk(pack: ListpackView<'_>, element: Element<'_>) -> bool {
    pack.find(pack.first(), &needle(element), 1).is_some()
}

/// Returns whether `integer` is in `integers`. The search begins at `at`, in steps that double, and
/// leaves there where it ends.
#[inline]
fn search(integers: IntsetView<'_>, at: &mut usize, integer: i64) -> bool {
    let count = integers.count();
    let mut low = *at;
    if low > 0 && integers.get(low - 1) >= integer {
        low = 0;
    }
    let (mut high, mut step) = (low, 1);
    while high < count && integers.get(high) < integer {
        low = high + 1;
        high += step;
        step *= 2;
    }
    high = high.min(count);
    while low < high {
        let middle = (low + high) / 2;
        if integers.get(middle) < integer {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *at = low;
    low < count && integers.get(low) == integer
}

/// The elements of a listpack by their hashes.
struct Index<'s> {
    pack: ListpackView<'s>,
    /// A power of two of slots, half of them free: an element is in the first free one behind that
    /// of its hash. Each has the hash and where the element is, which is 0 where it is free.
    slots: Vec<(u32, u32)>,
    /// The most slots that an element is behind that of its hash: so far a search goes.
    farthest: usize,
    /// Hashes the elements, where hashes without a key, which take a fifth of the time, collide
    /// more often than those of elements that nobody has chosen for that.
    hasher: Option<&'s SecretHasher>,
}

impl<'s> Index<'s> {
    /// Returns the bytes of an index of `count` elements.
    fn bytes(count: usize) -> usize {
        slot_count(count) * size_of::<(u32, u32)>()
    }

    fn new(pack: ListpackView<'s>, rules: &'s Rules) -> Index<'s> {
        let slots = vec![(0, 0); slot_count(pack.count())];
        let mut index = Index { pack, slots, farthest: 0, hasher: None };
        if !index.fill(STEPS_MAX) {
            index.slots.fill((0, 0));
            index.hasher = Some(&rules.hasher);
            index.fill(usize::MAX);
        }
        index
    }

    /// Puts the elements to the slots, which are free. Returns false once one would be more than
    /// `steps_max` behind the slot of its hash.
    fn fill(&mut self, steps_max: usize) -> bool {
        let mask = self.slots.len() - 1;
        let mut elements = self.pack.iter();
        while let Some((place, element)) = elements.next_placed() {
            let hash = self.hash(&needle(element));
            let (mut at, mut steps) = (hash as usize & mask, 0);
            while self.slots[at].1 != 0 {
                (at, steps) = ((at + 1) & mask, steps + 1);
            }
            if steps > steps_max {
                return false;
            }
            self.farthest = self.farthest.max(steps);
            self.slots[at] = (hash, place.0 as u32);
        }
        true
    }

    #[inline]
    fn has(&self, element: Element<'_>) -> bool {
        let needle = needle(element);
        let (hash, mask) = (self.hash(&needle), self.slots.len() - 1);
        for steps in 0..=self.farthest {
            match self.slots[(hash as usize + steps) & mask] {
                (_, 0) => return false,
                (other, place) if other == hash => {
                    let mut rest = self.pack.iter_from(Some(At(place as usize)));
                    if rest.next().is_some_and(|element| needle.is(element)) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Returns the hash of an element, by its bytes or, of an integer, by its word.
    #[inline]
    fn hash(&self, needle: &Needle<'_>) -> u32 {
        let word = needle.integer.unwrap_or(0).to_le_bytes();
        let bytes = if needle.integer.is_some() { &word[..] } else { needle.bytes };
        match self.hasher {
            None => unkeyed_hash(bytes) as u32,
            Some(hasher) => secret_hash(hasher, bytes),
        }
    }
}

/// Apart from the loops over an index, which hardly ever need it.
#[cold]
#[inline(never)]
fn secret_hash(hasher: &SecretHasher, bytes: &[u8]) -> u32 {
    hasher.hash(bytes) as u32
}

fn slot_count(count: usize) -> usize {
    (2 * count).next_power_of_two().max(2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::ControlFlow;

    use base::SecretHasher;
    use base::prng::Prng;

    use super::*;
    use crate::{Limits, Set};

    fn rules() -> Rules {
        Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) }
    }

    fn set_of(members: &BTreeSet<Vec<u8>>, rules: &Rules) -> Set {
        let first = members.first().map_or(&b"x"[..], Vec::as_slice);
        let mut set = Set::for_members(first, members.len() as u64, rules);
        assert!(members.iter().all(|member| set.insert(member, rules)));
        set
    }

    fn draw(random: &mut Prng) -> BTreeSet<Vec<u8>> {
        let (count, texts) = (random.pick(&[0, 1, 7, 60, 120, 700]), random.below(3));
        let bound = random.pick(&[30, 200, 2_000, 100_000]);
        let member = |_| match (texts, random.below(bound)) {
            (0, number) => number.to_string().into_bytes(),
            (1, number) => format!("member {number}").into_bytes(),
            (_, number) if number % 2 == 0 => number.to_string().into_bytes(),
            (_, number) => format!("{number}x").into_bytes(),
        };
        (0..count).map(member).collect()
    }

    #[test]
    fn lookups_find_what_is_there_in_every_form() {
        let (rules, mut random) = (rules(), Prng::new(1));
        for round in 0..300 {
            let models: Vec<BTreeSet<Vec<u8>>> =
                (0..1 + random.below(4)).map(|_| draw(&mut random)).collect();
            let sets: Vec<Set> = models.iter().map(|model| set_of(model, &rules)).collect();
            let (first, others) = (sets[0].view(), &models[1..]);
            let mut lookups = Lookups::new(sets[1..].iter().map(Set::view), first.len(), &rules);
            let (mut common, mut own) = (BTreeSet::new(), BTreeSet::new());
            let visited = first.try_for_each(|member| {
                if lookups.all_have(member) {
                    common.insert(member.element().to_vec());
                }
                if !lookups.any_of_first_has(lookups.len(), member) {
                    own.insert(member.element().to_vec());
                }
                ControlFlow::<()>::Continue(())
            });
            assert!(visited.is_continue());
            let expected =
                models[0].iter().filter(|member| others.iter().all(|m| m.contains(*member)));
            assert!(common.iter().eq(expected), "round {round}");
            let expected =
                models[0].iter().filter(|member| !others.iter().any(|m| m.contains(*member)));
            assert!(own.iter().eq(expected), "round {round}");
        }
    }

    #[test]
    fn indexes_take_no_more_than_they_may() {
        let rules = rules();
        let members: BTreeSet<Vec<u8>> = (0..100).map(|n| format!("m{n}").into_bytes()).collect();
        let sets: Vec<Set> = (0..40).map(|_| set_of(&members, &rules)).collect();
        let mut lookups = Lookups::new(sets.iter().map(Set::view), 100, &rules);
        for _ in 0..3 {
            let all = sets[0].view().try_for_each(|member| match lookups.all_have(member) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            });
            assert!(all.is_continue());
        }
        let is_indexed = |lookup: &&Lookup<'_>| matches!(lookup, Lookup::Indexed(_));
        let indexes = lookups.lookups.iter().filter(is_indexed).count();
        assert!((2..40).contains(&indexes), "{indexes}");
        assert!(indexes * Index::bytes(100) <= INDEX_BYTES_MAX);
    }

    #[test]
    fn members_that_collide_without_a_key_are_hashed_by_the_secret() {
        let rules = rules();
        // This word, the first of a member, drops what follows out of the hash.
        let word = 0x8bb8_4b93_962e_acc9_u64.to_le_bytes();
        let chosen = |number: u64| [word, number.to_le_bytes()].concat();
        let harmless = |number: u64| format!("member:{number}").into_bytes();
        let check = |member: &dyn Fn(u64) -> Vec<u8>, is_secret| {
            let set = set_of(&(0..100).map(member).collect(), &rules);
            let BodyView::Small(pack) = set.view().body else { panic!("a hundred fit") };
            let index = Index::new(pack, &rules);
            assert_eq!(index.hasher.is_some(), is_secret);
            assert!(index.farthest <= STEPS_MAX, "{}", index.farthest);
            for number in 0..200 {
                assert_eq!(index.has(Element::of(&member(number))), number < 100);
            }
        };
        check(&chosen, true);
        check(&harmless, false);
    }
}
