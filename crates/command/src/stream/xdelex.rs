//! XDELEX: remove entries of a stream, as the references of groups to them allow.

use collections::{Removal, Stream};

use super::removal::{
    Ended, ID_BLOCK, REFERENCES, RemovalRequest, known_id, reply_all_absent, tell_removed,
};
use crate::prelude::*;

pub(super) static XDELEX: Command = Command {
    name: "xdelex",
    summary: "Removes entries of a stream and says of each what became of it.",
    since: "8.2.0",
    complexity: "O(N log(M)), N being the number of identities and M that of entries; times the \
        number of groups, with `DELREF` and `ACKED`",
    group: Group::Stream,
    arity: Arity::at_least(5),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), REFERENCES, ID_BLOCK],
    note: "A command of Redis 8.2. It replies with 1 for each entry that it has removed, with -1 \
        where there is none, and with 2 where it stays: with `ACKED` an entry stays as long as a \
        group has yet to read it or has it pending. Where no group is, `ACKED` removes all. With \
        `KEEPREF`, which is the default, what is pending stays so; with `DELREF` it does not, even \
        if the entry itself is not there any more.",
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XDELEX river ACKED IDS 2 1-1 1-2\n1) (integer) 2\n2) (integer) -1\n\
        > XDELEX river DELREF IDS 1 1-1\n1) (integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RemovalRequest::parse(args, 2)?;
    if cx.view.collection::<Stream>(args.key(0))?.is_none() {
        reply_all_absent(request.ids, reply);
        return Ok(());
    }
    cx.view.shrink_stream(args.key(0), |stream, effects| {
        let is_heard = effects.is_heard();
        let (mut ended, mut count, mut gone) = (Ended::default(), 0, Vec::new());
        reply.array(request.ids.len());
        for index in request.ids {
            let id = known_id(args, index);
            let mut note = |name: &[u8], id| ended.note(is_heard, name, id);
            let removal = stream.remove_entry(id, request.references, &mut note);
            if removal == Removal::Removed {
                count += 1;
                gone.extend(is_heard.then_some(id));
            }
            reply.integer(number_of(removal));
        }
        tell_removed(effects, "", count, gone);
        ended.tell(effects);
    })?;
    Ok(())
}

/// Returns what stands for `removal` in replies.
pub(super) fn number_of(removal: Removal) -> i64 {
    match removal {
        Removal::Absent => -1,
        Removal::Removed => 1,
        Removal::Referenced => 2,
    }
}
