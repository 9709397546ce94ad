//! XTRIM: remove the first entries of a stream.

use super::trim_options::{TRIM_ARGS, TrimOptions};
use crate::prelude::*;

pub(super) static XTRIM: Command = Command {
    name: "xtrim",
    summary: "Removes the first entries of a stream.",
    since: "5.0.0",
    complexity: "O(N), N being the number of removed entries",
    group: Group::Stream,
    arity: Arity::at_least(4),
    flags: Flags::EFFECT,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::block("trim", TRIM_ARGS)],
    history: &[("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option.")],
    tips: &["nondeterministic_output"],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XADD river 1-2 level 8\n\"1-2\"\n\
        > XTRIM river MAXLEN 1\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (options, _) = TrimOptions::read(args, None)?;
    let limits = cx.view.current_rules(args.key(0)).limits;
    let bounds = options.bounds(&limits);
    let removed = cx.view.shrink_stream(args.key(0), |stream, effects| {
        let log = stream.log_mut();
        let removed = options.trim.map_or(0, |trim| log.trim(trim, bounds));
        if removed > 0 {
            let length = log.len();
            effects.touch();
            effects.add(("XTRIM", ""), || {
                let words = ["MAXLEN".into(), "=".into(), length.to_string()];
                words.map(|word: String| word.into_bytes().into()).to_vec()
            });
        }
        removed
    })?;
    reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}
