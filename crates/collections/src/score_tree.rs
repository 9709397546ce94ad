//! The order of a large sorted set: a B+tree of scores that counts the items below each branch, so
//! that a rank is found as fast as a score.
//!
//! An item is a score and the position of its member in the set's table; equal scores are in the
//! order of their members, which the caller's comparison looks up.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use crate::heap_bytes;

/// Items of a leaf.
const LEAF_ITEMS: usize = 64;
/// Branches of an inner node.
const BRANCHES: usize = 32;

/// A member by its score and its position in the table, without a gap between items.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, packed(4))]
pub(crate) struct Item {
    pub score: f64,
    pub position: u32,
}

const _: () = assert!(size_of::<Item>() == 12);

/// Items in order.
#[derive(Clone, Debug)]
pub(crate) struct ScoreTree {
    root: Node,
    leaf_count: u64,
    inner_count: u64,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Item>),
    Inner(Vec<Branch>),
}

#[derive(Clone, Debug)]
struct Branch {
    /// The first item below.
    low: Item,
    /// The items below.
    count: usize,
    node: Node,
}

impl Default for ScoreTree {
    fn default() -> ScoreTree {
        ScoreTree { root: Node::new_leaf(), leaf_count: 1, inner_count: 0 }
    }
}

impl ScoreTree {
    /// Returns the tree of `items`, which are in order: all nodes but the last of each level are
    /// full.
    pub fn from_ordered(items: &[Item]) -> ScoreTree {
        let full_leaf = |items: &[Item]| {
            let mut leaf = Vec::with_capacity(LEAF_ITEMS);
            leaf.extend_from_slice(items);
            Node::Leaf(leaf)
        };
        let mut level: Vec<Node> = items.chunks(LEAF_ITEMS).map(full_leaf).collect();
        let (leaf_count, mut inner_count) = (level.len() as u64, 0);
        while level.len() > 1 {
            let above = level.len().div_ceil(BRANCHES);
            let mut below = level.into_iter();
            let inner = |_| {
                let mut branches = Vec::with_capacity(BRANCHES + 1);
                branches.extend(below.by_ref().take(BRANCHES).map(Branch::of));
                Node::Inner(branches)
            };
            level = (0..above).map(inner).collect();
            inner_count += above as u64;
        }
        match level.pop() {
            Some(root) => ScoreTree { root, leaf_count, inner_count },
            None => ScoreTree::default(),
        }
    }

    /// Returns the bytes of memory that it takes beside itself.
    pub fn memory_bytes(&self) -> u64 {
        let leaf = heap_bytes(LEAF_ITEMS * size_of::<Item>());
        let inner = heap_bytes((BRANCHES + 1) * size_of::<Branch>());
        self.leaf_count * leaf + self.inner_count * inner
    }

    /// Returns how many items come first for which `is_before` holds: it holds for none behind one
    /// for which it does not.
    pub fn partition_point(&self, is_before: impl Fn(&Item) -> bool) -> usize {
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(items) => return rank + items.partition_point(&is_before),
                Node::Inner(branches) => {
                    let index = branches.partition_point(|branch| is_before(&branch.low));
                    let Some(last) = index.checked_sub(1) else { return rank };
                    rank += branches[..last].iter().map(|branch| branch.count).sum::<usize>();
                    node = &branches[last].node;
                }
            }
        }
    }

    /// Visits the items behind those for which `is_before` holds, until `visit` breaks: it holds
    /// for none behind one for which it does not.
    pub fn try_for_each_from(
        &self,
        is_before: &dyn Fn(&Item) -> bool,
        visit: &mut dyn FnMut(&Item) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.root.try_for_each_from(is_before, visit)
    }

    /// Visits up to `count` items from rank `start` on.
    pub fn for_each(&self, start: usize, count: usize, visit: &mut dyn FnMut(&Item)) {
        self.root.for_each(start, &mut { count }, visit);
    }

    /// Visits up to `count` items from rank `start` on, downwards.
    pub fn for_each_back(&self, start: usize, count: usize, visit: &mut dyn FnMut(&Item)) {
        // The rank from the other end.
        let Some(skip) = self.root.count().checked_sub(start + 1) else { return };
        self.root.for_each_back(skip, &mut { count }, visit);
    }

    /// Adds `item`; `order` compares an item of the tree with it, and finds none equal.
    pub fn insert(&mut self, item: Item, order: &impl Fn(&Item) -> Ordering) {
        let Some(sibling) = self.insert_below(item, order) else { return };
        let old = std::mem::replace(&mut self.root, Node::Inner(Vec::new()));
        let mut branches = Vec::with_capacity(BRANCHES + 1);
        branches.extend([Branch::of(old), Branch::of(sibling)]);
        self.root = Node::Inner(branches);
        self.inner_count += 1;
    }

    fn insert_below(&mut self, item: Item, order: &impl Fn(&Item) -> Ordering) -> Option<Node> {
        let mut made = Made::default();
        let sibling = self.root.insert(item, order, &mut made);
        self.leaf_count += made.leaves;
        self.inner_count += made.inners;
        sibling
    }

    /// Takes out the item that `order` finds equal, which is there.
    pub fn remove(&mut self, order: &impl Fn(&Item) -> Ordering) {
        let mut gone = Made::default();
        self.root.remove(order, &mut gone);
        self.forget(&gone);
    }

    /// Takes out the item of `rank`, which is there. Asks no comparison.
    pub fn remove_at(&mut self, rank: usize) -> Item {
        let mut gone = Made::default();
        let item = self.root.remove_at(rank, &mut gone);
        self.forget(&gone);
        item
    }

    /// Counts nodes that are gone, and takes away a root that has one branch.
    fn forget(&mut self, gone: &Made) {
        self.leaf_count -= gone.leaves;
        self.inner_count -= gone.inners;
        while let Node::Inner(branches) = &mut self.root
            && branches.len() <= 1
        {
            self.root = match branches.pop() {
                Some(only) => only.node,
                None => {
                    self.leaf_count += 1;
                    Node::new_leaf()
                }
            };
            self.inner_count -= 1;
        }
    }

    /// Gives the item that `order` finds equal another position.
    pub fn renumber(&mut self, position: u32, order: &impl Fn(&Item) -> Ordering) {
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(items) => {
                    let index = items.partition_point(|item| order(item).is_lt());
                    items[index].position = position;
                    return;
                }
                Node::Inner(branches) => {
                    let index = branches.partition_point(|branch| order(&branch.low).is_le());
                    let branch = &mut branches[index.checked_sub(1).expect("the item is there")];
                    if order(&branch.low).is_eq() {
                        branch.low.position = position;
                    }
                    node = &mut branch.node;
                }
            }
        }
    }
}

/// Nodes that came or went.
#[derive(Default)]
struct Made {
    leaves: u64,
    inners: u64,
}

impl Branch {
    fn of(node: Node) -> Branch {
        Branch { low: node.low(), count: node.count(), node }
    }
}

impl Node {
    fn new_leaf() -> Node {
        Node::Leaf(Vec::with_capacity(LEAF_ITEMS))
    }

    fn low(&self) -> Item {
        match self {
            Node::Leaf(items) => items[0],
            Node::Inner(branches) => branches[0].low,
        }
    }

    fn count(&self) -> usize {
        match self {
            Node::Leaf(items) => items.len(),
            Node::Inner(branches) => branches.iter().map(|branch| branch.count).sum(),
        }
    }

    fn try_for_each_from(
        &self,
        is_before: &dyn Fn(&Item) -> bool,
        visit: &mut dyn FnMut(&Item) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Node::Leaf(items) => {
                items[items.partition_point(is_before)..].iter().try_for_each(visit)
            }
            Node::Inner(branches) => {
                // Below the last branch that begins with such an item others may follow.
                let index = branches.partition_point(|branch| is_before(&branch.low));
                let first = index.saturating_sub(1);
                branches[first..]
                    .iter()
                    .try_for_each(|branch| branch.node.try_for_each_from(is_before, visit))
            }
        }
    }

    fn for_each(&self, start: usize, left: &mut usize, visit: &mut dyn FnMut(&Item)) {
        match self {
            Node::Leaf(items) => {
                for item in items.iter().skip(start).take(*left) {
                    *left -= 1;
                    visit(item);
                }
            }
            Node::Inner(branches) => {
                let mut skip = start;
                for branch in branches {
                    if *left == 0 {
                        return;
                    }
                    if skip < branch.count {
                        branch.node.for_each(skip, left, visit);
                    }
                    skip = skip.saturating_sub(branch.count);
                }
            }
        }
    }

    fn for_each_back(&self, start: usize, left: &mut usize, visit: &mut dyn FnMut(&Item)) {
        match self {
            Node::Leaf(items) => {
                for item in items.iter().rev().skip(start).take(*left) {
                    *left -= 1;
                    visit(item);
                }
            }
            Node::Inner(branches) => {
                let mut skip = start;
                for branch in branches.iter().rev() {
                    if *left == 0 {
                        return;
                    }
                    if skip < branch.count {
                        branch.node.for_each_back(skip, left, visit);
                    }
                    skip = skip.saturating_sub(branch.count);
                }
            }
        }
    }

    /// Adds `item` below; returns the node that comes behind this one where it became two.
    fn insert(
        &mut self,
        item: Item,
        order: &impl Fn(&Item) -> Ordering,
        made: &mut Made,
    ) -> Option<Node> {
        match self {
            Node::Leaf(items) => {
                let index = items.partition_point(|one| order(one).is_lt());
                if items.len() < LEAF_ITEMS {
                    items.insert(index, item);
                    return None;
                }
                made.leaves += 1;
                Some(Node::Leaf(split_leaf(items, index, item)))
            }
            Node::Inner(branches) => {
                let before = branches.partition_point(|branch| order(&branch.low).is_lt());
                let index = before.saturating_sub(1);
                let branch = &mut branches[index];
                let sibling = branch.node.insert(item, order, made).map(Branch::of);
                // Known without a look at the node.
                if before == 0 {
                    branch.low = item;
                }
                branch.count += 1;
                let sibling = sibling?;
                branch.count -= sibling.count;
                branches.insert(index + 1, sibling);
                if branches.len() <= BRANCHES {
                    return None;
                }
                // What grows at its end leaves full nodes behind.
                let is_last = index + 2 == branches.len();
                let at = if is_last { BRANCHES } else { BRANCHES / 2 };
                let mut tail = Vec::with_capacity(BRANCHES + 1);
                tail.extend(branches.drain(at..));
                made.inners += 1;
                Some(Node::Inner(tail))
            }
        }
    }

    fn remove(&mut self, order: &impl Fn(&Item) -> Ordering, gone: &mut Made) {
        match self {
            Node::Leaf(items) => {
                let index = items.partition_point(|one| order(one).is_lt());
                assert!(order(&items[index]).is_eq(), "the item is there");
                items.remove(index);
            }
            Node::Inner(branches) => {
                let index = branches.partition_point(|branch| order(&branch.low).is_le());
                let index = index.checked_sub(1).expect("the item is there");
                let was_low = order(&branches[index].low).is_eq();
                branches[index].node.remove(order, gone);
                settle_branch(branches, index, was_low, gone);
            }
        }
    }

    fn remove_at(&mut self, rank: usize, gone: &mut Made) -> Item {
        match self {
            Node::Leaf(items) => items.remove(rank),
            Node::Inner(branches) => {
                let (mut index, mut rest) = (0, rank);
                while rest >= branches[index].count {
                    rest -= branches[index].count;
                    index += 1;
                }
                let item = branches[index].node.remove_at(rest, gone);
                settle_branch(branches, index, rest == 0, gone);
                item
            }
        }
    }

    fn is_sparse(&self) -> bool {
        match self {
            Node::Leaf(items) => items.len() < LEAF_ITEMS / 4,
            Node::Inner(branches) => branches.len() < BRANCHES / 4,
        }
    }

    /// Takes what is in `other`, which comes behind, where there is room; says whether there was.
    fn absorb(&mut self, other: &mut Node) -> bool {
        match (self, other) {
            (Node::Leaf(items), Node::Leaf(more))
                if items.len() + more.len() <= LEAF_ITEMS * 3 / 4 =>
            {
                items.append(more);
                true
            }
            (Node::Inner(branches), Node::Inner(more))
                if branches.len() + more.len() <= BRANCHES * 3 / 4 =>
            {
                branches.append(more);
                true
            }
            _ => false,
        }
    }
}

impl Made {
    /// Counts `node`, which has no items and at most empty nodes below.
    fn count(&mut self, node: &Node) {
        match node {
            Node::Leaf(_) => self.leaves += 1,
            Node::Inner(branches) => {
                self.inners += 1;
                branches.iter().for_each(|branch| self.count(&branch.node));
            }
        }
    }
}

/// Adds `item` at `index` to a full leaf and returns the items that make the leaf behind it.
fn split_leaf(items: &mut Vec<Item>, index: usize, item: Item) -> Vec<Item> {
    let mut tail = Vec::with_capacity(LEAF_ITEMS);
    // What grows at its end leaves full leaves behind.
    if index == LEAF_ITEMS {
        tail.push(item);
        return tail;
    }
    tail.extend(items.drain(LEAF_ITEMS / 2..));
    match index.checked_sub(LEAF_ITEMS / 2) {
        Some(index) if index > 0 => tail.insert(index, item),
        _ => items.insert(index, item),
    }
    tail
}

/// Puts the branch at `index` right after an item below it went, its first one where it `was_low`.
fn settle_branch(branches: &mut Vec<Branch>, index: usize, was_low: bool, gone: &mut Made) {
    let branch = &mut branches[index];
    branch.count -= 1;
    if branch.count == 0 {
        gone.count(&branches.remove(index).node);
        return;
    }
    if was_low {
        branch.low = branch.node.low();
    }
    if branch.node.is_sparse() {
        merge_at(branches, index, gone);
    }
}

/// Merges the branch at `index` with a neighbour where both fit one node.
fn merge_at(branches: &mut Vec<Branch>, index: usize, gone: &mut Made) {
    for first in [Some(index), index.checked_sub(1)].into_iter().flatten() {
        let Some([branch, next]) = branches.get_mut(first..first + 2) else { continue };
        if branch.node.absorb(&mut next.node) {
            branch.count += next.count;
            gone.count(&branches.remove(first + 1).node);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    fn compare(score: f64, position: u32) -> impl Fn(&Item) -> Ordering {
        move |item| { item.score }.total_cmp(&score).then(item.position.cmp(&position))
    }

    fn nodes(node: &Node, made: &mut Made) {
        match node {
            Node::Leaf(_) => made.leaves += 1,
            Node::Inner(branches) => {
                made.inners += 1;
                for branch in branches {
                    assert_eq!(branch.count, branch.node.count());
                    assert_eq!(branch.low, branch.node.low());
                    nodes(&branch.node, made);
                }
            }
        }
    }

    fn check(tree: &ScoreTree, model: &[Item], random: &mut Prng) {
        let mut made = Made::default();
        nodes(&tree.root, &mut made);
        assert_eq!((tree.leaf_count, tree.inner_count), (made.leaves, made.inners));
        let start = random.below(model.len() as u64 + 2) as usize;
        let count = random.below(100) as usize;
        let mut forth = Vec::new();
        tree.for_each(start, count, &mut |item| forth.push(*item));
        assert!(forth.iter().eq(model.iter().skip(start).take(count)));
        let mut back = Vec::new();
        tree.for_each_back(start, count, &mut |item| back.push(*item));
        let below = if start < model.len() { &model[..=start] } else { &[] };
        assert!(back.iter().eq(below.iter().rev().take(count)));
    }

    #[test]
    fn any_history_leaves_what_a_sorted_vector_would_have() {
        let mut random = Prng::new(1);
        for (kind, spread) in [(0, 1_000_000), (1, 50), (2, 1)] {
            let (mut tree, mut model) = (ScoreTree::default(), Vec::<Item>::new());
            for step in 0..30_000_u32 {
                let grows = if step < 15_000 { 3 } else { 1 };
                if random.below(4) < grows || model.is_empty() {
                    let score = match kind {
                        0 => random.below(spread) as f64,
                        1 => f64::from(step) + random.below(spread) as f64,
                        _ => 0.0,
                    };
                    let item = Item { score, position: step };
                    let rank = tree.partition_point(|one| compare(score, step)(one).is_lt());
                    tree.insert(item, &compare(score, step));
                    model.insert(rank, item);
                } else {
                    let rank = random.below(model.len() as u64) as usize;
                    let item = model.remove(rank);
                    match random.one_in(2) {
                        true => assert_eq!(tree.remove_at(rank), item),
                        false => tree.remove(&compare(item.score, item.position)),
                    }
                }
                if step % 200 == 0 {
                    check(&tree, &model, &mut random);
                }
            }
            let sorted = model.is_sorted_by(|a, b| compare(b.score, b.position)(a).is_lt());
            assert!(sorted);
            while let Some(item) = model.pop() {
                tree.remove(&compare(item.score, item.position));
            }
            check(&tree, &model, &mut random);
            assert_eq!(tree.leaf_count + tree.inner_count, 1);
        }
    }

    #[test]
    fn a_tree_of_items_in_order_is_one_that_can_be_changed() {
        let mut random = Prng::new(2);
        for count in [0, 1, 64, 65, 130, 2048, 2049, 70_000] {
            let item = |position: u32| Item { score: f64::from(position / 3), position };
            let mut model: Vec<Item> = (0..count).map(|number| item(2 * number)).collect();
            let mut tree = ScoreTree::from_ordered(&model);
            check(&tree, &model, &mut random);
            for step in 0..600 {
                let item = item(2 * random.below(u64::from(count) + 1) as u32 + 1);
                let order = compare(item.score, item.position);
                let rank = tree.partition_point(|one| order(one).is_lt());
                match model.get(rank) {
                    Some(found) if *found == item => {
                        tree.remove(&order);
                        model.remove(rank);
                    }
                    _ => {
                        tree.insert(item, &order);
                        model.insert(rank, item);
                    }
                }
                if !model.is_empty() && step % 2 == 0 {
                    let rank = random.below(model.len() as u64) as usize;
                    assert_eq!(tree.remove_at(rank), model.remove(rank));
                }
                if step % 50 == 0 {
                    check(&tree, &model, &mut random);
                }
            }
        }
    }

    #[test]
    fn an_item_changes_its_position_and_nothing_else() {
        let mut tree = ScoreTree::default();
        let scores = 0..5000_u32;
        for score in scores.clone() {
            let item = Item { score: score.into(), position: score };
            tree.insert(item, &compare(score.into(), score));
        }
        for score in scores {
            tree.renumber(score + 10_000, &|item| { item.score }.total_cmp(&score.into()));
        }
        let mut rank = 0;
        tree.for_each(0, 5000, &mut |item| {
            assert_eq!((item.score, item.position), (rank.into(), rank + 10_000));
            rank += 1;
        });
        nodes(&tree.root, &mut Made::default());
    }
}
