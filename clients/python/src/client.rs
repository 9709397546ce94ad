//! The class that calls go through.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use client::{ClientError, Elements, TimeToLive, Transport};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use sys::fork::Generation;

use crate::arguments::{
    Word, bytes_of, keys_of, refuse_one_word, set_options, timeout_argument, words_of,
};
use crate::buffer::Input;
use crate::content::{Content, copy_into};
use crate::creation::Creation;
use crate::errors::{OrRaise, exception, raised};
use crate::lane::Lane;
use crate::replies::object;
use crate::view::View;

/// A client of one server; threads share it. After a fork the child connects anew by itself.
#[pyclass(frozen, subclass, weakref, module = "forebay._native")]
pub struct Client {
    url: String,
    timeout: Option<Duration>,
    connected: ArcSwapOption<Connected>,
}

thread_local! {
    /// The values of fields on their way to Python: memory that is used again.
    static FOUND: Cell<Elements> = const { Cell::new(Elements::new()) };
}

/// A thread keeps so much for them at most.
const FOUND_BYTES_MAX: usize = 64 * 1024;

struct Connected {
    client: client::Client,
    generation: Generation,
}

impl Client {
    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the client of this process.
    pub(crate) fn client(&self, py: Python<'_>) -> PyResult<client::Client> {
        match &*self.connected.load() {
            Some(connected) if connected.generation.is_current() => Ok(connected.client.clone()),
            Some(_) => self.reconnect(py),
            None => Err(exception(py, "ClosedError", "the client is closed")),
        }
    }

    /// Returns the value of `key`. The interpreter's lock is kept where the server's memory
    /// answers: that takes less time than to give the lock up.
    fn value_of(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<client::View>> {
        let connected = self.connected.load();
        if let Some(connected) = &*connected
            && connected.generation.is_current()
            && let Some(found) = connected.client.get_at_once(key).or_raise(py)?
        {
            return Ok(found);
        }
        drop(connected);
        let client = self.client(py)?;
        py.detach(|| client.get(key)).or_raise(py)
    }

    /// Connects in a forked child. What the parent has connected stays, and is never touched: its
    /// connections are shared with the parent.
    #[cold]
    fn reconnect(&self, py: Python<'_>) -> PyResult<client::Client> {
        let connected = connect(py, &self.url, self.timeout)?;
        let client = connected.client.clone();
        std::mem::forget(self.connected.swap(Some(Arc::new(connected))));
        Ok(client)
    }
}

fn connect(py: Python<'_>, url: &str, timeout: Option<Duration>) -> PyResult<Connected> {
    let connected = py.detach(|| match timeout {
        Some(timeout) => client::Client::connect_within(url, timeout),
        None => client::Client::connect(url),
    });
    let client = connected.map_err(|error| match error {
        ClientError::Broken(error) => {
            let text = format!("no connection to {}: {error}", without_password(url));
            exception(py, "ConnectionError", &text)
        }
        error => raised(py, &error),
    })?;
    Ok(Connected { client, generation: Generation::current() })
}

/// Returns what of `url` says where the server is, to be shown.
fn without_password(url: &str) -> String {
    let place = url.split_once('?').map_or(url, |(place, _)| place);
    let Some((scheme, rest)) = place.split_once("://") else { return place.to_owned() };
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
    let secret = authority.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[secret..])
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (url, timeout=None))]
    fn new(py: Python<'_>, url: String, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Client> {
        let timeout = crate::arguments::timeout(timeout)?;
        if timeout == Some(Duration::ZERO) {
            return Err(PyValueError::new_err("a timeout is more than zero"));
        }
        let connected = ArcSwapOption::from_pointee(connect(py, &url, timeout)?);
        Ok(Client { url, timeout, connected })
    }

    /// The URL that it was connected by.
    #[getter(url)]
    fn url_of(&self) -> &str {
        &self.url
    }

    /// The seconds after which a call gives up on a silent server; `None` where it never does.
    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.timeout.map(|timeout| timeout.as_secs_f64())
    }

    /// Closes the connections of all threads, which ends what they wait for; views stay.
    fn _close(&self, py: Python<'_>) {
        let Some(connected) = self.connected.swap(None) else { return };
        if connected.generation.is_current() {
            connected.client.end_waits();
            py.detach(|| drop(connected));
        } else {
            std::mem::forget(connected);
        }
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.connected.load().is_none()
    }

    /// Returns a new connection through shared memory; `None` where the server makes none.
    fn _lane(&self, py: Python<'_>) -> PyResult<Option<Lane>> {
        let client = self.client(py)?;
        Ok(py.detach(|| client.lane()).or_raise(py)?.map(Lane::new))
    }

    /// How the server is reached: `"shm"`, `"lane"`, `"unix"` or `"tcp"`.
    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<&'static str> {
        let client = self.client(py)?;
        Ok(match py.detach(|| client.transport()).or_raise(py)? {
            Transport::SharedMemory => "shm",
            Transport::Lane => "lane",
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
        })
    }

    /// Stores `value` at `key`, in the place of what was there; returns whether it did.
    ///
    /// Bytes, `bytearray` and `memoryview` are stored as they are, arrays of NumPy with their type
    /// and shape; anything else is pickled, text and numbers among it. `load` gives them back, all
    /// of the first three as `bytes`.
    ///
    /// `ttl` is how long it lives, in seconds and more than 0; `keep_ttl` leaves the key the time
    /// that it has, and without either it lives without an end. `nx` stores only where there is no
    /// such key, `xx` only where there is one: these alone make it return `False`.
    ///
    /// `ValueError` is raised where arguments exclude each other or the time is out of range,
    /// `ResponseError` where the server refuses: with the code `OOM` where its memory is full.
    #[pyo3(signature = (key, value, *, ttl=None, nx=false, xx=false, keep_ttl=false))]
    #[expect(clippy::too_many_arguments, reason = "each is an argument of Python's")]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
        nx: bool,
        xx: bool,
        keep_ttl: bool,
    ) -> PyResult<bool> {
        let (key, options) = (Word::of_key(key)?, set_options(ttl, nx, xx, keep_ttl)?);
        Content::of(value)?.put(py, &self.client(py)?, key.bytes()?, &options)
    }

    /// Puts `value` for one `take`, and does not wait for the server.
    fn _post(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, options) = (Word::of_key(key)?, set_options(Some(ttl), false, false, false)?);
        Content::of(value)?.post(py, &self.client(py)?, key.bytes()?, &options)
    }

    /// Waits until the server has what this thread's `put_auto` has put; raises `ResponseError`
    /// where it has refused some of it.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        match &*self.connected.load() {
            Some(connected) if connected.generation.is_current() => {
                py.detach(|| connected.client.settle()).or_raise(py)
            }
            // A forked child has put nothing by what it has inherited.
            _ => Ok(()),
        }
    }

    /// Returns the view of the value at `key`; `None` where there is no such key.
    ///
    /// Over `shm://` the view of more than 4 KiB is the server's memory, and shorter values are
    /// copied; so is all that comes over a socket. `WrongTypeError` is raised where the key holds
    /// no string, as a hash.
    fn get(slf: &Bound<'_, Client>, key: &Bound<'_, PyAny>) -> PyResult<Option<View>> {
        let (py, word) = (slf.py(), Word::of_key(key)?);
        let bytes = word.bytes()?;
        let found = slf.get().value_of(py, bytes)?;
        Ok(found.map(|value| View::read(py, value, slf.as_unbound(), key)))
    }

    /// As `get`, and waits for the key: for `timeout` seconds, or for ever where that is `None`.
    ///
    /// Returns `None` after the timeout. All who wait for a key get its value. A signal ends the
    /// wait, if its handler raises.
    #[pyo3(signature = (key, timeout=None))]
    fn get_blocking(
        slf: &Bound<'_, Client>,
        key: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<View>> {
        let (py, word) = (slf.py(), Word::of_key(key)?);
        let (client, timeout) = (slf.get().client(py)?, crate::arguments::timeout(timeout)?);
        let found = wait(py, &client, word.bytes()?, timeout)?;
        Ok(found.map(|value| View::read(py, value, slf.as_unbound(), key)))
    }

    /// Deletes `key` and returns the view of what it had; of several who take it, one gets it.
    ///
    /// It waits for the key for `timeout` seconds; 0 does not wait, and `None` waits for ever. It
    /// returns `None` where the key did not come. `WrongTypeError` is raised where the key holds no
    /// string.
    #[pyo3(
        signature = (key, timeout=Some(Duration::ZERO)),
        text_signature = "($self, key, timeout=0.0)"
    )]
    fn take(
        slf: &Bound<'_, Client>,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = timeout_argument)] timeout: Option<Duration>,
    ) -> PyResult<Option<View>> {
        let (py, word) = (slf.py(), Word::of_key(key)?);
        let (client, bytes) = (slf.get().client(py)?, word.bytes()?);
        let end = end_after(timeout);
        loop {
            let taken = match is_for_one(bytes) {
                true => py.detach(|| client.take_once(bytes)),
                false => py.detach(|| client.take(bytes)),
            };
            let taken = taken.or_raise(py)?;
            if let Some(value) = taken {
                return Ok(Some(View::taken(value)));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            if is_for_one(bytes) && py.detach(|| client.await_posted(bytes)).or_raise(py)? {
                continue;
            }
            if wait(py, &client, bytes, left)?.is_none() {
                return Ok(None);
            }
        }
    }

    /// Returns the views of the values at `keys`, in their order; `None` for each key without a
    /// string.
    ///
    /// Over `shm://` each is read for itself: they need not be of one moment. `call("MGET", ...)`
    /// reads all at one moment.
    fn mget<'py>(
        slf: &Bound<'py, Client>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<View>>> {
        let py = slf.py();
        refuse_one_word(keys)?;
        let objects: Vec<Bound<'py, PyAny>> = keys.try_iter()?.collect::<PyResult<_>>()?;
        let words: Vec<Word<'_>> = objects.iter().map(Word::of_key).collect::<PyResult<_>>()?;
        let (client, words) = (slf.get().client(py)?, bytes_of(&words)?);
        let found = py.detach(|| client.mget(&words)).or_raise(py)?;
        let view = |(value, key): (Option<client::View>, _)| {
            value.map(|value| View::read(py, value, slf.as_unbound(), key))
        };
        Ok(found.into_iter().zip(&objects).map(view).collect())
    }

    /// Puts each value of the dictionary `pairs` at its key, as `put` does, with `ttl` in seconds.
    ///
    /// They are put one after the other: after an exception those before are there.
    #[pyo3(signature = (pairs, *, ttl=None))]
    fn mput(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyDict>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (client, options) = (self.client(py)?, set_options(ttl, false, false, false)?);
        for (key, value) in pairs.iter() {
            let key = Word::of_key(&key)?;
            Content::of(&value)?.put(py, &client, key.bytes()?, &options)?;
        }
        Ok(())
    }

    /// Copies the value at `key` to `buffer`; returns its length in bytes, `None` where there is no
    /// such key.
    ///
    /// `buffer` is writable memory in one piece, such as an array, and may be longer than the
    /// value. Of an array that was put the items are copied, without type and shape. `BufferError`
    /// is raised where the value is longer, or the buffer read-only.
    fn get_into(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<Option<usize>> {
        let word = Word::of_key(key)?;
        let Some(mut target) = Input::of(buffer)? else {
            return Err(PyTypeError::new_err("a writable buffer in one piece expected"));
        };
        let Some(target) = target.bytes_mut() else {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        };
        let Some(value) = self.value_of(py, word.bytes()?)? else { return Ok(None) };
        let source = crate::view::content(&value);
        if source.len() > target.len() {
            let text = format!("{} bytes do not fit into {}", source.len(), target.len());
            return Err(PyBufferError::new_err(text));
        }
        Ok(Some(copy_into(py, target, source)))
    }

    /// Returns `nbytes` bytes to be written in place, which become the value of `key` at the end of
    /// a `with` statement, or by `seal`.
    ///
    /// What they hold before is not said. Nobody sees them before they are sealed, and after an
    /// exception in the block nobody ever does. `ttl`, `nx`, `xx` and `keep_ttl` are those of
    /// `put`. `MemoryError` is raised where neither the server nor this process has so many.
    #[pyo3(signature = (key, nbytes, *, ttl=None, nx=false, xx=false, keep_ttl=false))]
    #[expect(clippy::too_many_arguments, reason = "each is an argument of Python's")]
    fn create(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        nbytes: usize,
        ttl: Option<&Bound<'_, PyAny>>,
        nx: bool,
        xx: bool,
        keep_ttl: bool,
    ) -> PyResult<Creation> {
        let (key, options) = (Word::of_key(key)?, set_options(ttl, nx, xx, keep_ttl)?);
        let (client, bytes) = (self.client(py)?, key.bytes()?);
        let creation = py.detach(|| client.create(bytes, nbytes)).or_raise(py)?;
        Ok(Creation::new(client, creation, options))
    }

    /// Returns whether there is `key`, with a value of any type.
    fn exists(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (client, key) = (self.client(py)?, Word::of_key(key)?);
        let bytes = key.bytes()?;
        py.detach(|| client.exists(bytes)).or_raise(py)
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.exists(py, key)
    }

    /// Returns the length in bytes of what is stored at `key`; 0 where there is no such key.
    ///
    /// Of an array it is more than its view's `nbytes`: type and shape are stored before the items.
    /// `WrongTypeError` is raised where the key holds no string.
    fn strlen(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (client, key) = (self.client(py)?, Word::of_key(key)?);
        let bytes = key.bytes()?;
        py.detach(|| client.strlen(bytes)).or_raise(py)
    }

    /// Returns the seconds that `key` has left, to the millisecond; `math.inf` where it lives
    /// without an end, `None` where there is no such key.
    fn ttl(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let (client, key) = (self.client(py)?, Word::of_key(key)?);
        let bytes = key.bytes()?;
        Ok(match py.detach(|| client.ttl(bytes)).or_raise(py)? {
            TimeToLive::Absent => None,
            TimeToLive::Endless => Some(f64::INFINITY),
            TimeToLive::Left(left) => Some(left.as_secs_f64()),
        })
    }

    /// Returns the value of `field` in the hash at `key`, as bytes; `None` where there is none.
    ///
    /// A field is text, bytes or a number. `WrongTypeError` is raised where the key holds no hash.
    fn hget<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'_, PyAny>,
        field: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (key, field) = (Word::of_key(key)?, Word::of(field)?);
        let (client, key, field) = (self.client(py)?, key.bytes()?, field.bytes()?);
        let mut value = Vec::new();
        let is_there = match client.hget_at_once(key, field, &mut value).or_raise(py)? {
            Some(is_there) => is_there,
            None => py.detach(|| client.hget_into(key, field, &mut value)).or_raise(py)?,
        };
        Ok(is_there.then(|| PyBytes::new(py, &value)))
    }

    /// Returns the values of `fields` in the hash at `key`, in their order, as bytes; `None` for
    /// each that is not there.
    ///
    /// `WrongTypeError` is raised where the key holds no hash.
    fn hmget<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (key, fields) = (Word::of_key(key)?, words_of(fields)?);
        let (client, key, fields) = (self.client(py)?, key.bytes()?, bytes_of(&fields)?);
        // Taken out while it is used: making objects may run code of anyone's.
        let mut values = FOUND.take();
        if client.hmget_at_once(key, &fields, &mut values).or_raise(py)?.is_none() {
            py.detach(|| client.hmget(key, &fields, &mut values)).or_raise(py)?;
        }
        let found = values.iter().map(|value| value.map(|value| PyBytes::new(py, value)));
        let list = PyList::new(py, found);
        if values.bytes_kept() <= FOUND_BYTES_MAX {
            FOUND.set(values);
        }
        list
    }

    /// Returns the hash at `key` as a dictionary of bytes to bytes; empty where there is no such
    /// key.
    ///
    /// `WrongTypeError` is raised where the key holds no hash.
    fn hgetall<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (client, key) = (self.client(py)?, Word::of_key(key)?);
        let (key, mut pairs) = (key.bytes()?, Elements::new());
        py.detach(|| client.hgetall(key, &mut pairs)).or_raise(py)?;
        let map = PyDict::new(py);
        for (field, value) in pairs.pairs() {
            map.set_item(PyBytes::new(py, field), PyBytes::new(py, value))?;
        }
        Ok(map)
    }

    /// Sends any command of Redis and returns its reply: `call("ZADD", "scores", 1.5, "ada")`.
    ///
    /// Words are text, bytes or numbers. Replies are those of RESP2: bulk strings are `bytes`,
    /// status lines `str`, integers `int`, arrays `list`, and nothing is `None`; a score is
    /// `bytes`, and a hash one list, of fields and values by turns. `ResponseError` is raised where
    /// the server refuses, and `UnsupportedError` for what connections that are shared cannot be
    /// asked for, such as SUBSCRIBE, SELECT, HELLO and QUIT.
    #[pyo3(signature = (*words))]
    fn call<'py>(&self, py: Python<'py>, words: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let words = words_of(words)?;
        let (client, words) = (self.client(py)?, bytes_of(&words)?);
        check(py, &words)?;
        let reply = py.detach(|| client.call(&words)).or_raise(py)?;
        object(py, &reply)
    }

    /// Sends `requests` together; returns their replies, errors among them as exceptions.
    fn _pipeline<'py>(
        &self,
        py: Python<'py>,
        requests: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let requests: Vec<Vec<Word<'py>>> =
            requests.try_iter()?.map(|request| words_of(&request?)).collect::<PyResult<_>>()?;
        let requests: Vec<Vec<&[u8]>> =
            requests.iter().map(|words| bytes_of(words)).collect::<PyResult<_>>()?;
        let requests: Vec<&[&[u8]]> = requests.iter().map(Vec::as_slice).collect();
        requests.iter().try_for_each(|request| check(py, request))?;
        let client = self.client(py)?;
        let replies = py.detach(|| client.pipeline(&requests)).or_raise(py)?;
        let replies = replies.iter().map(|reply| object(py, reply));
        PyList::new(py, replies.collect::<PyResult<Vec<_>>>()?)
    }

    /// Deletes `keys`, of any type; returns how many there were.
    #[pyo3(signature = (*keys))]
    fn delete(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<i64> {
        let keys = keys_of(keys)?;
        if keys.is_empty() {
            return Ok(0);
        }
        let mut words: Vec<&[u8]> = vec![b"DEL"];
        words.extend(bytes_of(&keys)?);
        let client = self.client(py)?;
        match py.detach(|| client.call(&words)).or_raise(py)? {
            client::Reply::Integer(count) => Ok(count),
            other => Err(exception(py, "ProtocolError", &format!("DEL replied {other:?}"))),
        }
    }
}

/// Refuses what would have a connection reply in another way from then on, or end: its thread goes
/// on with it.
fn check(py: Python<'_>, request: &[&[u8]]) -> PyResult<()> {
    let name = request.first().copied().unwrap_or_default();
    let is_refused = [&b"HELLO"[..], b"QUIT"].iter().any(|it| name.eq_ignore_ascii_case(it));
    match is_refused {
        false => Ok(()),
        true => {
            let text = format!("{} over a connection that goes on", name.escape_ascii());
            Err(exception(py, "UnsupportedError", &text))
        }
    }
}

/// Returns whether `key` is one of `put_auto`, which is for one consumer.
fn is_for_one(key: &[u8]) -> bool {
    /// As in `_db.py`.
    const PREFIX: &[u8] = b"\xf5FB";
    const BYTES: usize = 16;
    key.len() == BYTES && key.starts_with(PREFIX)
}

/// Returns when a wait of `timeout` from now on ends: never where that is beyond all time.
pub(crate) fn end_after(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

/// Waits until `key` exists. A wait is cut into slices, so that a signal ends it.
fn wait(
    py: Python<'_>,
    client: &client::Client,
    key: &[u8],
    timeout: Option<Duration>,
) -> PyResult<Option<client::View>> {
    /// After so long Python looks for signals.
    const SLICE: Duration = Duration::from_millis(100);
    let end = end_after(timeout);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        match py.detach(|| client.get_blocking(key, slice)) {
            Ok(Some(value)) => return Ok(Some(value)),
            Ok(None) if left.is_some_and(|left| left <= SLICE) => return Ok(None),
            Ok(None) => py.check_signals()?,
            Err(error) => return Err(raised(py, &error)),
        }
    }
}
