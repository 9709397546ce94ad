//! A lane that a program polls among other descriptors: nothing here waits.
//!
//! A thread that waits for several descriptors sleeps in a poller of its own, with the lane's
//! doorbell socket, [`Lane::as_fd`], in it. Before it sleeps it calls [`Lane::arm_doorbell`], and
//! after the doorbell woke it [`Lane::clear_doorbell`]; [`Lane::try_receive`] returns what has
//! come.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ring::lane::{BY_SOCKET, NEWS, ROOM};
use sys::socket::Received;

use super::{Lane, broken};

/// Rings that are taken from the doorbell at once; more of them wake once more.
const RINGS_MAX: usize = 64;
/// The least room that bytes are taken into: a frame is taken in whole words.
const RECEIVED_BYTES_MIN: usize = 8;

impl Lane {
    /// Sends of `bytes` what there is room for and returns how many bytes that is.
    ///
    /// # Errors
    /// When the lane has ended.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.end.write(&[bytes]).map_err(broken)?;
        self.ring_for(count, NEWS);
        match count {
            0 if !bytes.is_empty() && self.end.is_closed() => Err(ErrorKind::BrokenPipe.into()),
            count => Ok(count),
        }
    }

    /// Takes bytes of replies into `target`; returns how many. Nothing where nothing has come.
    ///
    /// # Errors
    /// `UnexpectedEof` when the lane has ended and everything has been taken.
    ///
    /// # Panics
    /// When `target` has less than 8 bytes.
    pub fn try_receive(&mut self, target: &mut [u8]) -> io::Result<usize> {
        assert!(target.len() >= RECEIVED_BYTES_MIN, "a frame is taken in whole words");
        let kept = self.replies.move_into(target);
        if kept > 0 {
            return Ok(kept);
        }
        // Asked first: what the server wrote before it ended the lane is there then.
        let is_over = self.end.is_closed();
        let count = self.end.read(target).map_err(broken)?;
        self.ring_for(count, ROOM);
        match count {
            0 if is_over => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }

    /// Has the doorbell ring once when something has come, or with `wants_room` there is room to
    /// send. Returns false where that is so already, or the lane has ended: it will not ring.
    ///
    /// # Errors
    /// When the lane has ended by a fault.
    pub fn arm_doorbell(&mut self, wants_room: bool) -> io::Result<bool> {
        let reasons = NEWS | BY_SOCKET | if wants_room { ROOM } else { 0 };
        let is_ready = self.end.arm(reasons).map_err(broken)? || self.end.is_closed();
        if is_ready {
            self.end.disarm();
        }
        Ok(!is_ready)
    }

    /// Says that this side is awake, and takes the rings from the doorbell.
    ///
    /// # Errors
    /// `UnexpectedEof` when the server is gone.
    pub fn clear_doorbell(&mut self) -> io::Result<()> {
        self.end.disarm();
        match self.client_doorbell.receive(&mut [0; RINGS_MAX])? {
            // A server that has ended the lane in order has said so in its memory.
            Received::End if !self.end.is_closed() => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Waits until something has come and takes it into `target`, as [`Lane::try_receive`] does.
    ///
    /// # Errors
    /// As [`Lane::try_receive`], and when the server is gone or silent for too long.
    pub fn receive_into(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let mut silence = Duration::ZERO;
        loop {
            match self.try_receive(target)? {
                0 => {
                    self.wait(NEWS, &mut silence)?;
                }
                count => return Ok(count),
            }
        }
    }
}

impl AsFd for Lane {
    /// Returns the doorbell: readable once it has rung, and when the server is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client_doorbell.as_fd()
    }
}
