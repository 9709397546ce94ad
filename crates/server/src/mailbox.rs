//! What other threads tell a worker, and how they wake it.

use std::io;
use std::mem::discriminant;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use command::Wake;
use keyspace::SessionWakeup;
use sys::poll::Waker;

use crate::connection::CloseReason;
use crate::listen::Listener;
use crate::transport::Pending;

/// One thing for a worker to do.
pub enum Message {
    /// Serve this connection from now on.
    Serve(Pending),
    /// Close connections that are idle or slow for too long.
    CheckConnections,
    /// Look at the state of the shutdown.
    CheckShutdown,
    /// Close the connection of this session, for this reason.
    Close(u64, CloseReason),
    /// End the wait of this session.
    Wake(u64, Wake),
    /// A key has ended the wait of this session: reply.
    Served(SessionWakeup),
    /// The answer is there that this session has asked the server for.
    Answered(u64),
    /// The pause is over.
    Resume,
    /// Replies that waited for their release may leave, and sessions that waited for the log go on.
    Released,
    /// Accept from these listeners from now on and from no others. For the worker that accepts.
    Listen(Vec<Arc<Listener>>),
}

impl Message {
    /// Returns whether one of its kind says as much as many.
    fn is_reminder(&self) -> bool {
        matches!(
            self,
            Message::CheckConnections
                | Message::CheckShutdown
                | Message::Resume
                | Message::Released
        )
    }
}

/// What a worker may be shown before it takes it, in bytes. Beyond that its monitors are slow
/// readers, whatever their peers do, and are closed.
pub const SHOWN_BYTES_MAX: usize = 64 << 20;

/// The messages for one worker. Bounded by what the senders do: connections, lanes, ends and
/// wake-ups by `maxclients`, addresses by one per change; reminders are there once at most.
pub struct Mailbox {
    contents: Mutex<Contents>,
    /// How many of the worker's sessions are monitors.
    monitors: AtomicUsize,
    /// The worker holds replies that wait for their release, or has sessions that wait for the log.
    holds_replies: AtomicBool,
    waker: Waker,
}

#[derive(Default)]
struct Contents {
    messages: Vec<Message>,
    shown: MonitorLines,
}

/// What monitors are to be shown.
#[derive(Default)]
pub struct MonitorLines {
    /// Lines, as they are sent.
    pub lines: Vec<u8>,
    /// There were more than a mailbox takes, and some are missing.
    pub is_cut: bool,
}

impl Mailbox {
    /// Returns an empty mailbox.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn new() -> io::Result<Mailbox> {
        Ok(Mailbox {
            contents: Mutex::default(),
            monitors: AtomicUsize::new(0),
            holds_replies: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    /// Leaves `message` and wakes the worker, unless an earlier message has done so.
    pub fn post(&self, message: Message) {
        let mut contents = self.lock();
        if message.is_reminder() && contents.has_kind_of(&message) {
            return;
        }
        let is_first = contents.is_empty();
        contents.messages.push(message);
        drop(contents);
        if is_first {
            self.waker.wake();
        }
    }

    /// Leaves `lines` for the worker's monitors, if it has any.
    pub fn show(&self, lines: &[u8]) {
        if self.monitors.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut contents = self.lock();
        let is_first = contents.is_empty();
        let shown = &mut contents.shown;
        shown.is_cut |= shown.lines.len() + lines.len() > SHOWN_BYTES_MAX;
        match shown.is_cut {
            true => shown.lines = Vec::new(),
            false => shown.lines.extend_from_slice(lines),
        }
        drop(contents);
        if is_first {
            self.waker.wake();
        }
    }

    /// Counts a monitor of the worker in or out.
    pub fn count_monitor(&self, is_monitor: bool) {
        match is_monitor {
            true => self.monitors.fetch_add(1, Ordering::Relaxed),
            false => self.monitors.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Says whether the worker holds replies that wait for their release. Who says so looks at the
    /// gate once more behind it.
    pub fn hold_replies(&self, holds: bool) {
        self.holds_replies.store(holds, Ordering::SeqCst);
    }

    /// Tells the worker that the gate has moved on, if it holds replies.
    pub fn release(&self) {
        if self.holds_replies.load(Ordering::SeqCst) {
            self.post(Message::Released);
        }
    }

    /// Takes all messages, and what monitors are to be shown. For the worker alone.
    pub fn take(&self) -> (Vec<Message>, MonitorLines) {
        // Cleared first: a message that comes now wakes again.
        self.waker.clear();
        let Contents { messages, shown } = std::mem::take(&mut *self.lock());
        (messages, shown)
    }

    /// Returns what the worker waits for.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // A push either happened or did not: the list is whole even if its thread panicked.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.shown.lines.is_empty() && !self.shown.is_cut
    }

    fn has_kind_of(&self, message: &Message) -> bool {
        self.messages.iter().any(|other| discriminant(other) == discriminant(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_order_and_all_at_once() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.post(Message::CheckConnections);
        mailbox.post(Message::CheckShutdown);
        let (messages, _) = mailbox.take();
        assert!(matches!(messages[..], [Message::CheckConnections, Message::CheckShutdown]));
        assert!(mailbox.take().0.is_empty());
    }

    #[test]
    fn reminders_wait_once_however_often_they_are_sent() {
        let mailbox = Mailbox::new().unwrap();
        for _ in 0..3 {
            mailbox.post(Message::Resume);
            mailbox.post(Message::Close(7, CloseReason::Killed));
            mailbox.post(Message::CheckConnections);
        }
        let (messages, _) = mailbox.take();
        let count = |is: fn(&Message) -> bool| messages.iter().filter(|one| is(one)).count();
        assert_eq!(count(|one| matches!(one, Message::Close(7, CloseReason::Killed))), 3);
        assert_eq!(messages.len(), 3 + 2);
        mailbox.post(Message::Resume);
        assert!(matches!(mailbox.take().0[..], [Message::Resume]));
    }

    #[test]
    fn lines_wait_only_where_a_monitor_is_and_only_so_many() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.show(b"+a\r\n");
        assert!(mailbox.take().1.lines.is_empty());
        mailbox.count_monitor(true);
        mailbox.show(b"+a\r\n");
        mailbox.show(b"+b\r\n");
        assert_eq!(mailbox.take().1.lines, b"+a\r\n+b\r\n");
        let much = vec![b'x'; SHOWN_BYTES_MAX / 2 + 1];
        mailbox.show(&much);
        mailbox.show(&much);
        mailbox.show(b"+c\r\n");
        let (_, shown) = mailbox.take();
        assert!(shown.is_cut && shown.lines.is_empty());
        mailbox.show(b"+d\r\n");
        let (_, shown) = mailbox.take();
        assert!(!shown.is_cut && shown.lines == b"+d\r\n");
    }
}
