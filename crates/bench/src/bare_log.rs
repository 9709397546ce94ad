//! A server with a log and no store: what a server on this machine takes at least, where a sync is
//! quick, for a write that is on the disk before its reply.
//!
//! It understands RESP, keeps no data, and replies `OK` to each request but PING and INFO. Requests
//! that come at the same time are one write to a file and one sync, as of Forebay's under
//! `appendfsync always`: it looks for more of them before the sync while each look brings some. It
//! serves nobody during a sync, so that one that is slow costs it more than it does Forebay. The
//! file is written and made durable before the first request, and written from its beginning again
//! where it ends, so that no sync has to wait for metadata.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use resp::{Batch, Decoder, Limits, Next};
use sys::poll::{Events, Interest, Poller};
use sys::socket::{Listener, Received, Stream};

/// The hidden command that runs it.
pub const BARE_LOG_COMMAND: &str = "bare-log";
const EVENTS_MAX: usize = 512;
const RECEIVE_BYTES: usize = 64 * 1024;
const REQUESTS_PER_BATCH: usize = 1024;
const BACKLOG: u32 = 511;
const SOCKET_MODE: u32 = 0o600;
const FILE_BYTES: usize = 64 << 20;
/// Above the indexes of connections: the two listeners.
const LISTENERS: [u64; 2] = [u64::MAX, u64::MAX - 1];

/// One client.
struct Client {
    stream: Stream,
    decoder: Decoder,
    /// Room for what arrives; its first `filled` bytes wait for the rest of a request.
    received: Vec<u8>,
    filled: usize,
    replies: Vec<u8>,
}

/// The file, and what is still to be written to it.
struct Log {
    file: File,
    position: u64,
    records: Vec<u8>,
    changes: u64,
    syncs: u64,
    bytes: u64,
}

/// Serves on `port` and on the unix socket at `socket` until it is killed; its log is in `folder`.
///
/// # Errors
/// When a listener cannot be had, or the file cannot be written.
pub fn serve(port: u16, socket: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut log = Log::create(&folder.join("log"))?;
    let tcp = Listener::tcp((Ipv4Addr::LOCALHOST, port).into(), BACKLOG)?;
    let unix = Listener::unix(socket, SOCKET_MODE, BACKLOG)?;
    let listeners = [tcp, unix];
    let (poller, mut events) = (Poller::new()?, Events::with_capacity(EVENTS_MAX));
    for (listener, token) in listeners.iter().zip(LISTENERS) {
        poller.add(listener, token, Interest::ReadableLevel)?;
    }
    let (mut clients, mut client_count) = (Vec::<Option<Client>>::new(), 0);
    let mut batch = Batch::new();
    let mut waiting: Vec<usize> = Vec::new();
    loop {
        poller.wait(&mut events, (!waiting.is_empty()).then_some(Duration::ZERO))?;
        let waited_before = waiting.len();
        for token in (0..events.len()).map(|index| events.at(index).token) {
            if let Some(listener) = LISTENERS.iter().position(|one| *one == token) {
                let Some((stream, _)) = listeners[listener].accept()? else { continue };
                poller.add(&stream, clients.len() as u64, Interest::Readable)?;
                clients.push(Some(Client::new(stream)));
                client_count += 1;
                continue;
            }
            let index = token as usize;
            let Some(client) = &mut clients[index] else { continue };
            let was_waiting = !client.replies.is_empty();
            match client.serve(&mut batch, &mut log) {
                Ok(true) if was_waiting || client.replies.is_empty() => {}
                Ok(true) => waiting.push(index),
                Ok(false) | Err(_) => (clients[index], client_count) = (None, client_count - 1),
            }
        }
        let brings_none = waiting.len() == waited_before;
        if !waiting.is_empty() && (brings_none || waiting.len() == client_count) {
            log.sync()?;
            for index in waiting.drain(..) {
                let Some(client) = &mut clients[index] else { continue };
                // A client that has gone meanwhile is found out by its next event.
                let _ = client.stream.send(&client.replies);
                client.replies.clear();
            }
        }
    }
}

impl Client {
    fn new(stream: Stream) -> Client {
        let (decoder, received) = (Decoder::new(), vec![0; RECEIVE_BYTES]);
        Client { stream, decoder, received, filled: 0, replies: Vec::new() }
    }

    /// Receives what there is; returns whether the client is still there. Events are edges: what
    /// fills the room may not be all.
    fn serve(&mut self, batch: &mut Batch, log: &mut Log) -> io::Result<bool> {
        loop {
            let room = self.received.len() - self.filled;
            let count = match self.stream.receive(&mut self.received[self.filled..])? {
                Received::Bytes(count) => count,
                Received::Blocked => return Ok(true),
                Received::End => return Ok(false),
            };
            self.filled += count;
            if !self.take_requests(batch, log) {
                return Ok(false);
            }
            if self.filled == self.received.len() {
                self.received.resize(2 * self.filled, 0);
            }
            if count < room {
                return Ok(true);
            }
        }
    }

    /// Answers the requests that are there; returns whether they keep the protocol.
    fn take_requests(&mut self, batch: &mut Batch, log: &mut Log) -> bool {
        loop {
            let bytes = &mut self.received[..self.filled];
            let decoded = self.decoder.decode(bytes, batch, REQUESTS_PER_BATCH, &Limits::REDIS);
            for request in batch.view(&self.received).iter() {
                match request.at(0) {
                    b"PING" => self.replies.extend_from_slice(b"+PONG\r\n"),
                    b"INFO" => log.describe(&mut self.replies),
                    _ => {
                        log.changes += 1;
                        self.replies.extend_from_slice(b"+OK\r\n");
                    }
                }
            }
            log.records.extend_from_slice(&self.received[..decoded.consumed]);
            self.received.copy_within(decoded.consumed..self.filled, 0);
            self.filled -= decoded.consumed;
            match decoded.next {
                Next::Full => {}
                Next::Wanted(_) => return true,
                Next::Failed(_) => return false,
            }
        }
    }
}

impl Log {
    fn create(path: &Path) -> io::Result<Log> {
        let file = File::create(path)?;
        file.write_all_at(&vec![0; FILE_BYTES], 0)?;
        file.sync_all()?;
        Ok(Log { file, position: 0, records: Vec::new(), changes: 0, syncs: 0, bytes: 0 })
    }

    /// Makes what came since the last call durable.
    fn sync(&mut self) -> io::Result<()> {
        let end = self.position + self.records.len() as u64;
        let position = if end > FILE_BYTES as u64 { 0 } else { self.position };
        self.file.write_all_at(&self.records, position)?;
        self.file.sync_data()?;
        self.position = position + self.records.len() as u64;
        (self.syncs, self.bytes) = (self.syncs + 1, self.bytes + self.records.len() as u64);
        self.records.clear();
        Ok(())
    }

    /// Says what a comparison asks a server's log for.
    fn describe(&self, out: &mut Vec<u8>) {
        let Log { changes, syncs, bytes, .. } = self;
        let text = format!(
            "log_fsyncs:{syncs}\r\nlog_frames:{syncs}\r\nlog_written_bytes:{bytes}\r\n\
             rdb_changes_since_last_save:{changes}\r\n"
        );
        out.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
    }
}
