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
    /// Source: Redis 7.2, `geohashGetDistanceIfInRectangle`.
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
        let width_m = arc_m(place.latitude_cosine * place.latitude_cosine * v * v);
        width_m <= *half_width_m && self.origin.distance_north_m(&place) <= *half_height_m
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

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    fn unit(random: &mut Prng) -> f64 {
        random.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    fn anywhere(random: &mut Prng) -> Place {
        let end = [180.0, 85.05112878];
        let [longitude, latitude] = end.map(|end| match random.below(10) {
            0 => end,
            1 => -end,
            2 => end - unit(random) / 1000.0,
            3 => unit(random) - end,
            _ => (2.0 * unit(random) - 1.0) * end,
        });
        Place { longitude, latitude }
    }

    fn near(place: Place, random: &mut Prng) -> Place {
        let size = 10_f64.powi(random.below(9) as i32 - 7);
        let mut moved = |degrees: f64| degrees + (2.0 * unit(random) - 1.0) * size;
        Place { longitude: moved(place.longitude), latitude: moved(place.latitude) }.clamped()
    }

    fn distance_m(a: Place, b: Place) -> f64 {
        Origin::new(a).distance_m(&Origin::new(b))
    }

    /// What Redis computes for each place.
    fn is_within(shape: &Shape, center: Place, place: Place) -> bool {
        match shape {
            Shape::Circle { radius_m } => distance_m(center, place) <= *radius_m,
            Shape::Box { width_m, height_m } => {
                let beside = Place { longitude: center.longitude, ..place };
                let below = Place { latitude: center.latitude, ..place };
                distance_m(place, beside) <= width_m / 2.0
                    && distance_m(place, below) <= height_m / 2.0
            }
            Shape::Polygon(_) => unreachable!("there is one way to tell"),
        }
    }

    #[test]
    fn what_is_within_is_what_the_formula_says() {
        let mut random = Prng::new(1);
        let mut within = 0;
        for _ in 0..40_000 {
            let center = anywhere(&mut random);
            let edge = near(center, &mut random);
            let mut size = |distance: f64| match random.below(6) {
                // Right at the edge, and a bit beside it.
                0..3 => distance,
                3 => f64::from_bits(distance.to_bits().saturating_sub(1)),
                4 => 10_f64.powi(random.below(9) as i32),
                _ => distance * unit(&mut random) * 2.0,
            };
            let beside = Place { longitude: center.longitude, ..edge };
            let below = Place { latitude: center.latitude, ..edge };
            let shapes = [
                Shape::Circle { radius_m: size(distance_m(center, edge)) },
                Shape::Box {
                    width_m: size(2.0 * distance_m(edge, beside)),
                    height_m: size(2.0 * distance_m(edge, below)),
                },
                Shape::Circle { radius_m: 0.0 },
                Shape::Circle { radius_m: f64::INFINITY },
                Shape::Box { width_m: f64::INFINITY, height_m: f64::MAX },
            ];
            let places = [edge, center, near(edge, &mut random), anywhere(&mut random)];
            for shape in &shapes {
                let sieve = Sieve::new(shape, center);
                for place in places {
                    let expected = is_within(shape, center, place);
                    let what = format!("{shape:?} at {center:?}: {place:?}");
                    assert_eq!(sieve.distance_m(place, false).is_some(), expected, "{what}");
                    let distance = expected.then(|| distance_m(center, place));
                    assert_eq!(sieve.distance_m(place, true), distance, "{what}");
                    within += usize::from(expected);
                }
            }
        }
        assert!(within > 100_000, "{within}");
    }

    /// Returns the places within `shape` that none of the cells has which are searched.
    fn missed(shape: &Shape, center: Place, places: &[Place]) -> Vec<Place> {
        let (reach, cover) = shape.reach(center);
        let sieve = Sieve::new(shape, center);
        let cells: Vec<(f64, f64)> =
            super::super::area::cells(center, &reach, cover).map(|cell| cell.scores()).collect();
        let mut missed = Vec::new();
        for place in places.iter().map(|place| Place::of_score(place.score())) {
            let score = place.score();
            let count = cells.iter().filter(|(low, high)| (*low..*high).contains(&score)).count();
            assert!(count <= 1, "no cell is searched twice");
            if count == 0 && sieve.distance_m(place, false).is_some() {
                missed.push(place);
            }
        }
        missed
    }

    #[test]
    fn every_place_in_a_circle_or_a_box_away_from_the_ends_of_the_map_is_found() {
        let mut random = Prng::new(2);
        for _ in 0..4_000 {
            let center = Place {
                longitude: (2.0 * unit(&mut random) - 1.0) * 150.0,
                latitude: (2.0 * unit(&mut random) - 1.0) * 65.0,
            };
            let size = 10_f64.powf(unit(&mut random) * 6.0);
            let shapes = [
                Shape::Circle { radius_m: size },
                Shape::Box { width_m: size, height_m: size * unit(&mut random) },
            ];
            let places: Vec<Place> = (0..60)
                .map(|_| {
                    let degrees = size / 50_000.0;
                    let mut moved = |it: f64| it + (2.0 * unit(&mut random) - 1.0) * degrees;
                    let (longitude, latitude) = (moved(center.longitude), moved(center.latitude));
                    Place { longitude, latitude }.clamped()
                })
                .collect();
            for shape in &shapes {
                let missed = missed(shape, center, &places);
                assert!(missed.is_empty(), "{shape:?} at {center:?}: {missed:?}");
            }
        }
    }

    #[test]
    fn a_circle_as_large_as_the_earth_has_every_place() {
        let mut random = Prng::new(3);
        let places: Vec<Place> = (0..200).map(|_| anywhere(&mut random)).collect();
        let is_inner = |place: &Place| place.longitude < 180.0 && place.latitude < 85.05112878;
        let places: Vec<Place> = places.into_iter().filter(is_inner).collect();
        for _ in 0..200 {
            let center = near(Place { longitude: 0.0, latitude: 0.0 }, &mut random);
            let shape = Shape::Circle { radius_m: 2.1e7 };
            assert_eq!(missed(&shape, center, &places), []);
        }
    }

    #[test]
    fn every_place_in_a_polygon_is_found_wherever_that_is() {
        let mut random = Prng::new(4);
        let mut found = 0;
        for round in 0..3_000 {
            let count = 3 + random.below(if round % 10 == 0 { 300 } else { 6 }) as usize;
            let around = anywhere(&mut random);
            let vertices: Vec<Place> = (0..count)
                .map(|_| match round % 3 {
                    0 => anywhere(&mut random),
                    _ => near(around, &mut random),
                })
                .collect();
            let shape = Shape::Polygon(Polygon::new(&vertices));
            let Shape::Polygon(polygon) = &shape else { unreachable!("just made") };
            let mut places: Vec<Place> = (0..40).map(|_| anywhere(&mut random)).collect();
            places.extend((0..40).map(|_| near(around, &mut random)));
            // What has a cell beyond an end of the map is no place of a search.
            places.retain(|place| place.longitude < 180.0 && place.latitude < 85.05112878);
            let missed = missed(&shape, polygon.center(), &places);
            assert!(missed.is_empty(), "{vertices:?}: {missed:?}");
            for place in places {
                let expected = is_inside(&vertices, place);
                assert_eq!(polygon.contains(place), expected, "{vertices:?}: {place:?}");
                found += usize::from(expected);
            }
        }
        assert!(found > 10_000, "{found}");
    }

    /// The rule without bands.
    fn is_inside(vertices: &[Place], place: Place) -> bool {
        let mut is_inside = false;
        let mut before = vertices[vertices.len() - 1];
        for &vertex in vertices {
            if (vertex.latitude > place.latitude) != (before.latitude > place.latitude) {
                let part = (before.longitude - vertex.longitude)
                    * (place.latitude - vertex.latitude)
                    / (before.latitude - vertex.latitude);
                is_inside ^= place.longitude < part + vertex.longitude;
            }
            before = vertex;
        }
        is_inside
    }

    #[test]
    fn edges_that_are_far_apart_are_not_compared() {
        // A comb: of many edges few are as far north as any place.
        let teeth = (0..4_000).map(|index| Place {
            longitude: f64::from(index % 2),
            latitude: f64::from(index) / 50.0,
        });
        let comb: Vec<Place> = teeth.collect();
        assert!(Shape::Polygon(Polygon::new(&comb)).edges_per_place_max() < 30);
        // A fan: all edges are.
        let fan: Vec<Place> = (0..4_000)
            .map(|index| Place {
                longitude: f64::from(index) / 50.0,
                latitude: 10.0 * f64::from(index % 2),
            })
            .collect();
        assert_eq!(Shape::Polygon(Polygon::new(&fan)).edges_per_place_max(), 4_000);
    }
}
