//! The time of commands. The clock is read at the end of each stretch: a stretch is one command
//! that may take long, or several brief commands of a batch in a row, which share its time evenly.
//!
//! ```text
//! request    GET  GET  SET  GET | MSET | GET  INCR ... | EXEC
//! clock    ^                    ^      ^               ^      ^
//! ```
//!
//! A brief command is timed by itself too when it is the only one of its batch, when the batch is
//! large, within EXEC, when it waits for a shard or for memory, and when the limit from which
//! commands are reported is low (`watch.rs`). So only commands that take little more than reading a
//! clock share a time. Calls are counted here as well, and reach the tally with the times.

use command::Command;

use crate::tick::Tick;

/// Different commands that one stretch tells apart.
const COMMANDS_MAX: usize = 4;

/// The commands since the clock was read.
#[derive(Default)]
pub(crate) struct Stretch {
    /// When it began, in nanoseconds of the tick's clock.
    began: u64,
    /// How often each command has run.
    calls: [(Option<&'static Command>, u64); COMMANDS_MAX],
    command_count: usize,
    /// What has passed since `began` belongs to no command that is timed by itself.
    is_stale: bool,
    /// The current command is timed by itself from `began` on.
    is_isolated: bool,
}

impl Stretch {
    /// Returns the stretch of a batch that begins.
    pub fn new() -> Stretch {
        Stretch { is_stale: true, ..Stretch::default() }
    }

    /// Starts the clock where brief commands will share what preparing them takes.
    #[inline]
    pub fn start(&mut self, tick: &Tick<'_>) {
        self.began = tick.clock.steady_ns();
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

    /// Returns whether `command` is brief.
    #[inline]
    pub fn admits(&self, command: &'static Command, tick: &Tick<'_>) -> bool {
        self.is_first(command) || tick.tally.is_brief(tick.tally.slot(command))
    }

    /// Adds a brief command that has run.
    #[inline]
    pub fn add(&mut self, command: &'static Command, tick: &Tick<'_>) {
        if self.is_first(command) {
            self.calls[0].1 += 1;
        } else {
            self.add_other(command, tick);
        }
    }

    /// Ends the stretch: its commands get their time, and the next one begins.
    #[inline]
    pub fn end(&mut self, tick: &Tick<'_>) {
        if self.command_count > 0 || self.is_stale {
            self.share(tick);
        }
    }

    /// Ends the stretch before the current command, which is timed by itself from now on.
    #[cold]
    pub fn isolate(&mut self, tick: &Tick<'_>) {
        self.share(tick);
        self.is_isolated = true;
    }

    /// Returns whether the current command was isolated, once.
    #[inline]
    pub fn take_isolated(&mut self) -> bool {
        std::mem::take(&mut self.is_isolated)
    }

    /// Reads the clock, begins anew and returns the nanoseconds since `began`.
    #[inline]
    pub fn lap(&mut self, began: u64, tick: &Tick<'_>) -> u64 {
        self.share(tick);
        self.began.saturating_sub(began)
    }

    #[inline]
    fn is_first(&self, command: &'static Command) -> bool {
        self.calls[0].0.is_some_and(|first| std::ptr::eq(first, command))
    }

    fn add_other(&mut self, command: &'static Command, tick: &Tick<'_>) {
        let is_same = |known: &&'static Command| std::ptr::eq(*known, command);
        let mut known = self.calls[..self.command_count].iter_mut();
        if let Some((_, calls)) = known.find(|(known, _)| known.as_ref().is_some_and(is_same)) {
            *calls += 1;
            return;
        }
        if self.command_count == COMMANDS_MAX {
            self.share(tick);
        }
        self.calls[self.command_count] = (Some(command), 1);
        self.command_count += 1;
    }

    fn share(&mut self, tick: &Tick<'_>) {
        let now = tick.clock.steady_ns();
        let calls = &self.calls[..self.command_count];
        let count: u64 = calls.iter().map(|(_, calls)| calls).sum();
        let share = now.saturating_sub(self.began).checked_div(count).unwrap_or(0);
        for &(command, calls) in calls {
            let slot = tick.tally.slot(command.expect("it was added"));
            tick.tally.count_calls(slot, calls, share, tick.watch.is_tracking());
        }
        self.calls[0].0 = None;
        self.command_count = 0;
        self.began = now;
        self.is_stale = false;
    }
}
