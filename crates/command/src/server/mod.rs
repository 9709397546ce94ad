//! The commands of the server.

mod backup;
mod cache;
mod command;
mod config;
mod dbsize;
pub(crate) mod debug;
mod feed;
mod flushall;
mod info;
mod lastsave;
mod latency;
mod lolwut;
mod memory;
mod monitor;
mod purgelogsto;
mod role;
mod save;
mod shm;
mod shutdown;
mod slowlog;
mod swapdb;
mod time;

use crate::table::row::Command;

pub(crate) static SERVER: &[&Command] = &[
    &backup::BACKUP,
    &save::BGREWRITEAOF,
    &save::BGSAVE,
    &cache::CACHE,
    &command::COMMAND,
    &config::CONFIG,
    &dbsize::DBSIZE,
    &debug::DEBUG,
    &feed::FEED,
    &flushall::FLUSHALL,
    &flushall::FLUSHDB,
    &info::INFO,
    &lastsave::LASTSAVE,
    &latency::LATENCY,
    &lolwut::LOLWUT,
    &memory::MEMORY,
    &monitor::MONITOR,
    &purgelogsto::PURGELOGSTO,
    &role::ROLE,
    &save::SAVE,
    &shm::SHM,
    &shutdown::SHUTDOWN,
    &slowlog::SLOWLOG,
    &swapdb::SWAPDB,
    &time::TIME,
];
