//! What of the log is kept beyond what a restart needs: segments that a snapshot has, and earlier
//! snapshots, from which the data of any moment behind them can be made again
//! ([`restore`](super::restore)).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use base::UnixMs;
use effects::RecordHeader;
use runtime::{SNAPSHOT_NAME, earlier_snapshots, snapshot_name};
use wal::{SegmentStart, Storage};

use crate::config::options::Settings;

/// The bytes of a record that tell its time.
const RECORD_HEADER_BYTES: usize = 64;

/// How much history is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// For how long at most; none for no such limit.
    pub age: Option<Duration>,
    /// How many bytes of files at most; 0 for no such limit.
    pub bytes: u64,
}

impl Retention {
    /// Returns what `settings` say.
    pub fn of(settings: &Settings) -> Retention {
        let options = &settings.persistence;
        Retention { age: options.retention_age, bytes: options.retention_bytes }
    }

    /// Returns whether anything is kept that no restart needs.
    pub fn keeps_history(&self) -> bool {
        self.age.is_some() || self.bytes > 0
    }
}

/// Returns when the first record of a segment happened; none where it has none.
pub fn first_time(start: &SegmentStart) -> Option<UnixMs> {
    RecordHeader::read(&start.first).ok().map(|header| header.time)
}

/// Returns how the segments of `storage` start, with as much as [`first_time`] needs.
///
/// # Errors
/// When a file cannot be read.
pub fn segment_starts(storage: &dyn Storage) -> io::Result<Vec<SegmentStart>> {
    wal::segment_starts(storage, RECORD_HEADER_BYTES)
}

/// Returns where the log of `storage` begins, the segments of which begin at `lsns`, where nothing
/// comes before that.
fn begin_from_nothing(storage: &dyn Storage, lsns: &[u64]) -> io::Result<Option<u64>> {
    let Some(&first) = lsns.first() else { return Ok(None) };
    Ok(wal::segment_start(storage, first, 0)?.begins.then_some(first))
}

/// Keeps the snapshot at `path`, which stands for `lsn`, under a name of its own, before another
/// takes its place. One is kept only where at least as many bytes of the log as it has lie between
/// it and the one before, so that snapshots never take more than the log between them: the data of
/// a moment are made as soon from the one before.
///
/// # Errors
/// When the file cannot be linked: file systems without links keep no earlier snapshots.
pub fn keep_snapshot(path: &Path, storage: &dyn Storage, lsn: u64) -> io::Result<()> {
    let source = path.join(SNAPSHOT_NAME);
    let bytes = match fs::metadata(&source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.len(),
    };
    let begin = begin_from_nothing(storage, &wal::segment_lsns(storage)?)?;
    let before = earlier_snapshots(storage)?.last().copied().or(begin);
    if before.is_some_and(|before| lsn.saturating_sub(before) < bytes) {
        return Ok(());
    }
    match fs::hard_link(source, path.join(snapshot_name(lsn))) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => storage.sync_directory(),
    }
}

/// What may not be removed.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The LSN of the snapshot that a restart goes on from.
    pub restart: u64,
    /// The LSN behind which a reader still has to read, if there is one.
    pub readers: Option<u64>,
}

impl Needs {
    fn from(&self) -> u64 {
        self.readers.map_or(self.restart, |readers| readers.min(self.restart))
    }
}

/// Removes what `retention` does not keep at `now` and nobody needs, the earliest first. Returns
/// how many segments and snapshots have gone.
///
/// # Errors
/// When a file cannot be read or removed; it is in the way of nothing.
pub fn forget(
    storage: &dyn Storage,
    retention: &Retention,
    needs: &Needs,
    now: UnixMs,
) -> io::Result<(usize, usize)> {
    let lsns = wal::segment_lsns(storage)?;
    let snapshots = earlier_snapshots(storage)?;
    let is_all_needed = lsns.get(1).is_none_or(|next| *next > needs.from());
    if is_all_needed && snapshots.is_empty() {
        return Ok((0, 0));
    }
    let kept = match retention.keeps_history() {
        false => Kept { log_from: needs.from(), snapshots_from: u64::MAX },
        true => {
            let young = retention.young(&lsns, &snapshots, needs, now, storage)?;
            let small = retention.small(&lsns, &snapshots, needs, storage)?;
            Kept {
                log_from: needs.from().min(young.log_from.max(small.log_from)),
                snapshots_from: young.snapshots_from.max(small.snapshots_from),
            }
        }
    };
    wal::forget_before(storage, kept.log_from)?;
    let left = wal::segment_lsns(storage)?;
    // What the log does not reach back to is of no use.
    let from = left.first().map_or(kept.snapshots_from, |lsn| *lsn.max(&kept.snapshots_from));
    let gone: Vec<u64> = snapshots.iter().copied().filter(|lsn| *lsn < from).collect();
    for lsn in &gone {
        storage.remove(&snapshot_name(*lsn))?;
    }
    if !gone.is_empty() {
        storage.sync_directory()?;
    }
    Ok((lsns.len() - left.len(), gone.len()))
}

/// From where on history is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    log_from: u64,
    snapshots_from: u64,
}

impl Retention {
    /// Returns what is young enough, and what has to be there to make the data of that time: the
    /// last snapshot before it, and the log from there on. Opens the segments that are old, and one
    /// or two.
    fn young(
        &self,
        lsns: &[u64],
        snapshots: &BTreeSet<u64>,
        needs: &Needs,
        now: UnixMs,
        storage: &dyn Storage,
    ) -> io::Result<Kept> {
        let Some(age) = self.age else { return Ok(Kept { log_from: 0, snapshots_from: 0 }) };
        let limit = now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let mut horizon = lsns.first().copied().unwrap_or(0);
        for next in lsns.iter().skip(1) {
            // The first record of the next segment is behind all that a segment has.
            let start = wal::segment_start(storage, *next, RECORD_HEADER_BYTES)?;
            if first_time(&start).is_none_or(|time| time.0 >= limit) {
                break;
            }
            horizon = *next;
        }
        let before = snapshots.range(..=horizon).next_back().copied();
        let base = Some(needs.restart).filter(|base| *base <= horizon);
        let from = match before.max(base) {
            Some(from) => from,
            None => begin_from_nothing(storage, lsns)?.unwrap_or(horizon),
        };
        Ok(Kept { log_from: from, snapshots_from: from })
    }

    /// Returns what is left once the earliest files are gone that are too much.
    fn small(
        &self,
        lsns: &[u64],
        snapshots: &BTreeSet<u64>,
        needs: &Needs,
        storage: &dyn Storage,
    ) -> io::Result<Kept> {
        let mut kept = Kept { log_from: 0, snapshots_from: 0 };
        if self.bytes == 0 {
            return Ok(kept);
        }
        let bytes = |name: &str| storage.open_read(name)?.length();
        let (mut old, mut left) = (Vec::new(), Vec::new());
        for pair in lsns.windows(2).filter(|pair| pair[1] <= needs.from()) {
            old.push((pair[1], bytes(&wal::name_of(pair[0]))?));
        }
        for lsn in snapshots {
            left.push((*lsn, bytes(&snapshot_name(*lsn))?));
        }
        let mut snapshots = left.into_iter().peekable();
        let mut total = old.iter().map(|(_, bytes)| bytes).sum::<u64>()
            + snapshots.clone().map(|(_, bytes)| bytes).sum::<u64>();
        for (end, bytes) in old {
            if total <= self.bytes {
                return Ok(kept);
            }
            total -= bytes;
            kept = Kept { log_from: end, snapshots_from: end };
            while let Some((_, bytes)) = snapshots.next_if(|(lsn, _)| *lsn < end) {
                total -= bytes;
            }
        }
        while total > self.bytes
            && let Some((lsn, bytes)) = snapshots.next()
        {
            total -= bytes;
            kept.snapshots_from = lsn + 1;
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wal::simulated::SimulatedDisk;

    use super::*;
    use crate::durability::tests::log_of_seconds;

    /// A log of records of one a second from 0 on, one in each segment.
    fn log(disk: &SimulatedDisk, count: i64) -> Vec<u64> {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        log_of_seconds(&storage, 0..count, 100)
    }

    fn snapshot(disk: &SimulatedDisk, lsn: u64, bytes: u64) {
        disk.create(&snapshot_name(lsn)).unwrap().set_length(bytes).unwrap();
    }

    fn begins_at(disk: &SimulatedDisk) -> u64 {
        segment_starts(disk).unwrap()[0].lsn
    }

    #[test]
    fn without_history_all_goes_that_a_snapshot_has_and_no_reader_needs() {
        let disk = SimulatedDisk::new();
        let lsns = log(&disk, 10);
        snapshot(&disk, lsns[2], 1);
        let forget = |readers| {
            let needs = Needs { restart: lsns[6], readers };
            forget(&disk, &Retention::default(), &needs, UnixMs(0)).unwrap()
        };
        assert_eq!(forget(Some(lsns[3])), (3, 1));
        assert_eq!(begins_at(&disk), lsns[3]);
        assert_eq!(forget(Some(lsns[9])), (3, 0));
        assert_eq!(begins_at(&disk), lsns[6]);
    }

    #[test]
    fn what_is_young_is_kept_with_the_snapshot_that_it_goes_on_from() {
        let disk = SimulatedDisk::new();
        let lsns = log(&disk, 10);
        [1, 4, 8].into_iter().for_each(|at| snapshot(&disk, lsns[at], 1));
        let needs = Needs { restart: lsns[9], readers: None };
        let retention = Retention { age: Some(Duration::from_secs(4)), bytes: 0 };
        // Seconds 5 and later are young at second 9; the snapshot before them is the one of 4.
        assert_eq!(forget(&disk, &retention, &needs, UnixMs(9500)).unwrap(), (4, 1));
        assert_eq!(begins_at(&disk), lsns[4]);
        let left = earlier_snapshots(&disk).unwrap();
        assert_eq!(left.into_iter().collect::<Vec<_>>(), [lsns[4], lsns[8]]);
        // A log from nothing needs none to begin with.
        let disk = SimulatedDisk::new();
        let lsns = log(&disk, 10);
        let needs = Needs { restart: lsns[9], readers: None };
        assert_eq!(forget(&disk, &retention, &needs, UnixMs(9500)).unwrap(), (0, 0));
        assert_eq!(forget(&disk, &retention, &needs, UnixMs(99_500)).unwrap(), (9, 0));
    }

    #[test]
    fn no_more_segments_are_opened_than_are_old_and_one() {
        let disk = SimulatedDisk::new();
        let lsns = log(&disk, 10);
        snapshot(&disk, lsns[1], 1);
        let opened = |restart: usize, age_s| {
            let needs = Needs { restart: lsns[restart], readers: None };
            let age = Some(Duration::from_secs(age_s));
            let before = disk.counts().opens;
            forget(&disk, &Retention { age, bytes: 0 }, &needs, UnixMs(9500)).unwrap();
            disk.counts().opens - before
        };
        assert_eq!(opened(9, 1000), 2, "that whose time is too young, and the first");
        assert_eq!(opened(9, 6), 4, "three are old");
        let before = disk.counts().opens;
        let needs = Needs { restart: lsns[9], readers: None };
        forget(&disk, &Retention::default(), &needs, UnixMs(0)).unwrap();
        assert_eq!(disk.counts().opens, before);
    }

    #[test]
    fn what_is_too_much_goes_the_earliest_first() {
        let disk = SimulatedDisk::new();
        let lsns = log(&disk, 10);
        let segment_bytes = segment_starts(&disk).unwrap()[0].file_bytes;
        [1, 8].into_iter().for_each(|at| snapshot(&disk, lsns[at], segment_bytes));
        let needs = Needs { restart: lsns[9], readers: None };
        // Nine segments and two snapshots are history; five of them fit.
        let retention = Retention { age: None, bytes: 5 * segment_bytes };
        assert_eq!(forget(&disk, &retention, &needs, UnixMs(0)).unwrap(), (5, 1));
        assert_eq!(begins_at(&disk), lsns[5]);
        let retention = Retention { age: None, bytes: 1 };
        assert_eq!(forget(&disk, &retention, &needs, UnixMs(0)).unwrap(), (4, 1));
    }
}
