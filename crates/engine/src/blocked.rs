//! Blocked sessions and how they are served.
//!
//! A command that fills a key runs, under its own guard, the requests of the sessions that wait for
//! the key, in the order in which they came: for each it runs the handler again on a copy of the
//! session's request, with what the session has set for it (`Caller`). The reply is kept in the
//! `Waiter` until the session's worker takes it; nothing else of the session is accessed. A session
//! whose handler waits again keeps its place. If the handler needs more than the guard, such as the
//! lock of another shard, the session's worker runs the request itself, as if it had just come;
//! until then no session after it is served.

use std::cell::Cell;

use base::{Key, Lsn};
use command::{Args, Command, Handler, ReadContext, Room, Unfinished, Wait, Wake};
use keyspace::{Guard, Keyspace, ReadyKey, Served, Service, ShardSet, WaitState, Waiter};
use resp::{Output, OwnedRequest, Protocol, Reply};

use crate::engine::{Ending, Engine, silence};
use crate::keys::Keys;
use crate::release::Release;
use crate::run::{Caller, Runner, write_context};
use crate::session::Session;
use crate::tick::Tick;

/// What a waiting session leaves for the command that serves it.
struct BlockedRequest {
    command: &'static Command,
    request: OwnedRequest,
    caller: Caller,
    protocol: Protocol,
    /// How many of its keys are waited for.
    key_count: usize,
}

/// What came of running a request for a session that waits.
enum Attempt {
    Done(Service),
    /// It needs what only its own worker can provide.
    Needs,
    Waits,
}

impl BlockedRequest {
    fn of(waiter: &Waiter) -> &BlockedRequest {
        waiter.request().downcast_ref().expect("the engine registers requests")
    }

    /// Returns the keys to run it with: of those that it waits for the ones that are ready, in the
    /// order of the request, and all others; none where `guard` lacks the shard of one.
    fn keys<'a>(&'a self, all: &Keys<'a>, ready: &[ReadyKey], guard: &Guard<'_>) -> Vec<Key<'a>> {
        let is_ready = |key: &Key<'_>| {
            let mut ready = ready.iter().filter(|it| it.database() == self.caller.database);
            ready.any(|it| it.name() == key.bytes)
        };
        let (awaited, others) = all.split_at(self.key_count);
        if !others.iter().all(|key| guard.holds(key.shard)) {
            return Vec::new();
        }
        awaited.iter().filter(|key| is_ready(key)).chain(others).copied().collect()
    }

    /// Runs it under `guard`, as one record.
    fn run(
        &self,
        guard: &mut Guard<'_>,
        ready: &[ReadyKey],
        keyspace: &Keyspace,
        tick: &mut Tick<'_>,
    ) -> Attempt {
        let BlockedRequest { command, caller, .. } = *self;
        let request = self.request.view();
        let all = Keys::of(command, request, keyspace.hasher());
        let keys = self.keys(&all, ready, guard);
        if keys.is_empty() || keyspace.has_adopted() && command.uses_values(request) {
            return Attempt::Needs;
        }
        let args = Args::new(request, &keys);
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        let (result, lsn) = match command.handler {
            Handler::Read(handler) => {
                let view = guard.read(caller.database, tick.now);
                let view = if caller.leaves_no_touch { view.without_touch() } else { view };
                let value_bytes_max = tick.value_bytes_max;
                let random = Cell::from_mut(&mut tick.random);
                let context = ReadContext { view, value_bytes_max, random };
                (handler(&context, args, &mut reply), Lsn(0))
            }
            Handler::Write(handler) => {
                guard.begin_atomic();
                guard.limit_overshoot(0, false);
                let room = Room::Ahead { overshoot_bytes_max: 0 };
                let mut context = write_context(guard, keyspace, tick, caller, room, true);
                let result = handler(&mut context, args, &mut reply);
                (result, guard.end_record())
            }
            _ => unreachable!("only commands that work on keys wait for them"),
        };
        match result {
            Ok(()) => {}
            Err(Unfinished::Refused(error)) => {
                reply.rewind(0);
                tick.tally.count_failure(command, &error);
                error.write(&mut reply);
            }
            Err(Unfinished::Again(_)) => return Attempt::Needs,
            Err(Unfinished::Wait(_)) => return Attempt::Waits,
        }
        Attempt::Done(Service { reply: out.into(), lsn })
    }
}

impl Runner<'_, '_, '_, '_> {
    /// Lets the session wait as `wait` says, for keys whose guard is still the one under which it
    /// looked for them. One that has waited already, and ran its request itself, keeps its place.
    /// Within EXEC nothing waits.
    #[cold]
    pub(crate) fn wait_for(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        wait: Wait,
        reply: &mut Reply<'_>,
    ) {
        if self.in_transaction {
            return (wait.at_timeout)(reply);
        }
        self.ending = Ending::Blocked;
        if let Some(waiter) = self.session.waits.current().cloned() {
            return self.wait_on(&waiter);
        }
        let caller = Caller::of(&self.session.state);
        let Session { state, waits, .. } = &mut *self.session;
        state.blocked = Some(wait);
        let awaited = &args.keys()[..wait.key_count];
        if awaited.is_empty() {
            return;
        }
        let request = args.request();
        let bytes = request.iter().map(<[u8]>::len).sum::<usize>() + size_of::<BlockedRequest>();
        let request = OwnedRequest::new(request.iter());
        let (protocol, key_count) = (state.protocol, wait.key_count);
        let blocked = Box::new(BlockedRequest { command, request, caller, protocol, key_count });
        let guard = self.guard.as_mut().expect("a command that waits for keys keeps their guard");
        guard.begin_wait(
            waits,
            state.id,
            caller.database,
            awaited,
            wait.value_type,
            (blocked, bytes),
        );
    }

    /// Lets the session go on waiting in its place, and those behind it be served, who were not
    /// while it was to run its request.
    fn wait_on(&mut self, waiter: &Waiter) {
        *waiter.state() = WaitState::Closed;
        let guard = self.guard.as_mut().expect("a command that waits for keys keeps their guard");
        guard.end_record();
        guard.renew_ready(&self.session.waits, self.tick.now);
        self.serve_ready();
        *waiter.state() = WaitState::Open;
    }

    /// Serves the sessions that wait for keys which have become ready under the current guard,
    /// whose record is complete.
    #[cold]
    pub(crate) fn serve_ready(&mut self) {
        let guard = self.guard.as_mut().expect("keys are ready under a guard");
        serve(guard, self.keyspace, self.tick, &mut self.served);
    }
}

/// Serves those who wait for the keys that are ready under `guard`, and for those that become ready
/// by that. Each round ends a wait, or is the last.
fn serve(
    guard: &mut Guard<'_>,
    keyspace: &Keyspace,
    tick: &mut Tick<'_>,
    served: &mut Vec<Served>,
) {
    loop {
        let ready = guard.take_ready();
        if ready.is_empty() {
            return;
        }
        serve_keys(&ready, guard, keyspace, tick, served);
    }
}

fn serve_keys(
    ready: &[ReadyKey],
    guard: &mut Guard<'_>,
    keyspace: &Keyspace,
    tick: &mut Tick<'_>,
    served: &mut Vec<Served>,
) {
    for key in ready {
        guard.begin_service(key);
        let mut place = None;
        while let Some((next, waiter)) = guard.next_waiter(key, place, tick.now) {
            place = Some(next);
            let mut state = waiter.state();
            match *state {
                WaitState::Open => {}
                WaitState::Told => break,
                WaitState::Served(_) | WaitState::Closed => continue,
            }
            // What is taken for a session that is gone would be lost.
            if !tick.host.may_serve(waiter.served().session) {
                continue;
            }
            match BlockedRequest::of(&waiter).run(guard, ready, keyspace, tick) {
                Attempt::Waits => continue,
                Attempt::Needs => *state = WaitState::Told,
                Attempt::Done(service) => {
                    *state = WaitState::Served(service);
                    guard.leave_queue(key, next);
                }
            }
            served.push(waiter.served());
            if matches!(*state, WaitState::Told) {
                break;
            }
        }
    }
}

impl Engine {
    /// Ends the wait of a blocked session and writes the reply of the request that began it. One
    /// that was served before gets that reply, whoever asks for the end. A session that is told to
    /// run its request itself does so now; returns `None` where it has to wait on, and otherwise
    /// when the reply may leave. The caller holds no guard.
    ///
    /// # Panics
    /// When the session is not blocked, or was not served where that is said.
    pub fn wake(
        &self,
        session: &mut Session,
        wake: Wake,
        out: &mut Output,
        tick: &mut Tick<'_>,
    ) -> Option<Release> {
        let wait = session.state.blocked.expect("a session that is woken waits");
        if wake == Wake::Served
            && let Some(waiter) = session.waits.current().cloned()
            && matches!(*waiter.state(), WaitState::Told)
        {
            return self.run_again(session, &waiter, out, tick);
        }
        session.state.blocked = None;
        let mut reply = out.reply(session.state.protocol);
        let start = reply.position();
        let mut release = Release::default();
        match (wake, self.keyspace().end_wait(&mut session.waits, tick.now)) {
            (_, Some(service)) => {
                reply.raw(&service.reply);
                release.lsn = service.lsn;
            }
            (Wake::TimedOut, None) => (wait.at_timeout)(&mut reply),
            (Wake::Served, None) => panic!("a session is told where its wait was served"),
            (Wake::Refused, None) => {
                tick.tally.count_error(Wait::REFUSED.as_bytes());
                reply.error(Wait::REFUSED);
            }
        }
        silence(&mut session.state, start, &mut reply);
        self.serve_left(tick);
        Some(release)
    }

    /// Runs the request of a session that waits, for itself.
    fn run_again(
        &self,
        session: &mut Session,
        waiter: &Waiter,
        out: &mut Output,
        tick: &mut Tick<'_>,
    ) -> Option<Release> {
        let BlockedRequest { command, ref request, .. } = *BlockedRequest::of(waiter);
        let mut reply = out.reply(session.state.protocol);
        let start = reply.position();
        let end = {
            let mut runner = Runner::new(self.keyspace(), session, tick, true);
            let keys = runner.keys_of(command, request.view());
            runner.answer(command, request.view(), &keys, &mut reply);
            runner.end(1)
        };
        if end.ending == Ending::Blocked {
            return None;
        }
        session.state.blocked = None;
        self.keyspace().end_wait(&mut session.waits, tick.now);
        silence(&mut session.state, start, &mut reply);
        self.serve_left(tick);
        Some(end.release)
    }

    /// Ends a session: nothing of it stays behind. What it was served and has not been told is
    /// lost, as what was sent to a peer that is gone. The caller holds no guard.
    pub fn close(&self, session: &mut Session, tick: &mut Tick<'_>) {
        session.state.transaction = None;
        session.state.blocked = None;
        self.keyspace().end_wait(&mut session.waits, tick.now);
        self.keyspace().unwatch(&mut session.watches);
        self.serve_left(tick);
    }

    /// Serves those who wait for keys that were ready when a guard went, under a guard of all of
    /// these keys.
    #[inline]
    pub(crate) fn serve_left(&self, tick: &mut Tick<'_>) {
        if self.keyspace().has_unserved() {
            let left = self.keyspace().take_unserved();
            self.serve_unserved(&left, tick);
        }
    }

    #[cold]
    fn serve_unserved(&self, left: &[ReadyKey], tick: &mut Tick<'_>) {
        let mut shards = ShardSet::new();
        left.iter().for_each(|key| shards.insert(key.shard()));
        let mut served = Vec::new();
        let mut guard = self.keyspace().lock_set(&shards);
        serve_keys(left, &mut guard, self.keyspace(), tick, &mut served);
        serve(&mut guard, self.keyspace(), tick, &mut served);
        drop(guard);
        served.into_iter().for_each(|served| tick.host.tell_served(served));
    }
}
