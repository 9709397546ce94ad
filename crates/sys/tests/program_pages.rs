//! Pages of the program go and come back; apart, as other tests use theirs meanwhile.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::File;
use std::io::Write;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

const PAGE_BYTES: usize = 4096;

/// Returns how much memory of files is mapped into this process and there, in KiB.
fn resident_of_files() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One test, as the pages of two would be those of one program.
#[test]
fn program_pages_go_and_those_that_were_changed_stay() {
    let folder = std::env::temp_dir();
    let path = folder.join(format!("forebay-program-pages-{}", std::process::id()));
    File::create(&path).unwrap().write_all(&[1; 2 * PAGE_BYTES]).unwrap();
    let file = File::open(&path).unwrap();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the addresses, and the file keeps its length.
    let address = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), 2 * PAGE_BYTES, access, MapFlags::PRIVATE, &file, 0)
    };
    let address = address.unwrap().cast::<u8>();
    // SAFETY: the memory is mapped for writing, and nobody else knows of it.
    unsafe { address.write(2) };
    // SAFETY: the whole mapping, which nobody writes from here on.
    let protected =
        unsafe { rustix::mm::mprotect(address.cast(), 2 * PAGE_BYTES, MprotectFlags::READ) };
    protected.unwrap();
    let sum =
        || include_bytes!("program_pages.rs").iter().map(|byte| u64::from(*byte)).sum::<u64>();
    // What it needs itself is there before and after.
    resident_of_files();
    let (before, sum_before) = (resident_of_files(), sum());
    sys::program_pages::give_back().unwrap();
    let after = resident_of_files();
    assert!(after < before, "{before} KiB before, {after} KiB after");
    assert_eq!(sum(), sum_before);
    // SAFETY: both bytes are in the mapping, which is still there.
    let bytes = unsafe { [address.read_volatile(), address.add(PAGE_BYTES).read_volatile()] };
    assert_eq!(bytes, [2, 1], "a page that differs from the file is not the file's");
    // SAFETY: nothing refers to it any more.
    unsafe { rustix::mm::munmap(address.cast(), 2 * PAGE_BYTES) }.unwrap();
    std::fs::remove_file(&path).unwrap();
}
