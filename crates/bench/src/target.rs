//! Where a server listens: `redis://host:port[/database]`, `unix:///path`, or `shm:///path` for a
//! lane through shared memory.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use client::{Lane, LaneShape};

/// The size of each of a lane's two rings: what the client's own lanes have.
const RING_BYTES: u64 = 64 * 1024;

/// The address of a server and the database to use there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How to reach it.
    pub address: Address,
    /// The database to SELECT; 0 needs no SELECT.
    pub database: u32,
}

/// What carries the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    /// The socket's path.
    Unix(PathBuf),
    /// A lane, made by the unix socket at this path.
    Shm(PathBuf),
}

impl Target {
    /// Returns the target of a unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Target {
        Target { address: Address::Unix(path.into()), database: 0 }
    }

    /// Returns the target of lanes that are made by the unix socket at `path`.
    pub fn shm(path: impl Into<PathBuf>) -> Target {
        Target { address: Address::Shm(path.into()), database: 0 }
    }

    /// Returns the target of a port of this machine.
    pub fn local_port(port: u16) -> Target {
        Target { address: Address::Tcp(format!("127.0.0.1:{port}")), database: 0 }
    }

    /// Connects, blocking. A lane is made by a connection that has authenticated with `password`;
    /// a socket has yet to.
    ///
    /// # Errors
    /// When nobody listens there, or makes no lane.
    pub fn connect(&self, password: Option<&str>) -> io::Result<Stream> {
        match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
            Address::Shm(_) => {
                let lane = Box::new(self.lane(password)?);
                Ok(Stream::Lane(LaneStream { lane, is_blocking: true }))
            }
        }
    }

    /// Makes a lane by the unix socket of this target.
    ///
    /// # Errors
    /// When nobody listens there, or makes no lane, and for a target over TCP.
    pub fn lane(&self, password: Option<&str>) -> io::Result<Lane> {
        let (Address::Unix(path) | Address::Shm(path)) = &self.address else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let shape = LaneShape::new(RING_BYTES, RING_BYTES).expect("within bounds");
        let lane = Lane::connect(path, password.map(str::as_bytes), shape);
        lane.map_err(|error| io::Error::other(error.to_string()))
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> anyhow::Result<Target> {
        let schemes = [("unix://", Target::unix as fn(PathBuf) -> Target), ("shm://", Target::shm)];
        for (scheme, target) in schemes {
            let Some(path) = url.strip_prefix(scheme) else { continue };
            if !path.starts_with('/') {
                bail!("'{url}': the path of a unix socket is absolute ({scheme}/path)");
            }
            return Ok(target(PathBuf::from(path)));
        }
        let Some(rest) = url.strip_prefix("redis://") else {
            bail!("'{url}' is none of redis://host:port[/database], unix:///path and shm:///path");
        };
        let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            number => number.parse().with_context(|| format!("'{url}': not a database number"))?,
        };
        if host.contains('@') {
            bail!("'{url}': give a password with --password, not in the address");
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:6379") };
        Ok(Target { address: Address::Tcp(address), database })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(address) => write!(f, "redis://{address}/{}", self.database),
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
            Address::Shm(path) => write!(f, "shm://{}", path.display()),
        }
    }
}

/// A connection of any kind.
#[derive(Debug)]
pub enum Stream {
    /// TCP, without delay.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// A lane through shared memory.
    Lane(LaneStream),
}

/// A lane that is read and written as a socket is.
#[derive(Debug)]
pub struct LaneStream {
    lane: Box<Lane>,
    is_blocking: bool,
}

impl Stream {
    /// Makes reads and writes return at once or wait.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn set_nonblocking(&mut self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(is_nonblocking),
            Stream::Lane(stream) => {
                stream.is_blocking = !is_nonblocking;
                Ok(())
            }
        }
    }

    /// Ends reads that wait longer than `timeout`.
    ///
    /// # Errors
    /// When `timeout` is zero.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Lane(stream) => {
                stream.lane.set_timeout(timeout);
                Ok(())
            }
        }
    }

    /// Sees to it that a poller tells of the next bytes, and with `wants_room` of room to write.
    /// Returns false where they are there already, and it will not. A socket always tells.
    ///
    /// # Errors
    /// When the connection is broken.
    #[inline]
    pub fn arm(&mut self, wants_room: bool) -> io::Result<bool> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(true),
            Stream::Lane(stream) => stream.lane.arm_doorbell(wants_room),
        }
    }

    /// Takes note that a poller has told of it.
    ///
    /// # Errors
    /// When the server is gone.
    #[inline]
    pub fn disarm(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Lane(stream) => stream.lane.clear_doorbell(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Lane(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Lane(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Lane(stream) => stream.lane.as_fd(),
        }
    }
}

impl LaneStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_blocking {
            return self.lane.receive_into(buffer);
        }
        match self.lane.try_receive(buffer) {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            received => received,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_blocking {
            self.lane.send(bytes)?;
            return Ok(bytes.len());
        }
        match self.lane.try_send(bytes) {
            Ok(0) if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            sent => sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        assert_eq!(url.parse::<Target>().unwrap().to_string(), expected);
    }

    #[test]
    fn addresses_are_read() {
        check("redis://localhost:7000/3", "redis://localhost:7000/3");
        check("redis://localhost:7000", "redis://localhost:7000/0");
        check("redis://10.0.0.1", "redis://10.0.0.1:6379/0");
        check("redis://[::1]:7000/", "redis://[::1]:7000/0");
        check("unix:///run/a.sock", "unix:///run/a.sock");
        check("shm:///run/a.sock", "shm:///run/a.sock");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in
            ["localhost:1", "unix://a.sock", "shm://a.sock", "redis://a:1/x", "redis://u:p@a:1"]
        {
            assert!(url.parse::<Target>().is_err(), "{url}");
        }
    }
}
