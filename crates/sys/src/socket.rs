//! Stream sockets that never block: TCP and unix listeners, and the streams they accept.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};

use crate::return_stack;

/// What one receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// The peer has closed its sending side.
    End,
    /// Nothing is there now.
    Blocked,
}

/// What one send achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took so many bytes, maybe not all.
    Bytes(usize),
    /// The kernel has no room now.
    Blocked,
}

/// Closes descriptors in place of threads that others wait for. The last close of a descriptor that
/// a peer has passed, and that of a socket in which one lies unreceived, may take as long as the
/// peer likes: a TCP socket that lingers, a file of a file system that does not answer.
pub trait Closer: fmt::Debug + Send + Sync {
    /// Closes `descriptors`, which the caller does not wait for.
    fn close(&self, descriptors: Vec<OwnedFd>);
}

/// A connected stream socket.
#[derive(Debug)]
pub struct Stream {
    socket: ManuallyDrop<OwnedFd>,
    /// Where the kernel cannot refuse descriptors of the peer: who closes them and the socket.
    closer: Option<Arc<dyn Closer>>,
}

impl Stream {
    fn new(socket: OwnedFd, closer: Option<Arc<dyn Closer>>) -> Stream {
        Stream { socket: ManuallyDrop::new(socket), closer }
    }

    /// Receives into `buffer`, once.
    ///
    /// # Errors
    /// Those of a broken connection; `InvalidData` where the peer has passed descriptors, which are
    /// closed elsewhere.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(closer) = &self.closer {
            return self.receive_guarded(&mut [IoSliceMut::new(buffer)], closer.as_ref());
        }
        received(rustix::net::recv(self, buffer, RecvFlags::DONTWAIT))
    }

    /// Receives into `pieces`, once, and has `closer` close the descriptors that come along. Left
    /// to the kernel, they would be closed within the receive.
    #[cold]
    fn receive_guarded(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        closer: &dyn Closer,
    ) -> io::Result<Received> {
        let mut passed = Vec::new();
        let result = crate::descriptors::receive_once(self, pieces, &mut passed);
        if passed.is_empty() {
            return received(result.map(|count| (count, 0)));
        }
        closer.close(passed);
        Err(io::Error::new(io::ErrorKind::InvalidData, "the peer has passed descriptors"))
    }

    /// Receives behind what `buffer` holds, into the room it has; `Bytes` grows its length.
    ///
    /// # Errors
    /// Those of a broken connection.
    ///
    /// # Panics
    /// When the buffer has no room.
    #[inline]
    pub fn receive_appending(&self, buffer: &mut Vec<u8>) -> io::Result<Received> {
        assert!(buffer.len() < buffer.capacity(), "no room would look like the end");
        if let Some(closer) = &self.closer {
            let (start, room) = (buffer.len(), buffer.capacity() - buffer.len());
            buffer.resize(start + room, 0);
            let pieces = &mut [IoSliceMut::new(&mut buffer[start..])];
            let result = self.receive_guarded(pieces, closer.as_ref());
            let count = if let Ok(Received::Bytes(count)) = &result { *count } else { 0 };
            buffer.truncate(start + count);
            return result;
        }
        received(rustix::net::recv(self, spare_capacity(buffer), RecvFlags::DONTWAIT))
    }

    /// Receives into `first`, and what is there beyond that into `second`, once.
    ///
    /// # Errors
    /// Those of a broken connection.
    pub fn receive_pieces(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<Received> {
        let mut pieces = [IoSliceMut::new(first), IoSliceMut::new(second)];
        if let Some(closer) = &self.closer {
            return self.receive_guarded(&mut pieces, closer.as_ref());
        }
        let mut ancillary = RecvAncillaryBuffer::default();
        let flags = RecvFlags::DONTWAIT;
        let result = rustix::net::recvmsg(self, &mut pieces, &mut ancillary, flags);
        received(result.map(|message| (message.bytes, 0)))
    }

    /// Sends from `bytes`, once.
    ///
    /// # Errors
    /// Those of a broken connection.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<Sent> {
        sent(rustix::net::send(self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
    }

    /// Sends from `pieces`, one behind the other, once, with `descriptors` attached to the first
    /// byte; only unix sockets carry any.
    ///
    /// # Errors
    /// Those of a broken connection, and `InvalidInput` for more than
    /// [`crate::descriptors::DESCRIPTORS_MAX`] descriptors or for no bytes.
    pub fn send_pieces(
        &self,
        pieces: &[IoSlice<'_>],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Sent> {
        sent(crate::descriptors::send(self, pieces, descriptors))
    }

    /// Returns whether the peer of a unix stream has received all that was sent to it: bytes, and
    /// the descriptors with them.
    ///
    /// # Errors
    /// None that is known for a stream.
    pub fn is_all_received(&self) -> io::Result<bool> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open, and the pointer refers to a live local of the type that
        // the kernel writes.
        let code = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        // Of a unix stream the kernel counts what lies in the peer's queue (unix(7), SIOCOUTQ).
        Ok(bytes == 0)
    }

    /// Ends the stream for both sides, whoever holds it; what the peer has not received it still
    /// can.
    ///
    /// # Errors
    /// When the stream is not connected.
    pub fn shut_down(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self, rustix::net::Shutdown::Both)?)
    }

    /// Returns the descriptor, to be passed on.
    pub fn into_descriptor(mut self) -> OwnedFd {
        // Whoever closes it does so for a process of its own.
        self.closer = None;
        let this = ManuallyDrop::new(self);
        // SAFETY: the field is taken once: the value is not dropped.
        unsafe { std::ptr::read(&raw const *this.socket) }
    }

    /// Lets the peer send nothing any more: what it tries, bytes or descriptors, is its own error.
    ///
    /// # Errors
    /// When the stream is not connected.
    pub fn refuse_all(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self, rustix::net::Shutdown::Read)?)
    }

    /// Sends small writes at once instead of gathering them. TCP only.
    ///
    /// # Errors
    /// When the socket is not TCP.
    pub fn set_no_delay(&self) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self, true)?)
    }

    /// Probes an idle peer after `idle`, three times a third of it apart, then breaks. TCP only.
    ///
    /// # Errors
    /// When the socket is not TCP.
    pub fn set_keep_alive(&self, idle: Duration) -> io::Result<()> {
        set_keep_alive(self, idle)
    }

    /// Returns who connected, as the kernel recorded it then. A TCP stream has the ids of nobody.
    ///
    /// # Errors
    /// None that is known for a stream.
    pub fn peer(&self) -> io::Result<Peer> {
        // Not rustix's call: its process id cannot hold 0, which is what the kernel reports for a
        // process in a foreign namespace.
        let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the descriptor is open, and both pointers refer to live locals, the second
        // holding the size of the first.
        let code = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut bytes,
            )
        };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Peer {
            process_id: credentials.pid,
            user_id: credentials.uid,
            group_id: credentials.gid,
        })
    }

    /// Returns the local address of a TCP stream; none for a unix stream.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        Ok(internet_address(Some(rustix::net::getsockname(self)?)))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the field is used no more: the value is gone after this.
        let socket = unsafe { ManuallyDrop::take(&mut self.socket) };
        if let Some(closer) = &self.closer {
            // Its peer learns at once that it is over, whenever it is closed.
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
            closer.close(vec![socket]);
        }
    }
}

/// Does for `socket`, whoever has made it, what [`Stream::set_keep_alive`] does.
///
/// # Errors
/// When the socket is not TCP.
pub fn set_keep_alive(socket: impl AsFd, idle: Duration) -> io::Result<()> {
    let interval = (idle / 3).max(Duration::from_secs(1));
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, idle.max(Duration::from_secs(1)))?;
    sockopt::set_tcp_keepintvl(&socket, interval)?;
    Ok(sockopt::set_tcp_keepcnt(&socket, 3)?)
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<OwnedFd> for Stream {
    fn from(socket: OwnedFd) -> Stream {
        Stream::new(socket, None)
    }
}

/// Returns what a receive has brought, directly after it.
#[inline]
fn received(result: rustix::io::Result<(usize, usize)>) -> io::Result<Received> {
    return_stack::refill();
    match result {
        Ok((0, _)) => Ok(Received::End),
        Ok((count, _)) => Ok(Received::Bytes(count)),
        // A call that cannot wait is not interrupted; should it be, the next readiness repeats it.
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Blocked),
        Err(error) => Err(error.into()),
    }
}

/// Returns what a send has achieved, directly after it.
#[inline]
fn sent(result: rustix::io::Result<usize>) -> io::Result<Sent> {
    return_stack::refill();
    match result {
        Ok(count) => Ok(Sent::Bytes(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Sent::Blocked),
        // More descriptors of this process's user are on their way than it may have open: the
        // kernel takes this one once others have been received, of which it does not tell.
        Err(Errno::TOOMANYREFS) => Ok(Sent::Blocked),
        Err(error) => Err(error.into()),
    }
}

/// The process on the other end of a unix socket when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process id; 0 when it lives in a namespace that this process cannot see.
    pub process_id: i32,
    /// The effective user id.
    pub user_id: u32,
    /// The effective group id.
    pub group_id: u32,
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    file: Option<SocketFile>,
    /// Descriptors cannot be passed to what it accepts.
    refuses_descriptors: bool,
    /// Closes what it accepts, where descriptors can be passed.
    closer: Option<Arc<dyn Closer>>,
}

/// The file of a unix listener, removed when dropped unless something else took its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Listener {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is taken, foreign or forbidden.
    pub fn tcp(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = new_socket(family)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, listen_backlog(backlog))?;
        Ok(Listener { socket, file: None, refuses_descriptors: true, closer: None })
    }

    /// Listens on the unix socket `path`, whose file has `mode` from the moment it exists.
    ///
    /// A socket file that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// `AddrInUse` when another process listens there, `AlreadyExists` when the path is not a
    /// socket of this user, and what the file system says.
    pub fn unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Listener> {
        let address = SocketAddrUnix::new(path)?;
        remove_stale(path, &address)?;
        let socket = new_socket(AddressFamily::UNIX)?;
        // The file takes its mode from the socket, less the umask: never wider than 0600 at
        // birth, whatever the umask, and nobody can connect before listen.
        rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(mode & 0o600))?;
        rustix::net::bind(&socket, &address)?;
        let status = std::fs::symlink_metadata(path)?;
        let file =
            SocketFile { path: path.to_path_buf(), device: status.dev(), inode: status.ino() };
        if status.permissions().mode() & 0o777 != mode & 0o777 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o777))?;
        }
        // Before it listens: a peer inherits it as it connects.
        let refuses_descriptors = refuse_descriptors(&socket).is_ok();
        rustix::net::listen(&socket, listen_backlog(backlog))?;
        Ok(Listener { socket, file: Some(file), refuses_descriptors, closer: None })
    }

    /// Has `closer` close the streams that are accepted, and what is passed to them, where the
    /// kernel cannot keep peers from passing descriptors (before Linux 6.16).
    pub fn with_closer(self, closer: Arc<dyn Closer>) -> Listener {
        let closer = (!self.refuses_descriptors).then_some(closer);
        Listener { closer, ..self }
    }

    /// Accepts a connection, or returns none when no one waits.
    ///
    /// # Errors
    /// Those of a connection that broke while it waited, and those of a process or system without
    /// descriptors or memory ([`is_exhaustion`] tells them apart).
    pub fn accept(&self) -> io::Result<Option<(Stream, Option<SocketAddr>)>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::acceptfrom_with(&self.socket, flags) {
            Ok((socket, address)) => {
                let stream = Stream::new(socket, self.closer.clone());
                Ok(Some((stream, internet_address(address))))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stops listening, for everybody who has this listener: its address can be bound anew, and
    /// connections that wait are refused.
    ///
    /// # Errors
    /// None that is known for a listener.
    pub fn stop(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both)?)
    }

    /// Returns the address that a TCP listener is bound to; none for a unix listener.
    ///
    /// # Errors
    /// None that is known for a listener.
    pub fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        Ok(internet_address(Some(rustix::net::getsockname(&self.socket)?)))
    }

    /// Returns the path of a unix listener; none for a TCP listener.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let Ok(status) = std::fs::symlink_metadata(&self.path) else { return };
        if status.dev() == self.device && status.ino() == self.inode {
            // A directory that has become read-only leaves a stale file; the next start takes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns true for the errors of a process or system that has no descriptors or memory left.
pub fn is_exhaustion(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// Connects to the unix socket `path`; the stream does not block afterwards.
///
/// # Errors
/// When nobody listens there or the caller may not connect.
pub fn connect_unix(path: &Path) -> io::Result<Stream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::connect(&socket, &address)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(Stream::new(socket, None))
}

/// Returns two streams that are connected to each other.
///
/// # Errors
/// When no descriptors are left.
pub fn pair() -> io::Result<(Stream, Stream)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, two) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok((Stream::new(one, None), Stream::new(two, None)))
}

/// Has the close of `descriptor`, if it is a socket, not wait for what is unsent: who has passed it
/// may have set SO_LINGER. What is no socket, or refuses, stays as it is.
pub fn forbid_linger(descriptor: &OwnedFd) {
    let _ = sockopt::set_socket_linger(descriptor, None);
}

/// Has the kernel refuse descriptors that are passed to `socket`, and to what it accepts.
///
/// # Errors
/// When the kernel cannot (before Linux 6.16).
fn refuse_descriptors(socket: &OwnedFd) -> io::Result<()> {
    // include/uapi/asm-generic/socket.h, which all machines follow that Rust's library has.
    const SO_PASSRIGHTS: libc::c_int = 83;
    let are_taken: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the pointer refers to a live local of the size that is
    // given.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const are_taken).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn new_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

fn listen_backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

fn internet_address(address: Option<SocketAddrAny>) -> Option<SocketAddr> {
    SocketAddr::try_from(address?).ok()
}

/// Removes the socket file at `path` if it is this user's and nobody listens on it.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let Ok(status) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let own = status.uid() == rustix::process::geteuid().as_raw();
    if !status.file_type().is_socket() || !own {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let probe = new_socket(AddressFamily::UNIX)?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        Err(Errno::NOENT) => Ok(()),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_that_was_told_not_to_linger_does_not_and_what_is_none_stays() {
        let socket = new_socket(AddressFamily::INET).unwrap();
        let longest = Some(Duration::from_secs(100_000));
        sockopt::set_socket_linger(&socket, longest).unwrap();
        assert!(sockopt::socket_linger(&socket).unwrap().is_some());
        forbid_linger(&socket);
        assert_eq!(sockopt::socket_linger(&socket).unwrap(), None);
        forbid_linger(&std::io::pipe().unwrap().0.into());
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("forebay-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn unix_socket_file_has_its_mode_whatever_the_umask_and_goes_with_the_listener() {
        let folder = folder("socket-mode");
        for (wanted, found) in [(0o600, 0o600), (0o660, 0o660), (0o777, 0o777), (0o400, 0o400)] {
            let path = folder.join("s.sock");
            let listener = Listener::unix(&path, wanted, 16).unwrap();
            assert_eq!(mode(&path), found);
            drop(listener);
            assert!(!path.exists());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn stale_socket_is_replaced_a_live_one_and_a_plain_file_are_not() {
        let folder = folder("socket-stale");
        let path = folder.join("s.sock");
        let first = Listener::unix(&path, 0o600, 16).unwrap();
        let taken = Listener::unix(&path, 0o600, 16).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        // Its file forgotten, the first listener leaves a stale socket behind.
        let Listener { socket, file, .. } = first;
        std::mem::forget(file);
        drop(socket);
        let second = Listener::unix(&path, 0o600, 16).unwrap();
        assert_eq!(second.path(), Some(path.as_path()));
        let plain = folder.join("plain");
        std::fs::write(&plain, b"data").unwrap();
        let refused = Listener::unix(&plain, 0o600, 16).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&plain).unwrap(), b"data");
        drop(second);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn socket_file_of_another_listener_survives_the_drop() {
        let folder = folder("socket-other");
        let path = folder.join("s.sock");
        let first = Listener::unix(&path, 0o600, 16).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Listener::unix(&path, 0o600, 16).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn streams_carry_bytes_report_the_peer_and_never_block() {
        let (one, two) = pair().unwrap();
        let mut buffer = [0_u8; 8];
        assert_eq!(two.receive(&mut buffer).unwrap(), Received::Blocked);
        assert_eq!(one.send(b"hello").unwrap(), Sent::Bytes(5));
        assert_eq!(two.receive(&mut buffer).unwrap(), Received::Bytes(5));
        assert_eq!(&buffer[..5], b"hello");
        assert_eq!(one.peer().unwrap().process_id, std::process::id() as i32);
        let mut grown = Vec::with_capacity(8);
        one.send(b"abc").unwrap();
        assert_eq!(two.receive_appending(&mut grown).unwrap(), Received::Bytes(3));
        assert_eq!(grown, b"abc");
        drop(one);
        assert_eq!(two.receive(&mut buffer).unwrap(), Received::End);
    }

    #[derive(Debug, Default)]
    struct Kept(std::sync::Mutex<Vec<OwnedFd>>);

    impl Closer for Kept {
        fn close(&self, descriptors: Vec<OwnedFd>) {
            self.0.lock().unwrap().extend(descriptors);
        }
    }

    #[test]
    fn where_descriptors_can_be_passed_the_closer_gets_them_and_the_stream() {
        let (one, two) = pair().unwrap();
        let waker = crate::poll::Waker::new().unwrap();
        let kept = Arc::new(Kept::default());
        let closer: Arc<dyn Closer> = Arc::<Kept>::clone(&kept);
        let two = Stream::new(two.as_fd().try_clone_to_owned().unwrap(), Some(closer));
        let (mut buffer, mut grown) = ([0_u8; 8], Vec::with_capacity(8));
        assert_eq!(two.receive(&mut buffer).unwrap(), Received::Blocked);
        one.send(b"abcde").unwrap();
        assert_eq!(two.receive_appending(&mut grown).unwrap(), Received::Bytes(5));
        assert_eq!(grown, b"abcde");
        for round in 1..=3 {
            one.send_pieces(&[IoSlice::new(b"x")], &[waker.as_fd()]).unwrap();
            let received = match round {
                1 => two.receive(&mut buffer),
                2 => two.receive_appending(&mut grown),
                _ => two.receive_pieces(&mut buffer, &mut [0]),
            };
            assert_eq!(received.unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!((kept.0.lock().unwrap().len(), grown.len()), (round, 5));
        }
        drop(two);
        assert_eq!(kept.0.lock().unwrap().len(), 4);
        assert_eq!(one.receive(&mut buffer).unwrap(), Received::End, "it is shut down at once");
    }

    #[test]
    fn listener_of_this_kernel_refuses_descriptors_or_has_a_closer() {
        let folder = folder("socket-rights");
        let path = folder.join("s.sock");
        let kept = Arc::new(Kept::default());
        let listener = Listener::unix(&path, 0o600, 16).unwrap();
        let listener = listener.with_closer(Arc::<Kept>::clone(&kept) as Arc<dyn Closer>);
        let client = connect_unix(&path).unwrap();
        let waker = crate::poll::Waker::new().unwrap();
        let sent = client.send_pieces(&[IoSlice::new(b"x")], &[waker.as_fd()]);
        assert_eq!(sent.is_err(), listener.refuses_descriptors);
        drop(listener.accept().unwrap().unwrap());
        let is_kept = !kept.0.lock().unwrap().is_empty();
        assert_ne!(is_kept, listener.refuses_descriptors);
        drop(listener);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn all_is_received_once_the_peer_has_taken_the_last_byte() {
        let (one, two) = pair().unwrap();
        let waker = crate::poll::Waker::new().unwrap();
        assert!(one.is_all_received().unwrap());
        one.send_pieces(&[IoSlice::new(b"ab")], &[waker.as_fd()]).unwrap();
        assert!(!one.is_all_received().unwrap());
        two.receive(&mut [0]).unwrap();
        assert!(!one.is_all_received().unwrap());
        two.receive(&mut [0]).unwrap();
        assert!(one.is_all_received().unwrap());
    }

    #[test]
    fn peer_of_a_stream_that_refuses_all_can_send_nothing_and_receive() {
        let (one, two) = pair().unwrap();
        one.refuse_all().unwrap();
        assert!(two.send(b"x").is_err());
        assert_eq!(one.send(b"y").unwrap(), Sent::Bytes(1));
        assert_eq!(two.receive(&mut [0; 8]).unwrap(), Received::Bytes(1));
    }

    #[test]
    fn address_of_a_stopped_listener_can_be_bound_again_also_as_a_part_of_all() {
        let first = Listener::tcp("0.0.0.0:0".parse().unwrap(), 16).unwrap();
        let port = first.local_address().unwrap().unwrap().port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        assert!(Listener::tcp(address, 16).is_err());
        first.stop().unwrap();
        let second = Listener::tcp(address, 16).unwrap();
        std::net::TcpStream::connect(address).unwrap();
        assert!(second.accept().unwrap().is_some());
        assert!(first.accept().is_err());
    }

    #[test]
    fn tcp_listener_takes_a_free_port_and_accepts() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let address = listener.local_address().unwrap().unwrap();
        assert!(listener.accept().unwrap().is_none());
        let client = std::net::TcpStream::connect(address).unwrap();
        let (stream, from) = listener.accept().unwrap().unwrap();
        assert_eq!(from, Some(client.local_addr().unwrap()));
        assert_eq!(stream.local_address().unwrap(), Some(address));
        stream.set_no_delay().unwrap();
        stream.set_keep_alive(Duration::from_secs(300)).unwrap();
        let nobody = Peer { process_id: 0, user_id: u32::MAX, group_id: u32::MAX };
        assert_eq!(stream.peer().unwrap(), nobody);
    }
}
