//! The time of commands. The clock is read at the end of each stretch: a stretch is one command
//! that may take long, or several brief commands of a batch in a row, which share its time evenly.
//!
//! ```text
//! request    GET  GET  SET  GET | MSET | GET  INCR ... | EXEC
//! clock    ^                    ^      ^               ^      ^
//! ```
//!
//! Brief are commands of one key in constant time, and those whose time grows with their arguments
//! while they have the fewest: HSET of one field. RENAME and MOVE are, of a value that is not long;
//! with a long one they ask for time of their own before they begin.
//!
//! A brief command is timed by itself too when it is the only one of its batch, when the batch is
//! large, within EXEC, when it waits for a shard or for memory, and when the limit from which
//! commands are reported is low (`timing_settings.rs`). So only commands that take little more than
//! reading a clock share a time. Calls are counted here as well, and reach the statistics with the
//! times.

use command::Command;

use crate::execution_context::ExecutionContext;

/// Different commands that one stretch tells apart.
const COMMANDS_MAX: usize = 4;

/// The commands since the clock was read.
#[derive(Default)]
pub(crate) struct CommandTimer {
    /// When it began, in nanoseconds of the clock.
    began: u64,
    /// With how many arguments at most the first command is brief.
    first_arguments_max: usize,
    /// How often each command has run.
    calls: [(Option<&'static Command>, u64); COMMANDS_MAX],
    command_count: usize,
    /// What has passed since `began` belongs to no command that is timed by itself.
    is_stale: bool,
    /// The current command is timed by itself from `began` on.
    is_timed_alone: bool,
}

impl CommandTimer {
    /// Returns the stretch of a batch that begins.
    pub fn new() -> CommandTimer {
        CommandTimer { is_stale: true, ..CommandTimer::default() }
    }

    /// Starts the clock where brief commands will share what preparing them takes.
    #[inline]
    pub fn start(&mut self, execution: &ExecutionContext<'_>) {
        self.began = execution.clock.steady_ns();
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

    /// Returns whether `command` with so many arguments is brief.
    #[inline]
    pub fn admits(
        &self,
        command: &'static Command,
        argument_count: usize,
        execution: &ExecutionContext<'_>,
    ) -> bool {
        argument_count <= self.arguments_max(command, execution)
    }

    #[inline]
    fn arguments_max(&self, command: &'static Command, execution: &ExecutionContext<'_>) -> usize {
        let command_stats = execution.command_stats;
        match self.is_first(command) {
            true => self.first_arguments_max,
            false => command_stats.brief_arguments_max(command_stats.index(command)),
        }
    }

    /// Adds a brief command that has run.
    #[inline]
    pub fn add(&mut self, command: &'static Command, execution: &ExecutionContext<'_>) {
        if self.is_first(command) {
            self.calls[0].1 += 1;
        } else {
            self.add_other(command, execution);
        }
    }

    /// Ends the stretch: its commands get their time, and the next one begins.
    #[inline]
    pub fn end(&mut self, execution: &ExecutionContext<'_>) {
        if self.command_count > 0 || self.is_stale {
            self.share(execution);
        }
    }

    /// Ends the stretch before the current command, which is timed by itself from now on.
    #[cold]
    pub fn time_alone_from_now(&mut self, execution: &ExecutionContext<'_>) {
        self.share(execution);
        self.is_timed_alone = true;
    }

    /// Returns whether the current command was isolated, once.
    #[inline]
    pub fn take_timed_alone(&mut self) -> bool {
        std::mem::take(&mut self.is_timed_alone)
    }

    /// Reads the clock, begins anew and returns the nanoseconds since `began`.
    #[inline]
    pub fn lap(&mut self, began: u64, execution: &ExecutionContext<'_>) -> u64 {
        self.share(execution);
        self.began.saturating_sub(began)
    }

    #[inline]
    fn is_first(&self, command: &'static Command) -> bool {
        self.calls[0].0.is_some_and(|first| std::ptr::eq(first, command))
    }

    fn add_other(&mut self, command: &'static Command, execution: &ExecutionContext<'_>) {
        let is_same = |known: &&'static Command| std::ptr::eq(*known, command);
        let mut known = self.calls[..self.command_count].iter_mut();
        if let Some((_, calls)) = known.find(|(known, _)| known.as_ref().is_some_and(is_same)) {
            *calls += 1;
            return;
        }
        if self.command_count == COMMANDS_MAX {
            self.share(execution);
        }
        if self.command_count == 0 {
            self.first_arguments_max = self.arguments_max(command, execution);
        }
        self.calls[self.command_count] = (Some(command), 1);
        self.command_count += 1;
    }

    fn share(&mut self, execution: &ExecutionContext<'_>) {
        let now = execution.clock.steady_ns();
        let calls = &self.calls[..self.command_count];
        let count: u64 = calls.iter().map(|(_, calls)| calls).sum();
        let share = now.saturating_sub(self.began).checked_div(count).unwrap_or(0);
        for &(command, calls) in calls {
            let index = execution.command_stats.index(command.expect("it was added"));
            execution.command_stats.count_calls(
                index,
                calls,
                share,
                execution.timing.is_tracking(),
            );
        }
        self.calls[0].0 = None;
        self.command_count = 0;
        self.began = now;
        self.is_stale = false;
    }
}
