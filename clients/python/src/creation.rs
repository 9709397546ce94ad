//! A value that is being written in place, before any client can read it.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use client::SetOptions;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::arguments::set_options;
use crate::buffer::{Exported, export};
use crate::errors::{OrRaise, exception};
use crate::view::helpers;

/// Writable memory that becomes the value of a key when it is sealed, or at the end of a `with`
/// statement; an exception in it, or `abort`, leaves the key as it was.
///
/// What has exported buffers when it is sealed is copied to the value, so that who holds one cannot
/// change it; otherwise the memory itself becomes the value.
#[pyclass(frozen, weakref, module = "forebay")]
pub struct Creation {
    state: Mutex<State>,
    client: client::Client,
    /// How it is sealed by a `with` statement.
    options: SetOptions,
    /// The number of bytes, then the stride.
    shape_and_strides: [isize; 2],
}

struct State {
    /// Absent once it is sealed or aborted, and nobody looks at it.
    creation: Option<client::Creation>,
    exports: usize,
    is_over: bool,
    /// What sealing has returned.
    sealed: Option<bool>,
}

impl Creation {
    pub fn new(
        client: client::Client,
        creation: client::Creation,
        options: SetOptions,
    ) -> Creation {
        let shape_and_strides = [creation.len() as isize, 1];
        let state = State { creation: Some(creation), exports: 0, is_over: false, sealed: None };
        Creation { state: Mutex::new(state), client, options, shape_and_strides }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seal_by(&self, py: Python<'_>, options: &SetOptions) -> PyResult<bool> {
        let is_stored = self.seal_once(py, options)?;
        self.state().sealed = Some(is_stored);
        Ok(is_stored)
    }

    fn seal_once(&self, py: Python<'_>, options: &SetOptions) -> PyResult<bool> {
        let mut state = self.state();
        if state.is_over {
            // Raising may collect garbage, and an export in that takes the lock.
            drop(state);
            return Err(over(py));
        }
        state.is_over = true;
        if state.exports == 0 {
            let creation = state.creation.take().expect("it is there until it is over");
            drop(state);
            return py.detach(|| creation.seal_with(options)).or_raise(py);
        }
        // Released meanwhile, it is not dropped before this export has ended, too.
        state.exports += 1;
        let creation = state.creation.as_ref().expect("it is there while it is exported");
        let bytes: (*const u8, usize) = (creation.as_ptr(), creation.len());
        let key = creation.key().to_vec();
        drop(state);
        // SAFETY: the export that was counted above keeps so many bytes there.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.0, bytes.1) };
        let put = py.detach(|| self.client.put_with(&key, bytes, options));
        self.end_export();
        put.or_raise(py)
    }

    fn end_export(&self) {
        let mut state = self.state();
        state.exports -= 1;
        if state.is_over && state.exports == 0 {
            let creation = state.creation.take();
            drop(state);
            drop(creation);
        }
    }
}

#[pymethods]
impl Creation {
    /// Makes the bytes the value of the key; returns whether `nx` or `xx` let it.
    ///
    /// Where any argument is given, they are used in the place of those of `create`. `ClosedError`
    /// is raised where it was sealed or aborted.
    #[pyo3(signature = (*, ttl=None, nx=false, xx=false, keep_ttl=false))]
    fn seal(
        &self,
        py: Python<'_>,
        ttl: Option<&Bound<'_, PyAny>>,
        nx: bool,
        xx: bool,
        keep_ttl: bool,
    ) -> PyResult<bool> {
        let is_told = ttl.is_some() || nx || xx || keep_ttl;
        match is_told {
            true => self.seal_by(py, &set_options(ttl, nx, xx, keep_ttl)?),
            false => self.seal_by(py, &self.options),
        }
    }

    /// Gives the memory back, and leaves the key as it was.
    fn abort(&self, py: Python<'_>) {
        let mut state = self.state();
        state.is_over = true;
        if state.exports == 0 {
            let creation = state.creation.take();
            drop(state);
            py.detach(|| drop(creation));
        }
    }

    fn __enter__(slf: Py<Creation>) -> Py<Creation> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let is_over = self.state().is_over;
        if !kind.is_none() {
            self.abort(py);
        } else if !is_over {
            self.seal_by(py, &self.options)?;
        }
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.shape_and_strides[0] as usize
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.__len__()
    }

    /// Whether the value was sealed or aborted.
    #[getter]
    fn closed(&self) -> bool {
        self.state().is_over
    }

    /// What `seal` has returned, also at the end of a `with` statement: whether `nx` or `xx` let it
    /// be stored. `None` before, and where it was aborted.
    #[getter]
    fn sealed(&self) -> Option<bool> {
        self.state().sealed
    }

    fn __setitem__(
        slf: &Bound<'_, Creation>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let memory = pyo3::types::PyMemoryView::from(slf)?;
        let done = memory.set_item(index, value);
        memory.call_method0("release")?;
        done
    }

    /// Returns the memory as an array of NumPy's, to be written: of `dtype`, bytes where that is
    /// `None`, and of `shape`, one dimension where that is `None`.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Creation>,
        dtype: Option<Bound<'py, PyAny>>,
        shape: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        helpers(slf.py())?.getattr("array_over")?.call1((slf, dtype, shape))
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Creation>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let mut state = this.state();
        if state.is_over {
            drop(state);
            return Err(over(slf.py()));
        }
        let Some(creation) = state.creation.as_mut() else {
            return Err(PyBufferError::new_err("the value is not there"));
        };
        let (start, length) = (creation.as_mut_ptr().cast_const(), creation.len());
        state.exports += 1;
        drop(state);
        let exported = Exported {
            start,
            length,
            is_readonly: false,
            item_bytes: 1,
            format: c"B".as_ptr().cast(),
            shape_and_strides: this.shape_and_strides.as_ptr(),
            dimensions: 1,
        };
        // SAFETY: the interpreter brings `view`. The creation is neither sealed nor dropped while
        // there are exports; its length is part of the object.
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

fn over(py: Python<'_>) -> PyErr {
    exception(py, "ClosedError", "the value was sealed or aborted")
}
