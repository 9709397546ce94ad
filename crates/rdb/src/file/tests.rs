//! Files that were written and read back, files of others as documented bytes, and changed ones.

use base::prng::Prng;
use base::{DatabaseIndex, UnixMs};
use collections::Collection;

use super::*;
use crate::samples::{self, default_rules, parts, ziplist};
use crate::{DecodeOptions, Stored, Value, Version, decode};

const FORM: FileForm =
    FileForm { version: Version::NEWEST, has_field_times: false, has_checksum: true };

/// What a file said, laid flat.
#[derive(Debug, Default, PartialEq)]
struct Said {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    sizes: Vec<(u64, u64, u64)>,
    entries: Vec<SaidEntry>,
}

#[derive(Debug, PartialEq)]
struct SaidEntry {
    database: u64,
    key: Vec<u8>,
    expires_at: Option<i64>,
    grace_ms: u64,
    cost: u64,
    idle_seconds: Option<u64>,
    counter: Option<u8>,
    parts: Vec<Vec<u8>>,
}

fn read(bytes: &[u8]) -> Result<Said, String> {
    let rules = default_rules();
    let mut reader = FileReader::open(bytes).map_err(|error| error.to_string())?;
    let (mut said, mut database) = (Said::default(), 0);
    while let Some(item) = reader.next_item().map_err(|error| error.to_string())? {
        match item {
            Item::Field { name, value } => said.fields.push((name.to_vec(), value.to_vec())),
            Item::Database(index) => database = index,
            Item::Sizes { keys, volatile } => said.sizes.push((database, keys, volatile)),
            Item::Entry(entry) => {
                let options =
                    DecodeOptions { rules: &rules, encoding: None, string_bytes_max: 1 << 30 };
                let value = decode(entry.value, &options, &mut |_| Ok::<(), ()>(()));
                let parts = match value.map_err(|error| format!("{error:?}"))? {
                    Value::String(bytes) => vec![bytes.to_vec()],
                    Value::Collection(collection) => parts(&collection),
                };
                said.entries.push(SaidEntry {
                    database,
                    key: entry.key.to_vec(),
                    expires_at: entry.expires_at.map(|at| at.0),
                    grace_ms: entry.grace_ms,
                    cost: entry.cost,
                    idle_seconds: entry.idle_seconds,
                    counter: entry.counter,
                    parts,
                });
            }
        }
    }
    Ok(said)
}

/// Returns a file with collections of all types, and what it says.
fn sample(seed: u64, count: usize, form: &FileForm) -> (Vec<u8>, Said) {
    let mut random = Prng::new(seed);
    let mut encoder = EntryEncoder::new(form.version, random.one_in(2));
    let mut writer = FileWriter::begin(Vec::new(), form).unwrap();
    let mut said = Said::default();
    writer.field(b"redis-ver", b"7.2.0").unwrap();
    writer.field(LSN_FIELD, b"18446744073709551615").unwrap();
    said.fields.push((b"redis-ver".to_vec(), b"7.2.0".to_vec()));
    said.fields.push((LSN_FIELD.to_vec(), b"18446744073709551615".to_vec()));
    for index in 0..count {
        let database = random.below(3);
        let text: Vec<Vec<u8>> =
            (0..1 + random.below(40)).map(|n| format!("{n} {}", "x".repeat(30)).into()).collect();
        let collection = samples::collection(&mut random, &text);
        let is_string = random.one_in(4);
        let value = match is_string {
            true => Stored::String(&text[0]),
            false => Stored::Collection(collection.view()),
        };
        let expires_at = random.one_in(2).then_some(UnixMs(1_700_000_000_000 + index as i64));
        let (idle_seconds, counter) = (random.one_in(2).then_some(70_000), Some(7));
        let mut out = Vec::new();
        encoder.put_last_use(idle_seconds, counter, &mut out);
        let grace_ms = if random.one_in(3) { 1 + random.below(1 << 36) } else { 0 };
        encoder.put_grace(grace_ms, &mut out);
        let cost = if random.one_in(3) { 1 + random.below(1 << 16) } else { 1 };
        encoder.put_cost(cost, &mut out);
        let key = format!("key {index}").into_bytes();
        encoder.put(&key, expires_at, value, &mut out);
        writer.entries(DatabaseIndex(database as u8), &out).unwrap();
        let parts = if is_string { vec![text[0].clone()] } else { parts(&collection) };
        let expires_at = expires_at.map(|at| at.0);
        said.entries.push(SaidEntry {
            database,
            key,
            expires_at,
            grace_ms,
            cost,
            idle_seconds,
            counter,
            parts,
        });
    }
    (writer.finish().unwrap(), said)
}

#[test]
fn what_is_written_is_read_back() {
    for seed in 0..20 {
        for number in [10, 11] {
            let form = FileForm {
                version: Version::new(number).unwrap(),
                has_field_times: seed % 2 == 0,
                has_checksum: seed % 3 != 0,
            };
            let (bytes, said) = sample(seed, 40, &form);
            assert_eq!(bytes[..5], *b"REDIS");
            assert_eq!(bytes.ends_with(&[0; 8]), !form.has_checksum);
            let again = read(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            // A set has no order.
            let sorted = |mut said: Said| {
                said.entries.iter_mut().for_each(|entry| entry.parts.sort());
                said
            };
            assert!(sorted(again) == sorted(said), "seed {seed}");
        }
    }
}

#[test]
fn every_file_that_ends_early_and_every_flipped_bit_is_noticed() {
    let (bytes, _) = sample(3, 4, &FORM);
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert!(read(&changed).is_err(), "bit {at}");
    }
}

/// How many bits of a long file the test below flips, one at a time.
const FLIPPED_BITS: u64 = 200;

#[test]
fn flipped_bit_of_a_long_file_is_noticed() {
    let wanted = std::env::var("FOREBAY_FLIPPED_BITS").ok();
    let wanted = wanted.map_or(FLIPPED_BITS, |count| count.parse().expect("it is a number"));
    let mut random = Prng::new(wanted);
    let (mut bytes, _) = sample(4, 300, &FORM);
    assert!(read(&bytes).is_ok());
    let values = values_of(&bytes);
    for _ in 0..wanted {
        let at = random.below(bytes.len() as u64) as usize;
        let bit = 1 << random.below(8);
        bytes[at] ^= bit;
        assert!(!reads_soundly(&bytes, &values), "bit {bit} of byte {at}");
        bytes[at] ^= bit;
    }
    assert!(reads_soundly(&bytes, &values), "each bit was put back");
}

/// Returns the encoded values of the file in `bytes` in their order.
fn values_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = FileReader::open(bytes).unwrap();
    let mut values = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            values.push(entry.value.to_vec());
        }
    }
    values
}

/// Returns whether [`read`] finds no fault. Values that are the next of `sound` are not decoded
/// again.
fn reads_soundly(bytes: &[u8], sound: &[Vec<u8>]) -> bool {
    let rules = default_rules();
    let Ok(mut reader) = FileReader::open(bytes) else { return false };
    let mut sound = sound.iter();
    loop {
        let entry = match reader.next_item() {
            Ok(Some(Item::Entry(entry))) => entry,
            Ok(Some(_)) => continue,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let options = DecodeOptions { rules: &rules, encoding: None, string_bytes_max: 1 << 30 };
        let is_sound = sound.next().is_some_and(|sound| sound == entry.value)
            || decode(entry.value, &options, &mut |_| Ok::<(), ()>(())).is_ok();
        if !is_sound {
            return false;
        }
    }
}

#[test]
fn bytes_of_any_kind_end_without_harm() {
    let mut random = Prng::new(5);
    for round in 0..3000 {
        let form = FileForm { has_checksum: false, ..FORM };
        let (mut bytes, _) = sample(random.below(10), 6, &form);
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        if round % 2 == 0 {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        }
        // Either is fine.
        let _ = read(&bytes);
    }
}

fn file(header: &[u8], body: &[u8]) -> Vec<u8> {
    [header, body, &[mark::END], &[0; 8]].concat()
}

fn error_of(header: &[u8], body: &[u8]) -> String {
    read(&file(header, body)).expect_err("it is refused")
}

#[test]
fn what_cannot_be_kept_is_refused_by_name() {
    let header = b"REDIS0011";
    let start = "at byte 0: ";
    assert_eq!(error_of(b"REDIS0013", b""), format!("{start}Can't handle RDB format version 13"));
    assert_eq!(error_of(b"REDIS0005", b""), format!("{start}Can't handle RDB format version 5"));
    assert_eq!(error_of(b"VALKEY079", b""), format!("{start}Can't handle RDB format version 79"));
    assert_eq!(
        error_of(b"SREDI0011", b""),
        format!("{start}Wrong signature trying to load DB from file")
    );
    // The identity of a module's type whose name is `ReJSON-RL`, in its third version.
    let identity = b"ReJSON-RL".iter().fold(0u64, |sum, byte| {
        let all = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        sum << 6 | all.iter().position(|known| known == byte).unwrap() as u64
    });
    let identity = identity << 10 | 3;
    let module = [&b"\x07\x01k\x81"[..], &identity.swap_bytes().to_le_bytes()].concat();
    assert!(error_of(header, &module).contains("no matching module 'ReJSON-RL'"));
    let aux = [&b"\xF7\x81"[..], &identity.swap_bytes().to_le_bytes()].concat();
    assert!(error_of(header, &aux).contains("no matching module 'ReJSON-RL'"));
    assert!(error_of(header, b"\xF5\x03abc").contains("a library of functions"));
    assert!(error_of(header, b"\xF3\x01a").contains("the unknown kind 243"));
    assert!(error_of(header, b"\x1A\x01k").contains("the unknown kind 26"));
    assert_eq!(error_of(header, b"\x00\x01k\x82"), "at byte 13: a length is not as it may be");
}

fn entry_of(header: &[u8], body: &[u8]) -> SaidEntry {
    let said = read(&file(header, body)).unwrap_or_else(|error| panic!("{error}"));
    said.entries.into_iter().next().expect("the file has an entry")
}

fn of_parts(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

#[test]
fn old_forms_are_read_as_they_are_documented() {
    let string = entry_of(b"REDIS0006", b"\xFE\x05\xFD\x01\x00\x00\x00\x00\x01k\x02ab");
    assert_eq!((string.database, string.expires_at), (5, Some(1000)));
    assert_eq!(string.parts, of_parts(&[b"ab"]));
    // A zipmap: two pairs, the value of the second with three bytes unused behind it.
    let zipmap = b"\x02\x01a\x01\x001\x01b\x02\x0312\0\0\0\xFF";
    let body = [&b"\x09\x01k"[..], &[zipmap.len() as u8], zipmap].concat();
    assert_eq!(entry_of(b"REDIS0006", &body).parts, of_parts(&[b"a=1", b"b=12"]));
    let block = ziplist(&[b"\x01a", b"\x011", b"\x01b", b"\x012"]);
    for (kind, expected) in [
        (10, &[&b"a"[..], b"1", b"b", b"2"][..]),
        (12, &[b"a=1e0", b"b=2e0"]),
        (13, &[b"a=1", b"b=2"]),
    ] {
        let body = [&[kind, 1, b'k', block.len() as u8], &block[..]].concat();
        assert_eq!(entry_of(b"REDIS0007", &body).parts, of_parts(expected), "kind {kind}");
    }
    let quicklist = [&[14, 1, b'k', 1, block.len() as u8], &block[..]].concat();
    assert_eq!(entry_of(b"REDIS0008", &quicklist).parts, of_parts(&[b"a", b"1", b"b", b"2"]));
    let scores_in_text = entry_of(b"REDIS0006", b"\x03\x01k\x01\x01m\x031.5");
    assert_eq!(scores_in_text.parts, of_parts(&[b"m=1.5e0"]));
}

#[test]
fn hashes_with_times_of_others_are_those_of_redis() {
    let time = 4_000_000_000_000u64;
    let of_valkey = [
        &b"\x16\x01h\x02\x01a\x011"[..],
        &time.to_le_bytes(),
        b"\x01b\x012",
        &(-1i64).to_le_bytes(),
    ]
    .concat();
    let slots = b"\xF4\x40\x64\x02\x01";
    let body = [&slots[..], &of_valkey].concat();
    let of_candidate =
        [&b"\x16\x01h\x02\x81"[..], &time.swap_bytes().to_le_bytes(), b"\x01a\x011\x00\x01b\x012"]
            .concat();
    let of_redis =
        [&b"\x18\x01h"[..], &time.to_le_bytes(), b"\x02\x01\x01a\x011\x00\x01b\x012"].concat();
    let expected = entry_of(b"REDIS0012", &of_redis);
    assert!(expected.parts.iter().any(|part| part.ends_with(b"4000000000000")), "{expected:?}");
    assert_eq!(entry_of(b"VALKEY080", &body), expected);
    assert_eq!(entry_of(b"REDIS0012", &of_candidate), expected);
    let negative = [&b"\x16\x01h\x01\x01a\x011"[..], &(-2i64).to_le_bytes()].concat();
    assert!(error_of(b"VALKEY080", &negative).contains("the time of a field"));
}

#[test]
fn what_follows_a_file_is_left() {
    let (mut bytes, _) = sample(1, 3, &FORM);
    bytes.extend_from_slice(b"*1\r\n");
    let mut reader = FileReader::open(&bytes[..]).unwrap();
    while reader.next_item().unwrap().is_some() {}
    assert_eq!(reader.into_rest().0, b"*1\r\n");
}

#[test]
fn a_length_that_lies_takes_no_memory() {
    let body = b"\x00\x01k\x81\x00\x00\x00\xFF\x00\x00\x00\x00abc";
    let bytes = [&b"REDIS0011"[..], body].concat();
    let mut reader = FileReader::open(&bytes[..]).unwrap();
    assert!(matches!(reader.next_item(), Err(FileError { fault: Fault::Short, .. })));
    assert!(reader.memory_bytes() < 4 << 20, "{}", reader.memory_bytes());
}

/// The kinds of all collections are in what the tests write.
#[test]
fn a_sample_has_values_of_all_types() {
    let mut random = Prng::new(1);
    let text = [b"a".to_vec(), b"b".to_vec()];
    let mut seen = [false; 5];
    for _ in 0..100 {
        let index = match samples::collection(&mut random, &text) {
            Collection::List(_) => 0,
            Collection::Set(_) => 1,
            Collection::Hash(_) => 2,
            Collection::SortedSet(_) => 3,
            Collection::Stream(_) => 4,
        };
        seen[index] = true;
    }
    assert_eq!(seen, [true; 5]);
}
