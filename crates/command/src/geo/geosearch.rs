//! GEOSEARCH: the members in a circle, a box or a polygon.

use super::search::{
    COUNT, Center, Form, ORDER, SEARCH_TYPE, Storing, WITH_COORDINATES, WITH_DISTANCE, WITH_HASH,
    reply_search,
};
use crate::prelude::*;

pub(super) static GEOSEARCH: Command = Command {
    name: "geosearch",
    summary: "Returns the members in a circle, a box or a polygon.",
    since: "6.2.0",
    complexity: "O(N + log M), N being the members in the cells around the shape, each of which is \
        compared with those edges of a polygon that are as far north as it is; M those of the set",
    group: Group::Geo,
    arity: Arity::at_least(7),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), SEARCH_TYPE, ORDER, COUNT, WITH_COORDINATES, WITH_DISTANCE, WITH_HASH],
    history: &[("7.0.0", "Added support for uppercase unit names.")],
    note: "`BYPOLYGON`, as of Valkey 9, stands alone: distances are in metres, from the middle of \
        its vertices. An edge is a straight line on the map of degrees, which ends at the \
        antimeridian. A polygon so many of whose edges lie side by side that more than 2^27 \
        comparisons with members were needed is refused.",
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad 3.2 56.4 ekofisk\n\
        (integer) 3\n\
        > GEOSEARCH wrecks FROMLONLAT 4 58 BYRADIUS 400 km ASC WITHDIST\n\
        1) 1) \"ekofisk\"\n   2) \"184.3708\"\n2) 1) \"statsraad\"\n   2) \"276.2451\"\n\
        > GEOSEARCH wrecks BYPOLYGON 3 0 50 10 50 5 60\n1) \"ekofisk\"",
    handler: Handler::Read(|cx, args, reply| {
        let form = Form { center: Center::Options, storing: Storing::Nothing };
        reply_search(cx, args, reply, form)
    }),
    ..Command::DEFAULT
};
