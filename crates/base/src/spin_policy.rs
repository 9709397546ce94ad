//! Whether it pays to poll for a while before a thread sleeps.
//!
//! A poll that finds something saves the time of a wake-up. One in vain costs its whole length, and
//! more where the other side waits for this processor: there both are better off asleep. So polls
//! in vain make polls rare, and it takes many successful ones to make up for one.

/// Polls that found something which make up for one in vain. A wake-up takes some 20 us and a poll
/// in vain 100 us and more, and nearly all polls for one who answers at once find something.
const PAYING_PER_VAIN: u32 = 16;
/// One rests for at most two to this power waits.
const REST_MAX: u32 = 16;

/// The record that a waiting thread keeps of its past polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpinPolicy {
    /// Polls in vain that have not been made up for.
    vain: u32,
    /// Polls that found something since the last that made up for one in vain.
    paying: u32,
    /// Waits until the next poll.
    rest: u32,
}

impl SpinPolicy {
    /// Returns a record of nothing: the first poll is made.
    pub const fn new() -> SpinPolicy {
        SpinPolicy { vain: 0, paying: 0, rest: 0 }
    }

    /// Returns whether to poll before the wait that comes now.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        let is_due = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        is_due
    }

    /// Has the next poll made at once, as something has changed; where it is in vain polls are as
    /// rare as before.
    pub fn try_again(&mut self) {
        self.rest = 0;
    }

    /// Takes note of whether a poll found something.
    #[inline]
    pub fn learn(&mut self, has_paid: bool) {
        if !has_paid {
            self.vain = (self.vain + 1).min(REST_MAX);
            self.rest = 1 << self.vain;
            self.paying = 0;
            return;
        }
        self.paying += 1;
        if self.paying == PAYING_PER_VAIN {
            self.paying = 0;
            self.vain = self.vain.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `waits` come after a poll, where a poll finds something if `pays` says
    /// so of its number.
    fn polls_among(
        spin_policy: &mut SpinPolicy,
        waits: u32,
        mut pays: impl FnMut(u32) -> bool,
    ) -> u32 {
        let mut count = 0;
        for _ in 0..waits {
            if spin_policy.is_due() {
                count += 1;
                spin_policy.learn(pays(count));
            }
        }
        count
    }

    #[test]
    fn polls_in_vain_become_rare_and_come_back() {
        let mut spin_policy = SpinPolicy::default();
        let waits = 1 << 20;
        let count = polls_among(&mut spin_policy, waits, |_| false);
        assert!(count > 1 && count <= waits >> (REST_MAX - 5), "{count} polls in {waits} waits");
        // One who finds something at each poll polls each time before long.
        polls_among(&mut spin_policy, 1 << REST_MAX, |_| true);
        assert_eq!(polls_among(&mut spin_policy, 1000, |_| true), 1000);
    }

    #[test]
    fn policy_that_is_to_try_again_polls_once_and_remembers_those_in_vain() {
        let mut spin_policy = SpinPolicy::default();
        polls_among(&mut spin_policy, 1 << 10, |_| false);
        for _ in 0..4 {
            spin_policy.try_again();
            assert_eq!(polls_among(&mut spin_policy, 1 << 8, |_| false), 1);
        }
        spin_policy.try_again();
        assert_eq!(polls_among(&mut spin_policy, 1 << 8, |_| true), 1 << 8);
    }

    #[test]
    fn a_few_in_vain_among_many_that_pay_change_little_and_a_tenth_ends_the_polling() {
        let waits = 1 << 16;
        let rarely = polls_among(&mut SpinPolicy::default(), waits, |number| number % 100 != 0);
        assert!(rarely > waits * 9 / 10, "{rarely} polls where one in a hundred is in vain");
        let often = polls_among(&mut SpinPolicy::default(), waits, |number| number % 10 != 0);
        assert!(often < waits / 10, "{often} polls where one in ten is in vain");
    }
}
