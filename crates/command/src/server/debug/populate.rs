//! DEBUG POPULATE: many keys.

use keyspace::Expiry;

use crate::handler::error::quoted;
use crate::prelude::*;

/// `DEBUG POPULATE count prefix size`.
/// The longest value that is made: what a string may be by default.
const VALUE_BYTES_MAX: u64 = 512 << 20;
const ARGUMENTS_MAX: usize = 5;
/// The length at which Redis cuts the names of these keys.
const NAME_BYTES_MAX: usize = 127;

pub(super) static POPULATE: Command = Command {
    name: "debug|populate",
    summary: "Makes keys with a number at their end, where they are absent.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys",
    group: Group::Server,
    arity: Arity::at_least(3),
    args: &[
        Arg::integer("count").within(0, 20),
        Arg::block(
            "shape",
            &[
                Arg::string("prefix").among(&["key", "hill"]),
                Arg::integer("size").within(0, 50).optional(),
            ],
        )
        .optional(),
    ],
    example: "> DEBUG POPULATE 2\nOK\n\
        > GET key:1\n\"value:1\"\n\
        > DEBUG POPULATE 1 hill 10\nOK\n\
        > GET hill:0\n\"value:0\\x00\\x00\\x00\"",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    if args.len() > ARGUMENTS_MAX {
        return Err(CommandError::subcommand_syntax("DEBUG", args.at(1)).into());
    }
    if cx.access.keyspace().admission().is_loading() {
        // What it makes could be what is still to be read.
        return Err(CommandError::LOADING.into());
    }
    let count = args.count(2)? as u64;
    let prefix = if args.len() > 3 { quoted(args.at(3), usize::MAX) } else { b"key" };
    let size = if args.len() > 4 { args.count(4)? as u64 } else { 0 };
    if size > VALUE_BYTES_MAX {
        return Err(CommandError::STRING_TOO_LONG.into());
    }
    let _scratch = cx.access.keyspace().scratch(size, size)?;
    for number in 0..count {
        make(cx, prefix, number, size as usize)?;
    }
    reply.ok();
    Ok(())
}

/// Makes key `prefix:number` hold `value:number`, cut or filled with zeroes to `size` bytes where
/// that is not 0. Does nothing where the key exists, so that it may be run again.
fn make(
    cx: &mut ControlContext<'_>,
    prefix: &[u8],
    number: u64,
    size: usize,
) -> Result<(), Unfinished> {
    let mut name = [prefix, format!(":{number}").as_bytes()].concat();
    name.truncate(NAME_BYTES_MAX);
    let mut value = format!("value:{number}").into_bytes();
    if size > 0 {
        value.resize(size, 0);
    }
    let hasher = *cx.access.keyspace().hasher();
    let key = hasher.key(&name);
    cx.access.write(&key, cx.session.database, cx.now, |view| match view.contains(&key) {
        true => Ok(()),
        false => Ok(view.set_text(&key, &value, Expiry::Clear)?),
    })
}
