//! Starts on what is on the disk: sound, damaged, of another, or not to be used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Launch, Server, TempFolder, forebay, poll_until};

use super::durable;

pub const FOLDER: &str = "appendonlydir";

/// Changes values of all kinds, some of which go again.
pub const CHANGES: &[&str] = &[
    "SET a 1",
    "INCRBY a 41",
    "APPEND text one",
    "SETRANGE text 10 two",
    "SET gone x PX 1",
    "RPUSH list a b c",
    "LPOP list",
    "SADD set 1 2 3",
    "SPOP set",
    "HSET hash f 1 g 2",
    "HINCRBYFLOAT hash f 1.5",
    "ZADD zset 1 a 2 b",
    "ZINCRBY zset 5 a",
    "XADD stream 1-1 f v",
    "XADD stream * f v",
    "PFADD log a b c",
    "EXPIRE a 100000",
    "SELECT 3",
    "SET other 1",
    "MOVE other 4",
    "SELECT 0",
    "COPY list copy",
    "RENAME copy renamed",
    "SETBIT bits 7 1",
    "GEOADD geo 13.4 52.5 berlin",
    "MSET m1 1 m2 2",
    "DEL m1",
];

pub fn digest(server: &Server) -> String {
    format!("{:?}", server.unix().call("DEBUG DIGEST"))
}

pub fn check(path: &Path, more: &[&str]) -> (String, bool) {
    let output = Command::new(forebay()).arg("check").arg(path).args(more).output();
    let output = output.expect("the program starts");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

#[test]
fn folder_without_a_log_is_not_sound_and_is_said_to_have_none() {
    let folder = TempFolder::new();
    let (text, is_sound) = check(folder.path(), &[]);
    assert!(!is_sound && text.contains("There is no snapshot either"), "{text}");
}

#[test]
fn log_that_is_not_read_is_noticed_at_the_start() {
    const NOTICE: &str = "There is an append-only file, which is not read";
    let folder = TempFolder::new();
    let mut server = durable(folder.path()).start();
    server.unix().call("SET a 1");
    server.signal("TERM");
    server.wait();
    assert!(!server.log().contains(NOTICE));
    let mut server = durable(folder.path()).option("appendonly", "no").start();
    assert_eq!(format!("{:?}", server.unix().call("DBSIZE")), "Integer(0)");
    assert!(server.log().contains(NOTICE), "{}", server.log());
    server.signal("TERM");
    server.wait();
}

#[test]
fn data_are_the_same_after_a_kill_and_after_an_end_in_order() {
    let folder = TempFolder::new();
    let mut before = String::new();
    for how in ["KILL", "TERM", "KILL"] {
        let mut server = durable(folder.path()).start();
        if !before.is_empty() {
            assert_eq!(digest(&server), before, "before {how}");
        }
        let mut connection = server.unix();
        for change in CHANGES {
            connection.call(change);
        }
        poll_until("the expired key to be gone", || {
            format!("{:?}", connection.call("GET gone")).contains("Null")
        });
        before = digest(&server);
        server.signal(how);
        server.wait();
        let (text, is_sound) = check(&folder.join(FOLDER), &[]);
        assert!(is_sound && text.contains("The log is sound"), "{text}");
    }
    assert_eq!(digest(&durable(folder.path()).start()), before);
}

#[test]
fn second_server_in_a_folder_does_not_start() {
    let folder = TempFolder::new();
    let first = durable(folder.path()).start();
    let log = durable(folder.path()).try_start().expect_err("the folder is taken");
    assert!(log.contains("Another server uses the append-only directory"), "{log}");
    let (text, is_sound) = check(&folder.join(FOLDER), &[]);
    assert!(!is_sound && text.contains("a server uses it"), "{text}");
    first.unix().call("SET a 1");
}

#[test]
fn damaged_log_is_refused_until_it_is_cut() {
    let folder = TempFolder::new();
    let mut server = durable(folder.path()).start();
    let mut connection = server.unix();
    for key in ["a", "b", "c"] {
        connection.call(&format!("SET {key} 1"));
    }
    server.signal("KILL");
    server.wait();
    let path = folder.join(FOLDER).join("00000000000000000000.log");
    let mut bytes = fs::read(&path).expect("the log is there");
    // In the second of the three records.
    bytes[220] ^= 1;
    fs::write(&path, bytes).expect("the log can be written");
    let log = durable(folder.path()).try_start().expect_err("the log is damaged");
    assert!(log.contains("is damaged at byte"), "{log}");
    let (text, is_sound) = check(&folder.join(FOLDER), &[]);
    assert!(!is_sound && text.contains("is damaged at byte"), "{text}");
    let (text, is_sound) = check(&folder.join(FOLDER), &["--cut"]);
    assert!(is_sound && text.contains("Cut:"), "{text}");
    let server = durable(folder.path()).start();
    let found = format!("{:?}", server.unix().call("EXISTS a b c"));
    assert!(found.contains("Integer(1)"), "{found}");
}

/// Returns the files of the log in `folder`, in their order.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("it is there").map(|file| file.expect("a file").path());
    let mut segments: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    segments.sort();
    segments
}

/// Flips a bit of the byte at `place` of a file.
fn flip(path: &Path, place: usize) {
    let mut bytes = fs::read(path).expect("it is there");
    bytes[place] ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

/// A log of three segments and more with a snapshot in the third, of which all is kept.
fn log_with_history(folder: &TempFolder) -> impl Fn() -> Launch {
    let path = folder.path().to_owned();
    let launch = move || {
        let kept = durable(&path).option("log-retention-size", "1gb");
        kept.option("append-segment-size", "64kb")
    };
    let mut server = launch().start();
    let mut connection = server.unix();
    let value = "v".repeat(40_000);
    for index in 0..3 {
        connection.call(&format!("SET key{index} {value}"));
    }
    connection.call("BGREWRITEAOF");
    poll_until("the snapshot", || connection.info("aof_rewrites") == 1);
    connection.call("SET behind 1");
    for index in 3..6 {
        connection.call(&format!("SET key{index} {value}"));
    }
    server.signal("KILL");
    server.wait();
    launch
}

#[test]
fn damage_of_history_is_told_and_nothing_is_cut_for_it() {
    let folder = TempFolder::new();
    let launch = log_with_history(&folder);
    let log = folder.join(FOLDER);
    let files = segments(&log);
    assert!(files.len() > 4, "{files:?}");
    flip(&files[0], 1000);
    let (text, is_sound) = check(&log, &[]);
    assert!(!is_sound && text.contains("That is history"), "{text}");
    assert!(text.contains("The log is sound and ends at LSN"), "{text}");
    let (text, is_sound) = check(&log, &["--cut"]);
    assert!(!is_sound && !text.contains("Cut:"), "{text}");
    assert_eq!(segments(&log), files);
    let found = format!("{:?}", launch().start().unix().call("DBSIZE"));
    assert!(found.contains("Integer(7)"), "{found}");
}

#[test]
fn cut_leaves_what_the_snapshot_needs_or_is_refused() {
    let folder = TempFolder::new();
    let launch = log_with_history(&folder);
    let log = folder.join(FOLDER);
    let files = segments(&log);
    // What is there before the LSN of the snapshot, in its own segment.
    flip(&files[2], 1000);
    let (text, is_sound) = check(&log, &["--cut"]);
    assert!(!is_sound && text.contains("Not cut: the log would end before LSN"), "{text}");
    assert_eq!(segments(&log), files);
    flip(&files[2], 1000);
    // Behind it the log ends there.
    flip(files.last().expect("there are files"), 1000);
    let (text, is_sound) = check(&log, &["--cut"]);
    assert!(is_sound && text.contains("Cut: the log ends at LSN"), "{text}");
    let found = format!("{:?}", launch().start().unix().call("DBSIZE"));
    assert!(found.contains("Integer(6)"), "{found}");
}

#[test]
fn folder_that_cannot_be_used_says_why() {
    let refused = |folder: &TempFolder, reason: &str| {
        let log = durable(folder.path()).try_start().expect_err("it cannot be used");
        assert!(log.contains(reason), "{log}");
    };
    let folder = TempFolder::new();
    fs::write(folder.join(FOLDER), b"").expect("it can be written");
    refused(&folder, "Can't open or create the append-only directory");
}

#[test]
fn folder_that_vanishes_ends_writes_and_nothing_else() {
    let folder = TempFolder::new();
    let server = durable(folder.path()).option("append-segment-size", "64kb").start();
    let mut connection = server.unix();
    connection.call("SET a 1");
    fs::remove_dir_all(folder.join(FOLDER)).expect("it can be removed");
    let value = "v".repeat(40_000);
    for _ in 0..3 {
        // The connection that waits for what cannot be written is closed.
        let mut writer = server.unix();
        let sent = writer.send(format!("SET b {value}\r\n").as_bytes());
        let _ = sent.and_then(|()| writer.read());
    }
    let refusal = format!("{:?}", server.unix().ask(&harness::words("SET c 1")));
    assert!(refusal.contains("MISCONF Errors writing to the AOF file"), "{refusal}");
    assert!(format!("{:?}", server.unix().call("GET a")).contains("49"), "reads go on");
}
