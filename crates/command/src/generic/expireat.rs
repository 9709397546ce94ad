//! EXPIREAT: a time to live for a key.

use super::expire_options::expire;
use crate::parse::time_to_live::TimeForm;
use crate::prelude::*;

pub(super) static EXPIREAT: Command = Command {
    name: "expireat",
    summary: "Makes a key expire at a second since the Unix epoch.",
    since: "1.2.0",
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::unix_time("unix-time-seconds").within(-10, 10_000_000_000),
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
        > EXPIREAT lake 33177117420\n(integer) 1\n\
        > EXPIRETIME lake\n(integer) 33177117420",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    expire(cx, args, reply, TimeForm::UnixSeconds, &EXPIREAT)
}
