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

/// What the run without `-t` measures, in its order: the first words of each line.
const DEFAULT_RUN: [&str; 20] = [
    "PING_INLINE",
    "PING_MBULK",
    "SET",
    "GET",
    "INCR",
    "LPUSH",
    "RPUSH",
    "LPOP",
    "RPOP",
    "SADD",
    "HSET",
    "SPOP",
    "ZADD",
    "ZPOPMIN",
    "LPUSH (needed to benchmark LRANGE)",
    "LRANGE_100 (first 100 elements)",
    "LRANGE_300 (first 300 elements)",
    "LRANGE_500 (first 500 elements)",
    "LRANGE_600 (first 600 elements)",
    "MSET (10 keys)",
];

#[test]
fn default_run_measures_all_that_it_knows() {
    let server = Server::start(Kind::Forebay);
    let port = server.address().port().to_string();
    let mut benchmark = command("redis-benchmark");
    benchmark.args(["-p", &port, "-n", "2000", "-c", "20", "--csv"]);
    let finished = run(benchmark, b"");
    let output = &finished.output;
    assert!(finished.status.success(), "{} {output}", finished.errors);
    assert!(!output.contains("ERR") && finished.errors.is_empty(), "{output}{}", finished.errors);
    let measured = output.lines().skip(1).filter_map(|line| line.split('"').nth(1));
    assert_eq!(measured.collect::<Vec<_>>(), DEFAULT_RUN, "{output}");
}
