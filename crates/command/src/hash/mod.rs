//! The commands of hashes.

mod hdel;
mod hexists;
mod hget;
mod hgetall;
mod hgetdel;
mod hincrby;
mod hincrbyfloat;
mod hlen;
mod hmget;
mod hrandfield;
mod hscan;
mod hset;
mod hsetnx;
mod hstrlen;

use crate::table::row::Command;

pub(crate) static HASH: &[&Command] = &[
    &hdel::HDEL,
    &hexists::HEXISTS,
    &hget::HGET,
    &hgetall::HGETALL,
    &hgetdel::HGETDEL,
    &hincrby::HINCRBY,
    &hincrbyfloat::HINCRBYFLOAT,
    &hgetall::HKEYS,
    &hlen::HLEN,
    &hmget::HMGET,
    &hset::HMSET,
    &hrandfield::HRANDFIELD,
    &hscan::HSCAN,
    &hset::HSET,
    &hsetnx::HSETNX,
    &hstrlen::HSTRLEN,
    &hgetall::HVALS,
];
