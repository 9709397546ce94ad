//! Mixed pages: items of every class side by side, in the pages of one table.
//!
//! A page for each class would cost a table with few entries 16 KiB for each class. Here items
//! follow each other, each as long as its class; a removed item leaves its place dead until the
//! page is compacted, which moves the items after it up. The first page of a table is committed
//! (first written) 4 KiB at a time. A class moves on to pages of its own once it fills several
//! (`slab.rs`).
//!
//! Page header (first line of the page; only the writer reads it):
//! ```text
//! word 0: MIXED u8 | list u8 | used u16 | dead u16 | items in use u16    used, dead: units of 8 B
//! word 1: previous page u32 | next page u32
//! word 2: owner, and in bits 32..40 how many quarters may be written
//! ```
//! `used` counts the units up to the end of the last item. A dead item has `TYPE_FREE` in its type
//! nibble and its units in bits 16..32 of its first word, a live one tells its class by its
//! lengths, so that a walk from the first item on finds each.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::arena::Arena;
use crate::layout::{LINE_BYTES, TYPE_FREE};
use crate::mapped_range::{LimitPolicy, MappedRange, NeedRoom, Region};
use crate::page_list::{self, BY_ROOM};
use crate::page_pool::{PageOwner, QUARTER_BYTES, QUARTERS};
use crate::size_class::{ITEM_ROOM, class_bytes, class_of_entry};
use crate::slab::page_of;

/// Stands for the class in the header of a mixed page.
pub(crate) const MIXED: u8 = u8::MAX;

const UNIT_BYTES: u64 = 8;
/// Pages are listed by their room, dead items included, in steps of 1 KiB.
const ROOM_STEP_UNITS: u64 = 1024 / UNIT_BYTES;
const ROOM_LISTS: usize = (ITEM_ROOM / UNIT_BYTES / ROOM_STEP_UNITS) as usize + 1;
/// The list of pages that give no items: they are being emptied.
const LIST_ASIDE: usize = ROOM_LISTS;
/// A page is compacted for this much room, though memory could be had: a quarter of it, so that at
/// most three bytes move for one that is gained. Where there is no memory, for any room that does.
const COMPACTED_UNITS_MIN: u64 = QUARTER_BYTES / UNIT_BYTES;
/// Compaction moves at most so many entries for each byte that it gains: one that gets room for a
/// small entry moves some sixty, not the thousand that a page may hold.
const MOVES_PER_BYTE_MAX: u64 = 4;
/// Room is made for so many bytes at least, so that not each insertion compacts a page.
const NEED_BYTES_MIN: u64 = 2048;
/// A page is emptied when the others have room for more than all of its items, as some of that is
/// at the ends of pages, where no item fits.
const SPARE_BYTES_MIN: u64 = ITEM_ROOM + 2048;

/// How an item may be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether memory may pass the limit.
    pub policy: LimitPolicy,
    /// Whether a mixed page may be added.
    pub may_grow: bool,
    /// How many entries compaction may move.
    pub moves_max: u64,
}

/// Where an item is to be had.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Here: its content is undefined.
    At(u64),
    /// On this page, once it is compacted.
    OnCompacted(u64),
}

/// The mixed pages of one table.
pub(crate) struct MixedPages {
    heads: [u32; ROOM_LISTS + 1],
    /// The page that new items are put on; 0: none.
    open: u64,
    /// A page of which not all quarters are in use, the next to be extended; 0: none.
    partial: u64,
    /// The dead item that was the last to go, for the next of its length; 0: none.
    spare: u64,
    pages: u64,
    quarters: u64,
    live_units: u64,
}

/// A page header's first word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    list: u8,
    used: u16,
    dead: u16,
    in_use: u16,
}

impl State {
    fn load(memory: &MappedRange, page: u64) -> State {
        let word = memory.word(page).load(Ordering::Relaxed);
        debug_assert_eq!(word as u8, MIXED, "the page is mixed");
        State {
            list: (word >> 8) as u8,
            used: (word >> 16) as u16,
            dead: (word >> 32) as u16,
            in_use: (word >> 48) as u16,
        }
    }

    fn store(self, memory: &MappedRange, page: u64) {
        let word = u64::from(MIXED)
            | u64::from(self.list) << 8
            | u64::from(self.used) << 16
            | u64::from(self.dead) << 32
            | u64::from(self.in_use) << 48;
        memory.word(page).store(word, Ordering::Relaxed);
    }
}

impl MixedPages {
    /// Returns no pages.
    pub const fn new() -> MixedPages {
        MixedPages {
            heads: [0; ROOM_LISTS + 1],
            open: 0,
            partial: 0,
            spare: 0,
            pages: 0,
            quarters: 0,
            live_units: 0,
        }
    }

    /// Returns the bytes of the pages, as far as they are in use.
    pub fn page_bytes(&self) -> u64 {
        self.quarters * QUARTER_BYTES
    }

    /// Returns the bytes that no live item has.
    pub fn free_bytes(&self) -> u64 {
        self.item_bytes() - self.live_units * UNIT_BYTES
    }

    /// Returns where an item of `bytes` can be put.
    ///
    /// # Errors
    /// NeedRoom when `terms` allow no page to be added and no compaction makes room.
    pub fn allocate(
        &mut self,
        arena: &Arena,
        owner: PageOwner,
        bytes: u64,
        terms: Terms,
    ) -> Result<Place, NeedRoom> {
        let memory = &*arena.memory;
        let units = bytes / UNIT_BYTES;
        if let Some(item) = self.take_spare(memory, units) {
            return Ok(Place::At(item));
        }
        if self.open != 0 && room_at_end(memory, State::load(memory, self.open), self.open) >= units
        {
            return Ok(Place::At(self.push(memory, self.open, bytes)));
        }
        if let Some(page) = self.page_with(memory, units.max(COMPACTED_UNITS_MIN), units, terms) {
            return Ok(self.place_on(memory, page, bytes));
        }
        let need = NeedRoom { bytes: bytes.max(NEED_BYTES_MIN), region: Region::Slab };
        let grown =
            if terms.may_grow { self.grow(arena, owner, bytes, terms.policy) } else { None };
        match grown.or_else(|| self.page_with(memory, units, units, terms)) {
            Some(page) => Ok(self.place_on(memory, page, bytes)),
            None => Err(need),
        }
    }

    /// Puts an item of `bytes` at the end of `page`, where there is room; returns it.
    pub fn push(&mut self, memory: &MappedRange, page: u64, bytes: u64) -> u64 {
        let units = bytes / UNIT_BYTES;
        let mut state = State::load(memory, page);
        assert!(units <= room_at_end(memory, state, page), "the end of the page has room");
        let item = page + LINE_BYTES + u64::from(state.used) * UNIT_BYTES;
        state.used += units as u16;
        state.in_use += 1;
        self.live_units += units;
        self.open = page;
        self.store(memory, page, state);
        item
    }

    /// Takes back an item of `bytes`. Where its page holds nothing any more and is none of these
    /// now, returns how many quarters of it were in use.
    pub fn free(&mut self, memory: &MappedRange, page: u64, item: u64, bytes: u64) -> Option<u8> {
        let units = bytes / UNIT_BYTES;
        let mut state = State::load(memory, page);
        memory.word(item).store(TYPE_FREE | units << 16, Ordering::Relaxed);
        self.live_units -= units;
        state.in_use -= 1;
        if state.in_use == 0 {
            self.remove(memory, page, state);
            return Some(quarters_of(memory, page));
        }
        let end = (item + bytes - page - LINE_BYTES) / UNIT_BYTES;
        if end == u64::from(state.used) {
            state.used -= units as u16;
        } else {
            state.dead += units as u16;
            self.spare = if usize::from(state.list) == LIST_ASIDE { 0 } else { item };
        }
        self.store(memory, page, state);
        None
    }

    /// Notes that the live items of `page`, which have `live_bytes`, now stand one behind the other
    /// from its start.
    pub fn compacted(&mut self, memory: &MappedRange, page: u64, live_bytes: u64) {
        self.forget_spare_of(page);
        let mut state = State::load(memory, page);
        assert_eq!(live_bytes / UNIT_BYTES, u64::from(state.used - state.dead), "all were met");
        state.used -= state.dead;
        state.dead = 0;
        self.store(memory, page, state);
    }

    /// Returns the live items of `page`, in their order.
    pub fn live_items(memory: &MappedRange, page: u64) -> Vec<u64> {
        let state = State::load(memory, page);
        let mut items = Vec::with_capacity(usize::from(state.in_use));
        let mut rest = MixedPages::items(memory, page);
        while let Some((item, _)) = MixedPages::next_live(memory, &mut rest) {
            items.push(item);
        }
        assert_eq!(items.len(), usize::from(state.in_use), "a walk meets every live item");
        items
    }

    /// Returns where the items of `page` lie, dead ones included.
    pub fn items(memory: &MappedRange, page: u64) -> Range<u64> {
        let first = page + LINE_BYTES;
        first..first + u64::from(State::load(memory, page).used) * UNIT_BYTES
    }

    /// Returns the first live one of `items` and its bytes, and leaves what is behind it. What is
    /// before that may change meanwhile.
    #[inline]
    pub fn next_live(memory: &MappedRange, items: &mut Range<u64>) -> Option<(u64, u64)> {
        while !items.is_empty() {
            let item = items.start;
            let word = memory.word(item).load(Ordering::Relaxed);
            if word & 0xF != TYPE_FREE {
                let bytes = class_bytes(class_of_entry(memory, item));
                items.start += bytes;
                return Some((item, bytes));
            }
            items.start += dead_units(word) * UNIT_BYTES;
        }
        None
    }

    /// Returns the page with the most room, if all of its items have a place on others and the room
    /// is at least `1 / share` of all.
    pub fn page_to_empty(&self, memory: &MappedRange, share: u64) -> Option<u64> {
        let free = self.free_bytes();
        if self.pages < 2
            || free < SPARE_BYTES_MIN
            || free.saturating_mul(share) < self.item_bytes()
        {
            return None;
        }
        let head = *self.heads[..ROOM_LISTS].iter().rev().find(|&&head| head != 0)?;
        let room = |&page: &u64| room_of(memory, State::load(memory, page), page);
        page_list::first_pages::<BY_ROOM>(memory, head).max_by_key(room)
    }

    /// Takes `page` out of the lists that new items come from, until it is empty or taken back.
    pub fn set_aside(&mut self, memory: &MappedRange, page: u64) {
        if self.open == page {
            self.open = 0;
        }
        self.forget_spare_of(page);
        self.relist(memory, page, State::load(memory, page), LIST_ASIDE);
    }

    /// Puts a page that was set aside and not emptied back.
    pub fn take_back(&mut self, memory: &MappedRange, page: u64) {
        let state = State::load(memory, page);
        self.relist(memory, page, state, right_list(memory, state, page));
    }

    /// Returns all pages, which are none of these any more, and how many quarters of each were in
    /// use.
    pub fn take_all(&mut self, memory: &MappedRange) -> Vec<(u64, u8)> {
        let pages = self.pages(memory).map(|page| (page, quarters_of(memory, page))).collect();
        *self = MixedPages::new();
        pages
    }

    /// Returns the pages.
    pub fn pages(&self, memory: &MappedRange) -> impl Iterator<Item = u64> {
        self.heads.iter().flat_map(move |&head| page_list::pages::<BY_ROOM>(memory, head))
    }

    /// Returns the bytes that items may have.
    fn item_bytes(&self) -> u64 {
        self.quarters * QUARTER_BYTES - self.pages * LINE_BYTES
    }

    /// Puts an item of `bytes` on `page`, or says that it has to be compacted first.
    fn place_on(&mut self, memory: &MappedRange, page: u64, bytes: u64) -> Place {
        let fits = room_at_end(memory, State::load(memory, page), page) >= bytes / UNIT_BYTES;
        match fits {
            true => Place::At(self.push(memory, page, bytes)),
            false => Place::OnCompacted(page),
        }
    }

    /// Returns a page with room for `room` units, one of those with the most, which has them at
    /// its end for an item of `units`, or may be compacted.
    fn page_with(&self, memory: &MappedRange, room: u64, units: u64, terms: Terms) -> Option<u64> {
        let lowest = (room / ROOM_STEP_UNITS) as usize;
        let serves = |page: &u64| {
            let state = State::load(memory, *page);
            let (in_use, found) = (u64::from(state.in_use), room_of(memory, state, *page));
            let gained = found * UNIT_BYTES * MOVES_PER_BYTE_MAX;
            let is_movable = in_use <= terms.moves_max.min(gained);
            found >= room && (is_movable || room_at_end(memory, state, *page) >= units)
        };
        let lists = self.heads[lowest..ROOM_LISTS].iter().rev();
        lists.copied().find_map(|head| page_list::first_pages::<BY_ROOM>(memory, head).find(serves))
    }

    /// Returns a page whose end has room for an item of `bytes`: the partial one with one more
    /// quarter, or a new one. `None` when no memory is to be had.
    fn grow(
        &mut self,
        arena: &Arena,
        owner: PageOwner,
        bytes: u64,
        policy: LimitPolicy,
    ) -> Option<u64> {
        if self.partial != 0 && self.extend(arena, policy) {
            return Some(self.open);
        }
        let memory = &*arena.memory;
        let needed = (LINE_BYTES + bytes).div_ceil(QUARTER_BYTES) as u8;
        let page = arena.pages().allocate(needed, policy).ok()?;
        owner.store(memory, page);
        set_quarters(memory, page, needed);
        self.pages += 1;
        self.quarters += u64::from(needed);
        self.partial = page;
        let mut state = State { list: 0, used: 0, dead: 0, in_use: 0 };
        let list = right_list(memory, state, page);
        state.list = list as u8;
        page_list::link::<BY_ROOM>(memory, &mut self.heads[list], page);
        state.store(memory, page);
        Some(page)
    }

    /// Opens the partial page with one more quarter, which any item fits; returns whether it could.
    fn extend(&mut self, arena: &Arena, policy: LimitPolicy) -> bool {
        let (memory, page) = (&*arena.memory, self.partial);
        let (state, quarters) = (State::load(memory, page), quarters_of(memory, page));
        let is_aside = usize::from(state.list) == LIST_ASIDE;
        if is_aside || arena.pages().extend(page, quarters, policy).is_err() {
            return false;
        }
        let quarters = quarters + 1;
        set_quarters(memory, page, quarters);
        self.quarters += 1;
        self.open = page;
        if quarters == QUARTERS {
            self.partial = 0;
        }
        self.store(memory, page, state);
        true
    }

    /// Returns the dead item that went last, if it has `units`: in use again.
    fn take_spare(&mut self, memory: &MappedRange, units: u64) -> Option<u64> {
        let item = self.spare;
        if item == 0 || dead_units(memory.word(item).load(Ordering::Relaxed)) != units {
            return None;
        }
        self.spare = 0;
        let page = page_of(item);
        let mut state = State::load(memory, page);
        state.dead -= units as u16;
        state.in_use += 1;
        self.live_units += units;
        self.store(memory, page, state);
        Some(item)
    }

    fn forget_spare_of(&mut self, page: u64) {
        if self.spare != 0 && page_of(self.spare) == page {
            self.spare = 0;
        }
    }

    fn remove(&mut self, memory: &MappedRange, page: u64, state: State) {
        self.forget_spare_of(page);
        page_list::unlink::<BY_ROOM>(memory, &mut self.heads[usize::from(state.list)], page);
        self.pages -= 1;
        self.quarters -= u64::from(quarters_of(memory, page));
        if self.partial == page {
            self.partial = 0;
        }
        if self.open == page {
            self.open = 0;
        }
    }

    /// Stores `state` and moves the page to the list it belongs in, unless it is set aside.
    fn store(&mut self, memory: &MappedRange, page: u64, state: State) {
        let list = right_list(memory, state, page);
        if list != usize::from(state.list) && usize::from(state.list) != LIST_ASIDE {
            return self.relist(memory, page, state, list);
        }
        state.store(memory, page);
    }

    /// Stores `state` and moves the page to `list`.
    fn relist(&mut self, memory: &MappedRange, page: u64, mut state: State, list: usize) {
        page_list::unlink::<BY_ROOM>(memory, &mut self.heads[usize::from(state.list)], page);
        state.list = list as u8;
        page_list::link::<BY_ROOM>(memory, &mut self.heads[list], page);
        state.store(memory, page);
    }
}

/// Returns the units of a dead item from its first word.
fn dead_units(word: u64) -> u64 {
    word >> 16 & 0xFFFF
}

const QUARTERS_AT: u64 = 16;
const QUARTERS_SHIFT: u32 = 32;

fn quarters_of(memory: &MappedRange, page: u64) -> u8 {
    (memory.word(page + QUARTERS_AT).load(Ordering::Relaxed) >> QUARTERS_SHIFT) as u8
}

fn set_quarters(memory: &MappedRange, page: u64, quarters: u8) {
    let word = memory.word(page + QUARTERS_AT);
    let owner = word.load(Ordering::Relaxed) & !(0xFF << QUARTERS_SHIFT);
    word.store(owner | u64::from(quarters) << QUARTERS_SHIFT, Ordering::Relaxed);
}

/// Returns the units behind the last item.
fn room_at_end(memory: &MappedRange, state: State, page: u64) -> u64 {
    let bytes = u64::from(quarters_of(memory, page)) * QUARTER_BYTES - LINE_BYTES;
    bytes / UNIT_BYTES - u64::from(state.used)
}

/// Returns the units that no live item has.
fn room_of(memory: &MappedRange, state: State, page: u64) -> u64 {
    room_at_end(memory, state, page) + u64::from(state.dead)
}

fn right_list(memory: &MappedRange, state: State, page: u64) -> usize {
    (room_of(memory, state, page) / ROOM_STEP_UNITS) as usize
}
