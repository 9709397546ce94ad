//! SMOVE: moves a member to another set.

use collections::Set;

use crate::prelude::*;

pub(super) static SMOVE: Command = Command {
    name: "smove",
    summary: "Moves a member of a set to another set.",
    since: "1.0.0",
    group: Group::Set,
    arity: Arity::exactly(4),
    flags: Flags::FAST,
    keys: &[
        KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE)),
        KeySpec::at(2, KeyFlags::RW.with(KeyFlags::INSERT)),
    ],
    args: &[Arg::key("source"), Arg::key("destination").spec(1), Arg::part("member")],
    example: "> SADD fish pike oar\n(integer) 2\n\
        > SMOVE fish boats oar\n(integer) 1\n\
        > SMEMBERS boats\n1) \"oar\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (source, target, member) = (args.key(0), args.key(1), args.at(3));
    let view = &cx.view;
    // Both are looked at, as in Redis: an expired target goes where there is no source too.
    let (set, target_set) = (view.collection::<Set>(source), view.collection::<Set>(target));
    let Some(set) = set? else {
        reply.integer(0);
        return Ok(());
    };
    target_set?;
    if !set.contains(member, view.rules(source)) {
        reply.integer(0);
        return Ok(());
    }
    if source.bytes != target.bytes {
        // What may lack room comes first.
        cx.view.add_members(target, std::iter::once(member))?;
        cx.view.remove_members(source, std::iter::once(member))?;
    }
    reply.integer(1);
    Ok(())
}
