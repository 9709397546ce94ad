//! What GEOSEARCH and the commands like it have in common: how their requests are read, which
//! members they find, and what becomes of those.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use base::number::parse_f64;
use base::number_text::CoordinateText;
use collections::{Direction, MemberAt, RankedMembers, Rules, SortedSet, SortedSetView};
use keyspace::Scratch;

use super::area::cells;
use super::cell::Place;
use super::distance::{UNIT, reply_distance, unit_metres};
use super::order::sort_first;
use super::polygon::Polygon;
use super::shape::{Shape, Sieve};
use crate::handler::element::reply_element;
use crate::prelude::*;

const NO_MEMBER: CommandError = CommandError::Fixed("ERR could not decode requested zset member");
const NOT_A_RADIUS: CommandError = CommandError::Fixed("ERR need numeric radius");
const NEGATIVE_RADIUS: CommandError = CommandError::Fixed("ERR radius cannot be negative");
const NOT_A_WIDTH: CommandError = CommandError::Fixed("ERR need numeric width");
const NOT_A_HEIGHT: CommandError = CommandError::Fixed("ERR need numeric height");
const NEGATIVE_BOX: CommandError = CommandError::Fixed("ERR height or width cannot be negative");
const NOT_A_VERTEX_COUNT: CommandError = CommandError::Fixed("ERR invalid number of vertices");
const FEW_VERTICES: CommandError =
    CommandError::Fixed("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
const TOO_MANY_EDGES: CommandError = CommandError::Fixed(
    "ERR BYPOLYGON has too many vertices side by side for the members around it",
);
const NOT_A_COUNT: CommandError = CommandError::Fixed("ERR COUNT must be > 0");
const ANY_WITHOUT_COUNT: CommandError =
    CommandError::Fixed("ERR the ANY argument requires COUNT argument");
const STORED_WITH_MORE: CommandError = CommandError::Fixed(
    "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
);
const SEARCH_STORED_WITH_MORE: CommandError = CommandError::Fixed(
    "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
);

/// Places and edges of a polygon that one request compares with each other, at most: some tenths
/// of a second of work.
const EDGE_TESTS_MAX: u64 = 1 << 27;

/// Distances that requests are drawn with.
const DISTANCES: &[&str] =
    &["0", "1", "25.5", "300", "1000", "2500.125", "12000", "60000", "5e5", "3e6", "1e7"];

pub(super) const LONGITUDE: Arg = Arg::double("longitude");
pub(super) const LATITUDE: Arg = Arg::double("latitude");
pub(super) const RADIUS: Arg = Arg::double("radius").among(DISTANCES);
/// Where the search begins, and what it searches.
pub(super) const SEARCH_TYPE: Arg = Arg::one_of(
    "search-type",
    &[
        Arg::block("radius-or-box", &[FROM, BY]),
        Arg::block(
            "polygon",
            &[
                Arg::count_of_next("num-vertices").token("BYPOLYGON"),
                Arg::block("vertices", &[LONGITUDE, LATITUDE]).at_least(3),
            ],
        )
        .since("9.0.0"),
    ],
);
const FROM: Arg = Arg::one_of(
    "from",
    &[
        Arg::part("member").token("FROMMEMBER"),
        Arg::block("fromlonlat", &[LONGITUDE, LATITUDE]).token("FROMLONLAT"),
    ],
);
const BY: Arg = Arg::one_of(
    "by",
    &[
        Arg::block("circle", &[RADIUS.token("BYRADIUS"), UNIT]),
        Arg::block(
            "box",
            &[
                Arg::double("width").token("BYBOX").among(DISTANCES),
                Arg::double("height").among(DISTANCES),
                UNIT,
            ],
        ),
    ],
);
pub(super) const ORDER: Arg =
    Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional();
pub(super) const COUNT: Arg = Arg::block(
    "count-block",
    &[Arg::integer("count").token("COUNT").within(1, 10), Arg::word("any", "ANY").optional()],
)
.optional();
pub(super) const WITH_COORDINATES: Arg = Arg::word("withcoord", "WITHCOORD").optional();
pub(super) const WITH_DISTANCE: Arg = Arg::word("withdist", "WITHDIST").optional();
pub(super) const WITH_HASH: Arg = Arg::word("withhash", "WITHHASH").optional();

/// Where a command's request says what the centre is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Center {
    /// A longitude, a latitude and a radius follow the key.
    Coordinates,
    /// A member and a radius follow the key.
    Member,
    /// Among the options.
    Options,
}

/// What a command may store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storing {
    Nothing,
    /// What STORE or STOREDIST says.
    ByOption,
    /// The result in its first key; the second is the source.
    Always,
}

/// How a command reads its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub center: Center,
    pub storing: Storing,
}

impl Form {
    fn source_index(self) -> usize {
        usize::from(self.storing == Storing::Always)
    }
}

/// Asks for private memory.
type Ask<'a> = dyn Fn(u64) -> Result<Scratch, Unfinished> + 'a;

/// Replies with what a request of `form`, which stores nothing, finds.
pub(super) fn reply_search(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: Form,
) -> Result<(), Unfinished> {
    let source = args.key(form.source_index());
    let set = cx.view.collection::<SortedSet>(source)?;
    let ask = |bytes| cx.scratch(source, bytes);
    let request = Request::parse(args, form, set.map(|set| (set, cx.view.rules(source))), &ask)?;
    request.reply(set, &ask, reply)
}

/// Replies with what a request of `form` finds, or stores it under the `event` and replies with how
/// many that are.
pub(super) fn store_search(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: Form,
    event: &'static str,
) -> Result<(), Unfinished> {
    let source = args.key(form.source_index());
    let view = cx.view.as_read();
    let set = view.collection::<SortedSet>(source)?;
    let ask = |bytes| cx.scratch(source, bytes, 0);
    let request = Request::parse(args, form, set.map(|set| (set, view.rules(source))), &ask)?;
    let Some(Stored { name_at, has_distances }) = request.stored else {
        return request.reply(set, &ask, reply);
    };
    let target = args.keys().iter().rfind(|key| key.bytes == args.at(name_at));
    let target = target.expect("the last of these options names a key of the request");
    let (ranked, scratch) = match set {
        None => (RankedMembers::default(), ask(0)?),
        Some(set) => {
            let hits = request.search(set, has_distances, &ask)?;
            let score = |hit: &Hit| match has_distances {
                true => hit.distance_m / request.unit_m,
                false => hit.score,
            };
            let bytes = RankedMembers::chosen_bytes_max(set, hits.list.iter().map(|hit| hit.at));
            let scratch = ask(bytes)?;
            let chosen = hits.list.iter().map(|hit| (hit.at, score(hit)));
            (RankedMembers::chosen(set, chosen, view.rules(target)), scratch)
        }
    };
    let count = ranked.len();
    cx.view.name_event(event);
    cx.view.store_ranked(target, ranked, scratch)?;
    reply.integer(count as i64);
    Ok(())
}

/// Returns the place in the arguments `index` and behind it.
pub(super) fn place_at(args: Args<'_>, index: usize) -> Result<Place, CommandError> {
    let number = |index| parse_f64(args.at(index)).ok_or(CommandError::NotFloat);
    let place = Place { longitude: number(index)?, latitude: number(index + 1)? };
    match place.is_valid() {
        true => Ok(place),
        false => Err(invalid(place)),
    }
}

#[cold]
fn invalid(Place { longitude, latitude }: Place) -> CommandError {
    let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
    CommandError::text_of(&[text.as_bytes()])
}

/// Replies with the coordinates of `place`.
pub(super) fn reply_place(place: Place, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.double_text(CoordinateText::new(place.longitude).as_str());
    reply.double_text(CoordinateText::new(place.latitude).as_str());
}

/// What a request asks for.
struct Request {
    center: Place,
    /// It is there where the source is.
    shape: Option<Shape>,
    /// The metres of the unit of distances.
    unit_m: f64,
    direction: Option<Direction>,
    count: Option<usize>,
    /// ANY: the first that are found do.
    is_any: bool,
    with_distance: bool,
    with_hash: bool,
    with_coordinates: bool,
    stored: Option<Stored>,
    /// The right to the memory of the shape.
    _scratch: Option<Scratch>,
}

/// What becomes of the result.
#[derive(Clone, Copy)]
struct Stored {
    /// The position of the key's name.
    name_at: usize,
    /// STOREDIST: the scores are the distances.
    has_distances: bool,
}

/// The options that say where a search begins and what it searches.
#[derive(Default)]
struct Given {
    member: bool,
    place: bool,
    circle: bool,
    a_box: bool,
    polygon: bool,
}

/// A sorted set with what its members are looked up by.
type Source<'v> = Option<(SortedSetView<'v>, &'v Rules)>;

impl Request {
    fn parse(
        args: Args<'_>,
        form: Form,
        source: Source<'_>,
        ask: &Ask<'_>,
    ) -> Result<Request, Unfinished> {
        let mut request = Request {
            center: Place { longitude: 0.0, latitude: 0.0 },
            shape: None,
            unit_m: 1.0,
            direction: None,
            count: None,
            is_any: false,
            with_distance: false,
            with_hash: false,
            with_coordinates: false,
            stored: None,
            _scratch: None,
        };
        let mut index = match form.center {
            Center::Coordinates => {
                request.center = place_at(args, 2)?;
                request.take_circle(args, 4)?;
                6
            }
            Center::Member => {
                // Of a key that is not there nothing is asked, not even a radius that is one.
                if let Some(source) = source {
                    request.center = place_of(source, args.at(2))?;
                    request.take_circle(args, 3)?;
                }
                5
            }
            Center::Options => 2 + form.source_index(),
        };
        if form.storing == Storing::Always {
            request.stored = Some(Stored { name_at: 1, has_distances: false });
        }
        let mut given = Given::default();
        while index < args.len() {
            index = match request.take_option(args, index, form)? {
                Some(next) => next,
                None if form.center == Center::Options => {
                    request.take_shape(args, index, &mut given, source, ask)?
                }
                None => return Err(CommandError::Syntax.into()),
            };
        }
        request.check(args, form, &given)?;
        Ok(request)
    }

    /// Reads the option at `index`, unless it is one of a centre or a shape; returns where the next
    /// one is.
    fn take_option(
        &mut self,
        args: Args<'_>,
        index: usize,
        form: Form,
    ) -> Result<Option<usize>, CommandError> {
        let has_value = index + 1 < args.len();
        let is_search = form.center == Center::Options;
        match () {
            () if args.is(index, "WITHDIST") => self.with_distance = true,
            () if args.is(index, "WITHHASH") => self.with_hash = true,
            () if args.is(index, "WITHCOORD") => self.with_coordinates = true,
            () if args.is(index, "ANY") => self.is_any = true,
            () if args.is(index, "ASC") => self.direction = Some(Direction::Up),
            () if args.is(index, "DESC") => self.direction = Some(Direction::Down),
            () if args.is(index, "COUNT") && has_value => {
                let count = usize::try_from(args.integer(index + 1)?).ok();
                self.count = Some(count.filter(|count| *count > 0).ok_or(NOT_A_COUNT)?);
                return Ok(Some(index + 2));
            }
            () if is_search && args.is(index, "STOREDIST") => match &mut self.stored {
                Some(stored) => stored.has_distances = true,
                None => return Err(CommandError::Syntax),
            },
            () if form.storing == Storing::ByOption && has_value => {
                let has_distances = args.is(index, "STOREDIST");
                if !has_distances && !args.is(index, "STORE") {
                    return Ok(None);
                }
                self.stored = Some(Stored { name_at: index + 1, has_distances });
                return Ok(Some(index + 2));
            }
            () => return Ok(None),
        }
        Ok(Some(index + 1))
    }

    /// Reads the centre or the shape at `index`; returns where the next option is.
    fn take_shape(
        &mut self,
        args: Args<'_>,
        index: usize,
        given: &mut Given,
        source: Source<'_>,
        ask: &Ask<'_>,
    ) -> Result<usize, Unfinished> {
        let has = |count| index + count < args.len();
        let has_center = given.member || given.place;
        let has_shape = given.circle || given.a_box;
        match () {
            () if args.is(index, "FROMMEMBER") && has(1) && !given.place && !given.polygon => {
                if let Some(source) = source {
                    self.center = place_of(source, args.at(index + 1))?;
                }
                given.member = true;
                Ok(index + 2)
            }
            () if args.is(index, "FROMLONLAT") && has(2) && !given.member && !given.polygon => {
                self.center = place_at(args, index + 1)?;
                given.place = true;
                Ok(index + 3)
            }
            () if args.is(index, "BYRADIUS") && has(2) && !given.a_box && !given.polygon => {
                self.take_circle(args, index + 1)?;
                given.circle = true;
                Ok(index + 3)
            }
            () if args.is(index, "BYBOX") && has(3) && !given.circle && !given.polygon => {
                self.take_box(args, index + 1)?;
                given.a_box = true;
                Ok(index + 4)
            }
            () if args.is(index, "BYPOLYGON") && has(2) && !has_shape && !has_center => {
                given.polygon = true;
                self.take_polygon(args, index + 1, ask)
            }
            () => Err(CommandError::Syntax.into()),
        }
    }

    fn take_circle(&mut self, args: Args<'_>, index: usize) -> Result<(), CommandError> {
        let radius = parse_f64(args.at(index)).ok_or(NOT_A_RADIUS)?;
        if radius < 0.0 {
            return Err(NEGATIVE_RADIUS);
        }
        self.unit_m = unit_metres(args, index + 1)?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    fn take_box(&mut self, args: Args<'_>, index: usize) -> Result<(), CommandError> {
        let width = parse_f64(args.at(index)).ok_or(NOT_A_WIDTH)?;
        let height = parse_f64(args.at(index + 1)).ok_or(NOT_A_HEIGHT)?;
        if width < 0.0 || height < 0.0 {
            return Err(NEGATIVE_BOX);
        }
        self.unit_m = unit_metres(args, index + 2)?;
        let (width_m, height_m) = (width * self.unit_m, height * self.unit_m);
        self.shape = Some(Shape::Box { width_m, height_m });
        Ok(())
    }

    /// Reads a number of vertices and those; returns what is behind them.
    fn take_polygon(
        &mut self,
        args: Args<'_>,
        index: usize,
        ask: &Ask<'_>,
    ) -> Result<usize, Unfinished> {
        let count = args.integer(index).ok().and_then(|count| i32::try_from(count).ok());
        let count = count.ok_or(NOT_A_VERTEX_COUNT)?;
        let first = index + 1;
        let count = usize::try_from(count).ok().filter(|count| *count >= 3);
        let count = count.filter(|count| *count <= (args.len() - first) / 2).ok_or(FEW_VERTICES)?;
        self._scratch = Some(ask(Polygon::bytes_max(count))?);
        let vertices = (0..count).map(|vertex| place_at(args, first + 2 * vertex));
        let polygon = Polygon::new(&vertices.collect::<Result<Vec<_>, _>>()?);
        self.center = polygon.center();
        self.unit_m = 1.0;
        self.shape = Some(Shape::Polygon(polygon));
        Ok(first + 2 * count)
    }

    /// Refuses options that do not go together.
    fn check(&self, args: Args<'_>, form: Form, given: &Given) -> Result<(), CommandError> {
        let has_more = self.with_distance || self.with_hash || self.with_coordinates;
        if self.stored.is_some() && has_more {
            return Err(match form.storing {
                Storing::Always => SEARCH_STORED_WITH_MORE,
                Storing::ByOption | Storing::Nothing => STORED_WITH_MORE,
            });
        }
        let missing = |what: &[u8]| {
            let parts = [b"ERR exactly one of ", what, b" can be specified for ", args.at(0)];
            Err(CommandError::text_of(&parts))
        };
        if form.center == Center::Options && !given.polygon {
            if !(given.member || given.place) {
                return missing(b"FROMMEMBER or FROMLONLAT");
            }
            if !(given.circle || given.a_box) {
                return missing(b"BYRADIUS and BYBOX");
            }
        }
        match self.is_any && self.count.is_none() {
            true => Err(ANY_WITHOUT_COUNT),
            false => Ok(()),
        }
    }

    fn reply(
        &self,
        set: Option<SortedSetView<'_>>,
        ask: &Ask<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        let Some(set) = set else {
            reply.array(0);
            return Ok(());
        };
        let hits = self.search(set, self.with_distance, ask)?;
        let more = [self.with_distance, self.with_hash, self.with_coordinates];
        let more = more.into_iter().filter(|&is_wanted| is_wanted).count();
        reply.array(hits.list.len());
        for hit in &hits.list {
            if more > 0 {
                reply.array(1 + more);
            }
            reply_element(set.member(hit.at), reply);
            if self.with_distance {
                reply_distance(hit.distance_m / self.unit_m, reply);
            }
            if self.with_hash {
                reply.integer(hit.score as i64);
            }
            if self.with_coordinates {
                reply_place(Place::of_score(hit.score), reply);
            }
        }
        Ok(())
    }

    /// Returns the members of `set` that are asked for, in the order that is asked for; with their
    /// distances where those are asked for, too.
    fn search<'h>(
        &self,
        set: SortedSetView<'_>,
        with_distance: bool,
        ask: &'h Ask<'h>,
    ) -> Result<Hits<'h>, Unfinished> {
        // The nearest are meant where nothing else is said.
        let direction = match self.direction {
            None if self.count.is_some() && !self.is_any => Some(Direction::Up),
            direction => direction,
        };
        let count_max = self.count.filter(|_| self.is_any).unwrap_or(usize::MAX);
        let mut hits = Hits { list: Vec::new(), scratch: None, ask };
        self.collect(set, with_distance || direction.is_some(), count_max, &mut hits)?;
        let count = self.count.unwrap_or(usize::MAX).min(hits.list.len());
        match direction {
            None => {}
            Some(direction) if count < hits.list.len() => {
                sort_first(&mut hits.list, count, |a, b| a.order(b, direction));
            }
            Some(direction) => {
                // What is equally far away stays as it is.
                hits.list.sort_unstable_by(|a, b| {
                    a.order(b, direction).then_with(|| a.index.cmp(&b.index))
                });
            }
        }
        hits.list.truncate(count);
        Ok(hits)
    }

    /// Adds the members of `set` within the shape to `hits`, cell by cell, until those are
    /// `count_max`.
    fn collect(
        &self,
        set: SortedSetView<'_>,
        with_distance: bool,
        count_max: usize,
        hits: &mut Hits<'_>,
    ) -> Result<(), Unfinished> {
        let shape = self.shape.as_ref().expect("a request for what is there has a shape");
        let (reach, cover) = shape.reach(self.center);
        let sieve = Sieve::new(shape, self.center);
        let _scratch = (hits.ask)(set.range_bytes())?;
        let ranges = set.score_ranges();
        let cells = || cells(self.center, &reach, cover).map(|cell| cell.scores());
        let edges = shape.edges_per_place_max() as u64;
        if edges > 0 {
            let places: usize = cells().map(|(low, high)| ranges.count(low, high)).sum();
            if places as u64 * edges > EDGE_TESTS_MAX {
                return Err(TOO_MANY_EDGES.into());
            }
        }
        let mut result = Ok(());
        for (low, high) in cells() {
            if result.is_err() || hits.list.len() >= count_max {
                break;
            }
            ranges.try_for_each(low, high, |at, score| {
                let place = Place::of_score(score);
                if let Some(distance_m) = sieve.distance_m(place, with_distance) {
                    result = hits.push(at, score, distance_m);
                }
                match result.is_err() || hits.list.len() >= count_max {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        }
        result
    }
}

/// Returns where `member` is.
fn place_of(
    (set, rules): (SortedSetView<'_>, &Rules),
    member: &[u8],
) -> Result<Place, CommandError> {
    set.score(member, rules).map(Place::of_score).ok_or(NO_MEMBER)
}

/// A member that was found.
#[derive(Clone, Copy, Debug)]
struct Hit {
    distance_m: f64,
    score: f64,
    at: MemberAt,
    /// How many were found before it.
    index: u32,
}

const _: () = assert!(size_of::<Hit>() == 24);

impl Hit {
    #[inline]
    fn order(&self, other: &Hit, direction: Direction) -> Ordering {
        let order = self.distance_m.total_cmp(&other.distance_m);
        if direction == Direction::Down { order.reverse() } else { order }
    }
}

/// Members that were found.
struct Hits<'h> {
    list: Vec<Hit>,
    /// The right to their memory.
    scratch: Option<Scratch>,
    ask: &'h Ask<'h>,
}

impl Hits<'_> {
    #[inline]
    fn push(&mut self, at: MemberAt, score: f64, distance_m: f64) -> Result<(), Unfinished> {
        if self.list.len() == self.list.capacity() {
            self.grow()?;
        }
        let index = self.list.len() as u32;
        self.list.push(Hit { distance_m, score, at, index });
        Ok(())
    }

    #[cold]
    fn grow(&mut self) -> Result<(), Unfinished> {
        const FIRST: usize = 32;
        let count = (2 * self.list.capacity()).max(FIRST);
        let scratch = (self.ask)((count * size_of::<Hit>()) as u64)?;
        self.list.reserve_exact(count - self.list.len());
        // The smaller block is gone from here on.
        self.scratch = Some(scratch);
        Ok(())
    }
}
