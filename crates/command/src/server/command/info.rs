//! COMMAND INFO: rows.

use crate::prelude::*;
use crate::table::describe::reply_row;
use crate::table::lookup::find;
use crate::table::table;

pub(super) static INFO: Command = Command {
    name: "command|info",
    summary: "Returns the rows of the named commands, or of all.",
    since: "2.8.13",
    complexity: "O(N), N being the number of commands",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    args: &[Arg::string("command-name")
        .among(&["get", "set", "client|id", "object"])
        .optional()
        .multiple()],
    history: &[("7.0.0", "Allowed to be called with no argument to get info on all commands.")],
    tips: &["nondeterministic_output_order"],
    example: "> COMMAND INFO nothing\n1) (nil)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    _: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    if args.len() == 2 {
        reply.array(table().len());
        table().iter().for_each(|command| reply_row(Some(command), reply));
    } else {
        reply.array(args.len() - 2);
        args.from(2).for_each(|name| reply_row(find(name), reply));
    }
    Ok(Next::Done)
}
