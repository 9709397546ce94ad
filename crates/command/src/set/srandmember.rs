//! SRANDMEMBER: random members.

use collections::{CollectionEncoding, Set};

use crate::handler::chance::{BELOW_LENGTH, PickCount, by_chance};
use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static SRANDMEMBER: Command = Command {
    name: "srandmember",
    summary: "Returns a random member of a set, or several of them.",
    since: "1.0.0",
    complexity: "O(N), N being the members that are returned",
    group: Group::Set,
    arity: Arity::at_least(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::integer("count").only_within(-10, 10).optional().since("2.6.0")],
    history: &[("2.6.0", "Added the optional `count` argument.")],
    tips: &["nondeterministic_output"],
    example: "> SADD fish pike\n(integer) 1\n\
        > SRANDMEMBER fish\n\"pike\"\n\
        > SRANDMEMBER fish -2\n1) \"pike\"\n2) \"pike\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let count = if args.len() == 3 { Some(PickCount::parse(args)?) } else { None };
    let key = args.key(0);
    let found = cx.view.collection::<Set>(key)?;
    match (found, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => {
            let index = by_chance(cx.random, |random| random.below(set.len() as u64));
            reply_element(set.at(index as usize).expect(BELOW_LENGTH), reply);
        }
        (Some(set), Some(count)) => {
            let wanted = count.of(set.len());
            let is_listpack = set.encoding() == CollectionEncoding::Listpack;
            let listed_bytes = count.listed_bytes(set.len(), is_listpack);
            let _scratch = cx.scratch(key, listed_bytes)?;
            let listed = if listed_bytes > 0 { set.listpack_members() } else { Vec::new() };
            reply.array(wanted);
            let scratch = |bytes| cx.scratch(key, bytes);
            count.for_each(set.len(), cx.random, reply, scratch, |index, reply| {
                let member = listed.get(index).copied().or_else(|| set.at(index));
                reply_element(member.expect(BELOW_LENGTH), reply);
            })?;
        }
    }
    Ok(())
}
