//! SMEMBERS: all members.

use collections::Set;

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static SMEMBERS: Command = Command {
    name: "smembers",
    summary: "Returns all members of a set.",
    since: "1.0.0",
    complexity: "O(N), N being the members",
    group: Group::Set,
    arity: Arity::exactly(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    tips: &["nondeterministic_output_order"],
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SMEMBERS fish\n1) \"pike\"\n2) \"perch\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let set = cx.view.collection::<Set>(args.key(0))?;
    reply.set(set.map_or(0, |set| set.len()));
    if let Some(set) = set {
        set.for_each(|member| reply_element(member, reply));
    }
    Ok(())
}
