//! Single bytes of values: written where they lie, or into a copy where a reader holds them.

use super::*;

const CHANGES: [(u64, u8); 4] = [(0, b'a'), (7, b'b'), (8, b'c'), (63, b'd')];

/// Returns `bytes` with [`CHANGES`].
fn changed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    CHANGES.iter().for_each(|(at, byte)| bytes[*at as usize] = *byte);
    bytes
}

#[test]
fn miri_bytes_are_written_where_the_value_lies() {
    for length in [64, 200, 5_000] {
        let arena = arena(1 << 16, 8);
        let mut table = table(&arena, 0);
        let hash = arena.hasher().hash(b"key");
        let bytes = vec![b'.'; length];
        let id = table.insert(hash, b"key", &value(&bytes, Some(UnixMs(7)))).unwrap();
        let place = table.entry(id).value().as_ptr();
        let id = table.patch(id, &CHANGES, Encoding::Raw).unwrap();
        let entry = table.entry(id);
        assert_eq!(entry.value(), changed(&bytes), "{length}");
        assert_eq!(entry.value().as_ptr(), place, "{length}");
        assert_eq!((entry.encoding(), entry.expiry()), (Encoding::Raw, Some(UnixMs(7))));
    }
}

#[test]
fn miri_a_value_that_is_held_stays_as_it_is() {
    let arena = arena(1 << 16, 8);
    let mut table = table(&arena, 0);
    let hash = arena.hasher().hash(b"key");
    let bytes = vec![b'.'; 5_000];
    let id = table.insert(hash, b"key", &value(&bytes, None)).unwrap();
    let held = table.hold(id).expect("a large value can be held");
    let id = table.patch(id, &CHANGES, Encoding::Raw).unwrap();
    assert_eq!(held.as_ref(), bytes);
    assert_eq!(table.entry(id).value(), changed(&bytes));
    assert_eq!(table.find(hash, b"key").map(|id| table.entry(id).value().len()), Some(5_000));
}

#[test]
#[should_panic(expected = "the value keeps its length")]
fn an_offset_beyond_the_value_is_refused() {
    let arena = arena(1 << 16, 8);
    let mut table = table(&arena, 0);
    let id = table.insert(arena.hasher().hash(b"key"), b"key", &value(b"short", None)).unwrap();
    let _ = table.patch(id, &CHANGES, Encoding::Raw);
}
