//! When the replies of a batch may leave.
//!
//! A reply tells the peer that its write is safe, so it will have to wait until the write's record
//! is as durable as the policy asks. Nothing is durable yet: the server sends replies at once and
//! reads no release.

use base::Lsn;

/// The record that the replies of one batch wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "replies that leave too early promise what is not durable"]
pub struct Release {
    /// The last record that the batch wrote; 0 where it wrote none.
    pub lsn: Lsn,
}

impl Release {
    /// Returns whether the replies may leave once everything up to `durable` is durable.
    pub fn is_due(&self, durable: Lsn) -> bool {
        self.lsn <= durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_wait_for_their_own_record_and_no_other() {
        assert!(Release::default().is_due(Lsn(0)));
        assert!(!Release { lsn: Lsn(7) }.is_due(Lsn(6)));
        assert!(Release { lsn: Lsn(7) }.is_due(Lsn(7)));
    }
}
