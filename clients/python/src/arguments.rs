//! What the arguments of calls mean.

use std::time::Duration;

use client::SetOptions;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString};

use crate::buffer::Input;

/// A word of a request: a key, a field, an argument.
pub enum Word<'py> {
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
    Input(Input),
    Made(Vec<u8>),
}

impl<'py> Word<'py> {
    /// Returns `object` as a key: bytes, text as UTF-8, or anything with bytes in one piece.
    ///
    /// # Errors
    /// `TypeError` where it is something else.
    pub fn of_key(object: &Bound<'py, PyAny>) -> PyResult<Word<'py>> {
        // The types themselves are told by one comparison, those derived from them by calls.
        if let Ok(text) = object.cast_exact::<PyString>() {
            return Ok(Word::Text(text.clone()));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Word::Bytes(bytes.clone()));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Word::Text(text.clone()));
        }
        Word::of_input(object, "bytes or text")
    }

    fn of_input(object: &Bound<'py, PyAny>, expected: &str) -> PyResult<Word<'py>> {
        match Input::of(object)? {
            Some(input) => Ok(Word::Input(input)),
            None => {
                let found = object.get_type().name()?;
                Err(PyTypeError::new_err(format!("{expected} expected, not {found}")))
            }
        }
    }

    /// Returns `object` as a word: as a key, or a number in decimal.
    ///
    /// # Errors
    /// `TypeError` where it is something else.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Word<'py>> {
        // Most are text, and told by one comparison.
        if let Ok(text) = object.cast_exact::<PyString>() {
            return Ok(Word::Text(text.clone()));
        }
        let is_number =
            object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>();
        if is_number {
            return Ok(Word::Made(object.repr()?.to_str()?.as_bytes().to_vec()));
        }
        match object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyString>() {
            true => Word::of_key(object),
            false => Word::of_input(object, "bytes, text or a number"),
        }
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// `UnicodeEncodeError` where text has no UTF-8.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        Ok(match self {
            Word::Bytes(bytes) => bytes.as_bytes(),
            Word::Text(text) => text.to_str()?.as_bytes(),
            Word::Input(input) => input.bytes(),
            Word::Made(bytes) => bytes,
        })
    }
}

/// Returns `words` as bytes.
///
/// # Errors
/// As [`Word::bytes`].
pub fn bytes_of<'a>(words: &'a [Word<'_>]) -> PyResult<Vec<&'a [u8]>> {
    // To collect results knows no length, and would allocate again and again.
    let mut bytes = Vec::with_capacity(words.len());
    for word in words {
        bytes.push(word.bytes()?);
    }
    Ok(bytes)
}

/// Returns all of `objects` as keys.
///
/// # Errors
/// As [`Word::of_key`].
pub fn keys_of<'py>(objects: &Bound<'py, PyAny>) -> PyResult<Vec<Word<'py>>> {
    objects.try_iter()?.map(|object| Word::of_key(&object?)).collect()
}

/// Refuses text and bytes where several words are expected: their letters would be taken for them.
///
/// # Errors
/// `TypeError` where `objects` is one of them.
pub fn refuse_one_word(objects: &Bound<'_, PyAny>) -> PyResult<()> {
    match objects.is_instance_of::<PyString>() || objects.is_instance_of::<PyBytes>() {
        true => Err(PyTypeError::new_err("several expected, as a list, not one text or bytes")),
        false => Ok(()),
    }
}

/// Returns all of `objects` as words.
///
/// # Errors
/// As [`Word::of`].
pub fn words_of<'py>(objects: &Bound<'py, PyAny>) -> PyResult<Vec<Word<'py>>> {
    if let Ok(list) = objects.cast_exact::<PyList>() {
        let mut words = Vec::with_capacity(list.len());
        for object in list {
            words.push(Word::of(&object)?);
        }
        return Ok(words);
    }
    refuse_one_word(objects)?;
    objects.try_iter()?.map(|object| Word::of(&object?)).collect()
}

/// Returns `seconds` as a duration: a number, or a `datetime.timedelta`.
///
/// # Errors
/// `TypeError` for anything else; `ValueError` below zero and beyond what a duration holds.
pub fn duration(seconds: &Bound<'_, PyAny>) -> PyResult<Duration> {
    of_seconds(number_of(seconds)?)
}

fn number_of(seconds: &Bound<'_, PyAny>) -> PyResult<f64> {
    seconds.extract().or_else(|error| match seconds.call_method0("total_seconds") {
        Ok(total) => total.extract(),
        Err(_) => Err(error),
    })
}

fn of_seconds(seconds: f64) -> PyResult<Duration> {
    let refuse = |reason: &str| PyValueError::new_err(format!("{seconds} seconds {reason}"));
    if seconds < 0.0 {
        return Err(refuse("are less than none"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| refuse("cannot be counted"))
}

/// Returns `timeout` as a duration; `None` and infinity are none.
///
/// # Errors
/// As [`duration`].
pub fn timeout(timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    match timeout.map(number_of).transpose()? {
        None | Some(f64::INFINITY) => Ok(None),
        Some(seconds) => of_seconds(seconds).map(Some),
    }
}

/// As [`timeout`], for an argument that has a number as its default.
///
/// # Errors
/// As [`duration`].
pub fn timeout_argument(argument: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    timeout((!argument.is_none()).then_some(argument))
}

/// Returns the options that a put is told.
///
/// # Errors
/// `ValueError` where they exclude each other; as [`duration`].
pub fn set_options(
    ttl: Option<&Bound<'_, PyAny>>,
    nx: bool,
    xx: bool,
    keep_ttl: bool,
) -> PyResult<SetOptions> {
    let refuse = |text: &str| Err(PyValueError::new_err(text.to_owned()));
    let mut options = SetOptions::new();
    match (nx, xx) {
        (true, true) => return refuse("nx and xx exclude each other"),
        (true, false) => options = options.if_absent(),
        (false, true) => options = options.if_present(),
        (false, false) => {}
    }
    match (timeout(ttl)?, keep_ttl) {
        (_, true) if ttl.is_some() => return refuse("ttl and keep_ttl exclude each other"),
        (Some(Duration::ZERO), false) => return refuse("a ttl is more than zero"),
        (Some(ttl), false) => options = options.expires_in(ttl),
        (_, true) => options = options.keeps_time_to_live(),
        (None, false) => {}
    }
    Ok(options)
}
