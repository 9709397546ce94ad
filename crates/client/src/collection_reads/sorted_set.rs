//! Queries of sorted sets.

use std::ops::{Bound, Range};

use arena::ValueType;
use base::ChangingBytes;
use base::index_range::index_range;
use base::number_text::DoubleText;
use collections::{Compact, Direction, ListpackSearch, NEEDLES_AT_ONCE, Nonsense, SortedSetView};
use resp::Value as Reply;

use super::replies::{array, fill, score};
use super::{Query, Words, rules};
use crate::answers::{length, unexpected};
use crate::elements::Elements;
use crate::error::ClientError;

/// Members of a sorted set that follow each other, as ZRANGE names them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SortedSetRange {
    kind: SortedSetRangeKind,
    is_reversed: bool,
    /// How many members are left out, and how many come at most.
    limit: Option<(u64, u64)>,
}

/// What a range is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SortedSetRangeKind {
    /// Ranks, both part of the range; they count from the end where they are negative.
    Ranks(i64, i64),
    /// Scores, the lower bound first.
    Scores(Bound<f64>, Bound<f64>),
}

impl SortedSetRange {
    /// Returns the members from rank `start` to rank `stop`, -1 being the last.
    pub fn ranks(start: i64, stop: i64) -> SortedSetRange {
        let kind = SortedSetRangeKind::Ranks(start, stop);
        SortedSetRange { kind, is_reversed: false, limit: None }
    }

    /// Returns the members with scores from `min` to `max`.
    pub fn scores(min: Bound<f64>, max: Bound<f64>) -> SortedSetRange {
        let kind = SortedSetRangeKind::Scores(min, max);
        SortedSetRange { kind, is_reversed: false, limit: None }
    }

    /// Returns the range from the highest score down; ranks then count from there.
    pub fn reversed(self) -> SortedSetRange {
        SortedSetRange { is_reversed: true, ..self }
    }

    /// Returns the range without its first `offset` members, of `count` at most. A range of ranks
    /// says so itself, and ignores it.
    pub fn limited(self, offset: u64, count: u64) -> SortedSetRange {
        SortedSetRange { limit: Some((offset, count)), ..self }
    }

    fn direction(&self) -> Direction {
        if self.is_reversed { Direction::Down } else { Direction::Up }
    }

    /// Returns the ranks of the members that are in the range, from the lowest score up.
    fn part(&self, set: SortedSetView<'_>) -> Range<usize> {
        let ranks = match self.kind {
            SortedSetRangeKind::Ranks(start, stop) => {
                let ranks = index_range(start, stop, set.len());
                return self.direction().ranks(ranks, set.len());
            }
            SortedSetRangeKind::Scores(min, max) => set.ranks_between(min, max),
        };
        let (offset, count) = self.limit.unwrap_or((0, u64::MAX));
        let [skipped, most] = [offset, count].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        self.direction().limited(ranks, skipped, most)
    }

    fn words(&self) -> Words<'static> {
        let (mut words, is_scores): (Words<'_>, bool) = match self.kind {
            SortedSetRangeKind::Ranks(start, stop) => {
                let bounds = [start, stop].map(|rank| rank.to_string().into_bytes().into());
                (bounds.into(), false)
            }
            SortedSetRangeKind::Scores(min, max) => {
                let bounds = [bound_text(min, b"-inf"), bound_text(max, b"+inf")];
                (bounds.map(Into::into).into(), true)
            }
        };
        if self.is_reversed && is_scores {
            // The higher bound comes first, but for ranks, which count from that end.
            words.reverse();
        }
        if is_scores {
            words.push(b"BYSCORE".into());
        }
        if self.is_reversed {
            words.push(b"REV".into());
        }
        if let (Some((offset, count)), true) = (self.limit, is_scores) {
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX).to_string();
            let numbers = [offset, count].map(|it| number(it).into_bytes().into());
            words.push(b"LIMIT".into());
            words.extend(numbers);
        }
        words
    }
}

/// ZSCORE.
pub struct GetScore<'a> {
    pub member: &'a [u8],
}

/// ZMSCORE.
pub struct GetScores<'a> {
    pub members: &'a [&'a [u8]],
    pub scores: &'a mut Vec<Option<f64>>,
}

/// ZRANK and ZREVRANK.
pub struct GetRank<'a> {
    pub member: &'a [u8],
    pub direction: Direction,
}

/// ZRANGE.
pub struct GetRange<'a> {
    pub range: &'a SortedSetRange,
    pub members: &'a mut Elements,
    /// Where scores go, if they are asked for.
    pub scores: Option<&'a mut Vec<f64>>,
}

/// ZCARD.
pub struct MemberCount;

impl Query for GetScore<'_> {
    const TYPE: ValueType = ValueType::SortedSet;
    type Answer = Option<f64>;

    fn absent(&mut self) -> Option<f64> {
        None
    }

    fn searches_in_place(&self) -> bool {
        true
    }

    #[inline(always)]
    fn search<B: ChangingBytes>(
        &mut self,
        pack: ListpackSearch<B>,
    ) -> Result<Option<f64>, Nonsense> {
        pack.score(self.member)
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"ZSCORE".into(), key.into(), self.member.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<Option<f64>, ClientError> {
        score(&reply)
    }
}

impl Query for GetScores<'_> {
    const TYPE: ValueType = ValueType::SortedSet;
    type Answer = ();

    fn is_refused(&self) -> bool {
        self.members.is_empty()
    }

    fn absent(&mut self) {
        self.scores.clear();
        self.scores.resize(self.members.len(), None);
    }

    /// A walk over many more would begin anew too often where a writer is busy.
    fn searches_in_place(&self) -> bool {
        self.members.len() <= NEEDLES_AT_ONCE
    }

    fn search<B: ChangingBytes>(&mut self, pack: ListpackSearch<B>) -> Result<(), Nonsense> {
        self.scores.clear();
        pack.scores(self.members, |score| self.scores.push(score))
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        let members = self.members.iter().map(|member| (*member).into());
        [b"ZMSCORE".into(), key.into()].into_iter().chain(members).collect()
    }

    fn replied(&mut self, reply: Reply) -> Result<(), ClientError> {
        self.scores.clear();
        for part in array(reply)? {
            self.scores.push(score(&part)?);
        }
        Ok(())
    }
}

impl Query for GetRank<'_> {
    const TYPE: ValueType = ValueType::SortedSet;
    type Answer = Option<u64>;

    fn absent(&mut self) -> Option<u64> {
        None
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<Option<u64>> {
        let set = SortedSetView::of_compact(compact);
        let rank = set.rank(self.member, rules()).map(|(rank, _)| match self.direction {
            Direction::Up => rank,
            Direction::Down => set.len() - 1 - rank,
        });
        Some(rank.map(|rank| rank as u64))
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        let name: &[u8] = match self.direction {
            Direction::Up => b"ZRANK",
            Direction::Down => b"ZREVRANK",
        };
        vec![name.into(), key.into(), self.member.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<Option<u64>, ClientError> {
        match reply {
            Reply::Null => Ok(None),
            reply => Ok(Some(length(&reply)?)),
        }
    }
}

impl Query for GetRange<'_> {
    const TYPE: ValueType = ValueType::SortedSet;
    type Answer = ();

    fn is_refused(&self) -> bool {
        match &self.range.kind {
            SortedSetRangeKind::Scores(min, max) => [min, max].into_iter().any(is_no_number),
            SortedSetRangeKind::Ranks(..) => false,
        }
    }

    fn absent(&mut self) {
        self.members.clear();
        if let Some(scores) = &mut self.scores {
            scores.clear();
        }
    }

    fn compact(&mut self, compact: Compact<'_>) -> Option<()> {
        let set = SortedSetView::of_compact(compact);
        let part = self.range.part(set);
        self.absent();
        let direction = self.range.direction();
        set.for_each(direction.first(&part), part.len(), direction, |member, score| {
            member.with_bytes(|bytes| self.members.push(bytes));
            if let Some(scores) = &mut self.scores {
                scores.push(score);
            }
        });
        Some(())
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        let mut words: Words<'a> = vec![b"ZRANGE".into(), key.into()];
        words.extend(self.range.words());
        if self.scores.is_some() {
            words.push(b"WITHSCORES".into());
        }
        words
    }

    fn replied(&mut self, reply: Reply) -> Result<(), ClientError> {
        self.absent();
        let Some(scores) = &mut self.scores else { return fill(self.members, reply) };
        let mut parts = Vec::new();
        for part in array(reply)? {
            match part {
                // RESP3 has each member in an array with its score.
                Reply::Array(pair) => parts.extend(pair),
                part => parts.push(part),
            }
        }
        for pair in parts.as_chunks::<2>().0 {
            let [Reply::Bulk(member), value] = pair else { return Err(unexpected(&pair[0])) };
            self.members.push(member);
            scores.push(score(value)?.ok_or_else(|| unexpected(value))?);
        }
        Ok(())
    }
}

impl Query for MemberCount {
    const TYPE: ValueType = ValueType::SortedSet;
    type Answer = u64;

    fn absent(&mut self) -> u64 {
        0
    }

    fn searches_in_place(&self) -> bool {
        true
    }

    fn search<B: ChangingBytes>(&mut self, pack: ListpackSearch<B>) -> Result<u64, Nonsense> {
        pack.pair_count()
    }

    fn counted(&mut self, count: u64) -> Option<u64> {
        Some(count)
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Words<'a> {
        vec![b"ZCARD".into(), key.into()]
    }

    fn replied(&mut self, reply: Reply) -> Result<u64, ClientError> {
        length(&reply)
    }
}

fn is_no_number(bound: &Bound<f64>) -> bool {
    matches!(bound, Bound::Included(value) | Bound::Excluded(value) if value.is_nan())
}

/// Returns `bound` as ZRANGE reads it; `unbounded` where there is none.
fn bound_text(bound: Bound<f64>, unbounded: &[u8]) -> Vec<u8> {
    match bound {
        Bound::Unbounded => unbounded.to_vec(),
        Bound::Included(value) => DoubleText::new(value).as_bytes().to_vec(),
        Bound::Excluded(value) => [b"(", DoubleText::new(value).as_bytes()].concat(),
    }
}
