//! BACKUP: what it has is the dataset of a moment, whatever happens meanwhile.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use harness::{Connection, Kind, Launch, TempFolder, forebay, poll_until};
use resp::Value;

use super::durable;
use super::starts::{CHANGES, check, digest};

/// Returns what BACKUP STATUS says of `name`.
fn status(connection: &mut Connection, name: &str) -> String {
    let Value::Array(parts) = connection.call("BACKUP STATUS") else { panic!("no array") };
    let parts: Vec<String> = parts
        .into_iter()
        .map(|part| match part {
            Value::Bulk(text) => String::from_utf8(text).expect("it is text"),
            Value::Integer(number) => number.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    let pair = parts.chunks(2).find(|pair| pair[0] == name);
    pair.expect("it is there")[1].clone()
}

fn back_up(connection: &mut Connection, name: &str) {
    let started = connection.call(&format!("BACKUP TO {name}"));
    assert_eq!(started, Value::Simple("Backup started".into()));
    poll_until("the backup", || status(connection, "state") != "running");
    assert_eq!(status(connection, "state"), "ok", "{}", status(connection, "error"));
}

fn error(value: Value) -> String {
    let Value::Error(text) = value else { panic!("no error: {value:?}") };
    String::from_utf8(text).expect("it is text")
}

#[test]
fn backup_is_sound_has_all_data_and_a_server_starts_from_it() {
    let folder = TempFolder::new();
    let server = durable(folder.path()).start();
    let mut connection = server.unix();
    assert_eq!(status(&mut connection, "state"), "none");
    CHANGES.iter().for_each(|change| drop(connection.call(change)));
    poll_until("the expired key to be gone", || connection.call("GET gone") == Value::Null);
    let (before, lsn) = (digest(&server), connection.info("effect_backlog_end"));
    back_up(&mut connection, "monday");
    assert_eq!(status(&mut connection, "lsn"), lsn.to_string());
    connection.call("FLUSHALL");
    let path = folder.join("monday");
    let (text, is_sound) = check(&path, &[]);
    assert!(is_sound && text.contains(&format!("base.rdb: the data of LSN {lsn}")), "{text}");
    // By the append-only file, and by restoring it elsewhere.
    let restored = durable(folder.path()).option("appenddirname", "monday").start();
    assert_eq!(digest(&restored), before);
    let target = folder.join("tuesday");
    let mut command = Command::new(forebay());
    command.arg("restore").arg(&path).arg("--into").arg(&target);
    assert!(command.output().expect("the program starts").status.success());
    let restored = durable(folder.path()).option("appenddirname", "tuesday").start();
    assert_eq!(digest(&restored), before);
    // Nothing is replaced, and nothing is written elsewhere.
    for (name, reason) in [
        ("monday", "is not empty"),
        ("../outside", "enable-protected-configs"),
        ("/tmp/outside", "enable-protected-configs"),
        ("no/such/parent", "No such file"),
    ] {
        let refusal = error(connection.call(&format!("BACKUP TO {name}")));
        assert!(refusal.contains(reason), "{name}: {refusal}");
    }
    let file = path.join("base.rdb");
    let mut bytes = fs::read(&file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("it can be written");
    assert!(!check(&path, &[]).1, "damage is told");
}

/// Two keys that always change together: a backup under load has both of one moment.
#[test]
fn backup_under_load_is_that_of_one_moment() {
    let folder = TempFolder::new();
    let launch = Launch::new(Kind::Forebay).option("dir", &folder.path().display().to_string());
    let server = launch.option("enable-protected-configs", "yes").start();
    let mut connection = server.unix();
    for index in 0..20_000 {
        connection.call(&format!("SET key{index} {index}"));
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.unix();
            let mut round = 0;
            while !ends.load(Ordering::Relaxed) {
                round += 1;
                writer.call(&format!("MSET a {round} b {round} key{} x", round % 20_000));
            }
        });
        for index in 0..4 {
            // Anywhere, where the client may say so.
            back_up(&mut connection, &folder.join(&format!("backup{index}")).display().to_string());
        }
        ends.store(true, Ordering::Relaxed);
    });
    for index in 0..4 {
        let name = format!("backup{index}");
        let (text, is_sound) = check(&folder.join(&name), &[]);
        assert!(is_sound, "{text}");
        let mut restored = durable(folder.path()).option("appenddirname", &name).start();
        let mut connection = restored.unix();
        assert_eq!(connection.call("GET a"), connection.call("GET b"), "{name}");
        let Value::Integer(keys) = connection.call("DBSIZE") else { panic!("no number") };
        assert!([20_000, 20_002].contains(&keys), "{name}: {keys}");
        restored.signal("KILL");
        restored.wait();
    }
}
