//! Result files: what was measured, on which machine, of which commit, by which command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

/// Returns what a reader needs to judge or repeat a measurement.
pub fn circumstances() -> Value {
    json!({
        "date": date_and_time().0,
        "time": date_and_time().1,
        "machine": {
            "processor": processor(),
            "processors": std::thread::available_parallelism().map_or(0, usize::from),
            "memory_bytes": memory_bytes(),
            "kernel": first_line("/proc/sys/kernel/osrelease"),
        },
        "commit": commit(),
        "command": std::env::args().collect::<Vec<_>>().join(" "),
    })
}

/// Writes `result` as `<folder>/<date>-<time>-<name>.json` and returns the path.
///
/// # Errors
/// When the file cannot be written.
pub fn write(folder: &Path, name: &str, result: &Value) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let (date, time) = date_and_time();
    let path = folder.join(format!("{date}-{}-{name}.json", time.replace(':', "")));
    let mut text = serde_json::to_string_pretty(result)?;
    text.push('\n');
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
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
