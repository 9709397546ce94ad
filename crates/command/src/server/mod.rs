//! The commands of the server.

mod command;
mod config;
mod dbsize;
mod debug;
mod flushall;
mod flushdb;
mod info;
mod memory;
mod shm;
mod shutdown;
mod swapdb;
mod time;

use crate::row::Command;

/// The rows of the family.
pub static SERVER: &[&Command] = &[
    &command::COMMAND,
    &config::CONFIG,
    &dbsize::DBSIZE,
    &debug::DEBUG,
    &flushall::FLUSHALL,
    &flushdb::FLUSHDB,
    &info::INFO,
    &memory::MEMORY,
    &shm::SHM,
    &shutdown::SHUTDOWN,
    &swapdb::SWAPDB,
    &time::TIME,
];
