//! A polygon on the map, and which places are in it.
//!
//! A place is inside where a ray from it to the east crosses an odd number of edges. The edges are
//! kept by the bands of latitudes that they cross, so that a place is compared with those of its
//! own band; how many that are at most bounds what a place costs.

use super::cell::{Area, Place, Span, degrees, radians};

/// Edges of a band for which it is not worth to make more bands.
const BAND_EDGES: usize = 8;
const BANDS_MAX: usize = 1024;
/// Edges that cross several bands are kept in each: so many times all edges at most.
const COPIES_MAX: usize = 4;

/// A polygon, whose last edge closes it. Edges may cross each other.
#[derive(Clone, Debug)]
pub(super) struct Polygon {
    bounds: Area,
    center: Place,
    /// The edges of each band, one after the other.
    edges: Vec<Edge>,
    /// Where the edges of each band begin, and where the last ones end.
    starts: Vec<u32>,
}

/// An edge from a vertex to the one before it.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: Place,
    to: Place,
}

impl Polygon {
    /// Returns the polygon with these vertices, three at least.
    pub fn new(vertices: &[Place]) -> Polygon {
        assert!(vertices.len() >= 3, "a polygon has three vertices");
        let bounds = bounds_of(vertices);
        let before = vertices.iter().cycle().skip(vertices.len() - 1);
        let edges = vertices.iter().zip(before).map(|(&from, &to)| Edge { from, to });
        let bands = Bands { latitudes: bounds.latitudes, count: 1 };
        let mut polygon =
            Polygon { bounds, center: center_of(vertices), edges: Vec::new(), starts: Vec::new() };
        let count = (vertices.len() / BAND_EDGES).clamp(1, BANDS_MAX);
        let mut bands = Bands { count, ..bands };
        let copies =
            |bands: Bands| -> usize { edges.clone().map(|edge| bands.of(edge).len()).sum() };
        while bands.count > 1 && copies(bands) > COPIES_MAX * vertices.len() {
            bands.count /= 2;
        }
        polygon.fill(bands, edges);
        polygon
    }

    /// Returns the bytes that a polygon with `count` vertices takes, and its vertices do.
    pub fn bytes_max(count: usize) -> u64 {
        let each = size_of::<Place>() + COPIES_MAX * size_of::<Edge>() + size_of::<u32>();
        (count * each + 2 * BANDS_MAX * size_of::<u32>()) as u64
    }

    fn fill(&mut self, bands: Bands, edges: impl Iterator<Item = Edge> + Clone) {
        self.starts = vec![0; bands.count + 1];
        for band in edges.clone().flat_map(|edge| bands.of(edge)) {
            self.starts[band + 1] += 1;
        }
        for band in 0..bands.count {
            self.starts[band + 1] += self.starts[band];
        }
        let nowhere = Place { longitude: 0.0, latitude: 0.0 };
        self.edges = vec![Edge { from: nowhere, to: nowhere }; self.starts[bands.count] as usize];
        let mut next = self.starts.clone();
        for edge in edges {
            for band in bands.of(edge) {
                self.edges[next[band] as usize] = edge;
                next[band] += 1;
            }
        }
    }

    /// Returns the least and greatest coordinates of the vertices.
    pub fn bounds(&self) -> Area {
        self.bounds
    }

    /// Returns the middle of the vertices on the sphere, which may be outside of the polygon.
    pub fn center(&self) -> Place {
        self.center
    }

    /// Returns how many edges a place is compared with at most.
    pub fn edges_per_place_max(&self) -> usize {
        self.starts.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0)
    }

    /// Returns whether `place` is inside. Of places on an edge those are that are inside to its
    /// east, or to its north.
    ///
    /// Source: Valkey 9, `geohashGetDistanceIfInPolygon`, and W. Randolph Franklin, PNPOLY.
    pub fn contains(&self, place: Place) -> bool {
        /// Where an edge is crossed is computed, and may be a bit further to the east than it is.
        const BIT: f64 = 1e-9;
        let Area { longitudes, latitudes } = self.bounds;
        let Place { longitude, latitude } = place;
        let is_beside = latitude < latitudes.low || latitude >= latitudes.high;
        if is_beside || longitude > longitudes.high + BIT {
            return false;
        }
        let band = Bands { latitudes, count: self.starts.len() - 1 }.at(latitude);
        let edges = &self.edges[self.starts[band] as usize..self.starts[band + 1] as usize];
        let crossed = edges.iter().filter(|edge| edge.is_east_of(place)).count();
        !crossed.is_multiple_of(2)
    }
}

impl Edge {
    /// Returns whether the way from `place` to the east crosses the edge.
    #[inline]
    fn is_east_of(&self, place: Place) -> bool {
        let Edge { from, to } = self;
        if (from.latitude > place.latitude) == (to.latitude > place.latitude) {
            return false;
        }
        let (width, height) = (to.longitude - from.longitude, to.latitude - from.latitude);
        place.longitude < width * (place.latitude - from.latitude) / height + from.longitude
    }
}

/// Latitudes in so many parts.
#[derive(Clone, Copy)]
struct Bands {
    latitudes: Span,
    count: usize,
}

impl Bands {
    /// Returns the band of `latitude`, which grows with it.
    #[inline]
    fn at(self, latitude: f64) -> usize {
        let Span { low, high } = self.latitudes;
        let part = (latitude - low) / (high - low) * self.count as f64;
        (part as usize).min(self.count - 1)
    }

    /// Returns the bands that `edge` crosses.
    fn of(self, edge: Edge) -> std::ops::Range<usize> {
        let (a, b) = (edge.from.latitude, edge.to.latitude);
        if a == b {
            // No way to the east crosses it.
            return 0..0;
        }
        self.at(a.min(b))..self.at(a.max(b)) + 1
    }
}

fn bounds_of(vertices: &[Place]) -> Area {
    let span = |of: fn(&Place) -> f64| {
        let values = vertices.iter().map(of);
        let (low, high) = (values.clone().reduce(f64::min), values.reduce(f64::max));
        Span { low: low.expect("it has vertices"), high: high.expect("it has vertices") }
    };
    Area { longitudes: span(|place| place.longitude), latitudes: span(|place| place.latitude) }
}

/// Returns the direction of the sum of the vertices, as vectors from the middle of the earth.
fn center_of(vertices: &[Place]) -> Place {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for vertex in vertices {
        let (longitude, latitude) = (radians(vertex.longitude), radians(vertex.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    let around = (x * x + y * y).sqrt();
    Place { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2(around)) }
}
