//! Writing strings: results, encodings, effects.

use arena::Encoding;

use super::*;
use crate::{EMBSTR_BYTES_MAX, Expiry};

fn encoding(fixture: &Fixture, name: &str) -> Encoding {
    let key = fixture.key(name);
    let guard = fixture.keyspace.lock(key.shard);
    guard.read(DB0, NOW).peek(&key).unwrap().encoding()
}

#[test]
fn value_is_read_as_it_was_written() {
    let fixture = Fixture::new();
    let long = "x".repeat(100_000);
    for value in ["", "1", "some text", &long] {
        fixture.set("k", value);
        assert_eq!(fixture.get("k", NOW).as_deref(), Some(value));
    }
    assert_eq!(fixture.get("other", NOW), None);
}

#[test]
fn encoding_is_what_redis_reports() {
    let fixture = Fixture::new();
    fixture.set("k", "123");
    assert_eq!(encoding(&fixture, "k"), Encoding::Int);
    fixture.write("k", NOW, |view, key| view.append(key, b"4")).unwrap();
    assert_eq!(encoding(&fixture, "k"), Encoding::Raw, "APPEND to an integer");
    fixture.set("k", "123");
    fixture.write("k", NOW, |view, key| view.append(key, b"")).unwrap();
    assert_eq!(encoding(&fixture, "k"), Encoding::Raw, "APPEND of nothing");
    fixture.write("new", NOW, |view, key| view.append(key, b"4")).unwrap();
    assert_eq!(encoding(&fixture, "new"), Encoding::Int, "APPEND that creates");
    fixture.write("range", NOW, |view, key| view.set_range(key, 0, b"4")).unwrap();
    assert_eq!(encoding(&fixture, "range"), Encoding::Raw, "SETRANGE that creates");
    fixture.set("k", &"x".repeat(44));
    assert_eq!(encoding(&fixture, "k"), Encoding::Embstr);
    fixture.set("k", &"x".repeat(45));
    assert_eq!(encoding(&fixture, "k"), Encoding::Raw);
    fixture.write("k", NOW, |view, key| view.set_text(key, b"5", Expiry::Keep)).unwrap();
    assert_eq!(encoding(&fixture, "k"), Encoding::Embstr, "INCRBYFLOAT stores text");
}

#[test]
fn append_and_set_range_return_the_new_length() {
    let fixture = Fixture::new();
    let append =
        |text: &str| fixture.write("k", NOW, |view, key| view.append(key, text.as_bytes()));
    assert_eq!(append("abc"), Ok(3));
    assert_eq!(append(""), Ok(3));
    assert_eq!(append("def"), Ok(6));
    let range = |offset, text: &str| {
        fixture.write("k", NOW, |view, key| view.set_range(key, offset, text.as_bytes()))
    };
    assert_eq!(range(1, "XY"), Ok(6));
    assert_eq!(range(8, "Z"), Ok(9));
    assert_eq!(range(3, ""), Ok(9));
    assert_eq!(fixture.get("k", NOW).as_deref(), Some("aXYdef\0\0Z"));
    let gap = fixture.write("gap", NOW, |view, key| view.set_range(key, 2, b"q"));
    assert_eq!(gap, Ok(3));
    assert_eq!(fixture.get("gap", NOW).as_deref(), Some("\0\0q"));
    let nothing = fixture.write("none", NOW, |view, key| view.set_range(key, 5, b""));
    assert_eq!(nothing, Ok(0));
    assert_eq!(fixture.get("none", NOW), None);
}

#[test]
fn each_change_has_its_effect() {
    let fixture = Fixture::new();
    fixture.set("k", "v");
    fixture.set_until("k", "w", UnixMs(NOW.0 + 1));
    fixture.write("k", NOW, |view, key| view.set(key, b"x", Expiry::Keep)).unwrap();
    fixture.write("k", NOW, |view, key| view.append(key, b"y")).unwrap();
    fixture.write("k", NOW, |view, key| view.set_range(key, 4, b"z")).unwrap();
    fixture.write("k", NOW, |view, key| view.set_expiry(key, UnixMs(9))).unwrap();
    assert_eq!(
        fixture.records(),
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
    assert_eq!(fixture.write("k", early, |view, key| view.persist(key)), Ok(true));
    assert_eq!(fixture.write("k", early, |view, key| view.persist(key)), Ok(false));
    assert!(fixture.write("k", early, |view, key| view.remove(key)));
    assert!(!fixture.write("k", early, |view, key| view.remove(key)));
    assert_eq!(fixture.records(), ["PERSIST k", "DEL k"]);
}

#[test]
fn what_changes_nothing_has_no_effect() {
    let fixture = Fixture::new();
    fixture.set("k", "v");
    fixture.records();
    fixture.get("k", NOW);
    fixture.write("k", NOW, |view, key| view.set_range(key, 7, b"")).unwrap();
    fixture.write("k", NOW, |view, key| view.persist(key)).unwrap();
    fixture.write("none", NOW, |view, key| view.set_expiry(key, later(5))).unwrap();
    assert_eq!(fixture.records(), Vec::<String>::new());
    assert_eq!(fixture.keyspace.counters().changes, 1);
}

#[test]
fn lookups_count_hits_and_misses_of_reads_alone() {
    let fixture = Fixture::new();
    fixture.set("k", "v");
    fixture.get("k", NOW);
    fixture.get("k", NOW);
    fixture.get("none", NOW);
    fixture.write("k", NOW, |view, key| view.string(key).map(|_| ())).unwrap();
    fixture.write("k", NOW, |view, key| view.string_counted(key).map(|_| ())).unwrap();
    let counters = fixture.keyspace.counters();
    assert_eq!((counters.keyspace_hits, counters.keyspace_misses), (3, 1));
    fixture.keyspace.reset_counters();
    assert_eq!(fixture.keyspace.counters(), crate::Counters::default());
}

#[test]
fn filled_value_is_written_over_any_other_with_the_effect_of_a_set() {
    let fixture = Fixture::new();
    let fill = |start: usize, piece: &mut [u8]| {
        piece.iter_mut().enumerate().for_each(|(at, byte)| *byte = b'a' + ((start + at) % 7) as u8);
    };
    for (before, length) in [(0, 10), (10, 10), (10, 9_000), (9_000, 20_001), (20_001, 3)] {
        let expected: String = (0..length).map(|at| char::from(b'a' + (at % 7) as u8)).collect();
        if before > 0 {
            fixture.set_until("k", &"x".repeat(before), UnixMs(NOW.0 + 1000));
        }
        fixture.records();
        fixture.write("k", NOW, |view, key| view.set_raw_filled(key, length, &fill)).unwrap();
        assert_eq!(fixture.get("k", NOW).as_deref(), Some(&*expected), "{before} to {length}");
        assert_eq!(encoding(&fixture, "k"), Encoding::Raw);
        // Whoever stores a short one would not keep it as one that was changed in place.
        let mut effects = vec![format!("SET k {expected}"), "SETRANGE k 0 a".to_owned()];
        effects.truncate(if length <= EMBSTR_BYTES_MAX { 2 } else { 1 });
        assert_eq!(fixture.records(), effects);
        assert!(fixture.get("k", UnixMs(NOW.0 + 5000)).is_some(), "the time to live is gone");
    }
}
