//! Collections as the values of keys: small ones in their entries, larger ones in private memory.
//!
//! A small collection is changed on a copy, which then becomes the entry's value: what cannot be
//! stored has changed nothing. One that has lost parts always can (`arena::Table::rewrite`).

use arena::layout::SMALL_ENTRY_BYTES_MAX;
use arena::{Encoding, EntryId, LimitPolicy, NeedRoom, NewValue, Table};
use base::{Key, UnixMs};
use collections::{Collection, Rules};
use effects::Cause;

use crate::object::{
    Kind, compact_bytes_max, compact_of, copy_of, encoding_of_compact, fits_entry, handle_of,
};
use crate::store::Handle;
use crate::view::WrongType;
use crate::write::KeyWriter;

/// What a change of a small collection may take before anybody asks for room: entries ask
/// themselves.
const UNASKED_BYTES_MAX: u64 = SMALL_ENTRY_BYTES_MAX;
/// The most room that a shard keeps for copies.
const COPY_BYTES_MAX: usize = 2 * SMALL_ENTRY_BYTES_MAX as usize;

/// What a change of a collection in private memory has come to.
struct PrivateChange {
    /// The number of its parts before.
    count_before: usize,
    /// The number of its parts now.
    count: usize,
    /// The bytes of its compact form, where it has one.
    compact_bytes: Option<usize>,
}

impl KeyWriter<'_> {
    /// Returns where the collection of type `K` at `key` is, marked as used.
    #[inline]
    pub fn find<K: Kind>(&mut self, key: &Key<'_>) -> Result<Option<EntryId>, WrongType> {
        self.shard.refresh_rules();
        let Some(id) = self.live(key) else { return Ok(None) };
        let part = self.shard.database(self.database).expect("it has an entry");
        let entry = part.table.entry(id);
        if entry.header().type_bits() != K::TYPE as u64 {
            return Err(WrongType);
        }
        self.mark_used(key, id);
        Ok(Some(id))
    }

    /// Returns the collection of type `K` at `id`, where [`KeyWriter::find`] has found it, if it
    /// lies in private memory.
    pub fn stored_collection<K: Kind>(&self, id: EntryId) -> Option<&K> {
        let part = self.shard.database(self.database).expect("it has an entry");
        let collection = part.store.get(handle_of(&part.table.entry(id))?);
        Some(K::of(collection).expect("the caller looked at the type"))
    }

    /// Refuses a change that may make a collection, that at `found` or a new one, as many bytes
    /// larger as `bound` returns, where that would pass the memory limit, and within an atomic
    /// record by more than that may. Without a limit nobody asks `bound`, which goes over all
    /// parts.
    #[inline]
    pub fn admit(
        &self,
        found: Option<EntryId>,
        bound: impl FnOnce() -> u64,
    ) -> Result<(), NeedRoom> {
        if !self.shard.account().is_limited() {
            return Ok(());
        }
        let bytes = bound();
        let is_private = || {
            let entry_of = |id| Some(self.shard.database(self.database)?.table.entry(id));
            found.and_then(entry_of).is_some_and(|entry| handle_of(&entry).is_some())
        };
        match bytes > UNASKED_BYTES_MAX || is_private() {
            true => self.admit_private(bytes),
            false => Ok(()),
        }
    }

    /// Refuses `bytes` more of private memory for collections as [`KeyWriter::admit`] does.
    fn admit_private(&self, bytes: u64) -> Result<(), NeedRoom> {
        match self.recorder.is_atomic() {
            true => self.shard.admit_beyond(bytes, self.recorder.growth_bytes_max()),
            false => self.shard.admit(self.database, bytes),
        }
    }

    /// Returns memory for a small collection, to change it; [`KeyWriter::keep_memory`] follows.
    #[inline]
    pub fn take_memory(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.shard.copy_memory)
    }

    /// Takes the memory of a small collection back.
    #[inline]
    pub fn keep_memory(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() > COPY_BYTES_MAX {
            memory.clear();
            memory.shrink_to(COPY_BYTES_MAX);
        }
        self.shard.keep_copy_memory(memory);
    }

    /// Adds an entry for `collection`, which is not empty.
    pub fn insert_collection<K: Kind>(
        &mut self,
        key: &Key<'_>,
        collection: K,
        expiry: Option<UnixMs>,
    ) -> Result<(), NeedRoom> {
        self.shard.ensure_database(self.database, self.recorder)?;
        let mark = self.shard.published.tracking.first(self.now);
        let compact = collection.compact();
        if let Some(compact) = compact.filter(|it| fits_entry(K::TYPE, key.bytes, it.bytes().len()))
        {
            let (bytes, encoding) = (compact.bytes(), encoding_of_compact(compact));
            let value = NewValue { bytes, value_type: K::TYPE, encoding, expiry, mark };
            let insert = |table: &mut Table| table.insert(key.hash, key.bytes, &value);
            let inserted = self.growing(|writer| writer.add(key, insert));
            self.keep_memory(collection.into_buffer());
            return inserted;
        }
        let mut collection = self.without_spare(collection);
        collection.set_key(key.bytes);
        self.admit_private(collection.memory_bytes())?;
        let like =
            NewValue { bytes: &[], value_type: K::TYPE, encoding: Encoding::Handle, expiry, mark };
        self.put_private(key, None, collection, &like).map_err(|(need, _)| need)
    }

    /// Changes the collection at `id`, which is that of `key`; the key goes with its last part.
    /// Returns whether it is still there. Tells nobody.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed: never where the change only takes parts away.
    #[inline]
    pub fn change_collection<K: Kind, R>(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        change: impl FnOnce(&mut K, &Rules) -> R,
    ) -> Result<(R, bool), NeedRoom> {
        let memory = self.take_memory();
        let (part, rules) = self.shard.part_and_rules(self.database);
        let Some(compact) = compact_of(&part.table.entry(id)) else {
            self.shard.copy_memory = memory;
            return Ok(self.change_private(key, id, change));
        };
        let mut collection = K::copy_in(compact, memory);
        let result = change(&mut collection, rules);
        let exists = self.settle_collection(key, id, collection)?;
        Ok((result, exists))
    }

    /// As [`KeyWriter::change_collection`], for a change that only takes parts away, or of a
    /// collection that lies in private memory.
    #[inline]
    pub fn shrink_collection<K: Kind, R>(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        change: impl FnOnce(&mut K, &Rules) -> R,
    ) -> (R, bool) {
        self.change_collection(key, id, change).expect("what has become shorter needs no room")
    }

    /// Stores `collection`, a changed copy of the one that is the value of the entry at `id`;
    /// returns whether the key is still there.
    #[inline]
    fn settle_collection<K: Kind>(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        collection: K,
    ) -> Result<bool, NeedRoom> {
        if collection.part_count() == 0 {
            self.keep_memory(collection.into_buffer());
            self.unlink(key, id, Cause::Command);
            return Ok(false);
        }
        let compact = collection.compact();
        let Some(compact) = compact.filter(|it| fits_entry(K::TYPE, key.bytes, it.bytes().len()))
        else {
            return self.make_private(key, id, collection).map(|()| true);
        };
        let (bytes, encoding) = (compact.bytes(), encoding_of_compact(compact));
        let stored = self.growing(|writer| writer.rewrite_entry(key, id, bytes, encoding));
        self.keep_memory(collection.into_buffer());
        stored.map(|()| true)
    }

    /// Makes `bytes` in `encoding` the value of the entry at `id`.
    #[inline]
    pub(crate) fn rewrite_entry(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        bytes: &[u8],
        encoding: Encoding,
    ) -> Result<(), NeedRoom> {
        if self.part().table.rewrite_in_place(id, bytes, encoding) {
            return Ok(());
        }
        self.rewrite_entry_anew(key, id, bytes, encoding)
    }

    /// As [`KeyWriter::rewrite_entry`], for an entry that takes another item.
    fn rewrite_entry_anew(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        bytes: &[u8],
        encoding: Encoding,
    ) -> Result<(), NeedRoom> {
        let part = self.part();
        let before = part.table.entry(id).memory_bytes();
        let rewritten = part.table.rewrite_anew(id, key.bytes, bytes, encoding);
        // A larger item may begin where the smaller one did: its page was compacted for it.
        let after = rewritten.map_or(before, |id| part.table.entry(id).memory_bytes());
        if rewritten == Ok(id) && after == before {
            return Ok(());
        }
        part.slots.resize(key.slot, before, after);
        self.shard.charge_growth(self.database);
        if before != after {
            self.tell_resized(key, before, after);
        }
        rewritten.map(drop)
    }

    /// Runs `change`, which may make an entry larger: within an atomic record it passes the memory
    /// limit by no more than collections may.
    #[inline]
    fn growing(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), NeedRoom>,
    ) -> Result<(), NeedRoom> {
        if !self.recorder.is_atomic() {
            return change(self);
        }
        let most = LimitPolicy::OvershootBy(self.recorder.growth_bytes_max());
        let room = self.part().table.replace_policy(most);
        let changed = change(self);
        self.part().table.replace_policy(room);
        changed
    }

    /// Moves `collection`, a changed copy of the value of the entry at `id`, to private memory.
    #[cold]
    fn make_private<K: Kind>(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        collection: K,
    ) -> Result<(), NeedRoom> {
        let mut collection = self.without_spare(collection);
        collection.set_key(key.bytes);
        let bytes = collection.memory_bytes();
        self.admit_private(bytes)?;
        let count = collection.len();
        let part = self.part();
        let handle = part.store.insert(collection);
        let value = handle.to_value(key.bytes, count);
        let rewrite = |writer: &mut Self| writer.rewrite_entry(key, id, &value, Encoding::Handle);
        let stored = self.growing(rewrite);
        let part = self.part();
        match stored {
            Ok(()) => part.slots.resize(key.slot, 0, bytes),
            Err(_) => drop(part.store.take(handle)),
        }
        self.shard.charge_growth(self.database);
        if stored.is_ok() {
            self.tell_resized(key, 0, bytes);
        }
        stored
    }

    /// Returns `collection` in memory of its own, without room for more parts where it is compact.
    fn without_spare<K: Kind>(&mut self, collection: K) -> Collection {
        match collection.compact().map(|compact| copy_of(K::TYPE, compact)) {
            Some(copy) => {
                self.keep_memory(collection.into_buffer());
                copy
            }
            None => {
                self.keep_memory(Vec::new());
                collection.into_collection()
            }
        }
    }

    /// As [`KeyWriter::change_collection`], where the collection is in private memory.
    fn change_private<K: Kind, R>(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        change: impl FnOnce(&mut K, &Rules) -> R,
    ) -> (R, bool) {
        let (part, rules) = self.shard.part_and_rules(self.database);
        let handle = Handle::of(part.table.entry(id).value());
        let ((result, change), before, after) = part.store.change(handle, |collection| {
            let kind = K::of_mut(collection).expect("the caller looked at the type");
            let count_before = kind.part_count();
            let result = change(kind, rules);
            kind.give_back();
            let count = kind.part_count();
            let compact_bytes = kind.compact().map(|compact| compact.bytes().len());
            collection.set_key(key.bytes);
            (result, PrivateChange { count_before, count, compact_bytes })
        });
        part.slots.resize(key.slot, before, after);
        self.tell_resized(key, before, after);
        let exists = K::STAYS_EMPTY || change.count > 0;
        if exists {
            self.settle_private::<K>(key, id, handle, &change);
        } else {
            self.unlink(key, id, Cause::Command);
        }
        (result, exists)
    }

    /// Brings the entry at `id` up to date after a change of its collection, that of `handle`. One
    /// whose compact form has come down to half of what an entry takes goes back there, so that
    /// none goes to and fro.
    #[inline]
    fn settle_private<K: Kind>(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        handle: Handle,
        change: &PrivateChange,
    ) {
        let is_small = change.compact_bytes.is_some_and(|bytes| {
            bytes <= compact_bytes_max(K::TYPE) / 2 && fits_entry(K::TYPE, key.bytes, bytes)
        });
        if is_small && self.make_small(key, id, handle).is_ok() {
            return;
        }
        if change.count != change.count_before {
            self.note_count(key, id, handle, change.count);
        }
        self.shard.charge_growth(self.database);
    }

    /// Notes in the entry at `id` that the collection of `handle` has `count` parts now, where the
    /// entry says how many.
    #[inline]
    fn note_count(&mut self, key: &Key<'_>, id: EntryId, handle: Handle, count: usize) {
        let table = &mut self.part().table;
        match table.entry(id).value_length() {
            Handle::BYTES => {}
            Handle::COUNTED_BYTES => {
                table.rewrite_part(id, Handle::BYTES, &(count as u64).to_le_bytes());
            }
            // There was no room for a smaller entry when it got its handle.
            _ => {
                let value = handle.to_value(key.bytes, count);
                let rewritten = self.rewrite_entry(key, id, &value, Encoding::Handle);
                rewritten.expect("a handle was there, which was as long");
            }
        }
    }

    /// Makes the collection of `handle`, which is compact and fits, the value of its entry, which
    /// is at `id`.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed: it may as well stay where it is.
    #[cold]
    fn make_small(&mut self, key: &Key<'_>, id: EntryId, handle: Handle) -> Result<(), NeedRoom> {
        let part = self.part();
        let before = part.table.entry(id).memory_bytes();
        let compact = part.store.get(handle).view().compact().expect("the caller looked");
        let encoding = encoding_of_compact(compact);
        let id = part.table.rewrite(id, key.bytes, compact.bytes(), encoding)?;
        let after = part.table.entry(id).memory_bytes();
        let private_bytes = part.store.take(handle).memory_bytes();
        part.slots.resize(key.slot, before + private_bytes, after);
        self.shard.charge_growth(self.database);
        self.tell_resized(key, before + private_bytes, after);
        Ok(())
    }

    /// Stores `collection`, which is not empty, at `key`, where `found` was, in an entry like
    /// `like`: in the entry itself where it is small.
    pub fn put_collection(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        collection: Collection,
        like: &NewValue<'_>,
    ) -> Result<(), (NeedRoom, Collection)> {
        let compact = collection.view().compact();
        let Some(compact) =
            compact.filter(|it| fits_entry(like.value_type, key.bytes, it.bytes().len()))
        else {
            return self.put_private(key, found, collection, like);
        };
        let encoding = encoding_of_compact(compact);
        let value = NewValue { bytes: compact.bytes(), encoding, ..*like };
        self.put_value(key, found, &value).map_err(|need| (need, collection))
    }

    /// As [`KeyWriter::put_collection`], in private memory.
    pub(crate) fn put_private(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        mut collection: Collection,
        like: &NewValue<'_>,
    ) -> Result<(), (NeedRoom, Collection)> {
        collection.set_key(key.bytes);
        if let Err(need) = self.shard.ensure_database(self.database, self.recorder) {
            return Err((need, collection));
        }
        let (bytes, count) = (collection.memory_bytes(), collection.len());
        let handle = self.part().store.insert(collection);
        let value = handle.to_value(key.bytes, count);
        let encoding = Encoding::Handle;
        let stored = self.put_value(key, found, &NewValue { bytes: &value, encoding, ..*like });
        let part = self.part();
        let result = match stored {
            Ok(()) => {
                part.slots.resize(key.slot, 0, bytes);
                Ok(())
            }
            Err(need) => Err((need, part.store.take(handle))),
        };
        self.shard.charge_growth(self.database);
        if result.is_ok() && found.is_some() {
            // Of a new key the policy has been told what all of it takes.
            self.tell_resized(key, 0, bytes);
        }
        result
    }
}
