//! BLPOP and BRPOP: take an element from an end of the first list that has one; wait for one.

use collections::End;
use keyspace::ValueType;

use super::lpop::reply_end;
use crate::parse::timeout;
use crate::prelude::*;

pub(super) static BLPOP: Command = Command {
    name: "blpop",
    summary: "Takes the first element of the first list that has one; waits for one.",
    since: "2.0.0",
    complexity: "O(N), N being the number of keys",
    group: Group::List,
    arity: Arity::at_least(3),
    flags: Flags::BLOCKING,
    keys: &[KeySpec::all_but_last_from(
        1,
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE),
    )],
    args: &[Arg::key("key").multiple(), Arg::double("timeout").only_within(1, 2)],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > BLPOP ships boats 0.5\n1) \"boats\"\n2) \"oar\"\n\
        > BLPOP ships 0.01\n(nil)",
    handler: Handler::Write(|cx, args, reply| pop_first(cx, args, reply, End::Head)),
    ..Command::DEFAULT
};

pub(super) static BRPOP: Command = Command {
    name: "brpop",
    summary: "Takes the last element of the first list that has one; waits for one.",
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > BRPOP ships boats 0.5\n1) \"boats\"\n2) \"mast\"\n\
        > BRPOP ships 0.01\n(nil)",
    handler: Handler::Write(|cx, args, reply| pop_first(cx, args, reply, End::Tail)),
    ..BLPOP
};

/// Takes one element from `end` of the first list among the request's keys. A key of another type
/// before it is an error; one behind it is not looked at.
fn pop_first(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), Unfinished> {
    let timeout = timeout::seconds(args, args.len() - 1, cx.now())?;
    for key in args.keys() {
        let popped = cx.view.pop(key, end, 1, |list, _| {
            reply.array(2);
            reply.bulk(key.bytes);
            reply_end(list, end, 1, reply);
        })?;
        if popped.is_some() {
            return Ok(());
        }
    }
    let wait = Wait::new(timeout, |reply| reply.null_array(), args.keys().len());
    Err(wait.of_type(ValueType::List).into())
}
