//! GEOPOS: where members are.

use collections::SortedSet;

use super::cell::Place;
use super::search::reply_place;
use crate::prelude::*;

pub(super) static GEOPOS: Command = Command {
    name: "geopos",
    summary: "Returns the longitudes and latitudes of members.",
    since: "3.2.0",
    complexity: "O(1) for each member",
    group: Group::Geo,
    arity: Arity::at_least(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("member").multiple().optional()],
    example: "> GEOADD wrecks -49.95 41.73 titanic\n(integer) 1\n\
        > GEOPOS wrecks titanic bounty\n\
        1) 1) \"-49.94999796152114868\"\n   2) \"41.7300003312423442\"\n2) (nil)",
    handler: Handler::Read(|cx, args, reply| {
        let key = args.key(0);
        let set = cx.view.collection::<SortedSet>(key)?;
        let members = args.from(2);
        reply.array(members.len());
        for member in members {
            match set.and_then(|set| set.score(member, cx.view.rules(key))) {
                Some(score) => reply_place(Place::of_score(score), reply),
                None => reply.null_array(),
            }
        }
        Ok(())
    }),
    ..Command::DEFAULT
};
