//! Changing sorted sets: each method is one whole change with its effect.

use arena::NeedRoom;
use base::Key;
use base::number_text::{DoubleText, IntegerText};
use collections::{
    Direction, Element, RankedMembers, Rules, SortedSet, SortedSetView, sorted_set_growth_bound,
};
use effects::EventClass;

use crate::lists::WhenAbsent;
use crate::scratch::Scratch;
use crate::view::WrongType;
use crate::write::{Refusal, WriteView};

/// What giving scores came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scored {
    /// Members that are new.
    pub added: usize,
    /// Members that have another score.
    pub updated: usize,
}

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::SortedSet;

impl WriteView<'_> {
    /// Gives members of the sorted set at `key` scores: `rule` says for each of `pairs`, which are
    /// not empty, from the score that the member has and the one that comes with it, which score it
    /// gets, which is a number, if any. Where there is no sorted set, all get one.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn score_members(
        &mut self,
        key: &Key<'_>,
        pairs: &[(f64, &[u8])],
        when_absent: WhenAbsent,
        mut rule: impl FnMut(Option<f64>, f64) -> Option<f64>,
    ) -> Result<Scored, Refusal> {
        let mut writer = self.writer(key);
        let found = writer.find::<SortedSet>(key)?;
        if found.is_none() && when_absent == WhenAbsent::Skip {
            return Ok(Scored::default());
        }
        writer.admit(found, || sorted_set_growth_bound(pairs.iter().map(|(_, member)| *member)))?;
        let is_heard = writer.shard.sink.is_some();
        let (mut scored, mut has_effect, mut changed) = (Scored::default(), false, Vec::new());
        let is_new = found.is_none();
        let mut give = |set: &mut SortedSet, rules: &Rules| {
            for &(given, member) in pairs {
                let (old, next) = set.update(member, rules, |old| rule(old, given));
                match old {
                    _ if next == old => {}
                    None => scored.added += 1,
                    Some(_) => scored.updated += 1,
                }
                // How many pairs make a set decides on its form, so that its effect has them all.
                if let Some(score) = next.filter(|_| is_new || next != old) {
                    has_effect = true;
                    if is_heard {
                        changed.push((DoubleText::new(score), member));
                    }
                }
            }
        };
        match found {
            Some(id) => {
                writer.change_collection(key, id, give)?;
            }
            None => {
                let first = pairs.first().map_or(0, |(_, member)| member.len());
                let (memory, count) = (writer.take_memory(), pairs.len() as u64);
                let rules = writer.shard.rules;
                let mut set = SortedSet::for_members_in(memory, count, first, &rules);
                give(&mut set, &rules);
                if set.is_empty() {
                    writer.keep_memory(set.into_buffer());
                    return Ok(Scored::default());
                }
                writer.insert_collection(key, set, None)?;
            }
        }
        if has_effect {
            let parts = changed.iter().flat_map(|(score, member)| [score.as_bytes(), member]);
            writer.changed_by(key, true, (CLASS, "ZADD"), parts);
        }
        Ok(scored)
    }

    /// Makes `key` hold `ranked`, which a command has worked out, in place of what it holds; no
    /// members remove the key. The memory that they take until then is that of `scratch`.
    ///
    /// # Errors
    /// NeedRoom before any change.
    pub fn store_ranked(
        &mut self,
        key: &Key<'_>,
        ranked: RankedMembers,
        scratch: Scratch,
    ) -> Result<(), NeedRoom> {
        let shard = self.writer(key).shard;
        shard.refresh_rules();
        let set = ranked.into_sorted_set(&shard.rules);
        // From here on it is the collection's.
        drop(scratch);
        self.store_collection(key, set)
    }

    /// Takes `members` out of the sorted set at `key`; returns how many were there.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn remove_scored<'e>(
        &mut self,
        key: &Key<'_>,
        members: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> Result<usize, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<SortedSet>(key)? else { return Ok(0) };
        let (removed, exists) = writer.shrink_collection(key, id, |set: &mut SortedSet, rules| {
            members.clone().filter(|member| set.remove(member, rules).is_some()).count()
        });
        if removed > 0 {
            writer.changed_by(key, exists, (CLASS, "ZREM"), members);
        }
        Ok(removed)
    }

    /// Takes up to `count` members, at least one, from the low or the high end of the sorted set at
    /// `key`. `read` is called first, with the set, the rank where they begin and how many will go;
    /// its result comes back, `None` where there is no sorted set.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn pop_scored<R>(
        &mut self,
        key: &Key<'_>,
        direction: Direction,
        count: usize,
        read: impl FnOnce(SortedSetView<'_>, usize, usize) -> R,
    ) -> Result<Option<R>, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<SortedSet>(key)? else { return Ok(None) };
        let is_heard = writer.shard.sink.is_some();
        let mut gone: Vec<Vec<u8>> = Vec::new();
        let change = |set: &mut SortedSet, _: &_| {
            let count = count.min(set.len());
            let first = if direction == Direction::Up { 0 } else { set.len() - count };
            let result = read(set.view(), first, count);
            if is_heard {
                let mut keep = |member: Element<'_>| gone.push(member.to_vec());
                set.view().for_each(first, count, Direction::Up, |member, _| keep(member));
            }
            set.remove_range(first, count);
            result
        };
        let (result, exists) = writer.shrink_collection(key, id, change);
        writer.changed_by(key, exists, (CLASS, "ZREM"), gone.iter().map(Vec::as_slice));
        Ok(Some(result))
    }

    /// Takes `count` members from rank `start` on out of the sorted set at `key`, which has them.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn remove_ranks(
        &mut self,
        key: &Key<'_>,
        start: usize,
        count: usize,
    ) -> Result<(), WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<SortedSet>(key)? else { return Ok(()) };
        if count == 0 {
            return Ok(());
        }
        let ((), exists) = writer
            .shrink_collection(key, id, |set: &mut SortedSet, _| set.remove_range(start, count));
        let range = [start, start + count - 1].map(|rank| IntegerText::new(rank as i64));
        writer.changed_by(
            key,
            exists,
            (CLASS, "ZREMRANGEBYRANK"),
            range.iter().map(IntegerText::as_bytes),
        );
        Ok(())
    }
}
