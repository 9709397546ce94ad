//! redis-benchmark: it runs to its end without an error.

use harness::{Kind, Server, command, run};

fn check(arguments: &[&str], tests: &str) {
    let mut benchmark = command("redis-benchmark");
    benchmark.args(["-n", "6000", "-c", "20", "--csv", "-t", tests]).args(arguments);
    let finished = run(benchmark, b"");
    let output = &finished.output;
    assert!(finished.status.success(), "{arguments:?}: {} {output}", finished.errors);
    assert!(!output.contains("ERR") && finished.errors.is_empty(), "{output}{}", finished.errors);
    for test in tests.split(',') {
        let name = format!("\"{}", test.to_ascii_uppercase());
        let line = output.lines().find(|line| line.starts_with(&name));
        let rate = line.and_then(|line| line.split('"').nth(3)?.parse::<f64>().ok());
        assert!(rate.is_some_and(|rate| rate > 0.0), "{test} has a rate: {output}");
    }
}

/// What the run without `-t` measures besides the tests of [`redis_benchmark_runs`].
const COLLECTIONS: [&str; 10] =
    ["lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "zpopmin", "lrange"];

#[test]
fn redis_benchmark_runs() {
    let server = Server::start(Kind::Forebay);
    let port = server.address().port().to_string();
    let socket = server.socket().display().to_string();
    let tests = "ping_inline,ping_mbulk,set,get,incr,mset";
    check(&["-p", &port], tests);
    check(&["-p", &port, "-P", "16", "-r", "1000"], tests);
    check(&["-s", &socket, "-P", "64", "-r", "1000", "-d", "3000"], "set,get,mset");
    check(&["-p", &port, "-3"], "set,get");
}

#[test]
fn default_run_measures_all_that_the_table_has() {
    let has = |name: &&str| command::table().iter().any(|row| row.name == *name);
    let server = Server::start(Kind::Forebay);
    let port = server.address().port().to_string();
    let mut benchmark = command("redis-benchmark");
    benchmark.args(["-p", &port, "-n", "2000", "-c", "20", "--csv"]);
    if !COLLECTIONS.iter().all(has) {
        // Without collections the default run ends at its first list.
        let known: Vec<&str> = COLLECTIONS.into_iter().filter(has).collect();
        benchmark.args([
            "-t",
            &[&["ping", "set", "get", "incr", "mset"], &known[..]].concat().join(","),
        ]);
    }
    let finished = run(benchmark, b"");
    let output = &finished.output;
    assert!(finished.status.success(), "{} {output}", finished.errors);
    assert!(!output.contains("ERR") && finished.errors.is_empty(), "{output}{}", finished.errors);
    assert!(output.lines().any(|line| line.starts_with("\"MSET (10 keys)\"")), "{output}");
}
