//! A listpack: elements one after the other in one block of bytes, each readable from both ends.
//! Byte for byte that of Redis.
//!
//! ```text
//! total bytes u32 | count u16 (65535: count them) | element ... | 0xFF
//! element: encoding and content | length of that, seven bits a byte, to be read backwards
//! ```
//! Source: the listpack specification, <https://github.com/antirez/listpack>.

use base::number::whole;
use base::number_text::DoubleText;

use crate::element::{Element, integer_of};
use crate::heap_bytes;
use crate::listpack_view::{
    At, COUNT_UNKNOWN, EMPTY_BYTES, END, HEADER_BYTES, Iter, IterBack, ListpackView,
    backward_bytes, long_length,
};

/// The most room that is kept for further elements.
const SPARE_BYTES_MAX: usize = 4096;

/// Where a collection has the choice, its listpack never grows beyond this, in bytes.
pub(crate) const SAFE_BYTES: usize = 1 << 30;
/// Up to so many bytes the elements are counted anew where they were too many to be told.
const RECOUNTED_BYTES_MAX: usize = 4 * COUNT_UNKNOWN as usize;
/// The most that an element takes beside its bytes.
const FRAME_BYTES_MAX: usize = 10;

/// Elements in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listpack {
    bytes: Vec<u8>,
}

impl Default for Listpack {
    fn default() -> Listpack {
        Listpack::new()
    }
}

impl Listpack {
    /// Returns one without elements.
    pub fn new() -> Listpack {
        Listpack { bytes: vec![EMPTY_BYTES as u8, 0, 0, 0, 0, 0, END] }
    }

    /// Returns the listpack that `bytes` are; `None` where they are none, whoever made them: every
    /// length is looked at. An element that is written otherwise than here, such as a number in
    /// more bytes than it takes, is written anew in its place, which is never longer.
    ///
    /// Source: Redis 7.2, `lpValidateIntegrity`.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Listpack> {
        let (&total, rest) = bytes.split_first_chunk()?;
        let (&count, _) = rest.split_first_chunk()?;
        let has_frame = u32::from_le_bytes(total) as usize == bytes.len()
            && bytes.len() > HEADER_BYTES
            && bytes.last() == Some(&END);
        if !has_frame {
            return None;
        }
        let mut pack = Listpack { bytes };
        let found = pack.rewrite()?;
        match u16::from_le_bytes(count) {
            COUNT_UNKNOWN => {}
            count if usize::from(count) == found => {}
            _ => return None,
        }
        let total = u32::try_from(pack.bytes.len()).expect("it was the total, or more");
        pack.bytes[..4].copy_from_slice(&total.to_le_bytes());
        let count = u16::try_from(found).unwrap_or(COUNT_UNKNOWN);
        pack.bytes[4..6].copy_from_slice(&count.to_le_bytes());
        pack.shrink();
        Some(pack)
    }

    /// Looks at every element, has each written as it is here, and returns how many there are.
    fn rewrite(&mut self) -> Option<usize> {
        let end = self.bytes.len() - 1;
        let (mut from, mut to, mut count) = (HEADER_BYTES, HEADER_BYTES, 0);
        while from < end {
            let length = checked_length(&self.bytes[from..end])?;
            let (back, back_bytes) = backward_length(length);
            let behind = from + length;
            if self.bytes[behind..end].get(..back_bytes)? != &back[..back_bytes] {
                return None;
            }
            let encoded = match self.view().get(At(from)) {
                Element::Integer(integer) => Encoded::of_integer(integer),
                Element::Bytes(bytes) => Encoded::new(bytes),
            };
            let (head, head_bytes) = (encoded.head, encoded.head_bytes);
            let (body, total) = (encoded.body.len(), encoded.total());
            if to != from || total != length + back_bytes {
                let (back, back_bytes) = backward_length(head_bytes + body);
                self.bytes.copy_within(behind - body..behind, to + head_bytes);
                self.bytes[to..to + head_bytes].copy_from_slice(&head[..head_bytes]);
                self.bytes[to + head_bytes + body..][..back_bytes]
                    .copy_from_slice(&back[..back_bytes]);
            }
            (from, to, count) = (behind + back_bytes, to + total, count + 1);
        }
        self.bytes[to] = END;
        self.bytes.truncate(to + 1);
        Some(count)
    }

    /// Returns one with room for `count` elements of `bytes` bytes together; `None` where they
    /// would be more than one listpack of a collection should have.
    pub fn with_room(count: usize, bytes: usize) -> Option<Listpack> {
        let frames = count.checked_mul(FRAME_BYTES_MAX)?;
        let bytes = bytes.checked_add(frames).filter(|bytes| *bytes <= SAFE_BYTES)?;
        Some(Listpack::with_capacity(bytes))
    }

    /// Returns one without elements and with room for `bytes` bytes of them.
    pub(crate) fn with_capacity(bytes: usize) -> Listpack {
        let mut pack = Listpack { bytes: Vec::with_capacity(HEADER_BYTES + bytes + 1) };
        pack.bytes.extend_from_slice(&[HEADER_BYTES as u8 + 1, 0, 0, 0, 0, 0, END]);
        pack
    }

    /// Returns an empty one in the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn empty_in(mut buffer: Vec<u8>) -> Listpack {
        buffer.clear();
        buffer.extend_from_slice(&[EMPTY_BYTES as u8, 0, 0, 0, 0, 0, END]);
        Listpack { bytes: buffer }
    }

    /// Returns a copy of `pack` in the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn copy_in(pack: ListpackView<'_>, mut buffer: Vec<u8>) -> Listpack {
        buffer.clear();
        buffer.extend_from_slice(pack.bytes());
        Listpack { bytes: buffer }
    }

    /// Returns its memory.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns it, to read.
    #[inline]
    pub fn view(&self) -> ListpackView<'_> {
        ListpackView::new(&self.bytes)
    }

    /// Returns the block.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of elements; from 65,535 on they are counted one by one.
    #[inline]
    pub fn count(&self) -> usize {
        self.view().count()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// Returns the elements in order.
    pub fn iter(&self) -> Iter<'_> {
        self.view().iter()
    }

    /// Returns the elements from the last to the first.
    pub fn iter_back(&self) -> IterBack<'_> {
        self.view().iter_back()
    }

    /// Returns the bytes of memory that it takes.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        heap_bytes(self.bytes.capacity())
    }

    /// Appends `element` behind the last.
    #[inline]
    pub fn push_back(&mut self, element: &[u8]) {
        self.append([Encoded::new(element)]);
    }

    /// Appends `first` behind the last, and `second` behind that.
    #[inline]
    pub(crate) fn push_back_pair(&mut self, first: &[u8], second: &[u8]) {
        self.append([Encoded::new(first), Encoded::new(second)]);
    }

    /// Appends a member and its score behind the last.
    #[inline]
    pub(crate) fn push_back_scored(&mut self, member: &[u8], score: &ScoreText) {
        self.append([Encoded::new(member), score.encoded()]);
    }

    /// Appends `elements` behind the last, in one go; bytes that are the text of an integer are
    /// stored as one.
    #[inline]
    pub(crate) fn append_all<'e>(&mut self, elements: impl Iterator<Item = Element<'e>>) {
        let (mut at, mut count) = (self.bytes.len() - 1, 0);
        for element in elements {
            let encoded = match element {
                Element::Integer(integer) => Encoded::of_integer(integer),
                Element::Bytes(bytes) => Encoded::new(bytes),
            };
            self.reserve(encoded.total());
            self.bytes.resize(at + encoded.total() + 1, END);
            at = encoded.write(&mut self.bytes, at);
            count += 1;
        }
        self.settle(count);
    }

    /// Puts `element` before the first.
    #[inline]
    pub fn push_front(&mut self, element: &[u8]) {
        self.splice(HEADER_BYTES, HEADER_BYTES, [Encoded::new(element)]);
        self.settle(1);
    }

    /// Puts `element` where the element at `at` is, which comes behind it.
    pub(crate) fn insert(&mut self, at: At, element: &[u8]) {
        self.splice(at.0, at.0, [Encoded::new(element)]);
        self.settle(1);
    }

    /// Puts a member and its score where the element at `at` is, which comes behind them.
    pub(crate) fn insert_scored(&mut self, at: At, member: &[u8], score: &ScoreText) {
        self.splice(at.0, at.0, [Encoded::new(member), score.encoded()]);
        self.settle(2);
    }

    /// Puts `element` behind the element at `at`.
    pub(crate) fn insert_after(&mut self, at: At, element: &[u8]) {
        let end = self.view().end_of(at);
        self.splice(end, end, [Encoded::new(element)]);
        self.settle(1);
    }

    /// Puts `element` in place of that at `at`.
    #[inline]
    pub(crate) fn replace(&mut self, at: At, element: &[u8]) {
        let end = self.view().end_of(at);
        self.splice(at.0, end, [Encoded::new(element)]);
        self.settle(0);
    }

    /// Puts `integer` in place of the element at `at`.
    #[inline]
    pub(crate) fn replace_integer(&mut self, at: At, integer: i64) {
        let end = self.view().end_of(at);
        self.splice(at.0, end, [Encoded::of_integer(integer)]);
        self.settle(0);
    }

    /// Puts `score` in place of that at `at`.
    #[inline]
    pub(crate) fn replace_score(&mut self, at: At, score: &ScoreText) {
        let end = self.view().end_of(at);
        self.splice(at.0, end, [score.encoded()]);
        self.settle(0);
    }

    /// Takes up to `count` elements out, from that at `at` on; returns where the next one is.
    pub(crate) fn remove(&mut self, at: At, count: usize) -> Option<At> {
        let (mut end, mut removed) = (at.0, 0);
        while removed < count && self.bytes[end] != END {
            end = self.view().end_of(At(end));
            removed += 1;
        }
        self.bytes.drain(at.0..end);
        self.settle(-(removed as isize));
        self.view().existing(at.0)
    }

    /// Takes out up to `count` of the elements for which `goes` is true, from that at `at` on;
    /// returns how many. Those that stay are moved once.
    pub(crate) fn remove_each(
        &mut self,
        at: At,
        count: usize,
        mut goes: impl FnMut(Element<'_>) -> bool,
    ) -> usize {
        let (mut read, mut written, mut removed) = (at.0, at.0, 0);
        while removed < count && self.bytes[read] != END {
            let end = self.view().end_of(At(read));
            if goes(self.view().get(At(read))) {
                removed += 1;
            } else {
                self.bytes.copy_within(read..end, written);
                written += end - read;
            }
            read = end;
        }
        self.bytes.drain(written..read);
        self.settle(-(removed as isize));
        removed
    }

    /// Moves the elements from that at `at` on to a listpack of their own; `count` is how many.
    pub(crate) fn split_off(&mut self, at: At, count: usize) -> Listpack {
        let mut tail = Listpack::new();
        tail.bytes.pop();
        tail.bytes.extend_from_slice(&self.bytes[at.0..]);
        tail.settle(count as isize);
        self.bytes.truncate(at.0);
        self.bytes.push(END);
        self.bytes.shrink_to_fit();
        self.settle(-(count as isize));
        tail
    }

    /// Gives memory back that is kept for more elements.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Appends `elements` behind the last.
    #[inline]
    fn append<const N: usize>(&mut self, elements: [Encoded<'_>; N]) {
        let more: usize = elements.iter().map(Encoded::total).sum();
        self.reserve(more);
        let mut at = self.bytes.len() - 1;
        self.bytes.resize(at + more + 1, END);
        for element in &elements {
            at = element.write(&mut self.bytes, at);
        }
        self.settle(N as isize);
    }

    /// Puts `elements` in place of the bytes from `start` to `end`.
    #[inline]
    fn splice<const N: usize>(&mut self, start: usize, end: usize, elements: [Encoded<'_>; N]) {
        let new: usize = elements.iter().map(Encoded::total).sum();
        let (old, length) = (end - start, self.bytes.len());
        if new != old {
            if new > old {
                self.reserve(new - old);
                self.bytes.resize(length + new - old, 0);
            }
            self.bytes.copy_within(end..length, start + new);
            self.bytes.truncate(length + new - old);
        }
        let mut at = start;
        for element in &elements {
            at = element.write(&mut self.bytes, at);
        }
    }

    /// Makes room for `more` bytes, and some: growth is by a quarter.
    #[inline]
    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            self.bytes.reserve_exact(capacity_for(needed) - self.bytes.len());
        }
    }

    /// Returns by how much the memory grows where elements are added, one after the other, until
    /// there are `bytes` bytes.
    pub(crate) fn growth_to(&self, bytes: usize) -> u64 {
        if bytes <= self.bytes.capacity() {
            return 0;
        }
        heap_bytes(capacity_for(bytes)).saturating_sub(self.memory_bytes())
    }

    /// Gives memory back when half of it is unused: removing elements does not.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if self.bytes.capacity() > 64 && self.bytes.len() < self.bytes.capacity() / 2 {
            let spare = (self.bytes.len() / 4).min(SPARE_BYTES_MAX);
            self.bytes.shrink_to(self.bytes.len() + spare);
        }
    }

    /// Writes the header after `change` elements came or went.
    #[inline]
    fn settle(&mut self, change: isize) {
        let total = u32::try_from(self.bytes.len()).expect("elements are bounded");
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        let count = match self.view().count_word() {
            // They may have become few enough to be told. Of many bytes that would cost too much
            // each time.
            COUNT_UNKNOWN if change < 0 && self.bytes.len() <= RECOUNTED_BYTES_MAX => {
                self.view().iter().count()
            }
            COUNT_UNKNOWN => usize::from(COUNT_UNKNOWN),
            count => usize::from(count).checked_add_signed(change).expect("elements are counted"),
        };
        let word = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[4..6].copy_from_slice(&word.to_le_bytes());
    }
}

/// An element about to be stored: a head of up to nine bytes, then its bytes where it is no
/// integer.
struct Encoded<'a> {
    head: [u8; 9],
    head_bytes: usize,
    body: &'a [u8],
}

impl<'a> Encoded<'a> {
    #[inline]
    fn new(element: &'a [u8]) -> Encoded<'a> {
        match integer_of(element) {
            Some(integer) => Encoded::of_integer(integer),
            None => Encoded::of_bytes(element),
        }
    }

    #[inline]
    fn of_bytes(body: &'a [u8]) -> Encoded<'a> {
        let length = body.len();
        let mut head = [0; 9];
        let head_bytes = match length {
            0..64 => {
                head[0] = 0x80 | length as u8;
                1
            }
            64..4096 => {
                (head[0], head[1]) = (0xE0 | (length >> 8) as u8, length as u8);
                2
            }
            _ => {
                let length = u32::try_from(length).expect("elements are bounded");
                head[0] = 0xF0;
                head[1..5].copy_from_slice(&length.to_le_bytes());
                5
            }
        };
        Encoded { head, head_bytes, body }
    }

    #[inline]
    fn of_integer(integer: i64) -> Encoded<'a> {
        let mut head = [0; 9];
        let mut wide = |marker: u8, width: usize| {
            head[0] = marker;
            head[1..=width].copy_from_slice(&integer.to_le_bytes()[..width]);
            width + 1
        };
        let head_bytes = match integer {
            0..=127 => wide(integer as u8, 0),
            -4096..=4095 => {
                wide(0, 0);
                let bits = integer as u16 & 0x1FFF;
                (head[0], head[1]) = (0xC0 | (bits >> 8) as u8, bits as u8);
                2
            }
            -32_768..=32_767 => wide(0xF1, 2),
            -8_388_608..=8_388_607 => wide(0xF2, 3),
            -2_147_483_648..=2_147_483_647 => wide(0xF3, 4),
            _ => wide(0xF4, 8),
        };
        Encoded { head, head_bytes, body: &[] }
    }

    #[inline]
    fn head(&self) -> &[u8] {
        &self.head[..self.head_bytes]
    }

    #[inline]
    fn length(&self) -> usize {
        self.head_bytes + self.body.len()
    }

    #[inline]
    fn total(&self) -> usize {
        self.length() + backward_bytes(self.length())
    }

    /// Writes it at `at` of `pack`; returns where it ends.
    #[inline]
    fn write(&self, pack: &mut [u8], at: usize) -> usize {
        let (head, length) = (self.head_bytes, self.length());
        let room = &mut pack[at..at + self.total()];
        room[..head].copy_from_slice(self.head());
        room[head..length].copy_from_slice(self.body);
        match &mut room[length..] {
            [back] => *back = length as u8,
            room => {
                let (back, count) = backward_length(length);
                room.copy_from_slice(&back[..count]);
            }
        }
        at + self.total()
    }
}

/// A score as it stands in a listpack: Redis writes whole numbers as integers.
pub(crate) enum ScoreText {
    Whole(i64),
    Other(DoubleText),
}

impl ScoreText {
    #[inline]
    pub fn new(score: f64) -> ScoreText {
        match whole(score) {
            Some(score) => ScoreText::Whole(score),
            None => ScoreText::Other(DoubleText::new(score)),
        }
    }

    #[inline]
    fn encoded(&self) -> Encoded<'_> {
        match self {
            ScoreText::Whole(integer) => Encoded::of_integer(*integer),
            // A whole number above 2^62 is written as digits, which may still be an `i64`.
            ScoreText::Other(text) => Encoded::new(text.as_bytes()),
        }
    }
}

/// Returns the capacity of a block that has come to need more than it had: it grows by a quarter.
#[inline]
fn capacity_for(needed: usize) -> usize {
    let spare = (needed / 4).min(SPARE_BYTES_MAX);
    // What the allocator would round up to is used.
    ((needed + spare + 8 + 15) & !15) - 8
}

/// Returns the most bytes that an element of `length` bytes takes within a listpack: as text.
#[inline]
pub(crate) fn element_bytes_max(length: usize) -> usize {
    let head = match length {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    };
    head + length + backward_bytes(head + length)
}

/// Returns the bytes of the element at the start of `bytes` without the length behind it; `None`
/// where they are no element, or end before it.
fn checked_length(bytes: &[u8]) -> Option<usize> {
    let next = || bytes.get(1).copied().map(usize::from);
    let length = match *bytes.first()? {
        0..=0x7F => 1,
        first @ 0x80..=0xBF => 1 + usize::from(first & 0x3F),
        0xC0..=0xDF => 2,
        first @ 0xE0..=0xEF => 2 + (usize::from(first & 0xF) << 8 | next()?),
        0xF0 => 5 + long_length(bytes.get(..5)?),
        0xF1 => 3,
        0xF2 => 4,
        0xF3 => 5,
        0xF4 => 9,
        _ => return None,
    };
    (length <= bytes.len()).then_some(length)
}

/// Returns `length` to be read backwards, seven bits a byte: all but the first byte say that one
/// more comes before them.
#[inline]
fn backward_length(length: usize) -> ([u8; 5], usize) {
    let count = backward_bytes(length);
    let mut bytes = [0; 5];
    let mut rest = length;
    for byte in bytes[..count].iter_mut().rev() {
        *byte = 0x80 | (rest & 0x7F) as u8;
        rest >>= 7;
    }
    bytes[0] &= 0x7F;
    (bytes, count)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use base::prng::Prng;

    use super::*;
    use crate::element::Needle;

    fn of(elements: &[&str]) -> Listpack {
        let mut pack = Listpack::new();
        elements.iter().for_each(|element| pack.push_back(element.as_bytes()));
        pack
    }

    /// The bytes are those that redis-server 7.0.15 puts into DUMP for the same lists.
    #[test]
    fn bytes_are_those_of_redis() {
        let pack = of(&["1", "-1", "a", "4095", "-4096", "300000", "abc"]);
        let expected = [
            31, 0, 0, 0, 7, 0, 0x01, 1, 0xDF, 0xFF, 2, 0x81, b'a', 2, 0xCF, 0xFF, 2, 0xD0, 0x00, 2,
            0xF2, 0xE0, 0x93, 0x04, 4, 0x83, b'a', b'b', b'c', 4, 0xFF,
        ];
        assert_eq!(pack.bytes(), expected);
    }

    #[test]
    fn every_integer_reads_back() {
        let mut random = Prng::new(1);
        let edges = [0, 127, 128, 4095, 4096, 32_767, 32_768, 8_388_607, 8_388_608, 1 << 31];
        let edges = edges.into_iter().flat_map(|edge: i64| [edge, -edge, edge - 1, -edge - 1]);
        let wild = (0..2000).map(|_| random.next() as i64 >> random.below(64));
        for integer in edges.chain([i64::MAX, i64::MIN]).chain(wild.collect::<Vec<_>>()) {
            let pack = of(&[&integer.to_string()]);
            let Some(Element::Integer(found)) = pack.iter().next() else { panic!("{integer}") };
            assert_eq!(found, integer);
        }
    }

    #[test]
    fn lengths_read_backwards_at_every_size() {
        for length in [0, 1, 63, 64, 125, 126, 127, 4095, 4096, 16_376, 16_380, 16_400, 2_097_160] {
            let pack = of(&["x", &"y".repeat(length), "z"]);
            let back: Vec<usize> = pack.iter_back().map(|one| one.byte_count()).collect();
            assert_eq!(back, [1, length, 1]);
        }
    }

    fn random_element(random: &mut Prng) -> Vec<u8> {
        match random.below(4) {
            0 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
            1 => random.below(200).to_string().into_bytes(),
            2 => vec![b'e'; random.below(300) as usize],
            _ => vec![b'e'; random.below(6) as usize],
        }
    }

    fn assert_same(pack: &Listpack, model: &VecDeque<Vec<u8>>) {
        let forth: VecDeque<Vec<u8>> = pack.iter().map(|one| one.to_vec()).collect();
        assert_eq!(forth, *model);
        assert!(pack.iter_back().map(|one| one.to_vec()).eq(model.iter().rev().cloned()));
        assert_eq!(pack.count(), model.len());
        let total = u32::from_le_bytes(pack.bytes()[..4].try_into().unwrap());
        assert_eq!(total as usize, pack.bytes().len());
    }

    #[test]
    fn any_history_leaves_what_a_deque_would_have() {
        let mut random = Prng::new(2);
        for _ in 0..50 {
            let (mut pack, mut model) = (Listpack::new(), VecDeque::new());
            for _ in 0..100 {
                let element = random_element(&mut random);
                let index = random.below(model.len() as u64 + 1) as usize;
                let at = pack.view().seek(index, model.len());
                match (random.below(7), at) {
                    (0, _) => {
                        pack.push_front(&element);
                        model.push_front(element);
                    }
                    (1, Some(at)) => {
                        pack.insert(at, &element);
                        model.insert(index, element);
                    }
                    (2, Some(at)) => {
                        pack.insert_after(at, &element);
                        model.insert(index + 1, element);
                    }
                    (3, Some(at)) => {
                        pack.replace(at, &element);
                        model[index] = element;
                    }
                    (4, Some(at)) => {
                        let count = random.below(4) as usize;
                        pack.remove(at, count);
                        model.drain(index..model.len().min(index + count));
                    }
                    (5, Some(at)) => {
                        let tail = pack.split_off(at, model.len() - index);
                        assert_same(&tail, &model.split_off(index));
                    }
                    _ => {
                        pack.push_back(&element);
                        model.push_back(element);
                    }
                }
                assert_same(&pack, &model);
            }
        }
    }

    #[test]
    fn what_was_made_here_reads_back_byte_for_byte() {
        let mut random = Prng::new(3);
        for count in 0..200 {
            let mut pack = Listpack::new();
            (0..count).for_each(|_| pack.push_back(&random_element(&mut random)));
            let read = Listpack::from_bytes(pack.bytes().to_vec());
            assert_eq!(read.as_ref().map(Listpack::bytes), Some(pack.bytes()));
        }
    }

    #[test]
    fn bytes_of_any_kind_are_a_listpack_or_none() {
        let mut random = Prng::new(4);
        let mut read = 0;
        for round in 0..20_000 {
            let mut pack = Listpack::new();
            (0..random.below(8)).for_each(|_| pack.push_back(&random_element(&mut random)));
            let mut bytes = pack.bytes().to_vec();
            if round % 4 == 0 {
                bytes.truncate(random.below(bytes.len() as u64) as usize);
            }
            for _ in 0..random.below(3) {
                let at = random.below(bytes.len().max(1) as u64) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            let length = bytes.len();
            let Some(pack) = Listpack::from_bytes(bytes) else { continue };
            let elements: VecDeque<Vec<u8>> = pack.iter().map(|one| one.to_vec()).collect();
            let mut again = Listpack::new();
            elements.iter().for_each(|element| again.push_back(element));
            assert_eq!(pack.bytes(), again.bytes());
            assert_same(&pack, &elements);
            assert!(pack.bytes().len() <= length);
            read += 1;
        }
        assert!(read > 5_000, "{read}");
    }

    /// Other writers may use more bytes than an element needs.
    #[test]
    fn elements_in_longer_forms_are_written_anew() {
        let long = [
            &[0x83, b'1', b'2', b'3', 4][..],
            &[0xF4, 5, 0, 0, 0, 0, 0, 0, 0, 9],
            &[0xF0, 2, 0, 0, 0, b'a', b'b', 7],
            &[0xE0, 1, b'c', 3],
        ];
        let elements = long.concat();
        let total = elements.len() as u8 + 7;
        let bytes = [&[total, 0, 0, 0, 0xFF, 0xFF][..], &elements, &[0xFF]].concat();
        let pack = Listpack::from_bytes(bytes).unwrap();
        assert_eq!(pack.bytes(), of(&["123", "5", "ab", "c"]).bytes());
    }

    #[test]
    fn what_is_there_twice_is_seen() {
        assert!(!of(&["a", "1", "b", "1"]).view().has_twice(2));
        assert!(of(&["a", "1", "b", "1"]).view().has_twice(1));
        assert!(of(&["a", "1", "b", "2", "a", "3"]).view().has_twice(2));
        assert!(!Listpack::new().view().has_twice(1));
    }

    #[test]
    fn first_equal_element_is_found_whatever_its_form() {
        let mut random = Prng::new(3);
        let draw = |random: &mut Prng| -> Vec<u8> {
            match random.below(4) {
                0 => (random.below(300) as i64 - 150).to_string().into_bytes(),
                1 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
                _ => {
                    // Alike but for few bytes, of every length around those that count.
                    let length =
                        [0, 1, 6, 7, 8, 9, 15, 16, 62, 63, 64, 200][random.below(12) as usize];
                    let mut bytes = vec![b'x'; length];
                    if let Some(at) = random.below(length as u64 + 1).checked_sub(1) {
                        bytes[at as usize] = b'y';
                    }
                    bytes
                }
            }
        };
        for _ in 0..3000 {
            let elements: Vec<Vec<u8>> = (0..random.below(12)).map(|_| draw(&mut random)).collect();
            let mut pack = Listpack::new();
            elements.iter().for_each(|element| pack.push_back(element));
            for _ in 0..20 {
                let one = draw(&mut random);
                let needle = if random.one_in(2) || elements.is_empty() {
                    &one
                } else {
                    &elements[random.below(elements.len() as u64) as usize]
                };
                let view = pack.view();
                let found = view.find(view.first(), &Needle::new(needle), 1);
                let expected = elements.iter().position(|element| element == needle);
                let expected = expected.map(|index| view.seek(index, elements.len()).unwrap());
                assert_eq!(found, expected, "{} of {elements:?}", needle.escape_ascii());
            }
        }
    }

    #[test]
    fn finding_compares_integers_and_bytes() {
        let pack = of(&["a", "1", "b", "2", "a", "3"]);
        let value = |needle: &str| {
            let at = pack.view().find(pack.view().first(), &Needle::new(needle.as_bytes()), 2)?;
            Some(pack.view().get(pack.view().next(at)?).to_vec())
        };
        assert_eq!(value("b"), Some(b"2".to_vec()));
        assert_eq!(value("a"), Some(b"1".to_vec()));
        assert_eq!(value("2"), None);
        assert_eq!(value("c"), None);
    }

    #[test]
    fn more_elements_than_the_header_can_tell_are_counted() {
        let mut pack = Listpack::new();
        (0..65_540).for_each(|_| pack.push_back(b"1"));
        assert_eq!((pack.count(), &pack.bytes()[4..6]), (65_540, [0xFF, 0xFF].as_slice()));
        let first = pack.view().first().unwrap();
        pack.remove(first, 10);
        assert_eq!((pack.count(), &pack.bytes()[4..6]), (65_530, [0xFA, 0xFF].as_slice()));
    }
}
