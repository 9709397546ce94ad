//! The server: listeners, workers, configuration, log and INFO around an instance of `runtime`.
//!
//! *Layout*: `serve.rs` starts and ends everything; `listen.rs` opens listeners, `accept.rs` lets
//! connections in, `worker.rs` is the event loop and `connection.rs` one client in it, whose bytes
//! `transport.rs` carries. `shared.rs` is what the threads share, `service.rs` the thread that runs
//! the sweeper (`runtime`), closes idle clients and samples rates, `mailbox.rs` how threads send
//! messages to workers. `config/` holds the options as rows, `info.rs` the text of INFO, `host.rs`
//! answers the commands, `attach.rs` shares the arena's segments with processes, `lanes.rs` and
//! `uploads.rs` give them more to write to; `sealings.rs` populates the pages of that memory once
//! the client has sealed it, `stall.rs` and `pause.rs` say who waits, `monitor.rs` shows some what
//! all do, `detach.rs` and `supervise.rs` are what a process owes to who started it, `crash.rs`
//! says what a crash is reported with.
//! *Invariants*: a connection belongs to one worker; a worker never waits but for readiness; an
//! idle server uses no processor time; every buffer has a limit.
//! *Not here*: what a command does (command), the order of checks (engine), what an instance does
//! by itself and its memory (runtime), system calls (sys).
#![forbid(unsafe_code)]

pub mod config;
pub mod serve;

mod accept;
mod attach;
mod buffers;
mod closings;
mod connection;
mod crash;
mod detach;
mod host;
mod info;
mod lanes;
mod latency;
mod limits;
mod listen;
mod log;
mod mailbox;
mod monitor;
mod observe;
mod oom;
mod outbound;
mod pause;
mod registry;
mod sealings;
mod service;
mod shared;
mod shares;
mod slab;
mod slow_log;
mod stall;
mod statistics;
mod supervise;
mod transport;
mod uploads;
mod worker;

#[cfg(test)]
mod tests;
