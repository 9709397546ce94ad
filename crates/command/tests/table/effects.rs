//! What commands leave in the stream of changes.

use base::UnixMs;

use crate::support::{NOW, World};

/// Runs `before`, then `line`, and compares the effects of `line` alone.
#[track_caller]
fn check(before: &[&str], line: &str, expected: &str) {
    let mut world = World::new();
    for line in before {
        let reply = world.ask(line);
        assert!(!reply.starts_with("(error)"), "{line}: {reply}");
    }
    world.effects();
    let reply = world.ask(line);
    assert_eq!(world.effects(), expected, "{line}: {reply}");
}

#[test]
fn relative_times_become_absolute() {
    check(&[], "SET k v EX 10", "SET k v PXAT 1700000010000");
    check(&[], "SETEX k 10 v", "SET k v PXAT 1700000010000");
    let both = "SET k v PXAT 1700000010000 SET l w PXAT 1700000010000";
    check(&[], "MSETEX 2 k v l w EX 10", both);
    check(&["SET k u EX 10"], "MSETEX 2 k v l w KEEPTTL", "SET k v KEEPTTL SET l w KEEPTTL");
    check(&[], "PSETEX k 10 v", "SET k v PXAT 1700000000010");
    check(&["SET k v"], "EXPIRE k 10", "PEXPIREAT k 1700000010000");
    check(&["SET k v"], "GETEX k PX 10", "PEXPIREAT k 1700000000010");
    check(&["SET k v EX 10"], "GETEX k PERSIST", "PERSIST k");
    check(&["SET k v EX 10"], "GETEX k", "");
}

#[test]
fn time_that_has_come_deletes() {
    check(&["SET k v"], "EXPIRE k 0", "DEL k");
    check(&["SET k v"], "EXPIRE k -10", "DEL k");
    check(&["SET k v"], "PEXPIREAT k 1700000000000", "DEL k");
    check(&["SET k v"], "EXPIREAT k 1", "DEL k");
    check(&["SET k v"], "GETEX k EXAT 1", "DEL k");
    check(&["SET k v"], "SET k w EXAT 1", "SET k w PXAT 1000");
    check(&[], "EXPIRE k -10", "");
}

#[test]
fn sums_are_results() {
    check(&["SET k 10 EX 9"], "INCRBY k 5", "SET k 15 KEEPTTL");
    check(&["SET k 10.5"], "INCRBYFLOAT k 0.1", "SET k 10.6 KEEPTTL");
    check(&[], "DECR k", "SET k -1 KEEPTTL");
    check(&["SET k 10 COST 7"], "INCR k", "SET k 11 KEEPTTL");
}

#[test]
fn a_cost_is_named() {
    check(&[], "SET k v COST 40", "SET k v COST 40");
    check(&[], "SET k v EX 10 COST 65535", "SET k v PXAT 1700000010000 COST 63488");
    check(&["SET k v EX 10"], "SET k w COST 2 KEEPTTL", "SET k w KEEPTTL COST 2");
}

#[test]
fn bits_are_bytes() {
    check(&["SET k abc EX 9"], "SETBIT k 15 1", "SETRANGE k 1 c");
    check(&["SET k abc"], "BITFIELD k SET u8 8 65 INCRBY u8 #2 1", "SETRANGE k 1 Ad");
    check(&[], "BITFIELD k SET u8 #1 65", "SETRANGE k 1 A");
    // A string that only grows has changed.
    check(&[], "BITFIELD k OVERFLOW FAIL INCRBY u2 8 5", "SETRANGE k 1 \0");
    check(&["SET k a"], "BITFIELD k OVERFLOW FAIL SET u2 8 5", "SETRANGE k 1 \0");
    // The second effect has the value stored as the command does, which is not as SET does.
    check(&["SET a abc", "SET b zzz EX 9"], "BITOP OR b a", "SET b abc SETRANGE b 0 a");
    check(&["SET k 12"], "SETBIT k 0 0", "SETRANGE k 0 1");
    check(&["SET b zzz"], "BITOP OR b a", "DEL b");
}

#[test]
fn values_go_to_other_keys_as_they_are() {
    check(&["SET k v EX 9"], "RENAME k l", "RENAME k l");
    check(&["MSET k v l w"], "RENAME k l", "RENAME k l");
    check(&["SET k v"], "RENAMENX k l", "RENAME k l");
    check(&["SET k v"], "MOVE k 7", "MOVE k 7");
    check(&["SELECT 3", "SET k v"], "MOVE k 0", "SELECT 3 MOVE k 0");
    check(&["SET k v"], "COPY k l", "COPY k l DB 0 REPLACE");
    check(&["MSET k v l w"], "COPY k l DB 2 REPLACE", "COPY k l DB 2 REPLACE");
    check(&["SET k v", "SET l w PXAT 1"], "RENAMENX k l", "DEL l RENAME k l");
    check(&["SET k v", "SET l w PXAT 1"], "COPY k l", "DEL l COPY k l DB 0 REPLACE");
    check(&["SET k v PXAT 1"], "RENAME k l", "DEL k");
    check(&["SET k mine"], "DELIFEQ k mine", "DEL k");
    check(&["SET k mine"], "SET k other IFEQ mine", "SET k other");
    check(&["SET k mine EX 9"], "SET k other KEEPTTL IFEQ mine", "SET k other KEEPTTL");
}

#[test]
fn parts_that_were_drawn_or_computed_are_named() {
    check(&["SADD k a"], "SPOP k", "SREM k a");
    check(&["SADD k a a a"], "SPOP k 1", "DEL k");
    check(&["SADD k 1 2 3"], "SPOP k 4", "DEL k");
    check(&["ZADD k 1 a 2 b 3 c"], "ZPOPMIN k 2", "ZREM k a b");
    check(&["ZADD k 1 a 2 b"], "ZPOPMAX k", "ZREM k b");
    check(&["HSET k f 10"], "HINCRBY k f 5", "HSET k f 15");
    check(&[], "HINCRBYFLOAT k f 0.5", "HSET k f 0.5");
    check(&["ZADD k 1 a"], "ZINCRBY k 1.5 a", "ZADD k 2.5 a");
    check(&["ZADD k 1 a"], "ZADD k GT 0 a 7 b", "ZADD k 7 b");
    check(&["ZADD k 1 a 2 b"], "ZREMRANGEBYSCORE k 2 3", "ZREMRANGEBYRANK k 1 1");
    check(&["SADD k a b"], "SMOVE k l a", "SADD l a SREM k a");
    check(&["RPUSH k a b c"], "LTRIM k -2 -1", "LTRIM k 1 2");
    check(&["RPUSH k a b a"], "LREM k 0 a", "LREM k 2 a");
    check(&["RPUSH k a"], "LPOP k 9", "LPOP k 1");
}

#[test]
fn what_is_worked_out_is_stored_as_it_is() {
    let stored = |before: &[&str], line: &str| {
        let mut world = World::new();
        before.iter().for_each(|line| drop(world.ask(line)));
        world.effects();
        world.ask(line);
        let effects = world.effects();
        let is_one = effects.matches("RESTORE ").count() == 1;
        assert!(is_one && effects.ends_with(" REPLACE ABSTTL"), "{line}: {effects}");
        effects.split(' ').take(3).collect::<Vec<_>>().join(" ")
    };
    let sources = ["ZADD k 1 a 2 b", "SADD s b c", "SET t x EX 9"];
    for line in [
        "ZUNIONSTORE t 2 k s",
        "ZINTERSTORE t 2 k s WEIGHTS 2 3 AGGREGATE MAX",
        "ZDIFFSTORE t 2 k s",
        "ZRANGESTORE t k 0 0",
        "ZRANGESTORE t k +inf 1 BYSCORE REV LIMIT 0 1",
        "GEOSEARCHSTORE t k FROMMEMBER a BYBOX 1 1 km STOREDIST",
        "GEORADIUS k -180 -85 100 km COUNT 1 STORE t",
        "GEORADIUSBYMEMBER k b 100 km STORE s STOREDIST t",
    ] {
        assert_eq!(stored(&sources, line), "RESTORE t 0");
    }
    for line in [
        "ZINTERSTORE t 2 k none",
        "ZDIFFSTORE t 1 none",
        "ZRANGESTORE t none 0 -1",
        "GEOSEARCHSTORE t k FROMLONLAT 0 0 BYRADIUS 1 km",
        "GEOSEARCHSTORE t none FROMMEMBER a BYRADIUS 1 km",
        "GEORADIUS k 0 0 1 km STORE t",
    ] {
        check(&sources, line, "DEL t");
        check(&sources[..2], line, "");
    }
    check(&["ZADD k 1 a 2 b 3 c"], "ZMPOP 2 none k MAX COUNT 2", "ZREM k b c");
    check(&["ZADD k 1 a 2 b"], "BZPOPMIN none k 0", "ZREM k a");
    check(&["ZADD k 1 a 2 b"], "BZMPOP 0 1 k MAX COUNT 9", "ZREM k a b");
}

#[test]
fn places_are_scores() {
    check(&[], "GEOADD k 13.361389 38.115556 a", "ZADD k 3479099956230698 a");
    let both = "ZADD k 3479099956230698 a 3479447370796909 b";
    check(&[], "GEOADD k CH 13.361389 38.115556 a 15.087269 37.502669 b", both);
    check(&["GEOADD k 13.361389 38.115556 a"], "GEOADD k NX 1 1 a", "");
    check(&["GEOADD k 13.361389 38.115556 a"], "GEOADD k XX 1 1 b", "");
    check(&["GEOADD k 13.361389 38.115556 a"], "GEOADD k 13.361389 38.115556 a", "");
    check(&["ZADD k 1 a"], "GEORADIUS k 0 0 1 km", "");
}

#[test]
fn what_changes_nothing_has_no_effect() {
    check(&["SET k v"], "RENAME k k", "");
    check(&["MSET k v l w"], "RENAMENX k l", "");
    check(&["SET k v"], "RENAMENX k k", "");
    check(&[], "RENAME k l", "");
    check(&["MSET k v l w"], "COPY k l", "");
    check(&[], "COPY k l", "");
    check(&["SET k v"], "MOVE k 0", "");
    check(&["SET k mine"], "DELIFEQ k yours", "");
    check(&["SET k mine"], "SET k other IFEQ yours", "");
    check(&[], "SET k other IFEQ mine", "");
    check(&["SET k v"], "SET k w NX", "");
    check(&[], "SET k w XX", "");
    check(&["SET k v"], "SETNX k w", "");
    check(&["SET k v"], "MSETNX l 1 k 2", "");
    check(&["SET k v"], "MSETEX 2 l 1 k 2 NX EX 10", "");
    check(&["SET k v"], "MSETEX 2 k 1 l 2 XX", "");
    check(&["SET k v EX 100"], "EXPIRE k 10 GT", "");
    check(&["SET k v"], "EXPIRE k 10 XX", "");
    check(&[], "DEL k", "");
    check(&[], "GETDEL k", "");
    check(&["SET k v"], "SETRANGE k 5 ", "");
    check(&["SET k x"], "INCR k", "");
    check(&["SET k 12", "SETBIT k 0 0"], "SETBIT k 0 0", "");
    check(&["SET k abc", "SETRANGE k 0 a"], "BITFIELD k GET u8 100 SET u8 0 97", "");
    let failing = "BITFIELD k OVERFLOW FAIL INCRBY u4 0 10";
    check(&["SET k abc", "SETRANGE k 0 a"], failing, "");
    check(&[], "BITOP OR b a", "");
    check(&["SADD k a"], "SADD k a", "");
    check(&["SADD k a"], "SREM k b", "");
    check(&["HSET k f v"], "HDEL k g", "");
    check(&["ZADD k 1 a"], "ZADD k 1 a", "");
    check(&["RPUSH k a"], "LINSERT k BEFORE b c", "");
    check(&[], "LPUSHX k a", "");
}

#[test]
fn writes_over_an_expired_key_delete_it_first() {
    let mut world = World::new();
    world.ask("SET k v PX 10");
    world.effects();
    world.now = UnixMs(NOW.0 + 11);
    assert_eq!(world.ask("GET k"), "(nil)");
    assert_eq!(world.effects(), "");
    world.ask("APPEND k w");
    assert_eq!(world.effects(), "DEL k APPEND k w");
}

#[test]
fn many_keys_are_one_record() {
    check(&[], "MSET a 1 b 2", "SET a 1 SET b 2");
    check(&["MSET a 1 b 2"], "DEL a b c a", "DEL a DEL b");
    check(&[], "MSETEX 2 a 1 b 2", "SET a 1 SET b 2");
    check(&["MSET a 1 b 2"], "FLUSHALL", "FLUSHALL");
    check(&["SET a 1"], "SWAPDB 0 3", "SWAPDB 0 3");
}

#[test]
fn names_of_databases_are_in_the_stream() {
    check(&["SELECT 3"], "SET k v", "SELECT 3 SET k v");
}

#[test]
fn elements_that_move_are_pushed_and_popped() {
    check(&["RPUSH k a b"], "LMOVE k l LEFT RIGHT", "RPUSH l a LPOP k 1");
    check(&["RPUSH k a b"], "RPOPLPUSH k l", "LPUSH l b RPOP k 1");
    check(&["RPUSH k a b"], "BLMOVE k l RIGHT RIGHT 0", "RPUSH l b RPOP k 1");
    check(&["RPUSH k a b"], "BRPOPLPUSH k l 0", "LPUSH l b RPOP k 1");
    check(&["RPUSH k a b"], "RPOPLPUSH k k", "LMOVE k k RIGHT LEFT");
    check(&["RPUSH k a b"], "BLMOVE k k LEFT RIGHT 0", "LMOVE k k LEFT RIGHT");
    check(&["RPUSH k a b c"], "LMPOP 2 l k RIGHT COUNT 2", "RPOP k 2");
    check(&["RPUSH k a b c"], "BLMPOP 0 2 l k LEFT", "LPOP k 1");
    check(&[], "LMOVE k l LEFT RIGHT", "");
    check(&["RPUSH k a", "SET l v"], "LPOS k a", "");
}

#[test]
fn comparisons_with_strings_leave_what_they_do() {
    check(&["SET k mine"], "SET k other IFNE yours", "SET k other");
    check(&[], "SET k other IFNE yours", "SET k other");
    check(&[], "SET k other IFDNE short", "SET k other");
    check(&["SET k mine"], "SET k other IFNE mine", "");
    check(&[], "SET k other IFDEQ 2d06800538d394c2", "");
    check(&["SET k mine"], "DELEX k IFEQ mine", "DEL k");
    check(&["SET k mine"], "DELEX k IFNE mine", "");
    check(&["RPUSH k a"], "DELEX k", "DEL k");
}

#[test]
fn bounded_sums_are_results() {
    check(&["SET k 10 EX 9"], "INCREX k BYINT 5", "SET k 15 KEEPTTL");
    check(&["SET k 10"], "INCREX k BYFLOAT 0.5", "SET k 10.5 KEEPTTL");
    check(&["SET k 10"], "INCREX k EX 9", "SET k 11 PXAT 1700000009000");
    check(&["SET k 10 EX 9"], "INCREX k EX 99 ENX", "SET k 11 KEEPTTL");
    check(&["SET k 10"], "INCREX k EX 9 ENX", "SET k 11 PXAT 1700000009000");
    check(&["SET k 10 EX 9"], "INCREX k PERSIST", "SET k 11 KEEPTTL PERSIST k");
    check(&["SET k 10"], "INCREX k PERSIST", "SET k 11 KEEPTTL");
    check(&["SET k 10"], "INCREX k EXAT 1", "DEL k");
    check(&["SET k 10 EX 9"], "INCREX k EXAT 1 ENX", "SET k 11 KEEPTTL");
    check(&["SET k 10"], "INCREX k UBOUND 9 SATURATE", "SET k 9 KEEPTTL");
    check(&["SET k 10"], "INCREX k UBOUND 10 EX 9", "");
    check(&[], "INCREX k UBOUND 0", "");
    check(&[], "INCREX k EXAT 1", "");
}

#[test]
fn what_becomes_of_a_stream_is_explicit() {
    check(&[], "XADD k * f v", "XADD k 1700000000000-0 f v");
    check(&["XADD k 5-1 f v"], "XADD k 5-* f v", "XADD k 5-2 f v");
    check(&["XADD k 5-1 f v"], "XADD k NOMKSTREAM MAXLEN 1 6-0 f v", "XADD k MAXLEN = 1 6-0 f v");
    check(&["XADD k 5-1 f v"], "XADD k MAXLEN 2 6-0 f v", "XADD k 6-0 f v");
    check(&["XADD k 5-1 f v"], "XADD k MAXLEN ~ 1 6-0 f v", "XADD k 6-0 f v");
    check(&[], "XADD k NOMKSTREAM 6-0 f v", "");
    let two = ["XADD k 1-0 f v", "XADD k 2-0 f v"];
    check(&two, "XTRIM k MINID 2", "XTRIM k MINID = 2-0");
    check(&two, "XTRIM k MINID 1", "");
    check(&two, "XDEL k 1-0 7", "XDEL k 1-0 7");
    check(&two, "XDEL k 7", "");
    check(&two, "XSETID k 7", "XSETID k 7");
    check(&[], "XGROUP CREATE k g $ MKSTREAM", "XGROUP CREATE k g 0-0 MKSTREAM ENTRIESREAD -1");
    check(
        &two,
        "XGROUP CREATE k g $ ENTRIESREAD 2",
        "XGROUP CREATE k g 2-0 MKSTREAM ENTRIESREAD 2",
    );
    let group = [&two[..], &["XGROUP CREATE k g 0"]].concat();
    check(&group, "XGROUP SETID k g $", "XGROUP SETID k g 2-0 ENTRIESREAD -1");
    check(&group, "XGROUP CREATECONSUMER k g c", "XGROUP CREATECONSUMER k g c");
    check(&group, "XGROUP DELCONSUMER k g c", "");
    check(&group, "XGROUP DESTROY k g", "XGROUP DESTROY k g");
    check(&group, "XACK k g 1-0", "");
}

#[test]
fn what_is_read_of_a_stream_becomes_pending() {
    let group = ["XADD k 1-0 f v", "XADD k 2-0 f v", "XGROUP CREATE k g 0"];
    let read = "XREADGROUP GROUP g c STREAMS k >";
    let position = "XGROUP SETID k g 2-0 ENTRIESREAD 2";
    let all = format!(
        "XGROUP CREATECONSUMER k g c \
         XCLAIM k g c 0 1-0 2-0 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 2-0 {position}"
    );
    check(&group, read, &all);
    let no_ack = format!("XGROUP CREATECONSUMER k g c {position}");
    check(&group, "XREADGROUP GROUP g c NOACK STREAMS k >", &no_ack);
    let delivered = [&group[..], &[read]].concat();
    check(&delivered, read, "");
    let again = "XCLAIM k g c 0 1-0 2-0 TIME 1700000000000 RETRYCOUNT 2 FORCE JUSTID LASTID 2-0";
    check(&delivered, "XREADGROUP GROUP g c STREAMS k 0", again);
    check(&delivered, "XACK k g 1-0 1-0", "XACK k g 1-0 1-0");
    let claimed = "XGROUP CREATECONSUMER k g d \
        XCLAIM k g d 0 1-0 2-0 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 2-0";
    check(&delivered, "XAUTOCLAIM k g d 0 - JUSTID", claimed);
    let with_time = "XCLAIM k g c 0 2-0 TIME 7 RETRYCOUNT 9 FORCE JUSTID LASTID 2-0";
    check(&delivered, "XCLAIM k g c 0 2-0 TIME 7 RETRYCOUNT 9", with_time);
    let gone = [&delivered[..], &["XDEL k 1-0"]].concat();
    check(&gone, "XCLAIM k g c 0 1-0", "XACK k g 1-0");
    let both = "XCLAIM k g c 0 2-0 TIME 1700000000000 RETRYCOUNT 2 FORCE JUSTID LASTID 2-0 \
        XACK k g 1-0";
    check(&gone, "XAUTOCLAIM k g c 0 -", both);
    check(&delivered, "XCLAIM k g c 3600000 1-0", "");
}

#[test]
fn hyperloglogs_say_when_they_become_dense_and_when_a_count_is_kept() {
    check(&[], "PFADD k", "PFADD k");
    check(&[], "PFADD k a b", "PFADD k a b");
    check(&["PFADD k a"], "PFADD k a", "");
    check(&["PFADD k a"], "PFCOUNT k", "PFCOUNT k");
    check(&["PFADD k a", "PFCOUNT k"], "PFCOUNT k", "");
    check(&["PFADD k a"], "PFCOUNT k k", "");
    check(&["PFADD k a"], "PFDEBUG DECODE k", "");
    check(&["PFADD k a"], "PFDEBUG GETREG k", "PFDEBUG TODENSE k");
    check(&["PFADD k a"], "PFDEBUG TODENSE k", "PFDEBUG TODENSE k");
    check(&["PFADD k a", "PFDEBUG TODENSE k"], "PFDEBUG TODENSE k", "");
    let elements: Vec<String> = (0..3_000).map(|number| number.to_string()).collect();
    let many = format!("PFADD k {}", elements.join(" "));
    check(&[], &many, &format!("{many} PFDEBUG TODENSE k"));
    check(&["PFADD k a"], &many, &format!("{many} PFDEBUG TODENSE k"));
    check(&[&many], "PFADD k 7", "");
    let mut world = World::new();
    world.ask("PFADD k a");
    world.effects();
    world.ask("PFMERGE t k");
    // A text so short is stored as another one would be.
    let merged = world.effects();
    assert!(
        merged.starts_with("SET t HYLL") && merged.ends_with(" KEEPTTL SETRANGE t 0 H"),
        "{merged}"
    );
}
