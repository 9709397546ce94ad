//! The exceptions, which are classes of `forebay._errors`.

use client::ClientError;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

/// Returns the exception for `error`.
pub fn raised(py: Python<'_>, error: &ClientError) -> PyErr {
    let name = match error {
        ClientError::NoMemory(_) => return PyMemoryError::new_err(error.to_string()),
        ClientError::Url(_) => "URLError",
        ClientError::Refused(text) if text.starts_with("WRONGTYPE ") => "WrongTypeError",
        ClientError::Refused(_) => "ResponseError",
        ClientError::Broken(_) | ClientError::Forked => "ConnectionError",
        ClientError::Closed => "ClosedError",
        ClientError::TimedOut => "TimeoutError",
        ClientError::Unexpected(_) => "ProtocolError",
        ClientError::Unsupported(_) => "UnsupportedError",
    };
    exception(py, name, &error.to_string())
}

/// Returns the exception `name` of the package, with a message.
pub fn exception(py: Python<'_>, name: &str, message: &str) -> PyErr {
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || py.import("forebay._errors").map(Bound::unbind));
    let made = classes.and_then(|classes| classes.bind(py).getattr(name)?.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Turns what a client returns into what Python sees.
pub trait OrRaise<T> {
    /// Returns the value, or raises.
    ///
    /// # Errors
    /// The exception for the client's error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, ClientError> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}
