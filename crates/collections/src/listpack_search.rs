//! Looks for elements of a listpack that another process may change meanwhile, where it lies.
//!
//! Whatever the bytes are, a search ends, and stays within them. That they were those of a listpack
//! all the time, the caller finds out afterwards; the search notices some of what is none.

use std::ops::Range;

use base::ChangingBytes;
use base::number_text::IntegerText;

use crate::element::Needle;
use crate::listpack_view::{
    COUNT_UNKNOWN, END, HEADER_BYTES, ShortNeedle, backward_bytes, long_length,
};
use crate::sorted_set::score_of_text;

/// How many names one walk looks for: each is compared with each element.
pub const NEEDLES_AT_ONCE: usize = 16;
/// The longest text of a score that is read here; servers write 25 bytes at most.
const SCORE_BYTES_MAX: usize = 32;

/// The bytes are no listpack: something has changed them meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

/// An element: an integer, or where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Bytes(Range<usize>),
    Integer(i64),
}

impl Part {
    /// Returns the number of its bytes.
    pub fn byte_count(&self) -> usize {
        match self {
            Part::Bytes(range) => range.len(),
            Part::Integer(integer) => IntegerText::new(*integer).as_bytes().len(),
        }
    }
}

/// A listpack of names, each with a value behind it, at the start of `B`.
#[derive(Clone, Copy, Debug)]
pub struct ListpackSearch<B> {
    bytes: B,
}

/// What one walk looks for. Side by side, as several are compared with each element.
struct Wanted {
    words: [u64; NEEDLES_AT_ONCE],
    heads: [u8; NEEDLES_AT_ONCE],
    /// Those that are not found yet, a bit for each.
    left: u32,
    /// The bits of all words, as [`filter_bit`] has them: most elements that nobody wants are told
    /// by it.
    filter: u64,
    /// Two of them may be the same.
    may_repeat: bool,
}

impl Wanted {
    #[inline]
    fn new() -> Wanted {
        Wanted {
            words: [0; NEEDLES_AT_ONCE],
            heads: [0; NEEDLES_AT_ONCE],
            left: 0,
            filter: 0,
            may_repeat: false,
        }
    }

    #[inline(always)]
    fn put(&mut self, needle: &ShortNeedle<'_>, index: usize) {
        let bit = filter_bit(needle.word);
        if self.filter & bit != 0 {
            self.may_repeat |= self.words[..index].contains(&needle.word);
        }
        self.filter |= bit;
        self.left |= 1 << index;
        (self.words[index], self.heads[index]) = (needle.word, needle.head);
    }
}

/// Returns one bit of 64 that follows from `word`.
#[inline]
fn filter_bit(word: u64) -> u64 {
    1 << (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

impl<B: ChangingBytes> ListpackSearch<B> {
    /// Returns what searches `bytes`, which begin with a listpack.
    #[inline]
    pub fn new(bytes: B) -> ListpackSearch<B> {
        ListpackSearch { bytes }
    }

    /// Returns the number of elements; `None` where they are to be counted.
    #[inline]
    pub fn count(self) -> Option<u64> {
        let count = (self.bytes.word(self.start())? >> 32) as u16;
        (count != COUNT_UNKNOWN).then_some(u64::from(count))
    }

    /// Returns the number of pairs.
    ///
    /// # Errors
    /// When they are to be counted, or there is no word that says how many there are.
    #[inline]
    pub fn pair_count(self) -> Result<u64, Nonsense> {
        self.count().map(|count| count / 2).ok_or(Nonsense)
    }

    /// Returns the value of `name`, if it is there.
    ///
    /// # Errors
    /// When the bytes make no sense, here and everywhere.
    // Where it is called, what `B` is made of stays in registers: its words passed through memory
    // cost as much as the walk over three fields.
    #[inline(always)]
    pub fn value(self, name: &[u8]) -> Result<Option<Part>, Nonsense> {
        let needle = Needle::new(name);
        let found = match ShortNeedle::of(&needle) {
            Some(short) => self.find_short(&short)?,
            None => self.find(&needle)?,
        };
        found.map(|at| self.part(at)).transpose()
    }

    /// Appends the bytes of `part` to `target`.
    ///
    /// # Errors
    /// When the bytes make no sense.
    #[inline]
    pub fn append_to(self, part: &Part, target: &mut Vec<u8>) -> Result<(), Nonsense> {
        match part {
            Part::Bytes(range) => self.bytes.append_to(range.clone(), target).ok_or(Nonsense),
            Part::Integer(integer) => {
                target.extend_from_slice(IntegerText::new(*integer).as_bytes());
                Ok(())
            }
        }
    }

    /// Calls `visit` with the value of each of `names` in their order, until it fails.
    ///
    /// # Errors
    /// When the bytes make no sense, or as `visit`.
    #[inline]
    pub fn values(
        self,
        names: &[&[u8]],
        mut visit: impl FnMut(Option<Part>) -> Result<(), Nonsense>,
    ) -> Result<(), Nonsense> {
        for names in names.chunks(NEEDLES_AT_ONCE) {
            // No value is at 0.
            let (mut wanted, mut places) = (Wanted::new(), [0; NEEDLES_AT_ONCE]);
            for (index, name) in names.iter().enumerate() {
                let needle = Needle::new(name);
                match ShortNeedle::of(&needle) {
                    Some(short) => wanted.put(&short, index),
                    None => places[index] = self.find(&needle)?.unwrap_or(0),
                }
            }
            self.find_each(names, &mut wanted, &mut places)?;
            for &at in &places[..names.len()] {
                visit(if at == 0 { None } else { Some(self.part(at)?) })?;
            }
        }
        Ok(())
    }

    /// Returns the score of `member` of a sorted set, if it is there.
    ///
    /// # Errors
    /// When the bytes make no sense, or the score is written in more bytes than servers use.
    #[inline(always)]
    pub fn score(self, member: &[u8]) -> Result<Option<f64>, Nonsense> {
        self.value(member)?.map(|part| self.score_of(part)).transpose()
    }

    /// Calls `visit` with the score of each of `members` in their order.
    ///
    /// # Errors
    /// As [`ListpackSearch::score`].
    pub fn scores(
        self,
        members: &[&[u8]],
        mut visit: impl FnMut(Option<f64>),
    ) -> Result<(), Nonsense> {
        self.values(members, |part| {
            visit(part.map(|part| self.score_of(part)).transpose()?);
            Ok(())
        })
    }

    #[inline]
    fn score_of(self, part: Part) -> Result<f64, Nonsense> {
        match part {
            Part::Integer(integer) => Ok(integer as f64),
            Part::Bytes(range) => self.score_in(range),
        }
    }

    fn score_in(self, range: Range<usize>) -> Result<f64, Nonsense> {
        let mut text = [0; SCORE_BYTES_MAX];
        let text = text.get_mut(..range.len()).ok_or(Nonsense)?;
        for (chunk, at) in text.chunks_mut(8).zip(range.step_by(8)) {
            chunk.copy_from_slice(&self.word(at)?.to_le_bytes()[..chunk.len()]);
        }
        score_of_text(text).ok_or(Nonsense)
    }

    /// Returns where the value of the name `needle` is.
    #[inline(always)]
    fn find_short(self, needle: &ShortNeedle<'_>) -> Result<Option<usize>, Nonsense> {
        let (length, tail) = (2 + needle.length, tail_of(needle.length));
        let mut at = self.start() + HEADER_BYTES;
        loop {
            let head = self.head(at)?;
            let value_at = if head == needle.head {
                // The next step does not have to wait for the length that was just loaded.
                let value_at = at + length;
                let is_equal = self.word(at + tail)? & needle.mask == needle.word;
                if is_equal && (needle.length <= 8 || self.is_text_equal(at, needle.bytes)) {
                    return Ok(Some(value_at));
                }
                value_at
            } else if head == END {
                return Ok(None);
            } else {
                self.behind(at, head)?
            };
            at = self.behind(value_at, self.head(value_at)?)?;
        }
    }

    /// As [`ListpackSearch::find_short`] for a long string.
    #[cold]
    fn find(self, needle: &Needle<'_>) -> Result<Option<usize>, Nonsense> {
        let mut at = self.start() + HEADER_BYTES;
        loop {
            let head = self.head(at)?;
            if head == END {
                return Ok(None);
            }
            let value_at = self.behind(at, head)?;
            if let Part::Bytes(range) = self.part(at)?
                && self.is_equal(range, needle.bytes)
            {
                return Ok(Some(value_at));
            }
            at = self.behind(value_at, self.head(value_at)?)?;
        }
    }

    /// Finds the values of all of `names` that are wanted in one walk, and puts where they are to
    /// `places`.
    #[inline]
    fn find_each(
        self,
        names: &[&[u8]],
        wanted: &mut Wanted,
        places: &mut [usize],
    ) -> Result<(), Nonsense> {
        let mut at = self.start() + HEADER_BYTES;
        while wanted.left != 0 {
            let head = self.head(at)?;
            if head == END {
                break;
            }
            let length = match head {
                0x80..=0xBF => usize::from(head & 0x3F),
                _ => integer_bytes(head),
            };
            let tail = self.word(at + tail_of(length))? & first_bytes(length);
            let value_at = self.behind(at, head)?;
            let mut candidates =
                if wanted.filter & filter_bit(tail) == 0 { 0 } else { wanted.left };
            // The first that is not found is likely the next, as callers often name the fields in
            // the order in which they were set.
            while candidates != 0 {
                let one = candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                let is_equal = wanted.words[one] == tail && wanted.heads[one] == head;
                if is_equal && (length <= 8 || self.is_text_equal(at, names[one])) {
                    places[one] = value_at;
                    wanted.left &= !(1 << one);
                    if !wanted.may_repeat {
                        break;
                    }
                }
            }
            at = self.behind(value_at, self.head(value_at)?)?;
        }
        Ok(())
    }

    /// Returns whether the short element at `at`, which is as long, is `bytes`.
    fn is_text_equal(self, at: usize, bytes: &[u8]) -> bool {
        self.is_equal(at + 1..at + 1 + bytes.len(), bytes)
    }

    fn is_equal(self, range: Range<usize>, bytes: &[u8]) -> bool {
        range.len() == bytes.len()
            && bytes.chunks(8).zip(range.step_by(8)).all(|(chunk, at)| {
                let mut image = [0; 8];
                image[..chunk.len()].copy_from_slice(chunk);
                let word = self.bytes.word(at).map(|word| word & first_bytes(chunk.len()));
                word == Some(u64::from_le_bytes(image))
            })
    }

    #[inline]
    fn start(self) -> usize {
        self.bytes.positions().start
    }

    #[inline]
    fn word(self, at: usize) -> Result<u64, Nonsense> {
        self.bytes.word(at).ok_or(Nonsense)
    }

    #[inline]
    fn head(self, at: usize) -> Result<u8, Nonsense> {
        self.bytes.byte(at).ok_or(Nonsense)
    }

    /// Returns where the element behind that at `at`, which begins with `head`, is.
    #[inline]
    fn behind(self, at: usize, head: u8) -> Result<usize, Nonsense> {
        match head {
            0..=0x7F => Ok(at + 2),
            0x80..=0xBF => Ok(at + 2 + usize::from(head & 0x3F)),
            _ => self.behind_long(at, head),
        }
    }

    #[inline(never)]
    fn behind_long(self, at: usize, head: u8) -> Result<usize, Nonsense> {
        let word = self.word(at)?.to_le_bytes();
        let length = match head {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 2 + (usize::from(head & 0xF) << 8 | usize::from(word[1])),
            0xF0 => 5 + long_length(&word),
            0xF1 => 3,
            0xF2 => 4,
            0xF3 => 5,
            0xF4 => 9,
            _ => return Err(Nonsense),
        };
        Ok(at + length + backward_bytes(length))
    }

    /// Returns the element at `at`.
    #[inline]
    fn part(self, at: usize) -> Result<Part, Nonsense> {
        let word = self.word(at)?;
        let bytes = word.to_le_bytes();
        let text = |start: usize, length: usize| Part::Bytes(at + start..at + start + length);
        // The number in the `bits` bits behind the first byte.
        let number = |bits: u32| Part::Integer((word << (56 - bits)) as i64 >> (64 - bits));
        Ok(match bytes[0] {
            head @ 0..=0x7F => Part::Integer(i64::from(head)),
            head @ 0x80..=0xBF => text(1, usize::from(head & 0x3F)),
            head @ 0xC0..=0xDF => {
                let bits = u16::from(head & 0x1F) << 8 | u16::from(bytes[1]);
                Part::Integer(i64::from((bits << 3) as i16 >> 3))
            }
            head @ 0xE0..=0xEF => text(2, usize::from(head & 0xF) << 8 | usize::from(bytes[1])),
            0xF0 => text(5, long_length(&bytes)),
            0xF1 => number(16),
            0xF2 => number(24),
            0xF3 => number(32),
            0xF4 => Part::Integer(self.word(at + 1)? as i64),
            _ => return Err(Nonsense),
        })
    }
}

/// Returns how many bytes come behind `head` in an integer that begins with it; of anything else,
/// 0.
#[cold]
fn integer_bytes(head: u8) -> usize {
    match head {
        0xC0..=0xDF => 1,
        0xF1..=0xF3 => usize::from(head - 0xEF),
        0xF4 => 8,
        _ => 0,
    }
}

/// Returns where, counted from the start of a short element of `length` bytes, the last eight of
/// them begin, or all of them.
#[inline]
fn tail_of(length: usize) -> usize {
    1 + length.saturating_sub(8)
}

/// Returns the bits of the first `length` bytes of a word.
#[inline]
fn first_bytes(length: usize) -> u64 {
    if length >= 8 { u64::MAX } else { (1 << (8 * length)) - 1 }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;
    use crate::listpack::Listpack;

    fn drawn(random: &mut Prng) -> Vec<u8> {
        match random.below(4) {
            0 => (random.below(300) as i64 - 150).to_string().into_bytes(),
            1 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
            _ => {
                // Alike but for one byte, of every length around those that count.
                let lengths = [0, 1, 6, 7, 8, 9, 15, 16, 17, 62, 63, 64, 200, 4095, 4096];
                let mut bytes = vec![b'x'; lengths[random.below(15) as usize]];
                if let Some(at) = random.below(bytes.len() as u64 + 1).checked_sub(1) {
                    bytes[at as usize] = b'y';
                }
                bytes
            }
        }
    }

    fn bytes_of(pack: &[u8], part: Option<Part>) -> Option<Vec<u8>> {
        Some(match part? {
            Part::Integer(integer) => integer.to_string().into_bytes(),
            Part::Bytes(range) => pack[range].to_vec(),
        })
    }

    #[test]
    fn values_are_those_behind_their_names_whatever_their_forms() {
        let mut random = Prng::new(1);
        for _ in 0..400 {
            let mut names: Vec<Vec<u8>> =
                (0..random.below(20)).map(|_| drawn(&mut random)).collect();
            names.sort();
            names.dedup();
            let pairs: Vec<_> = names.into_iter().map(|name| (name, drawn(&mut random))).collect();
            let mut pack = Listpack::new();
            for (name, value) in &pairs {
                pack.push_back(name);
                pack.push_back(value);
            }
            // As in an entry: bytes that mean nothing follow.
            let bytes = [pack.bytes(), &[7; 9]].concat();
            let search = ListpackSearch::new(&bytes[..]);
            assert_eq!(search.count(), Some(2 * pairs.len() as u64));
            let mut wanted: Vec<Vec<u8>> = (0..20).map(|_| drawn(&mut random)).collect();
            wanted.extend(pairs.iter().map(|(name, _)| name.clone()));
            wanted.extend(wanted.first().cloned());
            let expected = wanted.iter().map(|name| {
                let pair = pairs.iter().find(|(other, _)| other == name);
                pair.map(|(_, value)| value.clone())
            });
            let expected: Vec<_> = expected.collect();
            for (name, expected) in wanted.iter().zip(&expected) {
                let found = search.value(name).unwrap();
                assert_eq!(bytes_of(&bytes, found), *expected, "{}", name.escape_ascii());
            }
            let names: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
            let mut found = Vec::new();
            let all = search.values(&names, |part| {
                found.push(bytes_of(&bytes, part));
                Ok(())
            });
            assert_eq!((all, found), (Ok(()), expected));
        }
    }

    #[test]
    fn scores_are_read_as_they_were_written() {
        let mut pack = Listpack::new();
        for (member, score) in [("a", "1.5"), ("b", "-17"), ("c", "1e300"), ("d", "inf")] {
            pack.push_back(member.as_bytes());
            pack.push_back(score.as_bytes());
        }
        pack.push_back(b"long");
        pack.push_back(&[b'1'; SCORE_BYTES_MAX + 1]);
        let score = |member: &[u8]| ListpackSearch::new(pack.bytes()).score(member);
        assert_eq!((score(b"a"), score(b"b")), (Ok(Some(1.5)), Ok(Some(-17.0))));
        assert_eq!((score(b"c"), score(b"d")), (Ok(Some(1e300)), Ok(Some(f64::INFINITY))));
        assert_eq!((score(b"e"), score(b"long")), (Ok(None), Err(Nonsense)));
    }

    #[test]
    fn bytes_of_any_kind_end_a_search() {
        let mut random = Prng::new(4);
        let (mut found, mut nonsense) = (0, 0);
        for _ in 0..20_000 {
            let mut pack = Listpack::new();
            let names: Vec<Vec<u8>> = (0..random.below(8)).map(|_| drawn(&mut random)).collect();
            names.iter().for_each(|name| pack.push_back(name));
            let mut bytes = pack.bytes().to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(bytes.len() - random.below(3) as usize);
            let search = ListpackSearch::new(&bytes[..]);
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let mut target = Vec::new();
            let outcome = search.values(&names, |part| match part {
                Some(part) => search.append_to(&part, &mut target),
                None => Ok(()),
            });
            match outcome {
                Ok(()) => found += 1,
                Err(Nonsense) => nonsense += 1,
            }
            for name in names {
                let _ = (search.value(name), search.score(name));
            }
        }
        assert!(found > 1000 && nonsense > 1000, "{found} and {nonsense}");
    }
}
