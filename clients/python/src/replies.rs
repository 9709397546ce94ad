//! Replies as Python's objects: bulk strings are `bytes`, status lines `str`, maps `dict`, sets
//! `list`, as their members need not be hashable; an error within a reply is an exception object.

use client::Reply;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::errors::exception;

/// Returns `reply` as an object.
///
/// # Errors
/// When the interpreter has no memory.
pub fn object<'py>(py: Python<'py>, reply: &Reply) -> PyResult<Bound<'py, PyAny>> {
    Ok(match reply {
        Reply::Simple(line) => text(py, line),
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(line);
            let is_type = line.starts_with("WRONGTYPE ");
            let name = if is_type { "WrongTypeError" } else { "ResponseError" };
            exception(py, name, &line).into_value(py).into_bound(py).into_any()
        }
        Reply::Integer(number) => PyInt::new(py, *number).into_any(),
        Reply::Bulk(bytes) => PyBytes::new(py, bytes).into_any(),
        Reply::Null | Reply::NullArray => py.None().into_bound(py),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => list(py, items)?,
        Reply::Map(pairs) => {
            let map = PyDict::new(py);
            for (key, value) in pairs {
                map.set_item(object(py, key)?, object(py, value)?)?;
            }
            map.into_any()
        }
        Reply::Double(number) => PyFloat::new(py, *number).into_any(),
        Reply::Boolean(is_true) => PyBool::new(py, *is_true).to_owned().into_any(),
        Reply::BigNumber(digits) => py.get_type::<PyInt>().call1((text(py, digits),))?,
        Reply::Verbatim { text: line, .. } => text(py, line),
        Reply::Attribute { value, .. } => object(py, value)?,
    })
}

fn list<'py>(py: Python<'py>, items: &[Reply]) -> PyResult<Bound<'py, PyAny>> {
    let items: Vec<_> = items.iter().map(|item| object(py, item)).collect::<PyResult<_>>()?;
    Ok(PyList::new(py, items)?.into_any())
}

fn text<'py>(py: Python<'py>, line: &[u8]) -> Bound<'py, PyAny> {
    PyString::new(py, &String::from_utf8_lossy(line)).into_any()
}
