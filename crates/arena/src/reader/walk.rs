//! One attempt: enter the sequences, follow the index to an entry, and check the sequences again.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Key, UnixMs};

use crate::atomic_copy::{load_bytes, word};
use crate::layout::{
    BLOCK_HEADER_BYTES, BUCKETS_PER_BLOCK, CHAIN_BUCKETS_MAX, Header, ITEM_IN_THE_MAKING,
    ITEM_STATE_AT, ITEM_TAIL_BYTES, LINE_BYTES, LINK_SPILLED, Location, SLOTS_PER_BUCKET,
    SMALL_ENTRY_BYTES_MAX, ValueType, block, block_value_offset, home_bucket, root, table_header,
    tag_of,
};
use crate::prefetch::prefetch;
use crate::protocol_rules::{Rule, holds, linger};
use crate::sequence::{LOW_HALF, WHOLE, settle, still};

use super::{SharedBytes, Target};

/// Why an attempt ends without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There is no such key.
    Absent,
    /// It is not in its chain, which is full; the server knows.
    Spilled,
    /// A client of memcached makes its value: the server knows who waits for it.
    InTheMaking,
    /// There is one, of another type.
    WrongType,
    /// Something changed meanwhile: what was read means nothing.
    Changed,
    /// One-sided reads are off.
    Off,
    /// The mapping is older than the arena.
    NeedSegments,
}

/// The mapped range. Offsets come from memory that changes while it is read, so that each is held
/// against the range before it is followed.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    span_bytes: u64,
    /// Where the upload region starts; the end of the range until that is known.
    upload_base: u64,
}

// SAFETY: a mapping is an address and sizes, bound to no thread; the memory outlives it.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`, and through `&Mapping` the memory is read by atomic loads alone.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `base` and `span_bytes` are those of a `SegmentView` that outlives the mapping.
    pub fn new(base: NonNull<u8>, span_bytes: u64) -> Mapping {
        assert!(
            span_bytes >= 4096 && span_bytes.is_multiple_of(4096),
            "a span of {span_bytes} bytes"
        );
        Mapping { base, span_bytes, upload_base: span_bytes }
    }

    /// Returns the mapping of a range whose upload region starts at `upload_base`.
    pub fn with_uploads(self, upload_base: u64) -> Mapping {
        Mapping { upload_base, ..self }
    }

    /// Returns whether `offset` is a place for an adopted value.
    #[inline(always)]
    fn is_upload(&self, offset: u64) -> bool {
        offset >= self.upload_base && offset.is_multiple_of(LINE_BYTES)
    }

    /// Returns the word at `offset`.
    #[inline(always)]
    pub fn load(&self, offset: u64) -> Result<u64, Stop> {
        Ok(self.word(offset)?.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> Result<&AtomicU64, Stop> {
        if !offset.is_multiple_of(8) || offset > self.span_bytes - 8 {
            return Err(Stop::Changed);
        }
        // SAFETY: by the check above all of the word is inside the range, which is mapped and
        // initialised, be it by zeroes, for as long as the view that outlives `self`. It is
        // aligned: the base is, to a page. It is only loaded from: the memory may be read-only.
        Ok(unsafe { word(self.base.as_ptr().add(offset as usize)) })
    }

    /// Returns the address of `length` bytes at `offset`.
    #[inline(always)]
    pub fn range(&self, offset: u64, length: u64) -> Result<*const u8, Stop> {
        if offset > self.span_bytes || length > self.span_bytes - offset {
            return Err(Stop::Changed);
        }
        // SAFETY: by the check above the sum is at most the size of the range, which is one mapping
        // or allocation: it does not overflow, and leads into it or to its end.
        Ok(unsafe { self.base.as_ptr().add(offset as usize) })
    }

    /// Copies `length` bytes at `offset` to `target`, replacing what is in it.
    #[inline]
    pub fn copy(&self, offset: u64, length: u64, target: &mut impl Target) -> Result<(), Stop> {
        let source = self.range(offset, length)?;
        let room = &mut target.room(length as usize)[..length as usize];
        // SAFETY: `range` has found as many bytes as there is room for inside the range, all of
        // which is mapped; its ends are aligned to words, so that widening leads no further.
        unsafe { load_bytes(source, room) };
        Ok(())
    }

    /// Returns the `length` bytes at `offset` where they lie: those of a small entry, behind which
    /// the range goes on.
    #[inline(always)]
    pub fn shared(&self, offset: u64, length: u64) -> Result<SharedBytes<'_>, Stop> {
        let before = offset % 8;
        let count = (before + length).div_ceil(8) + 1;
        let start = self.range(offset - before, count * 8)?.cast::<AtomicU64>();
        // SAFETY: `range` has found all of the words inside the range, which is mapped and
        // initialised for as long as the view that outlives `self`. They are aligned, as the base
        // is and `before` is taken off, and only loaded from, atomically, as by everyone else.
        let words = unsafe { std::slice::from_raw_parts(start, count as usize) };
        Ok(SharedBytes::new(words, before as usize, length as usize))
    }

    /// Asks the cache for the line of `offset`, which may be outside the range.
    #[inline(always)]
    fn prefetch(&self, offset: u64) {
        prefetch(self.base.as_ptr().wrapping_add(offset as usize));
    }

    /// Returns where the home bucket of `hash` lies in the table whose header is at `table`, as far
    /// as a look without any check tells; `None` where there is no table.
    #[inline(always)]
    fn home_of(&self, table: u64, hash: u64) -> Result<Option<u64>, Stop> {
        let count = self.load(table + table_header::BUCKET_COUNT)?;
        if count == 0 {
            return Ok(None);
        }
        linger(Rule::ReaderChecksHeader);
        let directory = self.load(table + table_header::DIRECTORY)?;
        let bucket = home_bucket(hash, count);
        let first = self.load(directory.wrapping_add(bucket / BUCKETS_PER_BLOCK * 8))?;
        Ok(Some(first.wrapping_add(bucket % BUCKETS_PER_BLOCK * LINE_BYTES)))
    }

    /// Returns the offset that `slot` of `bucket` refers to: five bytes from 19 + 5 * slot on.
    #[inline(always)]
    fn reference(&self, bucket: u64, slot: u64) -> Result<u64, Stop> {
        let at = 19 + 5 * slot;
        let (word, shift) = (bucket + at / 8 * 8, at % 8 * 8);
        let low = self.load(word)? >> shift;
        let high = if shift > 24 { self.load(word + 8)? << (64 - shift) } else { 0 };
        Ok(((low | high) & 0xFF_FFFF_FFFF) * 8)
    }

    /// Returns the link of `bucket`, whose second word is `second`: five bytes from 14 on.
    #[inline(always)]
    fn link(&self, bucket: u64, second: u64) -> Result<u64, Stop> {
        Ok(self.load(bucket + 16)? << 16 & 0xFF_FFFF_FFFF | second >> 48)
    }

    /// Returns whether the bytes at `offset`, a multiple of 8, are `bytes`.
    #[inline(always)]
    fn equals(&self, offset: u64, bytes: &[u8]) -> Result<bool, Stop> {
        let mut at = offset;
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let chunk = chunk.try_into().expect("a chunk of eight");
            if self.load(at)? != u64::from_le_bytes(chunk) {
                return Ok(false);
            }
            at += 8;
        }
        let tail = chunks.remainder();
        if tail.is_empty() {
            return Ok(true);
        }
        let mut image = [0; 8];
        image[..tail.len()].copy_from_slice(tail);
        let mask = u64::MAX >> (64 - 8 * tail.len());
        Ok((self.load(at)? ^ u64::from_le_bytes(image)) & mask == 0)
    }
}

/// An entry as an attempt found it: true once the attempt's check has passed.
pub(super) struct Found {
    header: Header,
    pub value_at: u64,
    pub value_length: u64,
    pub expiry: Option<UnixMs>,
    pub large: Option<Large>,
}

/// What the chain of a key had: a rumour too.
pub(super) enum Chained {
    /// Its entry.
    Found(Found),
    /// No entry of it, and what follows from that.
    Nowhere(Stop),
}

/// Where a large entry's block was said to be.
#[derive(Clone, Copy)]
pub(super) struct Large {
    descriptor: u64,
    location: u64,
}

impl Large {
    /// Returns the offset of the block.
    pub fn block(self) -> u64 {
        Location(self.location).offset()
    }
}

impl Found {
    /// Returns the bits that say what the value is.
    #[inline(always)]
    pub fn encoding_bits(&self) -> u64 {
        self.header.encoding_bits()
    }
}

/// An attempt: what it saw when it entered.
pub(super) struct Walk {
    mapping: Mapping,
    epoch: u64,
    generation: u64,
    table: u64,
    table_sequence: u64,
    /// The home bucket; 0 where there is no table.
    home: u64,
    home_sequence: u64,
}

impl Walk {
    /// Enters the table whose header is at `table` and the home bucket of `hash`. `epoch` is that
    /// of the mapping.
    #[inline(always)]
    pub fn enter(mapping: Mapping, epoch: u64, table: u64, hash: u64) -> Result<Walk, Stop> {
        let generation = enter(mapping.word(root::GENERATION)?).map_err(|_| Stop::Off)?;
        if mapping.load(root::SEGMENT_EPOCH)? != epoch && holds(Rule::ReaderChecksEpoch) {
            return Err(Stop::NeedSegments);
        }
        let table_sequence = enter(mapping.word(table + table_header::SEQUENCE)?)?;
        let mut walk =
            Walk { mapping, epoch, generation, table, table_sequence, home: 0, home_sequence: 0 };
        if let Some(home) = mapping.home_of(table, hash)? {
            walk.home = home;
            walk.home_sequence = enter(mapping.word(home)?)?;
        }
        linger(Rule::ReaderChecksHeader);
        Ok(walk)
    }

    /// Follows the chain to the entry of `key`.
    #[inline(always)]
    pub fn find(&self, key: &Key<'_>) -> Result<Chained, Stop> {
        let tag = tag_of(key.hash);
        let mut bucket = self.home;
        if bucket == 0 {
            return Ok(Chained::Nowhere(Stop::Absent));
        }
        for _ in 0..CHAIN_BUCKETS_MAX {
            let first = self.mapping.load(bucket)?;
            let second = self.mapping.load(bucket + 8)?;
            let mut slots = matching(first, second, tag);
            while slots != 0 {
                let reference = self.mapping.reference(bucket, slots.trailing_zeros() as u64)?;
                // Most entries end in the next line, whose address would else be known only once
                // the header has come.
                self.mapping.prefetch(reference.wrapping_add(LINE_BYTES));
                linger(Rule::ReaderChecksBucket);
                if let Some(found) = self.entry(reference, key.bytes)? {
                    return Ok(Chained::Found(found));
                }
                slots &= slots - 1;
            }
            match self.mapping.link(bucket, second)? {
                0 => return Ok(Chained::Nowhere(Stop::Absent)),
                LINK_SPILLED => return Ok(Chained::Nowhere(Stop::Spilled)),
                link => bucket = link * LINE_BYTES,
            }
        }
        Err(Stop::Changed)
    }

    /// Returns the entry at `reference` if its key is `key`.
    #[inline(always)]
    fn entry(&self, reference: u64, key: &[u8]) -> Result<Option<Found>, Stop> {
        let header = Header(self.mapping.load(reference)?);
        if header.is_large() {
            return self.large_entry(reference, header, key);
        }
        let (key_length, value_length) = if header.is_long() {
            let lengths = self.mapping.load(reference + 8)?;
            (lengths & 0xFFFF_FFFF, lengths >> 32)
        } else {
            (header.short_key_length(), header.short_value_length())
        };
        if key_length != key.len() as u64 {
            return Ok(None);
        }
        let key_at = reference + header.prefix_bytes();
        if !self.mapping.equals(key_at, key)? {
            return Ok(None);
        }
        if key_length + value_length > SMALL_ENTRY_BYTES_MAX {
            return Err(Stop::Changed);
        }
        let expiry = match header.has_ttl() {
            true => Some(UnixMs(self.mapping.load(key_at - 16)? as i64)),
            false => None,
        };
        let value_at = key_at + key_length;
        Ok(Some(Found { header, value_at, value_length, expiry, large: None }))
    }

    #[cold]
    fn large_entry(
        &self,
        descriptor: u64,
        header: Header,
        key: &[u8],
    ) -> Result<Option<Found>, Stop> {
        let location = enter(self.mapping.word(descriptor + 8)?)?;
        let large = Large { descriptor, location };
        let start = large.block();
        let key_length = key.len() as u64;
        let is_equal = self.mapping.load(start + block::KEY_LENGTH)? == key_length
            && self.mapping.equals(start + BLOCK_HEADER_BYTES, key)?;
        if !is_equal {
            // A block that slides while it is compared is no proof of another key: slides change
            // the location alone.
            settle::<AtomicU64>();
            return if self.is_still(large)? { Ok(None) } else { Err(Stop::Changed) };
        }
        let expiry = match header.has_ttl() {
            true => Some(UnixMs(self.mapping.load(start + block::EXPIRY)? as i64)),
            false => None,
        };
        let elsewhere = self.mapping.load(start + block::VALUE_AT)?;
        let value_at = match elsewhere {
            0 => start + block_value_offset(key_length),
            _ if self.mapping.is_upload(elsewhere) => elsewhere,
            _ => return Err(Stop::Changed),
        };
        let value_length = self.mapping.load(start + block::VALUE_LENGTH)?;
        self.mapping.range(value_at, value_length)?;
        Ok(Some(Found { header, value_at, value_length, expiry, large: Some(large) }))
    }

    /// Looks again at everything that led to `found`.
    #[inline(always)]
    pub fn check(&self, found: &Found) -> Result<(), Stop> {
        linger(Rule::ReaderChecksBucket);
        settle::<AtomicU64>();
        if let Some(large) = found.large
            && !self.is_still(large)?
        {
            return Err(Stop::Changed);
        }
        self.look_again()
    }

    /// Returns the length of the string that `found` is, without the tail of an item; stops where
    /// it is none.
    #[inline(always)]
    pub fn string_length(&self, found: &Found) -> Result<u64, Stop> {
        if found.header.type_bits() == ValueType::String as u64 {
            return Ok(found.value_length);
        }
        self.item_length(found)
    }

    #[cold]
    fn item_length(&self, found: &Found) -> Result<u64, Stop> {
        if found.header.is_item() {
            let length = found.value_length.checked_sub(ITEM_TAIL_BYTES as u64);
            if length == Some(0) && self.item_state(found)? & ITEM_IN_THE_MAKING != 0 {
                self.check(found)?;
                return Err(Stop::InTheMaking);
            }
            return length.ok_or(Stop::Changed);
        }
        self.check(found)?;
        Err(Stop::WrongType)
    }

    /// Returns the state of the item without a value that `found` is.
    fn item_state(&self, found: &Found) -> Result<u8, Stop> {
        let at = found.value_at + ITEM_STATE_AT as u64;
        let word = self.mapping.load(at & !7)?;
        Ok((word >> (at % 8 * 8)) as u8)
    }

    /// Stops where `found` is not of `value_type`.
    #[inline(always)]
    pub fn need_type(&self, found: &Found, value_type: ValueType) -> Result<(), Stop> {
        if found.header.type_bits() == value_type as u64 {
            return Ok(());
        }
        self.check(found)?;
        Err(Stop::WrongType)
    }

    /// Looks again at what led to the chain that was searched in vain.
    #[inline(always)]
    pub fn check_index(&self) -> Result<(), Stop> {
        settle::<AtomicU64>();
        self.look_again()
    }

    #[inline(always)]
    fn look_again(&self) -> Result<(), Stop> {
        let stands = |rule: Rule, offset: u64, seen: u64, mask: u64| {
            Ok(still(self.mapping.word(offset)?, seen, mask) || !holds(rule))
        };
        let in_table = self.table + table_header::SEQUENCE;
        if !stands(Rule::ReaderChecksHeader, in_table, self.table_sequence, WHOLE)?
            || (self.home != 0
                && !stands(Rule::ReaderChecksBucket, self.home, self.home_sequence, LOW_HALF)?)
        {
            return Err(Stop::Changed);
        }
        if !stands(Rule::ReaderChecksHeader, root::GENERATION, self.generation, WHOLE)? {
            return Err(Stop::Off);
        }
        if !stands(Rule::ReaderChecksEpoch, root::SEGMENT_EPOCH, self.epoch, WHOLE)? {
            return Err(Stop::NeedSegments);
        }
        Ok(())
    }

    #[inline(always)]
    fn is_still(&self, large: Large) -> Result<bool, Stop> {
        let cell = self.mapping.word(large.descriptor + 8)?;
        Ok(still(cell, large.location, WHOLE) || !holds(Rule::ReaderChecksLocation))
    }
}

/// Asks the cache for what reads of several keys are about to walk, in steps, so that the misses of
/// all keys overlap in each. It looks without any check, and what it finds means nothing but where
/// to look next: where it is wrong, a line is fetched in vain.
#[derive(Clone, Copy, Default)]
pub(super) struct Foresight {
    /// The bucket that was fetched last; 0 where there is none, or none any more.
    bucket: u64,
    /// The entry, or the descriptor, that was fetched; 0 before.
    entry: u64,
}

impl Foresight {
    /// Fetches the home bucket of `hash` in the table whose header is at `table`.
    #[inline(always)]
    pub fn of_bucket(mapping: &Mapping, table: u64, hash: u64) -> Foresight {
        let bucket = mapping.home_of(table, hash).ok().flatten().unwrap_or(0);
        mapping.prefetch(bucket);
        Foresight { bucket, entry: 0 }
    }

    /// Fetches the entry, or the descriptor, that the bucket may mean by the tag of `hash`; where
    /// it means none, the next bucket of the chain.
    #[inline(always)]
    pub fn follow(&mut self, mapping: &Mapping, hash: u64) {
        if self.bucket == 0 {
            return;
        }
        (self.bucket, self.entry) = self.behind_bucket(mapping, hash).unwrap_or((0, 0));
        let fetched = if self.entry != 0 { self.entry } else { self.bucket };
        mapping.prefetch(fetched);
        mapping.prefetch(fetched.wrapping_add(LINE_BYTES));
    }

    /// Returns the next bucket, or the entry.
    #[inline(always)]
    fn behind_bucket(&self, mapping: &Mapping, hash: u64) -> Result<(u64, u64), Stop> {
        let (first, second) =
            (mapping.load(self.bucket)?, mapping.load(self.bucket.wrapping_add(8))?);
        match matching(first, second, tag_of(hash)) {
            0 => match mapping.link(self.bucket, second)? {
                LINK_SPILLED => Ok((0, 0)),
                link => Ok((link * LINE_BYTES, 0)),
            },
            slots => Ok((0, mapping.reference(self.bucket, u64::from(slots.trailing_zeros()))?)),
        }
    }

    /// Fetches the block of a large entry.
    #[inline(always)]
    pub fn follow_to_block(&self, mapping: &Mapping) {
        let is_large = |header: u64| Header(header).is_large();
        if self.entry == 0 || !mapping.load(self.entry).is_ok_and(is_large) {
            return;
        }
        if let Ok(location) = mapping.load(self.entry.wrapping_add(8)) {
            let block = Location(location).offset();
            mapping.prefetch(block);
            mapping.prefetch(block.wrapping_add(LINE_BYTES));
        }
    }
}

/// Enters the sequence in `cell`.
#[inline(always)]
fn enter(cell: &AtomicU64) -> Result<u64, Stop> {
    match crate::sequence::enter(cell) {
        Some(seen) => Ok(seen),
        None if holds(Rule::ReaderMindsOdd) => Err(Stop::Changed),
        None => Ok(cell.load(Ordering::Acquire)),
    }
}

/// Returns the slots whose tag is `tag`, as a bit mask, from a bucket's first two words: the tags
/// are bytes 5 to 13.
#[inline(always)]
fn matching(first: u64, second: u64, tag: u8) -> u64 {
    const LOW_SEVEN: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let difference = (first >> 40 | second << 24) ^ (u64::from(tag) * 0x0101_0101_0101_0101);
    // The top bit of each byte that is zero, exactly: no carry leaves a byte.
    let zeroes = !(((difference & LOW_SEVEN) + LOW_SEVEN) | difference | LOW_SEVEN);
    let eight = (zeroes >> 7).wrapping_mul(GATHER) >> 56;
    let ninth = u64::from((second >> 40) as u8 == tag);
    const { assert!(SLOTS_PER_BUCKET == 9) };
    eight | ninth << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_agrees_with_a_plain_loop() {
        let mut random = base::prng::Prng::new(5);
        for _ in 0..20_000 {
            let (mut first, mut second) = (random.next(), random.next());
            let tag = random.below(4) as u8 * 85;
            for byte in 0..8 {
                if random.below(3) == 0 {
                    first = first & !(0xFF << (8 * byte)) | u64::from(tag) << (8 * byte);
                    second = second & !(0xFF << (8 * byte)) | u64::from(tag ^ 1) << (8 * byte);
                }
            }
            let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
            let plain = (0..9).filter(|&slot| bytes[5 + slot] == tag);
            let expected = plain.fold(0, |mask, slot| mask | 1 << slot);
            assert_eq!(matching(first, second, tag), expected, "{first:x} {second:x} {tag}");
        }
    }
}
