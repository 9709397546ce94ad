//! Bytes that grow as those of a `Vec` do, in memory from which a disk takes much at once.
//!
//! A few hundred KiB do not fill a huge page, but several such pieces do. Each of them is
//! somebody's own, and is shared, sent and dropped by itself. One that outgrows its part moves to
//! the heap.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use rustix::mm::{Advice, madvise};

use crate::wide_buffer::{HUGE_BYTES, PAGE_BYTES, WideBuffer};

/// Bytes in a part of a [`WideBuffer`], or on the heap.
#[derive(Debug)]
pub struct WideBytes {
    start: NonNull<u8>,
    length: usize,
    capacity: usize,
    /// What the part is of; none where the memory is a `Vec`'s. Only ever asked where it begins and
    /// how long it is: to borrow its bytes would be to borrow those of other parts.
    whole: Option<Arc<WideBuffer>>,
}

// SAFETY: it is memory that nothing else refers to, a `Vec`'s or a part of a buffer's. Nobody
// reaches the bytes of another part through the buffer, which any thread may unmap, the last one.
unsafe impl Send for WideBytes {}
// SAFETY: as above, and what is shared is only read.
unsafe impl Sync for WideBytes {}

impl WideBytes {
    /// Returns an empty one with room for `capacity` bytes, on the heap.
    pub fn with_capacity(capacity: usize) -> WideBytes {
        WideBytes::of_heap(Vec::with_capacity(capacity))
    }

    /// Returns `count` empty ones, each with room for `capacity` bytes, in whole pages that lie
    /// side by side on huge ones. Where all together would fill a huge page by less than half, or
    /// the system has no memory for that, they are on the heap.
    ///
    /// # Panics
    /// As a `Vec` does, or aborts, where there is no memory.
    pub fn several(count: usize, capacity: usize) -> Vec<WideBytes> {
        let part_bytes = capacity.checked_next_multiple_of(PAGE_BYTES).expect("memory has an end");
        let whole = count.checked_mul(part_bytes).and_then(|bytes| {
            let rest = bytes.checked_next_multiple_of(HUGE_BYTES)? - bytes;
            let bytes = if rest <= HUGE_BYTES / 2 { bytes + rest } else { bytes };
            (bytes >= HUGE_BYTES).then(|| WideBuffer::new(bytes).ok())?
        });
        let whole = whole.map(Arc::new);
        let part = |index| match &whole {
            Some(whole) => WideBytes::of_part(whole, index * part_bytes, part_bytes),
            None => WideBytes::with_capacity(capacity),
        };
        (0..count).map(part).collect()
    }

    fn of_heap(bytes: Vec<u8>) -> WideBytes {
        let mut bytes = ManuallyDrop::new(bytes);
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a Vec's pointer is never null");
        WideBytes { start, length: bytes.len(), capacity: bytes.capacity(), whole: None }
    }

    /// Returns an empty one in the `capacity` bytes from `offset` on, which no other part has.
    fn of_part(whole: &Arc<WideBuffer>, offset: usize, capacity: usize) -> WideBytes {
        // Not the buffer's length as a slice: that would borrow what other parts write.
        let bytes = whole.byte_count();
        assert!(offset <= bytes && capacity <= bytes - offset, "a part is within the whole");
        // SAFETY: the offset is within the buffer's memory, as was just looked at.
        let start = unsafe { whole.start().add(offset) };
        WideBytes { start, length: 0, capacity, whole: Some(Arc::clone(whole)) }
    }

    /// Returns how many bytes there is memory for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties it; the memory stays.
    #[inline]
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Cuts it to `length` bytes, or adds as many times `value` as are missing.
    pub fn resize(&mut self, length: usize, value: u8) {
        if let Some(missing) = length.checked_sub(self.length) {
            self.reserve(missing);
            // SAFETY: there is so much room behind the bytes, and nothing borrowed lies there.
            unsafe { self.start.add(self.length).write_bytes(value, missing) };
        }
        self.length = length;
    }

    /// Makes room for `additional` bytes.
    ///
    /// # Panics
    /// As a `Vec` does, or aborts, where there is no memory.
    #[inline]
    pub fn reserve(&mut self, additional: usize) {
        if additional > self.capacity - self.length {
            self.grow(additional);
        }
    }

    /// Adds `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        // SAFETY: there is so much room behind the bytes, and nothing borrowed lies there.
        unsafe {
            let end = self.start.as_ptr().add(self.length);
            ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
        }
        self.length += bytes.len();
    }

    /// Adds the bytes of all `parts`, one after the other, each of which is likely to be short.
    #[inline(always)]
    pub fn extend_from_parts<const N: usize>(&mut self, parts: [&[u8]; N]) {
        // `reserve` refuses a sum beyond what there can be.
        let bytes = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        self.reserve(bytes);
        let mut end = self.length;
        for part in parts {
            // SAFETY: there is room for all of them behind the bytes, and nothing borrowed there.
            unsafe { copy_short(part, self.start.as_ptr().add(end)) };
            end += part.len();
        }
        self.length = end;
    }

    #[cold]
    fn grow(&mut self, additional: usize) {
        let mut bytes = if self.whole.is_none() {
            let heap = ManuallyDrop::new(std::mem::take(self));
            // SAFETY: the memory is that of a `Vec` of bytes, of which so many are written, and
            // nobody else gives it back.
            unsafe { Vec::from_raw_parts(heap.start.as_ptr(), heap.length, heap.capacity) }
        } else {
            // As much as a `Vec` that is as long would take.
            let least = self.length.saturating_add(additional);
            let mut bytes = Vec::with_capacity(least.max(self.capacity.saturating_mul(2)));
            bytes.extend_from_slice(self);
            bytes
        };
        bytes.reserve(additional);
        *self = WideBytes::of_heap(bytes);
    }
}

/// Copies `bytes` to `to`: a call of the library would take longer than few bytes do, as
/// docs/decisions/0018-log.md says with figures.
///
/// # Safety
/// There is room for so many, in memory that nothing else refers to.
#[inline(always)]
unsafe fn copy_short(bytes: &[u8], to: *mut u8) {
    /// Copies the first `N` bytes and the last, which may be partly the same.
    ///
    /// # Safety
    /// There are so many on both sides.
    #[inline(always)]
    unsafe fn copy_ends<const N: usize>(bytes: &[u8], to: *mut u8) {
        // SAFETY: `N` bytes from the beginning on, and as many before the end, are on both sides.
        unsafe {
            let (from, last) = (bytes.as_ptr().cast::<[u8; N]>(), bytes.len() - N);
            let (head, tail) = (from.read(), from.byte_add(last).read());
            to.cast::<[u8; N]>().write(head);
            to.add(last).cast::<[u8; N]>().write(tail);
        }
    }
    // SAFETY: the lengths say that there are as many bytes, and the caller that there is room.
    unsafe {
        match bytes.len() {
            1 => to.write(bytes[0]),
            8..16 => copy_ends::<8>(bytes, to),
            16..=32 => copy_ends::<16>(bytes, to),
            33..=64 => copy_ends::<32>(bytes, to),
            length => ptr::copy_nonoverlapping(bytes.as_ptr(), to, length),
        }
    }
}

impl Default for WideBytes {
    fn default() -> WideBytes {
        WideBytes::of_heap(Vec::new())
    }
}

impl Deref for WideBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes from there on are written, and are borrowed with this value.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for WideBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else borrows them.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for WideBytes {
    fn drop(&mut self) {
        if self.whole.is_none() {
            // SAFETY: the memory is that of a `Vec` of bytes, and nothing refers to it any more.
            drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.length, self.capacity) });
            return;
        }
        // The other parts may be there for long. A system that refuses has the memory until then.
        // SAFETY: these are whole pages of a private mapping, and nothing refers to them any more.
        let _ =
            unsafe { madvise(self.start.as_ptr().cast(), self.capacity, Advice::LinuxDontNeed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What memory of either kind does.
    fn check(mut bytes: WideBytes) {
        let (room, place) = (bytes.capacity(), bytes.as_ptr());
        bytes.resize(3, 7);
        bytes.extend_from_slice(b"abc");
        bytes.resize(5, 9);
        bytes[0] = 1;
        assert_eq!(*bytes, [1, 7, 7, b'a', b'b']);
        bytes.resize(room, 2);
        assert_eq!((bytes.len(), bytes.as_ptr()), (room, place), "there was room");
        bytes.extend_from_slice(b"x");
        assert!(bytes.capacity() > room && bytes[..5] == [1, 7, 7, b'a', b'b']);
        assert!(bytes[5..room].iter().all(|byte| *byte == 2) && bytes[room..] == *b"x");
        bytes.extend_from_slice(&vec![3; 2 * room]);
        assert_eq!((bytes.len(), bytes[room], bytes[3 * room]), (3 * room + 1, b'x', 3));
        bytes.clear();
        assert!(bytes.is_empty());
    }

    #[test]
    fn miri_memory_of_the_heap_grows() {
        check(WideBytes::with_capacity(10));
        let mut bytes = WideBytes::default();
        bytes.extend_from_slice(b"from nothing");
        assert_eq!(*bytes, *b"from nothing");
    }

    #[test]
    fn miri_parts_of_any_length_are_added() {
        let source: Vec<u8> = (0..200).collect();
        for length in (0..=70).chain([127, 128, 200]) {
            for room in [0, length, length + 4] {
                let mut bytes = WideBytes::with_capacity(room);
                let part = &source[200 - length..];
                bytes.extend_from_parts([b"<", part, b"", part, b">"]);
                assert!(*bytes == [b"<", part, part, b">"].concat(), "{length} bytes");
            }
        }
    }

    #[test]
    fn parts_are_apart_and_grow_out_of_the_whole() {
        for (count, capacity) in [(4, 300_000), (9, 300_001), (1, 3 << 20), (3, 10)] {
            let mut parts = WideBytes::several(count, capacity);
            for (number, part) in parts.iter_mut().enumerate() {
                assert!((capacity..capacity + PAGE_BYTES).contains(&part.capacity()));
                part.resize(capacity, number as u8);
            }
            for (number, part) in parts.iter().enumerate() {
                assert!(part.len() == capacity && part.iter().all(|byte| *byte == number as u8));
            }
            let first = parts.remove(0);
            let other = std::thread::spawn(move || first.len()).join().unwrap();
            assert_eq!(other, capacity);
            for (number, mut part) in (1..).zip(parts) {
                assert!(part.iter().all(|byte| *byte == number), "the first one is gone, no other");
                part.clear();
                check(part);
            }
        }
    }

    #[test]
    fn a_few_small_parts_take_no_huge_page() {
        let is_wide = |count, capacity| WideBytes::several(count, capacity)[0].whole.is_some();
        assert!(!is_wide(3, 300_000));
        assert!(is_wide(4, 300_000));
        assert!(!is_wide(1, 0));
        assert!(WideBytes::several(0, 300_000).is_empty());
    }

    #[test]
    fn the_room_of_a_part_that_is_dropped_is_the_systems_again() {
        let mut parts = WideBytes::several(2, 1 << 20);
        parts.iter_mut().for_each(|part| part.resize(1 << 20, 1));
        let (whole, start) = (parts[0].whole.clone().expect("they are wide"), parts[0].start);
        drop(parts.remove(0));
        // SAFETY: the buffer is there, and nobody else uses this part of it any more.
        assert_eq!(unsafe { start.read() }, 0, "what is touched anew has zeroes");
        assert!(parts[0].iter().all(|byte| *byte == 1));
        drop(whole);
    }
}
