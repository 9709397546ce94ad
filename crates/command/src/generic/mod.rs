//! The commands of keys, whatever their type.

mod r#await;
mod copy;
mod del;
mod exists;
mod expire;
mod expire_options;
mod expireat;
mod expiretime;
mod keys;
mod r#move;
mod names;
mod object;
mod persist;
mod pexpire;
mod pexpireat;
mod pexpiretime;
mod pttl;
mod randomkey;
mod remaining_time;
mod rename;
mod renamenx;
mod scan;
mod touch;
mod ttl;
mod r#type;
mod unlink;
mod wait;
mod waitaof;

use crate::table::row::Command;

pub(crate) static GENERIC: &[&Command] = &[
    &r#await::AWAIT,
    &copy::COPY,
    &del::DEL,
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
    &scan::SCAN,
    &touch::TOUCH,
    &ttl::TTL,
    &r#type::TYPE,
    &unlink::UNLINK,
    &wait::WAIT,
    &waitaof::WAITAOF,
];
