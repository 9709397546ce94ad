//! Copies of values that are too long for the processor's caches.
//!
//! An ordinary store reads the line that it changes from memory first, and has it take the place of
//! others in the caches. libc stores past the caches from three quarters of the last one on, as
//! large as the processor says it is: that of the whole host, of which a virtual machine has a
//! part.

/// From here on a copy goes past the caches. On a processor with 1 MiB of its own and 32 MiB that
/// it shares, 4 MiB take as long either way, 8 MiB half as long, and to read them afterwards takes
/// what it did.
pub const PAST_CACHES_BYTES_MIN: usize = 8 << 20;

/// Copies `source` to `target`.
///
/// # Panics
/// When they differ in length.
pub fn copy(target: &mut [u8], source: &[u8]) {
    if source.len() < PAST_CACHES_BYTES_MIN {
        target.copy_from_slice(source);
    } else {
        copy_past_caches(target, source);
    }
}

/// Four stores of 16 bytes.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

#[cfg(target_arch = "x86_64")]
fn copy_past_caches(target: &mut [u8], source: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    assert_eq!(target.len(), source.len(), "a copy is as long as what is copied");
    let head = target.as_ptr().align_offset(LINE_BYTES).min(target.len());
    let (source_head, source) = source.split_at(head);
    let (target_head, target) = target.split_at_mut(head);
    target_head.copy_from_slice(source_head);
    let (source_lines, source_tail) = source.as_chunks::<LINE_BYTES>();
    let (target_lines, target_tail) = target.as_chunks_mut::<LINE_BYTES>();
    for (target, source) in target_lines.iter_mut().zip(source_lines) {
        let (target, source) = (target.as_mut_ptr(), source.as_ptr());
        for at in (0..LINE_BYTES).step_by(size_of::<__m128i>()) {
            // SAFETY: both are lines of `LINE_BYTES` that are borrowed, and `at` is the start of
            // 16 bytes within; the load takes any alignment, and the store's is that of a line,
            // behind the head. Every processor of this architecture has both instructions.
            unsafe {
                let word = _mm_loadu_si128(source.wrapping_add(at).cast());
                _mm_stream_si128(target.wrapping_add(at).cast(), word);
            }
        }
    }
    // SAFETY: every processor of this architecture has the instruction. Without it the stores above
    // could be seen after those that follow, which tell others that the value is there.
    unsafe { _mm_sfence() };
    target_tail.copy_from_slice(source_tail);
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_past_caches(target: &mut [u8], source: &[u8]) {
    target.copy_from_slice(source);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(copy: fn(&mut [u8], &[u8]), length: usize, from: usize, to: usize) {
        let byte = |index: usize| ((index * 31) >> 3) as u8;
        let source: Vec<u8> = (0..length + from).map(byte).collect();
        let mut target = vec![0xEE; to + length + 1];
        copy(&mut target[to..to + length], &source[from..]);
        assert_eq!(target[to..to + length], source[from..], "{length} bytes from {from} to {to}");
        let around = target[..to].iter().chain(&target[to + length..]);
        assert!(around.copied().all(|byte| byte == 0xEE), "nothing beside the target is written");
    }

    #[test]
    fn copy_has_the_bytes_whatever_their_length_and_alignment() {
        for length in [0, 1, 15, 63, 64, 65, 200, 4096, 5000] {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (5, 63), (64, 16)] {
                check(copy_past_caches, length, from, to);
            }
        }
        check(copy, PAST_CACHES_BYTES_MIN + 3, 1, 2);
        check(copy, PAST_CACHES_BYTES_MIN - 1, 1, 2);
    }

    #[test]
    #[should_panic(expected = "as long as what is copied")]
    fn copies_of_another_length_are_refused() {
        copy(&mut [0; 4], &vec![0; PAST_CACHES_BYTES_MIN]);
    }
}
