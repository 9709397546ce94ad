//! MONITOR: the interface through which the engine hands over each command that ran.

use std::sync::atomic::{AtomicUsize, Ordering};

use command::{Command, Flags, SessionState};
use resp::RequestView;

/// The sessions that look on, and the way to them.
pub struct MonitorFeed<'h> {
    /// How many there are.
    pub count: &'h AtomicUsize,
    /// Takes what they are shown.
    pub sink: Box<dyn MonitorSink + 'h>,
}

/// Takes what is shown.
pub trait MonitorSink {
    /// Takes `request`, which `session` has run by `command`.
    fn show(&mut self, command: &Command, request: RequestView<'_>, session: &SessionState);

    /// Counts in or out a session of this worker that looks on, or does no longer.
    fn count(&mut self, is_monitor: bool);

    /// Hands on what was taken since the last call, in its order.
    fn deliver(&mut self);
}

impl MonitorFeed<'_> {
    /// Returns whether anyone looks on.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Shows a request that `session` has run. What administrators do is not for all eyes.
    #[cold]
    pub(crate) fn show(
        &mut self,
        command: &Command,
        request: RequestView<'_>,
        session: &SessionState,
    ) {
        if !command.is(Flags::ADMIN) {
            self.sink.show(command, request, session);
        }
    }
}
