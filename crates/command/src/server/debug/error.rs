//! DEBUG ERROR: an error of the caller's own words.

use crate::prelude::*;

pub(super) static ERROR: Command = Command {
    name: "debug|error",
    summary: "Replies with an error of that text.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::string("text").among(&["ERR hill"])],
    example: "> DEBUG ERROR hill\n(error) hill",
    handler: Handler::Control(|_, args, reply| {
        reply.error(args.at(2));
        Ok(())
    }),
    ..Command::DEFAULT
};
