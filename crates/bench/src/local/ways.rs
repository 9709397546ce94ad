//! The rows of the table `local`, and the threads that perform them.
//!
//! A thread stands for one client, and keeps a connection of each kind for as long as it lives. The
//! requests of lanes and sockets are written and decoded by the same code (`wire.rs`), so that what
//! differs is what carries them.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use client::{Client, Lane, Mode, UploadBuffer, Uploads};
use resp::Value;

use crate::target::Target;
use crate::wire::Wire;

/// Keys of one MGET.
pub const MGET_KEYS: usize = 10;
/// The byte that fills every value.
const FILL: u8 = b'v';
/// Values up to this size are copied, not pinned.
pub const COPIED_BYTES_MAX: usize = 4096;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// One value is read.
    Get,
    /// One value is written.
    Set,
    /// Ten values are read.
    Mget,
}

impl Act {
    /// Returns its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Act::Get => "GET",
            Act::Set => "SET",
            Act::Mget => "MGET 10",
        }
    }
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Read in the server's memory, copied to a buffer of the reader's.
    Copied,
    /// Read in the server's memory, by a view that keeps the value as it is; a copy where it is
    /// small.
    View,
    /// Written by the client's `put`, as it sees fit.
    Put,
    /// Written to upload memory, where the server leaves it; it copies what is small.
    PutAdopt,
    /// Written to upload memory, from which the server copies it.
    PutCopy,
    /// Through a lane.
    Lane,
    /// Over the unix socket.
    Unix,
    /// Over TCP.
    Tcp,
    /// The other server, over its unix socket.
    Other,
}

impl Way {
    /// The ways to put a value, with the most that each may take of a copy of 4 MiB.
    pub const PUTS: [(Way, &'static str, f64); 2] =
        [(Way::PutAdopt, "put adopt", 1.3), (Way::PutCopy, "put copy", 2.5)];

    /// Returns its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Way::Copied => "one-sided, copied",
            Way::View => "one-sided, view",
            Way::Put => "put",
            Way::PutAdopt => "put adopt",
            Way::PutCopy => "put copy",
            Way::Lane => "lane",
            Way::Unix => "unix socket",
            Way::Tcp => "TCP",
            Way::Other => "other, unix socket",
        }
    }

    /// Returns whether requests are sent and replies awaited, by the code that is the same for all.
    fn is_asked(self) -> bool {
        matches!(self, Way::Lane | Way::Unix | Way::Tcp | Way::Other)
    }

    /// Returns whether it reads in the server's memory.
    fn is_read(self) -> bool {
        matches!(self, Way::Copied | Way::View)
    }

    /// Returns what becomes of an upload.
    fn upload_mode(self) -> Option<Mode> {
        match self {
            Way::PutAdopt => Some(Mode::Adopt),
            Way::PutCopy => Some(Mode::Copy),
            _ => None,
        }
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// What is done.
    pub act: Act,
    /// How.
    pub way: Way,
    /// Bytes of each value.
    pub bytes: usize,
    /// Requests that are sent together.
    pub pipeline: usize,
    /// Clients that do it at once, each in a thread of its own.
    pub clients: usize,
    /// The server's workers sleep at once (`busy-poll no`), so that their processor time is that of
    /// the requests alone; else they look for the next request as they are configured to.
    pub is_asleep: bool,
}

impl Row {
    /// Returns its name, unique in the table.
    pub fn name(&self) -> String {
        let Row { act, way, bytes, pipeline, clients, is_asleep } = *self;
        let (act, way) = (act.name(), way.name());
        let suffix = if is_asleep { ", asleep" } else { "" };
        format!("{act} {} {way} P{pipeline} C{clients}{suffix}", size_name(bytes))
    }

    /// Returns how many operations are timed together: reading the clock costs as much as a read
    /// in the memory.
    fn group(&self) -> usize {
        let is_brief = self.way == Way::View || self.bytes <= COPIED_BYTES_MAX;
        match (self.way.is_read(), self.act) {
            (false, _) => 1,
            (true, Act::Mget) => 8,
            (true, _) if is_brief => 64,
            (true, _) => 1,
        }
    }
}

/// Returns how many keys are read or written in turn: as many as stay in a processor's caches.
fn key_count(act: Act, bytes: usize) -> usize {
    match (act, bytes) {
        (Act::Mget, _) => MGET_KEYS,
        (_, 0..=1024) => 64,
        (_, 1025..=16_384) => MGET_KEYS,
        _ => 1,
    }
}

/// Returns all rows over values of `sizes`, for one client and for `clients`.
pub fn rows(sizes: &[usize], clients: usize, pipeline: usize) -> Vec<Row> {
    use Way::{Copied, Lane, Other, Put, PutAdopt, PutCopy, Tcp, Unix, View};
    const ASKED: [Way; 4] = [Lane, Unix, Tcp, Other];
    let mut rows = Vec::new();
    let mut counts = vec![1, clients];
    counts.dedup();
    for clients in counts {
        let mut add = |act, ways: &[Way], bytes, pipeline, is_asleep| {
            let row = |&way| Row { act, way, bytes, pipeline, clients, is_asleep };
            rows.extend(ways.iter().map(row));
        };
        for &bytes in sizes {
            add(Act::Get, &[Copied, View], bytes, 1, false);
            add(Act::Get, &ASKED, bytes, 1, false);
            add(Act::Set, &[Put, PutAdopt, PutCopy], bytes, 1, false);
            add(Act::Set, &ASKED, bytes, 1, false);
            add(Act::Mget, &[View], bytes, 1, false);
            add(Act::Mget, &ASKED, bytes, 1, false);
        }
        for act in [Act::Get, Act::Set] {
            add(act, &ASKED, sizes[0], pipeline, false);
            add(act, &[Lane, Unix, Tcp], sizes[0], 1, true);
            add(act, &[Lane, Unix, Tcp], sizes[0], pipeline, true);
        }
    }
    // One section, so that the server is told but once in each round.
    rows.sort_by_key(|row| row.is_asleep);
    rows
}

/// Returns `bytes` as the table has it.
pub fn size_name(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

/// Where the servers are.
#[derive(Clone, Debug)]
pub struct Targets {
    /// The URL of the server for clients that map its memory.
    pub url: String,
    /// Lanes of the server.
    pub shm: Target,
    /// Its unix socket.
    pub unix: Target,
    /// Its port.
    pub tcp: Target,
    /// The unix socket of the other server.
    pub other: Target,
}

impl Targets {
    fn target(&self, way: Way) -> &Target {
        match way {
            Way::Lane => &self.shm,
            Way::Tcp => &self.tcp,
            Way::Other => &self.other,
            _ => &self.unix,
        }
    }
}

/// Stores what the rows of `sizes` read.
///
/// # Errors
/// When the server at `target` does not take it.
pub fn preload(target: &Target, sizes: &[usize]) -> anyhow::Result<()> {
    let mut wire = Wire::connect(target)?;
    for &bytes in sizes {
        let value = vec![FILL; bytes];
        for index in 0..key_count(Act::Get, bytes).max(MGET_KEYS) {
            wire.call(&[b"SET", read_key(bytes, index).as_bytes(), &value])?;
        }
    }
    Ok(())
}

fn read_key(bytes: usize, index: usize) -> String {
    format!("r:{bytes:07}:{index:03}")
}

fn written_key(bytes: usize, client: usize, index: usize) -> String {
    format!("w:{bytes:07}:{client:02}:{index:03}")
}

/// What a slice of a row came to, for one client.
#[derive(Debug)]
pub struct Slice {
    /// Nanoseconds of each operation, of each group of them where they are brief, or of each batch
    /// where they are pipelined.
    pub samples: Vec<f64>,
    /// Operations.
    pub operations: u64,
    /// Between the first and the last.
    pub elapsed: Duration,
    /// Allocations of the thread.
    pub allocations: u64,
}

/// The clients, each a thread.
pub struct ClientThreads {
    tasks: Vec<Sender<(Row, Duration)>>,
    slices: Receiver<anyhow::Result<Slice>>,
}

impl ClientThreads {
    /// Starts `count` clients of the servers at `targets`. They end with what is returned.
    pub fn start(count: usize, targets: &Targets) -> ClientThreads {
        let (sender, slices) = channel();
        let start = |index| {
            let (tasks, waiting) = channel::<(Row, Duration)>();
            let (sender, mut client) = (sender.clone(), ClientThread::new(index, targets.clone()));
            thread::spawn(move || {
                for (row, slice) in waiting {
                    if sender.send(client.run(&row, slice)).is_err() {
                        return;
                    }
                }
            });
            tasks
        };
        ClientThreads { tasks: (0..count).map(start).collect(), slices }
    }

    /// Performs `row` for `time`, by as many clients as it says at once.
    ///
    /// # Errors
    /// When an operation fails or returns something else than what was stored.
    pub fn run(&self, row: &Row, time: Duration) -> anyhow::Result<Vec<Slice>> {
        for tasks in &self.tasks[..row.clients] {
            tasks.send((*row, time)).ok().context("a client has ended")?;
        }
        // All are heard of, so that none works on beside what follows.
        let slices: Vec<_> = self.slices.iter().take(row.clients).collect();
        let slices: anyhow::Result<Vec<Slice>> = slices.into_iter().collect();
        slices.with_context(|| row.name())
    }
}

/// One client with its connections.
struct ClientThread {
    index: usize,
    targets: Targets,
    client: Option<Client>,
    wires: HashMap<Way, Wire>,
    uploader: Option<Uploader>,
    /// Where values are copied.
    buffer: Vec<u8>,
    /// What is written.
    value: Vec<u8>,
}

impl ClientThread {
    fn new(index: usize, targets: Targets) -> ClientThread {
        let (buffer, value) = (Vec::new(), Vec::new());
        let wires = HashMap::new();
        ClientThread { index, targets, client: None, wires, uploader: None, buffer, value }
    }

    fn run(&mut self, row: &Row, time: Duration) -> anyhow::Result<Slice> {
        let keys = self.keys(row);
        self.value.resize(row.bytes, FILL);
        self.buffer.reserve(row.bytes);
        // A sample is a push into room that is there.
        let mut samples = Vec::with_capacity(1 << 17);
        if row.way.is_asked() {
            if !self.wires.contains_key(&row.way) {
                self.wires.insert(row.way, Wire::connect(self.targets.target(row.way))?);
            }
        } else if self.client.is_none() {
            self.client = Some(Client::connect(&self.targets.url)?);
        }
        if row.way.upload_mode().is_some() {
            if self.uploader.is_none() {
                self.uploader = Some(Uploader::new(&self.targets.shm)?);
            }
            let uploader = self.uploader.as_mut().expect("it was made just now");
            uploader.prepare(row.bytes as u64)?;
        }
        let (group, mut turn, mut operations) = (row.group(), 0, 0);
        let allocations = sys::allocations::of_this_thread();
        let began = Instant::now();
        let (end, mut started) = (began + time, began);
        while samples.len() < samples.capacity() && (started < end || samples.is_empty()) {
            for _ in 0..group {
                self.perform(row, &keys, turn)?;
                turn += row.pipeline;
            }
            let now = Instant::now();
            samples.push((now - started).as_nanos() as f64 / group as f64);
            operations += (group * row.pipeline) as u64;
            started = now;
        }
        let allocations = sys::allocations::of_this_thread() - allocations;
        Ok(Slice { samples, operations, elapsed: started - began, allocations })
    }

    fn keys(&self, row: &Row) -> Vec<Vec<u8>> {
        let key = |index| match row.act {
            Act::Set => written_key(row.bytes, self.index, index),
            Act::Get | Act::Mget => read_key(row.bytes, index),
        };
        (0..key_count(row.act, row.bytes)).map(|index| key(index).into_bytes()).collect()
    }

    /// Does `row` once, or as often as its pipeline is long.
    #[inline]
    fn perform(&mut self, row: &Row, keys: &[Vec<u8>], turn: usize) -> anyhow::Result<()> {
        let key = &keys[turn % keys.len()];
        let client = || self.client.as_ref().expect("it is there for ways that need it");
        match (row.way, row.act) {
            (Way::Copied, _) => {
                ensure!(client().get_into(key, &mut self.buffer)?, "a key is gone");
                check(&self.buffer, row.bytes)
            }
            (Way::View, Act::Mget) => {
                let keys: [&[u8]; MGET_KEYS] = std::array::from_fn(|index| keys[index].as_slice());
                for view in client().mget(&keys)? {
                    check(&view.context("a key is gone")?, row.bytes)?;
                }
                Ok(())
            }
            (Way::View, _) => {
                let view = client().get(key)?.context("a key is gone")?;
                let is_small = row.bytes <= COPIED_BYTES_MAX;
                ensure!(view.is_pinned() || is_small, "a large value was copied");
                check(&view, row.bytes)
            }
            (Way::Put, _) => Ok(client().put(key, &self.value)?),
            (Way::PutAdopt | Way::PutCopy, _) => {
                let uploader = self.uploader.as_mut().expect("it was made");
                let mode = row.way.upload_mode().expect("these two have one");
                uploader.put(mode, key, &self.value)
            }
            (Way::Lane | Way::Unix | Way::Tcp | Way::Other, _) => {
                let wire = self.wires.get_mut(&row.way).expect("it was connected");
                ask(wire, row, keys, turn, &self.value)
            }
        }
    }
}

/// What puts values by upload, as a client does that knows the size of its next value: a round trip
/// stores a value and asks for a buffer for the next.
struct Uploader {
    lane: Lane,
    uploads: Uploads,
    /// The buffer of the next value, and its size.
    buffer: Option<(UploadBuffer, u64)>,
}

/// The upload memory of a client: a value of 4 MiB that is replaced while the next one is written,
/// and the other sizes before it.
const UPLOAD_BYTES: u64 = 32 << 20;

impl Uploader {
    fn new(target: &Target) -> anyhow::Result<Uploader> {
        let lane = target.lane(None)?;
        let uploads = lane.uploads(UPLOAD_BYTES)?;
        Ok(Uploader { lane, uploads, buffer: None })
    }

    /// Sees to it that there is a buffer for a value of `bytes`.
    fn prepare(&mut self, bytes: u64) -> anyhow::Result<()> {
        if self.buffer.as_ref().is_some_and(|(_, size)| *size == bytes) {
            return Ok(());
        }
        let lane = &mut self.lane;
        if let Some((buffer, _)) = self.buffer.take() {
            let offset = buffer.offset();
            drop(buffer);
            self.uploads.give_back(offset, |requests| lane.pipeline(requests))?;
        }
        let buffer = self.uploads.allocate(bytes, |requests| lane.pipeline(requests))?;
        self.buffer = Some((buffer, bytes));
        Ok(())
    }

    fn put(&mut self, mode: Mode, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let (mut buffer, bytes) = self.buffer.take().context("no buffer was prepared")?;
        let mode = self.lane.fill(&mut buffer, value, mode, key)?;
        let (lane, target) = (&mut self.lane, (key, &[][..]));
        let send = |requests: &[&[&[u8]]]| lane.pipeline(requests);
        let (reply, next) =
            self.uploads.commit((buffer, value.len() as u64), mode, target, bytes, send)?;
        ensure!(matches!(reply, Value::Simple(_)), "COMMIT replied {reply:?}");
        self.buffer = next.map(|buffer| (buffer, bytes));
        Ok(())
    }
}

/// Sends the requests of `row` together and awaits their replies.
fn ask(
    wire: &mut Wire,
    row: &Row,
    keys: &[Vec<u8>],
    turn: usize,
    value: &[u8],
) -> anyhow::Result<()> {
    for index in turn..turn + row.pipeline {
        let key = &keys[index % keys.len()];
        match row.act {
            Act::Get => wire.queue(&[b"GET", key]),
            Act::Set => wire.queue(&[b"SET", key, value]),
            Act::Mget => {
                let mut request: [&[u8]; MGET_KEYS + 1] = [b"MGET"; MGET_KEYS + 1];
                for (word, key) in request[1..].iter_mut().zip(keys) {
                    *word = key;
                }
                wire.queue(&request);
            }
        }
    }
    wire.send()?;
    for _ in 0..row.pipeline {
        match (row.act, wire.receive()?) {
            (Act::Get, Value::Bulk(found)) => check(&found, row.bytes)?,
            (Act::Set, Value::Simple(_)) => {}
            (Act::Mget, Value::Array(found)) if found.len() == MGET_KEYS => {
                for value in found {
                    check(value.as_bytes().context("a key is gone")?, row.bytes)?;
                }
            }
            (_, other) => bail!("the reply was {other:?}"),
        }
    }
    Ok(())
}

/// Looks at the middle of a value and at its length.
#[inline]
fn check(found: &[u8], bytes: usize) -> anyhow::Result<()> {
    ensure!(found.len() == bytes, "{} bytes", found.len());
    ensure!(black_box(found)[bytes / 2] == FILL, "another value than was stored");
    Ok(())
}
