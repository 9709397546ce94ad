//! HGETALL, HKEYS and HVALS: all fields, all values, or both.

use collections::{Element, Hash};

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static HGETALL: Command = Command {
    name: "hgetall",
    summary: "Returns all fields of a hash with their values.",
    since: "2.0.0",
    complexity: "O(N), N being the fields",
    group: Group::Hash,
    arity: Arity::exactly(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    tips: &["nondeterministic_output_order"],
    example: "> HSET lake depth 12\n(integer) 1\n> HGETALL lake\n1) \"depth\"\n2) \"12\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

pub(super) static HKEYS: Command = Command {
    name: "hkeys",
    summary: "Returns all fields of a hash.",
    example: "> HSET lake depth 12\n(integer) 1\n> HKEYS lake\n1) \"depth\"",
    handler: Handler::Read(|cx, args, reply| reply_one_of_each(cx, args, reply, |field, _| field)),
    ..HGETALL
};

pub(super) static HVALS: Command = Command {
    name: "hvals",
    summary: "Returns all values of a hash.",
    example: "> HSET lake depth 12\n(integer) 1\n> HVALS lake\n1) \"12\"",
    handler: Handler::Read(|cx, args, reply| reply_one_of_each(cx, args, reply, |_, value| value)),
    ..HGETALL
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let hash = cx.view.collection::<Hash>(args.key(0))?;
    reply.map(hash.map_or(0, |hash| hash.live_len()));
    if let Some(hash) = hash {
        hash.for_each(|field, value| {
            reply_element(field, reply);
            reply_element(value, reply);
        });
    }
    Ok(())
}

/// Replies with what `chosen` takes of each field and its value.
fn reply_one_of_each(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    chosen: impl for<'a> Fn(Element<'a>, Element<'a>) -> Element<'a>,
) -> Result<(), Unfinished> {
    let hash = cx.view.collection::<Hash>(args.key(0))?;
    reply.array(hash.map_or(0, |hash| hash.live_len()));
    if let Some(hash) = hash {
        hash.for_each(|field, value| reply_element(chosen(field, value), reply));
    }
    Ok(())
}
