//! The server: listeners, workers, configuration, log and INFO around an instance of `runtime`.
//!
//! *Layout*: `serve.rs` starts and ends everything, `in_process.rs` does so
//! in a program that is no server; `listen.rs` opens listeners, `accept.rs` lets
//! connections in, `worker.rs` is the event loop and `connection.rs` one client in it, whose bytes
//! `transport.rs` carries. `server_state.rs` is what the threads share, `service.rs` the thread
//! that runs the sweeper (`runtime`), closes idle clients and samples rates, `mailbox.rs` how
//! threads send messages to workers. `config/` holds the options as rows, `info_text.rs` the text
//! of INFO, `command_host.rs` answers the commands, `attach.rs` shares the arena's segments with
//! processes, `lane_lifecycle.rs` and `upload_memory.rs` give them more to write to;
//! `huge_pages.rs` puts the data on huge pages,
//! `page_population.rs` populates the pages of that memory once the client has sealed it,
//! `persistence.rs` has files of the dataset written, and reads one at start; `import.rs` sends
//! what files of Redis hold to a server; `transfers.rs` sends keys to other servers,
//! `wait_claim.rs` and `client_pause.rs` say who waits, `monitor.rs` shows some what all do,
//! `detach.rs` and `supervise.rs` are what a process owes to who started it, `crash_report.rs` says
//! what a crash is reported with.
//! `durability.rs` keeps the log.
//! *Invariants*: a connection belongs to one worker; a worker never waits but for readiness; an
//! idle server uses no processor time; every buffer has a limit.
//! *Not here*: what a command does (command), the order of checks (engine), what an instance does
//! by itself and its memory (runtime), system calls (sys).
#![forbid(unsafe_code)]

pub mod config;
pub mod import;
pub mod in_process;
pub mod memcached_command_line;
pub mod serve;

mod accept;
mod attach;
mod buffers;
mod client_pause;
mod command_host;
mod connection;
mod crash_report;
mod descriptor_closer;
mod descriptor_limits;
mod descriptors_in_flight;
mod detach;
pub mod durability;
mod huge_pages;
mod info_text;
mod lane_lifecycle;
mod latency;
mod listen;
mod loading;
mod log;
mod mailbox;
mod memcached_users;
mod monitor;
mod oom_score;
mod page_population;
mod persistence;
mod redis_files;
mod registry;
mod server_observer;
mod server_state;
mod service;
mod shared_time;
mod slow_log;
mod statistics;
mod supervise;
mod token_table;
mod transfers;
mod transport;
mod upload_memory;
mod user_quotas;
mod wait_claim;
mod worker;

#[cfg(test)]
mod tests;
