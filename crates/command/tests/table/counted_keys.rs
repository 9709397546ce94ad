//! Commands whose requests say how many keys they have.

use crate::support::World;

#[track_caller]
fn check(world: &mut World, line: &str, expected: &str) {
    assert_eq!(world.ask(line), expected, "{line}");
}

#[test]
fn a_wrong_count_is_refused_in_the_words_of_redis() {
    let mut world = World::new();
    for count in ["x", "0", "-1", "1.0", "2147483648", "9223372036854775808"] {
        let line = format!("MSETEX {count} k v EX 10");
        check(&mut world, &line, "(error) ERR invalid numkeys value");
    }
    for line in ["MSETEX 2 k v l", "MSETEX 2 k v", "MSETEX 2147483647 k v EX 10"] {
        check(&mut world, line, "(error) ERR wrong number of key-value pairs");
    }
    let arity = "(error) ERR wrong number of arguments for 'msetex' command";
    check(&mut world, "MSETEX 1 k", arity);
    check(&mut world, "DBSIZE", "(integer) 0");
}

#[test]
fn a_wrong_option_is_refused_in_the_words_of_redis() {
    let mut world = World::new();
    for options in [
        "v",
        "l w",
        "GET",
        "IFEQ v",
        "NX XX",
        "EX",
        "EX 10 PX 10",
        "EXAT 9 PXAT 9",
        "KEEPTTL EX 9",
        "EX 9 KEEPTTL",
        "PERSIST",
    ] {
        check(&mut world, &format!("MSETEX 1 k v {options}"), "(error) ERR syntax error");
    }
    for time in ["EX 0", "PX -1", "EXAT 0", "EX 9223372036854775807"] {
        let line = format!("MSETEX 1 k v {time}");
        check(&mut world, &line, "(error) ERR invalid expire time in 'msetex' command");
    }
    let no_integer = "(error) ERR value is not an integer or out of range";
    check(&mut world, "MSETEX 1 k v EX soon", no_integer);
    check(&mut world, "DBSIZE", "(integer) 0");
}

#[test]
fn conditions_are_about_all_keys() {
    let mut world = World::new();
    check(&mut world, "MSETEX 2 k 1 l 2 XX", "(integer) 0");
    check(&mut world, "MSETEX 2 k 1 l 2 NX PX 5000", "(integer) 1");
    check(&mut world, "MSETEX 2 l 3 m 3 NX", "(integer) 0");
    check(&mut world, "MSETEX 2 l 3 m 3 XX", "(integer) 0");
    check(&mut world, "PTTL l", "(integer) 5000");
    check(&mut world, "MSETEX 2 l 4 k 4 keepttl xx", "(integer) 1");
    check(&mut world, "PTTL l", "(integer) 5000");
    check(&mut world, "MSETEX 2 l 5 l 6 EXAT 1800000000", "(integer) 1");
    check(&mut world, "EXPIRETIME l", "(integer) 1800000000");
    check(&mut world, "MSETEX 1 l 7", "(integer) 1");
    check(&mut world, "PTTL l", "(integer) -1");
    check(&mut world, "MGET k l m", "1) \"4\"\n2) \"7\"\n3) (nil)");
    check(&mut world, "SADD s a", "(integer) 1");
    check(&mut world, "MSETEX 2 s v k v XX", "(integer) 1");
    check(&mut world, "GET s", "\"v\"");
}

#[test]
fn getkeys_follows_the_count() {
    let mut world = World::new();
    let keys = "1) \"k\"\n2) \"l\"";
    check(&mut world, "COMMAND GETKEYS MSETEX 2 k 1 l 2", keys);
    check(&mut world, "COMMAND GETKEYS MSETEX 2 k 1 l 2 NX EX 10", keys);
    check(&mut world, "COMMAND GETKEYS MSETEX 1 k 1 l 2", "1) \"k\"");
    for count in ["0", "-1", "x", "3", "9223372036854775807", "9223372036854775808"] {
        let line = format!("COMMAND GETKEYS MSETEX {count} k 1 l 2");
        check(&mut world, &line, "(error) ERR Invalid arguments specified for command");
        let line = format!("COMMAND GETKEYSANDFLAGS MSETEX {count} k 1 l 2");
        check(&mut world, &line, "(error) ERR Invalid arguments specified for command");
    }
}

#[test]
fn rows_tell_where_the_count_is() {
    let mut world = World::new();
    let row = world.raw(&[b"COMMAND", b"INFO", b"msetex"]);
    let row = String::from_utf8(row).unwrap().replace("\r\n", " ");
    for part in [
        "*3 +write +denyoom +movablekeys :0 :0 :0",
        "$9 find_keys *4 $4 type $6 keynum $4 spec *6 $9 keynumidx :0 $8 firstkey :1 $7 keystep :2",
    ] {
        assert!(row.contains(part), "{part} in {row}");
    }
}

#[test]
fn fields_are_taken_out_one_after_the_other_and_the_last_takes_the_key_along() {
    let mut world = World::new();
    check(&mut world, "HSET k a 1 b 2 c 3", "(integer) 3");
    check(&mut world, "HGETDEL k FIELDS 3 a none a", "1) \"1\"\n2) (nil)\n3) (nil)");
    check(&mut world, "HGETALL k", "1) \"b\"\n2) \"2\"\n3) \"c\"\n4) \"3\"");
    check(&mut world, "HGETDEL k fields 2 c b", "1) \"3\"\n2) \"2\"");
    check(&mut world, "EXISTS k", "(integer) 0");
    check(&mut world, "HGETDEL k FIELDS 1 a", "1) (nil)");
    check(&mut world, "SET k v", "OK");
    let wrong_type = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
    check(&mut world, "HGETDEL k FIELDS 1 a", wrong_type);
}

#[test]
fn a_wrong_count_of_fields_is_refused_in_the_words_of_redis() {
    let mut world = World::new();
    let missing = "(error) ERR Mandatory argument FIELDS is missing or not at the right position";
    check(&mut world, "HGETDEL k 1 a b", missing);
    let count = "(error) ERR Number of fields must be a positive integer";
    for number in ["0", "-1", "many", "99999999999999999999"] {
        check(&mut world, &format!("HGETDEL k FIELDS {number} a"), count);
    }
    let differs = "(error) ERR The `numfields` parameter must match the number of arguments";
    check(&mut world, "HGETDEL k FIELDS 2 a", differs);
    check(&mut world, "HGETDEL k FIELDS 1 a b", differs);
    let arity = "(error) ERR wrong number of arguments for 'hgetdel' command";
    check(&mut world, "HGETDEL k FIELDS 1", arity);
}
