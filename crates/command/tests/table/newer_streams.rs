//! Commands on streams, and options of XADD and XTRIM, that redis-server 7.0 does not have.
//!
//! Source: the documentation of Redis 8.2, 8.6 and 8.8, and the test suite of redis/redis.

use crate::support::World;

#[track_caller]
fn check_in(world: &mut World, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(world.ask(line), *expected, "{line}");
    }
}

/// Checks what `line` replies after `before`, and which effects it has.
#[track_caller]
fn check_effects(before: &[&str], line: &str, reply: &str, effects: &str) {
    let mut world = World::new();
    before.iter().for_each(|line| drop(world.ask(line)));
    world.effects();
    assert_eq!(world.ask(line), reply, "{line}");
    assert_eq!(world.effects(), effects, "{line}");
}

const SYNTAX: &str = "(error) ERR syntax error";
const NO_COUNT: &str = "(error) ERR Number of IDs must be a positive integer";
const FEWER: &str = "(error) ERR The `numids` parameter must match the number of arguments";
const NO_ID: &str = "(error) ERR Invalid stream ID specified as stream command argument";
const WRONG_TYPE: &str =
    "(error) WRONGTYPE Operation against a key holding the wrong kind of value";

/// Five entries, of which group `g` has read all and has 1-0 and 3-0 pending; `h` has read two, and
/// has 2-0 pending.
const READ: [&str; 12] = [
    "XADD k 1-0 f v",
    "XADD k 2-0 f v",
    "XADD k 3-0 f v",
    "XADD k 4-0 f v",
    "XADD k 5-0 f v",
    "XGROUP CREATE k g 0",
    "XGROUP CREATE k h 0",
    "XREADGROUP GROUP g ada STREAMS k >",
    "XREADGROUP GROUP h bob COUNT 2 STREAMS k >",
    "XACK k g 2-0 4-0 5-0",
    "XACK k h 1-0",
    "SET s v",
];

fn read() -> World {
    let mut world = World::new();
    READ.iter().for_each(|line| assert!(!world.ask(line).starts_with("(error)"), "{line}"));
    world.effects();
    world
}

#[test]
fn xdelex_removes_what_references_allow() {
    let mut world = read();
    check_in(
        &mut world,
        &[
            ("XDELEX none IDS 2 1-0 2-0", "1) (integer) -1\n2) (integer) -1"),
            ("XDELEX s IDS 1 1-0", WRONG_TYPE),
            ("XACK k g 3-0", "(integer) 1"),
            // Of 1-0 and 2-0 one group each has not done, 3-0 the second has yet to read.
            (
                "XDELEX k ACKED IDS 4 1-0 2-0 3-0 9-0",
                "1) (integer) 2\n2) (integer) 2\n3) (integer) 2\n4) (integer) -1",
            ),
            ("XACK k g 1-0", "(integer) 1"),
            ("XDELEX k IDS 1 1-0 ACKED", "1) (integer) 1"),
            ("XDELEX k KEEPREF IDS 1 2-0", "1) (integer) 1"),
            (
                "XPENDING k h",
                "1) (integer) 1\n2) \"2-0\"\n3) \"2-0\"\n4) 1) 1) \"bob\"\n      2) \"1\"",
            ),
            // The entry is not there, and what is pending of it ends.
            ("XDELEX k DELREF IDS 1 2-0", "1) (integer) -1"),
            ("XPENDING k h", "1) (integer) 0\n2) (nil)\n3) (nil)\n4) (nil)"),
            ("XGROUP DESTROY k g", "(integer) 1"),
            ("XGROUP DESTROY k h", "(integer) 1"),
            // Without groups nothing refers to it.
            ("XDELEX k ACKED IDS 1 5-0", "1) (integer) 1"),
            ("XLEN k", "(integer) 2"),
        ],
    );
}

#[test]
fn xdelex_and_xackdel_refuse_in_the_words_of_redis() {
    let mut world = read();
    for head in ["XDELEX k", "XACKDEL k g"] {
        for (rest, expected) in [
            ("IDS 0 1-0", NO_COUNT),
            ("IDS -5 1-0", NO_COUNT),
            ("IDS abc 1-0", NO_COUNT),
            ("IDS 3 1-0 2-0", FEWER),
            ("IDS 1 1-0 2-0", SYNTAX),
            ("IDS 1 x", NO_ID),
            ("KEEPREF DELREF IDS 1 1-0", SYNTAX),
            ("IDS 1 1-0 IDS 1 1-0", SYNTAX),
            ("KEEPREF 1 1-0", SYNTAX),
        ] {
            assert_eq!(world.ask(&format!("{head} {rest}")), expected, "{head} {rest}");
        }
    }
    assert_eq!(world.ask("XLEN k"), "(integer) 5");
}

#[test]
fn xackdel_removes_what_it_has_acknowledged() {
    let mut world = read();
    check_in(
        &mut world,
        &[
            ("XACKDEL none g IDS 1 1-0", "1) (integer) -1"),
            ("XACKDEL k none IDS 2 1-0 2-0", "1) (integer) -1\n2) (integer) -1"),
            // 2-0 is not pending in the group, 3-0 the other one has yet to read.
            (
                "XACKDEL k g ACKED IDS 3 1-0 2-0 3-0",
                "1) (integer) 1\n2) (integer) -1\n3) (integer) 2",
            ),
            ("XLEN k", "(integer) 4"),
            ("XPENDING k g", "1) (integer) 0\n2) (nil)\n3) (nil)\n4) (nil)"),
            ("XDEL k 2-0", "(integer) 1"),
            // Acknowledged, and gone before.
            ("XACKDEL k h IDS 1 2-0", "1) (integer) 1"),
            ("XACKDEL k h IDS 1 2-0", "1) (integer) -1"),
        ],
    );
}

#[test]
fn removals_are_told_in_words_that_redis_7_knows() {
    check_effects(
        &READ,
        "XDELEX k DELREF IDS 2 1-0 2-0",
        "1) (integer) 1\n2) (integer) 1",
        "XDEL k 1-0 2-0 XACK k g 1-0 XACK k h 2-0",
    );
    check_effects(
        &READ,
        "XACKDEL k g KEEPREF IDS 1 1-0",
        "1) (integer) 1",
        "XACK k g 1-0 XDEL k 1-0",
    );
    check_effects(&READ, "XDELEX k ACKED IDS 1 1-0", "1) (integer) 2", "");
    check_effects(
        &READ,
        "XTRIM k MAXLEN 3 DELREF",
        "(integer) 2",
        "XTRIM k MAXLEN = 3 XACK k g 1-0 XACK k h 2-0",
    );
    // The first entry stays, so that the second goes by itself.
    let before = [&READ[..], &["XACK k h 2-0"]].concat();
    check_effects(&before, "XTRIM k ACKED MAXLEN 1", "(integer) 1", "XDEL k 2-0");
    check_effects(
        &before,
        "XADD k ACKED MAXLEN = 1 9-0 f v",
        "\"9-0\"",
        "XADD k 9-0 f v XDEL k 2-0",
    );
    let before = [&before[..], &["XACK k g 1-0"]].concat();
    check_effects(&before, "XADD k MAXLEN 1 ACKED 9-0 f v", "\"9-0\"", "XADD k MAXLEN = 4 9-0 f v");
}

#[test]
fn trimming_with_acked_leaves_what_groups_refer_to() {
    let mut world = read();
    check_in(
        &mut world,
        &[
            ("XTRIM k MAXLEN 0 ACKED", "(integer) 0"),
            ("XACK k g 1-0 3-0", "(integer) 2"),
            ("XTRIM k MINID 9 ACKED", "(integer) 1"),
            ("XACK k h 2-0", "(integer) 1"),
            ("XTRIM k MAXLEN 4 ACKED", "(integer) 0"),
            ("XTRIM k MAXLEN 3 ACKED", "(integer) 1"),
            ("XREADGROUP GROUP h bob NOACK COUNT 1 STREAMS k >", READ_THIRD),
            ("XTRIM k MAXLEN ~ 0 LIMIT 1 ACKED", "(integer) 1"),
            ("XLEN k", "(integer) 2"),
            ("XTRIM k MAXLEN 0 KEEPREF ACKED", SYNTAX),
            ("XTRIM k MAXLEN 0 ACKED ACKED", SYNTAX),
        ],
    );
}

const READ_THIRD: &str =
    "1) 1) \"k\"\n   2) 1) 1) \"3-0\"\n         2) 1) \"f\"\n            2) \"v\"";

#[test]
fn released_entries_are_with_nobody_until_they_are_claimed() {
    let mut world = read();
    world.now.0 += 5;
    check_in(
        &mut world,
        &[
            ("XNACK k g FAIL IDS 3 1-0 2-0 9-0", "(integer) 1"),
            (
                "XPENDING k g - + 10",
                "1) 1) \"1-0\"\n   2) \"\"\n   3) (integer) -1\n   4) (integer) 1\n\
                 2) 1) \"3-0\"\n   2) \"ada\"\n   3) (integer) 5\n   4) (integer) 1",
            ),
            (
                "XPENDING k g",
                "1) (integer) 2\n2) \"1-0\"\n3) \"3-0\"\n4) 1) 1) \"ada\"\n      2) \"1\"",
            ),
            ("XGROUP DELCONSUMER k g ada", "(integer) 1"),
            ("XPENDING k g", "1) (integer) 1\n2) \"1-0\"\n3) \"1-0\"\n4) (empty array)"),
            // However long an entry has to be idle, it is.
            ("XCLAIM k g bob 3600000 1-0 JUSTID", "1) \"1-0\""),
            ("XNACK k g SILENT IDS 1 1-0", "(integer) 1"),
            ("XNACK k g SILENT IDS 1 1-0", "(integer) 1"),
            ("XAUTOCLAIM k g eve 3600000 - JUSTID", "1) \"0-0\"\n2) 1) \"1-0\"\n3) (empty array)"),
            (
                "XPENDING k g - + 10",
                "1) 1) \"1-0\"\n   2) \"eve\"\n   3) (integer) 0\n   4) (integer) 0",
            ),
            ("XNACK k g FATAL IDS 1 1-0", "(integer) 1"),
            (
                "XPENDING k g - + 10",
                "1) 1) \"1-0\"\n   2) \"\"\n   3) (integer) -1\n   4) (integer) \
                 9223372036854775807",
            ),
            ("XNACK k g FAIL IDS 1 1-0 RETRYCOUNT 7", "(integer) 1"),
            // What is not pending becomes so, if it is there.
            ("XNACK k g FAIL IDS 2 4-0 9-0 FORCE", "(integer) 1"),
            (
                "XPENDING k g - + 10",
                "1) 1) \"1-0\"\n   2) \"\"\n   3) (integer) -1\n   4) (integer) 7\n\
                 2) 1) \"4-0\"\n   2) \"\"\n   3) (integer) -1\n   4) (integer) 0",
            ),
            ("XACK k g 1-0 4-0", "(integer) 2"),
        ],
    );
}

#[test]
fn xnack_refuses_and_is_told_as_it_is() {
    let mut world = read();
    check_in(
        &mut world,
        &[
            ("XNACK k g OTHER IDS 1 1-0", "(error) ERR mode must be SILENT, FAIL, or FATAL"),
            ("XNACK k g FAIL IDS 0 1-0", NO_COUNT),
            ("XNACK k g FAIL IDS 1 1-0 RETRYCOUNT -1", "(error) ERR RETRYCOUNT must be >= 0"),
            ("XNACK k g FAIL IDS 1 1-0 RETRYCOUNT", SYNTAX),
            ("XNACK k x FAIL IDS 1 1-0", "(error) NOGROUP No such key 'k' or consumer group 'x'"),
            ("XNACK x g FAIL IDS 1 1-0", "(error) NOGROUP No such key 'x' or consumer group 'g'"),
            ("XNACK s g FAIL IDS 1 1-0", WRONG_TYPE),
        ],
    );
    check_effects(&READ, "XNACK k g FAIL IDS 1 9-0", "(integer) 0", "");
    let told = "XNACK k g SILENT IDS 1 1-0";
    check_effects(&READ, told, "(integer) 1", told);
}

#[test]
fn a_message_is_added_once() {
    let mut world = World::new();
    world.now.0 = 1_000_000;
    check_in(
        &mut world,
        &[
            ("XADD k NOMKSTREAM IDMP p one * f v", "(nil)"),
            ("XADD k IDMP p one * f v", "\"1000000-0\""),
            ("XADD k IDMP p one * f other", "\"1000000-0\""),
            ("XADD k IDMP q one MAXLEN ~ 100 * f v", "\"1000000-1\""),
            ("XADD k KEEPREF IDMP p * * f v", "\"1000000-2\""),
            ("XADD k IDMPAUTO p * a 1 b 2", "\"1000000-3\""),
            ("XADD k IDMPAUTO p * b 2 a 1", "\"1000000-3\""),
            ("XADD k IDMPAUTO p * a 2 b 1", "\"1000000-4\""),
            ("XADD k IDMPAUTO p * a1 2 b 1", "\"1000000-5\""),
            ("XADD k IDMPAUTO q * a 1 b 2", "\"1000000-6\""),
            ("XLEN k", "(integer) 7"),
            // An entry that is gone has been added all the same.
            ("XDEL k 1000000-0", "(integer) 1"),
            ("XADD k IDMP p one * f v", "\"1000000-0\""),
        ],
    );
    let info = world.ask("XINFO STREAM k");
    let fields = "idmp-duration\"\n16) (integer) 100\n17) \"idmp-maxsize\"\n18) (integer) 100\n\
        19) \"pids-tracked\"\n20) (integer) 2\n21) \"iids-tracked\"\n22) (integer) 7\n\
        23) \"iids-added\"\n24) (integer) 7\n25) \"iids-duplicates\"\n26) (integer) 3\n";
    assert!(info.contains(fields), "{info}");
    world.now.0 += 100_000;
    check_in(&mut world, &[("XADD k IDMP p one * f v", "\"1100000-0\"")]);
    assert!(world.ask("COPY k l") == "(integer) 1");
    check_in(&mut world, &[("XADD l IDMP p one * f v", "\"1100000-0\"")]);
}

#[test]
fn messages_are_refused_in_the_words_of_redis() {
    let empty = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        String::from_utf8(World::new().raw(&words)).unwrap()
    };
    let mut world = World::new();
    let twice = "(error) ERR IDMP/IDMPAUTO specified multiple times";
    check_in(
        &mut world,
        &[
            ("XADD k IDMP p * f v", NO_ID),
            (
                "XADD k IDMP p one 1-1 f v",
                "(error) ERR IDMP/IDMPAUTO can be used only with auto-generated IDs",
            ),
            ("XADD k IDMP p one IDMP q two * f v", twice),
            ("XADD k IDMPAUTO p IDMP q two * f v", twice),
            ("EXISTS k", "(integer) 0"),
        ],
    );
    for (words, expected) in [
        (
            ["XADD", "k", "IDMP", "", "one", "*", "f", "v"],
            "-ERR IDMP requires a non-empty producer",
        ),
        (
            ["XADD", "k", "IDMP", "p", "", "*", "f", "v"],
            "-ERR IDMP requires a non-empty idempotent",
        ),
        (["XADD", "k", "IDMPAUTO", "", "*", "f", "v", ""], "-ERR IDMPAUTO requires a non-empty"),
    ] {
        assert!(empty(&words).starts_with(expected), "{words:?}");
    }
}

#[test]
fn xcfgset_says_what_is_remembered() {
    let mut world = World::new();
    let durations = "(error) ERR IDMP-DURATION must be between 1 and 86400 seconds";
    let sizes = "(error) ERR IDMP-MAXSIZE must be between 1 and 10000 entries";
    world.now.0 = 1_000_000;
    check_in(
        &mut world,
        &[
            ("XCFGSET k IDMP-DURATION 5", "(error) ERR no such key"),
            ("XADD k IDMP p one * f v", "\"1000000-0\""),
            ("XCFGSET k", "(error) ERR At least one parameter must be specified"),
            ("XCFGSET k IDMP-DURATION", SYNTAX),
            ("XCFGSET k OTHER 5", SYNTAX),
            ("XCFGSET k IDMP-DURATION 0", durations),
            ("XCFGSET k IDMP-DURATION 86401", durations),
            ("XCFGSET k IDMP-MAXSIZE 10001", sizes),
            ("XCFGSET k IDMP-MAXSIZE -50", sizes),
            ("XADD k IDMP p one * f v", "\"1000000-0\""),
            // The same as before has nothing forgotten.
            ("XCFGSET k IDMP-DURATION 100 IDMP-MAXSIZE 100", "OK"),
            ("XADD k IDMP p one * f v", "\"1000000-0\""),
            ("XCFGSET k IDMP-MAXSIZE 1", "OK"),
            ("XADD k IDMP p one * f v", "\"1000000-1\""),
            ("XADD k IDMP p two * f v", "\"1000000-2\""),
            ("XADD k IDMP p one * f v", "\"1000000-3\""),
            ("SET s v", "OK"),
            ("XCFGSET s IDMP-MAXSIZE 1", WRONG_TYPE),
        ],
    );
    assert!(!World::new().ask("XADD k 1-1 f v").is_empty());
}

#[test]
fn what_is_remembered_is_told() {
    let added = "XADD k 1700000000000-0 f v XIDMPRECORD k p one 1700000000000-0";
    check_effects(&[], "XADD k IDMP p one * f v", "\"1700000000000-0\"", added);
    let before = ["XADD k IDMP p one * f v"];
    check_effects(&before, "XADD k IDMP p one * f v", "\"1700000000000-0\"", "");
    let set = "XCFGSET k IDMP-DURATION 300";
    check_effects(&before, set, "OK", set);
    let mut world = World::new();
    check_in(
        &mut world,
        &[
            ("XIDMPRECORD k p one 5-5", "(error) ERR no such key"),
            ("XADD k 5-5 f v", "\"5-5\""),
            ("XIDMPRECORD k p one 5-x", NO_ID),
            ("XIDMPRECORD k p one 5-5", "OK"),
            ("XADD k IDMP p one * f v", "\"5-5\""),
        ],
    );
}
