//! A server that is killed at any time under load, and started again on what is on the disk: every
//! write that was acknowledged is there, and of none that was not there is a half.
//!
//! `FOREBAY_SERVER_KILLS` sets how often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use base::prng::Prng;
use harness::{Connection, Server, TempFolder, let_pass, number, request};
use resp::Value;

use super::durable;

const KILLS_DEFAULT: u64 = 8;
/// Clients that write at once, each its own two keys.
const WRITERS: usize = 4;
/// How long a server writes at most before it is killed.
const LIFE_US_MAX: u64 = 60_000;

/// How far one writer has come.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

#[test]
fn killed_server_has_every_write_that_it_acknowledged_and_no_half_of_another() {
    let kills = number("FOREBAY_SERVER_KILLS").unwrap_or(KILLS_DEFAULT);
    let folder = TempFolder::new();
    let progress: [Progress; WRITERS] = std::array::from_fn(|_| Progress::default());
    let mut random = Prng::new(kills);
    for kill in 0..kills {
        // Small segments, so that some kills are at their change.
        let launch = durable(folder.path()).option("append-segment-size", "128kb");
        let mut server = launch.start();
        check(&server, &progress, kill);
        // Before the server may be killed: on a busy machine a writer begins only then.
        let connections = [(); WRITERS].map(|()| server.unix());
        thread::scope(|scope| {
            for ((index, progress), connection) in progress.iter().enumerate().zip(connections) {
                scope.spawn(move || write(connection, index, progress));
            }
            let_pass(Duration::from_micros(random.below(LIFE_US_MAX)));
            server.signal("KILL");
        });
        server.wait();
    }
    check(&durable(folder.path()).start(), &progress, kills);
    let writes: u64 = progress.iter().map(|it| it.acknowledged.load(Ordering::Relaxed)).sum();
    println!("{kills} kills, {writes} writes acknowledged");
    assert!(writes > 0, "the servers wrote before they were killed");
}

/// Sets two keys to ever higher numbers at once, until the server is gone.
fn write(mut connection: Connection, index: usize, progress: &Progress) {
    loop {
        let next = progress.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let (first, second) = (format!("first:{index}"), format!("second:{index}"));
        let value = next.to_string();
        let padding = "p".repeat((next % 300) as usize);
        let requests = [
            request(&["MULTI"]),
            request(&["SET", &first, &value]),
            request(&["SET", &format!("padding:{index}"), &padding]),
            request(&["SET", &second, &value]),
            request(&["EXEC"]),
        ];
        if connection.send(&harness::encode(&requests)).is_err() {
            return;
        }
        for _ in &requests {
            match connection.read() {
                Ok(reply) => assert!(reply.error().is_none(), "{reply:?}"),
                Err(_) => return,
            }
        }
        progress.acknowledged.store(next, Ordering::Relaxed);
    }
}

/// Checks what a server that was started again has; what was sent last may be there or not.
fn check(server: &Server, progress: &[Progress], kill: u64) {
    let mut connection = server.unix();
    for (index, progress) in progress.iter().enumerate() {
        let mut value = |name: &str| {
            let request = format!("GET {name}:{index}");
            match connection.call(&request) {
                Value::Bulk(text) => {
                    String::from_utf8_lossy(&text).parse::<u64>().expect("a number")
                }
                Value::Null => 0,
                other => panic!("{request} answered {other:?}"),
            }
        };
        let (first, second) = (value("first"), value("second"));
        let acknowledged = progress.acknowledged.load(Ordering::Relaxed);
        let sent = progress.sent.load(Ordering::Relaxed);
        assert_eq!(first, second, "writer {index} at kill {kill}: half of a write is there");
        assert!(
            (acknowledged..=sent).contains(&first),
            "writer {index} at kill {kill}: {first} is there, {acknowledged} of {sent} acknowledged"
        );
    }
}
