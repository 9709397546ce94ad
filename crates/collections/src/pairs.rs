//! The fields and values of a large hash: pairs of about one length stand side by side, each with
//! its links, so that a pair costs one look and no block of its own.
//!
//! ```text
//! byte 0  4  the low half of the field's hash
//! byte 4  4  the position of the next pair in the bucket
//! byte 8  1  the length of what follows
//! byte 9     the field's length, seven bits a byte, lowest first; the field; the value
//! ```
//!
//! What is longer than a class has room for is in a block, to which an item refers.

use crate::chunked::Chunked;
use crate::hash_table::{Entries, Table};
use crate::heap_bytes;
use crate::walk::put_part;

/// Bytes before the content.
const FRAME_BYTES: usize = 9;
/// Bytes of a pair of the first class; each further class has a step more.
const FIRST_BYTES: usize = 24;
const STEP_BYTES: usize = 8;
const CLASS_COUNT: usize = 15;
/// The most bytes of content that are in a class.
const CLASS_CONTENT_MAX: usize = FIRST_BYTES + (CLASS_COUNT - 1) * STEP_BYTES - FRAME_BYTES;
const _: () = assert!(CLASS_CONTENT_MAX <= u8::MAX as usize);

/// A pair that becomes shorter stays in its lane while that is at most so many classes above what
/// it needs: values that change their lengths a little would have it move each time.
const SPARE_CLASSES: usize = 2;
/// A pair that has a block keeps having one while its content is longer than this.
const LONG_CONTENT_MIN: usize = CLASS_CONTENT_MAX - SPARE_CLASSES * STEP_BYTES;

/// Bytes of a piece of a class, at most.
const PIECE_BYTES_MAX: usize = 4096;
/// A position is the number of a lane and an index there.
const INDEX_BITS: usize = 28;
/// The lane of pairs that have blocks; the others are in the order in which they came.
const LONG: usize = CLASS_COUNT;
/// The most pairs of a lane. What a full one cannot take has a block.
const LANE_PAIRS_MAX: usize = (1 << INDEX_BITS) - 1;
const _: () = assert!((LONG + 1) << INDEX_BITS <= 1 << 32);
const LONG_BYTES: u64 = size_of::<Long>() as u64;

/// Returns a bound of what a pair takes, without its part of the buckets.
pub(crate) fn pair_bytes_max(field: usize, value: usize) -> u64 {
    let content = content_bytes(field, value);
    match class_of(content) {
        Some(class) => class_bytes(class) as u64,
        None => LONG_BYTES + heap_bytes(content),
    }
}

/// The most bytes of pieces that have been begun.
pub(crate) const BEGUN_BYTES_MAX: u64 = (CLASS_COUNT * PIECE_BYTES_MAX) as u64;

/// Pairs by position.
#[derive(Clone, Default)]
pub(crate) struct Pairs {
    /// The number of the lane of each class, counted from 1; 0 where it has none yet.
    lane_numbers: [u8; CLASS_COUNT],
    lanes: Vec<Lane>,
    long: Chunked<Long>,
    len: usize,
    /// What the lanes take, and the blocks of long pairs.
    bytes: u64,
}

/// The pairs of one class, in pieces. The first piece grows with them, later ones are made whole.
struct Lane {
    class: usize,
    pair_bytes: usize,
    /// Pairs of a piece, as a power of two.
    piece_bits: u32,
    len: usize,
    pieces: Vec<Vec<u8>>,
}

/// The item of a pair that has a block.
#[derive(Clone)]
struct Long {
    hash: u32,
    next: u32,
    content: Box<[u8]>,
}

impl Pairs {
    /// Returns the position of pair `index`, in no order: all indexes below the length are all
    /// pairs.
    #[inline]
    fn position_of(&self, index: usize) -> Option<usize> {
        let mut rest = index;
        for (number, lane) in self.lanes.iter().enumerate() {
            if rest < lane.len {
                return Some(position_in(number, rest));
            }
            rest -= lane.len;
        }
        (rest < self.long.len()).then(|| position_in(LONG, rest))
    }

    /// Returns the index of the pair at `position`, as [`Pairs::position_of`] counts them.
    fn index_of(&self, position: usize) -> usize {
        let before = self.lanes.iter().take(lane_number(position));
        before.map(|lane| lane.len).sum::<usize>() + index_in(position)
    }

    #[inline]
    fn content(&self, position: usize) -> &[u8] {
        match lane_number(position) {
            LONG => &self.long.get(index_in(position)).content,
            number => content_of(self.lanes[number].pair(index_in(position))),
        }
    }

    /// Returns the field at `position`.
    pub fn field(&self, position: usize) -> &[u8] {
        parts(self.content(position)).0
    }

    /// Makes `value` the value at `position` where the pair stays in its lane; says whether it
    /// does. One that becomes shorter does while little is unused.
    fn replace_value(&mut self, position: usize, value: &[u8]) -> bool {
        let (field, old) = parts(self.content(position));
        let (kept, has_same_length) =
            (prefix_bytes(field.len()) + field.len(), old.len() == value.len());
        let index = index_in(position);
        let content = kept + value.len();
        if lane_number(position) == LONG {
            let stays = has_same_length || content > LONG_CONTENT_MIN;
            if has_same_length {
                self.long.get_mut(index).content[kept..].copy_from_slice(value);
            } else if stays {
                let long = self.long.get_mut(index);
                self.bytes = self.bytes + heap_bytes(content) - heap_bytes(long.content.len());
                long.content = [&long.content[..kept], value].concat().into_boxed_slice();
            }
            return stays;
        }
        let lane = &mut self.lanes[lane_number(position)];
        let fits = |class| (class..=class + SPARE_CLASSES).contains(&lane.class);
        let stays = has_same_length || class_of(content).is_some_and(fits);
        if stays {
            let pair = lane.pair_mut(index);
            pair[FRAME_BYTES - 1] = content as u8;
            pair[FRAME_BYTES + kept..][..value.len()].copy_from_slice(value);
        }
        stays
    }

    /// Adds a pair, which `next` follows in its bucket; returns its position.
    fn push(&mut self, hash: u32, next: u32, field: &[u8], value: &[u8]) -> usize {
        let bytes = content_bytes(field.len(), value.len());
        self.len += 1;
        let Some(number) = class_of(bytes).and_then(|class| self.lane_with_room(class)) else {
            let mut content = vec![0; bytes].into_boxed_slice();
            write_content(field, value, &mut content);
            self.bytes += heap_bytes(bytes);
            self.long.push(Long { hash, next, content });
            assert!(self.long.len() <= LANE_PAIRS_MAX, "the pairs of a hash are bounded");
            return position_in(LONG, self.long.len() - 1);
        };
        let lane = &mut self.lanes[number];
        if lane.is_full() {
            self.bytes -= lane.memory_bytes();
            lane.make_room();
            self.bytes += lane.memory_bytes();
        }
        let pair = lane.push();
        pair[..4].copy_from_slice(&hash.to_le_bytes());
        pair[4..8].copy_from_slice(&next.to_le_bytes());
        pair[FRAME_BYTES - 1] = bytes as u8;
        write_content(field, value, &mut pair[FRAME_BYTES..][..bytes]);
        position_in(number, lane.len - 1)
    }

    /// Returns the number of the lane of `class`, made where there was none; `None` where it has as
    /// many pairs as it may.
    #[inline]
    fn lane_with_room(&mut self, class: usize) -> Option<usize> {
        if self.lane_numbers[class] == 0 {
            let before = self.lane_list_bytes();
            self.lanes.reserve_exact(1);
            self.lanes.push(Lane::of_class(class));
            self.lane_numbers[class] = self.lanes.len() as u8;
            self.bytes = self.bytes + self.lane_list_bytes() - before;
        }
        let number = usize::from(self.lane_numbers[class] - 1);
        (self.lanes[number].len < LANE_PAIRS_MAX).then_some(number)
    }

    fn lane_list_bytes(&self) -> u64 {
        heap_bytes(self.lanes.capacity() * size_of::<Lane>())
    }

    /// Takes out the pair at `position`, whose place the last of its lane takes.
    fn remove(&mut self, position: usize) {
        self.len -= 1;
        let index = index_in(position);
        if lane_number(position) == LONG {
            let mut long = self.long.pop().expect("it has the pair at the position");
            if index < self.long.len() {
                std::mem::swap(self.long.get_mut(index), &mut long);
            }
            self.bytes -= heap_bytes(long.content.len());
            return;
        }
        let lane = &mut self.lanes[lane_number(position)];
        let keeps_pieces = lane.keeps_pieces();
        let before = if keeps_pieces { 0 } else { lane.memory_bytes() };
        lane.remove(index);
        if !keeps_pieces {
            self.bytes = self.bytes + lane.memory_bytes() - before;
        }
    }
}

impl Entries for Pairs {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        self.bytes + self.long.memory_bytes()
    }

    #[inline]
    fn link(&self, position: usize) -> (u32, u32) {
        if lane_number(position) == LONG {
            let long = self.long.get(index_in(position));
            return (long.hash, long.next);
        }
        let pair = self.lanes[lane_number(position)].pair(index_in(position));
        (word(pair, 0), word(pair, 4))
    }

    #[inline]
    fn set_next(&mut self, position: usize, next: u32) {
        let index = index_in(position);
        match lane_number(position) {
            LONG => self.long.get_mut(index).next = next,
            number => {
                self.lanes[number].pair_mut(index)[4..8].copy_from_slice(&next.to_le_bytes());
            }
        }
    }

    #[inline]
    fn compare(&self, position: usize, hash: u32, name: &[u8]) -> (bool, u32) {
        if lane_number(position) == LONG {
            let long = self.long.get(index_in(position));
            return (long.hash == hash && parts(&long.content).0 == name, long.next);
        }
        let pair = self.lanes[lane_number(position)].pair(index_in(position));
        (word(pair, 0) == hash && parts(content_of(pair)).0 == name, word(pair, 4))
    }

    fn last_beside(&self, position: usize) -> usize {
        let number = lane_number(position);
        let len = if number == LONG { self.long.len() } else { self.lanes[number].len };
        position_in(number, len - 1)
    }

    fn put_parts(&self, position: usize, out: &mut Vec<u8>) {
        let (field, value) = parts(self.content(position));
        put_part(field, out);
        put_part(value, out);
    }
}

/// A table of pairs.
pub(crate) type PairTable = Table<Pairs>;

impl PairTable {
    /// Returns the field and the value at `position`.
    #[inline]
    pub fn pair(&self, position: usize) -> (&[u8], &[u8]) {
        parts(self.entries.content(position))
    }

    /// Returns pair `index`, in no order: all indexes below the length are all pairs.
    pub fn at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        Some(self.pair(self.entries.position_of(index)?))
    }

    /// Returns the index of the pair at `position`, as [`PairTable::at`] counts them.
    pub fn index_of(&self, position: usize) -> usize {
        self.entries.index_of(position)
    }

    /// Returns the pairs in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let lanes = self.entries.lanes.iter().flat_map(Lane::contents);
        lanes.chain(self.entries.long.iter().map(|long| &*long.content)).map(parts)
    }

    /// Adds a pair whose field, which has this `hash`, is not there.
    pub fn insert(&mut self, hash: u64, field: &[u8], value: &[u8]) {
        let hash = hash as u32;
        self.add(hash, |pairs, next| pairs.push(hash, next, field, value));
    }

    /// Makes `value` the value of the pair at `position`.
    #[inline]
    pub fn set_value(&mut self, position: usize, value: &[u8]) {
        self.before_change_at(position);
        if !self.entries.replace_value(position, value) {
            self.move_with_value(position, value);
        }
    }

    /// The pair gets another length, and with it another place.
    fn move_with_value(&mut self, position: usize, value: &[u8]) {
        let (hash, _) = self.entries.link(position);
        let (field, _) = self.pair(position);
        let (mut copy, mut long) = ([0; CLASS_CONTENT_MAX], Vec::new());
        let field = match copy.get_mut(..field.len()) {
            Some(copy) => {
                copy.copy_from_slice(field);
                &*copy
            }
            None => {
                long.extend_from_slice(field);
                &*long
            }
        };
        self.remove(position);
        self.insert(hash.into(), field, value);
    }

    /// Takes out the pair at `position`, whose place another may take.
    pub fn remove(&mut self, position: usize) {
        self.unlink(position);
        self.entries.remove(position);
        self.shrink();
    }

    /// Visits the pairs of some buckets; see [`Table::scan_positions`].
    pub fn scan(&self, cursor: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        self.scan_positions(cursor, |position| {
            let (field, value) = self.pair(position);
            visit(field, value);
        })
    }
}

impl Lane {
    fn of_class(class: usize) -> Lane {
        let pair_bytes = class_bytes(class);
        let piece_bits = (PIECE_BYTES_MAX / pair_bytes).ilog2();
        Lane { class, pair_bytes, piece_bits, len: 0, pieces: Vec::new() }
    }

    #[inline]
    fn place(&self, index: usize) -> (usize, std::ops::Range<usize>) {
        let start = (index & ((1 << self.piece_bits) - 1)) * self.pair_bytes;
        (index >> self.piece_bits, start..start + self.pair_bytes)
    }

    #[inline]
    fn pair(&self, index: usize) -> &[u8] {
        let (piece, range) = self.place(index);
        &self.pieces[piece][range]
    }

    #[inline]
    fn pair_mut(&mut self, index: usize) -> &mut [u8] {
        let (piece, range) = self.place(index);
        &mut self.pieces[piece][range]
    }

    fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| piece.chunks_exact(self.pair_bytes)).map(content_of)
    }

    fn piece_bytes(&self) -> usize {
        self.pair_bytes << self.piece_bits
    }

    /// Returns whether another pair needs more memory.
    #[inline]
    fn is_full(&self) -> bool {
        self.pieces.last().is_none_or(|piece| {
            // A piece may have been given more than was asked for.
            piece.len() == self.piece_bytes() || piece.capacity() - piece.len() < self.pair_bytes
        })
    }

    /// Makes room for another pair at least.
    fn make_room(&mut self) {
        let whole = self.piece_bytes();
        if self.pieces.is_empty() {
            self.pieces.reserve_exact(1);
            return self.pieces.push(Vec::with_capacity(self.pair_bytes));
        }
        match &mut *self.pieces {
            [first] if first.len() < whole => {
                first.reserve_exact(first.len().min(whole - first.len()));
            }
            _ => self.pieces.push(Vec::with_capacity(whole)),
        }
    }

    /// Adds a pair of zeroes, for which there is room, and returns it.
    #[inline]
    fn push(&mut self) -> &mut [u8] {
        let piece = self.pieces.last_mut().expect("there is room in it");
        let start = piece.len();
        piece.resize(start + self.pair_bytes, 0);
        self.len += 1;
        &mut piece[start..]
    }

    /// Returns whether the pieces stay as they are where a pair goes.
    #[inline]
    fn keeps_pieces(&self) -> bool {
        let last = self.pieces.last().map_or(0, Vec::len);
        self.pieces.len() > 1 && last > self.pair_bytes
    }

    /// Takes out pair `index`, whose place the last takes.
    fn remove(&mut self, index: usize) {
        let (piece, range) = self.place(index);
        let [whole @ .., last] = &mut *self.pieces else { panic!("it has the pair") };
        let start = last.len() - self.pair_bytes;
        match whole.get_mut(piece) {
            Some(piece) => piece[range].copy_from_slice(&last[start..]),
            None => last.copy_within(start.., range.start),
        }
        last.truncate(start);
        self.len -= 1;
        if last.is_empty() {
            self.pieces.pop();
            if self.pieces.len() * 4 < self.pieces.capacity() {
                self.pieces.shrink_to(2 * self.pieces.len());
            }
        } else if whole.is_empty() && start * 4 < last.capacity() {
            last.shrink_to(2 * start);
        }
    }

    /// Returns the bytes of memory that the pieces take. Costs a few loads.
    fn memory_bytes(&self) -> u64 {
        let first = self.pieces.first().map_or(0, Vec::capacity);
        let rest = (self.pieces.len() as u64).saturating_sub(1) * heap_bytes(self.piece_bytes());
        heap_bytes(self.pieces.capacity() * size_of::<Vec<u8>>()) + heap_bytes(first) + rest
    }
}

impl Clone for Lane {
    /// The pieces of the copy are made whole too.
    fn clone(&self) -> Lane {
        let pieces = self.pieces.iter().enumerate().map(|(index, piece)| {
            let capacity = if index == 0 { piece.capacity() } else { self.piece_bytes() };
            let mut copy = Vec::with_capacity(capacity);
            copy.extend_from_slice(piece);
            copy
        });
        let mut copies = Vec::with_capacity(self.pieces.capacity());
        copies.extend(pieces);
        Lane { pieces: copies, ..*self }
    }
}

/// Returns the class of a pair of so many bytes of content; `None` where it has a block.
#[inline]
const fn class_of(content: usize) -> Option<usize> {
    if content > CLASS_CONTENT_MAX {
        return None;
    }
    Some((content + FRAME_BYTES).saturating_sub(FIRST_BYTES).div_ceil(STEP_BYTES))
}

const fn class_bytes(class: usize) -> usize {
    FIRST_BYTES + class * STEP_BYTES
}

#[inline]
fn position_in(lane: usize, index: usize) -> usize {
    lane << INDEX_BITS | index
}

#[inline]
fn lane_number(position: usize) -> usize {
    position >> INDEX_BITS
}

#[inline]
fn index_in(position: usize) -> usize {
    position & ((1 << INDEX_BITS) - 1)
}

/// Returns the word at `at`.
#[inline]
fn word(pair: &[u8], at: usize) -> u32 {
    let bytes = pair[at..].first_chunk().expect("a pair begins with two words");
    u32::from_le_bytes(*bytes)
}

#[inline]
fn content_of(pair: &[u8]) -> &[u8] {
    &pair[FRAME_BYTES..][..usize::from(pair[FRAME_BYTES - 1])]
}

/// Returns the bytes that tell the length of a field of `length` bytes.
#[inline]
fn prefix_bytes(length: usize) -> usize {
    (length.max(1).ilog2() / 7 + 1) as usize
}

#[inline]
fn content_bytes(field: usize, value: usize) -> usize {
    prefix_bytes(field) + field + value
}

/// Writes the content, which has as many bytes as `target`.
#[inline]
fn write_content(field: &[u8], value: &[u8], target: &mut [u8]) {
    let (mut start, mut rest) = (0, field.len());
    while rest > 0x7F {
        target[start] = rest as u8 | 0x80;
        (start, rest) = (start + 1, rest >> 7);
    }
    target[start] = rest as u8;
    let (kept, tail) = target[start + 1..].split_at_mut(field.len());
    kept.copy_from_slice(field);
    tail.copy_from_slice(value);
}

/// Returns the field and the value of `content`.
#[inline]
fn parts(content: &[u8]) -> (&[u8], &[u8]) {
    let (mut length, mut start) = (0, 0);
    loop {
        length |= usize::from(content[start] & 0x7F) << (7 * start);
        start += 1;
        if content[start - 1] & 0x80 == 0 {
            return content[start..].split_at(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use base::SecretHasher;
    use base::prng::Prng;

    use super::*;

    type Model = HashMap<Vec<u8>, Vec<u8>>;

    fn check(table: &PairTable, model: &Model, hasher: &SecretHasher) {
        assert_eq!(table.len(), model.len());
        let all = (0..).map_while(|index| table.at(index));
        assert!(all.clone().eq(table.iter()));
        assert_eq!(all.count(), model.len());
        for (index, (field, value)) in table.iter().enumerate() {
            assert_eq!(model.get(field).map(Vec::as_slice), Some(value));
            let position = table.find(hasher.hash(field), field).expect("it is there");
            assert_eq!((table.index_of(position), table.pair(position)), (index, (field, value)));
        }
        check_memory(&table.entries);
    }

    /// Compares what is counted with what there is.
    fn check_memory(pairs: &Pairs) {
        let list = heap_bytes(pairs.lanes.capacity() * size_of::<Lane>());
        let lane = |lane: &Lane| {
            let pieces = lane.pieces.iter().map(|piece| heap_bytes(piece.capacity()));
            heap_bytes(lane.pieces.capacity() * size_of::<Vec<u8>>()) + pieces.sum::<u64>()
        };
        let blocks = pairs.long.iter().map(|long| heap_bytes(long.content.len()));
        let own = pairs.lanes.iter().map(lane).sum::<u64>() + blocks.sum::<u64>();
        assert_eq!(pairs.memory_bytes(), list + own + pairs.long.memory_bytes());
    }

    #[test]
    fn any_history_leaves_what_a_map_would_have() {
        let hasher = SecretHasher::new([7, 1]);
        let mut random = Prng::new(1);
        for (bound, longest) in [(3, 300), (40, 30), (2000, 20), (2000, 250), (30, 20_000)] {
            let (mut table, mut model) = (PairTable::default(), Model::new());
            for step in 0..20_000 {
                let number = random.below(bound);
                let mut field = number.to_string().into_bytes();
                field.resize(field.len() + (number % 7 * (longest / 7)) as usize, b'f');
                let value = vec![random.below(256) as u8; random.below(longest) as usize];
                let found = table.find(hasher.hash(&field), &field);
                assert_eq!(found.is_some(), model.contains_key(&field));
                // Grows first, shrinks later.
                match (found, random.one_in(if step < 10_000 { 3 } else { 2 })) {
                    (Some(position), true) => {
                        table.remove(position);
                        model.remove(&field);
                    }
                    (Some(position), false) => {
                        table.set_value(position, &value);
                        model.insert(field, value);
                    }
                    (None, false) => {
                        table.insert(hasher.hash(&field), &field, &value);
                        model.insert(field, value);
                    }
                    (None, true) => {}
                }
                if step % 500 == 0 {
                    check(&table, &model, &hasher);
                    check(&table.clone(), &model, &hasher);
                }
            }
            while let Some((field, _)) = table.at(0) {
                let position = table.find(hasher.hash(field), field).expect("it is there");
                table.remove(position);
                check_memory(&table.entries);
            }
            assert!(table.memory_bytes() < 4000, "{} bytes stay", table.memory_bytes());
        }
    }

    #[test]
    fn a_scan_meets_whatever_stays_while_lengths_change() {
        let hasher = SecretHasher::new([3, 1]);
        let mut random = Prng::new(2);
        let field = |number: u64| format!("field {number}").into_bytes();
        for _ in 0..20 {
            let mut table = PairTable::default();
            let count = 1 + random.below(600);
            (0..count)
                .for_each(|number| table.insert(hasher.hash(&field(number)), &field(number), b""));
            let (mut cursor, mut seen) = (0, std::collections::HashSet::new());
            loop {
                cursor = table.scan(cursor, &mut |field, _| {
                    seen.insert(field.to_vec());
                });
                if cursor == 0 {
                    break;
                }
                for _ in 0..random.below(6) {
                    let field = field(random.below(count));
                    let position = table.find(hasher.hash(&field), &field).expect("it stays");
                    table.set_value(position, &vec![b'v'; random.below(200) as usize]);
                }
            }
            assert_eq!(seen, (0..count).map(field).collect());
        }
    }

    #[test]
    fn pairs_of_one_length_take_little_more_than_their_bytes() {
        let hasher = SecretHasher::new([3, 1]);
        for (field, value) in [(6, 11), (16, 16), (16, 100), (4, 8)] {
            let mut table = PairTable::default();
            for number in 0..100_000_u64 {
                let mut name = number.to_le_bytes().to_vec();
                name.resize(field, b'f');
                table.insert(hasher.hash(&name), &name, &vec![b'v'; value]);
            }
            let each = table.memory_bytes() as f64 / 100_000.0;
            let data = (field + value) as f64;
            // Links, lengths and buckets; what a class is longer; lists and what was begun.
            assert!(each < data + 14.0 + 7.0 + 2.0, "{each} bytes for {data}");
        }
    }
}
