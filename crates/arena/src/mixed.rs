//! Mixed pages: items of every class side by side, in the pages of one table.
//!
//! A page for each class would cost a table with few entries 16 KiB for each class. Here items
//! follow each other, each as long as its class; a removed item leaves a hole, which a new one
//! takes that fits. A new item goes to the fullest page in which it fits, so that pages are nearly
//! full and their holes small. Where its room is scattered over the page the items between some of
//! its holes move together first. The first page of a table is committed (first written) 4 KiB at a
//! time. A class moves on to pages of its own once it fills several (`slab.rs`).
//!
//! Page header (first line of the page; only the writer reads it):
//! ```text
//! word 0: MIXED u8 | list u8 | used u16 | dead u16 | items in use u16    used, dead: units of 8 B
//! word 1: previous page u32 | next page u32
//! word 2: owner, and in bits 32..40 how many quarters may be written
//! words 3..8: holes (`holes.rs`)
//! ```
//! `used` counts the units up to the end of the last item. A hole has `TYPE_FREE` in its type
//! nibble and its units in bits 16..32 of its first word, a live item tells its class by its
//! lengths, so that a walk from the first item on finds each.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::Arena;
use crate::holes::{Hole, Holes, cheapest_run};
use crate::layout::{LINE_BYTES, TYPE_FREE};
use crate::mapped_range::{LimitPolicy, MappedRange, NeedRoom, Region};
use crate::page_list::{self, BY_ROOM};
use crate::page_pool::{PageOwner, QUARTER_BYTES, QUARTERS};
use crate::sequence;
use crate::size_class::{ITEM_ROOM, class_bytes, class_of_entry};
use crate::slab::page_of;

/// Stands for the class in the header of a mixed page.
pub(crate) const MIXED: u8 = u8::MAX;

const UNIT_BYTES: u64 = 8;
/// Pages are listed by their room, holes included: up to how many units in steps of how many.
/// Where little is left, fine steps tell the page that an item fills.
const ROOM_STEPS: [(u64, u64); 4] =
    [(16, 1), (128, 4), (512, 16), (ITEM_ROOM / UNIT_BYTES + 1, 128)];
const ROOM_LISTS: usize = list_of_room(ITEM_ROOM / UNIT_BYTES) + 1;
/// The list of pages that give no items: they are being emptied.
const LIST_ASIDE: usize = ROOM_LISTS;
const _: () = assert!(ROOM_LISTS < u128::BITS as usize, "a word has a bit for each list");
/// How many pages a search for a place looks at; so many of them in the list in which some have
/// too little room.
const LOOKED_AT_MAX: usize = 8;
const LOOKED_AT_FIRST_MAX: usize = 4;
/// A page is compacted for this much room, though memory could be had: a quarter of it, so that at
/// most three bytes move for one that is gained. Where there is no memory, for any room that does.
const COMPACTED_UNITS_MIN: u64 = QUARTER_BYTES / UNIT_BYTES;
/// Compaction moves at most so many entries for each byte that it gains: one that gets room for a
/// small entry moves some sixty, not the thousand that a page may hold.
const MOVES_PER_BYTE_MAX: u64 = 4;
/// The fewest units that an item has.
const ITEM_UNITS_MIN: u64 = 2;
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
    /// Whether an item of another entry may move to another page, so that there is room on one.
    pub may_relieve: bool,
    /// How many entries compaction may move.
    pub moves_max: u64,
}

/// Where an item is to be had.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Here: its content is undefined.
    At(u64),
    /// Among these items of a page, once they are compacted.
    OnCompacted(Range<u64>),
}

/// The mixed pages of one table.
pub(crate) struct MixedPages {
    heads: [u32; ROOM_LISTS + 1],
    /// A bit for each list that has pages.
    listed: u128,
    /// A page of which not all quarters are in use, the next to be extended; 0: none.
    partial: u64,
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
            listed: 0,
            partial: 0,
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
        let mut fullest = None;
        for page in self.pages_with_room(memory, units) {
            let state = State::load(memory, page);
            if let Some(item) = self.take_on(memory, page, state, units) {
                return Ok(Place::At(item));
            }
            fullest = fullest.or_else(|| compactable(memory, page, state, units, terms.moves_max));
        }
        if let Some(run) = self.run_with_much_room(memory, units, terms) {
            return Ok(Place::OnCompacted(run));
        }
        let grown =
            if terms.may_grow { self.grow(arena, owner, bytes, terms.policy) } else { None };
        if let Some(page) = grown {
            let item = self.take_on(memory, page, State::load(memory, page), units);
            return Ok(Place::At(item.expect("the end of the page has room")));
        }
        if let Some(run) = fullest {
            return Ok(Place::OnCompacted(run));
        }
        // No key is to go while there is a place behind the pages that were looked at.
        if let Some(page) = self.with_most_room(memory)
            && let Some(place) = self.place_if_any(memory, page, units, terms.moves_max)
        {
            return Ok(place);
        }
        Err(NeedRoom { bytes: bytes.max(NEED_BYTES_MIN), region: Region::Slab })
    }

    /// Returns an item of `bytes` in `run`, of which [`MixedPages::allocate`] said that it had to
    /// be compacted: now its live items stand one behind the other up to `live_end`.
    pub fn allocate_in(
        &mut self,
        memory: &MappedRange,
        run: Range<u64>,
        live_end: u64,
        bytes: u64,
    ) -> u64 {
        let page = page_of(run.start);
        let mut state = State::load(memory, page);
        let units_at = |offset: u64| ((offset - page - LINE_BYTES) / UNIT_BYTES) as u16;
        let (start, end) = (units_at(run.start), units_at(run.end));
        let hole = Hole { start: units_at(live_end), units: end - units_at(live_end) };
        let mut holes = Holes::load(memory, page);
        holes.take_between(start, end);
        if end == state.used {
            assert!(hole.units <= state.dead, "what is gained was free");
            state.used = hole.start;
            state.dead -= hole.units;
        } else {
            let whole = holes.add(hole);
            note_hole(memory, page, whole);
        }
        holes.store(memory, page);
        let item = self.take_on(memory, page, state, bytes / UNIT_BYTES);
        item.expect("compaction has made room")
    }

    /// Takes back an item of `bytes`. Where its page holds nothing any more and is none of these
    /// now, returns how many quarters of it were in use.
    pub fn free(&mut self, memory: &MappedRange, page: u64, item: u64, bytes: u64) -> Option<u8> {
        let units = (bytes / UNIT_BYTES) as u16;
        let mut state = State::load(memory, page);
        self.live_units -= u64::from(units);
        state.in_use -= 1;
        if state.in_use == 0 {
            self.remove(memory, page, state);
            return Some(quarters_of(memory, page));
        }
        let hole = Hole { start: ((item - page - LINE_BYTES) / UNIT_BYTES) as u16, units };
        if hole.end() == state.used {
            state.used = hole.start;
            if state.dead > 0 {
                let mut holes = Holes::load(memory, page);
                if let Some(before) = holes.take_before(hole.start) {
                    state.used = before.start;
                    state.dead -= before.units;
                    holes.store(memory, page);
                }
            }
        } else {
            state.dead += units;
            let mut holes = Holes::load(memory, page);
            let whole = holes.add(hole);
            note_hole(memory, page, whole);
            holes.store(memory, page);
        }
        self.store(memory, page, state);
        None
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
        self.with_most_room(memory)
    }

    /// Returns the page with the most room, if an item of `bytes` can be put there, with at most
    /// `moves_max` moves, once it has the room.
    pub fn page_to_relieve(&self, memory: &MappedRange, bytes: u64, moves_max: u64) -> Option<u64> {
        let page = self.with_most_room(memory)?;
        let in_use = u64::from(State::load(memory, page).in_use);
        // One alone would take the page with it.
        let can_be = (2..=moves_max.min(bytes * MOVES_PER_BYTE_MAX)).contains(&in_use);
        can_be.then_some(page)
    }

    /// Returns the item of `page`, which is set aside, that is to move to another page, so that an
    /// item of `bytes` has room on this one; `None` where no page has room for one that is enough.
    /// It is the smallest of those that leave the room in one piece, or where none does, of all.
    pub fn item_to_move(&self, memory: &MappedRange, page: u64, bytes: u64) -> Option<u64> {
        let state = State::load(memory, page);
        let lacking = bytes.saturating_sub(room_of(memory, state, page) * UNIT_BYTES);
        let elsewhere = self.with_most_room(memory)?;
        let room_elsewhere = room_of(memory, State::load(memory, elsewhere), elsewhere);
        if room_elsewhere * UNIT_BYTES < lacking {
            return None;
        }
        let fits = |&(_, item_bytes): &(u64, u64)| {
            (lacking..=room_elsewhere * UNIT_BYTES).contains(&item_bytes)
        };
        let mut rest = MixedPages::items(memory, page);
        let end = rest.end + room_at_end(memory, state, page) * UNIT_BYTES;
        let (mut free_from, mut best) = (rest.start, None);
        let mut current = MixedPages::next_live(memory, &mut rest);
        while let Some((item, item_bytes)) = current {
            let next = MixedPages::next_live(memory, &mut rest);
            let free_to = next.map_or(end, |(next, _)| next);
            let rank = (free_to - free_from < bytes, item_bytes);
            if current.as_ref().is_some_and(fits) && best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, item));
            }
            (free_from, current) = (item + item_bytes, next);
        }
        best.map(|(_, item)| item)
    }

    /// Returns where an item of `bytes` can be put on `page`, which [`MixedPages::page_to_relieve`]
    /// has named with at least as many moves, and which has room for it by now.
    pub fn place_on(
        &mut self,
        memory: &MappedRange,
        page: u64,
        bytes: u64,
        moves_max: u64,
    ) -> Place {
        let place = self.place_if_any(memory, page, bytes / UNIT_BYTES, moves_max);
        place.expect("the page has room and few items")
    }

    /// Returns where an item of `units` can be put on `page`, if it can with so many moves.
    fn place_if_any(
        &mut self,
        memory: &MappedRange,
        page: u64,
        units: u64,
        moves_max: u64,
    ) -> Option<Place> {
        let state = State::load(memory, page);
        match self.take_on(memory, page, state, units) {
            Some(item) => Some(Place::At(item)),
            None => compactable(memory, page, state, units, moves_max).map(Place::OnCompacted),
        }
    }

    /// Takes `page` out of the lists that new items come from, until it is empty or taken back.
    pub fn set_aside(&mut self, memory: &MappedRange, page: u64) {
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

    /// Takes an item of `units` on `page`, whose state `state` is: the tightest hole that it fits,
    /// or the end. `None` where no room in one piece has so many.
    fn take_on(
        &mut self,
        memory: &MappedRange,
        page: u64,
        mut state: State,
        units: u64,
    ) -> Option<u64> {
        let start = match take_hole(memory, page, state, units) {
            Some(start) => {
                state.dead -= units as u16;
                start
            }
            None if room_at_end(memory, state, page) >= units => {
                let start = state.used;
                state.used += units as u16;
                start
            }
            None => return None,
        };
        state.in_use += 1;
        self.live_units += units;
        self.store(memory, page, state);
        Some(page + LINE_BYTES + u64::from(start) * UNIT_BYTES)
    }

    /// Returns pages with room for `units`, the fullest first: as many as a search looks at. Some
    /// of the first may have a little less.
    fn pages_with_room(&self, memory: &MappedRange, units: u64) -> PagesLookedAt {
        let lowest = list_of_room(units);
        let mut pages = PagesLookedAt { pages: [0; LOOKED_AT_MAX], next: 0, count: 0 };
        let mut lists = self.listed_from(lowest);
        while lists != 0 {
            let list = lists.trailing_zeros() as usize;
            lists &= lists - 1;
            let most = if list == lowest { LOOKED_AT_FIRST_MAX } else { LOOKED_AT_MAX };
            for page in page_list::pages::<BY_ROOM>(memory, self.heads[list]).take(most) {
                pages.pages[pages.count] = page;
                pages.count += 1;
                if pages.count == LOOKED_AT_MAX {
                    return pages;
                }
            }
        }
        pages
    }

    /// Returns what has to be compacted of a page with so much room that it is worth while although
    /// memory may be had.
    fn run_with_much_room(
        &self,
        memory: &MappedRange,
        units: u64,
        terms: Terms,
    ) -> Option<Range<u64>> {
        if self.listed_from(list_of_room(units.max(COMPACTED_UNITS_MIN))) == 0 {
            return None;
        }
        let page = self.with_most_room(memory)?;
        compactable(memory, page, State::load(memory, page), units, terms.moves_max)
    }

    /// Returns the page with the most room, as far as a search looks.
    fn with_most_room(&self, memory: &MappedRange) -> Option<u64> {
        let most = self.listed_from(0).checked_ilog2()? as usize;
        let pages = page_list::first_pages::<BY_ROOM>(memory, self.heads[most]);
        pages.max_by_key(|&page| room_of(memory, State::load(memory, page), page))
    }

    /// Returns a bit for each list that has pages, from `lowest` on, but for those set aside.
    fn listed_from(&self, lowest: usize) -> u128 {
        self.listed & !(1 << LIST_ASIDE) & (u128::MAX << lowest)
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
        if self.partial != 0
            && let Some(page) = self.extend(arena, policy)
        {
            return Some(page);
        }
        let memory = &*arena.memory;
        let needed = (LINE_BYTES + bytes).div_ceil(QUARTER_BYTES) as u8;
        let page = arena.pages().allocate(needed, policy).ok()?;
        owner.store(memory, page);
        set_quarters(memory, page, needed);
        self.pages += 1;
        self.quarters += u64::from(needed);
        self.partial = page;
        Holes::none().store(memory, page);
        let mut state = State { list: 0, used: 0, dead: 0, in_use: 0 };
        let list = right_list(memory, state, page);
        state.list = list as u8;
        self.link(memory, page, list);
        state.store(memory, page);
        Some(page)
    }

    /// Gives the partial page one more quarter, which any item fits, and returns it, if it could.
    fn extend(&mut self, arena: &Arena, policy: LimitPolicy) -> Option<u64> {
        let (memory, page) = (&*arena.memory, self.partial);
        let (state, quarters) = (State::load(memory, page), quarters_of(memory, page));
        let is_aside = usize::from(state.list) == LIST_ASIDE;
        if is_aside || arena.pages().extend(page, quarters, policy).is_err() {
            return None;
        }
        let quarters = quarters + 1;
        set_quarters(memory, page, quarters);
        self.quarters += 1;
        if quarters == QUARTERS {
            self.partial = 0;
        }
        self.store(memory, page, state);
        Some(page)
    }

    fn remove(&mut self, memory: &MappedRange, page: u64, state: State) {
        self.unlink(memory, page, usize::from(state.list));
        self.pages -= 1;
        self.quarters -= u64::from(quarters_of(memory, page));
        if self.partial == page {
            self.partial = 0;
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
        self.unlink(memory, page, usize::from(state.list));
        state.list = list as u8;
        self.link(memory, page, list);
        state.store(memory, page);
    }

    fn link(&mut self, memory: &MappedRange, page: u64, list: usize) {
        page_list::link::<BY_ROOM>(memory, &mut self.heads[list], page);
        self.listed |= 1 << list;
    }

    fn unlink(&mut self, memory: &MappedRange, page: u64, list: usize) {
        page_list::unlink::<BY_ROOM>(memory, &mut self.heads[list], page);
        if self.heads[list] == 0 {
            self.listed &= !(1 << list);
        }
    }
}

/// The pages that a search looks at.
struct PagesLookedAt {
    pages: [u64; LOOKED_AT_MAX],
    next: usize,
    count: usize,
}

impl Iterator for PagesLookedAt {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let page = *self.pages[..self.count].get(self.next)?;
        self.next += 1;
        Some(page)
    }
}

/// Takes `units` of the tightest hole of `page` that has them; returns where they begin.
fn take_hole(memory: &MappedRange, page: u64, state: State, units: u64) -> Option<u16> {
    if u64::from(state.dead) < units {
        return None;
    }
    let mut holes = Holes::load(memory, page);
    let (start, rest) = holes.take(holes.tightest(units as u16)?, units as u16);
    if let Some(rest) = rest {
        note_hole(memory, page, rest);
    }
    holes.store(memory, page);
    Some(start)
}

/// Returns which items of `page` have to be moved together for an item of `units`, if it has so
/// much room and they are few enough.
fn compactable(
    memory: &MappedRange,
    page: u64,
    state: State,
    units: u64,
    moves_max: u64,
) -> Option<Range<u64>> {
    if room_of(memory, state, page) < units {
        return None;
    }
    let holes = Holes::load(memory, page);
    let end = state.used + room_at_end(memory, state, page) as u16;
    let run = cheapest_run(&holes, state.used, end, units as u16);
    // Where that lies in holes that are not recorded, all items are moved.
    let run = run.unwrap_or(Hole { start: 0, units: state.used });
    let moved = u64::from(state.in_use).min(u64::from(run.units) / ITEM_UNITS_MIN);
    let gained = units * UNIT_BYTES * MOVES_PER_BYTE_MAX;
    let offset = |units: u16| page + LINE_BYTES + u64::from(units) * UNIT_BYTES;
    let items = offset(run.start)..offset(run.end().min(state.used));
    (moved <= moves_max.min(gained)).then_some(items)
}

/// Writes down that `hole` of `page` is one, for whoever walks over the page.
fn note_hole(memory: &MappedRange, page: u64, hole: Hole) {
    // It may be in the middle of an item that another thread has unlinked and a late reader copies.
    sequence::before_reuse::<AtomicU64>();
    let at = page + LINE_BYTES + u64::from(hole.start) * UNIT_BYTES;
    memory.word(at).store(TYPE_FREE | u64::from(hole.units) << 16, Ordering::Relaxed);
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
    list_of_room(room_of(memory, state, page))
}

/// Returns the list of the pages with so many units of room.
const fn list_of_room(units: u64) -> usize {
    let (mut lists, mut begin, mut step) = (0, 0, 0);
    while units >= ROOM_STEPS[step].0 {
        lists += (ROOM_STEPS[step].0 - begin) / ROOM_STEPS[step].1;
        begin = ROOM_STEPS[step].0;
        step += 1;
    }
    (lists + (units - begin) / ROOM_STEPS[step].1) as usize
}
