//! Randomness from the kernel: seeds and identities, never a stream.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes` with randomness that is fit for secrets.
///
/// # Errors
/// When the kernel refuses; `bytes` must not be used then.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}

/// Returns a random 64-bit number.
///
/// # Errors
/// When the kernel refuses.
pub fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
