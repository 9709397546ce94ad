//! EXPIRE, EXPIREAT, PEXPIRE and PEXPIREAT: a time to live for a key.

use base::UnixMs;

use crate::handler::error::quoted;
use crate::parse::time_to_live::TimeForm;
use crate::prelude::*;

const NX_EXCLUDES: CommandError =
    CommandError::Fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_EXCLUDES_LT: CommandError =
    CommandError::Fixed("ERR GT and LT options at the same time are not compatible");

const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.optional()
.since("7.0.0");

pub(super) static EXPIRE: Command = Command {
    name: "expire",
    summary: "Makes a key expire after some seconds.",
    since: "1.0.0",
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("seconds").within(-10, 1_000_000), CONDITION],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    example: "> SET lake deep\nOK\n\
        > EXPIRE lake 60\n(integer) 1\n\
        > TTL lake\n(integer) 60\n\
        > EXPIRE lake 10 GT\n(integer) 0",
    handler: Handler::Write(|cx, args, reply| expire(cx, args, reply, TimeForm::Seconds, &EXPIRE)),
    ..Command::DEFAULT
};

pub(super) static EXPIREAT: Command = Command {
    name: "expireat",
    summary: "Makes a key expire at a second since the Unix epoch.",
    since: "1.2.0",
    args: &[
        Arg::key("key"),
        Arg::unix_time("unix-time-seconds").within(-10, 10_000_000_000),
        CONDITION,
    ],
    example: "> SET lake deep\nOK\n\
        > EXPIREAT lake 33177117420\n(integer) 1\n\
        > EXPIRETIME lake\n(integer) 33177117420",
    handler: Handler::Write(|cx, args, reply| {
        expire(cx, args, reply, TimeForm::UnixSeconds, &EXPIREAT)
    }),
    ..EXPIRE
};

pub(super) static PEXPIRE: Command = Command {
    name: "pexpire",
    summary: "Makes a key expire after some milliseconds.",
    since: "2.6.0",
    args: &[
        Arg::key("key"),
        Arg::integer("milliseconds").within(-10_000, 1_000_000_000),
        CONDITION,
    ],
    example: "> SET lake deep\nOK\n> PEXPIRE lake 60000\n(integer) 1\n> TTL lake\n(integer) 60",
    handler: Handler::Write(|cx, args, reply| {
        expire(cx, args, reply, TimeForm::Milliseconds, &PEXPIRE)
    }),
    ..EXPIRE
};

pub(super) static PEXPIREAT: Command = Command {
    name: "pexpireat",
    summary: "Makes a key expire at a millisecond since the Unix epoch.",
    since: "2.6.0",
    args: &[
        Arg::key("key"),
        Arg::unix_time("unix-time-milliseconds").within(-10_000, 10_000_000_000_000),
        CONDITION,
    ],
    example: "> SET lake deep\nOK\n\
        > PEXPIREAT lake 33177117420000\n(integer) 1\n\
        > PEXPIRETIME lake\n(integer) 33177117420000",
    handler: Handler::Write(|cx, args, reply| {
        expire(cx, args, reply, TimeForm::UnixMilliseconds, &PEXPIREAT)
    }),
    ..EXPIRE
};

/// Gives the request's key the time to live that is written in `form`.
///
/// A time that has come removes the key: the effect is a deletion, the reply the same.
fn expire(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: TimeForm,
    command: &'static Command,
) -> Result<(), Unfinished> {
    let conditions = Conditions::parse(args)?;
    let at = form.at(args.integer(2)?, cx.now(), command)?;
    let key = args.key(0);
    let current = cx.view.entry(key).map(|entry| entry.expiry());
    let is_taken = current.is_some_and(|current| conditions.allow(current, at));
    if is_taken && at <= cx.now() {
        cx.view.remove(key);
    } else if is_taken {
        cx.view.set_expiry(key, at)?;
    }
    reply.integer(i64::from(is_taken));
    Ok(())
}

/// When a new time to live is taken.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    /// NX: only where the key has none.
    absent: bool,
    /// XX: only where it has one.
    present: bool,
    /// GT: only a later one; none counts as endless.
    later: bool,
    /// LT: only an earlier one.
    earlier: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Conditions, CommandError> {
        let mut conditions = Conditions::default();
        for option in args.from(3) {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => conditions.absent = true,
                b"XX" => conditions.present = true,
                b"GT" => conditions.later = true,
                b"LT" => conditions.earlier = true,
                _ => {
                    // The option ends the line, and Redis trims newlines from the end of one.
                    let shown = quoted(option, option.len());
                    let is_shown = |byte: &u8| !b"\r\n".contains(byte);
                    let shown_bytes = shown.iter().rposition(is_shown).map_or(0, |last| last + 1);
                    let shown = &shown[..shown_bytes];
                    return Err(CommandError::text_of(&[b"ERR Unsupported option ", shown]));
                }
            }
        }
        let is_compared = conditions.later || conditions.earlier;
        if conditions.absent && (conditions.present || is_compared) {
            return Err(NX_EXCLUDES);
        }
        if conditions.later && conditions.earlier {
            return Err(GT_EXCLUDES_LT);
        }
        Ok(conditions)
    }

    fn allow(self, current: Option<UnixMs>, at: UnixMs) -> bool {
        !(self.absent && current.is_some()
            || self.present && current.is_none()
            || self.later && current.is_none_or(|current| at <= current)
            || self.earlier && current.is_some_and(|current| at >= current))
    }
}
