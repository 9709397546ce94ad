//! The time of commands. A clock is read where a stretch ends: a stretch is one command that may
//! take long, or brief ones that follow each other and share its time evenly.
//!
//! ```text
//! request    GET  GET  SET  GET | MSET | GET  INCR ... | EXEC
//! clock    ^                    ^      ^               ^      ^
//! ```
//!
//! A brief command is timed by itself too when it is the only one of its batch, when it has a large
//! argument, when it waits for a shard or for memory, and when the watch is close. What is left to
//! share is the time of commands that each take about as long as the reading of a clock.

use crate::tally::Slot;
use crate::tick::Tick;

/// Different commands in a row that one stretch tells apart.
const RUNS_MAX: usize = 8;

/// The commands since the clock was read.
#[derive(Default)]
pub(crate) struct Stretch {
    /// When it began, in nanoseconds of the tick's clock.
    began: u64,
    /// The same command several times in a row: (command, times).
    runs: [(Slot, u64); RUNS_MAX],
    run_count: usize,
    /// What has passed since `began` belongs to no command that is timed by itself.
    is_stale: bool,
    /// The command underway is timed by itself from `began` on.
    is_alone: bool,
}

impl Stretch {
    /// Returns the stretch of a batch that begins.
    pub fn new() -> Stretch {
        Stretch { is_stale: true, ..Stretch::default() }
    }

    /// Starts the clock where brief commands will share what preparing them takes.
    #[inline]
    pub fn start(&mut self, tick: &Tick<'_>) {
        self.began = (tick.clock)();
    }

    /// Notes that something was done which is no part of a command.
    #[inline]
    pub fn note_preparation(&mut self) {
        self.is_stale = true;
    }

    /// Returns when the stretch began.
    #[inline]
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Adds a brief command that has run.
    #[inline]
    pub fn add(&mut self, slot: Slot, tick: &Tick<'_>) {
        self.is_stale = false;
        if self.run_count > 0 && self.runs[self.run_count - 1].0 == slot {
            self.runs[self.run_count - 1].1 += 1;
            return;
        }
        if self.run_count == RUNS_MAX {
            self.end(tick);
        }
        self.runs[self.run_count] = (slot, 1);
        self.run_count += 1;
    }

    /// Ends the stretch: its commands get their time, and the next one begins.
    #[inline]
    pub fn end(&mut self, tick: &Tick<'_>) {
        if self.run_count > 0 || self.is_stale {
            self.share(tick);
        }
    }

    /// Ends the stretch before the command underway, which is timed by itself from now on.
    #[cold]
    pub fn isolate(&mut self, tick: &Tick<'_>) {
        self.share(tick);
        self.is_alone = true;
    }

    /// Returns whether the command underway was isolated, once.
    #[inline]
    pub fn take_alone(&mut self) -> bool {
        std::mem::take(&mut self.is_alone)
    }

    /// Reads the clock, begins anew and returns the nanoseconds since `began`.
    #[inline]
    pub fn lap(&mut self, began: u64, tick: &Tick<'_>) -> u64 {
        self.share(tick);
        self.began.saturating_sub(began)
    }

    fn share(&mut self, tick: &Tick<'_>) {
        let now = (tick.clock)();
        let count: u64 = self.runs[..self.run_count].iter().map(|(_, times)| times).sum();
        let share = now.saturating_sub(self.began).checked_div(count).unwrap_or(0);
        for &(slot, times) in &self.runs[..self.run_count] {
            tick.tally.add_time(slot, share, times, tick.watch.is_tracking());
        }
        self.run_count = 0;
        self.began = now;
        self.is_stale = false;
    }
}
