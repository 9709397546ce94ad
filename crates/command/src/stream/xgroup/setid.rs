//! XGROUP SETID: set how far a group has read.

use collections::Stream;

use super::{ENTRIES_READ, KEY, NAME, POSITION, entries_read, existing, existing_group};
use super::{position, syntax};
use crate::prelude::*;
use crate::stream::GROUP;
use crate::stream::claims::position_of;

pub(super) static SETID: Command = Command {
    name: "xgroup|setid",
    summary: "Sets the last entry that a group has been given.",
    since: "5.0.0",
    group: Group::Stream,
    arity: Arity::at_least(5),
    flags: Flags::EFFECT,
    keys: &[KeySpec::at(KEY, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), GROUP, POSITION, ENTRIES_READ],
    history: &[("7.0.0", "Added the optional `entries_read` argument.")],
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n> XGROUP SETID river readers 0\nOK",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (mut read, mut index) = (None, 5);
    while index < args.len() {
        if !args.is(index, "ENTRIESREAD") || index + 1 == args.len() {
            return Err(syntax(args).into());
        }
        read = entries_read(args, index + 1)?;
        index += 2;
    }
    existing_group(cx, args)?;
    if args.len() > 7 {
        return Err(syntax(args).into());
    }
    let last_id = position(args, existing(cx, args)?.map(Stream::log), true)?;
    let name = args.at(NAME);
    cx.view.shrink_stream(args.key(0), |stream, effects| {
        stream.change_group(name, |_, group| {
            group.set_position(last_id, read);
            let arguments = || position_of(name, group);
            effects.add(("XGROUP|SETID", ""), arguments);
        })
    })?;
    reply.ok();
    Ok(())
}
