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

/// Returns why there is no backup `name`.
fn refusal(connection: &mut Connection, name: &str) -> String {
    match connection.call(&format!("BACKUP TO {name}")) {
        Value::Simple(_) => {
            poll_until("the backup", || status(connection, "state") != "running");
            assert_eq!(status(connection, "state"), "failed", "{name}");
            status(connection, "error")
        }
        refused => error(refused),
    }
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
    let (backups, path) = (folder.join("backups"), folder.join("backups/monday"));
    let (text, is_sound) = check(&path, &[]);
    assert!(is_sound && text.contains(&format!("base.rdb: the data of LSN {lsn}")), "{text}");
    // By the append-only file, and by restoring it elsewhere.
    let restored = durable(&backups).option("appenddirname", "monday").start();
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
        ("no/such/parent", "enable-protected-configs"),
        (".", "enable-protected-configs"),
        (&"x".repeat(300), "too long"),
        (&"x".repeat(5000), "too long"),
    ] {
        let refusal = refusal(&mut connection, name);
        assert!(refusal.contains(reason), "{name}: {refusal}");
    }
    let file = path.join("base.rdb");
    let mut bytes = fs::read(&file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("it can be written");
    assert!(!check(&path, &[]).1, "damage is told");
}

/// What would be taken for a part of the log, or of the dataset, is refused, and so is one more
/// than there may be.
#[test]
fn backup_is_not_where_the_server_has_its_files_and_not_one_of_many() {
    let folder = TempFolder::new();
    let launch = durable(folder.path()).option("enable-protected-configs", "yes");
    let mut server = launch.start();
    let mut connection = server.unix();
    connection.call("SET a 1");
    std::os::unix::fs::symlink(folder.join("appendonlydir"), folder.join("link")).unwrap();
    for name in [
        "appendonlydir/09999999999999999999.log",
        "./appendonlydir/next.tmp",
        "appendonlydir/../appendonlydir/spare.tmp",
        "link/00000000000000000000.log",
        "./appendonlydir",
        "./dump.rdb",
    ] {
        let refusal = refusal(&mut connection, name);
        assert!(refusal.contains("its own files"), "{name}: {refusal}");
    }
    assert!(refusal(&mut connection, "no/such/parent").contains("No such file"));
    // Names of the server's files are names as any other where they are in the folder of backups.
    for name in ["appendonlydir", "dump.rdb", "appendonly.aof"] {
        back_up(&mut connection, name);
        assert!(folder.join("backups").join(name).join("base.rdb").exists());
    }
    for index in 3..64 {
        fs::create_dir(folder.join(&format!("backups/{index}"))).expect("it can be made");
    }
    assert!(refusal(&mut connection, "another").contains("64 backups"));
    assert!(!folder.join("backups/another").exists());
    back_up(&mut connection, "7");
    assert!(refusal(&mut connection, "7").contains("is not empty"));
    assert!(check(&folder.join("backups/7"), &[]).1, "it is left as it is");
    server.signal("KILL");
    server.wait();
    let server = durable(folder.path()).start();
    assert_eq!(server.unix().call("GET a"), Value::Bulk(b"1".to_vec()));
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
