//! Clients that are killed while they hold all that a client can hold, each with a child that keeps
//! its socket open: what becomes of what they had, how soon, and what others notice of it.
//!
//! `FOREBAY_KILLS` sets how many are killed. Times are printed and are no part of the promise.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::prng::Prng;
use harness::{Connection, Kind, Launch, Program, Server, bytes, command, poll_until, request};
use resp::Value;

use super::lanes::number;
use super::{AtEnd, assert_healthy};

const KILLS_DEFAULT: u64 = 12;
/// Victims that live at once.
const BATCH: usize = 12;
/// The most steps that a victim takes before it is killed.
const STEPS_MAX: u64 = 24;
/// Looks at the server after each kill, a millisecond apart; as many where nobody is killed.
const LOOKS: u32 = 10;
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// How soon what a dead client had is to be gone.
const BOUND_MS: f64 = 100.0;
/// How much later than without kills others are to be answered at most: 10 %.
const SLOWER_MAX: f64 = 1.1;

/// A client that waits to be killed.
struct Victim {
    program: Program,
    held: Held,
    /// Its child keeps the socket until this is closed.
    _input: ChildStdin,
}

impl Victim {
    fn start(server: &Server, steps: u64) -> Victim {
        let mut program = command(env!("CARGO_BIN_EXE_forebay-peer"));
        program.arg("victim").arg(server.socket()).arg(steps.to_string());
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program::start(program).expect("the peer starts");
        let (input, output) = (program.input(), program.output());
        let line = BufReader::new(output).lines().next();
        let line = line.expect("it says when it is ready").expect("in text");
        let words: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [sessions, pins, lanes] = words[..] else { panic!("{line}") };
        Victim { program, held: Held { sessions, pins, lanes }, _input: input }
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
        let field = |name| info(watcher, name);
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

/// Returns a field of INFO that is a number.
fn info(watcher: &mut Connection, name: &str) -> u64 {
    let reply = watcher.call("INFO shm clients memory");
    let text = String::from_utf8_lossy(reply.as_bytes().expect("INFO is a text")).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.expect("a field of INFO").trim().parse().expect("a number")
}

/// The windows in which the others' requests are counted.
const WITHOUT_KILLS: usize = 0;
const WITH_KILLS: usize = 1;
const BETWEEN: usize = 2;

/// Asks without a pause in two ways, and notes what each request took by the `window` in which it
/// began.
fn ask_on(server: &Server, window: &AtomicUsize, is_over: &AtomicBool) -> [Vec<u64>; 2] {
    let mut ways = [server.unix(), server.lane(65_536)];
    let (mut times, mut round) = ([Vec::new(), Vec::new()], 0_u64);
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
                times[began_in].push(took);
            }
        }
    }
    times
}

/// Looks at the server for a while, as often whatever it sees; and on, until it sees `expected`.
/// Returns after how many milliseconds it did first.
fn watch(watcher: &mut Connection, since: Instant, expected: Held) -> f64 {
    let (mut found, mut looks) = (None, 0);
    poll_until("what a dead client had to be gone", || {
        while looks < LOOKS {
            looks += 1;
            if found.is_none() && Held::by(watcher) == expected {
                found = Some(since.elapsed().as_secs_f64() * 1e3);
            }
            harness::let_pass(LOOK_INTERVAL);
        }
        looks = 0;
        found.is_some()
    });
    found.expect("it was seen")
}

/// Lets a batch of victims live for a while, then kills them one by one. Returns the milliseconds
/// after which nothing of each was left.
fn run_batch(
    server: &Server,
    watcher: &mut Connection,
    window: &AtomicUsize,
    steps: &[u64],
) -> Vec<f64> {
    let mut victims: Vec<Victim> =
        steps.iter().map(|steps| Victim::start(server, *steps)).collect();
    let mut held = Held::by(watcher);
    window.store(WITHOUT_KILLS, Ordering::Relaxed);
    for _ in &victims {
        watch(watcher, Instant::now(), held);
    }
    window.store(WITH_KILLS, Ordering::Relaxed);
    let kill = |victim: &mut Victim| {
        held = held.without(victim.held);
        let since = Instant::now();
        victim.program.kill();
        watch(watcher, since, held)
    };
    let times = victims.iter_mut().map(kill).collect();
    window.store(BETWEEN, Ordering::Relaxed);
    times
}

#[test]
fn killed_clients_leave_nothing_and_others_notice_nothing() {
    let count = number("FOREBAY_KILLS").unwrap_or(KILLS_DEFAULT) as usize;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let mut watcher = server.unix();
    for index in 0..harness::VICTIM_KEYS {
        let key = format!("{}{index}", harness::VICTIM_PREFIX);
        watcher.ask(&request(&[b"SET", key.as_bytes(), &bytes(1, 9000)]));
    }
    watcher.ask(&request(&[b"SET", b"large".as_slice(), &bytes(2, 100_000)]));
    let (window, is_over) = (AtomicUsize::new(BETWEEN), AtomicBool::new(false));
    let mut random = Prng::new(1);
    let steps: Vec<u64> = (0..count as u64)
        .map(|index| if index <= STEPS_MAX { index } else { random.below(STEPS_MAX + 1) })
        .collect();
    let (mut gone_ms, mut others) = (Vec::new(), [Vec::new(), Vec::new()]);
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask_on(&server, &window, &is_over));
        let end = AtEnd(&is_over);
        poll_until("the others to begin", || info(&mut watcher, "shm_lanes") == 1);
        let before = (Held::by(&mut watcher), info(&mut watcher, "connected_clients"));
        for steps in steps.chunks(BATCH) {
            gone_ms.extend(run_batch(&server, &mut watcher, &window, steps));
            poll_until("their connections to end", || {
                (Held::by(&mut watcher), info(&mut watcher, "connected_clients")) == before
            });
        }
        drop(end);
        others = asking.join().expect("the others notice nothing");
    });
    poll_until("the last lane to end", || info(&mut watcher, "shm_lanes") == 0);
    for field in ["shm_sessions", "shm_pins", "shm_lane_bytes", "shm_lane_errors"] {
        assert_eq!(info(&mut watcher, field), 0, "{field}");
    }
    assert_eq!(info(&mut watcher, "connected_clients"), 1);
    let keys = harness::VICTIM_KEYS as i64 + 2;
    assert_eq!(watcher.call("DBSIZE"), Value::Integer(keys), "half a transaction is none");
    assert_healthy(&server);
    report(gone_ms, others);
}

fn report(mut gone_ms: Vec<f64>, mut others: [Vec<u64>; 2]) {
    gone_ms.sort_by(f64::total_cmp);
    let at = |share: f64| gone_ms[((gone_ms.len() - 1) as f64 * share) as usize];
    let verdict = |is_met: bool| if is_met { "met" } else { "NOT MET" };
    println!(
        "{} clients killed; pins, lanes and sessions gone after {:.1} ms (median), {:.1} ms (p99), \
         {:.1} ms at most; bound {BOUND_MS} ms: {}",
        gone_ms.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        verdict(at(1.0) <= BOUND_MS),
    );
    let counts = others.each_ref().map(Vec::len);
    others.iter_mut().for_each(|times| times.sort_unstable());
    let us = |times: &[u64], share: f64| {
        times.get((times.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(0)
            as f64
            / 1e3
    };
    let [without, with] = others.each_ref().map(|times| us(times, 0.99));
    let [median_without, median_with] = others.each_ref().map(|times| us(times, 0.5));
    println!(
        "other sessions, SET and GET in one, {} without kills and {} with: p99 {without:.1} us and \
         {with:.1} us, {:.3}; bound {SLOWER_MAX}: {}; medians {median_without:.1} us and \
         {median_with:.1} us",
        counts[WITHOUT_KILLS],
        counts[WITH_KILLS],
        with / without,
        verdict(with <= SLOWER_MAX * without),
    );
}
