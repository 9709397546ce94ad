//! The server in this process, for `forebay.open`.

use std::sync::Mutex;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use server::in_process::{self, InProcessServer, ShownOption, option_as_shown};

use crate::errors::exception;

/// Returns the option `name` of `forebay serve` with `value`, both as CONFIG GET shows them, with
/// `None` for the value of one that is taken and ignored; `None` where there is no such option.
/// `ValueError` is raised where it does not take the value.
#[pyfunction]
pub fn option(name: &str, value: &str) -> PyResult<Option<ShownOption>> {
    option_as_shown(name, value)
        .map_err(|reason| PyValueError::new_err(format!("{name} {value:?}: {reason}")))
}

/// Returns the names of all options of `forebay serve`.
#[pyfunction]
pub fn option_names() -> Vec<&'static str> {
    in_process::option_names().collect()
}

/// A server on threads of this process, until `stop`.
#[pyclass(frozen, module = "forebay._native")]
pub struct Server {
    running: Mutex<Option<InProcessServer>>,
}

#[pymethods]
impl Server {
    /// Starts a server with options as on the command line of `forebay serve`.
    #[new]
    fn start(py: Python<'_>, options: Vec<String>) -> PyResult<Server> {
        let started = py.detach(|| InProcessServer::start(&options));
        match started {
            Ok(server) => Ok(Server { running: Mutex::new(Some(server)) }),
            Err(text) => Err(PyOSError::new_err(text)),
        }
    }

    /// Ends the server; in a forked child, where it does not run, nothing happens.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.lock().ok().and_then(|mut running| running.take());
        let stopped = py.detach(|| running.map_or(Ok(()), InProcessServer::stop));
        stopped.map_err(|text| exception(py, "Error", &text))
    }
}
