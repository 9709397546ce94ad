//! How long the time that a worker has read is that of further requests.

use engine::ExecutionContext;

/// How old a time may be that requests begin with: it is told in milliseconds. To ask the steady
/// clock for its age costs about half of what it costs to read it.
const SHARED_NS: u64 = 200_000;

/// When the time in an [`ExecutionContext`] was read, in nanoseconds of the steady clock.
#[derive(Debug, Default)]
pub struct SharedTime {
    read_ns: Option<u64>,
}

impl SharedTime {
    /// Reads the time in `execution` anew where it is old.
    #[inline]
    pub fn provide(&mut self, execution: &mut ExecutionContext<'_>) {
        self.provide_at(execution.clock.steady_ns(), execution);
    }

    /// As [`SharedTime::provide`], at `now_ns` by the steady clock.
    #[inline]
    pub fn provide_at(&mut self, now_ns: u64, execution: &mut ExecutionContext<'_>) {
        if self.is_old(now_ns) {
            execution.now = execution.clock.wall();
        }
    }

    /// Returns whether the time is to be read at `now_ns`, which counts as read then. A pause in
    /// between makes it seem older than it is.
    #[inline]
    fn is_old(&mut self, now_ns: u64) -> bool {
        // The steady clock may step back once.
        let is_old = self.read_ns.is_none_or(|read_ns| now_ns.abs_diff(read_ns) >= SHARED_NS);
        if is_old {
            self.read_ns = Some(now_ns);
        }
        is_old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shared_while_it_is_new() {
        let mut time = SharedTime::default();
        assert!(time.is_old(0), "it was never read");
        assert!(!time.is_old(SHARED_NS - 1));
        assert!(time.is_old(SHARED_NS), "whatever has taken so long");
        assert!(!time.is_old(SHARED_NS + 1), "it was read anew");
        let mut time = SharedTime { read_ns: Some(u64::MAX) };
        assert!(time.is_old(1), "the steady clock has stepped back");
        assert!(!time.is_old(1));
    }
}
