//! Consumers that follow the changes of an instance.

use std::sync::Arc;
use std::time::Duration;

use base::{DatabaseIndex, UnixMs};
use effects::{Cause, Effect, Filter};
use runtime::{Changes, Embedded, EmbeddedOptions, Environment, ManualClock};

fn embedded() -> Embedded {
    embedded_at(&Arc::new(ManualClock::new(UnixMs(1_700_000_000_000))))
}

fn embedded_at(clock: &Arc<ManualClock>) -> Embedded {
    let environment = Environment::simulated(Arc::clone(clock), 1);
    Embedded::open(&EmbeddedOptions::default(), environment).expect("there is memory")
}

#[test]
fn backlog_counts_in_memory_from_the_first_call_on() {
    let embedded = embedded();
    let keyspace = embedded.runtime().keyspace();
    let before = keyspace.used_memory();
    let backlog = embedded.runtime().backlog();
    let bytes = EmbeddedOptions::default().instance.backlog_bytes;
    let grown = keyspace.used_memory() - before;
    assert!((bytes / 2..bytes + (256 << 10)).contains(&grown), "{grown} bytes more");
    assert!(Arc::ptr_eq(backlog, embedded.runtime().backlog()), "there is one for all");
}

/// Returns what `changes` has that was not read, each as its cause and its key.
fn read(changes: &mut Changes) -> Vec<(Cause, String)> {
    let mut read = Vec::new();
    let count = changes.read(|_, change| {
        let key = change.effect.keys().next().unwrap_or(b"*");
        read.push((change.cause, String::from_utf8_lossy(key).into_owned()));
    });
    assert_eq!(count.expect("the backlog is long enough"), read.len() as u64);
    read
}

#[test]
fn followers_see_what_their_filters_accept_from_positions_of_their_own() {
    let clock = Arc::new(ManualClock::new(UnixMs(1_700_000_000_000)));
    let embedded = embedded_at(&clock);
    let mut session = embedded.session();
    let mut ask = |request: &str| {
        let reply = session.run(&request.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with(b"-"), "{request}: {}", reply.escape_ascii());
    };
    ask("SET user:0 before");
    let mut all = embedded.changes(Filter::default());
    let users = Filter { key_prefix: b"user:".to_vec(), ..Filter::default() };
    let mut users = embedded.changes(users);
    ask("SET user:1 a PX 1000");
    ask("GET user:1");
    ask("HSET host:1 field value");
    let by_command = |key: &str| (Cause::Command, key.to_owned());
    assert_eq!(read(&mut users), [by_command("user:1")]);
    let mut others =
        embedded.changes(Filter { database: Some(DatabaseIndex(1)), ..Filter::default() });
    clock.advance(Duration::from_secs(2));
    ask("GET user:1");
    ask("SELECT 1");
    ask("RPUSH queue 1 2 3");
    let expired = (Cause::ExpiredOnAccess, "user:1".to_owned());
    assert_eq!(read(&mut users), std::slice::from_ref(&expired));
    assert_eq!(
        read(&mut all),
        [by_command("user:1"), by_command("host:1"), expired, by_command("queue")]
    );
    assert_eq!(read(&mut others), [by_command("queue")]);
    assert_eq!(read(&mut all), []);
}

#[test]
fn follower_that_is_too_slow_is_told_and_what_happens_at_once_has_one_lsn() {
    let embedded = embedded();
    let mut session = embedded.session();
    let mut changes = embedded.changes(Filter::default());
    session.run(&["MULTI"]);
    session.run(&["SET", "a", "1"]);
    session.run(&["APPEND", "b", "2"]);
    session.run(&["EXEC"]);
    let mut seen = Vec::new();
    let count = changes.read(|record, change| {
        assert!(matches!(change.effect, Effect::Set { .. } | Effect::Append { .. }));
        seen.push(record.lsn);
    });
    assert_eq!(count, Ok(2));
    assert_eq!(seen[0], seen[1]);
    let value = "x".repeat(100_000);
    for _ in 0..30 {
        session.run(&["SET", "large", &value]);
    }
    let lost = changes.read(|_, _| panic!("it is lost")).expect_err("it is lost");
    assert!(lost.oldest > seen[0]);
    assert_eq!(changes.read(|_, _| panic!("it is lost")), Err(lost), "it stays so");
    let mut kept = embedded.changes_from(lost.oldest, Filter::default()).expect("so much is kept");
    assert!((1..30).contains(&read(&mut kept).len()));
    session.run(&["SET", "last", "1"]);
    assert_eq!(read(&mut kept), [(Cause::Command, "last".to_owned())]);
    // As does one that remembers where it was.
    let position = kept.position();
    session.run(&["DEL", "last"]);
    let mut again = embedded.changes_from(position, Filter::default()).expect("it is kept");
    assert_eq!(read(&mut again), read(&mut kept));
    assert!(embedded.changes_from(seen[0], Filter::default()).is_err());
}

#[test]
fn one_read_ends_though_changes_go_on() {
    let embedded = embedded();
    let mut session = embedded.session();
    let mut changes = embedded.changes(Filter::default());
    session.run(&["SET", "key", "first"]);
    // Each change that is seen makes another one, as that of a writer that never rests.
    let value = "x".repeat(100_000);
    let mut visited = 0;
    let count = changes.read(|_, _| {
        visited += 1;
        assert!(visited < 10, "it does not end");
        session.run(&["SET", "key", &value]);
    });
    assert_eq!(count, Ok(1));
    assert_eq!(changes.read(|_, _| ()), Ok(1), "the others are not lost");
}
