//! What the threads of a client share when the server is on the same host: the mapping of its
//! memory, the connection that keeps it, and a thread that notices the end of that connection, and
//! does what its lanes have left for later.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[cfg(feature = "tokio")]
use resp::Value as Reply;
use ring::lane::LaneShape;
use sys::poll::{Events, Interest, Poller, Waker};

use crate::address::Address;
use crate::attached::Attached;
use crate::connection::greeting;
use crate::control_connection::{ControlConnection, SharedControl};
use crate::error::{AttachError, ClientError};
use crate::key_wait::limit;
use crate::lane_connection::Lane;
use crate::late_tasks::{DELAY, LateTasks};
use crate::session_uploads::Uploads;
use crate::upload_buffers::UploadBuffers;

/// The size of each of the two rings of a lane: what is larger passes in parts.
const RING_BYTES: u64 = 64 * 1024;

/// A session of shared memory; it ends with the last client, connection and view that has it.
pub struct ShmSession {
    /// Absent where the server lets this process make lanes, but not read by itself.
    attached: Option<Attached>,
    control: Arc<SharedControl>,
    upload_buffers: UploadBuffers,
    late_tasks: Arc<LateTasks>,
    is_over: Arc<AtomicBool>,
    /// The watcher holds the other end, and goes when this one closes.
    _watched: UnixStream,
}

impl ShmSession {
    /// Connects to the unix socket at `path` and attaches, if the server lets this process. What is
    /// asked over its connection is given up after `timeout`, or else after 10 seconds: it makes
    /// lanes and tells of memory, which takes no longer.
    ///
    /// # Errors
    /// When the server does not answer, or refuses the password.
    pub fn open(
        path: &Path,
        address: &Address,
        timeout: Option<Duration>,
    ) -> Result<ShmSession, ClientError> {
        let mut control = ControlConnection::connect(path, None)?;
        control.set_timeout(Some(limit(timeout, Duration::ZERO)))?;
        if let Some(words) = greeting(address) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            control.ask(&words)?;
        }
        let (socket, is_over) = (control.socket()?, Arc::clone(&control.has_failed));
        let control = SharedControl::new(control);
        let attached = match Attached::over(&control) {
            Ok(attached) => Some(attached),
            Err(AttachError::Io(error)) if is_broken(&control)? => return Err(error.into()),
            // Another user, `shm-reads no`, another version, or no Forebay at all; or this process
            // may not map as much.
            Err(_) => None,
        };
        let (watched, late_tasks) = watch(socket, Arc::clone(&is_over))?;
        Ok(ShmSession {
            attached,
            control,
            upload_buffers: UploadBuffers::new(),
            late_tasks,
            is_over,
            _watched: watched,
        })
    }

    /// Returns what reads the memory, if the server lets this process.
    #[inline]
    pub fn attached(&self) -> Option<&Attached> {
        self.attached.as_ref()
    }

    /// Returns whether its connection has ended, and what the memory says is out of date; or was
    /// silent for too long, and nothing can be asked over it any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Has the next call make another session, as if its connection had ended. The server ends it
    /// with the last that has it.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns where large values are written.
    pub fn upload_buffers(&self) -> &UploadBuffers {
        &self.upload_buffers
    }

    /// Returns the memory that they lie in.
    pub fn uploads(&self) -> Uploads {
        Uploads::of(&self.control)
    }

    /// Returns what its thread does later.
    pub fn late_tasks(&self) -> &Arc<LateTasks> {
        &self.late_tasks
    }

    /// Asks over its connection, one request after the other. A refusal is a reply.
    ///
    /// # Errors
    /// When the server does not answer.
    #[cfg(feature = "tokio")]
    pub fn ask(&self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, AttachError> {
        let mut control = self.control.lock();
        let replies = requests.iter().map(|request| match control.ask(request) {
            Err(AttachError::Refused(text)) => Ok(Reply::Error(text.into_bytes())),
            asked => asked,
        });
        replies.collect()
    }

    /// Returns a lane of its own for one thread.
    ///
    /// # Errors
    /// When the server does not answer or allows no further lane.
    pub fn new_lane(&self) -> Result<Lane, ClientError> {
        let shape = LaneShape::new(RING_BYTES, RING_BYTES).expect("a power of two within bounds");
        let mut lane = Lane::open(&self.control, shape)?;
        lane.set_late_bell(&self.late_tasks);
        Ok(lane)
    }
}

/// Returns whether the connection has failed, and not only what it was asked for.
fn is_broken(control: &SharedControl) -> io::Result<bool> {
    control.lock().is_over()
}

/// Sets `is_over` once the peer of `socket` has closed, and does late tasks; ends when the socket
/// that it returns is closed.
///
/// A thread that sleeps while nothing is due, because a read that looked for itself would need a
/// system call.
fn watch(socket: UnixStream, is_over: Arc<AtomicBool>) -> io::Result<(UnixStream, Arc<LateTasks>)> {
    const SERVER: u64 = 0;
    const OWNER: u64 = 1;
    const LATE_TASKS: u64 = 2;
    let (watched, owner) = UnixStream::pair()?;
    let poller = Poller::new()?;
    poller.add(&socket, SERVER, Interest::Readable)?;
    poller.add(&owner, OWNER, Interest::Readable)?;
    let waker = Waker::new()?;
    poller.add(&waker, LATE_TASKS, Interest::Readable)?;
    let late_tasks = LateTasks::new(waker);
    let tasks = Arc::clone(&late_tasks);
    let watch = move || {
        let mut events = Events::with_capacity(3);
        let (mut limit, mut idle_rounds) = (None, 0);
        loop {
            let is_set_broken = poller.wait(&mut events, limit).is_err();
            let mut ended = (0..events.len()).map(|index| events.at(index)).filter(|it| it.hangup);
            if is_set_broken || ended.next().is_some() {
                // It also says so when it is the owner that has gone: nobody asks then.
                is_over.store(true, Ordering::Relaxed);
                drop((socket, owner));
                return;
            }
            // Woken, it waits before it looks: what came then may be rung for with something else.
            let is_woken = (0..events.len()).any(|index| events.at(index).token == LATE_TASKS);
            if is_woken {
                (limit, idle_rounds) = (Some(DELAY), 0);
            } else if limit.is_some() {
                limit = tasks.look(&mut idle_rounds);
            }
        }
    };
    thread::Builder::new().name("forebay-watch".to_owned()).spawn(watch)?;
    Ok((watched, late_tasks))
}
