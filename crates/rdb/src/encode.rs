//! Values to bytes: a collection is written as it is stored, so that one which is compact stays so,
//! unless the version of the format has no such block: then it is written part by part.

use base::UnixMs;
use collections::{
    CollectionView, Compact, Direction, Element, HashView, ListView, Listpack, SetView,
    SortedSetView,
};

use crate::lzf::Compressor;
use crate::payload::{FOOTER_BYTES, VERSION_OF_TIMES, Version, seal_as};
use crate::writer::{LENGTH_BYTES_MAX, Writer};
use crate::{container, kind, streams};

/// How many times as long as in memory a compact collection can be that is written part by part: a
/// member and its score in four bytes become ten, and an integer in ten bytes a text of twenty.
const PARTS_GROWTH_MAX: u64 = 4;

/// A value to write.
#[derive(Clone, Copy)]
pub enum Stored<'a> {
    /// A string.
    String(&'a [u8]),
    /// A value of many parts.
    Collection(CollectionView<'a>),
}

/// Returns a bound of the bytes of the payload of `value`, in the newest version.
pub fn encoded_bytes_max(value: Stored<'_>) -> u64 {
    encoded_bytes_max_as(Version::NEWEST, value)
}

/// As [`encoded_bytes_max`], in any `version`.
pub fn encoded_bytes_max_as(version: Version, value: Stored<'_>) -> u64 {
    /// The type, a few lengths, the footer, and what a string that is compressed begins with.
    const FRAME_BYTES_MAX: u64 = (1 + 4 * LENGTH_BYTES_MAX + FOOTER_BYTES) as u64;
    FRAME_BYTES_MAX
        + match value {
            Stored::String(bytes) => bytes.len() as u64,
            // In memory each part has more beside its bytes than here.
            Stored::Collection(collection) => {
                let bytes = collection.memory_bytes();
                let growth = if version == Version::NEWEST { 1 } else { PARTS_GROWTH_MAX };
                bytes.saturating_mul(growth) + extra_bytes(collection)
            }
        }
}

/// Returns a bound of what is written and not in memory: of the fields of a hash in the order of
/// their times, where they are one listpack, a payload with the times, and a list; of a stream the
/// consumer who has what was released.
fn extra_bytes(collection: CollectionView<'_>) -> u64 {
    /// What the frames of a field in the listpack, its time in the payload, and its place in the
    /// list take.
    const FIELD_BYTES_MAX: u64 = 3 * 10 + 11 + 64;
    match collection {
        CollectionView::Hash(hash) if hash.is_timed() && hash.is_small() => {
            hash.memory_bytes() + hash.len() as u64 * FIELD_BYTES_MAX
        }
        CollectionView::Stream(stream) => streams::nobody_bytes_max(stream),
        _ => 0,
    }
}

/// Appends the payload of `value` to `out`, which is empty, in the newest version.
///
/// # Panics
/// As of [`encode_as`].
pub fn encode(value: Stored<'_>, out: &mut Vec<u8>) {
    encode_as(Version::NEWEST, value, out);
}

/// Appends the payload of `value` to `out`, which is empty, in `version`. Only a hash with fields
/// that expire is of the version that has times: a server that does not know them must refuse it.
///
/// # Panics
/// When `out` is not empty, or `value` is a collection without parts.
pub fn encode_as(version: Version, value: Stored<'_>, out: &mut Vec<u8>) {
    assert!(out.is_empty(), "the checksum is that of the whole payload");
    let mut compressor = Compressor::default();
    let writer = Writer::new(version, out);
    put_value(value, &mut Writer { compressor: Some(&mut compressor), ..writer });
    let number = match has_times(value) {
        true => VERSION_OF_TIMES,
        false => version.number(),
    };
    seal_as(number, out);
}

/// Returns whether `value` is a hash with fields that expire.
fn has_times(value: Stored<'_>) -> bool {
    matches!(value, Stored::Collection(CollectionView::Hash(hash)) if hash.is_timed())
}

/// Writes the kind of `value`, and `value`.
///
/// # Panics
/// When it is a collection without parts.
pub(crate) fn put_value(value: Stored<'_>, writer: &mut Writer<'_>) {
    let collection = match value {
        Stored::String(bytes) => {
            writer.kind(kind::STRING);
            return writer.text(bytes);
        }
        Stored::Collection(collection) => collection,
    };
    let may_be_empty = matches!(collection, CollectionView::Stream(_));
    assert!(may_be_empty || !collection.is_empty(), "a key goes with its last part");
    match collection {
        CollectionView::List(list) => put_list(list, writer),
        CollectionView::Set(set) => put_set(set, writer),
        CollectionView::Hash(hash) if hash.is_timed() => put_timed_hash(hash, writer),
        CollectionView::Hash(hash) => put_hash(hash, writer),
        CollectionView::SortedSet(set) => put_sorted_set(set, writer),
        CollectionView::Stream(stream) => streams::put_stream(stream, writer),
    }
}

fn put_list(list: ListView<'_>, writer: &mut Writer<'_>) {
    if !writer.version.has_listpacks() {
        writer.kind(kind::LIST);
        writer.length(list.len());
        return list.for_each(0, usize::MAX, |element| put_element(element, writer));
    }
    writer.kind(kind::LIST_LISTPACKS);
    writer.length(list.packs().len());
    for pack in list.packs() {
        writer.length(container::PACKED as usize);
        writer.text(pack.bytes());
    }
}

fn put_set(set: SetView<'_>, writer: &mut Writer<'_>) {
    let blob = match set.compact() {
        Some(Compact::Intset(integers)) => Some((kind::SET_INTSET, integers.bytes())),
        Some(Compact::Listpack(pack)) if writer.version.has_listpacks_of_sets() => {
            Some((kind::SET_LISTPACK, pack.bytes()))
        }
        _ => None,
    };
    if put_blob(blob, writer) {
        return;
    }
    writer.kind(kind::SET);
    writer.length(set.len());
    set.for_each(|member| put_element(member, writer));
}

fn put_hash(hash: HashView<'_>, writer: &mut Writer<'_>) {
    let pack = hash.pack().filter(|_| writer.version.has_listpacks());
    if put_blob(pack.map(|pack| (kind::HASH_LISTPACK, pack.bytes())), writer) {
        return;
    }
    writer.kind(kind::HASH);
    writer.length(hash.len());
    hash.for_each(|field, value| {
        put_element(field, writer);
        put_element(value, writer);
    });
}

/// Writes a hash with fields that expire: all that are stored, those that have expired too.
///
/// Source: Redis 7.4, `rdbSaveObject`.
fn put_timed_hash(hash: HashView<'_>, writer: &mut Writer<'_>) {
    let first = hash.next_expiry().expect("a field of it expires");
    if let Some(pack) = hash.is_small().then(|| pack_with_times(hash)).flatten() {
        writer.kind(kind::HASH_LISTPACK_EX);
        writer.out.extend_from_slice(&first.0.to_le_bytes());
        return writer.text(pack.bytes());
    }
    writer.kind(kind::HASH_METADATA);
    writer.out.extend_from_slice(&first.0.to_le_bytes());
    writer.length(hash.len());
    hash.for_each_timed(|field, value, time| {
        put_field_time(time, first, writer);
        put_element(field, writer);
        put_element(value, writer);
    });
}

/// Writes `time` as that of a field of a hash whose `first` one this is or comes before.
pub(crate) fn put_field_time(time: Option<UnixMs>, first: UnixMs, writer: &mut Writer<'_>) {
    writer.length(time.map_or(0, |time| (time.0 - first.0) as usize + 1));
}

/// Returns field, value, time, field, value, time in the order of the times; 0 where there is none.
/// `None` where one listpack does not hold them.
fn pack_with_times(hash: HashView<'_>) -> Option<Listpack> {
    let fields = hash.listpack_by_time();
    let bytes = hash.memory_bytes() as usize;
    let mut pack = Listpack::with_room(3 * fields.len(), bytes)?;
    for (field, value, time) in fields {
        put_in_pack(&mut pack, field);
        put_in_pack(&mut pack, value);
        put_in_pack(&mut pack, Element::Integer(time.map_or(0, |time| time.0)));
    }
    Some(pack)
}

fn put_in_pack(pack: &mut Listpack, element: Element<'_>) {
    element.with_bytes(|bytes| pack.push_back(bytes));
}

fn put_sorted_set(set: SortedSetView<'_>, writer: &mut Writer<'_>) {
    let pack = set.pack().filter(|_| writer.version.has_listpacks());
    if put_blob(pack.map(|pack| (kind::SORTED_SET_LISTPACK, pack.bytes())), writer) {
        return;
    }
    writer.kind(kind::SORTED_SET);
    writer.length(set.len());
    // The highest score first, as Redis has them.
    set.for_each(set.len() - 1, usize::MAX, Direction::Down, |member, score| {
        put_element(member, writer);
        writer.out.extend_from_slice(&score.to_le_bytes());
    });
}

/// Writes a value that lies in one block, where there is one; returns whether there is.
fn put_blob(blob: Option<(u8, &[u8])>, writer: &mut Writer<'_>) -> bool {
    let Some((kind, bytes)) = blob else { return false };
    writer.kind(kind);
    writer.text(bytes);
    true
}

fn put_element(element: Element<'_>, writer: &mut Writer<'_>) {
    element.with_bytes(|bytes| writer.text(bytes));
}
