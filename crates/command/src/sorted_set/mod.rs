//! The commands of sorted sets.

mod range;
mod zadd;
mod zcard;
mod zcount;
mod zmscore;
mod zpopmax;
mod zrange;
mod zrangebylex;
mod zrangebyscore;
mod zrank;
mod zrem;
mod zremrangebylex;
mod zscore;

use crate::table::row::Command;

pub(crate) static SORTED_SET: &[&Command] = &[
    &zadd::ZADD,
    &zcard::ZCARD,
    &zcount::ZCOUNT,
    &zadd::ZINCRBY,
    &zcount::ZLEXCOUNT,
    &zmscore::ZMSCORE,
    &zpopmax::ZPOPMAX,
    &zpopmax::ZPOPMIN,
    &zrange::ZRANGE,
    &zrangebylex::ZRANGEBYLEX,
    &zrangebyscore::ZRANGEBYSCORE,
    &zrank::ZRANK,
    &zrem::ZREM,
    &zremrangebylex::ZREMRANGEBYLEX,
    &zremrangebylex::ZREMRANGEBYRANK,
    &zremrangebylex::ZREMRANGEBYSCORE,
    &zrange::ZREVRANGE,
    &zrangebylex::ZREVRANGEBYLEX,
    &zrangebyscore::ZREVRANGEBYSCORE,
    &zrank::ZREVRANK,
    &zscore::ZSCORE,
];
