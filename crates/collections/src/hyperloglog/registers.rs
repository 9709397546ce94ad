//! All registers as bytes: what several HyperLogLogs are merged in. They are unpacked and packed
//! eight in a word; the compiler makes vector instructions of what then goes byte by byte. To count
//! the union of three dense values takes about 10 us, the least of 30 runs on an AMD EPYC. Beside
//! redis-server: `bench/results/2026-11-25-223341-commands.json`.

use super::dense::{DENSE_BYTES, REGISTER_MAX};
use super::element::Hit;
use super::estimate::{Histogram, Tally};
use super::{REGISTER_COUNT, estimate};

/// The registers of a union of HyperLogLogs, a byte each.
#[derive(Clone, Debug)]
pub struct Registers([u8; REGISTER_COUNT]);

impl Default for Registers {
    /// Those of a HyperLogLog without elements.
    fn default() -> Registers {
        Registers([0; REGISTER_COUNT])
    }
}

impl Registers {
    /// Returns about how many different elements have raised the registers.
    pub fn count(&self) -> u64 {
        estimate::count(&self.tally())
    }

    /// Raises the registers to those of `packed` where they are lower.
    pub(super) fn merge_dense(&mut self, packed: &[u8; DENSE_BYTES]) {
        // All are unpacked first: byte by byte they are then compared sixteen at once.
        for (register, other) in self.0.iter_mut().zip(Registers::unpacked(packed).0) {
            *register = other.max(*register);
        }
    }

    /// Raises those of `range` to `run`.
    #[inline]
    pub(super) fn raise(&mut self, range: std::ops::Range<usize>, run: u8) {
        for register in &mut self.0[range] {
            *register = run.max(*register);
        }
    }

    /// Returns the registers of `packed`.
    fn unpacked(packed: &[u8; DENSE_BYTES]) -> Registers {
        let mut registers = Registers::default();
        let (targets, _) = registers.0.as_chunks_mut::<32>();
        let (chunks, _) = packed.as_chunks::<24>();
        for (target, chunk) in targets.iter_mut().zip(chunks) {
            let word = |at: usize| {
                let bytes =
                    chunk[at..].first_chunk().expect("a word is left from 16 on, and before");
                u64::from_le_bytes(*bytes)
            };
            // Six bytes at 0, 6, 12 and 18, the last of which are the upper ones of a word.
            let sixes = [word(0), word(6), word(12), word(16) >> 16];
            let (eights, _) = target.as_chunks_mut::<8>();
            for (eight, six) in eights.iter_mut().zip(sixes) {
                *eight = spread(six).to_le_bytes();
            }
        }
        registers
    }

    /// Writes the registers, of 6 bits each, to `packed`.
    pub(super) fn pack(&self, packed: &mut [u8; DENSE_BYTES]) {
        let (eights, _) = self.0.as_chunks::<8>();
        let (sixes, _) = packed.as_chunks_mut::<6>();
        for (eight, six) in eights.iter().zip(sixes) {
            let bytes = u64::from_le_bytes(*eight);
            let pairs = bytes & 0x003f_003f_003f_003f | (bytes & 0x3f00_3f00_3f00_3f00) >> 2;
            let fours = pairs & 0x0000_0fff_0000_0fff | (pairs & 0x0fff_0000_0fff_0000) >> 4;
            let all = fours & 0x00ff_ffff | (fours & 0x00ff_ffff_0000_0000) >> 8;
            six.copy_from_slice(&all.to_le_bytes()[..6]);
        }
    }

    /// Returns those that are not 0, in order.
    pub(super) fn occupied(&self) -> impl Iterator<Item = Hit> {
        let all = (0..).zip(&self.0).map(|(index, &run)| Hit { index, run });
        all.filter(|hit| hit.run > 0)
    }

    /// Returns what the estimate needs of them.
    pub(super) fn tally(&self) -> Tally {
        /// Histograms side by side: one would wait for itself where neighbours are alike.
        const LANE_COUNT: usize = 8;
        const { assert!(REGISTER_COUNT / LANE_COUNT <= u16::MAX as usize) };
        let mut lanes = [[0_u16; REGISTER_MAX as usize + 1]; LANE_COUNT];
        let (groups, _) = self.0.as_chunks::<LANE_COUNT>();
        for group in groups {
            for (lane, register) in lanes.iter_mut().zip(group) {
                lane[usize::from(register & REGISTER_MAX)] += 1;
            }
        }
        let histogram: Histogram =
            std::array::from_fn(|value| lanes.iter().map(|lane| u32::from(lane[value])).sum());
        Tally::of(&histogram)
    }
}

/// Returns what the estimate needs of the registers of `packed`.
pub(super) fn tally_dense(packed: &[u8; DENSE_BYTES]) -> Tally {
    Registers::unpacked(packed).tally()
}

/// Returns eight registers, of 6 bits each in the lower six bytes of `six`, as bytes.
fn spread(six: u64) -> u64 {
    let fours = six & 0x00ff_ffff | (six & 0xffff_ff00_0000) << 8;
    let pairs = fours & 0x0000_0fff_0000_0fff | (fours & 0x00ff_f000_00ff_f000) << 4;
    pairs & 0x003f_003f_003f_003f | (pairs & 0x0fc0_0fc0_0fc0_0fc0) << 2
}
