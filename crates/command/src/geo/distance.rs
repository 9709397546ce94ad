//! Distances on earth, taken as a sphere.

use base::number_text::FourDigitText;

use super::cell::{Place, radians};
use crate::prelude::*;

const UNSUPPORTED_UNIT: CommandError =
    CommandError::Fixed("ERR unsupported unit provided. please use M, KM, FT, MI");

/// The quadratic mean of the earth's radii, in metres, as Redis has it.
pub(super) const EARTH_RADIUS_M: f64 = 6372797.560856;

/// A unit of distances.
pub(super) const UNIT: Arg = Arg::one_of(
    "unit",
    &[Arg::word("m", "M"), Arg::word("km", "KM"), Arg::word("ft", "FT"), Arg::word("mi", "MI")],
);

/// Returns the metres of the unit that argument `index` names.
pub(super) fn unit_metres(args: Args<'_>, index: usize) -> Result<f64, CommandError> {
    match () {
        () if args.is(index, "m") => Ok(1.0),
        () if args.is(index, "km") => Ok(1000.0),
        () if args.is(index, "ft") => Ok(0.3048),
        () if args.is(index, "mi") => Ok(1609.34),
        () => Err(UNSUPPORTED_UNIT),
    }
}

/// A place that distances are measured from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub longitude: f64,
    pub latitude: f64,
    pub latitude_cosine: f64,
}

impl Origin {
    /// Returns `place`, its coordinates in radians.
    pub fn new(place: Place) -> Origin {
        let latitude = radians(place.latitude);
        let longitude = radians(place.longitude);
        Origin { longitude, latitude, latitude_cosine: latitude.cos() }
    }

    /// Returns the distance to `other` in metres, by the haversine formula.
    ///
    /// Source: Redis 7.2, `geohashGetDistance`: the same operations in the same order.
    pub fn distance_m(&self, other: &Origin) -> f64 {
        let v = ((other.longitude - self.longitude) / 2.0).sin();
        if v == 0.0 {
            return self.distance_north_m(other);
        }
        let u = ((other.latitude - self.latitude) / 2.0).sin();
        arc_m(u * u + self.latitude_cosine * other.latitude_cosine * v * v)
    }

    /// Returns how far `other` is to the north or the south, in metres.
    pub fn distance_north_m(&self, other: &Origin) -> f64 {
        EARTH_RADIUS_M * (other.latitude - self.latitude).abs()
    }
}

/// Returns the distance of two places in metres, the square of half of whose chord is `square`.
pub(super) fn arc_m(square: f64) -> f64 {
    // Of places that are opposite each other it may be a bit more than 1.
    2.0 * EARTH_RADIUS_M * square.sqrt().min(1.0).asin()
}

/// Replies with a distance.
///
/// Digits are those of redis-server 7.0.15, exactly rounded: 7.2 multiplies first, and may differ
/// in the last digit of distances of thousands of kilometres in metres.
pub(super) fn reply_distance(distance: f64, reply: &mut Reply<'_>) {
    reply.bulk(FourDigitText::new(distance).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(from: (f64, f64), to: (f64, f64)) -> f64 {
        let origin = |(longitude, latitude)| Origin::new(Place { longitude, latitude });
        origin(from).distance_m(&origin(to))
    }

    #[test]
    fn half_of_the_earth_is_the_longest_distance() {
        let half = std::f64::consts::PI * EARTH_RADIUS_M;
        for step in 0..=8_000 {
            let latitude = f64::from(step) / 100.0;
            for longitude in [-180.0, -179.999997317791, -90.0, -0.5] {
                let opposite = (longitude + 180.0, -latitude);
                let found = distance((longitude, latitude), opposite);
                assert!((found - half).abs() < 1.0, "{longitude} {latitude}: {found}");
            }
        }
    }

    #[test]
    fn the_way_over_the_antimeridian_is_the_shorter_one() {
        assert!(distance((179.9, 0.0), (-179.9, 0.0)) < 23_000.0);
        assert_eq!(distance((180.0, 40.0), (-180.0, 40.0)).floor(), 0.0);
        assert_eq!(distance((20.0, 40.0), (20.0, 40.0)), 0.0);
    }
}
