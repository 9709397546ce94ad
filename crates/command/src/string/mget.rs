//! MGET: the strings at several keys.

use super::reply::reply_string;
use crate::prelude::*;

pub(super) static MGET: Command = Command {
    name: "mget",
    summary: "Returns the string at each key, nil where there is none.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys",
    group: Group::String,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::all_from(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key").multiple()],
    tips: &["request_policy:multi_shard"],
    example: "> MSET lake deep hill high\nOK\n\
        > MGET lake river hill\n1) \"deep\"\n2) (nil)\n3) \"high\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply.array(args.keys().len());
    for key in args.keys() {
        // A key of another type has no string, which is no error here.
        if reply_string(cx.view, key, reply).is_err() {
            reply.null();
        }
    }
    Ok(())
}
