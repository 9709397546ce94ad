//! An allocator that counts what each thread allocates, for programs that measure themselves.

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
/// # sys::allocations::watch_bytes();
/// # drop((vec![1_u8; 1000], vec![1_u8; 1000]));
/// # drop(vec![1_u8; 1000]);
/// # assert!((2000..3000).contains(&sys::allocations::bytes_max()));
/// ```
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// The bytes of what the thread has allocated, less those of what it has freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
    /// The most that they were since [`watch_bytes`], and what they were then.
    static BYTES_MAX: Cell<i64> = const { Cell::new(0) };
    static BYTES_BEFORE: Cell<i64> = const { Cell::new(0) };
}

/// Returns how often the calling thread has allocated, or grown what it had, so far; always 0 in a
/// program whose allocator is another.
pub fn of_this_thread() -> u64 {
    COUNT.get()
}

/// Begins to watch how many bytes the calling thread has at most; see [`bytes_max`].
pub fn watch_bytes() {
    BYTES_BEFORE.set(BYTES.get());
    BYTES_MAX.set(BYTES.get());
}

/// Returns the most bytes that the calling thread has had since [`watch_bytes`] beyond those that
/// it had then, as the system's allocator rounds them; always 0 in a program whose allocator is
/// another.
///
/// A block that grows counts as one: where it is large, the system moves its pages.
pub fn bytes_max() -> u64 {
    (BYTES_MAX.get() - BYTES_BEFORE.get()).unsigned_abs()
}

fn note() {
    COUNT.set(COUNT.get().wrapping_add(1));
}

/// Notes that a block of `old` bytes has become one of `new`; 0 is none.
fn note_bytes(old: usize, new: usize) {
    let bytes = BYTES.get() + block_bytes(new) - block_bytes(old);
    BYTES.set(bytes);
    BYTES_MAX.set(BYTES_MAX.get().max(bytes));
}

/// Returns what the allocator takes for a block of `bytes`: a word of its own, in steps of two.
///
/// Source: glibc's malloc on 64-bit machines.
fn block_bytes(bytes: usize) -> i64 {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => ((bytes + 8 + 15) & !15) as i64,
    }
}

// SAFETY: every call is passed on as it is to the system's allocator, which keeps the promises; the
// counts are plain cells of the thread, which neither allocate nor are ever destroyed.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        note_bytes(0, layout.size());
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        note_bytes(0, layout.size());
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note();
        note_bytes(layout.size(), bytes);
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.realloc(block, layout, bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note_bytes(layout.size(), 0);
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.dealloc(block, layout) }
    }
}
