//! The size classes of small entries.

use std::sync::atomic::Ordering;

use crate::layout::{Header, LINE_BYTES, PAGE_BYTES, SMALL_ENTRY_BYTES_MAX};
use crate::mapped_range::MappedRange;

/// As many as the steps make.
pub(crate) const CLASS_COUNT: usize = class_count();
/// What a page has for items, behind its header.
pub(crate) const ITEM_ROOM: u64 = PAGE_BYTES - LINE_BYTES;

const CLASS_BYTES_MIN: u64 = 16;
/// Up to which size classes are how far apart, in bytes: up to 1,088 as references are, above that
/// a ninth of the size at most. Most classes of a table share pages, where a finer one costs
/// nothing but what is counted of it. On pages of its own an item takes no more than one of the
/// next size that divides a page.
const STEPS: [(u64, u64); 2] = [(1088, 8), (SMALL_ENTRY_BYTES_MAX, 128)];
/// Statics: of a constant each look-up would copy the whole table first.
static CLASS_BYTES: [u16; CLASS_COUNT] = class_sizes();
static ITEMS_PER_PAGE: [u16; CLASS_COUNT] = page_items();
static CLASS_BY_EIGHTH: [u8; (SMALL_ENTRY_BYTES_MAX / 8 + 1) as usize] = class_lookup();
const _: () = assert!(class_sizes()[CLASS_COUNT - 1] as u64 == SMALL_ENTRY_BYTES_MAX);

const fn class_count() -> usize {
    let (mut count, mut size) = (1, CLASS_BYTES_MIN);
    while size < SMALL_ENTRY_BYTES_MAX {
        size = next_size(size);
        count += 1;
    }
    count
}

const fn class_sizes() -> [u16; CLASS_COUNT] {
    let mut sizes = [CLASS_BYTES_MIN as u16; CLASS_COUNT];
    let mut class = 1;
    while class < CLASS_COUNT {
        sizes[class] = next_size(sizes[class - 1] as u64) as u16;
        class += 1;
    }
    sizes
}

/// Returns the size of the class behind that of `size`.
const fn next_size(size: u64) -> u64 {
    let mut range = 0;
    while size >= STEPS[range].0 {
        range += 1;
    }
    let (end, step) = STEPS[range];
    if size + step < end { size + step } else { end }
}

const fn page_items() -> [u16; CLASS_COUNT] {
    let sizes = class_sizes();
    let mut counts = [0; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        counts[class] = (ITEM_ROOM / sizes[class] as u64) as u16;
        class += 1;
    }
    counts
}

const fn class_lookup() -> [u8; (SMALL_ENTRY_BYTES_MAX / 8 + 1) as usize] {
    let sizes = class_sizes();
    let mut lookup = [0; (SMALL_ENTRY_BYTES_MAX / 8 + 1) as usize];
    let mut eighth = 0;
    let mut class = 0;
    while eighth < lookup.len() {
        while (sizes[class] as usize) < eighth * 8 {
            class += 1;
        }
        lookup[eighth] = class as u8;
        eighth += 1;
    }
    lookup
}

/// Returns the class for an entry of `bytes`, `1..=SMALL_ENTRY_BYTES_MAX`.
#[inline]
pub(crate) fn class_of(bytes: u64) -> u8 {
    CLASS_BY_EIGHTH[bytes.div_ceil(8) as usize]
}

/// Returns the size of the items of `class`.
#[inline]
pub(crate) fn class_bytes(class: u8) -> u64 {
    u64::from(CLASS_BYTES[usize::from(class)])
}

/// Returns how many items of `class` a page of its own holds.
#[inline]
pub(crate) fn items_per_page(class: u8) -> u64 {
    u64::from(ITEMS_PER_PAGE[usize::from(class)])
}

/// Returns the class of the item of a small entry with `header` that takes `bytes`.
#[inline]
pub(crate) fn item_class(header: Header, bytes: u64) -> u8 {
    class_of(header.item_bytes(bytes))
}

/// Returns the class of the small entry at `item`, from its lengths: an item is always of the
/// smallest class that its entry fits, with its room where it is roomy.
#[inline]
pub(crate) fn class_of_entry(memory: &MappedRange, item: u64) -> u8 {
    let header = Header(memory.word(item).load(Ordering::Relaxed));
    let (key_length, value_length) = if header.is_long() {
        let lengths = memory.word(item + 8).load(Ordering::Relaxed);
        (lengths & 0xFFFF_FFFF, lengths >> 32)
    } else {
        (header.short_key_length(), header.short_value_length())
    };
    item_class(header, header.prefix_bytes() + key_length + value_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        for bytes in 1..=SMALL_ENTRY_BYTES_MAX {
            let class = class_of(bytes);
            assert!(class_bytes(class) >= bytes);
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes}");
        }
    }
}
