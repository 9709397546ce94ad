//! All registers at once, without instructions that a processor may lack: eight in a word.

use super::REGISTER_COUNT;
use super::dense::{DENSE_BYTES, REGISTER_MAX};
use super::estimate::{Histogram, Tally};

/// The highest bit of each byte.
const HIGH: u64 = 0x8080_8080_8080_8080;
/// Histograms side by side: one would wait for itself where neighbours are alike.
const LANE_COUNT: usize = 4;

/// Raises `registers`, a byte each, to those of `packed` where they are lower.
pub(super) fn merge(registers: &mut [u8; REGISTER_COUNT], packed: &[u8; DENSE_BYTES]) {
    let (eights, _) = registers.as_chunks_mut::<8>();
    let (sixes, _) = packed.as_chunks::<6>();
    for (eight, six) in eights.iter_mut().zip(sixes) {
        *eight = larger(u64::from_le_bytes(*eight), unpacked(*six)).to_le_bytes();
    }
}

/// Writes `registers`, of 6 bits each, to `packed`.
pub(super) fn pack(registers: &[u8; REGISTER_COUNT], packed: &mut [u8; DENSE_BYTES]) {
    let (eights, _) = registers.as_chunks::<8>();
    let (sixes, _) = packed.as_chunks_mut::<6>();
    for (eight, six) in eights.iter().zip(sixes) {
        let bytes = u64::from_le_bytes(*eight);
        let pairs = bytes & 0x003f_003f_003f_003f | (bytes & 0x3f00_3f00_3f00_3f00) >> 2;
        let fours = pairs & 0x0000_0fff_0000_0fff | (pairs & 0x0fff_0000_0fff_0000) >> 4;
        let all = fours & 0x00ff_ffff | (fours & 0x00ff_ffff_0000_0000) >> 8;
        six.copy_from_slice(&all.to_le_bytes()[..6]);
    }
}

/// Returns what the estimate needs of `registers`.
pub(super) fn tally(registers: &[u8; REGISTER_COUNT]) -> Tally {
    let mut lanes = [[0; REGISTER_MAX as usize + 1]; LANE_COUNT];
    let (groups, _) = registers.as_chunks::<LANE_COUNT>();
    for group in groups {
        for (lane, register) in lanes.iter_mut().zip(group) {
            lane[usize::from(register & REGISTER_MAX)] += 1;
        }
    }
    let histogram: Histogram = std::array::from_fn(|value| lanes.iter().map(|it| it[value]).sum());
    Tally::of(&histogram)
}

/// Returns eight registers of 6 bits as bytes.
fn unpacked(six: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = six;
    let all = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let fours = all & 0x00ff_ffff | (all & 0xffff_ff00_0000) << 8;
    let pairs = fours & 0x0000_0fff_0000_0fff | (fours & 0x00ff_f000_00ff_f000) << 4;
    pairs & 0x003f_003f_003f_003f | (pairs & 0x0fc0_0fc0_0fc0_0fc0) << 2
}

/// Returns the larger one of each two bytes, all of which are below 128.
fn larger(a: u64, b: u64) -> u64 {
    // No byte borrows from the next: the bit stays where the one of `a` is as large.
    let kept = ((a | HIGH) - b) & HIGH;
    let mask = kept | (kept - (kept >> 7));
    a & mask | b & !mask
}
