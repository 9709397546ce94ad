//! Asks the processor's cache for lines before they are needed, so that their misses overlap.

use crate::layout::LINE_BYTES;

/// Asks the cache for the line that `value` begins in.
#[inline(always)]
pub fn prefetch_line<T>(value: &T) {
    prefetch(std::ptr::from_ref(value).cast());
}

/// Asks the cache for the `bytes` from `pointer` on, which may be any address, so that they can be
/// written: no other processor has their lines any more.
#[inline]
pub fn prefetch_to_write(pointer: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE_BYTES as usize) {
        let pointer = pointer.wrapping_add(line * LINE_BYTES as usize);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch touches nothing and accepts any address. The intrinsic would become
        // one for reading, as not each processor of this kind has the other; those that have not
        // take it for nothing.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) pointer,
                options(nostack, preserves_flags, readonly)
            );
        };
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = pointer;
    }
}

/// Asks the cache for the line at `pointer`, which may be any address.
#[inline(always)]
pub(crate) fn prefetch(pointer: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch touches nothing and accepts any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast())
    };
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = pointer;
}
