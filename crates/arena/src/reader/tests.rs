//! The reader on a real table: every kind of entry, every refusal, memory full of nonsense, and a
//! writer thread that never pauses.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::ShardIndex;
use base::prng::Prng;

use super::*;
use crate::arena::{Arena, ArenaConfig};
use crate::atomic_copy::word;
use crate::mapped_range::LimitPolicy;
use crate::pins::{HeapPins, PIN_SLOTS};
use crate::segment_source::{HeapSource, SegmentSource};
use crate::table::{EntryId, NewValue, Table};
use crate::{AccessMark, Encoding, ValueType};

const DATABASE: DatabaseIndex = DatabaseIndex(0);

/// The arena's own memory, as a reader would map it.
struct OwnMemory {
    base: NonNull<u8>,
    span_bytes: u64,
    epoch: AtomicU64,
}

// SAFETY: an address, a size and an atomic; the tests keep the memory alive.
unsafe impl Send for OwnMemory {}
// SAFETY: as above.
unsafe impl Sync for OwnMemory {}

// SAFETY: the tests hold the source for longer than the view, and a heap source is one allocation.
unsafe impl SegmentView for OwnMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
}

struct Fixture {
    reader: Reader<OwnMemory>,
    table: Table,
    arena: Arc<Arena>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(1 << 16, if cfg!(miri) { 48 } else { 512 })
    }

    fn with(segment_bytes: u64, segment_count: u32) -> Fixture {
        let source = HeapSource::new(segment_bytes, segment_count);
        let (base, span_bytes) = (source.base(), source.span_bytes());
        let config =
            ArenaConfig { shard_count: 1, database_count: 2, hash_keys: base::HashKeys::fixed(11) };
        let arena = Arena::new(Box::new(source), config).unwrap();
        let table =
            Table::new(arena.clone(), ShardIndex(0), DATABASE, LimitPolicy::Limited).unwrap();
        let pins: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        arena.pins().add(1, pins.clone());
        let view = OwnMemory { base, span_bytes, epoch: AtomicU64::new(0) };
        let reader = Reader::open(view, Some(pins)).unwrap();
        let fixture = Fixture { reader, table, arena };
        fixture.refresh();
        fixture
    }

    fn refresh(&self) {
        self.reader.view.epoch.store(self.reader.arena_epoch(), Ordering::Release);
    }

    fn set(&mut self, key: &[u8], value: &[u8], expiry: Option<UnixMs>) {
        set(&self.arena, &mut self.table, key, value, expiry);
        self.refresh();
    }

    fn id(&self, key: &[u8]) -> EntryId {
        self.table.find(self.arena.hasher().hash(key), key).unwrap()
    }

    fn get(&self, key: &[u8]) -> Outcome<Vec<u8>> {
        let mut value = b"old".to_vec();
        self.reader.get(DATABASE, key, never, &mut value).map(|()| value)
    }

    fn found(&self, key: &[u8]) -> Vec<u8> {
        match self.get(key) {
            Outcome::Found(value) => value,
            other => panic!("{} is {other:?}", key.escape_ascii()),
        }
    }
}

fn set(arena: &Arena, table: &mut Table, key: &[u8], bytes: &[u8], expiry: Option<UnixMs>) {
    let hash = arena.hasher().hash(key);
    let (value_type, encoding) = (ValueType::String, Encoding::Raw);
    let value = NewValue { bytes, value_type, encoding, expiry, mark: AccessMark::default() };
    match table.find(hash, key) {
        Some(id) => table.replace(id, key, &value).unwrap(),
        None => table.insert(hash, key, &value).unwrap(),
    };
}

/// The clock of entries without a time to live.
fn never() -> UnixMs {
    panic!("no clock is needed")
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

#[test]
fn uses_are_reported_one_in_so_many_and_only_where_they_are_wanted() {
    let mut fixture = Fixture::new();
    fixture.set(b"key", b"value", None);
    let key = fixture.arena.hasher().key(b"key");
    let reads = if cfg!(miri) { 1_000 } else { 40_000 };
    let reported = |wanted: bool, read: &dyn Fn(&Reader<OwnMemory>)| {
        fixture.arena.want_access_reports(wanted);
        let mut reports = Vec::new();
        for _ in 0..reads / 500 {
            (0..500).for_each(|_| read(&fixture.reader));
            fixture.arena.pins().take_access_reports(0, usize::MAX, &mut reports);
        }
        assert!(reports.iter().all(|access| *access == AccessReport::new(DATABASE, &key)));
        reports.len()
    };
    let get = |reader: &Reader<OwnMemory>| {
        assert_eq!(reader.get(DATABASE, b"key", never, &mut Vec::new()), Outcome::Found(()));
    };
    assert_eq!(reported(false, &get), 0);
    let expected = reads / 64;
    assert!(reported(true, &get).abs_diff(expected) < expected / 4);
    let strlen = |reader: &Reader<OwnMemory>| {
        assert_eq!(reader.strlen(DATABASE, b"key", never), Outcome::Found(5));
    };
    assert!(reported(true, &strlen) > 0);
    let pin = |reader: &Reader<OwnMemory>| {
        let (mut buffer, expected) = (Vec::new(), b"value");
        let pinned = reader.pin(DATABASE, b"key", never, &mut buffer);
        assert!(matches!(pinned, Outcome::Found(None)) && buffer == expected);
    };
    assert!(reported(true, &pin).abs_diff(expected) < expected / 4, "one look, one use");
    let look = |reader: &Reader<OwnMemory>| {
        assert_eq!(reader.exists(DATABASE, b"key", never), Outcome::Found(()));
        assert_eq!(reader.expiry(DATABASE, b"key", never), Outcome::Found(None));
        assert_eq!(reader.strlen(DATABASE, b"none", never), Outcome::Absent);
    };
    assert_eq!(reported(true, &look), 0, "no use");
}

#[test]
fn miri_every_kind_of_entry_is_read_back() {
    let mut fixture = Fixture::new();
    let mut content = Vec::new();
    for (index, key_length) in [0, 1, 7, 8, 9, 123, 124, 300, 5000].into_iter().enumerate() {
        for (step, length) in [0, 1, 15, 256, 1023, 1024, 4090, 9000].into_iter().enumerate() {
            // Under miri each length of a key meets a few of those of values, and each of those a
            // few of keys: it looks for accesses that are wrong, which depend on either. Each key
            // is four bytes longer than these lengths, by its number.
            if cfg!(miri) && (index + step) % 3 != 0 {
                continue;
            }
            let seed = (index * 100 + step) as u64;
            let mut key = bytes(seed, key_length);
            key.extend_from_slice(&(seed as u32).to_le_bytes());
            content.push((key, bytes(seed + 7, length)));
        }
    }
    content.push((Vec::new(), b"of the empty key".to_vec()));
    for (key, value) in &content {
        fixture.set(key, value, None);
    }
    for (key, value) in &content {
        assert_eq!(fixture.found(key), *value, "{} bytes, key {}", value.len(), key.len());
        let length = fixture.reader.strlen(DATABASE, key, never);
        assert_eq!(length, Outcome::Found(value.len() as u64));
        assert_eq!(fixture.reader.exists(DATABASE, key, never), Outcome::Found(()));
        assert_eq!(fixture.reader.expiry(DATABASE, key, never), Outcome::Found(None));
    }
    assert_eq!(fixture.get(b"another"), Outcome::Absent);
    assert_eq!(fixture.reader.exists(DatabaseIndex(1), b"", never), Outcome::Absent);
    assert_eq!(fixture.reader.exists(DatabaseIndex(9), b"", never), Outcome::Absent);
}

#[test]
fn miri_collections_are_told_apart_by_where_they_lie() {
    let mut fixture = Fixture::new();
    let handle = |count: Option<u64>| {
        let count = count.map(u64::to_le_bytes);
        [7_u64.to_le_bytes().as_slice(), count.as_ref().map_or(&[], |it| it)].concat()
    };
    let (long, kinds) = ([b'k'; 5000], [Encoding::Listpack, Encoding::Intset]);
    let (listpack, intset) = (kinds[0], kinds[1]);
    type Row<'a> = (&'a [u8], ValueType, Encoding, Vec<u8>, FoundCollection);
    let rows: [Row<'_>; 6] = [
        (b"a", ValueType::List, listpack, bytes(1, 100), FoundCollection::Compact(listpack)),
        (b"b", ValueType::Set, intset, bytes(2, 9), FoundCollection::Compact(intset)),
        (b"c", ValueType::Hash, listpack, bytes(3, 1), FoundCollection::Compact(listpack)),
        (
            b"d",
            ValueType::SortedSet,
            Encoding::Handle,
            handle(Some(1 << 33)),
            FoundCollection::Private { count: Some(1 << 33) },
        ),
        (
            b"e",
            ValueType::List,
            Encoding::Handle,
            handle(None),
            FoundCollection::Private { count: None },
        ),
        (
            &long,
            ValueType::Hash,
            Encoding::Handle,
            handle(None),
            FoundCollection::Private { count: None },
        ),
    ];
    for (key, value_type, encoding, bytes, _) in &rows {
        let (value_type, encoding, mark) = (*value_type, *encoding, AccessMark::default());
        let value = NewValue { bytes, value_type, encoding, expiry: Some(UnixMs(5)), mark };
        let hash = fixture.arena.hasher().hash(key);
        fixture.table.insert(hash, key, &value).unwrap();
    }
    fixture.set(b"text", b"value", None);
    fixture.refresh();
    let mut compact = b"of an earlier read".to_vec();
    for (key, value_type, _, bytes, expected) in rows {
        let mut read = |value_type, now| {
            fixture.reader.collection(DATABASE, key, value_type, || UnixMs(now), &mut compact)
        };
        let other = if value_type == ValueType::Set { ValueType::List } else { ValueType::Set };
        assert_eq!(read(other, 5), Outcome::WrongType);
        assert_eq!(read(value_type, 6), Outcome::Absent);
        assert_eq!(read(value_type, 5), Outcome::Found(expected));
        if let FoundCollection::Compact(_) = expected {
            assert_eq!(compact, bytes);
        }
    }
    let text = fixture.reader.collection(DATABASE, b"text", ValueType::Set, never, &mut compact);
    assert_eq!(text, Outcome::WrongType);
    assert_eq!(fixture.reader.get(DATABASE, b"a", || UnixMs(5), &mut compact), Outcome::WrongType);
}

/// Inserts a hash whose listpack, as far as the arena knows, is `bytes`.
fn insert_listpack(table: &mut Table, hash: u64, key: &[u8], bytes: &[u8]) {
    let (value_type, encoding, mark) = (ValueType::Hash, Encoding::Listpack, AccessMark::default());
    let value = NewValue { bytes, value_type, encoding, expiry: None, mark };
    match table.find(hash, key) {
        Some(id) => table.replace(id, key, &value).unwrap(),
        None => table.insert(hash, key, &value).unwrap(),
    };
}

#[test]
fn miri_bytes_where_they_lie_are_those_of_the_value_at_every_alignment() {
    let mut fixture = Fixture::new();
    for key_length in 1..=9 {
        for length in [0, 1, 7, 8, 9, 16, 23, if cfg!(miri) { 30 } else { 300 }] {
            let (key, value) = (vec![length as u8; key_length], bytes(length as u64, length));
            let hash = fixture.arena.hasher().hash(&key);
            insert_listpack(&mut fixture.table, hash, &key, &value);
            fixture.refresh();
            let look = |found: SharedCollection<'_>| {
                let SharedCollection::Compact(Encoding::Listpack, shared) = found else {
                    panic!("it is a listpack")
                };
                let all = shared.positions();
                let by_byte: Vec<u8> = all.clone().map(|at| shared.byte(at).unwrap()).collect();
                let words = all.clone().step_by(8).map(|at| shared.word(at).unwrap().to_le_bytes());
                let mut by_word = words.collect::<Vec<_>>().concat();
                by_word.truncate(length);
                let (mut copied, mut appended) = (b"old".to_vec(), b"head".to_vec());
                shared.copy_to(&mut copied);
                for at in [0, length / 3, length] {
                    appended.truncate(4);
                    let (head, tail) = (all.start..all.start + at, all.start + at..all.end);
                    shared.append_to(head, &mut appended).unwrap();
                    shared.append_to(tail, &mut appended).unwrap();
                    assert_eq!(&appended[4..], value);
                }
                assert_eq!(
                    (by_byte == value, by_word == value, copied == value),
                    (true, true, true)
                );
                let behind = [all.start..all.end + 1, all.end + 1..all.end + 1];
                assert!(behind.map(|it| shared.append_to(it, &mut appended)) == [None, None]);
                let far = [all.end + 16, usize::MAX / 2];
                assert!(far.iter().all(|&at| (shared.byte(at), shared.word(at)) == (None, None)));
                Some(())
            };
            let outcome =
                fixture.reader.search_collection(DATABASE, &key, ValueType::Hash, never, look);
            assert_eq!(outcome, Outcome::Found(()));
        }
    }
}

#[test]
fn search_that_sees_nonsense_is_made_again_and_ends() {
    let mut fixture = Fixture::new();
    let hash = fixture.arena.hasher().hash(b"key");
    insert_listpack(&mut fixture.table, hash, b"key", b"value");
    fixture.refresh();
    let search = |calls_in_vain: u32| {
        let mut calls = 0;
        let outcome =
            fixture.reader.search_collection(DATABASE, b"key", ValueType::Hash, never, |_| {
                calls += 1;
                (calls > calls_in_vain).then_some(calls)
            });
        (outcome, calls)
    };
    assert_eq!(search(0), (Outcome::Found(1), 1));
    assert_eq!(search(5), (Outcome::Found(6), 6));
    assert_eq!(search(u32::MAX), (Outcome::Busy, ATTEMPTS_MAX));
}

#[test]
fn miri_search_beside_a_busy_writer_finds_what_is_of_one_version() {
    let Fixture { reader, mut table, arena } = Fixture::new();
    let hash = arena.hasher().hash(b"key");
    let value_of = |version: u64| {
        let mut value = versioned(version);
        value.truncate(3000);
        value
    };
    insert_listpack(&mut table, hash, b"key", &value_of(0));
    let (last, done) = (if cfg!(miri) { 30 } else { 20_000 }, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=last {
                insert_listpack(&mut table, hash, b"key", &value_of(version));
                arena.reclaim();
            }
            done.store(true, Ordering::Release);
        });
        let mut newest = 0;
        while !done.load(Ordering::Acquire) || newest < last {
            reader.view.epoch.store(reader.arena_epoch(), Ordering::Release);
            let search = |found: SharedCollection<'_>| {
                let SharedCollection::Compact(_, shared) = found else { return None };
                let all = shared.positions();
                // The value is one word over and over, and perhaps a part of it.
                let last_word = all.start + all.len().checked_sub(8)? / 8 * 8;
                Some((shared.word(all.start)?, shared.word(last_word)?, all.len()))
            };
            let now = || UnixMs(0);
            match reader.search_collection(DATABASE, b"key", ValueType::Hash, now, search) {
                Outcome::Found((first, behind, length)) => {
                    assert!(first == behind && length == value_of(first).len(), "it is torn");
                    assert!(first >= newest, "version {first} after {newest}");
                    newest = first;
                }
                Outcome::Busy | Outcome::NeedSegments => {}
                other => panic!("the key is always there: {other:?}"),
            }
        }
    });
}

#[test]
fn miri_reads_of_several_keys_come_to_what_the_read_of_each_does() {
    let mut fixture = Fixture::new();
    let count = if cfg!(miri) { 40 } else { 4_000 };
    let name = |index: u64| format!("key:{index}").into_bytes();
    for index in 0..count {
        let length = if index % 7 == 0 { 5_000 } else { index as usize % 100 };
        fixture.set(&name(index), &bytes(index, length), (index % 5 == 0).then_some(UnixMs(9)));
    }
    let names: Vec<Vec<u8>> = (0..2 * count).step_by(3).map(name).collect();
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let Fixture { reader, table, arena } = fixture;
    let reader = Arc::new(reader);
    let mut buffers = vec![Vec::new(); keys.len()];
    for (database, now) in
        [(DATABASE, 5), (DATABASE, 20), (DatabaseIndex(1), 5), (DatabaseIndex(9), 5)]
    {
        let now = || UnixMs(now);
        let mut found = Vec::new();
        reader.keep_each(database, &keys, now, &mut buffers, |outcome, buffer| {
            let copied = |view: Option<KeptView<_>>| view.map_or(buffer.clone(), |it| it.to_vec());
            found.push(outcome.map(copied));
            ControlFlow::Continue(())
        });
        let alone = keys.iter().map(|key| {
            let mut value = Vec::new();
            reader.get(database, key, now, &mut value).map(|()| value)
        });
        assert_eq!(found, alone.collect::<Vec<_>>());
    }
    let mut calls = 0;
    reader.keep_each(
        DATABASE,
        &keys,
        || UnixMs(5),
        &mut buffers,
        |_, _| {
            calls += 1;
            if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    assert_eq!(calls, 3, "it ends where it is told to");
    drop((table, arena));
}

#[test]
fn entry_is_absent_once_the_callers_time_is_past_its_expiry() {
    for length in [5, 500, 9000] {
        let mut fixture = Fixture::new();
        let value = bytes(1, length);
        fixture.set(b"key", &value, Some(UnixMs(1000)));
        let mut copy = Vec::new();
        let mut at = |now| {
            let outcome = fixture.reader.get(DATABASE, b"key", || UnixMs(now), &mut copy);
            assert!(outcome != Outcome::Found(()) || copy == value);
            outcome
        };
        assert_eq!((at(999), at(1000)), (Outcome::Found(()), Outcome::Found(())));
        assert_eq!(at(1001), Outcome::Absent);
        let expiry = fixture.reader.expiry(DATABASE, b"key", || UnixMs(1000));
        assert_eq!(expiry, Outcome::Found(Some(UnixMs(1000))));
        assert_eq!(fixture.reader.expiry(DATABASE, b"key", || UnixMs(1001)), Outcome::Absent);
    }
}

#[test]
fn getrange_means_what_redis_means() {
    let mut fixture = Fixture::new();
    fixture.set(b"key", b"This is a string", None);
    fixture.set(b"empty", b"", None);
    fixture.set(b"large", &bytes(3, 9000), None);
    let part = |key: &[u8], range| {
        let mut value = Vec::new();
        let outcome = fixture.reader.getrange(DATABASE, key, never, range, &mut value);
        assert_eq!(outcome, Outcome::Found(()));
        value
    };
    assert_eq!(part(b"key", (0, 3)), b"This");
    assert_eq!(part(b"key", (-3, -1)), b"ing");
    assert_eq!(part(b"key", (0, -1)), b"This is a string");
    assert_eq!(part(b"key", (10, 100)), b"string");
    assert_eq!(part(b"key", (-100, 3)), b"This");
    for nothing in [(3, 2), (100, 200), (-1, -3), (-1, 3), (i64::MAX, i64::MAX), (0, i64::MIN)] {
        assert_eq!(part(b"key", nothing), if nothing.1 == i64::MIN { &b"T"[..] } else { b"" });
    }
    assert_eq!(part(b"empty", (0, -1)), b"");
    assert_eq!(part(b"large", (4000, 4999)), bytes(3, 9000)[4000..5000]);
}

#[test]
fn miri_pinned_view_outlives_every_change_of_its_key() {
    let mut fixture = Fixture::new();
    let old = bytes(1, 6000);
    fixture.set(b"key", &old, None);
    let Fixture { reader, table, arena } = &mut fixture;
    let mut buffer = Vec::new();
    let Outcome::Found(view) = reader.view(DATABASE, b"key", never, &mut buffer) else {
        panic!("it is there")
    };
    assert!(view.is_pinned());
    let id = table.find(arena.hasher().hash(b"key"), b"key").unwrap();
    let id = table.append(id, b"tail", Encoding::Raw).unwrap();
    assert_eq!(*view, old, "an append copies");
    let id = table.overwrite(id, 10, b"ten", Encoding::Raw).unwrap();
    assert_eq!(*view, old);
    set(arena, table, b"key", &bytes(2, 5000), None);
    table.remove(id);
    table.clear();
    set(arena, table, b"other", &bytes(3, 6000), None);
    assert_eq!(*view, old, "the block waits for its pin");
    let used = arena.usage().extent_bytes;
    drop(view);
    arena.reclaim();
    assert!(arena.usage().extent_bytes < used, "the block is free");
}

#[test]
fn miri_kept_view_outlives_its_key_and_keeps_its_reader() {
    let mut fixture = Fixture::new();
    let old = bytes(1, 6000);
    fixture.set(b"key", &old, None);
    fixture.set(b"small", b"value", None);
    let Fixture { reader, mut table, arena } = fixture;
    let (reader, mut buffer) = (Arc::new(reader), Vec::new());
    let kept = reader.keep(DATABASE, b"small", never, &mut buffer);
    assert!(matches!(kept, Outcome::Found(None)) && buffer == b"value", "a small one is copied");
    let Outcome::Found(Some(view)) = reader.keep(DATABASE, b"key", never, &mut buffer) else {
        panic!("a large one is pinned")
    };
    let alive = Arc::downgrade(&reader);
    drop(reader);
    table.clear();
    set(&arena, &mut table, b"other", &bytes(3, 6000), None);
    assert_eq!(*view, old, "the block waits for its pin");
    let used = arena.usage().extent_bytes;
    assert!(alive.upgrade().is_some());
    drop(view);
    assert!(alive.upgrade().is_none());
    arena.reclaim();
    assert!(arena.usage().extent_bytes < used, "the block is free");
}

#[test]
fn miri_views_beyond_the_share_are_copies() {
    let mut fixture = Fixture::new();
    let value = bytes(1, 6000);
    fixture.set(b"key", &value, None);
    let Fixture { reader, arena, .. } = &fixture;
    let mut buffers = [const { Vec::new() }; 3];
    let mut is_pinned = |index: usize| {
        let Outcome::Found(view) = reader.pin(DATABASE, b"key", never, &mut buffers[index]) else {
            panic!("it is there")
        };
        assert_eq!(view.as_deref().unwrap_or(&buffers[index]), value);
        view
    };
    arena.limit_views(12_000);
    let [first, second] = [0, 1].map(&mut is_pinned);
    assert!(first.is_some() && second.is_some() && is_pinned(2).is_none());
    let mut copy = Vec::new();
    assert_eq!(reader.get(DATABASE, b"key", never, &mut copy), Outcome::Found(()));
    assert_eq!(copy, value);
    arena.limit_views(0);
    assert!(is_pinned(2).is_some(), "no limit");
    arena.limit_views(12_000);
    drop(second);
    assert!(is_pinned(2).is_some());
    arena.limit_views(5_999);
    drop(first);
    assert!(is_pinned(2).is_none());
}

#[test]
fn miri_held_value_outlives_every_change_of_its_key() {
    let mut fixture = Fixture::new();
    let old = bytes(1, 6000);
    fixture.set(b"key", &old, None);
    fixture.set(b"small", b"value", None);
    let Fixture { table, arena, .. } = &mut fixture;
    let id = table.find(arena.hasher().hash(b"small"), b"small").unwrap();
    assert!(table.hold(id).is_none(), "a small value is copied");
    let id = table.find(arena.hasher().hash(b"key"), b"key").unwrap();
    let held = table.hold(id).unwrap();
    let part = table.hold(id).unwrap().narrow(100..5000);
    let id = table.append(id, b"tail", Encoding::Raw).unwrap();
    let id = table.overwrite(id, 10, b"ten", Encoding::Raw).unwrap();
    assert_eq!(held.as_ref(), old, "a change copies");
    set(arena, table, b"key", &bytes(2, 5000), None);
    table.remove(id);
    table.clear();
    set(arena, table, b"other", &bytes(3, 6000), None);
    assert_eq!((held.as_ref(), part.as_ref()), (&*old, &old[100..5000]));
    let used = arena.usage().extent_bytes;
    drop(held);
    arena.reclaim();
    assert_eq!((arena.usage().extent_bytes, part.as_ref()), (used, &old[100..5000]));
    drop(part);
    arena.reclaim();
    assert!(arena.usage().extent_bytes < used, "the block is free");
}

#[test]
fn process_holds_so_many_values_and_no_more() {
    let mut fixture = Fixture::new();
    fixture.set(b"large", &bytes(1, 6000), None);
    let Fixture { table, arena, .. } = &fixture;
    let id = table.find(arena.hasher().hash(b"large"), b"large").unwrap();
    let mut held: Vec<_> = (0..PIN_SLOTS).map(|_| table.hold(id).expect("a slot")).collect();
    assert!(table.hold(id).is_none(), "the caller copies");
    held.pop();
    assert!(table.hold(id).is_some());
}

#[test]
fn small_values_are_copied_and_large_ones_too_without_a_free_slot() {
    let mut fixture = Fixture::new();
    fixture.set(b"small", b"value", None);
    fixture.set(b"large", &bytes(1, 6000), None);
    let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); PIN_SLOTS + 2];
    let (last, rest) = buffers.split_last_mut().unwrap();
    let (small, rest) = rest.split_last_mut().unwrap();
    let view = |key: &[u8], buffer| {
        let outcome = fixture.reader.view(DATABASE, key, never, buffer);
        let Outcome::Found(view) = outcome else { panic!("it is there: {outcome:?}") };
        view
    };
    let view_small = view(b"small", small);
    assert!(!view_small.is_pinned() && *view_small == *b"value");
    let mut views: Vec<_> = rest.iter_mut().map(|buffer| view(b"large", buffer)).collect();
    assert!(views.iter().all(View::is_pinned));
    let copied = view(b"large", last);
    assert!(!copied.is_pinned() && *copied == bytes(1, 6000));
    views.pop();
    drop(views);
    assert_eq!(fixture.found(b"large"), bytes(1, 6000));
}

#[test]
fn reads_go_away_while_frozen_or_off_or_behind_and_come_back() {
    let mut fixture = Fixture::new();
    fixture.set(b"key", b"value", None);
    fixture.table.freeze();
    assert_eq!(fixture.get(b"key"), Outcome::Busy);
    assert_eq!(fixture.get(b"absent"), Outcome::Busy);
    fixture.table.thaw();
    fixture.arena.allow_readers(false);
    assert_eq!(fixture.get(b"key"), Outcome::Busy);
    fixture.arena.allow_readers(true);
    fixture.reader.view.epoch.fetch_add(1, Ordering::Relaxed);
    assert_eq!(fixture.get(b"key"), Outcome::NeedSegments);
    assert_eq!(fixture.get(b"absent"), Outcome::NeedSegments);
    fixture.refresh();
    assert_eq!(fixture.found(b"key"), b"value");
}

#[test]
fn touch_and_freeing_of_neighbours_do_not_disturb_a_reader() {
    let mut fixture = Fixture::new();
    fixture.set(b"key", &bytes(1, 100), None);
    fixture.set(b"large", &bytes(2, 9000), None);
    for word in 1..50 {
        let mark = AccessMark { word: word << 9, counts: word % 2 == 0 };
        fixture.table.touch(fixture.id(b"key"), mark);
        fixture.table.touch(fixture.id(b"large"), mark);
        assert_eq!(fixture.found(b"key"), bytes(1, 100));
        assert_eq!(fixture.found(b"large"), bytes(2, 9000));
    }
}

#[test]
fn memory_that_is_no_arena_is_refused() {
    let source = HeapSource::new(1 << 16, 1);
    let (base, span_bytes) = (source.base(), source.span_bytes());
    let open = || Reader::open(OwnMemory { base, span_bytes, epoch: AtomicU64::new(0) }, None);
    let set = |offset: u64, value: u64| {
        // SAFETY: a word of the source's memory.
        unsafe { word(base.as_ptr().add(offset as usize)) }.store(value, Ordering::Relaxed);
    };
    assert_eq!(open().err(), Some(OpenError::Magic { found: 0 }));
    set(root::MAGIC, layout::MAGIC);
    assert_eq!(open().err(), Some(OpenError::Version { found: 0 }));
    set(root::VERSION, layout::VERSION);
    set(root::HASH, u64::from_le_bytes(*b"another1"));
    let error = open().err().expect("it hashes otherwise");
    assert_eq!(error.to_string(), "arena keys hashed by 'another1'; this reader knows 'rapid3mp'");
    set(root::HASH, base::hash::INDEX_HASH);
    for (offset, wrong, right) in [
        (root::SHARD_COUNT, 3, 4),
        (root::SHARD_COUNT, 8192, 4),
        (root::DATABASE_COUNT, 0, 16),
        (root::DATABASE_COUNT, 17, 16),
        (root::SPAN_BYTES, 1, span_bytes),
        (root::UPLOAD_BASE, 0, span_bytes),
        (root::UPLOAD_BASE, span_bytes + 1, span_bytes),
    ] {
        set(offset, wrong);
        assert_eq!(open().err(), Some(OpenError::Geometry { word: offset, found: wrong }));
        set(offset, right);
    }
    assert!(open().is_ok());
}

/// A reader of an arena in which some words are nonsense, or nearly right, at any moment.
fn read_nonsense(seed: u64, rounds: u64) {
    let (segments, key_count) = if cfg!(miri) { (48, 8) } else { (160, 40) };
    let mut fixture = Fixture::with(1 << 14, segments);
    let mut random = Prng::new(seed);
    let keys: Vec<Vec<u8>> =
        (0..key_count).map(|index| bytes(index, 1 + index as usize * 7)).collect();
    for (index, key) in keys.iter().enumerate() {
        fixture.set(key, &bytes(1, index * index * 3), (index % 3 == 0).then_some(UnixMs(9)));
    }
    let image = HeapSource::new(1 << 14, segments);
    let cell = |base: NonNull<u8>, index: u64| {
        // SAFETY: a word of either source's memory, which are of one size.
        unsafe { word(base.as_ptr().add(index as usize * 8)) }
    };
    let (base, span_bytes) = (image.base(), image.span_bytes());
    let mut used = Vec::new();
    for index in 0..span_bytes / 8 {
        let original = cell(fixture.reader.view.base, index).load(Ordering::Relaxed);
        // The image is zero already, and under miri each word that is stored costs more than one
        // that is not.
        if original != 0 {
            cell(base, index).store(original, Ordering::Relaxed);
            if index * 8 >= layout::TABLE_HEADERS {
                used.push((index, original));
            }
        }
    }
    let epoch = AtomicU64::new(fixture.reader.arena_epoch());
    let view = OwnMemory { base, span_bytes, epoch };
    let reader = Arc::new(Reader::open(view, Some(Arc::new(HeapPins::new()))).unwrap());
    let (mut buffer, mut ends) = (Vec::new(), [0_u64; 3]);
    for _ in 0..rounds {
        let spoiled: Vec<_> =
            (0..1 + random.below(8)).map(|_| random.below(used.len() as u64)).collect();
        for &at in &spoiled {
            let (index, original) = used[at as usize];
            let value = match random.below(6) {
                0 => random.below(span_bytes) & !1,
                1 => original ^ 1 << random.below(64),
                2 => random.pick(&used).1,
                3 => original & !(0xFF << (8 * random.below(8))),
                4 => span_bytes - random.below(100),
                _ => random.next(),
            };
            cell(base, index).store(value, Ordering::Relaxed);
        }
        let key = &keys[random.below(keys.len() as u64) as usize];
        look_at_each(&reader, &[&keys[0], key]);
        match reader.view(DATABASE, key, || UnixMs(0), &mut buffer) {
            Outcome::Found(view) => {
                std::hint::black_box((view.first(), view.last()));
                ends[0] += 1;
            }
            Outcome::Absent => ends[1] += 1,
            _ => ends[2] += 1,
        }
        look_at_collections(&reader, key, &mut buffer);
        for &at in &spoiled {
            let (index, original) = used[at as usize];
            cell(base, index).store(original, Ordering::Relaxed);
        }
    }
    assert!(rounds < 1000 || ends.iter().all(|&count| count > 0), "seed {seed}: {ends:?}");
}

/// Reads what is at `key` as if it were a collection, copied and where it lies.
fn look_at_collections(reader: &Reader<OwnMemory>, key: &[u8], buffer: &mut Vec<u8>) {
    let now = || UnixMs(0);
    let search = |found: SharedCollection<'_>| {
        let SharedCollection::Compact(_, shared) = found else { return None };
        let all = shared.positions();
        let ends = [all.start, all.end, all.end.wrapping_sub(1), usize::MAX];
        Some(ends.map(|at| (shared.byte(at), shared.word(at))))
    };
    for value_type in [ValueType::String, ValueType::Hash] {
        std::hint::black_box(reader.collection(DATABASE, key, value_type, now, buffer));
        let found = reader.search_collection(DATABASE, key, value_type, now, search);
        std::hint::black_box(found);
    }
}

/// Reads `keys` together, and looks at the bytes of those whose values are pinned.
fn look_at_each(reader: &Arc<Reader<OwnMemory>>, keys: &[&[u8]]) {
    let mut count = 0;
    let look = |outcome: Outcome<Option<KeptView<OwnMemory>>>, _: &mut Vec<u8>| {
        if let Outcome::Found(Some(view)) = outcome {
            std::hint::black_box((view.first(), view.last()));
        }
        count += 1;
        ControlFlow::Continue(())
    };
    reader.keep_each(DATABASE, keys, || UnixMs(0), &mut vec![Vec::new(); keys.len()], look);
    assert_eq!(count, keys.len());
}

#[test]
fn miri_nonsense_misleads_but_never_faults() {
    read_nonsense(3, if cfg!(miri) { 20 } else { 100_000 });
}

#[test]
fn reader_beside_values_that_change_keys_and_tables_sees_them_in_order() {
    let Fixture { reader, mut table, arena } = Fixture::new();
    let mut other =
        Table::new(arena.clone(), ShardIndex(0), DatabaseIndex(1), LimitPolicy::Limited).unwrap();
    // New values come to the first key, and go from each to the next.
    let row: [(&[u8], u8); 3] = [(b"one", 0), (b"two", 0), (b"three", 1)];
    let (last, done) = (5_000, AtomicBool::new(false));
    let (mut seen, mut handed_on) = ([0_u64; 3], 0);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut handed_on = 0;
            for version in 1..=last {
                set(&arena, &mut table, b"one", &versioned(version), None);
                handed_on += u64::from(hand_on(&arena, &mut table, None, b"one", b"two"));
                if version % 3 == 0 {
                    let to = Some(&mut other);
                    handed_on += u64::from(hand_on(&arena, &mut table, to, b"two", b"three"));
                }
                arena.reclaim();
            }
            done.store(true, Ordering::Release);
            handed_on
        });
        let mut buffer = Vec::new();
        while !done.load(Ordering::Acquire) {
            for ((key, database), seen) in row.into_iter().zip(&mut seen) {
                reader.view.epoch.store(reader.arena_epoch(), Ordering::Release);
                let database = DatabaseIndex(database);
                if let Outcome::Found(view) = reader.view(database, key, never, &mut buffer) {
                    let version = version_of(&view);
                    assert!(version >= *seen, "version {version} after {seen}");
                    *seen = version;
                }
            }
            std::thread::yield_now();
        }
        handed_on = writing.join().unwrap();
    });
    assert!(handed_on > last / 4, "{handed_on} values stayed where they lay");
    assert!(seen.iter().any(|&version| version > 0), "some are seen");
}

/// Gives a large value to another key of its table or of `to`; returns whether it stayed where it
/// lies. A small one or a held one is removed instead.
fn hand_on(
    arena: &Arena,
    from: &mut Table,
    mut to: Option<&mut Table>,
    source: &[u8],
    target: &[u8],
) -> bool {
    let [source_hash, target_hash] = [source, target].map(|key| arena.hasher().hash(key));
    from.freeze();
    to.iter_mut().for_each(|table| table.freeze());
    to.as_deref_mut().unwrap_or(from).prepare_adoption().unwrap();
    let detached = from.find(source_hash, source).and_then(|id| from.detach(id, target));
    let is_handed_on = detached.is_some();
    if let Some(detached) = detached {
        let table = to.as_deref_mut().unwrap_or(from);
        if let Some(id) = table.find(target_hash, target) {
            table.remove_for_adoption(id);
        }
        table.adopt(target_hash, target, detached);
        from.settle();
    } else if let Some(id) = from.find(source_hash, source) {
        from.remove(id);
    }
    to.iter_mut().for_each(|table| table.thaw());
    from.thaw();
    is_handed_on
}

/// Values that say which they are: the version over and over, as many bytes as it decides.
fn versioned(version: u64) -> Vec<u8> {
    let length: usize = match version % 5 {
        0 => 8,
        1 => 64,
        2 => 300,
        3 => 4200,
        _ => 6000,
    };
    // Whole words at a time: under miri a loop over bytes takes longer than all that is tested.
    let mut value = version.to_le_bytes().repeat(length.div_ceil(8));
    value.truncate(length);
    value
}

fn version_of(value: &[u8]) -> u64 {
    let version = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert_eq!(value, versioned(version), "version {version} is torn");
    version
}

#[test]
fn miri_reader_beside_a_busy_writer_sees_whole_values_in_order() {
    let mut fixture = Fixture::new();
    fixture.set(b"key", &versioned(0), None);
    let Fixture { reader, table, arena } = &mut fixture;
    let (last, done) = (if cfg!(miri) { 30 } else { 5_000 }, AtomicBool::new(false));
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=last {
                set(arena, table, b"key", &versioned(version), None);
                set(arena, table, &version.to_le_bytes(), &versioned(version), None);
                let old = (version - 1).to_le_bytes();
                if let Some(id) = table.find(arena.hasher().hash(&old), &old) {
                    table.remove(id);
                }
                arena.reclaim();
            }
            done.store(true, Ordering::Release);
        });
        let (mut newest, mut found) = (0, 0);
        let mut buffer = Vec::new();
        while !done.load(Ordering::Acquire) || newest < last {
            reader.view.epoch.store(reader.arena_epoch(), Ordering::Release);
            let asked = Cell::new(false);
            let clock = || {
                asked.set(true);
                UnixMs(0)
            };
            match reader.view(DATABASE, b"key", clock, &mut buffer) {
                Outcome::Found(view) => {
                    let version = version_of(&view);
                    assert!(version >= newest, "version {version} after {newest}");
                    (newest, found) = (version, found + 1);
                }
                Outcome::Busy | Outcome::NeedSegments => {}
                other => panic!("the key is always there: {other:?}"),
            }
        }
        found
    });
    assert!(found > 0);
}
