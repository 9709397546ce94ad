//! LPOP and RPOP: take elements from an end of a list.

use collections::{End, List, ListView};

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static LPOP: Command = Command {
    name: "lpop",
    summary: "Takes the first element of a list, or the first ones, and returns it.",
    since: "1.0.0",
    complexity: "O(N), N being the elements that are taken",
    group: Group::List,
    arity: Arity::at_least(2),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("count").within(0, 10).optional().since("6.2.0")],
    history: &[("6.2.0", "Added the `count` argument.")],
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > LPOP boats\n\"oar\"\n\
        > LPOP boats 5\n1) \"mast\"\n2) \"keel\"",
    handler: Handler::Write(|cx, args, reply| pop(cx, args, reply, End::Head, &LPOP)),
    ..Command::DEFAULT
};

pub(super) static RPOP: Command = Command {
    name: "rpop",
    summary: "Takes the last element of a list, or the last ones, and returns it.",
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > RPOP boats\n\"keel\"\n\
        > RPOP boats 5\n1) \"mast\"\n2) \"oar\"",
    handler: Handler::Write(|cx, args, reply| pop(cx, args, reply, End::Tail, &RPOP)),
    ..LPOP
};

/// Takes elements from `end` of the list at the request's key: one, or as many as it asks for.
fn pop(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
    command: &'static Command,
) -> Result<(), Unfinished> {
    if args.len() > 3 {
        return Err(CommandError::WrongArity(command).into());
    }
    if args.len() == 2 {
        let popped = cx.view.pop(args.key(0), end, 1, |list, _| reply_end(list, end, 1, reply))?;
        if popped.is_none() {
            reply.null();
        }
        return Ok(());
    }
    let count = args.count(2)?;
    if count == 0 {
        match cx.view.collection::<List>(args.key(0))? {
            Some(_) => reply.array(0),
            None => reply.null_array(),
        }
        return Ok(());
    }
    let popped = cx.view.pop(args.key(0), end, count, |list, count| {
        reply.array(count);
        reply_end(list, end, count, reply);
    })?;
    if popped.is_none() {
        reply.null_array();
    }
    Ok(())
}

/// Replies with `count` elements from `end` on, each on its own.
pub(super) fn reply_end(list: ListView<'_>, end: End, count: usize, reply: &mut Reply<'_>) {
    match end {
        End::Head => list.for_each(0, count, |element| reply_element(element, reply)),
        End::Tail => {
            list.iter_back().take(count).for_each(|element| reply_element(element, reply));
        }
    }
}
