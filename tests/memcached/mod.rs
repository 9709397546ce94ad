//! The protocol of memcached, compared with memcached 1.6.18, and what it has in common with RESP.

mod differential;
mod shared;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use harness::{Kind, Launch, Program, Server, command, free_port, poll};

/// A connection that speaks the text protocol.
pub struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    /// Connects to a port of this host.
    pub fn connect(port: u16) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).expect("a socket takes the option");
        Wire { stream, received: Vec::new() }
    }

    /// Sends `bytes`.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Sends `bytes` and a no-op, and returns what is replied before that of the no-op. There is
    /// none in `bytes`: its reply, when it comes alone, would be taken for the last.
    pub fn ask(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.send(bytes);
        self.send(b"mn\r\n");
        self.until(b"MN\r\n")
    }

    /// Returns what is received before `end`.
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut buffer = [0; 64 * 1024];
        loop {
            if self.received.ends_with(end) {
                let mut whole = std::mem::take(&mut self.received);
                whole.truncate(whole.len() - end.len());
                return whole;
            }
            let count = self.stream.read(&mut buffer).expect("the server replies");
            let shown = self.received.escape_ascii();
            assert!(count > 0, "the server closed behind {shown}");
            self.received.extend_from_slice(&buffer[..count]);
        }
    }

    /// Returns all that is received until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.received);
        self.stream.read_to_end(&mut rest).expect("the server closes");
        rest
    }
}

/// Starts Forebay with a port for clients of memcached.
pub fn forebay(options: &[(&str, &str)]) -> (Server, u16) {
    let port = free_port();
    let mut launch = Launch::new(Kind::Forebay).option("memcached-port", &port.to_string());
    for (name, value) in options {
        launch = launch.option(name, value);
    }
    (launch.start(), port)
}

/// Starts the memcached that is installed.
pub fn memcached(arguments: &[&str]) -> (Program, u16) {
    let port = free_port();
    let mut program = command("memcached");
    program.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-u", "root", "-t", "1"]);
    program.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let program = Program::start(program).expect("memcached is installed");
    poll("memcached to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
    (program, port)
}
