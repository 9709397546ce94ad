//! XGROUP CREATE: make a group.

use collections::{Group as ConsumerGroup, Stream};
use keyspace::WhenAbsent;

use super::{ENTRIES_READ, KEY, NAME, NO_KEY, POSITION, entries_read, existing, position, syntax};
use crate::prelude::*;
use crate::stream::GROUP;
use crate::stream::claims::position_of;

const EXISTS: CommandError = CommandError::Fixed("BUSYGROUP Consumer Group name already exists");

pub(super) static CREATE: Command = Command {
    name: "xgroup|create",
    summary: "Makes a group that reads a stream from an identity on.",
    since: "5.0.0",
    group: Group::Stream,
    arity: Arity::at_least(5),
    flags: Flags::DENYOOM.with(Flags::EFFECT),
    keys: &[KeySpec::at(KEY, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[
        Arg::key("key"),
        GROUP,
        POSITION,
        Arg::word("mkstream", "MKSTREAM").optional(),
        ENTRIES_READ,
    ],
    history: &[("7.0.0", "Added the `entries_read` named argument.")],
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n> XLEN river\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (mut makes_stream, mut read) = (false, None);
    let mut index = 5;
    while index < args.len() {
        if args.is(index, "MKSTREAM") {
            makes_stream = true;
            index += 1;
        } else if args.is(index, "ENTRIESREAD") && index + 1 < args.len() {
            read = entries_read(args, index + 1)?;
            index += 2;
        } else {
            return Err(syntax(args).into());
        }
    }
    let stream = existing(cx, args)?;
    if stream.is_none() && !makes_stream {
        return Err(NO_KEY.into());
    }
    if args.len() > 8 {
        return Err(syntax(args).into());
    }
    let last_id = position(args, stream.map(Stream::log), false)?;
    let (is_new, name) = (stream.is_none(), args.at(NAME));
    let growth = || Stream::group_growth_bound(name);
    let made =
        cx.view.change_stream(args.key(0), WhenAbsent::Create, growth, |stream, _, effects| {
            let group = ConsumerGroup::new(last_id, read);
            if !stream.add_group(name, group) {
                return false;
            }
            if is_new {
                effects.touch();
            }
            effects.add(("XGROUP|CREATE", ""), || {
                let group = stream.group(name).expect("it was made just now");
                let mut arguments = position_of(name, group);
                arguments.insert(2, b"MKSTREAM".as_slice().into());
                arguments
            });
            true
        })?;
    if made != Some(true) {
        return Err(EXISTS.into());
    }
    reply.ok();
    Ok(())
}
