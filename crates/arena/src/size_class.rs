//! The size classes of small entries.

use std::sync::atomic::Ordering;

use crate::layout::{Header, LINE_BYTES, PAGE_BYTES, SMALL_ENTRY_BYTES_MAX};
use crate::mapped_range::MappedRange;

/// Size classes: every 8 bytes up to 256, then steps of at least 6 % that fill a page well.
pub(crate) const CLASS_COUNT: usize = class_table().1;
/// What a page has for items, behind its header.
pub(crate) const ITEM_ROOM: u64 = PAGE_BYTES - LINE_BYTES;

const CLASS_BYTES_MIN: u64 = 16;
/// Statics: of a constant each look-up would copy the whole table first.
static CLASS_BYTES: [u16; CLASS_COUNT] = class_sizes();
static ITEMS_PER_PAGE: [u16; CLASS_COUNT] = page_items();
static CLASS_BY_EIGHTH: [u8; (SMALL_ENTRY_BYTES_MAX / 8 + 1) as usize] = class_lookup();
const _: () = assert!(class_sizes()[CLASS_COUNT - 1] as u64 == SMALL_ENTRY_BYTES_MAX);

const fn class_table() -> ([u16; 80], usize) {
    let mut sizes = [0; 80];
    let mut count = 0;
    let mut size = CLASS_BYTES_MIN;
    while size <= 256 {
        sizes[count] = size as u16;
        count += 1;
        size += 8;
    }
    let mut per_page = ITEM_ROOM / 256;
    while per_page >= 4 {
        let size = ITEM_ROOM / per_page / 8 * 8;
        if size * 100 >= sizes[count - 1] as u64 * 106 || per_page == 4 {
            sizes[count] = size as u16;
            count += 1;
        }
        per_page -= 1;
    }
    (sizes, count)
}

const fn class_sizes() -> [u16; CLASS_COUNT] {
    let all = class_table().0;
    let mut sizes = [0; CLASS_COUNT];
    sizes.copy_from_slice(all.split_at(CLASS_COUNT).0);
    sizes
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
