//! Blocked sessions and how they are served.
//!
//! A command that fills a key runs, under its own guard, the requests of the sessions that wait for
//! the key, in the order in which they came: for each it runs the handler again on a copy of the
//! session's request, with what the session has set for it (`Caller`). The reply is kept in the
//! `Waiter` until the session's worker takes it; nothing else of the session is accessed. A session
//! whose handler waits again keeps its place. If the handler needs more than the guard, such as the
//! lock of another shard, the session's worker runs the request itself, as if it had just come;
//! until then no session after it is served, unless the request only reads. So it is where replies
//! are long: what is kept for those who wait is bounded ([`SERVED_BYTES_MAX`]), while a session
//! that runs its request itself has the limits of its own output.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::{Key, Lsn, UnixMs};
use command::{
    Args, Attendance, Command, CommandError, Flags, Handler, MemoryPolicy, Need, ReadContext,
    Unfinished, Wait, Wake,
};
use keyspace::{
    AwaitedNames, Guard, Keyspace, NewWait, ReadyKeys, ServedReply, SessionWakeup, WaitEnd,
    WaitState, Waiter,
};
use resp::{Output, OwnedRequest, Protocol, Reply, RequestView};

use crate::dispatch::{self, Verdict};
use crate::engine::{Engine, SessionStatus, apply_client_reply};
use crate::execution_context::ExecutionContext;
use crate::release::Release;
use crate::retry::RESERVED_BYTES_MIN;
use crate::run::{Caller, Runner, write_context};
use crate::session::{KeptRequest, Session};

/// The most bytes of replies that are made for sessions that wait while a guard is held. The reply
/// that passes it is the last: what is only read is not kept then, and what is taken out of the
/// data is there once.
pub(crate) const SERVED_BYTES_MAX: usize = 64 * 1024;

/// What a waiting session leaves for the command that serves it.
pub(crate) struct BlockedRequest {
    command: &'static Command,
    request: OwnedRequest,
    caller: Caller,
    protocol: Protocol,
    attendance: Option<Arc<dyn Attendance>>,
    /// Which arguments are its keys; those that are waited for come first.
    positions: Box<[u32]>,
    /// How many of the keys are waited for.
    key_count: usize,
    /// The names of the keys that are waited for.
    names: Arc<AwaitedNames>,
    end: WaitEnd,
}

/// What came of running a request for a session that waits.
enum ServeOutcome {
    Done(ServedReply),
    /// It needs what only its own worker can provide.
    Needs,
    /// It waits on; what it has changed is in the record before this.
    Waits(Lsn),
}

/// What came of running a request once more that has waited.
enum RunOutcome {
    /// It has its reply.
    Done(Release),
    /// It waits on.
    Blocked,
    /// It waits for the end of a pause.
    Paused,
}

impl BlockedRequest {
    pub fn of(waiter: &Waiter) -> &BlockedRequest {
        waiter.request().downcast_ref().expect("the engine registers requests")
    }

    /// Returns a copy of the request that `args` are of, which waits as `wait` says.
    fn new(
        command: &'static Command,
        args: Args<'_>,
        wait: &Wait,
        (session, guard, now): (&Session, &Guard<'_>, UnixMs),
        keyspace: &Keyspace,
    ) -> BlockedRequest {
        let request = args.request();
        let positions = command.key_positions(request).map(|position| position as u32).collect();
        let key_count = wait.key_count as usize;
        let names = AwaitedNames::of(&args.keys()[..key_count], keyspace);
        let request = match command.at_wait {
            None => OwnedRequest::new(request.iter()),
            Some(at_wait) => {
                let view = guard.read(session.state.database, now);
                OwnedRequest::new(at_wait(&view, args).iter().map(Vec::as_slice))
            }
        };
        BlockedRequest {
            command,
            request,
            caller: Caller::of(&session.state),
            protocol: session.state.protocol,
            attendance: session.attendance.clone(),
            positions,
            key_count,
            names: Arc::new(names),
            end: wait.end,
        }
    }

    /// Has the host give the right to end the wait back, which it took so that the session runs its
    /// request itself. To be done before the wait is open: who serves passes over a session whose
    /// host has that right, and the key that was ready for it would have served nobody.
    fn give_wait_back(&self) {
        if let Some(attendance) = &self.attendance {
            attendance.waits_on();
        }
    }

    /// Returns whether it may take what another session that waits would get otherwise.
    fn takes(&self) -> bool {
        // Who waits for the right to fill a key takes it from nobody, and the value from none.
        self.command.is(Flags::WRITE) && self.end != WaitEnd::KeyOrLease
    }

    fn memory_bytes(&self) -> usize {
        size_of::<BlockedRequest>() + self.request.memory_bytes() + size_of_val(&*self.positions)
    }

    /// Returns the bytes of its arguments.
    pub fn argument_bytes(&self) -> usize {
        self.request.argument_bytes()
    }

    /// Returns the keys to run it with: of those that it waits for the ones that are ready, in the
    /// order of the request, and all others; none where `guard` lacks the shard of one, or may.
    fn keys(&self, ready: &ReadyKeys, guard: &Guard<'_>, keyspace: &Keyspace) -> Vec<Key<'_>> {
        let request = self.request.view();
        let name = |index: usize| request.at(self.positions[index] as usize);
        let key = |index: usize| keyspace.hasher().key(name(index));
        let others: Vec<Key<'_>> = (self.key_count..self.positions.len()).map(key).collect();
        let may_lack_ready = ready.is_part() && self.names.len() > 1;
        if may_lack_ready || !others.iter().all(|key| guard.holds(key.shard)) {
            return Vec::new();
        }
        let awaited = self.names.among(ready, self.caller.database, name);
        awaited.into_iter().map(key).chain(others).collect()
    }

    /// Runs it under `guard`, as one record. Its reply is to be no longer than `reply_bytes_max`.
    fn run(
        &self,
        guard: &mut Guard<'_>,
        ready: &ReadyKeys,
        keyspace: &Keyspace,
        execution: &mut ExecutionContext<'_>,
        reply_bytes_max: usize,
    ) -> ServeOutcome {
        let BlockedRequest { command, caller, .. } = *self;
        let request = self.request.view();
        let keys = self.keys(ready, guard, keyspace);
        if keys.is_empty()
            || reply_bytes_max == 0
            || keyspace.has_adopted() && command.uses_values(request)
        {
            return ServeOutcome::Needs;
        }
        let args = Args::new(&request, &keys);
        let mut out = Output::default();
        if !self.takes() {
            out.limit(reply_bytes_max, reply_bytes_max);
        }
        let mut reply = out.reply(self.protocol);
        if command.is(Flags::WRITE)
            && let Some(error) = dispatch::write_refusal(keyspace)
        {
            // Records from elsewhere have made the key ready.
            execution.command_stats.count_rejection(command, &error);
            error.write(&mut reply);
            return ServeOutcome::Done(ServedReply { reply: out.to_vec().into(), lsn: Lsn(0) });
        }
        let (result, lsn) = match command.handler {
            Handler::Read(handler) => {
                let view = guard.read(caller.database, execution.now);
                let view = if caller.no_touch { view.without_touch() } else { view };
                let value_bytes_max = execution.value_bytes_max;
                let random = Cell::from_mut(&mut execution.random);
                let context = ReadContext { view, value_bytes_max, random };
                (handler(&context, args, &mut reply), Lsn(0))
            }
            Handler::Write(handler) => {
                guard.begin_atomic();
                guard.limit_overshoot(0, false);
                let memory_policy = MemoryPolicy::Reserved { overshoot_bytes_max: 0 };
                let mut context =
                    write_context(guard, keyspace, execution, caller, memory_policy, true);
                context.reply_bytes_max = reply_bytes_max;
                let result = handler(&mut context, args, &mut reply);
                (result, guard.end_record())
            }
            _ => unreachable!("only commands that work on keys wait for them"),
        };
        match result {
            Ok(()) => {}
            Err(Unfinished::Refused(error)) => {
                reply.rewind(0);
                execution.command_stats.count_failure(command, &error);
                error.write(&mut reply);
            }
            Err(Unfinished::Again(_) | Unfinished::AgainAnyway(_)) => return ServeOutcome::Needs,
            Err(Unfinished::Wait(_)) => return ServeOutcome::Waits(lsn),
        }
        if out.is_over_limit() {
            return ServeOutcome::Needs;
        }
        ServeOutcome::Done(ServedReply { reply: out.to_vec().into(), lsn })
    }
}

impl Runner<'_, '_, '_, '_> {
    /// Lets the session wait as `wait` says, for keys whose guard is still the one under which it
    /// looked for them; the command is not to be run again then. One that has waited already, and
    /// ran its request itself, keeps its place. Within EXEC nothing waits. Where a long request
    /// would bring memory above its limit, room is made for the wait before the command is run once
    /// more, or it is refused.
    #[cold]
    pub(crate) fn wait_for(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        wait: Wait,
        reply: &mut Reply<'_>,
    ) -> ControlFlow<Result<(), CommandError>> {
        const WAITS: ControlFlow<Result<(), CommandError>> = ControlFlow::Break(Ok(()));
        if self.in_transaction {
            (wait.at_refusal)(reply);
            return WAITS;
        }
        if let Some(waiter) = self.session.waits.current().cloned() {
            self.status = SessionStatus::Blocked;
            self.wait_on(&waiter);
            return WAITS;
        }
        if wait.is_for_host && !self.is_again {
            let request = OwnedRequest::new(args.request().iter());
            let kept = KeptRequest { command, request, is_paused: false };
            self.session.kept = Some(Box::new(kept));
        }
        if wait.key_count > 0 {
            let guard = self.guard.as_ref().expect("a command that waits keeps its guard");
            let from = (&*self.session, guard, self.execution.now);
            let blocked = BlockedRequest::new(command, args, &wait, from, self.keyspace);
            let keys = &args.keys()[..wait.key_count as usize];
            let bytes = blocked.memory_bytes() as u64 + Keyspace::wait_bytes(&blocked.names, keys);
            if bytes >= RESERVED_BYTES_MIN as u64 && self.keyspace.lacks_room(bytes) {
                return self.provide(Need::Reserve(bytes), command, args, reply);
            }
            self.begin_wait(blocked, keys, &wait, bytes);
        }
        self.status = SessionStatus::Blocked;
        self.session.state.blocked = Some(wait);
        WAITS
    }

    /// Registers the session with `keys`, by what it has left for those who serve it.
    fn begin_wait(&mut self, blocked: BlockedRequest, keys: &[Key<'_>], wait: &Wait, bytes: u64) {
        let place = blocked.attendance.as_ref().map_or(0, |attendance| attendance.place());
        let names = Arc::clone(&blocked.names);
        let guard = self.guard.as_mut().expect("a command that waits for keys keeps their guard");
        let wait = NewWait {
            session: self.session.state.id,
            place,
            database: blocked.caller.database,
            keys,
            names: &names,
            value_type: wait.value_type,
            end: wait.end,
            request: Box::new(blocked),
            bytes,
        };
        guard.begin_wait(&mut self.session.waits, wait);
    }

    /// Lets the session go on waiting in its place, and those behind it be served, who were not
    /// while it was to run a request that takes something.
    fn wait_on(&mut self, waiter: &Waiter) {
        let blocked = BlockedRequest::of(waiter);
        let guard = self.guard.as_mut().expect("a command that waits for keys keeps their guard");
        guard.end_record();
        let blocks_others = matches!(*waiter.state(), WaitState::Told { blocks_others: true });
        if blocks_others || blocked.takes() {
            *waiter.state() = WaitState::Closed;
            guard.renew_ready(&self.session.waits, self.execution.now);
            let (ready, mut bytes_left) = (guard.take_ready(), SERVED_BYTES_MAX);
            let Runner { keyspace, execution, served, .. } = self;
            serve_keys(&ready, guard, keyspace, execution, served, &mut bytes_left);
        }
        blocked.give_wait_back();
        *waiter.state() = WaitState::Open;
        // What those behind it have made ready came after it looked, and may serve it.
        self.serve_ready();
    }

    /// Serves the sessions that wait for keys which have become ready under the current guard,
    /// whose record is complete.
    #[cold]
    pub(crate) fn serve_ready(&mut self) {
        let guard = self.guard.as_mut().expect("keys are ready under a guard");
        serve(guard, self.keyspace, self.execution, &mut self.served, SERVED_BYTES_MAX);
    }
}

/// Serves those who wait for the keys that are ready under `guard`, and for those that become ready
/// by that, with replies of up to `bytes_left`. Each round ends a wait, or is the last.
fn serve(
    guard: &mut Guard<'_>,
    keyspace: &Keyspace,
    execution: &mut ExecutionContext<'_>,
    served: &mut Vec<SessionWakeup>,
    mut bytes_left: usize,
) {
    loop {
        let ready = guard.take_ready();
        if ready.is_empty() {
            return;
        }
        serve_keys(&ready, guard, keyspace, execution, served, &mut bytes_left);
    }
}

fn serve_keys(
    ready: &ReadyKeys,
    guard: &mut Guard<'_>,
    keyspace: &Keyspace,
    execution: &mut ExecutionContext<'_>,
    served: &mut Vec<SessionWakeup>,
    bytes_left: &mut usize,
) {
    for key in ready.iter() {
        // Once one of those who wait for the right to fill the key waits on, so do all of them.
        let (mut place, mut is_leased) = (None, false);
        while let Some((next, waiter)) = guard.next_waiter(key, place, is_leased, execution.now) {
            place = Some(next);
            let mut state = waiter.state();
            match *state {
                WaitState::Open => {}
                WaitState::Told { blocks_others: true } => break,
                WaitState::Told { blocks_others: false } => continue,
                // It has waited for this key too, and is passed over once.
                WaitState::Served(_) => {
                    guard.leave_queue(key, next);
                    continue;
                }
                WaitState::Closed => continue,
            }
            let blocked = BlockedRequest::of(&waiter);
            // What is taken for a session that is gone would be lost.
            if !blocked.attendance.as_ref().is_none_or(|attendance| attendance.may_serve()) {
                continue;
            }
            match blocked.run(guard, ready, keyspace, execution, *bytes_left) {
                ServeOutcome::Waits(lsn) => {
                    waiter.note_record(lsn);
                    is_leased |= next.is_for_lease();
                    continue;
                }
                ServeOutcome::Needs => {
                    // A value that is there is everybody's, the right to fill the key one's.
                    let is_for_lease = next.is_for_lease() && guard.is_absent(key, execution.now);
                    let blocks_others = blocked.takes() || is_for_lease;
                    *state = WaitState::Told { blocks_others };
                }
                ServeOutcome::Done(reply) => {
                    if let Some(attendance) = &blocked.attendance {
                        attendance.was_served();
                    }
                    *bytes_left = bytes_left.saturating_sub(reply.reply.len());
                    keyspace.keep_served(&mut state, reply);
                    guard.leave_queue(key, next);
                }
            }
            served.push(waiter.wakeup());
            if matches!(*state, WaitState::Told { blocks_others: true }) {
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
        execution: &mut ExecutionContext<'_>,
    ) -> Option<Release> {
        if wake == Wake::Continued {
            return self.continue_request(session, out, execution);
        }
        let wait = session.state.blocked.expect("a session that is woken waits");
        if wake == Wake::Served
            && let Some(waiter) = session.waits.current().cloned()
            && matches!(*waiter.state(), WaitState::Told { .. })
        {
            return self.run_again(session, &waiter, out, execution);
        }
        session.state.blocked = None;
        let durable_wait = session.state.durable_wait.take();
        let answer = session.state.answer.take();
        let command = session.state.last_command;
        let mut reply = out.reply(session.state.protocol);
        let start = reply.position();
        let waiter = session.waits.current().cloned();
        let ended = self.keyspace().end_wait(&mut session.waits, execution.now);
        let mut release = Release { lsn: waiter.map_or(Lsn(0), |waiter| waiter.record()) };
        match (wake, ended) {
            (_, Some(served)) => {
                reply.raw(&served.reply);
                release.lsn = served.lsn;
            }
            (Wake::TimedOut, None) => (wait.at_timeout)(&mut reply),
            (Wake::Durable, None) => {
                let (_, at_durable) = durable_wait.expect("it waits for a durable LSN");
                at_durable(&mut reply);
            }
            (Wake::Answered, None) => {
                answer.expect("it waits for an answer").write(&mut reply);
            }
            (Wake::Served | Wake::Continued, None) => {
                panic!("a session is told where its wait was served")
            }
            (Wake::Refused, None) => {
                let error = CommandError::Fixed(Wait::REFUSED);
                let command = command.expect("a session that waits has run a command");
                execution.command_stats.count_failure(command, &error);
                error.write(&mut reply);
            }
        }
        apply_client_reply(&mut session.state, start, || false, &mut reply);
        self.serve_left(execution);
        Some(release)
    }

    /// Runs the request of a session that waits, for itself, unless what has changed since it came
    /// lets it wait or be refused: a pause, a memory limit, writes that are not admitted.
    fn run_again(
        &self,
        session: &mut Session,
        waiter: &Waiter,
        out: &mut Output,
        execution: &mut ExecutionContext<'_>,
    ) -> Option<Release> {
        let blocked = BlockedRequest::of(waiter);
        let request = blocked.request.view();
        match self.run_once_more(session, blocked.command, request, out, execution) {
            RunOutcome::Done(release) => {
                self.keyspace().end_wait(&mut session.waits, execution.now);
                self.serve_left(execution);
                Some(release)
            }
            RunOutcome::Blocked => None,
            RunOutcome::Paused => {
                blocked.give_wait_back();
                self.keyspace().leave_unserved(&mut session.waits, execution.now);
                None
            }
        }
    }

    /// Runs the request that has waited for the host once more; returns `None` where it waits on,
    /// for the host or for the end of a pause.
    fn continue_request(
        &self,
        session: &mut Session,
        out: &mut Output,
        execution: &mut ExecutionContext<'_>,
    ) -> Option<Release> {
        let mut kept = session.kept.take()?;
        let request = kept.request.view();
        let outcome = self.run_once_more(session, kept.command, request, out, execution);
        kept.is_paused = matches!(outcome, RunOutcome::Paused);
        let RunOutcome::Done(release) = outcome else {
            session.kept = Some(kept);
            return None;
        };
        self.abandon_migration(session);
        self.serve_left(execution);
        Some(release)
    }

    /// Runs a request that has waited as if it had just come, and replies unless it waits on.
    fn run_once_more(
        &self,
        session: &mut Session,
        command: &'static Command,
        request: RequestView<'_>,
        out: &mut Output,
        execution: &mut ExecutionContext<'_>,
    ) -> RunOutcome {
        let keyspace = self.keyspace();
        let mut reply = out.reply(session.state.protocol);
        let start = reply.position();
        let mut release = Release::default();
        let is_over_limit = keyspace.is_over_limit();
        match dispatch::check(command, &session.state, keyspace, is_over_limit, execution) {
            Ok(Verdict::Run) => {
                let mut runner = Runner::new(keyspace, session, execution, true);
                runner.is_again = true;
                let keys = runner.keys_of(command, request);
                runner.answer(command, request, &keys, &mut reply);
                let end = runner.end(1);
                if end.status == SessionStatus::Blocked {
                    return RunOutcome::Blocked;
                }
                release = end.release;
            }
            Ok(Verdict::Wait) => return RunOutcome::Paused,
            Ok(Verdict::Queue) => unreachable!("within MULTI nothing waits"),
            Err(error) => {
                execution.command_stats.count_rejection(command, &error);
                error.write(&mut reply);
            }
        }
        session.state.blocked = None;
        apply_client_reply(&mut session.state, start, || false, &mut reply);
        RunOutcome::Done(release)
    }

    fn abandon_migration(&self, session: &mut Session) {
        if let Some(mut migration) = session.state.migration.take() {
            migration.abandon(self.keyspace());
        }
    }

    /// Ends the wait of a session whose peer sends nothing more, for whatever it waits: nothing is
    /// taken for it any more. What was before, it is told. Returns when that may leave. The caller
    /// holds no guard.
    pub fn give_up_wait(
        &self,
        session: &mut Session,
        out: &mut Output,
        execution: &mut ExecutionContext<'_>,
    ) -> Release {
        let served = self.keyspace().end_wait(&mut session.waits, execution.now);
        session.state.answer = None;
        let mut release = Release::default();
        if let Some(served) = served {
            session.state.blocked = None;
            let mut reply = out.reply(session.state.protocol);
            let start = reply.position();
            reply.raw(&served.reply);
            apply_client_reply(&mut session.state, start, || false, &mut reply);
            release.lsn = served.lsn;
        }
        self.serve_left(execution);
        release
    }

    /// Ends a session: nothing of it stays behind. What it was served and has not been told is
    /// lost, as what was sent to a peer that is gone. The caller holds no guard.
    pub fn close(&self, session: &mut Session, execution: &mut ExecutionContext<'_>) {
        session.state.transaction = None;
        session.state.blocked = None;
        session.state.answer = None;
        session.kept = None;
        self.abandon_migration(session);
        self.keyspace().end_wait(&mut session.waits, execution.now);
        // Behind the wait, which nobody serves with another lease any more.
        if let Some(shards) = session.leases.take() {
            self.keyspace().end_leases_of(session.state.id, &shards);
        }
        self.keyspace().unwatch(&mut session.watches);
        self.serve_left(execution);
    }

    /// Serves those who wait for keys that were ready when a guard went, under a guard of all of
    /// these keys, or of one shard after the other where they are very many; during a pause nobody,
    /// which keeps the data as it is, so that it is to be called behind one. The caller holds no
    /// guard.
    #[inline]
    pub fn serve_left(&self, execution: &mut ExecutionContext<'_>) {
        if self.keyspace().has_unserved() && execution.pause.get().is_none() {
            self.serve_unserved(execution);
        }
    }

    #[cold]
    fn serve_unserved(&self, execution: &mut ExecutionContext<'_>) {
        let keyspace = self.keyspace();
        let mut served = Vec::new();
        for (shards, ready) in keyspace.take_unserved().in_holds() {
            if execution.pause.get().is_some() {
                keyspace.add_unserved(ready);
                continue;
            }
            let mut guard = keyspace.lock_set(&shards);
            let mut bytes_left = SERVED_BYTES_MAX;
            serve_keys(&ready, &mut guard, keyspace, execution, &mut served, &mut bytes_left);
            serve(&mut guard, keyspace, execution, &mut served, bytes_left);
            drop(guard);
            served.drain(..).for_each(|served| execution.host.notify_served(served));
        }
    }
}
