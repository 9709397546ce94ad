//! Reads the bytes of records.

use std::{fmt, str};

use base::{DATABASE_COUNT_MAX, DatabaseIndex, Lsn, SLOT_COUNT, Slot, UnixMs};

use super::{
    CHANGE_HEADER_BYTES, CREATES, DATABASES, ENCODING_ONLY, LONG, ONLY_KIND_SHIFT,
    RECORD_HEADER_BYTES, REMOVES, SEVERAL, SLOTS, VERSION, kind,
};
use crate::change::{Cause, Change};
use crate::effect::{Arguments, Effect, Expiry, LastUse, StoredForm};
use crate::events::EventClass;

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
