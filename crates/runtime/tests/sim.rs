//! Several instances in one process, each with a clock of its own, driven step by step by one seed,
//! which determines all that they do, to the byte.
//!
//! `FOREBAY_SIM_COMMANDS` sets how many commands a run has, `FOREBAY_SIM_SEED` repeats one.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use base::UnixMs;
use base::prng::Prng;
use command::generate::{Draw, Generator, Profile};
use command::{Command, Flags, Handler, rows};
use keyspace::{Access, Counters, DatasetDigest, EvictionPolicy};
use runtime::{
    Embedded, EmbeddedOptions, Environment, ManualClock, Memory, Options, Session, Tuning,
};

/// Where every clock begins.
const NOW: UnixMs = UnixMs(1_700_000_000_000);
/// Commands of one run, unless the environment says how many.
const COMMANDS: u64 = 100_000;
/// The keys that requests name.
const KEYS: u64 = 600;
/// Sessions of one instance.
const SESSIONS: usize = 3;
/// The memory that an instance has for data, in bytes: some hundred of the values that are drawn.
const SPARE_BYTES: u64 = 1 << 20;

/// The eviction policy of each instance.
const POLICIES: [EvictionPolicy; 4] = [
    EvictionPolicy::ALLKEYS_LRU,
    EvictionPolicy::ALLKEYS_LFU,
    EvictionPolicy::VOLATILE_TTL,
    EvictionPolicy::ALLKEYS_RANDOM,
];

/// What ends the session or its replies has no place in a run, nor what forgets the counts.
const LEFT_OUT: [&str; 3] = ["quit", "client|reply", "config|resetstat"];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn command_count() -> u64 {
    number("FOREBAY_SIM_COMMANDS").unwrap_or(COMMANDS)
}

fn seed() -> u64 {
    let seed = number("FOREBAY_SIM_SEED").unwrap_or(1);
    println!("repeat with FOREBAY_SIM_SEED={seed}");
    seed
}

/// What became of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    digest: DatasetDigest,
    counters: Counters,
    used_memory: u64,
    /// The hash of each reply.
    replies: Vec<u64>,
    reply_bytes: usize,
    errors: u64,
    transactions: u64,
}

/// A reply that is to be shown: the instance and the index of its command.
type Wanted = Option<(usize, usize)>;

fn open(index: usize, seed: u64, clock: &Arc<ManualClock>) -> Embedded {
    let options = EmbeddedOptions {
        instance: Options {
            memory: Memory::Heap { segment_bytes: 1 << 16, segment_count: 1024 },
            ..Options::default()
        },
        allows_debug: true,
        ..EmbeddedOptions::default()
    };
    let environment = Environment::simulated(Arc::clone(clock), seed);
    let embedded = Embedded::open(&options, environment).expect("there is memory");
    let maxmemory = embedded.runtime().startup_bytes() + SPARE_BYTES;
    embedded.tune(Tuning { maxmemory, policy: POLICIES[index], ..Tuning::default() });
    embedded
}

/// One instance, its sessions, and what decides what they do.
struct Player<'r> {
    embedded: &'r Embedded,
    clock: &'r ManualClock,
    sessions: Vec<Session<'r>>,
    /// Which of them queue their requests: EXEC is to come soon.
    is_queueing: [bool; SESSIONS],
    /// The last request was refused for want of memory.
    lacks_room: bool,
    rows: Vec<&'static Command>,
    generator: Generator,
    random: Prng,
    record: Record,
    /// The command whose request and reply are to be shown.
    wanted: Option<usize>,
    shown: String,
}

impl<'r> Player<'r> {
    fn new(
        embedded: &'r Embedded,
        clock: &'r ManualClock,
        seed: u64,
        wanted: Option<usize>,
    ) -> Player<'r> {
        let runs = |row: &&Command| {
            !matches!(row.handler, Handler::Container) && !LEFT_OUT.contains(&row.name)
        };
        let profile = Profile { key_count: KEYS, value_bytes_max: 6000, invalid_one_in: 50 };
        Player {
            embedded,
            clock,
            sessions: (0..SESSIONS).map(|_| embedded.session()).collect(),
            is_queueing: [false; SESSIONS],
            lacks_room: false,
            rows: rows().filter(runs).collect(),
            generator: Generator::new(profile, seed),
            random: Prng::new(seed),
            record: Record::default(),
            wanted,
            shown: String::new(),
        }
    }

    /// Does one step: some time may pass, a sweep may come, and one session sends a request.
    fn step(&mut self) {
        if self.random.one_in(8) {
            self.clock.advance(Duration::from_micros(self.random.below(500_000)));
        }
        if self.random.one_in(100) {
            self.embedded.sweep();
        }
        let index = self.random.below(SESSIONS as u64) as usize;
        let request = match self.random.below(8) {
            // Where only keys with a time to live may go, the others have to be deleted.
            _ if std::mem::take(&mut self.lacks_room) => self.deletion(),
            0 => self.short_lived(),
            1 if self.is_queueing[index] => vec![b"EXEC".to_vec()],
            _ => self.drawn(),
        };
        let session = &mut self.sessions[index];
        if let Some(reply) = session.poll() {
            self.note(&[], &reply);
        }
        if self.sessions[index].is_blocked() {
            // It may wait for ever, as AWAIT without a limit does.
            self.sessions[index] = self.embedded.session();
        }
        let reply = self.sessions[index].run(&request);
        let is_exec = request[0].eq_ignore_ascii_case(b"exec");
        self.record.transactions += u64::from(is_exec && reply.starts_with(b"*"));
        self.record.errors += u64::from(reply.starts_with(b"-"));
        self.lacks_room = reply.starts_with(b"-OOM");
        self.is_queueing[index] = reply == b"+QUEUED\r\n";
        self.note(&request, &reply);
    }

    /// Writes come more often than what only looks; what empties everything seldom.
    fn drawn(&mut self) -> Vec<Vec<u8>> {
        loop {
            let row = self.random.pick(&self.rows);
            let is_kept = match row.name {
                "flushall" | "flushdb" => self.random.one_in(100),
                "debug|set-active-expire" => self.random.one_in(100),
                "swapdb" | "select" | "reset" => self.random.one_in(8),
                "multi" | "watch" => true,
                _ if row.keys.is_empty() => self.random.one_in(20),
                _ => row.is(Flags::WRITE) || self.random.one_in(2),
            };
            if is_kept {
                return self.generator.request(row);
            }
        }
    }

    /// A request that makes a key expire soon: the rows' integers are drawn from all there are, of
    /// which few are times to live.
    fn short_lived(&mut self) -> Vec<Vec<u8>> {
        let [key, ms] = [KEYS, 2000].map(|bound| self.random.below(bound));
        let text = match self.random.below(3) {
            0 => format!("SET key:{key} value PX {}", ms + 1),
            1 => format!("PEXPIRE key:{key} {ms}"),
            _ => format!("GETEX key:{key} PX {}", ms + 1),
        };
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    /// A request that deletes keys of its database, or seldom, where they lie in others, all.
    fn deletion(&mut self) -> Vec<Vec<u8>> {
        if self.random.one_in(50) {
            return vec![b"FLUSHALL".to_vec()];
        }
        let keys = (0..20).map(|_| format!("key:{}", self.random.below(KEYS)).into_bytes());
        std::iter::once(b"UNLINK".to_vec()).chain(keys).collect()
    }

    fn note(&mut self, request: &[Vec<u8>], reply: &[u8]) {
        if self.wanted == Some(self.record.replies.len()) {
            let words: Vec<String> =
                request.iter().map(|word| word.escape_ascii().to_string()).collect();
            self.shown = format!("{}: {}", words.join(" "), reply.escape_ascii());
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(reply);
        self.record.replies.push(hasher.finish());
        self.record.reply_bytes += reply.len();
    }

    fn finish(mut self) -> (Record, String) {
        let keyspace = self.embedded.runtime().keyspace();
        self.record.digest = Access::free(keyspace).digest();
        self.record.counters = keyspace.counters();
        self.record.used_memory = keyspace.used_memory();
        (self.record, self.shown)
    }
}

/// Runs the instances of `indexes`, `steps` steps of each in an order that `seed` decides, and
/// returns what became of each, and the command that was wanted.
fn run(indexes: &[usize], steps: u64, seed: u64, wanted: Wanted) -> (Vec<Record>, String) {
    let seed_of = |index: usize| seed.wrapping_mul(1000) + index as u64;
    let clocks: Vec<Arc<ManualClock>> =
        indexes.iter().map(|_| Arc::new(ManualClock::new(NOW))).collect();
    let instances: Vec<Embedded> =
        indexes.iter().zip(&clocks).map(|(&index, it)| open(index, seed_of(index), it)).collect();
    let places = indexes.iter().zip(instances.iter().zip(&clocks));
    let mut players: Vec<Player<'_>> = places
        .map(|(&index, (embedded, clock))| {
            let wanted = wanted.filter(|(of, _)| *of == index).map(|(_, command)| command);
            Player::new(embedded, clock, seed_of(index), wanted)
        })
        .collect();
    let mut left = vec![steps; players.len()];
    let mut random = Prng::new(seed);
    while left.iter().any(|steps| *steps > 0) {
        let index = random.below(players.len() as u64) as usize;
        if left[index] > 0 {
            left[index] -= 1;
            players[index].step();
        }
    }
    let (mut records, mut shown) = (Vec::new(), String::new());
    for player in players {
        let (record, text) = player.finish();
        records.push(record);
        shown.push_str(&text);
    }
    (records, shown)
}

/// Checks that `first` and `second` are the same record; `show` gives the text of a command of
/// each.
fn assert_same(
    index: usize,
    first: &Record,
    second: &Record,
    show: impl Fn(Wanted) -> [String; 2],
) {
    let mut pairs = first.replies.iter().zip(&second.replies);
    if let Some(command) = pairs.position(|(first, second)| first != second) {
        let [first, second] = show(Some((index, command)));
        panic!("command {command} of instance {index}:\n{first}\n{second}");
    }
    assert_eq!(first, second, "instance {index}");
}

#[test]
fn four_instances_do_the_same_twice_by_one_seed() {
    let all: Vec<usize> = (0..POLICIES.len()).collect();
    let (seed, steps) = (seed(), command_count() / all.len() as u64);
    let once = |wanted| run(&all, steps, seed, wanted);
    let (first, second) = (once(None).0, once(None).0);
    for (&index, (first, second)) in all.iter().zip(first.iter().zip(&second)) {
        assert_same(index, first, second, |wanted| [once(wanted).1, once(wanted).1]);
        let Record { counters, errors, transactions, reply_bytes, .. } = first;
        println!(
            "instance {index}: {counters:?}, {reply_bytes} bytes, {errors} errors, {transactions} \
             transactions, digest {:?}",
            first.digest
        );
        let has_all = [counters.expired_keys, counters.evicted_keys, *transactions];
        assert!(has_all.iter().all(|count| *count > steps / 2000), "{has_all:?}");
        assert!(*errors < steps / 2, "{errors} errors of {steps} commands");
    }
    assert!(first.windows(2).all(|pair| pair[0].digest != pair[1].digest), "their seeds differ");
}

#[test]
fn an_instance_does_the_same_alone_as_among_others() {
    let (seed, steps) = (seed(), command_count() / 10);
    let together = |wanted| run(&[0, 1, 2], steps, seed, wanted);
    let alone = |wanted| run(&[1], steps, seed, wanted);
    let (first, second) = (together(None).0, alone(None).0);
    assert_same(1, &first[1], &second[0], |wanted| [together(wanted).1, alone(wanted).1]);
}

#[test]
fn another_seed_gives_other_replies() {
    let replies = |seed| run(&[0], 1000, seed, None).0.remove(0).replies;
    assert_ne!(replies(1), replies(2));
}
