//! A list: one listpack while it is small, then a sequence of them (Redis's quicklist).
//!
//! *Layout*: this file chooses between both and has what lists can do; `quicklist.rs` is the
//! sequence.

mod quicklist;

use crate::compact::Compact;
use crate::compact_limits::ListLimit;
use crate::element::{Element, Needle};
use crate::heap_bytes;
use crate::listpack::{Listpack, element_bytes_max};
use crate::listpack_view::{At, EMPTY_BYTES, ListpackView};
use crate::walk::Walked;

use quicklist::{ELEMENT_FRAME_BYTES, Node, Quicklist, remove_back, remove_equal, remove_front};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where index 0 is.
    Head,
    /// The other.
    Tail,
}

/// Where an element goes, beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before it.
    Before,
    /// Behind it.
    After,
}

/// Elements in order.
#[derive(Clone, Debug)]
pub struct List {
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Small(Listpack),
    Large(Box<Quicklist>),
}

/// A list to read, wherever it lies.
#[derive(Clone, Copy, Debug)]
pub struct ListView<'a> {
    body: BodyView<'a>,
}

#[derive(Clone, Copy, Debug)]
enum BodyView<'a> {
    Small(ListpackView<'a>),
    Large(&'a Quicklist),
}

/// What the allocator adds to a block at most.
const BLOCK_FRAME_BYTES_MAX: u64 = 24;

impl Default for List {
    fn default() -> List {
        List { body: Body::Small(Listpack::new()) }
    }
}

impl List {
    /// Returns an empty list for listpacks one behind the other, even where there is one only.
    pub fn large() -> List {
        List { body: Body::Large(Box::new(Quicklist::of(Listpack::new()))) }
    }

    /// Adds the elements of `pack` behind the last. Where the list is not one of several
    /// listpacks, it becomes that.
    pub fn append_pack(&mut self, pack: Listpack) {
        if let Body::Small(own) = &mut self.body {
            let own = std::mem::take(own);
            self.body = Body::Large(Box::new(Quicklist::of(own)));
        }
        let Body::Large(large) = &mut self.body else { panic!("it is one of several") };
        let node = Node { count: pack.count(), pack };
        large.add_node(large.nodes.len(), node);
    }

    /// Becomes one listpack where it has only one, which `limit` holds, if there is a limit.
    pub fn compact(&mut self, limit: Option<ListLimit>) {
        let Body::Large(large) = &mut self.body else { return };
        let holds = |node: &Node| {
            limit.is_none_or(|limit| limit.holds(node.pack.bytes().len(), node.count))
        };
        if large.nodes.len() == 1 && holds(&large.nodes[0]) {
            large.keep_rest();
            let node = large.nodes.pop_front().expect("there is one");
            self.body = Body::Small(node.pack);
        }
    }

    /// Returns an empty list in the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn empty_in(buffer: Vec<u8>) -> List {
        List { body: Body::Small(Listpack::empty_in(buffer)) }
    }

    /// Returns the list of `compact`, copied to the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn copy_in(compact: Compact<'_>, buffer: Vec<u8>) -> List {
        List { body: Body::Small(Listpack::copy_in(compact.pack(), buffer)) }
    }

    /// Returns the memory of the listpack; none where it is one of several.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        match self.body {
            Body::Small(pack) => pack.into_buffer(),
            Body::Large(_) => Vec::new(),
        }
    }

    /// Returns what a walk leads through, unless the list is compact.
    pub(crate) fn walked(&mut self) -> Option<&mut dyn Walked> {
        match &mut self.body {
            Body::Small(_) => None,
            Body::Large(large) => Some(&mut **large),
        }
    }

    /// Returns it, to read.
    #[inline]
    pub fn view(&self) -> ListView<'_> {
        let body = match &self.body {
            Body::Small(pack) => BodyView::Small(pack.view()),
            Body::Large(large) => BodyView::Large(large),
        };
        ListView { body }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether it is one listpack.
    pub fn is_small(&self) -> bool {
        matches!(self.body, Body::Small(_))
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match &self.body {
            Body::Small(pack) => pack.memory_bytes(),
            Body::Large(large) => large.memory_bytes(),
        }
    }

    /// Gives memory back when half of a listpack is unused: removing elements does not.
    #[inline]
    pub fn give_back(&mut self) {
        if let Body::Small(pack) = &mut self.body {
            pack.give_back();
        }
    }

    /// Makes ready for `elements` that will be added together: a listpack that cannot take them
    /// all becomes one of several first, as in Redis.
    ///
    /// Source: Redis 7.2, `listTypeTryConvertListpack`.
    #[inline]
    pub fn prepare<'e>(&mut self, elements: impl Iterator<Item = &'e [u8]>, limit: ListLimit) {
        let Body::Small(pack) = &mut self.body else { return };
        let (mut bytes, mut count) = (pack.bytes().len(), pack.count());
        for element in elements {
            bytes += element.len();
            count += 1;
        }
        if limit.is_exceeded_by(bytes, count) {
            let mut pack = std::mem::take(pack);
            pack.give_back();
            self.body = Body::Large(Box::new(Quicklist::of(pack)));
        }
    }

    /// Returns the most bytes by which memory grows where `elements` are added at `end`, after
    /// [`List::prepare`] of the same.
    ///
    /// The elements are laid out as [`List::push`] does, each as long as it can be: real listpacks
    /// take as many or more.
    pub fn growth_bound<'e>(
        &self,
        end: End,
        elements: impl Iterator<Item = &'e [u8]>,
        limit: ListLimit,
    ) -> u64 {
        let (first, node_count, node_room) = match &self.body {
            Body::Small(pack) => (Some((pack, pack.count())), 0, 0),
            Body::Large(large) => {
                let node = match end {
                    End::Head => large.nodes.front(),
                    End::Tail => large.nodes.back(),
                };
                let first = node.map(|node| (&node.pack, node.count));
                (first, large.nodes.len(), large.nodes.capacity())
            }
        };
        let (mut bytes, mut count) =
            first.map_or((EMPTY_BYTES, 0), |(pack, count)| (pack.bytes().len(), count));
        let (start_bytes, start_count) = (bytes, count);
        let (mut added, mut opened, mut length, mut number) = (0, 0, 0, 0);
        for element in elements {
            let taken = element_bytes_max(element.len());
            (length, number) = (length + element.len(), number + 1);
            if limit.is_exceeded_by(bytes + element.len() + ELEMENT_FRAME_BYTES, count + 1) {
                (bytes, count, opened) = (EMPTY_BYTES, 0, opened + 1);
            }
            (bytes, count, added) = (bytes + taken, count + 1, added + taken as u64);
        }
        if let Some((pack, _)) = first {
            let stays_small = self.is_small()
                && !limit.is_exceeded_by(start_bytes + length, start_count + number);
            if opened == 0 || stays_small {
                return pack.growth_to(start_bytes + added as usize);
            }
        }
        // All but the last give back what they do not use.
        let last = Listpack::new().growth_to(bytes).saturating_sub(bytes as u64);
        let packs = added + (opened + 1) * (EMPTY_BYTES as u64 + BLOCK_FRAME_BYTES_MAX) + last;
        let nodes = node_count + opened as usize + 1;
        let row = match nodes > node_room {
            true => heap_bytes((2 * nodes).max(4) * size_of::<Node>()),
            false => 0,
        };
        let own = if self.is_small() { heap_bytes(size_of::<Quicklist>()) } else { 0 };
        packs + row + own
    }

    /// Adds `element` at `end`.
    #[inline]
    pub fn push(&mut self, end: End, element: &[u8], limit: ListLimit) {
        match (&mut self.body, end) {
            (Body::Small(pack), End::Head) => pack.push_front(element),
            (Body::Small(pack), End::Tail) => pack.push_back(element),
            (Body::Large(large), end) => large.push(end, element, limit),
        }
    }

    /// Adds `element` behind the last. One listpack becomes one of several only once it is longer
    /// than `limit` lets it be: a list that is worked out is one listpack if all of it fits.
    ///
    /// Source: Redis 7.2, `sortCommandGeneric` and `listTypeTryConvertListpack`.
    pub fn append(&mut self, element: &[u8], limit: ListLimit) {
        self.push(End::Tail, element, limit);
        if let Body::Small(pack) = &mut self.body
            && limit.is_exceeded_by(pack.bytes().len(), pack.count())
        {
            let pack = std::mem::take(pack);
            self.body = Body::Large(Box::new(Quicklist::of(pack)));
        }
    }

    /// Takes up to `count` elements away from `end`, without a look at them.
    pub fn remove_end(&mut self, end: End, count: usize, limit: ListLimit) {
        match (&mut self.body, end) {
            (Body::Small(pack), End::Head) => remove_front(pack, count),
            (Body::Small(pack), End::Tail) => remove_back(pack, count),
            (Body::Large(large), end) => large.remove_end(end, count),
        }
        self.shrink(limit);
    }

    /// Moves the element at `from` to `to`, as if it was taken away and added again, and returns
    /// it; the list becomes one listpack again only after both.
    ///
    /// Source: Redis 7.2, `lmoveGenericCommand`.
    pub fn rotate(&mut self, from: End, to: End, limit: ListLimit) -> Option<Vec<u8>> {
        let index = if from == End::Head { 0 } else { self.len().saturating_sub(1) };
        let element = self.view().get(index)?.to_vec();
        match (&mut self.body, from) {
            (Body::Small(pack), End::Head) => remove_front(pack, 1),
            (Body::Small(pack), End::Tail) => remove_back(pack, 1),
            (Body::Large(large), end) => large.remove_end(end, 1),
        }
        self.prepare(std::iter::once(element.as_slice()), limit);
        self.push(to, &element, limit);
        self.shrink(limit);
        Some(element)
    }

    /// Puts `element` in place of that at `index`; returns whether there is one.
    pub fn set(&mut self, index: usize, element: &[u8], limit: ListLimit) -> bool {
        let count = self.len();
        if index >= count {
            return false;
        }
        self.prepare(std::iter::once(element), limit);
        match &mut self.body {
            Body::Small(pack) => {
                let at = pack.view().seek(index, count).expect("the index is below the count");
                pack.replace(at, element);
            }
            Body::Large(large) => large.set(index, element, limit),
        }
        self.shrink(limit);
        true
    }

    /// Puts `element` beside the first that is `pivot`; returns whether there is one.
    pub fn insert(&mut self, place: Place, pivot: &[u8], element: &[u8], limit: ListLimit) -> bool {
        self.prepare(std::iter::once(element), limit);
        let needle = Needle::new(pivot);
        match &mut self.body {
            Body::Small(pack) => match pack.view().find(pack.view().first(), &needle, 1) {
                Some(at) if place == Place::Before => {
                    pack.insert(at, element);
                    true
                }
                Some(at) => {
                    pack.insert_after(at, element);
                    true
                }
                None => false,
            },
            Body::Large(large) => large.insert(place, &needle, element, limit),
        }
    }

    /// Takes out up to `count` elements that are `element`, from `end` on; returns how many.
    pub fn remove(&mut self, end: End, element: &[u8], count: usize, limit: ListLimit) -> usize {
        let needle = Needle::new(element);
        let removed = match &mut self.body {
            Body::Small(pack) => remove_equal(pack, end, &needle, count),
            Body::Large(large) => large.remove(end, &needle, count),
        };
        if removed > 0 {
            self.shrink(limit);
        }
        removed
    }

    /// After elements went: becomes one listpack again where half of one would do.
    fn shrink(&mut self, limit: ListLimit) {
        let Body::Large(large) = &mut self.body else { return };
        let pack = match large.nodes.len() {
            0 => {
                large.keep_rest();
                Listpack::new()
            }
            1 if limit.is_half_full(large.nodes[0].pack.bytes().len(), large.count) => {
                large.keep_rest();
                large.nodes.pop_front().expect("there is one").pack
            }
            _ => return,
        };
        self.body = Body::Small(pack);
    }
}

impl<'a> ListView<'a> {
    /// Returns the list whose compact form this is.
    #[inline]
    pub fn of_compact(compact: Compact<'a>) -> ListView<'a> {
        ListView { body: BodyView::Small(compact.pack()) }
    }

    /// Returns the compact form, unless it is one of several listpacks.
    #[inline]
    pub fn compact(self) -> Option<Compact<'a>> {
        match self.body {
            BodyView::Small(pack) => Some(Compact::Listpack(pack)),
            BodyView::Large(_) => None,
        }
    }

    /// Returns the listpacks, none of which is empty unless the list is.
    pub fn packs(self) -> impl ExactSizeIterator<Item = ListpackView<'a>> {
        let (small, large) = self.parts();
        let count = large.map_or(1, |large| large.nodes.len());
        (0..count).map(move |index| match (small, large) {
            (Some(pack), _) => pack,
            (_, Some(large)) => large.nodes[index].pack.view(),
            _ => unreachable!("a list is one or the other"),
        })
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(self) -> usize {
        match self.body {
            BodyView::Small(pack) => pack.count(),
            BodyView::Large(large) => large.count,
        }
    }

    /// Returns whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether it is one listpack.
    pub fn is_small(self) -> bool {
        matches!(self.body, BodyView::Small(_))
    }

    /// Returns the bytes that its parts take: of one listpack, those of the listpack alone.
    pub fn memory_bytes(self) -> u64 {
        match self.body {
            BodyView::Small(pack) => pack.bytes().len() as u64,
            BodyView::Large(large) => large.memory_bytes(),
        }
    }

    /// Returns the element at `index`.
    pub fn get(self, index: usize) -> Option<Element<'a>> {
        let (pack, at) = self.seek(index)?;
        Some(pack.get(at))
    }

    /// Visits up to `count` elements from index `start` on.
    pub fn for_each(self, start: usize, count: usize, mut visit: impl FnMut(Element<'_>)) {
        match self.body {
            BodyView::Small(pack) => {
                let at = pack.seek(start, pack.count());
                pack.iter_from(at).take(count).for_each(visit);
            }
            BodyView::Large(large) => large.for_each(start, count, &mut visit),
        }
    }

    /// Returns all elements.
    pub fn iter(self) -> impl Iterator<Item = Element<'a>> {
        let (small, large) = self.parts();
        let large = large.map(|large| large.nodes.iter().flat_map(|node| node.pack.iter()));
        small.map(ListpackView::iter).into_iter().flatten().chain(large.into_iter().flatten())
    }

    /// Returns all elements, the last first.
    pub fn iter_back(self) -> impl Iterator<Item = Element<'a>> {
        let (small, large) = self.parts();
        let packs = large.map(|large| large.nodes.iter().rev());
        let large = packs.map(|packs| packs.flat_map(|node| node.pack.iter_back()));
        small.map(ListpackView::iter_back).into_iter().flatten().chain(large.into_iter().flatten())
    }

    fn seek(self, index: usize) -> Option<(ListpackView<'a>, At)> {
        match self.body {
            BodyView::Small(pack) => Some((pack, pack.seek(index, pack.count())?)),
            BodyView::Large(large) => {
                let (node, inner) = large.locate(index)?;
                let node = &large.nodes[node];
                let pack = node.pack.view();
                Some((pack, pack.seek(inner, node.count)?))
            }
        }
    }

    /// Returns the one listpack, or the several.
    fn parts(self) -> (Option<ListpackView<'a>>, Option<&'a Quicklist>) {
        match self.body {
            BodyView::Small(pack) => (Some(pack), None),
            BodyView::Large(large) => (None, Some(large)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use base::prng::Prng;

    use super::*;

    fn check(list: &List, model: &VecDeque<Vec<u8>>, random: &mut Prng) {
        assert_eq!(list.len(), model.len());
        assert!(list.view().iter().map(|one| one.to_vec()).eq(model.iter().cloned()));
        assert!(list.view().iter_back().map(|one| one.to_vec()).eq(model.iter().rev().cloned()));
        let start = random.below(model.len() as u64 + 2) as usize;
        let count = random.below(50) as usize;
        let mut part = Vec::new();
        list.view().for_each(start, count, |one| part.push(one.to_vec()));
        assert!(part.iter().eq(model.iter().skip(start).take(count)));
        assert_eq!(list.view().get(start).map(|one| one.to_vec()), model.get(start).cloned());
        if let Body::Large(large) = &list.body {
            assert!(large.nodes.iter().all(|node| node.count > 0));
            assert!(large.nodes.iter().all(|node| node.pack.count() == node.count));
            let bytes: u64 = large.nodes.iter().map(|node| node.pack.memory_bytes()).sum();
            assert_eq!(large.pack_bytes, bytes);
        }
    }

    #[test]
    fn elements_fill_no_more_listpacks_than_their_limit_says() {
        let mut random = Prng::new(9);
        for limit in [1, 2, 100, 0, -1, -3].map(ListLimit) {
            for length in [1, 12, 60, 3000, 9000] {
                let (mut list, mut pack) = (List::large(), Listpack::new());
                for count in 1..600 {
                    let element = match random.below(2) {
                        0 => vec![b'1'; 1 + random.below(19) as usize],
                        _ => vec![b'e'; random.below(length) as usize],
                    };
                    list.push(End::Tail, &element, limit);
                    pack.push_back(&element);
                    let most = limit.pack_count_max(count, pack.bytes().len());
                    assert!(list.view().packs().len() <= most.min(count), "{limit:?} {length}");
                    assert!(
                        most <= 5 * list.view().packs().len() + 2,
                        "{limit:?} {length}: {most}"
                    );
                }
            }
        }
    }

    fn step(list: &mut List, model: &mut VecDeque<Vec<u8>>, limit: ListLimit, random: &mut Prng) {
        let word = |random: &mut Prng| match random.below(30) {
            0 => vec![b'w'; 9000],
            1..10 => format!("a longer word {}", random.below(20)).repeat(5).into_bytes(),
            _ => random.below(40).to_string().into_bytes(),
        };
        let element = word(random);
        let index = random.below(model.len() as u64 + 1) as usize;
        let count = 1 + random.below(40) as usize;
        match random.below(12) {
            0..3 => {
                list.prepare(std::iter::once(&*element), limit);
                list.push(End::Head, &element, limit);
                model.push_front(element);
            }
            3..7 => {
                list.prepare(std::iter::once(&*element), limit);
                list.push(End::Tail, &element, limit);
                model.push_back(element);
            }
            7 => {
                list.remove_end(End::Head, count, limit);
                model.drain(..count.min(model.len()));
            }
            8 => {
                list.remove_end(End::Tail, count, limit);
                model.truncate(model.len().saturating_sub(count));
            }
            9 => {
                let is_there = index < model.len();
                assert_eq!(list.set(index, &element, limit), is_there);
                if is_there {
                    model[index] = element;
                }
            }
            10 => {
                let pivot = word(random);
                let found = model.iter().position(|one| *one == pivot);
                let place = if random.one_in(2) { Place::Before } else { Place::After };
                assert_eq!(list.insert(place, &pivot, &element, limit), found.is_some());
                if let Some(found) = found {
                    model.insert(found + usize::from(place == Place::After), element);
                }
            }
            _ => {
                let end = if random.one_in(2) { End::Head } else { End::Tail };
                let mut left = count;
                let mut keep = |one: &Vec<u8>| {
                    let goes = *one == element && left > 0;
                    left -= usize::from(goes);
                    !goes
                };
                match end {
                    End::Head => model.retain(&mut keep),
                    End::Tail => {
                        let kept: Vec<_> = model.drain(..).rev().filter(&mut keep).collect();
                        model.extend(kept.into_iter().rev());
                    }
                }
                assert_eq!(list.remove(end, &element, count, limit), count - left);
            }
        }
    }

    #[test]
    fn any_history_leaves_what_a_deque_would_have() {
        let mut random = Prng::new(1);
        for limit in [-2, -1, 3, 1, 0, 100].map(ListLimit) {
            for _ in 0..6 {
                let (mut list, mut model) = (List::default(), VecDeque::new());
                for _ in 0..400 {
                    step(&mut list, &mut model, limit, &mut random);
                    check(&list, &model, &mut random);
                    check(&list.clone(), &model, &mut random);
                }
            }
        }
    }

    #[test]
    fn an_integer_that_is_longer_as_text_than_its_listpack_is_replaced() {
        let (mut list, limit) = (List::large(), ListLimit(1));
        let integer = i64::MIN.to_string().into_bytes();
        (0..2).for_each(|_| list.append(&integer, limit));
        for index in [1, 0] {
            assert!(list.set(index, b"", limit));
            assert_eq!(list.view().get(index).map(|one| one.to_vec()), Some(Vec::new()));
        }
    }

    #[test]
    fn small_lists_are_one_listpack() {
        let limit = ListLimit(-2);
        let mut list = List::default();
        let element = vec![b'x'; 100];
        for _ in 0..77 {
            list.prepare(std::iter::once(&*element), limit);
            list.push(End::Tail, &element, limit);
        }
        assert!(list.is_small());
        for _ in 0..10 {
            list.prepare(std::iter::once(&*element), limit);
            list.push(End::Tail, &element, limit);
        }
        assert!(!list.is_small());
        list.remove_end(End::Head, 40, limit);
        assert!(!list.is_small(), "more than half of a listpack");
        list.remove_end(End::Tail, 20, limit);
        assert!(list.is_small());
    }

    #[test]
    fn listpacks_make_a_list_and_are_what_it_is_made_of() {
        let mut random = Prng::new(3);
        for pack_count in 0..6 {
            let (mut list, mut model) = (List::large(), VecDeque::new());
            for _ in 0..pack_count {
                let mut pack = Listpack::new();
                for _ in 0..random.below(4) {
                    let element = random.below(1000).to_string().into_bytes();
                    pack.push_back(&element);
                    model.push_back(element);
                }
                list.append_pack(pack);
                check(&list, &model, &mut random);
            }
            assert!(!list.is_small() && list.view().packs().all(|pack| !pack.is_empty()));
            let own = |pack| Listpack::copy_in(pack, Vec::new());
            let packs: Vec<Listpack> = list.view().packs().map(own).collect();
            list.compact(Some(ListLimit(3)));
            assert_eq!(list.is_small(), packs.len() == 1);
            check(&list, &model, &mut random);
            let mut again = List::default();
            packs.iter().for_each(|pack| again.append_pack(pack.clone()));
            check(&again, &model, &mut random);
            assert!(packs.is_empty() || again.view().packs().eq(packs.iter().map(Listpack::view)));
        }
        let mut list = List::large();
        (0..5).for_each(|_| list.push(End::Tail, b"element", ListLimit(8)));
        list.compact(Some(ListLimit(4)));
        assert!(!list.is_small(), "it holds more than the limit");
        list.compact(None);
        assert!(list.is_small());
    }

    /// Each that goes is not worth a walk over all: the elements are more than the header can tell.
    #[test]
    fn many_equal_elements_go_in_one_pass_from_either_end() {
        let limit = crate::compact_limits::Limits::default().list;
        for (end, count, expected) in
            [(End::Head, 3, 69_997), (End::Tail, 69_990, 10), (End::Head, usize::MAX, 0)]
        {
            let mut list = List::default();
            for number in 0..140_000 {
                list.push(End::Tail, if number % 2 == 0 { b"a" } else { b"b" }, limit);
            }
            assert_eq!(list.remove(end, b"a", count, limit), 70_000 - expected);
            assert_eq!(list.len(), 70_000 + expected);
            let left: Vec<bool> = list.view().iter().map(|it| it.to_vec() == b"a").collect();
            let found = left.iter().filter(|it| **it).count();
            assert_eq!(found, expected);
            // From the tail on the first ones stay, from the head on the last.
            let (front, back) = (left.iter().position(|it| *it), left.iter().rposition(|it| *it));
            match end {
                _ if expected == 0 => assert_eq!(front, None),
                End::Head => assert_eq!(back, Some(left.len() - 2)),
                End::Tail => assert_eq!(front, Some(0)),
            }
        }
    }
}
