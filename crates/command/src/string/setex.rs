//! SETEX and PSETEX: a string that expires after some time.

use keyspace::Expiry;

use crate::parse::time_to_live::TimeForm;
use crate::prelude::*;

pub(super) static SETEX: Command = Command {
    name: "setex",
    summary: "Makes a key hold a string that expires after some seconds.",
    since: "2.0.0",
    group: Group::String,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE))],
    value_at: Some(3),
    args: &[Arg::key("key"), Arg::integer("seconds").within(1, 1_000_000), Arg::string("value")],
    deprecated: Some(("2.6.12", "`SET` with the `EX` argument")),
    example: "> SETEX lake 60 deep\nOK\n> TTL lake\n(integer) 60",
    handler: Handler::Write(|cx, args, reply| set(cx, args, reply, TimeForm::Seconds, &SETEX)),
    ..Command::DEFAULT
};

pub(super) static PSETEX: Command = Command {
    name: "psetex",
    summary: "Makes a key hold a string that expires after some milliseconds.",
    since: "2.6.0",
    args: &[
        Arg::key("key"),
        Arg::integer("milliseconds").within(1, 1_000_000_000),
        Arg::string("value"),
    ],
    deprecated: Some(("2.6.12", "`SET` with the `PX` argument")),
    example: "> PSETEX lake 60000 deep\nOK\n> TTL lake\n(integer) 60",
    handler: Handler::Write(|cx, args, reply| {
        set(cx, args, reply, TimeForm::Milliseconds, &PSETEX)
    }),
    ..SETEX
};

fn set(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: TimeForm,
    command: &'static Command,
) -> Result<(), Unfinished> {
    let at = form.positive(args.at(2), cx.now(), command)?;
    cx.view.set(args.key(0), args.at(3), Expiry::At(at))?;
    reply.ok();
    Ok(())
}
