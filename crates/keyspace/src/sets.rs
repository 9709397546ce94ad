//! Changing sets: each method is one whole change with its effect.

use base::Key;
use collections::{Set, set_growth_bound};
use effects::{Cause, EventClass};

use crate::view::WrongType;
use crate::write::{Refusal, WriteView};

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::Set;

impl WriteView<'_> {
    /// Adds `members`, which are not empty, to the set at `key`; returns how many are new.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn add_members<'e>(
        &mut self,
        key: &Key<'_>,
        members: impl ExactSizeIterator<Item = &'e [u8]> + Clone,
    ) -> Result<usize, Refusal> {
        let mut writer = self.writer(key);
        let found = writer.find::<Set>(key)?;
        writer.admit(found, || set_growth_bound(members.clone()))?;
        let rules = writer.shard.rules;
        let count = members.len() as u64;
        let add =
            |set: &mut Set| members.clone().filter(|member| set.insert(member, &rules)).count();
        let (added, is_remade) = match found {
            Some(id) => {
                let change = |set: &mut Set, _: &_| {
                    let is_remade = set.prepare(count, &rules);
                    (add(set), is_remade)
                };
                writer.change_collection(key, id, change)?.0
            }
            None => {
                let first = members.clone().next().expect("there is a member");
                let memory = writer.take_memory();
                let mut set = Set::for_members_in(memory, first, count, &rules);
                let added = add(&mut set);
                writer.insert_collection(key, set, None)?;
                (added, true)
            }
        };
        if added > 0 {
            writer.changed_by(key, true, (CLASS, "SADD"), members);
        } else if is_remade {
            writer.reencoded_by(key, (CLASS, "SADD"), members);
        }
        Ok(added)
    }

    /// Takes `members` out of the set at `key`; returns how many were there.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn remove_members<'e>(
        &mut self,
        key: &Key<'_>,
        members: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<usize, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<Set>(key)? else { return Ok(0) };
        let (removed, exists) = writer.shrink_collection(key, id, |set: &mut Set, rules| {
            set.remove_all(members.clone(), rules)
        });
        if removed > 0 {
            writer.changed_by(key, exists, (CLASS, "SREM"), members);
        }
        Ok(removed)
    }

    /// Takes `members` out of the set at `key`, which are those at `indexes`, in order; others
    /// stay.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn remove_members_at<'e>(
        &mut self,
        key: &Key<'_>,
        indexes: &[usize],
        members: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<(), WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<Set>(key)? else { return Ok(()) };
        let ((), exists) = writer.shrink_collection(key, id, |set: &mut Set, rules| {
            set.remove_at(indexes, members.clone(), rules);
        });
        writer.changed_by(key, exists, (CLASS, "SREM"), members);
        Ok(())
    }

    /// Takes all members out of the set at `key`, and with them the key: the effect names none.
    pub fn remove_all_members(&mut self, key: &Key<'_>) {
        let mut writer = self.writer(key);
        if let Some(id) = writer.live(key) {
            writer.remove_as(key, id, Cause::Command, CLASS);
        }
    }
}
