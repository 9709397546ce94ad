//! A lane as an object that behaves as a socket does, for who speaks the protocol himself.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::LaneStream;
use pyo3::exceptions::{
    PyBlockingIOError, PyBrokenPipeError, PyConnectionResetError, PyOSError, PyTimeoutError,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::timeout;
use crate::buffer::Input;

/// What one read takes out of the lane.
const READ_BYTES: usize = 64 * 1024;
/// What redis-py knows a socket without news by.
const EAGAIN: i32 = 11;
/// After so long a wait Python looks for signals.
const SLICE: Duration = Duration::from_millis(100);

/// A connection to the server through shared memory, with the methods of a socket.
///
/// It is one thread's at a time. A forked child has to leave it alone.
#[pyclass(frozen, weakref, module = "forebay._native")]
pub struct Lane {
    state: Mutex<State>,
    descriptor: i32,
}

struct State {
    /// Absent once it is closed.
    stream: Option<LaneStream>,
    /// What was taken out of the lane, and how much of that was returned.
    taken: Vec<u8>,
    returned: usize,
    /// The longest wait; `None` is for ever.
    timeout: Option<Duration>,
}

impl Lane {
    pub fn new(stream: LaneStream) -> Lane {
        let descriptor = stream.as_fd().as_raw_fd();
        let state = State { stream: Some(stream), taken: Vec::new(), returned: 0, timeout: None };
        Lane { state: Mutex::new(state), descriptor }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stream(&mut self) -> io::Result<&mut LaneStream> {
        let text = "the lane is closed, or its parent's";
        let found = self.stream.as_mut().filter(|stream| stream.is_own());
        found.ok_or_else(|| io::Error::new(ErrorKind::NotConnected, text))
    }

    /// Takes what has come, if there is nothing that was taken and not returned.
    fn try_take(&mut self) -> io::Result<usize> {
        if self.returned < self.taken.len() {
            return Ok(self.taken.len() - self.returned);
        }
        self.taken.resize(READ_BYTES, 0);
        self.returned = 0;
        let mut taken = std::mem::take(&mut self.taken);
        let received = self.stream().and_then(|stream| stream.try_receive(&mut taken));
        taken.truncate(*received.as_ref().unwrap_or(&0));
        self.taken = taken;
        match received {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(error),
            received => received,
        }
    }

    /// As `try_take`, but waits for `limit`; 0 where nothing has come by then.
    fn take_within(&mut self, limit: Duration) -> io::Result<usize> {
        let end = Instant::now() + limit;
        let mut taken = std::mem::take(&mut self.taken);
        taken.resize(READ_BYTES, 0);
        self.returned = 0;
        let received = self.stream().and_then(|stream| {
            stream.set_timeout(Some(end.saturating_duration_since(Instant::now())));
            stream.receive_into(&mut taken)
        });
        taken.truncate(*received.as_ref().unwrap_or(&0));
        self.taken = taken;
        match received {
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(0),
            received => received,
        }
    }

    /// Returns what was taken, at most `count` bytes of it.
    fn next(&mut self, count: usize) -> &[u8] {
        let start = self.returned;
        self.returned = self.taken.len().min(start.saturating_add(count));
        &self.taken[start..self.returned]
    }
}

#[pymethods]
impl Lane {
    /// Sends all of `data`; waits where there is no room.
    fn sendall(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let input = bytes_of(data)?;
        let bytes = input.bytes();
        // Nobody is waited for with the interpreter's lock: another thread may wait for a reply.
        let sent = match self.state.try_lock() {
            Ok(mut state) => state.stream().and_then(|stream| stream.try_send(bytes)),
            Err(_) => Ok(0),
        };
        let sent = sent.map_err(raised)?;
        if sent == bytes.len() {
            return Ok(());
        }
        let send = || {
            let mut state = self.state();
            let limit = state.timeout;
            let stream = state.stream()?;
            stream.set_timeout(limit);
            stream.send(&bytes[sent..])
        };
        py.detach(send).map_err(raised)
    }

    /// Sends of `data` what there is room for; returns how many bytes that is.
    fn send_some(&self, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let input = bytes_of(data)?;
        let mut state = self.state();
        state.stream().and_then(|stream| stream.try_send(input.bytes())).map_err(raised)
    }

    /// Returns at most `count` bytes that have come, and waits for the first; `b""` at the end.
    fn recv<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let is_over = !self.await_bytes(py)?;
        let mut state = self.state();
        let bytes = if is_over { &[] } else { state.next(count) };
        Ok(PyBytes::new(py, bytes))
    }

    /// As `recv`, into `buffer`; returns how many bytes, 0 at the end.
    fn recv_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let Some(mut target) = Input::of(buffer)? else {
            return Err(PyOSError::new_err("a writable buffer in one piece expected"));
        };
        let Some(target) = target.bytes_mut() else {
            return Err(PyOSError::new_err("the buffer is read-only"));
        };
        if !self.await_bytes(py)? {
            return Ok(0);
        }
        let mut state = self.state();
        let bytes = state.next(target.len());
        target[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Returns what has come and does not wait: `b""` where that is nothing, `None` at the end.
    fn recv_some<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut state = self.state();
        match state.try_take() {
            Ok(_) => Ok(Some(PyBytes::new(py, state.next(usize::MAX)))),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(raised(error)),
        }
    }

    /// Has the descriptor become readable once something has come, or there is room where that is
    /// wanted; returns false where it is so already.
    fn arm(&self, wants_room: bool) -> PyResult<bool> {
        let mut state = self.state();
        state.stream().and_then(|stream| stream.arm_doorbell(wants_room)).map_err(raised)
    }

    /// Has the descriptor not be readable any more.
    fn disarm(&self) -> PyResult<()> {
        match self.state().stream().and_then(|stream| stream.clear_doorbell()) {
            // What has come is there, and then the end.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(()),
            cleared => cleared.map_err(raised),
        }
    }

    fn settimeout(&self, seconds: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let seconds = timeout(seconds)?;
        self.state().timeout = seconds;
        Ok(())
    }

    fn gettimeout(&self) -> Option<f64> {
        self.state().timeout.map(|timeout| timeout.as_secs_f64())
    }

    /// The descriptor that `arm` is about.
    fn fileno(&self) -> i32 {
        match &self.state().stream {
            Some(_) => self.descriptor,
            None => -1,
        }
    }

    /// As `close`, whatever `how` says: both directions end together.
    fn shutdown(&self, py: Python<'_>, how: i32) {
        let _ = how;
        self.close(py);
    }

    fn close(&self, py: Python<'_>) {
        let stream = py.detach(|| self.state().stream.take());
        match stream {
            Some(stream) if stream.is_own() => py.detach(|| drop(stream)),
            // It is the parent's, who goes on with it.
            stream => std::mem::forget(stream),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let stream = self.state().stream.take();
        if stream.as_ref().is_some_and(|stream| !stream.is_own()) {
            std::mem::forget(stream);
        }
    }
}

impl Lane {
    /// Waits until there are bytes to return, as long as the timeout says; false at the end.
    fn await_bytes(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = self.state();
        let limit = state.timeout;
        match state.try_take() {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            taken => return taken.map(|_| true).map_err(raised),
        }
        drop(state);
        if limit == Some(Duration::ZERO) {
            let error = io::Error::from(ErrorKind::WouldBlock);
            return Err(raised(error));
        }
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(raised(ErrorKind::TimedOut.into()));
            }
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            match py.detach(|| self.state().take_within(slice)) {
                Ok(0) => py.check_signals()?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
                taken => return taken.map(|_| true).map_err(raised),
            }
        }
    }
}

fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Input> {
    match Input::of(data)? {
        Some(input) => Ok(input),
        None => Err(PyOSError::new_err("bytes in one piece expected")),
    }
}

/// Returns the exception that a socket would raise.
fn raised(error: io::Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::WouldBlock => PyBlockingIOError::new_err((EAGAIN, text)),
        ErrorKind::TimedOut => PyTimeoutError::new_err(text),
        ErrorKind::BrokenPipe => PyBrokenPipeError::new_err(text),
        ErrorKind::NotConnected => PyConnectionResetError::new_err(text),
        _ => PyOSError::new_err(text),
    }
}
