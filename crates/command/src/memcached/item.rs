//! What the commands share: times to live, numbers in replies, and how a value changes.

use base::number_text::IntegerText;
use base::{Key, UnixMs};
use keyspace::{Expiry, FoundItem, ItemTail, ReadView};
use memcached::{Fault, item_bytes, parse_delta};

use crate::prelude::*;
use crate::string::reply::REFERENCED_BYTES_MIN;

/// A time to live of more seconds than this is a time of Unix.
const RELATIVE_SECONDS_MAX: i32 = 60 * 60 * 24 * 30;
/// From this length on a value that is put together is asked for first.
const SCRATCH_BYTES_MIN: usize = 16 * 1024;
/// How many values the replies of a session may refer to whatever is left for others.
const REFERENCES_MIN: usize = 96;

/// How a value is stored, in the words of memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// What came of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    /// It is stored, with this unique number.
    Done(u64),
    /// What is there, or is not, keeps it from being stored.
    Refused,
    /// The item has another unique number.
    Exists,
    /// The unique number is that of nothing.
    NotFound,
}

/// What is to be stored.
#[derive(Clone, Copy)]
pub(super) struct Storage<'a> {
    pub mode: Mode,
    pub value: &'a [u8],
    pub flags: u32,
    pub expiry: Expiry,
    /// The unique number that the item must have.
    pub unique: Option<u64>,
    /// The unique number that the item gets, where it is chosen.
    pub new_unique: Option<u64>,
    /// A unique number that is older than the item's is stored as stale.
    pub admits_stale: bool,
    /// An appending makes an item that is not there.
    pub vivifies: bool,
}

/// What is added to a number, or taken away.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub delta: u64,
    pub is_increment: bool,
}

/// What came of arithmetic.
pub(super) enum Counted {
    /// The number as it is stored, and the unique number.
    Value(u64, u64),
    NotFound,
    Exists,
    NotNumber,
}

/// Returns when what is stored with `exptime` at `now` expires.
pub(super) fn expiry_of(exptime: i32, now: UnixMs) -> Expiry {
    match exptime {
        0 => Expiry::Clear,
        ..0 => Expiry::At(UnixMs(now.0 - 1)),
        1..=RELATIVE_SECONDS_MAX => Expiry::At(UnixMs(now.0 + i64::from(exptime) * 1000)),
        _ => Expiry::At(UnixMs(i64::from(exptime) * 1000)),
    }
}

/// Returns the item at `key` where that holds a string: to memcached nothing else is there.
#[inline]
pub(super) fn item<'g>(view: ReadView<'g>, key: &Key<'_>, is_fetch: bool) -> Option<FoundItem<'g>> {
    view.item(key, is_fetch).ok().flatten()
}

/// Appends the value at `key` and a line end; a large one is not copied.
#[inline]
pub(super) fn reply_data(view: ReadView<'_>, key: &Key<'_>, value: &[u8], reply: &mut Reply<'_>) {
    if value.len() < REFERENCED_BYTES_MIN {
        if reply.admits_value(value.len()) {
            let out = reply.raw_out();
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        return;
    }
    let held = match reply.reference_count() < REFERENCES_MIN {
        true => view.hold(key),
        false => view.hold_sparing(key),
    };
    match held {
        Some(held) => reply.raw_referenced(Box::new(held)),
        None => {
            if reply.admits_value(value.len()) {
                reply.raw(value);
            }
        }
    }
    reply.raw(b"\r\n");
}

/// Appends `number` in digits.
#[inline]
pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(IntegerText::unsigned(number).as_bytes());
}

/// A number from this on has more than three digits.
pub(super) const FOUR_DIGITS_MIN: usize = 1000;

/// Returns `begin`, a `length` of three digits at most and the end of the line, and how many of the
/// bytes that is: eight bytes are appended at once, and cut to those that are text.
#[inline]
pub(super) fn short_line([a, b, c]: [u8; 3], length: usize) -> ([u8; 8], usize) {
    debug_assert!(length < FOUR_DIGITS_MIN, "three digits at most");
    let [hundreds, tens, ones] =
        [length / 100, length / 10 % 10, length % 10].map(|digit| b'0' + digit as u8);
    match length {
        100.. => ([a, b, c, hundreds, tens, ones, b'\r', b'\n'], 8),
        10.. => ([a, b, c, tens, ones, b'\r', b'\n', 0], 7),
        _ => ([a, b, c, ones, b'\r', b'\n', 0, 0], 6),
    }
}

/// Appends the line of `fault`.
#[cold]
pub(super) fn reply_fault(fault: Fault, reply: &mut Reply<'_>) {
    reply.raw(fault.text().as_bytes());
    reply.raw(b"\r\n");
}

/// Makes `key` expire as `expiry` says; it is there.
pub(super) fn set_expiry(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    expiry: Expiry,
) -> Result<(), Unfinished> {
    match expiry {
        Expiry::Keep => {}
        Expiry::Clear => drop(cx.view.persist(key)?),
        Expiry::At(at) => drop(cx.view.set_expiry(key, at)?),
    }
    Ok(())
}

/// Stores at `key` as `storage` says.
pub(super) fn store(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    storage: &Storage<'_>,
) -> Result<StoreOutcome, Unfinished> {
    let Storage { mode, value, flags, expiry, unique, .. } = *storage;
    // As in memcached, 0 admits any item to be appended to.
    let unique = unique.filter(|it| *it != 0 || matches!(mode, Mode::Set | Mode::Replace));
    if mode == Mode::Set && unique.is_none() {
        return put(cx, key, value, tail(flags), expiry, storage);
    }
    let found = item(cx.view.as_read(), key, false);
    let was_won = found.is_some_and(|it| it.is_won);
    let found = found.map(|it| (it.tail(), it.value.len()));
    let mut stale = ItemTail { flags, ..ItemTail::default() };
    let mut expiry = expiry;
    match (found, mode, unique) {
        // To memcached a key of another type has no item, but it is there.
        (None, Mode::Add, _) if cx.view.contains(key) => return Ok(StoreOutcome::Refused),
        (None, Mode::Add, _) => {}
        (Some(_), Mode::Add, _) => return Ok(StoreOutcome::Refused),
        (None, Mode::Append | Mode::Prepend, _) if storage.vivifies => {}
        (None, Mode::Set | Mode::Replace, Some(_)) => return Ok(StoreOutcome::NotFound),
        (None, ..) => return Ok(StoreOutcome::Refused),
        (Some((tail, _)), _, Some(unique)) if tail.unique != unique => {
            let is_older = storage.admits_stale && (1..tail.unique).contains(&unique);
            if !is_older || matches!(mode, Mode::Append | Mode::Prepend) {
                return Ok(StoreOutcome::Exists);
            }
            (stale.is_stale, expiry) = (true, Expiry::Keep);
        }
        (Some(_), ..) => {}
    }
    match (found, mode) {
        (Some((tail, length)), Mode::Append | Mode::Prepend) => {
            join(cx, key, storage, tail, length)
        }
        _ => {
            let stored = put(cx, key, value, stale, expiry, storage)?;
            if stale.is_stale && was_won {
                cx.view.as_read().mark_won(key);
            }
            Ok(stored)
        }
    }
}

fn tail(flags: u32) -> ItemTail {
    ItemTail { flags, ..ItemTail::default() }
}

/// Stores the item's value and that of `storage` together.
fn join(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    storage: &Storage<'_>,
    tail: ItemTail,
    length: usize,
) -> Result<StoreOutcome, Unfinished> {
    let bytes = length + storage.value.len();
    // In a session of memcached this is the largest item, in its own bytes.
    let whole = item_bytes(key.bytes.len(), tail.flags, bytes);
    if cx.check_value_bytes(whole, 0).is_err() {
        return Ok(StoreOutcome::Refused);
    }
    let _right = match bytes >= SCRATCH_BYTES_MIN {
        true => Some(cx.scratch(key, bytes as u64, bytes as u64)?),
        false => None,
    };
    let old = item(cx.view.as_read(), key, false).expect("it was found just now").value;
    let value = match storage.mode {
        Mode::Prepend => [storage.value, old].concat(),
        _ => [old, storage.value].concat(),
    };
    // What a client was told to make anew has been, as in memcached.
    let tail = ItemTail { is_stale: false, is_in_the_making: false, ..tail };
    put(cx, key, &value, tail, Expiry::Keep, storage)
}

fn put(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    value: &[u8],
    tail: ItemTail,
    expiry: Expiry,
    storage: &Storage<'_>,
) -> Result<StoreOutcome, Unfinished> {
    let unique = storage.new_unique.unwrap_or_else(|| cx.view.next_unique(key));
    cx.view.set_item(key, value, ItemTail { unique, ..tail }, expiry)?;
    Ok(StoreOutcome::Done(unique))
}

/// The longest number, with the blanks behind it: to memcached an item of several chunks is none.
const NUMBER_BYTES_MAX: usize = 512 << 10;

/// Does `step` to the number at `key`, where it has the `unique` number.
pub(super) fn count(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    step: Step,
    unique: Option<u64>,
    expiry: Expiry,
) -> Result<Counted, Unfinished> {
    let Some(found) = item(cx.view.as_read(), key, false) else { return Ok(Counted::NotFound) };
    let length = found.value.len();
    if length > NUMBER_BYTES_MAX {
        return Ok(Counted::NotNumber);
    }
    let mut tail = found.tail();
    let (is_won, was_fetched) = (found.is_won, found.was_fetched);
    if unique.is_some_and(|unique| unique != 0 && unique != tail.unique) {
        return Ok(Counted::Exists);
    }
    let Some(number) = parse_delta(found.value) else { return Ok(Counted::NotNumber) };
    let number = match step.is_increment {
        true => number.wrapping_add(step.delta),
        false => number.saturating_sub(step.delta),
    };
    let text = IntegerText::unsigned(number);
    let mut value = text.as_bytes().to_vec();
    // As in memcached, what becomes shorter stays as long, and ends with blanks.
    value.resize(value.len().max(length), b' ');
    let unique = cx.view.next_unique(key);
    // To memcached what becomes longer is another item.
    let is_same = value.len() == length;
    tail.is_stale &= is_same;
    cx.view.set_item(key, &value, ItemTail { unique, ..tail }, expiry)?;
    let view = cx.view.as_read();
    if is_same && is_won {
        view.mark_won(key);
    }
    if is_same && was_fetched {
        view.mark_fetched(key);
    }
    Ok(Counted::Value(number, unique))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_says_the_length_in_digits() {
        for length in 0..FOUR_DIGITS_MIN {
            let (line, count) = short_line(*b"VA ", length);
            assert_eq!(&line[..count], format!("VA {length}\r\n").as_bytes());
        }
    }
}
