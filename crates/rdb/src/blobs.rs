//! Collections that lie in one block of bytes, and lists of such blocks: listpacks and intsets as
//! they are, ziplists and zipmaps of older versions, which become listpacks.
//!
//! A block that is within the limits of the rules stays one; a larger one becomes a table. What is
//! there twice is refused in both.
//!
//! Source: Redis 7.2, `rdbLoadObject`.

use collections::{
    Collection, CollectionEncoding, Direction, ELEMENT_BYTES_MAX, Element, End, Hash, Intset, List,
    Listpack, Set, SortedSet,
};

use crate::decode::{Budget, DecodeError, DecodeOptions, PART_BYTES};
use crate::reader::{Reader, Text};
use crate::strings::{field_time, settle_list, settled};
use crate::{container, kind, ziplist, zipmap};

/// What a look for parts that are there twice, or out of order, takes for each.
const SORTED_BYTES: u64 = 40;

/// A collection in one block.
#[derive(Clone, Copy)]
pub(crate) struct Blob {
    format: BlockFormat,
    content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockFormat {
    Intset,
    Listpack,
    Ziplist,
    Zipmap,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    List,
    Set,
    Hash,
    SortedSet,
}

impl Blob {
    /// Returns what a value of `kind` is, if it lies in one block.
    pub fn of(kind: u8) -> Option<Blob> {
        let (format, content) = match kind {
            kind::SET_INTSET => (BlockFormat::Intset, Content::Set),
            kind::SET_LISTPACK => (BlockFormat::Listpack, Content::Set),
            kind::HASH_LISTPACK => (BlockFormat::Listpack, Content::Hash),
            kind::SORTED_SET_LISTPACK => (BlockFormat::Listpack, Content::SortedSet),
            kind::LIST_ZIPLIST => (BlockFormat::Ziplist, Content::List),
            kind::HASH_ZIPLIST => (BlockFormat::Ziplist, Content::Hash),
            kind::SORTED_SET_ZIPLIST => (BlockFormat::Ziplist, Content::SortedSet),
            kind::HASH_ZIPMAP => (BlockFormat::Zipmap, Content::Hash),
            _ => return None,
        };
        Some(Blob { format, content })
    }

    /// Reads the block and makes a collection of it.
    pub fn read<E>(
        self,
        reader: &mut Reader<'_>,
        options: &DecodeOptions<'_>,
        budget: &mut Budget<'_, E>,
    ) -> Result<Collection, DecodeError<E>> {
        let bytes = reader.text().and_then(|text| text.expand()).ok_or(DecodeError::Malformed)?;
        if self.format == BlockFormat::Intset {
            let set = Intset::from_bytes(bytes).ok_or(DecodeError::Malformed)?;
            return self.of_integers(set, options, budget);
        }
        let pack = pack_of(self.format, bytes).filter(|pack| !pack.is_empty());
        let pack = pack.ok_or(DecodeError::Malformed)?;
        match self.content {
            Content::List => list_of(&pack, options, budget),
            _ => self.of_pack(pack, options, budget),
        }
    }

    fn of_integers<E>(
        self,
        integers: Intset,
        options: &DecodeOptions<'_>,
        budget: &mut Budget<'_, E>,
    ) -> Result<Collection, DecodeError<E>> {
        let count = integers.count() as u64;
        let is_small = count <= options.rules.limits.set_integers;
        let by_rules =
            if is_small { CollectionEncoding::Intset } else { CollectionEncoding::HashTable };
        let encoding = options.encoding.unwrap_or(by_rules);
        let set = match encoding {
            CollectionEncoding::Intset => Set::from_integers(integers),
            _ => {
                budget.ask_for(count * PART_BYTES)?;
                let mut set = Set::large();
                for integer in integers.view().iter() {
                    Element::Integer(integer).with_bytes(|text| set.insert(text, options.rules));
                }
                set
            }
        };
        settled(Collection::Set(set), encoding, options).ok_or(DecodeError::Malformed)
    }

    fn of_pack<E>(
        self,
        pack: Listpack,
        options: &DecodeOptions<'_>,
        budget: &mut Budget<'_, E>,
    ) -> Result<Collection, DecodeError<E>> {
        let (count, bytes) = (pack.count() as u64, pack.bytes().len() as u64);
        let encoding = options.encoding.unwrap_or_else(|| self.encoding(&pack, options));
        let is_small = encoding == CollectionEncoding::Listpack;
        budget.ask_for(match is_small {
            true => bytes + count * SORTED_BYTES,
            false => bytes + bytes / 4 + count * PART_BYTES,
        })?;
        let collection = match (self.content, is_small) {
            (Content::Set, true) => Set::from_pack(pack).map(Collection::Set),
            (Content::Set, false) => large_set(&pack, options).map(Collection::Set),
            (Content::Hash, true) => Hash::from_pack(pack).map(Collection::Hash),
            (Content::Hash, false) => large_hash(&pack, options).map(Collection::Hash),
            // As a listpack first, whose scores are numbers then.
            (Content::SortedSet, _) => SortedSet::from_pack(pack)
                .map(|set| if is_small { set } else { large_sorted_set(&set, options) })
                .map(Collection::SortedSet),
            (Content::List, _) => unreachable!("a list is made of listpacks"),
        };
        let collection = collection.and_then(|made| settled(made, encoding, options));
        collection.ok_or(DecodeError::Malformed)
    }

    /// Returns how the rules have the collection of `pack` stored: for all but zipmaps the number
    /// of its parts decides, not how long they are.
    fn encoding(self, pack: &Listpack, options: &DecodeOptions<'_>) -> CollectionEncoding {
        let limits = &options.rules.limits;
        let count = pack.count() as u64;
        let (is_small, large) = match self.content {
            Content::SortedSet => {
                (count / 2 <= limits.sorted_set_entries, CollectionEncoding::Skiplist)
            }
            Content::Hash => {
                let is_short =
                    |part: Element<'_>| part.byte_count() as u64 <= limits.hash_value_bytes;
                let are_short = self.format != BlockFormat::Zipmap || pack.iter().all(is_short);
                (count / 2 <= limits.hash_entries && are_short, CollectionEncoding::HashTable)
            }
            Content::Set | Content::List => {
                (count <= limits.set_entries, CollectionEncoding::HashTable)
            }
        };
        let is_safe = pack.bytes().len() <= ELEMENT_BYTES_MAX;
        if is_small && is_safe { CollectionEncoding::Listpack } else { large }
    }
}

/// Reads a hash with fields that expire, which lies in one listpack: a field, its value, its time
/// or 0, and so on. The first time of all stands before it, and says nothing more.
pub(crate) fn timed_hash<E>(
    reader: &mut Reader<'_>,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Collection, DecodeError<E>> {
    let block = reader.word().and_then(|_| reader.text()).and_then(|text| text.expand());
    let pack = block.and_then(|bytes| pack_of(BlockFormat::Listpack, bytes));
    let pack = pack.filter(|pack| !pack.is_empty() && pack.count().is_multiple_of(3));
    let pack = pack.ok_or(DecodeError::Malformed)?;
    let (count, bytes) = (pack.count() / 3, pack.bytes().len());
    // The fields as another listpack, and those that expire in the order of their times.
    budget.ask_for(2 * bytes as u64 + (count + 1) as u64 * PART_BYTES)?;
    let fields = fields_of(&pack).ok_or(DecodeError::Malformed)?;
    let hash = Blob { format: BlockFormat::Listpack, content: Content::Hash };
    let mut collection = hash.of_pack(fields, options, budget)?;
    let Collection::Hash(hash) = &mut collection else { unreachable!("a hash was made") };
    let mut parts = pack.iter();
    while let (Some(field), Some(_), Some(time)) = (parts.next(), parts.next(), parts.next()) {
        if let Element::Integer(time @ 1..) = time {
            let time = field_time(time);
            field.with_bytes(|field| hash.set_time(field, time, options.rules));
        }
    }
    Ok(collection)
}

/// Returns the listpack of `pack` without the times, unless one of them is none.
fn fields_of(pack: &Listpack) -> Option<Listpack> {
    let mut fields = Listpack::with_room(2 * (pack.count() / 3), pack.bytes().len())?;
    for (index, part) in pack.iter().enumerate() {
        match (index % 3, part) {
            (2, Element::Integer(time)) => drop(field_time(time)?),
            (2, Element::Bytes(_)) => return None,
            _ => part.with_bytes(|bytes| fields.push_back(bytes)),
        }
    }
    fields.shrink();
    Some(fields)
}

/// Reads a list of blocks.
pub(crate) fn list<E>(
    reader: &mut Reader<'_>,
    kind: u8,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Collection, DecodeError<E>> {
    let (mut list, mut buffer) = (List::large(), Vec::new());
    let mut has_plain = false;
    for _ in 0..reader.count().ok_or(DecodeError::Malformed)? {
        let node = list_node(reader, kind, &mut buffer).ok_or(DecodeError::Malformed)?;
        has_plain |= node.is_plain;
        // One that was one listpack elsewhere stays one.
        if options.encoding != Some(CollectionEncoding::Listpack) && is_giant(&node.pack) {
            // Beside the node for a moment, with room for more in the last.
            let bytes = node.pack.bytes().len() as u64;
            budget.ask_for(bytes + bytes / 4)?;
            append_each(&mut list, &node.pack, options, budget)?;
        } else {
            list.append_pack(node.pack);
        }
    }
    if list.is_empty() {
        return Err(DecodeError::Malformed);
    }
    // One element that is a node of its own stays one, as in Redis.
    if has_plain && options.encoding.is_none() {
        return Ok(Collection::List(list));
    }
    settle_list(list, options).ok_or(DecodeError::Malformed)
}

/// A node of a list.
struct ListNode {
    pack: Listpack,
    /// It is one element, stored as it is.
    is_plain: bool,
}

fn list_node(reader: &mut Reader<'_>, kind: u8, buffer: &mut Vec<u8>) -> Option<ListNode> {
    let container = match kind {
        kind::LIST_LISTPACKS => reader.number()?,
        _ => container::PACKED,
    };
    let text = reader.text()?;
    let is_plain = container == container::PLAIN;
    let pack = match kind {
        _ if is_plain => pack_of_one(&text, buffer),
        kind::LIST_LISTPACKS => pack_of(BlockFormat::Listpack, text.expand()?),
        _ => pack_of(BlockFormat::Ziplist, text.expand()?),
    };
    Some(ListNode { pack: pack?, is_plain })
}

/// Returns whether a node is longer than any list of a server makes them: it would be moved or
/// walked as a whole for each element that comes or goes.
fn is_giant(pack: &Listpack) -> bool {
    const COUNT_MAX: usize = 60_000;
    const BYTES_MAX: usize = 1 << 20;
    let count = pack.count();
    count > COUNT_MAX || count > 1 && pack.bytes().len() > BYTES_MAX
}

/// Returns a bound of what a value of `kind`, of a block of `bytes`, takes beside the block while
/// it is made.
pub(crate) fn extra_bytes(kind: u8, bytes: u64) -> u64 {
    match kind {
        kind::LIST_ZIPLIST => 4 * bytes,
        kind::LIST_ZIPLISTS | kind::HASH_ZIPLIST | kind::SORTED_SET_ZIPLIST | kind::HASH_ZIPMAP => {
            2 * bytes
        }
        _ => 0,
    }
}

/// Returns a listpack of `text` alone, which is expanded into `buffer` where it has to be.
fn pack_of_one(text: &Text<'_>, buffer: &mut Vec<u8>) -> Option<Listpack> {
    let mut pack = Listpack::with_room(1, text.len())?;
    text.with_bytes(buffer, |bytes| pack.push_back(bytes))?;
    Some(pack)
}

/// Returns the listpack that a block of `format` is, or becomes.
fn pack_of(format: BlockFormat, bytes: Vec<u8>) -> Option<Listpack> {
    let is_whole = match format {
        BlockFormat::Listpack => return Listpack::from_bytes(bytes),
        BlockFormat::Ziplist => ziplist::is_whole(&bytes),
        BlockFormat::Zipmap => zipmap::is_whole(&bytes),
        BlockFormat::Intset => unreachable!("integers are no listpack"),
    };
    if !is_whole {
        return None;
    }
    let mut pack = Listpack::with_room(0, listpack_bytes_max(bytes.len()))?;
    match format {
        BlockFormat::Ziplist => ziplist::for_each(&bytes, |text| pack.push_back(text)),
        _ => zipmap::for_each(&bytes, |text| pack.push_back(text)),
    }
    pack.shrink();
    Some(pack)
}

/// Returns a bound of the listpack of a ziplist or zipmap of `bytes`: an entry of a ziplist from 64
/// bytes on may grow by five, and two empty strings of a zipmap from three bytes to four.
const fn listpack_bytes_max(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 2)
}

/// Returns the list of the elements of `pack`: several listpacks even where one would do, as in
/// Redis. How many is known here first.
fn list_of<E>(
    pack: &Listpack,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<Collection, DecodeError<E>> {
    let mut list = List::large();
    append_each(&mut list, pack, options, budget)?;
    match options.encoding {
        None => Ok(Collection::List(list)),
        Some(_) => settle_list(list, options).ok_or(DecodeError::Malformed),
    }
}

/// Appends the elements of `pack` one by one.
fn append_each<E>(
    list: &mut List,
    pack: &Listpack,
    options: &DecodeOptions<'_>,
    budget: &mut Budget<'_, E>,
) -> Result<(), DecodeError<E>> {
    let limit = options.rules.limits.list;
    let pack_count_max = limit.pack_count_max(pack.count(), pack.bytes().len());
    budget.ask_for(pack_count_max as u64 * PART_BYTES)?;
    for element in pack.iter() {
        element.with_bytes(|bytes| list.push(End::Tail, bytes, limit));
    }
    Ok(())
}

fn large_set(pack: &Listpack, options: &DecodeOptions<'_>) -> Option<Set> {
    let mut set = Set::large();
    let mut members = pack.iter();
    let are_new =
        members.all(|member| member.with_bytes(|member| set.insert(member, options.rules)));
    are_new.then_some(set)
}

fn large_hash(pack: &Listpack, options: &DecodeOptions<'_>) -> Option<Hash> {
    let (mut hash, mut parts) = (Hash::large(), pack.iter());
    while let Some(field) = parts.next() {
        let value = parts.next()?;
        let is_new = field
            .with_bytes(|field| value.with_bytes(|value| hash.set(field, value, options.rules)));
        if !is_new {
            return None;
        }
    }
    Some(hash)
}

fn large_sorted_set(pack: &SortedSet, options: &DecodeOptions<'_>) -> SortedSet {
    let mut set = SortedSet::large();
    pack.view().for_each(0, usize::MAX, Direction::Up, |member, score| {
        member.with_bytes(|member| set.insert(member, score, options.rules));
    });
    set
}
