//! Lists of slab pages: a head, and links in a word of each page's header.
//!
//! Heads and links are page numbers plus one; 0 is none. Only the holder of the table's shard
//! writes them, and readers in other processes never read them.

use std::sync::atomic::Ordering;

use crate::layout::PAGE_BYTES;
use crate::mapped_range::MappedRange;

/// Where the header of a page has its links to others with as much room.
pub(crate) const BY_ROOM: u64 = 8;
/// As above, to all others of its class.
pub(crate) const OF_CLASS: u64 = 24;

/// How many pages of a list a search looks at.
const LOOKED_AT_MAX: usize = 8;

/// Puts `page` before the first page of the list of `head`.
pub(crate) fn link<const LINKS: u64>(memory: &MappedRange, head: &mut u32, page: u64) {
    let next = *head;
    *head = page_number(page);
    memory.word(page + LINKS).store(u64::from(next) << 32, Ordering::Relaxed);
    if next != 0 {
        let links = memory.word(page_offset(next) + LINKS);
        let kept = links.load(Ordering::Relaxed) & !0xFFFF_FFFF;
        links.store(kept | u64::from(page_number(page)), Ordering::Relaxed);
    }
}

/// Takes `page` out of the list of `head`.
pub(crate) fn unlink<const LINKS: u64>(memory: &MappedRange, head: &mut u32, page: u64) {
    let links = memory.word(page + LINKS).load(Ordering::Relaxed);
    let (previous, next) = (links as u32, (links >> 32) as u32);
    if previous == 0 {
        debug_assert_eq!(*head, page_number(page), "a page without a predecessor is the first");
        *head = next;
    } else {
        let word = memory.word(page_offset(previous) + LINKS);
        let kept = word.load(Ordering::Relaxed) & 0xFFFF_FFFF;
        word.store(kept | u64::from(next) << 32, Ordering::Relaxed);
    }
    if next != 0 {
        let word = memory.word(page_offset(next) + LINKS);
        let kept = word.load(Ordering::Relaxed) & !0xFFFF_FFFF;
        word.store(kept | u64::from(previous), Ordering::Relaxed);
    }
}

/// Returns the page behind `head`; `None` where the list is empty.
pub(crate) fn first(head: u32) -> Option<u64> {
    (head != 0).then(|| page_offset(head))
}

/// Returns the pages of a list in their order. The next one is read before a page is returned, so
/// that the caller may free it.
pub(crate) fn pages<const LINKS: u64>(
    memory: &MappedRange,
    head: u32,
) -> impl Iterator<Item = u64> {
    let mut next = head;
    std::iter::from_fn(move || {
        let page = first(next)?;
        next = (memory.word(page + LINKS).load(Ordering::Relaxed) >> 32) as u32;
        Some(page)
    })
}

/// Returns the first pages of a list: as many as a search looks at.
pub(crate) fn first_pages<const LINKS: u64>(
    memory: &MappedRange,
    head: u32,
) -> impl Iterator<Item = u64> {
    pages::<LINKS>(memory, head).take(LOOKED_AT_MAX)
}

fn page_number(page: u64) -> u32 {
    u32::try_from(page / PAGE_BYTES + 1).expect("the range has fewer than 2^32 pages")
}

fn page_offset(number: u32) -> u64 {
    (u64::from(number) - 1) * PAGE_BYTES
}
