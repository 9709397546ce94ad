//! The commands of streams.

mod claims;
mod removal;
mod trim_options;
mod xack;
mod xackdel;
mod xadd;
mod xautoclaim;
mod xcfgset;
mod xclaim;
mod xdel;
mod xdelex;
mod xgroup;
mod xinfo;
mod xlen;
mod xnack;
mod xpending;
mod xrange;
mod xread;
mod xreadgroup;
mod xsetid;
mod xtrim;

use std::borrow::Cow;

use base::number::parse_i64;
use collections::{Entries, StreamId};
use resp::Reply;

use crate::handler::element::reply_element;
use crate::handler::error::{CommandError, quoted};
use crate::handler::request::Args;
use crate::table::argument::Arg;
use crate::table::row::Command;

pub(crate) static STREAM: &[&Command] = &[
    &xack::XACK,
    &xackdel::XACKDEL,
    &xadd::XADD,
    &xautoclaim::XAUTOCLAIM,
    &xcfgset::XCFGSET,
    &xclaim::XCLAIM,
    &xdel::XDEL,
    &xdelex::XDELEX,
    &xgroup::XGROUP,
    &xcfgset::XIDMPRECORD,
    &xinfo::XINFO,
    &xlen::XLEN,
    &xnack::XNACK,
    &xpending::XPENDING,
    &xrange::XRANGE,
    &xread::XREAD,
    &xreadgroup::XREADGROUP,
    &xrange::XREVRANGE,
    &xsetid::XSETID,
    &xtrim::XTRIM,
];

const INVALID_ID: CommandError =
    CommandError::Fixed("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: CommandError = CommandError::Fixed("ERR invalid start ID for the interval");
const INVALID_END: CommandError = CommandError::Fixed("ERR invalid end ID for the interval");

/// Names of groups, and of consumers, for generators.
const GROUP: Arg = Arg::string("group").among(&["g", "h"]);
const CONSUMER: Arg = Arg::string("consumer").among(&["alice", "bob"]);
/// Identities that generators draw.
const IDS: &[&str] = &["1-0", "2-0", "3-0", "3-1", "4-0", "4-1", "4-2", "4-3", "4-4", "4-5"];

/// Returns the identity that argument `index` is, which has number 0 where it has none.
fn strict_id(args: Args<'_>, index: usize) -> Result<StreamId, CommandError> {
    strict_id_of(args.at(index)).ok_or(INVALID_ID)
}

fn strict_id_of(text: &[u8]) -> Option<StreamId> {
    StreamId::parse(text, 0)
}

/// As [`strict_id`], with number `sequence`; `-` is the first of all, and `+` the last.
fn loose_id(args: Args<'_>, index: usize, sequence: u64) -> Result<StreamId, CommandError> {
    match args.at(index) {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => StreamId::parse(text, sequence).ok_or(INVALID_ID),
    }
}

/// Returns the first identity of a range that begins at argument `index`, or behind it.
fn range_start(args: Args<'_>, index: usize) -> Result<StreamId, CommandError> {
    match args.at(index) {
        [b'(', text @ ..] if !text.is_empty() => {
            let before = StreamId::parse(text, 0).ok_or(INVALID_ID)?;
            before.next().ok_or(INVALID_START)
        }
        _ => loose_id(args, index, 0),
    }
}

/// Returns the last identity of a range that ends at argument `index`, or before it.
fn range_end(args: Args<'_>, index: usize) -> Result<StreamId, CommandError> {
    match args.at(index) {
        [b'(', text @ ..] if !text.is_empty() => {
            let behind = StreamId::parse(text, u64::MAX).ok_or(INVALID_ID)?;
            behind.previous().ok_or(INVALID_END)
        }
        _ => loose_id(args, index, u64::MAX),
    }
}

/// Returns argument `index` as an integer; the error is `text` where it is none.
fn integer_or(args: Args<'_>, index: usize, text: &'static str) -> Result<i64, CommandError> {
    parse_i64(args.at(index)).ok_or(CommandError::Fixed(text))
}

/// Returns the error that there is no such group, in the words of most commands.
#[cold]
fn no_group(key: &[u8], group: &[u8], rest: &[u8]) -> CommandError {
    let [key, group] = [key, group].map(|name| quoted(name, usize::MAX));
    let parts: [&[u8]; 6] =
        [b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'", rest];
    CommandError::text_of(&parts)
}

/// Returns the error that there is no such group, in the words of XGROUP and XINFO.
#[cold]
fn no_group_of(key: &[u8], group: &[u8]) -> CommandError {
    let [key, group] = [key, group].map(|name| quoted(name, usize::MAX));
    let parts: [&[u8]; 5] =
        [b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"];
    CommandError::text_of(&parts)
}

fn reply_id(id: StreamId, reply: &mut Reply<'_>) {
    reply.bulk(id.to_text().as_bytes());
}

/// Returns the text of `id`, as an argument of an effect.
fn id_text(id: StreamId) -> Cow<'static, [u8]> {
    id.to_text().as_bytes().to_vec().into()
}

/// Replies with entry `id`, at which `entries` is.
#[inline]
fn reply_entry(id: StreamId, entries: &mut Entries<'_>, reply: &mut Reply<'_>) {
    reply.array(2);
    reply_id(id, reply);
    reply.array(2 * entries.field_count());
    while let Some((field, value)) = entries.next_field() {
        reply_element(field, reply);
        reply_element(value, reply);
    }
}

/// Replies with up to `count` of `entries`; 0 is all.
fn reply_entries(mut entries: Entries<'_>, count: u64, reply: &mut Reply<'_>) {
    let (array, mut found) = (reply.deferred(), 0);
    while (count == 0 || found < count)
        && let Some(id) = entries.advance()
        && !reply.is_cut()
    {
        reply_entry(id, &mut entries, reply);
        found += 1;
    }
    reply.finish(array, |reply| reply.array(found as usize));
}
