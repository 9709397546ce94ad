//! DEBUG PAUSE-CRON: whether the server does anything by itself.

use super::truth;
use crate::prelude::*;

pub(super) static PAUSE_CRON: Command = Command {
    name: "debug|pause-cron",
    summary: "Stops, with 1, what the server does by itself, or lets it go on.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::integer("on").within(0, 0)],
    example: "> DEBUG PAUSE-CRON 0\nOK",
    handler: Handler::Control(|cx, args, reply| {
        cx.host.process()?.pause_service(truth(args.at(2)));
        reply.ok();
        Ok(())
    }),
    ..Command::DEFAULT
};
