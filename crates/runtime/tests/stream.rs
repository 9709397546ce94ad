//! Who follows the changes of an instance.

use std::sync::Arc;

use base::UnixMs;
use runtime::{Embedded, EmbeddedOptions, Environment, ManualClock};

fn embedded() -> Embedded {
    let clock = Arc::new(ManualClock::new(UnixMs(1_700_000_000_000)));
    Embedded::open(&EmbeddedOptions::default(), Environment::simulated(clock, 1))
        .expect("there is memory")
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
