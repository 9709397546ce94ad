//! A server that is killed at any time under load, and started again on what is on the disk: every
//! write that was acknowledged is there, and of none that was not there is a half.
//!
//! Some writers wait for each write. Others have so much under way that what is written at once has
//! full pieces of the backlog, which the disk takes from where they lie.
//!
//! `FOREBAY_SERVER_KILLS` sets how often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use base::prng::Prng;
use harness::{Connection, Request, Server, TempFolder, let_pass, number, request, words};
use resp::Value;

use super::durable;

const KILLS_DEFAULT: u64 = 8;
/// Clients that write at once, each its own two keys.
const WRITERS: usize = 4;
/// What a writer sends for each number.
const TRANSACTION_REQUESTS: usize = 5;
/// How long a server writes at most before it is killed.
const LIFE_US_MAX: u64 = 60_000;

/// What the writers of one life have under way.
#[derive(Clone, Copy)]
struct Load {
    /// How long the segments of the log are.
    segment_size: &'static str,
    /// Writes that each writer sends at once.
    pipeline: u64,
    /// Bytes of the longest value.
    padding_bytes_max: u64,
}

/// Small segments, so that some kills are at their change.
const FEW: Load = Load { segment_size: "128kb", pipeline: 1, padding_bytes_max: 300 };
const MUCH: Load = Load { segment_size: "4mb", pipeline: 16, padding_bytes_max: 50_000 };

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
        let load = if kill % 4 == 3 { MUCH } else { FEW };
        let launch = durable(folder.path()).option("append-segment-size", load.segment_size);
        let mut server = launch.start();
        check(&server, &progress, kill);
        // Before the server may be killed: on a busy machine a writer begins only then.
        let connections = [(); WRITERS].map(|()| server.unix());
        thread::scope(|scope| {
            for ((index, progress), connection) in progress.iter().enumerate().zip(connections) {
                scope.spawn(move || write(connection, index, progress, load));
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

#[test]
fn a_write_behind_a_change_to_always_is_there_however_much_is_not_written_yet() {
    for kill in 0..3 {
        let folder = TempFolder::new();
        let launch = || durable(folder.path()).option("appendfsync", "everysec");
        let mut server = launch().start();
        let mut connection = server.unix();
        let value = "v".repeat(1_500_000);
        let large = (0..20).map(|key| request(&["SET", &format!("key:{key}"), &value]));
        let last = ["CONFIG SET appendfsync always", "SET last 1"].map(words);
        for request in large.chain(last) {
            assert_eq!(connection.ask(&request).value, Value::Simple(b"OK".to_vec()));
        }
        server.signal("KILL");
        server.wait();
        let server = launch().start();
        assert_eq!(server.unix().call("GET last"), Value::Bulk(b"1".to_vec()), "kill {kill}");
    }
}

/// Sets three keys to ever higher numbers at once, until the server is gone.
fn write(mut connection: Connection, index: usize, progress: &Progress, load: Load) {
    loop {
        let next = progress.sent.fetch_add(load.pipeline, Ordering::Relaxed) + 1;
        let numbers = next..next + load.pipeline;
        let requests: Vec<_> =
            numbers.clone().flat_map(|number| transaction(index, number, load)).collect();
        if connection.send(&harness::encode(&requests)).is_err() {
            return;
        }
        for number in numbers {
            for _ in 0..TRANSACTION_REQUESTS {
                match connection.read() {
                    Ok(reply) => assert!(reply.error().is_none(), "{reply:?}"),
                    Err(_) => return,
                }
            }
            progress.acknowledged.store(number, Ordering::Relaxed);
        }
    }
}

/// Returns what sets the keys of a writer to `number`.
fn transaction(index: usize, number: u64, load: Load) -> [Request; TRANSACTION_REQUESTS] {
    let (first, second) = (format!("first:{index}"), format!("second:{index}"));
    let (value, padding) = (number.to_string(), padding(number, load));
    [
        request(&["MULTI"]),
        request(&["SET", &first, &value]),
        request(&["SET", &format!("padding:{index}"), &padding]),
        request(&["SET", &second, &value]),
        request(&["EXEC"]),
    ]
}

/// Returns what the third key has beside `number`: some of the load's bytes, and nothing for 0.
fn padding(number: u64, load: Load) -> String {
    format!("{number}{}", "p".repeat((number * 7919 % load.padding_bytes_max) as usize))
}

/// Checks what a server that was started again has; what was sent last may be there or not.
fn check(server: &Server, progress: &[Progress], kill: u64) {
    let mut connection = server.unix();
    for (index, progress) in progress.iter().enumerate() {
        let mut text = |name: &str| {
            let request = format!("GET {name}:{index}");
            match connection.call(&request) {
                Value::Bulk(text) => String::from_utf8(text).expect("it was text"),
                // As if a write with the number 0 had been the last.
                Value::Null => "0".to_owned(),
                other => panic!("{request} answered {other:?}"),
            }
        };
        let [first, second, filled] = ["first", "second", "padding"].map(&mut text);
        let is_whole = first == second
            && [FEW, MUCH].iter().any(|load| filled == padding(number_of(&first), *load));
        assert!(is_whole, "writer {index} at kill {kill}: half of a write is there");
        let number = number_of(&first);
        let acknowledged = progress.acknowledged.load(Ordering::Relaxed);
        let sent = progress.sent.load(Ordering::Relaxed);
        assert!(
            (acknowledged..=sent).contains(&number),
            "writer {index} at kill {kill}: {number}, with {acknowledged} of {sent} acknowledged"
        );
    }
}

fn number_of(text: &str) -> u64 {
    text.parse().expect("a number")
}
