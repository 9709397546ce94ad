//! SPOP: takes random members.

use collections::Set;

use super::chance::{by_chance, distinct};
use crate::prelude::*;

pub(super) static SPOP: Command = Command {
    name: "spop",
    summary: "Takes a random member of a set, or several of them, and returns it.",
    since: "1.0.0",
    complexity: "O(N), N being the members that are taken",
    group: Group::Set,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("count").within(0, 10).optional().since("3.2.0")],
    history: &[("3.2.0", "Added the `count` argument.")],
    tips: &["nondeterministic_output"],
    example: "> SADD fish pike\n(integer) 1\n> SPOP fish\n\"pike\"\n> SPOP fish\n(nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let key = args.key(0);
    let count = if args.len() == 3 { Some(args.count(2)?) } else { None };
    let found = cx.view.collection::<Set>(key)?;
    let Some(set) = found else {
        match count {
            Some(_) => reply.set(0),
            None => reply.null(),
        }
        return Ok(());
    };
    let members = by_chance(cx.random, |random| distinct(set.len(), count.unwrap_or(1), random));
    let members: Vec<Vec<u8>> =
        members.into_iter().filter_map(|index| Some(set.at(index)?.to_vec())).collect();
    if count.is_some() {
        reply.set(members.len());
    }
    members.iter().for_each(|member| reply.bulk(member));
    // By name: whoever applies the effect draws nothing.
    cx.view.name_event("spop");
    cx.view.remove_members(key, members.iter().map(Vec::as_slice))?;
    Ok(())
}
