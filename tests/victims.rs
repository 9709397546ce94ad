//! `forebay-peer`, a client in a process of its own, and what its victims need.

use harness::{Dialogue, Server, command};

/// The program.
pub const PEER: &str = env!("CARGO_BIN_EXE_forebay-peer");

/// Has the keys set that victims use; returns how many they are.
pub fn prepare(server: &Server) -> u64 {
    let mut program = command(PEER);
    program.arg("prepare").arg(server.socket());
    Dialogue::start(program).line().parse().expect("a number")
}
