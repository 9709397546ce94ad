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
