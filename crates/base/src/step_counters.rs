//! Counts the steps that a structure takes to find something: tests bound these counts, because
//! times would depend on the machine.
//!
//! Only with the feature `step-counters`, which tests alone enable; without it counting does
//! nothing.

#[cfg(any(test, feature = "step-counters"))]
use std::cell::Cell;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedStep {
    /// An entry whose key is compared with the one looked for.
    Entry,
    /// A way down the tree of spilled entries.
    Descent,
    /// A member of a collection at which a search looks.
    Member,
    /// A watch, a wait or a key that is awaited at which a search looks.
    Registration,
    /// A shard that is locked.
    Lock,
    /// A tag that is read where a block may begin.
    Tag,
    /// A text that is compared with another, to sort by them.
    Text,
}

#[cfg(any(test, feature = "step-counters"))]
const STEP_KINDS: usize = CountedStep::Text as usize + 1;

#[cfg(any(test, feature = "step-counters"))]
thread_local! {
    static COUNTS: [Cell<u64>; STEP_KINDS] = const { [const { Cell::new(0) }; STEP_KINDS] };
}

/// Counts one `step` of this thread, with the feature.
#[inline(always)]
pub fn count_step(step: CountedStep) {
    #[cfg(any(test, feature = "step-counters"))]
    COUNTS.with(|counts| counts[step as usize].update(|count| count + 1));
    #[cfg(not(any(test, feature = "step-counters")))]
    let _ = step;
}

/// Returns how often `act` makes `step` on this thread.
#[cfg(any(test, feature = "step-counters"))]
pub fn steps_of(step: CountedStep, act: impl FnOnce()) -> u64 {
    let counted = || COUNTS.with(|counts| counts[step as usize].get());
    let before = counted();
    act();
    counted() - before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_each_by_itself() {
        let entries = steps_of(CountedStep::Entry, || {
            count_step(CountedStep::Entry);
            assert_eq!(
                steps_of(CountedStep::Registration, || count_step(CountedStep::Registration)),
                1
            );
            count_step(CountedStep::Entry);
        });
        assert_eq!(entries, 2);
    }
}
