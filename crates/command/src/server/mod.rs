//! The commands of the server.

mod bgrewriteaof;
mod bgsave;
mod command;
mod config;
mod dbsize;
pub(crate) mod debug;
mod flush_mode;
mod flushall;
mod flushdb;
mod info;
mod lastsave;
mod latency;
mod lolwut;
mod memory;
mod monitor;
mod role;
mod save;
mod shm;
mod shutdown;
mod slowlog;
mod swapdb;
mod time;

use crate::table::row::Command;

pub(crate) static SERVER: &[&Command] = &[
    &bgrewriteaof::BGREWRITEAOF,
    &bgsave::BGSAVE,
    &command::COMMAND,
    &config::CONFIG,
    &dbsize::DBSIZE,
    &debug::DEBUG,
    &flushall::FLUSHALL,
    &flushdb::FLUSHDB,
    &info::INFO,
    &lastsave::LASTSAVE,
    &latency::LATENCY,
    &lolwut::LOLWUT,
    &memory::MEMORY,
    &monitor::MONITOR,
    &role::ROLE,
    &save::SAVE,
    &shm::SHM,
    &shutdown::SHUTDOWN,
    &slowlog::SLOWLOG,
    &swapdb::SWAPDB,
    &time::TIME,
];
