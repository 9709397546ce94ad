//! How entries go to which groups may refer: what is pending of them may stay so, may end with
//! them, or may hold them.

use super::log::{Choice, Log, Trim, TrimBounds};
use super::walk::StreamWalk;
use super::{Groups, Parts, Stream, StreamId};
use crate::sorted_set::Direction;
use crate::walk::WalkPlace;

/// What the removal of an entry means to groups that have not done with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// It stays pending where it was.
    #[default]
    Keep,
    /// It is pending nowhere any more.
    Delete,
    /// It is only removed if every group has read it, and none has it pending.
    Acknowledged,
}

/// What became of an entry that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// There is none.
    Absent,
    /// It is gone.
    Removed,
    /// It stays, as a group refers to it.
    Referenced,
}

impl Stream {
    /// Takes entry `id` out, if `references` allow it. Tells `ended` of each group in which that
    /// ends that it is pending: with [`References::Delete`] also where the entry itself is absent.
    pub fn remove_entry(
        &mut self,
        id: StreamId,
        references: References,
        ended: &mut dyn FnMut(&[u8], StreamId),
    ) -> Removal {
        let Parts { log, groups, group_bytes, walk, .. } = &mut *self.0;
        if references == References::Delete {
            end_pending((groups, walk), group_bytes, id, ended);
        }
        // An absent one costs no look at the groups, of which there may be many.
        if references == References::Acknowledged && log.contains(id) && is_referenced(groups, id) {
            return Removal::Referenced;
        }
        match log.remove(id) {
            true => Removal::Removed,
            false => Removal::Absent,
        }
    }

    /// Takes entries out as `trim` and `bounds` say, ends that they are pending, and tells `ended`
    /// of that; returns how many entries went.
    pub fn trim_with_pending(
        &mut self,
        trim: Trim,
        bounds: TrimBounds,
        ended: &mut dyn FnMut(&[u8], StreamId),
    ) -> u64 {
        let Parts { log, groups, group_bytes, walk, .. } = &mut *self.0;
        let mut gone = |id| end_pending((groups, walk), group_bytes, id, ended);
        log.trim(trim, bounds, Some(&mut gone))
    }

    /// Takes entries out as `trim` says that no group refers to, of the first `looks_max` entries.
    /// Returns how many went before the first that stayed, and tells `removed` of each other one.
    pub fn trim_acknowledged(
        &mut self,
        trim: Trim,
        looks_max: u64,
        removed: &mut dyn FnMut(StreamId),
    ) -> u64 {
        let Parts { log, groups, .. } = &mut *self.0;
        // No group has read what is behind this.
        let read_by_all = groups.values().map(|group| group.last_id()).min();
        let mut search = Search {
            next: None,
            last: read_by_all.unwrap_or(StreamId::MAX),
            excess: match trim {
                Trim::ToLength(length) => log.len().saturating_sub(length),
                Trim::Before(_) => u64::MAX,
            },
            looks_left: looks_max,
        };
        if let Trim::Before(id) = trim {
            let Some(before) = id.previous() else { return 0 };
            search.last = search.last.min(before);
        }
        let first = search.count_first(log, groups);
        log.trim(Trim::ToLength(log.len() - first), TrimBounds::EXACT, None);
        if let Some(start) = search.next {
            log.remove_where(start, search.last, |id| {
                let choice = search.choose(groups, id);
                if choice == Choice::Remove {
                    removed(id);
                }
                choice
            });
        }
        first
    }
}

/// A search for entries to which no group refers.
struct Search {
    /// The first entry that stays, if the search has come to one.
    next: Option<StreamId>,
    /// The last entry that may be among them.
    last: StreamId,
    /// How many may yet be found.
    excess: u64,
    /// How many entries may yet be looked at.
    looks_left: u64,
}

impl Search {
    /// Returns how many there are before the first entry that stays.
    fn count_first(&mut self, log: &Log, groups: &Groups) -> u64 {
        let mut count = 0;
        let mut entries = log.entries(StreamId::MIN, self.last, Direction::Up);
        while count < self.excess
            && count < self.looks_left
            && let Some(id) = entries.advance()
        {
            if is_referenced(groups, id) {
                self.next = Some(id);
                break;
            }
            count += 1;
        }
        self.excess -= count;
        self.looks_left -= count;
        count
    }

    /// Returns what becomes of the next entry, which is `id`.
    fn choose(&mut self, groups: &Groups, id: StreamId) -> Choice {
        if self.excess == 0 || self.looks_left == 0 {
            return Choice::End;
        }
        self.looks_left -= 1;
        if is_referenced(groups, id) {
            return Choice::Keep;
        }
        self.excess -= 1;
        Choice::Remove
    }
}

/// Returns whether one of `groups` has yet to read the entry `id`, or has it pending.
fn is_referenced(groups: &Groups, id: StreamId) -> bool {
    groups.values().any(|group| id > group.last_id() || group.pending_entry(id).is_some())
}

/// Ends that entry `id` is pending in any of `groups`, which take `bytes`.
fn end_pending(
    (groups, walk): (&mut Groups, &mut WalkPlace<StreamWalk>),
    bytes: &mut u64,
    id: StreamId,
    ended: &mut dyn FnMut(&[u8], StreamId),
) {
    for (name, group) in groups {
        if group.pending_count() == 0 {
            continue;
        }
        if let Some(walk) = &mut walk.0
            && group.pending_entry(id).is_some()
        {
            walk.before_change(name, group);
        }
        let before = group.memory_bytes();
        if group.acknowledge(id) {
            *bytes = *bytes - before + group.memory_bytes();
            ended(name, id);
        }
    }
}
