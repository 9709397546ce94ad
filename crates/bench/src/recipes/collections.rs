//! The rows of commands on collections, and the collections that they find.
//!
//! Each row leaves the collections as it finds them, in the long run, so that rows may come in any
//! order: what one request adds, the next one of its cycle removes.

use super::{ARRAY, BULK, NUMBER, OK, Recipe, cycle, one};

/// What is sent for the number of each key, once, before the rows: collections of five parts, and
/// large ones of as many parts as there are keys.
pub static FILLS: &[Recipe] = &[
    cycle(
        "hashes",
        &[(
            "HSET hsh:* field1 value-0001 field2 value-0002 field3 value-0003 field4 v-4 number 5",
            NUMBER,
        )],
    ),
    cycle(
        "lists",
        &[("RPUSH lst:* element-0001 element-0002 element-0003 element-0004 element-05", NUMBER)],
    ),
    cycle(
        "sets",
        &[("SADD set:* member-0001 member-0002 member-0003 member-0004 member-05", NUMBER)],
    ),
    cycle(
        "other sets",
        &[("SADD oth:* member-0003 member-0004 member-05 member-0006 member-0007", NUMBER)],
    ),
    cycle("sets of integers", &[("SADD int:* 1001 2002 3003 4004 5005", NUMBER)]),
    cycle(
        "sorted sets",
        &[("ZADD zst:* 1.5 member1 2 member2 3 member3 4 member4 5 member5", NUMBER)],
    ),
    cycle(
        "places",
        &[(
            "GEOADD plc:* 13.36 38.11 member1 15.09 37.5 member2 14.25 40.83 member3 \
                12.5 41.9 member4 9.19 45.46 member5",
            NUMBER,
        )],
    ),
    cycle("one hash", &[("HSET hash fld:* value-0001", NUMBER)]),
    cycle("one list", &[("RPUSH list element-0001", NUMBER)]),
    cycle("one set", &[("SADD set mem:*", NUMBER)]),
    // Digits in front make a score of a number.
    cycle("one sorted set", &[("ZADD zset 0000* mem:*", NUMBER)]),
    // And a coordinate between two tenths of a degree.
    cycle("one set of places", &[("GEOADD pset 13.3* 52.5* mem:*", NUMBER)]),
    cycle("streams", &[("XADD stm:* 1-1 kind click place oslo count 12", BULK)]),
    cycle("streams of two", &[("XADD stm:* 1-2 kind view place rome count 13", BULK)]),
    cycle("groups", &[("XGROUP CREATE stm:* g 0", OK)]),
];

/// Commands on collections: on one of many of five parts each, and on one of many parts.
pub static COLLECTIONS: &[Recipe] = &[
    one("HSET", &[("HSET hsh:* field3 value-0009", NUMBER)]),
    one(
        "HSET of 3",
        &[("HSET hsh:* field1 value-0001 field3 value-0009 field4 value-0008", NUMBER)],
    ),
    cycle("HSET, HDEL", &[("HSET hsh:* extra1 value-0006", NUMBER), ("HDEL hsh:* extra1", NUMBER)]),
    cycle("HSET, DEL", &[("HSET nwh:* field1 value-0001", NUMBER), ("DEL nwh:*", NUMBER)]),
    one("HSETNX", &[("HSETNX hsh:* field3 value-0009", NUMBER)]),
    one("HGET", &[("HGET hsh:* field3", BULK)]),
    one("HMGET", &[("HMGET hsh:* field1 field4 absent", ARRAY)]),
    one("HGETALL", &[("HGETALL hsh:*", ARRAY)]),
    one("HKEYS", &[("HKEYS hsh:*", ARRAY)]),
    one("HVALS", &[("HVALS hsh:*", ARRAY)]),
    one("HLEN", &[("HLEN hsh:*", NUMBER)]),
    one("HEXISTS", &[("HEXISTS hsh:* field4", NUMBER)]),
    one("HSTRLEN", &[("HSTRLEN hsh:* field4", NUMBER)]),
    one("HINCRBY", &[("HINCRBY hsh:* number 7", NUMBER)]),
    one("HRANDFIELD", &[("HRANDFIELD hsh:*", BULK)]),
    one("HSCAN", &[("HSCAN hsh:* 0", ARRAY)]),
    cycle("LPUSH, LPOP", &[("LPUSH lst:* element-0006", NUMBER), ("LPOP lst:*", BULK)]),
    cycle("RPUSH, RPOP", &[("RPUSH lst:* element-0006", NUMBER), ("RPOP lst:*", BULK)]),
    cycle("RPUSH, DEL", &[("RPUSH nwl:* element-0001", NUMBER), ("DEL nwl:*", NUMBER)]),
    cycle("LMOVE, same list", &[("LMOVE lst:* lst:* LEFT RIGHT", BULK)]),
    one("LRANGE", &[("LRANGE lst:* 0 -1", ARRAY)]),
    one("LINDEX", &[("LINDEX lst:* 2", BULK)]),
    one("LLEN", &[("LLEN lst:*", NUMBER)]),
    one("LPOS", &[("LPOS lst:* element-0004", NUMBER)]),
    one("LSET", &[("LSET lst:* 2 element-0004", OK)]),
    cycle("RPUSH, LTRIM", &[("RPUSH lst:* element-0006", NUMBER), ("LTRIM lst:* 0 -2", OK)]),
    cycle(
        "LPUSH, LREM",
        &[("LPUSH lst:* element-0009", NUMBER), ("LREM lst:* 1 element-0009", NUMBER)],
    ),
    cycle("SADD, SREM", &[("SADD set:* member-0006", NUMBER), ("SREM set:* member-0006", NUMBER)]),
    cycle("SADD, SREM, integers", &[("SADD int:* 3500", NUMBER), ("SREM int:* 3500", NUMBER)]),
    cycle("SADD, DEL", &[("SADD nws:* member-0001", NUMBER), ("DEL nws:*", NUMBER)]),
    cycle("SADD, SPOP", &[("SADD spp:* member-0001", NUMBER), ("SPOP spp:*", BULK)]),
    one("SISMEMBER", &[("SISMEMBER set:* member-0003", NUMBER)]),
    one("SISMEMBER, integers", &[("SISMEMBER int:* 3003", NUMBER)]),
    one("SMISMEMBER", &[("SMISMEMBER set:* member-0003 absent", ARRAY)]),
    one("SCARD", &[("SCARD set:*", NUMBER)]),
    one("SMEMBERS", &[("SMEMBERS set:*", ARRAY)]),
    one("SRANDMEMBER", &[("SRANDMEMBER set:*", BULK)]),
    one("SINTER", &[("SINTER set:* oth:*", ARRAY)]),
    one("SUNION", &[("SUNION set:* oth:*", ARRAY)]),
    one("SDIFF", &[("SDIFF set:* oth:*", ARRAY)]),
    one("SINTERSTORE", &[("SINTERSTORE dst:* set:* oth:*", NUMBER)]),
    one("ZADD", &[("ZADD zst:* 2.5 member3", NUMBER)]),
    cycle("ZADD, ZREM", &[("ZADD zst:* 3.5 member6", NUMBER), ("ZREM zst:* member6", NUMBER)]),
    cycle("ZADD, DEL", &[("ZADD nwz:* 1.5 member1", NUMBER), ("DEL nwz:*", NUMBER)]),
    cycle("ZADD, ZPOPMIN", &[("ZADD zpp:* 1.5 member1", NUMBER), ("ZPOPMIN zpp:*", ARRAY)]),
    one("ZINCRBY", &[("ZINCRBY zst:* 1 member4", BULK)]),
    one("ZSCORE", &[("ZSCORE zst:* member2", BULK)]),
    one("ZRANK", &[("ZRANK zst:* member2", NUMBER)]),
    one("ZCARD", &[("ZCARD zst:*", NUMBER)]),
    one("ZCOUNT", &[("ZCOUNT zst:* 1 2", NUMBER)]),
    one("ZRANGE", &[("ZRANGE zst:* 0 -1", ARRAY)]),
    one("ZRANGE WITHSCORES", &[("ZRANGE zst:* 0 -1 WITHSCORES", ARRAY)]),
    one("ZRANGEBYSCORE", &[("ZRANGEBYSCORE zst:* 1 2", ARRAY)]),
    one("GEOADD", &[("GEOADD plc:* 14.26 40.84 member3", NUMBER)]),
    cycle(
        "GEOADD, ZREM",
        &[("GEOADD plc:* 11.34 44.49 member6", NUMBER), ("ZREM plc:* member6", NUMBER)],
    ),
    one("GEOPOS", &[("GEOPOS plc:* member2 member3", ARRAY)]),
    one("GEODIST", &[("GEODIST plc:* member2 member4 km", BULK)]),
    one("GEOHASH", &[("GEOHASH plc:* member2 member3", ARRAY)]),
    one("GEOSEARCH", &[("GEOSEARCH plc:* FROMLONLAT 14 38 BYRADIUS 350 km ASC", ARRAY)]),
    one("GEOADD, one set of places", &[("GEOADD pset 13.3* 52.5* mem:*", NUMBER)]),
    one(
        "GEOSEARCH 2 km, one set",
        &[("GEOSEARCH map:1 FROMLONLAT 13.3* 52.5* BYRADIUS 2 km", ARRAY)],
    ),
    one(
        "GEOSEARCH nearest 10, one set",
        &[("GEOSEARCH map:1 FROMLONLAT 13.3* 52.5* BYRADIUS 2 km ASC COUNT 10 WITHDIST", ARRAY)],
    ),
    one(
        "GEOSEARCH BYBOX 4 km, one set",
        &[("GEOSEARCH map:1 FROMLONLAT 13.3* 52.5* BYBOX 4 4 km WITHCOORD", ARRAY)],
    ),
    one("HSET, one hash", &[("HSET hash fld:* value-0009", NUMBER)]),
    one("HGET, one hash", &[("HGET hash fld:*", BULK)]),
    cycle(
        "HDEL, HSET, one hash",
        &[("HDEL hash fld:*", NUMBER), ("HSET hash fld:* value-0001", NUMBER)],
    ),
    cycle("LPUSH, RPOP, one list", &[("LPUSH list element-0001", NUMBER), ("RPOP list", BULK)]),
    cycle("SREM, SADD, one set", &[("SREM set mem:*", NUMBER), ("SADD set mem:*", NUMBER)]),
    one("SISMEMBER, one set", &[("SISMEMBER set mem:*", NUMBER)]),
    one("ZADD, one sorted set", &[("ZADD zset 0000* mem:*", NUMBER)]),
    one("ZINCRBY, one sorted set", &[("ZINCRBY zset 1 mem:*", BULK)]),
    one("ZSCORE, one sorted set", &[("ZSCORE zset mem:*", BULK)]),
    one("ZRANK, one sorted set", &[("ZRANK zset mem:*", NUMBER)]),
    one("ZRANGE 10, one sorted set", &[("ZRANGE zset MIDDLE MIDDLE:9", ARRAY)]),
    cycle(
        "ZREM, ZADD, one sorted set",
        &[("ZREM zset mem:*", NUMBER), ("ZADD zset 0000* mem:*", NUMBER)],
    ),
];

/// Commands that add to streams, and those of the consumers of a group.
pub static STREAMS: &[Recipe] = &[
    one("XADD", &[("XADD log MAXLEN ~ 100000 * kind click place oslo count 12", BULK)]),
    // The group goes back to the beginning, for it gives each entry once.
    cycle(
        "XREADGROUP, XACK",
        &[
            ("XGROUP SETID stm:* g 0", OK),
            ("XREADGROUP GROUP g ada COUNT 1 STREAMS stm:* >", ARRAY),
            ("XACK stm:* g 1-1", NUMBER),
            ("XREADGROUP GROUP g ada COUNT 1 STREAMS stm:* >", ARRAY),
            ("XACK stm:* g 1-2", NUMBER),
        ],
    ),
    cycle(
        "XADD, XREADGROUP, XACK",
        &[
            ("DEL new:*", NUMBER),
            ("XGROUP CREATE new:* g 0 MKSTREAM", OK),
            ("XADD new:* 1-1 kind click place oslo count 12", BULK),
            ("XREADGROUP GROUP g ada COUNT 1 STREAMS new:* >", ARRAY),
            ("XACK new:* g 1-1", NUMBER),
            ("XADD new:* 1-2 kind click place oslo count 12", BULK),
            ("XREADGROUP GROUP g ada COUNT 1 STREAMS new:* >", ARRAY),
            ("XACK new:* g 1-2", NUMBER),
            ("XADD new:* 1-3 kind click place oslo count 12", BULK),
            ("XREADGROUP GROUP g ada COUNT 1 STREAMS new:* >", ARRAY),
            ("XACK new:* g 1-3", NUMBER),
        ],
    ),
];

/// Commands that read entries of a stream.
pub static STREAM_READS: &[Recipe] = &[
    one("XRANGE of 100", &[("XRANGE log:1 - + COUNT 100", ARRAY)]),
    one("XREAD of 10", &[("XREAD STREAMS log:1 990-0", ARRAY)]),
];

/// Commands that loop over collections of hundreds of parts.
pub static LARGE_COLLECTIONS: &[Recipe] = &[
    one("LRANGE of 100", &[("LRANGE row:1 0 99", ARRAY)]),
    one("LRANGE of 600", &[("LRANGE row:1 0 599", ARRAY)]),
    one("HGETALL of 50", &[("HGETALL dict:1", ARRAY)]),
    one("HGETALL of 1,000", &[("HGETALL dict:2", ARRAY)]),
    one("SMEMBERS of 1,000", &[("SMEMBERS set:1", ARRAY)]),
    one("ZRANGE of 1,000", &[("ZRANGE rank:1 0 -1 WITHSCORES", ARRAY)]),
    one("SORT of 1,000", &[("SORT nums:1", ARRAY)]),
    one("SORT of 1,000 ALPHA", &[("SORT set:1 ALPHA", ARRAY)]),
    one("SORT of 1,000 LIMIT", &[("SORT nums:1 LIMIT 0 10", ARRAY)]),
    one("ZUNION 1000, 1000", &[("ZUNION 2 rank:1 rank:2 WITHSCORES", ARRAY)]),
    one("ZINTER 1000, 1000", &[("ZINTER 2 rank:1 rank:2 WITHSCORES", ARRAY)]),
    one("ZDIFF 1000, 1000", &[("ZDIFF 2 rank:1 rank:2 WITHSCORES", ARRAY)]),
    one("ZUNIONSTORE 1000, 1000", &[("ZUNIONSTORE target 2 rank:1 rank:2", NUMBER)]),
    one("ZINTERSTORE 1000, 1000", &[("ZINTERSTORE target 2 rank:1 rank:2", NUMBER)]),
    one("ZDIFFSTORE 1000, 1000", &[("ZDIFFSTORE target 2 rank:1 rank:2", NUMBER)]),
    one("ZRANGESTORE 1000", &[("ZRANGESTORE target rank:1 0 -1", NUMBER)]),
    one("ZINTERCARD 1000, 1000", &[("ZINTERCARD 2 rank:1 rank:2", NUMBER)]),
    one("SINTER of 1,000", &[("SINTER set:1 set:2", ARRAY)]),
    one("SINTER of 100", &[("SINTER few:1 few:2", ARRAY)]),
    one("SINTER of 500 integers", &[("SINTER int:1 int:2", ARRAY)]),
    one("SINTERCARD of 1,000", &[("SINTERCARD 2 set:1 set:2", NUMBER)]),
    one("SUNION of 1,000", &[("SUNION set:1 set:2", ARRAY)]),
    one("SUNION of 100", &[("SUNION few:1 few:2", ARRAY)]),
    one("SDIFF of 1,000", &[("SDIFF set:1 set:2", ARRAY)]),
    one("SINTERSTORE of 1,000", &[("SINTERSTORE target set:1 set:2", NUMBER)]),
    one("SUNIONSTORE of 1,000", &[("SUNIONSTORE target set:1 set:2", NUMBER)]),
    one("SSCAN of 1,000", &[("SSCAN set:1 0 COUNT 100", ARRAY)]),
];
