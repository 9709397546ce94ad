//! The integration tests: the real `forebay` program beside the real `redis-server`.

mod compat;
mod drop_in;
mod hostile;
mod interop;
