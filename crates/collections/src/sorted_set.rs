//! A sorted set: members with scores, in one listpack while they are few and short, then in a table
//! and an order (`score_tree.rs`).
//!
//! *Layout*: `sorted_set/pack.rs` reads and changes the listpack, `sorted_set/score_ranges.rs` goes
//! through a sorted set by ranges of scores.

mod pack;
mod score_ranges;

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

use crate::blob::Blob;
use crate::combination::HashedName;
use crate::compact::Compact;
use crate::compact_limits::Rules;
use crate::element::{Element, Needle};
use crate::growth::block_bytes;
use crate::hash_table::{HashTable, Payload};
use crate::heap_bytes;
use crate::listpack::{Listpack, SAFE_BYTES, ScoreText};
use crate::listpack_view::{At, ListpackView};
use crate::score_tree::{Item, ScoreTree};
use crate::walk::{Walked, put_part};

use pack::{
    change_in_pack, checked_score, find, in_order, insert_in_pack, order_of_pairs, pairs,
    score_behind, score_of,
};
use score_ranges::RangesBody;

pub(crate) use pack::score_of_text;
pub use score_ranges::ScoreRanges;

/// Members, each with a score that is a number, in the order of scores and then of bytes.
#[derive(Clone)]
pub struct SortedSet {
    body: Body,
}

#[derive(Clone)]
enum Body {
    /// Member, score, member, score, in order.
    Small(Listpack),
    Large(Box<Large>),
}

/// A sorted set to read, wherever it lies.
#[derive(Clone, Copy)]
pub struct SortedSetView<'a> {
    body: BodyView<'a>,
}

#[derive(Clone, Copy)]
enum BodyView<'a> {
    Small(ListpackView<'a>),
    Large(&'a Large),
}

#[derive(Clone, Default)]
struct Large {
    table: HashTable<Scored>,
    tree: ScoreTree,
}

/// An entry of the table.
#[derive(Clone)]
pub(crate) struct Scored {
    pub score: f64,
    pub member: Blob,
}

/// Where a member is, until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAt(u32);

/// A direction of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest score up.
    Up,
    /// From the highest score down.
    Down,
}

impl Direction {
    /// Returns the ranks, counted from the lowest score, of the members that are at `ranks` when
    /// counted in this direction, in a set of `count` members.
    pub fn ranks(self, ranks: Range<usize>, count: usize) -> Range<usize> {
        match self {
            Direction::Up => ranks,
            Direction::Down => count - ranks.end..count - ranks.start,
        }
    }

    /// Returns what is left of `ranks` without the first `skipped` in this direction, `most` at
    /// most.
    pub fn limited(self, ranks: Range<usize>, skipped: usize, most: usize) -> Range<usize> {
        let skipped = skipped.min(ranks.len());
        let count = most.min(ranks.len() - skipped);
        match self {
            Direction::Up => ranks.start + skipped..ranks.start + skipped + count,
            Direction::Down => ranks.end - skipped - count..ranks.end - skipped,
        }
    }

    /// Returns which of `ranks` is the first in this direction; of none, anything.
    pub fn first(self, ranks: &Range<usize>) -> usize {
        match self {
            Direction::Up => ranks.start,
            Direction::Down => ranks.end.saturating_sub(1),
        }
    }
}

impl SortedSet {
    /// Returns an empty sorted set for about `count` members of up to `bytes` bytes.
    pub fn for_members(count: u64, bytes: usize, rules: &Rules) -> SortedSet {
        SortedSet::for_members_in(Vec::new(), count, bytes, rules)
    }

    /// As [`SortedSet::for_members`], in the memory of `buffer`, whose bytes go, while it is
    /// compact.
    ///
    /// Source: Redis 7.2, `zsetTypeCreate`.
    pub fn for_members_in(buffer: Vec<u8>, count: u64, bytes: usize, rules: &Rules) -> SortedSet {
        let limits = &rules.limits;
        let is_small =
            count <= limits.sorted_set_entries && bytes as u64 <= limits.sorted_set_value_bytes;
        let body = match is_small {
            true => Body::Small(Listpack::empty_in(buffer)),
            false => Body::Large(Box::default()),
        };
        SortedSet { body }
    }

    /// Returns an empty sorted set in a table with an order.
    pub fn large() -> SortedSet {
        SortedSet { body: Body::Large(Box::default()) }
    }

    /// Returns the sorted set of `pack`: a member, its score, a member, its score, in any order.
    /// `None` where the last member has no score, a score is no number, or a member is there twice.
    pub fn from_pack(pack: Listpack) -> Option<SortedSet> {
        if !pack.count().is_multiple_of(2) || pack.view().has_twice(2) {
            return None;
        }
        let scores = pack.iter().skip(1).step_by(2);
        if !scores.clone().all(|score| checked_score(score).is_some()) {
            return None;
        }
        let is_in_order = pairs(pack.view()).is_sorted_by(|a, b| order_of_pairs(a, b).is_lt());
        let pack = if is_in_order { pack } else { in_order(pack.view()) };
        Some(SortedSet { body: Body::Small(pack) })
    }

    /// Returns the sorted set of `compact`, copied to the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn copy_in(compact: Compact<'_>, buffer: Vec<u8>) -> SortedSet {
        SortedSet { body: Body::Small(Listpack::copy_in(compact.pack(), buffer)) }
    }

    /// Returns the memory of the listpack; none where it is a table.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        match self.body {
            Body::Small(pack) => pack.into_buffer(),
            Body::Large(_) => Vec::new(),
        }
    }

    /// Returns it, to read.
    #[inline]
    pub fn view(&self) -> SortedSetView<'_> {
        let body = match &self.body {
            Body::Small(pack) => BodyView::Small(pack.view()),
            Body::Large(large) => BodyView::Large(large),
        };
        SortedSetView { body }
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

    /// Gives memory back when half of a listpack is unused: removing members does not.
    #[inline]
    pub fn give_back(&mut self) {
        if let Body::Small(pack) = &mut self.body {
            pack.give_back();
        }
    }

    /// Gives `member` the score `score`, which is a number; returns the score that it had.
    pub fn insert(&mut self, member: &[u8], score: f64, rules: &Rules) -> Option<f64> {
        self.update(member, rules, |_| Some(score)).0
    }

    /// Gives `member` the score that `rule` returns for the one that it has, which is a number, if
    /// it returns one. Returns the score that it had and the one that it has.
    pub fn update(
        &mut self,
        member: &[u8],
        rules: &Rules,
        rule: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> (Option<f64>, Option<f64>) {
        let checked = |old| {
            let score: Option<f64> = rule(old);
            assert!(!score.is_some_and(f64::is_nan), "scores are numbers");
            score
        };
        let score = match &mut self.body {
            Body::Large(large) => return large.update(member, rules, checked),
            Body::Small(pack) => {
                let found = find(pack.view(), member);
                let old = found.map(|at| score_behind(pack.view(), at));
                let next = checked(old).or(old);
                let Some(score) = next.filter(|_| next != old) else { return (old, next) };
                if let Some(at) = found {
                    change_in_pack(pack, at, member, score);
                    return (old, next);
                }
                let limits = &rules.limits;
                let has_room = ((pack.count() / 2) as u64) < limits.sorted_set_entries
                    && member.len() as u64 <= limits.sorted_set_value_bytes
                    && pack.bytes().len() + member.len() <= SAFE_BYTES;
                if has_room {
                    insert_in_pack(pack, member, score);
                    return (old, next);
                }
                score
            }
        };
        self.enlarge(rules);
        let Body::Large(large) = &mut self.body else { panic!("no compact form is left") };
        large.update(member, rules, |_| Some(score))
    }

    /// Takes `member` out; returns the score that it had.
    pub fn remove(&mut self, member: &[u8], rules: &Rules) -> Option<f64> {
        match &mut self.body {
            Body::Small(pack) => {
                let at = find(pack.view(), member)?;
                let score = score_behind(pack.view(), at);
                pack.remove(at, 2);
                Some(score)
            }
            Body::Large(large) => {
                let position = large.table.find(rules.hasher.hash(member), member)?;
                Some(large.remove(position))
            }
        }
    }

    /// Takes out up to `count` members from rank `start` on.
    pub fn remove_range(&mut self, start: usize, count: usize) {
        match &mut self.body {
            Body::Small(pack) => {
                if let Some(at) = pack.view().seek(2 * start, pack.count()) {
                    pack.remove(at, 2 * count);
                }
            }
            Body::Large(large) => {
                for _ in 0..count.min(large.table.len().saturating_sub(start)) {
                    let item = large.tree.remove_at(start);
                    large.forget(item.position as usize);
                }
            }
        }
    }

    /// Becomes one listpack, where all members fit one.
    pub fn make_pack(&mut self) {
        let Body::Large(large) = &self.body else { return };
        let members = large.table.iter().map(|scored| scored.member.bytes().len());
        // Beside its member, each pair has a score of at most 25 digits and signs.
        let bytes = members.map(|bytes| bytes + 25).sum();
        let Some(mut pack) = Listpack::with_room(2 * self.len(), bytes) else { return };
        self.view().for_each(0, usize::MAX, Direction::Up, |member, score| {
            member.with_bytes(|member| pack.push_back_scored(member, &ScoreText::new(score)));
        });
        pack.shrink();
        self.body = Body::Small(pack);
    }

    /// Becomes a table with an order.
    fn enlarge(&mut self, rules: &Rules) {
        let Body::Small(pack) = &self.body else { return };
        let mut large = Box::<Large>::default();
        for (member, score) in pairs(pack.view()) {
            member.with_bytes(|member| large.update(member, rules, |_| Some(score)));
        }
        self.body = Body::Large(large);
    }
}

impl<'a> SortedSetView<'a> {
    /// Returns the sorted set whose compact form this is.
    #[inline]
    pub fn of_compact(compact: Compact<'a>) -> SortedSetView<'a> {
        SortedSetView { body: BodyView::Small(compact.pack()) }
    }

    /// Returns the compact form, unless it is a table.
    #[inline]
    pub fn compact(self) -> Option<Compact<'a>> {
        self.pack().map(Compact::Listpack)
    }

    /// Returns the listpack, unless it is a table.
    #[inline]
    pub fn pack(self) -> Option<ListpackView<'a>> {
        match self.body {
            BodyView::Small(pack) => Some(pack),
            BodyView::Large(_) => None,
        }
    }

    /// Returns the number of members.
    #[inline]
    pub fn len(self) -> usize {
        match self.body {
            BodyView::Small(pack) => pack.count() / 2,
            BodyView::Large(large) => large.table.len(),
        }
    }

    /// Returns whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether it is one listpack.
    pub fn is_small(self) -> bool {
        matches!(self.body, BodyView::Small(_))
    }

    /// Returns the bytes that its parts take: of a listpack, those of the listpack alone.
    pub fn memory_bytes(self) -> u64 {
        match self.body {
            BodyView::Small(pack) => pack.bytes().len() as u64,
            BodyView::Large(large) => large.memory_bytes(),
        }
    }

    /// Returns the score of `member`.
    #[inline]
    pub fn score(self, member: &[u8], rules: &Rules) -> Option<f64> {
        match self.body {
            BodyView::Small(pack) => {
                let at = find(pack, member)?;
                Some(score_behind(pack, at))
            }
            BodyView::Large(large) => {
                let position = large.table.find(rules.hasher.hash(member), member)?;
                Some(large.table.get(position).score)
            }
        }
    }

    /// Returns the rank and the score of `member`.
    pub fn rank(self, member: &[u8], rules: &Rules) -> Option<(usize, f64)> {
        match self.body {
            BodyView::Small(pack) => {
                let needle = Needle::new(member);
                let mut members = pack.iter().step_by(2);
                let rank = members.position(|one| needle.is(one))?;
                let score = pack.seek(2 * rank + 1, pack.count())?;
                Some((rank, score_of(pack.get(score))))
            }
            BodyView::Large(large) => {
                let position = large.table.find(rules.hasher.hash(member), member)?;
                let score = large.table.get(position).score;
                let order = order(&large.table, score, member);
                Some((large.tree.partition_point(|item| order(item).is_lt()), score))
            }
        }
    }

    /// Returns the ranks of the members whose scores are from `min` to `max`.
    pub fn ranks_between(self, min: Bound<f64>, max: Bound<f64>) -> Range<usize> {
        let start = self.partition_point(|_, score| match min {
            Bound::Included(min) => score < min,
            Bound::Excluded(min) => score <= min,
            Bound::Unbounded => false,
        });
        let end = self.partition_point(|_, score| match max {
            Bound::Included(max) => score <= max,
            Bound::Excluded(max) => score < max,
            Bound::Unbounded => true,
        });
        start..end.max(start)
    }

    /// Returns how many members come first for which `is_before` holds: it holds for none behind
    /// one for which it does not.
    pub fn partition_point(self, is_before: impl Fn(Element<'_>, f64) -> bool) -> usize {
        match self.body {
            BodyView::Small(pack) => {
                pairs(pack).take_while(|(one, score)| is_before(*one, *score)).count()
            }
            BodyView::Large(large) => large.tree.partition_point(|item| {
                let member = large.table.get(item.position as usize).member.bytes();
                is_before(Element::Bytes(member), item.score)
            }),
        }
    }

    /// Visits up to `count` members from rank `start` on, up or down.
    pub fn for_each(
        self,
        start: usize,
        count: usize,
        direction: Direction,
        mut visit: impl FnMut(Element<'_>, f64),
    ) {
        match (self.body, direction) {
            (BodyView::Small(pack), Direction::Up) => {
                let mut parts = pack.iter_from(pack.seek(2 * start, pack.count()));
                for _ in 0..count {
                    let (Some(member), Some(score)) = (parts.next(), parts.next()) else { return };
                    visit(member, score_of(score));
                }
            }
            (BodyView::Small(pack), Direction::Down) => {
                let mut parts = pack.iter_back_from(pack.seek(2 * start + 1, pack.count()));
                for _ in 0..count {
                    let (Some(score), Some(member)) = (parts.next(), parts.next()) else { return };
                    visit(member, score_of(score));
                }
            }
            (BodyView::Large(large), direction) => {
                let mut visit = |item: &Item| {
                    let member = large.table.get(item.position as usize).member.bytes();
                    visit(Element::Bytes(member), item.score);
                };
                match direction {
                    Direction::Up => large.tree.for_each(start, count, &mut visit),
                    Direction::Down => large.tree.for_each_back(start, count, &mut visit),
                }
            }
        }
    }

    /// Returns it to go through by ranges of scores, in memory of
    /// [`SortedSetView::range_bytes`] bytes.
    pub fn score_ranges(self) -> ScoreRanges<'a> {
        let body = match self.body {
            BodyView::Large(large) => RangesBody::Large(large),
            BodyView::Small(pack) => {
                let mut members = Vec::with_capacity(pack.count() / 2);
                let mut next = pack.first();
                while let Some(at) = next {
                    let score = pack.next(at).expect("a member has a score");
                    members.push((score_of(pack.get(score)), MemberAt::in_pack(at)));
                    next = pack.next(score);
                }
                RangesBody::Small(members)
            }
        };
        ScoreRanges { body }
    }

    /// Returns the bytes that [`SortedSetView::score_ranges`] takes.
    pub fn range_bytes(self) -> u64 {
        match self.body {
            BodyView::Small(_) => (self.len() * size_of::<(f64, MemberAt)>()) as u64,
            BodyView::Large(_) => 0,
        }
    }

    /// Returns the member at `at`.
    #[inline]
    pub fn member(self, at: MemberAt) -> Element<'a> {
        match self.body {
            BodyView::Small(pack) => pack.get(At(at.0 as usize)),
            BodyView::Large(large) => Element::Bytes(large.table.get(at.0 as usize).member.bytes()),
        }
    }

    /// Returns member `index` with its score, in no order: all indexes below the length are all
    /// members.
    pub fn at(self, index: usize) -> Option<(Element<'a>, f64)> {
        match self.body {
            BodyView::Small(pack) => {
                let at = pack.seek(2 * index, pack.count())?;
                Some((pack.get(at), score_of(pack.get(pack.next(at)?))))
            }
            BodyView::Large(large) if index < large.table.len() => {
                let scored = large.table.get(index);
                Some((Element::Bytes(scored.member.bytes()), scored.score))
            }
            BodyView::Large(_) => None,
        }
    }

    /// Returns the members of a listpack by their indexes, for who wants many:
    /// [`SortedSetView::at`] walks to each. Returns none of a table, where it takes one step.
    pub fn listpack_members(self) -> Vec<(Element<'a>, f64)> {
        match self.body {
            BodyView::Small(pack) => pairs(pack).collect(),
            BodyView::Large(_) => Vec::new(),
        }
    }

    /// Visits some members with their scores and returns the cursor to go on with; see ZSCAN.
    pub fn scan(self, cursor: u64, mut visit: impl FnMut(Element<'_>, f64)) -> u64 {
        match self.body {
            BodyView::Small(pack) => {
                pairs(pack).for_each(|(member, score)| visit(member, score));
                0
            }
            BodyView::Large(large) => large.table.scan(cursor, &mut |scored| {
                visit(Element::Bytes(scored.member.bytes()), scored.score);
            }),
        }
    }
}

impl MemberAt {
    fn in_pack(at: At) -> MemberAt {
        MemberAt(u32::try_from(at.0).expect("a listpack counts its bytes in 32 bits"))
    }
}

impl SortedSet {
    /// Returns what a walk leads through, unless the set is compact.
    pub(crate) fn walked(&mut self) -> Option<&mut dyn Walked> {
        match &mut self.body {
            Body::Small(_) => None,
            Body::Large(large) => Some(&mut large.table),
        }
    }
}

/// What is worked out from others.
impl SortedSet {
    /// Returns the sorted set of the members of `table`, which `order` has by their positions, in
    /// order.
    ///
    /// Source: Redis 7.2, `zsetConvertToListpackIfNeeded`.
    pub(crate) fn from_ranked(
        table: HashTable<Scored>,
        order: &[Item],
        rules: &Rules,
    ) -> SortedSet {
        let limits = &rules.limits;
        let is_short =
            |scored: &Scored| scored.member.bytes().len() as u64 <= limits.sorted_set_value_bytes;
        let is_small =
            table.len() as u64 <= limits.sorted_set_entries && table.iter().all(is_short);
        let large = Box::new(Large { tree: ScoreTree::from_ordered(order), table });
        let mut set = SortedSet { body: Body::Large(large) };
        if is_small {
            set.make_pack();
        }
        set
    }
}

/// As other collections ask it for members.
impl SortedSetView<'_> {
    /// Visits all members, each with its hash, in no order, until `visit` breaks.
    pub(crate) fn try_for_each_hashed(
        self,
        rules: &Rules,
        mut visit: impl FnMut(HashedName<'_>, f64) -> ControlFlow<()>,
    ) {
        // A break ends it, and is no answer.
        let _ = match self.body {
            BodyView::Small(pack) => pairs(pack).try_for_each(|(member, score)| {
                member.with_bytes(|bytes| visit(HashedName::of(bytes, rules), score))
            }),
            BodyView::Large(large) => large.table.iter_hashed().try_for_each(|(hash, scored)| {
                let member = HashedName { bytes: scored.member.bytes(), hash: hash.into() };
                visit(member, scored.score)
            }),
        };
    }

    /// Visits up to `count` members from rank `start` on, each with its hash.
    pub(crate) fn for_each_hashed(
        self,
        start: usize,
        count: usize,
        rules: &Rules,
        mut visit: impl FnMut(HashedName<'_>, f64),
    ) {
        match self.body {
            BodyView::Small(_) => self.for_each(start, count, Direction::Up, |member, score| {
                member.with_bytes(|bytes| visit(HashedName::of(bytes, rules), score));
            }),
            BodyView::Large(large) => large.tree.for_each(start, count, &mut |item| {
                let position = item.position as usize;
                let bytes = large.table.get(position).member.bytes();
                let hash = large.table.hash_at(position).into();
                visit(HashedName { bytes, hash }, item.score);
            }),
        }
    }

    /// Returns the score of `member`.
    #[inline]
    pub(crate) fn score_hashed(self, member: HashedName<'_>, rules: &Rules) -> Option<f64> {
        match self.body {
            BodyView::Small(_) => self.score(member.bytes, rules),
            BodyView::Large(large) => {
                let position = large.table.find(member.hash, member.bytes)?;
                Some(large.table.get(position).score)
            }
        }
    }

    /// Calls `read` with the member at `at` and its hash.
    pub(crate) fn with_hashed<R>(
        self,
        at: MemberAt,
        rules: &Rules,
        read: impl FnOnce(HashedName<'_>) -> R,
    ) -> R {
        match self.body {
            BodyView::Small(_) => {
                self.member(at).with_bytes(|bytes| read(HashedName::of(bytes, rules)))
            }
            BodyView::Large(large) => {
                let position = at.0 as usize;
                let bytes = large.table.get(position).member.bytes();
                read(HashedName { bytes, hash: large.table.hash_at(position).into() })
            }
        }
    }

    /// Returns a bound of the blocks that members have beyond their slots in a table.
    pub(crate) fn block_bytes(self) -> u64 {
        match self.body {
            BodyView::Small(pack) => {
                pairs(pack).map(|(one, _)| block_bytes(one.byte_count())).sum()
            }
            BodyView::Large(large) => large.table.payload_heap_bytes(),
        }
    }
}

impl Large {
    #[inline]
    fn memory_bytes(&self) -> u64 {
        let own = heap_bytes(size_of::<Large>());
        own + self.table.memory_bytes() + self.tree.memory_bytes()
    }

    /// As [`SortedSet::update`].
    fn update(
        &mut self,
        member: &[u8],
        rules: &Rules,
        rule: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> (Option<f64>, Option<f64>) {
        let hash = rules.hasher.hash(member);
        let Some(position) = self.table.find(hash, member) else {
            let next = rule(None);
            if let Some(score) = next {
                let scored = Scored { score, member: Blob::of(&[member]) };
                let position = self.table.insert(hash, scored) as u32;
                self.tree.insert(Item { score, position }, &order(&self.table, score, member));
            }
            return (None, next);
        };
        let old = self.table.get(position).score;
        let score = rule(Some(old)).unwrap_or(old);
        if old != score {
            self.tree.remove(&order(&self.table, old, member));
            self.table.change(position, |scored| scored.score = score);
            let item = Item { score, position: position as u32 };
            self.tree.insert(item, &order(&self.table, score, member));
        }
        (Some(old), Some(score))
    }

    fn remove(&mut self, position: usize) -> f64 {
        let Scored { score, member } = self.table.get(position);
        self.tree.remove(&order(&self.table, *score, member.bytes()));
        self.forget(position)
    }

    /// Takes the entry at `position` out of the table, which is not in the order any more; returns
    /// its score.
    fn forget(&mut self, position: usize) -> f64 {
        let last = self.table.len() - 1;
        if last != position {
            // The last entry takes the place that becomes free.
            let Scored { score, member } = self.table.get(last);
            let order = order(&self.table, *score, member.bytes());
            self.tree.renumber(position as u32, &order);
        }
        self.table.remove(position).score
    }
}

/// Returns the comparison of an item with (`score`, `member`).
#[inline]
fn order(table: &HashTable<Scored>, score: f64, member: &[u8]) -> impl Fn(&Item) -> Ordering {
    move |item| {
        let of_scores = { item.score }.partial_cmp(&score).expect("scores are numbers");
        of_scores.then_with(|| table.get(item.position as usize).member.bytes().cmp(member))
    }
}

impl Payload for Scored {
    #[inline]
    fn name(&self) -> &[u8] {
        self.member.bytes()
    }

    #[inline]
    fn heap_bytes(&self) -> u64 {
        self.member.heap_bytes()
    }

    fn put_parts(&self, out: &mut Vec<u8>) {
        put_part(self.name(), out);
        put_part(&self.score.to_le_bytes(), out);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use base::SecretHasher;
    use base::prng::Prng;

    use super::*;
    use crate::Limits;

    fn rules() -> Rules {
        Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) }
    }

    fn in_order(model: &HashMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
        let mut all: Vec<_> =
            model.iter().map(|(member, score)| (member.clone(), *score)).collect();
        all.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then(a.0.cmp(&b.0)));
        all
    }

    fn check(set: &SortedSet, model: &HashMap<Vec<u8>, f64>, random: &mut Prng) {
        let (rules, all) = (rules(), in_order(model));
        assert_eq!(set.len(), all.len());
        let by_index = (0..=set.len()).map_while(|index| set.view().at(index));
        let by_index: HashMap<_, _> = by_index.map(|(one, score)| (one.to_vec(), score)).collect();
        assert_eq!(by_index, *model);
        let listed = set.view().listpack_members();
        assert_eq!(listed.len(), if set.is_small() { set.len() } else { 0 });
        assert!((0..).map_while(|index| set.view().at(index)).take(listed.len()).eq(listed));
        let start = random.below(all.len() as u64 + 2) as usize;
        let count = random.below(60) as usize;
        let part = |direction| {
            let mut part = Vec::new();
            set.view().for_each(start, count, direction, |member, score| {
                part.push((member.to_vec(), score));
            });
            part
        };
        assert!(part(Direction::Up).iter().eq(all.iter().skip(start).take(count)));
        let below = if start < all.len() { &all[..=start] } else { &[] };
        assert!(part(Direction::Down).iter().eq(below.iter().rev().take(count)));
        if let Some((member, score)) = all.get(start) {
            assert_eq!(set.view().rank(member, &rules), Some((start, *score)));
            let first = all.partition_point(|(_, other)| other < score);
            assert_eq!(set.view().partition_point(|_, other| other < *score), first);
        }
        check_ranges(set, &all, random);
    }

    fn check_ranges(set: &SortedSet, all: &[(Vec<u8>, f64)], random: &mut Prng) {
        let ranges = set.view().score_ranges();
        for _ in 0..3 {
            let mut bound = || match all.len() {
                0 => 1.0,
                count => all[random.below(count as u64) as usize].1 + random.below(3) as f64 - 1.0,
            };
            let (low, high) = (bound(), bound());
            let within = all.iter().filter(|(_, score)| (low..high).contains(score));
            assert_eq!(ranges.count(low, high), within.clone().count());
            let count = 1 + random.below(40) as usize;
            let mut found = Vec::new();
            ranges.try_for_each(low, high, |at, score| {
                found.push((set.view().member(at).to_vec(), score));
                if found.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            assert!(found.iter().eq(within.take(count)), "{low} {high}");
        }
    }

    #[test]
    fn any_history_leaves_what_a_map_in_order_would_have() {
        let (rules, mut random) = (rules(), Prng::new(1));
        for (bound, scores) in [(30, 5), (120, 1000), (3000, 20), (3000, 1), (20_000, 100_000)] {
            let mut set = SortedSet::for_members(1, 1, &rules);
            let mut model = HashMap::new();
            for step in 0..6000 {
                let number = random.below(bound);
                let member = format!("member {number} {}", "x".repeat(number as usize % 30));
                let member = member.into_bytes();
                let score = match random.below(20) {
                    0 => f64::INFINITY,
                    1 => f64::NEG_INFINITY,
                    2 => random.below(scores) as f64 / 7.0,
                    _ => random.below(scores) as f64,
                };
                match random.below(if step < 4000 { 4 } else { 2 }) {
                    0 => assert_eq!(set.remove(&member, &rules), model.remove(&member)),
                    _ => {
                        let old = model.insert(member.clone(), score);
                        assert_eq!(set.insert(&member, score, &rules), old);
                    }
                }
                if random.one_in(300) {
                    let start = random.below(model.len() as u64 + 1) as usize;
                    set.remove_range(start, 7);
                    let all = in_order(&model);
                    for (member, _) in all.iter().skip(start).take(7) {
                        model.remove(member);
                    }
                }
                assert_eq!(set.view().score(&member, &rules), model.get(&member).copied());
                if step % 100 == 0 {
                    check(&set, &model, &mut random);
                }
            }
            check(&set, &model, &mut random);
        }
    }

    #[test]
    fn bounds_of_the_compact_form_are_those_of_the_options() {
        let rules = rules();
        let mut set = SortedSet::for_members(1, 1, &rules);
        for number in 0..128 {
            set.insert(number.to_string().as_bytes(), 1.0, &rules);
        }
        assert!(set.is_small());
        set.insert(b"one more", 1.0, &rules);
        assert!(!set.is_small());
        let mut set = SortedSet::for_members(1, 1, &rules);
        set.insert(&[b'x'; 65], 1.0, &rules);
        assert!(!set.is_small());
        assert!(!SortedSet::for_members(129, 1, &rules).is_small());
    }

    fn pack_of(parts: &[&str]) -> Listpack {
        let mut pack = Listpack::new();
        parts.iter().for_each(|part| pack.push_back(part.as_bytes()));
        pack
    }

    #[test]
    fn a_listpack_of_pairs_is_a_sorted_set_in_order() {
        let texts = |set: &SortedSet| {
            let mut all = String::new();
            set.view().for_each(0, 9, Direction::Up, |member, score| {
                all += &format!("{}:{score} ", String::from_utf8(member.to_vec()).unwrap());
            });
            all
        };
        let read = |parts: &[&str]| SortedSet::from_pack(pack_of(parts)).as_ref().map(texts);
        assert_eq!(read(&["a", "1", "b", "1", "c", "inf"]), Some("a:1 b:1 c:inf ".into()));
        assert_eq!(read(&["c", "2.5", "b", "1", "a", "1"]), Some("a:1 b:1 c:2.5 ".into()));
        for refused in [
            &["a", "1", "b"][..],
            &["a", "1", "a", "2"],
            &["a", "x"],
            &["a", "nan"],
            &["a", ""],
            &["a", " 1"],
        ] {
            assert_eq!(read(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn a_table_becomes_a_listpack_of_the_same_members() {
        let rules = rules();
        let mut set = SortedSet::large();
        let scores = [1.0, -0.5, 1e300, f64::NEG_INFINITY, 0.1 + 0.2, -1e-300];
        for number in 0..60 {
            let member = format!("m{number}");
            set.insert(member.as_bytes(), scores[number % scores.len()], &rules);
        }
        let pairs = |set: &SortedSet| {
            let mut all = Vec::new();
            set.view()
                .for_each(0, 99, Direction::Up, |member, score| all.push((member.to_vec(), score)));
            all
        };
        let before = pairs(&set);
        set.make_pack();
        assert!(set.is_small());
        assert_eq!(pairs(&set), before);
        let again = SortedSet::from_pack(
            Listpack::from_bytes(set.view().pack().unwrap().bytes().to_vec()).unwrap(),
        )
        .unwrap();
        assert_eq!(again.view().pack(), set.view().pack());
    }
}
