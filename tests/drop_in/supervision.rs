//! What the server reports to a supervisor.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use harness::{Program, free_port};

use super::Place;

/// A bound for a test that fails; one that does not waits for a message alone.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn message(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let count = socket.recv(&mut buffer).expect("a message comes");
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

fn check(notify: &str, socket: &UnixDatagram, supervised: &str) {
    socket.set_read_timeout(Some(WAIT_MAX)).expect("a timeout can be set");
    let place = Place::new("redis-server");
    let port = free_port();
    let arguments = ["--port", &port.to_string(), "--supervised", supervised];
    let mut command = place.command(&arguments);
    // In the background it would not be the process that is supervised.
    command.args(["--daemonize", "yes"]).env("NOTIFY_SOCKET", notify);
    command.stdout(std::process::Stdio::null());
    let mut server = Program::start(command).expect("the program starts");
    assert!(message(socket).starts_with("STATUS="));
    assert!(message(socket).contains("READY=1\n"));
    let mut client =
        harness::Connection::tcp(([127, 0, 0, 1], port).into()).expect("it serves once it says so");
    let info = format!("{:?}", client.ask(&harness::words("INFO server")));
    assert!(info.contains("process_supervised:systemd"), "{info}");
    server.signal("TERM");
    assert!(message(socket).contains("STOPPING=1\n"));
    assert!(server.wait().success());
}

#[test]
fn systemd_is_told_by_a_socket_in_a_folder() {
    let place = Place::new("unused");
    let path = place.join("notify");
    let socket = UnixDatagram::bind(&path).expect("a new folder takes a socket");
    check(&path.display().to_string(), &socket, "systemd");
}

#[test]
fn systemd_is_told_by_a_socket_without_a_file() {
    let name = format!("forebay-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("the name is short");
    let socket = UnixDatagram::bind_addr(&address).expect("nobody has that name");
    check(&format!("@{name}"), &socket, "auto");
}

#[test]
fn without_a_supervisor_the_server_runs_all_the_same() {
    let place = Place::new("redis-server");
    let port = free_port().to_string();
    let mut command = place.command(&["--port", &port, "--supervised", "systemd"]);
    command.env_remove("NOTIFY_SOCKET").args(["--logfile", "log"]);
    let _server = Program::start(command).expect("the program starts");
    let log = place.wait_for("log", "Ready to accept connections tcp");
    assert!(log.contains("systemd supervision requested, but NOTIFY_SOCKET not found!"), "{log}");
}
