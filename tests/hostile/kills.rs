//! Clients that are killed while they hold all that a client can hold, each with a child that keeps
//! its socket open: nothing stays of what they had, and others are answered as if they had not
//! been.
//!
//! `FOREBAY_KILLS` sets how many are killed. How long it takes, and how long others wait meanwhile,
//! is measured by `forebay-bench kills`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::prng::Prng;
use harness::{
    Connection, Dialogue, Kind, Launch, Server, command, info_field, number, poll_until, request,
};
use resp::Value;

use super::{AtEnd, assert_healthy};
use crate::victims::{PEER, prepare};

const KILLS_DEFAULT: u64 = 12;
/// Victims that live at once.
const BATCH: usize = 12;
/// The most steps that a victim takes before it is killed.
const STEPS_MAX: u64 = 24;

/// A client that waits to be killed.
struct Victim {
    /// Its child keeps the socket until this is dropped.
    dialogue: Dialogue,
    held: Held,
}

impl Victim {
    fn start(server: &Server, steps: u64) -> Victim {
        let mut program = command(PEER);
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

/// Asks without a pause in two ways, and is answered as if nobody else was there.
pub fn ask_on(server: &Server, is_over: &AtomicBool) {
    let mut ways = [server.unix(), server.lane(65_536)];
    let mut round = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        for way in &mut ways {
            round += 1;
            let value = round.to_string();
            let requests = [request(&["SET", "others", &value]), request(&["GET", "others"])];
            assert_eq!(way.pipeline(&requests)[1].value, Value::Bulk(value.into_bytes()));
        }
    }
}

/// Kills as many victims as there are `steps`, one by one, and sees that what each had goes alone.
fn run_batch(server: &Server, watcher: &mut Connection, steps: &[u64]) {
    let victims = steps.iter().map(|steps| Victim::start(server, *steps));
    let mut victims: Vec<Victim> = victims.collect();
    let mut held = Held::by(watcher);
    for victim in &mut victims {
        held = held.without(victim.held);
        victim.dialogue.program().kill();
        poll_until("what a dead client had to be gone", || Held::by(watcher) == held);
    }
}

#[test]
fn killed_clients_leave_nothing_and_others_notice_nothing() {
    let count = number("FOREBAY_KILLS").unwrap_or(KILLS_DEFAULT) as usize;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let key_count = prepare(&server);
    let (mut watcher, is_over) = (server.unix(), AtomicBool::new(false));
    let mut random = Prng::new(1);
    let steps: Vec<u64> = (0..count as u64)
        .map(|index| if index <= STEPS_MAX { index } else { random.below(STEPS_MAX + 1) })
        .collect();
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask_on(&server, &is_over));
        let end = AtEnd(&is_over);
        poll_until("the others to begin", || watcher.info("shm_lanes") == 1);
        let before = (Held::by(&mut watcher), watcher.info("connected_clients"));
        for batch in steps.chunks(BATCH) {
            run_batch(&server, &mut watcher, batch);
            poll_until("their connections to end", || {
                (Held::by(&mut watcher), watcher.info("connected_clients")) == before
            });
        }
        drop(end);
        asking.join().expect("the others notice nothing");
    });
    poll_until("the last lane to end", || watcher.info("shm_lanes") == 0);
    for field in ["shm_sessions", "shm_pins", "shm_lane_bytes", "shm_lane_errors"] {
        assert_eq!(watcher.info(field), 0, "{field}");
    }
    assert_eq!(watcher.info("connected_clients"), 1);
    let keys = Value::Integer(key_count as i64 + 1);
    assert_eq!(watcher.call("DBSIZE"), keys, "half a transaction is none");
    assert_healthy(&server);
}
