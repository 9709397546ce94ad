//! Upload memory: its stages, who may name what, and tables whose values lie in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::prng::Prng;
use base::{DatabaseIndex, ShardIndex, UnixMs};

use super::*;
use crate::arena::{Arena, ArenaConfig};
use crate::mapped_range::{LimitPolicy, NeedRoom};
use crate::pins::{HeapPins, PinMemory, publish, release};
use crate::segment_source::HeapSource;
use crate::table::{ADOPTED_BYTES_MIN, EntryId, NewValue, Source, Table};
use crate::{AccessMark, Encoding, Grace, ValueType};

const SEGMENT_BYTES: u64 = 1 << 16;
const UPLOAD_SEGMENTS: u32 = 4;
const SESSION: u64 = 7;
const LENGTH: u64 = 5000;

fn arena() -> Arc<Arena> {
    let segments = if cfg!(miri) { 20 } else { 64 };
    let source = HeapSource::new(SEGMENT_BYTES, segments).with_uploads(UPLOAD_SEGMENTS);
    let config =
        ArenaConfig { shard_count: 1, database_count: 1, hash_keys: base::HashKeys::fixed(3) };
    Arena::new(Box::new(source), config).unwrap()
}

/// Makes a run that can be used.
fn open(arena: &Arena, session: u64, segments: u64) -> UploadRun {
    let run = arena.uploads().make(session, segments * SEGMENT_BYTES, true).unwrap();
    arena.uploads().begin_seal(session, run.offset).unwrap();
    assert!(arena.uploads().end_seal(run.offset, true));
    run
}

fn uploader(arena: &Arena) -> Uploader<'_> {
    Uploader::new(arena.uploads(), SESSION)
}

/// Writes what a client would.
fn write(arena: &Arena, offset: u64, bytes: &[u8]) {
    // SAFETY: the tests write inside of runs, from the only thread that does.
    unsafe { crate::atomic_copy::store_bytes(arena.memory.pointer(offset), bytes) };
}

fn bytes(seed: u64, length: u64) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + seed * 31 + index / 251) as u8).collect()
}

fn value(expiry: Option<UnixMs>) -> NewValue<'static> {
    let (value_type, encoding) = (ValueType::String, Encoding::Raw);
    NewValue { bytes: &[], value_type, encoding, expiry, mark: AccessMark::default() }
}

struct Fixture {
    arena: Arc<Arena>,
    table: Table,
    pins: Arc<dyn PinMemory>,
}

impl Fixture {
    fn new() -> Fixture {
        let arena = arena();
        let table =
            Table::new(arena.clone(), ShardIndex(0), DatabaseIndex(0), LimitPolicy::Limited);
        let pins: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        arena.pins().add(1, pins.clone());
        Fixture { table: table.unwrap(), arena, pins }
    }

    fn find(&self, key: &[u8]) -> Option<EntryId> {
        self.table.find(self.arena.hasher().hash(key), key)
    }

    /// Commits `length` bytes of `seed` under `key`; returns where they are.
    fn put(&mut self, key: &[u8], seed: u64, stays: bool) -> u64 {
        let arena = self.arena.clone();
        let offset = uploader(&arena).allocate(LENGTH).unwrap();
        write(&arena, offset, &bytes(seed, LENGTH));
        let claim = uploader(&arena).claim(offset, LENGTH).unwrap();
        let source = Source::Uploaded(claim.uploaded(stays));
        match self.find(key) {
            Some(id) => self.table.replace_from(id, key, source, &value(None)).unwrap(),
            None => {
                let hash = arena.hasher().hash(key);
                self.table.insert_from(hash, key, source, &value(None)).unwrap()
            }
        };
        if stays {
            claim.finish_adoption()
        } else {
            claim.finish_copy()
        }
        offset
    }

    fn read(&self, key: &[u8]) -> Vec<u8> {
        let mut buffer = Vec::new();
        let entry = self.table.entry(self.find(key).unwrap());
        entry.value_or_copy(&mut buffer).to_vec()
    }

    fn adopted(&self) -> u64 {
        self.arena.uploads().usage().adopted_count
    }
}

#[test]
fn miri_run_is_used_between_its_seal_and_its_end() {
    let arena = arena();
    let (uploads, before) = (arena.uploads(), arena.usage());
    assert_eq!(uploader(&arena).allocate(1), Err(UploadError::NoRun));
    let run = uploads.make(SESSION, 1, true).unwrap();
    assert_eq!(run.bytes, SEGMENT_BYTES);
    assert_eq!(uploader(&arena).allocate(1), Err(UploadError::NoRun), "it is not sealed");
    assert_eq!(uploads.begin_seal(SESSION + 1, run.offset), Err(UploadError::NoRun));
    uploads.begin_seal(SESSION, run.offset).unwrap();
    assert_eq!(uploads.begin_seal(SESSION, run.offset), Err(UploadError::NoRun), "once");
    assert_eq!(uploads.is_open(SESSION, run.offset), Some(false));
    let epoch = arena.segment_epoch();
    assert!(uploads.end_seal(run.offset, true));
    assert_ne!(arena.segment_epoch(), epoch, "readers ask for the segments");
    assert_eq!(uploads.is_open(SESSION, run.offset), Some(true));
    let offset = uploader(&arena).allocate(1).unwrap();
    assert_eq!(offset, run.offset);
    assert!(uploads.end(SESSION));
    assert_eq!(arena.uploads().usage().open_count, 0);
    arena.reclaim();
    assert_eq!(uploads.usage(), UploadUsage::default());
    assert_eq!(arena.usage(), before, "nothing is charged any more");
    assert_eq!(uploader(&arena).give_back(offset), Err(UploadError::NoRange));
}

#[test]
fn run_whose_session_ends_while_it_is_sealed_waits_for_the_thread() {
    let arena = arena();
    for is_sealed in [false, true] {
        let run = arena.uploads().make(SESSION, 1, true).unwrap();
        arena.uploads().begin_seal(SESSION, run.offset).unwrap();
        arena.uploads().end(SESSION);
        assert_eq!(arena.uploads().usage().run_count, 1, "the thread still uses the memory");
        assert!(!arena.uploads().end_seal(run.offset, is_sealed));
        arena.reclaim();
        assert_eq!(arena.uploads().usage(), UploadUsage::default());
    }
    let run = arena.uploads().make(SESSION, 1, true).unwrap();
    arena.uploads().begin_seal(SESSION, run.offset).unwrap();
    assert!(!arena.uploads().end_seal(run.offset, false), "it could not be sealed");
    assert_eq!(arena.uploads().is_open(SESSION, run.offset), None);
}

#[test]
fn regions_segments_are_used_again_and_no_more_than_there_are() {
    let arena = arena();
    let first = open(&arena, 1, 2);
    let second = open(&arena, 2, 2);
    assert_eq!(second.offset, first.offset + first.bytes);
    assert_eq!(arena.uploads().make(3, 1, true), Err(UploadError::TooManyRuns));
    arena.uploads().end(1);
    assert_eq!(arena.uploads().make(3, 1, true), Err(UploadError::TooManyRuns), "not yet");
    arena.reclaim();
    assert_eq!(arena.uploads().make(3, 3 * SEGMENT_BYTES, true), Err(UploadError::TooManyRuns));
    assert_eq!(open(&arena, 3, 2).offset, first.offset);
}

#[test]
fn what_a_client_names_is_held_against_its_own_open_uploads() {
    let arena = arena();
    let run = open(&arena, SESSION, 1);
    let other = open(&arena, SESSION + 1, 1);
    let own = uploader(&arena);
    let offset = own.allocate(LENGTH).unwrap();
    let foreign = Uploader::new(arena.uploads(), SESSION + 1).allocate(LENGTH).unwrap();
    let wrong = [
        (foreign, 1),
        (other.offset + 64, 1),
        (offset + 64, 1),
        (offset - 64, 1),
        (offset + 1, 1),
        (run.offset + run.bytes, 1),
        (0, 1),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
    ];
    for (offset, length) in wrong {
        assert_eq!(own.claim(offset, length).err(), Some(UploadError::NoRange), "{offset:#x}");
        assert_eq!(own.give_back(offset), Err(UploadError::NoRange), "{offset:#x}");
    }
    let range_bytes = LENGTH.next_multiple_of(64);
    for length in [range_bytes + 1, u64::MAX] {
        let refused = own.claim(offset, length).err();
        assert_eq!(refused, Some(UploadError::TooLong { range_bytes }));
    }
    let claim = own.claim(offset, range_bytes).unwrap();
    assert_eq!(own.claim(offset, 1).err(), Some(UploadError::NoRange), "it is claimed");
    assert_eq!(own.give_back(offset), Err(UploadError::NoRange), "it is claimed");
    drop(claim);
    own.give_back(offset).unwrap();
    assert_eq!(own.give_back(offset), Err(UploadError::NoRange), "it is given back");
    assert_eq!(own.claim(offset, 1).err(), Some(UploadError::NoRange), "it is given back");
    assert_eq!(own.allocate(SEGMENT_BYTES + 1), Err(UploadError::NoSpace));
    assert_eq!(own.allocate(u64::MAX), Err(UploadError::NoSpace));
    for _ in 0..SEGMENT_BYTES / 64 {
        if let Err(error) = own.allocate(1) {
            assert!(matches!(error, UploadError::TooManyRanges), "{error}");
        }
    }
    assert_eq!(arena.uploads().usage().open_count, 1 + OPEN_RANGES_MAX as u64);
}

#[test]
fn claim_that_outlives_its_session_keeps_the_run_and_then_ends_it() {
    let arena = arena();
    open(&arena, SESSION, 1);
    let offset = uploader(&arena).allocate(LENGTH).unwrap();
    let claim = uploader(&arena).claim(offset, LENGTH).unwrap();
    arena.uploads().end(SESSION);
    assert_eq!(arena.uploads().usage().run_count, 1);
    assert_eq!(claim.copied().len() as u64, LENGTH, "its memory is there");
    drop(claim);
    arena.reclaim();
    assert_eq!(arena.uploads().usage(), UploadUsage::default());
}

#[test]
fn miri_value_is_copied_or_stays_and_is_the_same_either_way() {
    let mut fixture = Fixture::new();
    let run = open(&fixture.arena, SESSION, 2);
    for (seed, stays) in [(1, false), (2, true), (3, true), (4, false), (5, true)] {
        let offset = fixture.put(b"key", seed, stays);
        assert!((run.offset..run.offset + run.bytes).contains(&offset));
        let entry = fixture.table.entry(fixture.find(b"key").unwrap());
        assert_eq!((entry.is_adopted(), entry.value_length()), (stays, LENGTH));
        assert_eq!(fixture.read(b"key"), bytes(seed, LENGTH));
        // The value before is gone, and with it its range.
        assert_eq!(fixture.adopted(), u64::from(stays));
    }
    assert!(fixture.arena.usage().extent_bytes < 1000, "the block of an adopted value is small");
    fixture.table.remove(fixture.find(b"key").unwrap());
    assert_eq!(fixture.adopted(), 0);
    let usage = fixture.arena.uploads().usage();
    assert_eq!((usage.adoptions, usage.copies, usage.adopted_bytes), (3, 2, 0));
    // All of the run is free.
    assert_eq!(uploader(&fixture.arena).allocate(run.bytes), Ok(run.offset));
}

#[test]
fn owned_value_is_as_any_other_and_its_range_free() {
    let mut fixture = Fixture::new();
    open(&fixture.arena, SESSION, 2);
    let offset = fixture.put(b"key", 1, true);
    let id = fixture.find(b"key").unwrap();
    let id = fixture.table.set_expiry(id, Some(UnixMs(77))).unwrap();
    fixture.table.set_grace(id, Grace::at_least(500));
    fixture.table.own(id).unwrap();
    fixture.table.own(id).unwrap();
    assert_eq!((fixture.adopted(), fixture.arena.uploads().usage().owned), (0, 1));
    write(&fixture.arena, offset, &bytes(9, LENGTH));
    let entry = fixture.table.entry(id);
    assert_eq!((entry.value(), entry.expiry()), (&bytes(1, LENGTH)[..], Some(UnixMs(77))));
    assert_eq!((entry.key(), entry.grace().ms()), (&b"key"[..], 500));
    assert!(fixture.table.hold(id).is_some());
}

#[test]
fn miri_copy_made_beside_the_table_is_the_value_of_a_key_that_still_has_it() {
    let mut fixture = Fixture::new();
    open(&fixture.arena, SESSION, 2);
    fixture.put(b"key", 1, true);
    let id = fixture.find(b"key").unwrap();
    let id = fixture.table.set_expiry(id, Some(UnixMs(77))).unwrap();
    let held = fixture.table.hold_adopted(id).unwrap();
    let mut copy = fixture.arena.copy_adopted(3, &held).unwrap();
    fixture.table.own_with(id, held, &mut copy).unwrap();
    drop(copy);
    let entry = fixture.table.entry(id);
    assert_eq!((entry.value(), entry.expiry()), (&bytes(1, LENGTH)[..], Some(UnixMs(77))));
    assert_eq!((fixture.adopted(), fixture.arena.uploads().usage().owned), (0, 1));
    assert!(fixture.table.hold_adopted(id).is_none(), "it is owned");

    // Another value of the same length comes meanwhile.
    fixture.put(b"key", 2, true);
    let held = fixture.table.hold_adopted(fixture.find(b"key").unwrap()).unwrap();
    let mut copy = fixture.arena.copy_adopted(3, &held).unwrap();
    fixture.table.remove(fixture.find(b"key").unwrap());
    fixture.put(b"key", 3, true);
    fixture.table.own_with(fixture.find(b"key").unwrap(), held, &mut copy).unwrap();
    drop(copy);
    assert_eq!(fixture.read(b"key"), bytes(3, LENGTH));
    fixture.arena.reclaim();
    assert_eq!((fixture.adopted(), fixture.arena.reserved_bytes()), (1, 0));
}

#[test]
fn adopted_value_is_owned_by_the_first_change_of_its_bytes() {
    type Change = fn(&mut Table, EntryId) -> Result<EntryId, NeedRoom>;
    let append: Change = |table, id| table.append(id, b"tail", Encoding::Raw);
    let overwrite: Change = |table, id| table.overwrite(id, 3, b"middle", Encoding::Raw);
    let nothing: Change = |table, id| table.append(id, b"", Encoding::Raw);
    for change in [append, overwrite, nothing] {
        let mut fixture = Fixture::new();
        open(&fixture.arena, SESSION, 1);
        fixture.put(b"key", 1, true);
        let id = fixture.find(b"key").unwrap();
        assert!(fixture.table.hold(id).is_none(), "a client can write it");
        let id = change(&mut fixture.table, id).unwrap();
        assert_eq!(fixture.adopted(), 0);
        assert!(fixture.table.entry(id).value().len() as u64 >= LENGTH);
    }
}

#[test]
#[should_panic(expected = "nobody else writes what a slice is made of")]
fn slice_of_an_adopted_value_is_never_made() {
    let mut fixture = Fixture::new();
    open(&fixture.arena, SESSION, 1);
    fixture.put(b"key", 1, true);
    let _ = fixture.table.entry(fixture.find(b"key").unwrap()).value();
}

#[test]
fn range_of_a_pinned_value_is_given_back_with_the_pin_and_closes_the_run() {
    for leave in ["remove", "replace", "own", "clear"] {
        let mut fixture = Fixture::new();
        open(&fixture.arena, SESSION, 1);
        let offset = fixture.put(b"key", 1, true);
        let id = fixture.find(b"key").unwrap();
        let block = fixture.table.entry(id).large_block().unwrap();
        publish(fixture.pins.words(), 3, block);
        match leave {
            "remove" => assert!(!fixture.table.remove(id)),
            "replace" => drop(fixture.table.replace(id, b"key", &value(None)).unwrap()),
            "own" => fixture.table.own(id).unwrap(),
            _ => drop(fixture.table.clear()),
        }
        fixture.arena.reclaim();
        fixture.arena.uploads().end(SESSION);
        assert_eq!((fixture.adopted(), fixture.arena.uploads().usage().run_count), (1, 1));
        let mut seen = vec![0; LENGTH as usize];
        fixture.arena.memory.load_upload(offset, &mut seen);
        assert_eq!(seen, bytes(1, LENGTH), "{leave}: it is as it was");
        release(fixture.pins.words(), 3);
        fixture.arena.reclaim();
        assert_eq!((fixture.adopted(), fixture.arena.uploads().usage().run_count), (0, 0));
    }
}

#[test]
fn value_that_was_taken_leaves_its_memory_to_the_next() {
    let mut fixture = Fixture::new();
    open(&fixture.arena, SESSION, 1);
    let mut offsets = BTreeSet::new();
    for number in 0..20_u64 {
        fixture.arena.reclaim_few();
        offsets.insert(fixture.put(b"key", number, true));
        let id = fixture.find(b"key").unwrap();
        let block = fixture.table.entry(id).large_block().unwrap();
        publish(fixture.pins.words(), 3, block);
        fixture.table.remove(id);
        fixture.arena.reclaim_few();
        assert_eq!(fixture.adopted(), 1, "a reader still looks at it");
        release(fixture.pins.words(), 3);
    }
    assert_eq!(offsets.len(), 1);
}

/// Returns the bytes of the segments that `ranges` lie in.
fn segment_bytes_of(ranges: impl Iterator<Item = (u64, u64)>) -> u64 {
    let numbers = |(at, length)| at / SEGMENT_BYTES..=(at + length - 1) / SEGMENT_BYTES;
    let segments: BTreeSet<u64> = ranges.flat_map(numbers).collect();
    segments.len() as u64 * SEGMENT_BYTES
}

#[test]
fn what_a_session_leaves_is_the_segments_that_its_values_lie_in() {
    for seed in 0..30 {
        let (mut fixture, mut random) = (Fixture::new(), Prng::new(seed));
        let arena = fixture.arena.clone();
        let upload_bytes = u64::from(UPLOAD_SEGMENTS) * SEGMENT_BYTES;
        open(&arena, SESSION, u64::from(UPLOAD_SEGMENTS));
        // They take all of the run, but for a little, and some of them lie in two segments.
        let number_max = upload_bytes / LENGTH.next_multiple_of(64);
        let numbers = 0..number_max;
        let mut values: Vec<(u64, u64)> = numbers
            .map(|number| (number, fixture.put(&number.to_le_bytes(), number, true)))
            .collect();
        let offset = uploader(&arena).allocate(64).unwrap();
        let claim = random.one_in(2).then(|| uploader(&arena).claim(offset, 64).unwrap());
        let ends_at = random.below(number_max) as usize;
        while !values.is_empty() {
            let (number, _) = values.swap_remove(random.below(values.len() as u64) as usize);
            fixture.table.remove(fixture.find(&number.to_le_bytes()).unwrap());
            if values.len() > ends_at {
                continue;
            }
            arena.uploads().end(SESSION);
            arena.reclaim();
            let claimed = claim.iter().map(|_| (offset, 64));
            let expected = values.iter().map(|(_, offset)| (*offset, LENGTH)).chain(claimed);
            let usage = arena.uploads().usage();
            assert_eq!(usage.bytes, segment_bytes_of(expected), "seed {seed}");
            assert_eq!(usage.open_count, u64::from(claim.is_some()), "seed {seed}");
            let read = |number: u64| fixture.read(&number.to_le_bytes());
            assert!(values.iter().all(|(number, _)| read(*number) == bytes(*number, LENGTH)));
        }
        drop(claim);
        arena.reclaim();
        let usage = arena.uploads().usage();
        assert_eq!((usage.run_count, usage.bytes, usage.open_count), (0, 0, 0), "seed {seed}");
        open(&arena, SESSION + 1, u64::from(UPLOAD_SEGMENTS));
    }
}

#[test]
fn full_arena_adopts_but_cannot_own() {
    let mut fixture = Fixture::new();
    open(&fixture.arena, SESSION, 1);
    fixture.put(b"key", 1, true);
    fixture.arena.set_limit(fixture.arena.usage().touched_bytes);
    let id = fixture.find(b"key").unwrap();
    assert!(fixture.table.own(id).is_err());
    assert!(fixture.table.append(id, b"tail", Encoding::Raw).is_err());
    assert_eq!((fixture.read(b"key"), fixture.adopted()), (bytes(1, LENGTH), 1));
    fixture.arena.set_limit(0);
    fixture.table.own(id).unwrap();
    assert_eq!(fixture.read(b"key"), bytes(1, LENGTH));
    const { assert!(LENGTH >= ADOPTED_BYTES_MIN) };
}
