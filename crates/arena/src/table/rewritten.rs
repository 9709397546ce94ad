//! Values that tell their own length: compact collections, and handles. One that has become shorter
//! may stay where it is, with bytes behind it that mean nothing, so that to take elements out of a
//! collection needs no memory.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::layout::{Encoding, small_entry_bytes};
use crate::mapped_range::NeedRoom;
use crate::protocol_rules::{Rule, linger};
use crate::size_class::{class_bytes, item_class};

use super::{Content, EntryId, Table};

/// Bytes compared at once.
const STEP: usize = 32;
/// The first bytes, where each form keeps its length: they are compared apart.
const HEAD: usize = 8;
/// As many bytes are written sooner than compared.
const SHORT: usize = 128;
/// A value that has grown above so many bytes has spare ones: one in so many of its own at least.
const SPARE_FROM: u64 = 256;
const SPARE_SHARE: u64 = 16;

impl Table {
    /// Makes `bytes` what the value of the small entry at `id`, whose key is `key`, begins with, in
    /// `encoding`; writes what differs. Type, expiry and mark stay.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed: never where the value was as long before.
    pub fn rewrite(
        &mut self,
        id: EntryId,
        key: &[u8],
        bytes: &[u8],
        encoding: Encoding,
    ) -> Result<EntryId, NeedRoom> {
        match self.rewrite_in_place(id, bytes, encoding) {
            true => Ok(id),
            false => self.rewrite_anew(id, key, bytes, encoding),
        }
    }

    /// As [`Table::rewrite`], where the entry stays in its item; else returns false, and has
    /// changed nothing.
    #[inline]
    pub fn rewrite_in_place(&mut self, id: EntryId, bytes: &[u8], encoding: Encoding) -> bool {
        let entry = self.entry(id);
        let header = entry.header();
        assert!(!header.is_large(), "such a value is that of a small entry");
        let (_, key_length, _, old_length) = entry.parts();
        let length = bytes.len() as u64;
        let kept_length = if length == old_length {
            length
        } else {
            let total = |length| small_entry_bytes(key_length, length, header.has_ttl());
            let class_with =
                |length| item_class(header, total(length).expect("the entry stays small"));
            let (wanted, class) = (class_with(length), class_with(old_length));
            if length < old_length {
                if saves_much(wanted, class) {
                    return false;
                }
                old_length
            } else {
                let is_long = header.with_lengths(key_length, length).is_long();
                if wanted != class || is_long != header.is_long() {
                    return false;
                }
                length
            }
        };
        self.write_changes(id, bytes, encoding, kept_length);
        true
    }

    /// As [`Table::rewrite`], where [`Table::rewrite_in_place`] has returned false.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed: never where the value was as long before.
    pub fn rewrite_anew(
        &mut self,
        id: EntryId,
        key: &[u8],
        bytes: &[u8],
        encoding: Encoding,
    ) -> Result<EntryId, NeedRoom> {
        let entry = self.entry(id);
        let (header, class) = (entry.header(), entry.class());
        let (length, old_length) = (bytes.len() as u64, entry.value_length());
        if length < old_length {
            let compacted_pages = self.compacted_pages;
            let Ok(id) = self.relocate(id, key, bytes, encoding, 0) else {
                self.write_changes(id, bytes, encoding, old_length);
                return Ok(id);
            };
            // Both in one operation would move too many entries.
            if self.compacted_pages == compacted_pages {
                self.evacuate_after_remove(class);
            }
            return Ok(EntryId { reference: self.reference_now(id, key), ..id });
        }
        // As much once more: it often grows again by as much. A longer one, which takes more time
        // to copy, seldom has to be.
        let least = if length > SPARE_FROM { length / SPARE_SHARE } else { 0 };
        let spare = (length - old_length).max(least).min(length / 2);
        let has_spare = header.encoding() == encoding
            && small_entry_bytes(key.len() as u64, length + spare, true).is_some();
        self.relocate(id, key, bytes, encoding, if has_spare { spare } else { 0 })
    }

    /// Writes `bytes` over a part of the value of the small entry at `id`, from `offset` on.
    ///
    /// # Panics
    /// When the value has not so many.
    pub fn rewrite_part(&mut self, id: EntryId, offset: u64, bytes: &[u8]) {
        let entry = self.entry(id);
        let (header, key_length) = (entry.header(), entry.key().len() as u64);
        assert!(!header.is_large(), "such a value is that of a small entry");
        assert!(offset + bytes.len() as u64 <= entry.value_length(), "it is a part of the value");
        let value = id.reference + header.prefix_bytes() + key_length;
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileOverwriting);
        linger(Rule::OddWhileOverwriting);
        self.write_bytes(value + offset, bytes);
        home.end(Rule::OddWhileOverwriting);
    }

    /// Gives the entry at `id` the value `bytes`, `spare` bytes that mean nothing, and the memory
    /// that they need.
    fn relocate(
        &mut self,
        id: EntryId,
        key: &[u8],
        bytes: &[u8],
        encoding: Encoding,
        spare: u64,
    ) -> Result<EntryId, NeedRoom> {
        let entry = self.entry(id);
        let (header, expiry) = (entry.header().with_encoding(encoding), entry.expiry());
        let parts = [bytes, &[], &[]];
        self.put(id, &Content { header, expiry, key, parts, gap: spare, fill: None, spare: 0 })
    }

    /// Writes `bytes` over the start of the value at `id`, which has `length` bytes then, where it
    /// lies; nothing where they are there.
    #[inline]
    fn write_changes(&mut self, id: EntryId, bytes: &[u8], encoding: Encoding, length: u64) {
        let entry = self.entry(id);
        let (header, (_, key_length, value, _)) = (entry.header(), entry.parts());
        let new = header.with_encoding(encoding).with_lengths(key_length, length);
        let old = entry.value();
        let (head, rest) = differences(old, bytes);
        if new == header && old.len() as u64 == length && head.is_empty() && rest.is_empty() {
            return;
        }
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileOverwriting);
        self.memory.word(id.reference).store(new.0, Ordering::Relaxed);
        if new.is_long() {
            let lengths = key_length | length << 32;
            self.memory.word(id.reference + 8).store(lengths, Ordering::Relaxed);
        }
        linger(Rule::OddWhileOverwriting);
        if !head.is_empty() {
            self.write_bytes(value + head.start as u64, &bytes[head]);
        }
        self.write_bytes(value + rest.start as u64, &bytes[rest]);
        home.end(Rule::OddWhileOverwriting);
    }
}

/// Returns whether an entry of `class` that can do with `wanted` is to get an item of that: more
/// than the spare bytes of one that has grown is saved.
#[inline]
fn saves_much(wanted: u8, class: u8) -> bool {
    class_bytes(wanted) * 3 <= class_bytes(class) * 2
}

/// Returns where `new` differs from what `old` begins with: in its head, and behind it.
#[inline]
fn differences(old: &[u8], new: &[u8]) -> (Range<usize>, Range<usize>) {
    match new.len() <= SHORT {
        true => (0..0, 0..new.len()),
        false => long_differences(old, new),
    }
}

fn long_differences(old: &[u8], new: &[u8]) -> (Range<usize>, Range<usize>) {
    let common = old.len().min(new.len());
    let steps = [old, new].map(|bytes| bytes[HEAD.min(common)..common].as_chunks::<STEP>().0);
    let same = steps[0].iter().zip(steps[1]).take_while(|(old, new)| old == new).count();
    let (start, mut end) = (HEAD + same * STEP, new.len());
    if common == new.len() {
        let steps = [old, new].map(|bytes| bytes[start..common].as_rchunks::<STEP>().1);
        let steps = steps[0].iter().rev().zip(steps[1].iter().rev());
        end -= steps.take_while(|(old, new)| old == new).count() * STEP;
        if old[start..end] == new[start..end] {
            end = start;
        }
    }
    let head = if old.get(..HEAD) == Some(&new[..HEAD]) { 0 } else { HEAD };
    (0..head, start..end)
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    #[test]
    fn what_differs_is_all_that_is_written() {
        let mut random = Prng::new(1);
        for _ in 0..20_000 {
            let old: Vec<u8> = (0..random.below(400)).map(|_| random.below(2) as u8).collect();
            let mut new = old.clone();
            new.resize(random.below(400) as usize, 7);
            for _ in 0..random.below(3) {
                let at = random.below(new.len().max(1) as u64) as usize;
                new.get_mut(at..).into_iter().flatten().take(1).for_each(|byte| *byte ^= 1);
            }
            let (head, rest) = differences(&old, &new);
            let mut written = old.clone();
            written.resize(old.len().max(new.len()), 0);
            for part in [head.clone(), rest.clone()] {
                written[part.clone()].copy_from_slice(&new[part]);
            }
            assert_eq!(written[..new.len()], new);
            if old.starts_with(&new) && new.len() > SHORT {
                assert!(head.is_empty() && rest.is_empty());
            }
        }
    }
}
