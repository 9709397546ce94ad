//! Values that move to other keys: where they are, what is counted, and what memory they take.

use arena::SegmentSource;
use arena::layout::block_value_offset;
use arena::pins::{HeapPins, PinMemory, publish};

use super::*;
use crate::Expiry;

/// Returns where the value at `name` lies.
fn address(world: &World, name: &str) -> usize {
    let key = world.key(name);
    let guard = world.keyspace.lock(key.shard);
    guard.read(DB0, NOW).string(&key).unwrap().unwrap().as_ptr().addr()
}

fn rename(world: &World, source: &str, target: &str) -> bool {
    let [source, target] = [world.key(source), world.key(target)];
    let mut guard = world.keyspace.lock_keys(&[source, target]);
    guard.begin_atomic();
    guard.write(DB0, NOW).rename(&source, &target).unwrap()
}

/// Returns two names whose keys lie in different shards.
fn apart(world: &World) -> [String; 2] {
    let first = "key:0".to_owned();
    let is_apart = |name: &String| world.key(name).shard != world.key(&first).shard;
    let second = (1..).map(|number| format!("key:{number}")).find(is_apart).unwrap();
    [first, second]
}

#[test]
fn large_value_stays_where_it_lies() {
    let world = World::with_segments(1 << 20, 64);
    let [source, target] = apart(&world);
    world.set_until(&source, &"x".repeat(100_000), later(1000));
    world.set(&target, &"y".repeat(200_000));
    let (before, used) = (address(&world, &source), world.keyspace.used_memory());
    assert!(rename(&world, &source, &target));
    assert_eq!(address(&world, &target), before);
    assert_eq!(world.get(&source, NOW), None);
    assert_eq!(world.get(&target, NOW).as_deref(), Some(&*"x".repeat(100_000)));
    assert_eq!(world.get(&target, later(1001)), None, "the time to live came along");
    assert!(world.keyspace.used_memory() < used - 190_000, "what was there is free");
    let counts = world.keyspace.counts(DB0);
    assert_eq!((counts.keys, counts.volatile), (1, 1));
    // Both shards know where the value is: it can be moved and removed there.
    assert!(world.write(&target, NOW, |view, key| view.remove(key)));
    assert_eq!(world.keyspace.arena().usage().extent_bytes, 0);
}

#[test]
fn value_that_a_reader_holds_is_copied() {
    let source = HeapSource::new(1 << 20, 64);
    let base = source.base().addr().get() as u64;
    let world = World::over(source);
    let names = apart(&world);
    world.set(&names[0], &"x".repeat(100_000));
    let pins: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
    world.keyspace.arena().pins().add(1, pins.clone());
    let before = address(&world, &names[0]);
    let block = before as u64 - block_value_offset(names[0].len() as u64) - base;
    publish(pins.words(), 0, block);
    assert!(rename(&world, &names[0], &names[1]));
    assert_ne!(address(&world, &names[1]), before);
    assert_eq!(world.get(&names[1], NOW).as_deref(), Some(&*"x".repeat(100_000)));
    assert_eq!(world.get(&names[0], NOW), None);
}

#[test]
fn move_needs_no_room_for_a_value_that_stays() {
    let world = World::with_segments(1 << 20, 64);
    world.set("k", &"x".repeat(1 << 20));
    world.keyspace.set_maxmemory(world.keyspace.used_memory() + 100_000);
    let before = address(&world, "k");
    assert_eq!(world.write("k", NOW, |view, key| view.move_to(key, DB1)), Ok(true));
    assert!(world.write("k", NOW, |view, key| view.contains_in(DB1, key)));
    assert_eq!(world.get("k", NOW), None);
    let key = world.key("k");
    let guard = world.keyspace.lock(key.shard);
    let value = guard.read(DB1, NOW).string(&key).unwrap().unwrap();
    assert_eq!((value.as_ptr().addr(), value.len()), (before, 1 << 20));
}

#[test]
fn copy_says_what_it_lacks_before_it_changes_anything() {
    let world = World::with_segments(1 << 20, 64);
    world.set("k", &"x".repeat(1 << 20));
    let lacking = |spare: u64| {
        world.keyspace.set_maxmemory(world.keyspace.used_memory() + spare);
        world.write("k", NOW, |view, key| view.lacks_room_for_copy(key, 0))
    };
    assert_eq!(lacking(2 << 20), None);
    assert!(lacking(1 << 19).unwrap() >= 1 << 20);
    let above = world.write("k", NOW, |view, key| view.lacks_room_for_copy(key, 1 << 20));
    assert_eq!(above, None, "half of it fits, the rest may pass the limit");
    world.keyspace.set_maxmemory(0);
    assert_eq!(world.write("k", NOW, |view, key| view.copy_to(key, key, DB1)), Ok(true));
    world.write("k", NOW, |view, key| view.set(key, b"other", Expiry::Clear)).unwrap();
    let key = world.key("k");
    let guard = world.keyspace.lock(key.shard);
    assert_eq!(guard.read(DB1, NOW).string(&key).unwrap().unwrap().len(), 1 << 20);
}
