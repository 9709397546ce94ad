//! Bytes as a file of the dataset: what it holds, or an error with its place, never a panic, and no
//! more memory for what is read than has come. What stands between the marks is written again, and
//! is read as itself.
#![no_main]

#[path = "../step.rs"]
mod step;

use base::DatabaseIndex;
use libfuzzer_sys::fuzz_target;
use rdb::file::{EntryEncoder, FileForm, FileReader, FileWriter, Item};
use rdb::samples::{default_rules, parts};
use rdb::{DecodeOptions, Stored, Value, Version};

use step::Step;

/// Beyond it no value is made.
const ROOM_BYTES: u64 = 1 << 20;
/// What is taken ahead of the bytes that come, for each of three parts of an entry.
const AHEAD_BYTES: usize = 3 << 20;

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let Ok(mut reader) = FileReader::open(input) else { return };
    let form = FileForm { version: Version::NEWEST, has_field_times: true, has_checksum: true };
    let mut writer = FileWriter::begin(Vec::new(), &form).expect("memory takes it");
    let mut encoder = EntryEncoder::new(Version::NEWEST, true);
    let (mut values, mut bytes) = (Vec::new(), Vec::new());
    while let Ok(Some(item)) = reader.next_item() {
        let Item::Entry(entry) = item else { continue };
        assert!(entry.key.len() <= 88 * input.len() && entry.value.len() <= 9 * input.len());
        let Some(value) = read(entry.value) else { continue };
        bytes.clear();
        encoder.put_last_use(entry.idle_seconds, entry.counter, &mut bytes);
        let stored = match &value {
            Value::String(bytes) => Stored::String(bytes),
            Value::Collection(collection) => Stored::Collection(collection.view()),
        };
        encoder.put(entry.key, entry.expires_at, stored, &mut bytes);
        writer.entries(DatabaseIndex(0), &bytes).expect("memory takes it");
        values.push((entry.key.to_vec(), flat(&value)));
    }
    assert!(reader.offset() <= input.len() as u64);
    assert!(reader.memory_bytes() <= AHEAD_BYTES + 100 * input.len());
    let file = writer.finish().expect("memory takes it");
    let mut reader = FileReader::open(&file[..]).expect("what is written can be read");
    let mut again = Vec::new();
    while let Some(item) = reader.next_item().expect("what is written can be read") {
        if let Item::Entry(entry) = item {
            let value = read(entry.value).expect("what is written can be read");
            again.push((entry.key.to_vec(), flat(&value)));
        }
    }
    assert!(values == again, "{input:?}");
});

fn read(bytes: &[u8]) -> Option<Value<'_>> {
    let rules = default_rules();
    let options = DecodeOptions { rules: &rules, encoding: None, string_bytes_max: ROOM_BYTES };
    let mut ask = |bytes: u64| if bytes > 64 * ROOM_BYTES { Err(()) } else { Ok(()) };
    rdb::decode(bytes, &options, &mut ask).ok()
}

fn flat(value: &Value<'_>) -> Vec<Vec<u8>> {
    match value {
        Value::String(bytes) => vec![bytes.to_vec()],
        Value::Collection(collection) => parts(collection),
    }
}
