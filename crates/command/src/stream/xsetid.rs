//! XSETID: set the last identity of a stream.

use super::{IDS, strict_id};
use crate::prelude::*;

const NEGATIVE: CommandError = CommandError::Fixed("ERR entries_added must be positive");
const BELOW_GIVEN: CommandError = CommandError::Fixed(
    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
);
const BELOW_DELETED: CommandError = CommandError::Fixed(
    "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
);
const BELOW_LAST: CommandError = CommandError::Fixed(
    "ERR The ID specified in XSETID is smaller than the target stream top item",
);
const FEWER_ADDED: CommandError = CommandError::Fixed(
    "ERR The entries_added specified in XSETID is smaller than the target stream length",
);

pub(super) static XSETID: Command = Command {
    name: "xsetid",
    summary: "Sets the last identity of a stream, for those who copy streams.",
    since: "5.0.0",
    complexity: "O(1), and O(N) where the last N entries were deleted",
    group: Group::Stream,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::string("last-id").among(IDS),
        Arg::integer("entries-added").token("ENTRIESADDED").optional().since("7.0.0").within(0, 20),
        Arg::string("max-deleted-id")
            .token("MAXDELETEDID")
            .optional()
            .since("7.0.0")
            .among(&["0-0", "1-0", "3-1", "4-1"]),
    ],
    history: &[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XSETID river 5-0\nOK\n\
        > XADD river 5-* level 8\n\"5-1\"",
    is_timed_alone: true,
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let last_id = strict_id(args, 2)?;
    let (mut added, mut deleted) = (None, None);
    let mut index = 3;
    while index < args.len() {
        let has_more = index + 1 < args.len();
        if args.is(index, "ENTRIESADDED") && has_more {
            let count = args.integer(index + 1)?;
            added = Some(u64::try_from(count).map_err(|_| NEGATIVE)?);
        } else if args.is(index, "MAXDELETEDID") && has_more {
            let id = strict_id(args, index + 1)?;
            if last_id < id {
                return Err(BELOW_GIVEN.into());
            }
            deleted = Some(id).filter(|id| !id.is_zero());
        } else {
            return Err(CommandError::Syntax.into());
        }
        index += 2;
    }
    let set = cx.view.shrink_stream(args.key(0), |stream, effects| {
        let log = stream.log_mut();
        if last_id < log.counters().max_deleted_id {
            return Err(BELOW_DELETED);
        }
        if log.last_entry().is_some_and(|last| last_id < last) {
            return Err(BELOW_LAST);
        }
        if !log.is_empty() && added.is_some_and(|added| log.len() > added) {
            return Err(FEWER_ADDED);
        }
        log.set_last(last_id, added, deleted);
        effects.add(("XSETID", ""), || args.from(2).map(|word| word.to_vec().into()).collect());
        Ok(())
    })?;
    set.ok_or(CommandError::NO_SUCH_KEY)??;
    reply.ok();
    Ok(())
}
