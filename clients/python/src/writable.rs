//! A value as memory that this process may write for itself.
#![allow(unsafe_code)]

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use sys::memfd_segments::private_copy::PrivateCopy;

use crate::buffer::{Exported, export};
use crate::view::View;

/// The content of a view in a private mapping: pages are copied when they are first written, and
/// nobody else sees what is written. It keeps the view.
#[pyclass(frozen, weakref, module = "forebay._native")]
pub struct Writable {
    copy: PrivateCopy,
    /// Its export has begun, and ends with this object: the pages that were not written are its.
    view: Py<View>,
}

impl Writable {
    /// Returns `copy` of the content of `view`, of which an export has begun.
    pub fn new(copy: PrivateCopy, view: Py<View>) -> Writable {
        Writable { copy, view }
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        self.view.get().end_export();
    }
}

#[pymethods]
impl Writable {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Writable>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let content = this.view.get();
        let exported = Exported {
            start: this.copy.start().as_ptr(),
            length: this.copy.len(),
            is_readonly: false,
            ..content.meaning()
        };
        // SAFETY: the interpreter brings `view`. The mapping lives as long as the object, whose
        // pointer is counted, and so do format and shape, which are the view's.
        unsafe { export(slf.clone().into_any(), view, flags, &exported) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}
