//! What ZPOPMIN and ZPOPMAX share.

use collections::{Direction, SortedSet};

use crate::handler::element::reply_element;
use crate::prelude::*;
use resp::Protocol;

/// Takes members from one end of the sorted set at the request's key.
pub(crate) fn pop(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    direction: Direction,
) -> Result<(), Unfinished> {
    if args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let key = args.key(0);
    let count = if args.len() == 3 { args.count(2)? } else { 1 };
    if count == 0 {
        cx.view.collection::<SortedSet>(key)?;
        reply.array(0);
        return Ok(());
    }
    // Each member with its score is an array of its own where several are asked for.
    let is_nested = args.len() == 3 && reply.protocol() == Protocol::Resp3;
    cx.view.name_event(if direction == Direction::Up { "zpopmin" } else { "zpopmax" });
    let popped = cx.view.pop_scored(key, direction, count, |set, first, count| {
        reply.array(if is_nested { count } else { 2 * count });
        let start = if direction == Direction::Up { first } else { first + count - 1 };
        set.for_each(start, count, direction, |member, score| {
            if is_nested {
                reply.array(2);
            }
            reply_element(member, reply);
            reply.double(score);
        });
    })?;
    if popped.is_none() {
        reply.array(0);
    }
    Ok(())
}
