//! How a connection waits for something else than its peer, and goes on.
//!
//! Meanwhile nothing is received: the kernel's buffers hold the peer up. Requests that were
//! received along are kept as bytes and decoded anew, so that there is one way to execute.

use std::time::Duration;

use base::Lsn;
use command::Wake;
use resp::{Decoder, Requests, encode_command};

use super::{CloseReason, Connection, Turn, WorkerContext};
use crate::transport::TransportEnd;
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
        if self.memcached.is_some() {
            memcached::put_back(requests, first, &mut self.held);
            self.wait_reason = Some(wait_reason);
            return;
        }
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
        let held = std::mem::take(&mut self.held);
        self.input_start = put_before(&mut self.input, self.input_start, held);
        // What it knew of an unfinished request was where that began.
        self.decoder = Decoder::new();
        if let Some(decoder) = &mut self.memcached {
            decoder.begin_again();
        }
    }

    /// Returns how the turn of a connection ends whose replies are held. Nothing more is executed
    /// before they have left, also where they may by now: what that wrote would keep them here
    /// longer. Where they can arrive nowhere there is nothing to wait for.
    #[cold]
    pub(super) fn held_turn(&mut self) -> Turn {
        if self.input_state.is_over {
            return Turn::Ended(CloseReason::Transport(TransportEnd::Closed));
        }
        self.expect_input();
        Turn::Waits
    }

    /// Returns how the turn of a connection that waits ends: as `turn`, unless its peer sends
    /// nothing more. Then the wait is over at once, so that nothing is taken for a peer that is not
    /// told.
    pub(super) fn waiting_turn(&mut self, turn: Turn, context: &mut WorkerContext<'_, '_>) -> Turn {
        if !self.input_state.end {
            return turn;
        }
        if self.wait_reason == Some(WaitReason::Blocked) && !self.is_closing {
            self.provide_output(context);
            self.output.limit(self.output_bytes_max(context), self.own_output_bytes_max(context));
            context.time.provide(context.execution);
            let engine = context.shared.runtime.engine();
            let release =
                engine.give_up_wait(&mut self.session, &mut self.output, context.execution);
            self.release = self.release.max(release);
        }
        self.close_after_replies();
        Turn::Waits
    }

    /// Returns how long the wait of its blocking command may last.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.session.state.blocked.and_then(|blocked| blocked.timeout)
    }

    /// Returns the LSN that its blocking command waits for to be durable.
    pub fn awaited_lsn(&self) -> Option<Lsn> {
        self.session.state.durable_wait.map(|(lsn, _)| lsn)
    }

    /// Returns whether the answer is there that its blocking command waits for.
    pub fn is_answered(&self) -> bool {
        self.session.state.answer.as_ref().is_some_and(|answer| answer.is_there())
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
    ///
    /// # Errors
    /// When the reply is more than the output takes.
    pub fn wake(
        &mut self,
        wake: Wake,
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<bool, CloseReason> {
        let expected = match wake {
            Wake::Continued => WaitReason::Server,
            Wake::TimedOut | Wake::Refused | Wake::Served | Wake::Durable | Wake::Answered => {
                WaitReason::Blocked
            }
        };
        if self.wait_reason != Some(expected) || self.is_closing {
            return Ok(false);
        }
        self.provide_output(context);
        self.output.limit(self.output_bytes_max(context), self.own_output_bytes_max(context));
        context.time.provide(context.execution);
        let engine = context.shared.runtime.engine();
        let release = engine.wake(&mut self.session, wake, &mut self.output, context.execution);
        let Some(release) = release else { return Ok(false) };
        self.release = self.release.max(release);
        self.session.state.written = self.session.state.written.max(release.lsn);
        self.end_wait();
        if self.output.is_over_limit() {
            return Err(CloseReason::OutputLimit);
        }
        if self.output.reference_count() > 0 {
            self.share_references(context)?;
        }
        self.check_output(context)?;
        Ok(true)
    }

    /// Returns whether its request, which has waited for the server, goes on once a pause is over.
    pub fn is_to_continue(&self) -> bool {
        self.session.is_to_continue()
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

/// Puts the requests `held` before what `input` has from `start` on; returns where they begin.
///
/// They go where requests lay that are done with, which mostly has room for them. Where it has not,
/// as requests that came as lines of words are longer now, all of it is copied once, and as much
/// room left before them as they take: the next copy comes when they take twice as much. So the
/// waits of a pipeline together copy what is behind them a few times, and not once each.
fn put_before(input: &mut Vec<u8>, start: usize, held: Vec<u8>) -> usize {
    if start == input.len() {
        *input = held;
        return 0;
    }
    if let Some(begin) = start.checked_sub(held.len()) {
        input[begin..start].copy_from_slice(&held);
        return begin;
    }
    let rest = &input[start..];
    let begin = held.len();
    let mut copy = Vec::with_capacity(begin + held.len() + rest.len());
    copy.resize(begin, 0);
    copy.extend_from_slice(&held);
    copy.extend_from_slice(rest);
    *input = copy;
    begin
}

#[cfg(test)]
mod tests {
    use resp::{Batch, Limits, REQUESTS_PER_BATCH_MAX};

    use super::*;

    /// Runs `input` as a connection does in which every request waits; returns the requests in the
    /// order in which they ran, and how many bytes were copied for what was behind them.
    fn run_with_waits(mut input: Vec<u8>) -> (Vec<String>, usize) {
        let (mut start, mut copied_bytes) = (0, 0);
        let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
        let mut requests_run = Vec::new();
        let limits = Limits { authenticated: true, ..Limits::REDIS };
        while start < input.len() {
            let rest = &mut input[start..];
            let decoded = decoder.decode(rest, &mut batch, REQUESTS_PER_BATCH_MAX, &limits);
            let requests = batch.view_with(rest, &[]);
            let text = |index: usize| {
                let words: Vec<_> =
                    requests.at(index).iter().map(String::from_utf8_lossy).collect();
                words.join(" ")
            };
            requests_run.push(text(0));
            let mut held = Vec::new();
            for index in 1..requests.len() {
                let arguments: Vec<&[u8]> = requests.at(index).iter().collect();
                encode_command(&arguments, &mut held);
            }
            start += decoded.consumed;
            if held.is_empty() {
                continue;
            }
            let (before, rest_bytes) = (input.as_ptr(), input.len() - start);
            start = put_before(&mut input, start, held);
            if input.as_ptr() != before {
                copied_bytes += rest_bytes;
            }
            decoder = Decoder::new();
        }
        (requests_run, copied_bytes)
    }

    #[test]
    fn waits_of_a_pipeline_copy_what_is_behind_them_a_few_times_at_most() {
        const COUNT: usize = 2_000;
        let lines = |length: fn(usize) -> usize| {
            (0..COUNT).map(move |index| format!("BLPOP {index}{}", " k".repeat(length(index))))
        };
        // Short ones, ones that become ever longer, and ones that are long now and then.
        for length in [|_| 1, |index| index / 10, |index| if index % 97 == 0 { 500 } else { 1 }] {
            let expected: Vec<String> = lines(length).collect();
            let input = expected.join("\r\n") + "\r\n";
            let bytes = input.len();
            let (found, copied_bytes) = run_with_waits(input.into_bytes());
            assert!(found == expected, "each runs once and in its turn");
            assert!(copied_bytes <= 16 * bytes, "{copied_bytes} bytes for {bytes}");
        }
    }
}
