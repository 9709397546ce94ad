//! A snapshot is the dataset of its cut, whatever changes while it is taken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arena::Cost;
use base::prng::Prng;
use collections::{
    Direction, End, Group, Hash, Limits, ListLimit, Pending, Place, References, Rules, Stream,
    StreamId, Trim, TrimBounds, walk_parts,
};
use rdb::Version;
use rdb::file::{EntryEncoder, FileForm, FileReader, FileWriter, Item};

use super::*;
use crate::eviction::Victims;
use crate::{
    Access, DatasetDigest, FieldTime, LastUse, Snapshot, SnapshotBatch, SnapshotContent,
    SnapshotEnd, SnapshotOptions, TimeCondition, WhenAbsent, WriteView,
};

const OPTIONS: SnapshotOptions = SnapshotOptions {
    version: Version::NEWEST,
    compresses: true,
    queued_bytes_max: 64 << 20,
    whole_bytes_max: 0,
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
                SnapshotContent::Encoded(bytes) | SnapshotContent::Begin(bytes) => {
                    self.writer.entries(piece.database, bytes).unwrap();
                }
                SnapshotContent::Held(held) => {
                    let mut bytes = held.head.clone();
                    let value = rdb::Stored::String(held.value.as_ref());
                    self.encoder.put(&held.key, held.expires_at, value, &mut bytes);
                    self.writer.entries(piece.database, &bytes).unwrap();
                }
                SnapshotContent::Parts(kind, parts) => {
                    let mut bytes = Vec::new();
                    self.encoder.put_parts(*kind, parts, &mut bytes);
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
        Access::free(&self.load().keyspace).digest()
    }

    /// Returns the dataset that the file makes.
    fn load(self) -> Fixture {
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
                    let cost = Cost::of(entry.cost).expect("a snapshot has written it");
                    view.load(&key, entry.value, entry.expires_at, 0, LastUse::Now, cost).unwrap();
                }
                _ => {}
            }
        }
        fixture
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
    with_view(keyspace, names, database, |view, [key, other]| match random.below(13) {
        0..3 => view.set(key, value, crate::Expiry::Clear).unwrap(),
        12 => {
            let cost = Cost::of(1 + random.below(Cost::MAX)).unwrap();
            view.set_costed(key, value, crate::Expiry::Keep, cost).unwrap();
        }
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

/// Makes a change that is drawn from `random`, of a few keys that hold large collections most of
/// the time: each of a type, until another takes its name.
fn change_large(keyspace: &Keyspace, random: &mut Prng) {
    let database = DatabaseIndex(random.below(2) as u8);
    let first = random.below(10);
    let names = [first, (first + 5) % 10].map(|number| format!("large {number}"));
    let names = [names[0].as_str(), names[1].as_str()];
    let texts: Vec<String> = (0..1 + random.below(30))
        .map(|_| format!("{:x<1$}", random.below(300), 1 + random.below(30) as usize))
        .collect();
    let words = || texts.iter().map(String::as_bytes);
    let (end, count) =
        ([End::Head, End::Tail][random.below(2) as usize], random.below(40) as usize);
    let at = random.below(200) as usize;
    with_view(keyspace, names, database, |view, [key, other]| {
        // What finds another type is refused, and changes nothing.
        match (first % 5, random.below(40)) {
            (_, 0) => drop(view.remove(key)),
            (_, 1) => drop(view.rename(key, other)),
            (_, 2) => drop(view.move_to(key, DatabaseIndex(1 - database.0))),
            (_, 3) => drop(view.copy_to(key, other, database)),
            (_, 4) => drop(view.set_expiry(key, later(random.below(9) as i64))),
            (_, 5) => view.set(key, b"a string", crate::Expiry::Clear).unwrap(),
            (0, 6..20) => {
                let value = texts[0].as_bytes();
                let _ = view.set_fields(key, words().flat_map(|word| [word, value]));
            }
            // Of one of the two names seldom, so that there are hashes without times at the cut.
            (0, 20..30) if first == 0 || random.one_in(20) => {
                change_field_times(view, key, random, &texts);
            }
            (0, _) => drop(view.change_fields(key, "HDEL", words(), words(), |hash, rules| {
                let gone = words().filter(|word| hash.remove(word, rules)).count();
                (gone, gone > 0)
            })),
            (1, 6..20) => drop(view.push(key, end, words(), WhenAbsent::Create)),
            (1, 20..26) => drop(view.pop(key, end, count, |_, _| ())),
            (1, 26..30) => drop(view.set_element(key, at, texts[0].as_bytes())),
            (1, 30..34) => {
                let (pivot, element) = (texts[0].as_bytes(), texts[0].as_bytes());
                let _ = view.insert_element(key, Place::Before, pivot, element);
            }
            (1, 34..36) => drop(view.rotate(key, End::Head, end, |_| ())),
            (1, 36..38) => drop(view.trim(key, count, 150)),
            (1, _) => drop(view.remove_elements(key, end, 3, texts[0].as_bytes())),
            (2, 6..26) => drop(view.add_members(key, words())),
            (2, _) => drop(view.remove_members(key, words())),
            (4, change) => change_entries(view, key, (change, at), random, &texts),
            (_, 6..26) => {
                let pairs: Vec<_> = words().map(|word| (at as f64, word)).collect();
                let rule = |_, score| Some(score);
                let _ = view.score_members(key, &pairs, WhenAbsent::Create, rule);
            }
            (_, 26..32) => drop(view.remove_ranks(key, at, count)),
            _ => drop(view.remove_scored(key, words())),
        }
    });
}

/// Makes a change of the fields `texts` of the hash at `key`, or of their times, that is drawn from
/// `random`.
fn change_field_times(
    view: &mut WriteView<'_>,
    key: &Key<'_>,
    random: &mut Prng,
    texts: &[String],
) {
    let all = |hash: &mut Hash, _: &Rules| {
        let mut names = Vec::new();
        hash.view().for_each(|field, _| names.push(field.to_vec()));
        (names, false)
    };
    let none = std::iter::empty::<&[u8]>;
    // What finds another type is refused, and changes nothing.
    let Ok(Some(mut names)) = view.change_fields(key, "HDEL", none(), none(), all) else { return };
    if !random.one_in(8) {
        // Few of those that are there, and others.
        names.sort();
        let first = random.below(names.len() as u64) as usize;
        names = names.into_iter().skip(first).take(1 + random.below(9) as usize).collect();
        names.extend(texts.iter().take(2).map(|text| text.clone().into_bytes()));
    }
    let words = || names.iter().map(Vec::as_slice);
    let pairs = || words().flat_map(|word| [word, b"7"]);
    // Some of the times have come: the next change that names such a field removes it first.
    let at = later(random.below(300) as i64 - 30);
    let condition =
        random.pick(&[TimeCondition::Always, TimeCondition::Later, TimeCondition::Present]);
    match random.below(16) {
        0..5 => drop(view.set_field_times(key, at, condition, words())),
        5 => drop(view.set_field_times(key, later(-1), TimeCondition::Always, words().take(3))),
        6..9 => drop(view.set_timed_fields(key, pairs(), FieldTime::At(at))),
        9 => drop(view.set_timed_fields(key, pairs(), FieldTime::Keep)),
        10 => drop(view.set_past_fields(key, words().take(3))),
        11 => drop(view.update_number(key, &names[0], |_| Ok::<_, ()>(at.0))),
        12 => drop(view.set_fields(key, pairs())),
        _ => drop(view.change_fields(key, "HPERSIST", words(), words(), |hash, rules| {
            let is_there = |name: &&[u8]| hash.view().get(name, rules).is_some();
            let there: Vec<&[u8]> = words().filter(is_there).collect();
            let had_time = |name: &&&[u8]| hash.set_time(name, None, rules).is_some();
            let count = there.iter().filter(had_time).count();
            (count, count > 0)
        })),
    }
}

/// Makes a change of the stream at `key` that a number below 40 chooses, some at entry `at`.
fn change_entries(
    view: &mut WriteView<'_>,
    key: &Key<'_>,
    (change, at): (u64, usize),
    random: &mut Prng,
    texts: &[String],
) {
    match change {
        ..16 => change_stream(view, key, |stream, limits| {
            for word in texts.iter().map(String::as_bytes) {
                let id = stream.log().last_id().next().unwrap();
                stream.log_mut().add(id, &[word, b"v"], limits).unwrap();
            }
        }),
        16..19 => change_stream(view, key, |stream, _| {
            let ids: Vec<StreamId> = entries(stream).skip(at).step_by(3).take(3).collect();
            ids.into_iter().for_each(|id| assert!(stream.log_mut().remove(id)));
        }),
        19..21 => change_stream(view, key, |stream, _| {
            let trim = Trim::ToLength(at as u64);
            stream.log_mut().trim(trim, TrimBounds::EXACT, None);
        }),
        21..23 => change_stream(view, key, |stream, _| {
            let bounds = TrimBounds { is_approximate: true, limit: 0 };
            stream.log_mut().trim(Trim::ToLength(at as u64), bounds, None);
        }),
        23..25 => change_stream(view, key, |stream, _| {
            stream.trim_acknowledged(Trim::ToLength(at as u64), 1_000, &mut |_| ());
        }),
        25..27 => change_stream(view, key, |stream, _| {
            // Back to what is there: the next entries have identities that others had.
            let last = stream.log().last_entry().unwrap_or_default();
            stream.log_mut().set_last(last, None, None);
        }),
        27 => change_stream(view, key, |stream, _| {
            let group = Group::new(stream.log().last_id(), None);
            stream.add_group(texts[0].as_bytes(), group);
        }),
        _ => change_stream(view, key, |stream, _| change_groups(stream, random)),
    }
}

/// Makes a change of what is pending in one of two groups of `stream` that is drawn from `random`,
/// or of the group.
fn change_groups(stream: &mut Stream, random: &mut Prng) {
    let name = random.pick(&[&b"group"[..], b"a group"]);
    let id = StreamId::new(0, 1 + random.below(700));
    match random.below(40) {
        0 => _ = stream.remove_group(name),
        1..4 => _ = stream.add_group(name, Group::new(id, None)),
        4 => {
            let trim = Trim::Before(StreamId::new(0, random.below(50)));
            stream.trim_with_pending(trim, TrimBounds::EXACT, &mut |_, _| ());
        }
        5 => _ = stream.remove_entry(id, References::Delete, &mut |_, _| ()),
        _ => _ = stream.change_group(name, |_, group| change_pending(group, id, random)),
    }
}

/// As [`change_groups`], of `group`; some changes are of entries from `first` on.
fn change_pending(group: &mut Group, first: StreamId, random: &mut Prng) {
    let consumer = random.pick(&[&b"ada"[..], b"bob", b"eve", b"zoe"]);
    let found = group.find_consumer(consumer);
    let ids = (0..1 + random.below(60)).map(|step| StreamId::new(0, first.sequence + step));
    match (random.below(30), found) {
        (0, Some(index)) => _ = group.remove_consumer(index),
        (1, _) => group.set_position(first, Some(random.below(99))),
        (2..10, _) => ids.for_each(|id| _ = group.acknowledge(id)),
        (number, found) => {
            let index = found.unwrap_or_else(|| group.add_consumer(consumer, NOW));
            // What is with nobody was never delivered.
            let (consumer, delivered_at) = match number {
                10..13 => (None, UnixMs(0)),
                _ => (Some(index), later(random.below(99) as i64)),
            };
            let pending = Pending { consumer, delivered_at, delivery_count: 1 + random.below(9) };
            ids.for_each(|id| group.set_pending(id, pending));
        }
    }
}

fn entries(stream: &Stream) -> impl Iterator<Item = StreamId> {
    let mut entries = stream.log().entries(StreamId::MIN, StreamId::MAX, Direction::Up);
    std::iter::from_fn(move || entries.advance())
}

/// Changes the stream at `key`, which comes to be where it is not there.
fn change_stream(
    view: &mut WriteView<'_>,
    key: &Key<'_>,
    change: impl FnOnce(&mut Stream, &Limits),
) {
    // Another type is refused.
    let _ = view.change_stream(
        key,
        WhenAbsent::Create,
        || 1 << 16,
        |stream, limits, effects| {
            change(stream, limits);
            effects.add(("XADD", ""), Vec::new);
        },
    );
}

#[test]
fn large_collections_are_those_of_the_cut() {
    for seed in 0..30 {
        let fixture = Fixture::with_segments(1 << 16, 4096);
        let keyspace = &fixture.keyspace;
        let few = Limits {
            list: ListLimit(16),
            hash_entries: 8,
            set_integers: 8,
            set_entries: 8,
            sorted_set_entries: 8,
            stream_node_entries: 4,
            ..Limits::default()
        };
        keyspace.set_collection_limits(few);
        let mut random = Prng::new(seed);
        for _ in 0..random.below(1_900) {
            change_large(keyspace, &mut random);
        }
        keyspace.drop_retired();
        let (expected, used) = (Access::free(keyspace).digest(), keyspace.used_memory());
        let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        let mut file = File::begin();
        let (mut at, rate) = (NOW, random.below(6));
        let changes_at = [0, random.below(40)][random.below(2) as usize];
        let mut steps = 0;
        take_rest(snapshot, &mut file, || {
            steps += 1;
            for _ in 0..if steps > changes_at { random.below(rate + 1) } else { 0 } {
                change_large(keyspace, &mut random);
            }
            if rate > 0 && random.one_in(200) {
                Access::free(keyspace).swap_databases(DB0, DB1, NOW).unwrap();
            }
            if rate > 0 && random.one_in(100) {
                at = later(random.below(200) as i64);
                for shard in keyspace.shard_indexes() {
                    keyspace.expire_step(shard, at, 100);
                }
            }
        });
        assert_eq!(file.digest(), expected, "seed {seed}");
        if rate == 0 {
            keyspace.drop_retired();
            assert_eq!(keyspace.used_memory(), used, "seed {seed}: all was given back");
        }
    }
}

#[test]
fn groups_are_those_of_the_cut() {
    for seed in 0..60 {
        let fixture = Fixture::with_segments(1 << 16, 4096);
        let keyspace = &fixture.keyspace;
        let mut random = Prng::new(seed);
        fixture.write("stream", NOW, |view, key| {
            change_stream(view, key, |stream, limits| {
                for sequence in 1..700 {
                    let id = StreamId::new(0, sequence);
                    stream.log_mut().add(id, &[b"field", b"v"], limits).unwrap();
                }
                (0..random.below(400)).for_each(|_| change_groups(stream, &mut random));
            });
        });
        let (expected, used) = (Access::free(keyspace).digest(), keyspace.used_memory());
        let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        let (mut file, rate) = (File::begin(), random.below(8));
        take_rest(snapshot, &mut file, || {
            for _ in 0..random.below(rate + 1) {
                fixture.write("stream", NOW, |view, key| {
                    change_stream(view, key, |stream, _| change_groups(stream, &mut random));
                });
            }
        });
        assert_eq!(file.digest(), expected, "seed {seed}");
        if rate == 0 {
            assert_eq!(keyspace.used_memory(), used, "seed {seed}: all was given back");
        }
    }
}

#[test]
fn a_group_that_is_removed_is_left_to_the_snapshot() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    make_large(&fixture);
    let (expected, before) = (Access::free(keyspace).digest(), keyspace.used_memory());
    let remove = || {
        fixture.write("groups", NOW, |view, key| {
            change_stream(view, key, |stream, _| assert!(stream.remove_group(b"group")));
        });
    };
    let mut snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
    remove();
    let queued = snapshot.queued_bytes();
    assert!((200_000..1_000_000).contains(&queued), "{queued} bytes of 4,000 entries");
    assert!(keyspace.used_memory() >= before, "it is there for the snapshot");
    let mut file = File::begin();
    while let Some(batch) = snapshot.step(|| true).unwrap() {
        file.add(&batch);
    }
    assert_eq!(snapshot.queued_bytes(), 0);
    drop(snapshot);
    assert!(keyspace.used_memory() < before - 200_000, "it is free");
    assert_eq!(file.digest(), expected);
    // One that ends early gives it back, too, where no shard is locked.
    make_large(&fixture);
    let before = keyspace.used_memory();
    let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
    remove();
    let end = |index| keyspace.lock(index).only().0.end_snapshot();
    let freed: Vec<_> = keyspace.shard_indexes().map(end).collect();
    assert!(keyspace.used_memory() >= before, "whoever locked the shards has it");
    drop(freed);
    drop(snapshot);
    assert!(keyspace.used_memory() < before - 200_000, "it is free");
}

#[test]
fn times_of_fields_are_those_of_the_cut() {
    for seed in 0..40 {
        let fixture = Fixture::with_segments(1 << 16, 4096);
        let keyspace = &fixture.keyspace;
        keyspace.set_collection_limits(Limits { hash_entries: 8, ..Limits::default() });
        let mut random = Prng::new(seed);
        let names: Vec<String> = (0..200).map(|number| format!("field {number}")).collect();
        let words = || names.iter().map(String::as_bytes);
        let pairs = || words().flat_map(|word| [word, b"v"]);
        fixture.write("hash", NOW, |view, key| view.set_fields(key, pairs())).unwrap();
        // All of them expire, or few, or none before the snapshot has begun.
        for _ in 0..random.pick(&[0, 1, 9, 150]) {
            let name = random.below(200);
            let (at, always) = (later(random.below(300) as i64), TimeCondition::Always);
            let field = std::iter::once(names[name as usize].as_bytes());
            let set = |view: &mut WriteView<'_>, key: &Key<'_>| {
                view.set_field_times(key, at, always, field)
            };
            fixture.write("hash", NOW, set).unwrap();
        }
        let expected = Access::free(keyspace).digest();
        let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        let mut file = File::begin();
        take_rest(snapshot, &mut file, || {
            if random.one_in(3) {
                fixture.write("hash", NOW, |view, key| {
                    change_field_times(view, key, &mut random, &names[..2]);
                });
            }
            if random.one_in(60) {
                let at = later(random.below(100) as i64);
                for shard in keyspace.shard_indexes() {
                    keyspace.expire_step(shard, at, 20);
                }
            }
        });
        assert_eq!(file.digest(), expected, "seed {seed}");
    }
}

#[test]
fn values_of_every_type_are_in_a_snapshot_whatever_the_length_of_their_keys() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    for length in (4_030..4_100).step_by(3).chain([1, 300, 20_000, 65_535]) {
        for count in [1_u32, 300] {
            let name = |kind: &str| format!("{kind} {count} {}", "k".repeat(length));
            let words: Vec<String> = (0..count).map(|number| format!("word {number}")).collect();
            let words = || words.iter().map(String::as_bytes);
            let push = |view: &mut WriteView<'_>, key: &Key<'_>| {
                view.push(key, End::Tail, words(), WhenAbsent::Create)
            };
            fixture.write(&name("list"), NOW, push).unwrap();
            fixture.write(&name("set"), NOW, |view, key| view.add_members(key, words())).unwrap();
            let pairs = || words().flat_map(|word| [word, b"v"]);
            fixture.write(&name("hash"), NOW, |view, key| view.set_fields(key, pairs())).unwrap();
            let score = |view: &mut WriteView<'_>, key: &Key<'_>| {
                let pairs: Vec<_> = words().map(|word| (1.0, word)).collect();
                view.score_members(key, &pairs, WhenAbsent::Create, |_, it| Some(it)).map(drop)
            };
            fixture.write(&name("sorted set"), NOW, score).unwrap();
            fixture.set(&name("string"), "v");
        }
    }
    let expected = Access::free(keyspace).digest();
    for whole_bytes_max in [0, 1 << 20] {
        let options = SnapshotOptions { whole_bytes_max, ..OPTIONS };
        let snapshot = keyspace.begin_snapshot(options, |last| last).unwrap();
        let mut file = File::begin();
        take_rest(snapshot, &mut file, || {});
        assert_eq!(file.digest(), expected);
    }
}

/// Makes a hash, one with fields that expire, a list, a set, a sorted set, a stream, and one with
/// entries that are pending, of some thousand parts each.
fn make_large(fixture: &Fixture) {
    for number in 0..4_000 {
        let text = format!("a part of a collection, number {number}");
        let part = text.as_bytes();
        let one = || std::iter::once(part);
        fixture
            .write("hash", NOW, |view, key| view.set_fields(key, [part; 2].into_iter()))
            .unwrap();
        let time =
            if number % 3 > 0 { FieldTime::At(later(number.into())) } else { FieldTime::Keep };
        let set_timed = |view: &mut WriteView<'_>, key: &Key<'_>| {
            view.set_timed_fields(key, [part; 2].into_iter(), time)
        };
        fixture.write("timed hash", NOW, set_timed).unwrap();
        fixture.write("set", NOW, |view, key| view.add_members(key, one())).unwrap();
        let push = |view: &mut WriteView<'_>, key: &Key<'_>| {
            view.push(key, End::Tail, one(), WhenAbsent::Create)
        };
        fixture.write("list", NOW, push).unwrap();
        let score = |view: &mut WriteView<'_>, key: &Key<'_>| {
            let pairs = [(f64::from(number), part)];
            view.score_members(key, &pairs, WhenAbsent::Create, |_, score| Some(score)).map(drop)
        };
        fixture.write("sorted set", NOW, score).unwrap();
        fixture.write("stream", NOW, |view, key| {
            change_stream(view, key, |stream, limits| {
                let id = stream.log().last_id().next().unwrap();
                stream.log_mut().add(id, &[b"field", part], limits).unwrap();
            })
        });
        fixture.write("groups", NOW, |view, key| {
            change_stream(view, key, |stream, _| {
                stream.add_group(b"group", Group::new(StreamId::MIN, None));
                let name = [&b"ada"[..], b"bob", b"eve"][number as usize % 3];
                stream.change_group(b"group", |_, group| {
                    let found = group.find_consumer(name);
                    let consumer = Some(found.unwrap_or_else(|| group.add_consumer(name, NOW)));
                    let pending = Pending { consumer, delivered_at: NOW, delivery_count: 1 };
                    group.set_pending(StreamId::new(number as u64, 0), pending);
                });
            })
        });
    }
}

const LARGE: [&str; 7] = ["hash", "set", "list", "sorted set", "stream", "timed hash", "groups"];

#[test]
fn a_snapshot_that_ends_early_forgets_large_collections() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    make_large(&fixture);
    let (expected, used) = (Access::free(keyspace).digest(), keyspace.used_memory());
    for deletes in [false, true] {
        let mut snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        for _ in 0..20 {
            drop(snapshot.step(|| true).unwrap());
        }
        assert!(keyspace.used_memory() > used, "a walk has begun");
        for key in LARGE.into_iter().filter(|_| deletes) {
            fixture.write(key, NOW, |view, key| view.remove(key));
        }
        drop(snapshot);
        if deletes {
            keyspace.drop_retired();
            assert!(keyspace.used_memory() < used / 2, "what was deleted is free");
            make_large(&fixture);
        } else {
            assert_eq!(keyspace.used_memory(), used);
        }
        let mut file = File::begin();
        let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        take_rest(snapshot, &mut file, || {});
        assert_eq!(file.digest(), expected);
    }
}

#[test]
fn what_changes_of_large_collections_give_is_bounded_and_counted() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    make_large(&fixture);
    let used = keyspace.used_memory();
    let options = SnapshotOptions { queued_bytes_max: 20_000, ..OPTIONS };
    for empty in LARGE {
        let mut snapshot = keyspace.begin_snapshot(options, |last| last).unwrap();
        let mut rest = 4_000;
        // One is left: with the last the key would go, and what the snapshot keeps of it.
        while rest > 1 {
            rest -= 1;
            let text = format!("a part of a collection, number {rest}");
            let one = || std::iter::once(text.as_bytes());
            fixture.write(empty, NOW, |view, key| match empty {
                "hash" => view.set_fields(key, [text.as_bytes(), b"another"].into_iter()).unwrap(),
                "timed hash" => {
                    let always = TimeCondition::Always;
                    view.set_field_times(key, later(9), always, one()).unwrap().unwrap().len()
                }
                "set" => view.remove_members(key, one()).unwrap(),
                "list" => usize::from(view.set_element(key, rest, b"another").unwrap()),
                "stream" => {
                    change_stream(view, key, |stream, _| {
                        let last = stream.log().last_entry().unwrap();
                        assert!(stream.log_mut().remove(last));
                    });
                    1
                }
                "groups" => {
                    change_stream(view, key, |stream, _| {
                        let id = StreamId::new(rest as u64, 0);
                        stream.change_group(b"group", |_, group| assert!(group.acknowledge(id)));
                    });
                    1
                }
                _ => view.remove_scored(key, one()).unwrap(),
            });
        }
        let queued = snapshot.queued_bytes();
        assert!((20_000..60_000).contains(&queued), "{empty}: {queued}");
        assert!(matches!(snapshot.step(|| true), Err(SnapshotEnd::Overflow)), "{empty}");
        drop(snapshot);
        keyspace.drop_retired();
        assert!(keyspace.used_memory() <= used, "{empty}");
        let mut file = File::begin();
        let expected = Access::free(keyspace).digest();
        let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        take_rest(snapshot, &mut file, || {});
        assert_eq!(file.digest(), expected, "{empty}");
    }
}

/// Adds the members `numbers`, of 100 bytes each, to the set `key`.
fn fill_set(fixture: &Fixture, key: &str, numbers: std::ops::Range<u32>) {
    let members: Vec<String> = numbers.map(|number| format!("{number:0100}")).collect();
    let members = || members.iter().map(String::as_bytes);
    fixture.write(key, NOW, |view, key| view.add_members(key, members())).unwrap();
}

#[test]
fn what_is_deleted_counts_among_what_waits_until_the_snapshot_has_it() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    let names: Vec<String> = (0..100).map(|number| format!("set {number}")).collect();
    names.iter().for_each(|name| fill_set(&fixture, name, 0..500));
    let used = keyspace.used_memory();
    let most = used / 10;
    let options = SnapshotOptions { queued_bytes_max: most, ..OPTIONS };
    let mut snapshot = keyspace.begin_snapshot(options, |last| last).unwrap();
    for name in &names[..5] {
        fixture.write(name, NOW, |view, key| view.remove(key));
    }
    keyspace.drop_retired();
    assert!(snapshot.queued_bytes() > used / 25, "{}", snapshot.queued_bytes());
    assert!(keyspace.used_memory() > used * 9 / 10, "it is there for the snapshot");
    drop(snapshot.step(|| true).unwrap());
    for name in &names[5..] {
        fixture.write(name, NOW, |view, key| view.remove(key));
    }
    keyspace.drop_retired();
    assert!(keyspace.used_memory() < used / 5, "{} of {used}", keyspace.used_memory());
    assert!(matches!(snapshot.step(|| true), Err(SnapshotEnd::Overflow)));
    drop(snapshot);
    keyspace.drop_retired();
    assert!(keyspace.used_memory() < used / 20);
}

#[test]
fn eviction_does_not_empty_the_keyspace_for_a_snapshot() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    keyspace.set_eviction_policy(crate::EvictionPolicy::ALLKEYS_RANDOM);
    (0..400).for_each(|number| fill_set(&fixture, &format!("set {number}"), 0..500));
    let used = keyspace.used_memory();
    keyspace.set_maxmemory(used - 100_000);
    let options = SnapshotOptions { queued_bytes_max: used / 20, ..OPTIONS };
    let snapshot = keyspace.begin_snapshot(options, |last| last).unwrap();
    let mut random = Prng::new(1);
    for _ in 0..100 {
        let _ = keyspace.repay(&mut crate::SweepContext::new(NOW, &mut random));
    }
    drop(snapshot);
    let keys = keyspace.counts(DB0).keys;
    assert!(keys > 300, "{keys} of 400 keys are left");
}

#[test]
fn what_is_evicted_before_its_bucket_is_copied_is_in_the_snapshot() {
    for value_bytes in [60, 20_000] {
        let fixture = Fixture::with_segments(1 << 16, 4096);
        let keyspace = &fixture.keyspace;
        keyspace.set_eviction_policy(crate::EvictionPolicy::ALLKEYS_LRU);
        (0..400).for_each(|number| fixture.set(&format!("key {number}"), &"v".repeat(value_bytes)));
        let expected = Access::free(keyspace).digest();
        let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        let mut random = Prng::new(1);
        let context = &mut crate::SweepContext::new(NOW, &mut random);
        for shard in keyspace.shard_indexes() {
            keyspace.evict_from(shard, u64::MAX, Victims::Small, context);
        }
        for _ in 0..8 {
            keyspace.evict_blocks(1 << 20, context);
        }
        let keys = keyspace.counts(DB0).keys;
        assert!(keys < 350, "{keys} of 400 keys of {value_bytes} bytes are left");
        let mut file = File::begin();
        take_rest(snapshot, &mut file, || {});
        assert_eq!(file.digest(), expected, "{value_bytes}");
    }
}

/// Gives what `name` holds another name, and takes it to the other database one time in two; keeps
/// `place` up to date, which is the number of the name and the database.
fn move_large(keyspace: &Keyspace, name: &str, place: &mut (u32, DatabaseIndex)) {
    let (number, database) = *place;
    let names = [format!("{name} {number}"), format!("{name} {}", number + 1)];
    let renamed = |view: &mut WriteView<'_>, [key, other]: [&Key<'_>; 2]| view.rename(key, other);
    let names = [names[0].as_str(), names[1].as_str()];
    assert!(with_view(keyspace, names, database, renamed).unwrap());
    place.0 += 1;
    if number.is_multiple_of(2) {
        place.1 = DatabaseIndex(1 - database.0);
        let moved = |view: &mut WriteView<'_>, [key, _]: [&Key<'_>; 2]| view.move_to(key, place.1);
        assert!(with_view(keyspace, [names[1]; 2], database, moved).unwrap());
    }
}

/// Makes large collections whose names end with 0.
fn make_large_to_move(fixture: &Fixture) {
    make_large(fixture);
    for name in LARGE {
        let names = [name, &format!("{name} 0")];
        assert!(with_view(&fixture.keyspace, names, DB0, |view, [from, to]| {
            view.rename(from, to).unwrap()
        }));
    }
}

#[test]
fn a_large_collection_that_moves_gives_nothing_and_is_gone_through_where_it_is() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    make_large_to_move(&fixture);
    let mut places = [(0, DB0); LARGE.len()];
    for rounds in [0, 5, 500] {
        let (expected, used) = (Access::free(keyspace).digest(), keyspace.used_memory());
        let mut snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
        let mut file = File::begin();
        let mut move_one = |round: usize| {
            move_large(keyspace, LARGE[round % LARGE.len()], &mut places[round % LARGE.len()]);
        };
        // Before any of them is gone through, one after another while one is, and all the time.
        for round in 0..12 {
            let before = snapshot.queued_bytes();
            move_one(round);
            let given = snapshot.queued_bytes() - before;
            assert!(given < 1_000, "{given} bytes for a move");
        }
        for round in 0..rounds {
            let Some(batch) = snapshot.step(|| true).unwrap() else { break };
            file.add(&batch);
            move_one(round);
        }
        if rounds == 5 {
            drop(snapshot);
            move_one(0);
            assert!(keyspace.used_memory() < used + 2_000, "no walk goes on");
            continue;
        }
        let mut round = 0;
        take_rest(snapshot, &mut file, || {
            round += 1;
            move_one(round);
        });
        assert_eq!(file.digest(), expected, "{rounds}");
    }
}

#[test]
fn a_large_collection_that_finds_no_room_elsewhere_is_gone_through_where_it_stays() {
    let fixture = Fixture::with_segments(1 << 16, 256);
    let keyspace = &fixture.keyspace;
    make_large(&fixture);
    for (length, number) in
        [50_000, 4_000].into_iter().flat_map(|it| (0..4_000).map(move |n| (it, n)))
    {
        let (name, value) = (format!("{length} {number}"), vec![b'v'; length]);
        // Until there is no room.
        let _ = fixture.write(&name, NOW, |view, key| view.set(key, &value, crate::Expiry::Clear));
    }
    let expected = Access::free(keyspace).digest();
    let snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
    let (mut file, mut round, mut refused) = (File::begin(), 0, 0);
    take_rest(snapshot, &mut file, || {
        let name = LARGE[round % LARGE.len()];
        round += 1;
        let names = [name, &format!("{name} {}", "of a long name".repeat(300))];
        let renamed = with_view(keyspace, names, DB0, |view, [from, to]| view.rename(from, to));
        // A page or two may have room.
        refused += usize::from(renamed.is_err());
    });
    assert!(refused > 100 && file.digest() == expected, "{refused} were refused");
}

/// Set when it is dropped, so that threads end also where what they are there for fails.
struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn collections_that_move_while_a_snapshot_is_taken_are_in_it_once() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    let keyspace = &fixture.keyspace;
    make_large_to_move(&fixture);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for names in LARGE.chunks(3) {
            let ends = &ends;
            scope.spawn(move || {
                let mut places = [(0, DB0); 3];
                while !ends.load(Ordering::Relaxed) {
                    for (name, place) in names.iter().zip(&mut places) {
                        move_large(keyspace, name, place);
                    }
                }
            });
        }
        let _ends = Ends(&ends);
        for round in 0..10 {
            let mut snapshot = keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
            let (mut file, mut steps) = (File::begin(), 0);
            while let Some(batch) = snapshot.step(|| true).unwrap() {
                file.add(&batch);
                steps += 1;
                if round % 2 == 1 && steps > 3_000 {
                    // It ends in the middle: the next begins all the same.
                    break;
                }
            }
            drop(snapshot);
            if round % 2 == 0 {
                let loaded = file.load();
                let counts = [DB0, DB1].map(|database| loaded.keyspace.counts(database).keys);
                assert_eq!(counts.iter().sum::<u64>(), LARGE.len() as u64);
            }
        }
    });
}

#[test]
fn a_large_collection_is_held_for_a_few_parts_at_a_time() {
    let fixture = Fixture::with_segments(1 << 16, 4096);
    make_large(&fixture);
    let mut snapshot = fixture.keyspace.begin_snapshot(OPTIONS, |last| last).unwrap();
    // What changes first gives no more than what it changes.
    for (count, key) in LARGE.into_iter().enumerate() {
        let before = snapshot.queued_bytes();
        let part = b"a part of a collection, number 7";
        fixture.write(key, NOW, |view, key| match count {
            0 => view.set_fields(key, [&part[..], b"another"].into_iter()).unwrap(),
            1 => view.remove_members(key, std::iter::once(&part[..])).unwrap(),
            2 => usize::from(view.set_element(key, 7, b"another").unwrap()),
            4 => {
                change_stream(view, key, |stream, _| {
                    let id = entries(stream).nth(7).unwrap();
                    assert!(stream.log_mut().remove(id));
                });
                1
            }
            5 => {
                let (fields, always) = (std::iter::once(&part[..]), TimeCondition::Always);
                view.set_field_times(key, later(9), always, fields).unwrap().unwrap().len()
            }
            6 => {
                change_stream(view, key, |stream, _| {
                    let id = StreamId::new(7, 0);
                    stream.change_group(b"group", |_, group| assert!(group.acknowledge(id)));
                });
                1
            }
            _ => view.remove_scored(key, std::iter::once(&part[..])).unwrap(),
        });
        let given = snapshot.queued_bytes() - before;
        assert!(given < 10_000, "{key}: {given}");
    }
    let before = snapshot.queued_bytes();
    let nothing = |view: &mut WriteView<'_>, key: &Key<'_>| {
        view.remove_elements(key, End::Head, usize::MAX, b"nothing")
    };
    assert_eq!(fixture.write("list", NOW, nothing).unwrap(), 0);
    assert_eq!(snapshot.queued_bytes(), before, "what stays as it is is not copied");
    while let Some(batch) = snapshot.step(|| true).unwrap() {
        for piece in &batch.pieces {
            let bytes = match &piece.content {
                SnapshotContent::Encoded(bytes)
                | SnapshotContent::Begin(bytes)
                | SnapshotContent::Parts(_, bytes) => bytes.len(),
                SnapshotContent::Held(_) => 0,
            };
            assert!(bytes < 10_000, "{bytes}");
            if let SnapshotContent::Parts(_, parts) = &piece.content {
                let count = walk_parts(parts).count();
                assert!(count < 100, "{count} parts in one hold");
            }
        }
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
        view.load(key, bytes, Some(later(-10)), 1_000, last_use, Cost::ONE)
    };
    assert_eq!(fixture.write("k", NOW, load), Ok(true));
    assert_eq!(fixture.get("k", NOW), None);
    let key = fixture.key("k");
    let guard = fixture.keyspace.lock(key.shard);
    let view = guard.read(DB0, NOW);
    assert_eq!(view.string_or_stale(&key), Some(&b"v"[..]));
    assert_eq!(view.stale_string_length(&key), Some(1));
    assert_eq!(view.idle_seconds(&key, &view.inspect(&key).unwrap()), Some(7));
    drop(guard);
    let records = fixture.records();
    assert!(records.iter().all(|record| !record.starts_with("DEL")), "{records:?}");
}
