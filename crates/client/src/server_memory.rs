//! Where a client reads first: the server's memory, if the URL asks for it and the server allows
//! it.
//!
//! Reading never waits and makes no system call. What has to be done before the next read (a new
//! session, new segments) is returned, and the blocking and the asynchronous client each do it in
//! their way.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use arena::reader::{Outcome, Reader, SharedCollection};
use base::{DatabaseIndex, UnixMs};
use ring::Mapped;
use sys::fork::Generation;

use crate::address::{Address, Place};
use crate::answers::Gathered;
use crate::attached::{Answer, REFRESHES_MAX};
use crate::client::Transport;
use crate::collection_reads::{Query, answer, searched};
use crate::error::ClientError;
use crate::lane_connection::Lane;
use crate::shm_session::ShmSession;
use crate::value_view::View;

/// In how many sessions a lane is asked for, where each ends meanwhile.
const LANE_SESSIONS_MAX: u32 = 2;

/// Where the server is, and its memory.
pub struct ServerMemory {
    pub address: Address,
    pub timeout: Option<Duration>,
    /// How many posts the client's connections hold back, have no replies to, or have to tell of
    /// that they failed.
    pub post_count: Arc<AtomicUsize>,
    /// Whether the client was closed: what waits for the server looks at it now and then.
    pub is_closed: Arc<AtomicBool>,
    /// The process whose the sessions and connections are.
    generation: Generation,
    session: ArcSwapOption<ShmSession>,
    /// Held while a session is made, so that threads make one together; how the last attempt has
    /// failed, and when.
    renewing: Mutex<Option<(Instant, ClientError)>>,
}

/// What one lookup came to.
pub enum Lookup<T> {
    Answer(Answer<T>),
    /// The key holds another type than a string.
    WrongType,
    /// There are new segments to map: [`ServerMemory::refresh`], and look up again.
    Unmapped,
    /// There is no session, or it has ended: [`ServerMemory::renew`], and look up again.
    Ended,
}

/// The session, for as long as nobody waits.
pub type Current = Guard<Option<Arc<ShmSession>>>;

thread_local! {
    /// Where collections are copied before they are looked at.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl ServerMemory {
    /// Returns the memory of the server at `url`, which is not connected to yet.
    ///
    /// # Errors
    /// When the URL is none.
    pub fn new(url: &str, timeout: Option<Duration>) -> Result<ServerMemory, ClientError> {
        let (address, session) = (Address::parse(url)?, ArcSwapOption::empty());
        let generation = Generation::current();
        Ok(ServerMemory {
            address,
            timeout,
            post_count: Arc::default(),
            is_closed: Arc::default(),
            generation,
            session,
            renewing: Mutex::new(None),
        })
    }

    /// Fails in a forked child, before it takes a lock that its parent's threads may hold.
    ///
    /// # Errors
    /// [`ClientError::Forked`].
    #[inline]
    pub fn check_process(&self) -> Result<(), ClientError> {
        if self.generation.is_current() { Ok(()) } else { Err(ClientError::Forked) }
    }

    /// Looks up once; `attempt` is what reads.
    #[inline(always)]
    pub fn lookup<T>(
        &self,
        attempt: impl FnOnce(&Arc<ShmSession>, &Arc<Reader<Mapped>>) -> Outcome<T>,
    ) -> Lookup<T> {
        let session = self.session.load();
        let is_own = self.generation.is_current();
        let Some(session) = session.as_ref().filter(|session| is_own && !session.is_over()) else {
            return match self.address.place {
                Place::SharedMemory(_) => Lookup::Ended,
                Place::Unix(_) | Place::Tcp(..) => Lookup::Answer(Answer::Unclear),
            };
        };
        let Some(attached) = session.attached() else { return Lookup::Answer(Answer::Unclear) };
        match attempt(session, attached.reader()) {
            Outcome::Found(value) => Lookup::Answer(Answer::Found(value)),
            Outcome::Absent => Lookup::Answer(Answer::Absent),
            Outcome::Busy => Lookup::Answer(Answer::Unclear),
            Outcome::WrongType => Lookup::WrongType,
            Outcome::NeedSegments => Lookup::Unmapped,
        }
    }

    /// As [`ServerMemory::lookup`], until there is an answer; waits for the server where that is
    /// needed.
    ///
    /// # Errors
    /// When the key holds another type, or the server is gone.
    #[inline(always)]
    pub fn read<T>(
        &self,
        mut attempt: impl FnMut(&Arc<ShmSession>, &Arc<Reader<Mapped>>) -> Outcome<T>,
    ) -> Result<Answer<T>, ClientError> {
        for _ in 0..REFRESHES_MAX {
            match self.lookup(&mut attempt) {
                Lookup::Answer(answer) => return Ok(answer),
                Lookup::WrongType => return Err(ClientError::wrong_type()),
                Lookup::Unmapped if !self.refresh() => break,
                Lookup::Unmapped => {}
                Lookup::Ended => drop(self.session()?),
            }
        }
        Ok(Answer::Unclear)
    }

    /// Adds to `found` what the memory says of `keys`, whose cache misses overlap, and returns of
    /// how many: up to the first for which something has to be done before.
    pub fn gather(&self, keys: &[&[u8]], found: &mut Gathered) -> usize {
        let session = self.session.load();
        let is_own = self.generation.is_current();
        let session = session.as_ref().filter(|session| is_own && !session.is_over());
        let attached = session.and_then(|session| Some((session, session.attached()?)));
        let Some((session, attached)) = attached else { return 0 };
        let (database, clock) = self.scope();
        found.fill(keys.len(), |values, unclear| {
            let mut count = 0;
            attached.reader().keep_each(database, keys, clock, values, |outcome, value| {
                match outcome {
                    Outcome::Found(None) => {}
                    Outcome::Found(Some(view)) => {
                        *value = Some(View::pinned(view, Arc::clone(session)));
                    }
                    Outcome::Absent | Outcome::WrongType => *value = None,
                    Outcome::Busy => {
                        *value = None;
                        unclear.push(count);
                    }
                    Outcome::NeedSegments => return ControlFlow::Break(()),
                }
                count += 1;
                ControlFlow::Continue(())
            });
            count
        })
    }

    /// Maps new segments; returns whether that went well. Waits for the server.
    #[cold]
    pub fn refresh(&self) -> bool {
        let session = self.session.load();
        let attached = session.as_ref().and_then(|session| session.attached());
        // Where it fails, a connection knows what has become of the server.
        attached.is_some_and(|attached| attached.refresh().is_ok())
    }

    /// Returns the session, a new one where the old one has ended; `None` where the URL asks for
    /// none. Waits for the server.
    ///
    /// # Errors
    /// When the server does not answer, or refuses the password; in a forked child.
    pub fn session(&self) -> Result<Current, ClientError> {
        self.check_process()?;
        let session = self.session.load();
        match (&*session, &self.address.place) {
            (Some(current), _) if !current.is_over() => Ok(session),
            (_, Place::SharedMemory(path)) => self.renew(path),
            _ => Ok(session),
        }
    }

    /// Returns how the server is reached by a client whose requests pass through a lane, if
    /// `is_lane`. Waits for the server.
    ///
    /// # Errors
    /// As [`ServerMemory::session`].
    pub fn transport(&self, is_lane: bool) -> Result<Transport, ClientError> {
        let reads = self.session()?.as_ref().is_some_and(|it| it.attached().is_some());
        Ok(match &self.address.place {
            Place::SharedMemory(_) if reads => Transport::SharedMemory,
            Place::SharedMemory(_) if is_lane => Transport::Lane,
            Place::SharedMemory(_) | Place::Unix(_) => Transport::Unix,
            Place::Tcp(..) => Transport::Tcp,
        })
    }

    /// Returns a lane, and the session that it lives with; `None` where the server makes none.
    /// Waits for the server.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] when the server is silent: it is not asked over another socket, on
    /// which its caller would stay. And those of [`ServerMemory::session`].
    pub fn new_lane(&self) -> Result<Option<(Lane, Arc<ShmSession>)>, ClientError> {
        let mut left = LANE_SESSIONS_MAX;
        loop {
            left -= 1;
            let Some(session) = self.session()?.as_ref().map(Arc::clone) else { return Ok(None) };
            match session.new_lane() {
                Ok(lane) => return Ok(Some((lane, session))),
                Err(ClientError::TimedOut) => return Err(ClientError::TimedOut),
                // It has ended meanwhile, or for another thread that was not answered.
                Err(_) if session.is_over() && left > 0 => {}
                Err(error) if session.is_over() => return Err(error),
                // No lanes here, none left, or no memory to map one.
                Err(_) => return Ok(None),
            }
        }
    }

    #[cold]
    fn renew(&self, path: &Path) -> Result<Current, ClientError> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(ClientError::Closed);
        }
        let begin = Instant::now();
        let mut failure = self.renewing.lock().expect("no holder panics");
        let session = self.session.load();
        if session.as_ref().is_some_and(|session| !session.is_over()) {
            return Ok(session);
        }
        // Who waited for an attempt waited as long as it took, and tries no other in his turn.
        if let Some((_, error)) = failure.as_ref().filter(|(at, _)| *at >= begin) {
            return Err(error.again());
        }
        self.session.store(None);
        let opened = ShmSession::open(path, &self.address, self.timeout);
        let opened = opened.inspect_err(|error| *failure = Some((Instant::now(), error.again())));
        self.session.store(Some(Arc::new(opened?)));
        Ok(self.session.load())
    }

    /// Returns what reads a value as a view.
    pub fn view_of<'a>(
        &self,
        key: &'a [u8],
    ) -> impl Fn(&Arc<ShmSession>, &Arc<Reader<Mapped>>) -> Outcome<View> + Send + use<'a> {
        let (database, clock) = self.scope();
        move |session, reader| {
            let mut copied = View::default();
            reader.keep(database, key, clock, &mut copied).map(|kept| match kept {
                Some(view) => View::pinned(view, Arc::clone(session)),
                None => copied,
            })
        }
    }

    /// Looks up the collection at `key` for `query`; `Found(None)` and `Busy` where the server has
    /// to be asked.
    #[inline]
    pub fn look_for<Q: Query>(
        &self,
        reader: &Reader<Mapped>,
        key: &[u8],
        query: &mut Q,
    ) -> Outcome<Option<Q::Answer>> {
        if query.is_refused() {
            return Outcome::Busy;
        }
        let (database, clock) = self.scope();
        if query.searches_in_place() {
            let search = |found: SharedCollection<'_>| searched(query, found);
            return reader.search_collection(database, key, Q::TYPE, clock, search);
        }
        with_scratch(|scratch| {
            let found = reader.collection(database, key, Q::TYPE, clock, scratch);
            found.map(|found| answer(query, found, scratch))
        })
    }

    /// Returns the database that is read and the clock that decides what has expired.
    pub fn scope(&self) -> (DatabaseIndex, fn() -> UnixMs) {
        (self.address.database, sys::clock::realtime)
    }
}

/// Calls `run` with this thread's buffer, or with a new one where the thread is ending and has none
/// any more.
#[inline(always)]
fn with_scratch<T>(mut run: impl FnMut(&mut Vec<u8>) -> T) -> T {
    let kept = SCRATCH.try_with(|scratch| run(&mut scratch.borrow_mut()));
    kept.unwrap_or_else(|_| run(&mut Vec::new()))
}
