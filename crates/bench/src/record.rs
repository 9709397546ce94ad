//! Result files: what was measured, on which machine, at which commit, by which command.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// The default folder of results, if it exists.
const FOLDER: &str = "bench/results";
/// Result files of one table that one second may have.
const FILES_PER_SECOND_MAX: u32 = 100;

/// Returns the folder of a result file: the one that is `named`, or the usual one if it exists.
/// A measurement makes no folder that nobody asked for.
pub fn folder(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(FOLDER)).filter(|usual| usual.is_dir()))
}

/// Writes `result` to `folder` as [`write()`] does and prints where, or that it was not recorded.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(folder: Option<&Path>, table: &str, result: Value) -> anyhow::Result<()> {
    match folder {
        Some(folder) => println!("\n{}", write(folder, table, result)?.display()),
        None => println!("\nnot recorded; --results names a folder to record it in"),
    }
    Ok(())
}

/// Writes `result`, a map, as `<folder>/<date>-<time>-<table>.json` and returns the path. What one
/// needs to judge or repeat a measurement is added to it; the servers with their versions are the
/// caller's to name.
///
/// # Errors
/// When the file cannot be written.
pub fn write(folder: &Path, table: &str, mut result: Value) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let (date, time) = date_and_time();
    let stem = format!("{date}-{}-{table}", time.replace(':', ""));
    result["table"] = table.into();
    result["circumstances"] = circumstances(&date, &time);
    let mut text = serde_json::to_string_pretty(&result)?;
    text.push('\n');
    let (path, mut file) = create(folder, &stem)?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Makes the file `<stem>.json`, or where there is one the first like it with a number: two
/// measurements may end in one second.
fn create(folder: &Path, stem: &str) -> anyhow::Result<(PathBuf, File)> {
    for number in 1..=FILES_PER_SECOND_MAX {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{suffix}.json"));
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
    bail!("{} has {FILES_PER_SECOND_MAX} files of {stem}", folder.display())
}

fn circumstances(date: &str, time: &str) -> Value {
    json!({
        "date": date,
        "time": time,
        "machine": {
            "processor": processor(),
            "processors": std::thread::available_parallelism().map_or(0, usize::from),
            "memory_bytes": memory_bytes(),
            "kernel": first_line("/proc/sys/kernel/osrelease"),
            "shmem_enabled": in_force("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        },
        "commit": commit(),
        "command": command_line(std::env::args()),
    })
}

/// Returns the command line without what is the machine's business: of paths it has the last part,
/// and where results go it leaves out. A word with a space stands in single quotes.
fn command_line(words: impl Iterator<Item = String>) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut words = words;
    while let Some(word) = words.next() {
        if word == "--results" {
            words.next();
        } else if !word.starts_with("--results=") {
            kept.push(quoted(word.split(' ').map(without_folder).collect::<Vec<_>>().join(" ")));
        }
    }
    kept.join(" ")
}

/// Returns the last part of a path, also of one behind `--option=`, and all else as it is.
fn without_folder(text: &str) -> String {
    match text.split_once('=') {
        Some((name, value)) => format!("{name}={}", without_folder(value)),
        None if text.contains("://") => text.to_owned(),
        None => text.rsplit('/').find(|part| !part.is_empty()).unwrap_or(text).to_owned(),
    }
}

fn quoted(word: String) -> String {
    match word.is_empty() || word.contains([' ', '\'']) {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => word,
    }
}

/// Returns the local date (2026-05-31) and time (23:59:58).
fn date_and_time() -> (String, String) {
    let now = sys::clock::local_time(sys::clock::realtime());
    (
        format!("{:04}-{:02}-{:02}", now.year, now.month, now.day),
        format!("{:02}:{:02}:{:02}", now.hour, now.minute, now.second),
    )
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// Returns the choice in force of a file of the kernel that lists all, `always [never]`.
fn in_force(path: &str) -> String {
    let line = first_line(path);
    let choice = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    choice.map_or_else(|| line.clone(), |(choice, _)| choice.to_owned())
}

/// Returns the commit of the working folder, with a + when files differ from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    if changes.is_empty() { commit } else { format!("{commit}+") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_file_says_what_where_when_and_how() {
        let folder = std::env::temp_dir().join(format!("forebay-record-{}", std::process::id()));
        let path = write(&folder, "some", json!({ "rows": [1] })).expect("the folder is ours");
        let text = fs::read_to_string(&path).expect("it was written");
        fs::remove_dir_all(&folder).expect("it is there");
        let value: Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!((&value["table"], &value["rows"][0]), (&json!("some"), &json!(1)));
        let circumstances = &value["circumstances"];
        for name in ["date", "time", "machine", "commit", "command"] {
            assert!(!circumstances[name].is_null(), "{name}");
        }
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        assert!(name.starts_with(circumstances["date"].as_str().expect("a text")), "{name}");
        assert!(name.ends_with("-some.json"), "{name}");
    }

    fn check_command_line(words: &[&str], expected: &str) {
        assert_eq!(command_line(words.iter().map(|word| (*word).to_owned())), expected);
    }

    #[test]
    fn measurements_of_one_second_have_files_of_their_own() {
        let folder = std::env::temp_dir().join(format!("forebay-second-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder is ours");
        let paths = [(); 3].map(|()| create(&folder, "a").expect("the folder is ours").0);
        fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(paths, ["a.json", "a-2.json", "a-3.json"].map(|name| folder.join(name)));
    }

    #[test]
    fn the_command_line_has_no_path_of_this_machine() {
        check_command_line(
            &["/somewhere/forebay-bench", "memory", "--alone"],
            "forebay-bench memory --alone",
        );
        check_command_line(
            &[
                "/x/forebay-bench",
                "memory",
                "--results",
                "/tmp/r",
                "--against",
                "/tmp/old/forebay",
                "--forebay-option",
                "huge-pages yes",
            ],
            "forebay-bench memory --against forebay --forebay-option 'huge-pages yes'",
        );
        check_command_line(
            &["b", "--results=/tmp/r", "--against=/tmp/forebay", "--forebay-option", "dir /tmp/r/"],
            "b --against=forebay --forebay-option 'dir r'",
        );
        check_command_line(&["b", "--results"], "b");
        check_command_line(
            &["b", "redis://localhost:1/2", "it's"],
            r"b redis://localhost:1/2 'it'\''s'",
        );
    }
}
