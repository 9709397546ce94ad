//! Clients of memcached, in the versions that `requirements.txt` names, and libmemcached's tools.

use harness::{Finished, command, run};

use super::python;
use crate::memcached::{forebay, memcached};

/// Runs the checks with the Python libraries on the server at `port`.
fn check_libraries(port: u16) {
    let mut python = command(python());
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/interop/check_memcached.py"));
    python.arg(port.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
    let Finished { status, output, errors } = run(python, b"");
    assert!(status.success() && output.contains(" passed"), "{output}{errors}");
}

#[test]
fn libraries_for_python_work() {
    let (_server, port) = forebay(&[]);
    check_libraries(port);
}

#[test]
fn what_is_asked_of_those_libraries_holds_with_memcached() {
    let (_server, port) = memcached(&["-B", "ascii"]);
    check_libraries(port);
}

/// Returns what a tool of libmemcached wrote; it must succeed.
fn tool(program: &str, arguments: &[&str]) -> String {
    let mut tool = command(program);
    tool.args(arguments).env("LC_ALL", "C");
    let Finished { status, output, errors } = run(tool, b"");
    assert!(status.success(), "{output}{errors}");
    output
}

#[test]
fn tools_of_libmemcached_work() {
    let (_server, port) = forebay(&[]);
    let server = format!("--servers=127.0.0.1:{port}");
    let capable = ["-a", "-h", "127.0.0.1", "-p", &port.to_string(), "-t", "60"];
    let output = tool("memccapable", &capable);
    assert!(output.contains("All tests passed"), "{output}");
    for test in ["set", "get", "mget"] {
        let test_option = format!("--test={test}");
        let load = [&server, "--concurrency=8", "--execute-number=500", "--flush", &test_option];
        let output = tool("memcslap", &load);
        assert!(output.contains(&format!("Time to {test} ")), "{output}");
    }
    let output = tool("memcstat", &[&server]);
    let count = |name: &str| -> Option<u64> {
        let value = output.lines().find_map(|line| line.trim().strip_prefix(name))?;
        value.trim_start_matches(':').trim().parse().ok()
    };
    assert!(count("cmd_set") > Some(8 * 500), "{output}");
    assert_eq!(count("cmd_get"), Some(count("get_hits").unwrap() + count("get_misses").unwrap()));
}
