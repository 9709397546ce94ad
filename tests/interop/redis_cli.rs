//! redis-cli: the same output on Forebay as on redis-server.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use harness::{Finished, Kind, Launch, Program, Server, command, encode, request, run};
use resp::Value;

fn servers() -> [Server; 2] {
    [Kind::Forebay, Kind::Redis].map(Server::start)
}

fn cli(server: &Server, arguments: &[&str], input: &[u8]) -> Finished {
    let mut cli = command("redis-cli");
    cli.args(["-p", &server.address().port().to_string()]).args(arguments);
    run(cli, input)
}

/// Runs redis-cli on both servers, demands the same output and returns it.
fn same(servers: &[Server; 2], arguments: &[&str], input: &[u8]) -> String {
    let [ours, oracle] = [0, 1].map(|index| cli(&servers[index], arguments, input));
    assert_eq!(ours.output, oracle.output, "redis-cli {arguments:?}");
    assert_eq!(ours.errors, oracle.errors, "redis-cli {arguments:?}");
    assert_eq!(ours.status.code(), oracle.status.code(), "redis-cli {arguments:?}");
    ours.output
}

#[test]
fn commands_print_what_they_print_with_redis() {
    let servers = servers();
    assert_eq!(same(&servers, &["PING"], b""), "PONG\n");
    assert_eq!(same(&servers, &["SET", "k", "a b"], b""), "OK\n");
    assert_eq!(same(&servers, &["--no-raw", "GET", "k"], b""), "\"a b\"\n");
    same(&servers, &["--no-raw", "GET", "absent"], b"");
    same(&servers, &["--no-raw", "-3", "GET", "absent"], b"");
    same(&servers, &["--no-raw", "MGET", "k", "absent"], b"");
    same(&servers, &["--no-raw", "-3", "CONFIG", "GET", "maxmemory"], b"");
    same(&servers, &["--json", "MGET", "k", "absent"], b"");
    same(&servers, &["--csv", "MGET", "k", "absent"], b"");
    same(&servers, &["-e", "INCR", "k"], b"");
    same(&servers, &["NOSUCH", "a"], b"");
    same(&servers, &["-x", "SET", "from-input"], b"bytes \x00\xff of the input");
    same(&servers, &["--no-raw", "GET", "from-input"], b"");
    same(&servers, &["-n", "3", "SET", "k", "in 3"], b"");
    same(&servers, &["-n", "3", "GET", "k"], b"");
    same(&servers, &["-n", "99", "GET", "k"], b"");
    assert_eq!(same(&servers, &["-r", "5", "INCR", "n"], b""), "1\n2\n3\n4\n5\n");
    let lines = b"SET a 1\nMULTI\nINCR a\nGET a\nEXEC\nGET \"a\"\nHELLO 3 FOO\nSELECT 2\nGET a\n";
    same(&servers, &["--no-raw"], lines);
}

#[test]
fn passwords_and_sockets_work() {
    let launch = |kind| Launch::new(kind).option("requirepass", "secret").start();
    let servers = [Kind::Forebay, Kind::Redis].map(launch);
    same(&servers, &["GET", "k"], b"");
    same(&servers, &["-a", "secret", "--no-auth-warning", "SET", "k", "v"], b"");
    same(&servers, &["-a", "wrong", "GET", "k"], b"");
    same(
        &servers,
        &["--user", "default", "--pass", "secret", "--no-auth-warning", "GET", "k"],
        b"",
    );
    for server in &servers {
        let mut cli = command("redis-cli");
        cli.arg("-s").arg(server.socket()).args(["-a", "secret", "--no-auth-warning", "GET", "k"]);
        assert_eq!(run(cli, b"").output, "v\n");
    }
}

#[test]
fn pipe_mode_loads_everything() {
    let requests: Vec<_> = (0..30_000)
        .map(|index| request(&["SET".into(), format!("key:{index}"), format!("value {index}")]))
        .collect();
    let input = encode(&requests);
    let servers = servers();
    let [ours, oracle] = [0, 1].map(|index| cli(&servers[index], &["--pipe"], &input));
    assert_eq!(ours.output, oracle.output);
    assert!(ours.output.contains("errors: 0, replies: 30000"), "{}", ours.output);
    let mut connection = servers[0].tcp();
    assert_eq!(connection.call("DBSIZE"), Value::Integer(30_000));
    assert_eq!(connection.call("GET key:29999"), Value::Bulk(b"value 29999".to_vec()));
}

#[test]
fn scan_finds_every_key() {
    let server = Server::start(Kind::Forebay);
    server.tcp().call("DEBUG POPULATE 3000");
    let found = |arguments: &[&str]| {
        let finished = cli(&server, arguments, b"");
        let mut keys: Vec<String> = finished.output.lines().map(str::to_owned).collect();
        keys.sort();
        keys.dedup();
        keys
    };
    assert_eq!(found(&["--scan"]).len(), 3000);
    assert_eq!(found(&["--scan", "--pattern", "key:12??"]).len(), 100);
    assert_eq!(found(&["--scan", "--pattern", "no*"]).len(), 0);
}

#[test]
fn big_keys_are_found() {
    let server = Server::start(Kind::Forebay);
    let mut connection = server.tcp();
    connection.call("DEBUG POPULATE 500");
    connection.call("SETRANGE giant 99999 x");
    for mode in ["--bigkeys", "--memkeys"] {
        let finished = cli(&server, &[mode], b"");
        assert!(finished.status.success(), "{mode}: {}", finished.errors);
        assert!(finished.output.contains("giant"), "{mode}: {}", finished.output);
        assert!(finished.output.contains("Sampled 501 keys"), "{mode}: {}", finished.output);
    }
}

#[test]
fn stat_mode_reads_the_fields_it_shows() {
    let server = Server::start(Kind::Forebay);
    server.tcp().call("DEBUG POPULATE 500");
    let mut cli = command("redis-cli");
    cli.args(["-p", &server.address().port().to_string(), "--stat", "-i", "0.05"]);
    cli.stdout(Stdio::piped());
    let lines = first_lines(cli, 5);
    // keys, mem, clients, blocked, requests, connections
    let words: Vec<&str> = lines[4].split_whitespace().collect();
    assert_eq!(words[0], "500", "{lines:?}");
    assert_eq!(words[3], "0", "{lines:?}");
    assert!(words[4].parse::<u64>().is_ok_and(|requests| requests > 0), "{lines:?}");
}

#[test]
fn latency_mode_measures() {
    let server = Server::start(Kind::Forebay);
    let finished = cli(&server, &["--latency", "--raw", "-i", "1"], b"");
    assert!(finished.status.success(), "{}", finished.errors);
    let numbers: Vec<f64> =
        finished.output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.len(), 4, "min, max, average, samples: {}", finished.output);
    assert!(numbers[3] > 0.0);
}

#[test]
fn latency_history_measures_interval_by_interval() {
    let server = Server::start(Kind::Forebay);
    let mut cli = command("redis-cli");
    let port = server.address().port().to_string();
    cli.args(["-p", &port, "--latency-history", "-i", "0.05"]).stdout(Stdio::piped());
    let lines = first_lines(cli, 3);
    for line in &lines {
        let numbers = line.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        assert_eq!(numbers.count(), 4, "min, max, average, samples: {lines:?}");
    }
}

#[test]
fn intrinsic_latency_needs_no_server() {
    let server = Server::start(Kind::Forebay);
    let finished = cli(&server, &["--intrinsic-latency", "1"], b"");
    assert!(finished.status.success() && finished.output.contains("total runs"), "{finished:?}");
}

#[test]
fn repetitions_and_formats_are_those_with_redis() {
    let servers = servers();
    same(&servers, &["-r", "3", "-i", "0.01", "INCR", "n"], b"");
    same(&servers, &["--raw", "SET", "k", "a\"b\nc"], b"");
    for format in ["--raw", "--no-raw", "--json", "--quoted-json", "--csv"] {
        same(&servers, &[format, "GET", "k"], b"");
        same(&servers, &[format, "-3", "MGET", "k", "absent", "n"], b"");
        same(&servers, &[format, "COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"], b"");
    }
    same(&servers, &["-X", "tag", "SET", "tagged", "tag"], b"bytes in the place of a word");
    same(&servers, &["--quoted-input", "SET", "\"a\\x00b\"", "\"\\xff\""], b"");
    same(&servers, &["--no-raw", "--quoted-input", "GET", "\"a\\x00b\""], b"");
    same(&servers, &["-d", "|", "--raw", "MGET", "k", "n"], b"");
}

/// What one sees at a terminal: redis-cli asks the server for its commands and shows prompts.
#[test]
fn terminal_session_shows_prompts_and_replies() {
    let input = b"SET k v\nGET k\nMULTI\nINCR n\nEXEC\nSELECT 3\nGET k\nhelp GET\nNOSUCH\nexit\n";
    for server in servers() {
        let port = server.address().port();
        let mut terminal = command("script");
        // A terminal that can do nothing: lines as they are typed, without hints and colours.
        terminal.env("TERM", "dumb");
        terminal.args(["-qec", &format!("redis-cli -p {port}"), "/dev/null"]);
        let output = run(terminal, input).output.replace('\r', "");
        for expected in [
            "> OK\n",
            "> \"v\"\n",
            "(TX)> QUEUED\n",
            "(TX)> 1) (integer) 1\n",
            "[3]> (nil)\n",
            "summary:",
            "(error) ERR unknown command 'NOSUCH', with args beginning with: \n",
        ] {
            assert!(output.contains(expected), "{:?}: {expected:?} in {output}", server.kind());
        }
    }
}

/// Starts a program that never ends, returns its first lines and ends it.
fn first_lines(program: std::process::Command, count: usize) -> Vec<String> {
    let mut program = Program::start(program).expect("the program starts");
    let output = BufReader::new(program.output());
    output.lines().take(count).map(|line| line.expect("the output is text")).collect()
}
