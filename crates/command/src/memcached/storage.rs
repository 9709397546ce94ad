//! set, add, replace, append, prepend, cas; incr, decr, touch, delete.

use keyspace::Expiry;
use memcached::{Fault, parse_delta, parse_flags, parse_i32};

use super::item::{
    Counted, Mode, Step, Storage, StoreOutcome, count, expiry_of, item, put_number, reply_fault,
    set_expiry, store,
};
use super::{CHANGED_KEY, ROW, SET_KEY};
use crate::prelude::*;

type Change = fn(&mut WriteContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>;

const fn row(name: &'static str, flags: Flags, handler: Change) -> Command {
    let flags = flags.with(Flags::FAST);
    Command { name, flags, keys: CHANGED_KEY, handler: Handler::Write(handler), ..ROW }
}

pub(super) static SET: Command = Command {
    keys: SET_KEY,
    ..row("memcached|set", Flags::DENYOOM, |cx, args, reply| run(Mode::Set, cx, args, reply))
};
pub(super) static ADD: Command =
    row("memcached|add", Flags::DENYOOM, |cx, args, reply| run(Mode::Add, cx, args, reply));
pub(super) static REPLACE: Command =
    row("memcached|replace", Flags::DENYOOM, |cx, args, reply| run(Mode::Replace, cx, args, reply));
pub(super) static APPEND: Command =
    row("memcached|append", Flags::DENYOOM, |cx, args, reply| run(Mode::Append, cx, args, reply));
pub(super) static PREPEND: Command =
    row("memcached|prepend", Flags::DENYOOM, |cx, args, reply| run(Mode::Prepend, cx, args, reply));
pub(super) static CAS: Command =
    row("memcached|cas", Flags::DENYOOM, |cx, args, reply| run(Mode::Set, cx, args, reply));
pub(super) static TOO_LARGE: Command = row("memcached|set", Flags::NONE, |cx, args, reply| {
    // As in memcached, what was there is not what the client believes to be there.
    cx.view.remove(args.key(0));
    reply_fault(Fault::TooLarge, reply);
    Ok(())
});
pub(super) static INCR: Command =
    row("memcached|incr", Flags::DENYOOM, |cx, args, reply| arithmetic(true, cx, args, reply));
pub(super) static DECR: Command =
    row("memcached|decr", Flags::DENYOOM, |cx, args, reply| arithmetic(false, cx, args, reply));
pub(super) static TOUCH: Command = row("memcached|touch", Flags::NONE, |cx, args, reply| {
    let key = args.key(0);
    let exptime = parse_i32(args.at(2)).expect("the decoder has read it");
    if item(cx.view.as_read(), key, true).is_none() {
        reply.raw(b"NOT_FOUND\r\n");
        return Ok(());
    }
    set_expiry(cx, key, expiry_of(exptime, cx.now()))?;
    reply.raw(b"TOUCHED\r\n");
    Ok(())
});
pub(super) static DELETE: Command = row("memcached|delete", Flags::NONE, |cx, args, reply| {
    let line: &[u8] = match cx.view.remove(args.key(0)) {
        true => b"DELETED\r\n",
        false => b"NOT_FOUND\r\n",
    };
    reply.raw(line);
    Ok(())
});

#[inline]
fn run(
    mode: Mode,
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    const READ: &str = "the decoder has read it";
    let unique = (args.len() > 5).then(|| parse_delta(args.at(5)).expect(READ));
    let storage = Storage {
        mode,
        value: args.at(4),
        flags: parse_flags(args.at(2)).expect(READ),
        expiry: expiry_of(parse_i32(args.at(3)).expect(READ), cx.now()),
        unique,
        new_unique: None,
        admits_stale: false,
        vivifies: false,
    };
    let line: &[u8] = match store(cx, args.key(0), &storage)? {
        StoreOutcome::Done(_) => b"STORED\r\n",
        StoreOutcome::Refused => b"NOT_STORED\r\n",
        StoreOutcome::Exists => b"EXISTS\r\n",
        StoreOutcome::NotFound => b"NOT_FOUND\r\n",
    };
    reply.raw(line);
    Ok(())
}

fn arithmetic(
    is_increment: bool,
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let delta = parse_delta(args.at(2)).expect("the decoder has read it");
    let step = Step { delta, is_increment };
    match count(cx, args.key(0), step, None, Expiry::Keep)? {
        Counted::Value(number, _) => {
            put_number(reply.raw_out(), number);
            reply.raw(b"\r\n");
        }
        Counted::NotFound | Counted::Exists => reply.raw(b"NOT_FOUND\r\n"),
        Counted::NotNumber => reply.raw(NOT_NUMBER),
    }
    Ok(())
}

/// The reply to arithmetic on what is no number.
pub(super) const NOT_NUMBER: &[u8] =
    b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
