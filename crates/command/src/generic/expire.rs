//! EXPIRE: a time to live for a key.

use super::expire_options::expire;
use crate::parse::time_to_live::TimeForm;
use crate::prelude::*;

pub(super) static EXPIRE: Command = Command {
    name: "expire",
    summary: "Makes a key expire after some seconds.",
    since: "1.0.0",
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::integer("seconds").within(-10, 1_000_000),
        Arg::one_of(
            "condition",
            &[
                Arg::word("nx", "NX"),
                Arg::word("xx", "XX"),
                Arg::word("gt", "GT"),
                Arg::word("lt", "LT"),
            ],
        )
        .optional()
        .since("7.0.0"),
    ],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    example: "> SET lake deep\nOK\n\
        > EXPIRE lake 60\n(integer) 1\n\
        > TTL lake\n(integer) 60\n\
        > EXPIRE lake 10 GT\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    expire(cx, args, reply, TimeForm::Seconds, &EXPIRE)
}
