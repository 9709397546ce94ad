//! A value that was read: read-only memory, which stays as it is until nobody looks at it any more.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::block::{ALIGNMENT, Block, item_bytes};
use crate::buffer::{Exported, export, new_bytes};
use crate::client::Client;
use crate::errors::exception;
use crate::writable::Writable;

/// The value of a key as it was when it was read.
///
/// Its buffer is the content: the bytes that were put, the items of an array with their type and
/// shape, or the pickled block of another object, which `load` makes again.
#[pyclass(frozen, weakref, module = "forebay")]
pub struct View {
    state: Mutex<State>,
    block: Block,
    /// Of the item, with a zero behind it.
    format: [u8; 8],
    item_bytes: usize,
    /// Of an array the shape, then the strides.
    shape_and_strides: Box<[isize]>,
    /// Of what has one dimension of bytes the same: most values need no memory for it.
    length_and_stride: [isize; 2],
    origin: Option<Origin>,
}

/// Where the value can be read once more.
struct Origin {
    client: Py<Client>,
    key: Py<PyAny>,
}

struct State {
    value: Option<Held>,
    exports: usize,
}

enum Held {
    Value(client::View),
    /// A copy, from `start` on, so that the data are aligned, which the value is not.
    Aligned {
        bytes: Vec<u8>,
        start: usize,
    },
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Held::Value(value) => value,
            Held::Aligned { bytes, start } => &bytes[*start..],
        }
    }
}

impl View {
    /// Returns a view of `value`, which `client` has read at `key`.
    pub fn read(
        py: Python<'_>,
        value: client::View,
        client: &Py<Client>,
        key: &Bound<'_, PyAny>,
    ) -> View {
        let origin = value
            .is_pinned()
            .then(|| Origin { client: client.clone_ref(py), key: key.clone().unbind() });
        View::over(value, origin)
    }

    /// Returns a view of `value`, which is that of no key any more.
    pub fn taken(value: client::View) -> View {
        View::over(value, None)
    }

    fn over(value: client::View, origin: Option<Origin>) -> View {
        let block = Block::of(&value);
        let (mut format, mut item, mut shape_and_strides) = (*b"B\0\0\0\0\0\0\0", 1, None);
        if let Block::Array { format: name, shape, .. } = &block {
            item = item_bytes(name).expect("a block that was decoded has a format that is stored");
            format = [0; 8];
            format[..name.len()].copy_from_slice(name.as_bytes());
            shape_and_strides = Some(with_strides(shape, item));
        }
        let held = aligned(value, &block);
        let shape_and_strides = shape_and_strides.unwrap_or_default();
        let length_and_stride = [content_of(&block, held.bytes()).len() as isize, 1];
        let state = Mutex::new(State { value: Some(held), exports: 0 });
        View {
            state,
            block,
            format,
            item_bytes: item,
            shape_and_strides,
            length_and_stride,
            origin,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shape, then the strides.
    fn shape_and_strides(&self) -> &[isize] {
        match self.block {
            Block::Array { .. } => &self.shape_and_strides,
            Block::Bytes(_) | Block::Pickle { .. } => &self.length_and_stride,
        }
    }

    /// Calls `run` with the content, which cannot go meanwhile.
    fn with_content<T>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&[u8]) -> PyResult<T>,
    ) -> PyResult<T> {
        let start = self.begin_export(py)?;
        // SAFETY: the export that has begun keeps so many bytes there until it ends.
        let content = unsafe { std::slice::from_raw_parts(start.0, start.1) };
        let result = run(content);
        self.end_export();
        result
    }

    /// Returns where the content is and how long; it stays there until `end_export`.
    fn begin_export(&self, py: Python<'_>) -> PyResult<(*const u8, usize)> {
        let mut state = self.state();
        let Some(value) = &state.value else { return Err(closed(py)) };
        let content = content_of(&self.block, value.bytes());
        let place = (content.as_ptr(), content.len());
        state.exports += 1;
        Ok(place)
    }

    /// Returns what an export says of the content, and no place.
    pub fn meaning(&self) -> Exported {
        Exported {
            start: std::ptr::null(),
            length: 0,
            is_readonly: true,
            item_bytes: self.item_bytes,
            format: self.format.as_ptr(),
            shape_and_strides: self.shape_and_strides().as_ptr(),
            dimensions: self.shape_and_strides().len() / 2,
        }
    }

    pub fn end_export(&self) {
        self.state().exports -= 1;
    }
}

#[pymethods]
impl View {
    /// Returns the bytes of the content, copied.
    fn bytes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.with_content(py, |content| new_bytes(py, content))
    }

    fn __bytes__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.bytes(py)
    }

    /// The number of bytes of the content.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with_content(py, |content| Ok(content.len()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.nbytes(py)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __eq__(slf: &Bound<'_, View>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if slf.is(other) {
            return Ok(true);
        }
        let Ok(Some(other)) = crate::buffer::Input::of(other) else { return Ok(false) };
        slf.get().with_content(slf.py(), |content| Ok(content == other.bytes()))
    }

    /// Returns the object that was put: `bytes`, an array, or what was pickled, with its buffers
    /// where they lie. What another client has stored is `bytes`.
    ///
    /// A pickle runs code: load only what those who write to the server may run.
    fn load<'py>(slf: &Bound<'py, View>) -> PyResult<Bound<'py, PyAny>> {
        match &slf.get().block {
            Block::Bytes(_) => Ok(slf.get().bytes(slf.py())?.into_bound(slf.py())),
            Block::Array { .. } => helper(slf, "numpy"),
            Block::Pickle { .. } => helper(slf, "unpickle"),
        }
    }

    /// Returns the array that was put, read-only and not copied.
    ///
    /// Of plain bytes it is one of `dtype`, bytes where that is `None`, and of `shape`. `TypeError`
    /// is raised where an object of another type was put, or an array of another `dtype`.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, View>,
        dtype: Option<Bound<'py, PyAny>>,
        shape: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helpers(slf.py())?.getattr("numpy")?.call1((slf, dtype, shape))
    }

    /// Returns the Arrow object that was put, not copied: a `pyarrow.Tensor` of an array, and of
    /// plain bytes a `pyarrow.Buffer`. `TypeError` is raised where another object was put.
    fn arrow<'py>(slf: &Bound<'py, View>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf, "arrow")
    }

    /// Returns the tensor that was put, or one of the array that was put, over private memory that
    /// may be written, as that of `writable`.
    fn torch<'py>(slf: &Bound<'py, View>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf, "torch")
    }

    /// Returns the content as read-only memory, with the type and shape of an array.
    fn memoryview<'py>(slf: &Bound<'py, View>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pyo3::types::PyMemoryView::from(slf)?.into_any())
    }

    /// Returns memory that this process may write, with the content in it; the value stays as it
    /// is, and nobody else sees what is written.
    ///
    /// From 2 MiB up over `shm://` each page is copied when it is first written; less is copied
    /// here.
    fn writable<'py>(slf: &Bound<'py, View>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf, "writable")
    }

    /// What NumPy asks for where the view has no buffer. It raises `ClosedError` once the view is
    /// closed, where NumPy would make an array of one object.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, View>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helpers(slf.py())?.getattr("array_of")?.call1((slf, dtype, copy))
    }

    #[pyo3(signature = (*arguments, **options))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, View>,
        arguments: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, pyo3::types::PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut all = vec![slf.clone().into_any()];
        all.extend(arguments.iter());
        helpers(slf.py())?.getattr("dlpack")?.call(PyTuple::new(slf.py(), all)?, options)
    }

    /// The Arrow array that was put, or an array of numbers in one dimension, as C's interface of
    /// Arrow has it: not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        slf: &Bound<'py, View>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helpers(slf.py())?.getattr("arrow_c_array")?.call1((slf, requested_schema))
    }

    /// The Arrow table that was put, as a stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, View>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helpers(slf.py())?.getattr("arrow_c_stream")?.call1((slf, requested_schema))
    }

    /// The processor: `(1, 0)`.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// `"bytes"`, `"array"` or `"pickle"`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.block {
            Block::Bytes(_) => "bytes",
            Block::Array { .. } => "array",
            Block::Pickle { .. } => "pickle",
        }
    }

    /// What an item is, as of PEP 3118: `"B"` for plain bytes.
    #[getter]
    fn format(&self) -> &str {
        let length = self.format.iter().position(|byte| *byte == 0).unwrap_or(0);
        str::from_utf8(&self.format[..length]).expect("a format is ASCII")
    }

    /// The number of items in each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let both = self.shape_and_strides();
        PyTuple::new(py, &both[..both.len() / 2])
    }

    /// Whether the memory is the server's, and not a copy.
    #[getter]
    fn is_pinned(&self) -> bool {
        matches!(&self.state().value, Some(Held::Value(value)) if value.is_pinned())
    }

    /// Whether the value was given back.
    #[getter]
    fn closed(&self) -> bool {
        self.state().value.is_none()
    }

    /// Gives the value back.
    ///
    /// `BufferError` is raised while arrays or memoryviews of it are alive.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state();
        if state.exports > 0 {
            let count = state.exports;
            let text = format!("{count} exported buffers of the view are alive");
            return Err(PyBufferError::new_err(text));
        }
        let value = state.value.take();
        drop(state);
        py.detach(|| drop(value));
        Ok(())
    }

    fn __enter__(slf: Py<View>) -> Py<View> {
        slf
    }

    /// Gives the value back at once, or with the last array of it that is alive.
    fn __exit__(
        &self,
        py: Python<'_>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if self.state().exports == 0 { self.close(py) } else { Ok(()) }
    }

    /// Pickles as a reference to the key and the place of the value, or as a copy where no other
    /// process could read it there.
    fn __reduce_ex__<'py>(
        slf: &Bound<'py, View>,
        protocol: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, view) = (slf.py(), slf.get());
        let state = view.state();
        let Some(value) = &state.value else { return Err(closed(py)) };
        let (offset, length) = match value {
            Held::Value(value) => (value.offset(), value.len()),
            Held::Aligned { .. } => (None, 0),
        };
        drop(state);
        let helpers = helpers(py)?;
        match (&view.origin, offset) {
            (Some(origin), Some(offset)) => {
                let url = origin.client.get().url();
                let arguments = (url, origin.key.bind(py), offset, length);
                Ok((helpers.getattr("reopen")?, arguments).into_pyobject(py)?.into_any())
            }
            _ => helpers.getattr("reduce_copy")?.call1((slf, protocol)),
        }
    }

    /// The stored bytes of a pickle and of its buffers, as memoryviews.
    fn _pickled<'py>(slf: &Bound<'py, View>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let py = slf.py();
        let Block::Pickle { stream, buffers } = &slf.get().block else {
            return Err(exception(py, "Error", "the value is not a pickle"));
        };
        let whole = View::memoryview(slf)?;
        let part = |range: &std::ops::Range<usize>| {
            let slice = pyo3::types::PySlice::new(py, range.start as isize, range.end as isize, 1);
            whole.get_item(slice)
        };
        let buffers: Vec<_> = buffers.iter().map(part).collect::<PyResult<_>>()?;
        Ok((part(stream)?, PyList::new(py, buffers)?))
    }

    /// Where in the stored bytes the buffers of a pickle begin.
    fn _buffer_starts(&self) -> Vec<usize> {
        match &self.block {
            Block::Pickle { buffers, .. } => buffers.iter().map(|range| range.start).collect(),
            Block::Bytes(_) | Block::Array { .. } => Vec::new(),
        }
    }

    /// The stored bytes as memory: what other clients see.
    fn _stored(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = self.state();
        let Some(value) = &state.value else { return Err(closed(py)) };
        let stored = value.bytes().to_vec();
        drop(state);
        new_bytes(py, &stored)
    }

    /// Returns the content mapped once more, for this process to write; `None` where that is not to
    /// be had.
    fn _private(slf: &Bound<'_, View>) -> PyResult<Option<Writable>> {
        let (py, this) = (slf.py(), slf.get());
        let (start, length) = this.begin_export(py)?;
        let start = start.addr();
        // With the lock, so that nobody closes it; without the interpreter's, as the server is
        // asked.
        let map = || match &this.state().value {
            Some(Held::Value(value)) => {
                let before = start - value.as_ptr().addr();
                value.private_copy(before, length)
            }
            _ => None,
        };
        let Some(copy) = py.detach(map) else {
            this.end_export();
            return Ok(None);
        };
        Ok(Some(Writable::new(copy, slf.clone().unbind())))
    }

    /// How many bytes are stored; 0 once the view is closed.
    #[getter]
    fn _stored_bytes(&self) -> usize {
        self.state().value.as_ref().map_or(0, |value| value.bytes().len())
    }

    /// Returns a view of the stored bytes of another.
    #[staticmethod]
    fn _of_stored(stored: &[u8]) -> View {
        View::over(client::View::from(stored.to_vec()), None)
    }

    /// Where in the server's memory the value lies; `None` where this is a copy.
    #[getter]
    fn _offset(&self) -> Option<u64> {
        match &self.state().value {
            Some(Held::Value(value)) => value.offset(),
            _ => None,
        }
    }

    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, _of: &Bound<'py, PyAny>) -> Py<PyType> {
        class.clone().unbind()
    }

    fn __repr__(&self) -> String {
        let state = self.state();
        match &state.value {
            None => "<forebay.View, closed>".to_owned(),
            Some(value) => {
                let length = content_of(&self.block, value.bytes()).len();
                let kind = self.kind();
                drop(state);
                let place = if self.is_pinned() { "in shared memory" } else { "copied" };
                format!("<forebay.View of {length} bytes, {kind}, {place}>")
            }
        }
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, View>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let (start, length) = this.begin_export(slf.py())?;
        let exported = Exported { start, length, ..this.meaning() };
        // SAFETY: the interpreter brings `view`. The content stays where it is while there are
        // exports, format and shape for as long as the object; the pointer to it is counted.
        let done = unsafe { export(slf.clone().into_any(), view, flags, &exported) };
        if done.is_err() {
            this.end_export();
        }
        done
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.end_export();
    }
}

/// Returns what of `value` its user put.
pub fn content(value: &[u8]) -> &[u8] {
    content_of(&Block::of(value), value)
}

/// Returns what of the value `bytes` its user put.
fn content_of<'a>(block: &Block, bytes: &'a [u8]) -> &'a [u8] {
    match block {
        Block::Bytes(range) | Block::Array { data: range, .. } => &bytes[range.clone()],
        Block::Pickle { .. } => bytes,
    }
}

/// Returns `value`, copied where the data of a typed one are not aligned: another client may have
/// sent it, or it is short.
fn aligned(value: client::View, block: &Block) -> Held {
    if matches!(block, Block::Bytes(_)) {
        return Held::Value(value);
    }
    let data = value.as_ptr().wrapping_add(block.data_start());
    if data.addr().is_multiple_of(ALIGNMENT) {
        return Held::Value(value);
    }
    let mut bytes = vec![0; value.len() + ALIGNMENT];
    // The data are aligned if the value is, as they begin at a multiple of it.
    let start = bytes.as_ptr().addr().next_multiple_of(ALIGNMENT) - bytes.as_ptr().addr();
    bytes[start..start + value.len()].copy_from_slice(&value);
    bytes.truncate(start + value.len());
    Held::Aligned { bytes, start }
}

fn with_strides(shape: &[usize], item_bytes: usize) -> Box<[isize]> {
    let mut strides = vec![0; shape.len()];
    let mut stride = item_bytes as isize;
    for (index, count) in shape.iter().enumerate().rev() {
        strides[index] = stride;
        stride *= *count as isize;
    }
    shape.iter().map(|count| *count as isize).chain(strides).collect()
}

fn closed(py: Python<'_>) -> PyErr {
    exception(py, "ClosedError", "the view is closed")
}

/// Returns what of views and creations is written in Python.
pub fn helpers(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static HELPERS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let found = HELPERS.get_or_try_init(py, || py.import("forebay._objects").map(Bound::unbind));
    found.map(|module| module.bind(py))
}

fn helper<'py>(slf: &Bound<'py, View>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    helpers(slf.py())?.getattr(name)?.call1((slf,))
}
