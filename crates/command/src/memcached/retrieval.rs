//! get, gets, gat, gats: the items at keys. Those of gat and gats are requests of their own.

use base::Key;
use keyspace::FoundItem;
use memcached::parse_i32;

use super::item::{
    FOUR_DIGITS_MIN, expiry_of, item, put_number, reply_data, set_expiry, short_line,
};
use super::{CHANGED_KEY, READ_KEY, READ_KEYS, ROW};
use crate::prelude::*;

/// The line before a value, at most, without its key.
const HEAD_BYTES_MAX: usize = 64;

pub(super) static GET: Command = read("memcached|get", READ_KEY, get::<false>);
pub(super) static GET_SOME: Command =
    read_several("memcached|get", |cx, args, reply| get_several(cx, args, reply, false, false));
pub(super) static GET_LAST: Command =
    read_several("memcached|get", |cx, args, reply| get_several(cx, args, reply, false, true));
pub(super) static GETS: Command = read("memcached|gets", READ_KEY, get::<true>);
pub(super) static GETS_SOME: Command =
    read_several("memcached|gets", |cx, args, reply| get_several(cx, args, reply, true, false));
pub(super) static GETS_LAST: Command =
    read_several("memcached|gets", |cx, args, reply| get_several(cx, args, reply, true, true));
pub(super) static GAT: Command =
    change("memcached|gat", |cx, args, reply| get_and_touch(cx, args, reply, false, false));
pub(super) static GAT_LAST: Command =
    change("memcached|gat", |cx, args, reply| get_and_touch(cx, args, reply, false, true));
pub(super) static GATS: Command =
    change("memcached|gats", |cx, args, reply| get_and_touch(cx, args, reply, true, false));
pub(super) static GATS_LAST: Command =
    change("memcached|gats", |cx, args, reply| get_and_touch(cx, args, reply, true, true));

type Read = fn(&ReadContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>;
type Change = fn(&mut WriteContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>;

const fn read(name: &'static str, keys: &'static [KeySpec], handler: Read) -> Command {
    Command { name, keys, handler: Handler::Read(handler), ..ROW }
}

const fn read_several(name: &'static str, handler: Read) -> Command {
    Command { flags: ROW.flags.with(Flags::PREFETCHES), ..read(name, READ_KEYS, handler) }
}

const fn change(name: &'static str, handler: Change) -> Command {
    Command { name, keys: CHANGED_KEY, handler: Handler::Write(handler), ..ROW }
}

#[inline]
fn get<const WITH_UNIQUE: bool>(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    reply_item(cx, args.key(0), WITH_UNIQUE, reply);
    reply.raw(b"END\r\n");
    Ok(())
}

fn get_several(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    with_unique: bool,
    is_last: bool,
) -> Result<(), Unfinished> {
    cx.view.ahead(args.keys()).for_each(|key| reply_item(cx, key, with_unique, reply));
    if is_last {
        reply.raw(b"END\r\n");
    }
    Ok(())
}

#[inline]
fn reply_item(cx: &ReadContext<'_>, key: &Key<'_>, with_unique: bool, reply: &mut Reply<'_>) {
    // Not moved out of the result: what is found is larger than the processor forwards at once.
    if let Ok(Some(found)) = &cx.view.item(key, true) {
        reply_head(key.bytes, found, with_unique, reply);
        reply_data(cx.view, key, found.value, reply);
    }
}

fn get_and_touch(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    with_unique: bool,
    is_last: bool,
) -> Result<(), Unfinished> {
    let key = args.key(0);
    let exptime = parse_i32(args.at(2)).expect("the decoder has read it");
    let view = cx.view.as_read();
    if let Some(found) = item(view, key, true) {
        // What expires at once is replied all the same.
        reply_head(key.bytes, &found, with_unique, reply);
        reply_data(view, key, found.value, reply);
        set_expiry(cx, key, expiry_of(exptime, cx.now()))?;
    }
    if is_last {
        reply.raw(b"END\r\n");
    }
    Ok(())
}

#[inline]
fn reply_head(key: &[u8], found: &FoundItem<'_>, with_unique: bool, reply: &mut Reply<'_>) {
    let out = reply.raw_out();
    out.reserve(HEAD_BYTES_MAX + key.len() + found.value.len().min(16 * 1024));
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    let (flags, length) = (found.flags(), found.value.len());
    if flags == 0 && length < FOUR_DIGITS_MIN && !with_unique {
        // Eight bytes at once, cut to those that are text: most heads end like this.
        let (end, count) = short_line(*b" 0 ", length);
        let text_end = out.len() + count;
        out.extend_from_slice(&end);
        return out.truncate(text_end);
    }
    out.push(b' ');
    put_number(out, u64::from(flags));
    out.push(b' ');
    put_number(out, length as u64);
    if with_unique {
        out.push(b' ');
        put_number(out, found.tail().unique);
    }
    out.extend_from_slice(b"\r\n");
}
