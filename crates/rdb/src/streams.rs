//! Streams: their listpacks as they are, what is known of all entries that ever were, and groups
//! with their consumers.
//!
//! ```text
//! count | (identity as a string of 16 bytes | listpack) ...
//! length | last | [first | greatest deleted | entries added]
//! count | (name | last | [entries read]
//!         count | (identity 16 | delivered at i64 | deliveries) ...
//!         count | (name | seen at i64 | [active at i64] | count | identity 16 ...) ...) ...
//! ```
//! What is in brackets is there from the second kind on, and the active time in the third.
//!
//! The format has no entries that are pending with nobody, as those are that were released. They
//! are written as pending with a consumer without a name, since 1970, from whom any consumer may
//! claim them; and read as what they were. What producers sent before is not written.
//!
//! Source: Redis 7.2, `rdbSaveObject` and `rdbLoadObject`.

use base::UnixMs;
use collections::{
    Collection, Consumer, ConsumerIndex, Group, Listpack, LogCounters, Pending, Stream, StreamId,
    StreamPart,
};

use crate::kind;
use crate::payload::Version;
use crate::reader::{Reader, Text};
use crate::writer::Writer;

/// What stands for a count that is not known.
const UNKNOWN: u64 = u64::MAX;
/// What stands for a time at which nothing was.
const NEVER: i64 = -1;

/// When a consumer was seen who is nobody, and when what was released was delivered.
const UNSEEN: UnixMs = UnixMs(0);

/// What a node takes beside its listpack, a group, and a consumer, beside their names.
const PART_BYTES: u64 = 512;
/// What an entry that is pending takes, where it is of its group and where it is of its consumer,
/// and while the stream is made.
const PENDING_BYTES: u64 = 160 + size_of::<Owner>() as u64;
/// What the first of several parts takes beside: room for more.
const ROOM_BYTES: u64 = 4096;

/// Returns the kind of `version`.
pub(crate) fn kind_in(version: Version) -> u8 {
    match () {
        () if version.has_active_times() => kind::STREAM_LISTPACKS_3,
        () if version.has_listpacks() => kind::STREAM_LISTPACKS_2,
        () => kind::STREAM_LISTPACKS,
    }
}

/// Writes `stream`.
pub(crate) fn put_stream(stream: &Stream, writer: &mut Writer<'_>) {
    let kind = kind_in(writer.version);
    let log = stream.log();
    writer.kind(kind);
    writer.length(log.node_count());
    for (key, pack) in log.nodes() {
        put_node(key, pack.bytes(), writer);
    }
    put_counters(log.len(), log.counters(), kind, writer);
    writer.length(stream.group_count());
    for (name, group) in stream.groups() {
        writer.text(name);
        put_group(group, kind, writer);
    }
}

/// Writes a part of a stream that a walk has given; the kind and the number of listpacks come
/// before the first.
pub(crate) fn put_part(part: StreamPart<'_>, writer: &mut Writer<'_>) {
    let kind = kind_in(writer.version);
    match part {
        StreamPart::Node { key, pack } => put_node(key, pack, writer),
        StreamPart::Counters { length, counters, group_count } => {
            put_counters(length, counters, kind, writer);
            writer.number(group_count);
        }
        StreamPart::Group { name, last_id, entries_read, pending_count } => {
            writer.text(name);
            put_position(last_id, entries_read, kind, writer);
            writer.number(pending_count);
        }
        StreamPart::Pending { id, delivered_at, delivery_count } => {
            put_pending(id, delivered_at, delivery_count, writer);
        }
        StreamPart::Consumers(count) => writer.number(count),
        StreamPart::Consumer { name, seen_at, active_at, pending_count } => {
            put_consumer_head(name, (seen_at, active_at), kind, writer);
            writer.number(pending_count);
        }
        StreamPart::Owned(id) => writer.out.extend_from_slice(&id.to_bytes()),
    }
}

fn put_node(key: StreamId, pack: &[u8], writer: &mut Writer<'_>) {
    writer.text(&key.to_bytes());
    writer.text(pack);
}

fn put_counters(length: u64, counters: LogCounters, kind: u8, writer: &mut Writer<'_>) {
    writer.number(length);
    put_id(counters.last_id, writer);
    if kind != kind::STREAM_LISTPACKS {
        put_id(counters.first_id, writer);
        put_id(counters.max_deleted_id, writer);
        writer.number(counters.entries_added);
    }
}

fn put_position(last_id: StreamId, entries_read: Option<u64>, kind: u8, writer: &mut Writer<'_>) {
    put_id(last_id, writer);
    if kind != kind::STREAM_LISTPACKS {
        writer.number(entries_read.unwrap_or(UNKNOWN));
    }
}

fn put_pending(id: StreamId, delivered_at: UnixMs, delivery_count: u64, writer: &mut Writer<'_>) {
    writer.out.extend_from_slice(&id.to_bytes());
    writer.out.extend_from_slice(&delivered_at.0.to_le_bytes());
    writer.number(delivery_count);
}

fn put_group(group: &Group, kind: u8, writer: &mut Writer<'_>) {
    put_position(group.last_id(), group.entries_read(), kind, writer);
    writer.length(group.pending_count());
    for (id, pending) in group.pending(StreamId::MIN) {
        put_pending(id, pending.delivered_at, pending.delivery_count, writer);
    }
    let mut consumers = group.consumers().map(|(_, consumer)| consumer).peekable();
    let mut count = group.consumer_count();
    // The shortest name comes first.
    let has_released = group.released_count() > 0;
    let nobody = consumers.next_if(|consumer| has_released && consumer.name().is_empty());
    count += usize::from(has_released && nobody.is_none());
    writer.length(count);
    if has_released {
        put_nobody(group, nobody, kind, writer);
    }
    for consumer in consumers {
        put_consumer_head(consumer.name(), (consumer.seen_at, consumer.active_at), kind, writer);
        writer.length(consumer.pending_count());
        for id in consumer.pending(StreamId::MIN) {
            writer.out.extend_from_slice(&id.to_bytes());
        }
    }
}

/// Returns a bound of what [`put_nobody`] writes for the groups of `stream`: entries that were
/// released are in one place in memory, and in two here.
pub(crate) fn nobody_bytes_max(stream: &Stream) -> u64 {
    /// A consumer without entries.
    const HEAD_BYTES: u64 = 64;
    /// An entry's second place, and a number of deliveries of nine bytes.
    const ENTRY_BYTES: u64 = 16 + 9;
    let counts = stream.groups().map(|(_, group)| group.released_count() as u64);
    counts.filter(|count| *count > 0).map(|count| HEAD_BYTES + count * ENTRY_BYTES).sum()
}

/// Writes a consumer without a name: what it has, if there is one, and what was released.
fn put_nobody(group: &Group, own: Option<&Consumer>, kind: u8, writer: &mut Writer<'_>) {
    let times = own.map_or((UNSEEN, None), |own| (own.seen_at, own.active_at));
    put_consumer_head(b"", times, kind, writer);
    writer.length(group.released_count() + own.map_or(0, Consumer::pending_count));
    let is_own = |pending: &Pending| match pending.consumer {
        Some(index) => group.consumer(index).name().is_empty(),
        None => true,
    };
    for (id, _) in group.pending(StreamId::MIN).filter(|(_, pending)| is_own(pending)) {
        writer.out.extend_from_slice(&id.to_bytes());
    }
}

fn put_consumer_head(
    name: &[u8],
    (seen_at, active_at): (UnixMs, Option<UnixMs>),
    kind: u8,
    writer: &mut Writer<'_>,
) {
    writer.text(name);
    writer.out.extend_from_slice(&seen_at.0.to_le_bytes());
    if kind == kind::STREAM_LISTPACKS_3 {
        let active_at = active_at.map_or(NEVER, |at| at.0);
        writer.out.extend_from_slice(&active_at.to_le_bytes());
    }
}

fn put_id(id: StreamId, writer: &mut Writer<'_>) {
    writer.number(id.ms);
    writer.number(id.sequence);
}

/// Returns a bound of the memory that the stream takes that `reader` has, and what is needed while
/// it is made; `None` where the bytes end too early, or a length is not possible.
pub(crate) fn measure(kind: u8, reader: &mut Reader<'_>) -> Option<u64> {
    let (mut bytes, mut expanded) = (2 * ROOM_BYTES, 0);
    let mut add_text = |text: &Text<'_>| {
        if let Text::Compressed { length, .. } = text {
            expanded = expanded.max(*length as u64);
        }
        text.len() as u64
    };
    for _ in 0..reader.number()? {
        reader.text()?;
        bytes += add_text(&reader.text()?) + PART_BYTES;
    }
    let number_count = if kind == kind::STREAM_LISTPACKS { 3 } else { 8 };
    for _ in 0..number_count {
        reader.number()?;
    }
    for _ in 0..reader.number()? {
        bytes += 2 * add_text(&reader.text()?) + 2 * PART_BYTES + 2 * ROOM_BYTES;
        for _ in 0..if kind == kind::STREAM_LISTPACKS { 2 } else { 3 } {
            reader.number()?;
        }
        for _ in 0..reader.number()? {
            reader.bytes(24)?;
            reader.number()?;
            bytes += PENDING_BYTES;
        }
        for _ in 0..reader.number()? {
            bytes += 2 * add_text(&reader.text()?) + PART_BYTES;
            reader.bytes(if kind == kind::STREAM_LISTPACKS_3 { 16 } else { 8 })?;
            for _ in 0..reader.number()? {
                reader.bytes(16)?;
            }
        }
    }
    Some(bytes + expanded)
}

/// Reads a stream.
pub(crate) fn stream(kind: u8, reader: &mut Reader<'_>) -> Option<Collection> {
    let mut stream = Stream::default();
    for _ in 0..reader.number()? {
        let key = reader.text()?.expand()?.try_into().ok().map(StreamId::from_bytes)?;
        let pack = Listpack::from_bytes(reader.text()?.expand()?)?;
        stream.log_mut().add_foreign_node(key, pack)?;
    }
    let length = reader.number()?;
    let last_id = id(reader)?;
    let counters = match kind {
        kind::STREAM_LISTPACKS => None,
        _ => Some(LogCounters {
            first_id: id(reader)?,
            last_id,
            max_deleted_id: id(reader)?,
            entries_added: reader.number()?,
        }),
    };
    if stream.log().len() != length {
        return None;
    }
    stream.log_mut().complete(last_id, counters)?;
    for _ in 0..reader.number()? {
        let name = reader.text()?.expand()?;
        let group = group(kind, reader, &stream)?;
        if !stream.add_group(&name, group) {
            return None;
        }
    }
    Some(Collection::Stream(stream))
}

fn group(kind: u8, reader: &mut Reader<'_>, stream: &Stream) -> Option<Group> {
    let last_id = id(reader)?;
    let entries_read = match kind {
        kind::STREAM_LISTPACKS => stream.log().count_up_to(last_id),
        _ => match reader.number()? {
            UNKNOWN => None,
            read => Some(read).filter(|read| i64::try_from(*read).is_ok()).map(Some)?,
        },
    };
    let mut group = Group::new(last_id, entries_read);
    // Whoever has them comes behind them.
    let mut pending = *reader;
    for _ in 0..reader.number()? {
        reader.bytes(24)?;
        reader.number()?;
    }
    let pending_count = pending.number()?;
    let mut owners = Vec::with_capacity(usize::try_from(pending_count).ok()?);
    for _ in 0..reader.number()? {
        consumer(kind, reader, &mut group, &mut owners)?;
    }
    owners.sort_unstable_by_key(|(id, _)| *id);
    if owners.len() as u64 != pending_count {
        return None;
    }
    let mut previous = None;
    for (owned, consumer) in owners {
        let id = raw_id(&mut pending)?;
        let delivered_at = UnixMs(pending.word()?);
        let delivery_count = pending.number().filter(|count| i64::try_from(*count).is_ok())?;
        // In their order, each once, and each with one consumer.
        if id != owned || previous >= Some(id) {
            return None;
        }
        previous = Some(id);
        let is_released = delivered_at == UNSEEN && group.consumer(consumer).name().is_empty();
        let consumer = (!is_released).then_some(consumer);
        group.set_pending(id, Pending { consumer, delivered_at, delivery_count });
    }
    if group.released_count() > 0
        && let Some(nobody) = group.find_consumer(b"")
        && group.consumer(nobody).seen_at == UNSEEN
        && group.consumer(nobody).pending_count() == 0
    {
        group.remove_consumer(nobody);
    }
    Some(group)
}

/// Who has an entry that is pending.
type Owner = (StreamId, ConsumerIndex);

/// Reads a consumer of `group`, and adds those that it has to `owners`, which has room for all.
fn consumer(
    kind: u8,
    reader: &mut Reader<'_>,
    group: &mut Group,
    owners: &mut Vec<Owner>,
) -> Option<()> {
    let name = reader.text()?.expand()?;
    if group.find_consumer(&name).is_some() {
        return None;
    }
    let seen_at = UnixMs(reader.word()?);
    let active_at = match kind {
        kind::STREAM_LISTPACKS_3 => Some(reader.word()?).filter(|at| *at != NEVER).map(UnixMs),
        _ => Some(seen_at),
    };
    let index = group.add_consumer(&name, seen_at);
    group.set_times(index, seen_at, active_at);
    for _ in 0..reader.number()? {
        if owners.len() == owners.capacity() {
            return None;
        }
        owners.push((raw_id(reader)?, index));
    }
    Some(())
}

fn id(reader: &mut Reader<'_>) -> Option<StreamId> {
    Some(StreamId { ms: reader.number()?, sequence: reader.number()? })
}

fn raw_id(reader: &mut Reader<'_>) -> Option<StreamId> {
    reader.bytes(16)?.try_into().ok().map(StreamId::from_bytes)
}
