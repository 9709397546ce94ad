//! One connection for any number of tasks, on any runtime.
//!
//! Callers put requests in a queue and wait for a [`Response`]; a [`Driver`], one future, moves
//! bytes between the queue and a [`Duplex`], which is all that a runtime has to implement. Requests
//! are sent in the order in which they were queued, as many at a time as there are; replies go to
//! their callers in that order.
//!
//! Dropping a response affects no other: its request may be executed or not, and its reply, when it
//! comes, is dropped. The others get theirs.
//!
//! *Not here*: reading and writing (`duplex.rs`), connecting anew (`async_client.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use resp::{Value as Reply, encode_command};
use sys::fork::Generation;

use crate::connection::check;
use crate::error::ClientError;
use crate::replies::Replies;

/// Bytes that are queued before callers wait. Each that has waited may then add its requests,
/// whatever their size.
const QUEUED_BYTES_MAX: usize = 1 << 20;
/// Replies that may be due before callers wait.
const DUE_MAX: usize = 1 << 16;
/// How often a driver moves bytes before it lets other tasks run.
const ROUNDS_MAX: u32 = 64;
/// Buffers above this size are given back after use.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Both directions of a connection, which never wait.
pub trait Duplex: Send {
    /// Sends from `out` what can be sent now and appends to `received` what has come. Where nothing
    /// moved, it has `context` woken once something can.
    ///
    /// # Errors
    /// When the connection has ended.
    fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        out: &[u8],
        received: &mut Vec<u8>,
    ) -> Poll<io::Result<Moved>>;
}

/// How many bytes moved in each direction, not both 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// To the server.
    pub sent: usize,
    /// From the server.
    pub received: usize,
}

/// The callers' end of a connection. The connection ends when it and its clones are dropped.
pub struct Multiplexer {
    handle: Arc<Handle>,
}

/// Whose drop ends the connection.
struct Handle {
    queue: Arc<Mutex<Queue>>,
    generation: Generation,
}

/// What callers and the driver share.
#[derive(Default)]
struct Queue {
    /// Requests that the driver has not taken.
    out: Vec<u8>,
    /// The callers that wait for replies, in order.
    due: VecDeque<Due>,
    /// The driver, where it sleeps.
    driver: Option<Waker>,
    /// Callers that wait until there is less in the queue, by their tickets.
    space_waiters: BTreeMap<u64, Waker>,
    next_ticket: u64,
    /// How often bytes have come.
    received_count: u64,
    /// Why the connection has ended, if it has.
    end: Option<ClientError>,
    is_released: bool,
}

/// The replies that one response waits for.
struct Due {
    left: usize,
    replies: Vec<Reply>,
    state: Arc<Mutex<ResponseState>>,
}

/// How far a response has come: where it finds its replies.
enum ResponseState {
    Pending(Option<Waker>),
    Ready(Result<Vec<Reply>, ClientError>),
    /// Nobody waits any more.
    Dropped,
}

/// A caller's wait for space in the queue. Dropped, it leaves nothing behind.
struct SpaceWait<'a> {
    queue: &'a Mutex<Queue>,
    ticket: Option<u64>,
}

/// The replies to requests, when they have come.
#[must_use = "a response does nothing unless it is waited for"]
pub struct Response(Arc<Mutex<ResponseState>>);

/// What moves the bytes of one connection; ends with it. A runtime polls it beside the tasks that
/// wait for responses.
pub struct Driver<D> {
    duplex: D,
    queue: Arc<Mutex<Queue>>,
    /// Requests that have been taken out of the queue.
    out: Vec<u8>,
    sent: usize,
    replies: Replies,
}

impl Multiplexer {
    /// Returns the callers' end of `duplex`, and what drives it.
    pub fn new<D: Duplex>(duplex: D) -> (Multiplexer, Driver<D>) {
        let queue = Arc::new(Mutex::new(Queue::default()));
        let driver = Driver {
            duplex,
            queue: Arc::clone(&queue),
            out: Vec::new(),
            sent: 0,
            replies: Replies::default(),
        };
        let handle = Handle { queue, generation: Generation::current() };
        (Multiplexer { handle: Arc::new(handle) }, driver)
    }

    /// Queues `requests` together and returns what waits for their replies, errors among them.
    ///
    /// # Errors
    /// When the connection has ended before, or is the parent process's; and
    /// [`ClientError::Unsupported`]. Nothing is queued then.
    pub fn send(&self, requests: &[&[&[u8]]]) -> Result<Response, ClientError> {
        requests.iter().try_for_each(|request| check(request))?;
        if !self.handle.generation.is_current() {
            return Err(ClientError::Forked);
        }
        let mut queue = lock(&self.handle.queue);
        if let Some(end) = &queue.end {
            return Err(end.again());
        }
        let state = Arc::new(Mutex::new(match requests.len() {
            0 => ResponseState::Ready(Ok(Vec::new())),
            _ => ResponseState::Pending(None),
        }));
        for request in requests {
            encode_command(request, &mut queue.out);
        }
        let left = requests.len();
        if left > 0 {
            queue.due.push_back(Due { left, replies: Vec::new(), state: Arc::clone(&state) });
        }
        wake_driver(queue);
        Ok(Response(state))
    }

    /// Waits until there is little enough in the queue for another caller.
    pub async fn wait_for_space(&self) {
        SpaceWait { queue: &self.handle.queue, ticket: None }.await;
    }

    /// Ends the connection: all that wait, and all that come later, fail with `error`.
    pub fn end(&self, error: &ClientError) {
        end(&self.handle.queue, error);
        wake_driver(lock(&self.handle.queue));
    }

    /// Returns how often bytes have come: as long as it stays the same, the server is silent.
    pub fn received_count(&self) -> u64 {
        lock(&self.handle.queue).received_count
    }

    /// Returns whether the connection has ended.
    pub fn is_over(&self) -> bool {
        lock(&self.handle.queue).end.is_some()
    }
}

impl Clone for Multiplexer {
    fn clone(&self) -> Multiplexer {
        Multiplexer { handle: Arc::clone(&self.handle) }
    }
}

impl fmt::Debug for Multiplexer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multiplexer").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue);
        queue.is_released = true;
        wake_driver(queue);
    }
}

impl Future for SpaceWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = lock(self.queue);
        if queue.end.is_some() || !queue.is_full() {
            return Poll::Ready(());
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            queue.next_ticket += 1;
            queue.next_ticket
        });
        let replaced = queue.space_waiters.insert(ticket, context.waker().clone());
        // Outside of the lock, as a waker may be the last of its task.
        drop(queue);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for SpaceWait<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let left = lock(self.queue).space_waiters.remove(&ticket);
        drop(left);
    }
}

impl Queue {
    fn is_full(&self) -> bool {
        self.out.len() >= QUEUED_BYTES_MAX || self.due.len() >= DUE_MAX
    }

    /// Gives `reply` to whom it is due, and returns whom to wake.
    fn deliver(&mut self, reply: Reply) -> Result<Option<Waker>, ClientError> {
        let Some(due) = self.due.front_mut() else {
            return Err(ClientError::Unexpected(format!("a reply to no request: {reply:?}")));
        };
        due.left -= 1;
        // What nobody waits for takes no memory meanwhile.
        if Arc::strong_count(&due.state) > 1 {
            due.replies.push(reply);
        }
        if due.left > 0 {
            return Ok(None);
        }
        let due = self.due.pop_front().expect("it was looked at");
        Ok(fill(&due.state, Ok(due.replies)))
    }
}

/// Puts `result` in `state` and returns whom to wake.
fn fill(state: &Mutex<ResponseState>, result: Result<Vec<Reply>, ClientError>) -> Option<Waker> {
    let mut state = lock(state);
    match &mut *state {
        ResponseState::Pending(waker) => {
            let waker = waker.take();
            *state = ResponseState::Ready(result);
            waker
        }
        ResponseState::Ready(_) | ResponseState::Dropped => None,
    }
}

impl Future for Response {
    type Output = Result<Vec<Reply>, ClientError>;

    /// # Panics
    /// When it has returned its replies before.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, ResponseState::Dropped) {
            ResponseState::Ready(result) => Poll::Ready(result),
            ResponseState::Pending(_) => {
                *state = ResponseState::Pending(Some(context.waker().clone()));
                Poll::Pending
            }
            ResponseState::Dropped => panic!("a response is waited for once"),
        }
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        *lock(&self.0) = ResponseState::Dropped;
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").finish_non_exhaustive()
    }
}

impl<D: Duplex + Unpin> Future for Driver<D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        for _ in 0..ROUNDS_MAX {
            if !driver.take(context.waker()) {
                end(&driver.queue, &ClientError::Broken(ErrorKind::NotConnected.into()));
                return Poll::Ready(());
            }
            match driver.exchange(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    end(&driver.queue, &error);
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<D> Driver<D> {
    /// Takes what is queued, and asks to be woken for what comes later; returns false when nobody
    /// is left to ask anything, or the connection has been ended.
    fn take(&mut self, waker: &Waker) -> bool {
        let mut queue = lock(&self.queue);
        if queue.is_released || queue.end.is_some() {
            return false;
        }
        match &queue.driver {
            Some(known) if known.will_wake(waker) => {}
            _ => queue.driver = Some(waker.clone()),
        }
        if self.sent == self.out.len() && !queue.out.is_empty() {
            self.out.clear();
            self.sent = 0;
            if self.out.capacity() > BUFFER_BYTES_KEPT {
                self.out = Vec::new();
            }
            std::mem::swap(&mut self.out, &mut queue.out);
            wake_all(queue);
        }
        true
    }

    fn deliver(&mut self) -> Result<(), ClientError> {
        let mut woken = Vec::new();
        let mut delivered = Ok(());
        let mut queue = lock(&self.queue);
        queue.received_count += 1;
        let was_full = queue.is_full();
        while delivered.is_ok() {
            delivered = match self.replies.next() {
                Ok(None) => break,
                Ok(Some(reply)) => queue.deliver(reply).map(|waker| woken.extend(waker)),
                Err(error) => Err(error.into()),
            };
        }
        if was_full && !queue.is_full() {
            wake_all(queue);
        } else {
            drop(queue);
        }
        woken.into_iter().for_each(Waker::wake);
        delivered
    }
}

impl<D: Duplex> Driver<D> {
    fn exchange(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let out = &self.out[self.sent..];
        let moved = match self.duplex.poll_exchange(context, out, self.replies.buffer()) {
            Poll::Ready(Ok(moved)) => moved,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            Poll::Pending => return Poll::Pending,
        };
        self.sent += moved.sent;
        assert!(self.sent <= self.out.len(), "no more is sent than there is");
        Poll::Ready(if moved.received > 0 { self.deliver() } else { Ok(()) })
    }
}

impl<D> Drop for Driver<D> {
    /// A runtime that ends drops its tasks.
    fn drop(&mut self) {
        let text = "the runtime that drove the connection has ended";
        end(&self.queue, &ClientError::Broken(io::Error::new(ErrorKind::NotConnected, text)));
    }
}

impl<D> fmt::Debug for Driver<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("unsent", &(self.out.len() - self.sent))
            .finish_non_exhaustive()
    }
}

/// Fails all that wait in `queue`, and all that come later, with `error`; the first end counts.
fn end(queue: &Mutex<Queue>, error: &ClientError) {
    let mut queue = lock(queue);
    if queue.end.is_some() {
        return;
    }
    queue.end = Some(error.again());
    queue.out = Vec::new();
    let due = std::mem::take(&mut queue.due);
    wake_all(queue);
    for waker in due.into_iter().filter_map(|due| fill(&due.state, Err(error.again()))) {
        waker.wake();
    }
}

/// Wakes all that wait for space, outside of the lock.
fn wake_all(mut queue: MutexGuard<'_, Queue>) {
    let waiters = std::mem::take(&mut queue.space_waiters);
    drop(queue);
    waiters.into_values().for_each(Waker::wake);
}

/// Wakes the driver where it sleeps, outside of the lock.
fn wake_driver(mut queue: MutexGuard<'_, Queue>) {
    let driver = queue.driver.take();
    drop(queue);
    driver.into_iter().for_each(Waker::wake);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

#[cfg(test)]
mod tests;
