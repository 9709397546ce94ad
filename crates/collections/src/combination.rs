//! Unions, intersections and differences of sorted sets, and parts of them: members that are worked
//! out from others before they make a sorted set, or a reply. A set takes part as a sorted set
//! whose scores are all 1.

use std::ops::{ControlFlow, Range};

use crate::blob::Blob;
use crate::compact_limits::Rules;
use crate::growth::{block_bytes, ranked_growth_bound};
use crate::hash_table::HashTable;
use crate::score_tree::Item;
use crate::set::SetView;
use crate::sorted_set::{Direction, MemberAt, Scored, SortedSet, SortedSetView};

/// The score of each member of a set.
const SET_SCORE: f64 = 1.0;
/// So few members are looked for one by one, whatever that costs.
const FEW_MEMBERS: usize = 8;

/// What members with scores are taken from.
#[derive(Clone, Copy)]
pub enum ScoreSource<'a> {
    Set(SetView<'a>),
    SortedSet(SortedSetView<'a>),
}

/// A source, where there is one, and what its scores are multiplied by.
#[derive(Clone, Copy)]
pub struct Weighted<'a> {
    pub source: Option<ScoreSource<'a>>,
    /// It is a number.
    pub weight: f64,
}

/// A member and its hash, of which tables look at the lower half only.
#[derive(Clone, Copy)]
pub(crate) struct HashedName<'n> {
    pub bytes: &'n [u8],
    pub hash: u64,
}

impl<'n> HashedName<'n> {
    pub fn of(bytes: &'n [u8], rules: &Rules) -> HashedName<'n> {
        HashedName { bytes, hash: rules.hasher.hash(bytes) }
    }
}

/// What the scores of one member come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    Sum,
    Min,
    Max,
}

/// Members, each once, with their scores and in the order of a sorted set.
#[derive(Default)]
pub struct RankedMembers {
    table: HashTable<Scored>,
    order: Vec<Item>,
    /// How they are stored one after the other, where they are.
    storing: Option<StoringOrder>,
}

/// How members are stored one after the other.
#[derive(Clone, Copy, Debug)]
pub struct StoringOrder {
    /// Whether the lowest or the highest score comes first.
    pub direction: Direction,
    /// Whether their number is known before the first.
    pub is_counted: bool,
}

impl ScoreSource<'_> {
    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match self {
            ScoreSource::Set(set) => set.len(),
            ScoreSource::SortedSet(set) => set.len(),
        }
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a bound of what [`RankedMembers`] of all its members take.
    pub fn ranked_bytes_max(&self) -> u64 {
        let blocks = match self {
            ScoreSource::Set(set) => set.block_bytes(),
            ScoreSource::SortedSet(set) => set.block_bytes(),
        };
        ranked_growth_bound(self.len(), blocks)
    }

    /// Returns how many members a look for one of them may meet.
    fn lookup_steps(&self) -> usize {
        let is_scanned = match self {
            ScoreSource::Set(set) => set.is_listpack(),
            ScoreSource::SortedSet(set) => set.is_small(),
        };
        if is_scanned { self.len() } else { 1 }
    }

    /// Visits all members until `visit` breaks.
    fn try_for_each(
        &self,
        rules: &Rules,
        mut visit: impl FnMut(HashedName<'_>, f64) -> ControlFlow<()>,
    ) {
        match self {
            ScoreSource::Set(set) => {
                set.try_for_each_hashed(rules, |member| visit(member, SET_SCORE));
            }
            ScoreSource::SortedSet(set) => set.try_for_each_hashed(rules, visit),
        }
    }

    /// Visits all members.
    fn for_each(&self, rules: &Rules, mut visit: impl FnMut(HashedName<'_>, f64)) {
        self.try_for_each(rules, |member, score| {
            visit(member, score);
            ControlFlow::Continue(())
        });
    }

    fn score(&self, member: HashedName<'_>, rules: &Rules) -> Option<f64> {
        match self {
            ScoreSource::Set(set) => set.contains_hashed(member, rules).then_some(SET_SCORE),
            ScoreSource::SortedSet(set) => set.score_hashed(member, rules),
        }
    }
}

impl Weighted<'_> {
    /// Returns the number of members.
    fn len(&self) -> usize {
        self.source.map_or(0, |source| source.len())
    }

    fn score(&self, member: HashedName<'_>, rules: &Rules) -> Option<f64> {
        self.source.and_then(|source| source.score(member, rules))
    }
}

impl Aggregate {
    /// Returns what `old` and `new`, which may be no number, come to: a number.
    ///
    /// Source: Redis 7.2, `zunionInterAggregate`.
    #[inline]
    fn of(self, old: f64, new: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(old + new),
            Aggregate::Min if new < old => new,
            Aggregate::Max if new > old => new,
            Aggregate::Min | Aggregate::Max => old,
        }
    }
}

/// Infinities that cancel each other out, and zero times one of them, count as zero.
#[inline]
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl RankedMembers {
    /// Returns the members that any of `sources` has. Those with few members come first, as the
    /// order decides what a sum comes to.
    ///
    /// Source: Redis 7.2, `zunionInterDiffGenericCommand`.
    pub fn union(sources: &[Weighted<'_>], aggregate: Aggregate, rules: &Rules) -> RankedMembers {
        let sources = by_length(sources);
        // The union is at least as large as the largest.
        let mut table = HashTable::with_buckets(sources.last().map_or(0, Weighted::len));
        for Weighted { source, weight } in sources {
            let Some(source) = source else { continue };
            let is_first = table.len() == 0;
            source.for_each(rules, |member, score| {
                let score = number_or_zero(weight * score);
                let found = if is_first { None } else { table.find(member.hash, member.bytes) };
                match found {
                    Some(position) => table.change(position, |scored: &mut Scored| {
                        scored.score = aggregate.of(scored.score, score);
                    }),
                    None => add(&mut table, member, score),
                }
            });
        }
        RankedMembers::of(table)
    }

    /// Returns the members that all of `sources` have, of which there is one at least.
    pub fn intersection(
        sources: &[Weighted<'_>],
        aggregate: Aggregate,
        rules: &Rules,
    ) -> RankedMembers {
        let sources = by_length(sources);
        let Some((least, others)) = sources.split_first() else { return RankedMembers::default() };
        let table = match are_scanned(least, others) {
            true => narrowed(least, others, aggregate, rules),
            false => found_in_all(least, others, aggregate, rules),
        };
        RankedMembers::of(table)
    }

    /// Returns the members of the first of `sources` that no other has, with their scores there.
    pub fn difference(sources: &[Option<ScoreSource<'_>>], rules: &Rules) -> RankedMembers {
        let Some((Some(first), others)) = sources.split_first() else {
            return RankedMembers::default();
        };
        let others: Vec<ScoreSource<'_>> = others.iter().flatten().copied().collect();
        let lookup_steps: usize = others.iter().map(ScoreSource::lookup_steps).sum();
        let all: usize = others.iter().map(ScoreSource::len).sum();
        let table = match first.len().saturating_mul(lookup_steps) / 2 <= first.len() + all {
            true => not_in_any(first, &others, rules),
            false => without_all(first, &others, rules),
        };
        RankedMembers::of(table)
    }

    /// Returns the members of `set` at `ranks`, which are stored in the order of `storing`.
    pub fn of_range(
        set: SortedSetView<'_>,
        ranks: Range<usize>,
        storing: StoringOrder,
        rules: &Rules,
    ) -> RankedMembers {
        let count = ranks.len();
        let mut table = HashTable::with_buckets(count);
        let mut order = Vec::with_capacity(count);
        set.for_each_hashed(ranks.start, count, rules, |member, score| {
            order.push(Item { score, position: table.len() as u32 });
            add(&mut table, member, score);
        });
        RankedMembers { table, order, storing: Some(storing) }
    }

    /// Returns a bound of what the members of `set` at `ranks` take.
    pub fn range_bytes_max(set: SortedSetView<'_>, ranks: Range<usize>) -> u64 {
        let mut blocks = 0;
        set.for_each(ranks.start, ranks.len(), Direction::Up, |member, _| {
            blocks += block_bytes(member.byte_count());
        });
        ranked_growth_bound(ranks.len(), blocks)
    }

    /// Returns the members of `set` that `chosen` names, each once, with scores of their own.
    pub fn chosen(
        set: SortedSetView<'_>,
        chosen: impl ExactSizeIterator<Item = (MemberAt, f64)>,
        rules: &Rules,
    ) -> RankedMembers {
        let mut table = HashTable::with_buckets(chosen.len());
        for (at, score) in chosen {
            set.with_hashed(at, rules, |member| add(&mut table, member, score));
        }
        RankedMembers::of(table)
    }

    /// Returns a bound of what the members of `set` that `chosen` names take.
    pub fn chosen_bytes_max(
        set: SortedSetView<'_>,
        chosen: impl ExactSizeIterator<Item = MemberAt>,
    ) -> u64 {
        let count = chosen.len();
        let blocks = chosen.map(|at| block_bytes(set.member(at).byte_count())).sum();
        ranked_growth_bound(count, blocks)
    }

    /// Puts the members of `table` in order.
    fn of(table: HashTable<Scored>) -> RankedMembers {
        let item = |(position, scored): (u32, &Scored)| Item { score: scored.score, position };
        let mut order: Vec<Item> = (0..).zip(table.iter()).map(item).collect();
        // By scores alone first, which needs no member. The sum makes the zeroes equal.
        order.sort_unstable_by(|a, b| (a.score + 0.0).total_cmp(&(b.score + 0.0)));
        let member = |item: &Item| table.get(item.position as usize).member.bytes();
        for alike in order.chunk_by_mut(|a, b| a.score == b.score) {
            alike.sort_unstable_by(|a, b| member(a).cmp(member(b)));
        }
        RankedMembers { table, order, storing: None }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the members with their scores, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let member = |item: &Item| self.table.get(item.position as usize).member.bytes();
        self.order.iter().map(move |item| (member(item), item.score))
    }

    /// Returns them as a sorted set.
    pub fn into_sorted_set(mut self, rules: &Rules) -> SortedSet {
        self.forget_signs(rules);
        SortedSet::from_ranked(self.table, &self.order, rules)
    }

    /// Makes a zero with a sign one without where Redis does, which stores a range in a listpack
    /// until that is too long: there a zero is an integer. Without a listpack it begins where it
    /// knows before that it has too many for one.
    ///
    /// Source: Redis 7.2, `zrangeResultBeginStore`, `zzlInsertAt`.
    fn forget_signs(&mut self, rules: &Rules) {
        let Some(StoringOrder { direction, is_counted }) = self.storing else { return };
        let is_signed = |item: &&mut Item| item.score == 0.0 && item.score.is_sign_negative();
        let most = usize::try_from(rules.limits.sorted_set_entries).unwrap_or(usize::MAX);
        let (table, count) = (&mut self.table, self.order.len());
        if is_counted && count > most || !self.order.iter_mut().any(|item| is_signed(&item)) {
            return;
        }
        let is_short = |item: &Item| {
            let member = &table.get(item.position as usize).member;
            member.bytes().len() as u64 <= rules.limits.sorted_set_value_bytes
        };
        let packed = match direction {
            Direction::Up => 0..self.order.iter().take(most).take_while(|it| is_short(it)).count(),
            Direction::Down => {
                let packed = self.order.iter().rev().take(most);
                count - packed.take_while(|it| is_short(it)).count()..count
            }
        };
        for item in self.order[packed].iter_mut().filter(is_signed) {
            item.score = 0.0;
            table.change(item.position as usize, |scored| scored.score = 0.0);
        }
    }
}

/// Returns how many members all of `sources` have, of which there is one at least; no more than
/// `count_max` are looked for.
pub fn intersection_count(
    sources: &[Option<ScoreSource<'_>>],
    count_max: usize,
    rules: &Rules,
) -> usize {
    let sources = unweighted(sources);
    let Some((least, others)) = sources.split_first() else { return 0 };
    if are_scanned(least, others) {
        return narrowed(least, others, Aggregate::Min, rules).len().min(count_max);
    }
    let mut count = 0;
    if let Some(source) = least.source {
        source.try_for_each(rules, |member, _| {
            count += usize::from(others.iter().all(|other| other.score(member, rules).is_some()));
            if count < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    count
}

/// Returns a bound of the memory that [`intersection_count`] takes.
pub fn intersection_count_bytes_max(sources: &[Option<ScoreSource<'_>>]) -> u64 {
    match unweighted(sources).split_first() {
        Some((least, others)) if are_scanned(least, others) => {
            least.source.map_or(0, |source| source.ranked_bytes_max())
        }
        _ => 0,
    }
}

/// Returns `sources`, those with few members first, with scores as they are.
fn unweighted<'a>(sources: &[Option<ScoreSource<'a>>]) -> Vec<Weighted<'a>> {
    let all: Vec<Weighted<'_>> =
        sources.iter().map(|&source| Weighted { source, weight: 1.0 }).collect();
    by_length(&all)
}

/// Returns `sources`, those with few members first.
fn by_length<'a>(sources: &[Weighted<'a>]) -> Vec<Weighted<'a>> {
    let mut sources = sources.to_vec();
    sources.sort_by_key(Weighted::len);
    sources
}

/// Returns whether to look for each member of `least` in all of `others` would go over one of them
/// again and again.
fn are_scanned(least: &Weighted<'_>, others: &[Weighted<'_>]) -> bool {
    let is_scanned = |other: &Weighted<'_>| {
        other.source.is_some_and(|source| source.lookup_steps() > FEW_MEMBERS)
    };
    least.len() > FEW_MEMBERS && others.iter().any(is_scanned)
}

/// Looks for each member of `least` in the others.
fn found_in_all(
    least: &Weighted<'_>,
    others: &[Weighted<'_>],
    aggregate: Aggregate,
    rules: &Rules,
) -> HashTable<Scored> {
    let mut table = HashTable::default();
    let Some(source) = least.source else { return table };
    source.for_each(rules, |member, score| {
        let mut sum = number_or_zero(least.weight * score);
        let is_in_all = others.iter().all(|other| {
            let score = other.score(member, rules);
            score.inspect(|score| sum = aggregate.of(sum, other.weight * score)).is_some()
        });
        if is_in_all {
            add(&mut table, member, sum);
        }
    });
    table
}

/// Takes out of the members of `least` what one of the others does not have after the other: one
/// that would be scanned for each member is gone through once.
fn narrowed(
    least: &Weighted<'_>,
    others: &[Weighted<'_>],
    aggregate: Aggregate,
    rules: &Rules,
) -> HashTable<Scored> {
    let mut table = HashTable::with_buckets(least.len());
    let Some(source) = least.source else { return table };
    source.for_each(rules, |member, score| {
        add(&mut table, member, number_or_zero(least.weight * score));
    });
    // The score of each member in the source that is looked at.
    let mut scores: Vec<Option<f64>> = Vec::with_capacity(table.len());
    for Weighted { source, weight } in others {
        let source = source.expect("the least has members, and the others no fewer");
        scores.clear();
        if source.lookup_steps() > 1 {
            scores.resize(table.len(), None);
            source.for_each(rules, |member, score| {
                if let Some(position) = table.find(member.hash, member.bytes) {
                    scores[position] = Some(score);
                }
            });
        } else {
            let names = table.iter_hashed().map(|(hash, scored)| HashedName {
                bytes: scored.member.bytes(),
                hash: hash.into(),
            });
            scores.extend(names.map(|member| source.score(member, rules)));
        }
        // From the last on: whatever takes the place of one that goes was looked at before.
        for (position, score) in scores.iter().enumerate().rev() {
            match score {
                Some(score) => table.change(position, |scored: &mut Scored| {
                    scored.score = aggregate.of(scored.score, weight * score);
                }),
                None => drop(table.remove(position)),
            }
        }
    }
    table
}

fn add(table: &mut HashTable<Scored>, member: HashedName<'_>, score: f64) {
    table.insert(member.hash, Scored { score, member: Blob::of(&[member.bytes]) });
}

/// Looks for each member of `first` in the others: for others that are few, or large.
fn not_in_any(
    first: &ScoreSource<'_>,
    others: &[ScoreSource<'_>],
    rules: &Rules,
) -> HashTable<Scored> {
    let mut table = HashTable::default();
    first.for_each(rules, |member, score| {
        if others.iter().all(|other| other.score(member, rules).is_none()) {
            add(&mut table, member, score);
        }
    });
    table
}

/// Takes each member of the others out of `first`: for others that are many and small.
fn without_all(
    first: &ScoreSource<'_>,
    others: &[ScoreSource<'_>],
    rules: &Rules,
) -> HashTable<Scored> {
    let mut table = HashTable::with_buckets(first.len());
    first.for_each(rules, |member, score| add(&mut table, member, score));
    for other in others {
        other.for_each(rules, |member, _| {
            if let Some(position) = table.find(member.hash, member.bytes) {
                table.remove(position);
            }
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base::SecretHasher;
    use base::prng::Prng;

    use super::*;
    use crate::{Limits, Set};

    type Model = BTreeMap<Vec<u8>, f64>;

    /// A set or a sorted set, and what it has.
    enum Made {
        Set(Set, Model),
        SortedSet(SortedSet, Model),
    }

    impl Made {
        fn source(&self) -> ScoreSource<'_> {
            match self {
                Made::Set(set, _) => ScoreSource::Set(set.view()),
                Made::SortedSet(set, _) => ScoreSource::SortedSet(set.view()),
            }
        }

        fn model(&self) -> &Model {
            match self {
                Made::Set(_, model) | Made::SortedSet(_, model) => model,
            }
        }
    }

    fn rules() -> Rules {
        Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) }
    }

    /// Draws a source of some of `bound` members.
    fn draw(random: &mut Prng, bound: u64) -> Made {
        let (rules, count) = (rules(), random.below(bound));
        let are_integers = random.one_in(3);
        let mut set = Set::for_members(b"1", 1, &rules);
        let mut sorted = SortedSet::for_members(1, 1, &rules);
        let mut model = Model::new();
        let is_sorted = random.one_in(2);
        for _ in 0..count {
            let number = random.below(bound);
            let long = if number % 90 == 7 { 70 } else { number as usize % 25 };
            let member = match are_integers {
                true => number.to_string().into_bytes(),
                false => format!("{number}{}", "x".repeat(long)).into_bytes(),
            };
            let score = match random.below(9) {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                2 => -0.0,
                _ => random.below(7) as f64 / 4.0 - 0.5,
            };
            if is_sorted {
                sorted.insert(&member, score, &rules);
                model.insert(member, score);
            } else {
                set.insert(&member, &rules);
                model.insert(member, 1.0);
            }
        }
        if is_sorted { Made::SortedSet(sorted, model) } else { Made::Set(set, model) }
    }

    fn in_order(model: Model) -> Vec<(Vec<u8>, f64)> {
        let mut all: Vec<_> = model.into_iter().collect();
        all.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then(a.0.cmp(&b.0)));
        all
    }

    fn pairs(ranked: &RankedMembers) -> Vec<(Vec<u8>, f64)> {
        assert_eq!(
            (ranked.len(), ranked.is_empty()),
            (ranked.order.len(), ranked.order.is_empty())
        );
        ranked.iter().map(|(member, score)| (member.to_vec(), score)).collect()
    }

    /// Checks what `ranked` is, and the sorted set that it makes.
    fn check(ranked: RankedMembers, expected: Model) {
        let expected = in_order(expected);
        assert_eq!(pairs(&ranked), expected);
        let is_small = expected.len() <= 128 && expected.iter().all(|pair| pair.0.len() <= 64);
        let mut set = ranked.into_sorted_set(&rules());
        assert_eq!(set.is_small(), is_small);
        let mut found = Vec::new();
        set.view().for_each(0, usize::MAX, Direction::Up, |member, score| {
            found.push((member.to_vec(), score));
        });
        assert_eq!(found, expected);
        // It is one that can be changed.
        for (index, (member, score)) in expected.iter().enumerate() {
            assert_eq!(set.view().rank(member, &rules()), Some((index, *score)));
        }
        for (member, score) in &expected {
            assert_eq!(set.remove(member, &rules()), Some(*score));
        }
        assert!(set.is_empty());
    }

    #[test]
    fn unions_and_intersections_are_those_of_maps() {
        let mut random = Prng::new(1);
        for round in 0..300 {
            let bound = [10, 60, 200, 900][round % 4];
            let weights = [1.0, -2.0, 0.0, 0.5, f64::INFINITY];
            let drawn: Vec<(Made, f64)> = (0..1 + random.below(4))
                .map(|_| (draw(&mut random, bound), random.pick(&weights)))
                .collect();
            let weighted = drawn.iter().map(|(made, weight)| {
                let source = Some(made.source());
                Weighted { source, weight: *weight }
            });
            let sources: Vec<Weighted<'_>> = weighted.collect();
            let mut in_turn: Vec<&(Made, f64)> = drawn.iter().collect();
            in_turn.sort_by_key(|(made, _)| made.model().len());
            let aggregate = random.pick(&[Aggregate::Sum, Aggregate::Min, Aggregate::Max]);
            let (mut union, mut common) = (Model::new(), Model::new());
            for (index, (made, weight)) in in_turn.into_iter().enumerate() {
                let model = made.model();
                for (member, score) in model {
                    let part = weight * score;
                    let number = if part.is_nan() { 0.0 } else { part };
                    let old = union.get(member).copied();
                    let sum = old.map_or(number, |old| aggregate.of(old, number));
                    union.insert(member.clone(), sum);
                    if index == 0 {
                        common.insert(member.clone(), number);
                    } else if let Some(old) = common.get_mut(member) {
                        *old = aggregate.of(*old, part);
                    }
                }
                common.retain(|member, _| model.contains_key(member));
            }
            let sorted = by_length(&sources);
            let optional: Vec<_> = sources.iter().map(|one| one.source).collect();
            assert_eq!(intersection_count(&optional, usize::MAX, &rules()), common.len());
            assert_eq!(intersection_count(&optional, 3, &rules()), common.len().min(3));
            check(RankedMembers::union(&sources, aggregate, &rules()), union);
            let (least, others) = sorted.split_first().unwrap();
            for way in [found_in_all, narrowed] {
                let table = way(least, others, aggregate, &rules());
                check(RankedMembers::of(table), common.clone());
            }
            check(RankedMembers::intersection(&sources, aggregate, &rules()), common);
        }
    }

    #[test]
    fn differences_are_those_of_maps_either_way() {
        let mut random = Prng::new(2);
        for round in 0..300 {
            let first = draw(&mut random, [10, 300][round % 2]);
            let most = [3, 40][round % 3 / 2];
            let others: Vec<Made> = (0..random.below(most))
                .map(|_| {
                    let bound = random.pick(&[2, 5, 300]);
                    draw(&mut random, bound)
                })
                .collect();
            let mut expected = first.model().clone();
            expected
                .retain(|member, _| others.iter().all(|other| !other.model().contains_key(member)));
            let all: Vec<_> =
                std::iter::once(&first).chain(&others).map(|one| Some(one.source())).collect();
            check(RankedMembers::difference(&all, &rules()), expected.clone());
            let others: Vec<_> = all[1..].iter().flatten().copied().collect();
            for way in [not_in_any, without_all] {
                let table = way(&first.source(), &others, &rules());
                check(RankedMembers::of(table), expected.clone());
            }
        }
    }

    #[test]
    fn an_absent_source_has_no_members() {
        let made = draw(&mut Prng::new(3), 50);
        let there = Weighted { source: Some(made.source()), weight: 1.0 };
        let sources = [there, Weighted { source: None, weight: 1.0 }];
        let (sum, rules) = (Aggregate::Sum, rules());
        check(RankedMembers::union(&sources, sum, &rules), made.model().clone());
        assert!(RankedMembers::intersection(&sources, sum, &rules).is_empty());
        assert_eq!(intersection_count(&[None, there.source], 9, &rules), 0);
        assert_eq!(intersection_count_bytes_max(&[None, there.source]), 0);
        assert!(RankedMembers::difference(&[None, there.source], &rules).is_empty());
        check(RankedMembers::difference(&[there.source, None], &rules), made.model().clone());
    }

    #[test]
    fn a_range_is_what_its_ranks_hold() {
        let mut random = Prng::new(4);
        for bound in [20, 100, 3000] {
            let Made::SortedSet(set, model) = std::iter::repeat_with(|| draw(&mut random, bound))
                .find(|made| matches!(made, Made::SortedSet(..)))
                .unwrap()
            else {
                unreachable!("just looked at")
            };
            let all = in_order(model);
            for _ in 0..20 {
                let start = random.below(all.len() as u64 + 1) as usize;
                let end = start + random.below((all.len() - start) as u64 + 1) as usize;
                let expected: Model = all[start..end].iter().cloned().collect();
                let storing = StoringOrder { direction: Direction::Up, is_counted: true };
                let ranked = RankedMembers::of_range(set.view(), start..end, storing, &rules());
                check(ranked, expected);
            }
        }
    }

    #[test]
    fn members_take_no_more_than_was_asked_for() {
        let mut random = Prng::new(5);
        for round in 0..60 {
            let made = draw(&mut random, [10, 100, 30_000][round % 3]);
            let source = Weighted { source: Some(made.source()), weight: 1.0 };
            let ranked = RankedMembers::union(&[source], Aggregate::Sum, &rules());
            let order = (ranked.order.capacity() * size_of::<Item>()) as u64;
            let set = ranked.into_sorted_set(&rules());
            let bound = made.source().ranked_bytes_max();
            // The piece begun last, and the list of pieces.
            let taken = (set.memory_bytes() + order).saturating_sub(512 * 48 + 4096);
            assert!(taken <= bound, "{taken} of {bound} bytes for {}", set.len());
        }
    }
}
