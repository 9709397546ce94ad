//! DEBUG LOG: a line in the log of the server.

use crate::prelude::*;

pub(super) static LOG: Command = Command {
    name: "debug|log",
    summary: "Writes the text to the log of the server.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::string("text").among(&["hill"])],
    example: "> DEBUG LOG hill\nOK",
    handler: Handler::Control(|cx, args, reply| {
        cx.host.process()?.log(args.at(2));
        reply.ok();
        Ok(())
    }),
    ..Command::DEFAULT
};
