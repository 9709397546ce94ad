//! XTRIM: remove the first entries of a stream.

use super::removal::REFERENCES;
use super::trim_options::{TRIM_ARGS, TrimOptions};
use crate::prelude::*;

pub(super) static XTRIM: Command = Command {
    name: "xtrim",
    summary: "Removes the first entries of a stream.",
    since: "5.0.0",
    complexity: "O(N), N being the number of removed entries; times the number of groups, with \
        `DELREF`, and with `ACKED`, where N is that of the entries looked at",
    group: Group::Stream,
    arity: Arity::at_least(4),
    flags: Flags::EFFECT,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::block("trim", TRIM_ARGS), REFERENCES],
    history: &[("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option.")],
    note: "The words of Redis 8.2 are known: with `DELREF` what goes is not pending any more, and \
        with `ACKED` nothing goes that a group has yet to read or has pending, while what lies \
        behind it may go. With `ACKED` and `~` no more entries are looked at than `LIMIT` says.",
    tips: &["nondeterministic_output"],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XADD river 1-2 level 8\n\"1-2\"\n\
        > XTRIM river MAXLEN 1\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (options, _) = TrimOptions::read(args, None)?;
    let limits = cx.view.current_rules(args.key(0)).limits;
    let removed = cx.view.shrink_stream(args.key(0), |stream, effects| {
        let trimmed = options.apply(stream, &limits, effects, false);
        if trimmed.first_count() > 0 {
            let log = stream.log();
            effects.touch();
            effects.add(("XTRIM", ""), || trimmed.words(log).collect());
        }
        let removed = trimmed.count();
        trimmed.tell_others(effects);
        removed
    })?;
    reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}
