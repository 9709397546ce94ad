//! A session on a keyspace over the heap: what the engine does, without its batches and its locks
//! over a whole transaction.

mod host;
mod render;

use std::cell::Cell;
use std::sync::Arc;

use arena::{Arena, ArenaConfig, HeapSource};
use base::prng::Prng;
use base::{Key, Lsn, UnixMs};
use command::{
    Args, Command, CommandError, ControlContext, Flags, Handler, MemoryPolicy, Need, Next,
    ReadContext, SessionContext, SessionState, Transaction, Unfinished, WriteContext,
};
use effects::Recording;
use keyspace::{Access, Guard, Keyspace, Uploader, Watches};
use resp::{OwnedRequest, Reply, RequestView, Value};

pub use host::TestHost;
pub use render::render;

pub const NOW: UnixMs = UnixMs(1_700_000_000_000);

pub struct World {
    pub keyspace: Keyspace,
    pub host: TestHost,
    pub session: SessionState,
    pub now: UnixMs,
    watches: Watches,
    random: Prng,
    sink: Arc<Recording>,
}

impl World {
    pub fn new() -> World {
        let source = Box::new(HeapSource::new(1 << 16, 256));
        let config =
            ArenaConfig { shard_count: 8, database_count: 16, hash_keys: base::HashKeys::fixed(7) };
        let keyspace = Keyspace::new(Arena::new(source, config).unwrap());
        let sink = Arc::new(Recording::default());
        keyspace.set_sink(Some(sink.clone()));
        World {
            keyspace,
            host: TestHost::default(),
            session: SessionState::new(7, NOW, true),
            now: NOW,
            watches: Watches::default(),
            random: Prng::new(1),
            sink,
        }
    }

    /// Returns the effects since the last call, as the words of Redis commands.
    pub fn effects(&self) -> String {
        self.sink.take_commands().join(" ")
    }

    /// Runs a request that is written as words with spaces between.
    pub fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        render(&self.run(&words))
    }

    /// Runs a request and returns its reply.
    pub fn run(&mut self, words: &[&[u8]]) -> Value {
        Value::from_bytes(&self.raw(words)).unwrap().expect("a reply is one value, or nothing")
    }

    /// Runs a request and returns the bytes of its reply.
    pub fn raw(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let request = OwnedRequest::new(words.iter().copied());
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.session.protocol);
        if let Err(error) = self.dispatch(request.view(), &mut reply) {
            reply.rewind(0);
            finish(error, &mut reply);
        }
        out
    }

    fn dispatch(
        &mut self,
        request: RequestView<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        let resolved = command::resolve(request);
        let command = match (resolved, &mut self.session.transaction) {
            (Ok(command), _) => command,
            (Err(error), transaction) => {
                transaction.iter_mut().for_each(|transaction| transaction.is_broken = true);
                return Err(error.into());
            }
        };
        self.session.last_command = Some(command);
        match &mut self.session.transaction {
            Some(transaction) if !command.is(Flags::UNQUEUED) => {
                transaction.push(command, request)?;
                reply.simple("QUEUED");
                Ok(())
            }
            _ => self.execute(command, request, reply),
        }
    }

    fn execute(
        &mut self,
        command: &'static Command,
        request: RequestView<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        let hasher = *self.keyspace.hasher();
        let positions = command.key_positions(request);
        let keys: Vec<Key<'_>> = positions.map(|at| hasher.key(request.at(at))).collect();
        let args = Args::new(&request, &keys);
        let (database, now) = (self.session.database, self.now);
        match command.handler {
            Handler::Read(run) => {
                let guard = lock(&self.keyspace, command, request, &keys);
                let view = guard.read(database, now);
                let random = Cell::from_mut(&mut self.random);
                run(&ReadContext { view, value_bytes_max: 512 << 20, random }, args, reply)
            }
            Handler::Write(run) => {
                let mut guard = lock(&self.keyspace, command, request, &keys);
                if keys.len() > 1 {
                    guard.begin_atomic();
                }
                let view = guard.write(database, now);
                let random = Cell::from_mut(&mut self.random);
                let value_bytes_max = 512 << 20;
                let mut context = WriteContext {
                    view,
                    value_bytes_max,
                    random,
                    database_count: 16,
                    memory_policy: MemoryPolicy::Evict,
                    prepares: false,
                    reply_bytes_max: usize::MAX,
                    hasher: self.keyspace.hasher(),
                    admits_writes: self.keyspace.admission().refused().is_none(),
                    uploads: Uploader::new(self.keyspace.arena().uploads(), 0),
                    pins: self.keyspace.arena().pins().of(0),
                    session: 1,
                };
                run(&mut context, args, reply)
            }
            Handler::Control(run) => {
                let access = Access::free(&self.keyspace);
                let (session, random) = (&mut self.session, &mut self.random);
                let host = &self.host;
                run(
                    &mut ControlContext { access, session, host, now, random, lsn: Lsn(0) },
                    args,
                    reply,
                )
            }
            Handler::Session(run) => {
                let session = &mut self.session;
                let mut cx = SessionContext {
                    has_changed_watch: self.watches.is_dirty(),
                    session,
                    host: &self.host,
                    now,
                };
                let next = run(&mut cx, args, reply)?;
                self.act(next, &keys, reply);
                Ok(())
            }
            Handler::Container => panic!("a container runs nothing"),
        }
    }

    fn act(&mut self, next: Next, keys: &[Key<'_>], reply: &mut Reply<'_>) {
        match next {
            Next::Done | Next::Close => {}
            Next::Unwatch => self.keyspace.unwatch(&mut self.watches),
            Next::Watch => {
                let database = self.session.database;
                self.keyspace.watch(&mut self.watches, database, keys, self.now);
            }
            Next::Exec => {
                let transaction = self.session.transaction.take().expect("EXEC checks it");
                self.exec(&transaction, reply);
                self.keyspace.unwatch(&mut self.watches);
            }
        }
    }

    fn exec(&mut self, transaction: &Transaction, reply: &mut Reply<'_>) {
        if !self.keyspace.lock_all().watches_hold(&self.watches, self.now) {
            return reply.null_array();
        }
        reply.array(transaction.len());
        for queued in transaction.queue() {
            let position = reply.position();
            if let Err(error) = self.execute(queued.command, queued.request, reply) {
                reply.rewind(position);
                finish(error, reply);
            }
        }
    }
}

/// Returns the guard of `keys`, or of all where the command may use others.
fn lock<'k>(
    keyspace: &'k Keyspace,
    command: &Command,
    request: RequestView<'_>,
    keys: &[Key<'_>],
) -> Guard<'k> {
    match command.uses_unknown_keys(request) {
        true => keyspace.lock_all(),
        false => keyspace.lock_keys(keys),
    }
}

/// Replies for a command that is not done. Nothing is provided here, and time passes at once.
fn finish(unfinished: Unfinished, reply: &mut Reply<'_>) {
    match unfinished {
        Unfinished::Wait(wait) => (wait.at_timeout)(reply),
        Unfinished::Refused(error) => error.write(reply),
        Unfinished::Again(Need::Room(_) | Need::Reserve(_)) => {
            CommandError::OUT_OF_MEMORY.write(reply);
        }
        Unfinished::Again(need) | Unfinished::AgainAnyway(need) => {
            panic!("{need:?} is not provided")
        }
    }
}
