//! Loads against a server of this file's own, whose replies and pauses are known.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::key_distribution::KeyDistribution;
use bench::load::{Load, Report};
use bench::target::Target;
use bench::workload::{Operation, Workload};
use resp::{Batch, Decoder, Limits, Next, Protocol, Reply, RequestView};

/// Answers one request; the number counts the requests of all connections.
type Handler = dyn Fn(u64, &RequestView<'_>, &mut Reply<'_>) + Send + Sync;

struct Server {
    path: PathBuf,
    requests: Arc<AtomicU64>,
}

impl Server {
    fn start(name: &str, handler: &'static Handler) -> Server {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("forebay-load-test-{}-{name}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, counter) = (stream.unwrap(), Arc::clone(&counter));
                std::thread::spawn(move || serve(stream, &counter, handler));
            }
        });
        Server { path, requests }
    }

    fn load(&self, operation: &str) -> Load {
        Load {
            target: Target::unix(&self.path),
            password: None,
            workload: Workload {
                operation: operation.parse::<Operation>().unwrap(),
                key_count: 1000,
                key_bytes: 16,
                value_bytes: 3,
                distribution: KeyDistribution::Sequential,
            },
            connections: 4,
            pipeline: 5,
            threads: 2,
            requests_max: Some(1000),
            duration_max: None,
            rate: None,
            seed: 1,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(mut stream: UnixStream, counter: &AtomicU64, handler: &Handler) {
    let (mut buffer, mut batch, mut decoder) = (Vec::new(), Batch::new(), Decoder::new());
    let mut piece = [0; 4096];
    while let Ok(bytes @ 1..) = stream.read(&mut piece) {
        buffer.extend_from_slice(&piece[..bytes]);
        loop {
            let decoded = decoder.decode(&mut buffer, &mut batch, 64, &Limits::REDIS);
            let mut out = Vec::new();
            for request in batch.view(&buffer).iter() {
                let mut reply = Reply::new(&mut out, Protocol::Resp2);
                match request.at(0) {
                    // The PING of a connection that is being made ready is none of the load's.
                    b"PING" => reply.simple("PONG"),
                    _ => handler(counter.fetch_add(1, Ordering::Relaxed), &request, &mut reply),
                }
            }
            if stream.write_all(&out).is_err() {
                return;
            }
            buffer.drain(..decoded.consumed);
            if decoded.next != Next::Full {
                break;
            }
        }
    }
}

fn run(load: Load) -> Report {
    load.connect().unwrap().run().unwrap()
}

#[test]
fn closed_loop_sends_exactly_the_requests_asked_for() {
    let server = Server::start("closed", &|_, _, reply| reply.bulk("abc"));
    for requests in [1, 19, 1000, 1003] {
        let before = server.requests.load(Ordering::Relaxed);
        let report = run(Load { requests_max: Some(requests), ..server.load("get") });
        assert_eq!(server.requests.load(Ordering::Relaxed) - before, requests);
        assert_eq!((report.operations, report.wrong, report.missing), (requests, 0, 0));
        assert_eq!(report.latencies.len(), requests);
    }
}

#[test]
fn sequential_load_names_every_key_once() {
    static SUM: AtomicU64 = AtomicU64::new(0);
    let server = Server::start("sequential", &|_, request, reply| {
        let number = std::str::from_utf8(&request.at(1)[4..]).unwrap().parse::<u64>().unwrap();
        SUM.fetch_add(number * number, Ordering::Relaxed);
        reply.ok();
    });
    run(server.load("set"));
    assert_eq!(SUM.load(Ordering::Relaxed), (0..1000).map(|number| number * number).sum::<u64>());
}

#[test]
fn absent_keys_and_wrong_replies_are_counted() {
    let server = Server::start("judged", &|number, _, reply| match number % 10 {
        0 => reply.null(),
        1 => reply.error("ERR no"),
        2 => reply.bulk("too long"),
        3 => reply.integer(1),
        _ => reply.bulk("abc"),
    });
    let report = run(server.load("get"));
    assert_eq!((report.operations, report.missing, report.wrong), (1000, 100, 300));
    assert_eq!(report.first_error.as_deref(), Some("ERR no"));
}

#[test]
fn open_loop_charges_a_stalled_server_for_what_it_kept_waiting() {
    const STALL: Duration = Duration::from_millis(300);
    let server = Server::start("stalled", &|number, _, reply| {
        if number == 100 {
            let started = Instant::now();
            while started.elapsed() < STALL {
                std::thread::yield_now();
            }
        }
        reply.bulk("abc");
    });
    let load = Load {
        connections: 1,
        threads: 1,
        pipeline: 1,
        requests_max: Some(1000),
        duration_max: None,
        rate: Some(1000.0),
        ..server.load("get")
    };
    let open = run(load.clone());
    assert_eq!(open.operations, 1000);
    // One request a millisecond: while the server stalls, about 200 come to wait over 100 ms.
    let waited = |report: &Report| report.latencies.count_between(100_000_000, u64::MAX / 2);
    assert!(waited(&open) >= 150, "only {} waited", waited(&open));

    server.requests.store(0, Ordering::Relaxed);
    let closed = run(Load { rate: None, ..load });
    assert!(waited(&closed) < 150, "a closed loop does not know what it did not send");
}

#[test]
fn open_loop_without_a_free_connection_counts_what_it_could_not_send() {
    let server = Server::start("slow", &|_, _, reply| {
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        reply.bulk("abc");
    });
    let load = Load {
        connections: 1,
        threads: 1,
        pipeline: 1,
        requests_max: None,
        duration_max: Some(Duration::from_millis(200)),
        rate: Some(1000.0),
        ..server.load("get")
    };
    let report = run(load);
    assert!(report.unsent > 0);
    assert_eq!(report.operations + report.unsent, 200);
    assert_eq!(report.latencies.len(), 200);
}

#[test]
fn a_load_that_makes_no_sense_is_refused() {
    let server = Server::start("refused", &|_, _, reply| reply.ok());
    let load = server.load("get");
    for wrong in [
        Load { requests_max: None, ..load.clone() },
        Load { threads: 5, ..load.clone() },
        Load { pipeline: 0, ..load.clone() },
        Load { rate: Some(0.0), ..load.clone() },
        Load { target: Target::unix("/nonexistent/socket"), ..load.clone() },
        Load { workload: Workload { key_count: u64::MAX, ..load.workload }, ..load.clone() },
    ] {
        assert!(wrong.connect().is_err());
    }
}

#[test]
fn a_connection_that_breaks_is_an_error() {
    let server = Server::start("broken", &|number, _, reply| {
        // The thread's end closes its connection.
        assert!(number < 10, "this connection breaks on purpose");
        reply.bulk("abc");
    });
    assert!(server.load("get").connect().unwrap().run().is_err());
}

#[test]
fn a_closed_loop_sends_at_least_once() {
    let server = Server::start("once", &|_, _, reply| reply.bulk("abc"));
    let duration_max = Some(Duration::from_nanos(1));
    let report = run(Load { requests_max: None, duration_max, ..server.load("get") });
    assert_eq!(report.operations, 4 * 5, "a batch on each connection");
}
