//! An instance of the data store inside a program: no server, no socket, no thread, and a clock
//! that the program advances.

use std::sync::Arc;
use std::time::Duration;

use base::UnixMs;
use runtime::{Embedded, EmbeddedOptions, Environment, ManualClock, OpenError};

fn main() -> Result<(), OpenError> {
    run(|request, reply| println!("{request} -> {reply}"))
}

/// Runs some requests and shows each with its reply.
pub fn run(mut show: impl FnMut(&str, &str)) -> Result<(), OpenError> {
    let clock = Arc::new(ManualClock::new(UnixMs(1_700_000_000_000)));
    let environment = Environment::simulated(Arc::clone(&clock), 42);
    let runtime = Embedded::open(&EmbeddedOptions::default(), environment)?;
    let mut session = runtime.session();
    let mut ask = |request: &str| {
        let words: Vec<&str> = request.split(' ').collect();
        show(request, &session.run(&words).escape_ascii().to_string());
    };
    ask("SET lake Constance");
    ask("GET lake");
    ask("HSET depth Constance 251 Geneva 310");
    ask("HGET depth Geneva");
    ask("EXPIRE lake 10");
    ["MULTI", "INCRBY visits 7", "TTL lake", "EXEC"].into_iter().for_each(&mut ask);
    clock.advance(Duration::from_secs(11));
    ask("GET lake");
    runtime.sweep();
    ask("DBSIZE");
    ask("SHUTDOWN");
    Ok(())
}
