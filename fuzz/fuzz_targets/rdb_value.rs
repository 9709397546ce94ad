//! Bytes as the value of a payload: a value or an error, never a panic, and no more memory than was
//! asked for, which the bytes bound; what is read can be written, and is read again as itself.
#![no_main]

use base::SecretHasher;
use collections::{Collection, Direction, Limits, Rules};
use libfuzzer_sys::fuzz_target;
use rdb::{DecodeError, Forms, Stored, Value};

/// Beyond it nothing is made: the inputs are small, and what they expand to need not be large.
const ROOM_BYTES: u64 = 8 << 20;

fuzz_target!(|input: &[u8]| {
    let _ = rdb::open(input);
    let rules = Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) };
    let by_rules = Forms { rules: &rules, encoding: None, string_bytes_max: ROOM_BYTES };
    let Some(first) = read(input, &by_rules) else { return };
    let payload = written(&first);
    let value = rdb::open(&payload).expect("it was sealed");
    let second = read(value, &by_rules).expect("what is written can be read");
    assert!(parts(&first) == parts(&second), "{input:?}");
    if let Value::Collection(collection) = &first {
        let encoding = Some(collection.encoding());
        let kept = Forms { encoding, ..by_rules };
        let kept = read(value, &kept).expect("it can be stored as it was");
        let Value::Collection(kept) = kept else { panic!("it was a collection") };
        assert_eq!(Some(kept.encoding()), encoding);
        assert!(written(&Value::Collection(kept)) == payload, "{input:?}");
    }
});

/// Reads `value`; none where it is none, or asks for too much.
fn read<'a>(value: &'a [u8], forms: &Forms<'_>) -> Option<Value<'a>> {
    let mut asked = 0;
    let read = rdb::decode(value, forms, &mut |bytes| {
        asked = bytes;
        if bytes > ROOM_BYTES { Err(()) } else { Ok(()) }
    });
    // A compressed byte stands for 88 at most, and each two of them may be a part of a table.
    assert!(asked <= 4096 + 88 * 80 * value.len() as u64, "{asked} for {}", value.len());
    match read {
        Ok(value) => {
            if let Value::Collection(collection) = &value {
                assert!(collection.memory_bytes() <= asked + 4096);
            }
            Some(value)
        }
        Err(DecodeError::Malformed | DecodeError::NoRoom(())) => None,
    }
}

fn written(value: &Value<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    rdb::encode(
        match value {
            Value::String(bytes) => Stored::String(bytes),
            Value::Collection(collection) => Stored::Collection(collection),
        },
        &mut payload,
    );
    payload
}

/// Returns the parts of `value`, sorted where they have no order.
fn parts(value: &Value<'_>) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    match value {
        Value::String(bytes) => parts.push(bytes.to_vec()),
        Value::Collection(Collection::List(list)) => {
            parts.extend(list.iter().map(|element| element.to_vec()));
        }
        Value::Collection(Collection::Set(set)) => {
            set.for_each(|member| parts.push(member.to_vec()));
            parts.sort();
        }
        Value::Collection(Collection::Hash(hash)) => {
            hash.for_each(|field, value| parts.push([field.to_vec(), value.to_vec()].join(&0)));
            parts.sort();
        }
        Value::Collection(Collection::SortedSet(set)) => {
            set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                parts.push([member.to_vec(), score.to_le_bytes().to_vec()].concat());
            });
        }
    }
    parts
}
