//! GEORADIUSBYMEMBER and GEORADIUSBYMEMBER_RO: the members around another one.

use super::distance::UNIT;
use super::georadius::{GEORADIUS, STORE, STORED, keys_behind};
use super::search::{
    COUNT, Center, Form, ORDER, RADIUS, Storing, WITH_COORDINATES, WITH_DISTANCE, WITH_HASH,
    reply_search, store_search,
};
use crate::prelude::*;

pub(super) static GEORADIUSBYMEMBER: Command = Command {
    name: "georadiusbymember",
    summary: "Returns the members around another one, or stores them.",
    arity: Arity::at_least(5),
    keys: &keys_behind(4),
    args: &[
        Arg::key("key"),
        Arg::part("member"),
        RADIUS,
        UNIT,
        WITH_COORDINATES,
        WITH_DISTANCE,
        WITH_HASH,
        COUNT,
        ORDER,
        STORE,
    ],
    deprecated: Some((
        "6.2.0",
        "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
    )),
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad 3.2 56.4 ekofisk\n\
        (integer) 3\n\
        > GEORADIUSBYMEMBER wrecks ekofisk 500 km DESC\n1) \"statsraad\"\n2) \"ekofisk\"",
    handler: Handler::Write(|cx, args, reply| {
        let form = Form { center: Center::Member, storing: Storing::ByOption };
        store_search(cx, args, reply, form, STORED)
    }),
    ..GEORADIUS
};

pub(super) static GEORADIUSBYMEMBER_RO: Command = Command {
    name: "georadiusbymember_ro",
    summary: "Returns the members around another one.",
    since: "3.2.10",
    flags: Flags::NONE,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::part("member"),
        RADIUS,
        UNIT,
        WITH_COORDINATES,
        WITH_DISTANCE,
        WITH_HASH,
        COUNT,
        ORDER,
    ],
    deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments")),
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad 3.2 56.4 ekofisk\n\
        (integer) 3\n\
        > GEORADIUSBYMEMBER_RO wrecks ekofisk 500 km COUNT 1\n1) \"ekofisk\"",
    handler: Handler::Read(|cx, args, reply| {
        let form = Form { center: Center::Member, storing: Storing::Nothing };
        reply_search(cx, args, reply, form)
    }),
    ..GEORADIUSBYMEMBER
};
