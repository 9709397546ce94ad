//! Whole values as bytes: what a key holds as a payload and as the effect that makes it, and a key
//! that is made to hold what a payload says. DUMP, RESTORE and the replay of effects meet here.

use std::borrow::Cow;

use arena::{AccessMark, Cost, Encoding, EntryId, NeedRoom, NewValue, ValueType};
use base::{Key, UnixMs};
use collections::{Collection, CollectionEncoding, Rules};
use effects::{Cause, Effect, EventClass, Expiry, LastUse, StoredForm};
use rdb::{DecodeError, DecodeOptions, PayloadError, Stored, Value};

use crate::encoding::{EMBSTR_BYTES_MAX, encoding_of};
use crate::item::as_text;
use crate::leases::grace_of;
use crate::object::{Content, Kind, Object};
use crate::scratch::Scratch;
use crate::write::{KeyWriter, WriteView};

/// Why a payload is not restored. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// Its footer is not that of a payload that can be read.
    Payload(PayloadError),
    /// It is no value, or none that can be stored in the form that was asked for.
    Malformed,
    /// There is no room.
    NeedRoom(NeedRoom),
}

/// A value that was read from a payload, before it is stored.
pub struct Restored<'p> {
    payload: Cow<'p, [u8]>,
    value: Value<'p>,
    form: StoredForm,
    /// The right to the memory that the value takes.
    scratch: Option<Scratch>,
    /// What a string costs.
    cost: Cost,
}

impl<'a> Content<'a> {
    /// Returns the value as it is written to a payload.
    pub fn stored(&self) -> Stored<'_> {
        match self {
            Content::String(bytes) => Stored::String(bytes),
            Content::Collection(collection) => Stored::Collection(*collection),
        }
    }
}

impl<'a> Object<'a> {
    /// Returns how the value is stored.
    pub fn form(&self) -> StoredForm {
        match (self.encoding(), self.collection()) {
            (_, Some(collection)) => form_of_collection(collection.encoding()),
            (encoding, _) => match as_text(encoding, self) {
                Encoding::Int => StoredForm::Int,
                Encoding::Embstr => StoredForm::Embstr,
                _ => StoredForm::Raw,
            },
        }
    }

    /// Returns the effect that makes the key what it is now: its value, how that is stored, and
    /// when it expires; not when it was used, its grace or its cost. Whoever applies it needs
    /// nothing else. The payload is written to `payload`, which is empty;
    /// [`rdb::encoded_bytes_max`] bounds it.
    pub fn restoring_effect<'e>(&self, payload: &'e mut Vec<u8>) -> Effect<'e>
    where
        'a: 'e,
    {
        rdb::encode(self.content().stored(), payload);
        Effect::Restore {
            key: self.key(),
            payload,
            form: self.form(),
            expires_at: self.expiry(),
            last_use: LastUse::Now,
        }
    }
}

impl WriteView<'_> {
    /// Reads the value of `payload`, which is to be stored at `key`: in `form`, or else as the
    /// options of the collections say. No string may be longer than `string_bytes_max`. Room for
    /// the value is asked for before it is made.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn read_payload<'p>(
        &mut self,
        key: &Key<'_>,
        payload: &'p [u8],
        string_bytes_max: u64,
        form: Option<StoredForm>,
    ) -> Result<Restored<'p>, RestoreError> {
        let bytes = rdb::open(payload).map_err(RestoreError::Payload)?;
        let restored = self.read_value(key, bytes, string_bytes_max, form)?;
        Ok(Restored { payload: Cow::Borrowed(payload), ..restored })
    }

    /// Makes `key`, where it is not there, hold the value that `bytes` are, a payload without its
    /// footer, in the form that the options of the collections say: as it stands in a file. Only a
    /// string has a `cost`. Returns whether the key was not there.
    ///
    /// # Errors
    /// [`RestoreError`], and nothing has changed.
    pub fn load(
        &mut self,
        key: &Key<'_>,
        bytes: &[u8],
        expires_at: Option<UnixMs>,
        grace_ms: u64,
        last_use: LastUse,
        cost: Cost,
    ) -> Result<bool, RestoreError> {
        let mut restored = self.read_value(key, bytes, u64::MAX, None)?;
        restored.cost = match (&restored.value, expires_at) {
            // A SET, by which the sink is told of a cost, has no time before that of Unix.
            (Value::String(_), Some(UnixMs(..=0))) | (Value::Collection(_), _) => Cost::ONE,
            (Value::String(_), _) => cost,
        };
        if restored.cost == Cost::ONE && self.writer(key).shard.sink.is_some() {
            let mut payload = bytes.to_vec();
            rdb::seal_newest(&mut payload);
            restored.payload = Cow::Owned(payload);
        }
        let mut writer = self.writer(key);
        if writer.live(key).is_some() {
            return Ok(false);
        }
        let put = writer.put_restored(key, None, restored, expires_at, last_use);
        put.map_err(RestoreError::NeedRoom)?;
        writer.add_loaded_grace(key, expires_at, grace_ms);
        Ok(true)
    }

    /// Returns the string that `bytes` are, a payload without its footer; with it the right to the
    /// memory that it takes.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub(crate) fn read_string<'p>(
        &mut self,
        key: &Key<'_>,
        bytes: &'p [u8],
    ) -> Result<(Cow<'p, [u8]>, Option<Scratch>), RestoreError> {
        let restored = self.read_value(key, bytes, u64::MAX, None)?;
        match restored.value {
            Value::String(value) => Ok((value, restored.scratch)),
            Value::Collection(_) => Err(RestoreError::Malformed),
        }
    }

    /// As [`WriteView::read_payload`], of a payload without its footer: who restores it has to give
    /// it one where somebody listens.
    fn read_value<'p>(
        &mut self,
        key: &Key<'_>,
        bytes: &'p [u8],
        string_bytes_max: u64,
        form: Option<StoredForm>,
    ) -> Result<Restored<'p>, RestoreError> {
        let shard = self.writer(key).shard;
        shard.refresh_rules();
        let rules = shard.rules;
        let encoding = form.and_then(collection_encoding_of);
        let options = DecodeOptions { rules: &rules, encoding, string_bytes_max };
        let is_string = rdb::is_string(bytes);
        let mut scratch = None;
        let mut ask = |bytes: u64| {
            // One right to all of it, not one to each part: where there is too little room, the
            // whole is made room for.
            drop(scratch.take());
            // A string is copied once it is expanded, a collection stays what it is.
            let stored_bytes = if is_string { bytes } else { 0 };
            scratch = Some(self.scratch(key, bytes, stored_bytes)?);
            Ok(())
        };
        let value = rdb::decode(bytes, &options, &mut ask).map_err(|error| match error {
            DecodeError::Malformed => RestoreError::Malformed,
            DecodeError::NoRoom(need) => RestoreError::NeedRoom(need),
        })?;
        let form = form_to_store(&value, form).ok_or(RestoreError::Malformed)?;
        Ok(Restored { payload: Cow::Borrowed(&[]), value, form, scratch, cost: Cost::ONE })
    }

    /// Makes `key` hold what was read, in place of what it holds, until `expires_at`, which may
    /// have passed.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn restore(
        &mut self,
        key: &Key<'_>,
        restored: Restored<'_>,
        expires_at: Option<UnixMs>,
        last_use: LastUse,
    ) -> Result<(), NeedRoom> {
        let mut writer = self.writer(key);
        let found = writer.live(key);
        writer.put_restored(key, found, restored, expires_at, last_use)
    }
}

impl KeyWriter<'_> {
    /// Makes `key`, which is at `found` where it is there, hold what was read.
    ///
    /// # Errors
    /// NeedRoom before any change.
    fn put_restored(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        restored: Restored<'_>,
        expires_at: Option<UnixMs>,
        last_use: LastUse,
    ) -> Result<(), NeedRoom> {
        let Restored { payload, value, form, scratch, cost } = restored;
        let mark = self.mark_of(last_use);
        let new = |value_type, encoding| NewValue {
            bytes: &[],
            value_type,
            encoding,
            expiry: expires_at,
            mark,
        };
        match value {
            Value::String(bytes) => {
                let like = new(ValueType::String, encoding_of_form(form));
                let value = NewValue { bytes: &bytes, ..like };
                let put = |writer: &mut Self| writer.put_value_at(key, found, &value, cost);
                match scratch {
                    None => put(self)?,
                    // The request brings fewer bytes than are stored.
                    Some(_) => self.bounded(put)?,
                }
                if cost != Cost::ONE {
                    // The effect of a RESTORE has no place for it. This one has none for the last
                    // use: where it is applied the value counts as used then.
                    let expiry = expires_at.map_or(Expiry::Clear, Expiry::At);
                    self.tell_costed(key, &bytes, expiry, cost);
                    return Ok(());
                }
            }
            Value::Collection(collection) => {
                // From here on they are the collection's.
                drop(scratch);
                self.admit_unbrought(collection.memory_bytes())?;
                let like = new(type_of(&collection), Encoding::Handle);
                let stored = self.put_collection(key, found, collection, &like);
                stored.map_err(|(need, _)| need)?;
            }
        }
        let payload = &*payload;
        let effect = Effect::Restore { key: key.bytes, payload, form, expires_at, last_use };
        self.changed(key, EventClass::Generic, effect);
        Ok(())
    }
}

impl WriteView<'_> {
    /// Returns how collections are stored at `key` now, for one that is to be worked out.
    pub fn current_rules(&mut self, key: &Key<'_>) -> Rules {
        let shard = self.writer(key).shard;
        shard.refresh_rules();
        shard.rules
    }

    /// Makes `key` hold `value`, which a command has worked out, in place of what it holds, without
    /// a time to live: an empty one removes the key. The effect is the whole value.
    ///
    /// # Errors
    /// NeedRoom before any change: the caller drops the value and works it out again.
    pub fn store_collection<K: Kind>(&mut self, key: &Key<'_>, value: K) -> Result<(), NeedRoom> {
        let collection = value.into_collection();
        let mut writer = self.writer(key);
        let found = writer.live(key);
        if collection.is_empty() {
            match found {
                Some(id) => drop(writer.remove(key, id, Cause::Command)),
                None => writer.void_lease(key),
            }
            return Ok(());
        }
        writer.admit_unbrought(collection.memory_bytes())?;
        let form = form_of_collection(collection.encoding());
        let mut payload = Vec::new();
        if writer.shard.sink.is_some() {
            rdb::encode(Stored::Collection(collection.view()), &mut payload);
        }
        let new = NewValue {
            bytes: &[],
            value_type: K::TYPE,
            encoding: Encoding::Handle,
            expiry: None,
            mark: writer.mark_of(LastUse::Now),
        };
        let stored = writer.put_collection(key, found, collection, &new);
        stored.map_err(|(need, _)| need)?;
        let effect = Effect::Restore {
            key: key.bytes,
            payload: &payload,
            form,
            expires_at: None,
            last_use: LastUse::Now,
        };
        writer.changed(key, K::CLASS, effect);
        Ok(())
    }
}

impl KeyWriter<'_> {
    /// Refuses `bytes` more of collections, which the request does not bring: within an atomic
    /// record they pass the memory limit by no more than the record may.
    fn admit_unbrought(&self, bytes: u64) -> Result<(), NeedRoom> {
        match self.recorder.is_atomic() {
            true => self.shard.admit_beyond(bytes, self.recorder.overshoot_bytes_max()),
            false => self.shard.admit(self.database, bytes),
        }
    }

    /// Notes for how long the value of `key`, which a file has, may be read once it has expired.
    pub(crate) fn add_loaded_grace(
        &mut self,
        key: &Key<'_>,
        expires_at: Option<UnixMs>,
        grace_ms: u64,
    ) {
        if let Some(at) = expires_at
            && grace_ms > 0
        {
            self.add_grace(key, at, grace_of(grace_ms));
        }
    }

    /// Returns the mark of an entry that was used so.
    pub(crate) fn mark_of(&self, last_use: LastUse) -> AccessMark {
        let tracking = &self.shard.published.tracking;
        let now = self.recorder.replayed_at.unwrap_or(self.now);
        match last_use {
            LastUse::Now => tracking.first(now),
            LastUse::Ago { seconds } => tracking.used_ago(now, seconds),
            LastUse::Counted(counter) => tracking.counted(now, counter),
        }
    }
}

/// Returns how `value` is stored where `wanted` says, or nothing does; `None` where it cannot be
/// so.
fn form_to_store(value: &Value<'_>, wanted: Option<StoredForm>) -> Option<StoredForm> {
    let by_value = match value {
        Value::Collection(collection) => form_of_collection(collection.encoding()),
        Value::String(bytes) => match (encoding_of(bytes), wanted) {
            (_, Some(StoredForm::Raw)) => StoredForm::Raw,
            (_, Some(StoredForm::Embstr)) if bytes.len() <= EMBSTR_BYTES_MAX => StoredForm::Embstr,
            (Encoding::Int, _) => StoredForm::Int,
            (Encoding::Embstr, _) => StoredForm::Embstr,
            _ => StoredForm::Raw,
        },
    };
    wanted.is_none_or(|wanted| wanted == by_value).then_some(by_value)
}

fn encoding_of_form(form: StoredForm) -> Encoding {
    match form {
        StoredForm::Int => Encoding::Int,
        StoredForm::Embstr => Encoding::Embstr,
        StoredForm::Raw => Encoding::Raw,
        _ => Encoding::Handle,
    }
}

fn form_of_collection(encoding: CollectionEncoding) -> StoredForm {
    match encoding {
        CollectionEncoding::Listpack => StoredForm::Listpack,
        CollectionEncoding::Quicklist => StoredForm::Quicklist,
        CollectionEncoding::Intset => StoredForm::Intset,
        CollectionEncoding::HashTable => StoredForm::HashTable,
        CollectionEncoding::Skiplist => StoredForm::Skiplist,
        CollectionEncoding::Stream => StoredForm::Stream,
    }
}

fn collection_encoding_of(form: StoredForm) -> Option<CollectionEncoding> {
    match form {
        StoredForm::Int | StoredForm::Embstr | StoredForm::Raw => None,
        StoredForm::Listpack => Some(CollectionEncoding::Listpack),
        StoredForm::Quicklist => Some(CollectionEncoding::Quicklist),
        StoredForm::Intset => Some(CollectionEncoding::Intset),
        StoredForm::HashTable => Some(CollectionEncoding::HashTable),
        StoredForm::Skiplist => Some(CollectionEncoding::Skiplist),
        StoredForm::Stream => Some(CollectionEncoding::Stream),
    }
}

fn type_of(collection: &Collection) -> ValueType {
    match collection {
        Collection::List(_) => ValueType::List,
        Collection::Set(_) => ValueType::Set,
        Collection::Hash(_) => ValueType::Hash,
        Collection::SortedSet(_) => ValueType::SortedSet,
        Collection::Stream(_) => ValueType::Stream,
    }
}
