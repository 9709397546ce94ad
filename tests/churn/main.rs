//! Collections that are read in memory while they change in every way that there is: parts that are
//! changed together are never seen apart.
//!
//! Threads of this process read by the client, others change the same keys over sockets: fields by
//! one HSET or within MULTI, RENAME, COPY, conversions to what lies in private memory and back,
//! expiry, eviction, FLUSHDB and SWAPDB. What is read says itself which version it is, so that a
//! torn answer shows, and so does one that is older than one before.
//!
//! `FOREBAY_COLLECTION_READS` sets the number of reads, `FOREBAY_COLLECTION_SEED` the random
//! choices. With the feature `protocol-mutations` each rule of the protocol on which collections
//! depend is broken once, in the server and in the readers, and each time a reader must notice.
//!
//! *Layout*: `content.rs` says what is in each kind of key, `writer.rs` changes them, `reader.rs`
//! reads and judges.

mod content;
mod reader;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use client::Client;
use harness::{Kind, Launch, Server, number};

use content::DATABASES;
use reader::Reader;
use writer::Writer;

const READS_DEFAULT: u64 = 150_000;
/// Reads after which everything must have happened once.
const READS_FOR_ALL_KINDS: u64 = 5_000_000;
/// Threads that change keys, each its own.
pub const WRITERS: u64 = 2;
const READERS: u64 = 2;
/// Reads for each request of a writer, so that there are many of both.
const READS_PER_REQUEST: u64 = 16;
/// How far writers may be ahead of that.
const REQUESTS_AHEAD: u64 = 60_000;
/// Reads between two looks whether the run is over.
const READS_PER_LOOK: u64 = 500;

/// What all threads of a run share.
pub struct Run {
    server: Server,
    seed: u64,
    reads_wanted: u64,
    reads: AtomicU64,
    is_over: AtomicBool,
    violation: Mutex<Option<String>>,
    /// Requests of the writers.
    requests: AtomicU64,
}

impl Run {
    fn new(launch: Launch, seed: u64, reads_wanted: u64) -> Run {
        let launch = launch
            .option("workers", "2")
            .option("segment-size", "1mb")
            .option("maxmemory", "24mb")
            .option("maxmemory-policy", "volatile-lru");
        Run {
            server: launch.start(),
            seed,
            reads_wanted,
            reads: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            violation: Mutex::new(None),
            requests: AtomicU64::new(0),
        }
    }

    /// Reads until there are enough reads, or one is wrong; returns what the run came to.
    ///
    /// # Errors
    /// What was wrong.
    fn run(&self) -> Result<String, String> {
        let path = self.server.socket().display();
        let url = |database: u8| format!("shm://{path}?db={database}");
        let clients = DATABASES.map(|it| Client::connect(&url(it)).expect("the server is there"));
        let mut writers: Vec<Writer> = (0..WRITERS).map(|it| Writer::new(self, it)).collect();
        for writer in &mut writers {
            writer.fill()?;
        }
        thread::scope(|scope| {
            for writer in writers {
                scope.spawn(|| self.until_over(writer, |writer| self.write(writer)));
            }
            for number in 0..READERS {
                let reader = Reader::new(clients.clone(), self.seed + 100 + number);
                scope.spawn(|| self.until_over(reader, |reader| self.read(reader)));
            }
        });
        let violation = self.violation.lock().unwrap_or_else(PoisonError::into_inner).take();
        violation.map_or_else(|| Ok(self.report()), Err)
    }

    fn until_over<T>(&self, mut it: T, step: impl Fn(&mut T) -> Result<(), String>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let step = catch_unwind(AssertUnwindSafe(|| step(&mut it)));
            if let Err(what) = step.unwrap_or_else(|_| Err("a thread panicked".to_owned())) {
                let mut violation = self.violation.lock().unwrap_or_else(PoisonError::into_inner);
                if !self.is_over.swap(true, Ordering::Relaxed) {
                    *violation = Some(what);
                }
            }
        }
    }

    fn write(&self, writer: &mut Writer) -> Result<(), String> {
        let allowed = REQUESTS_AHEAD + self.reads.load(Ordering::Relaxed) / READS_PER_REQUEST;
        if self.requests.load(Ordering::Relaxed) > allowed {
            thread::yield_now();
            return Ok(());
        }
        writer.step()
    }

    fn read(&self, reader: &mut Reader) -> Result<(), String> {
        for _ in 0..READS_PER_LOOK {
            reader.step()?;
        }
        let before = self.reads.fetch_add(READS_PER_LOOK, Ordering::Relaxed);
        if before + READS_PER_LOOK >= self.reads_wanted {
            self.is_over.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn report(&self) -> String {
        let mut watcher = self.server.unix();
        let text = watcher.info_text("everything");
        let field = |name| harness::info_field(&text, name);
        let (reads, writes) =
            (self.reads.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed));
        let asked = field("total_commands_processed").saturating_sub(writes);
        let (evicted, expired) = (field("evicted_keys"), field("expired_keys"));
        assert!(asked < reads, "{asked} of {reads} reads were asked of the server: none in memory");
        if reads >= READS_FOR_ALL_KINDS {
            assert!(asked < reads / 2, "{asked} of {reads} reads were asked of the server");
            assert!(evicted > 0 && expired > 0, "{evicted} evicted, {expired} expired");
        }
        format!(
            "{reads} reads, {asked} of them by the server; {writes} requests of writers, {evicted} \
             keys evicted, {expired} expired"
        )
    }
}

#[test]
fn parts_of_a_collection_that_change_together_are_read_together() {
    let seed = number("FOREBAY_COLLECTION_SEED").unwrap_or(1);
    let reads = number("FOREBAY_COLLECTION_READS").unwrap_or(READS_DEFAULT);
    let run = Run::new(Launch::new(Kind::Forebay), seed, reads);
    match run.run() {
        Ok(report) => println!("{report}"),
        Err(what) => panic!("seed {seed}: {what}\n{}", run.server.log()),
    }
}

/// The rules whose breach these readers meet within seconds. Of the others, a reader of strings
/// notices each (arena/tests/torture): they protect values that are pinned, which no collection is,
/// or need whole tables to come and go more often than a server has them.
#[cfg(feature = "protocol-mutations")]
#[test]
fn every_broken_rule_is_noticed_by_readers_of_collections() {
    use arena::protocol_rules::{Rule, break_rule};
    const NOTICED: [Rule; 10] = [
        Rule::OddWhileRelinking,
        Rule::OddWhileOverwriting,
        Rule::OddWhileCompacting,
        Rule::OddWhileSplitting,
        Rule::OddWhileFrozen,
        Rule::EpochGrows,
        Rule::ReaderChecksBucket,
        Rule::ReaderChecksHeader,
        Rule::ReaderChecksEpoch,
        Rule::ReaderMindsOdd,
    ];
    // A breach is noticed after some hundred thousand reads or some millions, by chance: so many
    // are made only where it is not noticed at all.
    let reads = number("FOREBAY_COLLECTION_READS").unwrap_or(200_000_000);
    let only = number("FOREBAY_COLLECTION_RULE");
    let rules = Rule::ALL.into_iter().filter(|rule| match only {
        Some(only) => *rule as u64 == only,
        None => NOTICED.contains(rule),
    });
    let mut missed = Vec::new();
    for rule in rules {
        break_rule(rule);
        let variable = format!("FOREBAY_BROKEN_RULE={}", rule as u8);
        let launch = Launch::new(Kind::Forebay).by(&["env", &variable]);
        let run = Run::new(launch, 1, reads);
        let (start, noticed) = (std::time::Instant::now(), run.run());
        println!("{rule:?} ({:.1} s): {noticed:?}", start.elapsed().as_secs_f32());
        if noticed.is_ok() {
            missed.push(rule);
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
