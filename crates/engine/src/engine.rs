//! The engine, and the run of one batch.

use command::{Blocked, Replies, SessionState, Wake};
use keyspace::Keyspace;
use resp::{Output, Reply, Requests};

use crate::release::Release;
use crate::run::Runner;
use crate::session::Session;
use crate::tick::Tick;
use crate::window::Window;

/// The data store without its transports; shared by all workers.
pub struct Engine {
    keyspace: Keyspace,
}

/// How a session stands after a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It goes on.
    #[default]
    Open,
    /// Its last request waits for its reply, and the later ones wait for that: nothing of it is
    /// run until [`Engine::wake`] ends the wait.
    Blocked,
    /// The next request waits for the end of a pause, and is to be sent again then.
    Paused,
    /// It is closed once its replies are sent; later requests are not run.
    AfterReplies,
    /// It is closed now, without a word: the peer speaks HTTP, a cross-protocol attack.
    AtOnce,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "the session may have ended, and requests may be left"]
pub struct Outcome {
    /// The index behind the last request that was run or refused; those from there on are left
    /// for the next call, unless the session has ended.
    pub executed: usize,
    /// Commands that ran, those inside EXEC included, refused ones not.
    pub commands: u64,
    /// How the session stands.
    pub ending: Ending,
    /// When the replies may leave.
    pub release: Release,
}

impl Engine {
    /// Returns the engine of `keyspace`.
    pub fn new(keyspace: Keyspace) -> Engine {
        Engine { keyspace }
    }

    /// Returns the keyspace.
    #[inline]
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Runs the requests of one session from index `from` on, in order, and appends their replies
    /// to `out`. Pauses once `out` has [`Tick::output_bytes_max`], or refers to as many values as
    /// [`Tick::references_max`] says, and behind a command that has
    /// taken long, so that [`Tick::now`] can be set anew. The caller holds no guard.
    pub fn execute(
        &self,
        session: &mut Session,
        requests: Requests<'_>,
        from: usize,
        out: &mut Output,
        tick: &mut Tick<'_>,
    ) -> Outcome {
        let mut runner = Runner::new(&self.keyspace, session, tick, requests, from);
        let next = run_all(&mut runner, requests, from, out);
        let outcome = runner.outcome(next);
        for served in self.keyspace.take_served() {
            tick.host.tell_served(served);
        }
        let arena = self.keyspace.arena();
        if arena.is_reclaim_due() {
            // Whoever frees much looks at the pins himself, so that what waits for it is bounded by
            // what one call frees.
            arena.reclaim_deferred();
        }
        outcome
    }

    /// Ends the wait of a blocked session and writes the reply of the request that began it. A key
    /// that has ended the wait before is the reply, whoever asks for its end. The caller holds no
    /// guard.
    ///
    /// # Panics
    /// When the session is not blocked, or no key is there that is said to be.
    pub fn wake(&self, session: &mut Session, wake: Wake, out: &mut Output, tick: &Tick<'_>) {
        let state = &mut session.state;
        let blocked = state.blocked.take().expect("a session that is woken waits");
        let mut reply = out.reply(state.protocol);
        let start = reply.position();
        let served = self.keyspace.end_wait(&mut session.waits);
        match (wake, served, blocked.at_key) {
            (_, Some(key), Some(at_key)) => at_key(&key, &mut reply),
            (Wake::TimedOut, ..) => (blocked.at_timeout)(&mut reply),
            (Wake::Served, ..) => panic!("a session is served where a key has ended its wait"),
            (Wake::Refused, ..) => {
                tick.tally.count_error(Blocked::REFUSED.as_bytes());
                reply.error(Blocked::REFUSED);
            }
        }
        silence(state, start, &mut reply);
    }

    /// Ends a session: nothing of it stays behind. The caller holds no guard.
    pub fn close(&self, session: &mut Session) {
        session.state.transaction = None;
        session.state.blocked = None;
        self.keyspace.end_wait(&mut session.waits);
        self.keyspace.unwatch(&mut session.watches);
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
    let output_bytes_max = runner.tick.output_bytes_max;
    let references_max = runner.tick.references_max;
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
            runner.tick.position.set(next);
            let mut reply = out.reply(runner.protocol());
            let start = reply.position();
            if !runner.run(prepared, requests.at(next), &mut reply) {
                return next;
            }
            runner.settle(start, &mut reply);
            next += 1;
        }
    }
    next
}

/// Takes back the reply of a request, which began at `start`, where the session wants none.
#[inline]
pub(crate) fn silence(state: &mut SessionState, start: usize, reply: &mut Reply<'_>) {
    if state.replies != Replies::On {
        if state.replies.are_silent() {
            reply.rewind(start);
        }
        state.replies = state.replies.next();
    }
}
