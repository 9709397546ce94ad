//! The engine, and the run of one batch.

use base::DatabaseIndex;
use command::{Replies, SessionState};
use keyspace::Keyspace;
use resp::{Output, Reply, Requests};

use crate::execution_context::ExecutionContext;
use crate::release::{Release, ReleaseGate};
use crate::run::Runner;
use crate::session::Session;
use crate::window::{Window, prefetch_batches};

/// Batches of more than this have arguments that take a time worth measuring to copy.
const LARGE_BATCH_BYTES: usize = 64 * 1024;

/// The data store without its transports; shared by all workers.
pub struct Engine {
    keyspace: Keyspace,
    gate: ReleaseGate,
}

/// How a session stands after a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionStatus {
    /// It goes on.
    #[default]
    Open,
    /// Its last request waits for its reply, and the later ones wait for that: nothing of it is
    /// run until [`Engine::wake`] ends the wait.
    Blocked,
    /// The next request waits for the end of a pause, and is to be sent again then.
    Paused,
    /// It is closed once its replies are sent; later requests are not run.
    CloseAfterReplies,
    /// It is closed now, without a word: the peer speaks HTTP, a cross-protocol attack.
    CloseNow,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "the session may have ended, and requests may be left"]
pub struct BatchEnd {
    /// The index behind the last request that was run or refused; those from there on are left
    /// for the next call, unless the session has ended.
    pub executed: usize,
    /// Commands that ran, those inside EXEC included, refused ones not.
    pub commands: u64,
    /// How the session stands.
    pub status: SessionStatus,
    /// When the replies may leave.
    pub release: Release,
}

impl Engine {
    /// Returns the engine of `keyspace`.
    pub fn new(keyspace: Keyspace) -> Engine {
        Engine { keyspace, gate: ReleaseGate::default() }
    }

    /// Returns the keyspace.
    #[inline]
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns up to which record replies may leave.
    #[inline]
    pub fn gate(&self) -> &ReleaseGate {
        &self.gate
    }

    /// Asks the cache for what the requests of several sessions will access, which are to run one
    /// after the other: a batch that is short gains nothing from overlapping its own cache misses.
    /// Each comes with its session's database. Changes nothing. The caller holds no guard.
    pub fn prefetch<'a>(&self, batches: impl Iterator<Item = (Requests<'a>, DatabaseIndex)>) {
        prefetch_batches(&self.keyspace, batches);
    }

    /// Runs the requests of one session from index `from` on, in order, and appends their replies
    /// to `out`. Pauses once `out` has [`ExecutionContext::output_bytes_max`], or refers to as many
    /// values as [`ExecutionContext::references_max`] says, and behind a command that has taken
    /// long, so that [`ExecutionContext::now`] can be set anew. The caller holds no guard.
    pub fn execute(
        &self,
        session: &mut Session,
        requests: Requests<'_>,
        from: usize,
        out: &mut Output,
        execution: &mut ExecutionContext<'_>,
    ) -> BatchEnd {
        let is_alone = requests.len() - from == 1;
        let times_requests_alone = is_alone || requests.span_bytes() > LARGE_BATCH_BYTES;
        let end = {
            let mut runner = Runner::new(&self.keyspace, session, execution, times_requests_alone);
            let next = run_all(&mut runner, requests, from, out);
            runner.end(next)
        };
        self.serve_left(execution);
        let arena = self.keyspace.arena();
        if arena.is_reclaim_due() {
            // Whoever frees much looks at the pins himself, so that what waits for it is bounded by
            // what one call frees.
            arena.reclaim_deferred();
        }
        end
    }
}

/// Runs `requests` from index `from` on, and returns the index of the first that is left.
#[inline]
fn run_all(
    runner: &mut Runner<'_, '_, '_, '_>,
    requests: Requests<'_>,
    from: usize,
    out: &mut Output,
) -> usize {
    let output_bytes_max = runner.execution.output_bytes_max;
    let references_max = runner.execution.references_max;
    let mut window = Window::new();
    let mut next = from;
    while next < requests.len() {
        window.fill(runner.keyspace, requests, next, runner.database());
        runner.begin_window();
        for prepared in window.prepared() {
            let is_much = out.len() >= output_bytes_max || out.reference_count() >= references_max;
            if runner.is_over() || is_much {
                return next;
            }
            runner.execution.position.set(next);
            let mut reply = out.reply(runner.protocol());
            let start = reply.position();
            if !runner.run(prepared, requests.at(next), &mut reply) {
                return next;
            }
            let is_silent = || requests.foreign(next).is_some_and(|request| request.is_silent);
            runner.settle(start, is_silent, &mut reply);
            next += 1;
        }
    }
    next
}

/// Takes back the reply of a request, which began at `start`, where the session wants none, or
/// leaves it to the request.
#[inline]
pub(crate) fn apply_client_reply(
    state: &mut SessionState,
    start: usize,
    request_is_silent: impl FnOnce() -> bool,
    reply: &mut Reply<'_>,
) {
    if state.replies != Replies::On {
        let is_left_to_request = state.replies == Replies::AsAsked;
        if state.replies.are_silent() || is_left_to_request && request_is_silent() {
            reply.rewind(start);
        }
        state.replies = state.replies.next();
    }
}
