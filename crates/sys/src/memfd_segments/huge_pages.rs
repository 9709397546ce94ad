//! Huge pages: 2 MiB of a segment that are there to the last small page are put on one huge page.
//!
//! A huge page that came with the first byte would take 2 MiB for it, and the small pages that are
//! counted would not be what is taken. So a segment has small pages first, whatever the system's
//! setting is, and each 2 MiB of it are collapsed, the kernel's word, once all of their small pages
//! are there: the memory in use is the same before and after, and no page is given or taken. The
//! mappings of other processes follow at their next access.
//!
//! The kernel says what is there (mincore(2)), so that nobody keeps books for it. Retired segments
//! give their huge pages back as a whole, as they do small ones.
//!
//! *Not here*: when to look, and whether anybody wants huge pages.

use std::fs;
use std::ops::AddAssign;
use std::ptr::NonNull;

use super::{OwnedSegments, Reservation, Segment};

/// The size of a huge page. Where the system's is another one, it is not used.
pub const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The size of a small page where a huge one has [`HUGE_PAGE_BYTES`]: 512 entries of a page table.
const SMALL_PAGE_BYTES: usize = 4096;

/// How many huge pages one call of the kernel makes at most. It waits once for each call until all
/// processors have put the pages that they are about to list on their lists.
const RUN_MAX: usize = 16;
/// How often the kernel is asked again where a page was in use at that moment.
const ATTEMPTS_MAX: u32 = 4;

/// Since Linux 6.1; libc names it for some systems only.
const MADV_COLLAPSE: libc::c_int = 25;

/// What the system does about huge pages in memory of memfds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemSetting {
    /// The kernel has none of [`HUGE_PAGE_BYTES`], or cannot collapse memory: that takes Linux 6.1.
    Missing,
    /// Whoever started this process has turned them off for it.
    Disabled,
    /// `deny`: no memfd has any.
    Denied,
    /// `never`, the default: none come by themselves. The kernel collapses what it is told to all
    /// the same.
    Never,
    /// `advise`, `within_size`, `always` or `force`: they come at least where they are asked for.
    Allowed,
}

/// The folder of the system's settings.
const SETTINGS: &str = "/sys/kernel/mm/transparent_hugepage";

impl SystemSetting {
    /// Reads what holds for this process now.
    pub fn read() -> SystemSetting {
        let read = |name: &str| fs::read_to_string(format!("{SETTINGS}/{name}")).ok();
        let size = read("hpage_pmd_size").and_then(|text| text.trim().parse::<usize>().ok());
        if size != Some(HUGE_PAGE_BYTES) || !knows_collapse() {
            return SystemSetting::Missing;
        }
        if is_disabled_here() {
            return SystemSetting::Disabled;
        }
        let of_size = read("hugepages-2048kB/shmem_enabled");
        SystemSetting::of(read("shmem_enabled").as_deref(), of_size.as_deref())
    }

    /// Returns what the texts of `shmem_enabled` mean: the one for all sizes, and that of the huge
    /// page's size, which newer kernels have.
    fn of(all: Option<&str>, of_size: Option<&str>) -> SystemSetting {
        let chosen = |text: &str| {
            let (_, rest) = text.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        };
        let (all, of_size) = (all.and_then(chosen), of_size.and_then(chosen));
        let word = match (all.as_deref(), of_size.as_deref()) {
            (Some("deny"), _) => return SystemSetting::Denied,
            (Some("force"), _) => return SystemSetting::Allowed,
            (all, Some("inherit") | None) => all,
            (_, of_size) => of_size,
        };
        match word {
            Some("advise" | "within_size" | "always") => SystemSetting::Allowed,
            Some("never") => SystemSetting::Never,
            _ => SystemSetting::Missing,
        }
    }
}

/// What one 2 MiB of a segment lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageState {
    /// Small pages, some of which may not be there yet.
    Small,
    /// Small pages: the system had no huge one when it was asked.
    Refused,
    /// A huge page.
    Huge,
}

impl PageState {
    /// Returns the states of a new segment.
    pub fn of_new(segment_bytes: usize) -> Box<[PageState]> {
        vec![PageState::Small; segment_bytes / HUGE_PAGE_BYTES].into()
    }
}

/// Where the next look for full memory begins; the default is the start, and so is the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CollapseCursor {
    segment: u32,
}

/// What a look came to, in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collapsed {
    /// How many were made.
    pub made: u64,
    /// How many the system did not give.
    pub refused: u64,
    /// How many are not full yet.
    pub partial: u64,
}

impl AddAssign for Collapsed {
    fn add_assign(&mut self, other: Collapsed) {
        self.made += other.made;
        self.refused += other.refused;
        self.partial += other.partial;
    }
}

/// Huge pages of one segment that may be to make.
struct Candidates {
    index: u32,
    serial: Option<u64>,
    pages: Vec<usize>,
}

impl OwnedSegments {
    /// Returns how many bytes of segments of this process's own lie on huge pages.
    pub fn huge_bytes(&self) -> u64 {
        let is_huge = |state: &&PageState| **state == PageState::Huge;
        let count = |segment: &Segment| segment.pages.iter().filter(is_huge).count() as u64;
        self.lock().segments.values().map(count).sum::<u64>() * HUGE_PAGE_BYTES as u64
    }

    /// Puts memory of which all small pages are there on huge pages; looks at `pages_max` of 2 MiB
    /// or some more, from `cursor` on, those among them that the system has refused before only
    /// where `tries_refused`. Takes its time, some milliseconds for each page. Other threads run on
    /// meanwhile: one that uses the very page waits while it is copied.
    pub fn collapse_full(
        &self,
        cursor: &mut CollapseCursor,
        pages_max: usize,
        tries_refused: bool,
    ) -> Collapsed {
        let mut collapsed = Collapsed::default();
        for candidates in self.candidates(cursor, pages_max, tries_refused) {
            let is_full = |&&page: &&usize| is_resident(self.huge_page(candidates.index, page));
            let full: Vec<usize> = candidates.pages.iter().filter(is_full).copied().collect();
            collapsed.partial += (candidates.pages.len() - full.len()) as u64;
            for run in full.chunk_by(|one, next| one + 1 == *next) {
                for run in run.chunks(RUN_MAX) {
                    // Collapsing takes milliseconds, and memory that was made anew at this place
                    // since the look would be filled with pages that nobody has asked for.
                    if self.is_there(&candidates) && run.iter().all(|page| is_full(&page)) {
                        self.collapse_run(&candidates, run, &mut collapsed);
                    }
                }
            }
        }
        collapsed
    }

    /// Returns what may be to collapse, and moves `cursor` behind it.
    fn candidates(
        &self,
        cursor: &mut CollapseCursor,
        pages_max: usize,
        tries_refused: bool,
    ) -> Vec<Candidates> {
        let mut left = pages_max;
        let mut found = Vec::new();
        let made = self.lock();
        for (&index, segment) in made.segments.range(cursor.segment..) {
            if left == 0 {
                cursor.segment = index;
                return found;
            }
            let is_wanted = |state: PageState| match state {
                PageState::Small => true,
                PageState::Refused => tries_refused,
                PageState::Huge => false,
            };
            let wanted = segment.pages.iter().enumerate().filter(|(_, state)| is_wanted(**state));
            let pages: Vec<usize> = wanted.map(|(page, _)| page).collect();
            if !pages.is_empty() {
                left = left.saturating_sub(pages.len());
                found.push(Candidates { index, serial: segment.serial, pages });
            }
        }
        cursor.segment = 0;
        found
    }

    /// Returns whether the segment is still the one that was looked at.
    fn is_there(&self, candidates: &Candidates) -> bool {
        let made = self.lock();
        made.segments.get(&candidates.index).is_some_and(|it| it.serial == candidates.serial)
    }

    /// Collapses `run`, pages in a row that are there, together, or each for itself where that
    /// fails: the kernel does not say which was refused.
    fn collapse_run(&self, candidates: &Candidates, run: &[usize], collapsed: &mut Collapsed) {
        let index = candidates.index;
        let bytes = run.len() * HUGE_PAGE_BYTES;
        let is_made = run.len() > 1 && collapse(self.huge_page(index, run[0]), bytes);
        for &page in run {
            let is_made = is_made || collapse(self.huge_page(index, page), HUGE_PAGE_BYTES);
            collapsed.made += u64::from(is_made);
            collapsed.refused += u64::from(!is_made);
            let state = if is_made { PageState::Huge } else { PageState::Refused };
            let mut made = self.lock();
            // Memory that was made anew at this place meanwhile is not what was collapsed.
            let segment = made.segments.get_mut(&index);
            if let Some(segment) = segment.filter(|it| it.serial == candidates.serial) {
                segment.pages[page] = state;
            }
        }
    }

    /// Returns the address of a huge page of segment `index`.
    fn huge_page(&self, index: u32, page: usize) -> NonNull<u8> {
        assert!((page + 1) * HUGE_PAGE_BYTES <= self.range.segment_bytes, "page {page}");
        // SAFETY: by the assertion the page lies inside the segment, which lies inside the one
        // mapping of the range.
        unsafe { self.range.address(index).add(page * HUGE_PAGE_BYTES) }
    }
}

/// Has segment `index` of `range`, just mapped, get small pages when it is touched, also where the
/// system would give huge ones to everybody.
pub(super) fn keep_small(range: &Reservation, index: u32) {
    // A kernel without huge pages does not know the advice, and needs none.
    let _ = advise(range.address(index), range.segment_bytes, libc::MADV_NOHUGEPAGE);
}

/// Returns whether all small pages of the huge page at `address` are there.
fn is_resident(address: NonNull<u8>) -> bool {
    let mut is_there = [0_u8; HUGE_PAGE_BYTES / SMALL_PAGE_BYTES];
    // SAFETY: the addresses are of a range that is reserved for as long as its owner lives, who
    // calls; the kernel writes one byte for each page of them, for which the array has room.
    let code =
        unsafe { libc::mincore(address.as_ptr().cast(), HUGE_PAGE_BYTES, is_there.as_mut_ptr()) };
    code == 0 && is_there.iter().all(|byte| byte & 1 == 1)
}

/// Puts `bytes` at `address`, all of which are there, on huge pages; returns whether it did.
fn collapse(address: NonNull<u8>, bytes: usize) -> bool {
    // Where it fails, this lets the kernel's own thread do it later.
    if advise(address, bytes, libc::MADV_HUGEPAGE).is_err() {
        return false;
    }
    for _ in 0..ATTEMPTS_MAX {
        match advise(address, bytes, MADV_COLLAPSE) {
            Ok(()) => return true,
            Err(libc::EAGAIN) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Gives the kernel one of the advices about huge pages, none of which changes a byte.
///
/// # Errors
/// The kernel's number of the error.
fn advise(address: NonNull<u8>, bytes: usize, advice: libc::c_int) -> Result<(), libc::c_int> {
    debug_assert!(
        [libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE, MADV_COLLAPSE].contains(&advice),
        "an advice about huge pages"
    );
    // SAFETY: these advices say on what pages memory lies, and change neither its bytes nor which
    // addresses are mapped; the kernel refuses addresses that carry none.
    let code = unsafe { libc::madvise(address.as_ptr().cast(), bytes, advice) };
    if code == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Returns whether the kernel knows the advice: it says so for no bytes at any whole page, too.
fn knows_collapse() -> bool {
    let whole_page = std::ptr::without_provenance_mut(HUGE_PAGE_BYTES);
    NonNull::new(whole_page).is_some_and(|address| advise(address, 0, MADV_COLLAPSE).is_ok())
}

/// Returns whether huge pages are turned off for this process.
fn is_disabled_here() -> bool {
    // SAFETY: it only asks; the arguments that it does not use have to be 0.
    let code = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
    code > 0
}

#[cfg(test)]
mod tests {
    use super::super::{Backing, ForeignSegments};
    use super::*;

    const SEGMENT_BYTES: u64 = 2 * HUGE_PAGE_BYTES as u64;

    fn can_collapse() -> bool {
        matches!(SystemSetting::read(), SystemSetting::Never | SystemSetting::Allowed)
    }

    fn fill(owner: &OwnedSegments, at: usize, bytes: usize) {
        for offset in (at..at + bytes).step_by(8) {
            // SAFETY: the tests write inside segments that they have committed.
            unsafe { owner.base().add(offset).cast::<u64>().write_volatile(!offset as u64) }
        }
    }

    fn holds(base: NonNull<u8>, at: usize, bytes: usize) -> bool {
        (at..at + bytes).step_by(8).all(|offset| {
            // SAFETY: the tests read inside segments that they have mapped.
            let word = unsafe { base.add(offset).cast::<u64>().read_volatile() };
            word == !offset as u64
        })
    }

    fn collapse_all(owner: &OwnedSegments) -> Collapsed {
        owner.collapse_full(&mut CollapseCursor::default(), usize::MAX, true)
    }

    /// Returns how many small pages of segment `index` are there.
    fn resident(owner: &OwnedSegments, index: u32) -> usize {
        let mut is_there = vec![0_u8; SEGMENT_BYTES as usize / SMALL_PAGE_BYTES];
        let address = owner.range.address(index).as_ptr().cast();
        // SAFETY: the range is reserved, and the vector has a byte for each page of a segment.
        let code = unsafe { libc::mincore(address, SEGMENT_BYTES as usize, is_there.as_mut_ptr()) };
        assert_eq!(code, 0);
        is_there.iter().filter(|byte| **byte & 1 == 1).count()
    }

    #[test]
    fn memory_that_is_there_whole_moves_to_a_huge_page_and_no_other_does() {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 4, Backing::OnTouch).unwrap();
        owner.commit(1).unwrap();
        let mut reader = ForeignSegments::reserve(SEGMENT_BYTES, 4).unwrap();
        reader.map(1, owner.descriptor(1).unwrap()).unwrap();
        let start = SEGMENT_BYTES as usize;
        fill(&owner, start, HUGE_PAGE_BYTES);
        fill(&owner, start + HUGE_PAGE_BYTES, HUGE_PAGE_BYTES - SMALL_PAGE_BYTES);
        let before = resident(&owner, 1);
        assert_eq!(before, 2 * HUGE_PAGE_BYTES / SMALL_PAGE_BYTES - 1);
        let collapsed = collapse_all(&owner);
        assert_eq!(resident(&owner, 1), before, "no page came and none went");
        let all = 2 * HUGE_PAGE_BYTES - SMALL_PAGE_BYTES;
        assert!(holds(owner.base(), start, all) && holds(reader.base(), start, all));
        let made = u64::from(can_collapse());
        assert!(collapsed.made <= made, "{collapsed:?}");
        assert!(collapsed.made + collapsed.refused <= 1, "{collapsed:?}");
        assert_eq!(owner.huge_bytes(), collapsed.made * HUGE_PAGE_BYTES as u64);
        fill(&owner, start + all, SMALL_PAGE_BYTES);
        assert!(collapse_all(&owner).made <= made);
        assert!(holds(reader.base(), start, 2 * HUGE_PAGE_BYTES));
        owner.retire(1);
        assert_eq!(owner.huge_bytes(), 0);
        owner.commit(1).unwrap();
        assert_eq!(resident(&owner, 1), 0, "memory made anew begins with nothing");
    }

    #[test]
    fn memory_that_another_process_writes_moves_once_it_is_published() {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 4, Backing::OnTouch).unwrap();
        owner.offer(1).unwrap();
        owner.populate_pages(1).unwrap();
        assert_eq!(collapse_all(&owner), Collapsed::default(), "nobody knows of it yet");
        owner.publish(1);
        let collapsed = collapse_all(&owner);
        assert_eq!(collapsed.made + collapsed.refused, 2, "{collapsed:?}");
        assert_eq!(owner.huge_bytes(), collapsed.made * HUGE_PAGE_BYTES as u64);
        owner.retire(1);
        assert_eq!(owner.huge_bytes(), 0);
    }

    #[test]
    fn segment_below_a_huge_page_has_none() {
        let owner = OwnedSegments::reserve(1 << 20, 4, Backing::UpFront).unwrap();
        owner.commit(0).unwrap();
        owner.commit(1).unwrap();
        assert_eq!(collapse_all(&owner), Collapsed::default());
    }

    #[test]
    fn look_goes_on_where_the_last_one_ended() {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 4, Backing::OnTouch).unwrap();
        for index in [0, 1, 3] {
            owner.commit(index).unwrap();
        }
        let mut cursor = CollapseCursor::default();
        let mut look = || {
            let found = owner.candidates(&mut cursor, 3, false);
            found.iter().map(|it| (it.index, it.pages.len())).collect::<Vec<_>>()
        };
        assert_eq!(look(), [(0, 2), (1, 2)]);
        assert_eq!(look(), [(3, 2)]);
        assert_eq!(look(), [(0, 2), (1, 2)]);
    }

    #[test]
    fn setting_is_that_of_the_size_unless_all_sizes_are_denied_or_forced() {
        let all = |word: &str| format!("always within_size [{word}] other\n");
        let of = |word: &str, of_size: Option<&str>| {
            let of_size = of_size.map(all);
            SystemSetting::of(Some(&all(word)), of_size.as_deref())
        };
        assert_eq!(of("never", None), SystemSetting::Never);
        assert_eq!(of("advise", None), SystemSetting::Allowed);
        assert_eq!(of("advise", Some("inherit")), SystemSetting::Allowed);
        assert_eq!(of("never", Some("advise")), SystemSetting::Allowed);
        assert_eq!(of("always", Some("never")), SystemSetting::Never);
        assert_eq!(of("deny", Some("always")), SystemSetting::Denied);
        assert_eq!(of("force", Some("never")), SystemSetting::Allowed);
        assert_eq!(SystemSetting::of(None, None), SystemSetting::Missing);
    }
}
