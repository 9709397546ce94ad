//! The integration tests: the real `forebay` program, compared with the real `redis-server`.

/// Some tests promise that nothing is allocated.
#[global_allocator]
static ALLOCATOR: sys::allocations::Counting = sys::allocations::Counting;

mod compat;
mod drop_in;
mod durable;
mod hostile;
mod interop;
pub mod memcached;
mod victims;
