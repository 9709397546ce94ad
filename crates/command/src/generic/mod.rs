//! The commands of keys, whatever their type.

mod r#await;
mod copy;
mod del;
mod dump;
mod exists;
mod expire;
mod expireat;
mod expiretime;
mod keys;
mod r#move;
mod object;
mod persist;
mod pexpire;
mod pexpireat;
mod pexpiretime;
mod pttl;
mod randomkey;
mod rename;
mod renamenx;
mod restore;
mod scan;
mod touch;
mod ttl;
mod r#type;
mod unlink;
mod wait;
mod waitaof;

use crate::row::Command;

/// The rows of the family.
pub static GENERIC: &[&Command] = &[
    &r#await::AWAIT,
    &copy::COPY,
    &del::DEL,
    &dump::DUMP,
    &exists::EXISTS,
    &expire::EXPIRE,
    &expireat::EXPIREAT,
    &expiretime::EXPIRETIME,
    &keys::KEYS,
    &r#move::MOVE,
    &object::OBJECT,
    &persist::PERSIST,
    &pexpire::PEXPIRE,
    &pexpireat::PEXPIREAT,
    &pexpiretime::PEXPIRETIME,
    &pttl::PTTL,
    &randomkey::RANDOMKEY,
    &rename::RENAME,
    &renamenx::RENAMENX,
    &restore::RESTORE,
    &scan::SCAN,
    &touch::TOUCH,
    &ttl::TTL,
    &r#type::TYPE,
    &unlink::UNLINK,
    &wait::WAIT,
    &waitaof::WAITAOF,
];
