//! Collections whose parts are strings of their own: the tables of Redis, and the lists of its
//! first versions.
//!
//! Each is made as a table first, which finds what is there twice, and becomes compact where the
//! rules have it so: for a moment it is there in both forms. What it is in the end depends on its
//! parts and the rules alone.
//!
//! Source: Redis 7.2, `rdbLoadObject`.

use base::UnixMs;
use collections::{
    Collection, CollectionEncoding, Element, End, FIELD_TIME_MS_MAX, Hash, Limits, List, Listpack,
    Set, SortedSet,
};

use crate::decode::{Budget, DecodeError, DecodeOptions};
use crate::reader::Reader;

/// What a compact form takes for each member beside its bytes, at most: two frames and a score.
const COMPACT_MEMBER_BYTES: u64 = 48;

/// What decides whether parts fit a compact form.
#[derive(Clone, Copy, Default)]
struct Sizes {
    count: u64,
    longest: u64,
    bytes: u64,
}

impl Sizes {
    fn note(&mut self, bytes: &[u8]) {
        self.longest = self.longest.max(bytes.len() as u64);
        self.bytes += bytes.len() as u64;
    }

    /// Returns a bound of the compact form.
    fn compact_bytes(self) -> u64 {
        self.bytes + self.count * COMPACT_MEMBER_BYTES
    }
}

pub(crate) fn list(reader: &mut Reader<'_>, options: &DecodeOptions<'_>) -> Option<Collection> {
    // Elsewhere the limit may be another than where the list was one listpack.
    let is_one = options.encoding == Some(CollectionEncoding::Listpack);
    let mut list = if is_one { List::default() } else { List::large() };
    let mut buffer = Vec::new();
    let limit = options.rules.limits.list;
    for _ in 0..reader.count()? {
        reader.text()?.with_bytes(&mut buffer, |element| list.push(End::Tail, element, limit))?;
    }
    settle_list(list, options)
}

/// Returns `list`, which is one of several listpacks, in the form that it is to have.
pub(crate) fn settle_list(mut list: List, options: &DecodeOptions<'_>) -> Option<Collection> {
    let is_small = match options.encoding {
        None => {
            list.compact(Some(options.rules.limits.list));
            return Some(Collection::List(list));
        }
        Some(CollectionEncoding::Listpack) => true,
        Some(CollectionEncoding::Quicklist) => false,
        Some(_) => return None,
    };
    if is_small {
        list.compact(None);
    }
    (list.is_small() == is_small).then_some(Collection::List(list))
}

pub(crate) fn set<E>(
    reader: &mut Reader<'_>,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Collection, DecodeError<E>> {
    let read = read_set(reader, options).ok_or(DecodeError::Malformed)?;
    let (mut set, sizes, are_integers) = read;
    let encoding = options.encoding.unwrap_or(set_encoding(sizes, are_integers, options));
    if encoding != CollectionEncoding::HashTable {
        budget.ask_for(sizes.compact_bytes())?;
    }
    match encoding {
        CollectionEncoding::Intset => set.make_integers(),
        CollectionEncoding::Listpack => set.make_pack(),
        _ => {}
    }
    settled(Collection::Set(set), encoding, options).ok_or(DecodeError::Malformed)
}

/// Returns a set in a table, and whether its members are integers.
fn read_set(reader: &mut Reader<'_>, options: &DecodeOptions<'_>) -> Option<(Set, Sizes, bool)> {
    let (mut set, mut buffer) = (Set::large(), Vec::new());
    let (mut sizes, mut are_integers) = (Sizes::default(), true);
    for _ in 0..reader.count()? {
        let is_new = reader.text()?.with_bytes(&mut buffer, |member| {
            sizes.note(member);
            are_integers &= matches!(Element::of(member), Element::Integer(_));
            set.insert(member, options.rules)
        })?;
        if !is_new {
            return None;
        }
    }
    sizes.count = set.len() as u64;
    Some((set, sizes, are_integers))
}

fn set_encoding(
    sizes: Sizes,
    are_integers: bool,
    options: &DecodeOptions<'_>,
) -> CollectionEncoding {
    let Limits { set_integers, set_entries, set_value_bytes, .. } = options.rules.limits;
    if are_integers && sizes.count <= set_integers.max(set_entries) {
        CollectionEncoding::Intset
    } else if sizes.count <= set_entries && sizes.longest <= set_value_bytes {
        CollectionEncoding::Listpack
    } else {
        CollectionEncoding::HashTable
    }
}

pub(crate) fn hash<E>(
    reader: &mut Reader<'_>,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Collection, DecodeError<E>> {
    let again = *reader;
    let read = read_hash(reader, false, options).ok_or(DecodeError::Malformed)?;
    settled_hash(read, again, false, options, budget).map(Collection::Hash)
}

/// Reads a hash with fields that expire: the first time of all, then before each field how much
/// later it expires, counted from 1, or 0 where it does not.
///
/// Source: Redis 7.4, `rdbLoadObject`.
pub(crate) fn timed_hash<E>(
    reader: &mut Reader<'_>,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Collection, DecodeError<E>> {
    let first = reader.word().ok_or(DecodeError::Malformed)?;
    // The fields are read once more for their times, once it is settled how they are stored.
    let mut again = *reader;
    let read = read_hash(reader, true, options).ok_or(DecodeError::Malformed)?;
    let mut hash = settled_hash(read, again, true, options, budget)?;
    set_times(&mut hash, &mut again, first, options).ok_or(DecodeError::Malformed)?;
    Ok(Collection::Hash(hash))
}

fn set_times(
    hash: &mut Hash,
    reader: &mut Reader<'_>,
    first: i64,
    options: &DecodeOptions<'_>,
) -> Option<()> {
    let mut buffer = Vec::new();
    for _ in 0..reader.count()? {
        let later = i64::try_from(reader.number()?).ok()?;
        let field = reader.text()?;
        if later > 0 {
            let time = field_time(first.checked_add(later - 1)?)?;
            // A time of 0 is none, as in the form of few fields.
            let time = (time.0 > 0).then_some(time);
            field.with_bytes(&mut buffer, |field| hash.set_time(field, time, options.rules))?;
        }
        reader.text()?;
    }
    Some(())
}

/// Returns `time` in milliseconds as the time of a field, unless none has it.
pub(crate) fn field_time(time: i64) -> Option<UnixMs> {
    (0..=FIELD_TIME_MS_MAX).contains(&time).then_some(UnixMs(time))
}

/// Returns the hash that was read in the form that the rules say. `again` reads the same fields:
/// compact, they stand in their order, which a table does not keep.
fn settled_hash<E>(
    (mut hash, sizes): (Hash, Sizes),
    again: Reader<'_>,
    has_times: bool,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Hash, DecodeError<E>> {
    let Limits { hash_entries, hash_value_bytes, .. } = options.rules.limits;
    let is_small = sizes.count <= hash_entries && sizes.longest <= hash_value_bytes;
    let small_or_large = match is_small {
        true => CollectionEncoding::Listpack,
        false => CollectionEncoding::HashTable,
    };
    let encoding = options.encoding.unwrap_or(small_or_large);
    if encoding == CollectionEncoding::Listpack {
        budget.ask_for(sizes.compact_bytes())?;
        if let Some(pack) = pack_of(again, has_times, sizes) {
            hash.become_pack(pack);
        }
    }
    match settled(Collection::Hash(hash), encoding, options) {
        Some(Collection::Hash(hash)) => Ok(hash),
        _ => Err(DecodeError::Malformed),
    }
}

/// Returns the fields and values of a hash in one listpack; `None` where they do not fit one.
fn pack_of(mut reader: Reader<'_>, has_times: bool, sizes: Sizes) -> Option<Listpack> {
    let count = usize::try_from(2 * sizes.count).ok()?;
    let mut pack = Listpack::with_room(count, usize::try_from(sizes.bytes).ok()?)?;
    let mut buffer = Vec::new();
    for _ in 0..reader.count()? {
        if has_times {
            reader.number()?;
        }
        for _ in 0..2 {
            reader.text()?.with_bytes(&mut buffer, |part| pack.push_back(part))?;
        }
    }
    Some(pack)
}

/// Returns a hash in a table; where it `has_times`, each field has one before it, which is skipped.
fn read_hash(
    reader: &mut Reader<'_>,
    has_times: bool,
    options: &DecodeOptions<'_>,
) -> Option<(Hash, Sizes)> {
    let (mut hash, mut sizes) = (Hash::large(), Sizes::default());
    let [mut field_buffer, mut value_buffer] = [const { Vec::new() }; 2];
    for _ in 0..reader.count()? {
        if has_times {
            reader.number()?;
        }
        let (field, value) = (reader.text()?, reader.text()?);
        let is_new = field.with_bytes(&mut field_buffer, |field| {
            value.with_bytes(&mut value_buffer, |value| {
                sizes.note(field);
                sizes.note(value);
                hash.set(field, value, options.rules)
            })
        })??;
        if !is_new {
            return None;
        }
    }
    sizes.count = hash.len() as u64;
    Some((hash, sizes))
}

pub(crate) fn sorted_set<'a, E>(
    reader: &mut Reader<'a>,
    score: impl Fn(&mut Reader<'a>) -> Option<f64>,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Collection, DecodeError<E>> {
    let read = read_sorted_set(reader, score, options).ok_or(DecodeError::Malformed)?;
    let (mut set, sizes) = read;
    let Limits { sorted_set_entries, sorted_set_value_bytes, .. } = options.rules.limits;
    let is_small = sizes.count <= sorted_set_entries && sizes.longest <= sorted_set_value_bytes;
    let small_or_large = match is_small {
        true => CollectionEncoding::Listpack,
        false => CollectionEncoding::Skiplist,
    };
    let encoding = options.encoding.unwrap_or(small_or_large);
    if encoding == CollectionEncoding::Listpack {
        budget.ask_for(sizes.compact_bytes())?;
        set.make_pack();
    }
    settled(Collection::SortedSet(set), encoding, options).ok_or(DecodeError::Malformed)
}

/// Returns a sorted set in a table with an order.
fn read_sorted_set<'a>(
    reader: &mut Reader<'a>,
    score: impl Fn(&mut Reader<'a>) -> Option<f64>,
    options: &DecodeOptions<'_>,
) -> Option<(SortedSet, Sizes)> {
    let (mut set, mut buffer) = (SortedSet::large(), Vec::new());
    let mut sizes = Sizes::default();
    for _ in 0..reader.count()? {
        let member = reader.text()?;
        let score = score(reader).filter(|score| !score.is_nan())?;
        let old = member.with_bytes(&mut buffer, |member| {
            sizes.note(member);
            set.insert(member, score, options.rules)
        })?;
        if old.is_some() {
            return None;
        }
    }
    sizes.count = set.len() as u64;
    Some((set, sizes))
}

/// Returns `collection`, which was to become one of `encoding`, unless that had to be and it is
/// not: where the rules alone would have it compact, and it is too large for that, it stays large.
pub(crate) fn settled(
    collection: Collection,
    encoding: CollectionEncoding,
    options: &DecodeOptions<'_>,
) -> Option<Collection> {
    let is_right = options.encoding.is_none() || collection.encoding() == encoding;
    is_right.then_some(collection)
}
