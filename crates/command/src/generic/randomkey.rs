//! RANDOMKEY: a key by chance.

use crate::prelude::*;

pub(super) static RANDOMKEY: Command = Command {
    name: "randomkey",
    summary: "Returns a key of the database, chosen by chance.",
    since: "1.0.0",
    arity: Arity::exactly(1),
    flags: Flags::READONLY,
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    note: "A stale value, which only LGET finds, stays where it is met: where nearly all are such, \
        the reply may be null though there are keys.",
    example: "> RANDOMKEY\n(nil)\n> SET lake deep\nOK\n> RANDOMKEY\n\"lake\"",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(cx: &mut ControlContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let database = cx.session.database;
    let found = cx.access.random_key(database, cx.now, cx.random, |key| reply.bulk(key));
    if found.is_none() {
        reply.null();
    }
    Ok(())
}
