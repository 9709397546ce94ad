//! The engine's promises, on an arena over the heap and a host that does nothing.
//!
//! `FOREBAY_EFFECTS_HISTORIES` sets how many random histories each test of effects replays,
//! `FOREBAY_EFFECTS_SEED` repeats one.

mod awaits;
mod blocked_moves;
mod blocked_sessions;
mod checks;
mod expiry;
mod field_times;
mod generated;
mod leases;
mod memory_limit;
mod replay;
mod reserve_value;
mod restore;
mod serving;
mod set_operations;
mod step_bounds;
mod streams;
mod times;
mod transactions;
mod upload_copies;
mod waits;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arena::{Arena, ArenaConfig, HeapSource};
use base::prng::Prng;
use base::{DatabaseIndex, Lsn, UnixMs};
use command::{
    Clients, Command, ConfigError, Host, InfoSections, LatencyEvent, Observer, Process,
    RewriteError, SessionState, ShutdownError, ShutdownRequest, SlowCommand, Unavailable,
};
use effects::Recording;
use keyspace::{Access, DatasetDigest, EvictionPolicy, Keyspace, SessionWakeup};
use resp::{Batch, Decoder, Limits, Output, RequestView, encode_command};

use crate::{
    Applier, BatchEnd, CommandStats, Engine, ExecutionContext, MonitorFeed, MonitorSink,
    PauseSwitch, Position, Session, SessionStatus, TimingSettings,
};

const NOW: UnixMs = UnixMs(1_700_000_000_000);

fn keyspace(shard_count: u32) -> Keyspace {
    keyspace_of(shard_count, 16)
}

fn keyspace_of(shard_count: u32, database_count: u32) -> Keyspace {
    keyspace_in(shard_count, database_count, 1024)
}

/// Returns a keyspace whose memory may grow to `segment_count` segments of 64 KiB.
fn keyspace_in(shard_count: u32, database_count: u32, segment_count: u32) -> Keyspace {
    let source = Box::new(HeapSource::new(1 << 16, segment_count));
    let config = ArenaConfig {
        shard_count,
        database_count,
        hash_keys: base::HashKeys::fixed(shard_count.into()),
    };
    Keyspace::new(Arena::new(source, config).unwrap())
}

fn digest(keyspace: &Keyspace) -> DatasetDigest {
    Access::free(keyspace).digest()
}

/// Returns how the value of each key of each database is stored, by OBJECT ENCODING's names.
fn encodings(keyspace: &Keyspace) -> BTreeMap<(DatabaseIndex, Vec<u8>), &'static str> {
    let mut found = BTreeMap::new();
    for database in keyspace.databases() {
        Access::free(keyspace).for_each_entry(database, &mut |object| {
            found.insert((database, object.key().to_vec()), object.encoding_name());
        });
    }
    found
}

/// Checks that `copy` has what `original` has, stored alike.
fn assert_same_data(copy: &Keyspace, original: &Keyspace) {
    assert_eq!(digest(copy), digest(original));
    let (found, expected) = (encodings(copy), encodings(original));
    let mut other = expected.iter().filter(|(key, encoding)| found.get(*key) != Some(*encoding));
    assert_eq!(other.next(), None, "it is stored otherwise in the copy");
}

/// Checks the histories of so many seeds and prints how many they were; one that fails names its
/// seed. Returns the sum of what `check` counts: a single history may have nothing to count.
fn check_histories(count: u64, check: impl Fn(u64) -> u64) -> u64 {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds = match number("FOREBAY_EFFECTS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FOREBAY_EFFECTS_HISTORIES").unwrap_or(count),
    };
    assert!(!seeds.is_empty(), "at least one history");
    let mut sum = 0;
    for seed in seeds.clone() {
        let _seed = Seed(seed);
        sum += check(seed);
    }
    let test = std::thread::current();
    println!("{}: {} histories", test.name().unwrap_or(""), seeds.end - seeds.start);
    sum
}

/// Returns the policy of a history that evicts: each in turn, beginning with those of all keys.
fn policy_of(seed: u64) -> EvictionPolicy {
    let evicting =
        EvictionPolicy::ALL.iter().copied().filter(|it| *it != EvictionPolicy::NO_EVICTION);
    let policies: Vec<EvictionPolicy> = evicting.collect();
    policies[policies.len() - 1 - seed as usize % policies.len()]
}

/// Prints the seed when the test that holds it panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("repeat with FOREBAY_EFFECTS_SEED={}", self.0);
        }
    }
}

/// A server that has one password, or none, and does nothing.
#[derive(Default)]
struct TestHost {
    password: Option<&'static [u8]>,
    allows_debug: bool,
    command_stats: CommandStats,
    timing: TimingSettings,
    slow: Mutex<Vec<(&'static str, u64)>>,
    events: Mutex<Vec<LatencyEvent>>,
    pause: PauseSwitch,
    position: Position,
    watcher_count: AtomicUsize,
    shown: Mutex<Vec<String>>,
    served: Mutex<Vec<SessionWakeup>>,
    /// The engine whose shards are to be free whenever the host does what may wait.
    free: OnceLock<Arc<Engine>>,
    /// How often it did.
    waits: AtomicUsize,
}

impl TestHost {
    /// Does what may wait for a disk.
    fn wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let Some(engine) = self.free.get() else { return };
        let keyspace = engine.keyspace();
        for shard in keyspace.shard_indexes() {
            keyspace.lock_or_notify(shard, || panic!("{shard:?} is held while the host waits"));
        }
    }
}

impl Observer for TestHost {
    fn note_slow(&self, slow: &SlowCommand<'_>) {
        self.slow.lock().unwrap().push((slow.command.name, slow.nanoseconds));
    }

    fn note_event(&self, event: LatencyEvent, _: u64) {
        self.events.lock().unwrap().push(event);
    }

    fn purge_memory(&self) {
        self.wait();
    }
}

/// Keeps what monitors would be shown.
struct TestSink<'h>(&'h TestHost);

impl MonitorSink for TestSink<'_> {
    fn show(&mut self, _: &Command, request: RequestView<'_>, session: &SessionState) {
        let words = request.iter().map(|word| String::from_utf8_lossy(word).into_owned());
        let line = words.collect::<Vec<_>>().join(" ");
        self.0.shown.lock().unwrap().push(format!("{} {line}", session.database.0));
    }

    fn count(&mut self, is_monitor: bool) {
        let change = if is_monitor { 1 } else { usize::MAX };
        self.0.watcher_count.fetch_add(change, Ordering::Relaxed);
    }

    fn deliver(&mut self) {}
}

impl Host for TestHost {
    fn database_count(&self) -> usize {
        16
    }

    fn requires_password(&self) -> bool {
        self.password.is_some()
    }

    fn authenticate(&self, _: &[u8], password: &[u8]) -> bool {
        self.password.is_none_or(|expected| expected == password)
    }

    fn allows_debug(&self, _: &SessionState) -> bool {
        self.allows_debug
    }

    fn config_set(&self, _: &SessionState, _: &[(&[u8], &[u8])]) -> Result<(), ConfigError> {
        self.wait();
        Ok(())
    }

    fn info(&self, _: &InfoSections) -> String {
        self.wait();
        "figures".to_owned()
    }

    fn clients(&self) -> Result<&dyn Clients, Unavailable> {
        Ok(self)
    }

    fn process(&self) -> Result<&dyn Process, Unavailable> {
        Ok(self)
    }

    fn notify_served(&self, served: SessionWakeup) {
        self.served.lock().unwrap().push(served);
    }
}

impl Clients for TestHost {}

impl Process for TestHost {
    fn config_rewrite(&self) -> Result<(), RewriteError> {
        self.wait();
        Err(RewriteError::NoFile)
    }

    fn config_rewrite_all(&self) -> Result<(), RewriteError> {
        self.wait();
        Err(RewriteError::NoFile)
    }

    fn shutdown(&self, _: ShutdownRequest) -> Result<(), ShutdownError> {
        Ok(())
    }
}

/// One client of an engine.
struct Client<'e> {
    engine: &'e Engine,
    session: Session,
    execution: ExecutionContext<'e>,
}

impl<'e> Client<'e> {
    fn new(engine: &'e Engine, host: &'e TestHost) -> Client<'e> {
        let execution = ExecutionContext {
            now: NOW,
            random: Prng::new(1),
            host,
            clock: &times::SteppingClock,
            command_stats: &host.command_stats,
            timing: &host.timing,
            pause: &host.pause,
            position: &host.position,
            monitor_feed: MonitorFeed {
                count: &host.watcher_count,
                sink: Box::new(TestSink(host)),
            },
            value_bytes_max: 512 << 20,
            output_bytes_max: usize::MAX,
            references_max: usize::MAX,
        };
        Client { engine, session: Session::new(1, NOW, host.password.is_none()), execution }
    }

    /// Runs one request, words apart by spaces, and returns its reply with spaces for line ends.
    fn run(&mut self, request: &str) -> String {
        self.run_all(&[request])
    }

    /// Runs requests as one batch and returns their replies.
    fn run_all(&mut self, requests: &[&str]) -> String {
        self.batch(requests).0
    }

    /// Runs requests as one batch.
    fn batch(&mut self, requests: &[&str]) -> (String, BatchEnd) {
        let mut bytes = Vec::new();
        for request in requests {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            encode_command(&words, &mut bytes);
        }
        let (mut reply, mut outcome) = self.run_bytes(&mut bytes, 0);
        while outcome.status == SessionStatus::Open && outcome.executed < requests.len() {
            let (more, next) = self.run_bytes(&mut bytes, outcome.executed);
            reply.extend_from_slice(&more);
            outcome = BatchEnd { commands: outcome.commands + next.commands, ..next };
        }
        (String::from_utf8_lossy(&reply).replace("\r\n", " ").trim_end().to_owned(), outcome)
    }

    fn run_bytes(&mut self, bytes: &mut [u8], from: usize) -> (Vec<u8>, BatchEnd) {
        let mut batch = Batch::new();
        let decoded = Decoder::new().decode(bytes, &mut batch, usize::MAX, &Limits::default());
        assert_eq!(decoded.consumed, bytes.len());
        let mut out = Output::default();
        let requests = batch.view(bytes);
        let outcome =
            self.engine.execute(&mut self.session, requests, from, &mut out, &mut self.execution);
        (out.to_vec(), outcome)
    }

    fn close(&mut self) {
        self.engine.close(&mut self.session, &mut self.execution);
    }

    fn check(&mut self, request: &str, expected: &str) {
        assert_eq!(self.run(request), expected, "{request}");
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.close();
        }
    }
}

/// Returns the sink that records what `keyspace` changes from now on.
fn recording_of(keyspace: &Keyspace) -> Arc<Recording> {
    let sink = Arc::new(Recording::default());
    keyspace.set_sink(Some(sink.clone()));
    sink
}

/// Applies all records in the order of their LSNs to an empty keyspace of another shape.
fn replayed(recording: &Recording) -> Keyspace {
    let copy = keyspace(8);
    let mut applier = Applier::new();
    recording.for_each(|record| applier.apply(&copy, record).unwrap());
    copy
}
