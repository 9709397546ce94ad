//! Checks one request after the other, runs it under the locks that it needs, and answers it.

use std::cell::Cell;

use base::{DatabaseIndex, Key, Lsn, ShardIndex, UnixMs};
use command::{
    Args, Command, CommandError, ControlContext, Flags, Handler, LatencyEvent, MemoryPolicy, Need,
    Next, ReadContext, SessionContext, SessionState, SlowCommand, Unfinished, WriteContext,
};
use keyspace::{
    Access, Guard, KEYS_AHEAD, Keyspace, NeedRoom, PrivateCopies, SessionWakeup, ShardSet,
    Uploader, WriteView,
};
use resp::{Protocol, Reply, RequestView};

use crate::command_timer::CommandTimer;
use crate::dispatch::{self, Verdict};
use crate::engine::{BatchEnd, SessionStatus, apply_client_reply};
use crate::execution_context::ExecutionContext;
use crate::release::Release;
use crate::request_keys::Keys;
use crate::retry::Retries;
use crate::session::Session;
use crate::window::Prepared;

/// The time of a batch is asked for again once this much of it has passed: it is told in
/// milliseconds.
const TIME_OLD_NS: u64 = 1_000_000;

type ReadHandler = fn(&ReadContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>;
type WriteHandler = fn(&mut WriteContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>;

/// Runs the requests of one batch of one session.
pub(crate) struct Runner<'e, 's, 't, 'h> {
    pub(crate) keyspace: &'e Keyspace,
    pub(crate) session: &'s mut Session,
    pub(crate) execution: &'t mut ExecutionContext<'h>,
    /// The shard of the last request, kept for the next one; in EXEC all shards of the queue.
    pub(crate) guard: Option<Guard<'e>>,
    /// Whether `guard` is that of an EXEC.
    pub(crate) in_transaction: bool,
    /// Whether `guard` is what commands run under whatever their keys: that of an EXEC, or of a
    /// command that has asked for further shards.
    pub(crate) is_locked_for_command: bool,
    commands: u64,
    pub(crate) status: SessionStatus,
    /// When the first command began; 0 before.
    first_began: u64,
    /// Commands have run for so long that the time is no longer known.
    is_time_old: bool,
    /// The batch is one request, or has large ones: each is timed by itself.
    times_requests_alone: bool,
    /// So is every command now, whatever it is.
    times_each_command: bool,
    pub(crate) command_timer: CommandTimer,
    pub(crate) lsn: Lsn,
    /// Where the reply of the last EXEC ends: its parts are settled one by one.
    pub(crate) settled_to: usize,
    pub(crate) retries: Retries,
    /// The request has waited and is run once more. It was counted and shown when it came: only its
    /// time is added.
    pub(crate) is_again: bool,
    /// Sessions whose waits were served, to be told once nothing is locked.
    pub(crate) served: Vec<SessionWakeup>,
}

impl<'e, 's, 't, 'h> Runner<'e, 's, 't, 'h> {
    /// Returns a runner that has run nothing and holds nothing. What it runs is timed request by
    /// request where it `times_requests_alone`.
    pub fn new(
        keyspace: &'e Keyspace,
        session: &'s mut Session,
        execution: &'t mut ExecutionContext<'h>,
        times_requests_alone: bool,
    ) -> Runner<'e, 's, 't, 'h> {
        let times_each_command = times_requests_alone || execution.timing.times_each_command();
        let mut command_timer = CommandTimer::new();
        if !times_each_command {
            command_timer.start(execution);
        }
        Runner {
            keyspace,
            session,
            execution,
            guard: None,
            in_transaction: false,
            is_locked_for_command: false,
            commands: 0,
            status: SessionStatus::Open,
            first_began: command_timer.began(),
            is_time_old: false,
            times_requests_alone,
            times_each_command,
            command_timer,
            lsn: Lsn(0),
            settled_to: 0,
            retries: Retries::default(),
            is_again: false,
            served: Vec::new(),
        }
    }

    /// Returns the session's database.
    pub fn database(&self) -> DatabaseIndex {
        self.session.state.database
    }

    /// Returns the session's protocol.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.session.state.protocol
    }

    /// Returns whether the run ends here: the session does, or the time is to be asked again.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.status != SessionStatus::Open || self.is_time_old
    }

    /// Notes that requests were prepared.
    #[inline]
    pub fn begin_window(&mut self) {
        self.command_timer.note_preparation();
    }

    /// Unlocks, tells those who were served, and returns what became of the batch, whose request
    /// `executed` is the next.
    #[inline]
    pub fn end(&mut self, executed: usize) -> BatchEnd {
        self.unlock();
        self.command_timer.end(self.execution);
        if !self.served.is_empty() {
            self.notify_served();
        }
        if self.lsn > self.session.state.written {
            self.session.state.written = self.lsn;
        }
        BatchEnd {
            executed,
            commands: self.commands,
            status: self.status,
            release: Release { lsn: self.lsn },
        }
    }

    #[cold]
    fn notify_served(&mut self) {
        self.served.drain(..).for_each(|served| self.execution.host.notify_served(served));
    }

    /// Runs, queues or refuses one request and writes its reply. Returns false where it has to
    /// wait for the end of a pause and nothing has happened yet.
    #[inline]
    pub fn run(
        &mut self,
        prepared: &Prepared<'_>,
        request: RequestView<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        let Some(command) = prepared.command else {
            self.refuse_malformed(request, reply);
            self.session.drop_stale_partial_copy();
            return true;
        };
        self.session.state.last_command = Some(command);
        let is_over_limit = self.keyspace.is_over_limit();
        if is_over_limit {
            // Room is made while no shard is held, and in nobody's time.
            self.unlock();
            self.command_timer.end(self.execution);
        }
        let verdict = dispatch::check(
            command,
            &self.session.state,
            self.keyspace,
            is_over_limit,
            self.execution,
        );
        if is_over_limit {
            self.note_eviction();
        }
        match verdict {
            Ok(Verdict::Run) => match &prepared.key {
                Some(key) => self.answer(command, request, std::slice::from_ref(key), reply),
                None if command.keys.is_empty() => self.answer(command, request, &[], reply),
                None => self.answer(command, request, &self.keys_of(command, request), reply),
            },
            Ok(Verdict::Queue) => self.queue(command, request, reply),
            Ok(Verdict::Wait) => {
                self.status = SessionStatus::Paused;
                return false;
            }
            Err(error) => self.refuse(command, &error, reply),
        }
        self.session.drop_stale_partial_copy();
        true
    }

    /// Takes back a reply that began at `start` and that the session does not want, or its request
    /// where the session leaves it to that. That of a blocked session is not there yet.
    #[inline]
    pub fn settle(
        &mut self,
        start: usize,
        request_is_silent: impl FnOnce() -> bool,
        reply: &mut Reply<'_>,
    ) {
        if self.status != SessionStatus::Blocked {
            let start = start.max(self.settled_to);
            apply_client_reply(&mut self.session.state, start, request_is_silent, reply);
        }
    }

    /// As [`Runner::settle`], for a part of the reply of EXEC: what is chosen counts at once, but
    /// the next request is the one behind EXEC.
    pub fn settle_part(&mut self, start: usize, reply: &mut Reply<'_>) {
        if self.session.state.replies.are_silent() {
            reply.rewind(start);
        }
        self.settled_to = reply.position();
    }

    /// Tells the host how long it took to make room before a command.
    #[cold]
    fn note_eviction(&mut self) {
        let nanoseconds = self.command_timer.lap(self.command_timer.began(), self.execution);
        self.execution.host.note_event(LatencyEvent::EvictionCycle, nanoseconds);
    }

    /// Runs a command and writes its reply, or its error in the reply's place.
    #[inline]
    pub fn answer(
        &mut self,
        command: &'static Command,
        request: RequestView<'_>,
        keys: &[Key<'_>],
        reply: &mut Reply<'_>,
    ) {
        self.commands += 1;
        let is_alone = self.times_each_command
            || self.in_transaction
            || !self.command_timer.admits(command, request.len(), self.execution);
        if is_alone {
            self.command_timer.end(self.execution);
        }
        let began = self.command_timer.began();
        if self.first_began == 0 {
            self.first_began = began;
        }
        let args = Args::new(&request, keys);
        self.run_to_end(command, args, reply);
        if self.execution.monitor_feed.is_there() && !self.is_again {
            self.execution.monitor_feed.show(command, request, &self.session.state);
        }
        // After it ran: INFO does not count itself, nor RESETSTAT forget itself.
        match (is_alone, self.command_timer.take_timed_alone()) {
            (false, false) => self.command_timer.add(command, self.execution),
            (false, true) => self.time_alone(self.command_timer.began(), command, request),
            (true, _) => self.time_alone(began, command, request),
        }
    }

    /// Counts the time of a command since `began` for itself, and reports it where it is long.
    #[inline]
    fn time_alone(&mut self, began: u64, command: &'static Command, request: RequestView<'_>) {
        let nanoseconds = self.command_timer.lap(began, self.execution);
        if self.is_again {
            self.execution.command_stats.count_time(command, nanoseconds);
            return self.report_slow(command, request, nanoseconds);
        }
        self.is_time_old =
            self.command_timer.began().saturating_sub(self.first_began) >= TIME_OLD_NS;
        let ExecutionContext { command_stats, timing, .. } = *self.execution;
        command_stats.count_calls(
            command_stats.index(command),
            1,
            nanoseconds,
            timing.is_tracking(),
        );
        if self.in_transaction {
            command_stats.count_nested(nanoseconds);
        }
        // It may have been the one that changed it.
        self.times_each_command = self.times_requests_alone || timing.times_each_command();
        self.report_slow(command, request, nanoseconds);
    }

    /// Reports a command where it is long.
    #[inline]
    fn report_slow(&self, command: &'static Command, request: RequestView<'_>, nanoseconds: u64) {
        if nanoseconds >= self.execution.timing.report_threshold_ns() {
            let session = &self.session.state;
            let now = self.execution.now;
            self.execution.host.note_slow(&SlowCommand {
                command,
                request,
                session,
                nanoseconds,
                now,
            });
        }
    }

    /// Returns the keys of a request that may have any number of them.
    #[inline]
    pub fn keys_of<'a>(&self, command: &Command, request: RequestView<'a>) -> Keys<'a> {
        Keys::of(command, request, self.keyspace.hasher())
    }

    /// Lets go of whatever is locked.
    #[inline]
    pub fn unlock(&mut self) {
        if self.guard.is_some() {
            self.end_record();
            self.guard = None;
        }
    }

    /// Ends the record of what is locked and serves whom that has made ready.
    #[inline]
    fn end_record(&mut self) {
        let guard = self.guard.as_mut().expect("the caller has locked it");
        self.lsn = self.lsn.max(guard.end_record());
        if guard.has_ready() {
            self.serve_ready();
        }
    }

    /// Locks `shards` for whatever runs next.
    pub(crate) fn lock_shards_for_command(&mut self, shards: &ShardSet) {
        self.unlock();
        self.guard = Some(self.keyspace.lock_set(shards));
        self.is_locked_for_command = true;
    }

    /// Returns the guard of `keys`: the one at hand where it fits. Always inlined, as reads are.
    #[inline(always)]
    fn lock(&mut self, command: &Command, keys: &[Key<'_>]) -> &mut Guard<'e> {
        if !self.is_locked_for_command {
            match keys {
                [key] => self.lock_one(key.shard),
                _ => self.lock_many(command, keys),
            }
        }
        self.guard.as_mut().expect("locked just now, or for the command")
    }

    #[inline]
    pub(crate) fn lock_one(&mut self, shard: ShardIndex) {
        if !self.guard.as_ref().is_some_and(|guard| guard.is_only(shard)) {
            self.unlock();
            let (command_timer, execution) = (&mut self.command_timer, &*self.execution);
            // The time that it waits for another thread is this command's alone.
            self.guard = Some(
                self.keyspace
                    .lock_or_notify(shard, || command_timer.time_alone_from_now(execution)),
            );
        }
    }

    fn lock_many(&mut self, command: &Command, keys: &[Key<'_>]) {
        if let ([one, other], Some(guard)) = (keys, &self.guard)
            && guard.is_pair(one.shard, other.shard)
        {
            return;
        }
        self.unlock();
        let (command_timer, execution) = (&mut self.command_timer, &*self.execution);
        let mut has_waited = false;
        // The time that it waits for other threads is this command's alone.
        let waits = || {
            if !std::mem::replace(&mut has_waited, true) {
                command_timer.time_alone_from_now(execution);
            }
        };
        let guard = self.guard.insert(self.keyspace.lock_keys_or_notify(keys, waits));
        let ahead = if command.is(Flags::PREFETCHES) { KEYS_AHEAD } else { keys.len() };
        guard.prefetch(&keys[..keys.len().min(ahead)], self.session.state.database);
    }

    /// Runs a read once. Always inlined: every GET passes here, and a call costs it three percent
    /// of the server's instructions.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        command: &Command,
        handler: ReadHandler,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        self.lock(command, args.keys());
        match self.keyspace.has_adopted() && command.uses_values(args.request()) {
            true => self.read_with_copies(handler, args, reply),
            false => self.read_locked(handler, None, args, reply),
        }
    }

    /// Runs a read that may meet values that clients can write.
    #[cold]
    fn read_with_copies(
        &mut self,
        handler: ReadHandler,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        let copies = self.materialize_for_read(args)?;
        self.read_locked(handler, copies.as_ref(), args, reply)
    }

    /// Runs a read under the current guard; it finds `copies` where no value is that it may use.
    #[inline]
    fn read_locked(
        &mut self,
        handler: ReadHandler,
        copies: Option<&PrivateCopies>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        let (database, now) = (self.session.state.database, self.execution.now);
        let value_bytes_max = self.execution.value_bytes_max;
        let view = self.guard.as_ref().expect("the caller has locked it").read(database, now);
        let view = copies.iter().fold(view, |view, copies| view.with_copies(copies));
        let view = if self.session.state.no_touch { view.without_touch() } else { view };
        let random = Cell::from_mut(&mut self.execution.random);
        let result = handler(&ReadContext { view, value_bytes_max, random }, args, reply);
        self.settle_expired(args.keys());
        result
    }

    /// Removes those of `keys` that the command has met expired, under the guard under which it
    /// ran, as Redis does while it looks. During a pause they stay: the data is to be as it is.
    #[inline]
    fn settle_expired(&mut self, keys: &[Key<'_>]) {
        if self.guard.as_ref().is_some_and(Guard::has_met_expired) {
            self.remove_expired(keys);
        }
    }

    #[cold]
    fn remove_expired(&mut self, keys: &[Key<'_>]) {
        let (database, now) = (self.session.state.database, self.execution.now);
        let guard = self.guard.as_mut().expect("a lookup was made under it");
        match self.execution.removes_expired() && self.keyspace.may_remove() {
            true => guard.remove_expired(keys, database, now),
            false => guard.leave_expired(),
        }
    }

    /// Owns the values at the keys of a read, under the guard that it has. A read is not refused
    /// for want of room: it asks for it once, or for copies of long values, and what there is no
    /// room for then is copied for this read alone. So is everything within EXEC, which makes no
    /// room.
    fn materialize_for_read(
        &mut self,
        args: Args<'_>,
    ) -> Result<Option<PrivateCopies>, Unfinished> {
        let keys = args.keys();
        if !self.in_transaction {
            let need = if self.retries.count == 0 && self.own_view().owns_long(keys) {
                Need::Owned
            } else {
                let Err(need) = self.own_all(keys) else { return Ok(None) };
                Need::Room(need)
            };
            if self.retries.count == 0 {
                return Err(Unfinished::AgainAnyway(need));
            }
        }
        let guard = self.guard.as_ref().expect("the caller has locked it");
        let view = guard.read(self.session.state.database, self.execution.now);
        Ok(Some(view.copy_adopted(keys)))
    }

    fn own_all(&mut self, keys: &[Key<'_>]) -> Result<(), NeedRoom> {
        let mut view = self.own_view();
        keys.iter().try_for_each(|key| view.own(key))
    }

    fn own_view(&mut self) -> WriteView<'_> {
        let guard = self.guard.as_mut().expect("the caller has locked it");
        write_view(guard, Caller::of(&self.session.state), self.execution.now)
    }

    /// Runs a write once.
    #[inline]
    pub(crate) fn write(
        &mut self,
        command: &Command,
        handler: WriteHandler,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        if command.is(Flags::LEASES) {
            self.session.note_leases(args.keys());
        }
        match args.keys() {
            [key] if !self.is_locked_for_command => {
                self.write_one(command, handler, key, args, reply)
            }
            _ => self.write_atomically(command, handler, args, reply),
        }
    }

    /// Writes one key, with what the session offers for its value.
    #[inline]
    fn write_one(
        &mut self,
        command: &Command,
        handler: WriteHandler,
        key: &Key<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        self.lock_one(key.shard);
        let guard = self.guard.as_mut().expect("locked just now");
        let has_offer = self.session.offer.is_some();
        if let Some(block) = self.session.offer.take() {
            guard.offer(block);
        }
        let prepares = !self.retries.is_prepared;
        let result = self.attempt(command, handler, MemoryPolicy::Evict, prepares, args, reply);
        let guard = self.guard.as_mut().expect("an attempt keeps it");
        if has_offer {
            self.session.offer = guard.take_back();
        }
        if guard.has_ready() {
            self.serve_ready();
        }
        self.settle_expired(args.keys());
        result
    }

    /// Runs a write once, under the current guard. Always inlined, as reads are.
    #[inline(always)]
    fn attempt(
        &mut self,
        command: &Command,
        handler: WriteHandler,
        memory_policy: MemoryPolicy,
        prepares: bool,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        let caller = Caller::of(&self.session.state);
        let guard = self.guard.as_mut().expect("the caller has locked it");
        let mut context =
            write_context(guard, self.keyspace, self.execution, caller, memory_policy, prepares);
        // What gives leases owns them itself: it can do without room where it has a value.
        if self.keyspace.has_adopted()
            && command.uses_values(args.request())
            && !command.is(Flags::LEASES)
        {
            context.own(args.keys())?;
        }
        handler(&mut context, args, reply)
    }

    /// Writes several keys as one record, or one of the commands of an EXEC, whose record it joins.
    /// Nothing is evicted meanwhile: the limit may be passed by what the request brings, and only
    /// where the system itself has no memory is an error left to give. What stores more than that
    /// says so before it changes anything, and is tried again; within EXEC it may pass the limit by
    /// so much, and is refused beyond that.
    #[inline(never)]
    fn write_atomically(
        &mut self,
        command: &Command,
        handler: WriteHandler,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        if self.in_transaction {
            let overshoot_bytes_max = self.keyspace.transaction_overshoot_bytes_max();
            let memory_policy = MemoryPolicy::Reserved { overshoot_bytes_max };
            let guard = self.guard.as_mut().expect("EXEC has locked the keys");
            guard.limit_overshoot(overshoot_bytes_max, true);
            let result = self.attempt(command, handler, memory_policy, false, args, reply);
            self.settle_expired(args.keys());
            return result;
        }
        if self.retries.count == 0 && self.keyspace.maxmemory() != 0 {
            self.reserve_for_request(command.stored_bytes(args.request()))?;
        }
        let database = self.session.state.database;
        let guard = self.lock(command, args.keys());
        guard.prefetch_counts(args.keys(), database);
        guard.begin_atomic();
        guard.limit_overshoot(0, false);
        let memory_policy = MemoryPolicy::Reserved { overshoot_bytes_max: 0 };
        let prepares = !self.retries.is_prepared;
        let result = self.attempt(command, handler, memory_policy, prepares, args, reply);
        self.settle_expired(args.keys());
        match &result {
            // One that waits registers under the guard under which it looked.
            Err(Unfinished::Wait(_)) => {}
            // The next command may be one on the same two keys, or on one of the same shard.
            Ok(()) if !self.is_locked_for_command && args.keys().len() <= 2 => self.end_record(),
            _ => self.unlock(),
        }
        result
    }

    /// Returns the upload memory that the session commits from.
    #[inline]
    pub(crate) fn uploads(&self) -> Uploader<'e> {
        Uploader::new(self.keyspace.arena().uploads(), self.session.state.uploader)
    }

    /// Runs a command that works on the session or on the whole keyspace. Never inlined: the
    /// others would carry its state along.
    #[inline(never)]
    pub(crate) fn beyond_keys(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        if !self.in_transaction {
            self.unlock();
        }
        match command.handler {
            Handler::Session(handler) => {
                let is_free = self.guard.is_none() || !command.is(Flags::UNGUARDED);
                assert!(is_free, "what may wait for the system holds no shard");
                self.session.state.written = self.session.state.written.max(self.lsn);
                let was_queueing = self.session.state.is_queueing();
                let was_monitor = self.session.state.is_monitor;
                let mut context = SessionContext {
                    has_changed_watch: self.session.watches.is_dirty(),
                    session: &mut self.session.state,
                    host: self.execution.host,
                    now: self.execution.now,
                };
                let next = handler(&mut context, args, reply);
                if self.session.state.is_monitor != was_monitor {
                    self.execution.monitor_feed.sink.count(!was_monitor);
                }
                self.act(next, was_queueing, args.keys(), reply)
            }
            Handler::Control(handler) => {
                let access = match &mut self.guard {
                    Some(guard) => guard.access(),
                    None => Access::free(self.keyspace),
                };
                let may_remove = self.keyspace.may_remove() && self.execution.removes_expired();
                let access = access.removing_expired(may_remove);
                let mut context = ControlContext {
                    access,
                    session: &mut self.session.state,
                    host: self.execution.host,
                    now: self.execution.now,
                    random: &mut self.execution.random,
                    lsn: Lsn(0),
                };
                let result = handler(&mut context, args, reply);
                self.lsn = self.lsn.max(context.lsn);
                result
            }
            _ => unreachable!("handlers of keys are run elsewhere"),
        }
    }

    /// Does what a session command asks for.
    fn act(
        &mut self,
        next: Result<Next, Unfinished>,
        was_queueing: bool,
        keys: &[Key<'_>],
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        if matches!(next, Ok(Next::Exec)) {
            return Ok(self.execute_transaction(reply)?);
        }
        if was_queueing && !self.session.state.is_queueing() {
            // Every way out of MULTI ends the watches: a refused EXEC, DISCARD, RESET.
            self.keyspace.unwatch(&mut self.session.watches);
        }
        match next? {
            Next::Done | Next::Exec => {}
            Next::Watch => {
                let (database, now) = (self.session.state.database, self.execution.now);
                self.keyspace.watch(&mut self.session.watches, database, keys, now);
            }
            // EXEC has ended the watches before its commands run.
            Next::Unwatch if self.in_transaction => {}
            Next::Unwatch => self.keyspace.unwatch(&mut self.session.watches),
            Next::Close => self.status = SessionStatus::CloseAfterReplies,
        }
        Ok(())
    }

    fn queue(
        &mut self,
        command: &'static Command,
        request: RequestView<'_>,
        reply: &mut Reply<'_>,
    ) {
        let is_dirty = self.session.watches.is_dirty();
        let transaction = self.session.state.transaction.as_mut().expect("MULTI was sent");
        // What can no longer run is not kept, as in Redis; the answer is the same.
        if !is_dirty
            && !transaction.is_broken
            && let Err(error) = transaction.push(command, request)
        {
            self.execution.command_stats.count_rejection(command, &error);
            return error.write(reply);
        }
        reply.simple("QUEUED");
    }

    /// Refuses a request before its handler: inside MULTI, EXEC will refuse too.
    #[cold]
    fn refuse(&mut self, command: &'static Command, error: &CommandError, reply: &mut Reply<'_>) {
        if command.name == "exec" {
            let error = self.abort_transaction(error);
            self.execution.command_stats.count_rejection(command, &error);
            return error.write(reply);
        }
        self.execution.command_stats.count_rejection(command, error);
        self.refuse_unknown(error, reply);
    }

    /// Refuses a request that may have no command.
    #[cold]
    fn refuse_unknown(&mut self, error: &CommandError, reply: &mut Reply<'_>) {
        if let Some(transaction) = &mut self.session.state.transaction {
            transaction.is_broken = true;
        }
        error.write(reply);
    }

    #[cold]
    fn refuse_malformed(&mut self, request: RequestView<'_>, reply: &mut Reply<'_>) {
        let error = command::resolve(request).expect_err("it was refused before");
        if dispatch::is_attack(request) {
            self.status = SessionStatus::CloseNow;
            return;
        }
        match &error {
            CommandError::WrongArity(command) => self.refuse(command, &error, reply),
            _ => {
                self.execution.command_stats.count_error(&error.text());
                self.refuse_unknown(&error, reply);
            }
        }
    }
}

/// What a command has to know of the session that it runs for.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    /// The database that it has chosen.
    pub database: DatabaseIndex,
    /// Whether what it looks up does not count as used.
    pub no_touch: bool,
    /// Whose upload memory and pins it uses.
    pub uploader: u64,
    /// Its number.
    pub session: u64,
}

impl Caller {
    #[inline]
    pub fn of(session: &SessionState) -> Caller {
        let SessionState { database, no_touch, uploader, id, .. } = *session;
        Caller { database, no_touch, uploader, session: id }
    }
}

/// Returns what a command that writes for `caller` may touch under `guard`.
#[inline]
pub(crate) fn write_context<'g>(
    guard: &'g mut Guard<'_>,
    keyspace: &'g Keyspace,
    execution: &'g mut ExecutionContext<'_>,
    caller: Caller,
    memory_policy: MemoryPolicy,
    prepares: bool,
) -> WriteContext<'g> {
    let arena = keyspace.arena();
    WriteContext {
        view: write_view(guard, caller, execution.now),
        value_bytes_max: execution.value_bytes_max,
        random: Cell::from_mut(&mut execution.random),
        database_count: keyspace.database_count(),
        memory_policy,
        prepares,
        reply_bytes_max: usize::MAX,
        hasher: keyspace.hasher(),
        admits_writes: !keyspace.admission().stops_all(),
        uploads: Uploader::new(arena.uploads(), caller.uploader),
        pins: arena.pins().of(caller.uploader),
        session: caller.session,
    }
}

/// Returns the view in which a command for `caller` changes its database.
#[inline]
fn write_view<'g>(guard: &'g mut Guard<'_>, caller: Caller, now: UnixMs) -> WriteView<'g> {
    let view = guard.write(caller.database, now);
    if caller.no_touch { view.without_touch() } else { view }
}
