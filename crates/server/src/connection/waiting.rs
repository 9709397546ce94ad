//! How a connection waits for something else than its peer, and goes on.
//!
//! Meanwhile nothing is received: the kernel's buffers hold the peer up. Requests that were
//! received along are kept as bytes and decoded anew, so that there is one way to execute.

use std::time::Duration;

use command::Wake;
use resp::{Decoder, Requests, encode_command};

use super::{CloseReason, Connection, Turn, WorkerContext};
use crate::wait_claim::WaitReason;

impl Connection {
    /// Begins to wait and keeps the requests from `first` on. To be followed by a
    /// [`Connection::put_back`] once the input is in its place again.
    pub(super) fn wait_at(
        &mut self,
        wait_reason: WaitReason,
        requests: Requests<'_>,
        first: usize,
    ) {
        assert!(self.held.is_empty(), "what was held has been put back");
        for index in first..requests.len() {
            let arguments: Vec<&[u8]> = requests.at(index).iter().collect();
            encode_command(&arguments, &mut self.held);
        }
        self.wait_reason = Some(wait_reason);
    }

    /// Puts the requests that were held before the input kept.
    pub(super) fn put_back(&mut self) {
        if self.failure.is_some() {
            // What follows the requests is of no use, see the decoder.
            self.input.clear();
            self.input_start = 0;
        }
        self.input_state.has_requests |= !self.held.is_empty() || self.failure.is_some();
        if self.held.is_empty() {
            return;
        }
        let mut input = std::mem::take(&mut self.held);
        input.extend_from_slice(&self.input[self.input_start..]);
        self.input = input;
        self.input_start = 0;
        // What it knew of an unfinished request was where that began.
        self.decoder = Decoder::new();
    }

    /// Returns how the turn of a connection that waits ends: as `turn`, unless its peer has gone.
    pub(super) fn waiting_turn(&mut self, turn: Turn) -> Turn {
        if !self.input_state.end {
            return turn;
        }
        self.close_after_replies();
        Turn::Waits
    }

    /// Returns how long the wait of its blocking command may last.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.session.state.blocked.and_then(|blocked| blocked.timeout)
    }

    /// Returns whether it is to be shown what all sessions do.
    #[inline]
    pub fn is_monitor(&self) -> bool {
        self.session.state.is_monitor
    }

    /// Tells everybody that the wait begins.
    pub fn note_wait(&self, wait_reason: WaitReason) {
        self.record.wait().begin(wait_reason, self.wait_limit().is_some());
    }

    /// Returns whether it is in its wait of this number, for a key.
    pub fn is_in_wait(&self, number: u64) -> bool {
        self.session.is_in_wait(number)
    }

    /// Returns how many keys it waits for.
    pub fn awaited_key_count(&self) -> usize {
        self.session.awaited_key_count()
    }

    /// Takes the right to end the wait, for its worker.
    pub fn claim(&self) -> bool {
        self.record.wait().claim()
    }

    /// Ends the wait of a blocking command and writes its reply. Returns false where it does not
    /// wait for one, or has run its request again and waits on: then the engine has given the right
    /// to end the wait back, and another may have taken it since.
    pub fn wake(&mut self, wake: Wake, context: &mut WorkerContext<'_, '_>) -> bool {
        if self.wait_reason != Some(WaitReason::Blocked) || self.is_closing {
            return false;
        }
        self.provide_output(context);
        let engine = context.shared.runtime.engine();
        let release = engine.wake(&mut self.session, wake, &mut self.output, context.execution);
        let Some(release) = release else { return false };
        self.release = self.release.max(release);
        self.end_wait();
        true
    }

    /// Goes on after a pause. Returns false where it does not wait for the end of one.
    pub fn resume(&mut self) -> bool {
        if self.wait_reason != Some(WaitReason::Paused) || self.is_closing {
            return false;
        }
        self.end_wait();
        true
    }

    /// Tells everybody that it waits for nothing: it is closed.
    pub fn abandon(&self) {
        self.record.wait().end();
    }

    fn end_wait(&mut self) {
        self.wait_reason = None;
        self.record.wait().end();
    }

    /// Appends lines of a monitor, unless it wants no replies.
    ///
    /// # Errors
    /// When its peer reads too slowly.
    pub fn show_lines(
        &mut self,
        lines: &[u8],
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let state = &self.session.state;
        if !state.is_monitor || state.replies.are_silent() || self.is_closing {
            return Ok(());
        }
        let protocol = state.protocol;
        self.provide_output(context);
        self.output.reply(protocol).raw(lines);
        self.check_output(context)
    }
}
