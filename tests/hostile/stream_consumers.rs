//! Consumers of a group that die at any step between asking for entries and acknowledging them: no
//! entry is lost, and each is processed once at least.
//!
//! Each consumer has a connection of its own, over any transport, and a new one after each death;
//! the entries that the dead have had are claimed by the living. `FOREBAY_CONSUMED_ENTRIES` sets
//! how many entries come.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use base::prng::Prng;
use harness::{Connection, Kind, Launch, Server, encode, number, words};
use resp::Value;

use super::assert_healthy;
use crate::compat::sessions::id;

const ENTRIES_DEFAULT: u64 = 4_000;
const CONSUMERS: u64 = 4;
const RING_BYTES: u64 = 4096;
/// A round in so many ends by a death.
const DEATHS_ONE_IN: u64 = 6;

/// Where a consumer dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// It has asked for entries, and may wait for them.
    HavingAsked,
    /// The same, and the server ends its session.
    KilledHavingAsked,
    /// It has got entries and processed none.
    HavingRead,
    /// It has processed entries and not acknowledged them.
    HavingProcessed,
    /// It has acknowledged them and does not hear of it.
    HavingAcknowledged,
}

const DEATHS: [Death; 5] = [
    Death::HavingAsked,
    Death::KilledHavingAsked,
    Death::HavingRead,
    Death::HavingProcessed,
    Death::HavingAcknowledged,
];

struct Consumers<'s> {
    server: &'s Server,
    /// All entries have been added.
    is_full: AtomicBool,
    deaths: AtomicU64,
}

impl Consumers<'_> {
    fn connect(&self, random: &mut Prng) -> Connection {
        match random.below(3) {
            0 => self.server.tcp(),
            1 => self.server.unix(),
            _ => self.server.lane(RING_BYTES),
        }
    }

    /// Consumes until nothing is left; returns the entries that consumer `number` has processed,
    /// each as often as it did.
    fn consume(&self, number: u64, seed: u64) -> Vec<String> {
        let mut random = Prng::new(seed + number);
        let (mut processed, mut lives) = (Vec::new(), 0);
        loop {
            lives += 1;
            let name = format!("c{number}-{lives}");
            if self.live(&name, &mut random, &mut processed) {
                return processed;
            }
            self.deaths.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Consumes as `name` until it dies, or nothing is left; returns whether nothing is.
    fn live(&self, name: &str, random: &mut Prng, processed: &mut Vec<String>) -> bool {
        let mut connection = self.connect(random);
        loop {
            let was_full = self.is_full.load(Ordering::Relaxed);
            let death = random.one_in(DEATHS_ONE_IN).then(|| random.pick(&DEATHS));
            let claims = random.one_in(4);
            let count = 1 + random.below(9);
            let request = match claims {
                true => format!("XAUTOCLAIM k g {name} 0 - COUNT {count}"),
                false => format!("XREADGROUP GROUP g {name} COUNT {count} BLOCK 5 STREAMS k >"),
            };
            let Some(reply) = self.ask(&mut connection, &request, death) else { return false };
            let ids = ids(&reply, claims);
            if matches!(death, Some(Death::HavingRead)) {
                return false;
            }
            processed.extend(ids.iter().cloned());
            if matches!(death, Some(Death::HavingProcessed)) {
                return false;
            }
            if ids.is_empty() && was_full && death.is_none() && is_done(&mut connection) {
                return true;
            }
            let acknowledgement = format!("XACK k g {}", ids.join(" "));
            if ids.is_empty() {
                continue;
            }
            let bytes = encode(&[words(&acknowledgement)]);
            connection.send(&bytes).expect("the server listens");
            if matches!(death, Some(Death::HavingAcknowledged)) {
                return false;
            }
            connection.read().expect("the server answers");
        }
    }

    /// Sends `request`; returns its reply, unless `death` comes before.
    fn ask(
        &self,
        connection: &mut Connection,
        request: &str,
        death: Option<Death>,
    ) -> Option<Value> {
        let victim = matches!(death, Some(Death::KilledHavingAsked)).then(|| id(connection));
        connection.send(&encode(&[words(request)])).expect("the server listens");
        match (death, victim) {
            (Some(Death::HavingAsked), _) => return None,
            (_, Some(victim)) => {
                self.server.unix().call(&format!("CLIENT KILL ID {victim}"));
                return None;
            }
            _ => {}
        }
        Some(connection.read().expect("the server answers").value)
    }
}

/// Returns whether the group has read all, and nothing is pending.
fn is_done(connection: &mut Connection) -> bool {
    let Value::Array(pending) = connection.call("XPENDING k g") else { panic!("no group") };
    let Value::Array(groups) = connection.call("XINFO GROUPS k") else { panic!("no groups") };
    let Value::Array(fields) = &groups[0] else { panic!("no fields: {groups:?}") };
    let lag = fields.iter().position(|field| field.as_bytes() == Some(b"lag"));
    let lag = &fields[lag.expect("a group has one") + 1];
    [&pending[0], lag].iter().all(|number| **number == Value::Integer(0))
}

/// Returns the identities of the entries in a reply of XAUTOCLAIM or of XREADGROUP.
fn ids(reply: &Value, is_claim: bool) -> Vec<String> {
    let entries = match reply {
        Value::Array(parts) if is_claim => &parts[1],
        Value::Array(streams) => match &streams[0] {
            Value::Array(stream) => &stream[1],
            other => panic!("no stream: {other:?}"),
        },
        Value::NullArray => return Vec::new(),
        other => panic!("no entries: {other:?}"),
    };
    let Value::Array(entries) = entries else { panic!("no entries: {entries:?}") };
    let id = |entry: &Value| match entry {
        Value::Array(parts) => String::from_utf8_lossy(parts[0].as_bytes().expect("an id")).into(),
        other => panic!("no entry: {other:?}"),
    };
    entries.iter().map(id).collect()
}

#[test]
fn consumers_killed_at_any_step_lose_no_entry() {
    let entries = number("FOREBAY_CONSUMED_ENTRIES").unwrap_or(ENTRIES_DEFAULT);
    let seed = number("FOREBAY_CONSUMERS_SEED").unwrap_or(1);
    println!("FOREBAY_CONSUMERS_SEED={seed}");
    let server = Launch::new(Kind::Forebay).option("workers", "2").start();
    let mut producer = server.tcp();
    producer.call("XGROUP CREATE k g 0 MKSTREAM");
    let (is_full, deaths) = (AtomicBool::new(false), AtomicU64::new(0));
    let consumers = Consumers { server: &server, is_full, deaths };
    let processed: Vec<Vec<String>> = thread::scope(|scope| {
        let living: Vec<_> = (0..CONSUMERS)
            .map(|number| {
                let consumers = &consumers;
                scope.spawn(move || consumers.consume(number, seed))
            })
            .collect();
        for number in 1..=entries {
            producer.call(&format!("XADD k {number}-1 f v"));
        }
        consumers.is_full.store(true, Ordering::Relaxed);
        living.into_iter().map(|one| one.join().expect("no consumer failed")).collect()
    });
    let times = processed.iter().map(Vec::len).sum::<usize>();
    let all: BTreeSet<&String> = processed.iter().flatten().collect();
    let expected: BTreeSet<String> = (1..=entries).map(|number| format!("{number}-1")).collect();
    assert!(all.iter().copied().eq(expected.iter()), "{} of {entries}", all.len());
    assert_eq!(producer.call("XLEN k"), Value::Integer(entries as i64));
    assert!(is_done(&mut producer));
    let deaths = consumers.deaths.into_inner();
    println!("{entries} entries were processed {times} times, {deaths} consumers died");
    assert!(deaths > entries / 100);
    assert_healthy(&server);
}
