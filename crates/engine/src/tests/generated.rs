//! The replay property over commands: requests generated from the rows, by one client and by four.

use std::sync::atomic::{AtomicI64, Ordering};

use super::awaits::wake;
use super::*;
use command::generate::{Draw, Generator, Profile};
use command::{Command, Flags, Handler, Wake, rows};

/// Histories per test: a few in a debug build, where each takes a second. The environment may ask
/// for more.
const HISTORY_COUNT: u64 = if cfg!(debug_assertions) { 3 } else { 40 };
const REQUESTS_PER_CLIENT: u32 = 3000;

/// What ends the session, or stops the process, has no place in a history.
const LEFT_OUT: [&str; 8] =
    ["quit", "shutdown", "debug|sleep", "reset", "monitor", "wait", "waitaof", "await"];

fn drawn() -> Vec<&'static Command> {
    let runs = |row: &&Command| !matches!(row.handler, Handler::Container);
    let rows: Vec<&Command> =
        rows().filter(runs).filter(|row| !LEFT_OUT.contains(&row.name)).collect();
    assert!(rows.len() > 60);
    rows
}

/// Writes come more often than what only looks; what empties everything seldom.
fn draw(rows: &[&'static Command], random: &mut Prng) -> &'static Command {
    loop {
        let row = random.pick(rows);
        let keep = match row.name {
            "flushall" | "flushdb" => random.one_in(40),
            "swapdb" | "select" => random.one_in(8),
            "multi" | "exec" | "watch" => true,
            _ => row.is(Flags::WRITE) || random.one_in(4),
        };
        if keep {
            return row;
        }
    }
}

/// A request that makes a key, or a field, expire soon: the rows' integers are drawn from all there
/// are, of which few are times to live. Or one on a stream whose identities are times.
fn short_lived(random: &mut Prng) -> Vec<Vec<u8>> {
    let [key, ms] = [60, 2000].map(|bound| random.below(bound));
    let field = random.pick(&["a", "b", "alpha", "7"]);
    let text = match random.below(12) {
        4 => format!("HSETEX key:{key} PX {ms} FIELDS 1 {field} value"),
        5 => format!("HPEXPIRE key:{key} {ms} FIELDS 2 {field} c"),
        6 => format!("HGETEX key:{key} PX {ms} FIELDS 1 {field}"),
        7 => format!("HINCRBY key:{key} {field} {ms}"),
        8 => format!("XADD stream:{} * {field} {ms}", key % 5),
        9 => format!("XREADGROUP GROUP g {field} COUNT 3 STREAMS stream:{} >", key % 5),
        10 => format!("XGROUP CREATE stream:{} g 0 MKSTREAM", key % 5),
        11 => format!("XAUTOCLAIM stream:{} g {field} 100 - COUNT 2", key % 5),
        0 => format!("SET key:{key} value PX {}", ms + 1),
        1 => format!("PEXPIRE key:{key} {ms}"),
        2 => format!("GETEX key:{key} PX {}", ms + 1),
        _ => format!("PSETEX key:{key} {} value", ms + 1),
    };
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn act(client: &mut Client<'_>, rows: &[&'static Command], seed: u64, clock: &AtomicI64) {
    let profile = Profile { key_count: 60, value_bytes_max: 6000, invalid_one_in: 50 };
    let mut generator = Generator::new(profile, seed);
    let mut random = Prng::new(seed);
    for _ in 0..REQUESTS_PER_CLIENT {
        let step = clock.fetch_add(random.below(500) as i64, Ordering::Relaxed);
        client.execution.now = UnixMs(step);
        let request = match random.below(8) {
            0 => short_lived(&mut random),
            _ => generator.request(draw(rows, &mut random)),
        };
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::new();
        encode_command(&words, &mut bytes);
        if client.run_bytes(&mut bytes, 0).1.status == SessionStatus::Blocked {
            // Another client may have served it by then.
            std::thread::yield_now();
            wake(client, Wake::TimedOut);
        }
        if random.one_in(50) {
            let keyspace = client.engine.keyspace();
            for shard in keyspace.shard_indexes() {
                keyspace.expire_step(shard, UnixMs(step), 10);
            }
        }
    }
}

fn check(seed: u64, client_count: u64, maxmemory_spare: Option<u64>) -> Engine {
    let engine = Engine::new(keyspace(64));
    let sink = recording_of(engine.keyspace());
    if let Some(spare) = maxmemory_spare {
        engine.keyspace().set_eviction_policy(policy_of(seed));
        engine.keyspace().set_maxmemory(engine.keyspace().used_memory() + spare);
    }
    let host = TestHost { allows_debug: true, ..TestHost::default() };
    let (rows, clock) = (drawn(), AtomicI64::new(NOW.0));
    std::thread::scope(|scope| {
        for number in 0..client_count {
            let (engine, host, rows, clock) = (&engine, &host, &rows, &clock);
            scope.spawn(move || {
                let mut client = Client::new(engine, host);
                act(&mut client, rows, seed * 100 + number, clock);
            });
        }
    });
    assert_same_data(&replayed(&sink), engine.keyspace());
    let carried = super::restore::carried_over(engine.keyspace());
    assert_same_data(&carried, engine.keyspace());
    engine
}

#[test]
fn commands_of_one_client_replay_to_the_same_dataset() {
    let of = |seed| check(seed, 1, None).keyspace().counters().changes;
    assert!(check_histories(HISTORY_COUNT, of) > 300);
}

#[test]
fn commands_of_four_clients_replay_to_the_same_dataset() {
    let of = |seed| {
        let counters = check(seed, 4, None).keyspace().counters();
        counters.expired_keys.min(counters.expired_fields)
    };
    assert!(check_histories(HISTORY_COUNT, of) > 10);
}

#[test]
fn commands_of_four_clients_under_eviction_replay_to_the_same_dataset() {
    let of = |seed| check(seed, 4, Some(1 << 20)).keyspace().counters().evicted_keys;
    assert!(check_histories(HISTORY_COUNT, of) > 10);
}
