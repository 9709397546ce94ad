//! Where a server listens: `redis://host:port[/database]` or `unix:///path`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail};

/// The address of a server and the database to use there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How to reach it.
    pub address: Address,
    /// The database to SELECT; 0 needs no SELECT.
    pub database: u32,
}

/// One of the two kinds of sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    /// The socket's path.
    Unix(PathBuf),
}

impl Target {
    /// Returns the target of a unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Target {
        Target { address: Address::Unix(path.into()), database: 0 }
    }

    /// Returns the target of a port of this machine.
    pub fn local_port(port: u16) -> Target {
        Target { address: Address::Tcp(format!("127.0.0.1:{port}")), database: 0 }
    }

    /// Connects, blocking.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(&self) -> io::Result<Stream> {
        match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
        }
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> anyhow::Result<Target> {
        if let Some(path) = url.strip_prefix("unix://") {
            if !path.starts_with('/') {
                bail!("'{url}': the path of a unix socket is absolute (unix:///path)");
            }
            return Ok(Target::unix(path));
        }
        let Some(rest) = url.strip_prefix("redis://") else {
            bail!("'{url}' is neither redis://host:port[/database] nor unix:///path");
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
        }
    }
}

/// A connected socket of either kind.
#[derive(Debug)]
pub enum Stream {
    /// TCP, without delay.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Makes reads and writes return at once or wait.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }

    /// Ends reads that wait longer than `timeout`.
    ///
    /// # Errors
    /// When `timeout` is zero.
    pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
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
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["localhost:1", "unix://a.sock", "redis://a:1/x", "redis://u:p@a:1"] {
            assert!(url.parse::<Target>().is_err(), "{url}");
        }
    }
}
