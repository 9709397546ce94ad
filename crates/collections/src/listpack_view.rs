//! A listpack to read, wherever its bytes lie.

use base::step_counters::{CountedStep, count_step};

use std::cmp::Ordering;

use crate::element::{Element, Needle};

pub(crate) const HEADER_BYTES: usize = 6;
/// The bytes of a listpack without elements.
pub(crate) const EMPTY_BYTES: usize = HEADER_BYTES + 1;
pub(crate) const END: u8 = 0xFF;
/// The count that says that the elements are to be counted.
pub(crate) const COUNT_UNKNOWN: u16 = u16::MAX;

/// The bytes of a listpack that was made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListpackView<'a> {
    bytes: &'a [u8],
}

/// Where an element is, until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(pub usize);

impl<'a> ListpackView<'a> {
    /// Returns the listpack that `bytes` begin with: it says itself how long it is.
    ///
    /// # Panics
    /// When it is longer than `bytes`; what is inside has to be a listpack of this crate.
    #[inline]
    pub fn at_start_of(bytes: &'a [u8]) -> ListpackView<'a> {
        let total = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        ListpackView { bytes: &bytes[..total as usize] }
    }

    /// Returns the listpack that `bytes` are, one of this crate.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> ListpackView<'a> {
        ListpackView { bytes }
    }

    /// Returns the bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of elements; from 65,535 on they are counted one by one.
    #[inline]
    pub fn count(self) -> usize {
        match self.count_word() {
            COUNT_UNKNOWN => self.iter().count(),
            count => usize::from(count),
        }
    }

    /// Returns whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.bytes.len() == EMPTY_BYTES
    }

    /// Returns the elements in order.
    pub fn iter(self) -> Iter<'a> {
        Iter { pack: self, at: self.first() }
    }

    /// Returns the elements from the last to the first.
    pub fn iter_back(self) -> IterBack<'a> {
        IterBack { pack: self, at: self.last() }
    }

    pub(crate) fn iter_from(self, at: Option<At>) -> Iter<'a> {
        Iter { pack: self, at }
    }

    pub(crate) fn iter_back_from(self, at: Option<At>) -> IterBack<'a> {
        IterBack { pack: self, at }
    }

    /// Returns where the first element is.
    #[inline]
    pub(crate) fn first(self) -> Option<At> {
        self.existing(HEADER_BYTES)
    }

    /// Returns where the last element is.
    #[inline]
    pub(crate) fn last(self) -> Option<At> {
        self.before(self.bytes.len() - 1)
    }

    #[inline]
    pub(crate) fn next(self, at: At) -> Option<At> {
        self.existing(self.end_of(at))
    }

    #[inline]
    pub(crate) fn previous(self, at: At) -> Option<At> {
        self.before(at.0)
    }

    /// Returns where element `index` of `count` is: walks from the nearer end.
    pub(crate) fn seek(self, index: usize, count: usize) -> Option<At> {
        if index >= count {
            return None;
        }
        if index <= count / 2 {
            let mut at = self.first()?;
            for _ in 0..index {
                at = self.next(at)?;
            }
            return Some(at);
        }
        let mut at = self.last()?;
        for _ in index + 1..count {
            at = self.previous(at)?;
        }
        Some(at)
    }

    /// Returns where `needle` is, looking at every `step`th element from that at `at` on.
    #[inline]
    pub(crate) fn find(self, at: Option<At>, needle: &Needle<'_>, step: usize) -> Option<At> {
        let mut at = at?;
        match ShortNeedle::of(needle) {
            Some(short) => loop {
                if short.is_at(self.bytes, at.0) {
                    return Some(at);
                }
                for _ in 0..step {
                    at = self.next(at)?;
                }
            },
            None => loop {
                if needle.is(self.get(at)) {
                    return Some(at);
                }
                for _ in 0..step {
                    at = self.next(at)?;
                }
            },
        }
    }

    /// Returns the element at `at`.
    #[inline]
    pub(crate) fn get(self, at: At) -> Element<'a> {
        let bytes = &self.bytes[at.0..];
        let number = |width: usize| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(&bytes[1..=width]);
            let unused = 64 - 8 * width as u32;
            (i64::from_le_bytes(word) << unused) >> unused
        };
        match bytes[0] {
            first @ 0..=0x7F => Element::Integer(i64::from(first)),
            first @ 0x80..=0xBF => Element::Bytes(&bytes[1..][..usize::from(first & 0x3F)]),
            first @ 0xC0..=0xDF => {
                let bits = u16::from(first & 0x1F) << 8 | u16::from(bytes[1]);
                Element::Integer(i64::from((bits << 3) as i16 >> 3))
            }
            first @ 0xE0..=0xEF => {
                let length = usize::from(first & 0xF) << 8 | usize::from(bytes[1]);
                Element::Bytes(&bytes[2..][..length])
            }
            0xF0 => Element::Bytes(&bytes[5..][..long_length(bytes)]),
            0xF1 => Element::Integer(number(2)),
            0xF2 => Element::Integer(number(3)),
            0xF3 => Element::Integer(number(4)),
            0xF4 => Element::Integer(number(8)),
            first => panic!("no element begins with {first:#x}"),
        }
    }

    /// Returns the bytes of the element at `at` without the length behind it.
    #[inline]
    fn length_of(self, at: usize) -> usize {
        let bytes = &self.bytes[at..];
        match bytes[0] {
            0..=0x7F => 1,
            first @ 0x80..=0xBF => 1 + usize::from(first & 0x3F),
            0xC0..=0xDF => 2,
            first @ 0xE0..=0xEF => 2 + (usize::from(first & 0xF) << 8 | usize::from(bytes[1])),
            0xF0 => 5 + long_length(bytes),
            0xF1 => 3,
            0xF2 => 4,
            0xF3 => 5,
            0xF4 => 9,
            first => panic!("no element begins with {first:#x}"),
        }
    }

    #[inline]
    pub(crate) fn end_of(self, at: At) -> usize {
        count_step(CountedStep::Member);
        match self.bytes[at.0] {
            // Most elements: the length backwards is one byte.
            0..=0x7F => at.0 + 2,
            first @ 0x80..=0xBF => at.0 + 2 + usize::from(first & 0x3F),
            _ => {
                let length = self.length_of(at.0);
                at.0 + length + backward_bytes(length)
            }
        }
    }

    #[inline]
    pub(crate) fn existing(self, at: usize) -> Option<At> {
        (self.bytes[at] != END).then_some(At(at))
    }

    /// Returns where the element is that ends at `end`.
    #[inline]
    fn before(self, end: usize) -> Option<At> {
        count_step(CountedStep::Member);
        if end == HEADER_BYTES {
            return None;
        }
        let (mut length, mut shift, mut at) = (0, 0, end);
        loop {
            at -= 1;
            let byte = self.bytes[at];
            length |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        Some(At(at - length))
    }

    /// Returns whether an element is there twice, looking at every `step`th.
    pub(crate) fn has_twice(self, step: usize) -> bool {
        let mut elements: Vec<Element<'a>> = self.iter().step_by(step).collect();
        // A number is never written as bytes, so that the two forms need no comparison.
        elements.sort_unstable_by(|a, b| match (a, b) {
            (Element::Integer(a), Element::Integer(b)) => a.cmp(b),
            (Element::Bytes(a), Element::Bytes(b)) => a.cmp(b),
            (Element::Integer(_), Element::Bytes(_)) => Ordering::Less,
            (Element::Bytes(_), Element::Integer(_)) => Ordering::Greater,
        });
        elements.windows(2).any(|pair| match (pair[0], pair[1]) {
            (Element::Integer(a), Element::Integer(b)) => a == b,
            (Element::Bytes(a), Element::Bytes(b)) => a == b,
            _ => false,
        })
    }

    #[inline]
    pub(crate) fn count_word(self) -> u16 {
        u16::from_le_bytes([self.bytes[4], self.bytes[5]])
    }
}

/// A needle that is stored as one byte and up to 63 behind it: a number, or a string that is not
/// long.
#[derive(Clone, Copy)]
pub(crate) struct ShortNeedle<'a> {
    /// What the element begins with.
    pub head: u8,
    /// How many bytes come behind it.
    pub length: usize,
    /// These bytes where they are more than eight.
    pub bytes: &'a [u8],
    /// The last eight of them, or all of them and zeroes,
    pub word: u64,
    /// which these bits are.
    pub mask: u64,
}

impl<'a> ShortNeedle<'a> {
    #[inline]
    pub fn of(needle: &Needle<'a>) -> Option<ShortNeedle<'a>> {
        if let Some(integer) = needle.integer {
            return Some(ShortNeedle::of_integer(integer));
        }
        let (bytes, length) = (needle.bytes, needle.bytes.len());
        if length > 0x3F {
            return None;
        }
        let head = 0x80 | length as u8;
        Some(match bytes.last_chunk() {
            Some(last) => {
                ShortNeedle { head, length, bytes, word: u64::from_le_bytes(*last), mask: u64::MAX }
            }
            None => {
                let (word, mask) = (word_of(bytes), (1 << (8 * length)) - 1);
                ShortNeedle { head, length, bytes: &[], word, mask }
            }
        })
    }

    /// An integer is stored in one way, in the fewest bytes.
    #[inline]
    fn of_integer(integer: i64) -> ShortNeedle<'a> {
        let (head, length, word) = match integer {
            0..=0x7F => (integer as u8, 0, 0),
            -0x1000..=0xFFF => (0xC0 | (integer >> 8) as u8 & 0x1F, 1, integer as u64),
            -0x8000..=0x7FFF => (0xF1, 2, integer as u64),
            -0x80_0000..=0x7F_FFFF => (0xF2, 3, integer as u64),
            -0x8000_0000..=0x7FFF_FFFF => (0xF3, 4, integer as u64),
            _ => (0xF4, 8, integer as u64),
        };
        let mask = if length == 8 { u64::MAX } else { (1 << (8 * length)) - 1 };
        ShortNeedle { head, length, bytes: &[], word: word & mask, mask }
    }

    /// Returns whether the element at `at` of `pack` is this. Names of fields often differ in their
    /// last bytes alone, which are compared first, as a word.
    #[inline]
    fn is_at(&self, pack: &[u8], at: usize) -> bool {
        if pack[at] != self.head {
            return false;
        }
        let start = at + 1;
        let last = start + self.length.saturating_sub(8);
        match pack.get(last..).and_then(<[u8]>::first_chunk) {
            Some(chunk) if u64::from_le_bytes(*chunk) & self.mask != self.word => false,
            Some(_) => self.length <= 8 || pack[start..].starts_with(self.bytes),
            // Of the last element of a short listpack there are no eight bytes.
            None => pack[start..].starts_with(&self.word.to_le_bytes()[..self.length]),
        }
    }
}

/// Returns fewer than eight bytes as a little-endian word. Bytes that are stored one by one and
/// then loaded as one word would hold up the load.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let half = |half: &[u8; 4]| u64::from(u32::from_le_bytes(*half));
    match (bytes.first_chunk(), bytes.last_chunk()) {
        // The second half may begin within the first.
        (Some(first), Some(last)) => half(first) | half(last) << (8 * (bytes.len() - 4)),
        _ => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// The elements of a listpack in order.
#[derive(Clone, Debug)]
pub struct Iter<'l> {
    pack: ListpackView<'l>,
    at: Option<At>,
}

impl<'l> Iterator for Iter<'l> {
    type Item = Element<'l>;

    #[inline]
    fn next(&mut self) -> Option<Element<'l>> {
        let at = self.at?;
        // Most elements are short: one look at the head says what there is and where it ends.
        if let Some((head @ 0x80..=0xBF, rest)) = self.pack.bytes[at.0..].split_first() {
            let length = usize::from(head & 0x3F);
            self.at = self.pack.existing(at.0 + length + 2);
            return Some(Element::Bytes(&rest[..length]));
        }
        Some(self.step_over(at))
    }
}

impl<'l> Iter<'l> {
    /// Returns the next element and where it is.
    #[inline]
    pub(crate) fn next_placed(&mut self) -> Option<(At, Element<'l>)> {
        let at = self.at?;
        self.next().map(|element| (at, element))
    }

    /// Goes on behind the element at `at`, which is of any form, and returns it. It is apart from
    /// the short strings, whose loops have them in line.
    #[inline(never)]
    fn step_over(&mut self, at: At) -> Element<'l> {
        self.at = self.pack.next(at);
        self.pack.get(at)
    }
}

/// The elements of a listpack, the last first.
#[derive(Clone, Debug)]
pub struct IterBack<'l> {
    pack: ListpackView<'l>,
    at: Option<At>,
}

impl<'l> Iterator for IterBack<'l> {
    type Item = Element<'l>;

    #[inline]
    fn next(&mut self) -> Option<Element<'l>> {
        let at = self.at?;
        self.at = self.pack.previous(at);
        Some(self.pack.get(at))
    }
}

/// Returns the length of an element of more than 4,095 bytes.
pub(crate) fn long_length(bytes: &[u8]) -> usize {
    let length: [u8; 4] = bytes[1..5].try_into().expect("four bytes");
    u32::from_le_bytes(length) as usize
}

/// Returns how many bytes the backward form of `length` has. The bounds are Redis's.
#[inline]
pub(crate) fn backward_bytes(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}
