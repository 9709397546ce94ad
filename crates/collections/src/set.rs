//! A set: integers in one block, or few short members in one listpack, then a table.

mod lookups;

use std::ops::ControlFlow;

use crate::blob::Blob;
use crate::collection::CollectionEncoding;
use crate::combination::HashedName;
use crate::compact::Compact;
use crate::compact_limits::Rules;
use crate::element::{Element, Needle, integer_of};
use crate::growth::block_bytes;
use crate::hash_table::{HashTable, Payload};
use crate::heap_bytes;
use crate::intset::{Intset, IntsetView};
use crate::listpack::{Listpack, SAFE_BYTES};
use crate::listpack_view::{At, ListpackView};
use crate::walk::Walked;

pub use lookups::Lookups;

/// Members, each once.
#[derive(Clone)]
pub struct Set {
    body: Body,
}

#[derive(Clone)]
enum Body {
    Integers(Intset),
    Small(Listpack),
    Large(Box<HashTable<Member>>),
}

/// A set to read, wherever it lies.
#[derive(Clone, Copy)]
pub struct SetView<'a> {
    body: BodyView<'a>,
}

#[derive(Clone, Copy)]
enum BodyView<'a> {
    Integers(IntsetView<'a>),
    Small(ListpackView<'a>),
    Large(&'a HashTable<Member>),
}

#[derive(Clone)]
struct Member(Blob);

/// A member as its set shows it to other sets, with what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct SetMember<'a> {
    element: Element<'a>,
    /// The low half of the hash of its bytes, once it is known: all sets of a keyspace hash alike.
    hash: Option<u32>,
}

/// The most integers that a block of them holds whatever the options say.
///
/// Source: Redis 7.2, `intsetMaxEntries`.
const INTEGERS_MAX: u64 = 1 << 30;
/// So many members are looked for and taken out of a compact form one by one; more together.
const REMOVED_SINGLY_MAX: usize = 4;
/// The most members that are taken out together: their list takes less than what a command asks
/// for before it takes it.
const REMOVED_TOGETHER_MAX: usize = 2048;
/// The most that a member of a compact form takes more in a table: its slot, its part of the
/// buckets, room for as many, and what an allocator adds.
const TABLE_BYTES_MAX: u64 = 96;

impl Set {
    /// Returns an empty set for about `count` members, the first of which is `first`.
    pub fn for_members(first: &[u8], count: u64, rules: &Rules) -> Set {
        Set::for_members_in(Vec::new(), first, count, rules)
    }

    /// As [`Set::for_members`], in the memory of `buffer`, whose bytes go, while it is compact.
    ///
    /// Source: Redis 7.2, `setTypeCreate`.
    pub fn for_members_in(buffer: Vec<u8>, first: &[u8], count: u64, rules: &Rules) -> Set {
        let limits = &rules.limits;
        let body = if integer_of(first).is_some() && count <= limits.set_integers {
            Body::Integers(Intset::empty_in(buffer))
        } else if count <= limits.set_entries {
            Body::Small(Listpack::empty_in(buffer))
        } else {
            Body::Large(Box::default())
        };
        Set { body }
    }

    /// Returns an empty set in a table.
    pub fn large() -> Set {
        Set { body: Body::Large(Box::default()) }
    }

    /// Returns the set of `integers`.
    pub fn from_integers(integers: Intset) -> Set {
        Set { body: Body::Integers(integers) }
    }

    /// Returns an empty set that is a listpack, whatever its first member.
    pub fn small() -> Set {
        Set { body: Body::Small(Listpack::new()) }
    }

    /// Returns the set of the elements of `pack`; `None` where one is there twice.
    pub fn from_pack(pack: Listpack) -> Option<Set> {
        (!pack.view().has_twice(1)).then_some(Set { body: Body::Small(pack) })
    }

    /// Returns the set of `compact`, copied to the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn copy_in(compact: Compact<'_>, buffer: Vec<u8>) -> Set {
        let body = match compact {
            Compact::Listpack(pack) => Body::Small(Listpack::copy_in(pack, buffer)),
            Compact::Intset(set) => Body::Integers(Intset::copy_in(set, buffer)),
        };
        Set { body }
    }

    /// Returns the memory of the compact form; none where it is a table.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        match self.body {
            Body::Integers(set) => set.into_buffer(),
            Body::Small(pack) => pack.into_buffer(),
            Body::Large(_) => Vec::new(),
        }
    }

    /// Returns what a walk leads through, unless the set is compact.
    pub(crate) fn walked(&mut self) -> Option<&mut dyn Walked> {
        match &mut self.body {
            Body::Integers(_) | Body::Small(_) => None,
            Body::Large(table) => Some(&mut **table),
        }
    }

    /// Returns it, to read.
    #[inline]
    pub fn view(&self) -> SetView<'_> {
        let body = match &self.body {
            Body::Integers(set) => BodyView::Integers(set.view()),
            Body::Small(pack) => BodyView::Small(pack.view()),
            Body::Large(table) => BodyView::Large(table),
        };
        SetView { body }
    }

    /// Returns the number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match &self.body {
            Body::Integers(set) => set.memory_bytes(),
            Body::Small(pack) => pack.memory_bytes(),
            Body::Large(table) => table_bytes(table),
        }
    }

    /// Gives memory back when half of a compact form is unused: removing members does not.
    #[inline]
    pub fn give_back(&mut self) {
        match &mut self.body {
            Body::Integers(set) => set.give_back(),
            Body::Small(pack) => pack.give_back(),
            Body::Large(_) => {}
        }
    }

    /// Returns a bound of what it takes beside itself, in the form that it has and in a table.
    pub fn memory_bytes_max(&self) -> u64 {
        match &self.body {
            Body::Large(_) => self.memory_bytes(),
            _ => self.memory_bytes() + self.len() as u64 * TABLE_BYTES_MAX,
        }
    }

    /// Makes ready for `count` members that will be added together: more than a compact form holds
    /// make a table of it first, as in Redis. Returns whether it has become one.
    ///
    /// Source: Redis 7.2, `setTypeMaybeConvert`.
    pub fn prepare(&mut self, count: u64, rules: &Rules) -> bool {
        let is_too_many = match &self.body {
            Body::Integers(_) => count > rules.limits.set_integers,
            Body::Small(_) => count > rules.limits.set_entries,
            Body::Large(_) => false,
        };
        if is_too_many {
            self.enlarge(rules);
        }
        is_too_many
    }

    /// Adds `member`; returns whether it was not there.
    pub fn insert(&mut self, member: &[u8], rules: &Rules) -> bool {
        self.add(member, None, false, rules)
    }

    /// As [`Set::insert`], for a member of another set.
    pub fn insert_member(&mut self, member: SetMember<'_>, rules: &Rules) -> bool {
        member.element.with_bytes(|bytes| self.add(bytes, member.hash, false, rules))
    }

    /// As [`Set::insert_member`], where the caller knows that it is not there.
    pub fn insert_new_member(&mut self, member: SetMember<'_>, rules: &Rules) {
        let is_new = member.element.with_bytes(|bytes| self.add(bytes, member.hash, true, rules));
        assert!(is_new, "the caller knows");
    }

    /// Adds `member`, whose hash may be known, and of which it may be known that it is not there;
    /// returns whether it was not there.
    #[inline]
    fn add(&mut self, member: &[u8], hash: Option<u32>, is_new: bool, rules: &Rules) -> bool {
        if let Body::Integers(set) = &mut self.body {
            if let Some(integer) = integer_of(member) {
                let is_added = set.insert(integer);
                let count = set.count() as u64;
                if is_added && count > rules.limits.set_integers.min(INTEGERS_MAX) {
                    self.enlarge(rules);
                }
                return is_added;
            }
            self.leave_integers(member, rules);
        }
        if let Body::Small(pack) = &mut self.body {
            if !is_new && find(pack.view(), member).is_some() {
                return false;
            }
            let limits = &rules.limits;
            let has_room = (pack.count() as u64) < limits.set_entries
                && member.len() as u64 <= limits.set_value_bytes
                && pack.bytes().len() + member.len() <= SAFE_BYTES;
            if has_room {
                pack.push_back(member);
                return true;
            }
            self.enlarge(rules);
        }
        let Body::Large(table) = &mut self.body else { panic!("no compact form is left") };
        let hash = hash.map_or_else(|| rules.hasher.hash(member), u64::from);
        if !is_new && table.find(hash, member).is_some() {
            return false;
        }
        table.insert(hash, Member(Blob::of(&[member])));
        true
    }

    /// Takes `member` out; returns whether it was there.
    pub fn remove(&mut self, member: &[u8], rules: &Rules) -> bool {
        match &mut self.body {
            Body::Integers(set) => integer_of(member).is_some_and(|one| set.remove(one)),
            Body::Small(pack) => {
                let Some(at) = find(pack.view(), member) else {
                    return false;
                };
                pack.remove(at, 1);
                true
            }
            Body::Large(table) => {
                let Some(position) = table.find(rules.hasher.hash(member), member) else {
                    return false;
                };
                table.remove(position);
                true
            }
        }
    }

    /// Takes `members` out; returns how many were there. However many they are, a compact form is
    /// gone through once for a few thousand of them.
    pub fn remove_all<'m>(
        &mut self,
        mut members: impl Iterator<Item = &'m [u8]>,
        rules: &Rules,
    ) -> usize {
        let is_few = members.size_hint().0 <= REMOVED_SINGLY_MAX;
        if is_few || matches!(self.body, Body::Large(_)) {
            return members.filter(|member| self.remove(member, rules)).count();
        }
        let mut removed = 0;
        loop {
            let mut some: Vec<&[u8]> = members.by_ref().take(REMOVED_TOGETHER_MAX).collect();
            if some.is_empty() {
                return removed;
            }
            some.sort_unstable();
            some.dedup();
            removed += self.remove_sorted(&some);
        }
    }

    /// Takes `members` out, which are in order, of a compact form; returns how many were there.
    fn remove_sorted(&mut self, members: &[&[u8]]) -> usize {
        match &mut self.body {
            Body::Integers(set) => {
                let mut integers: Vec<i64> =
                    members.iter().filter_map(|member| integer_of(member)).collect();
                integers.sort_unstable();
                set.remove_each(|integer| integers.binary_search(&integer).is_ok())
            }
            Body::Small(pack) => {
                let Some(first) = pack.view().first() else { return 0 };
                pack.remove_each(first, members.len(), |element| {
                    element.with_bytes(|bytes| members.binary_search(&bytes).is_ok())
                })
            }
            Body::Large(_) => unreachable!("a table is asked for each member"),
        }
    }

    /// Takes out the members at `indexes`, which are in order, each once, and have the names
    /// `members`. A compact form is gone through once.
    pub fn remove_at<'m>(
        &mut self,
        indexes: &[usize],
        members: impl Iterator<Item = &'m [u8]>,
        rules: &Rules,
    ) {
        debug_assert!(indexes.is_sorted_by(|one, other| one < other), "in order, each once");
        let mut rest = indexes.iter().peekable();
        let mut index = 0;
        let mut goes = || {
            let is_next = rest.next_if_eq(&&index).is_some();
            index += 1;
            is_next
        };
        let removed = match &mut self.body {
            Body::Integers(set) => set.remove_each(|_| goes()),
            Body::Small(pack) => match pack.view().first() {
                Some(first) => pack.remove_each(first, indexes.len(), |_| goes()),
                None => 0,
            },
            Body::Large(_) => members.filter(|member| self.remove(member, rules)).count(),
        };
        assert_eq!(removed, indexes.len(), "each of them was there");
    }

    /// As [`Set::remove`], for a member of another set.
    pub fn remove_member(&mut self, mut member: SetMember<'_>, rules: &Rules) -> bool {
        let Body::Large(table) = &mut self.body else {
            return member.element.with_bytes(|bytes| self.remove(bytes, rules));
        };
        let hash = u64::from(member.hash(rules));
        let found = member.element.with_bytes(|bytes| table.find(hash, bytes));
        found.map(|position| table.remove(position)).is_some()
    }

    /// A member that is no integer comes: becomes a listpack where all fit one, else a table.
    fn leave_integers(&mut self, member: &[u8], rules: &Rules) {
        let Body::Integers(set) = &self.body else { return };
        let limits = &rules.limits;
        let ends = [0, set.count().saturating_sub(1)];
        let ends = ends.into_iter().filter(|_| set.count() > 0).map(|index| set.view().get(index));
        let longest = ends.map(|one| Element::Integer(one).byte_count()).max().unwrap_or(0);
        let fits = (set.count() as u64) < limits.set_entries
            && member.len() as u64 <= limits.set_value_bytes
            && longest as u64 <= limits.set_value_bytes;
        if !fits {
            return self.enlarge(rules);
        }
        let mut pack = Listpack::new();
        set.view()
            .iter()
            .for_each(|one| Element::Integer(one).with_bytes(|bytes| pack.push_back(bytes)));
        self.body = Body::Small(pack);
    }

    /// Becomes one listpack, where it is a table and all members fit one.
    pub fn make_pack(&mut self) {
        let Body::Large(table) = &self.body else { return };
        let bytes = table.iter().map(|member| member.0.bytes().len()).sum();
        let Some(mut pack) = Listpack::with_room(table.len(), bytes) else { return };
        table.iter().for_each(|member| pack.push_back(member.0.bytes()));
        pack.shrink();
        self.body = Body::Small(pack);
    }

    /// Becomes one block of integers, where all members are integers.
    pub fn make_integers(&mut self) {
        if self.len() as u64 > INTEGERS_MAX {
            return;
        }
        let integers: Option<Vec<i64>> = match &self.body {
            Body::Integers(_) => return,
            Body::Small(pack) => pack.iter().map(|element| element.integer()).collect(),
            Body::Large(table) => table.iter().map(|member| integer_of(member.0.bytes())).collect(),
        };
        let Some(integers) = integers else { return };
        let integers = Intset::from_integers(integers).expect("a member is there once");
        self.body = Body::Integers(integers);
    }

    /// Becomes a table.
    fn enlarge(&mut self, rules: &Rules) {
        let mut table = HashTable::default();
        self.view().for_each(|member| {
            member.with_bytes(|bytes| {
                table.insert(rules.hasher.hash(bytes), Member(Blob::of(&[bytes])));
            });
        });
        self.body = Body::Large(Box::new(table));
    }
}

impl<'a> SetView<'a> {
    /// Returns the set whose compact form this is.
    #[inline]
    pub fn of_compact(compact: Compact<'a>) -> SetView<'a> {
        let body = match compact {
            Compact::Listpack(pack) => BodyView::Small(pack),
            Compact::Intset(set) => BodyView::Integers(set),
        };
        SetView { body }
    }

    /// Returns the compact form, unless it is a table.
    #[inline]
    pub fn compact(self) -> Option<Compact<'a>> {
        match self.body {
            BodyView::Integers(set) => Some(Compact::Intset(set)),
            BodyView::Small(pack) => Some(Compact::Listpack(pack)),
            BodyView::Large(_) => None,
        }
    }

    /// Returns the number of members.
    #[inline]
    pub fn len(self) -> usize {
        match self.body {
            BodyView::Integers(set) => set.count(),
            BodyView::Small(pack) => pack.count(),
            BodyView::Large(table) => table.len(),
        }
    }

    /// Returns whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns how it is stored.
    pub fn encoding(self) -> CollectionEncoding {
        match self.body {
            BodyView::Integers(_) => CollectionEncoding::Intset,
            BodyView::Small(_) => CollectionEncoding::Listpack,
            BodyView::Large(_) => CollectionEncoding::HashTable,
        }
    }

    /// Returns the bytes that its parts take: of a compact form, those of the block alone.
    pub fn memory_bytes(self) -> u64 {
        match self.body {
            BodyView::Integers(set) => set.bytes().len() as u64,
            BodyView::Small(pack) => pack.bytes().len() as u64,
            BodyView::Large(table) => table_bytes(table),
        }
    }

    /// Returns a bound of what a set of its members takes, in the form that it has and in a table.
    pub fn memory_bytes_max(self) -> u64 {
        match self.body {
            BodyView::Large(_) => self.memory_bytes(),
            _ => self.memory_bytes() + self.len() as u64 * TABLE_BYTES_MAX,
        }
    }

    /// Returns whether `member` is there.
    #[inline]
    pub fn contains(self, member: &[u8], rules: &Rules) -> bool {
        match self.body {
            BodyView::Integers(set) => integer_of(member).is_some_and(|one| set.contains(one)),
            BodyView::Small(pack) => find(pack, member).is_some(),
            BodyView::Large(table) => table.find(rules.hasher.hash(member), member).is_some(),
        }
    }

    /// Visits all members.
    pub fn for_each(self, mut visit: impl FnMut(Element<'_>)) {
        match self.body {
            BodyView::Integers(set) => set.iter().for_each(|one| visit(Element::Integer(one))),
            BodyView::Small(pack) => pack.iter().for_each(visit),
            BodyView::Large(table) => {
                table.iter().for_each(|member| visit(Element::Bytes(member.0.bytes())));
            }
        }
    }

    /// Visits members, as other sets are asked for them, until `visit` breaks.
    pub fn try_for_each<B>(
        self,
        mut visit: impl FnMut(SetMember<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self.body {
            BodyView::Integers(set) => {
                set.iter().try_for_each(|one| visit(SetMember::of(Element::Integer(one))))
            }
            BodyView::Small(pack) => {
                pack.iter().try_for_each(|element| visit(SetMember::of(element)))
            }
            BodyView::Large(table) => table.iter_hashed().try_for_each(|(hash, member)| {
                visit(SetMember { element: Element::Bytes(member.0.bytes()), hash: Some(hash) })
            }),
        }
    }

    /// Returns member `index`, in no order: all indexes below the length are all members.
    pub fn at(self, index: usize) -> Option<Element<'a>> {
        if index >= self.len() {
            return None;
        }
        match self.body {
            BodyView::Integers(set) => Some(Element::Integer(set.get(index))),
            BodyView::Small(pack) => Some(pack.get(pack.seek(index, pack.count())?)),
            BodyView::Large(table) => Some(Element::Bytes(table.get(index).0.bytes())),
        }
    }

    /// Visits the members at `indexes`, which are in order: a listpack is gone through once.
    pub fn for_each_at(self, indexes: &[usize], mut visit: impl FnMut(Element<'a>)) {
        let BodyView::Small(pack) = self.body else {
            let members = indexes.iter().filter_map(|index| self.at(*index));
            return members.for_each(visit);
        };
        let (mut members, mut next) = (pack.iter(), 0);
        for &index in indexes {
            let Some(member) = members.nth(index - next) else { return };
            next = index + 1;
            visit(member);
        }
    }

    /// Returns the members of a listpack by their indexes, for who wants many: [`SetView::at`]
    /// walks to each. Returns none in other forms, where it takes one step.
    pub fn listpack_members(self) -> Vec<Element<'a>> {
        match self.body {
            BodyView::Small(pack) => pack.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Visits some members and returns the cursor to go on with; see SSCAN.
    pub fn scan(self, cursor: u64, mut visit: impl FnMut(Element<'_>)) -> u64 {
        match self.body {
            BodyView::Large(table) => {
                table.scan(cursor, &mut |member| visit(Element::Bytes(member.0.bytes())))
            }
            _ => {
                self.for_each(visit);
                0
            }
        }
    }
}

/// As other collections ask it for members.
impl SetView<'_> {
    pub(crate) fn is_listpack(self) -> bool {
        matches!(self.body, BodyView::Small(_))
    }

    /// Visits all members, each with its hash, in no order, until `visit` breaks.
    pub(crate) fn try_for_each_hashed(
        self,
        rules: &Rules,
        mut visit: impl FnMut(HashedName<'_>) -> ControlFlow<()>,
    ) {
        let mut visit_element =
            |element: Element<'_>| element.with_bytes(|bytes| visit(HashedName::of(bytes, rules)));
        // A break ends it, and is no answer.
        let _ = match self.body {
            BodyView::Integers(set) => set.iter().map(Element::Integer).try_for_each(visit_element),
            BodyView::Small(pack) => pack.iter().try_for_each(&mut visit_element),
            BodyView::Large(table) => table.iter_hashed().try_for_each(|(hash, member)| {
                visit(HashedName { bytes: member.0.bytes(), hash: hash.into() })
            }),
        };
    }

    /// Returns whether `member` is there.
    #[inline]
    pub(crate) fn contains_hashed(self, member: HashedName<'_>, rules: &Rules) -> bool {
        match self.body {
            BodyView::Large(table) => table.find(member.hash, member.bytes).is_some(),
            _ => self.contains(member.bytes, rules),
        }
    }

    /// Returns a bound of the blocks that members have beyond their slots in a table.
    pub(crate) fn block_bytes(self) -> u64 {
        match self.body {
            BodyView::Integers(_) => 0,
            BodyView::Small(pack) => {
                pack.iter().map(|member| block_bytes(member.byte_count())).sum()
            }
            BodyView::Large(table) => table.payload_heap_bytes(),
        }
    }
}

impl<'a> SetMember<'a> {
    /// Returns `element` as a member of which nothing else is known.
    fn of(element: Element<'a>) -> SetMember<'a> {
        SetMember { element, hash: None }
    }

    /// Returns what it is.
    #[inline]
    pub fn element(&self) -> Element<'a> {
        self.element
    }

    /// Returns its hash, as tables have it.
    #[inline]
    fn hash(&mut self, rules: &Rules) -> u32 {
        let element = self.element;
        let hash = || element.with_bytes(|bytes| rules.hasher.hash(bytes)) as u32;
        *self.hash.get_or_insert_with(hash)
    }
}

/// Returns the bytes that a table takes.
#[inline]
fn table_bytes(table: &HashTable<Member>) -> u64 {
    heap_bytes(size_of::<HashTable<Member>>()) + table.memory_bytes()
}

impl Payload for Member {
    #[inline]
    fn name(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn heap_bytes(&self) -> u64 {
        self.0.heap_bytes()
    }
}

#[inline]
fn find(pack: ListpackView<'_>, member: &[u8]) -> Option<At> {
    pack.find(pack.first(), &Needle::new(member), 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::SecretHasher;
    use base::prng::Prng;
    use base::step_counters::{CountedStep, steps_of};

    use super::*;
    use crate::Limits;

    fn rules() -> Rules {
        Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) }
    }

    fn members(set: &Set) -> BTreeSet<Vec<u8>> {
        let mut all = BTreeSet::new();
        set.view()
            .for_each(|member| assert!(all.insert(member.to_vec()), "a member is there once"));
        all
    }

    #[test]
    fn any_history_leaves_what_a_set_would_have() {
        let (rules, mut random) = (rules(), Prng::new(1));
        for (bound, text_one_in) in [(20, 2), (300, 2), (400, 100_000), (2000, 400), (200, 3)] {
            let (mut set, mut model) = (Set::for_members(b"1", 1, &rules), BTreeSet::new());
            for step in 0..3000 {
                let number = random.below(bound);
                let member = match random.one_in(text_one_in) {
                    true if number == 7 => vec![b'm'; 100],
                    true => format!("member {number}").into_bytes(),
                    false => number.to_string().into_bytes(),
                };
                if random.one_in(60) {
                    let some: Vec<Vec<u8>> = model.iter().step_by(3).cloned().collect();
                    let names = some.iter().chain([&member]).chain(&some).map(Vec::as_slice);
                    let removed = set.remove_all(names.collect::<Vec<_>>().into_iter(), &rules);
                    let before = model.len();
                    model.retain(|one| !some.contains(one) && *one != member);
                    assert_eq!(removed, before - model.len());
                } else if random.one_in(60) {
                    let indexes: Vec<usize> = (0..set.len()).step_by(4).collect();
                    let mut names = Vec::new();
                    set.view().for_each_at(&indexes, |member| names.push(member.to_vec()));
                    set.remove_at(&indexes, names.iter().map(Vec::as_slice), &rules);
                    names.iter().for_each(|name| assert!(model.remove(name)));
                    assert_eq!(names.len(), indexes.len());
                } else if random.one_in(3) {
                    assert_eq!(set.remove(&member, &rules), model.remove(&member));
                } else {
                    assert_eq!(set.insert(&member, &rules), model.insert(member.clone()));
                }
                assert_eq!(set.view().contains(&member, &rules), model.contains(&member));
                assert_eq!(set.len(), model.len());
                if step % 50 == 0 {
                    assert_eq!(members(&set), model);
                    let by_index = (0..=set.len()).map_while(|index| set.view().at(index));
                    assert_eq!(by_index.map(|one| one.to_vec()).collect::<BTreeSet<_>>(), model);
                }
            }
        }
    }

    #[test]
    fn forms_follow_the_options() {
        let rules = rules();
        let mut set = Set::for_members(b"1", 1, &rules);
        for number in 0..512 {
            set.insert(number.to_string().as_bytes(), &rules);
        }
        assert_eq!(set.view().encoding(), CollectionEncoding::Intset);
        set.insert(b"512", &rules);
        assert_eq!((set.view().encoding(), set.len()), (CollectionEncoding::HashTable, 513));
        let mut set = Set::for_members(b"1", 1, &rules);
        for number in 0..127 {
            set.insert(number.to_string().as_bytes(), &rules);
        }
        set.insert(b"x", &rules);
        assert_eq!((set.view().encoding(), set.len()), (CollectionEncoding::Listpack, 128));
        set.insert(b"y", &rules);
        assert_eq!((set.view().encoding(), set.len()), (CollectionEncoding::HashTable, 129));
        let mut set = Set::for_members(b"x", 1, &rules);
        set.insert(&[b'x'; 64], &rules);
        assert_eq!(set.view().encoding(), CollectionEncoding::Listpack);
        set.insert(&[b'x'; 65], &rules);
        assert_eq!(set.view().encoding(), CollectionEncoding::HashTable);
    }

    #[test]
    fn many_members_are_taken_out_in_as_many_steps_as_there_are_members() {
        const COUNT: usize = 3_000;
        let limits = Limits { set_integers: u64::MAX, set_entries: u64::MAX, ..Limits::default() };
        let rules = Rules { limits, ..rules() };
        for is_text in [true, false] {
            let all: Vec<Vec<u8>> = match is_text {
                true => all_members(COUNT as u64),
                false => (0..COUNT).map(|number| number.to_string().into_bytes()).collect(),
            };
            let mut whole = Set::for_members(&all[0], 1, &rules);
            // As `insert` looks for each of them.
            match is_text {
                true => {
                    let mut pack = Listpack::new();
                    all.iter().for_each(|member| pack.push_back(member));
                    whole = Set::from_pack(pack).expect("each is there once");
                }
                false => all.iter().for_each(|member| assert!(whole.insert(member, &rules))),
            }
            assert!(whole.view().compact().is_some());
            let gone: Vec<&[u8]> = all.iter().step_by(2).map(Vec::as_slice).collect();
            let twice = || gone.iter().chain(&gone).copied().chain([&b"nobody"[..]]);
            let twice: Vec<&[u8]> = twice().collect();
            let steps_max = 2 * COUNT as u64;
            let mut set = whole.clone();
            let steps = steps_of(CountedStep::Member, || {
                assert_eq!(set.remove_all(twice.iter().copied(), &rules), gone.len());
            });
            assert!(steps <= 2 * steps_max, "{steps} steps to remove members of {COUNT}");
            let left: BTreeSet<Vec<u8>> = all.iter().skip(1).step_by(2).cloned().collect();
            assert_eq!(members(&set), left);
            let mut set = whole;
            let indexes: Vec<usize> = (0..COUNT).step_by(2).collect();
            let mut names = Vec::new();
            let steps = steps_of(CountedStep::Member, || {
                set.view().for_each_at(&indexes, |member| names.push(member.to_vec()));
                set.remove_at(&indexes, names.iter().map(Vec::as_slice), &rules);
            });
            assert!(steps <= 2 * steps_max, "{steps} steps to remove at indexes of {COUNT}");
            assert_eq!(members(&set), left);
            assert!(names.iter().map(Vec::as_slice).eq(gone));
        }
    }

    fn all_members(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("member {number}").into_bytes()).collect()
    }

    #[test]
    fn a_table_becomes_a_compact_form_of_the_same_members() {
        let rules = rules();
        for (all, form) in [
            (all_members(300), CollectionEncoding::Listpack),
            (
                (0..300).map(|number| number.to_string().into_bytes()).collect(),
                CollectionEncoding::Intset,
            ),
        ] {
            let mut set = Set::large();
            assert!(all.iter().all(|member| set.insert(member, &rules)));
            assert_eq!(set.view().encoding(), CollectionEncoding::HashTable);
            set.make_integers();
            set.make_pack();
            assert_eq!(set.view().encoding(), form);
            assert_eq!(members(&set), all.iter().cloned().collect());
            assert!(all.iter().all(|member| set.view().contains(member, &rules)));
        }
    }

    #[test]
    fn a_listpack_with_a_member_twice_is_no_set() {
        let mut pack = Listpack::new();
        all_members(5).iter().for_each(|member| pack.push_back(member));
        assert_eq!(Set::from_pack(pack.clone()).map(|set| set.len()), Some(5));
        pack.push_back(b"member 3");
        assert!(Set::from_pack(pack).is_none());
    }

    fn forms(rules: &Rules) -> [Set; 4] {
        let mut long = all_members(40);
        long.push(vec![b'm'; 100]);
        let of = |members: &[Vec<u8>]| {
            let mut set = Set::for_members(&members[0], members.len() as u64, rules);
            assert!(members.iter().all(|member| set.insert(member, rules)));
            set
        };
        let integers: Vec<Vec<u8>> = (0..300).map(|n| (n * n).to_string().into_bytes()).collect();
        let sets = [of(&integers), of(&all_members(100)), of(&all_members(1_000)), of(&long)];
        let forms = [
            CollectionEncoding::Intset,
            CollectionEncoding::Listpack,
            CollectionEncoding::HashTable,
            CollectionEncoding::HashTable,
        ];
        assert_eq!(sets.each_ref().map(|set| set.view().encoding()), forms);
        sets
    }

    #[test]
    fn members_of_a_set_of_any_form_are_added_to_another_and_taken_out() {
        let rules = rules();
        for set in forms(&rules) {
            for mut copy in [Set::small(), Set::large(), Set::from_integers(Intset::default())] {
                let added = set.view().try_for_each(|member| {
                    assert!(copy.insert_member(member, &rules));
                    assert!(!copy.insert_member(member, &rules));
                    ControlFlow::<()>::Continue(())
                });
                assert!(added.is_continue());
                assert_eq!(members(&copy), members(&set));
                assert!(members(&set).iter().all(|member| copy.view().contains(member, &rules)));
                let removed = set.view().try_for_each(|member| {
                    assert!(copy.remove_member(member, &rules));
                    assert!(!copy.remove_member(member, &rules));
                    copy.insert_new_member(member, &rules);
                    assert!(copy.remove_member(member, &rules));
                    ControlFlow::<()>::Continue(())
                });
                assert!(removed.is_continue() && copy.is_empty());
            }
            let set = set.view();
            let first = set.try_for_each(|member| ControlFlow::Break(member.element().to_vec()));
            assert_eq!(first.break_value(), set.at(0).map(|member| member.to_vec()));
        }
    }

    #[test]
    fn a_bound_of_the_memory_holds_in_a_table_too() {
        /// What tables of no members take.
        const EMPTY_BYTES_MAX: u64 = 1024;
        let rules = rules();
        for set in forms(&rules) {
            let mut table = Set::large();
            set.view().for_each(|member| assert!(table.insert(&member.to_vec(), &rules)));
            let bound = set.memory_bytes_max();
            assert!(table.memory_bytes() <= bound + EMPTY_BYTES_MAX, "{bound}");
            assert!(set.memory_bytes() <= bound && set.view().memory_bytes_max() <= bound);
        }
    }

    #[test]
    fn members_of_a_listpack_are_listed_by_their_indexes() {
        for set in forms(&rules()) {
            let set = set.view();
            let listed = set.listpack_members();
            assert_eq!(listed.is_empty(), set.encoding() != CollectionEncoding::Listpack);
            for (index, member) in listed.into_iter().enumerate() {
                assert_eq!(Some(member), set.at(index));
            }
        }
    }
}
