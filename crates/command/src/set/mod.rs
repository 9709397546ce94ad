//! The commands of sets.

mod chance;
mod sadd;
mod scard;
mod sismember;
mod smembers;
mod smismember;
mod smove;
mod spop;
mod srandmember;
mod srem;

use crate::table::row::Command;

pub(crate) static SETS: &[&Command] = &[
    &sadd::SADD,
    &scard::SCARD,
    &sismember::SISMEMBER,
    &smembers::SMEMBERS,
    &smismember::SMISMEMBER,
    &smove::SMOVE,
    &spop::SPOP,
    &srandmember::SRANDMEMBER,
    &srem::SREM,
];
