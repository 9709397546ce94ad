//! The large form of a list: listpacks one behind the other, as in Redis's quicklist.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{End, Place};
use crate::compact_limits::ListLimit;
use crate::element::{Element, Needle};
use crate::heap_bytes;
use crate::listpack::Listpack;
use crate::walk::{Freed, Keeper, WalkPlace, Walked, put_part};

/// What Redis counts beside an element's bytes when it asks whether a listpack takes it.
///
/// Source: Redis 7.2, `SIZE_ESTIMATE_OVERHEAD` in `quicklist.c`.
pub(super) const ELEMENT_FRAME_BYTES: usize = 8;

/// Listpacks one behind the other, none of them empty.
#[derive(Debug)]
pub(super) struct Quicklist {
    pub nodes: VecDeque<Node>,
    pub count: usize,
    pub pack_bytes: u64,
    walk: WalkPlace<ListWalk>,
}

/// How far a walk is, by the nodes that there were at its begin.
struct ListWalk {
    /// For each node of now which it was, or [`TAKEN`].
    numbers: VecDeque<u32>,
    /// All before this are taken.
    next: usize,
    /// Which node of the begin is next.
    next_number: u32,
    keeper: Arc<Keeper>,
}

/// A node that is new, or that the walk has.
const TAKEN: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub pack: Listpack,
    pub count: usize,
}

impl Clone for Quicklist {
    /// The copies of listpacks keep no room for more elements, and take fewer bytes.
    fn clone(&self) -> Quicklist {
        let nodes = self.nodes.clone();
        let pack_bytes = nodes.iter().map(|node| node.pack.memory_bytes()).sum();
        Quicklist { nodes, count: self.count, pack_bytes, walk: WalkPlace::default() }
    }
}

impl Node {
    fn new() -> Node {
        Node { pack: Listpack::new(), count: 0 }
    }

    /// Returns whether `element` may come into this listpack.
    #[inline]
    fn takes(&self, element: &[u8], limit: ListLimit) -> bool {
        let bytes = self.pack.bytes().len() + element.len() + ELEMENT_FRAME_BYTES;
        !limit.is_exceeded_by(bytes, self.count + 1)
    }
}

impl Quicklist {
    pub fn of(pack: Listpack) -> Quicklist {
        let (count, pack_bytes) = (pack.count(), pack.memory_bytes());
        let walk = WalkPlace::default();
        if count == 0 {
            return Quicklist { nodes: VecDeque::new(), count: 0, pack_bytes: 0, walk };
        }
        Quicklist { nodes: VecDeque::from([Node { pack, count }]), count, pack_bytes, walk }
    }

    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let nodes = heap_bytes(self.nodes.capacity() * size_of::<Node>());
        heap_bytes(size_of::<Quicklist>()) + nodes + self.pack_bytes
    }

    #[inline]
    pub fn push(&mut self, end: End, element: &[u8], limit: ListLimit) {
        let node = match end {
            End::Head => self.nodes.front(),
            End::Tail => self.nodes.back(),
        };
        if !node.is_some_and(|node| node.takes(element, limit)) {
            self.open(end);
        }
        if self.walk.0.is_some() {
            self.keep(if end == End::Head { 0 } else { self.nodes.len() - 1 });
        }
        let node = match end {
            End::Head => self.nodes.front_mut(),
            End::Tail => self.nodes.back_mut(),
        };
        let node = node.expect("a node was opened");
        let before = node.pack.memory_bytes();
        match end {
            End::Head => node.pack.push_front(element),
            End::Tail => node.pack.push_back(element),
        }
        node.count += 1;
        self.pack_bytes = self.pack_bytes + node.pack.memory_bytes() - before;
        self.count += 1;
    }

    /// Makes a new node at `end`; the one before it is full and gives back what it does not use.
    fn open(&mut self, end: End) {
        let index = match end {
            End::Head => 0,
            End::Tail => self.nodes.len().saturating_sub(1),
        };
        if !self.nodes.is_empty() {
            self.change(index, |node| node.pack.shrink());
        }
        let node = Node::new();
        self.pack_bytes += node.pack.memory_bytes();
        match end {
            End::Head => self.nodes.push_front(node),
            End::Tail => self.nodes.push_back(node),
        }
        self.note_new(if end == End::Head { 0 } else { self.nodes.len() - 1 });
    }

    /// Changes node `index` and keeps the sums.
    fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        self.keep(index);
        let node = &mut self.nodes[index];
        let (count, bytes) = (node.count, node.pack.memory_bytes());
        let result = change(node);
        node.pack.give_back();
        self.count = self.count + node.count - count;
        self.pack_bytes = self.pack_bytes + node.pack.memory_bytes() - bytes;
        result
    }

    /// Puts `node` at `index` among the nodes, unless it is empty.
    pub fn add_node(&mut self, index: usize, node: Node) {
        if node.count > 0 {
            self.count += node.count;
            self.pack_bytes += node.pack.memory_bytes();
            self.nodes.insert(index, node);
            self.note_new(index);
        }
    }

    fn drop_node(&mut self, index: usize) {
        self.keep(index);
        if let Some(walk) = &mut self.walk.0 {
            walk.numbers.remove(index);
            walk.next -= usize::from(index < walk.next);
        }
        let node = self.nodes.remove(index).expect("the node is there");
        self.count -= node.count;
        self.pack_bytes -= node.pack.memory_bytes();
    }

    pub fn remove_end(&mut self, end: End, count: usize) {
        let mut left = count;
        while left > 0 && !self.nodes.is_empty() {
            let index = if end == End::Head { 0 } else { self.nodes.len() - 1 };
            let here = self.nodes[index].count;
            if here <= left {
                self.drop_node(index);
            } else {
                self.change(index, |node| {
                    match end {
                        End::Head => remove_front(&mut node.pack, left),
                        End::Tail => remove_back(&mut node.pack, left),
                    }
                    node.count -= left;
                });
            }
            left -= here.min(left);
        }
        self.give_back_nodes();
    }

    /// Returns the node that has element `index`, and its index there.
    pub fn locate(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.count {
            return None;
        }
        if index < self.count / 2 {
            let mut inner = index;
            for (number, node) in self.nodes.iter().enumerate() {
                if inner < node.count {
                    return Some((number, inner));
                }
                inner -= node.count;
            }
        }
        let mut behind = self.count - 1 - index;
        for (number, node) in self.nodes.iter().enumerate().rev() {
            if behind < node.count {
                return Some((number, node.count - 1 - behind));
            }
            behind -= node.count;
        }
        None
    }

    pub fn for_each(&self, start: usize, count: usize, visit: &mut dyn FnMut(Element<'_>)) {
        let Some((first, mut inner)) = self.locate(start) else { return };
        let mut left = count;
        for node in self.nodes.range(first..) {
            if left == 0 {
                return;
            }
            let pack = node.pack.view();
            let at = pack.seek(inner, node.count);
            pack.iter_from(at).take(left).for_each(&mut *visit);
            left -= (node.count - inner).min(left);
            inner = 0;
        }
    }

    pub fn set(&mut self, index: usize, element: &[u8], limit: ListLimit) {
        let (number, inner) = self.locate(index).expect("the index is below the count");
        let node = &self.nodes[number];
        let pack = node.pack.view();
        let at = pack.seek(inner, node.count).expect("it is there");
        let old = pack.get(at).byte_count();
        // An integer may be longer as text than the listpack that it is alone in.
        let bytes = node.pack.bytes().len() + element.len() + ELEMENT_FRAME_BYTES - old;
        if node.count == 1 || !limit.is_exceeded_by(bytes, node.count) {
            return self.change(number, |node| node.pack.replace(at, element));
        }
        self.change(number, |node| {
            node.pack.remove(at, 1);
            node.count -= 1;
        });
        self.insert_at(number, inner, element, limit);
    }

    /// Puts `element` before element `inner` of node `number`, or behind its last.
    fn insert_at(&mut self, number: usize, inner: usize, element: &[u8], limit: ListLimit) {
        let count = self.nodes[number].count;
        if self.nodes[number].takes(element, limit) {
            return self.change(number, |node| {
                match node.pack.view().seek(inner, count) {
                    Some(at) => node.pack.insert(at, element),
                    None => node.pack.push_back(element),
                }
                node.count += 1;
            });
        }
        // At an end the neighbour may have room; inside, the node becomes two.
        if inner == count && self.nodes.get(number + 1).is_some_and(|n| n.takes(element, limit)) {
            return self.insert_at(number + 1, 0, element, limit);
        }
        if inner == 0 && number > 0 && self.nodes[number - 1].takes(element, limit) {
            let count = self.nodes[number - 1].count;
            return self.insert_at(number - 1, count, element, limit);
        }
        let tail = self.change(number, |node| {
            let Some(at) = node.pack.view().seek(inner, count) else { return Node::new() };
            let pack = node.pack.split_off(at, count - inner);
            node.count = inner;
            Node { pack, count: count - inner }
        });
        self.add_node(number + 1, tail);
        let mut own = Node::new();
        own.pack.push_back(element);
        own.count = 1;
        self.add_node(number + 1, own);
        if self.nodes[number].count == 0 {
            self.drop_node(number);
        }
    }

    pub fn insert(
        &mut self,
        place: Place,
        pivot: &Needle<'_>,
        element: &[u8],
        limit: ListLimit,
    ) -> bool {
        for number in 0..self.nodes.len() {
            let found = self.nodes[number].pack.iter().position(|one| pivot.is(one));
            if let Some(inner) = found {
                let inner = if place == Place::After { inner + 1 } else { inner };
                self.insert_at(number, inner, element, limit);
                return true;
            }
        }
        false
    }

    pub fn remove(&mut self, end: End, needle: &Needle<'_>, count: usize) -> usize {
        let (node_count, mut removed) = (self.nodes.len(), 0);
        for step in 0..node_count {
            if removed == count {
                break;
            }
            let index = if end == End::Head { step } else { node_count - 1 - step };
            // A walk need not have what stays as it is.
            if self.walk.0.is_some() && !self.nodes[index].pack.iter().any(|one| needle.is(one)) {
                continue;
            }
            removed += self.change(index, |node| {
                let gone = remove_equal(&mut node.pack, end, needle, count - removed);
                node.count -= gone;
                gone
            });
        }
        self.drop_empty_nodes();
        removed
    }

    /// All at once: each on its own would move the nodes behind it.
    fn drop_empty_nodes(&mut self) {
        if let Some(walk) = &mut self.walk.0 {
            // What has become empty was changed, and is taken.
            let mut nodes = self.nodes.iter();
            walk.numbers.retain(|_| nodes.next().is_some_and(|node| node.count > 0));
            walk.next = 0;
        }
        let pack_bytes = &mut self.pack_bytes;
        self.nodes.retain(|node| {
            if node.count == 0 {
                *pack_bytes -= node.pack.memory_bytes();
            }
            node.count > 0
        });
        self.give_back_nodes();
    }

    /// Gives node `index`, which is about to change or to go, to the walk that goes on, where that
    /// does not have it.
    #[inline]
    fn keep(&mut self, index: usize) {
        if let Some(walk) = &mut self.walk.0 {
            walk.keep(index, &self.nodes[index]);
        }
    }

    /// Gives the walk that goes on, if one does, all that it does not have yet.
    pub fn keep_rest(&mut self) {
        let Some(walk) = self.walk.0.take() else { return };
        let packs = walk.numbers.iter().zip(&self.nodes);
        let left = packs.filter(|(number, _)| **number != TAKEN);
        let left = left.map(|(number, node)| ((*number).into(), node.pack.bytes()));
        walk.keeper.keep_packs(left, put_part);
        walk.keeper.kept().is_whole = true;
    }

    /// Notes that node `index` has come.
    #[inline]
    fn note_new(&mut self, index: usize) {
        if let Some(walk) = &mut self.walk.0 {
            walk.numbers.insert(index, TAKEN);
        }
    }

    /// Gives memory back where few of the nodes are left.
    fn give_back_nodes(&mut self) {
        if self.nodes.len() * 4 < self.nodes.capacity() {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
    }
}

impl ListWalk {
    #[cold]
    fn keep(&mut self, index: usize, node: &Node) {
        let number = std::mem::replace(&mut self.numbers[index], TAKEN);
        if number != TAKEN {
            self.keeper.keep_packs(std::iter::once((number.into(), node.pack.bytes())), put_part);
        }
    }
}

impl Walked for Quicklist {
    fn begin(&mut self, keeper: Arc<Keeper>) -> u64 {
        let numbers: VecDeque<u32> = (0..self.nodes.len() as u32).collect();
        let bytes = heap_bytes(numbers.capacity() * size_of::<u32>());
        self.walk.0 = Some(Box::new(ListWalk { numbers, next: 0, next_number: 0, keeper }));
        bytes + heap_bytes(size_of::<ListWalk>())
    }

    fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.walk.0.as_ref().map(|walk| &walk.keeper)
    }

    fn step(&mut self, is_due: &mut dyn FnMut() -> bool, out: &mut Vec<u8>) -> bool {
        let Some(walk) = &mut self.walk.0 else { return true };
        let mut kept = walk.keeper.kept();
        loop {
            if let Some((number, parts)) = kept.take_pack(walk.next_number.into()) {
                assert_eq!(
                    number,
                    u128::from(walk.next_number),
                    "each node is kept once, in order"
                );
                out.extend_from_slice(&parts);
            } else {
                let is_left = |number: &u32| *number != TAKEN;
                let Some(index) = walk.numbers.range(walk.next..).position(is_left) else {
                    assert!(kept.packs.is_empty(), "what was kept comes before what is left");
                    break;
                };
                walk.next += index;
                let found = std::mem::replace(&mut walk.numbers[walk.next], TAKEN);
                assert_eq!(found, walk.next_number, "what was not kept is in the list, in order");
                put_part(self.nodes[walk.next].pack.bytes(), out);
            }
            walk.next_number += 1;
            if is_due() {
                return false;
            }
        }
        drop(kept);
        self.walk.0 = None;
        true
    }

    fn end(&mut self) -> Option<Freed> {
        self.walk.0 = None;
        None
    }
}

pub(super) fn remove_front(pack: &mut Listpack, count: usize) {
    if let Some(first) = pack.view().first() {
        pack.remove(first, count);
    }
}

pub(super) fn remove_back(pack: &mut Listpack, count: usize) {
    let mut at = pack.view().last();
    for _ in 1..count {
        let Some(before) = at.and_then(|at| pack.view().previous(at)) else { break };
        at = Some(before);
    }
    if let Some(at) = at
        && count > 0
    {
        pack.remove(at, count);
    }
}

pub(super) fn remove_equal(
    pack: &mut Listpack,
    end: End,
    needle: &Needle<'_>,
    count: usize,
) -> usize {
    let view = pack.view();
    let first = match end {
        End::Head => view.find(view.first(), needle, 1),
        End::Tail => {
            // The last that goes, counted from the end: all that are equal behind it go too.
            let (mut at, mut first, mut found) = (view.last(), None, 0);
            while let Some(here) = at
                && found < count
            {
                if needle.is(view.get(here)) {
                    (first, found) = (Some(here), found + 1);
                }
                at = view.previous(here);
            }
            first
        }
    };
    first.map_or(0, |first| pack.remove_each(first, count, |element| needle.is(element)))
}
