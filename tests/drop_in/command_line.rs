//! What the program takes and says under the name of Redis's server.

use std::fs::File;
use std::process::Stdio;

use harness::{Connection, Finished, Program, free_port, run};
use resp::Value;

use super::Place;

fn finished(place: &Place, arguments: &[&str], input: &[u8]) -> Finished {
    run(place.command(arguments), input)
}

fn text(value: Value) -> String {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("it is no text: {other:?}"),
    }
}

#[test]
fn the_version_has_the_form_that_tools_take_apart() {
    for (name, title) in [("redis-server", "Redis"), ("valkey-server", "Valkey")] {
        let place = Place::new(name);
        for word in ["--version", "-v"] {
            let said = finished(&place, &[word], b"");
            let expected = format!("{title} server v=7.2.4 sha=00000000:0 malloc=");
            assert!(said.output.starts_with(&expected), "{}", said.output);
            assert!(said.output.contains(" bits=64 build="), "{}", said.output);
            assert!(said.status.success());
        }
    }
}

#[test]
fn what_it_cannot_be_is_refused_in_clear_words() {
    let place = Place::new("redis-server");
    for (arguments, part) in [
        (&["--test-memory", "1"][..], "does not test memory"),
        (&["--check-system"], "does not check the system"),
        (&["a.conf", "--sentinel"], "sentinel"),
    ] {
        let said = finished(&place, arguments, b"");
        assert_eq!(said.status.code(), Some(1), "{arguments:?}");
        assert!(said.errors.contains(part), "{arguments:?}: {}", said.errors);
    }
    let help = finished(&place, &["--help"], b"");
    assert!(help.output.starts_with("Usage: redis-server ["), "{}", help.output);
}

/// A script that has lost its arguments must not go on as if all were well.
#[test]
fn what_is_wrong_with_a_command_line_is_told_before_its_usage() {
    let place = Place::new("forebay");
    for (line, reason) in [
        ("check", "which append-only directory?"),
        ("restore", "which directory?"),
        ("restore a", "--into says where the data go"),
        ("restore a b", "'b' is one too many"),
        ("import", "which file or folder?"),
        ("import a b", "'b' is one too many"),
        ("import a --into", "there is no option '--into'"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = finished(&place, &words, b"");
        let expected = format!("forebay {0}: {reason}\n\nforebay {0}: ", words[0]);
        assert!(said.errors.starts_with(&expected), "{line}: {}", said.errors);
        assert_eq!((said.output.as_str(), said.status.code()), ("", Some(1)), "{line}");
    }
    for command in ["check", "restore", "import"] {
        let help = finished(&place, &[command, "--help"], b"");
        assert_eq!((help.errors.as_str(), help.status.code()), ("", Some(0)));
        assert!(help.output.starts_with(&format!("forebay {command}: ")), "{}", help.output);
    }
}

#[test]
fn a_wrong_configuration_is_fatal_in_redis_words() {
    let place = Place::new("redis-server");
    let file = place.write("a.conf", "# fine\nport 1\nmaxmemory lots\n");
    let said = finished(&place, &[&file], b"");
    let expected = "\n*** FATAL CONFIG FILE ERROR (Redis 7.2.4) ***\n\
                    Reading the configuration file, at line 3\n\
                    >>> 'maxmemory lots'\nargument must be a memory value\n";
    assert_eq!((said.errors.as_str(), said.status.code()), (expected, Some(1)));
    let said = finished(&place, &["--port", "--save", ""], b"");
    assert!(said.errors.contains(">>> 'port \"--save\" \"\"'\nwrong number of"), "{}", said.errors);
    let said = finished(&place, &["none.conf"], b"");
    let place = place.join("none.conf");
    let expected = format!("Fatal error, can't open config file '{}': No such", place.display());
    assert!(said.errors.contains(&expected), "{}", said.errors);
}

#[test]
fn every_fault_of_a_file_is_told_by_config_check() {
    let place = Place::new("forebay");
    place.write("more.conf", "timeout x\n");
    place.write("a.conf", "port x\ninclude more.conf\nio-threads 4\nnope\n");
    let said = finished(&place, &["config", "check", "a.conf"], b"");
    let lines: Vec<&str> = said.output.lines().collect();
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(lines.len(), 4, "{}", said.output);
    for (line, start) in
        lines.iter().zip(["a.conf:1: error: ", "more.conf:1: error: ", "a.conf:4: error: "])
    {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(lines[3].starts_with("a.conf:3: note: 'io-threads' has no effect"), "{}", lines[3]);
    assert!(finished(&place, &["config", "check", "-"], b"port 1\n").status.success());
}

#[test]
fn the_file_standard_input_and_options_win_in_this_order() {
    let place = Place::new("redis-server");
    let port = free_port();
    let file = place.write("a.conf", "timeout 1\nhz 11\nmaxclients 51\n");
    let input = place.write("input", "hz 22\nmaxclients 52");
    let arguments = [&file, "--port", &port.to_string(), "--maxclients", "53", "-"];
    let mut command = place.command(&arguments);
    command.stdin(File::open(input).expect("it was just written"));
    command.stdout(Stdio::null());
    let _server = Program::start(command).expect("the program starts");
    let mut client = connected(port);
    let mut get = |name: &str| match client.call(&format!("CONFIG GET {name}")) {
        Value::Array(values) => text(values[1].clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!([get("timeout"), get("hz"), get("maxclients")], ["1", "22", "53"]);
    assert_eq!(get("bind"), "* -::*", "Redis listens everywhere by default");
    let info = text(client.call("INFO server"));
    assert!(info.contains(&format!("config_file:{file}\r\n")), "{info}");
}

fn connected(port: u16) -> Connection {
    harness::poll("the server to answer", || {
        let mut connection = Connection::tcp(([127, 0, 0, 1], port).into()).ok()?;
        connection.send(b"PING\r\n").ok()?;
        connection.read().ok()?;
        Some(connection)
    })
}

#[test]
fn another_version_is_told_everywhere() {
    let place = Place::new("redis-server");
    let port = free_port().to_string();
    let arguments = ["--port", &port, "--compatible-redis-version", "6.2.14"];
    let _server = place.start(&[&arguments[..], &["--always-show-logo", "yes"]].concat());
    let log = place.wait_for("out", "Ready to accept connections tcp");
    assert!(log.contains("(Redis 6.2.14)"), "{log}");
    let mut client = connected(port.parse().expect("it was a number"));
    let info = text(client.call("INFO server"));
    assert!(info.contains("redis_version:6.2.14\r\n"), "{info}");
    let Value::Array(hello) = client.call("HELLO 2") else { panic!("HELLO 2 answers an array") };
    assert_eq!(text(hello[3].clone()), "6.2.14");
    let picture = client.ask(&harness::words("LOLWUT")).bytes;
    assert!(String::from_utf8_lossy(&picture).contains("Redis ver. 6.2.14\n"), "{picture:?}");
    let said = finished(&place, &["-v", "--compatible-redis-version", "6.2.14"], b"");
    assert!(said.output.contains(" v=6.2.14 "), "{}", said.output);
}

#[test]
fn the_lines_that_test_suites_wait_for_are_there() {
    let place = Place::new("redis-server");
    let port = free_port().to_string();
    let server = place.start(&["--port", &port, "--always-show-logo", "yes"]);
    let log = place.wait_for("out", "* Ready to accept connections tcp\n");
    let id = server.id();
    let (_, after) =
        log.split_once(&format!(" PID: {id}\n")).expect("the banner names the process");
    assert!(
        after.contains(&format!("{id}:M ")) && after.contains(" * Server initialized\n"),
        "{log}"
    );

    let second = finished(&place, &["--port", &port], b"");
    let warning = "# Warning: Could not create server TCP listening socket *:";
    let reason = format!("{port}: bind: Address already in use\n");
    assert!(second.output.contains(&format!("{warning}{reason}")), "{}", second.output);
    let last = format!("# Failed listening on port {port} (tcp), aborting.\n");
    assert!(second.output.ends_with(&last), "{}", second.output);
    assert_eq!(second.status.code(), Some(1));
}
