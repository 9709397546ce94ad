//! GEOPOS: where members are.

use super::geohash::{GEOHASH, reply_each_place};
use super::search::reply_place;
use crate::prelude::*;

pub(super) static GEOPOS: Command = Command {
    name: "geopos",
    summary: "Returns the longitudes and latitudes of members.",
    example: "> GEOADD wrecks -49.95 41.73 titanic\n(integer) 1\n\
        > GEOPOS wrecks titanic bounty\n\
        1) 1) \"-49.94999796152114868\"\n   2) \"41.7300003312423442\"\n2) (nil)",
    handler: Handler::Read(|cx, args, reply| {
        reply_each_place(cx, args, reply, |place, reply| match place {
            Some(place) => reply_place(place, reply),
            None => reply.null_array(),
        })
    }),
    ..GEOHASH
};
