//! The slab region's pages, and how a segment of them is emptied so that extents can have it.
//!
//! The lowest free page is handed out first, so that the upper segments empty by themselves. Memory
//! leaves the region in whole segments only: a sealed segment cannot be punched. When extents need
//! memory that slab pages hold, one segment is *drained*: it hands out no page, and the thread that
//! needs memory empties its pages one by one, each under the lock of its owner's shard.
//!
//! A page is committed (first written) by quarters of 4 KiB, the system's page size: a page whose
//! owner has few entries takes no more memory than they need ([`PagePool::extend`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::PAGE_BYTES;
use crate::mapped_range::{LimitPolicy, MappedRange, NeedRoom, Region};

/// What a page is touched by: a fourth of it, one page of the system.
pub(crate) const QUARTER_BYTES: u64 = PAGE_BYTES / QUARTERS as u64;
/// The quarters of a page.
pub(crate) const QUARTERS: u8 = 4;

/// Whose a page is: word 2 of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOwner {
    pub shard: u16,
    /// Which of the shard's tables, as [`crate::Table::identity`] tells.
    pub table: u8,
}

impl PageOwner {
    const WORD_AT: u64 = 16;
    /// Tells shard 0, table 0 from nobody.
    const PRESENT: u64 = 1;

    /// Returns the owner of `page`, as it was at some moment since the page was last handed out.
    pub(crate) fn of(memory: &MappedRange, page: u64) -> Option<PageOwner> {
        let word = memory.word(page + PageOwner::WORD_AT).load(Ordering::Relaxed);
        let owner = PageOwner { shard: (word >> 16) as u16, table: (word >> 8) as u8 };
        (word & PageOwner::PRESENT != 0).then_some(owner)
    }

    /// Writes the owner of a page just handed out.
    pub(crate) fn store(self, memory: &MappedRange, page: u64) {
        let word = u64::from(self.shard) << 16 | u64::from(self.table) << 8 | PageOwner::PRESENT;
        memory.word(page + PageOwner::WORD_AT).store(word, Ordering::Relaxed);
    }

    /// Takes the owner off a page before the page returns to the pool. The next owner takes the
    /// pool's lock too, so that no thread sees the page as still owned.
    pub(crate) fn clear(memory: &MappedRange, page: u64) {
        memory.word(page + PageOwner::WORD_AT).store(0, Ordering::Relaxed);
    }
}

/// A page of the segment that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainStep {
    pub page: u64,
    /// Whose it seemed to be.
    pub owner: PageOwner,
}

/// Hands out pages.
pub(crate) struct PagePool {
    memory: Arc<MappedRange>,
    base: u64,
    region_end: u64,
    /// The segments from `base` on that were ever committed.
    segments: Vec<Segment>,
    /// Every segment before it is without a free page that was touched.
    free_from: usize,
    draining: Option<Drain>,
    /// The quarters in use.
    used_quarters: u64,
    /// Committed segments without a page in use.
    empty_segments: usize,
}

/// One segment's pages.
struct Segment {
    is_committed: bool,
    /// A bit for each page in use.
    used: Box<[u64]>,
    used_pages: u32,
    /// The pages before it were touched, at least their first quarters.
    touched_pages: u32,
    /// The quarters of each page that were touched, less one: two bits for each.
    quarters: Box<[u64]>,
    touched_quarters: u64,
    /// The touched quarters of the pages in use, which nobody else can have.
    taken_quarters: u64,
}

/// The segment that is being emptied.
#[derive(Clone, Copy)]
struct Drain {
    segment: usize,
    /// The next page to look at.
    next: u32,
}

impl PagePool {
    /// Returns an empty pool over `base..region_end`.
    pub fn new(memory: Arc<MappedRange>, base: u64, region_end: u64) -> PagePool {
        PagePool {
            memory,
            base,
            region_end,
            segments: Vec::new(),
            free_from: 0,
            draining: None,
            used_quarters: 0,
            empty_segments: 0,
        }
    }

    /// Returns the bytes of the pages in use, as far as their owners have them.
    pub fn used_bytes(&self) -> u64 {
        self.used_quarters * QUARTER_BYTES
    }

    /// Returns the bytes of the lists of segments.
    pub fn private_bytes(&self) -> u64 {
        let words = (self.segments.capacity() * size_of::<Segment>()) as u64;
        let bits = |it: &Segment| size_of_val(&*it.used) + size_of_val(&*it.quarters);
        words + self.segments.first().map_or(0, bits) as u64 * self.segments.len() as u64
    }

    /// Returns a page with undefined content, the first `quarters` of which may be written: the
    /// lowest touched before, or a fresh one.
    ///
    /// # Errors
    /// NeedRoom when the limit, the region or the system has no more.
    pub fn allocate(&mut self, quarters: u8, policy: LimitPolicy) -> Result<u64, NeedRoom> {
        debug_assert!((1..=QUARTERS).contains(&quarters), "{quarters} quarters of a page");
        self.admit(quarters, policy)?;
        let (segment, index) = match self.touched_page(quarters, policy) {
            Some(found) => found,
            None => self.fresh_page(quarters, policy)?,
        };
        if self.segments[segment].used_pages == 0 {
            self.empty_segments -= 1;
        }
        self.segments[segment].take(index);
        self.used_quarters += u64::from(quarters);
        Ok(self.offset(segment) + u64::from(index) * PAGE_BYTES)
    }

    /// Lets one more quarter than `quarters` of `page`, which is in use, be written.
    ///
    /// # Errors
    /// NeedRoom when the limit has no more.
    pub fn extend(&mut self, page: u64, quarters: u8, policy: LimitPolicy) -> Result<(), NeedRoom> {
        self.admit(1, policy)?;
        let (segment, index) = self.place_of(page);
        if self.segments[segment].quarters_of(index) == quarters {
            self.memory.touch(QUARTER_BYTES, Region::Slab, policy)?;
            self.segments[segment].touch(index, 1);
            self.segments[segment].taken_quarters += 1;
        }
        self.used_quarters += 1;
        Ok(())
    }

    /// Takes back a page of which `quarters` were in use.
    pub fn free(&mut self, page: u64, quarters: u8) {
        debug_assert_eq!(page % PAGE_BYTES, 0, "a page is aligned");
        let (segment, index) = self.place_of(page);
        self.segments[segment].put(index);
        if self.segments[segment].used_pages == 0 {
            self.empty_segments += 1;
        }
        self.free_from = self.free_from.min(segment);
        self.used_quarters -= u64::from(quarters);
    }

    /// Gives the memory of segments without a page in use back to the system; returns the bytes.
    pub fn retire_free_segments(&mut self) -> u64 {
        let mut bytes = 0;
        // Every thread that lacks memory calls this first, mostly in vain.
        if self.empty_segments == 0 {
            return bytes;
        }
        self.empty_segments = 0;
        for index in 0..self.segments.len() {
            let segment = &mut self.segments[index];
            if !segment.is_committed || segment.used_pages != 0 {
                continue;
            }
            let touched = segment.touched_quarters * QUARTER_BYTES;
            (segment.is_committed, segment.touched_pages) = (false, 0);
            segment.touched_quarters = 0;
            self.memory.retire(self.offset(index), touched);
            bytes += touched;
            if self.draining.is_some_and(|drain| drain.segment == index) {
                self.draining = None;
            }
        }
        bytes
    }

    /// Returns whether `page` is `owner`'s. Where the caller holds the owner's shard, it stays so:
    /// nobody else frees it. Its header is read only once it is known to be in use: the memory of a
    /// segment that was given back cannot be read.
    pub fn is_owned_by(&self, page: u64, owner: PageOwner) -> bool {
        let (segment, index) = self.place_of(page);
        let is_used = self.segments[segment].is_committed && self.segments[segment].is_used(index);
        is_used && PageOwner::of(&self.memory, page) == Some(owner)
    }

    /// Returns the touched bytes of pages that are not in use.
    pub fn free_bytes(&self) -> u64 {
        let free = |it: &Segment| it.touched_quarters - it.taken_quarters;
        self.segments.iter().map(free).sum::<u64>() * QUARTER_BYTES
    }

    /// Chooses the segment with the fewest pages in use to be drained. Returns whether free pages
    /// elsewhere suffice for all of its pages; `None` when there is no segment.
    pub fn begin_drain(&mut self) -> Option<bool> {
        let committed = self.segments.iter().enumerate().filter(|it| it.1.is_committed);
        let (segment, emptiest) = committed.min_by_key(|it| it.1.used_pages)?;
        self.draining = Some(Drain { segment, next: 0 });
        let own_free = (emptiest.touched_quarters - emptiest.taken_quarters) * QUARTER_BYTES;
        Some(self.free_bytes() - own_free >= emptiest.taken_quarters * QUARTER_BYTES)
    }

    /// Returns the next page to empty of the segment that is being drained; `None` when all of its
    /// pages have been returned.
    pub fn plan_drain(&mut self) -> Option<DrainStep> {
        let drain = self.draining.as_mut()?;
        let segment = &self.segments[drain.segment];
        let start = self.base + drain.segment as u64 * self.memory.segment_bytes();
        while drain.next < segment.touched_pages {
            let index = drain.next;
            drain.next += 1;
            let page = start + u64::from(index) * PAGE_BYTES;
            if segment.is_used(index)
                && let Some(owner) = PageOwner::of(&self.memory, page)
            {
                return Some(DrainStep { page, owner });
            }
        }
        None
    }

    /// Ends the drain, whether the segment is empty or not: its free pages are handed out again.
    pub fn end_drain(&mut self) {
        if let Some(drain) = self.draining.take() {
            self.free_from = self.free_from.min(drain.segment);
        }
    }

    /// Refuses `quarters` more in use where the limit has no room for them, whether they were
    /// touched or not.
    fn admit(&self, quarters: u8, policy: LimitPolicy) -> Result<(), NeedRoom> {
        let bytes = u64::from(quarters) * QUARTER_BYTES;
        match policy == LimitPolicy::Limited && self.memory.would_pass_limit(bytes) {
            true => Err(NeedRoom { bytes, region: Region::Slab }),
            false => Ok(()),
        }
    }

    fn offset(&self, segment: usize) -> u64 {
        self.base + segment as u64 * self.memory.segment_bytes()
    }

    fn is_draining(&self, segment: usize) -> bool {
        self.draining.is_some_and(|drain| drain.segment == segment)
    }

    /// Returns the segment of `page` and its number there.
    fn place_of(&self, page: u64) -> (usize, u32) {
        let segment = ((page - self.base) / self.memory.segment_bytes()) as usize;
        (segment, ((page - self.offset(segment)) / PAGE_BYTES) as u32)
    }

    /// Returns the lowest free page that was touched, with at least `quarters` of it touched. What
    /// it lacks is touched where there is room; where there is none, a later page may have all.
    fn touched_page(&mut self, quarters: u8, policy: LimitPolicy) -> Option<(usize, u32)> {
        let (segment, page) = self.lowest_free_page()?;
        let lacking = quarters.saturating_sub(self.segments[segment].quarters_of(page));
        if lacking == 0 {
            return Some((segment, page));
        }
        let bytes = u64::from(lacking) * QUARTER_BYTES;
        if self.memory.touch(bytes, Region::Slab, policy).is_ok() {
            self.segments[segment].touch(page, lacking);
            return Some((segment, page));
        }
        // Most segments of a full arena have nothing free: they are passed by their counts.
        let has_free = |it: &Segment| it.touched_quarters - it.taken_quarters >= quarters.into();
        let others = (segment..self.segments.len())
            .filter(|&index| !self.is_draining(index) && has_free(&self.segments[index]));
        others.into_iter().find_map(|index| {
            self.segments[index].free_page_with(quarters).map(|page| (index, page))
        })
    }

    fn lowest_free_page(&mut self) -> Option<(usize, u32)> {
        let mut is_first = true;
        for index in self.free_from..self.segments.len() {
            if let Some(page) = self.segments[index].free_page() {
                if !self.is_draining(index) {
                    return Some((index, page));
                }
                // It has free pages, though not for now.
                is_first = false;
            }
            if is_first {
                self.free_from = index + 1;
            }
        }
        None
    }

    /// Returns a page that was never touched, of the lowest segment that has one.
    fn fresh_page(&mut self, quarters: u8, policy: LimitPolicy) -> Result<(usize, u32), NeedRoom> {
        let bytes = u64::from(quarters) * QUARTER_BYTES;
        self.memory.touch(bytes, Region::Slab, policy)?;
        let pages = (self.memory.segment_bytes() / PAGE_BYTES) as u32;
        let has_fresh = |it: &Segment| it.is_committed && it.touched_pages < pages;
        let lowest = (0..self.segments.len())
            .find(|&index| has_fresh(&self.segments[index]) && !self.is_draining(index));
        let index = match lowest {
            Some(index) => index,
            None => self.open_segment().inspect_err(|_| self.memory.untouch(bytes))?,
        };
        Ok((index, self.segments[index].touch_next(quarters)))
    }

    /// Commits the lowest segment that is not.
    fn open_segment(&mut self) -> Result<usize, NeedRoom> {
        let lowest = self.segments.iter().position(|segment| !segment.is_committed);
        let index = lowest.unwrap_or(self.segments.len());
        let offset = self.offset(index);
        if offset + self.memory.segment_bytes() > self.region_end {
            return Err(NeedRoom { bytes: PAGE_BYTES, region: Region::Slab });
        }
        self.memory.commit(offset, Region::Slab)?;
        if index == self.segments.len() {
            self.segments.push(Segment::new(self.memory.segment_bytes() / PAGE_BYTES));
        }
        self.segments[index].is_committed = true;
        self.empty_segments += 1;
        Ok(index)
    }
}

impl Segment {
    fn new(pages: u64) -> Segment {
        Segment {
            is_committed: false,
            used: vec![0; pages.div_ceil(64) as usize].into(),
            used_pages: 0,
            touched_pages: 0,
            quarters: vec![0; pages.div_ceil(32) as usize].into(),
            touched_quarters: 0,
            taken_quarters: 0,
        }
    }

    /// Returns how many quarters of `page`, which was touched, were.
    fn quarters_of(&self, page: u32) -> u8 {
        debug_assert!(page < self.touched_pages, "page {page} was touched");
        (self.quarters[page as usize / 32] >> (page % 32 * 2) & 3) as u8 + 1
    }

    /// Counts `quarters` more of `page` as touched.
    fn touch(&mut self, page: u32, quarters: u8) {
        assert!(self.quarters_of(page) + quarters <= QUARTERS, "a page has four quarters");
        self.quarters[page as usize / 32] += u64::from(quarters) << (page % 32 * 2);
        self.touched_quarters += u64::from(quarters);
    }

    /// Counts `quarters` of the first page that was never touched, and returns it.
    fn touch_next(&mut self, quarters: u8) -> u32 {
        let page = self.touched_pages;
        self.touched_pages += 1;
        let word = &mut self.quarters[page as usize / 32];
        let shift = page % 32 * 2;
        *word = *word & !(3 << shift) | u64::from(quarters - 1) << shift;
        self.touched_quarters += u64::from(quarters);
        page
    }

    /// Returns a free page of which at least `quarters` were touched.
    fn free_page_with(&self, quarters: u8) -> Option<u32> {
        let words = (0..self.touched_pages).step_by(64);
        let mut free = words.filter(|&first| self.used[first as usize / 64] != u64::MAX);
        free.find_map(|first| {
            let mut pages = first..(first + 64).min(self.touched_pages);
            pages.find(|&page| !self.is_used(page) && self.quarters_of(page) >= quarters)
        })
    }

    fn is_used(&self, page: u32) -> bool {
        self.used[page as usize / 64] >> (page % 64) & 1 != 0
    }

    /// Returns the lowest page that was touched and is not in use.
    fn free_page(&self) -> Option<u32> {
        if self.used_pages == self.touched_pages {
            return None;
        }
        let words = self.used.iter().enumerate();
        let (word, used) = words.clone().find(|(_, used)| **used != u64::MAX)?;
        let page = word as u32 * 64 + (!used).trailing_zeros();
        (page < self.touched_pages).then_some(page)
    }

    fn take(&mut self, page: u32) {
        debug_assert!(!self.is_used(page), "a page is handed out once");
        self.used[page as usize / 64] |= 1 << (page % 64);
        self.used_pages += 1;
        self.taken_quarters += u64::from(self.quarters_of(page));
    }

    fn put(&mut self, page: u32) {
        debug_assert!(self.is_used(page), "a page comes back once");
        self.used[page as usize / 64] &= !(1 << (page % 64));
        self.used_pages -= 1;
        self.taken_quarters -= u64::from(self.quarters_of(page));
    }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;
    use crate::arena::{Arena, ArenaConfig};
    use crate::segment_source::HeapSource;

    fn arena() -> Arc<Arena> {
        let source = Box::new(HeapSource::new(1 << 16, 64));
        let config =
            ArenaConfig { shard_count: 1, database_count: 1, hash_keys: base::HashKeys::fixed(7) };
        Arena::new(source, config).expect("the range is large enough")
    }

    #[test]
    fn touched_quarters_agree_with_a_model() {
        let arena = arena();
        let base = arena.usage().touched_bytes;
        let limit = 40 * QUARTER_BYTES;
        arena.set_limit(base + limit + arena.usage().private_bytes + 4096);
        let mut random = Prng::new(3);
        let mut used: Vec<(u64, u8)> = Vec::new();
        let (mut refused, mut partial) = (0, 0);
        for _ in 0..20_000 {
            let policy = if random.one_in(8) { LimitPolicy::Warm } else { LimitPolicy::Limited };
            match random.below(8) {
                0..=2 => {
                    let wanted = 1 + random.below(4) as u8;
                    match arena.pages().allocate(wanted, policy) {
                        Ok(page) => {
                            assert!(used.iter().all(|&(offset, _)| offset != page));
                            partial += u64::from(wanted < QUARTERS);
                            used.push((page, wanted));
                        }
                        Err(_) => refused += 1,
                    }
                }
                3..=4 if !used.is_empty() => {
                    let index = random.below(used.len() as u64) as usize;
                    let (page, quarters) = used[index];
                    let touched = arena.usage().touched_bytes;
                    if quarters < QUARTERS && arena.pages().extend(page, quarters, policy).is_ok() {
                        let is_warm = arena.usage().touched_bytes == touched;
                        assert!(
                            policy != LimitPolicy::Warm || is_warm,
                            "warm memory is touched already"
                        );
                        used[index].1 += 1;
                    }
                }
                5..=6 if !used.is_empty() => {
                    let index = random.below(used.len() as u64) as usize;
                    let (page, quarters) = used.swap_remove(index);
                    arena.pages().free(page, quarters);
                }
                7 => drop(arena.give_back(1)),
                _ => {}
            }
            let quarters: u64 = used.iter().map(|&(_, quarters)| u64::from(quarters)).sum();
            let usage = arena.usage();
            assert_eq!(usage.slab_bytes, quarters * QUARTER_BYTES);
            let touched = usage.touched_bytes - base;
            assert!(touched >= usage.slab_bytes + arena.slab_free_bytes());
            assert!(touched <= limit + 4096, "the limit holds");
        }
        assert!(refused > 100 && partial > 100, "{refused} refused, {partial} partial");
        used.drain(..).for_each(|(page, quarters)| arena.pages().free(page, quarters));
        assert_eq!(arena.usage().touched_bytes - base, arena.slab_free_bytes());
        arena.give_back(u64::MAX);
        assert_eq!(arena.usage().touched_bytes, base, "all of it is given back");
    }

    #[test]
    fn touched_pages_are_not_used_above_the_limit_unless_it_is_far_below() {
        let arena = arena();
        let take = |policy| arena.pages().allocate(QUARTERS, policy);
        let pages = [(); 40].map(|()| take(LimitPolicy::Limited).expect("there is no limit"));
        pages.iter().for_each(|page| arena.pages().free(*page, QUARTERS));
        let usage = arena.usage();
        let limit_of =
            |pages: u64| usage.used_bytes() + usage.private_bytes + pages * PAGE_BYTES + 1;
        arena.set_limit(limit_of(2));
        assert!(take(LimitPolicy::Limited).is_ok());
        assert!(take(LimitPolicy::Limited).is_ok());
        let need = NeedRoom { bytes: PAGE_BYTES, region: Region::Slab };
        assert_eq!(take(LimitPolicy::Limited), Err(need));
        let last = take(LimitPolicy::Warm).expect("it was touched");
        assert!(take(LimitPolicy::Overshoot).is_ok());
        arena.pages().free(last, QUARTERS);
        assert_eq!(take(LimitPolicy::Limited), Err(need));
        for _ in 0..20 {
            take(LimitPolicy::Warm).expect("it was touched");
        }
        assert!(take(LimitPolicy::Limited).is_ok(), "keys go for what is above the limit");
    }
}
