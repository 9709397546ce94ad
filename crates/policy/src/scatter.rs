//! Hashes that clients cannot choose.
//!
//! Clients know how the engine hashes keys once they read its shared memory. What is chosen by hash
//! here, the keys that shadows follow and the buckets of ghosts, is chosen by another hash that
//! depends on a secret.

/// Scatters hashes by a secret number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter(pub u64);

impl Scatter {
    /// Returns another hash of what has this `hash`: both halves of a product, folded.
    #[inline]
    pub fn of(self, hash: u64) -> u64 {
        let product = u128::from(hash ^ self.0) * 0xA076_1D64_78BD_642F;
        (product >> 64) as u64 ^ product as u64
    }
}
