//! FEED: what clients read of the stream of changes, and what is kept for them.

use std::collections::BTreeMap;
use std::path::Path;

use base::prng::Prng;
use harness::{Connection, Kind, Launch, Server, TempFolder, poll_until, request};
use resp::Value;

use super::durable;
use super::starts::{CHANGES, FOLDER, digest};

/// A change, as FEED READ tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    lsn: i64,
    database: i64,
    cause: String,
    command: Vec<Vec<u8>>,
}

/// What one FEED READ replies.
struct Page {
    next: i64,
    end: i64,
    changes: Vec<Told>,
}

/// Returns the pairs of a map, which RESP2 has as an array.
fn pairs(value: Value) -> BTreeMap<String, Value> {
    let pairs: Vec<(Value, Value)> = match value {
        Value::Map(pairs) => pairs,
        Value::Array(parts) => {
            let mut parts = parts.into_iter();
            std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).collect()
        }
        other => panic!("no map: {other:?}"),
    };
    pairs.into_iter().map(|(name, value)| (text(name), value)).collect()
}

fn text(value: Value) -> String {
    String::from_utf8(bytes(value)).expect("it is text")
}

fn bytes(value: Value) -> Vec<u8> {
    let Value::Bulk(bytes) = value else { panic!("no string: {value:?}") };
    bytes
}

fn array(value: Value) -> Vec<Value> {
    let Value::Array(parts) = value else { panic!("no array: {value:?}") };
    parts
}

fn number(value: &Value) -> i64 {
    let Value::Integer(number) = value else { panic!("no number: {value:?}") };
    *number
}

fn page(value: Value) -> Page {
    let mut fields = pairs(value);
    let changes = fields.remove("changes").expect("it has changes");
    let told = |change: Value| {
        let mut fields = pairs(change);
        let command = array(fields.remove("command").expect("it has a command"));
        assert!(number(&fields["time"]) > 0);
        Told {
            lsn: number(&fields["lsn"]),
            database: number(&fields["database"]),
            cause: text(fields.remove("cause").expect("it has a cause")),
            command: command.into_iter().map(bytes).collect(),
        }
    };
    let changes = array(changes).into_iter().map(told).collect();
    Page { next: number(&fields["next"]), end: number(&fields["end"]), changes }
}

/// Reads all from `from` to the end, in pages that `words` ask for.
fn read_all(connection: &mut Connection, from: &str, words: &str) -> Vec<Told> {
    let (mut from, mut all) = (from.to_owned(), Vec::new());
    loop {
        let page = page(connection.call(&format!("FEED READ FROM {from} {words}")));
        all.extend(page.changes);
        if page.next >= page.end {
            return all;
        }
        assert_ne!(from, page.next.to_string(), "it goes on");
        from = page.next.to_string();
    }
}

fn error(value: Value) -> String {
    let Value::Error(text) = value else { panic!("no error: {value:?}") };
    String::from_utf8(text).expect("it is text")
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// Changes at random, on keys of each type. What expires within the test does nothing else before.
fn change(random: &mut Prng) -> String {
    let key = random.below(6);
    match random.below(15) {
        0 => format!("DEL s{key}"),
        1 => format!("APPEND s{key} {}", random.below(1000)),
        2 => format!("RPUSH l{key} a b {}", random.below(100)),
        3 => format!("LPOP l{key}"),
        4 => format!("SADD t{key} {} {}", random.below(50), random.below(50)),
        5 => format!("SPOP t{key}"),
        6 => format!("HSET h{key} f{} {}", random.below(9), random.below(100)),
        7 => format!("ZADD z{key} {} m{}", random.below(100), random.below(9)),
        8 => format!("PEXPIRE s{key} {}", 100_000_000 + random.below(20)),
        9 => format!("XADD x{key} * f {}", random.below(9)),
        10 => format!("MSET s{key} 1 s{} 2", random.below(6)),
        11 => format!("SELECT {}", random.below(3)),
        12 => format!("RENAME s{key} s{}", random.below(6)),
        13 => format!("SET gone{key} x PX 1"),
        _ => format!("SET s{key} {}", "v".repeat(random.below(900) as usize + 1)),
    }
}

/// Applies what was told to a server that has no data and lets nothing expire by itself.
fn apply(changes: &[Told]) -> Server {
    let server = Launch::new(Kind::Forebay).option("enable-debug-command", "yes").start();
    let mut connection = server.unix();
    assert_eq!(connection.call("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
    for at_once in changes.chunk_by(|a, b| a.lsn == b.lsn) {
        connection.call("MULTI");
        for change in at_once {
            connection.call(&format!("SELECT {}", change.database));
            connection.ask(&change.command);
        }
        let replies = array(connection.call("EXEC"));
        let failed = replies.iter().find(|reply| matches!(reply, Value::Error(_)));
        assert!(failed.is_none(), "{at_once:?}: {failed:?}");
    }
    server
}

#[test]
fn who_applies_all_that_is_told_has_the_same_data() {
    let folder = TempFolder::new();
    let launch = durable(folder.path()).option("append-segment-size", "64kb");
    let server = launch.option("enable-debug-command", "yes").start();
    let mut connection = server.unix();
    let mut random = Prng::new(7);
    CHANGES.iter().for_each(|change| drop(connection.call(change)));
    for _ in 0..1500 {
        connection.call(&change(&mut random));
    }
    // What has yet to expire would be in the digest of one and not of the other.
    poll_until("nothing to be due", || {
        (0..3).all(|database| {
            connection.call(&format!("SELECT {database}"));
            (0..6).all(|key| connection.call(&format!("GET gone{key}")) == Value::Null)
        })
    });
    poll_until("all to be durable", || {
        let fields = pairs(connection.call("FEED INFO"));
        fields["end"] == fields["latest"]
    });
    let all = read_all(&mut connection, "0", "COUNT 100");
    assert!(all.iter().any(|told| told.cause.starts_with("expired")));
    assert!(all.windows(2).all(|pair| pair[0].lsn <= pair[1].lsn));
    assert_eq!(digest(&apply(&all)), digest(&server));
    // In pages of any size, by both protocols, from any place, over all segments: the same.
    for count in ["COUNT 1", "COUNT 7", "COUNT 10000"] {
        assert!(read_all(&mut connection, "-", count) == all, "{count}");
    }
    connection.call("HELLO 3");
    assert!(read_all(&mut connection, "0", "COUNT 50") == all);
    let end = all.last().expect("there are changes").lsn;
    for _ in 0..50 {
        let from = random.below(end as u64) as i64;
        let page = page(connection.call(&format!("FEED READ FROM {from} COUNT 5")));
        let expected: Vec<&Told> = all.iter().filter(|told| told.lsn > from).collect();
        let shown: Vec<&Told> = page.changes.iter().collect();
        assert!(shown.len() >= 5.min(expected.len()), "{from}");
        assert!(shown == expected[..shown.len()], "from {from}");
    }
    // Filters leave out, and do no more.
    let of_key = |told: &&Told| told.command.get(1).is_some_and(|key| key.starts_with(b"h"));
    let expected: Vec<&Told> =
        all.iter().filter(|told| told.database == 1).filter(of_key).collect();
    let filtered = read_all(&mut connection, "0", "DB 1 PREFIX h COUNT 3");
    let names = |told: &Told| String::from_utf8_lossy(&told.command[0]).into_owned();
    assert!(filtered.iter().filter(|told| names(told) != "SELECT").collect::<Vec<_>>() == expected);
    let lists = read_all(&mut connection, "0", "TYPE list");
    let is_other = |told: &Told| ["SADD", "HSET", "ZADD", "SET"].contains(&names(told).as_str());
    assert!(!lists.iter().any(is_other) && lists.iter().any(|told| names(told) == "RPUSH"));
    assert!(lists.iter().any(|told| names(told) == "DEL"));
}

#[test]
fn causes_are_told_apart() {
    let folder = TempFolder::new();
    let launch = durable(folder.path()).option("maxmemory-policy", "allkeys-random");
    let server = launch.start();
    let mut connection = server.unix();
    for line in ["SET deleted 1", "DEL deleted", "SET expired 1 PX 1", "SET evicted 1"] {
        connection.call(line);
    }
    poll_until("the key to expire", || connection.call("GET expired") == Value::Null);
    assert_eq!(connection.call("CONFIG SET maxmemory 1"), ok());
    poll_until("the key to be evicted", || connection.call("DBSIZE") == Value::Integer(0));
    let told = |connection: &mut Connection| {
        let all = read_all(connection, "0", "");
        let causes = all.into_iter().filter(|told| told.command[0] == b"DEL");
        causes.map(|told| (told.command[1].clone(), told.cause)).collect::<Vec<_>>()
    };
    poll_until("all three to be told", || told(&mut connection).len() == 3);
    for (key, cause) in told(&mut connection) {
        let expected: &[&str] = match key.as_slice() {
            b"deleted" => &["command"],
            b"expired" => &["expired", "expired-on-access"],
            _ => &["evicted"],
        };
        assert!(expected.contains(&cause.as_str()), "{}: {cause}", key.escape_ascii());
    }
}

#[test]
fn reader_waits_for_what_matches_and_no_longer_than_it_says() {
    let folder = TempFolder::new();
    let server = durable(folder.path()).start();
    let [mut reader, mut writer, mut other] = [server.unix(), server.unix(), server.unix()];
    writer.call("SET early 1");
    assert_eq!(reader.call("FEED READ FROM $ BLOCK 1"), Value::NullArray);
    let id = number(&reader.call("CLIENT ID"));
    let ask = |reader: &mut Connection| {
        let words = ["FEED", "READ", "FROM", "$", "BLOCK", "0", "PREFIX", "user:"];
        reader.send(&harness::encode(&[request(&words)])).expect("it is sent");
    };
    ask(&mut reader);
    poll_until("it to wait", || other.info("blocked_clients") == 1);
    writer.call("SET item:1 1");
    writer.call("MSET user:1 a user:2 b");
    let found = page(reader.read().expect("a reply").value);
    let keys: Vec<&[u8]> = found.changes.iter().map(|told| told.command[1].as_slice()).collect();
    assert_eq!(keys, [b"user:1", b"user:2"], "what happened at once comes at once");
    assert!(found.changes.windows(2).all(|pair| pair[0].lsn == pair[1].lsn));
    ask(&mut reader);
    poll_until("it to wait", || other.info("blocked_clients") == 1);
    assert_eq!(other.call(&format!("CLIENT UNBLOCK {id} ERROR")), Value::Integer(1));
    assert!(error(reader.read().expect("a reply").value).starts_with("UNBLOCKED"));
    // One that goes while it waits leaves nothing behind.
    ask(&mut reader);
    poll_until("it to wait", || other.info("blocked_clients") == 1);
    drop(reader);
    poll_until("it to be gone", || other.info("blocked_clients") == 0);
    let waiting = |other: &mut Connection| number(&pairs(other.call("FEED INFO"))["waiting"]);
    assert_eq!(waiting(&mut other), 1, "itself");
}

#[test]
fn groups_are_remembered_and_the_log_is_kept_for_them() {
    let folder = TempFolder::new();
    let launch = || durable(folder.path()).option("append-segment-size", "64kb");
    let mut server = launch().start();
    let mut connection = server.unix();
    connection.call("SET first 1");
    assert_eq!(connection.call("FEED CREATE slow FROM 0"), ok());
    assert_eq!(connection.call("FEED CREATE fast FROM $"), ok());
    let refusal = error(connection.call("FEED CREATE fast FROM $"));
    assert!(refusal.contains("there is a group of this name"), "{refusal}");
    let value = "v".repeat(30_000);
    for index in 0..12 {
        connection.call(&format!("SET key{index} {value}"));
    }
    let rewrite = |connection: &mut Connection| {
        let count = connection.info("aof_rewrites");
        connection.call("BGREWRITEAOF");
        poll_until("the snapshot", || connection.info("aof_rewrites") == count + 1);
    };
    rewrite(&mut connection);
    let all = read_all(&mut connection, "0", "");
    assert_eq!(all.len(), 13, "nothing is gone that a group has not read");
    let lsn = all[6].lsn;
    assert_eq!(connection.call(&format!("FEED ACK fast {lsn}")), ok());
    assert_eq!(connection.call("FEED ACK fast 1"), ok());
    let refusal = error(connection.call("FEED ACK fast 99999999"));
    assert!(refusal.contains("cannot have been read"), "{refusal}");
    assert!(error(connection.call("FEED ACK nobody 1")).contains("no group 'nobody'"));
    let groups = |connection: &mut Connection| {
        let groups = array(connection.call("FEED GROUPS")).into_iter();
        groups
            .map(|group| {
                let mut fields = pairs(group);
                let numbers = ["lsn", "held", "lost"].map(|name| number(&fields[name]));
                (text(fields.remove("name").expect("it has a name")), numbers)
            })
            .collect::<Vec<_>>()
    };
    let before = groups(&mut connection);
    assert_eq!(before, [("fast".into(), [lsn, 1, 0]), ("slow".into(), [0, 1, 0])]);
    // By a kill and by an end in order.
    for how in ["KILL", "TERM"] {
        server.signal(how);
        server.wait();
        server = launch().start();
        connection = server.unix();
        assert_eq!(groups(&mut connection), before, "{how}");
        let page = page(connection.call("FEED READ GROUP fast COUNT 1000"));
        assert!(page.changes == all[7..], "{how}");
    }
    drop(connection);
    files_of_groups_are_not_removed_by_hand(&server, &value);
}

/// What groups hold, and what a restart needs, PURGELOGSTO leaves.
fn files_of_groups_are_not_removed_by_hand(server: &Server, value: &str) {
    let mut connection = server.unix();
    let files: Vec<String> = array(connection.call("FEED LOGS"))
        .into_iter()
        .map(|file| text(pairs(file).remove("file").expect("it has a name")))
        .collect();
    assert!(files.len() > 4, "{files:?}");
    let purge = format!("PURGELOGSTO {}", files[3]);
    assert!(error(connection.call(&purge)).contains("a group of FEED has read"));
    assert_eq!(connection.call("FEED DROP slow"), Value::Integer(1));
    assert_eq!(connection.call("FEED DROP slow"), Value::Integer(0));
    let last = files.last().expect("there are files");
    assert!(error(connection.call(&format!("PURGELOGSTO {last}"))).contains("a group of FEED"));
    assert_eq!(connection.call("FEED DROP fast"), Value::Integer(1));
    assert_eq!(connection.call(&purge), ok());
    let gone = error(connection.call("FEED READ FROM 0"));
    assert!(gone.contains("LSN 0 is not in the log any more: what there is begins"), "{gone}");
    connection.call(&format!("SET more {value}"));
    connection.call(&format!("SET more {value}"));
    connection.call(&format!("SET more {value}"));
    let files = array(connection.call("FEED LOGS"));
    let last = text(pairs(files.into_iter().last().expect("a file")).remove("file").expect("it"));
    let refusal = error(connection.call(&format!("PURGELOGSTO {last}")));
    assert!(refusal.contains("a restart needs the log from LSN"), "{refusal}");
    assert!(error(connection.call("PURGELOGSTO write2file1")).contains("there is no file"));
}

#[test]
fn group_that_is_too_far_behind_does_not_hold_the_log_and_is_told() {
    let folder = TempFolder::new();
    let launch = durable(folder.path()).option("append-segment-size", "64kb");
    let server = launch.option("feed-lag-max", "100000").start();
    let mut connection = server.unix();
    assert_eq!(connection.call("FEED CREATE slow FROM $"), ok());
    let value = "v".repeat(30_000);
    (0..12).for_each(|index| drop(connection.call(&format!("SET key{index} {value}"))));
    connection.call("BGREWRITEAOF");
    poll_until("the snapshot", || connection.info("aof_rewrites") == 1);
    let fields = pairs(array(connection.call("FEED GROUPS")).remove(0));
    assert_eq!(["held", "lost"].map(|name| number(&fields[name])), [0, 1]);
    let gone = error(connection.call("FEED READ GROUP slow"));
    assert!(gone.contains("is not in the log any more"), "{gone}");
}

#[test]
fn without_a_log_the_latest_changes_are_read_from_memory() {
    let server = Launch::new(Kind::Forebay).option("effect-backlog-size", "64kb").start();
    let mut connection = server.unix();
    let value = "v".repeat(500);
    for index in 0..40 {
        connection.call(&format!("SET key{index} {value}"));
    }
    let all = read_all(&mut connection, "0", "COUNT 3");
    assert_eq!(all.len(), 40);
    for told in &all {
        // Between two records, and within one.
        for from in [told.lsn, told.lsn - 1, told.lsn + 1] {
            let rest: Vec<Told> = all.iter().filter(|it| it.lsn > from).cloned().collect();
            if from <= all[39].lsn {
                assert!(read_all(&mut connection, &from.to_string(), "COUNT 9") == rest, "{from}");
            }
        }
    }
    let mut reader = server.unix();
    let words = ["FEED", "READ", "FROM", "$", "BLOCK", "0"];
    reader.send(&harness::encode(&[request(&words)])).expect("it is sent");
    poll_until("it to wait", || connection.info("blocked_clients") == 1);
    connection.call("SET late 1");
    assert_eq!(page(reader.read().expect("a reply").value).changes.len(), 1);
    // Where the first of what follows is dropped before it is told, the others are not told as if
    // they were all. The thread may have looked between.
    for _ in 0..20 {
        reader.send(&harness::encode(&[request(&words)])).expect("it is sent");
        poll_until("it to wait", || connection.info("blocked_clients") == 1);
        let first = number(&pairs(connection.call("FEED INFO"))["latest"]);
        let sets: Vec<_> = (0..200).map(|index| format!("SET key{index} {value}")).collect();
        let sets: Vec<_> = sets.iter().map(|set| harness::words(set)).collect();
        connection.send(&harness::encode(&sets)).expect("they are sent");
        sets.iter().for_each(|_| drop(connection.read().expect("a reply")));
        match reader.read().expect("a reply").value {
            Value::Error(text) => {
                let text = String::from_utf8_lossy(&text);
                assert!(text.contains("is not in the log any more"), "{text}");
            }
            told => assert_eq!(page(told).changes[0].command[1], b"key0", "behind {first}"),
        }
    }
    assert!(error(connection.call("FEED READ FROM 0")).contains("is not in the log any more"));
    assert!(error(connection.call("FEED CREATE a FROM $")).contains("no log is kept"));
    assert!(error(connection.call("FEED LOGS")).contains("no log is kept"));
    let server = Launch::new(Kind::Forebay).start();
    assert!(error(server.unix().call("FEED READ FROM 0")).contains("no changes are kept"));
}

#[test]
fn hostile_requests_are_refused() {
    let folder = TempFolder::new();
    let server = durable(folder.path()).start();
    let mut connection = server.unix();
    connection.call("SET a 1");
    let long = "x".repeat(129);
    let many = "PREFIX p ".repeat(65);
    for words in [
        "READ FROM",
        "READ FROM x",
        "READ FROM -1",
        "READ FROM 18446744073709551615",
        "READ FROM 18446744073709551616",
        "READ FROM 0 COUNT 0",
        "READ FROM 0 COUNT 10001",
        "READ FROM 0 COUNT",
        "READ FROM 0 BLOCK -1",
        "READ FROM 0 BLOCK 9223372036854775807",
        "READ FROM 0 DB 99",
        "READ FROM 0 DB -1",
        "READ FROM 0 TYPE what",
        "READ FROM 0 GROUP g",
        "READ GROUP nobody",
        "READ COUNT 1",
        "READ FROM 0 WHAT 1",
        &format!("READ FROM 0 {many}"),
        &format!("READ FROM 0 BLOCK 0 PREFIX {}", "p".repeat(65 * 1024)),
        &format!("CREATE {long} FROM 0"),
        "CREATE a TO 0",
        "CREATE a FROM 99999999",
        "ACK a x",
        "ACK a",
        "WHAT",
    ] {
        let reply = connection.call(&format!("FEED {words}"));
        assert!(matches!(reply, Value::Error(_)), "{words}: {reply:?}");
    }
    let refusal = error(connection.call(&format!("PURGELOGSTO {}", "f".repeat(10_000))));
    assert!(refusal.len() < 100, "a name that is none is not told back");
    connection.ask(&request(&[b"FEED".as_slice(), b"CREATE", b"", b"FROM", b"0"]));
    assert_eq!(array(connection.call("FEED GROUPS")), []);
    connection.call("MULTI");
    assert!(matches!(connection.call("FEED READ FROM 0"), Value::Error(_)));
    connection.call("DISCARD");
    for index in 0..128 {
        assert_eq!(connection.call(&format!("FEED CREATE group{index} FROM 0")), ok());
    }
    assert!(error(connection.call("FEED CREATE one-more FROM 0")).contains("128 groups"));
    assert_eq!(page(connection.call("FEED READ FROM 0")).changes.len(), 1);
}

/// A record that is larger than a reply may be comes alone, and whole.
#[test]
fn large_change_is_told_whole() {
    let folder = TempFolder::new();
    let server = durable(folder.path()).start();
    let mut connection = server.unix();
    let value = vec![b'v'; 9 << 20];
    connection.ask(&request(&[b"SET".as_slice(), b"small", b"1"]));
    connection.ask(&request(&[b"SET".as_slice(), b"large", &value]));
    connection.ask(&request(&[b"SET".as_slice(), b"last", b"1"]));
    let first = page(connection.call("FEED READ FROM 0"));
    assert_eq!(first.changes.len(), 2);
    assert!(first.changes[1].command[2] == value);
    let second = page(connection.call(&format!("FEED READ FROM {}", first.next)));
    assert_eq!(second.changes.len(), 1);
}

#[test]
fn damaged_groups_keep_a_server_from_starting() {
    let folder = TempFolder::new();
    let mut server = durable(folder.path()).start();
    assert_eq!(server.unix().call("FEED CREATE group FROM 0"), ok());
    server.signal("TERM");
    server.wait();
    let file: &Path = &folder.join(FOLDER).join("feed-groups");
    let mut bytes = std::fs::read(file).expect("it is there");
    bytes[25] ^= 1;
    std::fs::write(file, &bytes).expect("it can be written");
    let log = durable(folder.path()).try_start().expect_err("it is damaged");
    assert!(log.contains("'feed-groups', which has the groups of FEED, is damaged"), "{log}");
    std::fs::remove_file(file).expect("it is there");
    let server = durable(folder.path()).start();
    assert_eq!(array(server.unix().call("FEED GROUPS")), []);
}
