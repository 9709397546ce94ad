//! SRANDMEMBER: random members.

use collections::Set;

use super::chance::{by_chance, distinct};
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
    let count = match args.len() {
        3 => Some(args.integer_in(2, -i64::MAX, i64::MAX)?),
        _ => None,
    };
    let found = cx.view.collection::<Set>(args.key(0))?;
    let Some(set) = found else {
        match count {
            Some(_) => reply.array(0),
            None => reply.null(),
        }
        return Ok(());
    };
    by_chance(cx.random, |random| match count {
        None => reply_at(set, random.below(set.len() as u64) as usize, reply),
        Some(count @ 0..) => {
            let indexes = distinct(set.len(), count as usize, random);
            reply.array(indexes.len());
            indexes.into_iter().for_each(|index| reply_at(set, index, reply));
        }
        Some(count) => {
            reply.array(count.unsigned_abs() as usize);
            for _ in 0..count.unsigned_abs() {
                if reply.is_cut() {
                    break;
                }
                reply_at(set, random.below(set.len() as u64) as usize, reply);
            }
        }
    });
    Ok(())
}

fn reply_at(set: &Set, index: usize, reply: &mut Reply<'_>) {
    reply_element(set.at(index).expect("the index is below the length"), reply);
}
