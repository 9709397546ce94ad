//! Changing one database through a guard. Every change emits its effect on this way, and on no
//! other; `notice.rs` has who is told.

use arena::{
    Encoding, Entry, EntryId, Fill, Grace, LimitPolicy, NeedRoom, NewValue, ReservedBlock, Source,
    Table, ValueType,
};
use base::{DatabaseIndex, Key, ShardIndex, UnixMs};

use collections::Rules;
use effects::{Arguments, Cause, Change, Effect, EventClass, Expiry};

use crate::encoding::{encoding_of, encoding_of_text};
use crate::eviction::policy::KeyEvent;
use crate::guard::ShardsMut;
use crate::object::{Kind, handle_of, kind_of};
use crate::recorder::Recorder;
use crate::shard::{DatabaseShard, Shard, is_expired, is_over};
use crate::store::Handle;
use crate::view::{ReadView, WrongType, count_lookup, find, string_length_of, string_of};

/// How many milliseconds the time of one session may be ahead of that of another, with much to
/// spare: each reads the clock anew once its batch has run for one millisecond.
const CLOCK_LEAD_MS_MAX: i64 = 1_000;

/// Why a change was not made. Nothing has changed but that an expired key may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key holds another type.
    WrongType,
    /// There is no room.
    NeedRoom(NeedRoom),
}

impl From<WrongType> for Refusal {
    fn from(_: WrongType) -> Refusal {
        Refusal::WrongType
    }
}

impl From<NeedRoom> for Refusal {
    fn from(need: NeedRoom) -> Refusal {
        Refusal::NeedRoom(need)
    }
}

/// One database, to read and change.
///
/// A method that meets an expired key removes it first, with a DEL effect of its own, so that the
/// effects give the same result where no clock is asked. A method that answers [`NeedRoom`] has
/// changed nothing else.
pub struct WriteView<'g> {
    pub(crate) shards: ShardsMut<'g>,
    pub(crate) recorder: &'g mut Recorder,
    database: DatabaseIndex,
    now: UnixMs,
    pub(crate) counts_access: bool,
    event: &'static str,
}

impl<'g> WriteView<'g> {
    #[inline]
    pub(crate) fn new(
        shards: ShardsMut<'g>,
        recorder: &'g mut Recorder,
        database: DatabaseIndex,
        now: UnixMs,
    ) -> WriteView<'g> {
        WriteView { shards, recorder, database, now, counts_access: true, event: "" }
    }

    /// Returns whether the guard holds `shard`.
    pub fn holds(&self, shard: ShardIndex) -> bool {
        self.shards.as_ref().holds(shard)
    }

    /// Returns the same view, whose lookups do not count as uses. What is stored counts as used
    /// when it is stored, though not as used once more.
    pub fn without_touch(self) -> WriteView<'g> {
        WriteView { counts_access: false, ..self }
    }

    /// Gives the changes that follow this keyspace event, where theirs would be that of another
    /// command: INCR stores as SET does, and its event is `incrby`.
    pub fn name_event(&mut self, event: &'static str) {
        self.event = event;
    }

    /// Returns the database.
    pub fn database(&self) -> DatabaseIndex {
        self.database
    }

    /// Returns the time that decides what has expired.
    pub fn now(&self) -> UnixMs {
        self.now
    }

    /// Returns this view, to read: lookups count hits and misses, and remove nothing.
    pub fn as_read(&self) -> ReadView<'_> {
        ReadView::new(self.shards.as_ref(), self.recorder, self.database, self.now)
            .counting_access(self.counts_access)
    }

    /// Returns the entry at `key`, marked as used; counts neither hit nor miss, as Redis does not
    /// for the lookups of writes.
    #[inline]
    pub fn entry(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        self.writer(key).into_entry(key)
    }

    /// Returns the string at `key` as [`WriteView::entry`] does.
    ///
    /// # Errors
    /// When the key holds another type.
    #[inline]
    pub fn string(&mut self, key: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        self.entry(key).map(string_of).transpose()
    }

    /// Returns the collection at `key`; neither marks nor counts, as the change that follows does
    /// the one, and writes the other not at all.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn collection<K: Kind>(&self, key: &Key<'_>) -> Result<Option<K::View<'_>>, WrongType> {
        let shards = self.shards.as_ref();
        let shard = shards.shard(key.shard);
        let met = self.recorder.saw_expired();
        let counts_access = false;
        let Some(entry) = find(shard, self.database, key, self.now, counts_access, met) else {
            return Ok(None);
        };
        let part = shard.database(self.database).expect("it has an entry");
        kind_of::<K>(&entry, &part.store, self.now).map(Some)
    }

    /// Returns how collections in the shard of `key` are stored.
    pub fn rules(&self, key: &Key<'_>) -> &Rules {
        &self.shards.as_ref().shard(key.shard).rules
    }

    /// As [`WriteView::string`], and counts a hit or a miss: for the reading half of a command
    /// such as GETSET.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn string_counted(&mut self, key: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        let found = self.contains(key);
        let database = self.database;
        count_lookup(self.writer(key).shard, database, key, found);
        self.string(key)
    }

    /// Returns the length of the string at `key` as [`WriteView::entry`] does.
    ///
    /// # Errors
    /// When the key holds another type.
    #[inline]
    pub fn string_length(&mut self, key: &Key<'_>) -> Result<Option<u64>, WrongType> {
        self.entry(key).map(string_length_of).transpose()
    }

    /// Returns whether `key` exists, without marking it as used.
    pub fn contains(&mut self, key: &Key<'_>) -> bool {
        self.writer(key).live(key).is_some()
    }

    /// Makes `key` hold the string `value`, encoded as an integer where it is one.
    ///
    /// # Errors
    /// NeedRoom before any change.
    #[inline]
    pub fn set(&mut self, key: &Key<'_>, value: &[u8], expiry: Expiry) -> Result<(), NeedRoom> {
        self.writer(key).store(key, value, encoding_of(value), expiry)
    }

    /// As [`WriteView::set`], but never encoded as an integer: INCRBYFLOAT stores its result so.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn set_text(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), NeedRoom> {
        let (mut writer, encoding) = (self.writer(key), encoding_of_text(value));
        writer.store(key, value, encoding, expiry)?;
        writer.tell_encoding(key, value, encoding);
        Ok(())
    }

    /// As [`WriteView::set`], or where `is_text` as [`WriteView::set_text`], for a key that has a
    /// time to live: that ends too, which is an effect of its own.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn set_persisting(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        is_text: bool,
    ) -> Result<(), NeedRoom> {
        let encoding = if is_text { encoding_of_text(value) } else { encoding_of(value) };
        let mut writer = self.writer(key);
        let found = writer.live(key);
        writer.put_changed(key, found, value, encoding, None)?;
        let set = Effect::Set { key: key.bytes, value, expiry: Expiry::Keep };
        writer.changed(key, EventClass::String, set);
        writer.tell_encoding(key, value, encoding);
        writer.changed(key, EventClass::Generic, Effect::Persist { key: key.bytes });
        Ok(())
    }

    /// Makes `key` hold a string of `length` bytes, more than none, that `fill` writes where they
    /// stay: a large one is neither built elsewhere nor copied. It has no time to live, and is
    /// encoded as a string that was changed in place: BITOP stores its result so.
    ///
    /// # Errors
    /// NeedRoom before any change; `fill` has not been asked then.
    pub fn set_raw_filled(
        &mut self,
        key: &Key<'_>,
        length: usize,
        fill: Fill<'_>,
    ) -> Result<(), NeedRoom> {
        self.writer(key).store_filled(key, length, fill)
    }

    /// Encodes the string at `key` as one that was changed in place, where it is there. That is no
    /// change of the dataset: it is not counted, and no watcher of the key is notified.
    ///
    /// # Errors
    /// NeedRoom before any change.
    ///
    /// # Panics
    /// When the string is empty.
    pub fn make_raw(&mut self, key: &Key<'_>) -> Result<(), NeedRoom> {
        self.writer(key).make_raw(key)
    }

    /// Encodes the string at `key` as [`WriteView::set_text`] does, where it is there. That is no
    /// change of the dataset either.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn make_text(&mut self, key: &Key<'_>) -> Result<(), NeedRoom> {
        self.writer(key).make_text(key)
    }

    /// Appends `suffix` to the string at `key`, which is empty where absent, and returns the new
    /// length. An empty suffix is a change too, as in Redis: the key is there afterwards.
    ///
    /// # Errors
    /// NeedRoom before any change.
    ///
    /// # Panics
    /// When the key holds another type: the caller looks first.
    pub fn append(&mut self, key: &Key<'_>, suffix: &[u8]) -> Result<usize, NeedRoom> {
        self.writer(key).append(key, suffix)
    }

    /// Writes `bytes` from `offset` on into the string at `key`, filling a gap with zeroes, and
    /// returns the new length. Empty `bytes` change nothing.
    ///
    /// # Errors
    /// NeedRoom before any change.
    ///
    /// # Panics
    /// When the key holds another type: the caller looks first.
    pub fn set_range(
        &mut self,
        key: &Key<'_>,
        offset: usize,
        bytes: &[u8],
    ) -> Result<usize, NeedRoom> {
        self.writer(key).set_range(key, offset, bytes)
    }

    /// Runs `change` on the collection at `key`, which returns whether it has changed anything; if
    /// it has, the effect is the command `effect` on the key with `arguments`, whose row says that
    /// its requests are effects. A collection that has lost its last element is removed. Returns
    /// what `change` returns beside; none where the key is not there. For changes that take nothing
    /// but parts away, and so need no memory.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn change<'e, K: Kind, R>(
        &mut self,
        key: &Key<'_>,
        effect: &'static str,
        arguments: impl Iterator<Item = &'e [u8]>,
        change: impl FnOnce(&mut K, &Rules) -> (R, bool),
    ) -> Result<Option<R>, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<K>(key)? else { return Ok(None) };
        let ((result, has_changed), exists) = writer.shrink_collection(key, id, change);
        if has_changed {
            writer.changed_by(key, exists, (K::CLASS, effect), arguments);
        }
        Ok(Some(result))
    }

    /// Removes `key` and returns whether it was there.
    pub fn remove(&mut self, key: &Key<'_>) -> bool {
        let mut writer = self.writer(key);
        let Some(id) = writer.live(key) else {
            // Who loads the value has read it before this.
            writer.void_lease(key);
            return false;
        };
        writer.remove(key, id, Cause::Command);
        true
    }

    /// Makes `key` expire at `at`, which may have passed, and returns whether the key is there.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn set_expiry(&mut self, key: &Key<'_>, at: UnixMs) -> Result<bool, NeedRoom> {
        self.writer(key).set_expiry(key, Some(at))
    }

    /// Takes the time to live from `key` and returns whether there was one.
    ///
    /// # Errors
    /// NeedRoom before any change: an entry without a time to live may need a place of its own.
    pub fn persist(&mut self, key: &Key<'_>) -> Result<bool, NeedRoom> {
        self.writer(key).set_expiry(key, None)
    }

    /// Removes `key` where it has expired, and its value may not be read as a stale one.
    pub(crate) fn remove_over(&mut self, key: &Key<'_>) {
        let mut writer = self.writer(key);
        let Some(part) = writer.shard.database(writer.database) else { return };
        let Some(id) = part.table.find(key.hash, key.bytes) else { return };
        if is_over(&part.table.entry(id), writer.now) {
            writer.remove(key, id, Cause::ExpiredOnAccess);
        }
    }

    /// Returns where `key` lives.
    #[inline]
    pub(crate) fn writer(&mut self, key: &Key<'_>) -> KeyWriter<'_> {
        self.writer_in(self.database, key)
    }

    /// Returns where `key` of `database` lives.
    #[inline]
    pub(crate) fn writer_in(&mut self, database: DatabaseIndex, key: &Key<'_>) -> KeyWriter<'_> {
        let shard = self.shards.shard(key.shard);
        shard.freeze_if_atomic(database, self.recorder);
        shard.before_change(database, key.hash);
        KeyWriter {
            shard,
            recorder: self.recorder,
            database,
            now: self.now,
            counts_access: self.counts_access,
            event: self.event,
        }
    }
}

/// One database within one shard, to change: each method is one whole change with its effect.
pub(crate) struct KeyWriter<'p> {
    pub shard: &'p mut Shard,
    pub recorder: &'p mut Recorder,
    pub database: DatabaseIndex,
    pub now: UnixMs,
    pub counts_access: bool,
    pub event: &'static str,
}

impl<'p> KeyWriter<'p> {
    /// Returns where `key` is; an expired entry is removed first, and is absent.
    #[inline]
    pub fn live(&mut self, key: &Key<'_>) -> Option<EntryId> {
        let part = self.shard.database(self.database)?;
        let id = part.table.find(key.hash, key.bytes)?;
        if is_expired(&part.table.entry(id), self.now) {
            self.remove(key, id, Cause::ExpiredOnAccess);
            return None;
        }
        Some(id)
    }

    fn into_entry(mut self, key: &Key<'_>) -> Option<Entry<'p>> {
        let id = self.live(key)?;
        self.mark_used(key, id);
        let part = self.shard.database(self.database).expect("it has an entry");
        Some(part.table.entry(id))
    }

    /// Marks the entry at `id` as used.
    #[inline]
    pub fn mark_used(&self, key: &Key<'_>, id: EntryId) {
        if !self.counts_access {
            return;
        }
        let part = self.shard.database(self.database).expect("it has an entry");
        let entry = part.table.entry(id);
        entry.touch(self.shard.used(self.database, key.hash, entry, self.now, KeyEvent::Written));
    }

    pub(crate) fn store(
        &mut self,
        key: &Key<'_>,
        value: &[u8],
        encoding: Encoding,
        expiry: Expiry,
    ) -> Result<(), NeedRoom> {
        let found = self.live(key);
        let at = match expiry {
            Expiry::Clear => None,
            Expiry::At(at) => Some(at),
            Expiry::Keep => return self.store_kept(key, found, value, encoding),
        };
        self.put(key, found, value, encoding, at)?;
        self.changed(key, EventClass::String, Effect::Set { key: key.bytes, value, expiry });
        Ok(())
    }

    /// Tells the sink of the `encoding` of `value`, where whoever stores it by the effect of a SET
    /// would choose another one.
    pub(crate) fn tell_encoding(&mut self, key: &Key<'_>, value: &[u8], encoding: Encoding) {
        if self.shard.sink.is_none() || encoding == encoding_of(value) {
            return;
        }
        match encoding {
            Encoding::Embstr => self.emit_as_text(key),
            _ => self.emit_as_raw(key, value),
        }
    }

    /// Returns when the value that is stored over the entry at `found` expires.
    pub(crate) fn expiry_after(
        &mut self,
        found: Option<EntryId>,
        expiry: Expiry,
    ) -> Option<UnixMs> {
        match expiry {
            Expiry::Clear => None,
            Expiry::At(at) => Some(at),
            Expiry::Keep => found.and_then(|id| self.part().table.entry(id).expiry()),
        }
    }

    fn store_filled(
        &mut self,
        key: &Key<'_>,
        length: usize,
        fill: Fill<'_>,
    ) -> Result<(), NeedRoom> {
        let found = self.live(key);
        let value = self.new_value(key, found, &[], Encoding::Raw, None);
        self.bounded(|writer| {
            writer.put_from(key, found, Source::Made(length as u64, fill), &value)
        })?;
        // The effect has the value in one piece, which only a sink needs.
        let mut copy = vec![0; if self.shard.sink.is_some() { length } else { 0 }];
        fill(0, &mut copy);
        let effect = Effect::Set { key: key.bytes, value: &copy, expiry: Expiry::Clear };
        self.changed(key, EventClass::String, effect);
        self.tell_encoding(key, &copy, Encoding::Raw);
        Ok(())
    }

    fn append(&mut self, key: &Key<'_>, suffix: &[u8]) -> Result<usize, NeedRoom> {
        let found = self.live_text(key)?;
        let length = found.map_or(0, |id| self.string_length(id));
        match found {
            None => self.put(key, None, suffix, encoding_of(suffix), None)?,
            // What was there may have to be copied.
            Some(id) => self.bounded(|writer| {
                writer.edit(key, id, |table| table.append(id, suffix, Encoding::Raw))
            })?,
        }
        self.changed(key, EventClass::String, Effect::Append { key: key.bytes, suffix });
        Ok(length + suffix.len())
    }

    fn set_range(&mut self, key: &Key<'_>, offset: usize, bytes: &[u8]) -> Result<usize, NeedRoom> {
        if bytes.is_empty() {
            let found = self.live(key);
            return Ok(found.map_or(0, |id| self.string_length(id)));
        }
        let found = self.live_text(key)?;
        let length = found.map_or(0, |id| self.string_length(id));
        let offset_wide = offset as u64;
        self.bounded(|writer| match found {
            None => writer.insert(key, offset_wide, bytes, Encoding::Raw, None),
            Some(id) => {
                writer.edit(key, id, |table| table.overwrite(id, offset_wide, bytes, Encoding::Raw))
            }
        })?;
        let effect = Effect::SetRange { key: key.bytes, offset: offset_wide, bytes };
        self.changed(key, EventClass::String, effect);
        Ok(length.max(offset + bytes.len()))
    }

    pub(crate) fn make_raw(&mut self, key: &Key<'_>) -> Result<(), NeedRoom> {
        let Some(id) = self.live_text(key)? else { return Ok(()) };
        let entry = self.part().table.entry(id);
        if entry.encoding() == Encoding::Raw {
            return Ok(());
        }
        // Written over by itself, as every change in place sets the encoding.
        let first = entry.value()[0];
        self.bounded(|writer| {
            writer.edit(key, id, |table| table.overwrite(id, 0, &[first], Encoding::Raw))
        })?;
        self.emit_as_raw(key, &[first]);
        Ok(())
    }

    fn make_text(&mut self, key: &Key<'_>) -> Result<(), NeedRoom> {
        let Some(id) = self.live_text(key)? else { return Ok(()) };
        let entry = self.part().table.entry(id);
        let encoding = encoding_of_text(entry.value());
        if entry.encoding() == encoding {
            return Ok(());
        }
        let (value, expiry) = (entry.value().to_vec(), entry.expiry());
        self.put_changed(key, Some(id), &value, encoding, expiry)?;
        self.emit_as_text(key);
        Ok(())
    }

    /// Tells the sink that the string at `key`, which begins as `value` does, is encoded as one
    /// that was changed in place: it is written over by itself.
    fn emit_as_raw(&mut self, key: &Key<'_>, value: &[u8]) {
        let bytes = &value[..1];
        let effect = Effect::SetRange { key: key.bytes, offset: 0, bytes };
        self.record_encoding(EventClass::String, effect);
    }

    /// Tells the sink that the number at `key` is encoded as text.
    fn emit_as_text(&mut self, key: &Key<'_>) {
        self.record_encoding(EventClass::String, Effect::MakeText { key: key.bytes });
    }

    fn set_expiry(&mut self, key: &Key<'_>, at: Option<UnixMs>) -> Result<bool, NeedRoom> {
        if !self.set_time(key, at, Grace::default())? {
            return Ok(false);
        }
        let effect = match at {
            Some(at) => Effect::ExpireAt { key: key.bytes, at },
            None => Effect::Persist { key: key.bytes },
        };
        self.changed(key, EventClass::Generic, effect);
        Ok(true)
    }

    /// Makes `key` expire at `at`, or never, and its value readable as a stale one for `grace`
    /// behind that; tells nobody of the change. Returns whether there was anything to change.
    pub(crate) fn set_time(
        &mut self,
        key: &Key<'_>,
        at: Option<UnixMs>,
        grace: Grace,
    ) -> Result<bool, NeedRoom> {
        let Some(id) = self.live(key) else { return Ok(false) };
        self.mark_used(key, id);
        let before = self.part().table.entry(id).expiry();
        if at.is_none() && before.is_none() {
            return Ok(false);
        }
        let (resized, _) = self.resize_uncharged(key, id, |table| {
            let id = table.set_expiry(id, at)?;
            table.set_grace(id, grace);
            Ok(id)
        });
        // A list may have grown before the room ran out, too.
        self.shard.publish_counts(self.database);
        resized?;
        if before.is_some_and(|before| before.0 <= self.now.0.saturating_add(CLOCK_LEAD_MS_MAX)) {
            // It may have expired for somebody whose time is another.
            self.appear(key);
        }
        Ok(true)
    }

    /// Removes the entry at `id`, which is that of `key`, and returns whether its memory is free.
    pub fn remove(&mut self, key: &Key<'_>, id: EntryId, cause: Cause) -> bool {
        self.remove_as(key, id, cause, EventClass::Generic)
    }

    /// As [`KeyWriter::remove`]; of another class than the generic one the event that was named
    /// comes before that of the key.
    pub fn remove_as(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        cause: Cause,
        class: EventClass,
    ) -> bool {
        let is_free = self.unlink(key, id, cause);
        match cause {
            Cause::Command => {}
            Cause::Expired | Cause::ExpiredOnAccess => self.shard.published.expired.add(1),
            Cause::Evicted => self.shard.published.evicted.add(1),
        }
        self.shard.published.changes.add(1);
        self.record(class, Effect::Delete { key: key.bytes }, |change| Change {
            cause,
            removes: true,
            ..change
        });
        match cause {
            Cause::Command => self.notify_watchers(key, false),
            _ => self.notify_watchers_of_loss(key),
        }
        is_free
    }

    /// Removes the entry at `id`, which is that of `key`, and its value; tells nobody. Returns
    /// whether the entry's memory is free.
    pub(crate) fn unlink(&mut self, key: &Key<'_>, id: EntryId, cause: Cause) -> bool {
        let part = self.part();
        let object = part.object(id);
        let bytes = object.memory_bytes();
        let (handle, mark) = (handle_of(&object), object.mark());
        let was_stream = object.header().type_bits() == ValueType::Stream as u64;
        let is_free = part.table.remove(id);
        part.slots.remove(key.slot, bytes);
        if was_stream {
            // Consumers of its groups that wait are refused now.
            self.appear(key);
        }
        let part = self.part();
        let collection = handle.map(|handle| part.store.take(handle));
        self.shard.publish_counts(self.database);
        self.tell_removed(key, mark, bytes, cause);
        if let Some(collection) = collection {
            self.shard.retire(collection);
        }
        is_free
    }

    /// Frees the collection of `handle`, which `key` had until now.
    #[cold]
    fn release(&mut self, key: &Key<'_>, handle: Handle) {
        let part = self.part();
        let collection = part.store.take(handle);
        part.slots.resize(key.slot, collection.memory_bytes(), 0);
        self.shard.charge_growth(self.database);
        self.tell_resized(key, collection.memory_bytes(), 0);
        self.shard.retire(collection);
    }

    /// Writes a whole value, over the entry at `found` or as a new one.
    pub(crate) fn put(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        bytes: &[u8],
        encoding: Encoding,
        expiry: Option<UnixMs>,
    ) -> Result<(), NeedRoom> {
        let value = self.new_value(key, found, bytes, encoding, expiry);
        match self.recorder.take_offer(bytes, key.bytes.len()) {
            None => self.put_value(key, found, &value),
            Some(block) => self.link(key, found, block, &value),
        }
    }

    /// As [`KeyWriter::put_value`], with a value that lies in `block` already.
    #[cold]
    pub(crate) fn link(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        mut block: Box<ReservedBlock>,
        value: &NewValue<'_>,
    ) -> Result<(), NeedRoom> {
        let there = NewValue { bytes: &[], ..*value };
        let linked = self.put_from(key, found, Source::Reserved(&mut block), &there);
        if linked.is_err() {
            // For the next attempt, once there is room in the index.
            self.recorder.offer = Some(block);
        }
        linked
    }

    /// As [`KeyWriter::put`], with what the value is like.
    pub fn put_value(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        value: &NewValue<'_>,
    ) -> Result<(), NeedRoom> {
        match found {
            Some(id) => self.rewrite(key, id, |table| table.replace(id, key.bytes, value)),
            None => self.add(key, |table| table.insert(key.hash, key.bytes, value)),
        }
    }

    /// As [`KeyWriter::put_value`], with the bytes of `source`.
    pub(crate) fn put_from(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        source: Source<'_>,
        value: &NewValue<'_>,
    ) -> Result<(), NeedRoom> {
        match found {
            Some(id) => {
                self.rewrite(key, id, |table| table.replace_from(id, key.bytes, source, value))
            }
            None => self.add(key, |table| table.insert_from(key.hash, key.bytes, source, value)),
        }
    }

    /// Runs `replace` on the entry at `id`, which may gain or lose its time to live.
    #[inline]
    pub(crate) fn rewrite(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        replace: impl FnOnce(&mut Table) -> Result<EntryId, NeedRoom>,
    ) -> Result<(), NeedRoom> {
        let volatile = self.part().table.volatile_len();
        let entry = self.part().table.entry(id);
        let handle = handle_of(&entry);
        let was_string = entry.header().is_string();
        self.resize(key, id, replace)?;
        let has_other_expiry = self.part().table.volatile_len() != volatile;
        if has_other_expiry {
            self.shard.publish_counts(self.database);
        }
        if !self.shard.waits.is_empty() {
            self.reappear(key, has_other_expiry || !was_string);
        }
        if let Some(handle) = handle {
            self.release(key, handle);
        }
        Ok(())
    }

    /// Runs `change`, which stores bytes that the request does not bring, so that nobody has made
    /// room for them: within an atomic record it passes the memory limit by no more than the record
    /// may, and answers [`NeedRoom`] before it changes anything.
    pub(crate) fn bounded(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), NeedRoom>,
    ) -> Result<(), NeedRoom> {
        self.shard.ensure_database(self.database, self.recorder)?;
        let most = LimitPolicy::OvershootBy(self.recorder.overshoot_bytes_max());
        let table = &mut self.part().table;
        let room = table.replace_policy(LimitPolicy::Limited);
        if room == LimitPolicy::Overshoot {
            table.replace_policy(most);
        }
        let changed = change(self);
        self.part().table.replace_policy(room);
        changed
    }

    /// Writes a whole value as a new entry, `gap` zeroes before its `bytes`.
    fn insert(
        &mut self,
        key: &Key<'_>,
        gap: u64,
        bytes: &[u8],
        encoding: Encoding,
        expiry: Option<UnixMs>,
    ) -> Result<(), NeedRoom> {
        let value = self.new_value(key, None, bytes, encoding, expiry);
        self.add(key, |table| table.insert_behind(key.hash, key.bytes, gap, &value))
    }

    /// Runs `insert`, which adds the entry of `key`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        key: &Key<'_>,
        insert: impl FnOnce(&mut Table) -> Result<EntryId, NeedRoom>,
    ) -> Result<(), NeedRoom> {
        self.shard.ensure_database(self.database, self.recorder)?;
        self.shard.policy.prefetch(self.database, key.hash);
        let part = self.part();
        let inserted = insert(&mut part.table);
        let Ok(id) = inserted else {
            // A list may have grown before the room ran out.
            self.shard.charge_growth(self.database);
            return inserted.map(drop);
        };
        let bytes = part.table.entry(id).memory_bytes();
        part.slots.add(key.slot, bytes);
        self.shard.publish_counts(self.database);
        self.tell_inserted(key, id);
        self.recorder.has_added = true;
        self.appear(key);
        Ok(())
    }

    /// Returns the value to store over the entry at `found`, which is used so, or as a new one.
    pub(crate) fn new_value<'v>(
        &self,
        key: &Key<'_>,
        found: Option<EntryId>,
        bytes: &'v [u8],
        encoding: Encoding,
        expiry: Option<UnixMs>,
    ) -> NewValue<'v> {
        let tracking = &self.shard.published.tracking;
        let part = self.shard.database(self.database);
        let mark = match found.zip(part) {
            Some((id, part)) => {
                let entry = part.table.entry(id);
                let event = KeyEvent::Written;
                let keeps = tracking.does_count() || self.shard.policy.owns_marks;
                match self.counts_access {
                    true => self.shard.used(self.database, key.hash, entry, self.now, event),
                    false if keeps => entry.mark(),
                    false => tracking.next(entry.mark(), self.now),
                }
            }
            None => tracking.first(self.now),
        };
        NewValue { bytes, value_type: ValueType::String, encoding, expiry, mark }
    }

    /// Runs `change` on the entry at `id` and keeps the bytes of its slot exact.
    #[inline]
    pub(crate) fn resize(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        change: impl FnOnce(&mut Table) -> Result<EntryId, NeedRoom>,
    ) -> Result<(), NeedRoom> {
        let (changed, has_new_size) = self.resize_uncharged(key, id, change);
        if has_new_size || changed.is_err() {
            self.shard.charge_growth(self.database);
        }
        changed
    }

    /// As [`KeyWriter::resize`], for a change of a part of a string: what is left is no value that
    /// may be read as a stale one.
    pub(crate) fn edit(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        change: impl FnOnce(&mut Table) -> Result<EntryId, NeedRoom>,
    ) -> Result<(), NeedRoom> {
        self.resize(key, id, |table| {
            let id = change(table)?;
            table.set_grace(id, Grace::default());
            Ok(id)
        })
    }

    /// As [`KeyWriter::resize`], for a caller who charges the memory that lists have grown by;
    /// returns beside whether the entry has another size.
    #[inline]
    fn resize_uncharged(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        change: impl FnOnce(&mut Table) -> Result<EntryId, NeedRoom>,
    ) -> (Result<(), NeedRoom>, bool) {
        let part = self.part();
        let before = part.table.entry(id).memory_bytes();
        let changed = change(&mut part.table);
        let after = changed.map_or(before, |id| part.table.entry(id).memory_bytes());
        part.slots.resize(key.slot, before, after);
        let has_new_size = before != after;
        if has_new_size || changed.is_err() {
            self.tell_resized(key, before, after);
        }
        (changed.map(drop), has_new_size)
    }

    fn string_length(&mut self, id: EntryId) -> usize {
        let entry = self.part().table.entry(id);
        string_length_of(entry).expect("the caller looked at the type") as usize
    }

    /// Tells the sink and the watchers of a command that has changed `key`, which `exists` now.
    /// `class` is that of its keyspace event.
    #[inline]
    pub fn changed_by<'e>(
        &mut self,
        key: &Key<'_>,
        exists: bool,
        (class, name): (EventClass, &str),
        arguments: impl Iterator<Item = &'e [u8]>,
    ) {
        self.shard.published.changes.add(1);
        if self.shard.sink.is_some() {
            let arguments: Vec<&[u8]> = arguments.collect();
            let arguments = Arguments::Slices(&arguments);
            let effect = Effect::Command { name, key: key.bytes, arguments };
            self.record(class, effect, |change| Change { removes: !exists, ..change });
        }
        self.notify_watchers(key, exists);
    }

    pub(crate) fn part(&mut self) -> &mut DatabaseShard {
        self.shard.database_mut(self.database).expect("a table with an entry exists")
    }
}
