//! The stream of changes, as clients read it: FEED, PURGELOGSTO.
//!
//! *Layout*: `answering.rs` is the side of the thread that answers, `cursor.rs` how it reads the
//! log, `matching.rs` which changes are wanted and how they are told. Who reads by name is in the
//! folder of the log (`runtime/feed_groups.rs`).
//!
//! A session leaves a question here and waits like one that is blocked by a key. The history thread
//! (`history_thread.rs`) answers, which may wait for the disk, and tells the session's worker; no
//! worker reads a file. A session that is gone, or has waited long enough, drops its answer, and
//! the thread its question.

pub(super) mod answering;
mod cursor;
pub(super) mod matching;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use command::{Answer, CommandError, Feed, FeedQuestion};
use resp::{Protocol, Reply};
use runtime::Groups;
use wal::Storage;

use super::Durability;
use super::history::Needs;
use crate::config::options::Settings;
use crate::mailbox::{Mailbox, Message};
use crate::server_state::ServerState;
use runtime::{earlier_snapshots, snapshot_name};

/// How many files readers of the log keep open at most.
pub const FEED_DESCRIPTORS: usize = cursor::CURSORS_MAX + answering::HOLDERS_MAX;
/// How many sessions may wait for answers at once.
const ASKERS_MAX: usize = 1024;
const MANY_ASKERS: CommandError =
    CommandError::Fixed("ERR too many clients wait for the stream of changes: 1024 at most");

/// What is asked and not yet answered.
#[derive(Default)]
pub(super) struct Desk {
    asked: Mutex<Vec<(FeedQuestion, Asked)>>,
    /// How many answers somebody waits for.
    askers: Arc<AtomicUsize>,
    /// The bytes of answers that no session has taken yet.
    untaken_bytes: Arc<AtomicUsize>,
    /// How many of the thread's questions are about what comes next in the log.
    pub followers: AtomicUsize,
}

/// Whom to tell the answer to a question.
pub(super) struct Asked {
    pub protocol: Protocol,
    session: u64,
    mailbox: Arc<Mailbox>,
    slot: Arc<Slot>,
    untaken_bytes: Arc<AtomicUsize>,
}

/// What a session and the thread share of an answer.
#[derive(Default)]
struct Slot {
    answer: Mutex<Option<EncodedAnswer>>,
    is_given_up: AtomicBool,
}

/// An answer, encoded as the session wants it. Its bytes are counted while it is there.
struct EncodedAnswer {
    head: Vec<u8>,
    /// What follows, which may be long.
    tail: Vec<u8>,
    untaken_bytes: Arc<AtomicUsize>,
}

impl EncodedAnswer {
    fn new(head: Vec<u8>, tail: Vec<u8>, untaken_bytes: &Arc<AtomicUsize>) -> EncodedAnswer {
        untaken_bytes.fetch_add(head.len() + tail.len(), Ordering::Relaxed);
        EncodedAnswer { head, tail, untaken_bytes: Arc::clone(untaken_bytes) }
    }
}

impl Drop for EncodedAnswer {
    fn drop(&mut self) {
        self.untaken_bytes.fetch_sub(self.head.len() + self.tail.len(), Ordering::Relaxed);
    }
}

impl Slot {
    fn answer(&self) -> MutexGuard<'_, Option<EncodedAnswer>> {
        // Each change is one assignment.
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn asked(&self) -> MutexGuard<'_, Vec<(FeedQuestion, Asked)>> {
        // A push either happened or did not.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what has been asked since the last call.
    pub fn take(&self) -> Vec<(FeedQuestion, Asked)> {
        std::mem::take(&mut self.asked())
    }

    /// Returns how many sessions wait.
    pub fn asker_count(&self) -> usize {
        self.askers.load(Ordering::Relaxed)
    }

    /// Returns the bytes of answers that no session has taken yet.
    pub fn untaken_bytes(&self) -> usize {
        self.untaken_bytes.load(Ordering::Relaxed)
    }
}

impl Asked {
    /// Returns whether nobody waits for the answer any more.
    pub fn is_given_up(&self) -> bool {
        self.slot.is_given_up.load(Ordering::Relaxed)
    }

    /// Gives the answer: what `write` writes.
    pub fn answer(&self, write: impl FnOnce(&mut Reply<'_>)) {
        self.answer_with(Vec::new(), write);
    }

    /// As [`Asked::answer`], and then `tail`, which is encoded.
    pub fn answer_with(&self, tail: Vec<u8>, write: impl FnOnce(&mut Reply<'_>)) {
        let mut head = Vec::new();
        write(&mut Reply::new(&mut head, self.protocol));
        *self.slot.answer() = Some(EncodedAnswer::new(head, tail, &self.untaken_bytes));
        self.mailbox.post(Message::Answered(self.session));
    }

    /// Answers with an error.
    pub fn refuse(&self, error: &str) {
        self.answer(|reply| reply.error(format!("ERR {error}")));
    }
}

/// A session's end of a question.
struct PendingAnswer {
    slot: Arc<Slot>,
    askers: Arc<AtomicUsize>,
}

impl fmt::Debug for PendingAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PendingAnswer({})", self.is_there())
    }
}

impl Answer for PendingAnswer {
    fn is_there(&self) -> bool {
        self.slot.answer().is_some()
    }

    fn write(&mut self, reply: &mut Reply<'_>) {
        let answer = self.slot.answer().take().expect("a session is told once it is there");
        reply.raw(&answer.head);
        reply.raw(&answer.tail);
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.slot.is_given_up.store(true, Ordering::Relaxed);
        self.askers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[deny(clippy::missing_trait_methods)]
impl Feed for ServerState {
    fn ask(
        &self,
        session: u64,
        protocol: Protocol,
        question: FeedQuestion,
    ) -> Result<Box<dyn Answer>, CommandError> {
        let history = &self.durability.history;
        let (slot, askers) = (Arc::<Slot>::default(), Arc::clone(&history.desk.askers));
        let before = askers.fetch_add(1, Ordering::Relaxed);
        let pending = PendingAnswer { slot: Arc::clone(&slot), askers };
        if before >= ASKERS_MAX {
            return Err(MANY_ASKERS);
        }
        // A session that another has ended has no worker, and its answer no reader.
        let worker = self.clients.worker(session).unwrap_or(0);
        let mailbox = Arc::clone(&self.mailboxes[worker]);
        let untaken_bytes = Arc::clone(&history.desk.untaken_bytes);
        let asked = Asked { protocol, session, mailbox, slot, untaken_bytes };
        history.desk.asked().push((question, asked));
        history.wakeup.wake();
        Ok(Box::new(pending))
    }
}

impl Durability {
    /// Returns the folder of the log, while one is kept.
    fn storage(&self) -> Option<Arc<dyn Storage>> {
        let place = self.place();
        place.as_ref().filter(|_| self.is_on()).map(|place| Arc::clone(&place.storage))
    }

    /// Returns the groups that read the log.
    pub(super) fn groups(&self) -> MutexGuard<'_, Groups> {
        // Each change is one assignment.
        self.history.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what of the log may not be removed.
    pub(super) fn needs(&self, settings: &Settings) -> Needs {
        let progress = &self.progress;
        let [restart, end] =
            [&progress.based_on, &progress.written].map(|position| position.load(Ordering::SeqCst));
        let readers = self.groups().slowest(end, settings.persistence.feed_lag_max);
        Needs { restart, readers }
    }

    /// Has those go on who wait for the log to grow: it has. Costs one load where nobody does.
    pub(super) fn note_progress(&self) {
        if self.history.desk.followers.load(Ordering::SeqCst) > 0 {
            self.history.wakeup.wake();
        }
    }

    /// Removes the segments before the one called `name`, and the snapshots that the log does not
    /// reach back to then.
    ///
    /// # Errors
    /// A sentence that says why not, where one of them is needed too.
    fn purge_to(&self, name: &[u8], settings: &Settings) -> Result<(), String> {
        let _removal = self.history.removal();
        let storage = self.storage().ok_or("no log is kept: appendonly is no")?;
        let failed = |error: std::io::Error| format!("the log cannot be changed: {error}");
        let lsns = wal::segment_lsns(&*storage).map_err(failed)?;
        let first = lsns.into_iter().find(|lsn| wal::name_of(*lsn).as_bytes() == name);
        let first = first.ok_or_else(|| {
            format!("there is no file '{}' of the log: FEED LOGS lists them", name.escape_ascii())
        })?;
        let needs = self.needs(settings);
        if first > needs.restart {
            let restart = needs.restart;
            return Err(format!(
                "a restart needs the log from LSN {restart} on: BGREWRITEAOF moves that on"
            ));
        }
        if let Some(readers) = needs.readers.filter(|readers| first > *readers) {
            return Err(format!("a group of FEED has read the log up to LSN {readers} alone"));
        }
        wal::forget_before(&*storage, first).map_err(failed)?;
        self.history.has_removed.store(true, Ordering::SeqCst);
        for lsn in earlier_snapshots(&*storage).map_err(failed)?.range(..first) {
            storage.remove(&snapshot_name(*lsn)).map_err(failed)?;
        }
        storage.sync_directory().map_err(failed)
    }
}
