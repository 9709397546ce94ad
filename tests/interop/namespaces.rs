//! Processes that share only the folder of the server's socket, as in containers: values pass by
//! view, and the death of a process is noticed.

use std::io::Write;

use harness::{Dialogue, Kind, Launch, Server, bytes, command, digest, kernel, poll, poll_until};

use crate::victims::{self, PEER};

/// Namespaces of a process that shares files with others and nothing else. Whoever is not root
/// becomes so in a user namespace of its own, which is what lets it make the others.
const APART: [&str; 9] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--ipc",
    "--uts",
    "--pid",
    "--fork",
    "--kill-child",
];
/// Those of a server, which listens on a port of the loopback too: as above, but for the network.
const SERVER_APART: [&str; 6] =
    ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"];

/// Returns whether this machine lets processes have namespaces.
///
/// # Panics
/// Where it does not, if everything has to be run (`FOREBAY_STRICT`).
fn can_be_apart() -> bool {
    let mut probe = command(APART[0]);
    probe.args(&APART[1..]).arg("true");
    let finished = harness::run(probe, b"");
    let reason = finished.errors.trim();
    if finished.status.success() {
        return true;
    }
    assert!(std::env::var_os("FOREBAY_STRICT").is_none(), "no namespaces here: {reason}");
    // Not by a macro, whose output nobody sees of a test that passes.
    let line = format!("DID NOT RUN: {}: no namespaces here: {reason}\n", module_path!());
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
    false
}

/// Returns a client of `server` in a process apart that does what it is told.
fn peer(server: &Server) -> Dialogue {
    let mut program = command(APART[0]);
    program.args(&APART[1..]).args([PEER, "exchange"]).arg(server.socket());
    let mut peer = Dialogue::start(program);
    assert_eq!(peer.line(), "SharedMemory", "it reads by itself");
    peer
}

fn server() -> Server {
    Launch::new(Kind::Forebay).by(&SERVER_APART).option("segment-size", "1mb").start()
}

#[test]
fn processes_that_share_only_the_sockets_folder_exchange_values_by_view() {
    if !can_be_apart() {
        return;
    }
    let server = server();
    let mut peers = [peer(&server), peer(&server)];
    let mut spaces = |index: usize| {
        // The program stands behind `unshare`, whose own namespaces are those of this process.
        let child = poll("it to be there", || kernel::children(peers[index].program().id()).pop());
        ["net", "pid"].map(|name| kernel::namespace(child, name))
    };
    let [one, two] = [spaces(0), spaces(1)];
    for (index, name) in ["net", "pid"].iter().enumerate() {
        let own = kernel::namespace(std::process::id(), name);
        assert!(one[index] != two[index] && one[index] != own && two[index] != own, "{name}");
    }
    for (seed, length) in [100, 5000, 3 << 20].into_iter().enumerate() {
        for (writer, reader) in [(0, 1), (1, 0)] {
            let (old, new) = (2 * seed + writer, 100 + 2 * seed + writer);
            let kind = if length > 4096 { "pinned" } else { "copied" };
            let told = |seed| format!("{kind} {length} {}", digest(&bytes(seed, length)));
            assert_eq!(peers[writer].ask(&format!("put key {old} {length}")), "ok");
            assert_eq!(peers[reader].ask("view key"), told(old));
            assert_eq!(peers[writer].ask("view key"), told(old), "its own");
            assert_eq!(peers[writer].ask(&format!("put key {new} {length}")), "ok");
            assert_eq!(peers[reader].ask("hold"), told(old), "what is held stays");
            assert_eq!(peers[reader].ask("view key"), told(new));
        }
    }
}

#[test]
fn death_in_another_process_namespace_is_noticed_although_a_child_keeps_the_socket() {
    const STEPS: &str = "7";
    if !can_be_apart() {
        return;
    }
    let server = server();
    victims::prepare(&server);
    let mut program = command(APART[0]);
    // A first process of the namespace that outlives the one that dies: all end with the first.
    let script = "\"$0\" \"$@\"; cat";
    program.args(&APART[1..]).args(["sh", "-c", script, PEER, "victim"]).arg(server.socket());
    program.arg(STEPS);
    let mut peer = Dialogue::start(program);
    assert_eq!(peer.line(), "ready 1 6 2");
    assert_eq!(["shm_pins", "shm_lanes"].map(|field| server.info(field)), [6, 2]);
    let first = kernel::children(peer.program().id()).pop().expect("the first process");
    let victim = kernel::children(first).pop().expect("the victim");
    let keeper = kernel::children(victim).pop().expect("the child that keeps the socket");
    harness::signal(victim, "KILL");
    for field in ["shm_sessions", "shm_pins", "shm_lanes", "shm_lane_bytes"] {
        poll_until("what it had to be gone", || server.info(field) == 0);
    }
    assert!(kernel::is_alive(keeper), "the socket was kept open");
}
