//! Changing hashes: each method is one whole change with its effect.

use base::Key;
use collections::{Hash, hash_growth_bound};
use effects::EventClass;

use crate::write::{Refusal, WriteView};

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::Hash;

impl WriteView<'_> {
    /// Sets fields of the hash at `key`: `parts` are a field, its value, a field, its value, and
    /// not empty. Returns how many fields are new.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_fields<'e>(
        &mut self,
        key: &Key<'_>,
        parts: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<usize, Refusal> {
        let mut writer = self.writer(key);
        let found = writer.find::<Hash>(key)?;
        writer.admit(found, || hash_growth_bound(parts.clone()))?;
        let rules = writer.shard.rules;
        let set_all = |hash: &mut Hash| {
            hash.prepare(parts.clone(), &rules);
            let (mut rest, mut added) = (parts.clone(), 0);
            while let (Some(field), Some(value)) = (rest.next(), rest.next()) {
                added += usize::from(hash.set(field, value, &rules));
            }
            added
        };
        let added = match found {
            Some(id) => writer.change_collection(key, id, |hash: &mut Hash, _| set_all(hash))?.0,
            None => {
                let mut hash = Hash::empty_in(writer.take_memory());
                let added = set_all(&mut hash);
                writer.insert_collection(key, hash, None)?;
                added
            }
        };
        writer.changed_by(key, true, (CLASS, "HSET"), parts);
        Ok(added)
    }
}
