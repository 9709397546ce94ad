//! Clients that are killed while they hold all that a client can hold, each with a child that keeps
//! its socket open: how soon all of it is released, and how it affects others.
//!
//! `FOREBAY_KILLS` sets how many are killed. Times are printed and are no part of the promise.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::prng::Prng;
use harness::{
    Connection, Dialogue, Kind, Launch, Server, bytes, command, info_field, number, poll_until,
    request,
};
use resp::Value;

use super::script::{report, verdict};
use super::{AtEnd, assert_healthy};

const KILLS_DEFAULT: u64 = 12;
/// Victims that live at once.
const BATCH: usize = 12;
/// The most steps that a victim takes before it is killed.
const STEPS_MAX: u64 = 24;
/// Looks at the server after each kill, a millisecond apart: so there are some 20 kills a second.
const LOOKS: u32 = 50;
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// How much later others are to be answered at most than while other servers' clients are killed:
/// 10 %.
const SLOWER_MAX: f64 = 1.1;

/// A client that waits to be killed.
struct Victim {
    /// Its child keeps the socket until this is dropped.
    dialogue: Dialogue,
    held: Held,
}

impl Victim {
    fn start(server: &Server, steps: u64) -> Victim {
        let mut program = command(env!("CARGO_BIN_EXE_forebay-peer"));
        program.arg("victim").arg(server.socket()).arg(steps.to_string());
        let mut dialogue = Dialogue::start(program);
        let line = dialogue.line();
        let words: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [sessions, pins, lanes] = words[..] else { panic!("{line}") };
        Victim { dialogue, held: Held { sessions, pins, lanes } }
    }
}

/// What sessions of shared memory hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    sessions: u64,
    pins: u64,
    lanes: u64,
}

impl Held {
    fn by(watcher: &mut Connection) -> Held {
        let text = watcher.info_text("shm");
        let field = |name| info_field(&text, name);
        let [sessions, pins, lanes] = ["shm_sessions", "shm_pins", "shm_lanes"].map(field);
        Held { sessions, pins, lanes }
    }

    fn without(self, gone: Held) -> Held {
        Held {
            sessions: self.sessions - gone.sessions,
            pins: self.pins - gone.pins,
            lanes: self.lanes - gone.lanes,
        }
    }
}

/// Of each batch, the windows in which the others' requests are counted: while clients of another
/// server are killed, which costs the machine as much, and while those of theirs are.
const ELSEWHERE: usize = 0;
const HERE: usize = 1;
/// No window.
const BETWEEN: usize = usize::MAX;

/// What the others' requests took, in nanoseconds, by batch and window.
type Times = Vec<[Vec<u64>; 2]>;

/// Asks without a pause in two ways, and notes what each request took by the `window` in which it
/// began: twice the number of the batch, and that of the window.
fn ask_on(server: &Server, batches: usize, window: &AtomicUsize, is_over: &AtomicBool) -> Times {
    let mut ways = [server.unix(), server.lane(65_536)];
    let (mut times, mut round) = (vec![[Vec::new(), Vec::new()]; batches], 0_u64);
    while !is_over.load(Ordering::Relaxed) {
        for way in &mut ways {
            round += 1;
            let value = round.to_string();
            let requests = [request(&["SET", "others", &value]), request(&["GET", "others"])];
            let (began_in, began) = (window.load(Ordering::Relaxed), Instant::now());
            let replies = way.pipeline(&requests);
            let took = began.elapsed().as_nanos() as u64;
            assert_eq!(replies[1].value, Value::Bulk(value.into_bytes()));
            if began_in != BETWEEN {
                times[began_in / 2][began_in % 2].push(took);
            }
        }
    }
    times
}

/// Looks at the server for a while, as often whatever it sees; and on, until it sees `expected`.
/// Returns how long after `since` it did first.
fn watch(watcher: &mut Connection, since: Instant, expected: Held) -> Duration {
    let (mut found, mut looks) = (None, 0);
    poll_until("what a dead client had to be gone", || {
        while looks < LOOKS {
            looks += 1;
            if found.is_none() && Held::by(watcher) == expected {
                found = Some(since.elapsed());
            }
            harness::let_pass(LOOK_INTERVAL);
        }
        looks = 0;
        found.is_some()
    });
    found.expect("it was seen")
}

/// Kills the victims of batch `index` one by one, and as many clients of `another` server, in turn
/// before them or after. Returns how soon nothing of each victim was left.
fn run_batch(
    server: &Server,
    another: &Server,
    watcher: &mut Connection,
    window: &AtomicUsize,
    (index, steps): (usize, &[u64]),
) -> Vec<Duration> {
    let start = |server: &Server| -> Vec<Victim> {
        steps.iter().map(|steps| Victim::start(server, *steps)).collect()
    };
    let (mut victims, mut strangers) = (start(server), start(another));
    let (mut held, mut times) = (Held::by(watcher), Vec::new());
    let order = if index.is_multiple_of(2) { [ELSEWHERE, HERE] } else { [HERE, ELSEWHERE] };
    for which in order {
        window.store(2 * index + which, Ordering::Relaxed);
        for victim in if which == HERE { &mut victims } else { &mut strangers } {
            if which == HERE {
                held = held.without(victim.held);
            }
            let since = Instant::now();
            victim.dialogue.program().kill();
            let took = watch(watcher, since, held);
            if which == HERE {
                times.push(took);
            }
        }
    }
    window.store(BETWEEN, Ordering::Relaxed);
    times
}

/// Starts a server with the keys that victims use.
fn start() -> Server {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let mut client = server.unix();
    for index in 0..harness::VICTIM_KEYS {
        let key = format!("{}{index}", harness::VICTIM_PREFIX);
        client.ask(&request(&[b"SET", key.as_bytes(), &bytes(1, 9000)]));
    }
    client.ask(&request(&[b"SET", b"large".as_slice(), &bytes(2, 100_000)]));
    server
}

#[test]
fn killed_clients_leave_nothing_and_others_notice_nothing() {
    let count = number("FOREBAY_KILLS").unwrap_or(KILLS_DEFAULT) as usize;
    let (server, another) = (start(), start());
    let mut watcher = server.unix();
    let (window, is_over) = (AtomicUsize::new(BETWEEN), AtomicBool::new(false));
    let mut random = Prng::new(1);
    let steps: Vec<u64> = (0..count as u64)
        .map(|index| if index <= STEPS_MAX { index } else { random.below(STEPS_MAX + 1) })
        .collect();
    let (mut gone, mut others) = (Vec::new(), Times::new());
    let batches = steps.len().div_ceil(BATCH);
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask_on(&server, batches, &window, &is_over));
        let end = AtEnd(&is_over);
        poll_until("the others to begin", || watcher.info("shm_lanes") == 1);
        let before = (Held::by(&mut watcher), watcher.info("connected_clients"));
        for batch in steps.chunks(BATCH).enumerate() {
            gone.extend(run_batch(&server, &another, &mut watcher, &window, batch));
            poll_until("their connections to end", || {
                (Held::by(&mut watcher), watcher.info("connected_clients")) == before
            });
        }
        drop(end);
        others = asking.join().expect("the others notice nothing");
    });
    poll_until("the last lane to end", || watcher.info("shm_lanes") == 0);
    for field in ["shm_sessions", "shm_pins", "shm_lane_bytes", "shm_lane_errors"] {
        assert_eq!(watcher.info(field), 0, "{field}");
    }
    assert_eq!(watcher.info("connected_clients"), 1);
    let keys = harness::VICTIM_KEYS as i64 + 2;
    assert_eq!(watcher.call("DBSIZE"), Value::Integer(keys), "half a transaction is none");
    assert_healthy(&server);
    report("their pins, lanes and sessions", gone);
    report_others(others);
}

/// Prints how much later others were answered while clients of their server were killed, batch by
/// batch: what else the machine does falls on both windows of a batch.
fn report_others(mut others: Times) {
    others.iter_mut().flatten().for_each(|times| times.sort_unstable());
    let us = |times: &[u64], share: f64| match times.len() {
        0 => f64::NAN,
        count => times[((count - 1) as f64 * share) as usize] as f64 / 1e3,
    };
    for (name, share) in [("median", 0.5), ("p99", 0.99)] {
        let column = |window: usize| {
            let mut column: Vec<f64> =
                others.iter().map(|batch| us(&batch[window], share)).collect();
            middle(&mut column)
        };
        let ratio = |batch: &[Vec<u64>; 2]| us(&batch[HERE], share) / us(&batch[ELSEWHERE], share);
        let mut ratios: Vec<f64> = others.iter().map(ratio).collect();
        let ratio = middle(&mut ratios);
        println!(
            "other sessions, SET and GET in one, {name}: {:.1} us while clients of another server \
             are killed, {:.1} us while this one's are; ratio {ratio:.3}, the median of {} pairs \
             from {:.3} to {:.3}; bound {SLOWER_MAX}: {}",
            column(ELSEWHERE),
            column(HERE),
            ratios.len(),
            ratios[0],
            ratios[ratios.len() - 1],
            verdict(ratio <= SLOWER_MAX),
        );
    }
}

/// Sorts `numbers` and returns the one in the middle.
fn middle(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
