//! The memory that the program itself takes: its code and constants, and those of its libraries.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::{ptr, slice};

/// What /proc/<id>/pagemap says of a page in eight bytes (proc_pid_pagemap(5)): it is in memory, it
/// is in swap, it is the file's.
const IS_PRESENT: u64 = 1 << 63;
const IS_SWAPPED: u64 = 1 << 62;
const IS_OF_FILE: u64 = 1 << 61;

/// Gives back the memory in which code and constants lie. What is used again comes back from the
/// file as it is used, in most systems from the page cache; what the start alone needed does not.
///
/// A segment of which the process has pages of its own stays: one that was relocated, or in which a
/// debugger has set a breakpoint.
///
/// # Errors
/// When the kernel does not tell what of the memory is the file's.
pub fn give_back() -> io::Result<()> {
    let mut walk = Walk { pages: File::open("/proc/self/pagemap")?, result: Ok(()) };
    // SAFETY: the function is called, before this call ends, with what it expects: see there.
    unsafe { libc::dl_iterate_phdr(Some(give_back_object), ptr::from_mut(&mut walk).cast()) };
    walk.result
}

struct Walk {
    pages: File,
    result: io::Result<()>,
}

/// Gives back the segments of one program or library; ends the walk where that has failed.
///
/// # Safety
/// `object` is as dl_iterate_phdr(3) has it, which keeps the library from being unloaded
/// meanwhile, and `walk` is a [`Walk`] that nobody else refers to.
unsafe extern "C" fn give_back_object(
    object: *mut libc::dl_phdr_info,
    _: usize,
    walk: *mut c_void,
) -> c_int {
    // SAFETY: by this function's condition.
    let (object, walk) = unsafe { (&*object, &mut *walk.cast::<Walk>()) };
    // SAFETY: the headers are as many as the object says.
    let headers = unsafe { slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let given_back = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0
    };
    let segment = |header: &libc::Elf64_Phdr| {
        let start = object.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
        start..start + header.p_memsz as usize
    };
    // All of them first: the headers lie in a segment, which would come back.
    let segments: Vec<Range<usize>> = headers.iter().filter(given_back).map(segment).collect();
    for segment in segments {
        walk.result = give_back_segment(&walk.pages, segment);
        if walk.result.is_err() {
            return 1;
        }
    }
    0
}

/// Gives back the whole pages in `segment`, which is mapped for reading alone and stays mapped.
fn give_back_segment(pages: &File, segment: Range<usize>) -> io::Result<()> {
    let page_bytes = rustix::param::page_size();
    let start = segment.start.next_multiple_of(page_bytes);
    let segment = start..(segment.end / page_bytes * page_bytes).max(start);
    if segment.is_empty() || has_own_pages(pages, &segment)? {
        return Ok(());
    }
    let address = ptr::with_exposed_provenance_mut(segment.start);
    // SAFETY: the pages are mapped privately from a file, for reading alone, and stay mapped. None
    // of them differs from the file, so that each comes back with the same bytes; that nobody
    // changes the file meanwhile is what every program relies on whose pages the kernel may take at
    // any time.
    let result = unsafe { libc::madvise(address, segment.len(), libc::MADV_DONTNEED) };
    // It is refused for memory that is locked, which is to stay.
    let _ = result;
    Ok(())
}

/// Returns whether pages of `segment` are copies that this process has for itself.
fn has_own_pages(pages: &File, segment: &Range<usize>) -> io::Result<bool> {
    let page_bytes = rustix::param::page_size();
    let mut words = vec![0; segment.len() / page_bytes * size_of::<u64>()];
    pages.read_exact_at(&mut words, (segment.start / page_bytes * size_of::<u64>()) as u64)?;
    let (words, _) = words.as_chunks();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    Ok(words.any(|word| word & (IS_PRESENT | IS_SWAPPED) != 0 && word & IS_OF_FILE == 0))
}
