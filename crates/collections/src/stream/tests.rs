//! Logs and groups against models of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use base::UnixMs;
use base::prng::Prng;

use super::*;
use crate::Collection;
use crate::compact_limits::Limits;
use crate::listpack::Listpack;
use crate::sorted_set::Direction;
use crate::walk::{Growth, KeptBytes, Walk, walk_parts};

type Parts = Vec<Vec<u8>>;

/// What a log holds, as plainly as it can be.
#[derive(Clone, Default)]
struct Model {
    entries: BTreeMap<StreamId, Parts>,
    last_id: StreamId,
}

fn limits(bytes: u64, entries: u64) -> Limits {
    Limits { stream_node_bytes: bytes, stream_node_entries: entries, ..Limits::default() }
}

fn parts(random: &mut Prng) -> Parts {
    let fields = match random.below(4) {
        0 => 1 + random.below(3),
        _ => 2,
    };
    let mut parts = Vec::new();
    for field in 0..fields {
        parts.push(format!("field{field}").into_bytes());
        parts.push(match random.below(3) {
            0 => random.below(1 << 40).to_string().into_bytes(),
            1 => Vec::new(),
            _ => vec![b'v'; random.below(200) as usize],
        });
    }
    parts
}

fn add(log: &mut Log, model: &mut Model, id: StreamId, parts: Parts, limits: &Limits) {
    let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    log.add(id, &slices, limits).unwrap();
    model.entries.insert(id, parts);
    model.last_id = id;
}

/// Returns the entries of a range; the fields of some are not read.
fn read(log: &Log, start: StreamId, end: StreamId, direction: Direction) -> Vec<(StreamId, Parts)> {
    let mut entries = log.entries(start, end, direction);
    let mut found = Vec::new();
    while let Some(id) = entries.advance() {
        let mut parts = Vec::new();
        let read = if id.sequence % 5 == 3 { entries.field_count() / 2 } else { usize::MAX };
        while parts.len() / 2 < read
            && let Some((field, value)) = entries.next_field()
        {
            parts.extend([field.to_vec(), value.to_vec()]);
        }
        found.push((id, parts));
    }
    assert_eq!(entries.advance(), None);
    found
}

fn check_range(log: &Log, model: &Model, start: StreamId, end: StreamId) {
    let mut expected: Vec<(StreamId, Parts)> = match start <= end {
        true => model.entries.range(start..=end).map(|(id, parts)| (*id, parts.clone())).collect(),
        false => Vec::new(),
    };
    for (id, parts) in &mut expected {
        if id.sequence % 5 == 3 {
            parts.truncate(parts.len() / 4 * 2);
        }
    }
    assert_eq!(read(log, start, end, Direction::Up), expected);
    expected.reverse();
    assert_eq!(read(log, start, end, Direction::Down), expected);
}

fn check(log: &Log, model: &Model) {
    check_range(log, model, StreamId::MIN, StreamId::MAX);
    assert_eq!((log.len(), log.last_id()), (model.entries.len() as u64, model.last_id));
    let first = model.entries.keys().next().copied().unwrap_or_default();
    assert_eq!(log.counters().first_id, first);
    assert_eq!(log.last_entry(), model.entries.keys().next_back().copied());
    assert!(log.clone().memory_bytes() <= log.memory_bytes());
    // Its nodes are what is written and read as bytes.
    let mut copy = Log::default();
    for (key, pack) in log.nodes() {
        let pack = Listpack::from_bytes(pack.bytes().to_vec()).unwrap();
        copy.add_foreign_node(key, pack).unwrap();
    }
    copy.complete(log.last_id(), Some(log.counters())).unwrap();
    assert_eq!((copy.counters(), copy.len()), (log.counters(), log.len()));
    let bytes = |log: &Log| log.nodes().map(|(_, pack)| pack.bytes().len()).sum::<usize>();
    assert_eq!(bytes(&copy), bytes(log));
}

fn any_id(model: &Model, random: &mut Prng) -> StreamId {
    let near = random.below(model.last_id.ms + 3);
    match random.below(3) {
        0 => StreamId::new(near, random.below(4)),
        1 => StreamId::new(near, 0),
        _ => {
            let id = model.entries.range(StreamId::new(near, 0)..).next();
            id.map_or(StreamId::MAX, |(id, _)| *id)
        }
    }
}

/// Trims `log` and `model` exactly alike.
fn trim(log: &mut Log, model: &mut Model, random: &mut Prng) {
    let length = model.entries.len() as u64;
    let trim = match random.below(2) {
        0 => Trim::ToLength(length.saturating_sub(random.below(length / 4 + 3))),
        _ => Trim::Before(StreamId::new(model.last_id.ms / 8, random.below(3))),
    };
    let is_approximate = random.one_in(2);
    let limit = if is_approximate { random.below(40) } else { 0 };
    let mut gone = Vec::new();
    let removed =
        log.trim(trim, TrimBounds { is_approximate, limit }, Some(&mut |id| gone.push(id)));
    let wanted = match trim {
        Trim::ToLength(left) => length - left.min(length),
        Trim::Before(id) => model.entries.range(..id).count() as u64,
    };
    let is_bound = is_approximate && (removed < wanted && (limit == 0 || removed <= limit));
    assert!(removed == wanted || is_bound, "{removed} of {wanted}, {trim:?}");
    let first = (0..removed).map(|_| model.entries.pop_first().unwrap().0);
    assert_eq!(gone, first.collect::<Vec<_>>());
}

#[test]
fn a_log_is_like_a_model() {
    for seed in 0..if cfg!(miri) { 2 } else { 30 } {
        let mut random = Prng::new(seed);
        let limits = limits([4096, 300, 0][seed as usize % 3], [100, 7, 1][seed as usize / 3 % 3]);
        let (mut log, mut model) = (Log::default(), Model::default());
        for step in 0..if cfg!(miri) { 60 } else { 1500 } {
            let last = model.last_id;
            match random.below(20) {
                0..11 => {
                    let id = match random.one_in(3) {
                        true => last.next().unwrap(),
                        false => StreamId::new(last.ms + 1 + random.below(3), random.below(3)),
                    };
                    let parts = parts(&mut random);
                    add(&mut log, &mut model, id, parts, &limits);
                }
                11..18 => {
                    let id = any_id(&model, &mut random);
                    assert_eq!(log.contains(id), model.entries.contains_key(&id));
                    assert_eq!(log.remove(id), model.entries.remove(&id).is_some());
                }
                18 => trim(&mut log, &mut model, &mut random),
                _ => {
                    let (start, end) = (any_id(&model, &mut random), any_id(&model, &mut random));
                    check_range(&log, &model, start, end);
                }
            }
            if step % 50 == 0 {
                check(&log, &model);
            }
        }
        check(&log, &model);
        for id in model.entries.keys().copied().collect::<Vec<_>>() {
            assert!(log.remove(id));
        }
        assert_eq!((log.node_count(), log.memory_bytes()), (0, 0));
    }
}

fn filled(count: u64) -> Log {
    let mut log = Log::default();
    for ms in 1..=count {
        log.add(StreamId::new(ms, 0), &[b"f", b"v"], &Limits::default()).unwrap();
    }
    log
}

#[test]
fn nodes_are_those_of_redis() {
    let mut log = Log::default();
    let add = |log: &mut Log, ms, parts: &[&[u8]]| {
        log.add(StreamId::new(ms, 0), parts, &Limits::default()).unwrap();
    };
    add(&mut log, 5, &[b"a", b"1"]);
    add(&mut log, 7, &[b"a", b"x"]);
    add(&mut log, 7 + 1, &[b"b", b"2"]);
    log.remove(StreamId::new(7, 0));
    let (key, pack) = log.nodes().next().unwrap();
    assert_eq!(key, StreamId::new(5, 0));
    let elements: Vec<Vec<u8>> = pack.iter().map(|element| element.to_vec()).collect();
    let text = String::from_utf8(elements.join(&b' ')).unwrap();
    assert_eq!(text, "2 1 1 a 0 2 0 0 1 4 3 2 0 x 4 0 3 0 1 b 2 6");
}

#[test]
fn full_nodes_stay_within_both_bounds() {
    let mut log = Log::default();
    for ms in 1..=1000 {
        log.add(StreamId::new(ms, 0), &[b"f", &[b'v'; 20]], &limits(4096, 100)).unwrap();
    }
    assert_eq!(log.node_count(), 10);
    for ms in 1001..=2000 {
        log.add(StreamId::new(ms, 0), &[b"f", &[b'v'; 300]], &limits(4096, 100)).unwrap();
    }
    assert!(log.nodes().all(|(_, pack)| pack.bytes().len() < 4096 + 32));
}

#[test]
fn whatever_is_no_node_is_refused() {
    let log = filled(5);
    let (key, pack) = log.nodes().next().unwrap();
    let elements: Vec<Vec<u8>> = pack.iter().map(|element| element.to_vec()).collect();
    let node_of = |elements: &[Vec<u8>]| {
        let mut pack = Listpack::new();
        elements.iter().for_each(|element| pack.push_back(element));
        pack
    };
    assert!(Log::default().add_foreign_node(key, node_of(&elements)).is_some());
    for count in 0..elements.len() {
        assert!(Log::default().add_foreign_node(key, node_of(&elements[..count])).is_none());
        // The field and the values may be anything, and so may numbers of later times; the last
        // entry may be later.
        let is_free = count == 3 || count > 4 && count % 5 == 3 || count > 9 && count % 5 == 2;
        for other in [b"9".as_slice(), b"-1", b"x", b"9223372036854775807"] {
            let mut changed = elements.clone();
            changed[count] = other.to_vec();
            let taken = Log::default().add_foreign_node(key, node_of(&changed)).is_some();
            let is_later = count == elements.len() - 4 && other[0] == b'9';
            assert!(!taken || is_free || is_later, "{count} is {}", other.escape_ascii());
        }
    }
    let mut both = Log::default();
    both.add_foreign_node(key, node_of(&elements)).unwrap();
    assert!(both.add_foreign_node(StreamId::new(5, 0), node_of(&elements)).is_none());
}

#[test]
fn counts_are_known_where_nothing_is_missing() {
    let mut log = filled(10);
    let at = |ms| StreamId::new(ms, 0);
    assert_eq!(log.count_up_to(at(10)), Some(10));
    assert_eq!(log.count_up_to(at(1)), Some(1));
    assert_eq!((log.count_up_to(at(0)), log.count_up_to(at(5))), (Some(0), None));
    log.trim(Trim::ToLength(4), TrimBounds::EXACT, None);
    assert_eq!((log.count_up_to(at(3)), log.count_up_to(at(7))), (Some(6), Some(7)));
    log.remove(at(9));
    assert_eq!((log.count_up_to(at(3)), log.count_up_to(at(10))), (None, Some(10)));
    assert_eq!(log.counters().max_deleted_id, at(9));
}

#[test]
fn an_entry_may_come_before_one_that_was_deleted() {
    let mut log = filled(10);
    let at = |ms| StreamId::new(ms, 0);
    (6..=10).for_each(|ms| assert!(log.remove(at(ms))));
    log.set_last(at(7), None, Some(at(6)));
    log.set_last(at(6), None, None);
    log.add(at(7), &[b"f", b"v"], &Limits::default()).unwrap();
    log.add(at(8), &[b"f", b"v"], &Limits::default()).unwrap();
    let ids = read(&log, at(5), at(7), Direction::Up).into_iter().map(|(id, _)| id);
    assert!(ids.eq([at(5), at(7)]));
    assert!(log.contains(at(8)) && !log.contains(at(9)) && !log.contains(at(6)));
    let mut copy = Log::default();
    let (key, pack) = log.nodes().next().unwrap();
    copy.add_foreign_node(key, Listpack::from_bytes(pack.bytes().to_vec()).unwrap()).unwrap();
    assert_eq!(copy.len(), 7);
}

#[test]
fn a_node_without_entries_is_read_and_gives_way() {
    let mut log = filled(3);
    let at = |ms| StreamId::new(ms, 0);
    log.remove(at(3));
    // The node ends with an entry that stays, for all that trimming knows.
    assert_eq!(log.trim(Trim::Before(at(3)), TrimBounds::EXACT, None), 2);
    assert_eq!((log.len(), log.node_count()), (0, 1));
    let mut copy = Log::default();
    let (key, pack) = log.nodes().next().unwrap();
    copy.add_foreign_node(key, Listpack::from_bytes(pack.bytes().to_vec()).unwrap()).unwrap();
    copy.complete(at(3), Some(log.counters())).unwrap();
    assert_eq!((copy.len(), copy.counters()), (0, log.counters()));
    log.set_last(StreamId::new(0, 5), None, Some(StreamId::new(0, 1)));
    assert_eq!((log.node_count(), log.memory_bytes()), (0, 0));
    log.add(at(1), &[b"f", b"v"], &Limits::default()).unwrap();
    assert_eq!(log.last_entry(), Some(at(1)));
}

/// A group as plainly as it can be: who has what pending; nobody has what was released.
type Deliveries = BTreeMap<StreamId, (Vec<u8>, Pending)>;

fn check_group(stream: &Stream, model: &Deliveries) {
    let group = stream.group(b"g").unwrap();
    assert_eq!(group.pending_count(), model.len());
    let all = group.pending(StreamId::MIN);
    let name_of = |entry: Pending| {
        entry.consumer.map_or(Vec::new(), |index| group.consumer(index).name().to_vec())
    };
    assert_eq!(
        all.map(|(id, entry)| (id, (name_of(entry), entry))).collect::<Deliveries>(),
        *model
    );
    assert_eq!(group.released_count(), model.values().filter(|(name, _)| name.is_empty()).count());
    for (_, consumer) in group.consumers() {
        let own = model.iter().filter(|(_, (name, _))| name == consumer.name()).map(|(id, _)| *id);
        assert!(consumer.pending(StreamId::MIN).eq(own));
    }
    assert!(stream.clone().memory_bytes() <= stream.memory_bytes());
}

#[test]
fn entries_are_pending_with_one_consumer_whoever_comes_and_goes() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let mut random = Prng::new(seed);
        let mut stream = Stream::default();
        let empty_bytes = stream.memory_bytes();
        assert!(stream.add_group(b"g", Group::new(StreamId::MIN, None)));
        let mut model = Deliveries::new();
        for step in 0..if cfg!(miri) { 100 } else { 4000 } {
            let id = StreamId::new(random.below(500), 0);
            let name = format!("c{}", random.below(6)).into_bytes();
            let now = UnixMs(step);
            stream.change_group(b"g", |_, group| {
                let found = group.find_consumer(&name);
                match random.below(30) {
                    0 => {
                        let before = model.len();
                        model.retain(|_, (owner, _)| *owner != name);
                        let gone = found.map_or(0, |index| group.remove_consumer(index));
                        assert_eq!(gone, before - model.len());
                    }
                    1..12 => assert_eq!(group.acknowledge(id), model.remove(&id).is_some()),
                    number => {
                        let consumer = found.unwrap_or_else(|| group.add_consumer(&name, now));
                        let delivery_count = random.below(9);
                        let (consumer, name) = match number {
                            12..15 => (None, Vec::new()),
                            _ => (Some(consumer), name),
                        };
                        let entry = Pending { consumer, delivered_at: now, delivery_count };
                        group.set_pending(id, entry);
                        model.insert(id, (name, entry));
                        if let Some(consumer) = consumer {
                            group.note_seen(consumer, now, true);
                        }
                    }
                }
            });
            if step % 100 == 0 {
                check_group(&stream, &model);
            }
        }
        check_group(&stream, &model);
        stream.change_group(b"g", |_, group| {
            let all: Vec<ConsumerIndex> = group.consumers().map(|(index, _)| index).collect();
            let gone = all.into_iter().map(|index| group.remove_consumer(index));
            assert!(gone.sum::<usize>() > 0);
            let released: Vec<StreamId> = group.pending(StreamId::MIN).map(|(id, _)| id).collect();
            assert!(released.len() == group.released_count());
            assert!(released.into_iter().all(|id| group.acknowledge(id)));
            assert_eq!(group.released_count(), 0);
            assert_eq!((group.pending_count(), group.memory_bytes()), (0, 0));
        });
        assert!(stream.remove_group(b"g") && !stream.remove_group(b"g"));
        assert_eq!(stream.memory_bytes(), empty_bytes);
    }
}

/// Gives all `ids` to the consumer called `name` and checks that no more memory is taken than
/// `bound` allows.
fn check_growth(group: &mut Group, ids: &[u64], name: &[u8], bound: fn(&Group, u64) -> u64) {
    let now = UnixMs(1);
    let consumer = group.find_consumer(name).unwrap_or_else(|| group.add_consumer(name, now));
    let most = group.memory_bytes() + bound(group, ids.len() as u64);
    for id in ids {
        let pending = Pending { consumer: Some(consumer), delivered_at: now, delivery_count: 1 };
        group.set_pending(StreamId::new(*id, 0), pending);
    }
    assert!(group.memory_bytes() <= most, "{} of {most} bytes", group.memory_bytes());
}

#[test]
fn what_becomes_pending_in_any_order_takes_what_was_asked_for() {
    let anywhere: fn(&Group, u64) -> u64 = |_, count| Group::pending_growth_bound(count);
    let claimed: fn(&Group, u64) -> u64 = |_, count| Group::claim_growth_bound(count);
    let count = if cfg!(miri) { 300 } else { 5_000 };
    let up: Vec<u64> = (0..count).map(|number| 10 * number).collect();
    let down: Vec<u64> = up.iter().rev().copied().collect();
    let ends = |number| if number % 2 == 0 { number / 2 } else { count - 1 - number / 2 };
    let by_turns: Vec<u64> = (0..count).map(|number| 10 * ends(number)).collect();
    let mut random = Prng::new(1);
    let mut scattered = up.clone();
    scattered.sort_by_cached_key(|_| random.next());
    let behind_full_pieces: Vec<u64> = up.iter().skip(63).step_by(64).map(|id| id + 1).collect();
    let within_pieces: Vec<u64> = up.iter().skip(20).step_by(64).map(|id| id + 1).collect();
    let before_pieces: Vec<u64> = up.iter().skip(64).step_by(64).map(|id| id - 1).collect();
    for ids in [&up, &down, &by_turns, &scattered] {
        for more in [&behind_full_pieces, &within_pieces, &before_pieces] {
            let mut group = Group::new(StreamId::MIN, None);
            check_growth(&mut group, ids, b"a", anywhere);
            // A copy has no spare room.
            for mut group in [group.clone(), group] {
                check_growth(&mut group, more, b"a", anywhere);
                check_growth(&mut group, &up, b"b", claimed);
                check_growth(&mut group, &down, b"c", claimed);
                check_growth(&mut group.clone(), more, b"b", claimed);
            }
        }
    }
    // Behind 64, each further one from the last to the first.
    let (first, rest) = up.split_at(64);
    let mut group = Group::new(StreamId::MIN, None);
    check_growth(&mut group, first, b"a", anywhere);
    check_growth(&mut group, &rest.iter().rev().copied().collect::<Vec<_>>(), b"a", anywhere);
    let bytes = group.memory_bytes() / count;
    assert!(bytes < 100, "{bytes} bytes for each entry");
}

#[test]
fn what_is_read_in_order_takes_what_was_asked_for() {
    for count in [1, 2, 5, 33, 64, 65, 1000] {
        let mut group = Group::new(StreamId::MIN, None);
        for round in 0..5 {
            let ids: Vec<u64> = (1 + round * count..=(round + 1) * count).collect();
            check_growth(&mut group, &ids, b"a", Group::delivery_growth_bound);
            group.move_to(StreamId::new((round + 1) * count, 0));
            assert_eq!(group.delivery_growth_bound(0), 0);
        }
        // Some of what is to be read is pending already.
        group.set_position(StreamId::new(10, 0), None);
        let ids: Vec<u64> = (0..count).map(|number| 11 + 7 * number).collect();
        check_growth(&mut group, &ids, b"b", Group::delivery_growth_bound);
    }
}

#[test]
fn counters_stay_within_what_a_signed_number_says() {
    const MOST: u64 = i64::MAX as u64;
    let mut log = filled(3);
    log.set_last(log.last_id(), Some(MOST), None);
    log.add(StreamId::new(20, 0), &[b"f", b"v"], &Limits::default()).unwrap();
    assert_eq!(log.counters().entries_added, MOST);
    let mut group = Group::new(StreamId::MIN, Some(MOST));
    group.note_read(&log, StreamId::new(1, 0));
    assert_eq!(group.entries_read(), Some(MOST));
    for (entries_added, is_possible) in [(2, false), (3, true), (MOST, true), (MOST + 1, false)] {
        let log = filled(3);
        let mut copy = Log::default();
        for (key, pack) in log.nodes() {
            copy.add_foreign_node(key, Listpack::from_bytes(pack.bytes().to_vec()).unwrap());
        }
        let counters = LogCounters { entries_added, ..log.counters() };
        let completed = copy.complete(log.last_id(), Some(counters));
        assert_eq!(completed.is_some(), is_possible, "{entries_added}");
    }
}

#[test]
fn what_was_read_is_counted_as_long_as_it_can_be_told() {
    let mut log = filled(10);
    let at = |ms| StreamId::new(ms, 0);
    let mut group = Group::new(StreamId::MIN, Some(0));
    assert_eq!(group.lag(&log), Some(10));
    (1..=4).for_each(|ms| group.note_read(&log, at(ms)));
    assert_eq!((group.entries_read(), group.lag(&log)), (Some(4), Some(6)));
    group.note_read(&log, at(4));
    assert_eq!(group.entries_read(), Some(4));
    log.remove(at(7));
    assert_eq!(group.lag(&log), None);
    (5..=10).for_each(|ms| group.note_read(&log, at(ms)));
    assert_eq!((group.entries_read(), group.lag(&log)), (Some(10), Some(0)));
    assert_eq!(Group::new(at(5), None).lag(&log), None);
    assert_eq!(Group::new(at(5), None).lag(&Log::default()), Some(0));
}

#[test]
fn a_million_entries_take_what_their_bytes_do() {
    let mut log = Log::default();
    let count = if cfg!(miri) { 200 } else { 200_000 };
    for number in 0..count {
        let text = number.to_string();
        let parts: [&[u8]; 6] = [b"id", text.as_bytes(), b"kind", b"click", b"place", b"oslo"];
        log.add(StreamId::new(1_700_000_000_000 + number, 0), &parts, &Limits::default()).unwrap();
    }
    let bytes: usize = log.nodes().map(|(_, pack)| pack.bytes().len()).sum();
    assert!(log.memory_bytes() < bytes as u64 * 103 / 100 + 4096);
}

/// Returns a stream of the entries 1 to 40, a group that has read 25 of them and one that has read
/// all, each with some pending.
fn stream_with_references(random: &mut Prng) -> Stream {
    let mut stream = Stream::default();
    let limits = limits(0, 1 + random.below(9));
    for ms in 1..=40 {
        stream.log_mut().add(StreamId::new(ms, 0), &[b"f", b"v"], &limits).unwrap();
    }
    for (name, last) in [(b"g", 25), (b"h", 40)] {
        stream.add_group(name, Group::new(StreamId::new(last, 0), None));
        stream.change_group(name, |_, group| {
            let consumer = Some(group.add_consumer(b"c", UnixMs(0)));
            let pending = Pending { consumer, delivered_at: UnixMs(0), delivery_count: 1 };
            for ms in (1..=last).filter(|_| random.one_in(4)) {
                group.set_pending(StreamId::new(ms, 0), pending);
            }
        });
    }
    stream
}

fn ids(stream: &Stream) -> Vec<u64> {
    let entries = stream.log();
    read(entries, StreamId::MIN, StreamId::MAX, Direction::Up).iter().map(|(id, _)| id.ms).collect()
}

fn pending_ids(stream: &Stream) -> Vec<(Vec<u8>, u64)> {
    let of_group = |(name, group): (&[u8], &Group)| {
        group.pending(StreamId::MIN).map(|(id, _)| (name.to_vec(), id.ms)).collect::<Vec<_>>()
    };
    stream.groups().flat_map(of_group).collect()
}

#[test]
fn entries_go_as_the_references_to_them_allow() {
    for seed in 0..if cfg!(miri) { 2 } else { 300 } {
        let mut random = Prng::new(seed);
        let stream = stream_with_references(&mut random);
        let pending = pending_ids(&stream);
        let is_held = |ms: u64| ms > 25 || pending.iter().any(|(_, id)| *id == ms);
        let all: Vec<u64> = (1..=40).collect();
        let (trim, wanted) = match random.below(2) {
            0 => (Trim::ToLength(random.below(45)), None),
            _ => {
                let ms = 1 + random.below(45);
                (Trim::Before(StreamId::new(ms, 0)), Some(ms))
            }
        };
        let goes = |free: &[u64]| -> Vec<u64> {
            let excess = match trim {
                Trim::ToLength(length) => 40_usize.saturating_sub(length as usize),
                Trim::Before(_) => usize::MAX,
            };
            let before = free.iter().filter(|ms| wanted.is_none_or(|end| **ms < end));
            before.take(excess).copied().collect()
        };
        let without =
            |gone: &[u64]| all.iter().copied().filter(|ms| !gone.contains(ms)).collect::<Vec<_>>();

        let mut copy = stream.clone();
        let looks_max = if random.one_in(2) { u64::MAX } else { random.below(30) };
        let seen: Vec<u64> =
            all.iter().copied().filter(|ms| *ms <= looks_max && !is_held(*ms)).collect();
        let (expected, mut others) = (goes(&seen), Vec::new());
        let first = copy.trim_acknowledged(trim, looks_max, &mut |id| others.push(id.ms));
        assert_eq!(ids(&copy), without(&expected), "{seed}");
        let (head, tail) = expected.split_at(first as usize);
        assert!(head.iter().copied().eq(1..=first) && tail == others, "{seed}");
        assert_eq!(pending_ids(&copy), pending);

        let (mut copy, expected) = (stream.clone(), goes(&all));
        let mut ended = Vec::new();
        let mut note = |name: &[u8], id: StreamId| ended.push((name.to_vec(), id.ms));
        assert_eq!(
            copy.trim_with_pending(trim, TrimBounds::EXACT, &mut note),
            expected.len() as u64
        );
        assert_eq!(ids(&copy), without(&expected));
        ended.sort();
        let (gone, stays): (Vec<_>, Vec<_>) =
            pending.iter().cloned().partition(|(_, ms)| expected.contains(ms));
        assert_eq!((ended, pending_ids(&copy)), (gone, stays));
        assert!(copy.clone().memory_bytes() <= copy.memory_bytes());
    }
}

#[test]
fn one_entry_goes_as_the_references_to_it_allow() {
    let at = |ms| StreamId::new(ms, 0);
    let mut stream = stream_with_references(&mut Prng::new(1));
    let held = pending_ids(&stream)[0].1;
    let pending = pending_ids(&stream);
    let is_free = |ms: &u64| !pending.iter().any(|(_, id)| id == ms);
    let free = (1..=25).find(is_free).unwrap();
    let mut ended = Vec::new();
    let mut remove = |ms, references| {
        stream.remove_entry(at(ms), references, &mut |name, _| ended.push(name.to_vec()))
    };
    use References::{Acknowledged, Delete, Keep};
    assert_eq!(remove(held, Acknowledged), Removal::Referenced);
    assert_eq!(remove(30, Acknowledged), Removal::Referenced);
    assert_eq!(remove(free, Acknowledged), Removal::Removed);
    assert_eq!(remove(free, Acknowledged), Removal::Absent);
    assert_eq!(remove(held, Keep), Removal::Removed);
    assert_eq!(remove(held, Acknowledged), Removal::Absent);
    // What is pending of an absent entry ends too.
    assert_eq!(remove(held, Delete), Removal::Absent);
    assert!(!ended.is_empty() && pending_ids(&stream).iter().all(|(_, ms)| *ms != held));
}

/// The names of consumers are among these. What is with nobody counts as that of one without name.
const CONSUMERS: [&[u8]; 6] = [b"", b"a", b"b", b"bb", b"c", b"zoe"];

/// A group, as a walk gives it.
#[derive(Debug, Default, PartialEq)]
struct WalkedGroup {
    last_id: StreamId,
    entries_read: Option<u64>,
    pending: Vec<(StreamId, UnixMs, u64)>,
    consumers: Vec<WalkedConsumer>,
}

#[derive(Debug, PartialEq)]
struct WalkedConsumer {
    name: Vec<u8>,
    times: (UnixMs, Option<UnixMs>),
    pending: BTreeSet<StreamId>,
}

#[derive(Debug, Default, PartialEq)]
struct WalkedStream {
    nodes: Vec<(StreamId, Vec<u8>)>,
    counters: LogCounters,
    length: u64,
    groups: Vec<(Vec<u8>, WalkedGroup)>,
}

impl WalkedStream {
    /// Returns what a walk through `stream` is to give.
    fn of(stream: &Stream) -> WalkedStream {
        let nodes = stream.log().nodes().map(|(key, pack)| (key, pack.bytes().to_vec())).collect();
        let groups = stream.groups().map(|(name, group)| (name.to_vec(), WalkedGroup::of(group)));
        WalkedStream {
            nodes,
            counters: stream.log().counters(),
            length: stream.log().len(),
            groups: groups.collect(),
        }
    }

    /// Adds `parts`, and checks that as many of each come as were said to.
    fn add(&mut self, parts: &[u8], announced: &mut [u64; 4]) {
        for part in walk_parts(parts) {
            let group = self.groups.last_mut().map(|(_, group)| group);
            match StreamPart::of(part) {
                StreamPart::Node { key, pack } => self.nodes.push((key, pack.to_vec())),
                StreamPart::Counters { length, counters, group_count } => {
                    (self.length, self.counters, announced[0]) = (length, counters, group_count);
                }
                StreamPart::Group { name, last_id, entries_read, pending_count } => {
                    assert_eq!(announced[1..], [0; 3], "the group before it is whole");
                    announced[0] -= 1;
                    announced[1] = pending_count;
                    let group = WalkedGroup { last_id, entries_read, ..WalkedGroup::default() };
                    self.groups.push((name.to_vec(), group));
                }
                StreamPart::Pending { id, delivered_at, delivery_count } => {
                    announced[1] -= 1;
                    group.unwrap().pending.push((id, delivered_at, delivery_count));
                }
                StreamPart::Consumers(count) => {
                    assert_eq!(announced[1..], [0; 3], "all that is pending comes before");
                    announced[2] = count;
                }
                StreamPart::Consumer { name, seen_at, active_at, pending_count } => {
                    assert_eq!(announced[3], 0, "the consumer before it is whole");
                    announced[2] -= 1;
                    announced[3] = pending_count;
                    let (name, times, pending) =
                        (name.to_vec(), (seen_at, active_at), BTreeSet::new());
                    group.unwrap().consumers.push(WalkedConsumer { name, times, pending });
                }
                StreamPart::Owned(id) => {
                    announced[3] -= 1;
                    let consumer = group.unwrap().consumers.last_mut().unwrap();
                    assert!(consumer.pending.insert(id), "{id:?} comes once");
                }
            }
        }
    }
}

impl WalkedGroup {
    fn of(group: &Group) -> WalkedGroup {
        let pending = group.pending(StreamId::MIN);
        let released = pending.filter(|(_, pending)| pending.consumer.is_none());
        let released: BTreeSet<StreamId> = released.map(|(id, _)| id).collect();
        let consumers = group.consumers().map(|(_, consumer)| WalkedConsumer {
            name: consumer.name().to_vec(),
            times: (consumer.seen_at, consumer.active_at),
            pending: consumer.pending(StreamId::MIN).collect(),
        });
        let mut consumers: Vec<WalkedConsumer> = consumers.collect();
        if !released.is_empty() {
            if consumers.first().is_none_or(|first| !first.name.is_empty()) {
                let (name, times, pending) = (Vec::new(), (UnixMs(0), None), BTreeSet::new());
                consumers.insert(0, WalkedConsumer { name, times, pending });
            }
            consumers[0].pending.extend(released);
        }
        let pending = group.pending(StreamId::MIN);
        let pending = pending.map(|(id, it)| (id, it.delivered_at, it.delivery_count)).collect();
        let (last_id, entries_read) = (group.last_id(), group.entries_read());
        WalkedGroup { last_id, entries_read, pending, consumers }
    }
}

/// Makes a change of the groups of `stream`, or of what is pending in them, that is drawn from
/// `random`.
fn change_groups(stream: &mut Stream, random: &mut Prng) {
    let name = random.pick(&[&b"g"[..], b"h", b"hh", b""]);
    let now = UnixMs(random.below(1 << 40) as i64);
    let id = StreamId::new(1 + random.below(300), 0);
    match random.below(60) {
        0 => _ = stream.remove_group(name),
        1 => _ = stream.add_group(name, Group::new(id, Some(random.below(9)))),
        2 => _ = stream.remove_entry(id, References::Delete, &mut |_, _| ()),
        3 => {
            let trim = Trim::Before(StreamId::new(random.below(60), 0));
            stream.trim_with_pending(trim, TrimBounds::EXACT, &mut |_, _| ());
        }
        4 => {
            let next = stream.log().last_id().next().unwrap();
            stream.log_mut().add(next, &[b"f", b"v"], &limits(0, 8)).unwrap();
        }
        _ => {
            _ = stream.change_group(name, |_, group| {
                let consumer = random.pick(&CONSUMERS);
                let found = group.find_consumer(consumer);
                // Many at once, so that the same ones change again and again, too.
                let ids = (0..1 + random.below(40)).map(|step| StreamId::new(id.ms + step, 0));
                match (random.below(20), found) {
                    (0, Some(index)) => _ = group.remove_consumer(index),
                    (1, _) => group.set_position(id, Some(random.below(99))),
                    (2, Some(index)) => group.note_seen(index, now, random.one_in(2)),
                    (3, Some(index)) => group.set_times(index, now, None),
                    (4..8, _) => ids.for_each(|id| _ = group.acknowledge(id)),
                    (number, found) => {
                        let index = found.unwrap_or_else(|| group.add_consumer(consumer, now));
                        let (consumer, delivery_count) = (Some(index), 1 + random.below(9));
                        let owner = consumer.filter(|_| number > 9);
                        let pending =
                            Pending { consumer: owner, delivered_at: now, delivery_count };
                        ids.for_each(|id| group.set_pending(id, pending));
                    }
                }
            })
        }
    }
}

/// Returns whether anything of `stream` keeps how it was.
fn is_walked(stream: &Stream) -> bool {
    stream.0.walk.0.is_some() || stream.groups().any(|(_, group)| group.is_walked())
}

/// Returns a walk through `collection` that is given up beyond `most` bytes, and by how many bytes
/// what is kept for it has grown.
fn begin_walk(collection: &mut Collection, most: u64) -> (Walk, Arc<Mutex<KeptBytes>>) {
    let told = Arc::new(Mutex::new(KeptBytes::default()));
    let teller = Arc::clone(&told);
    let walk = collection.begin_walk(Box::new(move |growth| {
        let mut told = teller.lock().unwrap();
        match growth {
            Growth::Copied(bytes) => told.copied += bytes,
            Growth::Left(bytes) => told.left += bytes,
        }
        told.copied + told.left <= most
    }));
    (walk, told)
}

#[test]
fn a_walk_gives_the_groups_of_its_begin_whatever_changes() {
    for seed in 0..if cfg!(miri) { 2 } else { 400 } {
        let mut random = Prng::new(seed);
        let mut stream = Stream::default();
        for ms in 1..100 {
            let id = StreamId::new(ms, 0);
            stream.log_mut().add(id, &[b"f", b"v"], &limits(0, 8)).unwrap();
        }
        (0..random.below(200)).for_each(|_| change_groups(&mut stream, &mut random));
        let expected = WalkedStream::of(&stream);
        let mut collection = Collection::Stream(stream);
        // Some are given up, and some end early.
        let most = if random.one_in(8) { random.below(9_000) } else { u64::MAX };
        let mut steps_left = if random.one_in(8) { 1 + random.below(30) } else { u64::MAX };
        let (mut walk, told) = begin_walk(&mut collection, most);
        let (mut walked, mut announced) = (WalkedStream::default(), [0; 4]);
        let mut released = KeptBytes::default();
        let rate = random.below(9);
        let is_whole = loop {
            let (pieces, mut looks, mut count) = (1 + random.below(3), 0, 0);
            let mut is_due = || {
                looks += 1;
                looks == pieces
            };
            let step = walk.step(Some(&mut collection), &mut is_due, &mut |parts| {
                count += walk_parts(&parts).count();
                walked.add(&parts, &mut announced);
            });
            assert!(count < 70 * pieces as usize, "{count} parts in one step");
            released.copied += step.released.copied;
            released.left += step.released.left;
            let (kept, told) = (walk.kept_bytes(), *told.lock().unwrap());
            assert_eq!(kept.copied + released.copied, told.copied, "seed {seed}");
            assert_eq!(kept.left + released.left, told.left, "seed {seed}");
            steps_left -= 1;
            assert!(!step.is_done || !step.freed.is_empty(), "names are left to the caller");
            if step.is_done || told.copied + told.left > most || steps_left == 0 {
                break step.is_done;
            }
            let Collection::Stream(stream) = &mut collection else { unreachable!() };
            (0..random.below(rate + 1)).for_each(|_| change_groups(stream, &mut random));
        };
        if is_whole {
            assert_eq!((walked, announced), (expected, [0; 4]), "seed {seed}");
            assert_eq!(walk.kept_bytes().left, 0);
        } else {
            drop(collection.end_walk());
        }
        let Collection::Stream(stream) = &collection else { unreachable!() };
        assert!(!is_walked(stream));
    }
}

#[test]
fn a_walk_that_begins_in_place_of_another_gives_what_is_there_then() {
    for seed in 0..if cfg!(miri) { 2 } else { 100 } {
        let mut random = Prng::new(seed);
        let mut stream = Stream::default();
        (0..200).for_each(|_| change_groups(&mut stream, &mut random));
        let mut collection = Collection::Stream(stream);
        let (mut former, _) = begin_walk(&mut collection, u64::MAX);
        for _ in 0..random.below(20) {
            former.step(Some(&mut collection), &mut || true, &mut |_| ());
            let Collection::Stream(stream) = &mut collection else { unreachable!() };
            change_groups(stream, &mut random);
        }
        let Collection::Stream(stream) = &collection else { unreachable!() };
        let expected = WalkedStream::of(stream);
        let (mut walk, _) = begin_walk(&mut collection, u64::MAX);
        let (mut walked, mut announced) = (WalkedStream::default(), [0; 4]);
        let give = &mut |parts: Vec<u8>| walked.add(&parts, &mut announced);
        assert!(walk.step(Some(&mut collection), &mut || false, give).is_done);
        assert_eq!(walked, expected, "seed {seed}");
    }
}
