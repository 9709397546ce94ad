//! Values to bytes: a collection is written as it is stored, so that one which is compact stays so,
//! unless the version of the format has no such block: then it is written part by part.

use collections::{
    CollectionView, Compact, Direction, Element, HashView, ListView, SetView, SortedSetView,
};

use crate::payload::{FOOTER_BYTES, Version, seal_as};
use crate::writer::{LENGTH_BYTES_MAX, Writer};
use crate::{container, kind};

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
            Stored::Collection(collection) => match version == Version::NEWEST {
                true => collection.memory_bytes(),
                false => collection.memory_bytes().saturating_mul(PARTS_GROWTH_MAX),
            },
        }
}

/// Appends the payload of `value` to `out`, which is empty, in the newest version.
///
/// # Panics
/// As of [`encode_as`].
pub fn encode(value: Stored<'_>, out: &mut Vec<u8>) {
    encode_as(Version::NEWEST, value, out);
}

/// Appends the payload of `value` to `out`, which is empty, in `version`.
///
/// # Panics
/// When `out` is not empty, or `value` is a collection without parts.
pub fn encode_as(version: Version, value: Stored<'_>, out: &mut Vec<u8>) {
    assert!(out.is_empty(), "the checksum is that of the whole payload");
    let mut writer = Writer::new(version, out);
    match value {
        Stored::String(bytes) => {
            writer.out.push(kind::STRING);
            writer.text(bytes);
        }
        Stored::Collection(collection) => {
            assert!(!collection.is_empty(), "a key goes with its last part");
            match collection {
                CollectionView::List(list) => put_list(list, &mut writer),
                CollectionView::Set(set) => put_set(set, &mut writer),
                CollectionView::Hash(hash) => put_hash(hash, &mut writer),
                CollectionView::SortedSet(set) => put_sorted_set(set, &mut writer),
            }
        }
    }
    seal_as(version.number(), out);
}

fn put_list(list: ListView<'_>, writer: &mut Writer<'_>) {
    if !writer.version.has_listpacks() {
        writer.out.push(kind::LIST);
        writer.length(list.len());
        return list.for_each(0, usize::MAX, |element| put_element(element, writer));
    }
    writer.out.push(kind::LIST_LISTPACKS);
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
    writer.out.push(kind::SET);
    writer.length(set.len());
    set.for_each(|member| put_element(member, writer));
}

fn put_hash(hash: HashView<'_>, writer: &mut Writer<'_>) {
    let pack = hash.pack().filter(|_| writer.version.has_listpacks());
    if put_blob(pack.map(|pack| (kind::HASH_LISTPACK, pack.bytes())), writer) {
        return;
    }
    writer.out.push(kind::HASH);
    writer.length(hash.len());
    hash.for_each(|field, value| {
        put_element(field, writer);
        put_element(value, writer);
    });
}

fn put_sorted_set(set: SortedSetView<'_>, writer: &mut Writer<'_>) {
    let pack = set.pack().filter(|_| writer.version.has_listpacks());
    if put_blob(pack.map(|pack| (kind::SORTED_SET_LISTPACK, pack.bytes())), writer) {
        return;
    }
    writer.out.push(kind::SORTED_SET);
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
    writer.out.push(kind);
    writer.text(bytes);
    true
}

fn put_element(element: Element<'_>, writer: &mut Writer<'_>) {
    element.with_bytes(|bytes| writer.text(bytes));
}
