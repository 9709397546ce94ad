//! A server without a store: what a server on this machine takes for a request at least.
//!
//! It answers each `get` of memcached's protocol with the same value and all else with `STORED`,
//! one request for each receive, with the system calls that Forebay makes: a wait, then a receive
//! and a send for each connection that is ready.

use std::net::Ipv4Addr;

use sys::poll::{Events, Interest, Poller};
use sys::socket::{Listener, Received, Stream};

use crate::memcached::VALUE_BYTES;

/// The hidden command that runs it.
pub const BARE_COMMAND: &str = "bare-server";
/// Connections of one wait.
const EVENTS_MAX: usize = 512;
const RECEIVE_BYTES: usize = 64 * 1024;
const BACKLOG: u32 = 511;
/// Behind the indexes of connections.
const LISTENER: u64 = u64::MAX;

/// Serves on `port` until it is killed.
///
/// # Errors
/// When the port is taken, or no descriptors are left.
pub fn serve(port: u16) -> anyhow::Result<()> {
    let listener = Listener::tcp((Ipv4Addr::LOCALHOST, port).into(), BACKLOG)?;
    let (poller, mut events) = (Poller::new()?, Events::with_capacity(EVENTS_MAX));
    poller.add(&listener, LISTENER, Interest::ReadableLevel)?;
    let hit = format!("VALUE key:000000 0 {VALUE_BYTES}\r\n{}\r\nEND\r\n", "v".repeat(VALUE_BYTES));
    let mut streams: Vec<Option<Stream>> = Vec::new();
    let mut buffer = vec![0; RECEIVE_BYTES];
    loop {
        poller.wait(&mut events, None)?;
        for token in (0..events.len()).map(|index| events.at(index).token) {
            if token == LISTENER {
                let Some((stream, _)) = listener.accept()? else { continue };
                stream.set_no_delay()?;
                poller.add(&stream, streams.len() as u64, Interest::Readable)?;
                streams.push(Some(stream));
                continue;
            }
            let Some(stream) = &streams[token as usize] else { continue };
            match stream.receive(&mut buffer) {
                Ok(Received::Bytes(_)) => {
                    let is_get = buffer.starts_with(b"get ");
                    let reply = if is_get { hit.as_bytes() } else { b"STORED\r\n" };
                    stream.send(reply)?;
                }
                Ok(Received::Blocked) => {}
                Ok(Received::End) | Err(_) => streams[token as usize] = None,
            }
        }
    }
}
