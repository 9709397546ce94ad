//! Bytes as the value of a payload: a value or an error, never a panic, and at no time more memory
//! than was asked for until then, which the bytes bound; what is read can be written, and is read
//! again as itself. The first byte says how long collections stay compact, and at which ask there
//! is no room.
#![no_main]

#[path = "../step.rs"]
mod step;

use collections::{ListLimit, Rules};
use libfuzzer_sys::fuzz_target;
use rdb::samples::{default_rules, parts};
use rdb::{DecodeOptions, Stored, Value};
use sys::allocations::{self, Counting};

use step::Step;

/// Tells how much memory a value takes.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Beyond it nothing is made: the inputs are small, and what they expand to need not be large.
const ROOM_BYTES: u64 = 8 << 20;
/// What may be taken that was not asked for: the first blocks of what grows.
const SLACK_BYTES: u64 = 8192;

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let _ = rdb::open(input);
    let Some((&choice, input)) = input.split_first() else { return };
    let rules = rules(choice);
    let by_rules = DecodeOptions { rules: &rules, encoding: None, string_bytes_max: ROOM_BYTES };
    let _ = read(input, &by_rules, ROOM_BYTES, usize::from(choice >> 6));
    let Some(first) = read(input, &by_rules, ROOM_BYTES, usize::MAX) else { return };
    let payload = written(&first);
    let value = rdb::open(&payload).expect("it was sealed");
    let second = read(value, &by_rules, u64::MAX, usize::MAX).expect("what is written can be read");
    match (&first, &second) {
        (Value::String(first), Value::String(second)) => assert!(first == second, "{input:?}"),
        (Value::Collection(first), Value::Collection(second)) => {
            assert!(parts(first) == parts(second), "{input:?}");
        }
        _ => panic!("it is of another type: {input:?}"),
    }
    if let Value::Collection(collection) = &first {
        let encoding = Some(collection.encoding());
        let kept = DecodeOptions { encoding, ..by_rules };
        let kept = read(value, &kept, u64::MAX, usize::MAX).expect("it can be stored as it was");
        let Value::Collection(kept) = kept else { panic!("it was a collection") };
        assert_eq!(Some(kept.encoding()), encoding);
        assert!(written(&Value::Collection(kept)) == payload, "{input:?}");
    }
});

/// Returns the rules that `choice` stands for.
fn rules(choice: u8) -> Rules {
    let mut rules = default_rules();
    rules.limits.list = ListLimit([-2, 1, -1, 3][usize::from(choice & 3)]);
    for (bit, limit) in [
        (2, &mut rules.limits.hash_entries),
        (2, &mut rules.limits.set_entries),
        (2, &mut rules.limits.sorted_set_entries),
        (3, &mut rules.limits.hash_value_bytes),
        (3, &mut rules.limits.set_value_bytes),
        (3, &mut rules.limits.sorted_set_value_bytes),
        (4, &mut rules.limits.set_integers),
    ] {
        if choice >> bit & 1 == 1 {
            *limit = u64::MAX;
        }
    }
    rules
}

/// Reads `value`, where up to `room_bytes` are granted, `granted` times; none where it is none, or
/// asks for more.
fn read<'a>(
    value: &'a [u8],
    options: &DecodeOptions<'_>,
    room_bytes: u64,
    granted: usize,
) -> Option<Value<'a>> {
    let (mut asked, mut bytes_max, mut count) = (0, 0, 0);
    let check = |bytes_max: u64| {
        let taken = allocations::bytes_max();
        assert!(taken <= bytes_max + SLACK_BYTES, "{taken} of {bytes_max}");
    };
    allocations::watch_bytes();
    let read = rdb::decode(value, options, &mut |bytes| {
        check(bytes_max);
        (asked, count) = (bytes, count + 1);
        if bytes > room_bytes || count > granted {
            return Err(());
        }
        bytes_max = bytes;
        Ok(())
    });
    check(bytes_max);
    // A compressed byte stands for 88 at most, and each two of them may be a part of a table.
    assert!(asked <= 4096 + 88 * 80 * value.len() as u64, "{asked} for {}", value.len());
    read.ok()
}

fn written(value: &Value<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    rdb::encode(
        match value {
            Value::String(bytes) => Stored::String(bytes),
            Value::Collection(collection) => Stored::Collection(collection.view()),
        },
        &mut payload,
    );
    payload
}
