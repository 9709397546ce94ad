//! Every script in `scripts/` holds on Forebay and on redis-server.

use std::fs;
use std::path::PathBuf;

use harness::{Connection, Kind, Server};

use super::script::{Script, corrected};

/// Set, it lets redis-server correct the scripts: for new requests, whose replies are then to be
/// read with care.
const CORRECT: &str = "FOREBAY_SCRIPTS_CORRECT";

#[test]
fn scripts_hold_on_redis_server() {
    check(Kind::Redis);
}

#[test]
fn scripts_hold_on_forebay() {
    check(Kind::Forebay);
}

fn check(kind: Kind) {
    let mut failures = Vec::new();
    for path in scripts() {
        let text = fs::read_to_string(&path).expect("a script can be read");
        let mut mismatches = Script::parse(&text).run(kind);
        if kind == Kind::Redis && std::env::var_os(CORRECT).is_some() {
            let text = corrected(&text, &mismatches);
            fs::write(&path, &text).expect("a script can be written");
            mismatches = Script::parse(&text).run(kind);
        }
        let name = path.file_name().expect("a script has a name").display();
        failures.extend(mismatches.into_iter().map(|found| format!("{name} {}", found.message)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Rings that many requests and replies of the scripts do not fit into.
const RING_BYTES: u64 = 4096;

#[test]
fn scripts_hold_on_forebay_over_a_lane() {
    let mut failures = Vec::new();
    for path in scripts() {
        let text = fs::read_to_string(&path).expect("a script can be read");
        let mismatches = Script::parse(&text).run_over(Kind::Forebay, lane);
        let name = path.file_name().expect("a script has a name").display();
        failures.extend(mismatches.into_iter().map(|found| format!("{name} {}", found.message)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Returns a lane, or a socket where a case has set a password: nobody makes a lane before AUTH.
fn lane(server: &Server) -> Connection {
    match Connection::lane(server.socket(), RING_BYTES) {
        Ok(lane) => lane,
        Err(error) if error.to_string().starts_with("NOAUTH") => server.unix(),
        Err(error) => panic!("the server makes a lane: {error}"),
    }
}

#[test]
fn every_script_asks_something() {
    for path in scripts() {
        let text = fs::read_to_string(&path).expect("a script can be read");
        assert!(Script::parse(&text).step_count() > 0, "{}", path.display());
    }
}

/// Returns the paths of all scripts, in order.
fn scripts() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/compat/scripts");
    let entries = fs::read_dir(folder).expect("the scripts are there");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a folder can be listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are scripts");
    paths
}
