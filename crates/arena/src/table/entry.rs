//! The writer side's view of one entry.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use base::UnixMs;

use crate::layout::{
    AccessMark, BLOCK_HEADER_BYTES, Cost, Encoding, Grace, Header, Location, ValueType, block,
    block_value_offset,
};
use crate::mapped_range::MappedRange;
use crate::pins::SessionPins;
use crate::size_class::{class_bytes, class_of, item_class};
use crate::slab::Slabs;

/// An entry, for as long as its table is not changed.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    memory: &'a MappedRange,
    reference: u64,
    header: Header,
    borrow: PhantomData<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// The bytes of the index that an entry costs on average: a slot at the usual load, and its
    /// share of the overflow buckets.
    const INDEX_BYTES: u64 = 11;

    #[inline(always)]
    pub(super) fn at(memory: &'a MappedRange, reference: u64) -> Entry<'a> {
        let header = Header(memory.word(reference).load(Ordering::Relaxed));
        Entry { memory, reference, header, borrow: PhantomData }
    }

    /// Returns the header word.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Makes the entry remember `mark` of its accesses; this copy of its header stays as it is.
    /// The caller has written nothing to the header since it was read: that would be lost. Writes
    /// only a mark that is new; readers in other processes ignore it.
    #[inline(always)]
    pub fn touch(&self, mark: AccessMark) {
        let word = self.memory.word(self.reference);
        debug_assert_eq!(word.load(Ordering::Relaxed), self.header.0, "written since");
        let header = self.header.with_mark(mark);
        if header != self.header {
            word.store(header.0, Ordering::Relaxed);
        }
    }

    /// Returns the key.
    #[inline(always)]
    pub fn key(&self) -> &'a [u8] {
        let (key, length, _, _) = self.parts();
        self.slice(key, length)
    }

    /// Returns the value.
    ///
    /// # Panics
    /// When a client can write it: the caller has seen to it that the table owns it.
    #[inline(always)]
    pub fn value(&self) -> &'a [u8] {
        assert!(!self.is_adopted(), "nobody else writes what a slice is made of");
        let (_, _, value, length) = self.parts();
        self.slice(value, length)
    }

    /// Returns where in the arena's range the value begins.
    pub fn value_offset(&self) -> u64 {
        if self.is_adopted() { self.value_at() } else { self.parts().2 }
    }

    /// Returns the length of the value in bytes.
    #[inline]
    pub fn value_length(&self) -> u64 {
        match self.header.is_large() {
            true => self.load(self.block() + block::VALUE_LENGTH),
            false => self.parts().3,
        }
    }

    /// Returns whether the value lies in upload memory, where a client can write it.
    #[inline]
    pub fn is_adopted(&self) -> bool {
        self.header.is_large() && self.value_at() != 0
    }

    /// Returns the value, or a copy of it in `buffer` where a client can write it.
    pub fn value_or_copy<'b>(&self, buffer: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.is_adopted() {
            return self.value();
        }
        buffer.clear();
        buffer.resize(self.value_length() as usize, 0);
        self.memory.load_upload(self.value_at(), buffer);
        buffer
    }

    /// Returns the type.
    pub fn value_type(&self) -> ValueType {
        self.header.value_type()
    }

    /// Returns the encoding.
    pub fn encoding(&self) -> Encoding {
        self.header.encoding()
    }

    /// Returns when the entry expires.
    #[inline]
    pub fn expiry(&self) -> Option<UnixMs> {
        if !self.header.has_ttl() {
            return None;
        }
        let at = expiry_word(self.memory, self.reference, self.header);
        Some(UnixMs(self.memory.word(at).load(Ordering::Relaxed) as i64))
    }

    /// Returns for how long the value may be read as a stale one once its time has passed; none
    /// where it does not expire.
    pub fn grace(&self) -> Grace {
        if !self.header.has_ttl() {
            return Grace::default();
        }
        Grace::beside(self.load(expiry_word(self.memory, self.reference, self.header) + 8))
    }

    /// Returns what the entry remembers of its accesses.
    #[inline]
    pub fn mark(&self) -> AccessMark {
        self.header.mark()
    }

    /// Returns how much dearer than others the entry is to have back.
    #[inline]
    pub fn cost(&self) -> Cost {
        if self.header.is_costed() { self.kept_cost() } else { Cost::ONE }
    }

    #[cold]
    fn kept_cost(&self) -> Cost {
        match self.header.has_cost_room() {
            true => self.header.cost(),
            false => Cost::from_byte((self.load(self.last_word()) >> 56) as u8),
        }
    }

    /// Returns where the last word of the item of a small entry is.
    pub(super) fn last_word(&self) -> u64 {
        self.reference + class_bytes(self.class()) - 8
    }

    /// Returns the bytes of memory that the entry uses, its share of the index included, and the
    /// value also where it lies in upload memory.
    #[inline(always)]
    pub fn memory_bytes(&self) -> u64 {
        if self.header.is_plain() {
            self.plain_bytes()
        } else if self.header.is_large() {
            self.large_memory_bytes()
        } else {
            self.small_bytes()
        }
    }

    /// Returns the word of its mark and its memory where it has neither a time to live nor a cost,
    /// its value lies in it, and its mark counts accesses: of most entries without a time to live
    /// that the adaptive policy ranks one question tells all that.
    #[inline(always)]
    pub fn plain_and_counted(&self) -> Option<(u32, u64)> {
        self.header.is_plain_and_counted().then(|| (self.header.mark().word, self.plain_bytes()))
    }

    /// As [`Entry::memory_bytes`], without a value in upload memory: what there is more of once the
    /// entry is gone.
    #[inline(always)]
    pub fn arena_bytes(&self) -> u64 {
        if self.header.is_large() { self.large_arena_bytes() } else { self.small_bytes() }
    }

    /// As [`Entry::small_bytes`] of an entry whose header is plain: each one that eviction draws
    /// passes here.
    #[inline(always)]
    fn plain_bytes(&self) -> u64 {
        let bytes = 8 + self.header.short_key_length() + self.header.short_value_length();
        let bytes = class_bytes(class_of(bytes)) + Entry::INDEX_BYTES;
        debug_assert_eq!(bytes, self.small_bytes());
        bytes
    }

    #[inline(always)]
    fn small_bytes(&self) -> u64 {
        class_bytes(self.class()) + self.index_bytes()
    }

    /// Returns its share of the index and of the list of times to live.
    #[inline(always)]
    fn index_bytes(&self) -> u64 {
        Entry::INDEX_BYTES + if self.header.has_ttl() { 8 } else { 0 }
    }

    #[inline(never)]
    fn large_memory_bytes(&self) -> u64 {
        let adopted = if self.is_adopted() { self.value_length() } else { 0 };
        self.large_arena_bytes() + adopted.next_multiple_of(64)
    }

    /// Returns the memory of a large entry's descriptor and block, and its share of the index.
    #[inline(never)]
    fn large_arena_bytes(&self) -> u64 {
        let (key_length, block) = (self.key().len() as u64, self.block());
        let value = self.load(block + block::VALUE_CAPACITY).next_multiple_of(64);
        block_value_offset(key_length) + value + 16 + self.index_bytes()
    }

    /// Returns the size class of a small entry, from its lengths: the page header, which knows it
    /// too, would be one more cache miss. An item is always of the smallest class that fits.
    #[inline]
    pub(super) fn class(&self) -> u8 {
        let (_, key_length, _, value_length) = self.parts();
        let bytes = self.header.prefix_bytes() + key_length + value_length;
        let class = item_class(self.header, bytes);
        debug_assert!(Slabs::serves_class(self.memory, self.reference, class));
        class
    }

    pub(super) fn reference(&self) -> u64 {
        self.reference
    }

    /// Returns (key offset, key length, value offset, value length).
    #[inline(always)]
    pub(super) fn parts(&self) -> (u64, u64, u64, u64) {
        if self.header.is_large() {
            return self.large_parts();
        }
        let key = self.reference + self.header.prefix_bytes();
        let (key_length, value_length) = if self.header.is_long() {
            let lengths = self.load(self.reference + 8);
            (lengths & 0xFFFF_FFFF, lengths >> 32)
        } else {
            (self.header.short_key_length(), self.header.short_value_length())
        };
        (key, key_length, key + key_length, value_length)
    }

    #[cold]
    fn large_parts(&self) -> (u64, u64, u64, u64) {
        let block = self.block();
        let key_length = self.load(block + block::KEY_LENGTH);
        let value_length = self.load(block + block::VALUE_LENGTH);
        let key = block + BLOCK_HEADER_BYTES;
        (key, key_length, block + block_value_offset(key_length), value_length)
    }

    /// Returns where the value of a large entry lies in upload memory; 0 where it does not.
    pub(super) fn value_at(&self) -> u64 {
        self.load(self.block() + block::VALUE_AT)
    }

    /// Returns whether the client of the session that `pins` are of holds the value; see
    /// [`SessionPins::hold`].
    pub fn is_held(&self, pins: SessionPins<'_>) -> bool {
        self.large_block().is_some_and(|block| pins.hold(block))
    }

    /// Returns the block of a large entry.
    pub(crate) fn large_block(&self) -> Option<u64> {
        self.header.is_large().then(|| self.block())
    }

    fn block(&self) -> u64 {
        Location(self.load(self.reference + 8)).offset()
    }

    #[inline(always)]
    fn load(&self, offset: u64) -> u64 {
        self.memory.word(offset).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn slice(&self, offset: u64, length: u64) -> &'a [u8] {
        // SAFETY: the lengths are what the writer stored; the range is committed, and nobody
        // writes it while the table is borrowed: changes, moves and frees need `&mut Table`. Of a
        // large entry `Table::overwrite` has it through a change, which reads it for the last time
        // before the block is let go.
        unsafe { std::slice::from_raw_parts(self.memory.pointer(offset), length as usize) }
    }
}

/// Returns where an entry with a time to live keeps it; the volatile position is the word behind.
pub(super) fn expiry_word(memory: &MappedRange, reference: u64, header: Header) -> u64 {
    if header.is_large() {
        let location = Location(memory.word(reference + 8).load(Ordering::Relaxed));
        location.offset() + block::EXPIRY
    } else {
        reference + header.prefix_bytes() - 16
    }
}
