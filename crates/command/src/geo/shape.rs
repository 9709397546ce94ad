//! Shapes to search, and which places are within.
//!
//! Most places are told apart by bounds that take no sine: only those near an edge, and those whose
//! distance is asked for, get the formula whose digits are Redis's.

use super::area::{Cover, Reach};
use super::cell::{Place, radians};
use super::distance::{EARTH_RADIUS_M, Origin, arc_m};
use super::polygon::Polygon;

/// A shape around its centre, in metres.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Circle { radius_m: f64 },
    Box { width_m: f64, height_m: f64 },
    Polygon(Polygon),
}

impl Shape {
    /// Returns how far the shape reaches around `center`, and how that is covered by cells.
    pub fn reach(&self, center: Place) -> (Reach, Cover) {
        match self {
            Shape::Circle { radius_m } => {
                (Reach::around(center, *radius_m, *radius_m, *radius_m), Cover::AsRedis)
            }
            Shape::Box { width_m, height_m } => {
                let (width, height) = (width_m / 2.0, height_m / 2.0);
                let corner = (width * width + height * height).sqrt();
                (Reach::around(center, height, width, corner), Cover::AsRedis)
            }
            Shape::Polygon(polygon) => (Reach::within(polygon.bounds(), center), Cover::Whole),
        }
    }

    /// Returns how many edges of a polygon a place is compared with at most.
    pub fn edges_per_place_max(&self) -> usize {
        match self {
            Shape::Polygon(polygon) => polygon.edges_per_place_max(),
            Shape::Circle { .. } | Shape::Box { .. } => 0,
        }
    }
}

/// A shape at its place, made ready for many places.
pub(super) struct Sieve<'s> {
    origin: Origin,
    test: Test<'s>,
}

enum Test<'s> {
    Circle {
        radius_m: f64,
        /// Half of the chord of the radius.
        chord: Limit,
        cosines: Cosines,
    },
    Box {
        half_width_m: f64,
        half_height_m: f64,
        /// Half of the height, in radians.
        height: Limit,
        /// Half of the chord of half of the width.
        chord: Limit,
        cosines: Cosines,
    },
    Polygon(&'s Polygon),
}

/// What a value is compared with: below the first it is within, above the second it is not, between
/// them the formula decides.
#[derive(Clone, Copy)]
struct Limit {
    sure: f64,
    possible: f64,
}

impl Limit {
    /// Much more than what rounding makes of a value, and much less than what would cost time.
    const DOUBT: f64 = 1e-9;

    fn at(value: f64) -> Limit {
        Limit { sure: value * (1.0 - Limit::DOUBT), possible: value * (1.0 + Limit::DOUBT) }
    }

    /// Returns the limit of half of the chord that goes with an arc of `radians`: none where that
    /// is half of the earth.
    fn of_chord(radians: f64) -> Limit {
        let half = radians / 2.0;
        if half < std::f64::consts::FRAC_PI_2 {
            return Limit::at(half.sin());
        }
        Limit { sure: f64::INFINITY, possible: f64::INFINITY }
    }

    /// The same of the squares.
    fn squared(self) -> Limit {
        Limit { sure: self.sure * self.sure, possible: self.possible * self.possible }
    }
}

/// The least and the greatest cosine of the latitudes that the shape reaches.
#[derive(Clone, Copy)]
struct Cosines {
    least: f64,
    greatest: f64,
}

impl Cosines {
    fn of(latitude: f64, height: f64) -> Cosines {
        // What rounding brings beyond is in it.
        const MORE: f64 = 1e-6;
        let (low, high) = (latitude - height - MORE, latitude + height + MORE);
        let is_polar = low.min(-high) < -std::f64::consts::FRAC_PI_2;
        let (a, b) = (low.cos(), high.cos());
        Cosines {
            least: if is_polar { 0.0 } else { a.min(b) },
            greatest: if is_polar || (low < 0.0 && high > 0.0) { 1.0 } else { a.max(b) },
        }
    }
}

impl<'s> Sieve<'s> {
    /// Returns that of `shape` around `center`.
    pub fn new(shape: &'s Shape, center: Place) -> Sieve<'s> {
        let origin = Origin::new(center);
        let test = match shape {
            Shape::Circle { radius_m } => {
                let angle = radius_m / EARTH_RADIUS_M;
                Test::Circle {
                    radius_m: *radius_m,
                    chord: Limit::of_chord(angle).squared(),
                    cosines: Cosines::of(origin.latitude, angle),
                }
            }
            Shape::Box { width_m, height_m } => {
                let (half_width_m, half_height_m) = (width_m / 2.0, height_m / 2.0);
                let angle = half_height_m / EARTH_RADIUS_M;
                Test::Box {
                    half_width_m,
                    half_height_m,
                    height: Limit::at(angle),
                    chord: Limit::of_chord(half_width_m / EARTH_RADIUS_M),
                    cosines: Cosines::of(origin.latitude, angle),
                }
            }
            Shape::Polygon(polygon) => Test::Polygon(polygon),
        };
        Sieve { origin, test }
    }

    /// Returns the distance of `place` in metres where it is within; zero where that is not asked
    /// for.
    #[inline]
    pub fn distance_m(&self, place: Place, is_asked: bool) -> Option<f64> {
        match &self.test {
            Test::Circle { radius_m, chord, cosines } => {
                let way = Way::new(&self.origin, place);
                if way.square_min(&self.origin, cosines) > chord.possible {
                    return None;
                }
                if !is_asked && way.square_max(&self.origin, cosines) < chord.sure {
                    return Some(0.0);
                }
                let distance_m = self.origin.distance_m(&Origin::new(place));
                (distance_m <= *radius_m).then_some(distance_m)
            }
            Test::Box { .. } => {
                if !self.is_in_box(place) {
                    return None;
                }
                Some(if is_asked { self.origin.distance_m(&Origin::new(place)) } else { 0.0 })
            }
            Test::Polygon(polygon) => {
                if !polygon.contains(place) {
                    return None;
                }
                Some(if is_asked { self.origin.distance_m(&Origin::new(place)) } else { 0.0 })
            }
        }
    }

    /// Returns whether `place` is as far north or south as the box, and as far east or west along
    /// its own parallel.
    ///
    /// Source: Redis 7.0, `geohashGetDistanceIfInRectangle`.
    fn is_in_box(&self, place: Place) -> bool {
        let Test::Box { half_width_m, half_height_m, height, chord, cosines } = &self.test else {
            return false;
        };
        let way = Way::new(&self.origin, place);
        if 2.0 * way.north > height.possible || way.chord_min(cosines) > chord.possible {
            return false;
        }
        if 2.0 * way.north < height.sure && way.chord_max(cosines) < chord.sure {
            return true;
        }
        let place = Origin::new(place);
        let v = ((self.origin.longitude - place.longitude) / 2.0).sin();
        let u = ((self.origin.latitude - place.latitude) / 2.0).sin();
        let width_m = arc_m(place.latitude_cosine * place.latitude_cosine * v * v);
        width_m <= *half_width_m && arc_m(u * u) <= *half_height_m
    }
}

/// Half of the angles between two places, without their signs.
#[derive(Clone, Copy)]
struct Way {
    east: f64,
    north: f64,
}

impl Way {
    #[inline]
    fn new(origin: &Origin, place: Place) -> Way {
        Way {
            east: ((radians(place.longitude) - origin.longitude) / 2.0).abs(),
            north: ((radians(place.latitude) - origin.latitude) / 2.0).abs(),
        }
    }

    /// Returns no more than the square of half of the chord between the places, where the other is
    /// as far north or south as the shape reaches.
    #[inline]
    fn square_min(self, origin: &Origin, cosines: &Cosines) -> f64 {
        let (u, v) = (sine_min(self.north), sine_min(self.east));
        u * u + origin.latitude_cosine * cosines.least * v * v
    }

    /// Returns no less than the square of half of the chord between the places, where the other is
    /// as far north or south as the shape reaches.
    #[inline]
    fn square_max(self, origin: &Origin, cosines: &Cosines) -> f64 {
        let (u, v) = (self.north, self.east);
        u * u + origin.latitude_cosine * cosines.greatest * v * v
    }

    /// Returns no more than half of the chord along the other place's parallel.
    #[inline]
    fn chord_min(self, cosines: &Cosines) -> f64 {
        cosines.least * sine_min(self.east)
    }

    /// Returns no less than half of the chord along the other place's parallel.
    #[inline]
    fn chord_max(self, cosines: &Cosines) -> f64 {
        cosines.greatest * self.east
    }
}

/// Returns no more than the sine of `angle`, which is 0 to pi: nearly the sine where it is small.
#[inline]
fn sine_min(angle: f64) -> f64 {
    // The first terms of its series, and zero once they are less.
    (angle - angle * angle * angle / 6.0).max(0.0)
}
