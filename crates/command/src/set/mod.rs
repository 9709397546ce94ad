//! The commands of sets.

mod algebra;
mod sadd;
mod scard;
mod sinter;
mod sintercard;
mod sinterstore;
mod sismember;
mod smembers;
mod smismember;
mod smove;
mod spop;
mod srandmember;
mod srem;
mod sscan;

use crate::table::row::Command;

pub(crate) static SETS: &[&Command] = &[
    &sadd::SADD,
    &scard::SCARD,
    &sinter::SDIFF,
    &sinterstore::SDIFFSTORE,
    &sinter::SINTER,
    &sintercard::SINTERCARD,
    &sinterstore::SINTERSTORE,
    &sismember::SISMEMBER,
    &smembers::SMEMBERS,
    &smismember::SMISMEMBER,
    &smove::SMOVE,
    &spop::SPOP,
    &srandmember::SRANDMEMBER,
    &srem::SREM,
    &sscan::SSCAN,
    &sinter::SUNION,
    &sinterstore::SUNIONSTORE,
];
