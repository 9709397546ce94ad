//! Pins: how a reader in another process keeps an extent where it is, and how the writer sees it.
//!
//! A pin table is an array of words that the reader's process can write and the server can read.
//! These are hazard pointers: the reader publishes the offset of the block, and uses the block only
//! if the reference that led to it is still valid; the writer first invalidates that reference,
//! then checks the pins.
//!
//! ```text
//! reader                                 writer
//! slot = offset       (relaxed)          unlink, or mark as changing
//! fence               (seq_cst)          fence             (seq_cst)
//! still linked, not changing?            any slot == offset?   (acquire)
//! use the block                          no: change, move or free the block
//! slot = 0            (release)
//! ```
//! Of the two fences one is first: either the writer sees the pin or the reader sees the change.
//!
//! The words are input from a process that may be hostile: each is copied once and compared, never
//! followed. A process that writes nonsense keeps blocks from being reused, up to one for each of
//! its slots, or loses its own views; no other session is affected.
//!
//! Pin table, 12,288 bytes:
//! ```text
//! word 0       limit: every slot in use lies below it; a hint that saves the writer a walk
//! word 1       how many access reports were ever made
//! words 8..    504 slots: the pinned block's offset, 0 where free
//! words 512..  1,024 access reports, a ring: `access_reports.rs`
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::access_reports::{self, AccessReport, REPORT_WORDS};
use crate::atomic_word::AtomicWord;

/// The size of a pin table in bytes.
pub const PIN_TABLE_BYTES: u64 = (REPORTS_AT + REPORT_WORDS) as u64 * 8;
/// The slots of a pin table: the most blocks that one session can hold at a time.
pub const PIN_SLOTS: usize = REPORTS_AT - SLOTS_AT;

const LIMIT_AT: usize = 0;
/// In the line of the limit, which is as seldom written.
const REPORT_CURSOR_AT: usize = 1;
const SLOTS_AT: usize = 8;
const REPORTS_AT: usize = 512;

const _: () = assert!(PIN_TABLE_BYTES == 12_288, "whole pages, as the drawing says");

/// What the search for the pins of one block reads at most, in slots: as much as four full tables.
const STATE_SLOTS_MAX: usize = 4 * (PIN_SLOTS + TABLE_SLOTS);
/// What a table counts for in such a search besides its slots: its first line is read for the
/// limit.
const TABLE_SLOTS: usize = 8;

/// Publishes a pin on the block at `offset` in `slot` of the table `words`. It holds from the
/// moment on at which the caller has seen, after this call, that the block is still linked and
/// not changing; if it is not, the caller calls [`release`] and has no pin.
#[inline]
pub fn publish<W: AtomicWord>(words: &[W], slot: usize, offset: u64) {
    debug_assert!(offset != 0, "offset 0 is no block");
    let limit = &words[LIMIT_AT];
    if limit.load(Ordering::Relaxed) <= slot as u64 {
        // In one step: threads of one session publish side by side, and a plain store could take
        // back what another has just raised, and its pin out of the writer's sight.
        limit.raise(slot as u64 + 1, Ordering::Relaxed);
    }
    words[SLOTS_AT + slot].store(offset, Ordering::Relaxed);
    // SYNC POINT: pinned or seen to change. Pairs with the fence in `any_pinned`.
    W::fence(Ordering::SeqCst);
}

/// Takes the pin in `slot` back: the block may go.
#[inline]
pub fn release<W: AtomicWord>(words: &[W], slot: usize) {
    // SYNC POINT: the last use before the change. Pairs with the load in `for_each_pinned`.
    words[SLOTS_AT + slot].store(0, Ordering::Release);
}

/// Calls `visit` with each pinned offset of the table `words`. The caller has made the blocks in
/// question unreachable or changing, and then called [`before_scan`].
#[inline]
pub fn for_each_pinned<W: AtomicWord>(words: &[W], mut visit: impl FnMut(u64)) {
    for slot in slots_in_use(words) {
        // SYNC POINT: the last use before the change. Pairs with the store in `release`.
        let offset = slot.load(Ordering::Acquire);
        if offset != 0 {
            visit(offset);
        }
    }
}

/// Returns the slots of the table `words` below its limit.
#[inline]
fn slots_in_use<W: AtomicWord>(words: &[W]) -> &[W] {
    let slots = &words[SLOTS_AT..words.len().min(REPORTS_AT)];
    let limit = usize::try_from(words[LIMIT_AT].load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    &slots[..limit.min(slots.len())]
}

/// Adds `access` to the ring of the table `words`.
pub fn report(words: &[AtomicU64], access: AccessReport) {
    access_reports::add(&words[REPORT_CURSOR_AT], &words[REPORTS_AT..], access);
}

/// Calls `mark` with the index of each offset in `offsets` (ascending) that is pinned in one of
/// `tables`; several pins on one block may be several calls. The caller has made all the blocks
/// unreachable or changing, and then called [`before_scan`].
pub fn mark_pinned<'t, W: AtomicWord + 't>(
    tables: impl Iterator<Item = &'t [W]>,
    offsets: &[u64],
    mut mark: impl FnMut(usize),
) {
    debug_assert!(offsets.is_sorted(), "offsets ascend");
    let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else { return };
    let mut previous = 0;
    for table in tables {
        for_each_pinned(table, |offset| {
            // A table full of one word costs one search, and one of nonsense none.
            if offset != previous && (first..=last).contains(&offset) {
                offsets.binary_search(&offset).into_iter().for_each(&mut mark);
            }
            previous = offset;
        });
    }
}

/// Orders what the writer did to the blocks in question before its scan of the pins.
#[inline(always)]
pub fn before_scan<W: AtomicWord>() {
    // SYNC POINT: pinned or seen to change. Pairs with the fence in `publish`.
    W::fence(Ordering::SeqCst);
}

/// The memory of a pin table.
///
/// # Safety
/// `words()` returns, in one process, the same slice of `PIN_TABLE_BYTES / 8` words for as long as
/// the value lives, in memory that cannot shrink. Another process may write it at any time.
pub unsafe trait PinMemory: Send + Sync {
    /// Returns the table's words.
    fn words(&self) -> &[AtomicU64];
}

/// A pin table on the heap: for readers in the server's own process.
pub struct HeapPins(Box<[AtomicU64]>);

impl HeapPins {
    /// Returns a table without pins.
    pub fn new() -> HeapPins {
        HeapPins((0..PIN_TABLE_BYTES / 8).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Default for HeapPins {
    fn default() -> HeapPins {
        HeapPins::new()
    }
}

// SAFETY: one boxed slice of that length, owned for as long as the value lives.
unsafe impl PinMemory for HeapPins {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Whether a session holds a block, as [`PinTables::state_of`] found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinState {
    /// No session holds the block.
    Free,
    /// A session holds it.
    Pinned,
    /// The tables have too much in use to search for one block.
    Unknown,
}

/// The pin tables of all sessions, as the writer sees them. Any thread may call it.
#[derive(Default)]
pub struct PinTables {
    /// A lock, so that a table added while a scan runs belongs to a session that has not begun
    /// to read, and that will see what the scan's caller did before.
    tables: RwLock<Vec<Table>>,
}

/// The pin table of one session.
struct Table {
    session: u64,
    memory: Arc<dyn PinMemory>,
    /// How many access reports there were when the server read them last, as the session said.
    reports_seen: AtomicU64,
    /// Whether what it reads shall not count as used.
    no_touch: Arc<AtomicBool>,
}

impl Table {
    /// Appends to `reports` what the session has reported since the last call.
    fn take_access_reports(&self, reports: &mut Vec<AccessReport>) {
        let words = self.memory.words();
        let mut seen = self.reports_seen.load(Ordering::Relaxed);
        let (cursor, ring) = (&words[REPORT_CURSOR_AT], &words[REPORTS_AT..]);
        let leaves_none = self.no_touch.load(Ordering::Relaxed);
        access_reports::take(cursor, ring, &mut seen, |access| {
            if !leaves_none {
                reports.push(access);
            }
        });
        self.reports_seen.store(seen, Ordering::Relaxed);
    }
}

impl PinTables {
    /// Returns a registry without tables.
    pub fn new() -> PinTables {
        PinTables::default()
    }

    /// Adds the table of the new session number `session`, before it learns of the arena.
    pub fn add(&self, session: u64, table: Arc<dyn PinMemory>) {
        self.add_session(session, table, Arc::default());
    }

    /// As [`PinTables::add`]; while `no_touch` is set, what the session reports is thrown
    /// away.
    pub fn add_session(&self, session: u64, memory: Arc<dyn PinMemory>, no_touch: Arc<AtomicBool>) {
        let reports_seen = AtomicU64::new(0);
        self.write().push(Table { session, memory, reports_seen, no_touch });
    }

    /// Takes the table of a session that has ended out; its pins hold no more. Returns what the
    /// session has reported since it was asked last.
    pub fn remove(&self, table: &Arc<dyn PinMemory>) -> Vec<AccessReport> {
        let mut tables = self.write();
        let index = tables.iter().position(|other| Arc::ptr_eq(&other.memory, table));
        let removed = index.map(|index| tables.remove(index));
        drop(tables);
        // It is nobody else's by now, so that none comes twice.
        let mut reports = Vec::new();
        removed.iter().for_each(|table| table.take_access_reports(&mut reports));
        reports
    }

    /// Returns whether a session holds the block at `offset`, which the caller has made
    /// unreachable or marked as changing. Costs a walk over all tables, whatever their clients have
    /// written there: where the answer can wait, [`PinTables::state_of`] and
    /// [`PinTables::mark_pinned`] do.
    pub fn is_pinned(&self, offset: u64) -> bool {
        before_scan::<AtomicU64>();
        let tables = self.read();
        tables.iter().any(|table| hold(slots_in_use(table.memory.words()), offset))
    }

    /// As [`PinTables::is_pinned`], unless that takes more than a bounded number of slots: then
    /// none is looked at. Sessions are many and hostile ones fill their tables, and whoever asks
    /// holds a shard.
    pub fn state_of(&self, offset: u64) -> PinState {
        before_scan::<AtomicU64>();
        let tables = self.read();
        if is_crowd(&tables) {
            return PinState::Unknown;
        }
        let mut left = STATE_SLOTS_MAX;
        for table in &*tables {
            let slots = slots_in_use(table.memory.words());
            // Counted again: a client may have raised its limit since.
            if !take_slots(&mut left, slots) {
                return PinState::Unknown;
            }
            if hold(slots, offset) {
                return PinState::Pinned;
            }
        }
        PinState::Free
    }

    /// Returns whether the tables have more in use than [`PinTables::state_of`] looks at.
    pub fn are_crowded(&self) -> bool {
        is_crowd(&self.read())
    }

    /// Returns the pins of session number `session`, which may have none, or have ended.
    pub fn of(&self, session: u64) -> SessionPins<'_> {
        SessionPins { tables: self, session }
    }

    /// Calls `mark` with the index of each block in `offsets` (ascending) that a session holds:
    /// one fence and one walk for all. The caller has made them all unreachable or changing.
    pub fn mark_pinned(&self, offsets: &[u64], mark: impl FnMut(usize)) {
        before_scan::<AtomicU64>();
        let tables = self.read();
        mark_pinned(tables.iter().map(|table| table.memory.words()), offsets, mark);
    }

    /// Calls `visit` with each pinned offset; several pins on one block are several calls.
    pub fn for_each(&self, mut visit: impl FnMut(u64)) {
        before_scan::<AtomicU64>();
        for table in &*self.read() {
            for_each_pinned(table.memory.words(), &mut visit);
        }
    }

    /// Appends to `reports` what the sessions have reported since the last call, as long as those
    /// of one more session are no more than `reports_max`; begins with session `first` and returns
    /// the one to begin with next. One caller at a time, or some come twice.
    pub fn take_access_reports(
        &self,
        first: usize,
        reports_max: usize,
        reports: &mut Vec<AccessReport>,
    ) -> usize {
        let tables = self.read();
        for number in 0..tables.len() {
            let index = first.wrapping_add(number) % tables.len();
            if reports.len() + REPORT_WORDS > reports_max {
                return index;
            }
            tables[index].take_access_reports(reports);
        }
        first
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Table>> {
        self.tables.read().expect("no holder of the pin tables panics")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Table>> {
        self.tables.write().expect("no holder of the pin tables panics")
    }
}

/// Returns whether `tables` have more in use than one search may read.
fn is_crowd(tables: &[Table]) -> bool {
    let mut left = STATE_SLOTS_MAX;
    // Ends with the table that is one too many: the rest cost nothing.
    !tables.iter().all(|table| take_slots(&mut left, slots_in_use(table.memory.words())))
}

/// Takes a table whose `slots` are read off what is `left` of a search; returns whether it fits.
fn take_slots(left: &mut usize, slots: &[AtomicU64]) -> bool {
    let rest = left.checked_sub(slots.len() + TABLE_SLOTS);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

/// Returns whether one of `slots` holds the block at `offset`. The caller has called
/// [`before_scan`].
fn hold(slots: &[AtomicU64], offset: u64) -> bool {
    // SYNC POINT: the last use before the change. Pairs with the store in `release`.
    slots.iter().any(|slot| slot.load(Ordering::Acquire) == offset)
}

/// The pins of one session.
#[derive(Clone, Copy)]
pub struct SessionPins<'a> {
    tables: &'a PinTables,
    session: u64,
}

impl SessionPins<'_> {
    /// Returns whether the session's client holds the block at `offset`. The caller keeps the block
    /// from being freed, and was asked by the client after it had published the pin.
    ///
    /// Then, where it does, the block has been the same since the client looked: the table was
    /// there all the time, as a session has one and it comes back to none. There is no fence here:
    /// what makes the pin visible is the message that asks. A pin seen that is released meanwhile
    /// is the client's own mistake.
    pub fn hold(&self, offset: u64) -> bool {
        let tables = self.tables.read();
        let own = tables.iter().find(|table| table.session == self.session);
        let mut is_held = false;
        if let Some(own) = own {
            for_each_pinned(own.memory.words(), |other| is_held |= other == offset);
        }
        is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_table() -> (PinTables, Arc<dyn PinMemory>) {
        let tables = PinTables::new();
        let table: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        tables.add(1, table.clone());
        (tables, table)
    }

    #[test]
    fn miri_pin_is_seen_until_released_or_its_session_ends() {
        let (tables, table) = with_table();
        assert!(!tables.is_pinned(640));
        publish(table.words(), 3, 640);
        publish(table.words(), PIN_SLOTS - 1, 1280);
        assert!(tables.is_pinned(640) && tables.is_pinned(1280) && !tables.is_pinned(704));
        release(table.words(), 3);
        assert!(!tables.is_pinned(640));
        tables.remove(&table);
        assert!(!tables.is_pinned(1280));
    }

    #[test]
    fn batch_marks_the_pinned_blocks_only() {
        let (tables, table) = with_table();
        for (slot, offset) in [(0, 64), (1, 320), (2, 64), (9, 9999)] {
            publish(table.words(), slot, offset);
        }
        let mut marked = [0; 4];
        tables.mark_pinned(&[64, 128, 256, 320], |index| marked[index] += 1);
        assert_eq!(marked, [2, 0, 0, 1]);
    }

    /// A table that counts how often somebody looks at it.
    struct Counting(HeapPins, AtomicU64);

    // SAFETY: those of the table inside, which lives as long.
    unsafe impl PinMemory for Counting {
        fn words(&self) -> &[AtomicU64] {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.words()
        }
    }

    #[test]
    fn look_for_one_block_reads_a_bounded_number_of_tables() {
        let tables = PinTables::new();
        let hostile: Vec<_> =
            (0..1_000).map(|_| Arc::new(Counting(HeapPins::new(), AtomicU64::new(0)))).collect();
        for (session, table) in hostile.iter().enumerate() {
            tables.add(session as u64, table.clone());
        }
        let looked_at =
            || -> u64 { hostile.iter().map(|it| it.1.swap(0, Ordering::Relaxed)).sum() };
        // Empty tables are read for their limits, as many as a search is worth.
        assert_eq!(tables.state_of(64), PinState::Unknown);
        assert!(looked_at() <= (STATE_SLOTS_MAX / TABLE_SLOTS + 1) as u64);
        for table in &hostile {
            publish(table.0.words(), PIN_SLOTS - 1, 640);
        }
        looked_at();
        assert_eq!(
            (tables.state_of(64), tables.state_of(640)),
            (PinState::Unknown, PinState::Unknown)
        );
        assert!(tables.are_crowded() && looked_at() <= 3 * 5);
        assert!(tables.is_pinned(640) && !tables.is_pinned(64));
    }

    #[test]
    fn look_at_a_few_tables_has_an_answer() {
        let (tables, table) = with_table();
        assert!(!tables.are_crowded());
        publish(table.words(), PIN_SLOTS - 1, 640);
        assert_eq!((tables.state_of(640), tables.state_of(64)), (PinState::Pinned, PinState::Free));
        release(table.words(), PIN_SLOTS - 1);
        assert_eq!(tables.state_of(640), PinState::Free);
    }

    #[test]
    fn miri_session_holds_its_own_pins_until_it_ends() {
        let (tables, table) = with_table();
        let second: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        tables.add(2, second.clone());
        publish(table.words(), 0, 640);
        publish(second.words(), 0, 1280);
        let held = |session: u64| [640, 1280].map(|offset| tables.of(session).hold(offset));
        assert_eq!([held(1), held(2), held(3)], [[true, false], [false, true], [false, false]]);
        release(second.words(), 0);
        assert_eq!(held(2), [false, false]);
        tables.remove(&table);
        assert_eq!(held(1), [false, false]);
    }

    #[test]
    fn hostile_words_are_only_compared() {
        let (tables, table) = with_table();
        for word in table.words() {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        assert!(!tables.is_pinned(64));
        let mut visits = 0;
        tables.for_each(|offset| {
            assert_eq!(offset, u64::MAX);
            visits += 1;
        });
        assert_eq!(visits, PIN_SLOTS, "a limit beyond the table reads no further");
    }

    #[test]
    fn touches_of_all_sessions_are_taken_a_bounded_number_at_a_time() {
        let (tables, first) = with_table();
        let second: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        tables.add(2, second.clone());
        let key = base::KeyHasher::new([1; 4], 64).key(b"key");
        let access = AccessReport::new(base::DatabaseIndex(1), &key);
        report(first.words(), access);
        (0..2).for_each(|_| report(second.words(), access));
        let mut reports = Vec::new();
        assert_eq!(tables.take_access_reports(1, REPORT_WORDS, &mut reports), 0);
        assert_eq!(reports, [access, access]);
        assert_eq!(tables.take_access_reports(0, 3 * REPORT_WORDS, &mut reports), 0);
        assert_eq!(reports, [access, access, access]);
        assert!(!tables.is_pinned(64), "an access report is no pin");
    }

    #[test]
    fn session_that_ends_hands_over_its_own_access_reports_alone() {
        let (tables, first) = with_table();
        let second: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        tables.add(2, second.clone());
        let hasher = base::KeyHasher::new([1; 4], 64);
        let access = |name: &[u8]| AccessReport::new(base::DatabaseIndex(1), &hasher.key(name));
        report(first.words(), access(b"seen"));
        let mut reports = Vec::new();
        tables.take_access_reports(0, usize::MAX, &mut reports);
        report(first.words(), access(b"last"));
        report(second.words(), access(b"other"));
        assert_eq!(tables.remove(&first), [access(b"last")]);
        assert_eq!(tables.remove(&first), []);
        assert_eq!(tables.remove(&second), [access(b"other")]);
    }

    #[test]
    fn what_a_session_reports_while_it_leaves_no_touch_never_comes() {
        let (tables, table, silent) = (PinTables::new(), HeapPins::new(), Arc::default());
        let table: Arc<dyn PinMemory> = Arc::new(table);
        tables.add_session(1, table.clone(), Arc::clone(&silent));
        let access = AccessReport::new(
            base::DatabaseIndex(1),
            &base::KeyHasher::new([1; 4], 64).key(b"key"),
        );
        for (is_silent, expected) in [(false, 1), (true, 0), (false, 1), (true, 0)] {
            silent.store(is_silent, Ordering::Relaxed);
            report(table.words(), access);
            let mut reports = Vec::new();
            tables.take_access_reports(0, usize::MAX, &mut reports);
            assert_eq!(reports.len(), expected);
        }
        report(table.words(), access);
        assert_eq!(tables.remove(&table), []);
    }
}
