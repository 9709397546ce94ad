//! A server that this crate starts ends with the process that started it, and its folder is
//! removed.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a keeper as `ServerProcess` does, with `sleep` for a server, ends it by `end`, and
/// returns once it is gone.
fn check(name: &str, end: impl FnOnce(&mut std::process::Child)) {
    let folder = std::env::temp_dir().join(format!("keeper-test-{}-{name}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut keeper = Command::new(env!("CARGO_BIN_EXE_forebay-bench"))
        .arg("keep-server")
        .arg(&folder)
        .args(["sleep", "1000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let process = format!("/proc/{}", line.trim());
    assert!(Path::new(&process).exists(), "the server runs");
    assert!(folder.join("log").exists());
    end(&mut keeper);
    assert!(keeper.wait().unwrap().success());
    assert!(!Path::new(&process).exists(), "the server is gone");
    assert!(!folder.exists(), "its folder is gone");
}

#[test]
fn the_end_of_its_input_ends_the_server() {
    check("input", |keeper| drop(keeper.stdin.take()));
}

#[test]
fn a_starter_that_is_killed_ends_the_server() {
    // The pipe's only writing end moves to a process that is then killed.
    check("killed", |keeper| {
        let pipe = keeper.stdin.take().unwrap();
        let mut starter = Command::new("sleep").arg("1000").stdout(pipe).spawn().unwrap();
        starter.kill().unwrap();
        starter.wait().unwrap();
    });
}

#[test]
fn a_server_that_ended_by_itself_is_cleaned_up_too() {
    let folder = std::env::temp_dir().join(format!("keeper-test-{}-ended", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let keeper = Command::new(env!("CARGO_BIN_EXE_forebay-bench"))
        .arg("keep-server")
        .arg(&folder)
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(keeper.status.success());
    assert!(!folder.exists());
}

#[test]
fn a_server_that_cannot_start_is_an_error() {
    let folder = std::env::temp_dir().join(format!("keeper-test-{}-none", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let keeper = Command::new(env!("CARGO_BIN_EXE_forebay-bench"))
        .arg("keep-server")
        .arg(&folder)
        .arg("no-such-program-anywhere")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!keeper.status.success());
    assert!(String::from_utf8_lossy(&keeper.stderr).contains("no-such-program-anywhere"));
    assert!(!folder.exists());
}
