//! redis-py, in the version that `requirements.txt` names.

use std::path::PathBuf;

use harness::{Kind, Launch, command, forebay, run};

/// Returns the Python interpreter that has redis-py: `FOREBAY_PYTHON`, or the one that
/// `cargo xtask setup` installs under the target folder.
fn python() -> PathBuf {
    if let Some(path) = std::env::var_os("FOREBAY_PYTHON") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("a program knows its path");
    let target = test.ancestors().nth(3).expect("tests lie in target/<profile>/deps");
    let python = target.join("venv/bin/python");
    assert!(python.exists(), "{} is absent: run `cargo xtask setup`", python.display());
    python
}

/// Runs the Python file `name` beside this one on a server of `kind`.
fn check(kind: Kind, name: &str) {
    let server = Launch::new(kind).start();
    let mut python = command(python());
    python.arg(format!("{}/interop/{name}", env!("CARGO_MANIFEST_DIR")));
    python.arg(server.address().port().to_string()).arg(server.socket());
    match kind {
        Kind::Forebay => python.arg(forebay()).arg("serve"),
        Kind::Redis => python.arg("redis-server"),
    };
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    let finished = run(python, b"");
    assert!(
        finished.status.success(),
        "{kind:?}\n{}\n{}\nlog of the server:\n{}",
        finished.output,
        finished.errors,
        server.log()
    );
    assert!(finished.output.contains(" passed"), "{}", finished.output);
}

#[test]
fn redis_py_works_with_forebay() {
    check(Kind::Forebay, "check_redis_py.py");
}

#[test]
fn what_is_asked_of_redis_py_holds_with_redis_server() {
    check(Kind::Redis, "check_redis_py.py");
}
