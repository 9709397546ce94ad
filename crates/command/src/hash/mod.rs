//! The commands of hashes.

mod field_times;
mod hdel;
mod hexists;
mod hexpire;
mod hget;
mod hgetall;
mod hgetdel;
mod hgetex;
mod hincrby;
mod hincrbyfloat;
mod hlen;
mod hmget;
mod hpersist;
mod hrandfield;
mod hscan;
mod hset;
mod hsetex;
mod hsetnx;
mod hstrlen;
mod httl;

use crate::table::row::Command;

pub(crate) static HASH: &[&Command] = &[
    &hdel::HDEL,
    &hexists::HEXISTS,
    &hexpire::HEXPIRE,
    &hexpire::HEXPIREAT,
    &httl::HEXPIRETIME,
    &hget::HGET,
    &hgetall::HGETALL,
    &hgetdel::HGETDEL,
    &hgetex::HGETEX,
    &hincrby::HINCRBY,
    &hincrbyfloat::HINCRBYFLOAT,
    &hgetall::HKEYS,
    &hlen::HLEN,
    &hmget::HMGET,
    &hset::HMSET,
    &hpersist::HPERSIST,
    &hexpire::HPEXPIRE,
    &hexpire::HPEXPIREAT,
    &httl::HPEXPIRETIME,
    &httl::HPTTL,
    &hrandfield::HRANDFIELD,
    &hscan::HSCAN,
    &hset::HSET,
    &hsetex::HSETEX,
    &hsetnx::HSETNX,
    &hstrlen::HSTRLEN,
    &httl::HTTL,
    &hgetall::HVALS,
];
