//! GEODIST: how far two members are from each other.

use collections::SortedSet;

use super::cell::Place;
use super::distance::{Origin, UNIT, reply_distance, unit_metres};
use crate::prelude::*;

pub(super) static GEODIST: Command = Command {
    name: "geodist",
    summary: "Returns the distance between two members.",
    since: "3.2.0",
    complexity: "O(1)",
    group: Group::Geo,
    arity: Arity::at_least(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("member1"), Arg::part("member2"), UNIT.optional()],
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad\n(integer) 2\n\
        > GEODIST wrecks titanic statsraad KM\n\"4218.7339\"",
    handler: Handler::Read(|cx, args, reply| {
        let unit_m = match args.len() {
            4 => 1.0,
            5 => unit_metres(args, 4)?,
            _ => return Err(CommandError::Syntax.into()),
        };
        let key = args.key(0);
        let set = cx.view.collection::<SortedSet>(key)?;
        let origin = |index| {
            let score = set?.score(args.at(index), cx.view.rules(key))?;
            Some(Origin::new(Place::of_score(score)))
        };
        match (origin(2), origin(3)) {
            (Some(from), Some(to)) => reply_distance(from.distance_m(&to) / unit_m, reply),
            _ => reply.null(),
        }
        Ok(())
    }),
    ..Command::DEFAULT
};
