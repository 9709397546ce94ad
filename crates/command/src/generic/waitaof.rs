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
    note: "There is no append-only file and there are no replicas: `numlocal` 1 is refused, and \
           replicas are waited for in vain.",
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
    if local > 0 {
        return Err(NO_LOG.into());
    }
    if wanted == 0 || cx.session.executing.is_some() {
        nobody_has_it(reply);
        return Ok(Next::Done);
    }
    Err(Wait::new(timeout, nobody_has_it, 0).into())
}

/// Replies with the numbers of files here and of replicas that have the writes.
fn nobody_has_it(reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(0);
    reply.integer(0);
}
