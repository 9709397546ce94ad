//! What a key is worth: how often it is used, over its size.

use crate::logarithm::{self, Log, NOTHING, OCTAVE};
use crate::mark::{Mark, Tick};

/// What the policy maximises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The share of requests that find their key: of two keys that are used equally often the
    /// smaller stays.
    Hits,
    /// The share of bytes that are found: size does not matter.
    Bytes,
    /// Between the two: frequency over size to the power of so many 256ths.
    Power(u8),
}

impl Objective {
    /// Returns the exponent of the size, in 256ths.
    #[inline]
    fn exponent(self) -> Log {
        match self {
            Objective::Hits => 256,
            Objective::Bytes => 0,
            Objective::Power(part) => Log::from(part),
        }
    }

    /// Returns what a hit of a key of `bytes` adds to what is maximised.
    pub(crate) fn gain(self, bytes: u64) -> u64 {
        match self {
            Objective::Hits => 1,
            Objective::Bytes => bytes,
            Objective::Power(part) => {
                let log = i64::from(logarithm::of(bytes)) * i64::from(256 - Log::from(part)) / 256;
                logarithm::power(log as Log).max(1)
            }
        }
    }
}

/// How much dearer than others a key is to have back: a factor, as its logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost(Log);

impl Cost {
    /// The cost of a key where costs are not known.
    pub const ONE: Cost = Cost(0);

    /// Returns the cost of a key that costs so much, in any unit that all keys have.
    pub fn of(number: u64) -> Cost {
        Cost(logarithm::of(number))
    }
}

/// How much weight the fast counter has. Which one does best, the shadow caches tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blend(u8);

/// For each weight w of the fast counter, which are 0, 0.1, 0.3, 0.6 and 1: the logarithms of 1 - w
/// and of w.
const SHARES: [(Log, Log); Blend::COUNT] =
    [(0, NOTHING), (-39, -850), (-132, -445), (-338, -189), (NOTHING, 0)];

impl Blend {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// The one to begin with: the slow counter alone, until another one has shown that it does
    /// better.
    pub const FIRST: Blend = Blend(0);

    /// Returns all blends, from the slow counter alone to the fast one alone.
    pub fn all() -> impl Iterator<Item = Blend> {
        (0..Blend::COUNT as u8).map(Blend)
    }

    /// Returns the weight of the fast counter, in percent.
    pub fn fast_percent(self) -> u32 {
        [0, 10, 30, 60, 100][usize::from(self.0)]
    }

    /// Returns the blend at `position` of [`Blend::all`], the last one beyond that.
    pub(crate) fn at(position: u8) -> Blend {
        Blend(position.min(Blend::COUNT as u8 - 1))
    }

    /// Returns its position in [`Blend::all`].
    pub(crate) fn position(self) -> u8 {
        self.0
    }

    /// Returns the logarithm of the weighted mean of the two rates.
    #[inline]
    pub(crate) fn of(self, (slow, fast): (Log, Log)) -> Log {
        if self == Blend::FIRST {
            return slow;
        }
        let (slow_share, fast_share) = SHARES[usize::from(self.0)];
        logarithm::sum(slow + slow_share, fast + fast_share)
    }
}

/// What a key is worth; that of the least value goes first. It falls while the key is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(Log);

impl Value {
    /// Returns the value of a key with `mark` that takes `bytes`, at `now`.
    #[inline]
    pub(crate) fn of(
        mark: Mark,
        bytes: u64,
        cost: Cost,
        now: Tick,
        blend: Blend,
        objective: Objective,
    ) -> Value {
        Value::weigh(blend.of(mark.rates(now)), bytes, cost, objective)
    }

    /// Returns the value of a key for each blend.
    pub(crate) fn of_blends(
        mark: Mark,
        bytes: u64,
        now: Tick,
        objective: Objective,
    ) -> [Value; Blend::COUNT] {
        let rates = mark.rates(now);
        let size = size_of_bytes(bytes, objective);
        let mut values = [Value(0); Blend::COUNT];
        for (value, blend) in values.iter_mut().zip(Blend::all()) {
            *value = Value(blend.of(rates) - size);
        }
        values
    }

    /// Returns the value of a key that is used at a rate of 2^`rate` and takes `bytes`.
    #[inline]
    pub(crate) fn weigh(rate: Log, bytes: u64, cost: Cost, objective: Objective) -> Value {
        let size = size_of_bytes(bytes, objective);
        Value(rate + cost.0 - size)
    }

    /// Returns how soon the key should go: the higher the sooner, and never `u64::MAX`.
    pub fn rank(self) -> u64 {
        (i64::from(Log::MAX) - i64::from(self.0)) as u64
    }

    pub(crate) fn log(self) -> Log {
        self.0
    }
}

/// Returns by how much the value of a key that takes `bytes` is lower than that of one of 1 byte.
#[inline]
fn size_of_bytes(bytes: u64, objective: Objective) -> Log {
    // Neither factor is negative, so that the division is a shift.
    ((logarithm::of(bytes) * objective.exponent()) as u32 / OCTAVE as u32) as Log
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(mark: Mark, bytes: u64, blend: u8, objective: Objective) -> Value {
        Value::of(mark, bytes, Cost::ONE, 1000, Blend::at(blend), objective)
    }

    #[test]
    fn what_is_used_more_often_is_worth_more() {
        for blend in 0..Blend::COUNT as u8 {
            let (rare, often) = (Mark::new(9, 9, 1000), Mark::new(17, 17, 1000));
            let [rare, often] = [rare, often].map(|mark| value(mark, 100, blend, Objective::Hits));
            assert!(rare < often);
            assert!(rare.rank() > often.rank());
        }
    }

    #[test]
    fn twice_the_size_weighs_as_half_the_frequency_for_hits_and_nothing_for_bytes() {
        let (once, twice) = (Mark::new(1, 1, 1000), Mark::new(9, 9, 1000));
        let of = |mark, bytes, objective| value(mark, bytes, 2, objective);
        assert_eq!(of(once, 1000, Objective::Hits), of(twice, 2000, Objective::Hits));
        assert_eq!(of(once, 1000, Objective::Bytes), of(once, 2000, Objective::Bytes));
        let half = Objective::Power(128);
        assert!(of(once, 1000, half) < of(twice, 2000, half));
        assert!(of(once, 1000, half) > of(once, 2000, half));
    }

    #[test]
    fn what_costs_twice_as_much_weighs_as_half_the_size() {
        let mark = Mark::first(1000);
        let of = |bytes, time| {
            Value::of(mark, bytes, Cost::of(time), 1000, Blend::FIRST, Objective::Hits)
        };
        assert_eq!(of(4096, 200), of(2048, 100));
        assert!(of(4096, 201) > of(4096, 100));
    }

    #[test]
    fn blends_go_from_what_was_used_for_long_to_what_is_used_now() {
        let (old_favourite, newcomer) = (Mark::new(81, 81, 0), Mark::new(17, 17, 1000));
        let prefers_newcomer = |blend| {
            let [old, new] =
                [old_favourite, newcomer].map(|mark| value(mark, 100, blend, Objective::Hits));
            new > old
        };
        let found: Vec<bool> = (0..Blend::COUNT as u8).map(prefers_newcomer).collect();
        assert!(!found[0] && found[4] && found.is_sorted(), "{found:?}");
    }

    #[test]
    fn every_mark_and_size_has_a_value_without_overflow() {
        for word in [0, u32::MAX, 0xFF, 0xFFFF_0000, 0x0000_FFFF] {
            for bytes in [0, 1, u64::MAX] {
                for blend in 0..Blend::COUNT as u8 {
                    let mark = Mark::from_word(word);
                    assert!(value(mark, bytes, blend, Objective::Hits).rank() < u64::MAX);
                }
            }
        }
    }
}
