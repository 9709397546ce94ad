//! All registers as bytes: what several HyperLogLogs are merged in.

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
use super::dense::DENSE_BYTES;
use super::element::Hit;
use super::estimate::Tally;
use super::{REGISTER_COUNT, estimate, portable};

/// The registers of a union of HyperLogLogs, a byte each.
#[derive(Clone, Debug)]
#[repr(align(32))]
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
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Avx2::detected() {
            return wide.merge(&mut self.0, packed);
        }
        portable::merge(&mut self.0, packed);
    }

    /// Raises those of `range` to `run`.
    #[inline]
    pub(super) fn raise(&mut self, range: std::ops::Range<usize>, run: u8) {
        for register in &mut self.0[range] {
            *register = run.max(*register);
        }
    }

    /// Writes the registers, of 6 bits each, to `packed`.
    pub(super) fn pack(&self, packed: &mut [u8; DENSE_BYTES]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Avx2::detected() {
            return wide.pack(&self.0, packed);
        }
        portable::pack(&self.0, packed);
    }

    /// Returns those that are not 0, in order.
    pub(super) fn occupied(&self) -> impl Iterator<Item = Hit> {
        let all = (0..).zip(&self.0).map(|(index, &run)| Hit { index, run });
        all.filter(|hit| hit.run > 0)
    }

    pub(super) fn tally(&self) -> Tally {
        #[cfg(target_arch = "x86_64")]
        if let Some(tally) = Avx2::detected().and_then(|wide| wide.tally(&self.0)) {
            return tally;
        }
        portable::tally(&self.0)
    }
}

/// Returns what the estimate needs of the registers of `packed`.
pub(super) fn tally_dense(packed: &[u8; DENSE_BYTES]) -> Tally {
    let mut registers = Registers::default();
    registers.merge_dense(packed);
    registers.tally()
}
