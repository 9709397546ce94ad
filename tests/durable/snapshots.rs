//! Snapshots that a log goes on from: the data are the same whenever one is written.

use std::fs;
use std::path::Path;

use harness::{Connection, Kind, Launch, Server, TempFolder, poll_until};
use resp::Value;

use super::durable;
use super::starts::{CHANGES, FOLDER, digest};

/// Runs BGREWRITEAOF and waits until the snapshot is there.
fn rewrite(connection: &mut Connection) {
    let count = connection.info("aof_rewrites");
    let started = connection.call("BGREWRITEAOF");
    assert_eq!(started, Value::Simple("Background append only file rewriting started".into()));
    poll_until("the snapshot", || connection.info("aof_rewrites") == count + 1);
}

fn restarted(mut server: Server, launch: Launch) -> Server {
    server.signal("KILL");
    server.wait();
    launch.start()
}

fn segments(folder: &Path) -> usize {
    let entries = fs::read_dir(folder.join(FOLDER)).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("it can be read").file_name());
    names.filter(|name| name.as_encoded_bytes().ends_with(b".log")).count()
}

#[test]
fn a_reload_keeps_what_a_file_says_of_a_value_beside_its_bytes() {
    let server = Launch::new(Kind::Forebay)
        .option("enable-debug-command", "yes")
        .option("maxmemory-policy", "allkeys-lfu")
        .option("lfu-log-factor", "0")
        .start();
    let mut client = server.tcp();
    client.call("SET dear v COST 10");
    client.call("SET other v");
    (0..20).for_each(|_| drop(client.call("GET dear")));
    let uses = client.call("OBJECT FREQ dear");
    assert_ne!(uses, client.call("OBJECT FREQ other"));
    assert_eq!(client.call("DEBUG RELOAD"), Value::Simple(b"OK".to_vec()));
    assert_eq!(client.call("OBJECT FREQ dear"), uses);
    assert_eq!(client.call("OBJECT COST dear"), Value::Integer(10));
    assert_eq!(client.call("OBJECT COST other"), Value::Integer(1));
}

#[test]
fn a_reload_leaves_no_file_but_that_of_the_dataset() {
    let server = Launch::new(Kind::Forebay).option("enable-debug-command", "yes").start();
    let unfinished = || {
        let entries = fs::read_dir(server.folder().path()).expect("the folder is there");
        let names = entries.map(|entry| entry.expect("it can be read").file_name());
        names.filter(|name| name.as_encoded_bytes().starts_with(b"temp-")).count()
    };
    let mut client = server.tcp();
    client.call("SET lake deep");
    assert_eq!(client.call("DEBUG RELOAD"), Value::Simple(b"OK".to_vec()));
    assert_eq!(unfinished(), 0);
    // What cannot take the place of the file stays beside it for as long as it is written.
    let file = server.folder().join("dump.rdb");
    fs::remove_file(&file).expect("it was written");
    fs::create_dir(&file).expect("its name is free");
    let reply = client.call("DEBUG RELOAD");
    assert!(matches!(reply, Value::Error(_)), "{reply:?}");
    assert_eq!(unfinished(), 0);
    assert_eq!(client.call("GET lake"), Value::Bulk(b"deep".to_vec()));
    fs::remove_dir(&file).expect("nothing is in it");
    fs::write(&file, "no dataset").expect("its name is free");
    let reply = client.call("DEBUG RELOAD NOSAVE");
    assert!(matches!(reply, Value::Error(_)), "{reply:?}");
    assert_eq!(unfinished(), 0);
}

#[test]
fn log_goes_on_from_the_snapshot_whenever_that_is_written() {
    let folder = TempFolder::new();
    let mut server = durable(folder.path()).start();
    for turn in 0..6 {
        let mut connection = server.unix();
        // In another place among the changes each time, at both ends too.
        let place = turn * CHANGES.len() / 5;
        for (index, change) in CHANGES.iter().enumerate() {
            if index == place {
                rewrite(&mut connection);
            }
            connection.call(change);
        }
        if place == CHANGES.len() {
            rewrite(&mut connection);
        }
        poll_until("the expired key to be gone", || connection.call("GET gone") == Value::Null);
        let before = digest(&server);
        server = restarted(server, durable(folder.path()));
        assert_eq!(digest(&server), before, "turn {turn}");
    }
}

#[test]
fn what_the_snapshot_has_is_removed_by_itself_once_the_log_has_grown() {
    let folder = TempFolder::new();
    let launch = || {
        let launch = durable(folder.path()).option("append-segment-size", "64kb");
        launch.option("auto-aof-rewrite-min-size", "200kb")
    };
    let server = launch().start();
    let mut connection = server.unix();
    let value = "v".repeat(10_000);
    let mut written = 0;
    poll_until("the log to begin anew twice", || {
        written += 1;
        connection.call(&format!("SET key:{} {value}{written}", written % 5));
        connection.info("aof_rewrites") >= 2
    });
    poll_until("old segments to be gone", || segments(folder.path()) < 10);
    let before = digest(&server);
    assert_eq!(digest(&restarted(server, launch())), before);
}

#[test]
fn log_is_turned_on_over_data() {
    let folder = TempFolder::new();
    let without = || {
        let launch = Launch::new(Kind::Forebay);
        launch.option("dir", &folder.path().display().to_string()).option("appendfsync", "always")
    };
    let server = without().start();
    let mut connection = server.unix();
    CHANGES.iter().for_each(|change| drop(connection.call(change)));
    let ok = || Value::Simple("OK".into());
    assert_eq!(connection.call("CONFIG SET appendonly yes"), ok());
    connection.call("SET behind 1");
    poll_until("the expired key to be gone", || connection.call("GET gone") == Value::Null);
    let before = digest(&server);
    let server = restarted(server, durable(folder.path()));
    assert_eq!(digest(&server), before);
    // Without the log the file of the dataset is what counts, and a log of before is nothing.
    let mut connection = server.unix();
    assert_eq!(connection.call("CONFIG SET appendonly no"), ok());
    connection.call("SET behind 2");
    assert_eq!(connection.call("CONFIG SET appendonly yes"), ok());
    let before = digest(&server);
    let server = restarted(server, durable(folder.path()));
    assert_eq!(digest(&server), before);
}

#[test]
fn dataset_of_a_server_without_a_log_is_taken_over() {
    let folder = TempFolder::new();
    let launch = Launch::new(Kind::Forebay).option("dir", &folder.path().display().to_string());
    let server = launch.start();
    let mut connection = server.unix();
    CHANGES.iter().for_each(|change| drop(connection.call(change)));
    poll_until("the expired key to be gone", || connection.call("GET gone") == Value::Null);
    let before = digest(&server);
    connection.call("SAVE");
    let server = restarted(server, durable(folder.path()));
    assert_eq!(digest(&server), before);
    // Once only: from now on the log counts.
    server.unix().call("SET behind 1");
    let before = digest(&server);
    let mut server = restarted(server, durable(folder.path()));
    assert_eq!(digest(&server), before);
    server.signal("KILL");
    server.wait();
    fs::remove_file(folder.join(FOLDER).join("base.rdb")).expect("the snapshot is there");
    let log = durable(folder.path()).try_start().expect_err("the data are incomplete");
    assert!(log.contains("goes on from a snapshot, 'base.rdb', which is not there"), "{log}");
}
