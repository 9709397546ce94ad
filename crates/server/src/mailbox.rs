//! What other threads tell a worker, and how they wake it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use sys::poll::Waker;
use sys::socket::Stream;

/// A connection that was accepted and passed the checks of acceptance.
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// The peer of a TCP connection; none for a unix socket.
    pub from: Option<SocketAddr>,
    /// The address that the listener is known by: `ip:port`, or the path.
    pub listener: std::sync::Arc<str>,
}

/// One thing for a worker to do.
pub enum Message {
    /// Serve this connection from now on.
    Serve(Accepted),
    /// Close connections that are idle or slow for too long.
    CheckConnections,
    /// Look at the state of the shutdown.
    CheckShutdown,
}

/// The messages for one worker. Bounded by what the senders do: connections by `maxclients`, the
/// rest by one per round of the service thread.
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    waker: Waker,
}

impl Mailbox {
    /// Returns an empty mailbox.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn new() -> io::Result<Mailbox> {
        Ok(Mailbox { messages: Mutex::new(Vec::new()), waker: Waker::new()? })
    }

    /// Leaves `message` and wakes the worker, unless an earlier message has done so.
    pub fn post(&self, message: Message) {
        let mut messages = self.lock();
        let is_first = messages.is_empty();
        messages.push(message);
        drop(messages);
        if is_first {
            self.waker.wake();
        }
    }

    /// Takes all messages. For the worker alone.
    pub fn take(&self) -> Vec<Message> {
        // Cleared first: a message that comes now wakes again.
        self.waker.clear();
        std::mem::take(&mut *self.lock())
    }

    /// Returns what the worker waits for.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        // A push either happened or did not: the list is whole even if its thread panicked.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
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
        let messages = mailbox.take();
        assert!(matches!(messages[..], [Message::CheckConnections, Message::CheckShutdown]));
        assert!(mailbox.take().is_empty());
    }
}
