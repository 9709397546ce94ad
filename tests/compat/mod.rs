//! Forebay compared with redis-server 7.0.15: the same requests, the same replies.

mod awaits;
mod blocking_moves;
mod blocking_pops;
mod blocking_streams;
mod command_rows;
mod config_table;
mod debug;
mod differential;
pub mod dumped_values;
mod geo;
mod information;
mod large_sets;
mod large_values;
mod leases;
mod memory_usage;
mod migrations;
mod observation;
mod raw_stream;
mod render;
mod run_scripts;
mod scan;
mod script;
pub mod sessions;
mod snapshots;
