//! What LPOP and RPOP share.

use collections::{End, List};

use crate::element::reply_element;
use crate::prelude::*;

/// Takes elements from `end` of the list at the request's key: one, or as many as it asks for.
pub(super) fn pop(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
    command: &'static Command,
) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::WrongArity(command));
    }
    if args.len() == 2 {
        let popped = cx.view.pop(args.key(0), end, 1, |list, _| reply_end(list, end, 1, reply))?;
        if popped.is_none() {
            reply.null();
        }
        return Ok(());
    }
    let count = args.count(2)?;
    if count == 0 {
        match cx.view.collection::<List>(args.key(0))? {
            Some(_) => reply.array(0),
            None => reply.null_array(),
        }
        return Ok(());
    }
    let popped = cx.view.pop(args.key(0), end, count, |list, count| {
        reply.array(count);
        reply_end(list, end, count, reply);
    })?;
    if popped.is_none() {
        reply.null_array();
    }
    Ok(())
}

/// Replies with `count` elements from `end` on, each on its own.
fn reply_end(list: &List, end: End, count: usize, reply: &mut Reply<'_>) {
    match end {
        End::Head => list.for_each(0, count, |element| reply_element(element, reply)),
        End::Tail => {
            list.iter_back().take(count).for_each(|element| reply_element(element, reply));
        }
    }
}
