//! The native half of the Python package `forebay`: the module `forebay._native`.
//!
//! *Layout*: `client.rs` is the class that calls go through, on the Rust client; `view.rs` a value
//! that was read, `writable.rs` private memory over one, `creation.rs` one that is being written;
//! `lane.rs` is a connection for clients that speak the protocol themselves. `block.rs` is the
//! layout of values that are not plain bytes, `content.rs` turns Python's objects into values.
//! `buffer.rs` is Python's buffer protocol, both ways. `arguments.rs` reads arguments, `replies.rs`
//! makes objects of replies, `errors.rs` raises. `lease.rs` is the cache's part of leases.
//! `server.rs` is the server in the interpreter's process.
//! *Invariants*: the interpreter's lock is released in every wait, and in every copy above 64 KiB
//! but that of a value which is read and may not be pinned; memory that is exported stays where it
//! is and as it is until the last export is released.
//! *Not here*: what needs no speed: locks, the cache's functions, pipelines, the mapping
//! (`python/forebay`).
#![deny(unsafe_code)]

mod arguments;
mod block;
mod buffer;
mod client;
mod content;
mod creation;
mod errors;
mod lane;
mod lease;
mod replies;
mod server;
mod view;
mod writable;

use pyo3::prelude::*;

/// The module `forebay._native`.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<client::Client>()?;
    module.add_class::<view::View>()?;
    module.add_class::<creation::Creation>()?;
    module.add_class::<lane::Lane>()?;
    module.add_class::<server::Server>()?;
    module.add_function(wrap_pyfunction!(server::option, module)?)?;
    module.add_function(wrap_pyfunction!(server::option_names, module)?)?;
    module.add_function(wrap_pyfunction!(lease::lget, module)?)?;
    module.add_function(wrap_pyfunction!(lease::lfill, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
