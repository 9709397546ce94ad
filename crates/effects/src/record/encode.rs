//! Makes the bytes of records.

use std::ops::DerefMut;

use base::{Lsn, Slot, UnixMs};
use sys::wide_bytes::WideBytes;

use super::{
    CHANGE_HEADER_BYTES, CREATES, DATABASES, ENCODING_ONLY, KIND_AT, LENGTH_BYTES_MAX, LONG,
    LSN_AT, ONLY_KIND_SHIFT, ONLY_MARKS_SHIFT, RECORD_HEADER_BYTES, REMOVES, SLOTS, VERSION, kind,
};
use crate::change::{Cause, Change};
use crate::effect::{Effect, Expiry, LastUse};

/// What the bytes of records are added to.
pub(crate) trait RecordBytes: DerefMut<Target = [u8]> {
    /// Makes room for `additional` bytes.
    fn reserve(&mut self, additional: usize);
    /// Adds `bytes`.
    fn extend_from_slice(&mut self, bytes: &[u8]);
    /// Adds the bytes of all `parts`.
    fn extend_from_parts<const N: usize>(&mut self, parts: [&[u8]; N]);
}

impl RecordBytes for Vec<u8> {
    fn reserve(&mut self, additional: usize) {
        self.reserve(additional);
    }

    fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn extend_from_parts<const N: usize>(&mut self, parts: [&[u8]; N]) {
        parts.into_iter().for_each(|part| self.extend_from_slice(part));
    }
}

impl RecordBytes for WideBytes {
    #[inline]
    fn reserve(&mut self, additional: usize) {
        self.reserve(additional);
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline(always)]
    fn extend_from_parts<const N: usize>(&mut self, parts: [&[u8]; N]) {
        self.extend_from_parts(parts);
    }
}

/// A record that has no LSN yet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    content: Content<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    One(UnixMs, &'a Change<'a>),
    Built(&'a [u8]),
}

impl<'a> Record<'a> {
    /// Returns the record of a single change at `time`.
    pub fn one(time: UnixMs, change: &'a Change<'a>) -> Record<'a> {
        Record { content: Content::One(time, change) }
    }

    /// Appends the record's bytes to `out`, a stream that has come to `before`; returns the
    /// record's LSN, which is the position behind it.
    pub fn encode(&self, before: Lsn, out: &mut Vec<u8>) -> Lsn {
        self.encode_into(before, out)
    }

    /// As [`Record::encode`], to bytes of any kind.
    #[inline]
    pub(crate) fn encode_into(&self, before: Lsn, out: &mut impl RecordBytes) -> Lsn {
        if let Content::One(time, change) = self.content
            && let Some(lsn) = put_short_set(time, change, before, out)
        {
            return lsn;
        }
        let start = out.len();
        match self.content {
            Content::One(time, change) if !change.effect.crosses_databases() => {
                return put_record_of(time, change, before, out);
            }
            Content::One(time, change) => {
                begin(time, out);
                put_change(change, out);
                finish(&CommonFields::of(change), &mut out[start..]);
            }
            Content::Built(bytes) => out.extend_from_slice(bytes),
        }
        let lsn = Lsn(before.0 + (out.len() - start) as u64);
        out[start + LSN_AT..start + LSN_AT + 8].copy_from_slice(&lsn.0.to_le_bytes());
        lsn
    }
}

/// Makes one record of several changes.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    bytes: Vec<u8>,
    shared: Option<CommonFields>,
}

impl RecordBuilder {
    /// Adds `change`. The first one's `time` is the record's.
    pub fn add(&mut self, time: UnixMs, change: &Change<'_>) {
        if self.shared.is_none() {
            begin(time, &mut self.bytes);
        }
        put_change(change, &mut self.bytes);
        let of_this = CommonFields::of(change);
        self.shared = Some(self.shared.map_or(of_this, |shared| shared.with(&of_this)));
    }

    /// Returns the record of all changes; none where there are none.
    pub fn finish(&mut self) -> Option<Record<'_>> {
        finish(self.shared.as_ref()?, &mut self.bytes);
        Some(Record { content: Content::Built(&self.bytes) })
    }
}

/// What the changes of a record have in common.
#[derive(Clone, Copy, Debug)]
struct CommonFields {
    cause: Cause,
    database: u8,
    slot: u16,
}

impl CommonFields {
    fn of(change: &Change<'_>) -> CommonFields {
        let database = match change.effect.crosses_databases() {
            true => DATABASES,
            false => change.database.0,
        };
        CommonFields { cause: change.cause, database, slot: slot_number(change.slot) }
    }

    fn with(self, other: &CommonFields) -> CommonFields {
        CommonFields {
            cause: if self.cause == other.cause { self.cause } else { Cause::Command },
            database: if self.database == other.database { self.database } else { DATABASES },
            slot: if self.slot == other.slot { self.slot } else { SLOTS },
        }
    }
}

fn slot_number(slot: Option<Slot>) -> u16 {
    slot.map_or(SLOTS, |slot| slot.0)
}

/// Appends the header of a record; length, LSN and what its changes share follow later.
fn begin(time: UnixMs, out: &mut impl RecordBytes) {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[16..24].copy_from_slice(&time.0.to_le_bytes());
    header[24] = VERSION;
    out.extend_from_slice(&header);
}

/// Completes the header of `record`, all bytes of which are there.
fn finish(shared: &CommonFields, record: &mut [u8]) {
    let length = record.len() as u64;
    record[..8].copy_from_slice(&length.to_le_bytes());
    record[25] = shared.cause as u8;
    record[26] = shared.database;
    record[28..30].copy_from_slice(&shared.slot.to_le_bytes());
}

/// Appends the record of an only change, all of it about one database, to a stream that has come to
/// `before`; returns its LSN.
pub(super) fn put_record_of(
    time: UnixMs,
    change: &Change<'_>,
    before: Lsn,
    out: &mut impl RecordBytes,
) -> Lsn {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    put_event(change.event, out);
    let kind = put_effect(&change.effect, out);
    let record = &mut out[start..];
    let (header, lsn) = header_of_one(time, change, kind, record.len(), before);
    record[..RECORD_HEADER_BYTES].copy_from_slice(&header);
    lsn
}

/// Appends the record of a SET with a short key and value, no expiry and no event, as most are, and
/// returns its LSN; none, and nothing appended, for any other. The bytes are those of
/// [`put_record_of`], but each is written once.
#[inline(always)]
pub(super) fn put_short_set(
    time: UnixMs,
    change: &Change<'_>,
    before: Lsn,
    out: &mut impl RecordBytes,
) -> Option<Lsn> {
    let Effect::Set { key, value, expiry: Expiry::Clear } = change.effect else { return None };
    let (key_length, value_length) = (short_length(key)?, short_length(value)?);
    if !change.event.is_empty() {
        return None;
    }
    let length = RECORD_HEADER_BYTES + 1 + key.len() + 1 + value.len();
    let (header, lsn) = header_of_one(time, change, kind::SET, length, before);
    out.extend_from_parts([&header, &[key_length], key, &[value_length], value]);
    Some(lsn)
}

/// Returns the length of an argument that has one of a byte before it.
#[inline(always)]
fn short_length(argument: &[u8]) -> Option<u8> {
    u8::try_from(argument.len()).ok().filter(|length| *length != LONG)
}

/// Returns the header of a record of `length` bytes that has `change` alone, of this `kind`, and
/// the record's LSN in a stream that has come to `before`.
#[inline]
fn header_of_one(
    time: UnixMs,
    change: &Change<'_>,
    kind: u8,
    length: usize,
    before: Lsn,
) -> ([u8; RECORD_HEADER_BYTES], Lsn) {
    let event_bytes = u8::try_from(change.event.len()).expect("the names of events are short");
    let lsn = Lsn(before.0 + length as u64);
    // In whole words: a processor that waits for memory has room for few stores, and a store of a
    // byte takes as much of it as one of a word.
    let first = length as u64
        | u64::from(kind) << ONLY_KIND_SHIFT
        | u64::from(marks_of(change)) << ONLY_MARKS_SHIFT;
    let last = u64::from(VERSION)
        | u64::from(change.cause as u8) << 8
        | u64::from(change.database.0) << 16
        | u64::from(event_bytes) << 24
        | u64::from(slot_number(change.slot)) << 32
        | u64::from(change.class.letter()) << 48;
    let mut header = [0; RECORD_HEADER_BYTES];
    let words = [first, lsn.0, time.0 as u64, last];
    for (place, word) in header.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    (header, lsn)
}

/// Appends the name of an event, of which most changes have none.
#[inline]
fn put_event(event: &str, out: &mut impl RecordBytes) {
    if !event.is_empty() {
        out.extend_from_slice(event.as_bytes());
    }
}

fn put_change(change: &Change<'_>, out: &mut impl RecordBytes) {
    let start = out.len();
    // The length and the kind follow below.
    let mut header = [0; CHANGE_HEADER_BYTES];
    header[9] = change.cause as u8;
    header[10] = marks_of(change);
    header[11] = change.database.0;
    header[12..14].copy_from_slice(&slot_number(change.slot).to_le_bytes());
    header[14] = u8::try_from(change.event.len()).expect("the names of events are short");
    header[15] = change.class.letter();
    out.extend_from_slice(&header);
    put_event(change.event, out);
    out[start + KIND_AT] = put_effect(&change.effect, out);
    let length = (out.len() - start) as u64;
    out[start..start + 8].copy_from_slice(&length.to_le_bytes());
}

#[inline]
fn marks_of(change: &Change<'_>) -> u8 {
    let mark = |is_set: bool, mark: u8| if is_set { mark } else { 0 };
    mark(change.creates, CREATES)
        | mark(change.removes, REMOVES)
        | mark(change.changes_encoding_only, ENCODING_ONLY)
}

/// Appends the arguments of `effect` and returns its kind.
fn put_effect(effect: &Effect<'_>, out: &mut impl RecordBytes) -> u8 {
    let mut put = |arguments: &[&[u8]]| put_arguments(arguments, out);
    match *effect {
        Effect::Set { key, value, expiry } => put_set(key, value, expiry, out),
        Effect::Append { key, suffix } => {
            put(&[key, suffix]);
            kind::APPEND
        }
        Effect::SetRange { key, offset, bytes } => {
            put(&[key, &offset.to_le_bytes(), bytes]);
            kind::SET_RANGE
        }
        Effect::MakeText { key } => {
            put(&[key]);
            kind::MAKE_TEXT
        }
        Effect::Restore { key, payload, form, expires_at, last_use } => {
            put(&[key, payload, &[form as u8]]);
            put_use_and_expiry(last_use, expires_at, &mut put)
        }
        Effect::Delete { key } => {
            put(&[key]);
            kind::DELETE
        }
        Effect::ExpireAt { key, at } => {
            put(&[key, &at.0.to_le_bytes()]);
            kind::EXPIRE_AT
        }
        Effect::ExpireStaleAt { key, at, grace_ms } => {
            put(&[key, &at.0.to_le_bytes(), &grace_ms.to_le_bytes()]);
            kind::EXPIRE_STALE_AT
        }
        Effect::Persist { key } => {
            put(&[key]);
            kind::PERSIST
        }
        Effect::Command { name, key, arguments } => {
            put(&[key, name.as_bytes()]);
            arguments.for_each(|argument| put(&[argument]));
            kind::COMMAND
        }
        Effect::Rename { source, target } => {
            put(&[source, target]);
            kind::RENAME
        }
        Effect::Move { key, database } => {
            put(&[key, &[database.0]]);
            kind::MOVE
        }
        Effect::Copy { source, target, database } => {
            put(&[source, target, &[database.0]]);
            kind::COPY
        }
        Effect::FlushDatabase => kind::FLUSH_DATABASE,
        Effect::FlushAll => kind::FLUSH_ALL,
        Effect::SwapDatabases { a, b } => {
            put(&[&[a.0], &[b.0]]);
            kind::SWAP_DATABASES
        }
    }
}

/// Puts the arguments of [`Effect::Set`] and returns its kind.
#[inline]
fn put_set(key: &[u8], value: &[u8], expiry: Expiry, out: &mut impl RecordBytes) -> u8 {
    put_arguments(&[key, value], out);
    match expiry {
        Expiry::Clear => kind::SET,
        Expiry::Keep => kind::SET_KEEPING_TIME,
        Expiry::At(at) => {
            put_argument(&at.0.to_le_bytes(), out);
            kind::SET_UNTIL
        }
    }
}

/// Puts the last arguments of [`Effect::Restore`] and returns its kind.
fn put_use_and_expiry(
    last_use: LastUse,
    expires_at: Option<UnixMs>,
    put: &mut impl FnMut(&[&[u8]]),
) -> u8 {
    match last_use {
        LastUse::Now => put(&[&[]]),
        LastUse::Ago { seconds } => put(&[&seconds.to_le_bytes()]),
        LastUse::Counted(counter) => put(&[&[counter]]),
    }
    let Some(at) = expires_at else { return kind::RESTORE };
    put(&[&at.0.to_le_bytes()]);
    kind::RESTORE_UNTIL
}

#[inline]
fn put_arguments(arguments: &[&[u8]], out: &mut impl RecordBytes) {
    let bytes: usize = arguments.iter().map(|it| it.len() + LENGTH_BYTES_MAX).sum();
    out.reserve(bytes);
    arguments.iter().for_each(|argument| put_argument(argument, out));
}

#[inline]
pub(super) fn put_argument(argument: &[u8], out: &mut impl RecordBytes) {
    match short_length(argument) {
        Some(length) => out.extend_from_slice(&[length]),
        None => {
            out.extend_from_slice(&[LONG]);
            out.extend_from_slice(&(argument.len() as u64).to_le_bytes());
        }
    }
    out.extend_from_slice(argument);
}
