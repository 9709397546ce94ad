//! Sessions that wait for an element that only one of them can take: which one gets it, and that
//! nothing is lost.
//!
//! A command of these tests, which moves an element to a key that its request does not declare,
//! shows what scripts and BLMOVE need: locks that a command requests while it runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use collections::{End, List};
use command::{
    Args, Arity, Attendance, Flags, Handler, KeyFlags, KeySpec, Pause, Unfinished, Wait, Wake,
    WriteContext,
};
use keyspace::{WaitState, Waiter, WhenAbsent};
use resp::{OwnedRequest, Reply};

use super::awaits::{block, numbered, take_served, try_wake, wake};
use super::*;
use crate::run::Runner;

/// Returns sessions 1 to `count`, each blocked by `request`, in their order.
pub(super) fn blocked<'e>(
    engine: &'e Engine,
    host: &'e TestHost,
    count: u64,
    request: &str,
) -> Vec<Client<'e>> {
    let mut clients: Vec<Client<'_>> = (1..=count).map(|id| numbered(engine, host, id)).collect();
    clients.iter_mut().for_each(|client| block(client, request));
    clients
}

/// One of the commands that take an element of `k` or wait for one.
struct Family {
    /// It waits for `k`.
    wait: &'static str,
    /// It does not wait any longer.
    wait_briefly: &'static str,
    /// Gives `k` three elements; the reply is 3.
    fill: &'static str,
    /// The effects of taking them, one by one.
    effects: [&'static str; 3],
    /// What those who wait are told.
    replies: [&'static str; 3],
    /// The first of them in RESP3.
    third_version: &'static str,
}

const FAMILIES: [Family; 5] = [
    Family {
        wait: "BLPOP none k 0",
        wait_briefly: "BLPOP k 0.5",
        fill: "RPUSH k a b c",
        effects: ["LPOP k 1", "LPOP k 1", "LPOP k 1"],
        replies: ["*2 $1 k $1 a", "*2 $1 k $1 b", "*2 $1 k $1 c"],
        third_version: "*2 $1 k $1 a",
    },
    Family {
        wait: "BRPOP none k 0",
        wait_briefly: "BRPOP k 0.5",
        fill: "RPUSH k a b c",
        effects: ["RPOP k 1", "RPOP k 1", "RPOP k 1"],
        replies: ["*2 $1 k $1 c", "*2 $1 k $1 b", "*2 $1 k $1 a"],
        third_version: "*2 $1 k $1 c",
    },
    Family {
        wait: "BZPOPMIN none k 0",
        wait_briefly: "BZPOPMIN k 0.5",
        fill: "ZADD k 1 a 2 b 2.5 c",
        effects: ["ZREM k a", "ZREM k b", "ZREM k c"],
        replies: ["*3 $1 k $1 a $1 1", "*3 $1 k $1 b $1 2", "*3 $1 k $1 c $3 2.5"],
        third_version: "*3 $1 k $1 a ,1",
    },
    Family {
        wait: "BZPOPMAX none k 0",
        wait_briefly: "BZPOPMAX k 0.5",
        fill: "ZADD k 1 a 2 b 2.5 c",
        effects: ["ZREM k c", "ZREM k b", "ZREM k a"],
        replies: ["*3 $1 k $1 c $3 2.5", "*3 $1 k $1 b $1 2", "*3 $1 k $1 a $1 1"],
        third_version: "*3 $1 k $1 c ,2.5",
    },
    Family {
        wait: "BZMPOP 0 2 none k MIN",
        wait_briefly: "BZMPOP 0.5 1 k MIN",
        fill: "ZADD k 1 a 2 b 2.5 c",
        effects: ["ZREM k a", "ZREM k b", "ZREM k c"],
        replies: [
            "*2 $1 k *1 *2 $1 a $1 1",
            "*2 $1 k *1 *2 $1 b $1 2",
            "*2 $1 k *1 *2 $1 c $3 2.5",
        ],
        third_version: "*2 $1 k *1 *2 $1 a ,1",
    },
];

#[test]
fn what_comes_serves_those_who_wait_in_their_order() {
    for Family { wait, fill, effects, replies, .. } in FAMILIES {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let sink = recording_of(engine.keyspace());
        let mut waiters = blocked(&engine, &host, 4, wait);
        let mut other = numbered(&engine, &host, 9);
        // The reply is what was added before anyone is served.
        other.check(fill, ":3");
        assert_eq!(take_served(&host), [1, 2, 3], "{wait}");
        let recorded = [&[fill][..], &effects].concat();
        assert_eq!(sink.commands(), recorded);
        for (waiter, reply) in waiters.iter_mut().zip(replies) {
            assert_eq!(wake(waiter, Wake::Served), reply);
        }
        other.check("EXISTS k", ":0");
        other.check(fill, ":3");
        assert_eq!(take_served(&host), [4], "{wait}");
        assert_eq!(wake(&mut waiters[3], Wake::Served), replies[0]);
        other.check("EXISTS k", ":1");
        assert_same_data(&replayed(&sink), engine.keyspace());
    }
}

#[test]
fn the_reply_to_who_waited_follows_his_own_protocol_and_record() {
    for Family { wait, wait_briefly, fill, effects, third_version, .. } in FAMILIES {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let sink = recording_of(engine.keyspace());
        let mut waiter = numbered(&engine, &host, 7);
        waiter.run("HELLO 3");
        block(&mut waiter, wait_briefly);
        assert_eq!(wake(&mut waiter, Wake::TimedOut), "_");
        block(&mut waiter, wait);
        numbered(&engine, &host, 9).check(fill, ":3");
        let mut out = Output::default();
        let Client { session, execution, .. } = &mut waiter;
        let release = engine.wake(session, Wake::Served, &mut out, execution);
        let reply = String::from_utf8(out.to_vec()).unwrap();
        assert_eq!(reply.replace("\r\n", " ").trim_end(), third_version);
        assert_eq!(sink.commands(), [fill, effects[0]]);
        assert_eq!(release.expect("it was served").lsn, sink.end());
    }
}

#[test]
fn several_are_taken_at_once_where_several_are_asked_for() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let sink = recording_of(engine.keyspace());
    let mut waiters = blocked(&engine, &host, 3, "BZMPOP 0 2 k l MAX COUNT 2");
    let mut other = numbered(&engine, &host, 9);
    other.check("ZADD l 1 a 2 b 3 c", ":3");
    assert_eq!(take_served(&host), [1, 2]);
    assert_eq!(sink.commands(), ["ZADD l 1 a 2 b 3 c", "ZREM l b c", "ZREM l a"]);
    let reply = wake(&mut waiters[0], Wake::Served);
    assert_eq!(reply, "*2 $1 l *2 *2 $1 c $1 3 *2 $1 b $1 2");
    assert_eq!(wake(&mut waiters[1], Wake::Served), "*2 $1 l *1 *2 $1 a $1 1");
    assert_eq!(wake(&mut waiters[2], Wake::TimedOut), "*-1");
}

#[test]
fn whatever_makes_a_sorted_set_serves_who_waits_for_one() {
    for requests in [
        &["ZADD k 1 a"][..],
        &["ZINCRBY k 1 a"],
        &["ZADD s 1 a", "ZUNIONSTORE k 1 s"],
        &["SADD s a", "ZINTERSTORE k 2 s s WEIGHTS 1 0"],
        &["ZADD s 1 a 2 b", "ZADD t 1 b", "ZDIFFSTORE k 2 s t"],
        &["ZADD s 1 a 2 b", "ZRANGESTORE k s 0 0"],
        &["ZADD s 1 a", "RENAME s k"],
        &["ZADD s 1 a", "RENAMENX s k"],
        &["ZADD s 1 a", "COPY s k"],
        &["SELECT 1", "ZADD s 1 a", "COPY s k DB 0"],
        &["SELECT 1", "ZADD k 1 a", "MOVE k 0"],
        &["SELECT 1", "ZADD k 1 a", "SELECT 0", "SWAPDB 0 1"],
        &["MULTI", "ZADD k 1 a", "SET x v", "EXEC"],
        // In place of another type.
        &["SET k v", "ZADD s 1 a", "ZUNIONSTORE k 1 s"],
        &["RPUSH k v", "ZADD s 1 a", "ZRANGESTORE k s 0 -1"],
        &["SET k v", "ZADD s 1 a", "RENAME s k"],
        &["HSET k f v", "ZADD s 1 a", "COPY s k REPLACE"],
        &["MULTI", "SET k v", "DEL k", "ZADD k 1 a", "EXEC"],
    ] {
        for (wait, reply) in [
            ("BZPOPMIN none k 0", "*3 $1 k $1 a $1 1"),
            ("BZMPOP 0 2 none k MAX COUNT 5", "*2 $1 k *1 *2 $1 a $1 1"),
        ] {
            let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
            let mut waiters = blocked(&engine, &host, 2, wait);
            let mut other = numbered(&engine, &host, 9);
            other.run_all(requests);
            assert_eq!(take_served(&host), [1], "{requests:?}");
            assert_eq!(wake(&mut waiters[0], Wake::Served), reply, "{requests:?}");
            other.run("SELECT 0");
            other.check("EXISTS k", ":0");
        }
    }
}

#[test]
fn what_is_no_sorted_set_leaves_those_waiting_who_want_one() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut waiters = blocked(&engine, &host, 1, "BZPOPMIN k 0");
    let mut lists = numbered(&engine, &host, 2);
    block(&mut lists, "BLPOP k 0");
    let mut other = numbered(&engine, &host, 9);
    other.run_all(&["SET k v", "DEL k", "SADD k m", "DEL k", "ZUNIONSTORE k 1 none"]);
    assert_eq!(take_served(&host), []);
    other.run_all(&["RPUSH k a"]);
    assert_eq!(take_served(&host), [2]);
    assert_eq!(wake(&mut lists, Wake::Served), "*2 $1 k $1 a");
    other.run("SET s v");
    other.check("BZPOPMAX none s k 0", WRONG_TYPE);
    other.check("BZMPOP 0 3 none s k MIN", WRONG_TYPE);
    other.check("MULTI", "+OK");
    other.run_all(&["BZPOPMIN none 0", "BZMPOP 0 1 s MIN", "ZADD k 1 a 2 b", "BZPOPMAX k 0"]);
    other.check("EXEC", &format!("*4 *-1 {WRONG_TYPE} :2 *3 $1 k $1 b $1 2"));
    assert_eq!(take_served(&host), [1]);
    assert_eq!(wake(&mut waiters[0], Wake::Served), "*3 $1 k $1 a $1 1");
}

#[test]
fn a_transaction_serves_when_it_is_complete() {
    for (requests, reply, left) in [
        (&["MULTI", "LPUSH k a", "LPUSH k b", "EXEC"][..], "*2 $1 k $1 b", ":1"),
        // The first key of the request, whichever was there first.
        (&["MULTI", "RPUSH l x", "RPUSH k a b", "EXEC"], "*2 $1 k $1 a", ":1"),
        (&["MULTI", "RPUSH k a", "DEL k", "RPUSH l x y", "EXEC"], "*2 $1 l $1 x", ":0"),
        (&["SELECT 1", "RPUSH k a", "SELECT 0", "SWAPDB 0 1"], "*2 $1 k $1 a", ":0"),
        (&["RPUSH m a", "RENAME m k"], "*2 $1 k $1 a", ":0"),
        (&["SET k v", "RPUSH l x"], "*2 $1 l $1 x", "-WRONGTYPE"),
    ] {
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let mut waiters = blocked(&engine, &host, 1, "BLPOP k l 0");
        let mut other = numbered(&engine, &host, 9);
        other.run_all(requests);
        assert_eq!(take_served(&host), [1], "{requests:?}");
        assert_eq!(wake(&mut waiters[0], Wake::Served), reply, "{requests:?}");
        let length = other.run("LLEN k");
        assert!(length.starts_with(left), "{length} {requests:?}");
    }
}

#[test]
fn what_is_no_list_leaves_those_waiting_who_want_one() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut waiters = blocked(&engine, &host, 2, "BLPOP k 0");
    let mut any = numbered(&engine, &host, 3);
    block(&mut any, "AWAIT k 0");
    let mut other = numbered(&engine, &host, 9);
    other.run_all(&["SET k v", "DEL k", "SADD k m", "DEL k"]);
    assert_eq!(take_served(&host), [3]);
    assert_eq!(wake(&mut any, Wake::Served), "$1 k");
    other.run("SET s v");
    other.check("BLPOP none s k 0", WRONG_TYPE);
    other.check("MULTI", "+OK");
    other.run_all(&["BLPOP none 0", "BLPOP s 0", "RPUSH k a b", "BRPOP k 0"]);
    other.check("EXEC", &format!("*4 *-1 {WRONG_TYPE} :2 *2 $1 k $1 b"));
    assert_eq!(take_served(&host), [1]);
    assert_eq!(wake(&mut waiters[0], Wake::Served), "*2 $1 k $1 a");
    assert_eq!(wake(&mut waiters[1], Wake::TimedOut), "*-1");
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn who_only_looks_is_told_as_long_as_the_key_is_there() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut pops: Vec<Client<'_>> = [1, 3].map(|id| numbered(&engine, &host, id)).into();
    let mut look = numbered(&engine, &host, 2);
    block(&mut pops[0], "BLPOP k 0");
    block(&mut look, "AWAIT k 0");
    block(&mut pops[1], "BLPOP k 0");
    let mut other = numbered(&engine, &host, 9);
    // The first takes the only element: then there is no key.
    other.check("RPUSH k a", ":1");
    assert_eq!(take_served(&host), [1]);
    other.check("RPUSH k b", ":1");
    assert_eq!(take_served(&host), [2, 3]);
    assert_eq!(wake(&mut look, Wake::Served), "$1 k");
    assert_eq!(wake(&mut pops[1], Wake::Served), "*2 $1 k $1 b");
    assert_eq!(wake(&mut pops[0], Wake::TimedOut), "*2 $1 k $1 a");
}

/// How a session stands that another has ended, and that is still to learn of it.
#[derive(Debug)]
struct Killed;

impl Attendance for Killed {
    fn may_serve(&self) -> bool {
        false
    }

    fn waits_on(&self) {}

    fn was_served(&self) {
        panic!("it may not be served");
    }

    fn place(&self) -> usize {
        0
    }
}

#[test]
fn nothing_is_taken_for_a_session_that_is_gone() {
    let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
    let mut killed = numbered(&engine, &host, 0);
    killed.session.attendance = Some(Arc::new(Killed));
    block(&mut killed, "BLPOP k 0");
    let mut waiters = blocked(&engine, &host, 4, "BLPOP k 0");
    assert_eq!(wake(&mut waiters[0], Wake::TimedOut), "*-1");
    waiters[1].close();
    assert_eq!(wake(&mut waiters[2], Wake::TimedOut), "*-1");
    let mut other = numbered(&engine, &host, 9);
    other.check("RPUSH k a b", ":2");
    assert_eq!(take_served(&host), [4]);
    assert_eq!(wake(&mut waiters[3], Wake::Refused), "*2 $1 k $1 a");
    other.check("LRANGE k 0 -1", "*1 $1 b");
}

/// How a session stands whose host takes the right to end its wait before it has it run its
/// request, as a server does.
#[derive(Debug, Default)]
struct Claimed {
    is_claimed: AtomicBool,
    waiter: OnceLock<Arc<Waiter>>,
}

impl Attendance for Claimed {
    fn may_serve(&self) -> bool {
        !self.is_claimed.load(Ordering::Relaxed)
    }

    fn waits_on(&self) {
        let waiter = self.waiter.get().expect("it waits");
        assert!(
            !matches!(*waiter.state(), WaitState::Open),
            "whoever finds it open passes it over"
        );
        self.is_claimed.store(false, Ordering::Relaxed);
    }

    fn was_served(&self) {}

    fn place(&self) -> usize {
        0
    }
}

#[test]
fn a_session_that_waits_on_is_served_before_its_host_does_anything_more() {
    for is_paused in [false, true] {
        let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
        host.command_stats.add_row(&MOVE);
        let claimed = Arc::new(Claimed::default());
        let mut first = numbered(&engine, &host, 1);
        first.session.attendance = Some(claimed.clone());
        assert_eq!(run(&mut first, &MOVE, "test-move k far").1.status, SessionStatus::Blocked);
        claimed.waiter.set(Arc::clone(first.session.waits.current().unwrap())).unwrap();
        let mut other = numbered(&engine, &host, 9);
        other.check("RPUSH k a", ":1");
        assert_eq!(take_served(&host), [1]);
        claimed.is_claimed.store(true, Ordering::Relaxed);
        if is_paused {
            host.pause.set(Some(Pause::Writes));
            assert_eq!(try_wake(&mut first, Wake::Served), None);
            host.pause.set(None);
            engine.serve_left(&mut other.execution);
        } else {
            other.check("LPOP k", "$1 a");
            assert_eq!(try_wake(&mut first, Wake::Served), None);
            other.check("RPUSH k b", ":1");
        }
        assert_eq!(take_served(&host), [1], "paused: {is_paused}");
    }
}

/// Moves an element from its key to another, which only its argument names; waits for one.
pub(super) static MOVE: Command = Command {
    name: "test-move",
    arity: Arity::exactly(3),
    flags: Flags::BLOCKING,
    keys: &[KeySpec::at(1, KeyFlags::RW)],
    handler: Handler::Write(run_move),
    ..Command::DEFAULT
};

fn run_move(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let source = args.key(0);
    if cx.view.collection::<List>(source)?.is_none() {
        return Err(Wait::new(Duration::ZERO, |reply| reply.null(), 1).into());
    }
    let [target] = cx.undeclared_keys([args.at(2)])?;
    let element = cx.view.pop(source, End::Head, 1, |list, _| {
        let mut element = Vec::new();
        list.for_each(0, 1, |it| element = it.to_vec());
        element
    })?;
    let element = element.expect("it has one");
    reply.bulk(&element);
    cx.view.push(&target, End::Tail, [element.as_slice()].into_iter(), WhenAbsent::Create)?;
    Ok(())
}

/// Waits for two keys and takes an element from the second.
static TAKE_SECOND: Command = Command {
    name: "test-take-second",
    arity: Arity::exactly(3),
    flags: Flags::BLOCKING,
    keys: &[KeySpec::at(1, KeyFlags::RW), KeySpec::at(2, KeyFlags::RW)],
    handler: Handler::Write(run_take_second),
    ..Command::DEFAULT
};

fn run_take_second(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    // Whoever serves it passes only the keys that are ready.
    let [key] = cx.undeclared_keys([args.at(2)])?;
    if cx.view.collection::<List>(&key)?.is_none() {
        return Err(Wait::new(Duration::ZERO, |reply| reply.null(), 2).into());
    }
    cx.view.pop(&key, End::Head, 1, |list, _| list.for_each(0, 1, |it| reply.bulk(it.to_vec())))?;
    Ok(())
}

/// How often [`run_chain`] has run.
static CHAIN_RUNS: AtomicUsize = AtomicUsize::new(0);

/// Asks for one key after the other, as a script would that reads from each the name of the next.
static CHAIN: Command = Command {
    name: "test-chain",
    arity: Arity::at_least(2),
    keys: &[KeySpec::at(1, KeyFlags::RW)],
    handler: Handler::Write(run_chain),
    ..Command::DEFAULT
};

fn run_chain(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    CHAIN_RUNS.fetch_add(1, Ordering::Relaxed);
    for index in 1..args.len() {
        let [key] = cx.undeclared_keys([args.at(index)])?;
        assert!(cx.view.string(&key)?.is_none());
    }
    reply.integer(args.len() as i64 - 1);
    Ok(())
}

/// Runs a request of a command that is not in the table.
pub(super) fn run(
    client: &mut Client<'_>,
    command: &'static Command,
    words: &str,
) -> (String, BatchEnd) {
    let request = OwnedRequest::new(words.split(' ').map(str::as_bytes));
    let mut out = Output::default();
    let mut reply = out.reply(client.session.state.protocol);
    let keyspace = client.engine.keyspace();
    let end = {
        let mut runner = Runner::new(keyspace, &mut client.session, &mut client.execution, true);
        let keys = runner.keys_of(command, request.view());
        runner.answer(command, request.view(), &keys, &mut reply);
        runner.end(1)
    };
    client.engine.serve_left(&mut client.execution);
    (String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end().to_owned(), end)
}

/// A key in another shard than `k`.
const FAR: &str = "far";

#[test]
fn a_command_gets_the_shards_that_it_asks_for() {
    let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
    host.command_stats.add_row(&MOVE);
    let hasher = engine.keyspace().hasher();
    assert_ne!(hasher.key(b"k").shard, hasher.key(FAR.as_bytes()).shard);
    let sink = recording_of(engine.keyspace());
    let mut client = numbered(&engine, &host, 1);
    client.run("RPUSH k a b");
    let (reply, end) = run(&mut client, &MOVE, "test-move k far");
    assert_eq!(
        (reply.as_str(), end.status, end.release.lsn),
        ("$1 a", SessionStatus::Open, sink.end())
    );
    assert_eq!(sink.commands()[1], "LPOP k 1 RPUSH far a", "it is one record");
    assert_eq!(run(&mut client, &MOVE, "test-move k k").0, "$1 b");
    // What it held is free, and the next command has its own locks.
    client.check("LRANGE far 0 -1", "*1 $1 a");
    client.run("SET s v");
    assert!(run(&mut client, &MOVE, "test-move s far").0.starts_with(WRONG_TYPE));
    // However many it asks for one by one, it is not run once for each.
    let words: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
    assert_eq!(run(&mut client, &CHAIN, &format!("test-chain {}", words.join(" "))).0, ":30");
    assert_eq!(CHAIN_RUNS.load(Ordering::Relaxed), 6);
}

#[test]
fn within_a_transaction_only_what_it_has_declared_is_locked() {
    let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
    host.command_stats.add_row(&MOVE);
    let mut client = numbered(&engine, &host, 1);
    client.run("RPUSH k a b");
    for (requests, expected) in [
        (&["MULTI", "EXISTS far"][..], "*2 :0 $1 a"),
        (
            &["MULTI"],
            "*1 -ERR inside a transaction a command may only use keys that the queued \
            requests declare",
        ),
    ] {
        client.run_all(requests);
        let request = OwnedRequest::new("test-move k far".split(' ').map(str::as_bytes));
        let transaction = client.session.state.transaction.as_mut().unwrap();
        transaction.push(&MOVE, request.view()).unwrap();
        client.check("EXEC", expected);
    }
    client.check("LRANGE k 0 -1", "*1 $1 b");
}

#[test]
fn who_needs_more_than_is_locked_runs_its_request_itself_in_its_turn() {
    let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
    host.command_stats.add_row(&MOVE);
    let mut first = numbered(&engine, &host, 1);
    let (reply, end) = run(&mut first, &MOVE, "test-move k far");
    assert_eq!((reply.as_str(), end.status), ("", SessionStatus::Blocked));
    let mut second = numbered(&engine, &host, 2);
    block(&mut second, "BLPOP k 0");
    let mut other = numbered(&engine, &host, 9);
    // Nobody behind is served before the first has had its turn.
    other.check("RPUSH k a", ":1");
    assert_eq!(take_served(&host), [1]);
    // What it was told of is gone: it waits on, in its place.
    other.check("LPOP k", "$1 a");
    assert_eq!(try_wake(&mut first, Wake::Served), None);
    other.check("RPUSH k b", ":1");
    assert_eq!(take_served(&host), [1]);
    other.check("RPUSH k c", ":2");
    assert_eq!(take_served(&host), []);
    assert_eq!(wake(&mut first, Wake::Served), "$1 b");
    assert_eq!(take_served(&host), [2], "what it left is for the next");
    assert_eq!(wake(&mut second, Wake::Served), "*2 $1 k $1 c");
    other.check("LRANGE far 0 -1", "*1 $1 b");
}

#[test]
fn a_session_that_waits_on_is_served_for_what_those_behind_it_do() {
    let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
    host.command_stats.add_row(&MOVE);
    host.command_stats.add_row(&TAKE_SECOND);
    let mut first = numbered(&engine, &host, 1);
    let (_, end) = run(&mut first, &TAKE_SECOND, "test-take-second k far");
    assert_eq!(end.status, SessionStatus::Blocked);
    let mut second = numbered(&engine, &host, 2);
    assert_eq!(run(&mut second, &MOVE, "test-move k far").1.status, SessionStatus::Blocked);
    numbered(&engine, &host, 9).check("RPUSH k a", ":1");
    assert_eq!(take_served(&host), [1]);
    // It finds nothing itself, and the second moves the element to where it is wanted.
    assert_eq!(try_wake(&mut first, Wake::Served), None);
    assert_eq!(take_served(&host), [2, 1]);
    assert_eq!(wake(&mut second, Wake::Served), "$1 a");
    assert_eq!(wake(&mut first, Wake::Served), "$1 a");
}

#[test]
fn who_is_told_and_goes_leaves_it_to_the_next() {
    for is_closed in [true, false] {
        let (engine, mut host) = (Engine::new(keyspace(64)), TestHost::default());
        host.command_stats.add_row(&MOVE);
        let mut first = numbered(&engine, &host, 1);
        assert_eq!(run(&mut first, &MOVE, "test-move k far").1.status, SessionStatus::Blocked);
        let mut second = numbered(&engine, &host, 2);
        block(&mut second, "BLPOP k 0");
        numbered(&engine, &host, 9).check("RPUSH k a", ":1");
        assert_eq!(take_served(&host), [1]);
        match is_closed {
            true => first.close(),
            false => assert_eq!(wake(&mut first, Wake::TimedOut), "$-1"),
        }
        assert_eq!(take_served(&host), [2]);
        assert_eq!(wake(&mut second, Wake::Served), "*2 $1 k $1 a");
    }
}

/// What elements are put into three keys with, and taken from.
struct Kept {
    /// Returns the request that adds an element to a key.
    put: fn(key: &str, element: &str) -> String,
    take: &'static str,
    /// Returns the request for all elements of a key.
    all: fn(key: &str) -> String,
}

const KEPT: [Kept; 2] = [
    Kept {
        put: |key, element| format!("RPUSH {key} {element}"),
        take: "BLPOP a b {a}c 0",
        all: |key| format!("LRANGE {key} 0 -1"),
    },
    Kept {
        put: |key, element| format!("ZADD {key} 1 {element}"),
        take: "BZMPOP 0 3 a b {a}c MIN COUNT 1",
        all: |key| format!("ZRANGE {key} 0 -1"),
    },
];

/// Returns the elements in a reply: they have a colon inside.
fn elements(reply: &str) -> impl Iterator<Item = String> {
    reply.split(' ').filter(|word| word.trim_start_matches(':').contains(':')).map(str::to_owned)
}

/// Each element is taken once, or is still there, and nobody waits while there is one: many short
/// histories, as it is at their ends that it shows.
#[test]
fn every_element_goes_to_one_session() {
    const KEYS: [&str; 3] = ["a", "b", "{a}c"];
    for seed in 0..if cfg!(debug_assertions) { 40 } else { 400 } {
        let kept = &KEPT[seed as usize % KEPT.len()];
        let (engine, host) = (Engine::new(keyspace(4)), TestHost::default());
        let writers = AtomicUsize::new(3);
        let (mut taken, waiting) = std::thread::scope(|scope| {
            let (engine, host, writers) = (&engine, &host, &writers);
            for number in 0..3 {
                scope.spawn(move || {
                    let mut client = numbered(engine, host, 100 + number);
                    let mut random = Prng::new(seed * 100 + number);
                    for element in 0..40 {
                        let key = KEYS[random.below(3) as usize];
                        let put = (kept.put)(key, &format!("{number}:{element}"));
                        match random.below(3) {
                            0 => drop(client.run_all(&["MULTI", &put, "SET x v", "EXEC"])),
                            _ => drop(client.run(&put)),
                        }
                    }
                    writers.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let take = |id| take(&mut numbered(engine, host, id), kept.take, host, writers);
            let takers: Vec<_> = (1..=5).map(|id| scope.spawn(move || take(id))).collect();
            let results = takers.into_iter().map(|taker| taker.join().unwrap());
            results.fold((Vec::new(), 0), |(mut all, waiting), (taken, waits)| {
                all.extend(taken);
                (all, waiting + usize::from(waits))
            })
        });
        let mut client = numbered(&engine, &host, 99);
        let mut left = 0;
        for key in KEYS {
            let reply = client.run(&(kept.all)(key));
            let before = taken.len();
            taken.extend(elements(&reply));
            left += taken.len() - before;
        }
        assert!(left == 0 || waiting == 0, "seed {seed}: {left} are left, {waiting} wait");
        taken.sort();
        let mut all: Vec<String> =
            (0..3).flat_map(|it| (0..40).map(move |element| format!("{it}:{element}"))).collect();
        all.sort();
        assert_eq!(taken, all, "seed {seed}");
    }
}

/// Takes elements by `request` until `writers` are gone and it would wait; returns them, and
/// whether it did.
fn take(
    client: &mut Client<'_>,
    request: &str,
    host: &TestHost,
    writers: &AtomicUsize,
) -> (Vec<String>, bool) {
    let id = client.session.state.id;
    let mut taken = Vec::new();
    loop {
        let (reply, end) = client.batch(&[request]);
        if end.status == SessionStatus::Open {
            taken.extend(elements(&reply));
            continue;
        }
        loop {
            let is_over = writers.load(Ordering::SeqCst) == 0;
            let mut served = host.served.lock().unwrap();
            if let Some(mine) = served.iter().position(|one| one.session == id) {
                served.remove(mine);
                drop(served);
                taken.extend(elements(&wake(client, Wake::Served)));
                break;
            }
            drop(served);
            if is_over {
                // It may have been served just now.
                let reply = wake(client, Wake::TimedOut);
                taken.extend(elements(&reply));
                return (taken, reply == "*-1");
            }
            std::thread::yield_now();
        }
    }
}
