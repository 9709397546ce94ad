//! A snapshot is the dataset of its cut, whatever changes while it is taken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::prng::Prng;
use collections::{End, Limits};
use rdb::Version;
use rdb::file::{EntryEncoder, FileForm, FileReader, FileWriter, Item};

use super::*;
use crate::{
    Access, DatasetDigest, LastUse, Snapshot, SnapshotBatch, SnapshotContent, SnapshotEnd,
    SnapshotOptions, WhenAbsent, WriteView,
};

const OPTIONS: SnapshotOptions = SnapshotOptions {
    version: Version::NEWEST,
    compresses: true,
    queued_bytes_max: 64 << 20,
    now: NOW,
};

/// A file of what a snapshot has given so far.
struct File {
    writer: FileWriter<Vec<u8>>,
    encoder: EntryEncoder,
}

impl File {
    fn begin() -> File {
        let form = FileForm { version: Version::NEWEST, has_field_times: true, has_checksum: true };
        let writer = FileWriter::begin(Vec::new(), &form).unwrap();
        File { writer, encoder: EntryEncoder::new(Version::NEWEST, true) }
    }

    fn add(&mut self, batch: &SnapshotBatch) {
        for piece in &batch.pieces {
            match &piece.content {
                SnapshotContent::Encoded(bytes) => {
                    self.writer.entries(piece.database, bytes).unwrap();
                }
                SnapshotContent::Held(held) => {
                    let mut bytes = held.head.clone();
                    let value = rdb::Stored::String(held.value.as_ref());
                    self.encoder.put(&held.key, held.expires_at, value, &mut bytes);
                    self.writer.entries(piece.database, &bytes).unwrap();
                }
            }
        }
    }

    /// Returns the numbers under the keys of each thread.
    fn numbers(self) -> BTreeMap<usize, BTreeMap<u64, u64>> {
        let bytes = self.writer.finish().unwrap();
        let mut reader = FileReader::open(&bytes[..]).unwrap();
        let mut numbers: BTreeMap<usize, BTreeMap<u64, u64>> = BTreeMap::new();
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Entry(entry) = item else { continue };
            let (thread, key) = str::from_utf8(entry.key).unwrap().split_once(':').unwrap();
            let limits = rdb::samples::default_rules();
            let options =
                rdb::DecodeOptions { rules: &limits, encoding: None, string_bytes_max: 99 };
            let value = rdb::decode(entry.value, &options, &mut |_| Ok::<(), ()>(()));
            let Ok(rdb::Value::String(text)) = value else { panic!("a number") };
            let number = str::from_utf8(&text).unwrap().parse().unwrap();
            let of_thread = numbers.entry(thread.parse().unwrap()).or_default();
            assert_eq!(of_thread.insert(key.parse().unwrap(), number), None);
        }
        numbers
    }

    /// Returns the digest of the dataset that the file makes.
    fn digest(self) -> DatasetDigest {
        let bytes = self.writer.finish().unwrap();
        let fixture = Fixture::with_segments(1 << 16, 4096);
        let mut reader = FileReader::open(&bytes[..]).unwrap();
        let mut database = DB0;
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Database(index) => database = DatabaseIndex(index as u8),
                Item::Entry(entry) => {
                    let key = fixture.keyspace.hasher().key(entry.key);
                    let mut guard = fixture.keyspace.lock(key.shard);
                    let mut view = guard.write(database, UnixMs(0));
                    assert!(!view.contains(&key), "each key is there once");
                    view.load(&key, entry.value, entry.expires_at, 0, LastUse::Now).unwrap();
                }
                _ => {}
            }
        }
        Access::free(&fixture.keyspace).digest()
    }
}

/// Takes all that is left of `snapshot`, one bucket at a time, with `between` between.
fn take_rest(mut snapshot: Snapshot<'_>, file: &mut File, mut between: impl FnMut()) {
    while let Some(batch) = snapshot.step(|| true).unwrap() {
        file.add(&batch);
        drop(batch);
        between();
    }
}

fn with_view<R>(
    keyspace: &Keyspace,
    names: [&str; 2],
    database: DatabaseIndex,
    change: impl FnOnce(&mut WriteView<'_>, [&Key<'_>; 2]) -> R,
) -> R {
    let [first, second] = names.map(|name| keyspace.hasher().key(name.as_bytes()));
    let mut guard = keyspace.lock_keys(&[first, second]);
    change(&mut guard.write(database, NOW), [&first, &second])
}

/// Makes a change that is drawn from `random`, of a few hundred keys of two databases.
fn change(keyspace: &Keyspace, random: &mut Prng) {
    let database = DatabaseIndex(random.below(2) as u8);
    let first = random.below(300);
    let names = [first, (first + 1 + random.below(299)) % 300].map(|number| number.to_string());
    let names = [names[0].as_str(), names[1].as_str()];
    let length = [3, 3, 30, 300, 6_000][random.below(5) as usize];
    let text = format!("{}{}", random.next(), "v".repeat(length));
    let value = text.as_bytes();
    with_view(keyspace, names, database, |view, [key, other]| match random.below(12) {
        0..3 => view.set(key, value, crate::Expiry::Clear).unwrap(),
        3 => view.set(key, value, crate::Expiry::At(later(random.below(100) as i64))).unwrap(),
        4 => drop(view.remove(key)),
        5 => drop(view.rename(key, other)),
        6 => drop(view.move_to(key, DatabaseIndex(1 - database.0))),
        7 => drop(view.copy_to(key, other, database)),
        8 => drop(view.set_expiry(key, later(random.below(9) as i64))),
        9 if view.string_length(key).is_ok() => drop(view.append(key, value)),
        10 => drop(view.push(key, End::Tail, std::iter::repeat_n(value, 3), WhenAbsent::Create)),
        _ => drop(view.add_members(key, [value, b"1", b"2"].into_iter())),
    });
}

#[test]
fn a_snapshot_is_the_dataset_of_its_cut() {
    for seed in 0..30 {
        let fixture = Fixture::with_segments(1 << 16, 4096);
        let keyspace = &fixture.keyspace;
        keyspace.set_collection_limits(Limits { set_entries: 8, ..Limits::default() });
        let mut random = Prng::new(seed);
        for _ in 0..random.below(3_000) {
            change(keyspace, &mut random);
        }
        let expected = Access::free(keyspace).digest();
        let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        assert_eq!(snapshot.lsn(), fixture.sink.end());
        assert!(keyspace.begin_snapshot(OPTIONS, |last| last).is_err(), "one at a time");
        let mut file = File::begin();
        let (mut at, is_growing) = (NOW, random.one_in(2));
        let mut added = 0;
        take_rest(snapshot, &mut file, || {
            for _ in 0..random.below(20) {
                change(keyspace, &mut random);
            }
            if random.one_in(40) {
                Access::free(keyspace).swap_databases(DB0, DB1, NOW).unwrap();
            }
            if random.one_in(40) {
                at = later(random.below(200) as i64);
                for shard in keyspace.shard_indexes() {
                    keyspace.expire_step(shard, at, 100);
                }
            }
            if random.one_in(40) {
                for number in 0..300 {
                    with_view(keyspace, [&number.to_string(), "0"], DB0, |view, [key, _]| {
                        view.remove(key)
                    });
                }
            }
            for _ in 0..if is_growing { 30 } else { 0 } {
                added += 1;
                fixture.set(&format!("new {added}"), "v");
            }
        });
        assert_eq!(file.digest(), expected, "seed {seed}");
        assert!(keyspace.begin_snapshot(OPTIONS, |last| last).is_ok(), "the last has ended");
    }
}

/// What a thread does as its change `number`: it stores the number under one of few keys, or takes
/// the key away.
fn numbered(number: u64) -> (u64, Option<u64>) {
    (number * 7 % 150, (!number.is_multiple_of(5)).then_some(number))
}

/// Returns what the keys of a thread hold after `count` changes: each of 150 changes is of another
/// key.
fn after(count: u64) -> BTreeMap<u64, u64> {
    let mut held = BTreeMap::new();
    for number in count.saturating_sub(150)..count {
        match numbered(number) {
            (key, Some(value)) => held.insert(key, value),
            (key, None) => held.remove(&key),
        };
    }
    held
}

#[test]
fn a_snapshot_has_of_each_thread_all_changes_up_to_one() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    let (ends, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    std::thread::scope(|scope| {
        for (thread, count) in counts.iter().enumerate() {
            let ends = &ends;
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let number = count.load(Ordering::SeqCst);
                    let (key, value) = numbered(number);
                    let name = format!("{thread}:{key}");
                    with_view(keyspace, [&name, &name], DB0, |view, [key, _]| match value {
                        Some(value) => {
                            let text = format!("{value}").into_bytes();
                            view.set(key, &text, crate::Expiry::Clear).unwrap();
                        }
                        None => drop(view.remove(key)),
                    });
                    count.store(number + 1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..20 {
            let before: Vec<u64> =
                counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
            let behind: Vec<u64> =
                counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            let mut file = File::begin();
            take_rest(snapshot, &mut file, std::thread::yield_now);
            let held = file.numbers();
            for thread in 0..counts.len() {
                let found = held.get(&thread).cloned().unwrap_or_default();
                // One change may be made whose count is not stored yet.
                let mut cuts = before[thread]..=behind[thread] + 1;
                assert!(cuts.any(|count| after(count) == found), "thread {thread}: {found:?}");
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_flush_and_a_queue_that_nobody_takes_end_a_snapshot() {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    (0..2_000).for_each(|number| fixture.set(&format!("{number}"), "value of a key"));
    let keyspace = &fixture.keyspace;
    let mut snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
    Access::free(keyspace).flush_database(DB1, NOW);
    assert!(snapshot.step(|| true).is_ok(), "nothing of it was there");
    Access::free(keyspace).flush_database(DB0, NOW);
    assert!(matches!(snapshot.step(|| true), Err(SnapshotEnd::Flushed)));
    drop(snapshot);
    (0..2_000).for_each(|number| fixture.set(&format!("{number}"), "value of a key"));
    let used = keyspace.used_memory();
    let options = SnapshotOptions { queued_bytes_max: 2_000, ..OPTIONS };
    let mut snapshot = keyspace.begin_snapshot(options, |last| last).unwrap();
    for number in 0..2_000 {
        fixture.set(&format!("{number}"), "value of a key");
    }
    let queued = snapshot.queued_bytes();
    assert!(queued > 2_000 && queued < 10_000, "{queued}");
    assert_eq!(keyspace.used_memory(), used + queued, "what waits counts");
    assert!(matches!(snapshot.step(|| true), Err(SnapshotEnd::Overflow)));
    drop(snapshot);
    assert_eq!(keyspace.used_memory(), used);
}

#[test]
fn a_value_that_has_expired_is_loaded_as_a_stale_one() {
    let fixture = Fixture::new();
    let mut payload = Vec::new();
    rdb::encode(rdb::Stored::String(b"v"), &mut payload);
    let bytes = rdb::open(&payload).unwrap();
    let last_use = LastUse::Ago { seconds: 7 };
    let load = |view: &mut WriteView<'_>, key: &Key<'_>| {
        view.load(key, bytes, Some(later(-10)), 1_000, last_use)
    };
    assert_eq!(fixture.write("k", NOW, load), Ok(true));
    assert_eq!(fixture.get("k", NOW), None);
    let key = fixture.key("k");
    let guard = fixture.keyspace.lock(key.shard);
    let view = guard.read(DB0, NOW);
    assert_eq!(view.string_or_stale(&key), Some(&b"v"[..]));
    assert_eq!(view.stale_string_length(&key), Some(1));
    assert_eq!(view.idle_seconds(&view.inspect(&key).unwrap()), 7);
    drop(guard);
    let records = fixture.records();
    assert!(records.iter().all(|record| !record.starts_with("DEL")), "{records:?}");
}
