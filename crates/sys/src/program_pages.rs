//! The memory that the program itself takes: its code and constants, and those of its libraries.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// What /proc/<id>/pagemap says of a page in eight bytes (proc_pid_pagemap(5)): it is in memory, it
/// is in swap, it is the file's.
const IS_PRESENT: u64 = 1 << 63;
const IS_SWAPPED: u64 = 1 << 62;
const IS_OF_FILE: u64 = 1 << 61;

/// Gives back the memory in which code and constants lie. What is used again comes back from the
/// file as it is used, in most systems from the page cache; what the start alone needed does not.
///
/// A segment of which the process has pages of its own stays: one that was relocated, or in which a
/// debugger has set a breakpoint. The caller is in a program that unloads no library.
///
/// # Errors
/// When the kernel does not tell what lies where.
pub fn give_back() -> io::Result<()> {
    let pages = File::open("/proc/self/pagemap")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    for segment in maps.lines().filter_map(read_only_segment) {
        if has_own_pages(&pages, &segment)? {
            continue;
        }
        let address = std::ptr::with_exposed_provenance_mut(segment.start);
        // SAFETY: the pages are mapped privately from a file, for reading alone, and stay mapped,
        // as the caller promises. None of them differs from the file, so that each comes back with
        // the same bytes; that nobody changes the file meanwhile is what every program relies on
        // whose pages the kernel may take at any time.
        let result = unsafe { libc::madvise(address, segment.len(), libc::MADV_DONTNEED) };
        // It is refused for memory that is locked, which is to stay.
        let _ = result;
    }
    Ok(())
}

/// Returns where the segment of `line`, of /proc/<id>/maps, lies, if it is of a file and only read.
fn read_only_segment(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_read_only = matches!(words.next()?, "r--p" | "r-xp");
    let is_of_file = words.nth(3)?.starts_with('/');
    let address = |text| usize::from_str_radix(text, 16).ok();
    (is_read_only && is_of_file).then_some(address(start)?..address(end)?)
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
