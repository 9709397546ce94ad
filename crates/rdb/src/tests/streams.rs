//! Streams as bytes: those of Redis, each of their kinds, and what is none.

use base::UnixMs;
use collections::{Collection, Pending, Stream, StreamId};

use super::*;
use crate::file::EntryEncoder;

/// DUMP of redis-server 7.0.15, without its footer: four entries, of which one is deleted, group
/// `8`, which has read the last, and group `g` with `ada` and `bob`.
const OF_REDIS: &[u8] =
    b"\x13\x01\x10\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x01@SS\x00\
    \x00\x00\x1f\x00\x03\x01\x01\x01\x02\x01\x81a\x02\x81b\x02\x00\x01\x02\x01\x00\x01\
    \x00\x01\x01\x01\x83two\x04\x05\x01\x03\x01\x00\x01\x01\x01\x02\x01\x85three\x06\x05\
    \x01\x00\x01\x02\x01\xdf\xff\x02\x01\x01\x81c\x02\x03\x01\x06\x01\x02\x01\x03\x01\
    \xdf\xff\x02\x04\x01\x81x\x02\x05\x01\xff\x03\x08\x00\x05\x01\x05\x02\x04\x02\xc0\
    \x08\x08\x00\x03\x00\x00\x01g\x08\x00\x04\x03\x00\x00\x00\x00\x00\x00\x00\x05\x00\
    \x00\x00\x00\x00\x00\x00\x01\xe8\x03\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\
    \x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\xd0\x07\x00\x00\x00\x00\x00\x00\x01\x00\
    \x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\xb8\x0b\x00\x00\x00\x00\
    \x00\x00\x01\x02\x03ada\xfc\xcc\x80\x06\xa2\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\
    \x00\x05\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\
    \x00\x00\x00\x00\x00\x03bob\xfc\xcc\x80\x06\xa2\x01\x00\x00\x01\x00\x00\x00\x00\x00\
    \x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00";

fn stream(value: &[u8]) -> Option<Stream> {
    match collection(value)? {
        Collection::Stream(stream) => Some(stream),
        _ => None,
    }
}

fn written(stream: &Stream, version: u16) -> Vec<u8> {
    let (mut out, version) = (Vec::new(), Version::new(version).unwrap());
    let stored = Stored::Collection(collections::CollectionView::Stream(stream));
    encode_as(version, stored, &mut out);
    assert!(out.len() as u64 <= encoded_bytes_max_as(version, stored));
    out.truncate(out.len() - 10);
    out
}

#[test]
fn a_stream_is_written_as_redis_writes_it() {
    let stream = stream(OF_REDIS).unwrap();
    let counters = stream.log().counters();
    assert_eq!((stream.len(), counters.entries_added), (3, 4));
    assert_eq!(counters.first_id, StreamId::new(5, 1));
    assert_eq!(counters.max_deleted_id, StreamId::new(5, 2));
    assert_eq!(stream.group(b"8").unwrap().entries_read(), Some(3));
    let group = stream.group(b"g").unwrap();
    let ada = group.consumer(group.find_consumer(b"ada").unwrap());
    assert_eq!((ada.pending_count(), group.pending_count()), (2, 3));
    let entry = group.pending_entry(StreamId::new(5, 1)).unwrap();
    assert_eq!((entry.delivered_at, entry.delivery_count), (UnixMs(1000), 3));
    assert_eq!(written(&stream, 10), OF_REDIS);
}

#[test]
fn each_kind_of_stream_is_read_as_far_as_it_tells() {
    let mut whole = stream(OF_REDIS).unwrap();
    whole.change_group(b"g", |_, group| {
        let bob = group.find_consumer(b"bob").unwrap();
        group.set_times(bob, UnixMs(7), None);
    });
    let newest = stream(&written(&whole, 11)).unwrap();
    let times = |stream: &Stream| {
        let group = stream.group(b"g").unwrap();
        let bob = group.consumer(group.find_consumer(b"bob").unwrap());
        (bob.seen_at, bob.active_at)
    };
    assert_eq!(times(&newest), (UnixMs(7), None));
    assert_eq!(written(&newest, 11), written(&whole, 11));
    assert_eq!(times(&stream(&written(&whole, 10)).unwrap()), (UnixMs(7), Some(UnixMs(7))));
    let oldest = stream(&written(&whole, 9)).unwrap();
    let counters = oldest.log().counters();
    assert_eq!((counters.entries_added, counters.max_deleted_id), (3, StreamId::MIN));
    assert_eq!(oldest.group(b"g").unwrap().entries_read(), Some(3));
    assert_eq!(written(&oldest, 9), written(&whole, 9));
}

#[test]
fn released_entries_are_written_as_pending_with_a_consumer_without_a_name() {
    let mut whole = stream(OF_REDIS).unwrap();
    let released = |stream: &Stream| {
        let group = stream.group(b"g").unwrap();
        let ids = group.pending(StreamId::MIN).filter(|(_, it)| it.consumer.is_none());
        let ids: Vec<u64> = ids.map(|(id, _)| id.sequence).collect();
        (ids, group.find_consumer(b"").is_some(), group.pending_count())
    };
    let release = |stream: &mut Stream, sequences: &[u64]| {
        stream.change_group(b"g", |_, group| {
            for sequence in sequences {
                let ms = if *sequence == 1 { 5 } else { *sequence };
                let id = StreamId::new(ms, if ms == 5 { 1 } else { 0 });
                let pending = group.pending_entry(id).unwrap();
                let delivered_at = UnixMs(0);
                group.set_pending(id, Pending { consumer: None, delivered_at, ..pending });
            }
        });
    };
    release(&mut whole, &[1, 8]);
    for version in [9, 10, 11] {
        let copy = stream(&written(&whole, version)).unwrap();
        assert_eq!(released(&copy), (vec![1, 0], false, 3));
        assert_eq!(written(&copy, version), written(&whole, version));
    }
    // One who is called so, and has entries of its own, stays.
    whole.change_group(b"g", |_, group| {
        let named = group.add_consumer(b"", UnixMs(9));
        let (id, delivered_at) = (StreamId::new(7, 0), UnixMs(9));
        group.set_pending(id, Pending { consumer: Some(named), delivered_at, delivery_count: 1 });
    });
    let copy = stream(&written(&whole, 11)).unwrap();
    assert_eq!(released(&copy), (vec![1, 0], true, 3));
    assert_eq!(written(&copy, 11), written(&whole, 11));
}

#[test]
fn a_stream_is_written_in_pieces_as_it_is_at_once() {
    for seed in 0..200 {
        let mut random = Prng::new(seed);
        let parts: Vec<Vec<u8>> =
            (0..1 + random.below(300)).map(|it| it.to_string().into()).collect();
        let mut whole = samples::stream(&mut random, &parts, parts.len() / 2);
        whole.change_group(b"g", |_, group| {
            for (id, pending) in group.pending(StreamId::MIN).collect::<Vec<_>>() {
                if random.one_in(4) {
                    let delivered_at = UnixMs(0);
                    group.set_pending(id, Pending { consumer: None, delivered_at, ..pending });
                }
            }
        });
        for version in [9, 10, 11].map(|number| Version::new(number).unwrap()) {
            let mut encoder = EntryEncoder::new(version, random.one_in(2));
            let (mut at_once, mut in_pieces) = (Vec::new(), Vec::new());
            let mut collection = Collection::Stream(whole.clone());
            let stored = Stored::Collection(collection.view());
            encoder.put(b"key", None, stored, &mut at_once);
            let form = collection.view().walk_form().unwrap();
            encoder.begin_parts(b"key", None, form, &mut in_pieces);
            let mut walk = collection.begin_walk(Box::new(|_| true));
            let mut is_done = false;
            while !is_done {
                let step = walk.step(Some(&mut collection), &mut || true, &mut |parts| {
                    encoder.put_parts(form.0, &parts, &mut in_pieces);
                });
                is_done = step.is_done;
            }
            assert_eq!(in_pieces, at_once, "seed {seed}");
        }
    }
}

#[test]
fn a_stream_that_contradicts_itself_is_refused() {
    for length in 0..OF_REDIS.len() {
        assert!(stream(&OF_REDIS[..length]).is_none(), "{length} bytes");
    }
    let find = |bytes: &[u8]| OF_REDIS.windows(bytes.len()).position(|it| it == bytes).unwrap();
    let counters = find(b"\x03\x08\x00\x05\x01");
    let pending = find(b"\x08\x00\x04\x03") + 3;
    let ada = find(b"\x03ada");
    for (at, byte, why) in [
        (1, 0, "no node, three entries"),
        (18, 9, "a node of another identity than its first entry"),
        (counters, 4, "four entries, of which one is deleted"),
        (counters + 1, 7, "a last identity before that of an entry"),
        (counters + 7, 2, "three entries, of which two were ever added"),
        (pending, 2, "two pending entries, of which three are with consumers"),
        (pending + 1 + 15, 9, "another pending entry than a consumer has"),
        (ada + 1, b'b', "an order of names does not matter"),
        (ada + 13, 1, "one entry of a consumer that has two"),
        (ada + 13 + 16, 9, "an entry of a consumer that is not pending"),
    ] {
        let mut changed = OF_REDIS.to_vec();
        assert_ne!(changed[at], byte, "{why}");
        changed[at] = byte;
        assert_eq!(stream(&changed).is_some(), why.contains("order"), "{why}");
    }
    // Two consumers of one name.
    let mut twice = OF_REDIS.to_vec();
    twice[find(b"bob")..][..3].copy_from_slice(b"ada");
    assert!(stream(&twice).is_none());
}

#[test]
fn an_entry_of_a_consumer_takes_nothing_that_was_not_asked_for() {
    let at = OF_REDIS.windows(4).position(|it| it == b"\x03bob").unwrap() + 12;
    assert_eq!(OF_REDIS[at], 1);
    // As many as a length of two bytes can say.
    let many = [&OF_REDIS[..at], b"\x7f\xff", &[1; 16 * 0x3fff]].concat();
    for granted in 0..5 {
        let (read, _) = decode_within(&many, &options(&rules()), granted);
        assert!(read.is_err());
    }
}
