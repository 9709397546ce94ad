//! HyperLogLogs: how many different elements there have been, within 0.81 % as a rule, in at most
//! 12 KiB. They are values of strings, byte for byte those of Redis.
//!
//! ```text
//! byte 0   4 magic        HYLL
//! byte 4   1 form         0: dense, 1: sparse
//! byte 5   3 unused       kept as they are found
//! byte 8   8 count        little-endian, as it was asked for last; highest bit: not valid any more
//! byte 16    registers    dense: 16,384 of 6 bits; sparse: runs of registers that are alike
//! ```
//!
//! An element belongs to one register, which keeps the longest run of zeroes that the hash of any
//! of its elements ended in. Anyone can write such a string, so each byte is checked where it is
//! used; a count that is marked as valid is believed, as Redis does.
//!
//! Source: Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality estimation
//! algorithm" (2007); Ertl, "New cardinality estimation algorithms for HyperLogLog sketches"
//! (2017); Redis, hyperloglog.c.

mod dense;
mod element;
mod estimate;
mod registers;
mod self_test;
mod sparse;

pub use registers::Registers;
pub use self_test::self_test;
pub use sparse::{Run, Runs};

use dense::{DENSE_BYTES, register, with_register};
use element::Hit;
use sparse::{Cursor, Found, Outcome};

/// The number of registers.
pub const REGISTER_COUNT: usize = 1 << INDEX_BITS;
/// Bits of an element's hash that say which register is its own.
const INDEX_BITS: u32 = 14;
/// The longest run of an element: the other bits of its hash, and one.
const RUN_MAX: u8 = 64 - INDEX_BITS as u8 + 1;

const MAGIC: &[u8; 4] = b"HYLL";
const FORM_AT: usize = 4;
const COUNT_AT: usize = 8;
/// The byte of the count whose highest bit says that it is not valid.
const VALIDITY_AT: usize = 15;
const NOT_VALID: u8 = 0x80;
const HEADER_BYTES: usize = 16;
/// The length of a value in the dense form.
const DENSE_VALUE_BYTES: usize = HEADER_BYTES + DENSE_BYTES;
/// No value in the sparse form is longer: each register has at most one run, of two bytes.
const SPARSE_VALUE_BYTES_MAX: usize = HEADER_BYTES + 2 * REGISTER_COUNT;

/// So many elements are looked up in dense registers where these lie; for more they are copied.
const ELEMENTS_IN_PLACE_MAX: usize = 16;

/// How registers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// 6 bits each.
    Dense,
    /// As runs.
    Sparse,
}

/// Why a string is not taken for a HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It has no such header, or not the length of its form.
    OtherString,
    /// Its runs are not those of all registers.
    Corrupt,
}

/// A string whose header is that of a HyperLogLog.
#[derive(Clone, Copy, Debug)]
pub struct HyperLogLog<'v> {
    value: &'v [u8],
    form: Form,
}

/// How the bytes of a value change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Not at all.
    Keep,
    /// A few of them; the length stays.
    Bytes(ByteChanges),
    /// From this offset on, to those of the new value.
    From(usize),
    /// To those of the new value, which does not grow further.
    Whole,
}

/// New bytes at offsets within a value, each offset once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteChanges(Vec<(u64, u8)>);

/// What adding elements has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// How the value changes.
    pub edit: Edit,
    /// A register has changed, or there was no value before.
    pub has_changed: bool,
    /// It was sparse and is dense now.
    pub is_converted: bool,
}

impl Added {
    const NOTHING: Added = Added { edit: Edit::Keep, has_changed: false, is_converted: false };
}

impl ByteChanges {
    /// Returns the changes.
    pub fn as_slice(&self) -> &[(u64, u8)] {
        &self.0
    }

    /// Returns the byte at `offset` of `value` as it is to be.
    fn byte(&self, value: &[u8], offset: usize) -> u8 {
        let changed = self.0.iter().find(|(at, _)| *at == offset as u64);
        changed.map_or(value[offset], |(_, byte)| *byte)
    }

    fn set(&mut self, value: &[u8], offset: usize, byte: u8) {
        match self.0.iter_mut().find(|(at, _)| *at == offset as u64) {
            Some(change) => change.1 = byte,
            None if value[offset] == byte => {}
            None => self.0.push((offset as u64, byte)),
        }
    }
}

impl<'v> HyperLogLog<'v> {
    /// Returns `value` as what it is.
    ///
    /// # Errors
    /// [`Flaw::OtherString`]; [`Flaw::Corrupt`] where it is longer than any with valid runs.
    ///
    /// Source: Redis, isHLLObjectOrReply.
    #[inline]
    pub fn parse(value: &'v [u8]) -> Result<HyperLogLog<'v>, Flaw> {
        let Some((header, _)) = value.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Flaw::OtherString);
        };
        if header[..FORM_AT] != *MAGIC {
            return Err(Flaw::OtherString);
        }
        let form = match header[FORM_AT] {
            0 if value.len() == DENSE_VALUE_BYTES => Form::Dense,
            1 if value.len() <= SPARSE_VALUE_BYTES_MAX => Form::Sparse,
            1 => return Err(Flaw::Corrupt),
            _ => return Err(Flaw::OtherString),
        };
        Ok(HyperLogLog { value, form })
    }

    /// Returns whether the registers take 6 bits each.
    pub fn is_dense(&self) -> bool {
        self.form == Form::Dense
    }

    /// Returns the count that was kept when it was asked for last, unless a register has changed
    /// since.
    #[inline]
    pub fn kept_count(&self) -> Option<u64> {
        let count = self.value[COUNT_AT..].first_chunk().expect("the header has the count");
        (count[VALIDITY_AT - COUNT_AT] & NOT_VALID == 0).then(|| u64::from_le_bytes(*count))
    }

    /// Returns about how many different elements there have been.
    ///
    /// # Errors
    /// [`Flaw::Corrupt`].
    pub fn count(&self) -> Result<u64, Flaw> {
        match self.dense() {
            Some(packed) => Ok(estimate::count(&registers::tally_dense(packed))),
            None => Ok(estimate::count(&sparse::tally(self.body())?)),
        }
    }

    /// Raises `registers` to those of this one where they are lower.
    ///
    /// # Errors
    /// [`Flaw::Corrupt`]; some registers may have been raised.
    pub fn merge_into(&self, registers: &mut Registers) -> Result<(), Flaw> {
        match self.dense() {
            Some(packed) => registers.merge_dense(packed),
            None => sparse::merge(self.body(), registers)?,
        }
        Ok(())
    }

    /// Returns the runs; of a dense one there are none.
    pub fn runs(&self) -> Runs<'v> {
        Runs::new(if self.form == Form::Sparse { self.body() } else { &[] })
    }

    /// Writes the same, with the registers in the dense form, to `dense`.
    ///
    /// # Errors
    /// [`Flaw::Corrupt`].
    pub fn to_dense(&self, dense: &mut Vec<u8>) -> Result<(), Flaw> {
        let mut registers = Registers::default();
        self.merge_into(&mut registers)?;
        write_dense(&header_of(self.value), &registers, dense);
        Ok(())
    }

    /// Returns the length of what is behind the header, in bytes.
    pub fn body_bytes(&self) -> usize {
        self.body().len()
    }

    /// Returns the value of register `index`, of a dense one.
    ///
    /// # Panics
    /// When there is no such register, or the form is the sparse one.
    pub fn dense_register(&self, index: usize) -> u8 {
        register(self.dense().expect("the caller looked at the form"), index)
    }

    fn body(&self) -> &'v [u8] {
        &self.value[HEADER_BYTES..]
    }

    #[inline]
    fn dense(&self) -> Option<&'v [u8; DENSE_BYTES]> {
        match self.form {
            Form::Dense => self.body().first_chunk(),
            Form::Sparse => None,
        }
    }
}

/// Returns the bytes of a value that change where it keeps `count` as its own.
pub fn keep_count(count: u64) -> Edit {
    let bytes = (COUNT_AT as u64..).zip(count.to_le_bytes());
    Edit::Bytes(ByteChanges(bytes.collect()))
}

/// Adds `elements` to `value`, or to an empty one where there is none. What an edit calls the new
/// value is in `memory` then, whose content before is of no account. A sparse value of more than
/// `sparse_bytes_max` becomes dense.
///
/// # Errors
/// [`Flaw`].
///
/// Source: Redis, pfaddCommand.
pub fn add<'e>(
    value: Option<&[u8]>,
    elements: impl ExactSizeIterator<Item = &'e [u8]>,
    sparse_bytes_max: u64,
    memory: &mut Vec<u8>,
) -> Result<Added, Flaw> {
    let Some(value) = value else {
        write_empty(memory);
        let mut change = CopyChange { first: None, is_dense: false };
        change.add(elements, sparse_bytes_max, memory)?;
        memory[VALIDITY_AT] |= NOT_VALID;
        let is_converted = change.is_dense;
        return Ok(Added { edit: Edit::Whole, has_changed: true, is_converted });
    };
    let log = HyperLogLog::parse(value)?;
    match log.dense() {
        Some(packed) if elements.len() <= ELEMENTS_IN_PLACE_MAX => {
            Ok(add_in_place(value, packed, elements))
        }
        _ => add_to_value(value, log.form, elements, sparse_bytes_max, memory),
    }
}

/// Adds few elements to a dense value.
fn add_in_place<'e>(
    value: &[u8],
    packed: &[u8; DENSE_BYTES],
    elements: impl Iterator<Item = &'e [u8]>,
) -> Added {
    let mut changes = ByteChanges::default();
    for element in elements {
        let Hit { index, run } = Hit::of(element);
        if register(packed, usize::from(index)) >= run {
            continue;
        }
        // An earlier element may have changed the register, or its neighbour in one byte.
        let offset = HEADER_BYTES + dense::offset_of(usize::from(index));
        let mut pair = [0; 2];
        for (at, byte) in (offset..value.len()).zip(&mut pair) {
            *byte = changes.byte(value, at);
        }
        if let Some(pair) = with_register(pair, usize::from(index), run) {
            for (at, byte) in (offset..value.len()).zip(pair) {
                changes.set(value, at, byte);
            }
        }
    }
    if changes.0.is_empty() {
        return Added::NOTHING;
    }
    changes.set(value, VALIDITY_AT, value[VALIDITY_AT] | NOT_VALID);
    Added { edit: Edit::Bytes(changes), has_changed: true, is_converted: false }
}

/// Adds elements to a copy of a value; a sparse one is copied once an element changes it.
fn add_to_value<'e>(
    value: &[u8],
    form: Form,
    mut elements: impl Iterator<Item = &'e [u8]>,
    sparse_bytes_max: u64,
    memory: &mut Vec<u8>,
) -> Result<Added, Flaw> {
    let mut lower = None;
    if form == Form::Sparse {
        lower = find_lower(value, elements.by_ref())?;
        if lower.is_none() {
            return Ok(Added::NOTHING);
        }
    }
    memory.clear();
    memory.extend_from_slice(value);
    let mut change = CopyChange { first: None, is_dense: form == Form::Dense };
    if let Some((hit, found)) = lower {
        let mut cursor = Cursor::START;
        let outcome = sparse::raise_found(memory, &mut cursor, &found, hit, sparse_bytes_max);
        change.follow(outcome, hit, memory)?;
    }
    change.add(elements, sparse_bytes_max, memory)?;
    let Some(first) = change.first else { return Ok(Added::NOTHING) };
    let is_converted = change.is_dense && form == Form::Sparse;
    let edit = match is_converted {
        true => Edit::Whole,
        false if value[VALIDITY_AT] & NOT_VALID == 0 => Edit::From(VALIDITY_AT),
        false => Edit::From(first),
    };
    memory[VALIDITY_AT] |= NOT_VALID;
    Ok(Added { edit, has_changed: true, is_converted })
}

/// Returns the first of `elements` that raises a register of the sparse `value`, and its run.
fn find_lower<'e>(
    value: &[u8],
    mut elements: impl Iterator<Item = &'e [u8]>,
) -> Result<Option<(Hit, Found)>, Flaw> {
    elements
        .find_map(|element| {
            let hit = Hit::of(element);
            let found = sparse::find_lower(value, Cursor::START, hit).transpose()?;
            Some(found.map(|found| (hit, found)))
        })
        .transpose()
}

/// What adding elements to a copy has changed.
struct CopyChange {
    /// The first byte, where a register has changed.
    first: Option<usize>,
    /// The form now.
    is_dense: bool,
}

impl CopyChange {
    /// Adds elements to the value in `memory`.
    fn add<'e>(
        &mut self,
        elements: impl Iterator<Item = &'e [u8]>,
        sparse_bytes_max: u64,
        memory: &mut Vec<u8>,
    ) -> Result<(), Flaw> {
        for element in elements {
            let hit = Hit::of(element);
            match self.is_dense {
                true => self.raise_dense(hit, memory),
                false => {
                    let mut cursor = Cursor::START;
                    let outcome = sparse::raise(memory, &mut cursor, hit, sparse_bytes_max)?;
                    self.follow(outcome, hit, memory)?;
                }
            }
        }
        Ok(())
    }

    /// Notes what `hit` has come to in the sparse form, or raises its register in the dense one.
    fn follow(&mut self, outcome: Outcome, hit: Hit, memory: &mut Vec<u8>) -> Result<(), Flaw> {
        match outcome {
            Outcome::Kept => {}
            Outcome::Raised { at } => self.note(at),
            Outcome::TooLarge => {
                make_dense(memory)?;
                self.is_dense = true;
                self.raise_dense(hit, memory);
            }
        }
        Ok(())
    }

    fn raise_dense(&mut self, hit: Hit, memory: &mut [u8]) {
        if dense::raise(&mut memory[HEADER_BYTES..], hit) {
            self.note(HEADER_BYTES + dense::offset_of(usize::from(hit.index)));
        }
    }

    fn note(&mut self, at: usize) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
    }
}

/// Writes to `memory` a value with `registers`, which are at least those of `target`, and returns
/// how that changes, if it is there: in the dense form if that is asked for, or where the sparse
/// one would have more than `sparse_bytes_max`.
///
/// # Errors
/// [`Flaw`], of `target`.
///
/// Source: Redis, pfmergeCommand.
pub fn store(
    target: Option<&[u8]>,
    registers: &Registers,
    is_dense: bool,
    sparse_bytes_max: u64,
    memory: &mut Vec<u8>,
) -> Result<Edit, Flaw> {
    let header = target.map_or(EMPTY_HEADER, header_of);
    if is_dense || !store_sparse(target, registers, sparse_bytes_max, memory)? {
        write_dense(&header, registers, memory);
    }
    memory[VALIDITY_AT] |= NOT_VALID;
    let keeps_form = target.is_some_and(|value| value[FORM_AT] == memory[FORM_AT]);
    Ok(if keeps_form { Edit::From(VALIDITY_AT) } else { Edit::Whole })
}

/// Stores `registers` in the sparse form; returns whether that is possible. Each is raised in turn,
/// as which runs come about depends on that.
fn store_sparse(
    target: Option<&[u8]>,
    registers: &Registers,
    sparse_bytes_max: u64,
    memory: &mut Vec<u8>,
) -> Result<bool, Flaw> {
    match target {
        Some(value) => {
            memory.clear();
            memory.extend_from_slice(value);
        }
        None => write_empty(memory),
    }
    let mut cursor = Cursor::START;
    for hit in registers.occupied() {
        if sparse::raise(memory, &mut cursor, hit, sparse_bytes_max)? == Outcome::TooLarge {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Of the sparse form, with a count of 0 that is valid.
const EMPTY_HEADER: [u8; HEADER_BYTES] = *b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0";

fn header_of(value: &[u8]) -> [u8; HEADER_BYTES] {
    *value.first_chunk().expect("the value has a header")
}

/// Writes an empty value, whose count is valid, in the sparse form.
fn write_empty(memory: &mut Vec<u8>) {
    memory.clear();
    memory.extend_from_slice(&EMPTY_HEADER);
    sparse::write_empty(memory);
}

/// Makes the sparse value in `memory` a dense one.
fn make_dense(memory: &mut Vec<u8>) -> Result<(), Flaw> {
    let mut registers = Registers::default();
    sparse::merge(&memory[HEADER_BYTES..], &mut registers)?;
    let header = header_of(memory);
    write_dense(&header, &registers, memory);
    Ok(())
}

/// Writes a dense value with `registers`; all else of its header is that of `header`.
fn write_dense(header: &[u8; HEADER_BYTES], registers: &Registers, memory: &mut Vec<u8>) {
    memory.clear();
    memory.extend_from_slice(header);
    memory[FORM_AT] = 0;
    memory.resize(DENSE_VALUE_BYTES, 0);
    let packed = memory[HEADER_BYTES..].first_chunk_mut().expect("the length was set just now");
    registers.pack(packed);
}

#[cfg(test)]
mod tests;
