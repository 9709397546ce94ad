//! WAITAOF: until the writes of the session are in append-only files.

use base::number::parse_i64;

use crate::parse::timeout;
use crate::prelude::*;

const NOT_ONE: CommandError =
    CommandError::Fixed("ERR value is out of range, value must between 0 and 1");
const NO_LOG: CommandError = CommandError::Fixed(
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
);

pub(super) static WAITAOF: Command = Command {
    name: "waitaof",
    summary: "Waits until what the session wrote is on disk, here and on replicas.",
    since: "7.2.0",
    group: Group::Generic,
    arity: Arity::exactly(4),
    flags: Flags::BLOCKING.with(Flags::OF_SESSION),
    args: &[
        Arg::integer("numlocal").within(0, 0),
        Arg::integer("numreplicas").within(0, 0),
        Arg::integer("timeout").within(1, 2),
    ],
    note: "The log is made durable at once for it, whatever `appendfsync` says. There are no \
           replicas, which are waited for in vain; the first number is then that of the moment at \
           which the wait began.",
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    example: "> WAITAOF 0 0 100\n1) (integer) 0\n2) (integer) 0",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let local = args.integer(1)?;
    if !(0..=1).contains(&local) {
        return Err(NOT_ONE.into());
    }
    let wanted = parse_i64(args.at(2)).filter(|wanted| *wanted >= 0);
    let wanted = wanted.ok_or(CommandError::NOT_POSITIVE)?;
    let timeout = timeout::milliseconds(args, 3, cx.now)?;
    let durable = cx.host.durable_lsn();
    if local > 0 && durable.is_none() {
        return Err(NO_LOG.into());
    }
    let written = cx.session.written;
    let answer = match durable {
        Some(durable) if durable >= written => log_has_it,
        _ => nobody_has_it,
    };
    let is_there = wanted == 0 && (local == 0 || durable.is_some_and(|lsn| lsn >= written));
    if is_there || cx.session.executing.is_some() {
        answer(reply);
        return Ok(Next::Done);
    }
    if wanted == 0 {
        cx.session.durable_wait = Some((written, log_has_it));
    }
    Err(Wait::new(timeout, answer, 0).into())
}

/// Replies with the numbers of files here and of replicas that have the writes.
fn nobody_has_it(reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(0);
    reply.integer(0);
}

fn log_has_it(reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(1);
    reply.integer(0);
}
