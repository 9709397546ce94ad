//! Upload memory: clients write their values there before the values have a key.
//!
//! A run is some whole segments in a row, made for one session: its client maps them for writing,
//! this process for reading. The client asks for ranges of it, writes, and commits each under a
//! key: copied into the arena, or adopted, which leaves the value where it is. The block of an
//! adopted entry says where that is, and frees the range when it is freed itself.
//!
//! ```text
//! make: offered -> begin_seal: sealing -> open: open -> end of the session: ended -> closed
//! range: allocate: open -> claim: claimed -> free | adopt: adopted -> release
//! ```
//! Of a run whose session has ended those segments are closed in which no adopted value and no
//! claim is left; the rest becomes shorter runs. Until then readers map them. A thread that holds
//! no lock releases their memory soon after.
//!
//! *Layout*: `upload_region/space.rs` is what is free in a run, `upload_region/claim.rs` the right
//! to one range.
//! *Invariants*: nothing that a client can write is read here but values, which are copied once and
//! mean nothing to the copier. Offsets and lengths that a client names are checked against the
//! ranges of its own session.
//! *Not here*: descriptors, sealing, who may (`server`), entries (`table/`).

mod claim;
mod space;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::mapped_range::MappedRange;
use crate::segment_source::SegmentError;

pub use claim::{Claim, Uploaded, Uploader};
use space::RunSpace;

/// The most runs of one session.
const RUNS_PER_SESSION_MAX: usize = 64;
/// The most ranges of one session that are neither committed nor given back.
const OPEN_RANGES_MAX: usize = 1024;
/// The private memory that a range or a hole takes, its share of the trees that hold it included.
const RECORD_BYTES: u64 = 128;

/// Why upload memory cannot be had or named so. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadError {
    /// There is no such run, or it is not in this state.
    NoRun,
    /// The session has as many runs, or the region as many segments, as there may be.
    TooManyRuns,
    /// The session has as many open ranges as it may.
    TooManyRanges,
    /// No run of the session has so many bytes free in a row.
    NoSpace,
    /// The session has no open range at this offset.
    NoRange,
    /// The range is shorter than that.
    TooLong {
        /// The bytes that it has.
        range_bytes: u64,
    },
    /// No segment could be made.
    Segment(SegmentError),
}

impl fmt::Display for UploadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UploadError::NoRun => formatter.write_str("no such upload memory"),
            UploadError::TooManyRuns => formatter.write_str("too much upload memory"),
            UploadError::TooManyRanges => formatter.write_str("too many uncommitted uploads"),
            UploadError::NoSpace => formatter.write_str("no room in the upload memory"),
            UploadError::NoRange => formatter.write_str("no uncommitted upload at this offset"),
            UploadError::TooLong { range_bytes } => {
                write!(formatter, "the upload has {range_bytes} bytes")
            }
            UploadError::Segment(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for UploadError {}

/// Upload memory in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadUsage {
    /// Runs, what is left of those of ended sessions too, and what is to be given back.
    pub run_count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Ranges that are neither committed nor given back.
    pub open_count: u64,
    /// Values that lie in upload memory, those that only a pin holds too.
    pub adopted_count: u64,
    /// The bytes of their ranges.
    pub adopted_bytes: u64,
    /// Commits that copied, since the arena was made.
    pub copies: u64,
    /// Commits that left the value where it was.
    pub adoptions: u64,
    /// Adopted values that were copied into the arena later.
    pub owned: u64,
}

/// A run that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadRun {
    /// Where it starts in the arena's range.
    pub offset: u64,
    /// Its size: whole segments.
    pub bytes: u64,
}

/// All upload memory of an arena. Any thread may call it.
pub struct Uploads {
    memory: Arc<MappedRange>,
    base: u64,
    state: Mutex<State>,
    adopted_count: AtomicU64,
    adoptions: AtomicU64,
    copies: AtomicU64,
    owned: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Which segments of the region belong to a run.
    taken: Vec<bool>,
    /// By where they start.
    runs: BTreeMap<u64, Run>,
    /// The runs of each session, by its number.
    sessions: BTreeMap<u64, Vec<u64>>,
    /// Runs that nothing is left in and whose memory is to be given back.
    ended: Vec<UploadRun>,
    /// The bytes of those that are being given back.
    closing_bytes: u64,
    open_count: u64,
    adopted_bytes: u64,
}

/// Some segments in a row.
struct Run {
    session: u64,
    bytes: u64,
    state: RunState,
    /// Whether values may stay in it.
    may_adopt: bool,
    space: RunSpace,
    /// What is handed out, by where it starts in the arena's range.
    ranges: BTreeMap<u64, Range>,
    /// How many of the ranges are open or claimed.
    open_count: usize,
    /// What the memory was told of the lists.
    private_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunState {
    /// The client has not mapped it yet.
    Offered,
    /// A thread seals it.
    Sealing,
    /// It can be used.
    Open,
    /// Its session has ended; a thread that seals it has the last word.
    Ended { is_sealing: bool },
}

#[derive(Clone, Copy)]
struct Range {
    bytes: u64,
    state: RangeState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeState {
    Open,
    Claimed,
    Adopted,
}

impl Uploads {
    pub(crate) fn new(memory: Arc<MappedRange>, base: u64) -> Uploads {
        let segments = (memory.span_bytes() - base) / memory.segment_bytes();
        let state = State { taken: vec![false; segments as usize], ..State::default() };
        Uploads {
            memory,
            base,
            state: Mutex::new(state),
            adopted_count: AtomicU64::new(0),
            adoptions: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            owned: AtomicU64::new(0),
        }
    }

    /// Returns whether any value lies in upload memory. Whoever holds a shard learns of all that
    /// have been adopted there.
    #[inline]
    pub fn has_adopted(&self) -> bool {
        self.adopted_count.load(Ordering::Relaxed) != 0
    }

    /// Returns the figures.
    pub fn usage(&self) -> UploadUsage {
        let state = self.state();
        UploadUsage {
            run_count: (state.runs.len() + state.ended.len()) as u64,
            bytes: state.bytes(),
            open_count: state.open_count,
            adopted_count: self.adopted_count.load(Ordering::Relaxed),
            adopted_bytes: state.adopted_bytes,
            copies: self.copies.load(Ordering::Relaxed),
            adoptions: self.adoptions.load(Ordering::Relaxed),
            owned: self.owned.load(Ordering::Relaxed),
        }
    }

    /// Returns the bytes of all runs of `session`.
    pub fn session_bytes(&self, session: u64) -> u64 {
        let state = self.state();
        let runs = state.sessions.get(&session).into_iter().flatten();
        runs.map(|run| state.runs[run].bytes).sum()
    }

    /// Makes a run of at least `bytes` for `session`; values may stay in it where `may_adopt`. Its
    /// memory counts from now on as the arena's private memory does.
    ///
    /// # Errors
    /// Where there are too many, or the system has no memory.
    pub fn make(
        &self,
        session: u64,
        bytes: u64,
        may_adopt: bool,
    ) -> Result<UploadRun, UploadError> {
        let segment_bytes = self.memory.segment_bytes();
        let count = bytes.max(1).div_ceil(segment_bytes) as usize;
        let mut state = self.state();
        if state.sessions.get(&session).is_some_and(|runs| runs.len() >= RUNS_PER_SESSION_MAX) {
            return Err(UploadError::TooManyRuns);
        }
        let first = free_row(&state.taken, count).ok_or(UploadError::TooManyRuns)?;
        state.taken[first..first + count].fill(true);
        drop(state);
        // Without the lock: the system may take its time to find so much memory.
        let offset = self.base + first as u64 * segment_bytes;
        for index in 0..count as u64 {
            if let Err(error) = self.memory.commit_upload(offset + index * segment_bytes) {
                for made in 0..index {
                    self.memory.retire_upload(offset + made * segment_bytes);
                }
                self.state().taken[first..first + count].fill(false);
                return Err(UploadError::Segment(error));
            }
        }
        let run = UploadRun { offset, bytes: count as u64 * segment_bytes };
        self.memory.change_private(0, run.bytes);
        let mut state = self.state();
        state.sessions.entry(session).or_default().push(offset);
        state.runs.insert(
            offset,
            Run {
                session,
                bytes: run.bytes,
                state: RunState::Offered,
                may_adopt,
                space: RunSpace::new(run.bytes),
                ranges: BTreeMap::new(),
                open_count: 0,
                private_bytes: 0,
            },
        );
        Ok(run)
    }

    /// Notes that the run of `session` at `offset` is being sealed, and returns it.
    ///
    /// # Errors
    /// Where the session has no such run that was not sealed yet.
    pub fn begin_seal(&self, session: u64, offset: u64) -> Result<UploadRun, UploadError> {
        let mut state = self.state();
        let run = state.runs.get_mut(&offset).ok_or(UploadError::NoRun)?;
        if run.session != session || run.state != RunState::Offered {
            return Err(UploadError::NoRun);
        }
        run.state = RunState::Sealing;
        Ok(UploadRun { offset, bytes: run.bytes })
    }

    /// Takes back [`Uploads::begin_seal`]: nothing was sealed.
    pub fn cancel_seal(&self, offset: u64) {
        let mut state = self.state();
        let run = state.runs.get_mut(&offset).expect("a run that is being sealed stays");
        match run.state {
            RunState::Sealing => run.state = RunState::Offered,
            _ => self.close(&mut state, offset),
        }
    }

    /// Ends what [`Uploads::begin_seal`] began: where it `is_sealed` the run can be used, and
    /// readers get it; else, and where its session has ended meanwhile, it is closed. Returns
    /// whether it can be used.
    pub fn end_seal(&self, offset: u64, is_sealed: bool) -> bool {
        let mut state = self.state();
        let run = state.runs.get_mut(&offset).expect("a run that is being sealed stays");
        if !is_sealed || run.state != RunState::Sealing {
            assert!(
                matches!(run.state, RunState::Sealing | RunState::Ended { .. }),
                "it was sealing"
            );
            self.close(&mut state, offset);
            return false;
        }
        for segment in (0..run.bytes).step_by(self.memory.segment_bytes() as usize) {
            self.memory.publish_upload(offset + segment);
        }
        // Last, as readers need the segments before they meet a value there.
        run.state = RunState::Open;
        true
    }

    /// Returns whether the run of `session` at `offset` can be used; `None` where there is none.
    pub fn is_open(&self, session: u64, offset: u64) -> Option<bool> {
        let state = self.state();
        let run = state.runs.get(&offset).filter(|run| run.session == session)?;
        Some(run.state == RunState::Open)
    }

    /// Ends the runs of `session`: what it has not committed is gone, what it has stays. Returns
    /// whether there is memory for [`Uploads::close_ended`].
    pub fn end(&self, session: u64) -> bool {
        let mut state = self.state();
        for offset in state.sessions.remove(&session).unwrap_or_default() {
            let run = state.runs.get_mut(&offset).expect("a session's run exists");
            let is_sealing = run.state == RunState::Sealing;
            run.state = RunState::Ended { is_sealing };
            let before = run.ranges.len();
            // Nobody is given what they leave: the run only waits for its end.
            run.ranges.retain(|_, range| range.state != RangeState::Open);
            let ended = before - run.ranges.len();
            run.open_count -= ended;
            state.open_count -= ended as u64;
            self.settle(&mut state, offset);
            if !is_sealing {
                self.close_gaps(&mut state, offset);
            }
        }
        !state.ended.is_empty()
    }

    /// Gives the memory of runs that nothing is left in back to the system. That takes its time:
    /// the caller holds no shard.
    pub fn close_ended(&self) {
        let mut state = self.state();
        let ended = std::mem::take(&mut state.ended);
        if ended.is_empty() {
            return;
        }
        let bytes = ended.iter().map(|run| run.bytes).sum();
        state.closing_bytes += bytes;
        drop(state);
        let segment_bytes = self.memory.segment_bytes();
        let segments = ended
            .iter()
            .flat_map(|run| (run.offset..run.offset + run.bytes).step_by(segment_bytes as usize));
        segments.clone().for_each(|segment| self.memory.retire_upload(segment));
        self.memory.change_private(bytes, 0);
        let mut state = self.state();
        for segment in segments {
            state.taken[((segment - self.base) / segment_bytes) as usize] = false;
        }
        state.closing_bytes -= bytes;
    }

    /// Returns the offset of `bytes` that the session's client may write.
    pub(crate) fn allocate(&self, session: u64, bytes: u64) -> Result<u64, UploadError> {
        let mut state = self.state();
        let bytes = RunSpace::range_bytes(bytes.clamp(1, 1 << 48));
        let State { runs, sessions, .. } = &mut *state;
        let own = sessions.get(&session).ok_or(UploadError::NoRun)?;
        let open: usize = own.iter().map(|offset| runs[offset].open_count).sum();
        if open >= OPEN_RANGES_MAX {
            return Err(UploadError::TooManyRanges);
        }
        let usable = || own.iter().filter(|offset| runs[offset].state == RunState::Open);
        let warm =
            usable().filter_map(|offset| Some((runs[offset].space.warm_fit(bytes)?, *offset)));
        let warm = warm.min().map(|(_, offset)| offset);
        let order: Vec<u64> = warm.into_iter().chain(usable().copied()).collect();
        if order.is_empty() {
            return Err(UploadError::NoRun);
        }
        for offset in order {
            let run = runs.get_mut(&offset).expect("a session's run exists");
            if let Some(start) = run.space.allocate(bytes) {
                run.ranges.insert(offset + start, Range { bytes, state: RangeState::Open });
                run.open_count += 1;
                state.open_count += 1;
                self.settle(&mut state, offset);
                return Ok(offset + start);
            }
        }
        Err(UploadError::NoSpace)
    }

    /// Takes back the open range of `session` at `offset`.
    pub(crate) fn give_back(&self, session: u64, offset: u64) -> Result<(), UploadError> {
        let mut state = self.state();
        state.own_range(session, offset)?;
        self.remove(&mut state, offset);
        Ok(())
    }

    /// Takes back the range of an adopted value whose block is free.
    pub(crate) fn release(&self, offset: u64) {
        let mut state = self.state();
        self.adopted_count.fetch_sub(1, Ordering::Relaxed);
        self.remove(&mut state, offset);
    }

    /// Counts an adopted value that was copied into the arena.
    pub(crate) fn count_owned(&self) {
        self.owned.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the range at `offset` back, whatever it is, and closes the segments that it alone was
    /// in, where its session has ended.
    fn remove(&self, state: &mut State, offset: u64) {
        let (&start, run) = state.runs.range_mut(..=offset).next_back().expect("a range's run");
        let range = run.ranges.remove(&offset).expect("a range is given back once");
        let has_ended = matches!(run.state, RunState::Ended { .. });
        if !has_ended {
            run.space.free(offset - start, range.bytes);
        }
        match range.state {
            RangeState::Open | RangeState::Claimed => {
                run.open_count -= 1;
                state.open_count -= 1;
            }
            RangeState::Adopted => state.adopted_bytes -= range.bytes,
        }
        self.settle(state, start);
        if has_ended {
            self.close_gap(state, offset);
        }
    }

    /// Tells the memory what the lists of the run at `offset` take.
    fn settle(&self, state: &mut State, offset: u64) {
        let run = state.runs.get_mut(&offset).expect("a run that was changed exists");
        let before = run.private_bytes;
        run.private_bytes = (run.ranges.len() + run.space.hole_count()) as u64 * RECORD_BYTES;
        if run.private_bytes != before {
            self.memory.change_private(before, run.private_bytes);
        }
    }

    /// Closes the segments of the ended run at `offset` that no range is in. A sealed segment goes
    /// as a whole or not at all.
    fn close_gaps(&self, state: &mut State, offset: u64) {
        let ranges = &state.runs[&offset].ranges;
        let behind = ranges.iter().map(|(start, range)| start + range.bytes);
        let gaps: Vec<u64> = std::iter::once(offset).chain(behind).collect();
        gaps.into_iter().for_each(|gap| self.close_gap(state, gap));
    }

    /// Closes the whole segments between the ranges around `gap`, where the ended run that it lies
    /// in has none; what is left before and behind them are two runs then.
    fn close_gap(&self, state: &mut State, gap: u64) {
        let Some((&start, run)) = state.runs.range_mut(..=gap).next_back() else { return };
        let (end, segment_bytes) = (start + run.bytes, self.memory.segment_bytes());
        let before = run.ranges.range(..gap).next_back();
        let first = before.map_or(start, |(at, range)| at + range.bytes);
        let behind = run.ranges.range(gap..).next();
        let last = behind.map_or(end, |(at, _)| at / segment_bytes * segment_bytes);
        let first = first.next_multiple_of(segment_bytes);
        if gap >= end || first >= last {
            return;
        }
        let mut run = state.runs.remove(&start).expect("found just now");
        self.memory.change_private(run.private_bytes, 0);
        let behind = run.ranges.split_off(&last);
        for (start, end, ranges) in [(start, first, run.ranges), (last, end, behind)] {
            if !ranges.is_empty() {
                let rest = Run::ended(run.session, end - start, ranges);
                state.runs.insert(start, rest);
                self.settle(state, start);
            }
        }
        state.ended.push(UploadRun { offset: first, bytes: last - first });
    }

    /// Forgets the run at `offset`, whose memory is given back a little later.
    fn close(&self, state: &mut State, offset: u64) {
        let run = state.runs.remove(&offset).expect("a run is closed once");
        assert!(run.ranges.is_empty(), "nothing lies in a run that is closed");
        if let Some(own) = state.sessions.get_mut(&run.session) {
            own.retain(|other| *other != offset);
        }
        state.ended.push(UploadRun { offset, bytes: run.bytes });
        self.memory.change_private(run.private_bytes, 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the uploads panics")
    }
}

impl Run {
    /// Returns what is left of a run whose session has ended: nothing is handed out any more.
    fn ended(session: u64, bytes: u64, ranges: BTreeMap<u64, Range>) -> Run {
        let open_count = ranges.values().filter(|it| it.state != RangeState::Adopted).count();
        Run {
            session,
            bytes,
            state: RunState::Ended { is_sealing: false },
            may_adopt: false,
            space: RunSpace::new(0),
            ranges,
            open_count,
            private_bytes: 0,
        }
    }
}

impl State {
    /// Returns the bytes of all upload memory.
    fn bytes(&self) -> u64 {
        let runs = self.runs.values().map(|run| run.bytes);
        runs.chain(self.ended.iter().map(|run| run.bytes)).sum::<u64>() + self.closing_bytes
    }

    /// Returns the open range of `session` at `offset`.
    fn own_range(&mut self, session: u64, offset: u64) -> Result<(&mut Range, bool), UploadError> {
        let found = self.runs.range_mut(..=offset).next_back();
        let run = found.map(|(_, run)| run).filter(|run| run.session == session);
        let run = run.filter(|run| run.state == RunState::Open).ok_or(UploadError::NoRange)?;
        let may_adopt = run.may_adopt;
        let range = run.ranges.get_mut(&offset);
        let range = range.filter(|range| range.state == RangeState::Open);
        range.map(|range| (range, may_adopt)).ok_or(UploadError::NoRange)
    }
}

/// Returns where `count` free segments in a row begin.
fn free_row(taken: &[bool], count: usize) -> Option<usize> {
    let mut length = 0;
    for (index, is_taken) in taken.iter().enumerate() {
        length = if *is_taken { 0 } else { length + 1 };
        if length == count {
            return Some(index + 1 - count);
        }
    }
    None
}
