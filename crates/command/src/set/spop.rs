//! SPOP: takes random members.

use base::Key;
use collections::{Element, Set};

use crate::handler::chance::{by_chance, distinct};
use crate::handler::element::reply_element;
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
    note: "Room for copies of 64 KiB and more is asked for first, where members stay: at the \
           memory limit keys are evicted for it, or it is refused with the error of `maxmemory`.",
    example: "> SADD fish pike\n(integer) 1\n> SPOP fish\n\"pike\"\n> SPOP fish\n(nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// What `expect` says of members that were drawn.
const BELOW_LENGTH: &str = "the index is below the length";

/// What each of several members takes beside its bytes until it is gone: its number and what was
/// moved for that, a place in the effect, and a copy.
const TAKEN_BYTES: u64 = 160;

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let key = args.key(0);
    let count = if args.len() == 3 { Some(args.count(2)?) } else { None };
    let found = cx.view.collection::<Set>(key)?;
    match (found, count) {
        (None, None) => reply.null(),
        (_, Some(0)) | (None, Some(_)) => reply.set(0),
        (Some(set), None) => {
            let index = by_chance(cx.random, |random| random.below(set.len() as u64));
            let member = set.at(index as usize).expect(BELOW_LENGTH);
            let _scratch = cx.scratch(key, member.byte_count() as u64, 0)?;
            let member = member.to_vec();
            reply.bulk(&member);
            cx.view.name_event("spop");
            // By name: whoever applies the effect draws nothing.
            cx.view.remove_members(key, std::iter::once(member.as_slice()))?;
        }
        (Some(set), Some(count)) if count >= set.len() => {
            reply.set(set.len());
            set.for_each(|member| reply_element(member, reply));
            cx.view.name_event("spop");
            cx.view.remove_all_members(key);
        }
        (Some(_), Some(count)) => take(cx, key, count, reply)?,
    }
    Ok(())
}

/// Takes `count` members of the set at `key`, which has more.
fn take(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    count: usize,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let set = cx.view.collection::<Set>(key)?.expect("it has more members");
    let _scratch = cx.scratch(key, count as u64 * TAKEN_BYTES, 0)?;
    let mut indexes = by_chance(cx.random, |random| distinct(set.len(), count, random));
    // A compact form is gone through once, to read them and to take them out.
    indexes.sort_unstable();
    let mut members: Vec<Element<'_>> = Vec::with_capacity(count);
    set.for_each_at(&indexes, |member| members.push(member));
    let bytes = members.iter().map(|member| member.byte_count() as u64).sum();
    let _copies = cx.scratch(key, bytes, 0)?;
    let members: Vec<Vec<u8>> = members.iter().map(Element::to_vec).collect();
    reply.set(members.len());
    members.iter().for_each(|member| reply.bulk(member));
    cx.view.name_event("spop");
    cx.view.remove_members_at(key, &indexes, members.iter().map(Vec::as_slice))?;
    Ok(())
}
