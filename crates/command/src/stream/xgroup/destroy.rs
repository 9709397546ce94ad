//! XGROUP DESTROY: remove a group.

use super::{KEY, NAME, NO_KEY, existing};
use crate::prelude::*;
use crate::stream::GROUP;

pub(super) static DESTROY: Command = Command {
    name: "xgroup|destroy",
    summary: "Removes a group; returns whether it was there.",
    since: "5.0.0",
    complexity: "O(N), N being the number of entries that were pending",
    group: Group::Stream,
    arity: Arity::exactly(4),
    flags: Flags::EFFECT,
    keys: &[KeySpec::at(KEY, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), GROUP],
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n\
        > XGROUP DESTROY river readers\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    existing(cx, args)?.ok_or(NO_KEY)?;
    let name = args.at(NAME);
    let is_removed = cx.view.shrink_stream(args.key(0), |stream, effects| {
        let is_removed = stream.remove_group(name);
        if is_removed {
            // Consumers of the group that wait are refused now.
            effects.wake();
            effects.add(("XGROUP|DESTROY", ""), || vec![name.to_vec().into()]);
        }
        is_removed
    })?;
    reply.integer(i64::from(is_removed == Some(true)));
    Ok(())
}
