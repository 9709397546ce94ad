//! The least that two processes of this machine need: a round trip that carries nothing, by futex,
//! by unix socket and by spinning; and what a copy costs.
//!
//! The other end of the round trips is this program once more, the partner, in a process that, like
//! servers and clients, is neither pinned to a processor nor given another priority.

use std::hint::{black_box, spin_loop};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sys::futex::{self, Waited};
use sys::memfd_segments::SharedBlock;

/// The hidden subcommand that is the partner.
pub const PARTNER_COMMAND: &str = "floor-partner";

const BLOCK_BYTES: u64 = 4096;
/// The words of the two sides, each with two cache lines to itself.
const PING_AT: usize = 16;
const PONG_AT: usize = 48;
/// The ping after which the partner waits for its next order.
const STOP: u32 = u32::MAX;
/// The byte that ends a round of the socket.
const STOP_BYTE: u8 = b'.';
/// A side that hears nothing for so long gives up: the other has died.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Looks between two looks at the clock while spinning.
const SPINS_PER_LOOK: u32 = 1 << 16;

/// A round trip that carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PingPong {
    /// Both sides sleep for a word of shared memory.
    Futex,
    /// Both sides block in a read of one byte.
    Socket,
    /// Both sides look at a word of shared memory without a pause.
    Spin,
}

impl PingPong {
    /// Every kind.
    pub const ALL: [PingPong; 3] = [PingPong::Futex, PingPong::Socket, PingPong::Spin];

    /// Returns its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            PingPong::Futex => "futex ping-pong",
            PingPong::Socket => "unix socket ping-pong",
            PingPong::Spin => "spin ping-pong",
        }
    }

    fn order(self) -> u8 {
        match self {
            PingPong::Futex => b'f',
            PingPong::Socket => b'u',
            PingPong::Spin => b's',
        }
    }

    fn of_order(order: u8) -> Option<PingPong> {
        PingPong::ALL.into_iter().find(|kind| kind.order() == order)
    }

    /// Returns how many round trips are timed together: reading the clock costs as much as a short
    /// one.
    fn group(self) -> u32 {
        if self == PingPong::Spin { 32 } else { 1 }
    }
}

/// The other process; it ends with its standard input, which is the socket.
pub struct Partner {
    child: Child,
    stream: Option<UnixStream>,
    block: SharedBlock,
}

impl Partner {
    /// Starts it.
    ///
    /// # Errors
    /// When this program cannot be started once more.
    pub fn start() -> anyhow::Result<Partner> {
        let block = SharedBlock::create(BLOCK_BYTES, BLOCK_BYTES)?;
        let (stream, other) = UnixStream::pair()?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let memory = format!("/proc/{}/fd/{}", std::process::id(), block.as_fd().as_raw_fd());
        let child = Command::new(std::env::current_exe()?)
            .args([PARTNER_COMMAND, &memory])
            .stdin(Stdio::from(OwnedFd::from(other)))
            .spawn()
            .context("starting the partner of the ping-pongs")?;
        Ok(Partner { child, stream: Some(stream), block })
    }

    /// Plays `kind` for `slice` and returns the nanoseconds of each round trip.
    ///
    /// # Errors
    /// When the partner is gone.
    pub fn play(&mut self, kind: PingPong, slice: Duration) -> anyhow::Result<Vec<f64>> {
        let stream = self.stream.as_mut().expect("it is there until the drop");
        let words = self.block.words();
        let (ping, pong) = (&words[PING_AT], &words[PONG_AT]);
        ping.store(0, Ordering::Relaxed);
        pong.store(0, Ordering::Release);
        stream.write_all(&[kind.order()])?;
        let mut ready = [0];
        stream.read_exact(&mut ready)?;
        ensure!(ready[0] == kind.order(), "the partner is out of step");
        let (mut samples, mut turn, group) = (Vec::new(), 0, kind.group());
        let end = Instant::now() + slice;
        let mut started = Instant::now();
        while started < end || samples.is_empty() {
            for _ in 0..group {
                turn += 1;
                match kind {
                    PingPong::Futex => {
                        ping.store(u64::from(turn), Ordering::Release);
                        futex::wake(ping);
                        await_futex(pong, turn - 1)?;
                    }
                    PingPong::Spin => {
                        ping.store(u64::from(turn), Ordering::Release);
                        await_spinning(pong, turn - 1)?;
                    }
                    PingPong::Socket => {
                        stream.write_all(&[0])?;
                        stream.read_exact(&mut ready)?;
                    }
                }
            }
            let now = Instant::now();
            samples.push((now - started).as_nanos() as f64 / f64::from(group));
            started = now;
        }
        match kind {
            PingPong::Socket => stream.write_all(&[STOP_BYTE])?,
            PingPong::Futex | PingPong::Spin => {
                ping.store(u64::from(STOP), Ordering::Release);
                futex::wake(ping);
            }
        }
        // The partner has seen the end before the words begin anew.
        stream.read_exact(&mut ready)?;
        ensure!(ready[0] == STOP_BYTE, "the partner is out of step");
        Ok(samples)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.stream = None;
        // Its own failure leaves nothing to be done here.
        let _ = self.child.wait();
    }
}

/// The partner: plays what it is told to until standard input ends. `memory` is the path of the
/// shared memory.
///
/// # Errors
/// When the other process stops in the middle of a play.
pub fn partner(memory: &std::path::Path) -> anyhow::Result<()> {
    let file = std::fs::File::options().read(true).write(true).open(memory)?;
    let block = SharedBlock::open(file.into(), BLOCK_BYTES)?;
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    loop {
        let mut order = [0];
        if stream.read(&mut order)? == 0 {
            return Ok(());
        }
        let kind = PingPong::of_order(order[0]).context("an order that is none")?;
        stream.write_all(&order)?;
        answer(kind, &block, &mut stream)?;
        stream.write_all(&[STOP_BYTE])?;
    }
}

fn answer(kind: PingPong, block: &SharedBlock, stream: &mut UnixStream) -> anyhow::Result<()> {
    let (ping, pong) = (&block.words()[PING_AT], &block.words()[PONG_AT]);
    let (mut seen, mut byte) = (0, [0]);
    loop {
        match kind {
            PingPong::Socket => {
                stream.read_exact(&mut byte)?;
                if byte[0] == STOP_BYTE {
                    return Ok(());
                }
                stream.write_all(&byte)?;
                continue;
            }
            PingPong::Futex => seen = await_futex(ping, seen)?,
            PingPong::Spin => seen = await_spinning(ping, seen)?,
        }
        if seen == STOP {
            return Ok(());
        }
        pong.store(u64::from(seen), Ordering::Release);
        if kind == PingPong::Futex {
            futex::wake(pong);
        }
    }
}

/// Sleeps until `word` is no longer `old`; returns what it is.
fn await_futex(word: &AtomicU64, old: u32) -> io::Result<u32> {
    loop {
        let found = word.load(Ordering::Acquire) as u32;
        if found != old {
            return Ok(found);
        }
        if futex::wait(word, old, SILENCE_MAX)? == Waited::TimedOut {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

/// Looks until `word` is no longer `old`; returns what it is.
fn await_spinning(word: &AtomicU64, old: u32) -> io::Result<u32> {
    let begin = Instant::now();
    loop {
        for _ in 0..SPINS_PER_LOOK {
            let found = word.load(Ordering::Acquire) as u32;
            if found != old {
                return Ok(found);
            }
            spin_loop();
        }
        if begin.elapsed() > SILENCE_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

/// Two buffers, both in use, between which is copied.
pub struct Copies {
    source: Vec<u8>,
    target: Vec<u8>,
}

impl Copies {
    /// Returns buffers for copies of up to `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Copies {
        Copies { source: vec![1; bytes_max], target: vec![2; bytes_max] }
    }

    /// Copies `bytes` bytes for `slice` and returns the nanoseconds of each copy.
    pub fn play(&mut self, bytes: usize, slice: Duration) -> Vec<f64> {
        let group = if bytes <= 4096 { 64 } else { 1 };
        let (mut samples, end) = (Vec::new(), Instant::now() + slice);
        let mut started = Instant::now();
        while started < end || samples.is_empty() {
            for _ in 0..group {
                let source = black_box(&self.source[..bytes]);
                black_box(&mut self.target[..bytes]).copy_from_slice(source);
            }
            let now = Instant::now();
            samples.push((now - started).as_nanos() as f64 / f64::from(group));
            started = now;
        }
        samples
    }
}
