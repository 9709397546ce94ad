//! MEMORY USAGE: the memory of a key.

use crate::prelude::*;

pub(super) static USAGE: Command = Command {
    name: "memory|usage",
    summary: "Returns the bytes of memory that a key and its value take.",
    since: "4.0.0",
    group: Group::Server,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    args: &[Arg::key("key"), Arg::integer("count").token("SAMPLES").within(0, 100).optional()],
    example: "> MEMORY USAGE river\n(nil)\n> SET lake deep\nOK\n> MEMORY USAGE lake\n...",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    check_options(args)?;
    match cx.view.inspect(args.key(0)) {
        Some(entry) => reply.integer(entry.memory_bytes_with_slot() as i64),
        None => reply.null(),
    }
    Ok(())
}

/// SAMPLES changes nothing: what a value of many parts takes is known without a look at any.
fn check_options(args: Args<'_>) -> Result<(), CommandError> {
    let mut index = 3;
    while index < args.len() {
        if !args.is(index, "SAMPLES") || index + 1 == args.len() || args.integer(index + 1)? < 0 {
            return Err(CommandError::Syntax);
        }
        index += 2;
    }
    Ok(())
}
