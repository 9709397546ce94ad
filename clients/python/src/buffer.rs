//! Python's buffer protocol, both ways: memory of objects that is read or written here, and memory
//! of views and creations that Python's objects look at.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The bytes of an object, in one piece in C's order, which stay where they are until this is
/// dropped.
///
/// Who holds it may change them meanwhile, as any code of Python may: then a copy holds some of
/// the old bytes and some of the new.
pub struct Input {
    buffer: PyUntypedBuffer,
}

impl Input {
    /// Returns the bytes of `object`; `None` where it exports none, or not in one piece.
    ///
    /// # Errors
    /// When the object exports its bytes, but not now.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Input>> {
        // SAFETY: the object is alive while it is borrowed.
        if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
            return Ok(None);
        }
        let buffer = PyUntypedBuffer::get(object)?;
        Ok(buffer.is_c_contiguous().then_some(Input { buffer }))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.buffer.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps `len_bytes` bytes at `buf_ptr`, one after the other, until the
        // buffer is released, which is when `self` is dropped.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast(), self.buffer.len_bytes()) }
    }

    /// Returns the bytes to be written; `None` where they are read-only.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.buffer.readonly() {
            return None;
        }
        if self.buffer.len_bytes() == 0 {
            return Some(&mut []);
        }
        // SAFETY: as for `bytes`; the exporter has said that they may be written.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast(), self.buffer.len_bytes())
        })
    }

    /// Returns what an item is, as of PEP 3118.
    pub fn format(&self) -> &CStr {
        self.buffer.format()
    }

    /// Returns the size of an item.
    pub fn item_bytes(&self) -> usize {
        self.buffer.item_size()
    }

    /// Returns how many items there are in each dimension.
    pub fn shape(&self) -> &[usize] {
        self.buffer.shape()
    }
}

/// What of an object is exported: its place, and the meaning of the bytes there.
pub struct Exported {
    pub start: *const u8,
    pub length: usize,
    pub is_readonly: bool,
    pub item_bytes: usize,
    /// Ends with a zero.
    pub format: *const u8,
    /// As many as there are dimensions, then as many strides.
    pub shape_and_strides: *const isize,
    pub dimensions: usize,
}

/// Fills `view` with what `exported` says, on behalf of `owner`.
///
/// # Errors
/// `BufferError` where `flags` ask to write what is read-only.
///
/// # Safety
/// `view` is the pointer that the interpreter gave to `__getbuffer__`. What `exported` points to
/// stays where it is and as it is for as long as `owner` lives and the export is not released.
pub unsafe fn export(
    owner: Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    exported: &Exported,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no place for the buffer"));
    }
    let asks = |flag: c_int| flags & flag == flag;
    if exported.is_readonly && asks(ffi::PyBUF_WRITABLE) {
        // SAFETY: the caller says that the pointer is good.
        unsafe { (*view).obj = ptr::null_mut() };
        return Err(PyBufferError::new_err("a view is read-only; see View.writable()"));
    }
    let when = |flag: c_int, pointer: *const isize| {
        if asks(flag) { pointer.cast_mut() } else { ptr::null_mut() }
    };
    // SAFETY: the caller says that the pointer is good; the interpreter gives the structure to be
    // filled. The strides follow the shape, one for each dimension.
    unsafe {
        (*view).buf = exported.start.cast_mut().cast();
        (*view).len = exported.length as isize;
        (*view).readonly = exported.is_readonly.into();
        (*view).itemsize = exported.item_bytes as isize;
        (*view).ndim = exported.dimensions as c_int;
        (*view).format = match asks(ffi::PyBUF_FORMAT) {
            true => exported.format.cast_mut().cast(),
            false => ptr::null_mut(),
        };
        (*view).shape = when(ffi::PyBUF_ND, exported.shape_and_strides);
        let strides = exported.shape_and_strides.add(exported.dimensions);
        (*view).strides = when(ffi::PyBUF_STRIDES, strides);
        (*view).suboffsets = ptr::null_mut();
        (*view).internal = ptr::null_mut();
        (*view).obj = owner.into_ptr();
    }
    Ok(())
}

/// Returns a `bytes` of `length` bytes that `fill` writes, without the interpreter's lock where it
/// is long.
///
/// # Errors
/// When there is no memory.
pub fn new_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    let made = PyBytes::new_with(py, bytes.len(), |target| {
        copy(py, target, bytes);
        Ok(())
    })?;
    Ok(made.into_any().unbind())
}

/// Copies `source` to `target`, without the interpreter's lock where it is long.
pub fn copy(py: Python<'_>, target: &mut [u8], source: &[u8]) {
    unlocked_if(py, source.len(), || target.copy_from_slice(source));
}

/// Calls `run`, which copies `length` bytes, without the interpreter's lock where that is worth it.
pub fn unlocked_if<T: Send>(py: Python<'_>, length: usize, run: impl FnOnce() -> T + Send) -> T {
    /// What takes several microseconds to copy.
    const LOCKED_BYTES_MAX: usize = 64 * 1024;
    if length > LOCKED_BYTES_MAX { py.detach(run) } else { run() }
}
