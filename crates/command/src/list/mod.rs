//! The commands of lists.

mod blpop;
mod brpop;
mod lindex;
mod linsert;
mod list_pop;
mod llen;
mod lpop;
mod lpush;
mod lpushx;
mod lrange;
mod lrem;
mod lset;
mod ltrim;
mod rpop;
mod rpush;
mod rpushx;

use crate::table::row::Command;

pub(crate) static LIST: &[&Command] = &[
    &blpop::BLPOP,
    &brpop::BRPOP,
    &lindex::LINDEX,
    &linsert::LINSERT,
    &llen::LLEN,
    &lpop::LPOP,
    &lpush::LPUSH,
    &lpushx::LPUSHX,
    &lrange::LRANGE,
    &lrem::LREM,
    &lset::LSET,
    &ltrim::LTRIM,
    &rpop::RPOP,
    &rpush::RPUSH,
    &rpushx::RPUSHX,
];
