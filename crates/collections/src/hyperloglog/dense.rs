//! Registers of 6 bits each, the first in the lowest bits of the first byte.

use super::REGISTER_COUNT;
use super::element::Hit;

/// Bits of a register.
const REGISTER_BITS: usize = 6;
/// What a register can hold.
pub(super) const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
/// The bytes of all registers.
pub(super) const DENSE_BYTES: usize = REGISTER_COUNT * REGISTER_BITS / 8;

/// Returns the byte in which register `index` begins.
#[inline]
pub(super) fn offset_of(index: usize) -> usize {
    index * REGISTER_BITS / 8
}

fn shift_of(index: usize) -> u32 {
    (index * REGISTER_BITS % 8) as u32
}

/// Returns register `index` of `packed`.
#[inline]
pub(super) fn register(packed: &[u8; DENSE_BYTES], index: usize) -> u8 {
    let offset = offset_of(index);
    // The last one ends with its byte.
    let next = packed.get(offset + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([packed[offset], next]) >> shift_of(index)) as u8 & REGISTER_MAX
}

/// Returns the two bytes `pair`, in the first of which register `index` begins, with the register
/// raised to `run`; none where it is as much.
#[inline]
pub(super) fn with_register(pair: [u8; 2], index: usize, run: u8) -> Option<[u8; 2]> {
    let (bits, shift) = (u16::from_le_bytes(pair), shift_of(index));
    let found = (bits >> shift) as u8 & REGISTER_MAX;
    let cleared = bits & !(u16::from(REGISTER_MAX) << shift);
    (found < run).then(|| (cleared | u16::from(run) << shift).to_le_bytes())
}

/// Raises a register of `packed`, which are all registers; returns whether it was lower.
#[inline]
pub(super) fn raise(packed: &mut [u8], hit: Hit) -> bool {
    let (index, offset) = (usize::from(hit.index), offset_of(usize::from(hit.index)));
    let pair = [packed[offset], packed.get(offset + 1).copied().unwrap_or(0)];
    let Some([low, high]) = with_register(pair, index, hit.run) else { return false };
    packed[offset] = low;
    if let Some(next) = packed.get_mut(offset + 1) {
        *next = high;
    }
    true
}
