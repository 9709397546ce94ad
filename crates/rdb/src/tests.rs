//! Values to bytes and back, old forms, and bytes of any kind.

use base::SecretHasher;
use base::prng::Prng;
use collections::{
    Collection, CollectionEncoding, Direction, End, Hash, Limits, List, ListLimit, Listpack, Rules,
    Set, SortedSet,
};

use super::*;

fn rules() -> Rules {
    Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) }
}

fn forms(rules: &Rules) -> Forms<'_> {
    Forms { rules, encoding: None, string_bytes_max: 1 << 20 }
}

fn read<'a>(value: &'a [u8], forms: &Forms<'_>) -> Option<Value<'a>> {
    decode(value, forms, &mut |_| Ok::<(), ()>(())).ok()
}

/// Returns the collection of `value`, in the encoding that the rules give it.
fn collection(value: &[u8]) -> Option<Collection> {
    match read(value, &forms(&rules()))? {
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

/// Returns all parts as text, in an order of their own where the type has none.
fn text(collection: &Collection) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    match collection {
        Collection::List(list) => return list.iter().map(|one| one.to_vec()).collect(),
        Collection::Set(set) => set.for_each(|member| parts.push(member.to_vec())),
        Collection::Hash(hash) => hash.for_each(|field, value| {
            parts.push([field.to_vec(), b"=".to_vec(), value.to_vec()].concat());
        }),
        Collection::SortedSet(set) => {
            set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                parts.push([member.to_vec(), format!("={score:e}").into_bytes()].concat());
            });
            return parts;
        }
    }
    parts.sort();
    parts
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

/// Draws a collection of any type, by a history that may leave a large one with few parts.
fn draw(random: &mut Prng) -> Collection {
    let rules = rules();
    let most = [5, 100, 700][random.below(3) as usize];
    let count = 1 + random.below(most);
    let are_integers = random.one_in(4);
    let mut part = || match are_integers {
        true => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
        false => part(random),
    };
    let parts: Vec<Vec<u8>> = (0..count).map(|_| part()).collect();
    let kept = 1 + random.below(count) as usize;
    let scores = [0.0, -0.0, 1.5, 1e300, f64::INFINITY, -7.0, 0.1];
    match random.below(4) {
        0 => {
            let (mut list, limit) = (List::default(), ListLimit(-1 - random.below(2) as i32));
            for part in &parts {
                list.prepare([part.as_slice()].into_iter(), limit);
                list.push(End::Tail, part, limit);
            }
            list.remove_end(End::Head, parts.len() - kept, limit);
            Collection::List(list)
        }
        1 => {
            let mut set = Set::for_members(&parts[0], 1, &rules);
            for member in &parts {
                set.insert(member, &rules);
            }
            for member in &parts[kept..] {
                set.remove(member, &rules);
            }
            set.insert(&parts[0], &rules);
            Collection::Set(set)
        }
        2 => {
            let mut hash = Hash::default();
            for field in &parts {
                hash.prepare([field.as_slice()].into_iter(), &rules);
                hash.set(field, &parts[random.below(count) as usize], &rules);
            }
            for field in &parts[kept..] {
                hash.remove(field, &rules);
            }
            hash.set(&parts[0], b"value", &rules);
            Collection::Hash(hash)
        }
        _ => {
            let mut set = SortedSet::for_members(1, parts[0].len(), &rules);
            for member in &parts {
                set.insert(member, scores[random.below(7) as usize], &rules);
            }
            for member in &parts[kept..] {
                set.remove(member, &rules);
            }
            set.insert(&parts[0], 3.0, &rules);
            Collection::SortedSet(set)
        }
    }
}

#[test]
fn collections_come_back_as_they_were_stored() {
    let mut random = Prng::new(1);
    let rules = rules();
    let mut seen = Vec::new();
    for _ in 0..400 {
        let before = draw(&mut random);
        let encoding = before.encoding();
        let payload = payload(Stored::Collection(&before));
        let value = open(&payload).unwrap();
        let kept = Forms { encoding: Some(encoding), ..forms(&rules) };
        let Some(Value::Collection(after)) = read(value, &kept) else { panic!("{encoding:?}") };
        assert_eq!((text(&before), encoding), (text(&after), after.encoding()));
        let mut again = Vec::new();
        encode(Stored::Collection(&after), &mut again);
        assert_eq!(again, payload);
        // The rules may have it stored otherwise, but not as something else.
        let by_rules = collection(value).unwrap();
        assert_eq!(text(&before), text(&by_rules));
        seen.push((payload[0], encoding.name(), by_rules.encoding().name()));
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() >= 12, "{seen:?}");
}

#[test]
fn strings_come_back_and_lie_in_the_payload_where_they_can() {
    let (mut random, rules) = (Prng::new(2), rules());
    for _ in 0..1_000 {
        let before = part(&mut random);
        let payload = payload(Stored::String(&before));
        let Some(Value::String(after)) = read(open(&payload).unwrap(), &forms(&rules)) else {
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
        let mut writer = writer::Writer::new(&mut out);
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
    assert!(read(&strings(kind::SET, 1, &word), &forms(&rules)).is_some());
}

fn listpack(parts: &[&str]) -> Listpack {
    let mut pack = Listpack::new();
    parts.iter().for_each(|part| pack.push_back(part.as_bytes()));
    pack
}

fn block(kind: u8, block: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    writer::Writer::new(&mut out).text(block);
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
    let wrong = Forms { encoding: Some(CollectionEncoding::Skiplist), ..forms(&rules) };
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

/// Returns a ziplist of `entries`, each an encoding and content.
fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    let (mut before, mut last) = (0, 10);
    for entry in entries {
        last = 10 + body.len();
        let start = body.len();
        match before {
            0..254 => body.push(before as u8),
            _ => body.extend_from_slice(&[&[254][..], &(before as u32).to_le_bytes()].concat()),
        }
        body.extend_from_slice(entry);
        before = body.len() - start;
    }
    let total = (body.len() + 11) as u32;
    let count = entries.len() as u16;
    let mut out = [total.to_le_bytes(), (last as u32).to_le_bytes()].concat();
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&body);
    out.push(0xFF);
    out
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
    assert_eq!(text(&list), expected.map(|text| text.as_bytes().to_vec()));
    assert_eq!(list.encoding(), CollectionEncoding::Quicklist);
    let hash = collection(&block(kind::HASH_ZIPLIST, &ziplist(&entries[..8]))).unwrap();
    assert_eq!((hash.len(), hash.encoding()), (4, CollectionEncoding::Listpack));
    let scored = [b"\x01b".as_slice(), b"\x032.5", b"\x01a", b"\xF3"];
    let set = collection(&block(kind::SORTED_SET_ZIPLIST, &ziplist(&scored))).unwrap();
    assert_eq!(text(&set), [b"a=2e0".to_vec(), b"b=2.5e0".to_vec()]);
    let several = ziplist(&entries[..3]);
    let mut value = vec![kind::LIST_ZIPLISTS];
    let mut writer = writer::Writer::new(&mut value);
    writer.length(3);
    [&several, &ziplist(&[]), &several].iter().for_each(|block| writer.text(block));
    assert_eq!(collection(&value).map(|list| list.len()), Some(6));
    let map = b"\x02\x01a\x02\x01xy?\x01b\x00\x00\xFF";
    let hash = collection(&block(kind::HASH_ZIPMAP, map)).unwrap();
    assert_eq!(text(&hash), [b"a=xy".to_vec(), b"b=".to_vec()]);
    assert!(collection(&block(kind::HASH_ZIPMAP, b"\x02\x01a\x00\x00\x01a\x00\x00\xFF")).is_none());
    let long = [b"\x01\x01a\x41\x00".as_slice(), &[b'v'; 65], b"\xFF"].concat();
    let hash = collection(&block(kind::HASH_ZIPMAP, &long)).unwrap();
    assert_eq!(hash.encoding(), CollectionEncoding::HashTable);
}

#[test]
fn scores_in_text_and_sorted_sets_in_any_order_are_read() {
    let value = b"\x03\x03\x01a\x031.5\x01b\xFF\x01c\xFE";
    let set = collection(value).unwrap();
    assert_eq!(text(&set), [b"b=-inf".to_vec(), b"a=1.5e0".to_vec(), b"c=inf".to_vec()]);
    assert!(collection(b"\x03\x01\x01a\xFD").is_none(), "it is no number");
    assert!(collection(b"\x03\x02\x01a\x011\x01a\x012").is_none(), "it is there twice");
    assert!(collection(&[&b"\x05\x01\x01a"[..], &f64::NAN.to_le_bytes()].concat()).is_none());
}

#[test]
fn an_encoding_that_is_asked_for_is_had_whatever_the_rules_say() {
    let mut rules = rules();
    rules.limits.list = ListLimit(1);
    rules.limits.set_integers = 0;
    let of = |value: &[u8], encoding| {
        let forms = Forms { encoding: Some(encoding), ..forms(&rules) };
        match read(value, &forms)? {
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
    assert_eq!((text(&list), list.encoding().name()), (vec![b"alone".to_vec()], "quicklist"));
    assert!(collection(b"\x12\x01\x03\x05alone").is_none());
    assert!(collection(b"\x12\x01\x01\x00").is_none());
}

/// What is asked for is a bound of what is taken, and follows from the bytes.
#[test]
fn bytes_of_any_kind_are_a_value_or_an_error_and_ask_for_what_they_take() {
    let (mut random, rules) = (Prng::new(3), rules());
    let (mut read_count, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let payload = payload(Stored::Collection(&draw(&mut random)));
        let mut value = open(&payload).unwrap().to_vec();
        for _ in 0..random.below(4) {
            let at = random.below(value.len().min(60) as u64) as usize;
            match random.below(3) {
                0 => value[at] = random.next() as u8,
                1 => value[at] = value[at].wrapping_add(1),
                _ => value.truncate(1 + at),
            }
        }
        let mut asked = 0;
        let forms = forms(&rules);
        let mut ask = |bytes| {
            asked = bytes;
            Ok::<(), ()>(())
        };
        match decode(&value, &forms, &mut ask) {
            Ok(Value::String(_)) => {}
            Ok(Value::Collection(collection)) => {
                let bytes = collection.memory_bytes();
                assert!(bytes <= asked + 4096, "{bytes} of {asked}");
                let again = self::payload(Stored::Collection(&collection));
                let again = self::collection(open(&again).unwrap()).unwrap();
                assert_eq!(text(&collection), text(&again));
                read_count += 1;
            }
            Err(_) => refused += 1,
        }
        // An LZF byte stands for 88 others at most, and a part of two bytes takes 128.
        assert!(asked <= 300 * (value.len() as u64 + 1) * 5 / 4 + 4096, "{asked} {}", value.len());
    }
    assert!(read_count > 150 && refused > 150, "{read_count} {refused}");
}

#[test]
fn nothing_is_taken_where_there_is_no_room() {
    let (mut random, rules) = (Prng::new(4), rules());
    for _ in 0..200 {
        let payload = payload(Stored::Collection(&draw(&mut random)));
        let refused = decode(open(&payload).unwrap(), &forms(&rules), &mut |bytes| Err(bytes));
        assert!(matches!(refused, Err(DecodeError::NoRoom(1..))));
    }
    // A length far beyond the bytes is refused before anybody is asked.
    for value in [
        &b"\x02\x80\xFF\xFF\xFF\xFF\x01a"[..],
        b"\x02\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01a",
        b"\x10\xC3\x01\x80\x7F\xFF\xFF\xFF\x00",
        b"\x00\xC3\x05\x80\x1F\xFF\xFF\xFF\x00a\xE0\xFF\x00",
        b"\x00\x80\x1F\xFF\xFF\xFFa",
    ] {
        let asked = decode(value, &forms(&rules), &mut |bytes| Err(bytes));
        assert!(matches!(asked, Err(DecodeError::Malformed)), "{value:x?}");
    }
}
