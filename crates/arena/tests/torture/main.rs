//! A reader in another process against a writer that never pauses.
//!
//! Three processes: the test starts the writer's, which starts the reader's and hands it a socket
//! for descriptors. The writer changes everything in every way that there is; the reader knows from
//! each value's own bytes which key, version and length it must have, and that versions never go
//! back. It ends after a number of reads that got an answer, or at the first violation. A run that
//! is long enough must have had every kind of change and every kind of outcome.
//!
//! `FOREBAY_TORTURE_READS` sets the number of reads (a million, or 200 million where a rule is
//! broken), `FOREBAY_TORTURE_SEED` the random choices. With the feature `protocol-mutations` each
//! rule of the protocol is broken once, and each time the reader must notice: a test that cannot
//! fail proves nothing.

mod content;
mod link;
mod reader;
mod uploads;
mod writer;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use arena::reader::Reader;
use arena::{Arena, ArenaConfig};
use ring::{SharedPins, SharedSegments};
use sys::memfd_segments::{Backing, OwnedSegments};

const ROLE: &str = "FOREBAY_TORTURE_ROLE";
const READS: &str = "FOREBAY_TORTURE_READS";
const SEED: &str = "FOREBAY_TORTURE_SEED";
#[cfg(feature = "protocol-mutations")]
const RULE: &str = "FOREBAY_TORTURE_RULE";

/// The exit code of a reader that met something that must not be.
const NOTICED: i32 = 3;
/// The exit code of a writer or reader that did not meet everything that there is.
const INCOMPLETE: i32 = 4;
/// Reads after which every kind of change and outcome must have been met; the rarest has come some
/// ten times by then.
const READS_FOR_ALL_KINDS: u64 = 500_000;
const READS_DEFAULT: u64 = 1_000_000;
/// How many changes the writer makes between two looks at the reader.
const CHANGES_PER_LOOK: u32 = 1000;
/// Small segments, so that new ones come and go all the time.
const SEGMENT_BYTES: u64 = 256 * 1024;
const SEGMENT_COUNT: u32 = 2048;
/// Those of them that are for uploads.
const UPLOAD_SEGMENTS: u32 = 32;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => default,
    }
}

fn is_role(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|value| value == role)
}

/// Starts this program again to run the test `name` in `role`.
fn again(name: &str, role: &str) -> Command {
    let program = std::env::current_exe().expect("a test is a file");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture", "--quiet"]).env(ROLE, role);
    command
}

fn run(reads: u64, seed: u64) -> Command {
    let mut command = again("process_of_the_writer", "writer");
    command.env(READS, reads.to_string()).env(SEED, seed.to_string()).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn reader_in_another_process_sees_whole_values_in_order() {
    let (reads, seed) = (number(READS, READS_DEFAULT), number(SEED, 1));
    let output = run(reads, seed).output().expect("this program starts again");
    let text = text(&output);
    assert!(output.status.success(), "seed {seed}: {}\n{text}", output.status);
    println!("{text}");
}

#[cfg(feature = "protocol-mutations")]
#[test]
fn every_broken_rule_is_noticed_by_the_reader() {
    // A breach is noticed after some ten thousand reads or some millions, by chance: so many are
    // made only where it is not noticed at all.
    let reads = number(READS, 200_000_000);
    let mut missed = Vec::new();
    for rule in arena::protocol_rules::Rule::ALL {
        let (mut command, start) = (run(reads, number(SEED, 1)), std::time::Instant::now());
        let output = command.env(RULE, (rule as u8).to_string()).output().expect("it starts");
        let (text, time) = (text(&output), start.elapsed().as_secs_f32());
        let line = text.lines().find(|line| line.starts_with("noticed")).unwrap_or("NOT NOTICED");
        println!("{rule:?} ({time:.1} s): {line}");
        if output.status.code() != Some(NOTICED) {
            missed.push(format!("{rule:?}: {}\n{text}", output.status));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[cfg(feature = "protocol-mutations")]
fn break_rule() {
    let number = number(RULE, 0);
    if let Some(rule) =
        arena::protocol_rules::Rule::ALL.into_iter().find(|rule| *rule as u64 == number)
    {
        arena::protocol_rules::break_rule(rule);
    }
}

#[cfg(not(feature = "protocol-mutations"))]
fn break_rule() {}

/// Ends this process as incomplete if there are `absent` kinds after a run that is long enough.
fn require_none(kinds: &str, absent: &[&str]) {
    if number(READS, READS_DEFAULT) >= READS_FOR_ALL_KINDS && !absent.is_empty() {
        println!("{kinds} never met: {}", absent.join(", "));
        std::process::exit(INCOMPLETE);
    }
}

/// Runs in a process of its own only; returns at once among the tests.
#[test]
fn process_of_the_writer() {
    if !is_role("writer") {
        return;
    }
    break_rule();
    let (own, other) = UnixStream::pair().expect("descriptors");
    let segments = OwnedSegments::reserve(SEGMENT_BYTES, SEGMENT_COUNT, Backing::OnTouch);
    let segments = Arc::new(segments.expect("addresses"));
    let config =
        ArenaConfig { shard_count: 1, database_count: 5, hash_keys: base::HashKeys::fixed(3) };
    let source = Box::new(SharedSegments::new(segments.clone()).with_uploads(UPLOAD_SEGMENTS));
    let arena = Arena::new(source, config).expect("a range of that size");
    let pins = Arc::new(SharedPins::create().expect("memory"));
    // Unsealed, as the reader is this program too, and takes none of its pages out.
    arena.pins().add(1, pins.clone());
    let mut writer = writer::Writer::new(arena.clone(), segments.clone(), number(SEED, 1));
    let mut reader = again("process_of_the_reader", "reader")
        .stdin(Stdio::from(OwnedFd::from(other)))
        .spawn()
        .expect("this program starts again");
    let server = thread::spawn(move || {
        let socket = OwnedFd::from(own).into();
        link::serve(&arena, &segments, &pins, socket)
    });
    let status = loop {
        (0..CHANGES_PER_LOOK).for_each(|_| writer.step());
        if let Some(status) = reader.try_wait().expect("it is our child") {
            break status;
        }
    };
    let requests = server.join().expect("the server of segments ends").expect("the socket held");
    println!("{}{requests:>12} requests for segments", writer.report());
    if status.success() {
        require_none("changes", &writer.absent());
    }
    std::process::exit(status.code().unwrap_or(1));
}

/// Runs in a process of its own only; returns at once among the tests.
#[test]
fn process_of_the_reader() {
    if !is_role("reader") {
        return;
    }
    break_rule();
    let socket = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned();
    let socket = UnixStream::from(socket.expect("a descriptor"));
    let (link, mapped, pins) = link::connect(socket).expect("the writer serves segments");
    let reader = Reader::open(mapped, Some(Arc::new(pins)));
    let reader = Arc::new(reader.expect("an arena"));
    let start = std::time::Instant::now();
    let reads = number(READS, READS_DEFAULT);
    match reader::check(&reader, &link, number(SEED, 1) + 1, reads) {
        Ok(report) => {
            let time = start.elapsed().as_secs_f64();
            println!("read for {time:.1} s\n{report}");
            if report.reads() < reads {
                println!("too few attempts got an answer");
                std::process::exit(INCOMPLETE);
            }
            require_none("outcomes", &report.absent());
        }
        Err(what) => {
            println!("noticed: {what}");
            std::process::exit(NOTICED);
        }
    }
}
