//! How long the time that a worker has read is that of further requests.

use engine::ExecutionContext;

/// For how long the connections of a round share a time: it is told in milliseconds, and to read it
/// for each costs a lone request three percent.
const SHARED_NS: u64 = 200_000;

/// When the time in an [`ExecutionContext`] was read, in nanoseconds of the steady clock; none
/// where it is too old for what is executed next.
#[derive(Debug, Default)]
pub struct SharedTime {
    read_ns: Option<u64>,
}

impl SharedTime {
    /// Reads the time of a round that begins at `now_ns`.
    pub fn begin_round(&mut self, execution: &mut ExecutionContext<'_>, now_ns: u64) {
        execution.now = execution.clock.wall();
        self.read_ns = Some(now_ns);
    }

    /// Reads the time anew where it is too old; returns when it was read.
    #[inline]
    pub fn provide(&self, execution: &mut ExecutionContext<'_>) -> u64 {
        self.read_ns.unwrap_or_else(|| {
            execution.now = execution.clock.wall();
            execution.clock.steady_ns()
        })
    }

    /// Notes that requests have run until `ended_ns` with the time that was read at `read_ns`.
    #[inline]
    pub fn note_end(&mut self, read_ns: u64, ended_ns: u64) {
        self.read_ns = (ended_ns.saturating_sub(read_ns) < SHARED_NS).then_some(read_ns);
    }

    /// Notes that something has happened that may take long.
    pub fn forget(&mut self) {
        self.read_ns = None;
    }
}
