//! A set of integers in one block, in order, all of the width that the widest needs. Byte for byte
//! that of Redis.
//!
//! ```text
//! width in bytes u32 (2, 4, 8) | count u32 | integer ...
//! ```

use base::step_counters::{CountedStep, count_step};

use crate::heap_bytes;

const HEADER_BYTES: usize = 8;

/// Integers in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intset {
    bytes: Vec<u8>,
}

/// The bytes of an [`Intset`], wherever they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntsetView<'a> {
    bytes: &'a [u8],
}

impl Default for Intset {
    fn default() -> Intset {
        Intset { bytes: vec![2, 0, 0, 0, 0, 0, 0, 0] }
    }
}

impl Intset {
    /// Returns the set that `bytes` are; `None` where they are none, or one of no integers.
    ///
    /// Source: Redis 7.2, `intsetValidateIntegrity`.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Intset> {
        let (&width, rest) = bytes.split_first_chunk()?;
        let (&count, integers) = rest.split_first_chunk()?;
        let (width, count) = (u32::from_le_bytes(width), u32::from_le_bytes(count) as usize);
        if !matches!(width, 2 | 4 | 8) || count == 0 {
            return None;
        }
        if count.checked_mul(width as usize) != Some(integers.len()) {
            return None;
        }
        let mut set = Intset { bytes };
        set.bytes.shrink_to_fit();
        set.view().iter().is_sorted_by(|a, b| a < b).then_some(set)
    }

    /// Returns the set of `integers`, in any order; `None` where one is there twice.
    pub fn from_integers(mut integers: Vec<i64>) -> Option<Intset> {
        integers.sort_unstable();
        if !integers.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let width = integers.iter().map(|integer| width_of(*integer)).max().unwrap_or(2);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + integers.len() * width);
        bytes.extend_from_slice(&[width as u8, 0, 0, 0, 0, 0, 0, 0]);
        integers.iter().for_each(|one| bytes.extend_from_slice(&one.to_le_bytes()[..width]));
        let mut set = Intset { bytes };
        set.settle();
        Some(set)
    }

    /// Returns an empty one in the memory of `buffer`, whose bytes go.
    pub fn empty_in(mut buffer: Vec<u8>) -> Intset {
        buffer.clear();
        buffer.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
        Intset { bytes: buffer }
    }

    /// Returns a copy of `set` in the memory of `buffer`, whose bytes go.
    pub fn copy_in(set: IntsetView<'_>, mut buffer: Vec<u8>) -> Intset {
        buffer.clear();
        buffer.extend_from_slice(set.bytes);
        Intset { bytes: buffer }
    }

    /// Returns its memory.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns it, to read.
    #[inline]
    pub fn view(&self) -> IntsetView<'_> {
        IntsetView { bytes: &self.bytes }
    }

    /// Returns the block.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of integers.
    #[inline]
    pub fn count(&self) -> usize {
        self.view().count()
    }

    /// Returns the bytes of memory that it takes.
    pub fn memory_bytes(&self) -> u64 {
        heap_bytes(self.bytes.capacity())
    }

    /// Adds `integer`; returns whether it was not there.
    pub fn insert(&mut self, integer: i64) -> bool {
        let Err(index) = self.view().search(integer) else { return false };
        let width = width_of(integer);
        if width > self.width() {
            self.widen(width);
        }
        let (width, end) = (self.width(), self.bytes.len());
        let at = HEADER_BYTES + index * width;
        if end + width > self.bytes.capacity() {
            self.bytes.reserve_exact(width + (end / 4).min(4096));
        }
        self.bytes.resize(end + width, 0);
        self.bytes.copy_within(at..end, at + width);
        self.bytes[at..at + width].copy_from_slice(&integer.to_le_bytes()[..width]);
        self.settle();
        true
    }

    /// Takes `integer` out; returns whether it was there.
    pub fn remove(&mut self, integer: i64) -> bool {
        let Ok(index) = self.view().search(integer) else { return false };
        let at = HEADER_BYTES + index * self.width();
        self.bytes.drain(at..at + self.width());
        self.settle();
        true
    }

    /// Takes out those integers for which `goes` is true; returns how many. Those that stay are
    /// moved once.
    pub(crate) fn remove_each(&mut self, mut goes: impl FnMut(i64) -> bool) -> usize {
        let (width, count) = (self.width(), self.count());
        let mut written = 0;
        for index in 0..count {
            if goes(integer_at(&self.bytes, index, width)) {
                continue;
            }
            if written < index {
                let [from, to] = [index, written].map(|index| HEADER_BYTES + index * width);
                self.bytes.copy_within(from..from + width, to);
            }
            written += 1;
        }
        self.bytes.truncate(HEADER_BYTES + written * width);
        self.settle();
        count - written
    }

    /// Gives memory back when half of it is unused: removing integers does not.
    pub(crate) fn give_back(&mut self) {
        if self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to_fit();
        }
    }

    /// Makes each integer `width` bytes wide, the last one first, as it is written behind itself.
    fn widen(&mut self, width: usize) {
        let (count, before) = (self.count(), self.width());
        let bytes = HEADER_BYTES + count * width;
        self.bytes.reserve_exact(bytes + width - self.bytes.len());
        self.bytes.resize(bytes, 0);
        for index in (0..count).rev() {
            let integer = integer_at(&self.bytes, index, before);
            let at = HEADER_BYTES + index * width;
            self.bytes[at..at + width].copy_from_slice(&integer.to_le_bytes()[..width]);
        }
        self.bytes[0] = width as u8;
    }

    fn settle(&mut self) {
        let count = self.count() as u32;
        self.bytes[4..8].copy_from_slice(&count.to_le_bytes());
    }

    #[inline]
    fn width(&self) -> usize {
        self.view().width()
    }
}

impl<'a> IntsetView<'a> {
    /// Returns the set that `bytes` begin with: it says itself how long it is.
    ///
    /// # Panics
    /// When it is longer than `bytes`; what is inside has to be a set of this crate.
    #[inline]
    pub fn at_start_of(bytes: &'a [u8]) -> IntsetView<'a> {
        let count = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        IntsetView { bytes: &bytes[..HEADER_BYTES + count as usize * usize::from(bytes[0])] }
    }

    /// Returns the block.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of integers.
    #[inline]
    pub fn count(self) -> usize {
        (self.bytes.len() - HEADER_BYTES) / self.width()
    }

    /// Returns integer `index` in order.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn get(self, index: usize) -> i64 {
        integer_at(self.bytes, index, self.width())
    }

    /// Returns the integers in order.
    pub fn iter(self) -> impl Iterator<Item = i64> + Clone + use<'a> {
        (0..self.count()).map(move |index| self.get(index))
    }

    /// Returns whether `integer` is there.
    pub fn contains(self, integer: i64) -> bool {
        self.search(integer).is_ok()
    }

    /// Returns where `integer` is, or where it belongs.
    fn search(self, integer: i64) -> Result<usize, usize> {
        count_step(CountedStep::Member);
        let (mut low, mut high) = (0, self.count());
        // Integers often come in order.
        if high > 0 && integer > self.get(high - 1) {
            return Err(high);
        }
        while low < high {
            let middle = (low + high) / 2;
            match self.get(middle).cmp(&integer) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    #[inline]
    fn width(self) -> usize {
        usize::from(self.bytes[0])
    }
}

/// Returns integer `index` of a block of integers that are `width` bytes wide.
#[inline]
fn integer_at(block: &[u8], index: usize, width: usize) -> i64 {
    let bytes = &block[HEADER_BYTES + index * width..][..width];
    match *bytes {
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => i64::from_le_bytes(bytes.try_into().expect("the width is 2, 4 or 8")),
    }
}

fn width_of(integer: i64) -> usize {
    if i16::try_from(integer).is_ok() {
        2
    } else if i32::try_from(integer).is_ok() {
        4
    } else {
        8
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::prng::Prng;

    use super::*;

    #[test]
    fn bytes_are_those_of_redis() {
        let mut set = Intset::default();
        [3, -1, 7].into_iter().for_each(|integer| assert!(set.insert(integer)));
        assert_eq!(set.bytes(), [2, 0, 0, 0, 3, 0, 0, 0, 0xFF, 0xFF, 3, 0, 7, 0]);
        set.insert(70_000);
        assert_eq!(set.bytes()[..12], [4, 0, 0, 0, 4, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    }

    #[test]
    fn any_history_leaves_what_an_ordered_set_would_have() {
        let mut random = Prng::new(1);
        for shift in [56, 40, 20, 0] {
            let (mut set, mut model) = (Intset::default(), BTreeSet::new());
            for _ in 0..600 {
                let integer = random.next() as i64 >> shift;
                if random.one_in(40) {
                    let goes = |one: i64| one % 3 == integer % 3;
                    let before = model.len();
                    model.retain(|one| !goes(*one));
                    assert_eq!(set.remove_each(goes), before - model.len());
                } else if random.one_in(3) {
                    let known = model.iter().next().copied().unwrap_or(integer);
                    assert_eq!(set.remove(known), model.remove(&known));
                } else {
                    assert_eq!(set.insert(integer), model.insert(integer));
                }
                assert!(set.view().iter().eq(model.iter().copied()));
                assert_eq!(set.view().contains(integer), model.contains(&integer));
                assert_eq!(set.count(), model.len());
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_are_a_set_in_order_or_none() {
        let mut random = Prng::new(2);
        let mut read = 0;
        for round in 0..5_000 {
            let shift = [56, 40, 20, 0][round % 4];
            let integers: Vec<i64> = (0..5).map(|_| random.next() as i64 >> shift).collect();
            let model: BTreeSet<i64> = integers.iter().copied().collect();
            let made = Intset::from_integers(integers);
            assert_eq!(made.is_some(), model.len() == 5, "{model:?}");
            let Some(made) = made else { continue };
            assert!(made.view().iter().eq(model));
            let mut bytes = made.bytes().to_vec();
            assert_eq!(Intset::from_bytes(bytes.clone()), Some(made));
            for _ in 0..10 {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
                bytes.truncate(bytes.len() - usize::from(random.one_in(20)));
                let Some(set) = Intset::from_bytes(bytes.clone()) else { continue };
                assert!(set.view().iter().is_sorted_by(|a, b| a < b));
                assert!(set.view().iter().all(|integer| set.view().contains(integer)));
                read += 1;
            }
        }
        assert!(read > 1_000, "{read}");
        assert_eq!(Intset::from_bytes(vec![2, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
