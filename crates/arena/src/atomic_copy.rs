//! Copies between private bytes and shared memory, as relaxed atomic words.
//!
//! A reader in another process may read these bytes at any moment, so that every store here is an
//! atomic word, and a byte range is changed by rewriting the words that it touches. The word at
//! either end keeps its other bytes: they belong to the same writer.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the word at `pointer` as an atomic.
///
/// # Safety
/// `pointer` is aligned to 8 and points into committed arena memory that outlives `'a`.
#[inline(always)]
pub unsafe fn word<'a>(pointer: *mut u8) -> &'a AtomicU64 {
    debug_assert_eq!(pointer as usize % 8, 0, "a word is aligned");
    // SAFETY: by the contract the pointer is aligned to 8, and the word is there and initialised,
    // as all memory of a source is, for all of `'a`. Nobody in this process writes it but by
    // atomics: what shares arena memory does so through this module.
    unsafe { AtomicU64::from_ptr(pointer.cast()) }
}

/// Copies `source` to `target`, any alignment, as relaxed atomic words.
///
/// # Safety
/// - `target..target + source.len()`, widened to whole aligned words, is committed arena memory.
/// - No other thread writes those words during the call.
/// - `source` does not overlap `target`.
#[inline]
pub unsafe fn store_bytes(target: *mut u8, source: &[u8]) {
    let mut target = target;
    let mut source = source;
    let misaligned = target as usize % 8;
    if misaligned != 0 {
        let head = (8 - misaligned).min(source.len());
        // SAFETY: the word holds the first target byte: of the widened range, which by the contract
        // is committed and written by no other thread; it is aligned, as `misaligned` is taken
        // off, and `head` ends within it.
        unsafe { merge(target.sub(misaligned), misaligned, &source[..head]) };
        source = &source[head..];
        // SAFETY: `head` is at most the length of the range, which is of one mapping or allocation:
        // one past its end at most.
        target = unsafe { target.add(head) };
    }
    // Four words in one round: the loop would cost as much as the stores.
    let mut rounds = source.chunks_exact(32);
    for round in &mut rounds {
        for (index, chunk) in round.as_chunks().0.iter().enumerate() {
            // SAFETY: aligned, as the head is done and steps are words; a whole round of four words
            // is left, so that this one is inside the range, which is committed by the contract.
            unsafe { word(target.add(8 * index)) }
                .store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
        // SAFETY: past a round of the range: at its end at most.
        target = unsafe { target.add(32) };
    }
    let mut chunks = rounds.remainder().chunks_exact(8);
    for chunk in &mut chunks {
        let bytes: [u8; 8] = chunk.try_into().expect("a chunk of eight");
        // SAFETY: aligned, as the head is done and steps are words; a whole chunk is left, so that
        // the word is inside the range, which is committed by the contract.
        unsafe { word(target) }.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        // SAFETY: past a chunk of the range: at its end at most.
        target = unsafe { target.add(8) };
    }
    let tail = chunks.remainder();
    if !tail.is_empty() {
        // SAFETY: aligned as above; the word holds the last target bytes, fewer than 8, and is of
        // the widened range, which by the contract is committed and written by no other thread.
        unsafe { merge(target, 0, tail) };
    }
}

/// Replaces `bytes.len()` bytes from byte `at` on of the word at `pointer`.
///
/// # Safety
/// `pointer` as for [`word`], `at + bytes.len() <= 8`, and no other thread writes the word.
#[inline]
unsafe fn merge(pointer: *mut u8, at: usize, bytes: &[u8]) {
    // SAFETY: the contract of `word` is part of this one.
    let cell = unsafe { word(pointer) };
    let mut image = cell.load(Ordering::Relaxed).to_le_bytes();
    image[at..at + bytes.len()].copy_from_slice(bytes);
    cell.store(u64::from_le_bytes(image), Ordering::Relaxed);
}

/// Sets `length` bytes from `target` on to zero.
///
/// # Safety
/// As for [`store_bytes`].
pub unsafe fn store_zeroes(target: *mut u8, length: u64) {
    const ZEROES: [u8; 4096] = [0; 4096];
    let mut done = 0;
    while done < length {
        let step = (length - done).min(ZEROES.len() as u64);
        // SAFETY: `done + step` is at most `length`: a part of the range for which the caller
        // promises the same, committed and written by no other thread. Widened to words it is no
        // more than that one widened. A constant overlaps no arena memory.
        unsafe { store_bytes(target.add(done as usize), &ZEROES[..step as usize]) };
        done += step;
    }
}

/// Copies `length` bytes from `source` to `target`, both in the arena, which may overlap.
///
/// # Safety
/// Both ranges are committed arena memory, both pointers are aligned to 8, `length` is a multiple
/// of 8, and no other thread writes either range during the call.
pub unsafe fn move_words(target: *mut u8, source: *const u8, length: u64) {
    debug_assert_eq!(length % 8, 0, "whole words only");
    let count = (length / 8) as usize;
    let step = |index: usize| {
        // SAFETY: `index < count`, so that both words lie in their ranges, which by the contract
        // are committed, aligned to 8 and written by no other thread.
        unsafe {
            let value = word(source.cast_mut().add(index * 8)).load(Ordering::Relaxed);
            word(target.add(index * 8)).store(value, Ordering::Relaxed);
        }
    };
    if target.cast_const() <= source {
        (0..count).for_each(step);
    } else {
        (0..count).rev().for_each(step);
    }
}

/// Copies `length` bytes from `source`, which another process may write meanwhile, to `target`, new
/// memory of the arena: as fast as memory is copied.
///
/// What a client writes while it commits is torn; so are the bytes then, and nothing else: they
/// are a value, which this process stores and never interprets before the copy is complete. A
/// reader with a stale reference may look at the target meanwhile, and finds out that it was stale.
/// Neither race is one between two threads of this program.
///
/// # Safety
/// - Both ranges, widened to whole aligned words, are mapped memory of the arena, and apart.
/// - No thread of this process reads or writes the target during the call, nor writes the source.
pub unsafe fn copy_block(target: *mut u8, source: *const u8, length: u64) {
    if cfg!(miri) {
        // Readers are threads of the same program there, so that the race would be one.
        let mut copy = vec![0; length as usize];
        // SAFETY: both ranges, widened, are mapped, and no other thread of this process writes the
        // target, by the contract. The copy is private, so that it overlaps neither.
        unsafe {
            load_bytes(source, &mut copy);
            store_bytes(target, &copy);
        }
        return;
    }
    // SAFETY: both ranges are mapped, for reading and for writing, and apart, by the contract;
    // bytes have no alignment. No thread of this program races with it: what another process
    // writes meanwhile is explained above.
    unsafe { std::ptr::copy_nonoverlapping(source, target, length as usize) };
}

/// Copies `target.len()` bytes out of shared memory that may change meanwhile; what was copied
/// means something only after the sequences have been checked.
///
/// # Safety
/// The range, widened to whole aligned words, is mapped memory.
#[inline]
pub unsafe fn load_bytes(source: *const u8, target: &mut [u8]) {
    let mut source = source.cast_mut();
    let mut target = target;
    let misaligned = source as usize % 8;
    if misaligned != 0 {
        // SAFETY: aligned, as `misaligned` is taken off; the word holds the first byte, and so is
        // of the widened range, which is mapped by the contract.
        let image = unsafe { word(source.sub(misaligned)) }.load(Ordering::Relaxed).to_le_bytes();
        let head = (8 - misaligned).min(target.len());
        let (first, rest) = std::mem::take(&mut target).split_at_mut(head);
        first.copy_from_slice(&image[misaligned..misaligned + head]);
        target = rest;
        // SAFETY: `head` is at most the length of the range: one past its end at most.
        source = unsafe { source.add(head) };
    }
    // Four words in one round: the loop would cost as much as the loads.
    let mut rounds = target.chunks_exact_mut(32);
    for round in &mut rounds {
        for (index, chunk) in round.as_chunks_mut().0.iter_mut().enumerate() {
            // SAFETY: aligned, as the head is done and steps are words; a whole round of four words
            // is left, so that this one is inside the range, which is mapped by the contract.
            let image = unsafe { word(source.add(8 * index)) }.load(Ordering::Relaxed);
            *chunk = image.to_le_bytes();
        }
        // SAFETY: past a round of the range: at its end at most.
        source = unsafe { source.add(32) };
    }
    let mut chunks = rounds.into_remainder().chunks_exact_mut(8);
    for chunk in &mut chunks {
        // SAFETY: aligned, as the head is done and steps are words; a whole chunk is left, so that
        // the word is inside the range, which is mapped by the contract.
        let image = unsafe { word(source) }.load(Ordering::Relaxed);
        chunk.copy_from_slice(&image.to_le_bytes());
        // SAFETY: past a chunk of the range: at its end at most.
        source = unsafe { source.add(8) };
    }
    let tail = chunks.into_remainder();
    if !tail.is_empty() {
        // SAFETY: aligned as above; the word holds the last bytes, and so is of the widened range,
        // which is mapped by the contract.
        let image = unsafe { word(source) }.load(Ordering::Relaxed).to_le_bytes();
        tail.copy_from_slice(&image[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(8))]
    struct Room([u8; 64]);

    #[test]
    fn miri_copies_agree_with_slices_at_every_alignment() {
        for start in 0..16 {
            for length in 0..=40 {
                let mut room = Room([0xEE; 64]);
                let bytes: Vec<u8> = (1..=length as u8).collect();
                let mut expected = room.0;
                expected[start..start + length].copy_from_slice(&bytes);
                let mut back = vec![0; length];
                let base = room.0.as_mut_ptr();
                // SAFETY: start + length <= 56 bytes inside one aligned array of 64.
                unsafe {
                    store_bytes(base.add(start), &bytes);
                    load_bytes(base.add(start), &mut back);
                }
                assert_eq!(room.0, expected);
                assert_eq!(back, bytes);
            }
        }
    }

    #[test]
    fn miri_moves_overlap_like_memmove() {
        for (target, source) in [(0, 8), (8, 0), (16, 0), (0, 24), (8, 8)] {
            let mut room = Room(std::array::from_fn(|index| index as u8));
            let mut expected = room.0;
            expected.copy_within(source..source + 32, target);
            let base = room.0.as_mut_ptr();
            // SAFETY: both ranges end at most at byte 56 of 64, and are aligned to 8.
            unsafe { move_words(base.add(target), base.add(source), 32) };
            assert_eq!(room.0, expected);
        }
    }
}
