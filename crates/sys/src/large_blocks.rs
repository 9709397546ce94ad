//! An allocator that maps each large block by itself.
//!
//! glibc serves a large block from whatever lies free in a heap that is long enough, and maps it
//! only where nothing is. A buffer that doubles as it grows then touches one free part after the
//! other, and leaves each of them resident: several MiB on top of any memory limit. Here a block
//! of 512 KiB and more never lies in a heap, grows where the system moves its pages, and is given
//! back as soon as it is freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap,
};

/// Blocks from so many bytes on are large.
const LARGE_BYTES_MIN: usize = 512 * 1024;
/// What stands before a large block: the bytes of its mapping, or 0 where the heap has it, because
/// the process has as many mappings as the system allows.
const HEAD_BYTES: usize = 16;

/// The system's allocator, but for large blocks. A program makes it its own:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: sys::large_blocks::Mapped = sys::large_blocks::Mapped;
/// # let mut bytes = vec![7_u8; 600_000];
/// # bytes.resize(6_000_000, 8);
/// # assert!(bytes[..600_000].iter().all(|it| *it == 7) && bytes[5_999_999] == 8);
/// ```
#[derive(Debug)]
pub struct Mapped;

/// Returns whether a block of `layout` is a large one. A stricter alignment than a head leaves is
/// the heap's affair.
#[inline]
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BYTES_MIN && layout.align() <= HEAD_BYTES
}

/// Returns the layout of a large block of `bytes` with its head, as the heap is asked for it.
fn with_head(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(HEAD_BYTES)?, HEAD_BYTES).ok()
}

/// Returns the bytes of a mapping that has room for `bytes` and a head.
fn mapped_bytes(bytes: usize) -> Option<usize> {
    const PAGE_BYTES: usize = 4096;
    bytes.checked_add(HEAD_BYTES)?.checked_next_multiple_of(PAGE_BYTES)
}

/// Returns a large block of `bytes` zeroes, or null where there is no memory.
#[cold]
fn allocate(bytes: usize) -> *mut u8 {
    let (Some(mapped), Some(layout)) = (mapped_bytes(bytes), with_head(bytes)) else {
        return ptr::null_mut();
    };
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, where the system chooses, is in nobody's way.
    let mapping = unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, MapFlags::PRIVATE) };
    let (base, mapped) = match mapping {
        Ok(base) => (base.cast::<u8>(), mapped),
        // SAFETY: the layout is not empty.
        Err(_) => (unsafe { System.alloc_zeroed(layout) }, 0),
    };
    // SAFETY: the head is within what was just allocated.
    unsafe { finish(base, mapped) }
}

/// Writes the head at `base` and returns the block behind it; null stays null.
///
/// # Safety
/// `base` is null, or the start of a large block's memory, aligned for it.
unsafe fn finish(base: *mut u8, mapped: usize) -> *mut u8 {
    if base.is_null() {
        return base;
    }
    // SAFETY: the caller says so.
    unsafe {
        base.cast::<usize>().write(mapped);
        base.add(HEAD_BYTES)
    }
}

/// Returns where the memory of a large block begins, and the bytes of its mapping.
///
/// # Safety
/// `block` is a large block.
unsafe fn base_of(block: *mut u8) -> (*mut u8, usize) {
    // SAFETY: each large block has a head before it.
    unsafe {
        let base = block.sub(HEAD_BYTES);
        (base, base.cast::<usize>().read())
    }
}

/// Frees a large block of `bytes`.
///
/// # Safety
/// `block` is one, and nobody uses it any more.
#[cold]
unsafe fn free(block: *mut u8, bytes: usize) {
    // SAFETY: the caller gives it away.
    unsafe {
        let (base, mapped) = base_of(block);
        if mapped == 0 {
            System.dealloc(base, with_head(bytes).expect("it was allocated by this layout"));
        } else {
            // Where it lies between others the system may have made one mapping of all, and lacks
            // room to note two: then the pages go back, and the addresses stay taken.
            if munmap(base.cast(), mapped).is_err() {
                madvise(base.cast(), mapped, Advice::LinuxDontNeed).ok();
            }
        }
    }
}

/// Gives a large block of `old_bytes` another length that is large too; null where there is no
/// memory, and the block is as it was.
///
/// # Safety
/// `block` is a large block, which only the caller uses.
#[cold]
unsafe fn resize(block: *mut u8, old_bytes: usize, bytes: usize) -> *mut u8 {
    // SAFETY: the caller says so; the system moves the pages with all that is in them.
    unsafe {
        let (base, mapped) = base_of(block);
        if mapped == 0 {
            return move_block(block, old_bytes, bytes);
        }
        let Some(wanted) = mapped_bytes(bytes) else { return ptr::null_mut() };
        if wanted == mapped {
            return block;
        }
        match mremap(base.cast(), mapped, wanted, MremapFlags::MAYMOVE) {
            Ok(base) => finish(base.cast(), wanted),
            Err(_) => move_block(block, old_bytes, bytes),
        }
    }
}

/// Copies a large block to another one of `bytes`, and frees it; null where there is no memory.
///
/// # Safety
/// `block` is a large block, which only the caller uses.
unsafe fn move_block(block: *mut u8, old_bytes: usize, bytes: usize) -> *mut u8 {
    let moved = allocate(bytes);
    if !moved.is_null() {
        // SAFETY: both are as long as that, and the new one is nobody else's.
        unsafe {
            ptr::copy_nonoverlapping(block, moved, old_bytes.min(bytes));
            free(block, old_bytes);
        }
    }
    moved
}

// SAFETY: blocks that are not large are passed on to the system's allocator as they are. A large
// block lies behind its head in a mapping or a heap's block of its own, is aligned as the head is,
// and a layout alone says which of both kinds a block is. Nothing here unwinds: what is expected
// is what the allocator itself has made.
unsafe impl GlobalAlloc for Mapped {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return allocate(layout.size());
        }
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return allocate(layout.size());
        }
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the caller gives it away.
            return unsafe { free(block, layout.size()) };
        }
        // SAFETY: the caller's obligations are those of the call.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that the alignment allows it.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (is_large(layout), is_large(wanted)) {
            // SAFETY: the caller's obligations are those of the call.
            (false, false) => unsafe { System.realloc(block, layout, bytes) },
            // SAFETY: the block is the caller's, and large.
            (true, true) => unsafe { resize(block, layout.size(), bytes) },
            // SAFETY: both blocks are as long as what is copied, and the new one is nobody else's.
            _ => unsafe {
                let moved = self.alloc(wanted);
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use base::prng::Prng;

    /// A block by an allocator, whose bytes are known.
    struct Block {
        bytes: *mut u8,
        layout: Layout,
        value: u8,
    }

    impl Block {
        fn new(layout: Layout, is_zeroed: bool, value: u8) -> Block {
            // SAFETY: the layout is not empty.
            let bytes = unsafe {
                match is_zeroed {
                    true => Mapped.alloc_zeroed(layout),
                    false => Mapped.alloc(layout),
                }
            };
            assert!(!bytes.is_null() && bytes.addr().is_multiple_of(layout.align()));
            let mut block = Block { bytes, layout, value };
            if is_zeroed {
                block.assert_filled(layout.size(), 0);
            }
            block.fill();
            block
        }

        fn fill(&mut self) {
            // SAFETY: the block is so long, and nobody else has it.
            unsafe { self.bytes.write_bytes(self.value, self.layout.size()) };
        }

        fn assert_filled(&self, length: usize, value: u8) {
            // SAFETY: the block is as long, and each byte of it has been written.
            let bytes = unsafe { std::slice::from_raw_parts(self.bytes, length) };
            assert!(bytes.iter().all(|it| *it == value), "{:?}", self.layout);
        }

        fn resize(&mut self, bytes: usize) {
            let kept = self.layout.size().min(bytes);
            // SAFETY: the block is of that layout, and the new size is not 0.
            self.bytes = unsafe { Mapped.realloc(self.bytes, self.layout, bytes) };
            assert!(!self.bytes.is_null() && self.bytes.addr().is_multiple_of(self.layout.align()));
            self.layout = Layout::from_size_align(bytes, self.layout.align()).expect("it is small");
            self.assert_filled(kept, self.value);
            self.fill();
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            self.assert_filled(self.layout.size(), self.value);
            // SAFETY: the block is of that layout and is not used again.
            unsafe { Mapped.dealloc(self.bytes, self.layout) };
        }
    }

    #[test]
    fn blocks_keep_their_bytes_however_they_grow_and_shrink() {
        let mut random = Prng::new(1);
        let mut blocks: Vec<Block> = Vec::new();
        let size = |random: &mut Prng| match random.below(3) {
            0 => 1 + random.below(4_096) as usize,
            1 => LARGE_BYTES_MIN - 40 + random.below(80) as usize,
            _ => LARGE_BYTES_MIN + random.below(2_000_000) as usize,
        };
        for step in 0..600 {
            let bytes = size(&mut random);
            let index = random.below(24) as usize;
            if index >= blocks.len() {
                let align = 1 << random.below(7);
                let layout = Layout::from_size_align(bytes, align).expect("it is small");
                blocks.push(Block::new(layout, random.one_in(2), step as u8));
            } else if random.one_in(3) {
                blocks.swap_remove(index);
            } else {
                blocks[index].resize(bytes);
            }
        }
    }

    #[test]
    fn lengths_that_no_memory_has_are_refused_and_leave_the_block() {
        let layout = Layout::from_size_align(1_000_000, 8).expect("it is small");
        let vast = isize::MAX as usize - 8;
        // SAFETY: neither layout is empty.
        unsafe {
            let refused = Mapped.alloc(Layout::from_size_align(vast, 8).expect("it is allowed"));
            assert!(refused.is_null());
        }
        let block = Block::new(layout, false, 3);
        // SAFETY: the block is of that layout, and the new length is within what is allowed.
        let refused = unsafe { Mapped.realloc(block.bytes, layout, vast) };
        assert!(refused.is_null());
        block.assert_filled(1_000_000, 3);
    }

    #[test]
    fn block_that_the_heap_had_to_give_is_as_good() {
        let layout = Layout::from_size_align(1_000_000, 8).expect("it is small");
        // What `allocate` does where no mapping is to be had.
        // SAFETY: the layout is not empty, and the head has its room.
        let bytes = unsafe {
            let base = System.alloc_zeroed(with_head(layout.size()).expect("it is small"));
            finish(base, 0)
        };
        let mut block = Block { bytes, layout, value: 9 };
        block.fill();
        block.resize(2_000_000);
        block.resize(100);
        // SAFETY: as above.
        let bytes = unsafe { finish(System.alloc_zeroed(with_head(1_000_000).expect("small")), 0) };
        let mut block = Block { bytes, layout, value: 9 };
        block.fill();
    }
}
