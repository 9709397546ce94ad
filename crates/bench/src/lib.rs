//! The load generator, the comparisons with other servers, and the demonstration.
//!
//! *Layout*: `load.rs` drives `connection.rs` with the requests of `workload.rs` (keys from
//! `key_distribution.rs`) and checks replies with `skim.rs`. `server_process.rs` starts servers and
//! `accounting.rs` reads what they used. `compare.rs`, `memory_per_key.rs`,
//! `memory_of_collections.rs`, `small.rs`, `churn.rs`, `memory_limits.rs`, `hit_rate.rs`,
//! `cache.rs`, `one_sided_reads.rs` with `collection_reads.rs`, `kills.rs`, `restart.rs`,
//! `snapshot.rs`, `local.rs`, `memcached.rs`, `pipeline.rs`, `instructions.rs` and `demo.rs` are
//! the commands, `read_cost.rs` times one read for the last and `kill_and_restart.rs` ends it;
//! `bare_server.rs` is a server without a store, `bare_log.rs` one with a log and no store;
//! `cache_sim.rs` simulates eviction policies without a server.
//! `tables.rs` and `recipes.rs` hold the rows that are published, each a cycle of one connection;
//! `cli.rs` is the command line, `record.rs` writes them down.
//! *Invariants*: nothing is allocated per operation while a load runs. A server that this crate
//! starts ends with the process, however that ends, and its folder is removed.
//! *Not here*: anything that a server needs. No crate imports this one.
#![forbid(unsafe_code)]

pub mod accounting;
mod bare_log;
mod bare_server;
pub mod cache;
pub mod cache_sim;
pub mod churn;
pub mod cli;
pub mod collection_reads;
mod compare;
mod connection;
pub mod demo;
pub mod hit_rate;
pub mod instructions;
pub mod key_distribution;
mod kill_and_restart;
pub mod kills;
pub mod load;
pub mod local;
pub mod memcached;
pub mod memory_limits;
pub mod memory_of_collections;
pub mod memory_per_key;
pub mod one_sided_reads;
pub mod pipeline;
pub mod read_cost;
pub mod recipes;
pub mod record;
pub mod restart;
pub mod server_process;
pub mod skim;
pub mod small;
pub mod snapshot;
pub mod tables;
pub mod target;
pub mod wire;
pub mod workload;
