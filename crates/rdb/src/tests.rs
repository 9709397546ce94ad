//! Values to bytes and back, old forms, and bytes of any kind.

use base::UnixMs;
use base::prng::Prng;
use collections::{
    Collection, CollectionEncoding, CollectionView, FIELD_TIME_MS_MAX, Hash, ListLimit, Listpack,
    Rules,
};
use sys::allocations::{self, Counting};

mod streams;

use super::*;
use crate::samples::{default_rules as rules, parts, ziplist};

fn options(rules: &Rules) -> DecodeOptions<'_> {
    DecodeOptions { rules, encoding: None, string_bytes_max: 1 << 20 }
}

fn read<'a>(value: &'a [u8], options: &DecodeOptions<'_>) -> Option<Value<'a>> {
    decode(value, options, &mut |_| Ok::<(), ()>(())).ok()
}

/// Returns the collection of `value`, in the encoding that the rules give it.
fn collection(value: &[u8]) -> Option<Collection> {
    match read(value, &options(&rules()))? {
        Value::Collection(collection) => Some(collection),
        Value::String(_) => None,
    }
}

fn payload(value: Stored<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(value, &mut out);
    assert!(out.len() as u64 <= encoded_bytes_max(value));
    out
}

fn part(random: &mut Prng) -> Vec<u8> {
    match random.below(5) {
        0 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
        1 => random.below(300).to_string().into_bytes(),
        2 => vec![b'p'; random.below(300) as usize],
        3 => (0..random.below(70)).map(|_| random.next() as u8).collect(),
        _ => format!("part {}", random.below(1000)).into_bytes(),
    }
}

/// Draws a collection of any type.
fn draw(random: &mut Prng) -> Collection {
    let most = [5, 100, 700][random.below(3) as usize];
    let count = 1 + random.below(most);
    let are_integers = random.one_in(4);
    let part = |random: &mut Prng| match are_integers {
        true => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
        false => part(random),
    };
    let parts: Vec<Vec<u8>> = (0..count).map(|_| part(random)).collect();
    samples::collection(random, &parts)
}

#[test]
fn an_older_version_has_the_same_parts_and_no_newer_kind() {
    let mut random = Prng::new(11);
    let rules = rules();
    for _ in 0..400 {
        let before = draw(&mut random);
        let value = Stored::Collection(before.view());
        for number in [9, 10, 11] {
            let version = Version::new(number).unwrap();
            let mut payload = Vec::new();
            encode_as(version, value, &mut payload);
            assert!(payload.len() as u64 <= encoded_bytes_max_as(version, value));
            if matches!(&before, Collection::Hash(hash) if hash.view().is_timed()) {
                // None of them can tell the times.
                assert_eq!(payload[payload.len() - 10..][..2], [12, 0]);
                continue;
            }
            assert_eq!(payload[payload.len() - 10..][..2], number.to_le_bytes());
            let newest = match number {
                9 => kind::STREAM_LISTPACKS,
                10 => kind::STREAM_LISTPACKS_2,
                _ => kind::STREAM_LISTPACKS_3,
            };
            assert!(payload[0] <= newest, "kind {} in version {number}", payload[0]);
            let found = open(&payload).ok().and_then(|bytes| read(bytes, &options(&rules)));
            let Some(Value::Collection(after)) = found else { panic!("version {number}") };
            if number == 9 && matches!(after, Collection::Stream(_)) {
                // It counts nothing but what is there.
                assert_eq!(before.len(), after.len());
                continue;
            }
            let sorted = |collection: &Collection| {
                let mut parts = parts(collection);
                if !matches!(collection, Collection::List(_)) {
                    parts.sort();
                }
                parts
            };
            assert_eq!(sorted(&before), sorted(&after), "version {number}");
        }
    }
    assert_eq!([8, 12].map(Version::new), [None, None]);
}

#[test]
fn collections_come_back_as_they_were_stored() {
    let mut random = Prng::new(1);
    let rules = rules();
    let mut seen = Vec::new();
    for _ in 0..400 {
        let before = draw(&mut random);
        let encoding = before.encoding();
        let payload = payload(Stored::Collection(before.view()));
        let value = open(&payload).unwrap();
        let kept = DecodeOptions { encoding: Some(encoding), ..options(&rules) };
        let Some(Value::Collection(after)) = read(value, &kept) else { panic!("{encoding:?}") };
        assert_eq!((parts(&before), encoding), (parts(&after), after.encoding()));
        let mut again = Vec::new();
        encode(Stored::Collection(after.view()), &mut again);
        // A large hash has its fields in the order in which they came to lie, no other.
        let has_order = ![kind::HASH, kind::HASH_METADATA].contains(&payload[0]);
        assert!(again == payload || !has_order && again.len() == payload.len(), "{encoding:?}");
        // The rules may have it stored otherwise, but not as something else.
        let by_rules = collection(value).unwrap();
        assert_eq!(parts(&before), parts(&by_rules));
        seen.push((payload[0], encoding.name(), by_rules.encoding().name()));
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() >= 15, "{seen:?}");
    for kind in [kind::HASH_METADATA, kind::HASH_LISTPACK_EX] {
        assert!(seen.iter().any(|(seen, ..)| *seen == kind), "{kind} of {seen:?}");
    }
}

#[test]
fn strings_come_back_and_lie_in_the_payload_where_they_can() {
    let (mut random, rules) = (Prng::new(2), rules());
    for _ in 0..1_000 {
        let before = part(&mut random);
        let payload = payload(Stored::String(&before));
        let Some(Value::String(after)) = read(open(&payload).unwrap(), &options(&rules)) else {
            panic!("a string stays one")
        };
        assert_eq!(*after, before);
        let is_there = payload.windows(before.len().max(1)).any(|bytes| bytes == before);
        assert!(matches!(after, std::borrow::Cow::Borrowed(_)) == (payload[1] < 0xC0));
        assert!(is_there || payload[1] >= 0xC0 || before.is_empty());
    }
}

#[test]
fn rules_decide_on_the_encoding_of_single_strings() {
    let rules = rules();
    let encoding = |value: &[u8]| collection(value).map(|it| it.encoding().name());
    let strings = |kind: u8, count: usize, part: &dyn Fn(usize) -> String| {
        let mut out = vec![kind];
        let mut writer = writer::Writer::new(Version::NEWEST, &mut out);
        writer.length(if kind == kind::HASH { count / 2 } else { count });
        (0..count).for_each(|index| writer.text(part(index).as_bytes()));
        out
    };
    let (number, word) = (|index: usize| index.to_string(), |index: usize| format!("w{index}"));
    let long = |index: usize| format!("{index:065}");
    for (value, expected) in [
        (strings(kind::SET, 512, &number), "intset"),
        (strings(kind::SET, 513, &number), "hashtable"),
        (strings(kind::SET, 128, &word), "listpack"),
        (strings(kind::SET, 129, &word), "hashtable"),
        (strings(kind::SET, 2, &long), "hashtable"),
        (strings(kind::HASH, 1024, &word), "listpack"),
        (strings(kind::HASH, 1026, &word), "hashtable"),
        (strings(kind::HASH, 2, &long), "hashtable"),
        (strings(kind::LIST, 100, &long), "listpack"),
        (strings(kind::LIST, 200, &long), "quicklist"),
    ] {
        assert_eq!(encoding(&value), Some(expected), "{} {}", value[0], value.len());
    }
    let twice = strings(kind::SET, 5, &|index| (index % 4).to_string());
    assert!(collection(&twice).is_none());
    let twice = strings(kind::HASH, 6, &|index| (index % 4).to_string());
    assert!(collection(&twice).is_none());
    assert!(read(&strings(kind::SET, 1, &word), &options(&rules)).is_some());
}

fn listpack(parts: &[&str]) -> Listpack {
    let mut pack = Listpack::new();
    parts.iter().for_each(|part| pack.push_back(part.as_bytes()));
    pack
}

fn block(kind: u8, block: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    writer::Writer::new(Version::NEWEST, &mut out).text(block);
    out
}

#[test]
fn blocks_larger_than_the_rules_allow_become_tables() {
    let parts: Vec<String> = (0..300).map(|index| format!("{index}")).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let pack = listpack(&parts);
    for (kind, expected, count) in [
        (kind::SET_LISTPACK, "hashtable", 300),
        (kind::HASH_LISTPACK, "listpack", 150),
        (kind::SORTED_SET_LISTPACK, "skiplist", 150),
    ] {
        let collection = collection(&block(kind, pack.bytes())).unwrap();
        assert_eq!((collection.encoding().name(), collection.len()), (expected, count));
    }
    let rules = rules();
    let wrong = DecodeOptions { encoding: Some(CollectionEncoding::Skiplist), ..options(&rules) };
    assert!(read(&block(kind::HASH_LISTPACK, pack.bytes()), &wrong).is_none());
}

#[test]
fn blocks_with_something_twice_or_nothing_are_refused() {
    let twice = listpack(&["1", "a", "1", "b"]);
    let (odd, none) = (listpack(&["1", "a", "2"]), Listpack::new());
    assert!(collection(&block(kind::SET_LISTPACK, twice.bytes())).is_none());
    for kind in [kind::HASH_LISTPACK, kind::SORTED_SET_LISTPACK] {
        assert!(collection(&block(kind, twice.bytes())).is_none());
        assert!(collection(&block(kind, odd.bytes())).is_none());
        assert!(collection(&block(kind, none.bytes())).is_none());
    }
    let words = listpack(&["a", "b"]);
    assert!(collection(&block(kind::HASH_LISTPACK, words.bytes())).is_some());
    assert!(collection(&block(kind::SORTED_SET_LISTPACK, words.bytes())).is_none());
}

#[test]
fn ziplists_and_zipmaps_are_read() {
    let long = [&[0x41, 0x2C][..], &[b'l'; 300]].concat();
    let entries: [&[u8]; 10] = [
        b"\x03abc",
        &long,
        b"\xC0\xFF\x7F",
        b"\xD0\x00\x00\x00\x80",
        b"\xE0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F",
        b"\xF0\x00\x00\x80",
        b"\xFE\x80",
        b"\xF1",
        b"\xFD",
        b"\x80\x00\x00\x00\x0212",
    ];
    let expected = [
        "abc",
        &"l".repeat(300),
        "32767",
        "-2147483648",
        "9223372036854775807",
        "-8388608",
        "-128",
        "0",
        "12",
        "12",
    ];
    let list = collection(&block(kind::LIST_ZIPLIST, &ziplist(&entries))).unwrap();
    assert_eq!(parts(&list), expected.map(|text| text.as_bytes().to_vec()));
    assert_eq!(list.encoding(), CollectionEncoding::Quicklist);
    let hash = collection(&block(kind::HASH_ZIPLIST, &ziplist(&entries[..8]))).unwrap();
    assert_eq!((hash.len(), hash.encoding()), (4, CollectionEncoding::Listpack));
    let scored = [b"\x01b".as_slice(), b"\x032.5", b"\x01a", b"\xF3"];
    let set = collection(&block(kind::SORTED_SET_ZIPLIST, &ziplist(&scored))).unwrap();
    assert_eq!(parts(&set), [b"a=2e0".to_vec(), b"b=2.5e0".to_vec()]);
    let several = ziplist(&entries[..3]);
    let mut value = vec![kind::LIST_ZIPLISTS];
    let mut writer = writer::Writer::new(Version::NEWEST, &mut value);
    writer.length(3);
    [&several, &ziplist(&[]), &several].iter().for_each(|block| writer.text(block));
    assert_eq!(collection(&value).map(|list| list.len()), Some(6));
    let map = b"\x02\x01a\x02\x01xy?\x01b\x00\x00\xFF";
    let hash = collection(&block(kind::HASH_ZIPMAP, map)).unwrap();
    assert_eq!(parts(&hash), [b"a=xy".to_vec(), b"b=".to_vec()]);
    assert!(collection(&block(kind::HASH_ZIPMAP, b"\x02\x01a\x00\x00\x01a\x00\x00\xFF")).is_none());
    let long = [b"\x01\x01a\x41\x00".as_slice(), &[b'v'; 65], b"\xFF"].concat();
    let hash = collection(&block(kind::HASH_ZIPMAP, &long)).unwrap();
    assert_eq!(hash.encoding(), CollectionEncoding::HashTable);
}

#[test]
fn scores_in_text_and_sorted_sets_in_any_order_are_read() {
    let value = b"\x03\x03\x01a\x031.5\x01b\xFF\x01c\xFE";
    let set = collection(value).unwrap();
    assert_eq!(parts(&set), [b"b=-inf".to_vec(), b"a=1.5e0".to_vec(), b"c=inf".to_vec()]);
    assert!(collection(b"\x03\x01\x01a\xFD").is_none(), "it is no number");
    assert!(collection(b"\x03\x02\x01a\x011\x01a\x012").is_none(), "it is there twice");
    assert!(collection(&[&b"\x05\x01\x01a"[..], &f64::NAN.to_le_bytes()].concat()).is_none());
}

#[test]
fn a_small_hash_keeps_the_order_of_its_payload() {
    let texts: Vec<Vec<u8>> = [60, 3, 13, 40, 1, 25, 3, 14, 8, 60, 2, 7]
        .iter()
        .enumerate()
        .map(|(index, length)| vec![b'a' + index as u8; *length])
        .collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let hash = collection(&strings(4, texts.len() / 2, &texts)).expect("it is a hash");
    let CollectionView::Hash(hash) = hash.view() else { panic!("it is a hash") };
    let pack = hash.pack().expect("it is small");
    let parts: Vec<Vec<u8>> = pack.iter().map(|part| part.to_vec()).collect();
    assert_eq!(parts, texts);
}

#[test]
fn a_giant_node_becomes_many_unless_it_was_one_listpack_elsewhere() {
    let rules = rules();
    let mut pack = Listpack::new();
    (0..140_000).for_each(|number| pack.push_back(if number % 2 == 0 { b"a" } else { b"b" }));
    let node = |pack: &Listpack| {
        let mut value = vec![18, 1, 2];
        writer::Writer::new(Version::NEWEST, &mut value).text(pack.bytes());
        value
    };
    let value = node(&pack);
    check_asks(&value, &rules);
    let Some(Collection::List(list)) = collection(&value) else { panic!("it is a list") };
    assert!(list.view().packs().len() > 10 && list.len() == 140_000);
    assert!(list.view().packs().all(|pack| pack.count() < 60_000));
    let encoding = Some(CollectionEncoding::Listpack);
    let kept = read(&value, &DecodeOptions { encoding, ..options(&rules) });
    let Some(Value::Collection(Collection::List(list))) = kept else { panic!("it is a list") };
    assert!(list.view().packs().len() == 1 && list.len() == 140_000);
}

#[test]
fn an_encoding_that_is_asked_for_is_had_whatever_the_rules_say() {
    let mut rules = rules();
    rules.limits.list = ListLimit(1);
    rules.limits.set_integers = 0;
    let of = |value: &[u8], encoding| {
        let options = DecodeOptions { encoding: Some(encoding), ..options(&rules) };
        match read(value, &options)? {
            Value::Collection(collection) => Some((collection.encoding(), collection.len())),
            Value::String(_) => None,
        }
    };
    let (list, set) = (b"\x01\x02\x01a\x01b", b"\x02\x02\xC0\x01\xC0\x02");
    for (value, encoding) in [
        (&list[..], CollectionEncoding::Listpack),
        (list, CollectionEncoding::Quicklist),
        (set, CollectionEncoding::Intset),
        (set, CollectionEncoding::Listpack),
        (set, CollectionEncoding::HashTable),
    ] {
        assert_eq!(of(value, encoding), Some((encoding, 2)));
    }
    assert_eq!(of(list, CollectionEncoding::HashTable), None);
    assert_eq!(of(b"\x02\x01\x01a", CollectionEncoding::Intset), None);
}

#[test]
fn an_element_that_is_a_node_of_its_own_is_read() {
    let list = collection(b"\x12\x01\x01\x05alone").unwrap();
    assert_eq!((parts(&list), list.encoding().name()), (vec![b"alone".to_vec()], "quicklist"));
    assert!(collection(b"\x12\x01\x03\x05alone").is_none());
    assert!(collection(b"\x12\x01\x01\x00").is_none());
}

/// Tells how much memory the tests take.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What may be taken that was not asked for: the first blocks of what grows.
const SLACK_BYTES: u64 = 8192;

/// Reads `value`, where memory is granted `granted` times; returns how much was asked for last.
/// Asserts that at no time more is taken than was granted until then.
fn decode_within<'a>(
    value: &'a [u8],
    options: &DecodeOptions<'_>,
    granted: usize,
) -> (Result<Value<'a>, DecodeError<()>>, u64) {
    let (mut asked, mut bytes_max, mut count) = (0, 0, 0);
    let check = |bytes_max: u64| {
        let taken = allocations::bytes_max();
        let limits = &options.rules.limits;
        assert!(taken <= bytes_max + SLACK_BYTES, "{taken} of {bytes_max}: {limits:?}");
    };
    allocations::watch_bytes();
    let result = decode(value, options, &mut |bytes| {
        check(bytes_max);
        (asked, count) = (bytes, count + 1);
        if count > granted {
            return Err(());
        }
        bytes_max = bytes;
        Ok(())
    });
    check(bytes_max);
    if let Ok(Value::Collection(collection)) = &result {
        assert!(collection.memory_bytes() <= bytes_max + SLACK_BYTES);
    }
    (result, asked)
}

/// Asserts that `value` is read, and that it is refused at whichever ask there is no room.
fn check_asks(value: &[u8], rules: &Rules) {
    let options = options(rules);
    let mut granted = 0;
    loop {
        match decode_within(value, &options, granted) {
            (Err(DecodeError::NoRoom(())), 1..) => granted += 1,
            (Ok(Value::Collection(_)), _) => break,
            (Ok(Value::String(_)) | Err(_), asked) => panic!("{asked} for {:x?}", value.get(..9)),
        }
    }
    assert!((1..4).contains(&granted), "{granted}");
}

/// Returns a value of `kind` of `count` strings, or pairs of them, which are `texts`.
fn strings(kind: u8, count: usize, texts: &[&[u8]]) -> Vec<u8> {
    let mut value = vec![kind];
    let mut writer = writer::Writer::new(Version::NEWEST, &mut value);
    writer.length(count);
    texts.iter().for_each(|text| writer.text(text));
    value
}

#[test]
fn a_node_of_one_element_is_expanded_beside_itself_alone() {
    let elements = [300_000, 1_000_000, 900_000].map(|bytes| vec![0; bytes]);
    let value = plain_nodes(elements.iter().map(Vec::as_slice));
    assert!(value.len() < 60_000);
    check_asks(&value, &rules());
}

/// Returns a list of `elements`, each a node of its own.
fn plain_nodes<'e>(elements: impl ExactSizeIterator<Item = &'e [u8]>) -> Vec<u8> {
    let mut value = strings(kind::LIST_LISTPACKS, elements.len(), &[]);
    let mut compressor = lzf::Compressor::default();
    let plain = writer::Writer::new(Version::NEWEST, &mut value);
    let mut writer = writer::Writer { compressor: Some(&mut compressor), ..plain };
    for element in elements {
        writer.length(container::PLAIN as usize);
        writer.text(element);
    }
    value
}

#[test]
fn a_field_and_its_value_are_expanded_at_once() {
    let (short, long) = (vec![b'f'; 500_000], vec![b'v'; 1_000_000]);
    let texts = [&short[..], b"value", b"field", &long, &long, &short];
    check_asks(&strings(kind::HASH, 3, &texts), &rules());
}

#[test]
fn a_ziplist_becomes_as_many_listpacks_as_the_rules_have_it() {
    let entries: Vec<&[u8]> = vec![b"\xF1"; 70_000];
    let value = block(kind::LIST_ZIPLIST, &ziplist(&entries));
    for limit in [1, 2, 100, 0, -1, -5] {
        let mut rules = rules();
        rules.limits.list = ListLimit(limit);
        check_asks(&value, &rules);
    }
}

#[test]
fn a_table_that_becomes_compact_is_there_twice_for_a_moment() {
    let mut rules = rules();
    let limits = &mut rules.limits;
    for limit in [
        &mut limits.hash_entries,
        &mut limits.hash_value_bytes,
        &mut limits.set_integers,
        &mut limits.set_entries,
        &mut limits.set_value_bytes,
        &mut limits.sorted_set_entries,
        &mut limits.sorted_set_value_bytes,
    ] {
        *limit = u64::MAX;
    }
    for bytes in [0, 20, 400] {
        let parts: Vec<Vec<u8>> =
            (0..2_000).map(|number| format!("{number:0bytes$}").into_bytes()).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        check_asks(&strings(kind::SET, 2_000, &parts), &rules);
        check_asks(&strings(kind::HASH, 1_000, &parts), &rules);
        let mut value = strings(kind::SORTED_SET, 2_000, &[]);
        for part in parts {
            writer::Writer::new(Version::NEWEST, &mut value).text(part);
            value.extend_from_slice(&(1.0 / part.len() as f64).to_le_bytes());
        }
        check_asks(&value, &rules);
    }
}

/// Returns rules of any kind.
fn draw_rules(random: &mut Prng) -> Rules {
    let mut rules = rules();
    rules.limits.list = ListLimit(random.pick(&[1, 7, 0, -1, -2, -5]));
    for limit in [
        &mut rules.limits.hash_entries,
        &mut rules.limits.hash_value_bytes,
        &mut rules.limits.set_integers,
        &mut rules.limits.set_entries,
        &mut rules.limits.sorted_set_entries,
        &mut rules.limits.sorted_set_value_bytes,
    ] {
        *limit = random.pick(&[*limit, 0, 50, u64::MAX]);
    }
    rules
}

/// Returns a value that is a collection, also one of those that only older versions write.
fn draw_value(random: &mut Prng) -> Vec<u8> {
    if !random.one_in(3) {
        let payload = payload(Stored::Collection(draw(random).view()));
        return open(&payload).unwrap().to_vec();
    }
    let parts: Vec<Vec<u8>> = (0..=2 * random.below(300)).map(|_| part(random)).collect();
    let entry =
        |part: &Vec<u8>| [&[0x40 | (part.len() >> 8) as u8, part.len() as u8], &**part].concat();
    let entries: Vec<Vec<u8>> = parts.iter().map(entry).collect();
    let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
    match random.below(4) {
        0 => block(kind::LIST_ZIPLIST, &ziplist(&entries)),
        1 => block(kind::HASH_ZIPLIST, &ziplist(&entries[1..])),
        2 => {
            let mut value = strings(kind::LIST_ZIPLISTS, entries.len().div_ceil(9), &[]);
            let mut writer = writer::Writer::new(Version::NEWEST, &mut value);
            entries.chunks(9).for_each(|chunk| writer.text(&ziplist(chunk)));
            value
        }
        _ => plain_nodes(parts.iter().map(|part| if part.is_empty() { b"-" } else { &part[..] })),
    }
}

/// What is asked for is a bound of what is taken at any time, and follows from the bytes.
#[test]
fn bytes_of_any_kind_are_a_value_or_an_error_and_ask_for_what_they_take() {
    let mut random = Prng::new(3);
    let (mut read_count, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let mut value = draw_value(&mut random);
        for _ in 0..random.below(4) {
            let at = random.below(value.len().min(60) as u64) as usize;
            match random.below(3) {
                0 => value[at] = random.next() as u8,
                1 => value[at] = value[at].wrapping_add(1),
                _ => value.truncate(1 + at),
            }
        }
        let rules = draw_rules(&mut random);
        let (result, asked) = decode_within(&value, &options(&rules), usize::MAX);
        match result {
            Ok(Value::String(_)) => {}
            Ok(Value::Collection(collection)) => {
                let again = payload(Stored::Collection(collection.view()));
                let again = self::collection(open(&again).unwrap()).unwrap();
                assert_eq!(parts(&collection), parts(&again));
                read_count += 1;
            }
            Err(_) => refused += 1,
        }
        // An LZF byte stands for 88 others at most, and each two of them for a part.
        assert!(asked <= 4096 + 88 * 80 * value.len() as u64, "{asked} {}", value.len());
    }
    assert!(read_count > 300 && refused > 300, "{read_count} {refused}");
}

#[test]
fn nothing_is_taken_where_there_is_no_room() {
    let (mut random, mut most) = (Prng::new(4), 0);
    for _ in 0..400 {
        let value = draw_value(&mut random);
        let rules = draw_rules(&mut random);
        let mut granted = 0;
        while let (Err(DecodeError::NoRoom(())), asked) =
            decode_within(&value, &options(&rules), granted)
        {
            assert!(asked > 0);
            granted += 1;
        }
        assert!(granted < 4, "{granted}");
        most = most.max(granted);
    }
    assert_eq!(most, 3, "what becomes compact, and what is unpacked, is asked for on its own");
    let rules = rules();
    // A length far beyond the bytes is refused before anybody is asked.
    for value in [
        &b"\x02\x80\xFF\xFF\xFF\xFF\x01a"[..],
        b"\x02\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01a",
        b"\x10\xC3\x01\x80\x7F\xFF\xFF\xFF\x00",
        b"\x00\xC3\x05\x80\x1F\xFF\xFF\xFF\x00a\xE0\xFF\x00",
        b"\x00\x80\x1F\xFF\xFF\xFFa",
    ] {
        let asked = decode(value, &options(&rules), &mut |bytes| Err(bytes));
        assert!(matches!(asked, Err(DecodeError::Malformed)), "{value:x?}");
    }
}

/// Returns a payload's value of `kind` with the first time `first` before `rest`.
fn timed(kind: u8, first: i64, rest: &[u8]) -> Vec<u8> {
    [&[kind][..], &first.to_le_bytes(), rest].concat()
}

/// Returns a listpack of `parts` as a value has it.
fn packed(parts: &[&str]) -> Vec<u8> {
    let mut pack = Listpack::new();
    parts.iter().for_each(|part| pack.push_back(part.as_bytes()));
    let mut out = Vec::new();
    writer::Writer::new(Version::NEWEST, &mut out).text(pack.bytes());
    out
}

#[test]
fn hashes_with_times_are_those_of_redis_to_the_byte() {
    let rules = rules();
    let mut hash = Hash::default();
    for (field, value, time) in [("a", "1", None), ("b", "2", Some(2000)), ("c", "3", Some(1000))] {
        hash.set(field.as_bytes(), value.as_bytes(), &rules);
        hash.set_time(field.as_bytes(), time.map(UnixMs), &rules);
    }
    let small = payload(Stored::Collection(CollectionView::Hash(hash.view())));
    let expected = timed(25, 1000, &packed(&["c", "3", "1000", "b", "2", "2000", "a", "1", "0"]));
    assert_eq!(open(&small).unwrap(), expected);
    assert_eq!(small[expected.len()..][..2], [12, 0], "the version");
    hash.set(b"long", &[b'x'; 100], &rules);
    hash.prepare([&[b'x'; 100][..]].into_iter(), &rules);
    let large = payload(Stored::Collection(CollectionView::Hash(hash.view())));
    // In the order of the table.
    let body = b"\x04\x00\x01a\xC0\x01\x43\xE9\x01b\xC0\x02\x01\x01c\xC0\x03\x00\x04long";
    let value = open(&large).unwrap();
    assert_eq!(value[..9 + body.len()], timed(24, 1000, body)[..], "{value:x?}");
    hash.set_time(b"b", None, &rules);
    hash.set_time(b"c", None, &rules);
    let plain = payload(Stored::Collection(CollectionView::Hash(hash.view())));
    assert_eq!(plain[0], kind::HASH);
    assert_eq!(plain[plain.len() - 10..][..2], [11, 0]);
}

#[test]
fn times_of_fields_are_read_and_impossible_ones_refused() {
    let shown = |value: &[u8]| {
        let parts = parts(&collection(value)?);
        Some(parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect())
    };
    let texts = |texts: &[&str]| Some(texts.iter().map(|text| text.to_string()).collect());
    let expected: Option<Vec<String>> = texts(&["a=1 until 7", "b=2"]);
    assert_eq!(shown(&timed(24, 5, b"\x02\x03\x01a\x011\x00\x01b\x012")), expected);
    // In any order, and whatever is said to be the first.
    for parts in [["a", "1", "7", "b", "2", "0"], ["b", "2", "0", "a", "1", "7"]] {
        assert_eq!(shown(&timed(25, 99, &packed(&parts))), expected);
    }
    assert_eq!(shown(&timed(24, -1, b"\x01\x00\x01a\x011")), texts(&["a=1"]));
    assert_eq!(shown(&timed(25, -1, &packed(&["a", "1", "0"]))), texts(&["a=1"]));
    // A time of 0 is none in either form.
    assert_eq!(shown(&timed(24, 0, b"\x01\x01\x01a\x011")), texts(&["a=1"]));
    assert_eq!(shown(&timed(24, -1, b"\x01\x02\x01a\x011")), texts(&["a=1"]));
    let last = FIELD_TIME_MS_MAX.to_string();
    assert!(shown(&timed(25, 0, &packed(&["a", "1", &last]))).is_some());
    assert!(shown(&timed(24, FIELD_TIME_MS_MAX, b"\x01\x01\x01a\x011")).is_some());
    let beyond = (FIELD_TIME_MS_MAX + 1).to_string();
    for parts in [
        &["a", "1", &beyond][..],
        &["a", "1", "-1"],
        &["a", "1", "soon"],
        &["a", "1"],
        &["a", "1", "7", "a", "2", "7"],
        &[],
    ] {
        assert_eq!(shown(&timed(25, 0, &packed(parts))), None, "{parts:?}");
    }
    for (first, rest) in [
        (FIELD_TIME_MS_MAX, &b"\x01\x02\x01a\x011"[..]),
        (i64::MAX, b"\x01\x02\x01a\x011"),
        (-2, b"\x01\x01\x01a\x011"),
        (0, b"\x01\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01a\x011"),
        (0, b"\x02\x01\x01a\x011\x01\x01a\x012"),
        (0, b"\x01\x01\x01a"),
        (0, b"\x00"),
    ] {
        assert_eq!(shown(&timed(24, first, rest)), None, "{first} {rest:x?}");
    }
}
