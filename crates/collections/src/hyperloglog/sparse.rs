//! Registers as runs of those that are alike.
//!
//! ```text
//! 00nnnnnn            n + 1 registers that are 0
//! 01nnnnnn nnnnnnnn   n + 1 registers that are 0, the highest bits first
//! 1vvvvvnn            n + 1 registers that are v + 1
//! ```
//!
//! Which runs stand for the same registers depends on the order in which these were raised. It is
//! that of Redis, so that values are the same byte for byte.
//!
//! Source: Redis, hllSparseSet.

use super::element::Hit;
use super::estimate::{Histogram, Tally};
use super::registers::Registers;
use super::{Flaw, HEADER_BYTES, REGISTER_COUNT};

const ZERO_LENGTH_MAX: usize = 64;
const VALUE_LENGTH_MAX: usize = 4;
/// The highest register that a run can have.
const VALUE_MAX: u8 = 32;
/// After a change so many runs, from the one before on, are looked at for two that make one.
const JOINED_RUNS_MAX: usize = 5;
/// Runs of one byte that are passed at once.
const BLOCK: usize = 16;

/// Registers that follow each other and are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// So many are 0, in one byte.
    Zeroes(usize),
    /// So many are 0, in two bytes.
    LongZeroes(usize),
    /// So many have this value.
    Values(u8, usize),
}

/// The runs of a value, as far as they go: not all of them may be those of registers that exist.
#[derive(Clone, Debug)]
pub struct Runs<'v>(&'v [u8]);

impl<'v> Runs<'v> {
    pub(super) fn new(body: &'v [u8]) -> Runs<'v> {
        Runs(body)
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    /// Returns the next run. The second byte of the last one is 0 where it is missing.
    #[inline]
    fn next(&mut self) -> Option<Run> {
        let (&byte, rest) = self.0.split_first()?;
        let run = Run::of(byte, rest.first().copied().unwrap_or(0));
        self.0 = &self.0[run.bytes().min(self.0.len())..];
        Some(run)
    }
}

impl Run {
    /// Returns the run of `byte` and of `next`, which only counts where it is one of two.
    #[inline]
    fn of(byte: u8, next: u8) -> Run {
        match byte >> 6 {
            0 => Run::Zeroes(span(byte)),
            1 => Run::LongZeroes(usize::from(u16::from_le_bytes([next, byte & 0x3f])) + 1),
            _ => Run::Values((byte >> 2 & 0x1f) + 1, span(byte)),
        }
    }

    fn length(self) -> usize {
        match self {
            Run::Zeroes(length) | Run::LongZeroes(length) | Run::Values(_, length) => length,
        }
    }

    fn bytes(self) -> usize {
        if matches!(self, Run::LongZeroes(_)) { 2 } else { 1 }
    }

    /// Returns `length` registers that are 0, in as few bytes as they need.
    fn zeroes(length: usize) -> Run {
        match length {
            0..=ZERO_LENGTH_MAX => Run::Zeroes(length),
            _ => Run::LongZeroes(length),
        }
    }

    /// Returns a run like this one, of `length` registers.
    fn part(self, length: usize) -> Run {
        match self {
            Run::Values(value, _) => Run::Values(value, length),
            Run::Zeroes(_) | Run::LongZeroes(_) => Run::zeroes(length),
        }
    }
}

/// Whether `byte` is the first of two.
#[inline(always)]
fn is_long(byte: u8) -> bool {
    byte & 0xc0 == 0x40
}

/// Returns how many registers the run of this one byte has.
#[inline(always)]
fn span(byte: u8) -> usize {
    usize::from(byte & if byte < 0x80 { 0x3f } else { 0x03 }) + 1
}

/// A few runs that take the place of one.
#[derive(Default)]
struct NewRuns {
    bytes: [u8; 5],
    length: usize,
}

impl NewRuns {
    /// Adds `run`, unless it is of no register.
    fn add(&mut self, run: Run) {
        if run.length() == 0 {
            return;
        }
        let length = run.length() - 1;
        match run {
            Run::Zeroes(_) => self.push(length as u8),
            Run::LongZeroes(_) => {
                self.push(0x40 | (length >> 8) as u8);
                self.push(length as u8);
            }
            Run::Values(value, _) => self.push(0x80 | (value - 1) << 2 | length as u8),
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Appends the runs of registers that are all 0.
pub(super) fn write_empty(value: &mut Vec<u8>) {
    let mut runs = NewRuns::default();
    runs.add(Run::zeroes(REGISTER_COUNT));
    value.extend_from_slice(runs.as_slice());
}

/// Calls `visit` with the first register and each run of `body`.
///
/// # Errors
/// [`Flaw::Corrupt`] where they are not all registers; the runs up to there were visited.
#[inline(always)]
fn for_each_run(body: &[u8], mut visit: impl FnMut(usize, Run)) -> Result<(), Flaw> {
    let (mut at, mut first) = (0, 0);
    while let Some(&byte) = body.get(at) {
        let next = if is_long(byte) { *body.get(at + 1).ok_or(Flaw::Corrupt)? } else { 0 };
        let run = Run::of(byte, next);
        if first + run.length() > REGISTER_COUNT {
            return Err(Flaw::Corrupt);
        }
        visit(first, run);
        first += run.length();
        at += run.bytes();
    }
    if first == REGISTER_COUNT { Ok(()) } else { Err(Flaw::Corrupt) }
}

/// Returns what the estimate needs of the registers of `body`.
pub(super) fn tally(body: &[u8]) -> Result<Tally, Flaw> {
    let mut histogram: Histogram = [0; _];
    for_each_run(body, |_, run| match run {
        Run::Values(value, length) => histogram[usize::from(value)] += length as u32,
        Run::Zeroes(length) | Run::LongZeroes(length) => histogram[0] += length as u32,
    })?;
    Ok(Tally::of(&histogram))
}

/// Raises `registers` to those of `body` where they are lower.
pub(super) fn merge(body: &[u8], registers: &mut Registers) -> Result<(), Flaw> {
    for_each_run(body, |first, run| {
        if let Run::Values(value, length) = run {
            registers.raise(first..first + length, value);
        }
    })
}

/// What raising a register has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The register was as high.
    Kept,
    /// The value has changed from this byte on.
    Raised {
        /// Its offset within the value.
        at: usize,
    },
    /// It cannot be raised in this form. Nothing has changed.
    TooLarge,
}

/// Where a run begins.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The offset of its first byte within the value.
    at: usize,
    /// Its first register.
    first: usize,
}

/// Where to look for the next register, which lies behind the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    place: Place,
    before: Before,
}

/// The run before another one.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// There is none.
    None,
    /// It begins here.
    At(Place),
    /// It was not looked for.
    Unknown,
}

impl Cursor {
    /// Before all registers.
    pub const START: Cursor =
        Cursor { place: Place { at: HEADER_BYTES, first: 0 }, before: Before::None };
}

/// The run that has a register.
pub(super) struct Found {
    place: Place,
    run: Run,
    /// At least two runs before it, if there are.
    anchor: Cursor,
}

/// Raises a register of `value`, header included, which is to have at most `bytes_max` bytes if it
/// grows; leaves `cursor` where to look for a register behind it.
pub(super) fn raise(
    value: &mut Vec<u8>,
    cursor: &mut Cursor,
    hit: Hit,
    bytes_max: u64,
) -> Result<Outcome, Flaw> {
    match find_lower(value, *cursor, hit)? {
        Some(found) => Ok(raise_found(value, cursor, &found, hit, bytes_max)),
        None => Ok(Outcome::Kept),
    }
}

/// Returns the run of `value` that has a register, which is not before `cursor`; none where it is
/// as high as it is to be.
#[inline]
pub(super) fn find_lower(value: &[u8], cursor: Cursor, hit: Hit) -> Result<Option<Found>, Flaw> {
    let found = find(value, cursor, usize::from(hit.index))?;
    let is_kept = matches!(found.run, Run::Values(value, _) if value >= hit.run);
    Ok((!is_kept).then_some(found))
}

/// As [`raise`], of a register of the run that was found in `value` as it is.
pub(super) fn raise_found(
    value: &mut Vec<u8>,
    cursor: &mut Cursor,
    found: &Found,
    hit: Hit,
    bytes_max: u64,
) -> Outcome {
    if hit.run > VALUE_MAX {
        return Outcome::TooLarge;
    }
    let Place { at, .. } = found.place;
    let [mut before, mut before_that] = runs_before(value, found.anchor, at);
    if matches!(before, Before::Unknown) {
        [before, before_that] = runs_before(value, Cursor::START, at);
    }
    let runs = split(found, hit);
    let (old, new) = (found.run.bytes(), runs.as_slice());
    let length = value.len() + new.len() - old;
    if new.len() > old && length as u64 > bytes_max {
        return Outcome::TooLarge;
    }
    *cursor = match before {
        Before::At(place) => Cursor { place, before: before_that },
        Before::None | Before::Unknown => Cursor::START,
    };
    replace(value, at, old, new);
    let joined = join(value, cursor.place.at);
    Outcome::Raised { at: joined.map_or(at, |joined| joined.min(at)) }
}

/// Returns the run of `value` that has register `index`, which is not before `cursor`.
#[inline]
fn find(value: &[u8], cursor: Cursor, index: usize) -> Result<Found, Flaw> {
    let mut place = cursor.place;
    // Where the last three stretches began, of one run at least: the runs before are only looked
    // for where they are needed.
    let mut anchors = [cursor; 3];
    let mut note = |place| {
        anchors = [anchors[1], anchors[2], Cursor { place, before: Before::Unknown }];
        anchors[0]
    };
    loop {
        while let Some(next) = pass_block(value, place, index) {
            note(place);
            place = next;
        }
        let anchor = if place.at == cursor.place.at { cursor } else { note(place) };
        // Up to a run of two bytes, as that is why no block is passed, or to the one in question.
        for _ in 0..BLOCK {
            let run = run_at(value, place.at)?;
            let end = place.first + run.length();
            if index < end {
                return Ok(Found { place, run, anchor });
            }
            place = Place { at: place.at + run.bytes(), first: end };
            if matches!(run, Run::LongZeroes(_)) {
                break;
            }
        }
    }
}

fn run_at(value: &[u8], at: usize) -> Result<Run, Flaw> {
    let byte = *value.get(at).ok_or(Flaw::Corrupt)?;
    let next = if is_long(byte) { *value.get(at + 1).ok_or(Flaw::Corrupt)? } else { 0 };
    Ok(Run::of(byte, next))
}

/// Returns the run before the one at `at`, and the one before that, as far as they lie behind
/// `anchor`.
fn runs_before(value: &[u8], anchor: Cursor, at: usize) -> [Before; 2] {
    let Cursor { mut place, mut before } = anchor;
    let mut before_that = Before::Unknown;
    while place.at < at {
        let run = run_at(value, place.at).expect("a run behind it was found");
        (before_that, before) = (before, Before::At(place));
        place = Place { at: place.at + run.bytes(), first: place.first + run.length() };
    }
    [before, before_that]
}

/// Passes a block of runs that all lie before register `index` and have one byte each; returns
/// where the next begins.
#[inline]
fn pass_block(value: &[u8], place: Place, index: usize) -> Option<Place> {
    let (block, _) = value.get(place.at..)?.split_first_chunk::<BLOCK>()?;
    let end = place.first + block_span(block)?;
    (end <= index).then_some(Place { at: place.at + BLOCK, first: end })
}

/// Returns how many registers the runs of `block` have; none where one of them has two bytes.
#[inline(always)]
fn block_span(block: &[u8; BLOCK]) -> Option<usize> {
    /// The lowest bit of each byte.
    const LOW: u128 = u128::MAX / 0xff;
    /// The lower byte of each two.
    const EVEN: u128 = u128::MAX / 0xffff * 0xff;
    let bytes = u128::from_le_bytes(*block);
    let values = bytes >> 7 & LOW;
    if bytes >> 6 & LOW & !values != 0 {
        return None;
    }
    // Of six bits those of values count two alone.
    let lengths = bytes & (LOW * 0x3f) & !(values * 0x3c);
    let pairs = (lengths & EVEN) + (lengths >> 8 & EVEN);
    let sum = |pairs: u64| pairs.wrapping_mul(u64::MAX / 0xffff) >> 48;
    Some((sum(pairs as u64) + sum((pairs >> 64) as u64)) as usize + BLOCK)
}

/// Returns the runs that the one that was found becomes.
fn split(found: &Found, hit: Hit) -> NewRuns {
    let Found { place, run, .. } = found;
    let ahead = usize::from(hit.index) - place.first;
    let mut runs = NewRuns::default();
    runs.add(run.part(ahead));
    runs.add(Run::Values(hit.run, 1));
    runs.add(run.part(run.length() - ahead - 1));
    runs
}

/// Puts `new` in the place of `count` bytes of `value` from `at` on.
fn replace(value: &mut Vec<u8>, at: usize, count: usize, new: &[u8]) {
    let (tail, length) = (at + count, value.len());
    if new.len() > count {
        value.resize(length + new.len() - count, 0);
    }
    if new.len() != count {
        value.copy_within(tail..length, at + new.len());
        value.truncate(length + new.len() - count);
    }
    value[at..at + new.len()].copy_from_slice(new);
}

/// Joins neighbours of the same value among a few runs from the one at `at` on; returns where the
/// first of them begins.
fn join(value: &mut Vec<u8>, mut at: usize) -> Option<usize> {
    let mut first = None;
    for _ in 0..JOINED_RUNS_MAX {
        let Some(&byte) = value.get(at) else { break };
        let next = value.get(at + 1).copied();
        match (Run::of(byte, 0), next.map(|next| Run::of(next, 0))) {
            (Run::Values(one, length), Some(Run::Values(other, more)))
                if one == other && length + more <= VALUE_LENGTH_MAX =>
            {
                let mut runs = NewRuns::default();
                runs.add(Run::Values(one, length + more));
                replace(value, at, 2, runs.as_slice());
                first = first.or(Some(at));
            }
            (run, _) => at += run.bytes(),
        }
    }
    first
}
