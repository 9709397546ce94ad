//! The writer that never pauses: every kind of change that a reader may see, chosen at random.

use std::sync::Arc;

use arena::{
    ADOPTED_BYTES_MIN, AccessMark, Arena, Encoding, EntryId, LimitPolicy, NeedRoom, NewValue, Slid,
    SlideBudget, SlideStep, Source, Table, ValueType,
};
use base::prng::Prng;
use base::{DatabaseIndex, ShardIndex, UnixMs};

use sys::memfd_segments::OwnedSegments;

use crate::SEGMENT_BYTES;
use crate::content::{
    DATABASE, EXPIRY_BASE, FLUSHED, Growth, KINDS, Kind, STAMP_BYTES, SWAPPED, Stamp, UNCOMMITTED,
    database_of_passed, id, name,
};
use crate::uploads::UploadClient;

/// The bytes of name and value of the keys that blink.
const BLINKING_BYTES: u64 = 120;
/// The longest value that grows.
const GROWN_BYTES_MAX: u64 = 120_000;

/// A change, how often it is chosen, and what it does.
type Operation = (&'static str, u64, fn(&mut Writer));

const OPERATIONS: &[Operation] = &[
    ("small overwritten", 300, Writer::overwrite_small),
    ("small to large to small", 60, Writer::cross),
    ("large replaced", 30, Writer::replace_large),
    ("APPEND", 80, Writer::append),
    ("overwritten over the whole length", 80, Writer::overwrite_whole),
    ("deleted or inserted", 120, Writer::delete_or_insert),
    ("deleted, its memory reused", 150, Writer::blink),
    ("time to live changed", 60, Writer::change_expiry),
    ("MULTI", 30, Writer::transaction),
    ("SWAPDB", 150, Writer::swap),
    ("swapped key overwritten", 60, Writer::overwrite_swapped),
    ("passed to another key", 100, Writer::pass_on),
    ("table grown", 100, Writer::grow),
    ("evacuation", 10, Writer::evacuate),
    ("slide", 80, Writer::slide),
    ("return of segments", 1, Writer::give_back),
    ("adopted value owned", 60, Writer::own),
    ("client of uploads gone", 2, Writer::change_client),
];

/// What changes came to, counted where it shows: that a change was tried proves nothing.
const EFFECTS: [&str; 20] = [
    "sizes changed",
    "appended in place",
    "appended elsewhere",
    "overwritten in place",
    "deleted",
    "tables swapped",
    "buckets split",
    "full tables flushed",
    "pages evacuated",
    "blocks moved",
    "blocks left for a pin",
    "segments given back",
    "segments made",
    "blocks passed to another key",
    "copies passed to another key",
    "values adopted",
    "uploads copied",
    "adopted values owned",
    "clients of uploads gone",
    "pages compacted",
];
const RESIZED: usize = 0;
const APPENDED_IN_PLACE: usize = 1;
const APPENDED_ELSEWHERE: usize = 2;
const OVERWRITTEN_IN_PLACE: usize = 3;
const DELETED: usize = 4;
const TABLES_SWAPPED: usize = 5;
const SPLIT: usize = 6;
const FLUSHED_FULL: usize = 7;
const EVACUATED: usize = 8;
const MOVED: usize = 9;
const LEFT_FOR_PIN: usize = 10;
const SEGMENTS_RETURNED: usize = 11;
const SEGMENTS_MADE: usize = 12;
const PASSED_AS_BLOCK: usize = 13;
const PASSED_AS_COPY: usize = 14;
const ADOPTED: usize = 15;
const UPLOADED: usize = 16;
const OWNED: usize = 17;
const CLIENTS_GONE: usize = 18;
const COMPACTED: usize = 19;

pub struct Writer {
    arena: Arc<Arena>,
    segments: Arc<OwnedSegments>,
    /// Where large values come from now and then.
    client: Option<UploadClient>,
    clients: u64,
    tables: Vec<Table>,
    random: Prng,
    version: u64,
    growth: Vec<Growth>,
    /// Entries of the flushed database, and how many it gets before it is flushed.
    grown: (u64, u64),
    generation: u64,
    name: Vec<u8>,
    value: Vec<u8>,
    /// How often each of `OPERATIONS` was chosen.
    choices: [u64; OPERATIONS.len()],
    effects: [u64; EFFECTS.len()],
    weights: u64,
    epoch_at_start: u64,
}

impl Writer {
    /// Fills the databases: every key that is never absent is there afterwards.
    pub fn new(arena: Arc<Arena>, segments: Arc<OwnedSegments>, seed: u64) -> Writer {
        let table = |database| {
            let database = DatabaseIndex(database);
            Table::new(arena.clone(), ShardIndex(0), database, LimitPolicy::Limited)
                .expect("there is room")
        };
        let mut writer = Writer {
            tables: (0..5).map(table).collect(),
            epoch_at_start: 0,
            client: None,
            clients: 0,
            segments,
            arena,
            random: Prng::new(seed),
            version: 0,
            growth: vec![Growth::default(); KINDS[Kind::Grown as usize].1 as usize],
            grown: (0, 50),
            generation: 1,
            name: Vec::new(),
            value: Vec::new(),
            choices: [0; OPERATIONS.len()],
            effects: [0; EFFECTS.len()],
            weights: OPERATIONS.iter().map(|operation| operation.1).sum(),
        };
        for (kind, count, _) in KINDS {
            for index in 0..count {
                match kind {
                    Kind::Grown => writer.append_to(index),
                    Kind::Swapped => (0..2).for_each(|side| writer.write_swapped(side, index)),
                    Kind::Paired => writer.set(kind, index, 40 + index, 0),
                    Kind::Passed if index > 0 => {
                        writer.retry(|writer| writer.pass_from(index - 1, true));
                    }
                    _ => writer.set(kind, index, 60, 0),
                }
            }
        }
        // The two sides differ in size, so that a reader that mixes them up goes astray.
        for index in 0..2000 {
            writer.set_in(SWAPPED[0], Kind::Flushed, index, 40, 0);
        }
        writer.epoch_at_start = writer.arena.segment_epoch();
        writer.effects = [0; EFFECTS.len()];
        writer
    }

    /// Makes one change.
    pub fn step(&mut self) {
        let mut chosen = self.random.below(self.weights);
        for (index, (_, weight, change)) in OPERATIONS.iter().enumerate() {
            if chosen < *weight {
                self.choices[index] += 1;
                return change(self);
            }
            chosen -= weight;
        }
    }

    /// Returns how often each kind of change was chosen, and what the changes came to.
    pub fn report(&self) -> String {
        let line = |(name, count)| format!("{count:>12} {name}\n");
        let mut report: String = self.counts().into_iter().map(line).collect();
        let moved = self.tables.iter().map(Table::moved_entries_max).max().unwrap_or(0);
        report.push_str(&line(("entries moved at most by one change", moved)));
        report
    }

    /// Returns the kinds of change of which there was none.
    pub fn absent(&self) -> Vec<&'static str> {
        self.counts().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut effects = self.effects;
        // Each segment made and each given back is one epoch.
        let epochs = self.arena.segment_epoch() - self.epoch_at_start;
        effects[SEGMENTS_MADE] = epochs.saturating_sub(effects[SEGMENTS_RETURNED]);
        let names = OPERATIONS.iter().map(|operation| operation.0);
        names.zip(self.choices).chain(EFFECTS.into_iter().zip(effects)).collect()
    }

    fn key(&mut self, kind: Kind) -> u64 {
        self.random.below(KINDS[kind as usize].1)
    }

    fn overwrite_small(&mut self) {
        let (index, length) = (self.key(Kind::Hot), STAMP_BYTES + self.random.below(270));
        self.set(Kind::Hot, index, length, 0);
    }

    fn cross(&mut self) {
        let index = self.key(Kind::Cross);
        let length = match self.random.below(4) {
            0 => STAMP_BYTES + self.random.below(300),
            1 => 3000 + self.random.below(1500),
            2 => 5000,
            _ => 5000 + self.random.below(20_000),
        };
        self.set(Kind::Cross, index, length, 0);
    }

    fn replace_large(&mut self) {
        let (index, length) = (self.key(Kind::Large), 4200 + self.random.below(60_000));
        self.set(Kind::Large, index, length, 0);
    }

    fn append(&mut self) {
        let index = self.key(Kind::Grown);
        self.append_to(index);
    }

    fn append_to(&mut self, index: u64) {
        let key = id(Kind::Grown, index);
        let before = self.growth[index as usize];
        let mut growth = before;
        let from = if before.words * 8 > GROWN_BYTES_MAX || before.words == 0 {
            growth = Growth { round: before.round + 1, words: 2 + self.random.below(700) };
            0
        } else {
            growth.words += 1 + self.random.below(400);
            before.words
        };
        self.value.clear();
        growth.write(key, from, &mut self.value);
        self.growth[index as usize] = growth;
        name(Kind::Grown, index, &mut self.name);
        match from {
            0 => self.store(DATABASE),
            _ => self.retry(|writer| {
                let hash = writer.arena.hasher().hash(&writer.name);
                let table = &mut writer.tables[usize::from(DATABASE)];
                let id = table.find(hash, &writer.name).expect("it was appended to before");
                let place = table.entry(id).value_offset();
                let id = table.append(id, &writer.value, Encoding::Raw)?;
                let stayed = place == table.entry(id).value_offset();
                let effect = if stayed { APPENDED_IN_PLACE } else { APPENDED_ELSEWHERE };
                writer.effects[effect] += 1;
                Ok(())
            }),
        }
    }

    fn overwrite_whole(&mut self) {
        let index = self.key(Kind::Written);
        let length = if index.is_multiple_of(2) { 200 + index } else { 9000 + index };
        self.stamp(Kind::Written, index, length, 0);
        self.retry(|writer| {
            let (id, table) = writer.find(DATABASE).expect("it is never deleted");
            let table = &mut writer.tables[table];
            let place = table.entry(id).value_offset();
            // One that grows may get bytes behind the value, which no stamp has.
            let has_length = table.entry(id).value().len() as u64 == length;
            let id = match index.is_multiple_of(4) && has_length {
                true => table.rewrite(id, &writer.name, &writer.value, Encoding::Raw)?,
                false => table.overwrite(id, 0, &writer.value, Encoding::Raw)?,
            };
            if place == table.entry(id).value_offset() {
                writer.effects[OVERWRITTEN_IN_PLACE] += 1;
            }
            Ok(())
        });
    }

    fn delete_or_insert(&mut self) {
        let index = self.key(Kind::Gone);
        let removes = self.random.one_in(2);
        // Runs of neighbours, so that pages of one class empty and are evacuated.
        for index in index..(index + 8).min(KINDS[Kind::Gone as usize].1) {
            if removes {
                name(Kind::Gone, index, &mut self.name);
                self.remove(DATABASE);
            } else {
                let length = if index % 50 == 0 { 6000 } else { STAMP_BYTES + index % 64 };
                self.set(Kind::Gone, index, length, 0);
            }
        }
    }

    /// Deletes a key and inserts another, whose entry has the same size: it gets the same memory.
    fn blink(&mut self) {
        let (gone, come) = (self.key(Kind::Blinking), self.key(Kind::Blinking));
        name(Kind::Blinking, gone, &mut self.name);
        self.remove(DATABASE);
        name(Kind::Blinking, come, &mut self.name);
        let length = BLINKING_BYTES - self.name.len() as u64;
        self.set(Kind::Blinking, come, length, 0);
    }

    fn change_expiry(&mut self) {
        let index = self.key(Kind::Lasting);
        let length = if index.is_multiple_of(2) { 90 } else { 6000 };
        if self.random.one_in(3) {
            return self.set(Kind::Lasting, index, length, 0);
        }
        self.version += 1;
        let expiry = match self.random.below(3) {
            0 => None,
            _ => Some(UnixMs(EXPIRY_BASE + self.version as i64)),
        };
        name(Kind::Lasting, index, &mut self.name);
        self.retry(|writer| {
            let (id, table) = writer.find(DATABASE).expect("it is never deleted");
            writer.tables[table].set_expiry(id, expiry).map(drop)
        });
    }

    fn transaction(&mut self) {
        let count = KINDS[Kind::Paired as usize].1;
        self.tables[usize::from(DATABASE)].freeze();
        for mark in [UNCOMMITTED, 0] {
            (0..count).for_each(|index| self.set(Kind::Paired, index, 40 + index, mark));
        }
        self.tables[usize::from(DATABASE)].thaw();
    }

    fn swap(&mut self) {
        let identity = self.tables[usize::from(SWAPPED[0])].identity();
        let (low, high) = self.tables.split_at_mut(usize::from(SWAPPED[1]));
        Table::swap(&mut low[usize::from(SWAPPED[0])], &mut high[0]);
        if self.tables[usize::from(SWAPPED[0])].identity() != identity {
            self.effects[TABLES_SWAPPED] += 1;
        }
    }

    fn overwrite_swapped(&mut self) {
        let (side, index) = (self.random.below(2), self.key(Kind::Swapped));
        self.write_swapped(side, index);
    }

    /// Writes the key where `side` is now.
    fn write_swapped(&mut self, side: u64, index: u64) {
        let here = u64::from(self.tables[usize::from(SWAPPED[0])].identity() != SWAPPED[0]);
        let database = SWAPPED[usize::from(here != side)];
        let length = STAMP_BYTES + self.random.below(100);
        self.set_in(database, Kind::Swapped, index, length, side);
    }

    fn pass_on(&mut self) {
        let source = self.random.below(KINDS[Kind::Passed as usize].1 - 1);
        if source == 0 {
            self.renew_passed();
        }
        let is_copy = self.random.one_in(4);
        self.retry(|writer| writer.pass_from(source, is_copy));
    }

    /// Gives the first of the row a new value, with a time to live or not.
    fn renew_passed(&mut self) {
        let length = match self.random.below(4) {
            0 => STAMP_BYTES + self.random.below(300),
            _ => 4200 + self.random.below(20_000),
        };
        self.set(Kind::Passed, 0, length, 0);
        let expiry = self.random.one_in(2).then_some(UnixMs(EXPIRY_BASE + self.version as i64));
        self.retry(|writer| {
            let (id, table) = writer.find(DATABASE).expect("it was set just now");
            writer.tables[table].set_expiry(id, expiry).map(drop)
        });
    }

    /// Gives what the key `source` of the row has to the next one, as RENAME and MOVE do, or a copy
    /// of it, as COPY does. Readers go away meanwhile.
    fn pass_from(&mut self, source: u64, is_copy: bool) -> Result<(), NeedRoom> {
        let [from, to] = [source, source + 1].map(|index| usize::from(database_of_passed(index)));
        let mut frozen = vec![from, to];
        frozen.dedup();
        for &table in &frozen {
            self.tables[table].freeze();
            self.tables[table].set_overshoot(true);
        }
        let passed = self.pass_frozen(source, [from, to], is_copy);
        for &table in &frozen {
            self.tables[table].set_overshoot(false);
            self.tables[table].thaw();
        }
        passed
    }

    fn pass_frozen(
        &mut self,
        source: u64,
        [from, to]: [usize; 2],
        is_copy: bool,
    ) -> Result<(), NeedRoom> {
        let mut target = Vec::new();
        name(Kind::Passed, source, &mut self.name);
        name(Kind::Passed, source + 1, &mut target);
        self.tables[to].prepare_adoption()?;
        let Some((id, _)) = self.find(from as u8) else { return Ok(()) };
        let hash = self.arena.hasher().hash(&target);
        let detached = if is_copy { None } else { self.tables[from].detach(id, &target) };
        if let Some(detached) = detached {
            let table = &mut self.tables[to];
            if let Some(id) = table.find(hash, &target) {
                table.remove_for_adoption(id);
            }
            table.adopt(hash, &target, detached);
            self.tables[from].settle();
            self.effects[PASSED_AS_BLOCK] += 1;
            return Ok(());
        }
        let entry = self.tables[from].entry(id);
        let mut bytes = Vec::new();
        let bytes = entry.value_or_copy(&mut bytes).to_vec();
        let expiry = entry.expiry();
        let (value_type, encoding) = (ValueType::String, Encoding::Raw);
        let mark = AccessMark::default();
        let value = NewValue { bytes: &bytes, value_type, encoding, expiry, mark };
        let table = &mut self.tables[to];
        match table.find(hash, &target) {
            Some(id) => table.replace(id, &target, &value)?,
            None => table.insert(hash, &target, &value)?,
        };
        if !is_copy {
            self.remove(from as u8);
        }
        self.effects[PASSED_AS_COPY] += 1;
        Ok(())
    }

    /// Adds to the database that grows, and flushes it when it has enough.
    fn grow(&mut self) {
        if self.grown.0 >= self.grown.1 {
            self.flush();
        }
        for _ in self.grown.0..self.grown.1.min(self.grown.0 + 100) {
            let index = self.grown.0;
            // Sizes differ from one generation to the next, so that memory gets other keys.
            let length = match index % 500 {
                7 => 5000,
                _ => STAMP_BYTES + (index * 7 + self.generation * 11) % 64,
            };
            let buckets = self.tables[usize::from(FLUSHED)].bucket_count();
            self.set_in(FLUSHED, Kind::Flushed, index, length, self.generation);
            let buckets_after = self.tables[usize::from(FLUSHED)].bucket_count();
            self.effects[SPLIT] += buckets_after.saturating_sub(buckets);
            self.grown.0 += 1;
        }
    }

    fn flush(&mut self) {
        let table = &mut self.tables[usize::from(FLUSHED)];
        let was_full = !table.is_empty();
        table.clear();
        if was_full && table.is_empty() {
            self.effects[FLUSHED_FULL] += 1;
        }
        self.generation += 1;
        let limit = match self.random.below(100) {
            0 => 20_000,
            1..4 => 3000,
            4..20 => 100 + self.random.below(500),
            _ => 2 + self.random.below(14),
        };
        self.grown = (0, limit);
    }

    fn evacuate(&mut self) {
        for table in &mut self.tables {
            self.effects[EVACUATED] += u64::from(table.evacuate());
        }
        self.effects[COMPACTED] = self.tables.iter().map(Table::compacted_pages).sum();
    }

    /// Looks for a size for which blocks must be moved, and moves some.
    fn slide(&mut self) {
        for bytes in [40_000, 80_000, 160_000, 320_000, 640_000] {
            let mut budget = SlideBudget::new();
            let bytes = bytes + self.random.below(bytes);
            for _ in 0..8 {
                let Some(step) = self.arena.plan_slide(bytes, &mut budget) else { break };
                self.slide_once(&step, &mut budget);
            }
        }
    }

    fn slide_once(&mut self, step: &SlideStep, budget: &mut SlideBudget) {
        let owner = step.owner.database;
        let table = self.tables.iter_mut().find(|table| table.identity() == owner);
        match table.expect("every table is here").slide(step) {
            Slid::Moved => self.effects[MOVED] += 1,
            Slid::Gone => {}
            Slid::Pinned => {
                self.effects[LEFT_FOR_PIN] += 1;
                budget.avoid(step);
            }
        }
    }

    fn give_back(&mut self) {
        // No limit, and two that make copies of some views.
        self.arena.limit_views(self.random.below(3) * 100_000);
        self.arena.reclaim();
        self.effects[SEGMENTS_RETURNED] += self.arena.give_back(u64::MAX) / SEGMENT_BYTES;
    }

    fn set(&mut self, kind: Kind, index: u64, length: u64, mark: u64) {
        self.set_in(DATABASE, kind, index, length, mark);
    }

    fn set_in(&mut self, database: u8, kind: Kind, index: u64, length: u64, mark: u64) {
        self.stamp(kind, index, length, mark);
        self.store(database);
    }

    /// Prepares the name and a value of the next version.
    fn stamp(&mut self, kind: Kind, index: u64, length: u64, mark: u64) {
        self.version += 1;
        name(kind, index, &mut self.name);
        let stamp = Stamp { key: id(kind, index), version: self.version, mark, length };
        stamp.write(&mut self.value);
    }

    /// Stores the prepared value under the prepared name; a large one is often uploaded first.
    fn store(&mut self, database: u8) {
        if self.value.len() as u64 >= ADOPTED_BYTES_MIN
            && self.random.one_in(2)
            && let Some(offset) = self.client.as_ref().and_then(|it| it.upload(&self.value))
        {
            let stays = !self.random.one_in(4);
            return self.retry(|writer| writer.commit(database, offset, stays));
        }
        self.retry(|writer| {
            let length = writer.value.len() as u64;
            let hash = writer.arena.hasher().hash(&writer.name);
            let table = &mut writer.tables[usize::from(database)];
            let (value_type, encoding) = (ValueType::String, Encoding::Raw);
            let bytes = &writer.value;
            let value =
                NewValue { bytes, value_type, encoding, expiry: None, mark: AccessMark::default() };
            match table.find(hash, &writer.name) {
                Some(id) => {
                    let resized = table.entry(id).value_length() != length;
                    table.replace(id, &writer.name, &value)?;
                    writer.effects[RESIZED] += u64::from(resized);
                    Ok(())
                }
                None => table.insert(hash, &writer.name, &value).map(drop),
            }
        });
    }

    /// Stores the prepared value, which is at `offset` of the upload memory, copied or as it lies.
    fn commit(&mut self, database: u8, offset: u64, stays: bool) -> Result<(), NeedRoom> {
        let client = self.client.as_ref().expect("it has uploaded the value");
        let claim = client.uploader(&self.arena).claim(offset, self.value.len() as u64);
        let claim = claim.expect("it was allocated just now");
        let source = Source::Uploaded(claim.uploaded(stays));
        let (value_type, encoding) = (ValueType::String, Encoding::Raw);
        let mark = AccessMark::default();
        let value = NewValue { bytes: &[], value_type, encoding, expiry: None, mark };
        let hash = self.arena.hasher().hash(&self.name);
        let table = &mut self.tables[usize::from(database)];
        match table.find(hash, &self.name) {
            Some(id) => table.replace_from(id, &self.name, source, &value)?,
            None => table.insert_from(hash, &self.name, source, &value)?,
        };
        if stays {
            claim.finish_adoption();
            self.effects[ADOPTED] += 1;
        } else {
            claim.finish_copy();
            self.effects[UPLOADED] += 1;
        }
        Ok(())
    }

    /// Copies an adopted value to memory that no client can write, by the table or beside it.
    fn own(&mut self) {
        let kind = if self.random.one_in(2) { Kind::Large } else { Kind::Lasting };
        let index = self.key(kind);
        name(kind, index, &mut self.name);
        self.retry(|writer| {
            let Some((id, table)) = writer.find(DATABASE) else { return Ok(()) };
            let is_beside = writer.random.one_in(2);
            let table = &mut writer.tables[table];
            let was_adopted = table.entry(id).is_adopted();
            match table.hold_adopted(id).filter(|_| is_beside) {
                Some(held) => {
                    let mut copy = writer.arena.copy_adopted(writer.name.len() as u64, &held)?;
                    table.own_with(id, held, &mut copy)?;
                }
                None => table.own(id)?,
            }
            writer.effects[OWNED] += u64::from(was_adopted);
            Ok(())
        });
    }

    /// Lets the client go, and another one come where its memory has been given back.
    fn change_client(&mut self) {
        self.effects[CLIENTS_GONE] += u64::from(self.client.take().is_some());
        self.clients += 1;
        self.client = UploadClient::begin(&self.arena, &self.segments, self.clients);
    }

    fn remove(&mut self, database: u8) {
        if let Some((id, table)) = self.find(database) {
            let table = &mut self.tables[table];
            let count = table.len();
            table.remove(id);
            self.effects[DELETED] += count - table.len();
        }
    }

    fn find(&self, database: u8) -> Option<(EntryId, usize)> {
        let hash = self.arena.hasher().hash(&self.name);
        let table = usize::from(database);
        Some((self.tables[table].find(hash, &self.name)?, table))
    }

    /// Makes room once where `change` lacks it.
    fn retry(&mut self, change: impl Fn(&mut Writer) -> Result<(), NeedRoom>) {
        if change(self).is_ok() {
            return;
        }
        let (name, value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
        self.flush();
        self.give_back();
        (self.name, self.value) = (name, value);
        change(self).expect("there is room after a flush");
    }
}
