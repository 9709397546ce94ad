//! Changing hashes: each method is one whole change with its effect.

use base::Key;
use base::number_text::IntegerText;
use collections::{Element, Hash, Rules, field_times_growth_bound, hash_growth_bound};
use effects::EventClass;

use crate::field_times::FieldTime;
use crate::write::{Refusal, WriteView};

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::Hash;

impl WriteView<'_> {
    /// Sets fields of the hash at `key`: `parts` are a field, its value, a field, its value, and
    /// not empty. They expire no more. Returns how many fields are new.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_fields<'e>(
        &mut self,
        key: &Key<'_>,
        parts: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<usize, Refusal> {
        self.set_timed_fields(key, parts, FieldTime::Clear)
    }

    /// As [`WriteView::set_fields`]; `time` says what becomes of their times.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_timed_fields<'e>(
        &mut self,
        key: &Key<'_>,
        parts: impl Iterator<Item = &'e [u8]> + Clone,
        time: FieldTime,
    ) -> Result<usize, Refusal> {
        let mut writer = self.writer(key);
        let fields = || parts.clone().step_by(2);
        let found = writer.find_fields(key, fields())?;
        writer.admit(found, || {
            hash_growth_bound(parts.clone())
                + match time {
                    FieldTime::At(_) => field_times_growth_bound(fields(), key.bytes.len()),
                    FieldTime::Clear | FieldTime::Keep => 0,
                }
        })?;
        let is_timed = |id| writer.stored_collection::<Hash>(id).is_some_and(Hash::is_timed);
        let keeps_times = time == FieldTime::Keep && found.is_some_and(is_timed);
        let set_all = |hash: &mut Hash, rules: &Rules| {
            hash.prepare(parts.clone(), rules);
            let (mut rest, mut added) = (parts.clone(), 0);
            while let (Some(field), Some(value)) = (rest.next(), rest.next()) {
                added += usize::from(match time {
                    FieldTime::Clear => hash.set(field, value, rules),
                    FieldTime::Keep | FieldTime::At(_) => {
                        hash.set_keeping_time(field, value, rules)
                    }
                });
                if let FieldTime::At(at) = time {
                    hash.set_time(field, Some(at), rules);
                }
            }
            added
        };
        let added = match found {
            Some(id) => writer.change_collection(key, id, set_all)?.0,
            None => {
                let (mut hash, rules) = (Hash::empty_in(writer.take_memory()), writer.shard.rules);
                let added = set_all(&mut hash, &rules);
                writer.insert_collection(key, hash, None)?;
                added
            }
        };
        match time {
            FieldTime::At(at) => writer.changed_with_time(key, Some(at), parts),
            FieldTime::Keep if keeps_times => writer.changed_with_time(key, None, parts),
            FieldTime::Keep | FieldTime::Clear => {
                writer.changed_by(key, true, (CLASS, "HSET"), parts);
            }
        }
        Ok(added)
    }

    /// Makes the value of `field` of the hash at `key` the integer that `rule` returns for the
    /// value that it has; a time that it has stays. Returns that, or the rule's error, and nothing
    /// has changed.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn update_number<E>(
        &mut self,
        key: &Key<'_>,
        field: &[u8],
        rule: impl FnOnce(Option<Element<'_>>) -> Result<i64, E>,
    ) -> Result<Result<i64, E>, Refusal> {
        let mut writer = self.writer(key);
        let found = writer.find_fields(key, std::iter::once(field))?;
        let stored = found.and_then(|id| writer.stored_collection::<Hash>(id));
        let keeps_times = stored.is_some_and(Hash::is_timed);
        let longest = IntegerText::new(i64::MIN);
        writer.admit(found, || hash_growth_bound([field, longest.as_bytes()].into_iter()))?;
        let updated = match found {
            Some(id) => {
                let update =
                    |hash: &mut Hash, rules: &Rules| hash.update_number(field, rules, rule);
                writer.change_collection(key, id, update)?.0
            }
            None => {
                let (mut hash, rules) = (Hash::empty_in(writer.take_memory()), writer.shard.rules);
                let updated = hash.update_number(field, &rules, rule);
                match updated {
                    Ok(_) => writer.insert_collection(key, hash, None)?,
                    Err(_) => writer.keep_memory(hash.into_buffer()),
                }
                updated
            }
        };
        if let Ok(number) = updated {
            // As the result: whoever applies the effect need not add.
            let text = IntegerText::new(number);
            let parts = [field, text.as_bytes()].into_iter();
            match keeps_times {
                true => writer.changed_with_time(key, None, parts),
                false => writer.changed_by(key, true, (CLASS, "HSET"), parts),
            }
        }
        Ok(updated)
    }
}
