//! The meta commands: mg, ms, md, ma, mn, me.

use base::{Key, UnixMs};
use keyspace::{Expiry, FoundItem, ItemTail};
use memcached::{MetaFlags, MetaMode, encode_binary_key};

use super::item::{
    Counted, FOUR_DIGITS_MIN, Mode, Step, Storage, StoreOutcome, count, expiry_of, item,
    put_number, reply_data, set_expiry, short_line, store,
};
use super::storage::NOT_NUMBER;
use super::{CHANGED_KEY, READ_KEY, ROW};
use crate::prelude::*;

const READ: &str = "the decoder has read the flags";
/// The longest lease, in milliseconds: an hour, as of LGET.
const LEASE_MS_MAX: i64 = 3_600_000;
/// By how much the lease beside an item may pass the memory limit: more than the lease takes, and
/// the page that the item may have taken beyond the limit.
const LEASE_OVERSHOOT_BYTES: u64 = 8_192;

pub(super) static GET: Command = Command {
    name: "memcached|mg",
    keys: READ_KEY,
    handler: Handler::Read(|cx, args, reply| {
        let key = args.key(0);
        // Not moved out of the result: what is found is larger than the processor forwards at once.
        match &cx.view.item(key, true) {
            // Most requests and most items: no flags are read, nothing is looked for twice.
            Ok(Some(found)) if asks_for_value_alone(args) && is_settled(found) => {
                reply_value_head(found, reply);
                reply_data(cx.view, key, found.value, reply);
            }
            Ok(Some(found)) => reply_hit(cx, args, found, reply),
            Ok(None) | Err(_) => {
                let flags = MetaFlags::parse(args.from(2)).expect(READ);
                reply_miss(args, &flags, reply);
            }
        }
        Ok(())
    }),
    ..ROW
};

pub(super) static GET_CHANGING: Command = Command {
    name: "memcached|mg",
    keys: CHANGED_KEY,
    flags: Flags::FAST.with(Flags::DENYOOM),
    handler: Handler::Write(|cx, args, reply| {
        let flags = MetaFlags::parse(args.from(2)).expect(READ);
        if !get_changing(cx, args, &flags, reply)? {
            reply_miss(args, &flags, reply);
        }
        Ok(())
    }),
    ..ROW
};

pub(super) static GET_VIVIFYING: Command = Command {
    name: "memcached|mg",
    keys: CHANGED_KEY,
    flags: Flags::FAST.with(Flags::DENYOOM).with(Flags::LEASES),
    handler: Handler::Write(get_vivifying),
    ..ROW
};

pub(super) static SET: Command = Command {
    name: "memcached|ms",
    keys: CHANGED_KEY,
    flags: Flags::FAST.with(Flags::DENYOOM),
    handler: Handler::Write(set),
    ..ROW
};

pub(super) static DELETE: Command =
    Command { name: "memcached|md", keys: CHANGED_KEY, handler: Handler::Write(delete), ..ROW };

pub(super) static ARITHMETIC: Command = Command {
    name: "memcached|ma",
    keys: CHANGED_KEY,
    flags: Flags::FAST.with(Flags::DENYOOM),
    handler: Handler::Write(arithmetic),
    ..ROW
};

pub(super) static NOOP: Command = Command {
    name: "memcached|mn",
    group: Group::Connection,
    handler: Handler::Session(|_, _, reply| {
        reply.raw(b"MN\r\n");
        Ok(Next::Done)
    }),
    ..ROW
};

pub(super) static DEBUG: Command = Command {
    name: "memcached|me",
    keys: READ_KEY,
    handler: Handler::Read(|cx, args, reply| {
        let key = args.key(0);
        let Some(found) = item(cx.view, key, false) else {
            reply.raw(b"EN\r\n");
            return Ok(());
        };
        let size = cx.view.inspect(key).map_or(0, |object| object.memory_bytes());
        let expires = seconds_left(found.expiry, cx.now());
        reply.raw(b"ME ");
        put_key(reply.raw_out(), args.at(1), args.len() > 2);
        let fetched = if found.was_fetched { "yes" } else { "no" };
        let idle = found.idle_seconds(cx.now());
        let accessed = idle.map_or_else(String::new, |idle| format!(" la={idle}"));
        let unique = found.tail().unique;
        let line =
            format!(" exp={expires}{accessed} cas={unique} fetch={fetched} cls=1 size={size}\r\n");
        reply.raw(line.as_bytes());
        Ok(())
    }),
    ..ROW
};

/// Whether the client that asks is the one to make a value anew.
#[derive(Clone, Copy)]
struct Win {
    /// Seconds until the item expires; none where it does not.
    seconds_left: Option<i64>,
    /// Somebody has been told to make it.
    was_told: bool,
    /// It was made for this request.
    is_new: bool,
    /// The flags are looked at as they follow each other: those of this request change the time.
    time: UnixMs,
}

impl Win {
    fn of(found: &FoundItem<'_>, now: UnixMs) -> Win {
        let left = seconds_left(found.expiry, now);
        let seconds_left = (found.expiry.is_some()).then_some(left);
        Win { seconds_left, was_told: found.is_won, is_new: false, time: now }
    }
}

impl Win {
    /// Has the item expire as a flag of this request says: flags count in their order.
    fn set_exptime(&mut self, exptime: Option<i32>) {
        self.seconds_left = match expiry_of(exptime.unwrap_or(0), self.time) {
            Expiry::At(at) => Some(seconds_left(Some(at), self.time)),
            _ => None,
        };
    }
}

/// Returns the time to live that the flags set: of several the last one counts.
fn exptime_of(args: Args<'_>, flags: &MetaFlags, is_new: bool) -> Option<i32> {
    let of_token = |token: &[u8]| match token[0] {
        b'T' => flags.ttl,
        b'N' if is_new => flags.vivify,
        _ => None,
    };
    args.from(2).filter_map(of_token).last()
}

/// Returns the seconds until `expiry`, as memcached's clock has them; -1 for never.
fn seconds_left(expiry: Option<UnixMs>, now: UnixMs) -> i64 {
    expiry.map_or(-1, |at| (at.0 - now.0 + 999).div_euclid(1000).max(0))
}

/// Returns whether a get has the flag `v` and no other.
#[inline]
fn asks_for_value_alone(args: Args<'_>) -> bool {
    args.len() == 3 && args.at(2) == b"v"
}

/// Returns whether a status line tells nothing of `found` that was not asked for.
#[inline]
fn is_settled(found: &FoundItem<'_>) -> bool {
    !found.is_won && !found.is_stale() && !found.is_in_the_making()
}

/// Writes the status line of [`reply_item`] for the flag `v` alone and an item that is settled.
#[inline]
fn reply_value_head(found: &FoundItem<'_>, reply: &mut Reply<'_>) {
    let (out, length) = (reply.raw_out(), found.value.len());
    out.reserve(64 + length.min(16 * 1024));
    if length < FOUR_DIGITS_MIN {
        let (head, count) = short_line(*b"VA ", length);
        let text_end = out.len() + count;
        out.extend_from_slice(&head);
        return out.truncate(text_end);
    }
    out.extend_from_slice(b"VA ");
    put_number(out, length as u64);
    out.extend_from_slice(b"\r\n");
}

/// Replies to a get that has found an item.
fn reply_hit(cx: &ReadContext<'_>, args: Args<'_>, found: &FoundItem<'_>, reply: &mut Reply<'_>) {
    let (key, flags) = (args.key(0), MetaFlags::parse(args.from(2)).expect(READ));
    if reply_item(args, 2, &flags, found, Win::of(found, cx.now()), reply) {
        cx.view.mark_won(key);
    }
    if flags.value {
        reply_data(cx.view, key, found.value, reply);
    }
}

/// Writes the status line of a hit, with what the flags from argument `first` on ask for. Returns
/// whether the client has won.
fn reply_item(
    args: Args<'_>,
    first: usize,
    flags: &MetaFlags,
    found: &FoundItem<'_>,
    mut win: Win,
    reply: &mut Reply<'_>,
) -> bool {
    let out = reply.raw_out();
    out.reserve(128 + found.value.len().min(16 * 1024));
    match flags.value {
        true => {
            out.extend_from_slice(b"VA ");
            put_number(out, found.value.len() as u64);
        }
        false => out.extend_from_slice(b"HD"),
    }
    let mut wins = win.is_new;
    for token in args.from(first) {
        match token[0] {
            b'T' => win.set_exptime(flags.ttl),
            b'N' if win.is_new => win.set_exptime(flags.vivify),
            b'R' if !win.was_told && !win.is_new => {
                let recache = expiry_of(flags.recache.unwrap_or(0), win.time);
                let limit = match recache {
                    Expiry::At(at) => seconds_left(Some(at), win.time),
                    _ => 0,
                };
                wins |= win.seconds_left.is_some_and(|left| left < limit);
            }
            b's' => put_flag(out, b's', found.value.len() as u64),
            b't' => put_time(out, win.seconds_left),
            b'c' => put_flag(out, b'c', found.tail().unique),
            b'f' => put_flag(out, b'f', u64::from(found.flags())),
            b'l' => {
                if let Some(idle) = found.idle_seconds(win.time) {
                    put_flag(out, b'l', idle);
                }
            }
            b'h' => put_flag(out, b'h', u64::from(found.was_fetched)),
            _ => put_identity(out, args, token, flags),
        }
    }
    if win.was_told {
        out.extend_from_slice(b" Z");
    }
    if found.is_stale() {
        out.extend_from_slice(b" X");
    }
    if found.is_stale() || found.is_in_the_making() {
        wins |= !win.was_told;
    }
    if wins {
        out.extend_from_slice(b" W");
    }
    out.extend_from_slice(b"\r\n");
    wins
}

/// Appends what of the request is replied: its opaque token, its key.
fn put_identity(out: &mut Vec<u8>, args: Args<'_>, token: &[u8], flags: &MetaFlags) {
    match token[0] {
        b'O' => {
            out.push(b' ');
            out.extend_from_slice(token);
        }
        b'k' => {
            out.extend_from_slice(b" k");
            put_key(out, args.at(1), flags.key_is_binary);
            if flags.key_is_binary {
                out.extend_from_slice(b" b");
            }
        }
        _ => {}
    }
}

fn put_key(out: &mut Vec<u8>, key: &[u8], is_binary: bool) {
    match is_binary {
        true => encode_binary_key(key, out),
        false => out.extend_from_slice(key),
    }
}

fn put_flag(out: &mut Vec<u8>, letter: u8, number: u64) {
    out.extend_from_slice(&[b' ', letter]);
    put_number(out, number);
}

fn reply_miss(args: Args<'_>, flags: &MetaFlags, reply: &mut Reply<'_>) {
    if !flags.quiet {
        reply_status(b"EN", args, flags, reply);
    }
}

/// Replies the item at `key` and changes its time to live. Returns whether there is one.
fn get_changing(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    flags: &MetaFlags,
    reply: &mut Reply<'_>,
) -> Result<bool, Unfinished> {
    let (key, now) = (args.key(0), cx.now());
    let view = cx.view.as_read();
    let Some(found) = item(view, key, true) else { return Ok(false) };
    let expiry = flags.ttl.map_or(Expiry::Keep, |ttl| expiry_of(ttl, now));
    let wins = reply_item(args, 2, flags, &found, Win::of(&found, now), reply);
    if flags.value {
        reply_data(view, key, found.value, reply);
    }
    set_expiry(cx, key, expiry)?;
    if wins {
        cx.view.as_read().mark_won(key);
    }
    Ok(true)
}

/// As [`get_changing`]; where there is no item the first client that asks has an empty one made,
/// which says that it is in the making, and is to fill the key. The lease that it holds meanwhile
/// is for the clients of LGET, to whom that item is none; whoever holds one by LGET has won before.
fn get_vivifying(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let flags = MetaFlags::parse(args.from(2)).expect(READ);
    let (key, now) = (args.key(0), cx.now());
    if cx.uploads.has_adopted() {
        cx.own(args.keys())?;
    }
    if get_changing(cx, args, &flags, reply)? {
        return Ok(());
    }
    if cx.view.contains(key) {
        // A value that memcached's clients do not see is not replaced by an empty one.
        reply_miss(args, &flags, reply);
        return Ok(());
    }
    let unique = cx.view.next_unique(key);
    let tail = ItemTail { unique, is_in_the_making: true, ..ItemTail::default() };
    let is_won = cx.view.lease_ms_left(key).is_some();
    let is_new = !is_won;
    let overshoot = cx.memory_policy.overshoot_bytes_max();
    if is_new {
        if cx.prepares {
            // A cache is full as a rule: what the lease takes is evicted before the item is made.
            let admitted = cx.view.admit_leases(args.keys(), cx.session, overshoot);
            admitted.map_err(|need| Unfinished::AgainAnyway(Need::Room(need)))?;
        }
        let expiry = expiry_of(exptime_of(args, &flags, true).unwrap_or(0), now);
        cx.view.set_item(key, b"", tail, expiry)?;
        let view = cx.view.as_read();
        view.mark_won(key);
        view.mark_fetched(key);
        let ms = match expiry {
            Expiry::At(at) => (at.0 - now.0).clamp(0, LEASE_MS_MAX),
            _ => LEASE_MS_MAX,
        };
        if ms > 0 {
            // The item may have taken what there was room for. Without any the item alone says
            // that the client has won.
            let overshoot = overshoot.max(LEASE_OVERSHOOT_BYTES);
            let _answer = cx.view.lease(key, cx.session, ms as u64, overshoot);
        }
    }
    let found = cx.view.as_read().item_in_the_making(key, tail, is_won);
    reply_item(args, 2, &flags, &found, Win { is_new, ..Win::of(&found, now) }, reply);
    if flags.value {
        reply.raw(b"\r\n");
    }
    Ok(())
}

fn set(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let flags = MetaFlags::parse(args.from(3)).expect(READ);
    let (key, now) = (args.key(0), cx.now());
    let (mode, vivifies) = match flags.mode {
        MetaMode::Letter(b'E' | b'e') => (Mode::Add, false),
        MetaMode::Letter(b'A' | b'a') => (Mode::Append, flags.vivify.is_some()),
        MetaMode::Letter(b'P' | b'p') => (Mode::Prepend, flags.vivify.is_some()),
        MetaMode::Letter(b'R' | b'r') => (Mode::Replace, false),
        _ => (Mode::Set, false),
    };
    let exptime = if vivifies { flags.vivify } else { flags.ttl };
    let storage = Storage {
        mode,
        value: args.at(2),
        flags: flags.flags,
        expiry: expiry_of(exptime.unwrap_or(0), now),
        unique: flags.unique.filter(|_| mode != Mode::Add),
        new_unique: flags.new_unique,
        admits_stale: flags.invalidate,
        vivifies,
    };
    let stored = store(cx, key, &storage)?;
    let unique = match stored {
        StoreOutcome::Done(_) if flags.quiet => return Ok(()),
        StoreOutcome::Done(unique) => unique,
        _ => 0,
    };
    let out = reply.raw_out();
    out.extend_from_slice(match stored {
        StoreOutcome::Done(_) => b"HD",
        StoreOutcome::Refused => b"NS",
        StoreOutcome::Exists => b"EX",
        StoreOutcome::NotFound => b"NF",
    });
    for token in args.from(3) {
        match token[0] {
            b'c' => put_flag(out, b'c', unique),
            _ => put_identity(out, args, token, &flags),
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn delete(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let flags = MetaFlags::parse(args.from(2)).expect(READ);
    let key = args.key(0);
    let unique = item(cx.view.as_read(), key, false).map(|it| it.tail().unique);
    let status = match unique {
        None if !cx.view.contains(key) => {
            // For whoever fills the key: what it has read is from before this.
            cx.view.remove(key);
            b"NF"
        }
        None if flags.invalidate => b"NF",
        Some(unique) if flags.unique.is_some_and(|wanted| wanted != unique) => b"EX",
        _ if flags.invalidate => {
            make_stale(cx, key, &flags)?;
            b"HD"
        }
        _ => {
            cx.view.remove(key);
            b"HD"
        }
    };
    if flags.quiet && status == b"HD" {
        return Ok(());
    }
    reply_status(status, args, &flags, reply);
    Ok(())
}

/// Marks the item at `key` as stale: the next client that asks makes it anew.
fn make_stale(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    flags: &MetaFlags,
) -> Result<(), Unfinished> {
    let now = cx.now();
    let expiry = flags.ttl.map_or(Expiry::Keep, |ttl| expiry_of(ttl, now));
    let unique = flags.new_unique.unwrap_or_else(|| cx.view.next_unique(key));
    let is_there = "the caller has found it";
    let length = item(cx.view.as_read(), key, false).expect(is_there).value.len() as u64;
    let _scratch = cx.scratch(key, length, length)?;
    let found = item(cx.view.as_read(), key, false).expect(is_there);
    let (value, tail, was_fetched) = (found.value.to_vec(), found.tail(), found.was_fetched);
    cx.view.set_item(key, &value, ItemTail { unique, is_stale: true, ..tail }, expiry)?;
    if was_fetched {
        cx.view.as_read().mark_fetched(key);
    }
    Ok(())
}

fn reply_status(status: &[u8], args: Args<'_>, flags: &MetaFlags, reply: &mut Reply<'_>) {
    let out = reply.raw_out();
    out.extend_from_slice(status);
    args.from(2).for_each(|token| put_identity(out, args, token, flags));
    out.extend_from_slice(b"\r\n");
}

fn arithmetic(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let flags = MetaFlags::parse(args.from(2)).expect(READ);
    let (key, now) = (args.key(0), cx.now());
    let is_increment = !matches!(flags.mode, MetaMode::Letter(b'D' | b'd' | b'-'));
    let expiry = flags.ttl.map_or(Expiry::Keep, |ttl| expiry_of(ttl, now));
    let step = Step { delta: flags.delta.unwrap_or(1), is_increment };
    let before = cx.view.as_read().inspect(key).and_then(|object| object.expiry());
    let counted = count(cx, key, step, flags.unique, expiry)?;
    let (number, unique, is_new) = match (counted, flags.vivify) {
        (Counted::Value(number, unique), _) => (number, unique, false),
        (Counted::NotFound, Some(exptime)) if !cx.view.contains(key) => {
            let unique = flags.new_unique.unwrap_or_else(|| cx.view.next_unique(key));
            let (mut text, tail) = (Vec::new(), ItemTail { unique, ..ItemTail::default() });
            put_number(&mut text, flags.initial);
            let exptime = exptime_of(args, &flags, true).unwrap_or(exptime);
            cx.view.set_item(key, &text, tail, expiry_of(exptime, now))?;
            (flags.initial, unique, true)
        }
        (Counted::NotFound, _) => {
            reply_status(b"NF", args, &flags, reply);
            return Ok(());
        }
        (Counted::Exists, _) => {
            reply_status(b"EX", args, &flags, reply);
            return Ok(());
        }
        (Counted::NotNumber, _) => {
            reply.raw(NOT_NUMBER);
            return Ok(());
        }
    };
    // As in memcached, what was made is told.
    if !flags.quiet || is_new {
        let before = before.filter(|_| !is_new);
        let seconds_left = before.map(|at| seconds_left(Some(at), now));
        let win = Win { seconds_left, was_told: false, is_new, time: now };
        reply_number(args, &flags, (number, unique), win, reply);
    }
    Ok(())
}

/// Writes the status line of arithmetic that was done, and the number where it is wanted.
fn reply_number(
    args: Args<'_>,
    flags: &MetaFlags,
    (number, unique): (u64, u64),
    mut win: Win,
    reply: &mut Reply<'_>,
) {
    let mut text = Vec::new();
    put_number(&mut text, number);
    let out = reply.raw_out();
    match flags.value {
        true => {
            out.extend_from_slice(b"VA ");
            put_number(out, text.len() as u64);
        }
        false => out.extend_from_slice(b"HD"),
    }
    for token in args.from(2) {
        match token[0] {
            b'T' => win.set_exptime(flags.ttl),
            b'N' if win.is_new => win.set_exptime(flags.vivify),
            b'c' => put_flag(out, b'c', unique),
            b't' => put_time(out, win.seconds_left),
            _ => put_identity(out, args, token, flags),
        }
    }
    out.extend_from_slice(b"\r\n");
    if flags.value {
        out.extend_from_slice(&text);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the seconds until an item expires.
fn put_time(out: &mut Vec<u8>, seconds_left: Option<i64>) {
    out.extend_from_slice(b" t");
    match seconds_left {
        None => out.extend_from_slice(b"-1"),
        Some(left) => put_number(out, left as u64),
    }
}
