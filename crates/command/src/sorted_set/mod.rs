//! The commands of sorted sets.

mod bzpopmin;
mod combine;
mod range;
mod zadd;
mod zcard;
mod zcount;
mod zintercard;
mod zmpop;
mod zmscore;
mod zpopmax;
mod zrandmember;
mod zrange;
mod zrangebylex;
mod zrangebyscore;
mod zrangestore;
mod zrank;
mod zrem;
mod zremrangebylex;
mod zscan;
mod zscore;
mod zunion;
mod zunionstore;

use crate::table::row::Command;

pub(crate) static SORTED_SET: &[&Command] = &[
    &zmpop::BZMPOP,
    &bzpopmin::BZPOPMAX,
    &bzpopmin::BZPOPMIN,
    &zadd::ZADD,
    &zcard::ZCARD,
    &zcount::ZCOUNT,
    &zunion::ZDIFF,
    &zunionstore::ZDIFFSTORE,
    &zadd::ZINCRBY,
    &zunion::ZINTER,
    &zintercard::ZINTERCARD,
    &zunionstore::ZINTERSTORE,
    &zcount::ZLEXCOUNT,
    &zmpop::ZMPOP,
    &zmscore::ZMSCORE,
    &zpopmax::ZPOPMAX,
    &zpopmax::ZPOPMIN,
    &zrandmember::ZRANDMEMBER,
    &zrange::ZRANGE,
    &zrangebylex::ZRANGEBYLEX,
    &zrangebyscore::ZRANGEBYSCORE,
    &zrangestore::ZRANGESTORE,
    &zrank::ZRANK,
    &zrem::ZREM,
    &zremrangebylex::ZREMRANGEBYLEX,
    &zremrangebylex::ZREMRANGEBYRANK,
    &zremrangebylex::ZREMRANGEBYSCORE,
    &zrange::ZREVRANGE,
    &zrangebylex::ZREVRANGEBYLEX,
    &zrangebyscore::ZREVRANGEBYSCORE,
    &zrank::ZREVRANK,
    &zscan::ZSCAN,
    &zscore::ZSCORE,
    &zunion::ZUNION,
    &zunionstore::ZUNIONSTORE,
];
