//! Changing strings whose bytes have a format: HyperLogLogs. What a change is, its handler says: it
//! looks at the value, says which bytes become others, and names the effects, which are requests of
//! commands, or the whole value.

use arena::{EntryId, NeedRoom};
use base::Key;
use collections::hyperloglog::Edit;
use effects::{Arguments, Effect, EventClass, Expiry, NO_EVENT};

use crate::view::string_of;
use crate::write::{KeyWriter, Refusal, WriteView};
use crate::{Encoding, WrongType};

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::String;

/// One change of a string, while the handler works it out.
pub struct StringChange<'e> {
    /// For a new value, whatever is there before.
    pub memory: Vec<u8>,
    /// The longest that a sparse HyperLogLog may be, in bytes: `hll-sparse-max-bytes`; none where
    /// effects are replayed, as one of those says when it becomes dense.
    pub sparse_bytes_max: u64,
    is_heard: bool,
    count: u64,
    touches: bool,
    heard: Vec<StringEffect<'e>>,
}

enum StringEffect<'e> {
    Command { name: &'static str, event: &'static str, arguments: Vec<&'e [u8]> },
    Value { event: &'static str },
}

impl<'e> StringChange<'e> {
    /// Adds the command `name`, in upper case, with `arguments` behind the key; its keyspace event
    /// is `event`.
    #[inline]
    pub fn add(
        &mut self,
        (name, event): (&'static str, &'static str),
        arguments: impl Iterator<Item = &'e [u8]>,
    ) {
        (self.count, self.touches) = (self.count + 1, true);
        if self.is_heard {
            let arguments = arguments.collect();
            self.heard.push(StringEffect::Command { name, event, arguments });
        }
    }

    /// Adds that the value is stored in another form, by the command `name` of no argument but the
    /// key: nobody who watches the key is told, and there is no event, as in Redis.
    pub fn add_conversion(&mut self, name: &'static str) {
        self.count += 1;
        if self.is_heard {
            let arguments = Vec::new();
            self.heard.push(StringEffect::Command { name, event: NO_EVENT, arguments });
        }
    }

    /// Adds that the key holds the whole of [`StringChange::memory`]; its keyspace event is
    /// `event`.
    pub fn add_value(&mut self, event: &'static str) {
        (self.count, self.touches) = (self.count + 1, true);
        if self.is_heard {
            self.heard.push(StringEffect::Value { event });
        }
    }
}

impl WriteView<'_> {
    /// Runs `change` on the string at `key`, if there is one, and changes it as that says; it is
    /// encoded as a string that was changed in place then, also where its bytes stay. Its time to
    /// live stays. A key that is not there is made.
    ///
    /// # Errors
    /// [`Refusal`], or within the result the error of `change`; nothing has changed.
    #[inline]
    pub fn change_string<'e, R, E>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(Option<&[u8]>, &mut StringChange<'e>) -> Result<(Edit, R), E>,
    ) -> Result<Result<R, E>, Refusal> {
        let mut writer = self.writer(key);
        writer.shard.refresh_rules();
        let found = writer.live(key);
        let sparse_bytes_max = match writer.recorder.replayed_at {
            Some(_) => u64::MAX,
            None => writer.shard.rules.limits.sparse_bytes,
        };
        let mut state = StringChange {
            memory: writer.take_memory(),
            sparse_bytes_max,
            is_heard: writer.shard.sink.is_some(),
            count: 0,
            touches: false,
            heard: Vec::new(),
        };
        let changed = writer.work_out(key, found, |value| change(value, &mut state));
        let (edit, result) = match changed {
            Ok(Ok(changed)) => changed,
            Ok(Err(error)) => {
                writer.keep_memory(state.memory);
                return Ok(Err(error));
            }
            Err(wrong_type) => {
                writer.keep_memory(state.memory);
                return Err(wrong_type.into());
            }
        };
        let stored = writer.store_edit(key, found, &edit, &state.memory);
        if stored.is_ok() {
            writer.tell_string_effects(key, &state);
        }
        writer.keep_memory(state.memory);
        stored?;
        Ok(Ok(result))
    }
}

impl KeyWriter<'_> {
    /// Runs `change` on the string at `found`, which is used so.
    #[inline]
    fn work_out<R>(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        change: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, WrongType> {
        let Some(id) = found else { return Ok(change(None)) };
        self.mark_used(key, id);
        let part = self.shard.database(self.database).expect("it has an entry");
        let value = string_of(part.table.entry(id))?;
        Ok(change(Some(value)))
    }

    /// Changes the string at `found`, or adds one, as `edit` says; `new` is the new value where it
    /// speaks of one.
    fn store_edit(
        &mut self,
        key: &Key<'_>,
        found: Option<EntryId>,
        edit: &Edit,
        new: &[u8],
    ) -> Result<(), NeedRoom> {
        let found = match edit {
            Edit::Keep | Edit::Whole => found,
            Edit::Bytes(_) | Edit::From(_) => self.live_text(key)?,
        };
        let Some(id) = found else {
            return match edit {
                Edit::Keep => Ok(()),
                Edit::Bytes(_) | Edit::From(_) | Edit::Whole => {
                    self.bounded(|writer| writer.put(key, None, new, Encoding::Raw, None))
                }
            };
        };
        let entry = self.part().table.entry(id);
        let (old_length, expiry) = (entry.value_length(), entry.expiry());
        match edit {
            Edit::Keep if entry.encoding() == Encoding::Raw => Ok(()),
            Edit::Keep => self.make_raw(key),
            Edit::Bytes(changes) => self.bounded(|writer| {
                let changes = changes.as_slice();
                writer.edit(key, id, |table| table.patch(id, changes, Encoding::Raw))
            }),
            // What has become shorter is stored anew: strings do not tell their own length.
            Edit::From(offset) if new.len() as u64 >= old_length => self.bounded(|writer| {
                let (at, bytes) = (*offset as u64, &new[*offset..]);
                writer.edit(key, id, |table| table.overwrite(id, at, bytes, Encoding::Raw))
            }),
            Edit::From(_) | Edit::Whole => {
                let (id, encoding) = (Some(id), Encoding::Raw);
                self.bounded(|writer| writer.put_changed(key, id, new, encoding, expiry))
            }
        }
    }

    /// Tells the sink and the watchers of a change of the string at `key`.
    #[inline]
    fn tell_string_effects(&mut self, key: &Key<'_>, change: &StringChange<'_>) {
        self.shard.published.changes.add(change.count);
        if change.is_heard {
            self.record_string_effects(key, change);
        }
        if change.touches {
            self.notify_watchers(key, true);
        }
    }

    #[cold]
    fn record_string_effects(&mut self, key: &Key<'_>, change: &StringChange<'_>) {
        let named = self.event;
        for effect in &change.heard {
            match effect {
                StringEffect::Command { name, event, arguments } => {
                    self.event = event;
                    let arguments = Arguments::Slices(arguments);
                    let command = Effect::Command { name, key: key.bytes, arguments };
                    self.record(CLASS, command, |change| change);
                }
                StringEffect::Value { event } => {
                    self.event = event;
                    let (value, expiry) = (&change.memory[..], Expiry::Keep);
                    self.record(CLASS, Effect::Set { key: key.bytes, value, expiry }, |it| it);
                    self.tell_encoding(key, value, Encoding::Raw);
                }
            }
        }
        self.event = named;
    }
}
