//! GEOHASH: where members are, as geohashes.

use collections::SortedSet;

use super::cell::Place;
use crate::prelude::*;

pub(super) static GEOHASH: Command = Command {
    name: "geohash",
    summary: "Returns the places of members as geohashes.",
    since: "3.2.0",
    complexity: "O(1) for each member",
    group: Group::Geo,
    arity: Arity::at_least(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("member").multiple().optional()],
    example: "> GEOADD wrecks -49.95 41.73 titanic\n(integer) 1\n\
        > GEOHASH wrecks titanic bounty\n1) \"dzkmrkewbe0\"\n2) (nil)",
    handler: Handler::Read(|cx, args, reply| {
        reply_each_place(cx, args, reply, |place, reply| match place {
            Some(place) => reply.bulk(place.geohash()),
            None => reply.null(),
        })
    }),
    ..Command::DEFAULT
};

/// Replies with an array of what `write` makes of the place of each member that the request names.
pub(super) fn reply_each_place(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    mut write: impl FnMut(Option<Place>, &mut Reply<'_>),
) -> Result<(), Unfinished> {
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members {
        let score = set.and_then(|set| set.score(member, cx.view.rules(key)));
        write(score.map(Place::of_score), reply);
    }
    Ok(())
}
