//! One listpack of a stream, in Redis's format: entries that follow a master entry, whose fields
//! they need not repeat.
//!
//! ```text
//! master: live entries | deleted entries | N fields | field ... | 0
//! entry:  flags | ms | sequence | value ... | 3 + N
//! entry:  flags | ms | sequence | M fields | field | value | ... | 4 + 2 M
//! ```
//! An entry ends with how many elements are before that.
//! The first form is that of an entry with the fields of the master entry. The times and numbers
//! are differences to those of the node's key, the identity of its first entry.
//!
//! Source: Redis 7.2, `t_stream.c`.

use super::id::StreamId;
use crate::element::Element;
use crate::listpack::Listpack;
use crate::listpack_view::{At, ListpackView};

/// The entry is deleted.
pub(super) const DELETED: i64 = 1;
/// The entry has the fields of the master entry.
pub(super) const SAME_FIELDS: i64 = 2;

/// What a node begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Master {
    /// Entries that are there.
    pub live: i64,
    /// Entries that are deleted.
    pub deleted: i64,
    /// How many fields it has.
    pub field_count: usize,
    /// Where the first of them is, or the end of the master entry.
    pub fields: At,
}

/// What an entry begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub flags: i64,
    pub id: StreamId,
    pub field_count: usize,
    /// Where its first field is, or its first value where the fields are the master's.
    pub content: At,
}

impl Head {
    pub fn is_live(&self) -> bool {
        self.flags & DELETED == 0
    }

    pub fn has_same_fields(&self) -> bool {
        self.flags & SAME_FIELDS != 0
    }

    /// Returns the elements of its content.
    pub fn content_count(&self) -> usize {
        if self.has_same_fields() { self.field_count } else { 2 * self.field_count }
    }
}

/// Reads integers one after the other.
struct Integers<'a> {
    pack: ListpackView<'a>,
    at: At,
}

impl Integers<'_> {
    #[inline]
    fn take(&mut self) -> i64 {
        let integer = integer_at(self.pack, self.at);
        self.at = At(self.pack.end_of(self.at));
        integer
    }
}

/// Returns the integer at `at`.
#[inline]
pub(super) fn integer_at(pack: ListpackView<'_>, at: At) -> i64 {
    match pack.get(at) {
        Element::Integer(integer) => integer,
        Element::Bytes(_) => panic!("a node has an integer there"),
    }
}

/// Returns the master entry.
#[inline]
pub(super) fn master(pack: ListpackView<'_>) -> Master {
    let at = pack.first().expect("a node has a master entry");
    let mut integers = Integers { pack, at };
    let (live, deleted, field_count) = (integers.take(), integers.take(), integers.take());
    Master { live, deleted, field_count: field_count as usize, fields: integers.at }
}

/// Returns where the first entry is.
#[inline]
pub(super) fn first_entry(pack: ListpackView<'_>, master: &Master) -> Option<At> {
    // Behind the fields and the end of the master entry.
    behind(pack, master.fields, master.field_count + 1)
}

/// Returns the entry at `at` of the node of `key`.
#[inline]
pub(super) fn head(pack: ListpackView<'_>, at: At, key: StreamId, master: &Master) -> Head {
    let mut integers = Integers { pack, at };
    let flags = integers.take();
    let ms = key.ms.wrapping_add(integers.take() as u64);
    let sequence = key.sequence.wrapping_add(integers.take() as u64);
    let field_count = match flags & SAME_FIELDS {
        0 => integers.take() as usize,
        _ => master.field_count,
    };
    Head { flags, id: StreamId { ms, sequence }, field_count, content: integers.at }
}

/// Returns where the entry behind that of `head` is.
#[inline]
pub(super) fn next_entry(pack: ListpackView<'_>, head: &Head) -> Option<At> {
    behind(pack, head.content, head.content_count() + 1)
}

/// Returns where the last entry is; there is one.
pub(super) fn last_entry(pack: ListpackView<'_>) -> At {
    let end = pack.last().expect("a node has entries");
    entry_before(pack, end).expect("a node has entries")
}

/// Returns where the entry before that at `at` is; none before the first.
pub(super) fn previous_entry(pack: ListpackView<'_>, at: At) -> Option<At> {
    entry_before(pack, pack.previous(at).expect("the master entry comes first"))
}

/// Returns where the entry begins whose last element is at `end`; none for the master entry.
#[inline]
fn entry_before(pack: ListpackView<'_>, end: At) -> Option<At> {
    let count = integer_at(pack, end);
    if count == 0 {
        return None;
    }
    let back = |at: At| pack.previous(at).expect("an entry says how many elements it has");
    Some((0..count).fold(end, |at, _| back(at)))
}

/// Returns what is `count` elements behind `at`.
#[inline]
fn behind(pack: ListpackView<'_>, at: At, count: usize) -> Option<At> {
    let end = (0..count).fold(at.0, |at, _| pack.end_of(At(at)));
    pack.existing(end)
}

/// Returns a node whose master entry has the fields of `parts`, fields and values by turns.
pub(super) fn new_node(parts: &[&[u8]], bytes: usize) -> Listpack {
    let mut pack = Listpack::with_capacity(bytes);
    let counts = [0, 0, (parts.len() / 2) as i64].map(Element::Integer);
    let fields = parts.iter().step_by(2).map(|field| Element::Bytes(field));
    pack.append_all(counts.into_iter().chain(fields).chain([Element::Integer(0)]));
    pack
}

/// Adds entry `id` to the node of `key`, whose `parts` are fields and values by turns.
pub(super) fn add_entry(pack: &mut Listpack, key: StreamId, id: StreamId, parts: &[&[u8]]) {
    let view = pack.view();
    let master = master(view);
    let (has_same_fields, count) = (is_same(view, &master, parts), parts.len() / 2);
    let flags = if has_same_fields { SAME_FIELDS } else { 0 };
    let at = view.first().expect("a node has a master entry");
    pack.replace_integer(at, master.live + 1);
    let sequence = id.sequence.wrapping_sub(key.sequence) as i64;
    let integers = [flags, (id.ms - key.ms) as i64, sequence].map(Element::Integer);
    match has_same_fields {
        true => {
            let values = parts.iter().skip(1).step_by(2).map(|value| Element::Bytes(value));
            let end = [Element::Integer(count as i64 + 3)];
            pack.append_all(integers.into_iter().chain(values).chain(end));
        }
        false => {
            let number = [Element::Integer(count as i64)];
            let parts = parts.iter().map(|part| Element::Bytes(part));
            let end = [Element::Integer(2 * count as i64 + 4)];
            pack.append_all(integers.into_iter().chain(number).chain(parts).chain(end));
        }
    }
}

/// Returns whether `parts` have the fields of the master entry.
#[inline]
fn is_same(pack: ListpackView<'_>, master: &Master, parts: &[&[u8]]) -> bool {
    if master.field_count != parts.len() / 2 {
        return false;
    }
    let mut at = master.fields;
    for field in parts.iter().step_by(2) {
        let is_this = match pack.get(at) {
            Element::Bytes(bytes) => bytes == *field,
            number => number.with_bytes(|bytes| bytes == *field),
        };
        if !is_this {
            return false;
        }
        at = At(pack.end_of(at));
    }
    true
}

/// Marks the entry at `at` as deleted.
pub(super) fn mark_deleted(pack: &mut Listpack, at: At, head: &Head) {
    pack.replace_integer(at, head.flags | DELETED);
}

/// Counts `count` entries as deleted that were live.
pub(super) fn count_deleted(pack: &mut Listpack, count: i64) {
    let first = pack.view().first().expect("a node has a master entry");
    let master = master(pack.view());
    pack.replace_integer(first, master.live - count);
    let second = pack.view().next(first).expect("a master entry has both counts");
    pack.replace_integer(second, master.deleted + count);
}

/// Forgets the last entry, which is deleted, and not the only one.
pub(super) fn drop_last(pack: &mut Listpack) {
    let last = last_entry(pack.view());
    pack.remove(last, usize::MAX);
    let first = pack.view().first().expect("a node has a master entry");
    let second = pack.view().next(first).expect("a master entry has both counts");
    let deleted = master(pack.view()).deleted;
    pack.replace_integer(second, deleted - 1);
}

/// Returns how many live entries the node of `key` has, and the first and last identity of all its
/// entries, where it is one; whoever made it: every element is looked at.
pub(super) fn validate(pack: &Listpack, key: StreamId) -> Option<(u64, StreamId, StreamId)> {
    let mut elements = pack.iter();
    let mut next = || elements.next();
    let integer = |element: Element<'_>| match element {
        Element::Integer(integer) => Some(integer),
        Element::Bytes(_) => None,
    };
    let (live, deleted, fields) = (integer(next()?)?, integer(next()?)?, integer(next()?)?);
    let count = u64::try_from(fields).ok().filter(|count| *count < pack.bytes().len() as u64)?;
    for _ in 0..count {
        next()?;
    }
    if integer(next()?)? != 0 {
        return None;
    }
    let (mut found, mut gone, mut first, mut last) = (0, 0, None, None);
    while let Some(flags) = next() {
        let flags = integer(flags).filter(|flags| flags & !(DELETED | SAME_FIELDS) == 0)?;
        let ms = key.ms.wrapping_add(integer(next()?)? as u64);
        let sequence = key.sequence.wrapping_add(integer(next()?)? as u64);
        let id = StreamId { ms, sequence };
        if last.map_or(id != key, |last| last >= id) || id.is_zero() {
            return None;
        }
        let (content, elements) = match flags & SAME_FIELDS {
            0 => {
                let own = u64::try_from(integer(next()?)?).ok()?;
                (own.checked_mul(2)?, own.checked_mul(2)?.checked_add(4)?)
            }
            _ => (count, count + 3),
        };
        for _ in 0..content {
            next()?;
        }
        if u64::try_from(integer(next()?)?).ok()? != elements {
            return None;
        }
        *(if flags & DELETED == 0 { &mut found } else { &mut gone }) += 1;
        first = first.or(Some(id));
        last = Some(id);
    }
    // All may be deleted: trimming leaves such a node where its last entry was deleted before.
    let are_counted = found == live && gone == deleted;
    are_counted.then_some((found as u64, first?, last?))
}
