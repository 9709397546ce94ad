//! When the replies of a batch may leave.
//!
//! A reply tells the peer that its write is safe, so it is held until the write's record is as
//! durable as the policy asks. Whoever makes records durable closes the gate and moves it on, and
//! a change of the policy to a stricter one closes it, too; as long as nobody does, it is open, and
//! every reply leaves at once.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Lsn;

/// The record that the replies of one batch wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "replies that leave too early promise what is not durable"]
pub struct Release {
    /// The last record that the batch wrote; 0 where it wrote none.
    pub lsn: Lsn,
}

/// Up to which record replies may leave. Shared by those who send and whoever makes durable.
#[derive(Debug)]
pub struct ReleaseGate {
    durable: AtomicU64,
}

impl Default for ReleaseGate {
    /// Returns an open gate.
    fn default() -> ReleaseGate {
        ReleaseGate { durable: AtomicU64::new(ReleaseGate::ALL.0) }
    }
}

impl ReleaseGate {
    /// What an open gate is set to: it holds nothing.
    pub const ALL: Lsn = Lsn(u64::MAX);

    /// Returns whether replies that wait for `release` may leave.
    #[inline]
    pub fn is_due(&self, release: Release) -> bool {
        // Sequentially consistent, as [`ReleaseGate::set`] is: who finds it closed and says that he
        // holds replies, and looks again, is either let through or seen by who moves it on.
        release.lsn.0 <= self.durable.load(Ordering::SeqCst)
    }

    /// Holds the replies of all records behind `durable` from now on, until it moves on. Replies of
    /// earlier records leave.
    pub fn set(&self, durable: Lsn) {
        self.durable.store(durable.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_wait_for_their_own_record_and_no_other() {
        let gate = ReleaseGate::default();
        let check = |lsn, is_due| assert_eq!(gate.is_due(Release { lsn: Lsn(lsn) }), is_due);
        check(7, true);
        gate.set(Lsn(6));
        check(0, true);
        check(6, true);
        check(7, false);
        gate.set(Lsn(7));
        check(7, true);
        check(8, false);
        gate.set(ReleaseGate::ALL);
        check(u64::MAX, true);
    }
}
