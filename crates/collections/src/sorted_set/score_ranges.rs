//! Going through a sorted set by ranges of scores, again and again.

use std::ops::ControlFlow;

use super::{Large, MemberAt};
use crate::score_tree::Item;

/// A sorted set to go through by ranges of scores, again and again.
pub struct ScoreRanges<'a> {
    pub(super) body: RangesBody<'a>,
}

pub(super) enum RangesBody<'a> {
    /// The members of a listpack by their scores, which are read once for all ranges.
    Small(Vec<(f64, MemberAt)>),
    Large(&'a Large),
}

impl ScoreRanges<'_> {
    /// Returns how many members have scores from `low` on and below `high`.
    pub fn count(&self, low: f64, high: f64) -> usize {
        let below = |bound: f64| match &self.body {
            RangesBody::Small(members) => members.partition_point(|(score, _)| *score < bound),
            RangesBody::Large(large) => large.tree.partition_point(|item| item.score < bound),
        };
        below(high).saturating_sub(below(low))
    }

    /// Visits the members with scores from `low` on and below `high`, in order, until `visit`
    /// breaks.
    pub fn try_for_each(
        &self,
        low: f64,
        high: f64,
        mut visit: impl FnMut(MemberAt, f64) -> ControlFlow<()>,
    ) {
        // A break ends it, and is no answer.
        let _ = match &self.body {
            RangesBody::Small(members) => {
                let first = members.partition_point(|(score, _)| *score < low);
                let within = members[first..].iter().take_while(|(score, _)| *score < high);
                within.copied().try_for_each(|(score, at)| visit(at, score))
            }
            RangesBody::Large(large) => {
                let mut visit = |item: &Item| match item.score < high {
                    true => visit(MemberAt(item.position), item.score),
                    false => ControlFlow::Break(()),
                };
                large.tree.try_for_each_from(&|item| item.score < low, &mut visit)
            }
        };
    }
}
