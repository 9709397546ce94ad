//! Whole comparisons through the command line, redis-server against itself: the printed and
//! recorded results are complete, and no process or file is left.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const RESULTS: &str = "bench/results";

/// A folder for temporary folders and results, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder = std::env::temp_dir().join(format!("bench-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Scratch(folder)
    }

    /// Runs `forebay-bench` with redis-server in the place of Forebay, recording in `results`.
    fn bench(&self, arguments: &[&str], results: Option<&str>) -> String {
        let (command, rest) = arguments.split_first().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_forebay-bench"))
            .args([command, "--forebay", "redis-server"])
            .args(rest)
            .args(results.iter().flat_map(|folder| ["--results", folder]))
            .env("TMPDIR", &self.0)
            .current_dir(&self.0)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// Returns the one result file, and checks that nothing else remained.
    fn result(&self) -> Value {
        assert_eq!(names(&self.0), [self.0.join("bench")], "only results remain");
        let files = names(&self.0.join(RESULTS));
        assert_eq!(files.len(), 1);
        serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap()
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

#[test]
fn comparison_records_ratios_and_circumstances() {
    let scratch = Scratch::new("compare");
    let small = ["--keys", "1000", "--pairs", "2", "--seconds", "0.05", "--connections", "3"];
    let arguments = [&["compare", "--aa", "--filter", "GET"][..], &small].concat();
    let printed = scratch.bench(&arguments, Some(RESULTS));
    assert!(printed.contains("GET unix P16"), "{printed}");
    let result = scratch.result();
    assert_eq!(result["table"], "core");
    for field in ["date", "time", "commit", "command"] {
        assert!(result["circumstances"][field].is_string(), "{field}");
    }
    assert!(is_positive(&result["circumstances"]["machine"]["memory_bytes"]));
    assert!(result["subject"]["version"].as_str().unwrap().contains("Redis server"));
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5, "four rows of GET, and MGET");
    for row in rows {
        for spread in ["min", "median", "max"] {
            assert!(is_positive(&row["cpu_ratio"][spread]));
            assert!(is_positive(&row["operations_ratio"][spread]));
            assert!(is_positive(&row["subject"]["cpu_ns_per_operation"][spread]));
            assert!(is_positive(&row["other"]["p999_us"][spread]));
        }
        assert_eq!((&row["other"]["wrong"], &row["other"]["missing"]), (&0.into(), &0.into()));
    }
}

#[test]
fn memory_is_recorded_per_key() {
    let scratch = Scratch::new("memory");
    let arguments = ["memory", "--from", "20000", "--to", "40000", "--step", "10000", "--alone"];
    scratch.bench(&arguments, Some(RESULTS));
    let result = scratch.result();
    let points = result["curves"][0]["points"].as_array().unwrap();
    let keys: Vec<u64> = points.iter().map(|point| point["keys"].as_u64().unwrap()).collect();
    assert_eq!(keys, [20_000, 30_000, 40_000]);
    // 16 B of key and 16 B of value are in each entry; a figure below that forgot something.
    assert!(points.iter().all(|point| point["bytes_per_key"].as_f64().unwrap() > 32.0));
}

#[test]
fn nothing_is_recorded_where_no_folder_is_named_or_there() {
    const FEW: &[&str] = &["memory", "--from=1000", "--to=1000", "--step=1", "--alone"];
    let scratch = Scratch::new("unnamed");
    let printed = scratch.bench(FEW, None);
    assert!(printed.ends_with("not recorded; --results names a folder to record it in\n"));
    assert_eq!(names(&scratch.0), [] as [PathBuf; 0]);
    std::fs::create_dir_all(scratch.0.join(RESULTS)).unwrap();
    scratch.bench(FEW, None);
    assert_eq!(scratch.result()["table"], "memory");
}
