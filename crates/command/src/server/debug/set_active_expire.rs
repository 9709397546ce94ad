//! DEBUG SET-ACTIVE-EXPIRE: whether expired keys are looked for.

use super::truth;
use crate::prelude::*;

pub(super) static SET_ACTIVE_EXPIRE: Command = Command {
    name: "debug|set-active-expire",
    summary: "Stops, with 0, the search for keys that have expired, or lets it go on.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::integer("on").within(0, 1)],
    example: "> DEBUG SET-ACTIVE-EXPIRE 1\nOK",
    handler: Handler::Control(|cx, args, reply| {
        cx.host.set_active_expire(truth(args.at(2)));
        reply.ok();
        Ok(())
    }),
    ..Command::DEFAULT
};
