//! What is stored of an object: bytes as they are, an array with its type and shape, anything else
//! pickled.

use client::{Client, ClientError, Mode, SetOptions};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMemoryView};

use crate::block::{DIMENSIONS_MAX, Parts, item_bytes};
use crate::buffer::{Input, unlocked_if};
use crate::errors::OrRaise;
use crate::view::View;

/// From here on a value is written where it will lie, if the server shares its memory: what is
/// shorter takes less time where it is sent.
const IN_PLACE_BYTES_MIN: usize = Mode::Copy.upload_bytes_min();
/// The same for what nobody waits for: as soon as the client writes it there.
const POSTED_IN_PLACE_BYTES_MIN: usize = Mode::Adopt.upload_bytes_min();

/// An object on its way to become a value.
pub enum Content<'py> {
    Bytes(Bound<'py, PyBytes>),
    Input(Input),
    Array(Input),
    Pickle { stream: Bound<'py, PyBytes>, buffers: Vec<Input> },
}

impl<'py> Content<'py> {
    /// Returns what is stored of `object`.
    ///
    /// # Errors
    /// When it cannot be pickled.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Content<'py>> {
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            return Ok(Content::Bytes(bytes.clone()));
        }
        let is_bytes = object.is_exact_instance_of::<PyByteArray>()
            || object.is_instance_of::<PyMemoryView>()
            || object.is_exact_instance_of::<View>();
        if is_bytes {
            return match Input::of(object)? {
                Some(input) => Ok(Content::Input(input)),
                None => Ok(Content::Bytes(object.call_method0("tobytes")?.cast_into()?)),
            };
        }
        if is_array(object)?
            && let Ok(Some(input)) = Input::of(object)
            && is_storable(&input)
        {
            return Ok(Content::Array(input));
        }
        Content::pickled(object)
    }

    fn pickled(object: &Bound<'py, PyAny>) -> PyResult<Content<'py>> {
        static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static TENSOR_DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = object.py();
        let dumps = match is_loaded(py, "torch")? {
            true => TENSOR_DUMPS.import(py, "forebay._tensors", "dumps")?,
            false => DUMPS.import(py, "pickle", "dumps")?,
        };
        let found = PyList::empty(py);
        let options = PyDict::new(py);
        options.set_item("protocol", 5)?;
        options.set_item("buffer_callback", found.getattr("append")?)?;
        let stream = dumps.call((object,), Some(&options))?.cast_into()?;
        let buffers = found.iter().map(|buffer| {
            let raw = buffer.call_method0("raw")?;
            Ok(Input::of(&raw)?.expect("the raw view of a pickled buffer is one piece"))
        });
        Ok(Content::Pickle { stream, buffers: buffers.collect::<PyResult<_>>()? })
    }

    /// Makes it the value of `key` by `client`; returns whether the condition of `options` held.
    ///
    /// # Errors
    /// Those of the client.
    pub fn put(
        &self,
        py: Python<'_>,
        client: &Client,
        key: &[u8],
        options: &SetOptions,
    ) -> PyResult<bool> {
        self.stored(py, |parts| store(client, key, parts, options))
    }

    /// As [`Content::put`], without waiting for the server: for one consumer.
    ///
    /// # Errors
    /// Those of the client.
    pub fn post(
        &self,
        py: Python<'_>,
        client: &Client,
        key: &[u8],
        options: &SetOptions,
    ) -> PyResult<()> {
        self.stored(py, |parts| post(client, key, parts, options))
    }

    /// Calls `run` with what is stored, without the interpreter's lock.
    pub fn stored<T: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&Parts<'_>) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        let mut header = Vec::new();
        let slices: Vec<&[u8]>;
        let parts = match self {
            Content::Bytes(bytes) => Parts::of_bytes(bytes.as_bytes(), &mut header),
            Content::Input(input) => Parts::of_bytes(input.bytes(), &mut header),
            Content::Array(input) => {
                let format = input.format().to_str().expect("it was looked at");
                Parts::of_array(format, input.shape(), input.bytes(), &mut header)
            }
            Content::Pickle { stream, buffers } => {
                slices = buffers.iter().map(Input::bytes).collect();
                Parts::of_pickle(stream.as_bytes(), &slices, &mut header)
            }
        };
        py.detach(|| run(&parts)).or_raise(py)
    }
}

/// Writes the value where it will lie, or sends it.
fn store(
    client: &Client,
    key: &[u8],
    parts: &Parts<'_>,
    options: &SetOptions,
) -> Result<bool, ClientError> {
    if parts.len() >= IN_PLACE_BYTES_MIN {
        let mut creation = client.create(key, parts.len())?;
        parts.write(&mut creation);
        return creation.seal_with(options);
    }
    match parts.as_slice() {
        Some(value) => client.put_with(key, value, options),
        None => client.put_with(key, &parts.to_vec(), options),
    }
}

/// As [`store`], without waiting for the server.
fn post(
    client: &Client,
    key: &[u8],
    parts: &Parts<'_>,
    options: &SetOptions,
) -> Result<(), ClientError> {
    if parts.len() < POSTED_IN_PLACE_BYTES_MIN {
        return client.post(key, parts.to_vec(), options);
    }
    let mut creation = client.create(key, parts.len())?;
    parts.write(&mut creation);
    creation.post(options)
}

/// Returns whether `object` is an array of NumPy's, and of no class derived from it.
fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    if let Some(class) = CLASS.get(py) {
        return Ok(object.get_type().is(class));
    }
    // An object of NumPy's is there only if NumPy is: it is not imported for the question.
    if !is_loaded(py, "numpy")? {
        return Ok(false);
    }
    let numpy = py.import("numpy")?;
    // It may be half imported.
    let Ok(class) = numpy.getattr("ndarray") else { return Ok(false) };
    let class = CLASS.get_or_init(py, || class.unbind());
    Ok(object.get_type().is(class))
}

/// Returns whether the module `name` has been imported.
fn is_loaded(py: Python<'_>, name: &str) -> PyResult<bool> {
    static MODULES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MODULES.import(py, "sys", "modules")?.contains(name)
}

/// Returns whether the items of `input` are numbers as this machine has them.
fn is_storable(input: &Input) -> bool {
    let bytes = input.format().to_str().ok().and_then(item_bytes);
    bytes == Some(input.item_bytes()) && input.shape().len() <= DIMENSIONS_MAX
}

/// Returns the bytes of `input`, copied to `target`, as a count.
pub fn copy_into(py: Python<'_>, target: &mut [u8], source: &[u8]) -> usize {
    let target = &mut target[..source.len()];
    unlocked_if(py, source.len(), || target.copy_from_slice(source));
    source.len()
}
