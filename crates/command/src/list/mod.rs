//! The commands of lists.

mod blpop;
mod lindex;
mod linsert;
mod llen;
mod lpop;
mod lpush;
mod lrange;
mod lrem;
mod lset;
mod ltrim;

use crate::table::row::Command;

pub(crate) static LIST: &[&Command] = &[
    &blpop::BLPOP,
    &blpop::BRPOP,
    &lindex::LINDEX,
    &linsert::LINSERT,
    &llen::LLEN,
    &lpop::LPOP,
    &lpush::LPUSH,
    &lpush::LPUSHX,
    &lrange::LRANGE,
    &lrem::LREM,
    &lset::LSET,
    &ltrim::LTRIM,
    &lpop::RPOP,
    &lpush::RPUSH,
    &lpush::RPUSHX,
];
