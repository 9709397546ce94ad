//! A disk in memory, for tests: it fails when it is told to, and its power can be cut, after which
//! it has of what was not synced any part that a real one may have.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard};

use base::prng::Prng;
use rustix::io::Errno;

use crate::storage::{BLOCK_BYTES, Lock, LogFile, Storage};

/// What the disk writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// A disk with one folder. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

/// What a disk does wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// This many writes go well, and those behind them fail.
    pub writes_left: Option<u64>,
    /// This many writes go well, and the disk has no room for those behind them.
    pub writes_until_full: Option<u64>,
    /// This many syncs of files go well; the next fails, and loses what it was to make durable,
    /// while later ones go well again.
    pub syncs_left: Option<u64>,
    /// The bytes that all files may have together.
    pub capacity: Option<u64>,
    /// No write takes more bytes than this, but it ends with a sector: systems take whole pages.
    pub write_bytes_max: Option<usize>,
    /// No file takes writes past a cache.
    pub lacks_block_writes: bool,
    /// So many of those are taken, and none behind them.
    pub block_writes_left: Option<u64>,
    /// No file can be made or opened, and the folder not be read: the process has as many
    /// descriptors as it may have.
    pub lacks_descriptors: bool,
}

impl Faults {
    fn check_descriptors(&self) -> io::Result<()> {
        match self.lacks_descriptors {
            true => Err(Errno::MFILE.into()),
            false => Ok(()),
        }
    }
}

#[derive(Default)]
struct State {
    files: BTreeMap<u64, FileState>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    name_changes: Vec<NameChange>,
    next_file: u64,
    /// Counts power cuts: files opened before one are gone.
    generation: u64,
    is_locked: bool,
    faults: Faults,
    counts: Counts,
}

/// What the disk was asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes.
    pub writes: u64,
    /// Writes of whole blocks past a cache, which are counted as writes too.
    pub block_writes: u64,
    /// The pieces of those.
    pub block_pieces: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// How often it was to be awake.
    pub wakes: u64,
    /// Files opened.
    pub opens: u64,
}

#[derive(Default)]
struct FileState {
    /// As it is read.
    content: Vec<u8>,
    /// As it is on the disk for sure.
    durable: Vec<u8>,
    /// What came between.
    changes: Vec<Change>,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

enum NameChange {
    Added(String, u64),
    Renamed(String, String),
    Removed(String),
}

impl SimulatedDisk {
    /// Returns an empty disk without faults.
    pub fn new() -> SimulatedDisk {
        SimulatedDisk::default()
    }

    /// Has the disk do wrong what `faults` say from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock_state().faults = faults;
    }

    /// Returns what the disk was asked to do.
    pub fn counts(&self) -> Counts {
        self.lock_state().counts
    }

    /// Cuts the power: of what no sync has made durable a part survives that `random` chooses, each
    /// sector by itself. Files and locks of before are of no more use; faults have gone.
    pub fn cut_power(&self, random: &mut Prng) {
        let mut state = self.lock_state();
        let kept = random.below(state.name_changes.len() as u64 + 1) as usize;
        let changes: Vec<NameChange> = state.name_changes.drain(..).take(kept).collect();
        for change in &changes {
            change.apply(&mut state.durable_names);
        }
        state.names = state.durable_names.clone();
        let used: Vec<u64> = state.names.values().copied().collect();
        state.files.retain(|id, _| used.contains(id));
        for file in state.files.values_mut() {
            file.cut_power(random);
        }
        (state.is_locked, state.faults) = (false, Faults::default());
        state.generation += 1;
    }

    /// Returns the names of the files and their contents, in the order of the names.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.lock_state();
        let content = |(name, id): (&String, &u64)| (name.clone(), state.files[id].content.clone());
        state.names.iter().map(content).collect()
    }

    /// Returns a disk that has durable files of these contents.
    pub fn with_contents(contents: &[(String, Vec<u8>)]) -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        let mut state = disk.lock_state();
        for (id, (name, content)) in contents.iter().enumerate() {
            let (content, durable) = (content.clone(), content.clone());
            state.files.insert(id as u64, FileState { content, durable, changes: Vec::new() });
            state.names.insert(name.clone(), id as u64);
        }
        state.next_file = contents.len() as u64;
        state.durable_names = state.names.clone();
        drop(state);
        disk
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the disk panics")
    }

    fn open_file(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let mut state = self.lock_state();
        state.faults.check_descriptors()?;
        let id = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        state.counts.opens += 1;
        Ok(Box::new(SimulatedFile { disk: self.clone(), id, generation: state.generation }))
    }
}

impl State {
    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    /// Writes `bytes`, or a part of them that ends with a multiple of `unit` in the file.
    fn write(&mut self, id: u64, offset: usize, bytes: &[u8], unit: usize) -> io::Result<usize> {
        self.counts.writes += 1;
        if let Some(left) = &mut self.faults.writes_left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the write failed"))?;
        }
        if let Some(left) = &mut self.faults.writes_until_full {
            *left = left.checked_sub(1).ok_or(Errno::NOSPC)?;
        }
        let end = |most: usize| (offset + most).next_multiple_of(unit) - offset;
        let most = self.faults.write_bytes_max.map_or(usize::MAX, end);
        let bytes = &bytes[..bytes.len().min(most)];
        self.check_room(id, offset + bytes.len())?;
        let file = self.files.get_mut(&id).expect("it is there");
        put(&mut file.content, offset, bytes);
        file.changes.push(Change::Write { offset, bytes: bytes.to_vec() });
        Ok(bytes.len())
    }

    fn check_room(&self, id: u64, length: usize) -> io::Result<()> {
        let Some(capacity) = self.faults.capacity else { return Ok(()) };
        // One without a name is kept only as a power cut may give it its name back.
        let is_other = |file: u64| file != id && self.names.values().any(|named| *named == file);
        let of_others = self.files.iter().filter(|(file, _)| is_other(**file));
        let used: usize = of_others.map(|(_, file)| file.content.len()).sum();
        match (used + length.max(self.files[&id].content.len())) as u64 > capacity {
            true => Err(Errno::NOSPC.into()),
            false => Ok(()),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Added(name, id) => {
                names.insert(name.clone(), *id);
            }
            NameChange::Renamed(source, target) => {
                if let Some(id) = names.remove(source) {
                    names.insert(target.clone(), id);
                }
            }
            NameChange::Removed(name) => {
                names.remove(name);
            }
        }
    }
}

impl FileState {
    fn cut_power(&mut self, random: &mut Prng) {
        let changes = std::mem::take(&mut self.changes);
        // Nothing, all, the first ones, or any sectors.
        let mode = random.below(4);
        let first = random.below(changes.len() as u64 + 1) as usize;
        for (index, change) in changes.iter().enumerate() {
            let mut survives = || match mode {
                0 => false,
                1 => true,
                2 => index < first,
                _ => random.below(2) == 0,
            };
            match change {
                Change::Length(length) if survives() => self.durable.resize(*length, 0),
                Change::Length(_) => {}
                Change::Write { offset, bytes } => {
                    for (at, sector) in sectors(*offset, bytes) {
                        if survives() {
                            put(&mut self.durable, at, sector);
                        }
                    }
                }
            }
        }
        self.content = self.durable.clone();
    }

    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            match change {
                Change::Length(length) => self.durable.resize(length, 0),
                Change::Write { offset, bytes } => put(&mut self.durable, offset, &bytes),
            }
        }
    }
}

/// Returns the parts of a write that are in one sector each, with where they begin.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done;
        let count = (SECTOR_BYTES - at % SECTOR_BYTES).min(bytes.len() - done);
        let sector = &bytes[done..done + count];
        done += count;
        (count > 0).then_some((at, sector))
    })
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Storage for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.lock_state();
        state.faults.check_descriptors()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let mut state = self.lock_state();
        state.faults.check_descriptors()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, FileState::default());
        state.change_names(NameChange::Added(name.to_owned(), id));
        drop(state);
        self.open_file(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        self.open_file(name)
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        self.open_file(name)
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        let mut state = self.lock_state();
        if !state.names.contains_key(source) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_names(NameChange::Renamed(source.to_owned(), target.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock_state();
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_names(NameChange::Removed(name.to_owned()));
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.lock_state();
        state.name_changes.clear();
        state.durable_names = state.names.clone();
        // What has no name and nobody may read is no more.
        let used: Vec<u64> = state.names.values().copied().collect();
        state.files.retain(|id, _| used.contains(id));
        Ok(())
    }

    fn lock(&self) -> io::Result<Lock> {
        let mut state = self.lock_state();
        if std::mem::replace(&mut state.is_locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Lock::new(Unlock { disk: self.clone(), generation: state.generation }))
    }
}

/// Gives the disk's lock back.
struct Unlock {
    disk: SimulatedDisk,
    generation: u64,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        let mut state = self.disk.lock_state();
        if state.generation == self.generation {
            state.is_locked = false;
        }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    id: u64,
    generation: u64,
}

impl SimulatedFile {
    fn with<T>(&self, act: impl FnOnce(&mut State, u64) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.lock_state();
        if state.generation != self.generation || !state.files.contains_key(&self.id) {
            return Err(io::Error::other("the file is of before the power cut"));
        }
        act(&mut state, self.id)
    }
}

impl LogFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        self.with(|state, id| Ok(state.files[&id].content.len() as u64))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.with(|state, id| {
            let content = &state.files[&id].content;
            let from = content.get(offset as usize..).unwrap_or_default();
            let count = from.len().min(bytes.len());
            bytes[..count].copy_from_slice(&from[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.with(|state, id| state.write(id, offset as usize, bytes, SECTOR_BYTES))
    }

    fn write_pieces_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.write_at(offset, &bytes)
    }

    fn write_blocks_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let places = pieces.iter().flat_map(|piece| [piece.len(), piece.as_ptr().addr()]);
        let mut places = places.chain([offset as usize]);
        assert!(places.all(|it| it.is_multiple_of(BLOCK_BYTES)), "whole blocks are written");
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.with(|state, id| {
            state.counts.block_writes += 1;
            state.counts.block_pieces += pieces.len() as u64;
            if state.faults.lacks_block_writes {
                return Err(io::ErrorKind::Unsupported.into());
            }
            if let Some(left) = &mut state.faults.block_writes_left {
                *left = left.checked_sub(1).ok_or(io::ErrorKind::Unsupported)?;
            }
            state.write(id, offset as usize, &bytes, BLOCK_BYTES)
        })
    }

    fn wake_disk(&self) -> io::Result<()> {
        self.with(|state, _| {
            state.counts.wakes += 1;
            Ok(())
        })
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.with(|state, id| {
            state.check_room(id, length as usize)?;
            let file = state.files.get_mut(&id).expect("it is there");
            file.content.resize(length as usize, 0);
            file.changes.push(Change::Length(length as usize));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state, id| {
            state.counts.syncs += 1;
            let mut fails = false;
            if let Some(left) = state.faults.syncs_left {
                fails = left == 0;
                state.faults.syncs_left = left.checked_sub(1);
            }
            let file = state.files.get_mut(&id).expect("it is there");
            if fails {
                // As Linux does: what could not be written counts as written from now on.
                file.changes.clear();
                return Err(io::Error::other("the sync failed"));
            }
            file.sync();
            Ok(())
        })
    }
}
