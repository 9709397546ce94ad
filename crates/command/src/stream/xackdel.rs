//! XACKDEL: end that entries are pending, and remove them as the references of other groups allow.

use collections::{Removal, Stream};

use super::GROUP;
use super::removal::{
    Ended, ID_BLOCK, REFERENCES, RemovalRequest, known_id, reply_all_absent, tell_removed,
};
use super::xdelex::number_of;
use crate::prelude::*;

pub(super) static XACKDEL: Command = Command {
    name: "xackdel",
    summary: "Acknowledges entries that a group was given, and removes them.",
    since: "8.2.0",
    complexity: "O(N log(M)), N being the number of identities and M that of entries; times the \
        number of groups, with `DELREF` and `ACKED`",
    group: Group::Stream,
    arity: Arity::at_least(6),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE).with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), GROUP, REFERENCES, ID_BLOCK],
    note: "A command of Redis 8.2. It replies with 1 for each entry that was pending in the group \
        and is gone, with -1 where it was not pending in the group, which changes nothing, and \
        with 2 where it was pending and stays. The words have the meaning that they have in \
        XDELEX.",
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XREADGROUP GROUP readers ada STREAMS river >\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XACKDEL river readers ACKED IDS 2 1-1 1-2\n1) (integer) 1\n2) (integer) -1\n\
        > XLEN river\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RemovalRequest::parse(args, 3)?;
    let (key, name) = (args.key(0), args.at(2));
    let stream = cx.view.collection::<Stream>(key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        reply_all_absent(request.ids, reply);
        return Ok(());
    }
    cx.view.shrink_stream(key, |stream, effects| {
        let is_heard = effects.is_heard();
        let (mut ended, mut count, mut gone) = (Ended::default(), 0, Vec::new());
        reply.array(request.ids.len());
        for index in request.ids {
            let id = known_id(args, index);
            let acknowledged = stream.change_group(name, |_, group| group.acknowledge(id));
            if acknowledged != Some(true) {
                reply.integer(-1);
                continue;
            }
            ended.note(is_heard, name, id);
            let mut note = |name: &[u8], id| ended.note(is_heard, name, id);
            let removal = stream.remove_entry(id, request.references, &mut note);
            if removal == Removal::Removed {
                count += 1;
                gone.extend(is_heard.then_some(id));
            }
            // An entry that is not there any more is gone.
            let is_gone = removal == Removal::Absent;
            reply.integer(number_of(if is_gone { Removal::Removed } else { removal }));
        }
        ended.tell(effects);
        tell_removed(effects, "", count, gone);
    })?;
    Ok(())
}
