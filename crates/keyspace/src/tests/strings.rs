//! Writing strings: results, encodings, effects.

use arena::Encoding;

use super::*;
use crate::{EMBSTR_BYTES_MAX, Expiry};

fn encoding(world: &World, name: &str) -> Encoding {
    let key = world.key(name);
    let guard = world.keyspace.lock(key.shard);
    guard.read(DB0, NOW).peek(&key).unwrap().encoding()
}

#[test]
fn value_is_read_as_it_was_written() {
    let world = World::new();
    let long = "x".repeat(100_000);
    for value in ["", "1", "some text", &long] {
        world.set("k", value);
        assert_eq!(world.get("k", NOW).as_deref(), Some(value));
    }
    assert_eq!(world.get("other", NOW), None);
}

#[test]
fn encoding_is_what_redis_reports() {
    let world = World::new();
    world.set("k", "123");
    assert_eq!(encoding(&world, "k"), Encoding::Int);
    world.write("k", NOW, |view, key| view.append(key, b"4")).unwrap();
    assert_eq!(encoding(&world, "k"), Encoding::Raw, "APPEND to an integer");
    world.set("k", "123");
    world.write("k", NOW, |view, key| view.append(key, b"")).unwrap();
    assert_eq!(encoding(&world, "k"), Encoding::Raw, "APPEND of nothing");
    world.write("new", NOW, |view, key| view.append(key, b"4")).unwrap();
    assert_eq!(encoding(&world, "new"), Encoding::Int, "APPEND that creates");
    world.write("range", NOW, |view, key| view.set_range(key, 0, b"4")).unwrap();
    assert_eq!(encoding(&world, "range"), Encoding::Raw, "SETRANGE that creates");
    world.set("k", &"x".repeat(44));
    assert_eq!(encoding(&world, "k"), Encoding::Embstr);
    world.set("k", &"x".repeat(45));
    assert_eq!(encoding(&world, "k"), Encoding::Raw);
    world.write("k", NOW, |view, key| view.set_text(key, b"5", Expiry::Keep)).unwrap();
    assert_eq!(encoding(&world, "k"), Encoding::Embstr, "INCRBYFLOAT stores text");
}

#[test]
fn append_and_set_range_return_the_new_length() {
    let world = World::new();
    let append = |text: &str| world.write("k", NOW, |view, key| view.append(key, text.as_bytes()));
    assert_eq!(append("abc"), Ok(3));
    assert_eq!(append(""), Ok(3));
    assert_eq!(append("def"), Ok(6));
    let range = |offset, text: &str| {
        world.write("k", NOW, |view, key| view.set_range(key, offset, text.as_bytes()))
    };
    assert_eq!(range(1, "XY"), Ok(6));
    assert_eq!(range(8, "Z"), Ok(9));
    assert_eq!(range(3, ""), Ok(9));
    assert_eq!(world.get("k", NOW).as_deref(), Some("aXYdef\0\0Z"));
    let gap = world.write("gap", NOW, |view, key| view.set_range(key, 2, b"q"));
    assert_eq!(gap, Ok(3));
    assert_eq!(world.get("gap", NOW).as_deref(), Some("\0\0q"));
    let nothing = world.write("none", NOW, |view, key| view.set_range(key, 5, b""));
    assert_eq!(nothing, Ok(0));
    assert_eq!(world.get("none", NOW), None);
}

#[test]
fn each_change_has_its_effect() {
    let world = World::new();
    world.set("k", "v");
    world.set_until("k", "w", UnixMs(NOW.0 + 1));
    world.write("k", NOW, |view, key| view.set(key, b"x", Expiry::Keep)).unwrap();
    world.write("k", NOW, |view, key| view.append(key, b"y")).unwrap();
    world.write("k", NOW, |view, key| view.set_range(key, 4, b"z")).unwrap();
    world.write("k", NOW, |view, key| view.set_expiry(key, UnixMs(9))).unwrap();
    assert_eq!(
        world.records(),
        [
            "SET k v",
            "SET k w PXAT 1700000000001",
            "SET k x KEEPTTL",
            "APPEND k y",
            "SETRANGE k 4 z",
            "PEXPIREAT k 9"
        ]
    );
    let early = UnixMs(9);
    assert_eq!(world.write("k", early, |view, key| view.persist(key)), Ok(true));
    assert_eq!(world.write("k", early, |view, key| view.persist(key)), Ok(false));
    assert!(world.write("k", early, |view, key| view.remove(key)));
    assert!(!world.write("k", early, |view, key| view.remove(key)));
    assert_eq!(world.records(), ["PERSIST k", "DEL k"]);
}

#[test]
fn what_changes_nothing_has_no_effect() {
    let world = World::new();
    world.set("k", "v");
    world.records();
    world.get("k", NOW);
    world.write("k", NOW, |view, key| view.set_range(key, 7, b"")).unwrap();
    world.write("k", NOW, |view, key| view.persist(key)).unwrap();
    world.write("none", NOW, |view, key| view.set_expiry(key, later(5))).unwrap();
    assert_eq!(world.records(), Vec::<String>::new());
    assert_eq!(world.keyspace.counters().changes, 1);
}

#[test]
fn lookups_count_hits_and_misses_of_reads_alone() {
    let world = World::new();
    world.set("k", "v");
    world.get("k", NOW);
    world.get("k", NOW);
    world.get("none", NOW);
    world.write("k", NOW, |view, key| view.string(key).map(|_| ())).unwrap();
    world.write("k", NOW, |view, key| view.string_counted(key).map(|_| ())).unwrap();
    let counters = world.keyspace.counters();
    assert_eq!((counters.keyspace_hits, counters.keyspace_misses), (3, 1));
    world.keyspace.reset_counters();
    assert_eq!(world.keyspace.counters(), crate::Counters::default());
}

#[test]
fn filled_value_is_written_over_any_other_with_the_effect_of_a_set() {
    let world = World::new();
    let fill = |start: usize, piece: &mut [u8]| {
        piece.iter_mut().enumerate().for_each(|(at, byte)| *byte = b'a' + ((start + at) % 7) as u8);
    };
    for (before, length) in [(0, 10), (10, 10), (10, 9_000), (9_000, 20_001), (20_001, 3)] {
        let expected: String = (0..length).map(|at| char::from(b'a' + (at % 7) as u8)).collect();
        if before > 0 {
            world.set_until("k", &"x".repeat(before), UnixMs(NOW.0 + 1000));
        }
        world.records();
        world.write("k", NOW, |view, key| view.set_raw_filled(key, length, &fill)).unwrap();
        assert_eq!(world.get("k", NOW).as_deref(), Some(&*expected), "{before} to {length}");
        assert_eq!(encoding(&world, "k"), Encoding::Raw);
        // Whoever stores a short one would not keep it as one that was changed in place.
        let mut effects = vec![format!("SET k {expected}"), "SETRANGE k 0 a".to_owned()];
        effects.truncate(if length <= EMBSTR_BYTES_MAX { 2 } else { 1 });
        assert_eq!(world.records(), effects);
        assert!(world.get("k", UnixMs(NOW.0 + 5000)).is_some(), "the time to live is gone");
    }
}
