//! Counts the steps that a structure takes to find something: tests bound these counts, because
//! times would depend on the machine.
//!
//! Only with the feature `probes`, which tests alone enable; without it counting does nothing.

#[cfg(any(test, feature = "probes"))]
use std::cell::Cell;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
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
}

#[cfg(any(test, feature = "probes"))]
const PROBE_COUNT: usize = Probe::Lock as usize + 1;

#[cfg(any(test, feature = "probes"))]
thread_local! {
    static COUNTS: [Cell<u64>; PROBE_COUNT] = const { [const { Cell::new(0) }; PROBE_COUNT] };
}

/// Counts one `probe` of this thread, with the feature.
#[inline(always)]
pub fn note(probe: Probe) {
    #[cfg(any(test, feature = "probes"))]
    COUNTS.with(|counts| counts[probe as usize].update(|count| count + 1));
    #[cfg(not(any(test, feature = "probes")))]
    let _ = probe;
}

/// Returns how often `act` notes `probe` on this thread.
#[cfg(any(test, feature = "probes"))]
pub fn count(probe: Probe, act: impl FnOnce()) -> u64 {
    let noted = || COUNTS.with(|counts| counts[probe as usize].get());
    let before = noted();
    act();
    noted() - before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_counted_each_by_itself() {
        let entries = count(Probe::Entry, || {
            note(Probe::Entry);
            assert_eq!(count(Probe::Registration, || note(Probe::Registration)), 1);
            note(Probe::Entry);
        });
        assert_eq!(entries, 2);
    }
}
