//! Collections that are drawn at random, what a collection holds laid flat, and a form of older
//! versions that nobody writes: for the tests of all who store, write or carry values.

use base::prng::Prng;
use base::{SecretHasher, UnixMs};
use collections::{
    Collection, CollectionView, Direction, End, Group, Hash, Limits, List, ListLimit, Log, Pending,
    Rules, Set, SortedSet, Stream, StreamId,
};

const SCORES: [f64; 7] = [0.0, -0.0, 1.5, 1e300, f64::INFINITY, -7.0, 0.1];

/// Returns the rules that hold unless an option says otherwise.
pub fn default_rules() -> Rules {
    Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) }
}

/// Returns a collection of some of `parts`, with a type and a history drawn from `random`: it may
/// be large and have few parts left.
///
/// # Panics
/// When there are no parts.
pub fn collection(random: &mut Prng, parts: &[Vec<u8>]) -> Collection {
    let rules = default_rules();
    let (first, count) = (&parts[0], parts.len() as u64);
    let kept = 1 + random.below(count) as usize;
    match random.below(5) {
        4 => Collection::Stream(stream(random, parts, kept)),
        0 => {
            let (mut list, limit) = (List::default(), ListLimit(-1 - random.below(2) as i32));
            for part in parts {
                list.prepare([part.as_slice()].into_iter(), limit);
                list.push(End::Tail, part, limit);
            }
            list.remove_end(End::Head, parts.len() - kept, limit);
            Collection::List(list)
        }
        1 => {
            let mut set = Set::for_members(first, 1, &rules);
            for member in parts {
                set.insert(member, &rules);
            }
            for member in &parts[kept..] {
                set.remove(member, &rules);
            }
            set.insert(first, &rules);
            Collection::Set(set)
        }
        2 => {
            let mut hash = Hash::default();
            for field in parts {
                let value = &parts[random.below(count) as usize];
                hash.prepare([field.as_slice(), value].into_iter(), &rules);
                hash.set(field, value, &rules);
            }
            for field in &parts[kept..] {
                hash.remove(field, &rules);
            }
            hash.set(first, b"value", &rules);
            if random.one_in(2) {
                give_times(&mut hash, parts, random);
            }
            Collection::Hash(hash)
        }
        _ => {
            let mut set = SortedSet::for_members(1, first.len(), &rules);
            for member in parts {
                set.insert(member, random.pick(&SCORES), &rules);
            }
            for member in &parts[kept..] {
                set.remove(member, &rules);
            }
            set.insert(first, 3.0, &rules);
            Collection::SortedSet(set)
        }
    }
}

/// Returns a stream of entries of some of `parts`, of which about `kept` are left, with groups that
/// have read some of them.
pub fn stream(random: &mut Prng, parts: &[Vec<u8>], kept: usize) -> Stream {
    let (mut stream, limits) = (Stream::default(), default_rules().limits);
    for (index, part) in (1..).zip(parts) {
        let fields = [b"field".as_slice(), part, part, b"value"];
        let fields = if random.one_in(4) { &fields[..] } else { &fields[..2] };
        let id = StreamId::new(index, random.below(3));
        stream.log_mut().add(id, fields, &limits).expect("parts are short");
    }
    for name in ["g", "8", "another group with a long name"] {
        if random.one_in(2) {
            let group = Group::new(StreamId::MIN, Some(0).filter(|_| random.one_in(2)));
            stream.add_group(name.as_bytes(), group);
            stream.change_group(name.as_bytes(), |log, group| deliver(random, log, group));
        }
    }
    for index in kept..parts.len() {
        let entry = stream.log().entries(StreamId::MIN, StreamId::MAX, Direction::Up).advance();
        let random_id = StreamId::new(index as u64, random.below(3));
        stream.log_mut().remove(if random.one_in(2) {
            random_id
        } else {
            entry.unwrap_or_default()
        });
    }
    stream
}

/// Has some consumers of `group` read some entries of `log`.
fn deliver(random: &mut Prng, log: &Log, group: &mut Group) {
    let names = ["alice", "bob", "17"];
    let consumers = names.map(|name| group.add_consumer(name.as_bytes(), UnixMs(5)));
    let mut entries = log.entries(StreamId::MIN, StreamId::MAX, Direction::Up);
    while let Some(id) = entries.advance().filter(|_| !random.one_in(50)) {
        group.note_read(log, id);
        let consumer = random.pick(&consumers);
        if !random.one_in(3) {
            let delivered_at = UnixMs(random.below(1 << 41) as i64);
            let delivery_count = 1 + random.below(3);
            let pending = Pending { consumer: Some(consumer), delivered_at, delivery_count };
            group.set_pending(id, pending);
            group.note_seen(consumer, delivered_at, random.one_in(2));
        }
    }
}

/// Makes some of the fields of `hash`, which are among `parts`, expire.
fn give_times(hash: &mut Hash, parts: &[Vec<u8>], random: &mut Prng) {
    let (rules, one_in) = (default_rules(), 1 + random.below(3));
    for field in parts {
        if hash.view().get(field, &rules).is_some() && random.one_in(one_in) {
            // From 1970 on, for some 70 years.
            let time = random.below(1 << 41) as i64;
            hash.set_time(field, Some(UnixMs(time)), &rules);
        }
    }
}

/// Returns the parts of `collection`, each a text: sorted where the type has no order.
pub fn parts(collection: &Collection) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    match collection.view() {
        CollectionView::List(list) => parts.extend(list.iter().map(|element| element.to_vec())),
        CollectionView::Set(set) => set.for_each(|member| parts.push(member.to_vec())),
        CollectionView::Hash(hash) => hash.for_each_timed(|field, value, time| {
            let time = time.map_or(String::new(), |time| format!(" until {}", time.0));
            parts.push([field.to_vec(), [value.to_vec(), time.into_bytes()].concat()].join(&b'='));
        }),
        CollectionView::SortedSet(set) => {
            set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                // The two zeroes are one score.
                let score = format!("{:e}", score + 0.0);
                parts.push([member.to_vec(), score.into_bytes()].join(&b'='));
            });
        }
        CollectionView::Stream(_) => {}
    }
    if let Collection::Stream(stream) = collection {
        return stream_parts(stream);
    }
    if matches!(collection, Collection::Set(_) | Collection::Hash(_)) {
        parts.sort();
    }
    parts
}

/// Returns what `stream` holds: its counters, its entries, and its groups, but for times and for
/// consumers that have nothing.
fn stream_parts(stream: &Stream) -> Vec<Vec<u8>> {
    let text = |id: StreamId| id.to_text().as_bytes().to_vec();
    let log = stream.log();
    let mut parts = vec![format!("{} {:?}", log.len(), log.counters()).into_bytes()];
    let mut entries = log.entries(StreamId::MIN, StreamId::MAX, Direction::Up);
    while let Some(id) = entries.advance() {
        parts.push(text(id));
        while let Some((field, value)) = entries.next_field() {
            parts.push([field.to_vec(), value.to_vec()].join(&b'='));
        }
    }
    for (name, group) in stream.groups() {
        parts.push(name.to_vec());
        parts.push(format!("{:?} {:?}", group.last_id(), group.entries_read()).into_bytes());
        for (id, pending) in group.pending(StreamId::MIN) {
            let name = pending.consumer.map_or(&b""[..], |index| group.consumer(index).name());
            let count = pending.delivery_count.to_string().into_bytes();
            parts.push([text(id), name.to_vec(), count].join(&b' '));
        }
    }
    parts
}

/// Returns a ziplist of `entries`, each an encoding and content.
pub fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
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
    // More are counted by who reads them.
    let count = u16::try_from(entries.len()).unwrap_or(u16::MAX);
    let mut out = [total.to_le_bytes(), (last as u32).to_le_bytes()].concat();
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&body);
    out.push(0xFF);
    out
}
