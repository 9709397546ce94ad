//! Moves values to another key or another database: RENAME, MOVE, COPY.
//!
//! A large string that only changes its key stays where it lies, and so do the elements of a large
//! collection; other values are copied. No client sees an intermediate state: the locks are held,
//! and readers in other processes are kept out of both tables.

use arena::{AccessMark, Cost, Encoding, Entry, EntryId, HeldValue, NeedRoom, NewValue, ValueType};
use base::{DatabaseIndex, Key, UnixMs};
use collections::{Collection, Compact};
use effects::{Cause, Effect, EventClass};

use crate::object::{compact_in, compact_of, copy_of, fits_entry, handle_of};
use crate::scratch::SCRATCH_BYTES_MIN;
use crate::snapshot::MovedWalk;
use crate::write::{KeyWriter, WriteView};

/// The longest string that is moved without memory of its own, in bytes.
const SHORT_BYTES_MAX: usize = 64;

/// A key of a database.
#[derive(Clone, Copy)]
struct KeyLocation<'a> {
    database: DatabaseIndex,
    key: &'a Key<'a>,
}

/// A value that is stored once more.
struct MovedValue {
    value: Value,
    value_type: ValueType,
    encoding: Encoding,
    expiry: Option<UnixMs>,
    mark: AccessMark,
    cost: Cost,
}

/// What became of a value that was to be at another key, or in another database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is there now.
    Done,
    /// There is none.
    NoSource,
    /// Another one is there, which was not to be replaced.
    TargetTaken,
    /// It is a long one, and was not to be moved.
    IsLong,
}

/// What may be done to move a value.
#[derive(Clone, Copy, Debug)]
pub struct MoveTerms {
    /// What is at the other place may be replaced.
    pub may_replace: bool,
    /// A string may be moved that is too long for a slab page: it may have to be copied.
    pub may_be_long: bool,
}

impl MoveTerms {
    const ANY: MoveTerms = MoveTerms { may_replace: true, may_be_long: true };
}

enum Value {
    /// A string, or a small collection.
    InEntry(Bytes),
    /// One in private memory; `None` once it is stored.
    Collection(Option<Collection>),
}

/// The bytes of a value that lies in its entry.
enum Bytes {
    /// A large one, where it lies.
    Held(HeldValue),
    /// A short one, and its length.
    Short([u8; SHORT_BYTES_MAX], usize),
    Long(Box<[u8]>),
}

impl Bytes {
    /// Returns a copy of `string`.
    fn copied(string: &[u8]) -> Bytes {
        if string.len() > SHORT_BYTES_MAX {
            return Bytes::Long(string.into());
        }
        let mut bytes = [0; SHORT_BYTES_MAX];
        bytes[..string.len()].copy_from_slice(string);
        Bytes::Short(bytes, string.len())
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Held(held) => held.as_ref(),
            Bytes::Short(bytes, length) => &bytes[..*length],
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl WriteView<'_> {
    /// Makes `target`, another key, what `source` is, in place of what it was; `source` is gone.
    /// Returns whether it was there.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn rename(&mut self, source: &Key<'_>, target: &Key<'_>) -> Result<bool, NeedRoom> {
        Ok(self.rename_on(MoveTerms::ANY, source, target)? == Moved::Done)
    }

    /// As [`WriteView::rename`], where `terms` allow it; else nothing changes.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn rename_on(
        &mut self,
        terms: MoveTerms,
        source: &Key<'_>,
        target: &Key<'_>,
    ) -> Result<Moved, NeedRoom> {
        let database = self.database();
        let effect = Effect::Rename { source: source.bytes, target: target.bytes };
        let [source, target] = [source, target].map(|key| KeyLocation { database, key });
        self.relocate(terms, source, target, effect)
    }

    /// Takes `key` to `database`, another one, in place of what it is there. Returns whether it was
    /// there to be taken.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn move_to(&mut self, key: &Key<'_>, database: DatabaseIndex) -> Result<bool, NeedRoom> {
        Ok(self.move_on(MoveTerms::ANY, key, database)? == Moved::Done)
    }

    /// As [`WriteView::move_to`], where `terms` allow it; else nothing changes.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn move_on(
        &mut self,
        terms: MoveTerms,
        key: &Key<'_>,
        database: DatabaseIndex,
    ) -> Result<Moved, NeedRoom> {
        let effect = Effect::Move { key: key.bytes, database };
        let source = KeyLocation { database: self.database(), key };
        self.relocate(terms, source, KeyLocation { database, key }, effect)
    }

    fn relocate(
        &mut self,
        terms: MoveTerms,
        source: KeyLocation<'_>,
        target: KeyLocation<'_>,
        effect: Effect<'_>,
    ) -> Result<Moved, NeedRoom> {
        let has_two_tables =
            source.key.shard != target.key.shard || source.database != target.database;
        if has_two_tables
            && let Some(moved) = self.move_entry(terms.may_replace, source, target, effect)?
        {
            return Ok(moved);
        }
        if !terms.may_replace && self.at(target).live(target.key).is_some() {
            let is_there = self.at(source).live(source.key).is_some();
            return Ok(if is_there { Moved::TargetTaken } else { Moved::NoSource });
        }
        if !terms.may_be_long {
            let mut writer = self.at(source);
            let Some(id) = writer.live(source.key) else { return Ok(Moved::NoSource) };
            if is_long(&writer.part().table.entry(id)) {
                return Ok(Moved::IsLong);
            }
        }
        let was_there = self.move_value(source, target, effect)?;
        Ok(if was_there { Moved::Done } else { Moved::NoSource })
    }

    /// Makes `target` of `database` what `source` is, in place of what it was. Returns whether
    /// `source` was there.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn copy_to(
        &mut self,
        source: &Key<'_>,
        target: &Key<'_>,
        database: DatabaseIndex,
    ) -> Result<bool, NeedRoom> {
        let from = KeyLocation { database: self.database(), key: source };
        let mut writer = self.at(from);
        let Some(id) = writer.live(source) else { return Ok(false) };
        writer.mark_used(source, id);
        let mut moved = writer.read_value(id);
        moved.mark = writer.shard.published.tracking.first(writer.now);
        let to = KeyLocation { database, key: target };
        let mut writer = self.at(to);
        let found = writer.live(target);
        writer.store_moved(target, found, &mut moved)?;
        let effect = Effect::Copy { source: source.bytes, target: target.bytes, database };
        self.at(from).emit(EventClass::Generic, effect);
        self.at(to).notify_watchers(target, true);
        Ok(true)
    }

    /// Returns whether `key` exists in `database`, without marking it as used.
    pub fn contains_in(&mut self, database: DatabaseIndex, key: &Key<'_>) -> bool {
        self.at(KeyLocation { database, key }).live(key).is_some()
    }

    /// Returns how much what `key` holds takes where there is no room for it a second time: memory
    /// would pass the limit by more than `overshoot` bytes.
    pub fn lacks_room_for_copy(&mut self, key: &Key<'_>, overshoot: u64) -> Option<u64> {
        let mut writer = self.at(KeyLocation { database: self.database(), key });
        if !writer.shard.account().is_limited() {
            return None;
        }
        let id = writer.live(key)?;
        let bytes = writer.part().object(id).memory_bytes();
        writer.shard.lacks_room(bytes, overshoot).then_some(bytes)
    }

    fn at(&mut self, location: KeyLocation<'_>) -> KeyWriter<'_> {
        self.writer_in(location.database, location.key)
    }

    /// As [`WriteView::move_value`], to another table, of a value that lies in a slab page: what
    /// happens to the one table moves nothing in the other, so that each place is looked up once.
    /// `None` where the value is another one; nothing but an expired key is gone then.
    fn move_entry(
        &mut self,
        may_replace: bool,
        source: KeyLocation<'_>,
        target: KeyLocation<'_>,
        effect: Effect<'_>,
    ) -> Result<Option<Moved>, NeedRoom> {
        let mut writer = self.at(source);
        let Some(id) = writer.live(source.key) else { return Ok(Some(Moved::NoSource)) };
        let entry = writer.part().table.entry(id);
        if entry.header().is_large() || handle_of(&entry).is_some() {
            return Ok(None);
        }
        let bytes = entry.memory_bytes();
        writer.part().table.prefetch_page(id);
        writer.mark_used(source.key, id);
        let mut moved = writer.moved_value(id, None);
        let mut writer = self.at(target);
        let found = writer.live(target.key);
        if found.is_some() && !may_replace {
            return Ok(Some(Moved::TargetTaken));
        }
        let is_alone = !writer.recorder.is_atomic();
        if is_alone {
            writer.shard.ensure_database(target.database, writer.recorder)?;
            self.hide([source, target]);
            writer = self.at(target);
        }
        let stored = writer.store_moved(target.key, found, &mut moved);
        if stored.is_ok() {
            writer.notify_watchers(target.key, true);
            let mut writer = self.at(source);
            writer.drop_entry_at(source.key, id, bytes);
            writer.emit(EventClass::Generic, effect);
            writer.notify_watchers(source.key, false);
        }
        if is_alone {
            self.show([source, target]);
        }
        stored.map(|()| Some(Moved::Done))
    }

    /// Hides the tables of two places from readers in other processes. Within an atomic record they
    /// see neither before its end anyway.
    fn hide(&mut self, places: [KeyLocation<'_>; 2]) {
        places.iter().for_each(|place| self.at(*place).shard.hide(place.database));
    }

    /// Undoes [`WriteView::hide`].
    fn show(&mut self, places: [KeyLocation<'_>; 2]) {
        places.iter().for_each(|place| self.at(*place).shard.show(place.database));
    }

    /// Gives what `source` holds to `target`.
    fn move_value(
        &mut self,
        source: KeyLocation<'_>,
        target: KeyLocation<'_>,
        effect: Effect<'_>,
    ) -> Result<bool, NeedRoom> {
        if self.at(source).live(source.key).is_none() {
            return Ok(false);
        }
        // Where it has expired it is removed first, with an effect of its own; other entries may
        // move then.
        self.at(target).live(target.key);
        let mut writer = self.at(source);
        let id = writer.live(source.key).expect("it was there just now");
        writer.mark_used(source.key, id);
        let writer = self.at(target);
        writer.shard.ensure_database(target.database, writer.recorder)?;
        let is_alone = !self.recorder.is_atomic();
        if is_alone {
            self.hide([source, target]);
        }
        let moved = self.move_value_hidden(source, id, target);
        if is_alone {
            self.show([source, target]);
        }
        moved?;
        let mut writer = self.at(source);
        writer.emit(EventClass::Generic, effect);
        writer.notify_watchers(source.key, false);
        self.at(target).notify_watchers(target.key, true);
        Ok(true)
    }

    /// As [`WriteView::move_value`] of the entry at `id`, while nobody looks.
    fn move_value_hidden(
        &mut self,
        source: KeyLocation<'_>,
        id: EntryId,
        target: KeyLocation<'_>,
    ) -> Result<(), NeedRoom> {
        let mut writer = self.at(source);
        let entry = writer.part().table.entry(id);
        let may_stay = is_long(&entry);
        if may_stay && self.adopt(source, target)? {
            return Ok(());
        }
        let mut writer = self.at(source);
        let id = match may_stay {
            true => writer.live(source.key).expect("it was there before"),
            false => id,
        };
        let bytes = writer.part().object(id).memory_bytes();
        let (mut moved, walk) = writer.take_value(id);
        let mut writer = self.at(target);
        let found = writer.live(target.key);
        if let Err(need) = writer.store_moved(target.key, found, &mut moved) {
            let mut writer = self.at(source);
            writer.give_back(source.key, moved);
            writer.continue_walk(source.key, walk);
            return Err(need);
        }
        writer.continue_walk(target.key, walk);
        self.at(source).drop_entry(source.key, bytes);
        Ok(())
    }

    /// As [`WriteView::move_value_hidden`], for a value that may stay where it lies; returns
    /// whether it may.
    fn adopt(
        &mut self,
        source: KeyLocation<'_>,
        target: KeyLocation<'_>,
    ) -> Result<bool, NeedRoom> {
        self.at(target).part().table.prepare_adoption()?;
        let mut writer = self.at(source);
        let id = writer.live(source.key).expect("it was there before");
        let part = writer.part();
        let (bytes, mark) = (part.table.entry(id).memory_bytes(), part.table.entry(id).mark());
        let Some(detached) = part.table.detach(id, target.key.bytes) else { return Ok(false) };
        part.slots.remove(source.key.slot, bytes);
        writer.tell_removed(source.key, mark, bytes, Cause::Command);
        let mut writer = self.at(target);
        if let Some(id) = writer.live(target.key) {
            writer.remove_for_adoption(target.key, id);
        }
        let part = writer.part();
        let id = part.table.adopt(target.key.hash, target.key.bytes, detached);
        let bytes = part.table.entry(id).memory_bytes();
        part.slots.add(target.key.slot, bytes);
        writer.tell_inserted(target.key, id);
        writer.shard.publish_counts(target.database);
        writer.appear(target.key);
        let writer = self.at(source);
        writer.shard.settle(source.database);
        Ok(true)
    }
}

/// Returns whether `entry` holds a string that is too long for a slab page.
fn is_long(entry: &Entry<'_>) -> bool {
    entry.header().is_large() && handle_of(entry).is_none()
}

impl KeyWriter<'_> {
    /// Returns what the entry at `id` holds, which stays there; a large string is held where it
    /// lies.
    fn read_value(&mut self, id: EntryId) -> MovedValue {
        let part = self.part();
        let handle = handle_of(&part.table.entry(id));
        let collection = handle.map(|handle| part.store.get(handle).clone());
        let value = collection.map(|collection| Value::Collection(Some(collection)));
        self.moved_value(id, value)
    }

    /// Returns what the entry at `id` holds; a collection is not there any more, and with it goes
    /// how far a snapshot is.
    fn take_value(&mut self, id: EntryId) -> (MovedValue, Option<MovedWalk>) {
        let part = self.part();
        let handle = handle_of(&part.table.entry(id));
        let mut collection = handle.map(|handle| part.store.take(handle));
        let walk = collection.as_mut().and_then(|collection| self.shard.take_walk(collection));
        let value = collection.map(|collection| Value::Collection(Some(collection)));
        (self.moved_value(id, value), walk)
    }

    /// Has a snapshot go on through the collection that was stored at `key`, as far as it was with
    /// it at the other place.
    fn continue_walk(&mut self, key: &Key<'_>, walk: Option<MovedWalk>) {
        let Some(walk) = walk else { return };
        let table = &self.part().table;
        let id = table.find(key.hash, key.bytes).expect("it was stored just now");
        let handle = handle_of(&table.entry(id)).expect("what is compact is not gone through");
        self.shard.continue_walk(walk, self.database, handle);
    }

    /// Returns `value`, or the bytes of the entry at `id`, with what that is like.
    fn moved_value(&mut self, id: EntryId, value: Option<Value>) -> MovedValue {
        let table = &self.part().table;
        let entry = table.entry(id);
        let value = value.unwrap_or_else(|| match table.hold(id) {
            Some(held) => Value::InEntry(Bytes::Held(held)),
            None => {
                let compact = compact_of(&entry);
                Value::InEntry(Bytes::copied(compact.map_or_else(|| entry.value(), Compact::bytes)))
            }
        });
        let (value_type, encoding) = (entry.value_type(), entry.encoding());
        let (expiry, mark, cost) = (entry.expiry(), entry.mark(), entry.cost());
        MovedValue { value, value_type, encoding, expiry, mark, cost }
    }

    /// Stores `moved` over the entry at `found`, which is that of `key`, or as a new one, without
    /// an effect; leaves it as it is where there is no room.
    fn store_moved(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        moved: &mut MovedValue,
    ) -> Result<(), NeedRoom> {
        let MovedValue { value, value_type, encoding, expiry, mark, cost } = moved;
        let (value_type, encoding, expiry, mark) = (*value_type, *encoding, *expiry, *mark);
        let new = |bytes| NewValue { bytes, value_type, encoding, expiry, mark };
        match value {
            Value::InEntry(bytes) => {
                let bytes = bytes.as_slice();
                let compact = compact_in(encoding, bytes);
                if let Some(compact) =
                    compact.filter(|_| !fits_entry(value_type, key.bytes, bytes.len()))
                {
                    // The key is longer than the one before.
                    let collection = copy_of(value_type, compact);
                    let stored = self.put_private(key, found, collection, &new(&[]));
                    return stored.map_err(|(need, _)| need);
                }
                let store = |writer: &mut Self| writer.put_value_at(key, found, &new(bytes), *cost);
                // What it is of goes right after: only a large one could take much meanwhile.
                match (bytes.len() as u64) < SCRATCH_BYTES_MIN {
                    true => store(self),
                    false => self.bounded(store),
                }
            }
            Value::Collection(moved) => {
                let collection = moved.take().expect("it is stored once");
                let stored = self.put_collection(key, found, collection, &new(&[]));
                stored.map_err(|(need, collection)| {
                    *moved = Some(collection);
                    need
                })
            }
        }
    }

    /// Undoes [`KeyWriter::take_value`] of the entry of `key`.
    fn give_back(&mut self, key: &Key<'_>, moved: MovedValue) {
        let Value::Collection(Some(mut collection)) = moved.value else { return };
        collection.set_key(key.bytes);
        let part = self.part();
        let id = part.table.find(key.hash, key.bytes).expect("only its value was taken");
        let count = collection.len();
        let value = part.store.insert(collection).to_value(key.bytes, count);
        let entry = part.table.entry(id);
        let rewritten = match entry.header().is_large() {
            true => {
                let (value_type, encoding) = (entry.value_type(), Encoding::Handle);
                let (expiry, mark) = (entry.expiry(), entry.mark());
                let new = NewValue { bytes: &value, value_type, encoding, expiry, mark };
                part.table.replace(id, key.bytes, &new).map(drop)
            }
            false => self.rewrite_entry(key, id, &value, Encoding::Handle),
        };
        rewritten.expect("a handle was there, which was as long");
        self.shard.charge_growth(self.database);
    }

    /// Removes the entry of `key`, whose value was taken: with it they had `bytes`.
    fn drop_entry(&mut self, key: &Key<'_>, bytes: u64) {
        let part = self.part();
        let id = part.table.find(key.hash, key.bytes).expect("only its value was taken");
        let was_stream = part.table.entry(id).value_type() == ValueType::Stream;
        self.drop_entry_at(key, id, bytes);
        if was_stream {
            self.appear(key);
        }
    }

    /// As [`KeyWriter::drop_entry`], of the entry at `id`, which is no stream.
    fn drop_entry_at(&mut self, key: &Key<'_>, id: EntryId, bytes: u64) {
        let part = self.part();
        let mark = part.table.entry(id).mark();
        part.table.remove(id);
        part.slots.remove(key.slot, bytes);
        self.tell_removed(key, mark, bytes, Cause::Command);
        self.shard.publish_counts(self.database);
    }

    /// Removes the entry at `id`, which is that of `key`, for a value that is to be adopted.
    fn remove_for_adoption(&mut self, key: &Key<'_>, id: EntryId) {
        let part = self.part();
        let object = part.object(id);
        let (bytes, handle) = (object.memory_bytes(), handle_of(&object));
        let mark = object.mark();
        part.table.remove_for_adoption(id);
        part.slots.remove(key.slot, bytes);
        let collection = handle.map(|handle| part.store.take(handle));
        self.tell_removed(key, mark, bytes, Cause::Command);
        if let Some(collection) = collection {
            self.shard.retire(collection);
        }
    }
}
