//! A server in the background, its pid file and its log.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use harness::{Connection, free_port, poll_until, run};

use super::Place;

/// A process that is nobody's child, ended with the test.
struct Daemon {
    id: u32,
}

impl Daemon {
    fn is_running(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap_or_default();
        // Whoever adopted it may take its time to collect it.
        !status.is_empty() && !status.contains(") Z ")
    }

    fn signal(&self, name: &str) {
        let script = format!("kill -{name} {}", self.id);
        let _ = Command::new("sh").args(["-c", &script]).status();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal("KILL");
        }
    }
}

#[test]
fn the_first_process_ends_once_the_second_serves() {
    let place = Place::new("redis-server");
    let port = free_port();
    let arguments = [
        "-",
        "--port",
        &port.to_string(),
        "--daemonize",
        "yes",
        "--pidfile",
        "server.pid",
        "--logfile",
        "server.log",
    ];
    let started = run(place.command(&arguments), b"timeout 77\n");
    assert!(started.status.success(), "{}", started.errors);
    let id = place.read("server.pid").trim().parse().expect("the pid file holds a number");
    let daemon = Daemon { id };
    let mut client = Connection::tcp(([127, 0, 0, 1], port).into()).expect("it serves");
    let found = format!("{:?}", client.call("CONFIG GET timeout"));
    assert!(found.contains("[55, 55]"), "standard input reached it: {found}");
    let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    assert_eq!(name, "redis-server\n");
    let input = fs::read_link(format!("/proc/{id}/fd/0")).expect("it is ours");
    assert_eq!(input.display().to_string(), "/dev/null");
    assert!(place.read("server.log").contains("Ready to accept connections tcp"));

    // Moved away, the log goes on in a new file.
    fs::rename(place.join("server.log"), place.join("server.log.1")).expect("it is there");
    daemon.signal("HUP");
    daemon.signal("TERM");
    poll_until("the server to end", || !daemon.is_running());
    assert!(place.read("server.log").contains("bye bye"), "{}", place.read("server.log"));
    assert!(!place.join("server.pid").exists(), "the pid file is gone");
}

#[test]
fn a_second_process_that_fails_is_told_by_the_first() {
    let place = Place::new("redis-server");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let arguments = ["--port", &port, "--daemonize", "yes", "--pidfile", "server.pid"];
    let started = run(place.command(&arguments), b"");
    assert_eq!(started.status.code(), Some(1));
    let expected = format!("Failed listening on port {port} (tcp), aborting.\n");
    assert_eq!(started.errors, expected);
    assert!(!place.join("server.pid").exists());
}

#[test]
fn a_pid_file_that_cannot_be_written_is_no_obstacle() {
    let place = Place::new("redis-server");
    let port = free_port().to_string();
    let _server = place.start(&["--port", &port, "--pidfile", "/none/server.pid"]);
    let log = place.wait_for("out", "Ready to accept connections tcp");
    assert!(log.contains("# Failed to write PID file"), "{log}");
}

/// Whoever may write to the folder of the pid file does not choose what the server overwrites.
#[test]
fn a_pid_file_is_not_written_through_a_link() {
    let place = Place::new("redis-server");
    let port = free_port().to_string();
    fs::write(place.join("precious"), "kept").expect("the folder is ours");
    symlink(place.join("precious"), place.join("server.pid")).expect("the folder is ours");
    let _server = place.start(&["--port", &port, "--pidfile", "server.pid"]);
    let log = place.wait_for("out", "Ready to accept connections tcp");
    assert!(log.contains("# Failed to write PID file"), "{log}");
    assert_eq!(place.read("precious"), "kept");
}
