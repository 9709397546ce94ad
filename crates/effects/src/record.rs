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

mod decode;
mod encode;

use base::Lsn;

pub(crate) use decode::split_argument;
pub use decode::{EncodedRecord, RecordError, RecordHeader, RecordView, records};
pub use encode::{Record, RecordBuilder};

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

#[cfg(test)]
mod tests {
    use base::prng::Prng;
    use base::{DatabaseIndex, Slot, UnixMs};
    use sys::wide_bytes::WideBytes;

    use super::encode::put_argument;
    use super::*;
    use crate::{
        Arguments, Cause, Change, Effect, EventClass, Expiry, Filter, LastUse, ReplicationStream,
        StoredForm, keyspace_events,
    };

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
    fn short_set_has_the_bytes_of_any_record() {
        let bytes = [b'x'; 256];
        for (key, value) in
            [0, 1, 253, 254, 255, 256].map(|one| [0, 1, 254, 255].map(|it| (one, it))).concat()
        {
            let (key, value) = (&bytes[..key], &bytes[..value]);
            let effect = Effect::Set { key, value, expiry: Expiry::Clear };
            let slot = Slot(key.len() as u16);
            let change = Change::in_slot(DB0, EventClass::String, effect, Some(slot));
            let change = Change { creates: key.is_empty(), removes: value.is_empty(), ..change };
            let (mut all, mut short) = (Vec::new(), Vec::new());
            let lsn_of_all = encode::put_record_of(UnixMs(7), &change, Lsn(9), &mut all);
            let lsn = encode::put_short_set(UnixMs(7), &change, Lsn(9), &mut short);
            let is_short = key.len() < 255 && value.len() < 255;
            let expected = if is_short { (Some(lsn_of_all), all) } else { (None, Vec::new()) };
            assert_eq!((lsn, short), expected, "{} and {}", key.len(), value.len());
        }
    }

    #[test]
    fn memory_of_each_kind_gets_the_same_bytes() {
        let mut random = Prng::new(13);
        for _ in 0..5_000 {
            draw(&mut random, |change| {
                let (record, mut bytes) = (Record::one(UnixMs(-5), change), Vec::new());
                let mut wide = WideBytes::with_capacity(usize::from(change.creates) * 100);
                let lsns =
                    [record.encode(Lsn(70), &mut bytes), record.encode_into(Lsn(70), &mut wide)];
                assert!(lsns[0] == lsns[1] && *wide == *bytes, "{change:?}");
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
