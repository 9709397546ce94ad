//! redis-py, in the version that `requirements.txt` names.

use harness::{Kind, Launch, command, forebay, run};

use super::python;

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
