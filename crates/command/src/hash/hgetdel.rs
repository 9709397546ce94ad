//! HGETDEL: takes fields out of a hash.

use collections::Hash;

use super::field_times::{FIELDS, NOT_A_COUNT, first_field};
use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static HGETDEL: Command = Command {
    name: "hgetdel",
    summary: "Returns the values of fields of a hash, and removes the fields.",
    since: "8.0.0",
    complexity: "O(N), N being the fields",
    group: Group::Hash,
    arity: Arity::at_least(5),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), FIELDS],
    note: "A command of Redis 8.",
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HGETDEL lake FIELDS 2 depth colour\n1) \"12\"\n2) (nil)\n> EXISTS lake\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    cx.view.collection::<Hash>(args.key(0))?;
    let first = first_field(args, 2, NOT_A_COUNT)?;
    take(cx, args, first, reply)?;
    Ok(())
}

/// Takes the fields from position `first` on out of the hash, and replies with their values;
/// returns how many there were.
pub(super) fn take(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    first: usize,
    reply: &mut Reply<'_>,
) -> Result<usize, Unfinished> {
    let fields = args.from(first);
    // The effect is HDEL, which every follower knows, and so is the event.
    let change = |hash: &mut Hash, rules: &_| {
        reply.array(fields.len());
        let mut taken = 0;
        for field in fields.clone() {
            match hash.view().get(field, rules) {
                Some(value) => reply_element(value, reply),
                None => reply.null(),
            }
            taken += usize::from(hash.remove(field, rules));
        }
        (taken, taken > 0)
    };
    let (key, named) = (args.key(0), fields.clone());
    let taken = cx.view.change_fields(key, "HDEL", named.clone(), named, change)?;
    if taken.is_none() {
        reply.array(fields.len());
        fields.for_each(|_| reply.null());
    }
    Ok(taken.unwrap_or(0))
}
