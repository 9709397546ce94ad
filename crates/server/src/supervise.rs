//! Telling who started the server how it is: systemd by its socket, upstart by a stop.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Who is told.
#[derive(Debug)]
pub enum Supervisor {
    /// Nobody.
    None,
    /// systemd, or who speaks its protocol.
    Systemd {
        /// Where the messages go.
        socket: UnixDatagram,
        /// Whose they are.
        address: SocketAddr,
    },
    /// upstart, which waits for the process to stop.
    Upstart,
}

impl Supervisor {
    /// Returns the supervisor that `supervised` asks for, with a sentence for the log where it asks
    /// for one that is not there.
    pub fn find(supervised: &str) -> (Supervisor, Option<String>) {
        let absent = |name: &str, variable: &str| {
            let message = format!("{name} supervision requested, but {variable} not found!");
            (Supervisor::None, Some(message))
        };
        match supervised {
            "systemd" => match systemd() {
                Some(found) => (found, None),
                None => absent("systemd", "NOTIFY_SOCKET"),
            },
            "upstart" if is_under_upstart() => (Supervisor::Upstart, None),
            "upstart" => absent("upstart", "UPSTART_JOB"),
            "auto" if is_under_upstart() => (Supervisor::Upstart, None),
            "auto" => (systemd().unwrap_or(Supervisor::None), None),
            _ => (Supervisor::None, None),
        }
    }

    /// Returns whether there is one.
    pub fn is_some(&self) -> bool {
        !matches!(self, Supervisor::None)
    }

    /// Returns its name, as INFO shows it.
    pub fn name(&self) -> &'static str {
        match self {
            Supervisor::None => "no",
            Supervisor::Systemd { .. } => "systemd",
            Supervisor::Upstart => "upstart",
        }
    }

    /// Tells that the server starts.
    pub fn starting(&self) {
        self.notify("STATUS=Forebay is starting...\n");
    }

    /// Tells that the server serves.
    pub fn ready(&self) {
        self.notify("STATUS=Ready to accept connections\nREADY=1\n");
        if let Supervisor::Upstart = self
            && let Err(error) = sys::process::stop()
        {
            tracing::warn!(%error, "Cannot stop for upstart");
        }
    }

    /// Tells that the server ends.
    pub fn stopping(&self) {
        self.notify("STATUS=Forebay is ending...\nSTOPPING=1\n");
    }

    fn notify(&self, message: &str) {
        let Supervisor::Systemd { socket, address } = self else { return };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
            tracing::warn!(%error, "Cannot notify systemd");
        }
    }
}

fn is_under_upstart() -> bool {
    env::var_os("UPSTART_JOB").is_some()
}

/// Returns the supervisor at NOTIFY_SOCKET: a path, or `@` and a name that is no file.
fn systemd() -> Option<Supervisor> {
    let name = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())?;
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let address = address.ok()?;
    let socket = sender().ok()?;
    Some(Supervisor::Systemd { socket, address })
}

/// A full queue must not make the server wait.
fn sender() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
