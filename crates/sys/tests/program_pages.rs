//! Pages of the program go and come back; apart, as other tests use theirs meanwhile.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

const PAGE_BYTES: usize = 4096;
/// Constants of the program, of which one is changed.
static MARKED: [u8; 2 * PAGE_BYTES] = [1; 2 * PAGE_BYTES];

/// Returns how much memory of files is mapped into this process and there, in KiB.
fn resident_of_files() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One test, as the pages of two would be those of one program.
#[test]
fn program_pages_go_and_those_that_were_changed_stay() {
    // As a debugger writes: the page becomes the process's own.
    let memory = OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    let marked = &MARKED[PAGE_BYTES];
    memory.write_all_at(&[2], std::ptr::from_ref(marked).addr() as u64).unwrap();
    let sum =
        || include_bytes!("program_pages.rs").iter().map(|byte| u64::from(*byte)).sum::<u64>();
    // What it needs itself is there before and after.
    resident_of_files();
    let (before, sum_before) = (resident_of_files(), sum());
    sys::program_pages::give_back().unwrap();
    let after = resident_of_files();
    assert!(after < before, "{before} KiB before, {after} KiB after");
    assert_eq!(sum(), sum_before);
    // SAFETY: it is borrowed; volatile, as the compiler knows what is in the file.
    let byte = unsafe { std::ptr::from_ref(marked).read_volatile() };
    assert_eq!(byte, 2, "a page that differs from the file is not the file's");
}
