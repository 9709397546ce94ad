//! Ranges of sorted sets: by rank, by score, by name.

use std::ops::{Bound, Range as Ranks};

use base::index_range::index_range;
use base::number::parse_f64_loosely;
use collections::{Direction, SortedSet, SortedSetView, StoringOrder};

use crate::handler::element::PairForm;
use crate::prelude::*;

const NOT_A_SCORE: CommandError = CommandError::Fixed("ERR min or max is not a float");
const NOT_A_NAME: CommandError = CommandError::Fixed("ERR min or max not valid string range item");
const LIMIT_BY_RANK: CommandError = CommandError::Fixed(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
);
const SCORES_BY_NAME: CommandError =
    CommandError::Fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// Bounds of scores that requests are drawn with.
pub(super) const SCORES: &[&str] = &["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"];
/// Bounds of names that requests are drawn with.
pub(super) const NAMES: &[&str] = &["-", "+", "[a", "(a", "[5", "(x", "["];

/// The part of a range that is asked for.
pub(super) const LIMIT: Arg = Arg::block(
    "limit",
    &[Arg::integer("offset").within(-2, 10), Arg::integer("count").within(-2, 10)],
)
.token("LIMIT")
.optional();

/// What a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

/// A range, its lower bound first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range<'a> {
    Ranks(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    Names(NameBound<'a>, NameBound<'a>),
}

/// A bound of names; without one, which end of all names there is.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameBound<'a> {
    Lowest,
    Highest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl<'a> Range<'a> {
    /// Reads the range in the second and third argument.
    pub fn parse(args: Args<'a>, by: By) -> Result<Range<'a>, CommandError> {
        Range::between(args, by, 2, 3)
    }

    /// Reads the range from argument `low` to argument `high`.
    fn between(args: Args<'a>, by: By, low: usize, high: usize) -> Result<Range<'a>, CommandError> {
        Ok(match by {
            By::Rank => Range::Ranks(args.integer(low)?, args.integer(high)?),
            By::Score => {
                let bound = |index| score_bound(args.at(index)).ok_or(NOT_A_SCORE);
                Range::Scores(bound(low)?, bound(high)?)
            }
            By::Lex => {
                let bound = |index| NameBound::parse(args.at(index)).ok_or(NOT_A_NAME);
                Range::Names(bound(low)?, bound(high)?)
            }
        })
    }

    /// Returns the ranks that are in the range, counted from the lowest score.
    pub fn ranks(&self, set: SortedSetView<'_>) -> Ranks<usize> {
        match *self {
            Range::Ranks(start, stop) => index_range(start, stop, set.len()),
            Range::Scores(min, max) => set.ranks_between(min, max),
            Range::Names(min, max) => {
                let below = |bound: NameBound<'_>, begins| {
                    set.partition_point(|name, _| {
                        name.with_bytes(|name| bound.is_above(name, begins))
                    })
                };
                let (start, end) = (below(min, true), below(max, false));
                start..end.max(start)
            }
        }
    }
}

fn score_bound(text: &[u8]) -> Option<Bound<f64>> {
    match text {
        [b'(', number @ ..] => parse_f64_loosely(number).map(Bound::Excluded),
        number => parse_f64_loosely(number).map(Bound::Included),
    }
}

impl<'a> NameBound<'a> {
    fn parse(text: &'a [u8]) -> Option<NameBound<'a>> {
        match text {
            b"-" => Some(NameBound::Lowest),
            b"+" => Some(NameBound::Highest),
            [b'(', name @ ..] => Some(NameBound::Excluded(name)),
            [b'[', name @ ..] => Some(NameBound::Included(name)),
            _ => None,
        }
    }

    /// Returns whether `name` lies before what the bound begins, where it `begins` a range, or
    /// before its end.
    fn is_above(&self, name: &[u8], begins: bool) -> bool {
        match self {
            NameBound::Lowest => false,
            NameBound::Highest => true,
            NameBound::Included(bound) if !begins => name <= bound,
            NameBound::Excluded(bound) if begins => name <= bound,
            NameBound::Included(bound) | NameBound::Excluded(bound) => name < bound,
        }
    }
}

/// Which members are asked for, in which order, and with what.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeRequest<'a> {
    range: Range<'a>,
    direction: Direction,
    offset: i64,
    /// Negative: all.
    count: i64,
    with_scores: bool,
}

impl<'a> RangeRequest<'a> {
    /// Reads the arguments of a request that stores what it asks for: behind the target, without an
    /// option for scores.
    pub fn of_store(args: Args<'a>) -> Result<RangeRequest<'a>, CommandError> {
        RangeRequest::parse(args, 2, None, None)
    }

    /// Reads the arguments of a request from its source on, which is at `source_at`; where `by` or
    /// `direction` is none, its options say it.
    fn parse(
        args: Args<'a>,
        source_at: usize,
        mut by: Option<By>,
        mut direction: Option<Direction>,
    ) -> Result<RangeRequest<'a>, CommandError> {
        let (mut offset, mut count, mut with_scores) = (0, -1, false);
        let (start_at, stop_at, stores) = (source_at + 1, source_at + 2, source_at > 1);
        let mut index = stop_at + 1;
        while index < args.len() {
            if !stores && args.is(index, "WITHSCORES") {
                with_scores = true;
            } else if args.is(index, "LIMIT") && index + 2 < args.len() {
                (offset, count) = (args.integer(index + 1)?, args.integer(index + 2)?);
                index += 2;
            } else if direction.is_none() && args.is(index, "REV") {
                direction = Some(Direction::Down);
            } else if by.is_none() && args.is(index, "BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && args.is(index, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        let (by, direction) = (by.unwrap_or(By::Rank), direction.unwrap_or(Direction::Up));
        if count != -1 && by == By::Rank {
            return Err(LIMIT_BY_RANK);
        }
        if with_scores && by == By::Lex {
            return Err(SCORES_BY_NAME);
        }
        // Downwards the higher bound comes first, but for ranks, which count from that end.
        let (low, high) = match (direction, by) {
            (Direction::Down, By::Score | By::Lex) => (stop_at, start_at),
            _ => (start_at, stop_at),
        };
        let range = Range::between(args, by, low, high)?;
        Ok(RangeRequest { range, direction, offset, count, with_scores })
    }

    /// Returns in which order the members are stored, and whether Redis knows before how many they
    /// are.
    pub fn storing_order(&self) -> StoringOrder {
        let is_counted = matches!(self.range, Range::Ranks(..));
        StoringOrder { direction: self.direction, is_counted }
    }

    /// Returns the ranks of the members, counted from the lowest score.
    pub fn ranks(&self, set: SortedSetView<'_>) -> Ranks<usize> {
        let ranks = self.range.ranks(set);
        if let Range::Ranks(..) = self.range {
            return self.direction.ranks(ranks, set.len());
        }
        // A negative offset is beyond every end, a negative count is none.
        let [skipped, most] =
            [self.offset, self.count].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        self.direction.limited(ranks, skipped, most)
    }
}

/// Replies with the members that a request asks for. The older commands know `by` what the range
/// is and in which `direction`; ZRANGE has options for that.
pub(super) fn reply_range(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    by: Option<By>,
    direction: Option<Direction>,
) -> Result<(), Unfinished> {
    let request = RangeRequest::parse(args, 1, by, direction)?;
    let Some(set) = cx.view.collection::<SortedSet>(args.key(0))? else {
        reply.array(0);
        return Ok(());
    };
    let ranks = request.ranks(set);
    let form = PairForm::new(request.with_scores, reply);
    form.begin(ranks.len(), reply);
    let first = request.direction.first(&ranks);
    set.for_each(first, ranks.len(), request.direction, |member, score| {
        form.write_scored(member, score, reply);
    });
    Ok(())
}
