//! PFADD: elements for a HyperLogLog.

use collections::hyperloglog;

use super::CONVERSION;
use crate::prelude::*;

pub(super) static PFADD: Command = Command {
    name: "pfadd",
    summary: "Adds elements to a HyperLogLog and tells whether its count may have changed.",
    since: "2.8.9",
    complexity: "O(1) for each element; O(N) where the value is sparse, N being its bytes",
    group: Group::HyperLogLog,
    arity: Arity::at_least(2),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::string("element").optional().multiple()],
    example: "> PFADD visitors ann bob ann\n(integer) 1\n\
        > PFADD visitors bob\n(integer) 0\n\
        > PFCOUNT visitors\n(integer) 2",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let has_changed = cx.view.change_string(args.key(0), |value, change| {
        let bytes_max = change.sparse_bytes_max;
        let added = hyperloglog::add(value, args.from(2), bytes_max, &mut change.memory)?;
        if added.has_changed {
            change.add(("PFADD", ""), args.from(2));
        }
        if added.is_converted {
            change.add_conversion(CONVERSION);
        }
        Ok::<_, CommandError>((added.edit, added.has_changed))
    })??;
    reply.integer(i64::from(has_changed));
    Ok(())
}
