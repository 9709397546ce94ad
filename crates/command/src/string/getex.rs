//! GETEX: the string at a key, and a new time to live.

use keyspace::Expiry;

use super::reply::reply_part;
use super::set_options::Time;
use crate::parse::time_to_live::{EX, EXAT, PX, PXAT};
use crate::prelude::*;

pub(super) static GETEX: Command = Command {
    name: "getex",
    summary: "Returns the string at a key and may change when the key expires.",
    since: "6.2.0",
    group: Group::String,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))
        .note("RW and UPDATE because it changes the TTL")],
    args: &[
        Arg::key("key"),
        Arg::one_of("expiration", &[EX, PX, EXAT, PXAT, Arg::word("persist", "PERSIST")])
            .optional(),
    ],
    example: "> SET lake deep\nOK\n> GETEX lake EX 60\n\"deep\"\n> TTL lake\n(integer) 60",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let time = Time::of_getex(args)?;
    let key = args.key(0);
    let view = cx.view.as_read();
    let Some(value) = view.string(key)? else {
        reply.null();
        return Ok(());
    };
    reply_part(view, key, value, 0..value.len(), reply);
    match (time, time.expiry(cx.now(), &GETEX)?) {
        (Time::Persist, _) => {
            cx.view.persist(key)?;
        }
        (Time::Set(form, _), Expiry::At(at)) if form.is_absolute() && at <= cx.now() => {
            cx.view.remove(key);
        }
        (_, Expiry::At(at)) => {
            cx.view.set_expiry(key, at)?;
        }
        _ => {}
    }
    Ok(())
}
