//! Commands on strings, and options of SET, that redis-server 7.0 does not have.
//!
//! Source: the documentation of Redis 8.4 and 8.8, and the test suite of redis/redis.

use crate::support::World;

#[track_caller]
fn check_all(lines: &[(&str, &str)]) {
    let mut world = World::new();
    for (line, expected) in lines {
        assert_eq!(world.ask(line), *expected, "{line}");
    }
}

const ARITY: &str = "(error) ERR wrong number of arguments for 'delex' command";
const SYNTAX: &str = "(error) ERR syntax error";
const WRONG_TYPE: &str =
    "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_DIGEST: &str = "(error) ERR must be exactly 16 hexadecimal characters";
const NOT_STRING: &str = "(error) ERR Key should be of string type if conditions are specified";

#[test]
fn a_digest_is_that_of_xxh3() {
    check_all(&[
        ("DIGEST k", "(nil)"),
        ("SET k hello", "OK"),
        ("DIGEST k", "\"9555e8555c62dcfd\""),
        ("SET k 123", "OK"),
        ("DIGEST k", "\"404a763b3f4c8c9a\""),
        ("SET k ", "OK"),
        ("DIGEST k", "\"2d06800538d394c2\""),
        // All digits are there.
        ("SET k v8", "OK"),
        ("DIGEST k", "\"0cc76dbb41381419\""),
        (
            "SET k v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw\
             7uc26nnf961u2jkfzkjytls2kwlj7626sd",
            "OK",
        ),
        ("DIGEST k", "\"00006c38adf31777\""),
        ("RPUSH l a", "(integer) 1"),
        ("DIGEST l", WRONG_TYPE),
    ]);
}

#[test]
fn set_takes_a_cost_and_object_tells_it() {
    const NOT_INTEGER: &str = "(error) ERR value is not an integer or out of range";
    check_all(&[
        ("OBJECT COST k", "(nil)"),
        ("SET k 5", "OK"),
        ("OBJECT COST k", "(integer) 1"),
        ("SET k 5 COST 10", "OK"),
        ("OBJECT COST k", "(integer) 10"),
        ("SET k 5 XX cost 20 KEEPTTL GET", "\"5\""),
        ("INCR k", "(integer) 6"),
        ("INCRBYFLOAT k 0.5", "\"6.5\""),
        ("SETBIT k 100 1", "(integer) 0"),
        ("RENAME k l", "OK"),
        ("OBJECT COST l", "(integer) 20"),
        ("SET l 6 NX COST 30", "(nil)"),
        ("OBJECT COST l", "(integer) 20"),
        ("SET l 6", "OK"),
        ("OBJECT COST l", "(integer) 1"),
        ("RPUSH list a", "(integer) 1"),
        ("OBJECT COST list", "(integer) 1"),
        ("SET k 5 COST", SYNTAX),
        ("SET k 5 COST 0", NOT_INTEGER),
        ("SET k 5 COST 65536", NOT_INTEGER),
        ("SET k 5 COST -1", NOT_INTEGER),
        ("SET k 5 COST much", NOT_INTEGER),
        ("MSETEX 1 k 5 COST 5", SYNTAX),
        ("GET k", "(nil)"),
    ]);
}

#[test]
fn delex_removes_what_compares_as_it_is_to() {
    check_all(&[
        ("DELEX k", "(integer) 0"),
        ("SET k hello", "OK"),
        ("DELEX k IFEQ other", "(integer) 0"),
        ("DELEX k ifne hello", "(integer) 0"),
        ("DELEX k IFDEQ 0000000000000000", "(integer) 0"),
        ("DELEX k IFDNE 9555e8555c62dcfd", "(integer) 0"),
        ("DELEX k IFDNE 9555E8555C62DCFD", "(integer) 0"),
        ("GET k", "\"hello\""),
        ("DELEX k IfEq hello", "(integer) 1"),
        ("SET k 0123", "OK"),
        ("DELEX k IFNE 123", "(integer) 1"),
        ("SET k hello", "OK"),
        ("DELEX k IFDEQ 9555E8555c62dcfd", "(integer) 1"),
        ("SET k hello", "OK"),
        ("DELEX k IFDNE zzzzzzzzzzzzzzzz", "(integer) 1"),
        ("RPUSH k a", "(integer) 1"),
        ("DELEX k", "(integer) 1"),
        ("EXISTS k", "(integer) 0"),
    ]);
}

#[test]
fn delex_refuses_in_the_words_of_redis() {
    check_all(&[
        ("DELEX k IFEQ", ARITY),
        ("DELEX k IFEQ v more", ARITY),
        // A key that is not there is looked at first.
        ("DELEX k FOO v", "(integer) 0"),
        ("DELEX k IFDEQ short", "(integer) 0"),
        ("SET k hello", "OK"),
        ("DELEX k FOO v", "(error) ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
        ("DELEX k IFDEQ short", NOT_DIGEST),
        ("DELEX k IFDNE 09555e8555c62dcfd", NOT_DIGEST),
        ("RPUSH l a", "(integer) 1"),
        ("DELEX l FOO v", NOT_STRING),
        ("DELEX l IFEQ a", NOT_STRING),
        ("EXISTS k l", "(integer) 2"),
    ]);
}

#[test]
fn set_stores_over_what_compares_as_it_is_to() {
    check_all(&[
        ("SET k v IFEQ x", "(nil)"),
        ("SET k v IFDEQ short", "(nil)"),
        ("EXISTS k", "(integer) 0"),
        ("SET k v IFNE x", "OK"),
        ("SET l v IFDNE short", "OK"),
        ("SET k w IFNE v", "(nil)"),
        ("SET k hello IFEQ v GET", "\"v\""),
        ("SET k w IFDEQ 0000000000000000 GET", "\"hello\""),
        ("GET k", "\"hello\""),
        ("SET k w IFDNE 9555e8555c62dcfd", "(nil)"),
        ("SET k w IFDEQ 9555E8555C62DCFD EX 100", "OK"),
        ("TTL k", "(integer) 100"),
        ("SET k x IFNE a IFNE b KEEPTTL", "OK"),
        ("TTL k", "(integer) 100"),
        ("SET k x IFDEQ short", NOT_DIGEST),
        ("SET k x IFDNE short GET", NOT_DIGEST),
    ]);
}

#[test]
fn conditions_of_set_exclude_each_other() {
    check_all(&[
        ("SET k v IFEQ v NX", SYNTAX),
        ("SET k v XX IFEQ v", SYNTAX),
        ("SET k v IFEQ v IFNE v", SYNTAX),
        ("SET k v IFDEQ v IFDNE v", SYNTAX),
        ("SET k v IFNE v IFDNE v", SYNTAX),
        ("SET k v IFDEQ", SYNTAX),
        ("RPUSH l a", "(integer) 1"),
        ("SET l v IFEQ a", WRONG_TYPE),
        ("SET l v IFNE a", WRONG_TYPE),
        ("SET l v IFDEQ short", WRONG_TYPE),
        ("COMMAND GETKEYSANDFLAGS SET k v", "1) 1) \"k\"\n   2) 1) OW\n      2) update"),
        (
            "COMMAND GETKEYSANDFLAGS SET k v IFDNE w",
            "1) 1) \"k\"\n   2) 1) RW\n      2) access\n      3) update",
        ),
        ("COMMAND GETKEYSANDFLAGS DELEX k", "1) 1) \"k\"\n   2) 1) RM\n      2) delete"),
    ]);
}

/// Returns a reply of INCREX: the value, and what was added.
macro_rules! sum {
    ($value:literal, $added:literal) => {
        concat!("1) (integer) ", $value, "\n2) (integer) ", $added)
    };
}

macro_rules! float_sum {
    ($value:literal, $added:literal) => {
        concat!("1) \"", $value, "\"\n2) \"", $added, "\"")
    };
}

#[test]
fn increx_stays_within_its_bounds() {
    check_all(&[
        ("INCREX k", sum!(1, 1)),
        ("INCREX k BYINT 5 UBOUND 5", sum!(1, 0)),
        ("INCREX k BYINT 5 UBOUND 5 SATURATE", sum!(5, 4)),
        ("INCREX k BYINT -3 LBOUND 2", sum!(2, -3)),
        ("INCREX k BYINT -3 LBOUND 0", sum!(2, 0)),
        ("INCREX k BYINT -3 SATURATE LBOUND 0", sum!(0, -2)),
        ("SET k 50", "OK"),
        ("INCREX k BYINT 5 UBOUND 30", sum!(50, 0)),
        ("INCREX k BYINT -25 UBOUND 30", sum!(25, -25)),
        ("INCREX k BYINT 5 UBOUND 20 SATURATE", sum!(20, -5)),
        ("SET k 9223372036854775800", "OK"),
        ("INCREX k BYINT 9223372036854775800", sum!(9223372036854775800, 0)),
        ("INCREX k BYINT 9223372036854775800 SATURATE", sum!(9223372036854775807, 7)),
        (
            "INCREX k SATURATE UBOUND -9223372036854775808",
            "(error) ERR applied increment would overflow",
        ),
        ("SET k -9223372036854775800", "OK"),
        ("INCREX k BYINT -9223372036854775800 SATURATE", sum!(-9223372036854775808, -8)),
        ("DEL k", "(integer) 1"),
        ("INCREX k LBOUND 10 BYINT 5", sum!(0, 0)),
        ("EXISTS k", "(integer) 0"),
        ("INCREX k LBOUND 10 SATURATE", sum!(10, 10)),
        ("OBJECT ENCODING k", "\"int\""),
    ]);
}

#[test]
fn increx_counts_in_fractions_too() {
    check_all(&[
        ("SET k 1.5", "OK"),
        ("INCREX k BYFLOAT 0.25", float_sum!("1.75", "0.25")),
        ("INCREX k BYFLOAT 10 UBOUND 5.5", float_sum!("1.75", "0")),
        ("INCREX k BYFLOAT 10 UBOUND 5.5 SATURATE", float_sum!("5.5", "3.75")),
        ("INCREX k BYFLOAT -10 LBOUND -inf", float_sum!("-4.5", "-10")),
        ("GET k", "\"-4.5\""),
        ("INCREX k", "(error) ERR value is not an integer or out of range"),
        ("SET k 10", "OK"),
        ("INCREX k BYFLOAT 1e4932 UBOUND 100 SATURATE", float_sum!("100", "90")),
        ("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf", float_sum!("100", "0")),
        (
            "INCREX k BYFLOAT 1 LBOUND inf UBOUND inf SATURATE",
            "(error) ERR applied increment would be Infinity",
        ),
        ("INCREX k BYFLOAT +inf", "(error) ERR BYFLOAT increment cannot be Infinity"),
        ("SET k inf", "OK"),
        ("INCREX k BYFLOAT 1", "(error) ERR value cannot be Infinity"),
        ("SET k x", "OK"),
        ("INCREX k BYFLOAT 1", "(error) ERR value is not a valid float"),
    ]);
    let mut world = World::new();
    world.ask("HELLO 3");
    assert_eq!(world.raw(&[b"INCREX", b"k", b"BYFLOAT", b"2.50"]), b"*2\r\n,2.5\r\n,2.5\r\n");
    assert_eq!(world.raw(&[b"INCREX", b"l"]), b"*2\r\n:1\r\n:1\r\n");
}

#[test]
fn increx_changes_the_time_to_live_as_it_is_asked_to() {
    check_all(&[
        ("INCREX k EX 100 ENX", sum!(1, 1)),
        ("TTL k", "(integer) 100"),
        ("INCREX k EX 500 ENX", sum!(2, 1)),
        ("TTL k", "(integer) 100"),
        ("INCREX k UBOUND 2 EX 500", sum!(2, 0)),
        ("TTL k", "(integer) 100"),
        ("INCREX k", sum!(3, 1)),
        ("TTL k", "(integer) 100"),
        ("INCREX k PX 7000", sum!(4, 1)),
        ("TTL k", "(integer) 7"),
        ("INCREX k PERSIST", sum!(5, 1)),
        ("TTL k", "(integer) -1"),
        ("INCREX k EXAT 1", sum!(6, 1)),
        ("EXISTS k", "(integer) 0"),
    ]);
}

#[test]
fn increx_refuses_in_the_words_of_redis() {
    const CROSSED: &str = "(error) ERR LBOUND can't be greater than UBOUND";
    for options in [
        "FOO",
        "BYINT 1 FOO",
        "BYINT 1 BYINT 1",
        "BYINT 1 BYFLOAT 1",
        "LBOUND 0 LBOUND 0",
        "UBOUND 9 UBOUND 9",
        "SATURATE SATURATE",
        "ENX ENX EX 10",
        "PERSIST PERSIST",
        "EX 10 EX 10",
        "EX 10 PX 10",
        "EX 10 PERSIST",
        "PERSIST EX 10",
        "PERSIST ENX",
        "ENX PERSIST",
        "BYINT",
        "LBOUND",
        "EX",
    ] {
        check_all(&[(&format!("INCREX k {options}"), SYNTAX)]);
    }
    check_all(&[
        ("INCREX k ENX", "(error) ERR ENX flag requires an expiration"),
        ("INCREX k BYINT 1.5", "(error) ERR Increment is not an integer or out of range"),
        ("INCREX k BYFLOAT x", "(error) ERR Increment is not a valid float"),
        ("INCREX k UBOUND 5.5", "(error) ERR UBOUND is not an integer or out of range"),
        ("INCREX k LBOUND x BYFLOAT 1", "(error) ERR LBOUND is not a valid float"),
        ("INCREX k LBOUND 10 UBOUND 5", CROSSED),
        ("INCREX k BYFLOAT 1 LBOUND 10.5 UBOUND 1.5", CROSSED),
        ("INCREX k BYFLOAT 1 LBOUND inf", CROSSED),
        ("INCREX k BYFLOAT 1 UBOUND -inf", CROSSED),
        ("INCREX k EX 0", "(error) ERR invalid expire time in 'increx' command"),
        ("INCREX k PX -1", "(error) ERR invalid expire time in 'increx' command"),
        ("EXISTS k", "(integer) 0"),
        ("RPUSH l a", "(integer) 1"),
        ("INCREX l", WRONG_TYPE),
        ("INCREX l BYFLOAT 1", WRONG_TYPE),
    ]);
}
