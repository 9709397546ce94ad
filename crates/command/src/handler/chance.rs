//! Picking by chance: SPOP, and what SRANDMEMBER, HRANDFIELD and ZRANDMEMBER share.

use std::cell::Cell;
use std::collections::BTreeMap;

use base::prng::Prng;
use resp::Reply;

use crate::handler::error::CommandError;
use crate::handler::outcome::Unfinished;
use crate::handler::request::Args;

const OUT_OF_RANGE: CommandError = CommandError::Fixed("ERR value is out of range");

/// The memory that each different number takes while it is picked: itself, and what was moved for
/// it in a tree.
pub(crate) const PICK_BYTES: u64 = 64;

/// The memory of an element of a listpack that is listed, which may be two parts.
const LISTED_BYTES: u64 = 48;
/// Elements of which as many are walked to, one by one, as it would cost to list all.
const WALKS_MAX: usize = 3;

/// What `expect` says of picked elements.
pub(crate) const BELOW_LENGTH: &str = "the index is below the length";

/// Lets `draw` pick by chance.
pub(crate) fn by_chance<R>(random: &Cell<Prng>, draw: impl FnOnce(&mut Prng) -> R) -> R {
    let mut prng = random.replace(Prng::new(0));
    let result = draw(&mut prng);
    random.set(prng);
    result
}

/// How many elements a request wants: so many different ones, or, negative, so many of which any
/// may come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PickCount(i64);

impl PickCount {
    /// Reads the count at position 2.
    ///
    /// # Errors
    /// When it is no integer, or the lowest.
    pub fn parse(args: Args<'_>) -> Result<PickCount, CommandError> {
        Ok(PickCount(args.integer_in(2, -i64::MAX, i64::MAX)?))
    }

    /// As [`PickCount::parse`], where `word` may follow, which asks for two replies for each
    /// element; returns whether it does.
    ///
    /// # Errors
    /// As there, and when something else follows, or the replies are too many.
    pub fn parse_with(args: Args<'_>, word: &str) -> Result<(PickCount, bool), CommandError> {
        let count = PickCount::parse(args)?;
        match args.len() {
            3 => Ok((count, false)),
            4 if args.is(3, word) => match count.0.unsigned_abs() > i64::MAX as u64 / 2 {
                true => Err(OUT_OF_RANGE),
                false => Ok((count, true)),
            },
            _ => Err(CommandError::Syntax),
        }
    }

    /// Returns whether each element is replied once at most.
    pub fn is_of_different(self) -> bool {
        self.0 >= 0
    }

    /// Returns how many elements of `length`, which is not 0, are replied.
    pub fn of(self, length: usize) -> usize {
        match self.0 {
            0.. => length.min(self.0 as usize),
            _ => self.0.unsigned_abs() as usize,
        }
    }

    /// Returns the memory that a list of the elements takes, where they are of a listpack of
    /// `length` elements and so many are wanted that it is better to list all than to walk to each;
    /// else 0.
    pub fn listed_bytes(self, length: usize, is_listpack: bool) -> u64 {
        let is_listed = is_listpack && self.of(length) > WALKS_MAX;
        if is_listed { length as u64 * LISTED_BYTES } else { 0 }
    }

    /// Calls `pick` with the index of each element, below `length`, which is not 0, until the reply
    /// is cut. `scratch` returns the right to the memory that the choice takes.
    ///
    /// # Errors
    /// Those of `scratch`.
    pub fn for_each<S>(
        self,
        length: usize,
        random: &Cell<Prng>,
        reply: &mut Reply<'_>,
        scratch: impl FnOnce(u64) -> Result<S, Unfinished>,
        mut pick: impl FnMut(usize, &mut Reply<'_>),
    ) -> Result<(), Unfinished> {
        let mut pick = |index| {
            pick(index, reply);
            !reply.is_cut()
        };
        let count = self.of(length);
        if self.0 < 0 {
            by_chance(random, |random| {
                (0..count).all(|_| pick(random.below(length as u64) as usize))
            });
        } else if count == length {
            (0..length).all(pick);
        } else {
            let _scratch = scratch(count as u64 * PICK_BYTES)?;
            let indexes = by_chance(random, |random| distinct(length, count, random));
            indexes.into_iter().all(pick);
        }
        Ok(())
    }
}

/// Returns up to `count` different numbers below `bound`, in an order that means nothing.
///
/// The start of a shuffle of all of them, of which only what was moved is kept.
pub(crate) fn distinct(bound: usize, count: usize, random: &mut Prng) -> Vec<usize> {
    if count >= bound {
        return (0..bound).collect();
    }
    if count == 1 {
        return vec![random.below(bound as u64) as usize];
    }
    let mut shuffle = Shuffle::new(bound);
    (0..count).map_while(|_| shuffle.next(random)).collect()
}

/// All numbers below a bound, in an order that means nothing, as far as they are asked for. Each
/// takes [`PICK_BYTES`].
pub(crate) struct Shuffle {
    bound: usize,
    drawn: usize,
    /// What has been moved, by where it is now.
    moved: BTreeMap<usize, usize>,
}

impl Shuffle {
    /// Returns all numbers below `bound`.
    pub fn new(bound: usize) -> Shuffle {
        Shuffle { bound, drawn: 0, moved: BTreeMap::new() }
    }

    /// Returns the next number; none once all were drawn.
    pub fn next(&mut self, random: &mut Prng) -> Option<usize> {
        let index = self.drawn;
        let left = self.bound.checked_sub(index).filter(|left| *left > 0)?;
        self.drawn += 1;
        let other = index + random.below(left as u64) as usize;
        let own = self.moved.get(&index).copied().unwrap_or(index);
        Some(self.moved.insert(other, own).unwrap_or(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_picked_once_and_all_as_often() {
        let mut random = Prng::new(1);
        let mut picked = [0; 10];
        for _ in 0..10_000 {
            let mut numbers = distinct(10, 3, &mut random);
            numbers.iter().for_each(|&number| picked[number] += 1);
            numbers.sort();
            numbers.dedup();
            assert_eq!(numbers.len(), 3);
        }
        assert!(picked.iter().all(|count| (2800..3200).contains(count)), "{picked:?}");
        assert_eq!(distinct(3, 9, &mut random), [0, 1, 2]);
        assert_eq!(distinct(3, 0, &mut random), [0_usize; 0]);
        let mut shuffle = Shuffle::new(4);
        let mut all: Vec<usize> = std::iter::from_fn(|| shuffle.next(&mut random)).collect();
        all.sort();
        assert_eq!(all, [0, 1, 2, 3]);
    }

    #[test]
    fn as_many_are_picked_as_are_wanted() {
        let random = Cell::new(Prng::new(1));
        for (count, expected) in [(0, 0), (1, 1), (3, 3), (5, 5), (9, 5), (i64::MAX, 5), (-7, 7)] {
            let count = PickCount(count);
            assert_eq!(count.of(5), expected);
            let (mut out, mut picked, mut asked) = (Vec::new(), Vec::new(), 0);
            let mut reply = Reply::new(&mut out, resp::Protocol::Resp2);
            let scratch = |bytes| {
                asked = bytes;
                Ok(())
            };
            count.for_each(5, &random, &mut reply, scratch, |index, _| picked.push(index)).unwrap();
            assert_eq!(picked.len(), expected);
            assert!(picked.iter().all(|index| *index < 5));
            assert_eq!(asked > 0, [1, 3].contains(&count.0), "what is picked of some takes memory");
            if count.0 >= 0 {
                picked.sort();
                picked.dedup();
                assert_eq!(picked.len(), expected, "each once");
            }
        }
    }
}
