//! Intersections, unions and differences: what SINTER and its like reply with, and what SINTERSTORE
//! and its like store.
//!
//! A reply needs no memory where each member can be looked up in the other sets. Where that would
//! be too many lookups, and for what is stored, the result is built; the memory is asked for as it
//! grows.

use std::ops::ControlFlow;

use base::Key;
use collections::{CollectionEncoding, Intset, Lookups, Rules, Set, SetMember, SetView};
use keyspace::{ReadView, Scratch, WrongType};

use crate::handler::outcome::Unfinished;

/// What is made of several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Intersection,
    Union,
    Difference,
}

/// How a visit ends: all was visited, or it broke as there was enough, or the command is not done.
pub(super) type Visit = ControlFlow<Result<(), Unfinished>>;

/// Returns the right to so many bytes of private memory.
pub(super) type Ask<'a> = &'a dyn Fn(u64) -> Result<Scratch, Unfinished>;

/// The sets that a request names, in its order; none for an absent key.
pub(super) struct Sources<'g> {
    sets: Vec<Option<SetView<'g>>>,
    rules: &'g Rules,
    /// The first key is there again, so that a difference is empty.
    has_first_again: bool,
}

impl<'g> Sources<'g> {
    /// Looks `keys` up, which are not empty, and which are stored as `rules` say.
    ///
    /// # Errors
    /// When one holds another type.
    pub fn of(
        view: ReadView<'g>,
        keys: &[Key<'_>],
        rules: &'g Rules,
    ) -> Result<Sources<'g>, WrongType> {
        let sets: Result<_, WrongType> =
            keys.iter().map(|key| view.collection::<Set>(key)).collect();
        let has_first_again = keys[1..].iter().any(|key| key.bytes == keys[0].bytes);
        Ok(Sources { sets: sets?, rules, has_first_again })
    }

    /// Visits the members of the result, each once, until `visit` breaks.
    ///
    /// # Errors
    /// There is no room for what has to be built, or `visit` broke with an error.
    pub fn for_each(
        &self,
        operation: Operation,
        ask: Ask<'_>,
        visit: impl FnMut(SetMember<'_>) -> Visit,
    ) -> Result<(), Unfinished> {
        let visited = match operation {
            Operation::Intersection => self.intersect(visit),
            Operation::Union if self.has_few_lookups() && !self.is_ordered() => self.unite(visit),
            Operation::Difference if self.is_filtered() => self.subtract(visit),
            Operation::Union | Operation::Difference => {
                let (result, _scratch) = self.build(operation, ask)?;
                result.view().try_for_each(visit)
            }
        };
        visited.break_value().unwrap_or(Ok(()))
    }

    /// Returns the result as a set of its own, stored as Redis stores it, with the right to its
    /// memory where it takes much.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn build(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> Result<(Set, Option<Scratch>), Unfinished> {
        let (set, bound) = match operation {
            Operation::Intersection => {
                let smallest = self.present().min_by_key(|set| set.len());
                let has_text = smallest.is_some_and(|set| !are_integers(set));
                let set = if has_text { Set::small() } else { integers() };
                (set, smallest.map_or(0, SetView::memory_bytes_max))
            }
            Operation::Union => (integers(), self.present().map(SetView::memory_bytes_max).sum()),
            Operation::Difference => {
                (integers(), self.sets[0].map_or(0, SetView::memory_bytes_max))
            }
        };
        let mut result = Growing { set, rules: self.rules, room: Room::new(ask, bound) };
        let built = match operation {
            Operation::Intersection => self.intersect(|member| result.insert_new(member)),
            Operation::Union if self.has_few_lookups() => {
                self.unite(|member| result.insert_new(member))
            }
            Operation::Union => self.present().try_for_each(|set| result.insert_all(set)),
            Operation::Difference if self.is_filtered() => {
                self.subtract(|member| result.insert_new(member))
            }
            Operation::Difference => self.remove_from(&mut result),
        };
        built.break_value().unwrap_or(Ok(()))?;
        let Growing { mut set, room, .. } = result;
        if operation == Operation::Intersection
            && set.len() as u64 <= self.rules.limits.set_integers
        {
            set.make_integers();
        }
        Ok((set, room.held))
    }

    /// Visits what all sets have: each member of the smallest that the others have.
    pub fn intersect(&self, mut visit: impl FnMut(SetMember<'_>) -> Visit) -> Visit {
        let sets: Option<Vec<SetView<'_>>> = self.sets.iter().copied().collect();
        let Some(mut sets) = sets else { return Visit::Continue(()) };
        sets.sort_by_key(|set| set.len());
        let mut others = Lookups::new(sets[1..].iter().copied(), sets[0].len(), self.rules);
        sets[0].try_for_each(|member| match others.all_have(member) {
            true => visit(member),
            false => Visit::Continue(()),
        })
    }

    /// Visits what one set has: each member that no set before has.
    fn unite(&self, mut visit: impl FnMut(SetMember<'_>) -> Visit) -> Visit {
        let longest = self.present().map(|set| set.len()).max().unwrap_or(0);
        let mut all = Lookups::new(self.present(), longest, self.rules);
        self.present().enumerate().try_for_each(|(before, set)| {
            set.try_for_each(|member| match all.any_of_first_has(before, member) {
                true => Visit::Continue(()),
                false => visit(member),
            })
        })
    }

    /// Visits what the first set alone has: each of its members that no other has, the largest set
    /// asked first.
    fn subtract(&self, mut visit: impl FnMut(SetMember<'_>) -> Visit) -> Visit {
        let Some(first) = self.sets[0].filter(|_| !self.has_first_again) else {
            return Visit::Continue(());
        };
        let mut sets: Vec<SetView<'_>> = self.sets[1..].iter().flatten().copied().collect();
        sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let mut others = Lookups::new(sets.into_iter(), first.len(), self.rules);
        first.try_for_each(|member| match others.any_of_first_has(others.len(), member) {
            true => Visit::Continue(()),
            false => visit(member),
        })
    }

    /// Makes `result` the members of the first set, and takes those of the others out.
    fn remove_from(&self, result: &mut Growing<'_>) -> Visit {
        let mut sets = self.present();
        result.insert_all(sets.next().expect("there is a first set"))?;
        for set in sets {
            let removed = set.try_for_each(|member| {
                result.set.remove_member(member, self.rules);
                match result.set.is_empty() {
                    true => Visit::Break(Ok(())),
                    false => Visit::Continue(()),
                }
            });
            removed?;
        }
        Visit::Continue(())
    }

    /// Returns whether a union takes not many more lookups than there are members, where each is
    /// looked up in all sets before its own.
    fn has_few_lookups(&self) -> bool {
        let lengths = || self.present().map(|set| set.len() as u64);
        let lookups = (0..).zip(lengths()).map(|(before, length): (u64, _)| before * length);
        lookups.sum::<u64>() <= 2 * lengths().sum::<u64>()
    }

    /// Returns whether the members of a union have an order: Redis has so many integers in one
    /// block, in which they are built.
    fn is_ordered(&self) -> bool {
        let total: u64 = self.present().map(|set| set.len() as u64).sum();
        total <= self.rules.limits.set_integers && self.present().all(are_integers)
    }

    /// Returns whether a difference is what remains of the first set when each member is looked up
    /// in the others, and not when their members are taken out of a copy. It decides how the result
    /// is stored too.
    ///
    /// Source: Redis 7.2, `sunionDiffGenericCommand`.
    fn is_filtered(&self) -> bool {
        let Some(first) = self.sets[0].filter(|_| !self.has_first_again) else { return true };
        let count = self.present().count() as u64;
        let total: u64 = self.present().map(|set| set.len() as u64).sum();
        first.len() as u64 * count / 2 <= total
    }

    fn present(&self) -> impl Iterator<Item = SetView<'g>> {
        self.sets.iter().flatten().copied()
    }
}

fn are_integers(set: SetView<'_>) -> bool {
    set.encoding() == CollectionEncoding::Intset
}

fn integers() -> Set {
    Set::from_integers(Intset::default())
}

/// A set that is built, with the right to its memory.
struct Growing<'a> {
    set: Set,
    rules: &'a Rules,
    room: Room<'a>,
}

impl Growing<'_> {
    fn insert_all(&mut self, set: SetView<'_>) -> Visit {
        set.try_for_each(|member| {
            self.make_room(member)?;
            self.set.insert_member(member, self.rules);
            Visit::Continue(())
        })
    }

    fn insert_new(&mut self, member: SetMember<'_>) -> Visit {
        self.make_room(member)?;
        self.set.insert_new_member(member, self.rules);
        Visit::Continue(())
    }

    fn make_room(&mut self, member: SetMember<'_>) -> Visit {
        let bytes = self.set.memory_bytes_max() + member.element().byte_count_max() as u64;
        match self.room.hold(bytes) {
            Ok(()) => Visit::Continue(()),
            Err(unfinished) => Visit::Break(Err(unfinished)),
        }
    }
}

/// The right to memory that is needed bit by bit. It grows threefold at first, then by a part of
/// what is needed at most: a command that is run again each time finds its room in a few rounds,
/// and asks for little more than it needs.
struct Room<'a> {
    ask: Ask<'a>,
    step_bytes_max: u64,
    held: Option<Scratch>,
    bytes: u64,
}

impl<'a> Room<'a> {
    /// The least that is asked for.
    const STEP_BYTES_MIN: u64 = 4096;

    /// Returns none; at most about `bound` bytes are going to be needed.
    fn new(ask: Ask<'a>, bound: u64) -> Room<'a> {
        Room { ask, step_bytes_max: bound / 4, held: None, bytes: 0 }
    }

    /// Makes it that to `bytes` at least.
    #[inline]
    fn hold(&mut self, bytes: u64) -> Result<(), Unfinished> {
        if bytes <= self.bytes { Ok(()) } else { self.grow(bytes) }
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Unfinished> {
        // One right to all of it: where there is too little room, the whole is made room for.
        self.held = None;
        let step = bytes.saturating_mul(2).min(self.step_bytes_max).max(Self::STEP_BYTES_MIN);
        let wanted = bytes.saturating_add(step);
        self.held = Some((self.ask)(wanted)?);
        self.bytes = wanted;
        Ok(())
    }
}
