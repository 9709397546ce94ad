//! One connection of a load: a batch of requests out, their replies in.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::skim::Skimmer;
use crate::target::Stream;
use crate::workload::{CyclePosition, Due, Verdict, Writer};

/// A connection with at most one batch in flight.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    out: Vec<u8>,
    sent_bytes: usize,
    due: Vec<Due>,
    position: CyclePosition,
    /// Replies of the batch that have come.
    answered: usize,
    /// When the batch was due to leave, in nanoseconds of the load's clock.
    begun_ns: u64,
    skimmer: Skimmer,
}

/// Replies that one read brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// All of them.
    pub replies: u64,
    /// Those for absent keys.
    pub missing: u64,
    /// Those that are errors or not what was due.
    pub wrong: u64,
}

impl Connection {
    pub fn new(stream: Stream) -> Connection {
        Connection {
            stream,
            out: Vec::new(),
            sent_bytes: 0,
            due: Vec::new(),
            position: CyclePosition::default(),
            answered: 0,
            begun_ns: 0,
            skimmer: Skimmer::default(),
        }
    }

    /// Writes a batch of `count` requests, which is to be sent.
    pub fn begin(&mut self, writer: &mut Writer, count: usize, begun_ns: u64) {
        debug_assert!(self.is_idle(), "one batch at a time");
        self.out.clear();
        self.due.clear();
        self.sent_bytes = 0;
        self.answered = 0;
        self.begun_ns = begun_ns;
        for _ in 0..count {
            let due = writer.append(&mut self.position, &mut self.out);
            self.due.push(due);
        }
    }

    pub fn is_idle(&self) -> bool {
        self.answered == self.due.len()
    }

    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Returns whether a part of the batch waits for room.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.sent_bytes < self.out.len()
    }

    /// Sends what is left of the batch, as far as the socket takes it.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self) -> io::Result<()> {
        while self.sent_bytes < self.out.len() {
            match self.stream.write(&self.out[self.sent_bytes..]) {
                Ok(sent) => self.sent_bytes += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once into `scratch` and judges the replies; none when nothing was there. Everything
    /// has been read when the returned flag is false.
    ///
    /// # Errors
    /// When the connection is broken, or brings a reply that nothing asked for.
    pub fn receive(
        &mut self,
        writer: &Writer,
        scratch: &mut [u8],
    ) -> io::Result<Option<(Arrived, bool)>> {
        let bytes = loop {
            match self.stream.read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => break bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        let mut arrived = Arrived::default();
        let (due, answered) = (&self.due, &mut self.answered);
        self.skimmer.feed(&scratch[..bytes], |shape| {
            let verdict =
                due.get(*answered).map_or(Verdict::Wrong, |&due| writer.judge(due, shape));
            *answered += 1;
            arrived.replies += 1;
            arrived.missing += u64::from(verdict == Verdict::Missing);
            arrived.wrong += u64::from(verdict == Verdict::Wrong);
        });
        if self.answered > self.due.len() {
            return Err(io::Error::other("a reply came that nothing asked for"));
        }
        Ok(Some((arrived, bytes == scratch.len())))
    }

    /// Sees to it that a poller tells of what comes next. Returns false where it has come already.
    ///
    /// # Errors
    /// When the connection is broken.
    #[inline]
    pub fn arm(&mut self) -> io::Result<bool> {
        self.stream.arm(self.has_unsent())
    }

    /// Takes note that a poller has told of it.
    ///
    /// # Errors
    /// When the server is gone.
    #[inline]
    pub fn disarm(&mut self) -> io::Result<()> {
        self.stream.disarm()
    }

    pub fn first_error(&self) -> Option<&str> {
        self.skimmer.first_error()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
