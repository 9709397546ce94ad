//! Values that move to other keys: where they are, what is counted, and what memory they take.

use arena::SegmentSource;
use arena::layout::block_value_offset;
use arena::pins::{HeapPins, PinMemory, publish};

use super::*;
use crate::{Expiry, MoveTerms, Moved, SlotCount};

/// Returns where the value at `name` lies.
fn address(fixture: &Fixture, name: &str) -> usize {
    let key = fixture.key(name);
    let guard = fixture.keyspace.lock(key.shard);
    guard.read(DB0, NOW).string(&key).unwrap().unwrap().as_ptr().addr()
}

fn rename(fixture: &Fixture, source: &str, target: &str) -> bool {
    let [source, target] = [fixture.key(source), fixture.key(target)];
    let mut guard = fixture.keyspace.lock_keys(&[source, target]);
    guard.begin_atomic();
    guard.write(DB0, NOW).rename(&source, &target).unwrap()
}

/// Returns two names whose keys lie in different shards.
fn apart(fixture: &Fixture) -> [String; 2] {
    let first = "key:0".to_owned();
    let is_apart = |name: &String| fixture.key(name).shard != fixture.key(&first).shard;
    let second = (1..).map(|number| format!("key:{number}")).find(is_apart).unwrap();
    [first, second]
}

#[test]
fn large_value_stays_where_it_lies() {
    let fixture = Fixture::with_segments(1 << 20, 64);
    let [source, target] = apart(&fixture);
    fixture.set_until(&source, &"x".repeat(100_000), later(1000));
    fixture.set(&target, &"y".repeat(200_000));
    let (before, used) = (address(&fixture, &source), fixture.keyspace.used_memory());
    assert!(rename(&fixture, &source, &target));
    assert_eq!(address(&fixture, &target), before);
    assert_eq!(fixture.get(&source, NOW), None);
    assert_eq!(fixture.get(&target, NOW).as_deref(), Some(&*"x".repeat(100_000)));
    assert_eq!(fixture.get(&target, later(1001)), None, "the time to live came along");
    assert!(fixture.keyspace.used_memory() < used - 190_000, "what was there is free");
    let counts = fixture.keyspace.counts(DB0);
    assert_eq!((counts.keys, counts.volatile), (1, 1));
    // Both shards know where the value is: it can be moved and removed there.
    assert!(fixture.write(&target, NOW, |view, key| view.remove(key)));
    assert_eq!(fixture.keyspace.arena().usage().extent_bytes, 0);
}

#[test]
fn small_value_goes_to_another_shard_with_its_time_and_the_counts_follow() {
    let fixture = Fixture::with_segments(1 << 16, 64);
    let names = apart(&fixture);
    let [source, target] = names.each_ref().map(|name| fixture.key(name));
    let counts = |key: &Key<'_>| {
        let guard = fixture.keyspace.lock(key.shard);
        guard.shards().shard(key.shard).database(DB0).map(|part| part.slots.of(key.slot))
    };
    let rename_to_free = || {
        let mut guard = fixture.keyspace.lock_keys(&[source, target]);
        guard.begin_atomic();
        let terms = MoveTerms { may_replace: false, may_be_long: true };
        guard.write(DB0, NOW).rename_on(terms, &source, &target).unwrap()
    };
    assert_eq!(rename_to_free(), Moved::NoSource);
    fixture.set_until(&names[0], "short", later(1000));
    let moved = counts(&source).unwrap();
    assert_eq!(moved.keys, 1);
    fixture.records();
    assert_eq!(rename_to_free(), Moved::Done);
    assert_eq!(fixture.records(), [format!("RENAME {} {}", names[0], names[1])]);
    assert_eq!((fixture.get(&names[0], NOW), counts(&source).unwrap_or_default().keys), (None, 0));
    assert_eq!(fixture.get(&names[1], NOW).as_deref(), Some("short"));
    assert_eq!(fixture.get(&names[1], later(1001)), None, "the time to live came along");
    assert_eq!(counts(&target), Some(moved), "names are as long");
    assert_eq!((fixture.keyspace.counts(DB0).keys, fixture.keyspace.counts(DB0).volatile), (1, 1));
    fixture.set(&names[0], "other");
    fixture.records();
    assert_eq!(rename_to_free(), Moved::TargetTaken);
    assert_eq!(fixture.records(), [""; 0], "nothing has changed");
    // In place of a large collection.
    let members: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    fixture.write(&names[1], NOW, |view, key| {
        assert!(view.remove(key));
        view.add_members(key, members.iter().map(|member| member.as_bytes())).unwrap();
    });
    assert!(rename(&fixture, &names[0], &names[1]));
    assert_eq!(fixture.get(&names[1], NOW).as_deref(), Some("other"));
    let charged = |key: &Key<'_>| counts(key).unwrap_or_default();
    assert_eq!((charged(&source), charged(&target).keys), (SlotCount::default(), 1));
    assert!(charged(&target).bytes < 100, "the collection is gone from the counts");
}

#[test]
fn value_that_a_reader_holds_is_copied() {
    let source = HeapSource::new(1 << 20, 64);
    let base = source.base().addr().get() as u64;
    let fixture = Fixture::over(source);
    let names = apart(&fixture);
    fixture.set(&names[0], &"x".repeat(100_000));
    let pins: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
    fixture.keyspace.arena().pins().add(1, pins.clone());
    let before = address(&fixture, &names[0]);
    let block = before as u64 - block_value_offset(names[0].len() as u64) - base;
    publish(pins.words(), 0, block);
    assert!(rename(&fixture, &names[0], &names[1]));
    assert_ne!(address(&fixture, &names[1]), before);
    assert_eq!(fixture.get(&names[1], NOW).as_deref(), Some(&*"x".repeat(100_000)));
    assert_eq!(fixture.get(&names[0], NOW), None);
}

#[test]
fn move_needs_no_room_for_a_value_that_stays() {
    let fixture = Fixture::with_segments(1 << 20, 64);
    fixture.set("k", &"x".repeat(1 << 20));
    fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() + 100_000);
    let before = address(&fixture, "k");
    assert_eq!(fixture.write("k", NOW, |view, key| view.move_to(key, DB1)), Ok(true));
    assert!(fixture.write("k", NOW, |view, key| view.contains_in(DB1, key)));
    assert_eq!(fixture.get("k", NOW), None);
    let key = fixture.key("k");
    let guard = fixture.keyspace.lock(key.shard);
    let value = guard.read(DB1, NOW).string(&key).unwrap().unwrap();
    assert_eq!((value.as_ptr().addr(), value.len()), (before, 1 << 20));
}

#[test]
fn copy_says_what_it_lacks_before_it_changes_anything() {
    let fixture = Fixture::with_segments(1 << 20, 64);
    fixture.set("k", &"x".repeat(1 << 20));
    let lacking = |spare: u64| {
        fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() + spare);
        fixture.write("k", NOW, |view, key| view.lacks_room_for_copy(key, 0))
    };
    assert_eq!(lacking(2 << 20), None);
    assert!(lacking(1 << 19).unwrap() >= 1 << 20);
    let above = fixture.write("k", NOW, |view, key| view.lacks_room_for_copy(key, 1 << 20));
    assert_eq!(above, None, "half of it fits, the rest may pass the limit");
    fixture.keyspace.set_maxmemory(0);
    assert_eq!(fixture.write("k", NOW, |view, key| view.copy_to(key, key, DB1)), Ok(true));
    fixture.write("k", NOW, |view, key| view.set(key, b"other", Expiry::Clear)).unwrap();
    let key = fixture.key("k");
    let guard = fixture.keyspace.lock(key.shard);
    assert_eq!(guard.read(DB1, NOW).string(&key).unwrap().unwrap().len(), 1 << 20);
}
