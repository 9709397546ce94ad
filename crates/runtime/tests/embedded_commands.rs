//! Every command of the table runs on an embedded instance.

use std::sync::Arc;
use std::time::Duration;

use base::UnixMs;
use command::generate::{Draw, Generator, Profile};
use command::{Command, Handler, rows};
use keyspace::EvictionPolicy;
use runtime::{
    Embedded, EmbeddedOptions, Environment, ManualClock, Memory, Options, Session, Tuning,
};

const NOW: UnixMs = UnixMs(1_700_000_000_000);
/// Requests that are drawn of each command.
const REQUESTS_PER_COMMAND: u64 = 20;
/// How the refusal of what an embedded instance does not have ends.
const REFUSALS: [&str; 5] = [
    "-ERR this needs clients of a network, which an embedded instance does not have\r\n",
    "-ERR control of the process is not available in an embedded instance\r\n",
    "-ERR files of the dataset are not available in an embedded instance\r\n",
    "-ERR shared memory is not available in an embedded instance\r\n",
    "-ERR connections to other servers are not available in an embedded instance\r\n",
];
/// The commands that need a network, a process, files or somebody who maps the memory.
const REFUSED: [&str; 23] = [
    "backup|status",
    "backup|to",
    "bgrewriteaof",
    "bgsave",
    "client|kill",
    "client|list",
    "client|pause",
    "client|unblock",
    "client|unpause",
    "config|rewrite",
    "migrate",
    "monitor",
    "save",
    "shm|alloc",
    "shm|attach",
    "shm|close",
    "shm|free",
    "shm|lane",
    "shm|open",
    "shm|seal",
    "shm|segments",
    "shm|upload",
    "shutdown",
];

fn embedded(clock: &Arc<ManualClock>, allows_debug: bool) -> Embedded {
    let options = EmbeddedOptions { allows_debug, ..EmbeddedOptions::default() };
    Embedded::open(&options, Environment::simulated(Arc::clone(clock), 1)).expect("there is memory")
}

fn commands() -> impl Iterator<Item = &'static Command> {
    rows().filter(|row| !matches!(row.handler, Handler::Container))
}

fn run(session: &mut Session<'_>, request: &str) -> String {
    let words: Vec<&str> = request.split(' ').collect();
    String::from_utf8_lossy(&session.run(&words)).into_owned()
}

/// How long the longest wait is that a test lets end.
const WAIT_SECONDS_MAX: u64 = 1 << 20;

/// Checks that `request` is answered, at once or when its time is over, and returns the reply. A
/// wait that is drawn longer than tests wait has none.
fn reply_of(session: &mut Session<'_>, clock: &ManualClock, request: &[Vec<u8>]) -> Vec<u8> {
    let reply = session.run(request);
    if !session.is_blocked() {
        return reply;
    }
    assert_eq!(reply, b"", "the reply of what waits comes later");
    clock.advance(Duration::from_secs(WAIT_SECONDS_MAX));
    session.poll().unwrap_or_else(|| {
        // Its time is the first argument or the last; what rounds to no millisecond is for ever.
        let words = request.iter().map(|word| String::from_utf8_lossy(word));
        let is_long = |seconds: f64| {
            seconds > WAIT_SECONDS_MAX as f64 || (seconds <= 0.0 && seconds > -0.001)
        };
        let has_long = words.clone().any(|word| word.parse().is_ok_and(is_long));
        assert!(has_long, "the time is over: {:?}", words.collect::<Vec<_>>());
        b"*-1\r\n".to_vec()
    })
}

#[test]
fn every_command_answers() {
    let profile = Profile { invalid_one_in: 0, ..Profile::default() };
    for allows_debug in [false, true] {
        let clock = Arc::new(ManualClock::new(NOW));
        let embedded = embedded(&clock, allows_debug);
        let mut generator = Generator::new(profile, 1);
        for command in commands() {
            for _ in 0..REQUESTS_PER_COMMAND {
                let mut session = embedded.session();
                let request = generator.request(command);
                let reply = reply_of(&mut session, &clock, &request);
                let text = String::from_utf8_lossy(&reply);
                let is_silent = command.name == "client|reply";
                assert!(is_silent || reply.ends_with(b"\r\n"), "{}: {text}", command.name);
                assert!(!text.contains("-ERR unknown"), "{}: {text}", command.name);
            }
        }
    }
}

#[test]
fn what_needs_a_network_is_refused_with_the_reason_and_nothing_else_is() {
    let clock = Arc::new(ManualClock::new(NOW));
    let embedded = embedded(&clock, false);
    let mut generator = Generator::new(Profile::default(), 2);
    let mut refused: Vec<&str> = Vec::new();
    // Keys that the requests name: MIGRATE looks for its own first.
    let keys = (0..Profile::default().key_count).map(|number| format!("key:{number} v"));
    let fill = format!("MSET {}", keys.collect::<Vec<_>>().join(" "));
    for command in commands() {
        run(&mut embedded.session(), &fill);
        let replies = (0..REQUESTS_PER_COMMAND).map(|_| {
            let request = generator.request(command);
            reply_of(&mut embedded.session(), &clock, &request)
        });
        let is_refusal = |reply: Vec<u8>| REFUSALS.iter().any(|text| text.as_bytes() == reply);
        if replies.map(is_refusal).fold(false, |any, it| any | it) {
            refused.push(command.name);
        }
    }
    refused.sort_unstable();
    assert_eq!(refused, REFUSED);
}

#[test]
fn no_request_ends_the_process_that_an_instance_is_in() {
    let clock = Arc::new(ManualClock::new(NOW));
    let embedded = embedded(&clock, true);
    let mut session = embedded.session();
    run(&mut session, "RPUSH list a b");
    for request in [
        "ASSERT",
        "OOM",
        "PANIC",
        "SEGFAULT",
        "LOG text",
        "LISTPACK list",
        "PAUSE-CRON 1",
        "CONFIG-REWRITE-FORCE-ALL",
    ] {
        assert_eq!(run(&mut session, &format!("DEBUG {request}")), REFUSALS[1], "{request}");
    }
    assert_eq!(run(&mut session, "DEBUG SLEEP 1.5"), "+OK\r\n");
    assert_eq!(embedded.runtime().clock().steady_ns(), 1_500_000_000);
}

#[test]
fn a_wait_ends_by_a_key_or_by_its_time() {
    let clock = Arc::new(ManualClock::new(NOW));
    let embedded = embedded(&clock, false);
    let (mut waiter, mut writer) = (embedded.session(), embedded.session());
    assert_eq!(run(&mut waiter, "AWAIT lake 10"), "");
    assert!(waiter.is_blocked() && waiter.poll().is_none());
    assert!(run(&mut waiter, "PING").starts_with("-ERR this session waits"));
    assert_eq!(run(&mut writer, "SET lake Constance"), "+OK\r\n");
    assert_eq!(waiter.poll().unwrap(), b"$4\r\nlake\r\n");
    assert_eq!(run(&mut waiter, "DEL lake"), ":1\r\n");
    assert_eq!(run(&mut waiter, "AWAIT lake 10"), "");
    clock.advance(Duration::from_secs(9));
    assert!(waiter.poll().is_none());
    clock.advance(Duration::from_secs(1));
    assert_eq!(waiter.poll().unwrap(), b"$-1\r\n");
    assert_eq!(run(&mut waiter, "PING"), "+PONG\r\n");
}

#[test]
fn a_session_that_was_dropped_leaves_nothing() {
    let clock = Arc::new(ManualClock::new(NOW));
    let embedded = embedded(&clock, false);
    let private_bytes = || embedded.runtime().keyspace().private_bytes();
    let before = private_bytes();
    let mut session = embedded.session();
    run(&mut session, "WATCH a b c");
    run(&mut session, "AWAIT d 0");
    assert!(private_bytes() > before);
    drop(session);
    assert_eq!(private_bytes(), before);
}

#[test]
fn a_session_ends_with_quit() {
    let clock = Arc::new(ManualClock::new(NOW));
    let embedded = embedded(&clock, false);
    let mut session = embedded.session();
    assert_eq!(run(&mut session, "QUIT"), "+OK\r\n");
    assert!(!session.is_open());
    assert_eq!(run(&mut session, "PING"), "-ERR this session has ended\r\n");
}

#[test]
fn a_sweep_removes_what_has_expired() {
    let clock = Arc::new(ManualClock::new(NOW));
    let embedded = embedded(&clock, false);
    let mut session = embedded.session();
    for number in 0..100 {
        run(&mut session, &format!("SET key:{number} value PX 500"));
    }
    embedded.sweep();
    assert_eq!(run(&mut session, "DBSIZE"), ":100\r\n");
    clock.advance(Duration::from_secs(1));
    // Rounds that found nothing are followed by some that do not look.
    (0..4).for_each(|_| embedded.sweep());
    assert_eq!(run(&mut session, "DBSIZE"), ":0\r\n");
    assert!(run(&mut session, "INFO stats").contains("\r\nexpired_keys:100\r\n"));
}

#[test]
fn an_instance_may_have_memory_that_others_map_and_the_time_of_the_system() {
    let memory = Memory::Shared { segment_bytes: 1 << 20, takes_pages_up_front: false };
    let instance = Options { memory, ..Options::default() };
    let options = EmbeddedOptions { instance, ..EmbeddedOptions::default() };
    let embedded = Embedded::open(&options, Environment::system()).unwrap();
    assert!(embedded.runtime().segments().is_some());
    let mut session = embedded.session();
    assert_eq!(run(&mut session, "SET key value PXAT 1 GET"), "$-1\r\n");
    assert_eq!(run(&mut session, "SET other value PX 100000000"), "+OK\r\n");
    assert_eq!(run(&mut session, "EXISTS key other"), ":1\r\n", "the system's time is later");
    embedded.sweep();
    assert_eq!(run(&mut session, "DBSIZE"), ":1\r\n");
}

#[test]
fn a_limit_that_is_lowered_takes_effect_with_the_next_sweep() {
    let clock = Arc::new(ManualClock::new(NOW));
    let memory = Memory::Heap { segment_bytes: 1 << 16, segment_count: 1024 };
    let instance = Options { memory, ..Options::default() };
    let options = EmbeddedOptions { instance, ..EmbeddedOptions::default() };
    let environment = Environment::simulated(Arc::clone(&clock), 1);
    let embedded = Embedded::open(&options, environment).unwrap();
    let mut session = embedded.session();
    let value = "v".repeat(1000);
    for number in 0..4000 {
        run(&mut session, &format!("SET key:{number} {value}"));
    }
    let maxmemory = embedded.runtime().startup_bytes() + (1 << 20);
    let policy = EvictionPolicy::ALLKEYS_LRU;
    embedded.tune(Tuning { maxmemory, policy, ..Tuning::default() });
    assert!(embedded.runtime().keyspace().is_over_limit());
    embedded.sweep();
    assert!(!embedded.runtime().keyspace().is_over_limit());
    assert!(!run(&mut session, "INFO stats").contains("\r\nevicted_keys:0\r\n"));
}

#[test]
fn info_and_config_tell_of_the_instance() {
    let clock = Arc::new(ManualClock::new(NOW));
    let embedded = embedded(&clock, false);
    let mut session = embedded.session();
    let policy = "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n";
    assert_eq!(run(&mut session, "CONFIG GET maxmemory-policy"), policy);
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - can't set \
                   immutable config\r\n";
    assert_eq!(run(&mut session, "CONFIG SET maxmemory 1gb"), refused);
    run(&mut session, "SET key value");
    let info = run(&mut session, "INFO");
    for wanted in ["# Server", "used_memory:", "total_commands_processed:3", "db0:keys=1,"] {
        assert!(info.contains(wanted), "{wanted} in {info}");
    }
    assert!(run(&mut session, "TIME").contains("\r\n1700000000\r\n"));
}
