//! The commands of keys, whatever their type.

mod r#await;
mod copy;
mod del;
mod dump;
mod exists;
mod expire;
mod keys;
pub(crate) mod migrate;
mod r#move;
mod object;
mod persist;
mod randomkey;
mod rename;
mod renamenx;
mod restore;
mod scan;
mod sort;
mod sort_values;
mod touch;
mod ttl;
mod r#type;
mod wait;
mod waitaof;

pub(crate) use self::r#type::type_named;
use crate::table::row::Command;

pub(crate) static GENERIC: &[&Command] = &[
    &r#await::AWAIT,
    &copy::COPY,
    &del::DEL,
    &dump::DUMP,
    &exists::EXISTS,
    &expire::EXPIRE,
    &expire::EXPIREAT,
    &ttl::EXPIRETIME,
    &keys::KEYS,
    &migrate::MIGRATE,
    &r#move::MOVE,
    &object::OBJECT,
    &persist::PERSIST,
    &expire::PEXPIRE,
    &expire::PEXPIREAT,
    &ttl::PEXPIRETIME,
    &ttl::PTTL,
    &randomkey::RANDOMKEY,
    &rename::RENAME,
    &renamenx::RENAMENX,
    &restore::RESTORE,
    &scan::SCAN,
    &sort::SORT,
    &sort::SORT_RO,
    &touch::TOUCH,
    &ttl::TTL,
    &r#type::TYPE,
    &del::UNLINK,
    &wait::WAIT,
    &waitaof::WAITAOF,
];
