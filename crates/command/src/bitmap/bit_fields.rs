//! What BITFIELD and BITFIELD_RO share: integers of 1 to 64 bits anywhere in a string.
//!
//! The rules of overflow are those of Redis to the letter, where they surprise too.

use std::ops::Range;

use base::number::parse_i64;
use resp::Reply;

use super::bit_offset;
use crate::handler::error::CommandError;
use crate::handler::request::Args;

const NO_ENCODING: CommandError = CommandError::Fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 \
     is.",
);
const NO_OVERFLOW: CommandError = CommandError::Fixed("ERR Invalid OVERFLOW type specified");

/// Bytes that a field may touch: 64 bits that start within a byte.
const FIELD_BYTES_MAX: usize = 9;

/// One integer within a string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    is_signed: bool,
    /// 1 to 64, to 63 where it has no sign.
    bits: u32,
    /// The first bit, counted from the start of the string.
    offset: u64,
}

/// What happens to a number that its field cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// Its lowest bits are kept.
    Wrap,
    /// The nearest number that the field can hold takes its place.
    Saturate,
    /// The field stays as it is.
    Fail,
}

/// One subcommand of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// GET: replies with the field.
    Get(Field),
    /// SET, INCRBY.
    Change(Change),
}

/// A subcommand that may change its field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    field: Field,
    kind: Kind,
    number: i64,
    overflow: Overflow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Takes the number's place and replies with what was there.
    Set,
    /// Adds the number and replies with the sum.
    Increment,
}

/// A string while the operations of one request run on it: it is copied only where they may change
/// it, and what has changed is written at once.
#[derive(Debug)]
pub(super) struct Content<'v> {
    value: &'v [u8],
    /// The bytes from `first` on that may change, zeroes behind the end of `value`.
    window: Vec<u8>,
    first: usize,
}

/// Reads the subcommands of a request, for a string of at most `value_bytes_max` bytes.
///
/// # Errors
/// When a word is no subcommand, or lacks an argument, or has one that makes no sense.
pub(super) fn parse(args: Args<'_>, value_bytes_max: u64) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < args.len() {
        let behind = args.len() - index - 1;
        if args.is(index, "GET") && behind >= 2 {
            operations.push(Operation::Get(Field::parse(args, index + 1, value_bytes_max)?));
            index += 3;
        } else if let Some(kind) = Kind::named(args.at(index)).filter(|_| behind >= 3) {
            let field = Field::parse(args, index + 1, value_bytes_max)?;
            let number = args.integer(index + 3)?;
            operations.push(Operation::Change(Change { field, kind, number, overflow }));
            index += 4;
        } else if args.is(index, "OVERFLOW") && behind >= 1 {
            overflow = Overflow::named(args.at(index + 1)).ok_or(NO_OVERFLOW)?;
            index += 2;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(operations)
}

impl Operation {
    /// Returns whether it may change the string.
    pub fn changes(&self) -> bool {
        matches!(self, Operation::Change(_))
    }
}

impl Kind {
    fn named(word: &[u8]) -> Option<Kind> {
        let all: [(&[u8], Kind); 2] = [(b"SET", Kind::Set), (b"INCRBY", Kind::Increment)];
        all.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, kind)| kind)
    }
}

impl Overflow {
    fn named(word: &[u8]) -> Option<Overflow> {
        let all: [(&[u8], Overflow); 3] =
            [(b"WRAP", Overflow::Wrap), (b"SAT", Overflow::Saturate), (b"FAIL", Overflow::Fail)];
        all.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, kind)| kind)
    }
}

impl Field {
    /// Reads encoding and offset, which are arguments `index` and the one after it.
    fn parse(args: Args<'_>, index: usize, value_bytes_max: u64) -> Result<Field, CommandError> {
        let (is_signed, bits) = parse_encoding(args.at(index)).ok_or(NO_ENCODING)?;
        let text = args.at(index + 1);
        let offset = match text.strip_prefix(b"#") {
            // As many fields of this size lie before it. Redis lets the product wrap.
            Some(count) => parse_i64(count).map(|count| count.wrapping_mul(i64::from(bits))),
            None => parse_i64(text),
        };
        let offset = bit_offset::check(offset, value_bytes_max)?;
        Ok(Field { is_signed, bits, offset })
    }

    fn first_byte(self) -> usize {
        (self.offset / 8) as usize
    }

    /// Returns how many bytes the field touches.
    fn byte_count(self) -> usize {
        (self.offset % 8 + u64::from(self.bits)).div_ceil(8) as usize
    }

    /// Returns how far the field's last bit is from the end of its last byte.
    fn shift(self) -> u32 {
        8 * self.byte_count() as u32 - (self.offset % 8) as u32 - self.bits
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Returns the number whose lowest bits are those of `bits`.
    fn number(self, bits: u64) -> i64 {
        let unused = 64 - self.bits;
        match self.is_signed {
            true => (bits << unused) as i64 >> unused,
            false => (bits & self.mask()) as i64,
        }
    }

    /// Returns `number` plus `increment` as the field holds it; None where it cannot and `overflow`
    /// is to fail.
    fn sum(self, number: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        let (direction, low, high) = match self.is_signed {
            true => self.signed_overflow(number, increment),
            false => self.unsigned_overflow(number as u64, increment),
        };
        let sum = number.wrapping_add(increment);
        match (direction, overflow) {
            (0, _) => Some(sum),
            (_, Overflow::Wrap) => Some(self.number(sum as u64)),
            (1.., Overflow::Saturate) => Some(high),
            (_, Overflow::Saturate) => Some(low),
            (_, Overflow::Fail) => None,
        }
    }

    /// Returns 1 above the field's numbers, -1 below them, 0 within; and the lowest and highest.
    ///
    /// A number that was out of range before, as SET may bring it, makes the room above it wrap:
    /// the lowest 64-bit numbers count as too high then.
    ///
    /// Source: Redis, checkSignedBitfieldOverflow.
    fn signed_overflow(self, number: i64, increment: i64) -> (i32, i64, i64) {
        let high = i64::MAX >> (64 - self.bits);
        let low = -high - 1;
        let (room_above, room_below) = (high.wrapping_sub(number), low.wrapping_sub(number));
        let is_narrow = self.bits != 64;
        let is_above = number > high
            || is_narrow && increment > room_above
            || number >= 0 && increment > 0 && increment > room_above;
        let is_below = number < low
            || is_narrow && increment < room_below
            || number < 0 && increment < 0 && increment < room_below;
        (if is_above { 1 } else { -i32::from(is_below) }, low, high)
    }

    /// As [`Field::signed_overflow`]. Source: Redis, checkUnsignedBitfieldOverflow.
    fn unsigned_overflow(self, number: u64, increment: i64) -> (i32, i64, i64) {
        let high = self.mask();
        let room_above = high.wrapping_sub(number) as i64;
        let room_below = number.wrapping_neg() as i64;
        let is_above = number > high || increment > 0 && increment > room_above;
        let is_below = increment < 0 && increment < room_below;
        (if is_above { 1 } else { -i32::from(is_below) }, 0, high as i64)
    }
}

fn parse_encoding(text: &[u8]) -> Option<(bool, u32)> {
    let (sign, rest) = text.split_first()?;
    let (is_signed, bits_max) = match sign {
        b'i' => (true, 64),
        b'u' => (false, 63),
        _ => return None,
    };
    // Redis reads up to a zero byte here.
    let digits = rest.split(|&byte| byte == 0).next()?;
    let bits = u32::try_from(parse_i64(digits)?).ok()?;
    (1..=bits_max).contains(&bits).then_some((is_signed, bits))
}

impl<'v> Content<'v> {
    /// Returns which bytes of a string `operations` may change: so many are copied.
    pub fn window(operations: &[Operation]) -> Range<usize> {
        let changed = operations.iter().filter_map(|operation| match operation {
            Operation::Get(_) => None,
            Operation::Change(change) => Some(change.field),
        });
        let first = changed.clone().map(Field::first_byte).min().unwrap_or(0);
        let end = changed.map(|field| field.first_byte() + field.byte_count()).max().unwrap_or(0);
        first..end
    }

    /// Returns `value`, for `operations` to run on, which may change the bytes of their window.
    pub fn new(value: &'v [u8], operations: &[Operation]) -> Content<'v> {
        let Range { start: first, end } = Content::window(operations);
        let known = &value[first.min(value.len())..end.min(value.len())];
        let mut window = Vec::with_capacity(end - first);
        window.extend_from_slice(known);
        window.resize(end - first, 0);
        Content { value, window, first }
    }

    /// Runs `operation` and replies with its result.
    pub fn run(&mut self, operation: &Operation, reply: &mut Reply<'_>) {
        match operation {
            Operation::Get(field) => reply.integer(self.number(*field)),
            Operation::Change(change) => match self.change(change) {
                Some(result) => reply.integer(result),
                None => reply.null(),
            },
        }
    }

    /// Returns what is to be written and where: all bytes that differ, and the last byte where the
    /// string has to grow, whether it differs or not.
    pub fn into_changed(mut self) -> Option<(usize, Vec<u8>)> {
        let differs = |index: &usize| self.window[*index] != self.original(self.first + index);
        let all = 0..self.window.len();
        let grows = self.first + self.window.len() > self.value.len();
        let last = if grows { all.clone().last() } else { all.clone().rfind(differs) }?;
        let start = all.clone().find(differs).unwrap_or(last);
        self.window.truncate(last + 1);
        self.window.drain(..start);
        Some((self.first + start, self.window))
    }

    fn change(&mut self, change: &Change) -> Option<i64> {
        let field = change.field;
        let old = self.number(field);
        let new = match change.kind {
            Kind::Set => field.sum(change.number, 0, change.overflow),
            Kind::Increment => field.sum(old, change.number, change.overflow),
        }?;
        self.store(field, new as u64 & field.mask());
        Some(if change.kind == Kind::Set { old } else { new })
    }

    fn number(&self, field: Field) -> i64 {
        field.number((self.load(field) >> field.shift()) as u64)
    }

    /// Returns the bytes that `field` touches as one number.
    fn load(&self, field: Field) -> u128 {
        let first = field.first_byte();
        let bytes = (first..first + field.byte_count()).map(|index| self.byte(index));
        bytes.fold(0, |number, byte| number << 8 | u128::from(byte))
    }

    fn store(&mut self, field: Field, bits: u64) {
        let (count, shift) = (field.byte_count(), field.shift());
        assert!(count <= FIELD_BYTES_MAX, "a field has at most 64 bits");
        let kept = self.load(field) & !(u128::from(field.mask()) << shift);
        let bytes = (kept | u128::from(bits) << shift).to_le_bytes();
        let at = field.first_byte() - self.first;
        let touched = self.window[at..at + count].iter_mut().rev();
        touched.zip(bytes).for_each(|(byte, new)| *byte = new);
    }

    fn byte(&self, index: usize) -> u8 {
        let in_window = index.checked_sub(self.first).and_then(|at| self.window.get(at));
        in_window.copied().unwrap_or_else(|| self.original(index))
    }

    fn original(&self, index: usize) -> u8 {
        self.value.get(index).copied().unwrap_or(0)
    }
}
