//! The commands of sorted sets.

mod score_options;
mod score_pop;
mod score_range;
mod zadd;
mod zcard;
mod zcount;
mod zincrby;
mod zlexcount;
mod zmscore;
mod zpopmax;
mod zpopmin;
mod zrange;
mod zrangebylex;
mod zrangebyscore;
mod zrank;
mod zrem;
mod zremrangebylex;
mod zremrangebyrank;
mod zremrangebyscore;
mod zrevrange;
mod zrevrangebylex;
mod zrevrangebyscore;
mod zrevrank;
mod zscore;

use crate::table::row::Command;

pub(crate) static SORTED_SET: &[&Command] = &[
    &zadd::ZADD,
    &zcard::ZCARD,
    &zcount::ZCOUNT,
    &zincrby::ZINCRBY,
    &zlexcount::ZLEXCOUNT,
    &zmscore::ZMSCORE,
    &zpopmax::ZPOPMAX,
    &zpopmin::ZPOPMIN,
    &zrange::ZRANGE,
    &zrangebylex::ZRANGEBYLEX,
    &zrangebyscore::ZRANGEBYSCORE,
    &zrank::ZRANK,
    &zrem::ZREM,
    &zremrangebylex::ZREMRANGEBYLEX,
    &zremrangebyrank::ZREMRANGEBYRANK,
    &zremrangebyscore::ZREMRANGEBYSCORE,
    &zrevrange::ZREVRANGE,
    &zrevrangebylex::ZREVRANGEBYLEX,
    &zrevrangebyscore::ZREVRANGEBYSCORE,
    &zrevrank::ZREVRANK,
    &zscore::ZSCORE,
];
