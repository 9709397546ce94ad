//! What LPOP and RPOP share, and BLPOP and BRPOP.

use collections::{End, List};
use keyspace::ValueType;

use crate::handler::element::reply_element;
use crate::parse::timeout;
use crate::prelude::*;

/// Takes elements from `end` of the list at the request's key: one, or as many as it asks for.
pub(super) fn pop(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
    command: &'static Command,
) -> Result<(), Unfinished> {
    if args.len() > 3 {
        return Err(CommandError::WrongArity(command).into());
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

/// Takes one element from `end` of the first list among the request's keys. A key of another type
/// before it is an error; one behind it is not looked at.
pub(super) fn pop_first(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), Unfinished> {
    let timeout = timeout::seconds(args, args.len() - 1, cx.now())?;
    for key in args.keys() {
        let popped = cx.view.pop(key, end, 1, |list: &List, _| {
            reply.array(2);
            reply.bulk(key.bytes);
            reply_end(list, end, 1, reply);
        })?;
        if popped.is_some() {
            return Ok(());
        }
    }
    let wait = Wait::new(timeout, |reply| reply.null_array(), args.keys().len());
    Err(wait.of_type(ValueType::List).into())
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
