//! The commands of strings.

mod append;
mod counter;
mod decr;
mod decrby;
mod delifeq;
mod get;
mod getdel;
mod getex;
mod getrange;
mod getset;
mod incr;
mod incrby;
mod incrbyfloat;
mod lcs;
mod mget;
mod mset;
mod msetex;
mod msetnx;
mod psetex;
pub(crate) mod set;
mod set_options;
mod setex;
mod setnx;
mod setrange;
mod strlen;
mod substr;

use crate::table::row::Command;

pub(crate) static STRING: &[&Command] = &[
    &append::APPEND,
    &decr::DECR,
    &decrby::DECRBY,
    &delifeq::DELIFEQ,
    &get::GET,
    &getdel::GETDEL,
    &getex::GETEX,
    &getrange::GETRANGE,
    &getset::GETSET,
    &incr::INCR,
    &incrby::INCRBY,
    &incrbyfloat::INCRBYFLOAT,
    &lcs::LCS,
    &mget::MGET,
    &mset::MSET,
    &msetex::MSETEX,
    &msetnx::MSETNX,
    &psetex::PSETEX,
    &set::SET,
    &setex::SETEX,
    &setnx::SETNX,
    &setrange::SETRANGE,
    &strlen::STRLEN,
    &substr::SUBSTR,
];
