//! Two sessions that wait for one key, and one element that comes: exactly one of them gets it, and
//! none is lost, also where the one that is served is killed at that moment.
//!
//! The two wait over any two transports, with two workers, while others ask without a pause.
//! `FOREBAY_BLOCKED_ROUNDS` sets how often.

use std::sync::atomic::AtomicBool;
use std::thread;

use base::prng::Prng;
use harness::{
    Connection, Dialogue, Kind, Launch, Request, Server, command, number, poll_until, words,
};
use resp::Value;

use super::kills::ask_on;
use super::{AtEnd, assert_healthy};
use crate::compat::sessions::{flags, id};
use crate::victims::PEER;

const ROUNDS_DEFAULT: u64 = 1500;
const RING_BYTES: u64 = 4096;
/// A round in so many looks that both wait before an element comes.
const SURE_ONE_IN: u64 = 40;
/// A round in so many kills one of both.
const KILLS_ONE_IN: u64 = 25;
/// One in so many kills is that of a process.
const PROCESSES_ONE_IN: u64 = 12;

/// A request that waits for an element of `k`, what adds one, what shows all, and whether it is
/// moved: to the same shard, or to one that the session has to lock by itself, so that what comes
/// meanwhile may come first (docs/decisions/0013-outcomes.md).
struct Family {
    wait: &'static str,
    add: fn(&str) -> String,
    range: &'static str,
    is_move: bool,
    is_apart: bool,
}

impl Family {
    const fn of_lists(wait: &'static str) -> Family {
        let range = "LRANGE k 0 -1";
        Family { wait, add: to_list, range, is_move: false, is_apart: false }
    }

    const fn of_sorted_sets(wait: &'static str) -> Family {
        let range = "ZRANGE k 0 -1";
        Family { wait, add: to_sorted_set, range, is_move: false, is_apart: false }
    }

    const fn moving(self) -> Family {
        Family { is_move: true, ..self }
    }

    /// Where a move puts its elements.
    fn target(&self) -> &'static str {
        if self.is_apart { "target" } else { "{k}target" }
    }

    const fn apart(self) -> Family {
        Family { is_apart: true, ..self }
    }
}

const FAMILIES: [Family; 9] = [
    Family::of_lists("BLPOP k 0"),
    Family::of_lists("BRPOP none k 0"),
    Family::of_lists("BLMPOP 0 2 k none LEFT"),
    Family::of_lists("BLMOVE k {k}target LEFT RIGHT 0").moving(),
    Family::of_lists("BRPOPLPUSH k {k}target 0").moving(),
    Family::of_lists("BLMOVE k target LEFT RIGHT 0").moving().apart(),
    Family::of_sorted_sets("BZPOPMIN k 0"),
    Family::of_sorted_sets("BZPOPMAX none k 0"),
    Family::of_sorted_sets("BZMPOP 0 1 k MIN"),
];

fn to_list(element: &str) -> String {
    format!("RPUSH k {element}")
}

fn to_sorted_set(element: &str) -> String {
    format!("ZADD k 1 {element}")
}

/// A session that waits, again and again.
struct Waiter {
    connection: Connection,
    id: i64,
}

impl Waiter {
    fn over(mut connection: Connection) -> Waiter {
        let id = id(&mut connection);
        Waiter { connection, id }
    }

    fn new(server: &Server, random: &mut Prng) -> Waiter {
        Waiter::over(match random.below(3) {
            0 => server.tcp(),
            1 => server.unix(),
            _ => server.lane(RING_BYTES),
        })
    }

    fn wait(&mut self, family: &Family) {
        let request = harness::encode(&[words(family.wait)]);
        self.connection.send(&request).expect("the server takes requests");
    }

    /// Returns which of `elements` its reply has, which is one at most; none where it ended.
    fn taken(&mut self, elements: &[String; 2]) -> Option<usize> {
        let reply = self.connection.read().ok()?;
        let text = String::from_utf8_lossy(&reply.bytes);
        let has = |element: &String| text.split("\r\n").any(|part| part == element);
        match elements.each_ref().map(has) {
            [true, true] => panic!("one request takes one element: {text}"),
            [true, false] => Some(0),
            [false, true] => Some(1),
            [false, false] => None,
        }
    }
}

/// How one of both ends.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// CLIENT KILL, then the element, in one write.
    BeforeTheElement,
    /// The element, then CLIENT KILL, in one write.
    AfterTheElement,
    /// Both at once.
    ByAnother,
    /// It closes its connection as the element comes.
    ByItself,
}

const DEATHS: [Death; 4] =
    [Death::BeforeTheElement, Death::AfterTheElement, Death::ByAnother, Death::ByItself];

struct Rounds<'s> {
    server: &'s Server,
    random: Prng,
    /// Who adds elements, and who kills.
    filler: Connection,
    killer: Connection,
    waiters: [Waiter; 2],
    round: u64,
    deaths: u64,
    processes: u64,
    /// Elements that the dead may have got, or may not.
    unheard: u64,
}

impl<'s> Rounds<'s> {
    fn new(server: &'s Server, seed: u64) -> Rounds<'s> {
        let mut random = Prng::new(seed);
        let waiters = [(); 2].map(|()| Waiter::new(server, &mut random));
        let (filler, killer) = (server.lane(65_536), server.unix());
        let (round, deaths, processes, unheard) = (0, 0, 0, 0);
        Rounds { server, random, filler, killer, waiters, round, deaths, processes, unheard }
    }

    fn run(&mut self) {
        self.round += 1;
        let family = &FAMILIES[self.random.below(FAMILIES.len() as u64) as usize];
        let elements = ["one", "two"].map(|name| format!("{name}:{}", self.round));
        if self.random.one_in(KILLS_ONE_IN) {
            return self.kill(family, &elements);
        }
        self.waiters.iter_mut().for_each(|waiter| waiter.wait(family));
        if !family.is_apart && self.random.one_in(SURE_ONE_IN) {
            return self.serve_one(family, &elements);
        }
        let adds = elements.each_ref().map(|element| words(&(family.add)(element)));
        match self.random.one_in(2) {
            true => drop(self.filler.pipeline(&adds)),
            false => adds.iter().for_each(|add| drop(self.filler.ask(add))),
        }
        let mut taken = self.waiters.each_mut().map(|waiter| waiter.taken(&elements));
        taken.sort_unstable();
        assert_eq!(taken, [Some(0), Some(1)], "round {}, {}", self.round, family.wait);
        self.expect_left(family, &elements);
    }

    /// Adds one element where both wait, and ends the wait of the other.
    fn serve_one(&mut self, family: &Family, elements: &[String; 2]) {
        (0..2).for_each(|number| self.see_it_wait(number));
        let mut requests = vec![words(&(family.add)(&elements[0]))];
        let unblock = |waiter: &Waiter| words(&format!("CLIENT UNBLOCK {}", waiter.id));
        requests.extend(self.waiters.iter().map(unblock));
        let replies = self.filler.pipeline(&requests);
        let ended = [&replies[1].value, &replies[2].value];
        let taken = self.waiters.each_mut().map(|waiter| waiter.taken(elements));
        for (ended, taken) in ended.into_iter().zip(taken) {
            let is_served = taken == Some(0);
            assert_eq!(ended, &Value::Integer(i64::from(!is_served)), "round {}", self.round);
        }
        assert_eq!(taken.iter().flatten().count(), 1, "round {}, {}", self.round, family.wait);
        self.expect_left(family, &elements[..1]);
    }

    fn see_it_wait(&mut self, number: usize) {
        let id = self.waiters[number].id;
        poll_until("it to wait", || {
            flags(&mut self.killer, id).is_some_and(|flags| flags.contains('b'))
        });
    }

    /// Checks that nothing is left at the key, and each of `moved` once where moves put them.
    fn expect_left(&mut self, family: &Family, moved: &[String]) {
        let target = family.target();
        let requests =
            ["EXISTS k".to_owned(), format!("LRANGE {target} 0 -1"), format!("DEL {target}")];
        let replies = self.filler.pipeline(&requests.map(|line| words(&line)));
        assert_eq!(replies[0].value, Value::Integer(0), "round {}, {}", self.round, family.wait);
        let mut found = texts(&replies[1].value);
        found.sort();
        let expected: &[String] = if family.is_move { moved } else { &[] };
        assert_eq!(found, expected, "round {}, {}", self.round, family.wait);
    }

    /// Kills the first of both as the element comes. What it gets and does not tell is counted; a
    /// move tells.
    fn kill(&mut self, family: &Family, elements: &[String; 2]) {
        self.deaths += 1;
        if self.random.one_in(PROCESSES_ONE_IN) {
            return self.kill_process(family, elements);
        }
        // It waits first, so that it is served first.
        for number in 0..2 {
            self.waiters[number].wait(family);
            self.see_it_wait(number);
        }
        let death = self.random.pick(&DEATHS);
        let add = words(&(family.add)(&elements[0]));
        let kill = words(&format!("CLIENT KILL ID {}", self.waiters[0].id));
        let new = Waiter::new(self.server, &mut self.random);
        let mut dead = Some(std::mem::replace(&mut self.waiters[0], new));
        match death {
            Death::BeforeTheElement => drop(self.filler.pipeline(&[kill, add])),
            Death::AfterTheElement => drop(self.filler.pipeline(&[add, kill])),
            Death::ByAnother => self.at_once(&kill, &add),
            Death::ByItself => {
                self.filler.send(&harness::encode(&[add])).expect("the server listens");
                dead = None;
                self.filler.read().expect("the server answers");
            }
        }
        let heard = dead.and_then(|mut dead| dead.taken(elements));
        let by_other = self.settle(family, elements);
        match death {
            Death::BeforeTheElement => assert!(heard.is_none() && by_other == 0, "{heard:?}"),
            Death::AfterTheElement if !family.is_apart => {
                assert_eq!(by_other, 1, "round {}", self.round);
            }
            Death::AfterTheElement | Death::ByAnother | Death::ByItself => {}
        }
        assert!(heard.is_none() || by_other == 1, "round {}: both have it", self.round);
    }

    /// Sends both at the same time, on two connections.
    fn at_once(&mut self, kill: &Request, add: &Request) {
        let [kill, add] = [kill, add].map(|request| harness::encode(std::slice::from_ref(request)));
        self.killer.send(&kill).expect("the server listens");
        self.filler.send(&add).expect("the server listens");
        self.killer.read().expect("the server answers");
        self.filler.read().expect("the server answers");
    }

    /// As [`Rounds::kill`], where the first of both is a process of its own.
    fn kill_process(&mut self, family: &Family, elements: &[String; 2]) {
        self.processes += 1;
        let transport = if self.random.one_in(2) { "lane" } else { "unix" };
        let mut program = command(PEER);
        program.arg("wait").arg(self.server.socket()).args([transport, family.wait]);
        let mut peer = Dialogue::start(program);
        let id = peer.line().parse().expect("it says its id first");
        poll_until("it to wait", || {
            flags(&mut self.killer, id).is_some_and(|flags| flags.contains('b'))
        });
        self.waiters[1].wait(family);
        self.see_it_wait(1);
        let add = harness::encode(&[words(&(family.add)(&elements[0]))]);
        if self.random.one_in(2) {
            peer.program().kill();
            self.filler.send(&add).expect("the server listens");
        } else {
            self.filler.send(&add).expect("the server listens");
            peer.program().kill();
        }
        self.filler.read().expect("the server answers");
        self.settle(family, elements);
    }

    /// Adds the second element, for which the other of both may have to wait; returns which it got,
    /// and checks that there is one of each.
    fn settle(&mut self, family: &Family, elements: &[String; 2]) -> usize {
        self.filler.ask(&words(&(family.add)(&elements[1])));
        let round = self.round;
        let taken = self.waiters[1].taken(elements).expect("who lives is served");
        let target = family.target();
        let requests =
            [family.range.to_owned(), format!("LRANGE {target} 0 -1"), format!("DEL k {target}")];
        let mut replies = self.filler.pipeline(&requests.map(|line| words(&line)));
        replies.pop();
        let moved = texts(&replies.pop().expect("there are two").value);
        let left = texts(&replies.pop().expect("there are two").value);
        // Where the living got the first, the second is left; else the dead got the first.
        let expected_left = if taken == 0 { &elements[1..] } else { &[] };
        assert_eq!(left, expected_left, "round {round}, {}", family.wait);
        if family.is_move {
            let mut all = [left, moved].concat();
            all.sort();
            assert_eq!(all, *elements, "round {round}, {}", family.wait);
        }
        self.unheard += u64::from(taken == 1);
        taken
    }
}

fn texts(value: &Value) -> Vec<String> {
    let Value::Array(parts) = value else { panic!("no array: {value:?}") };
    let text = |part: &Value| String::from_utf8_lossy(part.as_bytes().unwrap_or_default()).into();
    parts.iter().map(text).collect()
}

#[test]
fn one_element_goes_to_exactly_one_of_two_that_wait() {
    let rounds = number("FOREBAY_BLOCKED_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    let server = Launch::new(Kind::Forebay).option("workers", "2").start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask_on(&server, &is_over));
        let end = AtEnd(&is_over);
        let mut all = Rounds::new(&server, 1);
        (0..rounds).for_each(|_| all.run());
        println!(
            "{rounds} rounds, {} of them with a death, {} of a process; the dead got {} elements",
            all.deaths, all.processes, all.unheard
        );
        drop(end);
        asking.join().expect("the others notice nothing");
    });
    let mut watcher = server.unix();
    poll_until("all sessions to be gone", || watcher.info("connected_clients") == 1);
    assert_eq!(watcher.info("blocked_clients"), 0);
    assert_healthy(&server);
}
