//! Clients that are broken, greedy, slow or malicious: the server answers them as Redis does, and
//! everyone else never notices.

mod crowds;
mod door;
mod half_values;
mod kills;
mod lanes;
mod lifetime;
mod limits;
mod protocol;
mod tables;
mod uploads;

use std::sync::atomic::{AtomicBool, Ordering};

use harness::{Server, words};
use resp::Value;

/// Tells other threads when it is over, also by a failure: a scope waits for them.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asserts that a new client is served over both sockets.
fn assert_healthy(server: &Server) {
    for mut connection in [server.tcp(), server.unix()] {
        let value = connection.call("PING");
        assert_eq!(value, Value::Simple(b"PONG".to_vec()), "{}", server.log());
        connection.call("SET health v");
        assert_eq!(connection.call("GET health"), Value::Bulk(b"v".to_vec()));
        connection.call("DEL health");
    }
}

/// Returns a field of INFO that is a number.
fn info(server: &Server, section: &str, field: &str) -> u64 {
    let reply = server.unix().ask(&words(&format!("INFO {section}"))).value;
    let text = String::from_utf8_lossy(reply.as_bytes().expect("INFO is a text")).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = value.unwrap_or_else(|| panic!("INFO {section} has no {field}:\n{text}"));
    value.trim().parse().expect("the field is a number")
}
