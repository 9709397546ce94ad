//! Clients that are broken, greedy, slow or malicious: the server answers them as Redis does, and
//! other clients never notice.

mod crowds;
mod descriptors;
mod door;
mod floods;
mod half_values;
mod kills;
mod lanes;
mod lifetime;
mod limits;
mod peaks;
mod protocol;
mod script;
mod tables;
mod uploads;

use std::sync::atomic::{AtomicBool, Ordering};

use harness::Server;
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
