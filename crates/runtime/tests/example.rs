//! The examples of embedding programs are run, so that they keep working.

#[path = "../examples/embedded.rs"]
#[allow(dead_code, reason = "the test calls what `main` calls")]
mod embedded;

#[path = "../examples/durable.rs"]
#[allow(dead_code, reason = "the test calls what `main` calls")]
mod durable;

#[test]
fn the_durable_example_has_counted_its_starts() {
    let folder = std::env::temp_dir().join(format!("forebay-starts-{}", std::process::id()));
    for starts in 1..=3 {
        assert_eq!(durable::run(&folder).unwrap(), format!(":{starts}\\r\\n"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_example_says_what_its_page_shows() {
    let mut lines = Vec::new();
    embedded::run(|request, reply| lines.push(format!("{request} -> {reply}"))).unwrap();
    let expected = [
        "SET lake Constance -> +OK\\r\\n",
        "GET lake -> $9\\r\\nConstance\\r\\n",
        "HSET depth Constance 251 Geneva 310 -> :2\\r\\n",
        "HGET depth Geneva -> $3\\r\\n310\\r\\n",
        "EXPIRE lake 10 -> :1\\r\\n",
        "MULTI -> +OK\\r\\n",
        "INCRBY visits 7 -> +QUEUED\\r\\n",
        "TTL lake -> +QUEUED\\r\\n",
        "EXEC -> *2\\r\\n:7\\r\\n:10\\r\\n",
        "GET lake -> $-1\\r\\n",
        "DBSIZE -> :2\\r\\n",
        "SHUTDOWN -> -ERR control of the process is not available in an embedded instance\\r\\n",
    ];
    assert_eq!(lines, expected);
}
