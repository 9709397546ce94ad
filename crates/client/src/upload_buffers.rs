//! The buffers to which the threads of a client write large values: upload memory of their session,
//! made when it pays, and reused.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arena::UploadError;
use resp::Value as Reply;
use ring::UploadBuffer;

use crate::error::AttachError;
use crate::lane_connection::Lane;
use crate::session_uploads::{BufferRequests, Commit, Mode, Uploads};
use crate::shm_session::ShmSession;
use crate::value_view::View;

/// Values of this size and more are written to upload memory, below it they are sent: a value of 16
/// KiB passes through a lane about as fast, one of 64 KiB takes nearly twice as long. Measured in
/// bench/results/2026-11-22-061501-local.json, the rows "SET", "lane" and "put copy".
const UPLOAD_BYTES_MIN: usize = 32 * 1024;
/// From here on values are written to upload memory that are to stay where they are: what is sent
/// passes from processor to processor twice, what stays only when it is read.
const ADOPTED_UPLOAD_BYTES_MIN: usize = 8 * 1024;
/// So many bytes of such values are put by SET before memory is made for them. That is whole
/// segments, up to 64 MiB each, which the server and this process touch, and which count in full
/// towards the server's limit: too much for a client that puts a few.
const BYTES_UNTIL_EXTEND_FIRST: u64 = 1 << 20;
/// So many bytes are put by SET before the server is asked again, where it has made none.
const BYTES_UNTIL_EXTEND_RETRY: u64 = 64 << 20;
/// So many buffers are kept for the next values, of whatever sizes. Those of creations that were
/// dropped come on top, until the next value is stored; the server allows 1024 in all.
const SPARES_MAX: usize = 8;
/// So many are had ahead by a connection that leaves the server asleep, and so many bytes of them:
/// what is written in turn to twice as much is not in the cache any more, and takes half as long
/// again and more.
const AHEAD_MAX: usize = 64;
const AHEAD_BYTES: usize = 5 << 20;
/// One that posts several values before it takes them has more bytes, up to this, and at least so
/// many buffers more than values: they have to do while the server is being woken.
const AHEAD_BYTES_MAX: usize = 8 << 20;
const AHEAD_MIN: usize = 2;
/// Of so many sizes all that are had ahead are kept, for who puts values of them in turn.
const AHEAD_SIZES_MAX: usize = 2;
/// Buffers that are asked for together, so that there come to be more of them.
const ASKED_TOGETHER_MAX: usize = 2;
/// So many buffers that views look at still are kept aside, so that the server gives others, of the
/// 1024 that it allows. From then on values are sent: there is memory for them, but no use of it.
const HELD_MAX: usize = 768;
/// So many of those are looked through for one value.
const HELD_LOOKS_MAX: usize = 16;
/// So many buffers one value asks for at most, while views look at those that the server gives:
/// one, and then the rest together. It is sent where they look at all of them.
const ALLOCATIONS_MAX: usize = 16;
/// So many buffers are lost, and so many bytes of them, before the session is ended and made anew:
/// the server has back then what nobody knows of.
const LOST_MAX: usize = 100;
const LOST_BYTES_MAX: usize = 32 << 20;
/// The least memory that is made at once.
const RUN_BYTES_MIN: u64 = 16 << 20;

impl Mode {
    /// Returns from how many bytes on a value is written to upload memory and committed in this
    /// mode. Shorter values are sent.
    pub const fn upload_bytes_min(self) -> usize {
        match self {
            Mode::Copy | Mode::Copied => UPLOAD_BYTES_MIN,
            Mode::Adopt => ADOPTED_UPLOAD_BYTES_MIN,
        }
    }

    /// Returns the sizes of the buffers that a value of `length` bytes may have. What is to be
    /// adopted takes all of its buffer for as long as it lives, and gets none that is much too
    /// large.
    pub fn buffer_bytes(self, length: usize) -> RangeInclusive<usize> {
        let most = if self == Mode::Adopt { length.saturating_add(length / 4) } else { usize::MAX };
        length..=most
    }
}

/// The upload buffers of one session.
pub struct UploadBuffers {
    state: Mutex<State>,
}

struct State {
    /// The one used last is the last.
    spares: Vec<UploadBuffer>,
    /// Where those begin that a view looks at still, and how large they are: spares once it does
    /// not. The server has given them anew, as their values were deleted. Those that were looked at
    /// last are the last.
    held: VecDeque<(u64, usize)>,
    /// How many connections have lost that ended before they were answered, and how many bytes
    /// those have: the server may have given or kept them, and nobody was told.
    lost: usize,
    lost_bytes: usize,
    /// Bytes that find no buffer and are sent, before more memory is made.
    bytes_until_extend: u64,
}

/// Bytes of upload memory that become a value; dropped before, they are kept for another.
pub struct Upload {
    /// Absent once it is committed.
    buffer: Option<UploadBuffer>,
    length: usize,
    session: Arc<ShmSession>,
}

/// The buffers that a connection has which takes its own values and leaves the server asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub buffer_bytes: usize,
    /// So many there are in all, those of the values that it has not taken included.
    count: usize,
    /// So many values it posts before it takes them.
    depth: usize,
}

/// Buffers that the server is asked for with the deletion of a value: it gives the same again,
/// whose memory is in the cache.
pub struct Asked {
    requests: BufferRequests,
    is_answered: bool,
    session: Arc<ShmSession>,
}

/// What the server gives that is asked for a buffer.
enum Given {
    Buffer(UploadBuffer),
    /// Only buffers that views look at still.
    Held,
    /// No further one: where there are too many, whatever memory there is.
    Nothing {
        are_too_many: bool,
    },
}

/// An upload that the server is asked to store.
pub struct Storing {
    commit: Commit,
    /// What is stored, until it is answered: nobody has its memory to write.
    buffer: Option<Arc<UploadBuffer>>,
    length: usize,
    /// Few buffers are left, and the server has to give more soon.
    is_urgent: bool,
    session: Arc<ShmSession>,
}

impl Upload {
    /// Returns a buffer of `length` bytes in the memory of `session` that is there already: the
    /// server is not asked.
    pub fn spare(session: &Arc<ShmSession>, length: usize, mode: Mode) -> Option<Upload> {
        let mut state = session.upload_buffers().state();
        if !state.held.is_empty() {
            state.take_back(&session.uploads());
        }
        state.take(length, mode).map(|buffer| Upload::new(session, length, buffer))
    }

    /// Returns a buffer of `length` bytes in the memory of `session`, which `send` asks for; `None`
    /// where the server gives none, or it is not worth it.
    ///
    /// # Errors
    /// When `send` fails, or the session's connection.
    pub fn allocate(
        session: &Arc<ShmSession>,
        length: usize,
        mode: Mode,
        send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<Upload>, AttachError> {
        let uploads = session.uploads();
        let buffer = session.upload_buffers().allocate(&uploads, length, mode, send);
        let buffer = buffer.inspect_err(|_| lose(session, length, 1))?;
        Ok(buffer.map(|buffer| Upload::new(session, length, buffer)))
    }

    fn new(session: &Arc<ShmSession>, length: usize, buffer: UploadBuffer) -> Upload {
        Upload { buffer: Some(buffer), length, session: Arc::clone(session) }
    }

    /// Returns whether it is of `session`.
    pub fn is_of(&self, session: &Arc<ShmSession>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Copies `value` to it, over a `lane` of its session, to be stored next under `key`; returns
    /// the mode to store it by, where it is not to stay.
    ///
    /// # Errors
    /// As [`Lane::fill`].
    pub fn fill(&mut self, lane: &mut Lane, value: &[u8], key: &[u8]) -> Result<Mode, AttachError> {
        let buffer = self.buffer.as_mut().expect("it has not been committed");
        lane.fill(buffer, value, Mode::Copy, key)
    }

    /// Returns the size of its buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.as_ref().expect("it has not been committed").len()
    }

    /// Returns what stores it: where it is with [`Mode::Adopt`], if the server allows that. A
    /// buffer for the next value of its size is asked for along with it: a value costs one round
    /// trip.
    ///
    /// A connection that has buffers `ahead` says how many of them are away: asked for already, or
    /// with values that it has not taken, such as this one. It asks for what is missing then.
    pub fn store(mut self, mode: Mode, ahead: Option<(Ahead, usize)>) -> Storing {
        let buffer = self.buffer.take().expect("it is committed once");
        let session = Arc::clone(&self.session);
        let mode = match mode {
            Mode::Adopt if !session.uploads().may_adopt() => Mode::Copy,
            mode => mode,
        };
        let mut state = session.upload_buffers().state();
        let (count, is_urgent) = match ahead {
            Some((ahead, away)) => {
                let there = state.fitting(ahead.buffer_bytes);
                (state.missing(ahead, away), there <= ahead.urgent_count())
            }
            None => (usize::from(state.fitting(buffer.len()) < SPARES_MAX), true),
        };
        let along = state.requests(buffer.len(), count);
        drop(state);
        let commit = Commit::new((&buffer, self.length as u64), mode, along);
        Storing { commit, buffer: Some(Arc::new(buffer)), length: self.length, is_urgent, session }
    }
}

impl Storing {
    /// Returns the requests, to be sent together over a lane of the session, that make it the value
    /// of `key` with SET's options `words`.
    pub fn requests<'a>(&'a self, key: &'a [u8], words: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
        self.commit.requests(key, words)
    }

    /// Returns what is asked for along with it.
    pub fn along(&self) -> &BufferRequests {
        self.commit.along()
    }

    /// Returns whether the server is needed soon, as few buffers are left.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Returns a view of what is being stored, where it was written. While that lives, its memory
    /// is nobody's to write, whatever becomes of the value.
    ///
    /// # Panics
    /// When it is answered.
    pub fn view(&self) -> View {
        let buffer = self.buffer.as_ref().expect("it is not answered yet");
        View::uploaded(Arc::clone(buffer), self.length)
    }

    /// Returns what SET would have replied, given the replies to its requests.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn finish(&mut self, replies: Vec<Reply>) -> Result<Reply, AttachError> {
        // Who looks at it has it still.
        self.buffer = None;
        let (uploads, (bytes, _)) = (self.session.uploads(), self.along().asked());
        let committed = uploads.committed(&self.commit, replies)?;
        let mut state = self.session.upload_buffers().state();
        state.keep(committed.next, committed.held, bytes);
        if committed.stored.is_err() {
            // It was left as it was.
            state.held.push_front(self.commit.place());
            state.take_back(&uploads);
        }
        committed.stored
    }
}

impl Ahead {
    /// Returns what a connection has ahead that posts `depth` values in buffers of so many bytes
    /// before it takes them; `None` where that is too much.
    pub fn of(buffer_bytes: usize, depth: usize) -> Option<Ahead> {
        let count = (AHEAD_BYTES / buffer_bytes.max(1)).min(AHEAD_MAX).max(depth + AHEAD_MIN);
        let is_allowed = count <= AHEAD_MAX && count * buffer_bytes <= AHEAD_BYTES_MAX;
        is_allowed.then_some(Ahead { buffer_bytes, count, depth })
    }

    /// Returns how many buffers are so few that the server is woken with the next value.
    fn urgent_count(&self) -> usize {
        (self.count - self.depth) / 4
    }

    /// Returns how many are so few that it is woken once all values are taken: it frees all of
    /// them then.
    fn few_count(&self) -> usize {
        self.depth + (self.count - self.depth) / 3
    }
}

impl Asked {
    /// Returns what is asked for with the deletion of a value of a connection that has buffers
    /// `ahead`, of which so many are `away`, and whether they are so few that the server is to be
    /// woken for it where no value is left.
    pub fn new(session: &Arc<ShmSession>, ahead: Ahead, away: usize) -> (Asked, bool) {
        let mut state = session.upload_buffers().state();
        let count = state.missing(ahead, away);
        let are_few = state.fitting(ahead.buffer_bytes) < ahead.few_count();
        let requests = state.requests(ahead.buffer_bytes, count);
        (Asked { requests, is_answered: false, session: Arc::clone(session) }, are_few)
    }

    /// Returns what is asked for.
    pub fn along(&self) -> &BufferRequests {
        &self.requests
    }

    /// Keeps the buffers that `replies` give.
    pub fn finish(mut self, replies: impl Iterator<Item = Reply>) {
        self.is_answered = true;
        let (given, held) = self.session.uploads().given(&self.requests, replies);
        self.session.upload_buffers().state().keep(given, held, self.requests.asked().0);
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        if self.buffer.is_some() {
            let (bytes, count) = self.along().asked();
            lose(&self.session, bytes, count + 1);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.is_answered {
            let (bytes, count) = self.requests.asked();
            lose(&self.session, bytes, count);
        }
    }
}

/// Notes that `count` buffers of `bytes` were asked for, or written to and to be stored, and that
/// nobody will be told what has become of them.
fn lose(session: &ShmSession, bytes: usize, count: usize) {
    let mut state = session.upload_buffers().state();
    state.lost += count;
    state.lost_bytes = state.lost_bytes.saturating_add(count.saturating_mul(bytes));
    if state.lost > LOST_MAX || state.lost_bytes > LOST_BYTES_MAX {
        session.end();
    }
}

impl Deref for Upload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer.as_ref().expect("it has not been committed")[..self.length]
    }
}

impl DerefMut for Upload {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut().expect("it has not been committed")[..self.length]
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.session.upload_buffers().state().spares.push(buffer);
        }
    }
}

impl UploadBuffers {
    /// Returns those of a session that has none.
    pub fn new() -> UploadBuffers {
        UploadBuffers { state: Mutex::new(State::new()) }
    }

    /// Returns a buffer of `length` bytes that `send` asks for; `None` where there is to be none.
    fn allocate(
        &self,
        uploads: &Uploads,
        length: usize,
        mode: Mode,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<UploadBuffer>, AttachError> {
        let bytes = length as u64;
        if uploads.bytes() > 0 {
            let mut has_freed = false;
            let are_too_many = loop {
                let are_too_many = match self.ask_for(uploads, length, &mut send)? {
                    Given::Buffer(buffer) => return Ok(Some(buffer)),
                    // More would be of no use: the server gives first what was used before.
                    Given::Held => return Ok(None),
                    Given::Nothing { are_too_many } => are_too_many,
                };
                if has_freed || !self.free_spares(&mut send)? {
                    break are_too_many;
                }
                has_freed = true;
            };
            if are_too_many {
                return Ok(None);
            }
        }
        let is_extended = self.state().begin_to_extend(bytes, mode);
        if !is_extended || allowed(uploads.extend(bytes.max(RUN_BYTES_MIN)))?.is_none() {
            return Ok(None);
        }
        let Given::Buffer(buffer) = self.ask_for(uploads, length, &mut send)? else {
            return Ok(None);
        };
        self.state().bytes_until_extend = BYTES_UNTIL_EXTEND_FIRST;
        Ok(Some(buffer))
    }

    /// Asks the server for a buffer of `bytes`. Where a view looks at it still, it is kept for
    /// later, and some more are asked for, all in one further round trip.
    fn ask_for(
        &self,
        uploads: &Uploads,
        bytes: usize,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Given, AttachError> {
        for count_max in [1, ALLOCATIONS_MAX - 1] {
            let count = count_max.min(HELD_MAX.saturating_sub(self.state().held.len()));
            if count == 0 {
                break;
            }
            let requests = BufferRequests::new(Vec::new(), bytes, count);
            let replies = requests.send(&mut send)?;
            let are_too_many = replies.iter().any(is_for_their_number);
            let (mut given, held) = uploads.given(&requests, replies.into_iter());
            let (buffer, is_refused) = (given.pop(), held.len() < count);
            self.state().keep(given, held, bytes);
            match buffer {
                Some(buffer) => return Ok(Given::Buffer(buffer)),
                None if is_refused => return Ok(Given::Nothing { are_too_many }),
                None => {}
            }
        }
        Ok(Given::Held)
    }

    /// Gives all spares back; returns whether there were any.
    fn free_spares(
        &self,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<bool, AttachError> {
        let mut state = self.state();
        let count = state.spares.len();
        let requests = BufferRequests::new(state.free(count), 0, 0);
        drop(state);
        if count > 0 {
            // One that is refused is the server's: nothing is left to be done about it.
            requests.send(&mut send)?;
        }
        Ok(count > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> State {
        State {
            spares: Vec::new(),
            held: VecDeque::new(),
            lost: 0,
            lost_bytes: 0,
            bytes_until_extend: BYTES_UNTIL_EXTEND_FIRST,
        }
    }

    /// Returns the smallest buffer that is kept and that a value of `length` bytes may have.
    fn take(&mut self, length: usize, mode: Mode) -> Option<UploadBuffer> {
        let bytes = mode.buffer_bytes(length);
        // Of those of the same size the one used last: it is in the cache.
        let fitting = self.spares.iter().enumerate().rev();
        let fitting = fitting.filter(|(_, buffer)| bytes.contains(&buffer.len()));
        let (index, _) = fitting.min_by_key(|(_, buffer)| buffer.len())?;
        Some(self.spares.remove(index))
    }

    /// Returns how many of the oldest are more than what is kept.
    fn surplus(&self) -> usize {
        let mut bytes = 0;
        let kept = self.spares.iter().rev().zip(1..).take_while(|(buffer, count)| {
            bytes += buffer.len();
            *count <= SPARES_MAX
                || *count <= AHEAD_SIZES_MAX * AHEAD_MAX
                    && bytes <= AHEAD_SIZES_MAX * AHEAD_BYTES_MAX
        });
        self.spares.len() - kept.count()
    }

    /// Drops the `count` oldest of what is kept; returns where they begin, to be given back.
    fn free(&mut self, count: usize) -> Vec<u64> {
        self.spares.drain(..count).map(|buffer| buffer.offset()).collect()
    }

    /// Returns the requests that go along with a value or its deletion: `count` buffers of `bytes`
    /// are asked for, unless views look at too many as it is, and what is too much is given back.
    fn requests(&mut self, bytes: usize, count: usize) -> BufferRequests {
        let count = if self.held.len() < HELD_MAX { count } else { 0 };
        let surplus = self.surplus();
        BufferRequests::new(self.free(surplus), bytes, count)
    }

    /// Returns how many buffers a connection is to ask for that has them `ahead`, of which so many
    /// are `away`: asked for already, or with values that it has not taken.
    fn missing(&self, ahead: Ahead, away: usize) -> usize {
        let there = self.fitting(ahead.buffer_bytes) + away;
        ahead.count.saturating_sub(there).min(ASKED_TOGETHER_MAX)
    }

    /// Returns how many buffers of `bytes` there are for the next values.
    fn fitting(&self, bytes: usize) -> usize {
        self.spares.iter().filter(|buffer| buffer.len() == bytes).count()
    }

    /// Keeps what the server has given: those of `bytes` that begin at `held` are looked at still.
    fn keep(&mut self, given: Vec<UploadBuffer>, held: Vec<u64>, bytes: usize) {
        self.spares.extend(given);
        self.held.extend(held.into_iter().map(|offset| (offset, bytes)));
    }

    /// Makes spares of those that nobody looks at any more, among the few that are looked through.
    fn take_back(&mut self, uploads: &Uploads) {
        for _ in 0..self.held.len().min(HELD_LOOKS_MAX) {
            let (offset, bytes) = self.held.pop_front().expect("they were counted");
            match uploads.buffer_at(offset, bytes as u64) {
                Some(buffer) => self.spares.push(buffer),
                None => self.held.push_back((offset, bytes)),
            }
        }
    }

    /// Counts `bytes` that found no buffer; returns whether the caller is to have memory made for
    /// them. Others send meanwhile, and so they do for long where there is none. Whoever creates a
    /// large value where it stays does not want it sent, and counts for many.
    fn begin_to_extend(&mut self, bytes: u64, mode: Mode) -> bool {
        let is_many = mode == Mode::Adopt && bytes >= UPLOAD_BYTES_MIN as u64;
        let counted = if is_many { bytes.max(BYTES_UNTIL_EXTEND_FIRST) } else { bytes };
        let is_over = counted >= self.bytes_until_extend;
        self.bytes_until_extend =
            if is_over { BYTES_UNTIL_EXTEND_RETRY } else { self.bytes_until_extend - counted };
        is_over
    }
}

/// Returns what was had, or `None` where the server refuses: the value goes another way then.
fn allowed<T>(result: Result<T, AttachError>) -> Result<Option<T>, AttachError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(AttachError::Io(error)) => Err(AttachError::Io(error)),
        Err(_) => Ok(None),
    }
}

/// Returns whether the server refuses a buffer as there are as many as it allows, whatever memory
/// there is.
fn is_for_their_number(reply: &Reply) -> bool {
    let Reply::Error(text) = reply else { return false };
    text.ends_with(UploadError::TooManyRanges.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_uploads::tests::{BASE, uploads};

    #[test]
    fn value_whose_buffers_are_looked_at_is_sent_after_two_round_trips() {
        const LENGTH: usize = 1024;
        let (uploads, buffers) = (uploads(true), UploadBuffers::new());
        let mut given = (0..).map(|number| BASE + number * LENGTH as u64);
        let mut round_trips = 0;
        let mut ask = || {
            let mut send = |requests: &[&[&[u8]]]| {
                round_trips += 1;
                let offsets = given.by_ref().take(requests.len());
                Ok(offsets.map(|offset| Reply::Integer(offset as i64)).collect())
            };
            let found = buffers.allocate(&uploads, LENGTH, Mode::Adopt, &mut send).unwrap();
            (found.map(|buffer| buffer.offset()), std::mem::take(&mut round_trips))
        };
        let place = |index: usize| BASE + (index * LENGTH) as u64;
        let look = |index| uploads.buffer_at(place(index), LENGTH as u64).unwrap();
        let mut views: Vec<_> = (0..=ALLOCATIONS_MAX).map(look).collect();
        assert_eq!(ask(), (None, 2), "all are looked at");
        let (found, round_trips) = ask();
        assert!(found.is_some_and(|offset| offset > place(ALLOCATIONS_MAX)) && round_trips == 2);
        views.clear();
        buffers.state().take_back(&uploads);
        let spares = buffers.state().fitting(LENGTH);
        assert_eq!(
            spares,
            ALLOCATIONS_MAX - 2 + HELD_LOOKS_MAX,
            "those beside it, and what is back"
        );
    }

    #[test]
    fn buffers_ahead_stay_in_the_cache_where_they_are_enough() {
        let count = |bytes, depth| Ahead::of(bytes, depth).map(|ahead| ahead.count);
        assert_eq!(count(8 << 10, 1), Some(AHEAD_MAX));
        assert_eq!(count(512 << 10, 1), Some(10));
        assert_eq!(count(512 << 10, 10), Some(12));
        assert_eq!(count(512 << 10, 15), None, "too many bytes");
        assert_eq!(count(8 << 10, AHEAD_MAX), None, "too many");
        assert_eq!(count(2 << 20, 1), Some(3));
        assert_eq!(count(4 << 20, 1), None);
    }

    #[test]
    fn values_and_their_deletions_ask_for_as_many_buffers_as_there_are_to_be() {
        let state = State::new();
        let ahead = Ahead::of(512 << 10, 10).expect("that is allowed");
        // Ten values in a row, whose buffers were there already, and their deletions.
        let untaken = (1..=10).chain((0..10).rev());
        let asked = untaken.fold(0, |asked, untaken| asked + state.missing(ahead, asked + untaken));
        assert_eq!(asked, ahead.count);
        assert_eq!(state.missing(ahead, asked + 1), 0);
    }
}
