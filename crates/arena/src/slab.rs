//! Slab pages: 16 KiB each, owned by one table, cut into items of one size class.
//!
//! Page header (first line of the page; only the writer reads it):
//! ```text
//! word 0: class u8 | list u8 | first free item u16 | items ever used u16 | items in use u16
//! word 1: previous page u32 | next page u32            page numbers plus one; 0: none
//! word 2: owner: shard u16 | table's identity u8 | 1    0: no table's
//! ```
//! Item indices are stored plus one, 0 is none. A free item keeps `TYPE_FREE` in its type nibble
//! and the next free item in bits 16..32 of its first word, so that a walk over a page tells live
//! items from free ones.

use std::sync::atomic::Ordering;

use crate::layout::{LINE_BYTES, PAGE_BYTES, SMALL_ENTRY_BYTES_MAX, TYPE_FREE};
use crate::memory::{Arena, Memory, NeedRoom, Region, Room};
use crate::page_pool::PageOwner;

/// Size classes: every 8 bytes up to 256, then steps of at least 6 % that fill a page well.
pub(crate) const CLASS_COUNT: usize = CLASSES.1;

const ITEM_ROOM: u64 = PAGE_BYTES - LINE_BYTES;
const CLASS_BYTES_MIN: u64 = 16;
const CLASSES: ([u16; 80], usize) = class_table();
const CLASS_BY_EIGHTH: [u8; (SMALL_ENTRY_BYTES_MAX / 8 + 1) as usize] = class_lookup();
const _: () = assert!(CLASSES.0[CLASS_COUNT - 1] as u64 == SMALL_ENTRY_BYTES_MAX);

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

const fn class_lookup() -> [u8; (SMALL_ENTRY_BYTES_MAX / 8 + 1) as usize] {
    let mut lookup = [0; (SMALL_ENTRY_BYTES_MAX / 8 + 1) as usize];
    let mut eighth = 0;
    let mut class = 0;
    while eighth < lookup.len() {
        while (CLASSES.0[class] as usize) < eighth * 8 {
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
    u64::from(CLASSES.0[usize::from(class)])
}

fn items_per_page(class: u8) -> u64 {
    ITEM_ROOM / class_bytes(class)
}

/// Returns the page that holds `item`.
pub(crate) fn page_of(item: u64) -> u64 {
    item & !(PAGE_BYTES - 1)
}

/// Pages by how full they are; the fuller ones are filled first, so that others empty. The last two
/// lists give no items: full pages, and pages that are being emptied.
const LIST_COUNT: usize = 5;
const LIST_FULL: usize = 3;
const LIST_ASIDE: usize = 4;

#[derive(Clone, Copy, Default)]
struct Class {
    /// First page of each list, page number plus one.
    heads: [u32; LIST_COUNT],
    pages: u32,
    used_items: u32,
}

/// The slab pages of one table.
pub(crate) struct Slabs {
    classes: Box<[Class; CLASS_COUNT]>,
    owner: PageOwner,
}

/// A page header's first word, taken apart.
#[derive(Clone, Copy)]
struct PageState {
    class: u8,
    list: u8,
    free: u16,
    used_ever: u16,
    in_use: u16,
}

impl PageState {
    fn unpack(word: u64) -> PageState {
        PageState {
            class: word as u8,
            list: (word >> 8) as u8,
            free: (word >> 16) as u16,
            used_ever: (word >> 32) as u16,
            in_use: (word >> 48) as u16,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.class)
            | u64::from(self.list) << 8
            | u64::from(self.free) << 16
            | u64::from(self.used_ever) << 32
            | u64::from(self.in_use) << 48
    }

    fn right_list(self) -> usize {
        let capacity = items_per_page(self.class);
        let in_use = u64::from(self.in_use);
        if in_use == capacity { LIST_FULL } else { (in_use * LIST_FULL as u64 / capacity) as usize }
    }
}

impl Slabs {
    /// Returns no pages, those of `owner`.
    pub fn new(owner: PageOwner) -> Slabs {
        Slabs { classes: Box::new([Class::default(); CLASS_COUNT]), owner }
    }

    /// Returns whether `page` is one of these. The caller holds the shard.
    pub fn owns(&self, arena: &Arena, page: u64) -> bool {
        arena.pages().is_owned_by(page, self.owner)
    }

    /// Returns the bytes of private memory.
    pub const fn private_bytes(&self) -> u64 {
        size_of::<[Class; CLASS_COUNT]>() as u64
    }

    /// Returns an item of `class` with undefined content.
    ///
    /// # Errors
    /// NeedRoom when no page can be had.
    pub fn allocate(&mut self, arena: &Arena, class: u8, room: Room) -> Result<u64, NeedRoom> {
        let memory = &*arena.memory;
        let heads = self.classes[usize::from(class)].heads;
        let page = match heads[..LIST_FULL].iter().rev().find(|&&head| head != 0) {
            Some(&head) => page_offset(head),
            None => self.add_page(arena, class, room)?,
        };
        let mut state = load_state(memory, page);
        let item = if state.free != 0 {
            let item = item_offset(page, class, state.free);
            state.free = (memory.word(item).load(Ordering::Relaxed) >> 16) as u16;
            item
        } else {
            state.used_ever += 1;
            item_offset(page, class, state.used_ever)
        };
        state.in_use += 1;
        self.classes[usize::from(class)].used_items += 1;
        self.store_state(memory, page, state);
        Ok(item)
    }

    /// Takes back an item that no index slot refers to any more.
    pub fn free(&mut self, arena: &Arena, item: u64) {
        let memory = &*arena.memory;
        let page = page_of(item);
        let mut state = load_state(memory, page);
        let index = (item - page - LINE_BYTES) / class_bytes(state.class) + 1;
        let marker = TYPE_FREE | u64::from(state.free) << 16;
        memory.word(item).store(marker, Ordering::Relaxed);
        state.free = index as u16;
        state.in_use -= 1;
        self.classes[usize::from(state.class)].used_items -= 1;
        if state.in_use == 0 {
            self.remove_page(arena, page, state);
        } else {
            self.store_state(memory, page, state);
        }
    }

    /// Returns the class of the live `item`.
    #[inline]
    pub fn class_of_item(memory: &Memory, item: u64) -> u8 {
        memory.word(page_of(item)).load(Ordering::Relaxed) as u8
    }

    /// Returns the emptiest page of the class with the most free room, when that room is at least
    /// one page and `1 / share` of the class.
    pub fn page_to_empty(&self, memory: &Memory, share: u64) -> Option<u64> {
        let most = (0..CLASS_COUNT).max_by_key(|&class| self.free_bytes(class))?;
        self.page_to_empty_of(memory, most as u8, share)
    }

    /// As [`Slabs::page_to_empty`], in `class`.
    pub fn page_to_empty_of(&self, memory: &Memory, class: u8, share: u64) -> Option<u64> {
        let totals = &self.classes[usize::from(class)];
        let per_page = items_per_page(class);
        let total = u64::from(totals.pages) * per_page;
        let free = total - u64::from(totals.used_items);
        if totals.pages < 2 || free < per_page || free.saturating_mul(share) < total {
            return None;
        }
        let head = *totals.heads[..LIST_FULL].iter().find(|&&head| head != 0)?;
        Some(self.least_used(memory, head))
    }

    /// Returns the live items of `page`.
    pub fn live_items(memory: &Memory, page: u64) -> Vec<u64> {
        let state = load_state(memory, page);
        let items = (1..=state.used_ever).map(|index| item_offset(page, state.class, index));
        items.filter(|&item| memory.word(item).load(Ordering::Relaxed) & 0xF != TYPE_FREE).collect()
    }

    /// Takes `page` out of the lists that new items come from, until it is empty or taken back.
    pub fn set_aside(&mut self, memory: &Memory, page: u64) {
        self.relist(memory, page, load_state(memory, page), LIST_ASIDE);
    }

    /// Puts a page that was set aside and not emptied back.
    pub fn take_back(&mut self, memory: &Memory, page: u64) {
        let state = load_state(memory, page);
        self.relist(memory, page, state, state.right_list());
    }

    /// Returns all pages to the pool; every item is gone.
    pub fn clear(&mut self, arena: &Arena) {
        let mut pool = arena.pages();
        for class in self.classes.iter_mut() {
            for head in class.heads {
                let mut next = head;
                while next != 0 {
                    let page = page_offset(next);
                    next = (arena.memory.word(page + 8).load(Ordering::Relaxed) >> 32) as u32;
                    PageOwner::clear(&arena.memory, page);
                    pool.free(page);
                }
            }
            *class = Class::default();
        }
    }

    /// Returns the bytes of the pages of this table.
    pub fn page_bytes(&self) -> u64 {
        self.classes.iter().map(|class| u64::from(class.pages)).sum::<u64>() * PAGE_BYTES
    }

    fn free_bytes(&self, class: usize) -> u64 {
        let totals = &self.classes[class];
        let items = u64::from(totals.pages) * items_per_page(class as u8);
        (items - u64::from(totals.used_items)) * class_bytes(class as u8)
    }

    /// Looks at the first pages of a list, a bounded number.
    fn least_used(&self, memory: &Memory, head: u32) -> u64 {
        const LOOKED_AT_MAX: usize = 8;
        let mut best = page_offset(head);
        let mut next = head;
        for _ in 0..LOOKED_AT_MAX {
            if next == 0 {
                break;
            }
            let page = page_offset(next);
            if load_state(memory, page).in_use < load_state(memory, best).in_use {
                best = page;
            }
            next = (memory.word(page + 8).load(Ordering::Relaxed) >> 32) as u32;
        }
        best
    }

    fn add_page(&mut self, arena: &Arena, class: u8, room: Room) -> Result<u64, NeedRoom> {
        let bytes = class_bytes(class);
        let need = |_| NeedRoom { bytes, region: Region::Slab };
        let page = arena.pages().allocate(room).map_err(need)?;
        self.owner.store(&arena.memory, page);
        let state = PageState { class, list: 0, free: 0, used_ever: 0, in_use: 0 };
        self.link(&arena.memory, page, state);
        arena.memory.word(page).store(state.pack(), Ordering::Relaxed);
        self.classes[usize::from(class)].pages += 1;
        Ok(page)
    }

    fn remove_page(&mut self, arena: &Arena, page: u64, state: PageState) {
        self.unlink(&arena.memory, page, state);
        self.classes[usize::from(state.class)].pages -= 1;
        PageOwner::clear(&arena.memory, page);
        arena.pages().free(page);
    }

    /// Stores `state` and moves the page to the list it belongs in, unless it is set aside.
    fn store_state(&mut self, memory: &Memory, page: u64, state: PageState) {
        let list = state.right_list();
        if list != usize::from(state.list) && usize::from(state.list) != LIST_ASIDE {
            return self.relist(memory, page, state, list);
        }
        memory.word(page).store(state.pack(), Ordering::Relaxed);
    }

    /// Stores `state` and moves the page to `list`.
    fn relist(&mut self, memory: &Memory, page: u64, mut state: PageState, list: usize) {
        self.unlink(memory, page, state);
        state.list = list as u8;
        self.link(memory, page, state);
        memory.word(page).store(state.pack(), Ordering::Relaxed);
    }

    fn link(&mut self, memory: &Memory, page: u64, state: PageState) {
        let head = &mut self.classes[usize::from(state.class)].heads[usize::from(state.list)];
        let next = *head;
        *head = page_number(page);
        memory.word(page + 8).store(u64::from(next) << 32, Ordering::Relaxed);
        if next != 0 {
            let links = memory.word(page_offset(next) + 8);
            let kept = links.load(Ordering::Relaxed) & !0xFFFF_FFFF;
            links.store(kept | u64::from(page_number(page)), Ordering::Relaxed);
        }
    }

    fn unlink(&mut self, memory: &Memory, page: u64, state: PageState) {
        let links = memory.word(page + 8).load(Ordering::Relaxed);
        let (previous, next) = (links as u32, (links >> 32) as u32);
        if previous == 0 {
            self.classes[usize::from(state.class)].heads[usize::from(state.list)] = next;
        } else {
            let word = memory.word(page_offset(previous) + 8);
            let kept = word.load(Ordering::Relaxed) & 0xFFFF_FFFF;
            word.store(kept | u64::from(next) << 32, Ordering::Relaxed);
        }
        if next != 0 {
            let word = memory.word(page_offset(next) + 8);
            let kept = word.load(Ordering::Relaxed) & !0xFFFF_FFFF;
            word.store(kept | u64::from(previous), Ordering::Relaxed);
        }
    }
}

fn load_state(memory: &Memory, page: u64) -> PageState {
    PageState::unpack(memory.word(page).load(Ordering::Relaxed))
}

fn page_number(page: u64) -> u32 {
    u32::try_from(page / PAGE_BYTES + 1).expect("the range has fewer than 2^32 pages")
}

fn page_offset(number: u32) -> u64 {
    (u64::from(number) - 1) * PAGE_BYTES
}

fn item_offset(page: u64, class: u8, index: u16) -> u64 {
    page + LINE_BYTES + (u64::from(index) - 1) * class_bytes(class)
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

    #[test]
    fn page_state_survives_packing() {
        let state = PageState { class: 77, list: 3, free: 1020, used_ever: 1019, in_use: 1018 };
        let word = state.pack();
        assert_eq!(PageState::unpack(word).pack(), word);
    }
}
