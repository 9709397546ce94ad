//! Clients that are broken, greedy, slow or malicious: the server answers them as Redis does, and
//! other clients never notice.

mod access_control;
mod blocked_pairs;
mod client_limits;
mod corrupt_payloads;
mod descriptors;
mod hash_collisions;
mod hostile_lanes;
mod hostile_uploads;
mod kills;
mod many_clients;
mod memory_peaks;
mod partial_values;
mod pin_tables;
mod protocol;
mod script;
mod start_and_stop;
mod stream_consumers;

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
