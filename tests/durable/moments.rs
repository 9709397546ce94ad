//! Earlier moments: what a server has written is made again as it was, by `forebay restore`.

use std::path::Path;
use std::process::Command;

use harness::{Launch, TempFolder, forebay, poll_until};
use resp::Value;

use super::durable;
use super::starts::{CHANGES, FOLDER, check, digest};

/// Runs `forebay restore` and returns what it says, and whether it went well.
fn restore(source: &Path, words: &[&str], target: &Path) -> (String, bool) {
    let mut command = Command::new(forebay());
    command.arg("restore").arg(source).args(words).arg("--into").arg(target);
    let output = command.output().expect("the program starts");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

/// Returns the launch of a server that goes on from the folder `name` in `folder`.
fn going_on(folder: &Path, name: &str) -> Launch {
    durable(folder).option("appenddirname", name)
}

#[test]
fn mistake_is_undone_while_the_server_runs_and_another_goes_on_from_before_it() {
    let folder = TempFolder::new();
    let kept = durable(folder.path()).option("log-retention-size", "1gb");
    let server = kept.option("enable-debug-command", "yes").start();
    let mut connection = server.unix();
    let mut moments = Vec::new();
    for turn in 0..3 {
        CHANGES.iter().for_each(|change| drop(connection.call(change)));
        connection.call(&format!("SET turn {turn}"));
        poll_until("the expired key to be gone", || connection.call("GET gone") == Value::Null);
        moments.push((connection.info("effect_backlog_end"), digest(&server)));
        let count = connection.info("aof_rewrites");
        connection.call("BGREWRITEAOF");
        poll_until("the snapshot", || connection.info("aof_rewrites") == count + 1);
    }
    connection.call("FLUSHALL");
    let source = folder.join(FOLDER);
    for (index, (lsn, before)) in moments.iter().enumerate() {
        let name = format!("restored-{index}");
        let target = folder.join(&name);
        let (text, is_done) = restore(&source, &["--to-lsn", &lsn.to_string()], &target);
        assert!(is_done && text.contains(&format!("as they were at LSN {lsn}")), "{text}");
        let (text, is_sound) = check(&target, &[]);
        assert!(is_sound && text.contains("a sound file"), "{text}");
        let mut restored = going_on(folder.path(), &name).start();
        assert_eq!(digest(&restored), *before, "LSN {lsn}");
        // It goes on: with what is written there it can be restored in turn.
        restored.unix().call("SET behind 1");
        let behind = digest(&restored);
        restored.signal("KILL");
        restored.wait();
        assert_eq!(digest(&going_on(folder.path(), &name).start()), behind);
        let (text, is_done) = restore(&source, &["--to-lsn", &lsn.to_string()], &target);
        assert!(!is_done && text.contains("is not empty"), "{text}");
    }
    let far = (moments[2].0 + 1_000_000).to_string();
    let target = folder.join("never");
    let (text, is_done) = restore(&source, &["--to-lsn", &far], &target);
    assert!(!is_done && text.contains("nothing is known of LSN"), "{text}");
    assert!(!target.exists(), "nothing is left of what failed");
    std::fs::create_dir(&target).expect("it can be made");
    let (text, is_done) = restore(&source, &["--to-lsn", &far], &target);
    assert!(!is_done && text.contains("nothing is known of LSN"), "{text}");
    let left = std::fs::read_dir(&target).expect("it stays").count();
    assert_eq!(left, 0, "nothing is left in the folder that was there");
}

#[test]
fn without_retention_only_the_last_snapshot_and_what_follows_can_be_restored() {
    let folder = TempFolder::new();
    let server = durable(folder.path()).option("append-segment-size", "64kb").start();
    let mut connection = server.unix();
    let value = "v".repeat(40_000);
    for turn in 0..5 {
        connection.call(&format!("SET key{turn} {value}"));
    }
    let before = connection.info("effect_backlog_end");
    connection.call("SET last 1");
    connection.call("BGREWRITEAOF");
    poll_until("the snapshot", || connection.info("aof_rewrites") == 1);
    let source = folder.join(FOLDER);
    let (text, is_done) = restore(&source, &["--to-lsn", &before.to_string()], &folder.join("a"));
    assert!(!is_done && text.contains("before the first moment that can be restored"), "{text}");
    let expected = digest(&server);
    let (text, is_done) = restore(&source, &[], &folder.join("b"));
    assert!(is_done, "{text}");
    assert_eq!(digest(&going_on(folder.path(), "b").start()), expected);
    for words in [&["--to-lsn", "x"][..], &["--to-time", "yesterday"], &["--to-lsn"], &["--what"]] {
        let (text, is_done) = restore(&source, words, &folder.join("c"));
        assert!(!is_done, "{words:?}: {text}");
    }
}

#[test]
fn damaged_snapshot_is_told_by_the_check() {
    let folder = TempFolder::new();
    let mut server = durable(folder.path()).start();
    let mut connection = server.unix();
    CHANGES.iter().for_each(|change| drop(connection.call(change)));
    connection.call("BGREWRITEAOF");
    poll_until("the snapshot", || connection.info("aof_rewrites") == 1);
    server.signal("TERM");
    server.wait();
    let source = folder.join(FOLDER);
    let (text, is_sound) = check(&source, &[]);
    assert!(is_sound && text.contains("base.rdb: the data of LSN"), "{text}");
    let file = source.join("base.rdb");
    let sound = std::fs::read(&file).expect("it is there");
    for place in (0..sound.len()).step_by(7) {
        let mut bytes = sound.clone();
        bytes[place] ^= 4;
        std::fs::write(&file, &bytes).expect("it can be written");
        let (text, is_sound) = check(&source, &[]);
        assert!(!is_sound, "byte {place}: {text}");
    }
    std::fs::remove_file(&file).expect("it is there");
    let (text, is_sound) = check(&source, &[]);
    // Without it a start goes on from nothing, where all of the log is there.
    assert!(is_sound == text.contains("begins from nothing"), "{text}");
}
