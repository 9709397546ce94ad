//! PFSELFTEST: whether this machine counts as it should.

use base::prng::Prng;

use super::dense::{DENSE_BYTES, REGISTER_MAX, raise, register};
use super::element::Hit;
use super::estimate::Tally;
use super::registers::{Registers, tally_dense};
use super::{HEADER_BYTES, HyperLogLog, REGISTER_COUNT, add, estimate};

/// Sets of random registers.
const ROUNDS: usize = 20;
/// Elements that are counted: enough for every register to be raised many times.
const ELEMENTS: u64 = 100_000;
/// Standard deviations by which a count may be off. Redis allows as many.
const DEVIATIONS_MAX: f64 = 6.0;

/// Sets and reads registers, and counts elements, by the ways that commands take and one
/// register at a time. Takes a few milliseconds.
///
/// # Errors
/// What was found, and what was expected.
pub fn self_test() -> Result<(), String> {
    let mut random = Prng::new(ELEMENTS);
    (0..ROUNDS).try_for_each(|_| test_registers(&mut random))?;
    test_counts()
}

fn test_registers(random: &mut Prng) -> Result<(), String> {
    let (mut packed, mut registers) = ([0; DENSE_BYTES], [0; REGISTER_COUNT]);
    for (index, expected) in (0..).zip(&mut registers) {
        *expected = random.below(u64::from(REGISTER_MAX) + 1) as u8;
        raise(&mut packed, Hit { index, run: *expected });
    }
    for (index, expected) in registers.iter().enumerate() {
        let found = register(&packed, index);
        if found != *expected {
            return Err(format!("Register {index} should be {expected} but is {found}"));
        }
    }
    let mut merged = Registers::default();
    merged.merge_dense(&packed);
    let mut packed_again = [0; DENSE_BYTES];
    merged.pack(&mut packed_again);
    if packed_again != packed {
        return Err("Registers have changed while they were merged".to_owned());
    }
    let mut histogram = [0; REGISTER_MAX as usize + 1];
    registers.iter().for_each(|run| histogram[usize::from(*run)] += 1);
    let (found, expected) = (merged.tally(), Tally::of(&histogram));
    if found != expected {
        return Err(format!("Registers add up to {found:?} instead of {expected:?}"));
    }
    Ok(())
}

fn test_counts() -> Result<(), String> {
    let (mut value, mut packed) = (None::<Vec<u8>>, [0; DENSE_BYTES]);
    let mut checkpoint = 1;
    for element in 1..=ELEMENTS {
        let element_bytes = element.to_le_bytes();
        raise(&mut packed, Hit::of(&element_bytes));
        // As a value too, as long as that is copied soon.
        if element <= 1_000 {
            let mut memory = Vec::new();
            let elements = [element_bytes.as_slice()].into_iter();
            let added = add(value.as_deref(), elements, u64::MAX, &mut memory);
            let added = added.map_err(|flaw| format!("{flaw:?} at element {element}"))?;
            if added.has_changed {
                value = Some(memory);
            }
        }
        if element == checkpoint {
            test_count(&packed, value.as_deref().filter(|_| element <= 1_000), element)?;
            checkpoint *= 10;
        }
    }
    Ok(())
}

/// Checks the counts of `expected` elements.
fn test_count(
    packed: &[u8; DENSE_BYTES],
    value: Option<&[u8]>,
    expected: u64,
) -> Result<(), String> {
    let found = estimate::count(&tally_dense(packed));
    let deviation = 1.04 / (REGISTER_COUNT as f64).sqrt() * expected as f64;
    let error_max = (deviation * DEVIATIONS_MAX).ceil() as u64;
    if found.abs_diff(expected) > error_max {
        let error = found.abs_diff(expected);
        return Err(format!("Too big error. card:{expected} abserr:{error}"));
    }
    let Some(value) = value else { return Ok(()) };
    let sparse = HyperLogLog::parse(value).and_then(|log| log.count());
    if sparse != Ok(found) {
        let bytes = value.len() - HEADER_BYTES;
        return Err(format!("{bytes} bytes of runs count {sparse:?} instead of {found}"));
    }
    Ok(())
}
