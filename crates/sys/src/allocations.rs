//! An allocator that counts the allocations of each thread, for programs that measure themselves.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted. A program that wants to know makes it its own:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: sys::allocations::Counting = sys::allocations::Counting;
/// # let before = sys::allocations::of_this_thread();
/// # drop(Box::new(1));
/// # assert!(sys::allocations::of_this_thread() > before);
/// ```
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Returns how often the calling thread has allocated, or grown what it had, so far; always 0 in a
/// program whose allocator is another.
pub fn of_this_thread() -> u64 {
    COUNT.get()
}

fn note() {
    COUNT.set(COUNT.get().wrapping_add(1));
}

// SAFETY: every call is passed on as it is to the system's allocator, which keeps the promises; the
// count is a plain cell of the thread, which neither allocates nor is ever destroyed.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.realloc(block, layout, bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.dealloc(block, layout) }
    }
}
