//! Every byte of the arena that another process may read.
//!
//! All numbers are little-endian 64-bit words at offsets that are multiples of 8, and all
//! references are byte offsets from the start of the mapped range. Four regions follow each
//! other in that range; each is a whole number of segments:
//!
//! ```text
//! 0            index region    root, table headers, directories, buckets, descriptors
//! slab_base    slab region     16 KiB pages of entries under 4 KiB
//! extent_base  extent region   one block for each larger entry
//! upload_base  upload region   values where their clients wrote them
//! ```
//! The owner of the arena writes all but the upload region, which it only reads. Of that one each
//! run of segments can be written by the process that it was made for, at any moment: its bytes are
//! values, and no reader follows an offset or a length from it.
//!
//! Root (offset 0), one word each:
//! ```text
//! 0 magic | 1 version | 2 generation | 3 segment epoch | 4 hash | 5 shards | 6 databases
//! 7 segment bytes | 8 slab base | 9 extent base | 10 span | 11 touch period
//! 12 upload base | 13 view share | 14..18 hash key
//! ```
//! Table headers follow at `TABLE_HEADERS`: one line of 64 bytes per (database, shard):
//! ```text
//! 0 sequence | 1 bucket count (0: no table) | 2 directory offset | 3..8 zero
//! ```
//! A directory is an array of words: the offset of each block of `BUCKETS_PER_BLOCK` buckets.
//!
//! Bucket, 64 bytes:
//! ```text
//! byte 0   4 sequence     odd while this chain, or what it refers to, changes (home bucket only)
//! byte 4   1 snapshot epoch
//! byte 5   9 tags         0: empty slot, else the top eight bits of the hash (0 stored as 1)
//! byte 14  5 link         the next bucket of the chain in units of 64 bytes; 0: none;
//!                         all ones: none, and further entries that the owner alone can find
//! byte 19  9 x 5 refs     in units of 8 bytes
//! ```
//! A chain has at most `CHAIN_BUCKETS_MAX` buckets. A reader that finds no entry in a chain whose
//! last link is all ones does not know whether there is one.
//!
//! Entry header, one word (bit 0 is the lowest):
//! ```text
//! 0  4 type | 4 3 encoding | 7 1 mark counts | 8 TTL | 9 1 won | 10 1 fetched | 11 costed
//! 12 large | 13 long | 14 1 roomy | 15 32 mark | 47 7 key length | 54 10 value length
//! ```
//! A small entry is long where its key has 128 bytes or more, or its value 1,024.
//!
//! A roomy small entry has an item that is larger than it needs (`item_bytes`), so that its value
//! can grow; that concerns its owner alone.
//!
//! A costed entry knows a cost, in a byte ([`Cost`]): bits 54 to 62 of the header where it is
//! large or long, else the last byte of its item, which has one more for it. That concerns its
//! owner alone too.
//!
//! The encoding says what the value is (`Encoding`). A small collection is the value itself, which
//! begins with a listpack or an intset of Redis, byte for byte. Any other lies in the server's
//! private memory, and the value begins with a handle:
//! ```text
//! 0 handle, which means something to the server alone | 1 number of elements (small entries)
//! ```
//! An item of memcached is a string too, of type 9 and encoding 0; behind the value there are
//! `ITEM_TAIL_BYTES` more, which its lengths count:
//! ```text
//! byte 0   4 flags | byte 4   8 unique (CAS) | byte 12   1 state
//! ```
//! State 1 is stale, 2 in the making, 3 both.
//! Behind a listpack, an intset or a handle there may be bytes that mean nothing: the value was
//! longer once.
//!
//! Small entry (slab page), from its reference on:
//! ```text
//! header | [long: key length u32, value length u32] | [TTL: expiry ms | volatile position]
//!        | key | value
//! ```
//! The volatile position is the entry's place among those that expire, in the low 40 bits, which
//! means something to the owner alone. Above it is the grace, for how long the value may be read as
//! a stale one once its time has passed: 20 bits of a number, 4 bits of the power of two that it
//! counts, in milliseconds. To a reader in another process what has expired is absent.
//!
//! Large entry: its reference leads to a descriptor of two words, which never moves:
//! ```text
//! header (large, lengths zero) | location
//! location: bit 0 changing | bits 6..48 offset of the block | bits 48..64 version
//! ```
//! Block in the extent region, 64-byte aligned, one line of words, then the key padded to 64
//! bytes, then the value:
//! ```text
//! 0 tag | 1 owner | 2 expiry ms | 3 volatile position | 4 key length | 5 value length
//! 6 value capacity | 7 zero, or the offset of the value in the upload region
//! ```
//! A block whose word 7 is not zero ends with its key.

/// "FOREBAY\0" read as a little-endian word.
pub const MAGIC: u64 = 0x0059_4142_4552_4F46;
/// The version of this layout; a reader refuses any other.
pub const VERSION: u64 = 6;

/// The size of a slab page and of the index pool's blocks, in bytes.
pub const PAGE_BYTES: u64 = 16 * 1024;
/// A cache line, a bucket, the granule of extents, in bytes.
pub const LINE_BYTES: u64 = 64;
/// Where the table headers start.
pub const TABLE_HEADERS: u64 = 4096;
/// Buckets in one block that a directory word refers to.
pub const BUCKETS_PER_BLOCK: u64 = PAGE_BYTES / LINE_BYTES;
/// Slots in a bucket.
pub const SLOTS_PER_BUCKET: usize = 9;
/// The most buckets of a chain. Keys that nobody has chosen make no chain of more: of buckets that
/// are about to split, the fullest there are, 3 in 10^15 would.
pub const CHAIN_BUCKETS_MAX: usize = 6;
/// The link at the end of a chain whose further entries the owner alone can find.
pub const LINK_SPILLED: u64 = 0xFF_FFFF_FFFF;
/// The most entries of a chain.
pub const CHAIN_ENTRIES_MAX: usize = CHAIN_BUCKETS_MAX * SLOTS_PER_BUCKET;
/// The largest small entry, all of its bytes counted; a larger one becomes an extent.
pub const SMALL_ENTRY_BYTES_MAX: u64 = 4080;
/// From so many bytes of key on a small entry is long: its lengths have a word of their own.
const KEY_BYTES_LONG: u64 = 1 << 7;
/// As above, of its value. Most keys are shorter than 128 bytes, and a word is much beside a value
/// of some hundred bytes.
const VALUE_BYTES_LONG: u64 = 1 << 10;
/// The bytes of a block before its key.
pub const BLOCK_HEADER_BYTES: u64 = 64;

/// The number of the type of an item of memcached, which is a string with a tail.
pub const TYPE_ITEM: u64 = ValueType::String as u64 | Header::ITEM;
/// The bytes behind the value of an item.
pub const ITEM_TAIL_BYTES: usize = 13;
/// Where its state is in the tail of an item.
pub const ITEM_STATE_AT: usize = 12;
/// The bit of that state which says that the value is stale.
pub const ITEM_STALE: u8 = 1;
/// The bit of that state which says that an empty value is none: a client has been told to make it.
pub const ITEM_IN_THE_MAKING: u8 = 2;

/// Word positions in the root.
pub mod root {
    /// Identifies the layout.
    pub const MAGIC: u64 = 0;
    /// The layout's version.
    pub const VERSION: u64 = 8;
    /// Odd while one-sided reads are off; cooperative.
    pub const GENERATION: u64 = 16;
    /// Grows whenever a segment appears or is retired.
    pub const SEGMENT_EPOCH: u64 = 24;
    /// The name of the key hash, [`base::hash::INDEX_HASH`].
    pub const HASH: u64 = 32;
    /// The number of shards.
    pub const SHARD_COUNT: u64 = 40;
    /// The number of databases.
    pub const DATABASE_COUNT: u64 = 48;
    /// The size of a segment.
    pub const SEGMENT_BYTES: u64 = 56;
    /// The offset of the slab region.
    pub const SLAB_BASE: u64 = 64;
    /// The offset of the extent region.
    pub const EXTENT_BASE: u64 = 72;
    /// The size of the whole range.
    pub const SPAN_BYTES: u64 = 80;
    /// For how many reads each access that a reader reports stands; 0 where none is wanted.
    pub const TOUCH_PERIOD: u64 = 88;
    /// The offset of the upload region; the end of the range where there is none.
    pub const UPLOAD_BASE: u64 = 96;
    /// The bytes of values that the views of one session may hold; 0 where there is no limit.
    /// Cooperative.
    pub const VIEW_SHARE: u64 = 104;
    /// The words that key the hash.
    pub const HASH_KEY: [u64; 4] = [112, 120, 128, 136];
}

/// Word positions in a table header.
pub mod table_header {
    /// Odd during directory change, flush, swap and while MULTI holds the shard.
    pub const SEQUENCE: u64 = 0;
    /// The number of home buckets; 0 where there is no table.
    pub const BUCKET_COUNT: u64 = 8;
    /// The offset of the directory.
    pub const DIRECTORY: u64 = 16;
}

/// Word positions in an extent's block.
pub mod block {
    /// The allocator's word.
    pub const TAG: u64 = 0;
    /// Who refers to the block.
    pub const OWNER: u64 = 8;
    /// Milliseconds since the epoch; meaningful where the entry header's TTL bit is set.
    pub const EXPIRY: u64 = 16;
    /// The position in the table's array of entries that expire.
    pub const VOLATILE: u64 = 24;
    /// The length of the key in bytes.
    pub const KEY_LENGTH: u64 = 32;
    /// The length of the value in bytes.
    pub const VALUE_LENGTH: u64 = 40;
    /// The room for the value in bytes.
    pub const VALUE_CAPACITY: u64 = 48;
    /// Where the value lies in the upload region; 0 where it follows the key.
    pub const VALUE_AT: u64 = 56;
}

/// Returns where the table header of (`database`, `shard`) lies.
pub fn table_header_offset(database: u64, shard: u64, shard_count: u64) -> u64 {
    TABLE_HEADERS + (database * shard_count + shard) * LINE_BYTES
}

/// Returns the index of the home bucket of `hash` in a table of `bucket_count` buckets
/// (linear hashing: buckets past the split point use one bit less).
#[inline]
pub fn home_bucket(hash: u64, bucket_count: u64) -> u64 {
    let mask = u64::MAX >> bucket_count.leading_zeros();
    let bucket = hash & mask;
    if bucket < bucket_count { bucket } else { bucket & (mask >> 1) }
}

/// Returns the tag of `hash`: `1..=255`.
#[inline]
pub fn tag_of(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

/// The type of a value, as stored in the entry header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// Bytes.
    String = 1,
    /// Elements in order.
    List = 2,
    /// Members, each once.
    Set = 3,
    /// Members with scores.
    SortedSet = 4,
    /// Fields with values.
    Hash = 5,
    /// Entries in order, and groups of consumers.
    Stream = 6,
}

/// The type nibble of a free slab item; never that of an entry.
pub const TYPE_FREE: u64 = 0xF;

/// How a value is stored, with the names that OBJECT ENCODING prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// A canonical 64-bit decimal integer.
    Int = 1,
    /// A string of at most 44 bytes, never changed in place.
    Embstr = 2,
    /// Any other string.
    Raw = 3,
    /// No string: the value says where the server keeps it, and how many elements it has.
    Handle = 4,
    /// No string: the value begins with a listpack of Redis.
    Listpack = 5,
    /// No string: the value begins with an intset of Redis.
    Intset = 6,
    /// A string, and behind it what memcached's clients store beside one. Of its number an entry
    /// header has the low three bits where it has those of any encoding, the fourth in the type.
    Item = 8,
}

/// For how long a value may be read as a stale one once its time has passed. What is not a multiple
/// of the unit that the length has is rounded up: up to 17 minutes each millisecond counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grace(u32);

impl Grace {
    /// The longest, in milliseconds: about 397 days.
    pub const MS_MAX: u64 = ((1 << Grace::NUMBER_BITS) - 1) << Grace::SHIFT_MAX;
    const NUMBER_BITS: u32 = 20;
    const SHIFT_MAX: u32 = 15;
    const POSITION_BITS: u32 = 40;
    const POSITION: u64 = (1 << Grace::POSITION_BITS) - 1;

    /// Returns the shortest grace that is no shorter than `ms`.
    ///
    /// # Panics
    /// When `ms` is above [`Grace::MS_MAX`].
    pub fn at_least(ms: u64) -> Grace {
        assert!(ms <= Grace::MS_MAX, "the caller has looked");
        let fits = |shift: &u32| ms.div_ceil(1 << shift) < 1 << Grace::NUMBER_BITS;
        let shift = (0..=Grace::SHIFT_MAX).find(fits).expect("the longest fits");
        Grace((ms.div_ceil(1 << shift) as u32) << 4 | shift)
    }

    /// Returns the length in milliseconds; 0 is none.
    pub fn ms(self) -> u64 {
        u64::from(self.0 >> 4) << (self.0 & 0xF)
    }

    /// Returns the grace beside a volatile position in `word`.
    pub(crate) fn beside(word: u64) -> Grace {
        Grace((word >> Grace::POSITION_BITS) as u32)
    }

    /// Returns the volatile position in `word`.
    pub(crate) fn position_in(word: u64) -> u64 {
        word & Grace::POSITION
    }

    /// Returns the word of `position` and this grace.
    pub(crate) fn with_position(self, position: u64) -> u64 {
        debug_assert_eq!(position & !Grace::POSITION, 0, "there are fewer entries");
        u64::from(self.0) << Grace::POSITION_BITS | position
    }
}

/// What an entry remembers of its accesses: a word whose meaning is its caller's, in one of two
/// forms, so that a mark made for another purpose is told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessMark {
    /// The mark.
    pub word: u32,
    /// Whether it is of the form that counts accesses.
    pub counts: bool,
}

/// How much dearer than others an entry is to have back: a number from 1 on, of which the five
/// highest bits are kept.
///
/// Up to 31 the byte is the number; above, its high four bits less one say by how many bits a
/// number is shifted that has a one and then the low four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost(u8);

impl Cost {
    /// That of an entry of which nothing is known.
    pub const ONE: Cost = Cost(1);
    /// The highest number that a client may give.
    pub const MAX: u64 = 65_535;
    const MANTISSA_BITS: u32 = 4;

    /// Returns the highest cost that is not above `number`; `None` where that is no cost.
    pub fn of(number: u64) -> Option<Cost> {
        if !(1..=Cost::MAX).contains(&number) {
            return None;
        }
        let shift = number.ilog2().saturating_sub(Cost::MANTISSA_BITS);
        // The one that the number begins with adds another step to the high bits.
        Some(Cost(((shift as u8) << Cost::MANTISSA_BITS) + (number >> shift) as u8))
    }

    /// Returns the number.
    pub fn number(self) -> u64 {
        let high = u32::from(self.0 >> Cost::MANTISSA_BITS);
        let shift = high.saturating_sub(1);
        (u64::from(self.0) - (u64::from(shift) << Cost::MANTISSA_BITS)) << shift
    }

    pub(crate) fn byte(self) -> u8 {
        self.0
    }

    pub(crate) fn from_byte(byte: u8) -> Cost {
        Cost(byte)
    }
}

/// The entry header: one word, see the drawing above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header(pub u64);

impl Header {
    const ENCODING_SHIFT: u32 = 4;
    const ENCODING_BITS: u64 = 7;
    const MARK_COUNTS: u64 = 1 << 7;
    const TTL: u64 = 1 << 8;
    const WON: u64 = 1 << 9;
    const FETCHED: u64 = 1 << 10;
    const COSTED: u64 = 1 << 11;
    const LARGE: u64 = 1 << 12;
    const LONG: u64 = 1 << 13;
    const ROOMY: u64 = 1 << 14;
    const MARK_SHIFT: u32 = 15;
    const MARK: u64 = 0xFFFF_FFFF << Header::MARK_SHIFT | Header::MARK_COUNTS;
    /// An entry with any of these is not plain.
    const NOT_PLAIN: u64 =
        Header::TTL | Header::COSTED | Header::LARGE | Header::LONG | Header::ROOMY;
    const KEY_LENGTH_SHIFT: u32 = 47;
    const VALUE_LENGTH_SHIFT: u32 = 54;
    const LENGTHS: u64 = u64::MAX << Header::KEY_LENGTH_SHIFT;
    const COST_SHIFT: u32 = 54;
    /// The bit by which the number of an item's type differs from that of a string; and the number
    /// of its encoding, so that no branch is needed to set it.
    const ITEM: u64 = Encoding::Item as u64;

    /// Returns a header with `value_type`, `encoding` and `mark`; all else zero.
    pub fn new(value_type: ValueType, encoding: Encoding, mark: AccessMark) -> Header {
        Header(value_type as u64 | Header::bits_of(encoding)).with_mark(mark)
    }

    /// Returns what `encoding` sets: its number, and the bit of an item in that of the type.
    #[inline(always)]
    fn bits_of(encoding: Encoding) -> u64 {
        let number = encoding as u64;
        (number & Header::ENCODING_BITS) << Header::ENCODING_SHIFT | number & Header::ITEM
    }

    /// Returns the type's number.
    pub fn type_bits(self) -> u64 {
        self.0 & 0xF
    }

    /// Returns the type.
    ///
    /// # Panics
    /// When the bits name no type: the header is not one that the writer stored.
    pub fn value_type(self) -> ValueType {
        match self.type_bits() {
            1 | TYPE_ITEM => ValueType::String,
            2 => ValueType::List,
            3 => ValueType::Set,
            4 => ValueType::SortedSet,
            5 => ValueType::Hash,
            6 => ValueType::Stream,
            bits => panic!("entry type {bits} does not exist"),
        }
    }

    /// Returns the bits of the encoding; unchecked, where a reader may see anything.
    #[inline(always)]
    pub fn encoding_bits(self) -> u64 {
        (self.0 >> Header::ENCODING_SHIFT) & Header::ENCODING_BITS
    }

    /// Returns the encoding.
    ///
    /// # Panics
    /// When the bits name no encoding.
    pub fn encoding(self) -> Encoding {
        match self.encoding_bits() {
            1 => Encoding::Int,
            2 => Encoding::Embstr,
            3 => Encoding::Raw,
            4 => Encoding::Handle,
            5 => Encoding::Listpack,
            6 => Encoding::Intset,
            0 if self.is_item() => Encoding::Item,
            bits => panic!("encoding {bits} does not exist"),
        }
    }

    /// Returns whether the entry is an item of memcached.
    #[inline]
    pub fn is_item(self) -> bool {
        self.type_bits() == TYPE_ITEM
    }

    /// Returns whether the entry is a string, be it an item of memcached.
    #[inline]
    pub fn is_string(self) -> bool {
        self.type_bits() & !Header::ITEM == ValueType::String as u64
    }

    /// Returns the header with `encoding`.
    pub fn with_encoding(self, encoding: Encoding) -> Header {
        let replaced = Header::ENCODING_BITS << Header::ENCODING_SHIFT | Header::ITEM;
        Header(self.0 & !replaced | Header::bits_of(encoding))
    }

    /// Returns whether the entry has a time to live.
    pub fn has_ttl(self) -> bool {
        self.0 & Header::TTL != 0
    }

    /// Returns the header with or without a time to live.
    pub fn with_ttl(self, ttl: bool) -> Header {
        Header(if ttl { self.0 | Header::TTL } else { self.0 & !Header::TTL })
    }

    /// Returns whether the entry lies in an extent.
    pub fn is_large(self) -> bool {
        self.0 & Header::LARGE != 0
    }

    /// Returns the header of a large entry: lengths zero, they stand in the block.
    pub fn as_large(self) -> Header {
        let cleared = Header::LONG | Header::ROOMY | Header::LENGTHS;
        Header(self.0 & !cleared | Header::LARGE)
    }

    /// Returns whether the item of a small entry has room for more than the entry.
    pub fn is_roomy(self) -> bool {
        self.0 & Header::ROOMY != 0
    }

    /// Returns the header of an entry whose item has room for more.
    pub fn roomy(self) -> Header {
        Header(self.0 | Header::ROOMY)
    }

    /// Returns the bytes that the item of a small entry with this header has to have where the
    /// entry takes `bytes`. Depends on nothing else, so that what an entry takes tells its item's
    /// size class.
    #[inline]
    pub fn item_bytes(self, bytes: u64) -> u64 {
        if self.0 & (Header::ROOMY | Header::COSTED) == 0 {
            bytes
        } else {
            self.larger_item_bytes(bytes)
        }
    }

    /// As [`Header::item_bytes`]; apart, as most entries are neither roomy nor costed.
    #[inline(never)]
    fn larger_item_bytes(self, bytes: u64) -> u64 {
        // The largest are long, and have their cost in the header.
        let bytes = (bytes + u64::from(self.is_costed())).min(SMALL_ENTRY_BYTES_MAX);
        if self.is_roomy() { roomy_item_bytes(bytes) } else { bytes }
    }

    /// Returns whether the entry knows a cost.
    #[inline]
    pub fn is_costed(self) -> bool {
        self.0 & Header::COSTED != 0
    }

    /// Returns the header of an entry that knows a cost.
    pub(crate) fn costed(self) -> Header {
        Header(self.0 | Header::COSTED)
    }

    /// Returns whether the header of the entry has room for a cost, as its lengths are elsewhere.
    pub(crate) fn has_cost_room(self) -> bool {
        self.is_large() || self.is_long()
    }

    /// Returns the cost in the header of an entry that is costed, and large or long.
    pub(crate) fn cost(self) -> Cost {
        Cost((self.0 >> Header::COST_SHIFT) as u8)
    }

    /// Returns the header with `cost`, where it is that of a large or long entry.
    pub(crate) fn with_cost(self, cost: Cost) -> Header {
        let others = self.costed().0 & !(0xFF << Header::COST_SHIFT);
        Header(others | u64::from(cost.0) << Header::COST_SHIFT)
    }

    /// Returns whether the lengths follow in a word of their own.
    pub fn is_long(self) -> bool {
        self.0 & Header::LONG != 0
    }

    /// Returns the header of a small entry with these lengths, and whether it needs the long word.
    pub fn with_lengths(self, key_length: u64, value_length: u64) -> Header {
        let base = self.0 & !(Header::LARGE | Header::LONG | Header::LENGTHS);
        if are_short(key_length, value_length) {
            let key_length = key_length << Header::KEY_LENGTH_SHIFT;
            Header(base | key_length | value_length << Header::VALUE_LENGTH_SHIFT)
        } else {
            Header(base | Header::LONG)
        }
    }

    /// Returns the short key length; 0 in a long or large entry.
    pub fn short_key_length(self) -> u64 {
        (self.0 >> Header::KEY_LENGTH_SHIFT) & (KEY_BYTES_LONG - 1)
    }

    /// Returns the short value length; of a long or large entry what it costs, or 0.
    pub fn short_value_length(self) -> u64 {
        self.0 >> Header::VALUE_LENGTH_SHIFT
    }

    /// Returns what the entry remembers of its accesses.
    #[inline]
    pub fn mark(self) -> AccessMark {
        AccessMark {
            word: (self.0 >> Header::MARK_SHIFT) as u32,
            counts: self.0 & Header::MARK_COUNTS != 0,
        }
    }

    /// Returns whether a client of memcached has fetched the entry since it was stored.
    pub fn is_fetched(self) -> bool {
        self.0 & Header::FETCHED != 0
    }

    /// Returns whether a client of memcached has been told to make the value anew.
    pub fn is_won(self) -> bool {
        self.0 & Header::WON != 0
    }

    /// Returns the header of an entry whose value a client has been told to make anew.
    pub fn as_won(self) -> Header {
        Header(self.0 | Header::WON)
    }

    /// Returns the header of an entry that a client of memcached fetches.
    #[inline]
    pub fn as_fetched(self) -> Header {
        Header(self.0 | Header::FETCHED)
    }

    /// Returns the header with `mark`. It may change at any time; readers ignore it.
    #[inline]
    pub fn with_mark(self, mark: AccessMark) -> Header {
        let counts = if mark.counts { Header::MARK_COUNTS } else { 0 };
        Header(self.0 & !Header::MARK | u64::from(mark.word) << Header::MARK_SHIFT | counts)
    }

    /// Returns whether the entry is small, its lengths stand in the header, and it has neither a
    /// time to live nor a cost nor room for more, as most have: key and value follow the header.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.0 & Header::NOT_PLAIN == 0
    }

    /// Returns whether the entry is plain, with its value in it, and its mark counts accesses.
    #[inline]
    pub fn is_plain_and_counted(self) -> bool {
        self.0 & (Header::NOT_PLAIN | Header::MARK_COUNTS) == Header::MARK_COUNTS
            && self.encoding_bits() != Encoding::Handle as u64
    }

    /// Returns the bytes between a small entry's reference and its key.
    pub fn prefix_bytes(self) -> u64 {
        8 + if self.is_long() { 8 } else { 0 } + if self.has_ttl() { 16 } else { 0 }
    }
}

/// Returns the bytes of the item of a roomy entry that takes `bytes`: up to 25 % more, in steps, so
/// that it moves with one in four or eight of the appends of 8 bytes.
fn roomy_item_bytes(bytes: u64) -> u64 {
    const STEP_BYTES_MIN: u64 = 32;
    let step = (1u64 << bytes.ilog2() >> 2).max(STEP_BYTES_MIN);
    ((bytes + step - 1) & !(step - 1)).min(SMALL_ENTRY_BYTES_MAX)
}

/// A descriptor's second word: where the block lies, which version, whether it changes just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location(pub u64);

impl Location {
    const CHANGING: u64 = 1;
    const OFFSET_MASK: u64 = (1 << 48) - 64;

    /// Returns the location of the block at `offset`, version 0.
    pub fn new(offset: u64) -> Location {
        debug_assert_eq!(offset & !Location::OFFSET_MASK, 0, "block offset {offset:#x}");
        Location(offset)
    }

    /// Returns the offset of the block.
    pub fn offset(self) -> u64 {
        self.0 & Location::OFFSET_MASK
    }

    /// Returns whether the block or its content changes just now.
    pub fn is_changing(self) -> bool {
        self.0 & Location::CHANGING != 0
    }

    /// Returns this location marked as changing.
    pub fn changing(self) -> Location {
        Location(self.0 | Location::CHANGING)
    }

    /// Returns the next version, at `offset`, not changing.
    pub fn next_at(self, offset: u64) -> Location {
        debug_assert_eq!(offset & !Location::OFFSET_MASK, 0, "block offset {offset:#x}");
        Location(((self.0 >> 48).wrapping_add(1) << 48) | offset)
    }
}

/// Returns the bytes of a small entry with these lengths, or `None` where it must be large.
pub fn small_entry_bytes(key_length: u64, value_length: u64, ttl: bool) -> Option<u64> {
    let long = if are_short(key_length, value_length) { 0 } else { 8 };
    let total = 8 + long + if ttl { 16 } else { 0 } + key_length + value_length;
    (total <= SMALL_ENTRY_BYTES_MAX).then_some(total)
}

/// Returns whether the header of a small entry has room for these lengths.
#[inline(always)]
fn are_short(key_length: u64, value_length: u64) -> bool {
    key_length < KEY_BYTES_LONG && value_length < VALUE_BYTES_LONG
}

/// Returns where the value starts in a block, after a key of `key_length` bytes.
pub fn block_value_offset(key_length: u64) -> u64 {
    BLOCK_HEADER_BYTES + key_length.next_multiple_of(LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_keeps_each_field_apart() {
        let mark = AccessMark { word: 0xABCD_1234, counts: true };
        let header = Header::new(ValueType::String, Encoding::Raw, mark)
            .with_ttl(true)
            .with_lengths(127, 1023);
        assert_eq!(header.value_type(), ValueType::String);
        assert_eq!(header.encoding(), Encoding::Raw);
        assert_eq!(header.mark(), mark);
        assert_eq!(header.as_large().mark(), mark);
        let other = AccessMark { word: 7, counts: false };
        assert_eq!(header.with_mark(other).mark(), other);
        assert_eq!(header.with_mark(other).with_mark(mark), header);
        assert!(header.has_ttl() && !header.is_large() && !header.is_long());
        assert_eq!((header.short_key_length(), header.short_value_length()), (127, 1023));
        assert!(header.with_lengths(128, 0).is_long());
        let long = header.with_lengths(3, 1024);
        assert!(long.is_long());
        assert_eq!((long.short_key_length(), long.short_value_length()), (0, 0));
        assert_eq!(long.prefix_bytes(), 32);
        assert!(long.as_large().is_large() && !long.as_large().is_long());
    }

    #[test]
    fn plain_and_counted_is_all_that_it_says_at_once() {
        for bits in 0..512_u32 {
            let has = |bit: u32| bits & 1 << bit != 0;
            let mark = AccessMark { word: if has(0) { u32::MAX } else { 0 }, counts: has(1) };
            let encoding = if has(2) { Encoding::Handle } else { Encoding::Raw };
            let mut header = Header::new(ValueType::String, encoding, mark)
                .with_ttl(has(3))
                .with_lengths(if has(4) { 128 } else { 3 }, if has(5) { 1023 } else { 0 });
            header = if has(6) { header.roomy() } else { header };
            header = if has(7) { header.as_large() } else { header };
            header = if has(8) { header.costed() } else { header };
            let wanted = header.is_plain() && mark.counts && !has(2);
            assert_eq!(header.is_plain_and_counted(), wanted, "{bits:b}");
            assert_eq!(header.is_plain(), bits & 0b1_1101_1000 == 0, "{bits:b}");
        }
    }

    #[test]
    fn roomy_items_have_room_for_a_few_appends_and_are_not_much_larger() {
        let mark = AccessMark { word: u32::MAX, counts: true };
        let plain = Header::new(ValueType::String, Encoding::Raw, mark).with_lengths(16, 100);
        let roomy = plain.roomy();
        assert!(!plain.is_roomy() && roomy.is_roomy());
        assert!(roomy.with_lengths(300, 1000).with_ttl(true).with_mark(mark).is_roomy());
        assert!(!roomy.as_large().is_roomy(), "a block knows its capacity");
        assert_eq!((roomy.mark(), roomy.short_value_length()), (mark, 100));
        let mut sizes = std::collections::BTreeSet::new();
        for bytes in 9..=SMALL_ENTRY_BYTES_MAX {
            assert_eq!(plain.item_bytes(bytes), bytes);
            let item = roomy.item_bytes(bytes);
            assert!((bytes..=SMALL_ENTRY_BYTES_MAX).contains(&item));
            assert!(item - bytes < 32.max(bytes / 4), "{bytes}");
            assert_eq!(roomy.item_bytes(item), item, "an item that is filled stays");
            sizes.insert(item);
        }
        assert!(sizes.len() <= 24, "an entry that grows moves seldom: {}", sizes.len());
    }

    #[test]
    fn a_cost_is_exact_while_small_and_never_above_what_was_given() {
        assert_eq!(Cost::of(1), Some(Cost::ONE));
        assert_eq!((Cost::of(0), Cost::of(Cost::MAX + 1)), (None, None));
        for number in 1..=Cost::MAX {
            let cost = Cost::of(number).unwrap();
            let kept = cost.number();
            assert!(kept <= number && number - kept <= number / 16, "{number} as {kept}");
            assert!(number > 31 || kept == number);
            assert_eq!(Cost::of(kept), Some(cost), "it is its own round number");
        }
    }

    #[test]
    fn a_costed_item_has_a_byte_more() {
        let header = Header::new(ValueType::String, Encoding::Raw, AccessMark::default());
        let costed = header.costed();
        assert!(costed.is_costed() && !header.is_costed());
        assert_eq!((costed.item_bytes(20), costed.roomy().item_bytes(64)), (21, 96));
        assert_eq!(costed.item_bytes(SMALL_ENTRY_BYTES_MAX), SMALL_ENTRY_BYTES_MAX);
        let long = costed.with_lengths(3, 1024).with_cost(Cost::from_byte(0xAB));
        assert!(long.is_long() && long.has_cost_room() && !costed.has_cost_room());
        assert_eq!((long.cost(), long.mark()), (Cost::from_byte(0xAB), header.mark()));
    }

    #[test]
    fn an_item_is_a_string_by_a_type_of_its_own() {
        let mark = AccessMark::default();
        let header = Header::new(ValueType::String, Encoding::Item, mark);
        assert!(header.is_item());
        assert_eq!((header.value_type(), header.encoding()), (ValueType::String, Encoding::Item));
        let string = Header::new(ValueType::String, Encoding::Raw, mark);
        assert!(!string.is_item() && string.type_bits() == ValueType::String as u64);
    }

    #[test]
    fn home_bucket_follows_the_split_point() {
        assert_eq!(home_bucket(0b1011, 16), 0b1011);
        assert_eq!(home_bucket(0b1_1011, 16), 0b1011);
        assert_eq!(home_bucket(0b1_0000, 17), 16);
        assert_eq!(home_bucket(0b1_0001, 17), 1);
        assert_eq!(home_bucket(0b1_0001, 18), 17);
        for count in 1..100 {
            for hash in 0..1000 {
                assert!(home_bucket(hash, count) < count);
            }
        }
    }

    #[test]
    fn grace_is_exact_while_short_and_never_shorter_than_asked() {
        for ms in [0, 1, 999, 3_600, 1_048_574, 1_048_575] {
            assert_eq!(Grace::at_least(ms).ms(), ms);
        }
        for shift in 0..35 {
            for ms in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                let grace = Grace::at_least(ms.min(Grace::MS_MAX));
                assert!(grace.ms() >= ms && grace.ms() - ms <= ms >> 19, "{ms}");
                assert_eq!(Grace::at_least(grace.ms()), grace, "it is its own round number");
                let word = grace.with_position(0xAB_CDEF_0123);
                assert_eq!(Grace::beside(word), grace);
                assert_eq!(Grace::position_in(word), 0xAB_CDEF_0123);
            }
        }
        assert_eq!(Grace::at_least(Grace::MS_MAX).ms(), Grace::MS_MAX);
    }

    #[test]
    fn location_counts_versions() {
        let first = Location::new(0x1000);
        let second = first.changing().next_at(0x2040);
        assert!(first.changing().is_changing() && !second.is_changing());
        assert_eq!(second.offset(), 0x2040);
        assert_ne!(first.next_at(0x1000), first);
    }
}
