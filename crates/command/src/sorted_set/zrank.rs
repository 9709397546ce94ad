//! ZRANK and ZREVRANK: the rank of a member.

use collections::{Direction, SortedSet};

use crate::prelude::*;

pub(super) static ZRANK: Command = Command {
    name: "zrank",
    summary: "Returns the rank of a member of a sorted set.",
    since: "2.0.0",
    complexity: "O(log N)",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::part("member"),
        Arg::word("withscore", "WITHSCORE").optional().since("7.2.0"),
    ],
    history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZRANK depths reef\n(integer) 1\n\
        > ZRANK depths reef WITHSCORE\n1) (integer) 1\n2) \"5\"",
    handler: Handler::Read(|cx, args, reply| reply_rank(cx, args, reply, Direction::Up, &ZRANK)),
    ..Command::DEFAULT
};

pub(super) static ZREVRANK: Command = Command {
    name: "zrevrank",
    summary: "Returns the rank of a member of a sorted set from the highest score.",
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREVRANK depths reef\n(integer) 0\n\
        > ZREVRANK depths reef WITHSCORE\n1) (integer) 0\n2) \"5\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_rank(cx, args, reply, Direction::Down, &ZREVRANK)
    }),
    ..ZRANK
};

/// Replies with the rank of the request's member in a request of `command`.
fn reply_rank(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    direction: Direction,
    command: &'static Command,
) -> Result<(), Unfinished> {
    let with_score = match args.len() {
        3 => false,
        4 if args.is(3, "WITHSCORE") => true,
        4 => return Err(CommandError::Syntax.into()),
        _ => return Err(CommandError::WrongArity(command).into()),
    };
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    let found = set.and_then(|set| {
        let (rank, score) = set.rank(args.at(2), cx.view.rules(key))?;
        let rank = if direction == Direction::Up { rank } else { set.len() - 1 - rank };
        Some((rank, score))
    });
    match found {
        Some((rank, score)) if with_score => {
            reply.array(2);
            reply.integer(rank as i64);
            reply.double(score);
        }
        Some((rank, _)) => reply.integer(rank as i64),
        None if with_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(())
}
