//! GEORADIUS and GEORADIUS_RO: the members around a place.

use super::distance::UNIT;
use super::search::{
    Center, Form, LATITUDE, LONGITUDE, ORDER, RADIUS, Storing, WITH_COORDINATES, WITH_DISTANCE,
    WITH_HASH, reply_search, store_search,
};
use crate::prelude::*;
use crate::table::key_spec::Extent;

/// What a search stores its result in.
pub(super) const STORE: Arg = Arg::one_of(
    "store",
    &[
        Arg::key("storekey").token("STORE").spec(1),
        Arg::key("storedistkey").token("STOREDIST").spec(2),
    ],
)
.optional();

/// How many members are asked for at most.
const COUNT: Arg = Arg::block(
    "count-block",
    &[
        Arg::integer("count").token("COUNT").within(1, 10),
        Arg::word("any", "ANY").optional().since("6.2.0"),
    ],
)
.optional();

/// The event of a result that is stored.
pub(super) const STORED: &str = "georadiusstore";

/// Returns the specifications of the source and of the keys behind STORE and STOREDIST, which stand
/// behind argument `last`.
pub(super) const fn keys_behind(last: u8) -> [KeySpec; 3] {
    let target = KeySpec::at(last, KeyFlags::OW.with(KeyFlags::UPDATE));
    [
        KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS)),
        KeySpec {
            extent: Extent::BehindWord {
                word: "STORE",
                passed: &[("COUNT", 1), ("STOREDIST", 1)],
                is_shown: true,
            },
            ..target
        },
        KeySpec {
            extent: Extent::BehindWord {
                word: "STOREDIST",
                passed: &[("COUNT", 1), ("STORE", 1)],
                is_shown: true,
            },
            ..target
        },
    ]
}

pub(super) static GEORADIUS: Command = Command {
    name: "georadius",
    summary: "Returns the members around a place, or stores them.",
    since: "3.2.0",
    complexity: "O(N + log M), N being the members in the cells around the circle, M those of the \
        set",
    group: Group::Geo,
    arity: Arity::at_least(6),
    flags: Flags::DENYOOM,
    keys: &keys_behind(5),
    args: &[
        Arg::key("key"),
        LONGITUDE,
        LATITUDE,
        RADIUS,
        UNIT,
        WITH_COORDINATES,
        WITH_DISTANCE,
        WITH_HASH,
        COUNT,
        ORDER,
        STORE,
    ],
    history: &[
        ("6.2.0", "Added the `ANY` option for `COUNT`."),
        ("7.0.0", "Added support for uppercase unit names."),
    ],
    deprecated: Some(("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument")),
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad\n(integer) 2\n\
        > GEORADIUS wrecks 4 58 400 km WITHDIST\n1) 1) \"statsraad\"\n   2) \"276.2451\"\n\
        > GEORADIUS wrecks 4 58 400 km STORE near\n(integer) 1",
    handler: Handler::Write(|cx, args, reply| {
        let form = Form { center: Center::Coordinates, storing: Storing::ByOption };
        store_search(cx, args, reply, form, STORED)
    }),
    ..Command::DEFAULT
};

pub(super) static GEORADIUS_RO: Command = Command {
    name: "georadius_ro",
    summary: "Returns the members around a place.",
    since: "3.2.10",
    flags: Flags::NONE,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        LONGITUDE,
        LATITUDE,
        RADIUS,
        UNIT,
        WITH_COORDINATES,
        WITH_DISTANCE,
        WITH_HASH,
        COUNT,
        ORDER,
    ],
    deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument")),
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad\n(integer) 2\n\
        > GEORADIUS_RO wrecks 4 58 400 km\n1) \"statsraad\"",
    handler: Handler::Read(|cx, args, reply| {
        let form = Form { center: Center::Coordinates, storing: Storing::Nothing };
        reply_search(cx, args, reply, form)
    }),
    ..GEORADIUS
};
