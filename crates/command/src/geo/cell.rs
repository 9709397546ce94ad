//! Places and the cells of the grid in which they are kept: a place's cell, as a number of 52 bits,
//! is its score in a sorted set.
//!
//! Each step halves the grid in both directions, so that the bits of a latitude and of a longitude
//! take turns, a longitude's first:
//!
//! ```text
//! bits  x y x y ... x y     x: longitude, from west to east; y: latitude, from south to north
//! ```
//!
//! A cell of fewer steps is a range of scores. Digits are Redis's (`geohash.c`): the same
//! operations on doubles in the same order.

use std::f64::consts::PI;

/// Steps of the cells that places are kept in.
pub(super) const STEPS_MAX: u32 = 26;

/// A place on earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub longitude: f64,
    pub latitude: f64,
}

/// The longitudes and latitudes of a grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    longitudes: Span,
    latitudes: Span,
}

/// A cell of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    bits: u64,
    steps: u32,
}

/// What a cell covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub longitudes: Span,
    pub latitudes: Span,
}

/// Degrees from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub low: f64,
    pub high: f64,
}

/// The grid of scores: as far north and south as the square map of the Mercator projection.
pub(super) const SCORES: Grid = Grid {
    longitudes: Span { low: -180.0, high: 180.0 },
    latitudes: Span { low: -85.05112878, high: 85.05112878 },
};

/// The grid of geohashes as others write them.
const WHOLE_EARTH: Grid = Grid { latitudes: Span { low: -90.0, high: 90.0 }, ..SCORES };

/// Degrees to radians.
#[inline]
pub(super) fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

/// Radians to degrees.
pub(super) fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

impl Place {
    /// Returns whether the place can be kept.
    pub fn is_valid(self) -> bool {
        SCORES.longitudes.contains(self.longitude) && SCORES.latitudes.contains(self.latitude)
    }

    /// Returns the nearest place that can be kept.
    pub fn clamped(self) -> Place {
        Place {
            longitude: SCORES.longitudes.clamp(self.longitude),
            latitude: SCORES.latitudes.clamp(self.latitude),
        }
    }

    /// Returns the place, or one beside it whose cell is none beyond an end of the map.
    pub fn off_the_ends(self) -> Place {
        const BESIDE: f64 = 1e-9;
        let Place { longitude, latitude } = self.clamped();
        Place {
            longitude: longitude.min(SCORES.longitudes.high - BESIDE),
            latitude: latitude.min(SCORES.latitudes.high - BESIDE),
        }
    }

    /// Returns the score of the place, which is valid.
    #[inline]
    pub fn score(self) -> f64 {
        SCORES.cell(self, STEPS_MAX).bits as f64
    }

    /// Returns the place of `score`: the middle of its cell. Any score is one of some place.
    #[inline]
    pub fn of_score(score: f64) -> Place {
        let area = SCORES.area(Cell { bits: bits_of(score), steps: STEPS_MAX });
        area.middle().clamped()
    }

    /// Returns the geohash of the place as others write it: ten letters of five bits, and one for
    /// which there are no bits left.
    pub fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = WHOLE_EARTH.cell(self, STEPS_MAX).bits;
        let mut letters = [LETTERS[0]; 11];
        for (index, letter) in letters[..10].iter_mut().enumerate() {
            *letter = LETTERS[(bits >> (47 - 5 * index)) as usize & 31];
        }
        letters
    }
}

impl Span {
    fn contains(self, degrees: f64) -> bool {
        (self.low..=self.high).contains(&degrees)
    }

    #[inline]
    fn clamp(self, degrees: f64) -> f64 {
        if degrees > self.high {
            self.high
        } else if degrees < self.low {
            self.low
        } else {
            degrees
        }
    }

    /// Returns part `index` of `2^steps` of the span, and those next to it share its ends.
    #[inline]
    fn part(self, index: u32, steps: u32) -> Span {
        let (length, count) = (self.high - self.low, (1_u64 << steps) as f64);
        let end = |index: u32| self.low + (f64::from(index) / count) * length;
        // Redis counts in 32 bits.
        Span { low: end(index), high: end(index.wrapping_add(1)) }
    }

    /// Returns which part of `2^steps` of the span `degrees` is in; the end is one more.
    #[inline]
    fn index(self, degrees: f64, steps: u32) -> u32 {
        let offset = (degrees - self.low) / (self.high - self.low);
        (offset * (1_u64 << steps) as f64) as u32
    }
}

impl Area {
    /// Returns the place in the middle.
    #[inline]
    fn middle(self) -> Place {
        let middle = |span: Span| (span.low + span.high) / 2.0;
        Place { longitude: middle(self.longitudes), latitude: middle(self.latitudes) }
    }
}

impl Grid {
    /// Returns the cell of `place`, which is within the grid: one at its eastern or northern end
    /// has bits beyond those of its steps.
    #[inline]
    pub fn cell(&self, place: Place, steps: u32) -> Cell {
        let x = spread(self.longitudes.index(place.longitude, steps));
        let y = spread(self.latitudes.index(place.latitude, steps));
        Cell { bits: x << 1 | y, steps }
    }

    /// Returns what `cell` covers.
    #[inline]
    pub fn area(&self, cell: Cell) -> Area {
        Area {
            longitudes: self.longitudes.part(gathered(cell.bits >> 1), cell.steps),
            latitudes: self.latitudes.part(gathered(cell.bits), cell.steps),
        }
    }
}

const X_BITS: u64 = 0xAAAA_AAAA_AAAA_AAAA;
const Y_BITS: u64 = 0x5555_5555_5555_5555;

impl Cell {
    /// Returns the cell so many to the east and to the north; both are -1, 0 or 1. Beyond each end
    /// of the grid its other end follows.
    pub fn neighbour(self, east: i32, north: i32) -> Cell {
        let own = u64::MAX >> (u64::BITS - 2 * self.steps);
        let moved = |bits: u64, by: i32, axis: u64| {
            let (axis_bits, others) = (bits & axis, !axis & own);
            // The bits between those of the axis carry.
            match by {
                0 => axis_bits,
                1 => axis_bits.wrapping_add(others + 1) & axis & own,
                _ => (axis_bits | others).wrapping_sub(others + 1) & axis & own,
            }
        };
        let x = moved(self.bits, east, X_BITS);
        let y = moved(self.bits, north, Y_BITS);
        Cell { bits: x | y, steps: self.steps }
    }

    /// Returns the scores in the cell: from the first on and below the second.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

/// Returns the bits of `score`, of which only a whole number below 2^64 has its own: Redis converts
/// others as x86 does.
#[inline]
fn bits_of(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    match score {
        0.0..HALF => score as u64,
        _ if score >= 2.0 * HALF => 0,
        _ if score >= HALF => score as u64,
        _ if score >= -HALF => score as i64 as u64,
        _ => 1 << 63,
    }
}

/// Returns the bits of `index`, each with a zero above it.
#[inline]
fn spread(index: u32) -> u64 {
    let mut bits = u64::from(index);
    bits = (bits | bits << 16) & 0x0000_FFFF_0000_FFFF;
    bits = (bits | bits << 8) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & Y_BITS
}

/// Returns every other bit of `bits`, from the lowest on: what [`spread`] has spread.
#[inline]
fn gathered(bits: u64) -> u32 {
    let mut bits = bits & Y_BITS;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits >> 4) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits >> 8) & 0x0000_FFFF_0000_FFFF;
    (bits | bits >> 16) as u32
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    fn place(longitude: f64, latitude: f64) -> Place {
        Place { longitude, latitude }
    }

    /// The scores and places that redis-server 7.0.15 has.
    #[test]
    fn scores_are_those_of_redis() {
        for (longitude, latitude, score) in [
            (13.361389, 38.115556, 3_479_099_956_230_698.0),
            (15.087269, 37.502669, 3_479_447_370_796_909.0),
            (10.0, 20.0, 3_403_951_602_136_190.0),
            (-180.0, -85.05112878, 0.0),
            (180.0, 85.05112878, 13_510_798_882_111_488.0),
            (180.0, -85.05112878, 9_007_199_254_740_992.0),
            (-180.0, 85.05112878, 4_503_599_627_370_496.0),
            (0.0, 0.0, 3_377_699_720_527_872.0),
        ] {
            assert_eq!(place(longitude, latitude).score(), score);
        }
    }

    #[test]
    fn any_score_is_one_of_a_place() {
        let west_south = Place::of_score(0.0);
        assert_eq!(west_south, place(-179.99999731779099, -85.05112751263943));
        for (score, expected) in [
            (-5.0, place(180.0, 85.05112878)),
            (1e300, west_south),
            (f64::INFINITY, west_south),
            (0.9, west_south),
            (4_503_599_627_370_496.0, place(-179.999997317791, 85.05112878)),
        ] {
            let found = Place::of_score(score);
            assert!((found.longitude - expected.longitude).abs() < 1e-12, "{score}: {found:?}");
            assert!((found.latitude - expected.latitude).abs() < 1e-12, "{score}: {found:?}");
        }
        for score in [f64::NEG_INFINITY, -1e300, f64::MIN_POSITIVE, 1.8e19, 1e19] {
            assert!(Place::of_score(score).is_valid());
        }
    }

    #[test]
    fn a_place_is_in_its_cell_at_every_step() {
        let mut random = Prng::new(1);
        for _ in 0..20_000 {
            let mut within = |span: Span| {
                span.low
                    + (span.high - span.low) * (random.below(1 << 53) as f64 / (1_u64 << 53) as f64)
            };
            let place = place(within(SCORES.longitudes), within(SCORES.latitudes));
            for steps in 1..=STEPS_MAX {
                let cell = SCORES.cell(place, steps);
                let (low, high) = cell.scores();
                assert!((low..high).contains(&place.score()), "{place:?} at {steps}");
                let area = SCORES.area(cell);
                assert!(area.longitudes.low <= place.longitude + 1e-12);
                assert!(area.longitudes.high >= place.longitude - 1e-12);
                assert!(area.latitudes.low <= place.latitude + 1e-12);
                assert!(area.latitudes.high >= place.latitude - 1e-12);
            }
            assert_eq!(Place::of_score(place.score()).score(), place.score());
        }
    }

    #[test]
    fn neighbours_go_round_at_the_antimeridian_and_at_both_ends_of_the_map() {
        for steps in 1..=STEPS_MAX {
            let count = 1_u32 << steps;
            let cell = |x: u32, y: u32| Cell { bits: spread(x) << 1 | spread(y), steps };
            let last = count - 1;
            for (x, y) in [(0, 0), (last, last), (0, last), (last, 0), (last / 2, last / 3)] {
                for east in -1..=1 {
                    for north in -1..=1 {
                        let moved = |index: u32, by: i32| index.wrapping_add_signed(by) & last;
                        let expected = cell(moved(x, east), moved(y, north));
                        assert_eq!(cell(x, y).neighbour(east, north), expected, "{steps} {x} {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_cell_at_the_eastern_end_keeps_its_bit_and_its_neighbours_lose_it() {
        let cell = SCORES.cell(place(180.0, 0.0), 4);
        assert_eq!(SCORES.area(cell).longitudes.low, 180.0);
        assert_eq!(SCORES.area(cell.neighbour(-1, 0)).longitudes.high, 180.0);
        assert_eq!(SCORES.area(cell.neighbour(1, 0)).longitudes.low, -157.5);
    }

    #[test]
    fn geohashes_are_those_of_others() {
        let geohash = |longitude, latitude| {
            let score = place(longitude, latitude).score();
            String::from_utf8(Place::of_score(score).geohash().to_vec()).unwrap()
        };
        assert_eq!(geohash(13.361389, 38.115556), "sqc8b49rny0");
        assert_eq!(geohash(15.087269, 37.502669), "sqdtr74hyu0");
        assert_eq!(geohash(-5.6, 42.6), "ezs42e44yx0");
    }

    #[test]
    fn bits_are_spread_and_gathered() {
        let mut random = Prng::new(2);
        for _ in 0..10_000 {
            let index = random.next() as u32;
            assert_eq!(gathered(spread(index)), index);
            assert_eq!(gathered(spread(index) << 1), 0);
        }
    }
}
