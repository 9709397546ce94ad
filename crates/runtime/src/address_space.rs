//! The addresses of memory that other processes may map.

use std::io;

use sys::memfd_segments::{Backing, OwnedSegments};

/// The addresses that the arena reserves: 1 TiB of references, or what an address-space limit
/// leaves, by halves down to the least.
const SPAN_BYTES_MAX: u64 = 1 << 40;
const SPAN_BYTES_MIN: u64 = 1 << 32;

/// The part of the addresses that is for upload memory.
const UPLOAD_SHARE: u64 = 16;

/// Returns how many of the last segments are for uploads.
pub fn upload_segments(segments: &OwnedSegments) -> u32 {
    let count = segments.span_bytes() / segments.segment_bytes() / UPLOAD_SHARE;
    u32::try_from(count).expect("an index of a segment has 32 bits")
}

/// Reserves addresses for segments of `segment_bytes`.
///
/// # Errors
/// When the address space of the process is too small.
pub fn reserve(segment_bytes: u64, backing: Backing) -> io::Result<OwnedSegments> {
    let mut span = SPAN_BYTES_MAX;
    loop {
        let count = u32::try_from(span / segment_bytes).expect("segments are 1 MiB or more");
        match OwnedSegments::reserve(segment_bytes, count, backing) {
            Err(_) if span > SPAN_BYTES_MIN => span /= 2,
            reserved => return reserved,
        }
    }
}
