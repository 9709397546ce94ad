//! The bytes of a record: all changes of one command, or of one MULTI.
//!
//! All numbers are little-endian. A record can be split off a stream by its first word, and a
//! change off a record in the same way, without parsing the rest. Most records are of one change;
//! what is known of it stands in the header of the record, and it has none of its own.
//!
//! ```text
//! record   0   6  length of the record in bytes, these included
//!          6   1  kind of the only change; 0 where changes with headers follow
//!          7   1  marks of the only change; else 0
//!          8   8  LSN: the position in the stream behind this record
//!         16   8  time in milliseconds since the Unix epoch, signed
//!         24   1  version of this format: 2
//!         25   1  cause that all changes share; Command where they differ
//!         26   1  database that all changes are about; 255 where they differ
//!         27   1  length of the name of the only change's event; else 0
//!         28   2  slot that all changes are about; 65535 where they differ or have none
//!         30   1  class of the only change's event; else 0
//!         31   1  0
//!         32      the only change: the event's name and the arguments, as below; else changes,
//!                 one after the other
//!
//! change   0   8  length of the change in bytes, these included
//!          8   1  kind
//!          9   1  cause
//!         10   1  marks: 1 creates its key, 2 removes it, 4 changes only how it is stored
//!         11   1  database in which it happened
//!         12   2  slot of its keys; 65535 for several or none
//!         14   1  length of the event's name
//!         15   1  class of the event, as notify-keyspace-events has it
//!         16      the event's name
//!                 arguments by kind, each with a length of 1 byte before it, or with 1 byte of
//!                 ones and a length of 8; numbers are arguments of 8 bytes, databases of 1
//! ```

use std::{fmt, str};

use base::{DATABASE_COUNT_MAX, DatabaseIndex, Lsn, SLOT_COUNT, Slot, UnixMs};

use crate::change::{Cause, Change};
use crate::effect::{Arguments, Effect, Expiry, LastUse, StoredForm};
use crate::events::EventClass;

/// The version of the format.
const VERSION: u8 = 2;
/// Bytes of a record before its changes.
const RECORD_HEADER_BYTES: usize = 32;
/// Bytes of a change before its event's name.
const CHANGE_HEADER_BYTES: usize = 16;
/// Where a record's LSN is.
const LSN_AT: usize = 8;
/// Where a change's kind is in its own header.
const KIND_AT: usize = 8;
/// Where that of an only change is in the header of the record, and its marks behind it, in bits of
/// the first word: no memory holds a record whose length needs more than those before.
const ONLY_KIND_SHIFT: u32 = 48;
const ONLY_MARKS_SHIFT: u32 = 56;
/// What stands for the kind where changes with headers follow.
const SEVERAL: u8 = 0;
/// What stands for several databases, or all.
const DATABASES: u8 = u8::MAX;
/// What stands for several slots, or none.
const SLOTS: u16 = u16::MAX;
/// A length that does not fit into one byte follows in eight.
const LONG: u8 = u8::MAX;
/// Bytes of a length at most.
const LENGTH_BYTES_MAX: usize = 1 + 8;

const CREATES: u8 = 1;
const REMOVES: u8 = 2;
const ENCODING_ONLY: u8 = 4;

/// The kinds of changes, as numbered in records: never renumbered.
mod kind {
    pub const SET: u8 = 1;
    pub const SET_KEEPING_TIME: u8 = 2;
    pub const SET_UNTIL: u8 = 3;
    pub const APPEND: u8 = 4;
    pub const SET_RANGE: u8 = 5;
    pub const MAKE_TEXT: u8 = 6;
    pub const DELETE: u8 = 7;
    pub const EXPIRE_AT: u8 = 8;
    pub const PERSIST: u8 = 9;
    pub const COMMAND: u8 = 10;
    pub const RENAME: u8 = 11;
    pub const MOVE: u8 = 12;
    pub const COPY: u8 = 13;
    pub const FLUSH_DATABASE: u8 = 14;
    pub const FLUSH_ALL: u8 = 15;
    pub const SWAP_DATABASES: u8 = 16;
    pub const RESTORE: u8 = 17;
    pub const RESTORE_UNTIL: u8 = 18;
    pub const EXPIRE_STALE_AT: u8 = 19;
}

/// Takes the record of each write, in the order in which writes that touch the same key happened.
pub trait EffectSink: Send + Sync {
    /// Gives `record` the next LSN, keeps what it needs of it, and returns the LSN.
    ///
    /// Called while the shards that the record touches are locked, from any worker, so that LSN
    /// order is conflict order. Must not lock a shard, and should take about as long as a copy.
    /// Whether a write is taken is asked before it changes anything ([`crate::Admission`]): here
    /// nothing can be refused any more.
    fn append(&self, record: &Record<'_>) -> Lsn;

    /// Returns where the next record is likely to be put, for who wants to ask the cache for that:
    /// it is never read from there. Null where nobody knows.
    fn next_place(&self) -> *const u8 {
        std::ptr::null()
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
fn begin(time: UnixMs, out: &mut Vec<u8>) {
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
fn put_record_of(time: UnixMs, change: &Change<'_>, before: Lsn, out: &mut Vec<u8>) -> Lsn {
    if let Effect::Set { key, value, expiry } = change.effect {
        // The most frequent one: how long it will be is known before.
        let start = out.len();
        let arguments = argument_bytes(key) + argument_bytes(value) + expiry_bytes(expiry);
        let length = RECORD_HEADER_BYTES + change.event.len() + arguments;
        out.reserve(length);
        let (header, lsn) = header_of_one(time, change, kind_of_set(expiry), length, before);
        out.extend_from_slice(&header);
        put_event(change.event, out);
        put_set(key, value, expiry, out);
        debug_assert_eq!(out.len() - start, length, "a record is as long as it says");
        return lsn;
    }
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    put_event(change.event, out);
    let kind = put_effect(&change.effect, out);
    let record = &mut out[start..];
    let (header, lsn) = header_of_one(time, change, kind, record.len(), before);
    record[..RECORD_HEADER_BYTES].copy_from_slice(&header);
    lsn
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

#[inline]
fn put_event(event: &str, out: &mut Vec<u8>) {
    if !event.is_empty() {
        out.extend_from_slice(event.as_bytes());
    }
}

fn put_change(change: &Change<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut header = [0; CHANGE_HEADER_BYTES];
    fill_change_header(change, &mut header);
    out.extend_from_slice(&header);
    out.extend_from_slice(change.event.as_bytes());
    out[start + KIND_AT] = put_effect(&change.effect, out);
    let length = (out.len() - start) as u64;
    out[start..start + 8].copy_from_slice(&length.to_le_bytes());
}

/// Fills the header of a change, but for its length and kind.
#[inline]
fn fill_change_header(change: &Change<'_>, header: &mut [u8; CHANGE_HEADER_BYTES]) {
    header[9] = change.cause as u8;
    header[10] = marks_of(change);
    header[11] = change.database.0;
    header[12..14].copy_from_slice(&slot_number(change.slot).to_le_bytes());
    header[14] = u8::try_from(change.event.len()).expect("the names of events are short");
    header[15] = change.class.letter();
}

#[inline]
fn marks_of(change: &Change<'_>) -> u8 {
    let mark = |is_set: bool, mark: u8| if is_set { mark } else { 0 };
    mark(change.creates, CREATES)
        | mark(change.removes, REMOVES)
        | mark(change.changes_encoding_only, ENCODING_ONLY)
}

/// Appends the arguments of `effect` and returns its kind.
fn put_effect(effect: &Effect<'_>, out: &mut Vec<u8>) -> u8 {
    let mut put = |arguments: &[&[u8]]| put_arguments(arguments, out);
    match *effect {
        Effect::Set { key, value, expiry } => {
            put_set(key, value, expiry, out);
            kind_of_set(expiry)
        }
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

/// Puts the arguments of [`Effect::Set`].
#[inline]
fn put_set(key: &[u8], value: &[u8], expiry: Expiry, out: &mut Vec<u8>) {
    put_argument(key, out);
    put_argument(value, out);
    if let Expiry::At(at) = expiry {
        put_argument(&at.0.to_le_bytes(), out);
    }
}

fn kind_of_set(expiry: Expiry) -> u8 {
    match expiry {
        Expiry::Clear => kind::SET,
        Expiry::Keep => kind::SET_KEEPING_TIME,
        Expiry::At(_) => kind::SET_UNTIL,
    }
}

/// Returns the bytes that the argument of a new `expiry` takes.
fn expiry_bytes(expiry: Expiry) -> usize {
    match expiry {
        Expiry::At(_) => 1 + size_of::<u64>(),
        Expiry::Clear | Expiry::Keep => 0,
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
fn put_arguments(arguments: &[&[u8]], out: &mut Vec<u8>) {
    let bytes: usize = arguments.iter().map(|it| it.len() + LENGTH_BYTES_MAX).sum();
    out.reserve(bytes);
    arguments.iter().for_each(|argument| put_argument(argument, out));
}

/// Returns the bytes that `argument` takes with its length.
#[inline]
fn argument_bytes(argument: &[u8]) -> usize {
    let is_short = argument.len() < usize::from(LONG);
    argument.len() + if is_short { 1 } else { LENGTH_BYTES_MAX }
}

#[inline]
fn put_argument(argument: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(argument.len()) {
        Ok(length) if length != LONG => out.push(length),
        _ => {
            out.push(LONG);
            out.extend_from_slice(&(argument.len() as u64).to_le_bytes());
        }
    }
    out.extend_from_slice(argument);
}

/// What stands before the changes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The length of the whole record in bytes.
    pub length: u64,
    /// The position in the stream behind the record.
    pub lsn: Lsn,
    /// When it happened.
    pub time: UnixMs,
    /// The cause that all changes share; [`Cause::Command`] where they differ.
    pub cause: Cause,
    /// The database that all changes are about; none where they differ.
    pub database: Option<DatabaseIndex>,
    /// The slot that all changes are about; none where they differ, or have none.
    pub slot: Option<Slot>,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// They end before the record does. So many are needed to go on.
    Incomplete {
        /// How many bytes, from the record's first on.
        needed: u64,
    },
    /// They are of this version, which this program does not read.
    Version(u8),
    /// They never were a record.
    Malformed {
        /// Where the mistake is, in bytes from the record's first.
        position: usize,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Incomplete { needed } => {
                write!(formatter, "a record ends early: it needs {needed} bytes")
            }
            RecordError::Version(version) => {
                write!(formatter, "a record of version {version}, and version {VERSION} is read")
            }
            RecordError::Malformed { position } => {
                write!(formatter, "byte {position} is not that of a record")
            }
        }
    }
}

impl std::error::Error for RecordError {}

impl RecordHeader {
    /// Reads the header at the start of `bytes`, which may end behind it.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(bytes: &[u8]) -> Result<RecordHeader, RecordError> {
        let Some(header) = bytes.first_chunk::<RECORD_HEADER_BYTES>() else {
            return Err(RecordError::Incomplete { needed: RECORD_HEADER_BYTES as u64 });
        };
        let word = |at: usize| {
            u64::from_le_bytes(header[at..at + 8].try_into().expect("it has eight bytes"))
        };
        let malformed = |position| Err(RecordError::Malformed { position });
        if header[24] != VERSION {
            return Err(RecordError::Version(header[24]));
        }
        let length = word(0) & ((1 << ONLY_KIND_SHIFT) - 1);
        if length < RECORD_HEADER_BYTES as u64 {
            return malformed(0);
        }
        let Some(cause) = Cause::of(header[25]) else { return malformed(25) };
        let Some(database) = database_of(header[26]) else { return malformed(26) };
        let Some(slot) = slot_of([header[28], header[29]]) else { return malformed(28) };
        // What is said of the only change is checked with it.
        let is_of_none = |at: &usize| header[6] == SEVERAL && header[*at] != 0;
        if let Some(position) = [7, 27, 30].into_iter().find(is_of_none) {
            return malformed(position);
        }
        if header[31] != 0 {
            return malformed(31);
        }
        let (lsn, time) = (Lsn(word(8)), UnixMs(word(16) as i64));
        Ok(RecordHeader { length, lsn, time, cause, database, slot })
    }
}

/// Returns the database of this number, or that there are several; none where it is neither.
fn database_of(number: u8) -> Option<Option<DatabaseIndex>> {
    match number {
        DATABASES => Some(None),
        _ => known_database(number).map(Some),
    }
}

fn known_database(number: u8) -> Option<DatabaseIndex> {
    (usize::from(number) < DATABASE_COUNT_MAX).then_some(DatabaseIndex(number))
}

/// As [`database_of`], of a slot.
fn slot_of(bytes: [u8; 2]) -> Option<Option<Slot>> {
    match u16::from_le_bytes(bytes) {
        SLOTS => Some(None),
        number => (usize::from(number) < SLOT_COUNT).then_some(Some(Slot(number))),
    }
}

/// Returns the records of `stream`, whole ones one after the other, of which only the header is
/// checked, and that each is all there. Behind an error there is none.
pub fn records(stream: &[u8]) -> impl Iterator<Item = Result<EncodedRecord<'_>, RecordError>> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = EncodedRecord::at_start(rest);
        rest = record.as_ref().map_or(&[], |record| &rest[record.bytes.len()..]);
        Some(record)
    })
}

/// A record of which only the header was read.
#[derive(Clone, Copy, Debug)]
pub struct EncodedRecord<'a> {
    header: RecordHeader,
    bytes: &'a [u8],
}

impl<'a> EncodedRecord<'a> {
    fn at_start(bytes: &'a [u8]) -> Result<EncodedRecord<'a>, RecordError> {
        let header = RecordHeader::read(bytes)?;
        let length = usize::try_from(header.length).ok();
        match length.and_then(|length| bytes.get(..length)) {
            Some(bytes) => Ok(EncodedRecord { header, bytes }),
            None => Err(RecordError::Incomplete { needed: header.length }),
        }
    }

    /// Returns the header.
    pub fn header(&self) -> &RecordHeader {
        &self.header
    }

    /// Returns the whole record.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the changes.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(&self) -> Result<RecordView<'a>, RecordError> {
        let (header, changes) = self.bytes.split_at(RECORD_HEADER_BYTES);
        if header[6] != SEVERAL {
            let only = only_change(&self.header, header, changes);
            let only = only.ok_or(RecordError::Malformed { position: RECORD_HEADER_BYTES })?;
            return Ok(RecordView { header: self.header, only: Some(only), changes: &[] });
        }
        let mut rest = changes;
        while !rest.is_empty() {
            let Some((_, behind)) = split_change(rest) else {
                let position = self.bytes.len() - rest.len();
                return Err(RecordError::Malformed { position });
            };
            rest = behind;
        }
        Ok(RecordView { header: self.header, only: None, changes })
    }
}

/// A record that was read: every byte of it has been checked.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    header: RecordHeader,
    only: Option<Change<'a>>,
    /// Those with headers of their own.
    changes: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the record at the start of `bytes`, which may end behind it.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(bytes: &'a [u8]) -> Result<RecordView<'a>, RecordError> {
        EncodedRecord::at_start(bytes)?.read()
    }

    /// Returns the header.
    pub fn header(&self) -> &RecordHeader {
        &self.header
    }

    /// Returns the changes in their order.
    pub fn changes(&self) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let mut rest = self.changes;
        let with_headers = std::iter::from_fn(move || {
            let (change, behind) = split_change(rest)?;
            rest = behind;
            Some(change)
        });
        self.only.into_iter().chain(with_headers)
    }
}

/// Returns the only change of a record with `header`, of which `bytes` are all that follows; none
/// where it is not one.
fn only_change<'a>(of_record: &RecordHeader, header: &[u8], bytes: &'a [u8]) -> Option<Change<'a>> {
    let (event, arguments) = bytes.split_at_checked(usize::from(header[27]))?;
    let [creates, removes, changes_encoding_only] = marks_in(header[7])?;
    let change = Change {
        effect: read_effect(header[6], arguments)?,
        database: of_record.database?,
        slot: of_record.slot,
        cause: of_record.cause,
        class: EventClass::of(header[30])?,
        event: str::from_utf8(event).ok()?,
        creates,
        removes,
        changes_encoding_only,
    };
    // Its database would not be that of the record.
    (!change.effect.crosses_databases()).then_some(change)
}

/// Returns which of these marks are there, in the order of their numbers; none where one is not
/// known.
fn marks_in(marks: u8) -> Option<[bool; 3]> {
    let is_known = marks & !(CREATES | REMOVES | ENCODING_ONLY) == 0;
    is_known.then(|| [CREATES, REMOVES, ENCODING_ONLY].map(|mark| marks & mark != 0))
}

/// Returns the change at the start of `bytes`, and what is behind it; none where it is not one.
fn split_change(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let header = bytes.first_chunk::<CHANGE_HEADER_BYTES>()?;
    let length = u64::from_le_bytes(*header.first_chunk().expect("it has eight bytes"));
    let (change, behind) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    let content = change.get(CHANGE_HEADER_BYTES..)?;
    let (event, arguments) = content.split_at_checked(usize::from(header[14]))?;
    let [creates, removes, changes_encoding_only] = marks_in(header[10])?;
    let change = Change {
        effect: read_effect(header[8], arguments)?,
        database: known_database(header[11])?,
        slot: slot_of([header[12], header[13]])?,
        cause: Cause::of(header[9])?,
        class: EventClass::of(header[15])?,
        event: str::from_utf8(event).ok()?,
        creates,
        removes,
        changes_encoding_only,
    };
    Some((change, behind))
}

/// Returns the effect of this kind with these arguments, all of them; none where it is not one.
fn read_effect(kind: u8, bytes: &[u8]) -> Option<Effect<'_>> {
    let mut rest = Arguments::Encoded(bytes);
    let time = |argument: &[u8]| Some(UnixMs(i64::from_le_bytes(argument.try_into().ok()?)));
    let database = |argument: &[u8]| match argument {
        [number] => known_database(*number),
        _ => None,
    };
    let effect = match kind {
        kind::SET => Effect::Set { key: rest.next()?, value: rest.next()?, expiry: Expiry::Clear },
        kind::SET_KEEPING_TIME => {
            Effect::Set { key: rest.next()?, value: rest.next()?, expiry: Expiry::Keep }
        }
        kind::SET_UNTIL => {
            let (key, value) = (rest.next()?, rest.next()?);
            Effect::Set { key, value, expiry: Expiry::At(time(rest.next()?)?) }
        }
        kind::APPEND => Effect::Append { key: rest.next()?, suffix: rest.next()? },
        kind::SET_RANGE => {
            let (key, offset) = (rest.next()?, u64::from_le_bytes(rest.next()?.try_into().ok()?));
            let bytes = rest.next().filter(|bytes| !bytes.is_empty())?;
            Effect::SetRange { key, offset, bytes }
        }
        kind::MAKE_TEXT => Effect::MakeText { key: rest.next()? },
        kind::RESTORE | kind::RESTORE_UNTIL => Effect::Restore {
            key: rest.next()?,
            payload: rest.next()?,
            form: match rest.next()? {
                [number] => StoredForm::of(*number)?,
                _ => return None,
            },
            last_use: match rest.next()? {
                [] => LastUse::Now,
                [counter] => LastUse::Counted(*counter),
                seconds => LastUse::Ago { seconds: u64::from_le_bytes(seconds.try_into().ok()?) },
            },
            expires_at: match kind {
                kind::RESTORE => None,
                _ => Some(time(rest.next()?)?),
            },
        },
        kind::DELETE => Effect::Delete { key: rest.next()? },
        kind::EXPIRE_AT => Effect::ExpireAt { key: rest.next()?, at: time(rest.next()?)? },
        kind::EXPIRE_STALE_AT => read_stale_expiry(&mut rest)?,
        kind::PERSIST => Effect::Persist { key: rest.next()? },
        kind::COMMAND => {
            let (key, name) = (rest.next()?, str::from_utf8(rest.next()?).ok()?);
            let Arguments::Encoded(bytes) = rest else { unreachable!("it was made so") };
            let mut arguments = Arguments::Encoded(bytes);
            // Whether they are whole is known once the last one is behind.
            arguments.by_ref().for_each(drop);
            rest = arguments;
            Effect::Command { name, key, arguments: Arguments::Encoded(bytes) }
        }
        kind::RENAME => Effect::Rename { source: rest.next()?, target: rest.next()? },
        kind::MOVE => Effect::Move { key: rest.next()?, database: database(rest.next()?)? },
        kind::COPY => {
            let (source, target) = (rest.next()?, rest.next()?);
            Effect::Copy { source, target, database: database(rest.next()?)? }
        }
        kind::FLUSH_DATABASE => Effect::FlushDatabase,
        kind::FLUSH_ALL => Effect::FlushAll,
        kind::SWAP_DATABASES => {
            Effect::SwapDatabases { a: database(rest.next()?)?, b: database(rest.next()?)? }
        }
        _ => return None,
    };
    matches!(rest, Arguments::Encoded([])).then_some(effect)
}

/// Reads an [`Effect::ExpireStaleAt`].
fn read_stale_expiry<'a>(arguments: &mut Arguments<'a>) -> Option<Effect<'a>> {
    let key = arguments.next()?;
    let [at, grace_ms] = [arguments.next()?, arguments.next()?]
        .map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    Some(Effect::ExpireStaleAt { key, at: UnixMs(at? as i64), grace_ms: grace_ms? })
}

/// Returns the argument at the start of `bytes`, and what is behind it; none where it is not whole.
#[inline]
pub(crate) fn split_argument(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes.split_first()? {
        (&LONG, rest) => {
            let (long, rest) = rest.split_first_chunk()?;
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*long)).ok()?)
        }
        (&length, rest) => rest.split_at_checked(usize::from(length)),
    }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;
    use crate::{Filter, ReplicationStream, keyspace_events};

    const DB0: DatabaseIndex = DatabaseIndex(0);

    fn encoded(changes: &[Change<'_>]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let lsn = match changes {
            [only] => Record::one(UnixMs(-5), only).encode(Lsn(70), &mut out),
            several => {
                let mut builder = RecordBuilder::default();
                several.iter().for_each(|change| builder.add(UnixMs(-5), change));
                builder.finish().expect("it has changes").encode(Lsn(70), &mut out)
            }
        };
        assert_eq!(lsn.0 as usize, 70 + out.len() - 6);
        out.split_off(6)
    }

    #[test]
    fn stream_is_split_into_records_until_one_is_not_whole() {
        let effect = Effect::Delete { key: b"key" };
        let record = encoded(&[Change::new(DB0, EventClass::Generic, effect)]);
        let stream = record.repeat(3);
        let lengths = |stream: &[u8]| -> Vec<Option<usize>> {
            records(stream).map(|record| record.ok().map(|it| it.bytes().len())).collect()
        };
        let whole = Some(record.len());
        assert_eq!(lengths(&stream), [whole; 3]);
        assert_eq!(lengths(&stream[..stream.len() - 1]), [whole, whole, None]);
        assert_eq!(lengths(&stream[..record.len() + 1]), [whole, None]);
        // A length that reaches beyond what there is, or is none.
        for length in [record.len() as u64 * 2 + 1, u64::MAX, 0, 31] {
            let mut stream = stream.clone();
            stream[record.len()..][..8].copy_from_slice(&length.to_le_bytes());
            assert_eq!(lengths(&stream), [whole, None], "{length}");
        }
    }

    /// Draws bytes of any length up to a few hundred, from `draws`.
    fn bytes(random: &mut Prng, length_min: u64) -> Vec<u8> {
        let most = 1 + random.below(300);
        let mut bytes = vec![0; (length_min + random.below(most)) as usize];
        random.fill(&mut bytes);
        bytes
    }

    /// Calls `visit` with a change at random.
    fn draw(random: &mut Prng, visit: impl FnOnce(&Change<'_>)) {
        let [key, other, value] = [(); 3].map(|()| bytes(random, 0));
        let some = bytes(random, 1);
        let parts: Vec<Vec<u8>> = (0..random.below(5)).map(|_| bytes(random, 0)).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let at = UnixMs(random.next() as i64);
        let [a, b] = [(); 2].map(|()| DatabaseIndex(random.below(16) as u8));
        let (key, value) = (key.as_slice(), value.as_slice());
        let seconds = random.next();
        let counted = LastUse::Counted(random.next() as u8);
        let effects = [
            Effect::Set { key, value, expiry: Expiry::Clear },
            Effect::Set { key, value, expiry: Expiry::Keep },
            Effect::Set { key, value, expiry: Expiry::At(at) },
            Effect::Append { key, suffix: value },
            Effect::SetRange { key, offset: random.next(), bytes: &some },
            Effect::MakeText { key },
            Effect::Restore {
                key,
                payload: value,
                form: StoredForm::Raw,
                expires_at: None,
                last_use: random.pick(&[LastUse::Now, counted]),
            },
            Effect::Restore {
                key,
                payload: value,
                form: StoredForm::of(1 + random.below(9) as u8).expect("there are nine"),
                expires_at: Some(at),
                last_use: random.pick(&[LastUse::Now, LastUse::Ago { seconds }, counted]),
            },
            Effect::Delete { key },
            Effect::ExpireAt { key, at },
            Effect::ExpireStaleAt { key, at, grace_ms: 60_000 },
            Effect::Persist { key },
            Effect::Command { name: "RPUSH", key, arguments: Arguments::Slices(&parts) },
            Effect::Rename { source: key, target: &other },
            Effect::Move { key, database: b },
            Effect::Copy { source: key, target: &other, database: b },
            Effect::FlushDatabase,
            Effect::FlushAll,
            Effect::SwapDatabases { a, b },
        ];
        let effect = random.pick(&effects);
        let causes = [Cause::Command, Cause::Expired, Cause::ExpiredOnAccess, Cause::Evicted];
        visit(&Change {
            cause: causes[random.below(4) as usize],
            event: ["", "incrby"][random.below(2) as usize],
            creates: random.one_in(2),
            removes: random.one_in(2),
            changes_encoding_only: random.one_in(2),
            ..Change::new(a, EventClass::List, effect)
        });
    }

    /// Everything that a consumer does with bytes, which must not panic whatever they are.
    fn consume(bytes: &[u8]) {
        let Ok(record) = RecordView::read(bytes) else { return };
        let (mut stream, mut out) = (ReplicationStream::new(), Vec::new());
        stream.write(&record, &mut out);
        let filter = Filter { database: Some(DB0), slots: Some(0..=99), key_prefix: b"k".to_vec() };
        filter.may_accept(record.header());
        for change in record.changes() {
            filter.accepts(&change);
            keyspace_events(&change);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut random = Prng::new(7);
        for _ in 0..5_000 {
            draw(&mut random, |change| {
                let bytes = encoded(&[*change]);
                let record = RecordView::read(&bytes).unwrap();
                let header = record.header();
                assert_eq!((header.length, header.time), (bytes.len() as u64, UnixMs(-5)));
                assert_eq!((header.lsn.0, header.cause), (70 + header.length, change.cause));
                let crosses = change.effect.crosses_databases();
                assert_eq!(header.database, (!crosses).then_some(change.database));
                assert_eq!(header.slot, change.slot);
                assert_eq!(record.changes().collect::<Vec<_>>(), [*change]);
            });
        }
    }

    #[test]
    fn record_of_several_says_what_its_changes_share() {
        let change = |key: &'static [u8], database| {
            let effect = Effect::Delete { key };
            Change::new(DatabaseIndex(database), EventClass::Generic, effect)
        };
        let check = |changes: &[Change<'_>], cause, database: Option<u8>, slot: Option<Slot>| {
            let bytes = encoded(changes);
            let record = RecordView::read(&bytes).unwrap();
            let header = record.header();
            assert_eq!((header.cause, header.slot), (cause, slot), "{changes:?}");
            assert_eq!(header.database, database.map(DatabaseIndex), "{changes:?}");
            assert_eq!(record.changes().collect::<Vec<_>>(), changes);
        };
        let (a, b, other) = (change(b"{t}a", 3), change(b"{t}b", 3), change(b"{u}c", 4));
        let evicted = Change { cause: Cause::Evicted, ..a };
        check(&[a, b], Cause::Command, Some(3), Some(base::key_slot(b"t")));
        check(&[a, b, other], Cause::Command, None, None);
        check(&[evicted, evicted], Cause::Evicted, Some(3), Some(base::key_slot(b"t")));
        check(&[evicted, b], Cause::Command, Some(3), Some(base::key_slot(b"t")));
    }

    #[test]
    fn bytes_of_any_kind_are_a_record_or_an_error() {
        let mut random = Prng::new(11);
        for _ in 0..3_000 {
            let count = 1 + random.below(3) as usize;
            draw(&mut random, |change| {
                let changes = vec![*change; count];
                let mut bytes = encoded(&changes);
                for length in [0, 31, 32, bytes.len() / 2, bytes.len() - 1] {
                    let cut = RecordView::read(&bytes[..length.min(bytes.len() - 1)]).unwrap_err();
                    assert!(matches!(cut, RecordError::Incomplete { .. }), "{cut:?}");
                }
                let mut random = Prng::new(bytes.len() as u64);
                for _ in 0..20 {
                    let at = random.below(bytes.len() as u64) as usize;
                    // One byte at a time, or most would fail at the header already.
                    let byte = std::mem::replace(&mut bytes[at], random.next() as u8);
                    consume(&bytes);
                    bytes[at] = byte;
                }
            });
        }
    }

    #[test]
    fn each_reserved_byte_and_number_is_checked() {
        let effect = Effect::Set { key: b"k", value: b"v", expiry: Expiry::Clear };
        let change = Change::new(DB0, EventClass::String, effect);
        let check = |good: &[u8], at: usize, byte: u8| {
            let mut bytes = good.to_vec();
            bytes[at] = byte;
            assert!(RecordView::read(&bytes).is_err(), "byte {at} as {byte}");
        };
        let of_all = [(24, 1), (24, 3), (25, 99), (26, 16), (29, 0x40), (31, 1)];
        let only = [(6, 0), (6, 99), (7, 8), (26, DATABASES), (27, 1), (30, 0)];
        let several = [(6, kind::SET), (7, 1), (27, 1), (30, b'$')];
        let of_change =
            [(8, 0), (8, 99), (9, 99), (10, 8), (11, 16), (13, 0x40), (14, 200), (15, 0)];
        let of_change = of_change.map(|(at, byte)| (RECORD_HEADER_BYTES + at, byte));
        let good = encoded(&[change]);
        of_all.iter().chain(&only).for_each(|&(at, byte)| check(&good, at, byte));
        let good = encoded(&[change; 2]);
        let wrong = of_all.iter().chain(&several).chain(&of_change);
        wrong.for_each(|&(at, byte)| check(&good, at, byte));
        // An only change that is about other databases.
        let mut flush = encoded(&[Change::new(DB0, EventClass::Generic, Effect::FlushDatabase)]);
        assert!(RecordView::read(&flush).is_ok());
        flush[6] = kind::FLUSH_ALL;
        assert!(RecordView::read(&flush).is_err());
    }

    #[test]
    fn record_of_a_small_value_has_few_bytes_beside_it() {
        let effect = Effect::Set { key: &[b'k'; 16], value: &[b'v'; 64], expiry: Expiry::Clear };
        let bytes = encoded(&[Change::new(DB0, EventClass::String, effect)]);
        assert_eq!(bytes.len(), 32 + 1 + 16 + 1 + 64);
    }

    #[test]
    fn long_length_is_read() {
        let mut bytes = vec![LONG];
        bytes.extend_from_slice(&3u64.to_le_bytes());
        bytes.extend_from_slice(b"abcd");
        assert_eq!(split_argument(&bytes), Some((b"abc".as_slice(), b"d".as_slice())));
        assert_eq!(split_argument(&bytes[..11]), None);
        for length in [0, 1, 254, 255, 256, 70_000] {
            let (argument, mut bytes) = (vec![7; length], Vec::new());
            put_argument(&argument, &mut bytes);
            assert_eq!(split_argument(&bytes), Some((argument.as_slice(), [].as_slice())));
        }
    }
}
