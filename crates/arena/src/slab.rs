//! The slab memory of one table: pages of 16 KiB, each owned by the table.
//!
//! A class of which the table holds several pages' worth has pages of its own, cut into items; the
//! items of all other classes share pages (`mixed.rs`), so that memory follows the data.
//!
//! Header of a class's own page (first line of the page; only the writer reads it):
//! ```text
//! word 0: class u8 | list u8 | first free item u16 | items ever used u16 | items in use u16
//! word 1: previous page u32 | next page u32            page numbers plus one; 0: none
//! word 2: owner: shard u16 | table's identity u8 | 1    0: no table's
//! word 3: as word 1, of all pages of the class
//! ```
//! Item indices are stored plus one, 0 is none. A free item keeps `TYPE_FREE` in its type nibble
//! and the next free item in bits 16..32 of its first word, so that a walk over a page tells live
//! items from free ones.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::layout::{LINE_BYTES, PAGE_BYTES, TYPE_FREE};
use crate::mapped_range::{LimitPolicy, MappedRange, NeedRoom, Region};
use crate::mixed::{MIXED, MixedPages, Place, Terms};
use crate::page_list::{self, BY_ROOM, OF_CLASS};
use crate::page_pool::{PageOwner, QUARTERS};
use crate::size_class::{CLASS_COUNT, class_bytes, class_of_entry, items_per_page};

const _: () = assert!(CLASS_COUNT < MIXED as usize, "no class is taken for a mixed page");

/// A class gets pages of its own when its items fill eight, because one of them is half empty on
/// average; it loses them again when they fill two.
const OWN_BYTES_MIN: u64 = 8 * PAGE_BYTES;
const OWN_BYTES_LEAST: u64 = OWN_BYTES_MIN / 4;
/// The classes are counted from so many bytes of mixed pages on: before, none can fill its own.
const COUNTED_BYTES_MIN: u64 = 4 * PAGE_BYTES;

/// Returns the page that holds `item`.
pub(crate) fn page_of(item: u64) -> u64 {
    item & !(PAGE_BYTES - 1)
}

/// Pages by how full they are; the fuller ones are filled first, so that others empty. The last
/// list gives no items: pages that are being emptied.
const LIST_COUNT: usize = 5;
/// Stands for no list, and has no head: one of the full pages that loses an item would have two
/// neighbours there, whose headers nobody has looked at for long.
const LIST_FULL: usize = 3;
const LIST_ASIDE: usize = 4;

/// What is known of a class. There are many, most of them without pages of their own.
#[derive(Clone, Copy, Default)]
struct Class {
    /// Items in use on mixed pages: no more than fill what a class has pages of its own for.
    mixed_items: u16,
    /// Where its own pages are among those of all classes, plus one; 0: it has none.
    own: u8,
    /// Whether new items go to pages of its own.
    has_own: bool,
}

const _: () = assert!(CLASS_COUNT < u8::MAX as usize, "`Class::own` counts all of them");
const _: () = assert!(size_of::<Class>() == 4, "each shard has one for each class");

/// The pages of a class's own, at least one.
struct OwnPages {
    /// First page of each list, page number plus one.
    heads: [u32; LIST_COUNT],
    /// As above, of the list of all.
    all: u32,
    pages: u32,
    /// Items in use on these pages.
    used_items: u32,
    class: u8,
}

impl OwnPages {
    /// Returns the items that are not in use.
    fn free_items(&self) -> u64 {
        u64::from(self.pages) * items_per_page(self.class) - u64::from(self.used_items)
    }

    /// Returns the bytes of these.
    fn free_bytes(&self) -> u64 {
        self.free_items() * class_bytes(self.class)
    }

    /// Puts `page` into `list`.
    fn link(&mut self, memory: &MappedRange, list: usize, page: u64) {
        if list != LIST_FULL {
            page_list::link::<BY_ROOM>(memory, &mut self.heads[list], page);
        }
    }

    /// Takes `page` out of `list`.
    fn unlink(&mut self, memory: &MappedRange, list: usize, page: u64) {
        if list != LIST_FULL {
            page_list::unlink::<BY_ROOM>(memory, &mut self.heads[list], page);
        }
    }
}

/// The slab pages of one table.
pub(crate) struct Slabs {
    /// Absent while the table holds too little for any class to have pages of its own.
    classes: Option<Box<[Class; CLASS_COUNT]>>,
    /// The pages of the classes that have pages of their own, in no order.
    own: Vec<OwnPages>,
    mixed: MixedPages,
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
        // A third, or two, or all: a division would take longer than all else that an item needs.
        (1..=LIST_FULL as u64).filter(|third| in_use * LIST_FULL as u64 >= third * capacity).count()
    }
}

impl Slabs {
    /// Returns no pages, those of `owner`.
    pub const fn new(owner: PageOwner) -> Slabs {
        Slabs { classes: None, own: Vec::new(), mixed: MixedPages::new(), owner }
    }

    /// Returns whether `page` is one of these. The caller holds the shard.
    pub fn owns(&self, arena: &Arena, page: u64) -> bool {
        arena.pages().is_owned_by(page, self.owner)
    }

    /// Returns the bytes of private memory.
    #[inline]
    pub fn private_bytes(&self) -> u64 {
        let own = self.own.capacity() * size_of::<OwnPages>();
        match &self.classes {
            Some(_) => (size_of::<[Class; CLASS_COUNT]>() + own) as u64,
            None => 0,
        }
    }

    /// Returns an item of `class` with undefined content, or which items of a page have to be
    /// compacted for it; then [`Slabs::allocate_in`] follows.
    ///
    /// # Errors
    /// NeedRoom when there is none within `terms`.
    pub fn allocate(&mut self, arena: &Arena, class: u8, terms: Terms) -> Result<Place, NeedRoom> {
        if self.classes.is_none() && self.mixed.page_bytes() >= COUNTED_BYTES_MIN {
            self.count_classes(&arena.memory);
        }
        if self.has_own(class) {
            return self.allocate_own(arena, class, terms.policy).map(Place::At);
        }
        let place = self.mixed.allocate(arena, self.owner, class_bytes(class), terms)?;
        if matches!(place, Place::At(_)) {
            self.count_mixed(class);
        }
        Ok(place)
    }

    /// Returns an item of `class` in `run`, which [`Slabs::allocate`] named and which was compacted
    /// since: its live items end at `live_end`.
    pub fn allocate_in(
        &mut self,
        memory: &MappedRange,
        run: Range<u64>,
        live_end: u64,
        class: u8,
    ) -> u64 {
        self.count_mixed(class);
        self.mixed.allocate_in(memory, run, live_end, class_bytes(class))
    }

    /// Takes back an item that no index slot refers to any more; its words are still as they were.
    pub fn free(&mut self, arena: &Arena, item: u64) {
        let memory = &*arena.memory;
        let page = page_of(item);
        if Slabs::is_mixed(memory, page) {
            let class = class_of_entry(memory, item);
            if let Some(classes) = &mut self.classes {
                classes[usize::from(class)].mixed_items -= 1;
            }
            if let Some(quarters) = self.mixed.free(memory, page, item, class_bytes(class)) {
                PageOwner::clear(memory, page);
                arena.pages().free(page, quarters);
            }
            return;
        }
        let mut state = load_state(memory, page);
        let index = (item - page - LINE_BYTES) / class_bytes(state.class) + 1;
        let marker = TYPE_FREE | u64::from(state.free) << 16;
        memory.word(item).store(marker, Ordering::Relaxed);
        state.free = index as u16;
        state.in_use -= 1;
        let own = self.own_mut(state.class);
        own.used_items -= 1;
        let used_items = own.used_items;
        let class = self.class_mut(state.class);
        let items = u64::from(used_items + u32::from(class.mixed_items));
        class.has_own &= items * class_bytes(state.class) >= OWN_BYTES_LEAST;
        if state.in_use == 0 {
            self.remove_page(arena, page, state);
        } else {
            self.store_state(memory, page, state);
        }
    }

    /// Returns whether `page`, one of a table, holds items of several classes.
    pub fn is_mixed(memory: &MappedRange, page: u64) -> bool {
        memory.word(page).load(Ordering::Relaxed) as u8 == MIXED
    }

    /// Returns whether `item`, of `class`, lies on a page for items of that class.
    pub fn serves_class(memory: &MappedRange, item: u64, class: u8) -> bool {
        let page_class = memory.word(page_of(item)).load(Ordering::Relaxed) as u8;
        page_class == class || page_class == MIXED
    }

    /// Returns the page to empty of the class with the most free room, or of the mixed pages where
    /// these have more, when that room is at least one page and `1 / share` of the whole.
    pub fn page_to_empty(&self, memory: &MappedRange, share: u64) -> Option<u64> {
        let of_mixed = || self.mixed.page_to_empty(memory, share);
        let Some(most) = self.own.iter().max_by_key(|own| own.free_bytes()) else {
            return of_mixed();
        };
        let of_class = || self.own_page_to_empty(memory, most, share);
        match most.free_bytes() > self.mixed.free_bytes() {
            true => of_class().or_else(of_mixed),
            false => of_mixed().or_else(of_class),
        }
    }

    /// As [`Slabs::page_to_empty`], where an item of `class` has gone.
    pub fn page_to_empty_of(&self, memory: &MappedRange, class: u8, share: u64) -> Option<u64> {
        match self.own(class) {
            Some(own) => self.own_page_to_empty(memory, own, share),
            None => self.mixed.page_to_empty(memory, share),
        }
    }

    /// Returns the mixed page with the most room, where an item of `class` would go to a mixed page
    /// and can be put on that one, with at most `moves_max` moves, once it has the room.
    pub fn page_to_relieve(&self, memory: &MappedRange, class: u8, moves_max: u64) -> Option<u64> {
        match self.has_own(class) {
            true => None,
            false => self.mixed.page_to_relieve(memory, class_bytes(class), moves_max),
        }
    }

    /// As [`MixedPages::item_to_move`], for an item of `class`.
    pub fn item_to_move(&self, memory: &MappedRange, page: u64, class: u8) -> Option<u64> {
        self.mixed.item_to_move(memory, page, class_bytes(class))
    }

    /// Returns where an item of `class` can be put on `page`, which [`Slabs::page_to_relieve`] has
    /// named and which has room for it by now.
    pub fn place_on(
        &mut self,
        memory: &MappedRange,
        page: u64,
        class: u8,
        moves_max: u64,
    ) -> Place {
        let place = self.mixed.place_on(memory, page, class_bytes(class), moves_max);
        if matches!(place, Place::At(_)) {
            self.count_mixed(class);
        }
        place
    }

    /// Returns the live items of `page`.
    pub fn live_items(memory: &MappedRange, page: u64) -> Vec<u64> {
        if Slabs::is_mixed(memory, page) {
            return MixedPages::live_items(memory, page);
        }
        let state = load_state(memory, page);
        let items = (1..=state.used_ever).map(|index| item_offset(page, state.class, index));
        items.filter(|&item| memory.word(item).load(Ordering::Relaxed) & 0xF != TYPE_FREE).collect()
    }

    /// Takes `page` out of the lists that new items come from, until it is empty or taken back.
    pub fn set_aside(&mut self, memory: &MappedRange, page: u64) {
        if Slabs::is_mixed(memory, page) {
            return self.mixed.set_aside(memory, page);
        }
        self.relist(memory, page, load_state(memory, page), LIST_ASIDE);
    }

    /// Puts a page that was set aside and not emptied back.
    pub fn take_back(&mut self, memory: &MappedRange, page: u64) {
        if Slabs::is_mixed(memory, page) {
            return self.mixed.take_back(memory, page);
        }
        let state = load_state(memory, page);
        self.relist(memory, page, state, state.right_list());
    }

    /// Returns all pages to the pool; every item is gone.
    pub fn clear(&mut self, arena: &Arena) {
        let memory = &*arena.memory;
        self.classes = None;
        let heads = std::mem::take(&mut self.own).into_iter().map(|own| own.all);
        let own = heads.flat_map(|head| page_list::pages::<OF_CLASS>(memory, head));
        let own = own.map(|page| (page, QUARTERS));
        let mixed = self.mixed.take_all(memory);
        let mut pool = arena.pages();
        for (page, quarters) in own.chain(mixed) {
            PageOwner::clear(memory, page);
            pool.free(page, quarters);
        }
    }

    /// Returns the bytes of the pages of this table, as far as they are in use.
    pub fn page_bytes(&self) -> u64 {
        let own: u64 = self.own.iter().map(|own| u64::from(own.pages)).sum();
        own * PAGE_BYTES + self.mixed.page_bytes()
    }

    /// Returns the bytes of mixed pages that no live item has.
    #[cfg(test)]
    pub fn free_bytes(&self) -> u64 {
        self.mixed.free_bytes()
    }

    /// Checks that each own page is in the list of its class, and in that of its room unless it is
    /// full.
    #[cfg(test)]
    pub fn assert_lists(&self, memory: &MappedRange) {
        for own in &self.own {
            let all: Vec<u64> = page_list::pages::<OF_CLASS>(memory, own.all).collect();
            assert_eq!(all.len(), own.pages as usize);
            let mut listed = 0;
            for (list, head) in own.heads.into_iter().enumerate() {
                for page in page_list::pages::<BY_ROOM>(memory, head) {
                    let state = load_state(memory, page);
                    assert_eq!((state.class, usize::from(state.list)), (own.class, list));
                    assert!(list == LIST_ASIDE || list == state.right_list());
                    assert!(list != LIST_FULL && all.contains(&page));
                    listed += 1;
                }
            }
            let states = all.iter().map(|page| load_state(memory, *page));
            let full = states.filter(|state| usize::from(state.list) == LIST_FULL);
            assert_eq!(listed + full.count(), all.len(), "a page that is not full is in a list");
        }
    }

    /// Begins to count the items of each class, all of which are on mixed pages.
    #[cold]
    fn count_classes(&mut self, memory: &MappedRange) {
        let mut classes = Box::new([Class::default(); CLASS_COUNT]);
        for page in self.mixed.pages(memory) {
            for item in MixedPages::live_items(memory, page) {
                classes[usize::from(class_of_entry(memory, item))].mixed_items += 1;
            }
        }
        self.classes = Some(classes);
    }

    fn count_mixed(&mut self, class: u8) {
        let used_items = self.own(class).map_or(0, |own| own.used_items);
        if let Some(classes) = &mut self.classes {
            let counts = &mut classes[usize::from(class)];
            counts.mixed_items += 1;
            let items = u64::from(used_items + u32::from(counts.mixed_items));
            counts.has_own = items * class_bytes(class) >= OWN_BYTES_MIN;
        }
    }

    fn allocate_own(
        &mut self,
        arena: &Arena,
        class: u8,
        policy: LimitPolicy,
    ) -> Result<u64, NeedRoom> {
        let memory = &*arena.memory;
        let fullest = |own: &OwnPages| {
            own.heads[..LIST_FULL].iter().rev().find_map(|&head| page_list::first(head))
        };
        let page = match self.own(class).and_then(fullest) {
            Some(page) => page,
            None => self.add_page(arena, class, policy)?,
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
        self.own_mut(class).used_items += 1;
        self.store_state(memory, page, state);
        Ok(item)
    }

    /// As [`Slabs::page_to_empty`], of the pages of one class: any page where new items go to mixed
    /// ones.
    fn own_page_to_empty(&self, memory: &MappedRange, own: &OwnPages, share: u64) -> Option<u64> {
        let class = self.classes.as_ref()?[usize::from(own.class)];
        let (per_page, free) = (items_per_page(own.class), own.free_items());
        let total = u64::from(own.pages) * per_page;
        let is_sparse = own.pages >= 2 && free >= per_page && free.saturating_mul(share) >= total;
        if class.has_own && !is_sparse {
            return None;
        }
        if let Some(head) = own.heads[..LIST_FULL].iter().find(|head| **head != 0) {
            let in_use = |page: &u64| load_state(memory, *page).in_use;
            return page_list::first_pages::<BY_ROOM>(memory, *head).min_by_key(in_use);
        }
        let is_full = |page: &u64| usize::from(load_state(memory, *page).list) == LIST_FULL;
        page_list::first_pages::<OF_CLASS>(memory, own.all).find(is_full)
    }

    fn class_mut(&mut self, class: u8) -> &mut Class {
        let classes = self.classes.as_mut().expect("a class with pages of its own is counted");
        &mut classes[usize::from(class)]
    }

    /// Returns whether new items of `class` go to pages of its own.
    #[inline(always)]
    fn has_own(&self, class: u8) -> bool {
        self.classes.as_ref().is_some_and(|classes| classes[usize::from(class)].has_own)
    }

    /// Returns the own pages of `class`, if it has any.
    #[inline]
    fn own(&self, class: u8) -> Option<&OwnPages> {
        let place = usize::from(self.classes.as_ref()?[usize::from(class)].own);
        self.own.get(place.wrapping_sub(1))
    }

    #[inline]
    fn own_mut(&mut self, class: u8) -> &mut OwnPages {
        let place = usize::from(self.class_mut(class).own);
        &mut self.own[place - 1]
    }

    fn add_page(&mut self, arena: &Arena, class: u8, policy: LimitPolicy) -> Result<u64, NeedRoom> {
        let need = NeedRoom { bytes: class_bytes(class), region: Region::Slab };
        let page = arena.pages().allocate(QUARTERS, policy).map_err(|_| need)?;
        self.owner.store(&arena.memory, page);
        let state = PageState { class, list: 0, free: 0, used_ever: 0, in_use: 0 };
        if self.own(class).is_none() {
            let heads = [0; LIST_COUNT];
            self.own.push(OwnPages { heads, all: 0, pages: 0, used_items: 0, class });
            self.class_mut(class).own = self.own.len() as u8;
        }
        let own = self.own_mut(class);
        own.link(&arena.memory, 0, page);
        page_list::link::<OF_CLASS>(&arena.memory, &mut own.all, page);
        own.pages += 1;
        arena.memory.word(page).store(state.pack(), Ordering::Relaxed);
        Ok(page)
    }

    fn remove_page(&mut self, arena: &Arena, page: u64, state: PageState) {
        let own = self.own_mut(state.class);
        own.unlink(&arena.memory, usize::from(state.list), page);
        page_list::unlink::<OF_CLASS>(&arena.memory, &mut own.all, page);
        own.pages -= 1;
        if own.pages == 0 {
            self.remove_class(state.class);
        }
        PageOwner::clear(&arena.memory, page);
        arena.pages().free(page, QUARTERS);
    }

    /// Forgets the own pages of `class`, which has none left.
    #[cold]
    fn remove_class(&mut self, class: u8) {
        let place = std::mem::take(&mut self.class_mut(class).own);
        self.own.swap_remove(usize::from(place) - 1);
        // The last one stands there now.
        if let Some(moved) = self.own.get(usize::from(place) - 1) {
            let moved = moved.class;
            self.class_mut(moved).own = place;
        }
    }

    /// Stores `state` and moves the page to the list it belongs in, unless it is set aside.
    fn store_state(&mut self, memory: &MappedRange, page: u64, state: PageState) {
        let list = state.right_list();
        if list != usize::from(state.list) && usize::from(state.list) != LIST_ASIDE {
            return self.relist(memory, page, state, list);
        }
        memory.word(page).store(state.pack(), Ordering::Relaxed);
    }

    /// Stores `state` and moves the page to `list`.
    fn relist(&mut self, memory: &MappedRange, page: u64, mut state: PageState, list: usize) {
        let own = self.own_mut(state.class);
        own.unlink(memory, usize::from(state.list), page);
        own.link(memory, list, page);
        state.list = list as u8;
        memory.word(page).store(state.pack(), Ordering::Relaxed);
    }
}

fn load_state(memory: &MappedRange, page: u64) -> PageState {
    let word = memory.word(page).load(Ordering::Relaxed);
    debug_assert_ne!(word as u8, MIXED, "the page is a class's own");
    PageState::unpack(word)
}

fn item_offset(page: u64, class: u8, index: u16) -> u64 {
    page + LINE_BYTES + (u64::from(index) - 1) * class_bytes(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_state_survives_packing() {
        let state = PageState { class: 77, list: 3, free: 1020, used_ever: 1019, in_use: 1018 };
        let word = state.pack();
        assert_eq!(PageState::unpack(word).pack(), word);
    }
}
