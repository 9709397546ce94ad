//! The load generator, the comparisons with other servers, and the demonstration.
//!
//! *Layout*: `load.rs` drives `connection.rs` with the requests of `workload.rs` (keys from
//! `keys.rs`) and checks replies with `skim.rs`. `server_process.rs` starts servers and
//! `accounting.rs` reads what they used. `compare.rs`, `memory.rs`, `small.rs`, `churn.rs`,
//! `limits.rs`, `hit_rate.rs`, `reader.rs`, `kills.rs`, `local.rs`, `pipeline.rs`,
//! `instructions.rs` and `demo.rs` are the commands,
//! `shared.rs` reads through shared memory for the last; `tables.rs` and `recipes.rs` hold the rows
//! that are published, `record.rs` writes them down.
//! *Invariants*: nothing is allocated per operation while a load runs. A server that this crate
//! starts ends with the process, however that ends, and its folder is removed.
//! *Not here*: anything that a server needs. No crate imports this one.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod churn;
pub mod cli;
pub mod compare;
mod connection;
pub mod demo;
pub mod hit_rate;
pub mod instructions;
pub mod keys;
pub mod kills;
pub mod limits;
pub mod load;
pub mod local;
pub mod memory;
pub mod pipeline;
pub mod reader;
pub mod recipes;
pub mod record;
pub mod server_process;
pub mod shared;
pub mod skim;
pub mod small;
pub mod tables;
pub mod target;
pub mod wire;
pub mod workload;
