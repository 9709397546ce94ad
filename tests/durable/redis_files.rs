//! A server that begins to keep a log in the folder of a redis-server takes its append-only files
//! over, and leaves them as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::{Kind, Launch, Server, TempFolder, poll_until};
use resp::Value;

use super::durable;
use super::starts::{CHANGES, FOLDER, digest};

fn redis(folder: &Path) -> Launch {
    let launch = Launch::new(Kind::Redis).option("dir", &folder.display().to_string());
    launch.option("appendonly", "yes").option("appendfsync", "always").option("save", "")
}

/// Has a redis-server make its files in `folder`, and returns the digest of what it had.
fn fill(folder: &Path, has_preamble: bool) -> String {
    let preamble = if has_preamble { "yes" } else { "no" };
    let mut server = redis(folder).option("aof-use-rdb-preamble", preamble).start();
    let mut connection = server.unix();
    for change in CHANGES {
        connection.call(change);
    }
    connection.call("BGREWRITEAOF");
    poll_until("the base", || connection.info("aof_rewrite_in_progress") == 0);
    for change in CHANGES {
        connection.call(change);
    }
    for request in ["MULTI", "SELECT 2", "SET within 1 EX 1000", "SELECT 0", "EXEC"] {
        connection.call(request);
    }
    poll_until("the expired key to be gone", || connection.call("GET gone") == Value::Null);
    let digest = digest(&server);
    server.signal("KILL");
    server.wait();
    digest
}

/// Returns the files of Redis in `folder`, with what they have.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in [folder.to_owned(), folder.join(FOLDER)] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry.expect("it can be read").path();
            if path.is_file() && path.to_string_lossy().contains("aof") {
                found.insert(path.clone(), fs::read(&path).expect("it can be read"));
            }
        }
    }
    found
}

fn check_taken_over(folder: &Path, expected: &str) {
    let before = files(folder);
    assert!(!before.is_empty());
    let mut server = durable(folder).start();
    assert_eq!(digest(&server), expected, "{}", server.log());
    assert!(server.log().contains("stays as it is and is read no more"), "{}", server.log());
    assert_eq!(server.unix().call("SET own 1"), Value::Simple("OK".into()));
    let own = digest(&server);
    server.signal("KILL");
    server.wait();
    // From now on the server has a log of its own.
    let server = durable(folder).start();
    assert_eq!(digest(&server), own);
    assert!(!server.log().contains("Reading the append-only file of Redis"));
    assert_eq!(files(folder), before);
}

#[test]
fn files_of_a_redis_server_are_taken_over() {
    for has_preamble in [true, false] {
        let folder = TempFolder::new();
        let digest = fill(folder.path(), has_preamble);
        check_taken_over(folder.path(), &digest);
    }
}

/// Starts a server where `text` is the append-only file of a Redis before version 7.
fn start_on(folder: &TempFolder, text: &[u8]) -> Result<Server, String> {
    fs::write(folder.join("appendonly.aof"), text).expect("it can be written");
    durable(folder.path()).try_start()
}

fn encoded(requests: &[&str]) -> Vec<u8> {
    let words: Vec<_> = requests.iter().map(|request| harness::words(request)).collect();
    harness::encode(&words)
}

#[test]
fn one_file_is_taken_over_as_its_requests_found_the_data() {
    let folder = TempFolder::new();
    // It had not expired when it was changed, and nobody has said that it is gone.
    let mut text = encoded(&["SET a 1 PXAT 1000", "INCR a", "SET b 2", "SELECT 3", "SET c 3"]);
    text.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$4\r\nhalf");
    let server = start_on(&folder, &text).expect("it ends in the middle, as Redis takes it too");
    let mut connection = server.unix();
    assert_eq!(connection.call("EXISTS a"), Value::Integer(0));
    assert_eq!(connection.call("GET b"), Value::Bulk("2".into()));
    connection.call("SELECT 3");
    assert_eq!(connection.call("DBSIZE"), Value::Integer(1));
    assert!(server.log().contains("ends in the middle"), "{}", server.log());
    assert_eq!(fs::read(folder.join("appendonly.aof")).expect("it is there"), text);
}

#[test]
fn what_cannot_be_run_keeps_the_server_from_starting() {
    for (requests, reason) in [
        (&["SET a 1", "NOSUCH a"][..], "NOSUCH a: ERR unknown command"),
        (&["SET a 1", "LPUSH a 1"], "LPUSH a: WRONGTYPE"),
        (&["MULTI", "LPUSH a 1", "INCR a", "EXEC"], "EXEC: WRONGTYPE"),
        (&["BLPOP a 0"], "a request that no such file has"),
    ] {
        let folder = TempFolder::new();
        let log = start_on(&folder, &encoded(requests)).expect_err("it cannot be run");
        assert!(log.contains("Can't take the append-only file") && log.contains(reason), "{log}");
        assert!(!folder.join(FOLDER).join("base.rdb").exists(), "nothing is begun");
    }
}
