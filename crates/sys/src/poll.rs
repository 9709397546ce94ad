//! Waiting for descriptors (epoll, edge-triggered) and waking a waiter (eventfd).
//!
//! Edges, not levels: a level-triggered epoll polls every ready descriptor a second time on the
//! next wait. The caller therefore reads until a read comes back short or empty, and once more
//! after a hang-up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::Timespec;

use crate::descriptors::SharedDescriptor;
use crate::return_stack;

const EDGES: epoll::EventFlags = epoll::EventFlags::IN
    .union(epoll::EventFlags::PRI)
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ET);

/// What to be told of, beside hang-ups and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// New bytes to read, once per arrival.
    Readable,
    /// New bytes to read and new room to write, once per change.
    ReadableWritable,
    /// Something to read, told again by every wait until it has been read. For listeners, which
    /// may leave connections waiting on purpose.
    ReadableLevel,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Interest::Readable => EDGES,
            Interest::ReadableWritable => EDGES | epoll::EventFlags::OUT,
            Interest::ReadableLevel => epoll::EventFlags::IN,
        }
    }
}

/// One descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The number given when the descriptor was added.
    pub token: u64,
    /// A read returns bytes, the end or an error.
    pub readable: bool,
    /// There is urgent data, where reads end, though more may be behind it.
    pub urgent: bool,
    /// A write has room, or an error to tell.
    pub writable: bool,
    /// The peer has closed, or the descriptor has an error. A read shows it once it has returned
    /// all bytes; where it came together with the last bytes nothing tells of it again.
    pub hangup: bool,
    /// The connection is over in both directions: nothing that is sent would arrive.
    pub is_over: bool,
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// Room for what one wait returns; allocated once.
pub struct Events {
    list: Vec<epoll::Event>,
    count: usize,
}

impl Poller {
    /// Returns an empty set.
    ///
    /// # Errors
    /// When the process or the system has no descriptors left.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds `descriptor` under `token`.
    ///
    /// # Errors
    /// When the descriptor is in the set already, cannot be waited for, or memory is short.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, descriptor, data, interest.flags())?)
    }

    /// Changes what to be told of `descriptor`; a state that holds already is told once more.
    ///
    /// # Errors
    /// When the descriptor is not in the set.
    pub fn modify(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, descriptor, data, interest.flags())?)
    }

    /// Takes `descriptor` out of the set; closing its last copy does the same.
    ///
    /// # Errors
    /// When the descriptor is not in the set.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits until something is ready or `timeout` has passed; without a timeout for ever.
    ///
    /// A signal ends the wait with no events.
    ///
    /// # Errors
    /// Only those of a broken set.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let limit = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        events.count = 0;
        events.list.clear();
        let list = rustix::buffer::spare_capacity(&mut events.list);
        let waited = epoll::wait(&self.epoll, list, limit.as_ref());
        return_stack::refill();
        match waited {
            Ok(count) => events.count = count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Events {
    /// Returns room for `capacity` events in one wait.
    pub fn with_capacity(capacity: usize) -> Events {
        assert!(capacity > 0, "a wait without room for events never ends");
        Events { list: Vec::with_capacity(capacity), count: 0 }
    }

    /// Returns how many events the last wait brought.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true when the last wait brought no event.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns event `index` of the last wait.
    #[inline]
    pub fn at(&self, index: usize) -> Ready {
        let event = self.list[index];
        let flags = event.flags;
        Ready {
            token: event.data.u64(),
            readable: flags.intersects(
                epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
            ),
            urgent: flags.contains(epoll::EventFlags::PRI),
            writable: flags.intersects(
                epoll::EventFlags::OUT | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
            ),
            hangup: flags.intersects(
                epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
            ),
            is_over: flags.contains(epoll::EventFlags::HUP),
        }
    }
}

/// Wakes a thread that waits for it; any number of wakes before a look count as one.
#[derive(Clone, Debug)]
pub struct Waker {
    event: SharedDescriptor,
}

impl Waker {
    /// Returns a waker that nobody has used yet.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn new() -> io::Result<Waker> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker::from(eventfd(0, flags)?))
    }

    /// Returns the descriptor, for another process: it wakes by writing to it.
    pub fn descriptor(&self) -> SharedDescriptor {
        Arc::clone(&self.event)
    }

    /// Makes the waker readable.
    pub fn wake(&self) {
        // A full counter (2^64 - 2 wakes) would be EAGAIN, and it is readable then.
        let _ = rustix::io::write(self, &1_u64.to_le_bytes());
    }

    /// Makes the waker unreadable again.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // EAGAIN says that it was clear.
        let _ = rustix::io::read(self, &mut count);
    }
}

impl From<OwnedFd> for Waker {
    fn from(event: OwnedFd) -> Waker {
        Waker { event: Arc::new(event) }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waker_is_told_once_however_often_it_was_woken() {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        let mut events = Events::with_capacity(4);
        poller.add(&waker, 7, Interest::Readable).unwrap();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
        waker.wake();
        waker.wake();
        poller.wait(&mut events, None).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events.at(0).token, 7);
        assert!(events.at(0).readable && !events.at(0).writable && !events.at(0).hangup);
        waker.clear();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn end_that_came_with_the_last_bytes_is_told_with_them() {
        let (one, two) = crate::socket::pair().unwrap();
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(4));
        poller.add(&two, 1, Interest::Readable).unwrap();
        one.send(b"bye").unwrap();
        drop(one);
        poller.wait(&mut events, None).unwrap();
        assert!(events.at(0).readable && events.at(0).hangup && events.at(0).is_over);
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn peer_that_sends_no_more_and_still_receives_is_not_over() {
        let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(4));
        poller.add(&two, 1, Interest::Readable).unwrap();
        one.shutdown(std::net::Shutdown::Write).unwrap();
        poller.wait(&mut events, None).unwrap();
        assert!(events.at(0).hangup && !events.at(0).is_over);
        drop(one);
        poller.wait(&mut events, None).unwrap();
        assert!(events.at(0).is_over);
    }
}
