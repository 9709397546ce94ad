//! Times of fields of hashes: changing them, and removing the fields whose time is over.

use arena::EntryId;
use base::number_text::IntegerText;
use base::{Key, UnixMs};
use collections::{Collection, Hash, Rules, field_times_growth_bound};
use effects::{Arguments, Cause, Change, Effect, EventClass};

use crate::shard::DatabaseShard;
use crate::view::WrongType;
use crate::write::{KeyWriter, Refusal, WriteView};

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::Hash;

/// What becomes of the times of fields that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTime {
    /// They expire no more.
    Clear,
    /// Those that have a time keep it.
    Keep,
    /// They expire at this time, which may have passed.
    At(UnixMs),
}

/// When a field takes a new time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeCondition {
    /// Always.
    Always,
    /// Only where it has none.
    Absent,
    /// Only where it has one.
    Present,
    /// Only a later one; none counts as endless.
    Later,
    /// Only an earlier one.
    Earlier,
}

/// What giving a field a time came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOutcome {
    /// There is no such field.
    NoField,
    /// The condition does not hold.
    NotMet,
    /// It has the time.
    Set,
    /// The time has come, so that the field is gone.
    Removed,
}

impl TimeCondition {
    fn allows(self, current: Option<UnixMs>, at: UnixMs) -> bool {
        match self {
            TimeCondition::Always => true,
            TimeCondition::Absent => current.is_none(),
            TimeCondition::Present => current.is_some(),
            TimeCondition::Later => current.is_some_and(|current| at > current),
            TimeCondition::Earlier => current.is_none_or(|current| at < current),
        }
    }
}

impl WriteView<'_> {
    /// Makes `fields` of the hash at `key` expire at `at`, each where `condition` holds for it.
    /// Where that has come, they are removed instead. Returns what it came to for each, in order;
    /// none where there is no hash.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_field_times<'e>(
        &mut self,
        key: &Key<'_>,
        at: UnixMs,
        condition: TimeCondition,
        fields: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<Option<Vec<TimeOutcome>>, Refusal> {
        let has_come = at <= self.now();
        let mut writer = self.writer(key);
        let Some(id) = writer.find_fields(key, fields.clone())? else { return Ok(None) };
        let change = |hash: &mut Hash, rules: &Rules| {
            let give = |field| give_time(hash, field, at, (condition, has_come), rules);
            fields.clone().map(give).collect::<Vec<TimeOutcome>>()
        };
        let (outcomes, exists) = match has_come {
            true => writer.shrink_collection(key, id, change),
            false => {
                let bound = || field_times_growth_bound(fields.clone(), key.bytes.len());
                writer.admit(Some(id), bound)?;
                writer.change_collection(key, id, change)?
            }
        };
        let changed = if has_come { TimeOutcome::Removed } else { TimeOutcome::Set };
        let count = outcomes.iter().filter(|outcome| **outcome == changed).count();
        if count > 0 {
            let names = fields.zip(&outcomes).filter(|(_, outcome)| **outcome == changed);
            let names = names.map(|(name, _)| name);
            if has_come {
                writer.shard.published.expired_fields.add(count as u64);
                writer.changed_by(key, exists, (CLASS, "HDEL"), names);
            } else {
                let [time, count] = [at.0, count as i64].map(IntegerText::new);
                let head = [time.as_bytes(), b"FIELDS", count.as_bytes()];
                let arguments = head.into_iter().chain(names);
                writer.changed_by(key, true, (CLASS, "HPEXPIREAT"), arguments);
            }
        }
        Ok(Some(outcomes))
    }

    /// Sets `fields` of the hash at `key` with a time that has come: nobody ever sees their values,
    /// so that all that is done is to remove those that are there. It is one change, as a part of
    /// which they might stay for ever; it is heard of also where nothing was there, as in Redis.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn set_past_fields<'e>(
        &mut self,
        key: &Key<'_>,
        fields: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<(), WrongType> {
        let mut writer = self.writer(key);
        let remove = |hash: &mut Hash, rules: &Rules| {
            for field in fields.clone() {
                hash.remove(field, rules);
            }
        };
        let exists = match writer.find_fields(key, fields.clone())? {
            Some(id) => writer.shrink_collection(key, id, remove).1,
            None => false,
        };
        writer.shard.published.expired_fields.add(fields.clone().count() as u64);
        // The event behind it is that of the effect.
        writer.event = "hset";
        writer.changed_by(key, exists, (CLASS, "HDEL"), fields);
        Ok(())
    }

    /// Removes those of `fields` of the hash at `key` that have expired, as a change that names
    /// them does first.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn remove_expired_fields<'e>(
        &mut self,
        key: &Key<'_>,
        fields: impl Iterator<Item = &'e [u8]>,
    ) -> Result<(), WrongType> {
        self.writer(key).find_fields(key, fields).map(drop)
    }

    /// Counts `count` fields of the hash at `key` that are gone because a request gave them a time
    /// that had come.
    pub fn count_expired_fields(&mut self, key: &Key<'_>, count: usize) {
        self.writer(key).shard.published.expired_fields.add(count as u64);
    }

    /// As [`WriteView::change`], of a hash of which the request names `fields`: those of them that
    /// have expired are removed first.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn change_fields<'e, R>(
        &mut self,
        key: &Key<'_>,
        effect: &'static str,
        arguments: impl Iterator<Item = &'e [u8]>,
        fields: impl Iterator<Item = &'e [u8]>,
        change: impl FnOnce(&mut Hash, &Rules) -> (R, bool),
    ) -> Result<Option<R>, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find_fields(key, fields)? else { return Ok(None) };
        let ((result, has_changed), exists) = writer.shrink_collection(key, id, change);
        if has_changed {
            writer.changed_by(key, exists, (CLASS, effect), arguments);
        }
        Ok(Some(result))
    }
}

/// Gives `field` the time `at`, or removes it where that `has_come`.
fn give_time(
    hash: &mut Hash,
    field: &[u8],
    at: UnixMs,
    (condition, has_come): (TimeCondition, bool),
    rules: &Rules,
) -> TimeOutcome {
    let view = hash.view();
    if view.get(field, rules).is_none() {
        return TimeOutcome::NoField;
    }
    if !condition.allows(view.time_of(field), at) {
        return TimeOutcome::NotMet;
    }
    if has_come {
        hash.remove(field, rules);
        return TimeOutcome::Removed;
    }
    hash.set_time(field, Some(at), rules);
    TimeOutcome::Set
}

impl KeyWriter<'_> {
    /// As [`KeyWriter::find`] of a hash, once those of `fields` that have expired are removed from
    /// it, which is an effect of its own.
    #[inline]
    pub fn find_fields<'e>(
        &mut self,
        key: &Key<'_>,
        fields: impl Iterator<Item = &'e [u8]>,
    ) -> Result<Option<EntryId>, WrongType> {
        let Some(id) = self.find::<Hash>(key)? else { return Ok(None) };
        let hash = self.stored_collection::<Hash>(id);
        match hash.and_then(Hash::next_expiry).is_some_and(|at| self.now > at) {
            true => Ok(self.find_without_expired(key, id, fields)),
            false => Ok(Some(id)),
        }
    }

    #[cold]
    fn find_without_expired<'e>(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        fields: impl Iterator<Item = &'e [u8]>,
    ) -> Option<EntryId> {
        let hash = self.stored_collection::<Hash>(id).expect("its fields expire").view();
        let is_past = |field: &&[u8]| hash.time_of(field).is_some_and(|at| self.now > at);
        let names: Vec<&[u8]> = fields.filter(is_past).collect();
        if names.is_empty() {
            return Some(id);
        }
        self.remove_expired_fields(key, id, &names, Cause::ExpiredOnAccess);
        self.live(key)
    }

    /// As [`KeyWriter::changed_by`], where fields were set that expire at `at`, or keep the times
    /// that they had: `parts` are a field, its value, a field, its value.
    #[cold]
    pub fn changed_with_time<'e>(
        &mut self,
        key: &Key<'_>,
        at: Option<UnixMs>,
        parts: impl Iterator<Item = &'e [u8]> + Clone,
    ) {
        let [time, count] = [at.map_or(0, |at| at.0), parts.clone().count() as i64 / 2];
        let [time, count] = [time, count].map(IntegerText::new);
        let time: &[&[u8]] = match at {
            Some(_) => &[b"PXAT", time.as_bytes()],
            None => &[b"KEEPTTL"],
        };
        let mut arguments = [time, &[b"FIELDS", count.as_bytes()]].concat();
        if self.shard.sink.is_some() {
            parts.for_each(|part| arguments.push(part));
        }
        self.changed_by(key, true, (CLASS, "HSETEX"), arguments.into_iter());
    }

    /// Removes the fields `names`, whose time is over, of the hash at `id`, which is that of `key`;
    /// with the last field the key goes.
    pub fn remove_expired_fields(
        &mut self,
        key: &Key<'_>,
        id: EntryId,
        names: &[&[u8]],
        cause: Cause,
    ) {
        let remove = |hash: &mut Hash, rules: &Rules| {
            names.iter().filter(|name| hash.remove(name, rules)).count()
        };
        let (removed, exists) = self.shrink_collection(key, id, remove);
        self.shard.published.expired_fields.add(removed as u64);
        let arguments = Arguments::Slices(names);
        let effect = Effect::Command { name: "HDEL", key: key.bytes, arguments };
        self.record(CLASS, effect, |change| Change { cause, removes: !exists, ..change });
        self.notify_watchers(key, exists);
    }
}

impl DatabaseShard {
    /// Returns the key of the hash whose field has expired first by `now`, and the names of fields
    /// of it that have, as [`Hash::expired_fields`] does; none where no field has.
    pub fn expired_fields(
        &self,
        now: UnixMs,
        count_max: usize,
        bytes_max: usize,
    ) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
        let Collection::Hash(hash) = self.store.get(self.store.first_expired(now)?) else {
            unreachable!("only fields of hashes expire")
        };
        let key = hash.key().expect("it has fields that expire").to_vec();
        Some((key, hash.expired_fields(now, count_max, bytes_max)))
    }
}
