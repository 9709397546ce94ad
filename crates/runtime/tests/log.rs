//! An embedded instance that keeps its data in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use runtime::{
    Embedded, EmbeddedOptions, Environment, LogOptions, LogReport, OpenError, SyncPolicy,
};

/// A folder that is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("forebay-embedded-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn log(&self) -> LogOptions {
        LogOptions { segment_bytes: 64 << 10, ..LogOptions::new(&self.0) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(log: LogOptions) -> Result<Embedded, OpenError> {
    let options = EmbeddedOptions { log: Some(log), ..EmbeddedOptions::default() };
    Embedded::open(&options, Environment::system())
}

fn ask(embedded: &Embedded, request: &str) -> String {
    let words: Vec<&str> = request.split(' ').collect();
    String::from_utf8(embedded.session().run(&words)).expect("replies here are text")
}

fn report(embedded: &Embedded) -> LogReport {
    embedded.log_report().expect("a log is kept")
}

fn file_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder.join("appendonlydir")).expect("it is there");
    files.map(|file| file.and_then(|file| file.metadata()).expect("nobody removes it").len()).sum()
}

#[test]
fn what_was_written_is_there_when_the_folder_is_opened_again() {
    let folder = Folder::new("again");
    let embedded = open(folder.log()).unwrap();
    assert_eq!(ask(&embedded, "SET a 1"), "+OK\r\n");
    assert_eq!(ask(&embedded, "RPUSH l x y"), ":2\r\n");
    assert_eq!(report(&embedded).durable, report(&embedded).written);
    // One instance at a time has the folder.
    let other = open(folder.log()).err().unwrap().to_string();
    assert!(other.contains("one directory is for one"), "{other}");
    embedded.close().unwrap();
    let embedded = open(folder.log()).unwrap();
    assert_eq!(ask(&embedded, "LPOP l"), "$1\r\nx\r\n");
    assert_eq!(
        ask(&embedded, "CONFIG GET append*"),
        "*4\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n"
    );
    assert!(ask(&embedded, "INFO persistence").contains("aof_enabled:1\r\n"));
    drop(embedded);
    let embedded = open(folder.log()).unwrap();
    assert_eq!(ask(&embedded, "LRANGE l 0 -1"), "*1\r\n$1\r\ny\r\n");
    assert_eq!(ask(&embedded, "GET a"), "$1\r\n1\r\n");
}

#[test]
fn a_snapshot_takes_the_place_of_a_long_log() {
    let folder = Folder::new("rewrite");
    let log = LogOptions { sync: SyncPolicy::EverySecond, rewrite_bytes: 200_000, ..folder.log() };
    let embedded = open(log.clone()).unwrap();
    let value = "v".repeat(1000);
    for _ in 0..400 {
        ask(&embedded, &format!("SET k {value}"));
    }
    let before = report(&embedded);
    assert!(before.bytes_behind_snapshot > 200_000, "{before:?}");
    embedded.sweep();
    let after = report(&embedded);
    assert_eq!((after.bytes_behind_snapshot, &after.rewrite_failure), (0, &None), "{after:?}");
    assert!(after.snapshot_bytes > 0 && file_bytes(&folder.0) < 200_000, "{after:?}");
    // The next comes when there is as much again.
    ask(&embedded, "SET other 1");
    embedded.sweep();
    assert_eq!(report(&embedded).snapshot_bytes, after.snapshot_bytes);
    drop(embedded);
    let embedded = open(log).unwrap();
    assert_eq!(ask(&embedded, "STRLEN k"), ":1000\r\n");
    assert_eq!(ask(&embedded, "GET other"), "$1\r\n1\r\n");
    // A file has what the log says of a value beside its bytes.
    assert_eq!(ask(&embedded, "SET dear 1 COST 20"), "+OK\r\n");
    assert_eq!(
        ask(&embedded, &format!("SET long {value}{value}{value}{value}{value} COST 30")),
        "+OK\r\n"
    );
    embedded.rewrite_log().unwrap();
    assert_eq!(report(&embedded).bytes_behind_snapshot, 0);
    drop(embedded);
    let embedded = open(LogOptions::new(&folder.0)).unwrap();
    assert_eq!(ask(&embedded, "OBJECT COST dear"), ":20\r\n");
    assert_eq!(ask(&embedded, "OBJECT COST long"), ":30\r\n");
    assert_eq!(ask(&embedded, "OBJECT COST other"), ":1\r\n");
}

#[test]
fn a_folder_with_other_data_is_refused_and_left_as_it_is() {
    for name in ["dump.rdb", "appendonly.aof", "appendonlydir/appendonly.aof.manifest"] {
        let folder = Folder::new("other");
        let file = folder.0.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, b"data").unwrap();
        let error = open(folder.log()).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains("start a server"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"data");
        let files = fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing was made beside it");
        // Once it is elsewhere there is no obstacle.
        fs::remove_file(file).unwrap();
        assert_eq!(ask(&open(folder.log()).unwrap(), "DBSIZE"), ":0\r\n");
    }
}

#[test]
fn a_snapshot_removes_nothing_of_a_history_that_a_server_keeps() {
    let folder = Folder::new("history");
    let embedded = open(folder.log()).unwrap();
    let value = "v".repeat(1000);
    for _ in 0..200 {
        ask(&embedded, &format!("SET k {value}"));
    }
    let earlier = folder.0.join("appendonlydir/base-00000000000000000001.rdb");
    fs::write(&earlier, b"an earlier snapshot").unwrap();
    let before = file_bytes(&folder.0);
    embedded.rewrite_log().unwrap();
    assert!(file_bytes(&folder.0) > before);
    fs::remove_file(earlier).unwrap();
    embedded.rewrite_log().unwrap();
    assert!(file_bytes(&folder.0) < before);
}

#[test]
fn what_cannot_be_read_is_told() {
    let folder = Folder::new("damage");
    let embedded = open(folder.log()).unwrap();
    for number in 0..50 {
        ask(&embedded, &format!("SET k{number} {number}"));
    }
    drop(embedded);
    let files = fs::read_dir(folder.0.join("appendonlydir")).unwrap();
    for file in files.map(|file| file.unwrap().path()) {
        let mut bytes = fs::read(&file).unwrap();
        if bytes.len() > 2_000 {
            bytes[1_500] ^= 1;
            fs::write(&file, bytes).unwrap();
        }
    }
    let error = open(folder.log()).err().unwrap().to_string();
    assert!(error.contains("cannot be read") && error.contains("appendonlydir"), "{error}");
    assert!(open(LogOptions::new("/proc/none")).is_err());
}
