//! PFMERGE: a HyperLogLog that has had the elements of others.

use collections::hyperloglog::{Registers, store};

use super::merge_keys;
use crate::prelude::*;

pub(super) static PFMERGE: Command = Command {
    name: "pfmerge",
    summary: "Adds to a HyperLogLog all elements that others have had.",
    since: "2.8.9",
    complexity: "O(N), N being the keys",
    group: Group::HyperLogLog,
    arity: Arity::at_least(2),
    flags: Flags::DENYOOM,
    keys: &[
        KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::INSERT)),
        KeySpec::all_from(2, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ],
    args: &[Arg::key("destkey"), Arg::key("sourcekey").spec(1).optional().multiple()],
    example: "> PFADD monday ann bob\n(integer) 1\n\
        > PFADD tuesday bob eve\n(integer) 1\n\
        > PFMERGE week monday tuesday\nOK\n\
        > PFCOUNT week\n(integer) 3",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let mut registers = Registers::default();
    let has_dense = merge_keys(cx, args, &mut registers)?;
    cx.view.change_string(args.key(0), |target, change| {
        let (bytes_max, memory) = (change.sparse_bytes_max, &mut change.memory);
        let edit = store(target, &registers, has_dense, bytes_max, memory)?;
        change.add_value("pfadd");
        Ok::<_, CommandError>((edit, ()))
    })??;
    reply.ok();
    Ok(())
}
