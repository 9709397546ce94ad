//! The commands of hashes.

mod hdel;
mod hexists;
mod hget;
mod hgetall;
mod hincrby;
mod hincrbyfloat;
mod hkeys;
mod hlen;
mod hmget;
mod hmset;
mod hset;
mod hsetnx;
mod hstrlen;
mod hvals;

use crate::table::row::Command;

pub(crate) static HASH: &[&Command] = &[
    &hdel::HDEL,
    &hexists::HEXISTS,
    &hget::HGET,
    &hgetall::HGETALL,
    &hincrby::HINCRBY,
    &hincrbyfloat::HINCRBYFLOAT,
    &hkeys::HKEYS,
    &hlen::HLEN,
    &hmget::HMGET,
    &hmset::HMSET,
    &hset::HSET,
    &hsetnx::HSETNX,
    &hstrlen::HSTRLEN,
    &hvals::HVALS,
];
