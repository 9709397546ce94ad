//! GEOSEARCHSTORE: the members in a circle, a box or a polygon, as a sorted set.

use super::search::{COUNT, Center, Form, ORDER, SEARCH_TYPE, Storing, store_search};
use crate::prelude::*;

pub(super) static GEOSEARCHSTORE: Command = Command {
    name: "geosearchstore",
    summary: "Makes a key hold the members in a circle, a box or a polygon.",
    since: "6.2.0",
    complexity: "O(N + log M + K log K), N and M as for `GEOSEARCH`, K being the members that are \
        stored",
    group: Group::Geo,
    arity: Arity::at_least(8),
    flags: Flags::DENYOOM,
    keys: &[
        KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE)),
        KeySpec::at(2, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ],
    args: &[
        Arg::key("destination"),
        Arg::key("source").spec(1),
        SEARCH_TYPE,
        ORDER,
        COUNT,
        Arg::word("storedist", "STOREDIST").optional(),
    ],
    history: &[("7.0.0", "Added support for uppercase unit names.")],
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad 3.2 56.4 ekofisk\n\
        (integer) 3\n\
        > GEOSEARCHSTORE near wrecks FROMMEMBER ekofisk BYBOX 1000 1000 km\n(integer) 2\n\
        > GEOSEARCHSTORE near wrecks FROMMEMBER ekofisk BYBOX 1000 1000 km COUNT 1 STOREDIST\n\
        (integer) 1\n> ZRANGE near 0 -1 WITHSCORES\n1) \"ekofisk\"\n2) \"0\"",
    handler: Handler::Write(|cx, args, reply| {
        let form = Form { center: Center::Options, storing: Storing::Always };
        store_search(cx, args, reply, form, "geosearchstore")
    }),
    ..Command::DEFAULT
};
