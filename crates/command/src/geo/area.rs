//! The cells in which what is searched for may lie: that of the centre and those around it, as
//! large as the shape asks for, in the order in which Redis goes through them.

use super::cell::{Area, Cell, Place, SCORES, STEPS_MAX, Span, degrees, radians};
use super::distance::{EARTH_RADIUS_M, Origin};

/// Half of the equator, in metres, as the Mercator projection has it.
const MERCATOR_MAX_M: f64 = 20037726.37;

/// How far a shape reaches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Of all of it.
    pub bounds: Area,
    /// From the centre, in metres.
    pub radius_m: f64,
}

impl Reach {
    /// Returns that of a shape that ends so many metres north and south, and so many east and west,
    /// of `center`.
    ///
    /// Source: Redis 7.2, `geohashBoundingBox`.
    pub fn around(center: Place, half_height_m: f64, half_width_m: f64, radius_m: f64) -> Reach {
        let Place { longitude, latitude } = center;
        let height = degrees(half_height_m / EARTH_RADIUS_M);
        // A parallel is shortest where it is nearest to a pole.
        let widest = if latitude < 0.0 { latitude - height } else { latitude + height };
        let width = degrees(half_width_m / EARTH_RADIUS_M / radians(widest).cos());
        let bounds = Area {
            longitudes: Span { low: longitude - width, high: longitude + width },
            latitudes: Span { low: latitude - height, high: latitude + height },
        };
        Reach { bounds, radius_m }
    }

    /// Returns that of a shape within `bounds`, whose centre is `center`.
    ///
    /// Source: Valkey 9, `geohashCalculateAreasByShapeWGS84`.
    pub fn within(bounds: Area, center: Place) -> Reach {
        let center = Origin::new(center);
        let Area { longitudes, latitudes } = bounds;
        let corners = [longitudes.low, longitudes.high].into_iter().flat_map(|longitude| {
            [latitudes.low, latitudes.high].map(|latitude| Place { longitude, latitude })
        });
        let distances = corners.map(|corner| center.distance_m(&Origin::new(corner)));
        Reach { bounds, radius_m: distances.fold(0.0, f64::max) }
    }
}

/// How a search comes to the size of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// As Redis: cells of the next size at most, beyond whose ends nothing is found near the poles
    /// and the antimeridian.
    AsRedis,
    /// As many sizes larger as it takes to cover all within bounds that pass no end of the map.
    Whole,
}

/// The directions of the eight cells around one, to the east and to the north, in Redis's order.
const DIRECTIONS: [(i32, i32); 8] =
    [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// Returns the cells to search around `center`, without those that are there twice or that the
/// bounds do not reach.
///
/// Source: Redis 7.2, `geohashCalculateAreasByShapeWGS84` and `membersOfAllNeighbors`.
pub(super) fn cells(center: Place, reach: &Reach, cover: Cover) -> impl Iterator<Item = Cell> {
    let bounds = &reach.bounds;
    // A place right at an end of the map has a cell beyond it, which Redis then has in the middle.
    let center = if cover == Cover::Whole { center.off_the_ends() } else { center };
    let mut steps = steps_for(reach.radius_m, center.latitude);
    let mut cell = SCORES.cell(center, steps);
    if steps > 1 && !reaches_bounds(cell, bounds) {
        steps -= 1;
        cell = SCORES.cell(center, steps);
    }
    while cover == Cover::Whole && steps > 1 && !covers_bounds(cell, bounds) {
        steps -= 1;
        cell = SCORES.cell(center, steps);
    }
    let area = SCORES.area(cell);
    let is_useless = move |bounds: &Area, (east, north): (i32, i32)| {
        let ends_within = |area: Span, bounds: Span, to: i32| match to {
            1 => area.high > bounds.high,
            -1 => area.low < bounds.low,
            _ => false,
        };
        let is_beyond = ends_within(area.longitudes, bounds.longitudes, east)
            || ends_within(area.latitudes, bounds.latitudes, north);
        steps >= 2 && is_beyond
    };
    let mut around = [None; 8];
    let mut previous = None;
    for (slot, direction) in around.iter_mut().zip(DIRECTIONS) {
        let neighbour = cell.neighbour(direction.0, direction.1);
        // With cells as large as a quarter of the map opposite neighbours are the same.
        if !is_useless(bounds, direction) && previous.replace(neighbour) != Some(neighbour) {
            *slot = Some(neighbour);
        }
    }
    std::iter::once(cell).chain(around.into_iter().flatten())
}

/// Returns the steps of cells that are so large that nine of them hold a circle, if it is near no
/// end of the map.
///
/// Source: Redis 7.2, `geohashEstimateStepsByRadius`.
fn steps_for(mut radius_m: f64, latitude: f64) -> u32 {
    if radius_m == 0.0 {
        return STEPS_MAX;
    }
    let mut steps = 1_i32;
    while radius_m < MERCATOR_MAX_M {
        radius_m *= 2.0;
        steps += 1;
    }
    // Two sizes larger, and more near the poles, where meridians come together.
    steps -= 2 + i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    steps.clamp(1, STEPS_MAX as i32) as u32
}

/// Returns whether the neighbours of `cell` in four directions reach the `bounds`, without regard
/// for where the map ends.
fn reaches_bounds(cell: Cell, bounds: &Area) -> bool {
    let area = |east, north| SCORES.area(cell.neighbour(east, north));
    let is_short = area(0, 1).latitudes.high < bounds.latitudes.high
        || area(0, -1).latitudes.low > bounds.latitudes.low
        || area(1, 0).longitudes.high < bounds.longitudes.high
        || area(-1, 0).longitudes.low > bounds.longitudes.low;
    !is_short
}

/// Returns whether `cell` and its neighbours cover the `bounds`, which are on the map.
fn covers_bounds(cell: Cell, bounds: &Area) -> bool {
    let own = SCORES.area(cell);
    let covers = |own: Span, low: Span, high: Span, bounds: Span| {
        // A neighbour beyond an end of the map is at the other end.
        let low = if low.low < own.low { low.low } else { own.low };
        let high = if high.high > own.high { high.high } else { own.high };
        low <= bounds.low && high >= bounds.high
    };
    let area = |east, north| SCORES.area(cell.neighbour(east, north));
    covers(own.longitudes, area(-1, 0).longitudes, area(1, 0).longitudes, bounds.longitudes)
        && covers(own.latitudes, area(0, -1).latitudes, area(0, 1).latitudes, bounds.latitudes)
}
