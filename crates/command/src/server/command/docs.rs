//! COMMAND DOCS: what rows say to people.

use crate::prelude::*;
use crate::table::describe::reply_docs;
use crate::table::lookup::find;
use crate::table::table;

pub(super) static DOCS: Command = Command {
    name: "command|docs",
    summary: "Returns the documentation of the named commands, or of all.",
    since: "7.0.0",
    complexity: "O(N), N being the number of commands",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    args: &[Arg::string("command-name")
        .among(&["get", "set", "client|id", "object"])
        .optional()
        .multiple()],
    tips: &["nondeterministic_output_order"],
    example: "> COMMAND DOCS nothing\n(empty array)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    _: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let commands: Vec<&'static Command> = match args.len() {
        2 => table().to_vec(),
        _ => args.from(2).filter_map(find).collect(),
    };
    reply.map(commands.len());
    for command in commands {
        reply.bulk(command.name);
        reply_docs(command, reply);
    }
    Ok(Next::Done)
}
