//! Passing descriptors over a unix socket (SCM_RIGHTS).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// A descriptor that several parts of this process hold, and pass on, as one: it takes one place in
/// the process's table however many do, and is closed with the last.
pub type SharedDescriptor = Arc<OwnedFd>;

/// The most descriptors in one message; the kernel's own limit (SCM_MAX_FD) is 253.
pub const DESCRIPTORS_MAX: usize = 253;

const ANCILLARY_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// Sends from `pieces`, once, with `descriptors` attached to the first byte; never waits.
pub(crate) fn send(
    socket: impl AsFd,
    pieces: &[IoSlice<'_>],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    // Descriptors travel with a byte: an empty message would lose them.
    let is_empty = pieces.iter().all(|piece| piece.is_empty());
    if is_empty || descriptors.len() > DESCRIPTORS_MAX {
        return Err(Errno::INVAL);
    }
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "the space is made for the most descriptors");
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, pieces, &mut control, flags)
}

/// Sends from `bytes`, once, and never waits; returns how many were taken.
///
/// # Errors
/// `WouldBlock` when there is no room, and those of a broken connection.
pub fn send_at_once(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(socket, &[IoSlice::new(bytes)], &[])?)
}

/// Receives into `bytes`, once, and appends the descriptors that came along; waits as the socket
/// does, past signals. Returns the number of bytes, 0 at the end of the stream.
///
/// Descriptors come with the bytes that they were sent with. Bytes sent earlier may lead the same
/// receive, later ones do not follow in it.
///
/// # Errors
/// Those of a broken connection, and `InvalidData` when descriptors were lost because the process
/// has none left.
pub fn receive(
    socket: impl AsFd,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut target = [IoSliceMut::new(bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&socket, &mut target, &mut control, flags)
    })?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(message.bytes)
}

/// Receives into `pieces`, once, without waiting, and appends the descriptors that came along.
pub(crate) fn receive_once(
    socket: impl AsFd,
    pieces: &mut [IoSliceMut<'_>],
    descriptors: &mut Vec<OwnedFd>,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = rustix::net::recvmsg(&socket, pieces, &mut control, flags)?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    Ok(message.bytes)
}

/// Returns whether the peer of a connected socket has closed it, or the connection is broken; bytes
/// that came before may be left to be read. Never waits.
///
/// # Errors
/// When the system has no memory for it.
pub fn peer_has_closed(socket: impl AsFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
    loop {
        return match rustix::event::poll(&mut polled, Some(&Timespec::default())) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Waker;
    use crate::socket::{Sent, pair};

    #[test]
    fn peer_that_has_closed_is_told_from_one_that_has_sent_something() {
        let (one, two) = pair().unwrap();
        assert!(!peer_has_closed(&one).unwrap());
        rustix::net::send(&two, b"reply", SendFlags::empty()).unwrap();
        assert!(!peer_has_closed(&one).unwrap());
        drop(two);
        assert!(peer_has_closed(&one).unwrap(), "though nobody has read what it sent");
    }

    #[test]
    fn descriptors_arrive_with_the_bytes_they_were_sent_with() {
        let (one, two) = pair().unwrap();
        let waker = Waker::new().unwrap();
        one.send(b"before").unwrap();
        assert_eq!(
            one.send_pieces(&[IoSlice::new(b"with")], &[waker.as_fd()]).unwrap(),
            Sent::Bytes(4)
        );
        one.send(b"after").unwrap();
        let (mut bytes, mut descriptors) = ([0_u8; 32], Vec::new());
        assert_eq!(receive(&two, &mut bytes, &mut descriptors).unwrap(), 10);
        assert_eq!(descriptors.len(), 1);
        assert_eq!(receive(&two, &mut bytes, &mut descriptors).unwrap(), 5);
        assert_eq!(descriptors.len(), 1);
        rustix::io::write(&descriptors[0], &1_u64.to_le_bytes()).unwrap();
        let mut count = [0_u8; 8];
        assert_eq!(rustix::io::read(&waker, &mut count).unwrap(), 8);
    }

    #[test]
    fn message_without_bytes_or_with_too_many_descriptors_is_refused() {
        let (one, _two) = pair().unwrap();
        let waker = Waker::new().unwrap();
        assert!(one.send_pieces(&[], &[waker.as_fd()]).is_err());
        let many = vec![waker.as_fd(); DESCRIPTORS_MAX + 1];
        assert!(one.send_pieces(&[IoSlice::new(b"x")], &many).is_err());
        assert!(one.send_pieces(&[IoSlice::new(b"x")], &many[1..]).is_ok());
    }
}
