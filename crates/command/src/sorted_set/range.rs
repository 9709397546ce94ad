//! Ranges of sorted sets: by rank, by score, by name.

use base::index_range::index_range;
use base::number::parse_f64_loosely;
use collections::{Direction, SortedSet, SortedSetView};

use crate::handler::element::{PairForm, reply_element};
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

/// A bound, which is part of the range or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound<T> {
    value: T,
    is_exclusive: bool,
}

/// A bound of names.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameBound<'a> {
    Lowest,
    Highest,
    At(Bound<&'a [u8]>),
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
    pub fn ranks(&self, set: SortedSetView<'_>) -> std::ops::Range<usize> {
        let (start, end) = match *self {
            Range::Ranks(start, stop) => return index_range(start, stop, set.len()),
            Range::Scores(min, max) => (
                set.partition_point(|_, score| match min.is_exclusive {
                    true => score <= min.value,
                    false => score < min.value,
                }),
                set.partition_point(|_, score| match max.is_exclusive {
                    true => score < max.value,
                    false => score <= max.value,
                }),
            ),
            Range::Names(min, max) => (
                set.partition_point(|name, _| name.with_bytes(|name| min.is_above(name, true))),
                set.partition_point(|name, _| name.with_bytes(|name| max.is_above(name, false))),
            ),
        };
        start..end.max(start)
    }
}

fn score_bound(text: &[u8]) -> Option<Bound<f64>> {
    let (is_exclusive, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    Some(Bound { value: parse_f64_loosely(number)?, is_exclusive })
}

impl<'a> NameBound<'a> {
    fn parse(text: &'a [u8]) -> Option<NameBound<'a>> {
        match text {
            b"-" => Some(NameBound::Lowest),
            b"+" => Some(NameBound::Highest),
            [b'(', value @ ..] => Some(NameBound::At(Bound { value, is_exclusive: true })),
            [b'[', value @ ..] => Some(NameBound::At(Bound { value, is_exclusive: false })),
            _ => None,
        }
    }

    /// Returns whether `name` lies before what the bound begins, where it `begins` a range, or
    /// before its end.
    fn is_above(&self, name: &[u8], begins: bool) -> bool {
        match self {
            NameBound::Lowest => false,
            NameBound::Highest => true,
            NameBound::At(bound) if bound.is_exclusive == begins => name <= bound.value,
            NameBound::At(bound) => name < bound.value,
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

    /// Returns the ranks of the members, counted from the lowest score.
    pub fn ranks(&self, set: SortedSetView<'_>) -> std::ops::Range<usize> {
        let (start, count) = self.part(set);
        match self.direction {
            Direction::Down if count > 0 => start + 1 - count..start + 1,
            _ => start..start + count,
        }
    }

    /// Returns the rank to start with, in the request's direction, and how many members follow.
    fn part(&self, set: SortedSetView<'_>) -> (usize, usize) {
        let ranks = self.range.ranks(set);
        if let Range::Ranks(..) = self.range {
            let start = match self.direction {
                Direction::Up => ranks.start,
                Direction::Down => set.len().saturating_sub(ranks.start + 1),
            };
            return (start, ranks.len());
        }
        // A negative offset is beyond every end.
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX).min(ranks.len());
        let most = usize::try_from(self.count).unwrap_or(usize::MAX);
        let count = most.min(ranks.len() - skipped);
        match self.direction {
            Direction::Up => (ranks.start + skipped, count),
            Direction::Down => ((ranks.end - skipped).saturating_sub(1), count),
        }
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
    let (start, count) = request.part(set);
    let form = PairForm::new(request.with_scores, reply);
    form.begin(count, reply);
    set.for_each(start, count, request.direction, |member, score| {
        form.write(reply, |reply| reply_element(member, reply), |reply| reply.double(score));
    });
    Ok(())
}
