//! The commands of strings.

mod append;
mod comparison;
mod delex;
mod delifeq;
mod digest;
mod get;
mod getdel;
mod getex;
mod getrange;
mod getset;
mod incr;
mod incrbyfloat;
mod increx;
mod itemset;
mod lcs;
mod lease;
mod lfill;
mod lget;
mod mget;
mod mset;
mod msetex;
pub(crate) mod reply;
pub(crate) mod set;
mod set_options;
mod setex;
mod setnx;
mod setrange;
mod strlen;

use crate::table::row::Command;

pub(crate) static STRING: &[&Command] = &[
    &append::APPEND,
    &incr::DECR,
    &incr::DECRBY,
    &delex::DELEX,
    &delifeq::DELIFEQ,
    &digest::DIGEST,
    &get::GET,
    &getdel::GETDEL,
    &getex::GETEX,
    &getrange::GETRANGE,
    &getset::GETSET,
    &incr::INCR,
    &incr::INCRBY,
    &incrbyfloat::INCRBYFLOAT,
    &increx::INCREX,
    &itemset::ITEMSET,
    &lcs::LCS,
    &lease::LDEL,
    &lease::LEXTEND,
    &lfill::LFILL,
    &lease::LFREE,
    &lget::LGET,
    &mget::MGET,
    &lget::MLGET,
    &mset::MSET,
    &msetex::MSETEX,
    &mset::MSETNX,
    &setex::PSETEX,
    &set::SET,
    &setex::SETEX,
    &setnx::SETNX,
    &setrange::SETRANGE,
    &strlen::STRLEN,
    &getrange::SUBSTR,
];
