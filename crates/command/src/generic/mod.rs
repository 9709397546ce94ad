//! The commands of keys, whatever their type.

mod del;
mod exists;
mod expire;
mod expireat;
mod expiretime;
mod keys;
mod object;
mod persist;
mod pexpire;
mod pexpireat;
mod pexpiretime;
mod pttl;
mod randomkey;
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
    &del::DEL,
    &exists::EXISTS,
    &expire::EXPIRE,
    &expireat::EXPIREAT,
    &expiretime::EXPIRETIME,
    &keys::KEYS,
    &object::OBJECT,
    &persist::PERSIST,
    &pexpire::PEXPIRE,
    &pexpireat::PEXPIREAT,
    &pexpiretime::PEXPIRETIME,
    &pttl::PTTL,
    &randomkey::RANDOMKEY,
    &scan::SCAN,
    &touch::TOUCH,
    &ttl::TTL,
    &r#type::TYPE,
    &unlink::UNLINK,
    &wait::WAIT,
    &waitaof::WAITAOF,
];
